/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Many processes, each with one endpoint that communicates with all others: each sends its number to every other
 * process, and counts the senders of the messages that it gets. */
#include <sys/mman.h>

#include <rdma/fi_tagged.h>

#include "rdm.h"

/* Shared memory of the processes, in place of a launcher: a table of names, and the number of entries. */
struct board {
    int written, done;
    struct name names[];
};

static void reach(int *counter, int wanted, struct fid_cq *cq)
{
    struct fi_cq_tagged_entry entry;
    __atomic_add_fetch(counter, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) < wanted)
        if (cq)
            expect(!cq_poll(cq, &entry)); /* others may still need this process's progress */
}

static void peer_main(struct board *board, const char *provider, int rank, int ranks)
{
    struct rdm r = rdm_open(provider, FI_TAGGED, FI_WAIT_NONE);
    fi_addr_t *peers = calloc(ranks, sizeof *peers);
    struct send { struct fi_context2 context; int value; } *sends = calloc(ranks, sizeof *sends);
    struct receive { struct fi_context2 context; int value; } *receives = calloc(ranks, sizeof *receives);
    expect(peers && sends && receives);

    /* ANCHOR: peers */
    board->names[rank] = rdm_name(&r);
    reach(&board->written, ranks, NULL);
    for (int i = 0; i < ranks; i++)
        peers[i] = rdm_insert(&r, &board->names[i]);

    struct fi_cq_tagged_entry entry;
    int posted = 0, ended = 0, sends_posted = 0;
    /* Each message has its sender's number as tag. All receives are posted first, then all sends. */
    for (; posted < ranks; posted++)
        while (again(fi_trecv(r.ep, &receives[posted].value, sizeof(int), NULL, FI_ADDR_UNSPEC, posted, 0,
                              &receives[posted].context)))
            ended += cq_poll(r.cq, &entry);
    while (sends_posted < ranks || ended < 2 * ranks) {
        int to = (rank + sends_posted) % ranks; /* the processes start with different peers */
        if (sends_posted < ranks) {
            sends[to].value = 1000 * rank + to;
            if (!again(fi_tsend(r.ep, &sends[to].value, sizeof(int), NULL, peers[to], rank, &sends[to].context)))
                sends_posted++;
        }
        ended += cq_poll(r.cq, &entry);
    }
    for (int from = 0; from < ranks; from++)
        expect(receives[from].value == 1000 * from + rank);
    /* ANCHOR_END: peers */

    reach(&board->done, ranks, r.cq);
    rdm_close(&r);
    free(peers);
    free(sends);
    free(receives);
}

int main(int argc, char **argv)
{
    struct options opts = options(argc, argv, "Many processes, each talks to all: fi_av_insert, fi_tsend.", "tcp", 8);
    int ranks = opts.count > 256 ? 256 : (int)opts.count;
    struct board *board = mmap(NULL, sizeof *board + ranks * sizeof(struct name), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    expect(board != MAP_FAILED);
    for (int rank = 0; rank < ranks; rank++) {
        pid_t child = fork();
        system_must(child);
        if (!child) {
            peer_main(board, opts.provider, rank, ranks);
            exit(0);
        }
    }
    for (int rank = 0; rank < ranks; rank++) {
        int status;
        system_must(wait(&status));
        expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    printf("many_peers: %d processes heard from all\n", ranks);
    return 0;
}
