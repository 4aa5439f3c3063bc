// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Functions for unsupported calls: every slot returns an error.

#include "carry.h"

// The functions here ignore their arguments.
#pragma GCC diagnostic ignored "-Wunused-parameter"

// Tables are a size and function pointers.
void carry_fill(void *table, const void *none)
{
	size_t count = *(const size_t *) none / sizeof(void *);

	for (size_t i = 1; i < count; i++)
		if (!((void **) table)[i])
			((void **) table)[i] = ((void *const *) none)[i];
}

int carry_no_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	return other ? -FI_ENOSYS : -FI_EINVAL;
}

int carry_no_control(struct fid *fid, int command, void *arg)
{
	return -FI_ENOSYS;
}

int carry_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	return name ? -FI_ENOSYS : -FI_EINVAL;
}

int carry_no_tostr(const struct fid *fid, char *buf, size_t len)
{
	return -FI_ENOSYS;
}

int carry_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
	return name ? -FI_ENOSYS : -FI_EINVAL;
}

static ssize_t cancel(fid_t fid, void *context)
{
	return -FI_ENOSYS;
}

static int getopt_(fid_t fid, int level, int name, void *value, size_t *len)
{
	return -FI_ENOPROTOOPT;
}

static int setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
	return -FI_ENOPROTOOPT;
}

static int tx_ctx(struct fid_ep *ep, int index, struct fi_tx_attr *attr, struct fid_ep **tx, void *context)
{
	return -FI_ENOSYS;
}

static int rx_ctx(struct fid_ep *ep, int index, struct fi_rx_attr *attr, struct fid_ep **rx, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t size_left(struct fid_ep *ep)
{
	return -FI_ENOSYS;
}

static int wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set)
{
	return -FI_ENOSYS;
}

static int domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, uint64_t flags,
		     void *context)
{
	if (flags)
		return flags & FI_PEER ? -FI_EINVAL : -FI_EBADFLAGS;
	return carry_domain_open(fabric, info, domain, context);
}

static int scalable(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
	return info && ep ? -FI_ENOSYS : -FI_EINVAL;
}

static int poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **set)
{
	return attr && set ? -FI_ENOSYS : -FI_EINVAL;
}

static int stx(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx, void *context)
{
	return stx ? -FI_ENOSYS : -FI_EINVAL;
}

static int atomics(struct fid_domain *domain, enum fi_datatype type, enum fi_op op, struct fi_atomic_attr *attr,
		     uint64_t flags)
{
	return -FI_EOPNOTSUPP;
}

static int collectives(struct fid_domain *domain, enum fi_collective_op op, struct fi_collective_attr *attr, uint64_t flags)
{
	return -FI_EOPNOTSUPP;
}

static int endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, uint64_t flags, void *context)
{
#ifdef FI_XPU
	if (flags == FI_XPU)
		return -FI_ENOSYS;
#endif
	return flags ? -FI_EBADFLAGS : carry_endpoint(domain, info, ep, context);
}

static int av_set(struct fid_av *av, struct fi_av_set_attr *attr, struct fid_av_set **set, void *context)
{
	return attr && set ? -FI_ENOSYS : -FI_EINVAL;
}

static int insert_key(struct fid_av *av, const void *key, size_t size, fi_addr_t *addr, uint64_t flags)
{
	return -FI_EOPNOTSUPP;
}

static int lookup_key(struct fid_av *av, fi_addr_t addr, void *key, size_t *size)
{
	return -FI_EOPNOTSUPP;
}

static int user_id(struct fid_av *av, fi_addr_t addr, fi_addr_t id, uint64_t flags)
{
	return -FI_ENOSYS;
}

#ifdef FI_XPU
static int ep_export(struct fid_ep *ep, uint64_t flags, struct fid_xpu_ep *xpu_ep)
{
	return -FI_ENOSYS;
}

static int cq_export(struct fid_cq *cq, uint64_t flags, struct fid_xpu_cq *xpu_cq)
{
	return -FI_ENOSYS;
}

static int cntr_export(struct fid_cntr *cntr, uint64_t flags, struct fid_xpu_cntr *xpu_cntr)
{
	return -FI_ENOSYS;
}

static int xpu_ctx(struct fid_domain *domain, struct fi_xpu_attr *attr, struct fid_xpu_ctx **ctx, void *context)
{
	return -FI_ENOSYS;
}

static int lookup2(struct fid_av *av, fi_addr_t addr, void *buf, size_t *len, uint64_t flags, struct fid_xpu_ctx *ctx)
{
	return -FI_ENOSYS;
}
#endif

struct fi_ops_ep carry_no_ep = {
	.size = sizeof(struct fi_ops_ep), .cancel = cancel, .getopt = getopt_, .setopt = setopt, .tx_ctx = tx_ctx,
	.rx_ctx = rx_ctx, .rx_size_left = size_left, .tx_size_left = size_left,
#ifdef FI_XPU
	.export_xpu = ep_export,
#endif
};
struct fi_ops_cq carry_no_cq = {
	.size = sizeof(struct fi_ops_cq),
#ifdef FI_XPU
	.export_xpu = cq_export,
#endif
};
struct fi_ops_cntr carry_no_cntr = {
	.size = sizeof(struct fi_ops_cntr),
#ifdef FI_XPU
	.export_xpu = cntr_export,
#endif
};

// Optional slots only: domain.c, provider.c and av.c fill the others.
struct fi_ops_domain carry_no_domain = {
	.size = sizeof(struct fi_ops_domain), .scalable_ep = scalable, .poll_open = poll_open, .stx_ctx = stx,
	.query_atomic = atomics, .query_collective = collectives, .endpoint2 = endpoint2,
#ifdef FI_XPU
	.xpu_ctx = xpu_ctx,
#endif
};
struct fi_ops_fabric carry_no_fabric = {.size = sizeof(struct fi_ops_fabric), .wait_open = wait_open, .domain2 = domain2};
struct fi_ops_av carry_no_av = {
	.size = sizeof(struct fi_ops_av), .av_set = av_set, .insert_auth_key = insert_key, .lookup_auth_key = lookup_key,
	.set_user_id = user_id,
#ifdef FI_XPU
	.lookup2 = lookup2,
#endif
};

#define NO_SSIZE(NAME, ...)                                                                                            \
	static ssize_t NAME(__VA_ARGS__)                                                                                \
	{                                                                                                               \
		return -FI_ENOSYS;                                                                                     \
	}
#define NO_INT(NAME, ...)                                                                                              \
	static int NAME(__VA_ARGS__)                                                                                    \
	{                                                                                                               \
		return -FI_ENOSYS;                                                                                     \
	}

NO_SSIZE(trecv, struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t tag, uint64_t ignore, void *c)
NO_SSIZE(trecvv, struct fid_ep *ep, const struct iovec *iov, void **desc, size_t n, fi_addr_t src, uint64_t tag, uint64_t ig,
	 void *c)
NO_SSIZE(tmsg, struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
NO_SSIZE(tsend, struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest, uint64_t tag, void *c)
NO_SSIZE(tsendv, struct fid_ep *ep, const struct iovec *iov, void **desc, size_t n, fi_addr_t dest, uint64_t tag, void *c)
NO_SSIZE(tinject, struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest, uint64_t tag)
NO_SSIZE(tsenddata, struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest, uint64_t tag,
	 void *c)
NO_SSIZE(tinjectdata, struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t tag)

struct fi_ops_tagged carry_no_tagged = {
	.size = sizeof(struct fi_ops_tagged), .recv = trecv, .recvv = trecvv, .recvmsg = tmsg, .send = tsend, .sendv = tsendv,
	.sendmsg = tmsg, .inject = tinject, .senddata = tsenddata, .injectdata = tinjectdata,
};

NO_SSIZE(mrecv, struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, void *c)
NO_SSIZE(mrecvv, struct fid_ep *ep, const struct iovec *iov, void **desc, size_t n, fi_addr_t src, void *c)
NO_SSIZE(mmsg, struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
NO_SSIZE(msend, struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest, void *c)
NO_SSIZE(minject, struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest)
NO_SSIZE(msenddata, struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest, void *c)
NO_SSIZE(minjectdata, struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest)

struct fi_ops_msg carry_no_msg = {
	.size = sizeof(struct fi_ops_msg), .recv = mrecv, .recvv = mrecvv, .recvmsg = mmsg, .send = msend, .sendv = mrecvv,
	.sendmsg = mmsg, .inject = minject, .senddata = msenddata, .injectdata = minjectdata,
};

#define TARGET fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op
NO_SSIZE(awrite, struct fid_ep *ep, const void *buf, size_t n, void *desc, TARGET, void *c)
NO_SSIZE(awritev, struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t n, TARGET, void *c)
NO_SSIZE(awritemsg, struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
NO_SSIZE(ainject, struct fid_ep *ep, const void *buf, size_t n, TARGET)
NO_SSIZE(afetch, struct fid_ep *ep, const void *buf, size_t n, void *desc, void *res, void *rdesc, TARGET, void *c)
NO_SSIZE(afetchv, struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t n, struct fi_ioc *res, void **rdesc,
	 size_t rn, TARGET, void *c)
NO_SSIZE(afetchmsg, struct fid_ep *ep, const struct fi_msg_atomic *msg, struct fi_ioc *res, void **rdesc, size_t rn,
	 uint64_t flags)
NO_SSIZE(acomp, struct fid_ep *ep, const void *buf, size_t n, void *desc, const void *cmp, void *cdesc, void *res,
	 void *rdesc, TARGET, void *c)
NO_SSIZE(acompv, struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t n, const struct fi_ioc *cmp, void **cdesc,
	 size_t cn, struct fi_ioc *res, void **rdesc, size_t rn, TARGET, void *c)
NO_SSIZE(acompmsg, struct fid_ep *ep, const struct fi_msg_atomic *msg, const struct fi_ioc *cmp, void **cdesc, size_t cn,
	 struct fi_ioc *res, void **rdesc, size_t rn, uint64_t flags)
static int avalid(struct fid_ep *ep, enum fi_datatype type, enum fi_op op, size_t *count)
{
	return -FI_ENOSYS;
}

struct fi_ops_atomic carry_no_atomic = {
	.size = sizeof(struct fi_ops_atomic), .write = awrite, .writev = awritev, .writemsg = awritemsg, .inject = ainject,
	.readwrite = afetch, .readwritev = afetchv, .readwritemsg = afetchmsg, .compwrite = acomp, .compwritev = acompv,
	.compwritemsg = acompmsg, .writevalid = avalid, .readwritevalid = avalid, .compwritevalid = avalid,
};

#define COLL fi_addr_t coll, enum fi_datatype type
NO_SSIZE(barrier, struct fid_ep *ep, fi_addr_t coll, void *c)
NO_SSIZE(barrier2, struct fid_ep *ep, fi_addr_t coll, uint64_t flags, void *c)
NO_SSIZE(broadcast, struct fid_ep *ep, void *buf, size_t n, void *desc, fi_addr_t coll, fi_addr_t root, enum fi_datatype type,
	 uint64_t flags, void *c)
NO_SSIZE(alltoall, struct fid_ep *ep, const void *buf, size_t n, void *desc, void *res, void *rdesc, COLL, uint64_t flags,
	 void *c)
NO_SSIZE(allreduce, struct fid_ep *ep, const void *buf, size_t n, void *desc, void *res, void *rdesc, COLL, enum fi_op op,
	 uint64_t flags, void *c)
NO_SSIZE(reduce, struct fid_ep *ep, const void *buf, size_t n, void *desc, void *res, void *rdesc, fi_addr_t coll,
	 fi_addr_t root, enum fi_datatype type, enum fi_op op, uint64_t flags, void *c)
NO_SSIZE(scatter, struct fid_ep *ep, const void *buf, size_t n, void *desc, void *res, void *rdesc, fi_addr_t coll,
	 fi_addr_t root, enum fi_datatype type, uint64_t flags, void *c)
NO_SSIZE(collmsg, struct fid_ep *ep, const struct fi_msg_collective *msg, struct fi_ioc *res, void **rdesc, size_t rn,
	 uint64_t flags)

struct fi_ops_collective carry_no_collective = {
	.size = sizeof(struct fi_ops_collective), .barrier = barrier, .broadcast = broadcast, .alltoall = alltoall,
	.allreduce = allreduce, .allgather = alltoall, .reduce_scatter = allreduce, .reduce = reduce, .scatter = scatter,
	.gather = scatter, .msg = collmsg, .barrier2 = barrier2,
};

#define REMOTE fi_addr_t peer, uint64_t addr, uint64_t key
NO_SSIZE(read_, struct fid_ep *ep, void *buf, size_t len, void *desc, REMOTE, void *c)
NO_SSIZE(rwv, struct fid_ep *ep, const struct iovec *iov, void **desc, size_t n, REMOTE, void *c)
NO_SSIZE(rmsg, struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
NO_SSIZE(write_, struct fid_ep *ep, const void *buf, size_t len, void *desc, REMOTE, void *c)
NO_SSIZE(rinject, struct fid_ep *ep, const void *buf, size_t len, REMOTE)
NO_SSIZE(rdata, struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, REMOTE, void *c)
NO_SSIZE(rinjectdata, struct fid_ep *ep, const void *buf, size_t len, uint64_t data, REMOTE)

struct fi_ops_rma carry_no_rma = {
	.size = sizeof(struct fi_ops_rma), .read = read_, .readv = rwv, .readmsg = rmsg, .write = write_, .writev = rwv,
	.writemsg = rmsg, .inject = rinject, .writedata = rdata, .injectdata = rinjectdata,
};

NO_INT(setname, fid_t fid, void *addr, size_t len)
NO_INT(getname, fid_t fid, void *addr, size_t *len)
NO_INT(getpeer, struct fid_ep *ep, void *addr, size_t *len)
NO_INT(connect_, struct fid_ep *ep, const void *addr, const void *param, size_t len)
NO_INT(listen_, struct fid_pep *pep)
NO_INT(accept_, struct fid_ep *ep, const void *param, size_t len)
NO_INT(reject, struct fid_pep *pep, fid_t handle, const void *param, size_t len)
NO_INT(shutdown_, struct fid_ep *ep, uint64_t flags)
NO_INT(join, struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context)

struct fi_ops_cm carry_no_cm = {
	.size = sizeof(struct fi_ops_cm), .setname = setname, .getname = getname, .getpeer = getpeer, .connect = connect_,
	.listen = listen_, .accept = accept_, .reject = reject, .shutdown = shutdown_, .join = join,
};
