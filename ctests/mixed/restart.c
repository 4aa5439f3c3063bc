// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The client dies, idle or in the middle of a message, and a new process takes its port. The server's operations in
//! flight must end in error, each once and in time. Then the two exchange messages.
#include "side.h"

#include <signal.h>
#include <unistd.h>

enum { LEN = 3000, BIG = 64 << 20, REGION = 1 << 20, KEY = 0x55, OPS = 8 };
enum { STREAM_LIVE = 200 }; // messages each way before the client dies

// The activity of the two sides when the client dies.
enum phase { UNNOTICED, NOTICED, CLOSED, INTO_THE_VOID, HALF_RECEIVED, HALF_SENT, STREAMING, PHASES };

static const char *const phases[] = {
	"idle, the server does not look", "idle, the server looks", "closes", "the server sends before the next life",
	"receives a large message", "sends a large message", "sends and receives many messages",
};

// ---- The client: follows the server's commands, and dies

static void obey_recv(struct link *link, size_t len, uint64_t seed)
{
	struct buf in = new_buf(len);
	struct op recv;

	post_recv(link, in.mem, len, seed, &recv);
	say("posted");
	wait_op(link, &recv);
	verify_buf(in, len, seed);
	say("received");
	free_buf(in);
}

static void obey_send(struct link *link, size_t len, uint64_t seed)
{
	struct buf out = new_buf(len);
	struct op send;

	fill(out.mem, len, seed);
	post_send(link, out.mem, len, seed, &send);
	wait_op(link, &send);
	say("sent");
	free_buf(out);
}

// The process stops, so that the message stays incomplete until the process is killed.
static _Noreturn void stay_half(struct op *op)
{
	CHECK(!op->done);
	say("half");
	raise(SIGSTOP);
	FAIL("not killed");
}

// Waits for the first byte of a poisoned buffer. A library with a progress thread may write it without a call.
static void wait_begun(struct link *link, struct buf buf)
{
	uint8_t poison = buf.mem[buf.len]; // of the guard

	while (*(volatile uint8_t *) buf.mem == poison)
		progress(link);
}

static _Noreturn void obey_half(struct link *link, bool recv)
{
	struct buf buf = new_buf(BIG);
	struct op op;

	if (recv) {
		post_recv(link, buf.mem, BIG, 1, &op);
		say("posted");
		wait_begun(link, buf);
	} else {
		fill(buf.mem, BIG, 2);
		post_send(link, buf.mem, BIG, 2, &op);
	}
	stay_half(&op);
}

static _Noreturn void obey_stream(struct link *link)
{
	static struct stream stream;

	stream_start(link, &stream);
	while (stream_on(link, &stream))
		;
	FAIL("the stream ended");
}

static void client(void)
{
	struct link link = { 0 };
	struct fid_mr *mr;
	struct buf region = new_buf(REGION);
	size_t len;
	uint64_t seed;

	doing("life %u, starting", options.life);
	open_domain(&link);
	OK(fi_mr_reg(link.domain, region.mem, REGION, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL));
	if (!options.msg) {
		open_rdm(&link);
		say_bytes(link.name, link.name_len);
		link.peer_name_len = hear_bytes(&link, link.peer_name, sizeof(link.peer_name));
		insert_peer(&link);
	} else if (options.client_first) {
		link.peer_name_len = hear_bytes(NULL, link.peer_name, sizeof(link.peer_name));
		connect_msg(&link);
	} else {
		listen_msg(&link);
		say_bytes(link.name, link.name_len);
		accept_msg(&link);
	}
	for (;;) {
		const char *order = hear(&link);

		doing("life %u, told to %s", options.life, order);
		if (sscanf(order, "recv %zu %lu", &len, &seed) == 2)
			obey_recv(&link, len, seed);
		else if (sscanf(order, "send %zu %lu", &len, &seed) == 2)
			obey_send(&link, len, seed);
		else if (!strcmp(order, "receive half") || !strcmp(order, "send half"))
			obey_half(&link, order[0] == 'r');
		else if (!strcmp(order, "stream"))
			obey_stream(&link);
		else
			break;
	}
	nothing_more(&link);
	if (options.msg)
		close_msg(&link);
	else
		close_rdm(&link);
	say("closed");
}

// ---- The server: its operations in flight when the client dies

struct work {
	struct op ops[OPS];
	unsigned count;
	struct op waiting; // a receive for any peer: it outlives the client, unless a connection has it
	struct buf big, small, in, kept;
};

static struct op *next_op(struct work *work)
{
	struct op *op = &work->ops[work->count++];

	CHECK(work->count <= OPS);
	*op = (struct op){ 0 };
	return op;
}

static void post_waiting(struct link *link, struct work *work, uint64_t tag)
{
	poison(work->kept);
	post_recv(link, work->kept.mem, LEN, tag, &work->waiting);
}

static void start_large_send(struct link *link, struct work *work)
{
	uint8_t *small = work->small.mem;
	struct iovec iov = { small, LEN };
	struct fi_rma_iov remote = { 0, LEN, KEY };
	struct fi_msg_rma write = {
		.msg_iov = &iov, .iov_count = 1, .addr = link->peer, .rma_iov = &remote, .rma_iov_count = 1,
	};

	fill(work->big.mem, BIG, 1);
	say("receive half");
	expect(link, "posted");
	post_send(link, work->big.mem, BIG, 1, next_op(work));
	post_send(link, small, LEN, 4, next_op(work));
	write.context = next_op(work);
	POST(link, fi_writemsg(link->ep, &write, FI_DELIVERY_COMPLETE));
	POST(link, fi_read(link->ep, work->in.mem, LEN, NULL, link->peer, 0, KEY, next_op(work)));
	post_send(link, small, LEN, 5, next_op(work));
	expect(link, "half");
}

static void start_large_recv(struct link *link, struct work *work)
{
	poison(work->big);
	post_recv(link, work->big.mem, BIG, 2, next_op(work));
	say("send half");
	expect(link, "half");
	wait_begun(link, work->big);
}

static void in_time(uint64_t since)
{
	uint64_t took = (now_us() - since) / 1000;

	if (took > options.limit_ms)
		FAIL("the last error came after %llu ms", (unsigned long long) took);
}

static void into_the_void(struct link *link, struct work *work)
{
	if (options.msg)
		return;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t since = now_us();
		struct op op;

		post_send(link, work->small.mem, LEN, 6, &op);
		wait_end(link, &op);
		CHECK(op.err > 0);
		in_time(since);
	}
}

static void all_end_in_error(struct link *link, struct work *work, uint64_t since)
{
	struct fi_eq_cm_entry entry;

	for (unsigned i = 0; i < work->count; i++) {
		wait_end(link, &work->ops[i]);
		if (!work->ops[i].err)
			FAIL("operation %u of %u succeeded", i, work->count);
	}
	if (options.msg) {
		wait_event(link, FI_SHUTDOWN, &entry, NULL);
		CHECK(entry.fid == &link->ep->fid);
		wait_end(link, &work->waiting);
		CHECK(work->waiting.err > 0);
	}
	nothing_more(link);
	in_time(since);
	if (!options.msg)
		CHECK(!work->waiting.done);
}

static void die_streaming(struct link *link, struct work *work, uint64_t tag)
{
	static struct stream stream;
	struct fi_eq_cm_entry entry;
	uint64_t since;

	say("stream");
	stream_start(link, &stream);
	while (stream.received < STREAM_LIVE || stream.sent < STREAM_LIVE)
		CHECK(stream_on(link, &stream));
	ask("kill");
	since = now_us();
	while (stream_on(link, &stream))
		;
	stream_end(link, &stream);
	in_time(since);
	expect(link, "killed");
	nothing_more(link);
	if (options.msg)
		wait_event(link, FI_SHUTDOWN, &entry, NULL);
	else
		post_waiting(link, work, tag);
}

static void die(struct link *link, struct work *work, enum phase phase, uint64_t tag)
{
	uint64_t since;

	if (phase == STREAMING) {
		die_streaming(link, work, tag);
		return;
	}
	work->count = 0;
	if (phase == HALF_RECEIVED)
		start_large_send(link, work);
	else if (phase == HALF_SENT)
		start_large_recv(link, work);
	post_waiting(link, work, tag);
	if (phase == CLOSED) {
		say("close");
		expect(link, "closed");
	}
	ask("kill");
	expect(phase == UNNOTICED ? NULL : link, "killed");
	since = now_us();
	// A connection reports its end; without one only operations can.
	if (phase != UNNOTICED || options.msg)
		all_end_in_error(link, work, since);
	if (phase == INTO_THE_VOID)
		into_the_void(link, work);
}

// ---- The server: the next client process

static void meet_client(struct link *link)
{
	uint8_t name[sizeof(link->peer_name)];
	size_t len;

	if (options.msg && options.client_first) {
		say_bytes(link->name, link->name_len);
		accept_msg(link);
		return;
	}
	len = hear_bytes(link, name, sizeof(name));
	if (link->peer_name_len) { // the same address again
		CHECK_EQ(len, link->peer_name_len);
		CHECK(!memcmp(name, link->peer_name, len));
	} else {
		memcpy(link->peer_name, name, len);
		link->peer_name_len = len;
		if (!options.msg)
			insert_peer(link);
	}
	if (options.msg)
		connect_msg(link);
	else
		say_bytes(link->name, link->name_len);
}

// A send on the old connection ends in error; the next one, or the one after it, arrives.
static void send_until_there(struct link *link, struct work *work, uint64_t seed)
{
	fill(work->small.mem, LEN, seed);
	say("recv %d %lu", LEN, seed);
	expect(link, "posted");
	for (unsigned tries = 0;; tries++) {
		struct op op;

		post_send(link, work->small.mem, LEN, seed, &op);
		wait_end(link, &op);
		if (!op.err)
			break;
		if (tries == 2 || options.msg)
			FAIL("a send to the new process failed: %s", fi_strerror(op.err));
	}
	expect(link, "received");
}

// The receive that was posted before takes the first message of the new client.
static void recv_in_this_life(struct link *link, struct work *work, uint64_t seed)
{
	say("send %d %lu", LEN, seed);
	wait_op(link, &work->waiting);
	CHECK_EQ(work->waiting.entry.len, LEN);
	verify_buf(work->kept, LEN, seed);
	expect(link, "sent");
}

static void server(void)
{
	struct link link = { 0 };
	struct work work = { .big = new_buf(BIG), .small = new_buf(LEN), .in = new_buf(LEN), .kept = new_buf(LEN) };
	unsigned port = 0;

	open_domain(&link);
	if (!options.msg) {
		open_rdm(&link);
		post_waiting(&link, &work, 1000);
	} else if (options.client_first) {
		listen_msg(&link);
	}
	for (unsigned life = 0;; life++) {
		enum phase phase = life % PHASES;
		uint64_t seed = 1000 + life * 10;

		doing("life %u, meeting", life);
		meet_client(&link);
		if (options.msg)
			post_waiting(&link, &work, seed);
		doing("life %u, talking", life);
		if (!options.client_first)
			send_until_there(&link, &work, seed + 1);
		recv_in_this_life(&link, &work, seed);
		send_until_there(&link, &work, seed + 2);
		if (life == options.rounds)
			break;
		doing("life %u, the client %s", life, phases[phase]);
		die(&link, &work, phase, seed + 10);
		if (options.msg)
			close_msg(&link);
		if (!options.msg || !options.client_first)
			port = (unsigned) (link.peer_name[2] << 8 | link.peer_name[3]);
		ask("start %u", port);
	}
	say("end");
	expect(&link, "closed");
}

void case_restart(void)
{
	if (options.server)
		server();
	else
		client();
}
