// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Some hundreds of fi_getinfo calls on the tcp core provider, and their results.
 *
 * The output is the same for every library that follows the rules: it is compared with getinfo.expected, and the output
 * of another libfabric can be compared with it, too.
 *
 * usage: getinfo [all] [same]
 *   all    requests every interface and prints IPv6 entries too, which not every machine has
 *   same   leaves out calls that this library answers differently on purpose (docs/differences.md)
 */
#include "getinfo.h"

/* Hints that leave only the entries of the tcp core provider. */
static struct fi_info *new_hints(void)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		abort();
	hints->fabric_attr->prov_name = strdup("tcp;^ofi_rxm");
	hints->mode = ~0ULL;
	hints->domain_attr->mode = ~0ULL;
	hints->domain_attr->mr_mode = ~3;	/* all but the two legacy modes, whose names warn */
	return hints;
}

/* Capabilities that only this library's tcp has. */
#define OWN_CAPS (FI_FENCE | FI_SOURCE_ERR | FI_TRIGGER | FI_COLLECTIVE | FI_TAGGED_MULTI_RECV | \
		  FI_TAGGED_DIRECTED_RECV | FI_EXACT_DIRECTED_RECV | FI_AV_USER_ID | FI_NAMED_RX_CTX | FI_ATOMIC | \
		  FI_SHARED_AV)
/* Orders that only this library's tcp offers, on request. */
#define OWN_ORDERS (FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RMA_WAR | FI_ORDER_ATOMIC_WAR)

static void test_versions(void)
{
	static const int modes[] = { 0, 1, 2, 3, 4, 0x10, 0x11, 0x12, 0x74, 0xffc, 0x1000, -1, -4 };
	struct fi_info *h;
	size_t i, j;

	for (i = 0; i < COUNT(versions); i++) {
		ask(versions[i], NULL, NULL, 0, NULL, "version %#x, no hints", versions[i]);
		h = new_hints();
		h->domain_attr->mr_mode = 0;
		ask(versions[i], NULL, NULL, 0, h, "version %#x, hints", versions[i]);
		fi_freeinfo(h);
	}
	/* Values that 1.x had and 2.x removed. */
	for (j = 0; !only_same && j < COUNT(versions); j++) {
		if (versions[j] != FI_VERSION(1, 4) && versions[j] != FI_VERSION(1, 20) && versions[j] != FI_VERSION(2, 0))
			continue;
#define EARLY(what) do { \
		h = new_hints(); \
		h->domain_attr->mr_mode = 0; \
		what; \
		ask(versions[j], NULL, NULL, 0, h, "version %#x, %s", versions[j], #what); \
		fi_freeinfo(h); \
	} while (0)
		EARLY(h->domain_attr->threading = (enum fi_threading) 2);
		EARLY(h->domain_attr->threading = (enum fi_threading) 5);
		EARLY(h->caps = 1ULL << 48);	/* FI_VARIABLE_MSG until 2.0 */
		EARLY(h->tx_attr->comp_order = 511);
		EARLY(h->rx_attr->comp_order = 1 << 16);
		EARLY(h->rx_attr->comp_order = 511);
	}
	for (i = 0; i < COUNT(modes); i++) {
		for (j = 0; j < COUNT(versions); j++) {
			if (versions[j] != FI_VERSION(1, 4) && versions[j] != FI_VERSION(1, 5) && versions[j] != V)
				continue;
			h = new_hints();
			h->domain_attr->mr_mode = modes[i];
			ask(versions[j], NULL, NULL, 0, h, "version %#x, mr_mode %#x", versions[j], modes[i]);
			h->mode = 1ULL << 55;	/* FI_LOCAL_MR */
			ask(versions[j], NULL, NULL, 0, h, "version %#x, mr_mode %#x, FI_LOCAL_MR", versions[j], modes[i]);
			h->caps = FI_RMA | FI_HMEM;
			ask(versions[j], NULL, NULL, 0, h, "version %#x, mr_mode %#x, RMA HMEM", versions[j], modes[i]);
			fi_freeinfo(h);
		}
	}
	/* Hints whose meaning depends on the version. */
	for (j = 0; j < COUNT(versions); j++) {
#define LATE(what) do { \
		h = new_hints(); \
		h->domain_attr->mr_mode = 0; \
		h->domain_attr->what; \
		ask(versions[j], NULL, NULL, 0, h, "version %#x, domain %s", versions[j], #what); \
		fi_freeinfo(h); \
	} while (0)
		LATE(cntr_cnt = 1);
		LATE(mr_iov_limit = 2);
		if (!only_same)
			LATE(caps = FI_SHARED_AV);
		LATE(mode = 0);
		if (!only_same)
			LATE(auth_key_size = 1);
		LATE(max_err_data = 1);
		LATE(mr_cnt = 1);
		if (!only_same)
			LATE(max_ep_auth_key = 1);
		LATE(max_cntr_value = 5);
		LATE(max_err_cntr_value = 5);
		h = new_hints();
		h->domain_attr->mr_mode = 0;
		h->ep_attr->auth_key_size = 1;
		if (!only_same)
			ask(versions[j], NULL, NULL, 0, h, "version %#x, endpoint auth_key_size = 1", versions[j]);
		fi_freeinfo(h);
	}
}

static void test_info(void)
{
	HINT((void) h);
	CAP_BITS(h->caps = v);
	EACH(h->caps = v, FI_MSG | FI_RECV, FI_MSG | FI_SEND, FI_MSG | FI_RMA, FI_MSG | FI_TAGGED, FI_RMA | FI_READ,
	     FI_RMA | FI_REMOTE_WRITE, FI_TAGGED | FI_RECV | FI_SOURCE, FI_MSG | FI_DIRECTED_RECV,
	     FI_MSG | FI_LOCAL_COMM | FI_REMOTE_COMM, FI_MSG | FI_MULTI_RECV,
	     FI_MSG | FI_TAGGED | FI_RMA | FI_RMA_EVENT | FI_SOURCE, ~0ULL);
	BITS(h->mode = v);
	HINT(h->mode = 0);
	EACH(h->addr_format = (uint32_t) v, 0, 1, 2, 3, 4, 5, 9, 10, 16, 17, 18, 99, UINT32_MAX);
	HINT(h->handle = (fid_t) (uintptr_t) 0x1000);
	HINT(free(h->tx_attr); h->tx_attr = NULL);
	HINT(free(h->rx_attr); h->rx_attr = NULL);
	HINT(free(h->ep_attr); h->ep_attr = NULL);
	HINT(free(h->domain_attr); h->domain_attr = NULL);
	HINT(free(h->tx_attr); h->tx_attr = NULL; free(h->rx_attr); h->rx_attr = NULL; free(h->ep_attr);
	     h->ep_attr = NULL; free(h->domain_attr); h->domain_attr = NULL);
	HINT(free(h->ep_attr); h->ep_attr = NULL; h->caps = FI_MSG);
	HINT(free(h->ep_attr); h->ep_attr = NULL; h->caps = FI_TAGGED);
}

static void test_fabric(void)
{
	static const char *const names[] = {
		"tcp;^ofi_rxm", "TCP;^OFI_RXM", "Tcp;^Ofi_Rxm", "^ofi_rxm;^ofi_rxd;^udp;^shm;^sm2;^sockets", "tcp;", ";tcp",
		"tcp,udp", " tcp", "tcp ", "tcp;ofi_rxd", "tcp;ofi_mrail", "off_coll", "ofi_hook_noop", "lnx", "zork", "^tcp;tcp",
		"tc", "tcpx", "^tcp;^ofi_rxm;^ofi_rxd;^udp;^shm;^sm2;^sockets", "tcp;^tcp", "tcp;^zork;^ofi_rxm", "tcp;zork",
		"zork;tcp", "tcp;tcp;^ofi_rxm", ";", ";;", "^ofi_rxm;tcp",
	};
	struct fi_info *h;
	size_t i;

	for (i = 0; i < COUNT(names); i++) {
		h = new_hints();
		free(h->fabric_attr->prov_name);
		h->fabric_attr->prov_name = strdup(names[i]);
		ask(V, NULL, NULL, 0, h, "prov_name \"%s\"", names[i]);
		fi_freeinfo(h);
	}
	HINT(h->fabric_attr->name = strdup("127.0.0.1/32"));
	HINT(h->fabric_attr->name = strdup("127.0.0.0/8"));
	HINT(h->fabric_attr->name = strdup(""));
	HINT(h->fabric_attr->name = strdup("tcp"));
	EACH(h->fabric_attr->prov_version = (uint32_t) v, FI_VERSION(100, 0), PROVIDER, PROVIDER + 1,
	     PROVIDER + FI_VERSION(1, 0), UINT32_MAX);
	EACH(h->fabric_attr->api_version = (uint32_t) v, FI_VERSION(1, 0), V, FI_VERSION(99, 0));
}

static void test_domain(void)
{
	HINT(h->domain_attr->name = strdup("lo"));
	HINT(h->domain_attr->name = strdup("LO"));
	HINT(h->domain_attr->name = strdup("lo0"));
	HINT(h->domain_attr->name = strdup(""));
	EACH(h->domain_attr->threading = (enum fi_threading) v, 0, 1, 2, 3, 4, 5, 6, 99, UINT32_MAX);
	EACH(h->domain_attr->data_progress = (enum fi_progress) v, 0, 1, 2, 3, 4, 99, UINT32_MAX);
	EACH(h->domain_attr->control_progress = (enum fi_progress) v, 0, 1, 2, 3, 4, 99, UINT32_MAX);
	EACH(h->domain_attr->resource_mgmt = (enum fi_resource_mgmt) v, 0, 1, 2, 3, 99, UINT32_MAX);
	EACH(h->domain_attr->av_type = (enum fi_av_type) v, 0, 1, 2);
	BITS(h->domain_attr->mr_mode = (int) v);
	EACH(h->domain_attr->mr_key_size = v, 1, 8, 9, UINT64_MAX);
	EACH(h->domain_attr->cq_data_size = v, 1, 4, 8, 9, UINT64_MAX);
	EACH(h->domain_attr->cq_cnt = v, 1, 256, 257, UINT64_MAX);
	EACH(h->domain_attr->ep_cnt = v, 1, 8192, 8193, UINT64_MAX);
	EACH(h->domain_attr->tx_ctx_cnt = v, 1, 8192, 8193, UINT64_MAX);
	EACH(h->domain_attr->rx_ctx_cnt = v, 1, 8192, 8193, UINT64_MAX);
	EACH(h->domain_attr->max_ep_tx_ctx = v, 1, 2, UINT64_MAX);
	EACH(h->domain_attr->max_ep_rx_ctx = v, 1, 2, UINT64_MAX);
	EACH(h->domain_attr->max_ep_stx_ctx = v, 1, UINT64_MAX);
	EACH(h->domain_attr->max_ep_srx_ctx = v, 1, 8192, UINT64_MAX);
	EACH(h->domain_attr->cntr_cnt = v, 1, UINT64_MAX);
	EACH(h->domain_attr->mr_iov_limit = v, 1, 2, UINT64_MAX);
	CAP_BITS(h->domain_attr->caps = v);
	BITS(h->domain_attr->mode = v);
	HINT(h->domain_attr->mode = 0);
	if (!only_same)
		HINT(h->domain_attr->auth_key_size = 1; h->domain_attr->auth_key = calloc(1, 1));
	if (!only_same)
		HINT(h->domain_attr->auth_key_size = FI_AV_AUTH_KEY);
	EACH(h->domain_attr->max_err_data = v, 1, UINT64_MAX);
	EACH(h->domain_attr->mr_cnt = v, 1, UINT64_MAX);
	if (!only_same)
		EACH(h->domain_attr->tclass = (uint32_t) v, 1, FI_TC_BEST_EFFORT, FI_TC_BULK_DATA, UINT32_MAX);
	if (!only_same)
		EACH(h->domain_attr->max_ep_auth_key = v, 1, UINT64_MAX);
	EACH(h->domain_attr->max_group_id = (uint32_t) v, 1, UINT32_MAX);
	EACH(h->domain_attr->max_cntr_value = v, 1, UINT64_MAX);
	EACH(h->domain_attr->max_err_cntr_value = v, 1, UINT64_MAX);
}

static void test_endpoint(void)
{
	EACH(h->ep_attr->type = (enum fi_ep_type) v, 0, 1, 2, 3, 4, 5, 6, 99, UINT32_MAX);
	EACH(h->ep_attr->protocol = (uint32_t) v, 0, 5, 6, 11, 12, 22, 25, 26, 99, UINT32_MAX);
	EACH(h->ep_attr->protocol_version = (uint32_t) v, 1, 2, UINT32_MAX);
	EACH(h->ep_attr->protocol = FI_PROTO_XNET; h->ep_attr->protocol_version = (uint32_t) v, 0, 1, 2, UINT32_MAX);
	EACH(h->ep_attr->protocol = FI_PROTO_SOCK_TCP; h->ep_attr->protocol_version = (uint32_t) v, 0, 1, UINT32_MAX);
	EACH(h->ep_attr->max_msg_size = v, 1, 1ULL << 62, UINT64_MAX);
	EACH(h->ep_attr->msg_prefix_size = v, 1, 64, UINT64_MAX);
	EACH(h->mode = FI_MSG_PREFIX; h->ep_attr->msg_prefix_size = v, 1, 64);
	EACH(h->ep_attr->max_order_raw_size = v, 1, UINT64_MAX);
	EACH(h->ep_attr->max_order_war_size = v, 1, UINT64_MAX);
	EACH(h->ep_attr->max_order_waw_size = v, 1, UINT64_MAX);
	EACH(h->caps = FI_RMA; h->ep_attr->max_order_raw_size = v, 1, UINT64_MAX);
	EACH(h->caps = FI_RMA; h->ep_attr->max_order_war_size = v, 1, UINT64_MAX);
	EACH(h->caps = FI_RMA; h->ep_attr->max_order_waw_size = v, 1, UINT64_MAX);
	EACH(h->caps = FI_MSG; h->ep_attr->max_order_war_size = v, 1, UINT64_MAX);
	EACH(h->ep_attr->mem_tag_format = v, 1, 2, 3, 0xaaaa, 0x10000, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa, UINT64_MAX);
	EACH(h->caps = FI_TAGGED; h->ep_attr->mem_tag_format = v, 1, 2, 3, 0xaaaa, 0x10000, 0xff00, 0x7fffffffffffffff,
	     0x5555555555555555, 0xaaaaaaaaaaaaaaaa, 0xcccccccccccccccc, UINT64_MAX);
	EACH(h->caps = FI_MSG; h->ep_attr->mem_tag_format = v, 1, UINT64_MAX);
	EACH(h->ep_attr->tx_ctx_cnt = v, 1, UINT64_MAX - 1);
	EACH(h->ep_attr->rx_ctx_cnt = v, 1, UINT64_MAX - 1);
	EACH(h->ep_attr->type = FI_EP_MSG; h->ep_attr->tx_ctx_cnt = v, 0, 1, 2);
	EACH(h->ep_attr->type = FI_EP_MSG; h->ep_attr->rx_ctx_cnt = v, 0, 1, 2, UINT64_MAX);
	EACH(h->ep_attr->type = FI_EP_RDM; h->ep_attr->rx_ctx_cnt = v, 0, 1, UINT64_MAX - 1);
	EACH(h->ep_attr->type = FI_EP_MSG; h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; h->caps = v, FI_MSG, FI_TAGGED, FI_MSG | FI_TAGGED | FI_SOURCE,
	     FI_MSG | FI_MULTI_RECV, FI_RMA);
	EACH(h->ep_attr->type = FI_EP_RDM; h->caps = v, FI_MSG | FI_MULTI_RECV);
	EACH(h->ep_attr->type = FI_EP_MSG; h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; h->rx_attr->size = v, 1, 1024, 1025, 65536, 65537);
	if (!only_same)
		HINT(h->ep_attr->auth_key_size = 1; h->ep_attr->auth_key = calloc(1, 1));
	if (!only_same)
		HINT(h->ep_attr->auth_key_size = 1);
	if (!only_same)
		HINT(h->ep_attr->auth_key_size = FI_AV_AUTH_KEY);
}

static void test_contexts(void)
{
	CAP_BITS(h->tx_attr->caps = v);
	CAP_BITS(h->rx_attr->caps = v);
	EACH(h->tx_attr->caps = v, FI_MSG | FI_SEND, FI_MSG | FI_RMA | FI_WRITE, FI_TAGGED | FI_MSG, ~0ULL);
	EACH(h->rx_attr->caps = v, FI_MSG | FI_RECV, FI_MSG | FI_RMA | FI_REMOTE_WRITE, FI_TAGGED | FI_MSG, ~0ULL);
	EACH(h->caps = FI_MSG | FI_TAGGED | FI_RMA; h->tx_attr->caps = v, FI_MSG, FI_TAGGED | FI_SEND, FI_RMA | FI_READ);
	EACH(h->caps = FI_MSG | FI_TAGGED | FI_RMA; h->rx_attr->caps = v, FI_MSG, FI_TAGGED | FI_RECV, FI_RMA | FI_REMOTE_READ,
	     FI_MSG | FI_SOURCE, FI_MSG | FI_DIRECTED_RECV);
	EACH(h->caps = FI_MSG; h->tx_attr->caps = v, FI_MSG, FI_RMA, FI_TAGGED);
	EACH(h->caps = FI_MSG; h->rx_attr->caps = v, FI_MSG, FI_RMA, FI_TAGGED, FI_SOURCE);
	BITS(h->tx_attr->mode = v);
	BITS(h->rx_attr->mode = v);
	BITS(h->tx_attr->op_flags = v);
	BITS(h->rx_attr->op_flags = v);
	ORDER_BITS(h->tx_attr->msg_order = v);
	ORDER_BITS(h->rx_attr->msg_order = v);
	if (!only_same)
		HINT(h->tx_attr->msg_order = 0x1ff; h->rx_attr->msg_order = 0x1ff);
	BITS(h->tx_attr->comp_order = v);
	BITS(h->rx_attr->comp_order = v);
	EACH(h->tx_attr->inject_size = v, 1, 8, 64, 127, 128, 129, UINT64_MAX);
	EACH(h->tx_attr->size = v, 1, 255, 256, 257, 1024, 1025, 65536, 65537, 100000, UINT64_MAX);
	EACH(h->rx_attr->size = v, 1, 255, 256, 257, 1024, 1025, 65536, 65537, 100000, UINT64_MAX);
	EACH(h->tx_attr->iov_limit = v, 1, 4, 5, UINT64_MAX);
	EACH(h->rx_attr->iov_limit = v, 1, 4, 5, UINT64_MAX);
	EACH(h->tx_attr->rma_iov_limit = v, 1, 4, 5, UINT64_MAX);
	EACH(h->rx_attr->total_buffered_recv = v, 1, 64, UINT64_MAX);
	if (!only_same)
		EACH(h->tx_attr->tclass = (uint32_t) v, 1, FI_TC_BEST_EFFORT, FI_TC_LOW_LATENCY, FI_TC_BULK_DATA, 0x120, UINT32_MAX);
}

static void with_address(struct fi_info *h, int dest, const char *host, uint16_t port)
{
	struct sockaddr_in *in = calloc(1, sizeof(*in));

	if (!in)
		abort();
	in->sin_family = AF_INET;
	in->sin_port = htons(port);
	inet_pton(AF_INET, host, &in->sin_addr);
	if (dest) {
		h->dest_addr = in;
		h->dest_addrlen = sizeof(*in);
	} else {
		h->src_addr = in;
		h->src_addrlen = sizeof(*in);
	}
}

static void test_addresses(void)
{
	static const char *const nodes[] = {
		NULL, "127.0.0.1", "127.0.0.2", "192.0.2.1", "0.0.0.0", "localhost", "", "127.1",
		/* a label that is too long for any name, so the resolver queries no server */
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid",
	};
	static const char *const services[] = { NULL, "7471", "0", "65535", "65536", "-1", "no-such-service", "", "1x" };
	static const uint64_t flags[] = { 0, FI_SOURCE, FI_NUMERICHOST, FI_SOURCE | FI_NUMERICHOST, FI_SOURCE | FI_RESCAN };
	struct fi_info *h = new_hints();
	char *long_node = malloc(5000);
	size_t i, j, k;

	if (!long_node)
		abort();
	h->addr_format = FI_SOCKADDR_IN;
	for (i = 0; i < COUNT(nodes); i++) {
		for (j = 0; j < COUNT(services); j++) {
			for (k = 0; k < COUNT(flags); k++) {
				/* the route to addresses other than loopback depends on the machine */
				if (nodes[i] && !strncmp(nodes[i], "192", 3) && !(flags[k] & FI_SOURCE))
					continue;
				if (k > 1 && (i > 5 || j > 1))
					continue;
				/* which family loopback has if hints require IPv4 */
				if (!nodes[i] && services[j] && !(flags[k] & FI_SOURCE))
					continue;
				ask(V, nodes[i], services[j], flags[k], h, "node %s service %s flags %#" PRIx64,
				    nodes[i] ? nodes[i] : "-", services[j] ? services[j] : "-", flags[k]);
			}
		}
	}
	memset(long_node, 'a', 4999);
	long_node[4999] = 0;
	ask(V, long_node, NULL, 0, h, "node of 4999 letters");
	ask(V, long_node, "7", FI_SOURCE, h, "source node of 4999 letters");
	ask(V, NULL, long_node, FI_SOURCE, h, "service of 4999 letters");
	free(long_node);
	for (i = 0; i < 64; i++) {
		if (1ULL << i != FI_PROV_ATTR_ONLY)
			ask(V, "127.0.0.1", "7471", 1ULL << i, h, "node, service and flag bit %zu", i);
	}
	for (i = 0; i < 64; i++) {
		if (1ULL << i != FI_PROV_ATTR_ONLY)
			ask(V, NULL, NULL, 1ULL << i, h, "flag bit %zu", i);
	}
	ask(V, NULL, "7471", FI_SOURCE | FI_PROV_ATTR_ONLY, h, "FI_PROV_ATTR_ONLY and FI_SOURCE");
	fi_freeinfo(h);

	for (i = 0; i < 12; i++) {
		static const char *const hosts[] = { "127.0.0.1", "127.0.0.2", "0.0.0.0", "192.0.2.1" };

		h = new_hints();
		h->addr_format = FI_SOCKADDR_IN;
		with_address(h, 0, hosts[i % 4], (uint16_t) (i < 4 ? 0 : 7000));
		if (i >= 8)
			with_address(h, 1, "127.0.0.1", 7001);
		ask(V, NULL, NULL, 0, h, "hints src %zu", i);
		ask(V, NULL, NULL, FI_SOURCE, h, "hints src %zu, FI_SOURCE", i);
		ask(V, "127.0.0.1", NULL, 0, h, "hints src %zu, node", i);
		ask(V, "127.0.0.1", "7002", 0, h, "hints src %zu, node and service", i);
		ask(V, "127.0.0.1", "7002", FI_SOURCE, h, "hints src %zu, node and service, FI_SOURCE", i);
		ask(V, NULL, "7002", FI_SOURCE, h, "hints src %zu, service, FI_SOURCE", i);
		fi_freeinfo(h);
	}
	h = new_hints();
	h->addr_format = FI_SOCKADDR_IN;
	with_address(h, 1, "127.0.0.1", 7001);
	ask(V, NULL, NULL, 0, h, "hints dest");
	ask(V, NULL, NULL, FI_SOURCE, h, "hints dest, FI_SOURCE");
	ask(V, "127.0.0.2", "7002", 0, h, "hints dest, node");
	ask(V, "127.0.0.2", "7002", FI_SOURCE, h, "hints dest, node, FI_SOURCE");
	ask(V, NULL, "7002", FI_SOURCE, h, "hints dest, service, FI_SOURCE");
	fi_freeinfo(h);
	EACH(with_address(h, 0, "127.0.0.1", 7); h->addr_format = (uint32_t) v, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IP,
	     FI_ADDR_STR);
	EACH(with_address(h, 1, "127.0.0.1", 7); h->addr_format = (uint32_t) v, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IP,
	     FI_ADDR_STR);
	HINT(with_address(h, 0, "127.0.0.1", 7); h->addr_format = FI_SOCKADDR_IN; h->domain_attr->name = strdup("lo"));
	HINT(with_address(h, 0, "127.0.0.1", 7); h->addr_format = FI_SOCKADDR_IN; h->domain_attr->name = strdup("eth77"));
	HINT(with_address(h, 0, "127.0.0.1", 7); h->addr_format = FI_SOCKADDR_IN; h->caps = FI_MSG | FI_REMOTE_COMM);
	HINT(h->src_addrlen = 16);
	HINT(h->dest_addrlen = 16);
}

/* Cases that this library answers differently on purpose. */
static void test_differences(void)
{
	struct fi_info *h;

	/* the format of a result is that of its addresses */
	HINT(with_address(h, 0, "127.0.0.1", 7000));
	HINT(with_address(h, 0, "127.0.0.1", 7000); with_address(h, 1, "127.0.0.2", 7001));
	/* the source address follows from routing, whatever the format in the hints is */
	HINT(with_address(h, 1, "127.0.0.2", 7001));
	h = new_hints();
	h->addr_format = FI_SOCKADDR_IN;
	/* names resolve to the family that the hints require */
	ask(V, NULL, "7471", 0, h, "service 7471");
	ask(V, "::1", "7471", 0, h, "node ::1 service 7471");
	ask(V, "fi_sockaddr_in://127.0.0.1:7", NULL, 0, h, "node fi_sockaddr_in://127.0.0.1:7");
	fi_freeinfo(h);
	/* invalid addresses are refused */
	HINT(with_address(h, 0, "127.0.0.1", 7); h->addr_format = FI_SOCKADDR_IN6);
	HINT(with_address(h, 0, "127.0.0.1", 7); h->src_addrlen = 15);
	HINT(with_address(h, 0, "127.0.0.1", 7); h->src_addrlen = 0);
	HINT(with_address(h, 0, "127.0.0.1", 7); ((struct sockaddr_in *) h->src_addr)->sin_family = 77);
	HINT(with_address(h, 1, "127.0.0.1", 7); h->dest_addrlen = 15);
	HINT(with_address(h, 1, "127.0.0.1", 7); h->dest_addrlen = 0);
	HINT(with_address(h, 1, "127.0.0.1", 7); ((struct sockaddr_in *) h->dest_addr)->sin_family = 77);
	/* connected endpoints support receives for several messages if the hints request that type */
	HINT(h->ep_attr->type = FI_EP_MSG; h->caps = FI_MSG | FI_MULTI_RECV);
	HINT(h->ep_attr->type = FI_EP_MSG; h->caps = FI_MSG | FI_MULTI_RECV; h->rx_attr->op_flags = FI_MULTI_RECV);
	/* atomic operations need no layered provider */
	HINT(h->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC);
	/* writes after reads can be ordered, of any size */
	HINT(h->caps = FI_RMA; h->tx_attr->msg_order = FI_ORDER_WAR; h->ep_attr->max_order_war_size = 4096);
	HINT(h->rx_attr->caps = FI_TAGGED | FI_TAGGED_MULTI_RECV);
	/* so are numbers outside the enumerations */
	EACH(h->domain_attr->av_type = (enum fi_av_type) v, 3, 99, UINT32_MAX);
	/* shared contexts, and several contexts of one endpoint, are offered on request */
	EACH(h->ep_attr->tx_ctx_cnt = v, 2, 64, 65, UINT64_MAX);
	EACH(h->ep_attr->rx_ctx_cnt = v, 2, 64, 65, UINT64_MAX);
	EACH(h->ep_attr->type = FI_EP_MSG; h->ep_attr->tx_ctx_cnt = v, 64, UINT64_MAX);
	EACH(h->ep_attr->type = FI_EP_RDM; h->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT; h->ep_attr->tx_ctx_cnt = v, 0, 1, 8,
	     UINT64_MAX);
	/* only the providers of this library are listed */
	ask(V, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, "FI_PROV_ATTR_ONLY");
	ask(V, "node", "service", FI_PROV_ATTR_ONLY, NULL, "FI_PROV_ATTR_ONLY, node and service");
}

int main(int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++) {
		all_families |= !strcmp(argv[i], "all");
		only_same |= !strcmp(argv[i], "same");
	}
	/* NULL hints cannot express this */
	setenv("FI_PROVIDER", "^tcp;ofi_rxm,udp,shm,sockets,sm2", 1);
	if (!all_families)
		setenv("FI_TCP_IFACE", "lo", 1);
	/* Ours is larger (docs/differences.md). */
	setenv("FI_TCP_MAX_INJECT", "128", 1);
	test_info();
	test_versions();
	test_fabric();
	test_domain();
	test_endpoint();
	test_contexts();
	test_addresses();
	if (!only_same)
		test_differences();
	return 0;
}
