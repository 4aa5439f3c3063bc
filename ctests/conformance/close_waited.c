// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_close while a thread sleeps on the object: the close is refused, and the thread continues to sleep.
#include "transfer.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

struct sleeper {
	pthread_t thread;
	_Atomic int tid;
	_Atomic bool done;
	int (*call)(void *object);
	void *object;
	int rc;
};

static void *sleeper_main(void *arg)
{
	struct sleeper *sleeper = arg;

	sleeper->tid = (int)syscall(SYS_gettid);
	sleeper->rc = sleeper->call(sleeper->object);
	sleeper->done = true;
	return NULL;
}

static bool is_asleep(const struct sleeper *sleeper)
{
	char path[64], state = 0;
	FILE *file;

	if (!sleeper->tid)
		return false;
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", sleeper->tid);
	file = fopen(path, "r");
	if (!file)
		return false;
	CHECK(fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
	fclose(file);
	return state == 'S';
}

static void sleep_in(struct env *t, struct sleeper *sleeper, int (*call)(void *), void *object)
{
	*sleeper = (struct sleeper){ .call = call, .object = object };
	CHECK(!pthread_create(&sleeper->thread, NULL, sleeper_main, sleeper));
	// The thread also sleeps for moments before it blocks, so it must be seen asleep several times.
	for (unsigned seen = 0; seen < 20; seen++) {
		for (uint64_t limit = now_ms() + t->limit_ms; !is_asleep(sleeper); sched_yield())
			CHECK(now_ms() < limit && !sleeper->done);
		sched_yield();
	}
}

static int woken(struct env *t, struct sleeper *sleeper)
{
	for (uint64_t limit = now_ms() + t->limit_ms; !sleeper->done; sched_yield())
		CHECK(now_ms() < limit);
	CHECK(!pthread_join(sleeper->thread, NULL));
	return sleeper->rc;
}

static void thread_safe(struct env *t)
{
	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	open_domain(t);
}

static int in_cq(void *cq)
{
	struct fi_cq_tagged_entry entry;

	return (int)fi_cq_sread(cq, &entry, 1, NULL, -1);
}

TEST(fi_cq, close_under_reader, EP_ANY | OURS_ONLY, FI_MSG, "A queue that a thread waits for cannot be closed: -FI_EBUSY")
{
	struct sleeper sleeper;
	struct fid_cq *cq;

	thread_safe(t);
	cq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC);
	sleep_in(t, &sleeper, in_cq, cq);
	CHECK_RC(fi_close(&cq->fid), -FI_EBUSY);
	OK(fi_cq_signal(cq));
	CHECK_RC(woken(t, &sleeper), -FI_EAGAIN);
	shut(t, &cq->fid);
}

static int in_cntr(void *cntr)
{
	return fi_cntr_wait(cntr, 1, -1);
}

TEST(fi_cntr, close_under_waiter, EP_ANY | OURS_ONLY, FI_MSG, "A counter that a thread waits for cannot be closed: -FI_EBUSY")
{
	struct sleeper sleeper;
	struct fid_cntr *cntr;

	thread_safe(t);
	cntr = open_cntr(t, FI_WAIT_UNSPEC);
	sleep_in(t, &sleeper, in_cntr, cntr);
	CHECK_RC(fi_close(&cntr->fid), -FI_EBUSY);
	OK(fi_cntr_add(cntr, 1));
	OK(woken(t, &sleeper));
	shut(t, &cntr->fid);
}

static int in_eq(void *eq)
{
	struct fi_eq_entry entry;
	uint32_t event;

	return (int)fi_eq_sread(eq, &event, &entry, sizeof(entry), -1, 0);
}

TEST(fi_eq, close_under_reader, EP_ANY | OURS_ONLY, FI_MSG, "An event queue that a thread waits for cannot be closed: -FI_EBUSY")
{
	struct fi_eq_entry entry = { 0 };
	struct sleeper sleeper;
	struct fid_eq *eq;

	open_fabric(t);
	eq = open_eq(t, FI_WAIT_UNSPEC, FI_WRITE);
	sleep_in(t, &sleeper, in_eq, eq);
	CHECK_RC(fi_close(&eq->fid), -FI_EBUSY);
	CHECK_RC(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
	CHECK_RC(woken(t, &sleeper), sizeof(entry));
	shut(t, &eq->fid);
}

static int in_set(void *set)
{
	return fi_wait(set, -1);
}

TEST(fi_poll, wait_set_close_under_waiter, EP_ANY | OURS_ONLY, FI_MSG, "A wait set that a thread waits for cannot be closed: -FI_EBUSY")
{
	struct fi_wait_attr attr = { .wait_obj = FI_WAIT_FD };
	struct fi_cq_attr cq_attr = { .wait_obj = FI_WAIT_SET, .format = FI_CQ_FORMAT_TAGGED };
	struct sleeper sleeper;
	struct fid_wait *set;
	struct fid_cq *cq, *other;

	thread_safe(t);
	OK(fi_wait_open(t->fabric, &attr, &set));
	keep(t, &set->fid);
	cq_attr.wait_set = set;
	OK(fi_cq_open(t->domain, &cq_attr, &cq, NULL));
	keep(t, &cq->fid);
	OK(fi_cq_open(t->domain, &cq_attr, &other, NULL));
	sleep_in(t, &sleeper, in_set, set);
	// A queue of the set may be closed meanwhile; the set itself may not.
	OK(fi_close(&other->fid));
	CHECK_RC(fi_close(&set->fid), -FI_EBUSY);
	OK(fi_cq_signal(cq));
	OK(woken(t, &sleeper));
}
