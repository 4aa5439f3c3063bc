// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The loadable provider "carry": FI_EP_MSG over TCP and FI_EP_DGRAM over UDP on the loopback interface. It serves to
// test layers, hooks and the conformance suite with a foreign provider that has the requirements of devices.
//
//   cc -std=gnu17 -Wall -Wextra -O1 -g -fPIC -shared -pthread -fvisibility=hidden
//       -I<include> -o libcarry-fi.so ctests/plugins/carry/*.c -L<lib> -lfabric
//
// CARRY_DEMANDS: a comma-separated list of requirements: local prov_key virt_addr allocated endpoint inject0 iov1
// context rx_cq_data small data4 (completion data has 4 bytes), or all. A word after '-' is removed, as in
// "all,-endpoint".

#include "carry.h"

#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#ifndef CARRY_VERSION
#define CARRY_VERSION FI_VERSION(1, 0)
#endif

unsigned carry_demands;

// All open fabrics and domains, oldest first: fi_getinfo returns the first of them.
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct link open_fabrics = {&open_fabrics, &open_fabrics}, open_domains = {&open_domains, &open_domains};

struct fid_fabric *carry_find_fabric(void)
{
	struct fid_fabric *found = NULL;

	pthread_mutex_lock(&open_lock);
	if (!list_empty(&open_fabrics))
		found = &OWNER(open_fabrics.next, struct carry_fabric, all)->fid;
	pthread_mutex_unlock(&open_lock);
	return found;
}

struct fid_domain *carry_find_domain(void)
{
	struct fid_domain *found = NULL;

	pthread_mutex_lock(&open_lock);
	if (!list_empty(&open_domains))
		found = &OWNER(open_domains.next, struct carry_domain, all)->fid;
	pthread_mutex_unlock(&open_lock);
	return found;
}

void carry_list_domain(struct carry_domain *domain, bool open)
{
	pthread_mutex_lock(&open_lock);
	if (open)
		list_append(&open_domains, &domain->all);
	else
		list_del(&domain->all);
	pthread_mutex_unlock(&open_lock);
}

static int fabric_close(struct fid *fid)
{
	struct carry_fabric *fabric = (struct carry_fabric *) fid;
	bool busy;

	carry_lock(fabric);
	busy = fabric->users > 0;
	if (!busy)
		carry_lingered(fabric);
	carry_unlock(fabric);
	if (busy)
		return -FI_EBUSY;
	pthread_mutex_lock(&open_lock);
	list_del(&fabric->all);
	pthread_mutex_unlock(&open_lock);
	close(fabric->epfd);
	pthread_mutex_destroy(&fabric->lock);
	free(fabric);
	return 0;
}

static struct fi_ops fabric_fid_ops = CARRY_FI_OPS(fabric_close, carry_no_bind, carry_no_control);
static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = carry_domain_open,
	.passive_ep = carry_passive_ep,
	.eq_open = carry_eq_open,
	.trywait = carry_trywait,
};
CARRY_FILL(fabric_ops, carry_no_fabric)

static int open_fabric(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
	struct carry_fabric *fabric;

	if (!attr || !out)
		return -FI_EINVAL;
	if (attr->name && strcmp(attr->name, "carry"))
		return -FI_ENODATA;
	fabric = calloc(1, sizeof(*fabric));
	if (!fabric)
		return -FI_ENOMEM;
	fabric->epfd = epoll_create1(EPOLL_CLOEXEC);
	if (fabric->epfd < 0) {
		free(fabric);
		return -FI_EMFILE;
	}
	fabric->fid.fid = (struct fid){.fclass = FI_CLASS_FABRIC, .context = context, .ops = &fabric_fid_ops};
	fabric->fid.ops = &fabric_ops;
	fabric->fid.api_version = attr->api_version;
	pthread_mutex_init(&fabric->lock, NULL);
	list_init(&fabric->peps);
	list_init(&fabric->requests);
	list_init(&fabric->lingering);
	pthread_mutex_lock(&open_lock);
	list_append(&open_fabrics, &fabric->all);
	pthread_mutex_unlock(&open_lock);
	*out = &fabric->fid;
	return 0;
}

static void read_demands(void)
{
	static const char *const names[] = {"local",   "prov_key", "virt_addr", "allocated",  "endpoint",
					    "inject0", "iov1",     "context",   "rx_cq_data", "small",
					    "data4"};
	enum { COUNT = sizeof(names) / sizeof(names[0]) };
	const char *value = getenv("CARRY_DEMANDS");
	char *copy = value ? strdup(value) : NULL, *rest = NULL;

	for (char *word = copy ? strtok_r(copy, ", ", &rest) : NULL; word; word = strtok_r(NULL, ", ", &rest)) {
		bool less = *word == '-';
		unsigned known;

		word += less;
		known = !strcmp(word, "all") ? (1u << COUNT) - 1 : 0;
		for (unsigned i = 0; i < COUNT; i++)
			if (!strcmp(word, names[i]))
				known = 1u << i;
		if (!known && strcmp(word, "none"))
			FI_WARN(&carry_provider, FI_LOG_CORE, "CARRY_DEMANDS: \"%s\" is unknown\n", word);
		carry_demands = less ? carry_demands & ~known : carry_demands | known;
	}
	free(copy);
}

static void cleanup(void)
{
}

struct fi_provider carry_provider = {
	.version = CARRY_VERSION,
	.fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
	.name = "carry",
	.getinfo = carry_getinfo,
	.fabric = open_fabric,
	.cleanup = cleanup,
};

FI_EXT_INI
{
	carry_demands = 0;
	read_demands();
	return &carry_provider;
}
