// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Waiting with a limit, memory, and traffic for tests that need completions of any kind.
#include "device.h"
#include "fixture.h"

// ---- Waiting

static void peek_eq(struct fid_eq *eq)
{
	char buf[sizeof(struct fi_eq_cm_entry) + 256];
	uint32_t event;

	fi_eq_read(eq, &event, buf, sizeof(buf), FI_PEEK);
}

void progress(struct env *t)
{
	for (struct held *held = t->held; held; held = held->next) {
		if (!held->fid)
			continue;
		if (held->fid->fclass == FI_CLASS_CQ)
			fi_cq_read((struct fid_cq *)held->fid, NULL, 0);
		else if (held->fid->fclass == FI_CLASS_CNTR)
			fi_cntr_read((struct fid_cntr *)held->fid);
		else if (held->fid->fclass == FI_CLASS_EQ)
			peek_eq((struct fid_eq *)held->fid);
	}
}

void turn(struct env *t)
{
	for (unsigned i = 0; i < 50; i++)
		progress(t);
}

void wait_read(struct env *t, struct fid_cq *cq, void *entry)
{
	ssize_t rc = -FI_EAGAIN;

	ONCE(t, (rc = fi_cq_read(cq, entry, 1)) != -FI_EAGAIN);
	if (rc == -FI_EAVAIL) {
		struct fi_cq_err_entry err = { 0 };

		CHECK_EQ(fi_cq_readerr(cq, &err, 0), 1);
		FAIL("an error entry instead of a completion: %s, flags 0x%" PRIx64, rc_name(-err.err), err.flags);
	}
	CHECK_RC(rc, 1);
}

void wait_comp(struct env *t, struct fid_cq *cq, struct fi_cq_tagged_entry *comp)
{
	struct fi_cq_tagged_entry entry = { 0 };

	wait_read(t, cq, &entry);
	if (comp)
		*comp = entry;
}

void wait_err(struct env *t, struct fid_cq *cq, struct fi_cq_err_entry *err)
{
	struct fi_cq_tagged_entry entry = { 0 };
	ssize_t rc = -FI_EAGAIN;

	ONCE(t, (rc = fi_cq_read(cq, &entry, 1)) != -FI_EAGAIN);
	if (rc == 1)
		FAIL("a completion with flags 0x%" PRIx64 " instead of an error entry", entry.flags);
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK_RC(fi_cq_readerr(cq, err, 0), 1);
}

ssize_t wait_event(struct env *t, struct fid_eq *eq, uint32_t want, void *buf, size_t len)
{
	uint32_t event = 0;
	ssize_t rc = -FI_EAGAIN;

	ONCE(t, (rc = fi_eq_read(eq, &event, buf, len, 0)) != -FI_EAGAIN);
	if (rc == -FI_EAVAIL) {
		struct fi_eq_err_entry err = { 0 };

		CHECK(fi_eq_readerr(eq, &err, 0) > 0);
		FAIL("an error event instead of event %u: %s", want, rc_name(-err.err));
	}
	if (rc < 0)
		FAIL("fi_eq_read gave %s instead of event %u", rc_name(rc), want);
	CHECK_EQ(event, want);
	return rc;
}

void wait_eq_err(struct env *t, struct fid_eq *eq, struct fi_eq_err_entry *err)
{
	char buf[512];
	uint32_t event = 0;
	ssize_t rc = -FI_EAGAIN;

	ONCE(t, (rc = fi_eq_read(eq, &event, buf, sizeof(buf), 0)) != -FI_EAGAIN);
	if (rc >= 0)
		FAIL("event %u instead of an error", event);
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK(fi_eq_readerr(eq, err, 0) > 0);
}

// ---- Memory

struct fid_mr *reg(struct env *t, void *buf, size_t len, uint64_t access)
{
	struct fid_mr *mr = NULL;

	open_domain(t);
	OK(fi_mr_reg(t->domain, buf, len, access, 0, t->next_key++, 0, &mr, t));
	keep(t, &mr->fid);
	return mr;
}

void *reg_desc(struct env *t, void *buf, size_t len, uint64_t access)
{
	if (!(t->info->domain_attr->mr_mode & FI_MR_LOCAL) && !(t->info->mode & LOCAL_MR_MODE))
		return NULL;
	return fi_mr_desc(reg(t, buf, len, access));
}

uint64_t rma_addr(struct env *t, const void *base, size_t offset)
{
	return (t->info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | MR_BASIC)) ? (uintptr_t)base + offset : offset;
}

static struct flow *flow_of(struct env *t)
{
	if (!t->flow) {
		t->flow = calloc(1, sizeof(*t->flow));
		CHECK(t->flow);
		t->flow->in_desc = reg_desc(t, t->flow->in, sizeof(t->flow->in), FI_RECV);
		t->flow->out_desc = reg_desc(t, t->flow->out, sizeof(t->flow->out), FI_SEND);
	}
	return t->flow;
}

struct flow *flow_post_recv(struct env *t, unsigned first, unsigned count)
{
	struct flow *flow = flow_of(t);

	CHECK(first + count <= FLOW_MAX);
	for (unsigned i = first; i < first + count; i++)
		POST(t, fi_recv(t->b.ep, flow->in[i], FLOW_LEN, flow->in_desc, FI_ADDR_UNSPEC, &flow->rx[i]));
	return flow;
}

struct flow *flow_post_send(struct env *t, unsigned first, unsigned count)
{
	struct flow *flow = flow_of(t);

	CHECK(first + count <= FLOW_MAX);
	for (unsigned i = first; i < first + count; i++) {
		fill(flow->out[i], FLOW_LEN, i);
		POST(t, fi_send(t->a.ep, flow->out[i], FLOW_LEN, flow->out_desc, t->a.peer, &flow->tx[i]));
	}
	return flow;
}

struct flow *flow_run(struct env *t, unsigned first, unsigned count)
{
	flow_post_recv(t, first, count);
	flow_post_send(t, first, count);
	for (unsigned i = first; i < first + count; i++) {
		struct fi_cq_tagged_entry entry; // as large as an entry of any format

		wait_read(t, t->a.txcq, &entry);
		CHECK(entry.op_context == &t->flow->tx[i]);
	}
	return t->flow;
}

void flow_error(struct env *t, unsigned index)
{
	struct flow *flow = flow_post_recv(t, index, 1);

	OK_OR_SKIP(fi_cancel(&t->b.ep->fid, &flow->rx[index]));
}

static uint8_t seeded(size_t i, unsigned seed)
{
	return (uint8_t)(i * 131 + (i >> 8) * 17 + seed * 37 + 1);
}

void fill(void *buf, size_t len, unsigned seed)
{
	buf = host_view(buf);
	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = seeded(i, seed);
}

bool filled(const void *buf, size_t len, unsigned seed)
{
	buf = host_view(buf);
	for (size_t i = 0; i < len; i++)
		if (((const uint8_t *)buf)[i] != seeded(i, seed))
			return false;
	return true;
}

__attribute__((no_sanitize_thread)) bool filled_by_now(const void *buf, size_t len, unsigned seed)
{
	buf = host_view(buf);
	for (size_t i = 0; i < len; i++)
		if (((const uint8_t *)buf)[i] != seeded(i, seed))
			return false;
	return true;
}
