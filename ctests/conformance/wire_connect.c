// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! docs/wire/tcp.md: the bytes that an RDM endpoint sends: its request, and the frame of every call; and its reaction
//! to answers.
#define _GNU_SOURCE
#include "wire.h"

#include <unistd.h>

enum { LEN = 8, ROOM = 4096 };

static struct dial dialled(struct env *t)
{
	only_tcp(t);
	PAIR(t);
	return dial_from(t, &t->b, wire_listen());
}

static struct dial connected(struct env *t, bool big)
{
	struct dial dial = dialled(t);

	dial.wire.big = big;
	dial_answer(t, &dial, &t->b);
	still_open(t, &dial.wire, &t->b);
	return dial;
}

static size_t response(struct env *t, uint8_t *bytes)
{
	return rdm_bytes(bytes, RESPONSE, false, 0x81, ntohs(((struct sockaddr_in *)t->b.name)->sin_port), 99);
}

static void expect_payload(struct env *t, struct wire *wire, unsigned seed, size_t len)
{
	uint8_t got[ROOM];

	CHECK(len <= sizeof(got));
	wire_read(t, wire->fd, got, len);
	CHECK(filled(got, len, seed));
}

static void send_op(struct env *t, struct op *op, struct dial *dial, uint64_t flags)
{
	op->addr = dial->peer;
	op->flags = flags;
	op_post(t, t->b.ep, op);
}

// Makes the call and checks its frame and its completion.
static void gives(struct env *t, struct dial *dial, enum form form, bool tagged, size_t len, uint64_t flags)
{
	struct op op = op_of(form, tagged, new_buf(t, len, 3), dial->peer);
	bool data = form == SENDDATA || form == INJECTDATA || flags & FI_REMOTE_CQ_DATA;
	bool ack = flags & (FI_DELIVERY_COMPLETE | FI_TRANSMIT_COMPLETE);
	struct wire_header want = {
		.op = tagged ? TAGGED : MSG, .flags = (data ? HAS_DATA : 0) | (ack ? WANTS_ACK : 0), .data = DATA,
		.tag = TAG, .payload = len,
	};

	send_op(t, &op, dial, flags);
	expect_frame(t, &dial->wire, want);
	expect_payload(t, &dial->wire, 3, len);
	if (ack) {
		nothing(t->b.txcq);
		send_frame(t, &dial->wire, (struct wire_header){ .op = MSG, .op_data = ACK }, NULL);
	}
	if (form != INJECT && form != INJECTDATA)
		done(t, t->b.txcq, op.ctx, SENT(tagged));
	nothing(t->b.txcq);
}

static void all_forms(struct env *t, bool tagged, bool big)
{
	struct dial dial = connected(t, big);

	gives(t, &dial, SEND, tagged, LEN, 0);
	gives(t, &dial, SEND, tagged, 0, 0);
	gives(t, &dial, SEND, tagged, 3000, 0);
	gives(t, &dial, SENDV, tagged, 16, 0);
	gives(t, &dial, SENDDATA, tagged, LEN, 0);
	gives(t, &dial, INJECT, tagged, 4, 0);
	gives(t, &dial, INJECTDATA, tagged, 4, 0);
	gives(t, &dial, SENDMSG, tagged, LEN, FI_REMOTE_CQ_DATA);
	gives(t, &dial, SENDMSG, tagged, LEN, FI_INJECT_COMPLETE);
	gives(t, &dial, SENDMSG, tagged, LEN, FI_DELIVERY_COMPLETE);
	gives(t, &dial, SENDMSG, tagged, LEN, FI_TRANSMIT_COMPLETE);
	gives(t, &dial, SENDMSG, tagged, 2000, FI_DELIVERY_COMPLETE | FI_REMOTE_CQ_DATA);
}

TEST(wire_tcp, emits_messages, EP_RDM, FI_MSG, "Each form of send gives the frame of docs/wire/tcp.md, byte for byte")
{
	all_forms(t, false, false);
}

TEST(wire_tcp, emits_tagged, EP_RDM, FI_TAGGED | FI_MSG, "Each form of tagged send gives the frame of docs/wire/tcp.md, byte for byte")
{
	all_forms(t, true, false);
}

TEST(wire_tcp, emits_messages_big_endian, EP_RDM, FI_MSG, "To a peer whose probe is of the other byte order the fields are big-endian")
{
	all_forms(t, false, true);
}

TEST(wire_tcp, emits_tagged_big_endian, EP_RDM, FI_TAGGED | FI_MSG, "So are those of tagged messages")
{
	all_forms(t, true, true);
}

static void writes(struct env *t, bool big)
{
	struct dial dial = connected(t, big);
	struct buf out = new_buf(t, 100, 3);
	struct fi_rma_iov remote[4] = { { 0x100, 40, 7 }, { 0x1000, 30, 8 }, { 0, 20, 9 }, { 1, 10, 10 } };
	static const uint64_t flags[] = { 0, FI_REMOTE_CQ_DATA, FI_DELIVERY_COMPLETE, FI_COMMIT_COMPLETE };

	for (unsigned count = 1; count <= 4; count++)
		for (unsigned f = 0; f < 4; f++) {
			struct wire_header want = { .op = WRITE, .seg_count = count, .data = DATA };
			struct iovec iov = { out.mem, 0 };
			struct fi_msg_rma msg = {
				.msg_iov = &iov, .desc = &out.desc, .iov_count = 1, .addr = dial.peer, .rma_iov = remote,
				.rma_iov_count = count, .context = new_ctx(), .data = DATA,
			};

			for (unsigned i = 0; i < count; i++) {
				want.segs[i].addr = remote[i].addr;
				want.segs[i].len = remote[i].len;
				want.segs[i].key = remote[i].key;
				iov.iov_len += remote[i].len;
			}
			want.payload = iov.iov_len;
			want.flags = (uint16_t[]){ 0, HAS_DATA, WANTS_ACK, WANTS_COMMIT }[f];
			POST(t, fi_writemsg(t->b.ep, &msg, flags[f]));
			expect_frame(t, &dial.wire, want);
			expect_payload(t, &dial.wire, 3, iov.iov_len);
			if (f > 1) {
				nothing(t->b.txcq);
				send_frame(t, &dial.wire, (struct wire_header){ .op = MSG, .op_data = ACK }, NULL);
			}
			done(t, t->b.txcq, msg.context, FI_RMA | FI_WRITE);
		}
	POST(t, fi_inject_write(t->b.ep, out.mem, 8, dial.peer, 0x40, 77));
	expect_frame(t, &dial.wire, (struct wire_header){ .op = WRITE, .seg_count = 1, .segs = { { 0x40, 8, 77 } }, .payload = 8 });
	expect_payload(t, &dial.wire, 3, 8);
}

TEST(wire_tcp, emits_writes, EP_RDM, FI_MSG | FI_RMA | FI_RMA_PMEM, "Each form of write gives the frame of docs/wire/tcp.md, byte for byte")
{
	writes(t, false);
}

TEST(wire_tcp, emits_writes_big_endian, EP_RDM, FI_MSG | FI_RMA | FI_RMA_PMEM, "So it does to a big-endian peer")
{
	writes(t, true);
}

static void reads(struct env *t, bool big)
{
	struct dial dial = connected(t, big);
	struct buf in[3] = { new_buf(t, 16, 0), new_buf(t, 100, 0), new_buf(t, 16, 0) };
	void *ctx[3] = { new_ctx(), new_ctx(), new_ctx() };
	struct fi_rma_iov remote[2] = { { 0x100, 70, 7 }, { 0x1000, 30, 8 } };
	struct iovec iov[2] = { { in[1].mem, 10 }, { in[1].mem + 10, 90 } };
	void *desc[2] = { in[1].desc, in[1].desc };
	struct fi_msg_rma msg = {
		.msg_iov = iov, .desc = desc, .iov_count = 2, .addr = dial.peer, .rma_iov = remote, .rma_iov_count = 2,
		.context = ctx[1],
	};
	uint8_t payload[100];

	fill(payload, 100, 4);
	POST(t, fi_read(t->b.ep, in[0].mem, 16, in[0].desc, dial.peer, 0x20, 5, ctx[0]));
	POST(t, fi_readmsg(t->b.ep, &msg, 0));
	POST(t, fi_read(t->b.ep, in[2].mem, 16, in[2].desc, dial.peer, 0x30, 6, ctx[2]));
	expect_frame(t, &dial.wire, (struct wire_header){ .op = READ_REQ, .seg_count = 1, .segs = { { 0x20, 16, 5 } } });
	expect_frame(t, &dial.wire,
		     (struct wire_header){ .op = READ_REQ, .seg_count = 2, .segs = { { 0x100, 70, 7 }, { 0x1000, 30, 8 } } });
	expect_frame(t, &dial.wire, (struct wire_header){ .op = READ_REQ, .seg_count = 1, .segs = { { 0x30, 16, 6 } } });
	nothing(t->b.txcq);
	send_frame(t, &dial.wire, (struct wire_header){ .op = READ_RSP, .payload = 16 }, payload);
	done(t, t->b.txcq, ctx[0], FI_RMA | FI_READ);
	send_frame(t, &dial.wire, (struct wire_header){ .op = READ_RSP, .seg_count = 2, .payload = 100 }, payload);
	done(t, t->b.txcq, ctx[1], FI_RMA | FI_READ);
	send_frame(t, &dial.wire, (struct wire_header){ .op = READ_RSP, .payload = 16 }, payload);
	done(t, t->b.txcq, ctx[2], FI_RMA | FI_READ);
	CHECK(holds(in[0], 16, 4) && holds(in[1], 100, 4) && holds(in[2], 16, 4));
}

TEST(wire_tcp, emits_reads, EP_RDM, FI_MSG | FI_RMA, "Each form of read gives the request of docs/wire/tcp.md; responses complete them in order")
{
	reads(t, false);
}

TEST(wire_tcp, emits_reads_big_endian, EP_RDM, FI_MSG | FI_RMA, "So it does with a big-endian peer")
{
	reads(t, true);
}

TEST(wire_tcp, read_response_wrong_length, EP_RDM | OURS_ONLY, FI_MSG | FI_RMA, "A read response of another length than asked for ends the connection and the read")
{
	for (unsigned longer = 0; longer < 2; longer++) {
		struct dial dial;
		struct buf in = new_buf(t, 16, 0);
		uint8_t payload[32] = { 0 };
		void *ctx = new_ctx();

		if (longer)
			pair_close(t);
		dial = connected(t, false);
		POST(t, fi_read(t->b.ep, in.mem, 16, in.desc, dial.peer, 0x20, 5, ctx));
		expect_frame(t, &dial.wire, (struct wire_header){ .op = READ_REQ, .seg_count = 1, .segs = { { 0x20, 16, 5 } } });
		send_frame(t, &dial.wire, (struct wire_header){ .op = READ_RSP, .payload = longer ? 17 : 15 }, payload);
		failed_somehow(t, t->b.txcq, ctx);
		wire_ends(t, dial.wire.fd);
		round_trip(t);
	}
}

TEST(wire_tcp, acks_in_order, EP_RDM, FI_MSG | FI_TAGGED | FI_RMA, "The n-th acknowledgement completes the n-th operation that waits for one, and plain ones do not wait")
{
	struct dial dial = connected(t, false);
	struct op ops[4];

	for (unsigned i = 0; i < 4; i++) {
		ops[i] = op_of(SENDMSG, i % 2, new_buf(t, LEN, 3), dial.peer);
		ops[i].flags = i == 1 ? 0 : FI_DELIVERY_COMPLETE;
		op_post(t, t->b.ep, &ops[i]);
		expect_frame(t, &dial.wire, (struct wire_header){ .op = i % 2 ? TAGGED : MSG, .flags = i == 1 ? 0 : WANTS_ACK, .tag = TAG,
								  .payload = LEN });
		expect_payload(t, &dial.wire, 3, LEN);
	}
	done(t, t->b.txcq, ops[1].ctx, SENT(true));
	for (unsigned i = 0; i < 4; i++) {
		if (i == 1)
			continue;
		nothing(t->b.txcq);
		send_frame(t, &dial.wire, (struct wire_header){ .op = MSG, .op_data = ACK }, NULL);
		done(t, t->b.txcq, ops[i].ctx, SENT(i % 2));
	}
}

TEST(wire_tcp, one_ack_too_many, EP_RDM | OURS_ONLY, FI_MSG, "One acknowledgement too many ends the connection; what was acknowledged stays complete")
{
	struct dial dial = connected(t, false);

	gives(t, &dial, SENDMSG, false, LEN, FI_DELIVERY_COMPLETE);
	send_frame(t, &dial.wire, (struct wire_header){ .op = MSG, .op_data = ACK }, NULL);
	wire_ends(t, dial.wire.fd);
	nothing(t->b.txcq);
	round_trip(t);
}

TEST(wire_tcp, ends_with_operations, EP_RDM, FI_MSG | FI_TAGGED | FI_RMA, "When the connection ends, what waits for an answer ends in error, each once")
{
	struct dial dial = connected(t, false);
	struct buf in = new_buf(t, 16, 0);
	struct op send = op_of(SENDMSG, false, new_buf(t, LEN, 3), dial.peer), tagged = op_of(SENDMSG, true, new_buf(t, LEN, 3), dial.peer);
	void *ctx[3] = { send.ctx, tagged.ctx, new_ctx() };
	bool seen[3] = { false };

	send.flags = tagged.flags = FI_DELIVERY_COMPLETE;
	op_post(t, t->b.ep, &send);
	op_post(t, t->b.ep, &tagged);
	POST(t, fi_read(t->b.ep, in.mem, 16, in.desc, dial.peer, 0x20, 5, ctx[2]));
	expect_frame(t, &dial.wire, (struct wire_header){ .op = MSG, .flags = WANTS_ACK, .payload = LEN });
	wire_reset(dial.wire.fd);
	for (unsigned i = 0; i < 3; i++) {
		struct fi_cq_err_entry err = { 0 };
		unsigned k = 0;

		wait_err(t, t->b.txcq, &err);
		while (k < 3 && ctx[k] != err.op_context)
			k++;
		CHECK(k < 3 && !seen[k]);
		seen[k] = true;
	}
	nothing(t->b.txcq);
	round_trip(t);
}

TEST(wire_tcp, stopped_reader, EP_RDM, FI_MSG, "A peer that does not read gets no more than the kernel takes; when it ends, the rest ends in error")
{
	struct dial dial = connected(t, false);
	struct buf out = new_buf(t, 8 << 20, 3);
	unsigned posted = 0, ended = 0;

	// More than socket buffers hold, so some of these wait.
	while (posted < 8 && !fi_send(t->b.ep, out.mem, out.len, out.desc, dial.peer, new_ctx()))
		posted++;
	CHECK(posted > 0);
	round_trip_between(t, &t->a, &t->b);
	wire_reset(dial.wire.fd);
	for (uint64_t limit = now_ms() + t->limit_ms; ended < posted;) {
		struct fi_cq_tagged_entry comp;
		struct fi_cq_err_entry err = { 0 };
		ssize_t rc = fi_cq_read(t->b.txcq, &comp, 1);

		if (rc == -FI_EAVAIL)
			CHECK_EQ(fi_cq_readerr(t->b.txcq, &err, 0), 1);
		ended += rc == 1 || rc == -FI_EAVAIL;
		if (now_ms() > limit)
			FAIL("%u of %u ended", ended, posted);
	}
}

// ---- Answers to the request

TEST(wire_tcp, slow_response, EP_RDM | OURS_ONLY, FI_MSG, "A response that comes byte by byte is taken")
{
	struct dial dial = dialled(t);
	uint8_t bytes[40];

	wire_slowly(t, dial.wire.fd, bytes, response(t, bytes));
	dial_first(t, &dial, &t->b);
	still_open(t, &dial.wire, &t->b);
	gives(t, &dial, SEND, false, LEN, 0);
}

TEST(wire_tcp, frames_behind_response, EP_RDM, FI_MSG, "A frame in the same segment as the response is taken")
{
	struct dial dial = dialled(t);
	struct buf in = new_buf(t, LEN, 0);
	void *ctx = post_recv(t, &t->b, in);
	uint8_t bytes[128];
	size_t len = response(t, bytes);

	len += frame_bytes(bytes + len, (struct wire_header){ .op = MSG, .payload = LEN }, false, "together");
	wire_write(t, dial.wire.fd, bytes, len);
	done(t, t->b.rxcq, ctx, FI_MSG | FI_RECV);
	CHECK(!memcmp(in.mem, "together", LEN));
}

// The attempt has failed. The waiting send, or one that is posted again, connects anew and succeeds.
static void tried_again(struct env *t, struct dial *dial)
{
	struct op op = op_of(SEND, false, new_buf(t, LEN, 77), dial->peer);
	uint8_t private[8];
	int fd = -1;

	wire_ends(t, dial->wire.fd);
	close(dial->wire.fd);
	for (uint64_t limit = now_ms() + t->limit_ms; fd < 0;) {
		if (!dial->queued && !op_try(t->b.ep, &op))
			dial->queued = op.ctx;
		progress(t);
		fd = accept4(dial->at.fd, NULL, NULL, SOCK_NONBLOCK);
		if (now_ms() > limit)
			FAIL("no second attempt");
	}
	read_cm(t, fd, REQUEST, private, 8);
	dial->wire = (struct wire){ .fd = fd };
	dial_answer(t, dial, &t->b);
	still_open(t, &dial->wire, &t->b);
	round_trip_between(t, &t->a, &t->b);
}

static void wrong_response(struct env *t, unsigned at, uint8_t value)
{
	struct dial dial = dialled(t);
	uint8_t bytes[40];

	response(t, bytes);
	bytes[at] = value;
	wire_write(t, dial.wire.fd, bytes, 40);
	tried_again(t, &dial);
}

#define WRONG(RULE, TEXT, AT, VALUE)                                                                                   \
	TEST(wire_tcp, response_##RULE, EP_RDM | OURS_ONLY, FI_MSG, "A response " TEXT " ends that attempt; the next one works") \
	{                                                                                                              \
		wrong_response(t, AT, VALUE);                                                                          \
	}

WRONG(version_2, "of version 2", 0, 2)
WRONG(version_4, "of version 4", 0, 4)
WRONG(is_request, "that is a request", 1, REQUEST)
WRONG(kind_9, "of kind 9", 1, 9)
WRONG(length_over, "that announces more than 256 bytes", 2, 2)

TEST(wire_tcp, rejected, EP_RDM | OURS_ONLY, FI_MSG, "After a reject another attempt is made")
{
	struct dial dial = dialled(t);
	uint8_t bytes[40];

	response(t, bytes);
	bytes[1] = REJECT;
	bytes[24] = 0;
	bytes[32] = 1;
	wire_write(t, dial.wire.fd, bytes, 40);
	tried_again(t, &dial);
}

TEST(wire_tcp, response_cut, EP_RDM | OURS_ONLY, FI_MSG, "A peer that goes away instead of answering, or in the middle of it, ends that attempt; the next one works")
{
	for (unsigned sent = 0; sent < 40; sent += 13) {
		struct dial dial;
		uint8_t bytes[40];

		if (sent)
			pair_close(t);
		dial = dialled(t);
		response(t, bytes);
		wire_write(t, dial.wire.fd, bytes, sent);
		shutdown(dial.wire.fd, SHUT_WR);
		tried_again(t, &dial);
	}
}

// ---- Inject calls and the endpoint's default flags

static void ask_for_delivery(struct env *t)
{
	uint64_t flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;

	OK(fi_control(&t->b.ep->fid, FI_SETOPSFLAG, &flags));
}

// The frame of an inject call arrives and requires an acknowledgement. The call is counted only after that.
static void counted_with_ack(struct env *t, struct dial *dial, struct wire_header want)
{
	uint64_t before = fi_cntr_read(t->b.cntr);

	want.flags = WANTS_ACK;
	want.payload = LEN;
	expect_frame(t, &dial->wire, want);
	expect_payload(t, &dial->wire, 3, LEN);
	progress(t);
	CHECK_EQ(fi_cntr_read(t->b.cntr), before);
	send_frame(t, &dial->wire, (struct wire_header){ .op = MSG, .op_data = ACK }, NULL);
	ONCE(t, fi_cntr_read(t->b.cntr) == before + 1);
	nothing(t->b.txcq);
}

TEST(wire_tcp, inject_counted_with_ack, EP_RDM | OURS_ONLY, FI_MSG | FI_TAGGED | FI_RMA, "Where a counter sees it, an inject call is as complete as the endpoint's default flags ask for")
{
	uint8_t *out = new_buf(t, LEN, 3).mem;
	struct dial dial;

	only_tcp(t);
	PAIR(t, .cntr_flags = FI_SEND | FI_WRITE);
	dial = dial_from(t, &t->b, wire_listen());
	dial_answer(t, &dial, &t->b);
	ask_for_delivery(t);
	POST(t, fi_inject(t->b.ep, out, LEN, dial.peer));
	counted_with_ack(t, &dial, (struct wire_header){ .op = MSG });
	POST(t, fi_tinject(t->b.ep, out, LEN, dial.peer, TAG));
	counted_with_ack(t, &dial, (struct wire_header){ .op = TAGGED, .tag = TAG });
	POST(t, fi_inject_write(t->b.ep, out, LEN, dial.peer, 0x40, 77));
	counted_with_ack(t, &dial, (struct wire_header){ .op = WRITE, .seg_count = 1, .segs = { { 0x40, LEN, 77 } } });
}

TEST(wire_tcp, inject_uncounted_without_ack, EP_RDM | OURS_ONLY, FI_MSG | FI_RMA, "Where nothing sees its completion, an inject call costs no acknowledgement, whatever the default flags")
{
	uint8_t *out = new_buf(t, LEN, 3).mem;
	struct dial dial = connected(t, false);

	ask_for_delivery(t);
	POST(t, fi_inject(t->b.ep, out, LEN, dial.peer));
	expect_frame(t, &dial.wire, (struct wire_header){ .op = MSG, .payload = LEN });
	expect_payload(t, &dial.wire, 3, LEN);
}
