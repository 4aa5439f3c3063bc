// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Peers' accesses to local memory: every access is checked against the regions before a byte moves. fi_rma(3), fi_mr(3)

#include "carry.h"

// Refuses a peer's access: sends it the error and ends the connection.
void carry_refuse(struct carry_ep *ep, uint8_t kind, int status)
{
	carry_answer(ep, kind, ep->head.id, status, NULL, 0);
	if (ep->state == EP_CONNECTED)
		carry_conn_end(ep, FI_ECONNABORTED, false);
}

unsigned carry_reach(struct carry_ep *ep, uint64_t right, struct iovec *iov, int *status)
{
	unsigned count = 0;

	*status = ep->caps & FI_RMA && ep->caps & right ? 0 : FI_EACCES;
	for (unsigned i = 0; i < ep->head.spans && !*status; i++)
		*status = carry_mr_reach(ep, &ep->spans[i], right, iov, &count);
	return count;
}

void carry_serve_read(struct carry_ep *ep)
{
	struct iovec iov[CARRY_IOV * CARRY_MR_IOV];
	uint8_t *bytes = NULL;
	int status;
	unsigned count = carry_reach(ep, FI_REMOTE_READ, iov, &status);
	size_t done = 0;

	// The bytes are copied now, so later writes do not change them.
	if (!status && ep->head.len && !(bytes = malloc(ep->head.len)))
		status = FI_ENOMEM;
	if (status) {
		carry_refuse(ep, FRAME_READ_DATA, status);
		return;
	}
	for (unsigned i = 0; i < count; i++) {
		memcpy(bytes + done, iov[i].iov_base, iov[i].iov_len);
		done += iov[i].iov_len;
	}
	carry_count(*carry_cntr_slot(ep, FI_REMOTE_READ), done, false);
	carry_answer(ep, FRAME_READ_DATA, ep->head.id, 0, bytes, done);
}

static void take_data(struct carry_ep *ep)
{
	struct carry_rxq *rxq = carry_rxq_of(ep);
	struct carry_arrival *arrival;
	struct carry_recv *recv;

	if (!(ep->mode & FI_RX_CQ_DATA)) {
		carry_write_data(ep, NULL, &ep->head);
		return;
	}
	recv = carry_take_recv(rxq);
	if (recv) {
		carry_write_data(ep, recv, &ep->head);
		return;
	}
	arrival = calloc(1, sizeof(*arrival));
	if (!arrival) {
		carry_conn_end(ep, FI_ENOMEM, false);
		return;
	}
	arrival->ep = ep;
	arrival->head = ep->head;
	arrival->whole = true;
	list_append(&rxq->arrived, &arrival->at);
}

void carry_served_write(struct carry_ep *ep)
{
	struct carry_cntr *last = NULL;

	for (unsigned i = 0; i < ep->head.spans; i++) {
		struct carry_mr *mr = carry_mr_find(ep->domain, ep->spans[i].key);
		bool seen = false;

		// A region counts a write once, with the bytes of all its spans.
		for (unsigned k = 0; k < i && mr && mr->cntr && !mr->cntr->events; k++)
			seen |= ep->spans[k].key == ep->spans[i].key;
		if (mr && mr->cntr && !seen)
			carry_count(last = mr->cntr, ep->spans[i].len, false);
	}
	if (*carry_cntr_slot(ep, FI_REMOTE_WRITE) != last || !last)
		carry_count(*carry_cntr_slot(ep, FI_REMOTE_WRITE), ep->head.len, false);
	carry_answer(ep, FRAME_ACK, ep->head.id, 0, NULL, 0);
	if (ep->state == EP_CONNECTED && ep->head.flags & FRAME_CQ_DATA)
		take_data(ep);
}
