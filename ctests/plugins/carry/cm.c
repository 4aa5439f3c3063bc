// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Names and connections of active endpoints. fi_cm(3)

#include "carry.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <unistd.h>

#define LOCK(EP) carry_lock((EP)->domain->fabric)
#define UNLOCK(EP) carry_unlock((EP)->domain->fabric)

int carry_give_name(const struct sockaddr_in *name, void *addr, size_t *len)
{
	size_t room;

	if (!len || (*len && !addr))
		return -FI_EINVAL;
	room = *len;
	*len = sizeof(*name);
	if (room)
		memcpy(addr, name, room < sizeof(*name) ? room : sizeof(*name));
	return room < sizeof(*name) ? -FI_ETOOSMALL : 0;
}

static int cm_getname(fid_t fid, void *addr, size_t *len)
{
	struct carry_ep *ep = (struct carry_ep *) fid;
	int rc;

	LOCK(ep);
	rc = carry_give_name(&ep->own, addr, len);
	UNLOCK(ep);
	return rc;
}

static int cm_setname(fid_t fid, void *addr, size_t len)
{
	struct carry_ep *ep = (struct carry_ep *) fid;
	struct sockaddr_in own;
	int fd;

	if (!addr || len != sizeof(own))
		return -FI_EINVAL;
	memcpy(&own, addr, sizeof(own));
	if (!carry_is_ours(&own))
		return -FI_EINVAL;
	if (!own.sin_addr.s_addr)
		own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	LOCK(ep);
	if (ep->state != EP_IDLE || (ep->enabled && ep->type == FI_EP_DGRAM)) {
		fd = -FI_EOPBADSTATE;
	} else if (ep->source.fd >= 0 && !memcmp(&own, &ep->own, sizeof(own))) {
		fd = 0; // the current one
	} else {
		fd = carry_bind_socket(ep->type == FI_EP_MSG ? SOCK_STREAM : SOCK_DGRAM, &own);
		if (fd >= 0) {
			if (ep->source.fd >= 0)
				close(ep->source.fd);
			ep->source.fd = fd;
			ep->own = own;
		}
	}
	UNLOCK(ep);
	return fd < 0 ? fd : 0;
}

static int cm_getpeer(struct fid_ep *fid, void *addr, size_t *len)
{
	struct carry_ep *ep = (struct carry_ep *) fid;
	int rc = -FI_ENOTCONN;

	if (!len || (*len && !addr))
		return -FI_EINVAL;
	LOCK(ep);
	if (ep->type == FI_EP_DGRAM)
		rc = -FI_EOPNOTSUPP;
	else if (ep->state == EP_CONNECTED)
		rc = carry_give_name(&ep->peer, addr, len);
	UNLOCK(ep);
	return rc;
}

static void no_delay(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static int start(struct carry_ep *ep, const void *addr, const void *param, size_t len)
{
	struct carry_frame head = {.kind = FRAME_HELLO, .len = len, .data = CARRY_MAGIC};

	memcpy(&ep->peer, addr, sizeof(ep->peer));
	if (ep->source.fd < 0) {
		int fd = carry_bind_socket(SOCK_STREAM, &ep->own);

		if (fd < 0)
			return fd;
		ep->source.fd = fd;
	}
	ep->in = malloc(CARRY_BUF);
	if (!ep->in)
		return -FI_ENOMEM;
	memcpy(ep->in, &head, sizeof(head));
	if (len)
		memcpy(ep->in + sizeof(head), param, len);
	ep->in_end = sizeof(head) + len;
	no_delay(ep->source.fd);
	ep->state = EP_CONNECTING;
	// An immediate refusal is reported as an event, too.
	if (connect(ep->source.fd, (struct sockaddr *) &ep->peer, sizeof(ep->peer)) && errno != EINPROGRESS)
		carry_conn_failed(ep, errno, NULL, 0);
	carry_conn_wants(ep);
	return 0;
}

static int cm_connect(struct fid_ep *fid, const void *addr, const void *param, size_t len)
{
	struct carry_ep *ep = (struct carry_ep *) fid;
	struct sockaddr_in to;
	int rc = 0;

	if (!addr || (len && !param))
		return -FI_EINVAL;
	memcpy(&to, addr, sizeof(to));
	if (!carry_is_ours(&to))
		return -FI_EINVAL;
	LOCK(ep);
	if (ep->type != FI_EP_MSG)
		rc = -FI_EOPNOTSUPP;
	else if (ep->state == EP_REQUESTED)
		rc = -FI_EINVAL;
	else if (ep->state != EP_IDLE)
		rc = -FI_EOPBADSTATE;
	if (!rc)
		rc = carry_ep_enable(ep);
	if (!rc)
		rc = start(ep, addr, param, len < CARRY_CM_DATA ? len : CARRY_CM_DATA);
	UNLOCK(ep);
	return rc;
}

static int cm_accept(struct fid_ep *fid, const void *param, size_t len)
{
	struct carry_ep *ep = (struct carry_ep *) fid;
	struct carry_frame head = {.kind = FRAME_ACCEPT, .len = len < CARRY_CM_DATA ? len : CARRY_CM_DATA};
	struct iovec iov[] = {{&head, sizeof(head)}, {(void *) param, head.len}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};
	int rc = 0;

	if (len && !param)
		return -FI_EINVAL;
	LOCK(ep);
	if (ep->state != EP_REQUESTED)
		rc = ep->state == EP_IDLE ? -FI_EINVAL : -FI_EOPBADSTATE;
	if (!rc)
		rc = carry_ep_enable(ep);
	if (!rc) {
		no_delay(ep->source.fd);
		// The answer is short and the socket new, so the kernel takes all of it. If the peer has gone, the next read fails.
		sendmsg(ep->source.fd, &msg, MSG_NOSIGNAL);
		ep->state = EP_CONNECTED;
		ep->domain->fabric->news++;
		carry_event(ep->eq ? ep->eq : ep->domain->eq, FI_CONNECTED, &ep->fid.fid, NULL, NULL, 0);
		carry_conn_wants(ep);
	}
	UNLOCK(ep);
	return rc;
}

static int cm_shutdown(struct fid_ep *fid, uint64_t flags)
{
	struct carry_ep *ep = (struct carry_ep *) fid;
	int rc = 0;

	if (flags)
		return -FI_EINVAL;
	LOCK(ep);
	if (ep->state != EP_CONNECTED)
		rc = -FI_ENOTCONN;
	else
		carry_conn_end(ep, FI_ECANCELED, false);
	UNLOCK(ep);
	return rc;
}

struct fi_ops_cm carry_cm_ops = {
	.size = sizeof(struct fi_ops_cm), .setname = cm_setname, .getname = cm_getname, .getpeer = cm_getpeer,
	.connect = cm_connect, .accept = cm_accept, .shutdown = cm_shutdown,
};
CARRY_FILL(carry_cm_ops, carry_no_cm)
