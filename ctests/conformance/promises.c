// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Accepted messages arrive soon, whatever the program does next: it computes, closes, or ends. fi_msg(3),
//! fi_tagged(3), fi_endpoint(3), fi_domain(3).
#define _GNU_SOURCE
#include "process.h"

#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LEN = 64, FIRST = 0x100 };

// Only the program makes progress.
static void by_hand(struct env *t)
{
	t->hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	t->hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	env_info(t);
}

// Takes `count` messages with consecutive tags from FIRST on, however late the program posts the receives.
static void take(struct env *t, struct side *side, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct buf in = new_buf(t, LEN, 0);
		void *ctx = post_trecv(t, side, in, FIRST + i, 0);

		CHECK_EQ(done(t, side->rxcq, ctx, FI_TAGGED | FI_RECV).len, LEN);
		CHECK(holds(in, LEN, i + 1));
	}
}

static unsigned wanted;

static void taker(struct env *t, struct process *parent)
{
	struct side side = { 0 };

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	take(t, &side, wanted);
	tell(parent, "", 1);
}

// Opens an endpoint whose sends have completions only on request.
static void open_selective(struct env *t, struct side *side)
{
	struct fi_av_attr av = { .type = FI_AV_TABLE };

	side->info = t->info;
	side->txcq = side->rxcq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	OK(fi_av_open(t->domain, &av, &side->av, NULL));
	keep(t, &side->av->fid);
	side->ep = open_ep(t, t->info);
	OK(fi_ep_bind(side->ep, &side->av->fid, 0));
	OK(fi_ep_bind(side->ep, &side->txcq->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION));
	OK(fi_enable(side->ep));
	side->namelen = sizeof(side->name);
	OK(fi_getname(&side->ep->fid, side->name, &side->namelen));
}

enum how { BY_INJECT, BY_SEND };

static void post_unheard(struct env *t, struct side *side, enum how how, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct buf out = new_buf(t, LEN, i + 1);
		ssize_t rc = -FI_EAGAIN;

		// Repeats the call without polling, as some programs do.
		for (uint64_t limit = now_ms() + t->limit_ms; rc == -FI_EAGAIN;) {
			CHECK(now_ms() < limit);
			if (how == BY_INJECT)
				rc = fi_tinject(side->ep, out.mem, LEN, side->peer, FIRST + i);
			else
				rc = fi_tsend(side->ep, out.mem, LEN, out.desc, side->peer, FIRST + i, NULL);
		}
		OK(rc);
	}
}

static void post_and_close(struct env *t, enum how how, unsigned count)
{
	struct process child;
	char word;

	by_hand(t);
	wanted = count;
	child = start_process(t, taker);
	open_domain(t);
	open_selective(t, &t->a);
	meet(t, &t->a, &child);
	post_unheard(t, &t->a, how, count);
	shut(t, &t->a.ep->fid);
	CHECK_EQ(read(child.from, &word, 1), 1);
	join_process(t, &child);
}

TEST(fi_endpoint, injected_before_close, EP_RDM, FI_TAGGED, "What was injected to a peer of the first contact arrives though the endpoint is closed at once")
{
	post_and_close(t, BY_INJECT, 1);
}

TEST(fi_endpoint, many_injected_before_close, EP_RDM, FI_TAGGED, "Many messages that were injected arrive though the endpoint is closed at once")
{
	post_and_close(t, BY_INJECT, 500);
}

TEST(fi_endpoint, sent_unheard_before_close, EP_RDM, FI_TAGGED, "What was sent without a completion arrives though the endpoint is closed at once")
{
	post_and_close(t, BY_SEND, 20);
}

// ---- The end of the process

static void post_and_end(struct env *t, unsigned count)
{
	struct process child;
	char word;
	pid_t poster;
	int status;

	by_hand(t);
	wanted = count;
	child = start_process(t, taker);
	// The poster is a process of its own, which ends while its messages are in flight.
	poster = fork();
	CHECK(poster >= 0);
	if (!poster) {
		env_info(t);
		open_domain(t);
		open_selective(t, &t->a);
		meet(t, &t->a, &child);
		post_unheard(t, &t->a, BY_INJECT, count);
		exit(0);
	}
	ONCE(t, waitpid(poster, &status, WNOHANG) == poster);
	CHECK_EQ(status, 0);
	CHECK_EQ(read(child.from, &word, 1), 1);
	join_process(t, &child);
}

TEST(fi_endpoint, injected_before_exit, EP_RDM, FI_TAGGED, "What was injected arrives though the process ends at once by exit")
{
	post_and_end(t, 1);
}

TEST(fi_endpoint, many_injected_before_exit, EP_RDM, FI_TAGGED, "Many messages that were injected arrive though the process ends at once by exit")
{
	post_and_end(t, 500);
}

// ---- Refused operations

TEST(fi_tagged, unheard_waits_for_the_connection, EP_RDM, FI_TAGGED, "An operation of which the program would not hear is not accepted before its peer is connected")
{
	uint8_t byte = 1;
	struct fi_cq_tagged_entry entry;

	if (!is_ours() || is_layered(t))
		SKIP("what a provider accepts before is its own");
	if (!strcmp(t->prov, "shm") || !strcmp(t->prov, "sm2"))
		SKIP("it leaves at once: fi_shm:injected_before_the_answer");
	by_hand(t);
	open_domain(t);
	open_selective(t, &t->a);
	open_selective(t, &t->b);
	CHECK_RC(fi_av_insert(t->a.av, t->b.name, 1, &t->a.peer, 0, NULL), 1);
	CHECK_RC(fi_tinject(t->a.ep, &byte, 1, t->a.peer, FIRST), -FI_EAGAIN);
	CHECK_RC(fi_tsend(t->a.ep, &byte, 1, NULL, t->a.peer, FIRST, NULL), -FI_EAGAIN);
	// An operation with a completion waits here.
	struct iovec iov = { &byte, 1 };
	struct fi_msg_tagged msg = { .msg_iov = &iov, .iov_count = 1, .addr = t->a.peer, .tag = FIRST };
	OK(fi_tsendmsg(t->a.ep, &msg, FI_COMPLETION));
	wait_comp(t, t->a.txcq, &entry);
	OK(fi_tinject(t->a.ep, &byte, 1, t->a.peer, FIRST));
}

static void post_to_nobody(struct env *t, const char *prov)
{
	uint8_t byte = 1, name[ADDR_ROOM];
	ssize_t rc = -FI_EAGAIN;

	CHECK(!setenv("FI_TCP_CONN_TIMEOUT", "300", 1) && !setenv("FI_SHM_CONN_TIMEOUT", "300", 1));
	start_as(t, prov, FI_EP_RDM, FI_TAGGED);
	by_hand(t);
	open_domain(t);
	open_selective(t, &t->a);
	put_unused(t, name);
	CHECK_RC(fi_av_insert(t->a.av, name, 1, &t->a.peer, 0, NULL), 1);
	for (uint64_t limit = now_ms() + t->limit_ms; rc == -FI_EAGAIN && now_ms() < limit;)
		rc = fi_tinject(t->a.ep, &byte, 1, t->a.peer, FIRST);
	CHECK_RC2(rc, -FI_ECONNREFUSED, -FI_ETIMEDOUT);
}

TEST(fi_tagged, unheard_to_nobody_tcp, CORE | OURS_ONLY, 0, "tcp: an operation of which the program would not hear, for a peer that is not there, ends with the reason and not with FI_EAGAIN for ever")
{
	post_to_nobody(t, "tcp");
}

TEST(fi_tagged, unheard_to_nobody_shm, CORE | OURS_ONLY, 0, "shm: an operation of which the program would not hear, for a peer that is not there, ends with the reason and not with FI_EAGAIN for ever")
{
	post_to_nobody(t, "shm");
}

// ---- Soon

// Times at which messages were taken, and the start flag, in memory that both processes share.
struct clock {
	_Atomic bool ready, over;
	_Atomic unsigned taken;
};

static struct clock *shared_clock;
static unsigned held_up;

static void start_clock(void)
{
	shared_clock = mmap(NULL, sizeof(*shared_clock), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared_clock != MAP_FAILED);
}

// Bytes of each message of a row.
static size_t row_length = LEN;

static void watcher(struct env *t, struct process *parent)
{
	struct side side = { 0 };
	struct fi_cq_tagged_entry entry;
	struct buf in;

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	in = new_buf(t, row_length, 0);
	for (unsigned i = 0; i <= held_up; i++)
		post_trecv(t, &side, in, FIRST, UINT64_MAX);
	shared_clock->ready = true;
	for (uint64_t limit = now_ms() + t->limit_ms; shared_clock->taken <= held_up;) {
		CHECK(now_ms() < limit);
		if (fi_cq_read(side.rxcq, &entry, 1) == 1)
			shared_clock->taken++;
	}
	ONCE(t, shared_clock->over);
}

enum row { SENT_ROW, INJECTED_ROW, ROW_WITH_MORE };

// Skips the test over ofi_rxd: packets beyond the first window leave only after an acknowledgement of the peer, which
// progress has to read.
static void one_window(struct env *t)
{
	if (is_layered(t) && strstr(t->prov, "ofi_rxd"))
		SKIP("more than a window of packets");
}

// Posts `count` messages in a row, then makes no library call until all have arrived.
static void post_and_compute(struct env *t, unsigned count, enum row row)
{
	struct process child;
	struct buf out;
	uint64_t limit;
	void *ctx;

	by_hand(t);
	start_clock();
	held_up = count;
	child = start_process(t, watcher);
	open_end(t, &t->a, FI_WAIT_NONE);
	meet(t, &t->a, &child);
	out = new_buf(t, row_length, 1);
	ONCE(t, shared_clock->ready);
	ctx = post_tsend(t, &t->a, out, FIRST);
	done(t, t->a.txcq, ctx, FI_TAGGED | FI_SEND);
	ONCE(t, shared_clock->taken == 1);
	for (unsigned i = 0; i < count; i++) {
		struct iovec iov = { out.mem, row_length };
		struct fi_msg_tagged msg = { .msg_iov = &iov, .desc = &out.desc, .iov_count = 1, .addr = t->a.peer, .tag = FIRST };

		// A post may be refused: a ring of the smallest size has room for fewer.
		if (row == INJECTED_ROW)
			POST(t, fi_tinject(t->a.ep, out.mem, row_length, t->a.peer, FIRST));
		else if (row == SENT_ROW)
			POST(t, fi_tsend(t->a.ep, out.mem, row_length, out.desc, t->a.peer, FIRST, NULL));
		else
			POST(t, fi_tsendmsg(t->a.ep, &msg, FI_MORE | FI_COMPLETION));
	}
	for (limit = now_ms() + t->limit_ms; shared_clock->taken <= count; sched_yield())
		if (now_ms() > limit)
			FAIL("%u of %u messages arrived while the program computed", shared_clock->taken - 1, count);
	shared_clock->over = true;
	join_process(t, &child);
}

TEST(fi_msg, arrive_while_computing, EP_RDM, FI_TAGGED, "Messages that were posted in a row arrive though the program makes no further call")
{
	post_and_compute(t, 5, SENT_ROW);
}

TEST(fi_msg, long_arrives_while_computing, EP_RDM, FI_TAGGED, "A message that a layered provider sends in several packets arrives though the program makes no further call")
{
	if (!strchr(t->info->fabric_attr->prov_name, ';'))
		SKIP("no layer");
	row_length = 20000;
	post_and_compute(t, 1, SENT_ROW);
}

TEST(fi_msg, long_row_arrives_while_computing, EP_RDM, FI_TAGGED, "A long row of messages arrives though the program makes no further call")
{
	one_window(t);
	post_and_compute(t, 50, SENT_ROW);
}

TEST(fi_msg, injected_arrive_while_computing, EP_RDM, FI_TAGGED, "Messages that were injected in a row arrive though the program makes no further call")
{
	one_window(t);
	post_and_compute(t, 100, INJECTED_ROW);
}

// Returns the number of unread bytes at a connected endpoint, without a call of the library that makes progress.
static int unread(struct side *side)
{
	int fd = -1, bytes = 0;

	OK(fi_control(&side->ep->fid, FI_GET_FD, &fd));
	CHECK(!ioctl(fd, FIONREAD, &bytes));
	return bytes;
}

TEST(fi_msg, connected_row_arrives_while_computing, EP_MSG, FI_MSG, "Messages over a connection arrive though the sender makes no further call")
{
	enum { COUNT = 50 };
	struct buf out;

	if (!is_ours())
		SKIP("what a provider has a socket for is its own");
	by_hand(t);
	PAIR(t);
	out = new_buf(t, LEN, 1);
	round_trip(t);
	for (unsigned i = 0; i < COUNT; i++)
		OK(fi_send(t->a.ep, out.mem, LEN, out.desc, t->a.peer, NULL));
	for (uint64_t limit = now_ms() + t->limit_ms; unread(&t->b) < COUNT * LEN; sched_yield())
		if (now_ms() > limit)
			FAIL("%d bytes arrived while the program computed", unread(&t->b));
}

TEST(fi_msg, more_arrives_while_computing, EP_RDM, FI_MSG | FI_TAGGED, "Messages with FI_MORE arrive though none follows and the program makes no further call")
{
	post_and_compute(t, 3, ROW_WITH_MORE);
}

TEST(fi_msg, long_more_arrives_while_computing, EP_RDM, FI_MSG | FI_TAGGED, "A message with FI_MORE that a layered provider sends in one large packet arrives though none follows and the program makes no further call")
{
	if (!strchr(t->info->fabric_attr->prov_name, ';'))
		SKIP("no layer");
	// A size that `tcp` does not copy.
	row_length = 16384;
	post_and_compute(t, 1, ROW_WITH_MORE);
}

struct lent {
	uint64_t at, key;
};

// Lends memory, and reports when the last byte of a row of writes has arrived.
static void lender(struct env *t, struct process *parent)
{
	struct side side = { 0 };
	struct fi_cq_tagged_entry entry;
	struct region region;
	struct lent lent;

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	region = new_region(t, &side, new_buf(t, held_up, 0), FI_REMOTE_WRITE);
	lent = (struct lent){ region.at, region.key };
	tell(parent, &lent, sizeof(lent));
	for (uint64_t limit = now_ms() + t->limit_ms; !*(volatile uint8_t *)&region.buf.mem[held_up - 1];) {
		CHECK(now_ms() < limit);
		if (*(volatile uint8_t *)&region.buf.mem[0])
			shared_clock->ready = true;
		fi_cq_read(side.rxcq, &entry, 0);
	}
	shared_clock->taken = held_up;
	ONCE(t, shared_clock->over);
}

TEST(fi_rma, row_of_writes_arrives_while_computing, EP_RDM, FI_TAGGED | FI_RMA, "A row of writes arrives though the program makes no further call")
{
	struct process child;
	struct lent lent;
	struct buf out;
	void *ctx = new_ctx();

	one_window(t);
	by_hand(t);
	start_clock();
	held_up = 50;
	child = start_process(t, lender);
	open_end(t, &t->a, FI_WAIT_NONE);
	meet(t, &t->a, &child);
	hear(t, &child, &lent, sizeof(lent));
	out = new_buf(t, LEN, 1);
	out.mem[0] = 1;
	POST(t, fi_write(t->a.ep, out.mem, 1, out.desc, t->a.peer, lent.at, lent.key, ctx));
	done(t, t->a.txcq, ctx, FI_RMA | FI_WRITE);
	ONCE(t, shared_clock->ready);
	for (unsigned i = 1; i < held_up; i++)
		OK(fi_write(t->a.ep, out.mem, 1, out.desc, t->a.peer, lent.at + i, lent.key, ctx));
	for (uint64_t limit = now_ms() + t->limit_ms; !shared_clock->taken; sched_yield())
		if (now_ms() > limit)
			FAIL("the last of %u writes is not there", held_up);
	shared_clock->over = true;
	join_process(t, &child);
}

TEST(fi_endpoint, injected_before_close_of_a_connection, EP_MSG, FI_MSG, "What was injected over a connection arrives though the endpoint is closed at once")
{
	enum { COUNT = 50 };
	struct buf in = new_buf(t, COUNT * LEN, 0), out = new_buf(t, LEN, 1);
	void *ctx[COUNT];

	by_hand(t);
	PAIR(t);
	for (unsigned i = 0; i < COUNT; i++)
		ctx[i] = post_recv(t, &t->b, part(in, i * LEN, LEN));
	for (unsigned i = 0; i < COUNT; i++)
		OK(fi_inject(t->a.ep, out.mem, LEN, t->a.peer));
	shut(t, &t->a.ep->fid);
	for (unsigned i = 0; i < COUNT; i++)
		done(t, t->b.rxcq, ctx[i], FI_MSG | FI_RECV);
}

// ---- Cheaply

// Number of send(2) calls of this process. The library under test finds this function before that of the C library.
static _Atomic unsigned sends;

ssize_t send(int fd, const void *bytes, size_t len, int flags)
{
	sends++;
	return syscall(SYS_sendto, fd, bytes, len, flags, NULL, 0);
}

// On a busy machine a receiver may not have polled for long and must be woken: in some rows, but not in all.
enum { BELL_ROWS = 30, BELL_ROW = 30 };

static void bell_taker(struct env *t, struct process *parent)
{
	struct side side = { 0 };

	// A counter with a wait object on which no thread ever waits.
	open_cntr(t, FI_WAIT_UNSPEC);
	open_end(t, &side, FI_WAIT_FD);
	meet(t, &side, parent);
	take(t, &side, 1);
	tell(parent, "", 1);
	for (unsigned i = 1; i < wanted; i++) {
		void *ctx = post_trecv(t, &side, new_buf(t, LEN, 0), FIRST + i, 0);

		CHECK_EQ(done(t, side.rxcq, ctx, FI_TAGGED | FI_RECV).len, LEN);
	}
	tell(parent, "", 1);
}

TEST(fi_cq, who_polls_is_not_woken, EP_RDM, FI_TAGGED, "Over shared memory a message costs no system call while the receiver only polls, whatever its queues could be waited on by")
{
	struct process child;
	unsigned least = UINT_MAX;
	char word;

	if (!is_ours())
		SKIP("what a message costs is a provider's own");
	if (is_tcp(t) && getenv("FI_TCP_SHARED_MEMORY") && !strcmp(getenv("FI_TCP_SHARED_MEMORY"), "0"))
		SKIP("over sockets");
	wanted = BELL_ROWS * BELL_ROW + 1;
	child = start_process(t, bell_taker);
	open_end(t, &t->a, FI_WAIT_NONE);
	meet(t, &t->a, &child);
	done(t, t->a.txcq, post_tsend(t, &t->a, new_buf(t, LEN, 1), FIRST), FI_TAGGED | FI_SEND);
	// The receiver has polled once by now.
	hear(t, &child, &word, 1);
	for (unsigned row = 0; row < BELL_ROWS; row++) {
		unsigned before = sends;

		for (unsigned i = 0; i < BELL_ROW; i++) {
			unsigned n = row * BELL_ROW + i + 1;

			done(t, t->a.txcq, post_tsend(t, &t->a, new_buf(t, LEN, n + 1), FIRST + n), FI_TAGGED | FI_SEND);
		}
		least = sends - before < least ? sends - before : least;
	}
	if (least > BELL_ROW / 6)
		FAIL("%u calls for %u messages", least, BELL_ROW);
	hear(t, &child, &word, 1);
	join_process(t, &child);
}
