// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Completion queues: a ring that grows, so that no completion is lost. fi_cq(3)

#include "carry.h"

#include <stdio.h>

#define LOCK(CQ) carry_lock((CQ)->domain->fabric)
#define UNLOCK(CQ) carry_unlock((CQ)->domain->fabric)

const char *carry_error_text(int prov_errno, char *buf, size_t len)
{
	const char *text = fi_strerror(prov_errno);

	if (!buf || !len)
		return text;
	snprintf(buf, len, "%s", text);
	return buf;
}

void carry_complete(struct carry_cq *cq, const struct fi_cq_err_entry *entry)
{
	if (cq->count == cq->room) {
		struct fi_cq_err_entry *ring = calloc(2 * cq->room, sizeof(*ring));

		if (!ring) // as after any overrun, the queue is unusable
			abort();
		for (size_t i = 0; i < cq->count; i++)
			ring[i] = cq->ring[(cq->first + i) % cq->room];
		free(cq->ring);
		cq->ring = ring;
		cq->first = 0;
		cq->room *= 2;
	}
	cq->ring[(cq->first + cq->count++) % cq->room] = *entry;
	carry_ring(&cq->wait);
}

static void pop(struct carry_cq *cq)
{
	cq->first = (cq->first + 1) % cq->room;
	if (!--cq->count)
		carry_quiet(&cq->wait);
}

// Each format begins with the fields of the one before it, and the error entry with those of the largest format.
static const size_t entry_size[] = {
	[FI_CQ_FORMAT_CONTEXT] = sizeof(struct fi_cq_entry),
	[FI_CQ_FORMAT_MSG] = sizeof(struct fi_cq_msg_entry),
	[FI_CQ_FORMAT_DATA] = sizeof(struct fi_cq_data_entry),
	[FI_CQ_FORMAT_TAGGED] = sizeof(struct fi_cq_tagged_entry),
};

static ssize_t take(struct carry_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	size_t done = 0, size = entry_size[cq->format];

	for (; done < count && cq->count && !cq->ring[cq->first].err; done++, pop(cq)) {
		memcpy((char *) buf + done * size, &cq->ring[cq->first], size);
		if (src)
			src[done] = FI_ADDR_NOTAVAIL;
	}
	if (done || (!count && cq->count && !cq->ring[cq->first].err))
		return (ssize_t) done;
	return cq->count && cq->ring[cq->first].err ? -FI_EAVAIL : -FI_EAGAIN;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src)
{
	struct carry_cq *cq = (struct carry_cq *) fid;
	ssize_t rc;

	if (count && !buf)
		return -FI_EINVAL;
	LOCK(cq);
	rc = take(cq, buf, count, src);
	if (rc <= 0) { // also with a count of 0, which only requests progress
		carry_progress(cq->domain->fabric);
		rc = take(cq, buf, count, src);
	}
	UNLOCK(cq);
	return rc;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_readfrom(fid, buf, count, NULL);
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct carry_cq *cq = (struct carry_cq *) fid;
	uint32_t version = cq->domain->fabric->fid.api_version;
	size_t size = FI_VERSION_GE(version, FI_VERSION(1, 20))  ? sizeof(*buf)
		      : FI_VERSION_GE(version, FI_VERSION(1, 5)) ? offsetof(struct fi_cq_err_entry, src_addr)
								 : offsetof(struct fi_cq_err_entry, err_data_size);
	ssize_t rc = -FI_EAGAIN;

	if (!buf || flags)
		return -FI_EINVAL;
	LOCK(cq);
	if (!cq->count)
		carry_progress(cq->domain->fabric);
	if (cq->count && cq->ring[cq->first].err) {
		struct fi_cq_err_entry entry = cq->ring[cq->first];

		// There is never error data, so the caller's pointer must stay as it is.
		entry.err_data = buf->err_data;
		memcpy(buf, &entry, size);
		pop(cq);
		rc = 1;
	}
	UNLOCK(cq);
	return rc;
}

static size_t ready(struct carry_cq *cq, size_t wanted)
{
	for (size_t i = 0; i < cq->count && i < wanted; i++)
		if (cq->ring[(cq->first + i) % cq->room].err)
			return wanted;
	return cq->count;
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *src, const void *cond, int timeout)
{
	struct carry_cq *cq = (struct carry_cq *) fid;
	uint64_t deadline = carry_deadline(timeout), signals;
	size_t wanted = cq->cond == FI_CQ_COND_THRESHOLD ? (uintptr_t) cond : 1;
	ssize_t rc = 0;

	if (cq->wait.obj == FI_WAIT_NONE || (count && !buf))
		return -FI_EINVAL;
	LOCK(cq);
	signals = carry_enter(&cq->wait);
	if (!wanted)
		wanted = 1;
	for (;;) {
		carry_progress(cq->domain->fabric);
		if (ready(cq, wanted) >= wanted || signals != cq->wait.signals || rc)
			break;
		if (cq->wait.waiters == 1) // the bell rang, but not for what this thread waits for; it may have woken others
			carry_quiet(&cq->wait);
		rc = carry_sleep(&cq->wait, deadline);
	}
	if (rc == -FI_ETIMEDOUT)
		rc = cq->count >= wanted ? 0 : -FI_EAGAIN;
	if (!rc || ready(cq, wanted) >= wanted)
		rc = take(cq, buf, count, src);
	carry_leave(&cq->wait, signals);
	if (!cq->count)
		carry_quiet(&cq->wait);
	UNLOCK(cq);
	return rc;
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

static int cq_signal(struct fid_cq *fid)
{
	struct carry_cq *cq = (struct carry_cq *) fid;

	if (cq->wait.obj == FI_WAIT_NONE)
		return -FI_EINVAL;
	LOCK(cq);
	carry_signal(&cq->wait);
	UNLOCK(cq);
	return 0;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf, size_t len)
{
	(void) fid, (void) err_data;
	return carry_error_text(prov_errno, buf, len);
}

static int cq_close(struct fid *fid)
{
	struct carry_cq *cq = (struct carry_cq *) fid;

	LOCK(cq);
	if (cq->users || cq->wait.waiters) {
		UNLOCK(cq);
		return -FI_EBUSY;
	}
	cq->domain->users--;
	carry_wait_close(&cq->wait);
	UNLOCK(cq);
	free(cq->ring);
	free(cq);
	return 0;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	return carry_wait_control(&((struct carry_cq *) fid)->wait, command, arg);
}

static struct fi_ops cq_fid_ops = CARRY_FI_OPS(cq_close, carry_no_bind, cq_control);
static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.sread = cq_sread,
	.sreadfrom = cq_sreadfrom,
	.signal = cq_signal,
	.strerror = cq_strerror,
};
CARRY_FILL(cq_ops, carry_no_cq)

int carry_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out, void *context)
{
	struct carry_domain *domain = (struct carry_domain *) fid;
	struct fi_cq_attr none = {0};
	struct carry_cq *cq;
	int rc;

	if (!out)
		return -FI_EINVAL;
	attr = attr ? attr : &none;
	if (attr->format < 0 || attr->format > FI_CQ_FORMAT_TAGGED || attr->size > 1 << 24)
		return -FI_EINVAL;
	if (attr->wait_obj != FI_WAIT_NONE && attr->wait_cond != FI_CQ_COND_NONE && attr->wait_cond != FI_CQ_COND_THRESHOLD)
		return -FI_EINVAL;
	if (attr->flags & ~FI_AFFINITY)
		return attr->flags & CARRY_NOT_SERVED ? -FI_ENOSYS : -FI_EBADFLAGS;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	cq->size = attr->size ? attr->size : CARRY_CQ_SIZE;
	cq->room = 64;
	cq->ring = calloc(cq->room, sizeof(*cq->ring));
	rc = cq->ring ? carry_wait_open(&cq->wait, domain->fabric, attr->wait_obj) : -FI_ENOMEM;
	if (rc) {
		free(cq->ring);
		free(cq);
		return rc;
	}
	cq->fid.fid = (struct fid){.fclass = FI_CLASS_CQ, .context = context, .ops = &cq_fid_ops};
	cq->fid.ops = &cq_ops;
	cq->domain = domain;
	cq->format = attr->format ? attr->format : FI_CQ_FORMAT_CONTEXT;
	cq->cond = attr->wait_obj == FI_WAIT_NONE ? FI_CQ_COND_NONE : attr->wait_cond;
	LOCK(cq);
	domain->users++;
	UNLOCK(cq);
	*out = &cq->fid;
	return 0;
}
