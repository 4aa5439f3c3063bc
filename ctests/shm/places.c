// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Other users; forked children; systems in which something is missing or forbidden.
#define _GNU_SOURCE
#include "side.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct board {
	struct meeting at;
	atomic_uint stage;
	int error;
} *board;

static char folder[64];
enum { NOBODY = 65534, NO_COPY = 1, NO_MEMORY = 2 };

// One of the two processes, and its setup before the first library call.
struct half {
	unsigned which, forbid;
	bool (*before)(void);
	bool alone; // the other cannot be reached: an error must be reported in time
};

// ---- Forbidding system calls

static void forbid(unsigned what)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, what & NO_COPY ? SYS_process_vm_readv : 0xffff, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, what & NO_COPY ? SYS_process_vm_writev : 0xffff, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, what & NO_MEMORY ? SYS_memfd_create : 0xffff, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(*filter), filter };

	if (!what)
		return;
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		SKIP("a seccomp filter: %s", strerror(errno));
}

static void talk(void *with)
{
	struct half *half = with;
	struct side side;
	fi_addr_t to;
	struct op op;
	uint64_t begin;

	if (half->before && !half->before())
		SKIP("mount or unshare: %s", strerror(errno));
	forbid(half->forbid);
	open_side(&side);
	publish(&side, &board->at, half->which);
	to = other(&side, &board->at, half->which);
	if (!half->alone) {
		exchange(&side, to, half->which, 3);
	} else if (!half->which) {
		begin = now_us();
		post_send(&side, &op, "x", 1, to, 1, 5000);
		if (finish(&side, &op, 5000))
			FAIL("a message to nobody is sent");
		board->error = op.error;
		printf("error after %llu ms: %s\n", (unsigned long long) (now_us() - begin) / 1000, fi_strerror(op.error));
	}
	part(&side, &board->at, half->which);
	close_side(&side);
}

static void two(struct half first, struct half second, int namespaces)
{
	pid_t pids[2];

	first.which = 0, second.which = 1;
	board = shared_page(sizeof(*board));
	pids[0] = namespaces ? start_in("first", talk, &first, namespaces) : start("first", talk, &first);
	pids[1] = namespaces ? start_in("second", talk, &second, namespaces) : start("second", talk, &second);
	ended_well(pids[0], 30000);
	ended_well(pids[1], 30000);
}

static void make_folder(void)
{
	strcpy(folder, "/tmp/shm-safety-XXXXXX");
	CHECK(mkdtemp(folder));
	setenv("FI_SHM_FOLDER", folder, 1);
}

static void drop_folder(void)
{
	// Fails if a socket was left.
	CHECK(!rmdir(folder));
}

static bool own_mounts(void)
{
	return !unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

static bool small_shm(void)
{
	return own_mounts() && !mount("none", "/dev/shm", "tmpfs", 0, "size=4k,nr_inodes=1");
}

static bool read_only_shm(void)
{
	return own_mounts() && !mount("none", "/dev/shm", "tmpfs", MS_RDONLY, "");
}

static bool no_dev(void)
{
	return own_mounts() && !mount("none", "/dev", "tmpfs", MS_RDONLY, "");
}

// ---- Running out of descriptors

static void starve(void *unused)
{
	struct side side;
	struct rlimit limit = { 256, 256 };
	fi_addr_t to;
	struct op op;
	int fds[256], count = 0, fd;

	(void) unused;
	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	open_side(&side);
	publish(&side, &board->at, 0);
	to = other(&side, &board->at, 0);
	while ((fd = open("/dev/null", O_RDONLY)) >= 0)
		fds[count++] = fd;
	CHECK(errno == EMFILE);
	post_send(&side, &op, "x", 1, to, 1ull << 40, 5000);
	if (finish(&side, &op, 5000))
		FAIL("connected without a descriptor");
	printf("without descriptors: %s\n", fi_strerror(op.error));
	// The process cannot accept connections either. The other one keeps trying, and its error comes in time.
	atomic_store(&board->stage, 1);
	while (atomic_load(&board->stage) < 2)
		look(&side), usleep(200);
	// One or two descriptors are not enough for a connection.
	for (unsigned i = 0; i < 3; i++) {
		close(fds[--count]);
		post_send(&side, &op, "x", 1, to, 1ull << 40, 5000);
		(void) finish(&side, &op, 5000);
	}
	while (count)
		close(fds[--count]);
	atomic_store(&board->stage, 3);
	exchange(&side, to, 0, 1);
	part(&side, &board->at, 0);
	close_side(&side);
}

static void beside_starving(void *unused)
{
	struct side side;
	fi_addr_t to;
	struct op op;

	(void) unused;
	open_side(&side);
	publish(&side, &board->at, 1);
	to = other(&side, &board->at, 1);
	wait_for(&board->stage, 1, 10000, "the other has no descriptors");
	post_send(&side, &op, "y", 1, to, 1ull << 40, 5000);
	// The connection waits in the backlog of a living process until that process has descriptors again.
	atomic_store(&board->stage, 2);
	while (atomic_load(&board->stage) < 3)
		look(&side), usleep(200);
	if (!finish(&side, &op, 5000))
		FAIL("to one that had no descriptors: %s", fi_strerror(op.error));
	exchange(&side, to, 1, 1);
	part(&side, &board->at, 1);
	close_side(&side);
}

// ---- A peer that dies while its messages wait for receives: more of them than are kept without receives

enum { PART = 50000, PARTS = 8 };

static void sends_too_much(void *unused)
{
	static uint8_t bytes[PARTS][PART];
	static struct op ops[PARTS];
	struct side side;
	uint64_t end;
	fi_addr_t to;

	(void) unused;
	open_side(&side);
	publish(&side, &board->at, 1);
	to = other(&side, &board->at, 1);
	for (unsigned i = 0; i < PARTS; i++) {
		fill(bytes[i], PART, i);
		post_send(&side, &ops[i], bytes[i], PART, to, i, 5000);
	}
	for (end = now_us() + 500000; now_us() < end;)
		look(&side);
	atomic_store(&board->stage, 1);
	pause();
}

static void is_left_with_it(void *unused)
{
	static uint8_t bytes[300000];
	static struct op recv[PARTS];
	struct op op = { 0 };
	struct iovec iov = { bytes, 8 };
	struct fi_msg_tagged msg = { .msg_iov = &iov, .iov_count = 1, .tag = 1, .context = &op.context };
	struct side side;
	unsigned whole = 0;
	fi_addr_t to;

	(void) unused;
	open_side(&side);
	publish(&side, &board->at, 0);
	to = other(&side, &board->at, 0);
	while (!atomic_load(&board->stage))
		look(&side);
	msg.addr = to;
	// Waits for an answer that never comes, because the other process does not poll any more.
	OK(fi_tsendmsg(side.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
	look(&side);
	CHECK(!op.done);
	atomic_store(&board->stage, 2);
	if (finish(&side, &op, 2000))
		FAIL("the dead answer");
	// Later sends fail, too, until all messages were read.
	for (unsigned i = 0; i < 3; i++) {
		post_send(&side, &op, bytes, sizeof(bytes), to, 1, 2000);
		if (finish(&side, &op, 2000))
			FAIL("%zu bytes for the dead are sent", sizeof(bytes));
	}
	// The kept messages, and those that were completely in the ring.
	for (unsigned i = 0; i < PARTS; i++)
		post_recv(&side, &recv[i], bytes, PART, i);
	for (unsigned i = 0; i < PARTS; i++) {
		uint64_t end = now_us() + 500000;

		while (!recv[i].done && now_us() < end)
			look(&side);
		if (!recv[i].done)
			fi_cancel(&side.ep->fid, &recv[i].context);
		whole += finish(&side, &recv[i], 2000);
		if (!recv[i].error)
			CHECK(recv[i].len == PART && whole == i + 1);
	}
	printf("%u of %u messages\n", whole, PARTS);
	CHECK(whole >= 1);
	close_side(&side);
}

static void stalled(void)
{
	pid_t pids[2];

	setenv("FI_SHM_MAX_SAVED_BYTES", "65536", 1);
	// Sends through the ring: a message that is only announced is lost with its sender.
	setenv("FI_SHM_DISABLE_CMA", "1", 1);
	board = shared_page(sizeof(*board));
	pids[0] = start("survivor", is_left_with_it, NULL);
	pids[1] = start("victim", sends_too_much, NULL);
	wait_for(&board->stage, 2, 10000, "the other waits");
	kill(pids[1], SIGKILL);
	CHECK(waitpid(pids[1], NULL, 0) == pids[1]);
	ended_well(pids[0], 20000);
}

void case_surroundings(const char *which)
{
	struct half plain = { 0 };

	if (!strcmp(which, "small-shm")) {
		two((struct half){ .before = small_shm }, (struct half){ .before = small_shm }, 0);
	} else if (!strcmp(which, "read-only-shm")) {
		two((struct half){ .before = read_only_shm }, (struct half){ .before = read_only_shm }, 0);
	} else if (!strcmp(which, "no-dev")) {
		two((struct half){ .before = no_dev }, (struct half){ .before = no_dev }, 0);
	} else if (!strcmp(which, "no-copy")) {
		two((struct half){ .forbid = NO_COPY }, plain, 0);
		two(plain, (struct half){ .forbid = NO_COPY }, 0);
		two((struct half){ .forbid = NO_COPY }, (struct half){ .forbid = NO_COPY }, 0);
	} else if (!strcmp(which, "no-memory")) {
		// A process that cannot create memory reports an error, but can use the memory of others.
		two((struct half){ .forbid = NO_MEMORY, .alone = true }, (struct half){ .alone = true }, 0);
		CHECK(board->error == FI_EPERM);
	} else if (!strcmp(which, "stalled")) {
		stalled();
	} else if (!strcmp(which, "descriptors")) {
		pid_t pids[2];

		board = shared_page(sizeof(*board));
		pids[0] = start("starving", starve, NULL);
		pids[1] = start("other", beside_starving, NULL);
		ended_well(pids[0], 30000);
		ended_well(pids[1], 30000);
	} else if (!strcmp(which, "pid-namespaces")) {
		two(plain, plain, CLONE_NEWPID);
	} else if (!strcmp(which, "net-namespaces")) {
		int log;

		make_folder();
		two(plain, plain, CLONE_NEWNET);
		two(plain, plain, CLONE_NEWNET | CLONE_NEWPID);
		drop_folder();
		unsetenv("FI_SHM_FOLDER");
		setenv("FI_LOG_LEVEL", "warn", 1);
		log = log_to_file();
		two((struct half){ .alone = true }, (struct half){ .alone = true }, CLONE_NEWNET);
		CHECK(board->error && log_has(log, "no connection from") && log_has(log, " to fi_shm://"));
	} else {
		FAIL("no such case: %s", which);
	}
	printf("ok\n");
}

// ---- Another user

static unsigned first_uid, second_uid;

static void as_user(void *with)
{
	struct half *half = with;
	unsigned uid = half->which ? second_uid : first_uid;

	if (uid)
		CHECK(!setgid(uid) && !setuid(uid));
	talk(half);
}

// Connects to the sockets of another user, without the library on this side.
static void raw_peer(void *unused)
{
	uint8_t bytes[HELLO];
	int fd, memory, verdict;

	(void) unused;
	if (second_uid)
		CHECK(!setgid(second_uid) && !setuid(second_uid));
	wait_for(&board->at.of[0].there, 1, 10000, "the victim has a name");
	// A process of another user must not see what else is wrong.
	CHECK((fd = connect_listener(first_uid, board->at.of[0].name)) >= 0);
	memset(bytes, 0, sizeof(bytes));
	CHECK(give(fd, bytes, HELLO, NULL, 0) == HELLO);
	if ((verdict = answer_of(fd, 5000)) != WRONG_USER)
		FAIL("the answer to user %u, who says nothing, is %d", second_uid, verdict);
	close(fd);
	CHECK((fd = connect_listener(first_uid, board->at.of[0].name)) >= 0);
	memory = memory_of(PAGE + 2 * RING, true);
	hello(bytes, "another user", RING);
	CHECK(give(fd, bytes, HELLO, &memory, 1) == HELLO);
	verdict = answer_of(fd, 5000);
	if (verdict != WRONG_USER)
		FAIL("the answer to user %u is %d", second_uid, verdict);
	CHECK(hears_end(fd, 5000));
	atomic_store(&board->stage, 1);
}

static void raw_host(void *unused)
{
	struct sockaddr_un at;
	char name[64];
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), from;
	uint8_t got[HELLO];
	socklen_t len;
	ssize_t n;

	(void) unused;
	if (second_uid)
		CHECK(!setgid(second_uid) && !setuid(second_uid));
	snprintf(name, sizeof(name), "fi_shm://%d:squatter", getpid());
	len = listener_address(&at, first_uid, name);
	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *) &at, len) && !listen(fd, 8));
	strcpy(board->at.of[1].name, name);
	atomic_store(&board->at.of[1].there, 1);
	CHECK((from = accept(fd, NULL, NULL)) >= 0);
	// Neither a hello nor memory may arrive.
	n = recv(from, got, sizeof(got), 0);
	if (n > 0)
		FAIL("user %u gets %zd bytes", second_uid, n);
	atomic_store(&board->at.of[1].done, 1);
}

static void endures(void *unused)
{
	struct side side;

	(void) unused;
	if (first_uid)
		CHECK(!setgid(first_uid) && !setuid(first_uid));
	open_side(&side);
	publish(&side, &board->at, 0);
	while (!atomic_load(&board->stage))
		look(&side), usleep(100);
	close_side(&side);
}

void case_user(void)
{
	if (geteuid())
		SKIP("other users are root's to play");
	setenv("FI_LOG_LEVEL", "warn", 1);
	for (unsigned turn = 0; turn < 2; turn++) {
		struct half first = { .which = 0, .alone = true }, second = { .which = 1, .alone = true };
		pid_t pids[2];
		int log;

		first_uid = turn ? NOBODY : 0, second_uid = turn ? 0 : NOBODY;
		// Both use the library: neither finds the other.
		log = log_to_file();
		board = shared_page(sizeof(*board));
		pids[0] = start("first user", as_user, &first), pids[1] = start("second user", as_user, &second);
		ended_well(pids[0], 20000), ended_well(pids[1], 20000);
		CHECK(board->error && log_has(log, "no connection from"));
		// A process that connects to the socket nevertheless.
		log = log_to_file();
		board = shared_page(sizeof(*board));
		pids[0] = start("victim", endures, NULL), pids[1] = start("peer", raw_peer, NULL);
		ended_well(pids[1], 20000), ended_well(pids[0], 20000);
		CHECK(log_has(log, "different users"));
		// A process that takes the name of a socket of this user.
		log = log_to_file();
		board = shared_page(sizeof(*board));
		first.which = 0;
		pids[1] = start("squatter", raw_host, NULL), pids[0] = start("victim", as_user, &first);
		ended_well(pids[0], 20000), ended_well(pids[1], 20000);
		if (board->error != FI_EACCES)
			FAIL("a socket of user %u: %s", second_uid, fi_strerror(board->error));
		CHECK(log_has(log, "not to ours"));
	}
	printf("refused both ways\n");
}

// ---- Users without a mapping in a namespace: all have one uid there

static bool as_nobody(void)
{
	return !setgid(NOBODY) && !setuid(NOBODY);
}

static bool unknown_root(void)
{
	return !unshare(CLONE_NEWUSER) && geteuid() == NOBODY;
}

static bool unknown_other(void)
{
	return !setgid(12345) && !setuid(12345) && !unshare(CLONE_NEWUSER) && geteuid() == NOBODY;
}

void case_unknown_user(void)
{
	if (geteuid())
		SKIP("other users are root's to play");
	two((struct half){ .before = as_nobody }, (struct half){ .before = as_nobody }, 0);
	two((struct half){ .before = unknown_other, .alone = true }, (struct half){ .before = unknown_root, .alone = true }, 0);
	if (board->error != FI_EACCES)
		FAIL("a user who is called the same: %s", fi_strerror(board->error));
	printf("not taken for the same user\n");
}

// ---- Forked children

static void child_tries(struct side *side, fi_addr_t to)
{
	struct op op = { 0 };
	struct fi_cq_tagged_entry entry;
	struct side own;
	ssize_t rc;
	char byte = 1;

	rc = fi_tsend(side->ep, &byte, 1, NULL, to, 5, &op.context);
	if (rc != -FI_EOPBADSTATE)
		FAIL("fi_tsend in a child: %zd", rc);
	rc = fi_tinject(side->ep, &byte, 1, to, 5);
	if (rc != -FI_EOPBADSTATE)
		FAIL("fi_tinject in a child: %zd", rc);
	rc = fi_cq_read(side->cq, &entry, 1);
	if (rc != -FI_EOPBADSTATE)
		FAIL("fi_cq_read in a child: %zd", rc);
	rc = fi_cq_sread(side->cq, &entry, 1, NULL, 1000);
	if (rc != -FI_EOPBADSTATE)
		FAIL("fi_cq_sread in a child: %zd", rc);
	close_side(side);
	// Objects that the child opens itself work.
	open_side(&own);
	to = insert(&own, own.name);
	exchange(&own, to, 0, 0);
	{
		struct op send, recv;
		char in = 0;

		post_recv(&own, &recv, &in, 1, 9);
		post_send(&own, &send, &byte, 1, to, 9, 5000);
		CHECK(finish(&own, &recv, 5000) && finish(&own, &send, 5000) && in == 1);
	}
	close_side(&own);
}

static void forks(void *with)
{
	unsigned which = (unsigned) (uintptr_t) with;
	struct side side;
	fi_addr_t to;

	open_side(&side);
	publish(&side, &board->at, which);
	to = other(&side, &board->at, which);
	for (unsigned round = 0; round < 4; round++) {
		exchange(&side, to, which, 1);
		if (which)
			continue;
		// The child makes the calls at once, or waits for traffic, or makes none.
		for (unsigned kind = 0; kind < 3; kind++) {
			pid_t pid = fork();

			CHECK(pid >= 0);
			if (!pid) {
				who = "child";
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				if (kind == 1)
					usleep(30000);
				if (kind < 2)
					child_tries(&side, to);
				fflush(stdout);
				_exit(0);
			}
			if (kind == 1)
				continue;
			ended_well(pid, 10000);
		}
	}
	exchange(&side, to, which, 2);
	while (!which && waitpid(-1, &(int){ 0 }, WNOHANG) >= 0)
		usleep(1000);
	part(&side, &board->at, which);
	close_side(&side);
}

// tcp: if two processes of a host cannot share memory, their connection stays usable.
void case_stays(void)
{
	struct half plain = { 0 }, none = { .forbid = NO_MEMORY };
	struct half halves[2] = { { .which = 0 }, { .which = 1 } };
	pid_t pids[2];
	int log;

	if (strcmp(getenv("SHM_PROVIDER") ?: "", "tcp"))
		SKIP("it is about tcp");
	setenv("FI_LOG_LEVEL", "info", 1);
	log = log_to_file();
	two(none, none, 0);
	CHECK(log_has(log, "no shared memory:") && !log_has(log, "over shared memory"));
	// A process that could not create the memory may use existing memory; which one connects is random.
	two(none, plain, 0);
	two(plain, none, 0);
	if (geteuid()) {
		printf("other users are root's to play\n");
		return;
	}
	log = log_to_file();
	board = shared_page(sizeof(*board));
	for (unsigned i = 0; i < 2; i++) {
		first_uid = NOBODY, second_uid = 0;
		pids[i] = start(i ? "second" : "first", as_user, &halves[i]);
	}
	ended_well(pids[0], 30000);
	ended_well(pids[1], 30000);
	CHECK(log_has(log, "no shared memory:") && !log_has(log, "over shared memory"));
	printf("over TCP\n");
}

static _Atomic bool spins;

static void *spinner(void *with)
{
	struct side *side = with;
	struct fi_cq_tagged_entry entry;

	while (atomic_load(&spins))
		fi_cq_read(side->cq, &entry, 1);
	return NULL;
}

// Checks the error of each kind of call that a child may not make.
static void child_asks(struct side *side, fi_addr_t to, struct fid_mr *mr, struct fid_cntr *cntr)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = { 0 };
	struct fi_context2 context;
	struct fi_cq_attr cq_attr = { 0 };
	struct fi_cntr_attr cntr_attr = { 0 };
	struct fi_av_attr av_attr = { 0 };
	struct fid *fid = &side->cq->fid;
	uint64_t word = 0;
	size_t len = sizeof(side->name), size = 4096;
	fi_addr_t addr = to;
	void *desc = fi_mr_desc(mr), *opened;
	char name[256];
	const struct {
		const char *call;
		ssize_t rc;
	} said[] = {
		{ "fi_cq_read", fi_cq_read(side->cq, &entry, 1) },
		{ "fi_cq_readerr", fi_cq_readerr(side->cq, &error, 0) },
		{ "fi_cq_sread", fi_cq_sread(side->cq, &entry, 1, NULL, 2000) },
		{ "fi_cq_signal", fi_cq_signal(side->cq) },
		{ "fi_trywait", fi_trywait(side->fabric, &fid, 1) },
		{ "fi_send", fi_send(side->ep, &word, 8, desc, to, &context) },
		{ "fi_tinject", fi_tinject(side->ep, &word, 8, to, 1) },
		{ "fi_recv", fi_recv(side->ep, &word, 8, desc, FI_ADDR_UNSPEC, &context) },
		{ "fi_trecv", fi_trecv(side->ep, &word, 8, desc, FI_ADDR_UNSPEC, 1, 0, &context) },
		{ "fi_write", fi_write(side->ep, &word, 8, desc, to, 0, 1, &context) },
		{ "fi_atomic", fi_atomic(side->ep, &word, 1, desc, to, 0, 1, FI_UINT64, FI_SUM, &context) },
		{ "fi_cancel", fi_cancel(&side->ep->fid, &context) },
		{ "fi_getname", fi_getname(&side->ep->fid, name, &len) },
		{ "fi_setopt", fi_setopt(&side->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &size, sizeof(size)) },
		{ "fi_cntr_add", fi_cntr_add(cntr, 1) },
		{ "fi_cntr_wait", fi_cntr_wait(cntr, 100, 2000) },
		{ "fi_av_lookup", fi_av_lookup(side->av, to, name, &len) },
		{ "fi_av_remove", fi_av_remove(side->av, &addr, 1, 0) },
		{ "fi_av_insert", fi_av_insert(side->av, side->name, 1, &addr, 0, NULL) },
		{ "fi_mr_reg", fi_mr_reg(side->domain, &word, 8, FI_REMOTE_READ, 0, 7, 0, (struct fid_mr **) &opened, NULL) },
		{ "fi_av_open", fi_av_open(side->domain, &av_attr, (struct fid_av **) &opened, NULL) },
		{ "fi_cq_open", fi_cq_open(side->domain, &cq_attr, (struct fid_cq **) &opened, NULL) },
		{ "fi_cntr_open", fi_cntr_open(side->domain, &cntr_attr, (struct fid_cntr **) &opened, NULL) },
		{ "fi_endpoint", fi_endpoint(side->domain, side->info, (struct fid_ep **) &opened, NULL) },
	};

	for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++)
		if (said[i].rc != -FI_EOPBADSTATE)
			FAIL("%s in a child: %zd", said[i].call, said[i].rc);
	CHECK(fi_cntr_read(cntr) == 0);
	OK(fi_close(&mr->fid));
	OK(fi_close(&cntr->fid));
	close_side(side);
}

// Forks while another thread is inside the library most of the time, and for some children in just that moment.
static void forks_busy(void *provider)
{
	bool shm = strcmp(provider, "shm") == 0;
	enum { FORKS = 400, LIMIT_S = 5 };
	struct fi_cntr_attr cntr_attr = { 0 };
	struct fid_cntr *cntr;
	struct fid_mr *mr;
	struct side side;
	pthread_t thread;
	fi_addr_t to;
	uint64_t memory;

	open_side(&side);
	to = insert(&side, side.name);
	OK(fi_cntr_open(side.domain, &cntr_attr, &cntr, NULL));
	OK(fi_mr_reg(side.domain, &memory, 8, FI_REMOTE_WRITE, 0, 1, 0, &mr, NULL));
	atomic_store(&spins, true);
	CHECK(!pthread_create(&thread, NULL, spinner, &side));
	for (unsigned i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			struct fi_cq_tagged_entry entry;

			who = "child";
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			alarm(LIMIT_S);
			// A child of a tcp endpoint may continue to use it, unless a thread was inside the library.
			if (shm || fi_cq_read(side.cq, &entry, 1) == -FI_EOPBADSTATE) {
				atomic_fetch_add(&board->stage, 1);
				child_asks(&side, to, mr, cntr);
			}
			fflush(stdout);
			_exit(0);
		}
		ended_well(pid, 2000 * LIMIT_S);
	}
	if (!atomic_load(&board->stage))
		FAIL("nobody was inside at any of %u forks", FORKS);
	atomic_store(&spins, false);
	CHECK(!pthread_join(thread, NULL));
	OK(fi_close(&mr->fid));
	OK(fi_close(&cntr->fid));
	close_side(&side);
}

void case_fork_busy(void)
{
	unsigned lost;

	setenv("SHM_PROVIDER", "tcp", 1);
	board = shared_page(sizeof(*board));
	ended_well(start("parent of tcp's children", forks_busy, "tcp"), 60000);
	lost = atomic_load(&board->stage);
	setenv("SHM_PROVIDER", "shm", 1);
	board = shared_page(sizeof(*board));
	ended_well(start("parent of children", forks_busy, "shm"), 60000);
	printf("no child waits; tcp: %u met a lock that is lost\n", lost);
}

void case_fork(void)
{
	for (unsigned automatic = 0; automatic < 2; automatic++) {
		pid_t pids[2];

		if (automatic)
			setenv("SHM_AUTO", "1", 1);
		make_folder();
		board = shared_page(sizeof(*board));
		for (uintptr_t i = 0; i < 2; i++)
			pids[i] = start(i ? "beside" : "parent of children", forks, (void *) i);
		ended_well(pids[0], 30000);
		ended_well(pids[1], 30000);
		drop_folder();
	}
	printf("parents intact\n");
}

// ---- Sockets in a folder

static void opens_and_stays(void *unused)
{
	struct side side;

	(void) unused;
	open_side(&side);
	publish(&side, &board->at, 0);
	pause();
}

static void opens_the_same(void *unused)
{
	struct side side;
	struct fi_info *info;

	(void) unused;
	open_side(&side);
	// Simulates a reused PID: the socket name of the process that was killed.
	info = fi_dupinfo(side.info);
	free(info->src_addr);
	info->src_addr = strdup(board->at.of[0].name);
	info->src_addrlen = strlen(info->src_addr) + 1;
	OK(fi_close(&side.ep->fid));
	OK(fi_endpoint(side.domain, info, &side.ep, NULL));
	OK(fi_ep_bind(side.ep, &side.av->fid, 0));
	OK(fi_ep_bind(side.ep, &side.cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(side.ep));
	{
		size_t len = sizeof(side.name);

		OK(fi_getname(&side.ep->fid, side.name, &len));
	}
	if (strcmp(side.name, board->at.of[0].name))
		FAIL("the name is %s, not %s", side.name, board->at.of[0].name);
	fi_freeinfo(info);
	close_side(&side);
}

void case_folder(void)
{
	pid_t pid;

	make_folder();
	board = shared_page(sizeof(*board));
	pid = start("first", opens_and_stays, NULL);
	wait_for(&board->at.of[0].there, 1, 10000, "an endpoint");
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
	// The new process takes over the socket that was left, and removes it at the end.
	CHECK(rmdir(folder) && errno == ENOTEMPTY);
	ended_well(start("second", opens_the_same, NULL), 10000);
	two((struct half){ 0 }, (struct half){ 0 }, 0);
	drop_folder();
	printf("nothing left\n");
}
