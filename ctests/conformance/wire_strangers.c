// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Peers that connect and send nothing, or nothing useful, until the process has no descriptor left: honest peers still
//! get through.
#define _GNU_SOURCE
#include "wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 7, ROOM = 100, STRANGERS = 3 * ROOM };

// From here on the process may open `more` descriptors in addition to those it has.
static void limit_descriptors(unsigned more)
{
	struct rlimit limit;
	int fd = -1;

	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	for (unsigned free = 0; free < more; free += fcntl(fd, F_GETFD) < 0)
		fd++;
	limit.rlim_cur = (rlim_t)fd + 1;
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
}

static unsigned open_descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	if (!dir)
		return ~0u;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

// ---- Other processes, which only use sockets

static void lift_limit(void)
{
	struct rlimit limit;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getrlimit(RLIMIT_NOFILE, &limit))
		_exit(2);
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		_exit(2);
}

static int plain_connect(const struct sockaddr *at, socklen_t len)
{
	struct timeval patience = { .tv_sec = 20 };
	int fd = socket(at->sa_family, SOCK_STREAM, 0);

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) || connect(fd, at, len))
		_exit(3);
	return fd;
}

// Sends a request with that port. Returns the kind of the answer; 255 for none.
static unsigned request(int fd, uint16_t port)
{
	uint8_t bytes[40];

	if (write(fd, bytes, rdm_bytes(bytes, REQUEST, false, 1, port, 99)) != 40)
		return 255;
	return recv(fd, bytes, 40, MSG_WAITALL) == 40 ? bytes[1] : 255;
}

struct crowd {
	pid_t pid;
	int said[2];
};

// Skips the test under a memory checker: memory that threads of the parent hold counts as a leak in a child.
static void needs_children(void)
{
	if (is_checked())
		SKIP("children end with what threads of their parent have");
}

// Starts a process with `count` connections that stay open. Each sends its request first if `requests` is set.
static struct crowd crowd(const void *at, socklen_t len, unsigned count, bool requests)
{
	struct crowd crowd;

	CHECK(!pipe(crowd.said));
	crowd.pid = fork();
	CHECK(crowd.pid >= 0);
	if (crowd.pid)
		return crowd;
	lift_limit();
	for (unsigned i = 0; i < count; i++) {
		int fd = plain_connect(at, len);

		if (requests)
			request(fd, (uint16_t)(20000 + i));
	}
	(void)!write(crowd.said[1], "x", 1);
	for (;;)
		pause();
}

// Waits until all of them have connected.
static void crowd_is_there(struct env *t, struct crowd *crowd)
{
	struct timeval none = { 0 };
	fd_set set;

	for (uint64_t limit = now_ms() + 3 * t->limit_ms;; progress(t)) {
		FD_ZERO(&set);
		FD_SET(crowd->said[0], &set);
		if (select(crowd->said[0] + 1, &set, NULL, NULL, &none) == 1)
			return;
		CHECK(now_ms() < limit);
	}
}

static void disperse(struct crowd *crowd)
{
	kill(crowd->pid, SIGKILL);
	CHECK(waitpid(crowd->pid, NULL, 0) == crowd->pid);
}

// Returns the answer to a process that connects to `at` with this port.
static unsigned newcomer(struct env *t, const struct sockaddr_in *at, uint16_t port)
{
	int status = 0;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		lift_limit();
		_exit((int)request(plain_connect((const void *)at, sizeof(*at)), port));
	}
	ONCE(t, waitpid(pid, &status, WNOHANG) == pid);
	CHECK(WIFEXITED(status));
	return (unsigned)WEXITSTATUS(status);
}

static void many_descriptors(struct env *t)
{
	CHECK(!setenv("FI_TCP_CONN_TIMEOUT", "60000", 1));
	CHECK(!setenv("FI_SHM_CONN_TIMEOUT", "60000", 1));
	(void)t;
}

TEST(wire_tcp, silent_crowd, EP_RDM | OURS_ONLY, FI_MSG, "Peers that say nothing make room for those who do, before their time is over and when there are no descriptors left")
{
	struct crowd strangers;

	needs_children();
	only_tcp(t);
	many_descriptors(t);
	PAIR(t);
	round_trip(t);
	limit_descriptors(ROOM);
	strangers = crowd(t->b.name, sizeof(struct sockaddr_in), STRANGERS, false);
	crowd_is_there(t, &strangers);
	CHECK_EQ(newcomer(t, (const void *)t->b.name, PORT), RESPONSE);
	round_trip(t);
	disperse(&strangers);
}

TEST(wire_tcp, silent_crowd_is_bounded, EP_RDM | OURS_ONLY, FI_MSG, "Of peers that say nothing only so many are kept as leave the process its descriptors")
{
	unsigned before;
	struct crowd strangers;

	only_tcp(t);
	many_descriptors(t);
	PAIR(t);
	round_trip(t);
	limit_descriptors(4 * ROOM);
	before = open_descriptors();
	strangers = crowd(t->b.name, sizeof(struct sockaddr_in), 2 * STRANGERS, false);
	crowd_is_there(t, &strangers);
	turn(t);
	CHECK(open_descriptors() < before + 2 * ROOM);
	disperse(&strangers);
}

static uint64_t cpu_us(void)
{
	struct timespec time;

	CHECK(!clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time));
	return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

TEST(wire_tcp, silent_crowd_holds_no_poll, EP_RDM | OURS_ONLY, FI_MSG, "Thousands of peers that connect and send nothing do not make a poll take long")
{
	enum { CROWD = 3900, MOST_US = 50000 };
	struct crowd strangers;
	struct rlimit limit;
	uint64_t longest = 0;
	struct pollfd there;

	needs_children();
	only_tcp(t);
	CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
	if (limit.rlim_max < 2 * CROWD)
		SKIP("few descriptors");
	limit.rlim_cur = limit.rlim_max;
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	many_descriptors(t);
	t->hints->domain_attr->control_progress = t->hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	env_info(t);
	PAIR(t);
	round_trip(t);
	limit_descriptors(CROWD);
	// The queue of the listener holds all of them.
	strangers = crowd(t->b.name, sizeof(struct sockaddr_in), CROWD, false);
	there = (struct pollfd){ strangers.said[0], POLLIN, 0 };
	CHECK_EQ(poll(&there, 1, (int)t->limit_ms), 1);
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t start = cpu_us(), time;

		progress(t);
		time = cpu_us() - start;
		longest = time > longest ? time : longest;
	}
	if (longest > MOST_US)
		FAIL("a poll took %u us", (unsigned)longest);
	CHECK_EQ(newcomer(t, (const void *)t->b.name, PORT), RESPONSE);
	disperse(&strangers);
}

TEST(wire_tcp, crowd_of_unknown_peers, EP_RDM | OURS_ONLY, FI_MSG, "The last descriptors are for peers of the address vector")
{
	enum { KNOWN = 9 };
	struct sockaddr_in known = { .sin_family = AF_INET, .sin_port = htons(KNOWN), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct crowd strangers;
	fi_addr_t number;

	needs_children();
	only_tcp(t);
	many_descriptors(t);
	PAIR(t);
	CHECK_EQ(fi_av_insert(t->b.av, &known, 1, &number, 0, NULL), 1);
	round_trip(t);
	limit_descriptors(ROOM);
	strangers = crowd(t->b.name, sizeof(struct sockaddr_in), STRANGERS, true);
	crowd_is_there(t, &strangers);
	CHECK_EQ(newcomer(t, (const void *)t->b.name, PORT), REJECT);
	CHECK_EQ(newcomer(t, (const void *)t->b.name, KNOWN), RESPONSE);
	round_trip(t);
	disperse(&strangers);
}

TEST(wire_tcp, silent_crowd_at_listener, EP_MSG | OURS_ONLY, FI_MSG, "Peers that say nothing to a passive endpoint make room, too")
{
	struct cm_listener listener;
	struct crowd strangers;
	union cm_entry in;

	if (!is_tcp(t))
		SKIP("the wire format of tcp");
	many_descriptors(t);
	listener = cm_listen(t);
	limit_descriptors(ROOM);
	strangers = crowd(listener.addr, (socklen_t)listener.addrlen, STRANGERS, false);
	for (uint64_t limit = now_ms() + 3 * t->limit_ms;; progress(t)) {
		char said;
		struct fi_eq_cm_entry entry;
		uint32_t event;
		struct timeval none = { 0 };
		fd_set set;

		if (fi_eq_read(t->eq, &event, &entry, sizeof(entry), 0) == sizeof(entry) && event == FI_CONNREQ)
			fi_freeinfo(entry.info);
		FD_ZERO(&set);
		FD_SET(strangers.said[0], &set);
		if (select(strangers.said[0] + 1, &set, NULL, NULL, &none) == 1 && read(strangers.said[0], &said, 1) == 1)
			break;
		CHECK(now_ms() < limit);
	}
	cm_request(t, &listener, "", 0, &in);
	fi_freeinfo(in.cm.info);
	disperse(&strangers);
}
