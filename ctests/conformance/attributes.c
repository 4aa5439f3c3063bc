// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_getinfo(3), fi_endpoint(3), fi_av(3), fi_control(3), fi_profile(3): tag formats, user identifiers, modes, and
//! unknown commands to objects.
#include <rdma/fi_ext.h>
#include <rdma/fi_profile.h>

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "fixture.h"
#include "transfer.h"

enum { LEN = 16 };

// ---- Tag formats

static void ask_format(struct env *t, uint64_t format)
{
	t->hints->ep_attr->mem_tag_format = format;
	env_info(t);
	PAIR(t);
}

static void send_tag(struct env *t, uint64_t tag, unsigned seed)
{
	post_tsend(t, &t->a, new_buf(t, LEN, seed), tag);
}

static void receives(struct env *t, uint64_t tag, uint64_t ignore, uint64_t sent, unsigned seed)
{
	struct buf in = new_buf(t, LEN, 0);
	void *ctx = post_trecv(t, &t->b, in, tag, ignore);
	struct fi_cq_tagged_entry comp = done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV);

	CHECK_EQ(comp.tag, sent);
	CHECK(holds(in, LEN, seed));
}

TEST(fi_endpoint, tag_format_mpi, EP_RELIABLE, FI_TAGGED, "FI_TAG_MPI: message tag and payload are fields of fi_tag_mpi(), and either or both can be ignored")
{
	ask_format(t, FI_TAG_MPI);
	CHECK_EQ(fi_tag_mpi(-2, 0xff), 0xfffffffffeULL);
	for (unsigned i = 0; i < 4; i++)
		send_tag(t, fi_tag_mpi(100 + i % 2, i / 2), i + 1);
	receives(t, fi_tag_mpi(101, 1), 0, fi_tag_mpi(101, 1), 4);
	receives(t, fi_tag_mpi(0, 1), FI_MPI_IGNORE_TAG, fi_tag_mpi(100, 1), 3);
	receives(t, fi_tag_mpi(101, 9), FI_MPI_IGNORE_PAYLOAD, fi_tag_mpi(101, 0), 2);
	receives(t, 0, FI_MPI_IGNORE_TAG | FI_MPI_IGNORE_PAYLOAD, fi_tag_mpi(100, 0), 1);
	send_tag(t, fi_tag_mpi(-1, 255), 5);
	receives(t, fi_tag_mpi(-1, 255), 0, fi_tag_mpi(-1, 255), 5);
}

TEST(fi_endpoint, tag_format_ccl, EP_RELIABLE, FI_TAGGED, "FI_TAG_CCL: the payload identifier is the tag, compared as it is")
{
	ask_format(t, FI_TAG_CCL);
	for (unsigned i = 0; i < 3; i++)
		send_tag(t, i, i + 1);
	for (unsigned i = 3; i-- > 0;)
		receives(t, i, 0, i, i + 1);
}

TEST(fi_endpoint, tag_format_fields, EP_RELIABLE, FI_TAGGED, "A pattern of bits: tags of as many fields, of that size, match by field")
{
	ask_format(t, 0x30f0ff); // fields of 2, 6, 4, 4 and 8 bits
	CHECK(t->info->ep_attr->mem_tag_format >> 21);
	send_tag(t, 0x31f2aa, 1);
	send_tag(t, 0x21f2bb, 2);
	receives(t, 0x2000bb, 0x0fff00, 0x21f2bb, 2);
	receives(t, 0x31f000, 0x000fff, 0x31f2aa, 1);
}

// ---- User identifiers

static void user_ids(struct env *t)
{
	t->hints->domain_attr->caps |= FI_AV_USER_ID;
	env_info(t);
	CHECK(t->info->domain_attr->caps & FI_AV_USER_ID);
}

// Returns the source of the next message at b.
static fi_addr_t source_of_next(struct env *t, bool unexpected)
{
	struct buf in = new_buf(t, LEN, 0);
	struct fi_cq_tagged_entry comp;
	fi_addr_t from = 12345;
	ssize_t rc;

	if (!unexpected)
		post_recv(t, &t->b, in);
	post_send(t, &t->a, new_buf(t, LEN, 1));
	if (unexpected) {
		turn(t);
		post_recv(t, &t->b, in);
	}
	ONCE(t, (rc = fi_cq_readfrom(t->b.rxcq, &comp, 1, &from)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	return from;
}

TEST(fi_av, user_id_set_later, EP_RDM, FI_MSG | FI_SOURCE | FI_AV_USER_ID, "A vector with FI_AV_USER_ID: an address has the identifier FI_ADDR_NOTAVAIL until fi_av_set_user_id gives it one")
{
	user_ids(t);
	PAIR(t, .av.flags = FI_AV_USER_ID);
	CHECK_EQ(source_of_next(t, false), FI_ADDR_NOTAVAIL);
	CHECK_EQ(source_of_next(t, true), FI_ADDR_NOTAVAIL);
	for (unsigned i = 0; i < 2; i++) {
		OK(fi_av_set_user_id(t->b.av, t->b.peer, 0xabcdef00 + i, 0));
		CHECK_EQ(source_of_next(t, false), 0xabcdef00 + i);
		CHECK_EQ(source_of_next(t, true), 0xabcdef00 + i);
	}
}

TEST(fi_av, user_id_arguments, EP_RDM, FI_MSG | FI_AV_USER_ID, "An identifier for what is no address of the vector is refused, so are flags; and FI_AV_USER_ID at insertion into such a vector")
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .flags = FI_AV_USER_ID };
	struct fid_av *av;
	fi_addr_t id = 7;

	user_ids(t);
	open_domain(t);
	open_av_by_name(t);
	OK(fi_av_open(t->domain, &attr, &av, NULL));
	keep(t, &av->fid);
	CHECK_RC(fi_av_set_user_id(av, 0, 1, 0), -FI_EINVAL);
	CHECK(fi_av_insertsvc(av, "127.0.0.1", "7471", &id, FI_AV_USER_ID, NULL) < 0);
	CHECK_RC(fi_av_insertsvc(av, "127.0.0.1", "7471", &id, 0, NULL), 1);
	OK(fi_av_set_user_id(av, id, 1, 0));
	CHECK(fi_av_set_user_id(av, id, 1, FI_MORE) < 0);
	CHECK_RC(fi_av_set_user_id(av, id + 1, 1, 0), -FI_EINVAL);
}

TEST(fi_av, user_id_sends_by_address, EP_RDM, FI_MSG | FI_SOURCE | FI_DIRECTED_RECV | FI_AV_USER_ID, "Sends and directed receives go on naming the address, whatever its identifier")
{
	struct buf in = new_buf(t, LEN, 0);
	struct op recv;

	user_ids(t);
	PAIR(t, .av.flags = FI_AV_USER_ID);
	OK(fi_av_set_user_id(t->a.av, t->a.peer, 77, 0));
	OK(fi_av_set_user_id(t->b.av, t->b.peer, 78, 0));
	recv = op_of(RECV, false, in, t->b.peer);
	op_post(t, t->b.ep, &recv);
	post_send(t, &t->a, new_buf(t, LEN, 3));
	done(t, t->b.rxcq, recv.ctx, FI_MSG | FI_RECV);
	CHECK(holds(in, LEN, 3));
}

TEST(fi_av, set_user_id_needs_the_flag, EP_AV, FI_MSG, "fi_av_set_user_id is for vectors that were opened with FI_AV_USER_ID")
{
	struct fid_av *av = open_av(t, FI_AV_TABLE);
	char addr[ADDR_ROOM];

	put_address(t, 0, addr);
	CHECK_RC(fi_av_insert(av, addr, 1, NULL, 0, NULL), 1);
	CHECK(fi_av_set_user_id(av, 0, 5, 0) < 0);
}

// ---- Capabilities on request

TEST(fi_getinfo, only_for_who_asks, EP_ANY, FI_MSG, "Capabilities and orders that cost something are not in the result unless they were asked for")
{
	uint64_t costs = FI_TAGGED_MULTI_RECV | FI_TAGGED_DIRECTED_RECV | FI_EXACT_DIRECTED_RECV | FI_AV_USER_ID;

	if (!strcmp(t->prov, "shm"))
		costs &= ~FI_AV_USER_ID; // always offered
	t->hints->caps = 0;
	t->hints->tx_attr->caps = t->hints->rx_attr->caps = 0;
	env_info(t);
	CHECK_EQ((t->info->caps | t->info->rx_attr->caps | t->info->domain_attr->caps) & costs, 0);
	if (strcmp(t->prov, "sockets")) // always offered
		CHECK_EQ(t->info->tx_attr->msg_order & (FI_ORDER_WAR | FI_ORDER_SAR), 0);
	CHECK_EQ(t->info->tx_attr->comp_order | t->info->rx_attr->comp_order, 0);
}

TEST(fi_getinfo, modes_not_needed, EP_ANY, FI_MSG, "An application that is ready for every mode learns which it has to use; without FI_MSG_PREFIX there is no prefix")
{
	t->hints->mode = ~UINT64_C(0);
	t->hints->ep_attr->msg_prefix_size = 0;
	env_info(t);
	CHECK_EQ(t->info->tx_attr->mode & ~t->info->mode, 0);
	CHECK_EQ(t->info->rx_attr->mode & ~t->info->mode, 0);
	if (!(t->info->mode & FI_MSG_PREFIX))
		CHECK_EQ(t->info->ep_attr->msg_prefix_size, 0);
	else
		CHECK_EQ(t->info->ep_attr->msg_prefix_size % 8, 0);
}

// ---- Unknown commands

TEST(fi_control, unknown_commands, EP_RELIABLE, FI_MSG, "Every object refuses a command that it does not know")
{
	struct fid *objects[8];
	struct buf mem = new_buf(t, LEN, 0);
	unsigned count = 0;
	int value = 0;

	PAIR(t);
	objects[count++] = &reg(t, mem.mem, mem.len, FI_RECV)->fid;
	objects[count++] = &open_cntr(t, FI_WAIT_NONE)->fid;
	objects[count++] = &t->fabric->fid;
	objects[count++] = &t->domain->fid;
	objects[count++] = &t->a.ep->fid;
	objects[count++] = &t->a.txcq->fid;
	if (t->a.av)
		objects[count++] = &t->a.av->fid;
	if (t->eq)
		objects[count++] = &t->eq->fid;
	for (unsigned i = 0; i < count; i++) {
		CHECK(fi_control(objects[i], 9999, &value) < 0);
		CHECK(fi_get_val(objects[i], 9999, &value) < 0);
		CHECK(fi_set_val(objects[i], 9999, &value) < 0);
	}
}

TEST(fi_profile, not_offered, EP_RELIABLE, FI_MSG, "Objects without a profile answer fi_profile_open with -FI_ENOSYS")
{
	struct fid_profile *profile = NULL;

	PAIR(t);
	CHECK_RC(fi_profile_open(&t->fabric->fid, 0, &profile, NULL), -FI_ENOSYS);
	CHECK_RC(fi_profile_open(&t->a.txcq->fid, 0, &profile, NULL), -FI_ENOSYS);
	CHECK(!profile);
}

static struct fid_profile *open_profile(struct env *t, struct fid *of)
{
	struct fid_profile *profile = NULL;

	OK_OR_SKIP(fi_profile_open(of, 0, &profile, &t->a));
	keep(t, &profile->fid);
	CHECK_EQ(profile->fid.fclass, FI_CLASS_PROFILE);
	CHECK(profile->fid.context == &t->a);
	return profile;
}

static uint64_t read_count(struct fid_profile *profile)
{
	uint64_t value = 12345;

	OK(fi_profile_read_u64(profile, FI_VAR_UNEXP_MSG_CNT, &value));
	return value;
}

TEST(fi_profile, lists, EP_RELIABLE, FI_MSG, "Variables and events are counted and described; a variable or an event that is not in the lists is -FI_EINVAL")
{
	PAIR(t);
	struct fid_profile *profile = open_profile(t, &t->b.ep->fid);
	struct fi_profile_desc list[16] = { 0 };
	size_t count = 0, events = 0;
	uint64_t value;

	CHECK_RC(fi_profile_query_vars(profile, NULL, &count), 0);
	CHECK(count > 0 && count <= 16);
	count = 16;
	CHECK_RC(fi_profile_query_vars(profile, list, &count), (ssize_t)count);
	for (size_t i = 0; i < count; i++) {
		CHECK(list[i].name && list[i].desc && list[i].size);
		if (list[i].id == FI_VAR_UNEXP_MSG_CNT) {
			CHECK_EQ(list[i].datatype_sel, fi_primitive_type);
			CHECK_EQ(list[i].datatype.primitive, FI_UINT64);
			CHECK_EQ(list[i].size, sizeof(uint64_t));
		}
	}
	CHECK_RC(fi_profile_query_events(profile, NULL, &events), 0);
	CHECK_RC(fi_profile_read_u64(profile, 9999, &value), -FI_EINVAL);
	CHECK_RC(fi_profile_register_callback(profile, 9999, NULL, NULL), -FI_EINVAL);
}

BOTH(profile_unexpected, EP_AV, 0, "fi_profile(3): FI_VAR_UNEXP_MSG_CNT is the number of messages that wait for a receive, of an endpoint or the domain")
{
	PAIR(t);
	struct fid_profile *ep = open_profile(t, &t->b.ep->fid), *other = open_profile(t, &t->a.ep->fid);
	struct fid_profile *domain = open_profile(t, &t->domain->fid);

	CHECK_EQ(read_count(ep), 0);
	for (unsigned i = 0; i < 3; i++) {
		struct op send = op_of(SEND, tagged, new_buf(t, LEN, i + 1), t->a.peer);

		op_post(t, t->a.ep, &send);
	}
	ONCE(t, read_count(ep) == 3);
	CHECK_EQ(read_count(domain), 3);
	CHECK_EQ(read_count(other), 0);
	fi_profile_start_reads(ep, 0);
	for (unsigned i = 0; i < 3; i++) {
		struct op recv = op_of(RECV, tagged, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);

		op_post(t, t->b.ep, &recv);
		done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
		CHECK_EQ(read_count(domain), 2 - i);
		CHECK_EQ(read_count(ep), 3); // the value at fi_profile_start_reads
	}
	fi_profile_end_reads(ep, 0);
	CHECK_EQ(read_count(ep), 0);
}

TEST(fi_profile, keeps_its_object, EP_RELIABLE, FI_MSG, "What a profile tells of cannot be closed before it")
{
	PAIR(t);
	struct fid_profile *profile = open_profile(t, &t->b.ep->fid);

	CHECK_RC(fi_close(&t->b.ep->fid), -FI_EBUSY);
	forget(t, &profile->fid);
	OK(fi_profile_close(profile));
}

TEST(fi_control, export_not_offered, EP_RELIABLE, FI_MSG, "Objects that cannot be exported say so, and import nothing")
{
	struct fid *exported = NULL;

	PAIR(t);
	CHECK(fi_export_fid(&t->domain->fid, 0, &exported, NULL) < 0);
	CHECK(fi_export_fid(&t->a.ep->fid, 0, &exported, NULL) < 0);
	CHECK(!exported);
	CHECK(fi_import_fid(&t->fabric->fid, &t->domain->fid, 0) < 0);
}

// ---- Traffic classes, keys

TEST(fi_getinfo, traffic_classes, EP_ANY, FI_MSG, "Traffic classes of the hints, of endpoints and of the domain, are in the result; programs before API 1.9 have none")
{
	t->hints->tx_attr->tclass = FI_TC_LOW_LATENCY;
	t->hints->domain_attr->tclass = FI_TC_BULK_DATA;
	env_info(t);
	CHECK_EQ(t->info->tx_attr->tclass, FI_TC_LOW_LATENCY);
	CHECK_EQ(t->info->domain_attr->tclass, FI_TC_BULK_DATA);
	t->hints->tx_attr->tclass = 0;
	env_info(t);
	CHECK_EQ(t->info->tx_attr->tclass, FI_TC_UNSPEC);
	t->hints->tx_attr->tclass = FI_TC_LOW_LATENCY;
	env_version(t, FI_VERSION(1, 8));
	CHECK_EQ(t->info->tx_attr->tclass, FI_TC_UNSPEC);
	CHECK_EQ(t->info->domain_attr->tclass, FI_TC_UNSPEC);
}

static bool sends_at_once(struct side *side)
{
	int fd = -1, on = -1;
	socklen_t len = sizeof(on);

	OK_OR_SKIP(fi_control(&side->ep->fid, FI_GETWAIT, &fd));
	CHECK(!getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &len));
	return on;
}

TEST(fi_endpoint, bulk_data_does_not_wait, EP_MSG | OURS_ONLY, FI_MSG, "Messages of FI_TC_BULK_DATA do not wait for the acknowledgements of TCP, as with Nagle's algorithm")
{
	t->hints->domain_attr->tclass = FI_TC_BULK_DATA;
	env_info(t);
	PAIR(t);
	CHECK(sends_at_once(&t->a));
	pair_close(t);
	t->a = t->b = (struct side){ 0 };
	t->info->tx_attr->tclass = FI_TC_LOW_LATENCY;
	PAIR(t);
	CHECK(sends_at_once(&t->a));
}

TEST(fi_getinfo, auth_key_before_1_5, EP_ANY, FI_MSG, "Keys in the hints of a program before API 1.5 are ignored")
{
	t->hints->ep_attr->auth_key = calloc(1, 1 << 16);
	t->hints->ep_attr->auth_key_size = 1 << 16; // longer than any valid key
	t->hints->domain_attr->auth_key = calloc(1, 1 << 16);
	t->hints->domain_attr->auth_key_size = 1 << 16;
	CHECK_RC(env_try_info(t), -FI_ENODATA);
	t->version = FI_VERSION(1, 4);
	t->hints->domain_attr->mr_mode = MR_UNSPEC;
	t->hints->mode |= LOCAL_MR_MODE;
	OK(env_try_info(t));
	CHECK_EQ(t->info->ep_attr->auth_key_size, 0);
	CHECK_EQ(t->info->domain_attr->auth_key_size, 0);
	PAIR(t);
}

// ---- Capabilities of one side, and modifiers alone

static void passes(struct env *t, bool tagged)
{
	struct buf in = new_buf(t, LEN, 0);
	struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC), send = op_of(SEND, tagged, new_buf(t, LEN, 1), t->a.peer);

	op_post(t, t->b.ep, &recv);
	op_post(t, t->a.ep, &send);
	done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
	done(t, t->a.txcq, send.ctx, SENT(tagged));
	CHECK(holds(in, LEN, 1));
}

TEST(fi_getinfo, directions_alone, EP_ANY, FI_MSG, "FI_SEND and FI_RECV without FI_MSG and FI_TAGGED: an endpoint for messages of both kinds, connected ones for those without tags")
{
	t->hints->caps = FI_SEND | FI_RECV;
	env_info(t);
	PAIR(t);
	passes(t, false);
	if (t->type == FI_EP_RDM)
		passes(t, true);
}

TEST(fi_getinfo, one_direction_alone, EP_RDM, FI_MSG, "FI_SEND alone: an endpoint that sends messages of both kinds")
{
	struct fid_ep *sender;
	struct fid_av *av;
	fi_addr_t peer;

	t->hints->caps = FI_MSG | FI_TAGGED;
	env_info(t);
	PAIR(t);
	passes(t, false);
	t->hints->caps = FI_SEND;
	env_info(t);
	av = open_av(t, FI_AV_TABLE);
	CHECK_RC(fi_av_insert(av, t->b.name, 1, &peer, 0, NULL), 1);
	OK(fi_endpoint(t->domain, t->info, &sender, NULL));
	keep(t, &sender->fid);
	OK(fi_ep_bind(sender, &t->a.txcq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(sender, &av->fid, 0));
	OK(fi_enable(sender));
	t->a.ep = sender;
	t->a.peer = peer;
	passes(t, false);
	passes(t, true);
}

TEST(fi_endpoint, sides_with_less, EP_RDM, FI_MSG | FI_TAGGED | FI_RMA, "Capabilities of the transmit or receive attributes that are less than the endpoint's leave out the others: -FI_ENOSYS")
{
	struct buf buf = new_buf(t, LEN, 1);

	t->hints->tx_attr->caps = FI_MSG | FI_SEND;
	t->hints->rx_attr->caps = FI_TAGGED | FI_RECV;
	env_info(t);
	PAIR(t);
	CHECK_RC(fi_tsend(t->a.ep, buf.mem, LEN, buf.desc, t->a.peer, TAG, new_ctx()), -FI_ENOSYS);
	CHECK_RC(fi_tinject(t->a.ep, buf.mem, 8, t->a.peer, TAG), -FI_ENOSYS);
	CHECK_RC(fi_write(t->a.ep, buf.mem, LEN, buf.desc, t->a.peer, 0, 1, new_ctx()), -FI_ENOSYS);
	CHECK_RC(fi_recv(t->b.ep, buf.mem, LEN, buf.desc, FI_ADDR_UNSPEC, new_ctx()), -FI_ENOSYS);
	POST(t, fi_send(t->a.ep, buf.mem, LEN, buf.desc, t->a.peer, new_ctx()));
	POST(t, fi_trecv(t->b.ep, buf.mem, LEN, buf.desc, FI_ADDR_UNSPEC, TAG, 0, new_ctx()));
}
