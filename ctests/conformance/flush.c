// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_tx_flush, fi_recv_flush and fi_trecv_flush of the alpha of release 2.8: they start what FI_MORE has deferred.
//! Headers of older releases do not have these calls.
#include "transfer.h"

#ifdef FI_WR

#include <sys/ioctl.h>

enum { LEN = 64 };

TEST(fi_endpoint, tx_flush_without_work, EP_ANY, FI_MSG, "fi_tx_flush succeeds if nothing is deferred")
{
	PAIR(t);
	CHECK_RC(fi_tx_flush(t->a.ep, 0), 0);
	CHECK_RC(fi_tx_flush(t->a.ep, 0), 0);
}

TEST(fi_endpoint, tx_flush_flags, EP_ANY, FI_MSG, "The flags of fi_tx_flush are reserved")
{
	PAIR(t);
	CHECK_RC(fi_tx_flush(t->a.ep, FI_MORE), -FI_EINVAL);
	CHECK_RC(fi_tx_flush(t->a.ep, 1), -FI_EINVAL);
}

TEST(fi_endpoint, flush_before_enable, EP_ANY, FI_MSG, "An endpoint that is not enabled is not flushed")
{
	struct side side = { 0 };

	open_domain(t);
	open_bound_ep(t, &side);
	CHECK_RC(fi_tx_flush(side.ep, 0), -FI_EOPBADSTATE);
	CHECK_RC(fi_recv_flush(side.ep, 0), -FI_EOPBADSTATE);
}

BOTH(tx_flush_after_more, EP_ANY, 0, "Messages posted with FI_MORE arrive after fi_tx_flush, in order")
{
	enum { COUNT = 20 };
	struct op sends[COUNT], recvs[COUNT];
	struct buf in[COUNT];

	PAIR(t);
	for (unsigned i = 0; i < COUNT; i++) {
		in[i] = new_buf(t, LEN, 0);
		recvs[i] = op_of(RECV, tagged, in[i], FI_ADDR_UNSPEC);
		op_post(t, t->b.ep, &recvs[i]);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		sends[i] = op_of(SENDMSG, tagged, new_buf(t, LEN, i + 1), t->a.peer);
		sends[i].flags = FI_MORE;
		op_post(t, t->a.ep, &sends[i]);
	}
	CHECK_RC(fi_tx_flush(t->a.ep, 0), 0);
	for (unsigned i = 0; i < COUNT; i++) {
		done(t, t->b.rxcq, recvs[i].ctx, RECEIVED(tagged));
		CHECK(holds(in[i], LEN, i + 1));
		done(t, t->a.txcq, sends[i].ctx, SENT(tagged));
	}
}

// Bytes that have come to a connected endpoint and were not read.
static int unread(struct side *side)
{
	int fd = -1, bytes = 0;

	OK(fi_control(&side->ep->fid, FI_GET_FD, &fd));
	CHECK(!ioctl(fd, FIONREAD, &bytes));
	return bytes;
}

TEST(fi_endpoint, tx_flush_is_at_once, EP_MSG, FI_MSG, "What FI_MORE has deferred is with the kernel when fi_tx_flush returns")
{
	// The kernel holds more packets back until the first ones are acknowledged.
	enum { ROWS = 6 };
	struct buf out;
	int before;

	if (!is_ours())
		SKIP("what a provider has a socket for is its own");
	t->hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	t->hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	env_info(t);
	PAIR(t);
	out = new_buf(t, LEN, 1);
	round_trip(t);
	before = unread(&t->b);
	// A thread may start deferred messages, too; it does not come first every time.
	for (int i = 1; i <= ROWS; i++) {
		struct op op = op_of(SENDMSG, false, out, t->a.peer);

		op.flags = FI_MORE;
		OK(op_try(t->a.ep, &op));
		CHECK_RC(fi_tx_flush(t->a.ep, 0), 0);
		if (unread(&t->b) < before + i * LEN)
			FAIL("%d bytes have arrived after %d messages", unread(&t->b) - before, i);
	}
}

BOTH(recv_flush, EP_ANY, 0, "Receives posted with FI_MORE take messages after fi_recv_flush or fi_trecv_flush, whose flags are reserved")
{
	PAIR(t);
	struct buf in = new_buf(t, LEN, 0);
	struct op recv = op_of(RECVMSG, tagged, in, FI_ADDR_UNSPEC), send = op_of(SEND, tagged, new_buf(t, LEN, 2), t->a.peer);

	recv.flags = FI_MORE;
	op_post(t, t->b.ep, &recv);
	if (tagged) {
		CHECK_RC(fi_trecv_flush(t->b.ep, 1), -FI_EINVAL);
		CHECK_RC(fi_trecv_flush(t->b.ep, 0), 0);
	} else {
		CHECK_RC(fi_recv_flush(t->b.ep, 1), -FI_EINVAL);
		CHECK_RC(fi_recv_flush(t->b.ep, 0), 0);
	}
	op_post(t, t->a.ep, &send);
	done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	CHECK(holds(in, LEN, 2));
}

TEST(fi_endpoint, flush_of_contexts, EP_AV, FI_MSG | FI_NAMED_RX_CTX, "Contexts of a scalable endpoint are flushed: each has the calls of its side")
{
	struct fid_ep *sep, *tx, *rx;
	struct fid_cq *cq;
	struct fid_av *av;

	t->hints->ep_attr->tx_ctx_cnt = t->hints->ep_attr->rx_ctx_cnt = 1;
	env_info(t);
	open_domain(t);
	av = open_av(t, FI_AV_TABLE);
	OK_OR_SKIP(fi_scalable_ep(t->domain, t->info, &sep, NULL));
	keep(t, &sep->fid);
	OK(fi_scalable_ep_bind(sep, &av->fid, 0));
	OK(fi_enable(sep));
	cq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	OK(fi_tx_context(sep, 0, NULL, &tx, NULL));
	keep(t, &tx->fid);
	OK(fi_rx_context(sep, 0, NULL, &rx, NULL));
	keep(t, &rx->fid);
	CHECK_RC(fi_tx_flush(tx, 0), -FI_EOPBADSTATE);
	CHECK_RC(fi_recv_flush(rx, 0), -FI_EOPBADSTATE);
	OK(fi_ep_bind(tx, &cq->fid, FI_TRANSMIT));
	OK(fi_ep_bind(rx, &cq->fid, FI_RECV));
	OK(fi_enable(tx));
	OK(fi_enable(rx));
	CHECK_RC(fi_tx_flush(tx, 0), 0);
	CHECK_RC(fi_recv_flush(rx, 0), 0);
	CHECK_RC(fi_tx_flush(rx, 0), -FI_ENOSYS);
	CHECK_RC(fi_recv_flush(tx, 0), -FI_ENOSYS);
}

TEST(fi_endpoint, flush_of_srx, EP_RELIABLE, FI_MSG, "A shared receive context is flushed; the endpoint that is bound to it has no receives to flush")
{
	struct fid_ep *srx;

	t->hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	env_info(t);
	open_domain(t);
	OK_OR_SKIP(fi_srx_context(t->domain, t->info->rx_attr, &srx, NULL));
	keep(t, &srx->fid);
	PAIR(t, .srx = srx);
	CHECK_RC(fi_recv_flush(srx, 0), 0);
	CHECK_RC(fi_recv_flush(srx, 1), -FI_EINVAL);
	CHECK_RC(fi_recv_flush(t->a.ep, 0), -FI_ENOSYS);
	CHECK_RC(fi_tx_flush(t->a.ep, 0), 0);
}

#endif
