/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory that a peer may read and write. */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdint.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "rdm.h"

/* ANCHOR: register */
/* The key of a region and the address of its first byte, with which a peer accesses the region. */
struct region {
    uint64_t key, address;
};

static inline struct fid_mr *expose(struct rdm *r, void *memory, size_t len, uint64_t access, struct region *region)
{
    struct fid_mr *mr;
    int mode = r->info->domain_attr->mr_mode;
    must(fi_mr_reg(r->domain, memory, len, access, 0, 0x1234, 0, &mr, NULL));
    if (mode & FI_MR_ENDPOINT) {
        must(fi_mr_bind(mr, &r->ep->fid, 0));
        must(fi_mr_enable(mr));
    }
    region->key = fi_mr_key(mr); /* with FI_MR_PROV_KEY it differs from the requested key */
    region->address = mode & FI_MR_VIRT_ADDR ? (uintptr_t)memory : 0;
    return mr;
}
/* ANCHOR_END: register */

/* ANCHOR: turn */
/* "It is your turn". The receiver of a message is in fi_cq_read, so it also serves the peer's accesses. */
static inline void say(struct rdm *r, fi_addr_t peer)
{
    struct fi_context2 context;
    while (again(fi_send(r->ep, "turn", 4, NULL, peer, &context)))
        cq_poll(r->cq, &(struct fi_cq_tagged_entry){ 0 });
    expect(cq_wait(r->cq).op_context == &context);
}

static inline void hear(struct rdm *r)
{
    struct fi_context2 context;
    char word[4];
    while (again(fi_recv(r->ep, word, sizeof word, NULL, FI_ADDR_UNSPEC, &context)))
        cq_poll(r->cq, &(struct fi_cq_tagged_entry){ 0 });
    expect(cq_wait(r->cq).op_context == &context && !memcmp(word, "turn", 4));
}
/* ANCHOR_END: turn */

#endif
