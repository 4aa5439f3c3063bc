// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_endpoint(3): options that can only be set or only be read, or that do not exist; effects of operation flags and
//! aliases; the number of operations in a queue.
#include "transfer.h"

enum { LEN = 64 };

// ---- Options

TEST(fi_endpoint, option_cm_data_size_connectionless, EP_AV, FI_MSG, "FI_OPT_CM_DATA_SIZE of an endpoint without connections is 0 or not there, and never set")
{
	struct fid_ep *ep = open_ep(t, t->info);
	size_t value = 0, len = sizeof(value);
	int rc = fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, &len);

	CHECK_RC2(rc, 0, -FI_ENOPROTOOPT);
	if (!rc)
		CHECK_EQ(value, 0);
	CHECK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &len, sizeof(len)) < 0);
}

TEST(fi_endpoint, option_of_passive_endpoint, EP_MSG, FI_MSG, "A passive endpoint gives -FI_ENOPROTOOPT for options it does not have, and its CM data size cannot be set")
{
	struct fid_pep *pep = open_pep(t, open_eq(t, FI_WAIT_NONE, 0));
	size_t value = 100, len = sizeof(value);

	CHECK_RC(fi_getopt(&pep->fid, FI_OPT_ENDPOINT, 0x7fff, &value, &len), -FI_ENOPROTOOPT);
	CHECK_RC(fi_setopt(&pep->fid, FI_OPT_ENDPOINT, 0x7fff, &value, sizeof(value)), -FI_ENOPROTOOPT);
	CHECK_RC(fi_getopt(&pep->fid, 0x7fff, FI_OPT_CM_DATA_SIZE, &value, &len), -FI_ENOPROTOOPT);
	CHECK(fi_setopt(&pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, sizeof(value)) < 0);
	len = 1;
	CHECK_RC(fi_getopt(&pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, &len), -FI_ETOOSMALL);
}

TEST(fi_endpoint, option_set_only, EP_ANY, FI_MSG, "FI_OPT_CUDA_API_PERMITTED and FI_OPT_SHARED_MEMORY_PERMITTED apply to fi_setopt only")
{
	static const int options[] = { FI_OPT_CUDA_API_PERMITTED, FI_OPT_SHARED_MEMORY_PERMITTED };
	struct fid_ep *ep = open_ep(t, t->info);

	for (size_t i = 0; i < 2; i++) {
		uint8_t value[8];
		size_t len = sizeof(value);

		memset(value, 0xa5, sizeof(value));
		CHECK_RC2(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, options[i], value, &len), -FI_ENOPROTOOPT, -FI_EOPNOTSUPP);
		CHECK_EQ(value[0], 0xa5);
	}
}

TEST(fi_endpoint, option_cuda_api, EP_ANY, FI_MSG, "FI_OPT_CUDA_API_PERMITTED without FI_HMEM is -FI_ENOPROTOOPT, without a device -FI_EINVAL")
{
	struct fid_ep *ep = open_ep(t, t->info);

	if (t->info->caps & FI_HMEM)
		SKIP("the endpoint has FI_HMEM");
	for (int i = 0; i < 2; i++) {
		bool permitted = i;

		CHECK_RC2(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_CUDA_API_PERMITTED, &permitted, sizeof(permitted)),
			  -FI_ENOPROTOOPT, -FI_EINVAL);
	}
}

TEST(fi_endpoint, option_cuda_api_hmem, EP_ANY, FI_MSG, "Where endpoints may have FI_HMEM, FI_OPT_CUDA_API_PERMITTED is known: without a device it is -FI_EINVAL")
{
	struct fi_info *hints = fi_dupinfo(t->info), *found = NULL;
	bool permitted = true;
	int rc;

	CHECK(hints);
	hints->caps |= FI_HMEM;
	hints->domain_attr->mr_mode |= FI_MR_HMEM;
	hints->tx_attr->inject_size = 0;
	rc = fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &found);
	fi_freeinfo(hints);
	if (rc)
		SKIP("no FI_HMEM");
	rc = fi_setopt(&open_ep(t, t->info)->fid, FI_OPT_ENDPOINT, FI_OPT_CUDA_API_PERMITTED, &permitted, sizeof(permitted));
	if (rc == -FI_ENOPROTOOPT) {
		// Only endpoints that have FI_HMEM know it.
		shut_all(t);
		t->fabric = NULL;
		t->domain = NULL;
		fi_freeinfo(t->info);
		t->info = found;
		rc = fi_setopt(&open_ep(t, found)->fid, FI_OPT_ENDPOINT, FI_OPT_CUDA_API_PERMITTED, &permitted, sizeof(permitted));
	} else {
		fi_freeinfo(found);
	}
	CHECK(rc == -FI_EINVAL || rc == -FI_EOPNOTSUPP || rc == 0);
}

TEST(fi_endpoint, option_limits_are_the_attributes, EP_ANY, FI_MSG, "The limits that options give are those that hold: a message of FI_OPT_INJECT_MSG_SIZE can be injected, one byte more cannot")
{
	size_t limit = t->info->tx_attr->inject_size, len = sizeof(limit);
	struct op op;
	int rc;

	PAIR(t);
	rc = fi_getopt(&t->a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_INJECT_MSG_SIZE, &limit, &len);
	CHECK_RC2(rc, 0, -FI_ENOPROTOOPT);
	round_trip(t);
	op = op_of(INJECT, false, new_buf(t, limit + 1, 1), t->a.peer);
	CHECK_RC2(op_try(t->a.ep, &op), -FI_EINVAL, -FI_EMSGSIZE);
	op.iov[0].iov_len = limit;
	post_recv(t, &t->b, new_buf(t, limit, 0));
	op_post(t, t->a.ep, &op);
	wait_comp(t, t->b.rxcq, NULL);
}

// Opens the pair like pair_open, but sets an option of a before a is enabled. Only for RDM, because connecting enables
// an endpoint.
static void pair_with_option(struct env *t, int option, size_t value)
{
	size_t got = 0, len = sizeof(got);
	int rc;

	open_bound_ep(t, &t->a);
	open_bound_ep(t, &t->b);
	rc = fi_setopt(&t->a.ep->fid, FI_OPT_ENDPOINT, option, &value, sizeof(value));
	if (rc == -FI_ENOPROTOOPT)
		SKIP("not offered");
	OK(rc);
	OK(fi_getopt(&t->a.ep->fid, FI_OPT_ENDPOINT, option, &got, &len));
	CHECK_EQ(got, value);
	OK(fi_enable(t->a.ep));
	OK(fi_enable(t->b.ep));
	t->b.namelen = sizeof(t->b.name);
	OK(fi_getname(&t->b.ep->fid, t->b.name, &t->b.namelen));
	CHECK_EQ(fi_av_insert(t->a.av, t->b.name, 1, &t->a.peer, 0, NULL), 1);
}

static void limited(struct env *t, int option, size_t limit, enum form form, bool tagged)
{
	struct buf in, out;
	struct op recv, send;
	ssize_t rc = -FI_EAGAIN;

	pair_with_option(t, option, limit);
	in = new_buf(t, limit + 1, 0);
	out = new_buf(t, limit + 1, 1);
	recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);
	send = op_of(form, tagged, out, t->a.peer);
	ONCE(t, (rc = op_try(t->a.ep, &send)) != -FI_EAGAIN);
	CHECK_RC2(rc, -FI_EMSGSIZE, -FI_EINVAL);
	send.iov[0].iov_len = limit;
	op_post(t, t->b.ep, &recv);
	op_post(t, t->a.ep, &send);
	CHECK_EQ(done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged)).len, limit);
	CHECK(holds(in, limit, 1));
}

TEST(fi_endpoint, option_limits_messages, EP_AV, FI_MSG, "FI_OPT_MAX_MSG_SIZE can be made less before the endpoint is enabled: a larger message is then refused")
{
	limited(t, FI_OPT_MAX_MSG_SIZE, 1000, SEND, false);
}

TEST(fi_endpoint, option_limits_tagged, EP_RDM, FI_TAGGED, "The same for FI_OPT_MAX_TAGGED_SIZE")
{
	limited(t, FI_OPT_MAX_TAGGED_SIZE, 1000, SEND, true);
}

TEST(fi_endpoint, option_limits_inject, EP_AV, FI_MSG, "The same for FI_OPT_INJECT_MSG_SIZE and injected messages")
{
	limited(t, FI_OPT_INJECT_MSG_SIZE, 16, INJECT, false);
}

TEST(fi_endpoint, option_limits_tagged_inject, EP_RDM, FI_TAGGED, "The same for FI_OPT_INJECT_TAGGED_SIZE and injected tagged messages")
{
	limited(t, FI_OPT_INJECT_TAGGED_SIZE, 16, INJECT, true);
}

TEST(fi_endpoint, option_limits_rma, EP_RDM, FI_RMA, "The same for FI_OPT_MAX_RMA_SIZE, writes and reads")
{
	struct buf mem = new_buf(t, 1001, 1);
	struct region target;
	void *ctx[2] = { new_ctx(), new_ctx() };

	pair_with_option(t, FI_OPT_MAX_RMA_SIZE, 1000);
	target = new_region(t, &t->b, new_buf(t, 1001, 0), FI_REMOTE_READ | FI_REMOTE_WRITE);
	POST(t, fi_write(t->a.ep, mem.mem, 1000, mem.desc, t->a.peer, target.at, target.key, ctx[0]));
	done(t, t->a.txcq, ctx[0], FI_RMA | FI_WRITE);
	POST(t, fi_read(t->a.ep, mem.mem, 1000, mem.desc, t->a.peer, target.at, target.key, ctx[1]));
	done(t, t->a.txcq, ctx[1], FI_RMA | FI_READ);
	CHECK_RC2(fi_write(t->a.ep, mem.mem, 1001, mem.desc, t->a.peer, target.at, target.key, NULL), -FI_EMSGSIZE, -FI_EINVAL);
	CHECK_RC2(fi_read(t->a.ep, mem.mem, 1001, mem.desc, t->a.peer, target.at, target.key, NULL), -FI_EMSGSIZE, -FI_EINVAL);
}

TEST(fi_endpoint, option_limits_rma_inject, EP_RDM, FI_RMA, "The same for FI_OPT_INJECT_RMA_SIZE and injected writes")
{
	struct buf mem = new_buf(t, 17, 1);
	struct region target;

	pair_with_option(t, FI_OPT_INJECT_RMA_SIZE, 16);
	target = new_region(t, &t->b, new_buf(t, 17, 0), FI_REMOTE_WRITE);
	POST(t, fi_inject_write(t->a.ep, mem.mem, 16, t->a.peer, target.at, target.key));
	CHECK_RC2(fi_inject_write(t->a.ep, mem.mem, 17, t->a.peer, target.at, target.key), -FI_EMSGSIZE, -FI_EINVAL);
	ONCE(t, holds_by_now(part(target.buf, 0, 16), 16, 1));
}

// ---- Operation flags

TEST(fi_endpoint, opsflag_at_work, EP_ANY, FI_MSG, "Flags set with FI_SETOPSFLAG hold for the operations that follow, in each direction")
{
	static const uint64_t sides[] = { FI_TRANSMIT, FI_RECV };

	PAIR(t, .tx_flags = FI_SELECTIVE_COMPLETION, .rx_flags = FI_SELECTIVE_COMPLETION);
	for (unsigned with = 0; with < 4; with++) {
		struct buf in = new_buf(t, LEN, 0);
		void *sent, *got;

		for (unsigned k = 0; k < 2; k++) {
			uint64_t flags = sides[k] | (with >> k & 1 ? FI_COMPLETION : 0);

			OK_OR_SKIP(fi_control(k ? &t->b.ep->fid : &t->a.ep->fid, FI_SETOPSFLAG, &flags));
		}
		got = post_recv(t, &t->b, in);
		sent = post_send(t, &t->a, new_buf(t, LEN, with + 1));
		ONCE(t, holds_by_now(in, LEN, with + 1));
		if (with & 1)
			done(t, t->a.txcq, sent, FI_MSG | FI_SEND);
		if (with & 2)
			done(t, t->b.rxcq, got, FI_MSG | FI_RECV);
		nothing(t->a.txcq);
		nothing(t->b.rxcq);
	}
}

TEST(fi_endpoint, opsflag_not_offered, EP_ANY, FI_MSG, "Flags that are no operation flags of the endpoint cannot be made its default")
{
	struct fid_ep *ep = open_bound_ep(t, &t->a);
	uint64_t flags = FI_TRANSMIT, before;

	OK_OR_SKIP(fi_control(&ep->fid, FI_GETOPSFLAG, &flags));
	before = flags;
	flags = FI_TRANSMIT | (1ULL << 51);
	CHECK_RC2(fi_control(&ep->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL, -FI_EBADFLAGS);
	if (!(t->info->caps & FI_MULTICAST)) {
		flags = FI_TRANSMIT | FI_MULTICAST;
		CHECK_RC2(fi_control(&ep->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL, -FI_EBADFLAGS);
	}
	flags = FI_RECV | FI_INJECT;
	CHECK_RC2(fi_control(&ep->fid, FI_SETOPSFLAG, &flags), -FI_EINVAL, -FI_EBADFLAGS);
	flags = FI_TRANSMIT;
	OK(fi_control(&ep->fid, FI_GETOPSFLAG, &flags));
	CHECK_EQ(flags, before);
}

// ---- Aliases

static uint64_t opsflag(struct fid_ep *ep, uint64_t side)
{
	uint64_t flags = side;

	OK(fi_control(&ep->fid, FI_GETOPSFLAG, &flags));
	return flags & ~side;
}

TEST(fi_endpoint, alias_inherits, EP_ANY, FI_MSG, "An alias has its parent's flags for the direction not given; FI_SETOPSFLAG changes those of the alias alone")
{
	struct fid_ep *ep = open_bound_ep(t, &t->a), *alias = NULL;
	uint64_t flags = FI_RECV | FI_COMPLETION;

	OK_OR_SKIP(fi_control(&ep->fid, FI_SETOPSFLAG, &flags));
	flags = FI_TRANSMIT;
	OK(fi_control(&ep->fid, FI_SETOPSFLAG, &flags));
	OK_OR_SKIP(fi_ep_alias(ep, &alias, FI_TRANSMIT | FI_COMPLETION));
	keep(t, &alias->fid);
	CHECK_EQ(alias->fid.fclass, FI_CLASS_EP);
	CHECK_EQ(opsflag(alias, FI_TRANSMIT), FI_COMPLETION);
	CHECK_EQ(opsflag(alias, FI_RECV), FI_COMPLETION);
	CHECK_EQ(opsflag(ep, FI_TRANSMIT), 0);
	flags = FI_RECV;
	OK(fi_control(&alias->fid, FI_SETOPSFLAG, &flags));
	CHECK_EQ(opsflag(alias, FI_RECV), 0);
	CHECK_EQ(opsflag(ep, FI_RECV), FI_COMPLETION);
}

TEST(fi_endpoint, alias_receives, EP_ANY, FI_MSG, "Receives posted through an alias have the flags given to it, and stand in one line with the parent's")
{
	struct buf in[2] = { new_buf(t, LEN, 0), new_buf(t, LEN, 0) };
	struct fid_ep *alias = NULL;
	void *ctx = new_ctx();

	PAIR(t, .rx_flags = FI_SELECTIVE_COMPLETION);
	OK_OR_SKIP(fi_ep_alias(t->b.ep, &alias, FI_RECV | FI_COMPLETION));
	keep(t, &alias->fid);
	post_recv(t, &t->b, in[0]);
	POST(t, fi_recv(alias, in[1].mem, LEN, in[1].desc, FI_ADDR_UNSPEC, ctx));
	post_send(t, &t->a, new_buf(t, LEN, 1));
	post_send(t, &t->a, new_buf(t, LEN, 2));
	done(t, t->b.rxcq, ctx, FI_MSG | FI_RECV);
	CHECK(holds(in[0], LEN, 1) && holds(in[1], LEN, 2));
	nothing(t->b.rxcq);
}

// ---- Pieces of an operation

BOTH(few_pieces, EP_ANY, 0, "Smaller limits of pieces that were agreed on hold: more are -FI_EINVAL")
{
	struct buf out, in;
	struct op send, recv;

	t->hints->tx_attr->iov_limit = 1;
	t->hints->rx_attr->iov_limit = 2;
	env_info(t);
	if (t->info->tx_attr->iov_limit > 1 || t->info->rx_attr->iov_limit > 2)
		SKIP("larger limits");
	PAIR(t);
	out = new_buf(t, LEN, 1);
	in = new_buf(t, LEN, 0);
	send = op_of(SENDV, tagged, out, t->a.peer);
	recv = op_of(RECVV, tagged, in, FI_ADDR_UNSPEC);
	for (unsigned form = 0; form < 2; form++) {
		send.form = form ? SENDMSG : SENDV;
		recv.form = form ? RECVMSG : RECVV;
		send.count = 2;
		recv.count = 3;
		for (unsigned i = 0; i < 3; i++) {
			send.iov[i] = (struct iovec){ out.mem + i * 8, 8 };
			recv.iov[i] = (struct iovec){ in.mem + i * 8, 8 };
			send.desc[i] = out.desc;
			recv.desc[i] = in.desc;
		}
		CHECK_RC(op_try(t->a.ep, &send), -FI_EINVAL);
		CHECK_RC(op_try(t->b.ep, &recv), -FI_EINVAL);
		send.count = 1;
		recv.count = 2;
		op_post(t, t->b.ep, &recv);
		op_post(t, t->a.ep, &send);
		done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
		CHECK(holds(in, 8, 1));
		done(t, t->a.txcq, send.ctx, SENT(tagged));
	}
}

TEST(fi_rma, few_pieces, EP_RELIABLE, FI_RMA, "Smaller limits of pieces that were agreed on hold, here and at the target: more are -FI_EINVAL")
{
	struct fi_rma_iov at[2];
	struct iovec iov[2];
	struct fi_msg_rma msg = { .msg_iov = iov, .rma_iov = at, .context = new_ctx() };
	struct region target;
	struct buf out;
	void *desc[2];

	t->hints->tx_attr->iov_limit = 1;
	t->hints->tx_attr->rma_iov_limit = 1;
	env_info(t);
	if (t->info->tx_attr->iov_limit > 1 || t->info->tx_attr->rma_iov_limit > 1)
		SKIP("larger limits");
	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, LEN, 0), FI_REMOTE_WRITE | FI_REMOTE_READ);
	out = new_buf(t, LEN, 1);
	desc[0] = desc[1] = out.desc;
	msg.desc = desc;
	msg.addr = t->a.peer;
	for (unsigned i = 0; i < 2; i++) {
		iov[i] = (struct iovec){ out.mem + i * 8, 8 };
		at[i] = (struct fi_rma_iov){ target.at + i * 8, 8, target.key };
	}
	msg.iov_count = 2;
	msg.rma_iov_count = 1;
	at[0].len = 16;
	CHECK_RC(fi_writemsg(t->a.ep, &msg, 0), -FI_EINVAL);
	CHECK_RC(fi_readmsg(t->a.ep, &msg, 0), -FI_EINVAL);
	msg.iov_count = 1;
	msg.rma_iov_count = 2;
	iov[0].iov_len = 16;
	at[0].len = 8;
	CHECK_RC(fi_writemsg(t->a.ep, &msg, 0), -FI_EINVAL);
	CHECK_RC(fi_readmsg(t->a.ep, &msg, 0), -FI_EINVAL);
	msg.rma_iov_count = 1;
	at[0].len = 16;
	POST(t, fi_writemsg(t->a.ep, &msg, 0));
	done(t, t->a.txcq, msg.context, FI_RMA | FI_WRITE);
}

TEST(fi_atomic, few_pieces, EP_RELIABLE, FI_ATOMIC, "Smaller limits of pieces that were agreed on hold for atomic operations, too")
{
	struct fi_rma_ioc at[2];
	struct fi_ioc ioc[2];
	struct fi_msg_atomic msg = { .msg_iov = ioc, .rma_iov = at, .datatype = FI_UINT64, .op = FI_SUM, .context = new_ctx() };
	struct region target;
	struct buf out;
	void *desc[2];

	t->hints->tx_attr->iov_limit = 1;
	t->hints->tx_attr->rma_iov_limit = 1;
	env_info(t);
	if (t->info->tx_attr->iov_limit > 1 || t->info->tx_attr->rma_iov_limit > 1)
		SKIP("larger limits");
	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, LEN, 0), FI_REMOTE_WRITE | FI_REMOTE_READ);
	out = new_buf(t, LEN, 1);
	desc[0] = desc[1] = out.desc;
	msg.desc = desc;
	msg.addr = t->a.peer;
	for (unsigned i = 0; i < 2; i++) {
		ioc[i] = (struct fi_ioc){ out.mem + i * 8, 1 };
		at[i] = (struct fi_rma_ioc){ target.at + i * 8, 1, target.key };
	}
	msg.iov_count = 2;
	msg.rma_iov_count = 2;
	CHECK_RC(fi_atomicmsg(t->a.ep, &msg, 0), -FI_EINVAL);
	msg.iov_count = msg.rma_iov_count = 1;
	POST(t, fi_atomicmsg(t->a.ep, &msg, 0));
	done(t, t->a.txcq, msg.context, FI_ATOMIC | FI_WRITE);
}

// ---- Queue sizes

TEST(fi_endpoint, tx_size_left_is_a_lower_bound, EP_ANY, FI_MSG, "As many sends as fi_tx_size_left says are taken without -FI_EAGAIN, nobody receiving and no queue looked at")
{
	enum { BYTES = 8000 };
	static const size_t sizes[] = { 65536, 1024, 0 };
	struct buf out = new_buf(t, BYTES, 1);
	size_t max;
	unsigned i = 0;
	ssize_t left;

	t->hints->domain_attr->progress = FI_PROGRESS_MANUAL;
	do { // the largest queue on offer
		t->hints->tx_attr->size = sizes[i++];
	} while (i < 3 && env_try_info(t));
	env_info(t);
	PAIR(t);
	round_trip(t);
	max = t->info->ep_attr->max_msg_size;
	left = fi_tx_size_left(t->a.ep);
	if (left == -FI_ENOSYS || left == -FI_EOPNOTSUPP)
		SKIP("not offered");
	CHECK(left > 0);
	for (ssize_t k = 0; k < left; k++) {
		ssize_t rc = fi_send(t->a.ep, out.mem, max < BYTES ? max : BYTES, out.desc, t->a.peer, NULL);

		if (rc)
			FAIL("operation %zd of %zd gave %s", k, left, rc_name(rc));
	}
}

// Posts as many operations of a kind as fi_tx_size_left returns, then until the queue is full. More is not guaranteed.
static void check_room(struct env *t, enum form form, bool tagged, size_t len)
{
	struct buf out, in;
	struct op op;
	ssize_t left, rc = 0;

	t->hints->domain_attr->progress = FI_PROGRESS_MANUAL;
	env_info(t);
	if (form == INJECT)
		len = t->info->tx_attr->inject_size;
	PAIR(t);
	round_trip(t);
	out = new_buf(t, len, 1);
	in = new_buf(t, len, 0);
	for (unsigned again = 0; again < 2; again++) {
		unsigned posted = 0;

		// Injected operations may be in flight for a while.
		ONCE(t, (left = fi_tx_size_left(t->a.ep)) != 0);
		if (left == -FI_ENOSYS || left == -FI_EOPNOTSUPP)
			SKIP("not offered");
		CHECK(left > 0);
		op = op_of(form, tagged, out, t->a.peer);
		for (ssize_t k = 0; k < left; k++, posted++) {
			rc = op_try(t->a.ep, &op);
			if (rc)
				FAIL("operation %zd of %zd gave %s", k, left, rc_name(rc));
		}
		while (posted < 100000 && !(rc = op_try(t->a.ep, &op)))
			posted++;
		CHECK_RC(rc, -FI_EAGAIN);
		CHECK_EQ(fi_tx_size_left(t->a.ep), 0);
		while (posted--) {
			struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);

			op_post(t, t->b.ep, &recv);
			wait_comp(t, t->b.rxcq, NULL);
			if (form != INJECT)
				wait_comp(t, t->a.txcq, NULL);
		}
	}
}

BOTH(tx_size_left_small, EP_RELIABLE, 0, "fi_tx_size_left is a lower bound for small messages, and nothing after -FI_EAGAIN")
{
	check_room(t, SEND, tagged, 8000);
}

BOTH(tx_size_left_large, EP_RELIABLE, 0, "fi_tx_size_left is a lower bound for large messages, and nothing after -FI_EAGAIN")
{
	check_room(t, SEND, tagged, 1000000);
}

BOTH(tx_size_left_inject, EP_RELIABLE, 0, "fi_tx_size_left is a lower bound for injected messages, and nothing after -FI_EAGAIN")
{
	check_room(t, INJECT, tagged, 0);
}

TEST(fi_endpoint, rx_size_left_is_a_lower_bound, EP_ANY, FI_MSG, "As many receives as fi_rx_size_left says are taken without -FI_EAGAIN")
{
	struct buf in = new_buf(t, LEN, 0);
	ssize_t left;

	PAIR(t);
	left = fi_rx_size_left(t->b.ep);
	if (left == -FI_ENOSYS || left == -FI_EOPNOTSUPP)
		SKIP("not offered");
	CHECK(left > 0);
	for (ssize_t i = 0; i < left; i++)
		OK(fi_recv(t->b.ep, in.mem, LEN, in.desc, FI_ADDR_UNSPEC, NULL));
}

static void few(struct fi_info *info)
{
	info->tx_attr->size = info->rx_attr->size = 4;
}

TEST(fi_endpoint, small_queues, EP_RELIABLE, FI_MSG, "An endpoint with queues of four entries carries any number of messages, -FI_EAGAIN and progress taking turns")
{
	enum { COUNT = 200, BIG = 30000 };
	struct buf in = new_buf(t, BIG, 0), out = new_buf(t, BIG, 1);
	unsigned posted = 0, sent = 0, received = 0;

	PAIR(t, .tune = few);
	round_trip(t);
	post_recv(t, &t->b, in);
	for (uint64_t limit = now_ms() + t->limit_ms; received < COUNT || sent < COUNT;) {
		struct fi_cq_tagged_entry comp;

		while (posted < COUNT) {
			ssize_t rc = fi_send(t->a.ep, out.mem, BIG, out.desc, t->a.peer, new_ctx());

			if (rc) {
				CHECK_RC(rc, -FI_EAGAIN);
				break;
			}
			posted++;
		}
		CHECK(posted >= 4);
		while (fi_cq_read(t->a.txcq, &comp, 1) == 1)
			sent++;
		if (fi_cq_read(t->b.rxcq, &comp, 1) == 1) {
			CHECK_EQ(comp.len, BIG);
			if (++received < COUNT)
				post_recv(t, &t->b, in);
		}
		if (now_ms() > limit)
			FAIL("%u posted, %u sent, %u received", posted, sent, received);
	}
}

// ---- Attributes

TEST(fi_endpoint, no_prefix, EP_ANY, FI_MSG, "msg_prefix_size is 0 unless the mode FI_MSG_PREFIX is set")
{
	if (!((t->info->mode | t->info->tx_attr->mode | t->info->rx_attr->mode) & FI_MSG_PREFIX))
		CHECK_EQ(t->info->ep_attr->msg_prefix_size, 0);
	else
		CHECK_EQ(t->info->ep_attr->msg_prefix_size % 8, 0);
}

TEST(fi_getinfo, without_hints, EP_RDM, 0, "The info of a call without hints works as it is: sends of more than inject_size, receives that take one message each unless they say otherwise")
{
	struct fi_info *all = NULL, *at;
	struct buf in[2] = { new_buf(t, LEN, 0), new_buf(t, 100000, 0) };
	struct op recv, send;

	OK(fi_getinfo(t->version, NULL, NULL, 0, NULL, &all));
	for (at = all; at; at = at->next)
		if (!strcmp(at->fabric_attr->prov_name, t->prov) && at->ep_attr->type == t->type &&
		    !strcmp(at->domain_attr->name, t->info->domain_attr->name) &&
		    at->addr_format == t->info->addr_format)
			break;
	if (!at) {
		fi_freeinfo(all);
		SKIP("not among what is offered without hints");
	}
	fi_freeinfo(t->info);
	t->info = fi_dupinfo(at);
	fi_freeinfo(all);
	if (t->info->domain_attr->mr_mode || t->info->mode & ~(FI_CONTEXT | FI_CONTEXT2))
		SKIP("it has modes");
	PAIR(t);
	for (unsigned i = 0; i < 2; i++) {
		recv = op_of(RECV, true, in[i], FI_ADDR_UNSPEC);
		op_post(t, t->b.ep, &recv);
		send = op_of(SEND, true, new_buf(t, in[i].len, i + 1), t->a.peer);
		op_post(t, t->a.ep, &send);
		done(t, t->b.rxcq, recv.ctx, FI_TAGGED | FI_RECV);
		CHECK(holds(in[i], in[i].len, i + 1));
		done(t, t->a.txcq, send.ctx, FI_TAGGED | FI_SEND);
	}
}
