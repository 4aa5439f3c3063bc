// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoints and their peers, and completions of operations.
#include "side.h"

#include <sched.h>

// A version that both libraries support.
#if FI_MAJOR_VERSION < 2
#define API FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)
#else
#define API FI_VERSION(2, 0)
#endif

static uint64_t caps(void)
{
	if (options.dgram)
		return FI_MSG;
	if (options.linked)
		return FI_TAGGED;
	if (options.msg)
		return FI_MSG | FI_RMA;
	return FI_MSG | FI_TAGGED | FI_MULTI_RECV | FI_RMA | (options.atomics ? FI_ATOMIC : 0);
}

// Upstream's rxm has no write orders together with atomics.
static uint64_t orders(void)
{
	if (options.dgram)
		return 0;
	if (options.linked)
		return FI_ORDER_SAS;
	return FI_ORDER_SAS | (options.atomics ? 0 : FI_ORDER_SAW | FI_ORDER_WAW);
}

static struct fi_info *info_for(const char *port, const uint8_t *dest, size_t dest_len)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	CHECK(hints);
	hints->caps = caps();
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->addr_format = options.linked ? FI_FORMAT_UNSPEC : FI_SOCKADDR_IN;
	hints->ep_attr->type = options.msg ? FI_EP_MSG : options.dgram ? FI_EP_DGRAM : FI_EP_RDM;
	hints->domain_attr->mr_mode = options.basic ? FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY : 0;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = orders();
	hints->tx_attr->op_flags = options.delivery ? FI_DELIVERY_COMPLETE : 0;
	hints->fabric_attr->prov_name = strdup(options.provider);
	if (dest) {
		hints->dest_addr = malloc(dest_len);
		CHECK(hints->dest_addr);
		memcpy(hints->dest_addr, dest, dest_len);
		hints->dest_addrlen = dest_len;
	}
	if (options.linked)
		OK(fi_getinfo(API, NULL, NULL, 0, hints, &info));
	else
		OK(fi_getinfo(API, dest ? NULL : "127.0.0.1", port, dest ? 0 : FI_SOURCE, hints, &info));
	fi_freeinfo(hints);
	return info;
}

struct fi_info *info_towards(struct link *link)
{
	return info_for(NULL, link->peer_name, link->peer_name_len);
}

static void open_cq(struct link *link)
{
	struct fi_cq_attr attr = {
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = options.waits ? FI_WAIT_UNSPEC : FI_WAIT_NONE,
	};

	OK(fi_cq_open(link->domain, &attr, &link->cq, NULL));
}

void open_domain(struct link *link)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	link->info = info_for(options.port, NULL, 0);
	OK(fi_fabric(link->info->fabric_attr, &link->fabric, NULL));
	OK(fi_domain(link->fabric, link->info, &link->domain, NULL));
	OK(fi_eq_open(link->fabric, &attr, &link->eq, NULL));
}

static void close_domain(struct link *link)
{
	OK(fi_close(&link->eq->fid));
	OK(fi_close(&link->domain->fid));
	OK(fi_close(&link->fabric->fid));
	fi_freeinfo(link->info);
}

// ---- Endpoints without connections

void open_rdm(struct link *link)
{
	struct fi_av_attr attr = { .type = FI_AV_UNSPEC };

	open_cq(link);
	OK(fi_av_open(link->domain, &attr, &link->av, NULL));
	OK(fi_endpoint(link->domain, link->info, &link->ep, NULL));
	OK(fi_ep_bind(link->ep, &link->cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(link->ep, &link->av->fid, 0));
	OK(fi_enable(link->ep));
	link->name_len = sizeof(link->name);
	OK(fi_getname(&link->ep->fid, link->name, &link->name_len));
}

void close_rdm(struct link *link)
{
	OK(fi_close(&link->ep->fid));
	OK(fi_close(&link->av->fid));
	OK(fi_close(&link->cq->fid));
	link->cq = NULL;
	link->remote_count = 0;
}

void insert_peer(struct link *link)
{
	CHECK_EQ(fi_av_insert(link->av, link->peer_name, 1, &link->peer, 0, NULL), 1);
}

// ---- Connected endpoints

void listen_msg(struct link *link)
{
	OK(fi_passive_ep(link->fabric, link->info, &link->pep, NULL));
	OK(fi_pep_bind(link->pep, &link->eq->fid, 0));
	OK(fi_listen(link->pep));
	link->name_len = sizeof(link->name);
	OK(fi_getname(&link->pep->fid, link->name, &link->name_len));
}

void open_msg(struct link *link, struct fi_info *info)
{
	open_cq(link);
	OK(fi_endpoint(link->domain, info, &link->ep, NULL));
	OK(fi_ep_bind(link->ep, &link->eq->fid, 0));
	OK(fi_ep_bind(link->ep, &link->cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(link->ep));
	link->peer = FI_ADDR_UNSPEC;
}

void close_msg(struct link *link)
{
	OK(fi_close(&link->ep->fid));
	OK(fi_close(&link->cq->fid));
	link->cq = NULL;
	link->remote_count = 0;
}

size_t wait_event(struct link *link, uint32_t event, struct fi_eq_cm_entry *entry, uint8_t *data)
{
	struct {
		struct fi_eq_cm_entry entry;
		uint8_t data[512];
	} room;
	uint32_t got;
	ssize_t rc;

	while ((rc = fi_eq_sread(link->eq, &got, &room, sizeof(room), 100, 0)) == -FI_EAGAIN)
		;
	if (rc == -FI_EAVAIL) {
		struct fi_eq_err_entry err = { 0 };

		CHECK(fi_eq_readerr(link->eq, &err, 0) > 0);
		FAIL("an error event, %s, instead of event %u", fi_strerror(err.err), event);
	}
	CHECK(rc >= (ssize_t) sizeof(room.entry));
	CHECK_EQ(got, event);
	*entry = room.entry;
	rc -= sizeof(room.entry);
	if (data)
		memcpy(data, room.data, (size_t) rc);
	return (size_t) rc;
}

struct fi_eq_err_entry wait_refused(struct link *link, uint8_t *data)
{
	struct fi_eq_err_entry err = { .err_data = data, .err_data_size = data ? 256 : 0 };
	struct fi_eq_cm_entry entry;
	uint32_t got;
	ssize_t rc;

	while ((rc = fi_eq_sread(link->eq, &got, &entry, sizeof(entry), 100, 0)) == -FI_EAGAIN)
		;
	if (rc != -FI_EAVAIL)
		FAIL("event %u instead of an error", got);
	CHECK(fi_eq_readerr(link->eq, &err, 0) > 0);
	return err;
}

void connect_msg(struct link *link)
{
	struct fi_info *info = info_towards(link);
	struct fi_eq_cm_entry entry;

	open_msg(link, info);
	OK(fi_connect(link->ep, link->peer_name, NULL, 0));
	wait_event(link, FI_CONNECTED, &entry, NULL);
	CHECK(entry.fid == &link->ep->fid);
	fi_freeinfo(info);
}

void accept_msg(struct link *link)
{
	struct fi_eq_cm_entry entry;

	wait_event(link, FI_CONNREQ, &entry, NULL);
	open_msg(link, entry.info);
	fi_freeinfo(entry.info);
	OK(fi_accept(link->ep, NULL, 0));
	wait_event(link, FI_CONNECTED, &entry, NULL);
	CHECK(entry.fid == &link->ep->fid);
}

// ---- Both

void open_link(struct link *link)
{
	open_domain(link);
	if (options.msg && options.server) {
		listen_msg(link);
		say_bytes(link->name, link->name_len);
		accept_msg(link);
	} else if (options.msg) {
		link->peer_name_len = hear_bytes(link, link->peer_name, sizeof(link->peer_name));
		connect_msg(link);
	} else {
		open_rdm(link);
		say_bytes(link->name, link->name_len);
		link->peer_name_len = hear_bytes(link, link->peer_name, sizeof(link->peer_name));
		insert_peer(link);
	}
}

void close_link(struct link *link)
{
	nothing_more(link);
	meet(link, "the end");
	if (options.msg)
		close_msg(link);
	else
		close_rdm(link);
	if (link->pep)
		OK(fi_close(&link->pep->fid));
	close_domain(link);
}

// ---- Completions

static void take_error(struct link *link)
{
	struct fi_cq_err_entry err = { 0 };
	struct op *op;

	CHECK_EQ(fi_cq_readerr(link->cq, &err, 0), 1);
	op = err.op_context;
	if (!op)
		FAIL("an error entry without an operation: %s, flags %#llx", fi_strerror(err.err), (unsigned long long) err.flags);
	if (op->done)
		FAIL("an operation ends twice: %s, flags %#llx", fi_strerror(err.err), (unsigned long long) err.flags);
	CHECK(err.err > 0);
	op->err = err.err;
	op->done = true;
}

static bool read_entry(struct link *link, bool may_sleep, struct fi_cq_tagged_entry *entry)
{
	static unsigned empty;
	ssize_t rc = may_sleep && options.waits ? fi_cq_sread(link->cq, entry, 1, NULL, 50) : fi_cq_read(link->cq, entry, 1);

	if (rc == 1)
		return true;
	if (rc == -FI_EAVAIL)
		take_error(link);
	else if (rc != -FI_EAGAIN)
		FAIL("reading the completion queue: %s", fi_strerror((int) -rc));
	if (++empty % 16 == 0)
		sched_yield();
	return false;
}

static bool take_entry(struct link *link, bool may_sleep)
{
	struct fi_cq_tagged_entry entry;
	struct op *op;

	if (!read_entry(link, may_sleep, &entry))
		return false;
	if (entry.flags & FI_REMOTE_WRITE) {
		CHECK(link->remote_count < MAX_REMOTE);
		link->remote[link->remote_count++] = entry;
		return true;
	}
	op = entry.op_context;
	if (!op || op->done)
		FAIL("%s: flags %#llx, length %zu", op ? "an operation ends twice" : "an entry without an operation",
		     (unsigned long long) entry.flags, entry.len);
	op->entry = entry;
	op->done = true;
	return true;
}

bool progress(struct link *link)
{
	return take_entry(link, false);
}

struct fi_cq_tagged_entry next_entry(struct link *link)
{
	struct fi_cq_tagged_entry entry;

	while (!read_entry(link, true, &entry))
		;
	return entry;
}

void wait_end(struct link *link, struct op *op)
{
	while (!op->done)
		take_entry(link, true);
}

void wait_op(struct link *link, struct op *op)
{
	wait_end(link, op);
	if (op->err)
		FAIL("an operation failed: %s", fi_strerror(op->err));
}

struct fi_cq_tagged_entry wait_remote(struct link *link)
{
	struct fi_cq_tagged_entry entry;

	while (!link->remote_count)
		take_entry(link, true);
	entry = link->remote[0];
	memmove(link->remote, link->remote + 1, --link->remote_count * sizeof(entry));
	return entry;
}

void nothing_more(struct link *link)
{
	struct fi_cq_tagged_entry entry;

	for (unsigned i = 0; i < 10; i++)
		if (read_entry(link, false, &entry))
			FAIL("an entry that nobody waits for: flags %#llx, length %zu", (unsigned long long) entry.flags, entry.len);
}

// ---- Plain calls

bool try_send(struct link *link, const void *mem, size_t len, uint64_t tag, struct op *op)
{
	ssize_t rc = options.tagged ? fi_tsend(link->ep, mem, len, NULL, link->peer, tag, op)
				    : fi_send(link->ep, mem, len, NULL, link->peer, op);

	if (rc == -FI_ESHUTDOWN) { // refused because the connection has ended: counts as an operation with an error
		*op = (struct op){ .done = true, .err = FI_ESHUTDOWN };
		return true;
	}
	if (rc && rc != -FI_EAGAIN)
		FAIL("a send of %zu bytes: %s", len, fi_strerror((int) -rc));
	return !rc;
}

void post_send(struct link *link, const void *mem, size_t len, uint64_t tag, struct op *op)
{
	*op = (struct op){ 0 };
	while (!try_send(link, mem, len, tag, op))
		progress(link);
}

void post_recv(struct link *link, void *mem, size_t len, uint64_t tag, struct op *op)
{
	*op = (struct op){ 0 };
	if (options.tagged)
		POST(link, fi_trecv(link->ep, mem, len, NULL, FI_ADDR_UNSPEC, tag, 0, op));
	else
		POST(link, fi_recv(link->ep, mem, len, NULL, FI_ADDR_UNSPEC, op));
}
