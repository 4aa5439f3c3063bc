// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cq(3): non-blocking reads, the contents of each format's entry, source addresses, room for completions.
#include "transfer.h"

enum { CANARY = 0xa5 };

// Checks that an entry of the format arrives, has exactly the size of its structure, and leaves later bytes unchanged.
static const void *entry_of(struct env *t, enum fi_cq_format format, size_t size, bool receive)
{
	static union {
		struct fi_cq_tagged_entry entry;
		uint8_t bytes[256];
	} buf;
	struct pair_opt opt = { .cq.format = format };

	pair_open(t, &opt);
	flow_post_recv(t, 0, 1);
	flow_post_send(t, 0, 1);
	memset(&buf, CANARY, sizeof(buf));
	wait_read(t, receive ? t->b.rxcq : t->a.txcq, &buf);
	for (size_t i = size; i < sizeof(buf); i++)
		CHECK_EQ(buf.bytes[i], CANARY);
	CHECK(buf.entry.op_context == (receive ? &t->flow->rx[0] : &t->flow->tx[0]));
	return &buf;
}

TEST(fi_cq, read_format_context, EP_ANY, FI_MSG, "FI_CQ_FORMAT_CONTEXT gives the operation's context and no more")
{
	entry_of(t, FI_CQ_FORMAT_CONTEXT, sizeof(struct fi_cq_entry), true);
}

TEST(fi_cq, read_format_msg, EP_ANY, FI_MSG, "FI_CQ_FORMAT_MSG adds flags and, for receives, the length")
{
	const struct fi_cq_msg_entry *entry = entry_of(t, FI_CQ_FORMAT_MSG, sizeof(*entry), true);

	CHECK_EQ(entry->flags & (FI_MSG | FI_RECV | FI_SEND | FI_TAGGED), FI_MSG | FI_RECV);
	CHECK_EQ(entry->len, FLOW_LEN);
}

TEST(fi_cq, read_format_data, EP_ANY, FI_MSG, "FI_CQ_FORMAT_DATA adds the buffer and remote CQ data; without data the flag is not set")
{
	const struct fi_cq_data_entry *entry = entry_of(t, FI_CQ_FORMAT_DATA, sizeof(*entry), true);

	CHECK_EQ(entry->flags & (FI_MSG | FI_RECV | FI_SEND | FI_REMOTE_CQ_DATA | FI_MULTI_RECV), FI_MSG | FI_RECV);
	CHECK_EQ(entry->len, FLOW_LEN);
}

TEST(fi_cq, read_format_tagged, EP_ANY, FI_MSG, "FI_CQ_FORMAT_TAGGED serves untagged operations too")
{
	const struct fi_cq_tagged_entry *entry = entry_of(t, FI_CQ_FORMAT_TAGGED, sizeof(*entry), true);

	CHECK_EQ(entry->flags & (FI_MSG | FI_RECV | FI_SEND | FI_TAGGED), FI_MSG | FI_RECV);
	CHECK_EQ(entry->len, FLOW_LEN);
}

TEST(fi_cq, read_send_entry, EP_ANY, FI_MSG, "A completed send carries its context and FI_MSG | FI_SEND")
{
	const struct fi_cq_tagged_entry *entry = entry_of(t, FI_CQ_FORMAT_TAGGED, sizeof(*entry), false);

	CHECK_EQ(entry->flags & (FI_MSG | FI_RECV | FI_SEND | FI_TAGGED | FI_RMA), FI_MSG | FI_SEND);
}

TEST(fi_cq, read_empty, EP_ANY, FI_MSG, "Reading a queue without completions gives -FI_EAGAIN")
{
	struct fi_cq_tagged_entry entry;

	PAIR(t);
	CHECK_RC(fi_cq_read(t->a.txcq, &entry, 1), -FI_EAGAIN);
	CHECK_RC(fi_cq_read(t->b.rxcq, &entry, 1), -FI_EAGAIN);
}

TEST(fi_cq, read_unbound, EP_ANY, FI_MSG, "A queue that no endpoint is bound to has nothing to read")
{
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_UNSPEC);
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { 0 };

	CHECK_RC(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
	CHECK_RC(fi_cq_sread(cq, &entry, 1, NULL, 5), -FI_EAGAIN);
	CHECK_RC(fi_cq_readerr(cq, &err, 0), -FI_EAGAIN);
}

TEST(fi_cq, read_at_most_count, EP_ANY, FI_MSG, "A read returns at most count entries, in order, and says how many")
{
	struct fi_cq_tagged_entry entries[8];
	unsigned got = 0;

	PAIR(t);
	flow_run(t, 0, 20);
	while (got < 20) {
		ssize_t rc = -FI_EAGAIN;

		ONCE(t, (rc = fi_cq_read(t->b.rxcq, entries, 3)) != -FI_EAGAIN);
		CHECK(rc >= 1 && rc <= 3);
		for (int i = 0; i < rc; i++)
			CHECK(entries[i].op_context == &t->flow->rx[got++]);
	}
	CHECK_RC(fi_cq_read(t->b.rxcq, entries, 3), -FI_EAGAIN);
}

TEST(fi_cq, read_several_at_once, EP_ANY, FI_MSG, "One read can return several entries")
{
	struct fi_cq_tagged_entry entries[16];
	struct fi_cq_tagged_entry last;
	ssize_t rc;

	// Sends complete in order on their own queue: after the last one the earlier ones can be read.
	PAIR(t);
	flow_post_recv(t, 0, 4);
	flow_post_send(t, 0, 4);
	for (int i = 0; i < 4; i++)
		wait_comp(t, t->b.rxcq, &last);
	ONCE(t, (rc = fi_cq_read(t->a.txcq, entries, 16)) != -FI_EAGAIN);
	CHECK(rc >= 1 && rc <= 4);
	for (int left = 4 - (int)rc; left; left--)
		wait_comp(t, t->a.txcq, &last);
	CHECK_RC(fi_cq_read(t->a.txcq, entries, 16), -FI_EAGAIN);
}

TEST(fi_cq, read_count_zero, EP_ANY, FI_MSG, "A read with count 0 takes no entry; a null buffer is fine")
{
	struct fi_cq_tagged_entry entry;

	PAIR(t);
	CHECK_RC2(fi_cq_read(t->b.rxcq, NULL, 0), 0, -FI_EAGAIN);
	flow_run(t, 0, 1);
	for (int i = 0; i < 100; i++)
		CHECK_RC2(fi_cq_read(t->b.rxcq, NULL, 0), 0, -FI_EAGAIN);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &t->flow->rx[0]);
}

TEST(fi_cq, read_count_zero_drives_progress, EP_ANY, FI_MSG, "Reads with count 0 drive progress: a message arrives by them alone")
{
	PAIR(t);
	flow_post_recv(t, 0, 1);
	flow_post_send(t, 0, 1);
	for (uint64_t limit = now_ms() + t->limit_ms; !filled_by_now(t->flow->in[0], FLOW_LEN, 0);) {
		CHECK(now_ms() < limit);
		fi_cq_read(t->a.txcq, NULL, 0);
		fi_cq_read(t->b.rxcq, NULL, 0);
	}
}

// Checks that message `index` arrives while only b's queue is read, which has an unread entry.
static void check_arrives(struct env *t, unsigned index, size_t count, ssize_t rc)
{
	struct fi_cq_tagged_entry entry;

	flow_post_recv(t, index, 1);
	flow_post_send(t, index, 1);
	for (uint64_t limit = now_ms() + t->limit_ms; !filled_by_now(t->flow->in[index], FLOW_LEN, index);) {
		CHECK(now_ms() < limit);
		CHECK_RC(fi_cq_read(t->b.rxcq, count ? &entry : NULL, count), rc);
	}
}

static void ask_progress(struct env *t, enum fi_progress progress)
{
	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	t->hints->domain_attr->progress = progress;
	env_info(t);
	PAIR(t);
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
}

TEST(fi_cq, read_count_zero_drives_progress_behind_entry, EP_ANY, FI_MSG, "Reads with count 0 drive progress also while an entry is unread")
{
	ask_progress(t, FI_PROGRESS_MANUAL);
	flow_run(t, 1, 1);
	ONCE(t, fi_cq_read(t->b.rxcq, NULL, 0) == 0);
	for (unsigned i = 2; i < 20; i++)
		check_arrives(t, i, 0, 0);
}

TEST(fi_cq, read_count_zero_drives_progress_behind_error, EP_ANY, FI_MSG, "Reads with count 0 drive progress also while an error is unread")
{
	ask_progress(t, FI_PROGRESS_MANUAL);
	flow_error(t, 1);
	for (unsigned i = 2; i < 20; i++)
		check_arrives(t, i, 0, -FI_EAVAIL);
}

TEST(fi_domain, auto_progress_behind_error, EP_ANY, FI_MSG, "FI_PROGRESS_AUTO: progress goes on while the application does nothing but calls that drive none")
{
	struct fi_cq_tagged_entry entry;

	ask_progress(t, FI_PROGRESS_AUTO);
	flow_error(t, 1);
	for (unsigned i = 2; i < 40; i++) {
		// The reads may make a progress thread believe that the application drives progress.
		for (unsigned reads = 0; reads < 5000; reads++)
			CHECK_RC(fi_cq_read(t->b.rxcq, &entry, 1), -FI_EAVAIL);
		check_arrives(t, i, 1, -FI_EAVAIL);
	}
}

TEST(fi_cq, read_in_order, EP_RELIABLE, FI_MSG, "Receives of one sender complete in the order sent (FI_ORDER_SAS)")
{
	PAIR(t);
	if (!(t->info->rx_attr->msg_order & FI_ORDER_SAS))
		SKIP("no FI_ORDER_SAS");
	flow_run(t, 0, 100);
	for (unsigned i = 0; i < 100; i++) {
		struct fi_cq_tagged_entry entry;

		wait_comp(t, t->b.rxcq, &entry);
		CHECK(entry.op_context == &t->flow->rx[i]);
		CHECK(filled(t->flow->in[i], FLOW_LEN, i));
	}
}

TEST(fi_cq, size_is_a_minimum, EP_ANY, FI_MSG, "A queue of size n holds at least n completions")
{
	PAIR(t, .cq.size = 100);
	flow_run(t, 0, 100);
	for (unsigned i = 0; i < 100; i++)
		wait_comp(t, t->b.rxcq, NULL);
}

TEST(fi_cq, full_queue_loses_nothing, EP_RELIABLE, FI_MSG, "With FI_RM_ENABLED more operations than the queue has entries all complete")
{
	t->hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
	env_info(t);
	PAIR(t, .cq.size = 4);
	flow_post_recv(t, 0, 64);
	for (unsigned i = 0; i < 64; i++) {
		struct fi_cq_tagged_entry entry;

		fill(t->flow->out[i], FLOW_LEN, i);
		POST(t, fi_send(t->a.ep, t->flow->out[i], FLOW_LEN, t->flow->out_desc, t->a.peer, &t->flow->tx[i]));
		wait_comp(t, t->a.txcq, &entry);
		CHECK(entry.op_context == &t->flow->tx[i]);
	}
	for (unsigned i = 0; i < 64; i++) {
		struct fi_cq_tagged_entry entry;

		wait_comp(t, t->b.rxcq, &entry);
		CHECK(entry.op_context == &t->flow->rx[i]);
	}
}

TEST(fi_cq, overrun, EP_RELIABLE, FI_MSG, "With FI_RM_DISABLED a queue with more than its size gives what is valid, in order, and then all or FI_EOVERRUN")
{
	unsigned got = 0;
	ssize_t rc;

	t->hints->domain_attr->resource_mgmt = FI_RM_DISABLED;
	env_info(t);
	PAIR(t, .cq.size = 4);
	flow_post_recv(t, 0, 64);
	for (unsigned i = 0; i < 64; i++) {
		flow_post_send(t, i, 1);
		wait_comp(t, t->a.txcq, NULL);
	}
	for (; got < 64; got++) {
		struct fi_cq_tagged_entry entry;
		struct fi_cq_err_entry err = { 0 };

		ONCE(t, (rc = fi_cq_read(t->b.rxcq, &entry, 1)) != -FI_EAGAIN);
		if (rc == 1) {
			CHECK(entry.op_context == &t->flow->rx[got]);
			continue;
		}
		if (rc == -FI_EAVAIL) {
			CHECK_RC(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
			CHECK_EQ(err.err, FI_EOVERRUN);
		} else {
			CHECK_RC(rc, -FI_EOVERRUN);
		}
		break;
	}
	CHECK(got >= 4);
}

TEST(fi_cq, one_queue_for_many_endpoints, EP_RELIABLE, FI_MSG, "Endpoints share a queue; every operation of both reports there")
{
	bool sent = false, received = false;

	PAIR(t, .same_cq = true);
	flow_post_recv(t, 0, 1);
	flow_post_send(t, 0, 1);
	for (int i = 0; i < 2; i++) {
		struct fi_cq_tagged_entry entry;

		wait_comp(t, t->a.txcq, &entry);
		if (entry.op_context == &t->flow->tx[0])
			sent = !!(entry.flags & FI_SEND);
		else if (entry.op_context == &t->flow->rx[0])
			received = !!(entry.flags & FI_RECV);
	}
	CHECK(sent && received);
}

static ssize_t wait_readfrom(struct env *t, struct fid_cq *cq, fi_addr_t *src)
{
	struct fi_cq_tagged_entry entry;
	ssize_t rc = -FI_EAGAIN;

	ONCE(t, (rc = fi_cq_readfrom(cq, &entry, 1, src)) != -FI_EAGAIN);
	return rc;
}

TEST(fi_cq, readfrom_gives_the_sender, EP_AV, FI_MSG | FI_SOURCE, "With FI_SOURCE fi_cq_readfrom gives the sender's fi_addr_t")
{
	fi_addr_t src = 12345;

	PAIR(t);
	flow_run(t, 0, 1);
	CHECK_RC(wait_readfrom(t, t->b.rxcq, &src), 1);
	CHECK_EQ(src, t->b.peer);
}

TEST(fi_cq, readfrom_unknown_sender, EP_AV, FI_MSG | FI_SOURCE, "A sender that is not in the address vector is FI_ADDR_NOTAVAIL")
{
	fi_addr_t src = 12345;

	PAIR(t);
	OK(fi_av_remove(t->b.av, &t->b.peer, 1, 0));
	flow_run(t, 0, 1);
	CHECK_RC(wait_readfrom(t, t->b.rxcq, &src), 1);
	CHECK_EQ(src, FI_ADDR_NOTAVAIL);
}

TEST(fi_cq, readfrom_source_err, EP_AV, FI_MSG | FI_SOURCE | FI_SOURCE_ERR, "With FI_SOURCE_ERR an unknown sender is an entry FI_EADDRNOTAVAIL whose error data can be inserted")
{
	struct fi_cq_tagged_entry entry;
	uint8_t addr[256];
	struct fi_cq_err_entry err = { .err_data = addr, .err_data_size = sizeof(addr) };
	fi_addr_t src = 12345;

	PAIR(t);
	OK(fi_av_remove(t->b.av, &t->b.peer, 1, 0));
	flow_run(t, 0, 1);
	ONCE(t, fi_cq_readfrom(t->b.rxcq, &entry, 1, &src) == -FI_EAVAIL);
	CHECK_RC(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
	CHECK_EQ(err.err, FI_EADDRNOTAVAIL);
	CHECK(err.op_context == &t->flow->rx[0]);
	CHECK_EQ(err.len, FLOW_LEN);
	CHECK(filled(t->flow->in[0], FLOW_LEN, 0));
	CHECK(err.err_data_size > 0);
	CHECK_RC(fi_av_insert(t->b.av, addr, 1, &t->b.peer, 0, NULL), 1);
	flow_run(t, 1, 1);
	CHECK_RC(wait_readfrom(t, t->b.rxcq, &src), 1);
	CHECK_EQ(src, t->b.peer);
}

// The next entry must be that of an unknown sender. Inserts the address in it.
static void from_stranger(struct env *t, void *ctx, uint64_t flags, size_t len, uint64_t data)
{
	struct fi_cq_tagged_entry entry;
	uint8_t addr[256];
	struct fi_cq_err_entry err = { .err_data = addr, .err_data_size = sizeof(addr) };
	fi_addr_t value;

	ONCE(t, fi_cq_read(t->b.rxcq, &entry, 1) == -FI_EAVAIL);
	CHECK_RC(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
	CHECK_EQ(err.err, FI_EADDRNOTAVAIL);
	CHECK(err.op_context == ctx);
	CHECK_EQ(kind_flags(err.flags), flags);
	CHECK_EQ(err.len, len);
	CHECK_EQ(err.data, data);
	CHECK_EQ(err.src_addr, FI_ADDR_NOTAVAIL);
	CHECK(err.err_data_size > 0);
	CHECK_RC(fi_av_insert(t->b.av, addr, 1, &value, 0, NULL), 1);
	OK(fi_av_remove(t->b.av, &value, 1, 0));
}

TEST(fi_cq, source_err_of_unexpected, EP_RDM, FI_TAGGED | FI_SOURCE | FI_SOURCE_ERR, "With FI_SOURCE_ERR an unknown sender is reported for messages that came before their receives, and when they are peeked")
{
	static const size_t len[] = { 0, 40, 300000 };

	PAIR(t);
	OK(fi_av_remove(t->b.av, &t->b.peer, 1, 0));
	for (unsigned i = 0; i < 3; i++) {
		struct op send = op_of(SENDDATA, true, new_buf(t, len[i], 1), t->a.peer);
		struct fi_msg_tagged peek = { .addr = FI_ADDR_UNSPEC, .tag = TAG, .context = new_ctx() };
		struct fi_cq_tagged_entry entry;
		struct buf in = new_buf(t, len[i], 0);
		int err = FI_ENOMSG;

		op_post(t, t->a.ep, &send);
		while (err == FI_ENOMSG) {
			struct fi_cq_err_entry error = { 0 };

			POST(t, fi_trecvmsg(t->b.ep, &peek, FI_PEEK));
			ONCE(t, fi_cq_read(t->b.rxcq, &entry, 1) == -FI_EAVAIL);
			CHECK_RC(fi_cq_readerr(t->b.rxcq, &error, 0), 1);
			CHECK(error.op_context == peek.context);
			err = error.err;
		}
		CHECK_EQ(err, FI_EADDRNOTAVAIL);
		void *ctx = post_trecv(t, &t->b, in, TAG, 0);
		from_stranger(t, ctx, FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA, len[i], DATA);
		CHECK(holds(in, len[i], 1));
		done(t, t->a.txcq, send.ctx, SENT(true));
	}
}

TEST(fi_cq, source_err_of_write, EP_RDM, FI_RMA | FI_SOURCE | FI_SOURCE_ERR, "With FI_SOURCE_ERR an unknown writer of remote CQ data is reported")
{
	struct buf out = new_buf(t, 64, 1);
	struct region target;

	if (is_layered(t))
		SKIP("the provider below does not tell who writes");
	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, 64, 0), FI_REMOTE_WRITE);
	OK(fi_av_remove(t->b.av, &t->b.peer, 1, 0));
	POST(t, fi_writedata(t->a.ep, out.mem, 64, out.desc, DATA, t->a.peer, target.at, target.key, new_ctx()));
	from_stranger(t, NULL, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, 64, DATA);
	CHECK(holds(target.buf, 64, 1));
}

TEST(fi_cq, source_err_selective, EP_AV, FI_MSG | FI_SOURCE | FI_SOURCE_ERR, "With FI_SOURCE_ERR an unknown sender is reported also for a receive whose completion is suppressed: only success can be")
{
	struct buf in = new_buf(t, 64, 0);
	struct iovec iov = { in.mem, 64 };
	struct fi_msg msg = { .msg_iov = &iov, .desc = &in.desc, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = new_ctx() };
	struct op send = op_of(SEND, false, new_buf(t, 64, 1), FI_ADDR_UNSPEC);

	PAIR(t, .rx_flags = FI_SELECTIVE_COMPLETION);
	OK(fi_av_remove(t->b.av, &t->b.peer, 1, 0));
	send.addr = t->a.peer;
	for (unsigned i = 0; i < 2; i++) { // the receive first, then the message
		if (!i)
			POST(t, fi_recvmsg(t->b.ep, &msg, 0));
		op_post(t, t->a.ep, &send);
		if (i) {
			turn(t);
			POST(t, fi_recvmsg(t->b.ep, &msg, 0));
		}
		from_stranger(t, msg.context, FI_MSG | FI_RECV, 64, 0);
		CHECK(holds(in, 64, 1));
		memset(host_view(in.mem), 0, 64);
	}
}

TEST(fi_getinfo, source_err_needs_source, EP_AV, FI_MSG | FI_SOURCE | FI_SOURCE_ERR, "FI_SOURCE_ERR must be paired with FI_SOURCE")
{
	struct fi_info *hints = fi_dupinfo(t->info), *info = NULL;

	CHECK(t->info->caps & FI_SOURCE_ERR);
	hints->caps = FI_MSG | FI_SOURCE_ERR;
	hints->tx_attr->caps = hints->rx_attr->caps = 0;
	CHECK_RC(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
}

TEST(fi_cq, readfrom_without_source, EP_ANY, FI_MSG, "Without FI_SOURCE the source address is FI_ADDR_NOTAVAIL")
{
	fi_addr_t src = 12345;

	PAIR(t);
	if (t->b.info->caps & FI_SOURCE)
		SKIP("the endpoint has FI_SOURCE although not asked for");
	flow_run(t, 0, 1);
	CHECK_RC(wait_readfrom(t, t->b.rxcq, &src), 1);
	CHECK_EQ(src, FI_ADDR_NOTAVAIL);
}

TEST(fi_cq, readfrom_empty, EP_ANY, FI_MSG, "fi_cq_readfrom on a queue without completions gives -FI_EAGAIN")
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t src;

	PAIR(t);
	CHECK_RC(fi_cq_readfrom(t->b.rxcq, &entry, 1, &src), -FI_EAGAIN);
}

TEST(fi_cq, readfrom_several, EP_AV, FI_MSG | FI_SOURCE, "Each of several entries has its own source address")
{
	struct fi_cq_tagged_entry entries[8];
	unsigned got = 0;

	PAIR(t);
	flow_run(t, 0, 8);
	while (got < 8) {
		fi_addr_t src[8];
		ssize_t rc = -FI_EAGAIN;

		ONCE(t, (rc = fi_cq_readfrom(t->b.rxcq, entries, 8, src)) != -FI_EAGAIN);
		CHECK(rc > 0);
		for (int i = 0; i < rc; i++, got++)
			CHECK_EQ(src[i], t->b.peer);
	}
}
