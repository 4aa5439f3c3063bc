// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Which endpoints fi_getinfo lists for each API version, without hints and with hints whose parts are missing, for all
 * providers together and for each by name; and what the old versions of the symbol list.
 *
 * Each kind of endpoint is listed once, as provider/type:mr_mode. getinfo_versions.expected is compared with it, and the
 * output of another libfabric can be.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

typedef int getinfo_fn(uint32_t version, const char *node, const char *service, uint64_t flags,
		       const struct fi_info *hints, struct fi_info **info);

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const uint32_t versions[] = {
	0, FI_VERSION(1, 0), FI_VERSION(1, 3), FI_VERSION(1, 4), FI_VERSION(1, 5), FI_VERSION(1, 6), FI_VERSION(1, 18),
	FI_VERSION(2, 6),
};
static const char *const providers[] = {
	"tcp", "tcp;ofi_rxm", "udp", "udp;ofi_rxd", "shm", "sm2", "sockets", "sockets;ofi_rxm",
};
static const char *const types[] = { "?", "MSG", "DGRAM", "RDM" };

enum part { NOTHING, NO_HINTS, TX, RX, EP, DOMAIN, FABRIC, ALL, PARTS };
static const char *const parts[PARTS] = {
	"empty hints", "no hints", "no tx_attr", "no rx_attr", "no ep_attr", "no domain_attr", "no fabric_attr", "no attributes",
};

static void drop(void *part)
{
	void **at = part;

	free(*at);
	*at = NULL;
}

static struct fi_info *hints_without(enum part part, const char *provider)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		abort();
	if (part == TX || part == ALL)
		drop(&hints->tx_attr);
	if (part == RX || part == ALL)
		drop(&hints->rx_attr);
	if (part == EP || part == ALL)
		drop(&hints->ep_attr);
	if (part == DOMAIN || part == ALL)
		drop(&hints->domain_attr);
	if (part == FABRIC || part == ALL)
		drop(&hints->fabric_attr);
	else if (provider)
		hints->fabric_attr->prov_name = strdup(provider);
	return hints;
}

/* Lists each kind of endpoint once. */
static void list(char *text, size_t size, getinfo_fn *getinfo, uint32_t version, const struct fi_info *hints)
{
	struct fi_info *infos = NULL, *info;
	int ret = getinfo(version, NULL, NULL, 0, hints, &infos);
	char one[128];

	if (ret) {
		snprintf(text, size, " %s", fi_strerror(-ret));
		return;
	}
	snprintf(text, size, " ");
	for (info = infos; info; info = info->next) {
		snprintf(one, sizeof(one), " %s/%s:%#x ", info->fabric_attr->prov_name, types[info->ep_attr->type & 3],
			 (unsigned) info->domain_attr->mr_mode);
		if (!strstr(text, one))
			strncat(text, one + 1, size - strlen(text) - 1);
	}
	text[strlen(text) - 1] = 0;
	fi_freeinfo(infos);
}

/* Prints one line for all successive versions with the same result. */
static void ask_versions(const char *provider, enum part part)
{
	static char now[4096], next[4096];
	struct fi_info *hints = part == NO_HINTS ? NULL : hints_without(part, provider);
	uint32_t from = versions[0], to = from;
	size_t i;

	list(now, sizeof(now), fi_getinfo, from, hints);
	for (i = 1; i <= COUNT(versions); i++) {
		if (i < COUNT(versions))
			list(next, sizeof(next), fi_getinfo, versions[i], hints);
		if (i == COUNT(versions) || strcmp(now, next)) {
			printf("%s, %s, %u.%u to %u.%u:%s\n", provider ? provider : "all", parts[part], FI_MAJOR(from),
			       FI_MINOR(from), FI_MAJOR(to), FI_MINOR(to), now);
			from = versions[i % COUNT(versions)];
			strcpy(now, next);
		}
		to = versions[i % COUNT(versions)];
	}
	if (hints)
		fi_freeinfo(hints);
}

/* The structures have only grown, so hints without parts are the same for every version of the symbol. */
static void ask_old_symbols(void)
{
	static const struct { const char *name; uint32_t version; } symbols[] = {
		{ "FABRIC_1.0", FI_VERSION(1, 0) }, { "FABRIC_1.1", FI_VERSION(1, 1) }, { "FABRIC_1.2", FI_VERSION(1, 4) },
		{ "FABRIC_1.3", FI_VERSION(1, 3) }, { "FABRIC_1.7", FI_VERSION(1, 18) },
	};
	struct fi_info *hints = hints_without(ALL, NULL);
	char without[4096], empty[4096];
	getinfo_fn *getinfo;
	size_t i;

	for (i = 0; i < COUNT(symbols); i++) {
		getinfo = (getinfo_fn *) (uintptr_t) dlvsym(RTLD_DEFAULT, "fi_getinfo", symbols[i].name);
		if (!getinfo) {
			printf("fi_getinfo@%s is missing\n", symbols[i].name);
			continue;
		}
		list(without, sizeof(without), getinfo, symbols[i].version, NULL);
		list(empty, sizeof(empty), getinfo, symbols[i].version, hints);
		printf("fi_getinfo@%s, no hints:%s\n", symbols[i].name, without);
		printf("fi_getinfo@%s, no attributes:%s\n", symbols[i].name, empty);
	}
	fi_freeinfo(hints);
}

int main(void)
{
	size_t i;
	int part;

	for (part = 0; part < PARTS; part++)
		ask_versions(NULL, part);
	for (i = 0; i < COUNT(providers); i++) {
		for (part = 0; part < PARTS; part++) {
			/* without fabric_attr no provider can be named */
			if (part != NO_HINTS && part != FABRIC && part != ALL)
				ask_versions(providers[i], part);
		}
	}
	ask_old_symbols();
	return 0;
}
