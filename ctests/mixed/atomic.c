// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic operations on memory of the partner: all families, on elements of four and eight bytes.
#include "side.h"

enum { ELEMENTS = 16, AT = 2 };

static struct {
	struct fid_mr *mr;
	uint64_t mem[ELEMENTS];
	uint64_t addr, key; // the partner's
} region;

static void open_region(struct link *link)
{
	uint64_t ours[2], theirs[2];

	OK(fi_mr_reg(link->domain, region.mem, sizeof(region.mem), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0x200 + options.server, 0,
		     &region.mr, NULL));
	ours[0] = link->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t) region.mem : 0;
	ours[1] = fi_mr_key(region.mr);
	say_bytes(ours, sizeof(ours));
	CHECK_EQ(hear_bytes(link, theirs, sizeof(theirs)), sizeof(theirs));
	region.addr = theirs[0] + AT * sizeof(uint64_t);
	region.key = theirs[1];
}

// Requests the partner's elements and compares them.
static void check_theirs(struct link *link, const uint64_t *wanted, unsigned count)
{
	uint64_t theirs[ELEMENTS];

	say("show");
	CHECK_EQ(hear_bytes(link, theirs, sizeof(theirs)), sizeof(theirs));
	for (unsigned i = 0; i < count; i++)
		CHECK_EQ(theirs[AT + i], wanted[i]);
	CHECK_EQ(theirs[AT - 1], 0);
	CHECK_EQ(theirs[AT + count], 0);
}

static void initiate(struct link *link)
{
	uint64_t values[4] = { 5, 6, 7, 8 }, results[4], compare[4] = { 10, 0, 14, 0 }, new[4] = { 1, 2, 3, 4 };
	uint64_t one = 1000;
	size_t count;
	struct op op = { 0 };
	fi_addr_t peer = link->peer;

	doing("fi_atomic, 64-bit sums");
	POST(link, fi_atomic(link->ep, values, 4, NULL, peer, region.addr, region.key, FI_UINT64, FI_SUM, &op));
	wait_op(link, &op);
	check_theirs(link, (uint64_t[]){ 5, 6, 7, 8 }, 4);

	doing("fi_fetch_atomic");
	op = (struct op){ 0 };
	POST(link, fi_fetch_atomic(link->ep, values, 4, NULL, results, NULL, peer, region.addr, region.key, FI_UINT64, FI_SUM, &op));
	wait_op(link, &op);
	for (unsigned i = 0; i < 4; i++)
		CHECK_EQ(results[i], 5 + i);
	check_theirs(link, (uint64_t[]){ 10, 12, 14, 16 }, 4);

	doing("fi_compare_atomic");
	op = (struct op){ 0 };
	POST(link, fi_compare_atomic(link->ep, new, 4, NULL, compare, NULL, results, NULL, peer, region.addr, region.key, FI_UINT64,
				     FI_CSWAP, &op));
	wait_op(link, &op);
	for (unsigned i = 0; i < 4; i++)
		CHECK_EQ(results[i], 10 + 2 * i);
	check_theirs(link, (uint64_t[]){ 1, 12, 3, 16 }, 4);

	doing("fi_fetch_atomic that only reads");
	op = (struct op){ 0 };
	POST(link, fi_fetch_atomic(link->ep, NULL, 4, NULL, results, NULL, peer, region.addr, region.key, FI_UINT64, FI_ATOMIC_READ,
				   &op));
	wait_op(link, &op);
	CHECK_EQ(results[0], 1);
	CHECK_EQ(results[3], 16);

	// An injected operation has no completion. Upstream's rxd never sends the operation that follows.
	if (options.plain)
		goto pieces;
	doing("fi_inject_atomic");
	POST(link, fi_inject_atomic(link->ep, &one, 1, peer, region.addr, region.key, FI_UINT64, FI_ATOMIC_WRITE));
	one = 0;
	// The next operation has an answer, and operations of one kind keep their order.
	op = (struct op){ 0 };
	POST(link, fi_fetch_atomic(link->ep, NULL, 1, NULL, results, NULL, peer, region.addr, region.key, FI_UINT64, FI_ATOMIC_READ,
				   &op));
	wait_op(link, &op);
	CHECK_EQ(results[0], 1000);

pieces:
	doing("32-bit maxima in pieces");
	OK(fi_atomicvalid(link->ep, FI_UINT32, FI_MAX, &count));
	{
		uint32_t words[4] = { 900, 1, 20, 2 };
		struct fi_ioc ioc[2] = { { words, 1 }, { words + 1, 3 } };
		struct fi_rma_ioc remote[2] = { { region.addr, 3, region.key }, { region.addr + 3 * 4, 1, region.key } };
		struct fi_msg_atomic msg = {
			.msg_iov = ioc, .iov_count = 2, .addr = peer, .rma_iov = remote, .rma_iov_count = 2,
			.datatype = FI_UINT32, .op = FI_MAX, .context = &op,
		};

		op = (struct op){ 0 };
		POST(link, fi_atomicmsg(link->ep, &msg, 0));
		wait_op(link, &op);
		// The first of the two words of an element is the lower half.
		check_theirs(link, (uint64_t[]){ (options.plain ? 900 : 1000) | 1ull << 32, 20 | 2ull << 32, 3, 16 }, 4);
	}
	say("over");
}

static void serve(struct link *link)
{
	const char *heard;

	doing("the target");
	memset(region.mem, 0, sizeof(region.mem));
	say("zero");
	while (strcmp(heard = hear(link), "over")) {
		if (strcmp(heard, "show"))
			FAIL("the partner says \"%s\"", heard);
		say_bytes(region.mem, sizeof(region.mem));
	}
}

void case_atomic(void)
{
	struct link link = { 0 };

	open_link(&link);
	open_region(&link);
	for (unsigned round = 0; round < options.rounds; round++)
		for (unsigned turn = 0; turn < 2; turn++) {
			if (turn == options.server) {
				expect(&link, "zero");
				initiate(&link);
			} else {
				serve(&link);
			}
			meet(&link, "turn");
		}
	OK(fi_close(&region.mr->fid));
	close_link(&link);
}
