// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! See transfer.h.
#include "transfer.h"

// Memory allocated here is kept, because the library may use it until the endpoints are closed.
static struct kept {
	struct kept *next;
	void *mem;
} *kept;

void *keep_mem(size_t len)
{
	struct kept *piece = malloc(sizeof(*piece));

	CHECK(piece);
	piece->mem = calloc(1, len ? len : 1);
	CHECK(piece->mem);
	piece->next = kept;
	kept = piece;
	return piece->mem;
}

struct buf new_buf(struct env *t, size_t len, unsigned seed)
{
	struct buf buf = { .mem = on_device() ? device_mem(len) : keep_mem(len), .len = len };

	if (seed)
		fill(buf.mem, len, seed);
	if (len)
		buf.desc = reg_desc(t, buf.mem, len, ALL_ACCESS);
	return buf;
}

struct buf part(struct buf whole, size_t offset, size_t len)
{
	CHECK(offset + len <= whole.len);
	return (struct buf){ .mem = whole.mem + offset, .len = len, .desc = whole.desc };
}

bool holds(struct buf buf, size_t len, unsigned seed)
{
	return len <= buf.len && filled(buf.mem, len, seed);
}

bool holds_by_now(struct buf buf, size_t len, unsigned seed)
{
	return len <= buf.len && filled_by_now(buf.mem, len, seed);
}

// Also while a thread of the library may write there: the sanitizer does not see that a socket orders two accesses.
__attribute__((no_sanitize_thread)) bool untouched(struct buf buf, size_t from)
{
	const uint8_t *mem = host_view(buf.mem);

	for (size_t i = from; i < buf.len; i++)
		if (mem[i])
			return false;
	return true;
}

struct region new_region(struct env *t, struct side *side, struct buf buf, uint64_t access)
{
	struct region region = { .buf = buf, .mr = reg(t, buf.mem, buf.len, access) };

	if (t->info->domain_attr->mr_mode & FI_MR_ENDPOINT) {
		OK(fi_mr_bind(region.mr, &side->ep->fid, 0));
		OK(fi_mr_enable(region.mr));
	}
	region.key = fi_mr_key(region.mr);
	region.at = rma_addr(t, buf.mem, 0);
	return region;
}

void *new_ctx(void)
{
	return keep_mem(sizeof(struct fi_context2));
}

bool has_form(struct env *t, enum form form)
{
	return (form != SENDDATA && form != INJECTDATA) || t->info->domain_attr->cq_data_size;
}

struct op op_of(enum form form, bool tagged, struct buf buf, fi_addr_t addr)
{
	return (struct op){
		.form = form, .tagged = tagged, .iov = { { buf.mem, buf.len } }, .desc = { buf.desc }, .count = 1,
		.addr = addr, .data = DATA, .tag = TAG, .ctx = new_ctx(),
	};
}

static ssize_t try_msg(struct fid_ep *ep, const struct op *op)
{
	struct fi_msg msg = {
		.msg_iov = op->iov, .desc = (void **)op->desc, .iov_count = op->count, .addr = op->addr,
		.context = op->ctx, .data = op->data,
	};
	void *base = op->iov[0].iov_base, *desc = op->desc[0];
	size_t len = op->iov[0].iov_len;

	switch (op->form) {
	case SEND:
		return fi_send(ep, base, len, desc, op->addr, op->ctx);
	case SENDV:
		return fi_sendv(ep, op->iov, (void **)op->desc, op->count, op->addr, op->ctx);
	case SENDMSG:
		return fi_sendmsg(ep, &msg, op->flags);
	case SENDDATA:
		return fi_senddata(ep, base, len, desc, op->data, op->addr, op->ctx);
	case INJECT:
		return fi_inject(ep, base, len, op->addr);
	case INJECTDATA:
		return fi_injectdata(ep, base, len, op->data, op->addr);
	case RECV:
		return fi_recv(ep, base, len, desc, op->addr, op->ctx);
	case RECVV:
		return fi_recvv(ep, op->iov, (void **)op->desc, op->count, op->addr, op->ctx);
	case RECVMSG:
		return fi_recvmsg(ep, &msg, op->flags);
	}
	return -FI_ENOSYS;
}

static ssize_t try_tagged(struct fid_ep *ep, const struct op *op)
{
	struct fi_msg_tagged msg = {
		.msg_iov = op->iov, .desc = (void **)op->desc, .iov_count = op->count, .addr = op->addr,
		.tag = op->tag, .ignore = op->ignore, .context = op->ctx, .data = op->data,
	};
	void *base = op->iov[0].iov_base, *desc = op->desc[0];
	size_t len = op->iov[0].iov_len;

	switch (op->form) {
	case SEND:
		return fi_tsend(ep, base, len, desc, op->addr, op->tag, op->ctx);
	case SENDV:
		return fi_tsendv(ep, op->iov, (void **)op->desc, op->count, op->addr, op->tag, op->ctx);
	case SENDMSG:
		return fi_tsendmsg(ep, &msg, op->flags);
	case SENDDATA:
		return fi_tsenddata(ep, base, len, desc, op->data, op->addr, op->tag, op->ctx);
	case INJECT:
		return fi_tinject(ep, base, len, op->addr, op->tag);
	case INJECTDATA:
		return fi_tinjectdata(ep, base, len, op->data, op->addr, op->tag);
	case RECV:
		return fi_trecv(ep, base, len, desc, op->addr, op->tag, op->ignore, op->ctx);
	case RECVV:
		return fi_trecvv(ep, op->iov, (void **)op->desc, op->count, op->addr, op->tag, op->ignore, op->ctx);
	case RECVMSG:
		return fi_trecvmsg(ep, &msg, op->flags);
	}
	return -FI_ENOSYS;
}

ssize_t op_try(struct fid_ep *ep, const struct op *op)
{
	return op->tagged ? try_tagged(ep, op) : try_msg(ep, op);
}

void op_post(struct env *t, struct fid_ep *ep, const struct op *op)
{
	POST(t, op_try(ep, op));
}

static void *post(struct env *t, struct side *side, enum form form, bool tagged, struct buf buf, uint64_t tag,
		  uint64_t ignore)
{
	struct op op = op_of(form, tagged, buf, form == RECV ? FI_ADDR_UNSPEC : side->peer);

	op.tag = tag;
	op.ignore = ignore;
	op_post(t, side->ep, &op);
	return op.ctx;
}

void *post_send(struct env *t, struct side *from, struct buf buf)
{
	return post(t, from, SEND, false, buf, 0, 0);
}

void *post_recv(struct env *t, struct side *at, struct buf buf)
{
	return post(t, at, RECV, false, buf, 0, 0);
}

void *post_tsend(struct env *t, struct side *from, struct buf buf, uint64_t tag)
{
	return post(t, from, SEND, true, buf, tag, 0);
}

void *post_trecv(struct env *t, struct side *at, struct buf buf, uint64_t tag, uint64_t ignore)
{
	return post(t, at, RECV, true, buf, tag, ignore);
}

uint64_t kind_flags(uint64_t flags)
{
	return flags & (FI_SEND | FI_RECV | FI_RMA | FI_ATOMIC | FI_MSG | FI_TAGGED | FI_READ | FI_WRITE |
			FI_REMOTE_READ | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA | FI_MULTI_RECV);
}

struct fi_cq_tagged_entry done(struct env *t, struct fid_cq *cq, void *ctx, uint64_t flags)
{
	struct fi_cq_tagged_entry comp;

	wait_comp(t, cq, &comp);
	CHECK(comp.op_context == ctx);
	if (kind_flags(comp.flags) != flags)
		FAIL("completion flags are 0x%" PRIx64 ", not 0x%" PRIx64, comp.flags, flags);
	return comp;
}

void all_done(struct env *t, struct fid_cq *cq, struct expected_recv *recvs, unsigned count)
{
	struct fi_cq_tagged_entry comp;

	for (unsigned i = 0, at; i < count; i++) {
		wait_comp(t, cq, &comp);
		at = i;
		while (is_layered(t) && at < count && recvs[at].ctx != comp.op_context)
			at++;
		CHECK(at < count && recvs[at].ctx == comp.op_context);
		CHECK_EQ(kind_flags(comp.flags), recvs[at].flags);
		CHECK_EQ(comp.len, recvs[at].len);
		// Each receive completes once, so it moves to the front of the list.
		struct expected_recv done = recvs[at];

		memmove(&recvs[i + 1], &recvs[i], (at - i) * sizeof(done));
		recvs[i] = done;
	}
}

struct fi_cq_err_entry failed(struct env *t, struct fid_cq *cq, void *ctx, int err)
{
	struct fi_cq_err_entry entry = { 0 };

	wait_err(t, cq, &entry);
	CHECK_RC(-entry.err, -err);
	CHECK(entry.op_context == ctx);
	return entry;
}

struct fi_cq_err_entry failed_somehow(struct env *t, struct fid_cq *cq, void *ctx)
{
	struct fi_cq_err_entry entry = { 0 };

	wait_err(t, cq, &entry);
	CHECK(entry.err > 0);
	CHECK(entry.op_context == ctx);
	return entry;
}

void nothing(struct fid_cq *cq)
{
	struct fi_cq_tagged_entry comp = { 0 };
	ssize_t rc = fi_cq_read(cq, &comp, 1);

	if (rc == 1)
		FAIL("a completion that should not be: flags 0x%" PRIx64 ", len %zu, tag 0x%" PRIx64, comp.flags,
		     comp.len, comp.tag);
	CHECK_RC(rc, -FI_EAGAIN);
}

// `quiet`: does not read the sender's queue, which may contain other completions.
static void one_way(struct env *t, struct side *from, struct side *to, bool quiet)
{
	bool tagged = !(t->info->caps & FI_MSG);
	struct buf out = new_buf(t, 8, 99), in = new_buf(t, 8, 0);
	struct op send = op_of(quiet ? INJECT : SEND, tagged, out, from->peer);
	struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);

	op_post(t, to->ep, &recv);
	op_post(t, from->ep, &send);
	if (!quiet)
		done(t, from->txcq, send.ctx, SENT(tagged));
	done(t, to->rxcq, recv.ctx, RECEIVED(tagged));
	CHECK(holds(in, 8, 99));
}

void round_trip(struct env *t)
{
	one_way(t, &t->a, &t->b, false);
	one_way(t, &t->b, &t->a, false);
}

void round_trip_between(struct env *t, struct side *x, struct side *y)
{
	one_way(t, x, y, true);
	one_way(t, y, x, true);
}

void open_group(struct env *t, struct side *sides, unsigned count, fi_addr_t *at)
{
	for (unsigned i = 0; i < count; i++) {
		open_bound_ep(t, &sides[i]);
		OK(fi_enable(sides[i].ep));
		sides[i].namelen = sizeof(sides[i].name);
		OK(fi_getname(&sides[i].ep->fid, sides[i].name, &sides[i].namelen));
	}
	for (unsigned i = 0; i < count; i++)
		for (unsigned k = 0; k < count; k++)
			CHECK_EQ(fi_av_insert(sides[i].av, sides[k].name, 1, &at[i * count + k], 0, NULL), 1);
}

void start_as(struct env *t, const char *prov, enum fi_ep_type type, uint64_t caps)
{
	t->prov = prov;
	t->type = type;
	t->caps = caps;
	// The hints of the previous instance.
	fi_freeinfo(t->hints);
	t->hints = fi_allocinfo();
	CHECK(t->hints);
	t->hints->caps = caps;
	t->hints->mode = FI_CONTEXT | FI_CONTEXT2;
	t->hints->ep_attr->type = type;
	t->hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	t->hints->fabric_attr->prov_name = strdup(prov);
	env_info(t);
}
