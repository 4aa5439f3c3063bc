/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Two processes add to one counter in the memory of the second, with an operation that returns the old value, and then
 * take a lock by compare-and-swap. */
#include "memory.h"

int main(int argc, char **argv)
{
    struct options opts = options(argc, argv, "Atomic operations: fi_fetch_atomic, fi_compare_atomic.", "tcp", 500);
    struct pair pair = two_processes();
    struct rdm r = rdm_open(opts.provider, FI_MSG | FI_ATOMIC, FI_WAIT_NONE);
    fi_addr_t peer = rdm_meet(&r, &pair);

    static uint64_t memory[2]; /* a counter and a lock */
    enum { COUNTER, LOCK = sizeof memory[0] };
    struct region ours, theirs;
    struct fid_mr *mr = expose(&r, memory, sizeof memory, FI_REMOTE_READ | FI_REMOTE_WRITE, &ours);
    exchange(&pair, &ours, &theirs, sizeof ours);

    /* ANCHOR: atomic */
    /* Some providers lack some operations or types. */
    size_t most = 0;
    must(fi_fetch_atomicvalid(r.ep, FI_UINT64, FI_SUM, &most));
    expect(most >= 1);
    must(fi_compare_atomicvalid(r.ep, FI_UINT64, FI_CSWAP, &most));
    expect(most >= 1);

    if (pair.first) {
        struct fi_context2 context;
        for (long i = 0; i < opts.count; i++) {
            uint64_t one = 1, old = UINT64_MAX;
            while (again(fi_fetch_atomic(r.ep, &one, 1, NULL, &old, NULL, peer, theirs.address + COUNTER, theirs.key,
                                         FI_UINT64, FI_SUM, &context)))
                cq_poll(r.cq, &(struct fi_cq_tagged_entry){ 0 });
            expect(cq_wait(r.cq).op_context == &context);
            expect(old == (uint64_t)i); /* no other process adds, so the old values count up */
        }
        /* The lock is free (0), so the swap takes place; the second time it is not, so nothing changes. */
        for (uint64_t attempt = 0; attempt < 2; attempt++) {
            uint64_t mine = 42 + attempt, free_value = 0, was = UINT64_MAX;
            while (again(fi_compare_atomic(r.ep, &mine, 1, NULL, &free_value, NULL, &was, NULL, peer,
                                           theirs.address + LOCK, theirs.key, FI_UINT64, FI_CSWAP, &context)))
                cq_poll(r.cq, &(struct fi_cq_tagged_entry){ 0 });
            expect(cq_wait(r.cq).op_context == &context);
            expect(was == (attempt ? 42 : 0));
        }
        say(&r, peer);
    } else {
        hear(&r);
        expect(memory[0] == (uint64_t)opts.count);
        expect(memory[1] == 42);
    }
    /* ANCHOR_END: atomic */

    must(fi_close(&mr->fid));
    rdm_close(&r);
    return finish(&pair, "atomics: the counter and the lock are right");
}
