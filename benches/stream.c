// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Consecutive messages, writes and reads, by size and by the number in flight.
//!
//! Tagged: the receiver has `window` receives posted and gives credit for each quarter of them, as a program does that
//! avoids unexpected messages; the last credit ends the measurement. Writes and reads: `window` are in flight; a
//! message behind them and its answer end the measurement, so all bytes have arrived.
//!
//! write-both, read-both: both sides do it at the same time, each operation on a different place than the one before,
//! so that the caches do not hold all data. fi_rma_bw of the fabtests does the same.
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#define TAG 7
#define CREDIT 8

static uint64_t grain(const struct step *step)
{
	return step->window < 4 ? 1 : step->window / 4;
}

static void credit_receive(struct fabric *f)
{
	POST(f, fi_trecv(f->eps[0], f->in, 8, f->desc, FI_ADDR_UNSPEC, CREDIT, 0, NULL));
}

// Sends from all endpoints in turn, to the peers in turn.
static void send_stream(struct fabric *f, const struct step *step)
{
	uint64_t first = f->received, sent = f->sent, posted = 0, credits = 0, unit = grain(step);
	size_t ep = 0, peer = 0;

	while (credits * unit < step->count) {
		while (posted < step->count && posted - credits * unit < step->window) {
			ssize_t rc = fi_tsend(f->eps[ep], f->out, step->size, NULL, f->peers[peer], TAG, NULL);

			if (rc == -FI_EAGAIN)
				break;
			if (rc)
				fabric_fail("fi_tsend", rc);
			posted++;
			if (++ep == f->ep_count)
				ep = 0;
			if (++peer == f->peer_count)
				peer = 0;
		}
		fabric_look(f);
		for (; credits < f->received - first; credits++)
			credit_receive(f);
	}
	UNTIL(f, f->sent == sent + posted);
}

static void message_receive(struct fabric *f, size_t ep, uint64_t size)
{
	POST(f, fi_trecv(f->eps[ep], f->in, size, f->desc, FI_ADDR_UNSPEC, TAG, 0, (void *) ep));
}

// Each endpoint gets its share of the messages and the same number of receives.
static void receive_stream(struct fabric *f, const struct step *step)
{
	uint64_t first = f->received, unit = grain(step), given = 0, done = 0, posted = 0;
	uint64_t *left = calloc(f->ep_count, sizeof(*left));

	for (size_t ep = 0; ep < f->ep_count; ep++)
		left[ep] = step->count / f->ep_count + (ep < step->count % f->ep_count);
	for (; posted < step->window && posted < step->count; posted++) {
		message_receive(f, posted % f->ep_count, step->size);
		left[posted % f->ep_count]--;
	}
	tell(f->side, "", 1);
	while (given * unit < step->count) {
		fabric_look(f);
		for (; done < f->received - first; done++) {
			size_t ep = f->contexts[(first + done) % RECENT];

			if (left[ep] > 0) {
				message_receive(f, ep, step->size);
				left[ep]--;
			}
			if ((done + 1) % unit == 0) {
				POST(f, fi_tinject(f->eps[0], f->out, 8, f->peers[0], CREDIT));
				given++;
			}
		}
	}
	free(left);
}

struct access {
	bool read, inject, both;
	// Number of places of `size` bytes that the operations use in turn.
	uint64_t places;
};

// 64 places as in fi_rma_bw, or fewer if they need more than 64 MiB.
static uint64_t places_for(uint64_t size)
{
	uint64_t places = (64 << 20) / (size + 1);

	return places < 1 ? 1 : places > 64 ? 64 : places;
}

static ssize_t access_one(struct fabric *f, const struct access *access, uint64_t size, uint64_t number)
{
	uint64_t offset = number % access->places * size, remote = f->remote_addr + offset;

	if (access->inject)
		return fi_inject_write(f->eps[0], f->out + offset, size, f->peers[0], remote, f->remote_key);
	if (access->read)
		return fi_read(f->eps[0], f->out + offset, size, NULL, f->peers[0], remote, f->remote_key, NULL);
	return fi_write(f->eps[0], f->out + offset, size, NULL, f->peers[0], remote, f->remote_key, NULL);
}

// Ends with one message in each direction.
static void access_stream(struct fabric *f, const struct access *access, const struct step *step, uint64_t received)
{
	uint64_t sent = f->sent, posted = 0;

	// Injected operations have no completion, so as many are in flight as the library accepts.
	while (posted < step->count || (!access->inject && f->sent - sent < step->count)) {
		while (posted < step->count && (access->inject || posted - (f->sent - sent) < step->window)) {
			ssize_t rc = access_one(f, access, step->size, posted);

			if (rc == -FI_EAGAIN)
				break;
			if (rc)
				fabric_fail(access->read ? "fi_read" : access->inject ? "fi_inject_write" : "fi_write", rc);
			posted++;
		}
		fabric_look(f);
	}
	POST(f, fi_tinject(f->eps[0], f->out, 8, f->peers[0], TAG));
	UNTIL(f, f->received > received);
}

static struct access access_of(const char *form, uint64_t size)
{
	bool both = strstr(form, "-both");

	return (struct access){ .read = form[0] == 'r', .inject = form[0] == 'i', .both = both, .places = both ? places_for(size) : 1 };
}

static bool is_access(const char *form)
{
	return !strncmp(form, "write", 5) || !strncmp(form, "read", 4) || !strncmp(form, "inject", 6);
}

static double measure(struct fabric *f, const char *form, struct step step)
{
	struct access access = access_of(form, step.size);
	uint64_t received = f->received;
	double start;
	char ready;

	if (is_access(form))
		message_receive(f, 0, 8);
	tell(f->side, &step, sizeof(step));
	hear(f->side, &ready, 1);
	start = now();
	if (is_access(form))
		access_stream(f, &access, &step, received);
	else
		send_stream(f, &step);
	return now() - start;
}

static void serve_access(struct fabric *f, const char *form, const struct step *step)
{
	struct access access = access_of(form, step->size);
	uint64_t received = f->received;

	message_receive(f, 0, 8);
	tell(f->side, "", 1);
	if (access.both) {
		access_stream(f, &access, step, received);
		return;
	}
	UNTIL(f, f->received > received);
	POST(f, fi_tinject(f->eps[0], f->out, 8, f->peers[0], TAG));
}

double stream_rate(struct fabric *f, const char *form, uint64_t size, uint64_t window)
{
	struct step step = { .size = size, .window = window };
	uint64_t unit = grain(&step);
	double took;

	// Credits are given for quarters of the window, so the count is a multiple of a quarter.
	step.count = (warm_up(size) / unit + 2) * unit;
	took = measure(f, form, step);
	step.count = (fill_budget(f->side, took, step.count) / unit + 1) * unit;
	took = measure(f, form, step);
	return step.count / took;
}

void stream_begin(struct fabric *f)
{
	// More receives than credits can be in flight.
	for (int i = 0; i < 8; i++)
		credit_receive(f);
}

void stream_finish(struct fabric *f)
{
	char done;

	tell(f->side, &(struct step){ 0 }, sizeof(struct step));
	hear(f->side, &done, 1);
}

void stream_serve(struct fabric *f, const char *form)
{
	struct step step;

	while (hear(f->side, &step, sizeof(step)) && step.count) {
		if (is_access(form))
			serve_access(f, form, &step);
		else
			receive_stream(f, &step);
	}
	tell(f->side, "", 1);
}

static struct fabric *start(struct side *side, const struct work *work, const char *form, struct order order)
{
	struct fabric *f;

	if (strcmp(form, "tagged") && !is_access(form))
		stop("%s knows tagged, write, read, inject, write-both, read-both and inject-both", work->name);
	begin(side, work, form, order);
	f = fabric_open(side, 1, order.depth);
	fabric_meet(f);
	stream_begin(f);
	return f;
}

static void client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	struct order order = { .here = 1, .there = 1 };
	struct fabric *f;

	// The buffer holds all places of the size that needs most.
	for (size_t i = 0; i < count; i++) {
		uint64_t need = access_of(form, xs[i]).places * xs[i];

		order.depth = need > order.depth ? need : order.depth;
	}
	f = start(side, &stream_work, form, order);
	for (size_t i = 0; i < count; i++) {
		uint64_t window = (16 << 20) / (xs[i] + 1);

		window = window < 4 ? 4 : window > 256 ? 256 : window;
		print("stream", form, xs[i], stream_rate(f, form, xs[i], window), "per second");
	}
	stream_finish(f);
	fabric_close(f);
}

static void client_window(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	struct order order = { .depth = 8, .here = 1, .there = 1 };
	struct fabric *f = start(side, &window_work, form, order);

	for (size_t i = 0; i < count; i++)
		print("window", form, xs[i], stream_rate(f, form, 8, xs[i]), "per second");
	stream_finish(f);
	fabric_close(f);
}

static void server(struct side *side, const struct order *order)
{
	struct fabric *f = fabric_open(side, 1, order->depth);

	fabric_meet(f);
	stream_serve(f, order->form);
	fabric_close(f);
}

const struct work stream_work = { "stream", "tagged|write|read|inject|write-both|read-both|inject-both SIZE...", client, server };
const struct work window_work = { "window", "tagged|write|read WINDOW...", client_window, server };
