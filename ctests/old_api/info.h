// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// fi_getinfo(3), fi_fabric(3), fi_domain(3): hints of a program of that time, and the results.

#ifndef OLD_API_INFO_H
#define OLD_API_INFO_H

#include "objects.h"

static void version(void)
{
	// The newest version, whatever the caller's release is.
	CHECK(old_version() >= FI_VERSION(2, 6));
}

static void getinfo_reads_no_more_than_the_hints_of_its_time(void)
{
	struct fi_info *hints = GUARDED(struct fi_info), *list = NULL;

	hints->caps = FI_MSG;
	hints->mode = ~0ULL;
	hints->tx_attr = GUARDED(struct fi_tx_attr);
	hints->rx_attr = GUARDED(struct fi_rx_attr);
	hints->ep_attr = GUARDED(struct fi_ep_attr);
	hints->domain_attr = GUARDED(struct fi_domain_attr);
	hints->fabric_attr = GUARDED(struct fi_fabric_attr);
#if !SINCE(1, 5)
	hints->fabric_attr->api_version = 0xdeadbeef;
#endif
	hints->fabric_attr->prov_name = "tcp";
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->iov_limit = hints->rx_attr->iov_limit = 2;
	hints->domain_attr->cq_data_size = 8;
	EQUAL(old_getinfo(API, NULL, NULL, 0, hints, &list), 0);
	for (struct fi_info *entry = list; entry; entry = entry->next) {
		// Either tcp or tcp;ofi_rxm.
		CHECK(!strncmp(entry->fabric_attr->prov_name, "tcp", 3));
		EQUAL(entry->ep_attr->type, FI_EP_RDM);
		CHECK(entry->tx_attr->iov_limit >= 2 && entry->rx_attr->iov_limit >= 2);
		EQUAL(entry->domain_attr->cq_data_size, 8);
		EQUAL(entry->fabric_attr->api_version, API);
#if SINCE(1, 5)
		EQUAL(entry->domain_attr->mr_mode, 0);
#else
		EQUAL(entry->domain_attr->mr_mode, FI_MR_BASIC);
#endif
#if SINCE(1, 7)
		CHECK(!entry->nic);
#endif
	}
	old_freeinfo(list);
}

// The last member of each struct of that time is a hint like any other.
static void hints_are_read_to_their_end(void)
{
	struct fi_info *hints = hints_for(FI_EP_RDM, FI_MR_UNSPEC), *list = NULL;

	EQUAL(old_getinfo(API, NULL, NULL, 0, hints, &list), 0);
	old_freeinfo(list);
	list = (void *) 1;
	hints->tx_attr->rma_iov_limit = 1 << 20;
	EQUAL(old_getinfo(API, NULL, NULL, 0, hints, &list), -FI_ENODATA);
	CHECK(!list);
	hints->tx_attr->rma_iov_limit = 0;
	hints->rx_attr->iov_limit = 1 << 20;
	EQUAL(old_getinfo(API, NULL, NULL, 0, hints, &list), -FI_ENODATA);
	hints->rx_attr->iov_limit = 0;
	hints->ep_attr->rx_ctx_cnt = 1 << 20;
	EQUAL(old_getinfo(API, NULL, NULL, 0, hints, &list), -FI_ENODATA);
	hints->ep_attr->rx_ctx_cnt = 0;
#if SINCE(1, 20)
	hints->domain_attr->max_ep_auth_key = 1 << 20;
#elif SINCE(1, 5)
	hints->domain_attr->max_err_data = 1 << 20;
#else
	hints->domain_attr->cq_data_size = 1 << 20;
#endif
	EQUAL(old_getinfo(API, NULL, NULL, 0, hints, &list), -FI_ENODATA);
	old_freeinfo(hints);
}

static int mr_mode_of(int asked)
{
	struct fi_info *hints = hints_for(FI_EP_RDM, asked), *list = NULL;
	int mode = old_getinfo(API, NULL, NULL, 0, hints, &list);

	if (!mode)
		mode = list->domain_attr->mr_mode;
	old_freeinfo(list);
	old_freeinfo(hints);
	return mode;
}

static void mr_mode_is_an_enumeration_first_and_bits_from_1_5_on(void)
{
	EQUAL(mr_mode_of(FI_MR_BASIC), FI_MR_BASIC);
	EQUAL(mr_mode_of(FI_MR_SCALABLE), FI_MR_SCALABLE);
	EQUAL(mr_mode_of(FI_MR_BASIC | FI_MR_SCALABLE), -FI_ENODATA);
#if SINCE(1, 5)
	EQUAL(mr_mode_of(FI_MR_UNSPEC), 0);
	EQUAL(mr_mode_of(FI_MR_BASIC | FI_MR_LOCAL), -FI_ENODATA);
	// Bits that the provider does not need are removed.
	CHECK(mr_mode_of(FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY) >= 0);
#else
	EQUAL(mr_mode_of(FI_MR_UNSPEC), FI_MR_BASIC);
	EQUAL(mr_mode_of(FI_MR_LOCAL), -FI_ENODATA);
	EQUAL(mr_mode_of(FI_MR_VIRT_ADDR), -FI_ENODATA);
#endif
}

static void dupinfo_copies_structs_of_its_time(void)
{
	struct fi_info *hints = hints_for(FI_EP_MSG, FI_MR_UNSPEC), *list = NULL, *mine, *copy;

	NEED(old_getinfo(API, "127.0.0.1", "7", FI_SOURCE, hints, &list));
	mine = old_copy(list);
	copy = old_dupinfo(mine);
	CHECK(copy && copy != mine && !copy->next);
	CHECK(!memcmp(copy->tx_attr, mine->tx_attr, sizeof(*mine->tx_attr)));
	CHECK(!memcmp(copy->rx_attr, mine->rx_attr, sizeof(*mine->rx_attr)));
	CHECK(!memcmp(copy->ep_attr, mine->ep_attr, sizeof(*mine->ep_attr)));
	CHECK(!memcmp(&copy->domain_attr->threading, &mine->domain_attr->threading,
		      sizeof(*mine->domain_attr) - offsetof(struct fi_domain_attr, threading)));
	SAME(copy->domain_attr->name, mine->domain_attr->name);
	SAME(copy->fabric_attr->name, mine->fabric_attr->name);
	CHECK(copy->domain_attr->name != mine->domain_attr->name);
	CHECK(copy->src_addrlen == sizeof(struct sockaddr_in) && copy->src_addr != mine->src_addr);
	CHECK(!memcmp(copy->src_addr, mine->src_addr, mine->src_addrlen));
	// Text of a struct that the library made, in the layout that the caller sees.
	CHECK(strstr(old_tostr(copy, FI_TYPE_INFO), "FI_EP_MSG"));
	old_freeinfo(copy);
	old_freeinfo(list);
	old_freeinfo(hints);
}

static void fabric_and_domain_take_attributes_of_their_time(void)
{
	struct world w = {};
	struct fid_domain *other = NULL;

	open_fabric(&w, FI_EP_RDM, FI_MR_UNSPEC);
	NEED(w.fabric->ops->domain(w.fabric, w.info, &w.domain, &w));
	CHECK(w.domain->fid.context == &w);
	// The domain's name alone is enough, because the other members request nothing.
	w.info->tx_attr = NULL;
	w.info->rx_attr = NULL;
	w.info->ep_attr = NULL;
	EQUAL(w.fabric->ops->domain(w.fabric, w.info, &other, NULL), 0);
	close_fid(other);
	w.info->domain_attr = NULL;
	EQUAL(w.fabric->ops->domain(w.fabric, w.info, &other, NULL), -FI_EINVAL);
	close_all(&w);
}

#endif
