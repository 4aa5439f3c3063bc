// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A process with limited file sizes (RLIMIT_FSIZE), which the kernel applies to shared memory, too: no signal may end
//! it.
#define _GNU_SOURCE
#include "transfer.h"

#include <sys/resource.h>
#include <unistd.h>

static char log_name[64];

// The limit also applies to the log and to the output of a failed check.
static void limit_files(rlim_t most)
{
	struct rlimit limit;

	CHECK(!getrlimit(RLIMIT_FSIZE, &limit));
	limit.rlim_cur = most ? most : limit.rlim_max;
	CHECK(!setrlimit(RLIMIT_FSIZE, &limit));
}

static unsigned logged(const char *text)
{
	static char all[1 << 16];
	FILE *file = fopen(log_name, "r");
	unsigned count = 0;

	CHECK(file);
	all[fread(all, 1, sizeof(all) - 1, file)] = 0;
	fclose(file);
	for (const char *at = all; (at = strstr(at, text)); at++)
		count++;
	return count;
}

TEST(fi_tcp, file_size_limit, CORE | OURS_ONLY, 0, "Where files may not be as long as a ring, tcp goes on over TCP and says so once at level warn")
{
	struct side sides[3] = { 0 };
	fi_addr_t at[9];

	snprintf(log_name, sizeof(log_name), "/tmp/conformance-log-%d", (int)getpid());
	unlink(log_name);
	setenv("FI_TCP_SHARED_MEMORY", "1", 1);
	setenv("FI_LOG_LEVEL", "warn", 1);
	setenv("FI_LOG_LOCATION", log_name, 1);
	start_as(t, "tcp", FI_EP_RDM, FI_MSG);
	limit_files(20000);
	PAIR(t);
	round_trip(t);
	open_group(t, sides, 3, at);
	for (unsigned i = 0; i < 2; i++) {
		struct op recv = op_of(RECV, false, new_buf(t, 100000, 0), FI_ADDR_UNSPEC);
		struct op send = op_of(SEND, false, new_buf(t, 100000, 1), at[i * 3 + i + 1]);

		op_post(t, sides[i + 1].ep, &recv);
		op_post(t, sides[i].ep, &send);
		done(t, sides[i + 1].rxcq, recv.ctx, FI_MSG | FI_RECV);
		done(t, sides[i].txcq, send.ctx, FI_MSG | FI_SEND);
	}
	limit_files(0);
	CHECK_EQ(logged("no memory to share with a peer"), 1);
	CHECK_EQ(logged("<warn>"), 1);
	unlink(log_name);
}

TEST(fi_shm, file_size_limit, CORE | OURS_ONLY, 0, "Where files may not be as long as a ring, operations of shm end in FI_EFBIG")
{
	struct fi_cq_err_entry err = { 0 };
	struct op send;

	setenv("FI_SHM_CONN_TIMEOUT", "500", 1);
	start_as(t, "shm", FI_EP_RDM, FI_MSG);
	PAIR(t);
	send = op_of(SEND, false, new_buf(t, 100, 1), t->a.peer);
	limit_files(20000);
	err.err = -op_try(t->a.ep, &send);
	if (!err.err)
		wait_err(t, t->a.txcq, &err);
	limit_files(0);
	CHECK_RC(-err.err, -EFBIG);
	round_trip(t);
}

TEST(fi_av, shared_file_size_limit, CORE | OURS_ONLY, 0, "Where files may not be as long as it takes, a shared address vector cannot be opened or grow, -EFBIG")
{
	struct fi_av_attr attr = { .type = FI_AV_TABLE, .name = "conformance file size" };
	char addr[ADDR_ROOM];
	struct fid_av *av;
	fi_addr_t number;
	int rc;

	start_as(t, "tcp", FI_EP_RDM, FI_MSG | FI_SHARED_AV);
	open_domain(t);
	put_address(t, 0, addr);
	limit_files(16);
	rc = fi_av_open(t->domain, &attr, &av, NULL);
	limit_files(0);
	CHECK_RC(rc, -EFBIG);
	OK(fi_av_open(t->domain, &attr, &av, NULL));
	keep(t, &av->fid);
	limit_files(100);
	rc = fi_av_insert(av, addr, 1, &number, 0, NULL);
	limit_files(0);
	CHECK(rc != 1);
	CHECK_EQ(fi_av_insert(av, addr, 1, &number, 0, NULL), 1);
}
