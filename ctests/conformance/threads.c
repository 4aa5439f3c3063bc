// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_domain(3), FI_THREAD_SAFE: threads use one domain at the same time. Each message arrives once and undamaged. A
//! race detector finds further faults.
#include "harness.h"

#include <pthread.h>

static void ask_safe(struct env *t, enum fi_progress progress)
{
	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	t->hints->domain_attr->progress = progress;
	env_info(t);
}

// ---- Each thread with objects of its own

enum { OPENERS = 4, ROUNDS = 8, LEN = 64 };

struct end {
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_av *av;
	struct fid_mr *mr;
	char buf[LEN], name[ADDR_ROOM];
	struct fi_context2 ctx;
	fi_addr_t peer;
};

static void end_open(struct env *t, struct end *end)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cntr_attr cntr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	size_t len = sizeof(end->name);
	uint64_t key = __atomic_fetch_add(&t->next_key, 1, __ATOMIC_RELAXED);

	OK(fi_cq_open(t->domain, &cq, &end->cq, NULL));
	OK(fi_cntr_open(t->domain, &cntr, &end->cntr, NULL));
	OK(fi_av_open(t->domain, &av, &end->av, NULL));
	OK(fi_mr_reg(t->domain, end->buf, LEN, FI_SEND | FI_RECV, 0, key, 0, &end->mr, NULL));
	OK(fi_endpoint(t->domain, t->info, &end->ep, NULL));
	OK(fi_ep_bind(end->ep, &end->cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(end->ep, &end->cntr->fid, FI_SEND | FI_RECV));
	OK(fi_ep_bind(end->ep, &end->av->fid, 0));
	OK(fi_enable(end->ep));
	OK(fi_getname(&end->ep->fid, end->name, &len));
}

static void end_close(struct end *end)
{
	OK(fi_close(&end->ep->fid));
	OK(fi_close(&end->mr->fid));
	OK(fi_close(&end->av->fid));
	OK(fi_close(&end->cntr->fid));
	OK(fi_close(&end->cq->fid));
}

static void end_wait(struct env *t, struct end *end, struct end *other)
{
	struct fi_cq_tagged_entry entry;
	ssize_t rc = -FI_EAGAIN;

	for (uint64_t limit = now_ms() + t->limit_ms; rc == -FI_EAGAIN;) {
		CHECK(now_ms() < limit);
		fi_cq_read(other->cq, NULL, 0);
		rc = fi_cq_sread(end->cq, &entry, 1, NULL, 1);
	}
	CHECK_RC(rc, 1);
	CHECK(entry.op_context == &end->ctx);
	OK(fi_cntr_wait(end->cntr, 1, t->limit_ms));
}

static void *open_and_close(void *arg)
{
	struct env *t = arg;

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct end from = { 0 }, to = { 0 };
		ssize_t rc = -FI_EAGAIN;

		end_open(t, &from);
		end_open(t, &to);
		CHECK_EQ(fi_av_insert(from.av, to.name, 1, &from.peer, 0, NULL), 1);
		CHECK_EQ(fi_av_insert(to.av, from.name, 1, &to.peer, 0, NULL), 1);
		fill(from.buf, LEN, round);
		OK(fi_recv(to.ep, to.buf, LEN, fi_mr_desc(to.mr), to.peer, &to.ctx));
		for (uint64_t limit = now_ms() + t->limit_ms; rc == -FI_EAGAIN;) {
			CHECK(now_ms() < limit);
			fi_cq_read(to.cq, NULL, 0);
			fi_cq_read(from.cq, NULL, 0);
			rc = fi_send(from.ep, from.buf, LEN, fi_mr_desc(from.mr), from.peer, &from.ctx);
		}
		OK(rc);
		end_wait(t, &from, &to);
		end_wait(t, &to, &from);
		CHECK(filled(to.buf, LEN, round));
		end_close(&from);
		end_close(&to);
	}
	return NULL;
}

static void check_openers(struct env *t, enum fi_progress progress)
{
	pthread_t threads[OPENERS];

	ask_safe(t, progress);
	open_domain(t);
	for (unsigned i = 0; i < OPENERS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, open_and_close, t), 0);
	for (unsigned i = 0; i < OPENERS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

TEST(fi_domain, threads_open_and_close, EP_RDM, FI_MSG, "FI_THREAD_SAFE: threads open, use and close objects of one domain at the same time")
{
	check_openers(t, FI_PROGRESS_AUTO);
}

TEST(fi_domain, threads_open_and_close_manual, EP_RDM, FI_MSG, "FI_THREAD_SAFE, manual progress: threads open, use and close objects of one domain at the same time")
{
	check_openers(t, FI_PROGRESS_MANUAL);
}

// ---- All threads with the same objects

enum { SENDERS = 3 };

struct crowd {
	struct env *t;
	_Atomic unsigned sent[FLOW_MAX], received[FLOW_MAX], next, total;
	_Atomic uint64_t end_ms;
};

static void take(struct crowd *crowd, struct fid_cq *cq, const struct fi_context2 *first, _Atomic unsigned *seen)
{
	struct fi_cq_tagged_entry entries[3];
	ssize_t rc = fi_cq_read(cq, entries, 3);

	CHECK(rc > 0 || rc == -FI_EAGAIN);
	for (ssize_t i = 0; i < rc; i++) {
		seen[(struct fi_context2 *)entries[i].op_context - first]++;
		crowd->total++;
	}
}

static bool goes_on(struct crowd *crowd)
{
	CHECK(now_ms() < crowd->end_ms);
	return crowd->total < 2 * FLOW_MAX;
}

static void *send_and_read(void *arg)
{
	struct crowd *crowd = arg;
	struct env *t = crowd->t;
	struct flow *flow = t->flow;
	unsigned index = crowd->next++;

	while (goes_on(crowd)) {
		if (index < FLOW_MAX) {
			ssize_t rc = fi_send(t->a.ep, flow->out[index], FLOW_LEN, flow->out_desc, t->a.peer, &flow->tx[index]);

			CHECK_RC2(rc, 0, -FI_EAGAIN);
			if (!rc)
				index = crowd->next++;
		}
		take(crowd, t->a.txcq, flow->tx, crowd->sent);
		take(crowd, t->b.rxcq, flow->rx, crowd->received);
	}
	return NULL;
}

// Calls that programs make now and then, while the other threads transfer.
static void *look_around(void *arg)
{
	struct crowd *crowd = arg;
	struct env *t = crowd->t;
	struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_NONE };
	uint64_t before = 0;

	while (goes_on(crowd)) {
		char name[ADDR_ROOM], memory[64];
		size_t len = sizeof(name);
		uint64_t now = fi_cntr_read(t->b.cntr), key = __atomic_fetch_add(&t->next_key, 1, __ATOMIC_RELAXED);
		struct fid_cntr *cntr = NULL;
		struct fid_mr *mr = NULL;
		fi_addr_t addr;

		CHECK(now >= before);
		before = now;
		OK(fi_getname(&t->b.ep->fid, name, &len));
		OK(fi_mr_reg(t->domain, memory, sizeof(memory), FI_SEND, 0, key, 0, &mr, NULL));
		OK(fi_cntr_open(t->domain, &attr, &cntr, NULL));
		if (t->b.av) {
			CHECK_EQ(fi_av_insert(t->b.av, t->b.name, 1, &addr, 0, NULL), 1);
			OK(fi_av_lookup(t->b.av, addr, name, &len));
			OK(fi_av_remove(t->b.av, &addr, 1, 0));
		}
		if (cntr)
			OK(fi_close(&cntr->fid));
		OK(fi_close(&mr->fid));
	}
	return NULL;
}

static void check_crowd(struct env *t, enum fi_progress progress)
{
	static struct crowd crowd;
	pthread_t threads[SENDERS + 1];

	ask_safe(t, progress);
	PAIR(t, .cntr_flags = FI_RECV);
	crowd.t = t;
	crowd.end_ms = now_ms() + t->limit_ms;
	flow_post_recv(t, 0, FLOW_MAX);
	for (unsigned i = 0; i < FLOW_MAX; i++)
		fill(t->flow->out[i], FLOW_LEN, 0);
	for (unsigned i = 0; i <= SENDERS; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, i < SENDERS ? send_and_read : look_around, &crowd), 0);
	for (unsigned i = 0; i <= SENDERS; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	for (unsigned i = 0; i < FLOW_MAX; i++) {
		CHECK_EQ(crowd.sent[i], 1);
		CHECK_EQ(crowd.received[i], 1);
		CHECK(filled(t->flow->in[i], FLOW_LEN, 0));
	}
	CHECK_EQ(fi_cntr_read(t->b.cntr), FLOW_MAX);
}

TEST(fi_domain, threads_share_endpoint, EP_RELIABLE, FI_MSG, "FI_THREAD_SAFE: threads send on one endpoint and read its queues at the same time; each message completes once")
{
	check_crowd(t, FI_PROGRESS_AUTO);
}

TEST(fi_domain, threads_share_endpoint_manual, EP_RELIABLE, FI_MSG, "FI_THREAD_SAFE, manual progress: threads send on one endpoint and read its queues at the same time; each message completes once")
{
	check_crowd(t, FI_PROGRESS_MANUAL);
}

// ---- A thread for events, beside the thread of the domain

struct events {
	struct fid_eq *eq;
	_Atomic bool over;
};

static void *read_events(void *arg)
{
	struct events *events = arg;

	while (!events->over) {
		struct fi_eq_cm_entry entry;
		uint32_t event;

		CHECK_RC(fi_eq_read(events->eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
	}
	return NULL;
}

TEST(fi_domain, events_beside_domain, EP_RELIABLE, FI_MSG, "FI_THREAD_DOMAIN: an event queue is the fabric's; a thread reads it while another uses the domain")
{
	struct events events = { 0 };
	pthread_t thread;

	t->hints->domain_attr->threading = FI_THREAD_DOMAIN;
	t->hints->domain_attr->progress = FI_PROGRESS_MANUAL;
	env_info(t);
	t->eq = events.eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	open_domain(t);
	OK_OR_SKIP(fi_domain_bind(t->domain, &t->eq->fid, 0));
	PAIR(t);
	CHECK_EQ(pthread_create(&thread, NULL, read_events, &events), 0);
	for (unsigned i = 0; i < FLOW_MAX; i += 16) {
		flow_run(t, i, 16);
		for (unsigned k = 0; k < 16; k++)
			wait_comp(t, t->b.rxcq, NULL);
	}
	events.over = true;
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

// ---- Control calls beside the thread that transfers

struct controls {
	struct env *t;
	_Atomic bool over;
};

static void *register_and_insert(void *arg)
{
	struct controls *controls = arg;
	struct env *t = controls->t;
	char memory[LEN], name[ADDR_ROOM];
	size_t len = sizeof(name);

	OK(fi_getname(&t->b.ep->fid, name, &len));
	for (uint64_t key = 1000; !controls->over; key++) {
		struct fi_cntr_attr attr = { .wait_obj = FI_WAIT_NONE };
		struct fid_cntr *cntr = NULL;
		struct fid_mr *mr;
		int rc;

		OK(fi_mr_reg(t->domain, memory, LEN, FI_REMOTE_READ, 0, key, 0, &mr, NULL));
		rc = fi_cntr_open(t->domain, &attr, &cntr, NULL);
		CHECK(rc == 0 || rc == -FI_ENOSYS);
		if (t->a.av) {
			fi_addr_t peer;

			CHECK_EQ(fi_av_insert(t->a.av, name, 1, &peer, 0, NULL), 1);
			if (peer != t->a.peer)
				OK(fi_av_remove(t->a.av, &peer, 1, 0));
		}
		if (cntr)
			OK(fi_close(&cntr->fid));
		OK(fi_close(&mr->fid));
	}
	return NULL;
}

TEST(fi_domain, control_beside_data, EP_RELIABLE, FI_MSG | FI_RMA, "FI_THREAD_DOMAIN: control calls are thread safe: one thread registers memory and inserts addresses while another transfers")
{
	struct controls controls = { .t = t };
	pthread_t thread;

	t->hints->domain_attr->threading = FI_THREAD_DOMAIN;
	t->hints->domain_attr->progress = FI_PROGRESS_MANUAL;
	env_info(t);
	PAIR(t);
	CHECK_EQ(pthread_create(&thread, NULL, register_and_insert, &controls), 0);
	for (unsigned i = 0; i < FLOW_MAX; i += 16) {
		flow_run(t, i, 16);
		for (unsigned k = 0; k < 16; k++)
			wait_comp(t, t->b.rxcq, NULL);
	}
	controls.over = true;
	CHECK_EQ(pthread_join(thread, NULL), 0);
}
