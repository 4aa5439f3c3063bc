/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Connection management, fi_cm(3).
 *
 * Written by build.rs from src/abi/fi_cm.rs and src/abi/fi_cm.h.in; change those.
 */

#ifndef FI_CM_H
#define FI_CM_H

#include <rdma/fi_endpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_ops_cm;
struct fid_ep;
struct fid_mc;
struct fid_pep;

/** A joined group. fi_cm(3) */
struct fid_mc {
    struct fid fid;
    /** The address for messages to the group. */
    fi_addr_t fi_addr;
};

/** Connections and groups. fi_cm(3) */
struct fi_ops_cm {
    size_t size;
    int (*setname)(fid_t fid, void *addr, size_t addrlen);
    int (*getname)(fid_t fid, void *addr, size_t *addrlen);
    int (*getpeer)(struct fid_ep *ep, void *addr, size_t *addrlen);
    int (*connect)(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen);
    int (*listen)(struct fid_pep *pep);
    int (*accept)(struct fid_ep *ep, const void *param, size_t paramlen);
    int (*reject)(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen);
    int (*shutdown)(struct fid_ep *ep, uint64_t flags);
    int (*join)(struct fid_ep *ep,
                const void *addr,
                uint64_t flags,
                struct fid_mc **mc,
                void *context);
};

/*
 * Set and return the local address of an endpoint, in its addr_format. *addrlen is in and out; with
 * -FI_ETOOSMALL it is the length needed. fi_cm(3)
 */
static inline int fi_setname(fid_t fid, void *addr, size_t addrlen)
{
    struct fid_ep *ep = (struct fid_ep *) fid;

    return ep->cm->setname(fid, addr, addrlen);
}

static inline int fi_getname(fid_t fid, void *addr, size_t *addrlen)
{
    struct fid_ep *ep = (struct fid_ep *) fid;

    return ep->cm->getname(fid, addr, addrlen);
}

/* Returns the address of a connected peer. fi_cm(3) */
static inline int fi_getpeer(struct fid_ep *ep, void *addr, size_t *addrlen)
{
    return ep->cm->getpeer(ep, addr, addrlen);
}

/* Starts to listen. Connection requests arrive as FI_CONNREQ on the bound event queue. fi_cm(3) */
static inline int fi_listen(struct fid_pep *pep)
{
    return pep->cm->listen(pep);
}

/*
 * Request, accept or reject a connection; the event of the other side contains `param`. The result is
 * an event FI_CONNECTED or an error such as FI_ECONNREFUSED. fi_cm(3)
 */
static inline int
fi_connect(struct fid_ep *ep, const void *addr, const void *param, size_t paramlen)
{
    return ep->cm->connect(ep, addr, param, paramlen);
}

static inline int fi_accept(struct fid_ep *ep, const void *param, size_t paramlen)
{
    return ep->cm->accept(ep, param, paramlen);
}

static inline int fi_reject(struct fid_pep *pep, fid_t handle, const void *param, size_t paramlen)
{
    return pep->cm->reject(pep, handle, param, paramlen);
}

/* Closes a connection gracefully; both sides get FI_SHUTDOWN. `flags` is reserved (0). fi_cm(3) */
static inline int fi_shutdown(struct fid_ep *ep, uint64_t flags)
{
    return ep->cm->shutdown(ep, flags);
}

/*
 * Joins a multicast group; FI_JOIN_COMPLETE follows on the event queue. -FI_ENOSYS: not supported.
 * fi_cm(3)
 */
static inline int
fi_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc, void *context)
{
    if (!FI_CHECK_OP(ep->cm, struct fi_ops_cm, join))
        return -FI_ENOSYS;
    return ep->cm->join(ep, addr, flags, mc, context);
}

/* Returns the address for messages to a joined group. fi_cm(3) */
static inline fi_addr_t fi_mc_addr(struct fid_mc *mc)
{
    return mc->fi_addr;
}

#ifdef __cplusplus
}
#endif

#endif /* FI_CM_H */
