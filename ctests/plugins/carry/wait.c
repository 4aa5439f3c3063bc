// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Progress, and wait objects. All sockets of a fabric are in one epoll set. The descriptor of a queue is a second set
// that contains the first one and a bell (FI_WAIT_POLLFD returns these two). So a sleeper wakes up for any traffic of
// the fabric, handles it, and sleeps again.
// fi_cq(3), fi_eq(3), fi_cntr(3), fi_poll(3)

#include "carry.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
}

uint64_t carry_deadline(int timeout)
{
	return timeout < 0 ? UINT64_MAX : now_ms() + (unsigned) timeout;
}

// Logs outside of the lock, because a log callback may call the library.
void carry_unlock(struct carry_fabric *fabric)
{
	unsigned news = fabric->news;

	fabric->news = 0;
	pthread_mutex_unlock(&fabric->lock);
	if (news)
		FI_INFO(&carry_provider, FI_LOG_EP_CTRL, "connections began or ended: %u\n", news);
}

// ---- Progress

void carry_want(struct carry_fabric *fabric, struct carry_source *source, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = source};

	if (events == source->wants)
		return;
	// Epoll reports a hang-up even without requested events, so such a socket is removed from the set.
	epoll_ctl(fabric->epfd, !events ? EPOLL_CTL_DEL : source->wants ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, source->fd, &event);
	source->wants = events;
}

// A callback frees at most its own source, so the other events of a batch stay valid.
void carry_progress(struct carry_fabric *fabric)
{
	struct epoll_event events[64];
	int count = epoll_wait(fabric->epfd, events, 64, 0);

	for (int i = 0; i < count; i++) {
		struct carry_source *source = events[i].data.ptr;

		source->ready(source, events[i].events);
	}
}

// ---- Wait objects

int carry_wait_open(struct carry_wait *wait, struct carry_fabric *fabric, enum fi_wait_obj obj)
{
	struct epoll_event event = {.events = EPOLLIN};

	*wait = (struct carry_wait){.fabric = fabric, .obj = obj, .epfd = -1, .bell = -1};
	switch (obj) {
	case FI_WAIT_NONE:
	case FI_WAIT_YIELD:
		return 0;
	case FI_WAIT_UNSPEC:
	case FI_WAIT_FD:
	case FI_WAIT_POLLFD:
		break;
	case FI_WAIT_MUTEX_COND:
		return -FI_ENOSYS;
	default: // includes FI_WAIT_SET: wait sets are not supported
		return -FI_EINVAL;
	}
	wait->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (obj == FI_WAIT_POLLFD)
		return wait->bell < 0 ? -FI_EMFILE : 0;
	wait->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (wait->epfd < 0 || wait->bell < 0 || epoll_ctl(wait->epfd, EPOLL_CTL_ADD, wait->bell, &event) ||
	    epoll_ctl(wait->epfd, EPOLL_CTL_ADD, fabric->epfd, &event)) {
		carry_wait_close(wait);
		return -FI_EMFILE;
	}
	return 0;
}

void carry_wait_close(struct carry_wait *wait)
{
	if (wait->epfd >= 0)
		close(wait->epfd);
	if (wait->bell >= 0)
		close(wait->bell);
	wait->epfd = wait->bell = -1;
}

// Rings the bell: there is something to read.
void carry_ring(struct carry_wait *wait)
{
	if (wait->bell >= 0 && !wait->rung)
		wait->rung = !eventfd_write(wait->bell, 1);
}

// Silences the bell: there is nothing to read. The bell stays set while sleepers have not seen a signal yet.
void carry_quiet(struct carry_wait *wait)
{
	eventfd_t value;

	if (wait->rung && !wait->leaving) {
		eventfd_read(wait->bell, &value);
		wait->rung = false;
	}
}

void carry_signal(struct carry_wait *wait)
{
	wait->signals++;
	wait->leaving = wait->waiters;
	carry_ring(wait);
}

// Counts a thread that begins to wait, and one that ends. The value returned first shows whether a signal came since.
uint64_t carry_enter(struct carry_wait *wait)
{
	wait->waiters++;
	return wait->signals;
}

void carry_leave(struct carry_wait *wait, uint64_t signals)
{
	wait->waiters--;
	if (signals != wait->signals && wait->leaving)
		wait->leaving--;
}

// Sleeps, without the lock, until something may have happened.
int carry_sleep(struct carry_wait *wait, uint64_t deadline)
{
	uint64_t now = now_ms();
	struct pollfd pollfds[] = {{.fd = wait->bell, .events = POLLIN}, {.fd = wait->fabric->epfd, .events = POLLIN}};
	struct timespec pause = {.tv_nsec = 20000};
	int rc = 0;

	if (now >= deadline)
		return -FI_ETIMEDOUT;
	carry_unlock(wait->fabric);
	// Without a descriptor the caller polls repeatedly; the short sleep reports signals.
	if (wait->bell < 0)
		rc = nanosleep(&pause, NULL) ? -FI_EINTR : 0;
	else if (poll(pollfds, 2, deadline == UINT64_MAX ? -1 : (int) (deadline - now)) < 0 && errno == EINTR)
		rc = -FI_EINTR;
	carry_lock(wait->fabric);
	return rc;
}

static int get_pollfds(const struct carry_wait *wait, struct fi_wait_pollfd *out)
{
	size_t room = out->nfds;

	out->nfds = 2;
	out->change_index = 1; // they never change
	if (room < 2)
		return -FI_ETOOSMALL;
	out->fd[0] = (struct pollfd){.fd = wait->bell, .events = POLLIN};
	out->fd[1] = (struct pollfd){.fd = wait->fabric->epfd, .events = POLLIN};
	return 0;
}

int carry_wait_control(struct carry_wait *wait, int command, void *arg)
{
	switch (command) {
	case FI_GETWAIT:
		if (!arg)
			return -FI_EINVAL;
		if (wait->obj == FI_WAIT_NONE || wait->obj == FI_WAIT_YIELD)
			return -FI_ENODATA;
		if (wait->obj == FI_WAIT_POLLFD)
			return get_pollfds(wait, arg);
		*(int *) arg = wait->epfd;
		return 0;
	case FI_GETWAITOBJ:
		if (!arg)
			return -FI_EINVAL;
		*(enum fi_wait_obj *) arg = wait->obj == FI_WAIT_UNSPEC ? FI_WAIT_FD : wait->obj;
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

static int may_sleep(struct carry_fabric *fabric, struct fid *fid)
{
	struct carry_wait *wait;
	bool full;

	switch (fid->fclass) {
	case FI_CLASS_CQ:
		wait = &((struct carry_cq *) fid)->wait;
		full = ((struct carry_cq *) fid)->count;
		break;
	case FI_CLASS_EQ:
		wait = &((struct carry_eq *) fid)->wait;
		full = !list_empty(&((struct carry_eq *) fid)->events);
		break;
	case FI_CLASS_CNTR:
		wait = &((struct carry_cntr *) fid)->wait;
		full = ((struct carry_cntr *) fid)->seen != ((struct carry_cntr *) fid)->value + ((struct carry_cntr *) fid)->errors;
		((struct carry_cntr *) fid)->seen = ((struct carry_cntr *) fid)->value + ((struct carry_cntr *) fid)->errors;
		break;
	default:
		return -FI_EINVAL;
	}
	if (wait->fabric != fabric || wait->obj == FI_WAIT_NONE)
		return -FI_EINVAL;
	if (full)
		return -FI_EAGAIN;
	carry_quiet(wait);
	return 0;
}

int carry_trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
	struct carry_fabric *fabric = (struct carry_fabric *) fid;
	int rc = 0;

	if (count < 0 || (count && !fids))
		return -FI_EINVAL;
	carry_lock(fabric);
	carry_progress(fabric);
	for (int i = 0; i < count && (!rc || rc == -FI_EAGAIN); i++) {
		int one = fids[i] ? may_sleep(fabric, fids[i]) : -FI_EINVAL;

		rc = one ? one : rc;
	}
	carry_unlock(fabric);
	return rc;
}
