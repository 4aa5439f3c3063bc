// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_msg(3), fi_tagged(3): message sizes from 0 bytes to many MiB, vectors with any borders, and the limits.
#include "transfer.h"

// Sizes near the powers of two at which a protocol may change.
static const size_t sizes[] = {
	0, 1, 2, 7, 8, 9, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 1024, 4095, 4096, 4097, 8999, 9000, 9001,
	16383, 16384, 16385, 65535, 65536, 65537, 262144, 1048575, 1048576, 4194305,
};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static bool allowed(struct env *t, size_t size)
{
	return size <= t->info->ep_attr->max_msg_size;
}

BOTH(every_size, EP_ANY, 0, "Messages of 0 bytes to several MiB arrive whole, in both directions")
{
	PAIR(t);
	for (unsigned i = 0; i < SIZES && allowed(t, sizes[i]); i++) {
		struct buf out = new_buf(t, sizes[i], i + 1), in = new_buf(t, sizes[i] + 16, 0);
		struct side *from = i % 2 ? &t->a : &t->b, *to = i % 2 ? &t->b : &t->a;
		struct op send = op_of(SEND, tagged, out, from->peer), recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);

		op_post(t, to->ep, &recv);
		op_post(t, from->ep, &send);
		CHECK_EQ(done(t, to->rxcq, recv.ctx, RECEIVED(tagged)).len, sizes[i]);
		CHECK(holds(in, sizes[i], i + 1));
		CHECK(untouched(in, sizes[i]));
		done(t, from->txcq, send.ctx, SENT(tagged));
	}
}

BOTH(every_size_at_once, EP_RELIABLE, 0, "Messages of all sizes posted together arrive whole and in order")
{
	struct op sends[SIZES], recvs[SIZES];
	struct buf in[SIZES];
	unsigned count = 0;

	PAIR(t);
	for (; count < SIZES && allowed(t, sizes[count]); count++) {
		in[count] = new_buf(t, sizes[count], 0);
		recvs[count] = op_of(RECV, tagged, in[count], FI_ADDR_UNSPEC);
		op_post(t, t->b.ep, &recvs[count]);
	}
	for (unsigned i = 0; i < count; i++) {
		sends[i] = op_of(SEND, tagged, new_buf(t, sizes[i], i + 1), t->a.peer);
		op_post(t, t->a.ep, &sends[i]);
	}
	for (unsigned i = 0; i < count; i++) {
		CHECK_EQ(done(t, t->b.rxcq, recvs[i].ctx, RECEIVED(tagged)).len, sizes[i]);
		CHECK(holds(in[i], sizes[i], i + 1));
	}
	for (unsigned i = 0; i < count; i++)
		done(t, t->a.txcq, sends[i].ctx, SENT(tagged));
}

// Splits `buf` into `count` pieces at places that depend on `seed`.
static void cut(struct op *op, struct buf buf, size_t count, unsigned seed)
{
	size_t at = 0;

	op->count = count;
	for (size_t i = 0; i < count; i++) {
		size_t left = buf.len - at, len = i + 1 == count ? left : left * ((seed * 7 + i * 5) % 11) / 16;

		op->iov[i] = (struct iovec){ buf.mem + at, len };
		op->desc[i] = buf.desc;
		at += len;
	}
}

BOTH(gather_scatter, EP_RELIABLE, 0, "A message gathered from one set of buffers is scattered over another")
{
	static const size_t lens[] = { 0, 1, 50, 130, 5000, 70000, 1000000 };
	size_t out_max = t->info->tx_attr->iov_limit, in_max = t->info->rx_attr->iov_limit;

	PAIR(t);
	for (unsigned i = 0; i < 3 * sizeof(lens) / sizeof(lens[0]); i++) {
		size_t len = lens[i / 3];
		struct buf out = new_buf(t, len, i + 1), in = new_buf(t, len, 0);
		struct op send = op_of(i % 2 ? SENDV : SENDMSG, tagged, out, t->a.peer);
		struct op recv = op_of(i % 2 ? RECVMSG : RECVV, tagged, in, FI_ADDR_UNSPEC);

		cut(&send, out, 1 + (i * 3) % out_max, i);
		cut(&recv, in, 1 + (i * 5 + 1) % in_max, i + 3);
		op_post(t, t->b.ep, &recv);
		op_post(t, t->a.ep, &send);
		CHECK_EQ(done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged)).len, len);
		CHECK(holds(in, len, i + 1));
		done(t, t->a.txcq, send.ctx, SENT(tagged));
	}
}

BOTH(gathers_unexpected, EP_RELIABLE, 0, "A message that comes before its receive is scattered like any other")
{
	size_t in_max = t->info->rx_attr->iov_limit;

	PAIR(t);
	for (unsigned i = 0; i < 6; i++) {
		size_t len = (size_t[]){ 1, 64, 3000, 20000, 300000, 2000000 }[i];
		struct buf out = new_buf(t, len, i + 1), in = new_buf(t, len, 0);
		struct op send = op_of(SEND, tagged, out, t->a.peer), recv = op_of(RECVV, tagged, in, FI_ADDR_UNSPEC);

		op_post(t, t->a.ep, &send);
		for (unsigned turns = 0; turns < 20; turns++)
			progress(t);
		cut(&recv, in, in_max, i);
		op_post(t, t->b.ep, &recv);
		CHECK_EQ(done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged)).len, len);
		CHECK(holds(in, len, i + 1));
		done(t, t->a.txcq, send.ctx, SENT(tagged));
	}
}

static void one_too_many(struct env *t, struct side *side, enum form form, bool tagged, size_t limit)
{
	struct buf buf = new_buf(t, 64, 1);
	struct op op = op_of(form, tagged, buf, side->peer);

	if (limit >= MAX_IOV)
		SKIP("iov_limit %zu", limit);
	op.count = limit + 1;
	for (size_t i = 0; i < op.count; i++) {
		op.iov[i] = (struct iovec){ buf.mem + i, 1 };
		op.desc[i] = buf.desc;
	}
	if (form == RECVV || form == RECVMSG)
		op.addr = FI_ADDR_UNSPEC;
	CHECK_RC(op_try(side->ep, &op), -FI_EINVAL);
}

BOTH(iov_over_limit, EP_ANY | OURS_ONLY, 0, "More buffers than iov_limit: -FI_EINVAL, and the endpoint goes on")
{
	PAIR(t);
	round_trip(t);
	one_too_many(t, &t->a, SENDV, tagged, t->info->tx_attr->iov_limit);
	one_too_many(t, &t->a, SENDMSG, tagged, t->info->tx_attr->iov_limit);
	one_too_many(t, &t->b, RECVV, tagged, t->info->rx_attr->iov_limit);
	one_too_many(t, &t->b, RECVMSG, tagged, t->info->rx_attr->iov_limit);
	round_trip(t);
}

BOTH(inject_over_limit, EP_ANY | OURS_ONLY, 0, "More than inject_size bytes injected are refused, and the endpoint goes on")
{
	if (on_device() && !t->info->tx_attr->inject_size)
		SKIP("shm accepts more than it says: fi_mr(3)");
	PAIR(t);
	round_trip(t);
	struct buf out = new_buf(t, t->info->tx_attr->inject_size + 1, 1);
	struct op op = op_of(INJECT, tagged, out, t->a.peer);

	CHECK_RC2(op_try(t->a.ep, &op), -FI_EMSGSIZE, -FI_EINVAL);
	op.form = INJECTDATA;
	CHECK_RC2(op_try(t->a.ep, &op), -FI_EMSGSIZE, -FI_EINVAL);
	op.form = SENDMSG;
	op.flags = FI_INJECT;
	CHECK_RC2(op_try(t->a.ep, &op), -FI_EMSGSIZE, -FI_EINVAL);
	nothing(t->a.txcq);
	round_trip(t);
}

BOTH(over_max_msg_size, EP_ANY | OURS_ONLY, 0, "A message of max_msg_size + 1 bytes is refused with -FI_EMSGSIZE, whatever the call")
{
	static const enum form forms[] = {SEND, SENDV, SENDMSG, SENDDATA};
	size_t max = t->info->ep_attr->max_msg_size;

	if (max >= 1 << 24)
		SKIP("max_msg_size is %zu", max);
	PAIR(t);
	round_trip(t);
	struct buf out = new_buf(t, max + 1, 1);

	for (unsigned i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct op op = op_of(forms[i], tagged, out, t->a.peer);

		if (!has_form(t, forms[i]))
			continue;
		CHECK_RC(op_try(t->a.ep, &op), -FI_EMSGSIZE);
		op.flags = FI_INJECT;
		if (forms[i] == SENDMSG)
			CHECK_RC2(op_try(t->a.ep, &op), -FI_EMSGSIZE, -FI_EINVAL);
	}
	nothing(t->a.txcq);
	round_trip(t);
}
