// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_mr(3), fi_close: a closed region is not accessed any more, whatever operations were in flight.
#include "wire.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PORT = 7, BIG = 32 << 20, PART = 4096, LEN = 16384 };

static uint8_t *map(size_t len)
{
	uint8_t *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

// The region is closed, so the library must not change values that are stored in the memory now.
static void check_left_alone(const uint8_t *mem, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (mem[i] != 0x33)
			FAIL("byte %zu of %zu was written after the region was closed", i, len);
}

TEST(fi_mr, closed_under_write, EP_RELIABLE | OURS_ONLY, FI_MSG | FI_RMA, "Closing a region ends a write that is under way: it fails at the initiator, and nothing more is written")
{
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry entry;
	struct buf from;
	struct region region;
	ssize_t rc;

	PAIR(t);
	from = new_buf(t, BIG, 1);
	memset(host_view(from.mem), 0x44, BIG);
	region = new_region(t, &t->b, (struct buf){ .mem = map(BIG), .len = BIG }, FI_REMOTE_WRITE);
	round_trip(t);
	struct iovec iov = { from.mem, BIG };
	struct fi_rma_iov rma = { region.at, BIG, region.key };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &from.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &rma, .rma_iov_count = 1,
		.context = new_ctx(), .data = DATA,
	};
	// The write has data for the queue, so the target has to take part.
	POST(t, fi_writemsg(t->a.ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION | FI_REMOTE_CQ_DATA));
	ONCE(t, *(volatile uint8_t *)region.buf.mem);
	shut(t, &region.mr->fid);
	if (region.buf.mem[BIG - 1])
		SKIP("it was written at once");
	memset(host_view(region.buf.mem), 0x33, BIG);
	ONCE(t, (rc = fi_cq_read(t->a.txcq, &entry, 1)) != -FI_EAGAIN);
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK_RC(fi_cq_readerr(t->a.txcq, &err, 0), 1);
	CHECK(err.op_context == msg.context);
	turn(t);
	check_left_alone(region.buf.mem, BIG);
}

static struct wire open_raw(struct env *t, struct region *region, size_t len, uint64_t access)
{
	struct wire wire;

	only_tcp(t);
	PAIR(t);
	*region = new_region(t, &t->b, (struct buf){ .mem = map(len), .len = len }, access);
	round_trip(t);
	wire = rdm_open_as(t, &t->b, PORT, false, EXTENDED);
	still_open(t, &wire, &t->b);
	return wire;
}

// Reads until the end of the connection; no byte may be 0x33.
static void drained(struct env *t, int fd)
{
	static uint8_t bytes[65536];
	ssize_t got = -1;

	for (uint64_t limit = now_ms() + t->limit_ms; now_ms() < limit; progress(t)) {
		got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
		if (!got || (got < 0 && errno != EAGAIN))
			return;
		for (ssize_t i = 0; i < got; i++)
			if (bytes[i] == 0x33)
				FAIL("what was stored after the region was closed");
	}
	FAIL("the connection goes on");
}

TEST(wire_tcp, closed_region_write, EP_RDM | OURS_ONLY, FI_MSG | FI_RMA, "The rest of a write to a region that was closed meanwhile goes nowhere, and the connection ends")
{
	static uint8_t half[LEN / 2];
	struct region region;
	struct wire wire = open_raw(t, &region, LEN, FI_REMOTE_WRITE);
	uint8_t bytes[256];
	struct wire_header h = { .op = WRITE, .payload = LEN, .seg_count = 1, .segs = { { region.at, LEN, region.key } } };

	memset(half, 0x44, sizeof(half));
	wire_write(t, wire.fd, bytes, frame_bytes(bytes, h, false, NULL));
	wire_write(t, wire.fd, half, sizeof(half));
	ONCE(t, region.buf.mem[LEN / 2 - 1] == 0x44);
	shut(t, &region.mr->fid);
	memset(host_view(region.buf.mem), 0x33, LEN);
	(void)!send(wire.fd, half, sizeof(half), MSG_NOSIGNAL);
	drained(t, wire.fd);
	check_left_alone(region.buf.mem, LEN);
	round_trip(t);
}

TEST(wire_tcp, closed_region_read, EP_RDM | OURS_ONLY, FI_MSG | FI_RMA, "Answers that wait for a slow reader do not carry what is stored in a region after it was closed")
{
	struct region region;
	struct wire wire = open_raw(t, &region, BIG, FI_REMOTE_READ);
	uint8_t bytes[256];
	// Two regions: the closed one is not the last.
	struct region other = new_region(t, &t->b, new_buf(t, PART, 1), FI_REMOTE_READ);
	struct wire_header h = {
		.op = READ_REQ, .seg_count = 2,
		.segs = { { region.at, BIG, region.key }, { other.at, PART, other.key } },
	};

	memset(host_view(other.buf.mem), 0x44, PART);
	for (unsigned i = 0; i < 2; i++)
		wire_write(t, wire.fd, bytes, frame_bytes(bytes, h, false, NULL));
	turn(t);
	shut(t, &region.mr->fid);
	memset(host_view(region.buf.mem), 0x33, BIG);
	drained(t, wire.fd);
	round_trip(t);
}

TEST(wire_tcp, closed_region_atomic, EP_RDM | OURS_ONLY, FI_MSG | FI_ATOMIC, "An atomic operation whose operands are still coming does not touch a region that was closed and unmapped")
{
	static uint8_t operands[LEN];
	struct region region;
	struct wire wire = open_raw(t, &region, LEN, FI_REMOTE_READ | FI_REMOTE_WRITE);
	uint8_t bytes[256];
	struct wire_header h = {
		.op = ATOMIC, .op_data = FI_SUM, .datatype = FI_UINT64, .payload = LEN, .seg_count = 1,
		.segs = { { region.at, LEN, region.key } },
	};

	wire_write(t, wire.fd, bytes, frame_bytes(bytes, h, false, NULL));
	wire_write(t, wire.fd, operands, LEN / 2);
	turn(t);
	shut(t, &region.mr->fid);
	CHECK(!munmap(region.buf.mem, LEN));
	(void)!send(wire.fd, operands, LEN / 2, MSG_NOSIGNAL);
	drained(t, wire.fd);
	round_trip(t);
}
