/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Event queues fi_eq(3), completion queues fi_cq(3), counters fi_cntr(3), wait and poll sets
 * fi_poll(3).
 *
 * Timeouts are in milliseconds, a negative one waits forever. -FI_EAGAIN: nothing is there (a
 * timeout passed); -FI_EAVAIL: an error entry comes first, read it with the readerr call.
 *
 * Written by build.rs from src/abi/fi_eq.rs and src/abi/fi_eq.h.in; change those.
 */

#ifndef FI_EQ_H
#define FI_EQ_H

#include <poll.h>
#include <pthread.h>

#include <rdma/fabric.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_cntr_attr;
struct fi_cq_attr;
struct fi_cq_data_entry;
struct fi_cq_entry;
struct fi_cq_err_entry;
struct fi_cq_msg_entry;
struct fi_cq_tagged_entry;
struct fi_eq_attr;
struct fi_eq_cm_entry;
struct fi_eq_entry;
struct fi_eq_err_entry;
struct fi_info;
struct fi_mutex_cond;
struct fi_ops_cntr;
struct fi_ops_cq;
struct fi_ops_eq;
struct fi_ops_poll;
struct fi_ops_wait;
struct fi_poll_attr;
struct fi_wait_attr;
struct fi_wait_pollfd;
struct fid;
struct fid_cntr;
struct fid_cq;
struct fid_eq;
struct fid_poll;
struct fid_wait;
struct fid_xpu_cntr;
struct fid_xpu_cq;
struct fid_xpu_ctx;

/** Kinds of events. This one: something changed, struct fi_eq_entry. fi_eq(3) */
#define FI_NOTIFY 0

/**
 * A connection is asked for, struct fi_eq_cm_entry; its info goes to fi_endpoint or its
 * handle to fi_reject, then to fi_freeinfo.
 */
#define FI_CONNREQ 1

/** The connection stands, struct fi_eq_cm_entry. */
#define FI_CONNECTED 2

/** The connection is over, struct fi_eq_cm_entry. */
#define FI_SHUTDOWN 3

/** The region is registered, struct fi_eq_entry. */
#define FI_MR_COMPLETE 4

/** The addresses are inserted, struct fi_eq_entry; `data` says how many. */
#define FI_AV_COMPLETE 5

/** The group is joined, struct fi_eq_entry. */
#define FI_JOIN_COMPLETE 6

/** What a thread sleeps on. fi_eq(3), fi_cq(3), fi_cntr(3) */
enum fi_wait_obj {
    /** Nothing: the sread and wait calls are not used. */
    FI_WAIT_NONE = 0,
    /** Whatever the provider likes; only through the sread and wait calls. */
    FI_WAIT_UNSPEC = 1,
    /** A wait set. Deprecated. */
    FI_WAIT_SET = 2,
    /** A file descriptor for poll(2) and the like; FI_GETWAIT tells it. */
    FI_WAIT_FD = 3,
    /** A mutex and a condition. Deprecated. */
    FI_WAIT_MUTEX_COND = 4,
    /** Gives the processor away between looks. */
    FI_WAIT_YIELD = 5,
    /** Several file descriptors, struct fi_wait_pollfd. */
    FI_WAIT_POLLFD = 6,
};

/** Which struct a queue's entries are. fi_cq(3) */
enum fi_cq_format {
    /** The provider's choice. */
    FI_CQ_FORMAT_UNSPEC = 0,
    /** struct fi_cq_entry. */
    FI_CQ_FORMAT_CONTEXT = 1,
    /** struct fi_cq_msg_entry. */
    FI_CQ_FORMAT_MSG = 2,
    /** struct fi_cq_data_entry. */
    FI_CQ_FORMAT_DATA = 3,
    /** struct fi_cq_tagged_entry. */
    FI_CQ_FORMAT_TAGGED = 4,
};

/** What `cond` of fi_cq_sread is. fi_cq(3) */
enum fi_cq_wait_cond {
    /** Nothing. */
    FI_CQ_COND_NONE = 0,
    /** The number of entries to wait for, cast to a pointer. */
    FI_CQ_COND_THRESHOLD = 1,
};

/** What a counter counts. fi_cntr(3) */
enum fi_cntr_events {
    /** Operations. */
    FI_CNTR_EVENTS_COMP = 0,
    /** Bytes. */
    FI_CNTR_EVENTS_BYTES = 1,
};

/** A wait set. Deprecated. fi_poll(3) */
struct fi_wait_attr {
    enum fi_wait_obj wait_obj;
    /** 0. */
    uint64_t flags;
};

/** A wait set. Deprecated. fi_poll(3) */
struct fid_wait {
    struct fid fid;
    struct fi_ops_wait *ops;
};

/** Operations of a wait set. Deprecated. fi_poll(3) */
struct fi_ops_wait {
    size_t size;
    int (*wait)(struct fid_wait *waitset, int timeout);
};

/** What FI_GETWAIT gives for FI_WAIT_MUTEX_COND. fi_eq(3) */
struct fi_mutex_cond {
    pthread_mutex_t *mutex;
    pthread_cond_t *cond;
};

/** What FI_GETWAIT gives for FI_WAIT_POLLFD. fi_poll(3) */
struct fi_wait_pollfd {
    /** Out: changes when the descriptors do. */
    uint64_t change_index;
    /** In and out: entries of `fd`; -FI_ETOOSMALL says how many are needed. */
    size_t nfds;
    /** Array for poll(2). */
    struct pollfd *fd;
};

/** A poll set. Deprecated. fi_poll(3) */
struct fi_poll_attr {
    /** 0. */
    uint64_t flags;
};

/** A poll set. Deprecated. fi_poll(3) */
struct fid_poll {
    struct fid fid;
    struct fi_ops_poll *ops;
};

/** Operations of a poll set. Deprecated. fi_poll(3) */
struct fi_ops_poll {
    size_t size;
    int (*poll)(struct fid_poll *pollset, void **context, int count);
    int (*poll_add)(struct fid_poll *pollset, struct fid *event_fid, uint64_t flags);
    int (*poll_del)(struct fid_poll *pollset, struct fid *event_fid, uint64_t flags);
};

/** An event queue. fi_eq(3) */
struct fi_eq_attr {
    /** Least number of events it holds; 0: the provider's choice. */
    size_t size;
    /** FI_WRITE allows fi_eq_write; FI_AFFINITY. */
    uint64_t flags;
    enum fi_wait_obj wait_obj;
    /** With FI_AFFINITY: the processor for interrupts. */
    int signaling_vector;
    /** With FI_WAIT_SET. Deprecated. */
    struct fid_wait *wait_set;
};

/** An event. fi_eq(3) */
struct fi_eq_entry {
    /** The object it is about. */
    fid_t fid;
    /** The object's context, or that of the operation. */
    void *context;
    /** By kind of event. */
    uint64_t data;
};

/** A failure. fi_eq(3) */
struct fi_eq_err_entry {
    /** The object it is about. */
    fid_t fid;
    /** The object's context, or that of the operation. */
    void *context;
    /** By kind of operation: which of several addresses, ... */
    uint64_t data;
    /** FI_E*, positive. */
    int err;
    /** The provider's own code, see fi_eq_strerror. */
    int prov_errno;
    /**
     * In: where to copy detail, or NULL. Out: detail, such as what the peer gave to
     * fi_reject.
     */
    void *err_data;
    /** Bytes of err_data. In as 0: detail stays the library's, valid until the next read. */
    size_t err_data_size;
};

/** An event of a connection. fi_eq(3), fi_cm(3) */
struct fi_eq_cm_entry {
    /** The endpoint. */
    fid_t fid;
    /** With FI_CONNREQ: what to accept the connection with; the reader frees it. */
    struct fi_info *info;
    /**
     * What the peer gave as `param`; its length is what the read returned beyond this
     * struct.
     */
    uint8_t data[];
};

/** An event queue. fi_eq(3) */
struct fid_eq {
    struct fid fid;
    struct fi_ops_eq *ops;
};

/** Operations of an event queue. fi_eq(3) */
struct fi_ops_eq {
    size_t size;
    ssize_t (*read)(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags);
    ssize_t (*readerr)(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags);
    ssize_t (*write)(struct fid_eq *eq, uint32_t event, const void *buf, size_t len, uint64_t flags);
    ssize_t (*sread)(struct fid_eq *eq,
                     uint32_t *event,
                     void *buf,
                     size_t len,
                     int timeout,
                     uint64_t flags);
    const char *(*strerror)(struct fid_eq *eq,
                            int prov_errno,
                            const void *err_data,
                            char *buf,
                            size_t len);
};

/** A completion. fi_cq(3) */
struct fi_cq_entry {
    /** The context of the operation. */
    void *op_context;
};

/** A completion. fi_cq(3) */
struct fi_cq_msg_entry {
    /** The context of the operation. */
    void *op_context;
    /** What it was: FI_SEND, FI_RECV, FI_MSG, FI_TAGGED, FI_RMA, ... */
    uint64_t flags;
    /** Bytes received. */
    size_t len;
};

/** A completion. fi_cq(3) */
struct fi_cq_data_entry {
    /** The context of the operation. */
    void *op_context;
    /** What it was: FI_SEND, FI_RECV, FI_MSG, FI_TAGGED, FI_RMA, ... */
    uint64_t flags;
    /** Bytes received. */
    size_t len;
    /** With FI_MULTI_RECV: where the message lies. */
    void *buf;
    /** With FI_REMOTE_CQ_DATA: what the sender gave. */
    uint64_t data;
};

/** A completion. fi_cq(3) */
struct fi_cq_tagged_entry {
    /** The context of the operation. */
    void *op_context;
    /** What it was: FI_SEND, FI_RECV, FI_MSG, FI_TAGGED, FI_RMA, ... */
    uint64_t flags;
    /** Bytes received. */
    size_t len;
    /** With FI_MULTI_RECV: where the message lies. */
    void *buf;
    /** With FI_REMOTE_CQ_DATA: what the sender gave. */
    uint64_t data;
    /** Tag of the message received. */
    uint64_t tag;
};

/**
 * A failed operation. Programs that asked for a version below 1.5 know it up to err_data,
 * below 1.20 up to err_data_size. fi_cq(3)
 */
struct fi_cq_err_entry {
    /** The context of the operation. */
    void *op_context;
    /** What it was. */
    uint64_t flags;
    /** Bytes placed. */
    size_t len;
    /** With FI_MULTI_RECV: where the message lies. */
    void *buf;
    /** With FI_REMOTE_CQ_DATA: what the sender gave. */
    uint64_t data;
    /** Tag of the message received. */
    uint64_t tag;
    /** With FI_ETRUNC: bytes that did not fit. */
    size_t olen;
    /** FI_E*, positive. */
    int err;
    /** The provider's own code, see fi_cq_strerror. */
    int prov_errno;
    /** In: where to copy detail, or NULL. Out: detail. */
    void *err_data;
    /** Bytes of err_data. In as 0: detail stays the library's, valid until the next read. */
    size_t err_data_size;
    /** The sender, where known: with FI_SOURCE_ERR or authorization keys. */
    fi_addr_t src_addr;
};

/** A completion queue. fi_cq(3) */
struct fi_cq_attr {
    /** Least number of entries it holds; 0: the provider's choice. */
    size_t size;
    /** FI_AFFINITY, FI_PEER. */
    uint64_t flags;
    enum fi_cq_format format;
    enum fi_wait_obj wait_obj;
    /** With FI_AFFINITY: the processor for interrupts. */
    int signaling_vector;
    /** What fi_cq_sread waits for. */
    enum fi_cq_wait_cond wait_cond;
    /** With FI_WAIT_SET. Deprecated. */
    struct fid_wait *wait_set;
    /** With FI_XPU: the device that reads the queue. fi_xpu(3) */
    struct fid_xpu_ctx *xpu_ctx;
};

/** A completion queue. fi_cq(3) */
struct fid_cq {
    struct fid fid;
    struct fi_ops_cq *ops;
};

/** Operations of a completion queue. fi_cq(3) */
struct fi_ops_cq {
    size_t size;
    ssize_t (*read)(struct fid_cq *cq, void *buf, size_t count);
    ssize_t (*readfrom)(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr);
    ssize_t (*readerr)(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags);
    ssize_t (*sread)(struct fid_cq *cq, void *buf, size_t count, const void *cond, int timeout);
    ssize_t (*sreadfrom)(struct fid_cq *cq,
                         void *buf,
                         size_t count,
                         fi_addr_t *src_addr,
                         const void *cond,
                         int timeout);
    int (*signal)(struct fid_cq *cq);
    const char *(*strerror)(struct fid_cq *cq,
                            int prov_errno,
                            const void *err_data,
                            char *buf,
                            size_t len);
    int (*export_xpu)(struct fid_cq *cq, uint64_t flags, struct fid_xpu_cq *xpu_cq);
};

/** A counter. fi_cntr(3) */
struct fi_cntr_attr {
    enum fi_cntr_events events;
    enum fi_wait_obj wait_obj;
    /** With FI_WAIT_SET. Deprecated. */
    struct fid_wait *wait_set;
    /** 0, FI_PEER. */
    uint64_t flags;
    /** With FI_XPU: the device that reads the counter. fi_xpu(3) */
    struct fid_xpu_ctx *xpu_ctx;
};

/** A counter. fi_cntr(3) */
struct fid_cntr {
    struct fid fid;
    struct fi_ops_cntr *ops;
};

/** Operations of a counter. fi_cntr(3) */
struct fi_ops_cntr {
    size_t size;
    uint64_t (*read)(struct fid_cntr *cntr);
    uint64_t (*readerr)(struct fid_cntr *cntr);
    int (*add)(struct fid_cntr *cntr, uint64_t value);
    int (*set)(struct fid_cntr *cntr, uint64_t value);
    int (*wait)(struct fid_cntr *cntr, uint64_t threshold, int timeout);
    int (*adderr)(struct fid_cntr *cntr, uint64_t value);
    int (*seterr)(struct fid_cntr *cntr, uint64_t value);
    int (*export_xpu)(struct fid_cntr *cntr, uint64_t flags, struct fid_xpu_cntr *xpu_cntr);
};

/*
 * Whether the caller may now block on the file descriptors of these objects: 0 yes, -FI_EAGAIN:
 * read them first. fi_poll(3)
 */
static inline int fi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    return fabric->ops->trywait(fabric, fids, count);
}

/*
 * Waits until an object of the set may have something to read. Deprecated with the wait set
 * itself. fi_poll(3)
 */
FI_DEPRECATED_FUNC static inline int fi_wait(struct fid_wait *waitset, int timeout)
{
    return waitset->ops->wait(waitset, timeout);
}

/*
 * Poll sets, deprecated: fi_poll writes the contexts of objects that have something and returns
 * their number. fi_poll(3)
 */
FI_DEPRECATED_FUNC static inline int fi_poll(struct fid_poll *pollset, void **context, int count)
{
    return pollset->ops->poll(pollset, context, count);
}

FI_DEPRECATED_FUNC static inline int
fi_poll_add(struct fid_poll *pollset, struct fid *event_fid, uint64_t flags)
{
    return pollset->ops->poll_add(pollset, event_fid, flags);
}

FI_DEPRECATED_FUNC static inline int
fi_poll_del(struct fid_poll *pollset, struct fid *event_fid, uint64_t flags)
{
    return pollset->ops->poll_del(pollset, event_fid, flags);
}

/* Opens an event queue of a fabric. fi_eq(3) */
static inline int
fi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context)
{
    return fabric->ops->eq_open(fabric, attr, eq, context);
}

/*
 * Reads one event: its kind into *event, its struct into buf; returns bytes. FI_PEEK leaves it
 * there. -FI_ETOOSMALL: `len` is too short. fi_eq(3)
 */
static inline ssize_t
fi_eq_read(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
    return eq->ops->read(eq, event, buf, len, flags);
}

static inline ssize_t
fi_eq_sread(struct fid_eq *eq, uint32_t *event, void *buf, size_t len, int timeout, uint64_t flags)
{
    return eq->ops->sread(eq, event, buf, len, timeout, flags);
}

/* Reads the error at the head: bytes, or -FI_EAGAIN if there is none. fi_eq(3) */
static inline ssize_t fi_eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags)
{
    return eq->ops->readerr(eq, buf, flags);
}

/* Puts an event of the application into the queue; returns bytes. fi_eq(3) */
static inline ssize_t
fi_eq_write(struct fid_eq *eq, uint32_t event, const void *buf, size_t len, uint64_t flags)
{
    return eq->ops->write(eq, event, buf, len, flags);
}

/* The message for a provider error code of an error entry, in `buf` or in static storage. fi_eq(3) */
static inline const char *
fi_eq_strerror(struct fid_eq *eq, int prov_errno, const void *err_data, char *buf, size_t len)
{
    return eq->ops->strerror(eq, prov_errno, err_data, buf, len);
}

/*
 * Reads up to `count` entries of the format the queue was opened with; returns how many. The s
 * forms wait; the from forms also give one source address per entry, FI_ADDR_NOTAVAIL where
 * unknown. fi_cq(3)
 */
static inline ssize_t fi_cq_read(struct fid_cq *cq, void *buf, size_t count)
{
    return cq->ops->read(cq, buf, count);
}

static inline ssize_t
fi_cq_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr)
{
    return cq->ops->readfrom(cq, buf, count, src_addr);
}

static inline ssize_t
fi_cq_sread(struct fid_cq *cq, void *buf, size_t count, const void *cond, int timeout)
{
    return cq->ops->sread(cq, buf, count, cond, timeout);
}

static inline ssize_t
fi_cq_sreadfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src_addr, const void *cond,
                int timeout)
{
    return cq->ops->sreadfrom(cq, buf, count, src_addr, cond, timeout);
}

/*
 * Reads the error at the head: 1, or -FI_EAGAIN if there is none. err_data and err_data_size of
 * *buf are input too: where detail of the error may go. fi_cq(3)
 */
static inline ssize_t fi_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
    if (buf)
        buf->src_addr = FI_ADDR_NOTAVAIL;
    return cq->ops->readerr(cq, buf, flags);
}

/* Wakes a thread in fi_cq_sread; it returns -FI_EAGAIN if it has nothing. fi_cq(3) */
static inline int fi_cq_signal(struct fid_cq *cq)
{
    return cq->ops->signal(cq);
}

/* The message for a provider error code of an error entry, in `buf` or in static storage. fi_cq(3) */
static inline const char *
fi_cq_strerror(struct fid_cq *cq, int prov_errno, const void *err_data, char *buf, size_t len)
{
    return cq->ops->strerror(cq, prov_errno, err_data, buf, len);
}

/* Tells a device of a queue, of a counter, that was made for it. fi_cq(3), fi_cntr(3), fi_xpu(3) */
static inline int
fi_cq_export_xpu(struct fid_cq *cq, uint64_t flags, struct fid_xpu_cq *xpu_cq)
{
    if (!FI_CHECK_OP(cq->ops, struct fi_ops_cq, export_xpu))
        return -FI_ENOSYS;
    return cq->ops->export_xpu(cq, flags, xpu_cq);
}

static inline int
fi_cntr_export_xpu(struct fid_cntr *cntr, uint64_t flags, struct fid_xpu_cntr *xpu_cntr)
{
    if (!FI_CHECK_OP(cntr->ops, struct fi_ops_cntr, export_xpu))
        return -FI_ENOSYS;
    return cntr->ops->export_xpu(cntr, flags, xpu_cntr);
}

/* A counter's number of successes, of failures. fi_cntr(3) */
static inline uint64_t fi_cntr_read(struct fid_cntr *cntr)
{
    return cntr->ops->read(cntr);
}

static inline uint64_t fi_cntr_readerr(struct fid_cntr *cntr)
{
    return cntr->ops->readerr(cntr);
}

/* Adds to or sets a counter's number of successes, of failures. fi_cntr(3) */
static inline int fi_cntr_add(struct fid_cntr *cntr, uint64_t value)
{
    return cntr->ops->add(cntr, value);
}

static inline int fi_cntr_adderr(struct fid_cntr *cntr, uint64_t value)
{
    if (!FI_CHECK_OP(cntr->ops, struct fi_ops_cntr, adderr))
        return -FI_ENOSYS;
    return cntr->ops->adderr(cntr, value);
}

static inline int fi_cntr_set(struct fid_cntr *cntr, uint64_t value)
{
    return cntr->ops->set(cntr, value);
}

static inline int fi_cntr_seterr(struct fid_cntr *cntr, uint64_t value)
{
    if (!FI_CHECK_OP(cntr->ops, struct fi_ops_cntr, seterr))
        return -FI_ENOSYS;
    return cntr->ops->seterr(cntr, value);
}

/*
 * Waits until the successes reach `threshold`. -FI_EAVAIL: the failures changed; -FI_ETIMEDOUT.
 * fi_cntr(3)
 */
static inline int fi_cntr_wait(struct fid_cntr *cntr, uint64_t threshold, int timeout)
{
    return cntr->ops->wait(cntr, threshold, timeout);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_EQ_H */
