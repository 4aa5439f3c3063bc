// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! First contact with a living peer that makes no call: it computes, sleeps or is stopped for longer than the connect
//! timeout. The timeout is for hosts and ports that do not answer.
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"
#include "wire.h"

enum { COUNT = 5, LEN = 64, LARGE = 100000, TIMEOUT = 100 };

static void set_timeouts(const char *ms)
{
	CHECK(!setenv("FI_TCP_CONN_TIMEOUT", ms, 1) && !setenv("FI_SHM_CONN_TIMEOUT", ms, 1));
	CHECK(!setenv("FI_SOCKETS_CONN_TIMEOUT", ms, 1) && !setenv("FI_OFI_RXM_CONN_TIMEOUT", ms, 1));
}

static size_t length(unsigned number)
{
	return number == COUNT - 2 ? LARGE : LEN;
}

// Blocks without a library call until the other process sends a byte.
static void stay_away(struct process *other)
{
	char word;

	CHECK_EQ(read(other->from, &word, 1), 1);
}

static void take_messages(struct env *t, struct side *side)
{
	struct buf in[COUNT];
	struct expected_recv recvs[COUNT];

	for (unsigned i = 0; i < COUNT; i++) {
		in[i] = new_buf(t, length(i), 0);
		recvs[i] = (struct expected_recv){ post_recv(t, side, in[i]), FI_MSG | FI_RECV, length(i) };
	}
	all_done(t, side->rxcq, recvs, COUNT);
	for (unsigned i = 0; i < COUNT; i++)
		CHECK(holds(in[i], length(i), i + 1));
}

static void receive_late(struct env *t, struct process *parent)
{
	struct side side = { 0 };

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	tell(parent, "", 1);
	stay_away(parent);
	take_messages(t, &side);
	tell(parent, "", 1);
	hear(t, parent, &(char){ 0 }, 1);
}

static void manual_progress(struct env *t)
{
	t->hints->domain_attr->control_progress = t->hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	env_info(t);
}

struct sends {
	struct op op[COUNT];
	unsigned taken; // messages that the library has accepted
};

// Posts messages. A layered provider may return -FI_EAGAIN until there is a connection.
static void go_on(struct env *t, struct sends *sends)
{
	for (; sends->taken < COUNT; sends->taken++) {
		ssize_t rc = op_try(t->a.ep, &sends->op[sends->taken]);

		if (rc == -FI_EAGAIN)
			return;
		OK(rc);
	}
}

// Makes progress for several times the timeout and expects no error.
static void outlast_timeout(struct env *t, struct sends *sends)
{
	for (uint64_t end = now_ms() + 3 * TIMEOUT; now_ms() < end; progress(t)) {
		struct fi_cq_err_entry err = { 0 };

		if (t->a.txcq && fi_cq_readerr(t->a.txcq, &err, 0) == 1)
			FAIL("error %s", fi_strerror(err.err));
		if (sends)
			go_on(t, sends);
	}
}

static struct sends send_all(struct env *t)
{
	struct sends sends = { 0 };

	for (unsigned i = 0; i < COUNT; i++)
		sends.op[i] = op_of(SEND, false, new_buf(t, length(i), i + 1), t->a.peer);
	go_on(t, &sends);
	return sends;
}

static void all_sent(struct env *t, struct sends *sends)
{
	ONCE(t, (go_on(t, sends), sends->taken == COUNT));
	for (unsigned i = 0; i < COUNT; i++)
		wait_comp(t, t->a.txcq, NULL);
}

static struct process begin(struct env *t, const char *prov, const char *timeout)
{
	struct process child;
	char word;

	set_timeouts(timeout);
	start_as(t, prov, FI_EP_RDM, FI_MSG);
	manual_progress(t);
	child = start_process(t, receive_late);
	open_end(t, &t->a, FI_WAIT_NONE);
	meet(t, &t->a, &child);
	hear(t, &child, &word, 1);
	return child;
}

static void finish(struct env *t, struct process *child)
{
	char word;

	hear(t, child, &word, 1);
	tell(child, "", 1);
	join_process(t, child);
}

static void busy_peer(struct env *t, const char *prov)
{
	struct process child = begin(t, prov, "100");
	struct sends sends = send_all(t);

	outlast_timeout(t, &sends);
	tell(&child, "", 1);
	all_sent(t, &sends);
	finish(t, &child);
}

static void stopped_peer(struct env *t, const char *prov)
{
	struct process child = begin(t, prov, "100");
	struct sends sends;
	int status;

	CHECK(!kill(child.pid, SIGSTOP));
	CHECK_EQ(waitpid(child.pid, &status, WUNTRACED), child.pid);
	CHECK(WIFSTOPPED(status));
	sends = send_all(t);
	outlast_timeout(t, &sends);
	CHECK(!kill(child.pid, SIGCONT));
	tell(&child, "", 1);
	all_sent(t, &sends);
	finish(t, &child);
}

static void busy_sender(struct env *t, const char *prov)
{
	struct process child = begin(t, prov, "100");
	struct sends sends;

	tell(&child, "", 1);
	sends = send_all(t);
	CHECK_EQ(poll(NULL, 0, 3 * TIMEOUT), 0);
	all_sent(t, &sends);
	finish(t, &child);
}

static void busy_peer_dies(struct env *t, const char *prov)
{
	struct process child = begin(t, prov, "60000");
	struct sends sends;

	sends = send_all(t);
	for (unsigned i = 0; i < 1000; i++)
		progress(t);
	kill_process(&child);
	t->limit_ms = 10000;
	if (!sends.taken) { // the call returns the error
		ssize_t rc = -FI_EAGAIN;

		ONCE(t, (rc = op_try(t->a.ep, &sends.op[0])) != -FI_EAGAIN);
		CHECK(rc < 0);
	}
	for (unsigned i = 0; i < sends.taken; i++)
		failed_somehow(t, t->a.txcq, sends.op[i].ctx);
}

// The settings are read once, so each provider has tests of its own.
#define BUSY(PAGE, PROV)                                                                                               \
	TEST(PAGE, busy_peer, CORE | OURS_ONLY, 0, "Messages to a peer that makes no call for longer than the connect timeout wait, and arrive in their order (" PROV ")") \
	{                                                                                                              \
		busy_peer(t, PROV);                                                                                    \
	}                                                                                                              \
	TEST(PAGE, stopped_peer, CORE | OURS_ONLY, 0, "Messages to a peer that is stopped for longer than the connect timeout wait, and arrive in their order (" PROV ")") \
	{                                                                                                              \
		stopped_peer(t, PROV);                                                                                 \
	}                                                                                                              \
	TEST(PAGE, busy_sender, CORE | OURS_ONLY, 0, "Messages of a process that makes no call after its first send, for longer than the connect timeout, arrive all the same (" PROV ")") \
	{                                                                                                              \
		busy_sender(t, PROV);                                                                                  \
	}                                                                                                              \
	TEST(PAGE, busy_peer_dies, CORE | OURS_ONLY, 0, "If a peer ends that messages wait for without a connection, they end in errors, in their order and before the connect timeout is over (" PROV ")") \
	{                                                                                                              \
		busy_peer_dies(t, PROV);                                                                               \
	}

BUSY(fi_tcp, "tcp")
BUSY(fi_shm, "shm")
BUSY(fi_sm2, "sm2")
BUSY(fi_sockets, "sockets")
BUSY(fi_rxm, "tcp;ofi_rxm")

// ---- Connected endpoints

// Connections that fill the listener's queue before the endpoint of the test connects.
static unsigned fillers;

static void accept_late(struct env *t, struct process *parent)
{
	struct cm_listener listener;
	struct sockaddr_storage addr;
	socklen_t len;
	union cm_entry in;
	int backlog = 0;

	listener = cm_listen(t);
	if (fillers)
		OK_OR_SKIP(fi_control(&listener.pep->fid, FI_BACKLOG, &backlog));
	memcpy(&addr, listener.addr, listener.addrlen);
	len = listener.addrlen;
	for (unsigned i = 0; i < fillers; i++) {
		int fd = socket(addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0); // until the process ends

		CHECK(fd >= 0);
		CHECK(!connect(fd, (struct sockaddr *)&addr, len) || errno == EINPROGRESS);
	}
	tell(parent, listener.addr, sizeof(listener.addr));
	stay_away(parent);
	wait_event(t, t->eq, FI_CONNREQ, &in, sizeof(in));
	cm_accepting(t, in.cm.info);
	OK(fi_enable(t->b.ep));
	OK(fi_accept(t->b.ep, NULL, 0));
	wait_connected(t, t->eq, t->b.ep, NULL);
	hear(t, parent, &(char){ 0 }, 1);
}

static void connect_late(struct env *t)
{
	char addr[sizeof(((struct cm_listener *)0)->addr)];
	struct process child;

	set_timeouts("100");
	child = start_process(t, accept_late);
	hear(t, &child, addr, sizeof(addr));
	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	OK(fi_connect(t->a.ep, addr, NULL, 0));
	outlast_timeout(t, NULL);
	tell(&child, "", 1);
	wait_connected(t, t->eq, t->a.ep, NULL);
	tell(&child, "", 1);
	join_process(t, &child);
}

TEST(fi_cm, connect_busy_listener, EP_MSG | OURS_ONLY, FI_MSG, "fi_connect waits for a listener whose program reads its event queue later than the connect timeout")
{
	connect_late(t);
}

TEST(fi_cm, connect_full_backlog, EP_MSG | OURS_ONLY, FI_MSG, "fi_connect waits for a listener of this host whose backlog is full for longer than the connect timeout")
{
	fillers = 4;
	connect_late(t);
}

TEST(fi_cm, connect_late_request, EP_MSG | OURS_ONLY, FI_MSG, "fi_connect succeeds although its process makes no call for longer than the listener waits for requests")
{
	struct cm_listener listener;
	union cm_entry in;

	set_timeouts("100");
	listener = cm_listen(t);
	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	OK(fi_connect(t->a.ep, listener.addr, NULL, 0));
	CHECK_EQ(poll(NULL, 0, 3 * TIMEOUT), 0);
	wait_event(t, t->eq, FI_CONNREQ, &in, sizeof(in));
	cm_accepting(t, in.cm.info);
	OK(fi_enable(t->b.ep));
	OK(fi_accept(t->b.ep, NULL, 0));
	wait_connected(t, t->eq, t->a.ep, t->b.ep);
}

TEST(fi_cm, connect_listener_dies, EP_MSG | OURS_ONLY, FI_MSG, "If the listener's process ends that fi_connect waits for, an FI_ECONNREFUSED event says so at once")
{
	char addr[sizeof(((struct cm_listener *)0)->addr)];
	struct fi_eq_err_entry err = { 0 };
	struct process child;

	set_timeouts("60000");
	child = start_process(t, accept_late);
	hear(t, &child, addr, sizeof(addr));
	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	OK(fi_connect(t->a.ep, addr, NULL, 0));
	for (unsigned i = 0; i < 1000; i++)
		progress(t);
	kill_process(&child);
	wait_eq_err(t, t->eq, &err);
	CHECK(err.fid == &t->a.ep->fid);
	CHECK_RC(-err.err, -FI_ECONNREFUSED);
}
