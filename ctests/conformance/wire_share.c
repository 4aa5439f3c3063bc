// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! docs/wire/tcp.md, "Shared memory": peers on one host switch to shared memory before their first frame, or stay with
//! TCP. The raw peer offers shared memory and then misbehaves. In all cases the connection continues over TCP, or ends
//! without effect on others.
#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { PORT = 7, BOTH = EXTENDED | SHARES, FEATURES_AT = 33 };
enum { LISTENER = 37, STAY = 38, LISTENER_LEN = 48, STAY_LEN = 16, TOKEN = 16 };
enum { VERSION = 4, HELLO = 320, ANSWER = 40, PAGE = 4096, RING = 65536, LINE = 64, ALL = PAGE + 2 * RING }; // docs/wire/shm.md
enum { FIRST = 4096, LEAST = 32768, HEAD = 64, THEIR_HEAD = 384, SKIP = 1 << 24 };
#define LAP (1u << 31)
enum { WELCOME, WRONG_USER, WRONG_VERSION, WRONG_MEMORY };

struct shm_listener {
	uint8_t name[TOKEN], secret[TOKEN];
};

static void head(uint8_t *out, unsigned op, size_t len)
{
	memset(out, 0, 16);
	out[0] = 3, out[1] = (uint8_t)op, out[6] = 16, out[8] = (uint8_t)len;
}

static void may_share(struct env *t)
{
	only_tcp(t);
	// Set here, because the suite may run without it.
	CHECK(!setenv("FI_TCP_SHARED_MEMORY", "1", 1));
}

// ---- The raw peer has connected

// The endpoint has announced its listener.
static struct wire open_sharing(struct env *t, struct shm_listener *listener)
{
	struct wire wire;
	uint8_t got[LISTENER_LEN], want[16], zero[TOKEN] = { 0 };

	may_share(t);
	PAIR(t);
	wire = rdm_open_as(t, &t->b, PORT, false, BOTH);
	wire_read(t, wire.fd, got, LISTENER_LEN);
	head(want, LISTENER, LISTENER_LEN);
	CHECK(!memcmp(got, want, 16));
	memcpy(listener, got + 16, sizeof(*listener));
	CHECK(memcmp(listener->name, zero, TOKEN) && memcmp(listener->secret, zero, TOKEN));
	wire.counter = 1;
	return wire;
}

static void stay(struct env *t, struct wire *wire)
{
	uint8_t bytes[STAY_LEN];

	head(bytes, STAY, STAY_LEN);
	wire_write(t, wire->fd, bytes, STAY_LEN);
}

static socklen_t place(struct sockaddr_un *at, const struct shm_listener *listener)
{
	int len = sprintf(at->sun_path + 1, "ironfabric/tcp/%u/", geteuid());

	at->sun_family = AF_UNIX;
	at->sun_path[0] = 0;
	for (unsigned i = 0; i < TOKEN; i++)
		len += sprintf(at->sun_path + 1 + len, "%02x", listener->name[i]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int connect_listener(const struct shm_listener *listener)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un at;

	CHECK(fd >= 0);
	CHECK(!connect(fd, (struct sockaddr *)&at, place(&at, listener)));
	return fd;
}

static int sparse_of(size_t len, bool sealed)
{
	int fd = memfd_create("raw", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && !ftruncate(fd, (off_t)len));
	CHECK(!sealed || !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW));
	return fd;
}

static int memory_of(size_t len, bool sealed)
{
	int fd = sparse_of(len, sealed);

	CHECK(!fallocate(fd, 0, 0, (off_t)len));
	return fd;
}

static void hello(uint8_t out[HELLO], const uint8_t secret[TOKEN], uint64_t ring)
{
	uint16_t version = VERSION, len = TOKEN;

	memset(out, 0, HELLO);
	memcpy(out, "IFsm", 4);
	memcpy(out + 4, &version, 2);
	memcpy(out + 6, &len, 2);
	memcpy(out + 8, &ring, 8);
	memcpy(out + 40, secret, TOKEN);
}

static void give(int socket, const void *bytes, size_t len, int fd)
{
	union {
		struct cmsghdr align;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec iov = { (void *)bytes, len };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof(control.room) };
	struct cmsghdr *rights = CMSG_FIRSTHDR(&msg);

	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(rights), &fd, sizeof(int));
	if (fd < 0)
		msg.msg_control = NULL, msg.msg_controllen = 0;
	CHECK_EQ(sendmsg(socket, &msg, MSG_NOSIGNAL), len);
}

static unsigned verdict(struct env *t, int socket)
{
	uint8_t answer[ANSWER];

	wire_read(t, socket, answer, ANSWER);
	CHECK(!memcmp(answer, "IFsm", 4));
	return answer[6];
}

// The bytes sent to the listener were refused or not understood. TCP continues after the peer has declined.
static void goes_on(struct env *t, struct wire *wire)
{
	wire_silent(t, wire->fd);
	stay(t, wire);
	still_open(t, wire, &t->b);
	round_trip(t);
}

TEST(wire_tcp, share_stay, EP_RDM | OURS_ONLY, FI_MSG, "A peer of this host is told where it is met; if it stays, what waited for that goes over TCP")
{
	struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct op op = op_of(SEND, false, new_buf(t, 8, 77), 0);
	uint8_t payload[8];
	struct shm_listener listener;
	struct wire wire = open_sharing(t, &listener);

	CHECK_EQ(fi_av_insert(t->b.av, &peer, 1, &op.addr, 0, NULL), 1);
	op_post(t, t->b.ep, &op);
	wire_silent(t, wire.fd);
	stay(t, &wire);
	expect_frame(t, &wire, (struct wire_header){ .op = MSG, .payload = 8 });
	wire_read(t, wire.fd, payload, 8);
	CHECK(filled(payload, 8, 77));
	done(t, t->b.txcq, op.ctx, SENT(false));
	still_open(t, &wire, &t->b);
}

TEST(wire_tcp, share_own_secrets, EP_RDM | OURS_ONLY, FI_MSG, "Each connection has a secret of its own; the listener is the endpoint's")
{
	struct shm_listener first, second;
	uint8_t got[LISTENER_LEN];
	struct wire other;

	(void)open_sharing(t, &first);
	other = rdm_open_as(t, &t->b, PORT + 1, false, BOTH);
	wire_read(t, other.fd, got, LISTENER_LEN);
	memcpy(&second, got + 16, sizeof(second));
	CHECK(!memcmp(first.name, second.name, TOKEN));
	CHECK(memcmp(first.secret, second.secret, TOKEN));
}

TEST(wire_tcp, share_wrong_secret, EP_RDM | OURS_ONLY, FI_MSG, "Who comes with another secret is refused; the connection goes on over TCP")
{
	struct shm_listener listener;
	struct wire wire = open_sharing(t, &listener);
	uint8_t bytes[HELLO];
	int memory = memory_of(ALL, true);

	for (unsigned i = 0; i < 3; i++) {
		int fd = connect_listener(&listener);

		hello(bytes, listener.secret, RING);
		if (i < 2)
			bytes[40 + 15 * i] ^= 1;
		else
			bytes[6] = TOKEN - 1;
		give(fd, bytes, HELLO, memory);
		CHECK_EQ(verdict(t, fd), WRONG_VERSION);
		wire_ends(t, fd);
		close(fd);
	}
	close(memory);
	goes_on(t, &wire);
}

TEST(wire_tcp, share_bad_memory, EP_RDM | OURS_ONLY, FI_MSG, "Memory that can be shortened, is too short or is none is refused; the connection goes on over TCP")
{
	struct shm_listener listener;
	struct wire wire = open_sharing(t, &listener);
	uint8_t bytes[HELLO];
	const struct {
		int fd;
		uint64_t ring;
	} bad[] = { { memory_of(ALL, false), RING }, { memory_of(ALL - 1, true), RING }, { memory_of(ALL, true), 2 * RING },
		    { memory_of(ALL, true), RING - 64 }, { open("/dev/zero", O_RDWR), RING }, { -1, RING } };

	hello(bytes, listener.secret, RING);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		int fd = connect_listener(&listener);

		memcpy(bytes + 8, &bad[i].ring, 8);
		give(fd, bytes, HELLO, bad[i].fd);
		CHECK_EQ(verdict(t, fd), WRONG_MEMORY);
		wire_ends(t, fd);
		close(fd);
		if (bad[i].fd >= 0)
			close(bad[i].fd);
	}
	goes_on(t, &wire);
}

TEST(wire_tcp, share_garbage_at_door, EP_RDM | OURS_ONLY, FI_MSG, "Processes that connect to the listener and send nothing, part of a hello or anything harm nobody")
{
	struct shm_listener listener;
	struct wire wire = open_sharing(t, &listener);
	uint8_t bytes[HELLO];
	int memory = memory_of(ALL, true), quiet = connect_listener(&listener);

	for (unsigned i = 0; i < 60; i++) {
		int fd = connect_listener(&listener);

		hello(bytes, listener.secret, RING);
		for (unsigned k = 0; k < i % 8; k++)
			bytes[rand() % (i % 2 ? 40 : HELLO)] = (uint8_t)rand();
		// Set last, so that no random byte makes it the secret.
		bytes[40] = listener.secret[0] ^ 1;
		give(fd, bytes, i % 3 ? HELLO : (size_t)rand() % HELLO + 1, i % 5 ? memory : -1);
		progress(t);
		close(fd);
		progress(t);
	}
	close(memory);
	goes_on(t, &wire);
	close(quiet);
}

TEST(wire_tcp, share_silent_guests, EP_RDM | OURS_ONLY, FI_MSG, "Of silent connections at the listener the oldest are closed when there are too many")
{
	enum { CONNECTIONS = 400, AT_MOST = 256 };
	struct rlimit limit;
	struct shm_listener listener;
	struct wire wire = open_sharing(t, &listener);
	int fds[CONNECTIONS];

	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = 4 * AT_MOST;
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	for (unsigned i = 0; i < CONNECTIONS; i++) {
		fds[i] = connect_listener(&listener);
		CHECK(!fcntl(fds[i], F_SETFL, O_NONBLOCK));
	}
	for (unsigned i = 0; i < CONNECTIONS - AT_MOST; i++)
		wire_ends(t, fds[i]);
	CHECK_EQ(recv(fds[CONNECTIONS - 1], &(char){ 0 }, 1, MSG_DONTWAIT), -1);
	CHECK_EQ(errno, EAGAIN);
	for (unsigned i = 0; i < CONNECTIONS; i++)
		close(fds[i]);
	goes_on(t, &wire);
}

TEST(wire_tcp, share_other_frame, EP_RDM | OURS_ONLY, FI_MSG, "A peer that is expected at the listener and sends another frame is disconnected")
{
	struct shm_listener listener;
	struct wire wire = open_sharing(t, &listener);
	uint8_t bytes[64];
	static const uint8_t bad[][2] = { { 1, MSG }, { 1, LISTENER }, { 0, 4 }, { 2, 1 }, { 4, 1 }, { 6, 24 }, { 8, 17 } };

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		if (i) {
			wire = rdm_open_as(t, &t->b, (uint16_t)(PORT + i), false, BOTH);
			wire_read(t, wire.fd, bytes, LISTENER_LEN);
		}
		head(bytes, STAY, STAY_LEN);
		bytes[bad[i][0]] = bad[i][1];
		wire_write(t, wire.fd, bytes, STAY_LEN);
		wire_ends(t, wire.fd);
		close(wire.fd);
	}
	round_trip(t);
}

TEST(wire_tcp, share_slowly, EP_RDM | OURS_ONLY, FI_MSG, "The frame that says that a connection stays may come in pieces, with others right behind it")
{
	struct shm_listener listener;
	struct wire wire = open_sharing(t, &listener);
	struct buf in = new_buf(t, 8, 0);
	struct op recv = op_of(RECV, false, in, FI_ADDR_UNSPEC);
	uint8_t bytes[STAY_LEN + 64];
	size_t len;

	op_post(t, t->b.ep, &recv);
	head(bytes, STAY, STAY_LEN);
	len = STAY_LEN + frame_bytes(bytes + STAY_LEN, (struct wire_header){ .op = MSG, .payload = 8 }, false, "liveness");
	wire_slowly(t, wire.fd, bytes, 5);
	wire_write(t, wire.fd, bytes + 5, len - 5);
	done(t, t->b.rxcq, recv.ctx, RECEIVED(false));
	CHECK(!memcmp(in.mem, "liveness", 8));
}

TEST(wire_tcp, share_peer_ends, EP_RDM | OURS_ONLY, FI_MSG, "What waits for a peer that leaves before it has decided ends in error")
{
	struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct op op = op_of(SEND, false, new_buf(t, 8, 77), 0);
	struct shm_listener listener;
	struct wire wire = open_sharing(t, &listener);
	struct fi_cq_err_entry err = { 0 };

	CHECK_EQ(fi_av_insert(t->b.av, &peer, 1, &op.addr, 0, NULL), 1);
	op_post(t, t->b.ep, &op);
	wire_silent(t, wire.fd);
	close(wire.fd);
	wait_err(t, t->b.txcq, &err);
	CHECK(err.op_context == op.ctx);
	round_trip(t);
}

// ---- ... and shares memory

struct shared {
	int fd;
	uint8_t *mem;
	size_t ring, tail;
};

static struct shared share_rings(struct env *t, struct wire *wire, const struct shm_listener *listener, size_t ring)
{
	struct shared at = { .fd = connect_listener(listener), .ring = ring };
	struct stat stat;
	uint8_t bytes[HELLO];
	int memory = sparse_of(PAGE + 2 * ring, true);

	at.mem = mmap(NULL, PAGE + 2 * ring, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	CHECK(at.mem != MAP_FAILED);
	hello(bytes, listener->secret, ring);
	give(at.fd, bytes, HELLO, memory);
	CHECK_EQ(verdict(t, at.fd), WELCOME);
	// The part that is used at first has been allocated.
	CHECK(!fstat(memory, &stat) && stat.st_blocks >= (PAGE + 2 * FIRST) / 512);
	close(memory);
	// The TCP connection is not needed any more.
	wire_ends(t, wire->fd);
	return at;
}

static struct shared share(struct env *t, struct wire *wire, const struct shm_listener *listener)
{
	return share_rings(t, wire, listener, RING);
}

static _Atomic uint32_t *word(struct shared *at, size_t offset)
{
	return (_Atomic uint32_t *)(at->mem + PAGE + offset % at->ring);
}

static void put_word(struct shared *at, uint32_t bits)
{
	atomic_store(word(at, at->tail), bits | (at->tail & at->ring ? LAP : 0));
}

static void wake(struct shared *at)
{
	(void)!send(at->fd, "", 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void put_record(struct shared *at, const void *bytes, size_t len)
{
	size_t size = (len + 8 + LINE - 1) / LINE * LINE;

	memcpy(at->mem + PAGE + at->tail % at->ring + 8, bytes, len);
	atomic_store(word(at, at->tail + size), 0);
	put_word(at, (uint32_t)len + 1);
	at->tail += size;
	wake(at);
}

static void leave_out(struct shared *at)
{
	put_word(at, SKIP);
	at->tail += at->ring - at->tail % at->ring;
}

TEST(wire_tcp, share_memory, EP_RDM | OURS_ONLY, FI_MSG, "Behind the hello frames go over the rings, both ways, and TCP ends; the end of the socket is that of the connection")
{
	struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct buf in = new_buf(t, 8, 0);
	struct op op = op_of(SEND, false, new_buf(t, 8, 77), 0), recv = op_of(RECV, false, in, FI_ADDR_UNSPEC);
	struct shm_listener listener;
	struct wire wire = open_sharing(t, &listener);
	struct shared at = share(t, &wire, &listener);
	_Atomic uint32_t *theirs = (_Atomic uint32_t *)(at.mem + PAGE + RING);
	struct fi_cq_err_entry err = { 0 };
	uint8_t bytes[64], want[64];
	size_t len = frame_bytes(bytes, (struct wire_header){ .op = MSG, .payload = 8 }, false, "liveness");

	op_post(t, t->b.ep, &recv);
	put_record(&at, bytes, len);
	done(t, t->b.rxcq, recv.ctx, RECEIVED(false));
	CHECK(!memcmp(in.mem, "liveness", 8));
	CHECK_EQ(fi_av_insert(t->b.av, &peer, 1, &op.addr, 0, NULL), 1);
	op_post(t, t->b.ep, &op);
	done(t, t->b.txcq, op.ctx, SENT(false));
	CHECK_EQ(atomic_load(theirs), 24 + 1);
	// The listener's frame was the first.
	frame_bytes(want, (struct wire_header){ .op = MSG, .payload = 8, .counter = 1 }, false, NULL);
	CHECK(!memcmp(at.mem + PAGE + RING + 8, want, 16));
	CHECK(filled(at.mem + PAGE + RING + 8 + 16, 8, 77));
	// A large message that the peer cannot fetch without a process probe: it waits for room, and then fails when the peer
	// closes.
	op = op_of(SEND, false, new_buf(t, 300000, 77), op.addr);
	op_post(t, t->b.ep, &op);
	progress(t);
	close(at.fd);
	wait_err(t, t->b.txcq, &err);
	CHECK(err.op_context == op.ctx);
	round_trip(t);
	munmap(at.mem, ALL);
}

// Sends a request that claims the raw peer's port for the process `pid`.
static int claim(struct env *t, uint32_t pid, unsigned answer)
{
	int fd = wire_connect(t, t->b.name);
	uint8_t bytes[40], private[8];

	wire_write(t, fd, bytes, rdm_bytes(bytes, REQUEST, false, 1, PORT, pid));
	read_cm(t, fd, answer, private, 8);
	return fd;
}

TEST(wire_tcp, share_claimed, EP_RDM | OURS_ONLY, FI_MSG, "While a process shares memory with the endpoint no other one gets its connection; when it has ended one does")
{
	struct shm_listener listener;
	struct wire wire = open_sharing(t, &listener);
	struct shared at = share(t, &wire, &listener);

	for (uint32_t pid = 4000; pid < 4003; pid++)
		wire_ends(t, claim(t, pid, REJECT));
	CHECK_EQ(recv(at.fd, &(char){ 0 }, 1, MSG_DONTWAIT | MSG_PEEK), -1);
	CHECK_EQ(errno, EAGAIN);
	close(at.fd);
	struct wire next = { .fd = claim(t, 4000, RESPONSE) };
	still_open(t, &next, &t->b);
}

TEST(wire_tcp, share_short_laps, EP_RDM | OURS_ONLY, FI_MSG, "A peer may leave out the rest of a lap wherever it likes, and says how much of its ring is used, which is not less than 32768 bytes")
{
	enum { WIDE = 8 * LEAST, BIG = 7000, COUNT = 150 };
	static const size_t limits[] = { 0, LEAST, 4 * LEAST, WIDE };
	struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct buf in = new_buf(t, 8, 0);
	struct op op = op_of(SEND, false, new_buf(t, BIG, 77), 0), recv = op_of(RECV, false, in, FI_ADDR_UNSPEC);
	struct shm_listener listener;
	struct wire wire = open_sharing(t, &listener);
	struct shared at = share_rings(t, &wire, &listener, WIDE);
	_Atomic uint64_t *taken = (_Atomic uint64_t *)(at.mem + THEIR_HEAD);
	const uint8_t *theirs = at.mem + PAGE + WIDE;
	size_t head = 0, end = 0;
	uint8_t bytes[64];

	for (unsigned i = 0; i < 20; i++) {
		size_t len = frame_bytes(bytes, (struct wire_header){ .op = MSG, .payload = 8, .counter = (uint8_t)i }, false, "liveness");

		memset(host_view(in.mem), 0, 8);
		op_post(t, t->b.ep, &recv);
		ONCE(t, at.tail + 2 * LINE - atomic_load(taken) <= WIDE - LINE);
		put_record(&at, bytes, len);
		done(t, t->b.rxcq, recv.ctx, RECEIVED(false));
		CHECK(!memcmp(in.mem, "liveness", 8));
		if (i % 3)
			leave_out(&at);
		wake(&at);
	}
	CHECK_EQ(fi_av_insert(t->b.av, &peer, 1, &op.addr, 0, NULL), 1);
	for (unsigned k = 0; k < sizeof(limits) / sizeof(*limits); k++) {
		atomic_store((_Atomic uint32_t *)(at.mem + HEAD + 8), (uint32_t)limits[k]);
		for (unsigned i = 0; i < COUNT; i++) {
			uint32_t got;
			size_t size;

			op_post(t, t->b.ep, &op);
			done(t, t->b.txcq, op.ctx, SENT(false));
			for (size_t frames = 0; frames < BIG; head += size) {
				got = atomic_load((_Atomic uint32_t *)(theirs + head % WIDE));
				CHECK_EQ(got & LAP, head & WIDE ? LAP : 0);
				got &= ~LAP;
				size = got == SKIP ? WIDE - head % WIDE : (got - 1 + 8 + LINE - 1) / LINE * LINE;
				if (got != SKIP) {
					frames += got - 1;
					end = end < head % WIDE + size ? head % WIDE + size : end;
					end = end > WIDE ? WIDE : end;
				}
			}
			atomic_store((_Atomic uint64_t *)(at.mem + HEAD), head);
		}
		CHECK(end <= (limits[k] < LEAST ? LEAST : limits[k]));
		CHECK(2 * end > limits[k]);
	}
	close(at.fd);
	munmap(at.mem, PAGE + 2 * WIDE);
	round_trip(t);
}

TEST(wire_tcp, share_garbage_in_ring, EP_RDM | OURS_ONLY, FI_MSG, "A record that cannot be, and frames that break the rules, end that connection alone")
{
	static const uint8_t ops[] = { 8, 30, LISTENER, STAY, 99 };
	struct shm_listener listener;
	struct wire wire = open_sharing(t, &listener);
	uint8_t bytes[64];

	static const uint32_t words[] = { 2 * RING, SKIP, 2 * SKIP };

	for (unsigned i = 0; i < sizeof(ops) + sizeof(words) / sizeof(*words); i++) {
		struct shared at;

		if (i) {
			wire = rdm_open_as(t, &t->b, (uint16_t)(PORT + i), false, BOTH);
			wire_read(t, wire.fd, bytes, LISTENER_LEN);
			memcpy(&listener, bytes + 16, sizeof(listener));
		}
		at = share(t, &wire, &listener);
		if (i < sizeof(ops)) {
			head(bytes, ops[i], 16);
			put_record(&at, bytes, 16);
		} else {
			put_word(&at, words[i - sizeof(ops)]);
			wake(&at);
		}
		ONCE(t, recv(at.fd, bytes, sizeof(bytes), MSG_DONTWAIT) == 0 || errno == ECONNRESET);
		close(at.fd);
		close(wire.fd);
		munmap(at.mem, ALL);
		round_trip(t);
	}
}

// ---- The raw peer was connected to

static struct dial dial_sharing(struct env *t, const struct shm_listener *listener)
{
	struct dial dial = dial_from(t, &t->b, wire_listen());
	uint8_t bytes[40 + LISTENER_LEN];
	uint16_t port = ntohs(((const struct sockaddr_in *)t->b.name)->sin_port);

	CHECK(dial.queued);
	rdm_bytes(bytes, RESPONSE, false, 0x81, port, 99);
	bytes[FEATURES_AT] = BOTH;
	head(bytes + 40, LISTENER, LISTENER_LEN);
	memcpy(bytes + 56, listener, sizeof(*listener));
	wire_write(t, dial.wire.fd, bytes, sizeof(bytes));
	return dial;
}

static void hears_stay(struct env *t, struct dial *dial)
{
	uint8_t got[STAY_LEN], want[STAY_LEN];

	wire_read(t, dial->wire.fd, got, STAY_LEN);
	head(want, STAY, STAY_LEN);
	CHECK(!memcmp(got, want, STAY_LEN));
	dial->wire.counter = 1;
	dial_first(t, dial, &t->b);
}

TEST(wire_tcp, share_nowhere, EP_RDM | OURS_ONLY, FI_MSG, "A peer that is met nowhere is sent to over TCP at once")
{
	struct shm_listener none = { { 0 }, { 0 } };
	struct dial dial;

	may_share(t);
	PAIR(t);
	dial = dial_sharing(t, &none);
	dial_first(t, &dial, &t->b);
}

TEST(wire_tcp, share_no_door, EP_RDM | OURS_ONLY, FI_MSG, "Where the peer is not met where it says, the connection stays, and says so")
{
	struct shm_listener listener = { "nobody is there", "whoever comes" };
	struct dial dial;

	may_share(t);
	PAIR(t);
	dial = dial_sharing(t, &listener);
	hears_stay(t, &dial);
}

TEST(wire_tcp, share_squatter, EP_RDM | OURS_ONLY, FI_MSG, "If the process behind the listener leaves, refuses or answers anything, the connection stays on TCP, and says so")
{
	may_share(t);
	PAIR(t);
	for (unsigned kind = 0; kind < 6; kind++) {
		struct shm_listener listener = { "squatter", "whoever comes" };
		uint8_t bytes[HELLO], answer[ANSWER] = { 'I', 'F', 's', 'm', VERSION };
		int at = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), fd = -1;
		struct sockaddr_un name;
		struct dial dial;

		memcpy(listener.name + 10, &(pid_t){ getpid() }, sizeof(pid_t));
		CHECK(at >= 0 && !bind(at, (struct sockaddr *)&name, place(&name, &listener)) && !listen(at, 8));
		dial = dial_sharing(t, &listener);
		ONCE(t, (fd = accept4(at, NULL, NULL, SOCK_CLOEXEC)) >= 0);
		if (kind)
			wire_read(t, fd, bytes, HELLO);
		CHECK(!kind || !memcmp(bytes + 40, listener.secret, TOKEN));
		wire_silent(t, dial.wire.fd);
		switch (kind) {
		case 2:
			answer[6] = WRONG_MEMORY;
			break;
		case 3:
			answer[6] = 200;
			break;
		case 4:
			answer[0] = 0;
			break;
		case 5:
			answer[4] = VERSION + 1;
		}
		if (kind > 1)
			wire_write(t, fd, answer, ANSWER);
		else
			close(fd);
		hears_stay(t, &dial);
		if (kind > 1)
			close(fd);
		close(at);
		close(dial.wire.fd);
		close(dial.at.fd);
	}
	round_trip(t);
}

TEST(wire_tcp, share_answer_breaks_off, EP_RDM | OURS_ONLY, FI_MSG, "After anything but a word of where it is met a peer is tried again; what waits for it is not lost")
{
	static const uint8_t bad[][2] = { { 1, STAY }, { 1, MSG }, { 6, 24 }, { 8, 16 }, { 2, 1 } };

	may_share(t);
	PAIR(t);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct dial dial = dial_from(t, &t->b, wire_listen());
		uint8_t bytes[40 + LISTENER_LEN];
		int again = -1;

		rdm_bytes(bytes, RESPONSE, false, 0x81, ntohs(((const struct sockaddr_in *)t->b.name)->sin_port), 99);
		bytes[FEATURES_AT] = BOTH;
		head(bytes + 40, LISTENER, LISTENER_LEN);
		memset(bytes + 56, 7, 2 * TOKEN);
		bytes[40 + bad[i][0]] = bad[i][1];
		wire_write(t, dial.wire.fd, bytes, sizeof(bytes));
		wire_ends(t, dial.wire.fd);
		again = wire_accept(t, &dial.at);
		close(dial.wire.fd);
		dial.wire.fd = again;
		wire_read(t, again, bytes, 40);
		dial_answer(t, &dial, &t->b);
		close(again);
		close(dial.at.fd);
	}
}

// ---- Endpoints that do not share

static unsigned features_of_request(struct env *t, struct side *side)
{
	struct listener at = wire_listen();
	struct op op = op_of(SEND, false, new_buf(t, 8, 77), 0);
	uint8_t bytes[40];

	CHECK_EQ(fi_av_insert(side->av, &at.addr, 1, &op.addr, 0, NULL), 1);
	CHECK_RC2(op_try(side->ep, &op), 0, -FI_EAGAIN);
	wire_read(t, wire_accept(t, &at), bytes, 40);
	return bytes[FEATURES_AT] & SHARES;
}

static unsigned features_of_answer(struct env *t, struct side *side)
{
	uint8_t bytes[40], private[8];
	int fd = wire_connect(t, side->name);

	rdm_bytes(bytes, REQUEST, false, 1, PORT, 4242);
	bytes[FEATURES_AT] = BOTH;
	wire_write(t, fd, bytes, 40);
	read_cm(t, fd, RESPONSE, private, 8);
	wire_silent(t, fd);
	return private[1] & SHARES;
}

TEST(wire_tcp, share_not_permitted, EP_RDM | OURS_ONLY, FI_MSG, "Without FI_OPT_SHARED_MEMORY_PERMITTED neither request nor answer says that memory would be shared; it is set before fi_enable")
{
	bool on = false;

	may_share(t);
	open_bound_ep(t, &t->a);
	OK(fi_setopt(&t->a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED, &on, sizeof(on)));
	OK(fi_enable(t->a.ep));
	t->a.namelen = sizeof(t->a.name);
	OK(fi_getname(&t->a.ep->fid, t->a.name, &t->a.namelen));
	CHECK_EQ(features_of_request(t, &t->a), 0);
	CHECK_EQ(features_of_answer(t, &t->a), 0);
	CHECK_RC(fi_setopt(&t->a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED, &on, sizeof(on)), -FI_EOPBADSTATE);
}

TEST(wire_tcp, share_turned_off, EP_RDM | OURS_ONLY, FI_MSG, "With FI_TCP_SHARED_MEMORY=0 neither says so, whatever the option says")
{
	bool on = true;

	only_tcp(t);
	CHECK(!setenv("FI_TCP_SHARED_MEMORY", "0", 1));
	open_bound_ep(t, &t->a);
	OK(fi_setopt(&t->a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED, &on, sizeof(on)));
	OK(fi_enable(t->a.ep));
	t->a.namelen = sizeof(t->a.name);
	OK(fi_getname(&t->a.ep->fid, t->a.name, &t->a.namelen));
	CHECK_EQ(features_of_request(t, &t->a), 0);
	CHECK_EQ(features_of_answer(t, &t->a), 0);
}

TEST(wire_tcp, share_old_peer, EP_RDM | OURS_ONLY, FI_MSG, "A peer that does not know of it, or has the other byte order, gets no frame of it")
{
	struct wire wire;

	may_share(t);
	PAIR(t);
	wire = rdm_open_as(t, &t->b, PORT, false, EXTENDED);
	still_open(t, &wire, &t->b);
	wire = rdm_open_as(t, &t->b, PORT + 1, false, 0);
	still_open(t, &wire, &t->b);
	wire = rdm_open_as(t, &t->b, PORT + 2, true, EXTENDED);
	still_open(t, &wire, &t->b);
}

// ---- Two endpoints of the library

static bool shares_memory(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512];
	bool found = false;

	CHECK(maps);
	while (fgets(line, sizeof(line), maps))
		found |= strstr(line, "/memfd:ironfabric (deleted)") != NULL;
	fclose(maps);
	return found;
}

// Messages of all sizes before the connection is up, while it is established, and after that.
static void in_order(struct env *t)
{
	enum { COUNT = 40 };
	static const size_t lens[] = { 8, 40000, 1, 600, 16384, 0, 300000, 57, 4096 };
	struct buf in[COUNT];
	struct op recv[COUNT], send[COUNT];

	for (unsigned i = 0; i < COUNT; i++) {
		size_t len = lens[i % 9];
		ssize_t rc = -FI_EAGAIN;

		in[i] = new_buf(t, len, 0);
		recv[i] = op_of(RECV, false, in[i], FI_ADDR_UNSPEC);
		// Some receives are posted before their messages, some after them.
		if (i % 3)
			op_post(t, t->b.ep, &recv[i]);
		send[i] = op_of(SEND, false, new_buf(t, len, i + 1), t->a.peer);
		ONCE(t, (rc = op_try(t->a.ep, &send[i])) != -FI_EAGAIN);
		OK(rc);
		if (!(i % 3))
			op_post(t, t->b.ep, &recv[i]);
		for (unsigned k = 0; i > 10 && k < i % 4; k++)
			progress(t);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		done(t, t->b.rxcq, recv[i].ctx, RECEIVED(false));
		CHECK(filled(in[i].mem, lens[i % 9], i + 1));
	}
	for (unsigned i = 0; i < COUNT; i++)
		wait_comp(t, t->a.txcq, NULL);
	nothing(t->a.txcq);
}

TEST(wire_tcp, share_in_order, EP_RDM | OURS_ONLY, FI_MSG, "Two endpoints share memory; messages posted before, while and after that comes about are in order")
{
	may_share(t);
	PAIR(t);
	CHECK(!shares_memory());
	in_order(t);
	CHECK(shares_memory());
	pair_close(t);
	CHECK(!shares_memory());
}

TEST(wire_tcp, share_one_side, EP_RDM | OURS_ONLY, FI_MSG, "If the side that connects does not permit it, they talk over TCP")
{
	bool on = false;

	may_share(t);
	open_bound_ep(t, &t->a);
	OK(fi_setopt(&t->a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_SHARED_MEMORY_PERMITTED, &on, sizeof(on)));
	open_bound_ep(t, &t->b);
	for (unsigned i = 0; i < 2; i++) {
		struct side *side = i ? &t->b : &t->a;

		OK(fi_enable(side->ep));
		side->namelen = sizeof(side->name);
		OK(fi_getname(&side->ep->fid, side->name, &side->namelen));
	}
	CHECK_EQ(fi_av_insert(t->a.av, t->b.name, 1, &t->a.peer, 0, NULL), 1);
	CHECK_EQ(fi_av_insert(t->b.av, t->a.name, 1, &t->b.peer, 0, NULL), 1);
	in_order(t);
	CHECK(!shares_memory());
}

TEST(wire_tcp, share_unexpected, EP_RDM | OURS_ONLY, FI_MSG, "A large message that nobody has asked for is kept, so that its sender is done, over shared memory as over TCP")
{
	struct buf in = new_buf(t, 1 << 20, 0);
	struct buf out = new_buf(t, 1 << 20, 5);
	struct op recv = op_of(RECV, false, in, FI_ADDR_UNSPEC), send;

	may_share(t);
	PAIR(t);
	send = op_of(SEND, false, out, t->a.peer);
	op_post(t, t->a.ep, &send);
	done(t, t->a.txcq, send.ctx, SENT(false));
	memset(host_view(out.mem), 0, out.len);
	op_post(t, t->b.ep, &recv);
	done(t, t->b.rxcq, recv.ctx, RECEIVED(false));
	CHECK(filled(in.mem, 1 << 20, 5));
	CHECK(shares_memory());
}
