// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Declarations shared by the files of the provider "carry". One mutex of the fabric protects everything below. Event
// queues belong to the fabric and handle the connections of all its domains, so a mutex per domain would need a lock
// order. Functions expect the mutex to be held unless their comment differs.
#ifndef CARRY_H
#define CARRY_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

enum {
	CARRY_IOV = 4,         // buffers of an operation, local and remote
	CARRY_MR_IOV = 4,      // segments of a region
	CARRY_CM_DATA = 256,   // bytes of private data in a connection request, an acceptance, a rejection
	CARRY_SIZE = 256,      // operations of a queue unless the hints differ
	CARRY_SMALL = 16,      // the same with the demand "small"
	CARRY_MAX_SIZE = 4096, // largest size of a queue
	CARRY_CQ_SIZE = 1024, CARRY_INJECT = 1024, CARRY_MAX_MSG = 64 << 20, CARRY_SMALL_MSG = 64 << 10, CARRY_MAX_DGRAM = 65000,
	CARRY_BUFFERED = 4 << 20, // bytes of unexpected messages at which a connection is no longer read
	CARRY_BUF = 64 << 10, CARRY_CNTRS = 6,
};

// Requirements that the environment variable CARRY_DEMANDS makes for applications.
enum {
	DEMAND_LOCAL = 1 << 0, DEMAND_PROV_KEY = 1 << 1, DEMAND_VIRT_ADDR = 1 << 2, DEMAND_ALLOCATED = 1 << 3,
	DEMAND_ENDPOINT = 1 << 4, DEMAND_INJECT0 = 1 << 5, DEMAND_IOV1 = 1 << 6, DEMAND_CONTEXT = 1 << 7,
	DEMAND_RX_CQ_DATA = 1 << 8, DEMAND_SMALL = 1 << 9, DEMAND_DATA4 = 1 << 10,
};

extern struct fi_provider carry_provider;
extern unsigned carry_demands;

// ---- Lists

struct link {
	struct link *next, *prev;
};

#define OWNER(PTR, TYPE, FIELD) ((TYPE *) ((char *) (PTR) - offsetof(TYPE, FIELD)))
#define EACH(AT, LIST) for (struct link *AT = (LIST)->next, *AT##_next; AT##_next = AT->next, AT != (LIST); AT = AT##_next)

static inline void list_init(struct link *list)
{
	list->next = list->prev = list;
}

static inline bool list_empty(const struct link *list)
{
	return list->next == list;
}

static inline void list_insert(struct link *after, struct link *at)
{
	at->prev = after;
	at->next = after->next;
	after->next->prev = at;
	after->next = at;
}

static inline void list_append(struct link *list, struct link *at)
{
	list_insert(list->prev, at);
}

static inline void list_del(struct link *at)
{
	at->prev->next = at->next;
	at->next->prev = at->prev;
	list_init(at);
}

// ---- The wire: a frame, its spans, `len` bytes. Both ends are on one machine, so the byte order is that of the host.

enum { FRAME_HELLO = 1, FRAME_ACCEPT, FRAME_REJECT, FRAME_MSG, FRAME_WRITE, FRAME_READ, FRAME_READ_DATA, FRAME_ACK, FRAME_BYE };
enum {
	FRAME_CQ_DATA = 1 << 0,  // `data` is for the completion
	FRAME_ACK_HERE = 1 << 1, // answer when all bytes have arrived
	FRAME_ACK_PLACED = 1 << 2, // answer when the bytes are in the receiver's buffer
};
#define CARRY_MAGIC 0x6361727279303100ull // the `data` of a HELLO

struct carry_frame {
	uint8_t kind, flags;
	uint16_t spans;
	uint32_t id;
	uint64_t len;
	uint64_t data;
};

// A range of remote memory.
struct carry_span {
	uint64_t addr, len, key;
};

// ---- Objects

// A socket that progress polls.
struct carry_source {
	int fd;
	uint32_t wants; // events registered with epoll; 0: not in the set
	void (*ready)(struct carry_source *source, uint32_t events);
};

struct carry_fabric {
	struct fid_fabric fid;
	struct link all;
	pthread_mutex_t lock;
	int epfd; // all sockets of the fabric
	unsigned users, news; // connections that began or ended and were not logged yet
	struct link peps, requests, lingering;
};

// A wait object: an epoll descriptor with the fabric's sockets and an eventfd, the bell.
struct carry_wait {
	struct carry_fabric *fabric;
	enum fi_wait_obj obj;
	int epfd, bell;
	bool rung;
	unsigned waiters, leaving; // sleeping threads; those that have not seen a signal yet
	uint64_t signals;
};

struct carry_eq {
	struct fid_eq fid;
	struct carry_fabric *fabric;
	struct carry_wait wait;
	struct link events;
	unsigned users;
	bool writable;
	void *err_data; // of the last error that was read
};

struct carry_domain {
	struct fid_domain fid;
	struct link all;
	struct carry_fabric *fabric;
	struct carry_eq *eq;
	unsigned users;
	int mr_mode;
	uint64_t mode, caps;
	enum fi_ep_type type; // of the info with which it was opened
	struct link *by_key;  // buckets
	size_t regions;
};

struct carry_cq {
	struct fid_cq fid;
	struct carry_domain *domain;
	struct carry_wait wait;
	enum fi_cq_format format;
	enum fi_cq_wait_cond cond;
	unsigned users;
	size_t size, room, first, count; // of the ring
	struct fi_cq_err_entry *ring;    // err 0: a success
};

struct carry_cntr {
	struct fid_cntr fid;
	struct carry_domain *domain;
	struct carry_wait wait;
	enum fi_cntr_events events;
	unsigned users;
	uint64_t value, errors, seen;
};

struct carry_av {
	struct fid_av fid;
	struct carry_domain *domain;
	unsigned users;
	size_t room, end;
	struct sockaddr_in *peers; // sin_family 0: unused
};

struct carry_mr {
	struct fid_mr fid;
	struct link at;
	struct carry_domain *domain;
	struct iovec iov[CARRY_MR_IOV];
	size_t count, len;
	uint64_t access;
	bool enabled;
	struct carry_ep *ep;
	struct carry_cntr *cntr;
};

struct carry_recv {
	struct link at;
	void *context;
	bool asked; // FI_COMPLETION was given
	struct iovec iov[CARRY_IOV];
	unsigned count;
	size_t len;
};

// An unexpected message, perhaps incomplete; or remote data of a write that waits for a receive.
struct carry_arrival {
	struct link at;
	struct carry_ep *ep;
	struct carry_recv *recv; // matched before all bytes had arrived
	struct carry_frame head;
	bool whole;
	uint8_t bytes[];
};

struct carry_rxq {
	struct link posted, arrived;
	size_t used, size, iov_limit;
	uint64_t op_flags;
};

struct carry_srx {
	struct fid_ep fid;
	struct carry_domain *domain;
	unsigned users;
	uint64_t caps;
	struct carry_rxq rxq;
};

struct carry_op {
	struct link at;
	void *context;
	uint64_t flags;      // of the completion
	bool report, answer; // a success is reported; the operation is an answer for the peer
	struct iovec iov[CARRY_IOV];
	unsigned count;
	size_t len, sent; // bytes of memory; bytes of the frame that the kernel has taken
	uint8_t *copy;
	struct carry_frame head;
	struct carry_span spans[CARRY_IOV];
};

enum carry_state { EP_IDLE, EP_REQUESTED, EP_CONNECTING, EP_GREETED, EP_CONNECTED, EP_ENDED };
enum carry_phase { IN_HEAD, IN_SPANS, IN_BODY };

struct carry_ep {
	struct fid_ep fid;
	struct carry_domain *domain;
	enum fi_ep_type type;
	uint64_t caps, mode;
	bool enabled, wants_srx, tx_selective, rx_selective;
	struct carry_cq *txcq, *rxcq;
	struct carry_cntr *cntr[CARRY_CNTRS];
	struct carry_eq *eq;
	struct carry_av *av;
	struct carry_srx *srx;
	uint64_t tx_flags;
	size_t tx_size, tx_used, inject_size, iov_limit, rma_iov_limit, max_msg_size;
	struct carry_rxq rxq; // used without a shared context
	// A connection, or a datagram socket.
	enum carry_state state;
	struct carry_source source;
	struct sockaddr_in own, peer;
	struct link out, waiting; // operations to write; operations that wait for the peer's answer
	unsigned answers;
	uint32_t next_id;
	uint8_t cm_data[CARRY_CM_DATA];
	size_t buffered; // bytes of arrivals
	// State of reading.
	uint8_t *in;
	size_t in_at, in_end, got;
	enum carry_phase phase;
	struct carry_frame head;
	struct carry_span spans[CARRY_IOV];
	struct carry_recv *into;
	struct carry_arrival *arrival;
	struct carry_op *reading;
};

struct carry_pep {
	struct fid_pep fid;
	struct link at;
	struct carry_fabric *fabric;
	struct carry_eq *eq;
	struct carry_source source;
	struct fi_info *info;
	struct sockaddr_in own;
	bool listening;
	int backlog;
};

// A connection request, until an endpoint accepts or rejects it.
struct carry_request {
	struct fid fid;
	struct link at;
	struct carry_source source;
	struct carry_pep *pep;
	struct carry_fabric *fabric;
	bool told; // the event was added
	size_t got;
	struct carry_frame head;
	uint8_t data[CARRY_CM_DATA];
};

// A transfer call of any form: the source of a send or write, or the destination of a read.
struct carry_call {
	uint8_t kind;
	bool silent; // an inject form
	const struct iovec *iov;
	void **desc, *context;
	size_t count, rma_count;
	fi_addr_t addr;
	uint64_t data, flags;
	const struct fi_rma_iov *rma;
};

// ---- provider.c
struct fid_fabric *carry_find_fabric(void);
struct fid_domain *carry_find_domain(void);
void carry_list_domain(struct carry_domain *domain, bool open);
// ---- info.c
int carry_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		  struct fi_info **info);
int carry_check_info(const struct fi_info *info);
int carry_resolve(const char *node, const char *service, uint64_t flags, struct sockaddr_in *addr);
bool carry_is_ours(const struct sockaddr_in *addr);
// ---- domain.c
int carry_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain, void *context);
// ---- mr.c
extern struct fi_ops_mr carry_mr_ops;
struct carry_mr *carry_mr_find(struct carry_domain *domain, uint64_t key);
int carry_mr_reach(struct carry_ep *ep, const struct carry_span *span, uint64_t right, struct iovec *iov, unsigned *count);
int carry_mr_check(struct carry_domain *domain, const struct iovec *iov, void **desc, size_t count);
void carry_mr_orphan(struct carry_ep *ep);
int carry_mr_control(struct carry_domain *domain, int command, void *arg);
// ---- wait.c
void carry_unlock(struct carry_fabric *fabric);
int carry_wait_open(struct carry_wait *wait, struct carry_fabric *fabric, enum fi_wait_obj obj);
void carry_wait_close(struct carry_wait *wait);
void carry_ring(struct carry_wait *wait);
void carry_quiet(struct carry_wait *wait);
void carry_signal(struct carry_wait *wait);
uint64_t carry_enter(struct carry_wait *wait);
void carry_leave(struct carry_wait *wait, uint64_t signals);
int carry_sleep(struct carry_wait *wait, uint64_t deadline);
uint64_t carry_deadline(int timeout);
int carry_wait_control(struct carry_wait *wait, int command, void *arg);
void carry_want(struct carry_fabric *fabric, struct carry_source *source, uint32_t events);
void carry_progress(struct carry_fabric *fabric);
int carry_trywait(struct fid_fabric *fabric, struct fid **fids, int count);
// ---- eq.c, cq.c, cntr.c, av.c
int carry_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context);
void carry_event(struct carry_eq *eq, uint32_t event, struct fid *fid, struct fi_info *info, const void *data, size_t len);
void carry_event_error(struct carry_eq *eq, struct fid *fid, int err, const void *data, size_t len);
void carry_forget_events(struct carry_eq *eq, struct fid *fid);
int carry_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);
void carry_complete(struct carry_cq *cq, const struct fi_cq_err_entry *entry);
const char *carry_error_text(int prov_errno, char *buf, size_t len);
int carry_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr, void *context);
void carry_count(struct carry_cntr *cntr, size_t bytes, bool failed);
int carry_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);
// ---- ep.c, srx.c
int carry_endpoint(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
int carry_ep_enable(struct carry_ep *ep);
int carry_srx_open(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **srx, void *context);
struct carry_cntr **carry_cntr_slot(struct carry_ep *ep, uint64_t flag);
// ---- cm.c, pep.c
extern struct fi_ops_cm carry_cm_ops;
int carry_passive_ep(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep, void *context);
int carry_give_name(const struct sockaddr_in *name, void *addr, size_t *len);
struct carry_request *carry_find_request(struct carry_fabric *fabric, const struct fid *fid);
void carry_drop_request(struct carry_request *request, bool refuse, const void *data, size_t len);
int carry_bind_socket(int type, struct sockaddr_in *own);
// ---- conn.c, in.c
void carry_conn_ready(struct carry_source *source, uint32_t events);
void carry_conn_wants(struct carry_ep *ep);
bool carry_conn_reads(const struct carry_ep *ep);
void carry_conn_flush(struct carry_ep *ep);
void carry_conn_end(struct carry_ep *ep, int err, bool gone);
void carry_conn_close(struct carry_ep *ep);
void carry_conn_read(struct carry_ep *ep);
void carry_conn_failed(struct carry_ep *ep, int err, const void *data, size_t len);
void carry_answer(struct carry_ep *ep, uint8_t kind, uint32_t id, int status, uint8_t *bytes, size_t len);
unsigned carry_slice(const struct iovec *iov, unsigned count, size_t at, size_t len, struct iovec *out);
void carry_op_done(struct carry_ep *ep, struct carry_op *op, int err);
// ---- serve.c
void carry_refuse(struct carry_ep *ep, uint8_t kind, int status);
unsigned carry_reach(struct carry_ep *ep, uint64_t right, struct iovec *iov, int *status);
void carry_serve_read(struct carry_ep *ep);
void carry_served_write(struct carry_ep *ep);
// ---- linger.c
void carry_linger(struct carry_fabric *fabric, int fd, struct link *out);
void carry_lingered(struct carry_fabric *fabric);
size_t carry_frame_iov(const struct carry_op *op, struct iovec *iov, unsigned *count);
// ---- rx.c
extern struct fi_ops_msg carry_msg_ops;
struct carry_rxq *carry_rxq_of(struct carry_ep *ep);
void carry_rxq_init(struct carry_rxq *rxq, const struct fi_rx_attr *attr);
void carry_rxq_drain(struct carry_rxq *rxq);
struct carry_recv *carry_take_recv(struct carry_rxq *rxq);
void carry_received(struct carry_ep *ep, struct carry_recv *recv, const struct carry_frame *head, int err);
void carry_write_data(struct carry_ep *ep, struct carry_recv *recv, const struct carry_frame *head);
void carry_arrived(struct carry_arrival *arrival);
void carry_arrival_free(struct carry_arrival *arrival);
ssize_t carry_cancel_recv(struct carry_rxq *rxq, struct carry_ep *ep, void *context);
// ---- tx.c, rma.c, dgram.c
ssize_t carry_post(struct fid_ep *fid, struct carry_call *call, bool defaults);
ssize_t carry_cancel_send(struct carry_ep *ep, void *context);
extern struct fi_ops_rma carry_rma_ops;
ssize_t carry_dgram_send(struct carry_ep *ep, const struct carry_call *call, bool report);
void carry_dgram_ready(struct carry_source *source, uint32_t events);
void carry_dgram_wants(struct carry_ep *ep);
// ---- tables.c: tables and slots of unsupported calls
extern struct fi_ops_tagged carry_no_tagged;
extern struct fi_ops_atomic carry_no_atomic;
extern struct fi_ops_collective carry_no_collective;
extern struct fi_ops_rma carry_no_rma;
extern struct fi_ops_cm carry_no_cm;
extern struct fi_ops_msg carry_no_msg;
extern struct fi_ops_ep carry_no_ep;
extern struct fi_ops_cq carry_no_cq;
extern struct fi_ops_cntr carry_no_cntr;
extern struct fi_ops_domain carry_no_domain;
extern struct fi_ops_fabric carry_no_fabric;
extern struct fi_ops_av carry_no_av;
void carry_fill(void *table, const void *none);
int carry_no_bind(struct fid *fid, struct fid *other, uint64_t flags);
int carry_no_control(struct fid *fid, int command, void *arg);
int carry_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int carry_no_tostr(const struct fid *fid, char *buf, size_t len);
int carry_no_ops_set(struct fid *fid, const char *name, uint64_t flags, void *ops, void *context);

// Flags of queues and counters that the provider does not serve.
#ifdef FI_XPU
#define CARRY_NOT_SERVED (FI_PEER | FI_XPU)
#else
#define CARRY_NOT_SERVED FI_PEER
#endif

// When the file is loaded, the empty slots of a table get functions that return an error.
#define CARRY_FILL(TABLE, NONE)                                                                                        \
	__attribute__((constructor)) static void fill_##TABLE(void)                                                    \
	{                                                                                                              \
		carry_fill(&TABLE, &NONE);                                                                             \
	}

// The fi_ops of an object; only close, bind and control differ.
#define CARRY_FI_OPS(CLOSE, BIND, CONTROL)                                                                             \
	{.size = sizeof(struct fi_ops), .close = CLOSE, .bind = BIND, .control = CONTROL, .ops_open = carry_no_ops_open, \
	 .tostr = carry_no_tostr, .ops_set = carry_no_ops_set}

#define carry_lock(FABRIC) pthread_mutex_lock(&(FABRIC)->lock)

#endif
