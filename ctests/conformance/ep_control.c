// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_endpoint(3): cancelling, options, operation flags, aliases.
#include "transfer.h"

#include <malloc.h>

// ---- Cancelling

TEST(fi_endpoint, cancel_pending, EP_ANY, FI_MSG, "Cancelling a pending receive gives an error entry FI_ECANCELED with its context")
{
	struct fi_cq_err_entry err = { 0 };

	PAIR(t);
	flow_error(t, 0);
	wait_err(t, t->b.rxcq, &err);
	CHECK_EQ(err.err, FI_ECANCELED);
	CHECK(err.op_context == &t->flow->rx[0]);
}

TEST(fi_endpoint, cancel_leaves_others, EP_ANY, FI_MSG, "Only the operation of that context is cancelled; the others receive in order")
{
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry entry;

	PAIR(t);
	flow_post_recv(t, 0, 3);
	OK_OR_SKIP(fi_cancel(&t->b.ep->fid, &t->flow->rx[1]));
	wait_err(t, t->b.rxcq, &err);
	CHECK(err.op_context == &t->flow->rx[1]);
	flow_post_send(t, 0, 2);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &t->flow->rx[0]);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &t->flow->rx[2]);
	CHECK(filled(t->flow->in[2], FLOW_LEN, 1));
}

TEST(fi_endpoint, cancel_unknown, EP_ANY, FI_MSG, "Cancelling a context that nothing was posted with changes nothing")
{
	struct fi_cq_tagged_entry entry;
	struct fi_context2 other;
	ssize_t rc;

	PAIR(t);
	flow_post_recv(t, 0, 1);
	rc = fi_cancel(&t->b.ep->fid, &other);
	CHECK(rc == 0 || rc == -FI_ENOENT || rc == -FI_ENOSYS || rc == -FI_EINVAL);
	CHECK_RC(fi_cq_read(t->b.rxcq, &entry, 1), -FI_EAGAIN);
	flow_post_send(t, 0, 1);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &t->flow->rx[0]);
}

TEST(fi_endpoint, cancel_completed, EP_ANY, FI_MSG, "Cancelling an operation that has completed leaves its completion readable")
{
	struct fi_cq_tagged_entry entry;

	PAIR(t);
	flow_run(t, 0, 1);
	ONCE(t, filled_by_now(t->flow->in[0], FLOW_LEN, 0));
	fi_cancel(&t->b.ep->fid, &t->flow->rx[0]);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &t->flow->rx[0]);
	CHECK_RC(fi_cq_read(t->b.rxcq, &entry, 1), -FI_EAGAIN);
}

TEST(fi_endpoint, cancel_no_context, EP_ANY, FI_MSG, "Operations without a context cannot be cancelled: a null one names none of them")
{
	struct buf in = new_buf(t, FLOW_LEN, 0);
	struct fi_cq_tagged_entry entry;

	PAIR(t);
	POST(t, fi_recv(t->b.ep, in.mem, FLOW_LEN, in.desc, FI_ADDR_UNSPEC, NULL));
	CHECK(fi_cancel(&t->b.ep->fid, NULL) <= 0);
	CHECK_RC(fi_cq_read(t->b.rxcq, &entry, 1), -FI_EAGAIN);
	flow_post_send(t, 0, 1);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == NULL);
	CHECK(holds(in, FLOW_LEN, 0));
}

TEST(fi_endpoint, cancel_one_of_equal, EP_ANY, FI_MSG, "Of several operations with the same context one is cancelled")
{
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry entry;
	struct flow *flow;

	PAIR(t);
	flow = flow_post_recv(t, 0, 1);
	POST(t, fi_recv(t->b.ep, flow->in[1], FLOW_LEN, flow->in_desc, FI_ADDR_UNSPEC, &flow->rx[0]));
	OK_OR_SKIP(fi_cancel(&t->b.ep->fid, &flow->rx[0]));
	wait_err(t, t->b.rxcq, &err);
	CHECK_RC(fi_cq_read(t->b.rxcq, &entry, 1), -FI_EAGAIN);
	flow_post_send(t, 0, 1);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &flow->rx[0]);
}

TEST(fi_endpoint, cancel_tagged, EP_ANY, FI_TAGGED, "A pending tagged receive can be cancelled")
{
	struct fi_cq_err_entry err = { 0 };
	struct fi_context2 ctx;
	static char buf[32];

	PAIR(t);
	POST(t, fi_trecv(t->b.ep, buf, sizeof(buf), reg_desc(t, buf, sizeof(buf), FI_RECV), FI_ADDR_UNSPEC, 5, 0, &ctx));
	OK_OR_SKIP(fi_cancel(&t->b.ep->fid, &ctx));
	wait_err(t, t->b.rxcq, &err);
	CHECK_EQ(err.err, FI_ECANCELED);
	CHECK(err.op_context == &ctx);
	CHECK_EQ(err.flags & (FI_TAGGED | FI_RECV | FI_MSG), FI_TAGGED | FI_RECV);
}

// Fills the queue of a with sends to a peer that reads nothing; the last but one has then not begun to leave. Messages
// through memory are too small for the peer to fetch them. Messages through sockets, or in a short queue, are too large
// to be copied.
enum { SENT_MAX = 20000 };

static void check_cancels_unsent(struct env *t, bool tagged, uint64_t flags)
{
	const char *shared = getenv("FI_TCP_SHARED_MEMORY");
	bool sockets = is_tcp(t) && (t->type == FI_EP_MSG || (shared && !strcmp(shared, "0")));
	bool is_short = t->info->tx_attr->size < 64;
	size_t len = sockets || is_short ? 200000 : 8000;
	static struct op sends[SENT_MAX];
	struct fi_cq_tagged_entry entry;
	struct buf out, in;
	unsigned count = 0, cancelled;
	ssize_t rc;

	if (is_linked(t) && flags)
		SKIP("a full queue makes progress, so all may have been sent");
	t->hints->domain_attr->progress = FI_PROGRESS_MANUAL;
	env_info(t);
	PAIR(t, .cq.size = SENT_MAX);
	out = new_buf(t, SENT_MAX + len, 1); // each message has bytes of its own
	in = new_buf(t, len, 0);
	do {
		struct op *send = &sends[count];

		*send = op_of(SENDMSG, tagged, part(out, count, len), t->a.peer);
		send->flags = flags;
		if (count == 0) { // establishes the connection
			struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);

			op_post(t, t->b.ep, &recv);
			op_post(t, t->a.ep, send);
			wait_comp(t, t->b.rxcq, &entry);
			wait_comp(t, t->a.txcq, &entry);
			rc = 0;
		} else {
			rc = op_try(t->a.ep, send);
			CHECK(rc == 0 || rc == -FI_EAGAIN);
		}
		count += !rc;
	} while (!rc && count < SENT_MAX);
	CHECK(count > 3 && count < SENT_MAX);
	cancelled = count - 2;
	OK(fi_cancel(&t->a.ep->fid, sends[cancelled].ctx));
	for (unsigned i = 1; i < count; i++) {
		struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);

		if (i == cancelled)
			continue;
		op_post(t, t->b.ep, &recv);
		wait_comp(t, t->b.rxcq, &entry);
		CHECK(entry.op_context == recv.ctx);
		CHECK_EQ(entry.len, len);
		CHECK(!memcmp(host_view(in.mem), host_view(out.mem + i), len));
	}
	for (unsigned i = 1; i < count; i++) {
		struct fi_cq_err_entry err = { 0 };

		ONCE(t, (rc = fi_cq_read(t->a.txcq, &entry, 1)) != -FI_EAGAIN);
		if (rc == -FI_EAVAIL) {
			CHECK_RC(fi_cq_readerr(t->a.txcq, &err, 0), 1);
			CHECK_EQ(err.err, FI_ECANCELED);
			CHECK(err.op_context == sends[cancelled].ctx);
		} else {
			CHECK_RC(rc, 1);
			CHECK(entry.op_context != sends[cancelled].ctx);
		}
	}
	turn(t);
	nothing(t->a.txcq);
	nothing(t->b.rxcq);
}

BOTH(cancel_unsent, EP_RELIABLE, 0, "A send of which nothing has left is cancelled: FI_ECANCELED, and the peer sees the others")
{
	check_cancels_unsent(t, tagged, 0);
}

BOTH(cancel_unsent_delivery, EP_RELIABLE, 0, "The same of sends that wait for the peer's answer")
{
	check_cancels_unsent(t, tagged, FI_DELIVERY_COMPLETE);
}

TEST(fi_endpoint, cancel_many, EP_ANY, FI_MSG, "All of many pending receives can be cancelled, in any order")
{
	bool seen[64] = { false };

	PAIR(t);
	flow_post_recv(t, 0, 64);
	for (unsigned i = 0; i < 64; i++)
		OK_OR_SKIP(fi_cancel(&t->b.ep->fid, &t->flow->rx[(i * 37) % 64]));
	for (unsigned i = 0; i < 64; i++) {
		struct fi_cq_err_entry err = { 0 };
		ptrdiff_t which;

		wait_err(t, t->b.rxcq, &err);
		which = (struct fi_context2 *)err.op_context - t->flow->rx;
		CHECK(which >= 0 && which < 64 && !seen[which]);
		seen[which] = true;
	}
}

// ---- Options

TEST(fi_endpoint, option_unknown, EP_ANY, FI_MSG, "An option or level that is not supported gives -FI_ENOPROTOOPT")
{
	struct fid_ep *ep = open_ep(t, t->info);
	uint64_t value = 0;
	size_t len = sizeof(value);

	CHECK_RC(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, 0x7fff, &value, &len), -FI_ENOPROTOOPT);
	CHECK_RC(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, 0x7fff, &value, sizeof(value)), -FI_ENOPROTOOPT);
	CHECK_RC(fi_getopt(&ep->fid, 0x7fff, FI_OPT_MIN_MULTI_RECV, &value, &len), -FI_ENOPROTOOPT);
	CHECK_RC(fi_setopt(&ep->fid, 0x7fff, FI_OPT_MIN_MULTI_RECV, &value, sizeof(value)), -FI_ENOPROTOOPT);
}

TEST(fi_endpoint, option_min_multi_recv, EP_ANY, FI_MSG | FI_MULTI_RECV, "FI_OPT_MIN_MULTI_RECV can be read and set before the endpoint is enabled")
{
	struct fid_ep *ep = open_bound_ep(t, &t->a);
	size_t value = 0, len = sizeof(value), want = 333;

	OK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len));
	CHECK_EQ(len, sizeof(value));
	OK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &want, sizeof(want)));
	OK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len));
	CHECK_EQ(value, 333);
}

TEST(fi_endpoint, option_wrong_size, EP_ANY, FI_MSG | FI_MULTI_RECV, "A value of the wrong size is refused; a short buffer gives -FI_ETOOSMALL and nothing is written")
{
	struct fid_ep *ep = open_ep(t, t->info);
	uint8_t small[2] = { 0xa5, 0xa5 };
	size_t len = 1, want = 1;

	CHECK_RC(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, small, &len), -FI_ETOOSMALL);
	CHECK(small[0] == 0xa5 && small[1] == 0xa5);
	CHECK_RC2(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &want, 1), -FI_EINVAL, -FI_ETOOSMALL);
}

TEST(fi_endpoint, option_cm_data_size, EP_MSG, FI_MSG, "FI_OPT_CM_DATA_SIZE can be read, of active and passive endpoints, and not set")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, 0);
	struct fid_pep *pep = open_pep(t, eq);
	struct fid_ep *ep = open_ep(t, t->info);
	size_t active = 0, passive = 0, len = sizeof(size_t);

	OK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &active, &len));
	len = sizeof(size_t);
	OK(fi_getopt(&pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &passive, &len));
	CHECK(active > 0 && passive >= active);
	CHECK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &active, sizeof(active)) < 0);
	len = 1;
	CHECK_RC(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &active, &len), -FI_ETOOSMALL);
}

static void check_limit(struct env *t, int option, size_t limit)
{
	struct fid_ep *ep = open_ep(t, t->info);
	size_t value = 0, len = sizeof(value), more;
	int rc = fi_getopt(&ep->fid, FI_OPT_ENDPOINT, option, &value, &len);

	if (rc == -FI_ENOPROTOOPT)
		SKIP("not offered");
	OK(rc);
	CHECK_EQ(len, sizeof(value));
	CHECK(value <= limit);
	more = limit + 1;
	if (more)
		CHECK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, option, &more, sizeof(more)) < 0);
}

TEST(fi_endpoint, option_max_msg_size, EP_ANY, FI_MSG, "FI_OPT_MAX_MSG_SIZE is at most max_msg_size, or -FI_ENOPROTOOPT")
{
	check_limit(t, FI_OPT_MAX_MSG_SIZE, t->info->ep_attr->max_msg_size);
}

TEST(fi_endpoint, option_max_tagged_size, EP_ANY, FI_TAGGED, "FI_OPT_MAX_TAGGED_SIZE is at most max_msg_size, or -FI_ENOPROTOOPT")
{
	check_limit(t, FI_OPT_MAX_TAGGED_SIZE, t->info->ep_attr->max_msg_size);
}

TEST(fi_endpoint, option_max_rma_size, EP_ANY, FI_RMA, "FI_OPT_MAX_RMA_SIZE is at most max_msg_size, or -FI_ENOPROTOOPT")
{
	check_limit(t, FI_OPT_MAX_RMA_SIZE, t->info->ep_attr->max_msg_size);
}

TEST(fi_endpoint, option_max_atomic_size, EP_ANY, FI_ATOMIC, "FI_OPT_MAX_ATOMIC_SIZE is at most max_msg_size, or -FI_ENOPROTOOPT")
{
	check_limit(t, FI_OPT_MAX_ATOMIC_SIZE, t->info->ep_attr->max_msg_size);
}

TEST(fi_endpoint, option_inject_sizes, EP_ANY, FI_MSG, "The four inject size options are at most inject_size, or -FI_ENOPROTOOPT")
{
	static const int options[] = {
		FI_OPT_INJECT_MSG_SIZE, FI_OPT_INJECT_TAGGED_SIZE, FI_OPT_INJECT_RMA_SIZE, FI_OPT_INJECT_ATOMIC_SIZE,
	};
	struct fid_ep *ep = open_ep(t, t->info);

	for (size_t i = 0; i < 4; i++) {
		size_t value = 0, len = sizeof(value);
		int rc = fi_getopt(&ep->fid, FI_OPT_ENDPOINT, options[i], &value, &len);

		CHECK_RC2(rc, 0, -FI_ENOPROTOOPT);
		if (!rc)
			CHECK(value <= t->info->tx_attr->inject_size);
	}
}

TEST(fi_endpoint, option_shared_memory, EP_ANY, FI_MSG, "FI_OPT_SHARED_MEMORY_PERMITTED can be set, or gives -FI_ENOPROTOOPT")
{
	struct fid_ep *ep = open_ep(t, t->info);
	bool permitted = false;

	CHECK_RC2(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED, &permitted, sizeof(permitted)), 0,
		  -FI_ENOPROTOOPT);
}

TEST(fi_endpoint, option_hmem_p2p, EP_ANY, FI_MSG, "FI_OPT_FI_HMEM_P2P takes its four values, or gives -FI_ENOPROTOOPT or -FI_EOPNOTSUPP")
{
	struct fid_ep *ep = open_ep(t, t->info);

	for (int value = FI_HMEM_P2P_ENABLED; value <= FI_HMEM_P2P_DISABLED; value++) {
		int rc = fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_FI_HMEM_P2P, &value, sizeof(value));

		CHECK(rc == 0 || rc == -FI_ENOPROTOOPT || rc == -FI_EOPNOTSUPP);
	}
}

TEST(fi_endpoint, option_every_number, EP_ANY, FI_MSG, "Every option there is can be asked for: a value within the room given, or an error code")
{
	struct fid_ep *ep = open_ep(t, t->info);

	for (int option = FI_OPT_MIN_MULTI_RECV; option <= FI_OPT_FIREWALL_ADDR; option++) {
		uint8_t value[64];
		size_t len = 32;
		int rc;

		memset(value, 0xa5, sizeof(value));
		rc = fi_getopt(&ep->fid, FI_OPT_ENDPOINT, option, value, &len);
		CHECK(rc == 0 || rc == -FI_ENOPROTOOPT || rc == -FI_EOPNOTSUPP || rc == -FI_EINVAL);
		if (!rc)
			CHECK(len <= 32);
		for (size_t i = 32; i < sizeof(value); i++)
			CHECK_EQ(value[i], 0xa5);
	}
}

TEST(fi_endpoint, option_after_enable, EP_ANY, FI_MSG | FI_MULTI_RECV, "Options are set before the endpoint is enabled: later the call works or is refused, and the value stays whole")
{
	struct fid_ep *ep = open_bound_ep(t, &t->a);
	size_t before = 0, after = 0, len = sizeof(size_t), want = 77;
	int rc;

	OK(fi_enable(ep));
	OK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &before, &len));
	rc = fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &want, sizeof(want));
	CHECK(rc <= 0);
	OK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &after, &len));
	CHECK_EQ(after, rc ? before : want);
}

// ---- Operation flags

TEST(fi_endpoint, opsflag_get, EP_ANY, FI_MSG, "FI_GETOPSFLAG gives the flags of the direction asked for")
{
	struct fid_ep *ep;
	uint64_t flags = FI_TRANSMIT;

	if (t->type == FI_EP_DGRAM)
		SKIP("completion levels are for reliable endpoints");
	t->info->tx_attr->op_flags |= FI_INJECT_COMPLETE;
	ep = open_ep(t, t->info);
	OK_OR_SKIP(fi_control(&ep->fid, FI_GETOPSFLAG, &flags));
	CHECK(flags & FI_INJECT_COMPLETE);
	flags = FI_RECV;
	OK(fi_control(&ep->fid, FI_GETOPSFLAG, &flags));
	CHECK(!(flags & FI_INJECT_COMPLETE));
}

TEST(fi_endpoint, opsflag_set, EP_ANY, FI_MSG, "FI_SETOPSFLAG replaces the flags of one direction")
{
	struct fid_ep *ep = open_bound_ep(t, &t->a);
	uint64_t flags = FI_TRANSMIT | FI_COMPLETION | FI_INJECT_COMPLETE;

	OK_OR_SKIP(fi_control(&ep->fid, FI_SETOPSFLAG, &flags));
	flags = FI_TRANSMIT;
	OK(fi_control(&ep->fid, FI_GETOPSFLAG, &flags));
	CHECK_EQ(flags & (FI_COMPLETION | FI_INJECT_COMPLETE | FI_DELIVERY_COMPLETE), FI_COMPLETION | FI_INJECT_COMPLETE);
	flags = FI_TRANSMIT;
	OK(fi_control(&ep->fid, FI_SETOPSFLAG, &flags));
	OK(fi_control(&ep->fid, FI_GETOPSFLAG, &flags));
	CHECK_EQ(flags & (FI_COMPLETION | FI_INJECT_COMPLETE), 0);
}

TEST(fi_endpoint, opsflag_one_direction, EP_ANY, FI_MSG, "Exactly one of FI_TRANSMIT and FI_RECV must be given")
{
	struct fid_ep *ep = open_bound_ep(t, &t->a);
	uint64_t flags = FI_TRANSMIT | FI_RECV;

	CHECK(fi_control(&ep->fid, FI_GETOPSFLAG, &flags) < 0);
	flags = 0;
	CHECK(fi_control(&ep->fid, FI_GETOPSFLAG, &flags) < 0);
	flags = FI_TRANSMIT | FI_RECV;
	CHECK(fi_control(&ep->fid, FI_SETOPSFLAG, &flags) < 0);
	flags = FI_COMPLETION;
	CHECK(fi_control(&ep->fid, FI_SETOPSFLAG, &flags) < 0);
}

TEST(fi_endpoint, control_unknown_command, EP_ANY, FI_MSG, "A command that an endpoint does not know gives -FI_ENOSYS")
{
	uint64_t arg = 0;

	CHECK_RC(fi_control(&open_ep(t, t->info)->fid, 0x7fff, &arg), -FI_ENOSYS);
}

TEST(fi_endpoint, size_left, EP_ANY, FI_MSG, "The deprecated size queries give a count or an error; never more receives than the queue has")
{
	ssize_t rx, tx;

	PAIR(t);
	rx = fi_rx_size_left(t->b.ep);
	tx = fi_tx_size_left(t->a.ep);
	CHECK(rx == -FI_ENOSYS || rx == -FI_EOPNOTSUPP || (rx >= 0 && (size_t)rx <= t->b.info->rx_attr->size));
	CHECK(tx == -FI_ENOSYS || tx == -FI_EOPNOTSUPP || (tx >= 0 && (size_t)tx <= t->a.info->tx_attr->size));
}

// ---- Aliases

static struct fid_ep *alias(struct env *t, struct fid_ep *ep, uint64_t flags)
{
	struct fid_ep *alias = NULL;

	OK_OR_SKIP(fi_ep_alias(ep, &alias, flags));
	keep(t, &alias->fid);
	return alias;
}

TEST(fi_endpoint, alias_sends, EP_ANY, FI_MSG, "An alias sends on its parent's path, with the flags given to it")
{
	struct fi_cq_tagged_entry entry;
	struct fid_ep *other;

	PAIR(t, .tx_flags = FI_SELECTIVE_COMPLETION);
	other = alias(t, t->a.ep, FI_TRANSMIT | FI_COMPLETION);
	flow_post_recv(t, 0, 2);
	flow_post_send(t, 0, 1); // has no completion entry
	fill(t->flow->out[1], FLOW_LEN, 1);
	POST(t, fi_send(other, t->flow->out[1], FLOW_LEN, t->flow->out_desc, t->a.peer, &t->flow->tx[1]));
	wait_comp(t, t->b.rxcq, NULL);
	wait_comp(t, t->b.rxcq, NULL);
	wait_comp(t, t->a.txcq, &entry);
	CHECK(entry.op_context == &t->flow->tx[1]);
}

TEST(fi_endpoint, alias_holds_parent, EP_ANY, FI_MSG, "The endpoint is released only when its aliases are closed")
{
	struct fid_ep *ep = open_bound_ep(t, &t->a), *other;

	other = alias(t, ep, FI_TRANSMIT);
	CHECK_RC(fi_close(&ep->fid), -FI_EBUSY);
	shut(t, &other->fid);
	shut(t, &ep->fid);
}

TEST(fi_endpoint, alias_one_direction, EP_ANY, FI_MSG, "An alias takes flags with exactly one of FI_TRANSMIT and FI_RECV")
{
	struct fid_ep *ep = open_bound_ep(t, &t->a), *other = NULL;

	CHECK(fi_ep_alias(ep, &other, FI_TRANSMIT | FI_RECV) < 0);
	CHECK(fi_ep_alias(ep, &other, FI_COMPLETION) < 0);
	CHECK(!other);
}

// ---- Memory

// Bytes of the heap in use, including large blocks.
static size_t heap(void)
{
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
#else
	return 0; // this C library has no such count
#endif
}

TEST(fi_endpoint, closed_leaves_no_memory, EP_RDM | EP_DGRAM | OURS_ONLY, FI_MSG, "Endpoints opened and closed in a lasting domain leave no memory behind, though nothing reads a queue")
{
	enum { WARM = 20, COUNT = 120, MOST = 4096 };
	size_t before = 0;

	PAIR(t);
	for (int i = 0; i < COUNT; i++) {
		struct fid_ep *ep;

		if (i == WARM)
			before = heap();
		OK(fi_endpoint(t->domain, t->a.info, &ep, NULL));
		OK(fi_ep_bind(ep, &t->a.txcq->fid, FI_TRANSMIT));
		OK(fi_ep_bind(ep, &t->a.rxcq->fid, FI_RECV));
		OK(fi_ep_bind(ep, &t->a.av->fid, 0));
		OK(fi_enable(ep));
		OK(fi_close(&ep->fid));
	}
	CHECK(heap() <= before + (COUNT - WARM) * MOST);
}
