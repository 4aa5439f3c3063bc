/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Event queues, fi_eq(3); completion queues, fi_cq(3); counters, fi_cntr(3); wait and poll sets,
 * fi_poll(3).
 *
 * Timeouts are in milliseconds; a negative timeout never expires. -FI_EAGAIN: the queue is empty, or
 * the timeout has expired. -FI_EAVAIL: an error entry is at the head, read it with the readerr call.
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

/** Kinds of events. FI_NOTIFY: the state of an object changed, struct fi_eq_entry. fi_eq(3) */
#define FI_NOTIFY 0

/**
 * A connection request arrived, struct fi_eq_cm_entry. The application passes its info to fi_endpoint
 * or the handle in it to fi_reject, and then frees the info with fi_freeinfo.
 */
#define FI_CONNREQ 1

/** The connection is established, struct fi_eq_cm_entry. */
#define FI_CONNECTED 2

/** The connection has ended, struct fi_eq_cm_entry. */
#define FI_SHUTDOWN 3

/** The region is registered, struct fi_eq_entry. */
#define FI_MR_COMPLETE 4

/** The addresses are inserted, struct fi_eq_entry; `data` is their number. */
#define FI_AV_COMPLETE 5

/** The group is joined, struct fi_eq_entry. */
#define FI_JOIN_COMPLETE 6

/** Wait objects: how a thread blocks until a queue or counter changes. fi_eq(3), fi_cq(3), fi_cntr(3) */
enum fi_wait_obj {
    /** None: the application does not use the sread and wait calls. */
    FI_WAIT_NONE = 0,
    /** The provider's choice; the application blocks only in the sread and wait calls. */
    FI_WAIT_UNSPEC = 1,
    /** A wait set. Deprecated. */
    FI_WAIT_SET = 2,
    /** A file descriptor for poll(2) and the like; FI_GETWAIT returns it. */
    FI_WAIT_FD = 3,
    /** A mutex and a condition variable. Deprecated. */
    FI_WAIT_MUTEX_COND = 4,
    /** None: a waiting thread polls and yields the processor between two polls. */
    FI_WAIT_YIELD = 5,
    /** Several file descriptors, struct fi_wait_pollfd. */
    FI_WAIT_POLLFD = 6,
};

/** The struct of a queue's entries. fi_cq(3) */
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

/** Meaning of the argument `cond` of fi_cq_sread. fi_cq(3) */
enum fi_cq_wait_cond {
    /** The argument is ignored. */
    FI_CQ_COND_NONE = 0,
    /** The number of entries to wait for, cast to a pointer. */
    FI_CQ_COND_THRESHOLD = 1,
};

/** Unit of a counter. fi_cntr(3) */
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

/** Result of FI_GETWAIT for FI_WAIT_MUTEX_COND. fi_eq(3) */
struct fi_mutex_cond {
    pthread_mutex_t *mutex;
    pthread_cond_t *cond;
};

/** Result of FI_GETWAIT for FI_WAIT_POLLFD. fi_poll(3) */
struct fi_wait_pollfd {
    /** Out: a number that changes whenever the set of descriptors changes. */
    uint64_t change_index;
    /** In and out: entries of `fd`; with -FI_ETOOSMALL the number that is needed. */
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
    /** Least number of events that the queue holds; 0: the provider's choice. */
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
    /** The object that the event concerns. */
    fid_t fid;
    /** Context of the object or of the operation. */
    void *context;
    /** Depends on the kind of event. */
    uint64_t data;
};

/** A failure. fi_eq(3) */
struct fi_eq_err_entry {
    /** The object that the event concerns. */
    fid_t fid;
    /** Context of the object or of the operation. */
    void *context;
    /** Depends on the operation, for example the index of the address that failed. */
    uint64_t data;
    /** FI_E*, positive. */
    int err;
    /** The provider's own code, see fi_eq_strerror. */
    int prov_errno;
    /**
     * In: buffer for details, or NULL. Out: details, such as the `param` that the peer passed to
     * fi_reject.
     */
    void *err_data;
    /**
     * Bytes of err_data. If 0 on input, err_data points to memory of the library on return, valid until
     * the next read.
     */
    size_t err_data_size;
};

/** An event of a connection. fi_eq(3), fi_cm(3) */
struct fi_eq_cm_entry {
    /** The endpoint. */
    fid_t fid;
    /** With FI_CONNREQ: attributes of an endpoint that accepts the connection; the application frees them. */
    struct fi_info *info;
    /**
     * The `param` that the peer passed. Its length is the return value of the read minus the size of
     * this struct.
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
    /** Kind of the operation: FI_SEND, FI_RECV, FI_MSG, FI_TAGGED, FI_RMA, ... */
    uint64_t flags;
    /** Bytes received. */
    size_t len;
};

/** A completion. fi_cq(3) */
struct fi_cq_data_entry {
    /** The context of the operation. */
    void *op_context;
    /** Kind of the operation: FI_SEND, FI_RECV, FI_MSG, FI_TAGGED, FI_RMA, ... */
    uint64_t flags;
    /** Bytes received. */
    size_t len;
    /** With FI_MULTI_RECV: address of the message in the buffer. */
    void *buf;
    /** With FI_REMOTE_CQ_DATA: data of the sender. */
    uint64_t data;
};

/** A completion. fi_cq(3) */
struct fi_cq_tagged_entry {
    /** The context of the operation. */
    void *op_context;
    /** Kind of the operation: FI_SEND, FI_RECV, FI_MSG, FI_TAGGED, FI_RMA, ... */
    uint64_t flags;
    /** Bytes received. */
    size_t len;
    /** With FI_MULTI_RECV: address of the message in the buffer. */
    void *buf;
    /** With FI_REMOTE_CQ_DATA: data of the sender. */
    uint64_t data;
    /** Tag of the message received. */
    uint64_t tag;
};

/**
 * A failed operation. For a program that requested a version below 1.5 the struct ends with err_data,
 * below 1.20 with err_data_size. fi_cq(3)
 */
struct fi_cq_err_entry {
    /** The context of the operation. */
    void *op_context;
    /** Kind of the operation. */
    uint64_t flags;
    /** Bytes placed. */
    size_t len;
    /** With FI_MULTI_RECV: address of the message in the buffer. */
    void *buf;
    /** With FI_REMOTE_CQ_DATA: data of the sender. */
    uint64_t data;
    /** Tag of the message received. */
    uint64_t tag;
    /** With FI_ETRUNC: bytes that did not fit. */
    size_t olen;
    /** FI_E*, positive. */
    int err;
    /** The provider's own code, see fi_cq_strerror. */
    int prov_errno;
    /** In: buffer for details, or NULL. Out: details. */
    void *err_data;
    /**
     * Bytes of err_data. If 0 on input, err_data points to memory of the library on return, valid until
     * the next read.
     */
    size_t err_data_size;
    /** The sender, if it is known: with FI_SOURCE_ERR or authorization keys. */
    fi_addr_t src_addr;
};

/** A completion queue. fi_cq(3) */
struct fi_cq_attr {
    /** Least number of entries that the queue holds; 0: the provider's choice. */
    size_t size;
    /** FI_AFFINITY, FI_PEER. */
    uint64_t flags;
    enum fi_cq_format format;
    enum fi_wait_obj wait_obj;
    /** With FI_AFFINITY: the processor for interrupts. */
    int signaling_vector;
    /** Condition that ends the wait of fi_cq_sread. */
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
 * Returns 0 if the caller may now block on the file descriptors of these objects. -FI_EAGAIN: read the
 * objects first. fi_poll(3)
 */
static inline int fi_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
    return fabric->ops->trywait(fabric, fids, count);
}

/*
 * Waits until an object of the set may have something to read. Deprecated, as are wait sets.
 * fi_poll(3)
 */
FI_DEPRECATED_FUNC static inline int fi_wait(struct fid_wait *waitset, int timeout)
{
    return waitset->ops->wait(waitset, timeout);
}

/*
 * Poll sets, deprecated. fi_poll writes the contexts of objects that have something to read, and
 * returns their number. fi_poll(3)
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
 * Reads one event: its kind into *event, its struct into buf. Returns the number of bytes. FI_PEEK
 * leaves the event in the queue. -FI_ETOOSMALL: `len` is too short. fi_eq(3)
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

/* Reads the error at the head. Returns the number of bytes, or -FI_EAGAIN if there is none. fi_eq(3) */
static inline ssize_t fi_eq_readerr(struct fid_eq *eq, struct fi_eq_err_entry *buf, uint64_t flags)
{
    return eq->ops->readerr(eq, buf, flags);
}

/* Writes an event of the application to the queue. Returns the number of bytes. fi_eq(3) */
static inline ssize_t
fi_eq_write(struct fid_eq *eq, uint32_t event, const void *buf, size_t len, uint64_t flags)
{
    return eq->ops->write(eq, event, buf, len, flags);
}

/* Returns the message for the provider error code of an error entry, in `buf` or in static storage. fi_eq(3) */
static inline const char *
fi_eq_strerror(struct fid_eq *eq, int prov_errno, const void *err_data, char *buf, size_t len)
{
    return eq->ops->strerror(eq, prov_errno, err_data, buf, len);
}

/*
 * Read up to `count` entries in the format that the queue was opened with, and return how many. The s
 * forms wait. The from forms also write one source address per entry, FI_ADDR_NOTAVAIL if it is
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
 * Reads the error at the head. Returns 1, or -FI_EAGAIN if there is none. On input, err_data and
 * err_data_size of *buf name a buffer for details of the error. fi_cq(3)
 */
static inline ssize_t fi_cq_readerr(struct fid_cq *cq, struct fi_cq_err_entry *buf, uint64_t flags)
{
    if (buf)
        buf->src_addr = FI_ADDR_NOTAVAIL;
    return cq->ops->readerr(cq, buf, flags);
}

/* Wakes a thread in fi_cq_sread, which returns -FI_EAGAIN if the queue is empty. fi_cq(3) */
static inline int fi_cq_signal(struct fid_cq *cq)
{
    return cq->ops->signal(cq);
}

/* Returns the message for the provider error code of an error entry, in `buf` or in static storage. fi_cq(3) */
static inline const char *
fi_cq_strerror(struct fid_cq *cq, int prov_errno, const void *err_data, char *buf, size_t len)
{
    return cq->ops->strerror(cq, prov_errno, err_data, buf, len);
}

/* Export a queue or a counter to the device that it was opened for. fi_cq(3), fi_cntr(3), fi_xpu(3) */
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

/* Return a counter's number of successes and of failures. fi_cntr(3) */
static inline uint64_t fi_cntr_read(struct fid_cntr *cntr)
{
    return cntr->ops->read(cntr);
}

static inline uint64_t fi_cntr_readerr(struct fid_cntr *cntr)
{
    return cntr->ops->readerr(cntr);
}

/* Add to or set a counter's number of successes or failures. fi_cntr(3) */
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
 * Waits until the number of successes reaches `threshold`. -FI_EAVAIL: the number of failures changed.
 * -FI_ETIMEDOUT: the timeout has expired. fi_cntr(3)
 */
static inline int fi_cntr_wait(struct fid_cntr *cntr, uint64_t threshold, int timeout)
{
    return cntr->ops->wait(cntr, threshold, timeout);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_EQ_H */
