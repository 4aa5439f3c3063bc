// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Handles and their tables as a program of that time has them: its inline functions call through these tables. Also the
// symbols to which it was linked.

#ifndef OLD_API_TABLES_H
#define OLD_API_TABLES_H

#include "types.h"

struct fid_fabric;
struct fid_domain;
struct fid_ep;
struct fid_pep;
struct fid_stx;
struct fid_mr;
struct fid_av;
struct fid_cq;
struct fid_eq;
struct fid_cntr;
struct fid_wait;
struct fid_poll;

struct fi_ops {
	size_t size;
	int (*close)(struct fid *);
	int (*bind)(struct fid *, struct fid *, uint64_t);
	int (*control)(struct fid *, int, void *);
	int (*ops_open)(struct fid *, const char *, uint64_t, void **, void *);
#if SINCE(1, 7)
	int (*tostr)(const struct fid *, char *, size_t);
#endif
#if SINCE(1, 11)
	int (*ops_set)(struct fid *, const char *, uint64_t, void *, void *);
#endif
};

struct fid {
	size_t fclass;
	void *context;
	struct fi_ops *ops;
};

struct fid_fabric {
	struct fid fid;
	struct fi_ops_fabric *ops;
#if SINCE(1, 5)
	uint32_t api_version;
#endif
};

struct fi_ops_fabric {
	size_t size;
	int (*domain)(struct fid_fabric *, struct fi_info *, struct fid_domain **, void *);
	int (*passive_ep)(struct fid_fabric *, struct fi_info *, struct fid_pep **, void *);
	int (*eq_open)(struct fid_fabric *, struct fi_eq_attr *, struct fid_eq **, void *);
	int (*wait_open)(struct fid_fabric *, struct fi_wait_attr *, struct fid_wait **);
#if SINCE(1, 3)
	int (*trywait)(struct fid_fabric *, struct fid **, int);
#endif
#if SINCE(1, 17)
	int (*domain2)(struct fid_fabric *, struct fi_info *, struct fid_domain **, uint64_t, void *);
#endif
};

struct fid_domain {
	struct fid fid;
	struct fi_ops_domain *ops;
	struct fi_ops_mr *mr;
};

struct fi_ops_domain {
	size_t size;
	int (*av_open)(struct fid_domain *, struct fi_av_attr *, struct fid_av **, void *);
	int (*cq_open)(struct fid_domain *, struct fi_cq_attr *, struct fid_cq **, void *);
	int (*endpoint)(struct fid_domain *, struct fi_info *, struct fid_ep **, void *);
	int (*scalable_ep)(struct fid_domain *, struct fi_info *, struct fid_ep **, void *);
	int (*cntr_open)(struct fid_domain *, struct fi_cntr_attr *, struct fid_cntr **, void *);
	int (*poll_open)(struct fid_domain *, struct fi_poll_attr *, struct fid_poll **);
	int (*stx_ctx)(struct fid_domain *, struct fi_tx_attr *, struct fid_stx **, void *);
	int (*srx_ctx)(struct fid_domain *, struct fi_rx_attr *, struct fid_ep **, void *);
#if SINCE(1, 5)
	void *query_atomic;
#endif
#if SINCE(1, 9)
	void *query_collective;
#endif
#if SINCE(1, 17)
	int (*endpoint2)(struct fid_domain *, struct fi_info *, struct fid_ep **, uint64_t, void *);
#endif
};

struct fid_mr {
	struct fid fid;
	void *mem_desc;
	uint64_t key;
};

struct fi_ops_mr {
	size_t size;
	int (*reg)(struct fid *, const void *, size_t, uint64_t, uint64_t, uint64_t, uint64_t, struct fid_mr **, void *);
	int (*regv)(struct fid *, const struct iovec *, size_t, uint64_t, uint64_t, uint64_t, uint64_t, struct fid_mr **,
		    void *);
	int (*regattr)(struct fid *, const struct fi_mr_attr *, uint64_t, struct fid_mr **);
};

struct fid_cq {
	struct fid fid;
	struct fi_ops_cq *ops;
};

struct fi_ops_cq {
	size_t size;
	ssize_t (*read)(struct fid_cq *, void *, size_t);
	ssize_t (*readfrom)(struct fid_cq *, void *, size_t, fi_addr_t *);
	ssize_t (*readerr)(struct fid_cq *, struct fi_cq_err_entry *, uint64_t);
	ssize_t (*sread)(struct fid_cq *, void *, size_t, const void *, int);
	ssize_t (*sreadfrom)(struct fid_cq *, void *, size_t, fi_addr_t *, const void *, int);
	int (*signal)(struct fid_cq *);
	const char *(*strerror)(struct fid_cq *, int, const void *, char *, size_t);
};

struct fid_eq {
	struct fid fid;
	struct fi_ops_eq *ops;
};

struct fi_ops_eq {
	size_t size;
	ssize_t (*read)(struct fid_eq *, uint32_t *, void *, size_t, uint64_t);
	ssize_t (*readerr)(struct fid_eq *, struct fi_eq_err_entry *, uint64_t);
	ssize_t (*write)(struct fid_eq *, uint32_t, const void *, size_t, uint64_t);
	ssize_t (*sread)(struct fid_eq *, uint32_t *, void *, size_t, int, uint64_t);
	const char *(*strerror)(struct fid_eq *, int, const void *, char *, size_t);
};

struct fid_cntr {
	struct fid fid;
	void *ops;
};

struct fid_wait {
	struct fid fid;
	void *ops;
};

struct fid_poll {
	struct fid fid;
	void *ops;
};

struct fid_stx {
	struct fid fid;
	void *ops;
};

struct fid_av {
	struct fid fid;
	struct fi_ops_av *ops;
};

struct fi_ops_av {
	size_t size;
	int (*insert)(struct fid_av *, const void *, size_t, fi_addr_t *, uint64_t, void *);
	int (*insertsvc)(struct fid_av *, const char *, const char *, fi_addr_t *, uint64_t, void *);
	int (*insertsym)(struct fid_av *, const char *, size_t, const char *, size_t, fi_addr_t *, uint64_t, void *);
	int (*remove)(struct fid_av *, fi_addr_t *, size_t, uint64_t);
	int (*lookup)(struct fid_av *, fi_addr_t, void *, size_t *);
	const char *(*straddr)(struct fid_av *, const void *, char *, size_t *);
	// longer since 1.9
};

struct fid_ep {
	struct fid fid;
	struct fi_ops_ep *ops;
	struct fi_ops_cm *cm;
	struct fi_ops_msg *msg;
	struct fi_ops_rma *rma;
	void *tagged, *atomic;
#if SINCE(1, 9)
	void *collective;
#endif
};

struct fid_pep {
	struct fid fid;
	struct fi_ops_ep *ops;
	struct fi_ops_cm *cm;
};

struct fi_ops_ep {
	size_t size;
	ssize_t (*cancel)(fid_t, void *);
	int (*getopt)(fid_t, int, int, void *, size_t *);
	int (*setopt)(fid_t, int, int, const void *, size_t);
	int (*tx_ctx)(struct fid_ep *, int, struct fi_tx_attr *, struct fid_ep **, void *);
	int (*rx_ctx)(struct fid_ep *, int, struct fi_rx_attr *, struct fid_ep **, void *);
	ssize_t (*rx_size_left)(struct fid_ep *);
	ssize_t (*tx_size_left)(struct fid_ep *);
};

struct fi_ops_cm {
	size_t size;
	int (*setname)(fid_t, void *, size_t);
	int (*getname)(fid_t, void *, size_t *);
	int (*getpeer)(struct fid_ep *, void *, size_t *);
	int (*connect)(struct fid_ep *, const void *, const void *, size_t);
	int (*listen)(struct fid_pep *);
	int (*accept)(struct fid_ep *, const void *, size_t);
	int (*reject)(struct fid_pep *, fid_t, const void *, size_t);
	int (*shutdown)(struct fid_ep *, uint64_t);
#if SINCE(1, 5)
	void *join;
#endif
};

struct fi_ops_msg {
	size_t size;
	ssize_t (*recv)(struct fid_ep *, void *, size_t, void *, fi_addr_t, void *);
	ssize_t (*recvv)(struct fid_ep *, const struct iovec *, void **, size_t, fi_addr_t, void *);
	ssize_t (*recvmsg)(struct fid_ep *, const struct fi_msg *, uint64_t);
	ssize_t (*send)(struct fid_ep *, const void *, size_t, void *, fi_addr_t, void *);
	ssize_t (*sendv)(struct fid_ep *, const struct iovec *, void **, size_t, fi_addr_t, void *);
	ssize_t (*sendmsg)(struct fid_ep *, const struct fi_msg *, uint64_t);
	ssize_t (*inject)(struct fid_ep *, const void *, size_t, fi_addr_t);
	// continues, unchanged so far
};

struct fi_ops_rma {
	size_t size;
	ssize_t (*read)(struct fid_ep *, void *, size_t, void *, fi_addr_t, uint64_t, uint64_t, void *);
	ssize_t (*readv)(struct fid_ep *, const struct iovec *, void **, size_t, fi_addr_t, uint64_t, uint64_t, void *);
	ssize_t (*readmsg)(struct fid_ep *, const struct fi_msg_rma *, uint64_t);
	ssize_t (*write)(struct fid_ep *, const void *, size_t, void *, fi_addr_t, uint64_t, uint64_t, void *);
	ssize_t (*writev)(struct fid_ep *, const struct iovec *, void **, size_t, fi_addr_t, uint64_t, uint64_t, void *);
	ssize_t (*writemsg)(struct fid_ep *, const struct fi_msg_rma *, uint64_t);
	// continues, unchanged so far
};

// The symbols of the release: node 1.0 up to 1.4, later nodes as the structs of fi_info grew.
#if SINCE(2, 5)
#define INFO_NODE "FABRIC_1.9"
#elif SINCE(2, 0)
#define INFO_NODE "FABRIC_1.8"
#elif SINCE(1, 20)
#define INFO_NODE "FABRIC_1.7"
#elif SINCE(1, 9)
#define INFO_NODE "FABRIC_1.3"
#elif SINCE(1, 7)
#define INFO_NODE "FABRIC_1.2"
#elif SINCE(1, 5)
#define INFO_NODE "FABRIC_1.1"
#else
#define INFO_NODE "FABRIC_1.0"
#endif
#if SINCE(1, 5)
#define FABRIC_NODE "FABRIC_1.1"
#else
#define FABRIC_NODE "FABRIC_1.0"
#endif

int old_getinfo(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **);
void old_freeinfo(struct fi_info *);
struct fi_info *old_dupinfo(const struct fi_info *);
int old_fabric(struct fi_fabric_attr *, struct fid_fabric **, void *);
uint32_t old_version(void);
char *old_tostr(const void *, int);
__asm__(".symver old_getinfo, fi_getinfo@" INFO_NODE);
__asm__(".symver old_freeinfo, fi_freeinfo@" INFO_NODE);
__asm__(".symver old_dupinfo, fi_dupinfo@" INFO_NODE);
__asm__(".symver old_fabric, fi_fabric@" FABRIC_NODE);
__asm__(".symver old_version, fi_version@FABRIC_1.0");
__asm__(".symver old_tostr, fi_tostr@FABRIC_1.0");

static inline int control(struct fid *fid, int command, void *argument)
{
	return fid->ops->control(fid, command, argument);
}

static inline int bind_to(struct fid *fid, struct fid *other, uint64_t flags)
{
	return fid->ops->bind(fid, other, flags);
}

#endif
