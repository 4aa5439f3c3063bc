// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Bad input: live objects with null or impossible arguments. The pages leave most of this undefined. This library
//! returns -FI_EINVAL and stays usable, which these tests (OURS_ONLY) check.
#include "harness.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>

static char memory[256];

// ---- Opening

TEST(badinput, open_null_out, EP_ANY | OURS_ONLY, FI_MSG, "Opening without a place for the object gives -FI_EINVAL")
{
	struct fi_cq_attr cq = { 0 };
	struct fi_eq_attr eq = { 0 };
	struct fi_cntr_attr cntr = { 0 };
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	struct fi_wait_attr wait = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_poll_attr poll = { 0 };

	open_domain(t);
	CHECK_RC(fi_fabric(t->info->fabric_attr, NULL, NULL), -FI_EINVAL);
	CHECK_RC(fi_domain(t->fabric, t->info, NULL, NULL), -FI_EINVAL);
	CHECK_RC(fi_eq_open(t->fabric, &eq, NULL, NULL), -FI_EINVAL);
	CHECK_RC2(fi_wait_open(t->fabric, &wait, NULL), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_passive_ep(t->fabric, t->info, NULL, NULL), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC(fi_cq_open(t->domain, &cq, NULL, NULL), -FI_EINVAL);
	CHECK_RC2(fi_cntr_open(t->domain, &cntr, NULL, NULL), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC(fi_av_open(t->domain, &av, NULL, NULL), -FI_EINVAL);
	CHECK_RC2(fi_poll_open(t->domain, &poll, NULL), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC(fi_endpoint(t->domain, t->info, NULL, NULL), -FI_EINVAL);
	CHECK_RC2(fi_srx_context(t->domain, t->info->rx_attr, NULL, NULL), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_stx_context(t->domain, t->info->tx_attr, NULL, NULL), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_scalable_ep(t->domain, t->info, NULL, NULL), -FI_EINVAL, -FI_ENOSYS);
	shut(t, &t->domain->fid); // the failed calls left no object open
	shut(t, &t->fabric->fid);
}

TEST(badinput, open_null_info, EP_ANY | OURS_ONLY, FI_MSG, "Opening without an info, or with one that lacks its parts, gives -FI_EINVAL")
{
	struct fi_info *bare = fi_allocinfo();
	struct fid_domain *domain = NULL;
	struct fid_pep *pep = NULL;
	struct fid_ep *ep = NULL;

	CHECK(bare);
	keep_info(t, bare);
	open_domain(t);
	CHECK_RC(fi_domain(t->fabric, NULL, &domain, NULL), -FI_EINVAL);
	CHECK_RC(fi_endpoint(t->domain, NULL, &ep, NULL), -FI_EINVAL);
	CHECK_RC2(fi_passive_ep(t->fabric, NULL, &pep, NULL), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_scalable_ep(t->domain, NULL, &ep, NULL), -FI_EINVAL, -FI_ENOSYS);
	free(bare->ep_attr);
	bare->ep_attr = NULL;
	CHECK_RC(fi_endpoint(t->domain, bare, &ep, NULL), -FI_EINVAL);
	free(bare->domain_attr);
	bare->domain_attr = NULL;
	CHECK_RC(fi_domain(t->fabric, bare, &domain, NULL), -FI_EINVAL);
	CHECK(!domain && !ep && !pep);
}

TEST(badinput, open_null_attr, EP_ANY | OURS_ONLY, FI_MSG, "Without attributes the defaults hold, or -FI_EINVAL is given")
{
	struct fid_cntr *cntr = NULL;
	struct fid_wait *wait = NULL;
	struct fid_poll *poll = NULL;
	struct fid_cq *cq = NULL;
	struct fid_eq *eq = NULL;
	struct fid_av *av = NULL;

	open_domain(t);
#define TRY(CALL, OBJECT)                                                                                              \
	do {                                                                                                           \
		int rc_ = (CALL);                                                                                      \
		CHECK(rc_ == 0 || rc_ == -FI_EINVAL || rc_ == -FI_ENOSYS);                                             \
		if (!rc_)                                                                                              \
			OK(fi_close(&(OBJECT)->fid));                                                                  \
	} while (0)
	TRY(fi_cq_open(t->domain, NULL, &cq, NULL), cq);
	TRY(fi_eq_open(t->fabric, NULL, &eq, NULL), eq);
	TRY(fi_cntr_open(t->domain, NULL, &cntr, NULL), cntr);
	TRY(fi_av_open(t->domain, NULL, &av, NULL), av);
	TRY(fi_wait_open(t->fabric, NULL, &wait), wait);
	TRY(fi_poll_open(t->domain, NULL, &poll), poll);
#undef TRY
}

TEST(badinput, open_huge_queues, EP_ANY | OURS_ONLY, FI_MSG, "Sizes that cannot be are refused or taken as hints; no allocation fails by a crash")
{
	struct fi_cq_attr cq_attr = { .size = SIZE_MAX };
	struct fi_eq_attr eq_attr = { .size = SIZE_MAX };
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE, .count = SIZE_MAX };
	struct fid_cq *cq = NULL;
	struct fid_eq *eq = NULL;
	struct fid_av *av = NULL;

	open_domain(t);
	if (!fi_cq_open(t->domain, &cq_attr, &cq, NULL))
		OK(fi_close(&cq->fid));
	if (!fi_eq_open(t->fabric, &eq_attr, &eq, NULL))
		OK(fi_close(&eq->fid));
	if (!fi_av_open(t->domain, &av_attr, &av, NULL))
		OK(fi_close(&av->fid));
}

TEST(badinput, open_long_av_name, EP_AV | OURS_ONLY, FI_MSG, "A very long name of a shared address vector is refused or ignored")
{
	static char name[70000];
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .name = name };
	struct fid_av *av = NULL;

	memset(name, 'x', sizeof(name) - 1);
	open_domain(t);
	if (!fi_av_open(t->domain, &attr, &av, NULL))
		OK(fi_close(&av->fid));
}

// ---- Null arguments of live objects

TEST(badinput, control_null_arg, EP_ANY | OURS_ONLY, FI_MSG, "Control commands that need an argument give -FI_EINVAL without one")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_FD, 0);
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_FD);
	struct fid_ep *ep = open_ep(t, t->info);

	CHECK_RC(fi_control(&cq->fid, FI_GETWAIT, NULL), -FI_EINVAL);
	CHECK_RC(fi_control(&cq->fid, FI_GETWAITOBJ, NULL), -FI_EINVAL);
	CHECK_RC(fi_control(&eq->fid, FI_GETWAIT, NULL), -FI_EINVAL);
	CHECK_RC2(fi_control(&ep->fid, FI_GETOPSFLAG, NULL), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_control(&ep->fid, FI_SETOPSFLAG, NULL), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_control(&ep->fid, FI_ALIAS, NULL), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_control(&ep->fid, FI_GET_FD, NULL), -FI_EINVAL, -FI_ENOSYS);
}

TEST(badinput, cq_null_buffer, EP_ANY | OURS_ONLY, FI_MSG, "Reading entries into a null buffer gives -FI_EINVAL and loses none")
{
	fi_addr_t src;

	PAIR(t, .cq.wait_obj = FI_WAIT_UNSPEC);
	flow_run(t, 0, 1);
	ONCE(t, filled_by_now(t->flow->in[0], FLOW_LEN, 0));
	CHECK_RC(fi_cq_read(t->b.rxcq, NULL, 1), -FI_EINVAL);
	CHECK_RC(fi_cq_readfrom(t->b.rxcq, NULL, 1, &src), -FI_EINVAL);
	CHECK_RC(fi_cq_sread(t->b.rxcq, NULL, 1, NULL, 0), -FI_EINVAL);
	CHECK_RC(fi_cq_sreadfrom(t->b.rxcq, NULL, 1, &src, NULL, 0), -FI_EINVAL);
	wait_comp(t, t->b.rxcq, NULL);
}

TEST(badinput, cq_readfrom_null_address, EP_ANY | OURS_ONLY, FI_MSG, "A read without a place for the source address gives the entry, or -FI_EINVAL")
{
	struct fi_cq_tagged_entry entry;

	PAIR(t);
	flow_run(t, 0, 1);
	ONCE(t, filled_by_now(t->flow->in[0], FLOW_LEN, 0));
	CHECK_RC2(fi_cq_readfrom(t->b.rxcq, &entry, 1, NULL), 1, -FI_EINVAL);
}

TEST(badinput, cq_huge_count, EP_ANY | OURS_ONLY, FI_MSG, "A count beyond all bounds reads what is there")
{
	static struct fi_cq_tagged_entry entries[FLOW_MAX];
	ssize_t rc;

	PAIR(t);
	flow_run(t, 0, 1);
	ONCE(t, (rc = fi_cq_read(t->b.rxcq, entries, SIZE_MAX)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
}

TEST(badinput, cq_readerr_null, EP_ANY | OURS_ONLY, FI_MSG, "fi_cq_readerr into nothing gives -FI_EINVAL and keeps the error")
{
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry entry;

	PAIR(t);
	flow_error(t, 0);
	ONCE(t, fi_cq_read(t->b.rxcq, &entry, 1) == -FI_EAVAIL);
	CHECK_RC(t->b.rxcq->ops->readerr(t->b.rxcq, NULL, 0), -FI_EINVAL);
	wait_err(t, t->b.rxcq, &err);
}

TEST(badinput, cq_err_data_null, EP_ANY | OURS_ONLY, FI_MSG, "An err_data_size without a buffer is no place to write to")
{
	struct fi_cq_err_entry err = { .err_data_size = 64 };

	PAIR(t);
	flow_error(t, 0);
	wait_err(t, t->b.rxcq, &err);
	CHECK_EQ(err.err, FI_ECANCELED);
}

TEST(badinput, eq_null_buffer, EP_ANY | OURS_ONLY, FI_MSG, "Event calls with a null buffer give -FI_EINVAL and lose nothing")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_FD, FI_WRITE);
	struct fi_eq_entry entry = { .data = 9 };
	uint32_t event = 0;

	CHECK_RC(fi_eq_write(eq, 1000, NULL, 8, 0), -FI_EINVAL);
	CHECK_RC(fi_eq_write(eq, 1000, &entry, sizeof(entry), 0), sizeof(entry));
	CHECK_RC(fi_eq_read(eq, &event, NULL, 8, 0), -FI_EINVAL);
	CHECK_RC(fi_eq_read(eq, NULL, &entry, sizeof(entry), 0), -FI_EINVAL);
	CHECK_RC(fi_eq_sread(eq, &event, NULL, 8, 0, 0), -FI_EINVAL);
	CHECK_RC(fi_eq_readerr(eq, NULL, 0), -FI_EINVAL);
	CHECK_RC(fi_eq_read(eq, &event, &entry, sizeof(entry), 0), sizeof(entry));
	CHECK_EQ(entry.data, 9);
}

TEST(badinput, eq_huge_event, EP_ANY | OURS_ONLY, FI_MSG, "An event longer than any is refused")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_FD, FI_WRITE);

	CHECK(fi_eq_write(eq, 1000, memory, SIZE_MAX, 0) < 0);
	CHECK(fi_eq_write(eq, 1000, memory, SSIZE_MAX, 0) < 0);
}

TEST(badinput, eq_unknown_flags, EP_ANY | OURS_ONLY, FI_MSG, "Flags that are not defined for event calls are refused")
{
	struct fid_eq *eq = open_eq(t, FI_WAIT_FD, FI_WRITE);
	struct fi_eq_entry entry = { 0 };
	uint32_t event;

	CHECK_RC2(fi_eq_write(eq, 1000, &entry, sizeof(entry), 1ULL << 51), -FI_EINVAL, -FI_EBADFLAGS);
	CHECK_RC(fi_eq_write(eq, 1000, &entry, sizeof(entry), 0), sizeof(entry));
	CHECK_RC2(fi_eq_read(eq, &event, &entry, sizeof(entry), 1ULL << 51), -FI_EINVAL, -FI_EBADFLAGS);
}

TEST(badinput, trywait_null, EP_ANY | OURS_ONLY, FI_MSG, "fi_trywait on null descriptors or a negative count gives -FI_EINVAL")
{
	struct fid *fids[2] = { NULL, NULL };

	open_domain(t);
	CHECK_RC(fi_trywait(t->fabric, NULL, 1), -FI_EINVAL);
	CHECK_RC(fi_trywait(t->fabric, fids, 2), -FI_EINVAL);
	CHECK_RC(fi_trywait(t->fabric, fids, -1), -FI_EINVAL);
}

TEST(badinput, poll_null, EP_ANY | OURS_ONLY, FI_MSG, "Poll set calls on null descriptors, contexts or a negative count give -FI_EINVAL")
{
	struct fi_poll_attr attr = { 0 };
	struct fid_poll *set = NULL;
	void *contexts[1];

	open_domain(t);
	OK_OR_SKIP(fi_poll_open(t->domain, &attr, &set));
	keep(t, &set->fid);
	CHECK_RC(fi_poll_add(set, NULL, 0), -FI_EINVAL);
	CHECK_RC(fi_poll_del(set, NULL, 0), -FI_EINVAL);
	CHECK_RC(fi_poll_del(set, &open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_NONE)->fid, 0), -FI_EINVAL);
	CHECK_RC(fi_poll(set, NULL, 1), -FI_EINVAL);
	CHECK_RC(fi_poll(set, contexts, -1), -FI_EINVAL);
}

TEST(badinput, mr_null, EP_RELIABLE | OURS_ONLY, FI_RMA, "Registering without a vector, attributes or a place for the region gives -FI_EINVAL")
{
	struct iovec iov = { memory, sizeof(memory) };
	struct fi_mr_attr attr = { .mr_iov = NULL, .iov_count = 1, .access = FI_REMOTE_READ, .requested_key = 7 };
	struct fid_mr *mr = NULL;

	open_domain(t);
	CHECK_RC(fi_mr_reg(t->domain, memory, 8, FI_REMOTE_READ, 0, 7, 0, NULL, NULL), -FI_EINVAL);
	CHECK_RC(fi_mr_regv(t->domain, NULL, 1, FI_REMOTE_READ, 0, 7, 0, &mr, NULL), -FI_EINVAL);
	CHECK_RC(fi_mr_regv(t->domain, &iov, SIZE_MAX, FI_REMOTE_READ, 0, 7, 0, &mr, NULL), -FI_EINVAL);
	CHECK_RC(fi_mr_regv(t->domain, &iov, 1, FI_REMOTE_READ, 0, 7, 0, NULL, NULL), -FI_EINVAL);
	CHECK_RC(fi_mr_regattr(t->domain, NULL, 0, &mr), -FI_EINVAL);
	CHECK_RC(fi_mr_regattr(t->domain, &attr, 0, &mr), -FI_EINVAL);
	attr.mr_iov = &iov;
	CHECK_RC(fi_mr_regattr(t->domain, &attr, 0, NULL), -FI_EINVAL);
	CHECK(!mr);
	OK(fi_mr_regattr(t->domain, &attr, 0, &mr)); // key 7 is still free
	keep(t, &mr->fid);
	CHECK_RC2(fi_mr_bind(mr, NULL, 0), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_mr_refresh(mr, NULL, 1, 0), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_mr_raw_attr(mr, NULL, NULL, NULL, 0), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_mr_map_raw(t->domain, 0, NULL, 8, NULL, 0), -FI_EINVAL, -FI_ENOSYS);
}

TEST(badinput, mr_base_wrong, EP_RELIABLE | OURS_ONLY, FI_RMA, "A base_mr that is no region, or one of another domain, is refused")
{
	static char memory[64];
	struct iovec iov = { memory, sizeof(memory) };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_READ, .requested_key = 7 };
	struct fid_domain *other = NULL;
	struct fid_mr *mr = NULL, *base = NULL;

	open_domain(t);
	attr.base_mr = (struct fid_mr *)t->domain;
	CHECK_RC(fi_mr_regattr(t->domain, &attr, 0, &mr), -FI_EINVAL);
	OK(fi_domain(t->fabric, t->info, &other, NULL));
	keep(t, &other->fid);
	OK(fi_mr_reg(other, memory, sizeof(memory), FI_REMOTE_READ, 0, 7, 0, &base, NULL));
	keep(t, &base->fid);
	attr.base_mr = base;
	CHECK_RC(fi_mr_regattr(t->domain, &attr, 0, &mr), -FI_EINVAL);
	shut(t, &base->fid); // no use is left
	CHECK_RC(fi_mr_regattr(t->domain, &attr, 0, &mr), -FI_EINVAL);
	CHECK(!mr);
}

TEST(badinput, pollfd_null, EP_ANY | OURS_ONLY, FI_MSG, "FI_GETWAIT of FI_WAIT_POLLFD with room but no array gives -FI_EINVAL")
{
	struct fi_wait_attr attr = { .wait_obj = FI_WAIT_POLLFD };
	struct fi_wait_pollfd wait = { .nfds = 4 };
	struct fid_wait *set = NULL;

	open_fabric(t);
	OK(fi_wait_open(t->fabric, &attr, &set));
	keep(t, &set->fid);
	CHECK_RC(fi_control(&set->fid, FI_GETWAIT, &wait), -FI_EINVAL);
}

TEST(badinput, mr_auth_key_null, EP_RELIABLE | OURS_ONLY, FI_RMA, "An authorization key of a size without bytes is refused")
{
	struct iovec iov = { memory, sizeof(memory) };
	struct fi_mr_attr attr = { .mr_iov = &iov, .iov_count = 1, .access = FI_REMOTE_READ, .requested_key = 7 };
	struct fid_mr *mr = NULL;

	attr.auth_key_size = 8;
	open_domain(t);
	CHECK_RC2(fi_mr_regattr(t->domain, &attr, 0, &mr), -FI_EINVAL, -FI_EOPNOTSUPP);
}

TEST(badinput, av_null, EP_AV | OURS_ONLY, FI_MSG, "Address vector calls on null arguments give -FI_EINVAL")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	fi_addr_t fi_addr = 0;
	size_t len = 8;
	char buf[64];

	CHECK_RC(fi_av_insert(av, NULL, 1, &fi_addr, 0, NULL), -FI_EINVAL);
	CHECK_RC(fi_av_insert(av, t->info->src_addr, SIZE_MAX, &fi_addr, 0, NULL), -FI_EINVAL);
	CHECK_RC(fi_av_insert(av, t->info->src_addr, 1, &fi_addr, FI_SYNC_ERR, NULL), -FI_EINVAL);
	CHECK(fi_av_insertsvc(av, NULL, "7471", &fi_addr, 0, NULL) <= 0);
	CHECK(fi_av_insertsvc(av, "127.0.0.1", NULL, &fi_addr, 0, NULL) <= 0);
	CHECK(fi_av_insertsym(av, NULL, 1, "7471", 1, &fi_addr, 0, NULL) <= 0);
	CHECK(fi_av_insertsym(av, "127.0.0.1", 1, NULL, 1, &fi_addr, 0, NULL) <= 0);
	CHECK(fi_av_insertsym(av, "127.0.0.1", SIZE_MAX, "7471", SIZE_MAX, &fi_addr, 0, NULL) <= 0);
	CHECK_RC(fi_av_remove(av, NULL, 1, 0), -FI_EINVAL);
	fi_addr = 0;
	CHECK_RC(fi_av_remove(av, &fi_addr, SIZE_MAX, 0), -FI_EINVAL);
	CHECK_RC(fi_av_lookup(av, 0, NULL, &len), -FI_EINVAL);
	CHECK_RC(fi_av_lookup(av, 0, buf, NULL), -FI_EINVAL);
	CHECK(fi_av_straddr(av, NULL, buf, &len) == NULL || buf[0] == '\0' || strlen(buf) < sizeof(buf));
	CHECK(fi_av_straddr(av, t->info->src_addr, buf, NULL) == NULL);
	CHECK_RC2(fi_av_bind(av, NULL, 0), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_av_set_user_id(av, 0, 0, 0), -FI_EINVAL, -FI_ENOSYS);
}

TEST(badinput, av_long_names, EP_AV | OURS_ONLY, FI_MSG, "Node and service names far longer than any insert nothing")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	static char name[70000];
	fi_addr_t fi_addr = 77;

	memset(name, '1', sizeof(name) - 1);
	CHECK(fi_av_insertsvc(av, name, "7471", &fi_addr, 0, NULL) <= 0);
	CHECK(fi_av_insertsvc(av, "127.0.0.1", name, &fi_addr, 0, NULL) <= 0);
	CHECK(fi_av_insertsym(av, name, 2, "7471", 1, &fi_addr, 0, NULL) <= 0);
	CHECK(fi_av_insertsym(av, "127.0.0.1", 1, name, 2, &fi_addr, 0, NULL) <= 0);
}

TEST(badinput, ep_null, EP_ANY | OURS_ONLY, FI_MSG, "Endpoint calls on null arguments give -FI_EINVAL")
{
	struct fid_ep *ep = open_bound_ep(t, &t->a);
	size_t len = sizeof(size_t), value = 1;

	CHECK_RC(fi_ep_bind(ep, NULL, FI_TRANSMIT), -FI_EINVAL);
	CHECK_RC(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, NULL), -FI_EINVAL);
	CHECK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, NULL, &len) < 0);
	CHECK(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, NULL, sizeof(size_t)) < 0);
	CHECK_RC(fi_getname(&ep->fid, memory, NULL), -FI_EINVAL);
	CHECK_RC2(fi_setname(&ep->fid, NULL, 16), -FI_EINVAL, -FI_ENOSYS);
	CHECK(fi_getpeer(ep, memory, NULL) < 0);
	CHECK(fi_join(ep, NULL, 0, NULL, NULL) < 0);
	OK(fi_enable(ep));
}

TEST(badinput, cancel_null, EP_ANY | OURS_ONLY, FI_MSG, "Cancelling the null context cancels nothing that has another")
{
	struct fi_cq_tagged_entry entry;

	PAIR(t);
	flow_post_recv(t, 0, 1);
	CHECK(fi_cancel(&t->b.ep->fid, NULL) <= 0);
	flow_post_send(t, 0, 1);
	wait_comp(t, t->b.rxcq, &entry);
	CHECK(entry.op_context == &t->flow->rx[0]);
}

TEST(badinput, cm_null, EP_MSG | OURS_ONLY, FI_MSG, "Connection calls on null arguments give -FI_EINVAL")
{
	struct cm_listener listener = cm_listen(t);
	union cm_entry in;

	open_bound_ep(t, &t->a);
	CHECK_RC(fi_connect(t->a.ep, NULL, NULL, 0), -FI_EINVAL);
	CHECK_RC(fi_connect(t->a.ep, listener.addr, NULL, 8), -FI_EINVAL);
	CHECK_RC(fi_pep_bind(listener.pep, NULL, 0), -FI_EINVAL);
	CHECK_RC(fi_reject(listener.pep, NULL, NULL, 0), -FI_EINVAL);
	CHECK_RC(fi_getname(&listener.pep->fid, memory, NULL), -FI_EINVAL);
	shut(t, &t->a.ep->fid);
	cm_request(t, &listener, NULL, 0, &in); // the listener is unchanged
	CHECK_RC(fi_reject(listener.pep, in.cm.info->handle, NULL, 8), -FI_EINVAL);
	OK(fi_reject(listener.pep, in.cm.info->handle, NULL, 0));
	fi_freeinfo(in.cm.info);
}

TEST(badinput, cm_bad_address, EP_MSG | OURS_ONLY, FI_MSG, "Connecting to an address of another family is refused at once or by an error event")
{
	struct sockaddr_in addr = { .sin_family = 0xfe };
	struct fi_eq_err_entry err = { 0 };

	open_bound_ep(t, &t->a);
	if (!fi_connect(t->a.ep, &addr, NULL, 0))
		wait_eq_err(t, t->eq, &err);
}

TEST(badinput, ops_null, EP_ANY | OURS_ONLY, FI_MSG, "fi_open_ops and fi_set_ops without a name give an error")
{
	void *ops = NULL;

	open_domain(t);
	CHECK_RC2(fi_open_ops(&t->domain->fid, NULL, 0, &ops, NULL), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_open_ops(&t->domain->fid, "x", 0, NULL, NULL), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_set_ops(&t->domain->fid, NULL, 0, NULL, NULL), -FI_EINVAL, -FI_ENOSYS);
	CHECK_RC2(fi_domain_bind(t->domain, NULL, 0), -FI_EINVAL, -FI_ENOSYS);
}
