// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages of 8 bytes between the threads of two processes, all together: each thread with a domain, each with an
//! endpoint on one common domain, or all with one endpoint and its queue.
//!
//! Each thread sends WINDOW messages, waits for their completions and for an answer, and begins again. The receiving
//! thread posts the next receives before it answers. Endpoints of one domain request FI_THREAD_SAFE, separate domains
//! FI_THREAD_DOMAIN.
#include "bench.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 8
#define WINDOW 64
#define MOST 64
#define ANSWER (UINT64_C(1) << 32)

// A thread and its peer. The context of a completion is a counter, which the thread that reads the completion
// increments.
struct lane {
	struct fabric *f;
	fi_addr_t peer;
	uint64_t tag, windows;
	pthread_barrier_t *start;
	double began, ended;
	_Alignas(64) _Atomic uint64_t sent, came;
};

static void look(struct fabric *f)
{
	struct fi_cq_tagged_entry entries[16];
	ssize_t n = fi_cq_read(f->cq, entries, 16);

	if (n == -FI_EAGAIN)
		return;
	if (n < 0)
		fabric_fail("fi_cq_read", n);
	for (ssize_t i = 0; i < n; i++)
		atomic_fetch_add_explicit((_Atomic uint64_t *) entries[i].op_context, 1, memory_order_relaxed);
}

#define WAIT_FOR(lane, counter, number)                                                                                \
	do {                                                                                                           \
		while (atomic_load_explicit(&(lane)->counter, memory_order_relaxed) < (number))                        \
			look((lane)->f);                                                                               \
	} while (0)

#define POST_ON(lane, call)                                                                                            \
	do {                                                                                                           \
		ssize_t post_rc;                                                                                       \
                                                                                                                       \
		while ((post_rc = (call)) == -FI_EAGAIN)                                                               \
			look((lane)->f);                                                                               \
		if (post_rc)                                                                                           \
			fabric_fail(#call, post_rc);                                                                   \
	} while (0)

static void receive(struct lane *lane, uint64_t tag)
{
	struct fabric *f = lane->f;

	POST_ON(lane, fi_trecv(f->eps[0], f->in, SIZE, f->desc, FI_ADDR_UNSPEC, tag, 0, (void *) &lane->came));
}

static void send_windows(struct lane *lane)
{
	struct fabric *f = lane->f;

	for (uint64_t window = 1; window <= lane->windows; window++) {
		receive(lane, lane->tag | ANSWER);
		for (int i = 0; i < WINDOW; i++)
			POST_ON(lane, fi_tsend(f->eps[0], f->out, SIZE, f->desc, lane->peer, lane->tag, (void *) &lane->sent));
		WAIT_FOR(lane, sent, window * WINDOW);
		WAIT_FOR(lane, came, window);
	}
}

static void post_window(struct lane *lane)
{
	for (int i = 0; i < WINDOW; i++)
		receive(lane, lane->tag);
}

static void receive_windows(struct lane *lane)
{
	struct fabric *f = lane->f;

	for (uint64_t window = 1; window <= lane->windows; window++) {
		WAIT_FOR(lane, came, window * WINDOW);
		if (window < lane->windows)
			post_window(lane);
		POST_ON(lane, fi_tsend(f->eps[0], f->out, SIZE, f->desc, lane->peer, lane->tag | ANSWER,
				       (void *) &lane->sent));
	}
	WAIT_FOR(lane, sent, lane->windows);
}

static void *run_lane(void *argument)
{
	struct lane *lane = argument;

	if (lane->f->side->server)
		post_window(lane);
	pthread_barrier_wait(lane->start);
	lane->began = now();
	if (lane->f->side->server)
		receive_windows(lane);
	else
		send_windows(lane);
	lane->ended = now();
	return NULL;
}

// Runs all lanes at once and returns the seconds from the first begin to the last end. Both sides have posted their
// receives before the client begins.
static double run(struct side *side, struct lane *lanes, uint64_t count, uint64_t windows)
{
	pthread_barrier_t start;
	pthread_t threads[MOST];
	double began, ended;
	char ready;

	pthread_barrier_init(&start, NULL, count + 1);
	for (uint64_t i = 0; i < count; i++) {
		lanes[i].windows = windows;
		lanes[i].sent = lanes[i].came = 0;
		lanes[i].start = &start;
		if (pthread_create(&threads[i], NULL, run_lane, &lanes[i]))
			stop("a thread does not start");
	}
	if (side->server) {
		pthread_barrier_wait(&start);
		tell(side, "", 1);
	} else {
		hear_quietly(side, &ready, 1);
		pthread_barrier_wait(&start);
	}
	for (uint64_t i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&start);
	began = lanes[0].began;
	ended = lanes[0].ended;
	for (uint64_t i = 1; i < count; i++) {
		began = lanes[i].began < began ? lanes[i].began : began;
		ended = lanes[i].ended > ended ? lanes[i].ended : ended;
	}
	return ended - began;
}

// Opens `count` lanes with the domains and endpoints of this form.
static void open_lanes(struct side *side, const char *form, struct lane *lanes, uint64_t count)
{
	bool domains = !strcmp(form, "domains"), shared = !strcmp(form, "shared");

	side->safe = !domains;
	for (uint64_t i = 0; i < count; i++) {
		struct lane *lane = &lanes[i];

		lane->tag = i;
		lane->f = i && shared ? lanes[0].f : fabric_open_on(i && !domains ? lanes[0].f : NULL, side, 1, SIZE);
		side->fabric = NULL;
		if (!i || !shared)
			fabric_meet(lane->f);
		lane->peer = lane->f->peers[0];
	}
}

static void close_lanes(struct lane *lanes, uint64_t count)
{
	// The first fabric owns the domain of the others, so it is closed last.
	for (uint64_t i = count; i-- > 0;) {
		if (!i || lanes[i].f != lanes[0].f)
			fabric_close(lanes[i].f);
	}
}

static uint64_t checked(uint64_t count)
{
	if (!count || count > MOST)
		stop("from one to %d threads", MOST);
	return count;
}

static void client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	if (strcmp(form, "domains") && strcmp(form, "endpoints") && strcmp(form, "shared"))
		stop("threads knows domains, endpoints and shared");
	for (size_t i = 0; i < count; i++) {
		struct lane *lanes = aligned_alloc(64, checked(xs[i]) * sizeof(*lanes));
		uint64_t windows = 50;
		double took;
		char over;

		begin(side, &threads_work, form, (struct order){ .here = xs[i], .there = xs[i] });
		open_lanes(side, form, lanes, xs[i]);
		// The first round connects and warms up. The second round is long, because threads that share a
		// processor get time slices of milliseconds.
		for (int round = 0; round < 2; round++) {
			tell_number(side, windows);
			took = run(side, lanes, xs[i], windows);
			if (round == 0)
				windows = fill_budget(side, took / 8, windows);
		}
		print("threads", form, xs[i], windows * WINDOW * xs[i] / took, "per second");
		tell_number(side, 0);
		hear_quietly(side, &over, 1);
		close_lanes(lanes, xs[i]);
		free(lanes);
	}
}

static void server(struct side *side, const struct order *order)
{
	struct lane *lanes = aligned_alloc(64, checked(order->there) * sizeof(*lanes));
	double windows;

	open_lanes(side, order->form, lanes, order->there);
	while ((windows = hear_number(side)) > 0)
		run(side, lanes, order->there, windows);
	tell(side, "", 1);
	close_lanes(lanes, order->there);
	side->safe = false;
	free(lanes);
}

const struct work threads_work = { "threads", "domains|endpoints|shared THREADS...", client, server };
