// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Counters. fi_cntr(3)

#include "carry.h"

#define LOCK(CNTR) carry_lock((CNTR)->domain->fabric)
#define UNLOCK(CNTR) carry_unlock((CNTR)->domain->fabric)

void carry_count(struct carry_cntr *cntr, size_t bytes, bool failed)
{
	if (!cntr)
		return;
	if (failed)
		cntr->errors++;
	else
		cntr->value += cntr->events == FI_CNTR_EVENTS_BYTES ? bytes : 1;
	carry_ring(&cntr->wait);
}

static uint64_t read_one(struct carry_cntr *cntr, const uint64_t *from)
{
	uint64_t value;

	LOCK(cntr);
	carry_progress(cntr->domain->fabric);
	value = *from;
	cntr->seen = cntr->value + cntr->errors;
	carry_quiet(&cntr->wait);
	UNLOCK(cntr);
	return value;
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
	return read_one((struct carry_cntr *) fid, &((struct carry_cntr *) fid)->value);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	return read_one((struct carry_cntr *) fid, &((struct carry_cntr *) fid)->errors);
}

static int change(struct carry_cntr *cntr, uint64_t *which, uint64_t keep, uint64_t value)
{
	LOCK(cntr);
	*which = keep * *which + value;
	carry_ring(&cntr->wait);
	UNLOCK(cntr);
	return 0;
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
	return change((struct carry_cntr *) fid, &((struct carry_cntr *) fid)->value, 1, value);
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
	return change((struct carry_cntr *) fid, &((struct carry_cntr *) fid)->value, 0, value);
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	return change((struct carry_cntr *) fid, &((struct carry_cntr *) fid)->errors, 1, value);
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	return change((struct carry_cntr *) fid, &((struct carry_cntr *) fid)->errors, 0, value);
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct carry_cntr *cntr = (struct carry_cntr *) fid;
	uint64_t deadline = carry_deadline(timeout), errors, signals;
	int rc = 0;

	LOCK(cntr);
	errors = cntr->errors;
	signals = carry_enter(&cntr->wait);
	for (;;) {
		carry_progress(cntr->domain->fabric);
		if (cntr->value >= threshold) {
			rc = 0;
			break;
		}
		if (cntr->errors != errors) {
			rc = -FI_EAVAIL;
			break;
		}
		if (rc)
			break;
		// Several threads may wait for different values. Each change rings for all of them, and a thread that waits for
		// another value leaves the bell set for the others.
		if (cntr->wait.waiters == 1)
			carry_quiet(&cntr->wait);
		rc = carry_sleep(&cntr->wait, deadline);
	}
	carry_leave(&cntr->wait, signals);
	if (!cntr->wait.waiters)
		carry_quiet(&cntr->wait);
	UNLOCK(cntr);
	return rc;
}

static int cntr_close(struct fid *fid)
{
	struct carry_cntr *cntr = (struct carry_cntr *) fid;

	LOCK(cntr);
	if (cntr->users || cntr->wait.waiters) {
		UNLOCK(cntr);
		return -FI_EBUSY;
	}
	cntr->domain->users--;
	carry_wait_close(&cntr->wait);
	UNLOCK(cntr);
	free(cntr);
	return 0;
}

static int cntr_control(struct fid *fid, int command, void *arg)
{
	switch (command) {
	case FI_GETOPSFLAG:
		if (!arg)
			return -FI_EINVAL;
		*(uint64_t *) arg = 0;
		return 0;
	case FI_SETOPSFLAG:
		return arg && !*(uint64_t *) arg ? 0 : -FI_EINVAL;
	default:
		return carry_wait_control(&((struct carry_cntr *) fid)->wait, command, arg);
	}
}

static struct fi_ops cntr_fid_ops = CARRY_FI_OPS(cntr_close, carry_no_bind, cntr_control);
static struct fi_ops_cntr cntr_ops = {
	.size = sizeof(struct fi_ops_cntr),
	.read = cntr_read,
	.readerr = cntr_readerr,
	.add = cntr_add,
	.set = cntr_set,
	.wait = cntr_wait,
	.adderr = cntr_adderr,
	.seterr = cntr_seterr,
};
CARRY_FILL(cntr_ops, carry_no_cntr)

int carry_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **out, void *context)
{
	struct carry_domain *domain = (struct carry_domain *) fid;
	struct fi_cntr_attr none = {0};
	struct carry_cntr *cntr;
	int rc;

	if (!out)
		return -FI_EINVAL;
	attr = attr ? attr : &none;
	if (attr->flags)
		return attr->flags & CARRY_NOT_SERVED ? -FI_ENOSYS : -FI_EBADFLAGS;
	if (attr->events != FI_CNTR_EVENTS_COMP && attr->events != FI_CNTR_EVENTS_BYTES)
		return -FI_EINVAL;
	cntr = calloc(1, sizeof(*cntr));
	if (!cntr)
		return -FI_ENOMEM;
	rc = carry_wait_open(&cntr->wait, domain->fabric, attr->wait_obj);
	if (rc) {
		free(cntr);
		return rc;
	}
	cntr->fid.fid = (struct fid){.fclass = FI_CLASS_CNTR, .context = context, .ops = &cntr_fid_ops};
	cntr->fid.ops = &cntr_ops;
	cntr->domain = domain;
	cntr->events = attr->events;
	LOCK(cntr);
	domain->users++;
	UNLOCK(cntr);
	*out = &cntr->fid;
	return 0;
}
