// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cq(3), fi_eq(3), fi_cntr(3), fi_poll(3): a signal handler of the process ends blocking calls.
#include "harness.h"

#include <signal.h>
#include <unistd.h>

static _Atomic bool handled;

static void handler(int signal)
{
	(void)signal;
	handled = true;
}

// A thread in a blocking call. `timeout` is -1, or longer than the time limit of the test.
struct blocked {
	struct env *t;
	struct fid *fid;
	int timeout;
	int (*call)(struct blocked *blocked);
	int rc;
	_Atomic bool done;
};

static int in_cq_sread(struct blocked *blocked)
{
	struct fi_cq_tagged_entry entry;

	return fi_cq_sread((struct fid_cq *)blocked->fid, &entry, 1, NULL, blocked->timeout);
}

static int in_cq_sreadfrom(struct blocked *blocked)
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t source;

	return fi_cq_sreadfrom((struct fid_cq *)blocked->fid, &entry, 1, &source, NULL, blocked->timeout);
}

static int in_eq_sread(struct blocked *blocked)
{
	union cm_entry entry;
	uint32_t event;

	return fi_eq_sread((struct fid_eq *)blocked->fid, &event, &entry, sizeof(entry), blocked->timeout, 0);
}

static int in_cntr_wait(struct blocked *blocked)
{
	return fi_cntr_wait((struct fid_cntr *)blocked->fid, 1, blocked->timeout);
}

static int in_wait(struct blocked *blocked)
{
	return fi_wait((struct fid_wait *)blocked->fid, blocked->timeout);
}

static void *blocked_main(void *arg)
{
	struct blocked *blocked = arg;

	blocked->rc = blocked->call(blocked);
	blocked->done = true;
	return NULL;
}

// A signal may come before the thread sleeps, so it is repeated until the thread returns.
static void check_interrupted(struct env *t, struct fid *fid, int (*call)(struct blocked *), int timeout)
{
	struct blocked blocked = { .t = t, .fid = fid, .timeout = timeout, .call = call };
	struct sigaction action = { .sa_handler = handler };
	pthread_t thread;

	CHECK(!sigaction(SIGUSR1, &action, NULL));
	CHECK_EQ(pthread_create(&thread, NULL, blocked_main, &blocked), 0);
	for (uint64_t limit = now_ms() + t->limit_ms; !blocked.done; usleep(1000)) {
		CHECK(now_ms() < limit);
		CHECK(!pthread_kill(thread, SIGUSR1));
	}
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK(handled);
	CHECK_RC(blocked.rc, -FI_EINTR);
}

// Checks a wait without a limit and one with a limit. Completions that arrive meanwhile can still be read.
static void check_cq(struct env *t, enum fi_wait_obj wait, int (*call)(struct blocked *))
{
	struct fi_cq_tagged_entry entry;
	ssize_t rc;

	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	PAIR(t, .cq.wait_obj = wait);
	check_interrupted(t, &t->b.rxcq->fid, call, -1);
	check_interrupted(t, &t->b.rxcq->fid, call, 1000000);
	flow_run(t, 0, 1);
	ONCE(t, (rc = fi_cq_sread(t->b.rxcq, &entry, 1, NULL, 50)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
}

TEST(fi_cq, sread_interrupted_unspec, EP_ANY, FI_MSG, "FI_WAIT_UNSPEC: a signal handler that runs in a blocked fi_cq_sread ends it with -FI_EINTR, whatever the timeout")
{
	check_cq(t, FI_WAIT_UNSPEC, in_cq_sread);
}

TEST(fi_cq, sread_interrupted_fd, EP_ANY, FI_MSG, "FI_WAIT_FD: a signal handler that runs in a blocked fi_cq_sread ends it with -FI_EINTR, whatever the timeout")
{
	check_cq(t, FI_WAIT_FD, in_cq_sread);
}

TEST(fi_cq, sread_interrupted_mutex_cond, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND: a signal handler that runs in a blocked fi_cq_sread ends it with -FI_EINTR, whatever the timeout")
{
	check_cq(t, FI_WAIT_MUTEX_COND, in_cq_sread);
}

TEST(fi_cq, sreadfrom_interrupted, EP_AV, FI_MSG | FI_SOURCE, "A signal handler that runs in a blocked fi_cq_sreadfrom ends it with -FI_EINTR, whatever the timeout")
{
	check_cq(t, FI_WAIT_FD, in_cq_sreadfrom);
}

static void check_cntr(struct env *t, enum fi_wait_obj wait)
{
	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	PAIR(t, .cntr.wait_obj = wait, .cntr_flags = FI_RECV);
	check_interrupted(t, &t->b.cntr->fid, in_cntr_wait, -1);
	check_interrupted(t, &t->b.cntr->fid, in_cntr_wait, 1000000);
	flow_run(t, 0, 1);
	ONCE(t, fi_cntr_read(t->b.cntr) == 1);
}

TEST(fi_cntr, wait_interrupted, EP_ANY, FI_MSG, "A signal handler that runs in a blocked fi_cntr_wait ends it with -FI_EINTR, whatever the timeout")
{
	check_cntr(t, FI_WAIT_FD);
}

TEST(fi_cntr, wait_interrupted_none, EP_ANY, FI_MSG, "FI_WAIT_NONE: a signal handler that runs in a blocked fi_cntr_wait ends it with -FI_EINTR, whatever the timeout")
{
	check_cntr(t, FI_WAIT_NONE);
}

TEST(fi_eq, sread_interrupted, EP_ANY, FI_MSG, "A signal handler that runs in a blocked fi_eq_sread ends it with -FI_EINTR, whatever the timeout")
{
	struct fid_eq *eq;

	open_domain(t);
	eq = open_eq(t, FI_WAIT_FD, 0);
	check_interrupted(t, &eq->fid, in_eq_sread, -1);
	check_interrupted(t, &eq->fid, in_eq_sread, 1000000);
}

TEST(fi_poll, wait_interrupted, EP_ANY, FI_MSG, "A signal handler that runs in a blocked fi_wait ends it with -FI_EINTR, whatever the timeout")
{
	struct fi_wait_attr attr = { .wait_obj = FI_WAIT_FD };
	struct fid_wait *set;

	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	open_domain(t);
	OK_OR_SKIP(fi_wait_open(t->fabric, &attr, &set));
	keep(t, &set->fid);
	PAIR(t, .cq.wait_obj = FI_WAIT_SET, .cq.wait_set = set);
	check_interrupted(t, &set->fid, in_wait, -1);
	check_interrupted(t, &set->fid, in_wait, 1000000);
}
