// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fabric(7), FI_LOG_LEVEL: lines about connections at level debug, and no lines about single messages.
#define _GNU_SOURCE
#include "transfer.h"

#include <unistd.h>

static char log_name[64];

static void log_to_file(void)
{
	snprintf(log_name, sizeof(log_name), "/tmp/conformance-log-%d", (int)getpid());
	unlink(log_name);
	setenv("FI_LOG_LEVEL", "debug", 1);
	setenv("FI_LOG_LOCATION", log_name, 1);
	unsetenv("FI_LOG_PROV");
	unsetenv("FI_LOG_SUBSYS");
}

static char *logged(void)
{
	static char text[1 << 20];
	FILE *file = fopen(log_name, "r");

	CHECK(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = 0;
	fclose(file);
	return text;
}

static unsigned lines(const char *text)
{
	unsigned count = 0;

	for (; *text; text++)
		count += *text == '\n';
	return count;
}

// Requires a line at level debug that contains both texts.
static void need_line(char *text, const char *part, const char *other)
{
	char *copy = strdup(text);
	bool found = false;

	for (char *line = strtok(copy, "\n"); line && !found; line = strtok(NULL, "\n"))
		found = strstr(line, "<debug>") && strstr(line, part) && strstr(line, other);
	free(copy);
	if (found)
		return;
	unlink(log_name);
	FAIL("no line with '%s' and '%s'", part, other);
}

static void check_log(struct env *t, const char *provider, const char *nobody)
{
	struct fi_cq_err_entry err = { 0 };
	struct op op;
	unsigned before;
	fi_addr_t peer;
	char unused[ADDR_ROOM];

	log_to_file();
	setenv("FI_LOG_PROV", provider, 1);
	start_as(t, provider, FI_EP_RDM, FI_MSG | FI_TAGGED);
	PAIR(t);
	round_trip(t);
	before = lines(logged());
	for (unsigned i = 0; i < 50; i++)
		round_trip(t);
	CHECK_EQ(lines(logged()), before);
	if (!nobody)
		put_address(t, 0, unused);
	CHECK_EQ(fi_av_insert(t->a.av, nobody ? nobody : unused, 1, &peer, 0, NULL), 1);
	op = op_of(SEND, false, new_buf(t, 10, 1), peer);
	op_post(t, t->a.ep, &op);
	wait_err(t, t->a.txcq, &err);
	need_line(logged(), "connecting to ", "attempt 1");
	need_line(logged(), "rendezvous", "extensions");
	need_line(logged(), "next attempt", " ms");
	need_line(logged(), "connection to", "ends");
	unlink(log_name);
}

TEST(fi_tcp, log_debug_connections, CORE | OURS_ONLY, 0, "The log at level debug shows attempts to connect, what a connection uses, and its end, and no message")
{
	setenv("FI_TCP_SHARED_MEMORY", "0", 1);
	setenv("FI_TCP_CONN_TIMEOUT", "300", 1);
	check_log(t, "tcp", NULL);
}

TEST(fi_sockets, log_debug_connections, CORE | OURS_ONLY, 0, "The lines of sockets are its own, not those of the provider whose transport it has; FI_SOCKETS_CONN_TIMEOUT says how long a peer is waited for")
{
	setenv("FI_TCP_SHARED_MEMORY", "0", 1);
	setenv("FI_TCP_CONN_TIMEOUT", "600000", 1);
	setenv("FI_SOCKETS_CONN_TIMEOUT", "300", 1);
	check_log(t, "sockets", NULL);
}

TEST(fi_shm, log_debug_connections, CORE | OURS_ONLY, 0, "The log at level debug shows attempts to connect, what a connection uses, and its end, and no message")
{
	setenv("FI_SHM_CONN_TIMEOUT", "300", 1);
	check_log(t, "shm", "fi_ns://nobody:1");
}

TEST(fi_tcp, attempts_pause, CORE | OURS_ONLY, 0, "Attempts to connect to a port that refuses them are apart, more and more, until FI_TCP_CONN_TIMEOUT")
{
	struct fi_cq_err_entry err = { 0 };
	struct op op;
	unsigned attempts = 0;
	fi_addr_t peer;
	char unused[ADDR_ROOM];

	log_to_file();
	setenv("FI_TCP_SHARED_MEMORY", "0", 1);
	setenv("FI_TCP_CONN_TIMEOUT", "2000", 1);
	start_as(t, "tcp", FI_EP_RDM, FI_MSG);
	PAIR(t);
	put_address(t, 0, unused);
	CHECK_EQ(fi_av_insert(t->a.av, unused, 1, &peer, 0, NULL), 1);
	op = op_of(SEND, false, new_buf(t, 10, 1), peer);
	op_post(t, t->a.ep, &op);
	wait_err(t, t->a.txcq, &err);
	for (char *at = logged(); (at = strstr(at, "next attempt")); at++)
		attempts++;
	unlink(log_name);
	CHECK(attempts >= 3 && attempts <= 20);
}

TEST(fi_tcp, log_debug_shared_memory, CORE | OURS_ONLY, 0, "The log at level debug shows how two endpoints of a host get to share memory")
{
	setenv("FI_TCP_SHARED_MEMORY", "1", 1);
	log_to_file();
	start_as(t, "tcp", FI_EP_RDM, FI_MSG | FI_TAGGED);
	PAIR(t);
	round_trip(t);
	need_line(logged(), "shared memory", "asks the peer where");
	need_line(logged(), "shared memory", "expects the peer");
	need_line(logged(), "bytes a ring", "registered memory");
	unlink(log_name);
}
