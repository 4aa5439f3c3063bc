// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Active endpoints: opening, binding, enabling, options, closing. fi_endpoint(3)

#include "carry.h"

#include <unistd.h>

#define LOCK(EP) carry_lock((EP)->domain->fabric)
#define UNLOCK(EP) carry_unlock((EP)->domain->fabric)

static const uint64_t counted[CARRY_CNTRS] = {FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE};
#define COUNTED (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

struct carry_cntr **carry_cntr_slot(struct carry_ep *ep, uint64_t flag)
{
	unsigned i = 0;

	while (counted[i] != flag)
		i++;
	return &ep->cntr[i];
}

// ---- Binding

static int bind_cq(struct carry_ep *ep, struct carry_cq *cq, uint64_t flags)
{
	if (flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) || !(flags & (FI_TRANSMIT | FI_RECV)))
		return -FI_EINVAL;
	if (cq->domain != ep->domain || (flags & FI_TRANSMIT && ep->txcq) || (flags & FI_RECV && ep->rxcq))
		return -FI_EINVAL;
	if (flags & FI_TRANSMIT) {
		ep->txcq = cq;
		ep->tx_selective = flags & FI_SELECTIVE_COMPLETION;
		cq->users++;
	}
	if (flags & FI_RECV) {
		ep->rxcq = cq;
		ep->rx_selective = flags & FI_SELECTIVE_COMPLETION;
		cq->users++;
	}
	return 0;
}

static int bind_cntr(struct carry_ep *ep, struct carry_cntr *cntr, uint64_t flags)
{
	if (!flags || flags & ~COUNTED || cntr->domain != ep->domain)
		return -FI_EINVAL;
	if (!(ep->caps & FI_RMA_EVENT))
		flags &= ~(FI_REMOTE_READ | FI_REMOTE_WRITE);
	if (!flags)
		return -FI_EINVAL;
	for (unsigned i = 0; i < CARRY_CNTRS; i++)
		if (flags & counted[i] && ep->cntr[i])
			return -FI_EINVAL;
	for (unsigned i = 0; i < CARRY_CNTRS; i++) {
		if (flags & counted[i]) {
			ep->cntr[i] = cntr;
			cntr->users++;
		}
	}
	return 0;
}

static int bind_eq(struct carry_ep *ep, struct carry_eq *eq, uint64_t flags)
{
	if (flags || eq->fabric != ep->domain->fabric || ep->eq)
		return -FI_EINVAL;
	ep->eq = eq;
	eq->users++;
	return 0;
}

static int bind_av(struct carry_ep *ep, struct carry_av *av, uint64_t flags)
{
	if (flags || ep->type == FI_EP_MSG || av->domain != ep->domain || ep->av)
		return -FI_EINVAL;
	if (ep->enabled)
		return -FI_EOPBADSTATE;
	ep->av = av;
	av->users++;
	return 0;
}

static int bind_srx(struct carry_ep *ep, struct carry_srx *srx, uint64_t flags)
{
	if (flags || ep->type != FI_EP_MSG || srx->domain != ep->domain || ep->srx)
		return -FI_EINVAL;
	// The endpoint must not require more than the context has.
	if (ep->rxq.size > srx->rxq.size || ep->rxq.iov_limit > srx->rxq.iov_limit || (srx->caps && !(srx->caps & FI_MSG)))
		return -FI_EINVAL;
	if (ep->enabled)
		return -FI_EOPBADSTATE;
	ep->srx = srx;
	srx->users++;
	return 0;
}

static int ep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct carry_ep *ep = (struct carry_ep *) fid;
	int rc = -FI_EINVAL;

	if (!other)
		return -FI_EINVAL;
	LOCK(ep);
	switch (other->fclass) {
	case FI_CLASS_CQ:
		rc = bind_cq(ep, (struct carry_cq *) other, flags);
		break;
	case FI_CLASS_CNTR:
		rc = bind_cntr(ep, (struct carry_cntr *) other, flags);
		break;
	case FI_CLASS_EQ:
		rc = bind_eq(ep, (struct carry_eq *) other, flags);
		break;
	case FI_CLASS_AV:
		rc = bind_av(ep, (struct carry_av *) other, flags);
		break;
	case FI_CLASS_SRX_CTX:
		rc = bind_srx(ep, (struct carry_srx *) other, flags);
		break;
	}
	UNLOCK(ep);
	return rc;
}

// ---- Enabling and flags

static int enable_dgram(struct carry_ep *ep)
{
	int size = 4 << 20;

	if (!ep->av)
		return -FI_ENOAV;
	if (ep->source.fd < 0) {
		int fd = carry_bind_socket(SOCK_DGRAM, &ep->own);

		if (fd < 0)
			return fd;
		ep->source.fd = fd;
	}
	// As large as the kernel permits, because it stores datagrams that arrive before their receive.
	setsockopt(ep->source.fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	return 0;
}

int carry_ep_enable(struct carry_ep *ep)
{
	int rc = 0;

	if (ep->enabled)
		return 0;
	if (ep->caps & (FI_SEND | FI_READ | FI_WRITE) && !ep->txcq)
		return -FI_ENOCQ;
	if (ep->caps & FI_RECV && !ep->rxcq)
		return -FI_ENOCQ;
	if (ep->type == FI_EP_MSG && !ep->eq && !ep->domain->eq)
		return -FI_ENOEQ;
	if (ep->wants_srx && !ep->srx)
		return -FI_EOPBADSTATE;
	if (ep->type == FI_EP_DGRAM)
		rc = enable_dgram(ep);
	ep->enabled = !rc;
	return rc;
}

static int get_flags(struct carry_ep *ep, uint64_t *arg)
{
	uint64_t direction = *arg & (FI_TRANSMIT | FI_RECV);

	if (direction != FI_TRANSMIT && direction != FI_RECV)
		return -FI_EINVAL;
	*arg = direction == FI_RECV ? ep->rxq.op_flags : ep->tx_flags;
	return 0;
}

static int set_flags(struct carry_ep *ep, uint64_t flags)
{
	uint64_t direction = flags & (FI_TRANSMIT | FI_RECV), known = FI_COMPLETION;

	flags &= ~direction;
	if (direction == FI_TRANSMIT)
		known |= FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | (ep->type == FI_EP_MSG ? FI_DELIVERY_COMPLETE : 0);
	else if (direction != FI_RECV)
		return -FI_EINVAL;
	if (flags & ~known)
		return -FI_EBADFLAGS;
	*(direction == FI_RECV ? &ep->rxq.op_flags : &ep->tx_flags) = flags;
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	struct carry_ep *ep = (struct carry_ep *) fid;
	int rc = -FI_ENOSYS;

	if (!arg && (command == FI_GETOPSFLAG || command == FI_SETOPSFLAG || command == FI_GET_FD))
		return -FI_EINVAL;
	LOCK(ep);
	if (command == FI_ENABLE)
		rc = carry_ep_enable(ep);
	else if (command == FI_GETOPSFLAG)
		rc = get_flags(ep, arg);
	else if (command == FI_SETOPSFLAG)
		rc = set_flags(ep, *(uint64_t *) arg);
	else if (command == FI_GET_FD && ep->source.fd >= 0) {
		*(int *) arg = ep->source.fd;
		rc = 0;
	}
	UNLOCK(ep);
	return rc;
}

// ---- Options

static int ep_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
	struct carry_ep *ep = (struct carry_ep *) fid;
	size_t found;

	if (!value || !len)
		return -FI_EINVAL;
	if (level != FI_OPT_ENDPOINT)
		return -FI_ENOPROTOOPT;
	switch (name) {
	case FI_OPT_CM_DATA_SIZE:
		if (ep->type != FI_EP_MSG)
			return -FI_ENOPROTOOPT;
		found = CARRY_CM_DATA;
		break;
	case FI_OPT_MAX_MSG_SIZE:
		found = ep->max_msg_size;
		break;
	case FI_OPT_INJECT_MSG_SIZE:
		found = ep->inject_size;
		break;
	case FI_OPT_MAX_RMA_SIZE:
	case FI_OPT_INJECT_RMA_SIZE:
		if (!(ep->caps & FI_RMA))
			return -FI_ENOPROTOOPT;
		found = name == FI_OPT_MAX_RMA_SIZE ? ep->max_msg_size : ep->inject_size;
		break;
	default:
		return -FI_ENOPROTOOPT;
	}
	if (*len < sizeof(found)) {
		*len = sizeof(found);
		return -FI_ETOOSMALL;
	}
	memcpy(value, &found, sizeof(found));
	*len = sizeof(found);
	return 0;
}

static ssize_t ep_cancel(fid_t fid, void *context)
{
	struct carry_ep *ep = (struct carry_ep *) fid;
	ssize_t rc;

	LOCK(ep);
	rc = ep->srx ? -FI_ENOENT : carry_cancel_recv(&ep->rxq, ep, context);
	if (rc)
		rc = carry_cancel_send(ep, context);
	UNLOCK(ep);
	return rc;
}

static ssize_t rx_size_left(struct fid_ep *fid)
{
	struct carry_ep *ep = (struct carry_ep *) fid;
	ssize_t left;

	if (!ep->enabled)
		return -FI_EOPBADSTATE;
	LOCK(ep);
	left = (ssize_t) (ep->rxq.size - ep->rxq.used);
	UNLOCK(ep);
	return left;
}

static ssize_t tx_size_left(struct fid_ep *fid)
{
	struct carry_ep *ep = (struct carry_ep *) fid;
	size_t slots, entries = SIZE_MAX;

	if (!ep->enabled)
		return -FI_EOPBADSTATE;
	LOCK(ep);
	slots = ep->tx_size - ep->tx_used;
	if (ep->txcq)
		entries = ep->txcq->count < ep->txcq->size ? ep->txcq->size - ep->txcq->count : 0;
	UNLOCK(ep);
	return (ssize_t) (slots < entries ? slots : entries);
}

// ---- Opening and closing

static int ep_close(struct fid *fid)
{
	struct carry_ep *ep = (struct carry_ep *) fid;
	struct carry_fabric *fabric = ep->domain->fabric;
	struct carry_cq *txcq = ep->txcq, *rxcq = ep->rxcq;

	carry_lock(fabric);
	if (txcq)
		txcq->users--;
	if (rxcq)
		rxcq->users--;
	for (unsigned i = 0; i < CARRY_CNTRS; i++)
		if (ep->cntr[i])
			ep->cntr[i]->users--;
	carry_forget_events(ep->eq ? ep->eq : ep->domain->eq, fid);
	carry_conn_close(ep);
	carry_mr_orphan(ep);
	if (ep->eq)
		ep->eq->users--;
	if (ep->av)
		ep->av->users--;
	if (ep->srx)
		ep->srx->users--;
	ep->domain->users--;
	carry_unlock(fabric);
	free(ep);
	return 0;
}

static struct fi_ops ep_fid_ops = CARRY_FI_OPS(ep_close, ep_bind, ep_control);
static struct fi_ops_ep ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = ep_cancel,
	.getopt = ep_getopt,
	.rx_size_left = rx_size_left,
	.tx_size_left = tx_size_left,
};
CARRY_FILL(ep_ops, carry_no_ep)

// A connection request to accept, or a passive endpoint whose address the new endpoint takes over.
static int take_handle(struct carry_ep *ep, struct fid *handle)
{
	struct carry_fabric *fabric = ep->domain->fabric;
	struct carry_request *request = carry_find_request(fabric, handle);
	socklen_t len = sizeof(struct sockaddr_in);

	if (ep->type != FI_EP_MSG)
		return -FI_EINVAL;
	if (request) {
		ep->source.fd = request->source.fd;
		request->source.fd = -1;
		getsockname(ep->source.fd, (struct sockaddr *) &ep->own, &len);
		getpeername(ep->source.fd, (struct sockaddr *) &ep->peer, &len);
		carry_drop_request(request, false, NULL, 0);
		ep->state = EP_REQUESTED;
		return 0;
	}
	EACH(at, &fabric->peps) {
		struct carry_pep *pep = OWNER(at, struct carry_pep, at);

		if (&pep->fid.fid != handle || pep->listening)
			continue;
		ep->own = pep->own;
		ep->source.fd = pep->source.fd;
		pep->source.fd = -1;
		return 0;
	}
	return -FI_EINVAL;
}

static void set_limits(struct carry_ep *ep, const struct fi_info *info)
{
	bool small = carry_demands & DEMAND_SMALL, msg = ep->type == FI_EP_MSG;

	ep->tx_flags = info->tx_attr->op_flags;
	ep->tx_size = info->tx_attr->size ? info->tx_attr->size : small ? CARRY_SMALL : CARRY_SIZE;
	ep->inject_size = carry_demands & DEMAND_INJECT0 ? 0 : CARRY_INJECT;
	ep->iov_limit = info->tx_attr->iov_limit ? info->tx_attr->iov_limit : 1;
	ep->rma_iov_limit = info->tx_attr->rma_iov_limit ? info->tx_attr->rma_iov_limit : 1;
	ep->max_msg_size = !msg ? CARRY_MAX_DGRAM : small ? CARRY_SMALL_MSG : CARRY_MAX_MSG;
	carry_rxq_init(&ep->rxq, info->rx_attr);
}

int carry_endpoint(struct fid_domain *fid, struct fi_info *info, struct fid_ep **out, void *context)
{
	struct carry_domain *domain = (struct carry_domain *) fid;
	int rc = out ? carry_check_info(info) : -FI_EINVAL;
	struct carry_ep *ep;

	if (rc)
		return rc;
	ep = calloc(1, sizeof(*ep));
	if (ep && info->ep_attr->type == FI_EP_DGRAM)
		ep->in = malloc(CARRY_BUF);
	if (!ep || (info->ep_attr->type == FI_EP_DGRAM && !ep->in)) {
		free(ep);
		return -FI_ENOMEM;
	}
	ep->domain = domain;
	ep->type = info->ep_attr->type;
	ep->caps = info->caps;
	ep->mode = info->mode;
	ep->wants_srx = info->ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT;
	ep->source = (struct carry_source){.fd = -1, .ready = ep->type == FI_EP_MSG ? carry_conn_ready : carry_dgram_ready};
	ep->own = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (info->src_addr && info->src_addrlen >= sizeof(ep->own))
		memcpy(&ep->own, info->src_addr, sizeof(ep->own));
	if (!ep->own.sin_addr.s_addr)
		ep->own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	list_init(&ep->out);
	list_init(&ep->waiting);
	set_limits(ep, info);
	ep->fid.fid = (struct fid){.fclass = FI_CLASS_EP, .context = context, .ops = &ep_fid_ops};
	ep->fid.ops = &ep_ops;
	ep->fid.cm = &carry_cm_ops;
	ep->fid.msg = &carry_msg_ops;
	ep->fid.rma = ep->type == FI_EP_MSG ? &carry_rma_ops : &carry_no_rma;
	ep->fid.tagged = &carry_no_tagged;
	ep->fid.atomic = &carry_no_atomic;
	ep->fid.collective = &carry_no_collective;
	LOCK(ep);
	rc = carry_is_ours(&ep->own) ? 0 : -FI_EINVAL;
	if (!rc && info->handle)
		rc = take_handle(ep, info->handle);
	if (!rc)
		domain->users++;
	UNLOCK(ep);
	if (rc) {
		free(ep->in);
		free(ep);
	} else {
		*out = &ep->fid;
	}
	return rc;
}
