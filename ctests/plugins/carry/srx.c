// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Shared receive contexts, for connected endpoints. fi_endpoint(3)

#include "carry.h"

#define LOCK(SRX) carry_lock((SRX)->domain->fabric)
#define UNLOCK(SRX) carry_unlock((SRX)->domain->fabric)

static int srx_close(struct fid *fid)
{
	struct carry_srx *srx = (struct carry_srx *) fid;
	struct carry_fabric *fabric = srx->domain->fabric;

	carry_lock(fabric);
	if (srx->users) {
		carry_unlock(fabric);
		return -FI_EBUSY;
	}
	carry_rxq_drain(&srx->rxq);
	srx->domain->users--;
	carry_unlock(fabric);
	free(srx);
	return 0;
}

static int srx_control(struct fid *fid, int command, void *arg)
{
	struct carry_srx *srx = (struct carry_srx *) fid;
	uint64_t *flags = arg;

	switch (command) {
	case FI_ENABLE:
		return 0;
	case FI_GETOPSFLAG:
		if (!flags || (*flags & (FI_TRANSMIT | FI_RECV)) != FI_RECV)
			return -FI_EINVAL;
		*flags = srx->rxq.op_flags;
		return 0;
	case FI_SETOPSFLAG:
		if (!flags || (*flags & (FI_TRANSMIT | FI_RECV)) != FI_RECV || *flags & ~(FI_RECV | FI_COMPLETION))
			return -FI_EINVAL;
		srx->rxq.op_flags = *flags & FI_COMPLETION;
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

// A receive has no endpoint yet, so there is no queue that could report: it is removed silently.
static ssize_t srx_cancel(fid_t fid, void *context)
{
	struct carry_srx *srx = (struct carry_srx *) fid;
	ssize_t rc = -FI_ENOENT;

	LOCK(srx);
	EACH(at, &srx->rxq.posted) {
		struct carry_recv *recv = OWNER(at, struct carry_recv, at);

		if (!context || recv->context != context)
			continue;
		list_del(&recv->at);
		srx->rxq.used--;
		free(recv);
		rc = 0;
		break;
	}
	UNLOCK(srx);
	return rc;
}

static ssize_t srx_size_left(struct fid_ep *fid)
{
	struct carry_srx *srx = (struct carry_srx *) fid;
	ssize_t left;

	LOCK(srx);
	left = (ssize_t) (srx->rxq.size - srx->rxq.used);
	UNLOCK(srx);
	return left;
}

static struct fi_ops srx_fid_ops = CARRY_FI_OPS(srx_close, carry_no_bind, srx_control);
static struct fi_ops_ep srx_ops = {.size = sizeof(struct fi_ops_ep), .cancel = srx_cancel, .rx_size_left = srx_size_left};
CARRY_FILL(srx_ops, carry_no_ep)

// The context receives like an endpoint, and sends nothing.
static ssize_t srx_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, void *context)
{
	return carry_msg_ops.recv(ep, buf, len, desc, src, context);
}

static ssize_t srx_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, void *context)
{
	return carry_msg_ops.recvv(ep, iov, desc, count, src, context);
}

static ssize_t srx_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	return carry_msg_ops.recvmsg(ep, msg, flags);
}

static struct fi_ops_msg srx_msg_ops = {
	.size = sizeof(struct fi_ops_msg), .recv = srx_recv, .recvv = srx_recvv, .recvmsg = srx_recvmsg,
};
CARRY_FILL(srx_msg_ops, carry_no_msg)

int carry_srx_open(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **out, void *context)
{
	struct carry_domain *domain = (struct carry_domain *) fid;
	struct fi_rx_attr none = {0};
	struct carry_srx *srx;

	if (!out)
		return -FI_EINVAL;
	if (domain->type != FI_EP_MSG)
		return -FI_ENOSYS;
	attr = attr ? attr : &none;
	if (attr->op_flags & ~FI_COMPLETION)
		return -FI_EINVAL;
	if (attr->size > CARRY_MAX_SIZE || attr->iov_limit > CARRY_IOV)
		return -FI_EINVAL;
	srx = calloc(1, sizeof(*srx));
	if (!srx)
		return -FI_ENOMEM;
	srx->domain = domain;
	srx->caps = attr->caps;
	carry_rxq_init(&srx->rxq, attr);
	srx->fid.fid = (struct fid){.fclass = FI_CLASS_SRX_CTX, .context = context, .ops = &srx_fid_ops};
	srx->fid.ops = &srx_ops;
	srx->fid.cm = &carry_no_cm;
	srx->fid.rma = &carry_no_rma;
	srx->fid.tagged = &carry_no_tagged;
	srx->fid.atomic = &carry_no_atomic;
	srx->fid.collective = &carry_no_collective;
	LOCK(srx);
	srx->fid.msg = &srx_msg_ops;
	domain->users++;
	UNLOCK(srx);
	*out = &srx->fid;
	return 0;
}
