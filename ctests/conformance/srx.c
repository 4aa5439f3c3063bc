// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_endpoint(3), shared contexts: receive buffers that several endpoints share.
#include "harness.h"

enum { LEN = 32 };

static struct fi_context2 rx[16], tx[16];
static char in[16][LEN], out[16][LEN];

static struct fid_ep *open_srx(struct env *t)
{
	struct fid_ep *srx = NULL;
	int rc;

	t->hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	env_info(t);
	open_domain(t);
	rc = fi_srx_context(t->domain, t->info->rx_attr, &srx, NULL);
	if (rc == -FI_ENOSYS)
		SKIP("not offered");
	OK(rc);
	keep(t, &srx->fid);
	return srx;
}

static void post_receives(struct env *t, struct fid_ep *srx, unsigned first, unsigned count)
{
	for (unsigned i = first; i < first + count; i++)
		POST(t, fi_recv(srx, in[i], LEN, reg_desc(t, in[i], LEN, FI_RECV), FI_ADDR_UNSPEC, &rx[i]));
}

static void send_one(struct env *t, struct side *from, unsigned i)
{
	fill(out[i], LEN, i);
	POST(t, fi_send(from->ep, out[i], LEN, reg_desc(t, out[i], LEN, FI_SEND), from->peer, &tx[i]));
}

TEST(fi_endpoint, srx_serves_every_endpoint, EP_RELIABLE, FI_MSG, "Buffers of a shared context take the messages of each endpoint bound to it, which report to their own queues")
{
	struct fid_ep *srx = open_srx(t);
	struct fi_cq_tagged_entry entry;

	PAIR(t, .srx = srx);
	post_receives(t, srx, 0, 2);
	send_one(t, &t->a, 0);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &rx[0]);
	CHECK(filled(in[0], LEN, 0));
	send_one(t, &t->b, 1);
	wait_comp(t, t->a.rxcq, &entry);
	CHECK(entry.op_context == &rx[1]);
	CHECK(filled(in[1], LEN, 1));
}

TEST(fi_endpoint, srx_before_messages, EP_RELIABLE, FI_MSG, "Buffers posted to a shared context before any connection are used in order")
{
	struct fid_ep *srx = open_srx(t);

	post_receives(t, srx, 0, 16);
	PAIR(t, .srx = srx);
	for (unsigned i = 0; i < 16; i++) {
		struct fi_cq_tagged_entry entry;

		send_one(t, &t->a, i);
		wait_comp(t, t->b.rxcq, &entry);
		CHECK(entry.op_context == &rx[i]);
		CHECK(filled(in[i], LEN, i));
	}
}

TEST(fi_endpoint, srx_after_messages, EP_RELIABLE, FI_MSG, "Messages that find no buffer wait until one is posted to the shared context")
{
	struct fid_ep *srx = open_srx(t);

	PAIR(t, .srx = srx);
	for (unsigned i = 0; i < 4; i++)
		send_one(t, &t->a, i);
	for (int i = 0; i < 100; i++)
		progress(t);
	post_receives(t, srx, 0, 4);
	for (unsigned i = 0; i < 4; i++) {
		struct fi_cq_tagged_entry entry;

		wait_comp(t, t->b.rxcq, &entry);
		CHECK(entry.op_context == &rx[i]);
		CHECK(filled(in[i], LEN, i));
	}
}

TEST(fi_endpoint, srx_survives_endpoints, EP_RELIABLE, FI_MSG, "Buffers stay with the shared context when an endpoint is closed")
{
	struct fid_ep *srx = open_srx(t);
	struct fi_cq_tagged_entry entry;

	post_receives(t, srx, 0, 2);
	PAIR(t, .srx = srx);
	pair_close(t);
	t->a = t->b = (struct side){ 0 };
	PAIR(t, .srx = srx);
	send_one(t, &t->a, 0);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &rx[0]);
}

TEST(fi_endpoint, srx_message_of_closed_endpoint, EP_RELIABLE, FI_MSG, "A message that waits at a shared context when its endpoint is closed goes with it, or its receive completes somewhere; the context goes on")
{
	struct fid_ep *srx = open_srx(t);
	struct fi_cq_tagged_entry entry = { 0 };

	PAIR(t, .srx = srx);
	send_one(t, &t->a, 0);
	for (int i = 0; i < 100; i++)
		progress(t);
	pair_close(t);
	post_receives(t, srx, 0, 2);
	t->a = t->b = (struct side){ 0 };
	PAIR(t, .srx = srx);
	send_one(t, &t->a, 1);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &rx[0] || entry.op_context == &rx[1]);
	CHECK(filled(in[entry.op_context == &rx[1]], LEN, 1));
}

TEST(fi_endpoint, srx_close_while_bound, EP_RELIABLE, FI_MSG, "A shared context that an open endpoint is bound to cannot be closed: -FI_EBUSY")
{
	struct fid_ep *srx = open_srx(t);

	PAIR(t, .srx = srx);
	CHECK_RC(fi_close(&srx->fid), -FI_EBUSY);
	pair_close(t);
	shut(t, &srx->fid);
}

TEST(fi_endpoint, srx_close_with_buffers, EP_RELIABLE, FI_MSG, "Buffers that are left are discarded when the shared context is closed")
{
	struct fid_ep *srx = open_srx(t);

	post_receives(t, srx, 0, 16);
	shut(t, &srx->fid);
}

TEST(fi_endpoint, srx_is_single, EP_RELIABLE, FI_MSG, "An endpoint is associated with a single receive context")
{
	struct fid_ep *x = open_srx(t), *y = open_srx(t), *ep = open_ep(t, t->info);

	OK(fi_ep_bind(ep, &x->fid, 0));
	CHECK(fi_ep_bind(ep, &y->fid, 0) < 0);
}

TEST(fi_endpoint, srx_must_be_bound, EP_RDM, FI_MSG, "An endpoint that is to use a shared receive context is not enabled without one: -FI_EOPBADSTATE")
{
	struct fid_ep *srx = open_srx(t), *ep = open_bound_ep(t, &t->a);

	CHECK_RC(fi_enable(ep), -FI_EOPBADSTATE);
	OK(fi_ep_bind(ep, &srx->fid, 0));
	OK(fi_enable(ep));
}

TEST(fi_endpoint, srx_one_address_vector, EP_RDM, FI_MSG, "Unconnected endpoints that share a receive context share the address vector")
{
	struct fid_ep *srx = open_srx(t);
	struct side other = { 0 };

	open_bound_ep(t, &t->a);
	OK(fi_ep_bind(t->a.ep, &srx->fid, 0));
	OK(fi_enable(t->a.ep));
	open_bound_ep(t, &other);
	OK(fi_ep_bind(other.ep, &srx->fid, 0));
	CHECK_RC(fi_enable(other.ep), -FI_EINVAL);
}

TEST(fi_endpoint, srx_directed, EP_RDM, FI_MSG | FI_DIRECTED_RECV, "A receive of a shared context may name the peer whose message it takes")
{
	struct fid_ep *srx = open_srx(t);
	struct fi_cq_tagged_entry entry;

	PAIR(t, .srx = srx);
	// The peer of b is a.
	POST(t, fi_recv(srx, in[0], LEN, reg_desc(t, in[0], LEN, FI_RECV), t->b.peer, &rx[0]));
	POST(t, fi_recv(srx, in[1], LEN, reg_desc(t, in[1], LEN, FI_RECV), t->a.peer, &rx[1]));
	send_one(t, &t->b, 0);
	wait_comp(t, t->a.rxcq, &entry);
	CHECK(entry.op_context == &rx[1]);
	send_one(t, &t->a, 1);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &rx[0]);
}

TEST(fi_endpoint, srx_takes_the_receives, EP_RELIABLE, FI_MSG, "Receives are posted to the shared context, not to an endpoint bound to it")
{
	struct fid_ep *srx = open_srx(t);

	PAIR(t, .srx = srx);
	CHECK(fi_recv(t->b.ep, in[0], LEN, NULL, FI_ADDR_UNSPEC, &rx[0]) < 0);
}

TEST(fi_endpoint, srx_tagged, EP_RELIABLE, FI_MSG, "Tagged receives of a shared context match by tag, for each endpoint")
{
	struct fi_cq_tagged_entry entry;
	struct fid_ep *srx;

	t->hints->caps |= FI_TAGGED;
	srx = open_srx(t);
	PAIR(t, .srx = srx);
	for (unsigned i = 0; i < 2; i++)
		POST(t, fi_trecv(srx, in[i], LEN, reg_desc(t, in[i], LEN, FI_RECV), FI_ADDR_UNSPEC, i, 0, &rx[i]));
	for (unsigned i = 2; i-- > 0;) {
		fill(out[i], LEN, i);
		POST(t, fi_tsend(t->a.ep, out[i], LEN, reg_desc(t, out[i], LEN, FI_SEND), t->a.peer, i, &tx[i]));
		wait_comp(t, t->b.rxcq, &entry);
		CHECK(entry.op_context == &rx[i]);
		CHECK_EQ(entry.tag, i);
		CHECK(filled(in[i], LEN, i));
	}
}

TEST(fi_endpoint, srx_subset, EP_RELIABLE, FI_MSG, "An endpoint uses a subset of the attributes of the shared receive context")
{
	struct fi_rx_attr attr;
	struct fid_ep *all = open_srx(t), *small[3] = { NULL }, *ep;

	for (unsigned i = 0; i < 3; i++) {
		attr = *t->info->rx_attr;
		if (i == 0)
			attr.size = 1;
		else if (i == 1)
			attr.iov_limit = 1;
		else
			attr.caps = FI_TAGGED | FI_RECV;
		OK(fi_srx_context(t->domain, &attr, &small[i], NULL));
		keep(t, &small[i]->fid);
	}
	ep = open_ep(t, t->info);
	for (unsigned i = 0; i < 3; i++)
		CHECK_RC(fi_ep_bind(ep, &small[i]->fid, 0), -FI_EINVAL);
	OK(fi_ep_bind(ep, &all->fid, 0));
	t->info->rx_attr->iov_limit = 1;
	OK(fi_ep_bind(open_ep(t, t->info), &small[1]->fid, 0));
}

TEST(fi_endpoint, srx_few_pieces, EP_RELIABLE, FI_MSG, "A receive of a shared context has no more pieces than its iov_limit")
{
	struct iovec iov[2] = { { in[0], 8 }, { in[1], 8 } };
	struct fid_ep *srx;

	open_srx(t);
	t->info->rx_attr->iov_limit = 1;
	OK(fi_srx_context(t->domain, t->info->rx_attr, &srx, NULL));
	keep(t, &srx->fid);
	CHECK_RC(fi_recvv(srx, iov, NULL, 2, FI_ADDR_UNSPEC, &rx[0]), -FI_EINVAL);
	OK(fi_recvv(srx, iov, NULL, 1, FI_ADDR_UNSPEC, &rx[0]));
}

static void post_receive_with(struct env *t, struct fid_ep *srx, unsigned i, uint64_t flags)
{
	struct iovec iov = { in[i], LEN };
	void *desc = reg_desc(t, in[i], LEN, FI_RECV);
	struct fi_msg msg = { .msg_iov = &iov, .desc = &desc, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &rx[i] };

	POST(t, fi_recvmsg(srx, &msg, flags));
}

TEST(fi_endpoint, srx_selective, EP_RELIABLE, FI_MSG, "FI_SELECTIVE_COMPLETION of the endpoint that a message comes to holds for receives of a shared context")
{
	struct fid_ep *srx = open_srx(t);
	struct fi_cq_tagged_entry entry;

	PAIR(t, .srx = srx, .rx_flags = FI_SELECTIVE_COMPLETION);
	// The receive first, then the message first, with either form of the call.
	for (unsigned i = 0; i < 8; i++) {
		if (i >= 4) {
			send_one(t, &t->a, i);
			turn(t);
		}
		if (i % 2)
			post_receives(t, srx, i, 1);
		else
			post_receive_with(t, srx, i, 0);
		if (i < 4)
			send_one(t, &t->a, i);
		ONCE(t, filled_by_now(in[i], LEN, i));
	}
	turn(t);
	CHECK_RC(fi_cq_read(t->b.rxcq, &entry, 1), -FI_EAGAIN);
	post_receive_with(t, srx, 8, FI_COMPLETION);
	send_one(t, &t->a, 8);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &rx[8]);
}

TEST(fi_endpoint, srx_selective_default, EP_RELIABLE, FI_MSG, "Receives of a shared context opened with the default flag FI_COMPLETION are reported by a selective queue")
{
	struct fi_cq_tagged_entry entry;
	struct fid_ep *srx;

	open_srx(t);
	t->info->rx_attr->op_flags |= FI_COMPLETION;
	OK(fi_srx_context(t->domain, t->info->rx_attr, &srx, NULL));
	keep(t, &srx->fid);
	PAIR(t, .srx = srx, .rx_flags = FI_SELECTIVE_COMPLETION);
	post_receives(t, srx, 0, 1);
	send_one(t, &t->a, 0);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &rx[0]);
}

TEST(fi_endpoint, srx_claim_discard, EP_RELIABLE, FI_MSG | FI_TAGGED, "A message claimed at a shared context and discarded is reported to the endpoint that it came to")
{
	struct fid_ep *srx = open_srx(t);
	struct fi_msg_tagged msg = { .addr = FI_ADDR_UNSPEC, .tag = 3, .context = &rx[0] };
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { 0 };

	PAIR(t, .srx = srx, .same_cq = true);
	fill(out[0], LEN, 0);
	POST(t, fi_tsend(t->a.ep, out[0], LEN, reg_desc(t, out[0], LEN, FI_SEND), t->a.peer, 3, &tx[0]));
	// Until the message has arrived, a peek is reported as an error at any endpoint of the context.
	for (ssize_t rc = 0; rc != 1 || entry.op_context != &rx[0];) {
		if (rc != 1)
			OK(fi_trecvmsg(srx, &msg, FI_PEEK | FI_CLAIM));
		ONCE(t, (rc = fi_cq_read(t->b.rxcq, &entry, 1)) != -FI_EAGAIN);
		if (rc == -FI_EAVAIL) {
			CHECK_RC(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
			CHECK_EQ(err.err, FI_ENOMSG);
		}
	}
	POST(t, fi_trecvmsg(srx, &msg, FI_CLAIM | FI_DISCARD));
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &rx[0]);
}

TEST(fi_endpoint, srx_tagged_multi_recv, EP_MSG, FI_MSG, "FI_TAGGED_MULTI_RECV: a tagged buffer of a shared context takes several messages; without it the flag is refused")
{
	static char room[8 * LEN];
	struct iovec iov = { room, sizeof(room) };
	struct fi_msg_tagged msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .ignore = 7, .context = &rx[0] };
	size_t min = LEN;
	void *desc;
	struct fid_ep *plain, *srx;

	t->hints->caps |= FI_TAGGED | FI_TAGGED_MULTI_RECV;
	srx = open_srx(t);
	OK(fi_setopt(&srx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
	PAIR(t, .srx = srx);
	desc = reg_desc(t, room, sizeof(room), FI_RECV);
	msg.desc = &desc;
	POST(t, fi_trecvmsg(srx, &msg, FI_MULTI_RECV));
	for (unsigned i = 0; i < 7; i++) {
		struct fi_cq_tagged_entry entry;

		fill(out[i], LEN, i);
		POST(t, fi_tsend(t->a.ep, out[i], LEN, reg_desc(t, out[i], LEN, FI_SEND), t->a.peer, i, &tx[i]));
		wait_comp(t, t->b.rxcq, &entry);
		CHECK(entry.op_context == &rx[0]);
		CHECK_EQ(entry.tag, i);
		CHECK(filled(entry.buf, LEN, i));
	}
	t->info->rx_attr->caps &= ~FI_TAGGED_MULTI_RECV;
	OK(fi_srx_context(t->domain, t->info->rx_attr, &plain, NULL));
	keep(t, &plain->fid);
	CHECK(fi_trecvmsg(plain, &msg, FI_MULTI_RECV) < 0);
}

TEST(fi_endpoint, srx_cancel, EP_RELIABLE, FI_MSG, "A receive of a shared context can be cancelled; the next one takes its place")
{
	struct fid_ep *srx = open_srx(t);
	struct fi_cq_tagged_entry entry = { 0 };
	struct fi_cq_err_entry err = { 0 };
	ssize_t rc = -FI_EAGAIN;

	PAIR(t, .srx = srx, .same_cq = true);
	post_receives(t, srx, 0, 2);
	OK_OR_SKIP(fi_cancel(&srx->fid, &rx[0]));
	send_one(t, &t->a, 0);
	// The entry of the cancelled receive may come first, in the queue of an endpoint, or not at all.
	for (bool received = false; !received;) {
		ONCE(t, (rc = fi_cq_read(t->a.txcq, &entry, 1)) != -FI_EAGAIN);
		if (rc == -FI_EAVAIL) {
			CHECK_RC(fi_cq_readerr(t->a.txcq, &err, 0), 1);
			CHECK_EQ(err.err, FI_ECANCELED);
			continue;
		}
		received = !!(entry.flags & FI_RECV);
	}
	CHECK(entry.op_context == &rx[1]);
	CHECK(filled(in[1], LEN, 0));
}

TEST(fi_endpoint, srx_cancel_is_reported, EP_RELIABLE | OURS_ONLY, FI_MSG, "An endpoint with a completion queue reports a cancelled receive of the shared context, whatever other endpoints use the context")
{
	struct fid_ep *srx = open_srx(t), *bare = NULL;
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { 0 };
	ssize_t rc = -FI_EAGAIN;

	// An endpoint without a completion queue, which shares the context.
	OK(fi_endpoint(t->domain, t->info, &bare, NULL));
	keep(t, &bare->fid);
	OK(fi_ep_bind(bare, &srx->fid, 0));
	PAIR(t, .srx = srx, .same_cq = true);
	post_receives(t, srx, 0, 1);
	OK_OR_SKIP(fi_cancel(&srx->fid, &rx[0]));
	ONCE(t, (rc = fi_cq_read(t->a.txcq, &entry, 1)) != -FI_EAGAIN);
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK_RC(fi_cq_readerr(t->a.txcq, &err, 0), 1);
	CHECK_EQ(err.err, FI_ECANCELED);
	CHECK(err.op_context == &rx[0]);
}
