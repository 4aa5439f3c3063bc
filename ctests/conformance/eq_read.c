// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_eq(3): reading and writing events, FI_PEEK, short buffers, blocking reads, error events.
#include "harness.h"

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

enum { USER_EVENT = 1000 };

static void write_event(struct fid_eq *eq, uint32_t event, uint64_t data)
{
	struct fi_eq_entry entry = { .fid = &eq->fid, .context = eq, .data = data };

	CHECK_RC(fi_eq_write(eq, event, &entry, sizeof(entry), 0), sizeof(entry));
}

static void check_event(struct fid_eq *eq, uint32_t want, uint64_t data, uint64_t flags)
{
	struct fi_eq_entry entry = { 0 };
	uint32_t event = 0;

	CHECK_RC(fi_eq_read(eq, &event, &entry, sizeof(entry), flags), sizeof(entry));
	CHECK_EQ(event, want);
	CHECK(entry.fid == &eq->fid && entry.context == eq);
	CHECK_EQ(entry.data, data);
}

static void check_empty(struct fid_eq *eq)
{
	struct fi_eq_entry entry;
	uint32_t event = 77;

	CHECK_RC(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	CHECK_RC(fi_eq_read(eq, &event, &entry, sizeof(entry), FI_PEEK), -FI_EAGAIN);
	CHECK_EQ(event, 77);
}

TEST(fi_eq, read_empty, EP_ANY, FI_MSG, "Reading a queue without events gives -FI_EAGAIN")
{
	check_empty(open_eq(t, FI_WAIT_NONE, 0));
	check_empty(open_eq(t, FI_WAIT_FD, FI_WRITE));
}

TEST(fi_eq, write_then_read, EP_ANY, FI_MSG, "With FI_WRITE a written event is read back: its number, its bytes, its length")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, FI_WRITE);

	write_event(eq, USER_EVENT, 42);
	check_event(eq, USER_EVENT, 42, 0);
	check_empty(eq);
}

TEST(fi_eq, write_without_the_flag, EP_ANY, FI_MSG, "Without FI_WRITE fi_eq_write may not be called: it is refused, or works nevertheless")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, 0);
	struct fi_eq_entry entry = { .fid = &eq->fid, .context = eq, .data = 3 };
	ssize_t rc = fi_eq_write(eq, USER_EVENT, &entry, sizeof(entry), 0);

	if (rc == sizeof(entry))
		check_event(eq, USER_EVENT, 3, 0);
	else
		CHECK_RC2(rc, -FI_EINVAL, -FI_ENOSYS);
	check_empty(eq);
}

TEST(fi_eq, write_any_number, EP_ANY, FI_MSG, "An application may insert every number: those of the provider's events, FI_NOTIFY, and its own")
{
	static const uint32_t numbers[] = { FI_NOTIFY, FI_CONNREQ, FI_CONNECTED, FI_SHUTDOWN, FI_MR_COMPLETE,
					    FI_AV_COMPLETE, FI_JOIN_COMPLETE, 0, 1 << 16, UINT32_MAX };
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, FI_WRITE);

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		write_event(eq, numbers[i], i);
		check_event(eq, numbers[i], i, FI_PEEK);
		check_event(eq, numbers[i], i, 0);
	}
	check_empty(eq);
}

TEST(fi_eq, write_keeps_order, EP_ANY, FI_MSG, "Events are read in the order written, one per read")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, FI_WRITE);

	for (unsigned i = 0; i < 100; i++)
		write_event(eq, USER_EVENT + i, i);
	for (unsigned i = 0; i < 100; i++)
		check_event(eq, USER_EVENT + i, i, 0);
	check_empty(eq);
}

TEST(fi_eq, write_any_length, EP_ANY, FI_MSG, "Events of different lengths keep theirs, from zero bytes up")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, FI_WRITE);
	uint8_t out[600], in[600];
	uint32_t event;

	for (size_t len = 0; len <= sizeof(out); len += 50) {
		fill(out, len, len);
		CHECK_RC(fi_eq_write(eq, USER_EVENT, out, len, 0), len);
	}
	for (size_t len = 0; len <= sizeof(out); len += 50) {
		CHECK_RC(fi_eq_read(eq, &event, in, sizeof(in), 0), len);
		CHECK(filled(in, len, len));
	}
}

TEST(fi_eq, size_is_a_minimum, EP_ANY, FI_MSG, "A queue of size n takes at least n events; beyond, they are kept or refused, and none is lost")
{
	struct fi_eq_attr attr = { .size = 4, .flags = FI_WRITE };
	struct fi_eq_entry entry = { 0 };
	struct fid_eq *eq = NULL;
	unsigned written = 0;
	uint32_t event;

	open_fabric(t);
	OK(fi_eq_open(t->fabric, &attr, &eq, NULL));
	keep(t, &eq->fid);
	for (; written < 1000; written++) {
		ssize_t rc = fi_eq_write(eq, USER_EVENT, &entry, sizeof(entry), 0);

		if (rc == -FI_EOVERRUN || rc == -FI_EAGAIN)
			break;
		CHECK_RC(rc, sizeof(entry));
	}
	CHECK(written >= 4);
	for (unsigned i = 0; i < written; i++)
		CHECK_RC(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
	if (written == 1000)
		check_empty(eq);
}

TEST(fi_eq, peek_does_not_consume, EP_ANY, FI_MSG, "FI_PEEK reads an event and leaves it; a read without it removes it")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, FI_WRITE);

	write_event(eq, USER_EVENT, 1);
	write_event(eq, USER_EVENT + 1, 2);
	for (int i = 0; i < 3; i++)
		check_event(eq, USER_EVENT, 1, FI_PEEK);
	check_event(eq, USER_EVENT, 1, 0);
	check_event(eq, USER_EVENT + 1, 2, FI_PEEK);
	check_event(eq, USER_EVENT + 1, 2, 0);
	check_empty(eq);
}

TEST(fi_eq, sread_peeks_too, EP_ANY, FI_MSG, "FI_PEEK works for blocking reads")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_FD, FI_WRITE);
	struct fi_eq_entry entry;
	uint32_t event;

	write_event(eq, USER_EVENT, 1);
	CHECK_RC(fi_eq_sread(eq, &event, &entry, sizeof(entry), -1, FI_PEEK), sizeof(entry));
	CHECK_RC(fi_eq_sread(eq, &event, &entry, sizeof(entry), -1, 0), sizeof(entry));
	check_empty(eq);
}

TEST(fi_eq, short_buffer, EP_ANY, FI_MSG, "A buffer shorter than the event gets what fits, and no byte more")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, FI_WRITE);
	uint8_t in[64];
	uint32_t event;

	write_event(eq, USER_EVENT, 7);
	memset(in, 0xa5, sizeof(in));
	CHECK_RC(fi_eq_read(eq, &event, in, 10, FI_PEEK), 10);
	for (size_t i = 10; i < sizeof(in); i++)
		CHECK_EQ(in[i], 0xa5);
	CHECK_EQ(event, USER_EVENT);
}

TEST(fi_eq, queues_are_separate, EP_ANY, FI_MSG, "An event is seen on the queue it was written to only")
{
	struct fid_eq *x = open_eq(t, FI_WAIT_NONE, FI_WRITE), *y = open_eq(t, FI_WAIT_FD, FI_WRITE);

	write_event(x, USER_EVENT, 1);
	check_empty(y);
	check_event(x, USER_EVENT, 1, 0);
}

// ---- Blocking

static void check_timeouts(struct env *t, enum fi_wait_obj wait)
{
	struct fid_eq *eq = open_eq(t, wait, FI_WRITE);
	struct fi_eq_entry entry;
	uint32_t event;
	uint64_t start = now_ms();

	CHECK_RC(fi_eq_sread(eq, &event, &entry, sizeof(entry), 0, 0), -FI_EAGAIN);
	CHECK(now_ms() - start < t->limit_ms);
	start = now_ms();
	CHECK_RC(fi_eq_sread(eq, &event, &entry, sizeof(entry), 30, 0), -FI_EAGAIN);
	CHECK(now_ms() - start + 1 >= 30);
	CHECK(now_ms() - start < t->limit_ms);
	write_event(eq, USER_EVENT, 5);
	CHECK_RC(fi_eq_sread(eq, &event, &entry, sizeof(entry), 0, 0), sizeof(entry));
	write_event(eq, USER_EVENT, 6);
	CHECK_RC(fi_eq_sread(eq, &event, &entry, sizeof(entry), -1, 0), sizeof(entry));
	CHECK_EQ(entry.data, 6);
}

TEST(fi_eq, sread_times_out_unspec, EP_ANY, FI_MSG, "FI_WAIT_UNSPEC: a blocking read gives -FI_EAGAIN when the timeout has passed")
{
	check_timeouts(t, FI_WAIT_UNSPEC);
}

TEST(fi_eq, sread_times_out_fd, EP_ANY, FI_MSG, "FI_WAIT_FD: a blocking read gives -FI_EAGAIN when the timeout has passed")
{
	check_timeouts(t, FI_WAIT_FD);
}

TEST(fi_eq, sread_times_out_mutex_cond, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND: a blocking read gives -FI_EAGAIN when the timeout has passed")
{
	check_timeouts(t, FI_WAIT_MUTEX_COND);
}

TEST(fi_eq, sread_times_out_yield, EP_ANY, FI_MSG, "FI_WAIT_YIELD: a blocking read gives -FI_EAGAIN when the timeout has passed")
{
	check_timeouts(t, FI_WAIT_YIELD);
}

TEST(fi_eq, sread_without_wait_object, EP_ANY, FI_MSG, "A blocking read on FI_WAIT_NONE is invalid")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, 0);
	struct fi_eq_entry entry;
	uint32_t event;

	CHECK_RC2(fi_eq_sread(eq, &event, &entry, sizeof(entry), 10, 0), -FI_EINVAL, -FI_ENOSYS);
}

struct reader {
	pthread_t thread;
	struct fid_eq *eq;
	uint32_t event;
	ssize_t rc;
};

static void *reader_main(void *arg)
{
	struct reader *reader = arg;
	struct fi_eq_entry entry;

	reader->rc = fi_eq_sread(reader->eq, &reader->event, &entry, sizeof(entry), -1, 0);
	return NULL;
}

static void check_woken(struct env *t, enum fi_wait_obj wait)
{
	for (int i = 0; i < 20; i++) { // before, while and after the thread begins to wait
		struct reader reader = { .eq = open_eq(t, wait, FI_WRITE) };

		CHECK_EQ(pthread_create(&reader.thread, NULL, reader_main, &reader), 0);
		usleep(i * 100);
		write_event(reader.eq, USER_EVENT + i, 0);
		CHECK_EQ(pthread_join(reader.thread, NULL), 0);
		CHECK_RC(reader.rc, sizeof(struct fi_eq_entry));
		CHECK_EQ(reader.event, USER_EVENT + i);
	}
}

TEST(fi_eq, sread_woken_unspec, EP_ANY, FI_MSG, "FI_WAIT_UNSPEC: an event unblocks a thread in an endless blocking read")
{
	check_woken(t, FI_WAIT_UNSPEC);
}

TEST(fi_eq, sread_woken_fd, EP_ANY, FI_MSG, "FI_WAIT_FD: an event unblocks a thread in an endless blocking read")
{
	check_woken(t, FI_WAIT_FD);
}

TEST(fi_eq, sread_woken_mutex_cond, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND: an event unblocks a thread in an endless blocking read")
{
	check_woken(t, FI_WAIT_MUTEX_COND);
}

TEST(fi_eq, sread_woken_yield, EP_ANY, FI_MSG, "FI_WAIT_YIELD: an event unblocks a thread in an endless blocking read")
{
	check_woken(t, FI_WAIT_YIELD);
}

TEST(fi_eq, fd_becomes_ready, EP_ANY, FI_MSG, "The file descriptor is ready while events are queued and fi_trywait says so")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_FD, FI_WRITE);
	struct pollfd fd = { .events = POLLIN };
	struct fid *fids[1] = { &eq->fid };

	OK(fi_control(&eq->fid, FI_GETWAIT, &fd.fd));
	for (int i = 0; i < 50; i++) {
		ONCE(t, fi_trywait(t->fabric, fids, 1) == FI_SUCCESS);
		CHECK_EQ(poll(&fd, 1, 0), 0);
		write_event(eq, USER_EVENT, i);
		CHECK_EQ(poll(&fd, 1, t->limit_ms), 1);
		CHECK_RC(fi_trywait(t->fabric, fids, 1), -FI_EAGAIN);
		check_event(eq, USER_EVENT, i, 0);
	}
}

// ---- Errors: a refused connection is the documented way to get one (MSG)

static void refused(struct env *t)
{
	char addr[256];
	size_t addrlen = sizeof(addr);
	struct fid_pep *pep;

	open_bound_ep(t, &t->a);
	pep = open_pep(t, t->eq); // reserves the address without a listener
	OK(fi_listen(pep));
	pep_address(pep, addr, &addrlen);
	shut(t, &pep->fid);
	OK(fi_enable(t->a.ep));
	OK(fi_connect(t->a.ep, addr, NULL, 0));
}

TEST(fi_eq, readerr_empty, EP_ANY, FI_MSG, "fi_eq_readerr without an error gives -FI_EAGAIN")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, FI_WRITE);
	struct fi_eq_err_entry err = { 0 };

	CHECK_RC(fi_eq_readerr(eq, &err, 0), -FI_EAGAIN);
	write_event(eq, USER_EVENT, 1);
	CHECK_RC(fi_eq_readerr(eq, &err, 0), -FI_EAGAIN);
}

TEST(fi_eq, error_blocks_reads, EP_MSG, FI_MSG, "Reads give -FI_EAVAIL until the error has been read")
{
	struct fi_eq_err_entry err = { 0 };
	struct fi_eq_cm_entry entry;
	uint32_t event;

	refused(t);
	ONCE(t, fi_eq_read(t->eq, &event, &entry, sizeof(entry), 0) == -FI_EAVAIL);
	CHECK_RC(fi_eq_read(t->eq, &event, &entry, sizeof(entry), 0), -FI_EAVAIL);
	CHECK_RC(fi_eq_sread(t->eq, &event, &entry, sizeof(entry), -1, 0), -FI_EAVAIL);
	CHECK_RC(fi_eq_readerr(t->eq, &err, 0), sizeof(err));
	CHECK_RC(fi_eq_readerr(t->eq, &err, 0), -FI_EAGAIN);
	CHECK_RC(fi_eq_read(t->eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
}

TEST(fi_eq, error_names_the_endpoint, EP_MSG, FI_MSG, "The error names the endpoint and a positive code")
{
	struct fi_eq_err_entry err = { 0 };

	refused(t);
	wait_eq_err(t, t->eq, &err);
	CHECK(err.fid == &t->a.ep->fid);
	CHECK_EQ(err.err, FI_ECONNREFUSED);
	CHECK(fi_eq_strerror(t->eq, err.prov_errno, err.err_data, NULL, 0));
}

TEST(fi_eq, err_data_buffer_stays, EP_MSG, FI_MSG, "An error without data leaves the caller's buffer where it is, and says 0 bytes")
{
	uint8_t data[64];
	struct fi_eq_err_entry err = { .err_data = data, .err_data_size = sizeof(data) };

	memset(data, 0xa5, sizeof(data));
	refused(t);
	wait_eq_err(t, t->eq, &err);
	CHECK(err.err_data == data);
	CHECK(err.err_data_size <= sizeof(data));
	for (size_t i = err.err_data_size; i < sizeof(data); i++)
		CHECK_EQ(data[i], 0xa5);
}

// The entry has had the same size since release 1.0.
static void check_entry_size(struct env *t, uint32_t version)
{
	union {
		struct fi_eq_err_entry entry;
		uint8_t bytes[256];
	} buf;
	struct fi_eq_cm_entry entry;
	uint32_t event;

	env_version(t, version);
	refused(t);
	ONCE(t, fi_eq_read(t->eq, &event, &entry, sizeof(entry), 0) == -FI_EAVAIL);
	memset(&buf, 0xa5, sizeof(buf));
	buf.entry.err_data = NULL;
	buf.entry.err_data_size = 0;
	CHECK(fi_eq_readerr(t->eq, &buf.entry, 0) > 0);
	CHECK_EQ(buf.entry.err, FI_ECONNREFUSED);
	for (size_t i = sizeof(buf.entry); i < sizeof(buf); i++)
		if (buf.bytes[i] != 0xa5)
			FAIL("byte %zu is written, an entry has %zu", i, sizeof(buf.entry));
}

TEST(fi_eq, entry_size_api_1_4, EP_MSG, FI_MSG, "API 1.4: fi_eq_readerr writes an error entry and nothing behind it")
{
	check_entry_size(t, FI_VERSION(1, 4));
}

TEST(fi_eq, entry_size_api_2_6, EP_MSG, FI_MSG, "API 2.6: fi_eq_readerr writes an error entry and nothing behind it")
{
	check_entry_size(t, FI_VERSION(2, 6));
}
