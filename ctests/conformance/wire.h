// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A peer that implements docs/wire/tcp.md over a socket of its own, correctly or not.
//!
//! Tests that use it have the page `wire_tcp`. They run in the same process as the library, so every wait makes
//! progress.
#ifndef CONFORMANCE_WIRE_H
#define CONFORMANCE_WIRE_H

#include <netinet/in.h>

#include "transfer.h"

enum { REQUEST = 0, RESPONSE = 1, REJECT = 6 };
enum { MSG, TAGGED, READ_REQ, READ_RSP, WRITE, RTS, CTS, DATA_OP, ATOMIC = 16, ATOMIC_FETCH, ATOMIC_COMPARE };
enum { MSG_TO = 24, TAGGED_TO, RTS_TO }; // for a receive context, in seg_count
enum { EXTENDED = 2, SHARES = 4, CLOSES = 8 }; // feature bits
enum { HAS_DATA = 1, WANTS_ACK = 4, WANTS_COMMIT = 8, ACK = 2 /* op data */ };

// One connection of the raw peer.
struct wire {
	int fd;
	bool big;        // a big-endian host
	uint8_t counter; // expected in the next header read
};

struct wire_header {
	uint8_t version, op, op_data, seg_count, datatype, size, counter; // version and size 0 mean the valid values
	uint16_t flags;
	uint64_t payload, data, tag, msg_size;
	uint64_t total; // 0: header size and payload
	struct {
		uint64_t addr, len, key;
	} segs[5];
};

void only_tcp(struct env *t); // skips on other providers

// The listener of the raw peer, to which the library connects, and whose port the raw peer announces.
struct listener {
	int fd;
	struct sockaddr_in addr;
};
struct listener wire_listen(void);
struct listener wire_nobody(void); // an address that refuses connections and stays reserved
int wire_accept(struct env *t, struct listener *at);

int wire_connect(struct env *t, const void *addr); // a socket to this sockaddr_in, from 127.0.0.1
void wire_write(struct env *t, int fd, const void *bytes, size_t len);
void wire_slowly(struct env *t, int fd, const void *bytes, size_t len); // byte by byte, with progress between them
void wire_read(struct env *t, int fd, void *bytes, size_t len);
void wire_ends(struct env *t, int fd);   // end of stream or reset, with no byte before it
void wire_silent(struct env *t, int fd); // there is nothing to read now, and no end
void wire_reset(int fd);                 // closes with a reset

// Connection messages.
size_t cm_bytes(uint8_t *out, int kind, bool big, const void *private, size_t len);
size_t rdm_bytes(uint8_t *out, int kind, bool big, uint8_t version, uint16_t port, uint32_t pid);
void read_cm(struct env *t, int fd, int kind, uint8_t *private, size_t len); // checks every byte of the header
// An open connection to the RDM endpoint `side`, announced as `port`.
struct wire rdm_open(struct env *t, struct side *side, uint16_t port, bool big);
// The same with these feature bits, all of which the endpoint supports.
struct wire rdm_open_as(struct env *t, struct side *side, uint16_t port, bool big, uint8_t features);

// A connection that the RDM endpoint `side` makes to the raw peer, started by a send of 8 bytes. A library may accept
// that send before the connection is up (then it arrives as the first frame) or return -FI_EAGAIN.
struct dial {
	struct listener at;
	fi_addr_t peer;
	struct wire wire;
	void *queued; // the context of the send that was accepted
};
struct dial dial_from(struct env *t, struct side *side, struct listener at); // until the request, which is checked
void dial_answer(struct env *t, struct dial *dial, struct side *side);       // a valid response
void dial_first(struct env *t, struct dial *dial, struct side *side);        // the queued send has arrived

// Frames.
size_t frame_bytes(uint8_t *out, struct wire_header h, bool big, const void *payload);
void send_frame(struct env *t, struct wire *wire, struct wire_header h, const void *payload);
// Reads one header and checks all of it against `want` (zero fields included) and the counter.
void expect_frame(struct env *t, struct wire *wire, struct wire_header want);

// Requests an answer from the endpoint at the other end of `wire`: it is alive and has read everything before.
void still_open(struct env *t, struct wire *wire, struct side *side);

#endif
