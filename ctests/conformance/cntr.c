// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cntr(3): opening, values, waiting, counted events.
#include "harness.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

static int try_cntr(struct env *t, struct fi_cntr_attr *attr)
{
	struct fid_cntr *cntr = NULL;
	int rc;

	open_cntr(t, FI_WAIT_NONE); // skips if there are no counters
	rc = fi_cntr_open(t->domain, attr, &cntr, NULL);
	if (!rc)
		OK(fi_close(&cntr->fid));
	return rc;
}

TEST(fi_cntr, open_default_attributes, EP_ANY, FI_MSG, "Attributes of all zero are valid: completions, no wait object")
{
	struct fi_cntr_attr attr = { 0 };

	OK(try_cntr(t, &attr));
}

TEST(fi_cntr, open_sets_class_and_context, EP_ANY, FI_MSG, "The counter is of class FI_CLASS_CNTR and carries the caller's context")
{
	struct fi_cntr_attr attr = { 0 };
	struct fid_cntr *cntr = NULL;
	int mark;

	open_domain(t);
	OK_OR_SKIP(fi_cntr_open(t->domain, &attr, &cntr, &mark));
	keep(t, &cntr->fid);
	CHECK_EQ(cntr->fid.fclass, FI_CLASS_CNTR);
	CHECK(cntr->fid.context == &mark);
}

TEST(fi_cntr, open_wait_unspec, EP_ANY, FI_MSG, "FI_WAIT_UNSPEC can be asked for")
{
	open_cntr(t, FI_WAIT_UNSPEC);
}

TEST(fi_cntr, open_wait_fd, EP_ANY, FI_MSG, "FI_WAIT_FD can be asked for")
{
	open_cntr(t, FI_WAIT_FD);
}

TEST(fi_cntr, open_wait_mutex_cond, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND can be asked for")
{
	open_cntr(t, FI_WAIT_MUTEX_COND);
}

TEST(fi_cntr, open_wait_yield, EP_ANY, FI_MSG, "FI_WAIT_YIELD can be asked for")
{
	open_cntr(t, FI_WAIT_YIELD);
}

TEST(fi_cntr, open_unknown_wait_object, EP_ANY, FI_MSG, "An unknown wait object is refused with -FI_EINVAL")
{
	struct fi_cntr_attr attr = { .wait_obj = 1000 };

	CHECK_RC(try_cntr(t, &attr), -FI_EINVAL);
	attr.wait_obj = -1;
	CHECK_RC(try_cntr(t, &attr), -FI_EINVAL);
}

TEST(fi_cntr, open_wait_set_without_set, EP_ANY, FI_MSG, "FI_WAIT_SET must come with an existing wait set")
{
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_SET };

	CHECK_RC(try_cntr(t, &attr), -FI_EINVAL);
}

TEST(fi_cntr, open_unknown_events, EP_ANY, FI_MSG, "An unknown kind of event is refused with -FI_EINVAL")
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_BYTES + 1 };

	CHECK_RC(try_cntr(t, &attr), -FI_EINVAL);
	attr.events = -1;
	CHECK_RC(try_cntr(t, &attr), -FI_EINVAL);
}

TEST(fi_cntr, open_flags_reserved, EP_ANY, FI_MSG, "Flags are reserved and must be 0")
{
	struct fi_cntr_attr attr = { .flags = 1 };

	CHECK_RC2(try_cntr(t, &attr), -FI_EINVAL, -FI_EBADFLAGS);
	attr.flags = 1ULL << 51;
	CHECK_RC2(try_cntr(t, &attr), -FI_EINVAL, -FI_EBADFLAGS);
}

TEST(fi_cntr, close_while_bound, EP_ANY, FI_MSG, "A counter that an open endpoint is bound to cannot be closed: -FI_EBUSY")
{
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_NONE);

	open_bound_ep(t, &t->a);
	OK(fi_ep_bind(t->a.ep, &cntr->fid, FI_SEND | FI_RECV));
	CHECK_RC(fi_close(&cntr->fid), -FI_EBUSY);
	shut(t, &t->a.ep->fid);
	shut(t, &cntr->fid);
}

TEST(fi_cntr, close_while_bound_to_mr, EP_RELIABLE, FI_RMA | FI_RMA_EVENT, "A counter that a memory region is bound to cannot be closed: -FI_EBUSY")
{
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_NONE);
	static char buf[64];
	struct fid_mr *mr = NULL;

	OK(fi_mr_reg(t->domain, buf, sizeof(buf), FI_REMOTE_WRITE, 0, t->next_key++, FI_RMA_EVENT, &mr, NULL));
	keep(t, &mr->fid);
	OK_OR_SKIP(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
	CHECK_RC(fi_close(&cntr->fid), -FI_EBUSY);
	shut(t, &mr->fid);
	shut(t, &cntr->fid);
}

// ---- Values. The page allows an update to become visible later.

TEST(fi_cntr, starts_at_zero, EP_ANY, FI_MSG, "A new counter has value 0 and error value 0")
{
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_NONE);

	CHECK_EQ(fi_cntr_read(cntr), 0);
	CHECK_EQ(fi_cntr_readerr(cntr), 0);
}

TEST(fi_cntr, add_and_set, EP_ANY, FI_MSG, "fi_cntr_add adds, fi_cntr_set replaces; the error value is not touched")
{
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_NONE);

	OK(fi_cntr_add(cntr, 5));
	ONCE(t, fi_cntr_read(cntr) == 5);
	OK(fi_cntr_add(cntr, 7));
	ONCE(t, fi_cntr_read(cntr) == 12);
	OK(fi_cntr_set(cntr, 3));
	ONCE(t, fi_cntr_read(cntr) == 3);
	OK(fi_cntr_set(cntr, 0));
	ONCE(t, fi_cntr_read(cntr) == 0);
	CHECK_EQ(fi_cntr_readerr(cntr), 0);
}

TEST(fi_cntr, adderr_and_seterr, EP_ANY, FI_MSG, "fi_cntr_adderr adds, fi_cntr_seterr replaces; the value is not touched")
{
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_NONE);

	OK_OR_SKIP(fi_cntr_adderr(cntr, 2));
	ONCE(t, fi_cntr_readerr(cntr) == 2);
	OK(fi_cntr_adderr(cntr, 2));
	ONCE(t, fi_cntr_readerr(cntr) == 4);
	OK(fi_cntr_seterr(cntr, 1));
	ONCE(t, fi_cntr_readerr(cntr) == 1);
	CHECK_EQ(fi_cntr_read(cntr), 0);
}

TEST(fi_cntr, full_range, EP_ANY, FI_MSG, "Values up to max_cntr_value and max_err_cntr_value can be held")
{
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_NONE);
	uint64_t max = t->info->domain_attr->max_cntr_value, max_err = t->info->domain_attr->max_err_cntr_value;

	max = max ? max : UINT64_MAX;
	max_err = max_err ? max_err : UINT64_MAX;
	OK(fi_cntr_set(cntr, max));
	ONCE(t, fi_cntr_read(cntr) == max);
	OK_OR_SKIP(fi_cntr_seterr(cntr, max_err));
	ONCE(t, fi_cntr_readerr(cntr) == max_err);
}

// ---- Waiting

static void check_wait(struct env *t, enum fi_wait_obj wait)
{
	struct fid_cntr *cntr = open_cntr(t, wait);
	uint64_t start = now_ms();

	CHECK_RC(fi_cntr_wait(cntr, 1, 0), -FI_ETIMEDOUT);
	CHECK_RC(fi_cntr_wait(cntr, 1, 30), -FI_ETIMEDOUT);
	CHECK(now_ms() - start + 1 >= 30);
	CHECK(now_ms() - start < t->limit_ms);
	CHECK_EQ(fi_cntr_readerr(cntr), 0);
	OK(fi_cntr_wait(cntr, 0, 0));
	OK(fi_cntr_add(cntr, 3));
	ONCE(t, fi_cntr_read(cntr) == 3);
	OK(fi_cntr_wait(cntr, 3, 0));
	OK(fi_cntr_wait(cntr, 2, -1));
	CHECK_RC(fi_cntr_wait(cntr, 4, 5), -FI_ETIMEDOUT);
}

TEST(fi_cntr, wait_unspec, EP_ANY, FI_MSG, "FI_WAIT_UNSPEC: a wait ends at the threshold, or with -FI_ETIMEDOUT")
{
	check_wait(t, FI_WAIT_UNSPEC);
}

TEST(fi_cntr, wait_fd, EP_ANY, FI_MSG, "FI_WAIT_FD: a wait ends at the threshold, or with -FI_ETIMEDOUT")
{
	check_wait(t, FI_WAIT_FD);
}

TEST(fi_cntr, wait_mutex_cond, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND: a wait ends at the threshold, or with -FI_ETIMEDOUT")
{
	check_wait(t, FI_WAIT_MUTEX_COND);
}

TEST(fi_cntr, wait_yield, EP_ANY, FI_MSG, "FI_WAIT_YIELD: a wait ends at the threshold, or with -FI_ETIMEDOUT")
{
	check_wait(t, FI_WAIT_YIELD);
}

TEST(fi_cntr, wait_without_wait_object, EP_ANY, FI_MSG, "A wait on FI_WAIT_NONE is invalid: it is refused, or waits nevertheless, and ends")
{
	int rc = fi_cntr_wait(open_cntr(t, FI_WAIT_NONE), 1, 10);

	CHECK(rc == -FI_EINVAL || rc == -FI_ENOSYS || rc == -FI_ETIMEDOUT);
}

static void check_woken(struct env *t, enum fi_wait_obj wait)
{
	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	for (int i = 0; i < 20; i++) {
		struct cntr_waiter waiter = { .cntr = open_cntr(t, wait), .threshold = 2 };

		start_cntr_waiter(&waiter);
		usleep(i * 100);
		OK(fi_cntr_add(waiter.cntr, 1));
		OK(fi_cntr_add(waiter.cntr, 1));
		OK(join_cntr_waiter(&waiter));
	}
}

TEST(fi_cntr, wait_woken_unspec, EP_ANY, FI_MSG, "FI_WAIT_UNSPEC: reaching the threshold unblocks an endless wait")
{
	check_woken(t, FI_WAIT_UNSPEC);
}

TEST(fi_cntr, wait_woken_fd, EP_ANY, FI_MSG, "FI_WAIT_FD: reaching the threshold unblocks an endless wait")
{
	check_woken(t, FI_WAIT_FD);
}

TEST(fi_cntr, wait_woken_mutex_cond, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND: reaching the threshold unblocks an endless wait")
{
	check_woken(t, FI_WAIT_MUTEX_COND);
}

TEST(fi_cntr, wait_woken_yield, EP_ANY, FI_MSG, "FI_WAIT_YIELD: reaching the threshold unblocks an endless wait")
{
	check_woken(t, FI_WAIT_YIELD);
}

TEST(fi_cntr, wait_woken_by_set, EP_ANY, FI_MSG, "fi_cntr_set to the threshold unblocks an endless wait")
{
	struct cntr_waiter waiter = { .threshold = 1000 };

	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	waiter.cntr = open_cntr(t, FI_WAIT_UNSPEC);
	start_cntr_waiter(&waiter);
	OK(fi_cntr_set(waiter.cntr, 1000));
	OK(join_cntr_waiter(&waiter));
}

TEST(fi_cntr, wait_woken_by_error, EP_ANY, FI_MSG, "A change of the error value unblocks a thread in fi_cntr_wait with an error")
{
	struct cntr_waiter waiter = { .threshold = 1000 };

	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	waiter.cntr = open_cntr(t, FI_WAIT_UNSPEC);
	start_cntr_waiter(&waiter);
	for (uint64_t limit = now_ms() + t->limit_ms; !waiter.done; usleep(1000)) {
		CHECK(now_ms() < limit);
		OK(fi_cntr_adderr(waiter.cntr, 1));
	}
	CHECK_RC(join_cntr_waiter(&waiter), -FI_EAVAIL);
}

TEST(fi_cntr, wait_woken_by_message, EP_ANY, FI_MSG, "A wait brings its own progress: it ends when messages have come")
{
	struct cntr_waiter waiter = { .threshold = 3 };

	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	PAIR(t, .cntr.wait_obj = FI_WAIT_UNSPEC, .cntr_flags = FI_RECV);
	waiter.cntr = t->b.cntr;
	flow_post_recv(t, 0, 3);
	start_cntr_waiter(&waiter);
	flow_post_send(t, 0, 3);
	for (uint64_t limit = now_ms() + t->limit_ms; !waiter.done; sched_yield()) {
		CHECK(now_ms() < limit);
		fi_cq_read(t->a.txcq, NULL, 0);
	}
	OK(join_cntr_waiter(&waiter));
}

TEST(fi_cntr, fd_becomes_ready, EP_ANY, FI_MSG, "FI_GETWAIT on FI_WAIT_FD gives a file descriptor that is ready after a change")
{
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_FD);
	struct pollfd fd = { .fd = -1, .events = POLLIN };
	struct fid *fids[1] = { &cntr->fid };

	OK(fi_control(&cntr->fid, FI_GETWAIT, &fd.fd));
	CHECK(fd.fd >= 0 && fcntl(fd.fd, F_GETFD) != -1);
	ONCE(t, fi_trywait(t->fabric, fids, 1) == FI_SUCCESS);
	OK(fi_cntr_add(cntr, 1));
	CHECK_EQ(poll(&fd, 1, t->limit_ms), 1);
}

TEST(fi_cntr, control_getwaitobj, EP_ANY, FI_MSG, "FI_GETWAITOBJ gives the type of the wait object")
{
	enum fi_wait_obj got = 1000;

	OK(fi_control(&open_cntr(t, FI_WAIT_FD)->fid, FI_GETWAITOBJ, &got));
	CHECK_EQ(got, FI_WAIT_FD);
}

TEST(fi_cntr, control_opsflag, EP_ANY, FI_MSG, "FI_GETOPSFLAG and FI_SETOPSFLAG read and replace the default flags; there are none to set")
{
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_NONE);
	uint64_t flags = ~0ULL;

	OK_OR_SKIP(fi_control(&cntr->fid, FI_GETOPSFLAG, &flags));
	CHECK_EQ(flags, 0);
	OK(fi_control(&cntr->fid, FI_SETOPSFLAG, &flags));
}

TEST(fi_cntr, control_unknown_command, EP_ANY, FI_MSG, "A command that a counter does not know gives -FI_ENOSYS")
{
	uint64_t arg = 0;

	CHECK_RC(fi_control(&open_cntr(t, FI_WAIT_FD)->fid, 0x7fff, &arg), -FI_ENOSYS);
}

// ---- Counted events

TEST(fi_cntr, counts_sends, EP_ANY, FI_MSG, "A counter bound with FI_SEND counts the endpoint's sends, and no receives")
{
	PAIR(t, .cntr_flags = FI_SEND);
	flow_run(t, 0, 5);
	ONCE(t, fi_cntr_read(t->a.cntr) == 5);
	for (int i = 0; i < 5; i++)
		wait_comp(t, t->b.rxcq, NULL);
	CHECK_EQ(fi_cntr_read(t->a.cntr), 5);
	CHECK_EQ(fi_cntr_read(t->b.cntr), 0);
}

TEST(fi_endpoint, remote_counters_need_rma_event, EP_RELIABLE, FI_MSG | FI_RMA, "Without FI_RMA_EVENT no counter counts what peers do: FI_REMOTE_READ and FI_REMOTE_WRITE alone are refused, and beside other flags they change nothing")
{
	static const uint64_t flags[] = { FI_REMOTE_READ, FI_REMOTE_WRITE };
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_NONE);
	struct fid_ep *ep;

	t->info->caps &= ~FI_RMA_EVENT;
	t->info->rx_attr->caps &= ~FI_RMA_EVENT;
	ep = open_ep(t, t->info);
	for (unsigned i = 0; i < 2; i++)
		CHECK_RC2(fi_ep_bind(ep, &cntr->fid, flags[i]), -FI_EINVAL, -FI_EBADFLAGS);
	PAIR(t, .cntr_flags = FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE);
	flow_run(t, 0, 5);
	ONCE(t, fi_cntr_read(t->b.cntr) == 5);
}

TEST(fi_cntr, counts_receives, EP_ANY, FI_MSG, "A counter bound with FI_RECV counts the endpoint's receives, and no sends")
{
	PAIR(t, .cntr_flags = FI_RECV);
	flow_run(t, 0, 5);
	ONCE(t, fi_cntr_read(t->b.cntr) == 5);
	CHECK_EQ(fi_cntr_read(t->a.cntr), 0);
	for (int i = 0; i < 5; i++)
		wait_comp(t, t->b.rxcq, NULL);
	CHECK_EQ(fi_cntr_read(t->b.cntr), 5);
}

TEST(fi_cntr, counts_without_cq_entries, EP_ANY, FI_MSG, "Operations whose CQ entry is suppressed count as well")
{
	struct fi_cq_tagged_entry entry;

	PAIR(t, .cntr_flags = FI_SEND | FI_RECV, .tx_flags = FI_SELECTIVE_COMPLETION, .rx_flags = FI_SELECTIVE_COMPLETION);
	flow_post_recv(t, 0, 5);
	flow_post_send(t, 0, 5);
	ONCE(t, fi_cntr_read(t->a.cntr) == 5 && fi_cntr_read(t->b.cntr) == 5);
	CHECK_RC(fi_cq_read(t->a.txcq, &entry, 1), -FI_EAGAIN);
	CHECK_RC(fi_cq_read(t->b.rxcq, &entry, 1), -FI_EAGAIN);
}

TEST(fi_cntr, counts_errors_apart, EP_ANY, FI_MSG, "An operation that ends in error adds to the error value only")
{
	PAIR(t, .cntr_flags = FI_RECV);
	flow_error(t, 0);
	ONCE(t, fi_cntr_readerr(t->b.cntr) == 1);
	CHECK_EQ(fi_cntr_read(t->b.cntr), 0);
}

TEST(fi_cntr, counts_bytes, EP_ANY, FI_MSG, "FI_CNTR_EVENTS_BYTES counts the bytes sent and received")
{
	struct fi_cntr_attr attr = { .events = FI_CNTR_EVENTS_BYTES };
	int rc = try_cntr(t, &attr);

	if (rc == -FI_ENOSYS || rc == -FI_EOPNOTSUPP || rc == -FI_EINVAL)
		SKIP("not offered");
	PAIR(t, .cntr.events = FI_CNTR_EVENTS_BYTES, .cntr_flags = FI_SEND | FI_RECV);
	flow_run(t, 0, 5);
	ONCE(t, fi_cntr_read(t->a.cntr) == 5 * FLOW_LEN);
	ONCE(t, fi_cntr_read(t->b.cntr) == 5 * FLOW_LEN);
}

TEST(fi_cntr, one_counter_for_many, EP_ANY, FI_MSG, "Endpoints share a counter")
{
	PAIR(t, .cntr_flags = FI_SEND | FI_RECV, .same_cntr = true);
	flow_run(t, 0, 3);
	ONCE(t, fi_cntr_read(t->a.cntr) == 6);
}
