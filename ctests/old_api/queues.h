// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// fi_cq(3), fi_eq(3), fi_av(3) and the related small structs: attributes in, entries out, the error entries with their
// length at that time.

#ifndef OLD_API_QUEUES_H
#define OLD_API_QUEUES_H

#include "objects.h"

static void attributes_are_read_as_long_as_they_are(void)
{
	struct world w = {};
	struct fi_cq_attr *cq = GUARDED(struct fi_cq_attr);
	struct fi_cntr_attr *cntr = GUARDED(struct fi_cntr_attr);
	struct fi_wait_attr *wait = GUARDED(struct fi_wait_attr);
	struct fi_poll_attr *poll = GUARDED(struct fi_poll_attr);
	struct fi_av_attr *av = GUARDED(struct fi_av_attr);
	struct fi_cq_attr cq_before;
	struct fi_av_attr av_before;
	struct fid_cq *a_cq;
	struct fid_cntr *a_cntr;
	struct fid_wait *a_wait;
	struct fid_poll *a_poll;
	struct fid_av *an_av;

	open_rdm(&w, FI_MR_UNSPEC);
	wait->wait_obj = FI_WAIT_FD;
	NEED(w.fabric->ops->wait_open(w.fabric, wait, &a_wait));
	cq->wait_obj = FI_WAIT_SET;
	cq->wait_set = a_wait;
	cq->format = FI_CQ_FORMAT_CONTEXT;
	cq_before = *cq;
	NEED(w.domain->ops->cq_open(w.domain, cq, &a_cq, NULL));
	CHECK(!memcmp(cq, &cq_before, sizeof(*cq)));
	cntr->wait_obj = FI_WAIT_FD;
	NEED(w.domain->ops->cntr_open(w.domain, cntr, &a_cntr, NULL));
	NEED(w.domain->ops->poll_open(w.domain, poll, &a_poll));
	av->count = 8;
	av_before = *av;
	NEED(w.domain->ops->av_open(w.domain, av, &an_av, NULL));
	// Only the effective type is written.
	EQUAL(av->type, FI_AV_TABLE);
	av->type = FI_AV_UNSPEC;
	CHECK(!memcmp(av, &av_before, sizeof(*av)));
	close_fid(an_av);
	close_fid(a_poll);
	close_fid(a_cntr);
	close_fid(a_cq);
	close_fid(a_wait);
	close_all(&w);
}

static void contexts_take_attributes_of_their_time(void)
{
	struct world w = {};
	struct fid_ep *ep = NULL;
	struct fid_stx *stx = NULL;

	open_rdm(&w, FI_MR_UNSPEC);
	// Whether offered or refused, the structs are read only up to their length.
	if (!w.domain->ops->srx_ctx(w.domain, GUARDED_COPY(w.info->rx_attr), &ep, NULL))
		close_fid(ep);
	if (!w.domain->ops->stx_ctx(w.domain, GUARDED_COPY(w.info->tx_attr), &stx, NULL))
		close_fid(stx);
	EQUAL(w.ep[0]->ops->tx_ctx(w.ep[0], 0, GUARDED(struct fi_tx_attr), &ep, NULL), -FI_ENOSYS);
	EQUAL(w.ep[0]->ops->rx_ctx(w.ep[0], 0, GUARDED(struct fi_rx_attr), &ep, NULL), -FI_ENOSYS);
	close_all(&w);
}

static void a_message_goes_through_structs_of_its_time(void)
{
	struct world w = {};
	struct fi_msg *msg = GUARDED(struct fi_msg);
	struct iovec *iov = GUARDED_ARRAY(struct iovec, 2);
	struct fi_cq_tagged_entry *entry = GUARDED_ARRAY(struct fi_cq_tagged_entry, 1);
	fi_addr_t *from = GUARDED_GARBAGE(fi_addr_t);
	char *in = guarded_bytes("buffer", 10, 0), *out = guarded_copy_of("buffer", "0123456789", 10);
	int *fd = GUARDED_GARBAGE(int), seen = 0;

	open_rdm(&w, FI_MR_UNSPEC);
	NEED(control(&w.cq->fid, FI_GETWAIT, fd));
	CHECK(*fd >= 0);
	POST(&w, w.ep[1]->msg->recv(w.ep[1], in, 10, NULL, FI_ADDR_NOTAVAIL, in));
	*iov = (struct iovec) {out, 4};
	iov[1] = (struct iovec) {out + 4, 6};
	*msg = (struct fi_msg) {.msg_iov = iov, .iov_count = 2, .addr = w.addr[1], .context = out};
	POST(&w, w.ep[0]->msg->sendmsg(w.ep[0], msg, FI_COMPLETION));
	while (seen != 3 && in_time()) {
		ssize_t ret = w.cq->ops->readfrom(w.cq, entry, 1, from);

		if (ret == -FI_EAGAIN) {
			// fi_trywait came with 1.3; earlier programs had only the descriptor.
#if SINCE(1, 3)
			struct fid **fids = GUARDED(struct fid *);
			struct pollfd polls = {*fd, POLLIN, 0};

			*fids = &w.cq->fid;
			if (!w.fabric->ops->trywait(w.fabric, fids, 1))
				CHECK(poll(&polls, 1, 20000) == 1);
#endif
			continue;
		}
		EQUAL(ret, 1);
		if (ret < 0)
			break;
		seen |= entry->op_context == in ? 1 : 2;
		if (entry->op_context == in)
			EQUAL(entry->len, 10);
	}
	EQUAL(seen, 3);
	CHECK(!memcmp(in, out, 10));
	close_all(&w);
}

static void aliases_and_wait_objects(void)
{
	struct world w = {};
	struct fi_alias *alias = GUARDED(struct fi_alias);
	struct fid **other = GUARDED(struct fid *);

	open_rdm(&w, FI_MR_UNSPEC);
	alias->fid = other;
	alias->flags = FI_TRANSMIT;
	if (control(&w.ep[0]->fid, FI_ALIAS, alias) == 0)
		close_fid(*other);
	close_all(&w);
}

// All members of an error entry that a program of that time can read.
static void check_cq_error(const struct fi_cq_err_entry *entry, void *context, int err, size_t olen)
{
	CHECK(entry->op_context == context);
	EQUAL(entry->err, err);
	EQUAL(entry->olen, olen);
	CHECK(entry->flags & FI_RECV);
}

static void make_cq_error(struct world *w, char *in, char *out)
{
	struct fi_cq_tagged_entry entry;

	POST(w, w->ep[1]->msg->recv(w->ep[1], in, 4, NULL, FI_ADDR_NOTAVAIL, in));
	POST(w, w->ep[0]->msg->inject(w->ep[0], out, 10, w->addr[1]));
	while (next_entry(w, &entry))
		;
}

static void cq_errors_are_as_long_as_at_their_time(void)
{
	struct world w = {};
	char *in = guarded_bytes("buffer", 4, 0), *out = guarded_copy_of("buffer", "0123456789", 10);
	struct fi_cq_err_entry *entry = GUARDED_GARBAGE(struct fi_cq_err_entry);

	open_rdm(&w, FI_MR_UNSPEC);
	make_cq_error(&w, in, out);
#if SINCE(1, 5)
	// Without a buffer: err_data is ignored on input, and points to memory of the library on output.
	entry->err_data_size = 0;
#endif
	EQUAL(w.cq->ops->readerr(w.cq, entry, 0), 1);
	check_cq_error(entry, in, FI_ETRUNC, 6);
	CHECK(!entry->err_data);
#if SINCE(1, 5)
	EQUAL(entry->err_data_size, 0);
#endif
#if SINCE(1, 20)
	CHECK(entry->src_addr == w.addr[0] || entry->src_addr == FI_ADDR_NOTAVAIL);
#endif
	EQUAL(w.cq->ops->readerr(w.cq, entry, 0), -FI_EAGAIN);

	// The same with a buffer of the caller.
	entry = GUARDED_GARBAGE(struct fi_cq_err_entry);
	POST(&w, w.ep[1]->msg->recv(w.ep[1], in, 4, NULL, FI_ADDR_NOTAVAIL, in));
	NEED(w.ep[1]->ops->cancel(&w.ep[1]->fid, in));
	CHECK(!next_entry(&w, &(struct fi_cq_tagged_entry) {}));
#if SINCE(1, 5)
	{
		char *data = guarded_bytes("err_data", 16, 0x77);

		entry->err_data = data;
		entry->err_data_size = 16;
		EQUAL(w.cq->ops->readerr(w.cq, entry, 0), 1);
		// The buffer stays the caller's, even if little is stored in it.
		CHECK(entry->err_data == data);
		EQUAL(entry->err_data_size, 0);
		CHECK(*data == 0x77 && data[15] == 0x77);
	}
#else
	EQUAL(w.cq->ops->readerr(w.cq, entry, 0), 1);
#endif
	check_cq_error(entry, in, FI_ECANCELED, 0);
	SAME(w.cq->ops->strerror(w.cq, entry->prov_errno, entry->err_data, NULL, 0), "Operation canceled");
	close_all(&w);
}

static uint32_t next_event(struct fid_eq *eq, void *entry, size_t length, ssize_t *copied)
{
	uint32_t *event = GUARDED(uint32_t);

	*copied = eq->ops->sread(eq, event, entry, length, 20000, 0);
	return *copied < 0 ? 0 : *event;
}

// The buffer that the caller passes to fi_eq_readerr for the data of a refusal.
enum room { NO_ROOM, NO_BUFFER, LITTLE, ENOUGH };

static void check_refusal(struct fid_eq *eq, struct fid_ep *ep, enum room room)
{
	static const char why[] = "not today";
	struct fi_eq_err_entry *error = GUARDED_GARBAGE(struct fi_eq_err_entry);
	size_t size = room == LITTLE ? 3 : 32;
	char *mine = guarded_bytes("err_data", size, 0x77), *unreadable = guards[guard_count - 1].pages;
	// A program before 1.5 did not set these members.
	bool taken = SINCE(1, 5) && room >= LITTLE;
	size_t wanted = taken && size < sizeof(why) ? size : sizeof(why);

	error->err_data = room == NO_BUFFER ? NULL : room == NO_ROOM ? unreadable : mine;
	error->err_data_size = room == NO_ROOM ? 0 : size;
	EQUAL(eq->ops->readerr(eq, error, 0), sizeof(*error));
	CHECK(error->fid == &ep->fid && error->context == ep->fid.context);
	EQUAL(error->err, FI_ECONNREFUSED);
	EQUAL(error->err_data_size, wanted);
	CHECK((error->err_data == mine) == taken);
	CHECK(error->err_data && !memcmp(error->err_data, why, wanted));
	CHECK(mine[size - 1] == (taken && size == wanted ? why[size - 1] : 0x77));
	CHECK(taken || mine[0] == 0x77);
}

// A listener at `addr` rejects the endpoint.
static void be_refused(struct world *w, struct fid_pep *pep, struct sockaddr_in *addr, enum room room)
{
	struct fi_eq_cm_entry *request = guarded_bytes("struct fi_eq_cm_entry", sizeof(*request) + 5, 0);
	struct fid_ep *ep;
	ssize_t copied;

	NEED(w->domain->ops->endpoint(w->domain, w->info, &ep, request));
	NEED(bind_to(&ep->fid, &w->eq->fid, 0));
	NEED(bind_to(&ep->fid, &w->cq->fid, FI_TRANSMIT | FI_RECV));
	NEED(control(&ep->fid, FI_ENABLE, NULL));
	NEED(ep->cm->connect(ep, addr, guarded_copy_of("param", "hello", 5), 5));
	EQUAL(next_event(w->eq, request, sizeof(*request) + 5, &copied), FI_CONNREQ);
	EQUAL(copied, sizeof(*request) + 5);
	CHECK(request->fid == &pep->fid && !memcmp(request->data, "hello", 5));
	if (copied < (ssize_t) sizeof(*request))
		exit(1);
	CHECK(request->info->handle && request->info->ep_attr->type == FI_EP_MSG);
	// Before 1.5 there was padding here.
	if (SINCE(1, 5))
		EQUAL(request->info->fabric_attr->api_version, API);
	NEED(pep->cm->reject(pep, request->info->handle, guarded_copy_of("param", "not today", 10), 10));
	old_freeinfo(request->info);
	EQUAL(next_event(w->eq, request, sizeof(*request), &copied), 0);
	EQUAL(copied, -FI_EAVAIL);
	check_refusal(w->eq, ep, room);
	close_fid(ep);
}

static struct fid_pep *listener(struct world *w, struct sockaddr_in *addr)
{
	struct fid_pep *pep;
	size_t *length = GUARDED(size_t);

	open_fabric(w, FI_EP_MSG, FI_MR_UNSPEC);
	NEED(w->fabric->ops->passive_ep(w->fabric, w->info, &pep, NULL));
	NEED(bind_to(&pep->fid, &w->eq->fid, 0));
	NEED(pep->cm->listen(pep));
	*length = sizeof(*addr);
	NEED(pep->cm->getname(&pep->fid, addr, length));
	w->info->src_addr = NULL;
	w->info->src_addrlen = 0;
	NEED(w->fabric->ops->domain(w->fabric, w->info, &w->domain, NULL));
	open_cq(w);
	return pep;
}

static void eq_errors_bring_data_as_at_their_time(void)
{
	struct world w = {};
	struct sockaddr_in *addr = GUARDED(struct sockaddr_in);
	struct fid_pep *pep = listener(&w, addr);

	for (int room = NO_ROOM; room <= ENOUGH; room++)
		be_refused(&w, pep, addr, room);
	close_fid(pep);
	close_all(&w);
}

static void a_connection_is_accepted_with_an_info_of_its_time(void)
{
	struct world w = {};
	struct sockaddr_in *addr = GUARDED(struct sockaddr_in);
	struct fid_pep *pep = listener(&w, addr);
	struct fi_eq_cm_entry *entry = guarded_bytes("struct fi_eq_cm_entry", sizeof(*entry), 0);
	struct fi_cq_tagged_entry done;
	struct fi_info *request;
	char in[8] = "";
	ssize_t copied;

	NEED(w.domain->ops->endpoint(w.domain, w.info, &w.ep[0], NULL));
	NEED(bind_to(&w.ep[0]->fid, &w.eq->fid, 0));
	NEED(bind_to(&w.ep[0]->fid, &w.cq->fid, FI_TRANSMIT | FI_RECV));
	NEED(control(&w.ep[0]->fid, FI_ENABLE, NULL));
	NEED(w.ep[0]->cm->connect(w.ep[0], addr, NULL, 0));
	if (next_event(w.eq, entry, sizeof(*entry), &copied) != FI_CONNREQ)
		exit(1);
	request = old_copy(entry->info);
	NEED(w.domain->ops->endpoint(w.domain, request, &w.ep[1], NULL));
	NEED(bind_to(&w.ep[1]->fid, &w.eq->fid, 0));
	NEED(bind_to(&w.ep[1]->fid, &w.cq->fid, FI_TRANSMIT | FI_RECV));
	NEED(control(&w.ep[1]->fid, FI_ENABLE, NULL));
	POST(&w, w.ep[1]->msg->recv(w.ep[1], in, sizeof(in), NULL, 0, in));
	NEED(w.ep[1]->cm->accept(w.ep[1], NULL, 0));
	old_freeinfo(entry->info);
	EQUAL(next_event(w.eq, entry, sizeof(*entry), &copied), FI_CONNECTED);
	EQUAL(next_event(w.eq, entry, sizeof(*entry), &copied), FI_CONNECTED);
	POST(&w, w.ep[0]->msg->inject(w.ep[0], "old", 4, 0));
	CHECK(next_entry(&w, &done) && done.op_context == in);
	SAME(in, "old");
	close_fid(pep);
	close_all(&w);
}

#endif
