// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The fixture itself: two ends exchange a message on every provider and endpoint type. If this fails, no other result
//! counts.
#include "harness.h"

static void exchange(struct env *t)
{
	struct fi_context2 ctx[2];
	char out[64], in[64];
	void *out_desc = reg_desc(t, out, sizeof(out), FI_SEND), *in_desc = reg_desc(t, in, sizeof(in), FI_RECV);
	struct fi_cq_tagged_entry comp;

	fill(out, sizeof(out), 1);
	memset(in, 0, sizeof(in));
	POST(t, fi_recv(t->b.ep, in, sizeof(in), in_desc, FI_ADDR_UNSPEC, &ctx[0]));
	POST(t, fi_send(t->a.ep, out, sizeof(out), out_desc, t->a.peer, &ctx[1]));
	wait_comp(t, t->b.rxcq, &comp);
	CHECK(comp.op_context == &ctx[0]);
	CHECK_EQ(comp.len, sizeof(in));
	CHECK(filled(in, sizeof(in), 1));
	wait_comp(t, t->a.txcq, &comp);
	CHECK(comp.op_context == &ctx[1]);
}

TEST(fi_msg, message_arrives, EP_ANY, FI_MSG, "A message sent to a posted buffer arrives whole; both ends complete")
{
	PAIR(t);
	exchange(t);
}

TEST(fi_msg, message_arrives_one_cq, EP_ANY, FI_MSG, "One CQ may serve both directions of an endpoint")
{
	PAIR(t, .one_cq = true);
	exchange(t);
}
