// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_av(3), fi_av_remove: messages of an address that has left the vector have no source, whichever connection brings
//! them, and never the index of the address that replaces it.
#include "transfer.h"

#include <dirent.h>

enum { LEN = 32 };

// `y` is the receiver. `x` is in its vector first and is removed; `z` gets the index of x.
struct trio {
	struct side x, y, z;
	fi_addr_t first, second; // indexes of x and z at y
};

static void open_side(struct env *t, struct side *side)
{
	open_bound_ep(t, side);
	OK(fi_enable(side->ep));
	side->namelen = sizeof(side->name);
	OK(fi_getname(&side->ep->fid, side->name, &side->namelen));
}

static fi_addr_t insert(struct side *at, struct side *other)
{
	fi_addr_t number = FI_ADDR_NOTAVAIL;

	CHECK_EQ(fi_av_insert(at->av, other->name, 1, &number, 0, NULL), 1);
	return number;
}

static struct trio open_trio(struct env *t)
{
	struct trio trio = { 0 };

	open_side(t, &trio.x);
	open_side(t, &trio.y);
	open_side(t, &trio.z);
	trio.first = insert(&trio.y, &trio.x);
	trio.x.peer = insert(&trio.x, &trio.y);
	trio.z.peer = insert(&trio.z, &trio.y);
	return trio;
}

static void replace(struct trio *trio)
{
	OK(fi_av_remove(trio->y.av, &trio->first, 1, 0));
	trio->second = insert(&trio->y, &trio->z);
	CHECK_EQ(trio->second, trio->first);
}

static struct op post(struct env *t, struct side *from, enum form form, bool tagged, fi_addr_t to, unsigned seed)
{
	struct op op = op_of(form, tagged, new_buf(t, LEN, form == RECV ? 0 : seed), to);

	op_post(t, from->ep, &op);
	return op;
}

static fi_addr_t source(struct env *t, struct side *at)
{
	struct fi_cq_tagged_entry entry;
	fi_addr_t from = 12345;
	ssize_t rc;

	ONCE(t, (rc = fi_cq_readfrom(at->rxcq, &entry, 1, &from)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	return from;
}

static fi_addr_t source_of_next(struct env *t, struct side *from, struct side *at, bool tagged)
{
	post(t, at, RECV, tagged, FI_ADDR_UNSPEC, 0);
	post(t, from, SEND, tagged, from->peer, 1);
	return source(t, at);
}

// Both send before either receives anything, so that two connections cross.
static void cross(struct env *t, struct trio *trio, bool tagged)
{
	post(t, &trio->x, RECV, tagged, FI_ADDR_UNSPEC, 0);
	post(t, &trio->y, RECV, tagged, FI_ADDR_UNSPEC, 0);
	post(t, &trio->x, SEND, tagged, trio->x.peer, 1);
	post(t, &trio->y, SEND, tagged, trio->first, 2);
	CHECK_EQ(source(t, &trio->y), trio->first);
	wait_comp(t, trio->x.rxcq, NULL);
}

BOTH(source_of_crossed, EP_RDM | OURS_ONLY, FI_SOURCE, "A peer whose first message crossed ours is unknown once it is removed, and known again once it is inserted")
{
	struct trio trio = open_trio(t);
	fi_addr_t again;

	cross(t, &trio, tagged);
	replace(&trio);
	CHECK(source_of_next(t, &trio.x, &trio.y, tagged) == FI_ADDR_NOTAVAIL);
	CHECK_EQ(source_of_next(t, &trio.z, &trio.y, tagged), trio.second);
	again = insert(&trio.y, &trio.x);
	CHECK_EQ(source_of_next(t, &trio.x, &trio.y, tagged), again);
	CHECK_EQ(source_of_next(t, &trio.z, &trio.y, tagged), trio.second);
}

BOTH(directed_after_crossed, EP_RDM | OURS_ONLY, FI_SOURCE | FI_DIRECTED_RECV, "A directed receive does not take a message of a removed peer whose first message crossed ours")
{
	struct trio trio = open_trio(t);
	struct op directed, any;

	cross(t, &trio, tagged);
	replace(&trio);
	directed = post(t, &trio.y, RECV, tagged, trio.second, 0);
	post(t, &trio.x, SEND, tagged, trio.x.peer, 3);
	wait_comp(t, trio.x.txcq, NULL);
	turn(t);
	nothing(trio.y.rxcq);
	post(t, &trio.z, SEND, tagged, trio.z.peer, 4);
	done(t, trio.y.rxcq, directed.ctx, RECEIVED(tagged));
	any = post(t, &trio.y, RECV, tagged, FI_ADDR_UNSPEC, 0);
	done(t, trio.y.rxcq, any.ctx, RECEIVED(tagged));
}

TEST(fi_rma, source_of_crossed, EP_RDM | OURS_ONLY, FI_MSG | FI_RMA | FI_SOURCE, "Write data of a removed peer does not carry the number of the next peer, also if first messages crossed")
{
	struct trio trio = open_trio(t);
	struct buf out = new_buf(t, LEN, 1);
	struct region target = new_region(t, &trio.y, new_buf(t, LEN, 0), FI_REMOTE_WRITE);

	cross(t, &trio, false);
	replace(&trio);
	POST(t, fi_writedata(trio.x.ep, out.mem, LEN, out.desc, DATA, trio.x.peer, target.at, target.key, new_ctx()));
	CHECK(source(t, &trio.y) == FI_ADDR_NOTAVAIL);
}

BOTH(source_of_self_again, EP_RDM | OURS_ONLY, FI_SOURCE, "An endpoint that is removed from its own vector and inserted again knows itself by the new number")
{
	struct side own = { 0 }, other = { 0 };

	open_side(t, &own);
	open_side(t, &other);
	own.peer = insert(&own, &own);
	CHECK_EQ(source_of_next(t, &own, &own, tagged), own.peer);
	OK(fi_av_remove(own.av, &own.peer, 1, 0));
	CHECK_EQ(insert(&own, &other), own.peer);
	own.peer = insert(&own, &own);
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(source_of_next(t, &own, &own, tagged), own.peer);
}

BOTH(source_of_kept, EP_AV | OURS_ONLY, FI_SOURCE, "A message that waits for its receive has no source once its sender is removed, and the new one once that is inserted again")
{
	struct trio trio = open_trio(t);
	fi_addr_t again;

	for (unsigned i = 0; i < 2; i++) {
		post(t, &trio.x, SEND, tagged, trio.x.peer, 1);
		wait_comp(t, trio.x.txcq, NULL);
	}
	turn(t);
	replace(&trio);
	post(t, &trio.y, RECV, tagged, FI_ADDR_UNSPEC, 0);
	CHECK(source(t, &trio.y) == FI_ADDR_NOTAVAIL);
	again = insert(&trio.y, &trio.x);
	post(t, &trio.y, RECV, tagged, FI_ADDR_UNSPEC, 0);
	CHECK_EQ(source(t, &trio.y), again);
}

TEST(fi_tagged, source_of_claimed, EP_RDM | OURS_ONLY, FI_TAGGED | FI_SOURCE, "A claimed message whose sender is removed does not complete with the number of the next peer")
{
	struct trio trio = open_trio(t);
	struct buf in = new_buf(t, LEN, 0);
	struct iovec iov = { in.mem, LEN };
	struct fi_msg_tagged msg = {
		.msg_iov = &iov, .desc = &in.desc, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .tag = TAG, .context = new_ctx(),
	};
	struct fi_cq_tagged_entry entry;
	ssize_t rc = -FI_EAVAIL;

	post(t, &trio.x, SEND, true, trio.x.peer, 1);
	while (rc == -FI_EAVAIL) { // until the message has arrived
		POST(t, fi_trecvmsg(trio.y.ep, &msg, FI_PEEK | FI_CLAIM));
		ONCE(t, (rc = fi_cq_read(trio.y.rxcq, &entry, 1)) != -FI_EAGAIN);
		if (rc == -FI_EAVAIL)
			failed(t, trio.y.rxcq, msg.context, FI_ENOMSG);
	}
	replace(&trio);
	POST(t, fi_trecvmsg(trio.y.ep, &msg, FI_CLAIM));
	CHECK(source(t, &trio.y) == FI_ADDR_NOTAVAIL);
	CHECK(holds(in, LEN, 1));
}

TEST(fi_cq, source_err_of_removed, EP_AV | OURS_ONLY, FI_MSG | FI_SOURCE | FI_SOURCE_ERR, "With FI_SOURCE_ERR a message that was kept when its sender was removed is reported with the sender's address")
{
	struct trio trio = open_trio(t);
	struct fi_cq_tagged_entry entry;
	uint8_t addr[256];
	struct fi_cq_err_entry error = { .err_data = addr, .err_data_size = sizeof(addr) };

	post(t, &trio.x, SEND, false, trio.x.peer, 1);
	wait_comp(t, trio.x.txcq, NULL);
	turn(t);
	replace(&trio);
	post(t, &trio.y, RECV, false, FI_ADDR_UNSPEC, 0);
	ONCE(t, fi_cq_read(trio.y.rxcq, &entry, 1) == -FI_EAVAIL);
	CHECK_RC(fi_cq_readerr(trio.y.rxcq, &error, 0), 1);
	CHECK_EQ(error.err, FI_EADDRNOTAVAIL);
	CHECK(error.err_data_size > 0 && same_address(t, addr, trio.x.name));
}

TEST(fi_av, user_id_of_crossed, EP_RDM | OURS_ONLY, FI_MSG | FI_SOURCE, "A removed peer whose first message crossed ours does not carry the identifier of the next peer (FI_AV_USER_ID)")
{
	struct trio trio = open_trio(t);
	fi_addr_t id = 4711;

	cross(t, &trio, false);
	OK(fi_av_remove(trio.y.av, &trio.first, 1, 0));
	if (fi_av_insert(trio.y.av, trio.z.name, 1, &id, FI_AV_USER_ID, NULL) != 1)
		SKIP("no identifiers");
	CHECK_EQ(id, trio.first);
	CHECK(source_of_next(t, &trio.x, &trio.y, false) == FI_ADDR_NOTAVAIL);
	CHECK_EQ(source_of_next(t, &trio.z, &trio.y, false), 4711);
}

// ---- FI_AV_REMOVE_CLEANUP

static unsigned descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned count = 0;

	CHECK(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

// Whether removal ends both of two crossing connections: each has a descriptor at either end.
static void cleans_up(struct env *t, const char *prov)
{
	struct trio trio;
	unsigned before;

	start_as(t, prov, FI_EP_RDM, FI_MSG | FI_SOURCE);
	trio = open_trio(t);
	before = descriptors();
	cross(t, &trio, false);
	CHECK(descriptors() >= before + 4);
	OK(fi_av_remove(trio.y.av, &trio.first, 1, 0));
	ONCE(t, descriptors() == before);
}

TEST(fi_av, remove_cleanup_of_crossed, CORE | OURS_ONLY, 0, "With FI_AV_REMOVE_CLEANUP removing an address ends all connections with the peer: both that crossed (shm)")
{
	setenv("FI_AV_REMOVE_CLEANUP", "1", 1);
	cleans_up(t, "shm");
}
