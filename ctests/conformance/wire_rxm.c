// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Peers that implement docs/wire/rxm.md over connections of their own, correctly or not.
#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

enum { EAGER_LIMIT = 16384, HEAD = 64, OTHER_TAG = 1 };
enum { EAGER, SEGMENT, OFFER, READ_DONE };

// One connection of a raw peer.
struct peer {
	struct wire wire;
	struct listener at; // the address that it announces
	uint32_t name;      // the library's name for the connection
	fi_addr_t addr;     // in the library's vector, once inserted
};

static void write_request(struct env *t, struct peer *peer, unsigned pid)
{
	uint8_t request[24] = { 1, 2, 4, 3 }, bytes[32 + sizeof(request)];
	uint16_t port = ntohs(peer->at.addr.sin_port);
	uint32_t eager = EAGER_LIMIT, depth = 1024, id[2] = { 7, pid };

	memcpy(request + 4, &port, 2);
	request[6] = 2;
	memcpy(request + 8, &eager, 4);
	memcpy(request + 12, &depth, 4);
	memcpy(request + 16, id, 8);
	wire_write(t, peer->wire.fd, bytes, cm_bytes(bytes, REQUEST, false, request, sizeof(request)));
}

static void read_response(struct env *t, struct peer *peer)
{
	uint8_t response[16];

	read_cm(t, peer->wire.fd, RESPONSE, response, sizeof(response));
	memcpy(&peer->name, response, 4);
}

static struct peer open_peer(struct env *t, struct side *side)
{
	struct peer peer = { .wire.fd = wire_connect(t, side->name), .at = wire_listen() };

	write_request(t, &peer, 4242);
	read_response(t, &peer);
	return peer;
}

// Builds the frame of a packet, with `len` bytes of data. Returns its length.
static size_t packet_bytes(uint8_t *out, unsigned type, uint32_t name, uint64_t msg, uint64_t tag, size_t len)
{
	uint8_t packet[HEAD + EAGER_LIMIT] = { 4, type };
	uint64_t size = len;

	memcpy(packet + 8, &name, 4);
	memcpy(packet + 16, &msg, 8);
	packet[32] = 2;
	packet[34] = 1;
	memcpy(packet + 40, &size, 8);
	memcpy(packet + 56, &tag, 8);
	return frame_bytes(out, (struct wire_header){ .op = MSG, .payload = HEAD + len }, false, packet);
}

static void send_packet(struct env *t, struct peer *peer, unsigned type, uint32_t name, uint64_t msg, uint64_t tag, size_t len)
{
	static uint8_t bytes[16 + HEAD + EAGER_LIMIT];

	wire_write(t, peer->wire.fd, bytes, packet_bytes(bytes, type, name, msg, tag, len));
}

// Opens an endpoint of tcp;ofi_rxm, to which raw peers connect.
static void start(struct env *t)
{
	setenv("FI_TCP_SHARED_MEMORY", "0", 1);
	start_as(t, "tcp;ofi_rxm", FI_EP_RDM, FI_TAGGED);
}

static void insert(struct env *t, struct side *side, struct peer *peer)
{
	CHECK_EQ(fi_av_insert(side->av, &peer->at.addr, 1, &peer->addr, 0, NULL), 1);
	(void)t;
}

TEST(wire_rxm, names_are_random, CORE | OURS_ONLY, 0, "No connection's name follows from those of others")
{
	enum { COUNT = 6 };
	struct peer peers[COUNT];
	unsigned equal = 0;

	start(t);
	PAIR(t);
	for (unsigned i = 0; i < COUNT; i++)
		peers[i] = open_peer(t, &t->b);
	for (unsigned i = 2; i < COUNT; i++)
		equal += peers[i].name - peers[i - 1].name == peers[i - 1].name - peers[i - 2].name;
	CHECK_EQ(equal, 0);
	for (unsigned i = 0; i < COUNT; i++)
		CHECK(peers[i].name > 1 << 20 || peers[(i + 1) % COUNT].name > 1 << 20);
}

TEST(wire_rxm, packet_for_another, CORE | OURS_ONLY, 0, "A packet that names another connection ends its own; the other one goes on, and nothing is delivered")
{
	start(t);
	PAIR(t);
	struct peer x = open_peer(t, &t->b), y = open_peer(t, &t->b);
	struct buf in = new_buf(t, 8, 0);
	void *recv = post_trecv(t, &t->b, in, 5, 0);

	send_packet(t, &x, EAGER, y.name, 0, 5, 8);
	wire_ends(t, x.wire.fd);
	nothing(t->b.rxcq);
	// An invalid packet for the other connection ends only the connection on which it arrives.
	struct peer z = open_peer(t, &t->b);
	send_packet(t, &z, SEGMENT, y.name, 999, 5, 8);
	wire_ends(t, z.wire.fd);
	send_packet(t, &y, EAGER, y.name, 0, 5, 8);
	CHECK_EQ(done(t, t->b.rxcq, recv, FI_TAGGED | FI_RECV).len, 8);
}

TEST(wire_rxm, answer_of_another, CORE | OURS_ONLY, 0, "A large message does not complete because another peer says that it was read")
{
	start(t);
	PAIR(t);
	struct peer x = open_peer(t, &t->b), y = open_peer(t, &t->b);
	struct buf out = new_buf(t, 1 << 20, 1);
	uint8_t frame[16 + HEAD + 104];
	uint64_t msg;
	void *ctx = new_ctx();

	insert(t, &t->b, &y);
	POST(t, fi_tsend(t->b.ep, out.mem, out.len, out.desc, y.addr, 5, ctx));
	wire_read(t, y.wire.fd, frame, sizeof(frame));
	CHECK_EQ(frame[16 + 1], OFFER);
	memcpy(&msg, frame + 16 + 16, 8);
	send_packet(t, &x, READ_DONE, y.name, msg, 0, 0);
	wire_ends(t, x.wire.fd);
	// The message does not belong to this peer.
	struct peer z = open_peer(t, &t->b);
	send_packet(t, &z, READ_DONE, z.name, msg, 0, 0);
	wire_ends(t, z.wire.fd);
	nothing(t->b.txcq);
	send_packet(t, &y, READ_DONE, y.name, msg, 0, 0);
	done(t, t->b.txcq, ctx, FI_TAGGED | FI_SEND);
}

// Sends unexpected messages until the library reads no more. Returns the number of bytes sent.
static size_t flood(struct env *t, struct peer *peer, size_t len, size_t limit)
{
	static uint8_t bytes[16 + HEAD + EAGER_LIMIT];
	size_t size = packet_bytes(bytes, EAGER, peer->name, 0, OTHER_TAG, len), at = 0, total = 0;

	for (unsigned idle = 0; idle < 300;) {
		ssize_t rc = send(peer->wire.fd, bytes + at, size - at, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (rc < 0) {
			CHECK(errno == EAGAIN);
			progress(t);
			idle++;
			continue;
		}
		idle = 0;
		at = (at + (size_t)rc) % size;
		total += (size_t)rc;
		if (total > limit)
			FAIL("%zu bytes were taken that nobody waits for", total);
	}
	return total;
}

static void leaves_others_room(struct env *t, size_t len)
{
	setenv("FI_OFI_RXM_MAX_SAVED_BYTES", "65536", 1);
	setenv("FI_TCP_MAX_SAVED_BYTES", "65536", 1);
	start(t);
	PAIR(t);
	round_trip(t);
	struct peer x = open_peer(t, &t->b), y = open_peer(t, &t->b);
	struct buf in = new_buf(t, 8, 0), second = new_buf(t, 8, 0), third = new_buf(t, 8, 0), out = new_buf(t, 8, 1);
	void *recv = post_trecv(t, &t->b, in, 7, 0), *next = post_trecv(t, &t->b, second, 8, 0);
	void *last = post_trecv(t, &t->b, third, 9, 0);

	flood(t, &x, len, 64 << 20);
	// Peers that were connected before, one that connects now, and another endpoint.
	send_packet(t, &y, EAGER, y.name, 0, 7, 8);
	done(t, t->b.rxcq, recv, FI_TAGGED | FI_RECV);
	struct peer z = open_peer(t, &t->b);
	send_packet(t, &z, EAGER, z.name, 0, 8, 8);
	done(t, t->b.rxcq, next, FI_TAGGED | FI_RECV);
	post_tsend(t, &t->a, out, 9);
	done(t, t->b.rxcq, last, FI_TAGGED | FI_RECV);
	// Messages that were held back arrive when receives are posted for them.
	for (unsigned i = 0; i < 100; i++)
		done(t, t->b.rxcq, post_trecv(t, &t->b, new_buf(t, EAGER_LIMIT, 0), OTHER_TAG, 0), FI_TAGGED | FI_RECV);
}

TEST(wire_rxm, flood_leaves_others_room, CORE | OURS_ONLY, 0, "A peer that sends what nobody waits for holds up itself, and no other peer")
{
	leaves_others_room(t, EAGER_LIMIT);
}

TEST(wire_rxm, flood_of_empty_messages, CORE | OURS_ONLY, 0, "The same for messages without bytes")
{
	leaves_others_room(t, 0);
}

TEST(wire_rxm, halves_of_messages, CORE | OURS_ONLY, 0, "Peers that send halves of messages, each behind many whole ones, hold up no other peer")
{
	enum { COUNT = 12, WHOLE = 14 };
	static uint8_t bytes[16 + HEAD + EAGER_LIMIT];
	struct peer peers[COUNT];

	start(t);
	PAIR(t);
	struct peer y = open_peer(t, &t->b);
	struct buf in = new_buf(t, 8, 0);
	void *recv = post_trecv(t, &t->b, in, 7, 0);

	for (unsigned i = 0; i < COUNT; i++) {
		peers[i] = open_peer(t, &t->b);
		size_t len = packet_bytes(bytes, EAGER, peers[i].name, 0, OTHER_TAG, EAGER_LIMIT);

		for (unsigned k = 0; k < WHOLE; k++)
			wire_write(t, peers[i].wire.fd, bytes, len);
		wire_write(t, peers[i].wire.fd, bytes, len / 2);
		turn(t);
	}
	send_packet(t, &y, EAGER, y.name, 0, 7, 8);
	done(t, t->b.rxcq, recv, FI_TAGGED | FI_RECV);
}

TEST(wire_rxm, flood_is_taken_later, CORE | OURS_ONLY, 0, "Messages beyond the limit are all received in the end, also if their sender has ended the connection")
{
	enum { LEN = EAGER_LIMIT, MESSAGE = 16 + HEAD + LEN };
	unsigned sent = 0;

	setenv("FI_OFI_RXM_MAX_SAVED_BYTES", "65536", 1);
	start(t);
	PAIR(t);
	struct peer x = open_peer(t, &t->b);
	size_t total = flood(t, &x, LEN, 64 << 20);

	sent = (unsigned)(total / MESSAGE);
	shutdown(x.wire.fd, SHUT_WR);
	for (unsigned i = 0; i < sent; i++)
		done(t, t->b.rxcq, post_trecv(t, &t->b, new_buf(t, LEN, 0), OTHER_TAG, 0), FI_TAGGED | FI_RECV);
}

// Valid packets, then an invalid one, then the end of the connection, all available at once.
static void end_behind_bad_packet(struct env *t, bool sleeps)
{
	// There are more packets than one poll takes, so that the end is seen before the invalid packet.
	enum { ROUNDS = 150, GOOD = 200 };
	uint8_t bytes[(GOOD + 1) * (16 + HEAD + 8)];
	struct fi_cq_tagged_entry comp;

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct peer peer = open_peer(t, &t->b);
		size_t len = 0;

		for (unsigned k = 0; k < (i & 1 ? GOOD : i % 5); k++)
			len += packet_bytes(bytes + len, EAGER, peer.name, 0, OTHER_TAG, 8);
		len += packet_bytes(bytes + len, READ_DONE, peer.name, 999, 0, 0);
		CHECK_EQ(send(peer.wire.fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
		close(peer.wire.fd);
		close(peer.at.fd);
		if (sleeps)
			CHECK_RC2(fi_cq_sread(t->b.rxcq, &comp, 1, NULL, 1), -FI_EAGAIN, -FI_EINTR);
	}
	round_trip(t);
}

TEST(wire_rxm, end_behind_bad_packet, CORE | OURS_ONLY, 0, "A bad packet behind good ones, and the end of the connection with it, end that connection alone: with plain reads")
{
	start(t);
	PAIR(t);
	end_behind_bad_packet(t, false);
}

TEST(wire_rxm, end_behind_bad_packet_asleep, CORE | OURS_ONLY, 0, "The same with reads that wait")
{
	start(t);
	PAIR(t, .cq.wait_obj = FI_WAIT_UNSPEC);
	end_behind_bad_packet(t, true);
}

TEST(wire_rxm, end_behind_bad_packet_auto, CORE | OURS_ONLY, 0, "The same with automatic progress")
{
	start(t);
	t->hints->domain_attr->progress = FI_PROGRESS_AUTO;
	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
	PAIR(t);
	end_behind_bad_packet(t, false);
}

TEST(wire_rxm, restart_behind_bad_packet, CORE | OURS_ONLY, 0, "A peer that begins anew with a bad packet on its old connection ends that one alone")
{
	enum { ROUNDS = 30, GOOD = 400 };
	static uint8_t bytes[(GOOD + 1) * (16 + HEAD + 8)];
	struct fi_cq_tagged_entry comp;

	start(t);
	PAIR(t, .cq.wait_obj = FI_WAIT_UNSPEC);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct peer old = open_peer(t, &t->b), new = { .wire.fd = wire_connect(t, t->b.name), .at = old.at };
		size_t len = 0;

		for (unsigned k = 0; k < GOOD; k++)
			len += packet_bytes(bytes + len, EAGER, old.name, 0, OTHER_TAG, 8);
		len += packet_bytes(bytes + len, READ_DONE, old.name, 999, 0, 0);
		write_request(t, &new, 4243);
		CHECK_EQ(send(old.wire.fd, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
		CHECK_RC2(fi_cq_sread(t->b.rxcq, &comp, 1, NULL, 1), -FI_EAGAIN, -FI_EINTR);
		read_response(t, &new);
		close(old.wire.fd);
		close(new.wire.fd);
		close(new.at.fd);
	}
	round_trip(t);
}
