// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! docs/wire/tcp.md, "Authorization": endpoints with a key, and peers that have none, or prove it wrongly, late, or not
//! at all.
#define _GNU_SOURCE
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <unistd.h>

enum { HELLO = 28, ANSWER, FINISH, REFUSE };
enum { KEYED_AT = 8, FEATURES_AT = 33, EXTENSIONS = 2 };
enum { HEADER = 16, PROOF = 32, PORT = 7 };

static void set_key(struct fi_info *info, const char *key)
{
	info->ep_attr->auth_key = (uint8_t *)strdup(key);
	info->ep_attr->auth_key_size = strlen(key);
}

// Opens a pair with a key and checks that it works. It must keep working during the rest of the test.
static void keyed_pair(struct env *t)
{
	only_tcp(t);
	set_key(t->hints, "job 7");
	env_info(t);
	PAIR(t);
	round_trip(t);
}

static size_t auth_bytes(uint8_t *out, int op, uint8_t fill)
{
	size_t payload = op == FINISH ? PROOF : op == REFUSE ? 0 : 2 * PROOF;

	memset(out, 0, HEADER);
	out[0] = 3;
	out[1] = op;
	out[6] = HEADER;
	out[8] = HEADER + payload; // little-endian, like the connection messages
	memset(out + HEADER, fill, payload);
	return HEADER + payload;
}

static size_t request_bytes(uint8_t *out, bool keyed)
{
	size_t len = rdm_bytes(out, REQUEST, false, 1, PORT, 99);

	out[FEATURES_AT] |= EXTENSIONS;
	out[KEYED_AT] = keyed;
	return len;
}

// The library sends Refuse, or nothing, and then closes the connection.
static void refused(struct env *t, int fd)
{
	uint8_t bytes[HEADER], want[HEADER];
	size_t have = 0;
	ssize_t rc = 1;

	while (rc > 0) {
		ONCE(t, (rc = recv(fd, bytes + have, sizeof(bytes) - have, 0)) >= 0 || errno != EAGAIN);
		if (rc > 0)
			have += rc;
		if (have == HEADER)
			break;
	}
	if (have) {
		auth_bytes(want, REFUSE, 0);
		CHECK_EQ(have, HEADER);
		CHECK(!memcmp(bytes, want, HEADER));
		wire_ends(t, fd);
	}
	close(fd);
}

static void read_reject(struct env *t, int fd, bool for_keys)
{
	uint8_t bytes[40];

	wire_read(t, fd, bytes, 40);
	CHECK_EQ(bytes[0], 3);
	CHECK_EQ(bytes[1], REJECT);
	CHECK_EQ(bytes[KEYED_AT], for_keys);
	wire_ends(t, fd);
}

// ---- Connections to a listener

TEST(wire_tcp, auth_keyless_request, EP_RDM | OURS_ONLY, FI_MSG, "An endpoint with a key rejects the request of a peer without, for the sake of keys")
{
	uint8_t bytes[40];
	int fd;

	keyed_pair(t);
	fd = wire_connect(t, t->b.name);
	wire_write(t, fd, bytes, rdm_bytes(bytes, REQUEST, false, 1, PORT, 99));
	read_reject(t, fd, true);
	fd = wire_connect(t, t->b.name);
	wire_write(t, fd, bytes, request_bytes(bytes, false));
	read_reject(t, fd, true);
	round_trip(t);
}

TEST(wire_tcp, auth_keyed_request, EP_RDM | OURS_ONLY, FI_MSG, "An endpoint without a key rejects the request of a peer with one, for the sake of keys")
{
	uint8_t bytes[40];
	int fd;

	only_tcp(t);
	PAIR(t);
	round_trip(t);
	fd = wire_connect(t, t->b.name);
	wire_write(t, fd, bytes, request_bytes(bytes, true));
	read_reject(t, fd, true);
	round_trip(t);
}

TEST(wire_tcp, auth_without_extensions, EP_RDM | OURS_ONLY, FI_MSG, "A peer that has a key but does not know the extensions is rejected")
{
	uint8_t bytes[40];
	int fd;

	keyed_pair(t);
	fd = wire_connect(t, t->b.name);
	request_bytes(bytes, true);
	bytes[FEATURES_AT] = 0;
	wire_write(t, fd, bytes, 40);
	read_reject(t, fd, true);
	round_trip(t);
}

static int invited(struct env *t)
{
	uint8_t bytes[40];
	int fd = wire_connect(t, t->b.name);

	wire_write(t, fd, bytes, request_bytes(bytes, true));
	wire_read(t, fd, bytes, 40);
	CHECK_EQ(bytes[1], RESPONSE);
	CHECK_EQ(bytes[KEYED_AT], 1);
	return fd;
}

TEST(wire_tcp, auth_listener_waits, EP_RDM | OURS_ONLY, FI_MSG, "The side that accepted sends nothing before the proof of the other one")
{
	keyed_pair(t);
	wire_silent(t, invited(t));
	round_trip(t);
}

static void listener_gets(struct env *t, const uint8_t *bytes, size_t len, bool slowly)
{
	int fd;

	keyed_pair(t);
	fd = invited(t);
	if (slowly)
		wire_slowly(t, fd, bytes, len);
	else
		wire_write(t, fd, bytes, len);
	refused(t, fd);
	round_trip(t);
}

TEST(wire_tcp, auth_wrong_proof, EP_RDM | OURS_ONLY, FI_MSG, "A wrong proof is refused")
{
	uint8_t bytes[128];

	listener_gets(t, bytes, auth_bytes(bytes, HELLO, 0x5a), false);
}

TEST(wire_tcp, auth_wrong_proof_slowly, EP_RDM | OURS_ONLY, FI_MSG, "So is one that comes byte by byte")
{
	uint8_t bytes[128];

	listener_gets(t, bytes, auth_bytes(bytes, HELLO, 0x5a), true);
}

TEST(wire_tcp, auth_data_instead, EP_RDM | OURS_ONLY, FI_MSG, "Data instead of a proof is refused and received by nobody")
{
	struct buf in;
	struct op recv;
	uint8_t bytes[128];
	int fd;

	keyed_pair(t);
	in = new_buf(t, 8, 0);
	recv = op_of(RECV, false, in, FI_ADDR_UNSPEC);
	op_post(t, t->b.ep, &recv);
	fd = invited(t);
	wire_write(t, fd, bytes, frame_bytes(bytes, (struct wire_header){ .op = MSG, .payload = 8 }, false, "too soon"));
	refused(t, fd);
	fd = invited(t);
	size_t len = auth_bytes(bytes, HELLO, 0x5a);
	len += frame_bytes(bytes + len, (struct wire_header){ .op = MSG, .payload = 8 }, false, "too soon");
	wire_write(t, fd, bytes, len);
	refused(t, fd);
	turn(t);
	nothing(t->b.rxcq);
	CHECK(untouched(in, 0));
}

#define WRONG(RULE, TEXT, AT, VALUE)                                                                                   \
	TEST(wire_tcp, auth_##RULE, EP_RDM | OURS_ONLY, FI_MSG, "A proof in a frame " TEXT " is refused")              \
	{                                                                                                              \
		uint8_t bytes[128];                                                                                    \
		size_t len = auth_bytes(bytes, HELLO, 0x5a);                                                           \
		bytes[AT] = VALUE;                                                                                     \
		listener_gets(t, bytes, len, false);                                                                   \
	}

WRONG(version, "of another version", 0, 4)
WRONG(out_of_turn, "that is not its turn", 1, FINISH)
WRONG(answer_first, "of the other side", 1, ANSWER)
WRONG(op_0, "of a message", 1, 0)
WRONG(op_255, "of no known op", 1, 255)
WRONG(flags, "with flags", 2, 4)
WRONG(header_size, "of another header size", 6, 24)
WRONG(size_short, "of a smaller size", 8, 79)
WRONG(size_huge, "of a huge size", 15, 0x7f)

TEST(wire_tcp, auth_cut, EP_RDM | OURS_ONLY, FI_MSG, "A proof that is cut off, at any place, ends that connection alone")
{
	static const size_t places[] = { 0, 1, 15, 16, 17, 79 };
	uint8_t bytes[128];

	keyed_pair(t);
	for (unsigned i = 0; i < sizeof(places) / sizeof(*places); i++) {
		int fd = invited(t);

		auth_bytes(bytes, HELLO, 0x5a);
		wire_write(t, fd, bytes, places[i]);
		if (i % 2)
			wire_reset(fd);
		else
			close(fd);
		round_trip(t);
	}
}

TEST(wire_tcp, auth_late, EP_RDM | OURS_ONLY, FI_MSG, "A proof that does not come within FI_TCP_CONN_TIMEOUT ends that connection")
{
	int fd;

	CHECK(!setenv("FI_TCP_CONN_TIMEOUT", is_checked() ? "3000" : "300", 1));
	keyed_pair(t);
	fd = invited(t);
	wire_ends(t, fd);
	round_trip(t);
}

TEST(wire_tcp, auth_does_not_displace, EP_RDM | OURS_ONLY, FI_MSG, "A request in the name of a peer that is connected ends nothing before its proof")
{
	struct buf in, out;
	struct op send, recv;
	uint8_t bytes[128];
	int fd;

	keyed_pair(t);
	in = new_buf(t, 8, 0);
	out = new_buf(t, 8, 3);
	fd = wire_connect(t, t->b.name);
	rdm_bytes(bytes, REQUEST, false, 1, ntohs(((struct sockaddr_in *)t->a.name)->sin_port), 99);
	bytes[FEATURES_AT] |= EXTENSIONS;
	bytes[KEYED_AT] = 1;
	wire_write(t, fd, bytes, 40);
	wire_read(t, fd, bytes, 40);
	CHECK_EQ(bytes[1], RESPONSE);
	wire_write(t, fd, bytes, auth_bytes(bytes, HELLO, 0x5a));
	refused(t, fd);
	recv = op_of(RECV, false, in, FI_ADDR_UNSPEC);
	send = op_of(SEND, false, out, t->a.peer);
	op_post(t, t->b.ep, &recv);
	op_post(t, t->a.ep, &send);
	done(t, t->a.txcq, send.ctx, SENT(false));
	done(t, t->b.rxcq, recv.ctx, RECEIVED(false));
}

// A listener of the test whose port is above that of the endpoint: if both connect, the test's request wins.
static struct listener listen_above(struct side *side)
{
	in_port_t port = ((struct sockaddr_in *)side->name)->sin_port;

	for (unsigned i = 0; i < 500; i++) {
		struct listener at = wire_listen();

		if (ntohs(at.addr.sin_port) > ntohs(port))
			return at;
		close(at.fd);
	}
	SKIP("the endpoint has one of the highest ports");
}

TEST(wire_tcp, auth_crossing, EP_RDM | OURS_ONLY, FI_MSG, "Of several that say they are the peer that is being connected to none takes the place of another: each may prove its key at once")
{
	enum { COUNT = 5 };
	struct listener at;
	struct buf out = new_buf(t, 8, 77);
	struct op op = op_of(SEND, false, out, 0);
	uint8_t bytes[40];
	int fds[COUNT];

	keyed_pair(t);
	at = listen_above(&t->a);
	CHECK_EQ(fi_av_insert(t->a.av, &at.addr, 1, &op.addr, 0, NULL), 1);
	op_post(t, t->a.ep, &op);
	// The endpoint waits for the answer to its request.
	wire_read(t, wire_accept(t, &at), bytes, 40);
	CHECK_EQ(bytes[1], REQUEST);
	for (unsigned i = 0; i < COUNT; i++) {
		fds[i] = wire_connect(t, t->a.name);
		rdm_bytes(bytes, REQUEST, false, 1, ntohs(at.addr.sin_port), 99 + i);
		bytes[FEATURES_AT] |= EXTENSIONS;
		bytes[KEYED_AT] = 1;
		wire_write(t, fds[i], bytes, 40);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		wire_read(t, fds[i], bytes, 40);
		CHECK_EQ(bytes[1], RESPONSE);
		CHECK_EQ(bytes[KEYED_AT], 1);
		wire_silent(t, fds[i]);
	}
}

// Both ends connect at once, while other peers claim to be the other end.
TEST(wire_tcp, auth_crossing_among_others, EP_RDM | OURS_ONLY, FI_MSG, "Endpoints with the same key that begin at the same time communicate, whoever claims to be one of them meanwhile")
{
	struct side *sides[2] = { &t->a, &t->b };
	struct op sends[2], recvs[2];
	uint8_t bytes[40];

	only_tcp(t);
	set_key(t->hints, "job 7");
	env_info(t);
	PAIR(t);
	for (unsigned i = 0; i < 2; i++) {
		recvs[i] = op_of(RECV, false, new_buf(t, 8, 0), FI_ADDR_UNSPEC);
		sends[i] = op_of(SEND, false, new_buf(t, 8, 3), sides[i]->peer);
		op_post(t, sides[i]->ep, &recvs[i]);
	}
	for (unsigned i = 0; i < 2; i++)
		op_post(t, sides[i]->ep, &sends[i]);
	for (unsigned n = 0; n < 40; n++) {
		struct sockaddr_in *claimed = (struct sockaddr_in *)sides[n % 2]->name;
		int fd = wire_connect(t, sides[1 - n % 2]->name);

		rdm_bytes(bytes, REQUEST, false, 1, ntohs(claimed->sin_port), 99);
		bytes[FEATURES_AT] |= EXTENSIONS;
		bytes[KEYED_AT] = 1;
		wire_write(t, fd, bytes, 40);
	}
	for (unsigned i = 0; i < 2; i++) {
		done(t, sides[i]->txcq, sends[i].ctx, SENT(false));
		done(t, sides[i]->rxcq, recvs[i].ctx, RECEIVED(false));
	}
	round_trip(t);
}

TEST(wire_tcp, auth_twice, EP_RDM | OURS_ONLY, FI_MSG, "A proof where none is asked for ends the connection")
{
	uint8_t bytes[128];
	struct wire wire;

	only_tcp(t);
	PAIR(t);
	round_trip(t);
	for (int op = HELLO; op <= REFUSE; op++) {
		wire = rdm_open(t, &t->b, PORT, false);
		wire_write(t, wire.fd, bytes, auth_bytes(bytes, op, 0x5a));
		wire_ends(t, wire.fd);
		close(wire.fd);
	}
	round_trip(t);
}

// ---- Connections of an endpoint

struct call {
	int fd;
	void *ctx;
	fi_addr_t peer;
	uint8_t request[40];
};

// Sends from a to a listener of the test, until the request has arrived.
static struct call called(struct env *t, struct listener *at)
{
	struct call call = { 0 };
	struct op op = op_of(SEND, false, new_buf(t, 8, 77), 0);

	CHECK_EQ(fi_av_insert(t->a.av, &at->addr, 1, &call.peer, 0, NULL), 1);
	op.addr = call.peer;
	op_post(t, t->a.ep, &op);
	call.ctx = op.ctx;
	call.fd = wire_accept(t, at);
	wire_read(t, call.fd, call.request, 40);
	CHECK_EQ(call.request[1], REQUEST);
	return call;
}

static void respond(struct env *t, struct call *call, bool keyed)
{
	uint8_t bytes[40];

	memcpy(bytes, call->request, 40);
	bytes[1] = RESPONSE;
	bytes[32] = 0x81;
	bytes[36] = 1; // another process
	bytes[KEYED_AT] = keyed;
	wire_write(t, call->fd, bytes, 40);
}

static void rejected(struct env *t, struct call *call)
{
	struct fi_cq_err_entry err = failed(t, t->a.txcq, call->ctx, FI_EKEYREJECTED);

	CHECK_EQ(err.err, FI_EKEYREJECTED);
	round_trip(t);
}

TEST(wire_tcp, auth_request_says_so, EP_RDM | OURS_ONLY, FI_MSG, "The request of an endpoint with a key says so, that of one without does not")
{
	struct listener at = wire_listen(), other = wire_listen();
	struct call call;

	keyed_pair(t);
	call = called(t, &at);
	CHECK_EQ(call.request[KEYED_AT], 1);
	CHECK_EQ(call.request[FEATURES_AT] & ~(SHARES | CLOSES), EXTENSIONS);
	pair_close(t);
	free(t->info->ep_attr->auth_key);
	t->info->ep_attr->auth_key = NULL;
	t->info->ep_attr->auth_key_size = 0;
	PAIR(t);
	call = called(t, &other);
	for (unsigned i = 4; i < 24; i++)
		CHECK_EQ(call.request[i], 0);
}

TEST(wire_tcp, auth_keyless_response, EP_RDM | OURS_ONLY, FI_MSG, "A peer that answers as one without a key gets no byte")
{
	struct listener at = wire_listen();
	struct call call;

	keyed_pair(t);
	call = called(t, &at);
	respond(t, &call, false);
	wire_ends(t, call.fd);
	rejected(t, &call);
}

TEST(wire_tcp, auth_reject, EP_RDM | OURS_ONLY, FI_MSG, "A reject for the sake of keys ends the operations at once")
{
	struct listener at = wire_listen();
	struct call call;

	keyed_pair(t);
	call = called(t, &at);
	call.request[1] = REJECT;
	call.request[KEYED_AT] = 1;
	wire_write(t, call.fd, call.request, 40);
	rejected(t, &call);
}

static struct call greeted(struct env *t, uint8_t *hello)
{
	struct listener at = wire_listen();
	struct call call;

	keyed_pair(t);
	call = called(t, &at);
	respond(t, &call, true);
	wire_read(t, call.fd, hello, HEADER + 2 * PROOF);
	CHECK_EQ(hello[0], 3);
	CHECK_EQ(hello[1], HELLO);
	CHECK_EQ(hello[6], HEADER);
	CHECK_EQ(hello[8], HEADER + 2 * PROOF);
	CHECK(!memmem(hello, HEADER + 2 * PROOF, "job 7", 5));
	return call;
}

TEST(wire_tcp, auth_refuse, EP_RDM | OURS_ONLY, FI_MSG, "A peer that refuses the proof ends the operations at once")
{
	uint8_t bytes[128];
	struct call call = greeted(t, bytes);

	wire_write(t, call.fd, bytes, auth_bytes(bytes, REFUSE, 0));
	wire_ends(t, call.fd);
	rejected(t, &call);
}

TEST(wire_tcp, auth_wrong_answer, EP_RDM | OURS_ONLY, FI_MSG, "A peer that answers with a wrong proof is refused and gets no byte")
{
	uint8_t bytes[128];
	struct call call = greeted(t, bytes);

	wire_write(t, call.fd, bytes, auth_bytes(bytes, ANSWER, 0x5a));
	refused(t, call.fd);
	rejected(t, &call);
}

TEST(wire_tcp, auth_reflected, EP_RDM | OURS_ONLY, FI_MSG, "A peer that sends back what it got proves nothing")
{
	uint8_t bytes[128];
	struct call call = greeted(t, bytes);

	bytes[1] = ANSWER;
	wire_write(t, call.fd, bytes, HEADER + 2 * PROOF);
	refused(t, call.fd);
	rejected(t, &call);
}

TEST(wire_tcp, auth_relayed, EP_RDM | OURS_ONLY, FI_MSG, "A peer without the key that lets one with the key answer proves nothing")
{
	uint8_t hello[128], bytes[128];
	struct call call = greeted(t, hello);
	int fd = invited(t);

	wire_write(t, fd, hello, HEADER + 2 * PROOF);
	refused(t, fd);
	wire_write(t, call.fd, bytes, auth_bytes(bytes, REFUSE, 0));
	rejected(t, &call);
}

TEST(wire_tcp, auth_frames_instead, EP_RDM | OURS_ONLY, FI_MSG, "A peer that sends data instead of its proof is refused, and the data received by nobody")
{
	uint8_t bytes[128];
	struct call call = greeted(t, bytes);
	struct buf in = new_buf(t, 8, 0);
	struct op recv = op_of(RECV, false, in, FI_ADDR_UNSPEC);

	op_post(t, t->a.ep, &recv);
	wire_write(t, call.fd, bytes, frame_bytes(bytes, (struct wire_header){ .op = MSG, .payload = 8 }, false, "too soon"));
	refused(t, call.fd);
	failed(t, t->a.txcq, call.ctx, FI_EKEYREJECTED);
	nothing(t->a.rxcq);
	CHECK(untouched(in, 0));
}

TEST(wire_tcp, auth_answer_late, EP_RDM | OURS_ONLY, FI_MSG, "A peer that does not answer the proof within FI_TCP_CONN_TIMEOUT is waited for")
{
	// Under valgrind the connection itself may take longer than 100 ms.
	uint64_t timeout = is_checked() ? 2000 : 100;
	uint8_t bytes[128];
	char text[8];
	struct call call;

	snprintf(text, sizeof(text), "%u", (unsigned)timeout);
	CHECK(!setenv("FI_TCP_CONN_TIMEOUT", text, 1));
	call = greeted(t, bytes);
	for (uint64_t end = now_ms() + timeout + 200; now_ms() < end; nothing(t->a.txcq))
		progress(t);
	wire_silent(t, call.fd);
	wire_write(t, call.fd, bytes, frame_bytes(bytes, (struct wire_header){ .op = MSG, .payload = 8 }, false, "too soon"));
	refused(t, call.fd);
	failed(t, t->a.txcq, call.ctx, FI_EKEYREJECTED);
}

// ---- Connected endpoints

TEST(wire_tcp, auth_msg_wrong_proof, EP_MSG | OURS_ONLY, FI_MSG, "A wrong proof at fi_accept is an error event")
{
	struct fi_eq_err_entry err = { 0 };
	struct fi_eq_cm_entry entry;
	struct cm_listener listener;
	uint8_t bytes[128];
	int fd;

	only_tcp(t);
	set_key(t->hints, "job 7");
	env_info(t);
	listener = cm_listen(t);
	fd = wire_connect(t, listener.addr);
	cm_bytes(bytes, REQUEST, false, NULL, 0);
	memcpy(bytes + 4, "irf\1", 4);
	bytes[KEYED_AT] = 1;
	wire_write(t, fd, bytes, 32);
	wait_event(t, t->eq, FI_CONNREQ, &entry, sizeof(entry));
	cm_accepting(t, entry.info);
	OK(fi_enable(t->b.ep));
	OK(fi_accept(t->b.ep, NULL, 0));
	wire_read(t, fd, bytes, 32);
	CHECK_EQ(bytes[1], RESPONSE);
	CHECK_EQ(bytes[KEYED_AT], 1);
	wire_silent(t, fd);
	CHECK(fi_send(t->b.ep, "x", 1, NULL, 0, NULL) < 0);
	wire_write(t, fd, bytes, auth_bytes(bytes, HELLO, 0x5a));
	wait_eq_err(t, t->eq, &err);
	CHECK(err.fid == &t->b.ep->fid);
	CHECK_EQ(err.err, FI_EKEYREJECTED);
	refused(t, fd);
}

TEST(wire_tcp, auth_msg_keyless_peer, EP_MSG | OURS_ONLY, FI_MSG, "An endpoint with a key that connects to a peer that knows none fails with an error event")
{
	struct listener at = wire_listen();
	struct fi_eq_err_entry err = { 0 };
	uint8_t bytes[128];
	int fd;

	only_tcp(t);
	set_key(t->hints, "job 7");
	env_info(t);
	open_domain(t);
	t->eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	OK(fi_connect(t->a.ep, &at.addr, NULL, 0));
	fd = wire_accept(t, &at);
	wire_read(t, fd, bytes, 32);
	CHECK_EQ(bytes[KEYED_AT], 1);
	wire_write(t, fd, bytes, cm_bytes(bytes, RESPONSE, false, NULL, 0));
	wire_ends(t, fd);
	wait_eq_err(t, t->eq, &err);
	CHECK(err.fid == &t->a.ep->fid);
	CHECK_EQ(err.err, FI_EKEYREJECTED);
}
