// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_av(3): opening, inserting, removing, looking up.
#include "harness.h"

#include <netinet/in.h>

static void insert_one(struct env *t, struct fid_av *av, unsigned which, fi_addr_t *fi_addr)
{
	char addr[ADDR_ROOM];

	put_address(t, which, addr);
	CHECK_RC(fi_av_insert(av, addr, 1, fi_addr, 0, NULL), 1);
}

static bool holds(struct env *t, struct fid_av *av, fi_addr_t fi_addr, unsigned which)
{
	char got[ADDR_ROOM];
	size_t len = sizeof(got);

	return !fi_av_lookup(av, fi_addr, got, &len) && which_address(t, got) == (int)which;
}

static int try_av(struct env *t, struct fi_av_attr *attr)
{
	struct fid_av *av = NULL;
	int rc;

	open_domain(t);
	rc = fi_av_open(t->domain, attr, &av, NULL);
	if (!rc)
		OK(fi_close(&av->fid));
	return rc;
}

// ---- Opening

TEST(fi_av, open_each_type, EP_AV, FI_MSG, "FI_AV_MAP and FI_AV_TABLE can both be asked for")
{
	open_av(t, FI_AV_TABLE);
	open_av(t, FI_AV_MAP);
}

TEST(fi_av, open_unspec_reports_type, EP_AV, FI_MSG, "FI_AV_UNSPEC: the provider chooses and says so in the attributes")
{
	struct fi_av_attr attr = { .type = FI_AV_UNSPEC };

	OK(try_av(t, &attr));
	CHECK(attr.type == FI_AV_MAP || attr.type == FI_AV_TABLE);
}

TEST(fi_av, open_sets_class_and_context, EP_AV, FI_MSG, "The vector is of class FI_CLASS_AV and carries the caller's context")
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE };
	struct fid_av *av = NULL;
	int mark;

	open_domain(t);
	OK(fi_av_open(t->domain, &attr, &av, &mark));
	keep(t, &av->fid);
	CHECK_EQ(av->fid.fclass, FI_CLASS_AV);
	CHECK(av->fid.context == &mark);
}

TEST(fi_av, open_unknown_type, EP_AV, FI_MSG, "An unknown type is refused with -FI_EINVAL")
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE + 1 };

	CHECK_RC(try_av(t, &attr), -FI_EINVAL);
	attr.type = -1;
	CHECK_RC(try_av(t, &attr), -FI_EINVAL);
}

TEST(fi_av, open_unknown_flag, EP_AV, FI_MSG, "A flag that is not defined for an address vector is refused")
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .flags = 1ULL << 51 };

	CHECK_RC2(try_av(t, &attr), -FI_EINVAL, -FI_EBADFLAGS);
}

TEST(fi_av, open_read_only_needs_a_name, EP_AV, FI_MSG, "FI_READ opens a named vector that exists; without a name it is an error")
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .flags = FI_READ };

	CHECK(try_av(t, &attr) < 0);
}

TEST(fi_av, open_hints, EP_AV, FI_MSG, "count, ep_per_node and FI_SYMMETRIC are hints")
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .count = 100000, .ep_per_node = 64 };

	OK(try_av(t, &attr));
	attr.count = 1;
	attr.flags = FI_SYMMETRIC;
	OK(try_av(t, &attr));
}

TEST(fi_av, close_while_bound, EP_AV, FI_MSG, "A vector that an open endpoint is bound to cannot be closed: -FI_EBUSY")
{
	open_bound_ep(t, &t->a);
	CHECK_RC(fi_close(&t->a.av->fid), -FI_EBUSY);
	shut(t, &t->a.ep->fid);
	shut(t, &t->a.av->fid);
}

TEST(fi_av, close_with_addresses, EP_AV, FI_MSG, "Closing releases the addresses that are left")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);

	for (unsigned i = 0; i < 100; i++)
		insert_one(t, av, i, NULL);
	shut(t, &av->fid);
}

// ---- Inserting

TEST(fi_av, table_counts_from_zero, EP_AV, FI_MSG, "FI_AV_TABLE: the first address is 0, the next ones follow across calls")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	char addrs[3 * ADDR_ROOM];
	fi_addr_t fi_addr[3];
	size_t len = 0;

	for (unsigned i = 0; i < 3; i++) {
		insert_one(t, av, i, &fi_addr[0]);
		CHECK_EQ(fi_addr[0], i);
	}
	for (unsigned i = 0; i < 3; i++)
		len += put_address(t, 3 + i, addrs + len);
	CHECK_RC(fi_av_insert(av, addrs, 3, fi_addr, 0, NULL), 3);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(fi_addr[i], 3 + i);
		CHECK(holds(t, av, fi_addr[i], 3 + i));
	}
}

TEST(fi_av, table_without_output, EP_AV, FI_MSG, "FI_AV_TABLE: fi_addr may be NULL, the index is known anyway")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);

	for (unsigned i = 0; i < 4; i++)
		insert_one(t, av, i, NULL);
	for (unsigned i = 0; i < 4; i++)
		CHECK(holds(t, av, i, i));
}

TEST(fi_av, table_reuses_the_lowest, EP_AV, FI_MSG, "FI_AV_TABLE: an address goes to the lowest unused index")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	fi_addr_t remove[2] = { 2, 1 }, got;

	for (unsigned i = 0; i < 5; i++)
		insert_one(t, av, i, NULL);
	OK(fi_av_remove(av, remove, 2, 0));
	insert_one(t, av, 10, &got);
	CHECK_EQ(got, 1);
	insert_one(t, av, 11, &got);
	CHECK_EQ(got, 2);
	insert_one(t, av, 12, &got);
	CHECK_EQ(got, 5);
}

TEST(fi_av, map_values_differ, EP_AV, FI_MSG, "FI_AV_MAP: each address has a value of its own that finds it again")
{
	struct fid_av *av = open_av(t, FI_AV_MAP);
	fi_addr_t fi_addr[16];

	for (unsigned i = 0; i < 16; i++) {
		insert_one(t, av, i, &fi_addr[i]);
		CHECK(fi_addr[i] != FI_ADDR_NOTAVAIL && fi_addr[i] != FI_ADDR_UNSPEC);
		for (unsigned j = 0; j < i; j++)
			CHECK(fi_addr[i] != fi_addr[j]);
	}
	for (unsigned i = 0; i < 16; i++)
		CHECK(holds(t, av, fi_addr[i], i));
}

TEST(fi_av, insert_nothing, EP_AV, FI_MSG, "Inserting zero addresses inserts zero")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	char addr[ADDR_ROOM];
	fi_addr_t got = 77;

	put_address(t, 0, addr);
	CHECK_RC(fi_av_insert(av, addr, 0, &got, 0, NULL), 0);
	CHECK_EQ(got, 77);
	insert_one(t, av, 0, &got);
	CHECK_EQ(got, 0);
}

TEST(fi_av, insert_many, EP_AV, FI_MSG, "Ten thousand addresses can be inserted, each is found again")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	fi_addr_t got;

	for (unsigned i = 0; i < 10000; i++) {
		insert_one(t, av, i, &got);
		CHECK_EQ(got, i);
	}
	for (unsigned i = 0; i < 10000; i++)
		CHECK(holds(t, av, i, i));
}

TEST(fi_av, insert_more_than_count, EP_AV, FI_MSG, "The count given at open is no limit")
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .count = 2 };
	struct fid_av *av = NULL;

	open_domain(t);
	OK(fi_av_open(t->domain, &attr, &av, NULL));
	keep(t, &av->fid);
	for (unsigned i = 0; i < 50; i++)
		insert_one(t, av, i, NULL);
	CHECK(holds(t, av, 49, 49));
}

TEST(fi_av, insert_more_flag, EP_AV, FI_MSG, "FI_MORE is a hint: a series that ends without it is inserted")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	char addr[ADDR_ROOM];
	fi_addr_t got;

	for (unsigned i = 0; i < 4; i++) {
		put_address(t, i, addr);
		CHECK_RC(fi_av_insert(av, addr, 1, &got, i < 3 ? FI_MORE : 0, NULL), 1);
		CHECK_EQ(got, i);
	}
}

TEST(fi_av, insert_unknown_flag, EP_AV, FI_MSG, "A flag that is not defined for inserting is refused")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	char addr[ADDR_ROOM];
	fi_addr_t got;

	put_address(t, 0, addr);
	CHECK_RC2(fi_av_insert(av, addr, 1, &got, 1ULL << 51, NULL), -FI_EINVAL, -FI_EBADFLAGS);
}

TEST(fi_av, insert_bad_family, EP_AV, FI_MSG, "An address of another family fails: it is not counted and its value is FI_ADDR_NOTAVAIL")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	char addr[ADDR_ROOM];
	fi_addr_t got = 77;

	put_foreign(t, addr);
	CHECK_RC(fi_av_insert(av, addr, 1, &got, 0, NULL), 0);
	CHECK_EQ(got, FI_ADDR_NOTAVAIL);
}

TEST(fi_av, insert_sync_err, EP_AV, FI_MSG, "FI_SYNC_ERR: the array of integers gets 0 or an error code for each address")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	char addrs[4 * ADDR_ROOM];
	size_t len = 0;
	fi_addr_t got[4] = { 77, 77, 77, 77 };
	int status[4] = { -1, -1, -1, -1 };

	for (unsigned i = 0; i < 4; i++)
		len += i == 2 ? put_foreign(t, addrs + len) : put_address(t, i, addrs + len);
	CHECK_RC(fi_av_insert(av, addrs, 4, got, FI_SYNC_ERR, status), 3);
	for (unsigned i = 0; i < 4; i++) {
		if (i == 2) {
			CHECK(status[i] != 0 && status[i] != -1);
			CHECK_EQ(got[i], FI_ADDR_NOTAVAIL);
		} else {
			CHECK_EQ(status[i], 0);
			CHECK(holds(t, av, got[i], i));
		}
	}
}

TEST(fi_av, insert_wildcard, EP_AV, FI_MSG, "The wildcard address names no peer: it fails, or is kept and looked up like any other")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	char addr[ADDR_ROOM];
	fi_addr_t got = 77;
	int rc;

	need_ipv4(t);
	put_address(t, 0, addr);
	((struct sockaddr_in *)addr)->sin_addr.s_addr = htonl(INADDR_ANY);
	rc = fi_av_insert(av, addr, 1, &got, 0, NULL);
	CHECK_RC2(rc, 0, 1);
	CHECK_EQ(got, rc ? 0 : FI_ADDR_NOTAVAIL);
}

TEST(fi_av, insert_twice, EP_AV, FI_MSG, "A duplicate may be refused or give a value; either way both values work afterwards")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	char addr[ADDR_ROOM];
	fi_addr_t first, second = 77;
	int rc;

	insert_one(t, av, 0, &first);
	put_address(t, 0, addr);
	rc = fi_av_insert(av, addr, 1, &second, 0, NULL);
	CHECK_RC2(rc, 0, 1);
	if (rc)
		CHECK(holds(t, av, second, 0));
	else
		CHECK_EQ(second, FI_ADDR_NOTAVAIL);
	CHECK(holds(t, av, first, 0));
}

// ---- Removing

TEST(fi_av, remove_forgets, EP_AV, FI_MSG, "A removed address is no longer found; the others are")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	char got[ADDR_ROOM];
	fi_addr_t remove = 1;
	size_t len = sizeof(got);

	for (unsigned i = 0; i < 3; i++)
		insert_one(t, av, i, NULL);
	OK(fi_av_remove(av, &remove, 1, 0));
	CHECK_RC(fi_av_lookup(av, 1, got, &len), -FI_EINVAL);
	CHECK(holds(t, av, 0, 0));
	CHECK(holds(t, av, 2, 2));
}

TEST(fi_av, remove_unset, EP_AV, FI_MSG, "Removing a value that is unset or out of bounds gives -FI_EINVAL")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	static const fi_addr_t wrong[] = { 1, 5, 1000000, FI_ADDR_UNSPEC - 1, FI_ADDR_NOTAVAIL };

	insert_one(t, av, 0, NULL);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		fi_addr_t fi_addr = wrong[i];

		CHECK_RC(fi_av_remove(av, &fi_addr, 1, 0), -FI_EINVAL);
	}
	CHECK(holds(t, av, 0, 0));
}

TEST(fi_av, remove_twice, EP_AV, FI_MSG, "Removing an address a second time gives -FI_EINVAL")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	fi_addr_t fi_addr;

	insert_one(t, av, 0, &fi_addr);
	OK(fi_av_remove(av, &fi_addr, 1, 0));
	CHECK_RC(fi_av_remove(av, &fi_addr, 1, 0), -FI_EINVAL);
}

TEST(fi_av, remove_nothing, EP_AV, FI_MSG, "Removing zero addresses succeeds")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	fi_addr_t fi_addr;

	insert_one(t, av, 0, &fi_addr);
	OK(fi_av_remove(av, &fi_addr, 0, 0));
	CHECK(holds(t, av, fi_addr, 0));
}

TEST(fi_av, remove_and_insert_again, EP_AV, FI_MSG, "An address can be inserted again after its removal, many times")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);

	for (unsigned i = 0; i < 1000; i++) {
		fi_addr_t fi_addr;

		insert_one(t, av, 7, &fi_addr);
		CHECK_EQ(fi_addr, 0);
		CHECK(holds(t, av, fi_addr, 7));
		OK(fi_av_remove(av, &fi_addr, 1, 0));
	}
}

TEST(fi_av, remove_several_of_map, EP_AV, FI_MSG, "FI_AV_MAP: several addresses can be removed in one call")
{
	struct fid_av *av = open_av(t, FI_AV_MAP);
	fi_addr_t fi_addr[8];

	for (unsigned i = 0; i < 8; i++)
		insert_one(t, av, i, &fi_addr[i]);
	OK(fi_av_remove(av, fi_addr, 7, 0));
	CHECK(holds(t, av, fi_addr[7], 7));
}

TEST(fi_av, traffic_after_reinsert, EP_AV, FI_MSG, "Messages flow to a peer that was removed and inserted again")
{
	PAIR(t);
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
	OK(fi_av_remove(t->a.av, &t->a.peer, 1, 0));
	CHECK_RC(fi_av_insert(t->a.av, t->b.name, 1, &t->a.peer, 0, NULL), 1);
	flow_run(t, 1, 1);
	wait_comp(t, t->b.rxcq, NULL);
	CHECK(filled(t->flow->in[1], FLOW_LEN, 1));
}

// ---- Looking up

TEST(fi_av, lookup_gives_the_address, EP_AV, FI_MSG, "Lookup returns the address as inserted, a name with or without its scheme, and its size")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	char want[ADDR_ROOM] = { 0 }, got[ADDR_ROOM] = { 0 };
	size_t len = sizeof(got), wanted = put_address(t, 3, want);

	CHECK_RC(fi_av_insert(av, want, 1, NULL, 0, NULL), 1);
	OK(fi_av_lookup(av, 0, got, &len));
	CHECK_EQ(len, has_strings(t) ? strlen(got) + 1 : wanted);
	CHECK(same_address(t, want, got));
}

TEST(fi_av, lookup_short_buffer, EP_AV, FI_MSG, "A short buffer gets what fits; addrlen becomes the size that is needed")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	uint8_t whole[ADDR_ROOM], got[ADDR_ROOM];
	size_t need = sizeof(whole);

	insert_one(t, av, 3, NULL);
	OK(fi_av_lookup(av, 0, whole, &need));
	for (size_t room = 0; room < need; room++) {
		size_t len = room;

		memset(got, 0xa5, sizeof(got));
		CHECK_RC2(fi_av_lookup(av, 0, got, &len), 0, -FI_ETOOSMALL);
		CHECK_EQ(len, need);
		CHECK(!memcmp(got, whole, room));
		for (size_t i = room; i < sizeof(got); i++)
			CHECK_EQ(got[i], 0xa5);
	}
}

TEST(fi_av, lookup_unset, EP_AV, FI_MSG, "Looking up a value that is unset or out of bounds gives -FI_EINVAL")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	static const fi_addr_t wrong[] = { 1, 5, 1000000, FI_ADDR_UNSPEC - 1, FI_ADDR_NOTAVAIL };
	char got[256];

	insert_one(t, av, 0, NULL);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		size_t len = sizeof(got);

		CHECK_RC(fi_av_lookup(av, wrong[i], got, &len), -FI_EINVAL);
	}
}
