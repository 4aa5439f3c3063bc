// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! model [--seeds N] [--first SEED] [--verbose] [PROVIDER...]: runs N seeds (default 4) on each RDM provider, or on the
//! named ones. A failure prints the provider and the seed; `model --first SEED --seeds 1 --verbose PROVIDER` repeats
//! it.
#include "model.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// A provider, and its name on the command line.
static const struct variant {
	const char *word, *provider;
	bool sockets_only; // tcp without shared memory
} variants[] = {
	{ "tcp", "tcp", false },         { "tcp-sockets", "tcp", true }, { "sockets", "sockets", false },
	{ "shm", "shm", false },         { "sm2", "sm2", false },        { "rxm", "tcp;ofi_rxm", false },
	{ "rxd", "udp;ofi_rxd", false },
};

static const char *word;

void fail(struct world *w, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	printf("FAILED: %s, seed %" PRIu64 ": ", word, w->seed);
	vprintf(format, args);
	va_end(args);
	printf(" [scalable %d, identifiers %d, FI_SOURCE_ERR %d, shared vector %d, domains %u]\n", w->mode.scalable, w->mode.ids,
	       w->mode.source_err, w->mode.shared_vector, w->mode.domains);
	fflush(stdout);
	_exit(1);
}

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

// splitmix64
unsigned below(struct world *w, unsigned limit)
{
	uint64_t x = w->random += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (x ^ x >> 31) % limit;
}

static void run_seed(const struct variant *variant, uint64_t seed, bool verbose)
{
	struct world *w = calloc(1, sizeof(*w));

	w->provider = variant->provider;
	w->seed = w->random = seed;
	w->verbose = verbose;
	w->mode.scalable = below(w, 3) == 0;
	w->mode.ids = below(w, 3);
	w->mode.source_err = below(w, 4) == 0;
	w->mode.shared_vector = below(w, 4) == 0;
	w->mode.domains = 1 + below(w, DOMAINS);
	w->info = ask(w->provider, &w->mode);
	// Not every provider has scalable endpoints.
	if (!w->info && w->mode.scalable) {
		w->mode.scalable = false;
		w->info = ask(w->provider, &w->mode);
	}
	if (!w->info)
		fail(w, "fi_getinfo has no entry");
	open_world(w);
	run(w, 40 + below(w, 160));
	close_world(w);
	fi_freeinfo(w->info);
	free(w);
}

static int run_variant(const struct variant *variant, uint64_t first, unsigned seeds, bool verbose)
{
	uint64_t *current = mmap(NULL, sizeof(*current), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double start = now();
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		word = variant->word;
		// Time limit for each seed; a hang is a failure.
		for (unsigned i = 0; i < seeds; i++) {
			*current = first + i;
			alarm(120);
			run_seed(variant, first + i, verbose);
		}
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		printf("FAILED: %s, seed %" PRIu64 ": ended by signal %d\n", variant->word, *current, WTERMSIG(status));
	else if (!WEXITSTATUS(status))
		printf("ok %s, %u seeds, %.1f s\n", variant->word, seeds, now() - start);
	munmap(current, sizeof(*current));
	return status != 0;
}

int main(int argc, char **argv)
{
	unsigned seeds = 4, failed = 0;
	uint64_t first = 1;
	bool verbose = false, named = false;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--seeds") && i + 1 < argc)
			seeds = strtoul(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--first") && i + 1 < argc)
			first = strtoull(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--verbose"))
			verbose = true;
		else
			named = true;
	}
	for (unsigned v = 0; v < sizeof(variants) / sizeof(*variants); v++) {
		bool wanted = !named;

		for (int i = 1; i < argc; i++)
			wanted |= !strcmp(argv[i], variants[v].word);
		if (!wanted)
			continue;
		setenv("FI_TCP_SHARED_MEMORY", variants[v].sockets_only ? "0" : "1", 1);
		failed += run_variant(&variants[v], first, seeds, verbose);
	}
	return failed != 0;
}
