// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Datagrams of DGRAM endpoints: each keeps its bounds, also if many leave and arrive together. Some peers are plain
//! sockets, so that only threads of the library can help: fi_msg(3), fi_endpoint(3), fi_udp(7).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

enum { ROW = 120, LONGEST = 1400, SOCKET_LIMIT_S = 30 };

// Length of datagram `i`: runs of one length, shorter and longer ones between, and some empty ones.
static size_t length(unsigned i)
{
	static const size_t lengths[] = { 8, 8, 8, 8, 3, 8, 8, 100, 100, 100, 0, 100, 1, 1, 0, 0, LONGEST, LONGEST, 700 };

	return lengths[i % (sizeof(lengths) / sizeof(*lengths))];
}

struct row {
	char in[ROW][LONGEST], out[ROW][LONGEST];
};

static struct row *new_row(void)
{
	struct row *row = calloc(1, sizeof(*row));

	CHECK(row);
	for (unsigned i = 0; i < ROW; i++)
		fill(row->out[i], length(i), i + 1);
	return row;
}

static void post_receives(struct env *t, struct row *row, unsigned first, unsigned count)
{
	for (unsigned i = first; i < first + count; i++)
		OK(fi_recv(t->b.ep, row->in[i], LONGEST, NULL, FI_ADDR_UNSPEC, row->in[i]));
}

static void send_row(struct env *t, struct row *row, fi_addr_t dest, unsigned first, unsigned count)
{
	for (unsigned i = first; i < first + count; i++)
		POST(t, fi_send(t->a.ep, row->out[i], length(i), NULL, dest, NULL));
}

static void check_row(struct env *t, struct row *row, unsigned first, unsigned count)
{
	struct fi_cq_tagged_entry comp;

	for (unsigned i = first; i < first + count; i++) {
		wait_comp(t, t->b.rxcq, &comp);
		CHECK(comp.op_context == row->in[i]);
		CHECK_EQ(comp.len, length(i));
		CHECK(filled(row->in[i], length(i), i + 1));
	}
}

TEST(fi_msg, datagrams_in_a_row, EP_DGRAM, FI_MSG, "Messages that are sent in a row keep their order and their bounds")
{
	struct row *row = new_row();

	PAIR(t);
	for (unsigned times = 0; times < 20; times++) {
		post_receives(t, row, 0, ROW);
		for (unsigned i = 0; i < ROW; i += ROW / 4) {
			send_row(t, row, t->a.peer, i, ROW / 4);
			check_row(t, row, i, ROW / 4);
		}
		memset(row->in, 0, sizeof(row->in));
	}
	free(row);
}

TEST(fi_msg, datagrams_before_receives, EP_DGRAM, FI_MSG, "Messages in a row that come before their receives keep order and bounds")
{
	struct row *row = new_row();

	PAIR(t);
	for (unsigned times = 0; times < 10; times++) {
		for (unsigned i = 0; i < ROW; i += ROW / 4) {
			// Some have a receive; the others are kept.
			post_receives(t, row, i, 5);
			send_row(t, row, t->a.peer, i, ROW / 4);
			turn(t);
			post_receives(t, row, i + 5, ROW / 4 - 5);
			check_row(t, row, i, ROW / 4);
		}
		memset(row->in, 0, sizeof(row->in));
	}
	free(row);
}

TEST(fi_cq, datagrams_truncated_in_a_row, EP_DGRAM, FI_MSG, "In a row of messages those that are too long for their receives are reported, each for itself")
{
	enum { COUNT = 60, LEN = 64, SHORT = 5 };
	char in[COUNT][LEN], out[LEN];

	PAIR(t);
	fill(out, LEN, 9);
	for (unsigned times = 0; times < 10; times++) {
		memset(in, 0, sizeof(in));
		for (unsigned i = 0; i < COUNT; i++)
			OK(fi_recv(t->b.ep, in[i], i % 3 ? LEN : SHORT, NULL, FI_ADDR_UNSPEC, in[i]));
		for (unsigned i = 0; i < COUNT; i++)
			POST(t, fi_send(t->a.ep, out, LEN, NULL, t->a.peer, NULL));
		for (unsigned i = 0; i < COUNT; i++) {
			struct fi_cq_err_entry err = { 0 };
			struct fi_cq_tagged_entry comp;

			if (i % 3) {
				wait_comp(t, t->b.rxcq, &comp);
				CHECK(comp.op_context == in[i]);
				CHECK(filled(in[i], LEN, 9));
				continue;
			}
			wait_err(t, t->b.rxcq, &err);
			CHECK(err.op_context == in[i]);
			CHECK_EQ(err.err, FI_ETRUNC);
			CHECK_EQ(err.len, SHORT);
			CHECK_EQ(err.olen, LEN - SHORT);
			CHECK(!memcmp(in[i], out, SHORT) && !in[i][SHORT]);
		}
	}
}

TEST(fi_msg, datagrams_to_buffers_of_several, EP_DGRAM, FI_MSG | FI_MULTI_RECV, "Messages in a row are packed into a buffer of several, and go on behind it")
{
	enum { COUNT = 40, LEN = 32, HELD = 24 };
	static char many[HELD * LEN], in[COUNT][LEN];
	struct iovec iov = { .iov_base = many, .iov_len = sizeof(many) };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = many };
	size_t min = LEN;
	char out[COUNT][LEN];

	PAIR(t);
	OK(fi_setopt(&t->b.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min, sizeof(min)));
	for (unsigned times = 0; times < 5; times++) {
		OK(fi_recvmsg(t->b.ep, &msg, FI_MULTI_RECV));
		for (unsigned i = HELD; i < COUNT; i++)
			OK(fi_recv(t->b.ep, in[i], LEN, NULL, FI_ADDR_UNSPEC, in[i]));
		for (unsigned i = 0; i < COUNT; i++) {
			fill(out[i], LEN, i + times);
			POST(t, fi_send(t->a.ep, out[i], LEN, NULL, t->a.peer, NULL));
		}
		for (unsigned i = 0; i < COUNT; i++) {
			char *at = i < HELD ? many + i * LEN : in[i];
			struct fi_cq_tagged_entry comp;

			wait_comp(t, t->b.rxcq, &comp);
			CHECK(comp.op_context == (i < HELD ? many : in[i]));
			CHECK(comp.buf == at);
			CHECK_EQ(!!(comp.flags & FI_MULTI_RECV), i == HELD - 1);
			CHECK(filled(at, LEN, i + times));
		}
	}
}

// ---- A plain socket as the peer

static int bare_socket(struct env *t, struct sockaddr_in *addr)
{
	struct timeval limit = { .tv_sec = SOCKET_LIMIT_S };
	socklen_t len = sizeof(*addr);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), room = 1 << 20;

	need_ipv4(t);
	if (t->info->ep_attr->protocol != FI_PROTO_UDP)
		SKIP("its peers are no bare sockets");
	*addr = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *) addr, len));
	CHECK(!getsockname(fd, (struct sockaddr *) addr, &len));
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)));
	CHECK(!setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)));
	return fd;
}

static fi_addr_t insert(struct side *side, struct sockaddr_in *addr)
{
	fi_addr_t to = FI_ADDR_NOTAVAIL;

	CHECK_EQ(fi_av_insert(side->av, addr, 1, &to, 0, NULL), 1);
	return to;
}

// The library is not called meanwhile.
static void check_socket(int fd, unsigned first, unsigned count, unsigned step)
{
	char in[LONGEST + 1];

	for (unsigned i = first; i < first + count; i += step) {
		CHECK_EQ(recv(fd, in, sizeof(in), 0), length(i));
		CHECK(filled(in, length(i), i + 1));
	}
}

TEST(fi_msg, datagrams_leave_by_themselves, EP_DGRAM, FI_MSG, "What was sent in a row leaves without another call")
{
	struct row *row = new_row();
	struct sockaddr_in addr;
	int fd = bare_socket(t, &addr);
	fi_addr_t to;

	PAIR(t);
	to = insert(&t->a, &addr);
	for (unsigned i = 0; i < ROW; i += ROW / 4) {
		send_row(t, row, to, i, ROW / 4);
		check_socket(fd, i, ROW / 4, 1);
	}
	close(fd);
	free(row);
}

TEST(fi_endpoint, close_after_datagrams, EP_DGRAM, FI_MSG, "What was sent in a row leaves when the endpoint is closed")
{
	struct row *row = new_row();
	struct sockaddr_in addr;
	int fd = bare_socket(t, &addr);

	PAIR(t);
	send_row(t, row, insert(&t->a, &addr), 0, ROW);
	pair_close(t);
	check_socket(fd, 0, ROW, 1);
	close(fd);
	free(row);
}

TEST(fi_msg, datagrams_to_peers_in_turn, EP_DGRAM, FI_MSG, "Messages in a row to several peers come to each in order")
{
	struct row *row = new_row();
	struct sockaddr_in addr[2];
	int fd[2] = { bare_socket(t, &addr[0]), bare_socket(t, &addr[1]) };
	fi_addr_t to[2];

	PAIR(t);
	for (unsigned i = 0; i < 2; i++)
		to[i] = insert(&t->a, &addr[i]);
	for (unsigned i = 0; i < ROW; i++)
		send_row(t, row, to[i % 2], i, 1);
	for (unsigned i = 0; i < 2; i++) {
		check_socket(fd[i], i, ROW - i, 2);
		close(fd[i]);
	}
	free(row);
}

TEST(fi_msg, datagrams_for_nobody, EP_DGRAM, FI_MSG, "What is sent to a peer that is not there is lost, and nothing else")
{
	struct row *row = new_row();
	struct sockaddr_in addr;
	fi_addr_t nobody;

	close(bare_socket(t, &addr));
	PAIR(t);
	nobody = insert(&t->a, &addr);
	for (unsigned i = 0; i < ROW; i++) {
		POST(t, fi_send(t->a.ep, row->out[i], length(i), NULL, nobody, NULL));
		post_receives(t, row, i, 1);
		send_row(t, row, t->a.peer, i, 1);
		if (i % 7 == 0)
			check_row(t, row, i, 1);
		else if (i % 7 == 1)
			progress(t);
		if (i % 7)
			check_row(t, row, i, 1);
	}
	free(row);
}

TEST(fi_cq, datagrams_for_nobody_wake_once, EP_DGRAM, FI_MSG, "A thread that sleeps is not kept awake by what is said about lost messages")
{
	struct sockaddr_in addr;
	struct fi_cq_tagged_entry comp;
	fi_addr_t nobody;

	close(bare_socket(t, &addr));
	PAIR(t, .cq.wait_obj = FI_WAIT_UNSPEC);
	nobody = insert(&t->a, &addr);
	for (unsigned i = 0; i < 10; i++) {
		clock_t busy;

		POST(t, fi_inject(t->a.ep, "x", 1, nobody));
		busy = clock();
		CHECK_RC(fi_cq_sread(t->a.rxcq, &comp, 1, NULL, 100), -FI_EAGAIN);
		// A tenth of a second, nearly all of it asleep.
		CHECK(is_checked() || clock() - busy < CLOCKS_PER_SEC / 20);
	}
}

// ---- Forked children

// A child that receives with the endpoint and closes it.
static void use_and_close(struct env *t, int fd, const struct sockaddr_in *to)
{
	struct fi_cq_tagged_entry comp;
	char in[LONGEST];

	for (unsigned i = 0; i < 2 * ROW; i++) {
		OK(fi_recv(t->b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in));
		CHECK_EQ(sendto(fd, "x", 1, 0, (const struct sockaddr *) to, sizeof(*to)), 1);
		wait_comp(t, t->b.rxcq, &comp);
	}
	shut(t, &t->b.ep->fid);
}

TEST(fi_endpoint, child_leaves_datagrams_alone, EP_DGRAM, FI_MSG, "A forked child that receives and closes an endpoint does not keep the parent's threads asleep")
{
	struct sockaddr_in addr, to;
	size_t len = sizeof(to);
	int fd = bare_socket(t, &addr), status, wait_fd;
	struct fid *fids[1];
	char in[LONGEST];
	pid_t pid;

	// A thread of the parent would take the child's datagrams, and so would the parent if it made progress meanwhile.
	t->hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	t->hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
	env_info(t);
	PAIR(t, .cq.wait_obj = FI_WAIT_FD);
	fids[0] = &t->b.rxcq->fid;
	// The other one is not to be polled, too.
	shut(t, &t->a.ep->fid);
	OK(fi_getname(&t->b.ep->fid, &to, &len));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		use_and_close(t, fd, &to);
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	OK(fi_control(&t->b.rxcq->fid, FI_GETWAIT, &wait_fd));
	OK(fi_recv(t->b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, in));
	ONCE(t, fi_trywait(t->fabric, fids, 1) == FI_SUCCESS);
	CHECK_EQ(sendto(fd, "x", 1, 0, (struct sockaddr *) &to, sizeof(to)), 1);
	struct pollfd news = { wait_fd, POLLIN, 0 };
	CHECK_EQ(poll(&news, 1, (int) t->limit_ms), 1);
	close(fd);
}
