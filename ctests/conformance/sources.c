// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cq(3) FI_SOURCE, fi_msg(3) and fi_tagged(3) FI_DIRECTED_RECV: the source of messages, and receives that name a
//! sender.
#include "transfer.h"

enum { LEN = 32, PEERS = 3 };

// b is the target, sides[1..PEERS] send to it.
struct group {
	struct side sides[PEERS + 1];
	fi_addr_t at[(PEERS + 1) * (PEERS + 1)];
};

static struct group *open_peers(struct env *t)
{
	struct group *group = keep_mem(sizeof(struct group));

	open_group(t, group->sides, PEERS + 1, group->at);
	return group;
}

static fi_addr_t sender(struct group *group, unsigned peer) // its address at the target
{
	return group->at[peer];
}

static void send_from(struct env *t, struct group *group, unsigned peer, bool tagged, unsigned seed)
{
	struct op op = op_of(SEND, tagged, new_buf(t, LEN, seed), group->at[peer * (PEERS + 1)]);

	op_post(t, group->sides[peer].ep, &op);
	wait_comp(t, group->sides[peer].txcq, NULL);
}

struct post {
	struct buf in;
	void *ctx;
};

static struct post recv_from(struct env *t, struct group *group, bool tagged, fi_addr_t from)
{
	struct post post = { .in = new_buf(t, LEN, 0) };
	struct op op = op_of(RECV, tagged, post.in, from);

	op_post(t, group->sides[0].ep, &op);
	post.ctx = op.ctx;
	return post;
}

// Completions of different senders may come in any order: looks for the one of this receive.
static void got(struct env *t, struct group *group, bool tagged, struct post post, unsigned seed)
{
	done(t, group->sides[0].rxcq, post.ctx, RECEIVED(tagged));
	CHECK(holds(post.in, LEN, seed));
}

BOTH(source_address, EP_AV, FI_SOURCE, "With FI_SOURCE each received message comes with the sender's address in the endpoint's table")
{
	struct group *group = open_peers(t);

	for (unsigned i = 0; i < 6; i++) {
		unsigned peer = 1 + i % PEERS;
		struct fi_cq_tagged_entry comp;
		fi_addr_t from = 12345;
		ssize_t rc;

		recv_from(t, group, tagged, FI_ADDR_UNSPEC);
		send_from(t, group, peer, tagged, i + 1);
		ONCE(t, (rc = fi_cq_readfrom(group->sides[0].rxcq, &comp, 1, &from)) != -FI_EAGAIN);
		CHECK_RC(rc, 1);
		CHECK_EQ(from, sender(group, peer));
	}
}

BOTH(source_of_unexpected, EP_AV, FI_SOURCE, "The same for messages that came before their receives")
{
	struct group *group = open_peers(t);

	for (unsigned i = 0; i < 3; i++) {
		struct fi_cq_tagged_entry comp;
		fi_addr_t from = 12345;
		ssize_t rc;

		send_from(t, group, 1 + i, tagged, i + 1);
		turn(t);
		recv_from(t, group, tagged, FI_ADDR_UNSPEC);
		ONCE(t, (rc = fi_cq_readfrom(group->sides[0].rxcq, &comp, 1, &from)) != -FI_EAGAIN);
		CHECK_RC(rc, 1);
		CHECK_EQ(from, sender(group, 1 + i));
	}
}

BOTH(source_many_at_once, EP_RDM, FI_SOURCE, "Several completions read at once come with as many addresses")
{
	struct group *group = open_peers(t);
	struct fi_cq_tagged_entry comps[8];
	fi_addr_t from[8];
	unsigned got = 0;

	for (unsigned i = 0; i < 6; i++)
		recv_from(t, group, tagged, FI_ADDR_UNSPEC);
	for (unsigned i = 0; i < 6; i++)
		send_from(t, group, 1 + i % PEERS, tagged, i % PEERS + 1);
	turn(t);
	while (got < 6) {
		ssize_t rc;

		ONCE(t, (rc = fi_cq_readfrom(group->sides[0].rxcq, comps + got, 8 - got, from + got)) != -FI_EAGAIN);
		CHECK(rc > 0);
		got += rc;
	}
	for (unsigned peer = 1; peer <= PEERS; peer++) {
		unsigned count = 0;

		for (unsigned i = 0; i < 6; i++)
			count += from[i] == sender(group, peer);
		CHECK_EQ(count, 2);
	}
}

BOTH(source_unknown, EP_AV, FI_SOURCE, "A sender that is not in the table is reported as FI_ADDR_NOTAVAIL")
{
	struct side a = { 0 }, b = { 0 };
	struct fi_cq_tagged_entry comp;
	fi_addr_t from = 12345;
	ssize_t rc;

	open_bound_ep(t, &a);
	open_bound_ep(t, &b);
	OK(fi_enable(a.ep));
	OK(fi_enable(b.ep));
	b.namelen = sizeof(b.name);
	OK(fi_getname(&b.ep->fid, b.name, &b.namelen));
	CHECK_EQ(fi_av_insert(a.av, b.name, 1, &a.peer, 0, NULL), 1);
	struct buf in = new_buf(t, LEN, 0);
	struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC), send = op_of(SEND, tagged, new_buf(t, LEN, 1), a.peer);

	op_post(t, b.ep, &recv);
	op_post(t, a.ep, &send);
	ONCE(t, (rc = fi_cq_readfrom(b.rxcq, &comp, 1, &from)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	CHECK(from == FI_ADDR_NOTAVAIL);
	CHECK(holds(in, LEN, 1));
}

// A write with data from a to b. `known`: b has the address of a. Returns the result of b's read.
static ssize_t written_data(struct env *t, bool known, size_t len, fi_addr_t *from, struct fi_cq_err_entry *err)
{
	struct side a = { 0 }, b = { 0 };
	struct fi_cq_tagged_entry comp = { 0 };
	fi_addr_t writer = FI_ADDR_NOTAVAIL;
	ssize_t rc;

	open_bound_ep(t, &a);
	open_bound_ep(t, &b);
	OK(fi_enable(a.ep));
	OK(fi_enable(b.ep));
	a.namelen = b.namelen = sizeof(b.name);
	OK(fi_getname(&a.ep->fid, a.name, &a.namelen));
	OK(fi_getname(&b.ep->fid, b.name, &b.namelen));
	CHECK_EQ(fi_av_insert(a.av, b.name, 1, &a.peer, 0, NULL), 1);
	// Another address gets index 0, so that 0 is no valid source.
	CHECK_EQ(fi_av_insert(b.av, b.name, 1, NULL, 0, NULL), 1);
	if (known)
		CHECK_EQ(fi_av_insert(b.av, a.name, 1, &writer, 0, NULL), 1);
	struct buf out = new_buf(t, len, 1);
	struct region target = new_region(t, &b, new_buf(t, len, 0), FI_REMOTE_WRITE);

	POST(t, fi_writedata(a.ep, out.mem, len, out.desc, 0x55, a.peer, target.at, target.key, new_ctx()));
	ONCE(t, (rc = fi_cq_readfrom(b.rxcq, &comp, 1, from)) != -FI_EAGAIN);
	if (rc == 1) {
		CHECK(comp.flags & FI_REMOTE_CQ_DATA);
		CHECK_EQ(comp.data, 0x55);
		CHECK_EQ(*from, writer);
		return rc;
	}
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK_EQ(fi_cq_readerr(b.rxcq, err, 0), 1);
	return rc;
}

TEST(fi_cq, source_of_data, EP_AV, FI_RMA | FI_SOURCE, "The data of a write comes with the fi_addr_t of its writer, or with FI_ADDR_NOTAVAIL if that is not in the table")
{
	struct fi_cq_err_entry err = { 0 };

	if (!t->info->domain_attr->cq_data_size)
		SKIP("no remote CQ data");
	for (unsigned i = 0; i < 4; i++) {
		fi_addr_t from = 12345;

		CHECK_RC(written_data(t, i & 1, i & 2 ? 90000 : 16, &from, &err), 1);
	}
}

TEST(fi_cq, source_of_data_by_error, EP_AV, FI_RMA | FI_SOURCE | FI_SOURCE_ERR, "With FI_SOURCE_ERR it is an error entry FI_EADDRNOTAVAIL with the data if the writer is not in the table, and none if it is")
{
	struct fi_cq_err_entry err = { 0 };
	fi_addr_t from = 12345;

	if (!t->info->domain_attr->cq_data_size)
		SKIP("no remote CQ data");
	CHECK_RC(written_data(t, true, 16, &from, &err), 1);
	CHECK_RC(written_data(t, false, 16, &from, &err), -FI_EAVAIL);
	CHECK_EQ(err.err, FI_EADDRNOTAVAIL);
	CHECK_EQ(err.data, 0x55);
}

BOTH(source_known_later, EP_AV | OURS_ONLY, FI_SOURCE, "A sender inserted after its first message is known from then on")
{
	struct side a = { 0 }, b = { 0 };
	struct fi_cq_tagged_entry comp;
	fi_addr_t from = 12345, known = 0;
	ssize_t rc;

	open_bound_ep(t, &a);
	open_bound_ep(t, &b);
	OK(fi_enable(a.ep));
	OK(fi_enable(b.ep));
	a.namelen = b.namelen = sizeof(b.name);
	OK(fi_getname(&b.ep->fid, b.name, &b.namelen));
	OK(fi_getname(&a.ep->fid, a.name, &a.namelen));
	CHECK_EQ(fi_av_insert(a.av, b.name, 1, &a.peer, 0, NULL), 1);
	for (unsigned i = 0; i < 2; i++) {
		struct op recv = op_of(RECV, tagged, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
		struct op send = op_of(SEND, tagged, new_buf(t, LEN, 1), a.peer);

		op_post(t, b.ep, &recv);
		op_post(t, a.ep, &send);
		ONCE(t, (rc = fi_cq_readfrom(b.rxcq, &comp, 1, &from)) != -FI_EAGAIN);
		CHECK_RC(rc, 1);
		CHECK(from == (i ? known : FI_ADDR_NOTAVAIL));
		CHECK_EQ(fi_av_insert(b.av, a.name, 1, &known, 0, NULL), 1);
	}
}

BOTH(source_inserted_before_receive, EP_AV, FI_SOURCE, "A sender inserted after its message came, but before the receive, is reported")
{
	struct side a = { 0 }, b = { 0 };
	struct fi_cq_tagged_entry comp;
	fi_addr_t from = 12345, known = 0;
	ssize_t rc;

	open_bound_ep(t, &a);
	open_bound_ep(t, &b);
	OK(fi_enable(a.ep));
	OK(fi_enable(b.ep));
	a.namelen = b.namelen = sizeof(b.name);
	OK(fi_getname(&b.ep->fid, b.name, &b.namelen));
	OK(fi_getname(&a.ep->fid, a.name, &a.namelen));
	CHECK_EQ(fi_av_insert(a.av, b.name, 1, &a.peer, 0, NULL), 1);
	struct buf in = new_buf(t, LEN, 0);
	struct op send = op_of(SEND, tagged, new_buf(t, LEN, 1), a.peer), recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);

	op_post(t, a.ep, &send);
	done(t, a.txcq, send.ctx, SENT(tagged));
	turn(t);
	CHECK_EQ(fi_av_insert(b.av, a.name, 1, &known, 0, NULL), 1);
	op_post(t, b.ep, &recv);
	ONCE(t, (rc = fi_cq_readfrom(b.rxcq, &comp, 1, &from)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	CHECK_EQ(from, known);
	CHECK(holds(in, LEN, 1));
}

// A sender that b inserts after it has sent two messages and was closed, or `before`.
static fi_addr_t send_and_leave(struct env *t, struct side *b, bool tagged, bool before)
{
	struct side a = { 0 };
	fi_addr_t known = 12345;

	open_bound_ep(t, &a);
	OK(fi_enable(a.ep));
	a.namelen = sizeof(a.name);
	OK(fi_getname(&a.ep->fid, a.name, &a.namelen));
	if (before)
		CHECK_EQ(fi_av_insert(b->av, a.name, 1, &known, 0, NULL), 1);
	CHECK_EQ(fi_av_insert(a.av, b->name, 1, &a.peer, 0, NULL), 1);
	for (unsigned i = 1; i <= 2; i++) {
		struct op send = op_of(SEND, tagged, new_buf(t, LEN, i), a.peer);

		op_post(t, a.ep, &send);
		wait_comp(t, a.txcq, NULL);
	}
	shut(t, &a.ep->fid);
	// More than enough polls to read the messages and what follows them.
	for (unsigned i = 0; i < 200; i++)
		CHECK_RC(fi_cq_read(b->rxcq, &(struct fi_cq_tagged_entry){ 0 }, 1), -FI_EAGAIN);
	if (!before)
		CHECK_EQ(fi_av_insert(b->av, a.name, 1, &known, 0, NULL), 1);
	return known;
}

BOTH(source_of_closed, EP_RDM | OURS_ONLY, FI_SOURCE | FI_DIRECTED_RECV, "A sender that was closed before it is inserted is known by what it has sent")
{
	struct side b = { 0 };

	open_bound_ep(t, &b);
	OK(fi_enable(b.ep));
	b.namelen = sizeof(b.name);
	OK(fi_getname(&b.ep->fid, b.name, &b.namelen));
	for (unsigned peer = 0; peer < 2; peer++) {
		fi_addr_t known = send_and_leave(t, &b, tagged, false), from;

		for (unsigned i = 1; i <= 2; i++) {
			struct fi_cq_tagged_entry comp;
			struct buf in = new_buf(t, LEN, 0);
			struct op recv = op_of(RECV, tagged, in, i == 1 ? known : FI_ADDR_UNSPEC);
			ssize_t rc;

			from = 54321;
			op_post(t, b.ep, &recv);
			ONCE(t, (rc = fi_cq_readfrom(b.rxcq, &comp, 1, &from)) != -FI_EAGAIN);
			CHECK_RC(rc, 1);
			CHECK_EQ(from, known);
			CHECK(holds(in, LEN, i));
		}
	}
}

BOTH(source_of_removed, EP_RDM | OURS_ONLY, FI_SOURCE | FI_DIRECTED_RECV, "What a sender has left that was closed and removed is not another's that gets its fi_addr_t")
{
	struct side b = { 0 }, other = { 0 };
	struct fi_cq_tagged_entry comp;
	fi_addr_t first, second = 54321, from = 12345;
	ssize_t rc;

	open_bound_ep(t, &b);
	open_bound_ep(t, &other);
	OK(fi_enable(b.ep));
	OK(fi_enable(other.ep));
	b.namelen = other.namelen = sizeof(b.name);
	OK(fi_getname(&b.ep->fid, b.name, &b.namelen));
	OK(fi_getname(&other.ep->fid, other.name, &other.namelen));
	CHECK_EQ(fi_av_insert(other.av, b.name, 1, &other.peer, 0, NULL), 1);

	first = send_and_leave(t, &b, tagged, true);
	OK(fi_av_remove(b.av, &first, 1, 0));
	CHECK_EQ(fi_av_insert(b.av, other.name, 1, &second, 0, NULL), 1);

	struct buf in = new_buf(t, LEN, 0);
	struct op recv = op_of(RECV, tagged, in, second), send = op_of(SEND, tagged, new_buf(t, LEN, 7), other.peer);

	op_post(t, b.ep, &recv);
	op_post(t, other.ep, &send);
	ONCE(t, (rc = fi_cq_readfrom(b.rxcq, &comp, 1, &from)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	CHECK_EQ(from, second);
	CHECK(holds(in, LEN, 7));
}

// ---- Directed receive

BOTH(directed, EP_RDM, FI_DIRECTED_RECV, "A receive that names a sender takes messages of that sender only")
{
	struct group *group = open_peers(t);
	struct post one = recv_from(t, group, tagged, sender(group, 1)), two = recv_from(t, group, tagged, sender(group, 2));

	send_from(t, group, 2, tagged, 2);
	got(t, group, tagged, two, 2);
	send_from(t, group, 1, tagged, 1);
	got(t, group, tagged, one, 1);
}

BOTH(directed_unexpected, EP_RDM, FI_DIRECTED_RECV, "The same for messages that came before their receives")
{
	struct group *group = open_peers(t);

	for (unsigned peer = 1; peer <= PEERS; peer++)
		send_from(t, group, peer, tagged, peer);
	turn(t);
	for (unsigned peer = PEERS; peer > 0; peer--) {
		struct post post = recv_from(t, group, tagged, sender(group, peer));

		got(t, group, tagged, post, peer);
	}
}

BOTH(directed_and_any, EP_RDM, FI_DIRECTED_RECV, "Of a receive that names the sender and one that does not, the one posted first is taken")
{
	struct group *group = open_peers(t);

	for (unsigned any_first = 0; any_first < 2; any_first++) {
		struct post first = recv_from(t, group, tagged, any_first ? FI_ADDR_UNSPEC : sender(group, 1));
		struct post second = recv_from(t, group, tagged, any_first ? sender(group, 1) : FI_ADDR_UNSPEC);

		send_from(t, group, 1, tagged, 1);
		got(t, group, tagged, first, 1);
		send_from(t, group, 1, tagged, 2);
		got(t, group, tagged, second, 2);
	}
}

BOTH(directed_skips_others, EP_RDM, FI_DIRECTED_RECV, "A receive for any sender behind one that names another sender is found")
{
	struct group *group = open_peers(t);
	struct post named = recv_from(t, group, tagged, sender(group, 1)), any = recv_from(t, group, tagged, FI_ADDR_UNSPEC);

	send_from(t, group, 2, tagged, 2);
	got(t, group, tagged, any, 2);
	send_from(t, group, 1, tagged, 1);
	got(t, group, tagged, named, 1);
}

BOTH(directed_ignored_without, EP_AV, 0, "Without FI_DIRECTED_RECV the source address of a receive is ignored")
{
	struct group *group;

	if (t->info->caps & FI_DIRECTED_RECV || t->info->rx_attr->caps & FI_DIRECTED_RECV)
		SKIP("FI_DIRECTED_RECV comes unasked");
	group = open_peers(t);
	struct post post = recv_from(t, group, tagged, sender(group, 1));

	send_from(t, group, 2, tagged, 2);
	got(t, group, tagged, post, 2);
}

BOTH(directed_cancel, EP_RDM, FI_DIRECTED_RECV, "A receive that names a sender can be cancelled")
{
	struct group *group = open_peers(t);
	struct post first = recv_from(t, group, tagged, sender(group, 1)), second = recv_from(t, group, tagged, sender(group, 1));

	OK(fi_cancel(&group->sides[0].ep->fid, first.ctx));
	failed(t, group->sides[0].rxcq, first.ctx, FI_ECANCELED);
	send_from(t, group, 1, tagged, 1);
	got(t, group, tagged, second, 1);
}

BOTH(unaddressed, EP_AV | OURS_ONLY, 0, "A send to an address that is not in the table fails at once")
{
	static const fi_addr_t bad[] = { FI_ADDR_UNSPEC, FI_ADDR_NOTAVAIL, 999, UINT64_C(1) << 40 };

	PAIR(t);
	round_trip(t);
	for (unsigned i = 0; i < 4; i++) {
		struct op op = op_of(SEND, tagged, new_buf(t, LEN, 1), bad[i]);
		ssize_t rc = op_try(t->a.ep, &op);

		if (rc >= 0 || rc == -FI_EAGAIN)
			FAIL("address 0x%" PRIx64 " gave %s", bad[i], rc_name(rc));
	}
	round_trip(t);
}
