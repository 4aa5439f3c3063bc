// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! docs/wire/tcp.md, "Extensions": frames of collectives, valid and invalid, from a simulated member.
#include "collective.h"
#include "wire.h"

enum { COLL = 20, COLL_END = 21, PORT = 7, HEADER = 32, KNOWS = 2 };
#define CAPS (FI_COLLECTIVE | FI_MSG)

// An endpoint with an event queue, and the simulated member.
struct stage {
	struct side side;
	struct listener at;
	struct wire wire;
	struct fid_mc *mc;
};

static void open_stage(struct env *t, struct stage *stage)
{
	memset(stage, 0, sizeof(*stage));
	only_tcp(t);
	t->eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	open_bound_ep(t, &stage->side);
	OK(fi_ep_bind(stage->side.ep, &t->eq->fid, 0));
	OK(fi_enable(stage->side.ep));
	stage->side.namelen = sizeof(stage->side.name);
	OK(fi_getname(&stage->side.ep->fid, stage->side.name, &stage->side.namelen));
}

static uint64_t fnv(uint64_t hash, const void *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * UINT64_C(0x100000001b3);
	return hash;
}

// The group number that the members compute for these addresses when no group of them was formed before.
static uint64_t number_of(const void *const *addrs, unsigned count)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325), before = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct sockaddr_in *addr = addrs[i];
		uint8_t ip[16] = { [10] = 0xff, 0xff };

		memcpy(ip + 12, &addr->sin_addr, 4);
		hash = fnv(fnv(hash, ip, 16), &addr->sin_port, 2);
	}
	return fnv(hash, &before, 8);
}

// Begins to join a group of these addresses.
static uint64_t begin_join(struct stage *stage, struct env *t, const void *const *addrs, unsigned count)
{
	struct fi_av_set_attr attr = { .start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL };
	struct fid_av_set *set;
	fi_addr_t addr;

	OK(fi_av_set(stage->side.av, &attr, &set, NULL));
	keep(t, &set->fid);
	for (unsigned i = 0; i < count; i++) {
		CHECK_EQ(fi_av_insert(stage->side.av, addrs[i], 1, &addr, 0, NULL), 1);
		OK(fi_av_set_insert(set, addr));
	}
	OK(fi_av_set_addr(set, &addr));
	OK(fi_join_collective(stage->side.ep, addr, set, 0, &stage->mc, stage));
	keep(t, &stage->mc->fid);
	return number_of(addrs, count);
}

static void joined(struct env *t, struct stage *stage)
{
	struct fi_eq_entry entry = { 0 };
	uint32_t event = 0;
	ssize_t rc = 0;

	ONCE(t, (rc = fi_eq_read(t->eq, &event, &entry, sizeof(entry), 0)) != -FI_EAGAIN);
	CHECK_RC(rc, sizeof(entry));
	CHECK_EQ(event, FI_JOIN_COMPLETE);
	CHECK(entry.context == stage && entry.fid == &stage->mc->fid);
}

static void join_fails(struct env *t, struct stage *stage, int err)
{
	struct fi_eq_err_entry entry = { 0 };
	uint32_t event = 0;
	ssize_t rc = 0;

	ONCE(t, (rc = fi_eq_read(t->eq, &event, &entry, sizeof(entry), 0)) != -FI_EAGAIN);
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK_EQ(fi_eq_readerr(t->eq, &entry, 0), sizeof(entry));
	CHECK_RC(-entry.err, -err);
	CHECK(entry.context == stage && entry.fid == &stage->mc->fid);
	CHECK_RC(fi_barrier(stage->side.ep, fi_mc_addr(stage->mc), NULL), -FI_EOPBADSTATE);
}

static void put(uint8_t *out, uint64_t value)
{
	memcpy(out, &value, 8);
}

static size_t coll_bytes(uint8_t *out, uint8_t op, uint8_t kind, uint64_t group, uint32_t seq, uint32_t low, size_t payload)
{
	memset(out, 0, HEADER);
	out[0] = 3;
	out[1] = op;
	out[4] = kind;
	out[6] = HEADER;
	put(out + 8, HEADER + payload);
	put(out + 16, group);
	put(out + 24, (uint64_t)seq << 32 | low);
	return HEADER;
}

static void send_coll(struct env *t, struct stage *stage, uint8_t op, uint8_t kind, uint64_t group, uint32_t seq,
		      uint32_t low, const void *payload, size_t len)
{
	uint8_t bytes[HEADER];

	wire_write(t, stage->wire.fd, bytes, coll_bytes(bytes, op, kind, group, seq, low, len));
	if (len)
		wire_write(t, stage->wire.fd, payload, len);
}

static void expect_coll(struct env *t, struct stage *stage, uint8_t op, uint8_t kind, uint64_t group, uint32_t seq,
			uint32_t low, size_t payload)
{
	uint8_t got[HEADER], want[HEADER];

	wire_read(t, stage->wire.fd, got, HEADER);
	coll_bytes(want, op, kind, group, seq, low, payload);
	want[7] = stage->wire.counter++;
	for (unsigned i = 0; i < HEADER; i++)
		if (got[i] != want[i])
			FAIL("byte %u of the header is 0x%02x, not 0x%02x", i, got[i], want[i]);
}

// Connects the simulated member in the right direction.
static void open_wire(struct env *t, struct stage *stage, uint8_t features)
{
	uint8_t bytes[40], private[8];

	stage->wire = (struct wire){ .fd = wire_connect(t, stage->side.name) };
	rdm_bytes(bytes, REQUEST, false, 1, PORT, 4242);
	bytes[33] = features;
	wire_write(t, stage->wire.fd, bytes, 40);
	read_cm(t, stage->wire.fd, RESPONSE, private, 8);
	CHECK_EQ(private[1], features);
}

static void answer(struct env *t, struct stage *stage, uint8_t features)
{
	uint8_t bytes[40], private[8];

	stage->wire = (struct wire){ .fd = wire_accept(t, &stage->at) };
	read_cm(t, stage->wire.fd, REQUEST, private, 8);
	CHECK_EQ(private[1] & ~(SHARES | CLOSES), KNOWS);
	rdm_bytes(bytes, RESPONSE, false, 0x81, private[2] << 8 | private[3], 99);
	bytes[33] = features;
	wire_write(t, stage->wire.fd, bytes, 40);
}

// Forms a group of the endpoint and the simulated member, in that order.
static uint64_t open_both(struct env *t, struct stage *stage, uint8_t features)
{
	const void *addrs[2] = { stage->side.name, &stage->at.addr };
	uint64_t group;

	stage->at = wire_listen();
	addrs[1] = &stage->at.addr;
	group = begin_join(stage, t, addrs, 2);
	answer(t, stage, features);
	return group;
}

static uint64_t join_both(struct env *t, struct stage *stage)
{
	uint64_t group = open_both(t, stage, KNOWS);

	expect_coll(t, stage, COLL, 1 + FI_BARRIER, group, 0, 0, 0);
	send_coll(t, stage, COLL, 1 + FI_BARRIER, group, 0, 0, NULL, 0);
	joined(t, stage);
	return group;
}

TEST(wire_tcp, coll_frames, EP_RDM | OURS_ONLY, CAPS, "Frames of a join and of collectives, to the byte")
{
	struct stage stage;
	uint64_t group, got, mine = 5, theirs = 8, out = 0;
	fi_addr_t to;
	void *ctx;

	open_stage(t, &stage);
	group = join_both(t, &stage);
	to = fi_mc_addr(stage.mc);
	POST(t, fi_allreduce(stage.side.ep, &mine, 1, NULL, &out, NULL, to, FI_UINT64, FI_SUM, 0, ctx = new_ctx()));
	expect_coll(t, &stage, COLL, 1 + FI_ALLREDUCE, group, 1, 1, 8);
	wire_read(t, stage.wire.fd, &got, 8);
	CHECK_EQ(got, 5);
	send_coll(t, &stage, COLL, 1 + FI_ALLREDUCE, group, 1, 1, &theirs, 8);
	done(t, stage.side.txcq, ctx, 0);
	CHECK_EQ(out, 13);
	// A frame that arrives before the call.
	send_coll(t, &stage, COLL, 1 + FI_ALLGATHER, group, 2, 0, &theirs, 8);
	for (unsigned turn = 0; turn < 100; turn++)
		progress(t);
	uint64_t both[2] = { 0 };
	POST(t, fi_allgather(stage.side.ep, &mine, 1, NULL, both, NULL, to, FI_UINT64, 0, ctx = new_ctx()));
	done(t, stage.side.txcq, ctx, 0);
	CHECK_EQ(both[0], 5);
	CHECK_EQ(both[1], 8);
}

TEST(wire_tcp, coll_disagrees, EP_RDM | OURS_ONLY, CAPS, "A frame of another kind, round or length fails its collective; the peer is told, later ones go on")
{
	struct stage stage;
	uint64_t group, mine = 5, theirs[2] = { 8, 9 }, out = 0;
	static const struct {
		uint8_t kind;
		uint32_t round;
		size_t len;
	} wrong[] = { { 1 + FI_ALLTOALL, 1, 8 }, { 1 + FI_REDUCE, 0, 4 }, { 1 + FI_REDUCE, 0, 16 }, { 1 + FI_REDUCE, 7, 8 }, { 254, 0, 8 } };

	open_stage(t, &stage);
	group = join_both(t, &stage);
	for (unsigned i = 0; i < 5; i++) {
		void *ctx = new_ctx();

		POST(t, fi_reduce(stage.side.ep, &mine, 1, NULL, &out, NULL, fi_mc_addr(stage.mc), 0, FI_UINT64, FI_SUM, 0, ctx));
		send_coll(t, &stage, COLL, wrong[i].kind, group, 1 + i, wrong[i].round, theirs, wrong[i].len);
		failed(t, stage.side.txcq, ctx, FI_EINVAL);
		CHECK_EQ(out, 0);
	}
	// Frames of a finished collective are dropped.
	send_coll(t, &stage, COLL, 1 + FI_REDUCE, group, 1, 0, theirs, 16);
	POST(t, fi_barrier(stage.side.ep, fi_mc_addr(stage.mc), &stage));
	expect_coll(t, &stage, COLL, 1 + FI_BARRIER, group, 6, 0, 0);
	send_coll(t, &stage, COLL_END, 0, group, 6, FI_ENOMEM, NULL, 0);
	failed(t, stage.side.txcq, &stage, FI_ENOMEM);
	// A collective whose connection breaks ends in an error.
	POST(t, fi_broadcast(stage.side.ep, &out, 1, NULL, fi_mc_addr(stage.mc), 1, FI_UINT64, 0, &stage));
	wire_reset(stage.wire.fd);
	failed_somehow(t, stage.side.txcq, &stage);
}

TEST(wire_tcp, coll_unextended, EP_RDM | OURS_ONLY, CAPS, "A join with a member that does not know the extensions fails with FI_EOPNOTSUPP; it gets no frame")
{
	struct stage stage;

	open_stage(t, &stage);
	open_both(t, &stage, 0);
	join_fails(t, &stage, FI_EOPNOTSUPP);
	wire_silent(t, stage.wire.fd);
}

TEST(wire_tcp, coll_reset, EP_RDM | OURS_ONLY, CAPS, "A join with a member that goes away fails")
{
	struct stage stage;

	open_stage(t, &stage);
	open_both(t, &stage, KNOWS);
	wire_reset(stage.wire.fd);
	join_fails(t, &stage, FI_ECONNRESET);
}

TEST(wire_tcp, coll_nobody, CORE | OURS_ONLY, 0, "A join with a member that is not there fails after FI_TCP_CONN_TIMEOUT")
{
	struct stage stage;
	struct listener nobody = wire_nobody();
	const void *addrs[2] = { stage.side.name, &nobody.addr };

	setenv("FI_TCP_CONN_TIMEOUT", "300", 1);
	start_as(t, "tcp", FI_EP_RDM, CAPS);
	open_stage(t, &stage);
	begin_join(&stage, t, addrs, 2);
	join_fails(t, &stage, FI_ECONNREFUSED);
}

// ---- Frames that end the connection

static void ends(struct env *t, struct stage *stage, const uint8_t *bytes, size_t len)
{
	wire_write(t, stage->wire.fd, bytes, len);
	wire_ends(t, stage->wire.fd);
	// Other connections still work.
	open_wire(t, stage, KNOWS);
	wire_silent(t, stage->wire.fd);
}

TEST(wire_tcp, coll_bad_headers, EP_RDM | OURS_ONLY, CAPS, "Headers of collectives that contradict themselves end the connection")
{
	struct stage stage;
	uint8_t bytes[HEADER + 8] = { 0 };

	open_stage(t, &stage);
	open_wire(t, &stage, KNOWS);
	coll_bytes(bytes, COLL, 0, 1, 0, 0, 0); // an undefined kind
	ends(t, &stage, bytes, HEADER);
	coll_bytes(bytes, COLL, 255, 1, 0, 0, 0);
	ends(t, &stage, bytes, HEADER);
	for (unsigned size = 16; size <= 40; size += 8) {
		if (size == HEADER)
			continue;
		coll_bytes(bytes, COLL, 1, 1, 0, 0, 0);
		bytes[6] = size;
		ends(t, &stage, bytes, 16);
	}
	coll_bytes(bytes, COLL, 1, 1, 0, 0, 0);
	put(bytes + 8, HEADER - 1);
	ends(t, &stage, bytes, HEADER);
	coll_bytes(bytes, COLL_END, 0, 1, 0, FI_EIO, 8); // a payload
	ends(t, &stage, bytes, HEADER);
	coll_bytes(bytes, COLL_END, 0, 1, 0, 0, 0); // no error
	ends(t, &stage, bytes, HEADER);
	coll_bytes(bytes, COLL_END, 0, 1, 0, 1u << 31, 0);
	ends(t, &stage, bytes, HEADER);
	coll_bytes(bytes, 22, 1, 1, 0, 0, 0);
	ends(t, &stage, bytes, HEADER);
	coll_bytes(bytes, 23, 1, 1, 0, 0, 0);
	ends(t, &stage, bytes, HEADER);
}

TEST(wire_tcp, coll_stranger, EP_RDM | OURS_ONLY, CAPS, "A frame for a group that the peer is no member of ends the connection")
{
	struct stage stage;
	const void *addrs[1] = { stage.side.name };
	uint8_t bytes[HEADER];
	uint64_t group;

	open_stage(t, &stage);
	group = begin_join(&stage, t, addrs, 1);
	joined(t, &stage);
	open_wire(t, &stage, KNOWS);
	coll_bytes(bytes, COLL, 1, group, 1, 0, 0);
	ends(t, &stage, bytes, HEADER);
	coll_bytes(bytes, COLL_END, 0, group, 1, FI_EIO, 0);
	ends(t, &stage, bytes, HEADER);
}

TEST(wire_tcp, coll_unannounced, EP_RDM | OURS_ONLY, CAPS, "A frame of a collective from a peer that has not announced the extensions ends the connection")
{
	struct stage stage;
	uint8_t bytes[HEADER];

	open_stage(t, &stage);
	open_wire(t, &stage, 0);
	coll_bytes(bytes, COLL, 1, 1, 0, 0, 0);
	ends(t, &stage, bytes, HEADER);
}

TEST(wire_tcp, coll_not_served, EP_RDM | OURS_ONLY, FI_MSG, "A frame of a collective to an endpoint without FI_COLLECTIVE ends the connection")
{
	struct stage stage;
	uint8_t bytes[HEADER];

	open_stage(t, &stage);
	open_wire(t, &stage, KNOWS);
	coll_bytes(bytes, COLL, 1, 1, 0, 0, 0);
	ends(t, &stage, bytes, HEADER);
}

// Sends messages from the simulated peer until one is not read.
TEST(wire_tcp, coll_flood, CORE | OURS_ONLY, 0, "Frames for collectives that have not begun are kept up to FI_TCP_MAX_SAVED_BYTES; then the peer waits, and goes on when they begin")
{
	static uint8_t payload[4096];
	uint8_t bytes[HEADER];
	struct stage stage;
	struct buf in;
	void *recv;
	uint64_t group;

	setenv("FI_TCP_MAX_SAVED_BYTES", "20000", 1);
	start_as(t, "tcp", FI_EP_RDM, CAPS);
	open_stage(t, &stage);
	group = join_both(t, &stage);
	in = new_buf(t, 4096, 0);
	recv = new_ctx();
	OK(fi_recv(stage.side.ep, in.mem, in.len, in.desc, FI_ADDR_UNSPEC, recv));
	// Four payloads of 4096 bytes have room; the message comes after the fifth.
	for (unsigned i = 0; i < 5; i++) {
		memset(payload, i + 1, sizeof(payload));
		send_coll(t, &stage, COLL, 1 + FI_BROADCAST, group, 1 + i, 0, payload, sizeof(payload));
	}
	send_frame(t, &stage.wire, (struct wire_header){ .op = MSG, .payload = 8 }, payload);
	for (unsigned turn = 0; turn < 300; turn++)
		progress(t);
	nothing(stage.side.rxcq);
	for (unsigned i = 0; i < 5; i++) {
		struct buf out = new_buf(t, 4096, 0);
		void *ctx = new_ctx();

		POST(t, fi_broadcast(stage.side.ep, out.mem, 4096, out.desc, fi_mc_addr(stage.mc), 1, FI_UINT8, 0, ctx));
		done(t, stage.side.txcq, ctx, 0);
		CHECK_EQ(out.mem[0], i + 1);
		CHECK_EQ(out.mem[4095], i + 1);
	}
	done(t, stage.side.rxcq, recv, FI_RECV | FI_MSG);
	// Frames without payload use memory, too, so the library must stop reading.
	coll_bytes(bytes, COLL, 1, group + 1, 0, 0, 0);
	for (unsigned i = 0; i < 1000; i++) {
		put(bytes + 24, i);
		wire_write(t, stage.wire.fd, bytes, HEADER);
	}
	OK(fi_recv(stage.side.ep, in.mem, in.len, in.desc, FI_ADDR_UNSPEC, recv));
	send_frame(t, &stage.wire, (struct wire_header){ .op = MSG, .payload = 8 }, payload);
	for (unsigned turn = 0; turn < 300; turn++)
		progress(t);
	nothing(stage.side.rxcq);
}

TEST(wire_tcp, coll_random, EP_RDM | OURS_ONLY, CAPS, "Good frames of collectives with random changes end at most their own connection")
{
	uint64_t random = 88172645463325252u, group;
	struct stage stage;
	const void *addrs[1] = { stage.side.name };

	open_stage(t, &stage);
	group = begin_join(&stage, t, addrs, 1);
	joined(t, &stage);
	for (unsigned round = 0; round < 300; round++) {
		uint8_t bytes[HEADER + 64] = { 0 };
		size_t payload = round % 3 * 8;

		open_wire(t, &stage, KNOWS);
		coll_bytes(bytes, COLL + round % 2, 1 + round % 9, group + round % 5, round % 4, round % 7, payload);
		for (unsigned i = 0; i < 1 + round % 3; i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			bytes[random % HEADER] = random >> 24;
		}
		// The library may close the connection meanwhile.
		(void)!send(stage.wire.fd, bytes, HEADER + payload, MSG_NOSIGNAL);
		for (unsigned turn = 0; turn < 5; turn++)
			progress(t);
		wire_reset(stage.wire.fd);
	}
	POST(t, fi_barrier(stage.side.ep, fi_mc_addr(stage.mc), &stage));
	done(t, stage.side.txcq, &stage, 0);
}
