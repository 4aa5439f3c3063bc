// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// A fabric with one domain and two endpoints on the loopback interface, opened as a program of that time does it. Each
// struct that the program passes ends before a page without access.

#ifndef OLD_API_OBJECTS_H
#define OLD_API_OBJECTS_H

#include <netinet/in.h>
#include <poll.h>
#include <time.h>

#include "../check.h"
#include "guard.h"
#include "tables.h"

// The test cannot continue if this fails.
#define NEED(call) need((call), #call, __FILE__, __LINE__)

static inline void need(long long result, const char *what, const char *file, int line)
{
	if (result) {
		equal(result, 0, what, file, line);
		exit(1);
	}
}

// Polls until the condition holds, at most half a minute.
static inline bool in_time(void)
{
	static time_t end;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!end)
		end = now.tv_sec + 30;
	return now.tv_sec < end;
}

static struct fi_info *hints_for(enum fi_ep_type type, int mr_mode)
{
	// fi_allocinfo
	struct fi_info *hints = old_dupinfo(NULL);

	if (!hints)
		exit(1);
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = ~0ULL;
	hints->ep_attr->type = type;
	hints->domain_attr->mr_mode = mr_mode;
	hints->fabric_attr->prov_name = strdup("tcp");
	return hints;
}

// Copies an entry of fi_getinfo into structs of the caller's own headers.
static struct fi_info *old_copy(const struct fi_info *entry)
{
	struct fi_info *copy = GUARDED_COPY((struct fi_info *) entry);

	copy->next = NULL;
	copy->tx_attr = GUARDED_COPY(entry->tx_attr);
	copy->rx_attr = GUARDED_COPY(entry->rx_attr);
	copy->ep_attr = GUARDED_COPY(entry->ep_attr);
	copy->domain_attr = GUARDED_COPY(entry->domain_attr);
	copy->fabric_attr = GUARDED_COPY(entry->fabric_attr);
#if !SINCE(1, 5)
	copy->fabric_attr->api_version = 0xdeadbeef;
#endif
	copy->src_addr = guarded_copy_of("src_addr", entry->src_addr, entry->src_addrlen);
	return copy;
}

struct world {
	struct fi_info *list, *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep[2];
	fi_addr_t addr[2];
};

static void open_fabric(struct world *w, enum fi_ep_type type, int mr_mode)
{
	struct fi_info *hints = hints_for(type, mr_mode);
	struct fi_eq_attr *eq_attr = GUARDED(struct fi_eq_attr);

	// The bits for numeric name and source are the same in 1.0 and 2.0.
	NEED(old_getinfo(API, "127.0.0.1", "0", FI_SOURCE, hints, &w->list));
	old_freeinfo(hints);
	w->info = old_copy(w->list);
	NEED(old_fabric(w->info->fabric_attr, &w->fabric, NULL));
	EQUAL(w->fabric->fid.fclass, FI_CLASS_FABRIC);
#if SINCE(1, 5)
	EQUAL(w->fabric->api_version, API);
#endif
	eq_attr->wait_obj = FI_WAIT_UNSPEC;
	NEED(w->fabric->ops->eq_open(w->fabric, eq_attr, &w->eq, NULL));
}

static void open_cq(struct world *w)
{
	struct fi_cq_attr *attr = GUARDED(struct fi_cq_attr);

	attr->size = 64;
	attr->format = FI_CQ_FORMAT_TAGGED;
	attr->wait_obj = FI_WAIT_FD;
	NEED(w->domain->ops->cq_open(w->domain, attr, &w->cq, NULL));
}

static void open_rdm(struct world *w, int mr_mode)
{
	struct fi_av_attr *attr = GUARDED(struct fi_av_attr);

	open_fabric(w, FI_EP_RDM, mr_mode);
	NEED(w->fabric->ops->domain(w->fabric, w->info, &w->domain, NULL));
	open_cq(w);
	NEED(w->domain->ops->av_open(w->domain, attr, &w->av, NULL));
	CHECK(attr->type == FI_AV_TABLE);
	for (int i = 0; i < 2; i++) {
		size_t *length = GUARDED(size_t);
		struct sockaddr_in *name = GUARDED(struct sockaddr_in);
		fi_addr_t *addr = GUARDED_GARBAGE(fi_addr_t);

		NEED(w->domain->ops->endpoint(w->domain, w->info, &w->ep[i], w));
		CHECK(w->ep[i]->fid.context == w);
		NEED(bind_to(&w->ep[i]->fid, &w->cq->fid, FI_TRANSMIT | FI_RECV));
		NEED(bind_to(&w->ep[i]->fid, &w->av->fid, 0));
		NEED(control(&w->ep[i]->fid, FI_ENABLE, NULL));
		*length = sizeof(*name);
		NEED(w->ep[i]->cm->getname(&w->ep[i]->fid, name, length));
		EQUAL(*length, sizeof(*name));
		EQUAL(w->av->ops->insert(w->av, name, 1, addr, 0, NULL), 1);
		w->addr[i] = *addr;
	}
}

static void close_fid(void *object)
{
	struct fid *fid = object;

	if (fid)
		EQUAL(fid->ops->close(fid), 0);
}

static void close_all(struct world *w)
{
	close_fid(w->ep[0]);
	close_fid(w->ep[1]);
	close_fid(w->cq);
	close_fid(w->av);
	close_fid(w->domain);
	close_fid(w->eq);
	close_fid(w->fabric);
	old_freeinfo(w->list);
}

// Posts; the library may return -FI_EAGAIN until the connection is up.
#define POST(w, call) \
	do { \
		ssize_t posted; \
		while ((posted = (call)) == -FI_EAGAIN && in_time()) \
			(w)->cq->ops->read((w)->cq, NULL, 0); \
		need(posted, #call, __FILE__, __LINE__); \
	} while (0)

// Reads the next completion; returns false for an error entry.
static bool next_entry(struct world *w, struct fi_cq_tagged_entry *entry)
{
	ssize_t ret;

	do {
		ret = w->cq->ops->read(w->cq, entry, 1);
	} while (ret == -FI_EAGAIN && in_time());
	if (ret != 1)
		EQUAL(ret, -FI_EAVAIL);
	return ret == 1;
}

#endif
