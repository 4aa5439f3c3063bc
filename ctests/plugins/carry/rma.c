// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Reads and writes: unpacks all forms of calls. fi_rma(3)

#include "carry.h"

static ssize_t access_one(struct fid_ep *ep, struct carry_call *call, uint64_t addr, uint64_t key)
{
	struct fi_rma_iov rma = {.addr = addr, .key = key};

	if (call->count > CARRY_IOV || (call->count && !call->iov))
		return -FI_EINVAL;
	for (size_t i = 0; i < call->count; i++) {
		if (call->iov[i].iov_len > SIZE_MAX - rma.len)
			return -FI_EINVAL;
		rma.len += call->iov[i].iov_len;
	}
	call->rma = &rma;
	call->rma_count = 1;
	return carry_post(ep, call, true);
}

static ssize_t access_msg(struct fid_ep *ep, uint8_t kind, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct carry_call call = {.kind = kind, .flags = flags};

	if (!msg)
		return -FI_EINVAL;
	call.iov = msg->msg_iov;
	call.desc = msg->desc;
	call.count = msg->iov_count;
	call.context = msg->context;
	call.data = msg->data;
	call.rma = msg->rma_iov;
	call.rma_count = msg->rma_iov_count;
	return carry_post(ep, &call, false);
}

static ssize_t rma_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src, uint64_t addr, uint64_t key,
			void *context)
{
	struct iovec iov = {buf, len};
	struct carry_call call = {.kind = FRAME_READ, .iov = &iov, .desc = &desc, .count = 1, .context = context};

	(void) src;
	return access_one(ep, &call, addr, key);
}

static ssize_t rma_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src, uint64_t addr,
			 uint64_t key, void *context)
{
	struct carry_call call = {.kind = FRAME_READ, .iov = iov, .desc = desc, .count = count, .context = context};

	(void) src;
	return access_one(ep, &call, addr, key);
}

static ssize_t rma_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	return access_msg(ep, FRAME_READ, msg, flags);
}

static ssize_t rma_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest, uint64_t addr,
			 uint64_t key, void *context)
{
	struct iovec iov = {(void *) buf, len};
	struct carry_call call = {.kind = FRAME_WRITE, .iov = &iov, .desc = &desc, .count = 1, .context = context};

	(void) dest;
	return access_one(ep, &call, addr, key);
}

static ssize_t rma_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest,
			  uint64_t addr, uint64_t key, void *context)
{
	struct carry_call call = {.kind = FRAME_WRITE, .iov = iov, .desc = desc, .count = count, .context = context};

	(void) dest;
	return access_one(ep, &call, addr, key);
}

static ssize_t rma_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	return access_msg(ep, FRAME_WRITE, msg, flags);
}

static ssize_t rma_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest, uint64_t addr, uint64_t key)
{
	struct iovec iov = {(void *) buf, len};
	struct carry_call call = {.kind = FRAME_WRITE, .iov = &iov, .count = 1, .flags = FI_INJECT, .silent = true};

	(void) dest;
	return access_one(ep, &call, addr, key);
}

static ssize_t rma_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data, fi_addr_t dest,
			     uint64_t addr, uint64_t key, void *context)
{
	struct iovec iov = {(void *) buf, len};
	struct carry_call call = {.kind = FRAME_WRITE, .iov = &iov, .desc = &desc, .count = 1, .context = context, .data = data,
				  .flags = FI_REMOTE_CQ_DATA};

	(void) dest;
	return access_one(ep, &call, addr, key);
}

static ssize_t rma_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t addr,
			      uint64_t key)
{
	struct iovec iov = {(void *) buf, len};
	struct carry_call call = {.kind = FRAME_WRITE, .iov = &iov, .count = 1, .data = data,
				  .flags = FI_INJECT | FI_REMOTE_CQ_DATA, .silent = true};

	(void) dest;
	return access_one(ep, &call, addr, key);
}

struct fi_ops_rma carry_rma_ops = {
	.size = sizeof(struct fi_ops_rma), .read = rma_read, .readv = rma_readv, .readmsg = rma_readmsg, .write = rma_write,
	.writev = rma_writev, .writemsg = rma_writemsg, .inject = rma_inject, .writedata = rma_writedata,
	.injectdata = rma_injectdata,
};
