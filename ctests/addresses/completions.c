// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Reads completions and compares each with the model. A queue is drained before a vector of its domain changes, so
//! that every entry must name the sender by the current vector.
#include "model.h"

bool is_layered_on_messages(struct world *w)
{
	return strstr(w->provider, "ofi_rxm");
}

// The number by which completions of a node must name this sender.
fi_addr_t number_of(struct world *w, struct node *node, int id)
{
	struct vector *vector = node->vector;

	if (vector->at[id] == FI_ADDR_NOTAVAIL)
		return FI_ADDR_NOTAVAIL;
	return w->mode.ids == NO_IDS ? vector->at[id] : vector->user_id[id];
}

static void check_source(struct world *w, struct node *node, const struct message *message, fi_addr_t source, bool is_error)
{
	fi_addr_t wanted = number_of(w, node, message->from);
	bool is_unknown = node->vector->at[message->from] == FI_ADDR_NOTAVAIL;

	// The provider below reports a write to rxm without naming the peer.
	if (message->lane == WRITES && is_layered_on_messages(w) && source == FI_ADDR_NOTAVAIL)
		return;
	if (is_error != (is_unknown && w->mode.source_err))
		FAIL("a message of %d at %d is %s error entry", message->from, message->to, is_error ? "an" : "no");
	if (!is_error && source != wanted)
		FAIL("a message (lane %d, %zu bytes) of %d at %d has the source %" PRId64 ", not %" PRId64, message->lane,
		     message->size, message->from, message->to, (int64_t)source, (int64_t)wanted);
}

static struct message *message_in(struct world *w, struct operation *op, size_t len)
{
	struct header header;
	struct message *message;

	memcpy(&header, op->buffer, sizeof(header));
	if (len < sizeof(header) || header.magic != w->seed || header.message >= w->message_count)
		FAIL("a receive of %d has %zu bytes that are no message", op->id, len);
	message = &w->messages[header.message];
	if (header.from != message->from || len != message->size)
		FAIL("message %d has another sender or length than was sent", header.message);
	for (size_t i = sizeof(header); i < len; i++)
		if (op->buffer[i] != (char)(header.message + i))
			FAIL("message %d has a wrong byte at %zu", header.message, i);
	return message;
}

static void check_receive(struct world *w, struct operation *op, const struct fi_cq_tagged_entry *entry, fi_addr_t source,
			  bool is_error)
{
	struct message *message = message_in(w, op, entry->len);
	struct node *node = node_of(w, op->id);

	NOTE("%d receives message %d from %d, source %" PRId64, op->id, (int)(message - w->messages), message->from,
	     (int64_t)source);
	if (!node)
		FAIL("a receive of the closed endpoint %d completes", op->id);
	if (message->received)
		FAIL("message %d is received twice", (int)(message - w->messages));
	message->received = true;
	if (message->to != op->id)
		FAIL("a message of %d to %d comes to %d", message->from, message->to, op->id);
	if (op->from != NOBODY && op->from != message->from)
		FAIL("a receive of %d for messages of %d takes one of %d", op->id, op->from, message->from);
	if (op->lane != message->lane || (w->mode.scalable && op->at != message->context))
		FAIL("a message of %d comes to another lane or context of %d", message->from, op->id);
	if (op->lane == TAGGED && ((op->tag ^ message->tag) & ~op->ignore || entry->tag != message->tag))
		FAIL("a receive of %d takes a message with another tag", op->id);
	check_source(w, node, message, source, is_error);
}

static void check_write(struct world *w, const struct fi_cq_tagged_entry *entry, fi_addr_t source, bool is_error)
{
	struct message *message = &w->messages[entry->data % MESSAGES];
	struct node *node = node_of(w, message->to);

	if (entry->data >= (uint64_t)w->message_count || message->lane != WRITES)
		FAIL("write data %" PRIx64 " that nobody has sent", entry->data);
	if (message->received)
		FAIL("the data of write %d comes twice", (int)entry->data);
	message->received = true;
	NOTE("%d is written to by %d, source %" PRId64, message->to, message->from, (int64_t)source);
	if (!node && w->closed && w->closed->id == message->to)
		node = w->closed;
	if (!node)
		FAIL("write data for the closed endpoint %d", message->to);
	check_source(w, node, message, source, is_error);
}

static void take(struct world *w, const struct fi_cq_tagged_entry *entry, fi_addr_t source, bool is_error)
{
	struct operation *op = entry->op_context;

	if (entry->flags & FI_REMOTE_WRITE)
		return check_write(w, entry, source, is_error);
	if (op->closed && op->kind == SEND)
		return;
	if (op->done)
		FAIL("an operation of %d completes twice", op->id);
	// A peek does not report which message it has claimed.
	if (op->claim == PEEKING) {
		op->claim = CLAIMED;
		return;
	}
	op->done = true;
	if (op->kind == RECEIVE)
		return check_receive(w, op, entry, source, is_error);
	w->messages[op->message].sent = true;
}

// IP addresses are compared by family, port and address.
static bool is_name(struct world *w, const char *address, int id)
{
	if (w->info->addr_format == FI_ADDR_STR)
		return !strcmp(address, w->names[id]);
	return !memcmp(address, w->names[id], 8);
}

static void take_error(struct world *w, struct fid_cq *cq)
{
	char address[NAME];
	struct fi_cq_err_entry error = { .err_data = address, .err_data_size = sizeof(address) };
	struct operation *op;

	if (fi_cq_readerr(cq, &error, 0) != 1)
		FAIL("fi_cq_readerr has no entry");
	op = error.op_context;
	if (error.err == FI_EADDRNOTAVAIL) {
		struct fi_cq_tagged_entry entry = {
			.op_context = error.op_context, .flags = error.flags, .len = error.len, .data = error.data, .tag = error.tag,
		};
		int from;

		take(w, &entry, FI_ADDR_NOTAVAIL, true);
		from = error.flags & FI_REMOTE_WRITE ? w->messages[error.data].from : ((struct header *)op->buffer)->from;
		if (error.flags & FI_REMOTE_WRITE && is_layered_on_messages(w))
			return;
		if (!error.err_data_size || !is_name(w, address, from))
			FAIL("the error entry for a message of %d does not have its address", from);
		return;
	}
	if (op->closed && op->kind == SEND)
		return;
	if (op->done)
		FAIL("an operation of %d fails after it has completed", op->id);
	op->done = op->failed = true;
	if (op->claim == PEEKING && error.err == FI_ENOMSG)
		return;
	if (op->kind == RECEIVE && w->any_closed && error.err == FI_ECONNRESET)
		return;
	if (op->kind == RECEIVE && op->cancelled && error.err == FI_ECANCELED)
		return;
	if (op->kind == SEND && w->messages[op->message].optional)
		return;
	// ofi_rxd: if an endpoint with a reused address and a peer of the earlier endpoint greet each other at once,
	// the peer's late greeting may end what the endpoint has begun to send. The error is FI_ECONNRESET, and no
	// other peer gets data.
	if (op->kind == SEND && strstr(w->provider, "ofi_rxd") && w->reborn[op->id] && error.err == FI_ECONNRESET) {
		w->messages[op->message].optional = true;
		return;
	}
	FAIL("a %s of %d (message %d to %d) fails: %s", op->kind == SEND ? "send" : "receive", op->id, op->message,
	     op->kind == SEND ? w->messages[op->message].to : NOBODY, fi_strerror(error.err));
}

void drain(struct world *w, struct domain *domain)
{
	for (;;) {
		struct fi_cq_tagged_entry entry;
		fi_addr_t source = FI_ADDR_NOTAVAIL;
		ssize_t rc = fi_cq_readfrom(domain->cq, &entry, 1, &source);

		if (rc == -FI_EAGAIN)
			return;
		if (rc == -FI_EAVAIL)
			take_error(w, domain->cq);
		else if (rc == 1)
			take(w, &entry, source, false);
		else
			FAIL("fi_cq_readfrom gave %zd", rc);
	}
}

void progress(struct world *w)
{
	for (unsigned i = 0; i < w->mode.domains; i++)
		drain(w, &w->domains[i]);
}
