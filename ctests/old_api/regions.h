// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// fi_mr(3): attributes with their length at that time; keys and addresses as its registration mode defines them.

#ifndef OLD_API_REGIONS_H
#define OLD_API_REGIONS_H

#include "objects.h"

#define REMOTE (FI_REMOTE_READ | FI_REMOTE_WRITE)

static struct fi_mr_attr *attr_for(const struct iovec *iov, size_t count, uint64_t access, uint64_t key)
{
	struct fi_mr_attr *attr = GUARDED(struct fi_mr_attr);

	attr->mr_iov = iov;
	attr->iov_count = count;
	attr->access = access;
	attr->requested_key = key;
	attr->context = attr;
	return attr;
}

static struct iovec *piece(void *base, size_t length)
{
	struct iovec *iov = GUARDED(struct iovec);

	*iov = (struct iovec) {base, length};
	return iov;
}

static void regattr_reads_no_more_than_an_attr_of_its_time(void)
{
	struct world w = {};
	char *memory = guarded_bytes("memory", 64, 0);
	struct fi_mr_attr *attr = attr_for(piece(memory, 64), 1, FI_READ | FI_WRITE | REMOTE, 77), before;
	struct fid_mr *mr = NULL, *same = NULL;

	open_rdm(&w, FI_MR_SCALABLE);
	before = *attr;
	NEED(w.domain->mr->regattr(&w.domain->fid, attr, 0, &mr));
	CHECK(!memcmp(attr, &before, sizeof(*attr)));
	EQUAL(mr->fid.fclass, FI_CLASS_MR);
	CHECK(mr->fid.context == attr);
	EQUAL(mr->key, 77);
	EQUAL(w.domain->mr->regattr(&w.domain->fid, attr, 0, &same), -FI_ENOKEY);
	close_fid(mr);
	// The same with the other calls.
	NEED(w.domain->mr->reg(&w.domain->fid, memory, 64, REMOTE, 0, 77, 0, &mr, &w));
	CHECK(mr->key == 77 && mr->fid.context == &w);
	close_fid(mr);
	NEED(w.domain->mr->regv(&w.domain->fid, piece(memory, 64), 1, REMOTE, 0, 77, 0, &mr, &w));
	CHECK(mr->key == 77 && mr->fid.context == &w);
	close_fid(mr);
	attr->mr_iov = NULL;
	EQUAL(w.domain->mr->regattr(&w.domain->fid, attr, 0, &mr), -FI_EINVAL);
	close_all(&w);
}

#if SINCE(1, 5)
static void refresh_reads_no_more_than_a_modify_of_its_time(void)
{
	struct world w = {};
	char *memory = guarded_bytes("memory", 64, 0);
	struct fi_mr_attr *attr = attr_for(piece(memory, 64), 1, REMOTE, 77);
	struct fi_mr_modify *modify = GUARDED(struct fi_mr_modify);
	struct fid_mr *mr;
	int result;

	open_rdm(&w, FI_MR_SCALABLE);
	NEED(w.domain->mr->regattr(&w.domain->fid, attr, 0, &mr));
	// fi_mr_refresh sets these two.
	modify->attr.mr_iov = piece(memory + 8, 16);
	modify->attr.iov_count = 1;
	result = control(&mr->fid, FI_REFRESH, modify);
	CHECK(result == 0 || result == -FI_ENOSYS);
	close_fid(mr);
	close_all(&w);
}

static void raw_keys_go_through_structs_of_their_time(void)
{
	struct world w = {};
	char *memory = guarded_bytes("memory", 64, 0);
	struct fi_mr_raw_attr *raw = GUARDED(struct fi_mr_raw_attr);
	struct fi_mr_map_raw *map = GUARDED(struct fi_mr_map_raw);
	struct fid_mr *mr;

	open_rdm(&w, FI_MR_SCALABLE);
	NEED(w.domain->mr->reg(&w.domain->fid, memory, 64, REMOTE, 0, 77, 0, &mr, NULL));
	raw->base_addr = GUARDED(uint64_t);
	raw->key_size = GUARDED(size_t);
	*raw->key_size = sizeof(uint64_t);
	raw->raw_key = GUARDED_ARRAY(uint8_t, sizeof(uint64_t));
	if (control(&mr->fid, FI_GET_RAW_MR, raw) == 0) {
		map->base_addr = *raw->base_addr;
		map->raw_key = raw->raw_key;
		map->key_size = *raw->key_size;
		map->key = GUARDED_GARBAGE(uint64_t);
		NEED(control(&w.domain->fid, FI_MAP_RAW_MR, map));
		EQUAL(*map->key, mr->key);
		NEED(control(&w.domain->fid, FI_UNMAP_KEY, map->key));
	}
	close_fid(mr);
	close_all(&w);
}
#endif

// A write and a read of the peer's memory.
static void access_remote(int mr_mode)
{
	struct world w = {};
	struct fi_msg_rma *msg = GUARDED(struct fi_msg_rma);
	struct fi_rma_iov *target = GUARDED(struct fi_rma_iov);
	char *memory = guarded_bytes("memory", 64, 0), *mine = guarded_copy_of("buffer", "0123456789", 10);
	void **desc = GUARDED(void *);
	struct fi_cq_tagged_entry entry;
	struct fid_mr *mr, *local;
	uint64_t base;

	open_rdm(&w, mr_mode);
	NEED(w.domain->mr->regattr(&w.domain->fid, attr_for(piece(memory, 64), 1, REMOTE, 5), 0, &mr));
	NEED(w.domain->mr->regattr(&w.domain->fid, attr_for(piece(mine, 10), 1, FI_READ | FI_WRITE, 6), 0, &local));
	mr_mode = w.list->domain_attr->mr_mode;
	base = mr_mode & (FI_MR_BASIC | FI_MR_VIRT_ADDR) ? (uintptr_t) memory : 0;
	*desc = local->mem_desc;
	*target = (struct fi_rma_iov) {base + 3, 10, mr->key};
	*msg = (struct fi_msg_rma) {.msg_iov = piece(mine, 10), .desc = desc, .iov_count = 1, .addr = w.addr[1],
				    .rma_iov = target, .rma_iov_count = 1, .context = mine};
	POST(&w, w.ep[0]->rma->writemsg(w.ep[0], msg, FI_COMPLETION));
	CHECK(next_entry(&w, &entry) && entry.op_context == mine);
	memset(mine, 0, 10);
	POST(&w, w.ep[0]->rma->readmsg(w.ep[0], msg, FI_COMPLETION));
	CHECK(next_entry(&w, &entry) && entry.op_context == mine);
	CHECK(!memcmp(mine, "0123456789", 10));
	CHECK(!memcmp(memory + 3, "0123456789", 10) && !memory[2] && !memory[13]);
	close_fid(local);
	close_fid(mr);
	close_all(&w);
}

static void rma_in_the_modes_of_its_time(void)
{
	access_remote(FI_MR_BASIC);
	access_remote(FI_MR_SCALABLE);
#if SINCE(1, 5)
	access_remote(FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY);
#endif
}

#endif
