// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_eq(3): opening, attributes, control commands, closing, error strings.
#include "harness.h"

#include <fcntl.h>
#include <pthread.h>

static int try_eq(struct env *t, struct fi_eq_attr *attr)
{
	struct fid_eq *eq = NULL;
	int rc;

	open_fabric(t);
	rc = fi_eq_open(t->fabric, attr, &eq, NULL);
	if (!rc)
		OK(fi_close(&eq->fid));
	return rc;
}

TEST(fi_eq, open_default_attributes, EP_ANY, FI_MSG, "Attributes of all zero are valid")
{
	struct fi_eq_attr attr = { 0 };

	OK(try_eq(t, &attr));
}

TEST(fi_eq, open_sets_class_and_context, EP_ANY, FI_MSG, "The queue is of class FI_CLASS_EQ and carries the caller's context")
{
	struct fi_eq_attr attr = { 0 };
	struct fid_eq *eq = NULL;
	int mark;

	open_fabric(t);
	OK(fi_eq_open(t->fabric, &attr, &eq, &mark));
	keep(t, &eq->fid);
	CHECK_EQ(eq->fid.fclass, FI_CLASS_EQ);
	CHECK(eq->fid.context == &mark);
}

TEST(fi_eq, open_wait_unspec, EP_ANY, FI_MSG, "FI_WAIT_UNSPEC can be asked for")
{
	open_eq(t, FI_WAIT_UNSPEC, 0);
}

TEST(fi_eq, open_wait_fd, EP_ANY, FI_MSG, "FI_WAIT_FD can be asked for")
{
	open_eq(t, FI_WAIT_FD, 0);
}

TEST(fi_eq, open_wait_mutex_cond, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND can be asked for")
{
	open_eq(t, FI_WAIT_MUTEX_COND, 0);
}

TEST(fi_eq, open_wait_yield, EP_ANY, FI_MSG, "FI_WAIT_YIELD can be asked for")
{
	open_eq(t, FI_WAIT_YIELD, 0);
}

TEST(fi_eq, open_unknown_wait_object, EP_ANY, FI_MSG, "An unknown wait object is refused with -FI_EINVAL")
{
	struct fi_eq_attr attr = { .wait_obj = 1000 };

	CHECK_RC(try_eq(t, &attr), -FI_EINVAL);
	attr.wait_obj = -1;
	CHECK_RC(try_eq(t, &attr), -FI_EINVAL);
}

TEST(fi_eq, open_wait_set_without_set, EP_ANY, FI_MSG, "FI_WAIT_SET must come with an existing wait set")
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_SET };

	CHECK_RC(try_eq(t, &attr), -FI_EINVAL);
}

TEST(fi_eq, open_wait_set_field_ignored, EP_ANY, FI_MSG, "wait_set is ignored unless the wait object is FI_WAIT_SET")
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_FD, .wait_set = (struct fid_wait *)(uintptr_t)8 };

	OK(try_eq(t, &attr));
}

TEST(fi_eq, open_affinity_is_a_hint, EP_ANY, FI_MSG, "FI_AFFINITY with a signalling vector is a hint that may be ignored")
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC, .flags = FI_AFFINITY, .signaling_vector = 0 };

	OK(try_eq(t, &attr));
}

TEST(fi_eq, open_unknown_flag, EP_ANY, FI_MSG, "A flag that is not defined for a queue is refused")
{
	struct fi_eq_attr attr = { .flags = 1ULL << 51 };

	CHECK_RC2(try_eq(t, &attr), -FI_EINVAL, -FI_EBADFLAGS);
}

TEST(fi_eq, control_getwait_fd, EP_ANY, FI_MSG, "FI_GETWAIT on FI_WAIT_FD gives an open file descriptor, the same each time")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_FD, 0);
	int fd = -1, again = -2;

	OK(fi_control(&eq->fid, FI_GETWAIT, &fd));
	CHECK(fd >= 0 && fcntl(fd, F_GETFD) != -1);
	OK(fi_control(&eq->fid, FI_GETWAIT, &again));
	CHECK_EQ(again, fd);
}

TEST(fi_eq, control_getwait_mutex_cond, EP_ANY, FI_MSG, "FI_GETWAIT on FI_WAIT_MUTEX_COND gives a usable mutex and condition")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_MUTEX_COND, 0);
	struct fi_mutex_cond wait = { 0 };

	OK(fi_control(&eq->fid, FI_GETWAIT, &wait));
	CHECK(wait.mutex && wait.cond);
	CHECK_EQ(pthread_mutex_lock(wait.mutex), 0);
	CHECK_EQ(pthread_mutex_unlock(wait.mutex), 0);
}

TEST(fi_eq, control_getwait_none, EP_ANY, FI_MSG, "FI_GETWAIT on a queue without a wait object is an error")
{
	int fd = -1;

	CHECK(fi_control(&open_eq(t, FI_WAIT_NONE, 0)->fid, FI_GETWAIT, &fd) < 0);
	CHECK_EQ(fd, -1);
}

TEST(fi_eq, control_getwaitobj, EP_ANY, FI_MSG, "FI_GETWAITOBJ gives the type of the wait object")
{
	enum fi_wait_obj got = 1000;

	OK(fi_control(&open_eq(t, FI_WAIT_FD, 0)->fid, FI_GETWAITOBJ, &got));
	CHECK_EQ(got, FI_WAIT_FD);
}

TEST(fi_eq, control_unknown_command, EP_ANY, FI_MSG, "A command that a queue does not know gives -FI_ENOSYS")
{
	uint64_t arg = 0;

	CHECK_RC(fi_control(&open_eq(t, FI_WAIT_FD, 0)->fid, 0x7fff, &arg), -FI_ENOSYS);
}

TEST(fi_eq, close_while_bound_to_endpoint, EP_MSG, FI_MSG, "A queue that an open endpoint is bound to cannot be closed: -FI_EBUSY")
{
	open_bound_ep(t, &t->a);
	CHECK_RC(fi_close(&t->eq->fid), -FI_EBUSY);
	shut(t, &t->a.ep->fid);
	shut(t, &t->eq->fid);
}

TEST(fi_eq, close_while_bound_to_pep, EP_MSG, FI_MSG, "A queue that a passive endpoint is bound to cannot be closed: -FI_EBUSY")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	struct fid_pep *pep = open_pep(t, eq);

	CHECK_RC(fi_close(&eq->fid), -FI_EBUSY);
	shut(t, &pep->fid);
	shut(t, &eq->fid);
}

TEST(fi_eq, close_while_bound_to_domain, EP_ANY, FI_MSG, "A queue that a domain is bound to cannot be closed: -FI_EBUSY")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_UNSPEC, 0);

	open_domain(t);
	OK_OR_SKIP(fi_domain_bind(t->domain, &eq->fid, 0));
	CHECK_RC(fi_close(&eq->fid), -FI_EBUSY);
	shut(t, &t->domain->fid);
	shut(t, &eq->fid);
}

TEST(fi_eq, close_with_events, EP_ANY, FI_MSG, "Events that remain on a queue are lost when it is closed")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_FD, FI_WRITE);
	struct fi_eq_entry event = { 0 };

	for (int i = 0; i < 10; i++)
		CHECK_RC(fi_eq_write(eq, 1000, &event, sizeof(event), 0), sizeof(event));
	shut(t, &eq->fid);
}

TEST(fi_eq, strerror_gives_text, EP_ANY, FI_MSG, "fi_eq_strerror gives a printable string, also for codes it does not know")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, 0);
	static const int codes[] = { 0, FI_EIO, -FI_EIO, FI_ECONNREFUSED, 1 << 30, -(1 << 30) };

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		const char *text = fi_eq_strerror(eq, codes[i], NULL, NULL, 0);

		CHECK(text && strlen(text) > 0 && strlen(text) < 256);
	}
}

TEST(fi_eq, strerror_respects_the_buffer, EP_ANY, FI_MSG, "A caller's buffer gets the text, ended by NUL, and not a byte more than it has")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, 0);
	const char *text = fi_eq_strerror(eq, FI_EIO, NULL, NULL, 0);
	char buf[256];

	for (size_t len = 1; len < 64; len++) {
		memset(buf, 0x5a, sizeof(buf));
		CHECK(fi_eq_strerror(eq, FI_EIO, NULL, buf, len));
		CHECK(memchr(buf, 0, len));
		CHECK(!strncmp(buf, text, len - 1));
		for (size_t i = len; i < sizeof(buf); i++)
			CHECK_EQ(buf[i], 0x5a);
	}
}
