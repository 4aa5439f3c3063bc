// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! verbs NAME: one test of the provider `verbs` over the stand-in for rdma-core, which has the devices mlx5_0
//! (InfiniBand, 10.91.0.1), rocep1 (RoCE, 10.92.0.1) and siw0 (iWARP, 10.93.0.1), and logs each call to stderr if
//! FAKE_TRACE is set.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "must.h"

enum { LEN = 65536, LIMIT_MS = 5000, RECVS = 32, RECV_LEN = 2048 };

static const char *address = "10.91.0.1";
static uint32_t format;
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_pep *pep;
static struct fid_cq *cq_a, *cq_b;
static struct fid_ep *a, *b;
static struct fid_mr *mr_out, *mr_in;
static char out[LEN], in[LEN];

static struct fi_info *hints(void)
{
	struct fi_info *h = fi_allocinfo();

	CHECK(h);
	h->fabric_attr->prov_name = strdup("verbs");
	h->ep_attr->type = FI_EP_MSG;
	h->addr_format = format;
	h->mode = FI_CONTEXT | FI_RX_CQ_DATA;
	h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	return h;
}

static struct fi_info *ask(uint64_t flags)
{
	struct fi_info *h = hints(), *found = NULL;

	OK(fi_getinfo(FI_VERSION(2, 6), address, "7471", flags, h, &found));
	fi_freeinfo(h);
	return found;
}

static bool in_time(void)
{
	static struct timespec began;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!began.tv_sec)
		began = now;
	return (now.tv_sec - began.tv_sec) * 1000 < 4 * LIMIT_MS;
}

// ---- Connections

static uint32_t next_event(struct fi_eq_cm_entry *entry, char *data, size_t *len)
{
	char buf[512];
	uint32_t event = 0;
	ssize_t rc = fi_eq_sread(eq, &event, buf, sizeof(buf), LIMIT_MS, 0);

	if (rc < (ssize_t)sizeof(*entry))
		FAIL("no event: %zd", rc);
	memcpy(entry, buf, sizeof(*entry));
	*len = rc - sizeof(*entry);
	memcpy(data, buf + sizeof(*entry), *len);
	return event;
}

static void expect_event(uint32_t wanted, struct fi_eq_cm_entry *entry, const char *data)
{
	char got[512];
	size_t len = 0;

	RC(next_event(entry, got, &len), wanted);
	if (len != strlen(data) || memcmp(got, data, len))
		FAIL("event %u has %zu bytes \"%.*s\", not \"%s\"", wanted, len, (int)len, got, data);
}

static void no_event(void)
{
	char buf[512];
	uint32_t event;

	RC(fi_eq_read(eq, &event, buf, sizeof(buf), 0), -FI_EAGAIN);
}

static void listen_here(void)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_info *passive = ask(FI_SOURCE);
	size_t size = 0, len = sizeof(size);

	OK(fi_fabric(passive->fabric_attr, &fabric, NULL));
	OK(fi_eq_open(fabric, &attr, &eq, NULL));
	OK(fi_passive_ep(fabric, passive, &pep, NULL));
	OK(fi_pep_bind(pep, &eq->fid, 0));
	OK(fi_listen(pep));
	OK(fi_getopt(&pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &size, &len));
	RC(size, 55);
	fi_freeinfo(passive);
}

static struct fid_ep *endpoint(struct fi_info *of, struct fid_cq *cq, uint64_t flags)
{
	struct fid_ep *ep = NULL;

	OK(fi_endpoint(domain, of, &ep, NULL));
	OK(fi_ep_bind(ep, &eq->fid, 0));
	OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | flags));
	OK(fi_ep_bind(ep, &cq->fid, FI_RECV));
	OK(fi_enable(ep));
	return ep;
}

static void open_ends(uint64_t flags, size_t cq_size)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD, .size = cq_size };

	listen_here();
	info = ask(0);
	OK(fi_domain(fabric, info, &domain, NULL));
	OK(fi_cq_open(domain, &attr, &cq_a, NULL));
	OK(fi_cq_open(domain, &attr, &cq_b, NULL));
	OK(fi_mr_reg(domain, out, LEN, FI_SEND | FI_WRITE | FI_READ, 0, 0, 0, &mr_out, NULL));
	OK(fi_mr_reg(domain, in, LEN, FI_RECV | FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 0, 0, &mr_in, NULL));
	a = endpoint(info, cq_a, flags);
}

static void accept_it(void)
{
	struct fi_eq_cm_entry entry;

	OK(fi_connect(a, info->dest_addr, "hello", 5));
	expect_event(FI_CONNREQ, &entry, "hello");
	CHECK(entry.fid == &pep->fid && !strcmp(entry.info->domain_attr->name, info->domain_attr->name));
	b = endpoint(entry.info, cq_b, 0);
	for (long i = 0; i < RECVS; i++)
		OK(fi_recv(b, in + i * RECV_LEN, RECV_LEN, fi_mr_desc(mr_in), 0, (void *)(0x200 + i)));
	OK(fi_accept(b, "world", 5));
	fi_freeinfo(entry.info);
	for (int i = 0; i < 2; i++) {
		char data[512];
		size_t len = 0;

		RC(next_event(&entry, data, &len), FI_CONNECTED);
		CHECK(entry.fid == (len ? &a->fid : &b->fid));
		CHECK(!len || (len == 5 && !memcmp(data, "world", 5)));
	}
}

static void connect_all(uint64_t flags, size_t cq_size)
{
	open_ends(flags, cq_size);
	accept_it();
}

static void close_all(void)
{
	struct fid *all[] = { &a->fid,	  &b->fid,    &mr_out->fid, &mr_in->fid, &cq_a->fid,
			      &cq_b->fid, &pep->fid, &eq->fid,	    &domain->fid, &fabric->fid };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		OK(fi_close(all[i]));
	fi_freeinfo(info);
}

// ---- Completions

static struct fi_cq_data_entry completion(struct fid_cq *cq)
{
	struct fi_cq_data_entry entry = { 0 };
	ssize_t rc;

	while ((rc = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
		CHECK(in_time());
	RC(rc, 1);
	return entry;
}

static struct fi_cq_err_entry failure(struct fid_cq *cq)
{
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_data_entry entry;
	ssize_t rc;

	while ((rc = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN)
		CHECK(in_time());
	RC(rc, -FI_EAVAIL);
	RC(fi_cq_readerr(cq, &error, 0), 1);
	return error;
}

static void nothing(struct fid_cq *cq)
{
	struct fi_cq_data_entry entry;

	RC(fi_cq_read(cq, &entry, 1), -FI_EAGAIN);
}

static void received(long context, size_t len, uint64_t data, uint64_t flags)
{
	struct fi_cq_data_entry entry = completion(cq_b);

	if ((long)entry.op_context != context || entry.len != len || entry.data != data || entry.flags != flags)
		FAIL("receive 0x%lx: %zu bytes, data 0x%llx, flags 0x%llx", (long)entry.op_context, entry.len,
		     (unsigned long long)entry.data, (unsigned long long)entry.flags);
}

enum { SENT = FI_SEND | FI_MSG, RECEIVED = FI_RECV | FI_MSG };

static void messages(void)
{
	void *desc, *both[2];
	struct iovec iov[2] = { { out, 100 }, { out + 200, 100 } };

	connect_all(0, 128);
	desc = both[0] = both[1] = fi_mr_desc(mr_out);
	for (int i = 0; i < LEN; i++)
		out[i] = (char)(i * 7);
	OK(fi_send(a, out, 8, desc, 0, (void *)1));
	OK(fi_send(a, out, 2048, desc, 0, (void *)2));
	OK(fi_senddata(a, out, 300, desc, 0x1122334455667788, 0, (void *)3));
	OK(fi_inject(a, out, 16, 0));
	OK(fi_injectdata(a, out, 16, 0x42, 0));
	OK(fi_inject(a, out, 16, 0)); // no data, although the previous one had some
	OK(fi_sendv(a, iov, both, 2, 0, (void *)4));
	for (long i = 1; i <= 4; i++) {
		struct fi_cq_data_entry entry = completion(cq_a);

		CHECK((long)entry.op_context == i && entry.flags == SENT);
	}
	nothing(cq_a);
	received(0x200, 8, 0, RECEIVED);
	received(0x201, 2048, 0, RECEIVED);
	received(0x202, 300, 0x55667788, RECEIVED | FI_REMOTE_CQ_DATA);
	received(0x203, 16, 0, RECEIVED);
	received(0x204, 16, 0x42, RECEIVED | FI_REMOTE_CQ_DATA);
	received(0x205, 16, 0, RECEIVED);
	received(0x206, 200, 0, RECEIVED);
	nothing(cq_b);
	CHECK(!memcmp(in + RECV_LEN, out, 2048) && !memcmp(in + 6 * RECV_LEN + 100, out + 200, 100));
	RC(fi_inject(a, out, 4000, 0), -FI_EINVAL); // never accepted, so not FI_EAGAIN
	close_all();
}

// Buffers of two regions have no common descriptor.
static void two_regions(void)
{
	struct iovec iov[2] = { { out, 1000 }, { in + LEN - 1000, 1000 } };
	void *both[2];

	connect_all(0, 128);
	both[0] = fi_mr_desc(mr_out);
	both[1] = fi_mr_desc(mr_in);
	memset(out, 1, 1000);
	memset(in + LEN - 1000, 2, 1000);
	OK(fi_sendv(a, iov, both, 2, 0, NULL));
	CHECK(completion(cq_a).flags == SENT);
	received(0x200, 2000, 0, RECEIVED);
	CHECK(in[0] == 1 && in[999] == 1 && in[1000] == 2 && in[1999] == 2);
	close_all();
}

static void rma(void)
{
	uint64_t key, at = (uintptr_t)in + LEN / 2;
	void *desc;

	connect_all(0, 128);
	key = fi_mr_key(mr_in);
	desc = fi_mr_desc(mr_out);
	memset(out, 'w', 1000);
	OK(fi_write(a, out, 1000, desc, 0, at, key, (void *)1));
	CHECK(completion(cq_a).flags == (FI_WRITE | FI_RMA));
	CHECK(in[LEN / 2] == 'w' && in[LEN / 2 + 999] == 'w');
	OK(fi_writedata(a, out, 500, desc, 0x99, 0, at, key, (void *)2));
	CHECK(completion(cq_a).flags == (FI_WRITE | FI_RMA));
	received(0x200, 500, 0x99, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	memset(in + LEN / 2, 'r', 64);
	OK(fi_read(a, out, 64, desc, 0, at, key, (void *)3));
	CHECK(completion(cq_a).flags == (FI_READ | FI_RMA) && out[0] == 'r' && out[63] == 'r');
	OK(fi_inject_write(a, "q", 1, 0, at, key));
	OK(fi_write(a, out, 8, desc, 0, at + 8, key, (void *)4));
	completion(cq_a);
	nothing(cq_a);
	CHECK(in[LEN / 2] == 'q');
	close_all();
}

static void atomics(void)
{
	uint64_t *target = (uint64_t *)(in + LEN / 2), *operand = (uint64_t *)out, compare = 12, at = (uintptr_t)target, key;
	struct fi_atomic_attr attr;
	void *desc;

	connect_all(0, 128);
	key = fi_mr_key(mr_in);
	desc = fi_mr_desc(mr_out);
	target[1] = 77;
	operand[0] = 5;
	OK(fi_atomic(a, operand, 1, desc, 0, at, key, FI_UINT64, FI_ATOMIC_WRITE, NULL));
	completion(cq_a);
	CHECK(target[0] == 5 && target[1] == 77);
	operand[0] = 7;
	OK(fi_fetch_atomic(a, operand, 1, desc, operand + 8, desc, 0, at, key, FI_UINT64, FI_SUM, NULL));
	completion(cq_a);
	CHECK(operand[8] == 5 && target[0] == 12);
	operand[0] = 99;
	OK(fi_compare_atomic(a, operand, 1, desc, &compare, NULL, operand + 8, desc, 0, at, key, FI_UINT64, FI_CSWAP,
			     NULL));
	completion(cq_a);
	CHECK(operand[8] == 12 && target[0] == 99);
	OK(fi_fetch_atomic(a, NULL, 1, NULL, operand + 8, desc, 0, at, key, FI_UINT64, FI_ATOMIC_READ, NULL));
	completion(cq_a);
	CHECK(operand[8] == 99);
	// 4 bytes are written, and none behind them
	OK(fi_atomic(a, operand, 1, desc, 0, at + 8, key, FI_FLOAT, FI_ATOMIC_WRITE, NULL));
	completion(cq_a);
	CHECK(target[1] == operand[0]);
	RC(fi_query_atomic(domain, FI_DOUBLE, FI_SUM, &attr, FI_FETCH_ATOMIC), -FI_EOPNOTSUPP);
	RC(fi_atomic(a, operand, 1, desc, 0, at, key, FI_UINT64, FI_SUM, NULL), -FI_EOPNOTSUPP);
	close_all();
}

// The trace of the stand-in shows one call for three requests.
static void more(void)
{
	struct iovec iov = { out, 1000 };
	void *desc;
	struct fi_msg msg = { .msg_iov = &iov, .desc = &desc, .iov_count = 1 };

	connect_all(FI_SELECTIVE_COMPLETION, 128);
	desc = fi_mr_desc(mr_out);
	OK(fi_sendmsg(a, &msg, FI_MORE));
	iov.iov_len = 10;
	OK(fi_sendmsg(a, &msg, FI_MORE));
	fprintf(stderr, "-- the last of three\n");
	OK(fi_sendmsg(a, &msg, FI_COMPLETION));
	fprintf(stderr, "-- posted\n");
	received(0x200, 1000, 0, RECEIVED);
	received(0x201, 10, 0, RECEIVED);
	received(0x202, 10, 0, RECEIVED);
	completion(cq_a);
	OK(fi_sendmsg(a, &msg, FI_MORE)); // no other follows: a poll sends it
	nothing(cq_a);
	received(0x203, 10, 0, RECEIVED);
	close_all();
}

// Only some of the requests without completions are reported by the adapter, and the queue never overflows.
static void unsignalled(void)
{
	connect_all(FI_SELECTIVE_COMPLETION, 4096);
	for (int i = 0; i < 20000; i++) {
		ssize_t rc;

		while ((rc = fi_write(a, out, 600, fi_mr_desc(mr_out), 0, (uintptr_t)in, fi_mr_key(mr_in), NULL)) == -FI_EAGAIN)
			CHECK(in_time());
		OK(rc);
	}
	nothing(cq_a);
	close_all();
}

static void credits(void)
{
	long sent = 0, rc;

	connect_all(0, 128);
	while (!(rc = fi_send(b, out, 600, fi_mr_desc(mr_out), 0, (void *)sent)))
		CHECK(++sent < 10000);
	RC(rc, -FI_EAGAIN);
	RC(sent, (long)info->tx_attr->size); // the peer has posted no receive
	for (long i = 0; i < sent; i++) {
		OK(fi_recv(a, in, RECV_LEN, fi_mr_desc(mr_in), 0, NULL));
		CHECK((long)completion(cq_b).op_context == i);
		completion(cq_a);
	}
	OK(fi_send(b, out, 600, fi_mr_desc(mr_out), 0, NULL));
	close_all();
}

// ---- Peer credits, by a table that no header has

struct flow_control {
	size_t size;
	bool (*available)(struct fid_ep *ep);
	int (*enable)(struct fid_ep *ep, uint64_t threshold);
	void (*add_credits)(struct fid_ep *ep, uint64_t count);
	void (*set_send_handler)(struct fid_domain *domain, ssize_t (*handler)(struct fid_ep *ep, uint64_t count));
};

static const uint64_t CREDIT_MESSAGE = 1ull << 62;

static struct flow_control *flow_control(void)
{
	struct flow_control *table = NULL;
	void *ops = &table;

	RC(fi_open_ops(&domain->fid, "ofix_flow_ctrl_v2", 0, &ops, NULL), -FI_ENOSYS);
	RC(fi_open_ops(&a->fid, "ofix_flow_ctrl_v1", 0, &ops, NULL), -FI_ENOSYS);
	RC(fi_open_ops(&domain->fid, "ofix_flow_ctrl_v1", 1, &ops, NULL), -FI_EBADFLAGS);
	CHECK(ops == &table);
	OK(fi_open_ops(&domain->fid, "OFIX_flow_ctrl_v1", 0, (void **)&table, NULL));
	RC(table->size, 40);
	RC(sizeof(*table), 40);
	return table;
}

static struct fid_ep *given_ep;
static uint64_t given, calls;
static ssize_t give_result;

static ssize_t give(struct fid_ep *ep, uint64_t count)
{
	struct iovec iov = { out, 64 };
	void *desc = fi_mr_desc(mr_out);
	struct fi_msg msg = { .msg_iov = &iov, .desc = &desc, .iov_count = 1 };
	struct fi_cq_data_entry entry;

	given_ep = ep;
	given = count;
	calls++;
	fi_cq_read(cq_b, &entry, 0); // no lock is held
	return give_result ? give_result : fi_sendmsg(ep, &msg, CREDIT_MESSAGE | FI_COMPLETION);
}

static ssize_t send_one(struct fid_ep *ep, uint64_t flags)
{
	struct iovec iov = { out, 1000 };
	void *desc = fi_mr_desc(mr_out);
	struct fi_msg msg = { .msg_iov = &iov, .desc = &desc, .iov_count = 1 };

	return fi_sendmsg(ep, &msg, flags);
}

static void peer_credits(void)
{
	uint64_t key, at = (uintptr_t)in + LEN / 2;
	struct flow_control *table;

	connect_all(0, 128); // b has RECVS receives, a none
	table = flow_control();
	key = fi_mr_key(mr_in);
	table->set_send_handler(domain, give);
	CHECK(table->available(a) && table->available(b));
	// Without credits nothing is limited, and receives are only counted.
	OK(send_one(a, FI_COMPLETION));
	completion(cq_a);
	received(0x200, 1000, 0, RECEIVED);
	CHECK(!calls);
	// One credit, and the saved ones; the last is for messages with credits.
	table->add_credits(a, 5);
	OK(table->enable(a, 1000));
	for (int i = 0; i < 2; i++)
		OK(fi_send(a, out, 1000, fi_mr_desc(mr_out), 0, NULL));
	OK(fi_senddata(a, out, 8, NULL, 1, 0, NULL));
	OK(fi_writedata(a, out, 8, fi_mr_desc(mr_out), 1, 0, at, key, NULL));
	OK(fi_inject(a, out, 8, 0));
	RC(fi_inject(a, out, 8, 0), -FI_EAGAIN);
	RC(fi_send(a, out, 1000, fi_mr_desc(mr_out), 0, NULL), -FI_EAGAIN);
	RC(fi_writedata(a, out, 8, fi_mr_desc(mr_out), 1, 0, at, key, NULL), -FI_EAGAIN);
	RC(send_one(a, FI_COMPLETION), -FI_EAGAIN);
	OK(fi_write(a, out, 8, fi_mr_desc(mr_out), 0, at, key, NULL)); // needs no receive
	OK(send_one(a, CREDIT_MESSAGE));
	RC(send_one(a, CREDIT_MESSAGE), -FI_EAGAIN);
	table->add_credits(a, 1);
	RC(send_one(a, 0), -FI_EAGAIN);
	table->add_credits(a, UINT64_MAX);
	OK(send_one(a, 0));
	// All but one of the receives are given. If that fails, the next receive gives them.
	give_result = -FI_EAGAIN;
	OK(table->enable(b, RECVS));
	CHECK(!calls);
	OK(fi_recv(b, in, RECV_LEN, fi_mr_desc(mr_in), 0, NULL));
	CHECK(calls == 1 && given == RECVS && given_ep == b);
	OK(fi_recv(a, in, RECV_LEN, fi_mr_desc(mr_in), 0, NULL));
	CHECK(calls == 1);
	give_result = 0;
	OK(fi_recv(b, in, RECV_LEN, fi_mr_desc(mr_in), 0, NULL));
	CHECK(calls == 2 && given == RECVS + 1);
	// That message has used the only credit of b.
	RC(send_one(b, CREDIT_MESSAGE), -FI_EAGAIN);
	for (int i = 0; i < RECVS; i++)
		OK(fi_recv(b, in, RECV_LEN, fi_mr_desc(mr_in), 0, NULL));
	CHECK(calls == 3 && given == RECVS);
	OK(fi_recv(b, in, RECV_LEN, fi_mr_desc(mr_in), 0, NULL));
	CHECK(calls == 4 && given == RECVS + 1);
	// What is there already is given at once.
	calls = 0;
	OK(table->enable(b, 2));
	CHECK(calls == 1 && given == RECVS + 1);
	table->set_send_handler(domain, NULL);
	OK(fi_recv(b, in, RECV_LEN, fi_mr_desc(mr_in), 0, NULL));
	CHECK(calls == 1);
	close_all();
}

static void reject(void)
{
	struct fi_eq_cm_entry entry;
	struct fi_eq_err_entry error = { 0 };
	char data[256] = "", buf[512];
	uint32_t event;

	open_ends(0, 128);
	RC(fi_connect(a, info->dest_addr, data, 56), -FI_EINVAL);
	OK(fi_connect(a, info->dest_addr, NULL, 0));
	expect_event(FI_CONNREQ, &entry, "");
	OK(fi_reject(pep, entry.info->handle, "no!", 3));
	fi_freeinfo(entry.info);
	RC(fi_eq_sread(eq, &event, buf, sizeof(buf), LIMIT_MS, 0), -FI_EAVAIL);
	error.err_data = data;
	error.err_data_size = sizeof(data);
	RC(fi_eq_readerr(eq, &error, 0), sizeof(error));
	CHECK(error.fid == &a->fid && error.err == FI_ECONNREFUSED && error.prov_errno == -28);
	CHECK(strstr(fi_eq_strerror(eq, error.prov_errno, NULL, NULL, 0), "refused by the peer's application"));
	CHECK(strstr(fi_eq_strerror(eq, EHOSTUNREACH, NULL, NULL, 0), "No route"));
	CHECK(error.err_data_size == 3 && !memcmp(data, "no!", 3));
	CHECK(fi_send(a, out, 8, NULL, 0, NULL) < 0);
	OK(fi_close(&a->fid));
	// A request that is not decided is rejected when its endpoint is closed.
	a = endpoint(info, cq_a, 0);
	OK(fi_connect(a, info->dest_addr, NULL, 0));
	expect_event(FI_CONNREQ, &entry, "");
	b = endpoint(entry.info, cq_b, 0);
	fi_freeinfo(entry.info);
	OK(fi_close(&b->fid));
	RC(fi_eq_sread(eq, &event, buf, sizeof(buf), LIMIT_MS, 0), -FI_EAVAIL);
	OK(fi_close(&a->fid));
}

// Posts to an ended connection without reading the errors, until a post is refused.
static void posts_end(bool sends)
{
	ssize_t rc = 0;

	for (long i = 0; i < 1 << 20 && !rc; i++)
		rc = sends ? fi_send(a, out, 8, fi_mr_desc(mr_out), 0, NULL) : fi_recv(b, in, 8, fi_mr_desc(mr_in), 0, NULL);
	RC(rc, -FI_EAGAIN);
}

static void shut_down(void)
{
	struct fi_eq_cm_entry entry;
	bool ends[2] = { false, false };
	struct fi_cq_err_entry error;

	connect_all(0, 128);
	RC(fi_connect(a, info->dest_addr, NULL, 0), -FI_EISCONN);
	OK(fi_shutdown(a, 0));
	for (int i = 0; i < 2; i++) {
		expect_event(FI_SHUTDOWN, &entry, "");
		ends[entry.fid == &b->fid] = true;
	}
	CHECK(ends[0] && ends[1]);
	no_event();
	RC(fi_shutdown(a, 0), -FI_EINVAL);
	for (long i = 0; i < RECVS; i++) {
		error = failure(cq_b);
		CHECK((long)error.op_context == 0x200 + i && error.err == FI_ECANCELED && error.prov_errno == 5);
	}
	OK(fi_send(a, out, 8, fi_mr_desc(mr_out), 0, (void *)9)); // what is posted later is flushed, too
	error = failure(cq_a);
	CHECK((long)error.op_context == 9 && error.err == FI_ECANCELED);
	posts_end(true);
	posts_end(false);
	close_all();
}

// Posted operations complete when their endpoint is closed.
static void closing(void)
{
	struct fi_eq_cm_entry entry;

	connect_all(0, 128);
	OK(fi_close(&b->fid));
	for (long i = 0; i < RECVS; i++)
		CHECK(failure(cq_b).err == FI_ECANCELED);
	nothing(cq_b);
	expect_event(FI_SHUTDOWN, &entry, "");
	CHECK(entry.fid == &a->fid);
	OK(fi_close(&a->fid));
}

static void errors(void)
{
	struct fi_eq_cm_entry entry;
	struct fi_cq_err_entry error;

	connect_all(FI_SELECTIVE_COMPLETION, 128);
	// Errors are reported although the operation wants no completion.
	OK(fi_inject_write(a, out, 8, 0, (uintptr_t)in, 0xdead));
	error = failure(cq_a);
	CHECK(error.err == FI_EIO && error.prov_errno == 10 && error.flags == (FI_WRITE | FI_RMA));
	CHECK(strstr(fi_cq_strerror(cq_a, error.prov_errno, NULL, NULL, 0), "10"));
	expect_event(FI_SHUTDOWN, &entry, "");
	CHECK(entry.fid == &a->fid);
	// The end that was reported is not reported again.
	OK(fi_shutdown(a, 0));
	expect_event(FI_SHUTDOWN, &entry, "");
	CHECK(entry.fid == &b->fid);
	no_event();
	close_all();
}

// As with upstream, zeroed attributes make a queue that one can wait for.
static void event_queue(void)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_NONE };
	char buf[512];
	uint32_t event;
	int fd = -1;

	info = ask(0);
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_eq_open(fabric, &attr, &eq, NULL));
	RC(fi_eq_sread(eq, &event, buf, sizeof(buf), 10, 0), -FI_EAGAIN);
	OK(fi_control(&eq->fid, FI_GETWAIT, &fd));
	CHECK(fd >= 0);
	OK(fi_close(&eq->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(info);
}

static void waiting(void)
{
	struct fi_cq_data_entry entry;
	struct fid *fids[1];
	struct pollfd pollfd = { .events = POLLIN };

	connect_all(0, 128);
	fids[0] = &cq_b->fid;
	OK(fi_control(&cq_b->fid, FI_GETWAIT, &pollfd.fd));
	OK(fi_trywait(fabric, fids, 1));
	RC(poll(&pollfd, 1, 0), 0);
	OK(fi_send(a, out, 8, NULL, 0, NULL));
	RC(poll(&pollfd, 1, LIMIT_MS), 1);
	received(0x200, 8, 0, RECEIVED);
	OK(fi_trywait(fabric, fids, 1));
	RC(poll(&pollfd, 1, 0), 0);
	OK(fi_send(a, out, 8, NULL, 0, NULL)); // it was armed again
	RC(poll(&pollfd, 1, LIMIT_MS), 1);
	received(0x201, 8, 0, RECEIVED);
	RC(fi_cq_sread(cq_b, &entry, 1, NULL, 20), -FI_EAGAIN);
	OK(fi_send(a, out, 8, NULL, 0, NULL));
	RC(fi_cq_sread(cq_b, &entry, 1, NULL, LIMIT_MS), 1);
	OK(fi_cq_signal(cq_b));
	RC(fi_cq_sread(cq_b, &entry, 1, NULL, LIMIT_MS), -FI_EAGAIN);
	close_all();
}

// Any call that drives the domain makes progress with connections, not only fi_eq_read.
static void progress(void)
{
	struct fi_eq_cm_entry entry;
	char data[512];
	size_t len;

	open_ends(0, 128);
	OK(fi_connect(a, info->dest_addr, NULL, 0));
	for (int i = 0; i < 10; i++)
		nothing(cq_a);
	expect_event(FI_CONNREQ, &entry, "");
	b = endpoint(entry.info, cq_b, 0);
	fi_freeinfo(entry.info);
	OK(fi_recv(b, in, RECV_LEN, fi_mr_desc(mr_in), 0, (void *)0x200));
	OK(fi_accept(b, NULL, 0));
	for (int i = 0; i < 10; i++)
		nothing(cq_a);
	OK(fi_send(a, out, 8, NULL, 0, NULL));
	received(0x200, 8, 0, RECEIVED);
	for (int i = 0; i < 2; i++)
		RC(next_event(&entry, data, &len), FI_CONNECTED);
	close_all();
}

static void shared_receives(void)
{
	struct fi_rx_attr attr = { .size = 64, .iov_limit = 1 };
	struct fi_eq_cm_entry entry;
	struct fid_ep *srx = NULL;
	uint64_t at = (uintptr_t)in + LEN / 2;
	char data[512];
	size_t len;

	open_ends(0, 128);
	OK(fi_srx_context(domain, &attr, &srx, NULL));
	for (long i = 0; i < 4; i++)
		OK(fi_recv(srx, in + i * RECV_LEN, RECV_LEN, fi_mr_desc(mr_in), 0, (void *)(0x200 + i)));
	OK(fi_connect(a, info->dest_addr, NULL, 0));
	expect_event(FI_CONNREQ, &entry, "");
	entry.info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	entry.info->rx_attr->size = 64;
	entry.info->rx_attr->iov_limit = 1;
	OK(fi_endpoint(domain, entry.info, &b, NULL));
	OK(fi_ep_bind(b, &eq->fid, 0));
	OK(fi_ep_bind(b, &cq_b->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(b, &srx->fid, 0));
	OK(fi_enable(b));
	fi_freeinfo(entry.info);
	RC(fi_recv(b, in, 64, fi_mr_desc(mr_in), 0, NULL), -FI_ENOSYS);
	CHECK(!flow_control()->available(b));
	RC(flow_control()->enable(b, 1), -FI_EINVAL);
	OK(fi_accept(b, NULL, 0));
	for (int i = 0; i < 2; i++)
		RC(next_event(&entry, data, &len), FI_CONNECTED);
	OK(fi_senddata(a, out, 100, NULL, 5, 0, NULL));
	received(0x200, 100, 5, RECEIVED | FI_REMOTE_CQ_DATA);
	// A write with data uses up a receive, and is reported as a write.
	OK(fi_writedata(a, out, 100, NULL, 6, 0, at, fi_mr_key(mr_in), NULL));
	received(0x201, 100, 6, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	OK(fi_close(&a->fid));
	OK(fi_close(&b->fid));
	OK(fi_close(&srx->fid));
}

static void send_early(void)
{
	open_ends(0, 128);
	RC(fi_send(a, out, 8, fi_mr_desc(mr_out), 0, NULL), -FI_EOPBADSTATE);
	OK(fi_recv(a, in, RECV_LEN, fi_mr_desc(mr_in), 0, (void *)0x100));
	accept_it();
	OK(fi_send(b, out, 8, fi_mr_desc(mr_out), 0, NULL));
	CHECK((long)completion(cq_a).op_context == 0x100);
	close_all();
}

static void registration(void)
{
	struct fi_info *found;
	struct fid_mr *mr = NULL;
	static const struct {
		uint64_t access;
		const char *rights;
	} all[] = {
		{ FI_SEND, "0x0" },	     { FI_RECV, "0x1" },	{ FI_READ, "0x1" },
		{ FI_WRITE, "0x0" },	     { FI_REMOTE_READ, "0x4" }, { FI_REMOTE_WRITE, "0xb" },
	};

	found = ask(0);
	OK(fi_fabric(found->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, found, &domain, NULL));
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		fprintf(stderr, "-- expected: access %s\n", all[i].rights);
		// Different lengths, so that none is found in the cache.
		OK(fi_mr_reg(domain, out, LEN - i, all[i].access, 0, 0, 0, &mr, NULL));
		CHECK(fi_mr_desc(mr) && fi_mr_key(mr) <= UINT32_MAX);
		OK(fi_close(&mr->fid));
	}
	OK(fi_mr_reg(domain, out, 0, FI_SEND, 0, 0, 0, &mr, NULL));
	CHECK(!fi_mr_desc(mr) && fi_mr_key(mr) == 0);
	OK(fi_close(&mr->fid));
	fi_freeinfo(found);
}

static char *map(void *at, size_t len)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0);
	char *mapped = mmap(at, len, PROT_READ | PROT_WRITE, flags, -1, 0);

	CHECK(mapped != MAP_FAILED);
	return mapped;
}

static void unmap_and_map(char *pages)
{
	CHECK(!munmap(pages, LEN));
	map(pages, LEN);
}

static void map_over(char *pages)
{
	map(pages, LEN);
}

static void discard(char *pages)
{
	CHECK(!madvise(pages, LEN, MADV_DONTNEED));
}

static void move_and_map(char *pages)
{
	char *far = map(NULL, LEN);

	CHECK(mremap(pages, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, far) == far);
	map(pages, LEN);
	CHECK(!munmap(far, LEN));
}

static void fork_a_child(char *pages)
{
	int status;
	pid_t child = fork();

	if (!child) {
		pages[0]++; // the parent's page is no longer shared
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child && !status);
}

// Registers and closes; the trace shows what the adapter registers.
static void use(const void *at, size_t len, uint64_t access, uint64_t flags, const char *expected)
{
	struct fid_mr *mr;

	fprintf(stderr, "-- expected: %s\n", expected);
	OK(fi_mr_reg(domain, at, len, access, 0, 0, flags, &mr, NULL));
	OK(fi_close(&mr->fid));
}

static const char constant[LEN] = "memory that nobody may write";

// Regions that were closed serve again for the same memory and rights.
static void cached(void)
{
	const char *one = "1 registrations", *none = "0 registrations";
	struct fi_info *found = ask(0);
	char *pages = map(NULL, LEN), *shared;
	struct fid_mr *mr, *other;

	OK(fi_fabric(found->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, found, &domain, NULL));
	use(pages, LEN, FI_SEND, 0, one);
	use(pages, LEN, FI_SEND, 0, none);
	use(pages, LEN, FI_WRITE, 0, none);
	// The rights of peers end when the region is closed, unless a private flag allows them to stay.
	use(pages, LEN, FI_SEND | FI_REMOTE_READ, 0, one);
	use(pages, LEN, FI_SEND | FI_REMOTE_READ, 0, one);
	use(pages, LEN, FI_SEND | FI_REMOTE_READ, 1ULL << 61, one);
	use(pages, LEN, FI_SEND | FI_REMOTE_READ, 1ULL << 61, none);
	// Another length, another place.
	use(pages, LEN - 1, FI_SEND, 0, one);
	use(pages + 1, LEN - 1, FI_SEND, 0, one);
	// The private flag, and memory with a file.
	use(pages, LEN, FI_SEND, 1ULL << 60, one);
	use(pages, LEN, FI_SEND, 1ULL << 60, one);
	shared = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	use(shared, LEN, FI_SEND, 0, one);
	use(shared, LEN, FI_SEND, 0, one);
	use(constant, LEN, FI_SEND, 0, one);
	// Each handle has a region of its own.
	fprintf(stderr, "-- expected: 1 registrations\n");
	OK(fi_mr_reg(domain, pages, LEN, FI_SEND, 0, 0, 0, &mr, NULL));
	OK(fi_mr_reg(domain, pages, LEN, FI_SEND, 0, 0, 0, &other, NULL));
	CHECK(fi_mr_desc(mr) != fi_mr_desc(other));
	OK(fi_close(&mr->fid));
	OK(fi_close(&other->fid));
	unmap_and_map(pages);
	use(pages, LEN, FI_SEND, 0, one);
	use(pages, LEN, FI_SEND, 0, none);
	// One page of it.
	CHECK(!madvise(pages + LEN / 2, 4096, MADV_DONTNEED));
	use(pages, LEN, FI_SEND, 0, one);
	fprintf(stderr, "-- expected: 0 registrations\n");
	OK(fi_close(&domain->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(found);
}

// What is sent are the bytes that the memory has now, whatever happened to the pages since an earlier registration.
static void remapped(void)
{
	void (*ways[])(char *) = { unmap_and_map, map_over, discard, move_and_map, fork_a_child };
	long receive = 0x200;
	char *pages;

	connect_all(0, 128);
	pages = map(NULL, LEN);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		for (int again = 0; again < 3; again++, receive++) {
			char *got = in + (receive - 0x200) * RECV_LEN, byte = (char)(1 + i * 10 + again);
			struct fid_mr *mr;

			memset(pages, byte, LEN);
			OK(fi_mr_reg(domain, pages, LEN, FI_SEND, 0, 0, 0, &mr, NULL));
			OK(fi_send(a, pages, 2048, fi_mr_desc(mr), 0, NULL));
			CHECK(completion(cq_a).flags == SENT);
			received(receive, 2048, 0, RECEIVED);
			if (got[0] != byte || memcmp(got, got + 1, 2047))
				FAIL("way %zu, message %d: %d, not %d", i, again, got[0], byte);
			OK(fi_close(&mr->fid));
			if (again < 2)
				ways[i](pages);
		}
	}
	// Regions without remote rights may all have the key 0. Closing one leaves the others alone.
	OK(fi_send(a, out, 2048, fi_mr_desc(mr_out), 0, NULL));
	CHECK(completion(cq_a).flags == SENT);
	close_all();
}

// Memory of another device, by a descriptor of its buffer; the kernel keeps that.
static void buffers(void)
{
	struct fi_info *found = ask(0);
	struct fi_mr_dmabuf buffer = { .fd = 0, .offset = 4096, .len = 8192, .base_addr = (void *)0x100000 };
	struct fi_mr_attr attr = { .dmabuf = &buffer, .iov_count = 1, .access = FI_SEND | FI_REMOTE_READ };
	long expected = getenv("FI_VERBS_USE_DMABUF") ? -FI_ENOSYS : 0;
	struct fid_mr *mr;

	OK(fi_fabric(found->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, found, &domain, NULL));
	RC(fi_mr_regattr(domain, &attr, FI_MR_DMABUF, &mr), expected);
	if (!expected) {
		CHECK(fi_mr_desc(mr) && fi_mr_key(mr) <= UINT32_MAX);
		OK(fi_close(&mr->fid));
	}
	RC(fi_mr_reg(domain, out, LEN, FI_SEND, 0, 0, FI_MR_DMABUF, &mr, NULL), -FI_EINVAL);
	buffer.fd = -1;
	RC(fi_mr_regattr(domain, &attr, FI_MR_DMABUF, &mr), -FI_EINVAL);
	buffer.fd = 0;
	attr.iov_count = 2;
	RC(fi_mr_regattr(domain, &attr, FI_MR_DMABUF, &mr), -FI_EINVAL);
	attr.iov_count = 1;
	attr.dmabuf = NULL;
	RC(fi_mr_regattr(domain, &attr, FI_MR_DMABUF, &mr), -FI_EINVAL);
	OK(fi_close(&domain->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(found);
}

// FI_HMEM: memory of a CUDA device, if there is the stand-in for its driver. VERBS_DEVICE=no: the entries do not have it.
static void device(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context;
	struct iovec piece = { .iov_len = 10000 };
	struct fi_mr_attr attr = { .mr_iov = &piece, .iov_count = 1, .access = FI_SEND | FI_RECV, .iface = FI_HMEM_CUDA };
	struct fi_info *h = hints(), *found = NULL;
	bool is_there = driver && !getenv("VERBS_DEVICE");
	struct fid_mr *mr;
	uint64_t mem = 0;
	int (*init)(unsigned), (*retain)(void **, int), (*set)(void *), (*allocate)(uint64_t *, size_t);

	h->caps = FI_MSG | FI_HMEM;
	RC(fi_getinfo(FI_VERSION(2, 6), address, "7471", 0, h, &found), -FI_ENODATA); // it needs FI_MR_HMEM
	h->domain_attr->mr_mode |= FI_MR_HMEM;
	RC(fi_getinfo(FI_VERSION(2, 6), address, "7471", 0, h, &found), is_there ? 0 : -FI_ENODATA);
	fi_freeinfo(h);
	if (!is_there)
		return;
	init = (int (*)(unsigned))dlsym(driver, "cuInit");
	retain = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
	set = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
	allocate = (int (*)(uint64_t *, size_t))dlsym(driver, "cuMemAlloc_v2");
	CHECK(init && retain && set && allocate);
	CHECK(!init(0) && !retain(&context, 0) && !set(context) && !allocate(&mem, 20000));
	CHECK(found->caps & FI_HMEM && found->domain_attr->mr_mode & FI_MR_HMEM);
	OK(fi_fabric(found->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, found, &domain, NULL));
	piece.iov_base = (void *)(uintptr_t)(mem + 5000);
	OK(fi_mr_regattr(domain, &attr, 0, &mr));
	CHECK(fi_mr_desc(mr));
	fprintf(stderr, "device memory at %lx\n", mem + 5000);
	OK(fi_close(&mr->fid));
	attr.iface = FI_HMEM_ROCR;
	RC(fi_mr_regattr(domain, &attr, 0, &mr), -FI_ENOSYS);
	OK(fi_close(&domain->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(found);
}

// The interrupt vector of a completion queue; the stand-in has two.
static void vectors(void)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD, .flags = FI_AFFINITY };
	struct fi_info *found = ask(0);

	OK(fi_fabric(found->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, found, &domain, NULL));
	attr.signaling_vector = 1;
	OK(fi_cq_open(domain, &attr, &cq_a, NULL));
	OK(fi_close(&cq_a->fid));
	attr.signaling_vector = 2;
	RC(fi_cq_open(domain, &attr, &cq_a, NULL), -FI_EINVAL);
	attr.flags = 0;
	OK(fi_cq_open(domain, &attr, &cq_a, NULL));
	OK(fi_close(&cq_a->fid));
	OK(fi_close(&domain->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(found);
}

static int ask_again(uint64_t flags, struct fi_info **found)
{
	struct fi_info *h = hints();
	int rc = fi_getinfo(FI_VERSION(2, 6), NULL, NULL, flags, h, found);

	fi_freeinfo(h);
	return rc;
}

// Devices are looked up once, or when that is asked for. Domains of devices that have gone stay usable.
static void rescan(void)
{
	struct fi_info *first, *later;

	OK(ask_again(0, &first));
	OK(fi_fabric(first->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, first, &domain, NULL));
	setenv("FAKE_NONE", "1", 1);
	OK(ask_again(0, &later));
	fi_freeinfo(later);
	RC(ask_again(FI_RESCAN, &later), -FI_ENODATA);
	RC(ask_again(0, &later), -FI_ENODATA);
	OK(fi_mr_reg(domain, out, LEN, FI_SEND, 0, 0, 0, &mr_out, NULL));
	unsetenv("FAKE_NONE");
	OK(ask_again(FI_RESCAN, &later));
	CHECK(!strcmp(later->domain_attr->name, first->domain_attr->name));
	fi_freeinfo(later);
	OK(fi_close(&mr_out->fid));
	OK(fi_close(&domain->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(first);
}

// FI_VERBS_NIC_AFFINITY_POLICY: the device of the first entry.
static void first_device(void)
{
	struct fi_info *found;

	OK(ask_again(0, &found));
	puts(found->domain_attr->name);
	fi_freeinfo(found);
}

static void iwarp(void)
{
	address = "10.93.0.1";
	connect_all(0, 128);
	RC(fi_senddata(a, out, 8, NULL, 1, 0, NULL), -FI_ENOSYS); // no immediate data
	OK(fi_send(a, out, 64, NULL, 0, NULL));
	received(0x200, 64, 0, RECEIVED);
	close_all();
}

// Requests between addresses of AF_IB have a header of the connection manager in front of their private data.
static void infiniband(void)
{
	address = "[fe80::1:2:c903:0:11]:0xffff:0x13f:0x0";
	format = FI_SOCKADDR_IB;
	connect_all(0, 128);
	OK(fi_send(a, out, 64, NULL, 0, NULL));
	received(0x200, 64, 0, RECEIVED);
	close_all();
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "messages", messages },     { "two_regions", two_regions }, { "rma", rma },
	{ "atomics", atomics },	      { "more", more },		      { "unsignalled", unsignalled },
	{ "credits", credits },	      { "peer_credits", peer_credits }, { "reject", reject },	      { "shut_down", shut_down },
	{ "closing", closing },	      { "errors", errors },	      { "waiting", waiting },
	{ "progress", progress },     { "send_early", send_early },   { "shared_receives", shared_receives },
	{ "registration", registration }, { "iwarp", iwarp },	      { "infiniband", infiniband },
	{ "cached", cached },	      { "remapped", remapped },	      { "buffers", buffers },
	{ "device", device },	      { "event_queue", event_queue }, { "vectors", vectors },	      { "rescan", rescan },	      { "first_device", first_device },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		if (argc < 2) {
			puts(tests[i].name);
		} else if (!strcmp(argv[1], tests[i].name)) {
			if (argc > 2)
				address = argv[2];
			tests[i].run();
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}
