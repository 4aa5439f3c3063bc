// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages: back and forth, late receives, many at once, with data, injected, into multi-receive buffers.
#include "side.h"

// The seed of a message's bytes on both sides.
static uint64_t seed_of(size_t len, unsigned round, bool from_server)
{
	return len * 1000003 + round * 2 + from_server;
}

// Checks the flags of a completion. Upstream's udp does not set FI_MSG.
static void verify_flags(struct op *op, uint64_t way)
{
	uint64_t kind = options.tagged ? FI_TAGGED : options.dgram ? op->entry.flags & FI_MSG : FI_MSG;

	CHECK_EQ(op->entry.flags & (FI_SEND | FI_RECV | FI_MSG | FI_TAGGED), way | kind);
}

static void verify_recv(struct op *op, struct buf buf, size_t len, uint64_t seed, uint64_t tag)
{
	CHECK_EQ(op->entry.len, len);
	verify_flags(op, FI_RECV);
	if (options.tagged)
		CHECK_EQ(op->entry.tag, tag);
	verify_buf(buf, len, seed);
}

static void verify_send(struct link *link, struct op *op)
{
	wait_op(link, op);
	verify_flags(op, FI_SEND);
}

// ---- Back and forth

void case_pingpong(void)
{
	struct link link = { 0 };

	open_link(&link);
	for (unsigned s = 0; s < options.size_count; s++) {
		size_t len = options.sizes[s];
		struct buf out = new_buf(len), in = new_buf(len);

		for (unsigned round = 0; round < options.rounds; round++) {
			struct op send, recv;
			uint64_t tag = 0x1000 + round;

			doing("%zu bytes, round %u", len, round);
			poison(in);
			fill(out.mem, len, seed_of(len, round, options.server));
			post_recv(&link, in.mem, len, tag, &recv);
			if (options.server)
				wait_op(&link, &recv);
			post_send(&link, out.mem, len, tag, &send);
			verify_send(&link, &send);
			wait_op(&link, &recv);
			verify_recv(&recv, in, len, seed_of(len, round, !options.server), tag);
		}
		free_buf(out);
		free_buf(in);
	}
	close_link(&link);
}

// ---- Messages without a receive. At most 64 of a peer are kept by default; upstream then stops for ever.

enum { LATE = 8, SURELY_BUFFERED = 4096 };

static void late_send(struct link *link, size_t len)
{
	struct buf out[LATE];
	struct op sends[LATE];

	for (unsigned i = 0; i < LATE; i++) {
		out[i] = new_buf(len);
		fill(out[i].mem, len, seed_of(len, i, options.server));
		post_send(link, out[i].mem, len, i, &sends[i]);
	}
	// A large message may need the receive before it completes, and so may one with delivery completion: an upstream
	// receiver keeps no untagged message and stops reading the connection (hazard 10).
	if (len <= SURELY_BUFFERED && !options.delivery)
		for (unsigned i = 0; i < LATE; i++)
			wait_op(link, &sends[i]);
	say("sent");
	for (unsigned i = 0; i < LATE; i++) {
		verify_send(link, &sends[i]);
		free_buf(out[i]);
	}
}

static void late_recv(struct link *link, size_t len)
{
	struct buf in[LATE];
	struct op recvs[LATE];

	expect(link, "sent");
	nothing_more(link);
	// Tagged receives in another order than the messages.
	for (unsigned i = 0; i < LATE; i++) {
		unsigned which = options.tagged ? (i * 5 + 3) % LATE : i;

		in[which] = new_buf(len);
		post_recv(link, in[which].mem, len, which, &recvs[which]);
	}
	for (unsigned i = 0; i < LATE; i++) {
		wait_op(link, &recvs[i]);
		verify_recv(&recvs[i], in[i], len, seed_of(len, i, !options.server), i);
		free_buf(in[i]);
	}
}

void case_late(void)
{
	struct link link = { 0 };

	open_link(&link);
	for (unsigned s = 0; s < options.size_count; s++)
		for (unsigned turn = 0; turn < 2; turn++) {
			doing("%zu bytes, the %s sends", options.sizes[s], turn ? "server" : "client");
			if (turn == options.server)
				late_send(&link, options.sizes[s]);
			else
				late_recv(&link, options.sizes[s]);
			meet(&link, "received");
		}
	close_link(&link);
}

// ---- A window of messages, answered by one byte

enum { WINDOW = 64, WINDOW_BYTES = 8 << 20 };

static unsigned window_of(size_t len)
{
	size_t fit = len ? WINDOW_BYTES / len : WINDOW;

	return fit > WINDOW ? WINDOW : fit < 2 ? 2 : (unsigned) fit;
}

void case_window(void)
{
	struct link link = { 0 };
	static struct op ops[WINDOW];
	struct buf bufs[WINDOW];

	open_link(&link);
	for (unsigned s = 0; s < options.size_count; s++) {
		size_t len = options.sizes[s];
		unsigned window = window_of(len);

		for (unsigned i = 0; i < window; i++)
			bufs[i] = new_buf(len);
		for (unsigned round = 0; round < options.rounds; round++) {
			struct op answer;
			uint8_t byte = (uint8_t) round;

			doing("%zu bytes, window %u", len, round);
			if (!options.server)
				post_recv(&link, &byte, 1, WINDOW, &answer);
			for (unsigned i = 0; i < window; i++) {
				if (options.server) {
					poison(bufs[i]);
					post_recv(&link, bufs[i].mem, len, i, &ops[i]);
				} else {
					fill(bufs[i].mem, len, seed_of(len, round * WINDOW + i, false));
					post_send(&link, bufs[i].mem, len, i, &ops[i]);
				}
			}
			for (unsigned i = 0; i < window; i++) {
				if (options.server) {
					wait_op(&link, &ops[i]);
					verify_recv(&ops[i], bufs[i], len, seed_of(len, round * WINDOW + i, false), i);
				} else {
					verify_send(&link, &ops[i]);
				}
			}
			if (options.server)
				post_send(&link, &byte, 1, WINDOW, &answer);
			wait_op(&link, &answer);
			CHECK_EQ(byte, (uint8_t) round);
		}
		for (unsigned i = 0; i < window; i++)
			free_buf(bufs[i]);
	}
	close_link(&link);
}

// ---- Remote CQ data

static void send_data(struct link *link, const void *mem, size_t len, uint64_t data, bool inject)
{
	struct op op = { 0 };

	if (inject && options.tagged)
		POST(link, fi_tinjectdata(link->ep, mem, len, data, link->peer, 7));
	else if (inject)
		POST(link, fi_injectdata(link->ep, mem, len, data, link->peer));
	else if (options.tagged)
		POST(link, fi_tsenddata(link->ep, mem, len, NULL, data, link->peer, 7, &op));
	else
		POST(link, fi_senddata(link->ep, mem, len, NULL, data, link->peer, &op));
	if (!inject)
		verify_send(link, &op);
}

void case_data(void)
{
	struct link link = { 0 };

	open_link(&link);
	CHECK_EQ(link.info->domain_attr->cq_data_size, 8);
	for (unsigned s = 0; s < options.size_count; s++)
		for (unsigned turn = 0; turn < 4; turn++) {
			size_t len = options.sizes[s];
			struct buf buf = new_buf(len);
			uint64_t data = 0x8877665544332211 ^ len << turn;
			bool inject = turn / 2;
			struct op recv;

			if (inject && len > link.info->tx_attr->inject_size)
				continue;
			doing("%zu bytes, turn %u", len, turn);
			if (turn % 2 == options.server) {
				expect(&link, "posted"); // an injected send has no other sign of completion
				fill(buf.mem, len, turn);
				send_data(&link, buf.mem, len, data, inject);
				expect(&link, "received");
			} else {
				post_recv(&link, buf.mem, len, 7, &recv);
				say("posted");
				wait_op(&link, &recv);
				verify_recv(&recv, buf, len, turn, 7);
				CHECK(recv.entry.flags & FI_REMOTE_CQ_DATA);
				CHECK_EQ(recv.entry.data, data);
				say("received");
			}
			free_buf(buf);
		}
	close_link(&link);
}

// ---- Inject: the caller may reuse the buffer at once

void case_inject(void)
{
	struct link link = { 0 };

	open_link(&link);
	for (unsigned s = 0; s < options.size_count; s++)
		for (unsigned round = 0; round < 2 * options.rounds; round++) {
			size_t len = options.sizes[s];
			struct buf buf = new_buf(len);
			uint64_t seed = seed_of(len, round, round % 2);
			struct op recv;

			CHECK(len <= link.info->tx_attr->inject_size);
			doing("%zu bytes, round %u", len, round);
			if (round % 2 == options.server) {
				fill(buf.mem, len, seed);
				if (options.tagged)
					POST(&link, fi_tinject(link.ep, buf.mem, len, link.peer, round));
				else
					POST(&link, fi_inject(link.ep, buf.mem, len, link.peer));
				memset(buf.mem, 0xff, len);
			} else {
				post_recv(&link, buf.mem, len, round, &recv);
				wait_op(&link, &recv);
				verify_recv(&recv, buf, len, seed, round);
			}
			free_buf(buf);
		}
	close_link(&link);
}

// ---- Multi-receive buffers

enum { MULTI = 2, MULTI_BYTES = 1 << 20, MULTI_MIN = 131073, MULTI_AT_ONCE = 16 };

static size_t multi_len(unsigned i)
{
	size_t len = options.sizes[(i * 7 + i / 5) % options.size_count];

	return len > MULTI_MIN ? MULTI_MIN : len;
}

static void post_multi(struct link *link, struct buf buf)
{
	struct iovec iov = { buf.mem, buf.len };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = buf.mem };

	poison(buf);
	POST(link, fi_recvmsg(link->ep, &msg, FI_MULTI_RECV));
}

static void multi_recv(struct link *link, unsigned count)
{
	struct buf bufs[MULTI];
	unsigned released = 0;
	size_t min = MULTI_MIN;

	OK(fi_setopt(&link->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
	for (unsigned b = 0; b < MULTI; b++) {
		bufs[b] = new_buf(MULTI_BYTES);
		post_multi(link, bufs[b]);
	}
	say("posted");
	for (unsigned i = 0; i < count;) {
		struct fi_cq_tagged_entry entry = next_entry(link);
		unsigned b = 0;

		while (b < MULTI && bufs[b].mem != entry.op_context)
			b++;
		CHECK(b < MULTI);
		if (entry.flags & FI_RECV) {
			doing("message %u of %zu bytes", i, multi_len(i));
			CHECK_EQ(entry.len, multi_len(i));
			CHECK((uint8_t *) entry.buf >= bufs[b].mem && (uint8_t *) entry.buf + entry.len <= bufs[b].mem + MULTI_BYTES);
			verify(entry.buf, entry.len, seed_of(entry.len, i, false));
			i++;
		}
		if (entry.flags & FI_MULTI_RECV) {
			verify_guard(bufs[b]);
			released++;
			post_multi(link, bufs[b]);
		}
	}
	CHECK(released > MULTI);
	say("received");
}

void case_multi(void)
{
	struct link link = { 0 };
	unsigned count = options.rounds * 64;

	open_link(&link);
	if (options.server) {
		multi_recv(&link, count);
	} else {
		expect(&link, "posted");
		for (unsigned i = 0; i < count; i += MULTI_AT_ONCE) {
			struct op sends[MULTI_AT_ONCE];
			struct buf out[MULTI_AT_ONCE];

			doing("message %u", i);
			for (unsigned k = 0; k < MULTI_AT_ONCE; k++) {
				size_t len = multi_len(i + k);

				out[k] = new_buf(len);
				fill(out[k].mem, len, seed_of(len, i + k, false));
				post_send(&link, out[k].mem, len, 0, &sends[k]);
			}
			for (unsigned k = 0; k < MULTI_AT_ONCE; k++) {
				verify_send(&link, &sends[k]);
				free_buf(out[k]);
			}
		}
		expect(&link, "received");
	}
	close_link(&link);
}
