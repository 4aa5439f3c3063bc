// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_getinfo(3): FI_TAGGED_DIRECTED_RECV and FI_EXACT_DIRECTED_RECV: receives that name a sender. sources.c tests
//! FI_DIRECTED_RECV.
#include "transfer.h"

enum { LEN = 32, PEERS = 2 };

// b is the target, sides[1] and sides[2] send to it.
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

static void send_from(struct env *t, struct group *group, unsigned peer, bool tagged, unsigned seed)
{
	struct op op = op_of(SEND, tagged, new_buf(t, LEN, seed), group->at[peer * (PEERS + 1)]);

	op_post(t, group->sides[peer].ep, &op);
	wait_comp(t, group->sides[peer].txcq, NULL);
}

struct post {
	struct buf in;
	struct op op;
};

static struct post recv_of(struct env *t, bool tagged, fi_addr_t from)
{
	struct post post = { .in = new_buf(t, LEN, 0) };

	post.op = op_of(RECV, tagged, post.in, from);
	return post;
}

static struct post recv_from(struct env *t, struct group *group, bool tagged, fi_addr_t from)
{
	struct post post = recv_of(t, tagged, from);

	op_post(t, group->sides[0].ep, &post.op);
	return post;
}

static void got(struct env *t, struct group *group, bool tagged, struct post post, unsigned seed)
{
	done(t, group->sides[0].rxcq, post.op.ctx, RECEIVED(tagged));
	CHECK(holds(post.in, LEN, seed));
}

// Posts receives for the second peer and for the first, in this order. The message of the first arrives first.
static void by_source(struct env *t, struct group *group, bool tagged)
{
	for (unsigned unexpected = 0; unexpected < 2; unexpected++) {
		struct post from_2 = { 0 }, from_1 = { 0 };

		if (!unexpected) {
			from_2 = recv_from(t, group, tagged, group->at[2]);
			from_1 = recv_from(t, group, tagged, group->at[1]);
		}
		send_from(t, group, 1, tagged, 1);
		if (!unexpected) {
			got(t, group, tagged, from_1, 1);
			send_from(t, group, 2, tagged, 2);
			got(t, group, tagged, from_2, 2);
			continue;
		}
		send_from(t, group, 2, tagged, 2);
		turn(t);
		from_2 = recv_from(t, group, tagged, group->at[2]);
		got(t, group, tagged, from_2, 2);
		from_1 = recv_from(t, group, tagged, group->at[1]);
		got(t, group, tagged, from_1, 1);
	}
}

TEST(fi_getinfo, tagged_directed, EP_RDM, FI_MSG | FI_TAGGED | FI_TAGGED_DIRECTED_RECV, "With FI_TAGGED_DIRECTED_RECV tagged receives that name a source take its messages only")
{
	struct group *group = open_peers(t);
	struct post any;

	by_source(t, group, true);
	any = recv_from(t, group, true, FI_ADDR_UNSPEC);
	send_from(t, group, 2, true, 3);
	got(t, group, true, any, 3);
}

TEST(fi_getinfo, tagged_directed_is_tagged, EP_RDM, FI_MSG | FI_TAGGED | FI_TAGGED_DIRECTED_RECV, "FI_TAGGED_DIRECTED_RECV is for tagged receives only: src_addr of others is ignored")
{
	struct group *group = open_peers(t);
	struct post post;

	if (t->info->caps & FI_DIRECTED_RECV)
		SKIP("all receives are directed");
	post = recv_from(t, group, false, group->at[2]);
	send_from(t, group, 1, false, 1);
	got(t, group, false, post, 1);
}

TEST(fi_getinfo, exact_directed, EP_RDM, FI_MSG | FI_TAGGED | FI_EXACT_DIRECTED_RECV, "FI_EXACT_DIRECTED_RECV alone: all receives name their source, and FI_ADDR_UNSPEC is refused")
{
	struct group *group = open_peers(t);
	struct post untagged = recv_of(t, false, FI_ADDR_UNSPEC), tagged = recv_of(t, true, FI_ADDR_UNSPEC);

	CHECK_RC(op_try(group->sides[0].ep, &untagged.op), -FI_EINVAL);
	CHECK_RC(op_try(group->sides[0].ep, &tagged.op), -FI_EINVAL);
	tagged.op.form = RECVMSG;
	CHECK_RC(op_try(group->sides[0].ep, &tagged.op), -FI_EINVAL);
	by_source(t, group, false);
	by_source(t, group, true);
}

TEST(fi_getinfo, exact_directed_modifies, EP_RDM, FI_MSG | FI_TAGGED | FI_TAGGED_DIRECTED_RECV | FI_EXACT_DIRECTED_RECV, "FI_EXACT_DIRECTED_RECV with FI_TAGGED_DIRECTED_RECV: only tagged receives have to name their source")
{
	struct group *group = open_peers(t);
	struct post untagged, tagged = recv_of(t, true, FI_ADDR_UNSPEC);

	CHECK_RC(op_try(group->sides[0].ep, &tagged.op), -FI_EINVAL);
	by_source(t, group, true);
	untagged = recv_from(t, group, false, FI_ADDR_UNSPEC);
	send_from(t, group, 2, false, 3);
	got(t, group, false, untagged, 3);
}
