// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A large job in a few processes, each of which has many endpoints: the start, at which endpoints exchange one message
//! each with all others (`all`) or send one to the first endpoint (`incast`), and the end, at which all close at once.
//! Prints for each phase the time until the last process is through, the processor time of all, the longest call of
//! fi_cq_read in processor time, and the memory that each peer costs.
#include "bench.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fi_errno.h>

#define NAME 64
#define MOST_PROCESSES 256
#define LIMIT 300.0

struct result {
	double cpu, longest, anonymous;
};

struct job {
	_Atomic uint64_t arrived;
	_Atomic bool failed;
	double began, opened, started, ended;
	double shmem_before, shmem_after;
	struct result start[MOST_PROCESSES], end[MOST_PROCESSES];
	char names[][NAME];
};

struct rank {
	struct job *job;
	size_t id, processes, endpoints;
	const char *provider;
	bool incast, timed;
	uint64_t phase, sent, received;
	double longest;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep **eps;
	fi_addr_t *peers;
};

static double clock_of(clockid_t id)
{
	struct timespec at;

	clock_gettime(id, &at);
	return at.tv_sec + at.tv_nsec * 1e-9;
}

static struct job *failed_job;

_Noreturn void stop(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	if (failed_job)
		atomic_store(&failed_job->failed, true);
	exit(1);
}

_Noreturn static void fail(const char *what, ssize_t rc)
{
	stop("%s: %s", what, fi_strerror((int) -rc));
}

#define OK(call)                                                                                                       \
	do {                                                                                                           \
		ssize_t ok_rc = (call);                                                                                \
                                                                                                                       \
		if (ok_rc)                                                                                             \
			fail(#call, ok_rc);                                                                            \
	} while (0)

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

static double cpu_seconds(void)
{
	return clock_of(CLOCK_PROCESS_CPUTIME_ID);
}

static void look(struct rank *r)
{
	struct fi_cq_tagged_entry entries[64];
	double before = r->timed ? clock_of(CLOCK_THREAD_CPUTIME_ID) : 0;
	ssize_t n = fi_cq_read(r->cq, entries, 64);

	if (r->timed) {
		double took = clock_of(CLOCK_THREAD_CPUTIME_ID) - before;

		if (took > r->longest)
			r->longest = took;
	}
	if (n == -FI_EAGAIN) {
		if (atomic_load(&r->job->failed))
			exit(1);
		sched_yield();
		return;
	}
	if (n < 0) {
		struct fi_cq_err_entry error = { 0 };

		if (n != -FI_EAVAIL)
			fail("fi_cq_read", n);
		fi_cq_readerr(r->cq, &error, 0);
		stop("process %zu: an operation failed: %s", r->id, fi_strerror(error.err));
	}
	for (ssize_t i = 0; i < n; i++) {
		if (entries[i].flags & FI_RECV)
			r->received++;
		else
			r->sent++;
	}
}

// Waits, and drives the endpoints meanwhile, until all processes have come here.
static void meet(struct rank *r, bool drives)
{
	uint64_t all = ++r->phase * r->processes;

	atomic_fetch_add(&r->job->arrived, 1);
	while (atomic_load(&r->job->arrived) < all) {
		if (drives)
			look(r);
		else
			sched_yield();
		if (atomic_load(&r->job->failed))
			exit(1);
	}
}

static struct fi_info *choose(const char *provider)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	bool has_names = !strcmp(provider, "shm") || !strcmp(provider, "sm2");

	hints->caps = FI_MSG | FI_TAGGED;
	hints->ep_attr->type = FI_EP_RDM;
	hints->addr_format = has_names ? FI_ADDR_STR : FI_SOCKADDR_IN;
	hints->fabric_attr->prov_name = strdup(provider);
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	OK(fi_getinfo(FI_VERSION(1, 20), has_names ? NULL : "127.0.0.1", NULL, has_names ? 0 : FI_SOURCE, hints, &info));
	fi_freeinfo(hints);
	return info;
}

static void open_all(struct rank *r)
{
	size_t count = r->processes * r->endpoints;
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .size = 2 * r->endpoints * count + 1024 };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE, .count = count };

	r->info = choose(r->provider);
	OK(fi_fabric(r->info->fabric_attr, &r->fabric, NULL));
	OK(fi_domain(r->fabric, r->info, &r->domain, NULL));
	OK(fi_cq_open(r->domain, &cq_attr, &r->cq, NULL));
	OK(fi_av_open(r->domain, &av_attr, &r->av, NULL));
	r->eps = calloc(r->endpoints, sizeof(*r->eps));
	r->peers = calloc(count, sizeof(*r->peers));
	for (size_t i = 0; i < r->endpoints; i++) {
		size_t len = NAME;

		OK(fi_endpoint(r->domain, r->info, &r->eps[i], NULL));
		OK(fi_ep_bind(r->eps[i], &r->av->fid, 0));
		OK(fi_ep_bind(r->eps[i], &r->cq->fid, FI_TRANSMIT | FI_RECV));
		OK(fi_enable(r->eps[i]));
		OK(fi_getname(&r->eps[i]->fid, r->job->names[r->id * r->endpoints + i], &len));
	}
}

static void insert_all(struct rank *r)
{
	for (size_t i = 0; i < r->processes * r->endpoints; i++) {
		if (fi_av_insert(r->av, r->job->names[i], 1, &r->peers[i], 0, NULL) != 1)
			stop("fi_av_insert did not take an address");
	}
}

#undef POST
#define POST(r, call)                                                                                                  \
	do {                                                                                                           \
		ssize_t post_rc;                                                                                       \
                                                                                                                       \
		while ((post_rc = (call)) == -FI_EAGAIN)                                                               \
			look(r);                                                                                       \
		if (post_rc)                                                                                           \
			fail(#call, post_rc);                                                                          \
	} while (0)

static void send_one(struct rank *r, size_t ep, size_t to)
{
	static char out[8];
	uint64_t tag = r->id * r->endpoints + ep;

	POST(r, fi_tsend(r->eps[ep], out, sizeof(out), NULL, r->peers[to], tag, NULL));
}

static void receive_one(struct rank *r, size_t ep, size_t from)
{
	static char in[8];

	POST(r, fi_trecv(r->eps[ep], in, sizeof(in), NULL, FI_ADDR_UNSPEC, from, 0, NULL));
}

static void start(struct rank *r)
{
	size_t count = r->processes * r->endpoints;
	uint64_t sends = 0, receives = 0;

	for (size_t ep = 0; ep < r->endpoints; ep++) {
		size_t own = r->id * r->endpoints + ep;

		for (size_t n = 1; n < count && (!r->incast || own == 0); n++, receives++)
			receive_one(r, ep, (own + n) % count);
	}
	for (size_t ep = 0; ep < r->endpoints; ep++) {
		size_t own = r->id * r->endpoints + ep;

		if (r->incast && own) {
			send_one(r, ep, 0);
			sends++;
		}
		for (size_t n = 1; n < count && !r->incast; n++, sends++)
			send_one(r, ep, (own + n) % count);
	}
	while (r->sent < sends || r->received < receives)
		look(r);
}

static void close_all(struct rank *r)
{
	for (size_t i = 0; i < r->endpoints; i++)
		OK(fi_close(&r->eps[i]->fid));
	OK(fi_close(&r->av->fid));
	OK(fi_close(&r->cq->fid));
	OK(fi_close(&r->domain->fid));
	OK(fi_close(&r->fabric->fid));
}

static void run(struct rank *r)
{
	struct job *job = r->job;
	double cpu, before;

	open_all(r);
	meet(r, true);
	insert_all(r);
	before = kernel_says("/proc/self/status", "RssAnon:");
	meet(r, true);
	if (r->id == 0) {
		job->shmem_before = kernel_says("/proc/meminfo", "Shmem:");
		job->opened = now();
	}
	meet(r, false);
	cpu = cpu_seconds();
	start(r);
	job->start[r->id].cpu = cpu_seconds() - cpu;
	meet(r, true);
	if (r->id == 0) {
		job->started = now();
		job->shmem_after = kernel_says("/proc/meminfo", "Shmem:");
	}
	job->start[r->id].longest = r->longest;
	job->start[r->id].anonymous = kernel_says("/proc/self/status", "RssAnon:") - before;
	meet(r, true);
	cpu = cpu_seconds();
	if (r->id == 0)
		before = now();
	close_all(r);
	job->end[r->id].cpu = cpu_seconds() - cpu;
	meet(r, false);
	if (r->id == 0)
		job->ended = now() - before;
}

double now(void)
{
	return clock_of(CLOCK_MONOTONIC);
}

static void print_all(const struct rank *r)
{
	const struct job *job = r->job;
	double start = 0, end = 0, longest = 0, memory = job->shmem_after - job->shmem_before;
	double count = r->processes * r->endpoints;

	for (size_t i = 0; i < r->processes; i++) {
		start += job->start[i].cpu;
		end += job->end[i].cpu;
		memory += job->start[i].anonymous;
		if (job->start[i].longest > longest)
			longest = job->start[i].longest;
	}
	printf("open %.3f s; start %.3f s, processor %.3f s; end %.3f s, processor %.3f s", job->opened - job->began,
	       job->started - job->opened, start, job->ended, end);
	printf("; memory per peer and side %.0f B", memory / (r->incast ? 2 * (count - 1) : count * (count - 1)));
	if (r->timed)
		printf("; longest poll %.3f ms", longest * 1e3);
	printf("\n");
}

int main(int argc, char **argv)
{
	struct rank r = { .provider = argc > 1 ? argv[1] : "" };
	bool failed = false;
	size_t size;

	if (argc < 5 || (strcmp(argv[4], "all") && strcmp(argv[4], "incast")))
		stop("usage: storm PROVIDER PROCESSES ENDPOINTS all|incast [polls]; ENDPOINTS of each process; polls: also "
		     "times each poll");
	r.processes = strtoul(argv[2], NULL, 10);
	r.endpoints = strtoul(argv[3], NULL, 10);
	r.incast = !strcmp(argv[4], "incast");
	r.timed = argc > 5;
	if (!r.processes || r.processes > MOST_PROCESSES || !r.endpoints)
		stop("1 to %d processes with an endpoint at least", MOST_PROCESSES);
	size = sizeof(struct job) + r.processes * r.endpoints * NAME;
	r.job = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (r.job == MAP_FAILED)
		stop("no memory");
	failed_job = r.job;
	r.job->began = now();
	for (r.id = 0; r.id < r.processes; r.id++) {
		pid_t child = fork();

		if (child < 0)
			stop("fork failed");
		if (child == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			alarm(LIMIT);
			run(&r);
			exit(0);
		}
	}
	for (size_t i = 0; i < r.processes; i++) {
		int status = 0;

		wait(&status);
		if (status) {
			atomic_store(&r.job->failed, true);
			failed = true;
			if (WIFSIGNALED(status))
				fprintf(stderr, "a process died of signal %d\n", WTERMSIG(status));
		}
	}
	if (!failed)
		print_all(&r);
	return failed;
}
