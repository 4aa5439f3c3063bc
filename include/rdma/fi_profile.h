/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Statistics and events of an object, fi_profile(3).
 *
 * Written by build.rs from src/abi/fi_profile.rs and src/abi/fi_profile.h.in; change those.
 */

#ifndef FI_PROFILE_H
#define FI_PROFILE_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fi_profile_desc;
struct fi_profile_ops;
struct fid_profile;

/** Variables that every provider may have. fi_profile(3) */
#define FI_VAR_UNEXP_MSG_CNT 0
#define FI_VAR_UNEXP_MSG_QUEUE 1
#define FI_VAR_MSG_QUEUE_CNT 2
#define FI_VAR_CONNECTION_CNT 3
#define FI_VAR_CONN_REQUEST 4
#define FI_VAR_CONN_ACCEPT 5
#define FI_VAR_CONN_REJECT 6
#define FI_VAR_OFI_MEM 7

/** Events that every provider may have. fi_profile(3) */
#define FI_EVENT_UNEXP_MSG_RECVD 0
#define FI_EVENT_UNEXP_MSG_MATCHED 1

/** The enumeration that names the type of a variable. fi_profile(3) */
enum fi_profile_type {
    /** enum fi_datatype. */
    fi_primitive_type = 0,
    /** enum fi_type. */
    fi_defined_type = 1,
};

/** A variable or an event. fi_profile(3) */
struct fi_profile_desc {
    /** Its number. */
    uint32_t id;
    /** The member of `datatype` that is valid. */
    enum fi_profile_type datatype_sel;
    union {
        enum fi_datatype primitive;
        enum fi_type defined;
    } datatype;
    uint64_t flags;
    /** Bytes of its value. */
    size_t size;
    const char *name;
    const char *desc;
};

/** The profile of an object. fi_profile(3) */
struct fid_profile {
    struct fid fid;
    struct fi_profile_ops *ops;
};

/** Operations of a profile. fi_profile(3) */
struct fi_profile_ops {
    size_t size;
    void (*reset)(struct fid_profile *prof_fid, uint64_t flags);
    ssize_t (*query_vars)(struct fid_profile *prof_fid,
                          struct fi_profile_desc *varlist,
                          size_t *count);
    ssize_t (*query_events)(struct fid_profile *prof_fid,
                            struct fi_profile_desc *eventlist,
                            size_t *count);
    ssize_t (*read_var)(struct fid_profile *prof_fid, uint32_t var_id, void *data, size_t *size);
    int (*reg_callback)(struct fid_profile *prof_fid,
                        uint32_t event_id,
                        int (*callback)(struct fid_profile *prof_fid,
                                        struct fi_profile_desc *event,
                                        void *data,
                                        size_t size,
                                        void *context),
                        void *context);
    void (*start_reads)(struct fid_profile *prof_fid, uint64_t flags);
    void (*end_reads)(struct fid_profile *prof_fid, uint64_t flags);
};

/* Zeroes the variables of an object. fi_profile(3) */
static inline void fi_profile_reset(struct fid_profile *prof_fid, uint64_t flags)
{
    prof_fid->ops->reset(prof_fid, flags);
}

/*
 * Write up to *count descriptions of variables or events into the array (NULL: only their number into
 * *count), and return how many. fi_profile(3)
 */
static inline ssize_t
fi_profile_query_vars(struct fid_profile *prof_fid, struct fi_profile_desc *varlist, size_t *count)
{
    return prof_fid->ops->query_vars(prof_fid, varlist, count);
}

static inline ssize_t
fi_profile_query_events(struct fid_profile *prof_fid, struct fi_profile_desc *eventlist,
                        size_t *count)
{
    return prof_fid->ops->query_events(prof_fid, eventlist, count);
}

/* Reads one variable of 64 bits. fi_profile(3) */
static inline ssize_t
fi_profile_read_u64(struct fid_profile *prof_fid, uint32_t var_id, uint64_t *data)
{
    size_t size = sizeof(*data);
    ssize_t ret;

    ret = prof_fid->ops->read_var(prof_fid, var_id, data, &size);
    return ret > 0 ? 0 : ret;
}

/* Registers a callback for an event; NULL removes it. fi_profile(3) */
static inline int
fi_profile_register_callback(struct fid_profile *prof_fid, uint32_t event_id,
                             int (*callback)(struct fid_profile *, struct fi_profile_desc *, void *, size_t, void *),
                             void *context)
{
    return prof_fid->ops->reg_callback(prof_fid, event_id, callback, context);
}

/* Reads between these two calls see one state. fi_profile(3) */
static inline void fi_profile_start_reads(struct fid_profile *prof_fid, uint64_t flags)
{
    prof_fid->ops->start_reads(prof_fid, flags);
}

static inline void fi_profile_end_reads(struct fid_profile *prof_fid, uint64_t flags)
{
    prof_fid->ops->end_reads(prof_fid, flags);
}

/* Opens the profile of an object. -FI_ENOSYS: the object has none. fi_profile(3) */
static inline int
fi_profile_open(struct fid *fid, uint64_t flags, struct fid_profile **prof_fid, void *context)
{
    void *ops = NULL;
    int ret;

    ret = fid->ops->ops_open(fid, "fi_profile_ops", flags, &ops, context);
    if (!ret)
        *prof_fid = (struct fid_profile *) (void *) ((char *) ops - offsetof(struct fid_profile, ops));
    return ret;
}

static inline int fi_profile_close(struct fid_profile *prof_fid)
{
    return prof_fid->fid.ops->close(&prof_fid->fid);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_PROFILE_H */
