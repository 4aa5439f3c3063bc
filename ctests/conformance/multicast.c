// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Multicast: joining groups, messages to their members, and leaving: fi_cm(3), fi_join.
#include <arpa/inet.h>
#include <netinet/in.h>

#include "harness.h"

enum { MEMBERS = 3, LEN = 16 };

// Endpoints of one domain. Each has a receive posted, so a surplus message shows where another one is expected.
struct group {
	struct side sides[MEMBERS];
	struct fid_mc *mc[MEMBERS];
	char in[MEMBERS][LEN];
	struct sockaddr_in addr;
};

// The IPv6 loopback interface has no route for groups.
static void open_members(struct env *t, struct group *g, unsigned count)
{
	need_ipv4(t);
	t->eq = open_eq(t, FI_WAIT_NONE, 0);
	for (unsigned i = 0; i < count; i++) {
		size_t len = sizeof(g->sides[i].name);

		open_bound_ep(t, &g->sides[i]);
		OK(fi_ep_bind(g->sides[i].ep, &t->eq->fid, 0));
		OK(fi_enable(g->sides[i].ep));
		OK(fi_getname(&g->sides[i].ep->fid, g->sides[i].name, &len));
		OK(fi_recv(g->sides[i].ep, g->in[i], LEN, NULL, FI_ADDR_UNSPEC, g->in[i]));
	}
	memcpy(&g->addr, g->sides[0].name, sizeof(g->addr));
	CHECK_EQ(inet_pton(AF_INET, "239.11.22.33", &g->addr.sin_addr), 1);
}

static void join(struct env *t, struct group *g, unsigned i, uint64_t flags)
{
	struct fi_eq_entry entry;

	OK(fi_join(g->sides[i].ep, &g->addr, flags, &g->mc[i], &g->mc[i]));
	keep(t, &g->mc[i]->fid);
	CHECK_EQ(wait_event(t, t->eq, FI_JOIN_COMPLETE, &entry, sizeof(entry)), sizeof(entry));
	CHECK(entry.fid == &g->mc[i]->fid && entry.context == &g->mc[i]);
}

// `dest` is the address of the group or of another member.
static ssize_t send_to(struct group *g, unsigned i, fi_addr_t dest, const char *text, uint64_t flags)
{
	struct iovec iov = { .iov_base = (void *) text, .iov_len = strlen(text) + 1 };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = dest };

	return fi_sendmsg(g->sides[i].ep, &msg, flags | FI_INJECT);
}

// The next message of a member must be this one. Posts another receive.
static void gets(struct env *t, struct group *g, unsigned i, const char *text)
{
	struct fi_cq_tagged_entry comp;

	do
		wait_comp(t, g->sides[i].rxcq, &comp);
	while (comp.flags & FI_SEND);
	CHECK(comp.op_context == g->in[i]);
	CHECK_EQ(comp.len, strlen(text) + 1);
	CHECK_STR(g->in[i], text);
	OK(fi_recv(g->sides[i].ep, g->in[i], LEN, NULL, FI_ADDR_UNSPEC, g->in[i]));
}

static void tell(struct env *t, struct group *g, unsigned from, unsigned to, const char *text)
{
	fi_addr_t dest;

	CHECK_EQ(fi_av_insert(g->sides[from].av, g->sides[to].name, 1, &dest, 0, NULL), 1);
	POST(t, send_to(g, from, dest, text, 0));
}

TEST(fi_cm, join_members_get_it, EP_DGRAM, FI_MSG | FI_MULTICAST, "A message to a group reaches all endpoints that have joined it, and no other")
{
	struct group g = { 0 };

	open_members(t, &g, 3);
	join(t, &g, 0, 0);
	join(t, &g, 1, 0);
	CHECK(fi_mc_addr(g.mc[0]) != FI_ADDR_NOTAVAIL);
	POST(t, send_to(&g, 0, fi_mc_addr(g.mc[0]), "to all", FI_MULTICAST));
	gets(t, &g, 0, "to all");
	gets(t, &g, 1, "to all");
	tell(t, &g, 0, 2, "to one");
	gets(t, &g, 2, "to one");
}

TEST(fi_cm, join_all_addresses, EP_DGRAM, FI_MSG | FI_MULTICAST, "Endpoints that are bound to a port of all addresses join groups of that port, beside others")
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct group g = { 0 };

	need_ipv4(t);
	set_source(t->info, &any, sizeof(any));
	open_members(t, &g, 2);
	// The port is that of the first member; the second one has another port and joins, too.
	CHECK_EQ(inet_pton(AF_INET, "239.11.22.34", &g.addr.sin_addr), 1);
	join(t, &g, 0, 0);
	join(t, &g, 1, 0);
	POST(t, send_to(&g, 1, fi_mc_addr(g.mc[1]), "to all", FI_MULTICAST));
	gets(t, &g, 0, "to all");
	gets(t, &g, 1, "to all");
}

TEST(fi_cm, join_own_address, EP_DGRAM, FI_MSG | FI_MULTICAST, "A member of a group still gets what is sent to itself")
{
	struct group g = { 0 };

	open_members(t, &g, 2);
	join(t, &g, 1, 0);
	tell(t, &g, 0, 1, "to itself");
	gets(t, &g, 1, "to itself");
}

TEST(fi_cm, join_many_messages, EP_DGRAM, FI_MSG | FI_MULTICAST, "Messages to a group and to members keep apart, one by one")
{
	struct group g = { 0 };
	char text[LEN];

	open_members(t, &g, 2);
	join(t, &g, 0, FI_SEND);
	join(t, &g, 1, FI_RECV);
	for (int i = 0; i < 200; i++) {
		snprintf(text, sizeof(text), "%d", i);
		if (i % 3)
			POST(t, send_to(&g, 0, fi_mc_addr(g.mc[0]), text, FI_MULTICAST));
		else
			tell(t, &g, 0, 1, text);
		gets(t, &g, 1, text);
	}
}

TEST(fi_cm, join_needs_eq, EP_DGRAM, FI_MSG | FI_MULTICAST, "An endpoint has to have an event queue before it joins, and has to be enabled")
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct fid_mc *mc;
	struct fid_ep *ep;
	struct side side = { 0 };

	need_ipv4(t);
	inet_pton(AF_INET, "239.11.22.33", &addr.sin_addr);
	open_domain(t);
	ep = open_bound_ep(t, &side); // without an event queue, because none is open
	CHECK_RC(fi_join(ep, &addr, 0, &mc, NULL), -FI_EOPBADSTATE);
	OK(fi_enable(ep));
	CHECK_RC(fi_join(ep, &addr, 0, &mc, NULL), -FI_ENOEQ);
}

TEST(fi_cm, join_sides, EP_DGRAM, FI_MSG | FI_MULTICAST, "A member with FI_SEND gets nothing, one with FI_RECV may not send")
{
	struct group g = { 0 };

	open_members(t, &g, 2);
	join(t, &g, 0, FI_SEND);
	join(t, &g, 1, FI_RECV);
	CHECK_RC(send_to(&g, 1, fi_mc_addr(g.mc[1]), "no", FI_MULTICAST), -FI_EACCES);
	POST(t, send_to(&g, 0, fi_mc_addr(g.mc[0]), "group", FI_MULTICAST));
	gets(t, &g, 1, "group");
	tell(t, &g, 1, 0, "first");
	gets(t, &g, 0, "first");
}

TEST(fi_cm, join_fails, EP_DGRAM, FI_MSG | FI_MULTICAST, "A join that fails is an error entry of the event queue, and harms no other one")
{
	struct fi_eq_err_entry err = { 0 };
	struct group g = { 0 };
	struct fid_mc *again, *unicast;

	open_members(t, &g, 2);
	join(t, &g, 1, 0);
	OK(fi_join(g.sides[1].ep, &g.addr, 0, &again, &again));
	keep(t, &again->fid);
	wait_eq_err(t, t->eq, &err);
	CHECK_EQ(err.err, FI_EADDRINUSE);
	CHECK(err.fid == &again->fid && err.context == &again);
	CHECK(fi_mc_addr(again) == FI_ADDR_NOTAVAIL);
	CHECK(send_to(&g, 1, fi_mc_addr(again), "no", FI_MULTICAST) < 0);
	shut(t, &again->fid);
	OK(fi_join(g.sides[0].ep, g.sides[1].name, 0, &unicast, NULL));
	keep(t, &unicast->fid);
	wait_eq_err(t, t->eq, &err);
	CHECK_EQ(err.err, FI_EINVAL);
	join(t, &g, 0, FI_SEND);
	POST(t, send_to(&g, 0, fi_mc_addr(g.mc[0]), "still", FI_MULTICAST));
	gets(t, &g, 1, "still");
}

TEST(fi_cm, join_arguments, EP_DGRAM, FI_MSG | FI_MULTICAST, "fi_join takes an address of the endpoint's format and the flags FI_SEND and FI_RECV")
{
	struct sockaddr unknown = { .sa_family = AF_UNIX };
	struct group g = { 0 };
	struct fid_mc *mc;

	open_members(t, &g, 1);
	CHECK_RC(fi_join(g.sides[0].ep, NULL, 0, &mc, NULL), -FI_EINVAL);
	CHECK_RC(fi_join(g.sides[0].ep, &unknown, 0, &mc, NULL), -FI_EINVAL);
	CHECK_RC(fi_join(g.sides[0].ep, &g.addr, 0, NULL, NULL), -FI_EINVAL);
	CHECK_RC(fi_join(g.sides[0].ep, &g.addr, FI_PEEK, &mc, NULL), -FI_EBADFLAGS);
	CHECK(fi_eq_read(t->eq, &(uint32_t){ 0 }, &(struct fi_eq_entry){ 0 }, sizeof(struct fi_eq_entry), 0) < 0);
}

TEST(fi_cm, join_closed_group, EP_DGRAM, FI_MSG | FI_MULTICAST, "fi_close of a group ends the membership; until then the endpoint stays open")
{
	struct group g = { 0 };
	fi_addr_t name;

	open_members(t, &g, 2);
	join(t, &g, 0, FI_SEND);
	join(t, &g, 1, 0);
	CHECK_RC(fi_close(&g.sides[1].ep->fid), -FI_EBUSY);
	name = fi_mc_addr(g.mc[1]);
	shut(t, &g.mc[1]->fid);
	CHECK_RC(send_to(&g, 1, name, "no", FI_MULTICAST), -FI_EINVAL);
	POST(t, send_to(&g, 0, fi_mc_addr(g.mc[0]), "nobody", FI_MULTICAST));
	tell(t, &g, 0, 1, "the next");
	gets(t, &g, 1, "the next");
	// The member joins again.
	join(t, &g, 1, 0);
	POST(t, send_to(&g, 0, fi_mc_addr(g.mc[0]), "again", FI_MULTICAST));
	gets(t, &g, 1, "again");
}

TEST(fi_msg, multicast_flag, EP_DGRAM, FI_MSG, "FI_MULTICAST needs the capability, and the name of a group")
{
	struct group g = { 0 };
	fi_addr_t dest;

	open_members(t, &g, 1);
	CHECK_RC(send_to(&g, 0, 0, "x", FI_MULTICAST), -FI_EBADFLAGS);
	shut(t, &g.sides[0].ep->fid);
	t->hints->caps |= FI_MULTICAST;
	env_info(t);
	open_members(t, &g, 1);
	CHECK_EQ(fi_av_insert(g.sides[0].av, g.sides[0].name, 1, &dest, 0, NULL), 1);
	CHECK_RC(send_to(&g, 0, dest, "x", FI_MULTICAST), -FI_EINVAL);
}

TEST(fi_endpoint, multicast_by_default, EP_DGRAM, FI_MSG | FI_MULTICAST, "With FI_MULTICAST among its default flags an endpoint sends to groups with all calls")
{
	struct group g = { 0 };
	struct iovec iov = { .iov_base = "pieces", .iov_len = 7 };
	char text[] = "plain";

	t->info->tx_attr->op_flags |= FI_MULTICAST;
	open_members(t, &g, 2);
	join(t, &g, 0, FI_SEND);
	join(t, &g, 1, 0);
	POST(t, fi_send(g.sides[0].ep, text, sizeof(text), NULL, fi_mc_addr(g.mc[0]), NULL));
	gets(t, &g, 1, text);
	POST(t, fi_sendv(g.sides[0].ep, &iov, NULL, 1, fi_mc_addr(g.mc[0]), NULL));
	gets(t, &g, 1, "pieces");
	POST(t, fi_inject(g.sides[0].ep, "inject", 7, fi_mc_addr(g.mc[0])));
	gets(t, &g, 1, "inject");
	CHECK_RC(fi_send(g.sides[0].ep, text, sizeof(text), NULL, 0, NULL), -FI_EINVAL);
}
