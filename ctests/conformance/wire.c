// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! See wire.h.
#define _GNU_SOURCE
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <unistd.h>

void only_tcp(struct env *t)
{
	if (over_ipv6)
		SKIP("the peer played here speaks IPv4");
	if (!is_tcp(t))
		SKIP("the wire format of tcp");
}

// ---- Sockets

static struct sockaddr_in loopback(uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static int tcp_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	CHECK(fd >= 0);
	CHECK(!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	return fd;
}

struct listener wire_listen(void)
{
	struct listener at = wire_nobody();

	CHECK(!listen(at.fd, 64));
	CHECK(!fcntl(at.fd, F_SETFL, O_NONBLOCK));
	return at;
}

struct listener wire_nobody(void)
{
	struct listener at = { .fd = tcp_socket(), .addr = loopback(0) };
	socklen_t len = sizeof(at.addr);

	CHECK(!bind(at.fd, (struct sockaddr *)&at.addr, sizeof(at.addr)));
	CHECK(!getsockname(at.fd, (struct sockaddr *)&at.addr, &len));
	return at;
}

int wire_accept(struct env *t, struct listener *at)
{
	int fd = -1, one = 1;

	ONCE(t, (fd = accept4(at->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0);
	CHECK(!setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	return fd;
}

int wire_connect(struct env *t, const void *addr)
{
	struct sockaddr_in from = loopback(0);
	int fd = tcp_socket();

	(void)t;
	CHECK(!bind(fd, (struct sockaddr *)&from, sizeof(from)));
	CHECK(!connect(fd, addr, sizeof(struct sockaddr_in)));
	CHECK(!fcntl(fd, F_SETFL, O_NONBLOCK));
	return fd;
}

void wire_write(struct env *t, int fd, const void *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t rc = -1;

		ONCE(t, (rc = send(fd, (const char *)bytes + at, len - at, MSG_NOSIGNAL)) >= 0 || errno != EAGAIN);
		if (rc < 0)
			FAIL("the library has closed the connection at byte %zu of %zu: %s", at, len, strerror(errno));
		at += rc;
	}
}

void wire_slowly(struct env *t, int fd, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		wire_write(t, fd, (const char *)bytes + i, 1);
		for (unsigned turns = 0; turns < 3; turns++)
			progress(t);
	}
}

void wire_read(struct env *t, int fd, void *bytes, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t rc = -1;

		ONCE(t, (rc = recv(fd, (char *)bytes + at, len - at, 0)) >= 0 || errno != EAGAIN);
		if (rc <= 0)
			FAIL("%s after %zu of %zu bytes", rc ? strerror(errno) : "end of stream", at, len);
		at += rc;
	}
}

void wire_ends(struct env *t, int fd)
{
	uint8_t byte;
	ssize_t rc = -1;

	ONCE(t, (rc = recv(fd, &byte, 1, 0)) >= 0 || errno != EAGAIN);
	if (rc > 0)
		FAIL("a byte 0x%02x instead of the end of the connection", byte);
}

void wire_silent(struct env *t, int fd)
{
	uint8_t byte;
	ssize_t rc;

	for (unsigned i = 0; i < 200; i++) {
		progress(t);
		rc = recv(fd, &byte, 1, MSG_PEEK);
		if (rc > 0)
			FAIL("a byte 0x%02x where nothing should come", byte);
		if (!rc || errno != EAGAIN)
			FAIL("the connection has ended");
	}
}

void wire_reset(int fd)
{
	struct linger now = { .l_onoff = 1 };

	CHECK(!setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now)));
	close(fd);
}

// ---- Connection messages

static void put(uint8_t *out, uint64_t value, size_t size, bool big)
{
	for (size_t i = 0; i < size; i++)
		out[big ? size - 1 - i : i] = value >> (8 * i);
}

static uint64_t get(const uint8_t *in, size_t size, bool big)
{
	uint64_t value = 0;

	for (size_t i = 0; i < size; i++)
		value |= (uint64_t)in[big ? size - 1 - i : i] << (8 * i);
	return value;
}

size_t cm_bytes(uint8_t *out, int kind, bool big, const void *private, size_t len)
{
	memset(out, 0, 32);
	out[0] = 3;
	out[1] = kind;
	put(out + 2, len, 2, true);
	put(out + 24, kind != REJECT, 8, big);
	if (len)
		memcpy(out + 32, private, len);
	return 32 + len;
}

size_t rdm_bytes(uint8_t *out, int kind, bool big, uint8_t version, uint16_t port, uint32_t pid)
{
	uint8_t private[8] = { version };

	put(private + 2, port, 2, true);
	put(private + 4, pid, 4, true);
	return cm_bytes(out, kind, big, private, 8);
}

void read_cm(struct env *t, int fd, int kind, uint8_t *private, size_t len)
{
	uint8_t got[32], want[32 + 256] = { 0 }, none[256] = { 0 };
	unsigned short probe = 1;

	wire_read(t, fd, got, 32);
	cm_bytes(want, kind, *(uint8_t *)&probe == 0, none, len);
	// This library's mark. Only a peer that sent it gets it back.
	if (kind == REQUEST && !memcmp(got + 4, "irf\1", 4))
		memset(got + 4, 0, 4);
	for (unsigned i = 0; i < 32; i++)
		if (got[i] != want[i])
			FAIL("byte %u of the connection message is 0x%02x, not 0x%02x", i, got[i], want[i]);
	wire_read(t, fd, private, len);
}

struct wire rdm_open(struct env *t, struct side *side, uint16_t port, bool big)
{
	return rdm_open_as(t, side, port, big, 0);
}

struct wire rdm_open_as(struct env *t, struct side *side, uint16_t port, bool big, uint8_t features)
{
	struct wire wire = { .fd = wire_connect(t, side->name), .big = big };
	uint8_t bytes[40], private[8];
	size_t len = rdm_bytes(bytes, REQUEST, big, 1, port, 4242);

	bytes[33] = features;
	wire_write(t, wire.fd, bytes, len);
	read_cm(t, wire.fd, RESPONSE, private, 8);
	CHECK_EQ(private[0], 0x81);
	CHECK_EQ(private[1], features);
	CHECK_EQ(get(private + 2, 2, true), port);
	return wire;
}

static uint16_t port_of(const struct side *side)
{
	return ntohs(((const struct sockaddr_in *)side->name)->sin_port);
}

static void read_request(struct env *t, int fd, struct side *side)
{
	uint8_t private[8];

	read_cm(t, fd, REQUEST, private, 8);
	CHECK_EQ(private[0], 1);
	CHECK_EQ(private[1] & ~(EXTENDED | SHARES | CLOSES), 0);
	CHECK_EQ(get(private + 2, 2, true), port_of(side));
	CHECK(get(private + 4, 4, true) != 0);
}

struct dial dial_from(struct env *t, struct side *side, struct listener at)
{
	struct dial dial = { .at = at };
	struct op op = op_of(SEND, false, new_buf(t, 8, 77), 0);
	ssize_t rc;

	CHECK_EQ(fi_av_insert(side->av, &at.addr, 1, &dial.peer, 0, NULL), 1);
	op.addr = dial.peer;
	rc = op_try(side->ep, &op);
	CHECK_RC2(rc, 0, -FI_EAGAIN);
	dial.queued = rc ? NULL : op.ctx;
	dial.wire.fd = wire_accept(t, &dial.at);
	read_request(t, dial.wire.fd, side);
	return dial;
}

void dial_answer(struct env *t, struct dial *dial, struct side *side)
{
	uint8_t bytes[40];

	wire_write(t, dial->wire.fd, bytes, rdm_bytes(bytes, RESPONSE, dial->wire.big, 0x81, port_of(side), 99));
	dial_first(t, dial, side);
}

void dial_first(struct env *t, struct dial *dial, struct side *side)
{
	uint8_t payload[8];

	if (!dial->queued)
		return;
	expect_frame(t, &dial->wire, (struct wire_header){ .op = MSG, .payload = 8 });
	wire_read(t, dial->wire.fd, payload, 8);
	CHECK(filled(payload, 8, 77));
	done(t, side->txcq, dial->queued, FI_MSG | FI_SEND);
	dial->queued = NULL;
}

// ---- Frames

// The op with the same fields.
static unsigned plain_op(unsigned op)
{
	switch (op) {
	case MSG_TO:
		return MSG;
	case TAGGED_TO:
		return TAGGED;
	case RTS_TO:
		return RTS;
	}
	return op;
}

static bool has_segs(const struct wire_header *h)
{
	return h->op == WRITE || h->op == READ_REQ || (h->op >= ATOMIC && h->op <= ATOMIC_COMPARE);
}

static bool has_data(const struct wire_header *h)
{
	unsigned op = plain_op(h->op);

	return h->flags & HAS_DATA && (op <= TAGGED || op == WRITE || op == RTS || op == ATOMIC);
}

static size_t header_size(const struct wire_header *h)
{
	static const uint8_t plain[] = { 16, 24, 16, 16, 16, 32, 16, 16 };
	unsigned op = plain_op(h->op);
	size_t size = op < 8 ? plain[op] : 16;

	if (has_data(h))
		size += 8;
	if (has_segs(h))
		size += 24 * (size_t)h->seg_count;
	return size;
}

size_t frame_bytes(uint8_t *out, struct wire_header h, bool big, const void *payload)
{
	size_t size = header_size(&h), at = 16;
	unsigned op = plain_op(h.op);

	memset(out, 0, 16);
	out[0] = h.version ?: 3;
	out[1] = h.op;
	put(out + 2, h.flags, 2, big);
	out[4] = h.op_data;
	out[5] = h.seg_count | h.datatype << 3;
	out[6] = h.size ?: size;
	out[7] = h.counter;
	put(out + 8, h.total ?: size + h.payload, 8, big);
	if (has_data(&h))
		put(out + at, h.data, 8, big), at += 8;
	if (op == TAGGED || op == RTS)
		put(out + at, h.tag, 8, big), at += 8;
	if (op == RTS)
		put(out + at, h.msg_size, 8, big), at += 8;
	for (unsigned i = 0; has_segs(&h) && i < h.seg_count; i++) {
		put(out + at, h.segs[i].addr, 8, big);
		put(out + at + 8, h.segs[i].len, 8, big);
		put(out + at + 16, h.segs[i].key, 8, big);
		at += 24;
	}
	if (payload)
		memcpy(out + at, payload, h.payload);
	return payload ? at + h.payload : at;
}

void send_frame(struct env *t, struct wire *wire, struct wire_header h, const void *payload)
{
	uint8_t *bytes = malloc(256 + h.payload);

	CHECK(bytes);
	wire_write(t, wire->fd, bytes, frame_bytes(bytes, h, wire->big, payload));
	free(bytes);
}

void expect_frame(struct env *t, struct wire *wire, struct wire_header want)
{
	uint8_t got[256], bytes[256];
	size_t size = header_size(&want);

	want.counter = wire->counter;
	frame_bytes(bytes, want, wire->big, NULL);
	wire_read(t, wire->fd, got, size);
	if (want.op == READ_RSP && got[5]) // may repeat the count of its request
		got[5] = bytes[5];
	if (!is_ours()) // other libraries leave stale bytes there
		got[7] = bytes[7], got[5] = want.op == WRITE || want.op == READ_REQ ? got[5] : bytes[5];
	for (unsigned i = 0; i < size; i++)
		if (got[i] != bytes[i])
			FAIL("byte %u of the header (op %u, size %zu) is 0x%02x, not 0x%02x", i, want.op, size, got[i], bytes[i]);
	wire->counter++;
}

void still_open(struct env *t, struct wire *wire, struct side *side)
{
	struct buf in = new_buf(t, 8, 0);
	struct op recv = op_of(RECV, !(t->info->caps & FI_MSG), in, FI_ADDR_UNSPEC);
	struct wire_header h = { .op = recv.tagged ? TAGGED : MSG, .flags = WANTS_ACK, .payload = 8, .tag = TAG };

	op_post(t, side->ep, &recv);
	send_frame(t, wire, h, "liveness");
	done(t, side->rxcq, recv.ctx, RECEIVED(recv.tagged));
	CHECK(!memcmp(in.mem, "liveness", 8));
	expect_frame(t, wire, (struct wire_header){ .op = MSG, .op_data = ACK });
}
