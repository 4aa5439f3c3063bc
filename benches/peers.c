// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Many peers of one endpoint: how long it takes until all are connected, what memory each costs the process, and what a
//! look at the queue costs that finds nothing. And what it takes to learn many addresses.
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG 7
#define LOOKS 20000

// Bytes of memory that the process has got for itself: the kernel's sockets are not among them.
static double own_memory(void)
{
	FILE *status = fopen("/proc/self/status", "r");
	char line[128];
	double kilobytes = 0;

	if (!status)
		stop("there is no /proc/self/status");
	while (fgets(line, sizeof(line), status))
		sscanf(line, "RssAnon: %lf", &kilobytes);
	fclose(status);
	return kilobytes * 1024;
}

static void receive(struct fabric *f, size_t ep, size_t peer)
{
	POST(f, fi_trecv(f->eps[ep], f->in, 8, f->desc, FI_ADDR_UNSPEC, TAG + peer, 0, NULL));
}

// Sends of these peers, all of them at once, and their answers.
static void greet(struct fabric *f, size_t from, size_t to)
{
	uint64_t received = f->received;

	for (size_t i = from; i < to; i++) {
		receive(f, i, i);
		POST(f, fi_tsend(f->eps[i], f->out, 8, NULL, f->peers[0], TAG + i, NULL));
	}
	UNTIL(f, f->received == received + to - from);
}

static void answer(struct fabric *f, size_t from, size_t to)
{
	uint64_t received = f->received, sent = f->sent;

	for (size_t i = from; i < to; i++)
		POST(f, fi_trecv(f->eps[0], f->in, 8, f->desc, FI_ADDR_UNSPEC, TAG + i, 0, (void *) i));
	for (uint64_t done = 0; done < to - from; done++) {
		size_t peer;

		UNTIL(f, f->received > received + done);
		peer = f->contexts[(received + done) % RECENT];
		POST(f, fi_tsend(f->eps[0], f->out, 8, NULL, f->peers[peer], TAG + peer, NULL));
	}
	UNTIL(f, f->sent == sent + to - from);
}

static void client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	for (size_t i = 0; i < count; i++) {
		struct order order = { .size = 8, .here = xs[i], .there = 1 };
		struct fabric *f;
		double start;
		char ready;

		begin(side, &peers_work, form, order);
		f = fabric_open(side, xs[i], 8);
		fabric_meet(f);
		// The first peer costs what is needed once.
		greet(f, 0, 1);
		hear(side, &ready, 1);
		start = now();
		greet(f, 1, xs[i]);
		print("peers", "connect", xs[i], now() - start, "s");
		print("peers", "memory", xs[i], hear_number(side), "bytes");
		print("peers", "miss", xs[i], hear_number(side) * 1e9, "ns");
		tell(side, "", 1);
		fabric_close(f);
	}
}

static double miss(struct fabric *f)
{
	double start;

	// Until the library takes the peers for quiet.
	for (int i = 0; i < LOOKS; i++)
		fabric_look(f);
	start = now();
	for (int i = 0; i < LOOKS; i++)
		fabric_look(f);
	return (now() - start) / LOOKS;
}

static void server(struct side *side, const struct order *order)
{
	struct fabric *f = fabric_open(side, 1, 8);
	double before;
	char done;

	fabric_meet(f);
	answer(f, 0, 1);
	before = own_memory();
	tell(side, "", 1);
	answer(f, 1, order->here);
	tell_number(side, order->here > 1 ? (own_memory() - before) / (order->here - 1) : 0);
	tell_number(side, miss(f));
	hear(side, &done, 1);
	fabric_close(f);
}

static struct sockaddr_in *addresses(size_t count)
{
	struct sockaddr_in *all = calloc(count, sizeof(*all));

	for (size_t i = 0; i < count; i++) {
		all[i].sin_family = AF_INET;
		all[i].sin_addr.s_addr = htonl(0x0a000000 + i / 16);
		all[i].sin_port = htons(10000 + i % 16);
	}
	return all;
}

// Only the client has something to do.
static void av_client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	struct fabric *f = fabric_open(side, 1, 8);

	begin(side, &av_work, form, (struct order){ 0 });
	for (size_t i = 0; i < count; i++) {
		struct sockaddr_in *all = addresses(xs[i]);
		fi_addr_t *handles = calloc(xs[i], sizeof(*handles));
		struct fi_av_attr attr = { .type = FI_AV_TABLE };
		struct fid_av *av;
		double start;
		uint64_t taken = 0;

		if (fi_av_open(f->domain, &attr, &av, NULL))
			stop("fi_av_open");
		start = now();
		if (!strcmp(form, "together")) {
			taken = fi_av_insert(av, all, xs[i], handles, 0, NULL);
		} else {
			for (uint64_t n = 0; n < xs[i]; n++)
				taken += fi_av_insert(av, &all[n], 1, &handles[n], 0, NULL);
		}
		print("av", form, xs[i], now() - start, "s");
		if (taken != xs[i])
			stop("%llu addresses of %llu were taken", (unsigned long long) taken, (unsigned long long) xs[i]);
		fi_close(&av->fid);
		free(all);
		free(handles);
	}
	fabric_close(f);
}

static void av_server(struct side *side, const struct order *order)
{
	(void) side;
	(void) order;
}

const struct work peers_work = { "peers", "all PEERS...", client, server };
const struct work av_work = { "av", "together|single ADDRESSES...", av_client, av_server };
