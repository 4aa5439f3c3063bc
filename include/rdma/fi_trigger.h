/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Triggered operations and deferred work, fi_trigger(3).
 *
 * Written by build.rs from src/abi/fi_trigger.rs and src/abi/fi_trigger.h.in; change those.
 */

#ifndef FI_TRIGGER_H
#define FI_TRIGGER_H

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_atomic.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_deferred_work;
struct fi_op_atomic;
struct fi_op_cntr;
struct fi_op_compare_atomic;
struct fi_op_fetch_atomic;
struct fi_op_msg;
struct fi_op_rma;
struct fi_op_tagged;
struct fi_trigger_threshold;
struct fi_trigger_var;
struct fi_trigger_xpu;
struct fi_triggered_context2;
struct fi_triggered_context;
struct fid_cntr;
struct fid_ep;

/** Events that start a triggered operation. fi_trigger(3) */
enum fi_trigger_event {
    /** A counter reaches a value. */
    FI_TRIGGER_THRESHOLD = 0,
    /** A device writes a variable. */
    FI_TRIGGER_XPU = 1,
};

/** Operations that can be deferred. fi_trigger(3) */
enum fi_op_type {
    FI_OP_RECV = 0,
    FI_OP_SEND = 1,
    FI_OP_TRECV = 2,
    FI_OP_TSEND = 3,
    FI_OP_READ = 4,
    FI_OP_WRITE = 5,
    FI_OP_ATOMIC = 6,
    FI_OP_FETCH_ATOMIC = 7,
    FI_OP_COMPARE_ATOMIC = 8,
    FI_OP_CNTR_SET = 9,
    FI_OP_CNTR_ADD = 10,
};

/** A counter and its value. fi_trigger(3) */
struct fi_trigger_threshold {
    struct fid_cntr *cntr;
    size_t threshold;
};

/** A variable that a device writes to start the operation. fi_trigger(3) */
struct fi_trigger_var {
    enum fi_datatype datatype;
    /** Elements at `addr`. */
    int count;
    /** Address of the variable. */
    void *addr;
    /**
     * Value that the device writes. The member depends on `datatype`; `data` unless that is an integer of
     * up to 64 bits.
     */
    union {
        uint8_t val8;
        uint16_t val16;
        uint32_t val32;
        uint64_t val64;
        uint8_t *data;
    } value;
};

/** A device that starts the operation. fi_trigger(3) */
struct fi_trigger_xpu {
    /** In and out: entries of `var`. */
    int count;
    enum fi_hmem_iface iface;
    union {
        uint64_t reserved;
        int cuda;
        int ze;
    } device;
    struct fi_trigger_var *var;
};

/** A deferred message. fi_trigger(3) */
struct fi_op_msg {
    struct fid_ep *ep;
    struct fi_msg msg;
    uint64_t flags;
};

/** A deferred message with a tag. fi_trigger(3) */
struct fi_op_tagged {
    struct fid_ep *ep;
    struct fi_msg_tagged msg;
    uint64_t flags;
};

/** A deferred read or write. fi_trigger(3) */
struct fi_op_rma {
    struct fid_ep *ep;
    struct fi_msg_rma msg;
    uint64_t flags;
};

/** A deferred atomic operation. fi_trigger(3) */
struct fi_op_atomic {
    struct fid_ep *ep;
    struct fi_msg_atomic msg;
    uint64_t flags;
};

/** A deferred atomic operation that returns the old value. fi_trigger(3) */
struct fi_op_fetch_atomic {
    struct fid_ep *ep;
    struct fi_msg_atomic msg;
    struct fi_msg_fetch fetch;
    uint64_t flags;
};

/** A deferred atomic operation that compares. fi_trigger(3) */
struct fi_op_compare_atomic {
    struct fid_ep *ep;
    struct fi_msg_atomic msg;
    struct fi_msg_fetch fetch;
    struct fi_msg_compare compare;
    uint64_t flags;
};

/** A deferred change of a counter. fi_trigger(3) */
struct fi_op_cntr {
    struct fid_cntr *cntr;
    uint64_t value;
};

/** The context of an operation with FI_TRIGGER if the mode has FI_CONTEXT. fi_trigger(3) */
struct fi_triggered_context {
    enum fi_trigger_event event_type;
    union {
        struct fi_trigger_threshold threshold;
        struct fi_trigger_xpu xpu;
        void *internal[3];
    } trigger;
};

/** The same if the mode has FI_CONTEXT2. fi_trigger(3) */
struct fi_triggered_context2 {
    enum fi_trigger_event event_type;
    union {
        struct fi_trigger_threshold threshold;
        struct fi_trigger_xpu xpu;
        void *internal[7];
    } trigger;
};

/**
 * Argument of FI_QUEUE_WORK. The application must not touch the struct and the memory it points to
 * until the operation has completed. fi_trigger(3)
 */
struct fi_deferred_work {
    struct fi_context2 context;
    /** The operation starts when triggering_cntr reaches this value. */
    uint64_t threshold;
    struct fid_cntr *triggering_cntr;
    /** Counter of the completion, or NULL. */
    struct fid_cntr *completion_cntr;
    enum fi_op_type op_type;
    union {
        struct fi_op_msg *msg;
        struct fi_op_tagged *tagged;
        struct fi_op_rma *rma;
        struct fi_op_atomic *atomic;
        struct fi_op_fetch_atomic *fetch_atomic;
        struct fi_op_compare_atomic *compare_atomic;
        struct fi_op_cntr *cntr;
    } op;
};

#ifdef __cplusplus
}
#endif

#endif /* FI_TRIGGER_H */
