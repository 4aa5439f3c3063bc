// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_endpoint(3), FI_OPT_FIREWALL_ADDR; fi_tcp(7); docs/wire/tcp.md: the request of an RDM endpoint behind a firewall
//! has a flag.
#define _GNU_SOURCE
#include "wire.h"

enum { FEATURES_AT = 33, FIREWALL = 1, PORT = 7 };

// The feature bits, among those that all libraries support, in the request that a send of `side` causes.
static unsigned features_of(struct env *t, struct side *side)
{
	struct listener at = wire_listen();
	struct op op = op_of(SEND, false, new_buf(t, 8, 77), 0);
	uint8_t bytes[40];

	OK(fi_enable(side->ep));
	CHECK_EQ(fi_av_insert(side->av, &at.addr, 1, &op.addr, 0, NULL), 1);
	CHECK_RC2(op_try(side->ep, &op), 0, -FI_EAGAIN);
	wire_read(t, wire_accept(t, &at), bytes, 40);
	CHECK_EQ(bytes[1], REQUEST);
	return bytes[FEATURES_AT] & FIREWALL;
}

TEST(wire_tcp, firewall_unasked, EP_RDM, FI_MSG, "The request of an endpoint says nothing of a firewall by itself")
{
	only_tcp(t);
	open_bound_ep(t, &t->a);
	CHECK_EQ(features_of(t, &t->a), 0);
}

TEST(wire_tcp, firewall_option, EP_RDM, FI_MSG, "With FI_OPT_FIREWALL_ADDR the request says that the endpoint is behind a firewall")
{
	bool on = true;

	only_tcp(t);
	open_bound_ep(t, &t->a);
	OK(fi_setopt(&t->a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FIREWALL_ADDR, &on, sizeof(on)));
	CHECK_EQ(features_of(t, &t->a), FIREWALL);
}

TEST(wire_tcp, firewall_variable, EP_RDM, FI_MSG, "With FI_TCP_FIREWALL_ADDR the requests of all endpoints say so")
{
	only_tcp(t);
	CHECK(!setenv("FI_TCP_FIREWALL_ADDR", "1", 1));
	open_bound_ep(t, &t->a);
	CHECK_EQ(features_of(t, &t->a), FIREWALL);
}

TEST(wire_tcp, firewall_option_of_any_size, EP_RDM | OURS_ONLY, FI_MSG, "FI_OPT_FIREWALL_ADDR of another size than a bool is -FI_EINVAL and changes nothing")
{
	uint8_t on[2] = { 1, 1 };

	only_tcp(t);
	open_bound_ep(t, &t->a);
	CHECK_RC(fi_setopt(&t->a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FIREWALL_ADDR, on, 0), -FI_EINVAL);
	CHECK_RC(fi_setopt(&t->a.ep->fid, FI_OPT_ENDPOINT, FI_OPT_FIREWALL_ADDR, on, sizeof(on)), -FI_EINVAL);
	CHECK_EQ(features_of(t, &t->a), 0);
}

TEST(wire_tcp, firewall_request, EP_RDM, FI_MSG, "A peer behind a firewall is answered with that bit, and is sent to over the connection that it opened")
{
	struct op op = op_of(SEND, false, new_buf(t, 8, 77), 0);
	struct listener at = wire_nobody(); // refuses connections
	uint8_t bytes[64], private[8];
	struct wire wire = { 0 };

	only_tcp(t);
	PAIR(t);
	wire.fd = wire_connect(t, t->b.name);
	rdm_bytes(bytes, REQUEST, false, 1, ntohs(at.addr.sin_port), 99);
	bytes[FEATURES_AT] |= FIREWALL;
	wire_write(t, wire.fd, bytes, 40);
	read_cm(t, wire.fd, RESPONSE, private, 8);
	CHECK_EQ(private[1] & FIREWALL, FIREWALL);
	CHECK_EQ(fi_av_insert(t->b.av, &at.addr, 1, &op.addr, FI_FIREWALL_ADDR, NULL), 1);
	op_post(t, t->b.ep, &op);
	expect_frame(t, &wire, (struct wire_header){ .op = MSG, .payload = 8 });
	wire_read(t, wire.fd, bytes, 8);
	CHECK(filled(bytes, 8, 77));
	done(t, t->b.txcq, op.ctx, SENT(false));
}
