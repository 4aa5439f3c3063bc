// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endless messages in both directions, until one side dies.
#include "side.h"

enum { STREAM_TAG = 7, STREAM_LEN = 20000 };

static void stream_send(struct link *link, struct stream *stream, unsigned number)
{
	unsigned slot = number % STREAM_WINDOW;

	fill(stream->out[slot].mem, STREAM_LEN, number * 2 + options.server);
	post_send(link, stream->out[slot].mem, STREAM_LEN, STREAM_TAG, &stream->sends[slot]);
}

static void stream_recv(struct link *link, struct stream *stream, unsigned number)
{
	unsigned slot = number % STREAM_WINDOW;

	poison(stream->in[slot]);
	post_recv(link, stream->in[slot].mem, STREAM_LEN, STREAM_TAG, &stream->recvs[slot]);
}

void stream_start(struct link *link, struct stream *stream)
{
	*stream = (struct stream){ 0 };
	for (unsigned i = 0; i < STREAM_WINDOW; i++) {
		stream->out[i] = new_buf(STREAM_LEN);
		stream->in[i] = new_buf(STREAM_LEN);
		stream_recv(link, stream, i);
	}
	meet(link, "ready to stream");
	for (unsigned i = 0; i < STREAM_WINDOW; i++)
		stream_send(link, stream, i);
}

static struct op *next_recv(struct stream *stream)
{
	return &stream->recvs[stream->received % STREAM_WINDOW];
}

static void stream_verify(struct stream *stream)
{
	CHECK_EQ(next_recv(stream)->entry.len, STREAM_LEN);
	verify_buf(stream->in[stream->received % STREAM_WINDOW], STREAM_LEN, stream->received * 2 + !options.server);
	stream->received++;
}

// Posts each completed operation again, until one ends in error.
bool stream_on(struct link *link, struct stream *stream)
{
	struct op *send = &stream->sends[stream->sent % STREAM_WINDOW], *recv = next_recv(stream);

	progress(link);
	if (recv->done && !recv->err) {
		stream_verify(stream);
		stream_recv(link, stream, stream->received - 1 + STREAM_WINDOW);
	}
	if (send->done && !send->err)
		stream_send(link, stream, stream->sent++ + STREAM_WINDOW);
	return !(send->done && send->err) && !(recv->done && recv->err);
}

// Receives the messages that the other side had sent. Without a connection they would stay for the next process.
static void stream_drain(struct link *link, struct stream *stream)
{
	for (unsigned i = 0; !options.msg || i < STREAM_WINDOW; i++) {
		for (unsigned k = 0; k < 2 * STREAM_WINDOW; k++)
			progress(link);
		if (!next_recv(stream)->done || next_recv(stream)->err)
			break;
		stream_verify(stream);
		if (!options.msg)
			stream_recv(link, stream, stream->received - 1 + STREAM_WINDOW);
	}
}

// The other side is dead. Each operation in flight must end once.
void stream_end(struct link *link, struct stream *stream)
{
	for (unsigned i = 0; i < STREAM_WINDOW; i++)
		wait_end(link, &stream->sends[i]);
	stream_drain(link, stream);
	for (unsigned i = 0; i < STREAM_WINDOW; i++) {
		if (!options.msg && !stream->recvs[i].done)
			OK(fi_cancel(&link->ep->fid, &stream->recvs[i]));
		wait_end(link, &stream->recvs[i]);
		free_buf(stream->out[i]);
		free_buf(stream->in[i]);
	}
}
