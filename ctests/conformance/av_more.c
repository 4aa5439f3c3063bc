// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_av(3): insertion by name, symmetric insertion, printing, user identifiers, events, helper functions.
#include "harness.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

static struct fid_av *ip_av(struct env *t)
{
	if (t->info->addr_format != FI_SOCKADDR_IN && t->info->addr_format != FI_SOCKADDR)
		SKIP("not addressed by IPv4");
	return open_av(t, FI_AV_TABLE);
}

static void check_at(struct fid_av *av, fi_addr_t fi_addr, const char *node, unsigned port)
{
	struct sockaddr_in got = { 0 };
	size_t len = sizeof(got);
	char text[64] = "";

	OK(fi_av_lookup(av, fi_addr, &got, &len));
	CHECK_EQ(got.sin_family, AF_INET);
	CHECK_STR(inet_ntop(AF_INET, &got.sin_addr, text, sizeof(text)), node);
	CHECK_EQ(ntohs(got.sin_port), port);
}

// ---- By name

TEST(fi_av, insertsvc_numeric, EP_AV, FI_MSG, "fi_av_insertsvc inserts what node and service name")
{
	struct fid_av *av = ip_av(t);
	fi_addr_t got = 77;

	CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "7471", &got, 0, NULL), 1);
	CHECK_EQ(got, 0);
	check_at(av, got, "127.0.0.1", 7471);
	CHECK_RC(fi_av_insertsvc(av, "127.0.0.2", "7472", &got, 0, NULL), 1);
	CHECK_EQ(got, 1);
	check_at(av, got, "127.0.0.2", 7472);
}

TEST(fi_av, insertsvc_hostname, EP_AV, FI_MSG, "The node may be a host name")
{
	struct fid_av *av = ip_av(t);
	fi_addr_t got = 77;

	CHECK_RC(fi_av_insertsvc(av, "localhost", "7471", &got, 0, NULL), 1);
	check_at(av, got, "127.0.0.1", 7471);
}

TEST(fi_av, insertsvc_service_name, EP_AV, FI_MSG, "The service may be a name, as with fi_getinfo")
{
	struct fid_av *av = ip_av(t);
	struct servent *http = getservbyname("http", "tcp");
	fi_addr_t got = 77;

	if (!http)
		SKIP("this system has no names of services");
	CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "http", &got, 0, NULL), 1);
	check_at(av, got, "127.0.0.1", ntohs(http->s_port));
}

TEST(fi_av, insertsvc_address_string, EP_AV, FI_MSG, "The node may be a string of format FI_ADDR_STR; the service is NULL then")
{
	struct fid_av *av = ip_av(t);
	fi_addr_t got = 77;

	CHECK_RC(fi_av_insertsvc(av, "fi_sockaddr_in://127.0.0.3:7473", NULL, &got, 0, NULL), 1);
	check_at(av, got, "127.0.0.3", 7473);
	CHECK(fi_av_insertsvc(av, "fi_sockaddr_in://127.0.0.3:7473", "7474", &got, 0, NULL) <= 0);
	CHECK(fi_av_insertsvc(av, "fi_sockaddr_in://127.0.0.3", NULL, &got, 0, NULL) <= 0);
	CHECK(fi_av_insertsvc(av, "fi_nonsense://127.0.0.3:7473", NULL, &got, 0, NULL) <= 0);
}

TEST(fi_av, insertsvc_sync_err, EP_AV, FI_MSG, "FI_SYNC_ERR: insertions by name say of each address what became of it")
{
	struct fid_av *av = ip_av(t);
	int errors[4] = { 77, 77, 77, 77 };
	fi_addr_t got[4];

	CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "7471", got, FI_SYNC_ERR, errors), 1);
	CHECK(errors[0] == 0 && errors[1] == 77);
	errors[0] = 0;
	CHECK(fi_av_insertsvc(av, "no.such.host.invalid", "7471", got, FI_SYNC_ERR, errors) <= 0);
	CHECK(errors[0] > 0 && errors[1] == 77);
	CHECK_EQ(got[0], FI_ADDR_NOTAVAIL);
	CHECK_RC(fi_av_insertsym(av, "127.0.0.1", 2, "7481", 2, got, FI_SYNC_ERR, errors), 4);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(errors[i], 0);
}

TEST(fi_av, sync_err_needs_its_array, EP_AV, FI_MSG, "FI_SYNC_ERR without an array of integers is refused with -FI_EINVAL")
{
	struct fid_av *av = ip_av(t);

	CHECK_RC(fi_av_insert(av, t->info->src_addr, 1, NULL, FI_SYNC_ERR, NULL), -FI_EINVAL);
	CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "7471", NULL, FI_SYNC_ERR, NULL), -FI_EINVAL);
	CHECK_RC(fi_av_insertsym(av, "127.0.0.1", 1, "7471", 1, NULL, FI_SYNC_ERR, NULL), -FI_EINVAL);
}

TEST(fi_av, symmetric_vector, EP_AV, FI_MSG, "FI_SYMMETRIC: a vector of nodes with as many endpoints each takes and finds their addresses")
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .flags = FI_SYMMETRIC, .count = 6, .ep_per_node = 3 };
	struct fid_av *av = NULL;
	fi_addr_t got[6];

	ip_av(t);
	OK_OR_SKIP(fi_av_open(t->domain, &attr, &av, NULL));
	keep(t, &av->fid);
	CHECK_RC(fi_av_insertsym(av, "127.0.0.1", 2, "7471", 3, got, 0, NULL), 6);
	for (unsigned i = 0; i < 6; i++) {
		CHECK_EQ(got[i], i);
		check_at(av, i, i < 3 ? "127.0.0.1" : "127.0.0.2", 7471 + i % 3);
	}
}

TEST(fi_av, insertsvc_same_as_insert, EP_AV, FI_MSG, "A peer inserted by name receives messages")
{
	char node[64], service[16];
	struct sockaddr_in *in;
	fi_addr_t got = 77;

	ip_av(t);
	PAIR(t);
	in = (struct sockaddr_in *)t->b.name;
	inet_ntop(AF_INET, &in->sin_addr, node, sizeof(node));
	snprintf(service, sizeof(service), "%u", ntohs(in->sin_port));
	OK(fi_av_remove(t->a.av, &t->a.peer, 1, 0));
	CHECK_RC(fi_av_insertsvc(t->a.av, node, service, &got, 0, NULL), 1);
	t->a.peer = got;
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
}

TEST(fi_av, insertsvc_unknown_service, EP_AV, FI_MSG, "A service that is no port fails; nothing is inserted")
{
	struct fid_av *av = ip_av(t);
	fi_addr_t got = 77;

	CHECK(fi_av_insertsvc(av, "127.0.0.1", "no-such-service", &got, 0, NULL) <= 0);
	CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "7471", &got, 0, NULL), 1);
	CHECK_EQ(got, 0);
}

TEST(fi_av, insertsvc_bad_node, EP_AV, FI_MSG, "A node that cannot be resolved fails; nothing is inserted")
{
	struct fid_av *av = ip_av(t);
	fi_addr_t got = 77;

	CHECK(fi_av_insertsvc(av, "300.0.0.1.", "7471", &got, 0, NULL) <= 0);
	CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "7471", &got, 0, NULL), 1);
	CHECK_EQ(got, 0);
}

TEST(fi_av, insertsym_order, EP_AV, FI_MSG, "fi_av_insertsym inserts all services of a node before the next node")
{
	struct fid_av *av = ip_av(t);
	fi_addr_t got[6];

	CHECK_RC(fi_av_insertsym(av, "127.0.0.1", 2, "5000", 3, got, 0, NULL), 6);
	for (unsigned i = 0; i < 6; i++) {
		CHECK_EQ(got[i], i);
		check_at(av, got[i], i < 3 ? "127.0.0.1" : "127.0.0.2", 5000 + i % 3);
	}
}

TEST(fi_av, insertsym_one, EP_AV, FI_MSG, "fi_av_insertsym of one node and one service is fi_av_insertsvc")
{
	struct fid_av *av = ip_av(t);
	fi_addr_t got = 77;

	CHECK_RC(fi_av_insertsym(av, "127.0.0.1", 1, "5000", 1, &got, 0, NULL), 1);
	check_at(av, got, "127.0.0.1", 5000);
}

TEST(fi_av, insertsym_carries, EP_AV, FI_MSG, "Node numbers carry into the next byte of the address")
{
	struct fid_av *av = ip_av(t);

	CHECK_RC(fi_av_insertsym(av, "127.0.0.255", 2, "5000", 1, NULL, 0, NULL), 2);
	check_at(av, 0, "127.0.0.255", 5000);
	check_at(av, 1, "127.0.1.0", 5000);
}

TEST(fi_av, insertsym_hostname_suffix, EP_AV, FI_MSG, "A host name without a numeric suffix can be inserted once, not as a range")
{
	struct fid_av *av = ip_av(t);

	CHECK_RC(fi_av_insertsym(av, "localhost", 1, "5000", 2, NULL, 0, NULL), 2);
	check_at(av, 1, "127.0.0.1", 5001);
	CHECK(fi_av_insertsym(av, "localhost", 2, "5000", 1, NULL, 0, NULL) < 2);
}

TEST(fi_av, insertsym_nothing, EP_AV, FI_MSG, "Counts of zero insert nothing")
{
	struct fid_av *av = ip_av(t);

	CHECK(fi_av_insertsym(av, "127.0.0.1", 0, "5000", 1, NULL, 0, NULL) <= 0);
	CHECK(fi_av_insertsym(av, "127.0.0.1", 1, "5000", 0, NULL, 0, NULL) <= 0);
}

TEST(fi_av, insertsym_ports_end, EP_AV, FI_MSG, "A range of services beyond 65535 fails for those that do not exist")
{
	struct fid_av *av = ip_av(t);

	CHECK(fi_av_insertsym(av, "127.0.0.1", 1, "65535", 4, NULL, 0, NULL) <= 1);
}

// ---- Printing

TEST(fi_av, straddr_prints, EP_AV, FI_MSG, "fi_av_straddr returns the buffer with the address as text, and the length needed")
{
	struct fid_av *av = ip_av(t);
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(7471), .sin_addr.s_addr = htonl(0x7f000001) };
	char buf[128];
	size_t len = sizeof(buf);

	memset(buf, 0x5a, sizeof(buf));
	CHECK(fi_av_straddr(av, &in, buf, &len) == buf);
	CHECK_STR(buf, "fi_sockaddr_in://127.0.0.1:7471");
	CHECK_EQ(len, strlen(buf) + 1);
}

TEST(fi_av, straddr_short_buffer, EP_AV, FI_MSG, "A short buffer gets a cut text ended by NUL; len becomes the length needed")
{
	struct fid_av *av = ip_av(t);
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(7471), .sin_addr.s_addr = htonl(0x7f000001) };
	static const char full[] = "fi_sockaddr_in://127.0.0.1:7471";

	for (size_t room = 0; room < sizeof(full); room++) {
		char buf[128];
		size_t len = room;

		memset(buf, 0x5a, sizeof(buf));
		CHECK(fi_av_straddr(av, &in, buf, &len) == buf);
		CHECK_EQ(len, sizeof(full));
		for (size_t i = 0; i < sizeof(buf); i++)
			CHECK_EQ(buf[i], i + 1 < room ? full[i] : i + 1 == room ? 0 : 0x5a);
	}
}

TEST(fi_av, straddr_bad_family, EP_AV, FI_MSG, "An address of an unknown family is printed somehow, within the buffer")
{
	struct fid_av *av = ip_av(t);
	struct sockaddr_in in = { .sin_family = 0xfe };
	char buf[64];
	size_t len = 32;

	memset(buf, 0x5a, sizeof(buf));
	fi_av_straddr(av, &in, buf, &len);
	for (size_t i = 32; i < sizeof(buf); i++)
		CHECK_EQ(buf[i], 0x5a);
}

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
	struct fid_av *av = ip_av(t);

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

// ---- Authorization keys: only with a domain opened for them

TEST(fi_av, auth_key_not_configured, EP_AV, FI_MSG, "Without FI_AV_AUTH_KEY the calls for authorization keys are refused")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	uint8_t key[8] = { 0 };
	size_t size = sizeof(key);
	fi_addr_t got = 77;

	CHECK(fi_av_insert_auth_key(av, key, sizeof(key), &got, 0) < 0);
	CHECK(fi_av_lookup_auth_key(av, 0, key, &size) < 0);
	CHECK_EQ(got, 77);
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

	CHECK_RC(fi_av_insert(av, t->info->src_addr, 1, NULL, 0, NULL), -FI_ENOEQ);
}

TEST(fi_av, event_reports_count, EP_AV, FI_MSG, "FI_EVENT: one event per insertion with its context and the number inserted")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_UNSPEC, 0);
	struct fid_av *av = event_av(t);
	struct sockaddr_in addrs[3];
	struct fi_eq_entry entry = { 0 };
	fi_addr_t got[3];
	int mark;

	if (t->info->addr_format != FI_SOCKADDR_IN)
		SKIP("not addressed by IPv4");
	OK(fi_av_bind(av, &eq->fid, 0));
	for (unsigned i = 0; i < 3; i++)
		addrs[i] = (struct sockaddr_in){ AF_INET, htons(1000 + i), { htonl(0x7f000001) }, { 0 } };
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
	struct sockaddr_in addrs[3];
	struct fi_eq_err_entry err = { 0 };
	struct fi_eq_entry entry = { 0 };
	fi_addr_t got[3];
	int mark;

	if (t->info->addr_format != FI_SOCKADDR_IN)
		SKIP("not addressed by IPv4");
	OK(fi_av_bind(av, &eq->fid, 0));
	for (unsigned i = 0; i < 3; i++)
		addrs[i] = (struct sockaddr_in){ i == 1 ? AF_UNIX : AF_INET, htons(1000), { htonl(0x7f000001 + i) }, { 0 } };
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
	struct sockaddr_in addr = { AF_UNIX, 0, { 0 }, { 0 } };
	struct fi_eq_err_entry err = { 0 };
	struct fi_eq_entry entry = { 0 };
	fi_addr_t got = 77;
	int mark;

	if (t->info->addr_format != FI_SOCKADDR_IN)
		SKIP("not addressed by IPv4");
	OK(fi_av_bind(av, &eq->fid, 0));
	CHECK_RC(fi_av_insert(av, &addr, 1, &got, 0, &mark), 0);
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

	if (t->info->addr_format != FI_SOCKADDR_IN)
		SKIP("not addressed by IPv4");
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
	int mark;

	OK(fi_av_bind(av, &eq->fid, 0));
	OK(fi_av_insert(av, t->info->src_addr, 1, NULL, 0, &mark));
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

// ---- Pure functions

TEST(fi_av, rx_addr_packs, CORE, 0, "fi_rx_addr puts the index into the upper rx_ctx_bits of the address")
{
	CHECK_EQ(fi_rx_addr(5, 0, 4), 5);
	CHECK_EQ(fi_rx_addr(5, 3, 4), 5 | (3ULL << 60));
}

TEST(fi_av, group_addr_packs, CORE, 0, "fi_group_addr puts the group into the upper half of the address")
{
	CHECK_EQ(fi_group_addr(5, 0), 5);
	CHECK_EQ(fi_group_addr(5, 9), 5 | (9ULL << 32));
}
