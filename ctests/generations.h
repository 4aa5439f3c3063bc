// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* The generations of libfabric's headers up to that of the program, and structs that end where a page without access
 * begins: for compat_nodes.c and compat_objects.c.
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
#define NEXT(apply) apply(1_10, "1.10") ALPHA(apply)
#define EP_2_6 UP_TO(fi_ep_attr, xpu_ctx)
#define DOMAIN_2_6 UP_TO(fi_domain_attr, max_xpu_ctx_cnt)
#else
#define NEXT(apply)
#define EP_2_6 WHOLE(fi_ep_attr)
#define DOMAIN_2_6 WHOLE(fi_domain_attr)
#endif
#ifdef FI_WR
#define ALPHA(apply) apply(1_11, "1.11")
#define EP_2_7 UP_TO(fi_ep_attr, max_tx_wr_size)
#else
#define ALPHA(apply)
#define EP_2_7 WHOLE(fi_ep_attr)
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

/* The structs in the headers of a node, and the last API version that a program with these headers could ask for. */
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
	  EP_2_7, WHOLE(fi_domain_attr), FUNCTIONS(1_10) },
#endif
#ifdef FI_WR
	/* fi_getinfo accepts no version of the alpha. */
	{ "1.11", FI_VERSION(2, 7), WHOLE(fi_info), WHOLE(fi_tx_attr), WHOLE(fi_rx_attr),
	  WHOLE(fi_ep_attr), WHOLE(fi_domain_attr), FUNCTIONS(1_11) },
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
