// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connection requests that the application neither accepts nor rejects: fi_cm(3). No client may wait for ever.
#include "harness.h"

enum { TIMEOUT = 300 }; // ms

static void set_timeout(const char *ms)
{
	CHECK(!setenv("FI_TCP_CONN_TIMEOUT", ms, 1) && !setenv("FI_SOCKETS_CONN_TIMEOUT", ms, 1));
}

// Opens a client and returns the info of its request. *client is the side of the last client.
static struct fi_info *request_of(struct env *t, struct cm_listener *listener, struct side *client)
{
	union cm_entry in;

	cm_request(t, listener, NULL, 0, &in);
	*client = t->a;
	return in.cm.info;
}

static void is_refused(struct env *t, struct side *client)
{
	struct fi_eq_err_entry err = { 0 };

	wait_eq_err(t, t->eq, &err);
	CHECK(err.fid == &client->ep->fid);
	CHECK_EQ(err.err, FI_ECONNREFUSED);
}

TEST(fi_cm, accept_after_pep_closed, EP_MSG, FI_MSG, "A request that was read can be accepted after its passive endpoint was closed")
{
	struct cm_listener listener = cm_listen(t);
	struct side client;
	struct fi_info *info = request_of(t, &listener, &client);

	shut(t, &listener.pep->fid);
	cm_accepting(t, info);
	OK(fi_accept(t->b.ep, NULL, 0));
	wait_connected(t, t->eq, client.ep, t->b.ep);
}

TEST(fi_cm, unclaimed_request_ends, EP_MSG | OURS_ONLY, FI_MSG, "After its passive endpoint was closed, a request of which no endpoint is made ends within the connect timeout: its client gets FI_ECONNREFUSED")
{
	struct cm_listener listener, other;
	struct fi_info *forgotten, *claimed;
	struct side first, second;
	struct fid_ep *ep = NULL;
	uint64_t closed;

	set_timeout("300");
	listener = cm_listen(t);
	forgotten = request_of(t, &listener, &first);
	claimed = request_of(t, &listener, &second);
	cm_accepting(t, claimed);
	closed = now_ms();
	shut(t, &listener.pep->fid);
	is_refused(t, &first);
	CHECK(now_ms() >= closed + TIMEOUT);
	// The handle is invalid now.
	CHECK_RC(fi_endpoint(t->domain, forgotten, &ep, NULL), -FI_EINVAL);
	other = cm_listen(t);
	CHECK_RC(fi_reject(other.pep, forgotten->handle, NULL, 0), -FI_EINVAL);
	fi_freeinfo(forgotten);
	// A request that has an endpoint stays valid.
	OK(fi_accept(t->b.ep, NULL, 0));
	wait_connected(t, t->eq, second.ep, t->b.ep);
}

TEST(fi_cm, unread_request_ends, EP_MSG | OURS_ONLY, FI_MSG, "Closing a passive endpoint ends the requests whose events were not read, at once: the client gets FI_ECONNREFUSED")
{
	struct cm_listener listener = cm_listen(t);
	struct fid_eq *unread = open_eq(t, FI_WAIT_UNSPEC, 0);
	uint32_t event = 0;
	char buf[512];

	shut(t, &listener.pep->fid); // its queue is that of the client, too
	listener.pep = open_pep(t, unread);
	OK(fi_listen(listener.pep));
	listener.addrlen = sizeof(listener.addr);
	pep_address(listener.pep, listener.addr, &listener.addrlen);
	open_bound_ep(t, &t->a);
	OK(fi_connect(t->a.ep, listener.addr, NULL, 0));
	ONCE(t, fi_eq_read(unread, &event, buf, sizeof(buf), FI_PEEK) > 0);
	CHECK_EQ(event, FI_CONNREQ);
	shut(t, &listener.pep->fid);
	shut(t, &unread->fid);
	is_refused(t, &t->a);
}

TEST(fi_cm, endpoint_closed_without_accept, EP_MSG | OURS_ONLY, FI_MSG, "Closing the endpoint of a request without fi_accept ends the request: the client gets FI_ECONNREFUSED")
{
	struct cm_listener listener = cm_listen(t);
	struct side client;

	cm_accepting(t, request_of(t, &listener, &client));
	shut(t, &t->b.ep->fid);
	is_refused(t, &client);
}
