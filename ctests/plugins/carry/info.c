// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The entries of the provider, and whether they satisfy hints. fi_getinfo(3), fi_endpoint(3), fi_domain(3)

#include "carry.h"

#include <arpa/inet.h>
#include <netdb.h>

#define MR_BASIC 1    // FI_MR_BASIC and FI_MR_SCALABLE of API 1.4, whose names cause warnings
#define MR_SCALABLE 2
#define LOCAL_MR (1ull << 55) // FI_LOCAL_MR

#define ORDER_RMA (FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW)
#define ORDER_FREE (FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAW | FI_ORDER_WAS | FI_ORDER_SAW | FI_ORDER_SAS)
#define ORDER_ASKED (FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RMA_WAR)

// The attributes of one endpoint type.
struct offer {
	enum fi_ep_type type;
	uint64_t caps, asked_caps; // offered by default; offered only on request
	uint64_t tx_flags, rx_flags, order, order_asked;
	size_t size, max_msg_size, inject_size, iov_limit, rma_iov_limit;
	int mr_mode;
	uint64_t mode;
};

#define DIRECTIONS (FI_SEND | FI_RECV)
#define ACCESSES (FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

static struct offer offer_of(enum fi_ep_type type)
{
	struct offer offer = {
		.type = type,
		.caps = FI_MSG | DIRECTIONS,
		.tx_flags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE,
		.rx_flags = FI_COMPLETION,
		.size = carry_demands & DEMAND_SMALL ? CARRY_SMALL : CARRY_MAX_SIZE,
		.inject_size = carry_demands & DEMAND_INJECT0 ? 0 : CARRY_INJECT,
		.iov_limit = carry_demands & DEMAND_IOV1 ? 1 : CARRY_IOV,
		.max_msg_size = CARRY_MAX_DGRAM,
		.mr_mode = carry_demands & DEMAND_LOCAL ? FI_MR_LOCAL : 0,
		.mode = carry_demands & DEMAND_CONTEXT ? FI_CONTEXT : 0,
	};

	if (carry_demands & DEMAND_ENDPOINT)
		offer.mr_mode |= FI_MR_ENDPOINT;
	if (type != FI_EP_MSG)
		return offer;
	offer.caps |= FI_RMA | ACCESSES;
	offer.asked_caps = FI_RMA_EVENT;
	offer.tx_flags |= FI_DELIVERY_COMPLETE;
	offer.order = ORDER_FREE | ORDER_RMA;
	offer.order_asked = ORDER_ASKED;
	offer.max_msg_size = carry_demands & DEMAND_SMALL ? CARRY_SMALL_MSG : CARRY_MAX_MSG;
	offer.rma_iov_limit = offer.iov_limit;
	offer.mode |= carry_demands & DEMAND_RX_CQ_DATA ? FI_RX_CQ_DATA : 0;
	offer.mr_mode |= (carry_demands & DEMAND_PROV_KEY ? FI_MR_PROV_KEY : 0) |
			 (carry_demands & DEMAND_VIRT_ADDR ? FI_MR_VIRT_ADDR : 0) |
			 (carry_demands & DEMAND_ALLOCATED ? FI_MR_ALLOCATED : 0);
	return offer;
}

// ---- Addresses: IPv4, and only those of the loopback interface

bool carry_is_ours(const struct sockaddr_in *addr)
{
	return addr->sin_family == AF_INET && (ntohl(addr->sin_addr.s_addr) >> 24 == 127 || !addr->sin_addr.s_addr);
}

int carry_resolve(const char *node, const char *service, uint64_t flags, struct sockaddr_in *addr)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *list = NULL;
	int rc = -FI_ENODATA;

	hints.ai_flags = flags & FI_NUMERICHOST ? AI_NUMERICHOST : 0;
	if (getaddrinfo(node ? node : "127.0.0.1", service, &hints, &list))
		return -FI_ENODATA;
	for (struct addrinfo *at = list; at && rc; at = at->ai_next) {
		memcpy(addr, at->ai_addr, sizeof(*addr));
		rc = carry_is_ours(addr) ? 0 : -FI_ENODATA;
	}
	freeaddrinfo(list);
	return rc;
}

static int hinted(const void *from, size_t len, struct sockaddr_in *addr)
{
	if (len < sizeof(*addr))
		return -FI_ENODATA;
	memcpy(addr, from, sizeof(*addr));
	return carry_is_ours(addr) ? 0 : -FI_ENODATA;
}

static int addresses(const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		     struct sockaddr_in *src, struct sockaddr_in *dest)
{
	bool source = flags & FI_SOURCE;
	int rc = 0;

	*dest = (struct sockaddr_in){0};
	*src = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (hints && hints->src_addr && !(source && (node || service)))
		rc = hinted(hints->src_addr, hints->src_addrlen, src);
	if (!rc && hints && hints->dest_addr && (source || !(node || service)))
		rc = hinted(hints->dest_addr, hints->dest_addrlen, dest);
	if (!rc && (node || service))
		rc = carry_resolve(node, service, flags, source ? src : dest);
	// The wildcard means the only interface.
	if (!src->sin_addr.s_addr)
		src->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return rc;
}

// ---- Hints

// Imitates devices whose writes carry 32 bits of remote data.
static size_t data_size(void)
{
	return carry_demands & DEMAND_DATA4 ? 4 : 8;
}

#define WITHIN(HINT, LIMIT) (!(HINT) || (HINT) <= (LIMIT))
#define SUBSET(HINT, OF) (!((HINT) & ~(uint64_t) (OF)))

static uint64_t all_caps(const struct offer *offer)
{
	return offer->caps | offer->asked_caps | FI_LOCAL_COMM;
}

static bool has_count(size_t count)
{
	return count <= 1 || count == FI_SHARED_CONTEXT;
}

static bool ep_fits(const struct fi_ep_attr *ep, const struct offer *offer, uint32_t version)
{
	return (!ep->type || ep->type == offer->type) && !ep->protocol &&
	       (FI_VERSION_LT(version, FI_VERSION(1, 5)) || !ep->auth_key_size) && ep->tx_ctx_cnt <= 1 &&
	       (offer->type == FI_EP_MSG ? has_count(ep->rx_ctx_cnt) : ep->rx_ctx_cnt <= 1) &&
	       WITHIN(ep->max_msg_size, offer->max_msg_size);
}

static bool orders_fit(const struct fi_info *hints, const struct offer *offer)
{
	uint64_t order = hints->tx_attr ? hints->tx_attr->msg_order : 0;
	size_t largest = offer->order ? SIZE_MAX : 0; // messages of any size
	const struct fi_ep_attr *ep = hints->ep_attr;

	return !ep || (WITHIN(ep->max_order_raw_size, largest) && WITHIN(ep->max_order_waw_size, largest) &&
		       WITHIN(ep->max_order_war_size, order & (FI_ORDER_WAR | FI_ORDER_RMA_WAR) ? largest : 0));
}

static bool tx_fits(const struct fi_tx_attr *tx, const struct offer *offer, uint64_t caps)
{
	return SUBSET(tx->caps, caps) && SUBSET(tx->op_flags, offer->tx_flags) &&
	       SUBSET(tx->msg_order, offer->order | offer->order_asked) && !tx->comp_order &&
	       WITHIN(tx->inject_size, offer->inject_size) && WITHIN(tx->size, offer->size) && WITHIN(tx->iov_limit, offer->iov_limit) &&
	       WITHIN(tx->rma_iov_limit, offer->rma_iov_limit);
}

static bool rx_fits(const struct fi_rx_attr *rx, const struct offer *offer, uint64_t caps)
{
	return SUBSET(rx->caps, caps) && SUBSET(rx->op_flags, offer->rx_flags) &&
	       SUBSET(rx->msg_order, offer->order | offer->order_asked) && !rx->comp_order && !rx->total_buffered_recv &&
	       WITHIN(rx->size, offer->size) && WITHIN(rx->iov_limit, offer->iov_limit);
}

static bool domain_fits(const struct fi_domain_attr *domain, const struct offer *offer, uint32_t version)
{
	bool old = FI_VERSION_LT(version, FI_VERSION(1, 5)), v1 = FI_VERSION_LT(version, FI_VERSION(2, 0));

	return (!domain->name || !strcmp(domain->name, "lo")) && domain->threading <= FI_THREAD_ENDPOINT &&
	       (v1 || (domain->threading != 2 && domain->threading != 5)) && domain->progress != FI_PROGRESS_AUTO &&
	       domain->progress <= FI_PROGRESS_CONTROL_UNIFIED && domain->resource_mgmt <= FI_RM_ENABLED &&
	       domain->av_type <= FI_AV_TABLE && domain->mr_key_size <= 8 && domain->cq_data_size <= data_size() &&
	       (old || (!domain->auth_key_size && SUBSET(domain->caps, FI_LOCAL_COMM))) && domain->mr_iov_limit <= CARRY_MR_IOV &&
	       domain->max_ep_tx_ctx <= 1 && domain->max_ep_rx_ctx <= 1 && !domain->max_ep_stx_ctx &&
	       (offer->type == FI_EP_MSG || !domain->max_ep_srx_ctx);
}

// The bits of mr_mode that an entry requires; -1 if the hints do not allow them.
static int mr_mode(const struct fi_info *hints, const struct offer *offer, uint64_t caps, uint32_t version)
{
	int basic = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY, needed = offer->mr_mode;
	int hint = hints && hints->domain_attr ? hints->domain_attr->mr_mode : ~0;

	if (!(caps & FI_RMA))
		needed &= FI_MR_LOCAL | FI_MR_ENDPOINT;
	if (hints && (FI_VERSION_LT(version, FI_VERSION(1, 5)) || (hints->domain_attr && (hint & (MR_BASIC | MR_SCALABLE))))) {
		bool local = needed & FI_MR_LOCAL;

		if ((needed & FI_MR_ENDPOINT) || (local && !(hints->mode & LOCAL_MR)))
			return -1;
		if ((hint & MR_SCALABLE) && !(hint & MR_BASIC))
			return needed & basic ? -1 : MR_SCALABLE;
		return hint & MR_BASIC || needed & basic ? MR_BASIC : MR_SCALABLE;
	}
	return needed & ~hint ? -1 : needed;
}

static bool fits(uint32_t version, const struct fi_info *hints, const struct offer *offer)
{
	uint64_t caps = hints->caps ? hints->caps : all_caps(offer);

	return SUBSET(hints->caps, all_caps(offer)) && SUBSET(offer->mode, hints->mode) &&
	       (hints->addr_format == FI_FORMAT_UNSPEC || hints->addr_format == FI_SOCKADDR_IN || hints->addr_format == FI_SOCKADDR ||
		hints->addr_format == FI_SOCKADDR_IP) &&
	       (!hints->ep_attr || ep_fits(hints->ep_attr, offer, version)) && orders_fit(hints, offer) &&
	       (!hints->tx_attr || tx_fits(hints->tx_attr, offer, caps | FI_LOCAL_COMM)) &&
	       (!hints->rx_attr || rx_fits(hints->rx_attr, offer, caps | FI_LOCAL_COMM)) &&
	       (!hints->domain_attr || domain_fits(hints->domain_attr, offer, version)) &&
	       (!hints->fabric_attr || !hints->fabric_attr->name || !strcmp(hints->fabric_attr->name, "carry"));
}

// ---- Entries

static uint64_t entry_caps(const struct fi_info *hints, const struct offer *offer)
{
	uint64_t caps = hints ? hints->caps & (offer->caps | offer->asked_caps) : 0;

	if (!caps)
		return offer->caps | FI_LOCAL_COMM;
	// A capability without a direction includes all; directions alone are those of messages.
	if (caps & DIRECTIONS && !(caps & (FI_MSG | FI_RMA)))
		caps |= FI_MSG;
	if (caps & FI_MSG && !(caps & DIRECTIONS))
		caps |= DIRECTIONS;
	if (caps & ACCESSES && !(caps & (FI_MSG | FI_RMA)))
		caps |= FI_RMA & offer->caps;
	if (caps & FI_RMA && !(caps & ACCESSES))
		caps |= ACCESSES;
	return caps | FI_LOCAL_COMM;
}

static void fill_contexts(struct fi_info *info, const struct fi_info *hints, const struct offer *offer, uint32_t version)
{
	size_t usual = carry_demands & DEMAND_SMALL ? CARRY_SMALL : CARRY_SIZE;
	uint64_t order = hints && hints->tx_attr ? hints->tx_attr->msg_order : 0;
	struct fi_tx_attr *tx = info->tx_attr;
	struct fi_rx_attr *rx = info->rx_attr;

	if (hints && hints->rx_attr)
		order |= hints->rx_attr->msg_order;
	tx->caps = info->caps & (FI_MSG | FI_RMA | FI_SEND | FI_READ | FI_WRITE);
	rx->caps = info->caps & (FI_MSG | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_RMA_EVENT);
	if (hints && hints->tx_attr && hints->tx_attr->caps)
		tx->caps &= hints->tx_attr->caps | (hints->tx_attr->caps & (FI_MSG | FI_RMA) ? FI_SEND | FI_READ | FI_WRITE : 0);
	if (hints && hints->rx_attr && hints->rx_attr->caps)
		rx->caps &= hints->rx_attr->caps |
			    (hints->rx_attr->caps & (FI_MSG | FI_RMA) ? FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE : 0);
	tx->mode = info->mode;
	rx->mode = info->mode;
	tx->msg_order = rx->msg_order = offer->order | (order & offer->order_asked);
	tx->inject_size = offer->inject_size;
	tx->size = rx->size = usual;
	tx->iov_limit = rx->iov_limit = offer->iov_limit;
	tx->rma_iov_limit = info->caps & FI_RMA ? offer->rma_iov_limit : 0;
	if (hints && hints->tx_attr) {
		tx->op_flags = hints->tx_attr->op_flags;
		tx->size = hints->tx_attr->size ? hints->tx_attr->size : usual;
		tx->iov_limit = hints->tx_attr->iov_limit ? hints->tx_attr->iov_limit : tx->iov_limit;
		tx->rma_iov_limit = hints->tx_attr->rma_iov_limit ? hints->tx_attr->rma_iov_limit : tx->rma_iov_limit;
		tx->tclass = FI_VERSION_GE(version, FI_VERSION(1, 9)) ? hints->tx_attr->tclass : 0;
	}
	if (hints && hints->rx_attr) {
		rx->op_flags = hints->rx_attr->op_flags;
		rx->size = hints->rx_attr->size ? hints->rx_attr->size : usual;
		rx->iov_limit = hints->rx_attr->iov_limit ? hints->rx_attr->iov_limit : rx->iov_limit;
	}
	if (offer->type == FI_EP_MSG) {
		info->ep_attr->max_order_raw_size = info->ep_attr->max_order_waw_size = SIZE_MAX;
		if (tx->msg_order & (FI_ORDER_WAR | FI_ORDER_RMA_WAR))
			info->ep_attr->max_order_war_size = SIZE_MAX;
	}
}

static void fill_domain(struct fi_domain_attr *domain, const struct fi_info *hints, const struct offer *offer, uint32_t version)
{
	const struct fi_domain_attr *hint = hints ? hints->domain_attr : NULL;

	domain->threading = hint && hint->threading ? hint->threading : FI_THREAD_SAFE;
	domain->control_progress = FI_PROGRESS_MANUAL;
	domain->progress = hint && hint->progress ? hint->progress : FI_PROGRESS_MANUAL;
	domain->resource_mgmt = FI_RM_ENABLED;
	domain->av_type = hint && hint->av_type ? hint->av_type : FI_AV_TABLE;
	domain->mr_key_size = 8;
	domain->cq_data_size = data_size();
	domain->cq_cnt = domain->ep_cnt = domain->cntr_cnt = 256;
	domain->tx_ctx_cnt = domain->rx_ctx_cnt = 256;
	domain->max_ep_tx_ctx = domain->max_ep_rx_ctx = 1;
	domain->max_ep_srx_ctx = offer->type == FI_EP_MSG ? 256 : 0;
	domain->mr_iov_limit = CARRY_MR_IOV;
	domain->caps = FI_LOCAL_COMM;
	domain->mr_cnt = 65536;
	domain->max_err_data = 0;
	domain->tclass = hint && FI_VERSION_GE(version, FI_VERSION(1, 9)) ? hint->tclass : 0;
	domain->max_cntr_value = domain->max_err_cntr_value = UINT64_MAX;
}

static void *copy_of(const void *from, size_t len)
{
	void *copy = malloc(len);

	return copy ? memcpy(copy, from, len) : NULL;
}

// ---- The NIC: there is none, but layers must pass on the attributes of an entry

static int nic_close(struct fid *fid)
{
	struct fid_nic *nic = OWNER(fid, struct fid_nic, fid);

	free(nic->device_attr->name);
	free(nic->device_attr);
	free(nic);
	return 0;
}

static struct fid_nic *new_nic(void);

static int nic_control(struct fid *fid, int command, void *arg)
{
	(void)fid;
	if (command != FI_DUP)
		return -FI_ENOSYS;
	*(struct fid_nic **)arg = new_nic();
	return *(struct fid_nic **)arg ? 0 : -FI_ENOMEM;
}

static struct fid_nic *new_nic(void)
{
	static struct fi_ops ops = {.size = sizeof(ops), .close = nic_close, .control = nic_control};
	struct fid_nic *nic = calloc(1, sizeof(*nic));

	if (nic && (nic->device_attr = calloc(1, sizeof(*nic->device_attr)))) {
		nic->fid.fclass = FI_CLASS_NIC;
		nic->fid.ops = &ops;
		nic->device_attr->name = strdup("carry0");
		return nic;
	}
	free(nic);
	return NULL;
}

static struct fi_info *entry(uint32_t version, const struct fi_info *hints, const struct offer *offer,
			     const struct sockaddr_in *src, const struct sockaddr_in *dest)
{
	struct fi_info *info = fi_allocinfo();
	uint64_t caps = entry_caps(hints, offer);

	if (!info)
		return NULL;
	info->caps = caps;
	info->nic = new_nic();
	info->mode = offer->mode;
	info->addr_format = FI_SOCKADDR_IN;
	info->handle = hints ? hints->handle : NULL; // a passive endpoint that is to become active
	info->ep_attr->type = offer->type;
	info->ep_attr->protocol = FI_PROTO_UNSPEC;
	info->ep_attr->protocol_version = 1;
	info->ep_attr->max_msg_size = offer->max_msg_size;
	info->ep_attr->tx_ctx_cnt = 1;
	info->ep_attr->rx_ctx_cnt = hints && hints->ep_attr && hints->ep_attr->rx_ctx_cnt ? hints->ep_attr->rx_ctx_cnt : 1;
	fill_contexts(info, hints, offer, version);
	fill_domain(info->domain_attr, hints, offer, version);
	info->domain_attr->mr_mode = mr_mode(hints, offer, caps, version);
	if (info->domain_attr->mr_mode & (MR_BASIC | MR_SCALABLE) && offer->mr_mode & FI_MR_LOCAL)
		info->mode |= LOCAL_MR;
	info->domain_attr->name = strdup("lo");
	info->fabric_attr->name = strdup("carry");
	info->fabric_attr->fabric = carry_find_fabric();
	info->domain_attr->domain = carry_find_domain();
	info->src_addr = copy_of(src, sizeof(*src));
	info->src_addrlen = sizeof(*src);
	if (dest->sin_family) {
		info->dest_addr = copy_of(dest, sizeof(*dest));
		info->dest_addrlen = sizeof(*dest);
	}
	if (info->domain_attr->name && info->fabric_attr->name && info->src_addr && (info->dest_addr || !dest->sin_family))
		return info;
	fi_freeinfo(info);
	return NULL;
}

int carry_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		  struct fi_info **out)
{
	static const enum fi_ep_type types[] = {FI_EP_MSG, FI_EP_DGRAM};
	struct sockaddr_in src, dest;
	struct fi_info **end = out;
	int rc;

	*out = NULL;
	rc = addresses(node, service, flags, hints, &src, &dest);
	if (rc)
		return rc;
	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct offer offer = offer_of(types[i]);

		if ((hints && !fits(version, hints, &offer)) || mr_mode(hints, &offer, entry_caps(hints, &offer), version) < 0)
			continue;
		*end = entry(version, hints, &offer, &src, &dest);
		if (!*end) {
			fi_freeinfo(*out);
			*out = NULL;
			return -FI_ENOMEM;
		}
		end = &(*end)->next;
	}
	return *out ? 0 : -FI_ENODATA;
}

// Checks an info with which the application opens something: it must not require more than is offered.
int carry_check_info(const struct fi_info *info)
{
	struct offer offer;

	if (!info || !info->ep_attr || !info->domain_attr || !info->tx_attr || !info->rx_attr || !info->fabric_attr)
		return -FI_EINVAL;
	if (info->ep_attr->type != FI_EP_MSG && info->ep_attr->type != FI_EP_DGRAM)
		return -FI_EINVAL;
	if (info->ep_attr->auth_key_size || info->domain_attr->auth_key_size)
		return -FI_EINVAL;
	offer = offer_of(info->ep_attr->type);
	if (!SUBSET(info->caps, all_caps(&offer)) || !ep_fits(info->ep_attr, &offer, FI_VERSION(1, 0)) ||
	    !tx_fits(info->tx_attr, &offer, all_caps(&offer)) || !rx_fits(info->rx_attr, &offer, all_caps(&offer)) ||
	    !domain_fits(info->domain_attr, &offer, FI_VERSION(1, 0)))
		return -FI_EINVAL;
	return 0;
}
