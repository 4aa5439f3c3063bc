// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What the parts of the bench share. Two processes measure together: the server does what the client orders over a
//! control connection of plain TCP, and the client prints the numbers. Every call of the library is one that any
//! libfabric has, so that the same binary runs on several of them.
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

// One of the two processes.
struct side {
	bool server;
	int control;
	const char *provider;
	const char *node;
	// Serves several threads, with progress of its own: what a program gets that asks for nothing.
	bool shared;
	// Serves several threads, which make the progress.
	bool safe;
	// Wants atomic operations.
	bool atomics;
	// Wants prepared work requests, where they are offered.
	bool prepares;
	// Wants endpoints for datagrams, and no memory registered.
	bool datagrams;
	// Wants a queue that can be slept on.
	bool waits;
	// How long one measurement takes, about, in seconds.
	double budget;
	// Driven while the control connection is waited for, if set.
	struct fabric *fabric;
};

// What the client wants from the server.
struct order {
	char work[16];
	char form[16];
	// The largest message, endpoints of client and server, or the depth: as the work has it.
	uint64_t size, here, there, depth;
};

// One measurement of a work; `count` 0 ends the work.
struct step {
	uint64_t size, count, window;
};

#define RECENT 16384

struct fabric {
	struct side *side;
	// Whose domain this is, if it is another's.
	struct fabric *owner;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep **eps;
	size_t ep_count;
	fi_addr_t *peers;
	size_t peer_count;
	// Sent from `out`; received, written by peers and read to `in`.
	char *out, *in;
	size_t size;
	struct fid_mr *mr;
	void *desc;
	uint64_t remote_addr, remote_key;
	// Completions so far: own operations, receives, writes of the peer with data.
	uint64_t sent, received, remote;
	// Context of receive number n, at n % RECENT, of the last so many.
	uintptr_t contexts[RECENT];
};

// ---- control.c

_Noreturn void stop(const char *format, ...) __attribute__((format(printf, 1, 2)));
double now(void);
void pin(int core);
int control_listen(void);
int control_accept(int listener);
int control_connect(int port);
// A socket connected to the peer beside the control connection: never blocking, without delay.
int control_second(struct side *side);
void tell(struct side *side, const void *what, size_t len);
// Drives the fabric of the side, if it has one, until `len` bytes are there. False at the end of the connection.
bool hear(struct side *side, void *what, size_t len);
// As `hear`, but lets the fabric alone.
void hear_quietly(struct side *side, void *what, size_t len);
void tell_number(struct side *side, double number);
double hear_number(struct side *side);
void print(const char *work, const char *form, uint64_t x, double value, const char *unit);

// ---- fabric.c

// The address that a provider over IP is asked for; NULL where addresses are names.
const char *node_of(const char *provider);
// `eps` endpoints, enabled, on one queue, with buffers of `size` bytes. Exits when something fails.
struct fabric *fabric_open(struct side *side, size_t eps, size_t size);
// The same on the domain of `owner`, which is closed after it, without registered memory; on one of its own without `owner`.
struct fabric *fabric_open_on(struct fabric *owner, struct side *side, size_t eps, size_t size);
// Exchanges addresses and the memory key with the other side: says ours, hears theirs.
void fabric_present(struct fabric *fabric);
void fabric_learn(struct fabric *fabric);
void fabric_meet(struct fabric *fabric);
void fabric_close(struct fabric *fabric);
// One look at the queue.
void fabric_look(struct fabric *fabric);
_Noreturn void fabric_fail(const char *what, ssize_t rc);

// Posts, and looks at the queue as long as there is no room.
#define POST(f, call)                                                                                                  \
	do {                                                                                                           \
		ssize_t post_rc;                                                                                       \
                                                                                                                       \
		while ((post_rc = (call)) == -FI_EAGAIN)                                                               \
			fabric_look(f);                                                                                \
		if (post_rc)                                                                                           \
			fabric_fail(#call, post_rc);                                                                   \
	} while (0)

#define UNTIL(f, condition)                                                                                            \
	do {                                                                                                           \
		fabric_look(f);                                                                                        \
	} while (!(condition))

// ---- Works: both sides run them; the client prints.

struct work {
	const char *name;
	// What the arguments mean.
	const char *help;
	void (*client)(struct side *side, const char *form, size_t count, const uint64_t *xs);
	void (*server)(struct side *side, const struct order *order);
};

extern const struct work latency_work, socket_work, stream_work, window_work, posted_work, unexpected_work, endpoints_work,
	peers_work, av_work, atomic_work, wakeup_work, compute_work, datagram_work, datagram_socket_work,
	setup_work, threads_work;

// How often to repeat what took `seconds` for `count`, to fill the side's budget.
uint64_t fill_budget(const struct side *side, double seconds, uint64_t count);
// As many as are worth a warm-up for messages of this size.
uint64_t warm_up(uint64_t size);
// Sends the order that starts a work.
void begin(struct side *side, const struct work *work, const char *form, struct order order);

// stream.c, for traffic to several endpoints: tagged messages per second, and the server's side of it.
void stream_begin(struct fabric *fabric);
double stream_rate(struct fabric *fabric, const char *form, uint64_t size, uint64_t window);
void stream_serve(struct fabric *fabric, const char *form);
void stream_finish(struct fabric *fabric);

#endif
