// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_eq(3), fi_poll(3): waiting for connection events only by blocking reads, descriptors or wait sets; lifetime of
//! error data.
#include "harness.h"

#include <poll.h>
#include <time.h>

// Opens a listener on t->eq and sends it a request.
static struct cm_listener requested(struct env *t, struct fid_eq *eq)
{
	struct cm_listener listener;

	t->eq = eq;
	listener = cm_listen(t);
	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	OK(fi_connect(t->a.ep, listener.addr, NULL, 0));
	return listener;
}

static void accept_request(struct env *t, struct fi_eq_cm_entry *entry)
{
	cm_accepting(t, entry->info);
	OK(fi_enable(t->b.ep));
	OK(fi_accept(t->b.ep, NULL, 0));
}

static void check_sread(struct env *t, enum fi_wait_obj wait)
{
	struct fi_eq_cm_entry entry;
	uint32_t event;

	requested(t, open_eq(t, wait, 0));
	CHECK_RC(fi_eq_sread(t->eq, &event, &entry, sizeof(entry), -1, 0), sizeof(entry));
	CHECK_EQ(event, FI_CONNREQ);
	accept_request(t, &entry);
	for (int i = 0; i < 2; i++) {
		CHECK_RC(fi_eq_sread(t->eq, &event, &entry, sizeof(entry), -1, 0), sizeof(entry));
		CHECK_EQ(event, FI_CONNECTED);
	}
	shut(t, &t->b.ep->fid);
	CHECK_RC(fi_eq_sread(t->eq, &event, &entry, sizeof(entry), -1, 0), sizeof(entry));
	CHECK_EQ(event, FI_SHUTDOWN);
	CHECK(entry.fid == &t->a.ep->fid);
}

TEST(fi_eq, sread_connects_unspec, EP_MSG, FI_MSG, "FI_WAIT_UNSPEC: endless blocking reads alone bring a connection up, and tell of its end")
{
	check_sread(t, FI_WAIT_UNSPEC);
}

TEST(fi_eq, sread_connects_fd, EP_MSG, FI_MSG, "FI_WAIT_FD: endless blocking reads alone bring a connection up, and tell of its end")
{
	check_sread(t, FI_WAIT_FD);
}

TEST(fi_eq, sread_connects_yield, EP_MSG, FI_MSG, "FI_WAIT_YIELD: endless blocking reads alone bring a connection up, and tell of its end")
{
	check_sread(t, FI_WAIT_YIELD);
}

// Reads the next event after each successful wait.
static void check_waits(struct env *t, void (*wait)(struct env *t, void *arg), void *arg)
{
	static const uint32_t want[] = { FI_CONNREQ, FI_CONNECTED, FI_CONNECTED };

	for (int i = 0; i < 3;) {
		struct fi_eq_cm_entry entry;
		uint32_t event;
		ssize_t rc;

		wait(t, arg);
		rc = fi_eq_read(t->eq, &event, &entry, sizeof(entry), 0);
		if (rc == -FI_EAGAIN)
			continue;
		CHECK_RC(rc, sizeof(entry));
		CHECK_EQ(event, want[i++]);
		if (event == FI_CONNREQ)
			accept_request(t, &entry);
	}
}

static void wait_fd(struct env *t, void *arg)
{
	struct fid *fids[1] = { &t->eq->fid };

	if (fi_trywait(t->fabric, fids, 1) == FI_SUCCESS)
		CHECK(poll(arg, 1, t->limit_ms) > 0);
}

TEST(fi_eq, fd_connects, EP_MSG, FI_MSG, "fi_trywait and the file descriptor alone bring a connection up: no wake-up is lost")
{
	struct pollfd fd = { .events = POLLIN };

	requested(t, open_eq(t, FI_WAIT_FD, 0));
	OK(fi_control(&t->eq->fid, FI_GETWAIT, &fd.fd));
	check_waits(t, wait_fd, &fd);
}

static void wait_cond(struct env *t, void *arg)
{
	struct fid *fids[1] = { &t->eq->fid };
	struct fi_mutex_cond *wait = arg;
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += t->limit_ms / 1000;
	pthread_mutex_lock(wait->mutex);
	if (fi_trywait(t->fabric, fids, 1) == FI_SUCCESS)
		CHECK_EQ(pthread_cond_timedwait(wait->cond, wait->mutex, &end), 0);
	pthread_mutex_unlock(wait->mutex);
}

TEST(fi_eq, mutex_cond_connects, EP_MSG, FI_MSG, "FI_WAIT_MUTEX_COND: fi_trywait and the condition alone bring a connection up, with manual progress")
{
	struct fi_mutex_cond wait = { 0 };

	t->hints->domain_attr->progress = FI_PROGRESS_MANUAL;
	env_info(t);
	requested(t, open_eq(t, FI_WAIT_MUTEX_COND, 0));
	OK(fi_control(&t->eq->fid, FI_GETWAIT, &wait));
	check_waits(t, wait_cond, &wait);
}

static void wait_set(struct env *t, void *arg)
{
	OK(fi_wait(arg, t->limit_ms));
}

static struct fid_wait *open_set(struct env *t)
{
	struct fi_wait_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fid_wait *set = NULL;

	open_fabric(t);
	OK_OR_SKIP(fi_wait_open(t->fabric, &attr, &set));
	keep(t, &set->fid);
	return set;
}

static struct fid_eq *eq_of_set(struct env *t, struct fid_wait *set)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_SET, .wait_set = set };
	struct fid_eq *eq = NULL;

	OK(fi_eq_open(t->fabric, &attr, &eq, NULL));
	keep(t, &eq->fid);
	return eq;
}

TEST(fi_poll, wait_set_connects, EP_MSG, FI_MSG, "fi_wait on a set with the event queue alone brings a connection up")
{
	struct fid_wait *set = open_set(t);

	requested(t, eq_of_set(t, set));
	check_waits(t, wait_set, set);
}

TEST(fi_poll, wait_set_counter, EP_ANY, FI_MSG, "fi_wait returns when a counter of the set counts a message")
{
	struct fid_wait *set = open_set(t);

	PAIR(t, .cntr.wait_obj = FI_WAIT_SET, .cntr.wait_set = set, .cntr_flags = FI_RECV);
	flow_post_recv(t, 0, 1);
	flow_post_send(t, 0, 1);
	while (fi_cntr_read(t->b.cntr) < 1) {
		OK(fi_wait(set, t->limit_ms));
		fi_cq_read(t->a.txcq, NULL, 0);
	}
}

TEST(fi_poll, wait_set_trywait, EP_ANY, FI_MSG, "fi_trywait on a wait set stands for what is in it")
{
	struct fid_wait *set = open_set(t);
	struct fid *fids[1] = { &set->fid };

	PAIR(t, .cq.wait_obj = FI_WAIT_SET, .cq.wait_set = set);
	ONCE(t, fi_trywait(t->fabric, fids, 1) == FI_SUCCESS);
	flow_run(t, 0, 1);
	ONCE(t, fi_trywait(t->fabric, fids, 1) == -FI_EAGAIN);
	wait_comp(t, t->b.rxcq, NULL);
	ONCE(t, fi_trywait(t->fabric, fids, 1) == FI_SUCCESS);
}

TEST(fi_eq, sread_on_wait_set, EP_ANY, FI_MSG, "A blocking read on a queue of a wait set is invalid")
{
	struct fid_eq *eq = eq_of_set(t, open_set(t));
	struct fi_eq_entry entry;
	uint32_t event;

	CHECK_RC2(fi_eq_sread(eq, &event, &entry, sizeof(entry), 10, 0), -FI_EINVAL, -FI_ENOSYS);
}

// ---- Error data

static void refuse(struct env *t, struct cm_listener *listener, const void *data, size_t len)
{
	struct fi_eq_cm_entry entry;

	wait_event(t, t->eq, FI_CONNREQ, &entry, sizeof(entry));
	OK(fi_reject(listener->pep, entry.info->handle, data, len));
	fi_freeinfo(entry.info);
}

TEST(fi_eq, err_data_stays, EP_MSG, FI_MSG, "Error data in a buffer of the provider stays until the queue is read again, whatever else happens")
{
	struct fi_eq_err_entry err = { 0 };
	struct cm_listener listener = requested(t, open_eq(t, FI_WAIT_UNSPEC, FI_WRITE));
	struct fi_eq_entry event = { 0 };
	uint8_t data[64], other[64];
	struct fid *fids[1] = { &t->eq->fid };
	uint32_t number;

	fill(data, sizeof(data), 7);
	fill(other, sizeof(other), 8);
	refuse(t, &listener, data, sizeof(data));
	wait_eq_err(t, t->eq, &err);
	CHECK(err.err_data_size >= sizeof(data) && filled(err.err_data, sizeof(data), 7));
	shut(t, &t->a.ep->fid);
	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	OK(fi_connect(t->a.ep, listener.addr, other, sizeof(other)));
	CHECK_RC(fi_eq_write(t->eq, 1000, &event, sizeof(event), 0), sizeof(event));
	for (int i = 0; i < 100; i++) {
		fi_trywait(t->fabric, fids, 1);
		fi_cq_read(t->a.rxcq, NULL, 0);
	}
	CHECK(filled(err.err_data, sizeof(data), 7));
	CHECK_RC(fi_eq_read(t->eq, &number, &event, sizeof(event), 0), sizeof(event));
	refuse(t, &listener, other, sizeof(other));
	memset(&err, 0, sizeof(err));
	wait_eq_err(t, t->eq, &err);
	CHECK(filled(err.err_data, sizeof(other), 8));
}
