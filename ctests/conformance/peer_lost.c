// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cq(3): errors of operations whose peer is gone, and the log lines about them.
#define _GNU_SOURCE
#include "wire.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LEN = 64, BIG = 16 << 20 };

// A write that needs an acknowledgement of the peer, which never comes.
static void *unfinished(struct env *t)
{
	struct buf out = new_buf(t, BIG, 1);
	struct op op = op_of(SENDMSG, false, out, t->a.peer);

	op.flags = FI_DELIVERY_COMPLETE;
	op_post(t, t->a.ep, &op);
	return op.ctx;
}

TEST(fi_cq, error_of_lost_peer, EP_RELIABLE | OURS_ONLY, FI_MSG, "An operation whose peer has ended fails with FI_ECONNRESET, and fi_cq_strerror says that the peer ended")
{
	struct fi_cq_err_entry err;
	char text[128], first[4];
	const char *said;
	void *ctx;

	// Manual progress, so that the message does not reach the peer before the peer is closed.
	t->hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	t->hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	env_info(t);
	PAIR(t);
	round_trip(t);
	ctx = unfinished(t);
	shut(t, &t->b.ep->fid);
	err = failed(t, t->a.txcq, ctx, FI_ECONNRESET);
	said = fi_cq_strerror(t->a.txcq, err.prov_errno, err.err_data, text, sizeof(text));
	CHECK_STR(said, text);
	CHECK(strlen(text) > 6 && !strcmp(text + strlen(text) - 6, " ended"));
	// Truncated, terminated, and without a buffer.
	CHECK_STR(fi_cq_strerror(t->a.txcq, err.prov_errno, err.err_data, first, sizeof(first)), text);
	CHECK(!strncmp(first, text, 3) && !first[3]);
	CHECK_STR(fi_cq_strerror(t->a.txcq, err.prov_errno, NULL, NULL, 0), text);
	// The text belongs only to the error number that was read.
	CHECK_STR(fi_cq_strerror(t->a.txcq, FI_EINVAL, NULL, NULL, 0), fi_strerror(FI_EINVAL));
	// The text belongs only to the queue from which the error was read.
	CHECK_STR(fi_cq_strerror(t->a.rxcq == t->a.txcq ? t->b.rxcq : t->a.rxcq, err.prov_errno, NULL, NULL, 0), fi_strerror(err.prov_errno));
}

TEST(wire_tcp, error_names_peer, EP_RDM | OURS_ONLY, FI_MSG, "The text names the address of the peer, and why it was disconnected where that was our doing")
{
	struct dial dial;
	char text[128], want[128];
	struct fi_cq_err_entry err;
	void *ctx;

	only_tcp(t);
	PAIR(t);
	dial = dial_from(t, &t->b, wire_listen());
	dial_answer(t, &dial, &t->b);
	still_open(t, &dial.wire, &t->b);
	ctx = post_send(t, &(struct side){ .ep = t->b.ep, .peer = dial.peer }, new_buf(t, 64 << 20, 1));
	send_frame(t, &dial.wire, (struct wire_header){ .op = CTS, .op_data = 9 }, NULL);
	err = failed(t, t->b.txcq, ctx, FI_ECONNABORTED);
	fi_cq_strerror(t->b.txcq, err.prov_errno, err.err_data, text, sizeof(text));
	snprintf(want, sizeof(want), "127.0.0.1:%u was disconnected: clear-to-send for an unknown index", ntohs(dial.at.addr.sin_port));
	CHECK_STR(text, want);
}

// Captures standard error from here on.
static int capture(void)
{
	int file = memfd_create("log", 0);

	CHECK(file >= 0 && dup2(file, 2) == 2);
	return file;
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

static void logged(struct env *t, const char *prov, bool busy)
{
	int file, before = dup(2);
	unsigned lines;

	CHECK(!setenv("FI_LOG_LEVEL", "warn", 1));
	// Few bytes are kept without a receive.
	CHECK(!setenv("FI_TCP_MAX_SAVED_BYTES", "4096", 1) && !setenv("FI_SHM_MAX_SAVED_BYTES", "4096", 1));
	file = capture();
	start_as(t, prov, FI_EP_RDM, FI_MSG);
	PAIR(t);
	void *ctx[3];

	round_trip(t);
	for (unsigned i = 0; busy && i < 3; i++)
		ctx[i] = unfinished(t);
	shut(t, &t->b.ep->fid);
	for (unsigned i = 0, seen = 0; busy && i < 3; i++) {
		struct fi_cq_err_entry err = { 0 };

		wait_err(t, t->a.txcq, &err);
		CHECK_EQ(err.err, FI_ECONNRESET);
		for (unsigned k = 0; k < 3; k++)
			seen |= (err.op_context == ctx[k]) << k;
		CHECK_EQ(__builtin_popcount(seen), i + 1);
	}
	turn(t);
	lines = lines_with(file, " ended: operations with it fail: 3");
	dup2(before, 2);
	CHECK_EQ(lines, busy);
	CHECK_EQ(lines_with(file, "<warn>"), busy);
}

TEST(fi_tcp, lost_peer_is_logged, CORE | OURS_ONLY, 0, "One warning names a peer that is lost while operations depend on it")
{
	logged(t, "tcp", true);
}

TEST(fi_shm, lost_peer_is_logged, CORE | OURS_ONLY, 0, "One warning names a peer that is lost while operations depend on it")
{
	logged(t, "shm", true);
}

TEST(fi_tcp, idle_peer_is_not_logged, CORE | OURS_ONLY, 0, "A peer that ends when nothing depends on it is no warning")
{
	logged(t, "tcp", false);
}
