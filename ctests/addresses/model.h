// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Random address vectors against a model. Every message contains its true sender, so the model can determine which
//! number a completion must name and which directed receive may take the message.
#ifndef ADDRESSES_MODEL_H
#define ADDRESSES_MODEL_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

enum {
	NODES = 4,      // endpoints that are open at a time
	IDS = 12,       // number of addresses in one run: a node that is opened again may get a new one
	DOMAINS = 2,
	CONTEXTS = 2,   // of a scalable endpoint
	BITS = 4,       // value of rx_ctx_bits
	MESSAGES = 512,
	OPERATIONS = 2048,
	TAGS = 2,
	LARGE = 100000, // bytes of a receive
	NAME = 256,
	NOBODY = -1,
};

// The part of a run that depends on the seed.
struct mode {
	bool scalable;
	enum { NO_IDS, IDS_BY_INSERT, IDS_LATER } ids;
	bool source_err;   // FI_SOURCE_ERR: messages of unknown senders are error entries
	bool shared_vector; // the first two nodes have one vector
	unsigned domains;
};

// The model of an address vector, indexed by identity instead of number.
struct vector {
	struct fid_av *av;
	fi_addr_t at[IDS]; // FI_ADDR_NOTAVAIL if not inserted
	fi_addr_t user_id[IDS];
	unsigned count[IDS]; // how often it was inserted
};

struct domain {
	struct fid_domain *domain;
	struct fid_cq *cq;
};

struct node {
	int id; // the identity, which stands for an address
	struct domain *domain;
	struct vector *vector;
	struct fid_ep *ep, *tx[CONTEXTS], *rx[CONTEXTS]; // the same object unless scalable
	struct fid_mr *mr;
	char memory[64];
	uint64_t base, key;
};

enum lane { PLAIN, TAGGED, WRITES };

struct message {
	int from, to; // identities
	enum lane lane;
	unsigned tx, context; // contexts of the sender and of the receiver
	uint64_t tag;
	size_t size;
	bool sent, received;
	bool optional; // an end was closed meanwhile, so the message may be lost
};

struct operation {
	struct fi_context2 context[2];
	enum { SEND, RECEIVE } kind;
	int message; // the message of a send
	int id;      // the identity that posted it
	int from;    // the only sender that a receive accepts, or NOBODY for any
	unsigned at;
	enum lane lane;
	uint64_t tag, ignore;
	char *buffer;
	bool done, cancelled, failed;
	enum { NO_CLAIM, PEEKING, CLAIMED, RECEIVING } claim; // state of a message under FI_CLAIM
	bool closed; // its endpoint is closed: a send may still complete
};

// The start of every message.
struct header {
	uint64_t magic;
	int32_t message, from;
};

struct world {
	const char *provider;
	uint64_t seed, random;
	struct mode mode;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct domain domains[DOMAINS];
	struct vector vectors[NODES];
	struct node nodes[NODES];
	char names[IDS][NAME];
	size_t name_len[IDS];
	int ids;            // addresses given so far
	bool reborn[IDS];   // whether another endpoint had the address before
	struct message messages[MESSAGES];
	int message_count;
	struct operation operations[OPERATIONS];
	int operation_count;
	bool any_closed;    // an endpoint was closed, so what it was sending may fail
	struct node *closed; // the node whose endpoint was just closed; its queue is drained
	bool verbose;
};

_Noreturn void fail(struct world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define FAIL(...) fail(w, __VA_ARGS__)
#define OK(CALL)                                                                                                       \
	do {                                                                                                           \
		long rc_ = (CALL);                                                                                     \
		if (rc_)                                                                                               \
			FAIL("%s gave %ld (%s)", #CALL, rc_, fi_strerror(-rc_));                                       \
	} while (0)
#define NOTE(...)                                                                                                      \
	do {                                                                                                           \
		if (w->verbose) {                                                                                      \
			printf(__VA_ARGS__);                                                                           \
			putchar('\n');                                                                                 \
		}                                                                                                      \
	} while (0)

double now(void);
unsigned below(struct world *w, unsigned limit); // a random number

// objects.c
struct fi_info *ask(const char *provider, const struct mode *mode); // NULL: not offered
void open_world(struct world *w);
void close_world(struct world *w);
void open_node(struct world *w, struct node *node, int id); // id NOBODY: at a new address
void close_node(struct world *w, struct node *node);
struct node *node_of(struct world *w, int id); // NULL: closed

// completions.c
void drain(struct world *w, struct domain *domain); // reads all entries and checks them
void progress(struct world *w);
fi_addr_t number_of(struct world *w, struct node *node, int id);
bool is_layered_on_messages(struct world *w);

// steps.c
void run(struct world *w, unsigned steps);

#endif
