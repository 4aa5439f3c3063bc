// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! dgram NAME [DOMAIN]: one test of datagram endpoints of the provider `verbs` in one process, on RDMA devices or over
//! the stand-in. DOMAIN names the domain of the entry; without it the first one is used. Without arguments lists the
//! tests; those whose names begin with `device_` need a device.
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <sys/socket.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "must.h"

enum { LIMIT_MS = 20000, PREFIX = 40, ADDR = 32, LEN = 4096, COUNT = 20, MR_MODE = FI_MR_LOCAL | FI_MR_ALLOCATED };

static const char *wanted;
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_av *av;

// An endpoint with its queue, and registered memory: COUNT places for sends, COUNT for receives.
struct end {
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_mr *mr;
	void *desc;
	char *out, *in;
	unsigned char name[ADDR];
	fi_addr_t addr;
};

static struct fi_info *hints(void)
{
	struct fi_info *h = fi_allocinfo();

	CHECK(h);
	h->fabric_attr->prov_name = strdup("verbs");
	h->ep_attr->type = FI_EP_DGRAM;
	h->mode = FI_MSG_PREFIX | FI_RX_CQ_DATA;
	h->domain_attr->mr_mode = MR_MODE;
	if (wanted)
		h->domain_attr->name = strdup(wanted);
	return h;
}

static int ask(const char *node, const char *service, uint64_t flags, struct fi_info **found)
{
	struct fi_info *h = hints();
	int rc = fi_getinfo(FI_VERSION(2, 0), node, service, flags, h, found);

	fi_freeinfo(h);
	return rc;
}

static void open_domain(struct fi_info *of)
{
	struct fi_av_attr attr = { 0 };

	info = of;
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, info, &domain, NULL));
	OK(fi_av_open(domain, &attr, &av, NULL));
}

static struct end open_end(struct fi_info *of)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD, .size = 256 };
	struct end end = { 0 };
	size_t len = sizeof(end.name);

	OK(fi_endpoint(domain, of, &end.ep, NULL));
	OK(fi_cq_open(domain, &attr, &end.cq, NULL));
	OK(fi_ep_bind(end.ep, &end.cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(end.ep, &av->fid, 0));
	OK(fi_enable(end.ep));
	end.out = calloc(2 * COUNT, LEN);
	end.in = end.out + COUNT * LEN;
	OK(fi_mr_reg(domain, end.out, 2 * COUNT * LEN, FI_SEND | FI_RECV, 0, 0, 0, &end.mr, NULL));
	end.desc = fi_mr_desc(end.mr);
	OK(fi_getname(&end.ep->fid, end.name, &len));
	CHECK(len == ADDR);
	RC(fi_av_insert(av, end.name, 1, &end.addr, 0, NULL), 1);
	return end;
}

static void close_end(struct end *end)
{
	OK(fi_close(&end->ep->fid));
	OK(fi_close(&end->cq->fid));
	OK(fi_close(&end->mr->fid));
	free(end->out);
}

static void close_domain(void)
{
	OK(fi_close(&av->fid));
	OK(fi_close(&domain->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(info);
}

static struct fi_cq_data_entry completion(struct end *end, uint64_t flags)
{
	struct fi_cq_data_entry entry;
	fi_addr_t from = 0;
	ssize_t rc = fi_cq_sreadfrom(end->cq, &entry, 1, &from, NULL, LIMIT_MS);

	if (rc != 1) {
		struct fi_cq_err_entry error = { 0 };

		fi_cq_readerr(end->cq, &error, 0);
		FAIL("no completion: %zd, %d of %d, flags 0x%llx", rc, error.prov_errno, error.err, (unsigned long long)error.flags);
	}
	CHECK((entry.flags & (FI_SEND | FI_RECV)) == flags);
	CHECK(from == FI_ADDR_NOTAVAIL);
	return entry;
}

static void post_receives(struct end *end, int count)
{
	for (long i = 0; i < count; i++)
		OK(fi_recv(end->ep, end->in + i * LEN, LEN, end->desc, FI_ADDR_UNSPEC, (void *)(0x200 + i)));
}

static struct fi_cq_data_entry arrives(struct end *end, long number, const char *text)
{
	struct fi_cq_data_entry entry = completion(end, FI_RECV);

	CHECK(entry.op_context == (void *)(0x200 + number));
	if (entry.len != PREFIX + strlen(text))
		FAIL("%zu bytes for %s", entry.len, text);
	CHECK(!memcmp(end->in + number * LEN + PREFIX, text, strlen(text)));
	return entry;
}

// ---- Tests

static void entry(void)
{
	struct fi_info *found, *at;

	OK(ask(NULL, "4711", FI_SOURCE, &found));
	for (at = found; at; at = at->next) {
		uint16_t service;
		const char *name = at->domain_attr->name;

		CHECK(at->ep_attr->type == FI_EP_DGRAM && at->ep_attr->protocol == FI_PROTO_IB_UD);
		CHECK(at->addr_format == FI_ADDR_IB_UD && at->src_addrlen == ADDR && !at->dest_addr);
		memcpy(&service, (char *)at->src_addr + 24, sizeof(service));
		CHECK(service == 4711);
		CHECK(at->caps == (FI_MSG | FI_SEND | FI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM));
		CHECK(at->mode == (FI_MSG_PREFIX | FI_RX_CQ_DATA) && at->tx_attr->mode == 0);
		CHECK(at->rx_attr->mode == (FI_MSG_PREFIX | FI_RX_CQ_DATA));
		CHECK(at->ep_attr->msg_prefix_size == PREFIX && at->ep_attr->max_msg_size >= 256);
		CHECK(at->domain_attr->mr_mode == MR_MODE && at->domain_attr->cq_data_size == 4);
		CHECK(strlen(name) > 6 && !strcmp(name + strlen(name) - 6, "-dgram"));
	}
	fi_freeinfo(found);
	struct fi_info *h = hints();
	h->mode = 0;
	RC(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, h, &found), -FI_ENODATA);
	h->mode = FI_MSG_PREFIX;
	h->caps = FI_RMA;
	RC(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, h, &found), -FI_ENODATA);
	h->caps = FI_SOURCE;
	RC(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, h, &found), -FI_ENODATA);
	fi_freeinfo(h);
	// Without a name server, names lead nowhere.
	unsetenv("FI_VERBS_DGRAM_USE_NAME_SERVER");
	RC(ask("127.0.0.1", "4711", 0, &found), -FI_ENODATA);
}

static void addresses(void)
{
	struct fi_info *found;
	unsigned char name[64], zeros[ADDR] = { 0 }, other[ADDR];
	char text[128];
	size_t len = sizeof(name), text_len = sizeof(text);
	fi_addr_t addr[2];
	struct fid_ep *ep;

	OK(ask(NULL, NULL, 0, &found));
	open_domain(found);
	OK(fi_endpoint(domain, info, &ep, NULL));
	OK(fi_getname(&ep->fid, name, &len));
	CHECK(len == ADDR && !memcmp(name, zeros, ADDR));
	RC(fi_setname(&ep->fid, name, ADDR), -FI_ENOSYS);
	OK(fi_close(&ep->fid));
	struct end end = open_end(info);
	len = 31;
	RC(fi_getname(&end.ep->fid, name, &len), -FI_ETOOSMALL);
	CHECK(len == ADDR);
	CHECK(memcmp(end.name + 16, zeros, 4)); // the number of the queue pair
	fi_av_straddr(av, end.name, text, &text_len);
	CHECK(!strncmp(text, "fi_addr_ib_ud://", 16) && text_len == strlen(text) + 1);
	len = sizeof(name);
	OK(fi_av_lookup(av, end.addr, name, &len));
	CHECK(len == ADDR && !memcmp(name, end.name, ADDR));
	// An address without a port is refused.
	RC(fi_av_insert(av, zeros, 1, &addr[0], 0, NULL), 0);
	CHECK(addr[0] == FI_ADDR_NOTAVAIL);
	RC(fi_av_insertsvc(av, "127.0.0.1", "4711", &addr[0], 0, NULL) == 1, 0);
	// Two in an array, and a removed one leads nowhere.
	unsigned char two[2 * ADDR];
	memcpy(other, end.name, ADDR);
	other[16] ^= 1;
	memcpy(two, end.name, ADDR);
	memcpy(two + ADDR, other, ADDR);
	RC(fi_av_insert(av, two, 2, addr, 0, NULL), 2);
	CHECK(addr[0] == end.addr && addr[1] != end.addr);
	OK(fi_av_remove(av, &addr[1], 1, 0));
	RC(fi_send(end.ep, end.out, 4, end.desc, addr[1], NULL), -FI_EINVAL);
	RC(fi_send(end.ep, end.out, 4, end.desc, FI_ADDR_UNSPEC, NULL), -FI_EINVAL);
	close_end(&end);
	close_domain();
}

static void messages(void)
{
	struct fi_info *found;

	OK(ask(NULL, NULL, 0, &found));
	open_domain(found);
	struct end a = open_end(info), b = open_end(info);
	size_t inject = info->tx_attr->inject_size, most = info->ep_attr->max_msg_size - PREFIX;

	post_receives(&b, 8);
	// Carried by the request, then from registered memory; an injected one reports nothing.
	strcpy(a.out, "short");
	OK(fi_send(a.ep, a.out, 5, a.desc, b.addr, &a));
	CHECK(completion(&a, FI_SEND).op_context == &a);
	arrives(&b, 0, "short");
	memset(a.out, 'x', most);
	a.out[most] = 0;
	CHECK(most > inject);
	OK(fi_send(a.ep, a.out, most, a.desc, b.addr, &a));
	completion(&a, FI_SEND);
	arrives(&b, 1, a.out);
	OK(fi_inject(a.ep, "injected", 8, b.addr));
	arrives(&b, 2, "injected");
	// Data, pieces of two regions.
	CHECK(info->domain_attr->cq_data_size == 4);
	OK(fi_senddata(a.ep, "data", 4, NULL, 0x11223344, b.addr, &a));
	completion(&a, FI_SEND);
	struct fi_cq_data_entry entry = arrives(&b, 3, "data");
	CHECK(entry.flags & FI_REMOTE_CQ_DATA && entry.data == 0x11223344);
	memset(a.out, 'y', 200);
	memset(b.out, 'z', 200);
	struct iovec pieces[2] = { { a.out, 200 }, { b.out, 200 } };
	void *descs[2] = { a.desc, b.desc };
	OK(fi_sendv(a.ep, pieces, descs, 2, b.addr, &a));
	completion(&a, FI_SEND);
	entry = completion(&b, FI_RECV);
	CHECK(entry.len == PREFIX + 400);
	CHECK(b.in[4 * LEN + PREFIX + 199] == 'y' && b.in[4 * LEN + PREFIX + 200] == 'z');
	// FI_MORE joins three requests.
	fprintf(stderr, "-- three\n");
	for (int i = 0; i < 3; i++) {
		struct iovec iov = { "one" + 0, 3 };
		struct fi_msg msg = { .msg_iov = &iov, .iov_count = 1, .addr = b.addr, .context = &a };

		OK(fi_sendmsg(a.ep, &msg, FI_COMPLETION | FI_INJECT | (i < 2 ? FI_MORE : 0)));
	}
	fprintf(stderr, "-- posted\n");
	for (int i = 0; i < 3; i++)
		completion(&a, FI_SEND);
	for (int i = 0; i < 3; i++)
		arrives(&b, 5 + i, "one");
	// A message without a receive is lost, and hurts nobody.
	OK(fi_send(a.ep, "lost", 4, NULL, b.addr, &a));
	completion(&a, FI_SEND);
	// The way back, and to itself.
	post_receives(&a, 2);
	OK(fi_inject(b.ep, "back", 4, a.addr));
	arrives(&a, 0, "back");
	OK(fi_inject(a.ep, "self", 4, a.addr));
	arrives(&a, 1, "self");
	close_end(&a);
	close_end(&b);
	close_domain();
}

static void refusals(void)
{
	struct fi_info *found;
	struct fi_cntr_attr cntr_attr = { 0 };
	struct fid_cntr *cntr = NULL;

	OK(ask(NULL, NULL, 0, &found));
	open_domain(found);
	struct end a = open_end(info);
	struct iovec iov = { a.out, 4 };
	struct fi_msg msg = { .msg_iov = &iov, .desc = &a.desc, .iov_count = 1, .addr = a.addr };

	RC(fi_send(a.ep, a.out, info->ep_attr->max_msg_size + 1, a.desc, a.addr, NULL), -FI_EMSGSIZE);
	RC(fi_inject(a.ep, a.out, info->tx_attr->inject_size + 1, a.addr), -FI_EINVAL);
	RC(fi_sendmsg(a.ep, &msg, FI_DELIVERY_COMPLETE), -FI_EOPNOTSUPP);
	RC(fi_connect(a.ep, a.name, NULL, 0), -FI_ENOSYS);
	RC(fi_accept(a.ep, NULL, 0), -FI_ENOSYS);
	RC(fi_shutdown(a.ep, 0), -FI_ENOSYS);
	RC(fi_write(a.ep, a.out, 4, a.desc, a.addr, 0, 0, NULL), -FI_ENOSYS);
	RC(fi_tsend(a.ep, a.out, 4, a.desc, a.addr, 0, NULL), -FI_ENOSYS);
	RC(fi_cntr_open(domain, &cntr_attr, &cntr, NULL), -FI_ENOSYS);
	close_end(&a);
	close_domain();
}

// The queue keeps what it can: a sender that does not read it gets FI_EAGAIN, and loses no completion.
static void credits(void)
{
	struct fi_info *found;
	size_t sent = 0, seen = 0;

	OK(ask(NULL, NULL, 0, &found));
	open_domain(found);
	struct end a = open_end(info);

	for (; sent < 20000; sent++) {
		ssize_t rc = fi_send(a.ep, "x", 1, NULL, a.addr, (void *)(1 + sent));

		if (rc == -FI_EAGAIN)
			break;
		OK(rc);
	}
	CHECK(sent >= info->tx_attr->size);
	while (seen < sent)
		CHECK(completion(&a, FI_SEND).op_context == (void *)(1 + seen++));
	struct fi_cq_data_entry entry;
	RC(fi_cq_read(a.cq, &entry, 1), -FI_EAGAIN);
	close_end(&a);
	close_domain();
}

// A port that is free now.
static void choose_port(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET };
	socklen_t len = sizeof(addr);
	int sock = socket(AF_INET, SOCK_STREAM, 0);
	char text[16];

	OK(bind(sock, (struct sockaddr *)&addr, sizeof(addr)));
	OK(getsockname(sock, (struct sockaddr *)&addr, &len));
	close(sock);
	snprintf(text, sizeof(text), "%d", ntohs(addr.sin_port));
	setenv("FI_VERBS_DGRAM_NAME_SERVER_PORT", text, 1);
}

static void name_server(void)
{
	struct fi_info *found, *way;

	choose_port();
	setenv("FI_VERBS_DGRAM_USE_NAME_SERVER", "1", 1);
	OK(ask(NULL, "4711", FI_SOURCE, &found));
	open_domain(found);
	struct end a = open_end(info);

	OK(ask("127.0.0.1", "4711", 0, &way));
	CHECK(way->dest_addrlen == ADDR && !memcmp(way->dest_addr, a.name, ADDR));
	fi_freeinfo(way);
	RC(ask("127.0.0.1", "4712", 0, &way), -FI_ENODATA);
	close_end(&a);
	RC(ask("127.0.0.1", "4711", 0, &way), -FI_ENODATA);
	// The server ends with the last domain, and begins with the next one.
	close_domain();
	RC(ask("127.0.0.1", "4711", 0, &way), -FI_ENODATA);
	OK(ask(NULL, "4711", FI_SOURCE, &found));
	open_domain(found);
	a = open_end(info);
	OK(ask("127.0.0.1", "4711", 0, &way));
	fi_freeinfo(way);
	close_end(&a);
	close_domain();
}

// A message that is longer than its receive stops the receiver's queue pair; then it works again.
static void device_recovery(void)
{
	struct fi_info *found;
	struct fi_cq_err_entry error = { 0 };
	struct fi_cq_data_entry entry;
	ssize_t rc;

	OK(ask(NULL, NULL, 0, &found));
	open_domain(found);
	struct end a = open_end(info), b = open_end(info);

	OK(fi_recv(b.ep, b.in, 20, b.desc, FI_ADDR_UNSPEC, &b));
	post_receives(&b, 4);
	OK(fi_send(a.ep, "too long", 8, NULL, b.addr, &a));
	completion(&a, FI_SEND);
	for (int i = 0; i < 5; i++) {
		rc = fi_cq_sread(b.cq, &entry, 1, NULL, LIMIT_MS);
		RC(rc, -FI_EAVAIL);
		RC(fi_cq_readerr(b.cq, &error, 0), 1);
		CHECK(error.err == (i ? FI_ECANCELED : FI_EIO) && error.flags & FI_RECV);
	}
	post_receives(&b, 4);
	OK(fi_send(a.ep, "again", 5, NULL, b.addr, &a));
	completion(&a, FI_SEND);
	arrives(&b, 0, "again");
	OK(fi_inject(b.ep, "back", 4, b.addr));
	arrives(&b, 1, "back");
	close_end(&a);
	close_end(&b);
	close_domain();
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "entry", entry },	  { "addresses", addresses },	  { "messages", messages },
	{ "refusals", refusals }, { "credits", credits },	  { "name_server", name_server },
	{ "device_recovery", device_recovery },
};

int main(int argc, char **argv)
{
	wanted = argc > 2 ? argv[2] : NULL;
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++) {
		if (argc < 2) {
			puts(tests[i].name);
		} else if (!strcmp(argv[1], tests[i].name)) {
			alarm(4 * LIMIT_MS / 1000);
			tests[i].run();
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}
