// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_poll(3): poll sets and wait sets (both deprecated, both still supported). cq_wait.c tests fi_trywait on queues.
#include "harness.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

// ---- Poll sets

static struct fid_poll *open_poll(struct env *t)
{
	struct fi_poll_attr attr = { 0 };
	struct fid_poll *set = NULL;

	open_domain(t);
	OK_OR_SKIP(fi_poll_open(t->domain, &attr, &set));
	keep(t, &set->fid);
	CHECK_EQ(set->fid.fclass, FI_CLASS_POLL);
	return set;
}

TEST(fi_poll, empty_set, EP_ANY, FI_MSG, "Polling an empty set returns no context")
{
	void *contexts[4];

	CHECK_RC(fi_poll(open_poll(t), contexts, 4), 0);
}

TEST(fi_poll, open_flags_reserved, EP_ANY, FI_MSG, "Flags of fi_poll_open are reserved and must be 0")
{
	struct fi_poll_attr attr = { .flags = 1 };
	struct fid_poll *set = NULL;

	open_poll(t);
	CHECK_RC2(fi_poll_open(t->domain, &attr, &set), -FI_EINVAL, -FI_EBADFLAGS);
}

TEST(fi_poll, queue_with_entries, EP_ANY, FI_MSG, "A queue that is not empty gives its context, one that is empty does not")
{
	struct fid_poll *set = open_poll(t);
	void *contexts[4] = { NULL };
	int count = 0;

	PAIR(t);
	OK(fi_poll_add(set, &t->b.rxcq->fid, 0));
	CHECK_RC(fi_poll(set, contexts, 4), 0);
	flow_run(t, 0, 1);
	ONCE(t, (count = fi_poll(set, contexts, 4)) != 0);
	CHECK_EQ(count, 1);
	CHECK(contexts[0] == &t->b); // the context that the fixture has set
	wait_comp(t, t->b.rxcq, NULL);
	ONCE(t, fi_poll(set, contexts, 4) == 0);
	OK(fi_poll_del(set, &t->b.rxcq->fid, 0));
}

TEST(fi_poll, drives_progress, EP_ANY, FI_MSG, "fi_poll alone drives the progress of what is in the set")
{
	struct fid_poll *set = open_poll(t);
	void *contexts[4];

	PAIR(t);
	OK(fi_poll_add(set, &t->b.rxcq->fid, 0));
	OK(fi_poll_add(set, &t->a.txcq->fid, 0));
	flow_post_recv(t, 0, 1);
	flow_post_send(t, 0, 1);
	for (uint64_t limit = now_ms() + t->limit_ms; fi_poll(set, contexts, 4) < 2;)
		CHECK(now_ms() < limit);
	OK(fi_poll_del(set, &t->b.rxcq->fid, 0));
	OK(fi_poll_del(set, &t->a.txcq->fid, 0));
}

TEST(fi_poll, counter_that_changed, EP_ANY, FI_MSG, "A counter gives its context once after it has changed")
{
	struct fid_poll *set = open_poll(t);
	void *contexts[4] = { NULL };
	int count = 0;

	PAIR(t, .cntr_flags = FI_RECV);
	OK(fi_poll_add(set, &t->b.cntr->fid, 0));
	CHECK_RC(fi_poll(set, contexts, 4), 0);
	flow_run(t, 0, 1);
	ONCE(t, (count = fi_poll(set, contexts, 4)) != 0);
	CHECK_EQ(count, 1);
	CHECK(contexts[0] == &t->b);
	OK(fi_poll_del(set, &t->b.cntr->fid, 0));
}

TEST(fi_poll, counter_after_set, EP_ANY, FI_MSG, "A counter that was set and has come to its old value again has changed")
{
	struct fid_poll *set = open_poll(t);
	void *contexts[4];

	PAIR(t, .cntr_flags = FI_RECV);
	OK(fi_poll_add(set, &t->b.cntr->fid, 0));
	flow_run(t, 0, 1);
	ONCE(t, fi_poll(set, contexts, 4) == 1);
	OK(fi_cntr_set(t->b.cntr, 0));
	flow_run(t, 1, 1);
	ONCE(t, fi_cntr_read(t->b.cntr) == 1);
	CHECK_RC(fi_poll(set, contexts, 4), 1);
	OK(fi_poll_del(set, &t->b.cntr->fid, 0));
}

TEST(fi_poll, counter_with_error, EP_ANY, FI_MSG, "A change of the error value is a change of the counter, also if value and errors have the same sum")
{
	struct fid_poll *set = open_poll(t);
	void *contexts[4];

	PAIR(t, .cntr_flags = FI_RECV);
	OK(fi_poll_add(set, &t->b.cntr->fid, 0));
	flow_run(t, 0, 1);
	ONCE(t, fi_poll(set, contexts, 4) == 1);
	OK(fi_cntr_set(t->b.cntr, 0));
	flow_error(t, 1);
	ONCE(t, fi_cntr_readerr(t->b.cntr) == 1);
	CHECK_RC(fi_poll(set, contexts, 4), 1);
	OK(fi_poll_del(set, &t->b.cntr->fid, 0));
}

TEST(fi_poll, counter_after_trywait, EP_ANY, FI_MSG, "A poll set finds the counter for which fi_trywait gave -FI_EAGAIN")
{
	struct fid_poll *set = open_poll(t);
	struct fid *fids[1];
	void *contexts[4];

	PAIR(t, .cntr.wait_obj = FI_WAIT_FD, .cntr_flags = FI_RECV);
	fids[0] = &t->b.cntr->fid;
	OK(fi_poll_add(set, &t->b.cntr->fid, 0));
	ONCE(t, fi_trywait(t->fabric, fids, 1) == FI_SUCCESS);
	flow_run(t, 0, 1);
	ONCE(t, fi_trywait(t->fabric, fids, 1) == -FI_EAGAIN);
	CHECK_RC(fi_poll(set, contexts, 4), 1);
	CHECK(contexts[0] == &t->b);
	OK(fi_poll_del(set, &t->b.cntr->fid, 0));
}

TEST(fi_poll, count_zero_drives_progress, EP_ANY, FI_MSG, "Without room for a context fi_poll drives progress, and forgets no change")
{
	struct fid_poll *set = open_poll(t);
	void *contexts[4];

	PAIR(t, .cntr_flags = FI_SEND | FI_RECV);
	OK(fi_poll_add(set, &t->b.rxcq->fid, 0));
	OK(fi_poll_add(set, &t->a.cntr->fid, 0));
	OK(fi_poll_add(set, &t->b.cntr->fid, 0));
	flow_post_recv(t, 0, 1);
	flow_post_send(t, 0, 1);
	for (uint64_t limit = now_ms() + t->limit_ms; !filled(t->flow->in[0], FLOW_LEN, 0);) {
		CHECK_RC(fi_poll(set, contexts, 0), 0);
		CHECK(now_ms() < limit);
	}
	ONCE(t, fi_cntr_read(t->a.cntr) == 1 && fi_cntr_read(t->b.cntr) == 1);
	CHECK_RC(fi_poll(set, contexts, 1), 1);
	CHECK_RC(fi_poll(set, contexts, 4), 3);
	OK(fi_poll_del(set, &t->b.rxcq->fid, 0));
	OK(fi_poll_del(set, &t->a.cntr->fid, 0));
	OK(fi_poll_del(set, &t->b.cntr->fid, 0));
}

TEST(fi_poll, no_more_than_count, EP_ANY, FI_MSG, "At most count contexts are returned")
{
	struct fid_poll *set = open_poll(t);
	void *contexts[2] = { NULL, (void *)1 };

	PAIR(t);
	OK(fi_poll_add(set, &t->b.rxcq->fid, 0));
	OK(fi_poll_add(set, &t->a.txcq->fid, 0));
	flow_post_recv(t, 0, 1);
	flow_post_send(t, 0, 1);
	ONCE(t, fi_poll(set, contexts, 2) == 2);
	contexts[1] = (void *)1;
	CHECK_RC(fi_poll(set, contexts, 1), 1);
	CHECK(contexts[1] == (void *)1);
	OK(fi_poll_del(set, &t->b.rxcq->fid, 0));
	OK(fi_poll_del(set, &t->a.txcq->fid, 0));
}

TEST(fi_poll, close_with_queue, EP_ANY, FI_MSG, "A set that holds a queue cannot be closed: -FI_EBUSY")
{
	struct fid_poll *set = open_poll(t);
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_NONE);

	OK(fi_poll_add(set, &cq->fid, 0));
	CHECK_RC(fi_close(&set->fid), -FI_EBUSY);
	OK(fi_poll_del(set, &cq->fid, 0));
	shut(t, &cq->fid);
	shut(t, &set->fid);
}

TEST(fi_poll, delete_stops, EP_ANY, FI_MSG, "After fi_poll_del a queue is no longer reported")
{
	struct fid_poll *set = open_poll(t);
	void *contexts[4];

	PAIR(t);
	OK(fi_poll_add(set, &t->b.rxcq->fid, 0));
	flow_run(t, 0, 1);
	ONCE(t, fi_poll(set, contexts, 4) == 1);
	OK(fi_poll_del(set, &t->b.rxcq->fid, 0));
	CHECK_RC(fi_poll(set, contexts, 4), 0);
}

TEST(fi_poll, add_wrong_object, EP_ANY, FI_MSG, "Only completion queues and counters go into a poll set")
{
	struct fid_poll *set = open_poll(t);

	CHECK_RC2(fi_poll_add(set, &t->domain->fid, 0), -FI_EINVAL, -FI_ENOSYS);
}

TEST(fi_poll, add_flags_reserved, EP_ANY, FI_MSG, "Flags of fi_poll_add are reserved")
{
	struct fid_poll *set = open_poll(t);
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_NONE);

	CHECK_RC2(fi_poll_add(set, &cq->fid, 1), -FI_EINVAL, -FI_EBADFLAGS);
}

// ---- Wait sets

static struct fid_wait *open_wait(struct env *t, enum fi_wait_obj obj)
{
	struct fi_wait_attr attr = { .wait_obj = obj };
	struct fid_wait *set = NULL;

	open_fabric(t);
	OK_OR_SKIP(fi_wait_open(t->fabric, &attr, &set));
	keep(t, &set->fid);
	CHECK_EQ(set->fid.fclass, FI_CLASS_WAIT);
	return set;
}

static struct fid_cq *set_cq(struct env *t, struct fid_wait *set)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_SET, .wait_set = set };
	struct fid_cq *cq = NULL;

	open_domain(t);
	OK(fi_cq_open(t->domain, &attr, &cq, NULL));
	keep(t, &cq->fid);
	return cq;
}

TEST(fi_poll, wait_set_times_out, EP_ANY, FI_MSG, "fi_wait gives -FI_ETIMEDOUT when nothing was signalled in time")
{
	struct fid_wait *set = open_wait(t, FI_WAIT_UNSPEC);
	uint64_t start = now_ms();

	CHECK_RC(fi_wait(set, 0), -FI_ETIMEDOUT);
	CHECK_RC(fi_wait(set, 30), -FI_ETIMEDOUT);
	CHECK(now_ms() - start + 1 >= 30);
}

TEST(fi_poll, wait_set_fd, EP_ANY, FI_MSG, "A wait set with FI_WAIT_FD gives its file descriptor")
{
	struct fid_wait *set = open_wait(t, FI_WAIT_FD);
	int fd = -1;

	OK(fi_control(&set->fid, FI_GETWAIT, &fd));
	CHECK(fd >= 0 && fcntl(fd, F_GETFD) != -1);
}

TEST(fi_poll, wait_set_mutex_cond, EP_ANY, FI_MSG, "A wait set with FI_WAIT_MUTEX_COND gives its mutex and condition")
{
	struct fid_wait *set = open_wait(t, FI_WAIT_MUTEX_COND);
	struct fi_mutex_cond wait = { 0 };

	OK(fi_control(&set->fid, FI_GETWAIT, &wait));
	CHECK(wait.mutex && wait.cond);
}

TEST(fi_poll, wait_set_yield, EP_ANY, FI_MSG, "A wait set with FI_WAIT_YIELD waits without an object")
{
	CHECK_RC(fi_wait(open_wait(t, FI_WAIT_YIELD), 10), -FI_ETIMEDOUT);
}

TEST(fi_poll, wait_set_pollfd, EP_ANY, FI_MSG, "FI_WAIT_POLLFD: FI_GETWAIT with no room gives -FI_ETOOSMALL and the number; with room the descriptors")
{
	struct fid_wait *set = open_wait(t, FI_WAIT_POLLFD);
	struct pollfd fds[64];
	struct fi_wait_pollfd wait = { 0 };
	int rc = fi_control(&set->fid, FI_GETWAIT, &wait);

	CHECK_RC2(rc, 0, -FI_ETOOSMALL);
	if (rc)
		CHECK(wait.nfds > 0);
	wait.nfds = 64;
	wait.fd = fds;
	OK(fi_control(&set->fid, FI_GETWAIT, &wait));
	CHECK(wait.nfds <= 64);
	for (size_t i = 0; i < wait.nfds; i++)
		CHECK(fcntl(fds[i].fd, F_GETFD) != -1);
}

TEST(fi_poll, wait_set_unknown_object, EP_ANY, FI_MSG, "An unknown wait object, and those that cannot be a set's, give -FI_EINVAL")
{
	static const int wrong[] = { FI_WAIT_NONE, FI_WAIT_SET, 1000, -1 };

	open_wait(t, FI_WAIT_UNSPEC);
	for (size_t i = 0; i < 4; i++) {
		struct fi_wait_attr attr = { .wait_obj = wrong[i] };
		struct fid_wait *set = NULL;

		CHECK_RC(fi_wait_open(t->fabric, &attr, &set), -FI_EINVAL);
	}
}

TEST(fi_poll, wait_set_flags_reserved, EP_ANY, FI_MSG, "Flags of fi_wait_open are reserved and must be 0")
{
	struct fi_wait_attr attr = { .wait_obj = FI_WAIT_UNSPEC, .flags = 1 };
	struct fid_wait *set = NULL;

	open_wait(t, FI_WAIT_UNSPEC);
	CHECK_RC2(fi_wait_open(t->fabric, &attr, &set), -FI_EINVAL, -FI_EBADFLAGS);
}

TEST(fi_poll, wait_set_close_busy, EP_ANY, FI_MSG, "A wait set that a queue uses cannot be closed: -FI_EBUSY")
{
	struct fid_wait *set = open_wait(t, FI_WAIT_UNSPEC);
	struct fid_cq *cq = set_cq(t, set);

	CHECK_RC(fi_close(&set->fid), -FI_EBUSY);
	shut(t, &cq->fid);
	shut(t, &set->fid);
}

TEST(fi_poll, wait_set_woken_by_message, EP_ANY, FI_MSG, "fi_wait returns when a queue of the set has a completion")
{
	struct fid_wait *set = open_wait(t, FI_WAIT_UNSPEC);
	struct fi_cq_tagged_entry entry;
	bool received = false;

	PAIR(t, .cq.wait_obj = FI_WAIT_SET, .cq.wait_set = set);
	flow_post_recv(t, 0, 1);
	flow_post_send(t, 0, 1);
	while (!received) {
		OK(fi_wait(set, t->limit_ms));
		fi_cq_read(t->a.txcq, &entry, 1);
		received = fi_cq_read(t->b.rxcq, &entry, 1) == 1;
	}
}

TEST(fi_poll, wait_set_woken_by_signal, EP_ANY, FI_MSG, "fi_wait returns when a queue of the set is signalled")
{
	struct fid_wait *set = open_wait(t, FI_WAIT_UNSPEC);
	struct fid_cq *cq = set_cq(t, set);

	OK(fi_cq_signal(cq));
	OK(fi_wait(set, t->limit_ms));
}

TEST(fi_poll, wait_set_for_eq, EP_ANY, FI_MSG, "Event queues and counters attach to a wait set, and wake it")
{
	struct fid_wait *set = open_wait(t, FI_WAIT_UNSPEC);
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_SET, .wait_set = set, .flags = FI_WRITE };
	struct fi_cntr_attr cntr_attr = { .wait_obj = FI_WAIT_SET, .wait_set = set };
	struct fi_eq_entry event = { 0 };
	struct fid_cntr *cntr = NULL;
	struct fid_eq *eq = NULL;
	uint32_t number;

	open_domain(t);
	OK(fi_eq_open(t->fabric, &eq_attr, &eq, NULL));
	keep(t, &eq->fid);
	OK_OR_SKIP(fi_cntr_open(t->domain, &cntr_attr, &cntr, NULL));
	keep(t, &cntr->fid);
	CHECK_RC(fi_wait(set, 0), -FI_ETIMEDOUT);
	CHECK_RC(fi_eq_write(eq, 1000, &event, sizeof(event), 0), sizeof(event));
	OK(fi_wait(set, t->limit_ms));
	CHECK_RC(fi_eq_read(eq, &number, &event, sizeof(event), 0), sizeof(event));
	OK(fi_cntr_add(cntr, 1));
	OK(fi_wait(set, t->limit_ms));
}

TEST(fi_cq, sread_on_wait_set, EP_ANY, FI_MSG, "A blocking read on a queue of a wait set is invalid")
{
	struct fi_cq_tagged_entry entry;
	struct fid_cq *cq = set_cq(t, open_wait(t, FI_WAIT_UNSPEC));

	CHECK_RC2(fi_cq_sread(cq, &entry, 1, NULL, 10), -FI_EINVAL, -FI_ENOSYS);
}
