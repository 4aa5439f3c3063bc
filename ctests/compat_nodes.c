// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Programs of all generations up to that of the headers: each version of fi_getinfo, fi_dupinfo, fi_freeinfo and
 * fi_fabric reads as much of its caller's structs as the headers of that time had, and not a byte more.
 *
 * Every struct handed in ends where a page without access begins. The structs grew at their ends, so an old one is the
 * newest up to the first member that came later; layout.sh checks the offsets that this relies on.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#ifdef FI_XPU
#define NEXT(apply) apply(1_10, "1.10")
#define EP_2_6 UP_TO(fi_ep_attr, xpu_ctx)
#define DOMAIN_2_6 UP_TO(fi_domain_attr, max_xpu_ctx_cnt)
#else
#define NEXT(apply)
#define EP_2_6 WHOLE(fi_ep_attr)
#define DOMAIN_2_6 WHOLE(fi_domain_attr)
#endif
#define NODES(apply) \
	apply(1_0, "1.0") apply(1_1, "1.1") apply(1_2, "1.2") apply(1_3, "1.3") apply(1_7, "1.7") apply(1_8, "1.8") \
	apply(1_9, "1.9") NEXT(apply)

#define DECLARE(node, name) \
	int getinfo_##node(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **); \
	struct fi_info *dupinfo_##node(const struct fi_info *); \
	void freeinfo_##node(struct fi_info *); \
	__asm__(".symver getinfo_" #node ", fi_getinfo@FABRIC_" name); \
	__asm__(".symver dupinfo_" #node ", fi_dupinfo@FABRIC_" name); \
	__asm__(".symver freeinfo_" #node ", fi_freeinfo@FABRIC_" name);
NODES(DECLARE)

int fabric_1_0(struct fi_fabric_attr *, struct fid_fabric **, void *);
int fabric_1_1(struct fi_fabric_attr *, struct fid_fabric **, void *);
__asm__(".symver fabric_1_0, fi_fabric@FABRIC_1.0");
__asm__(".symver fabric_1_1, fi_fabric@FABRIC_1.1");

/* What the headers of a node had, and the last API version a program could ask for with them. */
struct generation {
	const char *name;
	uint32_t version;
	size_t info, tx, rx, ep, domain;
	int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
	struct fi_info *(*dupinfo)(const struct fi_info *);
	void (*freeinfo)(struct fi_info *);
};

#define FUNCTIONS(node) getinfo_##node, dupinfo_##node, freeinfo_##node
#define UP_TO(type, member) offsetof(struct type, member)
#define WHOLE(type) sizeof(struct type)

static const struct generation generations[] = {
	{ "1.0", FI_VERSION(1, 4), UP_TO(fi_info, nic), UP_TO(fi_tx_attr, tclass), WHOLE(fi_rx_attr),
	  UP_TO(fi_ep_attr, auth_key_size), UP_TO(fi_domain_attr, cntr_cnt), FUNCTIONS(1_0) },
	{ "1.1", FI_VERSION(1, 6), UP_TO(fi_info, nic), UP_TO(fi_tx_attr, tclass), WHOLE(fi_rx_attr),
	  EP_2_6, UP_TO(fi_domain_attr, tclass), FUNCTIONS(1_1) },
	{ "1.2", FI_VERSION(1, 8), WHOLE(fi_info), UP_TO(fi_tx_attr, tclass), WHOLE(fi_rx_attr),
	  EP_2_6, UP_TO(fi_domain_attr, tclass), FUNCTIONS(1_2) },
	{ "1.3", FI_VERSION(1, 19), WHOLE(fi_info), WHOLE(fi_tx_attr), WHOLE(fi_rx_attr),
	  EP_2_6, UP_TO(fi_domain_attr, max_ep_auth_key), FUNCTIONS(1_3) },
	{ "1.7", FI_VERSION(1, 22), WHOLE(fi_info), WHOLE(fi_tx_attr), WHOLE(fi_rx_attr),
	  EP_2_6, UP_TO(fi_domain_attr, max_group_id), FUNCTIONS(1_7) },
	{ "1.8", FI_VERSION(2, 4), WHOLE(fi_info), WHOLE(fi_tx_attr), WHOLE(fi_rx_attr),
	  EP_2_6, UP_TO(fi_domain_attr, max_cntr_value), FUNCTIONS(1_8) },
	{ "1.9", FI_VERSION(2, 6), WHOLE(fi_info), WHOLE(fi_tx_attr), WHOLE(fi_rx_attr),
	  EP_2_6, DOMAIN_2_6, FUNCTIONS(1_9) },
#ifdef FI_XPU
	{ "1.10", FI_VERSION(2, 7), WHOLE(fi_info), WHOLE(fi_tx_attr), WHOLE(fi_rx_attr),
	  WHOLE(fi_ep_attr), WHOLE(fi_domain_attr), FUNCTIONS(1_10) },
#endif
};

static int failures;
static const char *node;

#define CHECK(condition) do { \
	if (!(condition)) { \
		printf("FABRIC_%s, line %d: %s\n", node, __LINE__, #condition); \
		failures++; \
	} \
} while (0)

/* `size` zeroed bytes, behind which no access is possible. Never freed: the process is short. */
static void *guarded(size_t size)
{
	size_t page = (size_t) sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE)) {
		perror("guarded");
		exit(2);
	}
	return pages + page - size;
}

static void *guarded_copy(const void *from, size_t size)
{
	return memcpy(guarded(size), from, size);
}

/* Hints as a program of that generation has them. */
static struct fi_info *old_hints(const struct generation *g)
{
	struct fi_info *hints = guarded(g->info);

	hints->tx_attr = guarded(g->tx);
	hints->rx_attr = guarded(g->rx);
	hints->ep_attr = guarded(g->ep);
	hints->domain_attr = guarded(g->domain);
	hints->fabric_attr = guarded(sizeof(struct fi_fabric_attr));
	hints->fabric_attr->prov_name = "tcp";
	hints->mode = ~0ULL;
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED;
	return hints;
}

/* The entry as a program of that generation sees it, cut off where its headers end. */
static struct fi_info *old_entry(const struct generation *g, const struct fi_info *entry)
{
	struct fi_info *copy = guarded_copy(entry, g->info);

	copy->tx_attr = guarded_copy(entry->tx_attr, g->tx);
	copy->rx_attr = guarded_copy(entry->rx_attr, g->rx);
	copy->ep_attr = guarded_copy(entry->ep_attr, g->ep);
	copy->domain_attr = guarded_copy(entry->domain_attr, g->domain);
	copy->fabric_attr = guarded_copy(entry->fabric_attr, sizeof(struct fi_fabric_attr));
	return copy;
}

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
	}
	test_fabric();
	printf("%d failures\n", failures);
	return failures != 0;
}
