/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One process sends messages with tags, the other receives them by tag in another order, and by a part of the tag. */
#include <rdma/fi_tagged.h>

#include "rdm.h"

/* The upper half of a tag is the kind of a message, the lower half its number. */
static uint64_t tag_of(uint32_t kind, uint32_t number)
{
    return (uint64_t)kind << 32 | number;
}

enum { NUMBERED = 1, LAST = 2 };

static void send_all(struct rdm *r, fi_addr_t peer, long count)
{
    /* ANCHOR: send */
    for (long i = 0; i < count; i++) {
        uint64_t value = 1000 + i;
        /* Small enough to be injected: the buffer can be reused at once, and no completion follows. */
        expect(sizeof value <= r->info->tx_attr->inject_size);
        while (again(fi_tinject(r->ep, &value, sizeof value, peer, tag_of(NUMBERED, i))))
            cq_poll(r->cq, &(struct fi_cq_tagged_entry){ 0 });
    }
    struct fi_context2 context;
    while (again(fi_tsend(r->ep, "end", 4, NULL, peer, tag_of(LAST, 77), &context)))
        cq_poll(r->cq, &(struct fi_cq_tagged_entry){ 0 });
    expect(cq_wait(r->cq).op_context == &context);
    /* ANCHOR_END: send */
}

static void receive_all(struct rdm *r, fi_addr_t peer, long count)
{
    /* ANCHOR: receive */
    struct fi_context2 context;
    char end[8];
    /* Any number of the kind LAST: the bits of `ignore` are not compared. */
    while (again(fi_trecv(r->ep, end, sizeof end, NULL, peer, tag_of(LAST, 0), UINT32_MAX, &context)))
        cq_poll(r->cq, &(struct fi_cq_tagged_entry){ 0 });
    struct fi_cq_tagged_entry entry = cq_wait(r->cq);
    expect(entry.tag == tag_of(LAST, 77)); /* the sender's tag */
    expect(entry.len == 4 && !strcmp(end, "end"));

    /* The others have arrived and wait in the library. They are received from the last to the first. */
    for (long i = count - 1; i >= 0; i--) {
        uint64_t value = 0;
        while (again(fi_trecv(r->ep, &value, sizeof value, NULL, peer, tag_of(NUMBERED, i), 0, &context)))
            cq_poll(r->cq, &(struct fi_cq_tagged_entry){ 0 });
        entry = cq_wait(r->cq);
        expect(entry.op_context == &context && entry.len == sizeof value);
        expect(value == 1000 + (uint64_t)i);
    }
    /* ANCHOR_END: receive */
}

int main(int argc, char **argv)
{
    struct options opts = options(argc, argv, "Messages by tag, in another order: fi_tsend, fi_trecv.", "tcp", 50);
    struct pair pair = two_processes();
    struct rdm r = rdm_open(opts.provider, FI_TAGGED | FI_DIRECTED_RECV, FI_WAIT_NONE);
    fi_addr_t peer = rdm_meet(&r, &pair);

    if (pair.first)
        send_all(&r, peer, opts.count);
    else
        receive_all(&r, peer, opts.count);
    rdm_close(&r);
    return finish(&pair, "tagged: every message was met by its tag");
}
