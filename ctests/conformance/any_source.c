// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_getinfo(3): 0.0.0.0 and :: as the source address. The endpoint listens at every address of the host; peers reach it
//! at any of these with the port of its name.
#include "harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>

union ip {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

// The loopback address with the port of an endpoint that listens at every address.
static void put_loopback(union ip *name)
{
	if (name->any.sa_family == AF_INET) {
		CHECK_EQ(name->v4.sin_addr.s_addr, htonl(INADDR_ANY));
		CHECK(name->v4.sin_port != 0);
		name->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	} else {
		CHECK_EQ(name->any.sa_family, AF_INET6);
		CHECK(!memcmp(&name->v6.sin6_addr, &in6addr_any, sizeof(in6addr_any)));
		CHECK(name->v6.sin6_port != 0);
		name->v6.sin6_addr = in6addr_loopback;
	}
}

static fi_addr_t insert(struct side *from, struct side *to)
{
	fi_addr_t addr = FI_ADDR_UNSPEC;
	union ip name;
	size_t len = sizeof(name);

	OK(fi_getname(&to->ep->fid, &name, &len));
	put_loopback(&name);
	CHECK_EQ(fi_av_insert(from->av, &name, 1, &addr, 0, NULL), 1);
	return addr;
}

static void connect_both(struct env *t)
{
	struct cm_listener listener = cm_listen(t);
	union cm_entry in;
	union ip name;

	memcpy(&name, listener.addr, sizeof(name));
	put_loopback(&name);
	memcpy(listener.addr, &name, sizeof(name));
	cm_request(t, &listener, NULL, 0, &in);
	OK(fi_enable(cm_accepting(t, in.cm.info)));
	OK(fi_accept(t->b.ep, NULL, 0));
	wait_connected(t, t->eq, t->a.ep, t->b.ep);
	t->a.peer = t->b.peer = FI_ADDR_UNSPEC;
}

// Both send before either has received, so that connectionless endpoints connect to each other at the same time.
static void exchange(struct env *t)
{
	static char in[2][8], out[2][8] = { "from a", "from b" };
	struct side *sides[2] = { &t->a, &t->b };
	struct fi_context2 rx[2], tx[2];
	void *in_desc = reg_desc(t, in, sizeof(in), FI_RECV), *out_desc = reg_desc(t, out, sizeof(out), FI_SEND);

	for (int i = 0; i < 2; i++)
		OK(fi_recv(sides[i]->ep, in[i], sizeof(in[i]), in_desc, FI_ADDR_UNSPEC, &rx[i]));
	for (int i = 0; i < 2; i++)
		POST(t, fi_send(sides[i]->ep, out[i], sizeof(out[i]), out_desc, sides[i]->peer, &tx[i]));
	for (int i = 0; i < 2; i++) {
		wait_comp(t, sides[i]->txcq, NULL);
		wait_comp(t, sides[i]->rxcq, NULL);
		CHECK_STR(in[i], out[1 - i]);
	}
}

// Two endpoints opened with t->info, each at every address, send messages in each direction.
static void talk(struct env *t)
{
	const union ip *source = t->info->src_addr;

	CHECK(source);
	CHECK(source->any.sa_family == AF_INET ? source->v4.sin_addr.s_addr == htonl(INADDR_ANY) :
						 !memcmp(&source->v6.sin6_addr, &in6addr_any, sizeof(in6addr_any)));
	if (t->type == FI_EP_MSG) {
		connect_both(t);
	} else {
		OK(fi_enable(open_bound_ep(t, &t->a)));
		OK(fi_enable(open_bound_ep(t, &t->b)));
		t->a.peer = insert(&t->a, &t->b);
		t->b.peer = insert(&t->b, &t->a);
	}
	exchange(t);
	exchange(t);
}

static void ask(struct env *t, const char *node, uint64_t flags)
{
	fi_freeinfo(t->info);
	t->info = NULL;
	OK(fi_getinfo(t->version, node, NULL, flags, t->hints, &t->info));
}

TEST(fi_getinfo, any_source_by_node, EP_ANY, FI_MSG, "FI_SOURCE with the node 0.0.0.0: endpoints listen at every address of the host")
{
	need_ipv4(t);
	ask(t, "0.0.0.0", FI_SOURCE | FI_NUMERICHOST);
	talk(t);
}

TEST(fi_getinfo, any_source_by_node_ipv6, EP_ANY, FI_MSG, "FI_SOURCE with the node ::, likewise")
{
	need_ipv4(t);
	ask(t, "::", FI_SOURCE | FI_NUMERICHOST);
	talk(t);
}

TEST(fi_getinfo, any_source_by_hints, EP_ANY, FI_MSG, "The source address 0.0.0.0 in the hints, likewise")
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	need_ipv4(t);
	t->hints->addr_format = FI_SOCKADDR_IN;
	set_source(t->hints, &any, sizeof(any));
	ask(t, NULL, 0);
	talk(t);
}
