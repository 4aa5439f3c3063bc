// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! calls instructions [PROVIDER]: makes every call of the data path COUNT times, each kind in a separate function
//! `m_...`, for valgrind --tool=callgrind --toggle-collect='m_*'. Warm-up and cleanup between the calls are in other
//! functions.
//!
//! calls allocations [PROVIDER]: counts the heap requests per operation, with benches/allocs.c preloaded.
//!
//! Runs in one process with one thread and two domains, over loopback or another provider. A message has arrived when
//! the call that sent it returns.
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <rdma/fi_errno.h>
// Headers of older releases do not have work requests.
#ifdef FI_WR
#include <rdma/fi_wr.h>
#endif

#define COUNT 200
#define SIZE 8
#define TAG 7
#define MEASURED __attribute__((noinline, noclone, used))

static struct fabric *a, *b;

// ---- The calls

MEASURED ssize_t m_tsend(struct fabric *f)
{
	return fi_tsend(f->eps[0], f->out, SIZE, NULL, f->peers[0], TAG, NULL);
}

// The second of two consecutive calls, whose message the library may hold back.
MEASURED ssize_t m_tsend_next(struct fabric *f)
{
	return fi_tsend(f->eps[0], f->out, SIZE, NULL, f->peers[0], TAG, NULL);
}

MEASURED ssize_t m_inject(struct fabric *f)
{
	return fi_inject(f->eps[0], f->out, SIZE, f->peers[0]);
}

MEASURED ssize_t m_tinject(struct fabric *f)
{
	return fi_tinject(f->eps[0], f->out, SIZE, f->peers[0], TAG);
}

MEASURED ssize_t m_trecv(struct fabric *f)
{
	return fi_trecv(f->eps[0], f->in, SIZE, f->desc, FI_ADDR_UNSPEC, TAG, 0, NULL);
}

MEASURED ssize_t m_trecv_unexpected(struct fabric *f)
{
	return fi_trecv(f->eps[0], f->in, SIZE, f->desc, FI_ADDR_UNSPEC, TAG, 0, NULL);
}

MEASURED ssize_t m_write(struct fabric *f)
{
	return fi_write(f->eps[0], f->out, SIZE, NULL, f->peers[0], f->remote_addr, f->remote_key, NULL);
}

MEASURED ssize_t m_read(struct fabric *f)
{
	return fi_read(f->eps[0], f->in, SIZE, f->desc, f->peers[0], f->remote_addr, f->remote_key, NULL);
}

#ifdef FI_WR
static fi_wr tsend_wr, trecv_wr;

MEASURED ssize_t m_wr_tsend(struct fabric *f)
{
	return fi_wr_queue_tx(f->eps[0], tsend_wr, NULL);
}

// The second of two consecutive calls, as in `m_tsend_next`.
MEASURED ssize_t m_wr_tsend_next(struct fabric *f)
{
	return fi_wr_queue_tx(f->eps[0], tsend_wr, NULL);
}

MEASURED ssize_t m_wr_trecv(struct fabric *f)
{
	return fi_wr_queue_trecv(f->eps[0], trecv_wr, NULL);
}
#endif

// A completion is in the queue.
MEASURED ssize_t m_cq_read_hit(struct fabric *f, void *entries, size_t count)
{
	return fi_cq_read(f->cq, entries, count);
}

// A message has arrived and is unread, and a receive is posted for it.
MEASURED ssize_t m_cq_read_message(struct fabric *f, void *entries, size_t count)
{
	return fi_cq_read(f->cq, entries, count);
}

// Sixteen messages have arrived and are unread, and receives are posted for them.
MEASURED ssize_t m_cq_read_sixteen(struct fabric *f, void *entries, size_t count)
{
	return fi_cq_read(f->cq, entries, count);
}

// A message has arrived and is unread, and no receive is posted.
MEASURED ssize_t m_cq_read_unexpected(struct fabric *f, void *entries, size_t count)
{
	return fi_cq_read(f->cq, entries, count);
}

MEASURED ssize_t m_cq_read_miss(struct fabric *f, void *entries, size_t count)
{
	return fi_cq_read(f->cq, entries, count);
}

// ---- The same calls, not counted

static void ok(ssize_t rc, const char *what)
{
	if (rc)
		fabric_fail(what, rc);
}

static ssize_t quiet_tsend(struct fabric *f, uint64_t tag)
{
	return fi_tsend(f->eps[0], f->out, SIZE, NULL, f->peers[0], tag, NULL);
}

static ssize_t quiet_recv(struct fabric *f)
{
	return fi_recv(f->eps[0], f->in, SIZE, f->desc, FI_ADDR_UNSPEC, NULL);
}

static ssize_t quiet_trecv(struct fabric *f, uint64_t tag)
{
	return fi_trecv(f->eps[0], f->in, SIZE, f->desc, FI_ADDR_UNSPEC, tag, 0, NULL);
}

// Polls until both sides have all expected completions.
static void settle(uint64_t sent, uint64_t received_by_b)
{
	while (a->sent < sent || b->received < received_by_b) {
		fabric_look(a);
		fabric_look(b);
	}
	fabric_look(a);
	fabric_look(b);
}

// Polls with `look` until it returns `wanted` entries; nearly always one poll is enough.
typedef ssize_t look_fn(struct fabric *f, void *entries, size_t count);

static void expect(struct fabric *f, look_fn *look, ssize_t wanted)
{
	struct fi_cq_tagged_entry entries[64];
	ssize_t rc = look(f, entries, 64), n = rc;

	for (int i = 0; n < wanted && (n > 0 || rc == -FI_EAGAIN) && i < 1000000; i++) {
		rc = fi_cq_read(f->cq, entries, 64);
		if (rc > 0)
			n = n > 0 ? n + rc : rc;
	}
	if (n != wanted)
		fabric_fail("fi_cq_read, instead of completions", rc < 0 ? rc : 0);
	for (ssize_t i = 0; i < n; i++)
		*(entries[i].flags & FI_RECV ? &f->received : &f->sent) += 1;
}

// ---- What is counted

static void message(void)
{
	ok(m_trecv(b), "fi_trecv");
	ok(m_tsend(a), "fi_tsend");
	expect(a, m_cq_read_hit, 1);
	expect(b, m_cq_read_message, 1);
}

static void injected(void)
{
	uint64_t received = b->received;

	ok(quiet_recv(b), "fi_recv");
	ok(m_inject(a), "fi_inject");
	settle(a->sent, received + 1);
	ok(quiet_trecv(b, TAG), "fi_trecv");
	ok(m_tinject(a), "fi_tinject");
	settle(a->sent, received + 2);
}

static void unexpected(void)
{
	struct fi_cq_tagged_entry entry;
	uint64_t sent = a->sent, received = b->received;

	ok(quiet_tsend(a, TAG), "fi_tsend");
	while (a->sent == sent)
		fabric_look(a);
	m_cq_read_unexpected(b, &entry, 1);
	ok(m_trecv_unexpected(b), "fi_trecv");
	settle(a->sent, received + 1);
}

static void several(void)
{
	uint64_t sent = a->sent;

	for (int i = 0; i < 16; i++)
		ok(quiet_trecv(b, TAG), "fi_trecv");
	ok(quiet_tsend(a, TAG), "fi_tsend");
	for (int i = 1; i < 16; i++)
		ok(m_tsend_next(a), "fi_tsend");
	while (a->sent < sent + 16)
		fabric_look(a);
	fabric_look(a);
	expect(b, m_cq_read_sixteen, 16);
}

static void accessed(void)
{
	uint64_t sent = a->sent;

	ok(m_write(a), "fi_write");
	settle(sent + 1, b->received);
	ok(m_read(a), "fi_read");
	settle(sent + 2, b->received);
}

#ifdef FI_WR
static fi_wr prepared(struct fabric *f, enum fi_op_type type, void *buf, fi_addr_t addr)
{
	struct iovec iov = { .iov_base = buf, .iov_len = SIZE };
	struct fi_op_tagged op = {
		.ep = f->eps[0],
		.msg = { .msg_iov = &iov, .iov_count = 1, .addr = addr, .tag = TAG },
	};
	struct fi_wr_attr attr = { .op_type = type, .op.tagged = &op };
	struct fi_ep_attr *sizes = f->info->ep_attr;
	size_t len = type == FI_OP_TSEND ? sizes->max_tx_wr_size : sizes->max_rx_wr_size;
	fi_wr wr = malloc(len);

	ok(fi_wr_prepare(f->eps[0], &attr, wr, &len), "fi_wr_prepare");
	return wr;
}

// Does the same as `message` and `several`, with work requests.
static void queued(void)
{
	uint64_t sent = a->sent;

	if (!(a->info->caps & FI_WR))
		return;
	if (!tsend_wr) {
		tsend_wr = prepared(a, FI_OP_TSEND, a->out, a->peers[0]);
		trecv_wr = prepared(b, FI_OP_TRECV, b->in, FI_ADDR_UNSPEC);
	}
	ok(m_wr_trecv(b), "fi_wr_queue_trecv");
	ok(m_wr_tsend(a), "fi_wr_queue_tx");
	settle(sent + 1, b->received + 1);
	for (int i = 0; i < 16; i++)
		ok(quiet_trecv(b, TAG), "fi_trecv");
	ok(fi_wr_queue_tx(a->eps[0], tsend_wr, NULL), "fi_wr_queue_tx");
	for (int i = 1; i < 16; i++)
		ok(m_wr_tsend_next(a), "fi_wr_queue_tx");
	settle(sent + 17, b->received + 16);
}
#else
static void queued(void)
{
}
#endif

static void missed(void)
{
	struct fi_cq_tagged_entry entry;

	if (m_cq_read_miss(a, &entry, 1) != -FI_EAGAIN)
		stop("a look that should find nothing found something");
}

static void instructions(int count)
{
	for (int i = 0; i < count; i++) {
		message();
		injected();
		unexpected();
		several();
		accessed();
		queued();
		missed();
	}
}

// ---- Allocations

// These functions are in benches/allocs.c.
unsigned long allocs_count(void) __attribute__((weak));

static void tell_allocations(const char *what, void (*work)(void), int operations)
{
	unsigned long before;

	for (int i = 0; i < 100; i++)
		work();
	before = allocs_count();
	for (int i = 0; i < 1000; i++)
		work();
	printf("%s %g\n", what, (allocs_count() - before) / 1000.0 / operations);
}

static void allocations(void)
{
	if (!allocs_count)
		stop("benches/allocs.c is not preloaded");
	tell_allocations("message", message, 1);
	tell_allocations("inject", injected, 2);
	tell_allocations("unexpected", unexpected, 1);
	tell_allocations("sixteen", several, 16);
	tell_allocations("write-read", accessed, 2);
	tell_allocations("queued", queued, 17);
	tell_allocations("miss", missed, 1);
}

// ---- Set-up

static struct fabric *open_side(struct side *side)
{
	struct fabric *f = fabric_open(side, 1, SIZE);

	// Each side reads only what the other side has already sent, so no fabric has to be driven meanwhile.
	side->fabric = NULL;
	fabric_present(f);
	return f;
}

// Sends a first message, which connects the two sides.
static void meet(void)
{
	ssize_t rc;

	ok(quiet_trecv(b, TAG), "fi_trecv");
	while ((rc = quiet_tsend(a, TAG)) == -FI_EAGAIN) {
		fabric_look(a);
		fabric_look(b);
	}
	ok(rc, "fi_tsend");
	settle(1, 1);
}

int main(int argc, char **argv)
{
	struct side sides[2];
	int pair[2];

	if (argc < 2 || argc > 3 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		stop("usage: calls instructions|allocations [provider]");
	for (unsigned i = 0; i < 2; i++) {
		const char *provider = argc == 3 ? argv[2] : "tcp";

		sides[i] = (struct side){ .provider = provider, .node = node_of(provider), .prepares = true };
	}
	sides[0].control = pair[0];
	sides[1].control = pair[1];
	a = open_side(&sides[0]);
	b = open_side(&sides[1]);
	fabric_learn(a);
	fabric_learn(b);
	meet();
	if (!strcmp(argv[1], "instructions"))
		instructions(COUNT);
	else
		allocations();
	fabric_close(a);
	fabric_close(b);
	return 0;
}
