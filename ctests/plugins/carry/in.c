// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The receiving side of a connection. No input is trusted: a frame that breaks a rule ends the connection.

#include "carry.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>

enum { AT_A_TIME = 4 << 20 }; // bytes read from one connection before others get their turn

static void broken(struct carry_ep *ep, const char *what)
{
	(void) what; // for a debugger: no line may be logged while the lock is held
	if (ep->state == EP_CONNECTED)
		carry_conn_end(ep, FI_ECONNABORTED, false);
	else
		carry_conn_failed(ep, FI_ECONNABORTED, NULL, 0);
}

// ---- Sockets

// Reads into several buffers. Returns 0 if there is nothing, or if the connection has ended.
static size_t receive(struct carry_ep *ep, struct iovec *iov, unsigned count)
{
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = count};
	ssize_t got;

	do
		got = recvmsg(ep->source.fd, &msg, 0);
	while (got < 0 && errno == EINTR);
	if (got > 0)
		return (size_t) got;
	if (got < 0 && errno == EAGAIN)
		return 0;
	if (ep->state == EP_CONNECTED)
		carry_conn_end(ep, FI_ECONNRESET, true); // the peer sent no FRAME_BYE
	else
		carry_conn_failed(ep, FI_ECONNRESET, NULL, 0);
	return 0;
}

// Whether `len` bytes are in the buffer. Reads if there are fewer.
static bool buffered(struct carry_ep *ep, size_t len)
{
	struct iovec iov;
	size_t got;

	if (ep->in_end - ep->in_at >= len)
		return true;
	memmove(ep->in, ep->in + ep->in_at, ep->in_end - ep->in_at);
	ep->in_end -= ep->in_at;
	ep->in_at = 0;
	iov = (struct iovec){ep->in + ep->in_end, CARRY_BUF - ep->in_end};
	got = receive(ep, &iov, 1); // may end the connection, which empties the buffer
	ep->in_end += got;
	return ep->in_end - ep->in_at >= len;
}

// ---- Complete frames

static struct carry_op *waiting(struct carry_ep *ep, uint32_t id, bool read)
{
	EACH(at, &ep->waiting) {
		struct carry_op *op = OWNER(at, struct carry_op, at);

		if (op->head.id == id && (op->head.kind == FRAME_READ) == read)
			return op;
	}
	return NULL;
}

static struct carry_op *leaving(struct carry_ep *ep, uint32_t id)
{
	struct carry_op *op = OWNER(ep->out.next, struct carry_op, at);

	return !list_empty(&ep->out) && op->sent && !op->answer && op->head.kind == FRAME_WRITE && op->head.id == id ? op : NULL;
}

static void connected(struct carry_ep *ep)
{
	if (ep->head.kind == FRAME_REJECT) {
		carry_conn_failed(ep, FI_ECONNREFUSED, ep->cm_data, ep->head.len);
		return;
	}
	ep->state = EP_CONNECTED;
	ep->domain->fabric->news++;
	carry_event(ep->eq ? ep->eq : ep->domain->eq, FI_CONNECTED, &ep->fid.fid, NULL, ep->cm_data, ep->head.len);
}

static void whole(struct carry_ep *ep)
{
	struct carry_recv *recv = ep->into;
	struct carry_arrival *arrival = ep->arrival;
	struct carry_op *op = ep->reading;
	struct carry_frame head = ep->head;

	ep->phase = IN_HEAD;
	ep->got = 0;
	ep->into = NULL;
	ep->arrival = NULL;
	ep->reading = NULL;
	switch (head.kind) {
	case FRAME_MSG:
		if (head.flags & FRAME_ACK_HERE || (recv && head.flags & FRAME_ACK_PLACED))
			carry_answer(ep, FRAME_ACK, head.id, 0, NULL, 0);
		if (recv)
			carry_received(ep, recv, &head, 0);
		else if (arrival->recv)
			carry_arrived(arrival);
		else
			arrival->whole = true;
		break;
	case FRAME_WRITE:
		carry_served_write(ep);
		break;
	case FRAME_READ:
		carry_serve_read(ep);
		break;
	case FRAME_READ_DATA:
		carry_op_done(ep, op, (int) head.data);
		break;
	case FRAME_ACK:
		op = waiting(ep, head.id, false);
		if (!op && head.data) // refused before all of it was sent
			op = leaving(ep, head.id);
		if (op)
			carry_op_done(ep, op, (int) head.data);
		else
			broken(ep, "an answer to nothing");
		break;
	case FRAME_BYE:
		carry_conn_end(ep, FI_ECANCELED, true);
		break;
	default:
		connected(ep);
	}
}

// ---- Beginning of frames

static bool begin_message(struct carry_ep *ep)
{
	struct carry_rxq *rxq = carry_rxq_of(ep);
	struct carry_arrival *arrival;

	if (ep->head.len > CARRY_MAX_MSG || ep->head.spans || !(ep->caps & FI_RECV || ep->rxcq))
		return false;
	if (list_empty(&rxq->arrived) && (ep->into = carry_take_recv(rxq)))
		return true;
	arrival = calloc(1, sizeof(*arrival) + ep->head.len);
	if (!arrival)
		return false;
	arrival->ep = ep;
	arrival->head = ep->head;
	ep->buffered += ep->head.len;
	ep->arrival = arrival;
	list_append(&rxq->arrived, &arrival->at);
	return true;
}

static bool begin_access(struct carry_ep *ep)
{
	return ep->head.spans <= CARRY_IOV && ep->head.len <= CARRY_MAX_MSG;
}

static bool begin_read_data(struct carry_ep *ep)
{
	struct carry_op *op = waiting(ep, ep->head.id, true);

	if (!op || ep->head.data > INT32_MAX || ep->head.len != (ep->head.data ? 0 : op->len))
		return false;
	ep->reading = op;
	return true;
}

static bool begin(struct carry_ep *ep)
{
	const struct carry_frame *head = &ep->head;

	ep->into = NULL;
	ep->arrival = NULL;
	ep->reading = NULL;
	if (ep->state == EP_GREETED)
		return (head->kind == FRAME_ACCEPT || head->kind == FRAME_REJECT) && head->len <= CARRY_CM_DATA && !head->spans;
	switch (head->kind) {
	case FRAME_MSG:
		return begin_message(ep);
	case FRAME_WRITE:
	case FRAME_READ:
		return begin_access(ep);
	case FRAME_READ_DATA:
		return !head->spans && begin_read_data(ep);
	case FRAME_ACK:
		return !head->spans && !head->len && head->data <= INT32_MAX;
	case FRAME_BYE:
		return !head->spans && !head->len;
	default:
		return false;
	}
}

// Checks an access when its spans are known.
static void check_access(struct carry_ep *ep)
{
	struct iovec iov[CARRY_IOV * CARRY_MR_IOV];
	uint64_t len = 0;
	int status;

	for (unsigned i = 0; i < ep->head.spans; i++) {
		if (ep->spans[i].len > CARRY_MAX_MSG) {
			broken(ep, "a span too long");
			return;
		}
		len += ep->spans[i].len;
	}
	if (len != ep->head.len) {
		broken(ep, "spans of another length");
		return;
	}
	if (ep->head.kind == FRAME_READ) {
		whole(ep);
		return;
	}
	carry_reach(ep, FI_REMOTE_WRITE, iov, &status);
	if (status)
		carry_refuse(ep, FRAME_ACK, status);
	else if (!ep->head.len)
		whole(ep);
	else
		ep->phase = IN_BODY;
}

// ---- Bodies

// The destination of the next bytes; bytes without one go to a buffer that is discarded. A region may have been closed.
static unsigned place(struct carry_ep *ep, struct iovec *out, size_t left, int *status, const struct iovec *waste)
{
	struct iovec pieces[CARRY_IOV * CARRY_MR_IOV];
	unsigned count = 0;

	*status = 0;
	switch (ep->head.kind) {
	case FRAME_MSG:
		if (ep->into) {
			count = carry_slice(ep->into->iov, ep->into->count, ep->got, left, out);
			break;
		}
		out[0] = (struct iovec){ep->arrival->bytes + ep->got, left};
		return 1;
	case FRAME_WRITE:
		count = carry_reach(ep, FI_REMOTE_WRITE, pieces, status);
		return *status ? 0 : carry_slice(pieces, count, ep->got, left, out);
	case FRAME_READ_DATA:
		return carry_slice(ep->reading->iov, ep->reading->count, ep->got, left, out);
	default:
		out[0] = (struct iovec){ep->cm_data + ep->got, left};
		return 1;
	}
	if (!count)
		out[count++] = (struct iovec){waste->iov_base, left < waste->iov_len ? left : waste->iov_len};
	return count;
}

static size_t from_buffer(struct carry_ep *ep, const struct iovec *iov, unsigned count)
{
	size_t done = 0;

	for (unsigned i = 0; i < count && ep->in_at < ep->in_end; i++) {
		size_t have = ep->in_end - ep->in_at, len = iov[i].iov_len < have ? iov[i].iov_len : have;

		memcpy(iov[i].iov_base, ep->in + ep->in_at, len);
		ep->in_at += len;
		done += len;
	}
	return done;
}

// Reads a part of a body. Returns 0 if there is no more at present.
static size_t read_body(struct carry_ep *ep)
{
	uint8_t waste[16 << 10];
	struct iovec iov[CARRY_IOV * CARRY_MR_IOV], nowhere = {waste, sizeof(waste)};
	size_t left = ep->head.len - ep->got, done;
	int status;
	unsigned count = place(ep, iov, left, &status, &nowhere);

	if (status) {
		carry_refuse(ep, FRAME_ACK, status);
		return 0;
	}
	// Short bodies go through the buffer, so that one call reads many frames.
	if (ep->in_at == ep->in_end && left < CARRY_BUF / 2 && !buffered(ep, 1))
		return 0;
	done = ep->in_at < ep->in_end ? from_buffer(ep, iov, count) : receive(ep, iov, count);
	ep->got += done;
	if (done == left)
		whole(ep);
	return done;
}

static bool read_head(struct carry_ep *ep)
{
	if (!buffered(ep, sizeof(ep->head)))
		return false;
	memcpy(&ep->head, ep->in + ep->in_at, sizeof(ep->head));
	ep->in_at += sizeof(ep->head);
	ep->got = 0;
	if (!begin(ep))
		broken(ep, "a frame that breaks a rule");
	else if (ep->head.kind == FRAME_WRITE || ep->head.kind == FRAME_READ)
		ep->phase = IN_SPANS;
	else if (ep->head.len)
		ep->phase = IN_BODY;
	else
		whole(ep);
	return true;
}

static bool read_spans(struct carry_ep *ep)
{
	size_t len = ep->head.spans * sizeof(ep->spans[0]);

	if (!buffered(ep, len))
		return false;
	memcpy(ep->spans, ep->in + ep->in_at, len);
	ep->in_at += len;
	check_access(ep);
	return true;
}

void carry_conn_read(struct carry_ep *ep)
{
	size_t total = 0, some = 1;

	if (!ep->in && !(ep->in = malloc(CARRY_BUF))) {
		broken(ep, "no memory");
		return;
	}
	// Bytes in the buffer are processed whatever the budget, because no event would wake a thread for them.
	while (some && carry_conn_reads(ep) && (total < AT_A_TIME || ep->in_at < ep->in_end)) {
		some = ep->phase == IN_HEAD    ? read_head(ep) ? sizeof(ep->head) : 0
		       : ep->phase == IN_SPANS ? read_spans(ep) ? 1 : 0
					       : read_body(ep);
		total += some;
	}
}

static void greet(struct carry_ep *ep)
{
	int err = 0;
	socklen_t len = sizeof(err);

	getsockopt(ep->source.fd, SOL_SOCKET, SO_ERROR, &err, &len);
	if (err) {
		carry_conn_failed(ep, err, NULL, 0);
		return;
	}
	len = sizeof(ep->own);
	getsockname(ep->source.fd, (struct sockaddr *) &ep->own, &len);
	// The request is short and the socket new, so the kernel takes all of it.
	if (send(ep->source.fd, ep->in, ep->in_end, MSG_NOSIGNAL) != (ssize_t) ep->in_end) {
		carry_conn_failed(ep, FI_ECONNREFUSED, NULL, 0);
		return;
	}
	ep->in_at = ep->in_end = 0;
	ep->state = EP_GREETED;
}

void carry_conn_ready(struct carry_source *source, uint32_t events)
{
	struct carry_ep *ep = OWNER(source, struct carry_ep, source);

	if (ep->state == EP_CONNECTING) {
		greet(ep);
	} else {
		if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
			carry_conn_read(ep);
		if (ep->state == EP_CONNECTED)
			carry_conn_flush(ep);
	}
	carry_conn_wants(ep);
}
