// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Half a round trip, by size: one message goes back and forth, and both sides spin.
#include "bench.h"

#include <string.h>

#define TAG 7

static void receive(struct fabric *f, const char *form, uint64_t size)
{
	if (!strcmp(form, "msg"))
		POST(f, fi_recv(f->eps[0], f->in, size, f->desc, FI_ADDR_UNSPEC, NULL));
	else if (strcmp(form, "write"))
		POST(f, fi_trecv(f->eps[0], f->in, size, f->desc, FI_ADDR_UNSPEC, TAG, 0, NULL));
}

static void send_one(struct fabric *f, const char *form, uint64_t size)
{
	struct fid_ep *ep = f->eps[0];
	fi_addr_t peer = f->peers[0];

	if (!strcmp(form, "tagged"))
		POST(f, fi_tsend(ep, f->out, size, NULL, peer, TAG, NULL));
	else if (!strcmp(form, "inject"))
		POST(f, fi_tinject(ep, f->out, size, peer, TAG));
	else if (!strcmp(form, "msg"))
		POST(f, fi_send(ep, f->out, size, NULL, peer, NULL));
	else if (!strcmp(form, "write"))
		POST(f, fi_writedata(ep, f->out, size, NULL, 1, peer, f->remote_addr, f->remote_key, NULL));
	else
		stop("latency knows tagged, inject, msg and write");
}

static void play(struct fabric *f, const char *form, const struct step *step)
{
	uint64_t *came = strcmp(form, "write") ? &f->received : &f->remote;
	uint64_t first = *came, sent = f->sent;

	receive(f, form, step->size);
	for (uint64_t i = 0; i < step->count; i++) {
		if (!f->side->server)
			send_one(f, form, step->size);
		UNTIL(f, *came > first + i);
		if (i + 1 < step->count)
			receive(f, form, step->size);
		if (f->side->server)
			send_one(f, form, step->size);
	}
	if (strcmp(form, "inject"))
		UNTIL(f, f->sent == sent + step->count);
}

static double measure(struct fabric *f, const char *form, struct step step)
{
	double start;
	char ready;

	tell(f->side, &step, sizeof(step));
	hear(f->side, &ready, 1);
	start = now();
	play(f, form, &step);
	return now() - start;
}

static void client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	struct order order = { .here = 1, .there = 1 };
	struct fabric *f;

	for (size_t i = 0; i < count; i++)
		order.size = xs[i] > order.size ? xs[i] : order.size;
	begin(side, &latency_work, form, order);
	f = fabric_open(side, 1, order.size);
	fabric_meet(f);
	for (size_t i = 0; i < count; i++) {
		struct step step = { .size = xs[i], .count = warm_up(xs[i]) };
		double took = measure(f, form, step);

		step.count = fill_budget(side, took, step.count);
		took = measure(f, form, step);
		print("latency", form, xs[i], took / step.count / 2 * 1e6, "us");
	}
	tell(side, &(struct step){ 0 }, sizeof(struct step));
	hear(side, &count, 1);
	fabric_close(f);
}

static void server(struct side *side, const struct order *order)
{
	struct fabric *f = fabric_open(side, 1, order->size);
	struct step step;

	fabric_meet(f);
	while (hear(side, &step, sizeof(step)) && step.count) {
		tell(side, "", 1);
		play(f, order->form, &step);
	}
	tell(side, "", 1);
	fabric_close(f);
}

const struct work latency_work = { "latency", "tagged|inject|msg|write SIZE...", client, server };
