// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The interface between the parts of the benchmark. Two processes measure together: the client sends orders over a
//! control connection of plain TCP, the server carries them out, and the client prints the numbers. All calls are
//! available in any libfabric, so that the same binary runs on several of them.
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
	// Requests a domain for several threads with automatic progress, which is what a program without wishes gets.
	bool shared;
	// Requests a domain for several threads that drive progress themselves.
	bool safe;
	// Requests atomic operations.
	bool atomics;
	// Requests prepared work requests, if the library offers them.
	bool prepares;
	// Requests datagram endpoints, without registered memory.
	bool datagrams;
	// Requests a queue with a wait object.
	bool waits;
	// Approximate time of one measurement in seconds.
	double budget;
	// The fabric that is driven while this side waits for the control connection, or NULL.
	struct fabric *fabric;
};

// The order of the client to the server.
struct order {
	char work[16];
	char form[16];
	// Depending on the work: largest message, number of endpoints of client and server, depth.
	uint64_t size, here, there, depth;
};

// One measurement of a work; `count` 0 ends the work.
struct step {
	uint64_t size, count, window;
};

#define RECENT 16384

struct fabric {
	struct side *side;
	// The fabric that owns the domain, or NULL if this one does.
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
	// Messages are sent from `out`. Receives, writes of the peer and reads store into `in`.
	char *out, *in;
	size_t size;
	struct fid_mr *mr;
	void *desc;
	uint64_t remote_addr, remote_key;
	// Number of completions: local operations, receives, writes of the peer with data.
	uint64_t sent, received, remote;
	// Contexts of the last RECENT receives: receive number n is at n % RECENT.
	uintptr_t contexts[RECENT];
};

// ---- control.c

_Noreturn void stop(const char *format, ...) __attribute__((format(printf, 1, 2)));
double now(void);
void pin(int core);
int control_listen(void);
int control_accept(int listener);
int control_connect(int port);
// Opens a second connection to the peer: a non-blocking socket with TCP_NODELAY.
int control_second(struct side *side);
void tell(struct side *side, const void *what, size_t len);
// Reads `len` bytes from the control connection, and drives the fabric of this side meanwhile if there is one. Returns
// false at the end of the connection.
bool hear(struct side *side, void *what, size_t len);
// Does the same as `hear`, but does not drive the fabric.
void hear_quietly(struct side *side, void *what, size_t len);
void tell_number(struct side *side, double number);
double hear_number(struct side *side);
void print(const char *work, const char *form, uint64_t x, double value, const char *unit);

// ---- fabric.c

// The node for fi_getinfo: a loopback address for providers over IP; NULL for providers whose addresses are names.
const char *node_of(const char *provider);
// Opens `eps` enabled endpoints on one queue, with buffers of `size` bytes. Exits on failure.
struct fabric *fabric_open(struct side *side, size_t eps, size_t size);
// Does the same on the domain of `owner`, which must be closed later, without registered memory; without `owner` on a
// new domain.
struct fabric *fabric_open_on(struct fabric *owner, struct side *side, size_t eps, size_t size);
// Exchange addresses and the memory key with the other side: `fabric_present` sends, `fabric_learn` receives,
// `fabric_meet` does both.
void fabric_present(struct fabric *fabric);
void fabric_learn(struct fabric *fabric);
void fabric_meet(struct fabric *fabric);
void fabric_close(struct fabric *fabric);
// Polls the queue once.
void fabric_look(struct fabric *fabric);
_Noreturn void fabric_fail(const char *what, ssize_t rc);

// Posts an operation; polls the queue while there is no room.
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
	// Help text about the arguments.
	const char *help;
	void (*client)(struct side *side, const char *form, size_t count, const uint64_t *xs);
	void (*server)(struct side *side, const struct order *order);
};

extern const struct work latency_work, socket_work, stream_work, window_work, posted_work, unexpected_work, endpoints_work,
	peers_work, av_work, atomic_work, wakeup_work, compute_work, datagram_work, datagram_socket_work,
	setup_work, threads_work;

// Number of repetitions that fill the side's budget, if `count` repetitions took `seconds`.
uint64_t fill_budget(const struct side *side, double seconds, uint64_t count);
// Number of repetitions for a warm-up with messages of this size.
uint64_t warm_up(uint64_t size);
// Sends the order that starts a work.
void begin(struct side *side, const struct work *work, const char *form, struct order order);

// stream.c, for traffic over several endpoints: tagged messages per second at the client, and the server's part.
void stream_begin(struct fabric *fabric);
double stream_rate(struct fabric *fabric, const char *form, uint64_t size, uint64_t window);
void stream_serve(struct fabric *fabric, const char *form);
void stream_finish(struct fabric *fabric);

#endif
