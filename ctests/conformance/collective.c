// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_collective(3): groups and collectives, with 1 to 9 members in one process.
#include "collective.h"

#include <complex.h>
#include <float.h>
#include <math.h>

static fi_addr_t at(const struct group *g, unsigned i, unsigned k)
{
	return g->at[i * g->count + k];
}

static void open_shared_eq(struct env *t)
{
	if (!t->eq)
		t->eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	open_domain(t);
}

// Opens endpoints that share one event queue and have each other's addresses.
static void open_members(struct env *t, struct group *g, unsigned count)
{
	memset(g, 0, sizeof(*g));
	g->count = count;
	open_shared_eq(t);
	OK_OR_SKIP(fi_domain_bind(t->domain, &t->eq->fid, 0));
	open_group(t, g->sides, count, g->at);
}

static struct fid_av_set *set_of(struct env *t, struct group *g, unsigned i, unsigned first, unsigned last, unsigned stride)
{
	struct fi_av_set_attr attr = { .start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL };
	struct fid_av_set *set;

	OK_OR_SKIP(fi_av_set(g->sides[i].av, &attr, &set, NULL));
	keep(t, &set->fid);
	for (unsigned k = first; k <= last; k += stride)
		OK(fi_av_set_insert(set, at(g, i, k)));
	return set;
}

static void begin_join(struct env *t, struct group *g, unsigned i, struct fid_av_set *set, fi_addr_t addr)
{
	OK(fi_join_collective(g->sides[i].ep, addr, set, 0, &g->mc[i], &g->mc[i]));
	keep(t, &g->mc[i]->fid);
}

// Expects the join events of all members.
static void joined(struct env *t, struct group *g, unsigned count)
{
	for (unsigned n = 0; n < count; n++) {
		struct fi_eq_entry entry = { 0 };
		uint32_t event = 0;
		ssize_t rc = 0;
		unsigned i;

		ONCE(t, (rc = fi_eq_read(t->eq, &event, &entry, sizeof(entry), 0)) != -FI_EAGAIN);
		CHECK_RC(rc, sizeof(entry));
		CHECK_EQ(event, FI_JOIN_COMPLETE);
		for (i = 0; i < g->count && entry.context != &g->mc[i]; i++)
			;
		CHECK(i < g->count);
		CHECK(entry.fid == &g->mc[i]->fid);
		g->addr[i] = fi_mc_addr(g->mc[i]);
		CHECK(g->addr[i] != FI_ADDR_NOTAVAIL);
	}
}

static void join_all(struct env *t, struct group *g)
{
	for (unsigned i = 0; i < g->count; i++) {
		struct fid_av_set *set = set_of(t, g, i, 0, g->count - 1, 1);
		fi_addr_t addr;

		OK(fi_av_set_addr(set, &addr));
		begin_join(t, g, i, set, addr);
	}
	joined(t, g, g->count);
}

static void open_joined(struct env *t, struct group *g, unsigned count)
{
	open_members(t, g, count);
	join_all(t, g);
}

// One collective call of one member.
struct call {
	enum fi_collective_op what;
	size_t count;
	unsigned root;
	enum fi_datatype type;
	enum fi_op op;
	uint64_t flags;
};

static ssize_t try_call(struct group *g, unsigned i, const struct call *c, const void *in, void *out, void *ctx)
{
	struct fid_ep *ep = g->sides[i].ep;
	fi_addr_t to = g->addr[i], root = at(g, i, c->root);

	switch (c->what) {
	case FI_BARRIER:
		return c->flags ? fi_barrier2(ep, to, c->flags, ctx) : fi_barrier(ep, to, ctx);
	case FI_BROADCAST:
		return fi_broadcast(ep, i == c->root ? (void *)in : out, c->count, NULL, to, root, c->type, c->flags, ctx);
	case FI_ALLTOALL:
		return fi_alltoall(ep, in, c->count, NULL, out, NULL, to, c->type, c->flags, ctx);
	case FI_ALLREDUCE:
		return fi_allreduce(ep, in, c->count, NULL, out, NULL, to, c->type, c->op, c->flags, ctx);
	case FI_ALLGATHER:
		return fi_allgather(ep, in, c->count, NULL, out, NULL, to, c->type, c->flags, ctx);
	case FI_REDUCE_SCATTER:
		return fi_reduce_scatter(ep, in, c->count, NULL, out, NULL, to, c->type, c->op, c->flags, ctx);
	case FI_REDUCE:
		return fi_reduce(ep, in, c->count, NULL, i == c->root ? out : NULL, NULL, to, root, c->type, c->op, c->flags, ctx);
	case FI_SCATTER:
		return fi_scatter(ep, i == c->root ? in : NULL, c->count, NULL, out, NULL, to, root, c->type, c->flags, ctx);
	case FI_GATHER:
		return fi_gather(ep, in, c->count, NULL, i == c->root ? out : NULL, NULL, to, root, c->type, c->flags, ctx);
	}
	return -FI_ENOSYS;
}

static void collected(struct env *t, struct group *g, unsigned i, void *ctx)
{
	struct fi_cq_tagged_entry comp = { 0 };

	wait_comp(t, g->sides[i].txcq, &comp);
	CHECK(comp.op_context == ctx);
	CHECK(comp.flags & FI_COLLECTIVE);
}

// Element `n` of slice `slot` in the input of member `i`.
static uint32_t value(unsigned i, unsigned slot, size_t n)
{
	return i * 7919 + slot * 104729 + (uint32_t)n * 31 + 1;
}

static uint32_t wanted(const struct call *c, unsigned members, unsigned i, unsigned slot, size_t n)
{
	uint32_t sum = 0;

	switch (c->what) {
	case FI_BROADCAST:
		return value(c->root, 0, n);
	case FI_ALLTOALL:
		return value(slot, i, n);
	case FI_ALLGATHER:
	case FI_GATHER:
		return value(slot, 0, n);
	case FI_SCATTER:
		return value(c->root, i, n);
	default:
		for (unsigned k = 0; k < members; k++)
			sum += value(k, c->what == FI_REDUCE_SCATTER ? i : 0, n);
		return sum;
	}
}

// A collective with the buffers of all members.
struct posted {
	struct call call;
	uint32_t *in[MOST], *out[MOST];
	void *ctx[MOST];
};

static void post_at(struct env *t, struct group *g, struct posted *p, unsigned i)
{
	size_t all = p->call.count * g->count;

	p->in[i] = (uint32_t *)new_buf(t, 4 * all + 4, 0).mem;
	p->out[i] = (uint32_t *)new_buf(t, 4 * all + 4, 0).mem;
	p->ctx[i] = new_ctx();
	uint32_t *seen = host_view(p->in[i]);

	for (size_t n = 0; n < all; n++)
		seen[n] = value(i, n / p->call.count, n % p->call.count);
	POST(t, try_call(g, i, &p->call, p->in[i], p->out[i], p->ctx[i]));
}

static void check_at(struct env *t, struct group *g, struct posted *p, unsigned i)
{
	const struct call *c = &p->call;
	bool root = i == c->root;
	unsigned slots = c->what == FI_BARRIER || (c->what == FI_BROADCAST && root) ? 0 :
			 c->what == FI_ALLTOALL || c->what == FI_ALLGATHER	      ? g->count :
			 c->what == FI_GATHER					      ? (root ? g->count : 0) :
			 c->what == FI_REDUCE					      ? root :
											1;

	const uint32_t *seen = host_view(p->out[i]);

	(void)t;
	for (size_t n = 0; n < c->count * g->count + 1; n++) {
		uint32_t want = n < slots * c->count ? wanted(c, g->count, i, n / c->count, n % c->count) : 0;

		if (seen[n] != want)
			FAIL("collective %d of %u members, %zu elements, root %u: element %zu at member %u is %u, not %u", c->what,
			     g->count, c->count, c->root, n, i, seen[n], want);
	}
}

static void run(struct env *t, struct group *g, struct call call)
{
	struct posted p = { .call = call };

	for (unsigned i = 0; i < g->count; i++)
		post_at(t, g, &p, i);
	for (unsigned i = 0; i < g->count; i++)
		collected(t, g, i, p.ctx[i]);
	for (unsigned i = 0; i < g->count; i++)
		check_at(t, g, &p, i);
}

// A group of the first `count` of the endpoints.
static void first_of(struct env *t, const struct group *all, struct group *g, unsigned count)
{
	memset(g, 0, sizeof(*g));
	g->count = count;
	for (unsigned i = 0; i < count; i++) {
		g->sides[i] = all->sides[i];
		for (unsigned k = 0; k < count; k++)
			g->at[i * count + k] = at(all, i, k);
	}
	join_all(t, g);
}

static void all_sizes(struct env *t, enum fi_collective_op what)
{
	static const size_t counts[] = { 1, 63, 65, 5000, 70000 };
	struct group all;

	open_members(t, &all, MOST);
	for (unsigned members = 1; members <= MOST; members++) {
		struct group g;

		first_of(t, &all, &g, members);
		for (unsigned c = 0; c < sizeof(counts) / sizeof(*counts); c++)
			for (unsigned root = 0; root < members; root += members > 2 ? members - 1 : 1)
				run(t, &g, (struct call){ what, counts[c], root, FI_UINT32, FI_SUM, 0 });
	}
}

#define KIND(NAME, WHAT, TEXT)                                                                                         \
	TEST(fi_collective, NAME, EP_RDM, FI_COLLECTIVE | FI_MSG, TEXT)                                                \
	{                                                                                                              \
		all_sizes(t, WHAT);                                                                                    \
	}

KIND(barrier, FI_BARRIER, "fi_barrier completes at all members")
KIND(broadcast, FI_BROADCAST, "fi_broadcast brings the root's array to all members")
KIND(alltoall, FI_ALLTOALL, "fi_alltoall brings slice i of each member to member i")
KIND(allreduce, FI_ALLREDUCE, "fi_allreduce brings the reduced array to all members")
KIND(allgather, FI_ALLGATHER, "fi_allgather brings the arrays of all members to all, in order")
KIND(reduce_scatter, FI_REDUCE_SCATTER, "fi_reduce_scatter brings slice i of the reduced array to member i")
KIND(reduce, FI_REDUCE, "fi_reduce brings the reduced array to the root")
KIND(scatter, FI_SCATTER, "fi_scatter brings slice i of the root's array to member i")
KIND(gather, FI_GATHER, "fi_gather brings the arrays of all members to the root, in order")

TEST(fi_collective, barrier_waits, EP_RDM, FI_COLLECTIVE | FI_MSG, "A barrier does not complete before all members have called it")
{
	struct group g;
	void *ctx[5];
	struct call call = { .what = FI_BARRIER };

	open_joined(t, &g, 5);
	for (unsigned i = 1; i < 5; i++)
		POST(t, try_call(&g, i, &call, NULL, NULL, ctx[i] = new_ctx()));
	for (unsigned turn = 0; turn < 200; turn++)
		progress(t);
	for (unsigned i = 0; i < 5; i++)
		nothing(g.sides[i].txcq);
	POST(t, try_call(&g, 0, &call, NULL, NULL, ctx[0] = new_ctx()));
	for (unsigned i = 0; i < 5; i++)
		collected(t, &g, i, ctx[i]);
}

TEST(fi_collective, join_waits, EP_RDM, FI_COLLECTIVE | FI_MSG, "A join does not complete before all members have called it; before, there are no collectives")
{
	struct group g;
	struct fi_eq_entry entry;
	uint32_t event;

	open_members(t, &g, 4);
	for (unsigned i = 0; i < 4; i++) {
		struct fid_av_set *set = set_of(t, &g, i, 0, 3, 1);
		fi_addr_t addr;

		for (unsigned turn = 0; turn < 100; turn++)
			progress(t);
		CHECK_RC(fi_eq_read(t->eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
		OK(fi_av_set_addr(set, &addr));
		begin_join(t, &g, i, set, addr);
		if (i < 3)
			CHECK_RC(fi_barrier(g.sides[i].ep, fi_mc_addr(g.mc[i]), NULL), -FI_EOPBADSTATE);
	}
	joined(t, &g, 4);
	run(t, &g, (struct call){ .what = FI_BARRIER });
}

TEST(fi_collective, in_flight, EP_RDM, FI_COLLECTIVE | FI_MSG, "Several collectives may be under way in a group; members may run ahead of others")
{
	struct group g;
	struct posted p[9];

	open_joined(t, &g, 6);
	for (unsigned i = 0; i < 6; i++) {
		for (unsigned what = 0; what < 9; what++) {
			if (!i)
				p[what] = (struct posted){ .call = { what, 300, 2, FI_UINT32, FI_SUM, 0 } };
			post_at(t, &g, &p[what], i);
		}
		for (unsigned turn = 0; turn < 50; turn++)
			progress(t);
	}
	for (unsigned i = 0; i < 6; i++)
		for (unsigned n = 0; n < 9; n++) {
			struct fi_cq_tagged_entry comp = { 0 };

			wait_comp(t, g.sides[i].txcq, &comp);
			CHECK(comp.flags & FI_COLLECTIVE);
		}
	for (unsigned i = 0; i < 6; i++)
		for (unsigned what = 0; what < 9; what++)
			check_at(t, &g, &p[what], i);
}

TEST(fi_collective, groups, EP_RDM, FI_COLLECTIVE | FI_MSG, "Groups that overlap, subgroups and groups of the same members do not meet")
{
	struct group all, again, odd = { .count = 3 };
	struct posted a = { .call = { FI_ALLREDUCE, 100, 0, FI_UINT32, FI_SUM, 0 } };
	struct posted b = { .call = { FI_ALLGATHER, 50, 0, FI_UINT32, FI_SUM, 0 } };
	struct posted c = { .call = { FI_ALLTOALL, 70, 0, FI_UINT32, FI_SUM, 0 } };

	open_joined(t, &all, 6);
	first_of(t, &all, &again, 6);
	for (unsigned i = 0; i < 3; i++) {
		odd.sides[i] = all.sides[2 * i + 1];
		for (unsigned k = 0; k < 3; k++)
			odd.at[i * 3 + k] = at(&all, 2 * i + 1, 2 * k + 1);
	}
	// A subgroup of an existing group.
	for (unsigned i = 0; i < 3; i++)
		begin_join(t, &odd, i, set_of(t, &odd, i, 0, 2, 1), all.addr[2 * i + 1]);
	joined(t, &odd, 3);
	for (unsigned i = 0; i < 6; i++) {
		if (i % 2)
			post_at(t, &odd, &c, i / 2);
		// The order differs between members.
		post_at(t, i % 2 ? &again : &all, i % 2 ? &b : &a, i);
		post_at(t, i % 2 ? &all : &again, i % 2 ? &a : &b, i);
	}
	for (unsigned i = 0; i < 6; i++)
		for (unsigned n = 0; n < 2 + i % 2; n++) {
			struct fi_cq_tagged_entry comp = { 0 };

			wait_comp(t, all.sides[i].txcq, &comp);
		}
	for (unsigned i = 0; i < 6; i++) {
		check_at(t, &all, &a, i);
		check_at(t, &again, &b, i);
		if (i % 2)
			check_at(t, &odd, &c, i / 2);
	}
}

TEST(fi_collective, not_received, EP_RDM, FI_COLLECTIVE | FI_MSG, "Collectives and the application's messages do not meet")
{
	struct group g;
	struct buf in, out;
	void *recv;

	open_joined(t, &g, 3);
	in = new_buf(t, 4096, 0);
	out = new_buf(t, 40, 7);
	recv = new_ctx();
	OK(fi_recv(g.sides[1].ep, in.mem, in.len, in.desc, FI_ADDR_UNSPEC, recv));
	run(t, &g, (struct call){ FI_ALLREDUCE, 1000, 0, FI_UINT32, FI_SUM, 0 });
	CHECK(untouched(in, 0));
	g.sides[0].peer = at(&g, 0, 1);
	POST(t, fi_inject(g.sides[0].ep, out.mem, 40, at(&g, 0, 1)));
	done(t, g.sides[1].rxcq, recv, FI_RECV | FI_MSG);
	CHECK(holds(in, 40, 7));
	nothing(g.sides[2].rxcq);
}

// ---- Types and operations

// Static, so that no byte of a long double is uninitialized.
#define REDUCED(TYPE, CTYPE, OP, A, B, WANT)                                                                           \
	do {                                                                                                           \
		static CTYPE in_[2], out_[2];                                                                          \
		CTYPE want_ = WANT;                                                                                    \
		struct call call_ = { FI_ALLREDUCE, 1, 0, TYPE, OP, 0 };                                               \
		void *ctx_[2] = { new_ctx(), new_ctx() };                                                              \
                                                                                                                       \
		in_[0] = A;                                                                                            \
		in_[1] = B;                                                                                            \
		for (unsigned i_ = 0; i_ < 2; i_++)                                                                    \
			POST(t, try_call(&g, i_, &call_, &in_[i_], &out_[i_], ctx_[i_]));                              \
		for (unsigned i_ = 0; i_ < 2; i_++) {                                                                  \
			collected(t, &g, i_, ctx_[i_]);                                                                \
			if (out_[i_] != want_)                                                                         \
				FAIL(#TYPE " " #OP " of " #A " and " #B " is wrong");                                  \
		}                                                                                                      \
	} while (0)
#define INTEGERS(TYPE, CTYPE)                                                                                          \
	REDUCED(TYPE, CTYPE, FI_MIN, 7, 12, 7);                                                                        \
	REDUCED(TYPE, CTYPE, FI_MAX, 7, 12, 12);                                                                       \
	REDUCED(TYPE, CTYPE, FI_SUM, 7, 12, 19);                                                                       \
	REDUCED(TYPE, CTYPE, FI_PROD, 7, 12, 84);                                                                      \
	REDUCED(TYPE, CTYPE, FI_LOR, 0, 12, 1);                                                                        \
	REDUCED(TYPE, CTYPE, FI_LAND, 7, 8, 1);                                                                        \
	REDUCED(TYPE, CTYPE, FI_LXOR, 7, 12, 0);                                                                       \
	REDUCED(TYPE, CTYPE, FI_BOR, 7, 12, 15);                                                                       \
	REDUCED(TYPE, CTYPE, FI_BAND, 7, 12, 4);                                                                       \
	REDUCED(TYPE, CTYPE, FI_BXOR, 7, 12, 11)
#define FLOATS(TYPE, CTYPE)                                                                                            \
	REDUCED(TYPE, CTYPE, FI_MIN, -7, 0.5, -7);                                                                     \
	REDUCED(TYPE, CTYPE, FI_MAX, -7, 0.5, 0.5);                                                                    \
	COMPLEXES(TYPE, CTYPE)
#define COMPLEXES(TYPE, CTYPE)                                                                                         \
	REDUCED(TYPE, CTYPE, FI_SUM, -7, 0.5, -6.5);                                                                   \
	REDUCED(TYPE, CTYPE, FI_PROD, -7, 0.5, -3.5);                                                                  \
	REDUCED(TYPE, CTYPE, FI_LOR, 0, 0.5, 1);                                                                       \
	REDUCED(TYPE, CTYPE, FI_LAND, -7, 0, 0);                                                                       \
	REDUCED(TYPE, CTYPE, FI_LXOR, 0, 0.5, 1)

TEST(fi_collective, types, EP_RDM | OURS_ONLY, FI_COLLECTIVE | FI_MSG, "Reductions combine all integer, floating and complex types as fi_atomic(3) says")
{
	struct group g;

	open_joined(t, &g, 2);
	INTEGERS(FI_INT8, int8_t);
	INTEGERS(FI_UINT8, uint8_t);
	INTEGERS(FI_INT16, int16_t);
	INTEGERS(FI_UINT16, uint16_t);
	INTEGERS(FI_INT32, int32_t);
	INTEGERS(FI_UINT32, uint32_t);
	INTEGERS(FI_INT64, int64_t);
	INTEGERS(FI_UINT64, uint64_t);
	INTEGERS(FI_INT128, __int128);
	INTEGERS(FI_UINT128, unsigned __int128);
	FLOATS(FI_FLOAT, float);
	FLOATS(FI_DOUBLE, double);
	COMPLEXES(FI_FLOAT_COMPLEX, float complex);
	COMPLEXES(FI_DOUBLE_COMPLEX, double complex);
	FLOATS(FI_LONG_DOUBLE, long double);
	COMPLEXES(FI_LONG_DOUBLE_COMPLEX, long double complex);
	REDUCED(FI_LONG_DOUBLE_COMPLEX, long double complex, FI_PROD, 1 + 2 * I, 3 + 4 * I, -5 + 10 * I);
	// 1.5, 2 and their sum and product in each of the small formats.
	REDUCED(FI_FLOAT16, uint16_t, FI_SUM, 0x3e00, 0x4000, 0x4300);
	REDUCED(FI_FLOAT16, uint16_t, FI_PROD, 0x3e00, 0x4000, 0x4200);
	REDUCED(FI_BFLOAT16, uint16_t, FI_SUM, 0x3fc0, 0x4000, 0x4060);
	REDUCED(FI_BFLOAT16, uint16_t, FI_PROD, 0x3fc0, 0x4000, 0x4040);
	REDUCED(FI_FLOAT8_E4M3, uint8_t, FI_SUM, 0x3c, 0x40, 0x46);
	REDUCED(FI_FLOAT8_E4M3, uint8_t, FI_PROD, 0x3c, 0x40, 0x44);
	REDUCED(FI_FLOAT8_E5M2, uint8_t, FI_SUM, 0x3e, 0x40, 0x43);
	REDUCED(FI_FLOAT8_E5M2, uint8_t, FI_PROD, 0x3e, 0x40, 0x42);
	REDUCED(FI_INT8, int8_t, FI_MIN, -1, 1, -1);
	REDUCED(FI_UINT8, uint8_t, FI_SUM, 200, 100, 44);
	REDUCED(FI_DOUBLE_COMPLEX, double complex, FI_PROD, 1 + 2 * I, 3 + 4 * I, -5 + 10 * I);
}

TEST(fi_collective, long_double, EP_RDM | OURS_ONLY, FI_COLLECTIVE | FI_MSG, "Sums and products of long double are those of the compiler, to the last bit")
{
	enum { COUNT = 4096 };
	struct group g;
	uint64_t random = 88172645463325252u;
	static long double in[2][COUNT], out[2][COUNT];
	static const long double special[] = {
		0.0L, -0.0L, 1.0L, -1.0L, LDBL_MAX, -LDBL_MAX, LDBL_MIN, LDBL_MIN / 2, LDBL_TRUE_MIN, -LDBL_TRUE_MIN,
		LDBL_EPSILON, 1 + LDBL_EPSILON, INFINITY, -INFINITY, LDBL_MAX / 2, 0.5L,
	};

	open_joined(t, &g, 2);
	for (unsigned i = 0; i < COUNT; i++)
		for (unsigned k = 0; k < 2; k++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			// All pairs of the special values, then significands of 64 bits with near or distant exponents.
			in[k][i] = i < 256 ? special[k ? i % 16 : i / 16] :
					     ldexpl((long double)(random | 1ull << 63), (int)(random % (i % 2 ? 140 : 32700)) - (i % 2 ? 70 : 16414));
			if (i >= 256 && random >> 40 & 1)
				in[k][i] = -in[k][i];
		}
	for (unsigned product = 0; product < 2; product++) {
		struct call call = { FI_ALLREDUCE, COUNT, 0, FI_LONG_DOUBLE, product ? FI_PROD : FI_SUM, 0 };
		void *ctx[2] = { new_ctx(), new_ctx() };

		for (unsigned k = 0; k < 2; k++)
			POST(t, try_call(&g, k, &call, in[k], out[k], ctx[k]));
		for (unsigned k = 0; k < 2; k++)
			collected(t, &g, k, ctx[k]);
		for (unsigned i = 0; i < COUNT; i++) {
			volatile long double a = in[0][i], b = in[1][i], want = product ? a * b : a + b;

			for (unsigned k = 0; k < 2; k++)
				if (memcmp(&out[k][i], (const void *)&want, 10) && !(isnan(want) && isnan(out[k][i])))
					FAIL("%La and %La give %La, not %La", a, b, out[k][i], want);
		}
	}
}

TEST(fi_collective, query, EP_RDM, FI_COLLECTIVE | FI_MSG, "fi_query_collective tells what there is, with its limits")
{
	struct fi_collective_attr attr = { .op = FI_SUM, .datatype = FI_DOUBLE };

	open_domain(t);
	OK_OR_SKIP(fi_query_collective(t->domain, FI_ALLREDUCE, &attr, 0));
	CHECK_EQ(attr.datatype_attr.size, 8);
	CHECK(attr.datatype_attr.count >= 1 << 20);
	CHECK(attr.max_members >= MOST);
	attr = (struct fi_collective_attr){ .op = FI_NOOP, .datatype = FI_VOID };
	OK(fi_query_collective(t->domain, FI_BARRIER, &attr, 0));
	attr = (struct fi_collective_attr){ .op = FI_NOOP, .datatype = FI_LONG_DOUBLE };
	OK_OR_SKIP(fi_query_collective(t->domain, FI_BROADCAST, &attr, 0));
	CHECK_EQ(attr.datatype_attr.size, sizeof(long double));
	// Programs ask like this whether there is a collective that only moves data.
	attr = (struct fi_collective_attr){ .op = FI_MIN, .datatype = FI_VOID };
	OK(fi_query_collective(t->domain, FI_BROADCAST, &attr, 0));
	OK(fi_query_collective(t->domain, FI_ALLGATHER, &attr, 0));
}

TEST(fi_collective, query_refused, EP_RDM | OURS_ONLY, FI_COLLECTIVE | FI_MSG, "fi_query_collective refuses what there is not")
{
	static const struct {
		enum fi_collective_op coll;
		enum fi_op op;
		enum fi_datatype type;
		int rc;
	} cases[] = {
		{ FI_ALLREDUCE, FI_BOR, FI_FLOAT, -FI_EOPNOTSUPP },
		{ FI_REDUCE, FI_MIN, FI_DOUBLE_COMPLEX, -FI_EOPNOTSUPP },
		{ FI_REDUCE_SCATTER, FI_CSWAP, FI_UINT32, -FI_EOPNOTSUPP },
		{ FI_ALLREDUCE, FI_NOOP, FI_UINT32, -FI_EOPNOTSUPP },
		{ FI_REDUCE, FI_SUM, FI_VOID, -FI_EOPNOTSUPP },
		{ FI_GATHER, FI_NOOP, 77, -FI_EOPNOTSUPP },
		{ 9, FI_NOOP, FI_UINT32, -FI_EOPNOTSUPP },
	};
	struct fi_collective_attr attr = { .op = FI_SUM, .datatype = FI_UINT32 };

	open_domain(t);
	OK(fi_query_collective(t->domain, FI_REDUCE, &attr, FI_SCATTER));
	CHECK_RC(fi_query_collective(t->domain, FI_REDUCE, &attr, FI_INJECT), -FI_EBADFLAGS);
	CHECK_RC(fi_query_collective(t->domain, FI_REDUCE, NULL, 0), -FI_EINVAL);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		attr.op = cases[i].op;
		attr.datatype = cases[i].type;
		CHECK_RC(fi_query_collective(t->domain, cases[i].coll, &attr, 0), cases[i].rc);
	}
}

TEST(fi_collective, refused, EP_RDM | OURS_ONLY, FI_COLLECTIVE | FI_MSG, "Calls with wrong arguments are refused, and the group goes on")
{
	struct group g;
	uint32_t in[3] = { 1, 2, 3 }, out[3];
	struct fid_av_set *set;
	struct fid_ep *ep;
	struct fid_mc *mc;
	fi_addr_t to;

	open_joined(t, &g, 3);
	ep = g.sides[0].ep;
	to = g.addr[0];
	CHECK_RC(fi_barrier(ep, to + 1000, NULL), -FI_EINVAL);
	CHECK_RC(fi_barrier(ep, g.addr[1], NULL), -FI_EINVAL);
	CHECK_RC(fi_barrier2(ep, to, FI_PEEK, NULL), -FI_EBADFLAGS);
	CHECK_RC(fi_barrier2(ep, to, FI_DELIVERY_COMPLETE, NULL), -FI_EOPNOTSUPP);
	CHECK_RC(fi_allreduce(ep, in, 1, NULL, out, NULL, to, FI_UINT32, FI_CSWAP, 0, NULL), -FI_EOPNOTSUPP);
	CHECK_RC(fi_allreduce(ep, in, 1, NULL, out, NULL, to, FI_VOID, FI_SUM, 0, NULL), -FI_EOPNOTSUPP);
	CHECK_RC(fi_allreduce(ep, NULL, 1, NULL, out, NULL, to, FI_UINT32, FI_SUM, 0, NULL), -FI_EINVAL);
	CHECK_RC(fi_allreduce(ep, in, 1, NULL, NULL, NULL, to, FI_UINT32, FI_SUM, 0, NULL), -FI_EINVAL);
	CHECK_RC(fi_allgather(ep, in, SIZE_MAX / 4, NULL, out, NULL, to, FI_UINT32, 0, NULL), -FI_EMSGSIZE);
	CHECK_RC(fi_allgather(ep, in, SIZE_MAX, NULL, out, NULL, to, FI_UINT32, 0, NULL), -FI_EMSGSIZE);
	CHECK_RC(fi_broadcast(ep, in, 1, NULL, to, 77, FI_UINT32, 0, NULL), -FI_EINVAL);
	CHECK_RC(fi_broadcast(ep, in, 1, NULL, to, FI_ADDR_NOTAVAIL, FI_UINT32, 0, NULL), -FI_EINVAL);
	set = set_of(t, &g, 0, 1, 2, 1);
	CHECK_RC(fi_join_collective(ep, FI_ADDR_NOTAVAIL, set, 0, &mc, NULL), -FI_EINVAL); // the endpoint is not in the set
	OK(fi_av_set_insert(set, at(&g, 0, 0)));
	CHECK_RC(fi_join_collective(ep, to + 1000, set, 0, &mc, NULL), -FI_EINVAL);
	CHECK_RC(fi_join_collective(ep, to, NULL, 0, &mc, NULL), -FI_EINVAL);
	CHECK_RC(fi_join_collective(ep, to, set, FI_PEEK, &mc, NULL), -FI_EBADFLAGS);
	CHECK_RC(fi_join_collective(ep, to, set, 0, NULL, NULL), -FI_EINVAL);
	CHECK_RC(fi_join_collective(ep, to, set_of(t, &g, 1, 0, 2, 1), 0, &mc, NULL), -FI_EINVAL); // of another vector
	CHECK_RC(fi_join(ep, in, 0, &mc, NULL), -FI_ENOSYS);
	CHECK_RC(fi_close(&ep->fid), -FI_EBUSY);
	run(t, &g, (struct call){ FI_ALLREDUCE, 1, 0, FI_UINT32, FI_SUM, 0 });
}

TEST(fi_collective, not_asked_for, EP_RDM | OURS_ONLY, FI_MSG, "Endpoints without FI_COLLECTIVE have no collectives")
{
	struct fi_av_set_attr attr = { .start_addr = 0, .end_addr = 0, .stride = 1 };
	struct fid_av_set *set;
	struct fid_mc *mc;
	int rc;

	PAIR(t);
	CHECK(!(t->info->caps & FI_COLLECTIVE));
	rc = fi_av_set(t->a.av, &attr, &set, NULL);
	if (is_layered(t) && rc == -FI_ENOSYS)
		SKIP("not offered");
	OK(rc);
	keep(t, &set->fid);
	CHECK_RC(fi_join_collective(t->a.ep, FI_ADDR_NOTAVAIL, set, 0, &mc, NULL), -FI_ENOSYS);
	CHECK_RC(fi_barrier(t->a.ep, 0, NULL), -FI_ENOSYS);
}

TEST(fi_collective, no_eq, EP_RDM, FI_COLLECTIVE | FI_MSG, "An endpoint without event queue cannot join")
{
	struct group g = { .count = 1 };
	struct fid_av_set *set;
	fi_addr_t addr;

	open_domain(t);
	open_group(t, g.sides, 1, g.at);
	set = set_of(t, &g, 0, 0, 0, 1);
	OK(fi_av_set_addr(set, &addr));
	CHECK_RC(fi_join_collective(g.sides[0].ep, addr, set, 0, &g.mc[0], NULL), -FI_ENOEQ);
}

TEST(fi_collective, managed_by_application, EP_RDM | OURS_ONLY, FI_COLLECTIVE | FI_MSG, "A join whose membership the application manages completes without the others")
{
	struct group g;

	open_members(t, &g, 3);
	for (unsigned i = 0; i < 3; i++) {
		begin_join(t, &g, i, set_of(t, &g, i, 0, 2, 1), FI_ADDR_NOTAVAIL);
		joined(t, &g, 1);
		if (i < 2) {
			struct call call = { .what = FI_BARRIER };

			POST(t, try_call(&g, i, &call, NULL, NULL, NULL));
		}
	}
	POST(t, fi_barrier(g.sides[2].ep, g.addr[2], NULL));
	for (unsigned i = 0; i < 3; i++)
		collected(t, &g, i, NULL);
}

// ---- Members that are gone

TEST(fi_collective, dead_member, EP_RDM, FI_COLLECTIVE | FI_MSG, "When a member is gone, collectives that need it end in errors at all others")
{
	for (unsigned victim = 0; victim < 5; victim += 2) {
		struct group g;
		void *ctx[5];
		struct call call = { FI_ALLREDUCE, 4, 0, FI_UINT32, FI_SUM, 0 };
		uint32_t in[4] = { 1, 2, 3, 4 }, out[5][4];

		if (!victim)
			open_members(t, &g, 5);
		else {
			memset(&g, 0, sizeof(g));
			g.count = 5;
			open_group(t, g.sides, 5, g.at);
		}
		join_all(t, &g);
		for (unsigned i = 0; i < 5; i++)
			if (i != victim)
				POST(t, try_call(&g, i, &call, in, out[i], ctx[i] = new_ctx()));
		shut(t, &g.mc[victim]->fid);
		shut(t, &g.sides[victim].ep->fid);
		for (unsigned i = 0; i < 5; i++)
			if (i != victim) {
				struct fi_cq_err_entry err = failed_somehow(t, g.sides[i].txcq, ctx[i]);

				CHECK(err.flags & FI_COLLECTIVE);
			}
		// Later collectives fail, too.
		call.what = FI_BARRIER;
		for (unsigned i = 0; i < 5; i++)
			if (i != victim)
				POST(t, try_call(&g, i, &call, NULL, NULL, ctx[i] = new_ctx()));
		for (unsigned i = 0; i < 5; i++)
			if (i != victim)
				failed_somehow(t, g.sides[i].txcq, ctx[i]);
	}
}

TEST(fi_collective, leaves, EP_RDM | OURS_ONLY, FI_COLLECTIVE | FI_MSG, "Closing a group cancels its collectives here and ends those of members that depend on it")
{
	struct group g;
	void *ctx[4];
	struct call call = { FI_BROADCAST, 1, 0, FI_UINT32, FI_NOOP, 0 };
	uint32_t in = 5, out[4] = { 0 };

	open_joined(t, &g, 4);
	// Member 3 gets the data from member 2.
	for (unsigned i = 1; i < 4; i++)
		POST(t, try_call(&g, i, &call, &in, &out[i], ctx[i] = new_ctx()));
	shut(t, &g.mc[2]->fid);
	failed(t, g.sides[2].txcq, ctx[2], FI_ECANCELED);
	CHECK_RC(fi_barrier(g.sides[2].ep, g.addr[2], NULL), -FI_EINVAL);
	failed(t, g.sides[3].txcq, ctx[3], FI_ECANCELED);
	POST(t, try_call(&g, 0, &call, &in, &out[0], ctx[0] = new_ctx()));
	collected(t, &g, 0, ctx[0]);
	collected(t, &g, 1, ctx[1]);
	CHECK_EQ(out[1], 5);
}

TEST(fi_collective, do_not_agree, EP_RDM | OURS_ONLY, FI_COLLECTIVE | FI_MSG, "Members that call different collectives get errors")
{
	struct group g;
	struct call call = { FI_ALLGATHER, 1, 0, FI_UINT32, FI_SUM, 0 };
	uint32_t in = 1, out[2];
	void *ctx[2] = { new_ctx(), new_ctx() };

	open_joined(t, &g, 2);
	POST(t, try_call(&g, 0, &call, &in, out, ctx[0]));
	POST(t, fi_barrier(g.sides[1].ep, g.addr[1], ctx[1]));
	failed(t, g.sides[0].txcq, ctx[0], FI_EINVAL);
	failed(t, g.sides[1].txcq, ctx[1], FI_EINVAL);
	run(t, &g, (struct call){ .what = FI_BARRIER });
}

// Endpoints that share an event queue; each knows only itself, at g->at.
static void open_strangers(struct env *t, struct group *g, unsigned count)
{
	memset(g, 0, sizeof(*g));
	g->count = count;
	open_shared_eq(t);
	OK_OR_SKIP(fi_domain_bind(t->domain, &t->eq->fid, 0));
	for (unsigned i = 0; i < count; i++) {
		struct side *side = &g->sides[i];

		open_bound_ep(t, side);
		OK(fi_enable(side->ep));
		side->namelen = sizeof(side->name);
		OK(fi_getname(&side->ep->fid, side->name, &side->namelen));
	}
}

static void insert_all(struct group *g, unsigned i)
{
	for (unsigned k = 0; k < g->count; k++)
		CHECK_EQ(fi_av_insert(g->sides[i].av, g->sides[k].name, 1, &g->at[i * g->count + k], 0, NULL), 1);
}

TEST(fi_collective, inserted_late, EP_RDM | OURS_ONLY, FI_COLLECTIVE | FI_MSG, "Members may join before others have their addresses")
{
	struct group g;

	open_strangers(t, &g, 3);
	for (unsigned i = 0; i < 3; i++) {
		struct fid_av_set *set;
		fi_addr_t addr;

		insert_all(&g, i);
		set = set_of(t, &g, i, 0, 2, 1);
		OK(fi_av_set_addr(set, &addr));
		begin_join(t, &g, i, set, addr);
		turn(t);
	}
	joined(t, &g, 3);
	run(t, &g, (struct call){ FI_ALLGATHER, 5000, 0, FI_UINT32, FI_NOOP, 0 });
}

TEST(fi_collective, other_without, EP_RDM | OURS_ONLY, FI_COLLECTIVE | FI_MSG, "A join with an endpoint that was opened without FI_COLLECTIVE fails")
{
	struct group g = { .count = 2 };
	struct fi_info *all = t->info, *less = fi_dupinfo(t->info);
	struct fi_eq_err_entry err = { 0 };
	struct fid_av_set *set;
	fi_addr_t addr;

	if (is_linked(t))
		SKIP("the message stays with the endpoint");
	keep_info(t, less);
	less->caps &= ~FI_COLLECTIVE;
	less->tx_attr->caps &= ~FI_COLLECTIVE;
	less->rx_attr->caps &= ~FI_COLLECTIVE;
	open_shared_eq(t);
	OK_OR_SKIP(fi_domain_bind(t->domain, &t->eq->fid, 0));
	for (unsigned i = 0; i < 2; i++) {
		struct side *side = &g.sides[i];

		t->info = i ? less : all;
		open_bound_ep(t, side);
		OK(fi_enable(side->ep));
		side->namelen = sizeof(side->name);
		OK(fi_getname(&side->ep->fid, side->name, &side->namelen));
	}
	t->info = all;
	insert_all(&g, 0);
	insert_all(&g, 1);
	set = set_of(t, &g, 0, 0, 1, 1);
	OK(fi_av_set_addr(set, &addr));
	begin_join(t, &g, 0, set, addr);
	wait_eq_err(t, t->eq, &err);
	CHECK(err.fid == &g.mc[0]->fid);
	CHECK(err.context == &g.mc[0]);
	if (is_layered(t))
		CHECK_EQ(err.err, FI_EOPNOTSUPP);
}

TEST(fi_collective, sleeps, EP_RDM, FI_COLLECTIVE | FI_MSG, "Sleeping on the event queue brings a join to its end")
{
	struct group g;
	struct fi_eq_entry entry;
	uint32_t event;

	open_members(t, &g, 3);
	for (unsigned i = 0; i < 3; i++) {
		struct fid_av_set *set = set_of(t, &g, i, 0, 2, 1);
		fi_addr_t addr;

		OK(fi_av_set_addr(set, &addr));
		begin_join(t, &g, i, set, addr);
	}
	for (unsigned i = 0; i < 3; i++) {
		CHECK_RC(fi_eq_sread(t->eq, &event, &entry, sizeof(entry), t->limit_ms, 0), sizeof(entry));
		CHECK_EQ(event, FI_JOIN_COMPLETE);
	}
}

TEST(fi_collective, selective, EP_RDM, FI_COLLECTIVE | FI_MSG, "A collective is reported with FI_SELECTIVE_COMPLETION, too, also without FI_COMPLETION")
{
	struct group g = { .count = 1 };
	struct side *side = &g.sides[0];
	uint32_t in = 7, out = 0;

	if (!t->eq)
		t->eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	t->info->tx_attr->op_flags = 0;
	open_domain(t);
	side->info = t->info;
	side->txcq = side->rxcq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	side->av = open_av(t, FI_AV_TABLE);
	OK(fi_endpoint(t->domain, t->info, &side->ep, NULL));
	keep(t, &side->ep->fid);
	OK(fi_ep_bind(side->ep, &side->txcq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
	OK(fi_ep_bind(side->ep, &side->av->fid, 0));
	OK(fi_ep_bind(side->ep, &t->eq->fid, 0));
	OK(fi_enable(side->ep));
	side->namelen = sizeof(side->name);
	OK(fi_getname(&side->ep->fid, side->name, &side->namelen));
	CHECK_EQ(fi_av_insert(side->av, side->name, 1, &g.at[0], 0, NULL), 1);
	join_all(t, &g);
	OK(fi_allreduce(side->ep, &in, 1, NULL, &out, NULL, g.addr[0], FI_UINT32, FI_SUM, 0, &in));
	collected(t, &g, 0, &in);
	CHECK_EQ(out, 7);
	OK(fi_allreduce(side->ep, &in, 1, NULL, &out, NULL, g.addr[0], FI_UINT32, FI_SUM, FI_COMPLETION, &g));
	collected(t, &g, 0, &g);
}
