/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Declaration of a provider and its settings, fi_provider(3).
 *
 * Written by build.rs from src/abi/fi_prov.rs and src/abi/fi_prov.h.in; change those.
 */

#ifndef FI_PROV_H
#define FI_PROV_H

#include <rdma/fabric.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A loadable provider is a file named lib*-fi.so with the function fi_prov_ini. */
#define FI_LIB_EXTENSION "fi"
#define FI_LIB_SUFFIX "fi.so"

/* Begins the definition of that function: FI_EXT_INI { return &provider; } */
#ifdef __cplusplus
#define FI_EXT_INI                                                                                 \
    extern "C" __attribute__((visibility("default"), EXTERNALLY_VISIBLE)) struct fi_provider *     \
    fi_prov_ini(void)
#else
#define FI_EXT_INI                                                                                 \
    __attribute__((visibility("default"), EXTERNALLY_VISIBLE)) struct fi_provider *                \
    fi_prov_ini(void)
#endif

struct fi_fabric_attr;
struct fi_info;
struct fi_provider;
struct fid_fabric;

/** A provider. fi_provider(3) */
struct fi_provider {
    /** Version of the provider, FI_VERSION(). */
    uint32_t version;
    /** Version of the interface it was written for. */
    uint32_t fi_version;
    /** Private to the library. */
    struct fi_context context;
    /** Name; layers joined by ';'. */
    const char *name;
    /** fi_getinfo for this provider alone. */
    int (*getinfo)(uint32_t version,
                   const char *node,
                   const char *service,
                   uint64_t flags,
                   const struct fi_info *hints,
                   struct fi_info **info);
    /** fi_fabric for this provider alone. */
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    /** Called before the library is unloaded. */
    void (*cleanup)(void);
};

/*
 * Declares a setting, the variable FI_<PROVIDER>_<NAME>; a NULL provider means FI_<NAME>. The help
 * text is a printf format. fi_provider(3)
 */
int fi_param_define(const struct fi_provider *provider, const char *param_name,
                    enum fi_param_type type, const char *help_string_fmt, ...) FI_FORMAT_PRINTF(4, 5);

/*
 * Reads a declared setting. -FI_ENODATA: it is not set. -FI_EINVAL: its text is not a value of its
 * type. -FI_ENOENT: it is not declared. fi_provider(3)
 */
int fi_param_get(struct fi_provider *provider, const char *param_name, void *value);

/* The same, by the type of the declaration; a boolean is 0 or 1. fi_provider(3) */
static inline int
fi_param_get_str(struct fi_provider *provider, const char *param_name, char **value)
{
    return fi_param_get(provider, param_name, value);
}

static inline int fi_param_get_int(struct fi_provider *provider, const char *param_name, int *value)
{
    return fi_param_get(provider, param_name, value);
}

static inline int
fi_param_get_bool(struct fi_provider *provider, const char *param_name, int *value)
{
    return fi_param_get(provider, param_name, value);
}

static inline int
fi_param_get_size_t(struct fi_provider *provider, const char *param_name, size_t *value)
{
    return fi_param_get(provider, param_name, value);
}

#ifdef __cplusplus
}
#endif

#endif /* FI_PROV_H */
