// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Which endpoints the filters by provider leave: FI_PROVIDER (fabric(7), fi_fabric(3)), prov_name of the hints
 * (fi_fabric(3)), and both at once.
 *
 * Endpoints are printed in a fixed order; getinfo.c has the order of results. getinfo_filters.expected is compared with
 * the output, and the output of another libfabric can be. Upstream's 2.6 prints the same except for OFI_RXM, OFI_RXM;TCP
 * and TCP;OFI_RXM in prov_name, which it does not find: docs/differences.md.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct { const char *provider; enum fi_ep_type type; const char *name; } kinds[] = {
	{ "tcp", FI_EP_RDM, "tcp/RDM" }, { "tcp", FI_EP_MSG, "tcp/MSG" }, { "tcp;ofi_rxm", FI_EP_RDM, "tcp;ofi_rxm" },
	{ "udp", FI_EP_DGRAM, "udp" }, { "udp;ofi_rxd", FI_EP_RDM, "udp;ofi_rxd" }, { "shm", FI_EP_RDM, "shm" },
	{ "sm2", FI_EP_RDM, "sm2" }, { "sockets", FI_EP_RDM, "sockets/RDM" }, { "sockets", FI_EP_MSG, "sockets/MSG" },
	{ "sockets", FI_EP_DGRAM, "sockets/DGRAM" }, { "sockets;ofi_rxm", FI_EP_RDM, "sockets;ofi_rxm" },
};

static int is_kind(const struct fi_info *info, size_t kind)
{
	return info->ep_attr->type == kinds[kind].type && !strcmp(info->fabric_attr->prov_name, kinds[kind].provider);
}

/* Prints what the hints find. An entry of an unknown kind is printed by its name. */
static void ask(const char *prov_name)
{
	struct fi_info *hints = fi_allocinfo(), *list = NULL, *info;
	size_t kind;
	int ret;

	if (!hints)
		abort();
	if (prov_name)
		hints->fabric_attr->prov_name = strdup(prov_name);
	ret = fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &list);
	fi_freeinfo(hints);
	if (ret) {
		printf(" %s\n", fi_strerror(-ret));
		return;
	}
	for (kind = 0; kind < COUNT(kinds); kind++) {
		for (info = list; info && !is_kind(info, kind); info = info->next)
			;
		if (info)
			printf(" %s", kinds[kind].name);
	}
	for (info = list; info; info = info->next) {
		for (kind = 0; kind < COUNT(kinds) && !is_kind(info, kind); kind++)
			;
		if (kind == COUNT(kinds))
			printf(" unknown:%s", info->fabric_attr->prov_name);
	}
	printf("\n");
	fi_freeinfo(list);
}

/* The library reads the variable once in a process, so each value has a process of its own. */
static void ask_with_variable(const char *variable, const char *const *names, size_t count)
{
	int status = -1;
	size_t i;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child) {
		setenv("FI_PROVIDER", variable, 1);
		for (i = 0; i < count; i++) {
			printf("FI_PROVIDER=\"%s\"", variable);
			if (names[i])
				printf(", prov_name \"%s\"", names[i]);
			printf(":");
			ask(names[i]);
		}
		fflush(stdout);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		printf("FI_PROVIDER=\"%s\": the process ended with status %#x\n", variable, (unsigned) status);
}

int main(void)
{
	static const char *const no_name[] = { NULL };
	static const char *const variables[] = {
		/* names, of a core provider and of layers */
		"tcp", "TCP", "udp,tcp", "tcp,udp,shm", "tcp;ofi_rxm", "TCP;OFI_RXM", "ofi_rxm;tcp", "ofi_rxm", "ofi_rxd",
		"ofi_rxm,tcp", "tcp,ofi_rxm", "udp;ofi_rxd", "udp;ofi_rxd,tcp", "sockets", "sockets;ofi_rxm", "shm", "sm2",
		/* negated lists */
		"^tcp", "^TCP", "^udp", "^tcp,udp", "^shm,sm2", "^sockets", "^ofi_rxm", "^OFI_RXM", "^ofi_rxd",
		"^ofi_rxm,ofi_rxd", "^ofi_rxd,ofi_rxm", "^tcp,ofi_rxd", "^tcp;ofi_rxm", "^TCP;OFI_RXM", "^udp;ofi_rxd",
		"^tcp;ofi_rxm,ofi_rxd", "^ofi_rxm;tcp", "^ofi_rxm,^ofi_rxd", "^tcp,^udp",
		/* what names nothing */
		"", ",", "tcp,", ",tcp", "^", "^,", "^,tcp", "zork", "^zork", "tc", "^tc", "tcpx", " tcp", "tcp ", "^ tcp", "tcp;",
		";tcp", "rxm", "^rxm", "ofi_", "^ofi_",
	};
	static const char *const names[] = {
		"tcp", "TCP", "tcp;ofi_rxm", "TCP;OFI_RXM", "ofi_rxm;tcp", "OFI_RXM;TCP", "ofi_rxm", "OFI_RXM", "udp",
		"udp;ofi_rxd", "ofi_rxd;udp", "ofi_rxd", "sockets", "sockets;ofi_rxm", "ofi_rxm;sockets", "shm", "sm2",
		"tcp;^ofi_rxm", "TCP;^OFI_RXM", "udp;^ofi_rxd", "sockets;^ofi_rxm", "^tcp", "^TCP", "^udp", "^sockets",
		"^ofi_rxm", "^OFI_RXM", "^ofi_rxd", "^ofi_rxm;^ofi_rxd", "^ofi_rxd;^ofi_rxm", "^tcp;^udp", "^tcp;^ofi_rxd",
		"^udp;^ofi_rxm", "^tcp;ofi_rxm", "^ofi_rxm;tcp", "^ofi_rxm,ofi_rxd", "^tcp,udp", "tcp,udp", "tcp;", ";tcp", ";",
		" tcp", "tcp ", "tc", "zork", "^zork", "tcp;ofi_rxd", "udp;ofi_rxm", "shm;ofi_rxm", "sm2;ofi_rxm", "rxm", "^rxm",
	};
	/* both at once: the intersection */
	static const char *const two_variables[] = { "tcp", "tcp;ofi_rxm", "^tcp", "^ofi_rxm", "^ofi_rxd", "^sockets" };
	static const char *const two_names[] = {
		"tcp", "tcp;ofi_rxm", "ofi_rxm;tcp", "ofi_rxm", "^ofi_rxm", "udp;ofi_rxd", "ofi_rxd", "^udp", "sockets;ofi_rxm",
	};
	size_t i;

	for (i = 0; i < COUNT(variables); i++)
		ask_with_variable(variables[i], no_name, 1);
	for (i = 0; i < COUNT(two_variables); i++)
		ask_with_variable(two_variables[i], two_names, COUNT(two_names));
	/* last, because forked processes would inherit the settings that this process has read */
	unsetenv("FI_PROVIDER");
	for (i = 0; i < COUNT(names); i++) {
		printf("prov_name \"%s\":", names[i]);
		ask(names[i]);
	}
	return 0;
}
