// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! FI_COMMIT_COMPLETE of fi_cq(3) and fi_rma(3), FI_RMA_PMEM of fi_mr(3): a completion guarantees that the result is
//! durable.
//!
//! Memory does not show whether it is durable. This program defines msync itself, which the library calls as well, and
//! records the arguments.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "process.h"

enum { PAGES = 8, CALLS = 64 };

static struct {
	uintptr_t from, to;
	int flags;
} synced[CALLS];
static unsigned syncs;
static int refuse; // the errno of the next call

int msync(void *addr, size_t len, int flags)
{
	unsigned n = __atomic_fetch_add(&syncs, 1, __ATOMIC_RELAXED);

	if (n < CALLS) {
		synced[n].from = (uintptr_t)addr;
		synced[n].to = (uintptr_t)addr + len;
		synced[n].flags = flags;
	}
	if (refuse) {
		errno = refuse;
		return -1;
	}
	return syscall(SYS_msync, addr, len, flags);
}

static bool is_durable(const void *mem, size_t len)
{
	for (unsigned n = 0; n < CALLS && n < syncs; n++)
		if (synced[n].flags & MS_SYNC && synced[n].from <= (uintptr_t)mem && synced[n].to >= (uintptr_t)mem + len)
			return true;
	return false;
}

// A file to which peers of b may write.
static struct region file_region(struct env *t, uint64_t flags)
{
	char name[] = "/tmp/conformance.XXXXXX";
	size_t size = PAGES * (size_t)sysconf(_SC_PAGESIZE);
	int fd = mkstemp(name);
	struct region region = { .buf.len = size };

	if (fd < 0 || unlink(name) || ftruncate(fd, (off_t)size))
		SKIP("no file in /tmp: %s", strerror(errno));
	region.buf.mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (region.buf.mem == MAP_FAILED)
		SKIP("mmap: %s", strerror(errno));
	close(fd);
	OK(fi_mr_reg(t->domain, region.buf.mem, size, FI_REMOTE_WRITE, 0, ++t->next_key, flags, &region.mr, NULL));
	keep(t, &region.mr->fid);
	region.key = fi_mr_key(region.mr);
	region.at = rma_addr(t, region.buf.mem, 0);
	return region;
}

static void *write_to(struct env *t, struct region *target, size_t offset, struct buf out, uint64_t flags)
{
	struct iovec iov = { out.mem, out.len };
	struct fi_rma_iov rma = { target->at + offset, out.len, target->key };
	struct fi_msg_rma msg = {
		.msg_iov = &iov, .desc = &out.desc, .iov_count = 1, .addr = t->a.peer, .rma_iov = &rma, .rma_iov_count = 1,
		.context = new_ctx(), .data = DATA,
	};

	POST(t, fi_writemsg(t->a.ep, &msg, flags));
	return msg.context;
}

TEST(fi_cq, commit_is_durable, EP_RELIABLE, FI_RMA | FI_RMA_PMEM, "FI_COMMIT_COMPLETE: at the completion what was written to a region with FI_RMA_PMEM is durable, small or large")
{
	struct region target;

	PAIR(t);
	target = file_region(t, FI_RMA_PMEM);
	for (unsigned i = 0; i < 2; i++) {
		struct buf out = new_buf(t, i ? target.buf.len - 100 : 100, i + 1);
		void *ctx = write_to(t, &target, 77, out, FI_COMMIT_COMPLETE);

		done(t, t->a.txcq, ctx, FI_RMA | FI_WRITE);
		CHECK(filled(target.buf.mem + 77, out.len, i + 1));
		CHECK(is_durable(target.buf.mem + 77, out.len));
	}
}

TEST(fi_cq, commit_at_the_target, EP_RELIABLE, FI_RMA | FI_RMA_PMEM | FI_RMA_EVENT, "A completion at the target of a write with FI_COMMIT_COMPLETE says the same")
{
	struct region target;
	struct buf out = new_buf(t, 100, 1);
	struct fi_cq_tagged_entry comp;
	void *ctx;

	PAIR(t);
	target = file_region(t, FI_RMA_PMEM);
	ctx = write_to(t, &target, 0, out, FI_COMMIT_COMPLETE | FI_REMOTE_CQ_DATA);
	wait_comp(t, t->b.rxcq, &comp);
	CHECK_EQ(comp.data, DATA);
	CHECK(is_durable(target.buf.mem, 100));
	done(t, t->a.txcq, ctx, FI_RMA | FI_WRITE);
}

TEST(fi_cq, commit_of_atomics, EP_RELIABLE, FI_RMA | FI_RMA_PMEM | FI_ATOMIC, "FI_COMMIT_COMPLETE of an atomic operation says the same")
{
	struct region target;
	struct buf out = new_buf(t, 8, 1);
	struct fi_ioc ioc = { out.mem, 1 };
	struct fi_msg_atomic msg = { .msg_iov = &ioc, .desc = &out.desc, .iov_count = 1, .context = new_ctx() };
	struct fi_rma_ioc rma;

	PAIR(t);
	target = file_region(t, FI_RMA_PMEM);
	rma = (struct fi_rma_ioc){ target.at + 64, 1, target.key };
	msg.addr = t->a.peer;
	msg.rma_iov = &rma;
	msg.rma_iov_count = 1;
	msg.datatype = FI_UINT64;
	msg.op = FI_ATOMIC_WRITE;
	POST(t, fi_atomicmsg(t->a.ep, &msg, FI_COMMIT_COMPLETE));
	done(t, t->a.txcq, msg.context, FI_ATOMIC | FI_WRITE);
	CHECK(filled(target.buf.mem + 64, 8, 1));
	CHECK(is_durable(target.buf.mem + 64, 8));
}

TEST(fi_cq, commit_only_where_asked, EP_RELIABLE, FI_RMA | FI_RMA_PMEM, "Writes without FI_COMMIT_COMPLETE, and regions without FI_RMA_PMEM, are not made durable")
{
	struct region persistent, other;
	void *ctx;

	PAIR(t);
	persistent = file_region(t, FI_RMA_PMEM);
	other = file_region(t, 0);
	ctx = write_to(t, &persistent, 0, new_buf(t, 100, 1), FI_DELIVERY_COMPLETE);
	done(t, t->a.txcq, ctx, FI_RMA | FI_WRITE);
	ctx = write_to(t, &other, 0, new_buf(t, 100, 1), FI_COMMIT_COMPLETE);
	done(t, t->a.txcq, ctx, FI_RMA | FI_WRITE);
	CHECK_EQ(syncs, 0);
}

TEST(fi_cq, commit_that_fails, EP_RDM, FI_RMA | FI_RMA_PMEM, "A write that cannot be made durable ends in an error, and not in a completion")
{
	struct region target;
	void *ctx;

	PAIR(t);
	target = file_region(t, FI_RMA_PMEM);
	refuse = EIO;
	ctx = write_to(t, &target, 0, new_buf(t, 100, 1), FI_COMMIT_COMPLETE);
	failed_somehow(t, t->a.txcq, ctx);
	nothing(t->a.txcq);
}

BOTH(commit_of_messages, EP_ANY, 0, "FI_COMMIT_COMPLETE is no flag of a message: -FI_EBADFLAGS")
{
	struct op send = op_of(SENDMSG, tagged, new_buf(t, 100, 1), FI_ADDR_UNSPEC);

	PAIR(t);
	send.addr = t->a.peer;
	send.flags = FI_COMMIT_COMPLETE;
	CHECK_RC(op_try(t->a.ep, &send), -FI_EBADFLAGS);
}

// Receives a message, and polls for the second only after a command of the parent.
static void receive_later(struct env *t, struct process *parent)
{
	struct side side = { 0 };
	char word;

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	for (unsigned i = 0; i < 2; i++) {
		void *ctx = post_recv(t, &side, new_buf(t, 100, 0));

		if (i)
			CHECK_EQ(read(parent->from, &word, 1), 1);
		done(t, side.rxcq, ctx, FI_MSG | FI_RECV);
	}
	hear(t, parent, &word, 1);
}

TEST(fi_cq, commit_by_default, EP_RDM, FI_MSG, "With FI_COMMIT_COMPLETE as default flag a send completes when the peer has the message, and not before")
{
	struct process child;
	void *ctx;

	t->hints->domain_attr->progress = FI_PROGRESS_MANUAL;
	t->hints->tx_attr->op_flags = FI_COMMIT_COMPLETE;
	env_info(t);
	child = start_process(t, receive_later);
	open_end(t, &t->a, FI_WAIT_NONE);
	meet(t, &t->a, &child);
	ctx = post_send(t, &t->a, new_buf(t, 100, 1));
	done(t, t->a.txcq, ctx, FI_MSG | FI_SEND);
	ctx = post_send(t, &t->a, new_buf(t, 100, 1));
	turn(t);
	nothing(t->a.txcq);
	tell(&child, "", 1);
	done(t, t->a.txcq, ctx, FI_MSG | FI_SEND);
	tell(&child, "", 1);
	join_process(t, &child);
}
