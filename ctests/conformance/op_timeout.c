// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! FI_TCP_OP_TIMEOUT, FI_TCP_STALL_REPORT and the same settings of other providers: operations that wait for a living
//! peer that does nothing.
#define _GNU_SOURCE
#include "wire.h"

#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LEN = 64, BIG = 1 << 20 };

static void set(const char *name, const char *value)
{
	// lnx reports receives only; its sends are those of the providers below.
	const char *prefixes[] = {"TCP", "SHM", "OFI_RXM", "OFI_RXD", "LNX"};
	char variable[64];

	for (unsigned i = 0; i < (strcmp(name, "STALL_REPORT") ? 4 : 5); i++) {
		snprintf(variable, sizeof(variable), "FI_%s_%s", prefixes[i], name);
		CHECK(!setenv(variable, value, 1));
	}
}

static void start(struct env *t, const char *prov)
{
	// Few bytes are kept without a receive, so a send with FI_DELIVERY_COMPLETE waits for a receive.
	set("MAX_SAVED_BYTES", "4096");
	start_as(t, prov, FI_EP_RDM, FI_MSG | FI_RMA);
	PAIR(t);
	round_trip(t);
}

static void *waiting_send(struct env *t)
{
	struct op op = op_of(SENDMSG, false, new_buf(t, BIG, 1), t->a.peer);

	op.flags = FI_DELIVERY_COMPLETE;
	op_post(t, t->a.ep, &op);
	return op.ctx;
}

static void times_out(struct env *t, const char *prov)
{
	enum { TIME = 400 };
	struct fi_cq_err_entry err;
	struct buf in;
	char text[256];
	uint64_t since;
	void *recv, *ctx;

	set("OP_TIMEOUT", "400");
	start(t, prov);
	in = new_buf(t, BIG, 0);
	recv = post_recv(t, &t->a, in);
	since = now_ms();
	ctx = waiting_send(t);
	err = failed(t, t->a.txcq, ctx, FI_ETIMEDOUT);
	CHECK(now_ms() >= since + TIME);
	fi_cq_strerror(t->a.txcq, err.prov_errno, err.err_data, text, sizeof(text));
	CHECK(strstr(text, " did not let a send complete within 400 ms"));
	// A receive without a matching message is not affected; another connection can bring the message.
	turn(t); // the peer notices the end of their connection
	nothing(t->a.rxcq);
	post_send(t, &t->b, new_buf(t, LEN, 2));
	done(t, t->a.rxcq, recv, FI_MSG | FI_RECV);
	CHECK(holds(in, LEN, 2));
}

TEST(fi_tcp, op_timeout, CORE | OURS_ONLY, 0, "With FI_TCP_OP_TIMEOUT an operation that waits longer for its peer fails with FI_ETIMEDOUT, and a receive without message does not")
{
	times_out(t, "tcp");
}

TEST(fi_shm, op_timeout, CORE | OURS_ONLY, 0, "With FI_SHM_OP_TIMEOUT an operation that waits longer for its peer fails with FI_ETIMEDOUT, and a receive without message does not")
{
	times_out(t, "shm");
}

TEST(fi_tcp, op_timeout_over_tcp, CORE | OURS_ONLY, 0, "So it is over TCP: reads that are not answered, writes that are not acknowledged, messages that are half there")
{
	struct dial dial;
	struct buf in, local;
	struct op op;
	void *taker, *ctx[2];

	set("OP_TIMEOUT", "400");
	CHECK(!setenv("FI_TCP_SHARED_MEMORY", "0", 1));
	start(t, "tcp");
	local = new_buf(t, LEN, 1);
	dial = dial_from(t, &t->b, wire_listen());
	dial_answer(t, &dial, &t->b);
	still_open(t, &dial.wire, &t->b);
	POST(t, fi_read(t->b.ep, local.mem, LEN, local.desc, dial.peer, 0, 1, ctx[0] = new_ctx()));
	op = op_of(SENDMSG, false, local, dial.peer);
	op.flags = FI_DELIVERY_COMPLETE;
	op_post(t, t->b.ep, &op);
	ctx[1] = op.ctx;
	for (unsigned i = 0, seen = 0; i < 2; i++) {
		struct fi_cq_err_entry err = { 0 };

		wait_err(t, t->b.txcq, &err);
		CHECK_EQ(err.err, FI_ETIMEDOUT);
		seen |= 1u << (err.op_context == ctx[1]);
		CHECK_EQ(seen, i ? 3 : err.op_context == ctx[1] ? 2 : 1);
	}
	// The timeout has ended the connection, too.
	uint8_t byte;
	ssize_t rc = -1;
	ONCE(t, (rc = recv(dial.wire.fd, &byte, 1, MSG_DONTWAIT)) == 0 || rc == 1 || errno != EAGAIN);
	struct wire wire = rdm_open(t, &t->b, 9, false);
	uint8_t bytes[256];

	still_open(t, &wire, &t->b);
	in = new_buf(t, LEN, 0);
	taker = post_recv(t, &t->b, in);
	wire_write(t, wire.fd, bytes, frame_bytes(bytes, (struct wire_header){ .op = MSG, .payload = LEN }, false, NULL));
	wire_write(t, wire.fd, bytes, LEN / 2);
	failed(t, t->b.rxcq, taker, FI_ETIMEDOUT);
	wire_ends(t, wire.fd);
}

static unsigned lines_with(int file, const char *part)
{
	static char text[65536];
	ssize_t len = pread(file, text, sizeof(text) - 1, 0);
	unsigned count = 0;

	CHECK(len >= 0);
	text[len] = 0;
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		count += strstr(line, part) != NULL;
	return count;
}

static void reports(struct env *t, const char *prov)
{
	int file = memfd_create("log", 0), before = dup(2);
	struct buf in;
	void *ctx;

	set("STALL_REPORT", "200");
	CHECK(!setenv("FI_LOG_LEVEL", "warn", 1));
	CHECK(file >= 0 && dup2(file, 2) == 2);
	start(t, prov);
	in = new_buf(t, BIG, 0);
	CHECK_EQ(lines_with(file, "<warn>"), 0);
	ctx = waiting_send(t);
	ONCE(t, lines_with(file, ": operations that wait for it: 1; the oldest, a send of 1048576 bytes, for more than ") == 1);
	// There is one report, and the operation continues when it can.
	for (uint64_t end = now_ms() + 500; now_ms() < end;)
		progress(t);
	done(t, t->b.rxcq, post_recv(t, &t->b, in), FI_MSG | FI_RECV);
	done(t, t->a.txcq, ctx, FI_MSG | FI_SEND);
	CHECK_EQ(lines_with(file, "<warn>"), 1);
	dup2(before, 2);
}

TEST(fi_tcp, stall_report, CORE | OURS_ONLY, 0, "An operation that waits longer than FI_TCP_STALL_REPORT is one warning: what it is, for whom, since when")
{
	reports(t, "tcp");
}

TEST(fi_shm, stall_report, CORE | OURS_ONLY, 0, "An operation that waits longer than FI_SHM_STALL_REPORT is one warning")
{
	reports(t, "shm");
}

TEST(fi_rxm, stall_report, CORE | OURS_ONLY, 0, "An operation that waits longer than FI_OFI_RXM_STALL_REPORT is one warning")
{
	reports(t, "tcp;ofi_rxm");
}

TEST(fi_rxd, stall_report, CORE | OURS_ONLY, 0, "An operation that waits longer than FI_OFI_RXD_STALL_REPORT is one warning")
{
	reports(t, "udp;ofi_rxd");
}

// A receive that names a peer is reported, too: once, with the state of the peer.
static void reports_receives(struct env *t, const char *prov)
{
	int file = memfd_create("log", 0), before = dup(2);
	struct buf in, out;
	struct op named;
	void *sent;

	set("STALL_REPORT", "200");
	CHECK(!setenv("FI_LOG_LEVEL", "warn", 1));
	CHECK(file >= 0 && dup2(file, 2) == 2);
	start_as(t, prov, FI_EP_RDM, FI_MSG | FI_DIRECTED_RECV);
	PAIR(t);
	round_trip(t);
	in = new_buf(t, LEN, 0);
	out = new_buf(t, LEN, 1);
	post_recv(t, &t->a, new_buf(t, LEN, 0)); // from anybody
	named = op_of(RECV, false, in, t->b.peer);
	op_post(t, t->b.ep, &named);
	CHECK_EQ(lines_with(file, "<warn>"), 0);
	ONCE(t, lines_with(file, "receives that wait for peer 0") == 1);
	CHECK_EQ(lines_with(file, "): 1, the oldest for more than 0."), 1);
	CHECK_EQ(lines_with(file, strcmp(prov, "lnx") ? "s; connected" : "s; in use"), 1);
	for (uint64_t end = now_ms() + 500; now_ms() < end;)
		progress(t);
	sent = post_send(t, &t->a, out);
	done(t, t->b.rxcq, named.ctx, FI_MSG | FI_RECV);
	done(t, t->a.txcq, sent, FI_MSG | FI_SEND);
	CHECK_EQ(lines_with(file, "<warn>"), 1);
	dup2(before, 2);
}

TEST(fi_tcp, stall_report_receive, CORE | OURS_ONLY, 0, "A receive that names a peer and waits longer than FI_TCP_STALL_REPORT is one warning, with the peer's state")
{
	reports_receives(t, "tcp");
}

TEST(fi_shm, stall_report_receive, CORE | OURS_ONLY, 0, "A receive that names a peer and waits longer than FI_SHM_STALL_REPORT is one warning")
{
	reports_receives(t, "shm");
}

TEST(fi_rxm, stall_report_receive, CORE | OURS_ONLY, 0, "A receive that names a peer and waits longer than FI_OFI_RXM_STALL_REPORT is one warning")
{
	reports_receives(t, "tcp;ofi_rxm");
}

TEST(fi_rxd, stall_report_receive, CORE | OURS_ONLY, 0, "A receive that names a peer and waits longer than FI_OFI_RXD_STALL_REPORT is one warning")
{
	reports_receives(t, "udp;ofi_rxd");
}

TEST(fi_lnx, stall_report_receive, CORE | OURS_ONLY, 0, "A receive that names a peer and waits longer than FI_LNX_STALL_REPORT is one warning")
{
	reports_receives(t, "lnx");
}

static void reports_connect(struct env *t, const char *prov)
{
	int file = memfd_create("log", 0), before = dup(2);
	struct cm_listener listener;
	union cm_entry in;

	set("STALL_REPORT", "200");
	CHECK(!setenv("FI_TCP_OP_TIMEOUT", "300", 1)); // for operations; fi_connect has no such limit
	CHECK(!setenv("FI_LOG_LEVEL", "warn", 1));
	CHECK(file >= 0 && dup2(file, 2) == 2);
	start_as(t, prov, FI_EP_MSG, FI_MSG);
	listener = cm_listen(t);
	cm_request(t, &listener, "hello", 5, &in);
	CHECK_EQ(lines_with(file, "<warn>"), 0);
	for (uint64_t end = now_ms() + 1000; now_ms() < end;) {
		union cm_entry none;
		uint32_t event;

		CHECK_RC(fi_eq_read(t->eq, &event, &none, sizeof(none), FI_PEEK), -FI_EAGAIN);
	}
	CHECK_EQ(lines_with(file, ": operations that wait for it: 1; the oldest, a connection attempt of 5 bytes, for more than "), 1);
	CHECK_EQ(lines_with(file, "<warn>"), 1);
	cm_accepting(t, in.cm.info);
	OK(fi_accept(t->b.ep, NULL, 0));
	wait_connected(t, t->eq, t->a.ep, t->b.ep);
	dup2(before, 2);
}

TEST(fi_tcp, stall_report_connect, CORE | OURS_ONLY, 0, "fi_connect that waits longer than FI_TCP_STALL_REPORT for a listener that does not answer is one warning, and goes on")
{
	reports_connect(t, "tcp");
}

TEST(fi_sockets, stall_report_connect, CORE | OURS_ONLY, 0, "fi_connect that waits longer than FI_TCP_STALL_REPORT for a listener that does not answer is one warning")
{
	reports_connect(t, "sockets");
}
