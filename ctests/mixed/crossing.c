// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Two endpoints without a connection send to each other at the same moment. Each message must arrive once.
#include "side.h"

#include <unistd.h>

enum { COUNT = 4, LEN = 200, SKEWS = 11, SPIN_US = 100, LOOKS = 3, AHEAD_US = 500 };

static uint16_t port_of(const uint8_t *name)
{
	return (uint16_t) (name[2] << 8 | name[3]);
}

// "Larger address is active": client and server have the smaller port in turn. Both try ports until it is so.
static void open_in_order(struct link *link, unsigned round)
{
	for (;;) {
		open_rdm(link);
		say_bytes(link->name, link->name_len);
		link->peer_name_len = hear_bytes(link, link->peer_name, sizeof(link->peer_name));
		if ((port_of(link->name) > port_of(link->peer_name)) == (round % 2 != options.server))
			break;
		close_rdm(link);
	}
	insert_peer(link);
}

// Spins for short times; otherwise the other side may need this core.
static void pause_until(uint64_t end)
{
	uint64_t now = now_us();

	if (now + SPIN_US < end)
		usleep((useconds_t) (end - now));
	while (now_us() < end)
		;
}

// Starts both sides at the same moment (they share the clock), with an offset of 2 us to 2 ms, so that the first one
// varies.
static void wait_for_start(unsigned round)
{
	unsigned long long start;

	if (options.server) {
		start = now_us() + AHEAD_US;
		say("%llu", start);
	} else {
		start = strtoull(hear(NULL), NULL, 10);
	}
	pause_until(start + chance(2u << round / 2 % SKEWS));
}

// Polls rarely, so that requests and answers accumulate between two polls in all combinations.
static void look_now_and_then(struct link *link, unsigned round)
{
	for (unsigned i = 0; i < LOOKS; i++) {
		pause_until(now_us() + chance(2u << round / 2 % SKEWS));
		progress(link);
	}
}

static uint64_t seed_of(unsigned round, unsigned i, bool server)
{
	return (uint64_t) round * 1000 + i * 2 + server;
}

static void cross(struct link *link, unsigned round)
{
	struct buf out[COUNT], in[COUNT], more = new_buf(LEN);
	struct op sends[COUNT], recvs[COUNT], extra = { 0 };

	for (unsigned i = 0; i < COUNT; i++) {
		out[i] = new_buf(LEN);
		in[i] = new_buf(LEN);
		fill(out[i].mem, LEN, seed_of(round, i, options.server));
		post_recv(link, in[i].mem, LEN, i, &recvs[i]);
	}
	// A receive for any surplus message.
	if (options.tagged)
		POST(link, fi_trecv(link->ep, more.mem, LEN, NULL, FI_ADDR_UNSPEC, 0, ~0ULL, &extra));
	else
		post_recv(link, more.mem, LEN, 0, &extra);
	wait_for_start(round);
	for (unsigned i = 0; i < COUNT; i++) {
		sends[i] = (struct op){ 0 };
		while (!try_send(link, out[i].mem, LEN, i, &sends[i]))
			look_now_and_then(link, round);
		if (i == 0)
			look_now_and_then(link, round);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		wait_op(link, &sends[i]);
		wait_op(link, &recvs[i]);
		CHECK_EQ(recvs[i].entry.len, LEN);
		verify_buf(in[i], LEN, seed_of(round, i, !options.server));
	}
	meet(link, "received");
	for (unsigned i = 0; i < 10; i++)
		progress(link);
	if (extra.done)
		FAIL("one message more than were sent");
	meet(link, "over");
	for (unsigned i = 0; i < COUNT; i++) {
		free_buf(out[i]);
		free_buf(in[i]);
	}
	close_rdm(link);
	free_buf(more);
}

void case_crossing(void)
{
	struct link link = { 0 };

	open_domain(&link);
	for (unsigned round = 0; round < options.rounds; round++) {
		doing("round %u, the client has the %s port", round, round % 2 ? "larger" : "smaller");
		open_in_order(&link, round);
		cross(&link, round);
	}
}
