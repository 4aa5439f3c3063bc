// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* fi_fabric(3), fi_domain(3): an entry of fi_getinfo points to the first opened fabric and domain of its name, as long as
 * they are open. fi_getinfo(3): the handle of hints, a passive endpoint, is that of the result.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define V FI_VERSION(2, 6)

static int failures;

#define CHECK(condition) do { \
	if (!(condition)) { \
		printf("line %d: %s\n", __LINE__, #condition); \
		failures++; \
	} \
} while (0)

/* Do all entries of tcp with this domain name, and no others, point to these? */
static void check_entries(const char *domain_name, struct fid_fabric *fabric, struct fid_domain *domain)
{
	struct fi_info *list, *info;
	int seen = 0;

	CHECK(fi_getinfo(V, NULL, NULL, 0, NULL, &list) == 0);
	for (info = list; info; info = info->next) {
		int is_it = !strcmp(info->fabric_attr->prov_name, "tcp") &&
			    !strcmp(info->domain_attr->name, domain_name);

		/* the domain is known by its name alone; the fabric of another family is another */
		CHECK(info->domain_attr->domain == (is_it ? domain : NULL));
		CHECK(info->fabric_attr->fabric ==
		      (is_it && !strcmp(info->fabric_attr->name, "127.0.0.1/32") ? fabric : NULL));
		seen += is_it;
	}
	CHECK(seen);
	fi_freeinfo(list);
}

int main(void)
{
	struct fi_info *hints = fi_allocinfo(), *info, *other;
	struct fid_fabric *fabric, *second;
	struct fid_domain *domain;
	struct fid_pep *pep;

	if (!hints)
		return 2;
	hints->fabric_attr->prov_name = strdup("tcp");
	hints->domain_attr->name = strdup("lo");
	hints->ep_attr->type = FI_EP_MSG;
	hints->addr_format = FI_SOCKADDR_IN;
	if (fi_getinfo(V, NULL, NULL, 0, hints, &info))
		return 2;
	CHECK(!strcmp(info->fabric_attr->name, "127.0.0.1/32"));

	check_entries("lo", NULL, NULL);
	if (fi_fabric(info->fabric_attr, &fabric, NULL))
		return 2;
	check_entries("lo", fabric, NULL);
	if (fi_domain(fabric, info, &domain, NULL))
		return 2;
	check_entries("lo", fabric, domain);

	/* the first one counts until it is closed */
	if (fi_fabric(info->fabric_attr, &second, NULL))
		return 2;
	check_entries("lo", fabric, domain);
	CHECK(fi_close(&domain->fid) == 0);
	check_entries("lo", fabric, NULL);

	if (fi_passive_ep(fabric, info, &pep, NULL))
		return 2;
	hints->handle = &pep->fid;
	CHECK(fi_getinfo(V, NULL, NULL, 0, hints, &other) == 0);
	CHECK(other && other->handle == &pep->fid);
	fi_freeinfo(other);
	hints->handle = NULL;
	CHECK(fi_close(&pep->fid) == 0);

	CHECK(fi_close(&fabric->fid) == 0);
	check_entries("lo", second, NULL);
	CHECK(fi_close(&second->fid) == 0);
	check_entries("lo", NULL, NULL);

	fi_freeinfo(info);
	fi_freeinfo(hints);
	printf("%d failures\n", failures);
	return failures != 0;
}
