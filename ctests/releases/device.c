// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// A program with the callbacks of its own headers for a device, over device_plugin.c, without and with hooks. Its
// structs end before a page without access and reach the plug-in unchanged. DEVICE_PLUGIN is the folder of the plug-in.
// fi_xpu(3)

#define _GNU_SOURCE

#include <sys/mman.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_xpu.h>

#include "../check.h"

static void *guarded(const void *from, size_t size)
{
	size_t page = (size_t) sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE))
		exit(2);
	return memcpy(pages + page - size, from, size);
}

#define GUARDED(value) guarded(&(value), sizeof(value))

static int freed;

static void free_(uint64_t device, void *addr)
{
	freed += addr && device == 7;
}

#ifdef FI_WR
static int unimported;

static int unimport(uint64_t device, void *addr)
{
	unimported += addr && device == 7;
	return 0;
}
#endif

static void query(void)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	struct fi_xpu_ops ops = {.size = sizeof ops, .free = free_};
	struct fi_xpu_attr attr = {.iface = FI_HMEM_CUDA, .device = 7};
	struct fi_xpu_ctx_attr limits = {0}, *found = GUARDED(limits);
	struct fid_fabric *fabric = NULL;
	struct fid_domain *domain = NULL;
	struct fid_xpu_ctx *ctx = NULL;

	setenv("FI_PROVIDER_PATH", getenv("DEVICE_PLUGIN"), 1);
	hints->fabric_attr->prov_name = strdup("device");
	hints->caps = FI_XPU;
	EQUAL(fi_getinfo(FI_VERSION(2, 7), NULL, NULL, 0, hints, &info), 0);
	if (!info)
		exit(1);
	EQUAL(info->domain_attr->max_xpu_ctx_cnt, 1);
	EQUAL(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	EQUAL(fi_domain(fabric, info, &domain, NULL), 0);
#ifdef FI_WR
	EQUAL(info->ep_attr->max_tx_wr_size, 5);
	EQUAL(info->ep_attr->max_rx_wr_size, 6);
	ops.unimport = unimport;
#endif
	attr.ops = GUARDED(ops);
	EQUAL(fi_xpu_ctx(domain, GUARDED(attr), &ctx, NULL), 0);
	EQUAL(freed, 1);
	EQUAL(fi_xpu_ctx_query(ctx, found), 0);
	EQUAL(found->caps, FI_XPU_CAP_EP);
	EQUAL(found->av_addr_size + found->mr_desc_size, 3);
#ifdef FI_WR
	EQUAL(unimported, 1);
	// The program requests version 2.7.
	EQUAL(found->max_tx_wr_desc_size + found->max_rx_wr_desc_size, 0);
#endif
	EQUAL(fi_close(&ctx->fid), 0);
	EQUAL(fi_close(&domain->fid), 0);
	EQUAL(fi_close(&fabric->fid), 0);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

static void query_with_hooks(void)
{
	setenv("FI_HOOK", "perf;trace;profile;monitor;debug;hmem;noop", 1);
	setenv("FI_LOG_LEVEL", "trace", 1);
	setenv("FI_LOG_LOCATION", "/dev/null", 1);
	query();
}

static const struct test tests[] = {
	TEST(query), TEST(query_with_hooks),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
