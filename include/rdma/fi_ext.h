/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Extensions: import of log functions and memory monitors, fi_open(3), fi_provider(3); options of
 * single providers.
 *
 * Written by build.rs from src/abi/fi_ext.rs and src/abi/fi_ext.h.in; change those.
 */

#ifndef FI_EXT_H
#define FI_EXT_H

#include <stdbool.h>

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_endpoint.h>
#include <rdma/providers/fi_prov.h>
#include <rdma/providers/fi_log.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_fid_export;
struct fi_ops_log;
struct fi_ops_mem_monitor;
struct fi_ops_mem_notify;
struct fi_provider;
struct fid;
struct fid_logging;
struct fid_mem_monitor;

/** Options from here on, negated, belong to the provider efa. */
#define FI_PROV_SPECIFIC_EFA 251265024

/** Options from here on, negated, belong to the provider tcp. */
#define FI_PROV_SPECIFIC_TCP 130744320

/** Options of the provider efa for fi_setopt and fi_getopt. */
#define FI_OPT_EFA_RNR_RETRY (-251265024)
#define FI_OPT_EFA_EMULATED_READ (-251265023)
#define FI_OPT_EFA_EMULATED_WRITE (-251265022)
#define FI_OPT_EFA_EMULATED_ATOMICS (-251265021)
#define FI_OPT_EFA_USE_DEVICE_RDMA (-251265020)
#define FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES (-251265019)
#define FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES (-251265018)
#define FI_OPT_EFA_HOMOGENEOUS_PEERS (-251265017)
#define FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV (-251265016)

/** For fi_ops_log: the provider is one that FI_PROVIDER leaves out. */
#define FI_LOG_PROV_FILTERED (1ull << 0)

/** Argument of FI_EXPORT_FID. fi_open(3) */
struct fi_fid_export {
    struct fid **fid;
    uint64_t flags;
    void *context;
};

/** Functions of the library that the monitor calls. fi_open(3) */
struct fi_ops_mem_notify {
    size_t size;
    /** Reports that the range was unmapped or remapped. */
    void (*notify)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
};

/** A memory monitor; FI_CLASS_MEM_MONITOR. fi_open(3) */
struct fid_mem_monitor {
    struct fid fid;
    /** Filled by the application. */
    struct fi_ops_mem_monitor *export_ops;
    /** Filled by the library. */
    struct fi_ops_mem_notify *import_ops;
};

/** A memory monitor of the application: the library calls these. fi_open(3) */
struct fi_ops_mem_monitor {
    size_t size;
    /** Begins to watch. */
    int (*start)(struct fid_mem_monitor *monitor);
    /** Stops watching. */
    void (*stop)(struct fid_mem_monitor *monitor);
    /** Watches a range of memory. */
    int (*subscribe)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
    /** Stops watching a range. */
    void (*unsubscribe)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
    /** Whether the range still refers to the same memory. */
    bool (*valid)(struct fid_mem_monitor *monitor, const void *addr, size_t len);
};

/** Log functions of the application, see fi_import_log. fi_provider(3) */
struct fi_ops_log {
    size_t size;
    /** Whether lines of this level and subsystem are logged. */
    int (*enabled)(const struct fi_provider *prov,
                   enum fi_log_level level,
                   enum fi_log_subsys subsys,
                   uint64_t flags);
    /** The same for lines that repeat. */
    int (*ready)(const struct fi_provider *prov,
                 enum fi_log_level level,
                 enum fi_log_subsys subsys,
                 uint64_t flags,
                 uint64_t *showtime);
    /** Writes a line. */
    void (*log)(const struct fi_provider *prov,
                enum fi_log_level level,
                enum fi_log_subsys subsys,
                const char *func,
                int line,
                const char *msg);
};

/** Argument of fi_import_log. fi_provider(3) */
struct fid_logging {
    struct fid fid;
    struct fi_ops_log *ops;
};

/* Export an object, and bind an exported object to another one. fi_open(3) */
static inline int fi_export_fid(struct fid *fid, uint64_t flags, struct fid **expfid, void *context)
{
    struct fi_fid_export exported;

    exported.fid = expfid;
    exported.flags = flags;
    exported.context = context;
    return fid->ops->control(fid, FI_EXPORT_FID, &exported);
}

static inline int fi_import_fid(struct fid *fid, struct fid *expfid, uint64_t flags)
{
    return fid->ops->bind(fid, expfid, flags);
}

/*
 * Imports an object of the application into a named object of the library: opens the named object, binds
 * the import to it, and closes it. fi_open(3)
 */
static inline int
fi_import(uint32_t version, const char *name, void *attr, size_t attr_len, uint64_t flags,
          struct fid *fid, void *context)
{
    struct fid *opened = NULL;
    int ret;

    ret = fi_open(version, name, attr, attr_len, flags, &opened, context);
    if (ret)
        return ret;
    ret = fi_import_fid(opened, fid, flags);
    fi_close(opened);
    return ret;
}

/*
 * Redirects the library's log to functions of the application; *log_fid stays in use afterwards.
 * fi_provider(3)
 */
static inline int fi_import_log(uint32_t version, uint64_t flags, struct fid_logging *log_fid)
{
    log_fid->fid.fclass = FI_CLASS_LOG;
    log_fid->ops->size = sizeof(struct fi_ops_log);
    return fi_import(version, "logging", NULL, 0, flags, &log_fid->fid, log_fid);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_EXT_H */
