/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoints, fi_endpoint(3), and message transfers, fi_msg(3).
 *
 * Written by build.rs from src/abi/fi_endpoint.rs and src/abi/fi_endpoint.h.in; change those.
 */

#ifndef FI_ENDPOINT_H
#define FI_ENDPOINT_H

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_msg;
struct fi_ops_atomic;
struct fi_ops_cm;
struct fi_ops_collective;
struct fi_ops_ep;
struct fi_ops_msg;
struct fi_ops_rma;
struct fi_ops_tagged;
struct fi_rx_attr;
struct fi_tx_attr;
struct fid_ep;
struct fid_pep;
struct fid_stx;
struct fid_xpu_ep;

/** Level of the options below. fi_endpoint(3) */
#define FI_OPT_ENDPOINT 0

/** size_t: an FI_MULTI_RECV buffer with fewer bytes left is returned to the application. */
#define FI_OPT_MIN_MULTI_RECV 0

/** size_t: most bytes of `param` of fi_connect and the like; read only. */
#define FI_OPT_CM_DATA_SIZE 1

/** size_t: unused since release 2.0. */
#define FI_OPT_BUFFERED_MIN 2

/** size_t: unused since release 2.0. */
#define FI_OPT_BUFFERED_LIMIT 3

/** size_t: bytes of the send buffer of the transport below. */
#define FI_OPT_SEND_BUF_SIZE 4

/** size_t: bytes of the receive buffer of the transport below. */
#define FI_OPT_RECV_BUF_SIZE 5

/** size_t: operations that the transmit queue holds. */
#define FI_OPT_TX_SIZE 6

/** size_t: buffers that the receive queue holds. */
#define FI_OPT_RX_SIZE 7

/** int, FI_HMEM_P2P_*: whether devices transfer data directly, without a copy in host memory. */
#define FI_OPT_FI_HMEM_P2P 8

/** struct fi_trigger_xpu: variables that a device writes to start an operation; read only. */
#define FI_OPT_XPU_TRIGGER 9

/** bool: the provider may call CUDA. */
#define FI_OPT_CUDA_API_PERMITTED 10

/** bool: the provider may use shared memory. */
#define FI_OPT_SHARED_MEMORY_PERMITTED 11

/** size_t: most bytes of a message. */
#define FI_OPT_MAX_MSG_SIZE 12

/** size_t: most bytes of a tagged message. */
#define FI_OPT_MAX_TAGGED_SIZE 13

/** size_t: most bytes of a read or write. */
#define FI_OPT_MAX_RMA_SIZE 14

/** size_t: most bytes of an atomic operation. */
#define FI_OPT_MAX_ATOMIC_SIZE 15

/** size_t: most bytes of an injected message. */
#define FI_OPT_INJECT_MSG_SIZE 16

/** size_t: most bytes of an injected tagged message. */
#define FI_OPT_INJECT_TAGGED_SIZE 17

/** size_t: most bytes of an injected write. */
#define FI_OPT_INJECT_RMA_SIZE 18

/** size_t: most bytes of an injected atomic operation. */
#define FI_OPT_INJECT_ATOMIC_SIZE 19

/** bool: peers cannot connect to this endpoint. */
#define FI_OPT_FIREWALL_ADDR 20

/** The provider may use peer-to-peer transfers. */
#define FI_HMEM_P2P_ENABLED 0

/** The provider uses peer-to-peer transfers, or the operation fails. */
#define FI_HMEM_P2P_REQUIRED 1

/** The provider uses peer-to-peer transfers if possible. */
#define FI_HMEM_P2P_PREFERRED 2

/** The provider does not use peer-to-peer transfers. */
#define FI_HMEM_P2P_DISABLED 3

/** A message. fi_msg(3) */
struct fi_msg {
    /** Pieces of memory. */
    const struct iovec *msg_iov;
    /** One descriptor for each piece, or NULL. */
    void **desc;
    /** Number of pieces, up to iov_limit. */
    size_t iov_count;
    /** The peer; FI_ADDR_UNSPEC on a connected endpoint or for any source. */
    fi_addr_t addr;
    /** Context, returned in the completion. */
    void *context;
    /** Remote CQ data, with FI_REMOTE_CQ_DATA. */
    uint64_t data;
};

/** Messages. fi_msg(3) */
struct fi_ops_msg {
    size_t size;
    ssize_t (*recv)(struct fid_ep *ep,
                    void *buf,
                    size_t len,
                    void *desc,
                    fi_addr_t src_addr,
                    void *context);
    ssize_t (*recvv)(struct fid_ep *ep,
                     const struct iovec *iov,
                     void **desc,
                     size_t count,
                     fi_addr_t src_addr,
                     void *context);
    ssize_t (*recvmsg)(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags);
    ssize_t (*send)(struct fid_ep *ep,
                    const void *buf,
                    size_t len,
                    void *desc,
                    fi_addr_t dest_addr,
                    void *context);
    ssize_t (*sendv)(struct fid_ep *ep,
                     const struct iovec *iov,
                     void **desc,
                     size_t count,
                     fi_addr_t dest_addr,
                     void *context);
    ssize_t (*sendmsg)(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags);
    ssize_t (*inject)(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr);
    ssize_t (*senddata)(struct fid_ep *ep,
                        const void *buf,
                        size_t len,
                        void *desc,
                        uint64_t data,
                        fi_addr_t dest_addr,
                        void *context);
    ssize_t (*injectdata)(struct fid_ep *ep,
                          const void *buf,
                          size_t len,
                          uint64_t data,
                          fi_addr_t dest_addr);
};

/** An endpoint. The functions of a table that it does not serve return -FI_ENOSYS. fi_endpoint(3) */
struct fid_ep {
    struct fid fid;
    struct fi_ops_ep *ops;
    struct fi_ops_cm *cm;
    struct fi_ops_msg *msg;
    struct fi_ops_rma *rma;
    struct fi_ops_tagged *tagged;
    struct fi_ops_atomic *atomic;
    struct fi_ops_collective *collective;
};

/** Operations of an endpoint itself. fi_endpoint(3) */
struct fi_ops_ep {
    size_t size;
    ssize_t (*cancel)(fid_t fid, void *context);
    int (*getopt)(fid_t fid, int level, int optname, void *optval, size_t *optlen);
    int (*setopt)(fid_t fid, int level, int optname, const void *optval, size_t optlen);
    int (*tx_ctx)(struct fid_ep *sep,
                  int index,
                  struct fi_tx_attr *attr,
                  struct fid_ep **tx_ep,
                  void *context);
    int (*rx_ctx)(struct fid_ep *sep,
                  int index,
                  struct fi_rx_attr *attr,
                  struct fid_ep **rx_ep,
                  void *context);
    ssize_t (*rx_size_left)(struct fid_ep *ep);
    ssize_t (*tx_size_left)(struct fid_ep *ep);
    int (*export_xpu)(struct fid_ep *ep, uint64_t flags, struct fid_xpu_ep *xpu_ep);
};

/** A passive endpoint, which listens for connection requests. fi_endpoint(3) */
struct fid_pep {
    struct fid fid;
    struct fi_ops_ep *ops;
    struct fi_ops_cm *cm;
};

/** A shared transmit context. fi_endpoint(3) */
struct fid_stx {
    struct fid fid;
    struct fi_ops_ep *ops;
};

/*
 * Open a passive endpoint, an active endpoint, or a scalable endpoint with several contexts.
 * fi_endpoint(3)
 */
static inline int
fi_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context)
{
    return fabric->ops->passive_ep(fabric, info, pep, context);
}

static inline int
fi_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
    return domain->ops->endpoint(domain, info, ep, context);
}

static inline int
fi_endpoint2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, uint64_t flags,
             void *context)
{
    if (!flags)
        return fi_endpoint(domain, info, ep, context);
    if (!FI_CHECK_OP(domain->ops, struct fi_ops_domain, endpoint2))
        return -FI_ENOSYS;
    return domain->ops->endpoint2(domain, info, ep, flags, context);
}

static inline int
fi_scalable_ep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep, void *context)
{
    return domain->ops->scalable_ep(domain, info, sep, context);
}

/*
 * Binds queues, counters or an address vector to an endpoint; `flags` selects the operations that use
 * them. fi_endpoint(3)
 */
static inline int fi_ep_bind(struct fid_ep *ep, struct fid *bfid, uint64_t flags)
{
    return ep->fid.ops->bind(&ep->fid, bfid, flags);
}

static inline int fi_pep_bind(struct fid_pep *pep, struct fid *bfid, uint64_t flags)
{
    return pep->fid.ops->bind(&pep->fid, bfid, flags);
}

static inline int fi_scalable_ep_bind(struct fid_ep *sep, struct fid *bfid, uint64_t flags)
{
    return sep->fid.ops->bind(&sep->fid, bfid, flags);
}

/*
 * Makes a bound endpoint usable. -FI_ENOCQ, -FI_ENOAV, -FI_ENOEQ: no such object is bound;
 * -FI_EOPBADSTATE: another prerequisite is missing. fi_endpoint(3)
 */
static inline int fi_enable(struct fid_ep *ep)
{
    return ep->fid.ops->control(&ep->fid, FI_ENABLE, NULL);
}

/*
 * Cancels the posted operation with this context; it completes with FI_ECANCELED. -FI_ENOENT: no such
 * operation is pending. fi_endpoint(3)
 */
static inline ssize_t fi_cancel(fid_t fid, void *context)
{
    struct fid_ep *ep = (struct fid_ep *) fid;

    return ep->ops->cancel(fid, context);
}

/*
 * Read and set options of level FI_OPT_ENDPOINT; *optlen is in and out. -FI_ENOPROTOOPT: the endpoint does
 * not have the option. fi_endpoint(3)
 */
static inline int fi_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
    struct fid_ep *ep = (struct fid_ep *) fid;

    return ep->ops->setopt(fid, level, optname, optval, optlen);
}

static inline int fi_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
    struct fid_ep *ep = (struct fid_ep *) fid;

    return ep->ops->getopt(fid, level, optname, optval, optlen);
}

/* Creates a second handle of an endpoint that uses `flags` by default. fi_endpoint(3) */
static inline int fi_ep_alias(struct fid_ep *ep, struct fid_ep **alias_ep, uint64_t flags)
{
    struct fid *alias = NULL;
    int ret;

    ret = fi_alias(&ep->fid, &alias, flags);
    if (!ret)
        *alias_ep = (struct fid_ep *) alias;
    return ret;
}

/* Contexts of a scalable endpoint, numbered from 0. fi_endpoint(3) */
static inline int
fi_tx_context(struct fid_ep *ep, int idx, struct fi_tx_attr *attr, struct fid_ep **tx_ep,
              void *context)
{
    return ep->ops->tx_ctx(ep, idx, attr, tx_ep, context);
}

static inline int
fi_rx_context(struct fid_ep *ep, int idx, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
              void *context)
{
    return ep->ops->rx_ctx(ep, idx, attr, rx_ep, context);
}

/* Exports an enabled endpoint to the device that it was opened for. fi_endpoint(3), fi_xpu(3) */
static inline int
fi_ep_export_xpu(struct fid_ep *ep, uint64_t flags, struct fid_xpu_ep *xpu_ep)
{
    if (!FI_CHECK_OP(ep->ops, struct fi_ops_ep, export_xpu))
        return -FI_ENOSYS;
    return ep->ops->export_xpu(ep, flags, xpu_ep);
}

/* Returns how many more operations can be posted. Deprecated. fi_endpoint(3) */
FI_DEPRECATED_FUNC static inline ssize_t fi_rx_size_left(struct fid_ep *ep)
{
    return ep->ops->rx_size_left(ep);
}

FI_DEPRECATED_FUNC static inline ssize_t fi_tx_size_left(struct fid_ep *ep)
{
    return ep->ops->tx_size_left(ep);
}

/* Contexts that several endpoints share. fi_endpoint(3) */
static inline int
fi_stx_context(struct fid_domain *domain, struct fi_tx_attr *attr, struct fid_stx **stx,
               void *context)
{
    return domain->ops->stx_ctx(domain, attr, stx, context);
}

static inline int
fi_srx_context(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **rx_ep,
               void *context)
{
    return domain->ops->srx_ctx(domain, attr, rx_ep, context);
}

/*
 * Posts a receive buffer. `desc` comes from fi_mr_desc, NULL unless FI_MR_LOCAL; `src_addr` is used only
 * with FI_DIRECTED_RECV. -FI_EAGAIN: the queue is full, read completions and try again. fi_msg(3)
 */
static inline ssize_t
fi_recv(struct fid_ep *ep, void *buf, size_t len, void *desc, fi_addr_t src_addr, void *context)
{
    return ep->msg->recv(ep, buf, len, desc, src_addr, context);
}

static inline ssize_t
fi_recvv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t src_addr,
         void *context)
{
    return ep->msg->recvv(ep, iov, desc, count, src_addr, context);
}

static inline ssize_t fi_recvmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    return ep->msg->recvmsg(ep, msg, flags);
}

/*
 * Sends a message. The buffer belongs to the library until the completion. The inject forms copy the
 * buffer (up to inject_size) and write no completion. The data forms carry 64 bits into the peer's
 * completion. -FI_EAGAIN: the queue is full, read completions and try again. fi_msg(3)
 */
static inline ssize_t
fi_send(struct fid_ep *ep, const void *buf, size_t len, void *desc, fi_addr_t dest_addr,
        void *context)
{
    return ep->msg->send(ep, buf, len, desc, dest_addr, context);
}

static inline ssize_t
fi_sendv(struct fid_ep *ep, const struct iovec *iov, void **desc, size_t count, fi_addr_t dest_addr,
         void *context)
{
    return ep->msg->sendv(ep, iov, desc, count, dest_addr, context);
}

static inline ssize_t fi_sendmsg(struct fid_ep *ep, const struct fi_msg *msg, uint64_t flags)
{
    return ep->msg->sendmsg(ep, msg, flags);
}

static inline ssize_t fi_inject(struct fid_ep *ep, const void *buf, size_t len, fi_addr_t dest_addr)
{
    return ep->msg->inject(ep, buf, len, dest_addr);
}

static inline ssize_t
fi_senddata(struct fid_ep *ep, const void *buf, size_t len, void *desc, uint64_t data,
            fi_addr_t dest_addr, void *context)
{
    return ep->msg->senddata(ep, buf, len, desc, data, dest_addr, context);
}

static inline ssize_t
fi_injectdata(struct fid_ep *ep, const void *buf, size_t len, uint64_t data, fi_addr_t dest_addr)
{
    return ep->msg->injectdata(ep, buf, len, data, dest_addr);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_ENDPOINT_H */
