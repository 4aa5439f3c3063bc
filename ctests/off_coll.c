// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Collectives of off_coll for a provider that has none: this program is that provider. It owns the queues and the
 * vector, and moves the messages over endpoints of other providers: fi_peer(3). */
#define _GNU_SOURCE
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_peer.h>
#include <time.h>

#include "check.h"

enum { MEMBERS = 5, LIMIT_S = 30, ENTRIES = 16 };

#define OFFLOAD (1ull << 61)
#define NEED(call) need((call), #call, __LINE__)

static long long need(long long result, const char *what, int line)
{
	if (result < 0) {
		printf("off_coll.c:%d: %s: %s\n", line, what, fi_strerror((int) -result));
		fflush(stdout);
		_exit(1);
	}
	return result;
}

struct entry {
	void *context;
	uint64_t flags;
	int err;
};

struct member {
	// Objects of the provider below.
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_eq *eq;
	fi_addr_t at[MEMBERS];
	unsigned rank;
	// Objects of the owner, with functions that the peer calls.
	struct fid_ep lent;
	struct fi_ops_tagged tagged;
	struct fid_peer_cq own_cq;
	struct fid_peer_av own_av;
	struct fid_peer_av_set own_set;
	fi_addr_t group[MEMBERS];
	size_t group_size;
	struct entry done[ENTRIES];
	unsigned count;
	// The peer's objects.
	const struct fi_ops_transfer_peer *calls;
	struct fid_ep *coll;
	struct fid_av *coll_av;
	struct fid_cq *coll_cq;
	struct fid_eq *coll_eq;
	struct fid_av_set *set;
	struct fid_mc *mc;
};

static struct fi_info *below, *offload;
static struct fid_fabric *fabric, *coll_fabric;
static struct fid_domain *domain, *coll_domain;
static struct member all[MEMBERS];

#define OF(pointer, field) ((struct member *) ((char *) (pointer) - offsetof(struct member, field)))

static void record(struct member *m, void *context, uint64_t flags, int err)
{
	if (m->count < ENTRIES)
		m->done[m->count++] = (struct entry){context, flags, err};
}

static ssize_t cq_write(struct fid_peer_cq *cq, void *context, uint64_t flags, size_t len, void *buf, uint64_t data,
			uint64_t tag, fi_addr_t src)
{
	CHECK(!len && !buf && !data && !tag && src == FI_ADDR_NOTAVAIL);
	record(OF(cq, own_cq), context, flags, 0);
	return 0;
}

static ssize_t cq_writeerr(struct fid_peer_cq *cq, const struct fi_cq_err_entry *error)
{
	record(OF(cq, own_cq), error->op_context, error->flags, error->err);
	return 0;
}

static int av_query(struct fid_peer_av *av, struct fi_av_attr *attr)
{
	(void) av;
	attr->count = MEMBERS;
	return 0;
}

static fi_addr_t av_ep_addr(struct fid_peer_av *av, struct fid_ep *ep)
{
	struct member *m = OF(av, own_av);

	CHECK(ep == &m->lent);
	return m->at[m->rank];
}

static int set_members(struct fid_peer_av_set *set, fi_addr_t *addr, size_t *count)
{
	struct member *m = OF(set, own_set);
	size_t room = *count;

	*count = m->group_size;
	if (room < m->group_size)
		return -FI_ETOOSMALL;
	memcpy(addr, m->group, m->group_size * sizeof(*addr));
	return 0;
}

static ssize_t lent_sendmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	CHECK(flags & FI_PEER_TRANSFER);
	CHECK(msg->tag >> 63);
	return fi_tsendmsg(OF(ep, lent)->ep, msg, flags & ~FI_PEER_TRANSFER);
}

static ssize_t lent_recvmsg(struct fid_ep *ep, const struct fi_msg_tagged *msg, uint64_t flags)
{
	CHECK(flags & FI_PEER_TRANSFER);
	CHECK(msg->tag >> 63 && !(msg->ignore >> 63));
	return fi_trecvmsg(OF(ep, lent)->ep, msg, flags & ~FI_PEER_TRANSFER);
}

static struct fi_ops_cq_owner cq_ops = {.size = sizeof(cq_ops), .write = cq_write, .writeerr = cq_writeerr};
static struct fi_ops_av_owner av_ops = {.size = sizeof(av_ops), .query = av_query, .ep_addr = av_ep_addr};

static struct fi_ops_av_set_owner set_ops = {.size = sizeof(set_ops), .members = set_members};

static struct fi_info *find_below(const char *prov)
{
	struct fi_info *hints = fi_allocinfo(), *found = NULL;

	hints->caps = FI_TAGGED | FI_SOURCE;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->fabric_attr->prov_name = strdup(prov);
	NEED(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &found));
	fi_freeinfo(hints);
	return found;
}

static int find_offload(uint64_t flags, uint64_t mode, struct fi_info **found)
{
	struct fi_info *hints = fi_allocinfo();
	int rc;

	hints->caps = FI_COLLECTIVE;
	hints->mode = mode;
	hints->fabric_attr->prov_name = strdup("off_coll");
	*found = NULL;
	rc = fi_getinfo(FI_VERSION(2, 0), NULL, NULL, flags, hints, found);
	fi_freeinfo(hints);
	return rc;
}

static void open_below(struct member *m)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av = {.type = FI_AV_TABLE};
	struct fi_eq_attr eq = {.wait_obj = FI_WAIT_NONE, .flags = FI_WRITE};

	NEED(fi_cq_open(domain, &cq, &m->cq, NULL));
	NEED(fi_av_open(domain, &av, &m->av, NULL));
	NEED(fi_eq_open(fabric, &eq, &m->eq, NULL));
	NEED(fi_endpoint(domain, below, &m->ep, NULL));
	NEED(fi_ep_bind(m->ep, &m->cq->fid, FI_TRANSMIT | FI_RECV));
	NEED(fi_ep_bind(m->ep, &m->av->fid, 0));
	NEED(fi_enable(m->ep));
}

// Gives the members other addresses for each other.
static void know_each_other(void)
{
	char names[MEMBERS][512];

	for (unsigned i = 0; i < MEMBERS; i++) {
		size_t len = sizeof(names[i]);

		NEED(fi_getname(&all[i].ep->fid, names[i], &len));
	}
	for (unsigned i = 0; i < MEMBERS; i++) {
		for (unsigned k = 0; k < MEMBERS; k++) {
			unsigned of = (i + k) % MEMBERS;

			EQUAL(fi_av_insert(all[i].av, names[of], 1, &all[i].at[of], 0, NULL), 1);
		}
	}
}

static void open_coll(struct member *m)
{
	struct fi_eq_attr eq = {.flags = FI_PEER, .wait_obj = FI_WAIT_NONE};
	struct fi_peer_eq_context eq_context = {sizeof(eq_context), m->eq};
	struct fi_av_attr av = {.type = FI_AV_TABLE, .flags = FI_PEER};
	struct fi_peer_av_context av_context = {sizeof(av_context), &m->own_av};
	struct fi_cq_attr cq = {.flags = FI_PEER, .wait_obj = FI_WAIT_NONE};
	struct fi_peer_cq_context cq_context = {sizeof(cq_context), &m->own_cq};
	struct fi_peer_transfer_context transfer = {sizeof(transfer), below, &m->lent, NULL};

	m->own_cq.owner_ops = &cq_ops;
	m->own_av.owner_ops = &av_ops;
	m->tagged = *m->ep->tagged;
	m->tagged.sendmsg = lent_sendmsg;
	m->tagged.recvmsg = lent_recvmsg;
	m->lent.tagged = &m->tagged;
	NEED(fi_eq_open(coll_fabric, &eq, &m->coll_eq, &eq_context));
	NEED(fi_av_open(coll_domain, &av, &m->coll_av, &av_context));
	NEED(fi_cq_open(coll_domain, &cq, &m->coll_cq, &cq_context));
	NEED(fi_endpoint(coll_domain, offload, &m->coll, &transfer));
	CHECK(transfer.peer_ops && transfer.peer_ops->complete && transfer.peer_ops->comperr);
	m->calls = transfer.peer_ops;
	NEED(fi_ep_bind(m->coll, &m->coll_eq->fid, 0));
	NEED(fi_ep_bind(m->coll, &m->coll_av->fid, 0));
	NEED(fi_ep_bind(m->coll, &m->coll_cq->fid, FI_TRANSMIT | FI_RECV));
	NEED(fi_enable(m->coll));
}

static void progress(struct member *m)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = {0};
	fi_addr_t src = FI_ADDR_NOTAVAIL;
	ssize_t rc;

	if (!m->ep)
		return;
	rc = fi_cq_readfrom(m->cq, &entry, 1, &src);
	if (rc == 1)
		EQUAL(m->calls->complete(m->coll, &entry, src), 0);
	else if (rc == -FI_EAVAIL && fi_cq_readerr(m->cq, &error, 0) == 1)
		EQUAL(m->calls->comperr(m->coll, &error), 0);
	EQUAL(fi_cq_read(m->coll_cq, NULL, 0), 0);
}

static bool all_have(unsigned count, unsigned but)
{
	for (unsigned i = 0; i < MEMBERS; i++) {
		if (i != but && all[i].count < count)
			return false;
	}
	return true;
}

// Makes progress until all members but one have so many completions.
static void until(unsigned count, unsigned but)
{
	time_t end = time(NULL) + LIMIT_S;

	while (!all_have(count, but) && time(NULL) < end) {
		for (unsigned i = 0; i < MEMBERS; i++)
			progress(&all[i]);
	}
	CHECK(all_have(count, but));
}

static void open_all(const char *prov)
{
	struct fi_peer_domain_context context = {sizeof(context), NULL};

	below = find_below(prov);
	NEED(find_offload(OFFLOAD, FI_PEER_TRANSFER, &offload));
	NEED(fi_fabric(below->fabric_attr, &fabric, NULL));
	NEED(fi_domain(fabric, below, &domain, NULL));
	NEED(fi_fabric(offload->fabric_attr, &coll_fabric, NULL));
	context.domain = domain;
	NEED(fi_domain2(coll_fabric, offload, &coll_domain, FI_PEER, &context));
	for (unsigned i = 0; i < MEMBERS; i++) {
		memset(&all[i], 0, sizeof(all[i]));
		all[i].rank = i;
		open_below(&all[i]);
	}
	know_each_other();
	for (unsigned i = 0; i < MEMBERS; i++)
		open_coll(&all[i]);
}

static void close_all(void)
{
	for (unsigned i = 0; i < MEMBERS; i++) {
		struct member *m = &all[i];

		if (m->mc)
			EQUAL(fi_close(&m->mc->fid), 0);
		if (m->set)
			EQUAL(fi_close(&m->set->fid), 0);
		EQUAL(fi_close(&m->coll->fid), 0);
		EQUAL(fi_close(&m->coll_cq->fid), 0);
		EQUAL(fi_close(&m->coll_av->fid), 0);
		EQUAL(fi_close(&m->coll_eq->fid), 0);
		if (m->ep)
			EQUAL(fi_close(&m->ep->fid), 0);
		EQUAL(fi_close(&m->av->fid), 0);
		EQUAL(fi_close(&m->cq->fid), 0);
		EQUAL(fi_close(&m->eq->fid), 0);
	}
	EQUAL(fi_close(&coll_domain->fid), 0);
	EQUAL(fi_close(&coll_fabric->fid), 0);
	EQUAL(fi_close(&domain->fid), 0);
	EQUAL(fi_close(&fabric->fid), 0);
	fi_freeinfo(below);
	fi_freeinfo(offload);
}

static void begin_join(struct member *m, unsigned first, unsigned last)
{
	struct fi_av_set_attr attr = {.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL};
	struct fi_peer_av_set_context context = {sizeof(context), (struct fi_peer_av_set *) &m->own_set};
	fi_addr_t addr;

	m->own_set.owner_ops = &set_ops;
	m->group_size = 0;
	for (unsigned k = first; k <= last; k++)
		m->group[m->group_size++] = m->at[k];
	// Sets of the owner, and of the program.
	if (m->rank % 2) {
		attr.flags = FI_PEER;
		NEED(fi_av_set(m->coll_av, &attr, &m->set, &context));
	} else {
		NEED(fi_av_set(m->coll_av, &attr, &m->set, NULL));
		for (unsigned k = first; k <= last; k++)
			NEED(fi_av_set_insert(m->set, m->at[k]));
	}
	NEED(fi_av_set_addr(m->set, &addr));
	NEED(fi_join_collective(m->coll, addr, m->set, 0, &m->mc, m));
}

// Waits for the event of a join. Returns its data.
static uint64_t joined(struct member *m)
{
	struct fi_eq_entry event = {0};
	time_t end = time(NULL) + LIMIT_S;
	uint32_t number = 0;
	ssize_t rc = -FI_EAGAIN;

	while (rc == -FI_EAGAIN && time(NULL) < end) {
		for (unsigned i = 0; i < MEMBERS; i++)
			progress(&all[i]);
		rc = fi_eq_read(m->eq, &number, &event, sizeof(event), 0);
	}
	EQUAL(rc, sizeof(event));
	EQUAL(number, FI_JOIN_COMPLETE);
	CHECK(event.context == m);
	return event.data;
}

static void join_all(void)
{
	for (unsigned i = 0; i < MEMBERS; i++)
		begin_join(&all[i], 0, MEMBERS - 1);
	for (unsigned i = 0; i < MEMBERS; i++)
		EQUAL(joined(&all[i]), 0);
}

static void good(unsigned nth, unsigned but)
{
	until(nth + 1, but);
	for (unsigned i = 0; i < MEMBERS; i++) {
		if (i != but) {
			CHECK(all[i].done[nth].context == &all[i]);
			EQUAL(all[i].done[nth].err, 0);
		}
	}
}

static void run_over(const char *prov)
{
	enum { COUNT = 5000 };
	static uint32_t in[MEMBERS][COUNT], out[MEMBERS][COUNT], gathered[MEMBERS][MEMBERS * COUNT];

	open_all(prov);
	join_all();
	for (unsigned i = 0; i < MEMBERS; i++) {
		for (unsigned n = 0; n < COUNT; n++)
			in[i][n] = (i + 1) * n;
		NEED(fi_allreduce(all[i].coll, in[i], COUNT, NULL, out[i], NULL, fi_mc_addr(all[i].mc), FI_UINT32, FI_SUM, 0, &all[i]));
	}
	good(0, MEMBERS);
	for (unsigned i = 0; i < MEMBERS; i++) {
		for (unsigned n = 0; n < COUNT; n++)
			CHECK(out[i][n] == 15 * n);
	}
	for (unsigned i = 0; i < MEMBERS; i++)
		NEED(fi_allgather(all[i].coll, in[i], COUNT, NULL, gathered[i], NULL, fi_mc_addr(all[i].mc), FI_UINT32, 0, &all[i]));
	good(1, MEMBERS);
	for (unsigned i = 0; i < MEMBERS; i++)
		CHECK(!memcmp(gathered[i], in, sizeof(in)));
	for (unsigned root = 0; root < MEMBERS; root++) {
		for (unsigned i = 0; i < MEMBERS; i++) {
			void *buf = i == root ? in[i] : out[i];

			memset(out[i], 0, sizeof(out[i]));
			NEED(fi_broadcast(all[i].coll, buf, COUNT, NULL, fi_mc_addr(all[i].mc), all[i].at[root], FI_UINT32, 0, &all[i]));
		}
		good(2 + root, MEMBERS);
		for (unsigned i = 0; i < MEMBERS; i++)
			CHECK(i == root || !memcmp(out[i], in[root], sizeof(out[i])));
	}
	for (unsigned i = 0; i < MEMBERS; i++)
		NEED(fi_barrier(all[i].coll, fi_mc_addr(all[i].mc), &all[i]));
	good(7, MEMBERS);
	close_all();
}

static void over_tcp(void)
{
	run_over("tcp");
}

static void over_shm(void)
{
	run_over("shm");
}

static void over_rxm(void)
{
	run_over("tcp;ofi_rxm");
}

static void over_rxd(void)
{
	run_over("udp;ofi_rxd");
}

static void over_sockets(void)
{
	run_over("sockets");
}

static void found_by_providers_only(void)
{
	struct fi_info *found;

	EQUAL(find_offload(0, FI_PEER_TRANSFER, &found), -FI_ENODATA);
	EQUAL(find_offload(OFFLOAD, 0, &found), -FI_ENODATA);
	NEED(find_offload(OFFLOAD, FI_PEER_TRANSFER, &found));
	SAME(found->fabric_attr->prov_name, "off_coll");
	SAME(found->fabric_attr->name, "UTIL-COLL");
	SAME(found->domain_attr->name, "util-coll");
	EQUAL(found->ep_attr->protocol, FI_PROTO_COLL);
	CHECK(found->caps & FI_COLLECTIVE);
	CHECK(!found->next);
	fi_freeinfo(found);
}

static void incomplete_contexts(void)
{
	struct fi_eq_attr eq = {.flags = FI_PEER, .wait_obj = FI_WAIT_NONE};
	struct fi_av_attr av = {.type = FI_AV_TABLE, .flags = FI_PEER};
	struct fi_peer_domain_context domains = {sizeof(domains), NULL};
	struct fi_peer_eq_context queues = {sizeof(queues), NULL};
	struct fi_peer_av_context vectors = {sizeof(vectors), NULL};
	struct fi_peer_transfer_context transfer = {sizeof(transfer), NULL, NULL, NULL};
	struct fi_av_set_attr members = {.start_addr = FI_ADDR_NOTAVAIL, .end_addr = FI_ADDR_NOTAVAIL, .flags = FI_PEER};
	struct fi_peer_av_set_context sets = {sizeof(sets), NULL};
	struct fid_av_set *set;
	struct fi_ops_av_owner few = {.size = sizeof(few), .query = av_query};
	struct fid_peer_av own_av = {.owner_ops = &few};
	struct fid_domain *opened;
	struct fid_av *vector;
	struct fid_eq *queue;
	struct fid_ep *ep;

	open_all("tcp");
	EQUAL(fi_domain2(coll_fabric, offload, &opened, FI_PEER, NULL), -FI_EINVAL);
	EQUAL(fi_domain2(coll_fabric, offload, &opened, FI_PEER, &domains), -FI_EINVAL);
	EQUAL(fi_eq_open(coll_fabric, &eq, &queue, NULL), -FI_EINVAL);
	EQUAL(fi_eq_open(coll_fabric, &eq, &queue, &queues), -FI_EINVAL);
	queues = (struct fi_peer_eq_context){sizeof(queues) - 1, all[0].eq};
	EQUAL(fi_eq_open(coll_fabric, &eq, &queue, &queues), -FI_EINVAL);
	EQUAL(fi_av_open(coll_domain, &av, &vector, NULL), -FI_EINVAL);
	EQUAL(fi_av_open(coll_domain, &av, &vector, &vectors), -FI_EINVAL);
	vectors.av = &own_av;
	EQUAL(fi_av_open(coll_domain, &av, &vector, &vectors), -FI_EINVAL);
	EQUAL(fi_av_set(all[0].coll_av, &members, &set, NULL), -FI_EINVAL);
	EQUAL(fi_av_set(all[0].coll_av, &members, &set, &sets), -FI_EINVAL);
	EQUAL(fi_endpoint(coll_domain, offload, &ep, NULL), -FI_EINVAL);
	EQUAL(fi_endpoint(coll_domain, offload, &ep, &transfer), -FI_EINVAL);
	offload->mode = 0;
	transfer.ep = &all[0].lent;
	EQUAL(fi_endpoint(coll_domain, offload, &ep, &transfer), -FI_EINVAL);
	offload->mode = FI_PEER_TRANSFER;
	close_all();
}

// Members that join groups of the same size: pairs of neighbours, which overlap, and the same pairs once more.
static void groups_of_the_same_size(void)
{
	enum { ROUNDS = 3 };
	struct fid_mc *mc[MEMBERS][ROUNDS] = {0};
	struct fid_av_set *set[MEMBERS][ROUNDS] = {0};
	unsigned joins[MEMBERS] = {0};

	open_all("tcp");
	for (unsigned round = 0; round < ROUNDS; round++) {
		// Rounds 0 and 2 join (0 1) (2 3), round 1 joins (1 2) (3 4).
		for (unsigned i = round % 2; i < MEMBERS - 1 + round % 2; i++) {
			unsigned first = i - (i - round % 2) % 2;

			begin_join(&all[i], first, first + 1);
			mc[i][round] = all[i].mc;
			set[i][round] = all[i].set;
			joins[i]++;
		}
	}
	for (unsigned i = 0; i < MEMBERS; i++) {
		for (unsigned n = 0; n < joins[i]; n++)
			EQUAL(joined(&all[i]), 0);
	}
	for (unsigned i = 0; i < MEMBERS; i++) {
		for (unsigned round = 0; round < ROUNDS; round++) {
			if (mc[i][round])
				NEED(fi_barrier(all[i].coll, fi_mc_addr(mc[i][round]), &all[i]));
		}
	}
	// The last member has joined one group, the others more.
	until(1, MEMBERS);
	until(2, MEMBERS - 1);
	for (unsigned i = 0; i < MEMBERS; i++) {
		for (unsigned n = 0; n < all[i].count; n++)
			EQUAL(all[i].done[n].err, 0);
		for (unsigned round = 0; round < ROUNDS; round++) {
			if (mc[i][round]) {
				EQUAL(fi_close(&mc[i][round]->fid), 0);
				EQUAL(fi_close(&set[i][round]->fid), 0);
			}
		}
		all[i].mc = NULL;
		all[i].set = NULL;
	}
	close_all();
}

static void member_that_ends(void)
{
	enum { GONE = 3 };

	setenv("FI_TCP_CONN_TIMEOUT", "500", 1);
	open_all("tcp");
	join_all();
	EQUAL(fi_close(&all[GONE].ep->fid), 0);
	all[GONE].ep = NULL;
	for (unsigned i = 0; i < MEMBERS; i++) {
		if (i != GONE)
			NEED(fi_barrier(all[i].coll, fi_mc_addr(all[i].mc), &all[i]));
	}
	until(1, GONE);
	for (unsigned i = 0; i < MEMBERS; i++) {
		if (i != GONE)
			CHECK(all[i].done[0].err > 0);
	}
	close_all();
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(found_by_providers_only), TEST(incomplete_contexts), TEST(over_tcp), TEST(over_shm), TEST(over_rxm),
		TEST(over_rxd), TEST(over_sockets), TEST(groups_of_the_same_size), TEST(member_that_ends),
	};

	return RUN_TESTS(tests, argc, argv);
}
