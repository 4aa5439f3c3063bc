/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Domains, fi_domain(3); address vectors, fi_av(3); memory regions, fi_mr(3).
 *
 * Written by build.rs from src/abi/fi_domain.rs and src/abi/fi_domain.h.in; change those.
 */

#ifndef FI_DOMAIN_H
#define FI_DOMAIN_H

#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Name for fi_set_ops of the table fi_hmem_override_ops, which copies to and from devices. fi_domain(3) */
#define FI_SET_OPS_HMEM_OVERRIDE "hmem_override_ops"

struct fi_atomic_attr;
struct fi_av_attr;
struct fi_av_set_attr;
struct fi_cntr_attr;
struct fi_collective_attr;
struct fi_cq_attr;
struct fi_hmem_override_ops;
struct fi_info;
struct fi_mr_attr;
struct fi_mr_auth_key;
struct fi_mr_dmabuf;
struct fi_mr_modify;
struct fi_ops_av;
struct fi_ops_domain;
struct fi_ops_mr;
struct fi_poll_attr;
struct fi_rx_attr;
struct fi_tx_attr;
struct fi_xpu_attr;
struct fid;
struct fid_av;
struct fid_av_set;
struct fid_cntr;
struct fid_cq;
struct fid_domain;
struct fid_ep;
struct fid_mr;
struct fid_poll;
struct fid_stx;
struct fid_xpu_ctx;

/** For an address vector: each machine has the same number of endpoints, in the same order. */
#define FI_SYMMETRIC (1ull << 59)

/** For fi_av_insert: `context` is an array of int, one error for each address. */
#define FI_SYNC_ERR (1ull << 58)

/** For an address set: all addresses of the vector. */
#define FI_UNIVERSE (1ull << 57)

/** For an address set: the collectives that use it. */
#define FI_BARRIER_SET (1ull << 40)
#define FI_BROADCAST_SET (1ull << 41)
#define FI_ALLTOALL_SET (1ull << 42)
#define FI_ALLREDUCE_SET (1ull << 43)
#define FI_ALLGATHER_SET (1ull << 44)
#define FI_REDUCE_SCATTER_SET (1ull << 45)
#define FI_REDUCE_SET (1ull << 46)
#define FI_SCATTER_SET (1ull << 47)
#define FI_GATHER_SET (1ull << 48)

/** For fi_mr_regattr: the attribute has `dmabuf`, not `mr_iov`. */
#define FI_MR_DMABUF (1ull << 40)

/** For a region: the key is invalid after one access. */
#define FI_MR_SINGLE_USE (1ull << 41)

/** For a region: memory of the host, allocated by the functions of a device. */
#define FI_HMEM_HOST_ALLOC (1ull << 45)

/** For a region: memory that only the device reads and writes. */
#define FI_HMEM_DEVICE_ONLY (1ull << 46)

/** Values of FI_VOID and FI_NOOP. */
#define FI_COLLECTIVE_OFFSET 256

/** Deprecated. For fi_domain_bind: regions are registered asynchronously. */
#define FI_REG_MR (1ull << 59)

/** The interface that manages a piece of memory. fi_mr(3) */
enum fi_hmem_iface {
    /** Host memory. */
    FI_HMEM_SYSTEM = 0,
    /** NVIDIA CUDA. */
    FI_HMEM_CUDA = 1,
    /** AMD ROCm. */
    FI_HMEM_ROCR = 2,
    /** Intel Level Zero. */
    FI_HMEM_ZE = 3,
    /** AWS Neuron. */
    FI_HMEM_NEURON = 4,
    /** Habana SynapseAI. */
    FI_HMEM_SYNAPSEAI = 5,
};

/** Types of elements. fi_atomic(3) */
enum fi_datatype {
    FI_INT8 = 0,
    FI_UINT8 = 1,
    FI_INT16 = 2,
    FI_UINT16 = 3,
    FI_INT32 = 4,
    FI_UINT32 = 5,
    FI_INT64 = 6,
    FI_UINT64 = 7,
    FI_FLOAT = 8,
    FI_DOUBLE = 9,
    FI_FLOAT_COMPLEX = 10,
    FI_DOUBLE_COMPLEX = 11,
    FI_LONG_DOUBLE = 12,
    FI_LONG_DOUBLE_COMPLEX = 13,
    FI_INT128 = 14,
    FI_UINT128 = 15,
    FI_FLOAT16 = 16,
    FI_BFLOAT16 = 17,
    FI_FLOAT8_E4M3 = 18,
    FI_FLOAT8_E5M2 = 19,
    /** No type: for FI_BARRIER and data that is only moved. */
    FI_VOID = 256,
};

/** Operations on two elements. fi_atomic(3) */
enum fi_op {
    FI_MIN = 0,
    FI_MAX = 1,
    FI_SUM = 2,
    FI_PROD = 3,
    /** Logical or. The prefix L means logical, B means bitwise. */
    FI_LOR = 4,
    FI_LAND = 5,
    FI_BOR = 6,
    FI_BAND = 7,
    FI_LXOR = 8,
    FI_BXOR = 9,
    FI_ATOMIC_READ = 10,
    FI_ATOMIC_WRITE = 11,
    /** Writes if compare == target; the next ones !=, <=, <, >=, >. */
    FI_CSWAP = 12,
    FI_CSWAP_NE = 13,
    FI_CSWAP_LE = 14,
    FI_CSWAP_LT = 15,
    FI_CSWAP_GE = 16,
    FI_CSWAP_GT = 17,
    /** Writes the bits that are set in compare. */
    FI_MSWAP = 18,
    /** target - source. */
    FI_DIFF = 19,
    /** Nothing: for collectives that only move data. */
    FI_NOOP = 256,
};

/** Collective operations. fi_collective(3) */
enum fi_collective_op {
    FI_BARRIER = 0,
    FI_BROADCAST = 1,
    FI_ALLTOALL = 2,
    FI_ALLREDUCE = 3,
    FI_ALLGATHER = 4,
    FI_REDUCE_SCATTER = 5,
    FI_REDUCE = 6,
    FI_SCATTER = 7,
    FI_GATHER = 8,
};

/** An address vector. fi_av(3) */
struct fi_av_attr {
    enum fi_av_type type;
    /** Upper bits of an fi_addr_t that select a receive context, see fi_rx_addr. */
    int rx_ctx_bits;
    /** How many addresses are expected; 0: unknown. */
    size_t count;
    /** How many endpoints share one network address; 0: unknown. */
    size_t ep_per_node;
    /** Name of a vector that processes share, or NULL. */
    const char *name;
    /**
     * In: processes that pass the same value share fi_addr_t values. Out, for a named vector: array of
     * its fi_addr_t values.
     */
    void *map_addr;
    /** FI_READ for a shared vector that this process only reads, FI_SYMMETRIC, FI_AV_USER_ID, FI_PEER. */
    uint64_t flags;
};

/** A set of addresses. fi_av_set(3) */
struct fi_av_set_attr {
    /** How many addresses are expected. */
    size_t count;
    /** First of a range, or FI_ADDR_NOTAVAIL for an empty set. */
    fi_addr_t start_addr;
    /** Last of the range. */
    fi_addr_t end_addr;
    /** Distance within the range, at least 1. */
    uint64_t stride;
    /** Bytes of comm_key. */
    size_t comm_key_size;
    /** A key that all members share. */
    uint8_t *comm_key;
    /** FI_UNIVERSE, FI_*_SET. */
    uint64_t flags;
};

/** An address vector. fi_av(3) */
struct fid_av {
    struct fid fid;
    struct fi_ops_av *ops;
};

/** Operations of an address vector. fi_av(3) */
struct fi_ops_av {
    size_t size;
    int (*insert)(struct fid_av *av,
                  const void *addr,
                  size_t count,
                  fi_addr_t *fi_addr,
                  uint64_t flags,
                  void *context);
    int (*insertsvc)(struct fid_av *av,
                     const char *node,
                     const char *service,
                     fi_addr_t *fi_addr,
                     uint64_t flags,
                     void *context);
    int (*insertsym)(struct fid_av *av,
                     const char *node,
                     size_t nodecnt,
                     const char *service,
                     size_t svccnt,
                     fi_addr_t *fi_addr,
                     uint64_t flags,
                     void *context);
    int (*remove)(struct fid_av *av, fi_addr_t *fi_addr, size_t count, uint64_t flags);
    int (*lookup)(struct fid_av *av, fi_addr_t fi_addr, void *addr, size_t *addrlen);
    const char *(*straddr)(struct fid_av *av, const void *addr, char *buf, size_t *len);
    int (*av_set)(struct fid_av *av,
                  struct fi_av_set_attr *attr,
                  struct fid_av_set **av_set,
                  void *context);
    int (*insert_auth_key)(struct fid_av *av,
                           const void *auth_key,
                           size_t auth_key_size,
                           fi_addr_t *fi_addr,
                           uint64_t flags);
    int (*lookup_auth_key)(struct fid_av *av,
                           fi_addr_t fi_addr,
                           void *auth_key,
                           size_t *auth_key_size);
    int (*set_user_id)(struct fid_av *av, fi_addr_t fi_addr, fi_addr_t user_id, uint64_t flags);
    int (*lookup2)(struct fid_av *av,
                   fi_addr_t fi_addr,
                   void *buf,
                   size_t *len,
                   uint64_t flags,
                   struct fid_xpu_ctx *ctx);
};

/** A memory region. fi_mr(3) */
struct fid_mr {
    struct fid fid;
    /** The `desc` argument of local operations. */
    void *mem_desc;
    /** The `key` that peers name the region by, or FI_KEY_NOTAVAIL. */
    uint64_t key;
};

/** Device memory as a dma-buf. fi_mr(3) */
struct fi_mr_dmabuf {
    /** Its file descriptor. */
    int fd;
    /** Bytes from its beginning. */
    uint64_t offset;
    /** Bytes. */
    size_t len;
    /** Its virtual address, or NULL. */
    void *base_addr;
};

/** A key for one region, with FI_AV_AUTH_KEY. fi_mr(3) */
struct fi_mr_auth_key {
    struct fid_av *av;
    fi_addr_t src_addr;
};

/**
 * A memory region. The struct grew at versions 1.5, 1.9, 1.19, 1.22 and 2.0; the library reads only
 * the members of the version that the application requested. fi_mr(3)
 */
struct fi_mr_attr {
    union {
        /** Pieces of memory. Peers address a region of several pieces as one range. */
        const struct iovec *mr_iov;
        /** With FI_MR_DMABUF. */
        const struct fi_mr_dmabuf *dmabuf;
    };
    /** Number of pieces. */
    size_t iov_count;
    /** FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE. */
    uint64_t access;
    /** 0. */
    uint64_t offset;
    /** The key; ignored with FI_MR_PROV_KEY. */
    uint64_t requested_key;
    /** Context of the region. */
    void *context;
    /** Bytes of auth_key; from version 1.5 on. */
    size_t auth_key_size;
    uint8_t *auth_key;
    /** The interface that manages the memory; from version 1.9 on. */
    enum fi_hmem_iface iface;
    /** Which device. */
    union {
        /** The number of the device, by `iface`. */
        uint64_t reserved;
        int cuda;
        /** From fi_hmem_ze_device. */
        int ze;
        int neuron;
        int synapseai;
        int rocr;
    } device;
    /** Further attributes that depend on `iface`; from version 1.19 on. */
    void *hmem_data;
    /** Size of the pages, or 0; from version 1.22 on. */
    size_t page_size;
    /** The region this one is a part of, or NULL; from version 2.0 on. */
    const struct fid_mr *base_mr;
    /** How many sub-regions of this region are expected. */
    size_t sub_mr_cnt;
};

/** Argument of FI_REFRESH. fi_mr(3) */
struct fi_mr_modify {
    uint64_t flags;
    struct fi_mr_attr attr;
};

/**
 * Functions of the application that copy device memory, for fi_set_ops with
 * FI_SET_OPS_HMEM_OVERRIDE. They return the number of bytes. fi_domain(3)
 */
struct fi_hmem_override_ops {
    size_t size;
    ssize_t (*copy_from_hmem_iov)(void *dest,
                                  size_t size,
                                  enum fi_hmem_iface iface,
                                  uint64_t device,
                                  const struct iovec *hmem_iov,
                                  size_t hmem_iov_count,
                                  uint64_t hmem_iov_offset);
    ssize_t (*copy_to_hmem_iov)(enum fi_hmem_iface iface,
                                uint64_t device,
                                const struct iovec *hmem_iov,
                                size_t hmem_iov_count,
                                uint64_t hmem_iov_offset,
                                const void *src,
                                size_t size);
};

/** Registration of memory; `fid` is the domain. fi_mr(3) */
struct fi_ops_mr {
    size_t size;
    int (*reg)(struct fid *fid,
               const void *buf,
               size_t len,
               uint64_t access,
               uint64_t offset,
               uint64_t requested_key,
               uint64_t flags,
               struct fid_mr **mr,
               void *context);
    int (*regv)(struct fid *fid,
                const struct iovec *iov,
                size_t count,
                uint64_t access,
                uint64_t offset,
                uint64_t requested_key,
                uint64_t flags,
                struct fid_mr **mr,
                void *context);
    int (*regattr)(struct fid *fid,
                   const struct fi_mr_attr *attr,
                   uint64_t flags,
                   struct fid_mr **mr);
};

/** A domain: one interface, or a set of them. fi_domain(3) */
struct fid_domain {
    struct fid fid;
    struct fi_ops_domain *ops;
    struct fi_ops_mr *mr;
};

/** Operations of a domain. fi_domain(3) */
struct fi_ops_domain {
    size_t size;
    int (*av_open)(struct fid_domain *domain,
                   struct fi_av_attr *attr,
                   struct fid_av **av,
                   void *context);
    int (*cq_open)(struct fid_domain *domain,
                   struct fi_cq_attr *attr,
                   struct fid_cq **cq,
                   void *context);
    int (*endpoint)(struct fid_domain *domain,
                    struct fi_info *info,
                    struct fid_ep **ep,
                    void *context);
    int (*scalable_ep)(struct fid_domain *domain,
                       struct fi_info *info,
                       struct fid_ep **sep,
                       void *context);
    int (*cntr_open)(struct fid_domain *domain,
                     struct fi_cntr_attr *attr,
                     struct fid_cntr **cntr,
                     void *context);
    int (*poll_open)(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **pollset);
    int (*stx_ctx)(struct fid_domain *domain,
                   struct fi_tx_attr *attr,
                   struct fid_stx **stx,
                   void *context);
    int (*srx_ctx)(struct fid_domain *domain,
                   struct fi_rx_attr *attr,
                   struct fid_ep **rx_ep,
                   void *context);
    int (*query_atomic)(struct fid_domain *domain,
                        enum fi_datatype datatype,
                        enum fi_op op,
                        struct fi_atomic_attr *attr,
                        uint64_t flags);
    int (*query_collective)(struct fid_domain *domain,
                            enum fi_collective_op coll,
                            struct fi_collective_attr *attr,
                            uint64_t flags);
    int (*endpoint2)(struct fid_domain *domain,
                     struct fi_info *info,
                     struct fid_ep **ep,
                     uint64_t flags,
                     void *context);
    int (*xpu_ctx)(struct fid_domain *domain,
                   struct fi_xpu_attr *attr,
                   struct fid_xpu_ctx **ctx,
                   void *context);
};

/* Returns the device number of a Level Zero device for fi_mr_attr.device.ze. fi_mr(3) */
static inline int fi_hmem_ze_device(int driver_index, int device_index)
{
    return driver_index << 16 | device_index;
}

/* Opens a domain: one network interface or a set of them. `flags` is 0 or FI_PEER. fi_domain(3) */
static inline int
fi_domain(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
          void *context)
{
    return fabric->ops->domain(fabric, info, domain, context);
}

static inline int
fi_domain2(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
           uint64_t flags, void *context)
{
    if (!flags)
        return fi_domain(fabric, info, domain, context);
    if (!FI_CHECK_OP(fabric->ops, struct fi_ops_fabric, domain2))
        return -FI_ENOSYS;
    return fabric->ops->domain2(fabric, info, domain, flags, context);
}

/* Binds an event queue to a domain (FI_REG_MR: for memory registration). fi_domain(3) */
static inline int fi_domain_bind(struct fid_domain *domain, struct fid *fid, uint64_t flags)
{
    return domain->fid.ops->bind(&domain->fid, fid, flags);
}

/* Completion queues and counters of a domain. fi_cq(3), fi_cntr(3) */
static inline int
fi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context)
{
    return domain->ops->cq_open(domain, attr, cq, context);
}

static inline int
fi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
             void *context)
{
    return domain->ops->cntr_open(domain, attr, cntr, context);
}

/* Wait and poll sets, deprecated. fi_poll(3) */
FI_DEPRECATED_FUNC static inline int
fi_wait_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **waitset)
{
    return fabric->ops->wait_open(fabric, attr, waitset);
}

FI_DEPRECATED_FUNC static inline int
fi_poll_open(struct fid_domain *domain, struct fi_poll_attr *attr, struct fid_poll **pollset)
{
    return domain->ops->poll_open(domain, attr, pollset);
}

/*
 * Registers memory for remote access, or for local use if FI_MR_LOCAL requires it. `acs` is the set of
 * access rights, `offset` is reserved (0), `requested_key` is the key unless FI_MR_PROV_KEY is set.
 * -FI_ENOKEY: the key is in use. fi_mr(3)
 */
static inline int
fi_mr_reg(struct fid_domain *domain, const void *buf, size_t len, uint64_t acs, uint64_t offset,
          uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
    return domain->mr->reg(&domain->fid, buf, len, acs, offset, requested_key, flags, mr, context);
}

static inline int
fi_mr_regv(struct fid_domain *domain, const struct iovec *iov, size_t count, uint64_t acs,
           uint64_t offset, uint64_t requested_key, uint64_t flags, struct fid_mr **mr,
           void *context)
{
    return domain->mr->regv(&domain->fid, iov, count, acs, offset, requested_key, flags, mr,
                            context);
}

static inline int
fi_mr_regattr(struct fid_domain *domain, const struct fi_mr_attr *attr, uint64_t flags,
              struct fid_mr **mr)
{
    return domain->mr->regattr(&domain->fid, attr, flags, mr);
}

/*
 * Return the `desc` for local calls and the `key` for peers. FI_KEY_NOTAVAIL: use fi_mr_raw_attr.
 * fi_mr(3)
 */
static inline void *fi_mr_desc(struct fid_mr *mr)
{
    return mr->mem_desc;
}

static inline uint64_t fi_mr_key(struct fid_mr *mr)
{
    return mr->key;
}

/*
 * Keys longer than 64 bits (FI_MR_RAW): get the raw key of a region, map the raw key of a peer's region to
 * a 64-bit key, release that key. *key_size is in and out, -FI_ETOOSMALL: too short. fi_mr(3)
 */
static inline int
fi_mr_raw_attr(struct fid_mr *mr, uint64_t *base_addr, uint8_t *raw_key, size_t *key_size,
               uint64_t flags)
{
    struct fi_mr_raw_attr attr;

    attr.flags = flags;
    attr.base_addr = base_addr;
    attr.raw_key = raw_key;
    attr.key_size = key_size;
    return mr->fid.ops->control(&mr->fid, FI_GET_RAW_MR, &attr);
}

static inline int
fi_mr_map_raw(struct fid_domain *domain, uint64_t base_addr, uint8_t *raw_key, size_t key_size,
              uint64_t *key, uint64_t flags)
{
    struct fi_mr_map_raw map;

    map.flags = flags;
    map.base_addr = base_addr;
    map.raw_key = raw_key;
    map.key_size = key_size;
    map.key = key;
    return domain->fid.ops->control(&domain->fid, FI_MAP_RAW_MR, &map);
}

static inline int fi_mr_unmap_key(struct fid_domain *domain, uint64_t key)
{
    return domain->fid.ops->control(&domain->fid, FI_UNMAP_KEY, &key);
}

/*
 * fi_mr_bind binds a region to an endpoint or counter. fi_mr_refresh announces that pages of the region
 * changed. fi_mr_enable makes a bound region usable. fi_mr(3)
 */
static inline int fi_mr_bind(struct fid_mr *mr, struct fid *bfid, uint64_t flags)
{
    return mr->fid.ops->bind(&mr->fid, bfid, flags);
}

static inline int
fi_mr_refresh(struct fid_mr *mr, const struct iovec *iov, size_t count, uint64_t flags)
{
    struct fi_mr_modify modify;

    memset(&modify, 0, sizeof(modify));
    modify.flags = flags;
    modify.attr.mr_iov = iov;
    modify.attr.iov_count = count;
    return mr->fid.ops->control(&mr->fid, FI_REFRESH, &modify);
}

static inline int fi_mr_enable(struct fid_mr *mr)
{
    return mr->fid.ops->control(&mr->fid, FI_ENABLE, NULL);
}

/*
 * Writes the descriptor of a region that a device passes to its calls (FI_MR_XPU_DESC). -FI_ETOOSMALL:
 * *len is the length needed. fi_mr(3)
 */
static inline int
fi_mr_get_xpu_desc(struct fid_mr *mr, void *buf, size_t *len, uint64_t flags,
                   struct fid_xpu_ctx *ctx)
{
    struct fi_mr_xpu_desc desc;

    desc.buf = buf;
    desc.len = len;
    desc.flags = flags;
    desc.ctx = ctx;
    return fi_control(&mr->fid, FI_GET_MR_XPU_DESC, &desc);
}

/* Opens an address vector, which assigns an fi_addr_t to each peer. fi_av(3) */
static inline int
fi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context)
{
    return domain->ops->av_open(domain, attr, av, context);
}

/* Binds an event queue to an address vector. Deprecated. fi_av(3) */
FI_DEPRECATED_FUNC static inline int fi_av_bind(struct fid_av *av, struct fid *fid, uint64_t flags)
{
    return av->fid.ops->bind(&av->fid, fid, flags);
}

/*
 * Inserts addresses. For each it writes a value into fi_addr (may be NULL for FI_AV_TABLE), which is
 * FI_ADDR_NOTAVAIL if the insertion failed. Returns how many succeeded. With FI_SYNC_ERR `context`
 * is an int array for errors. fi_av(3)
 */
static inline int
fi_av_insert(struct fid_av *av, const void *addr, size_t count, fi_addr_t *fi_addr, uint64_t flags,
             void *context)
{
    return av->ops->insert(av, addr, count, fi_addr, flags, context);
}

static inline int
fi_av_insertsvc(struct fid_av *av, const char *node, const char *service, fi_addr_t *fi_addr,
                uint64_t flags, void *context)
{
    return av->ops->insertsvc(av, node, service, fi_addr, flags, context);
}

static inline int
fi_av_insertsym(struct fid_av *av, const char *node, size_t nodecnt, const char *service,
                size_t svccnt, fi_addr_t *fi_addr, uint64_t flags, void *context)
{
    return av->ops->insertsym(av, node, nodecnt, service, svccnt, fi_addr, flags, context);
}

/* Removes addresses; their fi_addr_t values may be reused. fi_av(3) */
static inline int fi_av_remove(struct fid_av *av, fi_addr_t *fi_addr, size_t count, uint64_t flags)
{
    return av->ops->remove(av, fi_addr, count, flags);
}

/*
 * Returns the address of an fi_addr_t. *addrlen is in and out; it becomes the full length even if the
 * address did not fit. fi_av(3)
 */
static inline int fi_av_lookup(struct fid_av *av, fi_addr_t fi_addr, void *addr, size_t *addrlen)
{
    return av->ops->lookup(av, fi_addr, addr, addrlen);
}

/*
 * As fi_av_lookup without flags. With FI_XPU it returns the address in the form that a device needs.
 * -FI_ETOOSMALL: *len is the length needed. fi_av(3)
 */
static inline int
fi_av_lookup2(struct fid_av *av, fi_addr_t fi_addr, void *buf, size_t *len, uint64_t flags,
              struct fid_xpu_ctx *ctx)
{
    if (!FI_CHECK_OP(av->ops, struct fi_ops_av, lookup2))
        return -FI_ENOSYS;
    return av->ops->lookup2(av, fi_addr, buf, len, flags, ctx);
}

/* Prints an address; *len is in and out, the full length with the final 0. fi_av(3) */
static inline const char *fi_av_straddr(struct fid_av *av, const void *addr, char *buf, size_t *len)
{
    return av->ops->straddr(av, addr, buf, len);
}

/*
 * Authorization keys as addresses (FI_AV_AUTH_KEY), and numbers of the application that completions report
 * instead of addresses (FI_AV_USER_ID). -FI_ENOSYS: not supported. fi_av(3)
 */
static inline int
fi_av_insert_auth_key(struct fid_av *av, const void *auth_key, size_t auth_key_size,
                      fi_addr_t *fi_addr, uint64_t flags)
{
    if (!FI_CHECK_OP(av->ops, struct fi_ops_av, insert_auth_key))
        return -FI_ENOSYS;
    return av->ops->insert_auth_key(av, auth_key, auth_key_size, fi_addr, flags);
}

static inline int
fi_av_lookup_auth_key(struct fid_av *av, fi_addr_t addr, void *auth_key, size_t *auth_key_size)
{
    if (!FI_CHECK_OP(av->ops, struct fi_ops_av, lookup_auth_key))
        return -FI_ENOSYS;
    return av->ops->lookup_auth_key(av, addr, auth_key, auth_key_size);
}

static inline int
fi_av_set_user_id(struct fid_av *av, fi_addr_t fi_addr, fi_addr_t user_id, uint64_t flags)
{
    if (!FI_CHECK_OP(av->ops, struct fi_ops_av, set_user_id))
        return -FI_ENOSYS;
    return av->ops->set_user_id(av, fi_addr, user_id, flags);
}

/*
 * Returns the fi_addr_t of receive context `rx_index` of a scalable endpoint; `rx_ctx_bits` as in
 * fi_av_attr, 0 to 63. fi_av(3)
 */
static inline fi_addr_t fi_rx_addr(fi_addr_t fi_addr, int rx_index, int rx_ctx_bits)
{
    if (!rx_ctx_bits)
        return fi_addr;
    return ((uint64_t) rx_index << (64 - rx_ctx_bits)) | fi_addr;
}

/* Returns the fi_addr_t of a peer within a group, fi_domain_attr.max_group_id. fi_av(3) */
static inline fi_addr_t fi_group_addr(fi_addr_t fi_addr, uint32_t group_id)
{
    return ((uint64_t) group_id << 32) | fi_addr;
}

#ifdef __cplusplus
}
#endif

#endif /* FI_DOMAIN_H */
