// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! docs/wire/tcp.md: invalid frames. Each ends its own connection, and no other.
#include "wire.h"

enum { PORT = 7, LEN = 16, ROOM = 4096 };

struct bad {
	struct wire wire;
	struct region region; // ROOM bytes that may be read and written
};

static struct bad open_bad(struct env *t)
{
	struct bad bad;

	only_tcp(t);
	PAIR(t);
	bad.region = new_region(t, &t->b, new_buf(t, ROOM, 0), FI_REMOTE_READ | FI_REMOTE_WRITE);
	round_trip(t);
	bad.wire = rdm_open(t, &t->b, PORT, false);
	still_open(t, &bad.wire, &t->b);
	return bad;
}

// Sends the frame, then more bytes, so that the library does not wait for the rest of an impossible frame.
static void ends(struct env *t, struct bad *bad, struct wire_header h)
{
	static const uint8_t more[ROOM];
	uint8_t bytes[256];
	size_t len = frame_bytes(bytes, h, false, NULL);

	wire_write(t, bad->wire.fd, bytes, len);
	// Not wire_write, because the library may close the connection meanwhile, which this test checks.
	(void)!send(bad->wire.fd, more, h.payload < ROOM ? h.payload : ROOM, MSG_NOSIGNAL);
	wire_ends(t, bad->wire.fd);
	CHECK(untouched(bad->region.buf, 0));
	nothing(t->b.rxcq);
	round_trip(t);
	struct wire next = rdm_open(t, &t->b, PORT + 1, false);
	still_open(t, &next, &t->b);
}

#define BAD(RULE, WHERE, TEXT, ...)                                                                                    \
	TEST(wire_tcp, bad_##RULE, EP_RDM | (WHERE), FI_MSG | FI_RMA | FI_TAGGED, TEXT " ends the connection")          \
	{                                                                                                              \
		struct bad bad = open_bad(t);                                                                          \
		struct wire_header h = { __VA_ARGS__ };                                                                \
		ends(t, &bad, h);                                                                                      \
	}
#define SEG(AT, LENGTH, KEY) .segs = { { (AT), (LENGTH), (KEY) } }
#define GOOD_SEG SEG(bad.region.at, LEN, bad.region.key)

BAD(op_8, 0, "Op 8", .op = 8)
BAD(op_255, 0, "Op 255", .op = 255)
BAD(version_2, OURS_ONLY, "A header of version 2", .op = MSG, .version = 2)
BAD(version_4, OURS_ONLY, "A header of version 4", .op = MSG, .version = 4)
BAD(header_size_1, OURS_ONLY, "A header size of 1", .op = MSG, .size = 1)
BAD(header_size_15, OURS_ONLY, "A header size of 15", .op = MSG, .size = 15)
BAD(header_size_17, OURS_ONLY, "A header size of 17", .op = MSG, .size = 17, .payload = LEN)
BAD(header_size_120, OURS_ONLY, "A message with a header of 120 bytes", .op = MSG, .size = 120, .payload = ROOM)
BAD(header_size_121, 0, "A header size of 121", .op = MSG, .size = 121, .payload = ROOM)
BAD(header_size_255, 0, "A header size of 255", .op = MSG, .size = 255, .payload = ROOM)
BAD(data_size_without_flag, OURS_ONLY, "A message header with room for CQ data that is not flagged", .op = MSG, .size = 24, .payload = LEN)
BAD(data_flag_without_size, OURS_ONLY, "A message flagged for CQ data without room for it", .op = MSG, .flags = HAS_DATA, .size = 16, .payload = LEN)
BAD(tagged_without_tag, OURS_ONLY, "A tagged message without a tag", .op = TAGGED, .size = 16, .payload = LEN)
BAD(total_below_header, OURS_ONLY, "A total size below the header size", .op = MSG, .total = 15)
BAD(total_0, OURS_ONLY, "A total size of 1", .op = TAGGED, .total = 1)
BAD(ack_with_payload, OURS_ONLY, "An acknowledgement with payload", .op = MSG, .op_data = ACK, .payload = LEN)
BAD(unsolicited_ack, OURS_ONLY, "An acknowledgement that nobody waits for", .op = MSG, .op_data = ACK)
BAD(unsolicited_read_response, 0, "A read response that nobody waits for", .op = READ_RSP, .payload = LEN)
BAD(write_count_0, OURS_ONLY, "A write with no segment", .op = WRITE, .payload = LEN)
BAD(write_count_5, OURS_ONLY, "A write with five segments", .op = WRITE, .seg_count = 5, .payload = LEN, GOOD_SEG)
BAD(write_count_contradicts, OURS_ONLY, "A write whose count contradicts its header size", .op = WRITE, .seg_count = 2, .size = 40, .payload = LEN, GOOD_SEG)
BAD(read_count_0, OURS_ONLY, "A read request with no segment", .op = READ_REQ)
BAD(read_count_5, OURS_ONLY, "A read request with five segments", .op = READ_REQ, .seg_count = 5, GOOD_SEG)
BAD(read_with_payload, OURS_ONLY, "A read request with payload", .op = READ_REQ, .seg_count = 1, .payload = LEN, GOOD_SEG)
BAD(write_key, 0, "A write with an unknown key", .op = WRITE, .seg_count = 1, .payload = LEN, SEG(bad.region.at, LEN, bad.region.key + 999))
BAD(write_past_end, 0, "A write past the end of the region", .op = WRITE, .seg_count = 1, .payload = LEN, SEG(bad.region.at + ROOM - LEN + 1, LEN, bad.region.key))
BAD(write_before_start, 0, "A write before the start of the region", .op = WRITE, .seg_count = 1, .payload = LEN, SEG(bad.region.at - 1, LEN, bad.region.key))
BAD(write_wraps, 0, "A write whose range wraps", .op = WRITE, .seg_count = 1, .payload = LEN, SEG(UINT64_MAX - 3, LEN, bad.region.key))
BAD(write_huge, OURS_ONLY, "A write of nearly 2^64 bytes", .op = WRITE, .seg_count = 1, .payload = LEN, .total = UINT64_MAX, SEG(bad.region.at, UINT64_MAX - 40, bad.region.key))
BAD(write_more_than_segments, OURS_ONLY, "A write of more bytes than its segments hold", .op = WRITE, .seg_count = 1, .payload = 2 * LEN, GOOD_SEG)
BAD(write_lengths_overflow, OURS_ONLY, "A write whose segment lengths overflow", .op = WRITE, .seg_count = 2, .payload = LEN, .segs = { { bad.region.at, UINT64_MAX - 8, bad.region.key }, { bad.region.at, 24, bad.region.key } })
BAD(read_key, 0, "A read request with an unknown key", .op = READ_REQ, .seg_count = 1, SEG(bad.region.at, LEN, bad.region.key + 999))
BAD(read_past_end, 0, "A read request past the end of the region", .op = READ_REQ, .seg_count = 1, SEG(bad.region.at + ROOM, 1, bad.region.key))
BAD(read_wraps, OURS_ONLY, "A read request whose range wraps", .op = READ_REQ, .seg_count = 1, SEG(bad.region.at + 8, UINT64_MAX - 3, bad.region.key))
BAD(read_second_segment, 0, "A read request whose second segment is outside", .op = READ_REQ, .seg_count = 2, .segs = { { bad.region.at, LEN, bad.region.key }, { bad.region.at + ROOM, LEN, bad.region.key } })
BAD(rts_index_0, OURS_ONLY, "A ready-to-send with index 0", .op = RTS, .tag = TAG, .msg_size = LEN)
BAD(rts_with_payload, OURS_ONLY, "A ready-to-send with payload", .op = RTS, .op_data = 1, .tag = TAG, .msg_size = LEN, .payload = LEN)
BAD(rts_huge, OURS_ONLY, "A ready-to-send of nearly 2^64 bytes", .op = RTS, .op_data = 1, .tag = TAG, .msg_size = UINT64_MAX)
BAD(cts_unknown, OURS_ONLY, "A clear-to-send that nobody waits for", .op = CTS, .op_data = 3)
BAD(data_unknown, OURS_ONLY, "Rendezvous data that nobody waits for", .op = DATA_OP, .op_data = 3, .payload = LEN)

// The library keeps the message's first part, so that the invalid frame arrives while an operation is in flight.
TEST(wire_tcp, bad_data_length, EP_RDM, FI_MSG | FI_TAGGED | FI_RMA, "Rendezvous data of another length than announced ends the connection and the receive")
{
	for (unsigned longer = 0; longer < 2; longer++) {
		struct bad bad;
		void *ctx;

		if (longer)
			pair_close(t);
		bad = open_bad(t);
		ctx = post_trecv(t, &t->b, new_buf(t, ROOM, 0), TAG, 0);
		send_frame(t, &bad.wire, (struct wire_header){ .op = RTS, .op_data = 1, .tag = TAG, .msg_size = LEN }, NULL);
		expect_frame(t, &bad.wire, (struct wire_header){ .op = CTS, .op_data = 1 });
		send_frame(t, &bad.wire, (struct wire_header){ .op = DATA_OP, .op_data = 1, .payload = longer ? LEN + 1 : LEN - 1 },
			   bad.region.buf.mem);
		failed_somehow(t, t->b.rxcq, ctx);
		wire_ends(t, bad.wire.fd);
		round_trip(t);
	}
}

TEST(wire_tcp, bad_rts_twice, EP_RDM | OURS_ONLY, FI_MSG | FI_TAGGED | FI_RMA, "A second ready-to-send with the index of one that is under way ends the connection")
{
	struct bad bad = open_bad(t);
	struct wire_header rts = { .op = RTS, .op_data = 1, .tag = TAG, .msg_size = LEN };
	void *ctx = post_trecv(t, &t->b, new_buf(t, ROOM, 0), TAG, 0);

	send_frame(t, &bad.wire, rts, NULL);
	expect_frame(t, &bad.wire, (struct wire_header){ .op = CTS, .op_data = 1 });
	send_frame(t, &bad.wire, rts, NULL);
	wire_ends(t, bad.wire.fd);
	failed_somehow(t, t->b.rxcq, ctx);
	round_trip(t);
}

TEST(wire_tcp, bad_random, EP_RDM | OURS_ONLY, FI_MSG | FI_TAGGED | FI_RMA, "Random bytes, and good frames with random changes, end at most their own connection")
{
	uint64_t random = 88172645463325252u;
	struct bad bad = open_bad(t);

	for (unsigned round = 0; round < 300; round++) {
		uint8_t bytes[512];
		struct wire_header h = { .op = round % 8, .tag = 12345, .seg_count = 1, .op_data = round % 3, .payload = LEN };
		struct wire wire = rdm_open(t, &t->b, PORT + 2 + round % 50, false);
		size_t len;

		h.segs[0].addr = bad.region.at;
		h.segs[0].len = 0; // changed or not, it must not write into the region
		h.segs[0].key = bad.region.key + 77;
		len = frame_bytes(bytes, h, false, bad.region.buf.mem);
		if (round % 4 == 0)
			len = sizeof(bytes);
		for (unsigned i = 0; i < (round % 4 == 0 ? len : 1 + round % 3); i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			bytes[round % 4 == 0 ? i : random % 40 % len] = random >> 24;
		}
		if (bytes[1] == MSG && bytes[4] != ACK) // would match the receive of the round trip
			bytes[1] = 8 + round % 8;
		(void)!send(wire.fd, bytes, len, MSG_NOSIGNAL);
		for (unsigned i = 0; i < 5; i++)
			progress(t);
		wire_reset(wire.fd);
		if (round % 20 == 0)
			round_trip(t);
	}
	CHECK(untouched(bad.region.buf, 0));
	round_trip(t);
	still_open(t, &bad.wire, &t->b);
}

TEST(wire_tcp, bad_only_asks, EP_RDM | OURS_ONLY, FI_MSG | FI_TAGGED | FI_RMA, "A peer that asks for more and more and takes no answer is not read any more; what it has asked for comes when it takes it")
{
	// More than the buffers of the kernel and 131072 requests of 40 bytes.
	enum { ASKED = 1000, MOST = 900, QUIET_MS = 300, ANSWER = 16 + LEN };
	struct bad bad = open_bad(t);
	struct wire_header h = { .op = READ_REQ, .seg_count = 1, SEG(bad.region.at, LEN, bad.region.key) };
	struct buf all = new_buf(t, ASKED * 256, 0), answers = new_buf(t, 1 << 20, 0);
	size_t len = frame_bytes(all.mem, h, false, NULL), asked = 0, answered = 0, at = 0;
	uint64_t since = now_ms();

	for (size_t i = 1; i < ASKED; i++)
		memcpy(all.mem + i * len, all.mem, len);
	while (asked < MOST * ASKED * len && now_ms() < since + QUIET_MS) {
		ssize_t n = send(bad.wire.fd, all.mem + at, ASKED * len - at, MSG_NOSIGNAL | MSG_DONTWAIT);

		progress(t);
		if (n <= 0)
			continue;
		asked += (size_t) n, at = (at + (size_t) n) % (ASKED * len), since = now_ms();
	}
	if (asked >= MOST * ASKED * len)
		FAIL("%zu requests are taken of a peer that takes no answer", asked / len);
	round_trip(t);
	// A part of the last request may have been sent.
	for (uint64_t until = now_ms() + 10 * t->limit_ms; answered < asked / len * ANSWER;) {
		ssize_t n = recv(bad.wire.fd, answers.mem, 1 << 20, MSG_DONTWAIT);

		progress(t);
		if (n > 0)
			answered += (size_t) n;
		if (!n || now_ms() > until)
			FAIL("%zu bytes of answers to %zu requests", answered, asked / len);
	}
	CHECK_EQ(answered, asked / len * ANSWER);
	round_trip(t);
}
