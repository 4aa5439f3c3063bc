// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_mr(3), FI_HMEM: registering memory of devices, its descriptors, and drivers that fail. Only with
//! CONFORMANCE_DEVICE: device.h. The other tests of data run on such memory then, too.
#define _GNU_SOURCE
#include "device.h"
#include "transfer.h"

#include <rdma/fi_trigger.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEN = 3000, LARGE = 300000, HUGE_LEN = 5 << 20 };

static const struct device_kind *kind;

static void need_device(void)
{
	if (!on_device())
		SKIP("CONFORMANCE_DEVICE is not set");
	kind = device_kind();
}

static int try_attr(struct env *t, void *mem, size_t len, enum fi_hmem_iface iface, int device, uint64_t flags, struct fid_mr **mr)
{
	struct iovec iov = { mem, len };
	struct fi_mr_attr attr = {
		.mr_iov = &iov, .iov_count = 1, .access = ALL_ACCESS, .requested_key = t->next_key++, .iface = iface,
		.device.cuda = device,
	};
	int rc;

	*mr = NULL;
	open_domain(t);
	rc = fi_mr_regattr(t->domain, &attr, flags, mr);
	if (!rc)
		keep(t, &(*mr)->fid);
	return rc;
}

// A message from `from` arrives in `to`, whatever memory they are.
static void arrives(struct env *t, struct buf from, struct buf to, unsigned seed)
{
	void *recv = post_recv(t, &t->b, to), *send;

	fill(from.mem, from.len, seed);
	send = post_send(t, &t->a, from);
	done(t, t->b.rxcq, recv, FI_MSG | FI_RECV);
	done(t, t->a.txcq, send, FI_MSG | FI_SEND);
	CHECK(holds(to, from.len, seed));
}

static struct buf host_buf(size_t len)
{
	return (struct buf){ .mem = keep_mem(len), .len = len };
}

// The nth call from now on fails; 0: each.
static void fail_next(const char *function, unsigned nth, const struct device_failure *failure)
{
	char how[100];

	snprintf(how, sizeof(how), "%s:%u:%d", function, nth, failure->code);
	CHECK(!setenv("DEVICE_FAIL", how, 1));
	restart_failures();
}

TEST(fi_hmem, kinds, EP_RELIABLE | OURS_ONLY, FI_MSG, "fi_mr_regattr takes memory of the device that it names; a kind without a driver is -FI_ENOSYS, a device that there is not -FI_EINVAL")
{
	static uint8_t host[64];
	struct fid_mr *mr;
	void *mem;

	need_device();
	mem = device_mem(LEN);
	CHECK_RC(try_attr(t, mem, LEN, kind->iface, kind->device, 0, &mr), 0);
	CHECK_RC(try_attr(t, mem, LEN, kind->iface, kind->device, FI_HMEM_DEVICE_ONLY, &mr), 0);
	for (unsigned i = 0; i < 3; i++)
		CHECK_RC(try_attr(t, mem, LEN, kind->iface, kind->absent[i], 0, &mr), -FI_EINVAL);
	for (enum fi_hmem_iface iface = FI_HMEM_CUDA; iface <= FI_HMEM_SYNAPSEAI + 1; iface++)
		if (iface != kind->iface)
			CHECK_RC(try_attr(t, mem, LEN, iface, 0, 0, &mr), -FI_ENOSYS);
	CHECK_RC(try_attr(t, host, sizeof(host), kind->iface, kind->device, 0, &mr), 0);
	CHECK_RC(try_attr(t, host, sizeof(host), kind->iface, kind->device, FI_HMEM_DEVICE_ONLY, &mr), -FI_EINVAL);
	CHECK_RC(try_attr(t, host, sizeof(host), kind->iface, -1, FI_HMEM_HOST_ALLOC, &mr), 0);
}

TEST(fi_hmem, not_started, EP_RELIABLE | OURS_ONLY, FI_MSG, "Until the program has initialized a driver, its kind is -FI_ENOSYS, and all memory is the host's")
{
	static uint8_t host[64];
	struct fid_mr *mr;

	need_device();
	PAIR(t);
	CHECK_RC(try_attr(t, host, sizeof(host), kind->iface, kind->device, 0, &mr), -FI_ENOSYS);
	arrives(t, host_buf(LEN), host_buf(LEN), 1);
	CHECK_RC(try_attr(t, device_mem(LEN), LEN, kind->iface, kind->device, FI_HMEM_DEVICE_ONLY, &mr), 0);
}

// Returns what fi_mr_regattr answers in a domain of this process.
static int try_own(struct env *t, void *mem, enum fi_hmem_iface iface)
{
	struct iovec iov = { mem, LEN };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = FI_SEND, .requested_key = 1, .iface = iface };
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_mr *mr;
	int rc;

	attr.device.ze = kind->device;
	if (fi_fabric(t->info->fabric_attr, &fabric, NULL) || fi_domain(fabric, t->info, &domain, NULL))
		return 1;
	rc = fi_mr_regattr(domain, &attr, 0, &mr);
	return rc || (!fi_close(&mr->fid) && !fi_close(&domain->fid) && !fi_close(&fabric->fid)) ? rc : 2;
}

TEST(fi_hmem, child, EP_RELIABLE | OURS_ONLY, FI_MSG, "In a child of the process that uses a driver its kind is -FI_ENOSYS, and memory of the host can be registered")
{
	static uint8_t host[LEN];
	void *mem;
	int status;
	pid_t child;

	need_device();
	mem = device_mem(LEN);
	CHECK_RC(try_own(t, mem, kind->iface), 0);
	child = fork();
	if (!child)
		_exit(try_own(t, mem, kind->iface) == -FI_ENOSYS ? -try_own(t, host, FI_HMEM_SYSTEM) : 99);
	CHECK(waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
}

TEST(fi_hmem, shared, EP_RELIABLE | OURS_ONLY, FI_MSG, "Memory of a driver that the processor may access, too, is memory of the host")
{
	struct buf shared, host = host_buf(LARGE);
	struct fid_mr *mr;

	need_device();
	PAIR(t);
	shared = (struct buf){ .mem = shared_mem(LARGE), .len = LARGE };
	CHECK_RC(try_attr(t, shared.mem, LARGE, kind->iface, kind->device, FI_HMEM_DEVICE_ONLY, &mr), -FI_EINVAL);
	CHECK_RC(try_attr(t, shared.mem, LARGE, kind->iface, kind->device, 0, &mr), 0);
	fail_next(kind->copy, 1, &kind->fatal);
	arrives(t, shared, host, 1);
	arrives(t, host, shared, 2);
}

TEST(fi_hmem, excluded, CORE | OURS_ONLY, 0, "A kind that FI_HMEM does not name is -FI_ENOSYS for shm, and tcp has no FI_HMEM then")
{
	struct fi_info *found = NULL;
	struct fid_mr *mr;

	need_device();
	CHECK(!setenv("FI_HMEM", "system", 1));
	start_as(t, "shm", FI_EP_RDM, FI_MSG);
	CHECK_RC(try_attr(t, device_mem(LEN), LEN, kind->iface, kind->device, 0, &mr), -FI_ENOSYS);
	free(t->hints->fabric_attr->prov_name);
	t->hints->fabric_attr->prov_name = strdup("tcp");
	CHECK_RC(fi_getinfo(t->version, NULL, NULL, 0, t->hints, &found), -FI_ENODATA);
}

TEST(fi_hmem, found_without, EP_RELIABLE | OURS_ONLY, FI_MSG, "Memory of a device is found without a descriptor, and where it was registered as memory of the host")
{
	struct buf device, host = host_buf(LARGE);
	struct fid_mr *mr;

	need_device();
	PAIR(t);
	device = (struct buf){ .mem = device_mem(LARGE), .len = LARGE };
	arrives(t, device, host, 1);
	arrives(t, host, device, 2);
	CHECK_RC(try_attr(t, device.mem, LARGE, FI_HMEM_SYSTEM, 0, 0, &mr), 0);
	device.desc = fi_mr_desc(mr);
	arrives(t, device, host, 3);
	arrives(t, host, device, 4);
}

TEST(fi_hmem, descriptors, EP_RELIABLE | OURS_ONLY, FI_MSG, "A descriptor of a closed region, of one that does not have the memory, or of none is -FI_EINVAL; the address of a region's handle counts as no descriptor")
{
	struct buf out, other;
	struct fid_mr *mr = NULL, *elsewhere;
	struct iovec iov;
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = ALL_ACCESS, .requested_key = 999 };
	void *desc;
	ssize_t rc;

	need_device();
	PAIR(t);
	out = (struct buf){ .mem = device_mem(LEN), .len = LEN };
	other = (struct buf){ .mem = device_mem(LEN), .len = LEN };
	iov = (struct iovec){ out.mem, LEN };
	attr.iface = kind->iface;
	attr.device.ze = kind->device;
	OK(fi_mr_regattr(t->domain, &attr, 0, &mr));
	desc = fi_mr_desc(mr);
	if (!desc)
		SKIP("regions have no descriptors");
	CHECK_RC(try_attr(t, other.mem, LEN, kind->iface, kind->device, 0, &elsewhere), 0);
	CHECK_RC(fi_send(t->a.ep, out.mem, LEN, fi_mr_desc(elsewhere), t->a.peer, new_ctx()), -FI_EINVAL);
	CHECK_RC(fi_recv(t->b.ep, other.mem, LEN, desc, FI_ADDR_UNSPEC, new_ctx()), -FI_EINVAL);
	CHECK_RC(fi_send(t->a.ep, out.mem + 1, LEN, desc, t->a.peer, new_ctx()), -FI_EINVAL);
	for (unsigned i = 0; i < 32; i++)
		CHECK_RC(fi_send(t->a.ep, out.mem, LEN, (void *)(0x5a5a5a5aUL ^ 1UL << i), t->a.peer, new_ctx()), -FI_EINVAL);
	out.desc = desc;
	arrives(t, out, other, 1);
	// A value that is no descriptor, such as the address of the handle, counts as none.
	out.desc = mr;
	arrives(t, out, other, 2);
	OK(fi_close(&mr->fid));
	rc = fi_send(t->a.ep, out.mem, LEN, desc, t->a.peer, new_ctx());
	CHECK_RC(rc, -FI_EINVAL);
}

TEST(fi_hmem, pieces_of_both, EP_RELIABLE | OURS_ONLY, FI_MSG, "A message gathers pieces of host and device, and is scattered to both")
{
	struct buf device[2] = { { 0 } }, host[2];
	struct iovec out[3], in[3];
	size_t lens[] = { 10, 5000, 100000 };
	void *ctx[2];

	need_device();
	if (t->info->tx_attr->iov_limit < 3 || t->info->rx_attr->iov_limit < 3)
		SKIP("fewer pieces");
	PAIR(t);
	for (unsigned round = 0; round < 3; round++) {
		size_t len = lens[round], all = 3 * len;

		for (unsigned i = 0; i < 2; i++) {
			device[i] = (struct buf){ .mem = device_mem(2 * len), .len = 2 * len };
			host[i] = host_buf(len);
		}
		out[0] = (struct iovec){ host[0].mem, len };
		out[1] = (struct iovec){ device[0].mem, 2 * len - 1 };
		out[2] = (struct iovec){ host_buf(1).mem, 1 };
		in[0] = (struct iovec){ device[1].mem, len };
		in[1] = (struct iovec){ host[1].mem, len };
		in[2] = (struct iovec){ device[1].mem + len, len };
		fill(host[0].mem, len, 1);
		fill(device[0].mem, 2 * len - 1, 2);
		*(uint8_t *)out[2].iov_base = 7;
		POST(t, fi_recvv(t->b.ep, in, NULL, 3, FI_ADDR_UNSPEC, ctx[0] = new_ctx()));
		POST(t, fi_sendv(t->a.ep, out, NULL, 3, t->a.peer, ctx[1] = new_ctx()));
		CHECK_EQ(done(t, t->b.rxcq, ctx[0], FI_MSG | FI_RECV).len, all);
		done(t, t->a.txcq, ctx[1], FI_MSG | FI_SEND);
		CHECK(holds(part(device[1], 0, len), len, 1));
		CHECK(holds(host[1], len, 2));
		CHECK_EQ(((uint8_t *)host_view(device[1].mem))[2 * len - 1], 7);
		CHECK(!memcmp(host_view(device[1].mem + len), (uint8_t *)host_view(device[0].mem) + len, len - 1));
	}
}

TEST(fi_hmem, dmabuf, EP_RELIABLE | OURS_ONLY, FI_MSG, "A buffer of a device is registered by its addresses, and its descriptor may be closed at once; without addresses it is -FI_EOPNOTSUPP")
{
	struct fi_mr_dmabuf dmabuf = { .len = LEN };
	struct fi_mr_attr attr = {
		.dmabuf = &dmabuf, .iov_count = 1, .access = ALL_ACCESS, .requested_key = 77,
	};
	struct buf device, host = host_buf(LEN);
	struct fid_mr *mr = NULL;

	need_device();
	if (FI_VERSION_LT(t->version, FI_VERSION(1, 20)))
		SKIP("older headers");
	attr.iface = kind->iface;
	attr.device.ze = kind->device;
	PAIR(t);
	device = (struct buf){ .mem = device_mem(LEN + 64), .len = LEN + 64 };
	CHECK((dmabuf.fd = memfd_create("stands for a buffer", 0)) >= 0);
	dmabuf.offset = 64;
	CHECK_RC(fi_mr_regattr(t->domain, &attr, FI_MR_DMABUF, &mr), -FI_EOPNOTSUPP);
	dmabuf.base_addr = device.mem;
	OK(fi_mr_regattr(t->domain, &attr, FI_MR_DMABUF, &mr));
	keep(t, &mr->fid);
	close(dmabuf.fd);
	device = part(device, 64, LEN);
	device.desc = fi_mr_desc(mr);
	arrives(t, device, host, 1);
	arrives(t, host, device, 2);
}

TEST(fi_hmem, cuda_permitted, EP_RELIABLE | OURS_ONLY, FI_MSG, "FI_OPT_CUDA_API_PERMITTED: true is accepted, and false is -FI_EOPNOTSUPP, because copies need CUDA; without CUDA both are -FI_EINVAL")
{
	bool may = true;
	struct fid_ep *ep;

	need_device();
	ep = open_ep(t, t->info);
	for (unsigned i = 0; i < 2; i++) {
		int rc = fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_CUDA_API_PERMITTED, &may, sizeof(may));

		CHECK_RC(rc, kind->iface != FI_HMEM_CUDA ? -FI_EINVAL : may ? 0 : -FI_EOPNOTSUPP);
		may = false;
	}
}

TEST(fi_hmem, adjacent_allocations, EP_RELIABLE | OURS_ONLY, FI_MSG, "A buffer may consist of adjacent allocations of a ROCr device")
{
	enum { PARTS = 3, PART = 4096, ALL = PARTS * PART };
	struct buf device[PARTS], host = host_buf(ALL), all;

	need_device();
	if (kind->iface != FI_HMEM_ROCR)
		SKIP("other drivers refuse it");
	PAIR(t);
	CHECK(!setenv("DEVICE_ADJACENT", "1", 1));
	for (unsigned i = PARTS; i--;) {
		device[i] = (struct buf){ .mem = device_mem(PART), .len = PART };
		CHECK(i + 1 == PARTS || device[i].mem + PART == device[i + 1].mem);
	}
	all = (struct buf){ .mem = device[0].mem, .len = ALL };
	for (unsigned turn = 0; turn < 2; turn++) {
		void *recv, *send;

		for (unsigned i = 0; i < PARTS; i++)
			fill(turn ? host.mem + i * PART : device[i].mem, PART, 1 + i + PARTS * turn);
		recv = post_recv(t, &t->b, turn ? all : host);
		send = post_send(t, &t->a, turn ? host : all);
		done(t, t->b.rxcq, recv, FI_MSG | FI_RECV);
		done(t, t->a.txcq, send, FI_MSG | FI_SEND);
		for (unsigned i = 0; i < PARTS; i++)
			CHECK(holds(turn ? device[i] : part(host, i * PART, PART), PART, 1 + i + PARTS * turn));
	}
}

TEST(fi_hmem, ze_copy_engine, CORE | OURS_ONLY, FI_MSG, "FI_HMEM_ZE_COPY_ENGINE names the engine that copies")
{
	struct buf device, host = host_buf(LEN);

	need_device();
	if (kind->iface != FI_HMEM_ZE)
		SKIP("only Level Zero has engines");
	// The stand-in refuses other engines.
	CHECK(!setenv("FI_HMEM_ZE_COPY_ENGINE", "1.1", 1) && !setenv("DEVICE_ENGINE", "1.1", 1));
	start_as(t, "shm", FI_EP_RDM, FI_MSG);
	PAIR(t);
	device = (struct buf){ .mem = device_mem(LEN), .len = LEN };
	arrives(t, device, host, 1);
}

// ---- Drivers that fail

static void says_why(struct fid_cq *cq, const struct fi_cq_err_entry *err, const struct device_failure *failure)
{
	char text[256] = "";

	CHECK_EQ(err->prov_errno, failure->code);
	CHECK(fi_cq_strerror(cq, err->prov_errno, err->err_data, text, sizeof(text)) != NULL);
	if (!strstr(text, failure->name))
		FAIL("'%s' does not contain '%s'", text, failure->name);
}

TEST(fi_hmem, failed_send, EP_RELIABLE | OURS_ONLY, FI_MSG, "A short message that the device does not give is FI_EIO with the driver's number, and the connection stays")
{
	struct buf device, host = host_buf(LEN);
	struct fi_cq_err_entry err;
	void *recv, *ctx = new_ctx();

	need_device();
	PAIR(t);
	device = (struct buf){ .mem = device_mem(LEN), .len = LEN };
	arrives(t, device, host, 1);
	recv = post_recv(t, &t->b, host);
	fail_next(kind->copy, 1, &kind->no_memory);
	POST(t, fi_send(t->a.ep, device.mem, LEN, NULL, t->a.peer, ctx));
	err = failed(t, t->a.txcq, ctx, FI_EIO);
	says_why(t->a.txcq, &err, &kind->no_memory);
	turn(t);
	nothing(t->b.rxcq);
	fill(device.mem, LEN, 2);
	ctx = post_send(t, &t->a, device);
	done(t, t->b.rxcq, recv, FI_MSG | FI_RECV);
	done(t, t->a.txcq, ctx, FI_MSG | FI_SEND);
	CHECK(holds(host, LEN, 2));
}

TEST(fi_hmem, failed_receive, EP_RELIABLE | OURS_ONLY, FI_MSG, "A message that the device does not take is FI_EIO with the driver's number at the receiver")
{
	struct buf device, host = host_buf(LARGE);
	struct fi_cq_err_entry err;
	size_t lens[] = { LEN, LARGE };

	need_device();
	PAIR(t);
	device = (struct buf){ .mem = device_mem(LARGE), .len = LARGE };
	arrives(t, host, device, 1);
	for (unsigned i = 0; i < 2; i++) {
		void *recv, *send;

		fail_next(kind->finish, 1, &kind->no_memory);
		recv = post_recv(t, &t->b, device);
		send = post_send(t, &t->a, part(host, 0, lens[i]));
		err = failed(t, t->b.rxcq, recv, FI_EIO);
		if (err.prov_errno != FI_EIO)
			says_why(t->b.rxcq, &err, &kind->no_memory);
		ONCE(t, fi_cq_read(t->a.txcq, NULL, 0) != -FI_EAGAIN || true);
		(void)send;
		if (t->type == FI_EP_MSG || is_layered(t))
			return;
		done(t, t->a.txcq, send, FI_MSG | FI_SEND);
	}
	arrives(t, host, device, 3);
}

TEST(fi_hmem, failed_large_send, EP_RELIABLE | OURS_ONLY, FI_MSG, "A long message that the device does not give ends in error on both sides and never arrives")
{
	struct buf device, host = host_buf(HUGE_LEN);
	struct fi_cq_err_entry err;
	struct fi_cq_tagged_entry entry;
	void *recv, *ctx = new_ctx();
	ssize_t rc = -FI_EAGAIN;

	need_device();
	PAIR(t);
	device = (struct buf){ .mem = device_mem(HUGE_LEN), .len = HUGE_LEN };
	arrives(t, device, host, 1);
	recv = post_recv(t, &t->b, host);
	fail_next(kind->copy, 0, &kind->no_memory);
	POST(t, fi_send(t->a.ep, device.mem, HUGE_LEN, NULL, t->a.peer, ctx));
	ONCE(t, (rc = fi_cq_read(t->a.txcq, &entry, 1)) != -FI_EAGAIN);
	if (rc == -FI_EAVAIL) {
		CHECK(fi_cq_readerr(t->a.txcq, &err, 0) == 1);
		CHECK(err.op_context == ctx && err.err > 0);
	} else {
		CHECK_RC(rc, 1);
		SKIP("the provider has copied it before");
	}
	(void)recv;
	turn(t);
	CHECK(fi_cq_read(t->b.rxcq, &entry, 1) != 1);
}

TEST(fi_hmem, failed_write, EP_RELIABLE | OURS_ONLY, FI_RMA, "A write that the device does not take is an error at its initiator, and counts nothing at the target")
{
	size_t lens[] = { 100, LEN, LARGE };
	struct buf host = host_buf(LARGE);
	struct region target;
	struct fi_cq_err_entry err;

	need_device();
	PAIR(t);
	target = new_region(t, &t->b, new_buf(t, LARGE, 0), FI_REMOTE_READ | FI_REMOTE_WRITE);
	for (unsigned i = 0; i < 3; i++) {
		struct iovec iov = { host.mem, lens[i] };
		struct fi_rma_iov remote = { target.at, lens[i], target.key };
		struct fi_msg_rma msg = {
			.msg_iov = &iov, .iov_count = 1, .addr = t->a.peer, .rma_iov = &remote, .rma_iov_count = 1, .context = new_ctx(),
		};

		fail_next(kind->copy, 0, &kind->no_memory);
		POST(t, fi_writemsg(t->a.ep, &msg, FI_DELIVERY_COMPLETE));
		wait_err(t, t->a.txcq, &err);
		CHECK(err.op_context == msg.context && err.err > 0);
		nothing(t->b.rxcq);
		// The connection may have ended.
		if (t->type == FI_EP_MSG)
			return;
	}
}

TEST(fi_hmem, failed_operand, EP_RELIABLE | OURS_ONLY, FI_ATOMIC | FI_TRIGGER, "A deferred atomic operation whose operand the device does not give is FI_EIO, and changes nothing")
{
	struct buf operand;
	struct region target;
	struct fid_cntr *trigger;
	struct fi_cq_err_entry err;

	need_device();
	PAIR(t);
	trigger = open_cntr(t, FI_WAIT_NONE);
	target = new_region(t, &t->b, new_buf(t, 8, 1), FI_REMOTE_READ | FI_REMOTE_WRITE);
	operand = (struct buf){ .mem = device_mem(8), .len = 8 };
	struct fi_ioc ioc = { operand.mem, 1 };
	struct fi_rma_ioc remote = { target.at, 1, target.key };
	struct fi_op_atomic add = {
		.ep = t->a.ep,
		.msg = { .msg_iov = &ioc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &remote, .rma_iov_count = 1,
			 .datatype = FI_UINT64, .op = FI_ATOMIC_WRITE, .context = new_ctx() },
	};
	struct fi_deferred_work work = {
		.op_type = FI_OP_ATOMIC, .triggering_cntr = trigger, .threshold = 1, .op.atomic = &add,
	};
	CHECK_RC(fi_control(&t->domain->fid, FI_QUEUE_WORK, &work), 0);
	fail_next(kind->copy, 0, &kind->no_memory);
	CHECK_RC(fi_cntr_add(trigger, 1), 0);
	wait_err(t, t->a.txcq, &err);
	CHECK(err.err == FI_EIO);
	says_why(t->a.txcq, &err, &kind->no_memory);
	turn(t);
	CHECK(holds(target.buf, 8, 1));
}

TEST(fi_hmem, dead_driver, EP_RELIABLE | OURS_ONLY, FI_MSG, "After a fatal error of the driver operations on device memory end in error, and others go on")
{
	struct buf device, host[2] = { host_buf(LEN), host_buf(LEN) };
	struct fi_cq_err_entry err;

	need_device();
	PAIR(t);
	device = (struct buf){ .mem = device_mem(LEN), .len = LEN };
	arrives(t, device, host[0], 1);
	fail_next(kind->copy, 1, &kind->fatal);
	for (unsigned i = 0; i < 3; i++) {
		void *ctx = new_ctx();

		POST(t, fi_send(t->a.ep, device.mem, LEN, NULL, t->a.peer, ctx));
		err = failed(t, t->a.txcq, ctx, FI_EIO);
		says_why(t->a.txcq, &err, &kind->fatal);
	}
	arrives(t, host[0], host[1], 2);
}

TEST(fi_hmem, nothing_left, EP_RELIABLE | OURS_ONLY, FI_MSG, "A closed domain has given back what it took from the driver")
{
	struct buf device, host = host_buf(LARGE);

	need_device();
	PAIR(t);
	device = (struct buf){ .mem = device_mem(LARGE), .len = LARGE };
	arrives(t, device, host, 1);
	arrives(t, host, device, 2);
	CHECK(!kind->keeps_objects || objects_of_driver() > 0);
	shut_all(t);
	CHECK_EQ(objects_of_driver(), 0);
}

static unsigned copied_from, copied_to;
static ssize_t copy_result;

// At most 4000 bytes at a time, as the functions may.
static ssize_t copy_from(void *to, size_t len, enum fi_hmem_iface iface, uint64_t device, const struct iovec *iov, size_t count, uint64_t offset)
{
	if (copy_result || iface != kind->iface || device != (uint64_t)kind->device || count != 1 || offset + len > iov->iov_len)
		return copy_result ? copy_result : -FI_EINVAL;
	len = len < 4000 ? len : 4000;
	memcpy(to, (char *)host_view(iov->iov_base) + offset, len);
	copied_from++;
	return (ssize_t)len;
}

static ssize_t copy_to(enum fi_hmem_iface iface, uint64_t device, const struct iovec *iov, size_t count, uint64_t offset, const void *from, size_t len)
{
	if (copy_result || iface != kind->iface || device != (uint64_t)kind->device || count != 1 || offset + len > iov->iov_len)
		return copy_result ? copy_result : -FI_EINVAL;
	len = len < 4000 ? len : 4000;
	memcpy((char *)host_view(iov->iov_base) + offset, from, len);
	copied_to++;
	return (ssize_t)len;
}

TEST(fi_hmem, own_copies, EP_RELIABLE | OURS_ONLY, FI_MSG, "fi_set_ops: functions of the program copy device memory, and their errors are those of operations")
{
	struct fi_hmem_override_ops ops = { .size = sizeof(ops), .copy_from_hmem_iov = copy_from, .copy_to_hmem_iov = copy_to };
	struct buf device[2], host = host_buf(LARGE);
	struct fi_cq_err_entry err;
	void *ctx = new_ctx();

	need_device();
	PAIR(t);
	CHECK_RC(fi_set_ops(&t->domain->fid, "another", 0, &ops, NULL), -FI_ENOSYS);
	CHECK_RC(fi_set_ops(&t->domain->fid, FI_SET_OPS_HMEM_OVERRIDE, 0, NULL, NULL), -FI_EINVAL);
	ops.size--;
	CHECK_RC(fi_set_ops(&t->domain->fid, FI_SET_OPS_HMEM_OVERRIDE, 0, &ops, NULL), -FI_EINVAL);
	ops.size++;
	ops.copy_to_hmem_iov = NULL;
	CHECK_RC(fi_set_ops(&t->domain->fid, FI_SET_OPS_HMEM_OVERRIDE, 0, &ops, NULL), -FI_EINVAL);
	ops.copy_to_hmem_iov = copy_to;
	CHECK_RC(fi_set_ops(&t->domain->fid, FI_SET_OPS_HMEM_OVERRIDE, 0, &ops, NULL), 0);
	for (int i = 0; i < 2; i++)
		device[i] = (struct buf){ .mem = device_mem(LARGE), .len = LARGE };
	// The driver's own copies would fail.
	fail_next(kind->copy, 0, &kind->no_memory);
	arrives(t, device[0], device[1], 1);
	arrives(t, device[1], host, 2);
	arrives(t, host, device[0], 3);
	CHECK(copied_from >= 2 * LARGE / 4000 && copied_to >= 2 * LARGE / 4000);
	copy_result = -FI_EIO;
	POST(t, fi_send(t->a.ep, device[0].mem, 100, NULL, t->a.peer, ctx));
	err = failed(t, t->a.txcq, ctx, FI_EIO);
	CHECK(err.prov_errno == -FI_EIO);
}
