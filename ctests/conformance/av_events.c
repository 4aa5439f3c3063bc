// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_av(3): identifiers that the application sets for addresses; insertions reported by events (deprecated).
#include "harness.h"

// ---- User identifiers

TEST(fi_av, user_id_by_insert, EP_AV, FI_MSG | FI_SOURCE, "FI_AV_USER_ID at insert: completions report the identifier given, sends use the value returned")
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t id = 4711, src = 77;
	ssize_t rc;

	PAIR(t);
	OK(fi_av_remove(t->b.av, &t->b.peer, 1, 0));
	rc = fi_av_insert(t->b.av, t->a.name, 1, &id, FI_AV_USER_ID, NULL);
	if (rc != 1)
		SKIP("not offered: %s", rc_name(rc));
	CHECK(id != 4711);
	flow_run(t, 0, 1);
	ONCE(t, (rc = fi_cq_readfrom(t->b.rxcq, &entry, 1, &src)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	CHECK_EQ(src, 4711);
}

TEST(fi_av, user_id_forms, EP_AV, FI_MSG, "FI_AV_USER_ID is taken by all insertion calls; without identifiers it is refused")
{
	fi_addr_t ids[4] = { 4711, 4712, 4713, 4714 };
	struct fid_av *av = open_av_by_name(t);
	int rc = fi_av_insert(av, t->info->src_addr, 1, ids, FI_AV_USER_ID, NULL);

	if (rc != 1)
		SKIP("not offered: %s", rc_name(rc));
	CHECK_EQ(ids[0], 0);
	CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "7471", ids + 1, FI_AV_USER_ID, NULL), 1);
	CHECK_EQ(ids[1], 1);
	CHECK_RC(fi_av_insertsym(av, "127.0.0.1", 1, "7481", 2, ids + 2, FI_AV_USER_ID, NULL), 2);
	CHECK(ids[2] == 2 && ids[3] == 3);
	CHECK(fi_av_insert(av, t->info->src_addr, 1, NULL, FI_AV_USER_ID, NULL) < 0);
}

TEST(fi_av, user_id_of_unexpected, EP_AV, FI_MSG | FI_TAGGED | FI_SOURCE, "FI_AV_USER_ID: a message that came before its receive reports the identifier as well")
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t id = 4711, src = 77;
	struct fi_context2 ctx[2];
	static char in[8];
	void *desc;
	ssize_t rc;

	PAIR(t);
	desc = reg_desc(t, in, sizeof(in), FI_SEND | FI_RECV);
	OK(fi_av_remove(t->b.av, &t->b.peer, 1, 0));
	rc = fi_av_insert(t->b.av, t->a.name, 1, &id, FI_AV_USER_ID, NULL);
	if (rc != 1)
		SKIP("not offered: %s", rc_name(rc));
	POST(t, fi_tsend(t->a.ep, in, sizeof(in), desc, t->a.peer, 1, &ctx[0]));
	wait_comp(t, t->a.txcq, NULL);
	flow_run(t, 0, 1); // has arrived after the other
	ONCE(t, (rc = fi_cq_readfrom(t->b.rxcq, &entry, 1, &src)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	CHECK_EQ(src, 4711);
	src = 77;
	POST(t, fi_trecv(t->b.ep, in, sizeof(in), desc, FI_ADDR_UNSPEC, 1, 0, &ctx[1]));
	ONCE(t, (rc = fi_cq_readfrom(t->b.rxcq, &entry, 1, &src)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	CHECK_EQ(src, 4711);
}

TEST(fi_av, user_id_sends, EP_AV, FI_MSG | FI_DIRECTED_RECV, "FI_AV_USER_ID: transfers and directed receives name the peer by the value that insertion returned")
{
	fi_addr_t id = 4711;
	struct fi_context2 ctx;
	static char in[FLOW_LEN];
	ssize_t rc;

	PAIR(t);
	OK(fi_av_remove(t->b.av, &t->b.peer, 1, 0));
	rc = fi_av_insert(t->b.av, t->a.name, 1, &id, FI_AV_USER_ID, NULL);
	if (rc != 1)
		SKIP("not offered: %s", rc_name(rc));
	POST(t, fi_recv(t->b.ep, in, sizeof(in), reg_desc(t, in, sizeof(in), FI_RECV), id, &ctx));
	flow_post_send(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
	CHECK(filled(in, FLOW_LEN, 0));
}

TEST(fi_av, insertsvc_flags, EP_AV, FI_MSG, "The flags of fi_av_insert are those of insertions by name, FI_FIREWALL_ADDR too")
{
	static const uint64_t flags[] = { 0, FI_MORE, FI_FIREWALL_ADDR };
	struct fid_av *av = open_av_by_name(t);

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if (fi_av_insert(av, t->info->src_addr, 1, NULL, flags[i], NULL) != 1)
			continue;
		CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "7471", NULL, flags[i], NULL), 1);
		CHECK_RC(fi_av_insertsym(av, "127.0.0.1", 1, "7471", 2, NULL, flags[i], NULL), 2);
	}
}

TEST(fi_av, user_id_by_call, EP_AV, FI_MSG | FI_SOURCE | FI_AV_USER_ID, "FI_AV_USER_ID at open: FI_ADDR_NOTAVAIL until fi_av_set_user_id names the peer")
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t src = 77;
	ssize_t rc;

	PAIR(t, .av.flags = FI_AV_USER_ID);
	flow_run(t, 0, 1);
	ONCE(t, (rc = fi_cq_readfrom(t->b.rxcq, &entry, 1, &src)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	CHECK_EQ(src, FI_ADDR_NOTAVAIL);
	OK(fi_av_set_user_id(t->b.av, t->b.peer, 4711, 0));
	flow_run(t, 1, 1);
	ONCE(t, (rc = fi_cq_readfrom(t->b.rxcq, &entry, 1, &src)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	CHECK_EQ(src, 4711);
}

TEST(fi_av, user_id_without_flag, EP_AV, FI_MSG, "fi_av_set_user_id needs a vector opened with FI_AV_USER_ID")
{
	struct fid_av *av = open_av_by_name(t);

	CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "7471", NULL, 0, NULL), 1);
	CHECK(fi_av_set_user_id(av, 0, 4711, 0) < 0);
}

TEST(fi_av, user_id_needs_the_capability, EP_AV, FI_MSG, "Without the domain capability FI_AV_USER_ID a vector cannot be opened with that flag")
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .flags = FI_AV_USER_ID };
	struct fid_av *av = NULL;

	open_domain(t);
	if (t->info->domain_attr->caps & FI_AV_USER_ID)
		SKIP("the domain has the capability");
	CHECK(fi_av_open(t->domain, &attr, &av, NULL) < 0);
}

// ---- Events (deprecated)

static struct fid_av *event_av(struct env *t)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .flags = FI_EVENT };
	struct fid_av *av = NULL;
	int rc;

	open_domain(t);
	rc = fi_av_open(t->domain, &attr, &av, NULL);
	if (rc)
		SKIP("FI_EVENT is not offered: %s", rc_name(rc));
	keep(t, &av->fid);
	return av;
}

TEST(fi_av, event_without_eq, EP_AV, FI_MSG, "FI_EVENT: inserting before an event queue is bound gives -FI_ENOEQ")
{
	struct fid_av *av = event_av(t);
	char addr[ADDR_ROOM];

	put_address(t, 0, addr);
	CHECK_RC(fi_av_insert(av, addr, 1, NULL, 0, NULL), -FI_ENOEQ);
}

TEST(fi_av, event_reports_count, EP_AV, FI_MSG, "FI_EVENT: one event per insertion with its context and the number inserted")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	struct fid_av *av = event_av(t);
	struct fi_eq_entry entry = { 0 };
	char addrs[3 * ADDR_ROOM];
	fi_addr_t got[3];
	size_t len = 0;
	int mark;

	OK(fi_av_bind(av, &eq->fid, 0));
	for (unsigned i = 0; i < 3; i++)
		len += put_address(t, i, addrs + len);
	CHECK_RC(fi_av_insert(av, addrs, 3, got, 0, &mark), 0);
	CHECK_RC(wait_event(t, eq, FI_AV_COMPLETE, &entry, sizeof(entry)), sizeof(entry));
	CHECK(entry.fid == &av->fid && entry.context == &mark);
	CHECK_EQ(entry.data, 3);
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(got[i], i);
}

TEST(fi_av, event_reports_failures, EP_AV, FI_MSG, "FI_EVENT: an error event with the index precedes the event of the insertion")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	struct fid_av *av = event_av(t);
	struct fi_eq_err_entry err = { 0 };
	struct fi_eq_entry entry = { 0 };
	char addrs[3 * ADDR_ROOM];
	fi_addr_t got[3];
	size_t len = 0;
	int mark;

	OK(fi_av_bind(av, &eq->fid, 0));
	for (unsigned i = 0; i < 3; i++)
		len += i == 1 ? put_foreign(t, addrs + len) : put_address(t, i, addrs + len);
	CHECK_RC(fi_av_insert(av, addrs, 3, got, 0, &mark), 0);
	wait_eq_err(t, eq, &err);
	CHECK(err.context == &mark);
	CHECK_EQ(err.data, 1);
	CHECK(err.err > 0);
	CHECK_RC(wait_event(t, eq, FI_AV_COMPLETE, &entry, sizeof(entry)), sizeof(entry));
	CHECK_EQ(entry.data, 2);
	CHECK_EQ(got[1], FI_ADDR_NOTAVAIL);
}

TEST(fi_av, event_of_failures_alone, EP_AV, FI_MSG, "FI_EVENT: an insertion that fails altogether has its event as well, with the number 0")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	struct fid_av *av = event_av(t);
	struct fi_eq_err_entry err = { 0 };
	struct fi_eq_entry entry = { 0 };
	fi_addr_t got = 77;
	char addr[ADDR_ROOM];
	int mark;

	OK(fi_av_bind(av, &eq->fid, 0));
	put_foreign(t, addr);
	CHECK_RC(fi_av_insert(av, addr, 1, &got, 0, &mark), 0);
	wait_eq_err(t, eq, &err);
	CHECK(err.fid == &av->fid && err.context == &mark);
	CHECK_EQ(err.data, 0);
	CHECK_RC(wait_event(t, eq, FI_AV_COMPLETE, &entry, sizeof(entry)), sizeof(entry));
	CHECK(entry.context == &mark);
	CHECK_EQ(entry.data, 0);
	CHECK_EQ(got, FI_ADDR_NOTAVAIL);
}

TEST(fi_av, event_for_names, EP_AV, FI_MSG, "FI_EVENT: insertions by name are reported as well")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	struct fid_av *av = event_av(t);
	struct fi_eq_entry entry = { 0 };
	int marks[2];

	open_av_by_name(t);
	OK(fi_av_bind(av, &eq->fid, 0));
	CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "7471", NULL, 0, &marks[0]), 0);
	CHECK_RC(fi_av_insertsym(av, "127.0.0.1", 2, "7481", 2, NULL, 0, &marks[1]), 0);
	CHECK_RC(wait_event(t, eq, FI_AV_COMPLETE, &entry, sizeof(entry)), sizeof(entry));
	CHECK(entry.context == &marks[0]);
	CHECK_EQ(entry.data, 1);
	CHECK_RC(wait_event(t, eq, FI_AV_COMPLETE, &entry, sizeof(entry)), sizeof(entry));
	CHECK(entry.context == &marks[1]);
	CHECK_EQ(entry.data, 4);
}

TEST(fi_av, event_outlives_the_vector, EP_AV, FI_MSG, "Events that refer to a vector are left untouched when it is closed")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	struct fid_av *av = event_av(t);
	struct fi_eq_entry entry = { 0 };
	char addr[ADDR_ROOM];
	int mark;

	put_address(t, 0, addr);
	OK(fi_av_bind(av, &eq->fid, 0));
	OK(fi_av_insert(av, addr, 1, NULL, 0, &mark));
	shut(t, &av->fid);
	CHECK_RC(wait_event(t, eq, FI_AV_COMPLETE, &entry, sizeof(entry)), sizeof(entry));
	CHECK(entry.fid == &av->fid && entry.context == &mark);
}

TEST(fi_eq, close_while_bound_to_av, EP_AV, FI_MSG, "A queue that an address vector is bound to cannot be closed: -FI_EBUSY")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	struct fid_av *av = event_av(t);

	OK_OR_SKIP(fi_av_bind(av, &eq->fid, 0));
	CHECK_RC(fi_close(&eq->fid), -FI_EBUSY);
	shut(t, &av->fid);
	shut(t, &eq->fid);
}

TEST(fi_av, bind_flags_reserved, EP_AV, FI_MSG, "Flags of fi_av_bind are reserved and must be 0; only an event queue can be bound")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	struct fid_eq *eq = open_eq(t, FI_WAIT_UNSPEC, 0);

	CHECK(fi_av_bind(av, &eq->fid, 1ULL << 51) < 0);
	CHECK(fi_av_bind(av, &t->domain->fid, 0) < 0);
}
