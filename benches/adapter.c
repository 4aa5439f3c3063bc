// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! adapter ADDRESS: makes every call of the data path of two connected endpoints of `verbs` COUNT times, each kind in a
//! separate function `m_...`, for valgrind --tool=callgrind --toggle-collect='m_*'. In one process, over a stand-in for
//! rdma-core with a device at ADDRESS, which moves data when a request is posted.
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#include <rdma/fi_errno.h>

#define COUNT 200
// Bytes of a message that the request carries, and of one that the adapter fetches from memory.
#define SHORT 8
#define LONG 4096
#define MEASURED __attribute__((noinline, noclone, used))

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_pep *pep;
static struct fid_cq *cq_a, *cq_b;
static struct fid_ep *a, *b;
static struct fid_mr *mr;
// One region.
static struct {
	char out[LONG], in[LONG];
} memory;
static void *desc;
static uint64_t key;

static void ok(ssize_t rc, const char *what)
{
	if (rc)
		stop("%s: %s", what, fi_strerror((int) -rc));
}

#define OK(call) ok(call, #call)

// ---- The calls

MEASURED ssize_t m_send(void)
{
	return fi_send(a, memory.out, SHORT, desc, FI_ADDR_UNSPEC, NULL);
}

MEASURED ssize_t m_send_long(void)
{
	return fi_send(a, memory.out, LONG, desc, FI_ADDR_UNSPEC, NULL);
}

MEASURED ssize_t m_inject(void)
{
	return fi_inject(a, memory.out, SHORT, FI_ADDR_UNSPEC);
}

MEASURED ssize_t m_recv(void)
{
	return fi_recv(b, memory.in, LONG, desc, FI_ADDR_UNSPEC, NULL);
}

MEASURED ssize_t m_write(void)
{
	return fi_write(a, memory.out, SHORT, desc, FI_ADDR_UNSPEC, (uintptr_t) memory.in, key, NULL);
}

MEASURED ssize_t m_write_long(void)
{
	return fi_write(a, memory.out, LONG, desc, FI_ADDR_UNSPEC, (uintptr_t) memory.in, key, NULL);
}

MEASURED ssize_t m_read(void)
{
	return fi_read(a, memory.out, LONG, desc, FI_ADDR_UNSPEC, (uintptr_t) memory.in, key, NULL);
}

// The adapter has completed an operation.
MEASURED ssize_t m_cq_read_hit(struct fi_cq_tagged_entry *entry)
{
	return fi_cq_read(cq_a, entry, 1);
}

// The adapter has completed a receive.
MEASURED ssize_t m_cq_read_message(struct fi_cq_tagged_entry *entry)
{
	return fi_cq_read(cq_b, entry, 1);
}

MEASURED ssize_t m_cq_read_miss(struct fi_cq_tagged_entry *entry)
{
	return fi_cq_read(cq_a, entry, 1);
}

// ---- What is counted

typedef ssize_t look_fn(struct fi_cq_tagged_entry *entry);

static void expect(look_fn *look, uint64_t flags)
{
	struct fi_cq_tagged_entry entry;
	ssize_t rc = look(&entry);

	// Some libraries find the end of an earlier operation first, of which nothing is reported.
	for (int i = 0; i < 100 && rc == -FI_EAGAIN; i++)
		rc = fi_cq_read(look == m_cq_read_message ? cq_b : cq_a, &entry, 1);
	if (rc != 1)
		stop("fi_cq_read gave %zd", rc);
	if ((entry.flags & flags) != flags)
		stop("a completion has the flags %#lx", (unsigned long) entry.flags);
}

// `post` sends `len` bytes.
static void message(ssize_t (*post)(void), bool completes)
{
	OK(m_recv());
	OK(post());
	if (completes)
		expect(m_cq_read_hit, FI_SEND);
	expect(m_cq_read_message, FI_RECV);
}

static void access_memory(ssize_t (*post)(void), uint64_t flags)
{
	OK(post());
	expect(m_cq_read_hit, flags);
}

static void missed(void)
{
	struct fi_cq_tagged_entry entry;

	if (m_cq_read_miss(&entry) != -FI_EAGAIN)
		stop("a look that should find nothing found something");
}

static void all(void)
{
	for (int i = 0; i < COUNT; i++) {
		message(m_send, true);
		message(m_send_long, true);
		message(m_inject, false);
		access_memory(m_write, FI_WRITE);
		access_memory(m_write_long, FI_WRITE);
		access_memory(m_read, FI_READ);
		missed();
	}
}

// ---- Set-up

static struct fi_info *ask(const char *address, uint64_t flags)
{
	struct fi_info *hints = fi_allocinfo(), *found = NULL;

	hints->fabric_attr->prov_name = strdup("verbs");
	hints->ep_attr->type = FI_EP_MSG;
	hints->caps = FI_MSG | FI_RMA;
	hints->mode = FI_CONTEXT | FI_RX_CQ_DATA;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	OK(fi_getinfo(FI_VERSION(1, 20), address, "7471", flags, hints, &found));
	fi_freeinfo(hints);
	return found;
}

static uint32_t event(struct fi_eq_cm_entry *entry)
{
	char buf[512];
	uint32_t kind = 0;
	ssize_t rc = fi_eq_sread(eq, &kind, buf, sizeof(buf), 5000, 0);

	if (rc < (ssize_t) sizeof(*entry))
		stop("no event: %s", fi_strerror((int) -rc));
	memcpy(entry, buf, sizeof(*entry));
	return kind;
}

static struct fid_ep *endpoint(struct fi_info *info, struct fid_cq *cq)
{
	struct fid_ep *ep = NULL;

	OK(fi_endpoint(domain, info, &ep, NULL));
	OK(fi_ep_bind(ep, &eq->fid, 0));
	OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(ep));
	return ep;
}

static void meet(const char *address)
{
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED, .size = 1024, .wait_obj = FI_WAIT_NONE };
	struct fi_info *passive = ask(address, FI_SOURCE), *info;
	struct fi_eq_cm_entry entry;

	OK(fi_fabric(passive->fabric_attr, &fabric, NULL));
	OK(fi_eq_open(fabric, &eq_attr, &eq, NULL));
	OK(fi_passive_ep(fabric, passive, &pep, NULL));
	OK(fi_pep_bind(pep, &eq->fid, 0));
	OK(fi_listen(pep));
	info = ask(address, 0);
	OK(fi_domain(fabric, info, &domain, NULL));
	OK(fi_cq_open(domain, &cq_attr, &cq_a, NULL));
	OK(fi_cq_open(domain, &cq_attr, &cq_b, NULL));
	OK(fi_mr_reg(domain, &memory, sizeof(memory),
		     FI_SEND | FI_RECV | FI_WRITE | FI_READ | FI_REMOTE_WRITE | FI_REMOTE_READ, 0, 0, 0, &mr, NULL));
	desc = fi_mr_desc(mr);
	key = fi_mr_key(mr);
	a = endpoint(info, cq_a);
	OK(fi_connect(a, info->dest_addr, NULL, 0));
	if (event(&entry) != FI_CONNREQ)
		stop("no request for a connection");
	b = endpoint(entry.info, cq_b);
	OK(fi_accept(b, NULL, 0));
	for (int i = 0; i < 2; i++) {
		struct fi_eq_cm_entry connected;

		if (event(&connected) != FI_CONNECTED)
			stop("no connection");
	}
	fi_freeinfo(entry.info);
	fi_freeinfo(passive);
	fi_freeinfo(info);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		stop("usage: adapter ADDRESS");
	meet(argv[1]);
	// Programs have receives posted, so that a poll has to ask the adapter.
	OK(fi_recv(a, memory.in, LONG, desc, FI_ADDR_UNSPEC, NULL));
	all();
	struct fid *opened[] = { &a->fid, &b->fid, &mr->fid, &cq_a->fid, &cq_b->fid,
				 &pep->fid, &eq->fid, &domain->fid, &fabric->fid };
	for (size_t i = 0; i < sizeof(opened) / sizeof(*opened); i++)
		OK(fi_close(opened[i]));
	return 0;
}
