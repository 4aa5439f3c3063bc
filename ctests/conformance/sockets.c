// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_sockets(7): a transport under two names. Endpoints of all kinds in one domain, and with those of tcp.
#include "transfer.h"

enum { LEN = 64, LARGE = 1 << 20 };

// Opens and enables an endpoint of this provider in a fabric and a domain of its own.
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

// Opens another one of a different type in the existing domain, with the entry of its type.
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

// A write from x to memory of y, and an atomic operation on the word after it. The memory gets its initial values
// before y registers it, because threads of the library may access it from then on.
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

// ---- Accesses that are refused

struct refusal {
	struct region writable, readable;
	struct buf out, large;
	uint64_t closed_key;
};

enum access { WRONG_KEY, PAST_END, NO_RIGHT, CLOSED, LARGE_WRITE, INJECT_WRITE, READ_WRONG_KEY, ATOMIC_WRONG_KEY, ATOMIC_NO_RIGHT, ACCESSES };

// Posts an access. Returns the flags of its error entry.
static uint64_t post_access(struct env *t, struct refusal *r, enum access access, void *ctx)
{
	struct fid_ep *ep = t->a.ep;
	fi_addr_t to = t->a.peer;
	uint64_t at = r->writable.at, key = r->writable.key;

	switch (access) {
	case WRONG_KEY:
		POST(t, fi_write(ep, r->out.mem, 8, NULL, to, at, key + 0x5150, ctx));
		return FI_RMA | FI_WRITE;
	case PAST_END:
		POST(t, fi_write(ep, r->out.mem, 8, NULL, to, at + LEN - 7, key, ctx));
		return FI_RMA | FI_WRITE;
	case NO_RIGHT:
		POST(t, fi_write(ep, r->out.mem, 8, NULL, to, r->readable.at, r->readable.key, ctx));
		return FI_RMA | FI_WRITE;
	case CLOSED:
		POST(t, fi_write(ep, r->out.mem, 8, NULL, to, at, r->closed_key, ctx));
		return FI_RMA | FI_WRITE;
	case LARGE_WRITE:
		POST(t, fi_write(ep, r->large.mem, LARGE, NULL, to, at, key + 0x5150, ctx));
		return FI_RMA | FI_WRITE;
	case INJECT_WRITE:
		POST(t, fi_inject_write(ep, r->out.mem, 8, to, at, key + 0x5150));
		return FI_RMA | FI_WRITE;
	case READ_WRONG_KEY:
		POST(t, fi_read(ep, r->out.mem, 8, NULL, to, at, key + 0x5150, ctx));
		return FI_RMA | FI_READ;
	case ATOMIC_WRONG_KEY:
		POST(t, fi_atomic(ep, r->out.mem, 1, NULL, to, at, key + 0x5150, FI_UINT64, FI_SUM, ctx));
		return FI_ATOMIC | FI_WRITE;
	default:
		POST(t, fi_atomic(ep, r->out.mem, 1, NULL, to, r->readable.at, r->readable.key, FI_UINT64, FI_SUM, ctx));
		return FI_ATOMIC | FI_WRITE;
	}
}

static void write_and_check(struct env *t, struct refusal *r, unsigned count)
{
	struct region other = new_region(t, &t->b, new_buf(t, LEN, 0), FI_REMOTE_READ);
	void *ctx = new_ctx();

	// Registering memory takes the lock of the domain, so ThreadSanitizer sees that the progress thread writes after this
	// thread has looked at the memory.
	shut(t, &other.mr->fid);
	for (unsigned i = 0; i < count; i++)
		POST(t, fi_write(t->a.ep, r->out.mem, LEN, NULL, t->a.peer, r->writable.at, r->writable.key, ctx));
	for (unsigned i = 0; i < count; i++)
		done(t, t->a.txcq, ctx, FI_RMA | FI_WRITE);
	// With shared memory a write that the target's directory permits completes before the target has the data.
	ONCE(t, holds_by_now(r->writable.buf, LEN, 1));
	memset(r->writable.buf.mem, 0, LEN);
}

static struct refusal open_regions(struct env *t)
{
	struct refusal r = { .out = new_buf(t, LEN, 1), .large = new_buf(t, LARGE, 2) };
	struct region closed = new_region(t, &t->b, new_buf(t, LEN, 0), FI_REMOTE_WRITE);

	r.closed_key = closed.key;
	shut(t, &closed.mr->fid);
	r.writable = new_region(t, &t->b, new_buf(t, LEN, 0), FI_REMOTE_WRITE);
	r.readable = new_region(t, &t->b, new_buf(t, LEN, 0), FI_REMOTE_READ);
	return r;
}

static void check_refused(struct env *t, struct refusal *r, enum access access)
{
	void *ctx = new_ctx();
	uint64_t flags = post_access(t, r, access, ctx);
	struct fi_cq_err_entry err = failed(t, t->a.txcq, access == INJECT_WRITE ? NULL : ctx, FI_EACCES);

	CHECK_EQ(kind_flags(err.flags), flags);
	CHECK(untouched(r->writable.buf, 0));
	CHECK(untouched(r->readable.buf, 0));
}

static void refuse_all(struct env *t, unsigned writes)
{
	struct refusal r;

	open_at(t, &t->a, "sockets", FI_EP_RDM, FI_MSG | FI_RMA | FI_ATOMIC);
	open_at(t, &t->b, "sockets", FI_EP_RDM, FI_MSG | FI_RMA | FI_ATOMIC);
	introduce(&t->a, &t->b);
	r = open_regions(t);
	write_and_check(t, &r, 1);
	for (enum access access = 0; access < ACCESSES; access++) {
		check_refused(t, &r, access);
		write_and_check(t, &r, writes);
	}
}

TEST(fi_sockets, refused_access, CORE | OURS_ONLY, 0, "A write, read or atomic operation without a result that the target refuses ends in FI_EACCES, also if it was injected, and the next ones succeed")
{
	refuse_all(t, 1);
}

TEST(fi_sockets, refused_access_over_tcp, CORE | OURS_ONLY, 0, "So it is over TCP")
{
	setenv("FI_TCP_SHARED_MEMORY", "0", 1);
	refuse_all(t, 3);
}

TEST(fi_sockets, refused_access_of_a_connection, EP_MSG | OURS_ONLY, FI_RMA, "Over a connection a refused write ends in FI_EACCES, too")
{
	struct refusal r;

	if (strcmp(t->prov, "sockets"))
		SKIP("a rule of sockets");
	PAIR(t);
	r = open_regions(t);
	write_and_check(t, &r, 3);
	check_refused(t, &r, WRONG_KEY);
}
