// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// slow OWN PEER [first]: two processes with ofi_rxm over verbs send each other 300 short messages, faster than either takes
// them: each rests after every message that it has received. The one that is `first` waits for a message of the other.
#include <arpa/inet.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "must.h"

enum { COUNT = 300, LEN = 64, LIMIT_S = 90, REST_NS = 2000000 };

static const char *const PORT = "7482";

int main(int argc, char **argv)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE, .size = 1024 };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	static char out[COUNT][LEN], in[LEN];
	struct fi_context2 contexts[COUNT + 1];
	struct fi_info *hints = fi_allocinfo(), *info;
	struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(7482) };
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	fi_addr_t to;
	int sent = 0, left = 0, received = 0;
	time_t end = time(NULL) + LIMIT_S;
	bool first = argc > 3, is_posted = false;

	CHECK(argc > 2 && hints && inet_pton(AF_INET, argv[2], &peer.sin_addr) == 1);
	hints->fabric_attr->prov_name = strdup("verbs;ofi_rxm");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_TAGGED;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	OK(fi_getinfo(FI_VERSION(1, 20), argv[1], PORT, FI_SOURCE, hints, &info));
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, info, &domain, NULL));
	OK(fi_cq_open(domain, &cq_attr, &cq, NULL));
	OK(fi_av_open(domain, &av_attr, &av, NULL));
	OK(fi_endpoint(domain, info, &ep, NULL));
	OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(ep, &av->fid, 0));
	OK(fi_enable(ep));
	RC(fi_av_insert(av, &peer, 1, &to, 0, NULL), 1);
	while (left < COUNT || received < COUNT) {
		struct fi_cq_tagged_entry entry;
		ssize_t rc;

		CHECK(time(NULL) < end);
		if (!is_posted && received < COUNT) {
			OK(fi_trecv(ep, in, LEN, NULL, FI_ADDR_UNSPEC, received, 0, &contexts[COUNT]));
			is_posted = true;
		}
		while (sent < COUNT && (!first || received)) {
			memset(out[sent], sent, LEN);
			rc = fi_tsend(ep, out[sent], LEN, NULL, to, sent, &contexts[sent]);
			if (rc == -FI_EAGAIN)
				break;
			OK(rc);
			sent++;
		}
		rc = fi_cq_read(cq, &entry, 1);
		if (rc == -FI_EAGAIN)
			continue;
		if (rc == -FI_EAVAIL) {
			struct fi_cq_err_entry error = { 0 };

			fi_cq_readerr(cq, &error, 0);
			FAIL("error %d after %d sent, %d received", error.err, left, received);
		}
		RC(rc, 1);
		if (entry.flags & FI_SEND) {
			left++;
			continue;
		}
		CHECK(entry.len == LEN && in[0] == (char)received && in[LEN - 1] == (char)received);
		received++;
		is_posted = false;
		nanosleep(&(struct timespec){ .tv_nsec = REST_NS }, NULL);
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
