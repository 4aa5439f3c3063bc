/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One process writes into the other's memory and reads it back; the other one only drives progress. */
#include "memory.h"

enum { SIZE = 1 << 16 };

int main(int argc, char **argv)
{
    struct options opts = options(argc, argv, "Remote memory: fi_write, fi_read.", "tcp", 20);
    struct pair pair = two_processes();
    struct rdm r = rdm_open(opts.provider, FI_MSG | FI_RMA, FI_WAIT_NONE);
    fi_addr_t peer = rdm_meet(&r, &pair);

    static unsigned char memory[SIZE], copy[SIZE];
    struct region ours, theirs;
    struct fid_mr *mr = expose(&r, memory, SIZE, FI_REMOTE_READ | FI_REMOTE_WRITE, &ours);
    exchange(&pair, &ours, &theirs, sizeof ours);

    /* ANCHOR: access */
    if (pair.first) {
        struct fi_context2 context;
        for (long i = 0; i < opts.count; i++) {
            for (int k = 0; k < SIZE; k++)
                memory[k] = (unsigned char)(k * 7 + i);
            /* Delivery-complete: the completion means that the bytes are in the peer's memory, not only sent. */
            struct iovec from = { memory, SIZE };
            struct fi_rma_iov to = { theirs.address, SIZE, theirs.key };
            struct fi_msg_rma write = { .msg_iov = &from, .iov_count = 1, .addr = peer,
                                        .rma_iov = &to, .rma_iov_count = 1, .context = &context };
            while (again(fi_writemsg(r.ep, &write, FI_COMPLETION | FI_DELIVERY_COMPLETE)))
                cq_poll(r.cq, &(struct fi_cq_tagged_entry){ 0 });
            expect(cq_wait(r.cq).flags & FI_WRITE);

            memset(copy, 0, SIZE);
            while (again(fi_read(r.ep, copy, SIZE, NULL, peer, theirs.address, theirs.key, &context)))
                cq_poll(r.cq, &(struct fi_cq_tagged_entry){ 0 });
            expect(cq_wait(r.cq).flags & FI_READ);
            expect(!memcmp(memory, copy, SIZE));
        }
        say(&r, peer);
    } else {
        hear(&r);
        for (int k = 0; k < SIZE; k++)
            expect(memory[k] == (unsigned char)(k * 7 + opts.count - 1));
    }
    /* ANCHOR_END: access */

    must(fi_close(&mr->fid));
    rdm_close(&r);
    return finish(&pair, "rma: what was written was read back");
}
