// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_sockets(7): a transport under two names. Endpoints of all kinds in one domain, and with those of tcp.
#include "transfer.h"

enum { LEN = 64, LARGE = 1 << 20 };

// An enabled endpoint of this provider in a fabric and a domain of its own.
static void open_at(struct env *t, struct side *side, const char *prov, enum fi_ep_type type, uint64_t caps)
{
	t->fabric = NULL;
	t->domain = NULL;
	start_as(t, prov, type, caps);
	open_bound_ep(t, side);
	OK(fi_enable(side->ep));
	side->namelen = sizeof(side->name);
	OK(fi_getname(&side->ep->fid, side->name, &side->namelen));
}

// One more, of another type, in the domain that there is: opened with the entry of its type.
static void open_beside(struct env *t, struct side *side, enum fi_ep_type type, uint64_t caps)
{
	struct fid_fabric *fabric = t->fabric;
	struct fid_domain *domain = t->domain;

	start_as(t, "sockets", type, caps);
	t->fabric = fabric;
	t->domain = domain;
	open_bound_ep(t, side);
	OK(fi_enable(side->ep));
	side->namelen = sizeof(side->name);
	OK(fi_getname(&side->ep->fid, side->name, &side->namelen));
}

static void introduce(struct side *x, struct side *y)
{
	CHECK_EQ(fi_av_insert(x->av, y->name, 1, &x->peer, 0, NULL), 1);
	CHECK_EQ(fi_av_insert(y->av, x->name, 1, &y->peer, 0, NULL), 1);
}

// Messages of all kinds and sizes from x to y.
static void send_all(struct env *t, struct side *x, struct side *y)
{
	size_t lens[] = { 0, 1, 4000, LARGE };

	for (unsigned i = 0; i < sizeof(lens) / sizeof(*lens); i++)
		for (unsigned tagged = 0; tagged < 2; tagged++) {
			struct buf in = new_buf(t, lens[i], 0);
			struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);
			struct op send = op_of(SENDDATA, tagged, new_buf(t, lens[i], i + 1), x->peer);
			struct fi_cq_tagged_entry comp;

			op_post(t, y->ep, &recv);
			op_post(t, x->ep, &send);
			comp = done(t, y->rxcq, recv.ctx, RECEIVED(tagged) | FI_REMOTE_CQ_DATA);
			CHECK_EQ(comp.data, DATA);
			CHECK_EQ(comp.len, lens[i]);
			CHECK(holds(in, lens[i], i + 1));
			wait_comp(t, x->txcq, NULL);
		}
}

// A write from x to memory of y, and an atomic operation on the word behind it. All of it has its value before y registers it:
// from then on threads of the library may be at it.
static void use_memory(struct env *t, struct side *x, struct side *y)
{
	struct buf in = new_buf(t, LARGE + sizeof(uint64_t), 0), out = new_buf(t, LARGE, 5);
	uint64_t one = 1, *sum = (uint64_t *)(in.mem + LARGE);
	void *ctx = new_ctx();
	struct region target;

	*sum = 41;
	target = new_region(t, y, in, FI_REMOTE_READ | FI_REMOTE_WRITE);
	POST(t, fi_write(x->ep, out.mem, LARGE, out.desc, x->peer, target.at, target.key, ctx));
	done(t, x->txcq, ctx, FI_RMA | FI_WRITE);
	ONCE(t, holds_by_now(in, LARGE, 5));
	POST(t, fi_inject_atomic(x->ep, &one, 1, x->peer, target.at + LARGE, target.key, FI_UINT64, FI_SUM));
	ONCE(t, __atomic_load_n(sum, __ATOMIC_RELAXED) == 42);
}

TEST(fi_sockets, meets_tcp, CORE | OURS_ONLY, 0, "Endpoints of sockets and of tcp reach each other: messages, memory, atomic operations, both ways")
{
	uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;

	open_at(t, &t->a, "sockets", FI_EP_RDM, caps);
	open_at(t, &t->b, "tcp", FI_EP_RDM, caps);
	introduce(&t->a, &t->b);
	send_all(t, &t->a, &t->b);
	send_all(t, &t->b, &t->a);
	use_memory(t, &t->a, &t->b); // the domain of b is that of t
}

TEST(fi_sockets, meets_tcp_over_tcp, CORE | OURS_ONLY, 0, "So they do over TCP")
{
	uint64_t caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;

	setenv("FI_TCP_SHARED_MEMORY", "0", 1);
	open_at(t, &t->b, "tcp", FI_EP_RDM, caps);
	open_at(t, &t->a, "sockets", FI_EP_RDM, caps);
	introduce(&t->a, &t->b);
	send_all(t, &t->a, &t->b);
	send_all(t, &t->b, &t->a);
	use_memory(t, &t->b, &t->a);
}

TEST(fi_sockets, all_types_in_a_domain, CORE | OURS_ONLY, 0, "A domain has endpoints of all types, whichever entry it was opened with; those without connections reach each other")
{
	enum fi_ep_type types[] = { FI_EP_DGRAM, FI_EP_RDM, FI_EP_MSG };

	for (unsigned i = 0; i < 3; i++) {
		struct side msg = { 0 };

		t->fabric = NULL;
		t->domain = NULL;
		start_as(t, "sockets", types[i], FI_MSG | FI_TAGGED);
		open_domain(t);
		open_beside(t, &t->a, FI_EP_DGRAM, FI_MSG | FI_TAGGED);
		open_beside(t, &t->b, FI_EP_RDM, FI_MSG | FI_TAGGED);
		open_beside(t, &msg, FI_EP_MSG, FI_MSG | FI_TAGGED);
		introduce(&t->a, &t->b);
		send_all(t, &t->a, &t->b);
		send_all(t, &t->b, &t->a);
	}
}

TEST(fi_sockets, dgram_has_no_memory, CORE | OURS_ONLY, 0, "A FI_EP_DGRAM endpoint is for messages: with FI_RMA or FI_ATOMIC it is not opened (-FI_EINVAL), and what a peer writes to it ends with an error and changes nothing")
{
	struct region target;
	struct fid_ep *ep = NULL;
	void *ctx = new_ctx();
	struct fi_rma_iov rma;
	struct fi_msg_rma msg;
	struct iovec iov;
	struct buf out;

	open_at(t, &t->a, "sockets", FI_EP_RDM, FI_MSG | FI_RMA);
	open_beside(t, &t->b, FI_EP_DGRAM, FI_MSG);
	for (unsigned i = 0; i < 2; i++) {
		struct fi_info *info = fi_dupinfo(t->b.info);

		info->caps |= i ? FI_ATOMIC : FI_RMA;
		CHECK_RC(fi_endpoint(t->domain, info, &ep, NULL), -FI_EINVAL);
		fi_freeinfo(info);
	}
	introduce(&t->a, &t->b);
	out = new_buf(t, LEN, 1);
	target = new_region(t, &t->b, new_buf(t, LEN, 0), FI_REMOTE_WRITE);
	rma = (struct fi_rma_iov){ target.at, LEN, target.key };
	iov = (struct iovec){ out.mem, LEN };
	msg = (struct fi_msg_rma){ .msg_iov = &iov, .desc = &out.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &rma,
				   .rma_iov_count = 1, .context = ctx };
	POST(t, fi_writemsg(t->a.ep, &msg, FI_DELIVERY_COMPLETE));
	failed_somehow(t, t->a.txcq, ctx);
	CHECK(untouched(target.buf, 0));
}
