// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cm(3): names of connectionless endpoints, and connection calls on them.
#include "harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>

TEST(fi_cm, getname_after_enable, EP_AV, FI_MSG, "An enabled endpoint has an address of the domain's format")
{
	char name[ADDR_ROOM];
	size_t len = sizeof(name);

	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	OK(fi_getname(&t->a.ep->fid, name, &len));
	CHECK(len > 0 && len <= sizeof(name));
	if (t->info->addr_format == FI_SOCKADDR_IN) {
		CHECK_EQ(len, sizeof(struct sockaddr_in));
		CHECK_EQ(((struct sockaddr_in *)name)->sin_family, AF_INET);
		CHECK(((struct sockaddr_in *)name)->sin_port != 0);
	}
	if (has_strings(t))
		CHECK_EQ(len, strlen(name) + 1);
}

TEST(fi_cm, getname_short_buffer, EP_AV, FI_MSG, "A short buffer gets a cut address, -FI_ETOOSMALL and the size needed")
{
	uint8_t whole[ADDR_ROOM] = { 0 }, part[ADDR_ROOM];
	size_t need = sizeof(whole);

	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	OK(fi_getname(&t->a.ep->fid, whole, &need));
	for (size_t room = 0; room < need; room++) {
		size_t len = room;
		int rc;

		memset(part, 0xa5, sizeof(part));
		rc = fi_getname(&t->a.ep->fid, part, &len);
		if (is_linked(t) && !rc) { // the form for short buffers fits
			CHECK(len <= room && len <= FI_NAME_MAX);
			continue;
		}
		CHECK_RC(rc, -FI_ETOOSMALL);
		CHECK_EQ(len, need);
		CHECK(!memcmp(part, whole, room));
		for (size_t i = room; i < sizeof(part); i++)
			CHECK_EQ(part[i], 0xa5);
	}
}

TEST(fi_cm, getname_of_size_zero, EP_AV, FI_MSG, "A null buffer of size 0 asks for the size")
{
	size_t len = 0;

	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	CHECK_RC(fi_getname(&t->a.ep->fid, NULL, &len), -FI_ETOOSMALL);
	CHECK(len > 0);
}

TEST(fi_cm, setname_assigns, EP_AV, FI_MSG, "fi_setname gives the endpoint its address; port 0 lets the provider choose")
{
	struct sockaddr_in want = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, got = { 0 };
	size_t len = sizeof(got);

	need_ipv4(t);
	open_bound_ep(t, &t->a);
	OK_OR_SKIP(fi_setname(&t->a.ep->fid, &want, sizeof(want)));
	OK(fi_enable(t->a.ep));
	OK(fi_getname(&t->a.ep->fid, &got, &len));
	CHECK_EQ(got.sin_addr.s_addr, want.sin_addr.s_addr);
	CHECK(got.sin_port != 0);
}

TEST(fi_cm, setname_in_use, EP_AV, FI_MSG, "An address that another endpoint has cannot be assigned: -FI_EADDRINUSE at the latest when enabled")
{
	char taken[ADDR_ROOM];
	size_t len = put_unused(t, taken);
	int rc;

	open_bound_ep(t, &t->a);
	// Another test may take the unused port meanwhile.
	for (int tries = 0; (rc = fi_setname(&t->a.ep->fid, taken, len)) == -FI_EADDRINUSE && tries < 20; tries++)
		len = put_unused(t, taken);
	OK_OR_SKIP(rc);
	OK(fi_enable(t->a.ep));
	len = sizeof(taken);
	OK(fi_getname(&t->a.ep->fid, taken, &len));
	open_bound_ep(t, &t->b);
	rc = fi_setname(&t->b.ep->fid, taken, len);
	if (!rc)
		rc = fi_enable(t->b.ep);
	CHECK_RC(rc, -FI_EADDRINUSE);
}

TEST(fi_cm, setname_bad_address, EP_AV, FI_MSG, "An address of another format or of the wrong size is refused")
{
	char addr[ADDR_ROOM];
	size_t len = put_unused(t, addr);

	open_bound_ep(t, &t->a);
	OK_OR_SKIP(fi_setname(&t->a.ep->fid, addr, len));
	CHECK(fi_setname(&t->a.ep->fid, addr, 3) < 0);
	len = put_foreign(t, addr);
	CHECK(fi_setname(&t->a.ep->fid, addr, len) < 0);
}

static void without_source(struct fi_info *info)
{
	free(info->src_addr);
	info->src_addr = NULL;
	info->src_addrlen = 0;
}

TEST(fi_cm, getname_without_source, EP_AV, FI_MSG, "An endpoint whose fi_info has no source address has a name that its peers can use")
{
	PAIR(t, .tune = without_source);
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
}

TEST(fi_cm, connect_on_connectionless, EP_AV, FI_MSG, "Connection calls on a connectionless endpoint give an error, not a crash")
{
	PAIR(t);
	CHECK(fi_connect(t->a.ep, t->b.name, NULL, 0) < 0);
	CHECK(fi_accept(t->a.ep, NULL, 0) < 0);
	CHECK(fi_shutdown(t->a.ep, 0) < 0);
	CHECK(fi_getpeer(t->a.ep, t->b.name, &t->b.namelen) < 0);
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
}

TEST(fi_cm, join_without_multicast, EP_ANY, FI_MSG, "Joining a multicast group on an endpoint without FI_MULTICAST is refused")
{
	struct fid_mc *mc = NULL;

	PAIR(t);
	if (t->a.info->caps & FI_MULTICAST)
		SKIP("the endpoint has FI_MULTICAST");
	CHECK(fi_join(t->a.ep, t->b.name, 0, &mc, NULL) < 0);
	CHECK(!mc);
}
