// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Datagrams: half a round trip, and a stream with 64 in flight, as in the fabtests. On DGRAM endpoints, and on bare
//! UDP sockets with a system call for each datagram. The rate counts arrivals: the receiver gives credit for each
//! quarter of 64, and after a silence all datagrams in flight are regarded as lost.
#define _GNU_SOURCE
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WINDOW = 64, UNIT = WINDOW / 4, LARGEST = 65536 };
// Time without a credit after which datagrams are regarded as lost, in seconds.
#define SILENCE 0.5

// State of one side, with the functions for either kind of endpoint.
struct ends {
	struct side *side;
	// Either `fabric` is set, or `fd` and `peer`.
	struct fabric *fabric;
	int fd;
	struct sockaddr_in peer;
	char *room;
	uint64_t arrived;
	void (*send)(struct ends *ends, uint64_t size);
	void (*look)(struct ends *ends);
};

static void fabric_send(struct ends *ends, uint64_t size)
{
	struct fabric *f = ends->fabric;

	POST(f, fi_send(f->eps[0], f->out, size, NULL, f->peers[0], NULL));
}

static void post_receive(struct fabric *f)
{
	POST(f, fi_recv(f->eps[0], f->in, f->size, NULL, FI_ADDR_UNSPEC, NULL));
}

static void look_at_fabric(struct ends *ends)
{
	struct fabric *f = ends->fabric;

	fabric_look(f);
	for (; ends->arrived < f->received; ends->arrived++)
		post_receive(f);
}

static void socket_send(struct ends *ends, uint64_t size)
{
	const struct sockaddr *to = (const struct sockaddr *) &ends->peer;

	while (sendto(ends->fd, ends->room, size, MSG_DONTWAIT, to, sizeof(ends->peer)) < 0) {
		if (errno != EAGAIN)
			stop("sendto: %s", strerror(errno));
	}
}

static void look_at_socket(struct ends *ends)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);

	if (recvfrom(ends->fd, ends->room, LARGEST, MSG_DONTWAIT, (struct sockaddr *) &from, &len) >= 0)
		ends->arrived++;
	else if (errno != EAGAIN)
		stop("recvfrom: %s", strerror(errno));
}

static struct ends fabric_ends(struct side *side)
{
	struct ends ends = { .side = side, .send = fabric_send, .look = look_at_fabric };

	side->datagrams = true;
	ends.fabric = fabric_open(side, 1, LARGEST);
	fabric_meet(ends.fabric);
	for (int i = 0; i < WINDOW; i++)
		post_receive(ends.fabric);
	return ends;
}

static struct ends socket_ends(struct side *side)
{
	struct ends ends = { .side = side, .send = socket_send, .look = look_at_socket };
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(own);

	ends.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	ends.room = calloc(1, LARGEST);
	if (ends.fd < 0 || bind(ends.fd, (struct sockaddr *) &own, len) ||
	    getsockname(ends.fd, (struct sockaddr *) &own, &len) || !ends.room)
		stop("a UDP socket: %s", strerror(errno));
	tell(side, &own, sizeof(own));
	hear_quietly(side, &ends.peer, sizeof(ends.peer));
	return ends;
}

static void end(struct ends *ends)
{
	if (ends->fabric) {
		fabric_close(ends->fabric);
		return;
	}
	close(ends->fd);
	free(ends->room);
}

static double latency(struct ends *ends, const struct step *step)
{
	double start = now();

	for (uint64_t i = 0; i < step->count; i++) {
		uint64_t before = ends->arrived;

		if (!ends->side->server)
			ends->send(ends, step->size);
		while (ends->arrived == before)
			ends->look(ends);
		if (ends->side->server)
			ends->send(ends, step->size);
	}
	return (now() - start) / step->count / 2;
}

// Returns the number of arrivals per second.
static double send_stream(struct ends *ends, const struct step *step)
{
	uint64_t first = ends->arrived, lost = 0, sent = 0, done = 0, credit;
	double start = now(), last = start, took, theirs;

	while (sent < step->count || done < sent) {
		while (sent < step->count && sent - done < WINDOW) {
			ends->send(ends, step->size);
			sent++;
		}
		ends->look(ends);
		credit = (ends->arrived - first) * UNIT + lost;
		if (credit > done) {
			// Datagrams that were regarded as lost may still arrive.
			done = credit < sent ? credit : sent;
			last = now();
		} else if (now() - last > SILENCE) {
			lost += sent - done;
			done = sent;
			last = now();
		}
	}
	took = now() - start;
	tell(ends->side, "", 1);
	theirs = hear_number(ends->side);
	return theirs / took;
}

static void receive_stream(struct ends *ends)
{
	uint64_t first = ends->arrived, given = 0;

	for (unsigned idle = 0;;) {
		uint64_t before = ends->arrived;
		char byte;

		ends->look(ends);
		for (; given * UNIT + UNIT <= ends->arrived - first; given++)
			ends->send(ends, 8);
		idle = before == ends->arrived ? idle + 1 : 0;
		if (idle % 1024 == 1023 && recv(ends->side->control, &byte, 1, MSG_DONTWAIT) == 1)
			break;
	}
	tell_number(ends->side, ends->arrived - first);
}

static void client(struct side *side, const struct work *work, struct ends (*open)(struct side *), const char *form,
		   size_t count, const uint64_t *xs)
{
	bool is_latency = !strcmp(form, "latency");
	struct ends ends;

	if (!is_latency && strcmp(form, "stream"))
		stop("%s knows latency and stream", work->name);
	begin(side, work, form, (struct order){ 0 });
	ends = open(side);
	for (size_t i = 0; i < count; i++) {
		struct step step = { .size = xs[i], .count = 2048 };
		double value = 0;

		for (int warm = 1; warm >= 0; warm--) {
			char ready;

			tell(side, &step, sizeof(step));
			hear_quietly(side, &ready, 1);
			value = is_latency ? latency(&ends, &step) : send_stream(&ends, &step);
			step.count = fill_budget(side, is_latency ? value * 2 * step.count : step.count / value, step.count);
			step.count = (step.count / UNIT + 1) * UNIT;
		}
		print(work->name, form, xs[i], is_latency ? value * 1e6 : value, is_latency ? "us" : "per second");
	}
	tell(side, &(struct step){ 0 }, sizeof(struct step));
	end(&ends);
}

static void server(struct side *side, const struct order *order, struct ends (*open)(struct side *))
{
	struct ends ends = open(side);
	struct step step;

	while (hear(side, &step, sizeof(step)) && step.count) {
		tell(side, "", 1);
		if (!strcmp(order->form, "latency"))
			latency(&ends, &step);
		else
			receive_stream(&ends);
	}
	end(&ends);
}

static void fabric_client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	client(side, &datagram_work, fabric_ends, form, count, xs);
}

static void fabric_server(struct side *side, const struct order *order)
{
	server(side, order, fabric_ends);
}

static void socket_client(struct side *side, const char *form, size_t count, const uint64_t *xs)
{
	client(side, &datagram_socket_work, socket_ends, form, count, xs);
}

static void socket_server(struct side *side, const struct order *order)
{
	server(side, order, socket_ends);
}

const struct work datagram_work = { "datagram", "latency|stream SIZE...", fabric_client, fabric_server };
const struct work datagram_socket_work = { "datagram-socket", "latency|stream SIZE...", socket_client, socket_server };
