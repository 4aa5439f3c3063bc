// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_mr(3): regions of several buffers (fi_mr_regv). An access may continue from one buffer into the next, by offsets
//! and by virtual addresses.
#include "transfer.h"

enum { PIECES = 4, SMALL = 33, LARGE = 50000, GAP = 64 };
#define RW (FI_REMOTE_READ | FI_REMOTE_WRITE)

// A region of four buffers in the opposite order of their addresses, with gaps between them.
struct vector {
	uint8_t *mem;
	struct iovec iov[PIECES];
	struct fid_mr *mr;
	size_t len; // of all buffers
	bool virtual_address;
};

static struct vector open_vector(struct env *t, size_t piece)
{
	struct vector v = { .len = PIECES * piece, .virtual_address = t->info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | 1) };

	v.mem = keep_mem(PIECES * (piece + GAP));
	for (int i = 0; i < PIECES; i++)
		v.iov[i] = (struct iovec){ v.mem + (PIECES - 1 - i) * (piece + GAP), piece };
	OK(fi_mr_regv(t->domain, v.iov, PIECES, RW, 0, piece, 0, &v.mr, NULL));
	keep(t, &v.mr->fid);
	return v;
}

// Opens a pair whose peers address memory by offsets or by virtual addresses.
static void open_pair(struct env *t, bool virtual_address)
{
	t->hints->domain_attr->mr_mode = virtual_address ? FI_MR_VIRT_ADDR : 0;
	env_info(t);
	if (t->info->domain_attr->mr_iov_limit < PIECES)
		SKIP("mr_iov_limit is %zu", t->info->domain_attr->mr_iov_limit);
	PAIR(t);
}

static uint8_t *byte_at(const struct vector *v, size_t offset)
{
	size_t piece = v->len / PIECES;

	return (uint8_t *)v->iov[offset / piece].iov_base + offset % piece;
}

static uint64_t address(const struct vector *v, size_t offset)
{
	return v->virtual_address ? (uintptr_t)byte_at(v, offset) : offset;
}

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 7 + i / 251 + 1);
}

// One write or read whose target is `parts` consecutive ranges of the same length in the region.
static void access_vector(struct env *t, const struct vector *v, bool read, size_t from, size_t len, unsigned parts, uint64_t flags)
{
	struct buf local = new_buf(t, len, 0);
	struct iovec iov = { local.mem, len };
	struct fi_rma_iov rma[PIECES];
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &local.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = rma,
		.rma_iov_count = parts, .context = new_ctx(),
	};

	for (unsigned i = 0; i < parts; i++)
		rma[i] = (struct fi_rma_iov){ address(v, from + i * (len / parts)), len / parts, fi_mr_key(v->mr) };
	for (size_t i = 0; i < v->len; i++)
		*byte_at(v, i) = read ? pattern(i) : 0;
	for (size_t i = 0; i < len; i++)
		local.mem[i] = read ? 0 : pattern(from + i);
	if (read)
		POST(t, fi_readmsg(t->a.ep, &msg, FI_COMPLETION | flags));
	else
		POST(t, fi_writemsg(t->a.ep, &msg, FI_COMPLETION | flags));
	done(t, t->a.txcq, msg.context, FI_RMA | (read ? FI_READ : FI_WRITE));
	if (!read)
		ONCE(t, *byte_at(v, from + len - 1) == pattern(from + len - 1));
	for (size_t i = 0; i < v->len; i++) {
		bool inside = i >= from && i < from + len;

		if (read && inside)
			CHECK_EQ(local.mem[i - from], pattern(i));
		if (!read)
			CHECK_EQ(*byte_at(v, i), inside ? pattern(i) : 0);
	}
}

static void check_accesses(struct env *t, size_t piece)
{
	struct vector v = open_vector(t, piece);

	for (int read = 0; read < 2; read++) {
		access_vector(t, &v, read, piece - 1, 2, 1, 0);
		access_vector(t, &v, read, piece / 2, piece, 1, 0);
		access_vector(t, &v, read, piece / 2, piece, 1, read ? 0 : FI_DELIVERY_COMPLETE);
		access_vector(t, &v, read, 0, v.len, 1, 0);
		access_vector(t, &v, read, piece + 1, 2 * piece, 1, 0);
	}
}

TEST(fi_mr, vector_offsets, EP_RELIABLE, FI_RMA, "Writes and reads by offset run from one buffer of a region into the next")
{
	open_pair(t, false);
	check_accesses(t, SMALL);
	check_accesses(t, LARGE);
}

TEST(fi_mr, vector_addresses, EP_RELIABLE, FI_RMA, "Writes and reads by virtual address run from one buffer of a region into the next")
{
	open_pair(t, true);
	check_accesses(t, SMALL);
	check_accesses(t, LARGE);
}

TEST(fi_mr, vector_many_parts, EP_RELIABLE, FI_RMA, "An access of several ranges may mean more pieces of memory than one operation can name")
{
	open_pair(t, false);
	if (t->info->tx_attr->rma_iov_limit < 3)
		SKIP("rma_iov_limit is %zu", t->info->tx_attr->rma_iov_limit);
	for (unsigned piece = SMALL - 1; piece <= LARGE; piece += LARGE - SMALL) {
		struct vector v = open_vector(t, piece);

		for (int read = 0; read < 2; read++) {
			access_vector(t, &v, read, piece / 2, 3 * piece, 3, 0);
			access_vector(t, &v, read, piece / 2, 3 * piece, 3, read ? 0 : FI_DELIVERY_COMPLETE);
		}
	}
}

TEST(fi_mr, vector_end, EP_RELIABLE, FI_RMA, "An access that runs past the last buffer of a region is refused, and touches nothing")
{
	struct fi_cq_err_entry err = { 0 };
	struct buf in;
	struct vector v;

	open_pair(t, false);
	v = open_vector(t, SMALL);
	in = new_buf(t, 2 * SMALL, 0);
	POST(t, fi_read(t->a.ep, in.mem, SMALL + 2, in.desc, t->a.peer, address(&v, v.len - SMALL - 1), fi_mr_key(v.mr), new_ctx()));
	wait_err(t, t->a.txcq, &err);
	CHECK(err.err > 0);
	CHECK(untouched(in, 0));
}

// Adds 1 to as many elements as `len` bytes of the region have, and checks the previous values.
static void add_to_vector(struct env *t, bool virtual_address)
{
	enum { COUNT = PIECES * SMALL / 8 };
	uint64_t *operands = keep_mem(sizeof(uint64_t) * COUNT), *before = keep_mem(sizeof(uint64_t) * COUNT);
	void *ctx = new_ctx();
	struct vector v;
	size_t count;

	open_pair(t, virtual_address);
	OK_OR_SKIP(fi_fetch_atomicvalid(t->a.ep, FI_UINT64, FI_SUM, &count));
	v = open_vector(t, SMALL); // 33 bytes: elements of 8 bytes cross all three borders
	for (size_t i = 0; i < v.len; i++)
		*byte_at(&v, i) = i < COUNT * 8 && i % 8 == 0 ? (uint8_t)(i / 8) : 0;
	for (int i = 0; i < COUNT; i++)
		operands[i] = 1000;
	POST(t, fi_fetch_atomic(t->a.ep, operands, COUNT, NULL, before, NULL, t->a.peer, address(&v, 0), fi_mr_key(v.mr), FI_UINT64, FI_SUM, ctx));
	done(t, t->a.txcq, ctx, FI_ATOMIC | FI_READ);
	for (uint64_t i = 0; i < COUNT; i++) {
		uint64_t now;

		for (size_t k = 0; k < 8; k++)
			((uint8_t *)&now)[k] = *byte_at(&v, 8 * i + k);
		CHECK_EQ(before[i], i);
		CHECK_EQ(now, i + 1000);
	}
	POST(t, fi_atomic(t->a.ep, operands, 1, NULL, t->a.peer, address(&v, 32), fi_mr_key(v.mr), FI_UINT64, FI_SUM, ctx));
	done(t, t->a.txcq, ctx, FI_ATOMIC | FI_WRITE);
	ONCE(t, *byte_at(&v, 32) == ((4 + 2000) & 0xff) && *byte_at(&v, 33) == (4 + 2000) >> 8);
}

TEST(fi_atomic, vector_offsets, EP_RELIABLE, FI_ATOMIC, "Atomic operations by offset change elements in all buffers of a region, also those across a border")
{
	add_to_vector(t, false);
}

TEST(fi_atomic, vector_addresses, EP_RELIABLE, FI_ATOMIC, "Atomic operations by virtual address change elements in all buffers of a region")
{
	add_to_vector(t, true);
}
