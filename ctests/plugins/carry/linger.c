// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Connections whose endpoint was closed on this side. Accepted data is still sent, then the socket is shut down, and
// input is discarded until the peer has shut down its side, too. Closing a socket with unread bytes would destroy the
// data it has sent.

#include "carry.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { LAST_WAIT_MS = 1000 };

struct leaving {
	struct link at;
	struct carry_source source;
	struct carry_fabric *fabric;
	uint8_t *bytes;
	size_t len, sent;
};

static void linger_free(struct leaving *linger)
{
	carry_want(linger->fabric, &linger->source, 0);
	close(linger->source.fd);
	list_del(&linger->at);
	free(linger->bytes);
	free(linger);
}

// Sends more of the bytes. Returns false when the socket is gone.
static bool push(struct leaving *linger)
{
	while (linger->sent < linger->len) {
		ssize_t done = send(linger->source.fd, linger->bytes + linger->sent, linger->len - linger->sent, MSG_NOSIGNAL);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return errno == EAGAIN;
		linger->sent += (size_t) done;
	}
	shutdown(linger->source.fd, SHUT_WR);
	return true;
}

static void ready(struct carry_source *source, uint32_t events)
{
	struct leaving *linger = OWNER(source, struct leaving, source);
	char waste[16 << 10];
	ssize_t got = 0;

	if (events & EPOLLOUT && !push(linger)) {
		linger_free(linger);
		return;
	}
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		for (unsigned i = 0; i < 64 && (got = recv(source->fd, waste, sizeof(waste), 0)) > 0; i++)
			;
		if (!got || (got < 0 && errno != EAGAIN && errno != EINTR)) {
			linger_free(linger);
			return;
		}
	}
	carry_want(linger->fabric, source, EPOLLIN | (linger->sent < linger->len ? EPOLLOUT : 0));
}

// The frame of an operation as pieces; returns its length.
size_t carry_frame_iov(const struct carry_op *op, struct iovec *iov, unsigned *count)
{
	bool body = op->head.kind != FRAME_READ;
	size_t len = sizeof(op->head) + op->head.spans * sizeof(op->spans[0]);

	*count = 0;
	iov[(*count)++] = (struct iovec){(void *) &op->head, sizeof(op->head)};
	if (op->head.spans)
		iov[(*count)++] = (struct iovec){(void *) op->spans, op->head.spans * sizeof(op->spans[0])};
	for (unsigned i = 0; body && i < op->count; i++)
		iov[(*count)++] = op->iov[i];
	return len + (body ? op->len : 0);
}

static bool is_promised(const struct carry_op *op)
{
	return op->sent || op->answer || (op->copy && !op->report);
}

// Takes over the socket, and the bytes of operations that have begun or must still be sent.
void carry_linger(struct carry_fabric *fabric, int fd, struct link *out)
{
	struct leaving *linger = calloc(1, sizeof(*linger));
	struct carry_frame bye = {.kind = FRAME_BYE};
	struct iovec iov[CARRY_IOV + 2];
	unsigned count;
	size_t room = sizeof(bye);

	EACH(at, out)
		if (is_promised(OWNER(at, struct carry_op, at)))
			room += carry_frame_iov(OWNER(at, struct carry_op, at), iov, &count);
	if (linger)
		linger->bytes = malloc(room);
	if (!linger || !linger->bytes) {
		free(linger);
		close(fd);
		return;
	}
	EACH(at, out) {
		struct carry_op *op = OWNER(at, struct carry_op, at);
		size_t skip = op->sent;

		if (!is_promised(op))
			continue;
		carry_frame_iov(op, iov, &count);
		for (unsigned i = 0; i < count; i++) {
			size_t over = skip < iov[i].iov_len ? skip : iov[i].iov_len;

			skip -= over;
			if (iov[i].iov_len - over)
				memcpy(linger->bytes + linger->len, (char *) iov[i].iov_base + over, iov[i].iov_len - over);
			linger->len += iov[i].iov_len - over;
		}
	}
	memcpy(linger->bytes + linger->len, &bye, sizeof(bye));
	linger->len += sizeof(bye);
	linger->fabric = fabric;
	linger->source = (struct carry_source){.fd = fd, .ready = ready};
	list_append(&fabric->lingering, &linger->at);
	if (!push(linger))
		linger_free(linger);
	else
		carry_want(fabric, &linger->source, EPOLLIN | (linger->sent < linger->len ? EPOLLOUT : 0));
}

// Called when the fabric is closed: a last try, with a time limit.
void carry_lingered(struct carry_fabric *fabric)
{
	uint64_t deadline = carry_deadline(LAST_WAIT_MS);

	EACH(at, &fabric->lingering) {
		struct leaving *linger = OWNER(at, struct leaving, at);
		struct pollfd pollfd = {.fd = linger->source.fd, .events = POLLOUT};

		while (push(linger) && linger->sent < linger->len) {
			uint64_t now = carry_deadline(0);

			if (now >= deadline || poll(&pollfd, 1, (int) (deadline - now)) <= 0)
				break;
		}
		linger_free(linger);
	}
}
