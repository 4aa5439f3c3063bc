// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// A program of one release, built against the headers of that release and linked at its version node. Its structs end where
// a page without access begins, so the library may not read members that the headers do not have. fi_xpu(3), fi_getinfo(3)

#define _GNU_SOURCE

#include <sys/mman.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#ifdef FI_XPU
#include <rdma/fi_xpu.h>
#include <rdma/fi_xpu_device.h>
#endif
#ifdef FI_WR
#include <rdma/fi_wr.h>
#endif
#ifndef API
#define API FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)
#endif

#include "../check.h"

static const char *const providers[] = {"tcp", "shm"};

// Copies `from` to the end of a page before a page without access. Never freed, because the process is short-lived.
static void *guarded(const void *from, size_t size)
{
	size_t page = (size_t) sysconf(_SC_PAGESIZE);
	char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED || mprotect(pages + page, page, PROT_NONE))
		exit(2);
	return memcpy(pages + page - size, from, size);
}

#define GUARDED(value) guarded(&(value), sizeof(value))

struct side {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_cntr *cntr;
	struct fid_ep *ep;
};

static struct fi_info *find(const char *provider)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	hints->fabric_attr->prov_name = strdup(provider);
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), 0);
	fi_freeinfo(hints);
	if (!info)
		exit(1);
	EQUAL(info->fabric_attr->api_version, API);
	return info;
}

// The entry as this program's own structs.
static struct fi_info *own(const struct fi_info *info)
{
	struct fi_info *copy = GUARDED(*info);

	copy->ep_attr = GUARDED(*info->ep_attr);
	copy->domain_attr = GUARDED(*info->domain_attr);
	copy->tx_attr = GUARDED(*info->tx_attr);
	copy->rx_attr = GUARDED(*info->rx_attr);
	copy->fabric_attr = GUARDED(*info->fabric_attr);
	return copy;
}

static void open_side(struct side *side, const char *provider)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_cntr_attr cntr = {.events = FI_CNTR_EVENTS_COMP};
	struct fi_av_attr av = {.type = FI_AV_TABLE};

	side->info = own(find(provider));
	EQUAL(fi_fabric(side->info->fabric_attr, &side->fabric, NULL), 0);
	EQUAL(fi_domain(side->fabric, side->info, &side->domain, NULL), 0);
	EQUAL(fi_av_open(side->domain, &av, &side->av, NULL), 0);
	EQUAL(fi_cq_open(side->domain, GUARDED(cq), &side->cq, NULL), 0);
	EQUAL(fi_cntr_open(side->domain, GUARDED(cntr), &side->cntr, NULL), 0);
	EQUAL(fi_endpoint(side->domain, side->info, &side->ep, NULL), 0);
	EQUAL(fi_ep_bind(side->ep, &side->av->fid, 0), 0);
	EQUAL(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EQUAL(fi_ep_bind(side->ep, &side->cntr->fid, FI_RECV), 0);
	EQUAL(fi_enable(side->ep), 0);
	if (failures)
		exit(1);
}

static void close_side(struct side *side)
{
	EQUAL(fi_close(&side->ep->fid), 0);
	EQUAL(fi_close(&side->cntr->fid), 0);
	EQUAL(fi_close(&side->cq->fid), 0);
	EQUAL(fi_close(&side->av->fid), 0);
	EQUAL(fi_close(&side->domain->fid), 0);
	EQUAL(fi_close(&side->fabric->fid), 0);
}

static fi_addr_t know(struct side *side, struct side *peer)
{
	char name[256];
	size_t len = sizeof name;
	fi_addr_t addr = FI_ADDR_NOTAVAIL;

	EQUAL(fi_getname(&peer->ep->fid, name, &len), 0);
	EQUAL(fi_av_insert(side->av, name, 1, &addr, 0, NULL), 1);
	return addr;
}

// One message from a to b, which the queue and the counter of b report.
static void messages(const char *provider)
{
	struct side a, b;
	struct fi_cq_tagged_entry entry;
	char out[64] = "a message of the newest interface", in[64] = "";
	ssize_t sent = -FI_EAGAIN, seen = -FI_EAGAIN;

	open_side(&a, provider);
	open_side(&b, provider);
	fi_addr_t to = know(&a, &b);

	EQUAL(fi_trecv(b.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, 7, 0, &b), 0);
	// The alarm of the test limits the time.
	while (sent == -FI_EAGAIN) {
		sent = fi_tsend(a.ep, out, sizeof out, NULL, to, 7, &a);
		fi_cq_read(b.cq, &entry, 0);
	}
	EQUAL(sent, 0);
	while (seen == -FI_EAGAIN) {
		fi_cq_read(a.cq, &entry, 0);
		seen = fi_cq_read(b.cq, &entry, 1);
	}
	EQUAL(seen, 1);
	EQUAL(entry.tag, 7);
	CHECK(entry.op_context == &b);
	SAME(in, out);
	EQUAL(fi_cntr_read(b.cntr), 1);
	close_side(&a);
	close_side(&b);
}

static void messages_of_each(void)
{
	for (size_t i = 0; i < sizeof providers / sizeof *providers; i++)
		messages(providers[i]);
}

// The texts read no more than the caller's structs, and contain nothing that the caller's headers lack.
static void texts(void)
{
	struct fi_info *info = own(find("tcp"));
	struct fi_cq_attr cq = {.size = 5};
	struct fi_cntr_attr cntr = {.wait_obj = FI_WAIT_NONE};
	const struct {
		const void *data;
		enum fi_type type;
	} all[] = {
		{info, FI_TYPE_INFO},
		{info->ep_attr, FI_TYPE_EP_ATTR},
		{info->domain_attr, FI_TYPE_DOMAIN_ATTR},
		{GUARDED(cq), FI_TYPE_CQ_ATTR},
		{GUARDED(cntr), FI_TYPE_CNTR_ATTR},
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		const char *text = fi_tostr(all[i].data, all[i].type);

		CHECK(text && text[0]);
		CHECK(text && !strstr(text, "xpu"));
	}
}

// If all bits are set, that does not prove longer structs: programs set them to accept anything.
static void texts_of_all_bits(void)
{
	struct fi_domain_attr domain;
	struct fi_cq_attr cq;
	struct fi_cntr_attr cntr;

	memset(&domain, 0xff, sizeof domain);
	domain.name = NULL;
	memset(&cq, 0xff, sizeof cq);
	memset(&cntr, 0xff, sizeof cntr);
	CHECK(!strstr(fi_tostr(GUARDED(domain), FI_TYPE_DOMAIN_ATTR), "max_xpu_ctx_cnt"));
	CHECK(!strstr(fi_tostr(GUARDED(cq), FI_TYPE_CQ_ATTR), "xpu_ctx"));
	CHECK(!strstr(fi_tostr(GUARDED(cntr), FI_TYPE_CNTR_ATTR), "xpu_ctx"));
}

static void copies(void)
{
	struct fi_info *info = find("tcp"), *copy = fi_dupinfo(own(info));

	CHECK(copy && copy->ep_attr->max_msg_size == info->ep_attr->max_msg_size);
	CHECK(copy && copy->domain_attr->max_err_cntr_value == info->domain_attr->max_err_cntr_value);
	fi_freeinfo(copy);
	fi_freeinfo(info);
}

#ifdef FI_XPU
static void longer_tables(const char *provider)
{
	struct side side;

	open_side(&side, provider);
	// The library has the tables of the newest release.
	CHECK(side.av->ops->size >= sizeof(struct fi_ops_av));
	CHECK(side.domain->ops->size >= sizeof(struct fi_ops_domain));
	CHECK(side.ep->ops->size >= sizeof(struct fi_ops_ep));
	CHECK(side.cq->ops->size >= sizeof(struct fi_ops_cq));
	CHECK(side.cntr->ops->size >= sizeof(struct fi_ops_cntr));
	CHECK(side.av->ops->lookup2 && side.domain->ops->xpu_ctx && side.ep->ops->export_xpu);
	CHECK(side.cq->ops->export_xpu && side.cntr->ops->export_xpu);
	close_side(&side);
}

static void new_calls(const char *provider)
{
	struct fi_xpu_attr attr = {.iface = FI_HMEM_CUDA};
	struct fid_xpu_ctx *ctx = NULL, *some = (void *) &attr;
	struct fid_xpu_ep xpu_ep = {{1, 2, 3}};
	struct fid_xpu_cq xpu_cq = {{1, 2, 3}};
	struct fid_xpu_cntr xpu_cntr = {{1, 2, 3}};
	char one[256], two[256], buf[64];
	size_t len = sizeof one, len2 = sizeof two;
	struct fid_ep *ep;
	struct fid_mr *mr;
	struct side side;

	open_side(&side, provider);
	fi_addr_t addr = know(&side, &side);

	EQUAL(fi_xpu_ctx(side.domain, &attr, &ctx, NULL), -FI_ENOSYS);
	CHECK(!ctx);
	EQUAL(fi_ep_export_xpu(side.ep, 0, &xpu_ep), -FI_ENOSYS);
	EQUAL(fi_cq_export_xpu(side.cq, 0, &xpu_cq), -FI_ENOSYS);
	EQUAL(fi_cntr_export_xpu(side.cntr, 0, &xpu_cntr), -FI_ENOSYS);
	EQUAL(xpu_ep.fid.prov_ctx + xpu_cq.fid.prov_ctx + xpu_cntr.fid.prov_ctx, 9);
	EQUAL(fi_endpoint2(side.domain, side.info, &ep, FI_XPU, NULL), -FI_ENOSYS);

	// Without flags it is fi_av_lookup, whatever the context.
	EQUAL(fi_av_lookup(side.av, addr, one, &len), 0);
	EQUAL(fi_av_lookup2(side.av, addr, two, &len2, 0, some), 0);
	EQUAL(len2, len);
	CHECK(!memcmp(one, two, len));
	len2 = 1;
	EQUAL(fi_av_lookup2(side.av, addr, two, &len2, 0, NULL), 0);
	EQUAL(len2, len);
	EQUAL(fi_av_lookup2(side.av, addr + 99, two, &len2, 0, NULL), -FI_EINVAL);
	EQUAL(fi_av_lookup2(side.av, addr, two, &len2, FI_XPU, some), -FI_ENOSYS);
	EQUAL(fi_av_lookup2(side.av, addr, two, &len2, 1, NULL), -FI_ENOSYS);

	EQUAL(fi_mr_reg(side.domain, buf, sizeof buf, FI_REMOTE_WRITE, 0, 3, 0, &mr, NULL), 0);
	len = sizeof one;
	EQUAL(fi_mr_get_xpu_desc(mr, one, &len, FI_XPU, some), -FI_ENOSYS);
	EQUAL(fi_mr_get_xpu_desc(mr, one, &len, 0, NULL), -FI_ENOSYS);
	EQUAL(len, sizeof one);
	EQUAL(fi_close(&mr->fid), 0);
	close_side(&side);
}

// The context of a device is read only if the flag shows that there is one.
static void new_attributes(const char *provider)
{
	struct fi_cq_attr cq = {.xpu_ctx = (void *) 1};
	struct fi_cntr_attr cntr = {.xpu_ctx = (void *) 1};
	struct fid_cntr *counter;
	struct fid_cq *queue;
	struct fid_ep *ep;
	struct side side;

	open_side(&side, provider);
	EQUAL(fi_cq_open(side.domain, GUARDED(cq), &queue, NULL), 0);
	EQUAL(fi_close(&queue->fid), 0);
	EQUAL(fi_cntr_open(side.domain, GUARDED(cntr), &counter, NULL), 0);
	EQUAL(fi_close(&counter->fid), 0);
	cq.flags = cntr.flags = FI_XPU;
	EQUAL(fi_cq_open(side.domain, GUARDED(cq), &queue, NULL), -FI_ENOSYS);
	EQUAL(fi_cntr_open(side.domain, GUARDED(cntr), &counter, NULL), -FI_ENOSYS);
	cq.xpu_ctx = cntr.xpu_ctx = NULL;
	EQUAL(fi_cq_open(side.domain, &cq, &queue, NULL), -FI_ENOSYS);
	EQUAL(fi_cntr_open(side.domain, &cntr, &counter, NULL), -FI_ENOSYS);
	side.info->ep_attr->xpu_ctx = (void *) 1;
	EQUAL(fi_endpoint(side.domain, side.info, &ep, NULL), 0);
	EQUAL(fi_close(&ep->fid), 0);
	close_side(&side);
}

static void new_hints(const char *provider)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	hints->fabric_attr->prov_name = strdup(provider);
	hints->ep_attr->xpu_ctx = (void *) 1;
	hints->domain_attr->max_xpu_ctx_cnt = 4;
	hints->domain_attr->mr_mode = FI_MR_XPU_DESC;
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), 0);
	for (struct fi_info *entry = info; entry; entry = entry->next) {
		CHECK(!entry->ep_attr->xpu_ctx);
		EQUAL(entry->domain_attr->max_xpu_ctx_cnt, 0);
		EQUAL(entry->domain_attr->mr_mode & FI_MR_XPU_DESC, 0);
		EQUAL((entry->caps | entry->domain_attr->caps) & FI_XPU, 0);
	}
	fi_freeinfo(info);
	hints->caps = FI_MSG | FI_XPU;
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	hints->caps = 0;
	hints->domain_attr->caps = FI_XPU;
	EQUAL(fi_getinfo(API, NULL, NULL, 0, hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
}

static void next_of_each(void)
{
	for (size_t i = 0; i < sizeof providers / sizeof *providers; i++) {
		longer_tables(providers[i]);
		new_calls(providers[i]);
		new_attributes(providers[i]);
		new_hints(providers[i]);
	}
}

// A copy keeps the pointer and the number unchanged; a caller with the capability sees them in texts.
static void next_copies_and_texts(void)
{
	struct fi_info *info = fi_allocinfo(), *copy;
	struct fi_cq_attr cq = {.flags = FI_XPU};
	struct fi_cntr_attr cntr = {.flags = FI_XPU};
	struct fi_domain_attr domain = {.caps = FI_XPU, .mr_mode = FI_MR_XPU_DESC, .max_xpu_ctx_cnt = 6};

	info->ep_attr->xpu_ctx = (void *) 0x1230;
	info->domain_attr->max_xpu_ctx_cnt = 6;
	copy = fi_dupinfo(own(info));
	CHECK(copy->ep_attr->xpu_ctx == (void *) 0x1230);
	EQUAL(copy->domain_attr->max_xpu_ctx_cnt, 6);
	CHECK(!strstr(fi_tostr(copy, FI_TYPE_INFO), "xpu_ctx"));
	copy->caps = FI_MSG | FI_HMEM | FI_XPU;
	const char *text = fi_tostr(own(copy), FI_TYPE_INFO);

	CHECK(strstr(text, "FI_HMEM, FI_XPU ]"));
	CHECK(strstr(text, "xpu_ctx: 0x1230\n"));
	CHECK(strstr(text, "max_xpu_ctx_cnt: 6\n"));
	text = fi_tostr(GUARDED(domain), FI_TYPE_DOMAIN_ATTR);
	CHECK(strstr(text, "mr_mode: [ FI_MR_XPU_DESC ]"));
	CHECK(strstr(text, "max_xpu_ctx_cnt: 6\n"));
	CHECK(strstr(fi_tostr(GUARDED(cq), FI_TYPE_CQ_ATTR), "xpu_ctx: (nil)"));
	CHECK(strstr(fi_tostr(GUARDED(cntr), FI_TYPE_CNTR_ATTR), "xpu_ctx: (nil)"));
	fi_freeinfo(info);
	fi_freeinfo(copy);
}

// The functions that programs on a device call return -FI_ENOSYS, because no provider serves them.
static void device_calls(void)
{
	struct fid_xpu_ep ep = {{FI_CLASS_EP, 99, 0}};
	struct fid_xpu_cq cq = {{FI_CLASS_CQ, 99, 0}};
	struct fid_xpu_cntr cntr = {{FI_CLASS_CNTR, 99, 0}};
	char byte = 0;

	EQUAL(fi_xpu_send(&ep, &byte, 1, NULL, 0, NULL, NULL, 0, FI_XPU_WORK_ITEM), -FI_ENOSYS);
	EQUAL(fi_xpu_write(&ep, &byte, 1, NULL, 0, NULL, 0, 0, NULL, 0, FI_XPU_DEVICE), -FI_ENOSYS);
	EQUAL(fi_xpu_cq_read(&cq, &byte, 1, FI_XPU_SUBGROUP), -FI_ENOSYS);
	EQUAL(fi_xpu_cntr_read(&cntr, FI_XPU_WORK_GROUP), 0);
	fi_xpu_cntr_wait(&cntr, 1, -1, FI_XPU_WORK_ITEM);
	EQUAL(fi_xpu_cntr_add(&cntr, 1, FI_XPU_WORK_ITEM), -FI_ENOSYS);
}
#endif

#ifdef FI_WR
// A copy keeps the sizes, and a text contains them if the capabilities include FI_WR.
static void alpha_copies_and_texts(void)
{
	struct fi_info *info = fi_allocinfo(), *copy;

	info->ep_attr->max_tx_wr_size = 77;
	info->ep_attr->max_rx_wr_size = 66;
	copy = fi_dupinfo(own(info));
	EQUAL(copy->ep_attr->max_tx_wr_size, 77);
	EQUAL(copy->ep_attr->max_rx_wr_size, 66);
	CHECK(!strstr(fi_tostr(own(copy), FI_TYPE_INFO), "wr_size"));
	copy->caps = FI_MSG | FI_XPU;
	CHECK(!strstr(fi_tostr(own(copy), FI_TYPE_INFO), "wr_size"));
	copy->caps = FI_MSG | FI_WR;
	const char *text = fi_tostr(own(copy), FI_TYPE_INFO);

	CHECK(strstr(text, "FI_WR ]"));
	CHECK(strstr(text, "xpu_ctx: (nil)\n"));
	CHECK(strstr(text, "max_tx_wr_size: 77\n"));
	CHECK(strstr(text, "max_rx_wr_size: 66\n"));
	CHECK(strstr(text, "max_xpu_ctx_cnt: 0\n"));
	fi_freeinfo(info);
	fi_freeinfo(copy);
}

// fi_xpu_ops.size determines the position of `free`: the struct of 2.7 has it in the place of `unimport`.
static void alpha_device_structs(void)
{
	EQUAL(sizeof(struct fi_xpu_ops), 40);
	EQUAL(offsetof(struct fi_xpu_ops, unimport), 24);
	EQUAL(FI_XPU_CAP_WR, 8);
}

static void alpha_device_calls(void)
{
	struct fid_xpu_ep ep = {{FI_CLASS_EP, 99, 0}};
	char room[8];

	EQUAL(fi_xpu_wr_queue_tx(&ep, room, NULL, FI_XPU_WORK_ITEM), -FI_ENOSYS);
	EQUAL(fi_xpu_tx_flush(&ep, 0, FI_XPU_DEVICE), -FI_ENOSYS);
}
#endif

// The next interface version is supported, the one after it is unknown.
static void versions(void)
{
	struct fi_info *info = NULL;

	CHECK(FI_VERSION_GE(fi_version(), API));
	EQUAL(fi_getinfo(API, NULL, NULL, 0, NULL, &info), 0);
	EQUAL(info->fabric_attr->api_version, API);
	fi_freeinfo(info);
	EQUAL(fi_getinfo(fi_version(), NULL, NULL, 0, NULL, &info), 0);
	EQUAL(info->fabric_attr->api_version, fi_version());
	fi_freeinfo(info);
	EQUAL(fi_getinfo(fi_version() + 1, NULL, NULL, 0, NULL, &info), -FI_ENOSYS);
}

static const struct test tests[] = {
	TEST(versions), TEST(messages_of_each), TEST(texts), TEST(texts_of_all_bits), TEST(copies),
#ifdef FI_XPU
	TEST(next_of_each), TEST(next_copies_and_texts), TEST(device_calls),
#endif
#ifdef FI_WR
	TEST(alpha_copies_and_texts), TEST(alpha_device_structs), TEST(alpha_device_calls),
#endif
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
