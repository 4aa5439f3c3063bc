/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Objects, attributes, capabilities and what finds them: fi_getinfo(3), fi_fabric(3),
 * fi_control(3).
 *
 * A function that returns int or ssize_t gives 0 or a positive count, or a negative error number
 * of <rdma/fi_errno.h>. Every object starts with a struct fid; an operation goes through the table
 * of function pointers that its object points to.
 *
 * Written by build.rs from src/abi/fabric.rs and src/abi/fabric.h.in; change those.
 */

#ifndef FABRIC_H
#define FABRIC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/fi_errno.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
/* Marks a function whose use the compiler reports (-Wdeprecated-declarations). */
#define FI_DEPRECATED_FUNC __attribute__((deprecated))
#define FI_DEPRECATED_FIELD __attribute__((deprecated))
/* Argument `string` is a printf format, its values start at argument `first`; both count from 1. */
#define FI_FORMAT_PRINTF(string, first) __attribute__((format(printf, string, first)))
#else
#define FI_DEPRECATED_FUNC
#define FI_DEPRECATED_FIELD
#define FI_FORMAT_PRINTF(string, first)
#endif

/* One word of an attribute list: keeps a symbol through whole-program optimisation. */
#if defined(__GNUC__) && !defined(__clang__)
#define EXTERNALLY_VISIBLE externally_visible
#else
#define EXTERNALLY_VISIBLE
#endif

/* An interface version: the major number in the upper, the minor in the lower 16 bits. fi_version(3) */
#define FI_VERSION(major, minor) (((major) << 16) | (minor))
#define FI_MAJOR(version) ((version) >> 16)
#define FI_MINOR(version) ((version) & 0xffff)
#define FI_VERSION_GE(v1, v2) ((v1) >= (v2))
#define FI_VERSION_LT(v1, v2) ((v1) < (v2))

/*
 * Whether a table of operations exists, is long enough to have the member, and serves it. Tables
 * grow at the end, and `size` says how far the object's maker filled one.
 */
#define FI_CHECK_OP(ops, opstype, op)                                                              \
    ((ops) && (ops)->size > offsetof(opstype, op) && (ops)->op)

/* In fi_ep_attr.tx_ctx_cnt and rx_ctx_cnt: the endpoint uses a shared context. fi_endpoint(3) */
#define FI_SHARED_CONTEXT SIZE_MAX
/* In auth_key_size: the keys come from the address vector. fi_domain(3) */
#define FI_AV_AUTH_KEY SIZE_MAX

struct fi_alias;
struct fi_bus_attr;
struct fi_context2;
struct fi_context;
struct fi_device_attr;
struct fi_domain_attr;
struct fi_ep_attr;
struct fi_eq_attr;
struct fi_fabric_attr;
struct fi_fid_var;
struct fi_info;
struct fi_ioc;
struct fi_link_attr;
struct fi_mr_map_raw;
struct fi_mr_raw_attr;
struct fi_ops;
struct fi_ops_fabric;
struct fi_param;
struct fi_pci_attr;
struct fi_recv_context;
struct fi_rx_attr;
struct fi_tx_attr;
struct fi_wait_attr;
struct fid;
struct fid_domain;
struct fid_ep;
struct fid_eq;
struct fid_fabric;
struct fid_nic;
struct fid_pep;
struct fid_wait;

#define FI_MAJOR_VERSION 2
#define FI_MINOR_VERSION 6
#define FI_REVISION_VERSION 0
#define FI_NAME_MAX 64
#define FI_ATOMIC_OP_LAST 19
#define FI_DATATYPE_LAST 14
#define FI_MSG (1ull << 1)
#define FI_RMA (1ull << 2)
#define FI_TAGGED (1ull << 3)
#define FI_ATOMIC (1ull << 4)
#define FI_ATOMICS FI_ATOMIC
#define FI_MULTICAST (1ull << 5)
#define FI_COLLECTIVE (1ull << 6)
#define FI_READ (1ull << 8)
#define FI_WRITE (1ull << 9)
#define FI_RECV (1ull << 10)
#define FI_SEND (1ull << 11)
#define FI_TRANSMIT FI_SEND
#define FI_REMOTE_READ (1ull << 12)
#define FI_REMOTE_WRITE (1ull << 13)
#define FI_MULTI_RECV (1ull << 16)
#define FI_REMOTE_CQ_DATA (1ull << 17)
#define FI_MORE (1ull << 18)
#define FI_PEEK (1ull << 19)
#define FI_TRIGGER (1ull << 20)
#define FI_FENCE (1ull << 21)
#define FI_COMPLETION (1ull << 24)
#define FI_EVENT FI_COMPLETION
#define FI_INJECT (1ull << 25)
#define FI_INJECT_COMPLETE (1ull << 26)
#define FI_TRANSMIT_COMPLETE (1ull << 27)
#define FI_DELIVERY_COMPLETE (1ull << 28)
#define FI_AFFINITY (1ull << 29)
#define FI_COMMIT_COMPLETE (1ull << 30)
#define FI_MATCH_COMPLETE (1ull << 31)
#define FI_RESCAN (1ull << 35)
#define FI_PEER_TRANSFER (1ull << 36)
#define FI_AV_USER_ID (1ull << 41)
#define FI_FIREWALL_ADDR (1ull << 42)
#define FI_PEER (1ull << 43)
#define FI_TAGGED_DIRECTED_RECV (1ull << 45)
#define FI_TAGGED_MULTI_RECV (1ull << 46)
#define FI_HMEM (1ull << 47)
#define FI_EXACT_DIRECTED_RECV (1ull << 48)
#define FI_RMA_PMEM (1ull << 49)
#define FI_SOURCE_ERR (1ull << 50)
#define FI_LOCAL_COMM (1ull << 51)
#define FI_REMOTE_COMM (1ull << 52)
#define FI_SHARED_AV (1ull << 53)
#define FI_PROV_ATTR_ONLY (1ull << 54)
#define FI_NUMERICHOST (1ull << 55)
#define FI_RMA_EVENT (1ull << 56)
#define FI_SOURCE (1ull << 57)
#define FI_NAMED_RX_CTX (1ull << 58)
#define FI_DIRECTED_RECV (1ull << 59)
#define FI_CLAIM (1ull << 59)
#define FI_DISCARD (1ull << 58)
#define FI_AUTH_KEY (1ull << 57)
#define FI_FORMAT_UNSPEC 0
#define FI_SOCKADDR 1
#define FI_SOCKADDR_IN 2
#define FI_SOCKADDR_IN6 3
#define FI_SOCKADDR_IB 4
#define FI_ADDR_PSMX 5
#define FI_ADDR_GNI 6
#define FI_ADDR_BGQ 7
#define FI_ADDR_MLX 8
#define FI_ADDR_STR 9
#define FI_ADDR_PSMX2 10
#define FI_ADDR_IB_UD 11
#define FI_ADDR_EFA 12
#define FI_ADDR_PSMX3 13
#define FI_ADDR_OPX 14
#define FI_ADDR_CXI 15
#define FI_ADDR_UCX 16
#define FI_SOCKADDR_IP 17
#define FI_ADDR_UNSPEC UINT64_MAX
#define FI_ADDR_NOTAVAIL UINT64_MAX
#define FI_KEY_NOTAVAIL UINT64_MAX





#define FI_MR_UNSPEC 0
#define FI_MR_BASIC 1
#define FI_MR_SCALABLE 2
#define FI_MR_LOCAL 4
#define FI_MR_RAW 8
#define FI_MR_VIRT_ADDR 16
#define FI_MR_ALLOCATED 32
#define FI_MR_PROV_KEY 64
#define FI_MR_MMU_NOTIFY 128
#define FI_MR_RMA_EVENT 256
#define FI_MR_ENDPOINT 512
#define FI_MR_HMEM 1024
#define FI_MR_COLLECTIVE 2048
#define FI_ORDER_NONE 0ull
#define FI_ORDER_RAR (1ull << 0)
#define FI_ORDER_RAW (1ull << 1)
#define FI_ORDER_RAS (1ull << 2)
#define FI_ORDER_WAR (1ull << 3)
#define FI_ORDER_WAW (1ull << 4)
#define FI_ORDER_WAS (1ull << 5)
#define FI_ORDER_SAR (1ull << 6)
#define FI_ORDER_SAW (1ull << 7)
#define FI_ORDER_SAS (1ull << 8)
#define FI_ORDER_STRICT 511
#define FI_ORDER_RMA_RAR (1ull << 32)
#define FI_ORDER_RMA_RAW (1ull << 33)
#define FI_ORDER_RMA_WAR (1ull << 34)
#define FI_ORDER_RMA_WAW (1ull << 35)
#define FI_ORDER_ATOMIC_RAR (1ull << 36)
#define FI_ORDER_ATOMIC_RAW (1ull << 37)
#define FI_ORDER_ATOMIC_WAR (1ull << 38)
#define FI_ORDER_ATOMIC_WAW (1ull << 39)
#define FI_ORDER_DATA (1ull << 16)
#define FI_PROTO_UNSPEC 0
#define FI_PROTO_RDMA_CM_IB_RC 1
#define FI_PROTO_IWARP 2
#define FI_PROTO_IB_UD 3
#define FI_PROTO_PSMX 4
#define FI_PROTO_UDP 5
#define FI_PROTO_SOCK_TCP 6
#define FI_PROTO_MXM 7
#define FI_PROTO_IWARP_RDM 8
#define FI_PROTO_IB_RDM 9
#define FI_PROTO_GNI 10
#define FI_PROTO_RXM 11
#define FI_PROTO_RXD 12
#define FI_PROTO_MLX 13
#define FI_PROTO_NETWORKDIRECT 14
#define FI_PROTO_PSMX2 15
#define FI_PROTO_SHM 16
#define FI_PROTO_MRAIL 17
#define FI_PROTO_RSTREAM 18
#define FI_PROTO_RDMA_CM_IB_XRC 19
#define FI_PROTO_EFA 20
#define FI_PROTO_PSMX3 21
#define FI_PROTO_RXM_TCP 22
#define FI_PROTO_OPX 23
#define FI_PROTO_CXI 24
#define FI_PROTO_XNET 25
#define FI_PROTO_COLL 26
#define FI_PROTO_UCX 27
#define FI_PROTO_SM2 28
#define FI_PROTO_CXI_RNR 29
#define FI_PROTO_LPP 30
#define FI_PROTO_LNX 31
#define FI_TAG_BITS 0
#define FI_TAG_MPI 1
#define FI_TAG_CCL 2
#define FI_TAG_MAX_FORMAT 65536
#define FI_TC_UNSPEC 0
#define FI_TC_DSCP 256
#define FI_TC_LABEL 512
#define FI_TC_BEST_EFFORT 512
#define FI_TC_LOW_LATENCY 513
#define FI_TC_DEDICATED_ACCESS 514
#define FI_TC_BULK_DATA 515
#define FI_TC_SCAVENGER 516
#define FI_TC_NETWORK_CTRL 517
#define FI_CONTEXT (1ull << 59)
#define FI_MSG_PREFIX (1ull << 58)
#define FI_ASYNC_IOV (1ull << 57)
#define FI_RX_CQ_DATA (1ull << 56)
#define FI_LOCAL_MR (1ull << 55)
#define FI_CONTEXT2 (1ull << 52)
#define FI_CLASS_UNSPEC 0
#define FI_CLASS_FABRIC 1
#define FI_CLASS_DOMAIN 2
#define FI_CLASS_EP 3
#define FI_CLASS_SEP 4
#define FI_CLASS_RX_CTX 5
#define FI_CLASS_SRX_CTX 6
#define FI_CLASS_TX_CTX 7
#define FI_CLASS_STX_CTX 8
#define FI_CLASS_PEP 9
#define FI_CLASS_INTERFACE 10
#define FI_CLASS_AV 11
#define FI_CLASS_MR 12
#define FI_CLASS_EQ 13
#define FI_CLASS_CQ 14
#define FI_CLASS_CNTR 15
#define FI_CLASS_WAIT 16
#define FI_CLASS_POLL 17
#define FI_CLASS_CONNREQ 18
#define FI_CLASS_MC 19
#define FI_CLASS_NIC 20
#define FI_CLASS_AV_SET 21
#define FI_CLASS_MR_CACHE 22
#define FI_CLASS_MEM_MONITOR 23
#define FI_CLASS_PEER_CQ 24
#define FI_CLASS_PEER_SRX 25
#define FI_CLASS_LOG 26
#define FI_CLASS_PEER_AV 27
#define FI_CLASS_PEER_AV_SET 28
#define FI_CLASS_PEER_CNTR 29
#define FI_CLASS_PROFILE 30
#define FI_SELECTIVE_COMPLETION (1ull << 59)
#define FI_GETFIDFLAG 0
#define FI_SETFIDFLAG 1
#define FI_GETOPSFLAG 2
#define FI_SETOPSFLAG 3
#define FI_ALIAS 4
#define FI_GETWAIT 5
#define FI_ENABLE 6
#define FI_BACKLOG 7
#define FI_GET_RAW_MR 8
#define FI_MAP_RAW_MR 9
#define FI_UNMAP_KEY 10
#define FI_QUEUE_WORK 11
#define FI_CANCEL_WORK 12
#define FI_FLUSH_WORK 13
#define FI_REFRESH 14
#define FI_DUP 15
#define FI_GETWAITOBJ 16
#define FI_GET_VAL 17
#define FI_SET_VAL 18
#define FI_EXPORT_FID 19
#define FI_GET_FD 20
#define FI_VARIABLE_MSG 0ull
#define FI_NOTIFY_FLAGS_ONLY 0ull
#define FI_RESTRICTED_COMP 0ull

enum fi_ep_type {
    FI_EP_UNSPEC = 0,
    FI_EP_MSG = 1,
    FI_EP_DGRAM = 2,
    FI_EP_RDM = 3,
};

enum fi_av_type {
    FI_AV_UNSPEC = 0,
    FI_AV_MAP = 1,
    FI_AV_TABLE = 2,
};

enum fi_progress {
    FI_PROGRESS_UNSPEC = 0,
    FI_PROGRESS_AUTO = 1,
    FI_PROGRESS_MANUAL = 2,
    FI_PROGRESS_CONTROL_UNIFIED = 3,
};

enum fi_threading {
    FI_THREAD_UNSPEC = 0,
    FI_THREAD_SAFE = 1,
    FI_THREAD_FID = 2,
    FI_THREAD_DOMAIN = 3,
    FI_THREAD_COMPLETION = 4,
    FI_THREAD_ENDPOINT = 5,
};

enum fi_resource_mgmt {
    FI_RM_UNSPEC = 0,
    FI_RM_DISABLED = 1,
    FI_RM_ENABLED = 2,
};

enum fi_bus_type {
    FI_BUS_UNSPEC = 0,
    FI_BUS_UNKNOWN = 0,
    FI_BUS_PCI = 1,
};

enum fi_link_state {
    FI_LINK_UNKNOWN = 0,
    FI_LINK_DOWN = 1,
    FI_LINK_UP = 2,
};

enum fi_type {
    FI_TYPE_INFO = 0,
    FI_TYPE_EP_TYPE = 1,
    FI_TYPE_CAPS = 2,
    FI_TYPE_OP_FLAGS = 3,
    FI_TYPE_ADDR_FORMAT = 4,
    FI_TYPE_TX_ATTR = 5,
    FI_TYPE_RX_ATTR = 6,
    FI_TYPE_EP_ATTR = 7,
    FI_TYPE_DOMAIN_ATTR = 8,
    FI_TYPE_FABRIC_ATTR = 9,
    FI_TYPE_THREADING = 10,
    FI_TYPE_PROGRESS = 11,
    FI_TYPE_PROTOCOL = 12,
    FI_TYPE_MSG_ORDER = 13,
    FI_TYPE_MODE = 14,
    FI_TYPE_AV_TYPE = 15,
    FI_TYPE_ATOMIC_TYPE = 16,
    FI_TYPE_ATOMIC_OP = 17,
    FI_TYPE_VERSION = 18,
    FI_TYPE_EQ_EVENT = 19,
    FI_TYPE_CQ_EVENT_FLAGS = 20,
    FI_TYPE_MR_MODE = 21,
    FI_TYPE_OP_TYPE = 22,
    FI_TYPE_FID = 23,
    FI_TYPE_COLLECTIVE_OP = 24,
    FI_TYPE_HMEM_IFACE = 25,
    FI_TYPE_CQ_FORMAT = 26,
    FI_TYPE_LOG_LEVEL = 27,
    FI_TYPE_LOG_SUBSYS = 28,
    FI_TYPE_AV_ATTR = 29,
    FI_TYPE_CQ_ATTR = 30,
    FI_TYPE_MR_ATTR = 31,
    FI_TYPE_CNTR_ATTR = 32,
    FI_TYPE_CQ_ERR_ENTRY = 33,
    FI_TYPE_CQ_WAIT_COND = 34,
    FI_TYPE_WAIT_OBJ = 35,
};

enum fi_param_type {
    FI_PARAM_STRING = 0,
    FI_PARAM_INT = 1,
    FI_PARAM_BOOL = 2,
    FI_PARAM_SIZE_T = 3,
};

struct fi_ops {
    size_t size;
    int (*close)(struct fid *fid);
    int (*bind)(struct fid *fid, struct fid *bfid, uint64_t flags);
    int (*control)(struct fid *fid, int command, void *arg);
    int (*ops_open)(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
    int (*tostr)(const struct fid *fid, char *buf, size_t len);
    int (*ops_set)(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);
};

struct fid {
    size_t fclass;
    void *context;
    struct fi_ops *ops;
};

typedef struct fid *fid_t;

typedef uint64_t fi_addr_t;

struct fi_ioc {
    void *addr;
    size_t count;
};

struct fi_tx_attr {
    uint64_t caps;
    uint64_t mode;
    uint64_t op_flags;
    uint64_t msg_order;
    uint64_t comp_order;
    size_t inject_size;
    size_t size;
    size_t iov_limit;
    size_t rma_iov_limit;
    uint32_t tclass;
};

struct fi_rx_attr {
    uint64_t caps;
    uint64_t mode;
    uint64_t op_flags;
    uint64_t msg_order;
    uint64_t comp_order;
    size_t total_buffered_recv;
    size_t size;
    size_t iov_limit;
};

struct fi_ep_attr {
    enum fi_ep_type type;
    uint32_t protocol;
    uint32_t protocol_version;
    size_t max_msg_size;
    size_t msg_prefix_size;
    size_t max_order_raw_size;
    size_t max_order_war_size;
    size_t max_order_waw_size;
    uint64_t mem_tag_format;
    size_t tx_ctx_cnt;
    size_t rx_ctx_cnt;
    size_t auth_key_size;
    uint8_t *auth_key;
};

struct fi_domain_attr {
    struct fid_domain *domain;
    char *name;
    enum fi_threading threading;
    enum fi_progress control_progress;
    union {
        enum fi_progress data_progress;
        enum fi_progress progress;
    };
    enum fi_resource_mgmt resource_mgmt;
    enum fi_av_type av_type;
    int mr_mode;
    size_t mr_key_size;
    size_t cq_data_size;
    size_t cq_cnt;
    size_t ep_cnt;
    size_t tx_ctx_cnt;
    size_t rx_ctx_cnt;
    size_t max_ep_tx_ctx;
    size_t max_ep_rx_ctx;
    size_t max_ep_stx_ctx;
    size_t max_ep_srx_ctx;
    size_t cntr_cnt;
    size_t mr_iov_limit;
    uint64_t caps;
    uint64_t mode;
    uint8_t *auth_key;
    size_t auth_key_size;
    size_t max_err_data;
    size_t mr_cnt;
    uint32_t tclass;
    size_t max_ep_auth_key;
    uint32_t max_group_id;
    uint64_t max_cntr_value;
    uint64_t max_err_cntr_value;
};

struct fi_device_attr {
    char *name;
    char *device_id;
    char *device_version;
    char *vendor_id;
    char *driver;
    char *firmware;
};

struct fi_pci_attr {
    uint16_t domain_id;
    uint8_t bus_id;
    uint8_t device_id;
    uint8_t function_id;
};

struct fi_bus_attr {
    enum fi_bus_type bus_type;
    union {
        struct fi_pci_attr pci;
    } attr;
};

struct fi_link_attr {
    char *address;
    size_t mtu;
    size_t speed;
    enum fi_link_state state;
    char *network_type;
};

struct fid_nic {
    struct fid fid;
    struct fi_device_attr *device_attr;
    struct fi_bus_attr *bus_attr;
    struct fi_link_attr *link_attr;
    void *prov_attr;
};

struct fi_info {
    struct fi_info *next;
    uint64_t caps;
    uint64_t mode;
    uint32_t addr_format;
    size_t src_addrlen;
    size_t dest_addrlen;
    void *src_addr;
    void *dest_addr;
    fid_t handle;
    struct fi_tx_attr *tx_attr;
    struct fi_rx_attr *rx_attr;
    struct fi_ep_attr *ep_attr;
    struct fi_domain_attr *domain_attr;
    struct fi_fabric_attr *fabric_attr;
    struct fid_nic *nic;
};

struct fi_ops_fabric {
    size_t size;
    int (*domain)(struct fid_fabric *fabric,
                  struct fi_info *info,
                  struct fid_domain **dom,
                  void *context);
    int (*passive_ep)(struct fid_fabric *fabric,
                      struct fi_info *info,
                      struct fid_pep **pep,
                      void *context);
    int (*eq_open)(struct fid_fabric *fabric,
                   struct fi_eq_attr *attr,
                   struct fid_eq **eq,
                   void *context);
    int (*wait_open)(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **waitset);
    int (*trywait)(struct fid_fabric *fabric, struct fid **fids, int count);
    int (*domain2)(struct fid_fabric *fabric,
                   struct fi_info *info,
                   struct fid_domain **dom,
                   uint64_t flags,
                   void *context);
};

struct fid_fabric {
    struct fid fid;
    struct fi_ops_fabric *ops;
    uint32_t api_version;
};

struct fi_fabric_attr {
    struct fid_fabric *fabric;
    char *name;
    char *prov_name;
    uint32_t prov_version;
    uint32_t api_version;
};

struct fi_alias {
    struct fid **fid;
    uint64_t flags;
};

struct fi_fid_var {
    int name;
    void *val;
};

struct fi_mr_raw_attr {
    uint64_t flags;
    uint64_t *base_addr;
    uint8_t *raw_key;
    size_t *key_size;
};

struct fi_mr_map_raw {
    uint64_t flags;
    uint64_t base_addr;
    uint8_t *raw_key;
    size_t key_size;
    uint64_t *key;
};

struct fi_param {
    const char *name;
    enum fi_param_type type;
    const char *help_string;
    const char *value;
};

struct fi_context {
    void *internal[4];
};

struct fi_context2 {
    void *internal[8];
};

struct fi_recv_context {
    struct fid_ep *ep;
    void *context;
};

#define FI_EP_SOCK_STREAM FI_EP_UNSPEC

#ifdef FI_REMOVED_NAMES
/* Names that release 2.0 took away, for sources written before; ask for them before the include. */
#ifndef container_of
#define container_of(ptr, type, field) ((type *) ((char *) (ptr) - offsetof(type, field)))
#endif
#ifndef count_of
#define count_of(array) (sizeof(array) / sizeof(*(array)))
#endif
#define FI_PATH_MAX 256
#define FI_VERSION_MAX 64
/* Its members are the FI_MR_* constants above. */
enum fi_mr_mode { FI_MR_MODE_COMPAT_ };
#endif

/* The interface version of the library, as FI_VERSION(major, minor). fi_version(3) */
uint32_t fi_version(void);

/*
 * Lists what can be used, best first; the caller frees *info with fi_freeinfo. `version` is the
 * interface the caller was written for. -FI_ENODATA: nothing matches. fi_getinfo(3)
 */
int fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
               const struct fi_info *hints, struct fi_info **info);

/* Frees a list and all it points to with free(3); NULL is fine. fi_getinfo(3) */
void fi_freeinfo(struct fi_info *info);

/*
 * Copies one entry of a list; given NULL, makes an empty one with its attribute structs. NULL: no
 * memory. fi_getinfo(3)
 */
struct fi_info *fi_dupinfo(const struct fi_info *info);

static inline struct fi_info *fi_allocinfo(void)
{
    return fi_dupinfo(NULL);
}

/*
 * Opens a fabric, the top of all other objects; `flags` of fi_fabric2 are reserved (0).
 * fi_fabric(3)
 */
int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);

int fi_fabric2(struct fi_info *info, struct fid_fabric **fabric, uint64_t flags, void *context);

/* Opens a named object of the library itself, such as "logging" or "mem_monitor". fi_open(3) */
int fi_open(uint32_t version, const char *name, void *attr, size_t attr_len, uint64_t flags,
            struct fid **fid, void *context);

/* Closes any object. -FI_EBUSY: objects made from it are still open. fi_fabric(3), fi_endpoint(3) */
static inline int fi_close(struct fid *fid)
{
    return fid->ops->close(fid);
}

/*
 * A command to any object; what `arg` points to depends on `command` (FI_GETWAIT, FI_ALIAS, ...).
 * fi_control(3)
 */
static inline int fi_control(struct fid *fid, int command, void *arg)
{
    return fid->ops->control(fid, command, arg);
}

/* A second handle of an endpoint that uses `flags` by default. fi_endpoint(3) */
static inline int fi_alias(struct fid *fid, struct fid **alias_fid, uint64_t flags)
{
    struct fi_alias alias;

    alias.fid = alias_fid;
    alias.flags = flags;
    return fid->ops->control(fid, FI_ALIAS, &alias);
}

/* Reads or sets one variable of an object; `name` decides what `val` points to. fi_control(3) */
static inline int fi_get_val(struct fid *fid, int name, void *val)
{
    struct fi_fid_var var;

    var.name = name;
    var.val = val;
    return fid->ops->control(fid, FI_GET_VAL, &var);
}

static inline int fi_set_val(struct fid *fid, int name, void *val)
{
    struct fi_fid_var var;

    var.name = name;
    var.val = val;
    return fid->ops->control(fid, FI_SET_VAL, &var);
}

/* Gets or replaces a named table of provider functions. -FI_ENOSYS: no such table. fi_fabric(3) */
static inline int
fi_open_ops(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
    return fid->ops->ops_open(fid, name, flags, ops, context);
}

static inline int
fi_set_ops(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context)
{
    if (!FI_CHECK_OP(fid->ops, struct fi_ops, ops_set))
        return -FI_ENOSYS;
    return fid->ops->ops_set(fid, name, flags, ops, context);
}

/*
 * Traffic classes: puts a differentiated services code point (0 to 63) into a class, takes it out;
 * 0 if the class is not one. fi_endpoint(3)
 */
static inline uint32_t fi_tc_dscp_set(uint8_t dscp)
{
    return dscp | (uint32_t) FI_TC_DSCP;
}

static inline uint8_t fi_tc_dscp_get(uint32_t tclass)
{
    return (tclass & FI_TC_DSCP) ? (uint8_t) tclass : 0;
}

/*
 * Prints a value, or the struct that `data` points to. fi_tostr uses storage of the calling
 * thread; fi_tostr_r writes at most `len` bytes with the final 0 and returns `buf`. fi_fabric(3)
 */
char *fi_tostr(const void *data, enum fi_type datatype);

char *fi_tostr_r(char *buf, size_t len, const void *data, enum fi_type datatype);

/*
 * The settings that the library and its providers read, *count entries; freed with fi_freeparams.
 * fi_fabric(3)
 */
int fi_getparams(struct fi_param **params, int *count);

void fi_freeparams(struct fi_param *params);

#ifdef __cplusplus
}
#endif

#endif /* FABRIC_H */
