/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A reliable endpoint without visible connections (FI_EP_RDM): it communicates with any number of peers. */
#ifndef RDM_H
#define RDM_H

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include "example.h"

/* ANCHOR: open */
struct rdm {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_av *av;
    struct fid_ep *ep;
};

/* caps: FI_MSG, FI_TAGGED, FI_RMA, FI_ATOMIC. wait: FI_WAIT_NONE if the queue is only polled, or FI_WAIT_FD. */
static inline struct rdm rdm_open(const char *provider, uint64_t caps, enum fi_wait_obj wait)
{
    struct rdm r = { 0 };

    /* 1. The requirements. fi_freeinfo frees the name, so it is a copy. */
    struct fi_info *hints = fi_allocinfo();
    expect(hints != NULL);
    hints->caps = caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2; /* contexts of operations are struct fi_context2 here */
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->fabric_attr->prov_name = strdup(provider);

    /* 2. The entries that meet them: a list, the best first. */
    must(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &r.info));
    fi_freeinfo(hints);

    /* 3. The objects. */
    struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = wait };
    struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
    must(fi_fabric(r.info->fabric_attr, &r.fabric, NULL));
    must(fi_domain(r.fabric, r.info, &r.domain, NULL));
    must(fi_cq_open(r.domain, &cq_attr, &r.cq, NULL));
    must(fi_av_open(r.domain, &av_attr, &r.av, NULL));
    must(fi_endpoint(r.domain, r.info, &r.ep, NULL));

    /* 4. The endpoint reports to the queue, and uses the vector's numbers for peers. */
    must(fi_ep_bind(r.ep, &r.cq->fid, FI_TRANSMIT | FI_RECV));
    must(fi_ep_bind(r.ep, &r.av->fid, 0));
    must(fi_enable(r.ep));
    return r;
}
/* ANCHOR_END: open */

/* ANCHOR: meet */
/* The name of an endpoint, in the form that processes exchange. */
struct name {
    size_t len;
    char bytes[256];
};

static inline struct name rdm_name(struct rdm *r)
{
    struct name name = { sizeof name.bytes, { 0 } };
    must(fi_getname(&r->ep->fid, name.bytes, &name.len));
    return name;
}

/* The number of the endpoint with that name in this address vector. */
static inline fi_addr_t rdm_insert(struct rdm *r, const struct name *name)
{
    fi_addr_t peer;
    expect(must(fi_av_insert(r->av, name->bytes, 1, &peer, 0, NULL)) == 1);
    return peer;
}

/* The other process's endpoint. */
static inline fi_addr_t rdm_meet(struct rdm *r, struct pair *pair)
{
    struct name ours = rdm_name(r), theirs;
    exchange(pair, &ours, &theirs, sizeof ours);
    return rdm_insert(r, &theirs);
}
/* ANCHOR_END: meet */

/* ANCHOR: wait */
/* Returns true if `result` means that there is no room now. Reading the queue makes room: do that, and try again. */
static inline bool again(ssize_t result)
{
    return result == -FI_EAGAIN || must(result) < 0;
}

/* Prints the reason of a failed operation: its error entry has the number and the provider's text. */
static inline void cq_failed(struct fid_cq *cq)
{
    struct fi_cq_err_entry error = { 0 };
    char words[128];
    must(fi_cq_readerr(cq, &error, 0));
    fprintf(stderr, "operation failed: %s (%s)\n", fi_strerror(error.err),
            fi_cq_strerror(cq, error.prov_errno, error.err_data, words, sizeof words));
    exit(1);
}

/* Polls for one completion; returns false if there is none yet. */
static inline bool cq_poll(struct fid_cq *cq, struct fi_cq_tagged_entry *entry)
{
    ssize_t n = fi_cq_read(cq, entry, 1);
    if (n == -FI_EAGAIN)
        return false;
    if (n == -FI_EAVAIL)
        cq_failed(cq);
    must(n);
    return true;
}

/* Waits for one completion. Reading also moves the data: with manual progress, nothing else does. */
static inline struct fi_cq_tagged_entry cq_wait(struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;
    while (!cq_poll(cq, &entry))
        ;
    return entry;
}
/* ANCHOR_END: wait */

/* ANCHOR: close */
/* Objects that use others are closed first. fi_close of the endpoint waits until sent messages are delivered. */
static inline void rdm_close(struct rdm *r)
{
    must(fi_close(&r->ep->fid));
    must(fi_close(&r->av->fid));
    must(fi_close(&r->cq->fid));
    must(fi_close(&r->domain->fid));
    must(fi_close(&r->fabric->fid));
    fi_freeinfo(r->info);
}
/* ANCHOR_END: close */

#endif
