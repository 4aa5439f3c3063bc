// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cntr(3): counters of bytes, waits and the error value, counters in a wait set.
#include "transfer.h"

#include <unistd.h>

enum { LEN = 40 };

// ---- FI_CNTR_EVENTS_BYTES

static void need_bytes(struct env *t)
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_BYTES };
	struct fid_cntr *cntr = NULL;
	int rc;

	open_domain(t);
	rc = fi_cntr_open(t->domain, &attr, &cntr, NULL);
	if (rc == -FI_ENOSYS || rc == -FI_EOPNOTSUPP || rc == -FI_EINVAL)
		SKIP("not offered");
	OK(rc);
	OK(fi_close(&cntr->fid));
}

static void wait_cntr(struct env *t, struct fid_cntr *cntr, uint64_t value)
{
	ONCE(t, fi_cntr_read(cntr) >= value);
	CHECK_EQ(fi_cntr_read(cntr), value);
}

// Three writes, one of them with CQ data, and a read of half the length.
static void write_and_read(struct env *t)
{
	struct buf local = new_buf(t, LEN, 1), around = new_buf(t, LEN, 0);
	struct region region = new_region(t, &t->b, around, FI_REMOTE_READ | FI_REMOTE_WRITE);
	struct fi_cq_tagged_entry entry;
	void *ctx = new_ctx();

	POST(t, fi_write(t->a.ep, local.mem, LEN, local.desc, t->a.peer, region.at, region.key, ctx));
	wait_comp(t, t->a.txcq, NULL);
	POST(t, fi_writedata(t->a.ep, local.mem, LEN, local.desc, 5, t->a.peer, region.at, region.key, ctx));
	wait_comp(t, t->a.txcq, NULL);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK_EQ(entry.data, 5);
	POST(t, fi_inject_write(t->a.ep, local.mem, LEN / 4, t->a.peer, region.at, region.key));
	POST(t, fi_read(t->a.ep, local.mem, LEN / 2, local.desc, t->a.peer, region.at, region.key, ctx));
	wait_comp(t, t->a.txcq, NULL);
}

TEST(fi_cntr, bytes_written, EP_RELIABLE, FI_RMA, "FI_CNTR_EVENTS_BYTES with FI_WRITE: the bytes this endpoint wrote, without CQ data")
{
	need_bytes(t);
	PAIR(t, .cntr.events = FI_CNTR_EVENTS_BYTES, .cntr_flags = FI_WRITE);
	write_and_read(t);
	wait_cntr(t, t->a.cntr, 2 * LEN + LEN / 4);
}

TEST(fi_cntr, bytes_read, EP_RELIABLE, FI_RMA, "FI_CNTR_EVENTS_BYTES with FI_READ: the bytes that came back")
{
	need_bytes(t);
	PAIR(t, .cntr.events = FI_CNTR_EVENTS_BYTES, .cntr_flags = FI_READ);
	write_and_read(t);
	wait_cntr(t, t->a.cntr, LEN / 2);
}

TEST(fi_cntr, bytes_at_the_target, EP_RELIABLE, FI_RMA | FI_RMA_EVENT, "FI_CNTR_EVENTS_BYTES at the target: the bytes written by peers, without CQ data")
{
	need_bytes(t);
	PAIR(t, .cntr.events = FI_CNTR_EVENTS_BYTES, .cntr_flags = FI_REMOTE_WRITE);
	write_and_read(t);
	wait_cntr(t, t->b.cntr, 2 * LEN + LEN / 4);
}

TEST(fi_cntr, bytes_of_an_error, EP_ANY, FI_MSG, "FI_CNTR_EVENTS_BYTES: an error adds 1 to the error value, whatever its size, and nothing to the value")
{
	need_bytes(t);
	PAIR(t, .cntr.events = FI_CNTR_EVENTS_BYTES, .cntr_flags = FI_RECV);
	flow_error(t, 0);
	ONCE(t, fi_cntr_readerr(t->b.cntr) == 1);
	CHECK_EQ(fi_cntr_read(t->b.cntr), 0);
}

// ---- Waits and errors

TEST(fi_cntr, wait_after_errors, EP_ANY, FI_MSG, "Errors that were counted before a wait began do not end it")
{
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_UNSPEC);

	OK_OR_SKIP(fi_cntr_adderr(cntr, 3));
	ONCE(t, fi_cntr_readerr(cntr) == 3);
	CHECK_RC(fi_cntr_wait(cntr, 1, 20), -FI_ETIMEDOUT);
	CHECK_EQ(fi_cntr_readerr(cntr), 3);
	OK(fi_cntr_add(cntr, 1));
	OK(fi_cntr_wait(cntr, 1, t->limit_ms));
}

TEST(fi_cntr, wait_woken_by_seterr, EP_ANY, FI_MSG, "fi_cntr_seterr to another value unblocks a thread in fi_cntr_wait with -FI_EAVAIL")
{
	struct cntr_waiter waiter = { .threshold = 1000 };
	uint64_t errors = 1;

	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	waiter.cntr = open_cntr(t, FI_WAIT_UNSPEC);
	OK_OR_SKIP(fi_cntr_seterr(waiter.cntr, 0));
	start_cntr_waiter(&waiter);
	for (uint64_t limit = now_ms() + t->limit_ms; !waiter.done; usleep(1000)) {
		CHECK(now_ms() < limit);
		OK(fi_cntr_seterr(waiter.cntr, errors++));
	}
	CHECK_RC(join_cntr_waiter(&waiter), -FI_EAVAIL);
}

TEST(fi_cntr, wait_woken_by_failure, EP_ANY, FI_MSG, "An operation that fails unblocks a thread in fi_cntr_wait with -FI_EAVAIL")
{
	struct cntr_waiter waiter = { .threshold = 1000 };

	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	PAIR(t, .cntr.wait_obj = FI_WAIT_UNSPEC, .cntr_flags = FI_RECV);
	waiter.cntr = t->b.cntr;
	start_cntr_waiter(&waiter);
	// A failure may come before the thread waits, so it is repeated until the thread returns.
	for (uint64_t limit = now_ms() + t->limit_ms; !waiter.done; usleep(1000)) {
		CHECK(now_ms() < limit);
		flow_error(t, 0);
	}
	CHECK_RC(join_cntr_waiter(&waiter), -FI_EAVAIL);
}

TEST(fi_cntr, wait_by_many, EP_ANY, FI_MSG, "Threads wait for different thresholds: each returns when its own is reached")
{
	struct cntr_waiter far[3], near;

	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	for (int round = 0; round < 200; round++) {
		struct fid_cntr *cntr = open_cntr(t, FI_WAIT_UNSPEC);

		for (int i = 0; i < 3; i++) {
			far[i] = (struct cntr_waiter){ .cntr = cntr, .threshold = 1000 };
			start_cntr_waiter(&far[i]);
		}
		near = (struct cntr_waiter){ .cntr = cntr, .threshold = 1 };
		start_cntr_waiter(&near);
		usleep(round * 5);
		OK(fi_cntr_add(cntr, 1));
		for (uint64_t limit = now_ms() + t->limit_ms; !near.done; usleep(50))
			CHECK(now_ms() < limit);
		OK(fi_cntr_set(cntr, 1000));
		for (int i = 0; i < 3; i++) {
			OK(join_cntr_waiter(&far[i]));
		}
		OK(join_cntr_waiter(&near));
		shut(t, &cntr->fid);
	}
}

TEST(fi_cntr, wait_reached_with_errors, EP_ANY, FI_MSG, "A threshold that is reached ends a wait with success, whatever the error value")
{
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_UNSPEC);

	OK_OR_SKIP(fi_cntr_adderr(cntr, 3));
	OK(fi_cntr_add(cntr, 2));
	ONCE(t, fi_cntr_read(cntr) == 2);
	OK(fi_cntr_wait(cntr, 2, -1));
}

TEST(fi_cntr, wait_on_wait_set, EP_ANY, FI_MSG, "A wait on a counter of a wait set is invalid: it is refused, or waits nevertheless, and ends")
{
	struct fi_wait_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cntr_attr cntr_attr = { .wait_obj = FI_WAIT_SET };
	struct fid_cntr *cntr = NULL;
	int rc;

	open_domain(t);
	OK_OR_SKIP(fi_wait_open(t->fabric, &attr, &cntr_attr.wait_set));
	keep(t, &cntr_attr.wait_set->fid);
	OK_OR_SKIP(fi_cntr_open(t->domain, &cntr_attr, &cntr, NULL));
	keep(t, &cntr->fid);
	rc = fi_cntr_wait(cntr, 1, 10);
	CHECK(rc == -FI_EINVAL || rc == -FI_ENOSYS || rc == -FI_ETIMEDOUT);
}
