// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One side of a mixed run: a process with one library, whose partner uses another. Shared code of the cases.
#ifndef MIXED_SIDE_H
#define MIXED_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define FAIL(...) fail(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			FAIL("not so: %s", #condition);                                                                \
	} while (0)
#define CHECK_EQ(value, wanted)                                                                                        \
	do {                                                                                                           \
		unsigned long long value_ = (unsigned long long) (value), wanted_ = (unsigned long long) (wanted);     \
		if (value_ != wanted_)                                                                                 \
			FAIL("%s is %#llx, not %#llx", #value, value_, wanted_);                                       \
	} while (0)
#define OK(call)                                                                                                       \
	do {                                                                                                           \
		long long rc_ = (call);                                                                                \
		if (rc_)                                                                                               \
			FAIL("%s: %lld, %s", #call, rc_, fi_strerror((int) -rc_));                                     \
	} while (0)
// Repeats a transfer call that returns -FI_EAGAIN, until the runner's deadline.
#define POST(link, call)                                                                                               \
	do {                                                                                                           \
		long long rc_;                                                                                         \
		while ((rc_ = (call)) == -FI_EAGAIN)                                                                   \
			progress(link);                                                                                \
		if (rc_)                                                                                               \
			FAIL("%s: %lld, %s", #call, rc_, fi_strerror((int) -rc_));                                     \
	} while (0)

enum { MAX_SIZES = 64, MAX_LINE = 4096 };

// Options of the command line, which the runner sets.
struct options {
	bool server;        // the other side is the client; it sends the first line
	const char *provider;
	bool msg;           // connected endpoints
	bool dgram;         // datagrams: nothing is lost on loopback as long as few are in flight
	bool tagged;
	bool delivery;      // FI_DELIVERY_COMPLETE in the endpoint's default flags
	bool late;          // receives are posted after the messages have arrived
	bool waits;         // sleeps in fi_cq_sread instead of polling
	bool basic;         // regions by virtual address and the provider's keys
	bool atomics;       // the endpoint has FI_ATOMIC
	bool linked;        // lnx as others have it: tagged messages, without addresses in the hints
	bool plain;         // without operations that upstream's rxd does not complete
	bool client_first;  // the client sends first, so it connects
	unsigned rounds;
	unsigned seed;
	unsigned life;      // how many processes before this one had the same port
	unsigned limit_ms;  // for the error entries of operations whose peer is dead
	const char *port;   // NULL: the kernel's choice
	size_t sizes[MAX_SIZES];
	unsigned size_count;
};
extern struct options options;

// ---- The partner, reached through the runner

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
// Commands for the runner: kill or start the partner.
void ask(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_bytes(const void *bytes, size_t len);

struct link;
// Returns the partner's next line. Makes progress on the link, if there is one, until then.
const char *hear(struct link *link);
void expect(struct link *link, const char *line);
size_t hear_bytes(struct link *link, void *bytes, size_t max);
void meet(struct link *link, const char *where); // waits until both sides are there

// The current activity, which is printed on failure or after the time limit.
void doing(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
uint64_t now_us(void);
unsigned chance(unsigned below); // from options.seed

// ---- Bytes

struct buf {
	uint8_t *mem;
	size_t len;
};
struct buf new_buf(size_t len); // poisoned, with a guard behind it
void free_buf(struct buf buf);
void poison(struct buf buf);
void fill(uint8_t *mem, size_t len, uint64_t seed);
void verify(const uint8_t *mem, size_t len, uint64_t seed);
void verify_buf(struct buf buf, size_t len, uint64_t seed); // also checks that nothing was written after len
void verify_guard(struct buf buf);

// ---- Endpoints

// One operation and its result.
struct op {
	struct fi_context2 ctx;
	bool done;
	int err; // from its error entry
	struct fi_cq_tagged_entry entry;
};

enum { MAX_REMOTE = 64 };
struct link {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_pep *pep;
	struct fid_ep *ep;
	fi_addr_t peer;
	uint8_t name[512], peer_name[512];
	size_t name_len, peer_name_len;
	// Entries of remote writes, which have no operation on this side.
	struct fi_cq_tagged_entry remote[MAX_REMOTE];
	unsigned remote_count;
};

void open_domain(struct link *link);           // fabric, domain, event queue
void open_rdm(struct link *link);              // an endpoint with a name; no peer yet
void close_rdm(struct link *link);             // only what open_rdm made
void insert_peer(struct link *link);           // from peer_name
void open_link(struct link *link);             // an endpoint and its peer, of the kind in the options
void close_link(struct link *link);
void listen_msg(struct link *link);
void open_msg(struct link *link, struct fi_info *info); // enabled, not connected
void close_msg(struct link *link);
struct fi_info *info_towards(struct link *link);        // with peer_name as its destination
// Waits for the next event, which must be this one. Returns the bytes of private data.
size_t wait_event(struct link *link, uint32_t event, struct fi_eq_cm_entry *entry, uint8_t *data);
struct fi_eq_err_entry wait_refused(struct link *link, uint8_t *data);
void connect_msg(struct link *link);           // to peer_name
void accept_msg(struct link *link);

// Reads one completion and marks its operation, or makes progress. Returns false if there was none.
bool progress(struct link *link);
// Returns the next completion itself, for operations that have several.
struct fi_cq_tagged_entry next_entry(struct link *link);
void wait_end(struct link *link, struct op *op);  // with or without an error
void wait_op(struct link *link, struct op *op);   // without an error
struct fi_cq_tagged_entry wait_remote(struct link *link);
void nothing_more(struct link *link);             // no surplus completion comes

// Plain calls, tagged or untagged according to the options.
bool try_send(struct link *link, const void *mem, size_t len, uint64_t tag, struct op *op); // false: not now
void post_send(struct link *link, const void *mem, size_t len, uint64_t tag, struct op *op);
void post_recv(struct link *link, void *mem, size_t len, uint64_t tag, struct op *op);

// ---- Endless messages in both directions (stream.c)

enum { STREAM_WINDOW = 8 };
struct stream {
	struct op sends[STREAM_WINDOW], recvs[STREAM_WINDOW];
	struct buf out[STREAM_WINDOW], in[STREAM_WINDOW];
	unsigned sent, received; // operations that succeeded
};
void stream_start(struct link *link, struct stream *stream);
bool stream_on(struct link *link, struct stream *stream); // false once an operation ended in error
void stream_end(struct link *link, struct stream *stream);

// ---- Cases

void case_pingpong(void);
void case_late(void);
void case_window(void);
void case_data(void);
void case_inject(void);
void case_multi(void);
void case_rma(void);
void case_atomic(void);
void case_connect(void);
void case_crossing(void);
void case_restart(void);

#endif
