// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! collective [-t MILLISECONDS] FORM RANKS...: forks RANKS processes that carry out consecutive collectives; FORM is
//! barrier or allreduce (FI_SUM of one double). Prints a line for each number of ranks: collective, form, ranks, value,
//! unit.
//!
//! Rank i is pinned to core i modulo the number of cores. mpi_collective.py measures the same with an MPI for
//! comparison.
#include "bench.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fi_collective.h>
#include <rdma/fi_errno.h>

enum { MOST = 64, NAME = 64, WARM_UP = 50 };

// Memory that the processes share.
struct common {
	char names[MOST][NAME];
	_Atomic size_t named, joined, closing;
	// Set by rank 0.
	_Atomic uint64_t rounds;
};

struct rank {
	struct common *common;
	size_t number, ranks;
	double budget;
	bool reduces;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	struct fid_av_set *set;
	struct fid_mc *mc;
	fi_addr_t group;
	double in, out;
	fi_addr_t at[MOST];
};

#define OK(call)                                                                                                       \
	do {                                                                                                           \
		ssize_t ok_rc = (call);                                                                                \
                                                                                                                       \
		if (ok_rc)                                                                                             \
			stop("%s: %s", #call, fi_strerror((int) -ok_rc));                                              \
	} while (0)

static void open_rank(struct rank *r)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_CONTEXT, .wait_obj = FI_WAIT_NONE };
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_NONE };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE, .count = r->ranks };
	size_t len = NAME;

	if (!hints)
		stop("no memory");
	hints->caps = FI_MSG | FI_COLLECTIVE;
	hints->ep_attr->type = FI_EP_RDM;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->fabric_attr->prov_name = strdup("tcp");
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	OK(fi_getinfo(FI_VERSION(1, 20), "127.0.0.1", NULL, FI_SOURCE, hints, &r->info));
	fi_freeinfo(hints);
	OK(fi_fabric(r->info->fabric_attr, &r->fabric, NULL));
	OK(fi_eq_open(r->fabric, &eq_attr, &r->eq, NULL));
	OK(fi_domain(r->fabric, r->info, &r->domain, NULL));
	OK(fi_cq_open(r->domain, &cq_attr, &r->cq, NULL));
	OK(fi_av_open(r->domain, &av_attr, &r->av, NULL));
	OK(fi_endpoint(r->domain, r->info, &r->ep, NULL));
	OK(fi_ep_bind(r->ep, &r->av->fid, 0));
	OK(fi_ep_bind(r->ep, &r->cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(r->ep, &r->eq->fid, 0));
	OK(fi_enable(r->ep));
	OK(fi_getname(&r->ep->fid, r->common->names[r->number], &len));
}

static void look(struct rank *r)
{
	struct fi_cq_entry entry;
	ssize_t n = fi_cq_read(r->cq, &entry, 1);

	if (n != -FI_EAGAIN)
		stop("fi_cq_read: %zd where nothing is due", n);
}

static void join(struct rank *r)
{
	struct fi_av_set_attr attr = { .count = r->ranks, .start_addr = 0, .end_addr = r->ranks - 1, .stride = 1 };
	struct fi_eq_entry entry;
	uint32_t event;
	ssize_t n;

	r->common->named++;
	while (r->common->named < r->ranks)
		usleep(100);
	for (size_t i = 0; i < r->ranks; i++) {
		if (fi_av_insert(r->av, r->common->names[i], 1, &r->at[i], 0, NULL) != 1)
			stop("fi_av_insert did not take an address");
	}
	OK(fi_av_set(r->av, &attr, &r->set, NULL));
	OK(fi_join_collective(r->ep, FI_ADDR_NOTAVAIL, r->set, 0, &r->mc, NULL));
	while ((n = fi_eq_read(r->eq, &event, &entry, sizeof(entry), 0)) == -FI_EAGAIN)
		;
	if (n != sizeof(entry) || event != FI_JOIN_COMPLETE)
		stop("no FI_JOIN_COMPLETE but %zd", n);
	r->group = fi_mc_addr(r->mc);
	// A rank that has joined keeps polling, because others may need its progress.
	r->common->joined++;
	while (r->common->joined < r->ranks)
		look(r);
}

static void one(struct rank *r)
{
	struct fi_cq_entry entry;
	ssize_t n;

	if (r->reduces)
		OK(fi_allreduce(r->ep, &r->in, 1, NULL, &r->out, NULL, r->group, FI_DOUBLE, FI_SUM, 0, NULL));
	else
		OK(fi_barrier(r->ep, r->group, NULL));
	while ((n = fi_cq_read(r->cq, &entry, 1)) == -FI_EAGAIN)
		;
	if (n != 1)
		stop("a collective failed: %zd", n);
}

static double many(struct rank *r, uint64_t rounds)
{
	double start = now();

	for (uint64_t i = 0; i < rounds; i++)
		one(r);
	return now() - start;
}

static void run(struct rank *r)
{
	double seconds;

	r->in = (double) r->number;
	open_rank(r);
	join(r);
	seconds = many(r, WARM_UP);
	if (!r->number)
		r->common->rounds = 2 + (uint64_t) (r->budget / seconds * WARM_UP);
	// Rank 0 has stored the number of rounds before it enters the barrier.
	one(r);
	seconds = many(r, r->common->rounds);
	if (r->reduces && r->out != (double) (r->ranks * (r->ranks - 1) / 2))
		stop("the sum is wrong: %g", r->out);
	if (!r->number)
		print("collective", r->reduces ? "allreduce" : "barrier", r->ranks, seconds / r->common->rounds * 1e6, "us");
	r->common->closing++;
	while (r->common->closing < r->ranks)
		look(r);
	OK(fi_close(&r->mc->fid));
	OK(fi_close(&r->set->fid));
	OK(fi_close(&r->ep->fid));
	OK(fi_close(&r->av->fid));
	OK(fi_close(&r->cq->fid));
	OK(fi_close(&r->domain->fid));
	OK(fi_close(&r->eq->fid));
	OK(fi_close(&r->fabric->fid));
	fi_freeinfo(r->info);
}

// Returns true if all ranks succeeded.
static bool measure(struct rank *model)
{
	struct common *common = mmap(NULL, sizeof(*common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	pid_t ranks[MOST];
	bool good = true;

	if (common == MAP_FAILED)
		stop("no memory");
	model->common = common;
	fflush(stdout);
	for (size_t i = 0; i < model->ranks; i++) {
		ranks[i] = fork();
		if (ranks[i] < 0)
			stop("no process");
		if (!ranks[i]) {
			model->number = i;
			pin((int) (i % (size_t) cores));
			run(model);
			fflush(stdout);
			_exit(0);
		}
	}
	for (size_t i = 0; i < model->ranks; i++) {
		int status;

		wait(&status);
		// A rank failed, and the others would wait for it; they are killed, and there is no result.
		for (size_t k = 0; status && good && k < model->ranks; k++)
			kill(ranks[k], SIGKILL);
		good = good && !status;
	}
	munmap(common, sizeof(*common));
	return good;
}

int main(int argc, char **argv)
{
	struct rank model = { .budget = 0.05 };
	int option;

	while ((option = getopt(argc, argv, "t:")) != -1) {
		if (option != 't')
			return 2;
		model.budget = atof(optarg) / 1e3;
	}
	if (argc - optind < 2) {
		fprintf(stderr, "usage: collective [-t milliseconds] barrier|allreduce ranks...\n");
		return 2;
	}
	model.reduces = !strcmp(argv[optind], "allreduce");
	for (int i = optind + 1; i < argc; i++) {
		model.ranks = strtoull(argv[i], NULL, 0);
		if (model.ranks < 1 || model.ranks > MOST)
			stop("1 to %d ranks", MOST);
		if (!measure(&model))
			return 1;
	}
	return 0;
}
