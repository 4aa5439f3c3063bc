// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The limit set by the kernel: the same traffic on a bare TCP socket, spinning, without any library.
#include "bench.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void put(int fd, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno != EAGAIN)
			stop("send: %s", strerror(errno));
		if (n > 0) {
			bytes += n;
			len -= n;
		}
	}
}

static void get(int fd, char *room, size_t size, size_t len)
{
	while (len > 0) {
		ssize_t n = recv(fd, room, len < size ? len : size, MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN))
			stop("recv: %s", strerror(errno));
		if (n > 0)
			len -= n;
	}
}

// A message without bytes has one byte here, because TCP has no empty messages.
static size_t on_the_wire(uint64_t size)
{
	return size ? size : 1;
}

static void latency(struct side *side, int fd, char *room, const struct step *step)
{
	size_t len = on_the_wire(step->size);

	for (uint64_t i = 0; i < step->count; i++) {
		if (!side->server)
			put(fd, room, len);
		get(fd, room, len, len);
		if (side->server)
			put(fd, room, len);
	}
}

// One system call per message; the server answers with one byte at the end.
static void stream(struct side *side, int fd, char *room, const struct step *step)
{
	size_t len = on_the_wire(step->size);

	if (side->server) {
		// Reads several messages at once, so that the reader is not the bottleneck.
		get(fd, room, len > 65536 ? len : 65536, len * step->count);
		put(fd, room, 1);
		return;
	}
	for (uint64_t i = 0; i < step->count; i++)
		put(fd, room, len);
	get(fd, room, 1, 1);
}

static void play(struct side *side, const char *form, int fd, char *room, const struct step *step)
{
	if (!strcmp(form, "latency"))
		latency(side, fd, room, step);
	else if (!strcmp(form, "stream"))
		stream(side, fd, room, step);
	else
		stop("socket knows latency and stream");
}

static double measure(struct side *side, const char *form, int fd, char *room, struct step step)
{
	double start;

	tell(side, &step, sizeof(step));
	start = now();
	play(side, form, fd, room, &step);
	return now() - start;
}

static char *room_for(uint64_t size)
{
	char *room = malloc(size < 65536 ? 65536 : size);

	if (!room)
		stop("no memory for %llu bytes", (unsigned long long) size);
	memset(room, 's', size < 65536 ? 65536 : size);
	return room;
}

static void client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	struct order order = { 0 };
	char *room;
	int fd;

	for (size_t i = 0; i < count; i++)
		order.size = xs[i] > order.size ? xs[i] : order.size;
	begin(side, &socket_work, form, order);
	fd = control_second(side);
	room = room_for(order.size);
	for (size_t i = 0; i < count; i++) {
		struct step step = { .size = xs[i], .count = warm_up(xs[i]) };
		double took = measure(side, form, fd, room, step);

		step.count = fill_budget(side, took, step.count);
		took = measure(side, form, fd, room, step) / step.count;
		if (!strcmp(form, "latency"))
			print("socket", form, xs[i], took / 2 * 1e6, "us");
		else
			print("socket", form, xs[i], 1 / took, "per second");
	}
	free(room);
	close(fd);
}

static void server(struct side *side, const struct order *order)
{
	char *room = room_for(order->size);
	int fd = control_second(side);
	struct step step;

	while (hear(side, &step, sizeof(step)) && step.count)
		play(side, order->form, fd, room, &step);
	free(room);
	close(fd);
}

const struct work socket_work = { "socket", "latency|stream SIZE...", client, server };
