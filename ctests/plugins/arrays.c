// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// arrays [fd]: puts objects of the loadable provider "carry", with or without descriptors, into the arrays and poll
// sets of tcp, which must call them through their own tables.

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

#define OK(call) do { int ret_ = (int) (call); if (ret_) { printf("%s: %d\n", #call, ret_); exit(1); } } while (0)
enum { LIMIT = 20 };

static struct fi_info *find(const char *provider, enum fi_ep_type type)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	hints->fabric_attr->prov_name = strdup(provider);
	hints->ep_attr->type = type;
	OK(fi_getinfo(FI_VERSION(2, 0), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
	fi_freeinfo(hints);
	return info;
}

int main(int argc, char **argv)
{
	struct fi_info *ours = find("tcp", FI_EP_RDM), *theirs = find("carry", FI_EP_DGRAM);
	struct fid_fabric *fabric, *other;
	struct fid_domain *domain, *other_domain;
	struct fid_cq *cq, *other_cq;
	struct fid_eq *other_eq;
	struct fid_cntr *other_cntr;
	struct fid_av *av;
	struct fid_ep *ep;
	struct fid_poll *set;
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};
	struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_FD, .flags = FI_WRITE};
	struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_poll_attr poll_attr = {0};
	struct fi_cq_msg_entry entry;
	struct fi_eq_entry event = {0};
	char name[256], out[8] = "message", in[8] = "";
	size_t size = sizeof(name);
	void *contexts[4];
	uint32_t kind;
	fi_addr_t self;

	(void) argv;

	OK(fi_fabric(ours->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, ours, &domain, NULL));
	OK(fi_cq_open(domain, &cq_attr, &cq, "ours"));
	OK(fi_fabric(theirs->fabric_attr, &other, NULL));
	OK(fi_domain(other, theirs, &other_domain, NULL));
	cq_attr.wait_obj = argc > 1 ? FI_WAIT_FD : FI_WAIT_NONE;
	OK(fi_cq_open(other_domain, &cq_attr, &other_cq, "queue"));
	OK(fi_eq_open(other, &eq_attr, &other_eq, "events"));
	OK(fi_cntr_open(other_domain, &cntr_attr, &other_cntr, "counter"));
	OK(fi_av_open(other_domain, &av_attr, &av, NULL));
	OK(fi_endpoint(other_domain, theirs, &ep, NULL));
	OK(fi_ep_bind(ep, &av->fid, 0));
	OK(fi_ep_bind(ep, &other_cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(ep));
	OK(fi_getname(&ep->fid, name, &size));
	OK(fi_av_insert(av, name, 1, &self, 0, NULL) != 1);

	struct fid *all[] = {&cq->fid, &other_cq->fid, &other_eq->fid};
	struct fid *wrong[] = {&av->fid};

	OK(fi_poll_open(domain, &poll_attr, &set));
	OK(fi_poll_add(set, &cq->fid, 0));
	OK(fi_poll_add(set, &other_cq->fid, 0));
	OK(fi_poll_add(set, &other_cntr->fid, 0));
	OK(fi_poll_add(set, &av->fid, 0) != -FI_EINVAL);

	// Nothing has arrived.
	OK(fi_poll(set, contexts, 4));
	OK(fi_trywait(fabric, all, 3));
	OK(fi_trywait(fabric, wrong, 1) != -FI_EINVAL);

	// A message.
	OK(fi_recv(ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, NULL));
	OK(fi_send(ep, out, sizeof(out), NULL, self, NULL));
	time_t end = time(NULL) + LIMIT;
	int got = 0;

	while (got < 2 && time(NULL) < end) {
		int found = fi_poll(set, contexts, 4);

		OK(found < 0 || found > 1);
		if (!found)
			continue;
		OK(strcmp(contexts[0], "queue"));
		OK(fi_trywait(fabric, all, 3) != -FI_EAGAIN);
		OK(fi_cq_read(other_cq, &entry, 1) != 1);
		got++;
	}
	OK(got != 2);
	OK(memcmp(in, out, sizeof(in)));
	OK(fi_poll(set, contexts, 4));
	OK(fi_trywait(fabric, all, 3));

	// An event, which stays in the queue until it is read.
	OK(fi_eq_write(other_eq, FI_NOTIFY, &event, sizeof(event), 0) != sizeof(event));
	OK(fi_trywait(fabric, all, 3) != -FI_EAGAIN);
	OK(fi_eq_read(other_eq, &kind, &event, sizeof(event), 0) != sizeof(event));
	OK(fi_trywait(fabric, all, 3));

	// A change of a counter is reported once.
	OK(fi_cntr_add(other_cntr, 3));
	OK(fi_poll(set, contexts, 4) != 1);
	OK(strcmp(contexts[0], "counter"));
	OK(fi_poll(set, contexts, 4));

	OK(fi_poll_del(set, &cq->fid, 0));
	OK(fi_poll_del(set, &other_cq->fid, 0));
	OK(fi_poll_del(set, &other_cntr->fid, 0));
	OK(fi_close(&set->fid));
	OK(fi_close(&ep->fid));
	OK(fi_close(&av->fid));
	OK(fi_close(&other_cntr->fid));
	OK(fi_close(&other_eq->fid));
	OK(fi_close(&other_cq->fid));
	OK(fi_close(&other_domain->fid));
	OK(fi_close(&other->fid));
	OK(fi_close(&cq->fid));
	OK(fi_close(&domain->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(ours);
	fi_freeinfo(theirs);
	printf("done\n");
	return 0;
}
