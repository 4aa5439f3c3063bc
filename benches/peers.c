// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Many peers of one endpoint: the time until all are connected, the memory that each costs the process, and the cost
//! of an empty poll of the queue. Also the time and memory for the insertion of many addresses.
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAG 7
#define LOOKS 20000

// Returns the bytes in the line of a file of /proc that begins with `what`.
static double kernel_says(const char *path, const char *what)
{
	FILE *file = fopen(path, "r");
	char line[128];
	double kilobytes = 0;

	if (!file)
		stop("there is no %s", path);
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, what, strlen(what)))
			sscanf(line + strlen(what), "%lf", &kilobytes);
	}
	fclose(file);
	return kilobytes * 1024;
}

// Private memory of the process in bytes; sockets in the kernel are not included.
static double own_memory(void)
{
	return kernel_says("/proc/self/status", "RssAnon:");
}

// Adds half of the shared memory. That is read for the whole machine, because a process does not show shared pages that
// it has not touched yet; so nothing else should use shared memory meanwhile.
static double memory_of(struct side *side)
{
	return own_memory() + (side->node ? 0 : kernel_says("/proc/meminfo", "Shmem:") / 2);
}

static void receive(struct fabric *f, size_t ep, size_t peer)
{
	POST(f, fi_trecv(f->eps[ep], f->in, 8, f->desc, FI_ADDR_UNSPEC, TAG + peer, 0, NULL));
}

// Sends to all these peers at once and receives their answers.
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
		// The first peer is not measured, because it includes one-time allocations.
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

	// Polls until the library treats the peers as quiet.
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
	before = memory_of(side);
	tell(side, "", 1);
	answer(f, 1, order->here);
	tell_number(side, order->here > 1 ? (memory_of(side) - before) / (order->here - 1) : 0);
	tell_number(side, miss(f));
	hear(side, &done, 1);
	fabric_close(f);
}

// Distance between two addresses in bytes.
static size_t stride(const struct side *side)
{
	return side->node ? sizeof(struct sockaddr_in) : 32;
}

// Addresses in the format of the provider: IPv4 addresses or names.
static char *addresses(const struct side *side, size_t count)
{
	char *all = calloc(count, stride(side));

	if (!all)
		stop("no memory for %zu addresses", count);
	for (size_t i = 0; i < count; i++) {
		char *at = all + i * stride(side);
		struct sockaddr_in ip = {
			.sin_family = AF_INET,
			.sin_addr.s_addr = htonl(0x0a000000 + i / 16),
			.sin_port = htons(10000 + i % 16),
		};

		if (side->node)
			memcpy(at, &ip, sizeof(ip));
		else
			snprintf(at, stride(side), "fi_%s://%zu:0:%zu", side->provider, 100000 + i / 16, i % 16);
	}
	return all;
}

static uint64_t insert(const struct side *side, struct fid_av *av, bool together, char *all, uint64_t count, fi_addr_t *handles)
{
	uint64_t taken = 0;

	if (together)
		return fi_av_insert(av, all, count, handles, 0, NULL);
	for (uint64_t i = 0; i < count; i++)
		taken += fi_av_insert(av, all + i * stride(side), 1, &handles[i], 0, NULL);
	return taken;
}

// Only the client works. "memory": bytes of an entry without traffic.
static void av_client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	struct fabric *f;

	if (!strcmp(form, "together") && !side->node)
		stop("av together knows IP addresses");
	f = fabric_open(side, 1, 8);
	begin(side, &av_work, form, (struct order){ 0 });
	for (size_t i = 0; i < count; i++) {
		char *all = addresses(side, xs[i]);
		fi_addr_t *handles = malloc(xs[i] * sizeof(*handles));
		struct fi_av_attr attr = { .type = FI_AV_TABLE };
		struct fid_av *av;
		double start, before;
		uint64_t taken;

		if (!handles || fi_av_open(f->domain, &attr, &av, NULL))
			stop("fi_av_open");
		// Touches the pages now, so that they do not count as memory of the entries.
		memset(handles, 0, xs[i] * sizeof(*handles));
		before = own_memory();
		start = now();
		taken = insert(side, av, !strcmp(form, "together"), all, xs[i], handles);
		if (!strcmp(form, "memory"))
			print("av", form, xs[i], (own_memory() - before) / xs[i], "bytes");
		else
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
const struct work av_work = { "av", "together|single|memory ADDRESSES...", av_client, av_server };
