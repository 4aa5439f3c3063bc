// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A peer whose host becomes silent: fi_endpoint(3) requires every operation to end, including receives that name the
//! peer.
#define _GNU_SOURCE
#include "transfer.h"

#include <sched.h>
#include <stdlib.h>

enum { LEN = 16 };

static void run(const char *command)
{
	int code = system(command);

	if (code)
		SKIP("%s: %d", command, code);
}

// A network namespace of this process, which the test may cut.
static void own_network(void)
{
	if (unshare(CLONE_NEWNET))
		SKIP("unshare: %s", strerror(errno));
	run("ip link set lo up >/dev/null 2>&1");
	run("nft --version >/dev/null 2>&1");
}

// From now on all packets are dropped, without an error for the sender.
static void cut(void)
{
	run("nft 'add table inet cut; add chain inet cut in { type filter hook input priority 0; policy drop; }' >/dev/null 2>&1");
}

static void one_message(struct env *t, struct side *from, struct side *to)
{
	struct op recv = op_of(RECV, false, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
	struct op send = op_of(SEND, false, new_buf(t, LEN, 1), from->peer);

	op_post(t, to->ep, &recv);
	op_post(t, from->ep, &send);
	wait_comp(t, to->rxcq, NULL);
	wait_comp(t, from->txcq, NULL);
}

static void silence_ends_receives(struct env *t, const char *prov)
{
	struct op named, any;
	uint8_t byte = 1;

	own_network();
	setenv("FI_TCP_SHARED_MEMORY", "0", 1);
	setenv("FI_TCP_PEER_TIMEOUT", "1000", 1);
	setenv("FI_OFI_RXM_CONN_TIMEOUT", "1000", 1);
	start_as(t, prov, FI_EP_RDM, FI_MSG | FI_DIRECTED_RECV);
	PAIR(t);
	one_message(t, &t->a, &t->b);
	one_message(t, &t->b, &t->a);
	named = op_of(RECV, false, new_buf(t, LEN, 0), t->a.peer);
	any = op_of(RECV, false, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
	op_post(t, t->a.ep, &named);
	op_post(t, t->a.ep, &any);
	cut();
	// The injected message counts as sent.
	OK(fi_inject(t->a.ep, &byte, 1, t->a.peer));
	CHECK_EQ(failed_somehow(t, t->a.rxcq, named.ctx).err, FI_ETIMEDOUT);
	OK(fi_cancel(&t->a.ep->fid, any.ctx));
	CHECK_EQ(failed_somehow(t, t->a.rxcq, any.ctx).err, FI_ECANCELED);
}

TEST(fi_tcp, silent_host_ends_receives, CORE | OURS_ONLY, 0, "Receives that name a peer whose host falls silent end in FI_ETIMEDOUT; others stay")
{
	silence_ends_receives(t, "tcp");
}

TEST(fi_rxm, silent_host_ends_receives, CORE | OURS_ONLY, 0, "Receives that name a peer whose host falls silent end in FI_ETIMEDOUT, also where nothing else was under way; others stay")
{
	silence_ends_receives(t, "tcp;ofi_rxm");
}
