// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* fi_getinfo calls on the providers within one host, shm and sm2, and their results; see getinfo.c for tcp.
 *
 * The output is compared with getinfo_shm.expected; the output of another libfabric can be compared, too.
 *
 * usage: getinfo_shm [same] [PROVIDER]
 *   same       leaves out calls that this library answers differently on purpose (docs/differences.md)
 *   PROVIDER   only this one
 */
#include "getinfo.h"

static const char *provider;

static struct fi_info *new_hints(void)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		abort();
	hints->fabric_attr->prov_name = strdup(provider);
	hints->mode = ~0ULL;
	hints->domain_attr->mode = ~0ULL;
	hints->domain_attr->mr_mode = ~3;	/* all but the two legacy modes, whose names warn */
	return hints;
}

/* Capabilities that only this library's providers have. */
#define OWN_CAPS (FI_FENCE | FI_SOURCE_ERR | FI_TRIGGER | FI_COLLECTIVE | FI_TAGGED_MULTI_RECV | \
		  FI_TAGGED_DIRECTED_RECV | FI_EXACT_DIRECTED_RECV | FI_AV_USER_ID | FI_NAMED_RX_CTX | FI_SHARED_AV | \
		  FI_RMA | FI_ATOMIC | FI_PEER)

#define ALL_ORDERS 0x1ff

static int is_sm2(void)
{
	return !strcmp(provider, "sm2");
}

static void test_versions(void)
{
	static const int modes[] = { 0, 1, 2, 3, 4, 0x10, 0x11, 0x74, 0x400, 0x410, 0xffc, -1, -4 };
	static const uint64_t caps[] = { 0, FI_MSG, FI_MSG | FI_HMEM, FI_TAGGED | FI_WRITE | FI_RMA, FI_RMA | FI_HMEM };
	struct fi_info *h;
	size_t i, j, k;

	for (i = 0; i < COUNT(versions); i++) {
		if (versions[i] & 1 && versions[i] != FI_VERSION(1, 5))
			continue;
		ask(versions[i], NULL, NULL, 0, NULL, "version %#x, no hints", versions[i]);
		h = new_hints();
		h->domain_attr->mr_mode = 0;
		ask(versions[i], NULL, NULL, 0, h, "version %#x, hints", versions[i]);
		h->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
		ask(versions[i], NULL, NULL, 0, h, "version %#x, hints with FI_MR_VIRT_ADDR", versions[i]);
		fi_freeinfo(h);
	}
	for (i = 0; i < COUNT(modes); i++) {
		for (j = 0; j < COUNT(versions); j++) {
			if (versions[j] != FI_VERSION(1, 4) && versions[j] != FI_VERSION(1, 5) && versions[j] != V)
				continue;
			for (k = 0; k < COUNT(caps); k++) {
				if (only_same && caps[k] & FI_RMA && is_sm2())
					continue;
				h = new_hints();
				h->domain_attr->mr_mode = modes[i];
				h->caps = caps[k];
				ask(versions[j], NULL, NULL, 0, h, "version %#x, mr_mode %#x, caps %#" PRIx64, versions[j],
				    modes[i], caps[k]);
				fi_freeinfo(h);
			}
			h = new_hints();
			h->domain_attr->mr_mode = modes[i];
			h->tx_attr->msg_order = FI_ORDER_SAS;
			ask(versions[j], NULL, NULL, 0, h, "version %#x, mr_mode %#x, FI_ORDER_SAS", versions[j], modes[i]);
			h->tx_attr->msg_order = FI_ORDER_RAR;
			if (!only_same || !is_sm2())
				ask(versions[j], NULL, NULL, 0, h, "version %#x, mr_mode %#x, FI_ORDER_RAR", versions[j],
				    modes[i]);
			fi_freeinfo(h);
		}
	}
	/* Hints whose meaning depends on the version. */
	for (j = 0; j < COUNT(versions); j++) {
#define LATE(what) do { \
		h = new_hints(); \
		h->domain_attr->mr_mode = 0; \
		what; \
		ask(versions[j], NULL, NULL, 0, h, "version %#x, %s", versions[j], #what); \
		fi_freeinfo(h); \
	} while (0)
		LATE(h->domain_attr->cntr_cnt = 1);
		LATE(h->domain_attr->mr_iov_limit = 5);
		LATE(h->domain_attr->auth_key_size = 1);
		LATE(h->domain_attr->max_err_data = 1);
		LATE(h->domain_attr->mr_cnt = 1);
		LATE(h->domain_attr->max_ep_auth_key = 1);
		if (!only_same)
			LATE(h->ep_attr->auth_key_size = 1);
	}
}

static void test_info(void)
{
	HINT((void) h);
	BITS_BUT(only_same ? OWN_CAPS : 0, h->caps = v);
	EACH(h->caps = v, FI_MSG | FI_RECV, FI_MSG | FI_SEND, FI_MSG | FI_TAGGED, FI_TAGGED | FI_RECV | FI_SOURCE,
	     FI_MSG | FI_DIRECTED_RECV, FI_MSG | FI_LOCAL_COMM | FI_REMOTE_COMM, FI_MSG | FI_MULTI_RECV, FI_READ | FI_REMOTE_WRITE,
	     FI_MSG | FI_TAGGED | FI_RMA_EVENT | FI_SOURCE, ~0ULL);
	if (!only_same || !is_sm2())
		EACH(h->caps = v, FI_MSG | FI_RMA, FI_RMA | FI_READ, FI_RMA | FI_REMOTE_WRITE, FI_MSG | FI_ATOMIC,
		     FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC, FI_MSG | FI_AV_USER_ID, FI_RMA | FI_HMEM, FI_ATOMIC | FI_HMEM);
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
	HINT(free(h->domain_attr); h->domain_attr = NULL; h->caps = FI_MSG);
	HINT(free(h->domain_attr); h->domain_attr = NULL; h->caps = FI_MSG | FI_HMEM);
}

static void test_fabric(void)
{
	static const char *const names[] = {
		"SHM", "Sm2", "shm;ofi_rxm", "shm;^ofi_rxm", "shm;^shm", "sm2;ofi_rxd", "shm,sm2", " shm", "^shm", "^sm2", "^shm;^sm2",
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
	HINT(h->fabric_attr->name = strdup("shm"));
	HINT(h->fabric_attr->name = strdup("SM2"));
	HINT(h->fabric_attr->name = strdup(""));
	HINT(h->fabric_attr->name = strdup("127.0.0.1/32"));
	EACH(h->fabric_attr->prov_version = (uint32_t) v, FI_VERSION(100, 0), FI_VERSION(205, 0), PROVIDER + FI_VERSION(1, 0),
	     UINT32_MAX);
	EACH(h->fabric_attr->api_version = (uint32_t) v, FI_VERSION(1, 0), V, FI_VERSION(99, 0));
}

static void test_domain(void)
{
	HINT(h->domain_attr->name = strdup("shm"));
	HINT(h->domain_attr->name = strdup("SM2"));
	HINT(h->domain_attr->name = strdup("lo"));
	EACH(h->domain_attr->threading = (enum fi_threading) v, 0, 1, 2, 3, 4, 5, 6, 99, UINT32_MAX);
	EACH(h->domain_attr->data_progress = (enum fi_progress) v, 0, 2, 3, 4, 99, UINT32_MAX);
	EACH(h->domain_attr->control_progress = (enum fi_progress) v, 0, 1, 2, 3, 4, 99, UINT32_MAX);
	EACH(h->domain_attr->resource_mgmt = (enum fi_resource_mgmt) v, 0, 1, 2, 3, 99, UINT32_MAX);
	EACH(h->domain_attr->av_type = (enum fi_av_type) v, 0, 1, 2);
	BITS(h->domain_attr->mr_mode = (int) v);
	EACH(h->domain_attr->mr_key_size = v, 1, 8, 9, UINT64_MAX);
	EACH(h->domain_attr->cq_data_size = v, 1, 4, 8, 9, UINT64_MAX);
	EACH(h->domain_attr->cq_cnt = v, 1, 1024, 1025, UINT64_MAX);
	EACH(h->domain_attr->ep_cnt = v, 1, 256, 257, UINT64_MAX);
	EACH(h->domain_attr->tx_ctx_cnt = v, 1, 1025, UINT64_MAX);
	EACH(h->domain_attr->rx_ctx_cnt = v, 1, 1025, UINT64_MAX);
	EACH(h->domain_attr->max_ep_tx_ctx = v, 1, 2, UINT64_MAX);
	EACH(h->domain_attr->max_ep_rx_ctx = v, 1, 2, UINT64_MAX);
	EACH(h->domain_attr->max_ep_stx_ctx = v, 1, UINT64_MAX);
	EACH(h->domain_attr->max_ep_srx_ctx = v, 1, UINT64_MAX);
	EACH(h->domain_attr->cntr_cnt = v, 1, UINT64_MAX);
	EACH(h->domain_attr->mr_iov_limit = v, 1, 4, 5, UINT64_MAX);
	BITS_BUT(only_same ? OWN_CAPS : 0, h->domain_attr->caps = v);
	BITS(h->domain_attr->mode = v);
	HINT(h->domain_attr->mode = 0);
	HINT(h->domain_attr->auth_key_size = 1; h->domain_attr->auth_key = calloc(1, 1));
	if (!only_same)
		HINT(h->domain_attr->auth_key_size = FI_AV_AUTH_KEY);
	EACH(h->domain_attr->max_err_data = v, 1, UINT64_MAX);
	EACH(h->domain_attr->mr_cnt = v, 1, UINT64_MAX);
	if (!only_same)
		EACH(h->domain_attr->tclass = (uint32_t) v, 1, FI_TC_BEST_EFFORT, UINT32_MAX);
	EACH(h->domain_attr->max_ep_auth_key = v, 1, UINT64_MAX);
	EACH(h->domain_attr->max_cntr_value = v, 1, UINT64_MAX);
	EACH(h->domain_attr->max_err_cntr_value = v, 1, UINT64_MAX);
}

static void test_endpoint(void)
{
	EACH(h->ep_attr->type = (enum fi_ep_type) v, 0, 1, 2, 3, 4, 5, 6, 99, UINT32_MAX);
	EACH(h->ep_attr->protocol = (uint32_t) v, 0, 5, 9, FI_PROTO_SHM, FI_PROTO_SM2, FI_PROTO_XNET, 99, UINT32_MAX);
	EACH(h->ep_attr->protocol_version = (uint32_t) v, 1, 2, UINT32_MAX);
	EACH(h->ep_attr->max_msg_size = v, 1, 1ULL << 62, UINT64_MAX);
	EACH(h->ep_attr->msg_prefix_size = v, 1, 64, UINT64_MAX);
	EACH(h->ep_attr->max_order_raw_size = v, 1, UINT64_MAX);
	EACH(h->ep_attr->max_order_war_size = v, 1, UINT64_MAX);
	EACH(h->ep_attr->max_order_waw_size = v, 1, UINT64_MAX);
	if (!only_same || !is_sm2()) {
		EACH(h->caps = FI_RMA; h->ep_attr->max_order_raw_size = v, 1, UINT64_MAX);
		EACH(h->caps = FI_RMA; h->ep_attr->max_order_war_size = v, 1, UINT64_MAX);
		EACH(h->caps = FI_RMA; h->ep_attr->max_order_waw_size = v, 1, UINT64_MAX);
		EACH(h->caps = FI_RMA; h->domain_attr->mr_mode = 0; h->ep_attr->max_order_raw_size = v, 1, UINT64_MAX);
		EACH(h->caps = FI_RMA; h->tx_attr->msg_order = FI_ORDER_WAR; h->ep_attr->max_order_war_size = v, 1, UINT64_MAX);
	}
	EACH(h->caps = FI_MSG; h->ep_attr->max_order_war_size = v, 1, UINT64_MAX);
	EACH(h->caps = FI_TAGGED; h->ep_attr->mem_tag_format = v, 1, 3, 0xaaaa, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa,
	     UINT64_MAX);
	EACH(h->ep_attr->tx_ctx_cnt = v, 1, UINT64_MAX - 1);
	EACH(h->ep_attr->rx_ctx_cnt = v, 1, UINT64_MAX - 1);
	HINT(h->ep_attr->auth_key_size = 1; h->ep_attr->auth_key = calloc(1, 1));
	HINT(h->ep_attr->auth_key_size = FI_AV_AUTH_KEY);
}

static void test_contexts(void)
{
	BITS_BUT(only_same ? OWN_CAPS : 0, h->tx_attr->caps = v);
	BITS_BUT(only_same ? OWN_CAPS : 0, h->rx_attr->caps = v);
	EACH(h->tx_attr->caps = v, FI_MSG | FI_SEND, FI_TAGGED | FI_MSG, ~0ULL);
	EACH(h->rx_attr->caps = v, FI_MSG | FI_RECV, FI_TAGGED | FI_MSG, ~0ULL);
	EACH(h->caps = FI_MSG; h->tx_attr->caps = v, FI_MSG, FI_TAGGED);
	EACH(h->caps = FI_MSG; h->rx_attr->caps = v, FI_MSG, FI_TAGGED, FI_SOURCE);
	BITS(h->tx_attr->mode = v);
	BITS(h->rx_attr->mode = v);
	BITS_BUT(only_same ? FI_INJECT | FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE : 0, h->tx_attr->op_flags = v);
	BITS(h->rx_attr->op_flags = v);
	BITS_BUT(only_same && is_sm2() ? ~(uint64_t) FI_ORDER_SAS : 0, h->tx_attr->msg_order = v);
	BITS_BUT(only_same && is_sm2() ? ~(uint64_t) FI_ORDER_SAS : 0, h->rx_attr->msg_order = v);
	if (!only_same || !is_sm2())
		HINT(h->tx_attr->msg_order = ALL_ORDERS; h->rx_attr->msg_order = ALL_ORDERS);
	BITS(h->tx_attr->comp_order = v);
	BITS(h->rx_attr->comp_order = v);
	EACH(h->tx_attr->inject_size = v, 1, 3864, 3865, 4096, 4097, UINT64_MAX);
	EACH(h->caps = FI_MSG | FI_HMEM; h->tx_attr->inject_size = v, 1);
	EACH(h->tx_attr->size = v, 1, 1023, 1024, 1025, 65536, UINT64_MAX);
	EACH(h->rx_attr->size = v, 1, 1023, 1024, 1025, 65536, UINT64_MAX);
	EACH(h->tx_attr->iov_limit = v, 1, 4, 5, UINT64_MAX);
	EACH(h->rx_attr->iov_limit = v, 1, 4, 5, UINT64_MAX);
	EACH(h->tx_attr->rma_iov_limit = v, 1, 4, 5, UINT64_MAX);
	EACH(h->rx_attr->total_buffered_recv = v, 1, 64, UINT64_MAX);
	if (!only_same)
		EACH(h->tx_attr->tclass = (uint32_t) v, 1, FI_TC_BEST_EFFORT, UINT32_MAX);
}

static void with_address(struct fi_info *h, int dest, const char *text)
{
	if (dest) {
		h->dest_addr = strdup(text);
		h->dest_addrlen = strlen(text) + 1;
	} else {
		h->src_addr = strdup(text);
		h->src_addrlen = strlen(text) + 1;
	}
}

static void test_addresses(void)
{
	static const char *const nodes[] = { NULL, "node", "fi_shm://1", "fi_sm2://1", "fi_ns://a:b", "any://", "" };
	static const char *const services[] = { NULL, "7471", "fi_shm://2", "" };
	static const uint64_t flags[] = { 0, FI_SOURCE };
	struct fi_info *h = new_hints();
	size_t i, j, k;

	for (i = 0; i < COUNT(nodes); i++) {
		for (j = 0; j < COUNT(services); j++) {
			for (k = 0; k < COUNT(flags); k++)
				ask(V, nodes[i], services[j], flags[k], h, "node %s service %s flags %#" PRIx64,
				    nodes[i] ? nodes[i] : "-", services[j] ? services[j] : "-", flags[k]);
		}
	}
	for (i = 0; i < 64; i++) {
		if (1ULL << i != FI_PROV_ATTR_ONLY)
			ask(V, NULL, NULL, 1ULL << i, h, "flag bit %zu", i);
	}
	fi_freeinfo(h);
	ask(V, "node", "service", 0, NULL, "node and service, no hints");
	ask(V, NULL, NULL, FI_SOURCE, NULL, "FI_SOURCE, no hints");
	for (i = 0; i < 4; i++) {
		static const char *const texts[] = { "fi_shm://src", "fi_ns://a:b" };

		/* the format of a result is that of its addresses */
		if (only_same && !(i & 1))
			continue;
		h = new_hints();
		h->addr_format = i & 1 ? FI_ADDR_STR : FI_FORMAT_UNSPEC;
		with_address(h, 0, texts[i / 2]);
		for (j = 0; j < 2; j++) {
			ask(V, NULL, NULL, 0, h, "hints %zu", i);
			ask(V, NULL, NULL, FI_SOURCE, h, "hints %zu, FI_SOURCE", i);
			ask(V, "node", NULL, 0, h, "hints %zu, node", i);
			ask(V, "node", "service", 0, h, "hints %zu, node and service", i);
			ask(V, "node", "service", FI_SOURCE, h, "hints %zu, node and service, FI_SOURCE", i);
			ask(V, NULL, "service", FI_SOURCE, h, "hints %zu, service, FI_SOURCE", i);
			if (!j)
				with_address(h, 1, "fi_shm://dest");
		}
		fi_freeinfo(h);
	}
	if (!only_same)
		HINT(with_address(h, 1, "fi_shm://dest"));
	HINT(with_address(h, 1, "fi_shm://dest"); h->addr_format = FI_ADDR_STR);
	HINT(with_address(h, 0, "fi_shm://src"); h->addr_format = FI_SOCKADDR_IN);
	HINT(h->src_addrlen = 16);
	HINT(h->dest_addrlen = 16);
}

/* Cases that this library answers differently on purpose. */
static void test_differences(void)
{
	static char bad[400];
	struct fi_info *h;

	/* a name is terminated, is text and is not too long */
	memset(bad, 'x', sizeof(bad) - 1);
	ask(V, bad, NULL, 0, NULL, "node of 399 letters");
	ask(V, NULL, bad, FI_SOURCE, NULL, "service of 399 letters");
	ask(V, "\xff", NULL, 0, NULL, "node of no letter");
	EACH(with_address(h, 0, bad + v), 0, 399 - 256, 399 - 255);
	EACH(with_address(h, (int) v, "fi_shm://a"); h->src_addrlen -= !v; h->dest_addrlen -= v, 0, 1);
	/* offered on request */
	EACH(h->domain_attr->data_progress = (enum fi_progress) v, FI_PROGRESS_AUTO);
	EACH(h->tx_attr->op_flags = v, FI_INJECT, FI_INJECT | FI_COMMIT_COMPLETE, FI_MATCH_COMPLETE);
	EACH(h->ep_attr->tx_ctx_cnt = v, 2, 64, 65, UINT64_MAX);
	EACH(h->ep_attr->rx_ctx_cnt = v, 2, 64, 65, UINT64_MAX);
	EACH(h->caps = v, FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_TRIGGER | FI_FENCE | FI_COLLECTIVE,
	     FI_SOURCE | FI_SOURCE_ERR, FI_ATOMIC | FI_HMEM, FI_RMA | FI_HMEM, FI_MSG | FI_SHARED_AV | FI_AV_USER_ID);
	HINT(h->tx_attr->msg_order = FI_ORDER_RAW | FI_ORDER_WAR);
	HINT(h->rx_attr->caps = FI_TAGGED | FI_TAGGED_MULTI_RECV);
	h = new_hints();
	h->domain_attr->mr_mode = 0;
	h->tx_attr->comp_order = 511;	/* FI_ORDER_STRICT */
	ask(FI_VERSION(1, 20), NULL, NULL, 0, h, "version 1.20, tx comp_order strict");
	h->tx_attr->comp_order = 0;
	h->rx_attr->comp_order = 1 << 16;	/* FI_ORDER_DATA */
	ask(FI_VERSION(1, 20), NULL, NULL, 0, h, "version 1.20, rx comp_order data");
	h->rx_attr->comp_order = 0;
	h->domain_attr->threading = (enum fi_threading) 2;
	ask(FI_VERSION(1, 20), NULL, NULL, 0, h, "version 1.20, threading 2");
	fi_freeinfo(h);
}

static void test(void)
{
	test_info();
	test_versions();
	test_fabric();
	test_domain();
	test_endpoint();
	test_contexts();
	test_addresses();
	if (!only_same)
		test_differences();
}

int main(int argc, char **argv)
{
	static const char *const providers[] = { "shm", "sm2" };
	const char *only = NULL;
	size_t n;
	int i;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "same"))
			only_same = 1, not_shown = FI_PEER;
		else
			only = argv[i];
	}
	/* NULL hints cannot express this */
	setenv("FI_PROVIDER", only ? only : "shm,sm2", 1);
	for (n = 0; n < COUNT(providers); n++) {
		provider = providers[n];
		memset(first, 0, sizeof(first));
		if (!only || !strcmp(only, provider))
			test();
	}
	return 0;
}
