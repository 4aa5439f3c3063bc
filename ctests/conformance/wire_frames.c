// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! docs/wire/tcp.md: frames that an RDM endpoint accepts and answers, from a host of either byte order.
#include "wire.h"

#include <unistd.h>

enum { PORT = 7, LEN = 100, ROOM = 4096 };

static struct wire open_wire(struct env *t, bool big)
{
	only_tcp(t);
	PAIR(t);
	return rdm_open(t, &t->b, PORT, big);
}

static const uint8_t *pattern(unsigned seed)
{
	static uint8_t bytes[ROOM];

	fill(bytes, sizeof(bytes), seed);
	return bytes;
}

static void expect_ack(struct env *t, struct wire *wire)
{
	expect_frame(t, wire, (struct wire_header){ .op = MSG, .op_data = ACK });
}

// Runs each test for a host of our byte order and for one of the other.
#define BOTH_ORDERS(RULE, TEXT)                                                                                        \
	static void RULE##__body(struct env *t, struct wire wire);                                                     \
	TEST(wire_tcp, RULE, EP_RDM, FI_MSG | FI_TAGGED | FI_RMA, TEXT)                                                \
	{                                                                                                              \
		RULE##__body(t, open_wire(t, false));                                                                  \
	}                                                                                                              \
	TEST(wire_tcp, RULE##_big_endian, EP_RDM, FI_MSG | FI_TAGGED | FI_RMA, TEXT ", big-endian peer")               \
	{                                                                                                              \
		RULE##__body(t, open_wire(t, true));                                                                   \
	}                                                                                                              \
	static void RULE##__body(struct env *t, struct wire wire)

BOTH_ORDERS(message, "A message frame is a message")
{
	struct buf in = new_buf(t, LEN, 0);
	void *ctx = post_recv(t, &t->b, in);

	send_frame(t, &wire, (struct wire_header){ .op = MSG, .payload = LEN }, pattern(1));
	CHECK_EQ(done(t, t->b.rxcq, ctx, FI_MSG | FI_RECV).len, LEN);
	CHECK(holds(in, LEN, 1));
	wire_silent(t, wire.fd);
}

BOTH_ORDERS(message_with_data, "Flag 0x0001 carries CQ data in a message and in a tagged one")
{
	struct buf in = new_buf(t, LEN, 0);
	void *ctx = post_recv(t, &t->b, in);
	struct fi_cq_tagged_entry comp;

	send_frame(t, &wire, (struct wire_header){ .op = MSG, .flags = HAS_DATA, .data = DATA, .payload = LEN }, pattern(1));
	comp = done(t, t->b.rxcq, ctx, FI_MSG | FI_RECV | FI_REMOTE_CQ_DATA);
	CHECK_EQ(comp.data, DATA);
	CHECK(holds(in, LEN, 1));
	ctx = post_trecv(t, &t->b, in, TAG, 0);
	send_frame(t, &wire, (struct wire_header){ .op = TAGGED, .flags = HAS_DATA, .data = DATA, .tag = TAG, .payload = LEN },
		   pattern(2));
	comp = done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA);
	CHECK_EQ(comp.data, DATA);
	CHECK_EQ(comp.tag, TAG);
	CHECK(holds(in, LEN, 2));
}

BOTH_ORDERS(acknowledged, "Each flagged frame gets one acknowledgement, unflagged ones none")
{
	struct region region = new_region(t, &t->b, new_buf(t, ROOM, 0), FI_REMOTE_WRITE);
	struct buf in = new_buf(t, LEN, 0);

	for (unsigned i = 0; i < 3; i++) {
		void *ctx = post_recv(t, &t->b, in);

		send_frame(t, &wire, (struct wire_header){ .op = MSG, .flags = WANTS_ACK, .payload = LEN }, pattern(1));
		expect_ack(t, &wire);
		done(t, t->b.rxcq, ctx, FI_MSG | FI_RECV);
		ctx = post_trecv(t, &t->b, in, TAG, 0);
		send_frame(t, &wire, (struct wire_header){ .op = TAGGED, .tag = TAG, .payload = LEN }, pattern(1));
		done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV);
		struct wire_header write = {
			.op = WRITE, .flags = i == 0 ? WANTS_ACK : i == 1 ? WANTS_COMMIT : WANTS_ACK | WANTS_COMMIT, .payload = LEN,
			.seg_count = 1, .segs = { { region.at, LEN, region.key } },
		};
		send_frame(t, &wire, write, pattern(3 + i));
		expect_ack(t, &wire);
		CHECK(holds(region.buf, LEN, 3 + i));
	}
	wire_silent(t, wire.fd);
}

BOTH_ORDERS(write_scatters, "A write goes to its segments, with CQ data to the completion")
{
	struct region region = new_region(t, &t->b, new_buf(t, ROOM, 0), FI_REMOTE_WRITE);
	struct wire_header write = { .op = WRITE, .flags = HAS_DATA | WANTS_ACK, .data = DATA, .seg_count = 4, .payload = 70 };
	struct fi_cq_tagged_entry comp;

	for (unsigned i = 0; i < 4; i++) {
		write.segs[i].addr = region.at + 1000 * i;
		write.segs[i].len = 10 + 5 * i;
		write.segs[i].key = region.key;
	}
	send_frame(t, &wire, write, pattern(1));
	comp = done(t, t->b.rxcq, NULL, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	CHECK_EQ(comp.data, DATA);
	CHECK_EQ(comp.len, 70);
	for (unsigned i = 0, from = 0; i < 4; from += 10 + 5 * i++) {
		CHECK(!memcmp(region.buf.mem + 1000 * i, pattern(1) + from, 10 + 5 * i));
		CHECK_EQ(region.buf.mem[1000 * i + 10 + 5 * i], 0);
	}
	expect_ack(t, &wire);
}

BOTH_ORDERS(read_gathers, "Read requests are answered in order, each with its segments one behind the other")
{
	struct region region = new_region(t, &t->b, new_buf(t, ROOM, 0), FI_REMOTE_READ);
	uint8_t got[ROOM];

	fill(region.buf.mem, ROOM, 4);
	for (unsigned count = 1; count <= 4; count++) {
		struct wire_header read = { .op = READ_REQ, .seg_count = count };

		for (unsigned i = 0; i < count; i++) {
			read.segs[i].addr = region.at + 700 * i;
			read.segs[i].len = 100 * count + i;
			read.segs[i].key = region.key;
		}
		send_frame(t, &wire, read, NULL);
	}
	for (unsigned count = 1; count <= 4; count++) {
		size_t total = 100 * count * count + count * (count - 1) / 2;
		uint8_t *at = got;

		expect_frame(t, &wire, (struct wire_header){ .op = READ_RSP, .payload = total });
		wire_read(t, wire.fd, got, total);
		for (unsigned i = 0; i < count; at += 100 * count + i++)
			CHECK(!memcmp(at, region.buf.mem + 700 * i, 100 * count + i));
	}
}

BOTH_ORDERS(junk_is_ignored, "Bytes 5 and 7, unknown flag bits and an unused op data are not looked at")
{
	struct buf in = new_buf(t, LEN, 0);
	void *ctx = post_recv(t, &t->b, in);
	struct wire_header h = { .op = MSG, .op_data = 1, .seg_count = 200, .counter = 77, .flags = 0x8082, .payload = LEN };

	send_frame(t, &wire, h, pattern(1));
	done(t, t->b.rxcq, ctx, FI_MSG | FI_RECV);
	CHECK(holds(in, LEN, 1));
	still_open(t, &wire, &t->b);
}

// ---- Splitting of the bytes

static size_t three_frames(uint8_t *bytes)
{
	size_t len = frame_bytes(bytes, (struct wire_header){ .op = MSG, .flags = WANTS_ACK, .payload = LEN }, false, pattern(1));

	len += frame_bytes(bytes + len, (struct wire_header){ .op = TAGGED, .flags = HAS_DATA, .tag = TAG, .payload = LEN }, false,
			   pattern(2));
	len += frame_bytes(bytes + len, (struct wire_header){ .op = MSG }, false, NULL);
	return len;
}

static void three_received(struct env *t, struct wire *wire, struct buf *in, void **ctx)
{
	done(t, t->b.rxcq, ctx[0], FI_MSG | FI_RECV);
	done(t, t->b.rxcq, ctx[1], FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA);
	done(t, t->b.rxcq, ctx[2], FI_MSG | FI_RECV);
	CHECK(holds(in[0], LEN, 1) && holds(in[1], LEN, 2) && untouched(in[2], 0));
	expect_ack(t, wire);
}

static void post_three(struct env *t, struct buf *in, void **ctx)
{
	for (unsigned i = 0; i < 3; i++)
		in[i] = new_buf(t, LEN, 0);
	ctx[0] = post_recv(t, &t->b, in[0]);
	ctx[1] = post_trecv(t, &t->b, in[1], TAG, 0);
	ctx[2] = post_recv(t, &t->b, in[2]);
}

TEST(wire_tcp, frames_cut_anywhere, EP_RDM, FI_MSG | FI_TAGGED, "Frames that come in two pieces, cut at any byte, are the same frames")
{
	struct wire wire = open_wire(t, false);
	uint8_t bytes[512];
	size_t len = three_frames(bytes);

	for (size_t cut = 0; cut <= len; cut += 3) {
		struct buf in[3];
		void *ctx[3];

		post_three(t, in, ctx);
		wire_write(t, wire.fd, bytes, cut);
		for (unsigned i = 0; i < 5; i++)
			progress(t);
		wire_write(t, wire.fd, bytes + cut, len - cut);
		three_received(t, &wire, in, ctx);
	}
}

TEST(wire_tcp, frames_byte_by_byte, EP_RDM, FI_MSG | FI_TAGGED, "Frames that come byte by byte are the same frames")
{
	struct wire wire = open_wire(t, false);
	uint8_t bytes[512];
	size_t len = three_frames(bytes);
	struct buf in[3];
	void *ctx[3];

	post_three(t, in, ctx);
	wire_slowly(t, wire.fd, bytes, len);
	three_received(t, &wire, in, ctx);
}

TEST(wire_tcp, frames_at_once, EP_RDM, FI_MSG | FI_TAGGED, "A hundred frames that come in one piece are all taken, in order")
{
	struct wire wire = open_wire(t, false);
	uint8_t *bytes = malloc(100 * 512);
	struct buf in[300];
	void *ctx[300];
	size_t len = 0;

	CHECK(bytes);
	for (unsigned i = 0; i < 100; i++) {
		post_three(t, &in[3 * i], &ctx[3 * i]);
		len += three_frames(bytes + len);
	}
	wire_write(t, wire.fd, bytes, len);
	for (unsigned i = 0; i < 100; i++)
		three_received(t, &wire, &in[3 * i], &ctx[3 * i]);
	free(bytes);
}

TEST(wire_tcp, receive_cut_by_end, EP_RDM, FI_MSG, "A message cut by the end of its connection ends its receive in error; the next receive stays posted")
{
	struct wire wire = open_wire(t, false);
	struct buf cut = new_buf(t, LEN, 0), next = new_buf(t, 8, 0);
	void *cut_ctx = post_recv(t, &t->b, cut), *next_ctx = post_recv(t, &t->b, next);
	uint8_t bytes[256];

	frame_bytes(bytes, (struct wire_header){ .op = MSG, .payload = LEN }, false, pattern(1));
	wire_write(t, wire.fd, bytes, 16 + LEN / 2);
	for (unsigned i = 0; i < 50; i++)
		progress(t);
	close(wire.fd);
	failed_somehow(t, t->b.rxcq, cut_ctx);
	post_send(t, &t->a, new_buf(t, 8, 5));
	done(t, t->b.rxcq, next_ctx, FI_MSG | FI_RECV);
	CHECK(holds(next, 8, 5));
}

// ---- Rendezvous

static struct wire_header rts(uint8_t index, size_t size, uint16_t flags)
{
	return (struct wire_header){ .op = RTS, .op_data = index, .flags = flags, .data = DATA, .tag = TAG, .msg_size = size };
}

static struct wire_header rendezvous_data(uint8_t index, size_t size, uint16_t flags)
{
	return (struct wire_header){ .op = DATA_OP, .op_data = index, .flags = flags, .payload = size };
}

static void expect_cts(struct env *t, struct wire *wire, uint8_t index)
{
	expect_frame(t, wire, (struct wire_header){ .op = CTS, .op_data = index });
}

static void rendezvous(struct env *t, struct wire *wire, uint8_t index, uint16_t flags, bool unexpected)
{
	struct buf in = new_buf(t, ROOM, 0);
	struct fi_cq_tagged_entry comp;
	void *ctx = NULL;

	if (!unexpected)
		ctx = post_trecv(t, &t->b, in, TAG, 0);
	send_frame(t, wire, rts(index, ROOM, flags), NULL);
	if (unexpected) {
		wire_silent(t, wire->fd);
		ctx = post_trecv(t, &t->b, in, TAG, 0);
	}
	expect_cts(t, wire, index);
	nothing(t->b.rxcq);
	send_frame(t, wire, rendezvous_data(index, ROOM, flags), pattern(6));
	comp = done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV | (flags & HAS_DATA ? FI_REMOTE_CQ_DATA : 0));
	CHECK_EQ(comp.len, ROOM);
	CHECK_EQ(comp.tag, TAG);
	if (flags & HAS_DATA)
		CHECK_EQ(comp.data, DATA);
	CHECK(holds(in, ROOM, 6));
	if (flags & WANTS_ACK)
		expect_ack(t, wire);
	wire_silent(t, wire->fd);
}

static void known_peer(struct env *t, struct wire *wire) // messages are kept only for known peers
{
	struct listener at;
	fi_addr_t peer;

	only_tcp(t);
	PAIR(t);
	at = wire_listen();
	CHECK_EQ(fi_av_insert(t->b.av, &at.addr, 1, &peer, 0, NULL), 1);
	*wire = rdm_open(t, &t->b, ntohs(at.addr.sin_port), false);
}

TEST(wire_tcp, rendezvous, EP_RDM, FI_TAGGED, "A ready-to-send that a receive matches is answered clear-to-send with its index, and its data completes the receive")
{
	struct wire wire = open_wire(t, false);

	rendezvous(t, &wire, 1, 0, false);
	rendezvous(t, &wire, 254, HAS_DATA, false);
	rendezvous(t, &wire, 1, WANTS_ACK, false);
	rendezvous(t, &wire, 9, WANTS_ACK | HAS_DATA, false);
}

TEST(wire_tcp, rendezvous_unexpected, EP_RDM, FI_TAGGED, "A ready-to-send that nothing matches waits; clear-to-send comes with the receive")
{
	struct wire wire;

	known_peer(t, &wire);
	rendezvous(t, &wire, 1, 0, true);
	rendezvous(t, &wire, 2, WANTS_ACK | HAS_DATA, true);
}

TEST(wire_tcp, rendezvous_overtaken, EP_RDM, FI_TAGGED, "Other frames pass between ready-to-send and its data; two rendezvous finish in any order")
{
	struct buf in[3] = { new_buf(t, ROOM, 0), new_buf(t, ROOM, 0), new_buf(t, LEN, 0) };
	struct wire wire;
	void *ctx[3];

	known_peer(t, &wire);
	for (unsigned i = 0; i < 3; i++)
		ctx[i] = post_trecv(t, &t->b, in[i], TAG, 0);
	send_frame(t, &wire, rts(5, ROOM, 0), NULL);
	send_frame(t, &wire, rts(6, LEN, 0), NULL);
	send_frame(t, &wire, (struct wire_header){ .op = TAGGED, .tag = TAG, .payload = LEN }, pattern(3));
	expect_cts(t, &wire, 5);
	expect_cts(t, &wire, 6);
	done(t, t->b.rxcq, ctx[2], FI_TAGGED | FI_RECV);
	CHECK(holds(in[2], LEN, 3));
	send_frame(t, &wire, rendezvous_data(6, LEN, 0), pattern(2));
	CHECK_EQ(done(t, t->b.rxcq, ctx[1], FI_TAGGED | FI_RECV).len, LEN);
	send_frame(t, &wire, rendezvous_data(5, ROOM, 0), pattern(1));
	CHECK_EQ(done(t, t->b.rxcq, ctx[0], FI_TAGGED | FI_RECV).len, ROOM);
	CHECK(holds(in[0], ROOM, 1) && holds(in[1], LEN, 2));
}

TEST(wire_tcp, rendezvous_truncated, EP_RDM, FI_TAGGED, "A rendezvous into a smaller buffer is truncated, its data taken off the stream, and acknowledged")
{
	struct wire wire = open_wire(t, false);
	struct buf in = new_buf(t, LEN, 0);
	void *ctx = post_trecv(t, &t->b, in, TAG, 0);

	send_frame(t, &wire, rts(1, ROOM, WANTS_ACK), NULL);
	expect_cts(t, &wire, 1);
	send_frame(t, &wire, rendezvous_data(1, ROOM, WANTS_ACK), pattern(6));
	failed(t, t->b.rxcq, ctx, FI_ETRUNC);
	CHECK(holds(in, LEN, 6));
	expect_ack(t, &wire);
	rendezvous(t, &wire, 1, 0, false);
}

TEST(wire_tcp, rendezvous_empty, EP_RDM, FI_TAGGED, "A rendezvous of 0 bytes works")
{
	struct wire wire = open_wire(t, false);
	void *ctx = post_trecv(t, &t->b, new_buf(t, LEN, 0), TAG, 0);

	send_frame(t, &wire, rts(1, 0, 0), NULL);
	expect_cts(t, &wire, 1);
	send_frame(t, &wire, rendezvous_data(1, 0, 0), NULL);
	CHECK_EQ(done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV).len, 0);
}

TEST(wire_tcp, rendezvous_peeked, EP_RDM, FI_TAGGED, "A peek sees a ready-to-send that waits, with the length of its message")
{
	struct fi_msg_tagged peek = { .addr = FI_ADDR_UNSPEC, .tag = TAG, .context = new_ctx() };
	struct wire wire;

	known_peer(t, &wire);
	send_frame(t, &wire, rts(1, ROOM, 0), NULL);
	wire_silent(t, wire.fd);
	POST(t, fi_trecvmsg(t->b.ep, &peek, FI_PEEK));
	CHECK_EQ(done(t, t->b.rxcq, peek.context, FI_TAGGED | FI_RECV).len, ROOM);
	wire_silent(t, wire.fd);
	void *ctx = post_trecv(t, &t->b, new_buf(t, ROOM, 0), TAG, 0);
	expect_cts(t, &wire, 1);
	send_frame(t, &wire, rendezvous_data(1, ROOM, 0), pattern(6));
	done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV);
}

TEST(wire_tcp, rendezvous_cut_by_end, EP_RDM, FI_TAGGED, "A receive that waits for rendezvous data ends in error when the connection does")
{
	struct wire wire = open_wire(t, false);
	void *ctx = post_trecv(t, &t->b, new_buf(t, ROOM, 0), TAG, 0);

	send_frame(t, &wire, rts(1, ROOM, 0), NULL);
	expect_cts(t, &wire, 1);
	close(wire.fd);
	failed_somehow(t, t->b.rxcq, ctx);
}

TEST(wire_tcp, lost_rendezvous, EP_RDM | OURS_ONLY, FI_TAGGED, "A receive does not take what a peer that is gone had sent behind a message that went with it")
{
	struct buf in = new_buf(t, 8, 0);
	struct op recv = op_of(RECV, true, in, FI_ADDR_UNSPEC);
	struct wire wire;

	only_tcp(t);
	PAIR(t);
	wire = rdm_open(t, &t->b, 7, false);
	send_frame(t, &wire, (struct wire_header){ .op = RTS, .op_data = 1, .tag = 99, .msg_size = 100 }, NULL);
	send_frame(t, &wire, (struct wire_header){ .op = TAGGED, .payload = 8, .tag = 99 }, "second.");
	still_open(t, &wire, &t->b);
	// The peer connects again; its old state is gone.
	wire = rdm_open(t, &t->b, 7, false);
	send_frame(t, &wire, (struct wire_header){ .op = TAGGED, .payload = 8, .tag = 99 }, "third..");
	still_open(t, &wire, &t->b);
	recv.tag = 99;
	op_post(t, t->b.ep, &recv);
	done(t, t->b.rxcq, recv.ctx, RECEIVED(true));
	CHECK(!memcmp(in.mem, "third..", 8));
}
