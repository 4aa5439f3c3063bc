// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Post, then compute: a program posts consecutive messages and makes no call of the library for a while. Measures the
//! time from the return of the last post until the last message is at the peer, which polls: the median of many rounds,
//! in microseconds; 0 if the message arrived earlier. Both processes read the same clock.
//!
//! tagged, inject: by the number of 8-byte messages that are posted. large: one message, by its size, in domains with
//! automatic progress, because a large message cannot leave within the call. A second line, cpu, has the processor time
//! of the sender's other threads, which are the library's, for one message.
// RUSAGE_THREAD.
#define _GNU_SOURCE
#include "bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define TAG 7
#define SMALL 8
#define ROUNDS_LEAST 21
#define WARM_UP 3
// Time without calls of the library, in seconds.
#define COMPUTES 0.02

static bool is_large(const char *form)
{
	return !strcmp(form, "large");
}

// Makes a large message wait for an answer of the receiver before its bytes are sent. Over tcp this applies above this
// size.
static void ask_first(void)
{
	setenv("FI_TCP_MAX_SAVED_SIZE", "65536", 0);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *) a, y = *(const double *) b;

	return (x > y) - (x < y);
}

// ---- The sender, which computes

static void post(struct fabric *f, const char *form, uint64_t size)
{
	if (!strcmp(form, "inject"))
		POST(f, fi_tinject(f->eps[0], f->out, size, f->peers[0], TAG));
	else
		POST(f, fi_tsend(f->eps[0], f->out, size, NULL, f->peers[0], TAG, NULL));
}

static void compute(double until)
{
	while (now() < until)
		;
}

static double seconds(const struct timeval *time)
{
	return time->tv_sec + time->tv_usec * 1e-6;
}

// Processor time of this process without this thread.
static double time_of_others(void)
{
	struct rusage all, own;

	getrusage(RUSAGE_SELF, &all);
	getrusage(RUSAGE_THREAD, &own);
	return seconds(&all.ru_utime) + seconds(&all.ru_stime) - seconds(&own.ru_utime) - seconds(&own.ru_stime);
}

static double computes(struct fabric *f, const char *form, struct step step)
{
	uint64_t sent = f->sent;

	tell(f->side, &step, sizeof(step));
	for (uint64_t i = 0; i < step.count; i++) {
		double posted;
		char ready;

		if (!hear(f->side, &ready, 1))
			stop("the server is gone");
		for (uint64_t n = 0; n < step.window; n++)
			post(f, form, step.size);
		posted = now();
		compute(posted + COMPUTES);
		tell_number(f->side, posted);
		if (strcmp(form, "inject"))
			UNTIL(f, f->sent == sent + (i + 1) * step.window);
	}
	return hear_number(f->side);
}

static void client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	struct order order = { .size = SMALL, .here = 1, .there = 1 };
	struct fabric *f;
	char done;

	if (strcmp(form, "tagged") && strcmp(form, "inject") && !is_large(form))
		stop("compute knows tagged, inject and large");
	side->shared |= is_large(form);
	if (is_large(form))
		ask_first();
	for (size_t i = 0; is_large(form) && i < count; i++)
		order.size = xs[i] > order.size ? xs[i] : order.size;
	begin(side, &compute_work, form, order);
	f = fabric_open(side, 1, order.size);
	fabric_meet(f);
	for (size_t i = 0; i < count; i++) {
		struct step step = { .size = SMALL, .count = WARM_UP, .window = xs[i] };

		if (is_large(form)) {
			step.size = xs[i];
			step.window = 1;
		}
		computes(f, form, step);
		step.count = fill_budget(side, COMPUTES, 1);
		step.count = step.count < ROUNDS_LEAST ? ROUNDS_LEAST : step.count;
		double others = time_of_others();

		print("compute", form, xs[i], computes(f, form, step), "us");
		if (is_large(form))
			print("compute", "cpu", xs[i], (time_of_others() - others) / step.count * 1e6, "us");
	}
	tell(side, &(struct step){ 0 }, sizeof(struct step));
	hear(side, &done, 1);
	fabric_close(f);
}

// ---- The receiver, which polls

static void receives(struct fabric *f, const struct step *step)
{
	double *all = calloc(step->count, sizeof(*all));

	if (!all)
		stop("no memory for %llu rounds", (unsigned long long) step->count);
	for (uint64_t i = 0; i < step->count; i++) {
		uint64_t all_here = f->received + step->window;
		double came, posted;

		for (uint64_t n = 0; n < step->window; n++)
			POST(f, fi_trecv(f->eps[0], f->in, step->size, f->desc, FI_ADDR_UNSPEC, TAG, 0, NULL));
		tell(f->side, "", 1);
		UNTIL(f, f->received == all_here);
		came = now();
		posted = hear_number(f->side);
		all[i] = came > posted ? (came - posted) * 1e6 : 0;
	}
	qsort(all, step->count, sizeof(*all), ascending);
	tell_number(f->side, all[step->count / 2]);
	free(all);
}

static void server(struct side *side, const struct order *order)
{
	struct fabric *f;
	struct step step;

	side->shared |= is_large(order->form);
	if (is_large(order->form))
		ask_first();
	f = fabric_open(side, 1, order->size);
	fabric_meet(f);
	while (hear(side, &step, sizeof(step)) && step.count)
		receives(f, &step);
	tell(side, "", 1);
	fabric_close(f);
}

const struct work compute_work = { "compute", "tagged|inject MESSAGES... | large SIZE...", client, server };
