// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connections: private data both ways, rejection, shutdown by either side, and a message in between.
#include "side.h"

// The side that ends the connection, or that the server rejects it.
enum { CLIENT_SHUTS, SERVER_SHUTS, CLIENT_CLOSES, SERVER_CLOSES, REJECTED, ENDINGS };

static const char *const endings[] = {
	"the client shuts down", "the server shuts down", "the client closes", "the server closes", "rejected",
};

static void exchange(struct link *link, uint64_t seed)
{
	struct buf out = new_buf(64), in = new_buf(64);
	struct op send, recv;

	fill(out.mem, 64, seed + options.server);
	post_recv(link, in.mem, 64, 0, &recv);
	post_send(link, out.mem, 64, 0, &send);
	wait_op(link, &send);
	wait_op(link, &recv);
	verify_buf(in, 64, seed + !options.server);
	free_buf(out);
	free_buf(in);
}

static void end(struct link *link, unsigned ending)
{
	bool ours = ending % 2 == options.server, closes = ending >= CLIENT_CLOSES;
	struct fi_eq_cm_entry entry;

	meet(link, "exchanged");
	if (ours && !closes)
		OK(fi_shutdown(link->ep, 0));
	if (!ours || !closes) {
		wait_event(link, FI_SHUTDOWN, &entry, NULL);
		CHECK(entry.fid == &link->ep->fid);
	}
	close_msg(link);
}

static void client(struct link *link, struct fi_info *info, size_t len, size_t answer, unsigned ending)
{
	uint8_t out[256], in[512];
	struct fi_eq_cm_entry entry;

	fill(out, len, len);
	open_msg(link, info);
	OK(fi_connect(link->ep, link->peer_name, out, len));
	if (ending == REJECTED) {
		struct fi_eq_err_entry err = wait_refused(link, in);

		CHECK(err.fid == &link->ep->fid);
		CHECK_EQ(err.err, FI_ECONNREFUSED);
		CHECK_EQ(err.err_data_size, answer);
		verify(err.err_data, answer, answer + 1);
		close_msg(link);
		return;
	}
	CHECK_EQ(wait_event(link, FI_CONNECTED, &entry, in), answer);
	CHECK(entry.fid == &link->ep->fid);
	verify(in, answer, answer + 1);
	exchange(link, len);
	end(link, ending);
}

static void server(struct link *link, size_t len, size_t answer, unsigned ending)
{
	uint8_t out[256], in[512];
	struct fi_eq_cm_entry entry;

	fill(out, answer, answer + 1);
	CHECK_EQ(wait_event(link, FI_CONNREQ, &entry, in), len);
	CHECK(entry.fid == &link->pep->fid);
	verify(in, len, len);
	if (ending == REJECTED) {
		OK(fi_reject(link->pep, entry.info->handle, out, answer));
		fi_freeinfo(entry.info);
		return;
	}
	open_msg(link, entry.info);
	fi_freeinfo(entry.info);
	OK(fi_accept(link->ep, out, answer));
	wait_event(link, FI_CONNECTED, &entry, NULL); // upstream hands out 256 bytes of its own with it
	CHECK(entry.fid == &link->ep->fid);
	exchange(link, len);
	end(link, ending);
}

void case_connect(void)
{
	struct link link = { 0 };
	struct fi_info *info = NULL;

	open_domain(&link);
	if (options.server) {
		listen_msg(&link);
		say_bytes(link.name, link.name_len);
	} else {
		link.peer_name_len = hear_bytes(NULL, link.peer_name, sizeof(link.peer_name));
		info = info_towards(&link);
	}
	for (unsigned round = 0; round < options.rounds; round++)
		for (unsigned s = 0; s < options.size_count; s++)
			for (unsigned ending = 0; ending < ENDINGS; ending++) {
				size_t len = options.sizes[s], answer = options.sizes[(s + ending) % options.size_count];

				doing("%zu bytes of private data, %zu in the answer, %s", len, answer, endings[ending]);
				if (options.server)
					server(&link, len, answer, ending);
				else
					client(&link, info, len, answer, ending);
				meet(NULL, endings[ending]);
			}
}
