// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Fabric, domains, vectors and endpoints of a world.
#include "model.h"

struct fi_info *ask(const char *provider, const struct mode *mode)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	bool by_name = !strcmp(provider, "shm") || !strcmp(provider, "sm2");

	hints->fabric_attr->prov_name = strdup(provider);
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_SOURCE | FI_DIRECTED_RECV;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	if (mode->source_err)
		hints->caps |= FI_SOURCE_ERR;
	if (mode->ids != NO_IDS)
		hints->domain_attr->caps |= FI_AV_USER_ID;
	if (mode->scalable) {
		hints->caps |= FI_NAMED_RX_CTX;
		hints->ep_attr->tx_ctx_cnt = hints->ep_attr->rx_ctx_cnt = CONTEXTS;
	}
	if (fi_getinfo(FI_VERSION(2, 0), by_name ? NULL : "127.0.0.1", NULL, by_name ? 0 : FI_SOURCE, hints, &info))
		info = NULL;
	fi_freeinfo(hints);
	return info;
}

static void open_vector(struct world *w, struct vector *vector, struct domain *domain)
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .rx_ctx_bits = w->mode.scalable ? BITS : 0 };

	if (w->mode.ids == IDS_LATER)
		attr.flags = FI_AV_USER_ID;
	OK(fi_av_open(domain->domain, &attr, &vector->av, NULL));
	for (unsigned id = 0; id < IDS; id++) {
		vector->at[id] = FI_ADDR_NOTAVAIL;
		vector->count[id] = 0;
	}
}

void open_world(struct world *w)
{
	OK(fi_fabric(w->info->fabric_attr, &w->fabric, NULL));
	for (unsigned i = 0; i < w->mode.domains; i++) {
		struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_TAGGED, .size = 2 * OPERATIONS };

		OK(fi_domain(w->fabric, w->info, &w->domains[i].domain, NULL));
		OK(fi_cq_open(w->domains[i].domain, &attr, &w->domains[i].cq, NULL));
	}
	for (unsigned i = 0; i < NODES; i++) {
		struct node *node = &w->nodes[i];
		bool shares = i == 1 && w->mode.shared_vector;

		node->domain = shares ? w->nodes[0].domain : &w->domains[i % w->mode.domains];
		node->vector = shares ? w->nodes[0].vector : &w->vectors[i];
		if (!shares)
			open_vector(w, node->vector, node->domain);
		open_node(w, node, NOBODY);
	}
}

void close_world(struct world *w)
{
	for (unsigned i = 0; i < NODES; i++)
		if (w->nodes[i].ep)
			close_node(w, &w->nodes[i]);
	for (unsigned i = 0; i < NODES; i++)
		if (w->vectors[i].av)
			OK(fi_close(&w->vectors[i].av->fid));
	for (unsigned i = 0; i < w->mode.domains; i++) {
		OK(fi_close(&w->domains[i].cq->fid));
		OK(fi_close(&w->domains[i].domain->fid));
	}
	OK(fi_close(&w->fabric->fid));
	for (int i = 0; i < w->operation_count; i++)
		free(w->operations[i].buffer);
}

static void open_contexts(struct world *w, struct node *node)
{
	OK(fi_scalable_ep_bind(node->ep, &node->vector->av->fid, 0));
	for (int i = 0; i < CONTEXTS; i++) {
		OK(fi_tx_context(node->ep, i, NULL, &node->tx[i], NULL));
		OK(fi_rx_context(node->ep, i, NULL, &node->rx[i], NULL));
		OK(fi_ep_bind(node->tx[i], &node->domain->cq->fid, FI_TRANSMIT));
		OK(fi_ep_bind(node->rx[i], &node->domain->cq->fid, FI_RECV));
		OK(fi_enable(node->tx[i]));
		OK(fi_enable(node->rx[i]));
	}
}

static void open_region(struct world *w, struct node *node)
{
	uint64_t mode = w->info->domain_attr->mr_mode;

	OK(fi_mr_reg(node->domain->domain, node->memory, sizeof(node->memory), FI_REMOTE_WRITE, 0, 100 + (node - w->nodes), 0,
		     &node->mr, NULL));
	if (mode & FI_MR_ENDPOINT) {
		OK(fi_mr_bind(node->mr, &node->ep->fid, 0));
		OK(fi_mr_enable(node->mr));
	}
	node->base = mode & FI_MR_VIRT_ADDR ? (uintptr_t)node->memory : 0;
	node->key = fi_mr_key(node->mr);
}

// Returns whether the endpoint could be opened; an address that was used before may be taken.
static bool try_open(struct world *w, struct node *node, int id)
{
	struct fi_info *info = fi_dupinfo(w->info);
	int rc;

	if (id != NOBODY) {
		free(info->src_addr);
		info->src_addr = malloc(w->name_len[id]);
		memcpy(info->src_addr, w->names[id], w->name_len[id]);
		info->src_addrlen = w->name_len[id];
	}
	if (w->mode.scalable)
		rc = fi_scalable_ep(node->domain->domain, info, &node->ep, NULL);
	else
		rc = fi_endpoint(node->domain->domain, info, &node->ep, NULL);
	fi_freeinfo(info);
	if (rc && id != NOBODY)
		return false;
	OK(rc);
	return true;
}

void open_node(struct world *w, struct node *node, int id)
{
	char name[NAME];
	size_t len = sizeof(name);

	if (!try_open(w, node, id))
		OK(!try_open(w, node, NOBODY));
	if (w->mode.scalable) {
		open_contexts(w, node);
	} else {
		OK(fi_ep_bind(node->ep, &node->vector->av->fid, 0));
		OK(fi_ep_bind(node->ep, &node->domain->cq->fid, FI_TRANSMIT | FI_RECV));
		for (unsigned i = 0; i < CONTEXTS; i++)
			node->tx[i] = node->rx[i] = node->ep;
	}
	OK(fi_enable(node->ep));
	OK(fi_getname(&node->ep->fid, name, &len));
	for (node->id = 0; node->id < w->ids; node->id++)
		if (w->name_len[node->id] == len && !memcmp(w->names[node->id], name, len))
			break;
	if (node->id < w->ids) {
		w->reborn[node->id] = true;
	} else {
		memcpy(w->names[w->ids], name, len);
		w->name_len[w->ids++] = len;
	}
	open_region(w, node);
	NOTE("node %d opens as %d", (int)(node - w->nodes), node->id);
}

void close_node(struct world *w, struct node *node)
{
	if (w->info->domain_attr->mr_mode & FI_MR_ENDPOINT)
		OK(fi_close(&node->mr->fid));
	for (unsigned i = 0; i < CONTEXTS && w->mode.scalable; i++) {
		OK(fi_close(&node->tx[i]->fid));
		OK(fi_close(&node->rx[i]->fid));
	}
	OK(fi_close(&node->ep->fid));
	if (!(w->info->domain_attr->mr_mode & FI_MR_ENDPOINT))
		OK(fi_close(&node->mr->fid));
	node->ep = NULL;
}

struct node *node_of(struct world *w, int id)
{
	for (unsigned i = 0; i < NODES; i++)
		if (w->nodes[i].ep && w->nodes[i].id == id)
			return &w->nodes[i];
	return NULL;
}
