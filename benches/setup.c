// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Costs before the first message of a program: fi_getinfo with a filter, opening and closing objects, and the first
//! round trip to a peer, which includes the connection. Each is done `x` times, and the median is printed.
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TAG 7
#define SIZE 8

static int compare(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static double median(double *times, uint64_t count)
{
	qsort(times, count, sizeof(*times), compare);
	return times[count / 2];
}

static void must(const char *what, ssize_t rc)
{
	if (rc)
		fabric_fail(what, rc);
}

// Queries as a program does that has a fixed provider.
static void ask(struct fabric *f)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	if (!hints)
		stop("no memory");
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->fabric_attr->prov_name = strdup(f->side->provider);
	must("fi_getinfo", fi_getinfo(FI_VERSION(1, 20), NULL, NULL, 0, hints, &info));
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void open_domain(struct fabric *f)
{
	struct fid_domain *domain;

	must("fi_domain", fi_domain(f->fabric, f->info, &domain, NULL));
	must("fi_close", fi_close(&domain->fid));
}

static void open_endpoint(struct fabric *f)
{
	struct fid_ep *ep;

	must("fi_endpoint", fi_endpoint(f->domain, f->info, &ep, NULL));
	must("fi_ep_bind", fi_ep_bind(ep, &f->av->fid, 0));
	must("fi_ep_bind", fi_ep_bind(ep, &f->cq->fid, FI_TRANSMIT | FI_RECV));
	must("fi_enable", fi_enable(ep));
	must("fi_close", fi_close(&ep->fid));
}

static void first_messages(struct fabric *f, double *times, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t received = f->received;

		POST(f, fi_trecv(f->eps[i], f->in, SIZE, f->desc, FI_ADDR_UNSPEC, TAG + i, 0, NULL));
		times[i] = now();
		POST(f, fi_tsend(f->eps[i], f->out, SIZE, f->desc, f->peers[0], TAG + i, NULL));
		UNTIL(f, f->received > received);
		times[i] = now() - times[i];
	}
}

static void answer_messages(struct fabric *f, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		uint64_t received = f->received, sent = f->sent;

		POST(f, fi_trecv(f->eps[0], f->in, SIZE, f->desc, FI_ADDR_UNSPEC, TAG + i, 0, NULL));
		UNTIL(f, f->received > received);
		POST(f, fi_tsend(f->eps[0], f->out, SIZE, f->desc, f->peers[i], TAG + i, NULL));
		UNTIL(f, f->sent > sent);
	}
}

// The same on a bare socket, which the client closes.
static void connect_sockets(struct side *side, double *times, uint64_t count)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	char bytes[SIZE] = "";

	addr.sin_port = htons((uint16_t) hear_number(side));
	for (uint64_t i = 0; i < count; i++) {
		int on = 1, fd;

		times[i] = now();
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0 || connect(fd, (struct sockaddr *) &addr, sizeof(addr)) ||
		    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) || write(fd, bytes, SIZE) != SIZE ||
		    read(fd, bytes, SIZE) != SIZE)
			stop("a socket does not connect");
		times[i] = now() - times[i];
		close(fd);
	}
}

static void accept_sockets(struct side *side, uint64_t count)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char bytes[SIZE];

	if (listener < 0 || bind(listener, (struct sockaddr *) &addr, sizeof(addr)) || listen(listener, 64) ||
	    getsockname(listener, (struct sockaddr *) &addr, &len))
		stop("a listening socket");
	tell_number(side, ntohs(addr.sin_port));
	for (uint64_t i = 0; i < count; i++) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0 || read(fd, bytes, SIZE) != SIZE || write(fd, bytes, SIZE) != SIZE)
			stop("a socket is not accepted");
		close(fd);
	}
	close(listener);
}

static void client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	void (*alone)(struct fabric *) = !strcmp(form, "info") ? ask :
					 !strcmp(form, "domain") ? open_domain :
					 !strcmp(form, "endpoint") ? open_endpoint : NULL;

	for (size_t i = 0; i < count; i++) {
		double *times = calloc(xs[i], sizeof(*times));
		struct fabric *f = NULL;
		char over = 0;

		if (!times || !xs[i])
			stop("how often?");
		begin(side, &setup_work, form, (struct order){ .here = xs[i] });
		if (!strcmp(form, "connect")) {
			connect_sockets(side, times, xs[i]);
		} else {
			f = fabric_open(side, alone ? 1 : xs[i], SIZE);
			fabric_meet(f);
		}
		if (f && !alone)
			first_messages(f, times, xs[i]);
		for (uint64_t n = 0; f && alone && n < xs[i]; n++) {
			times[n] = now();
			alone(f);
			times[n] = now() - times[n];
		}
		print("setup", form, xs[i], median(times, xs[i]) * 1e6, "us");
		tell(side, &over, 1);
		if (f)
			fabric_close(f);
		free(times);
	}
}

static void server(struct side *side, const struct order *order)
{
	struct fabric *f;
	char over;

	if (!strcmp(order->form, "connect")) {
		accept_sockets(side, order->here);
		hear(side, &over, 1);
		return;
	}
	f = fabric_open(side, 1, SIZE);
	fabric_meet(f);
	if (!strcmp(order->form, "first"))
		answer_messages(f, order->here);
	hear(side, &over, 1);
	fabric_close(f);
}

const struct work setup_work = { "setup", "info|domain|endpoint|first|connect TIMES...", client, server };
