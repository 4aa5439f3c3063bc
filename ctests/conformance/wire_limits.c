// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! docs/wire/tcp.md: limits for peers that send many unexpected messages, or read no answers.
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PORT = 7, BATCH = 1000, HEADER = 16, TAGGED_HEADER = 24, RTS_HEADER = 32 };

// Resident memory of this process in bytes.
static size_t resident(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	CHECK(file && fscanf(file, "%*u %lu", &pages) == 1);
	fclose(file);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static size_t virtual_size(void)
{
	unsigned long pages = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	CHECK(file && fscanf(file, "%lu", &pages) == 1);
	fclose(file);
	return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void limit_to(const char *bytes)
{
	CHECK(!setenv("FI_TCP_MAX_SAVED_BYTES", bytes, 1));
}

static struct wire open_wire(struct env *t)
{
	only_tcp(t);
	PAIR(t);
	round_trip(t);
	return rdm_open(t, &t->b, PORT, false);
}

// Whether the peer reads this frame within a while; a part that it has read counts.
static bool pushed(struct env *t, int fd, const void *bytes, size_t len)
{
	size_t at = 0;

	for (unsigned vain = 0; at < len && vain < 300;) {
		ssize_t rc = send(fd, (const char *)bytes + at, len - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		CHECK(rc >= 0 || errno == EAGAIN);
		if (rc > 0)
			at += (size_t)rc, vain = 0;
		else
			vain++;
		progress(t);
	}
	return at == len;
}

// Sends unexpected messages until the peer reads no more, or at most `count`.
static void flood(struct env *t, int fd, struct wire_header h, unsigned count)
{
	static uint8_t bytes[BATCH * 64], one[8];
	size_t len = 0;

	for (unsigned i = 0; i < BATCH; i++)
		len += frame_bytes(bytes + len, h, false, one);
	for (unsigned sent = 0; sent < count && pushed(t, fd, bytes, len); sent += BATCH) {
	}
}

static void flooded(struct env *t, struct wire_header h)
{
	enum { CAP = 4 << 20 };

	if (is_checked())
		SKIP("the memory of the process is the checker's, too");
	limit_to("4194304");
	struct wire wire = open_wire(t);
	size_t before = resident(), after;

	flood(t, wire.fd, h, 300000);
	after = resident();
	if (after > before + 2 * CAP)
		FAIL("%zu KiB for messages that may take %u", (after - before) >> 10, CAP >> 10);
	// The other peer still works.
	round_trip(t);
}

TEST(wire_tcp, flood_of_empty_messages, EP_RDM | OURS_ONLY, FI_TAGGED, "Unexpected messages without bytes cost memory, and count")
{
	flooded(t, (struct wire_header){ .op = TAGGED, .tag = 1ull << 60 });
}

TEST(wire_tcp, flood_of_short_messages, EP_RDM | OURS_ONLY, FI_TAGGED, "Unexpected messages of one byte count for what they cost")
{
	flooded(t, (struct wire_header){ .op = TAGGED, .tag = 1ull << 60, .payload = 1 });
}

TEST(wire_tcp, flood_leaves_others_room, EP_RDM | OURS_ONLY, FI_TAGGED, "A peer that has used up its share leaves the others room for unexpected messages")
{
	enum { LEN = 10000, TAG_OF_A = 7 };

	limit_to("1048576");
	struct wire wire = open_wire(t);
	struct buf in = new_buf(t, LEN, 0), out = new_buf(t, LEN, 1), second = new_buf(t, LEN, 0);
	void *last;

	flood(t, wire.fd, (struct wire_header){ .op = TAGGED, .tag = 1ull << 60, .payload = 8 }, 300000);
	// The first of these messages is unexpected; a receive waits for the second one after it.
	last = post_trecv(t, &t->b, second, TAG_OF_A + 1, 0);
	post_tsend(t, &t->a, out, TAG_OF_A);
	post_tsend(t, &t->a, out, TAG_OF_A + 1);
	done(t, t->b.rxcq, last, FI_TAGGED | FI_RECV);
	CHECK(holds(second, LEN, 1));
	done(t, t->b.rxcq, post_trecv(t, &t->b, in, TAG_OF_A, 0), FI_TAGGED | FI_RECV);
	CHECK(holds(in, LEN, 1));
}

TEST(wire_tcp, flood_is_taken_later, EP_RDM | OURS_ONLY, FI_TAGGED, "Messages beyond the limit are all received in the end, in order")
{
	enum { COUNT = 20000 };
	uint8_t bytes[HEADER + 8 + 8];
	unsigned sent = 0, received = 0;
	size_t at = 0, len = 0;

	limit_to("65536");
	struct wire wire = open_wire(t);
	for (uint64_t limit = now_ms() + 6 * t->limit_ms; received < COUNT;) {
		// Each message has its number as tag; every third is empty.
		while (at < len || sent < COUNT) {
			if (at == len) {
				struct wire_header h = { .op = TAGGED, .tag = sent, .payload = sent % 3 ? 4 : 0 };

				len = frame_bytes(bytes, h, false, &sent), at = 0;
				sent++;
			}
			ssize_t rc = send(wire.fd, bytes + at, len - at, MSG_DONTWAIT | MSG_NOSIGNAL);
			if (rc < 0)
				break;
			at += (size_t)rc;
		}
		progress(t);
		if (sent < COUNT && now_ms() % 3) // often more have arrived than fit
			continue;
		struct fi_cq_tagged_entry comp = { 0 };
		struct buf in = new_buf(t, 8, 0);

		post_trecv(t, &t->b, in, 0, UINT64_MAX);
		ONCE(t, fi_cq_read(t->b.rxcq, &comp, 1) == 1);
		CHECK_EQ(comp.tag, received);
		CHECK_EQ(comp.len, received % 3 ? 4 : 0);
		received++;
		if (now_ms() > limit)
			FAIL("%u sent, %u received", sent, received);
	}
}

TEST(wire_tcp, announced_where_nothing_is_kept, EP_RDM | OURS_ONLY, FI_TAGGED, "A message that is announced where there is no room for unexpected ones does not keep back what comes behind it")
{
	enum { LEN = 64, LARGE_LEN = 1 << 20 };
	struct wire_header announced = { .op = RTS, .op_data = 1, .tag = 1ull << 59, .msg_size = LARGE_LEN };
	struct wire_header behind = { .op = TAGGED, .tag = 5, .payload = LEN };
	uint8_t bytes[256];

	limit_to("65536");
	struct wire full = open_wire(t);
	struct wire wire = rdm_open(t, &t->b, PORT + 1, false);
	struct buf in = new_buf(t, LEN, 0), out = new_buf(t, LEN, 1);
	void *ctx = post_trecv(t, &t->b, in, 5, 0);

	flood(t, full.fd, (struct wire_header){ .op = TAGGED, .tag = 1ull << 60, .payload = 8 }, 300000);
	// One for each index: they are charged, and use up the room for this peer.
	for (unsigned i = 1; i < 255; i++) {
		announced.op_data = (uint8_t)i;
		send_frame(t, &wire, announced, NULL);
	}
	wire_write(t, wire.fd, bytes, frame_bytes(bytes, behind, false, out.mem));
	done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV);
	CHECK(holds(in, LEN, 1));
}

TEST(wire_tcp, stalled_peer_ends, EP_RDM | OURS_ONLY, FI_MSG, "A peer that ends while its message waits for room is noticed: what it was sent fails")
{
	enum { LEN = 1 << 20 };
	struct dial dial;
	struct wire_header h = { .op = MSG, .payload = LEN };
	uint8_t bytes[256];

	limit_to("4096");
	only_tcp(t);
	PAIR(t);
	dial = dial_from(t, &t->b, wire_listen());
	dial_answer(t, &dial, &t->b);
	still_open(t, &dial.wire, &t->b);
	// More than the sockets hold.
	void *big = post_send(t, &(struct side){ .ep = t->b.ep, .peer = dial.peer }, new_buf(t, 64 << 20, 1));
	// A message that is never completed.
	wire_write(t, dial.wire.fd, bytes, frame_bytes(bytes, h, false, NULL));
	turn(t);
	CHECK(!shutdown(dial.wire.fd, SHUT_WR));
	failed_somehow(t, t->b.txcq, big);
}

TEST(wire_tcp, huge_length, EP_RDM | OURS_ONLY, FI_TAGGED, "A header that announces more bytes than there is memory costs what has come, and ends at most its connection")
{
	struct wire_header h = { .op = TAGGED, .tag = 1ull << 60, .payload = 1ull << 40 };
	struct rlimit limit;
	uint8_t bytes[256];

	if (is_checked())
		SKIP("the memory of the process is the checker's, too");

	limit_to("4611686018427387904");
	struct wire wire = open_wire(t);
	CHECK(!getrlimit(RLIMIT_AS, &limit));
	limit.rlim_cur = virtual_size() + (64 << 20);
	CHECK(!setrlimit(RLIMIT_AS, &limit));
	wire_write(t, wire.fd, bytes, frame_bytes(bytes, h, false, NULL));
	turn(t);
	round_trip(t);
	// The rest of the message follows.
	static uint8_t zero[65536];
	size_t sent = 0;
	for (uint64_t until = now_ms() + t->limit_ms; sent < (256u << 20) && now_ms() < until; progress(t)) {
		ssize_t rc = send(wire.fd, zero, sizeof(zero), MSG_DONTWAIT | MSG_NOSIGNAL);

		if (rc < 0 && errno != EAGAIN)
			break;
		sent += rc > 0 ? (size_t)rc : 0;
	}
	CHECK(sent < (256u << 20));
	limit.rlim_cur = limit.rlim_max;
	CHECK(!setrlimit(RLIMIT_AS, &limit));
	round_trip(t);
}

TEST(wire_tcp, same_index_twice, EP_RDM | OURS_ONLY, FI_TAGGED, "Two ready-to-sends with one index end the connection")
{
	struct wire wire = open_wire(t);

	for (unsigned i = 0; i < 2; i++)
		send_frame(t, &wire, (struct wire_header){ .op = RTS, .op_data = 9, .tag = 77 + i, .msg_size = 100 }, NULL);
	wire_ends(t, wire.fd);
	round_trip(t);
}

TEST(wire_tcp, index_again, EP_RDM | OURS_ONLY, FI_TAGGED, "An index is free again when its data has come")
{
	struct wire wire = open_wire(t);
	struct buf in = new_buf(t, 100, 0);

	for (unsigned i = 0; i < 3; i++) {
		send_frame(t, &wire, (struct wire_header){ .op = RTS, .op_data = 9, .tag = 77, .msg_size = 100 }, NULL);
		turn(t);
		void *ctx = post_trecv(t, &t->b, in, 77, 0);
		expect_frame(t, &wire, (struct wire_header){ .op = CTS, .op_data = 9 });
		send_frame(t, &wire, (struct wire_header){ .op = DATA_OP, .op_data = 9, .payload = 100 }, in.mem);
		done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV);
	}
}

// ---- Answers that are not read

static struct wire open_target(struct env *t, struct region *region, size_t len)
{
	only_tcp(t);
	PAIR(t);
	*region = new_region(t, &t->b, new_buf(t, len, 1), FI_REMOTE_READ | FI_REMOTE_WRITE);
	round_trip(t);
	struct wire wire = rdm_open_as(t, &t->b, PORT, false, EXTENDED);

	still_open(t, &wire, &t->b);
	return wire;
}

// Sends requests until the peer reads no more, which must cost little memory; then reads the answers.
static void ask_without_end(struct env *t, struct wire *wire, struct wire_header h, size_t answer)
{
	enum { LIMIT = 4000000, COST = 8 << 20, ENOUGH = 100 << 20 };
	static uint8_t bytes[BATCH * 128], one[8], sink[65536];
	size_t before = resident(), after, len = 0, taken = 0, at = 0, total = 0;
	unsigned sent = 0;

	for (unsigned i = 0; i < BATCH; i++)
		len += frame_bytes(bytes + len, h, false, one);
	for (unsigned vain = 0; vain < 500; vain++) {
		ssize_t rc = send(wire->fd, bytes + at, len - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		CHECK(rc >= 0 || errno == EAGAIN);
		progress(t);
		if (rc <= 0)
			continue;
		total += (size_t)rc, vain = 0;
		at = (at + (size_t)rc) % len;
		CHECK(total < (size_t)LIMIT * (len / BATCH));
	}
	after = resident();
	if (!is_checked() && after > before + COST)
		FAIL("%zu KiB for answers", (after - before) >> 10);
	round_trip(t);
	sent = (unsigned)(total / (len / BATCH));
	for (uint64_t limit = now_ms() + 2 * t->limit_ms; taken < (HEADER + answer) * sent && taken < ENOUGH;) {
		ssize_t rc = recv(wire->fd, sink, sizeof(sink), MSG_DONTWAIT);

		if (rc > 0)
			taken += (size_t)rc;
		CHECK(rc > 0 || (rc < 0 && errno == EAGAIN));
		progress(t);
		if (now_ms() > limit)
			FAIL("%zu bytes of %u answers", taken, sent);
	}
}

TEST(wire_tcp, answers_to_fetches, EP_RDM | OURS_ONLY, FI_MSG | FI_ATOMIC, "A peer that fetches and takes no results is not read any more when a few are queued, and goes on when it takes them")
{
	enum { LEN = 16384 };
	struct region region;
	struct wire wire = open_target(t, &region, LEN);
	struct wire_header h = {
		.op = ATOMIC_FETCH, .op_data = FI_ATOMIC_READ, .datatype = FI_UINT64, .seg_count = 1, .segs = { { region.at, LEN, region.key } },
	};

	ask_without_end(t, &wire, h, LEN);
}

TEST(wire_tcp, answers_to_reads, EP_RDM | OURS_ONLY, FI_MSG | FI_RMA, "So it is with a peer that reads")
{
	enum { LEN = 9000 };
	struct region region;
	struct wire wire = open_target(t, &region, LEN);
	struct wire_header h = { .op = READ_REQ, .seg_count = 1, .segs = { { region.at, LEN, region.key } } };

	ask_without_end(t, &wire, h, LEN);
}

TEST(wire_tcp, answers_to_writes, EP_RDM | OURS_ONLY, FI_MSG | FI_RMA, "So it is with acknowledgements")
{
	struct region region;
	struct wire wire = open_target(t, &region, 8);
	struct wire_header h = { .op = WRITE, .flags = WANTS_ACK, .payload = 8, .seg_count = 1, .segs = { { region.at, 8, region.key } } };

	ask_without_end(t, &wire, h, 0);
}

TEST(wire_tcp, answer_from_unmapped, EP_RDM | OURS_ONLY, FI_MSG | FI_RMA, "A read of memory that is gone ends the connection")
{
	enum { LEN = 1 << 20 };
	struct region region;
	struct wire wire;
	struct wire_header h;
	uint8_t *mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), bytes[65536];
	ssize_t rc = -1;

	CHECK(mem != MAP_FAILED);
	if (is_checked())
		SKIP("the library gives the kernel memory that is gone, and a checker says so");
	only_tcp(t);
	PAIR(t);
	region = new_region(t, &t->b, (struct buf){ .mem = mem, .len = LEN }, FI_REMOTE_READ);
	round_trip(t);
	wire = rdm_open(t, &t->b, PORT, false);
	h = (struct wire_header){ .op = READ_REQ, .seg_count = 1, .segs = { { region.at, LEN, region.key } } };
	CHECK(!munmap(mem, LEN));
	wire_write(t, wire.fd, bytes, frame_bytes(bytes, h, false, NULL));
	ONCE(t, (rc = recv(wire.fd, bytes, sizeof(bytes), MSG_DONTWAIT)) == 0 || (rc < 0 && errno != EAGAIN));
	round_trip(t);
}

// Each end sends as many requests as it can before either polls.
static void ask_each_other(struct env *t, bool atomic, size_t len, unsigned count)
{
	t->hints->tx_attr->size = 2048;
	if (env_try_info(t)) {
		t->hints->tx_attr->size = 0;
		env_info(t);
	}
	PAIR(t);
	struct side *sides[2] = { &t->a, &t->b };
	unsigned posted[2] = { 0 }, done[2] = { 0 };
	struct region region[2];
	struct buf in[2];

	for (unsigned i = 0; i < 2; i++) {
		region[i] = new_region(t, sides[i], new_buf(t, len, 1 + i), FI_REMOTE_READ | FI_REMOTE_WRITE);
		in[i] = new_buf(t, len, 0);
	}
	round_trip(t);
	for (uint64_t limit = now_ms() + 3 * t->limit_ms; done[0] + done[1] < 2 * count;) {
		for (unsigned i = 0; i < 2; i++) {
			struct region *there = &region[!i];
			struct fi_cq_tagged_entry comp;

			while (posted[i] < count) {
				ssize_t rc = atomic ? fi_fetch_atomic(sides[i]->ep, NULL, len / 8, NULL, in[i].mem, in[i].desc, sides[i]->peer, there->at, there->key, FI_UINT64, FI_ATOMIC_READ, new_ctx()) :
						      fi_read(sides[i]->ep, in[i].mem, len, in[i].desc, sides[i]->peer, there->at, there->key, new_ctx());

				if (rc == -FI_EAGAIN)
					break;
				CHECK_RC(rc, 0);
				posted[i]++;
			}
			while (fi_cq_read(sides[i]->txcq, &comp, 1) == 1)
				done[i]++;
		}
		if (now_ms() > limit)
			FAIL("posted %u %u, done %u %u of %u", posted[0], posted[1], done[0], done[1], count);
	}
	for (unsigned i = 0; i < 2; i++)
		CHECK(holds(in[i], len, 2 - i));
}

TEST(fi_rma, both_read_all_they_can, EP_RELIABLE, FI_MSG | FI_RMA, "Two that read from each other with all that they may post do not wait for each other")
{
	ask_each_other(t, false, 4096, 4000);
}

TEST(fi_rma, both_read_large, EP_RELIABLE, FI_MSG | FI_RMA, "The same with longer reads")
{
	ask_each_other(t, false, 100000, 4000);
}

TEST(fi_atomic, both_fetch_all_they_can, EP_RELIABLE, FI_MSG | FI_ATOMIC, "Two that fetch from each other with all that they may post do not wait for each other")
{
	// A layered provider needs room for its own header in the packet.
	ask_each_other(t, true, is_layered(t) ? 8000 : 8192, 4000);
}
