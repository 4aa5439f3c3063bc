// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_shm(7), address format: the names of endpoints. ep_name.c and cm_names.c have the rules for names of all
//! providers.
#include "transfer.h"

#include <unistd.h>

static bool is_sm2(struct env *t)
{
	return !strcmp(t->prov, "sm2");
}

static void only_shm(struct env *t)
{
	if (strcmp(t->prov, "shm") && !is_sm2(t))
		SKIP("of shm and sm2");
}

// Returns the name of a new endpoint that was opened with this name; NULL: without one.
static const char *name_with(struct env *t, const char *source)
{
	struct side *side = keep_mem(sizeof(*side));

	if (source)
		set_source(t->info, source, strlen(source) + 1);
	open_bound_ep(t, side);
	OK(fi_enable(side->ep));
	side->namelen = sizeof(side->name);
	OK(fi_getname(&side->ep->fid, side->name, &side->namelen));
	CHECK_EQ(side->namelen, strlen(side->name) + 1);
	return side->name;
}

static const char *unused(struct env *t, const char *scheme)
{
	char any[ADDR_ROOM], *name = keep_mem(ADDR_ROOM);

	put_unused(t, any);
	snprintf(name, ADDR_ROOM, "%s%s", scheme, strstr(any, "://"));
	return name;
}

TEST(fi_shm, name_of_process, EP_RDM, FI_MSG, "Without a name an endpoint is fi_shm://PID:UID:INDEX (fi_sm2://), with an index that no other of the process has; zeros before it make all equally long")
{
	char want[64];
	const char *first, *second;
	int len;

	only_shm(t);
	len = snprintf(want, sizeof(want), "%s://%d:%u:", is_sm2(t) ? "fi_sm2" : "fi_shm", getpid(), (unsigned)geteuid());
	env_info(t); // the process was forked after the first call
	first = name_with(t, NULL);
	second = name_with(t, NULL);
	CHECK(!strncmp(first, want, len) && !strncmp(second, want, len));
	CHECK(first[len] >= '0' && first[len] <= '9');
	CHECK(strcmp(first, second));
	// PID and INDEX together have ten digits: programs gather names of other processes with the length of their own
	len = snprintf(want, sizeof(want), "fi_shm://:%u:", (unsigned)geteuid()) + 10;
	CHECK_EQ(strlen(first), len);
	CHECK_EQ(strlen(second), len);
}

TEST(fi_shm, name_given, EP_RDM, FI_MSG, "A name with another scheme is taken as it is, one with the provider's gets :UID:INDEX")
{
	const char *own = is_sm2(t) ? "fi_sm2" : "fi_shm", *name, *got;
	char more[32];

	only_shm(t);
	name = unused(t, "fi_ns");
	CHECK_STR(name_with(t, name), name);
	name = unused(t, "fi_prefix");
	CHECK_STR(name_with(t, name), name);
	name = unused(t, own);
	got = name_with(t, name);
	snprintf(more, sizeof(more), ":%u:", (unsigned)geteuid());
	CHECK(!strncmp(got, name, strlen(name)));
	CHECK(!strncmp(got + strlen(name), more, strlen(more)));
}

TEST(fi_shm, name_from_getinfo, EP_RDM, FI_MSG, "fi_getinfo with FI_SOURCE names the endpoint: fi_ns://NODE:SERVICE, or the node if it is an address")
{
	const char *name;
	struct fi_info *info = NULL;
	char service[16], want[64];

	only_shm(t);
	name = unused(t, "fi_ns");
	OK(fi_getinfo(t->version, name, NULL, FI_SOURCE, t->hints, &info));
	CHECK_STR(info->src_addr, name);
	fi_freeinfo(info);
	snprintf(service, sizeof(service), "%d", getpid());
	OK(fi_getinfo(t->version, "conformance", service, FI_SOURCE, t->hints, &info));
	snprintf(want, sizeof(want), "fi_ns://conformance:%s", service);
	CHECK_STR(info->src_addr, want);
	fi_freeinfo(t->info);
	t->info = info;
	CHECK_STR(name_with(t, NULL), want);
}

TEST(fi_shm, name_taken, EP_RDM | OURS_ONLY, FI_MSG, "Who asks for a name that is taken gets it with a number appended; messages find both endpoints")
{
	struct side *sides[2] = { &t->a, &t->b };
	const char *name;
	char *end;

	only_shm(t);
	name = unused(t, "fi_ns");
	set_source(t->info, name, strlen(name) + 1);
	PAIR(t);
	CHECK_STR(t->a.name, name);
	CHECK(!strncmp(t->b.name, name, strlen(name)));
	CHECK_EQ(t->b.name[strlen(name)], ':');
	strtoul(t->b.name + strlen(name) + 1, &end, 10);
	CHECK(!*end);
	round_trip(t);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(sides[i]->namelen, strlen(sides[i]->name) + 1);
}

TEST(fi_shm, name_free_again, EP_RDM, FI_MSG, "A name is free again when its endpoint is closed")
{
	const char *name;

	only_shm(t);
	name = unused(t, "fi_ns");
	set_source(t->info, name, strlen(name) + 1);
	for (unsigned i = 0; i < 3; i++) {
		struct side side = { 0 };

		open_bound_ep(t, &side);
		side.namelen = sizeof(side.name);
		OK(fi_getname(&side.ep->fid, side.name, &side.namelen));
		CHECK_STR(side.name, name);
		OK(fi_enable(side.ep));
		shut(t, &side.ep->fid);
	}
}

TEST(fi_shm, name_lookup, EP_RDM, FI_MSG, "fi_av_lookup gives the name without its scheme on shm, and as it is on sm2")
{
	struct fid_av *av;
	char got[ADDR_ROOM] = { 0 };
	size_t len = sizeof(got);

	only_shm(t);
	av = open_av(t, FI_AV_TABLE);
	CHECK_RC(fi_av_insert(av, "fi_ns://somebody:1", 1, NULL, 0, NULL), 1);
	OK(fi_av_lookup(av, 0, got, &len));
	CHECK_STR(got, is_sm2(t) ? "fi_ns://somebody:1" : "somebody:1");
}

TEST(fi_shm, name_straddr, EP_RDM, FI_MSG, "fi_av_straddr prints the name as it is")
{
	static const char name[] = "fi_shm://17:0:3";
	struct fid_av *av;
	char got[ADDR_ROOM];
	size_t len = sizeof(got);

	only_shm(t);
	av = open_av(t, FI_AV_TABLE);
	CHECK(fi_av_straddr(av, name, got, &len) == got);
	CHECK_STR(got, name);
	CHECK_EQ(len, sizeof(name));
}

TEST(fi_shm, name_any_scheme, EP_RDM | OURS_ONLY, FI_MSG | FI_TAGGED | FI_SOURCE, "The scheme does not tell names apart: a peer is reached, and recognised, under its name with another or none")
{
	static const char *const schemes[] = { "fi_ns://", "fi_shm://", "" };

	only_shm(t);
	PAIR(t);
	for (unsigned i = 0; i < 3; i++) {
		struct fi_cq_tagged_entry entry;
		fi_addr_t from = 77;
		char name[ADDR_ROOM];
		ssize_t rc;

		snprintf(name, sizeof(name), "%s%s", schemes[i], strstr(t->b.name, "://") + 3);
		OK(fi_av_remove(t->a.av, &t->a.peer, 1, 0));
		CHECK_RC(fi_av_insert(t->a.av, name, 1, &t->a.peer, 0, NULL), 1);
		snprintf(name, sizeof(name), "%s%s", schemes[i], strstr(t->a.name, "://") + 3);
		OK(fi_av_remove(t->b.av, &t->b.peer, 1, 0));
		CHECK_RC(fi_av_insert(t->b.av, name, 1, &t->b.peer, 0, NULL), 1);
		flow_run(t, i, 1);
		ONCE(t, (rc = fi_cq_readfrom(t->b.rxcq, &entry, 1, &from)) != -FI_EAGAIN);
		CHECK_RC(rc, 1);
		CHECK_EQ(from, t->b.peer);
		CHECK(filled(t->flow->in[i], FLOW_LEN, i));
	}
}

TEST(fi_shm, name_set, EP_RDM, FI_MSG, "fi_setname takes a name of any form, and messages find it; the old name is free")
{
	char name[64];
	const char *first;

	only_shm(t);
	first = unused(t, "fi_ns");
	open_bound_ep(t, &t->a);
	set_source(t->info, first, strlen(first) + 1);
	open_bound_ep(t, &t->b);
	snprintf(name, sizeof(name), "conformance of %d, without a scheme", getpid());
	OK(fi_setname(&t->b.ep->fid, name, strlen(name) + 1));
	OK(fi_enable(t->a.ep));
	OK(fi_enable(t->b.ep));
	t->b.namelen = sizeof(t->b.name);
	OK(fi_getname(&t->b.ep->fid, t->b.name, &t->b.namelen));
	CHECK_STR(t->b.name, name);
	CHECK_RC(fi_av_insert(t->a.av, name, 1, &t->a.peer, 0, NULL), 1);
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
	CHECK_STR(name_with(t, first), first);
}

TEST(fi_shm, name_lengths, EP_RDM | OURS_ONLY, FI_MSG, "Names of up to 255 bytes work, also those too long for a socket's; longer ones are refused")
{
	static const size_t lens[] = { 60, 80, 107, 108, 109, 200, 255 };
	char name[300], more[16];

	only_shm(t);
	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	snprintf(more, sizeof(more), "%d", getpid());
	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		memset(name, 'n', sizeof(name));
		memcpy(name, more, strlen(more));
		name[lens[i]] = '\0';
		open_bound_ep(t, &t->b);
		OK(fi_setname(&t->b.ep->fid, name, lens[i] + 1));
		OK(fi_enable(t->b.ep));
		CHECK_RC(fi_av_insert(t->a.av, name, 1, &t->a.peer, 0, NULL), 1);
		flow_run(t, i, 1);
		wait_comp(t, t->b.rxcq, NULL);
	}
	memset(name, 'n', 256);
	name[256] = '\0';
	open_bound_ep(t, &t->b);
	CHECK(fi_setname(&t->b.ep->fid, name, 257) < 0);
}
