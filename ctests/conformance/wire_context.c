// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! docs/wire/tcp.md: frames that name a receive context, valid and invalid ones.
#include "wire.h"

enum { PORT = 7, LEN = 16, LARGE = 100000, BITS = 6, COUNT = 2 };

// A scalable endpoint with COUNT receive contexts, and a connection to it.
struct target {
	struct side side; // its name
	struct fid_ep *sep;
	struct fid_ep *rx[COUNT];
	struct fid_cq *cq[COUNT];
	struct wire wire;
	struct dial dial; // made by its transmit context: side.ep
};

static struct target open_unconnected(struct env *t)
{
	struct fi_av_attr av = { .type = FI_AV_TABLE, .rx_ctx_bits = BITS };
	struct target at = { 0 };

	only_tcp(t);
	t->hints->caps |= FI_NAMED_RX_CTX;
	t->hints->ep_attr->rx_ctx_cnt = COUNT;
	if (env_try_info(t) || !t->info)
		SKIP("not offered");
	open_domain(t);
	OK(fi_av_open(t->domain, &av, &at.side.av, NULL));
	keep(t, &at.side.av->fid);
	OK(fi_scalable_ep(t->domain, t->info, &at.sep, NULL));
	keep(t, &at.sep->fid);
	OK(fi_scalable_ep_bind(at.sep, &at.side.av->fid, 0));
	for (unsigned i = 0; i < COUNT; i++) {
		at.cq[i] = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
		OK(fi_rx_context(at.sep, i, NULL, &at.rx[i], NULL));
		keep(t, &at.rx[i]->fid);
		OK(fi_ep_bind(at.rx[i], &at.cq[i]->fid, FI_RECV));
		OK(fi_enable(at.rx[i]));
	}
	OK(fi_enable(at.sep));
	at.side.namelen = sizeof(at.side.name);
	OK(fi_getname(&at.sep->fid, at.side.name, &at.side.namelen));
	return at;
}

static struct target open_target(struct env *t, uint8_t features)
{
	struct target at = open_unconnected(t);

	at.wire = rdm_open_as(t, &at.side, PORT, false, features);
	return at;
}

static struct target dial_target(struct env *t)
{
	struct target at = open_unconnected(t);

	at.side.txcq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	OK(fi_tx_context(at.sep, 0, NULL, &at.side.ep, NULL));
	keep(t, &at.side.ep->fid);
	OK(fi_ep_bind(at.side.ep, &at.side.txcq->fid, FI_TRANSMIT));
	OK(fi_enable(at.side.ep));
	at.dial = dial_from(t, &at.side, wire_listen());
	dial_answer(t, &at.dial, &at.side);
	return at;
}

static void *post(struct env *t, struct target *at, unsigned context, bool tagged, struct buf in)
{
	struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);

	op_post(t, at->rx[context], &recv);
	return recv.ctx;
}

TEST(wire_tcp, context_frames, EP_RDM, FI_MSG | FI_TAGGED, "Ops 24 and 25 are messages for the context in byte 5, answered and with data like others; ordinary ones are for context 0")
{
	struct target at = open_target(t, EXTENDED);
	static uint8_t bytes[LARGE];

	for (unsigned tagged = 0; tagged < 2; tagged++)
		for (unsigned i = 0; i < 2 * COUNT; i++) {
			size_t len = i < COUNT ? LEN : LARGE;
			unsigned context = i % COUNT;
			struct buf in = new_buf(t, len, 0);
			struct wire_header h = { .op = (context ? MSG_TO : MSG) + tagged, .flags = HAS_DATA | WANTS_ACK, .tag = TAG,
						 .data = DATA, .payload = len, .seg_count = context };
			void *ctx = post(t, &at, context, tagged, in);
			struct fi_cq_tagged_entry entry;

			fill(bytes, len, i + 1);
			send_frame(t, &at.wire, h, bytes);
			entry = done(t, at.cq[context], ctx, RECEIVED(tagged) | FI_REMOTE_CQ_DATA);
			CHECK_EQ(entry.data, DATA);
			CHECK(holds(in, len, i + 1));
			expect_frame(t, &at.wire, (struct wire_header){ .op = MSG, .op_data = ACK });
		}
}

TEST(wire_tcp, context_rendezvous, EP_RDM, FI_MSG | FI_TAGGED, "Op 26 is a ready-to-send for the context in byte 5; what follows is as for any other")
{
	struct target at = open_target(t, EXTENDED);
	struct buf in = new_buf(t, LARGE, 0);
	static uint8_t bytes[LARGE];
	void *ctx;

	send_frame(t, &at.wire, (struct wire_header){ .op = RTS_TO, .op_data = 9, .tag = TAG, .msg_size = LARGE, .seg_count = 1 }, NULL);
	turn(t);
	ctx = post(t, &at, 1, true, in);
	expect_frame(t, &at.wire, (struct wire_header){ .op = CTS, .op_data = 9 });
	fill(bytes, LARGE, 4);
	send_frame(t, &at.wire, (struct wire_header){ .op = DATA_OP, .op_data = 9, .payload = LARGE }, bytes);
	done(t, at.cq[1], ctx, RECEIVED(true));
	CHECK(holds(in, LARGE, 4));
}

// The frame must end its connection and touch no receive; another connection still works.
static void ends(struct env *t, struct target *at, struct wire_header h)
{
	struct buf first = new_buf(t, LEN, 0), second = new_buf(t, LEN, 0);
	static const uint8_t more[LEN];
	struct wire next;
	void *ctx = post(t, at, 0, false, first);
	uint8_t bytes[128];
	size_t len;

	post(t, at, 1, false, second);
	len = frame_bytes(bytes, h, false, NULL);
	wire_write(t, at->wire.fd, bytes, len);
	(void)!send(at->wire.fd, more, h.payload, MSG_NOSIGNAL);
	wire_ends(t, at->wire.fd);
	CHECK(untouched(first, 0) && untouched(second, 0));
	nothing(at->cq[0]);
	nothing(at->cq[1]);
	next = rdm_open_as(t, &at->side, PORT + 1, false, EXTENDED);
	send_frame(t, &next, (struct wire_header){ .op = MSG, .payload = LEN }, more);
	done(t, at->cq[0], ctx, FI_MSG | FI_RECV);
}

#define BAD_CONTEXT(RULE, FEATURES, TEXT, ...)                                                                         \
	TEST(wire_tcp, bad_context_##RULE, EP_RDM | OURS_ONLY, FI_MSG | FI_TAGGED, TEXT " ends the connection")         \
	{                                                                                                              \
		struct target at = open_target(t, FEATURES);                                                           \
		ends(t, &at, (struct wire_header){ __VA_ARGS__ });                                                     \
	}

BAD_CONTEXT(not_agreed, 0, "A message for a context, from a peer that did not announce extensions,", .op = MSG_TO, .seg_count = 1, .payload = LEN)
BAD_CONTEXT(rts_not_agreed, 0, "A ready-to-send for a context, from a peer that did not announce extensions,", .op = RTS_TO, .seg_count = 1, .op_data = 1, .msg_size = LEN)
BAD_CONTEXT(0, EXTENDED, "A message for context 0 that names it", .op = MSG_TO, .payload = LEN)
BAD_CONTEXT(2, EXTENDED, "A message for a context that the endpoint does not have", .op = MSG_TO, .seg_count = COUNT, .payload = LEN)
BAD_CONTEXT(63, EXTENDED, "A tagged message for a context that the endpoint does not have", .op = TAGGED_TO, .seg_count = 63, .payload = LEN)
BAD_CONTEXT(64, EXTENDED, "A message for a context that no endpoint has", .op = MSG_TO, .seg_count = 64, .payload = LEN)
BAD_CONTEXT(255, EXTENDED, "A tagged message for context 255", .op = TAGGED_TO, .seg_count = 255, .payload = LEN)
BAD_CONTEXT(rts_2, EXTENDED, "A ready-to-send for a context that the endpoint does not have", .op = RTS_TO, .seg_count = COUNT, .op_data = 1, .msg_size = LEN)
BAD_CONTEXT(rts_index, EXTENDED, "A ready-to-send for a context with index 0", .op = RTS_TO, .seg_count = 1, .msg_size = LEN)
BAD_CONTEXT(size, EXTENDED, "A tagged message for a context without a tag", .op = TAGGED_TO, .seg_count = 1, .size = 16, .payload = LEN)
BAD_CONTEXT(op_27, EXTENDED, "Op 27", .op = 27, .seg_count = 1, .payload = LEN)

TEST(wire_tcp, bad_context_of_plain, EP_RDM | OURS_ONLY, FI_MSG, "A message for a context of an ordinary endpoint ends the connection")
{
	static const uint8_t bytes[LEN];
	struct wire wire;

	only_tcp(t);
	PAIR(t);
	wire = rdm_open_as(t, &t->b, PORT, false, EXTENDED);
	send_frame(t, &wire, (struct wire_header){ .op = MSG_TO, .seg_count = 1, .payload = LEN }, bytes);
	wire_ends(t, wire.fd);
	round_trip(t);
}

TEST(wire_tcp, context_of_other_peer, EP_RDM | OURS_ONLY, FI_MSG | FI_NAMED_RX_CTX, "A peer without extensions gets ordinary frames for context 0; a message for another one is refused, or ends in FI_EOPNOTSUPP if it had to wait for the connection")
{
	struct dial dial;
	struct op send;
	struct buf out;
	uint8_t payload[LEN];

	only_tcp(t);
	PAIR(t, .av.rx_ctx_bits = BITS);
	out = new_buf(t, LEN, 3);
	dial = dial_from(t, &t->a, wire_listen());
	send = op_of(SEND, false, out, fi_rx_addr(dial.peer, 1, BITS));
	CHECK_RC(op_try(t->a.ep, &send), 0);
	dial_answer(t, &dial, &t->a);
	failed(t, t->a.txcq, send.ctx, FI_EOPNOTSUPP);
	CHECK_RC(op_try(t->a.ep, &send), -FI_EOPNOTSUPP);
	send = op_of(SEND, false, out, fi_rx_addr(dial.peer, 0, BITS));
	op_post(t, t->a.ep, &send);
	expect_frame(t, &dial.wire, (struct wire_header){ .op = MSG, .payload = LEN });
	wire_read(t, dial.wire.fd, payload, LEN);
	CHECK(filled(payload, LEN, 3));
	done(t, t->a.txcq, send.ctx, FI_MSG | FI_SEND);
}

TEST(wire_tcp, context_closed_sending, EP_RDM | OURS_ONLY, FI_MSG, "A transmit context is closed while the peer takes nothing: its buffers are the application's again, and the stream goes on as it was begun")
{
	enum { COUNT_OUT = 3, LEN_OUT = 8 << 20 };
	struct target at = dial_target(t);
	struct buf out[COUNT_OUT];
	uint8_t *in = malloc(LEN_OUT), payload[LEN];
	struct fid_ep *again = NULL;
	ssize_t left = fi_tx_size_left(at.side.ep);
	struct op send;

	CHECK(in && left > 0);
	for (unsigned i = 0; i < COUNT_OUT; i++) {
		out[i] = new_buf(t, LEN_OUT, 1 + i);
		send = op_of(SENDMSG, false, out[i], at.dial.peer);
		send.flags = FI_COMPLETION | (i == 1 ? FI_DELIVERY_COMPLETE : 0);
		CHECK_RC(op_try(at.side.ep, &send), 0);
	}
	shut(t, &at.side.ep->fid);
	for (unsigned i = 0; i < COUNT_OUT; i++)
		memset(host_view(out[i].mem), 0xee, LEN_OUT);
	OK(fi_tx_context(at.sep, 0, NULL, &again, NULL));
	keep(t, &again->fid);
	OK(fi_ep_bind(again, &at.side.txcq->fid, FI_TRANSMIT));
	OK(fi_enable(again));
	send = op_of(SEND, false, new_buf(t, LEN, 9), at.dial.peer);
	op_post(t, again, &send);
	for (unsigned i = 0; i < COUNT_OUT; i++) {
		struct wire_header h = { .op = MSG, .flags = i == 1 ? WANTS_ACK : 0, .payload = LEN_OUT, .data = 0 };

		expect_frame(t, &at.dial.wire, h);
		wire_read(t, at.dial.wire.fd, in, LEN_OUT);
		CHECK(filled(in, LEN_OUT, 1 + i));
	}
	expect_frame(t, &at.dial.wire, (struct wire_header){ .op = MSG, .payload = LEN });
	wire_read(t, at.dial.wire.fd, payload, LEN);
	CHECK(filled(payload, LEN, 9));
	done(t, at.side.txcq, send.ctx, FI_MSG | FI_SEND);
	// Sends of the closed context complete without an entry.
	send_frame(t, &at.dial.wire, (struct wire_header){ .op = MSG, .op_data = ACK }, NULL);
	turn(t);
	nothing(at.side.txcq);
	CHECK_EQ(fi_tx_size_left(again), left);
	free(in);
}

TEST(wire_tcp, context_closed_reading, EP_RDM | OURS_ONLY, FI_MSG | FI_RMA, "A transmit context is closed before its reads are answered: the answers touch no memory, and the connection goes on")
{
	struct target at = dial_target(t);
	struct buf in[2] = { new_buf(t, LEN, 0), new_buf(t, LARGE, 0) };
	static const uint8_t bytes[LARGE] = { 1, 2, 3 };
	void *ctx;

	for (unsigned i = 0; i < 2; i++) {
		struct wire_header want = { .op = READ_REQ, .seg_count = 1, .segs = { { 64, in[i].len, 5 } } };

		POST(t, fi_read(at.side.ep, in[i].mem, in[i].len, in[i].desc, at.dial.peer, 64, 5, new_ctx()));
		expect_frame(t, &at.dial.wire, want);
	}
	shut(t, &at.side.ep->fid);
	for (unsigned i = 0; i < 2; i++)
		send_frame(t, &at.dial.wire, (struct wire_header){ .op = READ_RSP, .payload = in[i].len }, bytes);
	ctx = post(t, &at, 0, false, new_buf(t, LEN, 0));
	send_frame(t, &at.dial.wire, (struct wire_header){ .op = MSG, .payload = LEN }, bytes);
	done(t, at.cq[0], ctx, FI_MSG | FI_RECV);
	CHECK(untouched(in[0], 0) && untouched(in[1], 0));
	nothing(at.side.txcq);
}

TEST(wire_tcp, context_closed_receiving, EP_RDM, FI_MSG | FI_TAGGED, "A receive context is closed in the middle of a message, in its receive or on the way to one: nothing more is written to it")
{
	for (unsigned late = 0; late < 2; late++) {
		struct target at = open_target(t, EXTENDED);
		struct wire_header h = { .op = TAGGED_TO, .seg_count = 1, .tag = TAG, .payload = LARGE };
		struct buf in = new_buf(t, LARGE, 0), next = new_buf(t, LEN, 0);
		static uint8_t bytes[LARGE + 64];
		size_t len;
		void *ctx;

		memset(bytes, 0x55, sizeof(bytes));
		len = frame_bytes(bytes, h, false, NULL);
		if (!late)
			post(t, &at, 1, true, in);
		wire_write(t, at.wire.fd, bytes, len + LARGE / 2);
		turn(t);
		if (late)
			post(t, &at, 1, true, in);
		shut(t, &at.rx[1]->fid);
		memset(host_view(in.mem), 0, LARGE);
		wire_write(t, at.wire.fd, bytes + len + LARGE / 2, LARGE - LARGE / 2);
		ctx = post(t, &at, 0, false, next);
		send_frame(t, &at.wire, (struct wire_header){ .op = MSG, .payload = LEN }, bytes);
		done(t, at.cq[0], ctx, FI_MSG | FI_RECV);
		CHECK(untouched(in, 0));
		nothing(at.cq[1]);
	}
}
