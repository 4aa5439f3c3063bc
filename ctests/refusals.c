// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Why fi_getinfo leaves something out, as the log at level info says it: one line for each field that kept entries of a
 * kind away, beginning with "refused: ". refusals.expected holds those lines.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#define V FI_VERSION(2, 6)

static FILE *log_file;

/* Prints what was refused since the last call, but for other providers. The rest of a line names process and time. */
static void print_refusals(void)
{
	char line[4096], *text;

	while (fgets(line, sizeof(line), log_file)) {
		text = strstr(line, "refused: ");
		if (text && !strstr(text, ": FI_PROVIDER: "))
			printf("  %s", text);
	}
	clearerr(log_file);
}

static void ask(const char *what, uint32_t version, const char *node, const char *service, uint64_t flags,
		const struct fi_info *hints)
{
	struct fi_info *list;
	int ret = fi_getinfo((int) version, node, service, flags, hints, &list);

	printf("%s: %d\n", what, ret);
	fi_freeinfo(list);
	print_refusals();
}

#define HINT(what) do { \
	struct fi_info *h = fi_allocinfo(); \
	if (!h) \
		return 2; \
	h->fabric_attr->prov_name = strdup("tcp"); \
	h->addr_format = FI_SOCKADDR_IN; \
	what; \
	ask(#what, V, NULL, NULL, 0, h); \
	fi_freeinfo(h); \
} while (0)

int main(void)
{
	char name[] = "/tmp/refusals.XXXXXX";
	int file = mkstemp(name);

	setenv("FI_TCP_IFACE", "lo", 1);
	setenv("FI_TCP_MAX_INJECT", "128", 1);
	setenv("FI_PROVIDER", "^udp,shm,sockets,sm2,verbs", 1);
	setenv("FI_LOG_LEVEL", "info", 1);
	setenv("FI_LOG_SUBSYS", "core", 1);
	log_file = file < 0 ? NULL : fopen(name, "r");	/* with an offset of its own */
	if (!log_file || unlink(name) || dup2(file, STDERR_FILENO) < 0)
		return 2;

	ask("version 3.0", FI_VERSION(3, 0), NULL, NULL, 0, NULL);
	ask("FI_SOURCE alone", V, NULL, NULL, FI_SOURCE, NULL);
	ask("service xx", V, "127.0.0.1", "xx", 0, NULL);
	HINT(free(h->fabric_attr->prov_name); h->fabric_attr->prov_name = strdup("verbs"));
	HINT(free(h->fabric_attr->prov_name); h->fabric_attr->prov_name = strdup("^tcp"));
	HINT(free(h->fabric_attr->prov_name); h->fabric_attr->prov_name = strdup("tcp;ofi_rxm"));
	HINT(free(h->fabric_attr->prov_name); h->fabric_attr->prov_name = strdup("ofi_rxm;tcp"));
	HINT(h->caps = FI_MSG | FI_MULTICAST);
	HINT(h->caps = FI_TAGGED);
	HINT(h->addr_format = FI_ADDR_STR);
	HINT(h->fabric_attr->prov_version = FI_VERSION(999, 1));
	HINT(h->fabric_attr->name = strdup("192.0.2.0/24"));
	HINT(h->domain_attr->name = strdup("ib0"));
	HINT(h->domain_attr->threading = (enum fi_threading) 2);
	HINT(h->domain_attr->mr_mode = 3);
	HINT(h->domain_attr->cntr_cnt = 1);
	HINT(h->domain_attr->caps = FI_SHARED_AV);
	HINT(h->ep_attr->type = FI_EP_DGRAM);
	HINT(h->ep_attr->type = (enum fi_ep_type) 4);
	HINT(h->ep_attr->protocol = FI_PROTO_RXM);
	HINT(h->ep_attr->tx_ctx_cnt = 65);
	HINT(h->ep_attr->type = FI_EP_MSG; h->ep_attr->tx_ctx_cnt = 2);
	HINT(h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; h->rx_attr->size = 2000);
	HINT(h->tx_attr->inject_size = 129);
	HINT(h->tx_attr->msg_order = 1ULL << 20 | FI_ORDER_SAS);
	HINT(h->tx_attr->comp_order = 1);
	HINT(h->tx_attr->op_flags = FI_FENCE);
	HINT(h->rx_attr->total_buffered_recv = 1);
	HINT(h->caps = FI_HMEM; h->tx_attr->size = 100000; h->domain_attr->name = strdup("ib0"));
	HINT(h->src_addr = calloc(1, 16); h->src_addrlen = 16);
	return 0;
}
