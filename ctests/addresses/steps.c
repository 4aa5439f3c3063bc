// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The steps of a run: a random number of steps, and an end at which all sent messages have to arrive.
#include "model.h"

enum { TRIES = 400, LIMIT_S = 30 };

static struct node *any_node(struct world *w)
{
	return &w->nodes[below(w, NODES)];
}

// ---- Vectors

static void insert(struct world *w, struct node *node, int id)
{
	struct vector *vector = node->vector;
	bool by_insert = w->mode.ids == IDS_BY_INSERT;
	fi_addr_t user_id = 5000 + 10 * id, at = by_insert ? user_id : 0;
	bool is_new = vector->count[id] == 0;

	drain(w, node->domain);
	if (fi_av_insert(vector->av, w->names[id], 1, &at, by_insert ? FI_AV_USER_ID : 0, NULL) != 1)
		FAIL("fi_av_insert of %d", id);
	if (!is_new && at != vector->at[id])
		FAIL("%d is inserted again and has another number", id);
	for (int other = 0; other < w->ids; other++)
		if (other != id && vector->at[other] == at)
			FAIL("%d gets the number of %d", id, other);
	vector->at[id] = at;
	vector->count[id]++;
	if (is_new)
		vector->user_id[id] = by_insert ? user_id : FI_ADDR_NOTAVAIL;
	NOTE("%d inserts %d: number %" PRIu64, node->id, id, at);
}

static void set_user_id(struct world *w, struct node *node, int id)
{
	struct vector *vector = node->vector;

	if (w->mode.ids != IDS_LATER || !vector->count[id])
		return;
	drain(w, node->domain);
	vector->user_id[id] = 7000 + below(w, 1000);
	OK(fi_av_set_user_id(vector->av, vector->at[id], vector->user_id[id], 0));
}

static struct fid_ep *posted_at(struct world *w, const struct operation *op)
{
	struct node *node = node_of(w, op->id);

	return node ? node->rx[op->at] : NULL;
}

// Cancels posted receives of messages from one sender (`from` NOBODY: of any sender), as an application does
// before it removes an address.
static void cancel(struct world *w, struct vector *vector, int from)
{
	for (int i = 0; i < w->operation_count; i++) {
		struct operation *op = &w->operations[i];
		struct node *node = node_of(w, op->id);

		if (op->kind != RECEIVE || op->done || op->claim || !node || (vector && node->vector != vector))
			continue;
		if (from != NOBODY && op->from != from)
			continue;
		op->cancelled = true;
		OK(fi_cancel(&posted_at(w, op)->fid, op->context));
	}
}

static bool receives_open(struct world *w, struct vector *vector, int from)
{
	for (int i = 0; i < w->operation_count; i++) {
		struct operation *op = &w->operations[i];
		struct node *node = node_of(w, op->id);

		if (op->kind == RECEIVE && op->cancelled && !op->done && node && (!vector || node->vector == vector)
		    && (from == NOBODY || op->from == from))
			return true;
	}
	return false;
}

static void wait_cancelled(struct world *w, struct vector *vector, int from)
{
	double limit = now() + LIMIT_S;

	// A receive that is being filled completes with its message instead.
	while (receives_open(w, vector, from)) {
		progress(w);
		if (now() > limit)
			FAIL("a cancelled receive does not end");
	}
}

static void remove_one(struct world *w, struct node *node, int id)
{
	struct vector *vector = node->vector;

	if (vector->count[id] == 1) {
		cancel(w, vector, id);
		wait_cancelled(w, vector, id);
	}
	drain(w, node->domain);
	OK(fi_av_remove(vector->av, &vector->at[id], 1, 0));
	NOTE("%d removes %d: number %" PRIu64, node->id, id, vector->at[id]);
	if (!--vector->count[id])
		vector->at[id] = FI_ADDR_NOTAVAIL;
}

// ---- Messages

static struct operation *new_operation(struct world *w, struct node *node, int kind)
{
	struct operation *op = &w->operations[w->operation_count];

	if (w->operation_count++ == OPERATIONS)
		FAIL("too many operations");
	op->kind = kind;
	op->id = node->id;
	return op;
}

static fi_addr_t named(struct world *w, fi_addr_t at, unsigned context)
{
	return w->mode.scalable ? fi_rx_addr(at, context, BITS) : at;
}

static size_t random_size(struct world *w)
{
	static const size_t sizes[] = { 24, 64, 200, 5000, 20000, 70000, LARGE };
	unsigned kind = below(w, 12);

	return kind < 8 ? sizes[kind % 3] : sizes[3 + kind % 4];
}

static ssize_t post_write(struct world *w, struct node *from, struct operation *op, struct message *message)
{
	struct node *to = node_of(w, message->to);

	if (!to)
		return -FI_EINVAL;
	return fi_writedata(from->tx[message->tx], op->buffer, 8, NULL, message - w->messages,
			    named(w, from->vector->at[message->to], 0), to->base, to->key, op->context);
}

static ssize_t post_message(struct world *w, struct node *from, struct operation *op, struct message *message)
{
	fi_addr_t to = named(w, from->vector->at[message->to], message->context);
	struct fid_ep *ep = from->tx[message->tx];

	switch (message->lane) {
	case WRITES:
		return post_write(w, from, op, message);
	case TAGGED:
		return fi_tsend(ep, op->buffer, message->size, NULL, to, message->tag, op->context);
	default:
		return fi_send(ep, op->buffer, message->size, NULL, to, op->context);
	}
}

static void send_to(struct world *w, struct node *from, int to)
{
	struct message *message = &w->messages[w->message_count];
	struct header header = { w->seed, w->message_count, from->id };
	struct operation *op;
	ssize_t rc;

	if (from->vector->at[to] == FI_ADDR_NOTAVAIL || w->message_count == MESSAGES)
		return;
	*message = (struct message){
		.from = from->id, .to = to, .tx = below(w, CONTEXTS), .context = below(w, CONTEXTS), .tag = below(w, TAGS),
		.lane = below(w, 7) == 0 ? WRITES : below(w, 2) ? TAGGED : PLAIN, .size = random_size(w),
		.optional = !node_of(w, to) || w->reborn[to],
	};
	op = new_operation(w, from, SEND);
	op->message = w->message_count++;
	op->buffer = malloc(message->size);
	for (size_t i = 0; i < message->size; i++)
		op->buffer[i] = op->message + i;
	memcpy(op->buffer, &header, sizeof(header));
	for (unsigned tries = 0; (rc = post_message(w, from, op, message)) == -FI_EAGAIN && tries < TRIES; tries++)
		progress(w);
	NOTE("%d sends message %d to %d: lane %d, context %u, %zu bytes: %zd", from->id, op->message, to, message->lane,
	     message->context, message->size, rc);
	if (rc) {
		op->done = true;
		message->optional = true;
		if (rc != -FI_EAGAIN && node_of(w, to) && !w->reborn[to])
			FAIL("a send of %d to %d gave %zd", from->id, to, rc);
	}
}

static struct operation *new_receive(struct world *w, struct node *node, int from, enum lane lane, unsigned at,
				     uint64_t tag, uint64_t ignore)
{
	struct operation *op = new_operation(w, node, RECEIVE);

	op->from = from;
	op->lane = lane;
	op->at = at;
	op->tag = tag;
	op->ignore = ignore;
	op->buffer = malloc(LARGE);
	memset(op->buffer, 0, sizeof(struct header));
	return op;
}

static fi_addr_t source_of(struct world *w, struct node *node, int from)
{
	return from == NOBODY ? FI_ADDR_UNSPEC : named(w, node->vector->at[from], below(w, CONTEXTS));
}

static struct operation *receive(struct world *w, struct node *node, int from, enum lane lane, unsigned at, uint64_t tag,
				 uint64_t ignore)
{
	struct operation *op = new_receive(w, node, from, lane, at, tag, ignore);
	fi_addr_t source = source_of(w, node, from);
	ssize_t rc;

	NOTE("%d receives from %d: lane %d, context %u", node->id, from, lane, at);
	for (;;) {
		if (lane == TAGGED)
			rc = fi_trecv(node->rx[at], op->buffer, LARGE, NULL, source, tag, ignore, op->context);
		else
			rc = fi_recv(node->rx[at], op->buffer, LARGE, NULL, source, op->context);
		if (rc != -FI_EAGAIN)
			break;
		progress(w);
	}
	OK(rc);
	return op;
}

static void receive_any(struct world *w, struct node *node)
{
	int from = below(w, w->ids);

	if (below(w, 3) == 0 || node->vector->at[from] == FI_ADDR_NOTAVAIL)
		from = NOBODY;
	receive(w, node, from, below(w, 2), below(w, CONTEXTS), below(w, TAGS), below(w, 2) ? ~UINT64_C(0) : 0);
}

static void post_claim(struct world *w, struct node *node, struct operation *op, uint64_t flags)
{
	struct iovec iov = { op->buffer, LARGE };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .iov_count = 1, .addr = source_of(w, node, flags & FI_PEEK ? op->from : NOBODY), .tag = op->tag,
		.ignore = op->ignore, .context = op->context,
	};
	ssize_t rc;

	NOTE("%d claims, flags %" PRIx64, node->id, flags);
	while ((rc = fi_trecvmsg(node->rx[op->at], &msg, flags | FI_COMPLETION)) == -FI_EAGAIN)
		progress(w);
	OK(rc);
}

// Receives a message that was claimed before, possibly before the vector changed, or claims one.
static void claim(struct world *w, struct node *node)
{
	int from = below(w, w->ids);
	struct operation *op;

	// With FI_SOURCE_ERR, a peek of an unknown sender's message is an error entry without details.
	if (w->mode.source_err)
		return;
	for (int i = 0; i < w->operation_count; i++) {
		op = &w->operations[i];
		if (op->id == node->id && op->claim == CLAIMED && !op->done && below(w, 2)) {
			op->claim = RECEIVING;
			return post_claim(w, node, op, FI_CLAIM);
		}
	}
	if (node->vector->at[from] == FI_ADDR_NOTAVAIL)
		from = NOBODY;
	op = new_receive(w, node, from, TAGGED, below(w, CONTEXTS), 0, ~UINT64_C(0));
	op->claim = PEEKING;
	post_claim(w, node, op, FI_PEEK | FI_CLAIM);
}

// Both nodes insert each other and send before either has received anything, so connections may cross.
static void cross(struct world *w, struct node *x, struct node *y)
{
	insert(w, x, y->id);
	insert(w, y, x->id);
	send_to(w, x, y->id);
	send_to(w, y, x->id);
}

// ---- Endpoints that are closed and opened again

static void reopen(struct world *w, struct node *node)
{
	int id = node->id;

	if (w->ids == IDS)
		return;
	cancel(w, node->vector, NOBODY);
	wait_cancelled(w, node->vector, NOBODY);
	progress(w);
	for (int i = 0; i < w->message_count; i++)
		if (w->messages[i].from == id || w->messages[i].to == id)
			w->messages[i].optional = true;
	NOTE("%d closes", id);
	w->any_closed = true;
	close_node(w, node);
	for (int i = 0; i < w->operation_count; i++)
		if (w->operations[i].id == id)
			w->operations[i].done = w->operations[i].closed = true;
	// fi_close makes progress, so the queue may have data of writes that arrived meanwhile.
	w->closed = node;
	drain(w, node->domain);
	w->closed = NULL;
	open_node(w, node, below(w, 2) ? id : NOBODY);
}

// ---- The end

static struct message *missing(struct world *w, struct node *node)
{
	for (int i = 0; i < w->message_count; i++) {
		struct message *message = &w->messages[i];

		if (message->to == node->id && message->lane != WRITES && !message->received && !message->optional)
			return message;
	}
	return NULL;
}

static void wait_done(struct world *w, const bool *done, const char *what, int from, int to)
{
	double limit = now() + LIMIT_S;

	while (!*done) {
		progress(w);
		if (now() > limit)
			FAIL("%s of %d for %d does not come", what, from, to);
	}
}

// A receive matched another message than the oldest missing one. That is allowed only if another context sent it, or if
// it was sent before one of its endpoints was closed.
static void check_older(struct world *w, struct operation *op, struct message *message)
{
	struct message *taken = &w->messages[((struct header *)op->buffer)->message];

	if (!taken->optional && taken->tx == message->tx && taken > message)
		FAIL("a younger message of %d comes to %d first", message->from, message->to);
}

// Receives the messages for a node, mostly with receives that name the sender; its messages arrive in order.
static void receive_rest(struct world *w, struct node *node)
{
	struct message *message;

	while ((message = missing(w, node))) {
		bool by_name = below(w, 4) > 0;
		struct operation *op;

		if (by_name && node->vector->at[message->from] == FI_ADDR_NOTAVAIL)
			insert(w, node, message->from);
		op = receive(w, node, by_name ? message->from : NOBODY, message->lane, message->context, message->tag, 0);
		wait_done(w, &op->done, "a message", message->from, node->id);
		if (by_name && !op->failed && !message->received)
			check_older(w, op, message);
	}
}

static void finish_claims(struct world *w)
{
	for (int i = 0; i < w->operation_count; i++) {
		struct operation *op = &w->operations[i];
		double limit = now() + LIMIT_S;

		while (op->claim == PEEKING && !op->done && now() < limit)
			progress(w);
		if (op->claim == CLAIMED && !op->done) {
			op->claim = RECEIVING;
			post_claim(w, node_of(w, op->id), op, FI_CLAIM);
		}
		if (op->claim)
			wait_done(w, &op->done, "a claimed message", op->from, op->id);
	}
}

static void finish(struct world *w)
{
	finish_claims(w);
	cancel(w, NULL, NOBODY);
	wait_cancelled(w, NULL, NOBODY);
	for (unsigned i = 0; i < NODES; i++)
		receive_rest(w, &w->nodes[i]);
	for (int i = 0; i < w->operation_count; i++) {
		struct operation *op = &w->operations[i];

		if (op->kind == SEND && !w->messages[op->message].optional)
			wait_done(w, &op->done, "the end of a send", op->id, w->messages[op->message].to);
	}
	for (int i = 0; i < w->message_count; i++) {
		struct message *message = &w->messages[i];

		if (!message->optional)
			wait_done(w, &message->received, "write data", message->from, message->to);
	}
}

static void step(struct world *w)
{
	struct node *x = any_node(w), *y = any_node(w);
	int id = below(w, w->ids);

	switch (below(w, 21)) {
	case 0: case 1:
		return insert(w, x, below(w, 3) ? y->id : id);
	case 2: case 3: case 4:
		if (x->vector->count[id])
			remove_one(w, x, id);
		return;
	case 5:
		return set_user_id(w, x, id);
	case 6: case 7:
		return cross(w, x, y);
	case 8: case 9: case 10: case 11:
		return receive_any(w, x);
	case 12: case 13: case 14: case 15: case 16:
		return send_to(w, x, below(w, 3) ? y->id : id);
	case 18:
		return claim(w, x);
	case 17:
		if (below(w, 3) == 0)
			reopen(w, x);
		return;
	default:
		for (unsigned polls = below(w, 20); polls; polls--)
			drain(w, x->domain);
	}
}

void run(struct world *w, unsigned steps)
{
	while (steps--)
		step(w);
	finish(w);
}
