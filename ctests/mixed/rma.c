// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Remote memory: written and read by either side, verified by the side that owns the memory.
#include "side.h"

// Offset of the data: nothing is aligned, and the bytes before and after the data must not change.
enum { AT = 3 };

struct region {
	struct buf buf;
	struct fid_mr *mr;
	uint64_t remote_addr, remote_key; // the partner's
};

static void open_region(struct link *link, struct region *region)
{
	size_t len = 0;
	uint64_t ours[2], theirs[2];

	for (unsigned s = 0; s < options.size_count; s++)
		len = options.sizes[s] > len ? options.sizes[s] : len;
	region->buf = new_buf(AT + len + 64);
	OK(fi_mr_reg(link->domain, region->buf.mem, region->buf.len, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
		     0x8000000000000100 + options.server, 0, &region->mr, NULL));
	ours[0] = link->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t) region->buf.mem : 0;
	ours[1] = fi_mr_key(region->mr);
	say_bytes(ours, sizeof(ours));
	CHECK_EQ(hear_bytes(link, theirs, sizeof(theirs)), sizeof(theirs));
	region->remote_addr = theirs[0];
	region->remote_key = theirs[1];
}

static void written(struct region *region, size_t len, uint64_t seed)
{
	for (unsigned i = 0; i < AT; i++)
		CHECK(region->buf.mem[i] == region->buf.mem[region->buf.len]); // poison
	verify_buf((struct buf){ region->buf.mem + AT, region->buf.len - AT }, len, seed);
	poison(region->buf);
}

// Notifies the partner of a finished write. An acknowledged write is in place, so a line is enough. Otherwise a message
// follows it on the same connection.
static void tell(struct link *link, bool acknowledged)
{
	uint8_t byte = 1;
	struct op send;

	if (acknowledged) {
		say("look");
	} else {
		post_send(link, &byte, 1, 0, &send);
		wait_op(link, &send);
	}
	expect(link, "seen");
}

static void look(struct link *link, bool acknowledged, struct region *region, size_t len, uint64_t seed)
{
	uint8_t byte = 0;
	struct op recv;

	if (acknowledged) {
		expect(link, "look");
	} else {
		post_recv(link, &byte, 1, 0, &recv);
		wait_op(link, &recv);
		CHECK_EQ(byte, 1);
	}
	written(region, len, seed);
	say("seen");
}

// Splits one range differently at the two ends.
static struct fi_msg_rma pieces(struct link *link, struct region *region, struct buf buf, struct iovec *iov,
				struct fi_rma_iov *remote, struct op *op)
{
	size_t here = buf.len / 3, there = buf.len / 2;

	iov[0] = (struct iovec){ buf.mem, here };
	iov[1] = (struct iovec){ buf.mem + here, buf.len - here };
	remote[0] = (struct fi_rma_iov){ region->remote_addr + AT, there, region->remote_key };
	remote[1] = (struct fi_rma_iov){ region->remote_addr + AT + there, buf.len - there, region->remote_key };
	return (struct fi_msg_rma){
		.msg_iov = iov, .iov_count = 2, .addr = link->peer, .rma_iov = remote, .rma_iov_count = 2, .context = op,
	};
}

static void initiate(struct link *link, struct region *region, size_t len)
{
	uint64_t at = region->remote_addr + AT, key = region->remote_key;
	uint64_t flags = options.delivery ? FI_DELIVERY_COMPLETE : 0;
	struct buf buf = new_buf(len);
	struct op op = { 0 };
	struct iovec iov[2];
	struct fi_rma_iov remote[2];
	struct fi_msg_rma msg;

	doing("fi_write, %zu bytes", len);
	fill(buf.mem, len, 1);
	POST(link, fi_write(link->ep, buf.mem, len, NULL, link->peer, at, key, &op));
	wait_op(link, &op);
	CHECK_EQ(op.entry.flags & (FI_RMA | FI_WRITE), FI_RMA | FI_WRITE);
	tell(link, options.delivery);

	doing("fi_writemsg, %zu bytes in pieces", len);
	fill(buf.mem, len, 2);
	op = (struct op){ 0 };
	msg = pieces(link, region, buf, iov, remote, &op);
	POST(link, fi_writemsg(link->ep, &msg, flags));
	wait_op(link, &op);
	tell(link, options.delivery);

	doing("fi_writedata, %zu bytes", len);
	fill(buf.mem, len, 3);
	op = (struct op){ 0 };
	POST(link, fi_writedata(link->ep, buf.mem, len, NULL, ~(uint64_t) len, link->peer, at, key, &op));
	wait_op(link, &op);
	expect(link, "seen");

	if (len <= link->info->tx_attr->inject_size) {
		doing("fi_inject_write, %zu bytes", len);
		fill(buf.mem, len, 4);
		POST(link, fi_inject_write(link->ep, buf.mem, len, link->peer, at, key));
		memset(buf.mem, 0, len);
		tell(link, false);
		doing("fi_inject_writedata, %zu bytes", len);
		fill(buf.mem, len, 5);
		POST(link, fi_inject_writedata(link->ep, buf.mem, len, ~(uint64_t) len, link->peer, at, key));
		memset(buf.mem, 0, len);
		expect(link, "seen");
	}

	doing("fi_read, %zu bytes", len);
	expect(link, "filled");
	poison(buf);
	op = (struct op){ 0 };
	POST(link, fi_read(link->ep, buf.mem, len, NULL, link->peer, at, key, &op));
	wait_op(link, &op);
	CHECK_EQ(op.entry.flags & (FI_RMA | FI_READ), FI_RMA | FI_READ);
	verify_buf(buf, len, 6);
	doing("fi_readmsg, %zu bytes in pieces", len);
	poison(buf);
	op = (struct op){ 0 };
	msg = pieces(link, region, buf, iov, remote, &op);
	POST(link, fi_readmsg(link->ep, &msg, 0));
	wait_op(link, &op);
	verify_buf(buf, len, 6);
	say("read");
	expect(link, "ready");
	free_buf(buf);
}

static void with_data(struct link *link, struct region *region, size_t len, uint64_t seed)
{
	struct fi_cq_tagged_entry entry = wait_remote(link);

	CHECK_EQ(entry.flags & (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA), FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	// rxm of 1.17 does not report this flag.
	if (FI_MAJOR(fi_version()) >= 2)
		CHECK(entry.flags & FI_RMA);
	CHECK_EQ(entry.data, ~(uint64_t) len);
	written(region, len, seed);
	say("seen");
}

static void serve(struct link *link, struct region *region, size_t len)
{
	doing("target, %zu bytes", len);
	look(link, options.delivery, region, len, 1);
	look(link, options.delivery, region, len, 2);
	with_data(link, region, len, 3);
	if (len <= link->info->tx_attr->inject_size) {
		look(link, false, region, len, 4);
		with_data(link, region, len, 5);
	}
	fill(region->buf.mem + AT, len, 6);
	say("filled");
	expect(link, "read");
	poison(region->buf);
	say("ready");
}

void case_rma(void)
{
	struct link link = { 0 };
	struct region region;

	open_link(&link);
	open_region(&link, &region);
	for (unsigned turn = 0; turn < 2; turn++)
		for (unsigned s = 0; s < options.size_count; s++) {
			if (turn == options.server)
				initiate(&link, &region, options.sizes[s]);
			else
				serve(&link, &region, options.sizes[s]);
		}
	OK(fi_close(&region.mr->fid));
	free_buf(region.buf);
	close_link(&link);
}
