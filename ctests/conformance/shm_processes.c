// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_shm(7): endpoints of several processes: data between them, sleeping, processes that die, and their remains.
#define _GNU_SOURCE
#include "process.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LEN = 64, BIG = 8 << 20, ROUNDS = 20 };

static void only_shm(struct env *t)
{
	if (strcmp(t->prov, "shm") && strcmp(t->prov, "sm2"))
		SKIP("of shm and sm2");
}

static void send_all(struct env *t, struct side *side, size_t len, unsigned seed)
{
	struct buf out = new_buf(t, len, seed);
	void *ctx = post_send(t, side, out);

	done(t, side->txcq, ctx, FI_MSG | FI_SEND);
}

static void receive(struct env *t, struct side *side, size_t len, unsigned seed)
{
	struct buf in = new_buf(t, len, 0);
	void *ctx = post_recv(t, side, in);

	CHECK_EQ(done(t, side->rxcq, ctx, FI_MSG | FI_RECV).len, len);
	CHECK(holds(in, len, seed));
}

// ---- Data

static const size_t lens[] = { 0, 1, 63, 64, 4095, 4096, 4097, 65535, 65536, 65537, 1000003, BIG };
enum { LENS = sizeof(lens) / sizeof(lens[0]) };

static void echo(struct env *t, struct process *parent)
{
	struct side side = { 0 };

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	for (unsigned i = 0; i < LENS; i++) {
		receive(t, &side, lens[i], i + 1);
		send_all(t, &side, lens[i], i + 2);
	}
}

TEST(fi_shm, messages_of_any_size, EP_RDM, FI_MSG, "Messages to and from another process arrive whole, from none to 8 MiB")
{
	struct process child;

	only_shm(t);
	child = start_process(t, echo);
	open_end(t, &t->a, FI_WAIT_NONE);
	meet(t, &t->a, &child);
	for (unsigned i = 0; i < LENS; i++) {
		send_all(t, &t->a, lens[i], i + 1);
		receive(t, &t->a, lens[i], i + 2);
	}
	join_process(t, &child);
}

// Receives as many messages as the parent commands, and makes no progress before.
static void receive_late(struct env *t, struct process *parent)
{
	struct side side = { 0 };
	unsigned count;

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	receive(t, &side, LEN, 1);
	CHECK_EQ(read(parent->from, &count, sizeof(count)), sizeof(count));
	for (unsigned i = 0; i < count; i++)
		receive(t, &side, LEN, 1);
	tell(parent, "", 1);
}

// Returns whether a message was sent: its completion was read, or it was injected.
static bool sends_one(struct env *t, struct buf out, bool inject)
{
	struct fi_cq_tagged_entry entry;

	if (inject)
		return !fi_inject(t->a.ep, out.mem, out.len, t->a.peer);
	if (fi_send(t->a.ep, out.mem, out.len, out.desc, t->a.peer, NULL))
		return false;
	for (unsigned i = 0; i < 100; i++)
		if (fi_cq_read(t->a.txcq, &entry, 1) == 1)
			return true;
	return false;
}

static void send_and_leave(struct env *t, bool inject)
{
	struct process child;
	unsigned count = 0;
	struct buf out;
	char word;

	only_shm(t);
	child = start_process(t, receive_late);
	open_end(t, &t->a, FI_WAIT_NONE);
	meet(t, &t->a, &child);
	out = new_buf(t, LEN, 1);
	send_all(t, &t->a, LEN, 1);
	while (count < 10000 && sends_one(t, out, inject))
		count++;
	CHECK(count > 0 && count < 10000);
	tell(&child, &count, sizeof(count));
	CHECK_EQ(read(child.from, &word, 1), 1);
	join_process(t, &child);
}

TEST(fi_shm, sent_without_help, EP_RDM, FI_MSG, "What is reported as sent arrives though the sender does nothing more, however late it is received")
{
	send_and_leave(t, false);
}

TEST(fi_shm, injected_without_help, EP_RDM, FI_MSG, "What is injected arrives though the sender does nothing more; what would not is refused")
{
	send_and_leave(t, true);
}

enum { EARLY = 3, EARLY_LEN = 700 };

// Posts messages to a process that makes no call.
static void send_early(struct env *t, void **ctx)
{
	for (unsigned i = 0; i < EARLY; i++)
		ctx[i] = post_send(t, &t->a, new_buf(t, EARLY_LEN, i + 1));
	for (unsigned i = 0; i < 100; i++)
		CHECK_RC(fi_cq_read(t->a.txcq, &(struct fi_cq_tagged_entry){ 0 }, 1), -FI_EAGAIN);
}

static void receive_early(struct env *t, struct side *side)
{
	for (unsigned i = 0; i < EARLY; i++)
		receive(t, side, EARLY_LEN, i + 1);
}

// Makes no call until the parent has posted messages, and the parent makes none until they are here.
static void answer_late(struct env *t, struct process *parent)
{
	struct side side = { 0 };
	char word;

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	CHECK_EQ(read(parent->from, &word, 1), 1);
	receive_early(t, &side);
	tell(parent, "", 1);
	send_all(t, &side, BIG, 7);
	hear(t, parent, &word, 1);
}

static void inject_early(struct env *t)
{
	for (unsigned i = 0; i < EARLY; i++)
		CHECK_RC(fi_inject(t->a.ep, new_buf(t, EARLY_LEN, i + 1).mem, EARLY_LEN, t->a.peer), 0);
}

static void reach_late_peer(struct env *t, bool injects)
{
	struct process child;
	void *ctx[EARLY];
	char word;

	only_shm(t);
	child = start_process(t, answer_late);
	open_end(t, &t->a, FI_WAIT_NONE);
	meet(t, &t->a, &child);
	if (injects)
		inject_early(t);
	else
		send_early(t, ctx);
	tell(&child, "", 1);
	CHECK_EQ(read(child.from, &word, 1), 1);
	for (unsigned i = 0; i < EARLY && !injects; i++)
		done(t, t->a.txcq, ctx[i], FI_MSG | FI_SEND);
	receive(t, &t->a, BIG, 7);
	tell(&child, "", 1);
	join_process(t, &child);
}

TEST(fi_shm, messages_before_the_answer, EP_RDM | OURS_ONLY, FI_MSG, "The first messages reach a peer that makes its first call after the last call of the sender, and complete when it has answered")
{
	reach_late_peer(t, false);
}

TEST(fi_shm, injected_before_the_answer, EP_RDM | OURS_ONLY, FI_MSG, "What is injected for a peer that has not answered reaches it though the sender makes no more call")
{
	reach_late_peer(t, true);
}

TEST(fi_shm, injects_until_the_memory_is_full, EP_RDM | OURS_ONLY, FI_MSG, "What does not fit into the memory that the peer has not accepted is refused with -FI_EAGAIN")
{
	struct process child;
	ssize_t rc = 0;
	unsigned count;
	char word;

	only_shm(t);
	child = start_process(t, receive_late);
	open_end(t, &t->a, FI_WAIT_NONE);
	meet(t, &t->a, &child);
	for (count = 0; count < 10000 && !(rc = fi_inject(t->a.ep, new_buf(t, LEN, 1).mem, LEN, t->a.peer));)
		count++;
	CHECK_RC(rc, -FI_EAGAIN);
	CHECK(count > EARLY);
	count--;
	tell(&child, &count, sizeof(count));
	CHECK_EQ(read(child.from, &word, 1), 1);
	join_process(t, &child);
}

static void receive_at_the_end(struct env *t, struct process *parent)
{
	struct side side = { 0 };
	char word;

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	CHECK_EQ(read(parent->from, &word, 1), 1);
	receive_early(t, &side);
}

TEST(fi_shm, closed_before_the_answer, EP_RDM | OURS_ONLY, FI_MSG, "What is injected before the peer has answered arrives though the sender closes its endpoint at once")
{
	struct process child;

	only_shm(t);
	child = start_process(t, receive_at_the_end);
	open_end(t, &t->a, FI_WAIT_NONE);
	meet(t, &t->a, &child);
	inject_early(t);
	tell(&child, "", 1);
	shut(t, &t->a.ep->fid);
	join_process(t, &child);
}

// Injects for the parent, which makes no call, and ends without closing anything.
static void inject_and_end(struct env *t, struct process *parent)
{
	struct side *side = &t->a;

	open_end(t, side, FI_WAIT_NONE);
	meet(t, side, parent);
	inject_early(t);
	tell(parent, "", 1);
	_exit(0);
}

TEST(fi_shm, ended_before_the_answer, EP_RDM | OURS_ONLY, FI_MSG, "What is injected before the peer has answered arrives though the sender ends at once")
{
	struct process child;
	char word;

	only_shm(t);
	child = start_process(t, inject_and_end);
	open_end(t, &t->a, FI_WAIT_NONE);
	meet(t, &t->a, &child);
	CHECK_EQ(read(child.from, &word, 1), 1);
	join_process(t, &child);
	receive_early(t, &t->a);
}

static void never_answer(struct env *t, struct process *parent)
{
	struct side side = { 0 };

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	pause();
}

// Takes the name of the process that has not answered.
static void answer_instead(struct env *t, struct process *parent)
{
	struct side side = { 0 };
	char name[sizeof(side.name)];

	CHECK_EQ(read(parent->from, name, sizeof(name)), sizeof(name));
	set_source(t->info, name, strlen(name) + 1);
	open_end(t, &side, FI_WAIT_NONE);
	receive_early(t, &side);
	receive(t, &side, LEN, 9);
}

TEST(fi_shm, killed_before_the_answer, EP_RDM | OURS_ONLY, FI_MSG, "If a peer dies before it has answered, its next process gets the first messages once and in order")
{
	struct process first, next;
	char name[sizeof(t->a.name)];
	void *ctx[EARLY];

	only_shm(t);
	next = start_process(t, answer_instead);
	first = start_process(t, never_answer);
	open_end(t, &t->a, FI_WAIT_NONE);
	tell(&first, t->a.name, sizeof(t->a.name));
	hear(t, &first, name, sizeof(name));
	CHECK_RC(fi_av_insert(t->a.av, name, 1, &t->a.peer, 0, NULL), 1);
	send_early(t, ctx);
	kill_process(&first);
	tell(&next, name, sizeof(name));
	for (unsigned i = 0; i < EARLY; i++)
		done(t, t->a.txcq, ctx[i], FI_MSG | FI_SEND);
	send_all(t, &t->a, LEN, 9);
	join_process(t, &next);
}

struct target {
	uint64_t at, key;
};

static void lend(struct env *t, struct process *parent)
{
	struct side side = { 0 };
	struct target target;
	struct region region;
	struct buf mem;
	char word;

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	mem = new_buf(t, BIG, 1);
	region = new_region(t, &side, mem, FI_REMOTE_READ | FI_REMOTE_WRITE);
	target = (struct target){ region.at, region.key };
	tell(parent, &target, sizeof(target));
	receive(t, &side, LEN, 5); // progress until the other process is done
	CHECK(filled(mem.mem, BIG / 2, 2));
	CHECK_EQ(*(uint64_t *)(mem.mem + BIG / 2), 1000);
	tell(parent, "", 1);
	hear(t, parent, &word, 1);
}

TEST(fi_shm, memory_of_another_process, EP_RDM, FI_MSG | FI_RMA | FI_ATOMIC, "Memory that another process registered is read, written and added to")
{
	uint64_t one = 1, before = 0;
	struct process child;
	struct target target;
	struct buf in, out, word;
	void *ctx, *desc;
	char done_there;

	only_shm(t);
	child = start_process(t, lend);
	open_end(t, &t->a, FI_WAIT_NONE);
	meet(t, &t->a, &child);
	hear(t, &child, &target, sizeof(target));
	in = new_buf(t, BIG, 0);
	out = new_buf(t, BIG / 2, 2);
	word = new_buf(t, 8, 0);
	ctx = new_ctx();
	POST(t, fi_read(t->a.ep, in.mem, BIG, in.desc, t->a.peer, target.at, target.key, ctx));
	done(t, t->a.txcq, ctx, FI_RMA | FI_READ);
	CHECK(holds(in, BIG, 1));
	POST(t, fi_write(t->a.ep, out.mem, BIG / 2, out.desc, t->a.peer, target.at, target.key, ctx));
	done(t, t->a.txcq, ctx, FI_RMA | FI_WRITE);
	POST(t, fi_write(t->a.ep, word.mem, 8, word.desc, t->a.peer, target.at + BIG / 2, target.key, ctx));
	done(t, t->a.txcq, ctx, FI_RMA | FI_WRITE);
	POST(t, fi_read(t->a.ep, in.mem, 8, in.desc, t->a.peer, target.at + BIG / 2, target.key, ctx)); // the writes arrived
	done(t, t->a.txcq, ctx, FI_RMA | FI_READ);
	desc = reg_desc(t, &one, 8, ALL_ACCESS);
	for (unsigned i = 0; i < 1000; i++) {
		POST(t, fi_fetch_atomic(t->a.ep, &one, 1, desc, &before, reg_desc(t, &before, 8, ALL_ACCESS), t->a.peer, target.at + BIG / 2,
					target.key, FI_UINT64, FI_SUM, ctx));
		done(t, t->a.txcq, ctx, FI_ATOMIC | FI_READ);
		CHECK_EQ(before, i);
	}
	send_all(t, &t->a, LEN, 5);
	hear(t, &child, &done_there, 1);
	tell(&child, "", 1);
	join_process(t, &child);
}

enum { CHILDREN = 8, EACH = 8, SENDERS = CHILDREN * EACH, MESSAGES = 50 };

static void eight_senders(struct env *t, struct process *parent)
{
	struct side sides[EACH] = { 0 };
	struct buf out = new_buf(t, LEN, 1);
	unsigned first, sent = 0;
	char name[sizeof(sides[0].name)];

	hear(t, parent, &first, sizeof(first));
	hear(t, parent, name, sizeof(name));
	for (unsigned i = 0; i < EACH; i++) {
		open_bound_ep(t, &sides[i]);
		OK(fi_enable(sides[i].ep));
		CHECK_RC(fi_av_insert(sides[i].av, name, 1, &sides[i].peer, 0, NULL), 1);
	}
	for (unsigned k = 0; k < MESSAGES; k++)
		for (unsigned i = 0; i < EACH; i++) {
			struct op op = op_of(SENDDATA, true, part(out, 0, 1 + k), sides[i].peer);

			op.tag = k;
			op.data = first + i;
			op_post(t, sides[i].ep, &op);
		}
	for (uint64_t limit = now_ms() + t->limit_ms; sent < EACH * MESSAGES;) {
		struct fi_cq_tagged_entry comp;

		for (unsigned i = 0; i < EACH; i++)
			sent += fi_cq_read(sides[i].txcq, &comp, 1) == 1;
		if (now_ms() > limit)
			FAIL("%u of %u sent", sent, EACH * MESSAGES);
	}
	hear(t, parent, name, 1);
}

TEST(fi_shm, many_senders, EP_RDM, FI_MSG | FI_TAGGED, "64 endpoints of eight processes send to one at once: all arrives, in the order of each sender")
{
	struct process children[CHILDREN];
	unsigned next[SENDERS] = { 0 };
	struct buf in;

	only_shm(t);
	for (unsigned i = 0; i < CHILDREN; i++)
		children[i] = start_process(t, eight_senders);
	open_end(t, &t->a, FI_WAIT_NONE);
	for (unsigned i = 0; i < CHILDREN; i++) {
		unsigned first = i * EACH;

		tell(&children[i], &first, sizeof(first));
		tell(&children[i], t->a.name, sizeof(t->a.name));
	}
	in = new_buf(t, LEN, 0);
	for (unsigned i = 0; i < SENDERS * MESSAGES; i++) {
		void *ctx = post_trecv(t, &t->a, in, 0, UINT64_MAX);
		struct fi_cq_tagged_entry comp = done(t, t->a.rxcq, ctx, FI_TAGGED | FI_RECV | FI_REMOTE_CQ_DATA);

		CHECK(comp.data < SENDERS);
		CHECK_EQ(comp.tag, next[comp.data]);
		CHECK_EQ(comp.len, 1 + comp.tag);
		CHECK(holds(in, comp.len, 1));
		next[comp.data]++;
	}
	for (unsigned i = 0; i < CHILDREN; i++) {
		tell(&children[i], "", 1);
		join_process(t, &children[i]);
	}
}

enum { FLOOD = 5000 };

static void flood(struct env *t, struct process *parent)
{
	struct side side = { 0 };
	struct buf out = new_buf(t, 512, 1);
	unsigned sent = 0;
	char word;

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	for (unsigned i = 0; i < FLOOD; i++) {
		struct op op = op_of(SEND, true, part(out, 0, i % 512), side.peer);
		struct fi_cq_tagged_entry comp;

		op.tag = i;
		op_post(t, side.ep, &op);
		while (fi_cq_read(side.txcq, &comp, 1) == 1)
			sent++;
	}
	while (sent++ < FLOOD)
		wait_comp(t, side.txcq, NULL);
	tell(parent, "", 1);
	hear(t, parent, &word, 1);
}

TEST(fi_shm, many_before_any_receive, EP_RDM, FI_MSG | FI_TAGGED, "Five thousand messages of another process that come before their receives wait for them, which may be posted in any order")
{
	struct process child;
	struct buf in;
	char word;

	only_shm(t);
	child = start_process(t, flood);
	open_end(t, &t->a, FI_WAIT_NONE);
	meet(t, &t->a, &child);
	hear(t, &child, &word, 1);
	in = new_buf(t, 512, 0);
	for (unsigned i = 0; i < FLOOD; i++) {
		unsigned tag = i % 2 ? FLOOD - 1 - i / 2 : i / 2; // from both ends
		void *ctx = post_trecv(t, &t->a, in, tag, 0);

		CHECK_EQ(done(t, t->a.rxcq, ctx, FI_TAGGED | FI_RECV).len, tag % 512);
		CHECK(holds(in, tag % 512, 1));
	}
	tell(&child, "", 1);
	join_process(t, &child);
}

// ---- Sleeping

// Sleeps until the queue's descriptor is readable.
static void sleep_on(struct env *t, struct fid_cq *cq)
{
	struct fid *fid = &cq->fid;
	struct pollfd wait = { .events = POLLIN };
	int rc;

	OK(fi_control(fid, FI_GETWAIT, &wait.fd));
	rc = fi_trywait(t->fabric, &fid, 1);
	if (rc == -FI_EAGAIN)
		return;
	OK(rc);
	CHECK_EQ(poll(&wait, 1, t->limit_ms), 1);
}

// Waits asleep for the next completion, which must have this context.
static void done_asleep(struct env *t, struct fid_cq *cq, void *ctx)
{
	struct fi_cq_tagged_entry comp;
	ssize_t rc;

	while ((rc = fi_cq_read(cq, &comp, 1)) == -FI_EAGAIN)
		sleep_on(t, cq);
	CHECK_RC(rc, 1);
	CHECK(comp.op_context == ctx);
}

// Each answers the other's message and sleeps until it arrives. The first one gives the other time to fall asleep.
static void in_turn(struct env *t, struct side *side, bool first, void (*finish)(struct env *, struct fid_cq *, void *))
{
	for (unsigned i = 0; i < 2 * ROUNDS; i++) {
		struct buf buf = new_buf(t, i % 8 == 7 ? BIG / 8 : LEN, i % 2 == first ? 0 : i + 1);

		if ((i % 2 == 0) == first) {
			usleep(2000);
			finish(t, side->txcq, post_send(t, side, buf));
		} else {
			void *ctx = post_recv(t, side, buf);

			finish(t, side->rxcq, ctx);
			CHECK(holds(buf, buf.len, i + 1));
		}
	}
}

static void answer_fd(struct env *t, struct process *parent)
{
	struct side side = { 0 };

	open_end(t, &side, FI_WAIT_FD);
	meet(t, &side, parent);
	in_turn(t, &side, false, done_asleep);
}

TEST(fi_shm, descriptor_wakes, EP_RDM, FI_MSG, "FI_WAIT_FD: after fi_trywait a message of another process makes the descriptor ready")
{
	struct process child;

	only_shm(t);
	child = start_process(t, answer_fd);
	open_end(t, &t->a, FI_WAIT_FD);
	meet(t, &t->a, &child);
	in_turn(t, &t->a, true, done_asleep);
	join_process(t, &child);
}

static void done_in_sread(struct env *t, struct fid_cq *cq, void *ctx)
{
	struct fi_cq_tagged_entry comp;

	CHECK_RC(fi_cq_sread(cq, &comp, 1, NULL, t->limit_ms), 1);
	CHECK(comp.op_context == ctx);
}

static void answer_sread(struct env *t, struct process *parent)
{
	struct side side = { 0 };

	open_end(t, &side, FI_WAIT_UNSPEC);
	meet(t, &side, parent);
	in_turn(t, &side, false, done_in_sread);
}

TEST(fi_shm, sread_wakes, EP_RDM, FI_MSG, "fi_cq_sread returns when a message of another process has come")
{
	struct process child;

	only_shm(t);
	child = start_process(t, answer_sread);
	open_end(t, &t->a, FI_WAIT_UNSPEC);
	meet(t, &t->a, &child);
	in_turn(t, &t->a, true, done_in_sread);
	join_process(t, &child);
}

// ---- Processes that die

// Receives one message and ignores others.
static void one_and_no_more(struct env *t, struct process *parent)
{
	struct side side = { 0 };
	struct target target;
	struct region region;

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	region = new_region(t, &side, new_buf(t, BIG, 1), FI_REMOTE_READ | FI_REMOTE_WRITE);
	target = (struct target){ region.at, region.key };
	tell(parent, &target, sizeof(target));
	receive(t, &side, LEN, 1);
	send_all(t, &side, LEN, 2);
	tell(parent, "", 1);
	for (;;) // until it is killed
		pause();
}

// Waits until all operations have ended. Returns how many of them failed.
static unsigned all_ended(struct fid_cq *cq, unsigned count, unsigned limit_ms)
{
	unsigned errors = 0;
	uint64_t limit = now_ms() + limit_ms;

	for (unsigned ended = 0; ended < count;) {
		struct fi_cq_tagged_entry comp;
		struct fi_cq_err_entry err = { 0 };
		ssize_t rc = fi_cq_read(cq, &comp, 1);

		if (rc == -FI_EAVAIL) {
			CHECK_EQ(fi_cq_readerr(cq, &err, 0), 1);
			CHECK(err.err > 0);
			errors++;
		}
		ended += rc == 1 || rc == -FI_EAVAIL;
		if (now_ms() > limit)
			FAIL("%u of %u operations ended", ended, count);
	}
	return errors;
}

static struct process befriend(struct env *t, struct target *target, enum fi_wait_obj wait)
{
	struct process child;
	char word;

	only_shm(t);
	child = start_process(t, one_and_no_more);
	open_end(t, &t->a, wait);
	meet(t, &t->a, &child);
	hear(t, &child, target, sizeof(*target));
	send_all(t, &t->a, LEN, 1);
	receive(t, &t->a, LEN, 2);
	hear(t, &child, &word, 1);
	return child;
}

TEST(fi_shm, killed_peer, EP_RDM | OURS_ONLY, FI_MSG | FI_TAGGED | FI_RMA, "Operations that a process killed by SIGKILL leaves undone end in error within a second; others go on")
{
	struct side sides[2] = { 0 }, other = { 0 };
	struct target target;
	struct process child = befriend(t, &target, FI_WAIT_NONE);
	unsigned large = 0;
	fi_addr_t at[4];
	struct buf buf;

	open_group(t, sides, 2, at);
	sides[0].peer = at[1];
	sides[1].peer = at[2];
	round_trip_between(t, &sides[0], &sides[1]);
	buf = new_buf(t, BIG, 1);
	for (unsigned i = 0; i < 4; i++) {
		struct op op = op_of(SEND, i % 2, buf, t->a.peer);

		op_post(t, t->a.ep, &op);
		POST(t, fi_read(t->a.ep, buf.mem, LEN, buf.desc, t->a.peer, target.at, target.key, new_ctx()));
		large += 2;
	}
	kill_process(&child);
	// These endpoints exchange messages while the errors arrive.
	round_trip_between(t, &sides[0], &sides[1]);
	CHECK(all_ended(t->a.txcq, large, t->limit_ms / 10) > 0);
	nothing(t->a.txcq);
	round_trip_between(t, &sides[0], &sides[1]);
	open_end(t, &other, FI_WAIT_NONE); // the dead peer's remains do not disturb new endpoints
	CHECK_RC(fi_av_insert(t->a.av, other.name, 1, &t->a.peer, 0, NULL), 1);
	CHECK_RC(fi_av_insert(other.av, t->a.name, 1, &other.peer, 0, NULL), 1);
	round_trip_between(t, &t->a, &other);
}

TEST(fi_shm, killed_peer_wakes, EP_RDM | OURS_ONLY, FI_MSG | FI_RMA, "Who sleeps is woken by the end of the process that it waits for")
{
	struct fi_cq_tagged_entry comp;
	struct target target;
	struct process child = befriend(t, &target, FI_WAIT_UNSPEC);
	struct buf in = new_buf(t, BIG, 0);
	pid_t killer;
	ssize_t rc;

	post_send(t, &t->a, in);
	killer = fork();
	CHECK(killer >= 0);
	if (!killer) {
		usleep(50000);
		kill(child.pid, SIGKILL);
		_exit(0);
	}
	rc = fi_cq_sread(t->a.txcq, &comp, 1, NULL, t->limit_ms);
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK_EQ(waitpid(child.pid, NULL, 0), child.pid);
	CHECK_EQ(waitpid(killer, NULL, 0), killer);
}

static void under_a_name(struct env *t, struct process *parent)
{
	char name[ADDR_ROOM] = "", word;
	struct side side = { 0 };

	hear(t, parent, name, sizeof(name));
	set_source(t->info, name, strlen(name) + 1);
	open_end(t, &side, FI_WAIT_NONE);
	CHECK_STR(side.name, name);
	meet(t, &side, parent);
	receive(t, &side, LEN, 1);
	tell(parent, "", 1);
	hear(t, parent, &word, 1); // until it is killed
}

TEST(fi_shm, killed_peer_returns, EP_RDM | OURS_ONLY, FI_MSG, "The name of a process that was killed is free, and whoever has it next is reached by those who knew the old one")
{
	struct process children[3];
	char name[ADDR_ROOM] = "", word;

	only_shm(t);
	for (unsigned i = 0; i < 3; i++)
		children[i] = start_process(t, under_a_name);
	put_unused(t, name);
	open_end(t, &t->a, FI_WAIT_NONE);
	for (unsigned i = 0; i < 3; i++) {
		struct pollfd arrived = { children[i].from, POLLIN, 0 };

		tell(&children[i], name, sizeof(name));
		meet(t, &t->a, &children[i]);
		for (uint64_t limit = now_ms() + t->limit_ms; !poll(&arrived, 1, 0);) { // messages to the old process are lost
			struct op op = op_of(SEND, false, new_buf(t, LEN, 1), t->a.peer);

			op_post(t, t->a.ep, &op);
			all_ended(t->a.txcq, 1, t->limit_ms);
			for (unsigned k = 0; k < 20; k++)
				progress(t);
			if (now_ms() > limit)
				FAIL("nothing arrives");
		}
		hear(t, &children[i], &word, 1);
		kill_process(&children[i]);
	}
}

// ---- Forked processes

TEST(fi_shm, fork_without_exec, EP_RDM, FI_MSG | FI_TAGGED, "A process that forks goes on unharmed: its child only ends, or lives on for a while")
{
	only_shm(t);
	PAIR(t);
	round_trip(t);
	for (unsigned i = 0; i < 4; i++) {
		void *ctx = post_recv(t, &t->b, new_buf(t, BIG, 0));
		struct process child = { .pid = fork() };
		void *sent;

		CHECK(child.pid >= 0);
		if (!child.pid && i % 2)
			_exit(0);
		if (!child.pid)
			for (;;)
				pause();
		if (i % 2)
			join_process(t, &child);
		sent = post_send(t, &t->a, new_buf(t, BIG, 1));
		CHECK_EQ(done(t, t->b.rxcq, ctx, FI_MSG | FI_RECV).len, BIG);
		done(t, t->a.txcq, sent, FI_MSG | FI_SEND);
		round_trip(t);
		if (i % 2 == 0)
			kill_process(&child);
		round_trip(t);
	}
	pair_close(t);
}

TEST(fi_shm, fork_keeps_no_name, EP_RDM | OURS_ONLY, FI_MSG | FI_TAGGED, "A forked child that lives on does not keep its parent's endpoint alive: once closed, sends to it end in error")
{
	struct process child;
	struct op op;

	only_shm(t);
	PAIR(t);
	round_trip(t);
	child.pid = fork();
	CHECK(child.pid >= 0);
	if (!child.pid)
		for (;;)
			pause();
	op = op_of(SEND, false, new_buf(t, BIG, 1), t->a.peer);
	op_post(t, t->a.ep, &op);
	shut(t, &t->b.ep->fid);
	CHECK_EQ(all_ended(t->a.txcq, 1, t->limit_ms), 1);
	kill_process(&child);
}

// ---- Remains

// Whether a line of the file contains both texts.
static bool tells(const char *path, const char *one, const char *two)
{
	FILE *in = fopen(path, "r");
	char line[1024];
	bool found = false;

	CHECK(in);
	while (!found && fgets(line, sizeof(line), in))
		found = strstr(line, one) && strstr(line, two);
	fclose(in);
	return found;
}

// Whether the number occurs in the text as a word of its own.
static bool names(const char *text, const char *number)
{
	for (const char *at = text; (at = strstr(at, number)); at++)
		if ((at == text || !isdigit((unsigned char)at[-1])) && !isdigit((unsigned char)at[strlen(number)]))
			return true;
	return false;
}

// Whether the folder has a file with this PID in its name that was made after `since`, because PIDs are reused.
static bool is_littered(const char *folder, const char *pid, time_t since)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	bool found = false;

	while (dir && !found && (entry = readdir(dir))) {
		struct stat made;

		found = names(entry->d_name, pid) && !fstatat(dirfd(dir), entry->d_name, &made, AT_SYMLINK_NOFOLLOW) &&
			made.st_ctime >= since;
	}
	if (dir)
		closedir(dir);
	return found;
}

static void check_no_litter(pid_t process, time_t since)
{
	static const char *const folders[] = { "/dev/shm", "/tmp", "/var/tmp", "/run", "." };
	char pid[16], name[32];

	snprintf(pid, sizeof(pid), "%d", process);
	for (unsigned i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (is_littered(folders[i], pid, since))
			FAIL("something of process %s is in %s", pid, folders[i]);
	snprintf(name, sizeof(name), "/%d:", process);
	CHECK(!tells("/proc/net/unix", "ironfabric", name));
}

TEST(fi_shm, nothing_left_by_the_killed, EP_RDM | OURS_ONLY, FI_MSG | FI_RMA, "A process that is killed leaves nothing that has a name")
{
	struct target target;
	time_t start = time(NULL);
	struct process child = befriend(t, &target, FI_WAIT_NONE);

	kill_process(&child);
	check_no_litter(child.pid, start);
}

TEST(fi_shm, nothing_has_a_name, EP_RDM | OURS_ONLY, FI_MSG | FI_RMA, "While endpoints talk no memory that they share has a name in a file system, and when they are closed no socket has one")
{
	struct target target;
	time_t start = time(NULL);
	struct process child = befriend(t, &target, FI_WAIT_NONE);
	char line[1024];
	unsigned shared = 0;
	FILE *maps = fopen("/proc/self/maps", "r");

	CHECK(maps);
	while (fgets(line, sizeof(line), maps)) {
		bool is_shared = strstr(line, "rw-s") != NULL;

		shared += is_shared;
		if (is_shared && strchr(line, '/') && !strstr(line, "/memfd:"))
			FAIL("mapped: %s", line);
		CHECK(!strstr(line, "/dev/shm"));
	}
	fclose(maps);
	CHECK(shared > 0);
	CHECK(tells("/proc/net/unix", "ironfabric", strstr(t->a.name, "://") + 2)); // the socket is visible while it exists
	kill_process(&child);
	shut(t, &t->a.ep->fid);
	CHECK(!tells("/proc/net/unix", "ironfabric", strstr(t->a.name, "://") + 2));
	check_no_litter(getpid(), start);
}
