// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connects two endpoints, exchanges messages, and closes everything, while `faults.c` spoils one thing. Prints the
//! first error that it is told of, or "no error". It fails if an error is no error number, if a call or a wait does not
//! end, or if an object cannot be closed.
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "must.h"

enum { LIMIT_S = 3, LEN = 8192, COUNT = 8 };

static struct fi_info *passive, *active, *request;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_pep *pep;
static struct fid_cq *cq;
static struct fid_ep *a, *b, *srx;
static struct fid_mr *mr;
static char buf[LEN];
static bool told, shares;

static void tell(const char *call, long code)
{
	if (code >= 0 || code < -4096)
		FAIL("%s gave %ld", call, code);
	printf("%s: %s\n", call, fi_strerror((int)-code));
	told = true;
}

// Goes on only without an error.
#define TRY(call) \
	do { \
		long rc_ = (call); \
		if (rc_) { \
			tell(#call, rc_); \
			return; \
		} \
	} while (0)

static double now(void)
{
	struct timespec at;

	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec + at.tv_nsec * 1e-9;
}

static struct fi_info *ask(uint64_t flags)
{
	struct fi_info *h = fi_allocinfo(), *found = NULL;
	int rc;

	h->fabric_attr->prov_name = strdup("verbs");
	h->ep_attr->type = FI_EP_MSG;
	h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	rc = fi_getinfo(FI_VERSION(2, 6), "10.91.0.1", "7471", flags, h, &found);
	fi_freeinfo(h);
	if (rc)
		tell("fi_getinfo", rc);
	return found;
}

// Waits for an event. Returns 0 after an error, and if there is none in time: then a peer has heard of an error.
static uint32_t event(struct fi_eq_cm_entry *entry)
{
	struct fi_eq_err_entry error = { 0 };
	uint32_t number = 0;
	double start = now();
	ssize_t rc;

	while ((rc = fi_eq_read(eq, &number, entry, sizeof(*entry), 0)) == -FI_EAGAIN) {
		if (now() - start > LIMIT_S)
			FAIL("no event");
	}
	if (rc == -FI_EAVAIL) {
		RC(fi_eq_readerr(eq, &error, 0), sizeof(error));
		tell("event", -error.err);
		return 0;
	}
	if (rc < 0) {
		tell("fi_eq_read", rc);
		return 0;
	}
	return number;
}

static bool completion(void)
{
	struct fi_cq_data_entry entry;
	struct fi_cq_err_entry error = { 0 };
	double start = now();
	ssize_t rc;

	while ((rc = fi_cq_read(cq, &entry, 1)) == -FI_EAGAIN) {
		if (now() - start > LIMIT_S)
			FAIL("no completion");
	}
	if (rc == 1)
		return true;
	if (rc == -FI_EAVAIL) {
		RC(fi_cq_readerr(cq, &error, 0), 1);
		tell("completion", -error.err);
	} else {
		tell("fi_cq_read", rc);
	}
	return false;
}

static void set_up(struct fid_ep **ep, struct fi_info *of)
{
	TRY(fi_endpoint(domain, of, ep, NULL));
	TRY(fi_ep_bind(*ep, &eq->fid, 0));
	TRY(fi_ep_bind(*ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	if (shares && of == request)
		TRY(fi_ep_bind(*ep, &srx->fid, 0));
	TRY(fi_enable(*ep));
}

static void run(void)
{
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD, .size = 64 };
	struct fi_rx_attr rx_attr = { .size = 64, .iov_limit = 1 };
	struct fi_eq_cm_entry entry;
	uint32_t number;

	if (!(passive = ask(FI_SOURCE)))
		return;
	TRY(fi_fabric(passive->fabric_attr, &fabric, NULL));
	TRY(fi_eq_open(fabric, &eq_attr, &eq, NULL));
	TRY(fi_passive_ep(fabric, passive, &pep, NULL));
	TRY(fi_pep_bind(pep, &eq->fid, 0));
	TRY(fi_listen(pep));
	if (!(active = ask(0)))
		return;
	TRY(fi_domain(fabric, active, &domain, NULL));
	TRY(fi_cq_open(domain, &cq_attr, &cq, NULL));
	TRY(fi_mr_reg(domain, buf, LEN, FI_SEND | FI_RECV | FI_REMOTE_WRITE | FI_REMOTE_READ | FI_READ | FI_WRITE, 0, 0,
		      0, &mr, NULL));
	if (shares)
		TRY(fi_srx_context(domain, &rx_attr, &srx, NULL));
	set_up(&a, active);
	if (told)
		return;
	TRY(fi_connect(a, active->dest_addr, "hello", 5));
	number = event(&entry);
	if (number != FI_CONNREQ) {
		told = true;
		return;
	}
	request = entry.info;
	if (shares)
		request->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	set_up(&b, request);
	if (told)
		return;
	for (int i = 0; i < COUNT; i++)
		TRY(fi_recv(shares ? srx : b, buf + LEN / 2, 64, fi_mr_desc(mr), 0, NULL));
	TRY(fi_accept(b, NULL, 0));
	for (int i = 0; i < 2; i++) {
		number = event(&entry);
		if (number != FI_CONNECTED) {
			told = true;
			return;
		}
	}
	for (int i = 0; i < COUNT; i++) {
		TRY(fi_send(a, buf, 64, fi_mr_desc(mr), 0, NULL));
		if (!completion() || !completion())
			return;
	}
	TRY(fi_write(a, buf, 64, fi_mr_desc(mr), 0, (uintptr_t)buf + LEN / 2, fi_mr_key(mr), NULL));
	if (!completion())
		return;
	// A busy program looks at the reports of the device now and then.
	for (int i = 0; i < 1000; i++)
		fi_cq_read(cq, NULL, 0);
	TRY(fi_shutdown(a, 0));
	for (int i = 0; i < 2; i++) {
		number = event(&entry);
		if (number != FI_SHUTDOWN) {
			told = true;
			return;
		}
	}
}

int main(int argc, char **argv)
{
	shares = argc > 1 && !strcmp(argv[1], "shared");
	run();
	struct fid *all[] = { a ? &a->fid : NULL,   b ? &b->fid : NULL,   srx ? &srx->fid : NULL, mr ? &mr->fid : NULL,
			      cq ? &cq->fid : NULL, pep ? &pep->fid : NULL, eq ? &eq->fid : NULL,
			      domain ? &domain->fid : NULL, fabric ? &fabric->fid : NULL };
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i])
			OK(fi_close(all[i]));
	}
	fi_freeinfo(passive);
	fi_freeinfo(active);
	if (request)
		fi_freeinfo(request);
	if (!told)
		puts("no error");
	return 0;
}
