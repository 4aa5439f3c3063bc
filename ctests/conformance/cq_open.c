// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cq(3): opening, attributes, control commands, closing.
#include "harness.h"

#include <fcntl.h>
#include <pthread.h>

static int try_cq(struct env *t, struct fi_cq_attr *attr)
{
	struct fid_cq *cq = NULL;
	int rc;

	open_domain(t);
	rc = fi_cq_open(t->domain, attr, &cq, NULL);
	if (!rc)
		OK(fi_close(&cq->fid));
	return rc;
}

TEST(fi_cq, open_default_attributes, EP_ANY, FI_MSG, "Attributes of all zero are valid: default size, format and no wait object")
{
	struct fi_cq_attr attr = { 0 };

	OK(try_cq(t, &attr));
}

TEST(fi_cq, open_sets_class_and_context, EP_ANY, FI_MSG, "The queue is of class FI_CLASS_CQ and carries the caller's context")
{
	struct fi_cq_attr attr = { 0 };
	struct fid_cq *cq = NULL;
	int mark;

	open_domain(t);
	OK(fi_cq_open(t->domain, &attr, &cq, &mark));
	keep(t, &cq->fid);
	CHECK_EQ(cq->fid.fclass, FI_CLASS_CQ);
	CHECK(cq->fid.context == &mark);
}

TEST(fi_cq, open_every_format, EP_ANY, FI_MSG, "Each of the five formats can be asked for")
{
	for (int format = FI_CQ_FORMAT_UNSPEC; format <= FI_CQ_FORMAT_TAGGED; format++) {
		struct fi_cq_attr attr = { .format = format };

		OK(try_cq(t, &attr));
	}
}

TEST(fi_cq, open_unknown_format, EP_ANY, FI_MSG, "An unknown format is refused with -FI_EINVAL")
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED + 1 };

	CHECK_RC(try_cq(t, &attr), -FI_EINVAL);
	attr.format = -1;
	CHECK_RC(try_cq(t, &attr), -FI_EINVAL);
}

TEST(fi_cq, open_wait_unspec, EP_ANY, FI_MSG, "FI_WAIT_UNSPEC can be asked for")
{
	open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_UNSPEC);
}

TEST(fi_cq, open_wait_fd, EP_ANY, FI_MSG, "FI_WAIT_FD can be asked for")
{
	open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_FD);
}

TEST(fi_cq, open_wait_mutex_cond, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND can be asked for")
{
	open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_MUTEX_COND);
}

TEST(fi_cq, open_wait_yield, EP_ANY, FI_MSG, "FI_WAIT_YIELD can be asked for")
{
	open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_YIELD);
}

TEST(fi_cq, open_unknown_wait_object, EP_ANY, FI_MSG, "An unknown wait object is refused with -FI_EINVAL")
{
	struct fi_cq_attr attr = { .wait_obj = 1000 };

	CHECK_RC(try_cq(t, &attr), -FI_EINVAL);
	attr.wait_obj = -1;
	CHECK_RC(try_cq(t, &attr), -FI_EINVAL);
}

TEST(fi_cq, open_wait_set_without_set, EP_ANY, FI_MSG, "FI_WAIT_SET must come with an existing wait set")
{
	struct fi_cq_attr attr = { .wait_obj = FI_WAIT_SET };

	CHECK_RC(try_cq(t, &attr), -FI_EINVAL);
}

TEST(fi_cq, open_wait_set_field_ignored, EP_ANY, FI_MSG, "wait_set is ignored unless the wait object is FI_WAIT_SET")
{
	struct fi_cq_attr attr = { .wait_obj = FI_WAIT_FD, .wait_set = (struct fid_wait *)(uintptr_t)8 };

	OK(try_cq(t, &attr));
	attr.wait_obj = FI_WAIT_NONE;
	OK(try_cq(t, &attr));
}

TEST(fi_cq, open_threshold, EP_ANY, FI_MSG, "Both wait conditions can be asked for")
{
	struct fi_cq_attr attr = { .wait_obj = FI_WAIT_UNSPEC, .wait_cond = FI_CQ_COND_THRESHOLD };

	OK(try_cq(t, &attr));
	attr.wait_cond = FI_CQ_COND_NONE;
	OK(try_cq(t, &attr));
}

TEST(fi_cq, open_unknown_wait_condition, EP_ANY, FI_MSG, "An unknown wait condition is refused with -FI_EINVAL")
{
	struct fi_cq_attr attr = { .wait_obj = FI_WAIT_UNSPEC, .wait_cond = FI_CQ_COND_THRESHOLD + 1 };

	CHECK_RC(try_cq(t, &attr), -FI_EINVAL);
}

TEST(fi_cq, open_wait_condition_ignored, EP_ANY, FI_MSG, "wait_cond is ignored if the wait object is FI_WAIT_NONE")
{
	struct fi_cq_attr attr = { .wait_obj = FI_WAIT_NONE, .wait_cond = FI_CQ_COND_THRESHOLD };

	OK(try_cq(t, &attr));
}

TEST(fi_cq, open_affinity_is_a_hint, EP_ANY, FI_MSG, "FI_AFFINITY with a signalling vector is a hint that may be ignored")
{
	struct fi_cq_attr attr = { .wait_obj = FI_WAIT_UNSPEC, .flags = FI_AFFINITY, .signaling_vector = 0 };

	OK(try_cq(t, &attr));
}

TEST(fi_cq, open_unknown_flag, EP_ANY, FI_MSG, "A flag that is not defined for a queue is refused")
{
	struct fi_cq_attr attr = { .flags = 1ULL << 51 };

	CHECK_RC2(try_cq(t, &attr), -FI_EINVAL, -FI_EBADFLAGS);
}

TEST(fi_cq, open_many, EP_ANY, FI_MSG, "A domain holds many queues")
{
	for (int i = 0; i < 100; i++)
		open_cq(t, FI_CQ_FORMAT_MSG, i % 2 ? FI_WAIT_FD : FI_WAIT_NONE);
}

TEST(fi_cq, close_while_bound, EP_ANY, FI_MSG, "A queue that an open endpoint is bound to cannot be closed: -FI_EBUSY")
{
	open_bound_ep(t, &t->a);
	CHECK_RC(fi_close(&t->a.txcq->fid), -FI_EBUSY);
	CHECK_RC(fi_close(&t->a.rxcq->fid), -FI_EBUSY);
	shut(t, &t->a.ep->fid);
	shut(t, &t->a.txcq->fid);
	shut(t, &t->a.rxcq->fid);
}

TEST(fi_cq, close_with_entries, EP_ANY, FI_MSG, "Completions that remain on a queue are lost when it is closed")
{
	PAIR(t);
	flow_run(t, 0, 4);
	pair_close(t);
	shut(t, &t->b.rxcq->fid);
}

TEST(fi_cq, control_getwaitobj, EP_ANY, FI_MSG, "FI_GETWAITOBJ gives the type of the wait object")
{
	static const enum fi_wait_obj asked[] = { FI_WAIT_FD, FI_WAIT_UNSPEC };

	for (size_t i = 0; i < 2; i++) {
		enum fi_wait_obj got = 1000;
		struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_MSG, asked[i]);

		OK(fi_control(&cq->fid, FI_GETWAITOBJ, &got));
		if (asked[i] == FI_WAIT_FD)
			CHECK_EQ(got, FI_WAIT_FD);
		else // what the provider chose
			CHECK(got != FI_WAIT_NONE && got <= FI_WAIT_POLLFD);
	}
}

TEST(fi_cq, control_getwaitobj_none, EP_ANY, FI_MSG, "FI_GETWAITOBJ on a queue without a wait object says so")
{
	enum fi_wait_obj got = 1000;
	int rc = fi_control(&open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_NONE)->fid, FI_GETWAITOBJ, &got);

	CHECK_RC2(rc, 0, -FI_ENODATA);
	if (!rc)
		CHECK_EQ(got, FI_WAIT_NONE);
}

TEST(fi_cq, control_getwait_fd, EP_ANY, FI_MSG, "FI_GETWAIT on FI_WAIT_FD gives an open file descriptor, the same each time")
{
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_FD);
	int fd = -1, again = -2;

	OK(fi_control(&cq->fid, FI_GETWAIT, &fd));
	CHECK(fd >= 0 && fcntl(fd, F_GETFD) != -1);
	OK(fi_control(&cq->fid, FI_GETWAIT, &again));
	CHECK_EQ(again, fd);
}

TEST(fi_cq, control_getwait_mutex_cond, EP_ANY, FI_MSG, "FI_GETWAIT on FI_WAIT_MUTEX_COND gives a usable mutex and condition")
{
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_MUTEX_COND);
	struct fi_mutex_cond wait = { 0 };

	OK(fi_control(&cq->fid, FI_GETWAIT, &wait));
	CHECK(wait.mutex && wait.cond);
	CHECK_EQ(pthread_mutex_lock(wait.mutex), 0);
	CHECK_EQ(pthread_cond_broadcast(wait.cond), 0);
	CHECK_EQ(pthread_mutex_unlock(wait.mutex), 0);
}

TEST(fi_cq, control_getwait_none, EP_ANY, FI_MSG, "FI_GETWAIT on a queue without a wait object is an error")
{
	int fd = -1;

	CHECK(fi_control(&open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_NONE)->fid, FI_GETWAIT, &fd) < 0);
	CHECK_EQ(fd, -1);
}

TEST(fi_cq, control_unknown_command, EP_ANY, FI_MSG, "A command that a queue does not know gives -FI_ENOSYS")
{
	uint64_t arg = 0;

	CHECK_RC(fi_control(&open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_FD)->fid, 0x7fff, &arg), -FI_ENOSYS);
}
