// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Memory regions, and the checks that peers and descriptors have to pass. fi_mr(3)

#include "carry.h"

#include <sys/random.h>

enum { BUCKETS = 1024 };

#define ALL_RIGHTS (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)
// Layers set bit 60 for "do not cache".
#define KNOWN_FLAGS (FI_RMA_EVENT | FI_RMA_PMEM | (1ull << 60))

static struct link *bucket(struct carry_domain *domain, uint64_t key)
{
	return &domain->by_key[(key ^ (key >> 17) ^ (key >> 41)) % BUCKETS];
}

struct carry_mr *carry_mr_find(struct carry_domain *domain, uint64_t key)
{
	struct link *list = bucket(domain, key);

	EACH(at, list) {
		struct carry_mr *mr = OWNER(at, struct carry_mr, at);

		if (mr->fid.key == key)
			return mr;
	}
	return NULL;
}

// Appends the memory of a peer's access to iov[*count]. Fails unless the region covers it and grants the right.
int carry_mr_reach(struct carry_ep *ep, const struct carry_span *span, uint64_t right, struct iovec *iov, unsigned *count)
{
	struct carry_mr *mr = carry_mr_find(ep->domain, span->key);
	uint64_t at = span->addr, left = span->len;

	if (!left)
		return 0;
	if (!mr || !mr->enabled || (mr->ep && mr->ep != ep))
		return FI_EKEYREJECTED;
	if (!(mr->access & right))
		return FI_EACCES;
	if (ep->domain->mr_mode & FI_MR_VIRT_ADDR)
		at -= (uintptr_t) mr->iov[0].iov_base;
	if (at > mr->len || left > mr->len - at)
		return FI_EACCES;
	for (size_t i = 0; left; i++) {
		size_t take;

		if (at >= mr->iov[i].iov_len) {
			at -= mr->iov[i].iov_len;
			continue;
		}
		take = mr->iov[i].iov_len - at < left ? mr->iov[i].iov_len - at : left;
		iov[(*count)++] = (struct iovec){(char *) mr->iov[i].iov_base + at, take};
		left -= take;
		at = 0;
	}
	return 0;
}

static bool covers(struct carry_domain *domain, const void *desc, const struct iovec *piece)
{
	uintptr_t start = (uintptr_t) piece->iov_base;

	// The descriptor may be invalid, so it is searched for and not dereferenced.
	for (unsigned i = 0; i < BUCKETS; i++) {
		EACH(at, &domain->by_key[i]) {
			struct carry_mr *mr = OWNER(at, struct carry_mr, at);

			if (mr != desc)
				continue;
			for (size_t k = 0; k < mr->count && mr->enabled; k++) {
				uintptr_t base = (uintptr_t) mr->iov[k].iov_base;

				if (start >= base && start - base <= mr->iov[k].iov_len &&
				    piece->iov_len <= mr->iov[k].iov_len - (start - base))
					return true;
			}
			return false;
		}
	}
	return false;
}

// Checks that local buffers have the descriptors that FI_MR_LOCAL requires. The lock is not held here.
int carry_mr_check(struct carry_domain *domain, const struct iovec *iov, void **desc, size_t count)
{
	const struct iovec *bad = NULL;

	if (!(domain->mr_mode & FI_MR_LOCAL))
		return 0;
	carry_lock(domain->fabric);
	for (size_t i = 0; i < count && !bad; i++)
		if (iov[i].iov_len && !(desc && desc[i] && covers(domain, desc[i], &iov[i])))
			bad = &iov[i];
	carry_unlock(domain->fabric);
	if (bad)
		FI_WARN(&carry_provider, FI_LOG_MR, "FI_MR_LOCAL: no descriptor of a region with %p + %zu\n", bad->iov_base,
			bad->iov_len);
	return bad ? -FI_EINVAL : 0;
}

// Called when an endpoint is closed: peers can no longer access its regions.
void carry_mr_orphan(struct carry_ep *ep)
{
	for (unsigned i = 0; i < BUCKETS; i++) {
		EACH(at, &ep->domain->by_key[i]) {
			struct carry_mr *mr = OWNER(at, struct carry_mr, at);

			if (mr->ep == ep) {
				mr->ep = NULL;
				mr->enabled = false;
			}
		}
	}
}

// ---- Regions

static int mr_close(struct fid *fid)
{
	struct carry_mr *mr = (struct carry_mr *) fid;
	struct carry_fabric *fabric = mr->domain->fabric;

	carry_lock(fabric);
	list_del(&mr->at);
	mr->domain->users--;
	mr->domain->regions--;
	if (mr->cntr)
		mr->cntr->users--;
	carry_unlock(fabric);
	free(mr);
	return 0;
}

static int bind_ep(struct carry_mr *mr, struct carry_ep *ep, uint64_t flags)
{
	if (flags || ep->domain != mr->domain || mr->ep)
		return -FI_EINVAL;
	mr->ep = ep;
	return 0;
}

static int bind_cntr(struct carry_mr *mr, struct carry_cntr *cntr, uint64_t flags)
{
	if (flags != FI_REMOTE_WRITE || cntr->domain != mr->domain || mr->cntr)
		return -FI_EINVAL;
	mr->cntr = cntr;
	cntr->users++;
	return 0;
}

static int mr_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct carry_mr *mr = (struct carry_mr *) fid;
	int rc = -FI_EINVAL;

	if (!other)
		return -FI_EINVAL;
	carry_lock(mr->domain->fabric);
	if (other->fclass == FI_CLASS_EP)
		rc = bind_ep(mr, (struct carry_ep *) other, flags);
	else if (other->fclass == FI_CLASS_CNTR)
		rc = bind_cntr(mr, (struct carry_cntr *) other, flags);
	carry_unlock(mr->domain->fabric);
	return rc;
}

static int raw_attr(struct carry_mr *mr, struct fi_mr_raw_attr *attr)
{
	size_t room;

	if (!attr || !attr->key_size || attr->flags)
		return -FI_EINVAL;
	room = *attr->key_size;
	*attr->key_size = sizeof(mr->fid.key);
	if (room < sizeof(mr->fid.key) || !attr->raw_key)
		return -FI_ETOOSMALL;
	if (attr->base_addr)
		*attr->base_addr = mr->domain->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t) mr->iov[0].iov_base : 0;
	memcpy(attr->raw_key, &mr->fid.key, sizeof(mr->fid.key));
	return 0;
}

static int mr_control(struct fid *fid, int command, void *arg)
{
	struct carry_mr *mr = (struct carry_mr *) fid;
	int rc = 0;

	switch (command) {
	case FI_ENABLE:
		carry_lock(mr->domain->fabric);
		if ((mr->domain->mr_mode & FI_MR_ENDPOINT) && !mr->ep)
			rc = -FI_EOPBADSTATE;
		else
			mr->enabled = true;
		carry_unlock(mr->domain->fabric);
		return rc;
	case FI_GET_RAW_MR:
		return raw_attr(mr, arg);
	default:
		return -FI_ENOSYS;
	}
}

int carry_mr_control(struct carry_domain *domain, int command, void *arg)
{
	struct fi_mr_map_raw *map = arg;

	(void) domain;
	switch (command) {
	case FI_MAP_RAW_MR:
		if (!map || !map->raw_key || !map->key || map->key_size != sizeof(uint64_t))
			return -FI_EINVAL;
		memcpy(map->key, map->raw_key, sizeof(uint64_t));
		return 0;
	case FI_QUEUE_WORK: // no domain has FI_TRIGGER
		return -FI_EINVAL;
	case FI_UNMAP_KEY:
		return arg ? 0 : -FI_EINVAL;
	default:
		return -FI_ENOSYS;
	}
}

static struct fi_ops mr_fid_ops = CARRY_FI_OPS(mr_close, mr_bind, mr_control);

static int choose_key(struct carry_domain *domain, uint64_t *key)
{
	if (!(domain->mr_mode & FI_MR_PROV_KEY))
		return *key != FI_KEY_NOTAVAIL && !carry_mr_find(domain, *key) ? 0 : -FI_ENOKEY;
	do {
		if (getrandom(key, sizeof(*key), 0) != sizeof(*key))
			return -FI_EAGAIN;
	} while (*key == FI_KEY_NOTAVAIL || carry_mr_find(domain, *key));
	return 0;
}

static int check_attr(const struct fi_mr_attr *attr, uint64_t flags, uint32_t version)
{
	if (!attr->mr_iov || !attr->iov_count || attr->iov_count > CARRY_MR_IOV || attr->offset)
		return -FI_EINVAL;
	if (attr->access & ~(uint64_t) ALL_RIGHTS)
		return -FI_EINVAL;
	if (flags & ~KNOWN_FLAGS)
		return flags & FI_MR_SINGLE_USE ? -FI_EOPNOTSUPP : -FI_EBADFLAGS;
	if (FI_VERSION_GE(version, FI_VERSION(1, 5)) && attr->auth_key_size)
		return attr->auth_key ? -FI_EOPNOTSUPP : -FI_EINVAL;
	if (FI_VERSION_GE(version, FI_VERSION(2, 0)) && attr->base_mr)
		return -FI_EINVAL;
	return 0;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **out)
{
	struct carry_domain *domain = (struct carry_domain *) fid;
	struct carry_mr *mr;
	uint64_t key;
	int rc;

	if (!fid || fid->fclass != FI_CLASS_DOMAIN || !attr || !out)
		return -FI_EINVAL;
	rc = check_attr(attr, flags, domain->fabric->fid.api_version);
	if (rc)
		return rc;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -FI_ENOMEM;
	for (size_t i = 0; i < attr->iov_count && !rc; i++) {
		mr->iov[i] = attr->mr_iov[i];
		if (mr->iov[i].iov_len > SIZE_MAX - mr->len)
			rc = -FI_EINVAL;
		mr->len += mr->iov[i].iov_len;
	}
	if (rc) {
		free(mr);
		return rc;
	}
	key = attr->requested_key;
	mr->count = attr->iov_count;
	mr->access = attr->access;
	mr->domain = domain;
	mr->enabled = !(domain->mr_mode & FI_MR_ENDPOINT);
	mr->fid.fid = (struct fid){.fclass = FI_CLASS_MR, .context = attr->context, .ops = &mr_fid_ops};
	mr->fid.mem_desc = mr;
	carry_lock(domain->fabric);
	rc = choose_key(domain, &key);
	if (!rc) {
		mr->fid.key = key;
		list_append(bucket(domain, key), &mr->at);
		domain->users++;
		domain->regions++;
	}
	carry_unlock(domain->fabric);
	if (rc)
		free(mr);
	else
		*out = &mr->fid;
	return rc;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset, uint64_t key,
		   uint64_t flags, struct fid_mr **mr, void *context)
{
	struct fi_mr_attr attr = {
		.mr_iov = iov, .iov_count = count, .access = access, .offset = offset, .requested_key = key, .context = context,
	};

	return mr_regattr(fid, &attr, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset, uint64_t key, uint64_t flags,
		  struct fid_mr **mr, void *context)
{
	struct iovec iov = {(void *) buf, len};

	return mr_regv(fid, &iov, 1, access, offset, key, flags, mr, context);
}

struct fi_ops_mr carry_mr_ops = {.size = sizeof(struct fi_ops_mr), .reg = mr_reg, .regv = mr_regv, .regattr = mr_regattr};
