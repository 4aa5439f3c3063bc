// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! bench -s [options]: the server; prints its port and serves one client.
//! bench -p PORT [options] WORK FORM X...: the client; prints one line per X: work, form, x, value, unit.
//!
//! -c CORE pins the process; -t MILLISECONDS is the time for one measurement; -S requests a domain that several threads
//! may use and that makes progress by itself; -P PROVIDER must be the same on both sides, default tcp. benches/run.py
//! runs pairs of these processes on two libraries.
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct work *const WORKS[] = {
	&latency_work, &socket_work, &stream_work, &window_work, &posted_work, &unexpected_work, &endpoints_work, &peers_work,
	&av_work, &atomic_work, &wakeup_work, &compute_work, &datagram_work, &datagram_socket_work, &setup_work,
	&threads_work,
};
#define WORK_COUNT (sizeof(WORKS) / sizeof(*WORKS))

static const struct work *find(const char *name)
{
	for (size_t i = 0; i < WORK_COUNT; i++) {
		if (!strcmp(WORKS[i]->name, name))
			return WORKS[i];
	}
	stop("there is no work %s", name);
}

uint64_t fill_budget(const struct side *side, double seconds, uint64_t count)
{
	double wanted = side->budget / (seconds > 0 ? seconds : 1e-9) * count;

	return wanted < 2 ? 2 : wanted > 1e8 ? 100000000 : (uint64_t) wanted;
}

uint64_t warm_up(uint64_t size)
{
	uint64_t count = (8 << 20) / (size + 1);

	return count < 3 ? 3 : count > 2000 ? 2000 : count;
}

void begin(struct side *side, const struct work *work, const char *form, struct order order)
{
	snprintf(order.work, sizeof(order.work), "%s", work->name);
	snprintf(order.form, sizeof(order.form), "%s", form);
	tell(side, &order, sizeof(order));
}

static void serve(struct side *side)
{
	struct order order;

	side->control = control_accept(control_listen());
	while (hear(side, &order, sizeof(order))) {
		order.work[sizeof(order.work) - 1] = order.form[sizeof(order.form) - 1] = 0;
		find(order.work)->server(side, &order);
	}
}

static void usage(void)
{
	fprintf(stderr, "usage: bench -s [-c core] [-S] [-P provider]\n"
			"       bench -p port [-c core] [-S] [-P provider] [-t milliseconds] work form x...\n");
	for (size_t i = 0; i < WORK_COUNT; i++)
		fprintf(stderr, "  %s %s\n", WORKS[i]->name, WORKS[i]->help);
	exit(2);
}

int main(int argc, char **argv)
{
	struct side side = { .provider = "tcp", .budget = 0.05 };
	struct rlimit files;
	uint64_t xs[64];
	size_t count = 0;
	int port = 0, option;

	while ((option = getopt(argc, argv, "sSP:p:c:t:")) != -1) {
		switch (option) {
		case 's': side.server = true; break;
		case 'S': side.shared = true; break;
		case 'P': side.provider = optarg; break;
		case 'p': port = atoi(optarg); break;
		case 'c': pin(atoi(optarg)); break;
		case 't': side.budget = atof(optarg) / 1e3; break;
		default: usage();
		}
	}
	side.node = node_of(side.provider);
	// Each peer needs a descriptor.
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (side.server) {
		serve(&side);
		return 0;
	}
	if (argc - optind < 3 || !port)
		usage();
	for (int i = optind + 2; i < argc && count < sizeof(xs) / sizeof(*xs); i++)
		xs[count++] = strtoull(argv[i], NULL, 0);
	side.control = control_connect(port);
	find(argv[optind])->client(&side, argv[optind + 1], count, xs);
	return 0;
}
