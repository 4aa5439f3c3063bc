// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Layers over the loadable provider "carry" must report the attributes of "carry": fi_getinfo(3), fi_domain(3),
// fi_nic(3). usage: derived LAYERED TYPE SIZE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

static int failed;

#define CHECK(COND, ...)                                                                                               \
	do {                                                                                                           \
		if (!(COND)) {                                                                                         \
			printf(__VA_ARGS__);                                                                           \
			printf(": %s\n", #COND);                                                                       \
			failed = 1;                                                                                    \
		}                                                                                                      \
	} while (0)

static struct fi_info *ask(const char *prov, enum fi_ep_type type, size_t data_size, int *rc)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	hints->fabric_attr->prov_name = strdup(prov);
	hints->ep_attr->type = type;
	hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->cq_data_size = data_size;
	*rc = fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info);
	fi_freeinfo(hints);
	return info;
}

int main(int argc, char **argv)
{
	size_t size = argc > 3 ? strtoul(argv[3], NULL, 0) : 8;
	enum fi_ep_type type = argc > 2 && !strcmp(argv[2], "dgram") ? FI_EP_DGRAM : FI_EP_MSG;
	const char *layered = argc > 1 ? argv[1] : "carry;ofi_rxm";
	int rc;
	struct fi_info *core = ask("carry", type, 0, &rc), *above = ask(layered, FI_EP_RDM, 0, &rc);

	CHECK(core && above, "%s: %s", layered, fi_strerror(-rc));
	if (!core || !above)
		return 1;
	CHECK(core->nic && above->nic && above->nic != core->nic, "nic");
	CHECK(!above->nic || !strcmp(above->nic->device_attr->name, "carry0"), "name of the card");
	if (type == FI_EP_MSG) {
		CHECK(core->domain_attr->cq_data_size == size, "below: %zu", core->domain_attr->cq_data_size);
		CHECK(above->domain_attr->cq_data_size == size, "above: %zu", above->domain_attr->cq_data_size);
		CHECK(above->domain_attr->mr_key_size == core->domain_attr->mr_key_size, "mr_key_size");
		CHECK(above->tx_attr->rma_iov_limit <= core->tx_attr->rma_iov_limit, "rma_iov_limit");
		CHECK(!(above->tx_attr->msg_order & ~core->tx_attr->msg_order), "msg_order");
		CHECK(!ask(layered, FI_EP_RDM, size + 1, &rc) && rc == -FI_ENODATA, "more data: %d", rc);
	}
	struct fi_info *copy = fi_dupinfo(above);
	CHECK(copy && copy->nic && copy->nic != above->nic, "nic of a copy");
	fi_freeinfo(copy);
	fi_freeinfo(core);
	fi_freeinfo(above);
	puts(failed ? "failed" : "done");
	return failed;
}
