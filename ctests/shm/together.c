// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Large messages that receiver and sender copy together: sizes near the borders of the parts, several buffers,
//! truncated messages, several messages in flight. The senders poll, sleep, stop, die, may not write, or write garbage
//! to the shared word.
#define _GNU_SOURCE
#include "side.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = (5 << 20) + 3, DEPTH = 6, PIECES = 4, FIRST = 1 << 30, LIMIT = 20000, WORDS_AT = 640, WORDS = 4 };
enum kind { LOOKS, SLEEPS, NO_WRITE, SCRIBBLES, HOLDS };
enum { TAKEN = 0x3fffffff, HELD = 1 << 30, UNTIL_RELEASED = 0, UNTIL_CLOSED, UNTIL_SHOT, FOR_EVER };
static const size_t sizes[] = { 65535,  65536,  65537,  69633,   131071,  131072,	131073,  196609,
				262144, 327681, 524289, 1000003, 1 << 20, (1 << 20) + 1, 2097153, MOST };
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

static struct board {
	struct meeting at;
	atomic_uint stop, received, sent, held, release;
	enum kind kind;
} *board;

static struct iovec *cut(struct iovec pieces[PIECES], void *mem, size_t len, unsigned turn)
{
	static const unsigned shares[] = { 3, 1, 50, 10 };
	size_t at = 0;

	for (unsigned i = 0; i < PIECES; i++) {
		size_t part = i == PIECES - 1 ? len - at : len * shares[(i + turn) % PIECES] / 64;

		pieces[i] = (struct iovec){ (char *) mem + at, part };
		at += part;
	}
	return pieces;
}

static void send_one(struct side *side, struct op *op, void *mem, size_t len, fi_addr_t to, unsigned turn)
{
	struct iovec pieces[PIECES];
	uint64_t end = now_us() + LIMIT * 1000ull;
	ssize_t rc;

	*op = (struct op){ 0 };
	do {
		rc = turn % 3 ? fi_tsend(side->ep, mem, len, NULL, to, turn, &op->context) :
				fi_tsendv(side->ep, cut(pieces, mem, len, turn), NULL, PIECES, to, turn, &op->context);
		if (board->kind != HOLDS)
			look(side);
		CHECK(now_us() < end);
	} while (rc == -FI_EAGAIN);
	OK(rc);
}

static void receive_one(struct side *side, struct op *op, void *mem, size_t len, unsigned turn)
{
	struct iovec pieces[PIECES];

	*op = (struct op){ 0 };
	if (turn % 4)
		OK(fi_trecv(side->ep, mem, len, NULL, FI_ADDR_UNSPEC, turn, 0, &op->context));
	else
		OK(fi_trecvv(side->ep, cut(pieces, mem, len, turn / 4), NULL, PIECES, FI_ADDR_UNSPEC, turn, 0, &op->context));
}

// Every seventh receive is too short.
static size_t room_for(unsigned turn)
{
	size_t len = sizes[turn % SIZES];

	return turn % 7 == 6 ? len - len / 3 : len;
}

static void *room(size_t len)
{
	void *mem = malloc(len);

	CHECK(mem);
	return mem;
}

// ---- Senders

static void forbid_writes(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		SKIP("a seccomp filter: %s", strerror(errno));
}

static void scribble(_Atomic uint64_t *words[WORDS])
{
	for (unsigned i = 0; i < 20000; i++) {
		_Atomic uint64_t *word = words[chance(WORDS)];
		uint64_t was = atomic_load(word);

		switch (chance(5)) {
		case 0: // a random value
			atomic_store(word, chance(UINT64_MAX));
			break;
		case 1: // all units of this message are taken, or none
			atomic_store(word, chance(2) ? was | 0x3ffff : was & ~(uint64_t) TAKEN);
			break;
		case 2: // a part is being copied, or has failed
			atomic_store(word, was ^ 1ull << (30 + chance(2)));
			break;
		case 3: // one unit more or less
			atomic_store(word, was + chance(3) - 1);
			break;
		default:
			sched_yield();
		}
	}
	usleep(1000);
}

// Pretends that the sender is copying a part, from the first part that is taken of the largest message until its last.
static void hold(_Atomic uint64_t *words[WORDS])
{
	for (unsigned i = 0; i < WORDS; i++) {
		uint64_t was = atomic_load(words[i]);

		if (was >> 32 && was & TAKEN && (was & TAKEN) < MOST / 4096 && !(was & HELD) &&
		    atomic_compare_exchange_strong(words[i], &was, was | HELD))
			atomic_store(&board->held, 1);
	}
}

// A thread that writes wrong values into the words of the shared memory all the time.
static void *spoil(void *unused)
{
	_Atomic uint64_t *words[WORDS];

	(void) unused;
	mix_chance((uint64_t) getpid());
	while (!atomic_load(&board->stop)) {
		FILE *maps = fopen("/proc/self/maps", "r");
		unsigned long from = 0, to, at;
		bool found = false;
		char row[512];

		while (maps && !found && fgets(row, sizeof(row), maps))
			found = strstr(row, "memfd:ironfabric (") && sscanf(row, "%lx-%lx %*s %lx", &from, &to, &at) == 3 && !at &&
				to - from >= PAGE;
		if (maps)
			fclose(maps);
		for (unsigned i = 0; i < WORDS; i++)
			words[i] = (_Atomic uint64_t *) (from + WORDS_AT + LINE * i);
		if (found && board->kind == SCRIBBLES)
			scribble(words);
		// The mapping may be replaced, so it is searched again now and then.
		for (unsigned i = 0; found && board->kind == HOLDS && i < 10000 && !atomic_load(&board->release); i++)
			hold(words);
		if (found && board->kind == HOLDS && atomic_load(&board->release)) {
			if (atomic_load(&board->release) == 2)
				usleep(300000);
			for (unsigned i = 0; i < WORDS; i++)
				atomic_fetch_and(words[i], ~(uint64_t) HELD);
			atomic_store(&board->held, 2);
			return NULL;
		}
	}
	return NULL;
}

static void sender(void *unused)
{
	struct side side;
	struct op ops[DEPTH];
	uint8_t *mem[DEPTH];
	pthread_t thread;
	fi_addr_t to;

	(void) unused;
	if (board->kind == NO_WRITE)
		forbid_writes();
	open_side(&side);
	publish(&side, &board->at, 1);
	to = other(&side, &board->at, 1);
	// The processes are connected.
	post_send(&side, &ops[0], "", 1, to, FIRST, LIMIT);
	CHECK(finish(&side, &ops[0], LIMIT));
	if (board->kind >= SCRIBBLES)
		CHECK(!pthread_create(&thread, NULL, spoil, NULL));
	for (unsigned i = 0; i < DEPTH; i++) {
		mem[i] = room(MOST);
		ops[i] = (struct op){ .done = true };
	}
	for (unsigned turn = 0; !atomic_load(&board->stop); turn++) {
		struct op *op = &ops[turn % DEPTH];
		size_t len = board->kind == HOLDS ? MOST : sizes[turn % SIZES];

		// The sender itself copies nothing.
		while (board->kind == HOLDS && turn && atomic_load(&board->held) < 2)
			usleep(1000);
		while (!op->done && !atomic_load(&board->stop)) {
			look(&side);
			if (board->kind == SLEEPS)
				usleep((unsigned) chance(200));
		}
		if (op->error && board->kind < SCRIBBLES)
			FAIL("message %u: %s", turn, fi_strerror(op->error));
		// The receiver sets `stop` after it has received enough.
		if (turn >= atomic_load(&board->received) + DEPTH) {
			look(&side);
			turn--;
			sched_yield();
			continue;
		}
		fill(mem[turn % DEPTH], len, turn);
		send_one(&side, op, mem[turn % DEPTH], len, to, turn);
		atomic_store(&board->sent, turn + 1);
	}
	if (board->kind == SCRIBBLES)
		_exit(0);
	for (unsigned i = 0; i < DEPTH; i++)
		CHECK(finish(&side, &ops[i], LIMIT));
	part(&side, &board->at, 1);
	close_side(&side);
}

static pid_t begin(enum kind kind, struct side *side)
{
	struct op first;
	pid_t pid;
	char byte;

	atomic_store(&board->stop, 0);
	atomic_store(&board->received, 0);
	atomic_store(&board->sent, 0);
	atomic_store(&board->held, 0);
	atomic_store(&board->release, 0);
	memset(&board->at, 0, sizeof(board->at));
	board->kind = kind;
	pid = start("sender", sender, NULL);
	post_recv(side, &first, &byte, 1, FIRST);
	publish(side, &board->at, 0);
	other(side, &board->at, 0);
	CHECK(finish(side, &first, LIMIT));
	return pid;
}

// ---- The receiver

// Receives `count` messages, with `DEPTH` receives posted.
static void receive_all(struct side *side, unsigned count, void (*between)(pid_t), pid_t pid)
{
	struct op ops[DEPTH];
	uint8_t *mem[DEPTH];

	for (unsigned i = 0; i < DEPTH; i++) {
		mem[i] = room(MOST);
		memset(mem[i], 0xe5, MOST);
		receive_one(side, &ops[i], mem[i], room_for(i), i);
	}
	for (unsigned turn = 0; turn < count; turn++) {
		struct op *op = &ops[turn % DEPTH];
		size_t len = sizes[turn % SIZES], had = room_for(turn);
		uint8_t *bytes = mem[turn % DEPTH];
		bool well;

		if (between)
			between(pid);
		well = finish(side, op, LIMIT);
		if (had < len ? op->error != FI_ETRUNC : !well || op->len != len)
			FAIL("message %u of %zu bytes: %s, %zu bytes", turn, len, fi_strerror(op->error), op->len);
		verify(bytes, had / 8 * 8, turn, "received");
		// The bytes after the message are untouched, and the library must not write there any more.
		memset(bytes, 0xe5, had);
		for (unsigned i = 0; i < DEPTH; i++)
			look(side);
		for (size_t i = 0; i < MOST; i++)
			if (bytes[i] != 0xe5)
				FAIL("message %u of %zu bytes: byte %zu was written out of turn", turn, len, i);
		atomic_store(&board->received, turn + 1);
		receive_one(side, op, bytes, room_for(turn + DEPTH), turn + DEPTH);
	}
	atomic_store(&board->stop, 1);
	// Messages that were sent before `stop` arrive, too.
	for (unsigned i = 0; i < DEPTH; i++) {
		struct op *op = &ops[(count + i) % DEPTH];

		while (!op->done && !atomic_load(&board->at.of[1].done))
			look(side);
		if (!op->done)
			OK(fi_cancel(&side->ep->fid, &op->context));
		finish(side, op, LIMIT);
		free(mem[(count + i) % DEPTH]);
	}
}

static void stop_and_go(pid_t pid)
{
	if (chance(2)) {
		kill(pid, SIGSTOP);
		usleep((unsigned) chance(2000));
		kill(pid, SIGCONT);
		usleep((unsigned) chance(300));
	}
}

static void whole(struct side *side, enum kind kind, unsigned count, void (*between)(pid_t))
{
	pid_t pid = begin(kind, side);

	receive_all(side, count, between, pid);
	part(side, &board->at, 0);
	ended_well(pid, LIMIT);
}

// Receives messages one after the other until the sender is killed in the middle of one.
static unsigned shot(struct side *side, enum kind kind)
{
	pid_t pid = begin(kind, side);
	uint64_t end = now_us() + 3000 + chance(40000);
	struct op ops[DEPTH];
	uint8_t *mem[DEPTH], *copy = room(MOST);
	unsigned errors = 0;

	for (unsigned i = 0; i < DEPTH; i++) {
		mem[i] = room(MOST);
		receive_one(side, &ops[i], mem[i], MOST, i);
	}
	for (unsigned turn = 0; now_us() < end;) {
		struct op *op = &ops[turn % DEPTH];

		look(side);
		if (!op->done)
			continue;
		if (kind != SCRIBBLES)
			CHECK(!op->error);
		atomic_store(&board->received, ++turn);
		receive_one(side, op, mem[(turn - 1) % DEPTH], MOST, turn - 1 + DEPTH);
	}
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
	// Receives that matched a message must end by themselves in time; the others are cancelled.
	end = now_us() + 500000;
	while (now_us() < end)
		look(side);
	for (unsigned i = 0; i < DEPTH; i++) {
		if (!ops[i].done)
			OK(fi_cancel(&side->ep->fid, &ops[i].context));
		errors += !finish(side, &ops[i], 1000) && ops[i].error != FI_ECANCELED && ops[i].error != FI_ECONNRESET;
	}
	memcpy(copy, mem[0], MOST);
	usleep(20000);
	CHECK(!memcmp(copy, mem[0], MOST));
	for (unsigned i = 0; i < DEPTH; i++)
		free(mem[i]);
	free(copy);
	return atomic_load(&board->received) > 0;
}

// Closes the endpoint while messages arrive. A stopped sender must not delay that for ever.
static void closed(bool stopped)
{
	struct side side;
	struct op ops[DEPTH];
	uint8_t *mem[DEPTH];
	uint64_t since;
	pid_t pid;

	open_side(&side);
	pid = begin(LOOKS, &side);
	for (unsigned i = 0; i < DEPTH; i++) {
		mem[i] = room(MOST);
		receive_one(&side, &ops[i], mem[i], MOST, i);
	}
	for (uint64_t end = now_us() + 2000 + chance(20000); now_us() < end;)
		look(&side);
	if (stopped)
		kill(pid, SIGSTOP);
	look(&side);
	since = now_us();
	close_side(&side);
	if (now_us() > since + 6000000)
		FAIL("to close takes %llu ms", (unsigned long long) (now_us() - since) / 1000);
	for (unsigned i = 0; i < DEPTH; i++) {
		memset(mem[i], 0xe5, MOST);
	}
	usleep(5000);
	for (unsigned i = 0; i < DEPTH; i++) {
		for (size_t k = 0; k < MOST; k++)
			if (mem[i][k] != 0xe5)
				FAIL("memory is written after its endpoint was closed");
		free(mem[i]);
	}
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
}

// The sender copies a part for as long as it likes. Returns false if it started too late for that.
static bool held(unsigned until)
{
	uint8_t *mem[2] = { room(MOST), room(MOST) };
	struct side side;
	struct op ops[2];
	uint64_t since;
	bool was_held;
	pid_t pid;

	open_side(&side);
	pid = begin(HOLDS, &side);
	receive_one(&side, &ops[0], mem[0], MOST, 0);
	receive_one(&side, &ops[1], mem[1], MOST, 1);
	for (since = now_us(); now_us() < since + LIMIT * 1000ull && !ops[0].done && !atomic_load(&board->held);)
		look(&side);
	for (since = now_us(); now_us() < since + 100000;)
		look(&side);
	if (atomic_load(&board->held) && ops[0].done)
		FAIL("a message is there before its last part");
	was_held = atomic_load(&board->held);
	if (!was_held)
		until = UNTIL_RELEASED;
	switch (until) {
	case UNTIL_RELEASED: // without a wake-up: the next message makes the receiver notice it
		atomic_store(&board->release, 1);
		for (unsigned i = 0; i < 2; i++) {
			CHECK(finish(&side, &ops[i], LIMIT));
			verify(mem[i], MOST, i, "after the sender has let go");
		}
		break;
	case UNTIL_SHOT:
		kill(pid, SIGKILL);
		CHECK(!finish(&side, &ops[0], 1000));
		break;
	case UNTIL_CLOSED:
		atomic_store(&board->release, 2);
	}
	if (until != UNTIL_SHOT)
		kill(pid, until == UNTIL_RELEASED ? SIGKILL : 0);
	if (!ops[1].done)
		OK(fi_cancel(&side.ep->fid, &ops[1].context));
	since = now_us();
	OK(fi_close(&side.ep->fid));
	since = now_us() - since;
	if (since > 6000000 || (until == UNTIL_CLOSED && since < 200000) || (until == FOR_EVER && since < 1500000))
		FAIL("to close the endpoint takes %llu ms", (unsigned long long) since / 1000);
	OK(fi_close(&side.cq->fid));
	OK(fi_close(&side.av->fid));
	OK(fi_close(&side.domain->fid));
	OK(fi_close(&side.fabric->fid));
	fi_freeinfo(side.info);
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
	free(mem[0]);
	free(mem[1]);
	return was_held;
}

static void receiver(void *unused)
{
	struct side side;
	unsigned received = 0, rounds = 0;
	uint64_t end;

	(void) unused;
	mix_chance(5);
	open_side(&side);
	whole(&side, LOOKS, 6 * SIZES, NULL);
	whole(&side, SLEEPS, 2 * SIZES, NULL);
	whole(&side, NO_WRITE, 2 * SIZES, NULL);
	whole(&side, LOOKS, 3 * SIZES, stop_and_go);
	// With a progress thread the process sleeps and does not share the copying.
	for (unsigned until = 0, tries = 0; until <= FOR_EVER && !getenv("SHM_AUTO"); until++)
		while (!held(until))
			CHECK(++tries < 200);
	end = now_us() + seconds * 1000000ull;
	for (; rounds < 4 || now_us() < end; rounds++) {
		received += shot(&side, rounds % 2 ? SCRIBBLES : LOOKS);
		closed(rounds % 3 == 2);
	}
	CHECK(received > 0);
	whole(&side, LOOKS, SIZES, NULL);
	close_side(&side);
	printf("%u senders shot, %u of them after messages had come\n", rounds, received);
}

void case_together(void)
{
	board = shared_page(sizeof(*board));
	ended_well(start("receiver", receiver, NULL), (60 + seconds) * 1000);
}
