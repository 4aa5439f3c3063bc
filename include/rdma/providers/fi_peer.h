/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Objects that one provider owns and another one uses, fi_peer(3).
 *
 * Written by build.rs from src/abi/fi_peer.rs and src/abi/fi_peer.h.in; change those.
 */

#ifndef FI_PEER_H
#define FI_PEER_H

#include <stdbool.h>

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_endpoint.h>
#include <rdma/providers/fi_prov.h>
#include <rdma/providers/fi_log.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_av_attr;
struct fi_cq_err_entry;
struct fi_cq_tagged_entry;
struct fi_info;
struct fi_ops_av_owner;
struct fi_ops_av_set_owner;
struct fi_ops_cntr_owner;
struct fi_ops_cq_owner;
struct fi_ops_srx_owner;
struct fi_ops_srx_peer;
struct fi_ops_transfer_peer;
struct fi_peer_av_context;
struct fi_peer_av_set;
struct fi_peer_av_set_context;
struct fi_peer_cntr_context;
struct fi_peer_cq_context;
struct fi_peer_domain_context;
struct fi_peer_eq_context;
struct fi_peer_match_attr;
struct fi_peer_rx_entry;
struct fi_peer_srx_context;
struct fi_peer_transfer_context;
struct fid_domain;
struct fid_ep;
struct fid_eq;
struct fid_peer_av;
struct fid_peer_av_set;
struct fid_peer_cntr;
struct fid_peer_cq;
struct fid_peer_srx;

/** An incomplete type: fi_peer_av_set_context points to it, but no header defines it. */
struct fi_peer_av_set;

/** An address vector of another provider. fi_peer(3) */
struct fid_peer_av {
    struct fid fid;
    struct fi_ops_av_owner *owner_ops;
};

/** Functions that the owner of an address vector provides. fi_peer(3) */
struct fi_ops_av_owner {
    size_t size;
    int (*query)(struct fid_peer_av *av, struct fi_av_attr *attr);
    fi_addr_t (*ep_addr)(struct fid_peer_av *av, struct fid_ep *ep);
};

/** Context for fi_av_open with FI_PEER. fi_peer(3) */
struct fi_peer_av_context {
    size_t size;
    struct fid_peer_av *av;
};

/** An address set of another provider. fi_peer(3) */
struct fid_peer_av_set {
    struct fid fid;
    struct fi_ops_av_set_owner *owner_ops;
};

/** Functions that the owner of an address set provides. fi_peer(3) */
struct fi_ops_av_set_owner {
    size_t size;
    int (*members)(struct fid_peer_av_set *av, fi_addr_t *addr, size_t *count);
};

/** Context for fi_av_set with FI_PEER. fi_peer(3) */
struct fi_peer_av_set_context {
    size_t size;
    struct fi_peer_av_set *av_set;
};

/** A completion queue of another provider. fi_peer(3) */
struct fid_peer_cq {
    struct fid fid;
    struct fi_ops_cq_owner *owner_ops;
};

/** Functions that the owner of a completion queue provides. fi_peer(3) */
struct fi_ops_cq_owner {
    size_t size;
    /** Adds a completion. */
    ssize_t (*write)(struct fid_peer_cq *cq,
                     void *context,
                     uint64_t flags,
                     size_t len,
                     void *buf,
                     uint64_t data,
                     uint64_t tag,
                     fi_addr_t src);
    /** Adds a failure. */
    ssize_t (*writeerr)(struct fid_peer_cq *cq, const struct fi_cq_err_entry *err_entry);
};

/** Context for fi_cq_open with FI_PEER. fi_peer(3) */
struct fi_peer_cq_context {
    size_t size;
    struct fid_peer_cq *cq;
};

/** A counter of another provider. fi_peer(3) */
struct fid_peer_cntr {
    struct fid fid;
    struct fi_ops_cntr_owner *owner_ops;
};

/** Functions that the owner of a counter provides. fi_peer(3) */
struct fi_ops_cntr_owner {
    size_t size;
    void (*inc)(struct fid_peer_cntr *cntr);
    void (*incerr)(struct fid_peer_cntr *cntr);
};

/** Context for fi_cntr_open with FI_PEER. fi_peer(3) */
struct fi_peer_cntr_context {
    size_t size;
    struct fid_peer_cntr *cntr;
};

/** Context for fi_domain2 with FI_PEER. fi_peer(3) */
struct fi_peer_domain_context {
    size_t size;
    struct fid_domain *domain;
};

/** Context for fi_eq_open with FI_PEER. fi_peer(3) */
struct fi_peer_eq_context {
    size_t size;
    struct fid_eq *eq;
};

/** Attributes of a message that select its receive. fi_peer(3) */
struct fi_peer_match_attr {
    fi_addr_t addr;
    size_t msg_size;
    uint64_t tag;
};

/** Functions that the owner of a shared receive context provides. fi_peer(3) */
struct fi_ops_srx_owner {
    size_t size;
    /**
     * Returns the receive for a message. -FI_ENOENT: none is posted, and the peer passes the entry to
     * queue_msg.
     */
    int (*get_msg)(struct fid_peer_srx *srx,
                   struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **entry);
    /** The same for a tagged message. */
    int (*get_tag)(struct fid_peer_srx *srx,
                   struct fi_peer_match_attr *attr,
                   struct fi_peer_rx_entry **entry);
    /** Queues an unexpected message. */
    int (*queue_msg)(struct fi_peer_rx_entry *entry);
    /** The same for a tagged message. */
    int (*queue_tag)(struct fi_peer_rx_entry *entry);
    /** Calls `get_addr` for each unexpected message whose sender address is unknown. */
    void (*foreach_unspec_addr)(struct fid_peer_srx *srx,
                                fi_addr_t (*get_addr)(struct fi_peer_rx_entry *entry));
    /** Releases an entry. */
    void (*free_entry)(struct fi_peer_rx_entry *entry);
};

/** Functions that a peer provides to the owner. fi_peer(3) */
struct fi_ops_srx_peer {
    size_t size;
    /** Starts the transfer of a queued message into the receive that was posted for it. */
    int (*start_msg)(struct fi_peer_rx_entry *entry);
    /** The same for a tagged message. */
    int (*start_tag)(struct fi_peer_rx_entry *entry);
    /** Discards a queued message. */
    int (*discard_msg)(struct fi_peer_rx_entry *entry);
    /** The same for a tagged message. */
    int (*discard_tag)(struct fi_peer_rx_entry *entry);
};

/** A shared receive context of another provider. fi_peer(3) */
struct fid_peer_srx {
    struct fid_ep ep_fid;
    struct fi_ops_srx_owner *owner_ops;
    struct fi_ops_srx_peer *peer_ops;
};

/** A receive that the owner matched, or an unexpected message; the peer fills the buffer. fi_peer(3) */
struct fi_peer_rx_entry {
    struct fid_peer_srx *srx;
    fi_addr_t addr;
    size_t msg_size;
    uint64_t tag;
    uint64_t cq_data;
    uint64_t flags;
    void *context;
    size_t count;
    void **desc;
    /** Private to the peer. */
    void *peer_context;
    /** Private to the owner. */
    void *owner_context;
    struct iovec *iov;
};

/** Context for fi_srx_context with FI_PEER. fi_peer(3) */
struct fi_peer_srx_context {
    size_t size;
    struct fid_peer_srx *srx;
};

/** Functions that report the transfers which a provider passed to another provider. fi_peer(3) */
struct fi_ops_transfer_peer {
    size_t size;
    ssize_t (*complete)(struct fid_ep *ep, struct fi_cq_tagged_entry *buf, fi_addr_t src_addr);
    ssize_t (*comperr)(struct fid_ep *ep, struct fi_cq_err_entry *buf);
};

/** Context for fi_endpoint2 with FI_PEER_TRANSFER. fi_peer(3) */
struct fi_peer_transfer_context {
    size_t size;
    struct fi_info *info;
    struct fid_ep *ep;
    struct fi_ops_transfer_peer *peer_ops;
};

#ifdef __cplusplus
}
#endif

#endif /* FI_PEER_H */
