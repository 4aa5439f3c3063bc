/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Atomic operations on remote memory, fi_atomic(3).
 *
 * Written by build.rs from src/abi/fi_atomic.rs and src/abi/fi_atomic.h.in; change those.
 */

#ifndef FI_ATOMIC_H
#define FI_ATOMIC_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_atomic_attr;
struct fi_ioc;
struct fi_msg_atomic;
struct fi_msg_compare;
struct fi_msg_fetch;
struct fi_ops_atomic;
struct fi_rma_ioc;
struct fid_ep;

/** For fi_query_atomic: operations that return the old value. */
#define FI_FETCH_ATOMIC (1ull << 58)

/** For fi_query_atomic: operations that compare. */
#define FI_COMPARE_ATOMIC (1ull << 59)

/** Limits of one pair of operation and datatype. fi_atomic(3) */
struct fi_atomic_attr {
    /** Most elements in one call. */
    size_t count;
    /** Bytes of an element. */
    size_t size;
};

/** An atomic operation. fi_atomic(3) */
struct fi_msg_atomic {
    /** Pieces of local memory. */
    const struct fi_ioc *msg_iov;
    /** One descriptor for each piece, or NULL. */
    void **desc;
    /** Number of pieces, up to iov_limit. */
    size_t iov_count;
    /** The peer; FI_ADDR_UNSPEC on a connection. */
    fi_addr_t addr;
    /** Pieces of remote memory; as many elements as the local ones. */
    const struct fi_rma_ioc *rma_iov;
    /** Number of pieces, up to rma_iov_limit. */
    size_t rma_iov_count;
    enum fi_datatype datatype;
    enum fi_op op;
    /** Context, returned in the completion. */
    void *context;
    /** Remote CQ data, with FI_REMOTE_CQ_DATA. */
    uint64_t data;
};

/** Buffers for the old values of deferred work. fi_trigger(3) */
struct fi_msg_fetch {
    struct fi_ioc *msg_iov;
    void **desc;
    size_t iov_count;
};

/** Operands of the comparison in deferred work. fi_trigger(3) */
struct fi_msg_compare {
    const struct fi_ioc *msg_iov;
    void **desc;
    size_t iov_count;
};

/** Atomic operations. fi_atomic(3) */
struct fi_ops_atomic {
    size_t size;
    ssize_t (*write)(struct fid_ep *ep,
                     const void *buf,
                     size_t count,
                     void *desc,
                     fi_addr_t dest_addr,
                     uint64_t addr,
                     uint64_t key,
                     enum fi_datatype datatype,
                     enum fi_op op,
                     void *context);
    ssize_t (*writev)(struct fid_ep *ep,
                      const struct fi_ioc *iov,
                      void **desc,
                      size_t count,
                      fi_addr_t dest_addr,
                      uint64_t addr,
                      uint64_t key,
                      enum fi_datatype datatype,
                      enum fi_op op,
                      void *context);
    ssize_t (*writemsg)(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags);
    ssize_t (*inject)(struct fid_ep *ep,
                      const void *buf,
                      size_t count,
                      fi_addr_t dest_addr,
                      uint64_t addr,
                      uint64_t key,
                      enum fi_datatype datatype,
                      enum fi_op op);
    ssize_t (*readwrite)(struct fid_ep *ep,
                         const void *buf,
                         size_t count,
                         void *desc,
                         void *result,
                         void *result_desc,
                         fi_addr_t dest_addr,
                         uint64_t addr,
                         uint64_t key,
                         enum fi_datatype datatype,
                         enum fi_op op,
                         void *context);
    ssize_t (*readwritev)(struct fid_ep *ep,
                          const struct fi_ioc *iov,
                          void **desc,
                          size_t count,
                          struct fi_ioc *resultv,
                          void **result_desc,
                          size_t result_count,
                          fi_addr_t dest_addr,
                          uint64_t addr,
                          uint64_t key,
                          enum fi_datatype datatype,
                          enum fi_op op,
                          void *context);
    ssize_t (*readwritemsg)(struct fid_ep *ep,
                            const struct fi_msg_atomic *msg,
                            struct fi_ioc *resultv,
                            void **result_desc,
                            size_t result_count,
                            uint64_t flags);
    ssize_t (*compwrite)(struct fid_ep *ep,
                         const void *buf,
                         size_t count,
                         void *desc,
                         const void *compare,
                         void *compare_desc,
                         void *result,
                         void *result_desc,
                         fi_addr_t dest_addr,
                         uint64_t addr,
                         uint64_t key,
                         enum fi_datatype datatype,
                         enum fi_op op,
                         void *context);
    ssize_t (*compwritev)(struct fid_ep *ep,
                          const struct fi_ioc *iov,
                          void **desc,
                          size_t count,
                          const struct fi_ioc *comparev,
                          void **compare_desc,
                          size_t compare_count,
                          struct fi_ioc *resultv,
                          void **result_desc,
                          size_t result_count,
                          fi_addr_t dest_addr,
                          uint64_t addr,
                          uint64_t key,
                          enum fi_datatype datatype,
                          enum fi_op op,
                          void *context);
    ssize_t (*compwritemsg)(struct fid_ep *ep,
                            const struct fi_msg_atomic *msg,
                            const struct fi_ioc *comparev,
                            void **compare_desc,
                            size_t compare_count,
                            struct fi_ioc *resultv,
                            void **result_desc,
                            size_t result_count,
                            uint64_t flags);
    int (*writevalid)(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count);
    int (*readwritevalid)(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count);
    int (*compwritevalid)(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count);
};

/*
 * Sets remote = remote op local for `count` elements (not bytes) of `datatype`. -FI_EOPNOTSUPP: the
 * pair of operation and type is not supported. fi_atomic(3)
 */
static inline ssize_t
fi_atomic(struct fid_ep *ep, const void *buf, size_t count, void *desc, fi_addr_t dest_addr,
          uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op, void *context)
{
    return ep->atomic->write(ep, buf, count, desc, dest_addr, addr, key, datatype, op, context);
}

static inline ssize_t
fi_atomicv(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
           fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
           enum fi_op op, void *context)
{
    return ep->atomic->writev(ep, iov, desc, count, dest_addr, addr, key, datatype, op, context);
}

static inline ssize_t
fi_atomicmsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, uint64_t flags)
{
    return ep->atomic->writemsg(ep, msg, flags);
}

static inline ssize_t
fi_inject_atomic(struct fid_ep *ep, const void *buf, size_t count, fi_addr_t dest_addr,
                 uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op)
{
    return ep->atomic->inject(ep, buf, count, dest_addr, addr, key, datatype, op);
}

/* The same, and stores the old value in `result`. fi_atomic(3) */
static inline ssize_t
fi_fetch_atomic(struct fid_ep *ep, const void *buf, size_t count, void *desc, void *result,
                void *result_desc, fi_addr_t dest_addr, uint64_t addr, uint64_t key,
                enum fi_datatype datatype, enum fi_op op, void *context)
{
    return ep->atomic->readwrite(ep, buf, count, desc, result, result_desc, dest_addr, addr, key,
                                 datatype, op, context);
}

static inline ssize_t
fi_fetch_atomicv(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
                 struct fi_ioc *resultv, void **result_desc, size_t result_count,
                 fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
                 enum fi_op op, void *context)
{
    return ep->atomic->readwritev(ep, iov, desc, count, resultv, result_desc, result_count,
                                  dest_addr, addr, key, datatype, op, context);
}

static inline ssize_t
fi_fetch_atomicmsg(struct fid_ep *ep, const struct fi_msg_atomic *msg, struct fi_ioc *resultv,
                   void **result_desc, size_t result_count, uint64_t flags)
{
    return ep->atomic->readwritemsg(ep, msg, resultv, result_desc, result_count, flags);
}

/*
 * Writes the elements for which the comparison with `compare` (FI_CSWAP*, FI_MSWAP) is true, and stores the
 * old value in `result`. fi_atomic(3)
 */
static inline ssize_t
fi_compare_atomic(struct fid_ep *ep, const void *buf, size_t count, void *desc, const void *compare,
                  void *compare_desc, void *result, void *result_desc, fi_addr_t dest_addr,
                  uint64_t addr, uint64_t key, enum fi_datatype datatype, enum fi_op op,
                  void *context)
{
    return ep->atomic->compwrite(ep, buf, count, desc, compare, compare_desc, result, result_desc,
                                 dest_addr, addr, key, datatype, op, context);
}

static inline ssize_t
fi_compare_atomicv(struct fid_ep *ep, const struct fi_ioc *iov, void **desc, size_t count,
                   const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
                   struct fi_ioc *resultv, void **result_desc, size_t result_count,
                   fi_addr_t dest_addr, uint64_t addr, uint64_t key, enum fi_datatype datatype,
                   enum fi_op op, void *context)
{
    return ep->atomic->compwritev(ep, iov, desc, count, comparev, compare_desc, compare_count,
                                  resultv, result_desc, result_count, dest_addr, addr, key,
                                  datatype, op, context);
}

static inline ssize_t
fi_compare_atomicmsg(struct fid_ep *ep, const struct fi_msg_atomic *msg,
                     const struct fi_ioc *comparev, void **compare_desc, size_t compare_count,
                     struct fi_ioc *resultv, void **result_desc, size_t result_count,
                     uint64_t flags)
{
    return ep->atomic->compwritemsg(ep, msg, comparev, compare_desc, compare_count, resultv,
                                    result_desc, result_count, flags);
}

/* Returns 0 if the pair is supported, and the most elements in one call; else -FI_EOPNOTSUPP. fi_atomic(3) */
static inline int
fi_atomicvalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
    return ep->atomic->writevalid(ep, datatype, op, count);
}

static inline int
fi_fetch_atomicvalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
    return ep->atomic->readwritevalid(ep, datatype, op, count);
}

static inline int
fi_compare_atomicvalid(struct fid_ep *ep, enum fi_datatype datatype, enum fi_op op, size_t *count)
{
    return ep->atomic->compwritevalid(ep, datatype, op, count);
}

/*
 * The same for a domain; `flags` is 0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC or FI_TAGGED.
 * fi_atomic(3)
 */
static inline int
fi_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
                struct fi_atomic_attr *attr, uint64_t flags)
{
    if (!FI_CHECK_OP(domain->ops, struct fi_ops_domain, query_atomic))
        return -FI_ENOSYS;
    return domain->ops->query_atomic(domain, datatype, op, attr, flags);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_ATOMIC_H */
