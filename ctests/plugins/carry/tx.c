// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Posts messages, writes and reads; all forms of calls end here. fi_msg(3), fi_rma(3), fi_cq(3)

#include "carry.h"

static uint64_t known_flags(const struct carry_ep *ep, uint8_t kind)
{
	uint64_t flags = FI_COMPLETION | FI_INJECT | FI_MORE | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;

	if (kind != FRAME_READ)
		flags |= FI_REMOTE_CQ_DATA;
	return ep->type == FI_EP_MSG ? flags | FI_DELIVERY_COMPLETE : flags;
}

static int check_memory(const struct carry_ep *ep, const struct carry_call *call, size_t *len)
{
	size_t remote = 0;

	*len = 0;
	if (call->count > ep->iov_limit || (call->count && !call->iov))
		return -FI_EINVAL;
	for (size_t i = 0; i < call->count; i++) {
		if (call->iov[i].iov_len > SIZE_MAX - *len || (call->iov[i].iov_len && !call->iov[i].iov_base))
			return -FI_EINVAL;
		*len += call->iov[i].iov_len;
	}
	if (*len > ep->max_msg_size || (call->flags & FI_INJECT && *len > ep->inject_size))
		return -FI_EMSGSIZE;
	if (call->kind == FRAME_MSG)
		return 0;
	if (call->rma_count > ep->rma_iov_limit || (call->rma_count && !call->rma))
		return -FI_EINVAL;
	for (size_t i = 0; i < call->rma_count; i++) {
		if (call->rma[i].len > SIZE_MAX - remote)
			return -FI_EINVAL;
		remote += call->rma[i].len;
	}
	return remote == *len ? 0 : -FI_EINVAL;
}

static int check_call(const struct carry_ep *ep, const struct carry_call *call, size_t *len)
{
	static const uint64_t caps[] = {
		[FRAME_MSG] = FI_MSG | FI_SEND, [FRAME_WRITE] = FI_RMA | FI_WRITE, [FRAME_READ] = FI_RMA | FI_READ,
	};

	if (!ep->enabled)
		return -FI_EOPBADSTATE;
	// Messages need a queue if the endpoint lacks the capability: see may_receive.
	if ((ep->caps & caps[call->kind]) != caps[call->kind] && !(call->kind == FRAME_MSG && ep->txcq))
		return -FI_EOPNOTSUPP;
	if (call->flags & ~known_flags(ep, call->kind))
		return -FI_EBADFLAGS;
	return check_memory(ep, call, len);
}

static struct carry_op *make_op(struct carry_ep *ep, const struct carry_call *call, size_t len)
{
	bool copied = call->flags & FI_INJECT;
	struct carry_op *op = calloc(1, sizeof(*op) + (copied ? len : 0));
	size_t done = 0;

	if (!op)
		return NULL;
	list_init(&op->at);
	op->context = call->context;
	if (ep->mode & FI_CONTEXT && call->context)
		memset(call->context, 0xc0, sizeof(struct fi_context));
	op->len = len;
	op->count = (unsigned) call->count;
	for (size_t i = 0; i < call->count; i++) {
		op->iov[i] = call->iov[i];
		if (copied && call->iov[i].iov_len)
			memcpy((uint8_t *) (op + 1) + done, call->iov[i].iov_base, call->iov[i].iov_len);
		done += call->iov[i].iov_len;
	}
	if (copied) {
		op->copy = (uint8_t *) (op + 1);
		op->iov[0] = (struct iovec){op->copy, len};
		op->count = 1;
	}
	op->report = !call->silent && (!ep->tx_selective || call->flags & FI_COMPLETION);
	op->flags = call->kind == FRAME_MSG ? FI_MSG | FI_SEND : call->kind == FRAME_WRITE ? FI_RMA | FI_WRITE : FI_RMA | FI_READ;
	op->head = (struct carry_frame){.kind = call->kind, .spans = (uint16_t) call->rma_count, .id = ep->next_id++, .len = len};
	for (size_t i = 0; i < call->rma_count; i++)
		op->spans[i] = (struct carry_span){call->rma[i].addr, call->rma[i].len, call->rma[i].key};
	if (call->flags & FI_REMOTE_CQ_DATA) {
		op->head.flags |= FRAME_CQ_DATA;
		op->head.data = call->data;
	}
	if (call->kind == FRAME_MSG && call->flags & FI_DELIVERY_COMPLETE)
		op->head.flags |= FRAME_ACK_PLACED;
	else if (call->kind == FRAME_MSG && call->flags & FI_TRANSMIT_COMPLETE)
		op->head.flags |= FRAME_ACK_HERE;
	return op;
}

static bool full(const struct carry_ep *ep)
{
	return ep->tx_used >= ep->tx_size || (ep->txcq && ep->txcq->count >= ep->txcq->size);
}

static ssize_t queue_op(struct carry_ep *ep, const struct carry_call *call, size_t len)
{
	struct carry_op *op;

	if (ep->state == EP_ENDED || ep->state == EP_IDLE)
		return -FI_ENOTCONN;
	if (ep->state != EP_CONNECTED)
		return -FI_EAGAIN;
	op = make_op(ep, call, len);
	if (!op)
		return -FI_ENOMEM;
	ep->tx_used++;
	list_append(&ep->out, &op->at);
	carry_conn_flush(ep);
	return 0;
}

ssize_t carry_post(struct fid_ep *fid, struct carry_call *call, bool defaults)
{
	struct carry_ep *ep = (struct carry_ep *) fid;
	ssize_t rc;
	size_t len;

	if (defaults)
		call->flags |= ep->tx_flags;
	if (call->kind == FRAME_READ)
		call->flags &= ~FI_INJECT; // a read has no bytes to copy
	rc = check_call(ep, call, &len);
	if (!rc && !(call->flags & FI_INJECT))
		rc = carry_mr_check(ep->domain, call->iov, call->desc, call->count);
	if (rc)
		return rc;
	carry_lock(ep->domain->fabric);
	if (full(ep))
		carry_progress(ep->domain->fabric);
	if (full(ep))
		rc = ep->type == FI_EP_MSG && ep->state == EP_ENDED ? -FI_ENOTCONN : -FI_EAGAIN;
	else if (ep->type == FI_EP_DGRAM)
		rc = carry_dgram_send(ep, call, !call->silent && (!ep->tx_selective || call->flags & FI_COMPLETION));
	else
		rc = queue_op(ep, call, len);
	carry_unlock(ep->domain->fabric);
	return rc;
}

// Ends an operation: reports it, counts it, and frees its slot.
void carry_op_done(struct carry_ep *ep, struct carry_op *op, int err)
{
	struct fi_cq_err_entry entry = {.op_context = op->context, .flags = op->flags, .err = err, .prov_errno = err};

	list_del(&op->at);
	if (ep->reading == op)
		ep->reading = NULL;
	if (op->answer) {
		ep->answers--;
		free(op->copy);
		free(op);
		return;
	}
	ep->tx_used--;
	if (ep->mode & FI_CONTEXT && op->context)
		memset(op->context, 0xca, sizeof(struct fi_context));
	if (ep->txcq && (err || op->report))
		carry_complete(ep->txcq, &entry);
	carry_count(*carry_cntr_slot(ep, op->flags & (FI_SEND | FI_WRITE | FI_READ)), op->len, err);
	free(op);
}

// Cancels a send of which no byte was sent.
ssize_t carry_cancel_send(struct carry_ep *ep, void *context)
{
	if (!context || ep->type != FI_EP_MSG)
		return -FI_ENOENT;
	EACH(at, &ep->out) {
		struct carry_op *op = OWNER(at, struct carry_op, at);

		if (op->answer || op->sent || op->context != context)
			continue;
		carry_op_done(ep, op, FI_ECANCELED);
		return 0;
	}
	return -FI_ENOENT;
}
