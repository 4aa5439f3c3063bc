// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The sending side of a connection, and its end.

#include "carry.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { MOST_ANSWERS = CARRY_MAX_SIZE + 16 }; // a peer with more outstanding requests has exceeded its limit

unsigned carry_slice(const struct iovec *iov, unsigned count, size_t at, size_t len, struct iovec *out)
{
	unsigned made = 0;

	for (unsigned i = 0; i < count && len; i++) {
		size_t take;

		if (at >= iov[i].iov_len) {
			at -= iov[i].iov_len;
			continue;
		}
		take = iov[i].iov_len - at < len ? iov[i].iov_len - at : len;
		out[made++] = (struct iovec){(char *) iov[i].iov_base + at, take};
		len -= take;
		at = 0;
	}
	return made;
}

// A message that has begun is read to its end, whatever the limit.
bool carry_conn_reads(const struct carry_ep *ep)
{
	return ep->state == EP_GREETED || (ep->state == EP_CONNECTED && (ep->phase != IN_HEAD || ep->buffered < CARRY_BUFFERED));
}

void carry_conn_wants(struct carry_ep *ep)
{
	uint32_t events = 0;

	if (ep->state == EP_CONNECTING)
		events = EPOLLOUT;
	else if (ep->state == EP_GREETED || ep->state == EP_CONNECTED)
		events = (carry_conn_reads(ep) ? EPOLLIN : 0) | (list_empty(&ep->out) ? 0 : EPOLLOUT);
	if (ep->source.fd >= 0)
		carry_want(ep->domain->fabric, &ep->source, events);
}

// ---- Out

static bool waits_for_answer(const struct carry_op *op)
{
	return op->head.kind == FRAME_WRITE || op->head.kind == FRAME_READ || op->head.flags & (FRAME_ACK_HERE | FRAME_ACK_PLACED);
}

static void left(struct carry_ep *ep, struct carry_op *op)
{
	if (op->answer || !waits_for_answer(op)) {
		carry_op_done(ep, op, 0);
		return;
	}
	list_del(&op->at);
	list_append(&ep->waiting, &op->at);
}

void carry_conn_flush(struct carry_ep *ep)
{
	while (!list_empty(&ep->out)) {
		struct carry_op *op = OWNER(ep->out.next, struct carry_op, at);
		struct iovec all[CARRY_IOV + 2], rest[CARRY_IOV + 2];
		struct msghdr msg = {.msg_iov = rest};
		unsigned count;
		size_t len = carry_frame_iov(op, all, &count);
		ssize_t sent;

		msg.msg_iovlen = carry_slice(all, count, op->sent, len - op->sent, rest);
		sent = sendmsg(ep->source.fd, &msg, MSG_NOSIGNAL);
		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno != EAGAIN) {
			// Bytes that the peer sent before it closed are still read. If they do not end the connection, this error does.
			carry_conn_read(ep);
			if (ep->state == EP_CONNECTED)
				carry_conn_end(ep, FI_ECONNRESET, true);
			return;
		}
		if (sent < 0)
			break;
		op->sent += (size_t) sent;
		if (op->sent == len)
			left(ep, op);
	}
	carry_conn_wants(ep);
}

// Queues an answer to the peer. It is sent when the connection is polled next. Takes ownership of `bytes`.
void carry_answer(struct carry_ep *ep, uint8_t kind, uint32_t id, int status, uint8_t *bytes, size_t len)
{
	struct carry_op *op = ep->state == EP_CONNECTED && ep->answers < MOST_ANSWERS ? calloc(1, sizeof(*op)) : NULL;

	if (!op) {
		free(bytes);
		if (ep->state == EP_CONNECTED)
			carry_conn_end(ep, FI_ECONNABORTED, false);
		return;
	}
	op->answer = true;
	op->copy = bytes;
	op->iov[0] = (struct iovec){bytes, len};
	op->count = len ? 1 : 0;
	op->len = len;
	op->head = (struct carry_frame){.kind = kind, .id = id, .len = len, .data = (uint64_t) status};
	ep->answers++;
	list_append(&ep->out, &op->at);
}

// ---- The end

static void drop_source(struct carry_ep *ep, bool linger)
{
	if (ep->source.fd < 0)
		return;
	carry_want(ep->domain->fabric, &ep->source, 0);
	if (linger)
		carry_linger(ep->domain->fabric, ep->source.fd, &ep->out);
	else
		close(ep->source.fd);
	ep->source.fd = -1;
}

// A receive that is being filled: one of the endpoint fails, one of a shared context returns to the front of the queue.
static void give_back(struct carry_ep *ep, struct carry_recv *recv, int err)
{
	if (ep->srx)
		list_insert(&ep->srx->rxq.posted, &recv->at);
	else
		carry_received(ep, recv, NULL, err);
}

static void stop_reading(struct carry_ep *ep, int err)
{
	struct carry_arrival *arrival = ep->arrival;
	struct carry_recv *into = ep->into, *met = arrival ? arrival->recv : NULL;

	ep->into = NULL;
	ep->reading = NULL;
	ep->phase = IN_HEAD;
	ep->got = ep->in_at = ep->in_end = 0;
	if (arrival)
		carry_arrival_free(arrival);
	if (into)
		give_back(ep, into, err);
	if (met)
		give_back(ep, met, err);
}

// Ends the connection. `gone`: the peer is gone, so nothing more is sent. Operations in flight end with `err`.
void carry_conn_end(struct carry_ep *ep, int err, bool gone)
{
	bool was = ep->state == EP_CONNECTED;
	struct carry_recv *recv;

	ep->domain->fabric->news++;
	ep->state = EP_ENDED;
	drop_source(ep, !gone);
	stop_reading(ep, err);
	while (!list_empty(&ep->waiting))
		carry_op_done(ep, OWNER(ep->waiting.next, struct carry_op, at), err);
	while (!list_empty(&ep->out))
		carry_op_done(ep, OWNER(ep->out.next, struct carry_op, at), err);
	while (!ep->srx && (recv = carry_take_recv(&ep->rxq)))
		carry_received(ep, recv, NULL, err);
	if (was)
		carry_event(ep->eq ? ep->eq : ep->domain->eq, FI_SHUTDOWN, &ep->fid.fid, NULL, NULL, 0);
}

// Reports that a connection could not be established.
void carry_conn_failed(struct carry_ep *ep, int err, const void *data, size_t len)
{
	ep->state = EP_ENDED;
	drop_source(ep, false);
	carry_event_error(ep->eq ? ep->eq : ep->domain->eq, &ep->fid.fid, err, data, len);
}

// Closes the connection with its endpoint, without events.
void carry_conn_close(struct carry_ep *ep)
{
	struct link *lists[] = {&ep->out, &ep->waiting};
	struct carry_recv *recv;

	drop_source(ep, ep->state == EP_CONNECTED);
	ep->txcq = ep->rxcq = NULL;
	memset(ep->cntr, 0, sizeof(ep->cntr));
	ep->mode = 0;
	stop_reading(ep, FI_ECANCELED);
	for (unsigned i = 0; i < 2; i++)
		while (!list_empty(lists[i]))
			carry_op_done(ep, OWNER(lists[i]->next, struct carry_op, at), FI_ECANCELED);
	while (!ep->srx && (recv = carry_take_recv(&ep->rxq)))
		carry_received(ep, recv, NULL, FI_ECANCELED);
	EACH(at, &carry_rxq_of(ep)->arrived)
		if (OWNER(at, struct carry_arrival, at)->ep == ep)
			carry_arrival_free(OWNER(at, struct carry_arrival, at));
	free(ep->in);
}
