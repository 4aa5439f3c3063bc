/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tagged messages, fi_tagged(3).
 *
 * Written by build.rs from src/abi/fi_tagged.rs and src/abi/fi_tagged.h.in; change those.
 */

#ifndef FI_TAGGED_H
#define FI_TAGGED_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_msg_tagged;
struct fi_ops_tagged;
struct fid_ep;

/** For `ignore` with FI_TAG_MPI: any tag. */
#define FI_MPI_IGNORE_TAG 4294967295ull

/** For `ignore` with FI_TAG_MPI: any payload. */
#define FI_MPI_IGNORE_PAYLOAD 1095216660480ull

/** A message with a tag. fi_tagged(3) */
struct fi_msg_tagged {
    /** Pieces of memory. */
    const struct iovec *msg_iov;
    /** One descriptor for each piece, or NULL. */
    void **desc;
    /** Number of pieces, up to iov_limit. */
    size_t iov_count;
    /** The peer; FI_ADDR_UNSPEC on a connected endpoint or for any source. */
    fi_addr_t addr;
    /** A receive matches a message if (tag ^ the message's tag) & ~ignore is 0. */
    uint64_t tag;
    /** For receives: bits of the tag that need not match. */
    uint64_t ignore;
    /** Context, returned in the completion. */
    void *context;
    /** Remote CQ data, with FI_REMOTE_CQ_DATA. */
    uint64_t data;
};

/** Messages with tags. fi_tagged(3) */
struct fi_ops_tagged {
    size_t size;
    ssize_t (*recv)(struct fid_ep *ep,
                    void *buf,
                    size_t len,
                    void *desc,
                    fi_addr_t src_addr,
                    uint64_t tag,
                    uint64_t ignore,
                    void *context);
    ssize_t (*recvv)(struct fid_ep *ep,
                     const struct iovec *iov,
                     void **desc,
                     size_t count,
                     fi_addr_t src_addr,
                     uint64_t tag,
                     uint64_t ignore,
                     void *context);
    ssize_t (*recvmsg)(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags);
    ssize_t (*send)(struct fid_ep *ep,
                    const void *buf,
                    size_t len,
                    void *desc,
                    fi_addr_t dest_addr,
                    uint64_t tag,
                    void *context);
    ssize_t (*sendv)(struct fid_ep *ep,
                     const struct iovec *iov,
                     void **desc,
                     size_t count,
                     fi_addr_t dest_addr,
                     uint64_t tag,
                     void *context);
    ssize_t (*sendmsg)(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags);
    ssize_t (*inject)(struct fid_ep *ep,
                      const void *buf,
                      size_t len,
                      fi_addr_t dest_addr,
                      uint64_t tag);
    ssize_t (*senddata)(struct fid_ep *ep,
                        const void *buf,
                        size_t len,
                        void *desc,
                        uint64_t data,
                        fi_addr_t dest_addr,
                        uint64_t tag,
                        void *context);
    ssize_t (*injectdata)(struct fid_ep *ep,
                          const void *buf,
                          size_t len,
                          uint64_t data,
                          fi_addr_t dest_addr,
                          uint64_t tag);
};

/* A tag of format FI_TAG_MPI: payload_id in bits 32 to 39, tag in the lower 32. fi_tagged(3) */
static inline uint64_t fi_tag_mpi(int tag, uint8_t payload_id)
{
    return ((uint64_t) payload_id << 32) | (uint32_t) tag;
}

/*
 * Posts a receive buffer for a message whose tag is equal in all bits that are not set in `ignore`.
 * FI_PEEK, FI_CLAIM and FI_DISCARD of fi_trecvmsg examine, reserve or discard a message that has arrived.
 * -FI_EAGAIN: the queue is full, read completions and try again. fi_tagged(3)
 */
static inline ssize_t
fi_trecv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr, uint64_t tag,
         uint64_t ignore, void *context)
{
    return ep->tagged->recv(ep, buf, len, desc, src_addr, tag, ignore, context);
}

static inline ssize_t
fi_trecvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr,
          uint64_t tag, uint64_t ignore, void *context)
{
    return ep->tagged->recvv(ep, iov, desc, count, src_addr, tag, ignore, context);
}

static inline ssize_t
fi_trecvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return ep->tagged->recvmsg(ep, msg, flags);
}

/* Sends a message with a tag; otherwise as in fi_msg(3). fi_tagged(3) */
static inline ssize_t
fi_tsend(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
         uint64_t tag, void *context)
{
    return ep->tagged->send(ep, buf, len, desc, dest_addr, tag, context);
}

static inline ssize_t
fi_tsendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count,
          fi_addr_t dest_addr, uint64_t tag, void *context)
{
    return ep->tagged->sendv(ep, iov, desc, count, dest_addr, tag, context);
}

static inline ssize_t
fi_tsendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
    return ep->tagged->sendmsg(ep, msg, flags);
}

static inline ssize_t
fi_tinject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr, uint64_t tag)
{
    return ep->tagged->inject(ep, buf, len, dest_addr, tag);
}

static inline ssize_t
fi_tsenddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
             fi_addr_t dest_addr, uint64_t tag, void *context)
{
    return ep->tagged->senddata(ep, buf, len, desc, data, dest_addr, tag, context);
}

static inline ssize_t
fi_tinjectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr,
               uint64_t tag)
{
    return ep->tagged->injectdata(ep, buf, len, data, dest_addr, tag);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_TAGGED_H */
