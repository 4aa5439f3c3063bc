// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Bad input: data transfer calls with impossible arguments. Each is refused at once, and the endpoint stays usable.
#include "device.h"
#include "harness.h"

static char memory[256];
static struct fi_context2 ctx;

static void check_alive(struct env *t)
{
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
	CHECK(filled(t->flow->in[0], FLOW_LEN, 0));
}

TEST(badinput, msg_null, EP_ANY | OURS_ONLY, FI_MSG, "Null buffers with a length, null vectors with a count and null messages give -FI_EINVAL")
{
	struct fi_msg msg = { .msg_iov = NULL, .iov_count = 1 };

	PAIR(t);
	msg.addr = t->a.peer;
	CHECK_RC(fi_send(t->a.ep, NULL, 8, NULL, t->a.peer, &ctx), -FI_EINVAL);
	CHECK_RC(fi_senddata(t->a.ep, NULL, 8, NULL, 1, t->a.peer, &ctx), -FI_EINVAL);
	CHECK_RC(fi_inject(t->a.ep, NULL, 8, t->a.peer), -FI_EINVAL);
	CHECK_RC(fi_injectdata(t->a.ep, NULL, 8, 1, t->a.peer), -FI_EINVAL);
	CHECK_RC(fi_sendv(t->a.ep, NULL, NULL, 1, t->a.peer, &ctx), -FI_EINVAL);
	CHECK_RC(fi_sendmsg(t->a.ep, &msg, 0), -FI_EINVAL);
	CHECK_RC(fi_sendmsg(t->a.ep, NULL, 0), -FI_EINVAL);
	CHECK_RC(fi_recvv(t->b.ep, NULL, NULL, 1, FI_ADDR_UNSPEC, &ctx), -FI_EINVAL);
	CHECK_RC(fi_recvmsg(t->b.ep, &msg, 0), -FI_EINVAL);
	CHECK_RC(fi_recvmsg(t->b.ep, NULL, 0), -FI_EINVAL);
	check_alive(t);
}

TEST(badinput, tagged_null, EP_ANY | OURS_ONLY, FI_MSG | FI_TAGGED, "Tagged: null buffers with a length, null vectors with a count and null messages give -FI_EINVAL")
{
	struct fi_msg_tagged msg = { .msg_iov = NULL, .iov_count = 1 };

	PAIR(t);
	msg.addr = t->a.peer;
	CHECK_RC(fi_tsend(t->a.ep, NULL, 8, NULL, t->a.peer, 1, &ctx), -FI_EINVAL);
	CHECK_RC(fi_tsenddata(t->a.ep, NULL, 8, NULL, 1, t->a.peer, 1, &ctx), -FI_EINVAL);
	CHECK_RC(fi_tinject(t->a.ep, NULL, 8, t->a.peer, 1), -FI_EINVAL);
	CHECK_RC(fi_tinjectdata(t->a.ep, NULL, 8, 1, t->a.peer, 1), -FI_EINVAL);
	CHECK_RC(fi_tsendv(t->a.ep, NULL, NULL, 1, t->a.peer, 1, &ctx), -FI_EINVAL);
	CHECK_RC(fi_tsendmsg(t->a.ep, &msg, 0), -FI_EINVAL);
	CHECK_RC(fi_tsendmsg(t->a.ep, NULL, 0), -FI_EINVAL);
	CHECK_RC(fi_trecvv(t->b.ep, NULL, NULL, 1, FI_ADDR_UNSPEC, 1, 0, &ctx), -FI_EINVAL);
	CHECK_RC(fi_trecvmsg(t->b.ep, &msg, 0), -FI_EINVAL);
	CHECK_RC(fi_trecvmsg(t->b.ep, NULL, 0), -FI_EINVAL);
	check_alive(t);
}

TEST(badinput, recv_null_buffer, EP_ANY | OURS_ONLY, FI_MSG, "A receive without a buffer has room for no byte: a message that brings some is reported as truncated")
{
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry entry;
	ssize_t rc;

	PAIR(t);
	OK(fi_recv(t->b.ep, NULL, 8, NULL, FI_ADDR_UNSPEC, &ctx));
	OK(fi_send(t->a.ep, memory, 8, NULL, t->a.peer, &ctx));
	ONCE(t, (rc = fi_cq_read(t->b.rxcq, &entry, 1)) != -FI_EAGAIN);
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK_RC(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
	CHECK_EQ(err.err, FI_ETRUNC);
	CHECK_EQ(err.olen, 8);
	ONCE(t, (rc = fi_cq_read(t->a.txcq, &entry, 1)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	check_alive(t);
}

TEST(badinput, rma_null, EP_RELIABLE | OURS_ONLY, FI_MSG | FI_RMA, "RMA: null buffers with a length, null vectors with a count and null messages give -FI_EINVAL")
{
	struct fi_msg_rma msg = { .msg_iov = NULL, .iov_count = 1 };
	struct iovec iov = { memory, 8 };
	fi_addr_t peer;

	PAIR(t);
	peer = t->a.peer;
	msg.addr = peer;
	CHECK_RC(fi_write(t->a.ep, NULL, 8, NULL, peer, 0, 7, &ctx), -FI_EINVAL);
	CHECK_RC(fi_writedata(t->a.ep, NULL, 8, NULL, 1, peer, 0, 7, &ctx), -FI_EINVAL);
	CHECK_RC(fi_inject_write(t->a.ep, NULL, 8, peer, 0, 7), -FI_EINVAL);
	CHECK_RC(fi_inject_writedata(t->a.ep, NULL, 8, 1, peer, 0, 7), -FI_EINVAL);
	CHECK_RC(fi_writev(t->a.ep, NULL, NULL, 1, peer, 0, 7, &ctx), -FI_EINVAL);
	CHECK_RC(fi_writemsg(t->a.ep, NULL, 0), -FI_EINVAL);
	CHECK_RC(fi_read(t->a.ep, NULL, 8, NULL, peer, 0, 7, &ctx), -FI_EINVAL);
	CHECK_RC(fi_readv(t->a.ep, NULL, NULL, 1, peer, 0, 7, &ctx), -FI_EINVAL);
	CHECK_RC(fi_readmsg(t->a.ep, NULL, 0), -FI_EINVAL);
	CHECK_RC(fi_writemsg(t->a.ep, &msg, 0), -FI_EINVAL);
	msg.msg_iov = &iov; // without a remote side
	msg.rma_iov_count = 1;
	CHECK_RC(fi_writemsg(t->a.ep, &msg, 0), -FI_EINVAL);
	CHECK_RC(fi_readmsg(t->a.ep, &msg, 0), -FI_EINVAL);
	check_alive(t);
}

TEST(badinput, vector_too_long, EP_ANY | OURS_ONLY, FI_MSG, "More entries than iov_limit give -FI_EINVAL; so does a count beyond all bounds")
{
	struct iovec iov[64];
	struct fi_msg msg = { .msg_iov = iov, .context = &ctx };
	size_t tx, rx;

	PAIR(t);
	for (int i = 0; i < 64; i++)
		iov[i] = (struct iovec){ memory, 1 };
	tx = t->a.info->tx_attr->iov_limit;
	rx = t->b.info->rx_attr->iov_limit;
	if (tx >= 64 || rx >= 64)
		SKIP("an iov_limit of 64 and more");
	msg.addr = t->a.peer;
	CHECK_RC(fi_sendv(t->a.ep, iov, NULL, tx + 1, t->a.peer, &ctx), -FI_EINVAL);
	CHECK_RC(fi_sendv(t->a.ep, iov, NULL, SIZE_MAX, t->a.peer, &ctx), -FI_EINVAL);
	CHECK_RC(fi_recvv(t->b.ep, iov, NULL, rx + 1, FI_ADDR_UNSPEC, &ctx), -FI_EINVAL);
	CHECK_RC(fi_recvv(t->b.ep, iov, NULL, SIZE_MAX, FI_ADDR_UNSPEC, &ctx), -FI_EINVAL);
	msg.iov_count = tx + 1;
	CHECK_RC(fi_sendmsg(t->a.ep, &msg, 0), -FI_EINVAL);
	msg.iov_count = rx + 1;
	CHECK_RC(fi_recvmsg(t->b.ep, &msg, 0), -FI_EINVAL);
	check_alive(t);
}

TEST(badinput, lengths_that_overflow, EP_ANY | OURS_ONLY, FI_MSG, "A vector whose lengths overflow, and a length beyond max_msg_size, are refused")
{
	struct iovec iov[2] = { { memory, SIZE_MAX }, { memory, SIZE_MAX } };
	size_t max;

	PAIR(t);
	max = t->a.info->ep_attr->max_msg_size;
	if (t->a.info->tx_attr->iov_limit >= 2)
		CHECK_RC2(fi_sendv(t->a.ep, iov, NULL, 2, t->a.peer, &ctx), -FI_EMSGSIZE, -FI_EINVAL);
	if (max < SIZE_MAX)
		CHECK_RC2(fi_send(t->a.ep, memory, max + 1, NULL, t->a.peer, &ctx), -FI_EMSGSIZE, -FI_EINVAL);
	check_alive(t);
}

TEST(badinput, inject_too_long, EP_ANY | OURS_ONLY, FI_MSG, "Injecting more than inject_size is refused")
{
	static char large[1 << 20];
	size_t limit;

	PAIR(t);
	limit = t->a.info->tx_attr->inject_size;
	// Entries of shm with FI_HMEM say 0, and take more.
	if (limit >= sizeof(large) || (on_device() && !limit))
		SKIP("inject_size is %zu", limit);
	CHECK_RC2(fi_inject(t->a.ep, large, limit + 1, t->a.peer), -FI_EMSGSIZE, -FI_EINVAL);
	CHECK_RC2(fi_injectdata(t->a.ep, large, limit + 1, 1, t->a.peer), -FI_EMSGSIZE, -FI_EINVAL);
	check_alive(t);
}

TEST(badinput, unknown_flags, EP_ANY | OURS_ONLY, FI_MSG, "Flags that no operation defines are refused with -FI_EBADFLAGS or -FI_EINVAL")
{
	struct iovec iov = { memory, 8 };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .context = &ctx };

	PAIR(t);
	msg.addr = t->a.peer;
	CHECK_RC2(fi_sendmsg(t->a.ep, &msg, 1ULL << 51), -FI_EBADFLAGS, -FI_EINVAL);
	CHECK_RC2(fi_recvmsg(t->b.ep, &msg, 1ULL << 51), -FI_EBADFLAGS, -FI_EINVAL);
	check_alive(t);
}

TEST(badinput, unknown_peer, EP_AV | OURS_ONLY, FI_MSG, "Sending to a value the address vector does not have is refused with -FI_EINVAL")
{
	static const fi_addr_t wrong[] = { 1, 5, 1000000, 1ULL << 40, FI_ADDR_NOTAVAIL };

	PAIR(t);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		CHECK_RC2(fi_send(t->a.ep, memory, 8, NULL, wrong[i], &ctx), -FI_EINVAL, -FI_EHOSTUNREACH);
		CHECK_RC2(fi_inject(t->a.ep, memory, 8, wrong[i]), -FI_EINVAL, -FI_EHOSTUNREACH);
	}
	check_alive(t);
}

TEST(badinput, removed_peer, EP_AV | OURS_ONLY, FI_MSG, "Sending to a value that was removed is refused with -FI_EINVAL")
{
	PAIR(t);
	OK(fi_av_remove(t->a.av, &t->a.peer, 1, 0));
	CHECK_RC2(fi_send(t->a.ep, memory, 8, NULL, t->a.peer, &ctx), -FI_EINVAL, -FI_EHOSTUNREACH);
	CHECK_RC(fi_av_insert(t->a.av, t->b.name, 1, &t->a.peer, 0, NULL), 1);
	check_alive(t);
}

TEST(badinput, atomic_unknown, EP_ANY | OURS_ONLY, FI_MSG, "Unknown datatypes and operations of atomics are refused")
{
	size_t count = 0;
	struct fi_atomic_attr attr = { 0 };

	PAIR(t);
	CHECK(fi_atomicvalid(t->a.ep, (enum fi_datatype)1000, FI_SUM, &count) < 0);
	CHECK(fi_atomicvalid(t->a.ep, FI_INT64, (enum fi_op)1000, &count) < 0);
	CHECK(fi_fetch_atomicvalid(t->a.ep, (enum fi_datatype)1000, FI_SUM, &count) < 0);
	CHECK(fi_compare_atomicvalid(t->a.ep, (enum fi_datatype)1000, FI_CSWAP, &count) < 0);
	CHECK(fi_query_atomic(t->domain, (enum fi_datatype)1000, FI_SUM, &attr, 0) < 0);
	CHECK(fi_atomic(t->a.ep, memory, 1, NULL, t->a.peer, 0, 7, (enum fi_datatype)1000, FI_SUM, &ctx) < 0);
	check_alive(t);
}
