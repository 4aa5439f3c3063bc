// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_av(3): insertion by name, symmetric insertion, printing, authorization keys, helper functions.
#include "harness.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

static struct fid_av *ip_av(struct env *t)
{
	need_ipv4(t);
	return open_av(t, FI_AV_TABLE);
}

// Checks that the vector has this node and service at `fi_addr`: an IPv4 address and port, or the string that fi_shm(7)
// makes of them.
static void check_at(struct env *t, struct fid_av *av, fi_addr_t fi_addr, const char *node, unsigned port)
{
	char want[ADDR_ROOM], got[ADDR_ROOM] = { 0 };
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	size_t len = sizeof(got);

	if (has_strings(t)) {
		snprintf(want, sizeof(want), "fi_ns://%s:%u", node, port);
	} else {
		CHECK_EQ(inet_pton(AF_INET, node, &in.sin_addr), 1);
		memcpy(want, &in, sizeof(in));
	}
	OK(fi_av_lookup(av, fi_addr, got, &len));
	CHECK(same_address(t, got, want));
}

// ---- By name

TEST(fi_av, insertsvc_numeric, EP_AV, FI_MSG, "fi_av_insertsvc inserts what node and service name")
{
	struct fid_av *av = open_av_by_name(t);
	fi_addr_t got = 77;

	CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "7471", &got, 0, NULL), 1);
	CHECK_EQ(got, 0);
	check_at(t, av, got, "127.0.0.1", 7471);
	CHECK_RC(fi_av_insertsvc(av, "127.0.0.2", "7472", &got, 0, NULL), 1);
	CHECK_EQ(got, 1);
	check_at(t, av, got, "127.0.0.2", 7472);
}

TEST(fi_av, insertsvc_hostname, EP_AV, FI_MSG, "The node may be a host name")
{
	struct fid_av *av = ip_av(t);
	fi_addr_t got = 77;

	CHECK_RC(fi_av_insertsvc(av, "localhost", "7471", &got, 0, NULL), 1);
	check_at(t, av, got, "127.0.0.1", 7471);
}

TEST(fi_av, insertsvc_service_name, EP_AV, FI_MSG, "The service may be a name, as with fi_getinfo")
{
	struct fid_av *av = ip_av(t);
	struct servent *http = getservbyname("http", "tcp");
	fi_addr_t got = 77;

	if (!http)
		SKIP("this system has no names of services");
	CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "http", &got, 0, NULL), 1);
	check_at(t, av, got, "127.0.0.1", ntohs(http->s_port));
}

TEST(fi_av, insertsvc_address_string, EP_AV, FI_MSG, "The node may be a string of format FI_ADDR_STR; the service is NULL then")
{
	struct fid_av *av = open_av_by_name(t);
	fi_addr_t got = 77;

	if (has_strings(t)) {
		CHECK_RC(fi_av_insertsvc(av, "fi_ns://127.0.0.3:7473", NULL, &got, 0, NULL), 1);
		check_at(t, av, got, "127.0.0.3", 7473);
		CHECK(fi_av_insertsvc(av, "127.0.0.3:7473", NULL, &got, 0, NULL) <= 0);
		return;
	}
	CHECK_RC(fi_av_insertsvc(av, "fi_sockaddr_in://127.0.0.3:7473", NULL, &got, 0, NULL), 1);
	check_at(t, av, got, "127.0.0.3", 7473);
	CHECK(fi_av_insertsvc(av, "fi_sockaddr_in://127.0.0.3:7473", "7474", &got, 0, NULL) <= 0);
	CHECK(fi_av_insertsvc(av, "fi_sockaddr_in://127.0.0.3", NULL, &got, 0, NULL) <= 0);
	CHECK(fi_av_insertsvc(av, "fi_nonsense://127.0.0.3:7473", NULL, &got, 0, NULL) <= 0);
}

TEST(fi_av, insertsvc_sync_err, EP_AV, FI_MSG, "FI_SYNC_ERR: insertions by name say of each address what became of it")
{
	struct fid_av *av = open_av_by_name(t);
	const char *unknown = "no.such.host.invalid";
	char foreign[ADDR_ROOM];
	int errors[4] = { 77, 77, 77, 77 };
	fi_addr_t got[4];

	if (has_strings(t)) { // any name is valid
		put_foreign(t, foreign);
		unknown = foreign;
	}
	CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "7471", got, FI_SYNC_ERR, errors), 1);
	CHECK(errors[0] == 0 && errors[1] == 77);
	errors[0] = 0;
	CHECK(fi_av_insertsvc(av, unknown, "7471", got, FI_SYNC_ERR, errors) <= 0);
	CHECK(errors[0] > 0 && errors[1] == 77);
	CHECK_EQ(got[0], FI_ADDR_NOTAVAIL);
	CHECK_RC(fi_av_insertsym(av, "127.0.0.1", 2, "7481", 2, got, FI_SYNC_ERR, errors), 4);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(errors[i], 0);
}

TEST(fi_av, sync_err_needs_its_array, EP_AV, FI_MSG, "FI_SYNC_ERR without an array of integers is refused with -FI_EINVAL")
{
	struct fid_av *av = open_av_by_name(t);

	CHECK_RC(fi_av_insert(av, t->info->src_addr, 1, NULL, FI_SYNC_ERR, NULL), -FI_EINVAL);
	CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "7471", NULL, FI_SYNC_ERR, NULL), -FI_EINVAL);
	CHECK_RC(fi_av_insertsym(av, "127.0.0.1", 1, "7471", 1, NULL, FI_SYNC_ERR, NULL), -FI_EINVAL);
}

TEST(fi_av, symmetric_vector, EP_AV, FI_MSG, "FI_SYMMETRIC: a vector of nodes with as many endpoints each takes and finds their addresses")
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .flags = FI_SYMMETRIC, .count = 6, .ep_per_node = 3 };
	struct fid_av *av = NULL;
	fi_addr_t got[6];

	open_av_by_name(t);
	OK_OR_SKIP(fi_av_open(t->domain, &attr, &av, NULL));
	keep(t, &av->fid);
	CHECK_RC(fi_av_insertsym(av, "127.0.0.1", 2, "7471", 3, got, 0, NULL), 6);
	for (unsigned i = 0; i < 6; i++) {
		CHECK_EQ(got[i], i);
		check_at(t, av, i, i < 3 ? "127.0.0.1" : "127.0.0.2", 7471 + i % 3);
	}
}

TEST(fi_av, insertsvc_same_as_insert, EP_AV, FI_MSG, "A peer inserted by name receives messages")
{
	char node[ADDR_ROOM], service[16];
	struct sockaddr_in *in;
	fi_addr_t got = 77;

	open_av_by_name(t);
	PAIR(t);
	in = (struct sockaddr_in *)t->b.name;
	if (has_strings(t)) {
		strcpy(node, t->b.name);
	} else {
		inet_ntop(AF_INET, &in->sin_addr, node, sizeof(node));
		snprintf(service, sizeof(service), "%u", ntohs(in->sin_port));
	}
	OK(fi_av_remove(t->a.av, &t->a.peer, 1, 0));
	CHECK_RC(fi_av_insertsvc(t->a.av, node, has_strings(t) ? NULL : service, &got, 0, NULL), 1);
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

TEST(fi_av, insertsvc_bad_node, EP_AV, FI_MSG, "A node that is no address and cannot be resolved fails; nothing is inserted")
{
	struct fid_av *av = open_av_by_name(t);
	char foreign[ADDR_ROOM];
	fi_addr_t got = 77;

	put_foreign(t, foreign);
	CHECK(fi_av_insertsvc(av, has_strings(t) ? foreign : "300.0.0.1.", "7471", &got, 0, NULL) <= 0);
	CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "7471", &got, 0, NULL), 1);
	CHECK_EQ(got, 0);
}

TEST(fi_av, insertsym_order, EP_AV, FI_MSG, "fi_av_insertsym inserts all services of a node before the next node")
{
	struct fid_av *av = open_av_by_name(t);
	fi_addr_t got[6];

	CHECK_RC(fi_av_insertsym(av, "127.0.0.1", 2, "5000", 3, got, 0, NULL), 6);
	for (unsigned i = 0; i < 6; i++) {
		CHECK_EQ(got[i], i);
		check_at(t, av, got[i], i < 3 ? "127.0.0.1" : "127.0.0.2", 5000 + i % 3);
	}
}

TEST(fi_av, insertsym_one, EP_AV, FI_MSG, "fi_av_insertsym of one node and one service is fi_av_insertsvc")
{
	struct fid_av *av = open_av_by_name(t);
	fi_addr_t got = 77;

	CHECK_RC(fi_av_insertsym(av, "127.0.0.1", 1, "5000", 1, &got, 0, NULL), 1);
	check_at(t, av, got, "127.0.0.1", 5000);
}

TEST(fi_av, insertsym_carries, EP_AV, FI_MSG, "Node numbers carry into the next byte of the address")
{
	struct fid_av *av = open_av_by_name(t);

	CHECK_RC(fi_av_insertsym(av, "127.0.0.255", 2, "5000", 1, NULL, 0, NULL), 2);
	check_at(t, av, 0, "127.0.0.255", 5000);
	check_at(t, av, 1, "127.0.1.0", 5000);
}

TEST(fi_av, insertsym_hostname_suffix, EP_AV, FI_MSG, "A host name without a numeric suffix can be inserted once, not as a range")
{
	struct fid_av *av = open_av_by_name(t);

	CHECK_RC(fi_av_insertsym(av, "localhost", 1, "5000", 2, NULL, 0, NULL), 2);
	check_at(t, av, 1, has_strings(t) ? "localhost" : "127.0.0.1", 5001);
	CHECK(fi_av_insertsym(av, "localhost", 2, "5000", 1, NULL, 0, NULL) < 2);
}

TEST(fi_av, insertsym_nothing, EP_AV, FI_MSG, "Counts of zero insert nothing")
{
	struct fid_av *av = open_av_by_name(t);

	CHECK(fi_av_insertsym(av, "127.0.0.1", 0, "5000", 1, NULL, 0, NULL) <= 0);
	CHECK(fi_av_insertsym(av, "127.0.0.1", 1, "5000", 0, NULL, 0, NULL) <= 0);
}

TEST(fi_av, insertsym_ports_end, EP_AV, FI_MSG, "A range of services beyond 65535 fails for those that do not exist")
{
	struct fid_av *av = ip_av(t);

	CHECK(fi_av_insertsym(av, "127.0.0.1", 1, "65535", 4, NULL, 0, NULL) <= 1);
}

// ---- Printing

// Returns the text of fi_av_straddr for an address.
static const char *printed(struct env *t, void *addr)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(7471), .sin_addr.s_addr = htonl(0x7f000001) };

	if (has_strings(t))
		return strcpy(addr, "fi_ns://127.0.0.1:7471");
	need_ipv4(t);
	memcpy(addr, &in, sizeof(in));
	return "fi_sockaddr_in://127.0.0.1:7471";
}

TEST(fi_av, straddr_prints, EP_AV, FI_MSG, "fi_av_straddr returns the buffer with the address as text, and the length needed")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	char addr[64], buf[128];
	const char *full = printed(t, addr);
	size_t len = sizeof(buf);

	memset(buf, 0x5a, sizeof(buf));
	CHECK(fi_av_straddr(av, addr, buf, &len) == buf);
	CHECK_STR(buf, full);
	CHECK_EQ(len, strlen(buf) + 1);
}

TEST(fi_av, straddr_short_buffer, EP_AV, FI_MSG, "A short buffer gets a cut text ended by NUL; len becomes the length needed")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	char addr[64];
	const char *full = printed(t, addr);

	for (size_t room = 0; room <= strlen(full); room++) {
		char buf[128];
		size_t len = room;

		memset(buf, 0x5a, sizeof(buf));
		CHECK(fi_av_straddr(av, addr, buf, &len) == buf);
		CHECK_EQ(len, strlen(full) + 1);
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

// ---- Authorization keys: only in a domain that was opened for them

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
