// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cq(3), fi_cntr(3), fi_poll(3): a condition variable that the application uses itself, while messages come from
//! another process and progress is manual.
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <time.h>

#include "process.h"

enum { LEN = 64, MESSAGES = 20 };

// Sends a message at each command of the parent.
static void send_when_told(struct env *t, struct process *parent)
{
	struct side side = { 0 };
	char word;

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	for (unsigned i = 0; i < MESSAGES; i++) {
		void *ctx;

		hear(t, parent, &word, 1);
		ctx = post_send(t, &side, new_buf(t, LEN, i + 1));
		done(t, side.txcq, ctx, FI_MSG | FI_SEND);
	}
	hear(t, parent, &word, 1);
}

// Opens an endpoint whose queue or counter has a condition variable, or is in a set that has one. `*waited` is the
// object to wait on.
enum waited { BY_CQ, BY_CNTR, BY_SET };

static struct fid *open_waited(struct env *t, struct side *side, enum waited by)
{
	struct fi_wait_attr set_attr = { .wait_obj = FI_WAIT_MUTEX_COND };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE };
	struct fi_cntr_attr cntr_attr = { .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_MUTEX_COND };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fid_wait *set = NULL;

	open_domain(t);
	if (by == BY_CQ)
		cq_attr.wait_obj = FI_WAIT_MUTEX_COND;
	if (by == BY_SET) {
		OK_OR_SKIP(fi_wait_open(t->fabric, &set_attr, &set));
		keep(t, &set->fid);
		cq_attr.wait_obj = FI_WAIT_SET;
		cq_attr.wait_set = set;
	}
	OK(fi_cq_open(t->domain, &cq_attr, &side->rxcq, NULL));
	keep(t, &side->rxcq->fid);
	side->txcq = side->rxcq;
	OK(fi_av_open(t->domain, &av_attr, &side->av, NULL));
	keep(t, &side->av->fid);
	if (by == BY_CNTR) {
		OK(fi_cntr_open(t->domain, &cntr_attr, &side->cntr, NULL));
		keep(t, &side->cntr->fid);
	}
	side->ep = open_ep(t, t->info);
	OK(fi_ep_bind(side->ep, &side->av->fid, 0));
	OK(fi_ep_bind(side->ep, &side->rxcq->fid, FI_TRANSMIT | FI_RECV));
	if (side->cntr)
		OK(fi_ep_bind(side->ep, &side->cntr->fid, FI_RECV));
	OK(fi_enable(side->ep));
	side->namelen = sizeof(side->name);
	OK(fi_getname(&side->ep->fid, side->name, &side->namelen));
	return by == BY_CNTR ? &side->cntr->fid : by == BY_SET ? &set->fid : &side->rxcq->fid;
}

// Waits until the condition is signalled, perhaps spuriously.
static void wait_once(struct env *t, struct fid *fid, struct fi_mutex_cond *wait)
{
	struct timespec end;
	int rc = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += t->limit_ms / 1000;
	pthread_mutex_lock(wait->mutex);
	if (fi_trywait(t->fabric, &fid, 1) == FI_SUCCESS)
		rc = pthread_cond_timedwait(wait->cond, wait->mutex, &end);
	pthread_mutex_unlock(wait->mutex);
	CHECK_EQ(rc, 0);
}

static void check_woken(struct env *t, enum waited by)
{
	struct fi_mutex_cond wait = { 0 };
	struct process child;
	struct fid *fid;

	t->hints->domain_attr->progress = FI_PROGRESS_MANUAL;
	env_info(t);
	child = start_process(t, send_when_told);
	fid = open_waited(t, &t->a, by);
	OK(fi_control(fid, FI_GETWAIT, &wait));
	meet(t, &t->a, &child);
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct buf in = new_buf(t, LEN, 0);
		void *ctx = post_recv(t, &t->a, in);
		ssize_t rc = -FI_EAGAIN;

		tell(&child, "", 1);
		while (rc == -FI_EAGAIN) {
			struct fi_cq_tagged_entry entry;

			wait_once(t, fid, &wait);
			rc = fi_cq_read(t->a.rxcq, &entry, 1);
			CHECK(rc != 1 || entry.op_context == ctx);
		}
		CHECK_RC(rc, 1);
		CHECK(holds(in, LEN, i + 1));
	}
	tell(&child, "", 1);
	join_process(t, &child);
}

TEST(fi_cq, mutex_cond_wakes_for_messages, EP_AV, FI_MSG, "FI_WAIT_MUTEX_COND: a message of another process wakes who waits on the condition of a queue, with manual progress")
{
	check_woken(t, BY_CQ);
}

TEST(fi_cntr, mutex_cond_wakes_for_messages, EP_AV, FI_MSG, "FI_WAIT_MUTEX_COND: a message of another process wakes who waits on the condition of a counter, with manual progress")
{
	check_woken(t, BY_CNTR);
}

TEST(fi_poll, mutex_cond_wakes_for_messages, EP_AV, FI_MSG, "FI_WAIT_MUTEX_COND: a message of another process wakes who waits on the condition of a set, with manual progress")
{
	check_woken(t, BY_SET);
}

// ---- Writes to memory

struct place {
	uint64_t at, key;
};

// Writes at each command of the parent.
static void write_when_told(struct env *t, struct process *parent)
{
	struct side side = { 0 };
	struct place place;
	char word;

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	hear(t, parent, &place, sizeof(place));
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct buf out = new_buf(t, LEN, i + 1);
		void *ctx = new_ctx();

		hear(t, parent, &word, 1);
		POST(t, fi_write(side.ep, out.mem, LEN, out.desc, side.peer, place.at, place.key, ctx));
		done(t, side.txcq, ctx, FI_RMA | FI_WRITE);
	}
	hear(t, parent, &word, 1);
}

TEST(fi_mr, counter_wakes_for_writes, EP_RDM, FI_MSG | FI_RMA | FI_RMA_EVENT, "FI_WAIT_FD: a write of another process wakes who waits on the descriptor of a region's counter, with manual progress")
{
	struct process child;
	struct region region;
	struct fid_cntr *cntr;
	struct place place;
	struct pollfd wait = { .events = POLLIN };

	t->hints->domain_attr->progress = FI_PROGRESS_MANUAL;
	env_info(t);
	child = start_process(t, write_when_told);
	open_end(t, &t->a, FI_WAIT_NONE);
	cntr = open_cntr(t, FI_WAIT_FD);
	OK(fi_control(&cntr->fid, FI_GETWAIT, &wait.fd));
	region = new_region(t, &t->a, new_buf(t, LEN, 0), FI_REMOTE_WRITE);
	OK_OR_SKIP(fi_mr_bind(region.mr, &cntr->fid, FI_REMOTE_WRITE));
	meet(t, &t->a, &child);
	place = (struct place){ region.at, region.key };
	tell(&child, &place, sizeof(place));
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct fid *fid = &cntr->fid;

		tell(&child, "", 1);
		while (fi_cntr_read(cntr) < i + 1)
			if (fi_trywait(t->fabric, &fid, 1) == FI_SUCCESS)
				CHECK_EQ(poll(&wait, 1, t->limit_ms), 1);
		CHECK(holds(region.buf, LEN, i + 1));
	}
	tell(&child, "", 1);
	join_process(t, &child);
}
