// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The time until a sleeping process has a message: from before the send until the call that slept returns. The median
//! of many, in microseconds, by the number of microseconds that the sleeper was left alone before.
//!
//! sread: in fi_cq_sread. eventfd: in read(2) of an eventfd to which the other process writes. The message contains the
//! time at which it was sent; both processes read the same clock.
#define _GNU_SOURCE
#include "bench.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define TAG 7
#define ROUNDS_LEAST 101

static uint64_t nanoseconds(void)
{
	return now() * 1e9;
}

// ---- The eventfd, which the server creates and passes to the client

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(sizeof(int))];
};

// An abstract socket name that is unique because it has the server's process id.
static struct sockaddr_un place_of(pid_t server, socklen_t *len)
{
	struct sockaddr_un place = { .sun_family = AF_UNIX };
	int n = snprintf(place.sun_path + 1, sizeof(place.sun_path) - 1, "ironfabric/bench/%d", (int) server);

	*len = offsetof(struct sockaddr_un, sun_path) + 1 + n;
	return place;
}

static int hand_over(struct side *side)
{
	int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), bell = eventfd(0, EFD_CLOEXEC), to;
	union control control = { .header = { .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS } };
	struct iovec byte = { "", 1 };
	struct msghdr message = { .msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	pid_t own = getpid();
	socklen_t len;
	struct sockaddr_un place = place_of(own, &len);

	if (bell < 0 || listener < 0 || bind(listener, (struct sockaddr *) &place, len) || listen(listener, 1))
		stop("a socket for an eventfd: %s", strerror(errno));
	tell(side, &own, sizeof(own));
	to = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	memcpy(CMSG_DATA(&control.header), &bell, sizeof(bell));
	if (to < 0 || sendmsg(to, &message, 0) != 1)
		stop("sendmsg: %s", strerror(errno));
	close(to);
	close(listener);
	return bell;
}

static int take_over(struct side *side)
{
	int from = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), bell;
	union control control;
	char room;
	struct iovec byte = { &room, 1 };
	struct msghdr message = { .msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	struct sockaddr_un place;
	socklen_t len;
	pid_t server;

	if (!hear(side, &server, sizeof(server)))
		stop("the server is gone");
	place = place_of(server, &len);
	if (from < 0 || connect(from, (struct sockaddr *) &place, len))
		stop("a socket for an eventfd: %s", strerror(errno));
	if (recvmsg(from, &message, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&message))
		stop("recvmsg: %s", strerror(errno));
	memcpy(&bell, CMSG_DATA(&control.header), sizeof(bell));
	close(from);
	return bell;
}

// ---- The sleeper

static double sleep_for_bell(int bell)
{
	uint64_t sent;

	if (read(bell, &sent, sizeof(sent)) != sizeof(sent))
		stop("read: %s", strerror(errno));
	return (nanoseconds() - sent) * 1e-3;
}

static double sleep_for_message(struct fabric *f)
{
	struct fi_cq_tagged_entry entry;
	uint64_t sent, came;
	ssize_t n;

	do {
		n = fi_cq_sread(f->cq, &entry, 1, NULL, -1);
		came = nanoseconds();
	} while (n == -FI_EAGAIN || n == -FI_EINTR || (n == 1 && !(entry.flags & FI_RECV)));
	if (n != 1)
		fabric_fail("fi_cq_sread", n);
	memcpy(&sent, f->in, sizeof(sent));
	return (came - sent) * 1e-3;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *) a, y = *(const double *) b;

	return (x > y) - (x < y);
}

static void receive(struct fabric *f)
{
	POST(f, fi_trecv(f->eps[0], f->in, 8, f->desc, FI_ADDR_UNSPEC, TAG, 0, NULL));
}

static void sleeps(struct side *side, struct fabric *f, int bell, uint64_t count)
{
	double *all = calloc(count, sizeof(*all));

	if (!all)
		stop("no memory for %llu rounds", (unsigned long long) count);
	for (uint64_t i = 0; i < count; i++) {
		if (f)
			receive(f);
		tell(side, "", 1);
		all[i] = f ? sleep_for_message(f) : sleep_for_bell(bell);
	}
	qsort(all, count, sizeof(*all), ascending);
	tell_number(side, all[count / 2]);
	free(all);
}

static void server(struct side *side, const struct order *order)
{
	bool on_bell = !strcmp(order->form, "eventfd");
	struct fabric *f = NULL;
	struct step step;
	int bell = -1;

	side->waits = true;
	if (on_bell) {
		bell = hand_over(side);
	} else {
		f = fabric_open(side, 1, 8);
		fabric_meet(f);
	}
	// Nothing is driven during the sleep.
	side->fabric = NULL;
	while (hear(side, &step, sizeof(step)) && step.count)
		sleeps(side, f, bell, step.count);
	tell(side, "", 1);
	if (f)
		fabric_close(f);
	else
		close(bell);
}

// ---- The process that wakes the sleeper

static void wake(struct fabric *f, int bell)
{
	uint64_t sent = nanoseconds();

	if (!f) {
		if (write(bell, &sent, sizeof(sent)) != sizeof(sent))
			stop("write: %s", strerror(errno));
		return;
	}
	memcpy(f->out, &sent, sizeof(sent));
	POST(f, fi_tinject(f->eps[0], f->out, 8, f->peers[0], TAG));
}

static double wakes(struct side *side, struct fabric *f, int bell, struct step step)
{
	tell(side, &step, sizeof(step));
	for (uint64_t i = 0; i < step.count; i++) {
		double until;
		char ready;

		if (!hear(side, &ready, 1))
			stop("the server is gone");
		// Stays awake meanwhile, as a process with messages to send would.
		for (until = now() + step.window * 1e-6; now() < until;) {
			if (f)
				fabric_look(f);
		}
		wake(f, bell);
	}
	return hear_number(side);
}

static void client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	bool on_bell = !strcmp(form, "eventfd");
	struct fabric *f = NULL;
	int bell = -1;
	char done;

	if (!on_bell && strcmp(form, "sread"))
		stop("wakeup knows sread and eventfd");
	begin(side, &wakeup_work, form, (struct order){ .here = 1, .there = 1 });
	if (on_bell) {
		bell = take_over(side);
	} else {
		f = fabric_open(side, 1, 8);
		fabric_meet(f);
	}
	for (size_t i = 0; i < count; i++) {
		struct step step = { .count = fill_budget(side, xs[i] * 1e-6, 1), .window = xs[i] };

		step.count = step.count < ROUNDS_LEAST ? ROUNDS_LEAST : step.count;
		print("wakeup", form, xs[i], wakes(side, f, bell, step), "us");
	}
	tell(side, &(struct step){ 0 }, sizeof(struct step));
	hear(side, &done, 1);
	if (f)
		fabric_close(f);
	else
		close(bell);
}

const struct work wakeup_work = { "wakeup", "sread|eventfd MICROSECONDS...", client, server };
