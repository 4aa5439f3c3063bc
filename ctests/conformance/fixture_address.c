// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Addresses in the provider's format: sockaddr_in, or a string of FI_ADDR_STR.
#include "fixture.h"

#include <netinet/in.h>
#include <unistd.h>

enum { PORTS = 60000, FIRST_PORT = 1000, FIRST_NODE = 0x7f000001 };

// A name of lnx with one rail: head, and head of the rail's name.
enum { LINKED_NAME = 64, LINKED_HEAD = 2 * (LINKED_NAME + 8) };

bool is_tcp(struct env *t)
{
	return !strcmp(t->prov, "tcp") || !strcmp(t->prov, "sockets");
}

bool has_strings(struct env *t)
{
	return t->info->addr_format == FI_ADDR_STR;
}

bool is_linked(struct env *t)
{
	return !strcmp(t->prov, "lnx");
}

// Makes a name of lnx of a name of its rail.
static size_t put_linked(const struct sockaddr_in *in, void *at)
{
	unsigned count = 1;
	uint64_t len = sizeof(*in);
	char *to = at;

	memset(to, 0, LINKED_HEAD);
	CHECK_EQ(gethostname(to, LINKED_NAME - 1), 0); // others do not have loopback addresses of this host
	memcpy(to + LINKED_NAME, &count, sizeof(count));
	strcpy(to + LINKED_NAME + 8, "127.0.0.0/8");
	memcpy(to + LINKED_HEAD - 8, &len, sizeof(len));
	memcpy(to + LINKED_HEAD, in, sizeof(*in));
	return LINKED_HEAD + sizeof(*in);
}

bool links_shm(void)
{
	const char *links = getenv("FI_LNX_PROV_LINKS");

	return links && strstr(links, "shm");
}

bool has_rail(const void *name, size_t len, const void *of)
{
	return memmem(name, len, (const char *)of + LINKED_HEAD, sizeof(struct sockaddr_in));
}

static bool has_ipv4(struct env *t)
{
	if (is_linked(t))
		return false;
	return t->info->addr_format == FI_SOCKADDR_IN || t->info->addr_format == FI_SOCKADDR;
}

void need_ipv4(struct env *t)
{
	if (!has_ipv4(t))
		SKIP("not addressed by IPv4");
}

size_t put_address(struct env *t, unsigned which, void *at)
{
	struct sockaddr_in in = {
		.sin_family = AF_INET,
		.sin_port = htons(FIRST_PORT + which % PORTS),
		.sin_addr.s_addr = htonl(FIRST_NODE + which / PORTS),
	};

	if (has_strings(t)) // strings of several lengths
		return sprintf(at, "fi_ns://nobody%.*s:%u", which % 7, "-------", which) + 1;
	if (is_linked(t))
		return put_linked(&in, at);
	if (!has_ipv4(t))
		SKIP("addresses of this format are not made up");
	memcpy(at, &in, sizeof(in));
	return sizeof(in);
}

size_t put_foreign(struct env *t, void *at)
{
	size_t len = put_address(t, 0, at);
	struct sockaddr_in in;

	if (has_strings(t)) { // longer than any valid name
		memset(at, 'x', ADDR_ROOM - 1);
		((char *)at)[ADDR_ROOM - 1] = '\0';
		return ADDR_ROOM;
	}
	if (is_linked(t)) // its rail's name
		at = (char *)at + LINKED_HEAD;
	memcpy(&in, at, sizeof(in));
	in.sin_family = AF_UNIX;
	memcpy(at, &in, sizeof(in));
	return len;
}

// The distinguishing part of a name: fi_shm(7) allows lookups to omit the scheme.
static const char *bare(const char *name)
{
	const char *scheme = strstr(name, "://");

	return scheme ? scheme + 3 : name;
}

bool same_address(struct env *t, const void *x, const void *y)
{
	struct sockaddr_in x4, y4;

	if (has_strings(t))
		return !strcmp(bare(x), bare(y));
	if (is_linked(t)) {
		x = (const char *)x + LINKED_HEAD;
		y = (const char *)y + LINKED_HEAD;
	}
	memcpy(&x4, x, sizeof(x4));
	memcpy(&y4, y, sizeof(y4));
	return x4.sin_family == y4.sin_family && x4.sin_port == y4.sin_port && x4.sin_addr.s_addr == y4.sin_addr.s_addr;
}

int which_address(struct env *t, const void *addr)
{
	char want[ADDR_ROOM];
	struct sockaddr_in in;
	unsigned which;

	if (has_strings(t)) {
		const char *number = strrchr(addr, ':');

		which = number ? strtoul(number + 1, NULL, 10) : 0;
	} else {
		memcpy(&in, (const char *)addr + (is_linked(t) ? LINKED_HEAD : 0), sizeof(in));
		which = (ntohl(in.sin_addr.s_addr) - FIRST_NODE) * PORTS + ntohs(in.sin_port) - FIRST_PORT;
	}
	put_address(t, which, want);
	return same_address(t, addr, want) ? (int)which : -1;
}

size_t put_unused(struct env *t, void *at)
{
	static unsigned count;
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);
	int fd;

	if (has_strings(t))
		return sprintf(at, "fi_ns://conformance-%d:%u", getpid(), count++) + 1;
	if (t->info->addr_format != FI_SOCKADDR_IN && !is_linked(t))
		SKIP("not addressed by IPv4");
	fd = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd >= 0);
	CHECK_EQ(bind(fd, (struct sockaddr *)&in, len), 0);
	CHECK_EQ(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	close(fd);
	if (is_linked(t))
		return put_linked(&in, at);
	memcpy(at, &in, sizeof(in));
	return sizeof(in);
}

void set_source(struct fi_info *info, const void *addr, size_t len)
{
	free(info->src_addr);
	info->src_addr = malloc(len);
	CHECK(info->src_addr);
	memcpy(info->src_addr, addr, len);
	info->src_addrlen = len;
}
