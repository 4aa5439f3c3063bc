// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Shared by the tests of data transfer: buffers, contexts, one function for all call forms, expected completions.
#ifndef CONFORMANCE_TRANSFER_H
#define CONFORMANCE_TRANSFER_H

#include "device.h"
#include "harness.h"

#define DATA UINT64_C(0xa1a2a3a4a5a6a7a8)
#define TAG UINT64_C(0x1122334455667788)
#define ALL_ACCESS (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

enum { MAX_IOV = 16 };

// Memory that lives until the child ends, registered if local buffers must be. `seed` 0 leaves it zeroed.
struct buf {
	uint8_t *mem;
	size_t len;
	void *desc;
};
struct buf new_buf(struct env *t, size_t len, unsigned seed);
// Zeroed memory that the library may use until the endpoints are closed. It is a block of its own with exactly this
// size, so that a memory checker detects accesses outside of it.
void *keep_mem(size_t len);
struct buf part(struct buf whole, size_t offset, size_t len);
bool holds(struct buf buf, size_t len, unsigned seed); // the first len bytes are those of the seed
bool holds_by_now(struct buf buf, size_t len, unsigned seed); // also while a thread of the library may write there
bool untouched(struct buf buf, size_t from);           // zero from there on
// Memory of `side` that its peers may use as `access` permits. `at` is the address or offset of its first byte for
// peers.
struct region {
	struct buf buf;
	struct fid_mr *mr;
	uint64_t at, key;
};
struct region new_region(struct env *t, struct side *side, struct buf buf, uint64_t access);
void *new_ctx(void);                                   // a context that satisfies every mode bit

// One operation of either message interface, in the call form to test.
enum form { SEND, SENDV, SENDMSG, SENDDATA, INJECT, INJECTDATA, RECV, RECVV, RECVMSG };
struct op {
	enum form form;
	bool tagged;
	struct iovec iov[MAX_IOV];
	void *desc[MAX_IOV];
	size_t count;
	fi_addr_t addr;
	uint64_t data, tag, ignore, flags; // flags: of the ...msg forms
	void *ctx;
};
struct op op_of(enum form form, bool tagged, struct buf buf, fi_addr_t addr); // DATA, TAG, a new context
bool has_form(struct env *t, enum form form); // not those with data if cq_data_size is 0
ssize_t op_try(struct fid_ep *ep, const struct op *op);
void op_post(struct env *t, struct fid_ep *ep, const struct op *op);

// The plain calls, posted until accepted; they return the context.
void *post_send(struct env *t, struct side *from, struct buf buf);
void *post_recv(struct env *t, struct side *at, struct buf buf);
void *post_tsend(struct env *t, struct side *from, struct buf buf, uint64_t tag);
void *post_trecv(struct env *t, struct side *at, struct buf buf, uint64_t tag, uint64_t ignore);

// The next completion of a TAGGED queue: its context, and its flags among those that fi_cq(3) defines.
struct fi_cq_tagged_entry done(struct env *t, struct fid_cq *cq, void *ctx, uint64_t flags);
// A receive that must complete.
struct expected_recv {
	void *ctx;
	uint64_t flags;
	size_t len;
};
// All of them must complete, in order unless the provider is layered: it fetches large messages while it takes the next
// one.
void all_done(struct env *t, struct fid_cq *cq, struct expected_recv *recvs, unsigned count);
uint64_t kind_flags(uint64_t flags);
// The next entry must be this error for this context.
struct fi_cq_err_entry failed(struct env *t, struct fid_cq *cq, void *ctx, int err);
struct fi_cq_err_entry failed_somehow(struct env *t, struct fid_cq *cq, void *ctx); // if no page specifies the error
void nothing(struct fid_cq *cq); // there is neither a completion nor an error now

// Sends a message each way and waits for both: then the other end of an ordered pair has seen all earlier messages.
// Requires empty queues and no other posted receives; uses the interface that the environment requested.
void round_trip(struct env *t);
void round_trip_between(struct env *t, struct side *x, struct side *y); // does not read the queues of sends

// Opens `count` enabled endpoints that use addresses; at[i * count + k] is the address of k in the vector of i.
void open_group(struct env *t, struct side *sides, unsigned count, fi_addr_t *at);

// Messages of all sizes between the ends of a new pair, before or after their receives, with RMA between them (settings.c).
void mixed_traffic(struct env *t, bool before);

// For CORE tests that set variables first: from here on the test belongs to this provider and endpoint type.
void start_as(struct env *t, const char *prov, enum fi_ep_type type, uint64_t caps);

#define SENT(TAGGED) (FI_SEND | ((TAGGED) ? FI_TAGGED : FI_MSG))
#define RECEIVED(TAGGED) (FI_RECV | ((TAGGED) ? FI_TAGGED : FI_MSG))

// A rule of both message interfaces: one body, with the interface in `tagged`.
#define BOTH(RULE, WHERE, CAPS, TEXT)                                                                                  \
	static void RULE##__body(struct env *t, bool tagged);                                                          \
	TEST(fi_msg, RULE, WHERE, FI_MSG | (CAPS), TEXT)                                                               \
	{                                                                                                              \
		RULE##__body(t, false);                                                                                \
	}                                                                                                              \
	TEST(fi_tagged, RULE, WHERE, FI_TAGGED | (CAPS), TEXT)                                                         \
	{                                                                                                              \
		RULE##__body(t, true);                                                                                 \
	}                                                                                                              \
	static void RULE##__body(struct env *t, bool tagged)

#endif
