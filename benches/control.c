// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The control connection, the clock, and the format of output lines.
#define _GNU_SOURCE
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void stop(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("bench: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

void pin(int core)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(core, &set);
	// On a machine with one core there is no choice.
	if (sysconf(_SC_NPROCESSORS_ONLN) > core && sched_setaffinity(0, sizeof(set), &set))
		stop("core %d: %s", core, strerror(errno));
}

static struct sockaddr_in loopback(int port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static int port_of(int fd)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);

	if (getsockname(fd, (struct sockaddr *) &addr, &len))
		stop("getsockname: %s", strerror(errno));
	return ntohs(addr.sin_port);
}

static void no_delay(int fd)
{
	int on = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

int control_listen(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in addr = loopback(0);

	if (fd < 0 || bind(fd, (struct sockaddr *) &addr, sizeof(addr)) || listen(fd, 1))
		stop("a listening socket: %s", strerror(errno));
	printf("%d\n", port_of(fd));
	fflush(stdout);
	return fd;
}

int control_accept(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

	if (fd < 0)
		stop("accept: %s", strerror(errno));
	no_delay(fd);
	return fd;
}

int control_connect(int port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in addr = loopback(port);

	if (fd < 0 || connect(fd, (struct sockaddr *) &addr, sizeof(addr)))
		stop("port %d: %s", port, strerror(errno));
	no_delay(fd);
	return fd;
}

int control_second(struct side *side)
{
	int fd, port;

	if (side->server) {
		int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		struct sockaddr_in addr = loopback(0);

		if (listener < 0 || bind(listener, (struct sockaddr *) &addr, sizeof(addr)) || listen(listener, 1))
			stop("a listening socket: %s", strerror(errno));
		port = port_of(listener);
		tell(side, &port, sizeof(port));
		fd = control_accept(listener);
		close(listener);
	} else {
		if (!hear(side, &port, sizeof(port)))
			stop("the server is gone");
		fd = control_connect(port);
	}
	if (fcntl(fd, F_SETFL, O_NONBLOCK))
		stop("fcntl: %s", strerror(errno));
	return fd;
}

void tell(struct side *side, const void *what, size_t len)
{
	const char *at = what;

	while (len > 0) {
		ssize_t n = send(side->control, at, len, MSG_NOSIGNAL);

		if (n < 0 && errno != EINTR)
			stop("the other side is gone: %s", strerror(errno));
		if (n > 0) {
			at += n;
			len -= n;
		}
	}
}

static bool hear_with(struct side *side, void *what, size_t len, struct fabric *fabric)
{
	char *at = what;

	while (len > 0) {
		ssize_t n = recv(side->control, at, len, fabric ? MSG_DONTWAIT : 0);

		if (n == 0)
			return false;
		if (n > 0) {
			at += n;
			len -= n;
		} else if (errno == EAGAIN && fabric) {
			fabric_look(fabric);
		} else if (errno != EINTR) {
			return false;
		}
	}
	return true;
}

bool hear(struct side *side, void *what, size_t len)
{
	return hear_with(side, what, len, side->fabric);
}

void hear_quietly(struct side *side, void *what, size_t len)
{
	if (!hear_with(side, what, len, NULL))
		stop("the other side is gone");
}

void tell_number(struct side *side, double number)
{
	tell(side, &number, sizeof(number));
}

double hear_number(struct side *side)
{
	double number;

	if (!hear(side, &number, sizeof(number)))
		stop("the other side is gone");
	return number;
}

void print(const char *work, const char *form, uint64_t x, double value, const char *unit)
{
	printf("%s %s %llu %.9g %s\n", work, form, (unsigned long long) x, value, unit);
	fflush(stdout);
}
