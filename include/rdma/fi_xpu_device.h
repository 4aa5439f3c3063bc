/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Functions for programs that run on a device, fi_xpu(3): transfers and completions through the handles
 * that fi_ep_export_xpu, fi_cq_export_xpu and fi_cntr_export_xpu fill. They compile with CUDA, HIP, SYCL,
 * C and C++.
 *
 * A peer is given as the bytes of fi_av_lookup2, a descriptor as the bytes of fi_mr_get_xpu_desc. `scope`
 * selects the threads that make the call together (FI_XPU_WORK_ITEM, ...). No provider serves a device:
 * every call that can return an error returns -FI_ENOSYS.
 *
 * Written by build.rs from src/abi/fi_xpu_device.h.in; change that.
 */

#ifndef FI_XPU_DEVICE_H
#define FI_XPU_DEVICE_H

#include <rdma/fi_xpu.h>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define FI_XPU_FUNC __device__ static inline
#else
#define FI_XPU_FUNC static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Messages, tagged messages. fi_msg(3), fi_tagged(3) */
FI_XPU_FUNC int fi_xpu_send(struct fid_xpu_ep *ep, const void *buf, size_t len, void *desc,
                            uint64_t data, void *dest_addr, void *context, uint64_t flags,
                            int scope)
{
    (void) ep;
    (void) buf;
    (void) len;
    (void) desc;
    (void) data;
    (void) dest_addr;
    (void) context;
    (void) flags;
    (void) scope;
    return -FI_ENOSYS;
}

FI_XPU_FUNC int fi_xpu_recv(struct fid_xpu_ep *ep, void *buf, size_t len, void *desc,
                            void *src_addr, void *context, uint64_t flags, int scope)
{
    (void) ep;
    (void) buf;
    (void) len;
    (void) desc;
    (void) src_addr;
    (void) context;
    (void) flags;
    (void) scope;
    return -FI_ENOSYS;
}

FI_XPU_FUNC int fi_xpu_tsend(struct fid_xpu_ep *ep, const void *buf, size_t len, void *desc,
                             uint64_t data, void *dest_addr, uint64_t tag, void *context,
                             uint64_t flags, int scope)
{
    (void) ep;
    (void) buf;
    (void) len;
    (void) desc;
    (void) data;
    (void) dest_addr;
    (void) tag;
    (void) context;
    (void) flags;
    (void) scope;
    return -FI_ENOSYS;
}

FI_XPU_FUNC int fi_xpu_trecv(struct fid_xpu_ep *ep, void *buf, size_t len, void *desc,
                             void *src_addr, uint64_t tag, uint64_t ignore, void *context,
                             uint64_t flags, int scope)
{
    (void) ep;
    (void) buf;
    (void) len;
    (void) desc;
    (void) src_addr;
    (void) tag;
    (void) ignore;
    (void) context;
    (void) flags;
    (void) scope;
    return -FI_ENOSYS;
}

/* Reads and writes of a peer's memory. fi_rma(3) */
FI_XPU_FUNC int fi_xpu_write(struct fid_xpu_ep *ep, const void *buf, size_t len, void *desc,
                             uint64_t data, void *dest_addr, uint64_t addr, uint64_t key,
                             void *context, uint64_t flags, int scope)
{
    (void) ep;
    (void) buf;
    (void) len;
    (void) desc;
    (void) data;
    (void) dest_addr;
    (void) addr;
    (void) key;
    (void) context;
    (void) flags;
    (void) scope;
    return -FI_ENOSYS;
}

FI_XPU_FUNC int fi_xpu_read(struct fid_xpu_ep *ep, void *buf, size_t len, void *desc,
                            void *src_addr, uint64_t addr, uint64_t key, void *context,
                            uint64_t flags, int scope)
{
    (void) ep;
    (void) buf;
    (void) len;
    (void) desc;
    (void) src_addr;
    (void) addr;
    (void) key;
    (void) context;
    (void) flags;
    (void) scope;
    return -FI_ENOSYS;
}

/* Atomic operations; enum fi_datatype and enum fi_op as numbers. fi_atomic(3) */
FI_XPU_FUNC int fi_xpu_atomic(struct fid_xpu_ep *ep, const void *buf, size_t count, void *desc,
                              void *dest_addr, uint64_t addr, uint64_t key, int datatype, int op,
                              void *context, uint64_t flags, int scope)
{
    (void) ep;
    (void) buf;
    (void) count;
    (void) desc;
    (void) dest_addr;
    (void) addr;
    (void) key;
    (void) datatype;
    (void) op;
    (void) context;
    (void) flags;
    (void) scope;
    return -FI_ENOSYS;
}

FI_XPU_FUNC int fi_xpu_fetch_atomic(struct fid_xpu_ep *ep, const void *buf, size_t count,
                                    void *desc, void *result, void *result_desc, void *dest_addr,
                                    uint64_t addr, uint64_t key, int datatype, int op,
                                    void *context, uint64_t flags, int scope)
{
    (void) ep;
    (void) buf;
    (void) count;
    (void) desc;
    (void) result;
    (void) result_desc;
    (void) dest_addr;
    (void) addr;
    (void) key;
    (void) datatype;
    (void) op;
    (void) context;
    (void) flags;
    (void) scope;
    return -FI_ENOSYS;
}

FI_XPU_FUNC int fi_xpu_compare_atomic(struct fid_xpu_ep *ep, const void *buf, size_t count,
                                      void *desc, const void *compare, void *compare_desc,
                                      void *result, void *result_desc, void *dest_addr,
                                      uint64_t addr, uint64_t key, int datatype, int op,
                                      void *context, uint64_t flags, int scope)
{
    (void) ep;
    (void) buf;
    (void) count;
    (void) desc;
    (void) compare;
    (void) compare_desc;
    (void) result;
    (void) result_desc;
    (void) dest_addr;
    (void) addr;
    (void) key;
    (void) datatype;
    (void) op;
    (void) context;
    (void) flags;
    (void) scope;
    return -FI_ENOSYS;
}

/* Counters. A timeout of -1 never expires. fi_cntr(3) */
FI_XPU_FUNC uint64_t fi_xpu_cntr_read(struct fid_xpu_cntr *cntr, int scope)
{
    (void) cntr;
    (void) scope;
    return 0;
}

FI_XPU_FUNC uint64_t fi_xpu_cntr_readerr(struct fid_xpu_cntr *cntr, int scope)
{
    (void) cntr;
    (void) scope;
    return 0;
}

FI_XPU_FUNC void fi_xpu_cntr_wait(struct fid_xpu_cntr *cntr, uint64_t threshold, int timeout,
                                  int scope)
{
    (void) cntr;
    (void) threshold;
    (void) timeout;
    (void) scope;
}

FI_XPU_FUNC int fi_xpu_cntr_add(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
    (void) cntr;
    (void) value;
    (void) scope;
    return -FI_ENOSYS;
}

FI_XPU_FUNC int fi_xpu_cntr_set(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
    (void) cntr;
    (void) value;
    (void) scope;
    return -FI_ENOSYS;
}

FI_XPU_FUNC int fi_xpu_cntr_adderr(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
    (void) cntr;
    (void) value;
    (void) scope;
    return -FI_ENOSYS;
}

FI_XPU_FUNC int fi_xpu_cntr_seterr(struct fid_xpu_cntr *cntr, uint64_t value, int scope)
{
    (void) cntr;
    (void) value;
    (void) scope;
    return -FI_ENOSYS;
}

/* Completions; the s forms wait for `threshold` of them. fi_cq(3) */
FI_XPU_FUNC int64_t fi_xpu_cq_read(struct fid_xpu_cq *cq, void *buf, size_t count, int scope)
{
    (void) cq;
    (void) buf;
    (void) count;
    (void) scope;
    return -FI_ENOSYS;
}

FI_XPU_FUNC int64_t fi_xpu_cq_readfrom(struct fid_xpu_cq *cq, void *buf, size_t count,
                                       fi_addr_t *src_addr, int scope)
{
    (void) cq;
    (void) buf;
    (void) count;
    (void) src_addr;
    (void) scope;
    return -FI_ENOSYS;
}

FI_XPU_FUNC int64_t fi_xpu_cq_readerr(struct fid_xpu_cq *cq, struct fi_cq_err_entry *buf,
                                      uint64_t flags, int scope)
{
    (void) cq;
    (void) buf;
    (void) flags;
    (void) scope;
    return -FI_ENOSYS;
}

FI_XPU_FUNC int64_t fi_xpu_cq_sread(struct fid_xpu_cq *cq, void *buf, size_t count,
                                    uint64_t threshold, int scope)
{
    (void) cq;
    (void) buf;
    (void) count;
    (void) threshold;
    (void) scope;
    return -FI_ENOSYS;
}

FI_XPU_FUNC int64_t fi_xpu_cq_sreadfrom(struct fid_xpu_cq *cq, void *buf, size_t count,
                                        fi_addr_t *src_addr, uint64_t threshold, int scope)
{
    (void) cq;
    (void) buf;
    (void) count;
    (void) src_addr;
    (void) threshold;
    (void) scope;
    return -FI_ENOSYS;
}

#ifdef __cplusplus
}
#endif

#endif /* FI_XPU_DEVICE_H */
