// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The cost of a message among many: posted tags that match in reverse order, and unexpected messages that are received
//! in reverse order. Microseconds per message at the receiver, by depth.
//!
//! If there are more than DEEP entries, only the first DEEP are matched, so that an implementation that searches
//! linearly also finishes. The process ends after such a depth and leaves the other entries.
#include "bench.h"

#include <stdlib.h>

#define SIZE 8
#define DEEP 10000
#define MARK (1ULL << 40)
// Minimum of messages, spread over as many rounds as needed.
#define MESSAGES 4000

static uint64_t met(uint64_t depth)
{
	return depth < DEEP ? depth : DEEP;
}

static uint64_t rounds(uint64_t depth)
{
	return depth < MESSAGES ? MESSAGES / depth : 1;
}

static void tagged_receive(struct fabric *f, uint64_t tag)
{
	POST(f, fi_trecv(f->eps[0], f->in, SIZE, f->desc, FI_ADDR_UNSPEC, tag, 0, NULL));
}

static void tagged_send(struct fabric *f, uint64_t tag)
{
	POST(f, fi_tsend(f->eps[0], f->out, SIZE, NULL, f->peers[0], tag, NULL));
}

// Posts `depth` receives. Polls only when the sender has sent all messages, or as many as fit into the sockets.
static double posted_round(struct fabric *f, uint64_t depth)
{
	uint64_t first = f->received;
	double start;
	char go;

	for (uint64_t tag = 0; tag < depth; tag++)
		tagged_receive(f, tag);
	tell(f->side, "", 1);
	hear_quietly(f->side, &go, 1);
	start = now();
	UNTIL(f, f->received == first + met(depth));
	return now() - start;
}

static void posted_send(struct fabric *f, uint64_t depth)
{
	uint64_t sent = f->sent, posted = 0;
	double still = now();
	bool told = false;
	char ready;

	hear(f->side, &ready, 1);
	while (posted < met(depth) || f->sent < sent + posted) {
		uint64_t before = posted + f->sent;

		while (posted < met(depth)) {
			ssize_t rc = fi_tsend(f->eps[0], f->out, SIZE, NULL, f->peers[0], depth - 1 - posted, NULL);

			if (rc == -FI_EAGAIN)
				break;
			if (rc)
				fabric_fail("fi_tsend", rc);
			posted++;
		}
		fabric_look(f);
		if (posted + f->sent != before)
			still = now();
		// The messages in flight fill the sockets, so the receiver has to begin.
		if (!told && now() - still > 0.01) {
			tell(f->side, "", 1);
			told = true;
		}
	}
	// Polls until the library holds back no more messages.
	for (int i = 0; i < 100; i++)
		fabric_look(f);
	if (!told)
		tell(f->side, "", 1);
}

// All `depth` messages have arrived when the marker behind them has been received. Receives them, the last one first.
static double unexpected_round(struct fabric *f, uint64_t depth)
{
	uint64_t first = f->received;
	double start;

	tagged_receive(f, MARK);
	tell(f->side, "", 1);
	UNTIL(f, f->received == first + 1);
	first = f->received;
	start = now();
	for (uint64_t i = 0; i < met(depth); i++) {
		tagged_receive(f, depth - 1 - i);
		UNTIL(f, f->received > first + i);
	}
	return now() - start;
}

static void unexpected_send(struct fabric *f, uint64_t depth)
{
	uint64_t sent = f->sent;
	char ready;

	hear(f->side, &ready, 1);
	for (uint64_t tag = 0; tag < depth; tag++)
		tagged_send(f, tag);
	tagged_send(f, MARK);
	UNTIL(f, f->sent == sent + depth + 1);
}

static double serve(struct fabric *f, bool posted, uint64_t depth, uint64_t count)
{
	double total = 0;

	for (uint64_t i = 0; i < count; i++)
		total += posted ? posted_round(f, depth) : unexpected_round(f, depth);
	return total / count / met(depth);
}

static void run(struct side *side, const struct work *work, const char *form, size_t count, const uint64_t *xs)
{
	bool posted = work == &posted_work;

	for (size_t i = 0; i < count; i++) {
		struct order order = { .size = SIZE, .here = 1, .there = 1, .depth = xs[i] };
		// The first round is the warm-up, unless the depth allows only one round.
		uint64_t all = xs[i] > DEEP ? 1 : rounds(xs[i]) + 1;
		struct fabric *f;

		begin(side, work, form, order);
		f = fabric_open(side, 1, SIZE);
		fabric_meet(f);
		for (uint64_t round = 0; round < all; round++) {
			if (posted)
				posted_send(f, xs[i]);
			else
				unexpected_send(f, xs[i]);
		}
		print(work->name, form, xs[i], hear_number(side) * 1e6, "us");
		if (xs[i] > DEEP)
			exit(0);
		tell(side, "", 1);
		fabric_close(f);
	}
}

static void serve_order(struct side *side, const struct order *order, bool posted)
{
	struct fabric *f = fabric_open(side, 1, SIZE);
	char done;

	fabric_meet(f);
	if (order->depth <= DEEP)
		serve(f, posted, order->depth, 1);
	tell_number(side, serve(f, posted, order->depth, order->depth > DEEP ? 1 : rounds(order->depth)));
	if (!hear(side, &done, 1))
		exit(0);
	fabric_close(f);
}

static void posted_client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	run(side, &posted_work, form, count, xs);
}

static void posted_server(struct side *side, const struct order *order)
{
	serve_order(side, order, true);
}

static void unexpected_client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	run(side, &unexpected_work, form, count, xs);
}

static void unexpected_server(struct side *side, const struct order *order)
{
	serve_order(side, order, false);
}

const struct work posted_work = { "posted", "reverse DEPTH...", posted_client, posted_server };
const struct work unexpected_work = { "unexpected", "reverse DEPTH...", unexpected_client, unexpected_server };
