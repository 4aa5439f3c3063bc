// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_av(3), `name`, `map_addr` and FI_READ: address vectors that processes share.
#include "harness.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 300 };

// A name for this test only, the same in the processes that it forks.
static char name[64];

static struct fi_av_attr named(uint64_t flags)
{
	if (!name[0])
		snprintf(name, sizeof(name), "conformance-%d", getpid());
	return (struct fi_av_attr){ .type = FI_AV_TABLE, .name = name, .flags = flags };
}

static int try_named(struct env *t, struct fi_av_attr *attr, struct fid_av **av)
{
	open_domain(t);
	return fi_av_open(t->domain, attr, av, NULL);
}

static struct fid_av *open_named(struct env *t, uint64_t flags)
{
	struct fi_av_attr attr = named(flags);
	struct fid_av *av;

	OK_OR_SKIP(try_named(t, &attr, &av));
	keep(t, &av->fid);
	return av;
}

static fi_addr_t insert(struct env *t, struct fid_av *av, unsigned which)
{
	char addr[ADDR_ROOM];
	fi_addr_t at;

	put_address(t, which, addr);
	CHECK_RC(fi_av_insert(av, addr, 1, &at, 0, NULL), 1);
	return at;
}

// Returns which address is there; -1: none.
static int at(struct env *t, struct fid_av *av, fi_addr_t fi_addr)
{
	char addr[ADDR_ROOM];
	size_t len = sizeof(addr);

	return fi_av_lookup(av, fi_addr, addr, &len) ? -1 : which_address(t, addr);
}

TEST(fi_av, shared_insert_seen, EP_AV, FI_MSG | FI_SHARED_AV, "What is inserted through one handle of a named vector has the same fi_addr_t in all")
{
	struct fid_av *first = open_named(t, 0), *second = open_named(t, 0), *reader = open_named(t, FI_READ);
	fi_addr_t one = insert(t, first, 1), two = insert(t, second, 2);

	CHECK(one != two);
	CHECK_EQ(at(t, second, one), 1);
	CHECK_EQ(at(t, first, two), 2);
	CHECK_EQ(at(t, reader, one), 1);
	CHECK_EQ(at(t, reader, two), 2);
	CHECK_EQ(insert(t, second, 1), one);
	CHECK_EQ(at(t, open_named(t, FI_READ), two), 2);
}

TEST(fi_av, shared_read_only, EP_AV, FI_MSG | FI_SHARED_AV, "A vector opened with FI_READ must exist, and takes neither insertions nor removals")
{
	struct fi_av_attr attr = named(FI_READ);
	struct fid_av *av, *reader;
	char addr[ADDR_ROOM];
	fi_addr_t one;

	CHECK(try_named(t, &attr, &av) < 0);
	av = open_named(t, 0);
	one = insert(t, av, 1);
	reader = open_named(t, FI_READ);
	put_address(t, 2, addr);
	CHECK(fi_av_insert(reader, addr, 1, NULL, 0, NULL) < 0);
	CHECK(fi_av_remove(reader, &one, 1, 0) < 0);
	CHECK_EQ(at(t, reader, one), 1);
}

TEST(fi_av, shared_map_addr, EP_AV, FI_MSG | FI_SHARED_AV, "map_addr is returned where it was 0, and has the fi_addr_t of each address in the order of insertion")
{
	struct fi_av_attr attr = named(0), again = named(FI_READ);
	struct fid_av *av, *reader;
	fi_addr_t one;

	attr.count = 100;
	OK_OR_SKIP(try_named(t, &attr, &av));
	keep(t, &av->fid);
	CHECK(attr.map_addr != NULL);
	OK(try_named(t, &again, &reader));
	keep(t, &reader->fid);
	one = insert(t, av, 1);
	CHECK_EQ(((fi_addr_t *)attr.map_addr)[0], one);
	CHECK_EQ(((fi_addr_t *)again.map_addr)[0], one);
	for (unsigned i = 1; i < 100; i++)
		CHECK_EQ(((fi_addr_t *)again.map_addr)[i], insert(t, av, 1 + i));
}

TEST(fi_av, shared_remove, EP_AV, FI_MSG | FI_SHARED_AV, "A removed address is gone for all once it was removed as often as inserted; its place is not given to another")
{
	struct fid_av *first = open_named(t, 0), *second = open_named(t, 0);
	fi_addr_t one = insert(t, first, 1), two = insert(t, first, 2), three;

	insert(t, second, 1);
	OK(fi_av_remove(first, &one, 1, 0));
	CHECK_EQ(at(t, first, one), 1);
	CHECK_EQ(at(t, second, one), 1);
	OK(fi_av_remove(second, &one, 1, 0));
	CHECK_EQ(at(t, first, one), -1);
	CHECK_EQ(at(t, second, one), -1);
	CHECK_RC(fi_av_remove(first, &one, 1, 0), -FI_EINVAL);
	three = insert(t, second, 3);
	CHECK(three != one && three != two);
	CHECK_EQ(at(t, first, three), 3);
	CHECK_EQ(at(t, first, two), 2);
}

TEST(fi_av, shared_ends_with_last, EP_AV, FI_MSG | FI_SHARED_AV, "A named vector lives as long as somebody has it open; opened anew it is empty")
{
	struct fi_av_attr attr = named(FI_READ);
	struct fid_av *first = open_named(t, 0), *second = open_named(t, 0), *none;
	fi_addr_t one = insert(t, first, 1);

	shut(t, &first->fid);
	CHECK_EQ(at(t, second, one), 1);
	shut(t, &second->fid);
	CHECK(try_named(t, &attr, &none) < 0);
	CHECK_EQ(at(t, open_named(t, 0), one), -1);
}

TEST(fi_av, shared_names_differ, EP_AV, FI_MSG | FI_SHARED_AV, "Vectors of different names, and those without, have nothing in common")
{
	struct fid_av *first = open_named(t, 0), *second, *alone = open_av(t, FI_AV_TABLE);

	insert(t, first, 1);
	strcat(name, "/other");
	second = open_named(t, 0);
	CHECK_EQ(at(t, second, 0), -1);
	CHECK_EQ(at(t, alone, 0), -1);
	CHECK_EQ(at(t, first, 0), 1);
}

TEST(fi_av, shared_not_enabled, EP_AV | OURS_ONLY, FI_MSG, "Without FI_SHARED_AV a vector with a name is refused, and one to be read without a name is an error")
{
	struct fi_av_attr attr = named(0), nameless = { .type = FI_AV_TABLE, .flags = FI_READ };
	struct fid_av *av;

	CHECK_RC(try_named(t, &nameless, &av), -FI_EINVAL);
	if (t->info->caps & FI_SHARED_AV)
		SKIP("given without being asked for");
	CHECK_RC(try_named(t, &attr, &av), -FI_ENOSYS);
}

TEST(fi_av, shared_talk, EP_RDM, FI_MSG | FI_SHARED_AV | FI_SOURCE, "Endpoints reach, and recognise, peers that others have inserted")
{
	struct fi_av_attr attr = named(FI_READ);
	struct fid_av *writer;
	struct fi_cq_tagged_entry comp;
	struct fi_context2 ctx[2];
	char out[8] = "written", in[8];
	fi_addr_t a, b, from = 1234;
	ssize_t rc;

	writer = open_named(t, 0);
	for (unsigned i = 0; i < 2; i++) {
		struct side *side = i ? &t->b : &t->a;

		side->info = t->info;
		side->txcq = side->rxcq = open_cq(t, FI_CQ_FORMAT_TAGGED, FI_WAIT_NONE);
		OK(try_named(t, &attr, &side->av));
		keep(t, &side->av->fid);
		side->ep = open_ep(t, t->info);
		OK(fi_ep_bind(side->ep, &side->av->fid, 0));
		OK(fi_ep_bind(side->ep, &side->txcq->fid, FI_TRANSMIT | FI_RECV));
		OK(fi_enable(side->ep));
		side->namelen = sizeof(side->name);
		OK(fi_getname(&side->ep->fid, side->name, &side->namelen));
	}
	CHECK_RC(fi_av_insert(writer, t->a.name, 1, &a, 0, NULL), 1);
	CHECK_RC(fi_av_insert(writer, t->b.name, 1, &b, 0, NULL), 1);
	POST(t, fi_recv(t->b.ep, in, sizeof(in), NULL, FI_ADDR_UNSPEC, &ctx[0]));
	POST(t, fi_send(t->a.ep, out, sizeof(out), NULL, b, &ctx[1]));
	ONCE(t, (rc = fi_cq_readfrom(t->b.rxcq, &comp, 1, &from)) != -FI_EAGAIN);
	CHECK_RC(rc, 1);
	CHECK_EQ(from, a);
	CHECK(!memcmp(in, out, sizeof(in)));
	wait_comp(t, t->a.txcq, &comp);
	CHECK_RC(fi_send(t->a.ep, out, sizeof(out), NULL, b + 1, &ctx[1]), -FI_EINVAL);
}

// Forks a child that runs `body` with objects of its own. Must be called before anything is open.
static pid_t start(struct env *t, void (*body)(struct env *t, int in, int out), int in, int out)
{
	pid_t pid;

	named(0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		body(t, in, out);
		_exit(0);
	}
	return pid;
}

static void tell(int fd, const void *what, size_t len)
{
	CHECK_EQ(write(fd, what, len), len);
}

static void hear(int fd, void *what, size_t len)
{
	CHECK_EQ(read(fd, what, len), len);
}

static void join(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
}

static void look_up(struct env *t, int in, int out)
{
	struct fid_av *av;
	fi_addr_t where;
	int found;

	hear(in, &where, sizeof(where));
	av = open_named(t, FI_READ);
	tell(out, "", 1);
	for (;;) { // until it is killed
		hear(in, &where, sizeof(where));
		found = at(t, av, where);
		tell(out, &found, sizeof(found));
	}
}

TEST(fi_av, shared_other_process, EP_AV, FI_MSG | FI_SHARED_AV, "Another process that opens the vector to read it finds what is inserted before and after; its death harms nobody")
{
	int to[2], from[2], found;
	fi_addr_t where = 0;
	struct fi_av_attr attr = named(FI_READ);
	struct fid_av *av;
	pid_t child;
	char done;

	CHECK(!pipe(to) && !pipe(from));
	child = start(t, look_up, to[0], from[1]);
	av = open_named(t, 0);
	insert(t, av, 7);
	tell(to[1], &where, sizeof(where));
	hear(from[0], &done, 1);
	for (unsigned i = 8; i < 20; i++) {
		tell(to[1], &where, sizeof(where));
		hear(from[0], &found, sizeof(found));
		CHECK_EQ(found, i - 1);
		where = insert(t, av, i);
	}
	CHECK(!kill(child, SIGKILL));
	waitpid(child, NULL, 0);
	where = insert(t, av, 20);
	CHECK_EQ(at(t, av, where), 20);
	shut(t, &av->fid);
	CHECK(try_named(t, &attr, &av) < 0);
}

static void insert_many(struct env *t, int in, int out)
{
	struct fid_av *av = open_named(t, 0);
	char go;

	(void)out;
	hear(in, &go, 1);
	for (unsigned i = 0; i < MANY; i++)
		insert(t, av, i % 2 ? i : (unsigned)(MANY + i) * 2 + (getpid() & 1));
}

TEST(fi_av, shared_at_once, EP_AV, FI_MSG | FI_SHARED_AV, "Processes insert at the same time: each address has one place")
{
	bool seen[10000] = { false };
	unsigned places = 0;
	struct fid_av *av;
	pid_t children[3];
	int to[2];

	CHECK(!pipe(to));
	for (unsigned i = 0; i < 3; i++)
		children[i] = start(t, insert_many, to[0], -1);
	av = open_named(t, 0);
	tell(to[1], "go!", 3);
	for (unsigned i = 0; i < MANY; i++)
		insert(t, av, i);
	for (unsigned i = 0; i < 3; i++)
		join(children[i]);
	for (int which; (which = at(t, av, places)) >= 0; places++) {
		CHECK(!seen[which]);
		seen[which] = true;
	}
	for (unsigned i = 0; i < MANY; i++)
		CHECK(seen[i]);
	CHECK(places >= MANY + MANY / 2);
}
