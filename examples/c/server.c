/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A server that listens with a passive endpoint, and a client that connects (FI_EP_MSG), sends a greeting and
 * disconnects. The server serves one client after another. */
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include "example.h"

static struct fi_info *hints_for(const char *provider)
{
    struct fi_info *hints = fi_allocinfo();
    expect(hints != NULL);
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_MSG;
    hints->fabric_attr->prov_name = strdup(provider);
    return hints;
}

/* ANCHOR: event */
/* The next connection event must be `wanted`. It may contain bytes of the peer after the entry. */
static struct fi_info *event(struct fid_eq *eq, uint32_t wanted)
{
    struct fi_eq_cm_entry entry;
    uint32_t got;
    ssize_t n = fi_eq_sread(eq, &got, &entry, sizeof entry, 20000, 0);
    if (n == -FI_EAVAIL) {
        struct fi_eq_err_entry error = { 0 };
        must(fi_eq_readerr(eq, &error, 0));
        fprintf(stderr, "connection: %s\n", fi_strerror(error.err));
        exit(1);
    }
    must(n); /* -FI_EAGAIN here: 20 s without an event */
    expect(got == wanted);
    return wanted == FI_CONNREQ ? entry.info : NULL;
}
/* ANCHOR_END: event */

struct conn {
    struct fid_domain *domain;
    struct fid_cq *cq;
    struct fid_ep *ep;
};

/* ANCHOR: connection */
/* An endpoint for one connection: a client opens it by its own info, a server by that of the request. */
static struct conn open_conn(struct fid_fabric *fabric, struct fid_eq *eq, struct fi_info *info)
{
    struct conn c;
    struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_UNSPEC };
    must(fi_domain(fabric, info, &c.domain, NULL));
    must(fi_cq_open(c.domain, &cq_attr, &c.cq, NULL));
    must(fi_endpoint(c.domain, info, &c.ep, NULL));
    must(fi_ep_bind(c.ep, &eq->fid, 0));
    must(fi_ep_bind(c.ep, &c.cq->fid, FI_TRANSMIT | FI_RECV));
    must(fi_enable(c.ep));
    return c;
}

static void close_conn(struct conn *c)
{
    must(fi_close(&c->ep->fid));
    must(fi_close(&c->cq->fid));
    must(fi_close(&c->domain->fid));
}
/* ANCHOR_END: connection */

static struct fi_cq_msg_entry completion(struct fid_cq *cq)
{
    struct fi_cq_msg_entry entry;
    must(fi_cq_sread(cq, &entry, 1, NULL, 20000));
    return entry;
}

/* ANCHOR: server */
static void serve(const struct options *opts, struct pair *pair)
{
    struct fi_info *hints = hints_for(opts->provider), *info;
    struct fid_fabric *fabric;
    struct fid_eq *eq;
    struct fid_pep *pep;
    struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };

    must(fi_getinfo(FI_VERSION(2, 0), "127.0.0.1", "0", FI_SOURCE, hints, &info)); /* any port */
    must(fi_fabric(info->fabric_attr, &fabric, NULL));
    must(fi_eq_open(fabric, &eq_attr, &eq, NULL));
    must(fi_passive_ep(fabric, info, &pep, NULL));
    must(fi_pep_bind(pep, &eq->fid, 0));
    must(fi_listen(pep));

    /* The address, with the port that the system chose. */
    struct { size_t len; char bytes[64]; } name = { sizeof name.bytes, { 0 } }, unused;
    must(fi_getname(&pep->fid, name.bytes, &name.len));
    exchange(pair, &name, &unused, sizeof name);

    for (long i = 0; i < opts->count; i++) {
        struct fi_info *request = event(eq, FI_CONNREQ);
        struct conn c = open_conn(fabric, eq, request);
        struct fi_context2 context;
        long number = -1;
        must(fi_recv(c.ep, &number, sizeof number, NULL, 0, &context)); /* before the first message can arrive */
        must(fi_accept(c.ep, NULL, 0));
        fi_freeinfo(request);
        event(eq, FI_CONNECTED);

        expect(completion(c.cq).len == sizeof number && number == i);
        number = -number;
        must(fi_send(c.ep, &number, sizeof number, NULL, 0, &context));
        expect(completion(c.cq).flags & FI_SEND);
        event(eq, FI_SHUTDOWN); /* the client is done, and disconnects */
        close_conn(&c);
    }
    must(fi_close(&pep->fid));
    must(fi_close(&eq->fid));
    must(fi_close(&fabric->fid));
    fi_freeinfo(info);
    fi_freeinfo(hints);
}
/* ANCHOR_END: server */

/* ANCHOR: client */
static void call(const struct options *opts, struct pair *pair)
{
    struct { size_t len; char bytes[64]; } name, unused = { 0 };
    exchange(pair, &unused, &name, sizeof name);

    for (long i = 0; i < opts->count; i++) {
        struct fi_info *hints = hints_for(opts->provider), *info;
        struct fid_fabric *fabric;
        struct fid_eq *eq;
        struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };

        hints->dest_addr = memcpy(malloc(name.len), name.bytes, name.len);
        hints->dest_addrlen = name.len;
        hints->addr_format = FI_SOCKADDR_IN;
        must(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info));
        must(fi_fabric(info->fabric_attr, &fabric, NULL));
        must(fi_eq_open(fabric, &eq_attr, &eq, NULL));
        struct conn c = open_conn(fabric, eq, info);
        struct fi_context2 sending, receiving;
        long answer = 1;
        must(fi_recv(c.ep, &answer, sizeof answer, NULL, 0, &receiving));
        must(fi_connect(c.ep, info->dest_addr, NULL, 0));
        event(eq, FI_CONNECTED);

        must(fi_send(c.ep, &i, sizeof i, NULL, 0, &sending));
        completion(c.cq);
        completion(c.cq); /* of the send and of the answer, in any order */
        expect(answer == -i);
        must(fi_shutdown(c.ep, 0));
        close_conn(&c);
        must(fi_close(&eq->fid));
        must(fi_close(&fabric->fid));
        fi_freeinfo(info);
        fi_freeinfo(hints);
    }
}
/* ANCHOR_END: client */

int main(int argc, char **argv)
{
    struct options opts = options(argc, argv, "Connections: fi_listen, fi_connect, fi_accept.", "tcp", 3);
    struct pair pair = two_processes();
    if (pair.first)
        serve(&opts, &pair);
    else
        call(&opts, &pair);
    return finish(&pair, "server: every client was answered");
}
