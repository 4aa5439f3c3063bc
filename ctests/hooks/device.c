// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// device PROVIDER: an endpoint sends to itself with every call that takes a descriptor, and passes none. Source and
// target are memory that fake_cuda.c declares as device memory. Arrived bytes are compared, because the memory really
// is host memory. Each step prints a line on stderr. Without fake_cuda.c all memory counts as host memory.

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define OK(call) do { int ret_ = (int) (call); if (ret_) { printf("%s: %d\n", #call, ret_); exit(1); } } while (0)
enum { LIMIT = 20, LEN = 256, ROOM = 65536, TAG = 7, KEY = 5, MANY = 200 };

static struct fid_domain *domain;
static struct fid_cq *cq;
static struct fid_ep *ep;
static fi_addr_t self;
// Two device allocations, one managed by a driver, one of the host; host memory that peers may access; many small
// allocations.
static char one[ROOM], two[ROOM], managed[ROOM], host[ROOM], target[ROOM], many[MANY][LEN];

static void (*set_device)(int place, void *base, size_t len, uint64_t id, int managed);
static unsigned long (*asked)(void);

static void step(const char *name)
{
	fprintf(stderr, "step: %s\n", name);
}

static void is_device(int place, void *base, size_t len, uint64_t id, int is_managed)
{
	if (set_device)
		set_device(place, base, len, id, is_managed);
}

static void wait_for(int count)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	time_t end = time(NULL) + LIMIT;

	while (count > 0) {
		ssize_t ret = fi_cq_read(cq, &entry, 1);

		if (ret == 1) {
			count--;
		} else if (ret != -FI_EAGAIN || time(NULL) > end) {
			if (ret == -FI_EAVAIL)
				fi_cq_readerr(cq, &error, 0);
			printf("fi_cq_read: %zd, error %d\n", ret, error.err);
			exit(1);
		}
	}
}

// Writes new bytes into the source and clears the target.
static void fill(char *out, char *in, size_t len)
{
	static char next;

	next++;
	for (size_t i = 0; i < len; i++)
		out[i] = (char) (next + i);
	memset(in, 0, len);
}

static void arrived(const char *out, const char *in, size_t len, int completions)
{
	wait_for(completions);
	for (time_t end = time(NULL) + LIMIT; memcmp(out, in, len) && time(NULL) < end;)
		fi_cq_read(cq, NULL, 0);
	OK(memcmp(out, in, len));
}

static void tagged_from(struct fid_ep *from, char *out, void *desc, char *in)
{
	fill(out, in, LEN);
	OK(fi_trecv(ep, in, LEN, NULL, FI_ADDR_UNSPEC, TAG, 0, in));
	OK(fi_tsend(from, out, LEN, desc, self, TAG, out));
	arrived(out, in, LEN, 2);
}

static void tagged(char *out, char *in)
{
	tagged_from(ep, out, NULL, in);
}

static void messages(void)
{
	struct iovec out[3] = {{one, 8}, {host, 8}, {two, 8}}, in[2] = {{two + 4096, 16}, {host + 4096, 8}};
	struct iovec whole = {one + 1024, LEN}, into = {two + 1024, LEN};
	// A NULL descriptor is missing; any other descriptor was passed by the application.
	void *none[3] = {NULL, NULL, NULL};
	struct fi_msg msg = {.msg_iov = &whole, .iov_count = 1, .addr = self, .context = one}, rmsg = msg;
	struct fi_msg_tagged tmsg = {.msg_iov = &whole, .iov_count = 1, .addr = self, .tag = TAG, .context = one}, trmsg = tmsg;
	const struct fi_msg kept = msg;

	step("tagged");
	tagged(one, two);
	step("tagged vector");
	fill(one, two + 4096, 8);
	fill(two, two + 4096, 8);
	OK(fi_trecvv(ep, in, NULL, 2, FI_ADDR_UNSPEC, TAG, 0, in));
	OK(fi_tsendv(ep, out, none, 3, self, TAG, out));
	arrived(one, two + 4096, 8, 2);
	OK(memcmp(two, host + 4096, 8));
	OK(none[0] || none[1] || none[2]);
	step("tagged message");
	trmsg.msg_iov = &into;
	trmsg.addr = FI_ADDR_UNSPEC;
	fill(one + 1024, two + 1024, LEN);
	OK(fi_trecvmsg(ep, &trmsg, 0));
	OK(fi_tsendmsg(ep, &tmsg, FI_COMPLETION));
	arrived(one + 1024, two + 1024, LEN, 2);
	step("tagged data");
	fill(one, two, LEN);
	OK(fi_trecv(ep, two, LEN, NULL, FI_ADDR_UNSPEC, TAG, 0, two));
	OK(fi_tsenddata(ep, one, LEN, NULL, 1, self, TAG, one));
	arrived(one, two, LEN, 2);
	step("untagged");
	fill(one, two, LEN);
	OK(fi_recv(ep, two, LEN, NULL, FI_ADDR_UNSPEC, two));
	OK(fi_send(ep, one, LEN, NULL, self, one));
	arrived(one, two, LEN, 2);
	step("untagged vector");
	fill(two, host + 4096, 8);
	OK(fi_recvv(ep, in, none, 2, FI_ADDR_UNSPEC, in));
	OK(fi_sendv(ep, out, NULL, 3, self, out));
	arrived(two, host + 4096, 8, 2);
	step("untagged message");
	rmsg.msg_iov = &into;
	rmsg.addr = FI_ADDR_UNSPEC;
	rmsg.desc = none;
	fill(one + 1024, two + 1024, LEN);
	OK(fi_recvmsg(ep, &rmsg, 0));
	OK(fi_sendmsg(ep, &msg, FI_COMPLETION));
	arrived(one + 1024, two + 1024, LEN, 2);
	OK(memcmp(&msg, &kept, sizeof(msg)));
	step("untagged data");
	fill(one, two, LEN);
	OK(fi_recv(ep, two, LEN, NULL, FI_ADDR_UNSPEC, two));
	OK(fi_senddata(ep, one, LEN, NULL, 1, self, one));
	arrived(one, two, LEN, 2);
	step("inject");
	fill(one, two, 8);
	OK(fi_trecv(ep, two, LEN, NULL, FI_ADDR_UNSPEC, TAG, 0, two));
	OK(fi_tinject(ep, one, 8, self, TAG));
	arrived(one, two, 8, 1);
}

static void rma(uint64_t addr, uint64_t key)
{
	struct iovec out[2] = {{one, 8}, {host, 8}}, in[2] = {{host, 8}, {two, 8}};
	struct fi_rma_iov remote = {addr, 16, key};
	struct fi_msg_rma msg = {
		.msg_iov = out, .iov_count = 2, .addr = self, .rma_iov = &remote, .rma_iov_count = 1, .context = one,
	};

	step("write");
	fill(one, target, LEN);
	OK(fi_write(ep, one, LEN, NULL, self, addr, key, one));
	arrived(one, target, LEN, 1);
	step("write vector");
	fill(one, target, 8);
	OK(fi_writev(ep, out, NULL, 2, self, addr, key, one));
	arrived(one, target, 8, 1);
	step("write message");
	fill(one, target, 8);
	OK(fi_writemsg(ep, &msg, FI_COMPLETION));
	arrived(one, target, 8, 1);
	step("write data");
	fill(one, target, 8);
	OK(fi_writedata(ep, one, 8, NULL, 1, self, addr, key, one));
	// The write also has a completion at the target.
	arrived(one, target, 8, 2);
	step("read");
	fill(target, two, LEN);
	OK(fi_read(ep, two, LEN, NULL, self, addr, key, two));
	arrived(target, two, LEN, 1);
	step("read vector");
	fill(target + 8, two, 8);
	OK(fi_readv(ep, in, NULL, 2, self, addr, key, two));
	arrived(target + 8, two, 8, 1);
	step("read message");
	fill(target + 8, two, 8);
	msg.msg_iov = in;
	OK(fi_readmsg(ep, &msg, FI_COMPLETION));
	arrived(target + 8, two, 8, 1);
}

static void atomics(uint64_t addr, uint64_t key)
{
	struct fi_ioc operand = {one, 1}, comparand = {host, 1}, result = {two, 1};
	struct fi_rma_ioc remote = {addr, 1, key};
	struct fi_msg_atomic msg = {
		.msg_iov = &operand, .iov_count = 1, .addr = self, .rma_iov = &remote, .rma_iov_count = 1, .datatype = FI_UINT64,
		.op = FI_ATOMIC_WRITE, .context = one,
	};

	step("atomic");
	fill(one, target, 8);
	OK(fi_atomic(ep, one, 1, NULL, self, addr, key, FI_UINT64, FI_ATOMIC_WRITE, one));
	arrived(one, target, 8, 1);
	step("atomic message");
	fill(one, target, 8);
	OK(fi_atomicmsg(ep, &msg, FI_COMPLETION));
	arrived(one, target, 8, 1);
	step("fetch");
	fill(target, two, 8);
	OK(fi_fetch_atomic(ep, host, 1, NULL, two, NULL, self, addr, key, FI_UINT64, FI_ATOMIC_READ, one));
	arrived(target, two, 8, 1);
	step("fetch message");
	fill(target, two, 8);
	msg.op = FI_ATOMIC_READ;
	OK(fi_fetch_atomicmsg(ep, &msg, &result, NULL, 1, FI_COMPLETION));
	arrived(target, two, 8, 1);
	step("compare vector");
	fill(target, two, 8);
	memset(host, 0, 8);
	OK(fi_compare_atomicv(ep, &operand, NULL, 1, &comparand, NULL, 1, &result, NULL, 1, self, addr, key, FI_UINT64, FI_CSWAP,
			      one));
	arrived(target, two, 8, 1);
}

static void memory(void)
{
	struct iovec piece = {two + 8192, 4096};
	struct fi_mr_attr attr = {.mr_iov = &piece, .iov_count = 1, .access = FI_SEND, .requested_key = 99, .iface = FI_HMEM_CUDA};
	struct fid_mr *mr;
	struct fid_ep *alias;

	step("host memory");
	tagged(host, host + 4096);
	step("managed memory");
	tagged(managed, host);
	step("descriptor of the program");
	attr.device.cuda = 3;
	if (fi_mr_regattr(domain, &attr, 0, &mr)) {
		step("it cannot be had");
	} else {
		tagged_from(ep, two + 8192, fi_mr_desc(mr), host);
		OK(fi_close(&mr->fid));
	}
	step("alias");
	OK(fi_ep_alias(ep, &alias, FI_TRANSMIT | FI_COMPLETION));
	tagged_from(alias, one, NULL, host);
	OK(fi_close(&alias->fid));
	step("not within an allocation");
	is_device(0, one, 4096, 21, 0);
	tagged(one + 4000, host);
	tagged(one + 4000, host);
	step("another allocation at the same place");
	is_device(0, one, ROOM, 31, 0);
	tagged(one + 4000, host);
	step("many that are freed");
	for (int i = 0; i < MANY; i++) {
		is_device(2, many[i], LEN, 1000 + (uint64_t) i, 0);
		tagged(many[i], host);
	}
}

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fid_fabric *fabric;
	struct fid_av *av;
	struct fid_mr *mr;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	char name[256];
	size_t size = sizeof(name);
	uint64_t addr;

	if (driver) {
		set_device = (void (*)(int, void *, size_t, uint64_t, int)) dlsym(driver, "fake_cuda_set");
		asked = (unsigned long (*)(void)) dlsym(driver, "fake_cuda_asked");
	}
	is_device(0, one, sizeof(one), 1, 0);
	is_device(1, two, sizeof(two), 2, 0);
	is_device(3, managed, sizeof(managed), 3, 1);
	hints->fabric_attr->prov_name = strdup(argc > 1 ? argv[1] : "tcp");
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_HMEM;
	OK(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info));
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, info, &domain, NULL));
	OK(fi_av_open(domain, &av_attr, &av, NULL));
	OK(fi_cq_open(domain, &cq_attr, &cq, NULL));
	OK(fi_endpoint(domain, info, &ep, NULL));
	OK(fi_ep_bind(ep, &av->fid, 0));
	OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(ep));
	OK(fi_getname(&ep->fid, name, &size));
	OK(fi_av_insert(av, name, 1, &self, 0, NULL) != 1);
	OK(fi_mr_reg(domain, target, sizeof(target), FI_REMOTE_WRITE | FI_REMOTE_READ, 0, KEY, 0, &mr, NULL));
	addr = info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t) target : 0;
	messages();
	rma(addr, fi_mr_key(mr));
	atomics(addr, fi_mr_key(mr));
	memory();
	fprintf(stderr, "asked: %s\n", !asked ? "nobody" : asked() ? "often" : "never");
	step("end");
	OK(fi_close(&mr->fid));
	OK(fi_close(&ep->fid));
	OK(fi_close(&cq->fid));
	OK(fi_close(&av->fid));
	OK(fi_close(&domain->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	printf("done\n");
	return 0;
}
