// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic operations on 64-bit integers of the peer, by bytes: consecutive fetch-adds, of which half a round trip is
//! printed as for messages; and streams of adds and of fetch-adds with 256 in flight. If the `tcp` of a library has no
//! atomics, `tcp;ofi_rxm` is used instead.
#include "bench.h"

#include <string.h>

#include <rdma/fi_atomic.h>

#define TAG 7
#define WINDOW 256

static bool fetches(const char *form)
{
	return !strncmp(form, "fetch", 5);
}

static bool is_stream(const char *form)
{
	return strcmp(form, "fetch");
}

static ssize_t add(struct fabric *f, const char *form, size_t count)
{
	struct fid_ep *ep = f->eps[0];

	if (fetches(form))
		return fi_fetch_atomic(ep, f->out, count, NULL, f->in, f->desc, f->peers[0], f->remote_addr, f->remote_key,
				       FI_UINT64, FI_SUM, NULL);
	return fi_atomic(ep, f->out, count, NULL, f->peers[0], f->remote_addr, f->remote_key, FI_UINT64, FI_SUM, NULL);
}

static void receive(struct fabric *f)
{
	POST(f, fi_trecv(f->eps[0], f->in, 8, f->desc, FI_ADDR_UNSPEC, TAG, 0, NULL));
}

static double measure(struct fabric *f, const char *form, struct step step)
{
	uint64_t sent = f->sent, received = f->received, posted = 0;
	uint64_t window = is_stream(form) ? WINDOW : 1;
	double start;
	char ready;

	receive(f);
	tell(f->side, &step, sizeof(step));
	hear(f->side, &ready, 1);
	start = now();
	while (f->sent - sent < step.count) {
		while (posted < step.count && posted - (f->sent - sent) < window) {
			ssize_t rc = add(f, form, step.size / 8);

			if (rc == -FI_EAGAIN)
				break;
			if (rc)
				fabric_fail(form, rc);
			posted++;
		}
		fabric_look(f);
	}
	// The answer to a message shows that all adds have been carried out.
	POST(f, fi_tinject(f->eps[0], f->out, 8, f->peers[0], TAG));
	UNTIL(f, f->received > received);
	return now() - start;
}

static struct fabric *open_atomic(struct side *side)
{
	struct fabric *f;

	side->atomics = true;
	f = fabric_open(side, 1, 4096);
	fabric_meet(f);
	return f;
}

static void client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	struct fabric *f;

	if (strcmp(form, "fetch") && strcmp(form, "fetch-stream") && strcmp(form, "add"))
		stop("atomic knows fetch, fetch-stream and add");
	begin(side, &atomic_work, form, (struct order){ .here = 1, .there = 1 });
	f = open_atomic(side);
	for (size_t i = 0; i < count; i++) {
		struct step step = { .size = xs[i], .count = warm_up(xs[i]) };
		double took = measure(f, form, step);

		step.count = fill_budget(side, took, step.count);
		took = measure(f, form, step);
		if (is_stream(form))
			print("atomic", form, xs[i], step.count / took, "per second");
		else
			print("atomic", form, xs[i], took / step.count / 2 * 1e6, "us");
	}
	tell(side, &(struct step){ 0 }, sizeof(struct step));
	hear(side, &count, 1);
	fabric_close(f);
}

static void server(struct side *side, const struct order *order)
{
	struct fabric *f = open_atomic(side);
	struct step step;

	(void) order;
	while (hear(side, &step, sizeof(step)) && step.count) {
		uint64_t received = f->received;

		receive(f);
		tell(side, "", 1);
		UNTIL(f, f->received > received);
		POST(f, fi_tinject(f->eps[0], f->out, 8, f->peers[0], TAG));
	}
	tell(side, "", 1);
	fabric_close(f);
}

const struct work atomic_work = { "atomic", "fetch|fetch-stream|add BYTES...", client, server };
