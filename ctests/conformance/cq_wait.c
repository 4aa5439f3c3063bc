// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cq(3), fi_poll(3): blocking reads, signals, thresholds, native wait objects with fi_trywait.
#include "harness.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static ssize_t sread(struct fid_cq *cq, struct fi_cq_tagged_entry *entry, int timeout)
{
	return fi_cq_sread(cq, entry, 1, NULL, timeout);
}

// ---- Timeouts, on an idle queue

static void check_timeouts(struct env *t, enum fi_wait_obj wait)
{
	struct fi_cq_tagged_entry entry;
	uint64_t start;

	PAIR(t, .cq.wait_obj = wait);
	start = now_ms();
	CHECK_RC(sread(t->b.rxcq, &entry, 0), -FI_EAGAIN);
	CHECK(now_ms() - start < t->limit_ms);
	start = now_ms();
	CHECK_RC(sread(t->b.rxcq, &entry, 30), -FI_EAGAIN);
	CHECK(now_ms() - start + 1 >= 30); // the clock has whole milliseconds
	CHECK(now_ms() - start < t->limit_ms);
}

TEST(fi_cq, sread_times_out_unspec, EP_ANY, FI_MSG, "FI_WAIT_UNSPEC: a blocking read gives -FI_EAGAIN when the timeout has passed")
{
	check_timeouts(t, FI_WAIT_UNSPEC);
}

TEST(fi_cq, sread_times_out_fd, EP_ANY, FI_MSG, "FI_WAIT_FD: a blocking read gives -FI_EAGAIN when the timeout has passed")
{
	check_timeouts(t, FI_WAIT_FD);
}

TEST(fi_cq, sread_times_out_mutex_cond, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND: a blocking read gives -FI_EAGAIN when the timeout has passed")
{
	check_timeouts(t, FI_WAIT_MUTEX_COND);
}

TEST(fi_cq, sread_times_out_yield, EP_ANY, FI_MSG, "FI_WAIT_YIELD: a blocking read gives -FI_EAGAIN when the timeout has passed")
{
	check_timeouts(t, FI_WAIT_YIELD);
}

TEST(fi_cq, sread_without_wait_object, EP_ANY, FI_MSG, "A blocking read on FI_WAIT_NONE is invalid")
{
	struct fi_cq_tagged_entry entry;

	PAIR(t, .cq.wait_obj = FI_WAIT_NONE);
	CHECK_RC2(sread(t->b.rxcq, &entry, 10), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_cq_sreadfrom(t->b.rxcq, &entry, 1, &t->b.peer, NULL, 10), -FI_EINVAL, -FI_ENOSYS);
}

TEST(fi_cq, sread_takes_what_is_there, EP_ANY, FI_MSG, "A blocking read with timeout 0 or -1 returns a completion that is there")
{
	struct fi_cq_tagged_entry entry;
	ssize_t rc;

	PAIR(t, .cq.wait_obj = FI_WAIT_UNSPEC);
	flow_run(t, 0, 2);
	ONCE(t, (rc = sread(t->b.rxcq, &entry, 0)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	CHECK_RC(sread(t->b.rxcq, &entry, -1), 1);
}

TEST(fi_cq, sreadfrom_gives_the_sender, EP_AV, FI_MSG | FI_SOURCE, "fi_cq_sreadfrom gives the sender's fi_addr_t")
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t src = 12345;
	ssize_t rc;

	PAIR(t, .cq.wait_obj = FI_WAIT_UNSPEC);
	CHECK_RC(fi_cq_sreadfrom(t->b.rxcq, &entry, 1, &src, NULL, 10), -FI_EAGAIN);
	flow_run(t, 0, 1);
	ONCE(t, (rc = fi_cq_sreadfrom(t->b.rxcq, &entry, 1, &src, NULL, 10)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	CHECK_EQ(src, t->b.peer);
}

TEST(fi_cq, sread_sees_errors, EP_ANY, FI_MSG, "A blocking read returns -FI_EAVAIL for an error entry, without waiting")
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { 0 };
	ssize_t rc;

	PAIR(t, .cq.wait_obj = FI_WAIT_UNSPEC);
	flow_error(t, 0);
	ONCE(t, (rc = sread(t->b.rxcq, &entry, -1)) != -FI_EAGAIN);
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK_RC(sread(t->b.rxcq, &entry, -1), -FI_EAVAIL);
	CHECK_RC(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
	CHECK_EQ(err.err, FI_ECANCELED);
}

// ---- A thread that blocks

struct waiter {
	pthread_t thread;
	struct fid_cq *cq;
	int timeout;
	const void *cond;
	struct fi_cq_tagged_entry entry;
	ssize_t rc;
	_Atomic bool done;
};

static void *waiter_main(void *arg)
{
	struct waiter *waiter = arg;

	waiter->rc = fi_cq_sread(waiter->cq, &waiter->entry, 1, waiter->cond, waiter->timeout);
	waiter->done = true;
	return NULL;
}

static void waiter_start(struct waiter *waiter, struct fid_cq *cq, int timeout)
{
	waiter->cq = cq;
	waiter->timeout = timeout;
	CHECK_EQ(pthread_create(&waiter->thread, NULL, waiter_main, waiter), 0);
}

static void check_wakes_by_message(struct env *t, enum fi_wait_obj wait)
{
	struct waiter waiter = { 0 };

	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	PAIR(t, .cq.wait_obj = wait);
	flow_post_recv(t, 0, 1);
	waiter_start(&waiter, t->b.rxcq, -1);
	flow_post_send(t, 0, 1);
	// Only the sender's queue is read here, so the waiting thread has to make progress itself.
	for (uint64_t limit = now_ms() + t->limit_ms; !waiter.done; sched_yield()) {
		CHECK(now_ms() < limit);
		fi_cq_read(t->a.txcq, NULL, 0);
	}
	CHECK_EQ(pthread_join(waiter.thread, NULL), 0);
	CHECK_RC(waiter.rc, 1);
	CHECK(waiter.entry.op_context == &t->flow->rx[0]);
}

TEST(fi_cq, sread_woken_by_message_unspec, EP_ANY, FI_MSG, "FI_WAIT_UNSPEC: a thread in an endless blocking read returns with the completion")
{
	check_wakes_by_message(t, FI_WAIT_UNSPEC);
}

TEST(fi_cq, sread_woken_by_message_fd, EP_ANY, FI_MSG, "FI_WAIT_FD: a thread in an endless blocking read returns with the completion")
{
	check_wakes_by_message(t, FI_WAIT_FD);
}

TEST(fi_cq, sread_woken_by_message_mutex_cond, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND: a thread in an endless blocking read returns with the completion")
{
	check_wakes_by_message(t, FI_WAIT_MUTEX_COND);
}

TEST(fi_cq, sread_woken_by_message_yield, EP_ANY, FI_MSG, "FI_WAIT_YIELD: a thread in an endless blocking read returns with the completion")
{
	check_wakes_by_message(t, FI_WAIT_YIELD);
}

static void check_wakes_by_signal(struct env *t, enum fi_wait_obj wait)
{
	struct waiter waiter = { 0 };

	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	PAIR(t, .cq.wait_obj = wait);
	waiter_start(&waiter, t->b.rxcq, -1);
	// A signal may come before the thread waits, so it is repeated until the thread returns.
	for (uint64_t limit = now_ms() + t->limit_ms; !waiter.done; usleep(1000)) {
		CHECK(now_ms() < limit);
		OK(fi_cq_signal(t->b.rxcq));
	}
	CHECK_EQ(pthread_join(waiter.thread, NULL), 0);
	CHECK_RC(waiter.rc, -FI_EAGAIN);
}

TEST(fi_cq, signal_unblocks_unspec, EP_ANY, FI_MSG, "FI_WAIT_UNSPEC: fi_cq_signal unblocks an endless blocking read, which gives -FI_EAGAIN")
{
	check_wakes_by_signal(t, FI_WAIT_UNSPEC);
}

TEST(fi_cq, signal_unblocks_fd, EP_ANY, FI_MSG, "FI_WAIT_FD: fi_cq_signal unblocks an endless blocking read, which gives -FI_EAGAIN")
{
	check_wakes_by_signal(t, FI_WAIT_FD);
}

TEST(fi_cq, signal_unblocks_mutex_cond, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND: fi_cq_signal unblocks an endless blocking read, which gives -FI_EAGAIN")
{
	check_wakes_by_signal(t, FI_WAIT_MUTEX_COND);
}

TEST(fi_cq, signal_unblocks_yield, EP_ANY, FI_MSG, "FI_WAIT_YIELD: fi_cq_signal unblocks an endless blocking read, which gives -FI_EAGAIN")
{
	check_wakes_by_signal(t, FI_WAIT_YIELD);
}

TEST(fi_cq, signal_without_wait_object, EP_ANY, FI_MSG, "fi_cq_signal needs a wait object")
{
	CHECK_RC2(fi_cq_signal(open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_NONE)), -FI_EINVAL, -FI_ENOSYS);
}

TEST(fi_cq, signal_leaves_no_trace, EP_ANY, FI_MSG, "A signal adds no completion; blocking reads go on to work after it")
{
	struct fi_cq_tagged_entry entry;
	ssize_t rc;

	PAIR(t, .cq.wait_obj = FI_WAIT_FD);
	for (int i = 0; i < 1000; i++)
		OK(fi_cq_signal(t->b.rxcq));
	CHECK_RC(fi_cq_read(t->b.rxcq, &entry, 1), -FI_EAGAIN);
	flow_run(t, 0, 1);
	ONCE(t, (rc = sread(t->b.rxcq, &entry, 50)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	CHECK_RC(sread(t->b.rxcq, &entry, 10), -FI_EAGAIN);
}

// ---- Several threads

struct crowd {
	struct env *t;
	_Atomic unsigned got[FLOW_MAX];
	_Atomic unsigned total;
	_Atomic bool wrong;
};

static void *crowd_main(void *arg)
{
	struct crowd *crowd = arg;

	while (crowd->total < FLOW_MAX && !crowd->wrong) {
		struct fi_cq_tagged_entry entries[3];
		ssize_t rc = fi_cq_sread(crowd->t->b.rxcq, entries, 3, NULL, 20);

		crowd->wrong |= rc < 0 && rc != -FI_EAGAIN;
		for (ssize_t i = 0; i < rc; i++, crowd->total++)
			crowd->got[(struct fi_context2 *)entries[i].op_context - crowd->t->flow->rx]++;
	}
	return NULL;
}

TEST(fi_cq, read_by_threads, EP_RELIABLE, FI_MSG, "FI_THREAD_SAFE: of many threads reading a queue exactly one gets each completion")
{
	static struct crowd crowd;
	pthread_t threads[4];

	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	PAIR(t, .cq.wait_obj = FI_WAIT_UNSPEC);
	crowd.t = t;
	flow_post_recv(t, 0, FLOW_MAX);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, crowd_main, &crowd), 0);
	flow_post_send(t, 0, FLOW_MAX);
	for (uint64_t limit = now_ms() + t->limit_ms; crowd.total < FLOW_MAX; sched_yield()) {
		CHECK(now_ms() < limit && !crowd.wrong);
		fi_cq_read(t->a.txcq, NULL, 0);
	}
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK(!crowd.wrong);
	for (int i = 0; i < FLOW_MAX; i++)
		CHECK_EQ(crowd.got[i], 1);
}

// ---- Thresholds

TEST(fi_cq, threshold_reached, EP_ANY, FI_MSG, "FI_CQ_COND_THRESHOLD: a blocking read returns once that many entries are there")
{
	struct fi_cq_tagged_entry entries[8];
	unsigned got = 0;

	PAIR(t, .cq.wait_obj = FI_WAIT_UNSPEC, .cq.wait_cond = FI_CQ_COND_THRESHOLD);
	flow_run(t, 0, 4);
	while (got < 4) {
		ssize_t rc = fi_cq_sread(t->b.rxcq, entries, 8, (void *)(uintptr_t)(4 - got), 1000);

		CHECK(rc > 0);
		got += rc;
	}
}

TEST(fi_cq, threshold_times_out_with_entries, EP_ANY, FI_MSG, "A timeout below the threshold loses nothing: what is there stays readable")
{
	struct fi_cq_tagged_entry entries[8];
	unsigned got = 0;

	PAIR(t, .cq.wait_obj = FI_WAIT_UNSPEC, .cq.wait_cond = FI_CQ_COND_THRESHOLD);
	flow_run(t, 0, 2);
	for (uint64_t limit = now_ms() + t->limit_ms; got < 2;) {
		ssize_t rc = fi_cq_sread(t->b.rxcq, entries, 8, (void *)(uintptr_t)6, 20);

		CHECK(now_ms() < limit);
		if (rc == -FI_EAGAIN)
			rc = fi_cq_read(t->b.rxcq, entries, 8);
		CHECK(rc > 0 || rc == -FI_EAGAIN);
		got += rc > 0 ? rc : 0;
	}
	CHECK_EQ(got, 2);
}

TEST(fi_cq, threshold_sees_errors, EP_ANY, FI_MSG, "An error ends a blocking read whatever the threshold; what came before it is read first")
{
	struct fi_cq_tagged_entry entries[8];
	struct fi_cq_err_entry err = { 0 };

	PAIR(t, .cq.wait_obj = FI_WAIT_UNSPEC, .cq.wait_cond = FI_CQ_COND_THRESHOLD);
	flow_run(t, 0, 1);
	ONCE(t, filled_by_now(t->flow->in[0], FLOW_LEN, 0));
	flow_error(t, 1);
	CHECK_RC(fi_cq_sread(t->b.rxcq, entries, 8, (void *)(uintptr_t)6, -1), 1);
	CHECK(entries[0].op_context == &t->flow->rx[0]);
	CHECK_RC(fi_cq_sread(t->b.rxcq, entries, 8, (void *)(uintptr_t)6, -1), -FI_EAVAIL);
	CHECK_RC(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
	CHECK(err.op_context == &t->flow->rx[1]);
}

TEST(fi_cq, condition_ignored_without_threshold, EP_ANY, FI_MSG, "FI_CQ_COND_NONE: cond is not looked at, any entry ends the wait")
{
	struct fi_cq_tagged_entry entries[8];

	PAIR(t, .cq.wait_obj = FI_WAIT_UNSPEC, .cq.wait_cond = FI_CQ_COND_NONE);
	flow_run(t, 0, 1);
	CHECK_RC(fi_cq_sread(t->b.rxcq, entries, 8, (void *)(uintptr_t)6, t->limit_ms), 1);
}

// ---- Native waits

static int wait_fd(struct fid_cq *cq)
{
	int fd = -1;

	OK(fi_control(&cq->fid, FI_GETWAIT, &fd));
	return fd;
}

TEST(fi_poll, trywait_idle, EP_ANY, FI_MSG, "fi_trywait on an idle queue says that it is safe to block")
{
	struct fid *fids[1];

	PAIR(t, .cq.wait_obj = FI_WAIT_FD);
	fids[0] = &t->b.rxcq->fid;
	ONCE(t, fi_trywait(t->fabric, fids, 1) == FI_SUCCESS);
}

TEST(fi_poll, trywait_with_entries, EP_ANY, FI_MSG, "fi_trywait gives -FI_EAGAIN while completions are queued")
{
	struct fid *fids[1];

	PAIR(t, .cq.wait_obj = FI_WAIT_FD);
	fids[0] = &t->b.rxcq->fid;
	flow_run(t, 0, 1);
	ONCE(t, filled_by_now(t->flow->in[0], FLOW_LEN, 0));
	ONCE(t, fi_trywait(t->fabric, fids, 1) == -FI_EAGAIN);
	CHECK_RC(fi_trywait(t->fabric, fids, 1), -FI_EAGAIN);
	wait_comp(t, t->b.rxcq, NULL);
	ONCE(t, fi_trywait(t->fabric, fids, 1) == FI_SUCCESS);
}

TEST(fi_poll, trywait_with_error_entry, EP_ANY, FI_MSG, "fi_trywait gives -FI_EAGAIN while an error entry is queued")
{
	struct fi_cq_err_entry err = { 0 };
	struct fid *fids[1];

	PAIR(t, .cq.wait_obj = FI_WAIT_FD);
	fids[0] = &t->b.rxcq->fid;
	flow_error(t, 0);
	ONCE(t, fi_trywait(t->fabric, fids, 1) == -FI_EAGAIN);
	wait_err(t, t->b.rxcq, &err);
	ONCE(t, fi_trywait(t->fabric, fids, 1) == FI_SUCCESS);
}

TEST(fi_poll, fd_becomes_ready, EP_ANY, FI_MSG, "After fi_trywait succeeded the file descriptor becomes ready when a completion comes")
{
	struct fid *fids[2];
	struct pollfd fds[2];
	bool received = false, sent = false;

	PAIR(t, .cq.wait_obj = FI_WAIT_FD);
	fids[0] = &t->b.rxcq->fid;
	fids[1] = &t->a.txcq->fid;
	fds[0] = (struct pollfd){ .fd = wait_fd(t->b.rxcq), .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = wait_fd(t->a.txcq), .events = POLLIN };
	flow_post_recv(t, 0, 1);
	flow_post_send(t, 0, 1);
	// Only fi_trywait and fi_cq_read make progress, never a blocked thread, so a lost wake-up shows as a timeout.
	while (!received || !sent) {
		struct fi_cq_tagged_entry entry;

		if (fi_trywait(t->fabric, fids, 2) == FI_SUCCESS)
			CHECK(poll(fds, 2, t->limit_ms) > 0);
		received |= fi_cq_read(t->b.rxcq, &entry, 1) == 1;
		sent |= fi_cq_read(t->a.txcq, &entry, 1) == 1;
	}
}

TEST(fi_poll, fd_ping_pong, EP_ANY, FI_MSG, "Many messages, each awaited by fi_trywait and poll: no wake-up is lost")
{
	struct fid *fids[1];
	struct pollfd fd = { .events = POLLIN };
	unsigned received = 0, sent = 0;

	PAIR(t, .cq.wait_obj = FI_WAIT_FD, .same_cq = true);
	fids[0] = &t->a.txcq->fid;
	fd.fd = wait_fd(t->a.txcq);
	for (unsigned i = 0; i < 200; i++) {
		flow_post_recv(t, i, 1);
		flow_post_send(t, i, 1);
		while (received <= i || sent <= i) {
			struct fi_cq_tagged_entry entry;

			if (fi_trywait(t->fabric, fids, 1) == FI_SUCCESS)
				CHECK(poll(&fd, 1, t->limit_ms) > 0);
			if (fi_cq_read(t->a.txcq, &entry, 1) == 1)
				*(entry.flags & FI_RECV ? &received : &sent) += 1;
		}
	}
}

TEST(fi_poll, fd_woken_by_signal, EP_ANY, FI_MSG, "fi_cq_signal makes the file descriptor ready")
{
	struct fid *fids[1];
	struct pollfd fd = { .events = POLLIN };

	PAIR(t, .cq.wait_obj = FI_WAIT_FD);
	fids[0] = &t->b.rxcq->fid;
	fd.fd = wait_fd(t->b.rxcq);
	ONCE(t, fi_trywait(t->fabric, fids, 1) == FI_SUCCESS);
	OK(fi_cq_signal(t->b.rxcq));
	CHECK_EQ(poll(&fd, 1, t->limit_ms), 1);
}

TEST(fi_poll, trywait_count_zero, EP_ANY, FI_MSG, "fi_trywait on no descriptors succeeds")
{
	struct fid *fids[1] = { NULL };

	open_domain(t);
	OK(fi_trywait(t->fabric, fids, 0));
}

TEST(fi_poll, trywait_wrong_class, EP_ANY, FI_MSG, "fi_trywait takes only objects that can be waited on")
{
	struct fid *fids[1];

	open_domain(t);
	fids[0] = &t->domain->fid;
	CHECK_RC2(fi_trywait(t->fabric, fids, 1), -FI_EINVAL, -FI_ENOSYS);
}
