// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// traffic PROVIDER [wait_set]: an endpoint sends to itself: 10 tagged messages of 8 bytes and 5 of 1,000, an injected
// message, one that is too long for injection, and one that is too long for its receive. Writes 100 bytes to a region;
// opens and closes two fabrics and a wait set. Failures are printed.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define OK(call) do { int ret_ = (int) (call); if (ret_) { printf("%s: %d\n", #call, ret_); exit(1); } } while (0)
enum { LIMIT = 20, SMALL = 8, LARGE = 1000 };

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_av *av;
static struct fid_cq *cq;
static struct fid_cntr *cntr;
static struct fid_ep *ep;
static struct fid_mr *mr;
static fi_addr_t self;
static char out[LARGE], in[LARGE], target[100];

// Waits for `count` completions and returns the number of errors among them.
static int wait_for(int count)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	time_t end = time(NULL) + LIMIT;
	int errors = 0;

	while (count > 0) {
		ssize_t ret = fi_cq_read(cq, &entry, 1);

		if (ret == 1) {
			count--;
		} else if (ret == -FI_EAVAIL) {
			OK(fi_cq_readerr(cq, &error, 0) != 1);
			errors++;
			count--;
		} else if (ret != -FI_EAGAIN || time(NULL) > end) {
			printf("fi_cq_read: %zd\n", ret);
			exit(1);
		}
	}
	return errors;
}

static void message(size_t len, size_t room)
{
	time_t end = time(NULL) + LIMIT;
	ssize_t ret;

	OK(fi_trecv(ep, in, room, NULL, FI_ADDR_UNSPEC, 7, 0, in));
	// A layered provider has to connect first.
	while ((ret = fi_tsend(ep, out, len, NULL, self, 7, out)) == -FI_EAGAIN && time(NULL) < end)
		fi_cq_read(cq, NULL, 0);
	OK(ret);
	OK(wait_for(2) != (len > room));
	if (memcmp(in, out, len < room ? len : room)) {
		printf("other bytes\n");
		exit(1);
	}
}

// Opens a queue of a wait set and checks that its attributes stay unchanged.
static void wait_set(void)
{
	struct fi_wait_attr set_attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_cq_attr attr = {.wait_obj = FI_WAIT_SET};
	struct fid_wait *set;
	struct fid_cq *queue;

	OK(fi_wait_open(fabric, &set_attr, &set));
	attr.wait_set = set;
	OK(fi_cq_open(domain, &attr, &queue, NULL));
	OK(attr.wait_set != set);
	OK(fi_wait(set, 0) != -FI_ETIMEDOUT);
	OK(fi_close(&queue->fid));
	OK(fi_close(&set->fid));
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_NONE, .flags = FI_WRITE};
	struct fi_eq_entry event = {0};
	uint32_t kind;
	struct fid_fabric *second;
	char name[256];
	size_t size = sizeof(name);

	hints->fabric_attr->prov_name = strdup(argc > 1 ? argv[1] : "tcp");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED | FI_RMA;
	OK(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info));
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_fabric(info->fabric_attr, &second, NULL));
	OK(fi_domain(fabric, info, &domain, NULL));
	OK(fi_eq_open(fabric, &eq_attr, &eq, NULL));
	OK(fi_av_open(domain, &av_attr, &av, NULL));
	OK(fi_cq_open(domain, &cq_attr, &cq, NULL));
	OK(fi_cntr_open(domain, &cntr_attr, &cntr, NULL));
	OK(fi_endpoint(domain, info, &ep, NULL));
	OK(fi_ep_bind(ep, &eq->fid, 0));
	OK(fi_ep_bind(ep, &av->fid, 0));
	OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(ep, &cntr->fid, FI_SEND));
	OK(fi_enable(ep));
	OK(fi_getname(&ep->fid, name, &size));
	OK(fi_av_insert(av, name, 1, &self, 0, NULL) != 1);
	// The queue is still empty, twice.
	for (int i = 0; i < 2; i++)
		OK(fi_cq_read(cq, NULL, 0) != -FI_EAGAIN);
	memset(out, 'o', sizeof(out));
	for (int i = 0; i < 10; i++)
		message(SMALL, LARGE);
	for (int i = 0; i < 5; i++)
		message(LARGE, LARGE);
	message(SMALL, SMALL / 2);
	OK(fi_trecv(ep, in, LARGE, NULL, FI_ADDR_UNSPEC, 7, 0, in));
	OK(fi_tinject(ep, out, SMALL, self, 7));
	// Refused, so only hooks that count calls count it.
	OK(info->tx_attr->inject_size < LARGE && fi_tinject(ep, out, LARGE, self, 7) == 0);
	OK(wait_for(1));
	OK(fi_mr_reg(domain, target, sizeof(target), FI_REMOTE_WRITE, 0, 5, 0, &mr, NULL));
	OK(fi_write(ep, out, sizeof(target), NULL, self, info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t) target : 0,
		    fi_mr_key(mr), out));
	OK(wait_for(1));
	for (time_t end = time(NULL) + LIMIT; memcmp(target, out, sizeof(target)) && time(NULL) < end;)
		fi_cq_read(cq, NULL, 0);
	OK(memcmp(target, out, sizeof(target)));
	OK(fi_eq_write(eq, FI_NOTIFY, &event, sizeof(event), 0) != sizeof(event));
	OK(fi_eq_read(eq, &kind, &event, sizeof(event), 0) != sizeof(event));
	if (argc > 2)
		wait_set();
	OK(fi_close(&mr->fid));
	OK(fi_close(&ep->fid));
	OK(fi_close(&cntr->fid));
	OK(fi_close(&cq->fid));
	OK(fi_close(&av->fid));
	OK(fi_close(&eq->fid));
	OK(fi_close(&domain->fid));
	OK(fi_close(&second->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	printf("done\n");
	return 0;
}
