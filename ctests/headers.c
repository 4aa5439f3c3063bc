/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Source as applications and providers write it, old and new, for ctests/headers.sh: every macro in use, names that are
 * deprecated, names that release 2.0 removed, constants in preprocessor conditions.
 */
#define FI_REMOVED_NAMES
#include "all.h"

#if FI_MR_BASIC != 1 || FI_MR_SCALABLE != 2 || FI_MR_UNSPEC != 0 || FI_ORDER_NONE != 0 || FI_ORDER_STRICT != 0x1ff
#error "a deprecated constant has another value"
#endif
#if FI_LOCAL_MR != 1ull << 55 || FI_REG_MR != 1ull << 59 || FI_ORDER_DATA != 1ull << 16
#error "a deprecated constant has another value"
#endif
#if !defined(FI_OPT_CUDA_API_PERMITTED) || FI_MSG != 2 || FI_ADDR_UNSPEC != 0xffffffffffffffff || FI_SHARED_CONTEXT == 0
#error "a constant is no constant"
#endif
#if FI_OPT_EFA_RNR_RETRY-1 != -251265025
#error "a negative constant needs its parentheses"
#endif
#if !defined(FABRIC_H) || !defined(FI_EQ_H) || !defined(FI_EXT_H) || !defined(FI_PROV_H) || !defined(FI_LOG_H)
#error "a guard has another name"
#endif

struct outer {
    int first;
    struct fid fid;
};

static struct fi_provider provider;

/* An application of release 1.x. */
static int old_application(struct fi_info *hints, struct fid *fid)
{
    enum fi_mr_mode mode = (enum fi_mr_mode) FI_MR_BASIC;
    char path[FI_PATH_MAX], version[FI_VERSION_MAX];
    struct outer *outer = container_of(fid, struct outer, fid);

    hints->domain_attr->mr_mode = mode;
    hints->mode |= FI_LOCAL_MR | FI_CONTEXT | FI_NOTIFY_FLAGS_ONLY | FI_RESTRICTED_COMP;
    hints->ep_attr->type = FI_EP_SOCK_STREAM;
    hints->tx_attr->msg_order = FI_ORDER_STRICT | FI_ORDER_DATA;
    hints->tx_attr->comp_order = FI_ORDER_NONE;
    hints->caps |= FI_VARIABLE_MSG | FI_ATOMICS;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    path[0] = version[0] = 0;
    return outer->first + (int) count_of(path) + path[0] + version[0];
}

/* A provider: settings, log lines, its entry. */
FI_EXT_INI
{
    size_t size = 0;
    int number = 0, yes = 0;
    char *text = NULL;

    provider.version = FI_VERSION(2, 6);
    provider.fi_version = FI_VERSION(FI_MAJOR(provider.version | 0u), FI_MINOR(provider.version | 0u));
    provider.name = FI_LIB_EXTENSION FI_LIB_SUFFIX FI_SET_OPS_HMEM_OVERRIDE;
    fi_param_define(&provider, "size", FI_PARAM_SIZE_T, "help of %d words", 4);
    if (fi_param_get_size_t(&provider, "size", &size) || fi_param_get_int(&provider, "int", &number) ||
        fi_param_get_bool(&provider, "bool", &yes) || fi_param_get_str(&provider, "text", &text))
        FI_WARN(&provider, FI_LOG_CORE, "no value\n");
    FI_LOG(&provider, FI_LOG_INFO, FI_LOG_CORE, "%zu\n", size);
    FI_LOG_SPARSE(&provider, FI_LOG_INFO, FI_LOG_CORE, "%d\n", number);
    FI_WARN_SPARSE(&provider, FI_LOG_MR, "%d\n", yes);
    FI_WARN_ONCE(&provider, FI_LOG_MR, "%s\n", text);
    FI_TRACE(&provider, FI_LOG_EP_DATA, "%d\n", 1);
    FI_INFO(&provider, FI_LOG_EP_CTRL, "no arguments\n");
    if (size)
        FI_DBG(&provider, FI_LOG_CQ, "%d\n", 2);
    else
        FI_DBG_TRACE(&provider, FI_LOG_CQ, "%d\n", 3);
    return &provider;
}

#ifdef USE_DEPRECATED
static long deprecated(struct fid_fabric *fabric, struct fid_domain *domain, struct fid_ep *ep, struct fid_av *av)
{
    struct fid_wait *wait = NULL;
    struct fid_poll *poll = NULL;
    void *context = NULL;

    return fi_wait_open(fabric, NULL, &wait) + fi_poll_open(domain, NULL, &poll) + fi_wait(wait, 0) +
           fi_poll(poll, &context, 1) + fi_poll_add(poll, &ep->fid, 0) + fi_poll_del(poll, &ep->fid, 0) +
           fi_rx_size_left(ep) + fi_tx_size_left(ep) + fi_av_bind(av, &ep->fid, 0);
}
#endif

int main(void)
{
    struct fi_info hints;
    struct fid fid;
    uint32_t version = fi_version();

#ifdef USE_DEPRECATED
    (void) deprecated;
#endif
    (void) old_application;
    memset(&hints, 0, sizeof(hints));
    memset(&fid, 0, sizeof(fid));
    if (!FI_CHECK_OP(fid.ops, struct fi_ops, ops_set) && fi_set_ops(&fid, "name", 0, NULL, NULL) != -FI_ENOSYS)
        return 1;
    return FI_VERSION_LT(version, FI_VERSION(2, 6)) || !FI_VERSION_GE(version, FI_VERSION(2, 6));
}
