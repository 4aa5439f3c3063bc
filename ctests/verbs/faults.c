// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Stands before the stand-in for rdma-core, as its libibverbs.so.1, and spoils one thing. FAULT says what:
//!   NAME:N          the Nth call of this function fails; post_send, post_recv and post_srq_recv are functions, too
//!   status:N:S      the Nth work completion has the status S
//!   event:N:E:S     the Nth event of the connection manager is E, with status S
//!   notice:N:T      at the Nth request the device reports the asynchronous event T for its queue pair
//! All are counted from 1. At the end of the process a line tells whether it happened.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

// The members that are used, at their places in the structs of rdma-core.
struct completion {
	uint64_t id;
	uint32_t status, rest[9];
};
struct cm_event {
	void *id, *listen_id;
	uint32_t event;
	int32_t status;
};
typedef long (*function)(long, long, long, long, long, long);
struct context {
	char before_poll[96];
	function poll_cq;
	char before_srq[168 - 104];
	function post_srq_recv;
	char before_send[208 - 176];
	function post_send, post_recv;
	char before_async[268 - 224];
	int async_fd;
};
struct async_event {
	void *element;
	uint32_t type;
};

static char what[64];
static long nth, value, status;
static int happened;

__attribute__((constructor)) static void start(void)
{
	const char *fault = getenv("FAULT");

	if (fault)
		sscanf(fault, "%63[^:]:%ld:%ld:%ld", what, &nth, &value, &status);
}

__attribute__((destructor)) static void end(void)
{
	if (what[0])
		fprintf(stderr, "fault: %s\n", happened ? "happened" : "did not happen");
}

// Whether this is the one.
static int is_it(const char *name)
{
	if (strcmp(name, what) || --nth)
		return 0;
	happened = 1;
	return 1;
}

static function next(const char *name)
{
	function found = (function)dlsym(RTLD_NEXT, name);

	if (!found) {
		fprintf(stderr, "the stand-in has no %s\n", name);
		abort();
	}
	return found;
}

// All arguments of these functions are integers and pointers.
#define FORWARD(name, bad) \
	long name(long a, long b, long c, long d, long e, long f) \
	{ \
		static function real; \
		if (!real) \
			real = next(#name); \
		if (is_it(#name)) { \
			errno = ENOMEM; \
			return bad; \
		} \
		return real(a, b, c, d, e, f); \
	}
#define POINTER(name) FORWARD(name, 0)
#define NUMBER(name) FORWARD(name, ENOMEM)
#define MINUS_ONE(name) FORWARD(name, -1)

POINTER(ibv_get_device_list)
POINTER(ibv_open_device)
POINTER(ibv_alloc_pd)
POINTER(ibv_reg_mr_iova2)
POINTER(ibv_create_comp_channel)
POINTER(ibv_create_cq)
POINTER(ibv_create_srq)
POINTER(ibv_create_qp)
POINTER(ibv_create_ah)
POINTER(rdma_create_event_channel)
NUMBER(ibv_query_device)
NUMBER(ibv_query_port)
NUMBER(ibv_modify_qp)
NUMBER(ibv_dealloc_pd)
NUMBER(ibv_dereg_mr)
NUMBER(ibv_destroy_cq)
NUMBER(ibv_destroy_srq)
NUMBER(ibv_destroy_qp)
MINUS_ONE(ibv_query_gid)
MINUS_ONE(ibv_query_pkey)
MINUS_ONE(ibv_get_cq_event)
MINUS_ONE(rdma_create_id)
MINUS_ONE(rdma_migrate_id)
MINUS_ONE(rdma_bind_addr)
MINUS_ONE(rdma_resolve_addr)
MINUS_ONE(rdma_resolve_route)
MINUS_ONE(rdma_create_qp)
MINUS_ONE(rdma_connect)
MINUS_ONE(rdma_accept)
MINUS_ONE(rdma_reject)
MINUS_ONE(rdma_disconnect)
MINUS_ONE(rdma_listen)

static struct context real_ops;

static long poll_cq(long queue, long most, long into, long d, long e, long f)
{
	struct completion *all = (struct completion *)into;
	long found = real_ops.poll_cq(queue, most, into, d, e, f);

	for (long i = 0; i < (int)found; i++) {
		if (is_it("status"))
			all[i].status = value;
	}
	return found;
}

static int notices = -1;
static void *noticed;

static long post_send(long a, long b, long bad, long d, long e, long f)
{
	if (is_it("notice")) {
		noticed = (void *)a;
		eventfd_write(notices, 1);
	}
	if (is_it("post_send")) {
		*(long *)bad = b;
		return EIO;
	}
	return real_ops.post_send(a, b, bad, d, e, f);
}

static long post_recv(long a, long b, long bad, long d, long e, long f)
{
	if (is_it("post_recv")) {
		*(long *)bad = b;
		return EIO;
	}
	return real_ops.post_recv(a, b, bad, d, e, f);
}

static long post_srq_recv(long a, long b, long bad, long d, long e, long f)
{
	if (is_it("post_srq_recv")) {
		*(long *)bad = b;
		return EIO;
	}
	return real_ops.post_srq_recv(a, b, bad, d, e, f);
}

int ibv_get_async_event(struct context *context, struct async_event *event)
{
	eventfd_t count;

	if (context->async_fd != notices || eventfd_read(notices, &count))
		return -1;
	event->element = noticed;
	event->type = value;
	return 0;
}

void ibv_ack_async_event(struct async_event *event)
{
	(void)event;
}

struct context **rdma_get_devices(int *count)
{
	struct context **all;

	if (is_it("rdma_get_devices")) {
		errno = ENOMEM;
		return NULL;
	}
	all = (struct context **)next("rdma_get_devices")((long)count, 0, 0, 0, 0, 0);
	for (int i = 0; all && i < *count; i++) {
		if (all[i]->poll_cq == poll_cq)
			continue;
		real_ops = *all[i];
		if (notices < 0)
			notices = eventfd(0, 0);
		all[i]->async_fd = notices;
		all[i]->poll_cq = poll_cq;
		all[i]->post_send = post_send;
		all[i]->post_recv = post_recv;
		all[i]->post_srq_recv = post_srq_recv;
	}
	return all;
}

long rdma_get_cm_event(long channel, struct cm_event **event)
{
	long result = next("rdma_get_cm_event")(channel, (long)event, 0, 0, 0, 0);

	if (!(int)result && is_it("event")) {
		(*event)->event = value;
		(*event)->status = status;
	}
	return result;
}
