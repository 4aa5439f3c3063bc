// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! docs/wire/tcp.md: incomplete unexpected messages, and the room that they use.
#include "wire.h"

#include <errno.h>
#include <sys/socket.h>

enum { PORT = 7, LIMIT = 1 << 21, LEN = 1000000, FULL_LEN = 1500000, BEHIND_LEN = 64 };
enum { TAG_STOPPED = 1, TAG_BEHIND, TAG_FULL, TAG_OF_A, TAG_BEHIND_A };

static void open_pair(struct env *t, const char *limit)
{
	CHECK(!setenv("FI_TCP_MAX_SAVED_BYTES", limit, 1));
	only_tcp(t);
	PAIR(t);
	round_trip(t);
}

static void send_tagged(struct env *t, struct wire *wire, uint64_t tag, struct buf payload)
{
	struct wire_header h = { .op = TAGGED, .tag = tag, .payload = payload.len };
	uint8_t *frame = keep_mem(64 + payload.len);

	wire_write(t, wire->fd, frame, frame_bytes(frame, h, false, payload.mem));
}

static void announce(struct env *t, struct wire *wire, size_t len)
{
	struct wire_header h = { .op = TAGGED, .tag = 1ull << 60, .payload = len };
	uint8_t header[64];

	wire_write(t, wire->fd, header, frame_bytes(header, h, false, NULL));
}

TEST(wire_tcp, announced_messages_use_no_room, EP_RDM | OURS_ONLY, FI_TAGGED, "Peers that announce large messages and send nothing of them leave others room for unexpected ones")
{
	enum { COUNT = 12, HONEST_LEN = 1 << 20 };
	size_t left = 64 << 20;

	open_pair(t, "67108864");
	// Each announces half of the room that the others have left.
	for (unsigned i = 0; i < COUNT; i++) {
		struct wire wire = rdm_open(t, &t->b, PORT + i, false);

		left /= 2;
		announce(t, &wire, left);
	}
	turn(t);
	struct wire honest = rdm_open(t, &t->b, PORT + COUNT, false);
	struct buf in = new_buf(t, HONEST_LEN, 0), out = new_buf(t, HONEST_LEN, 1), behind = new_buf(t, BEHIND_LEN, 0);
	void *ctx = post_trecv(t, &t->b, behind, TAG_BEHIND, 0);

	// No receive takes the first message. A receive waits for the second one after it.
	send_tagged(t, &honest, TAG_STOPPED, out);
	send_tagged(t, &honest, TAG_BEHIND, part(out, 0, BEHIND_LEN));
	done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV);
	CHECK(holds(behind, BEHIND_LEN, 1));
	done(t, t->b.rxcq, post_trecv(t, &t->b, in, TAG_STOPPED, 0), FI_TAGGED | FI_RECV);
	CHECK(holds(in, HONEST_LEN, 1));
	// The same from another endpoint of the library, over any transport that it chooses.
	in = new_buf(t, HONEST_LEN, 0), behind = new_buf(t, BEHIND_LEN, 0);
	ctx = post_trecv(t, &t->b, behind, TAG_BEHIND_A, 0);
	post_tsend(t, &t->a, out, TAG_OF_A);
	post_tsend(t, &t->a, part(out, 0, BEHIND_LEN), TAG_BEHIND_A);
	done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV);
	CHECK(holds(behind, BEHIND_LEN, 1));
	wait_comp(t, t->a.txcq, NULL);
	wait_comp(t, t->a.txcq, NULL);
	done(t, t->b.rxcq, post_trecv(t, &t->b, in, TAG_OF_A, 0), FI_TAGGED | FI_RECV);
	CHECK(holds(in, HONEST_LEN, 1));
}

// A message that has stopped in its payload because another one uses the room, and a receive for the message after it.
struct stopped {
	struct wire wire, full;
	struct buf out, behind;
	void *behind_ctx;
	uint8_t *frames; // bytes that the peer could not send yet
	size_t at, len;
};

// Sends as much as the library reads.
static void push(struct env *t, struct stopped *s)
{
	for (unsigned vain = 0; s->at < s->len && vain < 100;) {
		ssize_t rc = send(s->wire.fd, s->frames + s->at, s->len - s->at, MSG_DONTWAIT | MSG_NOSIGNAL);

		CHECK(rc >= 0 || errno == EAGAIN);
		vain = rc > 0 ? 0 : vain + 1;
		s->at += rc > 0 ? (size_t)rc : 0;
		progress(t);
	}
}

static struct stopped stop(struct env *t)
{
	enum { FIRST = 100000 };
	struct stopped s;
	struct buf full;

	open_pair(t, "2097152");
	s.wire = rdm_open(t, &t->b, PORT, false);
	s.full = rdm_open(t, &t->b, PORT + 1, false);
	s.out = new_buf(t, LEN, 1), s.behind = new_buf(t, BEHIND_LEN, 0), full = new_buf(t, FULL_LEN, 2);
	s.frames = keep_mem(LEN + BEHIND_LEN + 128);
	s.len = frame_bytes(s.frames, (struct wire_header){ .op = TAGGED, .tag = TAG_STOPPED, .payload = LEN }, false, s.out.mem);
	s.len += frame_bytes(s.frames + s.len, (struct wire_header){ .op = TAGGED, .tag = TAG_BEHIND, .payload = BEHIND_LEN }, false, s.out.mem);
	s.behind_ctx = post_trecv(t, &t->b, s.behind, TAG_BEHIND, 0);
	wire_write(t, s.wire.fd, s.frames, FIRST);
	s.at = FIRST;
	turn(t);
	send_tagged(t, &s.full, TAG_FULL, full);
	turn(t);
	push(t, &s);
	turn(t);
	nothing(t->b.rxcq);
	return s;
}

// Both messages arrive after all.
static void goes_on(struct env *t, struct stopped *s, void *ctx, struct buf in)
{
	for (uint64_t limit = now_ms() + t->limit_ms; s->at < s->len && now_ms() < limit;)
		push(t, s);
	CHECK_EQ(s->at, s->len);
	if (ctx) {
		done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV);
		CHECK(holds(in, LEN, 1));
	}
	done(t, t->b.rxcq, s->behind_ctx, FI_TAGGED | FI_RECV);
	CHECK(holds(s->behind, BEHIND_LEN, 1));
	round_trip(t);
}

TEST(wire_tcp, stopped_message_is_received, EP_RDM | OURS_ONLY, FI_TAGGED, "A message that has stopped in its payload for want of room goes on when a receive takes it")
{
	struct stopped s = stop(t);
	struct buf in = new_buf(t, LEN, 0);

	goes_on(t, &s, post_trecv(t, &t->b, in, TAG_STOPPED, 0), in);
}

TEST(wire_tcp, stopped_message_finds_room, EP_RDM | OURS_ONLY, FI_TAGGED, "A message that has stopped in its payload goes on when another one leaves room, and is received later")
{
	struct stopped s = stop(t);
	struct buf in = new_buf(t, LEN, 0), full = new_buf(t, FULL_LEN, 0);

	done(t, t->b.rxcq, post_trecv(t, &t->b, full, TAG_FULL, 0), FI_TAGGED | FI_RECV);
	CHECK(holds(full, FULL_LEN, 2));
	goes_on(t, &s, NULL, in);
	done(t, t->b.rxcq, post_trecv(t, &t->b, in, TAG_STOPPED, 0), FI_TAGGED | FI_RECV);
	CHECK(holds(in, LEN, 1));
}

static void *claim(struct env *t, struct buf in, uint64_t flags, void *ctx)
{
	struct iovec iov = { .iov_base = in.mem, .iov_len = in.len };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .desc = &in.desc, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = TAG_STOPPED, .context = ctx,
	};

	OK(fi_trecvmsg(t->b.ep, &msg, flags | FI_COMPLETION));
	return ctx;
}

TEST(wire_tcp, stopped_message_is_claimed, EP_RDM | OURS_ONLY, FI_TAGGED, "A message that has stopped in its payload can be claimed; it goes on when its receive comes")
{
	struct stopped s = stop(t);
	struct buf in = new_buf(t, LEN, 0);
	void *ctx = new_ctx();

	claim(t, in, FI_PEEK | FI_CLAIM, ctx);
	wait_comp(t, t->b.rxcq, NULL);
	goes_on(t, &s, claim(t, in, FI_CLAIM, ctx), in);
}

TEST(wire_tcp, stopped_message_is_discarded, EP_RDM | OURS_ONLY, FI_TAGGED, "A message that has stopped in its payload can be discarded; what is behind it comes")
{
	struct stopped s = stop(t);

	claim(t, new_buf(t, LEN, 0), FI_PEEK | FI_DISCARD, new_ctx());
	wait_comp(t, t->b.rxcq, NULL);
	goes_on(t, &s, NULL, s.out);
}

TEST(wire_tcp, stopped_peer_ends, EP_RDM | OURS_ONLY, FI_TAGGED, "A message that has stopped in its payload and whose peer ends is gone; its room is free")
{
	struct stopped s = stop(t);
	struct buf in = new_buf(t, LEN, 0);

	wire_reset(s.wire.fd);
	turn(t);
	void *ctx = post_trecv(t, &t->b, in, TAG_STOPPED, 0);
	turn(t);
	struct wire next = rdm_open(t, &t->b, PORT + 2, false);
	send_tagged(t, &next, TAG_STOPPED, s.out);
	done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV);
	CHECK(holds(in, LEN, 1));
	send_tagged(t, &next, TAG_BEHIND, part(s.out, 0, BEHIND_LEN));
	done(t, t->b.rxcq, s.behind_ctx, FI_TAGGED | FI_RECV);
	round_trip(t);
}
