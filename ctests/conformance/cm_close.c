// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cm(3), fi_endpoint(3): passive endpoints, rejecting, refused connections, peers, shutting down. MSG endpoints.
#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

// Returns a port without a listener: the kernel chose it, and it was closed again.
static struct sockaddr_in free_port(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&addr, len), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	close(fd);
	return addr;
}

// ---- Passive endpoints

TEST(fi_endpoint, pep_sets_class_and_context, EP_MSG, FI_MSG, "A passive endpoint is of class FI_CLASS_PEP and carries the caller's context")
{
	struct fid_pep *pep = NULL;
	int mark;

	open_fabric(t);
	OK(fi_passive_ep(t->fabric, t->info, &pep, &mark));
	keep(t, &pep->fid);
	CHECK_EQ(pep->fid.fclass, FI_CLASS_PEP);
	CHECK(pep->fid.context == &mark);
}

TEST(fi_endpoint, pep_needs_eq, EP_MSG, FI_MSG, "A passive endpoint must be bound to an event queue: fi_listen gives -FI_ENOEQ")
{
	struct fid_pep *pep = NULL;

	open_fabric(t);
	OK(fi_passive_ep(t->fabric, t->info, &pep, NULL));
	keep(t, &pep->fid);
	CHECK_RC2(fi_listen(pep), -FI_ENOEQ, -FI_EOPBADSTATE);
}

TEST(fi_endpoint, pep_bind_wrong_object, EP_MSG, FI_MSG, "Only an event queue can be bound to a passive endpoint, without flags")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, 0);
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_NONE);
	struct fid_pep *pep = NULL;

	OK(fi_passive_ep(t->fabric, t->info, &pep, NULL));
	keep(t, &pep->fid);
	CHECK_RC2(fi_pep_bind(pep, &cq->fid, 0), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_pep_bind(pep, &t->fabric->fid, 0), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_pep_bind(pep, &eq->fid, 1ULL << 51), -FI_EINVAL, -FI_EBADFLAGS);
	OK(fi_pep_bind(pep, &eq->fid, 0));
}

TEST(fi_endpoint, pep_backlog, EP_MSG, FI_MSG, "FI_BACKLOG sets the number of requests that may wait")
{
	struct fid_pep *pep = open_pep(t, open_eq(t, FI_WAIT_NONE, 0));
	int backlog = 128, negative = -1;

	OK_OR_SKIP(fi_control(&pep->fid, FI_BACKLOG, &backlog));
	CHECK_RC(fi_control(&pep->fid, FI_BACKLOG, &negative), -FI_EINVAL);
	OK(fi_listen(pep));
}

// Returns how many of 8 more connections are established while no requests are taken.
static unsigned connect_some(struct fid_pep *pep)
{
	struct sockaddr_storage addr;
	size_t len = sizeof(addr);
	unsigned up = 0;

	pep_address(pep, &addr, &len);
	for (unsigned i = 0; i < 8; i++) {
		int fd = socket(addr.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0); // until the child ends
		struct pollfd ready = { .fd = fd, .events = POLLOUT };

		CHECK(fd >= 0);
		CHECK(!connect(fd, (struct sockaddr *)&addr, len) || errno == EINPROGRESS);
		up += poll(&ready, 1, 0) == 1 && !(ready.revents & (POLLERR | POLLHUP));
	}
	return up;
}

TEST(fi_endpoint, pep_backlog_holds, EP_MSG, FI_MSG, "FI_BACKLOG bounds the requests that wait, whether set before fi_listen or after")
{
	struct fid_pep *pep = open_pep(t, open_eq(t, FI_WAIT_NONE, 0));
	int few = 1, many = 100;

	if (t->info->addr_format != FI_SOCKADDR_IN && t->info->addr_format != FI_SOCKADDR_IN6)
		SKIP("no sockets");
	OK_OR_SKIP(fi_control(&pep->fid, FI_BACKLOG, &few));
	OK(fi_listen(pep));
	CHECK(connect_some(pep) <= 2); // the kernel accepts one more
	OK(fi_control(&pep->fid, FI_BACKLOG, &many));
	CHECK_EQ(connect_some(pep), 8);
}

TEST(fi_endpoint, pep_unknown_command, EP_MSG, FI_MSG, "A command that a passive endpoint does not know gives -FI_ENOSYS")
{
	struct fid_pep *pep = open_pep(t, open_eq(t, FI_WAIT_NONE, 0));
	uint64_t arg = 0;

	CHECK_RC(fi_control(&pep->fid, 0x7fff, &arg), -FI_ENOSYS);
}

TEST(fi_endpoint, pep_becomes_active, EP_MSG, FI_MSG, "An active endpoint takes over the address of a passive one given as info->handle")
{
	struct cm_listener listener = cm_listen(t);
	struct fi_info *info = fi_dupinfo(t->info);
	struct fid_pep *pep = open_pep(t, t->eq);
	struct sockaddr_in reserved = { 0 }, peer = { 0 };
	size_t len = sizeof(reserved);
	union cm_entry in;

	if (t->info->addr_format != FI_SOCKADDR_IN)
		SKIP("not addressed by IPv4");
	keep_info(t, info);
	OK(fi_setname(&pep->fid, t->info->src_addr, t->info->src_addrlen));
	OK(fi_getname(&pep->fid, &reserved, &len));
	info->handle = &pep->fid;
	t->a.info = info;
	t->a.ep = open_ep(t, info);
	OK(fi_ep_bind(t->a.ep, &open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE)->fid, FI_TRANSMIT | FI_RECV));
	forget(t, &t->a.ep->fid); // closed before the queue
	keep(t, &t->a.ep->fid);
	OK(fi_ep_bind(t->a.ep, &t->eq->fid, 0));
	OK(fi_connect(t->a.ep, listener.addr, NULL, 0));
	wait_event(t, t->eq, FI_CONNREQ, &in, sizeof(in));
	CHECK(in.cm.info->dest_addr);
	memcpy(&peer, in.cm.info->dest_addr, sizeof(peer));
	if (reserved.sin_port)
		CHECK_EQ(peer.sin_port, reserved.sin_port);
	OK(fi_reject(listener.pep, in.cm.info->handle, NULL, 0));
	fi_freeinfo(in.cm.info);
}

TEST(fi_cm, listen_has_an_address, EP_MSG, FI_MSG, "A listening endpoint has an address that fi_getname gives; a short buffer gets -FI_ETOOSMALL")
{
	struct cm_listener listener = cm_listen(t);
	uint8_t part[256];
	size_t len = 5;

	CHECK(listener.addrlen > 5);
	memset(part, 0xa5, sizeof(part));
	CHECK_RC(fi_getname(&listener.pep->fid, part, &len), -FI_ETOOSMALL);
	CHECK_EQ(len, listener.addrlen);
	CHECK(!memcmp(part, listener.addr, 5));
	CHECK_EQ(part[5], 0xa5);
}

TEST(fi_cm, listen_at_source, EP_MSG, FI_MSG, "A passive endpoint listens at the address its info was asked for with FI_SOURCE")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, 0);
	struct sockaddr_in want = free_port(), got = { 0 };
	struct fid_pep *pep = NULL;
	size_t len = sizeof(got);
	char service[16];

	if (t->info->addr_format != FI_SOCKADDR_IN)
		SKIP("not addressed by IPv4");
	snprintf(service, sizeof(service), "%u", ntohs(want.sin_port));
	fi_freeinfo(t->info);
	t->info = NULL;
	OK(fi_getinfo(t->version, "127.0.0.1", service, FI_SOURCE, t->hints, &t->info));
	OK(fi_passive_ep(t->fabric, t->info, &pep, NULL));
	keep(t, &pep->fid);
	OK(fi_pep_bind(pep, &eq->fid, 0));
	OK(fi_listen(pep));
	OK(fi_getname(&pep->fid, &got, &len));
	CHECK_EQ(got.sin_port, want.sin_port);
	CHECK_EQ(got.sin_addr.s_addr, want.sin_addr.s_addr);
}

TEST(fi_cm, listen_twice, EP_MSG, FI_MSG, "fi_listen on a listening endpoint is harmless or an error")
{
	struct cm_listener listener = cm_listen(t);
	union cm_entry in;

	CHECK(fi_listen(listener.pep) <= 0);
	cm_request(t, &listener, NULL, 0, &in);
	OK(fi_reject(listener.pep, in.cm.info->handle, NULL, 0));
	fi_freeinfo(in.cm.info);
}

TEST(fi_cm, listen_address_in_use, EP_MSG, FI_MSG, "Two endpoints cannot listen at one address: -FI_EADDRINUSE")
{
	struct cm_listener listener = cm_listen(t);
	struct fid_pep *other = open_pep(t, t->eq);
	int rc = fi_setname(&other->fid, listener.addr, listener.addrlen);

	if (!rc)
		rc = fi_listen(other);
	CHECK_RC(rc, -FI_EADDRINUSE);
}

TEST(fi_cm, setname_of_listener, EP_MSG, FI_MSG, "fi_setname before fi_listen chooses the listening address")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_NONE, 0);
	struct fid_pep *pep = open_pep(t, eq);
	struct sockaddr_in want = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, got = { 0 };
	size_t len = sizeof(got);

	if (t->info->addr_format != FI_SOCKADDR_IN)
		SKIP("not addressed by IPv4");
	OK(fi_setname(&pep->fid, &want, sizeof(want)));
	OK(fi_listen(pep));
	OK(fi_getname(&pep->fid, &got, &len));
	CHECK_EQ(got.sin_addr.s_addr, want.sin_addr.s_addr);
	CHECK(got.sin_port != 0);
}

TEST(fi_cm, close_listener_with_requests, EP_MSG, FI_MSG, "Closing a listener ends the requests that wait at it: the connecting side gets an error or a shutdown")
{
	struct cm_listener listener = cm_listen(t);
	struct fid_eq *passive_eq;
	char buf[512];
	uint32_t event = 0;
	ssize_t rc;

	shut(t, &listener.pep->fid); // a listener whose event queue is not read
	passive_eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	listener.pep = open_pep(t, passive_eq);
	OK(fi_listen(listener.pep));
	listener.addrlen = sizeof(listener.addr);
	pep_address(listener.pep, listener.addr, &listener.addrlen);
	open_bound_ep(t, &t->a);
	OK(fi_connect(t->a.ep, listener.addr, NULL, 0));
	// The request is visible, but not taken.
	ONCE(t, (rc = fi_eq_read(passive_eq, &event, buf, sizeof(buf), FI_PEEK)) != -FI_EAGAIN);
	CHECK_EQ(event, FI_CONNREQ);
	shut(t, &listener.pep->fid);
	rc = fi_eq_read(passive_eq, &event, buf, sizeof(buf), 0);
	if (rc > 0 && event == FI_CONNREQ) {
		struct fi_info *info = ((struct fi_eq_cm_entry *)buf)->info;

		t->b.ep = NULL; // only the handle can still refer to the request
		OK(fi_endpoint(t->domain, info, &t->b.ep, NULL));
		OK(fi_close(&t->b.ep->fid));
		fi_freeinfo(info);
	}
	ONCE(t, (rc = fi_eq_read(t->eq, &event, buf, sizeof(buf), 0)) != -FI_EAGAIN);
	CHECK(rc == -FI_EAVAIL || event == FI_SHUTDOWN);
}

// ---- Rejecting and refusing

TEST(fi_cm, reject_unknown_handle, EP_MSG, FI_MSG, "fi_reject with something that is no request is refused with -FI_EINVAL")
{
	struct cm_listener listener = cm_listen(t);

	CHECK_RC(fi_reject(listener.pep, &t->eq->fid, NULL, 0), -FI_EINVAL);
}

TEST(fi_cm, reject_leaves_endpoint_closable, EP_MSG, FI_MSG, "A rejected endpoint is not connected: sending fails, closing works, the listener goes on")
{
	struct cm_listener listener = cm_listen(t);
	struct fi_eq_err_entry err = { 0 };
	struct fi_context2 ctx;
	static char buf[16];
	union cm_entry in;

	cm_request(t, &listener, NULL, 0, &in);
	OK(fi_reject(listener.pep, in.cm.info->handle, NULL, 0));
	fi_freeinfo(in.cm.info);
	wait_eq_err(t, t->eq, &err);
	CHECK_EQ(err.err, FI_ECONNREFUSED);
	CHECK(fi_send(t->a.ep, buf, sizeof(buf), NULL, 0, &ctx) < 0);
	shut(t, &t->a.ep->fid);
	cm_request(t, &listener, NULL, 0, &in);
	OK(fi_reject(listener.pep, in.cm.info->handle, NULL, 0));
	fi_freeinfo(in.cm.info);
}

TEST(fi_cm, refused_port, EP_MSG, FI_MSG, "Connecting where nobody listens is an error event FI_ECONNREFUSED for the endpoint")
{
	struct fi_eq_err_entry err = { 0 };
	struct sockaddr_in addr = free_port();

	if (t->info->addr_format != FI_SOCKADDR_IN)
		SKIP("not addressed by IPv4");
	open_bound_ep(t, &t->a);
	OK(fi_connect(t->a.ep, &addr, NULL, 0));
	wait_eq_err(t, t->eq, &err);
	CHECK(err.fid == &t->a.ep->fid);
	CHECK_EQ(err.err, FI_ECONNREFUSED);
}

TEST(fi_cm, silent_listener, EP_MSG, FI_MSG, "A listener that hangs up at once is an error event, not a hang")
{
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct fi_eq_err_entry err = { 0 };
	socklen_t len = sizeof(addr);
	int fd = socket(AF_INET, SOCK_STREAM, 0), peer;

	if (t->info->addr_format != FI_SOCKADDR_IN)
		SKIP("not addressed by IPv4");
	CHECK_EQ(bind(fd, (struct sockaddr *)&addr, len), 0);
	CHECK_EQ(listen(fd, 1), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	open_bound_ep(t, &t->a);
	OK(fi_connect(t->a.ep, &addr, NULL, 0));
	peer = accept(fd, NULL, NULL);
	CHECK(peer >= 0);
	close(peer);
	close(fd);
	wait_eq_err(t, t->eq, &err);
	CHECK(err.fid == &t->a.ep->fid);
	CHECK(err.err > 0);
}

TEST(fi_cm, garbage_at_the_listener, EP_MSG, FI_MSG, "Bytes that are no request do not disturb a listener")
{
	struct cm_listener listener = cm_listen(t);
	union cm_entry in;

	if (t->info->addr_format != FI_SOCKADDR_IN)
		SKIP("not addressed by IPv4");
	for (int i = 0; i < 8; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		uint8_t junk[4096];

		CHECK_EQ(connect(fd, (struct sockaddr *)listener.addr, sizeof(struct sockaddr_in)), 0);
		memset(junk, i * 37, sizeof(junk));
		CHECK(send(fd, junk, (size_t)1 << (i + 3), MSG_NOSIGNAL) > 0);
		close(fd);
	}
	cm_request(t, &listener, NULL, 0, &in);
	cm_accepting(t, in.cm.info);
	OK(fi_accept(t->b.ep, NULL, 0));
	wait_connected(t, t->eq, t->a.ep, t->b.ep);
}

// ---- Peers

TEST(fi_cm, getpeer_of_connected, EP_MSG, FI_MSG, "fi_getpeer gives the peer's address once connected; a short buffer gets -FI_ETOOSMALL")
{
	char addr[256], name[256];
	size_t len = sizeof(addr), name_len = sizeof(name), room = 3;

	PAIR(t);
	OK(fi_getpeer(t->a.ep, addr, &len));
	pep_address(t->pep, name, &name_len);
	CHECK_EQ(len, name_len);
	CHECK(!memcmp(addr, name, 8)); // family, port, address
	memset(addr, 0xa5, sizeof(addr));
	CHECK_RC(fi_getpeer(t->a.ep, addr, &room), -FI_ETOOSMALL);
	CHECK_EQ(room, len);
	CHECK(!memcmp(addr, name, 3));
	CHECK_EQ((uint8_t)addr[3], 0xa5);
}

TEST(fi_cm, getpeer_of_accepted, EP_MSG, FI_MSG, "The accepting side's peer address is the connecting side's own address")
{
	char peer[256], name[256];
	size_t len = sizeof(peer), name_len = sizeof(name);

	PAIR(t);
	OK(fi_getpeer(t->b.ep, peer, &len));
	OK(fi_getname(&t->a.ep->fid, name, &name_len));
	CHECK_EQ(len, name_len);
	CHECK(!memcmp(peer, name, 8));
}

TEST(fi_cm, getpeer_of_unconnected, EP_MSG, FI_MSG, "An endpoint without a peer has no peer address")
{
	char addr[256];
	size_t len = sizeof(addr);

	open_bound_ep(t, &t->a);
	CHECK(fi_getpeer(t->a.ep, addr, &len) < 0);
}

TEST(fi_domain, bound_eq_gets_events, EP_MSG, FI_MSG, "The queue bound to the domain gets the events of an endpoint without its own")
{
	struct cm_listener listener = cm_listen(t);
	struct fid_eq *eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	struct fi_eq_err_entry err = { 0 };
	struct fid_cq *cq;
	union cm_entry in;

	open_domain(t);
	forget(t, &t->domain->fid); // closed before the queue that is bound to it
	OK(fi_close(&t->domain->fid));
	OK(fi_domain(t->fabric, t->info, &t->domain, NULL));
	keep(t, &t->domain->fid);
	OK_OR_SKIP(fi_domain_bind(t->domain, &eq->fid, 0));
	cq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
	t->a.ep = open_ep(t, t->info);
	OK(fi_ep_bind(t->a.ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_connect(t->a.ep, listener.addr, NULL, 0));
	wait_event(t, t->eq, FI_CONNREQ, &in, sizeof(in));
	OK(fi_reject(listener.pep, in.cm.info->handle, NULL, 0));
	fi_freeinfo(in.cm.info);
	wait_eq_err(t, eq, &err);
	CHECK(err.fid == &t->a.ep->fid);
}

// ---- Shutting down

// The side that shuts down may get the event, too.
static void wait_shutdown(struct env *t, struct fid_ep *ep)
{
	union cm_entry in = { .cm.fid = NULL };

	while (in.cm.fid != &ep->fid)
		wait_event(t, t->eq, FI_SHUTDOWN, &in, sizeof(in));
}

TEST(fi_cm, shutdown_tells_the_peer, EP_MSG, FI_MSG, "fi_shutdown gives the peer FI_SHUTDOWN with its own endpoint")
{
	PAIR(t);
	OK(fi_shutdown(t->a.ep, 0));
	wait_shutdown(t, t->b.ep);
}

TEST(fi_cm, shutdown_delivers_what_was_sent, EP_MSG, FI_MSG, "Messages that completed before fi_shutdown arrive before FI_SHUTDOWN is reported")
{
	PAIR(t);
	flow_run(t, 0, 8);
	OK(fi_shutdown(t->a.ep, 0));
	for (unsigned i = 0; i < 8; i++) {
		struct fi_cq_tagged_entry entry;

		wait_comp(t, t->b.rxcq, &entry);
		CHECK(entry.op_context == &t->flow->rx[i]);
		CHECK(filled(t->flow->in[i], FLOW_LEN, i));
	}
}

TEST(fi_cm, close_tells_the_peer, EP_MSG, FI_MSG, "Closing an endpoint abruptly gives the peer FI_SHUTDOWN too")
{
	PAIR(t);
	shut(t, &t->a.ep->fid);
	wait_shutdown(t, t->b.ep);
}

TEST(fi_cm, shutdown_ends_receives, EP_MSG, FI_MSG, "Receives posted at a peer that shut down are cancelled or dropped, never completed as received")
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err;
	unsigned cancelled = 0;
	ssize_t rc;

	PAIR(t);
	flow_post_recv(t, 0, 4);
	OK(fi_shutdown(t->a.ep, 0));
	wait_shutdown(t, t->b.ep);
	shut(t, &t->b.ep->fid);
	while ((rc = fi_cq_read(t->b.rxcq, &entry, 1)) != -FI_EAGAIN) {
		CHECK_RC(rc, -FI_EAVAIL);
		memset(&err, 0, sizeof(err));
		CHECK_RC(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
		CHECK(err.err > 0);
		cancelled++;
	}
	CHECK(cancelled <= 4);
}

TEST(fi_cm, send_after_shutdown, EP_MSG, FI_MSG, "Sending after fi_shutdown is an error, at once or as an error entry")
{
	struct fi_cq_err_entry err = { 0 };
	struct fi_context2 ctx;
	static char buf[16];
	ssize_t rc;

	PAIR(t);
	OK(fi_shutdown(t->a.ep, 0));
	rc = fi_send(t->a.ep, buf, sizeof(buf), reg_desc(t, buf, sizeof(buf), FI_SEND), 0, &ctx);
	if (!rc)
		wait_err(t, t->a.txcq, &err);
}

TEST(fi_cm, send_to_closed_peer, EP_MSG, FI_MSG, "Sending to a peer that has gone ends in an error, not in a hang")
{
	struct fi_context2 ctx[2];
	static char buf[16];
	void *desc;
	ssize_t rc;

	PAIR(t);
	desc = reg_desc(t, buf, sizeof(buf), FI_SEND);
	shut(t, &t->b.ep->fid);
	for (uint64_t limit = now_ms() + t->limit_ms;;) {
		struct fi_cq_tagged_entry entry;

		CHECK(now_ms() < limit);
		rc = fi_send(t->a.ep, buf, sizeof(buf), desc, 0, &ctx[0]);
		if (rc && rc != -FI_EAGAIN)
			break;
		rc = fi_cq_read(t->a.txcq, &entry, 1);
		if (rc == -FI_EAVAIL)
			break;
	}
}

TEST(fi_cm, shutdown_unconnected, EP_MSG, FI_MSG, "fi_shutdown on an endpoint that is not connected is an error")
{
	open_bound_ep(t, &t->a);
	CHECK(fi_shutdown(t->a.ep, 0) < 0);
	OK(fi_enable(t->a.ep));
	CHECK(fi_shutdown(t->a.ep, 0) < 0);
}

TEST(fi_cm, shutdown_twice, EP_MSG, FI_MSG, "A second fi_shutdown is harmless or an error")
{
	PAIR(t);
	OK(fi_shutdown(t->a.ep, 0));
	CHECK(fi_shutdown(t->a.ep, 0) <= 0);
	wait_shutdown(t, t->b.ep);
}

TEST(fi_cm, shutdown_both, EP_MSG, FI_MSG, "Both sides may shut down at the same time")
{
	PAIR(t);
	OK(fi_shutdown(t->a.ep, 0));
	CHECK(fi_shutdown(t->b.ep, 0) <= 0);
}

TEST(fi_cm, shutdown_flags_reserved, EP_MSG, FI_MSG, "Flags of fi_shutdown are reserved and must be 0")
{
	PAIR(t);
	CHECK_RC2(fi_shutdown(t->a.ep, 1), -FI_EINVAL, -FI_EBADFLAGS);
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
}

TEST(fi_cm, reconnect, EP_MSG, FI_MSG, "After a connection has ended the listener takes the next, a hundred times")
{
	struct cm_listener listener = cm_listen(t);

	for (int i = 0; i < 100; i++) {
		union cm_entry in;
		uint32_t event;

		cm_request(t, &listener, NULL, 0, &in);
		cm_accepting(t, in.cm.info);
		OK(fi_accept(t->b.ep, NULL, 0));
		wait_connected(t, t->eq, t->a.ep, t->b.ep);
		shut(t, &t->a.ep->fid);
		wait_shutdown(t, t->b.ep);
		shut(t, &t->b.ep->fid);
		CHECK_RC(fi_eq_read(t->eq, &event, &in, sizeof(in), 0), -FI_EAGAIN);
	}
}
