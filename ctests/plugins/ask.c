// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// ask [-v MAJOR.MINOR] [-f FLAGS] [-p PROV_NAME] [-o FABRIC_PROV_NAME]: prints the entries of fi_getinfo, one line
// each, then those for FI_PROV_ATTR_ONLY, then the result of fi_fabric.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

int main(int argc, char **argv)
{
	struct fi_info *hints = fi_allocinfo(), *list = NULL, *info;
	unsigned major = 2, minor = 6;
	unsigned long long flags = 0;
	const char *opens = NULL;
	int option, ret;

	while ((option = getopt(argc, argv, "v:f:p:o:")) != -1) {
		switch (option) {
		case 'v':
			sscanf(optarg, "%u.%u", &major, &minor);
			break;
		case 'f':
			flags = strtoull(optarg, NULL, 0);
			break;
		case 'p':
			hints->fabric_attr->prov_name = strdup(optarg);
			break;
		case 'o':
			opens = optarg;
			break;
		default:
			return 2;
		}
	}
	ret = fi_getinfo(FI_VERSION(major, minor), NULL, NULL, flags, hints, &list);
	printf("fi_getinfo %d\n", ret);
	for (info = list; info; info = info->next) {
		printf("entry %s %u.%u api %u.%u handle %p\n", info->fabric_attr->prov_name, FI_MAJOR(info->fabric_attr->prov_version),
		       FI_MINOR(info->fabric_attr->prov_version), FI_MAJOR(info->fabric_attr->api_version),
		       FI_MINOR(info->fabric_attr->api_version), (void *) info->handle);
		// Copying and printing the entry reads all of it.
		struct fi_info *copy = fi_dupinfo(info);

		if (!copy || !fi_tostr(copy, FI_TYPE_INFO))
			return 1;
		fi_freeinfo(copy);
	}
	fi_freeinfo(list);
	ret = fi_getinfo(FI_VERSION(major, minor), NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &list);
	for (info = list; info; info = info->next)
		printf("provider %s %u\n", info->fabric_attr->prov_name, info->fabric_attr->prov_version);
	fi_freeinfo(list);
	if (opens) {
		struct fi_fabric_attr attr = {.name = "some", .prov_name = strdup(opens), .api_version = FI_VERSION(major, minor)};
		struct fid_fabric *fabric = NULL;

		ret = fi_fabric(&attr, &fabric, NULL);
		printf("fi_fabric %d", ret);
		if (!ret) {
			printf(" api %u.%u", FI_MAJOR(fabric->api_version), FI_MINOR(fabric->api_version));
			fi_close(&fabric->fid);
		}
		printf("\n");
		free(attr.prov_name);
	}
	fi_freeinfo(hints);
	return 0;
}
