// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_av_set(3): sets of addresses.
#include <rdma/fi_collective.h>

#include "collective.h"

enum { COUNT = 6 };
static const struct fi_av_set_attr empty = { .start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL };

// An address vector with COUNT addresses, 0 to 5.
static struct fid_av *open_vector(struct env *t, enum fi_av_type type)
{
	struct fi_av_attr attr = { .type = type };
	struct fid_av *av;

	open_domain(t);
	OK(fi_av_open(t->domain, &attr, &av, NULL));
	keep(t, &av->fid);
	for (unsigned i = 0; i < COUNT; i++) {
		char addr[ADDR_ROOM];
		fi_addr_t at;

		put_address(t, i, addr);
		CHECK_EQ(fi_av_insert(av, addr, 1, &at, 0, NULL), 1);
		CHECK_EQ(at, i);
	}
	return av;
}

static struct fid_av_set *open_set(struct env *t, struct fid_av *av, struct fi_av_set_attr attr)
{
	struct fid_av_set *set;

	OK_OR_SKIP(fi_av_set(av, &attr, &set, NULL));
	keep(t, &set->fid);
	return set;
}

// Checks which addresses are in the set: each can be removed once and no more. The set is empty afterwards.
static void is_set(struct fid_av_set *set, unsigned members)
{
	for (unsigned i = 0; i < COUNT; i++) {
		CHECK_RC(fi_av_set_remove(set, i), members & (1u << i) ? 0 : -FI_EINVAL);
		CHECK_RC(fi_av_set_remove(set, i), -FI_EINVAL);
	}
}

static void range_is(struct env *t, struct fid_av *av, fi_addr_t start, fi_addr_t end, uint64_t stride, unsigned members)
{
	struct fi_av_set_attr attr = { .start_addr = start, .end_addr = end, .stride = stride };

	is_set(open_set(t, av, attr), members);
}

TEST(fi_av_set, ranges, EP_RDM, FI_COLLECTIVE | FI_MSG, "A set has the addresses from start_addr to end_addr, inclusive, stride apart, that are in the vector")
{
	struct fid_av *av = open_vector(t, FI_AV_TABLE);
	fi_addr_t gone = 3;

	range_is(t, av, 0, 5, 1, 0x3f);
	range_is(t, av, 1, 5, 2, 0x2a);
	range_is(t, av, 1, 4, 2, 0x0a);
	range_is(t, av, 2, 2, 1, 0x04);
	range_is(t, av, 4, UINT64_MAX - 1, 1, 0x30);
	range_is(t, av, 0, 5, UINT64_MAX, 0x01);
	OK(fi_av_remove(av, &gone, 1, 0));
	range_is(t, av, 2, 4, 1, 0x14);
}

TEST(fi_av_set, universe, EP_RDM, FI_COLLECTIVE | FI_MSG, "FI_UNIVERSE makes a set of all addresses; without it and a range a set is empty")
{
	struct fid_av *av = open_vector(t, FI_AV_TABLE);
	struct fi_av_set_attr attr = empty;

	is_set(open_set(t, av, attr), 0);
	attr.flags = FI_UNIVERSE | FI_BARRIER_SET;
	is_set(open_set(t, av, attr), 0x3f);
}

TEST(fi_av_set, insert_remove, EP_RDM, FI_COLLECTIVE | FI_MSG, "Addresses are inserted and removed one by one")
{
	struct fid_av *av = open_vector(t, FI_AV_MAP);
	struct fid_av_set *set = open_set(t, av, empty);

	OK(fi_av_set_insert(set, 4));
	OK(fi_av_set_insert(set, 1));
	CHECK_RC(fi_av_set_insert(set, 4), -FI_EINVAL);
	CHECK_RC(fi_av_set_insert(set, COUNT), -FI_EINVAL);
	CHECK_RC(fi_av_set_insert(set, FI_ADDR_NOTAVAIL), -FI_EINVAL);
	OK(fi_av_set_remove(set, 4));
	is_set(set, 0x02);
}

TEST(fi_av_set, merge, EP_RDM, FI_COLLECTIVE | FI_MSG, "Union, intersection and difference change the destination only")
{
	struct fid_av *av = open_vector(t, FI_AV_TABLE);
	struct fi_av_set_attr low = { .start_addr = 0, .end_addr = 3, .stride = 1 };
	struct fi_av_set_attr high = { .start_addr = 2, .end_addr = 5, .stride = 1 };
	struct fid_av_set *source = open_set(t, av, high), *set = open_set(t, av, low);

	OK(fi_av_set_union(set, source));
	is_set(set, 0x3f);
	set = open_set(t, av, low);
	OK(fi_av_set_intersect(set, source));
	is_set(set, 0x0c);
	set = open_set(t, av, low);
	OK(fi_av_set_diff(set, source));
	is_set(set, 0x03);
	set = open_set(t, av, low);
	OK(fi_av_set_union(set, set));
	OK(fi_av_set_intersect(set, set));
	is_set(set, 0x0f);
	is_set(source, 0x3c);
}

TEST(fi_av_set, addresses, EP_RDM, FI_COLLECTIVE | FI_MSG, "Each set has an address of its own, which is none of the vector")
{
	struct fid_av *av = open_vector(t, FI_AV_TABLE);
	fi_addr_t a, b;

	OK(fi_av_set_addr(open_set(t, av, empty), &a));
	OK(fi_av_set_addr(open_set(t, av, empty), &b));
	CHECK(a != b && a >= COUNT && b >= COUNT && a != FI_ADDR_NOTAVAIL && b != FI_ADDR_NOTAVAIL);
}

TEST(fi_av_set, busy, EP_RDM, FI_COLLECTIVE | FI_MSG, "A vector cannot be closed while it has sets")
{
	struct fid_av *av = open_vector(t, FI_AV_TABLE);
	struct fid_av_set *set = open_set(t, av, empty);

	CHECK_RC(fi_close(&av->fid), -FI_EBUSY);
	shut(t, &set->fid);
	shut(t, &av->fid);
}

TEST(fi_av_set, refused, EP_RDM | OURS_ONLY, FI_COLLECTIVE | FI_MSG, "Attributes that contradict the page, sets of other vectors and NULL are refused")
{
	struct fid_av *av = open_vector(t, FI_AV_TABLE), *map = open_vector(t, FI_AV_MAP);
	struct fi_av_set_attr range = { .start_addr = 0, .end_addr = 5, .stride = 1 }, attr;
	struct fid_av_set *set = open_set(t, av, empty), *other = open_set(t, map, empty), *none;
	uint8_t key = 1;

	CHECK_RC(fi_av_set(av, NULL, &none, NULL), -FI_EINVAL);
	CHECK_RC(fi_av_set(av, &range, NULL, NULL), -FI_EINVAL);
	CHECK_RC(fi_av_set(map, &range, &none, NULL), -FI_EINVAL);
	attr = range, attr.stride = 0;
	CHECK_RC(fi_av_set(av, &attr, &none, NULL), -FI_EINVAL);
	attr = range, attr.start_addr = 6;
	CHECK_RC(fi_av_set(av, &attr, &none, NULL), -FI_EINVAL);
	attr = range, attr.end_addr = FI_ADDR_NOTAVAIL;
	CHECK_RC(fi_av_set(av, &attr, &none, NULL), -FI_EINVAL);
	attr = range, attr.count = 5;
	CHECK_RC(fi_av_set(av, &attr, &none, NULL), -FI_EINVAL);
	attr = range, attr.flags = FI_INJECT;
	CHECK_RC(fi_av_set(av, &attr, &none, NULL), -FI_EBADFLAGS);
	attr = empty, attr.comm_key_size = 1, attr.comm_key = &key;
	CHECK_RC(fi_av_set(av, &attr, &none, NULL), -FI_EOPNOTSUPP);
	CHECK_RC(fi_av_set_union(set, other), -FI_EINVAL);
	CHECK_RC(fi_av_set_diff(set, NULL), -FI_EINVAL);
	CHECK_RC(fi_av_set_intersect(set, (struct fid_av_set *)av), -FI_EINVAL);
	CHECK_RC(fi_av_set_addr(set, NULL), -FI_EINVAL);
}
