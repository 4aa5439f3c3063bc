// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Prints the entries of `verbs` for a list of queries, over the stand-in for rdma-core: one line for each, and all
//! fields of the first of each device.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

static struct fi_info *hints(void)
{
	struct fi_info *h = fi_allocinfo();

	h->fabric_attr->prov_name = strdup("verbs");
	h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	h->mode = FI_CONTEXT | FI_RX_CQ_DATA;
	h->ep_attr->type = FI_EP_MSG;
	return h;
}

static void address(const char *name, const void *addr, size_t len)
{
	const struct sockaddr_in *in = addr;
	char text[64] = "-";

	if (!addr)
		;
	else if (in->sin_family == AF_INET && len == sizeof(*in))
		inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
	else
		snprintf(text, sizeof(text), "family %d, %zu bytes", in->sin_family, len);
	printf(" %s %s", name, text);
	if (addr && in->sin_family == AF_INET)
		printf(":%d", ntohs(in->sin_port));
}

static void query(const char *title, uint32_t version, const char *node, const char *service, uint64_t flags,
		  struct fi_info *h)
{
	struct fi_info *found = NULL, *at;
	int rc = fi_getinfo(version, node, service, flags, h, &found);

	printf("== %s\n", title);
	if (rc)
		printf("none: %d\n", rc);
	for (at = rc ? NULL : found; at; at = at->next) {
		printf("%s %s %s type %d protocol %u format %u", at->fabric_attr->prov_name, at->domain_attr->name,
		       at->fabric_attr->name, at->ep_attr->type, at->ep_attr->protocol, at->addr_format);
		address("src", at->src_addr, at->src_addrlen);
		address("dest", at->dest_addr, at->dest_addrlen);
		printf(" inject %zu tx %zu/%zu rx %zu/%zu data %zu mr_mode 0x%x mode 0x%llx caps 0x%llx contexts %zd\n",
		       at->tx_attr->inject_size, at->tx_attr->size, at->tx_attr->iov_limit, at->rx_attr->size,
		       at->rx_attr->iov_limit, at->domain_attr->cq_data_size, at->domain_attr->mr_mode,
		       (unsigned long long)at->mode, (unsigned long long)at->caps, (ssize_t)at->ep_attr->rx_ctx_cnt);
	}
	fi_freeinfo(rc ? NULL : found);
	fi_freeinfo(h);
}

static void all_fields(void)
{
	struct fi_info *h = hints(), *found = NULL, *at;
	const char *last = "";

	if (fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, h, &found))
		found = NULL;
	for (at = found; at; at = at->next) {
		if (!strcmp(last, at->domain_attr->name))
			continue;
		last = at->domain_attr->name;
		printf("== all fields of %s\n%s", last, fi_tostr(at, FI_TYPE_INFO));
	}
	fi_freeinfo(found);
	fi_freeinfo(h);
}

int main(void)
{
	const uint32_t now = FI_VERSION(2, 6);
	struct fi_info *h;

#define ASK(title, node, service, flags, ...) \
	do { \
		h = hints(); \
		__VA_ARGS__; \
		query(title, now, node, service, flags, h); \
	} while (0)
	ASK("no limits", NULL, NULL, 0);
	ASK("without FI_RX_CQ_DATA", NULL, NULL, 0, h->mode = 0);
	ASK("FI_RX_CQ_DATA of receives only", NULL, NULL, 0, h->mode = FI_CONTEXT; h->rx_attr->mode = FI_RX_CQ_DATA);
	ASK("data without FI_RX_CQ_DATA", NULL, NULL, 0, h->mode = 0; h->domain_attr->cq_data_size = 4);
	ASK("4 bytes of data", NULL, NULL, 0, h->domain_attr->cq_data_size = 4);
	ASK("8 bytes of data", NULL, NULL, 0, h->domain_attr->cq_data_size = 8);
	ASK("protocol of another type", NULL, NULL, 0, h->ep_attr->protocol = FI_PROTO_IB_UD);
	ASK("protocol of another provider", NULL, NULL, 0, h->ep_attr->protocol = FI_PROTO_RXM);
	ASK("shared receive context", NULL, NULL, 0, h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT);
	ASK("without FI_MR_LOCAL", NULL, NULL, 0, h->domain_attr->mr_mode &= ~FI_MR_LOCAL);
	ASK("FI_MR_SCALABLE", NULL, NULL, 0, h->domain_attr->mr_mode = 2);
	ASK("FI_MR_BASIC", NULL, NULL, 0, h->domain_attr->mr_mode = 1);
	ASK("FI_MR_BASIC and FI_LOCAL_MR", NULL, NULL, 0, h->domain_attr->mr_mode = 1; h->mode |= 1ULL << 55);
	ASK("inject size too large", NULL, NULL, 0, h->tx_attr->inject_size = 300);
	ASK("largest queue", NULL, NULL, 0, h->tx_attr->size = 8192);
	ASK("queue too large", NULL, NULL, 0, h->tx_attr->size = 8193);
	ASK("FI_DELIVERY_COMPLETE", NULL, NULL, 0, h->tx_attr->op_flags = FI_DELIVERY_COMPLETE);
	ASK("FI_TRANSMIT_COMPLETE", NULL, NULL, 0, h->tx_attr->op_flags = FI_TRANSMIT_COMPLETE);
	ASK("a counter", NULL, NULL, 0, h->domain_attr->cntr_cnt = 1);
	ASK("models", NULL, NULL, 0, h->domain_attr->av_type = FI_AV_TABLE;
	    h->domain_attr->progress = FI_PROGRESS_MANUAL; h->domain_attr->threading = FI_THREAD_DOMAIN);
	ASK("tagged", NULL, NULL, 0, h->caps = FI_MSG | FI_TAGGED);
	ASK("only RMA", NULL, NULL, 0, h->caps = FI_RMA);
	ASK("source", "10.91.0.1", "7000", FI_SOURCE);
	ASK("source on any interface", NULL, "7000", FI_SOURCE);
	ASK("source 0.0.0.0", "0.0.0.0", "7000", FI_SOURCE);
	ASK("source on loopback", "127.0.0.1", "7000", FI_SOURCE);
	ASK("source without a device", "172.31.0.9", "7000", FI_SOURCE);
	ASK("destination", "10.92.0.1", "7000", 0);
	ASK("unreachable destination", "10.99.0.1", "7000", 0);
	ASK("service alone", NULL, "7000", 0);
	ASK("format IB", NULL, NULL, 0, h->addr_format = FI_SOCKADDR_IB);
	ASK("format IPv4", NULL, NULL, 0, h->addr_format = FI_SOCKADDR_IN);
	ASK("format IPv6", NULL, NULL, 0, h->addr_format = FI_SOCKADDR_IN6);
	ASK("source of InfiniBand", "[fe80::1:2:c903:0:11]:0xffff:0x13f:0x0", "7471", FI_SOURCE,
	    h->addr_format = FI_SOCKADDR_IB);
	ASK("domain", NULL, NULL, 0, h->domain_attr->name = strdup("MLX5_0"));
	ASK("beginning of a domain", NULL, NULL, 0, h->domain_attr->name = strdup("mlx5"));
	h = hints();
	h->domain_attr->mr_mode = 0;
	h->mode |= 1ULL << 55;
	query("version 1.4", FI_VERSION(1, 4), NULL, NULL, 0, h);
	all_fields();
	return 0;
}
