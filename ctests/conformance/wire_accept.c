// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! docs/wire/tcp.md: an RDM endpoint's answers to connection requests: valid, slow, incomplete and invalid ones. The
//! pair beside a connection continues whatever the connection does.
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <unistd.h>

enum { PORT = 7 }; // no peer connects to this port here

static uint16_t port_of(const struct side *side)
{
	return ntohs(((const struct sockaddr_in *)side->name)->sin_port);
}

// Opens the pair of the harness and checks that it works. The raw peer connects to b.
static void open_pair(struct env *t)
{
	only_tcp(t);
	PAIR(t);
	round_trip(t);
}

TEST(wire_tcp, answers_request, EP_RDM, FI_MSG, "A request is answered with the smaller version, the port echoed, and a process number")
{
	uint8_t bytes[40], private[8];
	int fd;

	open_pair(t);
	fd = wire_connect(t, t->b.name);
	wire_write(t, fd, bytes, rdm_bytes(bytes, REQUEST, false, 1, 12345, 99));
	read_cm(t, fd, RESPONSE, private, 8);
	CHECK_EQ(private[0], 0x81);
	CHECK_EQ(private[1], 0);
	CHECK_EQ(private[2] << 8 | private[3], 12345);
	CHECK(private[4] | private[5] | private[6] | private[7]);
	wire_silent(t, fd);
}

TEST(wire_tcp, answers_old_version, EP_RDM, FI_MSG, "A request of version 0 is answered with version 0, without the bit that says the version was checked")
{
	uint8_t bytes[40], private[8];
	int fd;

	open_pair(t);
	fd = wire_connect(t, t->b.name);
	wire_write(t, fd, bytes, rdm_bytes(bytes, REQUEST, false, 0, PORT, 99));
	read_cm(t, fd, RESPONSE, private, 8);
	CHECK_EQ(private[0], 0);
}

TEST(wire_tcp, answers_new_version, EP_RDM, FI_MSG, "A request of a later version is answered with version 1, unknown feature bits left out")
{
	uint8_t bytes[40], private[8];
	int fd;

	open_pair(t);
	fd = wire_connect(t, t->b.name);
	rdm_bytes(bytes, REQUEST, false, 5, PORT, 99);
	bytes[33] = 0x40;
	wire_write(t, fd, bytes, 40);
	read_cm(t, fd, RESPONSE, private, 8);
	CHECK_EQ(private[0], 0x81);
	CHECK_EQ(private[1] & 0x40, 0);
}

TEST(wire_tcp, slow_request, EP_RDM | OURS_ONLY, FI_MSG, "A request that comes byte by byte is answered, and holds up nobody meanwhile")
{
	uint8_t bytes[40], private[8];
	int fd;

	open_pair(t);
	fd = wire_connect(t, t->b.name);
	rdm_bytes(bytes, REQUEST, false, 1, PORT, 99);
	wire_slowly(t, fd, bytes, 20);
	round_trip(t);
	wire_slowly(t, fd, bytes + 20, 15);
	round_trip(t);
	wire_slowly(t, fd, bytes + 35, 5);
	read_cm(t, fd, RESPONSE, private, 8);
	CHECK_EQ(private[0], 0x81);
}

TEST(wire_tcp, request_with_frames_behind, EP_RDM | OURS_ONLY, FI_MSG, "Frames that follow the request before its answer harm at most that connection")
{
	uint8_t bytes[128];
	size_t len;
	int fd;

	open_pair(t);
	fd = wire_connect(t, t->b.name);
	len = rdm_bytes(bytes, REQUEST, false, 1, PORT, 99);
	len += frame_bytes(bytes + len, (struct wire_header){ .op = TAGGED, .tag = 77, .payload = 8 }, false, "too soon");
	wire_write(t, fd, bytes, len);
	round_trip(t);
	struct wire wire = rdm_open(t, &t->b, PORT + 1, false);
	still_open(t, &wire, &t->b);
}

// ---- Wrong requests

static void wrong_request(struct env *t, unsigned at, uint8_t value)
{
	uint8_t bytes[40];
	int fd;

	open_pair(t);
	fd = wire_connect(t, t->b.name);
	rdm_bytes(bytes, REQUEST, false, 1, PORT, 99);
	bytes[at] = value;
	wire_write(t, fd, bytes, 40);
	wire_ends(t, fd);
	round_trip(t);
	rdm_open(t, &t->b, PORT, false); // the listener still works
}

#define WRONG(RULE, TEXT, AT, VALUE)                                                                                   \
	TEST(wire_tcp, request_##RULE, EP_RDM, FI_MSG, "A connection message " TEXT " ends that connection alone")     \
	{                                                                                                              \
		wrong_request(t, AT, VALUE);                                                                           \
	}

WRONG(version_0, "of version 0", 0, 0)
WRONG(version_2, "of version 2", 0, 2)
WRONG(version_4, "of version 4", 0, 4)
WRONG(version_255, "of version 255", 0, 255)
WRONG(is_response, "that is a response instead of a request", 1, RESPONSE)
WRONG(is_reject, "that is a reject instead of a request", 1, REJECT)
WRONG(kind_2, "of kind 2", 1, 2)
WRONG(kind_255, "of kind 255", 1, 255)
WRONG(length_over, "that announces more than 256 bytes of private data", 2, 2)

// Rejecting and closing are both valid.
static void refused_private(struct env *t, size_t len)
{
	uint8_t bytes[32 + 256], private[256] = { 1 }, kind[2];
	ssize_t got;
	int fd;

	open_pair(t);
	fd = wire_connect(t, t->b.name);
	wire_write(t, fd, bytes, cm_bytes(bytes, REQUEST, false, private, len));
	ONCE(t, (got = recv(fd, kind, 2, MSG_PEEK)) >= 0 || errno != EAGAIN);
	if (got > 0) {
		wire_read(t, fd, bytes, 32);
		CHECK_EQ(bytes[0], 3);
		CHECK_EQ(bytes[1], REJECT);
		wire_read(t, fd, bytes, bytes[2] << 8 | bytes[3]);
	}
	wire_ends(t, fd);
	round_trip(t);
}

TEST(wire_tcp, private_of_0_bytes, EP_RDM | OURS_ONLY, FI_MSG, "A request without private data is refused by an RDM endpoint")
{
	refused_private(t, 0);
}

TEST(wire_tcp, private_of_7_bytes, EP_RDM | OURS_ONLY, FI_MSG, "So is one with 7 bytes")
{
	refused_private(t, 7);
}

TEST(wire_tcp, private_of_24_bytes, EP_RDM | OURS_ONLY, FI_MSG, "So is one with 24 bytes, which another protocol would send")
{
	refused_private(t, 24);
}

TEST(wire_tcp, private_of_256_bytes, EP_RDM | OURS_ONLY, FI_MSG, "So is one with 256 bytes")
{
	refused_private(t, 256);
}

// ---- Ends at each step

static void end_after(struct env *t, size_t sent, bool answered, bool reset)
{
	uint8_t bytes[128], private[8];
	size_t len;

	for (unsigned i = 0; i < 3; i++) {
		int fd = wire_connect(t, t->b.name);

		len = rdm_bytes(bytes, REQUEST, false, 1, PORT, 99 + i);
		len += frame_bytes(bytes + len, (struct wire_header){ .op = TAGGED, .tag = 77, .payload = 8 }, false, "unfinished");
		wire_write(t, fd, bytes, sent < 40 ? sent : 40);
		if (answered) {
			read_cm(t, fd, RESPONSE, private, 8);
			wire_write(t, fd, bytes + 40, sent - 40);
		}
		if (i)
			progress(t);
		if (reset)
			wire_reset(fd);
		else
			close(fd);
		round_trip(t);
	}
	still_open(t, &(struct wire[]){ rdm_open(t, &t->b, PORT, false) }[0], &t->b);
}

struct step {
	size_t sent;
	bool answered;
};

static void end_after_each(struct env *t, const struct step *steps, unsigned count)
{
	open_pair(t);
	for (unsigned i = 0; i < count; i++)
		for (unsigned reset = 0; reset < 2; reset++)
			end_after(t, steps[i].sent, steps[i].answered, reset);
}

TEST(wire_tcp, ends_in_request, EP_RDM | OURS_ONLY, FI_MSG, "A peer that goes away in the middle of its request disturbs nobody")
{
	static const struct step steps[] = { { 1, false }, { 31, false }, { 32, false }, { 39, false } };

	end_after_each(t, steps, 4);
}

TEST(wire_tcp, ends_in_frame, EP_RDM, FI_MSG, "A peer that goes away before its request, behind it, or in the middle of a frame disturbs nobody")
{
	static const struct step steps[] = { { 0, false }, { 40, false }, { 40, true }, { 41, true }, { 55, true }, { 56, true },
					     { 63, true }, { 64, true }, { 71, true } };

	end_after_each(t, steps, sizeof(steps) / sizeof(steps[0]));
}

TEST(wire_tcp, many_silent_connections, EP_RDM, FI_MSG, "Fifty connections that never say anything hold up nobody")
{
	open_pair(t);
	for (unsigned i = 0; i < 50; i++)
		wire_connect(t, t->b.name);
	round_trip(t);
	struct wire wire = rdm_open(t, &t->b, PORT, false);
	still_open(t, &wire, &t->b);
}

// ---- Two connections between the same two endpoints

static struct listener listen_on(struct env *t, bool above)
{
	for (unsigned i = 0; i < 10000; i++) {
		struct listener at = wire_listen();

		if ((ntohs(at.addr.sin_port) > port_of(&t->b)) == above)
			return at;
		if (i % 100 == 99)
			continue; // keep some open, so that the kernel chooses other ports
		close(at.fd);
	}
	SKIP("no port %s the endpoint's", above ? "above" : "below");
}

TEST(wire_tcp, simultaneous_smaller_peer, EP_RDM, FI_MSG, "Both connect at once and the peer's address is smaller: its request is rejected with its own bytes, ours goes on")
{
	uint8_t bytes[40], private[8];
	struct dial dial;
	int theirs;

	open_pair(t);
	dial = dial_from(t, &t->b, listen_on(t, false));
	theirs = wire_connect(t, t->b.name);
	wire_write(t, theirs, bytes, rdm_bytes(bytes, REQUEST, false, 1, ntohs(dial.at.addr.sin_port), 99));
	read_cm(t, theirs, REJECT, private, 8);
	CHECK(!memcmp(private, bytes + 32, 8));
	wire_ends(t, theirs);
	wire_silent(t, dial.wire.fd);
	dial_answer(t, &dial, &t->b);
	still_open(t, &dial.wire, &t->b);
}

TEST(wire_tcp, simultaneous_larger_peer, EP_RDM, FI_MSG, "Both connect at once and the peer's address is larger: ours is dropped, its request accepted")
{
	uint8_t bytes[40], private[8];
	struct dial dial;
	int theirs;

	open_pair(t);
	dial = dial_from(t, &t->b, listen_on(t, true));
	theirs = wire_connect(t, t->b.name);
	wire_write(t, theirs, bytes, rdm_bytes(bytes, REQUEST, false, 1, ntohs(dial.at.addr.sin_port), 99));
	read_cm(t, theirs, RESPONSE, private, 8);
	wire_ends(t, dial.wire.fd);
	dial.wire = (struct wire){ .fd = theirs };
	dial_first(t, &dial, &t->b);
	still_open(t, &dial.wire, &t->b);
}

// Both requests have been sent; the peer's address is larger.
static int cross(struct env *t, struct dial *dial, uint8_t *request)
{
	int theirs;

	open_pair(t);
	*dial = dial_from(t, &t->b, listen_on(t, true));
	theirs = wire_connect(t, t->b.name);
	wire_write(t, theirs, request, rdm_bytes(request, REQUEST, false, 1, ntohs(dial->at.addr.sin_port), 99));
	wire_silent(t, theirs);
	return theirs;
}

TEST(wire_tcp, simultaneous_larger_peer_rejects, EP_RDM | OURS_ONLY, FI_MSG, "The request of a larger peer that has ours before it is accepted when ours is rejected")
{
	uint8_t bytes[40], private[8];
	struct dial dial;
	int theirs = cross(t, &dial, bytes);

	wire_silent(t, dial.wire.fd);
	wire_write(t, dial.wire.fd, bytes, rdm_bytes(bytes, REJECT, false, 1, port_of(&t->b), 98));
	read_cm(t, theirs, RESPONSE, private, 8);
	wire_ends(t, dial.wire.fd);
	dial.wire = (struct wire){ .fd = theirs };
	dial_first(t, &dial, &t->b);
	still_open(t, &dial.wire, &t->b);
}

TEST(wire_tcp, simultaneous_larger_peer_ends, EP_RDM | OURS_ONLY, FI_MSG, "The same when the peer ends our attempt")
{
	uint8_t bytes[40], private[8];
	struct dial dial;
	int theirs = cross(t, &dial, bytes);

	close(dial.wire.fd);
	read_cm(t, theirs, RESPONSE, private, 8);
	dial.wire = (struct wire){ .fd = theirs };
	dial_first(t, &dial, &t->b);
	still_open(t, &dial.wire, &t->b);
}

TEST(wire_tcp, simultaneous_larger_peer_accepts, EP_RDM | OURS_ONLY, FI_MSG, "The request of a larger peer that accepts ours is rejected")
{
	uint8_t bytes[40], private[8];
	struct dial dial;
	int theirs = cross(t, &dial, bytes);

	dial_answer(t, &dial, &t->b);
	read_cm(t, theirs, REJECT, private, 8);
	CHECK(!memcmp(private, bytes + 32, 8));
	wire_ends(t, theirs);
	still_open(t, &dial.wire, &t->b);
}

TEST(wire_tcp, second_request_same_process, EP_RDM, FI_MSG, "On a connection that we opened, a late request of the same process is rejected")
{
	uint8_t bytes[40], private[8];
	struct dial dial;
	int theirs;

	open_pair(t);
	dial = dial_from(t, &t->b, wire_listen());
	dial_answer(t, &dial, &t->b);
	still_open(t, &dial.wire, &t->b);
	theirs = wire_connect(t, t->b.name);
	wire_write(t, theirs, bytes, rdm_bytes(bytes, REQUEST, false, 1, ntohs(dial.at.addr.sin_port), 99));
	read_cm(t, theirs, REJECT, private, 8);
	wire_ends(t, theirs);
	still_open(t, &dial.wire, &t->b);
}

TEST(wire_tcp, second_request_new_process, EP_RDM, FI_MSG, "On a connection that we opened, a request of another process means that the peer restarted: the new one replaces the old")
{
	uint8_t bytes[40], private[8];
	struct dial dial;
	int theirs;

	open_pair(t);
	dial = dial_from(t, &t->b, wire_listen());
	dial_answer(t, &dial, &t->b);
	still_open(t, &dial.wire, &t->b);
	theirs = wire_connect(t, t->b.name);
	wire_write(t, theirs, bytes, rdm_bytes(bytes, REQUEST, false, 1, ntohs(dial.at.addr.sin_port), 100));
	read_cm(t, theirs, RESPONSE, private, 8);
	wire_ends(t, dial.wire.fd);
	struct wire wire = { .fd = theirs };
	still_open(t, &wire, &t->b);
}

TEST(wire_tcp, second_request_on_theirs, EP_RDM, FI_MSG, "On a connection that the peer opened, its next request replaces the old one")
{
	struct wire old, new;

	open_pair(t);
	old = rdm_open(t, &t->b, 12345, false);
	still_open(t, &old, &t->b);
	new = rdm_open(t, &t->b, 12345, false);
	wire_ends(t, old.fd);
	still_open(t, &new, &t->b);
}

TEST(wire_tcp, two_peers_one_host, EP_RDM, FI_MSG, "Requests with different ports are different peers")
{
	struct wire one, two;

	open_pair(t);
	one = rdm_open(t, &t->b, 12345, false);
	two = rdm_open(t, &t->b, 12346, false);
	still_open(t, &one, &t->b);
	still_open(t, &two, &t->b);
	still_open(t, &one, &t->b);
}
