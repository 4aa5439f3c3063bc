/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A completion queue and other descriptors in one epoll loop: the process sleeps until there is an event. */
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "rdm.h"

int main(int argc, char **argv)
{
    struct options opts = options(argc, argv, "A queue in an epoll loop: FI_WAIT_FD, fi_trywait.", "tcp", 20);
    struct pair pair = two_processes();
    struct rdm r = rdm_open(opts.provider, FI_MSG, FI_WAIT_FD);
    fi_addr_t peer = rdm_meet(&r, &pair);
    struct fi_context2 sending, receiving;
    long number = 0, got = -1, sent = 0, out = 0;
    bool may_send = !pair.first;

    while (again(fi_recv(r.ep, &got, sizeof got, NULL, FI_ADDR_UNSPEC, &receiving)))
        cq_poll(r.cq, &(struct fi_cq_tagged_entry){ 0 });

    /* ANCHOR: setup */
    int queue, timer, loop = epoll_create1(0);
    system_must(loop);
    must(fi_control(&r.cq->fid, FI_GETWAIT, &queue));
    timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    system_must(timer);
    struct itimerspec tick = { { 0, 2000000 }, { 0, 2000000 } }; /* every 2 ms */
    system_must(timerfd_settime(timer, 0, &tick, NULL));
    system_must(epoll_ctl(loop, EPOLL_CTL_ADD, queue, &(struct epoll_event){ EPOLLIN, { .fd = queue } }));
    system_must(epoll_ctl(loop, EPOLL_CTL_ADD, timer, &(struct epoll_event){ EPOLLIN, { .fd = timer } }));
    /* ANCHOR_END: setup */

    /* ANCHOR: loop */
    /* The second process sends a number at each tick, and the first one receives them; the last one is answered. */
    for (bool done = false; !done;) {
        struct fi_cq_tagged_entry entry;

        /* 1. Read all entries. */
        while (cq_poll(r.cq, &entry)) {
            if (entry.op_context == &sending) {
                sent++;
                may_send = !pair.first && sent < opts.count;
                done = pair.first; /* the answer is on its way */
                continue;
            }
            expect(entry.op_context == &receiving && got == number);
            done = !pair.first; /* that was the answer */
            number++;
            if (pair.first && number < opts.count) {
                while (again(fi_recv(r.ep, &got, sizeof got, NULL, FI_ADDR_UNSPEC, &receiving)))
                    ;
            } else if (pair.first) {
                number = 0;
                while (again(fi_send(r.ep, &number, sizeof number, NULL, peer, &sending)))
                    ;
            }
        }
        if (done)
            break;

        /* 2. May this process sleep? -FI_EAGAIN: there was an event meanwhile, so read the queue again. */
        struct fid *waiting = &r.cq->fid;
        int may = fi_trywait(r.fabric, &waiting, 1);
        if (may == -FI_EAGAIN)
            continue;
        must(may);

        /* 3. Sleep. */
        struct epoll_event event;
        int n = epoll_wait(loop, &event, 1, 10000);
        system_must(n);
        expect(n == 1); /* no event for ten seconds: the peer hangs */
        if (event.data.fd == timer) {
            uint64_t ticks;
            (void)!read(timer, &ticks, sizeof ticks);
            if (may_send)
                out = sent; /* unchanged until its completion */
            if (may_send && !again(fi_send(r.ep, &out, sizeof out, NULL, peer, &sending)))
                may_send = false;
        }
    }
    /* ANCHOR_END: loop */

    close(timer);
    close(loop);
    rdm_close(&r);
    return finish(&pair, "epoll: both slept until something came");
}
