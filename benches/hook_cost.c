// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// hook_cost: nanoseconds of fi_cntr_read and of fi_cq_read of an empty queue, the minimum of 15 rounds. `make
// bench-hooks` runs it under each hook. The difference to a run without a hook is the cost of the hook for a call.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#define OK(call) do { int ret_ = (int) (call); if (ret_) { printf("%s: %d\n", #call, ret_); exit(1); } } while (0)
enum { ROUNDS = 15, CALLS = 1000000 };

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(void)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_cq_tagged_entry entry;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cntr *cntr;
	struct fid_cq *cq;
	double least[2] = {1e9, 1e9};

	hints->fabric_attr->prov_name = strdup("shm");
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	OK(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info));
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, info, &domain, NULL));
	OK(fi_cntr_open(domain, &cntr_attr, &cntr, NULL));
	OK(fi_cq_open(domain, &cq_attr, &cq, NULL));
	for (int round = 0; round < ROUNDS; round++) {
		double times[3] = {now()};

		for (int i = 0; i < CALLS; i++)
			fi_cntr_read(cntr);
		times[1] = now();
		for (int i = 0; i < CALLS; i++)
			fi_cq_read(cq, &entry, 1);
		times[2] = now();
		for (int call = 0; call < 2; call++) {
			double took = (times[call + 1] - times[call]) / CALLS;

			least[call] = took < least[call] ? took : least[call];
		}
	}
	printf("fi_cntr_read %5.1f  fi_cq_read %5.1f\n", least[0], least[1]);
	OK(fi_close(&cq->fid));
	OK(fi_close(&cntr->fid));
	OK(fi_close(&domain->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return 0;
}
