// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cm(3): listening, connecting, accepting, rejecting, shutting down, private data, peers. MSG endpoints.
#include "harness.h"

static size_t data_size(struct env *t)
{
	struct fid_ep *ep = open_ep(t, t->info);
	size_t size = 0, len = sizeof(size);

	OK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &size, &len));
	shut(t, &ep->fid);
	return size;
}

// ---- The request

TEST(fi_cm, connreq_names_the_listener, EP_MSG, FI_MSG, "FI_CONNREQ carries the passive endpoint and an info with the handle to accept or reject with")
{
	struct cm_listener listener = cm_listen(t);
	union cm_entry in;

	CHECK_EQ(cm_request(t, &listener, NULL, 0, &in), 0);
	CHECK(in.cm.info->handle);
	CHECK_EQ(in.cm.info->ep_attr->type, FI_EP_MSG);
	CHECK(in.cm.info->fabric_attr && in.cm.info->domain_attr);
	CHECK_STR(in.cm.info->fabric_attr->prov_name, t->prov);
	OK(fi_reject(listener.pep, in.cm.info->handle, NULL, 0));
	fi_freeinfo(in.cm.info);
}

TEST(fi_cm, accept_connects_both, EP_MSG, FI_MSG, "After fi_accept both sides get FI_CONNECTED, each with its own active endpoint")
{
	struct cm_listener listener = cm_listen(t);
	union cm_entry in;

	cm_request(t, &listener, NULL, 0, &in);
	cm_accepting(t, in.cm.info);
	OK(fi_enable(t->b.ep));
	OK(fi_accept(t->b.ep, NULL, 0));
	wait_connected(t, t->eq, t->a.ep, t->b.ep);
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
}

TEST(fi_cm, connect_and_accept_enable, EP_MSG, FI_MSG, "fi_connect and fi_accept enable the endpoint if it is not enabled yet")
{
	struct cm_listener listener = cm_listen(t);
	union cm_entry in;

	open_bound_ep(t, &t->a);
	OK(fi_connect(t->a.ep, listener.addr, NULL, 0));
	wait_event(t, t->eq, FI_CONNREQ, &in, sizeof(in));
	cm_accepting(t, in.cm.info);
	OK(fi_accept(t->b.ep, NULL, 0));
	wait_connected(t, t->eq, t->a.ep, t->b.ep);
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
}

TEST(fi_cm, connect_needs_cq, EP_MSG, FI_MSG, "fi_connect on an endpoint that could not be enabled fails as fi_enable would")
{
	struct cm_listener listener = cm_listen(t);
	struct fid_ep *ep;

	open_domain(t);
	ep = open_ep(t, t->info);
	OK(fi_ep_bind(ep, &t->eq->fid, 0));
	CHECK_RC(fi_connect(ep, listener.addr, NULL, 0), -FI_ENOCQ);
}

TEST(fi_cm, receive_before_connected, EP_MSG, FI_MSG, "Receives posted before the connection is made get its first messages")
{
	struct cm_listener listener = cm_listen(t);
	struct fi_cq_tagged_entry entry;
	union cm_entry in;

	cm_request(t, &listener, NULL, 0, &in);
	cm_accepting(t, in.cm.info);
	OK(fi_enable(t->b.ep));
	flow_post_recv(t, 0, 2);
	OK(fi_accept(t->b.ep, NULL, 0));
	wait_connected(t, t->eq, t->a.ep, t->b.ep);
	flow_post_send(t, 0, 2);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &t->flow->rx[0]);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &t->flow->rx[1]);
}

TEST(fi_cm, send_before_connected, EP_MSG, FI_MSG, "Sending before FI_CONNECTED is an error or -FI_EAGAIN")
{
	struct fi_context2 ctx;
	static char buf[16];
	ssize_t rc;

	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	rc = fi_send(t->a.ep, buf, sizeof(buf), reg_desc(t, buf, sizeof(buf), FI_SEND), 0, &ctx);
	CHECK(rc == -FI_EOPBADSTATE || rc == -FI_ENOTCONN || rc == -FI_EAGAIN || rc == -FI_EINVAL);
}

TEST(fi_cm, many_requests, EP_MSG, FI_MSG, "Many requests wait at a listener; each can be accepted and carries its own traffic")
{
	enum { COUNT = 32 };
	struct cm_listener listener = cm_listen(t);
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	struct fid_ep *active[COUNT], *passive[COUNT];
	static char out[COUNT][8], in[COUNT][8];
	static struct fi_context2 tx[COUNT], rx[COUNT];
	void *out_desc = reg_desc(t, out, sizeof(out), FI_SEND), *in_desc = reg_desc(t, in, sizeof(in), FI_RECV);

	for (int i = 0; i < COUNT; i++) {
		active[i] = open_ep(t, t->info);
		OK(fi_ep_bind(active[i], &cq->fid, FI_TRANSMIT | FI_RECV));
		OK(fi_ep_bind(active[i], &t->eq->fid, 0));
		OK(fi_connect(active[i], listener.addr, &i, sizeof(i)));
	}
	for (int i = 0; i < COUNT; i++) {
		union cm_entry entry;
		int which;

		ssize_t len = wait_event(t, t->eq, FI_CONNREQ, &entry, sizeof(entry));

		CHECK(len >= (ssize_t)(sizeof(entry.cm) + sizeof(which)));
		memcpy(&which, entry.cm.data, sizeof(which));
		CHECK(which >= 0 && which < COUNT);
		passive[which] = open_ep(t, entry.cm.info);
		fi_freeinfo(entry.cm.info);
		OK(fi_ep_bind(passive[which], &cq->fid, FI_TRANSMIT | FI_RECV));
		OK(fi_ep_bind(passive[which], &t->eq->fid, 0));
		if (i == COUNT - 1)
			break; // all have arrived before any is accepted
	}
	for (int i = 0; i < COUNT; i++)
		OK(fi_accept(passive[i], NULL, 0));
	for (int i = 0; i < 2 * COUNT; i++) {
		struct fi_eq_cm_entry entry;

		wait_event(t, t->eq, FI_CONNECTED, &entry, sizeof(entry));
	}
	for (int i = 0; i < COUNT; i++) {
		fill(out[i], sizeof(out[i]), i);
		POST(t, fi_recv(passive[i], in[i], sizeof(in[i]), in_desc, 0, &rx[i]));
		POST(t, fi_send(active[i], out[i], sizeof(out[i]), out_desc, 0, &tx[i]));
	}
	for (int i = 0; i < 2 * COUNT; i++)
		wait_comp(t, cq, NULL);
	for (int i = 0; i < COUNT; i++)
		CHECK(filled(in[i], sizeof(in[i]), i));
}

TEST(fi_cm, connect_twice, EP_MSG, FI_MSG, "fi_connect may be called once in an endpoint's lifetime")
{
	struct cm_listener listener = cm_listen(t);
	union cm_entry in;

	cm_request(t, &listener, NULL, 0, &in);
	CHECK(fi_connect(t->a.ep, listener.addr, NULL, 0) < 0);
	cm_accepting(t, in.cm.info);
	OK(fi_accept(t->b.ep, NULL, 0));
	wait_connected(t, t->eq, t->a.ep, t->b.ep);
	CHECK(fi_connect(t->a.ep, listener.addr, NULL, 0) < 0);
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
}

TEST(fi_cm, accept_twice, EP_MSG, FI_MSG, "A request can be accepted once")
{
	struct cm_listener listener = cm_listen(t);
	union cm_entry in;

	cm_request(t, &listener, NULL, 0, &in);
	cm_accepting(t, in.cm.info);
	OK(fi_accept(t->b.ep, NULL, 0));
	CHECK(fi_accept(t->b.ep, NULL, 0) < 0);
	wait_connected(t, t->eq, t->a.ep, t->b.ep);
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
}

TEST(fi_cm, accept_without_request, EP_MSG, FI_MSG, "fi_accept on an endpoint that was not made for a request is refused")
{
	open_bound_ep(t, &t->a);
	CHECK(fi_accept(t->a.ep, NULL, 0) < 0);
}

TEST(fi_cm, connect_endpoint_of_request, EP_MSG, FI_MSG, "fi_connect on an endpoint made for a request is refused")
{
	struct cm_listener listener = cm_listen(t);
	union cm_entry in;

	cm_request(t, &listener, NULL, 0, &in);
	cm_accepting(t, in.cm.info);
	CHECK(fi_connect(t->b.ep, listener.addr, NULL, 0) < 0);
}

// ---- Private data

static void check_connect_data(struct env *t, size_t len)
{
	struct cm_listener listener = cm_listen(t);
	static uint8_t out[CM_ROOM];
	size_t limit = data_size(t), want = len < limit ? len : limit;
	union cm_entry in;
	size_t got;

	fill(out, len, 5);
	got = cm_request(t, &listener, out, len, &in);
	CHECK(got >= want); // may be padded
	CHECK(got <= limit);
	CHECK(filled(in.cm.data, want, 5));
	OK(fi_reject(listener.pep, in.cm.info->handle, NULL, 0));
	fi_freeinfo(in.cm.info);
}

TEST(fi_cm, connect_data_0, EP_MSG, FI_MSG, "A request without data has none")
{
	check_connect_data(t, 0);
}

TEST(fi_cm, connect_data_1, EP_MSG, FI_MSG, "A request carries 1 byte")
{
	check_connect_data(t, 1);
}

TEST(fi_cm, connect_data_255, EP_MSG, FI_MSG, "A request carries 255 bytes, as far as the protocol allows")
{
	check_connect_data(t, 255);
}

TEST(fi_cm, connect_data_256, EP_MSG, FI_MSG, "A request carries 256 bytes, as far as the protocol allows")
{
	check_connect_data(t, 256);
}

TEST(fi_cm, connect_data_257, EP_MSG, FI_MSG, "What does not fit into a request is silently cut: 257 bytes")
{
	check_connect_data(t, 257);
}

static void check_accept_data(struct env *t, size_t len)
{
	struct cm_listener listener = cm_listen(t);
	static uint8_t out[CM_ROOM];
	size_t limit = data_size(t), want = len < limit ? len : limit;
	bool active = false, passive = false;
	union cm_entry in;

	fill(out, len, 6);
	cm_request(t, &listener, NULL, 0, &in);
	cm_accepting(t, in.cm.info);
	OK(fi_accept(t->b.ep, out, len));
	while (!active || !passive) {
		ssize_t rc = wait_event(t, t->eq, FI_CONNECTED, &in, sizeof(in));
		size_t got = rc - sizeof(in.cm);

		if (in.cm.fid == &t->a.ep->fid) {
			CHECK(got >= want && got <= limit);
			CHECK(filled(in.cm.data, want, 6));
			active = true;
		} else {
			CHECK(in.cm.fid == &t->b.ep->fid);
			CHECK_EQ(got, 0);
			passive = true;
		}
	}
}

TEST(fi_cm, accept_data_0, EP_MSG, FI_MSG, "FI_CONNECTED of an acceptance without data has none, on either side")
{
	check_accept_data(t, 0);
}

TEST(fi_cm, accept_data_1, EP_MSG, FI_MSG, "An acceptance carries 1 byte to the active side; the passive side gets none")
{
	check_accept_data(t, 1);
}

TEST(fi_cm, accept_data_255, EP_MSG, FI_MSG, "An acceptance carries 255 bytes, as far as the protocol allows")
{
	check_accept_data(t, 255);
}

TEST(fi_cm, accept_data_256, EP_MSG, FI_MSG, "An acceptance carries 256 bytes, as far as the protocol allows")
{
	check_accept_data(t, 256);
}

TEST(fi_cm, accept_data_257, EP_MSG, FI_MSG, "What does not fit into an acceptance is silently cut: 257 bytes")
{
	check_accept_data(t, 257);
}

static void check_reject_data(struct env *t, size_t len)
{
	struct cm_listener listener = cm_listen(t);
	static uint8_t out[CM_ROOM], back[CM_ROOM];
	size_t limit = data_size(t), want = len < limit ? len : limit;
	struct fi_eq_err_entry err = { .err_data = back, .err_data_size = sizeof(back) };
	union cm_entry in;

	fill(out, len, 7);
	cm_request(t, &listener, NULL, 0, &in);
	OK(fi_reject(listener.pep, in.cm.info->handle, out, len));
	fi_freeinfo(in.cm.info);
	wait_eq_err(t, t->eq, &err);
	CHECK(err.fid == &t->a.ep->fid);
	CHECK_EQ(err.err, FI_ECONNREFUSED);
	CHECK(err.err_data_size >= want && err.err_data_size <= limit);
	CHECK(filled(back, want, 7));
}

TEST(fi_cm, reject_data_0, EP_MSG, FI_MSG, "A rejection is an error event FI_ECONNREFUSED for the connecting endpoint")
{
	check_reject_data(t, 0);
}

TEST(fi_cm, reject_data_1, EP_MSG, FI_MSG, "A rejection's 1 byte comes as error data")
{
	check_reject_data(t, 1);
}

TEST(fi_cm, reject_data_255, EP_MSG, FI_MSG, "A rejection's 255 bytes come as error data, as far as the protocol allows")
{
	check_reject_data(t, 255);
}

TEST(fi_cm, reject_data_256, EP_MSG, FI_MSG, "A rejection's 256 bytes come as error data, as far as the protocol allows")
{
	check_reject_data(t, 256);
}

TEST(fi_cm, reject_data_257, EP_MSG, FI_MSG, "What does not fit into a rejection is silently cut: 257 bytes")
{
	check_reject_data(t, 257);
}

TEST(fi_eq, err_data_limited, EP_MSG, FI_MSG, "Error data is cut to the caller's buffer; err_data_size says how much was copied")
{
	struct cm_listener listener = cm_listen(t);
	uint8_t out[64], back[64];
	struct fi_eq_err_entry err = { .err_data = back, .err_data_size = 16 };
	union cm_entry in;

	fill(out, sizeof(out), 7);
	memset(back, 0xa5, sizeof(back));
	cm_request(t, &listener, NULL, 0, &in);
	OK(fi_reject(listener.pep, in.cm.info->handle, out, sizeof(out)));
	fi_freeinfo(in.cm.info);
	wait_eq_err(t, t->eq, &err);
	CHECK_EQ(err.err_data_size, 16);
	CHECK(filled(back, 16, 7));
	for (size_t i = 16; i < sizeof(back); i++)
		CHECK_EQ(back[i], 0xa5);
}

TEST(fi_eq, err_data_of_the_provider, EP_MSG, FI_MSG, "With err_data_size 0 error data comes in a buffer of the provider")
{
	struct cm_listener listener = cm_listen(t);
	struct fi_eq_err_entry err = { 0 };
	uint8_t out[64];
	union cm_entry in;

	fill(out, sizeof(out), 7);
	cm_request(t, &listener, NULL, 0, &in);
	OK(fi_reject(listener.pep, in.cm.info->handle, out, sizeof(out)));
	fi_freeinfo(in.cm.info);
	wait_eq_err(t, t->eq, &err);
	CHECK(err.err_data_size >= sizeof(out));
	CHECK(filled(err.err_data, sizeof(out), 7));
}

TEST(fi_eq, err_data_ignored_before_1_5, EP_MSG, FI_MSG, "API below 1.5: the caller's err_data is ignored on input, error data comes in a buffer of the provider")
{
	struct fi_eq_err_entry err = { 0 };
	struct cm_listener listener;
	uint8_t out[64], back[64];
	union cm_entry in;

	env_version(t, FI_VERSION(1, 4));
	listener = cm_listen(t);
	fill(out, sizeof(out), 7);
	memset(back, 0xa5, sizeof(back));
	err.err_data = back;
	err.err_data_size = sizeof(back);
	cm_request(t, &listener, NULL, 0, &in);
	OK(fi_reject(listener.pep, in.cm.info->handle, out, sizeof(out)));
	fi_freeinfo(in.cm.info);
	wait_eq_err(t, t->eq, &err);
	CHECK(err.err_data != back);
	CHECK(filled(err.err_data, sizeof(out), 7));
	for (size_t i = 0; i < sizeof(back); i++)
		CHECK_EQ(back[i], 0xa5);
}

TEST(fi_eq, connreq_short_buffer, EP_MSG, FI_MSG, "Connection data is cut to the caller's buffer")
{
	struct cm_listener listener = cm_listen(t);
	uint8_t out[64];
	union cm_entry in;
	ssize_t rc;

	fill(out, sizeof(out), 8);
	memset(&in, 0xa5, sizeof(in));
	open_bound_ep(t, &t->a);
	OK(fi_connect(t->a.ep, listener.addr, out, sizeof(out)));
	rc = wait_event(t, t->eq, FI_CONNREQ, &in, sizeof(in.cm) + 10);
	CHECK_EQ(rc, sizeof(in.cm) + 10);
	CHECK(filled(in.cm.data, 10, 8));
	for (size_t i = sizeof(in.cm) + 10; i < sizeof(in); i++)
		CHECK_EQ(in.bytes[i], 0xa5);
	OK(fi_reject(listener.pep, in.cm.info->handle, NULL, 0));
	fi_freeinfo(in.cm.info);
}
