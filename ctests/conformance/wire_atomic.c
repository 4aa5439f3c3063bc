// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! docs/wire/tcp.md, "Atomic operations": requests and answers byte by byte, invalid requests, and peers that do not
//! know the extensions or have the other byte order.
#include "wire.h"

#include <unistd.h>

enum { PORT = 7, LEN = 16, ROOM = 4096, EXTENSIONS = 2, MOST = 16384 };

// A connection to the RDM endpoint `side` from a peer that announces the extensions.
static struct wire open_extended(struct env *t, struct side *side, uint16_t port)
{
	struct wire wire = { .fd = wire_connect(t, side->name) };
	uint8_t bytes[40], private[8];

	rdm_bytes(bytes, REQUEST, false, 1, port, 4242);
	bytes[33] = EXTENSIONS;
	wire_write(t, wire.fd, bytes, 40);
	read_cm(t, wire.fd, RESPONSE, private, 8);
	CHECK_EQ(private[1], EXTENSIONS);
	return wire;
}

struct target {
	struct wire wire;
	struct region region; // ROOM bytes that may be read and written
};

static struct target open_target(struct env *t)
{
	struct target target;

	only_tcp(t);
	PAIR(t);
	target.region = new_region(t, &t->b, new_buf(t, ROOM, 0), FI_REMOTE_READ | FI_REMOTE_WRITE);
	round_trip(t);
	target.wire = open_extended(t, &t->b, PORT);
	still_open(t, &target.wire, &t->b);
	return target;
}

#define SEG(AT, LENGTH, KEY) .seg_count = 1, .segs = { { (AT), (LENGTH), (KEY) } }
#define GOOD_SEG SEG(target.region.at, LEN, target.region.key)

// ---- Valid requests

static void expect_values(struct env *t, struct wire *wire, const uint64_t *want, size_t count)
{
	uint64_t got[8];

	expect_frame(t, wire, (struct wire_header){ .op = READ_RSP, .payload = 8 * count });
	wire_read(t, wire->fd, got, 8 * count);
	CHECK(!memcmp(got, want, 8 * count));
}

TEST(wire_tcp, atomic_requests, EP_RDM | OURS_ONLY, FI_MSG | FI_ATOMIC, "Atomic requests are carried out in order and answered by an acknowledgement or a read response")
{
	struct target target = open_target(t);
	uint64_t *mem = (uint64_t *)target.region.buf.mem, operand[4] = { 5, 7, 5, 9 };

	send_frame(t, &target.wire, (struct wire_header){ .op = ATOMIC, .op_data = FI_SUM, .datatype = FI_UINT64, .flags = WANTS_ACK, .payload = LEN, GOOD_SEG }, operand);
	expect_frame(t, &target.wire, (struct wire_header){ .op = MSG, .op_data = ACK });
	CHECK(mem[0] == 5 && mem[1] == 7);
	send_frame(t, &target.wire, (struct wire_header){ .op = ATOMIC_FETCH, .op_data = FI_DIFF, .datatype = FI_UINT64, .payload = LEN, GOOD_SEG }, operand + 1);
	expect_values(t, &target.wire, (uint64_t[]){ 5, 7 }, 2);
	CHECK(mem[0] == (uint64_t)-2 && mem[1] == 2);
	send_frame(t, &target.wire, (struct wire_header){ .op = ATOMIC_FETCH, .op_data = FI_ATOMIC_READ, .datatype = FI_UINT64, GOOD_SEG }, NULL);
	expect_values(t, &target.wire, (uint64_t[]){ -2, 2 }, 2);
	// Operands, then values to compare; two ranges, the second first in memory; byte by byte.
	struct wire_header h = {
		.op = ATOMIC_COMPARE, .op_data = FI_CSWAP, .datatype = FI_UINT64, .payload = 32, .seg_count = 2,
		.segs = { { target.region.at + 8, 8, target.region.key }, { target.region.at, 8, target.region.key } },
	};
	uint8_t bytes[256];
	operand[2] = 2, operand[3] = 99;
	wire_slowly(t, target.wire.fd, bytes, frame_bytes(bytes, h, false, operand));
	expect_values(t, &target.wire, (uint64_t[]){ 2, -2 }, 2);
	CHECK(mem[1] == 5 && mem[0] == (uint64_t)-2);
	still_open(t, &target.wire, &t->b);
	CHECK(untouched(target.region.buf, 16));
}

TEST(wire_tcp, atomic_with_data, EP_RDM | OURS_ONLY, FI_MSG | FI_ATOMIC, "CQ data of an atomic request is reported behind the change")
{
	struct target target = open_target(t);

	send_frame(t, &target.wire, (struct wire_header){ .op = ATOMIC, .op_data = FI_ATOMIC_WRITE, .datatype = FI_INT8, .flags = HAS_DATA, .data = DATA, .payload = LEN, GOOD_SEG }, "0123456789abcdef");
	CHECK_EQ(done(t, t->b.rxcq, NULL, FI_ATOMIC | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA).data, DATA);
	CHECK(!memcmp(target.region.buf.mem, "0123456789abcdef", 16));
}

TEST(wire_tcp, atomic_cut, EP_RDM | OURS_ONLY, FI_MSG | FI_ATOMIC, "A peer that goes away in the middle of its operands has changed nothing")
{
	struct target target = open_target(t);
	uint8_t bytes[256];
	size_t len = frame_bytes(bytes, (struct wire_header){ .op = ATOMIC, .op_data = FI_ATOMIC_WRITE, .datatype = FI_INT8, .payload = LEN, GOOD_SEG }, false, "0123456789abcdef");

	wire_write(t, target.wire.fd, bytes, len - 1);
	turn(t);
	wire_reset(target.wire.fd);
	round_trip(t);
	CHECK(untouched(target.region.buf, 0));
}

// ---- Invalid requests

static void ends(struct env *t, struct target *target, struct wire_header h)
{
	static const uint8_t more[2 * MOST + 64];
	uint8_t bytes[256];
	size_t len = frame_bytes(bytes, h, false, NULL);

	wire_write(t, target->wire.fd, bytes, len);
	// Not wire_write, because the library may close the connection meanwhile, which this test checks.
	(void)!send(target->wire.fd, more, h.payload < sizeof(more) ? h.payload : sizeof(more), MSG_NOSIGNAL);
	wire_ends(t, target->wire.fd);
	CHECK(untouched(target->region.buf, 0));
	nothing(t->b.rxcq);
	round_trip(t);
	struct wire next = open_extended(t, &t->b, PORT + 1);
	still_open(t, &next, &t->b);
}

#define BAD(RULE, TEXT, ...)                                                                                           \
	TEST(wire_tcp, atomic_bad_##RULE, EP_RDM | OURS_ONLY, FI_MSG | FI_ATOMIC, TEXT " ends the connection")          \
	{                                                                                                              \
		struct target target = open_target(t);                                                                 \
		memset(host_view(target.region.buf.mem), 0, ROOM);                                                                \
		struct wire_header h = { __VA_ARGS__ };                                                                \
		ends(t, &target, h);                                                                                   \
	}
#define SUM(OP) .op = OP, .op_data = FI_SUM, .datatype = FI_UINT64

BAD(op_19, "Op 19", .op = 19)
BAD(no_segment, "A request with no segment", SUM(ATOMIC), .payload = LEN)
BAD(five_segments, "A request with five segments", SUM(ATOMIC), .payload = LEN, .seg_count = 5, .segs = { { target.region.at, LEN, target.region.key } })
BAD(operation, "An operation that there is not", .op = ATOMIC, .op_data = 20, .datatype = FI_UINT64, .payload = LEN, GOOD_SEG)
BAD(operation_255, "An operation of 255", .op = ATOMIC_FETCH, .op_data = 255, .datatype = FI_UINT64, .payload = LEN, GOOD_SEG)
BAD(type, "A type that there is not", .op = ATOMIC, .op_data = FI_SUM, .datatype = 20, .payload = LEN, GOOD_SEG)
BAD(type_31, "A type of 31", .op = ATOMIC_FETCH, .op_data = FI_ATOMIC_READ, .datatype = 31, GOOD_SEG)
BAD(bits_of_float, "Bits of a floating point number", .op = ATOMIC, .op_data = FI_BOR, .datatype = FI_DOUBLE, .payload = LEN, GOOD_SEG)
BAD(swap_without_compare, "A compare-and-swap that has nothing to compare", .op = ATOMIC, .op_data = FI_CSWAP, .datatype = FI_UINT64, .payload = LEN, GOOD_SEG)
BAD(sum_with_compare, "A sum that compares", SUM(ATOMIC_COMPARE), .payload = 2 * LEN, GOOD_SEG)
BAD(read_without_result, "A read without result", .op = ATOMIC, .op_data = FI_ATOMIC_READ, .datatype = FI_UINT64, GOOD_SEG)
BAD(read_with_operands, "A read with operands", .op = ATOMIC_FETCH, .op_data = FI_ATOMIC_READ, .datatype = FI_UINT64, .payload = LEN, GOOD_SEG)
BAD(half_element, "A segment of one and a half elements", SUM(ATOMIC), .payload = 12, SEG(target.region.at, 12, target.region.key))
BAD(nothing, "A request for no element", SUM(ATOMIC), SEG(target.region.at, 0, target.region.key))
BAD(fewer_operands, "Fewer operands than elements", SUM(ATOMIC), .payload = 8, GOOD_SEG)
BAD(more_operands, "More operands than elements", SUM(ATOMIC), .payload = LEN + 8, GOOD_SEG)
BAD(compare_half, "Values to compare that are missing", .op = ATOMIC_COMPARE, .op_data = FI_CSWAP, .datatype = FI_UINT64, .payload = LEN, GOOD_SEG)
BAD(too_large, "A request of more than the most", SUM(ATOMIC), .payload = MOST + 8, SEG(target.region.at, MOST + 8, target.region.key))
BAD(overflow, "Segments whose lengths overflow", SUM(ATOMIC), .payload = LEN, .seg_count = 2, .segs = { { target.region.at, UINT64_MAX - 7, target.region.key }, { target.region.at, 16, target.region.key } })
BAD(key, "An unknown key", SUM(ATOMIC), .payload = LEN, SEG(target.region.at, LEN, target.region.key + 999))
BAD(past_end, "A segment past the end of the region", SUM(ATOMIC_FETCH), .payload = LEN, SEG(target.region.at + ROOM - 8, LEN, target.region.key))
BAD(before_start, "A segment before the start of the region", SUM(ATOMIC), .payload = LEN, SEG(target.region.at - 8, LEN, target.region.key))
BAD(wraps, "A segment that wraps", SUM(ATOMIC), .payload = LEN, SEG(UINT64_MAX - 7, LEN, target.region.key))
BAD(second_segment, "A second segment outside the region", SUM(ATOMIC), .payload = LEN, .seg_count = 2, .segs = { { target.region.at, 8, target.region.key }, { target.region.at + ROOM, 8, target.region.key } })

static void needs(struct env *t, uint64_t access, struct wire_header h)
{
	struct target target = open_target(t);
	struct region other = new_region(t, &t->b, new_buf(t, ROOM, 0), access);

	h.seg_count = 1;
	h.segs[0].addr = other.at, h.segs[0].len = LEN, h.segs[0].key = other.key;
	ends(t, &target, h);
	CHECK(untouched(other.buf, 0));
}

TEST(wire_tcp, atomic_needs_write, EP_RDM | OURS_ONLY, FI_MSG | FI_ATOMIC, "A change of a region that may only be read ends the connection")
{
	needs(t, FI_REMOTE_READ, (struct wire_header){ SUM(ATOMIC), .payload = LEN });
}

TEST(wire_tcp, atomic_needs_both, EP_RDM | OURS_ONLY, FI_MSG | FI_ATOMIC, "So does a fetch with a change")
{
	needs(t, FI_REMOTE_READ, (struct wire_header){ SUM(ATOMIC_FETCH), .payload = LEN });
}

TEST(wire_tcp, atomic_needs_read, EP_RDM | OURS_ONLY, FI_MSG | FI_ATOMIC, "A read of a region that may only be written ends the connection, and so does a fetch")
{
	needs(t, FI_REMOTE_WRITE, (struct wire_header){ .op = ATOMIC_FETCH, .op_data = FI_ATOMIC_READ, .datatype = FI_UINT64 });
}

TEST(wire_tcp, atomic_without_capability, EP_RDM | OURS_ONLY, FI_MSG | FI_RMA, "An atomic request to an endpoint without FI_ATOMIC ends the connection")
{
	struct target target = open_target(t);

	ends(t, &target, (struct wire_header){ SUM(ATOMIC), .payload = LEN, GOOD_SEG });
}

TEST(wire_tcp, atomic_not_announced, EP_RDM | OURS_ONLY, FI_MSG | FI_ATOMIC, "So does one of a peer that has not announced the extensions")
{
	struct target target = open_target(t);

	target.wire = rdm_open(t, &t->b, PORT + 2, false);
	still_open(t, &target.wire, &t->b);
	ends(t, &target, (struct wire_header){ SUM(ATOMIC), .payload = LEN, GOOD_SEG });
}

// Half of the headers have changed bytes; the requests try to change memory without permission.
TEST(wire_tcp, atomic_bad_random, EP_RDM | OURS_ONLY, FI_MSG | FI_ATOMIC, "Atomic requests with random changes end at most their own connection, and change nothing they may not")
{
	struct target target = open_target(t);
	struct buf secret = new_buf(t, ROOM, 0);
	struct region region = new_region(t, &t->b, secret, FI_SEND);
	uint64_t random = 88172645463325252u;

	for (unsigned round = 0; round < 200; round++) {
		struct wire_header h = { .op = ATOMIC + round % 3, .op_data = round % 20, .datatype = round / 7 % 20, .payload = LEN * (1 + (round % 3 == 2)),
					 SEG(region.at, LEN, region.key) };
		struct wire wire = open_extended(t, &t->b, PORT + 3 + round % 50);
		uint8_t bytes[256], operands[64] = { 1, 2, 3 };
		size_t len = frame_bytes(bytes, h, false, operands);

		for (unsigned i = 0; i < round % 4; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			bytes[2 + random % 30 % (len - 2)] = random >> 24;
		}
		(void)!send(wire.fd, bytes, len, MSG_NOSIGNAL);
		for (unsigned i = 0; i < 5; i++)
			progress(t);
		wire_reset(wire.fd);
		if (round % 20 == 0)
			round_trip(t);
	}
	CHECK(untouched(secret, 0) && untouched(target.region.buf, 0));
	round_trip(t);
	still_open(t, &target.wire, &t->b);
}

// ---- Peers without support

static ssize_t post(struct env *t, fi_addr_t peer, bool fetch, void *ctx)
{
	static uint64_t operand = 1, result;

	return fetch ? fi_fetch_atomic(t->b.ep, &operand, 1, NULL, &result, NULL, peer, 0, 1, FI_UINT64, FI_SUM, ctx) :
		       fi_atomic(t->b.ep, &operand, 1, NULL, peer, 0, 1, FI_UINT64, FI_SUM, ctx);
}

// Connects to the peer while b's first atomic waits; the peer answers.
static struct dial dial_atomic(struct env *t, bool fetch, uint8_t features, bool big, void *ctx)
{
	struct dial dial = { .at = wire_listen(), .wire.big = big };
	uint8_t bytes[40], private[8];

	only_tcp(t);
	PAIR(t);
	CHECK_EQ(fi_av_insert(t->b.av, &dial.at.addr, 1, &dial.peer, 0, NULL), 1);
	OK(post(t, dial.peer, fetch, ctx));
	dial.wire.fd = wire_accept(t, &dial.at);
	read_cm(t, dial.wire.fd, REQUEST, private, 8);
	CHECK_EQ(private[1] & ~(SHARES | CLOSES), EXTENSIONS);
	rdm_bytes(bytes, RESPONSE, big, 0x81, private[2] << 8 | private[3], 99);
	bytes[33] = features;
	wire_write(t, dial.wire.fd, bytes, 40);
	return dial;
}

static void gets_none(struct env *t, uint8_t features, bool big)
{
	for (unsigned fetch = 0; fetch < 2; fetch++) {
		struct fi_cq_err_entry err = { 0 };
		void *ctx = new_ctx();
		struct dial dial = dial_atomic(t, fetch, features, big, ctx);

		err = failed(t, t->b.txcq, ctx, FI_EOPNOTSUPP);
		CHECK_EQ(kind_flags(err.flags) & (FI_ATOMIC | FI_READ | FI_WRITE), FI_ATOMIC | (fetch ? FI_READ : FI_WRITE));
		wire_silent(t, dial.wire.fd);
		CHECK_RC(post(t, dial.peer, fetch, ctx), -FI_EOPNOTSUPP);
		CHECK_RC(post(t, dial.peer, !fetch, ctx), -FI_EOPNOTSUPP);
		nothing(t->b.txcq);
		still_open(t, &dial.wire, &t->b);
		pair_close(t);
	}
}

TEST(wire_tcp, atomic_to_old_peer, EP_RDM | OURS_ONLY, FI_MSG | FI_ATOMIC, "A peer that does not know the extensions gets no atomic request: an error entry, and -FI_EOPNOTSUPP once that is known")
{
	gets_none(t, 0, false);
}

TEST(wire_tcp, atomic_to_other_order, EP_RDM | OURS_ONLY, FI_MSG | FI_ATOMIC, "Neither does one of the other byte order")
{
	gets_none(t, EXTENSIONS, true);
}

TEST(wire_tcp, atomic_after_connecting, EP_RDM | OURS_ONLY, FI_MSG | FI_ATOMIC, "An operation that waited for the connection goes out, and completes with its answer")
{
	void *ctx = new_ctx();
	struct dial dial = dial_atomic(t, true, EXTENSIONS, false, ctx);
	uint64_t got, value = 41;

	expect_frame(t, &dial.wire, (struct wire_header){ SUM(ATOMIC_FETCH), .payload = 8, SEG(0, 8, 1) });
	wire_read(t, dial.wire.fd, &got, 8);
	CHECK_EQ(got, 1);
	nothing(t->b.txcq);
	send_frame(t, &dial.wire, (struct wire_header){ .op = READ_RSP, .payload = 8 }, &value);
	done(t, t->b.txcq, ctx, FI_ATOMIC | FI_READ);
	still_open(t, &dial.wire, &t->b);
}

TEST(wire_tcp, atomic_wrong_answer, EP_RDM | OURS_ONLY, FI_MSG | FI_ATOMIC, "An answer of another length ends the connection and the operation")
{
	void *ctx = new_ctx();
	struct dial dial = dial_atomic(t, true, EXTENSIONS, false, ctx);
	uint64_t got, value[2] = { 0 };

	expect_frame(t, &dial.wire, (struct wire_header){ SUM(ATOMIC_FETCH), .payload = 8, SEG(0, 8, 1) });
	wire_read(t, dial.wire.fd, &got, 8);
	send_frame(t, &dial.wire, (struct wire_header){ .op = READ_RSP, .payload = 16 }, value);
	failed_somehow(t, t->b.txcq, ctx);
	wire_ends(t, dial.wire.fd);
	round_trip(t);
}
