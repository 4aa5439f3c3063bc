// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// The reason for a refused call is in the log at level info; a repeated mistake is logged once per FI_LOG_INTERVAL.

#define _GNU_SOURCE

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "log_file.h"

enum { TIMES = 1000 };

static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_ep *ep;
static struct fid_cq *cq;
static struct fid_av *av;
static char buf[1 << 16];

static void open_ep(const char *prov, uint64_t caps)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_TAGGED };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };

	log_to_file("info");
	setenv("FI_LOG_INTERVAL", "3600000", 1);
	hints->fabric_attr->prov_name = strdup(prov);
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = caps;
	hints->domain_attr->mr_mode = -1 & ~3;
	hints->mode = ~0ULL;
	if (!strcmp(prov, "tcp"))
		hints->addr_format = FI_SOCKADDR_IN;
	EQUAL(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info), 0);
	fi_freeinfo(hints);
	EQUAL(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
	EQUAL(fi_domain(fabric, info, &domain, NULL), 0);
	EQUAL(fi_cq_open(domain, &cq_attr, &cq, NULL), 0);
	EQUAL(fi_av_open(domain, &av_attr, &av, NULL), 0);
	EQUAL(fi_endpoint(domain, info, &ep, NULL), 0);
}

static void close_all(void)
{
	EQUAL(fi_close(&ep->fid), 0);
	EQUAL(fi_close(&av->fid), 0);
	EQUAL(fi_close(&cq->fid), 0);
	EQUAL(fi_close(&domain->fid), 0);
	EQUAL(fi_close(&fabric->fid), 0);
	fi_freeinfo(info);
}

static void enable(void)
{
	EQUAL(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	EQUAL(fi_ep_bind(ep, &av->fid, 0), 0);
	EQUAL(fi_enable(ep), 0);
}

// The log has exactly one line with `what`.
static void said_once(const char *lines, const char *what)
{
	const char *first = strstr(lines, what);

	if (!first || strstr(first + 1, what)) {
		printf("'%s' is not once in: %s\n", what, lines);
		failures++;
	}
}

static void not_enabled(const char *prov)
{
	const char *lines;

	open_ep(prov, FI_MSG | FI_TAGGED);
	for (unsigned i = 0; i < TIMES; i++) {
		EQUAL(fi_send(ep, buf, 8, NULL, 0, NULL), -FI_EOPBADSTATE);
		EQUAL(fi_recv(ep, buf, 8, NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPBADSTATE);
		EQUAL(fi_enable(ep), -FI_ENOCQ);
	}
	EQUAL(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
	for (unsigned i = 0; i < TIMES; i++)
		EQUAL(fi_enable(ep), -FI_ENOAV);
	lines = logged();
	said_once(lines, "the endpoint is not enabled");
	said_once(lines, "not enabled: it needs a completion queue");
	said_once(lines, "not enabled: no address vector is bound");
	close_all();
}

static void not_bound(const char *prov)
{
	const char *lines;

	open_ep(prov, FI_MSG | FI_TAGGED);
	for (unsigned i = 0; i < TIMES; i++) {
		EQUAL(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_MORE), -FI_EBADFLAGS);
		EQUAL(fi_ep_bind(ep, &cq->fid, 0), -FI_EINVAL);
	}
	enable();
	for (unsigned i = 0; i < TIMES; i++)
		EQUAL(fi_ep_bind(ep, &av->fid, 0), -FI_EOPBADSTATE);
	lines = logged();
	said_once(lines, "not bound: the flags");
	said_once(lines, "not bound (flags 0x0): the endpoint has one for that");
	said_once(lines, "not bound: the endpoint is enabled already");
	close_all();
}

static void refused(const char *prov)
{
	struct iovec iov = { buf, 8 };
	struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1 };
	const char *lines;

	open_ep(prov, FI_MSG);
	enable();
	for (unsigned i = 0; i < TIMES; i++) {
		EQUAL(fi_send(ep, buf, 8, NULL, 77, NULL), -FI_EINVAL);
		EQUAL(fi_inject(ep, buf, info->tx_attr->inject_size + 1, 0), -FI_EINVAL);
		EQUAL(fi_sendmsg(ep, &msg, FI_PEEK), -FI_EBADFLAGS);
		EQUAL(fi_tsend(ep, buf, 8, NULL, 0, 1, NULL), -FI_ENOSYS);
		EQUAL(fi_write(ep, buf, 8, NULL, 0, 0, 1, NULL), -FI_ENOSYS);
	}
	lines = logged();
	said_once(lines, "no peer has the address that is given");
	said_once(lines, "cannot be injected: inject_size is");
	said_once(lines, "the call does not take the flags");
	said_once(lines, "the object does not have this call");
	close_all();
}

static void tcp_not_enabled(void)
{
	not_enabled("tcp");
}

static void tcp_not_bound(void)
{
	not_bound("tcp");
}

static void tcp_refused(void)
{
	refused("tcp");
}

static void shm_not_enabled(void)
{
	not_enabled("shm");
}

static void shm_not_bound(void)
{
	not_bound("shm");
}

static void shm_refused(void)
{
	refused("shm");
}

static const struct test tests[] = {
	TEST(tcp_not_enabled), TEST(tcp_not_bound), TEST(tcp_refused),
	TEST(shm_not_enabled), TEST(shm_not_bound), TEST(shm_refused),
};

int main(int argc, char **argv)
{
	return RUN_TESTS(tests, argc, argv);
}
