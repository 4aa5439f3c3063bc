// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_mr(3): registering, keys, raw keys, binding, refreshing, closing.
#include "harness.h"

static char memory[4096];

static int try_reg(struct env *t, size_t len, uint64_t access, uint64_t offset, uint64_t key, uint64_t flags)
{
	struct fid_mr *mr = NULL;
	int rc;

	open_domain(t);
	rc = fi_mr_reg(t->domain, memory, len, access, offset, key, flags, &mr, NULL);
	if (!rc)
		OK(fi_close(&mr->fid));
	return rc;
}

static bool user_keys(struct env *t)
{
	return !(t->info->domain_attr->mr_mode & FI_MR_PROV_KEY);
}

// ---- Registering

TEST(fi_mr, reg_gives_a_region, EP_RELIABLE, FI_RMA, "fi_mr_reg gives an object of class FI_CLASS_MR with the caller's context and a key")
{
	struct fid_mr *mr = NULL;
	int mark;

	open_domain(t);
	OK(fi_mr_reg(t->domain, memory, sizeof(memory), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &mr, &mark));
	keep(t, &mr->fid);
	CHECK_EQ(mr->fid.fclass, FI_CLASS_MR);
	CHECK(mr->fid.context == &mark);
	CHECK(fi_mr_key(mr) != FI_KEY_NOTAVAIL);
}

TEST(fi_mr, user_key_is_used, EP_RELIABLE, FI_RMA, "Without FI_MR_PROV_KEY the region has the key that was asked for")
{
	static const uint64_t keys[] = { 0, 1, 0xffff, 0xdeadbeef };

	if (!user_keys(t))
		SKIP("the provider chooses keys");
	open_domain(t);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		struct fid_mr *mr = NULL;

		OK(fi_mr_reg(t->domain, memory, 64, FI_REMOTE_WRITE, 0, keys[i], 0, &mr, NULL));
		CHECK_EQ(fi_mr_key(mr), keys[i]);
		OK(fi_close(&mr->fid));
	}
}

TEST(fi_mr, user_key_large, EP_RELIABLE, FI_RMA, "Every key within mr_key_size bytes can be asked for")
{
	size_t size = t->info->domain_attr->mr_key_size;
	uint64_t key = size >= 8 ? UINT64_MAX - 2 : (1ULL << (8 * size)) - 1;
	struct fid_mr *mr = NULL;

	if (!user_keys(t))
		SKIP("the provider chooses keys");
	open_domain(t);
	OK(fi_mr_reg(t->domain, memory, 64, FI_REMOTE_WRITE, 0, key, 0, &mr, NULL));
	keep(t, &mr->fid);
	CHECK_EQ(fi_mr_key(mr), key);
}

TEST(fi_mr, user_key_twice, EP_RELIABLE, FI_RMA, "A key that is in use gives -FI_ENOKEY; after the region is closed it is free again")
{
	struct fid_mr *mr = NULL;

	if (!user_keys(t))
		SKIP("the provider chooses keys");
	open_domain(t);
	OK(fi_mr_reg(t->domain, memory, 64, FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL));
	CHECK_RC(try_reg(t, 64, FI_REMOTE_WRITE, 0, 7, 0), -FI_ENOKEY);
	OK(try_reg(t, 64, FI_REMOTE_WRITE, 0, 8, 0));
	OK(fi_close(&mr->fid));
	OK(try_reg(t, 64, FI_REMOTE_WRITE, 0, 7, 0));
}

TEST(fi_mr, prov_keys_differ, EP_RELIABLE, FI_RMA, "With FI_MR_PROV_KEY the requested key is ignored and each region has its own")
{
	struct fid_mr *x, *y;

	if (user_keys(t))
		SKIP("the application chooses keys");
	t->next_key = 7;
	x = reg(t, memory, 64, FI_REMOTE_WRITE);
	t->next_key = 7;
	y = reg(t, memory + 64, 64, FI_REMOTE_WRITE);
	CHECK(fi_mr_key(x) != fi_mr_key(y));
}

TEST(fi_mr, prov_keys_not_guessed, EP_RELIABLE | OURS_ONLY, FI_RMA, "Where the provider chooses keys (FI_MR_BASIC) one tells nothing of others, and the key of a closed region does not come again")
{
	enum { COUNT = 64 };
	uint64_t keys[COUNT];

	env_version(t, FI_VERSION(1, 4));
	t->hints->domain_attr->mr_mode = 1; // FI_MR_BASIC
	env_info(t);
	for (unsigned i = 0; i < COUNT; i++) {
		struct fid_mr *mr = reg(t, memory, 64, FI_REMOTE_WRITE);

		keys[i] = fi_mr_key(mr);
		CHECK(keys[i] != FI_KEY_NOTAVAIL);
		shut(t, &mr->fid);
		for (unsigned k = 0; k < i; k++) {
			uint64_t apart = keys[i] > keys[k] ? keys[i] - keys[k] : keys[k] - keys[i];

			CHECK(apart > 1 << 20);
		}
	}
}

TEST(fi_mr, prov_key_on_request, EP_RELIABLE, FI_RMA, "FI_MR_BASIC (API 1.4) forces keys chosen by the provider, or is not offered")
{
	struct fid_mr *x, *y;

	env_version(t, FI_VERSION(1, 4));
	t->hints->domain_attr->mr_mode = 1; // FI_MR_BASIC
	if (env_try_info(t) == -FI_ENODATA)
		SKIP("not offered");
	CHECK_EQ(t->info->domain_attr->mr_mode, 1);
	t->next_key = 7;
	x = reg(t, memory, 64, FI_REMOTE_WRITE);
	t->next_key = 7;
	y = reg(t, memory + 64, 64, FI_REMOTE_WRITE);
	CHECK(fi_mr_key(x) != fi_mr_key(y));
}

TEST(fi_mr, same_memory_twice, EP_RELIABLE, FI_RMA, "The same memory can be in several regions with different rights")
{
	reg(t, memory, 64, FI_REMOTE_WRITE);
	reg(t, memory, 64, FI_REMOTE_READ);
	reg(t, memory + 32, 64, FI_SEND | FI_RECV | FI_READ | FI_WRITE);
}

TEST(fi_mr, every_access_right, EP_RELIABLE, FI_RMA, "Each of the six access rights and all of them together can be given")
{
	static const uint64_t rights[] = { FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE };
	uint64_t all = 0;

	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		OK(try_reg(t, 64, rights[i], 0, t->next_key++, 0));
		all |= rights[i];
	}
	OK(try_reg(t, 64, all, 0, t->next_key++, 0));
}

TEST(fi_mr, unknown_access, EP_RELIABLE, FI_RMA, "An access right that is not defined is refused with -FI_EINVAL")
{
	CHECK_RC(try_reg(t, 64, FI_REMOTE_WRITE | (1ULL << 51), 0, 7, 0), -FI_EINVAL);
}

TEST(fi_mr, unknown_flag, EP_RELIABLE, FI_RMA, "A flag that is not defined for registering is refused")
{
	CHECK_RC2(try_reg(t, 64, FI_REMOTE_WRITE, 0, 7, 1ULL << 51), -FI_EINVAL, -FI_EBADFLAGS);
}

TEST(fi_mr, offset_reserved, EP_RELIABLE, FI_RMA, "offset is reserved and must be 0")
{
	CHECK_RC(try_reg(t, 64, FI_REMOTE_WRITE, 8, 7, 0), -FI_EINVAL);
}

TEST(fi_mr, zero_length, EP_RELIABLE, FI_RMA, "A length of 0 is not allowed: it is refused, or gives a region without a byte")
{
	CHECK_RC2(try_reg(t, 0, FI_REMOTE_WRITE, 0, 7, 0), -FI_EINVAL, 0);
	OK(try_reg(t, 64, FI_REMOTE_WRITE, 0, 7, 0)); // no trace of it is left
}

TEST(fi_mr, unbacked_memory, EP_RELIABLE, FI_RMA, "Without FI_MR_ALLOCATED an address range need not be backed by memory")
{
	struct fid_mr *mr = NULL;

	if (t->info->domain_attr->mr_mode & FI_MR_ALLOCATED)
		SKIP("FI_MR_ALLOCATED");
	open_domain(t);
	OK(fi_mr_reg(t->domain, (void *)(uintptr_t)0x10000, 4096, FI_REMOTE_READ, 0, 7, 0, &mr, NULL));
	OK(fi_close(&mr->fid));
}

TEST(fi_mr, whole_address_space, EP_RELIABLE, FI_RMA, "Any range of addresses can be registered: all of them, from zero")
{
	struct fid_mr *mr = NULL;

	if (t->info->domain_attr->mr_mode & FI_MR_ALLOCATED)
		SKIP("FI_MR_ALLOCATED");
	open_domain(t);
	OK(fi_mr_reg(t->domain, NULL, SIZE_MAX, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL));
	OK(fi_close(&mr->fid));
}

TEST(fi_mr, regv_one, EP_RELIABLE, FI_RMA, "fi_mr_regv registers what its vector names")
{
	struct iovec iov = { memory, 64 };
	struct fid_mr *mr = NULL;

	open_domain(t);
	OK(fi_mr_regv(t->domain, &iov, 1, FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL));
	keep(t, &mr->fid);
	if (user_keys(t))
		CHECK_EQ(fi_mr_key(mr), 7);
}

TEST(fi_mr, regv_up_to_the_limit, EP_RELIABLE, FI_RMA, "A vector may have mr_iov_limit entries; more are refused or work")
{
	size_t limit = t->info->domain_attr->mr_iov_limit;
	struct iovec iov[65];
	struct fid_mr *mr = NULL;
	int rc;

	open_domain(t);
	CHECK(limit >= 1);
	limit = limit > 64 ? 64 : limit;
	for (size_t i = 0; i < 65; i++)
		iov[i] = (struct iovec){ memory + 32 * i, 16 };
	OK(fi_mr_regv(t->domain, iov, limit, FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL));
	OK(fi_close(&mr->fid));
	rc = fi_mr_regv(t->domain, iov, limit + 1, FI_REMOTE_WRITE, 0, 8, 0, &mr, NULL);
	CHECK_RC2(rc, 0, -FI_EINVAL);
	if (!rc)
		OK(fi_close(&mr->fid));
}

TEST(fi_mr, regv_nothing, EP_RELIABLE, FI_RMA, "A vector without entries is refused with -FI_EINVAL")
{
	struct iovec iov = { memory, 64 };
	struct fid_mr *mr = NULL;

	open_domain(t);
	CHECK_RC(fi_mr_regv(t->domain, &iov, 0, FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL), -FI_EINVAL);
}

static int try_attr(struct env *t, const struct fi_mr_attr *attr, uint64_t flags)
{
	struct fid_mr *mr = NULL;
	int rc;

	open_domain(t);
	rc = fi_mr_regattr(t->domain, attr, flags, &mr);
	if (!rc) {
		CHECK_EQ(mr->fid.fclass, FI_CLASS_MR);
		OK(fi_close(&mr->fid));
	}
	return rc;
}

TEST(fi_mr, regattr_host_memory, EP_RELIABLE, FI_RMA, "fi_mr_regattr registers host memory")
{
	struct iovec iov = { memory, 64 };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_READ, .requested_key = 7 };

	OK(try_attr(t, &attr, 0));
	attr.iface = FI_HMEM_SYSTEM;
	attr.page_size = 4096; // a hint
	OK(try_attr(t, &attr, 0));
}

TEST(fi_mr, regattr_unknown_interface, EP_RELIABLE, FI_RMA, "A memory interface that does not exist is refused, or ignored as FI_HMEM was not asked for")
{
	struct iovec iov = { memory, 64 };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_READ, .requested_key = 7 };
	int rc;

	attr.iface = (enum fi_hmem_iface)1000;
	rc = try_attr(t, &attr, 0);
	CHECK(rc == 0 || rc == -FI_EINVAL || rc == -FI_ENOSYS || rc == -FI_EOPNOTSUPP);
}

TEST(fi_mr, regattr_device_not_served, EP_RELIABLE, FI_RMA, "With FI_HMEM, memory of a device that the library does not serve is refused with -FI_ENOSYS")
{
	struct iovec iov = { memory, 64 };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_READ, .requested_key = 7 };
	int iface;

	t->hints->caps |= FI_HMEM;
	t->hints->domain_attr->mr_mode |= FI_MR_HMEM;
	env_info(t);
	OK(try_attr(t, &attr, 0));
	for (iface = FI_HMEM_CUDA; iface <= FI_HMEM_SYNAPSEAI; iface++) {
		attr.iface = iface;
		CHECK_RC(try_attr(t, &attr, 0), -FI_ENOSYS);
	}
}

TEST(fi_mr, regattr_dmabuf_needs_hmem, EP_RELIABLE, FI_RMA, "FI_MR_DMABUF is only usable on domains with FI_HMEM")
{
	struct fi_mr_dmabuf dmabuf = { .fd = -1, .len = 64 };
	struct fi_mr_attr attr = { .dmabuf = &dmabuf, .iov_count = 1, .access = FI_REMOTE_READ, .requested_key = 7 };

	if (t->info->caps & FI_HMEM)
		SKIP("the domain has FI_HMEM");
	CHECK(try_attr(t, &attr, FI_MR_DMABUF) < 0);
}

TEST(fi_mr, regattr_sub_region, EP_RELIABLE, FI_RMA, "A region made from another holds it: the base cannot be closed first; or sub-regions are refused")
{
	struct fid_mr *base = reg(t, memory, 64, FI_REMOTE_READ | FI_REMOTE_WRITE), *sub = NULL;
	struct iovec iov = { memory + 16, 16 };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_READ, .requested_key = 7 };
	int rc;

	attr.base_mr = base;
	rc = fi_mr_regattr(t->domain, &attr, 0, &sub);
	if (rc) {
		CHECK(rc == -FI_EINVAL || rc == -FI_ENOSYS || rc == -FI_EOPNOTSUPP);
		SKIP("not offered: %s", rc_name(rc));
	}
	keep(t, &sub->fid);
	CHECK_RC(fi_close(&base->fid), -FI_EBUSY);
}

TEST(fi_mr, many_regions, EP_RELIABLE, FI_RMA, "A domain holds thousands of regions")
{
	open_domain(t);
	for (unsigned i = 0; i < 5000; i++)
		reg(t, memory, 64, FI_REMOTE_WRITE);
}

// ---- Descriptor, raw keys, binding

TEST(fi_mr, desc_is_usable, EP_ANY, FI_MSG, "A descriptor may be passed to transfers even if FI_MR_LOCAL is not required")
{
	static char out[64], in[64];
	struct fi_context2 ctx[2];
	struct fid_mr *out_mr, *in_mr;

	PAIR(t);
	out_mr = reg(t, out, sizeof(out), FI_SEND);
	in_mr = reg(t, in, sizeof(in), FI_RECV);
	fill(out, sizeof(out), 1);
	POST(t, fi_recv(t->b.ep, in, sizeof(in), fi_mr_desc(in_mr), FI_ADDR_UNSPEC, &ctx[0]));
	POST(t, fi_send(t->a.ep, out, sizeof(out), fi_mr_desc(out_mr), t->a.peer, &ctx[1]));
	wait_comp(t, t->b.rxcq, NULL);
	wait_comp(t, t->a.txcq, NULL);
	CHECK(filled(in, sizeof(in), 1));
}

// Sends `len` bytes from two buffers to two others; the descriptors are those of one region, or of two.
static void send_with_descs(struct env *t, char *out, char *in, size_t len, void *out_desc[2], void *in_desc[2])
{
	struct iovec from[2] = {{ out, len / 2 }, { out + len / 2, len - len / 2 }};
	struct iovec to[2] = {{ in, len / 4 }, { in + len / 4, len - len / 4 }};
	struct fi_context2 ctx[2];
	struct fi_msg send = { .msg_iov = from, .desc = out_desc, .iov_count = 2, .addr = t->a.peer, .context = &ctx[0] };
	struct fi_msg recv = { .msg_iov = to, .desc = in_desc, .iov_count = 2, .addr = FI_ADDR_UNSPEC, .context = &ctx[1] };

	fill(out, len, len);
	memset(in, 0, len);
	POST(t, fi_recvmsg(t->b.ep, &recv, FI_COMPLETION));
	POST(t, fi_sendmsg(t->a.ep, &send, FI_COMPLETION));
	wait_comp(t, t->b.rxcq, NULL);
	wait_comp(t, t->a.txcq, NULL);
	CHECK(filled(in, len, len));
}

TEST(fi_mr, descs_of_buffers, EP_RELIABLE, FI_MSG, "The buffers of a transfer have descriptors of one region or of several, whatever their length")
{
	static char out[1 << 20], in[1 << 20];
	const uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
	struct fid_mr *out_mr, *in_mr, *tail_mr;

	PAIR(t);
	if (t->a.info->tx_attr->iov_limit < 2 || t->b.info->rx_attr->iov_limit < 2)
		SKIP("operations have one buffer");
	out_mr = reg(t, out, sizeof(out), access);
	in_mr = reg(t, in, sizeof(in), access);
	for (size_t len = 64; len <= sizeof(out); len *= 128) {
		void *one[2] = { fi_mr_desc(out_mr), fi_mr_desc(out_mr) };
		void *to[2] = { fi_mr_desc(in_mr), fi_mr_desc(in_mr) };

		tail_mr = reg(t, out + len / 2, len - len / 2, access);
		void *two[2] = { fi_mr_desc(out_mr), fi_mr_desc(tail_mr) };
		send_with_descs(t, out, in, len, one, to);
		send_with_descs(t, out, in, len, two, to);
	}
}

TEST(fi_mr, raw_attr, EP_RELIABLE, FI_RMA, "fi_mr_raw_attr gives key and base address; a short buffer gives -FI_ETOOSMALL and the size")
{
	struct fid_mr *mr = reg(t, memory, 64, FI_REMOTE_WRITE);
	uint8_t raw[64];
	uint64_t base = 77;
	size_t size = sizeof(raw);
	int rc = fi_mr_raw_attr(mr, &base, raw, &size, 0);

	if (rc == -FI_ENOSYS && !(t->info->domain_attr->mr_mode & FI_MR_RAW))
		SKIP("not offered");
	OK(rc);
	CHECK(size >= 1 && size <= t->info->domain_attr->mr_key_size);
	if (size <= 8 && fi_mr_key(mr) != FI_KEY_NOTAVAIL) {
		uint64_t key = 0;

		memcpy(&key, raw, size);
		CHECK_EQ(key, fi_mr_key(mr));
	}
	size = 0;
	CHECK_RC(fi_mr_raw_attr(mr, &base, raw, &size, 0), -FI_ETOOSMALL);
	CHECK(size >= 1);
}

TEST(fi_mr, raw_map_and_unmap, EP_RELIABLE, FI_RMA, "A raw key is mapped to a usable key and unmapped")
{
	struct fid_mr *mr = reg(t, memory, 64, FI_REMOTE_WRITE);
	uint8_t raw[64];
	uint64_t base, key = 77;
	size_t size = sizeof(raw);

	OK_OR_SKIP(fi_mr_raw_attr(mr, &base, raw, &size, 0));
	OK(fi_mr_map_raw(t->domain, base, raw, size, &key, 0));
	if (!(t->info->domain_attr->mr_mode & FI_MR_RAW))
		CHECK_EQ(key, fi_mr_key(mr));
	OK(fi_mr_unmap_key(t->domain, key));
}

TEST(fi_mr, bind_counter, EP_RELIABLE, FI_MSG | FI_RMA | FI_RMA_EVENT, "A counter bound with FI_REMOTE_WRITE counts writes into the region")
{
	static char source[64], target[64];
	struct fid_cntr *cntr = open_cntr(t, FI_WAIT_NONE);
	struct fid_mr *mr = NULL;
	struct fi_context2 ctx;

	PAIR(t);
	OK(fi_mr_reg(t->domain, target, sizeof(target), FI_REMOTE_WRITE, 0, 7, FI_RMA_EVENT, &mr, NULL));
	keep(t, &mr->fid);
	OK_OR_SKIP(fi_mr_bind(mr, &cntr->fid, FI_REMOTE_WRITE));
	if (t->info->domain_attr->mr_mode & FI_MR_RMA_EVENT)
		OK(fi_mr_enable(mr));
	POST(t, fi_write(t->a.ep, source, sizeof(source), reg_desc(t, source, sizeof(source), FI_WRITE), t->a.peer,
			 rma_addr(t, target, 0), fi_mr_key(mr), &ctx));
	wait_comp(t, t->a.txcq, NULL);
	ONCE(t, fi_cntr_read(cntr) == 1);
}

TEST(fi_mr, bind_wrong_object, EP_RELIABLE, FI_RMA, "Only counters and endpoints can be bound to a region")
{
	struct fid_mr *mr = reg(t, memory, 64, FI_REMOTE_WRITE);

	CHECK_RC2(fi_mr_bind(mr, &t->domain->fid, 0), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_mr_bind(mr, &t->fabric->fid, FI_REMOTE_WRITE), -FI_EINVAL, -FI_ENOSYS);
}

TEST(fi_mr, enable_when_not_needed, EP_RELIABLE, FI_RMA, "fi_mr_enable on a region that is enabled: harmless or -FI_ENOSYS")
{
	struct fid_mr *mr = reg(t, memory, 64, FI_REMOTE_WRITE);

	CHECK_RC2(fi_mr_enable(mr), 0, -FI_ENOSYS);
}

TEST(fi_mr, refresh, EP_RELIABLE, FI_RMA, "fi_mr_refresh succeeds, or gives -FI_ENOSYS where the provider needs none")
{
	struct fid_mr *mr = reg(t, memory, 64, FI_REMOTE_WRITE);
	struct iovec iov = { memory, 32 };

	CHECK_RC2(fi_mr_refresh(mr, &iov, 1, 0), 0, -FI_ENOSYS);
	CHECK_RC2(fi_mr_refresh(mr, NULL, 0, 0), 0, -FI_ENOSYS);
}

TEST(fi_mr, control_unknown_command, EP_RELIABLE, FI_RMA, "A command that a region does not know gives -FI_ENOSYS")
{
	uint64_t arg = 0;

	CHECK_RC(fi_control(&reg(t, memory, 64, FI_REMOTE_WRITE)->fid, 0x7fff, &arg), -FI_ENOSYS);
}
