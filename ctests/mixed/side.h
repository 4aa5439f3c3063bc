// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One side of a mixed run: a process on one library, whose partner runs on another. What the cases share.
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
// A transfer call, again while the library says -FI_EAGAIN. The runner's deadline is the limit.
#define POST(link, call)                                                                                               \
	do {                                                                                                           \
		long long rc_;                                                                                         \
		while ((rc_ = (call)) == -FI_EAGAIN)                                                                   \
			progress(link);                                                                                \
		if (rc_)                                                                                               \
			FAIL("%s: %lld, %s", #call, rc_, fi_strerror((int) -rc_));                                     \
	} while (0)

enum { MAX_SIZES = 64, MAX_LINE = 4096 };

// What the runner asks for, from the command line.
struct options {
	bool server;        // the other side is the client; it speaks first
	const char *provider;
	bool msg;           // connected endpoints
	bool dgram;         // datagrams: nothing is lost on loopback as long as few are under way
	bool tagged;
	bool delivery;      // FI_DELIVERY_COMPLETE in the endpoint's default flags
	bool late;          // receives are posted when the messages are there
	bool waits;         // sleeps in fi_cq_sread instead of polling
	bool basic;         // regions by virtual address and the provider's keys
	bool atomics;       // the endpoint has FI_ATOMIC
	bool plain;         // without what upstream's rxd does not finish
	bool client_first;  // the client sends first, so it is the one who connects
	unsigned rounds;
	unsigned seed;
	unsigned life;      // how many processes before this one had the same port
	unsigned limit_ms;  // for the error entries of operations whose peer is dead
	const char *port;   // NULL: the kernel's choice
	size_t sizes[MAX_SIZES];
	unsigned size_count;
};
extern struct options options;

// ---- The partner, through the runner

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
// To the runner itself: kill or start the partner.
void ask(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_bytes(const void *bytes, size_t len);

struct link;
// The partner's next line; makes progress on the link, if there is one, until then.
const char *hear(struct link *link);
void expect(struct link *link, const char *line);
size_t hear_bytes(struct link *link, void *bytes, size_t max);
void meet(struct link *link, const char *where); // both are there

// What the side is at, printed when it fails or its time is up.
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
void verify_buf(struct buf buf, size_t len, uint64_t seed); // and that nothing was written behind len
void verify_guard(struct buf buf);

// ---- Endpoints

// One operation and what became of it.
struct op {
	struct fi_context2 ctx;
	bool done;
	int err; // of its error entry
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
	uint8_t name[128], peer_name[128];
	size_t name_len, peer_name_len;
	// Entries of remote writes, which have no operation here.
	struct fi_cq_tagged_entry remote[MAX_REMOTE];
	unsigned remote_count;
};

void open_domain(struct link *link);           // fabric, domain, event queue
void open_rdm(struct link *link);              // an endpoint with a name; nobody known yet
void close_rdm(struct link *link);             // only what open_rdm made
void insert_peer(struct link *link);           // from peer_name
void open_link(struct link *link);             // an endpoint and its peer of the kind that the options say
void close_link(struct link *link);
void listen_msg(struct link *link);
void open_msg(struct link *link, struct fi_info *info); // enabled, not connected
void close_msg(struct link *link);
struct fi_info *info_towards(struct link *link);        // with peer_name as its destination
// The next event, which must be this one; returns the bytes of private data.
size_t wait_event(struct link *link, uint32_t event, struct fi_eq_cm_entry *entry, uint8_t *data);
struct fi_eq_err_entry wait_refused(struct link *link, uint8_t *data);
void connect_msg(struct link *link);           // to peer_name
void accept_msg(struct link *link);

// Reads one entry or drives progress. False if there was none. The entry goes to its operation.
bool progress(struct link *link);
// The next entry itself, for operations that give several.
struct fi_cq_tagged_entry next_entry(struct link *link);
void wait_end(struct link *link, struct op *op);  // with or without an error
void wait_op(struct link *link, struct op *op);   // without
struct fi_cq_tagged_entry wait_remote(struct link *link);
void nothing_more(struct link *link);             // no entry comes without being asked for

// Plain calls in the form that the options say: tagged or not.
bool try_send(struct link *link, const void *mem, size_t len, uint64_t tag, struct op *op); // false: not now
void post_send(struct link *link, const void *mem, size_t len, uint64_t tag, struct op *op);
void post_recv(struct link *link, void *mem, size_t len, uint64_t tag, struct op *op);

// ---- Messages both ways without end (stream.c)

enum { STREAM_WINDOW = 8 };
struct stream {
	struct op sends[STREAM_WINDOW], recvs[STREAM_WINDOW];
	struct buf out[STREAM_WINDOW], in[STREAM_WINDOW];
	unsigned sent, received; // how many ended well
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
