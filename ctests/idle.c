// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* An idle process costs nothing. After traffic a process goes to sleep, in each of the possible ways. For a while it
 * uses no CPU time and none of its threads runs; then one message wakes it.
 *
 * Each test has two processes: the peer, which observes the other one through /proc, and the sleeper. All tests run at
 * the same time. IDLE_SECONDS=60 observes for a minute.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "check.h"

enum { ROUNDS = 100, BURSTS = 5, BURST = 60, LEN = 64, KEY = 7, BIG = 8 << 20, PATIENCE_S = 40 };

// Number of messages that each side receives in `traffic`.
enum { MESSAGES = 2 * ROUNDS + BURSTS * BURST };

#define NEED(call) need((call), #call, __LINE__)

static void need(long long result, const char *what, int line)
{
	if (result < 0) {
		printf("idle.c:%d: %s: %s\n", line, what, fi_strerror((int) -result));
		fflush(stdout);
		_exit(1);
	}
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static int at_least = 2;

static int window(void)
{
	const char *seconds = getenv("IDLE_SECONDS");
	int asked = seconds ? atoi(seconds) : 0;

	return asked > at_least ? asked : at_least;
}

// ---- The cost of a process so far

struct cost {
	long long ticks, switches;
	int threads, asleep;
};

static long long field_of(pid_t pid, const char *task, const char *name)
{
	char path[64], line[256];
	long long value = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%.20s/status", (int) pid, task);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file)) {
		if (!strncmp(line, name, strlen(name)) && line[strlen(name)] == ':')
			value = *name == 'S' ? line[strlen(name) + 2] : atoll(line + strlen(name) + 1);
	}
	if (file)
		fclose(file);
	return value;
}

// User and system time of all threads, in clock ticks.
static long long ticks_of(pid_t pid)
{
	char path[64], text[1024] = "";
	long long user = 0, system = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
	file = fopen(path, "r");
	if (file && fgets(text, sizeof(text), file) && strrchr(text, ')'))
		sscanf(strrchr(text, ')') + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld", &user, &system);
	if (file)
		fclose(file);
	return user + system;
}

static struct cost cost_of(pid_t pid)
{
	struct cost cost = {.ticks = ticks_of(pid)};
	char path[64];
	struct dirent *task;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int) pid);
	tasks = opendir(path);
	while (tasks && (task = readdir(tasks))) {
		if (*task->d_name == '.')
			continue;
		cost.threads++;
		cost.asleep += field_of(pid, task->d_name, "State") == 'S';
		cost.switches += field_of(pid, task->d_name, "voluntary_ctxt_switches") +
				 field_of(pid, task->d_name, "nonvoluntary_ctxt_switches");
	}
	if (tasks)
		closedir(tasks);
	return cost;
}

static void nap(double seconds)
{
	struct timespec t = {(time_t) seconds, (long) ((seconds - (double) (time_t) seconds) * 1e9)};

	while (nanosleep(&t, &t))
		;
}

// Checks that the process goes to sleep and stays asleep.
static void check_idle(pid_t pid)
{
	struct cost before = cost_of(pid), after;
	double end = now() + PATIENCE_S;
	int quiet = 0;

	// The process is asleep if it is found asleep several times in a row and has not run in between.
	while (quiet < 5 && now() < end) {
		nap(0.02);
		after = cost_of(pid);
		quiet = after.asleep == after.threads && after.switches == before.switches ? quiet + 1 : 0;
		before = after;
	}
	CHECK(quiet == 5);
	nap(window());
	after = cost_of(pid);
	EQUAL(after.threads, before.threads);
	EQUAL(after.asleep, after.threads);
	EQUAL(after.ticks - before.ticks, 0);
	EQUAL(after.switches - before.switches, 0);
}

// ---- Two processes

struct side {
	enum fi_wait_obj wait;
	enum fi_progress progress;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_wait *set;
	struct fid_cq *cq;
	struct fid_cntr *cntr, *writes;
	struct fid_eq *eq;
	struct fid_av *av;
	struct fid_ep *ep;
	struct fid_mr *mr;
	fi_addr_t peer;
	int pipe;
	char in[LEN], out[LEN], memory[LEN];
};

static void tell(struct side *s, const void *bytes, size_t len)
{
	if (write(s->pipe, bytes, len) != (ssize_t) len)
		_exit(1);
}

static void hear(struct side *s, void *bytes, size_t len)
{
	if (recv(s->pipe, bytes, len, MSG_WAITALL) != (ssize_t) len)
		_exit(1);
}

static void open_info(struct side *s, enum fi_ep_type type)
{
	struct fi_info *hints = fi_allocinfo();

	hints->caps = FI_MSG | FI_RMA;
	hints->mode = ~0ULL;
	hints->ep_attr->type = type;
	hints->domain_attr->progress = s->progress;
	hints->fabric_attr->prov_name = strdup("tcp");
	NEED(fi_getinfo(FI_VERSION(2, 0), "127.0.0.1", NULL, FI_SOURCE, hints, &s->info));
	fi_freeinfo(hints);
	NEED(fi_fabric(s->info->fabric_attr, &s->fabric, NULL));
	NEED(fi_domain(s->fabric, s->info, &s->domain, NULL));
}

static void open_rdm(struct side *s)
{
	struct fi_cq_attr cq = {.wait_obj = s->wait, .format = FI_CQ_FORMAT_CONTEXT};
	struct fi_cntr_attr cntr = {.wait_obj = s->wait == FI_WAIT_NONE ? FI_WAIT_NONE : FI_WAIT_UNSPEC};
	struct fi_wait_attr set = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_av_attr av = {};
	struct sockaddr_in mine, theirs;
	size_t len = sizeof(mine);

	open_info(s, FI_EP_RDM);
	if (s->wait == FI_WAIT_SET) {
		NEED(fi_wait_open(s->fabric, &set, &s->set));
		cq.wait_set = s->set;
	}
	NEED(fi_cq_open(s->domain, &cq, &s->cq, NULL));
	NEED(fi_cntr_open(s->domain, &cntr, &s->cntr, NULL));
	NEED(fi_cntr_open(s->domain, &cntr, &s->writes, NULL));
	NEED(fi_av_open(s->domain, &av, &s->av, NULL));
	NEED(fi_endpoint(s->domain, s->info, &s->ep, NULL));
	NEED(fi_ep_bind(s->ep, &s->av->fid, 0));
	NEED(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV));
	NEED(fi_ep_bind(s->ep, &s->cntr->fid, FI_RECV));
	NEED(fi_ep_bind(s->ep, &s->writes->fid, FI_REMOTE_WRITE));
	NEED(fi_enable(s->ep));
	NEED(fi_mr_reg(s->domain, s->memory, LEN, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &s->mr, NULL));
	NEED(fi_getname(&s->ep->fid, &mine, &len));
	tell(s, &mine, sizeof(mine));
	hear(s, &theirs, sizeof(theirs));
	CHECK(fi_av_insert(s->av, &theirs, 1, &s->peer, 0, NULL) == 1);
	fi_freeinfo(s->info);
}

// Polls until there is one entry.
static void *spin(struct side *s)
{
	struct fi_cq_entry entry = {};
	double end = now() + PATIENCE_S;
	ssize_t ret;

	do {
		ret = fi_cq_read(s->cq, &entry, 1);
	} while (ret == -FI_EAGAIN && now() < end);
	NEED(ret);
	return entry.op_context;
}

#define POST(s, call) \
	do { \
		ssize_t posted; \
		while ((posted = (call)) == -FI_EAGAIN) \
			fi_cq_read((s)->cq, NULL, 0); \
		need(posted, #call, __LINE__); \
	} while (0)

static void send_one(struct side *s)
{
	POST(s, fi_send(s->ep, s->out, LEN, NULL, s->peer, s->out));
}

// Exchanges messages, more than one at a time, to exercise everything that speeds up traffic.
static void traffic(struct side *s)
{
	for (int i = 0; i < ROUNDS; i++) {
		int left = 4;

		POST(s, fi_recv(s->ep, s->in, LEN, NULL, FI_ADDR_UNSPEC, s->in));
		POST(s, fi_recv(s->ep, s->in, LEN, NULL, FI_ADDR_UNSPEC, s->in));
		send_one(s);
		send_one(s);
		while (left--)
			spin(s);
	}
	// Bursts that are long enough to be gathered, and flushed by a thread if necessary.
	for (int i = 0; i < BURSTS; i++) {
		int left = 2 * BURST;

		for (int n = 0; n < BURST; n++)
			POST(s, fi_recv(s->ep, s->in, LEN, NULL, FI_ADDR_UNSPEC, s->in));
		for (int n = 0; n < BURST; n++)
			POST(s, fi_send(s->ep, s->out, LEN, NULL, s->peer, s->out));
		while (left--)
			spin(s);
	}
	POST(s, fi_recv(s->ep, s->in, LEN, NULL, FI_ADDR_UNSPEC, s->in));
}

static void make_pair(struct side *peer, struct side *sleeper)
{
	int pipes[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pipes))
		_exit(1);
	peer->pipe = pipes[0];
	sleeper->pipe = pipes[1];
	alarm((unsigned) (2 * PATIENCE_S + window()));
}

// Default part of the peer: traffic, observation of the sleeper, one message, and its answer.
static void watch(struct side *s, pid_t pid)
{
	traffic(s);
	check_idle(pid);
	send_one(s);
	// The completion of the send and the answer, in either order.
	spin(s);
	spin(s);
}

static void answer(struct side *s)
{
	send_one(s);
	while (spin(s) != s->out)
		;
}

static void run(enum fi_wait_obj wait, enum fi_progress progress, void (*peer_does)(struct side *, pid_t),
		void (*sleeper_does)(struct side *))
{
	struct side peer = {.wait = FI_WAIT_NONE, .progress = FI_PROGRESS_MANUAL};
	struct side sleeper = {.wait = wait, .progress = progress};
	char over;
	pid_t pid;
	int status;

	// The library checks once, after a sixth of FI_TCP_PEER_TIMEOUT without traffic, what the peer has
	// acknowledged, and after the other settings whether operations are stalled. Neither check should happen during
	// the observation.
	setenv("FI_TCP_PEER_TIMEOUT", "3600000", 0);
	setenv("FI_TCP_STALL_REPORT", "3600000", 0);
	setenv("FI_SHM_STALL_REPORT", "3600000", 0);
	make_pair(&peer, &sleeper);
	pid = fork();
	if (!pid) {
		close(peer.pipe);
		alarm((unsigned) (2 * PATIENCE_S + window()));
		open_rdm(&sleeper);
		if (peer_does == watch)
			traffic(&sleeper);
		sleeper_does(&sleeper);
		tell(&sleeper, "", 1);
		fflush(stdout);
		_exit(failures != 0);
	}
	close(sleeper.pipe);
	open_rdm(&peer);
	peer_does(&peer, pid);
	hear(&peer, &over, 1);
	waitpid(pid, &status, 0);
	EQUAL(status, 0);
}

// ---- Ways to sleep

static void in_sread(struct side *s)
{
	struct fi_cq_entry entry = {};

	EQUAL(fi_cq_sread(s->cq, &entry, 1, NULL, -1), 1);
	CHECK(entry.op_context == s->in);
	answer(s);
}

static void on_the_descriptor(struct side *s)
{
	struct fi_cq_entry entry = {};
	struct fid *fids[] = {&s->cq->fid};
	struct pollfd polls = {.events = POLLIN};
	ssize_t ret;

	NEED(fi_control(&s->cq->fid, FI_GETWAIT, &polls.fd));
	while ((ret = fi_cq_read(s->cq, &entry, 1)) == -FI_EAGAIN) {
		if (!fi_trywait(s->fabric, fids, 1))
			EQUAL(poll(&polls, 1, -1), 1);
	}
	EQUAL(ret, 1);
	answer(s);
}

static void on_a_counter(struct side *s)
{
	// One more than have arrived.
	NEED(fi_cntr_wait(s->cntr, MESSAGES + 1, -1));
	spin(s);
	answer(s);
}

static void in_a_wait_set(struct side *s)
{
	struct fi_cq_entry entry = {};
	ssize_t ret;

	while ((ret = fi_cq_read(s->cq, &entry, 1)) == -FI_EAGAIN)
		NEED(fi_wait(s->set, -1));
	EQUAL(ret, 1);
	answer(s);
}

// ---- One thread sleeps while another one polls and then stops: events that polling took over wake the sleeper again.

static void *sleep_until_written(void *arg)
{
	struct side *s = arg;

	NEED(fi_cntr_wait(s->writes, 1, -1));
	return NULL;
}

static void sleep_beside_traffic(struct side *s)
{
	pthread_t sleeper;

	EQUAL(pthread_create(&sleeper, NULL, sleep_until_written, s), 0);
	traffic(s);
	EQUAL(pthread_join(sleeper, NULL), 0);
}

static void watch_and_write(struct side *s, pid_t pid)
{
	traffic(s);
	check_idle(pid);
	POST(s, fi_write(s->ep, s->out, LEN, NULL, s->peer, 0, KEY, s->out));
	CHECK(spin(s) == s->out);
}

// ---- The application does not poll: only the progress thread serves the peer.

static void elsewhere(struct side *s)
{
	char over;

	hear(s, &over, 1);
}

static void watch_and_read(struct side *s, pid_t pid)
{
	traffic(s);
	check_idle(pid);
	POST(s, fi_read(s->ep, s->out, LEN, NULL, s->peer, 0, KEY, s->out));
	CHECK(spin(s) == s->out);
	check_idle(pid);
	tell(s, "", 1);
}

static void traffic_and_elsewhere(struct side *s)
{
	traffic(s);
	elsewhere(s);
}

// ---- Something is wrong, and still there is nothing to do.

// The peer dies; a second peer wakes the sleeper at the end.
static void watch_after_a_death(struct side *s, pid_t pid)
{
	struct side first = {.wait = FI_WAIT_NONE, .progress = FI_PROGRESS_MANUAL, .pipe = s->pipe};
	struct sockaddr_in addr;
	pid_t child = fork();

	if (!child) {
		open_rdm(&first);
		traffic(&first);
		kill(getpid(), SIGKILL);
	}
	waitpid(child, NULL, 0);
	check_idle(pid);
	hear(s, &addr, sizeof(addr));
	CHECK(fi_av_insert(s->av, &addr, 1, &s->peer, 0, NULL) == 1);
	send_one(s);
	CHECK(spin(s) == s->out);
}

static void sread_after_a_death(struct side *s)
{
	struct sockaddr_in mine, theirs;
	size_t len = sizeof(mine);
	struct fi_cq_entry entry = {};

	NEED(fi_getname(&s->ep->fid, &mine, &len));
	tell(s, &mine, len);
	hear(s, &theirs, sizeof(theirs));
	CHECK(fi_av_insert(s->av, &theirs, 1, &s->peer, 0, NULL) == 1);
	traffic(s);
	tell(s, &mine, len);
	EQUAL(fi_cq_sread(s->cq, &entry, 1, NULL, -1), 1);
}

// The peer does not read: part of a large message is still unsent.
static void watch_a_writer(struct side *s, pid_t pid)
{
	char *large = calloc(1, BIG), go;

	traffic(s);
	hear(s, &go, 1);
	check_idle(pid);
	// A small message matches the last receive of `traffic`.
	POST(s, fi_recv(s->ep, large, BIG, NULL, FI_ADDR_UNSPEC, large));
	CHECK(spin(s) == s->in);
	CHECK(spin(s) == large);
	free(large);
}

static void sread_as_writer(struct side *s)
{
	char *large = calloc(1, BIG);
	struct fi_cq_entry entry = {};

	traffic(s);
	answer(s);
	POST(s, fi_send(s->ep, large, BIG, NULL, s->peer, large));
	tell(s, "", 1);
	EQUAL(fi_cq_sread(s->cq, &entry, 1, NULL, -1), 1);
	CHECK(entry.op_context == large);
	free(large);
}

// The peer sends more messages than the sleeper keeps without posted receives.
static void watch_a_full_one(struct side *s, pid_t pid)
{
	enum { MANY = 400, KIB = 16 };
	char *out = calloc(1, KIB << 10);
	int sent = 0;
	double end;

	traffic(s);
	// The first message matches the last receive of `traffic`. Continues as long as another send succeeds within
	// the limit.
	for (end = now() + 0.5; sent < MANY && now() < end; ) {
		if (!fi_send(s->ep, out, sent ? KIB << 10 : LEN, NULL, s->peer, out)) {
			end = now() + 0.5;
			sent++;
		}
		fi_cq_read(s->cq, NULL, 0);
	}
	check_idle(pid);
	tell(s, &sent, sizeof(sent));
	while (sent--)
		spin(s);
	free(out);
}

static void sleep_while_full(struct side *s)
{
	char *large = calloc(1, 16 << 10);
	struct fid *fids[] = {&s->cq->fid};
	struct pollfd polls[] = {{.events = POLLIN}, {.fd = s->pipe, .events = POLLIN}};
	int sent;

	traffic(s);
	CHECK(spin(s) == s->in);
	NEED(fi_control(&s->cq->fid, FI_GETWAIT, &polls[0].fd));
	do {
		fi_cq_read(s->cq, NULL, 0);
		if (!fi_trywait(s->fabric, fids, 1))
			poll(polls, 2, -1);
	} while (!polls[1].revents);
	hear(s, &sent, sizeof(sent));
	while (--sent) {
		POST(s, fi_recv(s->ep, large, 16 << 10, NULL, FI_ADDR_UNSPEC, large));
		CHECK(spin(s) == large);
	}
	free(large);
}

// ---- Event queues

static void listen_and_sread(struct side *s)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
	struct fid_pep *pep;
	struct sockaddr_in mine;
	size_t len = sizeof(mine);
	struct fi_eq_cm_entry entry;
	uint32_t event;

	open_info(s, FI_EP_MSG);
	NEED(fi_eq_open(s->fabric, &attr, &s->eq, NULL));
	NEED(fi_passive_ep(s->fabric, s->info, &pep, NULL));
	NEED(fi_pep_bind(pep, &s->eq->fid, 0));
	NEED(fi_listen(pep));
	NEED(fi_getname(&pep->fid, &mine, &len));
	tell(s, &mine, sizeof(mine));
	for (int i = 0; i < 3; i++) {
		EQUAL(fi_eq_sread(s->eq, &event, &entry, sizeof(entry), -1, 0), sizeof(entry));
		EQUAL(event, FI_CONNREQ);
		NEED(fi_reject(pep, entry.info->handle, NULL, 0));
		fi_freeinfo(entry.info);
	}
}

static void connect_once(struct side *s, struct sockaddr_in *addr)
{
	struct fi_eq_err_entry error = {};
	uint32_t event;

	NEED(fi_endpoint(s->domain, s->info, &s->ep, NULL));
	NEED(fi_ep_bind(s->ep, &s->eq->fid, 0));
	NEED(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_RECV));
	NEED(fi_enable(s->ep));
	NEED(fi_connect(s->ep, addr, NULL, 0));
	EQUAL(fi_eq_sread(s->eq, &event, &error, sizeof(error), 1000 * PATIENCE_S, 0), -FI_EAVAIL);
	EQUAL(fi_eq_readerr(s->eq, &error, 0), sizeof(error));
	EQUAL(error.err, FI_ECONNREFUSED);
	NEED(fi_close(&s->ep->fid));
}

static void sread_of_an_event_queue(void)
{
	struct side peer = {.progress = FI_PROGRESS_MANUAL}, sleeper = {.progress = FI_PROGRESS_MANUAL};
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_UNSPEC};
	struct fi_cq_attr cq = {.wait_obj = FI_WAIT_NONE};
	struct sockaddr_in addr;
	int status;
	pid_t pid;

	make_pair(&peer, &sleeper);
	pid = fork();
	if (!pid) {
		alarm((unsigned) (2 * PATIENCE_S + window()));
		listen_and_sread(&sleeper);
		fflush(stdout);
		_exit(failures != 0);
	}
	open_info(&peer, FI_EP_MSG);
	NEED(fi_eq_open(peer.fabric, &eq, &peer.eq, NULL));
	NEED(fi_cq_open(peer.domain, &cq, &peer.cq, NULL));
	hear(&peer, &addr, sizeof(addr));
	// The listener is idle before any request, and after two connections.
	check_idle(pid);
	connect_once(&peer, &addr);
	connect_once(&peer, &addr);
	check_idle(pid);
	connect_once(&peer, &addr);
	fi_freeinfo(peer.info);
	waitpid(pid, &status, 0);
	EQUAL(status, 0);
}

// ---- The tests

#define SLEEPS(name, wait, how) \
	static void name(void) { run(wait, FI_PROGRESS_MANUAL, watch, how); } \
	static void name##_auto(void) { run(wait, FI_PROGRESS_AUTO, watch, how); } \
	static void name##_over_sockets(void) { over_sockets(FI_PROGRESS_MANUAL, wait, watch, how); }

static void over_sockets(enum fi_progress progress, enum fi_wait_obj wait, void (*peer_does)(struct side *, pid_t),
			 void (*sleeper_does)(struct side *))
{
	setenv("FI_TCP_SHARED_MEMORY", "0", 1);
	run(wait, progress, peer_does, sleeper_does);
}

SLEEPS(sread, FI_WAIT_UNSPEC, in_sread)
SLEEPS(poll_of_a_descriptor, FI_WAIT_FD, on_the_descriptor)
SLEEPS(wait_for_a_counter, FI_WAIT_UNSPEC, on_a_counter)
SLEEPS(wait_set, FI_WAIT_SET, in_a_wait_set)

static void one_sleeps_beside_traffic(void)
{
	run(FI_WAIT_UNSPEC, FI_PROGRESS_MANUAL, watch_and_write, sleep_beside_traffic);
}

static void nobody_looks(void)
{
	run(FI_WAIT_NONE, FI_PROGRESS_AUTO, watch_and_read, traffic_and_elsewhere);
}

static void nobody_looks_over_sockets(void)
{
	over_sockets(FI_PROGRESS_AUTO, FI_WAIT_NONE, watch_and_read, traffic_and_elsewhere);
}

// No message follows: checks only that no thread of the library wakes up periodically.
static void watch_only(struct side *s, pid_t pid)
{
	traffic(s);
	check_idle(pid);
	tell(s, "", 1);
}

static void the_program_does_something_else(void)
{
	over_sockets(FI_PROGRESS_MANUAL, FI_WAIT_NONE, watch_only, traffic_and_elsewhere);
}

static void the_peer_is_dead(void)
{
	run(FI_WAIT_UNSPEC, FI_PROGRESS_MANUAL, watch_after_a_death, sread_after_a_death);
}

static void the_peer_is_dead_auto(void)
{
	run(FI_WAIT_UNSPEC, FI_PROGRESS_AUTO, watch_after_a_death, sread_after_a_death);
}

// The limit on kept bytes also keeps the sleeper from storing the message it cannot match.
static void the_peer_does_not_read(void)
{
	setenv("FI_TCP_MAX_SAVED_BYTES", "65536", 1);
	run(FI_WAIT_UNSPEC, FI_PROGRESS_MANUAL, watch_a_writer, sread_as_writer);
}

static void the_peer_does_not_read_auto(void)
{
	setenv("FI_TCP_MAX_SAVED_BYTES", "65536", 1);
	run(FI_WAIT_UNSPEC, FI_PROGRESS_AUTO, watch_a_writer, sread_as_writer);
}

static void no_room_for_more(void)
{
	setenv("FI_TCP_MAX_SAVED_BYTES", "65536", 1);
	run(FI_WAIT_FD, FI_PROGRESS_MANUAL, watch_a_full_one, sleep_while_full);
}

static void no_room_for_more_auto(void)
{
	setenv("FI_TCP_MAX_SAVED_BYTES", "65536", 1);
	run(FI_WAIT_FD, FI_PROGRESS_AUTO, watch_a_full_one, sleep_while_full);
}

// Number of times that the flush thread has run in this process.
static long long runs_of_the_flusher(void)
{
	char path[64], comm[32] = "";
	struct dirent *task;
	DIR *tasks = opendir("/proc/self/task");
	long long runs = 0;

	while (tasks && (task = readdir(tasks))) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%.20s/comm", task->d_name);
		file = fopen(path, "r");
		if (file && fgets(comm, sizeof(comm), file) && !strcmp(comm, "fi-flush\n"))
			runs += field_of(getpid(), task->d_name, "voluntary_ctxt_switches");
		if (file)
			fclose(file);
	}
	if (tasks)
		closedir(tasks);
	return runs;
}

// Rounds of messages that each require an answer. Receives are posted ahead, because a receive that finds its message
// waiting sends the answer by itself. Surplus completions count for the next round, also of the next call.
static void answered_rounds(struct side *s, int rounds, int *left)
{
	struct fi_cq_entry entries[8];
	double end = now() + PATIENCE_S;

	for (int i = 0; i < rounds; i++) {
		struct iovec iov = {s->out, LEN};
		struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = s->peer};

		POST(s, fi_recv(s->ep, s->in, LEN, NULL, FI_ADDR_UNSPEC, s->in));
		POST(s, fi_sendmsg(s->ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
		for (*left += 2; *left > 0 && now() < end;) {
			ssize_t n = fi_cq_read(s->cq, entries, 8);

			if (n != -FI_EAGAIN)
				NEED(n);
			*left -= n > 0 ? (int) n : 0;
		}
	}
	CHECK(*left <= 0);
}

// Answers leave with the poll that reads the request, so the flush thread is not woken for them.
static void answered_traffic(struct side *s)
{
	long long before;
	int left = 0;

	POST(s, fi_recv(s->ep, s->in, LEN, NULL, FI_ADDR_UNSPEC, s->in));
	POST(s, fi_recv(s->ep, s->in, LEN, NULL, FI_ADDR_UNSPEC, s->in));
	// The first message waits for the connection and is held back.
	answered_rounds(s, 1, &left);
	before = runs_of_the_flusher();
	answered_rounds(s, 10 * ROUNDS, &left);
	CHECK(runs_of_the_flusher() - before < ROUNDS / 2);
}

static void peer_answers(struct side *s, pid_t pid)
{
	(void) pid;
	answered_traffic(s);
	tell(s, "", 1);
}

static void sleeper_answers(struct side *s)
{
	char over;

	answered_traffic(s);
	hear(s, &over, 1);
}

static void answers_wake_no_thread(void)
{
	over_sockets(FI_PROGRESS_MANUAL, FI_WAIT_NONE, peer_answers, sleeper_answers);
}

// A timeout for the connection has no effect after the connection has succeeded.
static void time_limits_end_with_what_they_limit(void)
{
	setenv("FI_TCP_CONN_TIMEOUT", "3000", 1);
	at_least = 4;
	run(FI_WAIT_UNSPEC, FI_PROGRESS_AUTO, watch, in_sread);
}

static const struct test tests[] = {
	TEST(time_limits_end_with_what_they_limit), TEST(sread), TEST(sread_auto), TEST(poll_of_a_descriptor), TEST(poll_of_a_descriptor_auto),
	TEST(wait_for_a_counter), TEST(wait_for_a_counter_auto), TEST(wait_set), TEST(wait_set_auto),
	TEST(one_sleeps_beside_traffic), TEST(nobody_looks), TEST(the_peer_is_dead), TEST(the_peer_is_dead_auto), TEST(the_peer_does_not_read),
	TEST(the_peer_does_not_read_auto), TEST(no_room_for_more), TEST(no_room_for_more_auto),
	TEST(sread_of_an_event_queue), TEST(sread_over_sockets), TEST(poll_of_a_descriptor_over_sockets),
	TEST(wait_for_a_counter_over_sockets), TEST(wait_set_over_sockets), TEST(nobody_looks_over_sockets),
	TEST(the_program_does_something_else), TEST(answers_wake_no_thread),
};

int main(int argc, char **argv)
{
	enum { COUNT = sizeof(tests) / sizeof(*tests) };
	int failed = 0, status;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i < COUNT; i++) {
		char *one[] = {argv[0], (char *) tests[i].name};

		if (wanted(tests[i].name, argc, argv) && !fork())
			_exit(run_tests(tests, COUNT, 2, one));
	}
	while (wait(&status) > 0)
		failed += status != 0;
	printf("%d failed\n", failed);
	return failed != 0;
}
