// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_collective(3): groups of two processes.
#include "collective.h"
#include "process.h"

// The parent is member 0, the child member 1.
struct member {
	struct side side;
	fi_addr_t at[2];
	struct fid_mc *mc;
};

static void open_member(struct env *t, struct member *m)
{
	memset(m, 0, sizeof(*m));
	t->eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	open_domain(t);
	OK_OR_SKIP(fi_domain_bind(t->domain, &t->eq->fid, 0));
	open_end(t, &m->side, FI_WAIT_UNSPEC);
}

static void insert(struct member *m, const void *first, const void *second)
{
	CHECK_RC(fi_av_insert(m->side.av, first, 1, &m->at[0], 0, NULL), 1);
	CHECK_RC(fi_av_insert(m->side.av, second, 1, &m->at[1], 0, NULL), 1);
}

static void begin(struct env *t, struct member *m)
{
	struct fi_av_set_attr attr = { .start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL };
	struct fid_av_set *set;
	fi_addr_t addr;

	OK_OR_SKIP(fi_av_set(m->side.av, &attr, &set, NULL));
	keep(t, &set->fid);
	for (unsigned k = 0; k < 2; k++)
		OK(fi_av_set_insert(set, m->at[k]));
	OK(fi_av_set_addr(set, &addr));
	OK(fi_join_collective(m->side.ep, addr, set, 0, &m->mc, NULL));
	keep(t, &m->mc->fid);
}

static void finish(struct env *t, struct member *m)
{
	struct fi_eq_entry entry;

	wait_event(t, t->eq, FI_JOIN_COMPLETE, &entry, sizeof(entry));
	CHECK(entry.fid == &m->mc->fid);
}

// Exchanges data that takes many messages.
static void exchange(struct env *t, struct member *m, unsigned rank)
{
	static uint64_t in[20000], out[20000];
	struct fi_cq_tagged_entry comp;

	for (unsigned n = 0; n < 20000; n++)
		in[n] = n * (rank + 1);
	POST(t, fi_allreduce(m->side.ep, in, 20000, NULL, out, NULL, fi_mc_addr(m->mc), FI_UINT64, FI_SUM, 0, in));
	wait_comp(t, m->side.txcq, &comp);
	CHECK(comp.op_context == in);
	for (unsigned n = 0; n < 20000; n++)
		CHECK_EQ(out[n], 3 * n);
}

static void join_first(struct env *t, struct process *parent)
{
	struct member m;
	char theirs[sizeof(m.side.name)];
	char word;

	open_member(t, &m);
	tell(parent, m.side.name, sizeof(m.side.name));
	hear(t, parent, theirs, sizeof(theirs));
	insert(&m, theirs, m.side.name);
	begin(t, &m);
	turn(t);
	tell(parent, "j", 1);
	finish(t, &m);
	exchange(t, &m, 1);
	// A collective that the parent does not call.
	POST(t, fi_barrier(m.side.ep, fi_mc_addr(m.mc), NULL));
	turn(t);
	tell(parent, "b", 1);
	hear(t, parent, &word, 1);
}

static struct process open_with_child(struct env *t, struct member *m)
{
	struct process child = start_process(t, join_first);
	char theirs[sizeof(m->side.name)];
	char word;

	open_member(t, m);
	tell(&child, m->side.name, sizeof(m->side.name));
	hear(t, &child, theirs, sizeof(theirs));
	hear(t, &child, &word, 1);
	turn(t);
	insert(m, m->side.name, theirs);
	begin(t, m);
	finish(t, m);
	exchange(t, m, 0);
	hear(t, &child, &word, 1);
	return child;
}

TEST(fi_collective, unknown_senders, EP_RDM | OURS_ONLY, FI_COLLECTIVE | FI_MSG, "A process may join before another one has its address")
{
	struct member m;
	struct process child = open_with_child(t, &m);
	struct fi_cq_tagged_entry comp;

	POST(t, fi_barrier(m.side.ep, fi_mc_addr(m.mc), &m));
	wait_comp(t, m.side.txcq, &comp);
	CHECK(comp.op_context == &m);
	tell(&child, "e", 1);
	join_process(t, &child);
}

TEST(fi_collective, killed_member, EP_RDM | OURS_ONLY, FI_COLLECTIVE | FI_MSG, "When the process of a member dies, collectives end in errors; those for which it has sent all succeed")
{
	struct member m;
	struct process child = open_with_child(t, &m);
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry comp;

	kill_process(&child);
	// The child has called this one.
	POST(t, fi_barrier(m.side.ep, fi_mc_addr(m.mc), &m));
	POST(t, fi_barrier(m.side.ep, fi_mc_addr(m.mc), &err));
	wait_comp(t, m.side.txcq, &comp);
	CHECK(comp.op_context == &m);
	wait_err(t, m.side.txcq, &err);
	CHECK(err.op_context == &err);
	CHECK(err.flags & FI_COLLECTIVE);
}
