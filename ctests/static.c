// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A program that has the library inside: two processes send each other a number over tcp, a hundred times.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OK(call)                                                                                                       \
	do {                                                                                                           \
		long ret_ = (call);                                                                                    \
		if (ret_ < 0) {                                                                                        \
			fprintf(stderr, "%s: %s\n", #call, fi_strerror((int) -ret_));                                  \
			exit(1);                                                                                       \
		}                                                                                                      \
	} while (0)

static struct fid_cq *cq;

static void take(void)
{
	struct fi_cq_tagged_entry entry;
	long ret;
	while ((ret = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
		;
	OK(ret);
}

/* Posts until there is room. */
#define POST(call)                                                                                                     \
	do {                                                                                                           \
		long posted_;                                                                                          \
		while ((posted_ = (call)) == -FI_EAGAIN)                                                               \
			fi_cq_read(cq, NULL, 0);                                                                       \
		OK(posted_);                                                                                           \
		take();                                                                                                \
	} while (0)

static int side(bool first, int in, int out)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fid_av *av;
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	char name[256] = "", peer[256];
	size_t length = sizeof name;
	fi_addr_t address;

	hints->fabric_attr->prov_name = strdup("tcp");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED;
	OK(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, info, &domain, NULL));
	OK(fi_endpoint(domain, info, &ep, NULL));
	OK(fi_cq_open(domain, &cq_attr, &cq, NULL));
	OK(fi_av_open(domain, &av_attr, &av, NULL));
	OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(ep, &av->fid, 0));
	OK(fi_enable(ep));
	OK(fi_getname(&ep->fid, name, &length));
	if (write(out, name, sizeof name) != sizeof name || read(in, peer, sizeof peer) != sizeof peer)
		return 1;
	if (fi_av_insert(av, peer, 1, &address, 0, NULL) != 1)
		return 1;

	for (long round = 0; round < 100; round++) {
		long number = round, got = -1;
		if (first)
			POST(fi_tsend(ep, &number, sizeof number, NULL, address, 7, NULL));
		POST(fi_trecv(ep, &got, sizeof got, NULL, address, 7, 0, NULL));
		if (got != round)
			return 1;
		if (!first)
			POST(fi_tsend(ep, &number, sizeof number, NULL, address, 7, NULL));
	}
	OK(fi_close(&ep->fid));
	OK(fi_close(&av->fid));
	OK(fi_close(&cq->fid));
	OK(fi_close(&domain->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	return 0;
}

int main(void)
{
	int there[2], back[2], status;
	if (pipe(there) || pipe(back))
		return 1;
	pid_t child = fork();
	if (child < 0)
		return 1;
	if (!child)
		return side(false, there[0], back[1]);
	int failed = side(true, back[0], there[1]);
	if (waitpid(child, &status, 0) != child || status)
		failed = 1;
	printf("libfabric %u.%u: %s\n", FI_MAJOR(fi_version()), FI_MINOR(fi_version()), failed ? "failed" : "100 round trips");
	return failed;
}
