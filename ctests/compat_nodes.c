// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Programs of all generations up to that of the headers: each version of fi_getinfo, fi_dupinfo, fi_freeinfo and
 * fi_fabric reads as much of its caller's structs as the headers of that time had, and not a byte more.
 *
 * Every struct handed in ends where a page without access begins. The structs grew at their ends, so an old one is the
 * newest up to the first member that came later; layout.sh checks the offsets that this relies on.
 */
#include "generations.h"

int fabric_1_0(struct fi_fabric_attr *, struct fid_fabric **, void *);
int fabric_1_1(struct fi_fabric_attr *, struct fid_fabric **, void *);
__asm__(".symver fabric_1_0, fi_fabric@FABRIC_1.0");
__asm__(".symver fabric_1_1, fi_fabric@FABRIC_1.1");

static int is_zero(const void *bytes, size_t from, size_t to)
{
	for (; from < to; from++) {
		if (((const char *) bytes)[from])
			return 0;
	}
	return 1;
}

/* The known part is the same, the rest is zero. */
#define CHECK_COPY(copy, entry, known) do { \
	CHECK(!memcmp(copy, entry, known)); \
	CHECK(is_zero(copy, known, sizeof(*(copy)))); \
} while (0)

static void test_dupinfo(const struct generation *g, const struct fi_info *entry)
{
	struct fi_info *copy = g->dupinfo(old_entry(g, entry)), *empty = g->dupinfo(NULL);
	size_t names = offsetof(struct fi_domain_attr, threading);

	CHECK(copy && empty);
	if (!copy || !empty)
		return;
	CHECK(!copy->next && !copy->nic);
	CHECK(copy->caps == entry->caps && copy->addr_format == entry->addr_format);
	CHECK(copy->src_addrlen == entry->src_addrlen && copy->src_addr != entry->src_addr);
	CHECK(!memcmp(copy->src_addr, entry->src_addr, entry->src_addrlen));
	CHECK_COPY(copy->tx_attr, entry->tx_attr, g->tx);
	CHECK_COPY(copy->rx_attr, entry->rx_attr, g->rx);
	CHECK_COPY(copy->ep_attr, entry->ep_attr, g->ep);
	CHECK(!memcmp((char *) copy->domain_attr + names, (char *) entry->domain_attr + names, g->domain - names));
	CHECK(is_zero(copy->domain_attr, g->domain, sizeof(*copy->domain_attr)));
	CHECK(!strcmp(copy->domain_attr->name, entry->domain_attr->name));
	CHECK(!strcmp(copy->fabric_attr->name, entry->fabric_attr->name));
	CHECK(!strcmp(copy->fabric_attr->prov_name, "tcp"));
	CHECK(copy->fabric_attr->api_version == entry->fabric_attr->api_version);

	CHECK(is_zero(empty, 0, offsetof(struct fi_info, tx_attr)) && !empty->nic);
	CHECK(is_zero(empty->tx_attr, 0, sizeof(*empty->tx_attr)));
	CHECK(is_zero(empty->rx_attr, 0, sizeof(*empty->rx_attr)));
	CHECK(is_zero(empty->ep_attr, 0, sizeof(*empty->ep_attr)));
	CHECK(is_zero(empty->domain_attr, 0, sizeof(*empty->domain_attr)));
	CHECK(is_zero(empty->fabric_attr, 0, sizeof(*empty->fabric_attr)));
	/* programs put memory of their own into what they got */
	empty->fabric_attr->prov_name = strdup("tcp");
	empty->domain_attr->name = strdup("lo");
	empty->src_addr = calloc(1, 16);
	g->freeinfo(copy);
	g->freeinfo(empty);
	g->freeinfo(NULL);
}

static void test_getinfo(const struct generation *g)
{
	struct fi_info *hints = old_hints(g), *list = NULL, *entry;
	int ret = g->getinfo(g->version, NULL, NULL, 0, hints, &list);

	CHECK(ret == 0 && list);
	if (ret)
		return;
	for (entry = list; entry; entry = entry->next) {
		/* the newest layout, whatever node was called */
		CHECK(entry->ep_attr->type == FI_EP_RDM);
		CHECK(entry->domain_attr->max_cntr_value == UINT64_MAX);
		CHECK(entry->domain_attr->max_err_cntr_value == UINT64_MAX);
		CHECK(entry->fabric_attr->api_version == g->version);
		CHECK(entry->domain_attr->mr_mode == (g->version < FI_VERSION(1, 5) ? 1 : 0));
		CHECK(!entry->nic);
	}
	test_dupinfo(g, list);
	g->freeinfo(list);

	list = (void *) 1;
	hints->fabric_attr->prov_name = "no such provider";
	CHECK(g->getinfo(g->version, NULL, NULL, 0, hints, &list) == -FI_ENODATA);
	CHECK(!list);
	CHECK(g->getinfo(FI_VERSION(99, 0), NULL, NULL, 0, hints, &list) == -FI_ENOSYS);
	CHECK(g->getinfo(g->version, NULL, NULL, 0, NULL, &list) == 0);
	g->freeinfo(list);
}

/* The version that a program asks for does not tell how long its structs are: the node does. */
static void test_versions(const struct generation *g)
{
	static const uint32_t versions[] = { FI_VERSION(1, 0), FI_VERSION(1, 18), FI_VERSION(2, 6), FI_VERSION(2, 7) };
	size_t i;

	for (i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		struct fi_info *list = NULL;

		CHECK(g->getinfo(versions[i], NULL, NULL, 0, old_hints(g), &list) == 0);
		CHECK(list && list->fabric_attr->api_version == versions[i]);
		if (!list)
			continue;
		test_dupinfo(g, list);
		/* an entry of the program's own is a hint, too */
		struct fi_info *hints = old_entry(g, list), *again = NULL;

		CHECK(g->getinfo(versions[i], NULL, NULL, 0, hints, &again) == 0);
		g->freeinfo(again);
		g->freeinfo(list);
	}
}

/* A node copies the last members of its structs; no older node copies them. */
static void test_tail(const struct generation *g)
{
#ifdef FI_XPU
	struct fi_info *entry = g->dupinfo(NULL), *copy;
	int has_device = !strcmp(g->name, "1.10") || !strcmp(g->name, "1.11");

	entry->ep_attr->xpu_ctx = (void *) 0x1230;
	entry->domain_attr->max_xpu_ctx_cnt = 6;
#ifdef FI_WR
	entry->ep_attr->max_tx_wr_size = 7;
	entry->ep_attr->max_rx_wr_size = 8;
#endif
	copy = g->dupinfo(old_entry(g, entry));
	CHECK(copy->ep_attr->xpu_ctx == (void *) (uintptr_t) (has_device ? 0x1230 : 0));
	CHECK(copy->domain_attr->max_xpu_ctx_cnt == (has_device ? 6 : 0));
#ifdef FI_WR
	int has_requests = !strcmp(g->name, "1.11");

	CHECK(copy->ep_attr->max_tx_wr_size == (has_requests ? 7 : 0));
	CHECK(copy->ep_attr->max_rx_wr_size == (has_requests ? 8 : 0));
#endif
	g->freeinfo(copy);
	g->freeinfo(entry);
#else
	(void) g;
#endif
}

/* A program of that generation may have anything behind its structs. */
static void test_garbage(const struct generation *g)
{
	struct fi_info whole, *hints = &whole, *list = NULL;
	struct fi_tx_attr tx;
	struct fi_ep_attr ep;
	struct fi_domain_attr domain;
	struct fi_fabric_attr fabric;

	memset(&whole, 0x5a, sizeof(whole));
	memset(&tx, 0x5a, sizeof(tx));
	memset(&ep, 0x5a, sizeof(ep));
	memset(&domain, 0x5a, sizeof(domain));
	memset(&fabric, 0x5a, sizeof(fabric));
	memset(hints, 0, g->info);
	memset(&tx, 0, g->tx);
	memset(&ep, 0, g->ep);
	memset(&domain, 0, g->domain);
	memset(&fabric, 0, offsetof(struct fi_fabric_attr, api_version));
	hints->tx_attr = &tx;
	hints->ep_attr = &ep;
	hints->domain_attr = &domain;
	hints->fabric_attr = &fabric;
	fabric.prov_name = "tcp";
	CHECK(g->getinfo(g->version, NULL, NULL, 0, hints, &list) == 0);
	g->freeinfo(list);
	list = g->dupinfo(hints);
	CHECK(list && !list->nic && !list->domain_attr->max_cntr_value && !list->tx_attr->tclass);
#ifdef FI_XPU
	CHECK(list && !list->ep_attr->xpu_ctx && !list->domain_attr->max_xpu_ctx_cnt);
#endif
#ifdef FI_WR
	CHECK(list && !list->ep_attr->max_tx_wr_size && !list->ep_attr->max_rx_wr_size);
#endif
	g->freeinfo(list);
}

static void test_fabric(void)
{
	struct fi_fabric_attr *attr = guarded(sizeof(*attr));
	struct fid_fabric *fabric = NULL;

	attr->name = "127.0.0.1/32";
	attr->prov_name = "tcp";
	node = "1.0";
	attr->api_version = 0xdeadbeef;	/* padding in the struct of that time */
	CHECK(fabric_1_0(attr, &fabric, NULL) == 0);
	CHECK(fabric && fabric->api_version == FI_VERSION(1, 0));
	CHECK(fabric && fi_close(&fabric->fid) == 0);
	fabric = NULL;
	attr->api_version = FI_VERSION(1, 4);
	CHECK(fabric_1_0(attr, &fabric, NULL) == 0);
	CHECK(fabric && fabric->api_version == FI_VERSION(1, 0));
	CHECK(fabric && fi_close(&fabric->fid) == 0);
	fabric = NULL;
	node = "1.1";
	CHECK(fabric_1_1(attr, &fabric, NULL) == 0);
	CHECK(fabric && fabric->api_version == FI_VERSION(1, 4));
	CHECK(fabric && fi_close(&fabric->fid) == 0);
}

int main(void)
{
	size_t i;

	for (i = 0; i < sizeof(generations) / sizeof(generations[0]); i++) {
		node = generations[i].name;
		test_getinfo(&generations[i]);
		test_garbage(&generations[i]);
		test_versions(&generations[i]);
		test_tail(&generations[i]);
	}
	test_fabric();
	printf("%d failures\n", failures);
	return failures != 0;
}
