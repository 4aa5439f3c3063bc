// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Many endpoints on one queue of the server: the cost of an operation if one of them is used, and if all are used in
//! turn. Also many endpoints of the client that send to one of the server in turn: the cost of a message.
#include "bench.h"

#include <string.h>

#define SIZE 8
#define TAG 7
#define WINDOW 256

static void receive(struct fabric *f, size_t ep)
{
	POST(f, fi_trecv(f->eps[ep], f->in, SIZE, f->desc, FI_ADDR_UNSPEC, TAG, 0, (void *) ep));
}

static void send_to(struct fabric *f, size_t ep, size_t peer)
{
	POST(f, fi_tinject(f->eps[ep], f->out, SIZE, f->peers[peer], TAG));
}

// The client exchanges messages from one endpoint with `turns` endpoints of the server, each of which has one receive
// posted.
static double rounds(struct fabric *f, size_t turns, uint64_t count)
{
	struct step step = { .size = SIZE, .count = count, .window = turns };
	double start;
	size_t peer = 0;
	char ready;

	tell(f->side, &step, sizeof(step));
	hear(f->side, &ready, 1);
	start = now();
	for (uint64_t i = 0; i < count; i++) {
		uint64_t received = f->received;

		receive(f, 0);
		send_to(f, 0, peer);
		UNTIL(f, f->received > received);
		if (++peer == turns)
			peer = 0;
	}
	return now() - start;
}

static void answer(struct fabric *f, const struct step *step)
{
	uint64_t received = f->received;
	size_t turns = step->window;

	for (size_t ep = 0; ep < turns; ep++)
		receive(f, ep);
	tell(f->side, "", 1);
	for (uint64_t i = 0; i < step->count; i++) {
		size_t ep;

		UNTIL(f, f->received > received + i);
		ep = f->contexts[(received + i) % RECENT];
		if (i + turns < step->count)
			receive(f, ep);
		send_to(f, ep, 0);
	}
}

static void client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	bool senders = !strcmp(form, "senders"), stream = senders || !strcmp(form, "stream");

	if (strcmp(form, "one") && strcmp(form, "all") && !stream)
		stop("endpoints knows one, all, stream and senders");
	for (size_t i = 0; i < count; i++) {
		struct order order = { .size = SIZE, .here = senders ? xs[i] : 1, .there = senders ? 1 : xs[i] };
		size_t turns = strcmp(form, "all") ? 1 : xs[i];
		struct step step = { 0 };
		struct fabric *f;
		double took;
		char done;

		begin(side, &endpoints_work, form, order);
		f = fabric_open(side, order.here, SIZE);
		fabric_meet(f);
		// Connects to all endpoints. Senders of a stream connect with its first messages.
		rounds(f, order.there, order.there);
		if (stream) {
			// Each endpoint has a receive from the beginning.
			uint64_t window = xs[i] > WINDOW ? xs[i] : WINDOW;

			tell(side, &step, sizeof(step));
			stream_begin(f);
			print("endpoints", form, xs[i], 1e6 / stream_rate(f, "tagged", SIZE, window), "us");
			stream_finish(f);
		} else {
			took = rounds(f, turns, 4000);
			step.count = fill_budget(side, took, 4000);
			took = rounds(f, turns, step.count);
			print("endpoints", form, xs[i], took / step.count / 2 * 1e6, "us");
			step.count = 0;
			tell(side, &step, sizeof(step));
			hear(side, &done, 1);
		}
		fabric_close(f);
	}
}

static void server(struct side *side, const struct order *order)
{
	struct fabric *f = fabric_open(side, order->there, SIZE);
	bool stream = !strcmp(order->form, "stream") || !strcmp(order->form, "senders");
	struct step step;

	fabric_meet(f);
	while (hear(side, &step, sizeof(step)) && step.count)
		answer(f, &step);
	if (stream)
		stream_serve(f, "tagged");
	else
		tell(side, "", 1);
	fabric_close(f);
}

const struct work endpoints_work = { "endpoints", "one|all|stream|senders ENDPOINTS...", client, server };
