// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_domain(3): permitted calls of threads at each threading level, and automatic or manual progress at each progress
//! model.
#include "transfer.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { LEN = 64 };

// ---- Threading

static void ask(struct env *t, enum fi_threading threading, enum fi_progress progress)
{
	t->hints->domain_attr->threading = threading;
	t->hints->domain_attr->progress = progress;
	env_info(t);
}

enum { THREADS = 4, EACH = 300 };

struct poster {
	struct env *t;
	unsigned number;
	struct buf buf; // EACH parts of LEN bytes
	bool sends;
};

static void *post_all(void *arg)
{
	struct poster *poster = arg;
	struct env *t = poster->t;

	for (unsigned i = 0; i < EACH; i++) {
		struct side *side = poster->sends ? &t->a : &t->b;
		struct op op = {
			.form = poster->sends ? SEND : RECV, .tagged = true, .count = 1, .tag = poster->number,
			.iov = { { poster->buf.mem + LEN * i, LEN } }, .desc = { poster->buf.desc },
			.addr = poster->sends ? side->peer : FI_ADDR_UNSPEC, .ctx = poster->buf.mem + LEN * i,
		};
		ssize_t rc;

		for (uint64_t limit = now_ms() + t->limit_ms; (rc = op_try(side->ep, &op)) == -FI_EAGAIN;)
			CHECK(now_ms() < limit);
		OK(rc);
	}
	return NULL;
}

TEST(fi_domain, threads_post, EP_RDM, FI_TAGGED, "FI_THREAD_SAFE: threads post sends and receives on one endpoint while another reads the queues; each message arrives once, in its thread's order")
{
	struct poster posters[2 * THREADS];
	pthread_t threads[2 * THREADS];
	unsigned sent = 0, received = 0;

	ask(t, FI_THREAD_SAFE, FI_PROGRESS_UNSPEC);
	if (t->info->mode & (FI_CONTEXT | FI_CONTEXT2))
		SKIP("contexts are taken by the provider");
	PAIR(t);
	for (unsigned i = 0; i < 2 * THREADS; i++) {
		posters[i] = (struct poster){ t, i / 2, new_buf(t, EACH * LEN, i % 2 ? i / 2 + 1 : 0), i % 2 };
		OK(pthread_create(&threads[i], NULL, post_all, &posters[i]));
	}
	for (uint64_t limit = now_ms() + t->limit_ms; sent < THREADS * EACH || received < THREADS * EACH;) {
		struct fi_cq_tagged_entry comp;

		if (fi_cq_read(t->a.txcq, &comp, 1) == 1)
			sent++;
		if (fi_cq_read(t->b.rxcq, &comp, 1) == 1) {
			CHECK_EQ(comp.len, LEN);
			received++;
		}
		if (now_ms() > limit)
			FAIL("%u sent, %u received", sent, received);
	}
	for (unsigned i = 0; i < 2 * THREADS; i++)
		OK(pthread_join(threads[i], NULL));
	for (unsigned i = 0; i < 2 * THREADS; i += 2)
		CHECK(holds(posters[i].buf, EACH * LEN, i / 2 + 1));
	nothing(t->a.txcq);
	nothing(t->b.rxcq);
}

// A thread with an endpoint and queues of its own, which sends messages to itself.
struct loner {
	struct env *t;
	struct side side;
	fi_addr_t me;
};

static void take(struct env *t, struct fid_cq *cq, void *ctx)
{
	struct fi_cq_tagged_entry comp;
	ssize_t rc;

	for (uint64_t limit = now_ms() + t->limit_ms; (rc = fi_cq_read(cq, &comp, 1)) == -FI_EAGAIN;)
		CHECK(now_ms() < limit);
	CHECK_RC(rc, 1);
	CHECK(comp.op_context == ctx);
}

static void *alone(void *arg)
{
	struct loner *loner = arg;
	struct env *t = loner->t;

	for (unsigned i = 0; i < 2000; i++) {
		char in[LEN] = "", out[LEN];
		ssize_t rc;

		fill(out, LEN, i);
		OK(fi_recv(loner->side.ep, in, LEN, NULL, FI_ADDR_UNSPEC, in));
		for (uint64_t limit = now_ms() + t->limit_ms;;) {
			rc = fi_send(loner->side.ep, out, LEN, NULL, loner->me, out);
			if (rc != -FI_EAGAIN)
				break;
			fi_cq_read(loner->side.txcq, NULL, 0);
			CHECK(now_ms() < limit);
		}
		OK(rc);
		take(t, loner->side.rxcq, in);
		take(t, loner->side.txcq, out);
		CHECK(filled(in, LEN, i));
	}
	return NULL;
}

static void loners(struct env *t, bool own_domain)
{
	struct loner *all = keep_mem(THREADS * sizeof(*all));
	pthread_t threads[THREADS];

	if (t->info->mode || t->info->domain_attr->mr_mode & FI_MR_LOCAL)
		SKIP("it has modes");
	for (unsigned i = 0; i < THREADS; i++) {
		if (own_domain)
			t->domain = NULL;
		all[i].t = t;
		open_group(t, &all[i].side, 1, &all[i].me);
	}
	for (unsigned i = 0; i < THREADS; i++)
		OK(pthread_create(&threads[i], NULL, alone, &all[i]));
	for (unsigned i = 0; i < THREADS; i++)
		OK(pthread_join(threads[i], NULL));
}

TEST(fi_domain, thread_for_each_domain, EP_RDM, FI_MSG, "FI_THREAD_DOMAIN: threads with a domain each need no serialization")
{
	ask(t, FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL);
	loners(t, true);
}

TEST(fi_domain, thread_for_each_queue, EP_RDM, FI_MSG, "FI_THREAD_COMPLETION: threads with endpoints and queues of their own in one domain need no serialization")
{
	ask(t, FI_THREAD_COMPLETION, FI_PROGRESS_MANUAL);
	loners(t, false);
}

TEST(fi_domain, unified_progress, EP_AV, FI_MSG, "FI_PROGRESS_CONTROL_UNIFIED with FI_THREAD_DOMAIN: an application of one thread transfers as ever")
{
	ask(t, FI_THREAD_DOMAIN, FI_PROGRESS_CONTROL_UNIFIED);
	PAIR(t);
	flow_run(t, 0, 100);
	for (unsigned i = 0; i < 100; i++)
		wait_comp(t, t->b.rxcq, NULL);
}

// ---- Progress

TEST(fi_domain, auto_progress, EP_RDM, FI_MSG | FI_RMA, "FI_PROGRESS_AUTO: writes and reads reach a target that makes no call, and messages the receives it posted")
{
	struct buf out = new_buf(t, 1 << 20, 1), in = new_buf(t, 1 << 20, 0), got = new_buf(t, LEN, 0);
	struct fid_domain *ours;
	struct region target;
	struct op send;
	void *ctx[2] = { new_ctx(), new_ctx() };

	ask(t, FI_THREAD_SAFE, FI_PROGRESS_AUTO);
	if (t->info->domain_attr->mr_mode & FI_MR_LOCAL)
		SKIP("it has modes");
	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	ours = t->domain;
	t->domain = NULL; // the target has a domain of its own
	open_bound_ep(t, &t->b);
	OK(fi_enable(t->b.ep));
	t->b.namelen = sizeof(t->b.name);
	OK(fi_getname(&t->b.ep->fid, t->b.name, &t->b.namelen));
	CHECK_EQ(fi_av_insert(t->a.av, t->b.name, 1, &t->a.peer, 0, NULL), 1);
	target = new_region(t, &t->b, new_buf(t, 1 << 20, 0), FI_REMOTE_READ | FI_REMOTE_WRITE);
	post_recv(t, &t->b, got);
	t->domain = ours;
	for (uint64_t limit = now_ms() + t->limit_ms;;) {
		ssize_t rc = fi_write(t->a.ep, out.mem, out.len, NULL, t->a.peer, target.at, target.key, ctx[0]);

		if (rc != -FI_EAGAIN) {
			OK(rc);
			break;
		}
		fi_cq_read(t->a.txcq, NULL, 0);
		CHECK(now_ms() < limit);
	}
	take(t, t->a.txcq, ctx[0]);
	OK(fi_read(t->a.ep, in.mem, in.len, NULL, t->a.peer, target.at, target.key, ctx[1]));
	take(t, t->a.txcq, ctx[1]);
	CHECK(holds(in, in.len, 1));
	send = op_of(SENDMSG, false, new_buf(t, LEN, 2), t->a.peer);
	send.flags = FI_DELIVERY_COMPLETE;
	OK(op_try(t->a.ep, &send));
	take(t, t->a.txcq, send.ctx); // the write has arrived
	wait_comp(t, t->b.rxcq, NULL); // for race detectors: the target's thread comes first
	CHECK(holds(got, LEN, 2));
}

TEST(fi_domain, threads_take_no_signal, EP_RDM | OURS_ONLY, FI_MSG, "FI_PROGRESS_AUTO: a signal that the application blocks and waits for comes to the application")
{
	struct timespec limit = { .tv_sec = t->limit_ms / 1000 + 1 };
	sigset_t set;

	ask(t, FI_THREAD_SAFE, FI_PROGRESS_AUTO);
	PAIR(t);
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	// After the domain was opened, so that threads of the library do not inherit this mask.
	OK(pthread_sigmask(SIG_BLOCK, &set, NULL));
	for (int signal = 1; signal < 32; signal++) {
		if (!sigismember(&set, signal))
			continue;
		OK(kill(getpid(), signal));
		CHECK_EQ(sigtimedwait(&set, NULL, &limit), signal);
	}
}

// Opens both sides, each with a domain of its own, so that calls of one side make no progress at the other.
static struct region open_apart(struct env *t, struct buf target)
{
	struct fid_domain *ours;
	struct region region;

	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	ours = t->domain;
	t->domain = NULL;
	open_bound_ep(t, &t->b);
	OK(fi_enable(t->b.ep));
	t->b.namelen = sizeof(t->b.name);
	OK(fi_getname(&t->b.ep->fid, t->b.name, &t->b.namelen));
	CHECK_EQ(fi_av_insert(t->a.av, t->b.name, 1, &t->a.peer, 0, NULL), 1);
	region = new_region(t, &t->b, target, FI_REMOTE_READ | FI_REMOTE_WRITE);
	t->domain = ours;
	return region;
}

// Exchanges a message, so that the sides are connected.
static void meet_apart(struct env *t)
{
	struct buf got = new_buf(t, LEN, 0);
	struct op send = op_of(SENDMSG, false, new_buf(t, LEN, 2), t->a.peer);
	struct fi_cq_tagged_entry comp;

	post_recv(t, &t->b, got);
	send.flags = FI_DELIVERY_COMPLETE;
	for (uint64_t limit = now_ms() + t->limit_ms; op_try(t->a.ep, &send) == -FI_EAGAIN;)
		CHECK(now_ms() < limit);
	for (uint64_t limit = now_ms() + t->limit_ms;;) {
		fi_cq_read(t->b.rxcq, NULL, 0);
		if (fi_cq_read(t->a.txcq, &comp, 1) == 1)
			break;
		CHECK(now_ms() < limit);
	}
	CHECK(comp.op_context == send.ctx);
	CHECK(holds(got, LEN, 2));
	CHECK_EQ(fi_cq_read(t->b.rxcq, &comp, 1), 1);
}

TEST(fi_shm, target_at_rest, EP_RDM | OURS_ONLY, FI_MSG | FI_RMA, "Reads and writes that ask for no order, and need no event, are carried out while the target makes no call; not after the region is closed")
{
	enum { SIZE = 1 << 20 };
	struct buf out = new_buf(t, SIZE, 1), in = new_buf(t, SIZE, 0), mem = new_buf(t, SIZE, 3);
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry comp;
	struct region target;
	void *ctx = new_ctx();
	ssize_t rc;

	if (strcmp(t->prov, "shm") && strcmp(t->prov, "sm2"))
		SKIP("not by shared memory");
	t->hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
	ask(t, FI_THREAD_SAFE, FI_PROGRESS_MANUAL);
	if (t->info->tx_attr->msg_order & FI_ORDER_RAW)
		SKIP("it keeps an order");
	target = open_apart(t, mem);
	meet_apart(t);
	OK(fi_read(t->a.ep, in.mem, SIZE, in.desc, t->a.peer, target.at, target.key, ctx));
	take(t, t->a.txcq, ctx);
	CHECK(holds(in, SIZE, 3));
	OK(fi_write(t->a.ep, out.mem, SIZE, out.desc, t->a.peer, target.at, target.key, ctx));
	take(t, t->a.txcq, ctx);
	CHECK(holds(mem, SIZE, 1));
	OK(fi_read(t->a.ep, in.mem, 8, in.desc, t->a.peer, target.at + 100, target.key, ctx));
	take(t, t->a.txcq, ctx);
	CHECK(!memcmp(in.mem, mem.mem + 100, 8));
	// Only the target can detect that the read exceeds the region.
	OK(fi_read(t->a.ep, in.mem, 8, in.desc, t->a.peer, target.at + SIZE - 7, target.key, ctx));
	for (uint64_t limit = now_ms() + t->limit_ms; (rc = fi_cq_read(t->a.txcq, &comp, 1)) == -FI_EAGAIN;) {
		fi_cq_read(t->b.rxcq, NULL, 0);
		CHECK(now_ms() < limit);
	}
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK_EQ(fi_cq_readerr(t->a.txcq, &err, 0), 1);
	CHECK(err.op_context == ctx);
}
