/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Log functions for providers, fi_provider(3).
 *
 * Written by build.rs from src/abi/fi_log.rs and src/abi/fi_log.h.in; change those.
 */

#ifndef FI_LOG_H
#define FI_LOG_H

#include <errno.h>

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The part of the library that a line is about. fi_provider(3) */
enum fi_log_subsys {
    FI_LOG_CORE = 0,
    FI_LOG_FABRIC = 1,
    FI_LOG_DOMAIN = 2,
    FI_LOG_EP_CTRL = 3,
    FI_LOG_EP_DATA = 4,
    FI_LOG_AV = 5,
    FI_LOG_CQ = 6,
    FI_LOG_EQ = 7,
    FI_LOG_MR = 8,
    FI_LOG_CNTR = 9,
};

/**
 * Importance of a line. The setting FI_LOG_LEVEL enables its own level and the levels before it.
 * fi_provider(3)
 */
enum fi_log_level {
    /** Failures. */
    FI_LOG_WARN = 0,
    /** Calls. */
    FI_LOG_TRACE = 1,
    /** Decisions and their reasons. */
    FI_LOG_INFO = 2,
    /** Everything. */
    FI_LOG_DEBUG = 3,
};

/* Whether a line of this level and subsystem would be written. fi_provider(3) */
int fi_log_enabled(const struct fi_provider *prov, enum fi_log_level level,
                   enum fi_log_subsys subsys);

/*
 * The same for a line that repeats: true at most once a second for one *showtime, which starts as
 * 0. fi_provider(3)
 */
int fi_log_ready(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
                 uint64_t *showtime);

/* Writes a line; `fmt` is a printf format. fi_provider(3) */
void fi_log(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
            const char *func, int line, const char *fmt, ...) FI_FORMAT_PRINTF(6, 7);

/* Writes a line if its level and subsystem are enabled. errno keeps its value. */
#define FI_LOG(prov, level, subsystem, ...)                                                        \
    do {                                                                                           \
        int fi_log_errno_ = errno;                                                                 \
        if (fi_log_enabled(prov, level, subsystem))                                                \
            fi_log(prov, level, subsystem, __func__, __LINE__, __VA_ARGS__);                       \
        errno = fi_log_errno_;                                                                     \
    } while (0)

/* The same, but no more often than fi_log_ready allows for this line. */
#define FI_LOG_SPARSE(prov, level, subsystem, ...)                                                 \
    do {                                                                                           \
        static uint64_t fi_log_showtime_;                                                          \
        int fi_log_errno_ = errno;                                                                 \
        if (fi_log_ready(prov, level, subsystem, &fi_log_showtime_))                               \
            fi_log(prov, level, subsystem, __func__, __LINE__, __VA_ARGS__);                       \
        errno = fi_log_errno_;                                                                     \
    } while (0)

#define FI_WARN(prov, subsystem, ...) FI_LOG(prov, FI_LOG_WARN, subsystem, __VA_ARGS__)
#define FI_WARN_SPARSE(prov, subsystem, ...)                                                       \
    FI_LOG_SPARSE(prov, FI_LOG_WARN, subsystem, __VA_ARGS__)
#define FI_TRACE(prov, subsystem, ...) FI_LOG(prov, FI_LOG_TRACE, subsystem, __VA_ARGS__)
#define FI_INFO(prov, subsystem, ...) FI_LOG(prov, FI_LOG_INFO, subsystem, __VA_ARGS__)

/* Only in builds that define ENABLE_DEBUG as non-zero. */
#if defined(ENABLE_DEBUG) && ENABLE_DEBUG
#define FI_DBG(prov, subsystem, ...) FI_LOG(prov, FI_LOG_DEBUG, subsystem, __VA_ARGS__)
#define FI_DBG_TRACE(prov, subsystem, ...) FI_LOG(prov, FI_LOG_TRACE, subsystem, __VA_ARGS__)
#else
#define FI_DBG(prov, subsystem, ...) do { } while (0)
#define FI_DBG_TRACE(prov, subsystem, ...) do { } while (0)
#endif

/* Writes this warning only once in the life of the process. */
#define FI_WARN_ONCE(prov, subsystem, ...)                                                         \
    do {                                                                                           \
        static int fi_log_warned_;                                                                 \
        if (!fi_log_warned_ && fi_log_enabled(prov, FI_LOG_WARN, subsystem)) {                     \
            fi_log_warned_ = 1;                                                                    \
            fi_log(prov, FI_LOG_WARN, subsystem, __func__, __LINE__, __VA_ARGS__);                 \
        }                                                                                          \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif /* FI_LOG_H */
