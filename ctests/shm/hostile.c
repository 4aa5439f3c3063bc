// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A hostile peer of the same user: it manipulates the hello, the memory that it passes, the rings, frames and answers.
//! The attacked endpoint exchanges checked messages with an honest peer meanwhile. These must go on undamaged, and the
//! endpoint must neither crash nor hang.
#define _GNU_SOURCE
#include "side.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REGION = 8192, KEY = 77, DIAL_MS = 4000 };

static struct board {
	struct meeting at;
	atomic_uint stop, turns[2];	 // exchanges that the two have done
	uint64_t key, base;		 // of the victim's region, REGION bytes that hold what `fill` makes of KEY
	char dial[256];			 // the victim must send to this address
	atomic_uint dials, dialled, error; // requested; done; error of the last one
	atomic_uint large;
} *board;

// ---- The two honest processes

static void swap_one(struct side *side, fi_addr_t to, unsigned which, unsigned turn)
{
	static uint8_t in[70000], out[70000];
	static const size_t sizes[] = { 8, 57, 600, 4000, 17000, 70000 };
	size_t len = sizes[turn % 6];
	struct op send, recv;

	memset(in, 0xe5, len);
	fill(out, len, 2ull * turn + which);
	post_recv(side, &recv, in, len, turn);
	post_send(side, &send, out, len, to, turn, 10000);
	if (!finish(side, &recv, 10000) || !finish(side, &send, 10000))
		FAIL("turn %u: %s", turn, fi_strerror(recv.error ? recv.error : send.error));
	verify(in, len, 2ull * turn + !which, "from the honest peer");
	atomic_store(&board->turns[which], turn + 1);
}

static void honest(void *unused)
{
	struct side side;
	fi_addr_t to;

	(void) unused;
	open_side(&side);
	publish(&side, &board->at, 1);
	to = other(&side, &board->at, 1);
	for (unsigned turn = 0; !atomic_load(&board->at.go) || turn < atomic_load(&board->at.go); turn++)
		swap_one(&side, to, 1, turn);
	part(&side, &board->at, 1);
	close_side(&side);
}

static void victim(void *unused)
{
	static uint8_t big[300000];
	struct side side;
	fi_addr_t to, there = 0;
	struct fid_mr *mr;
	uint8_t *region = malloc(REGION);
	struct op dial = { .done = true };
	unsigned dials = 0, turn = 0;
	uint64_t since = 0;

	(void) unused;
	CHECK(region);
	fill(region, REGION, KEY);
	open_side(&side);
	OK(fi_mr_reg(side.domain, region, REGION, FI_REMOTE_READ, 0, KEY, 0, &mr, NULL));
	board->key = fi_mr_key(mr);
	board->base = side.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t) region : 0;
	publish(&side, &board->at, 0);
	to = other(&side, &board->at, 0);
	while (!atomic_load(&board->stop)) {
		if (turn < 0xffffff)
			swap_one(&side, to, 0, turn++);
		verify(region, REGION, KEY, "a region that nobody may write");
		if (dials < atomic_load(&board->dials) && dial.done) {
			there = insert(&side, board->dial);
			dials++;
			since = now_us();
			post_send(&side, &dial, big, atomic_load(&board->large) ? sizeof(big) : 8, there, 1ull << 40, DIAL_MS);
		}
		if (dials > atomic_load(&board->dialled) && dial.done) {
			OK(fi_av_remove(side.av, &there, 1, 0));
			atomic_store(&board->error, (unsigned) dial.error);
			atomic_store(&board->dialled, dials);
		}
		if (!dial.done && now_us() > since + 20000000)
			FAIL("an operation with the hostile peer does not end");
	}
	// The honest peer may have begun another turn.
	atomic_store(&board->at.go, turn + 1);
	swap_one(&side, to, 0, turn);
	part(&side, &board->at, 0);
	OK(fi_close(&mr->fid));
	close_side(&side);
}

// ---- The hostile process

static const char *target;
static unsigned attacks, ended, served;
static const char *what_now = "nothing";

// Waits until the two honest processes go on; the victim looks at its sockets meanwhile.
static void go_on(const char *what)
{
	unsigned before = atomic_load(&board->turns[0]);

	what_now = what;
	attacks++;
	wait_for(&board->turns[0], before + 3, 8000, what);
}

struct attack {
	int socket;
	uint8_t *mem; // the shared memory; NULL: none
	size_t len, ring, tail;
	int fd;
};

static unsigned connections;

// Connects and sends the hello.
static struct attack say_hello(size_t ring, bool counts)
{
	struct attack a = { .ring = ring, .len = PAGE + 2 * ring };
	uint8_t bytes[HELLO];
	char name[64];

	snprintf(name, sizeof(name), "hostile:%u", connections++);
	a.socket = connect_listener(geteuid(), target);
	CHECK(a.socket >= 0);
	a.fd = memory_of(a.len, true);
	a.mem = mmap(NULL, a.len, PROT_READ | PROT_WRITE, MAP_SHARED, a.fd, 0);
	CHECK(a.mem != MAP_FAILED);
	hello(bytes, name, ring);
	CHECK(give(a.socket, bytes, HELLO, &a.fd, 1) == HELLO);
	if (counts && answer_of(a.socket, 5000) != WELCOME)
		FAIL("not welcome as %s", name);
	return a;
}

static void leave(struct attack *a)
{
	munmap(a->mem, a->len);
	close(a->fd);
	close(a->socket);
}

static void ring_bell(struct attack *a)
{
	(void) !send(a->socket, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static _Atomic uint32_t *word(struct attack *a, size_t at)
{
	return (_Atomic uint32_t *) (a->mem + PAGE + at % a->ring);
}

// Writes a valid record with these bytes. It need not wait for room, because records written at once fit.
static void put_record(struct attack *a, const void *bytes, size_t len)
{
	size_t size = (len + 8 + LINE - 1) / LINE * LINE;

	for (size_t i = 0; i < len; i++)
		a->mem[PAGE + (a->tail + 8 + i) % a->ring] = ((const uint8_t *) bytes)[i];
	atomic_store(word(a, a->tail + size), 0);
	atomic_store(word(a, a->tail), (uint32_t) len + 1 + (a->tail / a->ring % 2 << 31));
	a->tail += size;
	ring_bell(a);
}

// A frame of docs/wire/tcp.md: op, flags, op data, segments. `more` follows the fixed part.
static size_t frame(uint8_t *out, unsigned op, unsigned flags, unsigned data, unsigned segs, const uint64_t *more, unsigned words,
		    uint64_t payload)
{
	uint64_t total;

	memset(out, 0, 16);
	out[0] = 3, out[1] = (uint8_t) op, out[2] = (uint8_t) flags, out[4] = (uint8_t) data, out[5] = (uint8_t) segs;
	out[6] = (uint8_t) (16 + 8 * words);
	total = out[6] + payload;
	memcpy(out + 8, &total, 8);
	memcpy(out + 16, more, 8 * words);
	return 16 + 8 * words;
}

static void must_end(struct attack *a, const char *what)
{
	if (!hears_end(a->socket, 5000))
		FAIL("the connection goes on after: %s", what);
	ended++;
	leave(a);
}

// -- The hello

static void hellos(void)
{
	uint8_t bytes[2 * HELLO];
	int pipes[2], fds[20], socket;
	char path[] = "/tmp/shm-hostile-XXXXXX";
	struct {
		const char *what;
		int fd;
		uint64_t ring;
	} bad[] = {
		{ "memory that is not sealed", memory_of(PAGE + 2 * RING, false), RING },
		{ "memory that is too short", memory_of(PAGE + 2 * RING - 1, true), RING },
		{ "memory of nothing", memory_of(4096, true), RING },
		{ "an ordinary file", mkstemp(path), RING },
		{ "a pipe", pipe(pipes) ? -1 : pipes[0], RING },
		{ "a socket", socketpair(AF_UNIX, SOCK_STREAM, 0, fds) ? -1 : fds[0], RING },
		{ "a device", open("/dev/zero", O_RDWR), RING },
		{ "a folder", open("/tmp", O_RDONLY), RING },
		{ "memory that may not be written", memory_of(PAGE + 2 * RING, false), RING },
		{ "no power of two", memory_of(PAGE + 2 * RING, true), RING - 64 },
		{ "no bytes", memory_of(PAGE + 2 * RING, true), 0 },
		{ "a huge length", memory_of(PAGE + 2 * RING, true), 1ull << 63 },
		{ "a length that wraps", memory_of(PAGE + 2 * RING, true), UINT64_MAX },
		{ "rings larger than the memory", memory_of(PAGE + 2 * RING, true), 2 * RING },
		{ "rings larger than allowed", memory_of(PAGE, true), 32u << 20 },
		{ "rings smaller than a page", memory_of(PAGE + 2 * RING, true), 256 },
	};

	CHECK(bad[3].fd >= 0 && !ftruncate(bad[3].fd, PAGE + 2 * RING) && !unlink(path));
	CHECK(!fcntl(bad[8].fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE));
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		int verdict;

		CHECK(bad[i].fd >= 0 && (socket = connect_listener(geteuid(), target)) >= 0);
		hello(bytes, "hostile", bad[i].ring);
		CHECK(give(socket, bytes, HELLO, &bad[i].fd, 1) == HELLO);
		verdict = answer_of(socket, 5000);
		if (verdict != WRONG_MEMORY)
			FAIL("%s: the answer is %d", bad[i].what, verdict);
		CHECK(hears_end(socket, 5000));
		close(socket);
		// Truncating the memory afterwards must have no effect.
		(void) !ftruncate(bad[i].fd, 0);
		go_on(bad[i].what);
	}
	for (unsigned count = 0; count <= 20; count += count < 6 ? 1 : 14) {
		int verdict;

		for (unsigned i = 0; i < 20; i++)
			fds[i] = bad[0].fd;
		CHECK((socket = connect_listener(geteuid(), target)) >= 0);
		hello(bytes, "hostile", RING);
		CHECK(give(socket, bytes, HELLO, fds, count) == HELLO);
		verdict = answer_of(socket, 5000);
		if (count > 4 ? verdict != -1 : verdict != WRONG_MEMORY)
			FAIL("%u descriptors: the answer is %d", count, verdict);
		close(socket);
		go_on("many descriptors");
	}
	// The hello in pieces, each with a descriptor, so there are as many descriptors as pieces.
	{
		int good = memory_of(PAGE + 2 * RING, true);

		CHECK((socket = connect_listener(geteuid(), target)) >= 0);
		hello(bytes, "hostile in pieces", RING);
		for (unsigned i = 0; i < HELLO; i++)
			if (give(socket, bytes + i, 1, &good, 1) != 1)
				break;
		(void) answer_of(socket, 5000);
		close(socket);
		go_on("a descriptor with every byte");
		CHECK((socket = connect_listener(geteuid(), target)) >= 0);
		for (unsigned i = 0; i < HELLO; i++) {
			CHECK(give(socket, bytes + i, 1, &good, i == 0) == 1);
			if (i % 64 == 0)
				usleep(1000);
		}
		CHECK(answer_of(socket, 5000) == WELCOME);
		close(socket);
		go_on("byte by byte");
		// Two hellos in a row: the second is read as wake-ups.
		CHECK((socket = connect_listener(geteuid(), target)) >= 0);
		memcpy(bytes + HELLO, bytes, HELLO);
		CHECK(give(socket, bytes, 2 * HELLO, &good, 1) == 2 * HELLO);
		CHECK(answer_of(socket, 5000) == WELCOME);
		go_on("two hellos");
		close(socket);
		// The same memory for two connections.
		for (unsigned i = 0; i < 2; i++) {
			CHECK((fds[i] = connect_listener(geteuid(), target)) >= 0);
			CHECK(give(fds[i], bytes, HELLO, &good, 1) == HELLO);
			CHECK(answer_of(fds[i], 5000) == WELCOME);
		}
		go_on("one memory twice");
		close(fds[0]);
		close(fds[1]);
		close(good);
	}
	for (unsigned at = 0; at < HELLO; at += 7) {
		CHECK((socket = connect_listener(geteuid(), target)) >= 0);
		hello(bytes, "hostile", RING);
		CHECK(give(socket, bytes, at, &bad[0].fd, at > 0) == (ssize_t) at);
		close(socket);
	}
	go_on("ends within the hello");
	for (unsigned i = 0; i < 60; i++) {
		CHECK((socket = connect_listener(geteuid(), target)) >= 0);
		hello(bytes, "hostile", RING);
		for (unsigned k = 0; k < 1 + i % 8; k++)
			bytes[i % 2 ? chance(48) : chance(HELLO)] = (uint8_t) chance(256);
		CHECK(give(socket, bytes, HELLO, &bad[0].fd, 1) == HELLO);
		(void) answer_of(socket, 5000);
		close(socket);
	}
	go_on("hellos with changed bytes");
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		close(bad[i].fd);
	close(pipes[1]);
}

// Names of other peers, of any length, or empty.
static void names(void)
{
	static const char *const mine[] = { "", "://", "a/../b", "x", "hostile:0" };
	uint8_t bytes[HELLO];
	char longest[300];
	int fd = memory_of(PAGE + 2 * RING, true);

	memset(longest, 'x', sizeof(longest));
	for (unsigned i = 0; i < 8; i++) {
		int socket = connect_listener(geteuid(), target);
		size_t len = 250 + i;

		CHECK(socket >= 0);
		longest[i < 3 ? len : 255] = 0;
		hello(bytes, i == 6 ? board->at.of[0].name : i == 7 ? board->at.of[1].name : i < 5 ? mine[i] : longest, RING);
		CHECK(give(socket, bytes, HELLO, &fd, 1) == HELLO);
		(void) answer_of(socket, 5000);
		go_on("a name of others");
		close(socket);
	}
	close(fd);
}

// -- The memory

// Random words and lines, bytes that change while they are read, holes.
static void garbage(void)
{
	struct attack a = say_hello(chance(2) ? RING : PAGE, true);
	uint64_t end = now_us() + 20000 + chance(100000);
	unsigned kind = (unsigned) chance(6);

	attacks++;
	while (now_us() < end) {
		uint64_t *at64 = (uint64_t *) a.mem;
		size_t at;

		switch (kind) {
		case 0: // random values at random places
			for (unsigned i = 0; i < 500; i++)
				at64[chance(a.len / 8)] = chance(4) ? chance(1 << 20) : chance(UINT64_MAX);
			break;
		case 1: // words with lengths
			for (at = 0; at < a.ring; at += LINE)
				atomic_store(word(&a, at), (uint32_t) (chance(3) ? 1 + chance(200) : chance(1u << 25)));
			break;
		case 2: // lines of both sides
			for (unsigned i = 0; i < 100; i++)
				at64[chance((2 * OTHER + 4 * LINE) / 8)] = chance(2) ? chance(3) : chance(UINT64_MAX);
			break;
		case 3: // valid records that change and disappear
			for (unsigned i = 0; i < 20; i++) {
				uint8_t bytes[200];
				uint64_t more[3] = { chance(UINT64_MAX) };
				size_t before = a.tail, len = frame(bytes, (unsigned) chance(8), 0, 0, 0, more, 1, chance(300));

				put_record(&a, bytes, len);
				for (unsigned k = 0; k < 50; k++) {
					a.mem[PAGE + (before + 8 + chance(64)) % a.ring] = (uint8_t) chance(256);
					atomic_store(word(&a, before), (uint32_t) chance(100));
				}
			}
			break;
		case 4: // pages that are replaced by new ones
			(void) !fallocate(a.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t) chance(a.len), PAGE);
			(void) !ftruncate(a.fd, (off_t) chance(a.len));
			at64[chance(a.len / 8)] = chance(1 << 16);
			break;
		default: // endless wake-ups
			for (unsigned i = 0; i < 50; i++)
				(void) !send(a.socket, a.mem, PAGE, MSG_NOSIGNAL | MSG_DONTWAIT);
		}
		ring_bell(&a);
		sched_yield();
	}
	leave(&a);
}

// Requests that the victim has to answer, and invalid head values.
static void heads(void)
{
	static const uint64_t moves[] = { 1, 32, 64, 1 << 20, UINT64_MAX, UINT64_MAX - 63, 1ull << 63 };
	uint64_t segs[3] = { board->base, 4096, board->key };
	uint8_t bytes[64];

	for (unsigned i = 0; i < sizeof(moves) / sizeof(*moves); i++) {
		struct attack a = say_hello(PAGE, true);
		_Atomic uint64_t *head = (_Atomic uint64_t *) (a.mem + HEAD_AT);
		size_t len = frame(bytes, 2, 0, 0, 1, segs, 3, 0);

		atomic_store(head, moves[i]);
		for (unsigned k = 0; k < 10; k++)
			put_record(&a, bytes, len);
		go_on("a head that cannot be");
		atomic_store(head, (uint64_t) 0 - 64);
		ring_bell(&a);
		must_end(&a, "a head that cannot be");
	}
	{
		// Endless empty records from a peer that then leaves.
		struct attack a = say_hello(PAGE, true);

		for (size_t at = 0; at < a.ring; at += LINE)
			atomic_store(word(&a, at), 1);
		ring_bell(&a);
		usleep(20000);
		leave(&a);
		go_on("records without end");
	}
	{
		// A message too long to be kept, from a peer that then leaves: the victim must not wait for the rest.
		struct attack a = say_hello(PAGE, true);

		put_record(&a, bytes, frame(bytes, 0, 0, 0, 0, segs, 0, 1ull << 40));
		usleep(20000);
		leave(&a);
		go_on("a message too long");
	}
	{
		// Does not read the answers to its requests for a while: the victim keeps them.
		struct attack a = say_hello(PAGE, true);
		size_t len = frame(bytes, 2, 0, 0, 1, segs, 3, 0);

		for (unsigned k = 0; k < 20; k++)
			put_record(&a, bytes, len);
		go_on("answers that nobody takes");
		leave(&a);
		go_on("answers to nobody");
	}
}

// Sends more and more requests and reads no answers: the victim must limit the answers that it keeps.
static void takes_nothing(void)
{
	enum { EACH = 400, READ_LEN = 40, LIMIT = 600000 };
	static uint8_t bytes[EACH * READ_LEN];
	uint64_t segs[3] = { board->base, 4096, board->key }, since = now_us();
	size_t record = (sizeof(bytes) + 8 + LINE - 1) / LINE * LINE;
	struct attack a = say_hello(RING, true);
	_Atomic uint64_t *taken = (_Atomic uint64_t *) (a.mem + OTHER + HEAD_AT);
	unsigned asked = 0;

	for (unsigned i = 0; i < EACH; i++)
		CHECK(frame(bytes + i * READ_LEN, 2, 0, 0, 1, segs, 3, 0) == READ_LEN);
	while (asked < LIMIT && now_us() < since + 2000000) {
		if (a.tail + record > atomic_load(taken) + RING - LINE) {
			usleep(100);
			continue;
		}
		put_record(&a, bytes, sizeof(bytes));
		asked += EACH;
		since = now_us();
	}
	attacks++;
	if (asked >= LIMIT)
		FAIL("%u reads are taken of a peer that takes no answer", asked);
	go_on("a peer that only asks");
	leave(&a);
	go_on("a peer that only asked");
}

// -- Frames in valid records

static void frames(void)
{
	uint64_t at = board->base, key = board->key;
	uint64_t none[1] = { 0 }, good[3] = { at, 16, key };
	struct {
		const char *what;
		unsigned op, flags, data, segs, words;
		uint64_t payload, more[6];
	} bad[] = {
		{ "op 8", 8, 0, 0, 0, 0, 0, { 0 } },
		{ "op 255", 255, 0, 0, 0, 0, 0, { 0 } },
		{ "header size 17 words too many", 0, 0, 0, 0, 13, 0, { 0 } },
		{ "data without flag", 0, 0, 0, 0, 1, 16, { 0 } },
		{ "flag without data", 0, 1, 0, 0, 0, 16, { 0 } },
		{ "tagged without tag", 1, 0, 0, 0, 0, 16, { 0 } },
		{ "ack with payload", 0, 0, 2, 0, 0, 16, { 0 } },
		{ "unsolicited ack", 0, 0, 2, 0, 0, 0, { 0 } },
		{ "unsolicited read response", 3, 0, 0, 0, 0, 16, { 0 } },
		{ "write of no segment", 4, 0, 0, 0, 0, 16, { 0 } },
		{ "write, unknown key", 4, 0, 0, 1, 3, 16, { at, 16, key + 999 } },
		{ "write, no right", 4, 0, 0, 1, 3, 16, { at, 16, key } },
		{ "write of 2^64 bytes", 4, 0, 0, 1, 3, UINT64_MAX - 40, { at, UINT64_MAX - 40, key } },
		{ "read, unknown key", 2, 0, 0, 1, 3, 0, { at, 16, key + 999 } },
		{ "read past the end", 2, 0, 0, 1, 3, 0, { at + REGION - 8, 16, key } },
		{ "read before the start", 2, 0, 0, 1, 3, 0, { at - 1, 16, key } },
		{ "read that wraps", 2, 0, 0, 1, 3, 0, { at + 8, UINT64_MAX - 3, key } },
		{ "read, segment count contradicts", 2, 0, 0, 2, 3, 0, { at, 16, key } },
		{ "read, five segments", 2, 0, 0, 5, 3, 0, { at, 16, key } },
		{ "read, second segment outside", 2, 0, 0, 2, 6, 0, { at, 16, key, at + REGION, 16, key } },
		{ "read with payload", 2, 0, 0, 1, 3, 16, { at, 16, key } },
		{ "rts, index 0", 5, 0, 0, 0, 2, 0, { 1, 16 } },
		{ "rts with payload", 5, 0, 1, 0, 2, 16, { 1, 16 } },
		{ "rts of 2^64 bytes", 5, 0, 1, 0, 2, 0, { 1, UINT64_MAX } },
		{ "cts unknown", 6, 0, 3, 0, 0, 0, { 0 } },
		{ "data unknown", 7, 0, 3, 0, 0, 16, { 0 } },
		{ "atomic, unknown key", 16, 0, 2, 1 | 7 << 3, 3, 8, { at, 8, key + 999 } },
		{ "atomic, no right", 16, 0, 2, 1 | 7 << 3, 3, 8, { at, 8, key } },
		{ "atomic of no type", 16, 0, 2, 1 | 31 << 3, 3, 8, { at, 8, key } },
		{ "fetch of no operation", 17, 0, 200, 1 | 7 << 3, 3, 8, { at, 8, key } },
		{ "context 63", 24, 0, 0, 63, 0, 16, { 0 } },
		{ "collective", 20, 0, 9, 0, 2, 16, { 0 } },
		{ "share of no message", 35, 0, 3, 1, 3, 0, { at, 200000, 2 } },
		{ "share, index 0", 35, 0, 0, 1, 3, 0, { at, 200000, 2 } },
		{ "share of no segment", 35, 0, 3, 0, 0, 0, { 0 } },
		{ "done with payload", 36, 0, 3, 0, 0, 16, { 0 } },
		{ "hello of keys", 28, 0, 0, 0, 0, 64, { 0 } },
	};
	uint8_t bytes[4096];

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct attack a = say_hello(RING, true);
		size_t len = frame(bytes, bad[i].op, bad[i].flags, bad[i].data, bad[i].segs, bad[i].more, bad[i].words % 12,
				   bad[i].payload);
		size_t more = bad[i].payload < 2000 ? bad[i].payload : 2000;

		if (bad[i].words > 12)
			bytes[6] = 120;
		memset(bytes + len, 0x55, more);
		// Written as a whole, or in records of a few bytes.
		for (size_t part = i % 2 ? 5 : len + more, k = 0; k < len + more; k += part)
			put_record(&a, bytes + k, part < len + more - k ? part : len + more - k);
		must_end(&a, bad[i].what);
		attacks++;
	}
	{
		// A valid read: the bytes must arrive.
		struct attack a = say_hello(RING, true);
		uint64_t end = now_us() + 5000000;
		size_t len = frame(bytes, 2, 0, 0, 1, good, 3, 0);

		put_record(&a, bytes, len);
		while (!atomic_load((_Atomic uint32_t *) (a.mem + PAGE + a.ring)) && now_us() < end)
			usleep(100);
		verify(a.mem + PAGE + a.ring + 8 + 16, 16, KEY, "a read that is allowed");
		served++;
		leave(&a);
	}
	// Valid messages without an end, which the victim keeps; and valid frames with random changes.
	for (unsigned i = 0; i < 30; i++) {
		struct attack a = say_hello(RING, true);
		uint64_t tag[2] = { 1ull << 50, 100000 };
		size_t len = i % 3 ? frame(bytes, 1, i % 2 ? 4 : 0, 0, 0, tag, 1, 1000 + chance(50000)) :
				     frame(bytes, (unsigned) chance(32), (unsigned) chance(16), (unsigned) chance(4),
					   (unsigned) chance(256), i % 2 ? good : none, i % 2 ? 3 : 1, chance(3000));

		for (unsigned k = 0; i % 3 == 0 && k < 3; k++)
			bytes[chance(len)] = (uint8_t) chance(256);
		// Avoids untagged and tagged messages that a receive of the honest processes would match.
		if (bytes[1] == 1 || bytes[1] == 25)
			bytes[16 + 6] = 4;
		put_record(&a, bytes, len);
		put_record(&a, bytes + 1000, chance(900));
		usleep(500);
		leave(&a);
	}
	go_on("frames that break off");
}

// -- The hostile process as listener

static void listens(void)
{
	for (unsigned kind = 0; kind < 10; kind++) {
		struct sockaddr_un at;
		char name[64];
		int listener = socket(AF_UNIX, SOCK_STREAM, 0), socket = -1;
		uint8_t bytes[HELLO] = { 0 }, answer[ANSWER] = { 'I', 'F', 's', 'm', 2 };
		unsigned dials = atomic_load(&board->dials);
		struct pollfd in = { .fd = listener, .events = POLLIN };

		snprintf(name, sizeof(name), "fi_shm://listener:%d:%u:%lu", getpid(), kind, seed);
		CHECK(!bind(listener, (struct sockaddr *) &at, listener_address(&at, geteuid(), name)));
		CHECK(!listen(listener, kind == 9 ? 0 : 8));
		strcpy(board->dial, name);
		atomic_store(&board->large, kind == 8);
		atomic_store(&board->dials, dials + 1);
		if (kind != 9) {
			CHECK(poll(&in, 1, 5000) == 1);
			CHECK((socket = accept(listener, NULL, NULL)) >= 0);
			for (size_t n, have = 0; kind && have < HELLO; have += n)
				if ((ssize_t) (n = (size_t) recv(socket, bytes, HELLO - have, 0)) <= 0)
					FAIL("the hello breaks off");
		}
		switch (kind) {
		case 0: // closes before the hello
		case 1: // closes after the hello
			break;
		case 2: // does not answer
		case 9: // and does not even accept the connection
			// The victim waits as long as the connection is open.
			break;
		case 3: // garbage
			memset(answer, 0xff, ANSWER);
			/* fall through */
		case 4: // a wrong version
			answer[4] = kind == 4 ? 9 : answer[4];
			/* fall through */
		case 5: // an undefined verdict
			answer[6] = 200;
			/* fall through */
		case 6: // a part of an answer
			(void) !send(socket, answer, kind == 6 ? 11 : ANSWER, MSG_NOSIGNAL);
			break;
		default: // accepted, with an invalid process probe; then garbage, or silence
			memset(answer + 16, 0x77, 24);
			(void) !send(socket, answer, ANSWER, MSG_NOSIGNAL);
			for (unsigned i = 0; kind == 7 && i < 100; i++)
				(void) !send(socket, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT);
			go_on("a welcome of no use");
		}
		close(socket);
		close(listener);
		wait_for(&board->dialled, dials + 1, DIAL_MS, "the victim hears the end");
		if (kind != 7 && !atomic_load(&board->error))
			FAIL("an operation with a peer that does not answer, kind %u, ends well", kind);
		go_on("a peer that answers so");
	}
}

static void hostile(void *unused)
{
	uint64_t end = now_us() + seconds * 1000000ull;
	unsigned rounds = 0;

	(void) unused;
	mix_chance(1);
	wait_for(&board->turns[0], 5, 10000, "the honest two talk");
	target = board->at.of[0].name;
	for (; !rounds || now_us() < end; rounds++) {
		hellos();
		names();
		frames();
		heads();
		for (unsigned i = 0; i < 25; i++) {
			garbage();
			if (i % 5 == 0)
				go_on("garbage in the memory");
		}
		if (!rounds) {
			takes_nothing();
			listens();
		}
	}
	go_on("everything");
	printf("%u rounds, %u attacks, %u connections ended for bad frames and heads, %u good reads\n", rounds, attacks, ended, served);
}

void case_hostile(void)
{
	pid_t pids[3];
	unsigned fds, fds_end;
	size_t kib, kib_end;
	int status;
	bool over = false;

	board = shared_page(sizeof(*board));
	pids[0] = start("victim", victim, NULL);
	pids[1] = start("honest peer", honest, NULL);
	wait_for(&board->turns[0], 5, 10000, "the honest two talk");
	fds = count_fds(pids[0]), kib = resident_kib(pids[0]);
	pids[2] = start("hostile peer", hostile, NULL);
	while (!over) {
		for (unsigned i = 0; i < 3; i++)
			if (waitpid(pids[i], &status, WNOHANG) == pids[i]) {
				if (status && WIFSIGNALED(status))
					FAIL("the %s ended by signal %d, %s", i == 0 ? "victim" : i == 1 ? "honest peer" : "hostile peer",
					     WTERMSIG(status), strsignal(WTERMSIG(status)));
				if (i < 2 || status)
					FAIL("the %s has ended, status %#x", i == 0 ? "victim" : i == 1 ? "honest peer" : "hostile peer",
					     status);
				over = true;
			}
		usleep(1000);
	}
	usleep(1500000);
	fds_end = count_fds(pids[0]), kib_end = resident_kib(pids[0]);
	if (fds_end > fds) {
		char command[64];

		snprintf(command, sizeof(command), "ls -l /proc/%d/fd /proc/%d/fd", pids[0], pids[1]);
		(void) !system(command);
	}
	atomic_store(&board->stop, 1);
	ended_well(pids[0], 15000);
	ended_well(pids[1], 15000);
	printf("%u turns of the honest; victim: descriptors %u, then %u; %zu KiB, then %zu\n", atomic_load(&board->turns[0]), fds,
	       fds_end, kib, kib_end);
	if (fds_end > fds)
		FAIL("descriptors of the victim grew from %u to %u", fds, fds_end);
	// Room for unexpected messages that the victim keeps.
	if (kib_end > kib + 65536 + 8192)
		FAIL("memory of the victim grew from %zu to %zu KiB", kib, kib_end);
}
