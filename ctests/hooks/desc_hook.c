// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// A hook as a plug-in that stands for a provider which needs descriptors of device memory. It registers memory of
// FI_HMEM_CUDA itself, prints the descriptors that operations pass, and forwards the operations without them. It
// replaces tables of the objects and wraps none. A region is printed as its number in the order of registration, and as
// "?" if the descriptor is not one of this hook's or does not cover the buffer.
//   REFUSES      registers nothing
//   SHORT_KEYS   keys have 32 bits

#include <stdio.h>
#include <stdlib.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

enum { REGIONS = 1024 };

static struct region {
	struct fid_mr mr;
	char *base;
	size_t len;
	int open;
} regions[REGIONS];
static int registered;

// `*_inside` are the tables of the objects inside; `*_ours` are copies with functions of this hook.
static struct fi_ops_fabric fabric_inside, fabric_ours;
static struct fi_ops_domain domain_inside, domain_ours;
static struct fi_ops_mr mr_inside, mr_ours;
static struct fi_ops domain_fid_inside, domain_fid_ours, ep_fid_inside, ep_fid_ours;
static struct fi_ops_msg msg_inside, msg_ours;
static struct fi_ops_tagged tagged_inside, tagged_ours;
static struct fi_ops_rma rma_inside, rma_ours;
static struct fi_ops_atomic atomic_inside, atomic_ours;

#define TAKE_OVER(OBJECT, TABLE, NAME, ...) \
	do { \
		if ((OBJECT)->TABLE != &NAME##_ours) \
			NAME##_inside = NAME##_ours = *(OBJECT)->TABLE; \
		__VA_ARGS__; \
		(OBJECT)->TABLE = &NAME##_ours; \
	} while (0)

static void say(const struct iovec *iov, void **desc, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct region *region = desc ? desc[i] : NULL;

		if (!region)
			fprintf(stderr, " -");
		else if (region < regions || region >= regions + registered || !region->open ||
			 (char *) iov[i].iov_base < region->base ||
			 (char *) iov[i].iov_base + iov[i].iov_len > region->base + region->len)
			fprintf(stderr, " ?");
		else
			fprintf(stderr, " %d", (int) (region - regions));
	}
}

static void saw(const char *call, const struct iovec *iov, void **desc, size_t count)
{
	fprintf(stderr, "desc: %s", call);
	say(iov, desc, count);
	fprintf(stderr, "\n");
}

static void saw_one(const char *call, const void *buf, size_t len, void *desc)
{
	saw(call, &(struct iovec) {(void *) buf, len}, &desc, 1);
}

// fi_ioc has the same layout as iovec, and the elements here are bytes.
static void saw_atomic(const char *call, const struct fi_ioc *iov, void **desc, size_t count, const struct fi_ioc *compare,
		       void **compare_desc, size_t compares, struct fi_ioc *result, void **result_desc, size_t results)
{
	fprintf(stderr, "desc: %s", call);
	say((const struct iovec *) iov, desc, count);
	say((const struct iovec *) compare, compare_desc, compares);
	say((const struct iovec *) result, result_desc, results);
	fprintf(stderr, "\n");
}

#define IOC(BUF, COUNT) &(struct fi_ioc) {(void *) (BUF), COUNT}

// ---- fi_msg(3)

static ssize_t msg_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, void *context)
{
	saw_one("recv", buf, len, desc);
	return msg_inside.recv(ep, buf, len, NULL, src, context);
}

static ssize_t msg_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, void *context)
{
	saw("recvv", iov, desc, count);
	return msg_inside.recvv(ep, iov, NULL, count, src, context);
}

static ssize_t msg_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	struct fi_msg bare = *msg;

	bare.desc = NULL;
	saw("recvmsg", msg->msg_iov, msg->desc, msg->iov_count);
	return msg_inside.recvmsg(ep, &bare, flags);
}

static ssize_t msg_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest, void *context)
{
	saw_one("send", buf, len, desc);
	return msg_inside.send(ep, buf, len, NULL, dest, context);
}

static ssize_t msg_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest, void *context)
{
	saw("sendv", iov, desc, count);
	return msg_inside.sendv(ep, iov, NULL, count, dest, context);
}

static ssize_t msg_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
	struct fi_msg bare = *msg;

	bare.desc = NULL;
	saw("sendmsg", msg->msg_iov, msg->desc, msg->iov_count);
	return msg_inside.sendmsg(ep, &bare, flags);
}

static ssize_t msg_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest,
			    void *context)
{
	saw_one("senddata", buf, len, desc);
	return msg_inside.senddata(ep, buf, len, NULL, data, dest, context);
}

// ---- fi_tagged(3)

static ssize_t tagged_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t tag, uint64_t ignore,
			   void *context)
{
	saw_one("trecv", buf, len, desc);
	return tagged_inside.recv(ep, buf, len, NULL, src, tag, ignore, context);
}

static ssize_t tagged_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, uint64_t tag,
			    uint64_t ignore, void *context)
{
	saw("trecvv", iov, desc, count);
	return tagged_inside.recvv(ep, iov, NULL, count, src, tag, ignore, context);
}

static ssize_t tagged_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct fi_msg_tagged bare = *msg;

	bare.desc = NULL;
	saw("trecvmsg", msg->msg_iov, msg->desc, msg->iov_count);
	return tagged_inside.recvmsg(ep, &bare, flags);
}

static ssize_t tagged_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest, uint64_t tag,
			   void *context)
{
	saw_one("tsend", buf, len, desc);
	return tagged_inside.send(ep, buf, len, NULL, dest, tag, context);
}

static ssize_t tagged_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest,
			    uint64_t tag, void *context)
{
	saw("tsendv", iov, desc, count);
	return tagged_inside.sendv(ep, iov, NULL, count, dest, tag, context);
}

static ssize_t tagged_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct fi_msg_tagged bare = *msg;

	bare.desc = NULL;
	saw("tsendmsg", msg->msg_iov, msg->desc, msg->iov_count);
	return tagged_inside.sendmsg(ep, &bare, flags);
}

static ssize_t tagged_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest,
			       uint64_t tag, void *context)
{
	saw_one("tsenddata", buf, len, desc);
	return tagged_inside.senddata(ep, buf, len, NULL, data, dest, tag, context);
}

// ---- fi_rma(3)

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t addr, uint64_t key,
			void *context)
{
	saw_one("read", buf, len, desc);
	return rma_inside.read(ep, buf, len, NULL, src, addr, key, context);
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, uint64_t addr,
			 uint64_t key, void *context)
{
	saw("readv", iov, desc, count);
	return rma_inside.readv(ep, iov, NULL, count, src, addr, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct fi_msg_rma bare = *msg;

	bare.desc = NULL;
	saw("readmsg", msg->msg_iov, msg->desc, msg->iov_count);
	return rma_inside.readmsg(ep, &bare, flags);
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest, uint64_t addr,
			 uint64_t key, void *context)
{
	saw_one("write", buf, len, desc);
	return rma_inside.write(ep, buf, len, NULL, dest, addr, key, context);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest, uint64_t addr,
			  uint64_t key, void *context)
{
	saw("writev", iov, desc, count);
	return rma_inside.writev(ep, iov, NULL, count, dest, addr, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct fi_msg_rma bare = *msg;

	bare.desc = NULL;
	saw("writemsg", msg->msg_iov, msg->desc, msg->iov_count);
	return rma_inside.writemsg(ep, &bare, flags);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest,
			     uint64_t addr, uint64_t key, void *context)
{
	saw_one("writedata", buf, len, desc);
	return rma_inside.writedata(ep, buf, len, NULL, data, dest, addr, key, context);
}

// ---- fi_atomic(3)

static ssize_t atomic_write(struct fid_ep *ep, const void *buf, size_t count, void *desc, fi_addr_t dest, uint64_t addr,
			    uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
	saw_atomic("atomic", IOC(buf, count), &desc, 1, NULL, NULL, 0, NULL, NULL, 0);
	return atomic_inside.write(ep, buf, count, NULL, dest, addr, key, type, op, context);
}

static ssize_t atomic_writemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
	struct fi_msg_atomic bare = *msg;

	bare.desc = NULL;
	saw_atomic("atomicmsg", msg->msg_iov, msg->desc, msg->iov_count, NULL, NULL, 0, NULL, NULL, 0);
	return atomic_inside.writemsg(ep, &bare, flags);
}

static ssize_t atomic_readwrite(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result, void *result_desc,
				fi_addr_t dest, uint64_t addr, uint64_t key, enum fi_datatype type, enum fi_op op, void *context)
{
	saw_atomic("fetch", IOC(buf, count), &desc, 1, NULL, NULL, 0, IOC(result, count), &result_desc, 1);
	return atomic_inside.readwrite(ep, buf, count, NULL, result, NULL, dest, addr, key, type, op, context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, struct fi_ioc *resultv,
				   void **result_desc, size_t results, uint64_t flags)
{
	struct fi_msg_atomic bare = *msg;

	bare.desc = NULL;
	saw_atomic("fetchmsg", msg->msg_iov, msg->desc, msg->iov_count, NULL, NULL, 0, resultv, result_desc, results);
	return atomic_inside.readwritemsg(ep, &bare, resultv, NULL, results, flags);
}

static ssize_t atomic_compwritev(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
				 const struct fi_ioc *comparev, void **compare_desc, size_t compares, struct fi_ioc *resultv,
				 void **result_desc, size_t results, fi_addr_t dest, uint64_t addr, uint64_t key,
				 enum fi_datatype type, enum fi_op op, void *context)
{
	saw_atomic("comparev", iov, desc, count, comparev, compare_desc, compares, resultv, result_desc, results);
	return atomic_inside.compwritev(ep, iov, NULL, count, comparev, NULL, compares, resultv, NULL, results, dest, addr, key,
					type, op, context);
}

// ---- Regions

static int close_region(struct fid *fid)
{
	struct region *region = (struct region *) fid;

	fprintf(stderr, "desc: region %d closed\n", (int) (region - regions));
	region->open = 0;
	return 0;
}

static struct fi_ops region_ops = {.size = sizeof(region_ops), .close = close_region};

static int regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **mr)
{
	struct region *region = &regions[registered];

	if (attr->iface != FI_HMEM_CUDA)
		return mr_inside.regattr(fid, attr, flags, mr);
#ifdef SHORT_KEYS
	if (attr->requested_key > UINT32_MAX)
		return -FI_EKEYREJECTED;
#endif
	for (int i = 0; i < registered; i++) {
		if (regions[i].open && regions[i].mr.key == attr->requested_key)
			return -FI_ENOKEY;
	}
#ifdef REFUSES
	(void) region, (void) mr, (void) region_ops;
	fprintf(stderr, "desc: refused\n");
	return -FI_ENOMEM;
#else
	if (registered == REGIONS)
		return -FI_ENOMEM;
	*region = (struct region) {.base = attr->mr_iov->iov_base, .len = attr->mr_iov->iov_len, .open = 1};
	region->mr.fid.fclass = FI_CLASS_MR;
	region->mr.fid.context = attr->context;
	region->mr.fid.ops = &region_ops;
	region->mr.mem_desc = region;
	region->mr.key = attr->requested_key;
	fprintf(stderr, "desc: region %d iface %d device %d pieces %zu len %zu access %llx flags %llx\n", registered,
		(int) attr->iface, attr->device.cuda, attr->iov_count, region->len, (unsigned long long) attr->access,
		(unsigned long long) flags);
	registered++;
	*mr = &region->mr;
	return 0;
#endif
}

// ---- Objects

static int close_domain(struct fid *fid)
{
	for (int i = 0; i < registered; i++) {
		if (regions[i].open) {
			fprintf(stderr, "desc: domain is busy\n");
			return -FI_EBUSY;
		}
	}
	fprintf(stderr, "desc: domain closed\n");
	return domain_fid_inside.close(fid);
}

static void take_over_ep(struct fid_ep *ep);

static int control_ep(struct fid *fid, int command, void *arg)
{
	int ret = ep_fid_inside.control(fid, command, arg);

	if (!ret && command == FI_ALIAS)
		take_over_ep((struct fid_ep *) *((struct fi_alias *) arg)->fid);
	return ret;
}

static void take_over_ep(struct fid_ep *ep)
{
	TAKE_OVER(&ep->fid, ops, ep_fid, ep_fid_ours.control = control_ep);
	TAKE_OVER(ep, msg, msg, msg_ours.recv = msg_recv, msg_ours.recvv = msg_recvv, msg_ours.recvmsg = msg_recvmsg,
		  msg_ours.send = msg_send, msg_ours.sendv = msg_sendv, msg_ours.sendmsg = msg_sendmsg,
		  msg_ours.senddata = msg_senddata);
	TAKE_OVER(ep, tagged, tagged, tagged_ours.recv = tagged_recv, tagged_ours.recvv = tagged_recvv,
		  tagged_ours.recvmsg = tagged_recvmsg, tagged_ours.send = tagged_send, tagged_ours.sendv = tagged_sendv,
		  tagged_ours.sendmsg = tagged_sendmsg, tagged_ours.senddata = tagged_senddata);
	TAKE_OVER(ep, rma, rma, rma_ours.read = rma_read, rma_ours.readv = rma_readv, rma_ours.readmsg = rma_readmsg,
		  rma_ours.write = rma_write, rma_ours.writev = rma_writev, rma_ours.writemsg = rma_writemsg,
		  rma_ours.writedata = rma_writedata);
	TAKE_OVER(ep, atomic, atomic, atomic_ours.write = atomic_write, atomic_ours.writemsg = atomic_writemsg,
		  atomic_ours.readwrite = atomic_readwrite, atomic_ours.readwritemsg = atomic_readwritemsg,
		  atomic_ours.compwritev = atomic_compwritev);
}

static int open_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
	int ret = domain_inside.endpoint(domain, info, ep, context);

	if (!ret)
		take_over_ep(*ep);
	return ret;
}

static int open_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context)
{
	int ret = fabric_inside.domain(fabric, info, domain, context);

	if (!ret) {
		TAKE_OVER(&(*domain)->fid, ops, domain_fid, domain_fid_ours.close = close_domain);
		TAKE_OVER(*domain, ops, domain, domain_ours.endpoint = open_ep);
		TAKE_OVER(*domain, mr, mr, mr_ours.regattr = regattr);
	}
	return ret;
}

static int take_over(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	(void) context;
	TAKE_OVER(attr->fabric, ops, fabric, fabric_ours.domain = open_domain);
	*fabric = attr->fabric;
	return 0;
}

static struct fi_provider provider = {
	.name = "desc", .version = FI_VERSION(1, 0), .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), .fabric = take_over,
};

FI_EXT_INI
{
	return &provider;
}
