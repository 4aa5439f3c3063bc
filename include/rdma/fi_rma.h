/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote memory access, fi_rma(3).
 *
 * Written by build.rs from src/abi/fi_rma.rs and src/abi/fi_rma.h.in; change those.
 */

#ifndef FI_RMA_H
#define FI_RMA_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_msg_rma;
struct fi_ops_rma;
struct fi_rma_ioc;
struct fi_rma_iov;
struct fid_ep;

/** A piece of remote memory. fi_rma(3) */
struct fi_rma_iov {
    /** Offset into the region, or a virtual address with FI_MR_VIRT_ADDR. */
    uint64_t addr;
    /** Bytes. */
    size_t len;
    /** Key of the region. */
    uint64_t key;
};

/** A piece of remote memory as elements. fi_atomic(3) */
struct fi_rma_ioc {
    /** Offset into the region, or a virtual address with FI_MR_VIRT_ADDR. */
    uint64_t addr;
    /** Number of elements, not bytes. */
    size_t count;
    /** Key of the region. */
    uint64_t key;
};

/** A read or a write. fi_rma(3) */
struct fi_msg_rma {
    /** Pieces of local memory. */
    const struct iovec *msg_iov;
    /** One descriptor for each piece, or NULL. */
    void **desc;
    /** Number of pieces, up to iov_limit. */
    size_t iov_count;
    /** The peer; FI_ADDR_UNSPEC on a connection. */
    fi_addr_t addr;
    /** Pieces of remote memory; as many bytes as the local ones. */
    const struct fi_rma_iov *rma_iov;
    /** Number of pieces, up to rma_iov_limit. */
    size_t rma_iov_count;
    /** Context, returned in the completion. */
    void *context;
    /** Remote CQ data, with FI_REMOTE_CQ_DATA. */
    uint64_t data;
};

/** Reads and writes. fi_rma(3) */
struct fi_ops_rma {
    size_t size;
    ssize_t (*read)(struct fid_ep *ep,
                    void *buf,
                    size_t len,
                    void *desc,
                    fi_addr_t src_addr,
                    uint64_t addr,
                    uint64_t key,
                    void *context);
    ssize_t (*readv)(struct fid_ep *ep,
                     const struct iovec *iov,
                     void **desc,
                     size_t count,
                     fi_addr_t src_addr,
                     uint64_t addr,
                     uint64_t key,
                     void *context);
    ssize_t (*readmsg)(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags);
    ssize_t (*write)(struct fid_ep *ep,
                     const void *buf,
                     size_t len,
                     void *desc,
                     fi_addr_t dest_addr,
                     uint64_t addr,
                     uint64_t key,
                     void *context);
    ssize_t (*writev)(struct fid_ep *ep,
                      const struct iovec *iov,
                      void **desc,
                      size_t count,
                      fi_addr_t dest_addr,
                      uint64_t addr,
                      uint64_t key,
                      void *context);
    ssize_t (*writemsg)(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags);
    ssize_t (*inject)(struct fid_ep *ep,
                      const void *buf,
                      size_t len,
                      fi_addr_t dest_addr,
                      uint64_t addr,
                      uint64_t key);
    ssize_t (*writedata)(struct fid_ep *ep,
                         const void *buf,
                         size_t len,
                         void *desc,
                         uint64_t data,
                         fi_addr_t dest_addr,
                         uint64_t addr,
                         uint64_t key,
                         void *context);
    ssize_t (*injectdata)(struct fid_ep *ep,
                          const void *buf,
                          size_t len,
                          uint64_t data,
                          fi_addr_t dest_addr,
                          uint64_t addr,
                          uint64_t key);
};

/*
 * Reads from a peer's registered memory. `addr` is an offset into the region, or a virtual address
 * with FI_MR_VIRT_ADDR. -FI_EAGAIN: the queue is full, read completions and try again. fi_rma(3)
 */
static inline ssize_t
fi_read(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr, uint64_t addr,
        uint64_t key, void *context)
{
    return ep->rma->read(ep, buf, len, desc, src_addr, addr, key, context);
}

static inline ssize_t
fi_readv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr,
         uint64_t addr, uint64_t key, void *context)
{
    return ep->rma->readv(ep, iov, desc, count, src_addr, addr, key, context);
}

static inline ssize_t fi_readmsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return ep->rma->readmsg(ep, msg, flags);
}

/*
 * Write to a peer's registered memory. The inject forms copy the buffer (up to inject_size) and write no
 * completion. The data forms also cause a completion with 64 bits of data at the peer. fi_rma(3)
 */
static inline ssize_t
fi_write(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
         uint64_t addr, uint64_t key, void *context)
{
    return ep->rma->write(ep, buf, len, desc, dest_addr, addr, key, context);
}

static inline ssize_t
fi_writev(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
          fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
    return ep->rma->writev(ep, iov, desc, count, dest_addr, addr, key, context);
}

static inline ssize_t fi_writemsg(struct fid_ep *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
    return ep->rma->writemsg(ep, msg, flags);
}

static inline ssize_t
fi_inject_write(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t addr,
                uint64_t key)
{
    return ep->rma->inject(ep, buf, len, dest_addr, addr, key);
}

static inline ssize_t
fi_writedata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
             fi_addr_t dest_addr, uint64_t addr, uint64_t key, void *context)
{
    return ep->rma->writedata(ep, buf, len, desc, data, dest_addr, addr, key, context);
}

static inline ssize_t
fi_inject_writedata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data,
                    fi_addr_t dest_addr, uint64_t addr, uint64_t key)
{
    return ep->rma->injectdata(ep, buf, len, data, dest_addr, addr, key);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_RMA_H */
