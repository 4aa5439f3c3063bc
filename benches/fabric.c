// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The objects that all works use: one domain, one queue for all endpoints, registered buffers.
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <rdma/fi_errno.h>

void fabric_fail(const char *what, ssize_t rc)
{
	stop("%s: %s", what, fi_strerror((int) -rc));
}

#define OK(call)                                                                                                       \
	do {                                                                                                           \
		ssize_t ok_rc = (call);                                                                                \
                                                                                                                       \
		if (ok_rc)                                                                                             \
			fabric_fail(#call, ok_rc);                                                                     \
	} while (0)

// Size of an address on the control connection.
#define NAME 64

const char *node_of(const char *provider)
{
	// Only the first name counts; the rest is layered over it.
	const char *const over_ip[] = { "tcp", "sockets", "udp" };
	size_t len = strcspn(provider, ";");

	for (size_t i = 0; i < sizeof(over_ip) / sizeof(*over_ip); i++) {
		if (strlen(over_ip[i]) == len && !strncmp(provider, over_ip[i], len))
			return "127.0.0.1";
	}
	return NULL;
}

static struct fi_info *choose(struct side *side)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	int rc;

	if (!hints)
		stop("no memory");
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA;
	hints->ep_attr->type = FI_EP_RDM;
	// With string addresses each endpoint gets an address of its own.
	hints->addr_format = side->node ? FI_SOCKADDR_IN : FI_ADDR_STR;
	hints->fabric_attr->prov_name = strdup(side->provider);
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = side->shared || side->safe ? FI_THREAD_SAFE : FI_THREAD_DOMAIN;
	hints->domain_attr->data_progress = side->shared ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
	hints->domain_attr->control_progress = hints->domain_attr->data_progress;
	hints->tx_attr->msg_order = FI_ORDER_SAS;
	hints->rx_attr->msg_order = FI_ORDER_SAS;
	if (side->datagrams) {
		hints->caps = FI_MSG;
		hints->ep_attr->type = FI_EP_DGRAM;
		hints->tx_attr->msg_order = hints->rx_attr->msg_order = 0;
	}
	if (side->atomics)
		hints->caps |= FI_ATOMIC;
#ifdef FI_WR
	// Requested only if the library offers work requests. Every library of recent years supports version 1.20.
	if (side->prepares) {
		hints->caps |= FI_WR;
		if (!fi_getinfo(FI_VERSION(1, 20), side->node, NULL, side->node ? FI_SOURCE : 0, hints, &info)) {
			fi_freeinfo(hints);
			return info;
		}
		hints->caps &= ~FI_WR;
	}
#endif
	rc = fi_getinfo(FI_VERSION(1, 20), side->node, NULL, side->node ? FI_SOURCE : 0, hints, &info);
	if (rc == -FI_ENODATA && side->atomics && side->node) {
		free(hints->fabric_attr->prov_name);
		hints->fabric_attr->prov_name = strdup("tcp;ofi_rxm");
		rc = fi_getinfo(FI_VERSION(1, 20), side->node, NULL, side->node ? FI_SOURCE : 0, hints, &info);
	}
	if (rc)
		fabric_fail("fi_getinfo", rc);
	fi_freeinfo(hints);
	return info;
}

static char *memory(size_t size)
{
	char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (at == MAP_FAILED)
		stop("no memory for %zu bytes", size);
	return at;
}

struct fabric *fabric_open_on(struct fabric *owner, struct side *side, size_t eps, size_t size)
{
	struct fabric *f = calloc(1, sizeof(*f));
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .size = 16384 };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };

	f->side = side;
	cq_attr.wait_obj = side->waits ? FI_WAIT_UNSPEC : FI_WAIT_NONE;
	f->size = size < 4096 ? 4096 : size;
	f->out = memory(f->size);
	f->in = memory(f->size);
	memset(f->out, 'o', f->size);
	f->owner = owner;
	if (owner) {
		f->info = owner->info;
		f->fabric = owner->fabric;
		f->domain = owner->domain;
	} else {
		f->info = choose(side);
		OK(fi_fabric(f->info->fabric_attr, &f->fabric, NULL));
		OK(fi_domain(f->fabric, f->info, &f->domain, NULL));
	}
	OK(fi_cq_open(f->domain, &cq_attr, &f->cq, NULL));
	OK(fi_av_open(f->domain, &av_attr, &f->av, NULL));
	if (!side->datagrams && !owner) {
		OK(fi_mr_reg(f->domain, f->in, f->size,
			     FI_REMOTE_WRITE | FI_REMOTE_READ | FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0, 1, 0, &f->mr,
			     NULL));
		f->desc = fi_mr_desc(f->mr);
	}
	f->eps = calloc(eps, sizeof(*f->eps));
	for (f->ep_count = 0; f->ep_count < eps; f->ep_count++) {
		struct fid_ep **ep = &f->eps[f->ep_count];

		OK(fi_endpoint(f->domain, f->info, ep, NULL));
		OK(fi_ep_bind(*ep, &f->av->fid, 0));
		OK(fi_ep_bind(*ep, &f->cq->fid, FI_TRANSMIT | FI_RECV));
		OK(fi_enable(*ep));
	}
	side->fabric = f;
	return f;
}

struct fabric *fabric_open(struct side *side, size_t eps, size_t size)
{
	return fabric_open_on(NULL, side, eps, size);
}

void fabric_present(struct fabric *f)
{
	uint64_t mine[3] = { f->ep_count, (uintptr_t) f->in, f->mr ? fi_mr_key(f->mr) : 0 };

	if (!(f->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR))
		mine[1] = 0;
	tell(f->side, mine, sizeof(mine));
	for (size_t i = 0; i < f->ep_count; i++) {
		char name[NAME] = { 0 };
		size_t len = sizeof(name);

		OK(fi_getname(&f->eps[i]->fid, name, &len));
		tell(f->side, name, sizeof(name));
	}
}

void fabric_learn(struct fabric *f)
{
	uint64_t theirs[3];

	hear_quietly(f->side, theirs, sizeof(theirs));
	f->peer_count = theirs[0];
	f->remote_addr = theirs[1];
	f->remote_key = theirs[2];
	f->peers = calloc(f->peer_count, sizeof(*f->peers));
	for (size_t i = 0; i < f->peer_count; i++) {
		char name[NAME];

		hear_quietly(f->side, name, sizeof(name));
		if (fi_av_insert(f->av, name, 1, &f->peers[i], 0, NULL) != 1)
			stop("fi_av_insert did not take an address");
	}
}

void fabric_meet(struct fabric *f)
{
	fabric_present(f);
	fabric_learn(f);
}

void fabric_look(struct fabric *f)
{
	struct fi_cq_tagged_entry entries[64];
	ssize_t n = fi_cq_read(f->cq, entries, 64);

	if (n < 0) {
		struct fi_cq_err_entry error = { 0 };

		if (n == -FI_EAGAIN)
			return;
		if (n != -FI_EAVAIL)
			fabric_fail("fi_cq_read", n);
		fi_cq_readerr(f->cq, &error, 0);
		stop("an operation failed: %s", fi_strerror(error.err));
	}
	for (ssize_t i = 0; i < n; i++) {
		if (entries[i].flags & FI_RECV) {
			f->contexts[f->received++ % RECENT] = (uintptr_t) entries[i].op_context;
		} else if (entries[i].flags & FI_REMOTE_CQ_DATA) {
			f->remote++;
		} else {
			f->sent++;
		}
	}
}

void fabric_close(struct fabric *f)
{
	f->side->fabric = NULL;
	for (size_t i = 0; i < f->ep_count; i++)
		fi_close(&f->eps[i]->fid);
	if (f->mr)
		fi_close(&f->mr->fid);
	fi_close(&f->av->fid);
	fi_close(&f->cq->fid);
	if (!f->owner) {
		fi_close(&f->domain->fid);
		fi_close(&f->fabric->fid);
		fi_freeinfo(f->info);
	}
	munmap(f->out, f->size);
	munmap(f->in, f->size);
	free(f->eps);
	free(f->peers);
	free(f);
}
