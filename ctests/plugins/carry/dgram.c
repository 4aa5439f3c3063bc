// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Datagrams: a header with the remote data, then the message. Datagrams without a receive stay in the kernel, which
// drops them if its buffer is full. fi_endpoint(3)

#include "carry.h"

#include <errno.h>
#include <sys/epoll.h>

#define DGRAM_MAGIC 0x79727261u

struct dgram_head {
	uint32_t magic, flags;
	uint64_t data;
};

void carry_dgram_wants(struct carry_ep *ep)
{
	// Without a receive datagrams are not read, so their arrival must not wake threads.
	if (ep->enabled && ep->source.fd >= 0)
		carry_want(ep->domain->fabric, &ep->source, list_empty(&ep->rxq.posted) ? 0 : EPOLLIN);
}

static void complete(struct carry_ep *ep, const struct carry_call *call, size_t len, bool report)
{
	struct fi_cq_err_entry entry = {.op_context = call->context, .flags = FI_MSG | FI_SEND};

	if (ep->mode & FI_CONTEXT && call->context)
		memset(call->context, 0xca, sizeof(struct fi_context));
	if (report)
		carry_complete(ep->txcq, &entry);
	carry_count(*carry_cntr_slot(ep, FI_SEND), len, false);
}

ssize_t carry_dgram_send(struct carry_ep *ep, const struct carry_call *call, bool report)
{
	struct dgram_head head = {.magic = DGRAM_MAGIC, .data = call->data};
	struct iovec iov[CARRY_IOV + 1] = {{&head, sizeof(head)}};
	struct msghdr msg = {.msg_namelen = sizeof(struct sockaddr_in), .msg_iov = iov, .msg_iovlen = call->count + 1};
	size_t len = 0;

	if (!ep->av || call->addr >= ep->av->end || !ep->av->peers[call->addr].sin_family)
		return -FI_EINVAL;
	msg.msg_name = &ep->av->peers[call->addr];
	if (call->flags & FI_REMOTE_CQ_DATA)
		head.flags = FRAME_CQ_DATA;
	for (size_t i = 0; i < call->count; i++) {
		iov[i + 1] = call->iov[i];
		len += call->iov[i].iov_len;
	}
	// An earlier datagram without a receiver makes the next call fail. That error does not concern this datagram.
	for (unsigned i = 0; i < 4; i++) {
		if (sendmsg(ep->source.fd, &msg, MSG_NOSIGNAL) >= 0) {
			complete(ep, call, len, report);
			return 0;
		}
		if (errno == EAGAIN || errno == ENOBUFS)
			return -FI_EAGAIN;
		if (errno != ECONNREFUSED && errno != EINTR)
			return -errno;
	}
	complete(ep, call, len, report); // lost, as datagrams may be
	return 0;
}

static void place(struct carry_ep *ep, struct carry_recv *recv, const struct dgram_head *head, const uint8_t *bytes, size_t len)
{
	struct carry_frame frame = {.kind = FRAME_MSG, .len = len, .data = head->data, .flags = head->flags & FRAME_CQ_DATA};
	struct iovec pieces[CARRY_IOV];
	unsigned count = carry_slice(recv->iov, recv->count, 0, len, pieces);

	for (unsigned i = 0; i < count; i++) {
		memcpy(pieces[i].iov_base, bytes, pieces[i].iov_len);
		bytes += pieces[i].iov_len;
	}
	carry_received(ep, recv, &frame, 0);
}

void carry_dgram_ready(struct carry_source *source, uint32_t events)
{
	struct carry_ep *ep = OWNER(source, struct carry_ep, source);
	struct dgram_head head;

	(void) events;
	// Datagrams are read into the buffer one at a time, so that invalid ones never touch the memory of a receive.
	while (!list_empty(&ep->rxq.posted)) {
		ssize_t got = recv(source->fd, ep->in, CARRY_BUF, 0);

		if (got < 0 && (errno == EINTR || errno == ECONNREFUSED))
			continue;
		if (got < 0)
			break;
		if ((size_t) got < sizeof(head))
			continue;
		memcpy(&head, ep->in, sizeof(head));
		if (head.magic == DGRAM_MAGIC)
			place(ep, carry_take_recv(&ep->rxq), &head, ep->in + sizeof(head), (size_t) got - sizeof(head));
	}
	carry_dgram_wants(ep);
}
