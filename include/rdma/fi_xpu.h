/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Devices that start transfers by themselves, fi_xpu(3). No provider of this library serves a device.
 *
 * Written by build.rs from src/abi/fi_xpu.rs and src/abi/fi_xpu.h.in; change those.
 */

#ifndef FI_XPU_H
#define FI_XPU_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_ops_xpu_ctx;
struct fi_xpu_attr;
struct fi_xpu_ctx_attr;
struct fi_xpu_ops;
struct fid_xpu;
struct fid_xpu_cntr;
struct fid_xpu_cq;
struct fid_xpu_ctx;
struct fid_xpu_ep;

/** For fi_xpu_ops.alloc: the memory is exported as a dma-buf, too. */
#define FI_XPU_ALLOC_DMABUF 1ull

/** For fi_xpu_ops.import: the address belongs to a device (BAR). */
#define FI_XPU_IMPORT_IOMEMORY 1ull

/** For fi_xpu_ops.import: programs of the device can use the result. */
#define FI_XPU_IMPORT_DEVICEMAP 2ull

/** Objects that the device can have: fi_xpu_ctx_attr.caps. */
#define FI_XPU_CAP_EP 1ull
#define FI_XPU_CAP_CQ 2ull
#define FI_XPU_CAP_CNTR 4ull

/** Groups of device threads that make a call together. */
#define FI_XPU_WORK_ITEM 0
#define FI_XPU_SUBGROUP 1
#define FI_XPU_WORK_GROUP 2
#define FI_XPU_DEVICE 3

/** The provider whose code serves an exported object on the device. */
enum fi_xpu_provider {
    FI_XPU_PROV_EFA = 1,
};

/** Functions of the application that manage the memory of a device. fi_xpu(3) */
struct fi_xpu_ops {
    /** Bytes of this struct. */
    size_t size;
    int (*alloc)(uint64_t device,
                 uint64_t size,
                 uint64_t alignment,
                 uint64_t flags,
                 void **addr,
                 int *fd,
                 uint64_t *offset);
    int (*import)(uint64_t device, void *host_addr, uint64_t size, uint64_t flags, void **dev_addr);
    void (*free)(uint64_t device, void *addr);
};

/** A device. fi_xpu(3) */
struct fi_xpu_attr {
    enum fi_hmem_iface iface;
    /** Its number. */
    uint64_t device;
    /** NULL: the provider uses its own functions. */
    struct fi_xpu_ops *ops;
};

/** Attributes of the context of a device. fi_xpu(3) */
struct fi_xpu_ctx_attr {
    /** FI_XPU_CAP_* bits. */
    uint64_t caps;
    /** Bytes that fi_av_lookup2 writes. */
    size_t av_addr_size;
    /** Bytes that fi_mr_get_xpu_desc writes. */
    size_t mr_desc_size;
};

/** The context of a device. fi_xpu(3) */
struct fid_xpu_ctx {
    struct fid fid;
    struct fi_ops_xpu_ctx *ops;
};

/** Operations of a device's context. fi_xpu(3) */
struct fi_ops_xpu_ctx {
    size_t size;
    int (*query)(struct fid_xpu_ctx *ctx, struct fi_xpu_ctx_attr *attr);
};

/** An exported object on the device; it has no `struct fid`. fi_xpu(3) */
struct fid_xpu {
    /** FI_CLASS_EP, FI_CLASS_CQ or FI_CLASS_CNTR. */
    uint32_t fclass;
    /** FI_XPU_PROV_*. */
    uint32_t prov_id;
    /** Private to the provider. */
    uint64_t prov_ctx;
};

/** An endpoint on a device. fi_endpoint(3) */
struct fid_xpu_ep {
    struct fid_xpu fid;
};

/** A completion queue on a device. fi_cq(3) */
struct fid_xpu_cq {
    struct fid_xpu fid;
};

/** A counter on a device. fi_cntr(3) */
struct fid_xpu_cntr {
    struct fid_xpu fid;
};

/* Opens the context of a device. -FI_ENOSYS: the domain does not support devices. fi_xpu(3) */
static inline int
fi_xpu_ctx(struct fid_domain *domain, struct fi_xpu_attr *attr, struct fid_xpu_ctx **ctx,
           void *context)
{
    if (!FI_CHECK_OP(domain->ops, struct fi_ops_domain, xpu_ctx))
        return -FI_ENOSYS;
    return domain->ops->xpu_ctx(domain, attr, ctx, context);
}

/* The context of a device. fi_xpu(3) */
static inline int fi_xpu_ctx_query(struct fid_xpu_ctx *ctx, struct fi_xpu_ctx_attr *attr)
{
    if (!FI_CHECK_OP(ctx->ops, struct fi_ops_xpu_ctx, query))
        return -FI_ENOSYS;
    return ctx->ops->query(ctx, attr);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_XPU_H */
