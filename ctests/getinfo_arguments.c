// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* What fi_getinfo, fi_dupinfo, fi_freeinfo, fi_fabric and fi_fabric2 answer to arguments that no correct program passes,
 * and to many threads at once: fi_getinfo(3), fi_fabric(3). What hints filter is getinfo.c's business.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define V FI_VERSION(2, 6)

static int failures;

#define CHECK(condition) do { \
	if (!(condition)) { \
		printf("line %d: %s\n", __LINE__, #condition); \
		__sync_fetch_and_add(&failures, 1); \
	} \
} while (0)

static struct fi_info *tcp_hints(void)
{
	struct fi_info *hints = fi_allocinfo();

	if (!hints)
		exit(2);
	hints->fabric_attr->prov_name = strdup("tcp");
	return hints;
}

/* A string far longer than any name. */
static char *long_string(size_t length)
{
	char *string = malloc(length + 1);

	if (!string)
		exit(2);
	memset(string, 'x', length);
	string[length] = 0;
	return string;
}

static void test_getinfo(void)
{
	struct fi_info *hints = tcp_hints(), *list;
	char *name = long_string(1 << 20);

	CHECK(fi_getinfo(V, NULL, NULL, 0, hints, NULL) == -FI_EINVAL);
	CHECK(fi_getinfo(V, NULL, NULL, 0, NULL, NULL) == -FI_EINVAL);
	CHECK(fi_getinfo(FI_VERSION(99, 0), NULL, NULL, 0, NULL, NULL) < 0);

	/* a failed call leaves no list behind */
	list = (void *) 1;
	CHECK(fi_getinfo(FI_VERSION(99, 0), NULL, NULL, 0, hints, &list) == -FI_ENOSYS);
	CHECK(!list);
	list = (void *) 1;
	CHECK(fi_getinfo(V, NULL, NULL, FI_SOURCE, hints, &list) == -FI_ENODATA);
	CHECK(!list);
	list = (void *) 1;
	CHECK(fi_getinfo(V, name, NULL, 0, hints, &list) == -FI_ENODATA);
	CHECK(!list);
	list = (void *) 1;
	CHECK(fi_getinfo(V, "127.0.0.1", name, 0, hints, &list) == -FI_ENODATA);
	CHECK(!list);

	free(hints->fabric_attr->prov_name);
	hints->fabric_attr->prov_name = name;
	list = (void *) 1;
	CHECK(fi_getinfo(V, NULL, NULL, 0, hints, &list) == -FI_ENODATA);
	CHECK(!list);
	hints->fabric_attr->prov_name = strdup("tcp");
	hints->domain_attr->name = name;
	CHECK(fi_getinfo(V, NULL, NULL, 0, hints, &list) == -FI_ENODATA);
	hints->domain_attr->name = NULL;
	hints->fabric_attr->name = name;
	CHECK(fi_getinfo(V, NULL, NULL, 0, hints, &list) == -FI_ENODATA);
	fi_freeinfo(hints);	/* and the name with it */

	/* everything garbage at once */
	hints = tcp_hints();
	hints->caps = hints->mode = ~0ULL;
	hints->addr_format = UINT32_MAX;
	memset(hints->tx_attr, 0xff, sizeof(*hints->tx_attr));
	memset(hints->rx_attr, 0xff, sizeof(*hints->rx_attr));
	memset(hints->ep_attr, 0xff, offsetof(struct fi_ep_attr, auth_key));
	hints->domain_attr->threading = (enum fi_threading) -1;
	hints->domain_attr->progress = (enum fi_progress) -1;
	hints->domain_attr->resource_mgmt = (enum fi_resource_mgmt) -1;
	hints->domain_attr->av_type = (enum fi_av_type) -1;
	hints->domain_attr->mr_mode = -1;
	CHECK(fi_getinfo(V, NULL, NULL, ~0ULL, hints, &list) == -FI_ENODATA);
	CHECK(!list);
	fi_freeinfo(hints);
}

static void test_dupinfo(void)
{
	struct fi_info *empty = fi_dupinfo(NULL), *copy, *hints = tcp_hints();
	struct fi_info bare;

	CHECK(empty && empty->tx_attr && empty->rx_attr && empty->ep_attr && empty->domain_attr && empty->fabric_attr);
	fi_freeinfo(empty);
	fi_freeinfo(NULL);

	memset(&bare, 0, sizeof(bare));
	copy = fi_dupinfo(&bare);
	CHECK(copy && !copy->tx_attr && !copy->domain_attr && !copy->fabric_attr);
	fi_freeinfo(copy);

	/* a copy is of one entry, and owns all it points to */
	hints->next = hints;
	hints->src_addr = calloc(1, 16);
	hints->src_addrlen = 16;
	hints->handle = (fid_t) &bare;
	hints->ep_attr->auth_key = calloc(1, 4);
	hints->ep_attr->auth_key_size = 4;
	hints->domain_attr->name = long_string(100000);
	copy = fi_dupinfo(hints);
	CHECK(copy && !copy->next && copy->handle == hints->handle);
	CHECK(copy && copy->src_addr && copy->src_addr != hints->src_addr && copy->src_addrlen == 16);
	CHECK(copy && copy->ep_attr->auth_key && copy->ep_attr->auth_key != hints->ep_attr->auth_key);
	CHECK(copy && copy->domain_attr->name != hints->domain_attr->name);
	CHECK(copy && strlen(copy->domain_attr->name) == 100000);
	fi_freeinfo(copy);

	/* the size of a key that is in the address vector is no length */
	free(hints->ep_attr->auth_key);
	hints->ep_attr->auth_key = NULL;
	hints->ep_attr->auth_key_size = FI_AV_AUTH_KEY;
	copy = fi_dupinfo(hints);
	CHECK(copy && !copy->ep_attr->auth_key && copy->ep_attr->auth_key_size == FI_AV_AUTH_KEY);
	fi_freeinfo(copy);
	hints->next = NULL;
	fi_freeinfo(hints);
}

static void test_fabric(void)
{
	struct fi_fabric_attr attr;
	struct fid_fabric *fabric = (void *) 1;
	struct fi_info *info = tcp_hints(), bare;
	char *name = long_string(100000);

	memset(&attr, 0, sizeof(attr));
	CHECK(fi_fabric(NULL, &fabric, NULL) == -FI_EINVAL);
	CHECK(fi_fabric(&attr, NULL, NULL) == -FI_EINVAL);
	CHECK(fi_fabric(&attr, &fabric, NULL) == -FI_EINVAL);
	attr.name = "127.0.0.1/32";
	CHECK(fi_fabric(&attr, &fabric, NULL) == -FI_EINVAL);
	attr.prov_name = "no such provider";
	CHECK(fi_fabric(&attr, &fabric, NULL) == -FI_ENODEV);
	attr.prov_name = "tcp;no such layer";
	CHECK(fi_fabric(&attr, &fabric, NULL) == -FI_ENODEV);
	attr.prov_name = "^tcp";
	CHECK(fi_fabric(&attr, &fabric, NULL) == -FI_ENODEV);
	attr.prov_name = "";
	CHECK(fi_fabric(&attr, &fabric, NULL) == -FI_ENODEV);
	attr.prov_name = name;
	CHECK(fi_fabric(&attr, &fabric, NULL) == -FI_ENODEV);
	attr.prov_name = "tcp";
	attr.prov_version = FI_VERSION(999, 0);
	CHECK(fi_fabric(&attr, &fabric, NULL) == -FI_ENODATA);
	attr.name = NULL;
	attr.prov_version = 0;
	CHECK(fi_fabric(&attr, &fabric, NULL) == -FI_EINVAL);
	CHECK(fabric == (void *) 1);	/* written on success only */

	memset(&bare, 0, sizeof(bare));
	CHECK(fi_fabric2(NULL, &fabric, 0, NULL) == -FI_EINVAL);
	CHECK(fi_fabric2(&bare, &fabric, 0, NULL) == -FI_EINVAL);
	CHECK(fi_fabric2(info, &fabric, 0, NULL) == -FI_EINVAL);	/* no name */
	info->fabric_attr->name = strdup("127.0.0.1/32");
	CHECK(fi_fabric2(info, NULL, 0, NULL) == -FI_EINVAL);
	CHECK(fi_fabric2(info, &fabric, ~0ULL, NULL) == -FI_EINVAL);
	CHECK(fabric == (void *) 1);
	fi_freeinfo(info);
	free(name);
}

static void *ask(void *ignored)
{
	struct fi_info *hints = tcp_hints(), *list, *copy;
	int i;

	for (i = 0; i < 100; i++) {
		list = NULL;
		CHECK(fi_getinfo(V, i % 2 ? "127.0.0.1" : NULL, i % 2 ? "7471" : NULL, 0, hints, &list) == 0);
		copy = fi_dupinfo(list);
		CHECK(copy && !strcmp(copy->domain_attr->name, list->domain_attr->name));
		fi_freeinfo(copy);
		fi_freeinfo(list);
	}
	fi_freeinfo(hints);
	return ignored;
}

static void test_threads(void)
{
	pthread_t threads[8];
	size_t i;

	for (i = 0; i < 8; i++) {
		if (pthread_create(&threads[i], NULL, ask, NULL))
			exit(2);
	}
	for (i = 0; i < 8; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	test_threads();
	test_getinfo();
	test_dupinfo();
	test_fabric();
	printf("%d failures\n", failures);
	return failures != 0;
}
