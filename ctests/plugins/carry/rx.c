// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Posted receives, unexpected messages, completions. fi_msg(3)

#include "carry.h"

struct carry_rxq *carry_rxq_of(struct carry_ep *ep)
{
	return ep->srx ? &ep->srx->rxq : &ep->rxq;
}

void carry_rxq_init(struct carry_rxq *rxq, const struct fi_rx_attr *attr)
{
	list_init(&rxq->posted);
	list_init(&rxq->arrived);
	rxq->size = attr->size ? attr->size : carry_demands & DEMAND_SMALL ? CARRY_SMALL : CARRY_SIZE;
	rxq->iov_limit = attr->iov_limit ? attr->iov_limit : carry_demands & DEMAND_IOV1 ? 1 : CARRY_IOV;
	rxq->op_flags = attr->op_flags;
}

void carry_rxq_drain(struct carry_rxq *rxq)
{
	EACH(at, &rxq->posted)
		free(OWNER(at, struct carry_recv, at));
	EACH(at, &rxq->arrived)
		carry_arrival_free(OWNER(at, struct carry_arrival, at));
	list_init(&rxq->posted);
}

struct carry_recv *carry_take_recv(struct carry_rxq *rxq)
{
	struct carry_recv *recv = list_empty(&rxq->posted) ? NULL : OWNER(rxq->posted.next, struct carry_recv, at);

	if (recv)
		list_del(&recv->at);
	return recv;
}

// ---- Completions

static void entry_of(struct carry_ep *ep, struct carry_recv *recv, struct fi_cq_err_entry *entry)
{
	entry->op_context = recv->context;
	entry->prov_errno = entry->err;
	if (ep->mode & FI_CONTEXT && recv->context)
		memset(recv->context, 0xca, sizeof(struct fi_context));
	if (ep->rxcq && (entry->err || !ep->rx_selective || recv->asked))
		carry_complete(ep->rxcq, entry);
	carry_count(*carry_cntr_slot(ep, FI_RECV), entry->len, entry->err);
	carry_rxq_of(ep)->used--;
	free(recv);
}

void carry_received(struct carry_ep *ep, struct carry_recv *recv, const struct carry_frame *head, int err)
{
	struct fi_cq_err_entry entry = {
		.flags = FI_MSG | FI_RECV, .buf = recv->count ? recv->iov[0].iov_base : NULL, .err = err,
	};

	if (!err) {
		entry.len = head->len < recv->len ? head->len : recv->len;
		entry.olen = head->len - entry.len;
		entry.err = entry.olen ? FI_ETRUNC : 0;
		if (head->flags & FRAME_CQ_DATA) {
			entry.flags |= FI_REMOTE_CQ_DATA;
			entry.data = head->data;
		}
	}
	entry_of(ep, recv, &entry);
}

// Completes a peer's write with data. With FI_RX_CQ_DATA it uses up a receive, whose buffer is not changed.
void carry_write_data(struct carry_ep *ep, struct carry_recv *recv, const struct carry_frame *head)
{
	struct fi_cq_err_entry entry = {
		.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA, .len = head->len, .data = head->data,
	};

	if (recv) {
		recv->asked = true;
		entry_of(ep, recv, &entry);
	} else if (ep->rxcq) {
		carry_complete(ep->rxcq, &entry);
	}
}

// ---- Unexpected messages

void carry_arrival_free(struct carry_arrival *arrival)
{
	list_del(&arrival->at);
	if (arrival->ep->arrival == arrival)
		arrival->ep->arrival = NULL;
	arrival->ep->buffered -= arrival->head.kind == FRAME_MSG ? arrival->head.len : 0;
	free(arrival);
}

// Delivers a complete message to its receive.
void carry_arrived(struct carry_arrival *arrival)
{
	struct carry_recv *recv = arrival->recv;
	struct carry_ep *ep = arrival->ep;
	struct carry_frame head = arrival->head;
	size_t done = 0;

	if (head.kind == FRAME_WRITE) {
		carry_write_data(ep, recv, &head);
		carry_arrival_free(arrival);
		return;
	}
	for (unsigned i = 0; i < recv->count && done < head.len; i++) {
		size_t len = recv->iov[i].iov_len < head.len - done ? recv->iov[i].iov_len : head.len - done;

		if (len)
			memcpy(recv->iov[i].iov_base, arrival->bytes + done, len);
		done += len;
	}
	carry_arrival_free(arrival);
	carry_received(ep, recv, &head, 0);
	if (head.flags & FRAME_ACK_PLACED)
		carry_answer(ep, FRAME_ACK, head.id, 0, NULL, 0);
}

// Matches a receive with the oldest unexpected message. Resumes an endpoint that had stopped reading because of the
// limit.
static void meet(struct carry_rxq *rxq, struct carry_recv *recv)
{
	struct carry_arrival *arrival = OWNER(rxq->arrived.next, struct carry_arrival, at);
	struct carry_ep *ep = arrival->ep;
	bool paused = !carry_conn_reads(ep);

	list_del(&arrival->at);
	arrival->recv = recv;
	if (!arrival->whole)
		return;
	carry_arrived(arrival);
	if (ep->state == EP_CONNECTED && paused)
		carry_conn_read(ep);
	if (ep->state == EP_CONNECTED)
		carry_conn_flush(ep);
}

// ---- Posting

static int check_pieces(const struct iovec *iov, size_t count, size_t limit, struct iovec *out, size_t *len)
{
	*len = 0;
	if (count > limit || (count && !iov))
		return -FI_EINVAL;
	for (size_t i = 0; i < count; i++) {
		out[i] = iov[i];
		if (!iov[i].iov_base) // a missing buffer has length 0
			out[i].iov_len = 0;
		if (out[i].iov_len > SIZE_MAX - *len)
			return -FI_EINVAL;
		*len += out[i].iov_len;
	}
	return 0;
}

static int may_receive(struct carry_ep *ep)
{
	if (!ep->enabled)
		return -FI_EOPBADSTATE;
	if (ep->srx || ep->wants_srx)
		return -FI_EINVAL;
	// Layers request RMA only and still send messages of their own, so a queue counts as much as the capability.
	return ep->caps & FI_RECV || ep->rxcq ? 0 : -FI_EOPNOTSUPP;
}

static ssize_t post_recv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count, void *context,
			 const uint64_t *flags)
{
	struct carry_ep *ep = fid->fid.fclass == FI_CLASS_EP ? (struct carry_ep *) fid : NULL;
	struct carry_srx *srx = ep ? NULL : (struct carry_srx *) fid;
	struct carry_domain *domain = ep ? ep->domain : srx->domain;
	struct carry_rxq *rxq = ep ? &ep->rxq : &srx->rxq;
	uint64_t given = flags ? *flags : rxq->op_flags;
	struct iovec pieces[CARRY_IOV];
	struct carry_recv *recv;
	size_t len;
	int rc = ep ? may_receive(ep) : 0;

	if (!rc && given & ~(FI_COMPLETION | FI_MORE | FI_TRANSMIT_COMPLETE | FI_INJECT_COMPLETE))
		rc = -FI_EBADFLAGS;
	if (!rc)
		rc = check_pieces(iov, count, rxq->iov_limit, pieces, &len);
	if (!rc)
		rc = carry_mr_check(domain, pieces, desc, count);
	if (rc)
		return rc;
	recv = calloc(1, sizeof(*recv));
	if (!recv)
		return -FI_ENOMEM;
	recv->context = context;
	recv->asked = given & FI_COMPLETION;
	recv->count = (unsigned) count;
	recv->len = len;
	memcpy(recv->iov, pieces, count * sizeof(*pieces));
	list_init(&recv->at);
	carry_lock(domain->fabric);
	if (rxq->used >= rxq->size)
		carry_progress(domain->fabric);
	if (rxq->used >= rxq->size)
		rc = -FI_EAGAIN;
	else if (ep && ep->state == EP_ENDED && list_empty(&rxq->arrived))
		rc = -FI_ENOTCONN;
	if (rc) {
		free(recv);
	} else {
		rxq->used++;
		if ((ep ? ep->mode : domain->mode) & FI_CONTEXT && context)
			memset(context, 0xc0, sizeof(struct fi_context));
		if (list_empty(&rxq->arrived))
			list_append(&rxq->posted, &recv->at);
		else
			meet(rxq, recv);
		if (ep && ep->type == FI_EP_DGRAM)
			carry_dgram_wants(ep);
	}
	carry_unlock(domain->fabric);
	return rc;
}

ssize_t carry_cancel_recv(struct carry_rxq *rxq, struct carry_ep *ep, void *context)
{
	if (!context)
		return -FI_ENOENT;
	EACH(at, &rxq->posted) {
		struct carry_recv *recv = OWNER(at, struct carry_recv, at);

		if (recv->context != context)
			continue;
		list_del(&recv->at);
		carry_received(ep, recv, NULL, FI_ECANCELED);
		return 0;
	}
	return -FI_ENOENT;
}

static ssize_t msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, void *context)
{
	struct iovec iov = {buf, len};

	(void) src;
	return post_recv(ep, &iov, &desc, 1, context, NULL);
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, void *context)
{
	(void) src;
	return post_recv(ep, iov, desc, count, context, NULL);
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return msg ? post_recv(ep, msg->msg_iov, msg->desc, msg->iov_count, msg->context, &flags) : -FI_EINVAL;
}

// ---- Sending, unpacked

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest, void *context)
{
	struct iovec iov = {(void *) buf, len};
	struct carry_call call = {.kind = FRAME_MSG, .iov = &iov, .desc = &desc, .count = 1, .addr = dest, .context = context};

	return carry_post(ep, &call, true);
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest, void *context)
{
	struct carry_call call = {.kind = FRAME_MSG, .iov = iov, .desc = desc, .count = count, .addr = dest, .context = context};

	return carry_post(ep, &call, true);
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	struct carry_call call = {.kind = FRAME_MSG, .flags = flags};

	if (!msg)
		return -FI_EINVAL;
	call.iov = msg->msg_iov;
	call.desc = msg->desc;
	call.count = msg->iov_count;
	call.addr = msg->addr;
	call.context = msg->context;
	call.data = msg->data;
	return carry_post(ep, &call, false);
}

static ssize_t msg_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest)
{
	struct iovec iov = {(void *) buf, len};
	struct carry_call call = {.kind = FRAME_MSG, .iov = &iov, .count = 1, .addr = dest, .flags = FI_INJECT, .silent = true};

	return carry_post(ep, &call, true);
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest,
			    void *context)
{
	struct iovec iov = {(void *) buf, len};
	struct carry_call call = {.kind = FRAME_MSG, .iov = &iov, .desc = &desc, .count = 1, .addr = dest, .context = context,
				  .data = data, .flags = FI_REMOTE_CQ_DATA};

	return carry_post(ep, &call, true);
}

static ssize_t msg_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest)
{
	struct iovec iov = {(void *) buf, len};
	struct carry_call call = {.kind = FRAME_MSG, .iov = &iov, .count = 1, .addr = dest, .data = data,
				  .flags = FI_INJECT | FI_REMOTE_CQ_DATA, .silent = true};

	return carry_post(ep, &call, true);
}

struct fi_ops_msg carry_msg_ops = {
	.size = sizeof(struct fi_ops_msg), .recv = msg_recv, .recvv = msg_recvv, .recvmsg = msg_recvmsg, .send = msg_send,
	.sendv = msg_sendv, .sendmsg = msg_sendmsg, .inject = msg_inject, .senddata = msg_senddata, .injectdata = msg_injectdata,
};
