// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! docs/wire/tcp.md: connection messages of MSG endpoints, both sides, valid and invalid.
#define _GNU_SOURCE
#include "wire.h"

#include <unistd.h>

struct cm_event {
	struct fi_eq_cm_entry entry;
	uint8_t data[256];
};

static const uint8_t *private_data(void)
{
	static uint8_t bytes[256];

	fill(bytes, sizeof(bytes), 7);
	return bytes;
}

// ---- Passive side

static void listening(struct env *t, struct sockaddr_in *addr)
{
	size_t len = sizeof(*addr);

	only_tcp(t);
	open_domain(t);
	t->eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	t->pep = open_pep(t, t->eq);
	OK(fi_listen(t->pep));
	pep_address(t->pep, addr, &len);
}

// The listener still accepts a connection and reports its request.
static void listens(struct env *t, const struct sockaddr_in *addr)
{
	struct cm_event event;
	uint8_t bytes[40];
	int fd = wire_connect(t, addr);

	wire_write(t, fd, bytes, cm_bytes(bytes, REQUEST, false, "alive", 5));
	CHECK_EQ(wait_event(t, t->eq, FI_CONNREQ, &event, sizeof(event)), sizeof(event.entry) + 5);
	CHECK(!memcmp(event.data, "alive", 5));
	keep_info(t, event.entry.info);
	OK(fi_reject(t->pep, event.entry.info->handle, NULL, 0));
	close(fd);
}

static void accepted(struct env *t, size_t asked, size_t answered, bool slow)
{
	struct sockaddr_in addr;
	struct cm_event event;
	uint8_t bytes[32 + 256], private[256];
	struct fi_eq_cm_entry up;
	int fd;

	listening(t, &addr);
	fd = wire_connect(t, &addr);
	cm_bytes(bytes, REQUEST, false, private_data(), asked);
	if (slow)
		wire_slowly(t, fd, bytes, 32 + asked);
	else
		wire_write(t, fd, bytes, 32 + asked);
	CHECK_EQ(wait_event(t, t->eq, FI_CONNREQ, &event, sizeof(event)), sizeof(event.entry) + asked);
	CHECK(event.entry.fid == &t->pep->fid);
	CHECK(!memcmp(event.data, private_data(), asked));
	keep_info(t, event.entry.info);
	struct sockaddr_in mine, *theirs = event.entry.info->dest_addr;
	socklen_t len = sizeof(mine);
	CHECK(!getsockname(fd, (struct sockaddr *)&mine, &len));
	CHECK(theirs && theirs->sin_port == mine.sin_port && theirs->sin_addr.s_addr == mine.sin_addr.s_addr);

	struct fi_info *save = t->info;
	t->info = event.entry.info;
	open_bound_ep(t, &t->b);
	t->info = save;
	OK(fi_enable(t->b.ep));
	OK(fi_accept(t->b.ep, private_data(), answered));
	wait_event(t, t->eq, FI_CONNECTED, &up, sizeof(up));
	CHECK(up.fid == &t->b.ep->fid);
	read_cm(t, fd, RESPONSE, private, answered);
	CHECK(!memcmp(private, private_data(), answered));
	struct wire wire = { .fd = fd };
	still_open(t, &wire, &t->b);
}

TEST(wire_tcp, accept_without_data, EP_MSG, FI_MSG, "A request without private data is answered without private data")
{
	accepted(t, 0, 0, false);
}

TEST(wire_tcp, accept_with_data, EP_MSG, FI_MSG, "Private data crosses in both directions")
{
	accepted(t, 10, 8, false);
}

TEST(wire_tcp, accept_most_data, EP_MSG, FI_MSG, "256 bytes of private data cross in both directions")
{
	accepted(t, 256, 256, false);
}

TEST(wire_tcp, accept_slow, EP_MSG | OURS_ONLY, FI_MSG, "A request that comes byte by byte is taken")
{
	accepted(t, 20, 1, true);
}

TEST(wire_tcp, reject_with_data, EP_MSG, FI_MSG, "fi_reject sends its data in a reject and ends the connection")
{
	static const size_t lens[] = { 0, 9, 256 };
	struct sockaddr_in addr;

	listening(t, &addr);
	for (unsigned i = 0; i < 3; i++) {
		struct cm_event event;
		uint8_t bytes[32], private[256];
		int fd = wire_connect(t, &addr);

		wire_write(t, fd, bytes, cm_bytes(bytes, REQUEST, false, NULL, 0));
		wait_event(t, t->eq, FI_CONNREQ, &event, sizeof(event));
		keep_info(t, event.entry.info);
		OK(fi_reject(t->pep, event.entry.info->handle, private_data(), lens[i]));
		read_cm(t, fd, REJECT, private, lens[i]);
		CHECK(!memcmp(private, private_data(), lens[i]));
		wire_ends(t, fd);
		close(fd);
	}
}

static void wrong_request(struct env *t, unsigned at, uint8_t value)
{
	struct sockaddr_in addr;
	uint8_t bytes[40];
	int fd;

	listening(t, &addr);
	fd = wire_connect(t, &addr);
	cm_bytes(bytes, REQUEST, false, private_data(), 8);
	bytes[at] = value;
	wire_write(t, fd, bytes, 40);
	wire_ends(t, fd);
	listens(t, &addr);
}

#define WRONG_REQUEST(RULE, TEXT, AT, VALUE)                                                                           \
	TEST(wire_tcp, listener_##RULE, EP_MSG, FI_MSG, "A connection message " TEXT " is no request: that connection ends, the listener goes on") \
	{                                                                                                              \
		wrong_request(t, AT, VALUE);                                                                           \
	}

WRONG_REQUEST(version_2, "of version 2", 0, 2)
WRONG_REQUEST(version_4, "of version 4", 0, 4)
WRONG_REQUEST(is_response, "that is a response", 1, RESPONSE)
WRONG_REQUEST(is_reject, "that is a reject", 1, REJECT)
WRONG_REQUEST(kind_5, "of kind 5", 1, 5)
WRONG_REQUEST(length_over, "with more than 256 bytes", 2, 2)

TEST(wire_tcp, listener_cut, EP_MSG | OURS_ONLY, FI_MSG, "A peer that goes away in the middle of its request leaves the listener alone")
{
	struct sockaddr_in addr;
	uint8_t bytes[40];

	listening(t, &addr);
	for (unsigned sent = 0; sent < 40; sent += 13)
		for (unsigned reset = 0; reset < 2; reset++) {
			int fd = wire_connect(t, &addr);

			cm_bytes(bytes, REQUEST, false, private_data(), 8);
			wire_write(t, fd, bytes, sent);
			for (unsigned i = 0; i < 5 * (unsigned)(sent % 2); i++)
				progress(t);
			if (reset)
				wire_reset(fd);
			else
				close(fd);
		}
	listens(t, &addr);
}

TEST(wire_tcp, listener_not_blocked, EP_MSG | OURS_ONLY, FI_MSG, "Connections that say nothing, or half a request, do not hold up the next one")
{
	struct sockaddr_in addr;
	uint8_t bytes[40];

	listening(t, &addr);
	cm_bytes(bytes, REQUEST, false, private_data(), 8);
	for (unsigned sent = 0; sent < 40; sent += 13)
		wire_write(t, wire_connect(t, &addr), bytes, sent);
	listens(t, &addr);
}

TEST(wire_tcp, gone_before_event, EP_MSG | OURS_ONLY, FI_MSG, "A request whose peer has gone away before the listener reads it is not reported")
{
	struct sockaddr_in addr;
	uint8_t bytes[32];

	listening(t, &addr);
	for (unsigned reset = 0; reset < 2; reset++) {
		int fd = wire_connect(t, &addr);

		wire_write(t, fd, bytes, cm_bytes(bytes, REQUEST, false, NULL, 0));
		if (reset)
			wire_reset(fd);
		else
			close(fd);
	}
	listens(t, &addr);
}

TEST(wire_tcp, gone_before_accept, EP_MSG | OURS_ONLY, FI_MSG, "A peer that goes away between its request and fi_accept: the accept fails, or FI_SHUTDOWN follows")
{
	struct sockaddr_in addr;
	struct cm_event event;
	uint8_t bytes[32];
	struct fi_eq_cm_entry entry;
	uint32_t what = 0;
	ssize_t rc = -FI_EAGAIN;
	int fd;

	listening(t, &addr);
	fd = wire_connect(t, &addr);
	wire_write(t, fd, bytes, cm_bytes(bytes, REQUEST, false, NULL, 0));
	wait_event(t, t->eq, FI_CONNREQ, &event, sizeof(event));
	keep_info(t, event.entry.info);
	wire_reset(fd);
	struct fi_info *save = t->info;
	t->info = event.entry.info;
	open_bound_ep(t, &t->b);
	t->info = save;
	OK(fi_enable(t->b.ep));
	if (!fi_accept(t->b.ep, NULL, 0))
		do {
			ONCE(t, (rc = fi_eq_read(t->eq, &what, &entry, sizeof(entry), 0)) != -FI_EAGAIN);
			CHECK(rc == -FI_EAVAIL || what == FI_CONNECTED || what == FI_SHUTDOWN);
		} while (rc > 0 && what == FI_CONNECTED);
	if (rc == -FI_EAVAIL) {
		struct fi_eq_err_entry err = { 0 };

		CHECK(fi_eq_readerr(t->eq, &err, 0) > 0);
	}
	listens(t, &addr);
}

// ---- Active side

static int connecting(struct env *t, struct listener *at, size_t len)
{
	uint8_t private[256];
	int fd;

	only_tcp(t);
	*at = wire_listen();
	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	OK(fi_connect(t->a.ep, &at->addr, private_data(), len));
	fd = wire_accept(t, at);
	read_cm(t, fd, REQUEST, private, len);
	CHECK(!memcmp(private, private_data(), len));
	return fd;
}

static void connected(struct env *t, size_t asked, size_t answered, bool slow, bool big)
{
	struct listener at;
	struct cm_event event;
	uint8_t bytes[32 + 256];
	int fd = connecting(t, &at, asked);

	cm_bytes(bytes, RESPONSE, big, private_data(), answered);
	if (slow)
		wire_slowly(t, fd, bytes, 32 + answered);
	else
		wire_write(t, fd, bytes, 32 + answered);
	CHECK_EQ(wait_event(t, t->eq, FI_CONNECTED, &event, sizeof(event)), sizeof(event.entry) + answered);
	CHECK(event.entry.fid == &t->a.ep->fid);
	CHECK(!memcmp(event.data, private_data(), answered));
	struct wire wire = { .fd = fd, .big = big };
	still_open(t, &wire, &t->a);
}

TEST(wire_tcp, connect_without_data, EP_MSG, FI_MSG, "fi_connect without data sends a bare request")
{
	connected(t, 0, 0, false, false);
}

TEST(wire_tcp, connect_with_data, EP_MSG, FI_MSG, "fi_connect sends its data; the answer's data is in the FI_CONNECTED event")
{
	connected(t, 10, 8, false, false);
}

TEST(wire_tcp, connect_most_data, EP_MSG, FI_MSG, "256 bytes of data cross in both directions")
{
	connected(t, 256, 256, false, false);
}

TEST(wire_tcp, connect_slow, EP_MSG | OURS_ONLY, FI_MSG, "A response that comes byte by byte is taken")
{
	connected(t, 3, 20, true, false);
}

TEST(wire_tcp, connect_big_endian, EP_MSG, FI_MSG, "A response with the probe of the other byte order makes headers big-endian")
{
	connected(t, 3, 20, false, true);
}

TEST(wire_tcp, connect_rejected, EP_MSG, FI_MSG, "A reject is an FI_ECONNREFUSED event with the data of the reject")
{
	struct listener at;
	uint8_t bytes[64];
	struct fi_eq_err_entry err = { 0 };
	int fd = connecting(t, &at, 0);

	wire_write(t, fd, bytes, cm_bytes(bytes, REJECT, false, "no-thanks", 9));
	wait_eq_err(t, t->eq, &err);
	CHECK(err.fid == &t->a.ep->fid);
	CHECK_RC(-err.err, -FI_ECONNREFUSED);
	CHECK_EQ(err.err_data_size, 9);
	CHECK(!memcmp(err.err_data, "no-thanks", 9));
}

static void wrong_answer(struct env *t, unsigned at_byte, uint8_t value, size_t sent)
{
	struct listener at;
	uint8_t bytes[40];
	struct fi_eq_err_entry err = { 0 };
	int fd = connecting(t, &at, 0);

	cm_bytes(bytes, RESPONSE, false, private_data(), 8);
	bytes[at_byte] = value;
	wire_write(t, fd, bytes, sent);
	if (sent < 40)
		close(fd);
	wait_eq_err(t, t->eq, &err);
	CHECK(err.fid == &t->a.ep->fid);
	CHECK(err.err > 0);
	if (sent == 40)
		wire_ends(t, fd);
}

#define WRONG_ANSWER(RULE, WHERE, TEXT, AT, VALUE, SENT_BYTES)                                                         \
	TEST(wire_tcp, answer_##RULE, EP_MSG | (WHERE), FI_MSG, "An answer " TEXT " is an error event of the endpoint") \
	{                                                                                                              \
		wrong_answer(t, AT, VALUE, SENT_BYTES);                                                                \
	}

WRONG_ANSWER(version_2, 0, "of version 2", 0, 2, 40)
WRONG_ANSWER(version_4, 0, "of version 4", 0, 4, 40)
WRONG_ANSWER(is_request, 0, "that is a request", 1, REQUEST, 40)
WRONG_ANSWER(kind_9, 0, "of kind 9", 1, 9, 40)
WRONG_ANSWER(length_over, 0, "with more than 256 bytes", 2, 2, 40)
WRONG_ANSWER(missing, 0, "that never comes, the peer going away,", 0, 3, 0)
WRONG_ANSWER(cut_in_header, 0, "cut in its header", 0, 3, 13)
WRONG_ANSWER(cut_in_data, 0, "cut in its private data", 0, 3, 36)

// ---- Frames that a MSG endpoint does not accept

static void refused_frame(struct env *t, struct wire_header h)
{
	struct listener at;
	struct cm_event event;
	struct fi_eq_cm_entry entry;
	uint8_t bytes[64];
	struct wire wire = { .fd = connecting(t, &at, 0) };
	void *ctx;

	wire_write(t, wire.fd, bytes, cm_bytes(bytes, RESPONSE, false, NULL, 0));
	wait_event(t, t->eq, FI_CONNECTED, &event, sizeof(event));
	ctx = post_recv(t, &t->a, new_buf(t, 64, 0));
	send_frame(t, &wire, h, "eight by");
	wait_event(t, t->eq, FI_SHUTDOWN, &entry, sizeof(entry));
	CHECK(entry.fid == &t->a.ep->fid);
	failed_somehow(t, t->a.rxcq, ctx);
	wire_ends(t, wire.fd);
}

TEST(wire_tcp, tagged_to_msg, EP_MSG | OURS_ONLY, FI_MSG, "A tagged message to an endpoint without a shared receive context ends the connection")
{
	refused_frame(t, (struct wire_header){ .op = TAGGED, .tag = TAG, .payload = 8 });
}

TEST(wire_tcp, rts_to_msg, EP_MSG | OURS_ONLY, FI_MSG, "So does a ready-to-send")
{
	refused_frame(t, (struct wire_header){ .op = RTS, .op_data = 1, .tag = TAG, .msg_size = 8 });
}

TEST(wire_tcp, unknown_op_to_msg, EP_MSG, FI_MSG, "So does an unknown op")
{
	refused_frame(t, (struct wire_header){ .op = 8, .payload = 8 });
}
