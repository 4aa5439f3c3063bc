// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_peer(3): queues of another provider. The test is their owner, the provider under test its peer.
#include "transfer.h"

#include <rdma/providers/fi_peer.h>

enum { MOST = 64, LARGE = 1 << 20 };

// The owner's completion queue.
struct owned_cq {
	struct fid_peer_cq peer;
	struct fid_cq *cq; // the queue that the peer has opened
	struct fi_cq_tagged_entry good[MOST];
	fi_addr_t src[MOST];
	struct fi_cq_err_entry bad[MOST];
	unsigned goods, bads;
};

// The owner's receive context: entries are posted receives or unexpected messages.
struct owned_srx {
	struct fid_peer_srx peer;
	struct fid_ep *ep; // the context that the peer has opened
	struct owned_cq *cq;
	struct owned_entry {
		struct fi_peer_rx_entry entry;
		struct iovec iov;
		enum { UNUSED, POSTED, QUEUED, TAKEN, FREED } state;
		bool tagged;
		unsigned completed; // number of completions when the entry was freed
	} all[MOST];
	unsigned gets, queued, freed, asked;
	int refuse; // the result of `get` without an entry, unless 0
};

static ssize_t cq_write(struct fid_peer_cq *peer, void *context, uint64_t flags, size_t len, void *buf, uint64_t data,
			uint64_t tag, fi_addr_t src)
{
	struct owned_cq *own = (struct owned_cq *)peer;

	CHECK(own->goods < MOST);
	// Beyond the page: callbacks are made without a lock held, so this call returns. It reads nothing.
	if (is_ours())
		CHECK_EQ(fi_cq_read(own->cq, NULL, 0), 0);
	own->src[own->goods] = src;
	own->good[own->goods++] = (struct fi_cq_tagged_entry){ context, flags, len, buf, data, tag };
	return 0;
}

static ssize_t cq_writeerr(struct fid_peer_cq *peer, const struct fi_cq_err_entry *entry)
{
	struct owned_cq *own = (struct owned_cq *)peer;

	CHECK(own->bads < MOST);
	own->bad[own->bads++] = *entry;
	return 0;
}

static struct fi_ops_cq_owner cq_ops = { .size = sizeof(cq_ops), .write = cq_write, .writeerr = cq_writeerr };

static void import_cq(struct env *t, struct owned_cq *own)
{
	struct fi_peer_cq_context context = { sizeof(context), &own->peer };
	struct fi_cq_attr attr = { .flags = FI_PEER, .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE };

	memset(own, 0, sizeof(*own));
	own->peer.fid.fclass = FI_CLASS_PEER_CQ;
	own->peer.owner_ops = &cq_ops;
	OK_OR_SKIP(fi_cq_open(t->domain, &attr, &own->cq, &context));
	keep(t, &own->cq->fid);
	memset(&context, 0xff, sizeof(context));
}

// The owner's counter.
struct owned_cntr {
	struct fid_peer_cntr peer;
	struct fid_cntr *cntr; // the counter that the peer has opened
	unsigned goods, bads;
};

static void inc(struct fid_peer_cntr *peer)
{
	((struct owned_cntr *)peer)->goods++;
}

static void inc_err(struct fid_peer_cntr *peer)
{
	((struct owned_cntr *)peer)->bads++;
}

static struct fi_ops_cntr_owner cntr_ops = { .size = sizeof(cntr_ops), .inc = inc, .incerr = inc_err };

static void import_cntr(struct env *t, struct owned_cntr *own)
{
	struct fi_peer_cntr_context context = { sizeof(context), &own->peer };
	struct fi_cntr_attr attr = { .flags = FI_PEER, .events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE };

	memset(own, 0, sizeof(*own));
	own->peer.fid.fclass = FI_CLASS_PEER_CNTR;
	own->peer.owner_ops = &cntr_ops;
	OK_OR_SKIP(fi_cntr_open(t->domain, &attr, &own->cntr, &context));
	keep(t, &own->cntr->fid);
	memset(&context, 0xff, sizeof(context));
}

static int get(struct fid_peer_srx *peer, struct fi_peer_match_attr *attr, struct fi_peer_rx_entry **out, bool tagged)
{
	struct owned_srx *own = (struct owned_srx *)peer;
	struct owned_entry *found = NULL;

	own->gets++;
	if (own->refuse)
		return own->refuse;
	for (unsigned i = 0; i < MOST && !found; i++)
		if (own->all[i].state == POSTED && own->all[i].tagged == tagged &&
		    (!tagged || own->all[i].entry.tag == attr->tag))
			found = &own->all[i];
	if (found) {
		found->state = TAKEN;
	} else {
		for (unsigned i = 0; i < MOST && !found; i++)
			if (own->all[i].state == UNUSED)
				found = &own->all[i];
		CHECK(found);
		found->tagged = tagged;
		found->entry.tag = attr->tag;
	}
	found->entry.srx = peer;
	found->entry.addr = attr->addr;
	found->entry.msg_size = attr->msg_size;
	found->entry.flags |= FI_RECV | (tagged ? FI_TAGGED : FI_MSG);
	*out = &found->entry;
	return found->state == TAKEN ? 0 : -FI_ENOENT;
}

static int get_msg(struct fid_peer_srx *peer, struct fi_peer_match_attr *attr, struct fi_peer_rx_entry **out)
{
	return get(peer, attr, out, false);
}

static int get_tag(struct fid_peer_srx *peer, struct fi_peer_match_attr *attr, struct fi_peer_rx_entry **out)
{
	return get(peer, attr, out, true);
}

static int queue_any(struct fi_peer_rx_entry *entry)
{
	struct owned_srx *own = (struct owned_srx *)entry->srx;
	struct owned_entry *it = (struct owned_entry *)entry;

	CHECK_EQ(it->state, UNUSED);
	it->state = QUEUED;
	own->queued++;
	return 0;
}

static void free_entry(struct fi_peer_rx_entry *entry)
{
	struct owned_srx *own = (struct owned_srx *)entry->srx;
	struct owned_entry *it = (struct owned_entry *)entry;

	CHECK(it->state == TAKEN || it->state == QUEUED);
	it->state = FREED;
	it->completed = own->cq ? own->cq->goods + own->cq->bads : 0;
	own->freed++;
}

static void each_unknown(struct fid_peer_srx *peer, fi_addr_t (*get_addr)(struct fi_peer_rx_entry *))
{
	struct owned_srx *own = (struct owned_srx *)peer;

	own->asked++;
	for (unsigned i = 0; i < MOST; i++)
		if (own->all[i].state == QUEUED && own->all[i].entry.addr == FI_ADDR_UNSPEC)
			own->all[i].entry.addr = get_addr(&own->all[i].entry);
}

static struct fi_ops_srx_owner srx_ops = {
	.size = sizeof(srx_ops),
	.get_msg = get_msg,
	.get_tag = get_tag,
	.queue_msg = queue_any,
	.queue_tag = queue_any,
	.foreach_unspec_addr = each_unknown,
	.free_entry = free_entry,
};

static void import_srx(struct env *t, struct owned_srx *own, struct owned_cq *cq)
{
	struct fi_peer_srx_context context = { sizeof(context), &own->peer };
	struct fi_rx_attr attr = *t->info->rx_attr;

	memset(own, 0, sizeof(*own));
	own->cq = cq;
	own->peer.ep_fid.fid.fclass = FI_CLASS_PEER_SRX;
	own->peer.owner_ops = &srx_ops;
	attr.op_flags |= FI_PEER;
	OK_OR_SKIP(fi_srx_context(t->domain, &attr, &own->ep, (void *)&context));
	keep(t, &own->ep->fid);
	memset(&context, 0xff, sizeof(context));
	CHECK(own->peer.peer_ops);
	CHECK(own->peer.peer_ops->size >= sizeof(struct fi_ops_srx_peer));
}

// Posts a receive of the application, which takes an unexpected or a later message.
static struct owned_entry *own_recv(struct owned_srx *own, void *buf, size_t len, uint64_t tag, bool tagged, void *context)
{
	struct owned_entry *it = NULL;
	bool start = false;

	for (unsigned i = 0; i < MOST && !it; i++)
		if (own->all[i].state == QUEUED && own->all[i].tagged == tagged && (!tagged || own->all[i].entry.tag == tag))
			it = &own->all[i], start = true;
	for (unsigned i = 0; i < MOST && !it; i++)
		if (own->all[i].state == UNUSED)
			it = &own->all[i];
	CHECK(it);
	it->tagged = tagged;
	it->iov = (struct iovec){ buf, len };
	it->entry.iov = &it->iov;
	it->entry.count = 1;
	it->entry.context = context;
	it->entry.tag = tag;
	it->entry.flags |= FI_COMPLETION;
	it->state = start ? TAKEN : POSTED;
	if (start)
		OK(tagged ? own->peer.peer_ops->start_tag(&it->entry) : own->peer.peer_ops->start_msg(&it->entry));
	return it;
}

// An endpoint of the peer that reports to `cq` and receives at `srx`, and an ordinary one that communicates with it.
static struct owned_cq cq;
static struct owned_srx srx;
static struct owned_cntr cntr;
static struct fid_ep *ep;
static struct fid_av *av;
static struct fi_context2 contexts[MOST];
static char name[ADDR_ROOM];

static void drive(struct env *t)
{
	progress(t);
	CHECK_EQ(fi_cq_read(cq.cq, NULL, 0), 0);
}

#define DRIVE(T, COND) ONCE(T, (drive(T), (COND)))

// Objects of the owner besides the completion queue.
enum owned { QUEUE, RECEIVES, COUNTS };

static void open_peer(struct env *t, enum owned owned, bool knows)
{
	size_t len = sizeof(name);
	fi_addr_t addr;

	if (t->info->domain_attr->mr_mode & FI_MR_LOCAL)
		SKIP("buffers are to be registered");
	open_domain(t);
	import_cq(t, &cq);
	if (owned == RECEIVES)
		import_srx(t, &srx, &cq);
	if (owned == COUNTS)
		import_cntr(t, &cntr);
	av = open_av(t, FI_AV_TABLE);
	ep = open_ep(t, t->info);
	OK(fi_ep_bind(ep, &av->fid, 0));
	OK(fi_ep_bind(ep, &cq.cq->fid, FI_TRANSMIT | FI_RECV));
	if (owned == RECEIVES)
		OK(fi_ep_bind(ep, &srx.ep->fid, 0));
	if (owned == COUNTS)
		OK(fi_ep_bind(ep, &cntr.cntr->fid, FI_SEND | FI_RECV));
	OK(fi_enable(ep));
	t->a.ep = open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	OK(fi_getname(&ep->fid, name, &len));
	CHECK_EQ(fi_av_insert(t->a.av, name, 1, &t->a.peer, 0, NULL), 1);
	len = sizeof(name);
	OK(fi_getname(&t->a.ep->fid, name, &len));
	if (knows)
		CHECK_EQ(fi_av_insert(av, name, 1, &addr, 0, NULL), 1);
}

static char *bytes(struct env *t, size_t len, unsigned seed)
{
	return (char *)new_buf(t, len, seed).mem;
}

#define DRIVEN_POST(T, CALL)                                                                                           \
	do {                                                                                                           \
		ssize_t rc_ = -FI_EAGAIN;                                                                              \
		DRIVE(T, (rc_ = (CALL)) != -FI_EAGAIN);                                                                \
		CHECK_RC(rc_, 0);                                                                                      \
	} while (0)

static void send_tagged(struct env *t, void *buf, size_t len, uint64_t tag)
{
	DRIVEN_POST(t, fi_tsend(t->a.ep, buf, len, NULL, t->a.peer, tag, &contexts[MOST - 1]));
}

// Checks that the application's receive was completed and its entry returned, in this order.
static void check_received(struct env *t, struct owned_entry *it, void *context, const void *buf, size_t len)
{
	struct fi_cq_tagged_entry *good;
	unsigned at;

	DRIVE(t, it->state == FREED);
	CHECK(it->completed > 0);
	for (at = it->completed - 1; at > 0 && cq.good[at].op_context != context;)
		at--;
	good = &cq.good[at];
	CHECK(good->op_context == context);
	CHECK_EQ(good->len, len);
	CHECK(good->buf == buf);
	CHECK_EQ(good->flags & (FI_RECV | FI_MSG | FI_TAGGED), FI_RECV | (it->tagged ? FI_TAGGED : FI_MSG));
	CHECK_EQ(cq.src[at], it->entry.addr);
}

TEST(fi_peer, objects_of_others, EP_RELIABLE, FI_MSG, "Vectors, event queues and domains whose owner is another provider are refused with -FI_EINVAL, queues and counters to sleep on with -FI_ENOSYS")
{
	struct fi_cq_attr cq_attr = { .flags = FI_PEER, .wait_obj = FI_WAIT_FD };
	struct fi_cntr_attr cntr_attr = { .flags = FI_PEER, .wait_obj = FI_WAIT_FD };
	struct fi_eq_attr eq_attr = { .flags = FI_PEER };
	struct owned_cntr counts = { .peer.owner_ops = &cntr_ops };
	struct fi_peer_cntr_context counter = { sizeof(counter), &counts.peer };
	struct fi_av_attr av_attr = { .flags = FI_PEER, .type = FI_AV_TABLE };
	struct owned_cq own = { .peer.owner_ops = &cq_ops };
	struct fi_peer_cq_context context = { sizeof(context), &own.peer };
	struct fid_domain *domain;
	struct fid_cntr *opened;
	struct fid_cq *queue;
	struct fid_av *vector;
	struct fid_eq *events;

	open_domain(t);
	CHECK_RC(fi_cq_open(t->domain, &cq_attr, &queue, &context), -FI_ENOSYS);
	CHECK_RC(fi_cntr_open(t->domain, &cntr_attr, &opened, &counter), -FI_ENOSYS);
	CHECK_RC(fi_eq_open(t->fabric, &eq_attr, &events, NULL), -FI_EINVAL);
	CHECK_RC(fi_domain2(t->fabric, t->info, &domain, FI_PEER, NULL), -FI_EINVAL);
	if (t->type == FI_EP_RDM)
		CHECK_RC(fi_av_open(t->domain, &av_attr, &vector, NULL), -FI_EINVAL);
}

TEST(fi_peer, incomplete_structs, EP_RELIABLE, FI_MSG, "Structs of an owner that are missing, too short, or without functions are refused with -FI_EINVAL")
{
	struct fi_cq_attr cq_attr = { .flags = FI_PEER, .wait_obj = FI_WAIT_NONE };
	struct fi_rx_attr rx_attr = *t->info->rx_attr;
	struct fi_ops_cq_owner few = cq_ops;
	struct fi_ops_srx_owner none = srx_ops;
	struct owned_cq own = { .peer.owner_ops = &cq_ops };
	struct owned_srx other = { .peer.owner_ops = &srx_ops };
	struct fi_peer_cq_context context = { sizeof(context), NULL };
	struct fi_peer_srx_context srx_context = { sizeof(srx_context), NULL };
	struct fi_cntr_attr cntr_attr = { .flags = FI_PEER, .wait_obj = FI_WAIT_NONE };
	struct fi_ops_cntr_owner other_ops = cntr_ops;
	struct owned_cntr counts = { .peer.owner_ops = &other_ops };
	struct fi_peer_cntr_context counter = { sizeof(counter), NULL };
	struct fid_cntr *opened;
	struct fid_cq *queue;
	struct fid_ep *rx;

	open_domain(t);
	CHECK_RC(fi_cntr_open(t->domain, &cntr_attr, &opened, NULL), -FI_EINVAL);
	CHECK_RC(fi_cntr_open(t->domain, &cntr_attr, &opened, &counter), -FI_EINVAL);
	counter.cntr = &counts.peer;
	counter.size--;
	CHECK_RC(fi_cntr_open(t->domain, &cntr_attr, &opened, &counter), -FI_EINVAL);
	counter.size++;
	other_ops.size--;
	CHECK_RC(fi_cntr_open(t->domain, &cntr_attr, &opened, &counter), -FI_EINVAL);
	other_ops.size++;
	other_ops.incerr = NULL;
	CHECK_RC(fi_cntr_open(t->domain, &cntr_attr, &opened, &counter), -FI_EINVAL);
	rx_attr.op_flags |= FI_PEER;
	CHECK_RC(fi_cq_open(t->domain, &cq_attr, &queue, NULL), -FI_EINVAL);
	CHECK_RC(fi_cq_open(t->domain, &cq_attr, &queue, &context), -FI_EINVAL);
	context.cq = &own.peer;
	context.size--;
	CHECK_RC(fi_cq_open(t->domain, &cq_attr, &queue, &context), -FI_EINVAL);
	context.size++;
	own.peer.owner_ops = &few;
	few.size--;
	CHECK_RC(fi_cq_open(t->domain, &cq_attr, &queue, &context), -FI_EINVAL);
	few.size++;
	few.write = NULL;
	CHECK_RC(fi_cq_open(t->domain, &cq_attr, &queue, &context), -FI_EINVAL);
	CHECK_RC(fi_srx_context(t->domain, &rx_attr, &rx, NULL), -FI_EINVAL);
	CHECK_RC(fi_srx_context(t->domain, &rx_attr, &rx, &srx_context), -FI_EINVAL);
	srx_context.srx = &other.peer;
	other.peer.owner_ops = &none;
	none.free_entry = NULL;
	CHECK_RC(fi_srx_context(t->domain, &rx_attr, &rx, &srx_context), -FI_EINVAL);
	CHECK(!other.peer.peer_ops);
}

TEST(fi_peer, cq_gets_completions, EP_RDM, FI_MSG | FI_TAGGED, "Completions of a peer's operations are written to the owner's queue; the peer's own only drives progress")
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { 0 };
	char *in = bytes(t, 100, 0), *out = bytes(t, 100, 1);

	open_peer(t, QUEUE, true);
	CHECK_RC(fi_cq_readfrom(cq.cq, &entry, 1, NULL), -FI_ENOSYS);
	CHECK_RC(fi_cq_readerr(cq.cq, &err, 0), -FI_ENOSYS);
	CHECK_RC(fi_cq_sread(cq.cq, &entry, 1, NULL, 0), -FI_ENOSYS);
	DRIVEN_POST(t, fi_trecv(ep, in, 100, NULL, FI_ADDR_UNSPEC, 7, 0, &contexts[0]));
	send_tagged(t, out, 100, 7);
	DRIVE(t, cq.goods == 1);
	CHECK(cq.good[0].op_context == &contexts[0]);
	CHECK_EQ(cq.good[0].tag, 7);
	CHECK_EQ(cq.good[0].len, 100);
	CHECK_EQ(cq.src[0], 0);
	CHECK(!memcmp(in, out, 100));
	DRIVEN_POST(t, fi_recv(t->a.ep, in, 100, NULL, FI_ADDR_UNSPEC, &contexts[1]));
	DRIVEN_POST(t, fi_send(ep, out, 100, NULL, 0, &contexts[2]));
	DRIVE(t, cq.goods == 2);
	CHECK(cq.good[1].op_context == &contexts[2]);
	CHECK_EQ(cq.good[1].flags & (FI_SEND | FI_MSG), FI_SEND | FI_MSG);
	CHECK_EQ(cq.src[1], FI_ADDR_NOTAVAIL);
	DRIVEN_POST(t, fi_trecv(ep, in, 100, NULL, FI_ADDR_UNSPEC, 8, 0, &contexts[3]));
	OK(fi_cancel(&ep->fid, &contexts[3]));
	DRIVE(t, cq.bads == 1);
	CHECK(cq.bad[0].op_context == &contexts[3]);
	CHECK_EQ(cq.bad[0].err, FI_ECANCELED);
}

TEST(fi_peer, cntr_counts_at_owner, EP_RDM, FI_MSG | FI_TAGGED, "A peer's operations count at the owner's counter; the peer's own only drives progress")
{
	char *in = bytes(t, 100, 0), *out = bytes(t, 100, 1);

	open_peer(t, COUNTS, true);
	CHECK_RC(fi_cntr_add(cntr.cntr, 1), -FI_ENOSYS);
	CHECK_RC(fi_cntr_adderr(cntr.cntr, 1), -FI_ENOSYS);
	CHECK_RC(fi_cntr_set(cntr.cntr, 1), -FI_ENOSYS);
	CHECK_RC(fi_cntr_seterr(cntr.cntr, 1), -FI_ENOSYS);
	CHECK_RC(fi_cntr_wait(cntr.cntr, 1, 0), -FI_ENOSYS);
	CHECK_EQ(fi_cntr_read(cntr.cntr), 0);
	CHECK_EQ(cntr.goods, 0);
	DRIVEN_POST(t, fi_trecv(ep, in, 100, NULL, FI_ADDR_UNSPEC, 7, 0, &contexts[0]));
	send_tagged(t, out, 100, 7);
	// Only reads of the counter make progress here.
	ONCE(t, (fi_cntr_read(cntr.cntr), fi_cq_read(t->a.txcq, NULL, 0), cntr.goods == 1));
	CHECK_EQ(fi_cntr_read(cntr.cntr), 0);
	CHECK(!memcmp(in, out, 100));
	DRIVEN_POST(t, fi_recv(t->a.ep, in, 100, NULL, FI_ADDR_UNSPEC, &contexts[1]));
	DRIVEN_POST(t, fi_send(ep, out, 100, NULL, 0, &contexts[2]));
	DRIVE(t, cntr.goods == 2);
	DRIVEN_POST(t, fi_trecv(ep, in, 100, NULL, FI_ADDR_UNSPEC, 8, 0, &contexts[3]));
	OK(fi_cancel(&ep->fid, &contexts[3]));
	DRIVE(t, cntr.bads == 1);
	CHECK_EQ(cntr.goods, 2);
	CHECK_EQ(fi_cntr_readerr(cntr.cntr), 0);
}

static void meet(struct env *t, size_t len, bool first)
{
	char *in = bytes(t, len, 0), *out = bytes(t, len, 3);
	struct owned_entry *it;
	unsigned queued = srx.queued;

	if (first)
		it = own_recv(&srx, in, len, 5, true, &contexts[0]);
	send_tagged(t, out, len, 5);
	if (!first) {
		DRIVE(t, srx.queued == queued + 1);
		it = own_recv(&srx, in, len, 5, true, &contexts[0]);
	}
	check_received(t, it, &contexts[0], in, len);
	CHECK_EQ(it->entry.msg_size, len);
	CHECK_EQ(it->entry.addr, 0);
	CHECK(!memcmp(in, out, len));
}

TEST(fi_peer, srx_meets_messages, EP_RDM, FI_MSG | FI_TAGGED, "Messages go to receives of the owner, whichever comes first: get, queue, start, completion, free_entry")
{
	static const size_t sizes[] = { 0, 8, 3000, 70000, LARGE };
	char *in;

	open_peer(t, RECEIVES, true);
	in = bytes(t, 8, 0);
	CHECK_RC(fi_trecv(ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), -FI_ENOSYS);
	CHECK_RC(fi_trecv(srx.ep, in, 8, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), -FI_ENOSYS);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		meet(t, sizes[i], true);
		meet(t, sizes[i], false);
	}
	CHECK_EQ(srx.gets, 10);
	CHECK_EQ(srx.queued, 5);
	CHECK_EQ(srx.freed, 10);
	CHECK_EQ(cq.bads, 0);
}

TEST(fi_peer, srx_keeps_order, EP_RDM, FI_MSG, "The owner is asked for messages in their order, and again when it could not answer; they bring their data")
{
	char *in[8], *out[8];
	struct owned_entry *it[8];

	open_peer(t, RECEIVES, true);
	srx.refuse = -FI_ENOMEM;
	for (unsigned i = 0; i < 8; i++) {
		out[i] = bytes(t, 40, i + 1);
		in[i] = bytes(t, 40, 0);
		DRIVEN_POST(t, fi_senddata(t->a.ep, out[i], 40, NULL, 90 + i, t->a.peer, &contexts[i]));
	}
	DRIVE(t, srx.gets > 1);
	CHECK_EQ(srx.queued, 0);
	srx.refuse = 0;
	for (unsigned i = 0; i < 4; i++)
		it[i] = own_recv(&srx, in[i], 40, 0, false, &contexts[10 + i]);
	DRIVE(t, srx.queued == 4);
	for (unsigned i = 4; i < 8; i++) {
		CHECK_EQ(srx.all[i].entry.cq_data, 90 + i);
		CHECK(srx.all[i].entry.flags & FI_REMOTE_CQ_DATA);
		it[i] = own_recv(&srx, in[i], 40, 0, false, &contexts[10 + i]);
		CHECK(it[i] == &srx.all[i]);
	}
	for (unsigned i = 0; i < 8; i++) {
		check_received(t, it[i], &contexts[10 + i], in[i], 40);
		CHECK(cq.good[i].op_context == &contexts[10 + i]);
		CHECK_EQ(cq.good[i].data, 90 + i);
		CHECK(cq.good[i].flags & FI_REMOTE_CQ_DATA);
		CHECK(!memcmp(in[i], out[i], 40));
	}
}

TEST(fi_peer, srx_truncates, EP_RDM, FI_MSG | FI_TAGGED, "A message that is longer than the owner's receive is an error of its queue, and the entry is given back")
{
	char *in = bytes(t, 100, 0), *out = bytes(t, 100, 3);
	struct owned_entry *it;

	open_peer(t, RECEIVES, true);
	it = own_recv(&srx, in, 60, 5, true, &contexts[0]);
	send_tagged(t, out, 100, 5);
	DRIVE(t, it->state == FREED);
	CHECK_EQ(cq.goods, 0);
	CHECK_EQ(cq.bads, 1);
	CHECK_EQ(cq.bad[0].err, FI_ETRUNC);
	CHECK(cq.bad[0].op_context == &contexts[0]);
	CHECK(!memcmp(in, out, 60));
	CHECK_EQ(in[60], in[99]);
}

TEST(fi_peer, srx_discards, EP_RDM, FI_MSG | FI_TAGGED, "A message that the owner discards completes at its sender alone, and its entry is left to the owner")
{
	static const size_t sizes[] = { 8, LARGE };
	struct fi_cq_tagged_entry entry;
	char *out = bytes(t, LARGE, 3);

	open_peer(t, RECEIVES, true);
	for (unsigned i = 0; i < 2; i++) {
		send_tagged(t, out, sizes[i], 5);
		DRIVE(t, srx.queued == i + 1);
		srx.all[i].state = TAKEN;
		OK(srx.peer.peer_ops->discard_tag(&srx.all[i].entry));
		// Beyond the page: a finished entry is invalid.
		if (is_ours()) {
			CHECK(srx.peer.peer_ops->discard_tag(&srx.all[i].entry) < 0);
			CHECK(srx.peer.peer_ops->start_tag(&srx.all[i].entry) < 0);
		}
		DRIVE(t, fi_cq_read(t->a.txcq, &entry, 1) == 1);
	}
	turn(t);
	CHECK_EQ(cq.goods + cq.bads, 0);
	CHECK_EQ(srx.freed, 0);
	meet(t, 8, false);
}

TEST(fi_peer, srx_learns_addresses, EP_RDM, FI_MSG | FI_TAGGED, "When an address is inserted, the owner learns which messages it keeps are from there")
{
	char *in = bytes(t, 100, 0), *out = bytes(t, 100, 3);
	struct owned_entry *it;
	fi_addr_t addr = 77;
	unsigned asked;

	open_peer(t, RECEIVES, false);
	send_tagged(t, out, 100, 5);
	DRIVE(t, srx.queued == 1);
	CHECK_EQ(srx.all[0].entry.addr, FI_ADDR_UNSPEC);
	asked = srx.asked;
	CHECK_EQ(fi_av_insert(av, name, 1, &addr, 0, NULL), 1);
	CHECK_EQ(srx.asked, asked + 1);
	CHECK_EQ(srx.all[0].entry.addr, addr);
	it = own_recv(&srx, in, 100, 5, true, &contexts[0]);
	check_received(t, it, &contexts[0], in, 100);
}

TEST(fi_peer, srx_close_gives_back, EP_RDM, FI_MSG | FI_TAGGED, "When the peer's endpoint closes, the entries of messages that the owner keeps are given back")
{
	char *out = bytes(t, LARGE, 3);

	open_peer(t, RECEIVES, true);
	send_tagged(t, out, 8, 5);
	send_tagged(t, out, LARGE, 6);
	send_tagged(t, out, 8, 7);
	DRIVE(t, srx.queued == 3);
	shut(t, &ep->fid);
	CHECK_EQ(srx.freed, 3);
	CHECK_EQ(cq.goods + cq.bads, 0);
	if (is_ours())
		CHECK(srx.peer.peer_ops->start_tag(&srx.all[0].entry) < 0);
}

TEST(fi_peer, srx_with_own_queue, EP_RDM, FI_MSG | FI_TAGGED, "Receives of an owner complete in the queue of the peer's own to which its endpoint is bound")
{
	char *in = bytes(t, 100, 0), *out = bytes(t, 100, 3);
	struct fi_cq_tagged_entry entry;
	struct owned_entry *it;

	if (t->info->domain_attr->mr_mode & FI_MR_LOCAL)
		SKIP("buffers are to be registered");
	t->hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	env_info(t);
	open_domain(t);
	import_srx(t, &srx, NULL);
	PAIR(t, .srx = srx.ep);
	it = own_recv(&srx, in, 100, 5, true, &contexts[0]);
	POST(t, fi_tsend(t->a.ep, out, 100, NULL, t->a.peer, 5, &contexts[1]));
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &contexts[0]);
	CHECK(!memcmp(in, out, 100));
	ONCE(t, it->state == FREED);
}
