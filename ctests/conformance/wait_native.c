// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cq(3), fi_eq(3), fi_cntr(3), fi_poll(3): wait objects that the application uses itself, and which threads wake
//! up.
#define _GNU_SOURCE
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

static void thread_safe(struct env *t)
{
	t->hints->domain_attr->threading = FI_THREAD_SAFE;
	env_info(t);
}

// ---- FI_WAIT_MUTEX_COND: the mutex is held from fi_trywait to pthread_cond_wait, or a wake-up could be missed

struct sleeper {
	pthread_t thread;
	struct env *t;
	struct fid *fid;
	struct fi_mutex_cond wait;
	void (*take)(struct sleeper *sleeper); // reads the entries that made fi_trywait return -FI_EAGAIN
	unsigned nap_us;                       // waits no longer than this, which is no error; 0: waits to be woken
	unsigned naps;
	_Atomic bool done;
	int rc;
};

enum { NAPS = 200 };

static int nap(struct sleeper *sleeper)
{
	uint64_t ns = sleeper->nap_us ? sleeper->nap_us * 1000ULL : sleeper->t->limit_ms * 1000000ULL;
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	ns += end.tv_nsec;
	end.tv_sec += ns / 1000000000;
	end.tv_nsec = ns % 1000000000;
	return pthread_cond_timedwait(sleeper->wait.cond, sleeper->wait.mutex, &end);
}

static void *sleeper_main(void *arg)
{
	struct sleeper *sleeper = arg;

	pthread_mutex_lock(sleeper->wait.mutex);
	while (sleeper->naps < NAPS && !sleeper->rc) {
		int rc = fi_trywait(sleeper->t->fabric, &sleeper->fid, 1);

		if (rc == FI_SUCCESS) {
			rc = nap(sleeper);
			if (rc != ETIMEDOUT || !sleeper->nap_us)
				sleeper->rc = -rc;
			sleeper->naps++;
		} else if (rc != -FI_EAGAIN) {
			sleeper->rc = rc;
		} else if (sleeper->take) {
			sleeper->take(sleeper);
		}
	}
	pthread_mutex_unlock(sleeper->wait.mutex);
	sleeper->done = true;
	return NULL;
}

// Naps until the thread was woken often enough, while `wake` is called repeatedly.
static void check_naps(struct env *t, struct sleeper *sleeper, struct fid *fid, void (*wake)(struct env *t, struct fid *fid))
{
	OK(fi_control(sleeper->fid, FI_GETWAIT, &sleeper->wait));
	CHECK(sleeper->wait.mutex && sleeper->wait.cond);
	sleeper->t = t;
	CHECK_EQ(pthread_create(&sleeper->thread, NULL, sleeper_main, sleeper), 0);
	for (uint64_t limit = now_ms() + t->limit_ms; !sleeper->done;) {
		CHECK(now_ms() < limit);
		wake(t, fid);
	}
	CHECK_EQ(pthread_join(sleeper->thread, NULL), 0);
	OK(sleeper->rc);
}

static void wake_cq(__attribute__((unused)) struct env *t, struct fid *fid)
{
	OK(fi_cq_signal((struct fid_cq *)fid));
}

static void wake_cntr(__attribute__((unused)) struct env *t, struct fid *fid)
{
	OK(fi_cntr_add((struct fid_cntr *)fid, 1));
}

static void wake_eq(__attribute__((unused)) struct env *t, struct fid *fid)
{
	struct fi_eq_entry entry = { 0 };
	ssize_t rc = fi_eq_write((struct fid_eq *)fid, 1000, &entry, sizeof(entry), 0);

	CHECK_RC2(rc, sizeof(entry), -FI_EAGAIN);
}

static void wake_by_message(struct env *t, __attribute__((unused)) struct fid *fid)
{
	struct fi_cq_tagged_entry entries[8];

	flow_run(t, 0, 1);
	// A full queue would keep later messages from arriving.
	while (fi_cq_read(t->b.rxcq, entries, 8) > 0)
		;
}

static void take_completion(struct sleeper *sleeper)
{
	struct fi_cq_tagged_entry entry;

	fi_cq_read((struct fid_cq *)sleeper->fid, &entry, 1);
}

static void take_event(struct sleeper *sleeper)
{
	struct fi_eq_entry entry;
	uint32_t event;

	while (fi_eq_read((struct fid_eq *)sleeper->fid, &event, &entry, sizeof(entry), 0) >= 0)
		;
}

TEST(fi_cq, mutex_cond_wakes, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND: a thread that holds the mutex from fi_trywait to the wait misses no signal")
{
	struct sleeper sleeper = { 0 };

	thread_safe(t);
	PAIR(t, .cq.wait_obj = FI_WAIT_MUTEX_COND);
	sleeper.fid = &t->b.rxcq->fid;
	check_naps(t, &sleeper, sleeper.fid, wake_cq);
}

TEST(fi_cq, mutex_cond_times_out, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND: holding the mutex during fi_trywait and short waits locks nobody up")
{
	struct sleeper sleeper = { .nap_us = 50, .take = take_completion };

	thread_safe(t);
	PAIR(t, .cq.wait_obj = FI_WAIT_MUTEX_COND);
	sleeper.fid = &t->b.rxcq->fid;
	check_naps(t, &sleeper, sleeper.fid, wake_cq);
}

TEST(fi_cntr, mutex_cond_messages, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND: a thread that holds the mutex in fi_trywait may find the message it waits for there")
{
	struct sleeper sleeper = { .nap_us = 50 };

	thread_safe(t);
	PAIR(t, .cntr.wait_obj = FI_WAIT_MUTEX_COND, .cntr_flags = FI_RECV);
	sleeper.fid = &t->b.cntr->fid;
	check_naps(t, &sleeper, sleeper.fid, wake_by_message);
}

TEST(fi_cntr, mutex_cond_wakes, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND: a thread that holds the mutex from fi_trywait to the wait misses no change")
{
	struct sleeper sleeper = { 0 };

	thread_safe(t);
	sleeper.fid = &open_cntr(t, FI_WAIT_MUTEX_COND)->fid;
	check_naps(t, &sleeper, sleeper.fid, wake_cntr);
}

TEST(fi_eq, mutex_cond_wakes, EP_ANY, FI_MSG, "FI_WAIT_MUTEX_COND: a thread that holds the mutex from fi_trywait to the wait misses no event")
{
	struct sleeper sleeper = { .take = take_event };

	thread_safe(t);
	sleeper.fid = &open_eq(t, FI_WAIT_MUTEX_COND, FI_WRITE)->fid;
	check_naps(t, &sleeper, sleeper.fid, wake_eq);
}

static struct fid_wait *open_wait(struct env *t, enum fi_wait_obj obj)
{
	struct fi_wait_attr attr = { .wait_obj = obj };
	struct fid_wait *set = NULL;

	open_fabric(t);
	OK_OR_SKIP(fi_wait_open(t->fabric, &attr, &set));
	keep(t, &set->fid);
	return set;
}

TEST(fi_poll, wait_set_mutex_cond_wakes, EP_ANY, FI_MSG, "A wait set with FI_WAIT_MUTEX_COND wakes who waits on its condition")
{
	struct fid_wait *set;
	struct sleeper sleeper = { 0 };

	thread_safe(t);
	set = open_wait(t, FI_WAIT_MUTEX_COND);
	PAIR(t, .cq.wait_obj = FI_WAIT_SET, .cq.wait_set = set);
	sleeper.fid = &set->fid;
	check_naps(t, &sleeper, &t->b.rxcq->fid, wake_cq);
}

// ---- FI_WAIT_POLLFD

TEST(fi_poll, pollfd_becomes_ready, EP_ANY, FI_MSG, "FI_WAIT_POLLFD: the descriptors become ready when a queue of the set has a completion")
{
	struct fid_wait *set = open_wait(t, FI_WAIT_POLLFD);
	struct fid *fids[1] = { &set->fid };
	struct pollfd fds[64];
	bool received = false;

	PAIR(t, .cq.wait_obj = FI_WAIT_SET, .cq.wait_set = set);
	flow_post_recv(t, 0, 1);
	flow_post_send(t, 0, 1);
	while (!received) {
		struct fi_wait_pollfd wait = { .nfds = 64, .fd = fds };
		struct fi_cq_tagged_entry entry;

		OK(fi_control(&set->fid, FI_GETWAIT, &wait));
		if (fi_trywait(t->fabric, fids, 1) == FI_SUCCESS)
			CHECK(poll(fds, wait.nfds, t->limit_ms) > 0);
		fi_cq_read(t->a.txcq, &entry, 1);
		received = fi_cq_read(t->b.rxcq, &entry, 1) == 1;
	}
}

TEST(fi_poll, pollfd_change_index, EP_ANY, FI_MSG, "FI_WAIT_POLLFD: change_index stays as it is while the descriptors do")
{
	struct fid_wait *set = open_wait(t, FI_WAIT_POLLFD);
	struct pollfd first[64], second[64];
	struct fi_wait_pollfd wait = { .nfds = 64, .fd = first }, again = { .nfds = 64, .fd = second };

	OK(fi_control(&set->fid, FI_GETWAIT, &wait));
	OK(fi_control(&set->fid, FI_GETWAIT, &again));
	CHECK_EQ(wait.change_index, again.change_index);
	CHECK_EQ(wait.nfds, again.nfds);
	for (size_t i = 0; i < wait.nfds; i++)
		CHECK(first[i].fd == second[i].fd && first[i].events == second[i].events && first[i].events);
}

TEST(fi_poll, getwaitobj_of_a_set, EP_ANY, FI_MSG, "FI_GETWAITOBJ gives the type of a wait set's object")
{
	enum fi_wait_obj got = 1000;

	OK(fi_control(&open_wait(t, FI_WAIT_FD)->fid, FI_GETWAITOBJ, &got));
	CHECK_EQ(got, FI_WAIT_FD);
}

// ---- fi_cq_signal with several threads

struct reader {
	pthread_t thread;
	struct fid_cq *cq;
	_Atomic pid_t tid;
	_Atomic bool done;
	ssize_t rc;
};

static void *reader_main(void *arg)
{
	struct reader *reader = arg;
	struct fi_cq_tagged_entry entry;

	reader->tid = syscall(SYS_gettid);
	reader->rc = fi_cq_sread(reader->cq, &entry, 1, NULL, -1);
	reader->done = true;
	return NULL;
}

// Whether the thread sleeps in the kernel, and not on a lock.
static bool sleeps(struct reader *reader)
{
	char path[64], text[64] = "";
	long number = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", reader->tid);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		SKIP("%s cannot be read", path);
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	return sscanf(text, "%ld", &number) == 1 && number != SYS_futex && number >= 0;
}

TEST(fi_cq, signal_unblocks_all, EP_ANY, FI_MSG, "fi_cq_signal unblocks any thread that waits: one call, all of them")
{
	struct reader readers[4] = { 0 };

	thread_safe(t);
	PAIR(t, .cq.wait_obj = FI_WAIT_UNSPEC);
	for (int i = 0; i < 4; i++) {
		readers[i].cq = t->b.rxcq;
		CHECK_EQ(pthread_create(&readers[i].thread, NULL, reader_main, &readers[i]), 0);
		for (uint64_t limit = now_ms() + t->limit_ms; !readers[i].tid || !sleeps(&readers[i]); usleep(1000))
			CHECK(now_ms() < limit);
	}
	OK(fi_cq_signal(t->b.rxcq));
	for (int i = 0; i < 4; i++) {
		for (uint64_t limit = now_ms() + t->limit_ms; !readers[i].done; usleep(1000))
			CHECK(now_ms() < limit);
		CHECK_EQ(pthread_join(readers[i].thread, NULL), 0);
		CHECK_RC(readers[i].rc, -FI_EAGAIN);
	}
}
