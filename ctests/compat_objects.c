// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Structs of all generations in the calls that have no version of their own: fi_domain, fi_endpoint, fi_cq_open and the
 * like. The API version tells the library how much of a struct it may read; between 2.5 and the alpha, where that tells
 * nothing, FI_XPU and FI_WR do. Every struct ends where a page without access begins: generations.h.
 *
 * An entry that one node returned is whole, so it may go to every other node. All is done without and with hooks.
 */
#include "generations.h"

#include <rdma/fi_cm.h>
#include <sys/wait.h>

#define GUARDED(value, size) guarded_copy(&(value), size)
#ifdef FI_XPU
#define CQ_SIZE UP_TO(fi_cq_attr, xpu_ctx)
#define CNTR_SIZE UP_TO(fi_cntr_attr, xpu_ctx)
#else
#define CQ_SIZE WHOLE(fi_cq_attr)
#define CNTR_SIZE WHOLE(fi_cntr_attr)
#endif

static const struct {
	const char *name;
	enum fi_ep_type type;
} providers[] = {
	{ "tcp", FI_EP_RDM }, { "tcp", FI_EP_MSG }, { "shm", FI_EP_RDM }, { "sm2", FI_EP_RDM }, { "sockets", FI_EP_RDM },
	{ "udp", FI_EP_DGRAM }, { "tcp;ofi_rxm", FI_EP_RDM }, { "udp;ofi_rxd", FI_EP_RDM },
};

/* The layers stand behind this index. */
enum { LAYERS = 6 };

/* Bytes of fi_mr_attr in the headers of a version. */
static size_t mr_attr_size(uint32_t version)
{
	static const struct {
		uint32_t before;
		size_t size;
	} sizes[] = {
		{ FI_VERSION(1, 5), 48 }, { FI_VERSION(1, 9), 64 }, { FI_VERSION(1, 19), 80 }, { FI_VERSION(1, 22), 88 },
		{ FI_VERSION(2, 0), 96 },
	};
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (version < sizes[i].before)
			return sizes[i].size;
	}
	return sizeof(struct fi_mr_attr);
}

static void close_it(void *object)
{
	CHECK(fi_close(object) == 0);
}

/* Some providers do not have all of these calls: none of them may read too much. */
static void test_rare(struct fid_domain *domain, uint32_t version, struct fi_info *own)
{
	size_t tx_size = version < FI_VERSION(1, 9) ? UP_TO(fi_tx_attr, tclass) : WHOLE(fi_tx_attr);
	struct fid_ep *sep = NULL, *context = NULL, *srx = NULL;
	struct fid_stx *stx = NULL;
	struct fid_poll *poll = NULL;
	struct fi_poll_attr poll_attr = { 0 };

	if (fi_scalable_ep(domain, own, &sep, NULL) == 0) {
		if (fi_tx_context(sep, 0, guarded_copy(own->tx_attr, tx_size), &context, NULL) == 0)
			close_it(context);
		if (fi_rx_context(sep, 0, guarded_copy(own->rx_attr, WHOLE(fi_rx_attr)), &context, NULL) == 0)
			close_it(context);
		close_it(sep);
	}
	if (fi_stx_context(domain, guarded_copy(own->tx_attr, tx_size), &stx, NULL) == 0)
		close_it(stx);
	if (fi_srx_context(domain, guarded_copy(own->rx_attr, WHOLE(fi_rx_attr)), &srx, NULL) == 0)
		close_it(srx);
	if (fi_poll_open(domain, GUARDED(poll_attr, sizeof(poll_attr)), &poll) == 0)
		close_it(poll);
}

static void test_queues(struct fid_domain *domain, uint32_t version)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_MSG };
	struct fi_cntr_attr cntr_attr = { .events = FI_CNTR_EVENTS_COMP };
	char memory[64];
	struct iovec iov = { memory, sizeof(memory) };
	struct fi_mr_attr mr_attr = { .mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_WRITE, .requested_key = 3 };
	struct fid_av *av = NULL;
	struct fid_cq *cq = NULL;
	struct fid_cntr *cntr = NULL;
	struct fid_mr *mr = NULL;

	CHECK(fi_av_open(domain, GUARDED(av_attr, sizeof(av_attr)), &av, NULL) == 0);
	close_it(av);
	CHECK(fi_cq_open(domain, GUARDED(cq_attr, CQ_SIZE), &cq, NULL) == 0);
	close_it(cq);
	if (fi_cntr_open(domain, GUARDED(cntr_attr, CNTR_SIZE), &cntr, NULL) == 0)
		close_it(cntr);
	if (fi_mr_regattr(domain, GUARDED(mr_attr, mr_attr_size(version)), 0, &mr) == 0)
		close_it(mr);
}

static void test_passive(struct fid_fabric *fabric, struct fi_info *own)
{
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_NONE };
	struct fid_eq *eq = NULL;
	struct fid_pep *pep = NULL;

	CHECK(fi_eq_open(fabric, GUARDED(eq_attr, sizeof(eq_attr)), &eq, NULL) == 0);
	if (own->ep_attr->type == FI_EP_MSG) {
		CHECK(fi_passive_ep(fabric, own, &pep, NULL) == 0);
		close_it(pep);
	}
	close_it(eq);
}

/* `own` are the structs of a program, or an entry of the library. */
static void test_objects(struct fi_info *own, uint32_t version)
{
	struct fid_fabric *fabric = NULL;
	struct fid_domain *domain = NULL;
	struct fid_ep *ep = NULL;

	CHECK(fi_fabric(own->fabric_attr, &fabric, NULL) == 0);
	if (!fabric)
		return;
	test_passive(fabric, own);
	CHECK(fi_domain(fabric, own, &domain, NULL) == 0);
	if (domain) {
		CHECK(fi_endpoint(domain, own, &ep, NULL) == 0);
		if (ep)
			close_it(ep);
#ifdef FI_XPU
		CHECK(fi_endpoint2(domain, own, &ep, FI_XPU, NULL) == -FI_ENOSYS);
#endif
		test_queues(domain, version);
		test_rare(domain, version, own);
		close_it(domain);
	}
	close_it(fabric);
}

static void test_provider(const struct generation *g, size_t provider, uint32_t version)
{
	const struct generation *newest = &generations[sizeof(generations) / sizeof(generations[0]) - 1];
	struct fi_info *hints = old_hints(g), *list = NULL, *copy, *again = NULL;

	hints->fabric_attr->prov_name = (char *) providers[provider].name;
	hints->ep_attr->type = providers[provider].type;
	hints->caps = providers[provider].type == FI_EP_DGRAM ? FI_MSG : FI_MSG | FI_TAGGED | FI_RMA;
	if (providers[provider].type == FI_EP_MSG)
		hints->caps = FI_MSG;
	if (g->getinfo(version, NULL, NULL, 0, hints, &list) == 0) {
		/* Only headers of that version or later ask for it with structs of their own. */
		if (version <= g->version)
			test_objects(old_entry(g, list), version);
		test_objects(list, version);
		copy = newest->dupinfo(list);
		CHECK(copy && newest->getinfo(version, NULL, NULL, 0, list, &again) == 0);
		newest->freeinfo(copy);
		newest->freeinfo(again);
	} else {
		printf("no %s for version %x\n", providers[provider].name, version);
		failures++;
	}
	g->freeinfo(list);
}

static void test_generation(const struct generation *g)
{
	const uint32_t versions[] = { FI_VERSION(1, 0), FI_VERSION(1, 18), FI_VERSION(2, 7), g->version };
	size_t i, provider;

	for (i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		for (provider = 0; provider < sizeof(providers) / sizeof(providers[0]); provider++) {
			/* Hooks do not depend on the provider, layers read what the provider below reads. */
			if (provider < 2 || (!getenv("FI_HOOK") && (provider < LAYERS || versions[i] == g->version)))
				test_provider(g, provider, versions[i]);
		}
	}
}

static void test_hook(const char *program, const char *hook)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		setenv("FI_HOOK", hook, 1);
		setenv("FI_LOG_LEVEL", "trace", 1);
		if (!freopen("/dev/null", "w", stderr))
			exit(2);
		execl(program, program, (char *) NULL);
		exit(2);
	}
	if (waitpid(child, &status, 0) != child || status) {
		printf("with the hook %s: status %x\n", hook, status);
		failures++;
	}
}

int main(int argc, char **argv)
{
	size_t i;

	(void) argc;
	for (i = 0; i < sizeof(generations) / sizeof(generations[0]); i++) {
		node = generations[i].name;
		test_generation(&generations[i]);
	}
	if (!getenv("FI_HOOK")) {
		test_hook(argv[0], "trace");
		test_hook(argv[0], "noop;hmem;perf;profile;monitor;debug");
	}
	printf("%d failures\n", failures);
	return failures != 0;
}
