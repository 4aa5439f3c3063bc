// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_mr(3), fi_domain(3): the choice of keys, the form of addresses, regions made from regions, regions for one
//! access, registration reported by events (deprecated), refreshing ranges, raw keys.
#include "transfer.h"

enum { LEN = 64, ROOM = 4096 };
#define RW (FI_REMOTE_READ | FI_REMOTE_WRITE)

// Writes LEN bytes and waits for the delivery. Returns the error of the completion.
static int write_to(struct env *t, struct buf from, uint64_t addr, uint64_t key)
{
	struct iovec iov = { from.mem, LEN };
	struct fi_rma_iov rma = { addr, LEN, key };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &from.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &rma,
		.rma_iov_count = 1, .context = new_ctx(),
	};
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { 0 };
	ssize_t rc;

	POST(t, fi_writemsg(t->a.ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION));
	ONCE(t, (rc = fi_cq_read(t->a.txcq, &entry, 1)) != -FI_EAGAIN);
	if (rc == 1)
		return 0;
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK_RC(fi_cq_readerr(t->a.txcq, &err, 0), 1);
	CHECK(err.err > 0);
	return err.err;
}

// ---- Modes: keys and addresses

// Writes to the second half of a region.
static void check_mode(struct env *t, bool virtual_address, bool own_key)
{
	struct buf target, from;
	struct fid_mr *mr = NULL;

	PAIR(t);
	target = new_buf(t, 2 * LEN, 0);
	from = new_buf(t, LEN, 1);
	OK(fi_mr_reg(t->domain, target.mem, 2 * LEN, FI_REMOTE_WRITE, 0, 0x1234, 0, &mr, NULL));
	keep(t, &mr->fid);
	if (own_key)
		CHECK_EQ(fi_mr_key(mr), 0x1234);
	OK(write_to(t, from, (virtual_address ? (uintptr_t)target.mem : 0) + LEN, fi_mr_key(mr)));
	CHECK(holds(part(target, LEN, LEN), LEN, 1));
	for (int i = 0; i < LEN; i++)
		CHECK_EQ(target.mem[i], 0);
}

TEST(fi_mr, mode_none, EP_RELIABLE, FI_RMA, "Without mode bits peers give offsets and the application chooses keys")
{
	t->hints->domain_attr->mr_mode = 0;
	env_info(t);
	CHECK_EQ(t->info->domain_attr->mr_mode, 0);
	check_mode(t, false, true);
}

TEST(fi_mr, mode_bits_are_cleared, EP_RELIABLE, FI_RMA, "A mode bit that stays set is needed, one that is cleared is not: keys and addresses go by what is left")
{
	int mode = t->info->domain_attr->mr_mode;

	CHECK_EQ(mode & ~t->hints->domain_attr->mr_mode, 0);
	if (mode & (FI_MR_ENDPOINT | FI_MR_RAW))
		SKIP("regions need more steps");
	check_mode(t, mode & FI_MR_VIRT_ADDR, !(mode & FI_MR_PROV_KEY));
}

TEST(fi_mr, mode_prov_key, EP_RELIABLE, FI_RMA, "Asked with FI_MR_PROV_KEY alone, peers give offsets, whoever chooses keys")
{
	t->hints->domain_attr->mr_mode = FI_MR_PROV_KEY;
	env_info(t);
	CHECK_EQ(t->info->domain_attr->mr_mode & ~FI_MR_PROV_KEY, 0);
	check_mode(t, false, !(t->info->domain_attr->mr_mode & FI_MR_PROV_KEY));
}

TEST(fi_mr, mode_virt_addr, EP_RELIABLE, FI_RMA, "Asked with FI_MR_VIRT_ADDR alone, the application chooses keys, whatever addresses are")
{
	t->hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR;
	env_info(t);
	CHECK_EQ(t->info->domain_attr->mr_mode & ~FI_MR_VIRT_ADDR, 0);
	check_mode(t, t->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR, true);
}

TEST(fi_mr, mode_scalable, EP_RELIABLE, FI_RMA, "FI_MR_SCALABLE (API 1.4): offsets, and keys that the application chooses")
{
	env_version(t, FI_VERSION(1, 4));
	t->hints->domain_attr->mr_mode = 2; // FI_MR_SCALABLE
	env_info(t);
	CHECK_EQ(t->info->domain_attr->mr_mode, 2);
	check_mode(t, false, true);
}

TEST(fi_mr, mode_basic, EP_RELIABLE, FI_RMA, "FI_MR_BASIC (API 1.4): virtual addresses, and keys that the provider chooses")
{
	env_version(t, FI_VERSION(1, 4));
	t->hints->domain_attr->mr_mode = 1; // FI_MR_BASIC
	env_info(t);
	CHECK_EQ(t->info->domain_attr->mr_mode, 1);
	check_mode(t, true, false);
}

TEST(fi_mr, mode_basic_today, EP_RELIABLE, FI_RMA, "FI_MR_BASIC is not cleared for later API versions either, and forces what it stands for")
{
	t->hints->domain_attr->mr_mode = 1; // FI_MR_BASIC
	env_info(t);
	CHECK_EQ(t->info->domain_attr->mr_mode, 1);
	check_mode(t, true, false);
}

// ---- Overlap

TEST(fi_mr, overlapping_regions, EP_RELIABLE, FI_RMA, "Regions that overlap have keys, rights and starts of their own")
{
	struct fid_mr *first, *second, *readable;
	struct buf target, from, other;

	PAIR(t);
	target = new_buf(t, 3 * LEN, 0);
	from = new_buf(t, LEN, 1);
	other = new_buf(t, LEN, 2);
	first = reg(t, target.mem, 2 * LEN, FI_REMOTE_WRITE);
	second = reg(t, target.mem + LEN, 2 * LEN, FI_REMOTE_WRITE);
	readable = reg(t, target.mem, 3 * LEN, FI_REMOTE_READ);
	OK(write_to(t, from, rma_addr(t, target.mem, LEN), fi_mr_key(first)));
	CHECK(holds(part(target, LEN, LEN), LEN, 1));
	OK(write_to(t, other, rma_addr(t, target.mem + LEN, 0), fi_mr_key(second)));
	CHECK(holds(part(target, LEN, LEN), LEN, 2));
	shut(t, &first->fid);
	OK(write_to(t, from, rma_addr(t, target.mem + LEN, LEN), fi_mr_key(second)));
	CHECK(holds(part(target, 2 * LEN, LEN), LEN, 1));
	CHECK(write_to(t, from, rma_addr(t, target.mem, 0), fi_mr_key(readable)) > 0);
	CHECK(holds(part(target, LEN, LEN), LEN, 2));
}

TEST(fi_mr, vector_is_one_region, EP_RELIABLE, FI_RMA, "The buffers of a vector are one region: offsets run from one to the next")
{
	struct buf target, from;
	struct iovec iov[2];
	struct fid_mr *mr = NULL;

	t->hints->domain_attr->mr_mode &= ~(FI_MR_VIRT_ADDR | FI_MR_PROV_KEY);
	env_info(t);
	if (t->info->domain_attr->mr_iov_limit < 2)
		SKIP("mr_iov_limit is %zu", t->info->domain_attr->mr_iov_limit);
	PAIR(t);
	target = new_buf(t, 4 * LEN, 0);
	from = new_buf(t, LEN, 1);
	iov[0] = (struct iovec){ target.mem + 2 * LEN, LEN };
	iov[1] = (struct iovec){ target.mem, LEN };
	OK(fi_mr_regv(t->domain, iov, 2, FI_REMOTE_WRITE, 0, 7, 0, &mr, NULL));
	keep(t, &mr->fid);
	OK(write_to(t, from, LEN, 7));
	CHECK(holds(part(target, 0, LEN), LEN, 1));
	CHECK(untouched(part(target, LEN, 3 * LEN), 0));
}

// ---- Dependence on the domain

TEST(fi_mr, hmem_flags_need_hmem, EP_RELIABLE, FI_RMA, "FI_HMEM_DEVICE_ONLY and FI_HMEM_HOST_ALLOC are only usable on domains with FI_HMEM")
{
	struct buf buf = new_buf(t, LEN, 0);
	struct fid_mr *mr = NULL;

	if (t->info->caps & FI_HMEM)
		SKIP("the domain has FI_HMEM");
	open_domain(t);
	CHECK(fi_mr_reg(t->domain, buf.mem, LEN, RW, 0, 7, FI_HMEM_DEVICE_ONLY, &mr, NULL) < 0);
	CHECK(fi_mr_reg(t->domain, buf.mem, LEN, RW, 0, 7, FI_HMEM_HOST_ALLOC, &mr, NULL) < 0);
}

TEST(fi_mr, auth_key_ignored_before_1_5, EP_RELIABLE, FI_RMA, "API below 1.5: auth_key and auth_key_size are not looked at")
{
	struct buf buf = new_buf(t, LEN, 0);
	struct iovec iov = { buf.mem, LEN };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = RW, .requested_key = 7 };
	struct fid_mr *mr = NULL;

	env_version(t, FI_VERSION(1, 4));
	open_domain(t);
	attr.auth_key_size = SIZE_MAX;
	attr.auth_key = (uint8_t *)(uintptr_t)8;
	OK(fi_mr_regattr(t->domain, &attr, 0, &mr));
	OK(fi_close(&mr->fid));
}

TEST(fi_mr, flags_of_host_memory, EP_RELIABLE, FI_RMA, "FI_RMA_EVENT and FI_RMA_PMEM can be given with any region")
{
	struct buf buf = new_buf(t, LEN, 0);
	struct fid_mr *mr = NULL;

	open_domain(t);
	OK(fi_mr_reg(t->domain, buf.mem, LEN, RW, 0, 7, FI_RMA_EVENT, &mr, NULL));
	OK(fi_close(&mr->fid));
	OK(fi_mr_reg(t->domain, buf.mem, LEN, RW, 0, 7, FI_RMA_PMEM, &mr, NULL));
	OK(fi_close(&mr->fid));
}

// ---- Regions made from regions

static int try_sub(struct env *t, struct fid_mr *base, void *mem, size_t len, uint64_t access, struct fid_mr **sub)
{
	struct iovec iov = { mem, len };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = access, .requested_key = t->next_key++ };

	attr.base_mr = base;
	return fi_mr_regattr(t->domain, &attr, 0, sub);
}

static struct fid_mr *sub_region(struct env *t, struct fid_mr *base, void *mem, size_t len, uint64_t access)
{
	struct fid_mr *sub = NULL;
	int rc = try_sub(t, base, mem, len, access, &sub);

	if (rc == -FI_EINVAL)
		SKIP("not offered");
	OK_OR_SKIP(rc);
	keep(t, &sub->fid);
	return sub;
}

TEST(fi_mr, sub_region_stays_inside, EP_RELIABLE, FI_RMA, "A sub-region that is not fully contained in its base is refused")
{
	struct fid_mr *base, *sub = NULL;
	struct buf buf = new_buf(t, ROOM, 0);

	base = reg(t, buf.mem + LEN, LEN, RW);
	sub_region(t, base, buf.mem + LEN, LEN, RW); // skips if there are none
	CHECK_RC(try_sub(t, base, buf.mem + LEN / 2, LEN, RW, &sub), -FI_EINVAL);
	CHECK_RC(try_sub(t, base, buf.mem + LEN + LEN / 2, LEN, RW, &sub), -FI_EINVAL);
	CHECK_RC(try_sub(t, base, buf.mem + 3 * LEN, LEN, RW, &sub), -FI_EINVAL);
	CHECK(!sub);
}

TEST(fi_mr, sub_region_rights, EP_RELIABLE, FI_RMA, "A sub-region has a key and rights of its own")
{
	struct fid_mr *base, *sub;
	struct buf target, from;

	PAIR(t);
	target = new_buf(t, 3 * LEN, 0);
	from = new_buf(t, LEN, 1);
	base = reg(t, target.mem, 3 * LEN, FI_REMOTE_READ);
	sub = sub_region(t, base, target.mem + LEN, LEN, FI_REMOTE_WRITE);
	CHECK(fi_mr_key(sub) != fi_mr_key(base));
	OK(write_to(t, from, rma_addr(t, target.mem + LEN, 0), fi_mr_key(sub)));
	CHECK(holds(part(target, LEN, LEN), LEN, 1));
	CHECK(write_to(t, from, rma_addr(t, target.mem, 0), fi_mr_key(base)) > 0);
	CHECK(untouched(part(target, 0, LEN), 0));
}

TEST(fi_mr, sub_region_of_sub_region, EP_RELIABLE, FI_RMA, "A base may itself be a sub-region; each holds the one it was made from")
{
	struct buf buf = new_buf(t, ROOM, 0);
	struct fid_mr *base = reg(t, buf.mem, ROOM, RW), *sub, *inner;

	sub = sub_region(t, base, buf.mem, ROOM / 2, FI_REMOTE_WRITE);
	inner = sub_region(t, sub, buf.mem + LEN, LEN, FI_REMOTE_READ);
	CHECK_RC(fi_close(&base->fid), -FI_EBUSY);
	CHECK_RC(fi_close(&sub->fid), -FI_EBUSY);
	shut(t, &inner->fid);
	shut(t, &sub->fid);
	shut(t, &base->fid);
}

// ---- FI_MR_SINGLE_USE

TEST(fi_mr, single_use, EP_RELIABLE, FI_RMA, "FI_MR_SINGLE_USE: after one access the key is invalid")
{
	struct buf target, from, other;
	struct fid_mr *mr = NULL;

	PAIR(t);
	target = new_buf(t, LEN, 0);
	from = new_buf(t, LEN, 1);
	other = new_buf(t, LEN, 2);
	OK_OR_SKIP(fi_mr_reg(t->domain, target.mem, LEN, FI_REMOTE_WRITE, 0, 7, FI_MR_SINGLE_USE, &mr, NULL));
	keep(t, &mr->fid);
	OK(write_to(t, from, rma_addr(t, target.mem, 0), fi_mr_key(mr)));
	CHECK(holds(target, LEN, 1));
	CHECK(write_to(t, other, rma_addr(t, target.mem, 0), fi_mr_key(mr)) > 0);
	CHECK(holds(target, LEN, 1));
}

static void one_read(struct env *t, size_t len)
{
	struct buf source, into;
	struct fid_mr *mr = NULL;
	struct fi_cq_err_entry err = { 0 };

	source = new_buf(t, len, 3);
	into = new_buf(t, len, 0);
	OK_OR_SKIP(fi_mr_reg(t->domain, source.mem, len, FI_REMOTE_READ, 0, 7, FI_MR_SINGLE_USE, &mr, NULL));
	keep(t, &mr->fid);
	POST(t, fi_read(t->a.ep, into.mem, len, into.desc, t->a.peer, rma_addr(t, source.mem, 0), fi_mr_key(mr), new_ctx()));
	wait_comp(t, t->a.txcq, NULL);
	CHECK(holds(into, len, 3));
	POST(t, fi_read(t->a.ep, into.mem, LEN, into.desc, t->a.peer, rma_addr(t, source.mem, 0), fi_mr_key(mr), new_ctx()));
	wait_err(t, t->a.txcq, &err);
	CHECK(err.err > 0);
}

TEST(fi_mr, single_use_read, EP_RELIABLE, FI_RMA, "FI_MR_SINGLE_USE: a read of many bytes is one access, and gets them all")
{
	PAIR(t);
	one_read(t, 1 << 20);
}

TEST(fi_mr, single_use_small_read, EP_RELIABLE, FI_RMA, "FI_MR_SINGLE_USE: a read of few bytes is one access")
{
	PAIR(t);
	one_read(t, LEN);
}

// ---- Registration reported by events (deprecated)

static struct fid_eq *bind_for_events(struct env *t)
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_UNSPEC, 0);

	open_domain(t);
	OK_OR_SKIP(fi_domain_bind(t->domain, &eq->fid, FI_REG_MR));
	return eq;
}

TEST(fi_domain, reg_mr_event, EP_RELIABLE, FI_RMA, "FI_REG_MR: a registration is reported by FI_MR_COMPLETE with the region and the call's context")
{
	struct fid_eq *eq = bind_for_events(t);
	struct fi_eq_entry entry = { 0 };
	struct fid_mr *mr = NULL;
	struct buf buf = new_buf(t, LEN, 0);
	int mark;

	OK(fi_mr_reg(t->domain, buf.mem, LEN, RW, 0, 7, 0, &mr, &mark));
	CHECK(mr);
	keep(t, &mr->fid);
	CHECK_RC(wait_event(t, eq, FI_MR_COMPLETE, &entry, sizeof(entry)), sizeof(entry));
	CHECK(entry.fid == &mr->fid && entry.context == &mark);
	CHECK(fi_mr_key(mr) != FI_KEY_NOTAVAIL);
}

TEST(fi_domain, reg_mr_event_each, EP_RELIABLE, FI_RMA, "FI_REG_MR: every call for a region has its event; one that is refused has none")
{
	struct fid_eq *eq = bind_for_events(t);
	struct buf buf = new_buf(t, LEN, 0);
	struct iovec iov = { buf.mem, LEN };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = RW, .requested_key = 8 };
	struct fi_eq_entry entry = { 0 };
	struct fid_mr *mrs[2] = { NULL }, *none = NULL;
	uint32_t event;

	OK(fi_mr_regv(t->domain, &iov, 1, RW, 0, 7, 0, &mrs[0], NULL));
	keep(t, &mrs[0]->fid);
	CHECK(fi_mr_regv(t->domain, &iov, 0, RW, 0, 9, 0, &none, NULL) < 0);
	attr.context = &attr;
	OK(fi_mr_regattr(t->domain, &attr, 0, &mrs[1]));
	keep(t, &mrs[1]->fid);
	for (int i = 0; i < 2; i++) {
		CHECK_RC(wait_event(t, eq, FI_MR_COMPLETE, &entry, sizeof(entry)), sizeof(entry));
		CHECK(entry.fid == &mrs[i]->fid && entry.context == (i ? &attr : NULL));
	}
	CHECK_RC(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
}

TEST(fi_domain, reg_mr_synchronous, EP_RELIABLE, FI_RMA, "Without FI_REG_MR registration completes in the call and gives no event")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	struct buf buf = new_buf(t, LEN, 0);
	struct fi_eq_entry entry;
	uint32_t event;

	open_domain(t);
	OK_OR_SKIP(fi_domain_bind(t->domain, &eq->fid, 0));
	CHECK(fi_mr_key(reg(t, buf.mem, LEN, RW)) != FI_KEY_NOTAVAIL);
	CHECK_RC(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), -FI_EAGAIN);
}

// ---- Refreshing, raw keys

TEST(fi_mr, refresh_outside, EP_RELIABLE, FI_RMA, "A range that cannot be updated, as it is not in the region, is an error")
{
	struct buf buf = new_buf(t, ROOM, 0);
	struct fid_mr *mr = reg(t, buf.mem, LEN, RW);
	struct iovec iov = { buf.mem, 2 * LEN };

	OK_OR_SKIP(fi_mr_refresh(mr, NULL, 0, 0));
	CHECK(fi_mr_refresh(mr, &iov, 1, 0) < 0);
}

TEST(fi_mr, raw_key_is_usable, EP_RELIABLE, FI_RMA, "A write by a mapped raw key and the base address that came with it reaches the region")
{
	struct buf target, from;
	struct fid_mr *mr;
	uint8_t raw[64];
	uint64_t base = 0, key = 0;
	size_t size = sizeof(raw);

	PAIR(t);
	target = new_buf(t, LEN, 0);
	from = new_buf(t, LEN, 1);
	mr = reg(t, target.mem, LEN, FI_REMOTE_WRITE);
	OK_OR_SKIP(fi_mr_raw_attr(mr, &base, raw, &size, 0));
	CHECK_EQ(base, rma_addr(t, target.mem, 0));
	OK(fi_mr_map_raw(t->domain, base, raw, size, &key, 0));
	OK(write_to(t, from, base, key));
	CHECK(holds(target, LEN, 1));
	OK(fi_mr_unmap_key(t->domain, key));
}

TEST(fi_mr, raw_size_is_mr_key_size, EP_RELIABLE, FI_RMA, "The size of a raw key is the domain's mr_key_size")
{
	struct buf buf = new_buf(t, LEN, 0);
	struct fid_mr *mr = reg(t, buf.mem, LEN, RW);
	uint64_t base;
	size_t size = 0;
	int rc = fi_mr_raw_attr(mr, &base, NULL, &size, 0);

	if (rc == -FI_ENOSYS)
		SKIP("not offered");
	CHECK_RC(rc, -FI_ETOOSMALL);
	CHECK_EQ(size, t->info->domain_attr->mr_key_size);
}

// ---- Binding

TEST(fi_mr, bind_endpoint, EP_RELIABLE, FI_RMA, "A region can be bound to an endpoint, with flags 0; or -FI_ENOSYS where endpoints have no regions")
{
	struct buf buf = new_buf(t, LEN, 0);
	struct fid_mr *mr = reg(t, buf.mem, LEN, RW);
	int rc;

	open_bound_ep(t, &t->a);
	rc = fi_mr_bind(mr, &t->a.ep->fid, 0);
	CHECK(rc == 0 || (!(t->info->domain_attr->mr_mode & FI_MR_ENDPOINT) && (rc == -FI_ENOSYS || rc == -FI_EINVAL)));
	CHECK(fi_mr_bind(mr, &t->a.ep->fid, 1ULL << 51) < 0);
}
