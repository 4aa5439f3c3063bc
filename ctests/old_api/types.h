// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The structs and numbers with which a program of API_MAJOR.API_MINOR was compiled. They are declared here again, so
// that include/ cannot hide mistakes that the library makes with old callers.

#ifndef OLD_API_TYPES_H
#define OLD_API_TYPES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#define FI_VERSION(major, minor) ((major) << 16 | (minor))
#define API FI_VERSION(API_MAJOR, API_MINOR)
#define SINCE(major, minor) (API >= FI_VERSION(major, minor))

typedef uint64_t fi_addr_t;
struct fid;
typedef struct fid *fid_t;

#define FI_MSG (1ULL << 1)
#define FI_RMA (1ULL << 2)
#define FI_READ (1ULL << 8)
#define FI_WRITE (1ULL << 9)
#define FI_RECV (1ULL << 10)
#define FI_SEND (1ULL << 11)
#define FI_TRANSMIT FI_SEND
#define FI_REMOTE_READ (1ULL << 12)
#define FI_REMOTE_WRITE (1ULL << 13)
#define FI_COMPLETION (1ULL << 24)
#define FI_LOCAL_MR (1ULL << 55)
#define FI_SOURCE (1ULL << 57)
#define FI_ADDR_NOTAVAIL ((uint64_t) -1)

enum { FI_EAGAIN = 11, FI_EINVAL = 22, FI_ENOSYS = 38, FI_ENODATA = 61, FI_ECONNREFUSED = 111, FI_ECANCELED = 125,
       FI_ETOOSMALL = 257, FI_EAVAIL = 259, FI_EBADFLAGS = 260, FI_ETRUNC = 265, FI_ENOKEY = 266 };
enum { FI_CLASS_FABRIC = 1, FI_CLASS_EP = 3, FI_CLASS_MR = 12 };
enum { FI_ALIAS = 4, FI_GETWAIT = 5, FI_ENABLE = 6, FI_GET_RAW_MR = 8, FI_MAP_RAW_MR = 9, FI_UNMAP_KEY = 10,
       FI_REFRESH = 14 };
enum { FI_CONNREQ = 1, FI_CONNECTED = 2, FI_SHUTDOWN = 3 };
enum { FI_TYPE_INFO = 0 };

enum fi_ep_type { FI_EP_MSG = 1, FI_EP_RDM = 3 };
enum fi_av_type { FI_AV_UNSPEC, FI_AV_MAP, FI_AV_TABLE };
enum fi_threading { FI_THREAD_UNSPEC, FI_THREAD_SAFE, FI_THREAD_FID, FI_THREAD_DOMAIN };
enum fi_progress { FI_PROGRESS_UNSPEC, FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL };
enum fi_resource_mgmt { FI_RM_UNSPEC, FI_RM_DISABLED, FI_RM_ENABLED };
enum fi_wait_obj { FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_SET, FI_WAIT_FD, FI_WAIT_MUTEX_COND };
enum fi_cq_format { FI_CQ_FORMAT_UNSPEC, FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG, FI_CQ_FORMAT_DATA,
		    FI_CQ_FORMAT_TAGGED };
enum fi_cq_wait_cond { FI_CQ_COND_NONE };
enum fi_cntr_events { FI_CNTR_EVENTS_COMP };
// First an enumeration, since 1.5 a set of bits; the same four bytes.
enum { FI_MR_UNSPEC, FI_MR_BASIC, FI_MR_SCALABLE, FI_MR_LOCAL = 1 << 2, FI_MR_VIRT_ADDR = 1 << 4,
       FI_MR_ALLOCATED = 1 << 5, FI_MR_PROV_KEY = 1 << 6 };

struct fi_tx_attr {
	uint64_t caps, mode, op_flags, msg_order, comp_order;
	size_t inject_size, size, iov_limit, rma_iov_limit;
#if SINCE(1, 9)
	uint32_t tclass;
#endif
};

struct fi_rx_attr {
	uint64_t caps, mode, op_flags, msg_order, comp_order;
	size_t total_buffered_recv, size, iov_limit;
};

struct fi_ep_attr {
	enum fi_ep_type type;
	uint32_t protocol, protocol_version;
	size_t max_msg_size, msg_prefix_size, max_order_raw_size, max_order_war_size, max_order_waw_size;
	uint64_t mem_tag_format;
	size_t tx_ctx_cnt, rx_ctx_cnt;
#if SINCE(1, 5)
	size_t auth_key_size;
	uint8_t *auth_key;
#endif
};

struct fi_domain_attr {
	struct fid_domain *domain;
	char *name;
	enum fi_threading threading;
	enum fi_progress control_progress;
	enum fi_progress data_progress; // `progress` since 2.0
	enum fi_resource_mgmt resource_mgmt;
	enum fi_av_type av_type;
	int mr_mode;
	size_t mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt;
	size_t max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx, max_ep_srx_ctx;
#if SINCE(1, 5)
	size_t cntr_cnt, mr_iov_limit;
	uint64_t caps, mode;
	uint8_t *auth_key;
	size_t auth_key_size, max_err_data, mr_cnt;
#endif
#if SINCE(1, 9)
	uint32_t tclass;
#endif
#if SINCE(1, 20)
	size_t max_ep_auth_key;
#endif
#if SINCE(2, 0)
	uint32_t max_group_id;
#endif
};

struct fi_fabric_attr {
	struct fid_fabric *fabric;
	char *name, *prov_name;
	uint32_t prov_version;
	uint32_t api_version; // padding before 1.5
};

struct fi_info {
	struct fi_info *next;
	uint64_t caps, mode;
	uint32_t addr_format;
	size_t src_addrlen, dest_addrlen;
	void *src_addr, *dest_addr;
	fid_t handle;
	struct fi_tx_attr *tx_attr;
	struct fi_rx_attr *rx_attr;
	struct fi_ep_attr *ep_attr;
	struct fi_domain_attr *domain_attr;
	struct fi_fabric_attr *fabric_attr;
#if SINCE(1, 7)
	struct fid_nic *nic;
#endif
};

struct fi_mr_attr {
	const struct iovec *mr_iov; // or a DMA buffer since 1.20
	size_t iov_count;
	uint64_t access, offset, requested_key;
	void *context;
#if SINCE(1, 5)
	size_t auth_key_size;
	uint8_t *auth_key;
#endif
#if SINCE(1, 9)
	int iface; // kind of device memory
	uint64_t device;
#endif
#if SINCE(1, 19)
	void *hmem_data;
#endif
#if SINCE(1, 22)
	size_t page_size;
#endif
#if SINCE(2, 0)
	const struct fid_mr *base_mr;
	size_t sub_mr_cnt;
#endif
};

#if SINCE(1, 5)
struct fi_mr_modify {
	uint64_t flags;
	struct fi_mr_attr attr;
};

struct fi_mr_raw_attr {
	uint64_t flags, *base_addr;
	uint8_t *raw_key;
	size_t *key_size;
};

struct fi_mr_map_raw {
	uint64_t flags, base_addr;
	uint8_t *raw_key;
	size_t key_size;
	uint64_t *key;
};
#endif

struct fi_cq_err_entry {
	void *op_context;
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data, tag;
	size_t olen;
	int err, prov_errno;
	void *err_data;
#if SINCE(1, 5)
	size_t err_data_size;
#endif
#if SINCE(1, 20)
	fi_addr_t src_addr;
#endif
};

struct fi_cq_tagged_entry {
	void *op_context;
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data, tag;
};

struct fi_eq_err_entry {
	fid_t fid;
	void *context;
	uint64_t data;
	int err, prov_errno;
	void *err_data;
	size_t err_data_size;
};

struct fi_eq_cm_entry {
	fid_t fid;
	struct fi_info *info;
	uint8_t data[];
};

struct fi_av_attr {
	enum fi_av_type type;
	int rx_ctx_bits;
	size_t count, ep_per_node;
	const char *name;
	void *map_addr;
	uint64_t flags;
};

struct fi_cq_attr {
	size_t size;
	uint64_t flags;
	enum fi_cq_format format;
	enum fi_wait_obj wait_obj;
	int signaling_vector;
	enum fi_cq_wait_cond wait_cond;
	struct fid_wait *wait_set;
};

struct fi_eq_attr {
	size_t size;
	uint64_t flags;
	enum fi_wait_obj wait_obj;
	int signaling_vector;
	struct fid_wait *wait_set;
};

struct fi_cntr_attr {
	enum fi_cntr_events events;
	enum fi_wait_obj wait_obj;
	struct fid_wait *wait_set;
	uint64_t flags;
};

struct fi_wait_attr {
	enum fi_wait_obj wait_obj;
	uint64_t flags;
};

struct fi_poll_attr {
	uint64_t flags;
};

struct fi_alias {
	struct fid **fid;
	uint64_t flags;
};

struct fi_mutex_cond {
	pthread_mutex_t *mutex;
	pthread_cond_t *cond;
};

struct fi_msg {
	const struct iovec *msg_iov;
	void **desc;
	size_t iov_count;
	fi_addr_t addr;
	void *context;
	uint64_t data;
};

struct fi_rma_iov {
	uint64_t addr;
	size_t len;
	uint64_t key;
};

struct fi_msg_rma {
	const struct iovec *msg_iov;
	void **desc;
	size_t iov_count;
	fi_addr_t addr;
	const struct fi_rma_iov *rma_iov;
	size_t rma_iov_count;
	void *context;
	uint64_t data;
};

// Sizes that were measured in the releases.
#define SIZE_IS(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)
SIZE_IS(fi_info, SINCE(1, 7) ? 120 : 112);
SIZE_IS(fi_tx_attr, SINCE(1, 9) ? 80 : 72);
SIZE_IS(fi_rx_attr, 64);
SIZE_IS(fi_ep_attr, SINCE(1, 5) ? 96 : 80);
SIZE_IS(fi_domain_attr, SINCE(2, 0) ? 208 : SINCE(1, 20) ? 200 : SINCE(1, 9) ? 192 : SINCE(1, 5) ? 184 : 120);
SIZE_IS(fi_fabric_attr, 32);
SIZE_IS(fi_mr_attr, SINCE(2, 0) ? 112 : SINCE(1, 22) ? 96 : SINCE(1, 19) ? 88 : SINCE(1, 9) ? 80 : SINCE(1, 5) ? 64 : 48);
SIZE_IS(fi_cq_err_entry, SINCE(1, 20) ? 88 : SINCE(1, 5) ? 80 : 72);
SIZE_IS(fi_eq_err_entry, 48);
SIZE_IS(fi_cq_tagged_entry, 48);
SIZE_IS(fi_av_attr, 48);
SIZE_IS(fi_cq_attr, 40);
SIZE_IS(fi_eq_attr, 32);
SIZE_IS(fi_cntr_attr, 24);
SIZE_IS(fi_wait_attr, 16);
SIZE_IS(fi_msg, 48);
SIZE_IS(fi_msg_rma, 64);
#if SINCE(1, 5)
SIZE_IS(fi_mr_modify, 8 + sizeof(struct fi_mr_attr));
SIZE_IS(fi_mr_raw_attr, 32);
SIZE_IS(fi_mr_map_raw, 40);
#endif

#endif
