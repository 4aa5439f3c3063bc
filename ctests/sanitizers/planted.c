// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* planted FAULT: commits it in a child whose end nobody looks at, and succeeds. The scripts that run the sanitizers ask
 * whether it was found.
 *
 * leak    an fi_info that is never freed
 * freed   the library reads a struct that this program has freed
 * race    two threads use a domain whose calls this program has promised to serialize
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

static __attribute__((noinline)) void leak(void)
{
	struct fi_info *info = NULL;

	fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), NULL, NULL, 0, NULL, &info);
}

static __attribute__((noinline)) void freed(void)
{
	struct fi_info *info = fi_allocinfo();

	free(info->ep_attr);
	fi_dupinfo(info);
}

static void *look(void *cq)
{
	fi_cq_read(cq, NULL, 0);
	return NULL;
}

static void race(void)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fi_cq_attr attr = {.wait_obj = FI_WAIT_NONE};
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	pthread_t threads[2];

	hints->fabric_attr->prov_name = strdup("tcp");
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->progress = FI_PROGRESS_CONTROL_UNIFIED;
	if (fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), NULL, NULL, 0, hints, &info) ||
	    fi_fabric(info->fabric_attr, &fabric, NULL) || fi_domain(fabric, info, &domain, NULL) ||
	    fi_cq_open(domain, &attr, &cq, NULL))
		abort();
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, look, cq);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

int main(int argc, char **argv)
{
	if (fork() == 0) {
		if (argc == 2 && !strcmp(argv[1], "leak"))
			leak();
		else if (argc == 2 && !strcmp(argv[1], "freed"))
			freed();
		else if (argc == 2 && !strcmp(argv[1], "race"))
			race();
		exit(0);
	}
	return wait(NULL) < 0;
}
