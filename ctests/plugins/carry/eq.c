// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Event queues. fi_eq(3)

#include "carry.h"

enum { LARGEST_EVENT = 64 << 10 };

struct event {
	struct link at;
	uint32_t number;
	struct fi_eq_err_entry err; // err.err 0: no error
	struct fid *fid;            // of an event of this provider
	struct fi_info *info;       // of FI_CONNREQ; the reader gets it
	size_t len;                 // bytes that a read returns
	uint8_t *bytes;             // those bytes, or the data of an error
};

static void event_free(struct event *event)
{
	list_del(&event->at);
	fi_freeinfo(event->info);
	free(event->bytes);
	free(event);
}

// Adds an event that consists of a head and a tail. Without memory the event is lost; nothing else can be done here.
static struct event *push(struct carry_eq *eq, const void *head, size_t head_len, const void *tail, size_t tail_len)
{
	struct event *event = calloc(1, sizeof(*event));

	if (event)
		event->bytes = malloc(head_len + tail_len + 1);
	if (!event || !event->bytes) {
		free(event);
		return NULL;
	}
	memcpy(event->bytes, head, head_len);
	if (tail_len)
		memcpy(event->bytes + head_len, tail, tail_len);
	event->len = head_len + tail_len;
	list_append(&eq->events, &event->at);
	carry_ring(&eq->wait);
	return event;
}

void carry_event(struct carry_eq *eq, uint32_t number, struct fid *fid, struct fi_info *info, const void *data, size_t len)
{
	struct fi_eq_cm_entry entry = {.fid = fid, .info = info};
	struct event *event = eq ? push(eq, &entry, sizeof(entry), data, len) : NULL;

	if (!event) {
		fi_freeinfo(info);
		return;
	}
	event->number = number;
	event->fid = fid;
	event->info = info;
}

void carry_event_error(struct carry_eq *eq, struct fid *fid, int err, const void *data, size_t len)
{
	struct event *event = eq ? push(eq, "", 0, data, len) : NULL;

	if (!event)
		return;
	event->fid = fid;
	event->err = (struct fi_eq_err_entry){.fid = fid, .context = fid->context, .err = err, .prov_errno = err};
}

// Called when an object is closed: its events must no longer name it.
void carry_forget_events(struct carry_eq *eq, struct fid *fid)
{
	if (!eq)
		return;
	EACH(at, &eq->events) {
		struct event *event = OWNER(at, struct event, at);

		if (event->fid == fid)
			event_free(event);
	}
	if (list_empty(&eq->events))
		carry_quiet(&eq->wait);
}

static ssize_t take(struct carry_eq *eq, uint32_t *number, void *buf, size_t len, uint64_t flags)
{
	struct event *event = OWNER(eq->events.next, struct event, at);

	if (list_empty(&eq->events))
		return -FI_EAGAIN;
	if (event->err.err)
		return -FI_EAVAIL;
	if (event->info && len < sizeof(struct fi_eq_cm_entry)) // the info would be lost
		return -FI_ETOOSMALL;
	len = len < event->len ? len : event->len;
	if (len)
		memcpy(buf, event->bytes, len);
	*number = event->number;
	if (!(flags & FI_PEEK)) {
		event->info = NULL;
		event_free(event);
		free(eq->err_data);
		eq->err_data = NULL;
		if (list_empty(&eq->events))
			carry_quiet(&eq->wait);
	}
	return (ssize_t) len;
}

static int check_read(uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	return !event || (len && !buf) ? -FI_EINVAL : flags & ~FI_PEEK ? -FI_EBADFLAGS : 0;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct carry_eq *eq = (struct carry_eq *) fid;
	ssize_t rc = check_read(event, buf, len, flags);

	if (rc)
		return rc;
	carry_lock(eq->fabric);
	if (list_empty(&eq->events) || flags & FI_PEEK)
		carry_progress(eq->fabric);
	rc = take(eq, event, buf, len, flags);
	carry_unlock(eq->fabric);
	return rc;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout, uint64_t flags)
{
	struct carry_eq *eq = (struct carry_eq *) fid;
	uint64_t deadline = carry_deadline(timeout), signals;
	ssize_t rc = check_read(event, buf, len, flags);

	if (rc || eq->wait.obj == FI_WAIT_NONE)
		return rc ? rc : -FI_EINVAL;
	carry_lock(eq->fabric);
	signals = carry_enter(&eq->wait);
	for (;;) {
		carry_progress(eq->fabric);
		if (!list_empty(&eq->events) || rc)
			break;
		if (eq->wait.waiters == 1)
			carry_quiet(&eq->wait);
		rc = carry_sleep(&eq->wait, deadline);
	}
	if (!rc || !list_empty(&eq->events))
		rc = take(eq, event, buf, len, flags);
	carry_leave(&eq->wait, signals);
	carry_unlock(eq->fabric);
	return rc == -FI_ETIMEDOUT ? -FI_EAGAIN : rc;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	struct carry_eq *eq = (struct carry_eq *) fid;
	bool old = FI_VERSION_LT(eq->fabric->fid.api_version, FI_VERSION(1, 5));
	ssize_t rc = -FI_EAGAIN;

	if (!buf || flags & ~FI_PEEK)
		return buf ? -FI_EBADFLAGS : -FI_EINVAL;
	carry_lock(eq->fabric);
	if (list_empty(&eq->events))
		carry_progress(eq->fabric);
	if (!list_empty(&eq->events) && OWNER(eq->events.next, struct event, at)->err.err) {
		struct event *event = OWNER(eq->events.next, struct event, at);
		size_t room = old || !buf->err_data ? 0 : buf->err_data_size;
		void *place = buf->err_data;

		*buf = event->err;
		buf->err_data = place;
		buf->err_data_size = 0;
		if (event->len && room) {
			buf->err_data_size = event->len < room ? event->len : room;
			memcpy(place, event->bytes, buf->err_data_size);
		} else if (event->len) {
			free(eq->err_data);
			buf->err_data = eq->err_data = event->bytes;
			buf->err_data_size = event->len;
			event->bytes = NULL;
		}
		rc = sizeof(*buf);
		event_free(event);
		if (list_empty(&eq->events))
			carry_quiet(&eq->wait);
	}
	carry_unlock(eq->fabric);
	return rc;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t number, const void *buf, size_t len, uint64_t flags)
{
	struct carry_eq *eq = (struct carry_eq *) fid;
	struct event *event;

	if (!eq->writable || (len && !buf) || len > LARGEST_EVENT)
		return -FI_EINVAL;
	if (flags)
		return -FI_EBADFLAGS;
	carry_lock(eq->fabric);
	event = push(eq, buf ? buf : "", len, NULL, 0);
	if (event)
		event->number = number;
	carry_unlock(eq->fabric);
	return event ? (ssize_t) len : -FI_ENOMEM;
}

static const char *eq_strerror(struct fid_eq *fid, int prov_errno, const void *err_data, char *buf, size_t len)
{
	(void) fid, (void) err_data;
	return carry_error_text(prov_errno, buf, len);
}

static int eq_close(struct fid *fid)
{
	struct carry_eq *eq = (struct carry_eq *) fid;
	struct carry_fabric *fabric = eq->fabric;

	carry_lock(fabric);
	if (eq->users || eq->wait.waiters) {
		carry_unlock(fabric);
		return -FI_EBUSY;
	}
	EACH(at, &eq->events)
		event_free(OWNER(at, struct event, at));
	carry_wait_close(&eq->wait);
	fabric->users--;
	carry_unlock(fabric);
	free(eq->err_data);
	free(eq);
	return 0;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	return carry_wait_control(&((struct carry_eq *) fid)->wait, command, arg);
}

static struct fi_ops eq_fid_ops = CARRY_FI_OPS(eq_close, carry_no_bind, eq_control);
static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

int carry_eq_open(struct fid_fabric *fid, struct fi_eq_attr *attr, struct fid_eq **out, void *context)
{
	struct carry_fabric *fabric = (struct carry_fabric *) fid;
	struct fi_eq_attr none = {0};
	struct carry_eq *eq;
	int rc;

	if (!out)
		return -FI_EINVAL;
	attr = attr ? attr : &none;
	if (attr->flags & ~(FI_WRITE | FI_AFFINITY))
		return attr->flags & FI_PEER ? -FI_EINVAL : -FI_EBADFLAGS;
	if (attr->size > 1 << 24)
		return -FI_EINVAL;
	eq = calloc(1, sizeof(*eq));
	if (!eq)
		return -FI_ENOMEM;
	rc = carry_wait_open(&eq->wait, fabric, attr->wait_obj);
	if (rc) {
		free(eq);
		return rc;
	}
	eq->fid.fid = (struct fid){.fclass = FI_CLASS_EQ, .context = context, .ops = &eq_fid_ops};
	eq->fid.ops = &eq_ops;
	eq->fabric = fabric;
	eq->writable = attr->flags & FI_WRITE;
	list_init(&eq->events);
	carry_lock(fabric);
	fabric->users++;
	carry_unlock(fabric);
	*out = &eq->fid;
	return 0;
}
