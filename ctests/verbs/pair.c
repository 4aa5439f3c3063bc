// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! pair NAME HERE THERE: one test of the provider `verbs` between two processes on RDMA devices. HERE is the address of
//! the device of the process that listens, THERE that of the device of the other, its child. Without arguments lists
//! the tests.
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "must.h"

enum { LIMIT_MS = 90000, COUNT = 20, LEN = 4096 };

static const char *here, *there;
static struct fi_info *info;
static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_pep *pep;
static struct fid_cq *cq;
static struct fid_ep *ep;
static struct fid_mr *mr;
static char *buf;
static int to_child[2], to_parent[2];

// ---- The two processes

static void tell(int *pipe_to, char what)
{
	CHECK(write(pipe_to[1], &what, 1) == 1);
}

static void await(int *pipe_from, char what)
{
	char got = 0;

	alarm(LIMIT_MS / 1000);
	CHECK(read(pipe_from[0], &got, 1) == 1 && got == what);
	alarm(0);
}

// ---- Objects and connections

static struct fi_info *ask(const char *node, const char *service, uint64_t flags, const char *source)
{
	struct fi_info *h = fi_allocinfo(), *found = NULL, *from = NULL;

	CHECK(h);
	h->fabric_attr->prov_name = strdup("verbs");
	h->ep_attr->type = FI_EP_MSG;
	h->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	if (source) {
		from = ask(source, NULL, FI_SOURCE, NULL);
		h->src_addrlen = from->src_addrlen;
		h->src_addr = malloc(from->src_addrlen);
		memcpy(h->src_addr, from->src_addr, from->src_addrlen);
		fi_freeinfo(from);
	}
	OK(fi_getinfo(FI_VERSION(2, 6), node, service, flags, h, &found));
	fi_freeinfo(h);
	return found;
}

static uint32_t event(struct fi_eq_cm_entry *entry)
{
	uint32_t number = 0;
	ssize_t rc = fi_eq_sread(eq, &number, entry, sizeof(*entry), LIMIT_MS, 0);

	if (rc == -FI_EAVAIL) {
		struct fi_eq_err_entry error = { 0 };

		fi_eq_readerr(eq, &error, 0);
		FAIL("error %d, %d instead of an event", error.err, error.prov_errno);
	}
	if (rc < (ssize_t)sizeof(*entry))
		FAIL("no event: %zd", rc);
	return number;
}

static void open_domain(struct fi_info *of)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_FD, .size = 256 };

	buf = aligned_alloc(LEN, COUNT * LEN);
	OK(fi_domain(fabric, of, &domain, NULL));
	OK(fi_cq_open(domain, &attr, &cq, NULL));
	OK(fi_mr_reg(domain, buf, COUNT * LEN, FI_SEND | FI_RECV, 0, 0, 0, &mr, NULL));
}

static void open_end(struct fi_info *of)
{
	OK(fi_endpoint(domain, of, &ep, NULL));
	OK(fi_ep_bind(ep, &eq->fid, 0));
	OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(ep));
}

static void post_receives(void)
{
	for (long i = 0; i < COUNT; i++)
		OK(fi_recv(ep, buf + i * LEN, LEN, fi_mr_desc(mr), 0, (void *)(0x200 + i)));
}

static void listen_here(void)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };

	info = ask(here, "7471", FI_SOURCE, NULL);
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_eq_open(fabric, &attr, &eq, NULL));
	OK(fi_passive_ep(fabric, info, &pep, NULL));
	OK(fi_pep_bind(pep, &eq->fid, 0));
	OK(fi_listen(pep));
	tell(to_child, 'l');
}

// `receives`: whether there are any before the peer can send.
static void serve(bool receives)
{
	struct fi_eq_cm_entry entry;

	listen_here();
	RC(event(&entry), FI_CONNREQ);
	open_domain(entry.info);
	open_end(entry.info);
	if (receives)
		post_receives();
	OK(fi_accept(ep, NULL, 0));
	fi_freeinfo(entry.info);
	RC(event(&entry), FI_CONNECTED);
}

static void call(void)
{
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_eq_cm_entry entry;

	await(to_child, 'l');
	info = ask(here, "7471", 0, there);
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_eq_open(fabric, &attr, &eq, NULL));
	open_domain(info);
	open_end(info);
	post_receives();
	OK(fi_connect(ep, info->dest_addr, NULL, 0));
	RC(event(&entry), FI_CONNECTED);
}

static void close_all(void)
{
	struct fid *all[] = { ep ? &ep->fid : NULL, mr ? &mr->fid : NULL, cq ? &cq->fid : NULL, pep ? &pep->fid : NULL,
			      eq ? &eq->fid : NULL, domain ? &domain->fid : NULL, fabric ? &fabric->fid : NULL };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i])
			OK(fi_close(all[i]));
	}
	fi_freeinfo(info);
}

// ---- Completions

// The next completion, or the error of the next failed operation.
static int completion(struct fi_cq_data_entry *entry)
{
	struct fi_cq_err_entry error = { 0 };
	ssize_t rc = fi_cq_sread(cq, entry, 1, NULL, LIMIT_MS);

	if (rc == 1)
		return 0;
	RC(rc, -FI_EAVAIL);
	RC(fi_cq_readerr(cq, &error, 0), 1);
	entry->op_context = error.op_context;
	return error.err;
}

static void receive_all(void)
{
	struct fi_cq_data_entry entry;

	for (long i = 0; i < COUNT; i++) {
		OK(completion(&entry));
		CHECK((long)entry.op_context == 0x200 + i && entry.len == 64 && buf[i * LEN] == (char)i);
	}
}

static void inject_all(void)
{
	for (int i = 0; i < COUNT; i++) {
		ssize_t rc;

		buf[0] = (char)i;
		while ((rc = fi_inject(ep, buf, 64, 0)) == -FI_EAGAIN)
			fi_cq_read(cq, NULL, 0);
		OK(rc);
	}
}

// ---- Injected messages leave before the endpoint, or the process, ends

static void inject_then_close_child(void)
{
	call();
	inject_all();
	close_all();
}

static void inject_then_exit_child(void)
{
	call();
	inject_all();
	// no close
}

static void inject_then_shut_down_child(void)
{
	call();
	inject_all();
	OK(fi_shutdown(ep, 0));
}

static void receive_all_parent(void)
{
	struct fi_eq_cm_entry entry;

	serve(true);
	receive_all();
	RC(event(&entry), FI_SHUTDOWN);
	close_all();
}

// The receiver posts its receives only when the sender is about to close.
static void inject_without_receives_parent(void)
{
	struct fi_eq_cm_entry entry;

	serve(false);
	await(to_parent, 'i');
	post_receives();
	receive_all();
	RC(event(&entry), FI_SHUTDOWN);
	close_all();
}

static void inject_without_receives_child(void)
{
	call();
	inject_all();
	tell(to_parent, 'i');
	close_all();
}

// ---- Forked children leave the connections of their parent alone

static void fork_and_close_child(void)
{
	struct fi_info *found = NULL, *h = fi_allocinfo();
	int status;
	pid_t pid;

	call();
	pid = fork();
	if (!pid) {
		h->fabric_attr->prov_name = strdup("verbs");
		RC(fi_send(ep, buf, 64, fi_mr_desc(mr), 0, NULL), -FI_EOPBADSTATE);
		RC(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, h, &found), -FI_ENODATA);
		close_all();
		exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	inject_all();
	close_all();
	fi_freeinfo(h);
}

static void fork_and_exit_child(void)
{
	int status;
	pid_t pid;

	call();
	inject_all();
	pid = fork();
	if (!pid)
		exit(0);
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	close_all();
}

// ---- A peer that is killed

static void killed_parent(void)
{
	struct fi_cq_data_entry done;
	struct fi_eq_cm_entry entry;

	serve(true);
	tell(to_child, 'k');
	RC(event(&entry), FI_SHUTDOWN);
	for (long i = 0; i < COUNT; i++) {
		RC(completion(&done), FI_ECANCELED);
		CHECK((long)done.op_context == 0x200 + i);
	}
	OK(fi_send(ep, buf, 64, fi_mr_desc(mr), 0, (void *)1));
	RC(completion(&done), FI_ECANCELED);
	close_all();
}

static void killed_child(void)
{
	call();
	await(to_child, 'k');
	raise(SIGKILL);
}

// ---- A cable that is unplugged under traffic: UNPLUG is the command. (Kernels give no event of the removal of a soft
// device: they wait until the programs have closed it.)

static void unplugged_parent(void)
{
	struct fi_cq_data_entry done;

	serve(true);
	for (long i = 0; i < 4; i++)
		OK(completion(&done));
	if (system(getenv("UNPLUG")))
		FAIL("failed: %s", getenv("UNPLUG"));
	close_all();
}

static void unplugged_child(void)
{
	struct fi_cq_data_entry done;
	struct fi_eq_err_entry unreachable = { 0 };
	struct fi_eq_cm_entry entry;
	uint32_t number;
	ssize_t rc;
	int error;

	call();
	do {
		while ((rc = fi_send(ep, buf, 64, fi_mr_desc(mr), 0, NULL)) == -FI_EAGAIN)
			fi_cq_read(cq, NULL, 0);
		OK(rc);
		error = completion(&done);
	} while (!error);
	CHECK(error == FI_EIO || error == FI_ECANCELED);
	// Newer kernels first say that the network finds no way.
	rc = fi_eq_sread(eq, &number, &entry, sizeof(entry), LIMIT_MS, 0);
	if (rc == -FI_EAVAIL) {
		RC(fi_eq_readerr(eq, &unreachable, 0), sizeof(unreachable));
		CHECK(unreachable.fid == &ep->fid && unreachable.err == FI_ETIMEDOUT);
		RC(event(&entry), FI_SHUTDOWN);
	} else {
		RC(rc, sizeof(entry));
		RC(number, FI_SHUTDOWN);
	}
	close_all();
}

static const struct {
	const char *name;
	void (*parent)(void), (*child)(void);
	int signal;
} tests[] = {
	{ "inject_then_close", receive_all_parent, inject_then_close_child, 0 },
	{ "inject_then_exit", receive_all_parent, inject_then_exit_child, 0 },
	{ "inject_then_shut_down", receive_all_parent, inject_then_shut_down_child, 0 },
	{ "inject_without_receives", inject_without_receives_parent, inject_without_receives_child, 0 },
	{ "fork_and_close", receive_all_parent, fork_and_close_child, 0 },
	{ "fork_and_exit", receive_all_parent, fork_and_exit_child, 0 },
	{ "killed", killed_parent, killed_child, SIGKILL },
	{ "unplugged", unplugged_parent, unplugged_child, 0 },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		int status = 0;
		pid_t pid;

		if (argc < 4) {
			puts(tests[i].name);
			continue;
		}
		if (strcmp(argv[1], tests[i].name))
			continue;
		here = argv[2];
		there = argv[3];
		CHECK(!pipe(to_child) && !pipe(to_parent));
		pid = fork();
		if (!pid) {
			tests[i].child();
			exit(0);
		}
		tests[i].parent();
		CHECK(waitpid(pid, &status, 0) == pid);
		if (tests[i].signal ? !WIFSIGNALED(status) || WTERMSIG(status) != tests[i].signal : status)
			FAIL("the peer ended with 0x%x", status);
		return 0;
	}
	return argc < 4 ? 0 : 2;
}
