// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// A loadable provider that prints each call to it as a line on standard error. It is built several times, with
//   NAME, VERSION, API   the fields of its struct
//   RETURNS_NULL, NULL_NAME, NO_FABRIC, NO_GETINFO, NO_ENTRY   the missing part
//   ASKS                 fi_prov_ini calls fi_getinfo, fi_open and fi_getparams
//   CONSTRUCTS           a constructor of the file calls fi_getinfo
//   SLEEPS               fi_prov_ini never returns
//   REMOVES              fi_prov_ini removes the file that REMOVES names
//   FAILS, EMPTY, CYCLE, NULL_ATTRS, NAMES, COLLECTIVE, LENGTH   the behaviour of its fi_getinfo
// fi_provider(7)

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#ifndef NAME
#define NAME "plug"
#endif
#ifndef VERSION
#define VERSION 1
#endif
#ifndef API
#define API FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)
#endif

static struct fi_provider provider;

static int fabric_close(struct fid *fid)
{
	fprintf(stderr, "%s: closed\n", NAME);
	free(fid);
	return 0;
}

static struct fi_ops fabric_fid_ops = {.size = sizeof(struct fi_ops), .close = fabric_close};
static struct fi_ops_fabric fabric_ops = {.size = sizeof(struct fi_ops_fabric)};

// Some builds of this file do not use all of these.
#define MAYBE __attribute__((unused))

MAYBE static int open_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	fprintf(stderr, "%s: fabric %s of %s\n", NAME, attr->name, attr->prov_name);
	*fabric = calloc(1, sizeof **fabric);
	(*fabric)->fid.fclass = FI_CLASS_FABRIC;
	(*fabric)->fid.context = context;
	(*fabric)->fid.ops = &fabric_fid_ops;
	(*fabric)->ops = &fabric_ops;
	return 0;
}

#if !defined(NO_GETINFO)
static int getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		   struct fi_info **info)
{
	(void) version, (void) hints, (void) info;
	fprintf(stderr, "%s: asked, node %s, service %s, flags %llx\n", NAME, node ? node : "-", service ? service : "-",
		(unsigned long long) flags);
#ifdef FAILS
	return -FI_ENODATA;
#elif defined(EMPTY)
	*info = NULL;
	return 0;
#else
	struct fi_info *entry = fi_dupinfo(NULL);

	entry->ep_attr->type = FI_EP_MSG;
	entry->domain_attr->name = strdup("domain of " NAME);
	entry->fabric_attr->name = strdup("fabric of " NAME);
	// A field that only this provider understands must not change.
	entry->handle = (void *) 0x1234;
#ifdef NAMES
	entry->fabric_attr->prov_name = strdup(NAMES);
#endif
#ifdef LENGTH
	// Absurd lengths, one of each kind.
	entry->src_addr = malloc(8);
	entry->src_addrlen = SIZE_MAX;
	entry->next = fi_dupinfo(NULL);
	entry->next->fabric_attr->name = strdup("fabric of " NAME);
	entry->next->domain_attr->name = strdup("domain of " NAME);
	entry->next->ep_attr->auth_key = malloc(8);
	entry->next->ep_attr->auth_key_size = (size_t) 1 << 50;
#endif
#ifdef NULL_ATTRS
	free(entry->domain_attr->name);
	entry->domain_attr->name = NULL;
#endif
#ifdef COLLECTIVE
	// Collectives are offered by a second entry.
	entry->next = fi_dupinfo(entry);
	entry->next->caps |= FI_COLLECTIVE;
#endif
#ifdef CYCLE
	entry->next = fi_dupinfo(entry);
	entry->next->next = entry;
#endif
	*info = entry;
	return 0;
#endif
}
#endif

static void cleanup(void)
{
	fprintf(stderr, "%s: cleanup\n", NAME);
}

#ifdef CONSTRUCTS
__attribute__((constructor)) static void construct(void)
{
	struct fi_info *info = NULL;

	fprintf(stderr, "%s: constructor, fi_getinfo %d\n", NAME, fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, NULL, &info));
}
#endif

#ifdef NO_ENTRY
#define fi_prov_ini some_function
#endif

FI_EXT_INI
{
	static int calls;
	char *value = NULL;

	fprintf(stderr, "%s: fi_prov_ini, call %d\n", NAME, ++calls);
#ifdef REMOVES
	unlink(REMOVES);
#endif
#ifdef SLEEPS
	for (;;)
		pause();
#endif
#ifdef ASKS
	struct fi_param *params;
	struct fi_info *info = NULL;
	struct fid *log = NULL;
	int count;

	fprintf(stderr, "%s: fi_getinfo %d\n", NAME, fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, NULL, &info));
	fprintf(stderr, "%s: fi_open %d\n", NAME, fi_open(FI_VERSION(2, 6), "zork", NULL, 0, 0, &log, NULL));
	fprintf(stderr, "%s: fi_getparams %d\n", NAME, fi_getparams(&params, &count));
	fi_freeparams(params);
#endif
#ifdef RETURNS_NULL
	return NULL;
#endif
#ifndef NULL_NAME
	provider.name = NAME;
#endif
	provider.version = VERSION;
	provider.fi_version = API;
	provider.cleanup = cleanup;
#ifndef NO_GETINFO
	provider.getinfo = getinfo;
#endif
#ifndef NO_FABRIC
	provider.fabric = open_fabric;
#endif
	fi_param_define(&provider, "knob", FI_PARAM_STRING, "a variable of a plug-in");
	if (!fi_param_get_str(&provider, "knob", &value))
		fprintf(stderr, "%s: knob %s\n", NAME, value);
	FI_INFO(&provider, FI_LOG_CORE, "a line of %s\n", NAME);
	return &provider;
}
