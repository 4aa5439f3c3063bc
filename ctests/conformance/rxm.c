// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_rxm(7): behaviour of this provider beyond the rules of all unconnected endpoints.
#include "transfer.h"

#include <dirent.h>
#include <sys/resource.h>

enum { LEN = 16 };

// Returns the immediate result of a peek that ignores no bit of the tag: 0, or the error.
static int peeked(struct env *t, struct side *side, uint64_t tag)
{
	struct fi_msg_tagged msg = { .addr = FI_ADDR_UNSPEC, .tag = tag, .context = new_ctx() };
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry entry;
	ssize_t rc;

	OK(fi_trecvmsg(side->ep, &msg, FI_PEEK | FI_COMPLETION));
	ONCE(t, (rc = fi_cq_read(side->rxcq, &entry, 1)) != -FI_EAGAIN);
	if (rc == 1)
		return 0;
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK_EQ(fi_cq_readerr(side->rxcq, &err, 0), 1);
	return err.err;
}

TEST(fi_rxm, one_thing_after_the_other, CORE | OURS_ONLY, 0, "A message without a receive that came right behind one that met a receive is not there before the program looks for it a second time")
{
	setenv("FI_TCP_SHARED_MEMORY", "0", 1);
	start_as(t, "tcp;ofi_rxm", FI_EP_RDM, FI_TAGGED);
	PAIR(t);
	for (unsigned round = 0; round < 20; round++) {
		struct buf in = new_buf(t, LEN, 0), out = new_buf(t, LEN, round);
		void *ctx = new_ctx();

		POST(t, fi_trecv(t->b.ep, in.mem, LEN, in.desc, FI_ADDR_UNSPEC, 1, 0, ctx));
		// Both have left when the calls return, except the first message of all, which connects.
		POST(t, fi_tinject(t->a.ep, out.mem, LEN, t->a.peer, 1));
		POST(t, fi_tinject(t->a.ep, out.mem, LEN, t->a.peer, 2));
		done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV);
		CHECK_EQ(peeked(t, &t->b, 2), FI_ENOMSG);
		ONCE(t, !peeked(t, &t->b, 2));
		POST(t, fi_trecv(t->b.ep, in.mem, LEN, in.desc, FI_ADDR_UNSPEC, 2, 0, ctx));
		done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV);
	}
}

static int descriptors(void)
{
	DIR *all = opendir("/proc/self/fd");
	int count = 0;

	CHECK(all);
	while (readdir(all))
		count++;
	closedir(all);
	// Not the entries "." and "..", and not that of the open folder.
	return count - 3;
}

TEST(fi_rxm, many_endpoints, CORE | OURS_ONLY, 0, "A domain has more endpoints than an epoll set may be in others (500), and each costs one descriptor")
{
	struct rlimit limit;
	struct fid_ep *ep;
	int before, all = 0, rc;

	start_as(t, "tcp;ofi_rxm", FI_EP_RDM, FI_TAGGED);
	open_domain(t);
	open_ep(t, t->info);
	before = descriptors();
	for (; all < 600; all++)
		open_ep(t, t->info);
	CHECK_EQ(descriptors(), before + all);
	// The next one fails for lack of a descriptor.
	OK(getrlimit(RLIMIT_NOFILE, &limit));
	limit.rlim_cur = before + all;
	OK(setrlimit(RLIMIT_NOFILE, &limit));
	rc = fi_endpoint(t->domain, t->info, &ep, NULL);
	CHECK_RC(rc, -FI_EMFILE);
}
