/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Two processes send a message back and forth with fi_send and fi_recv, and check every byte. */
#include "rdm.h"

enum { SIZE = 4096 };

int main(int argc, char **argv)
{
    struct options opts = options(argc, argv, "A message back and forth: fi_send, fi_recv.", "tcp", 1000);
    struct pair pair = two_processes();
    struct rdm r = rdm_open(opts.provider, FI_MSG, FI_WAIT_NONE);
    fi_addr_t peer = rdm_meet(&r, &pair);

    /* ANCHOR: loop */
    unsigned char out[SIZE], in[SIZE];
    struct fi_context2 sending, receiving;

    for (long round = 0; round < opts.count; round++) {
        unsigned char mine = (unsigned char)(2 * round + pair.first), yours = (unsigned char)(2 * round + !pair.first);
        int left = 2; /* one send and one receive complete in each round */

        memset(out, mine, SIZE);
        /* The receive is posted first, so that it is ready for the answer. */
        while (again(fi_recv(r.ep, in, SIZE, NULL, FI_ADDR_UNSPEC, &receiving)))
            cq_poll(r.cq, &(struct fi_cq_tagged_entry){ 0 });

        for (bool sent = false; left > 0;) {
            struct fi_cq_tagged_entry entry;
            /* The first process begins; the second answers. */
            if (!sent && (pair.first || left == 1))
                sent = !again(fi_send(r.ep, out, SIZE, NULL, peer, &sending));
            if (!cq_poll(r.cq, &entry))
                continue;
            left--;
            if (entry.op_context == &receiving) {
                expect(entry.flags & FI_RECV);
                expect(entry.len == SIZE);
                for (int i = 0; i < SIZE; i++)
                    expect(in[i] == yours);
            } else {
                expect(entry.op_context == &sending); /* `out` may be written again */
            }
        }
    }
    /* ANCHOR_END: loop */

    rdm_close(&r);
    return finish(&pair, "msg_pingpong: all bytes arrived");
}
