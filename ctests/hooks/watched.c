// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// With FI_HOOK=monitor: requests counts through the file of this process, as an observer would, and checks them, twice.
// The last counts need FI_OFI_HOOK_MONITOR_LINGER.

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#define OK(call) do { int ret_ = (int) (call); if (ret_) { printf("%s: %d\n", #call, ret_); exit(1); } } while (0)
enum { LIMIT = 20, FLAG = 6048, REGIONS = 27 * 144 };

static struct fid_domain *domain;
static char memory[64];

static void register_once(void)
{
	struct fid_mr *mr;

	OK(fi_mr_reg(domain, memory, sizeof(memory), FI_REMOTE_READ, 0, 1, 0, &mr, NULL));
	OK(fi_close(&mr->fid));
}

// Registers regions until the hook has answered; returns the counted regions.
static uint64_t ask(int file, int *registered)
{
	time_t end = time(NULL) + LIMIT;
	unsigned char flag = 1;
	uint64_t count;

	OK(pwrite(file, &flag, 1, FLAG) != 1);
	for (*registered = 0; flag & 1 && time(NULL) < end; ++*registered) {
		register_once();
		OK(pread(file, &flag, 1, FLAG) != 1);
	}
	OK(flag & 1);
	OK(pread(file, &count, sizeof(count), REGIONS) != sizeof(count));
	return count;
}

int main(void)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fid_fabric *fabric;
	char path[4096], host[256];
	int registered;

	hints->fabric_attr->prov_name = strdup("tcp");
	OK(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info));
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_domain(fabric, info, &domain, NULL));
	OK(gethostname(host, sizeof(host)));
	snprintf(path, sizeof(path), "%s/%d/%s/%d_%d_1_0_tcp", getenv("FI_OFI_HOOK_MONITOR_BASEPATH"), getuid(), host, getppid(),
		 getpid());
	int file = open(path, O_RDWR);

	OK(file < 0);
	for (int i = 0; i < 7; i++)
		register_once();
	// The tenth call answers; each answer covers the calls since the previous one.
	OK(ask(file, &registered) != 10);
	OK(registered != 3);
	OK(ask(file, &registered) != 10);
	OK(registered != 10);
	for (int i = 0; i < 4; i++)
		register_once();
	OK(fi_close(&domain->fid));
	OK(fi_close(&fabric->fid));
	// The file keeps the last counts, added to those that were not read yet, or is removed.
	bool stays = atoi(getenv("FI_OFI_HOOK_MONITOR_LINGER"));
	unsigned char flag;
	uint64_t count;

	OK((access(path, F_OK) == 0) != stays);
	OK(stays && (pread(file, &count, sizeof(count), REGIONS) != sizeof(count) || count != 14));
	OK(stays && (pread(file, &flag, 1, FLAG) != 1 || flag != 2));
	OK(close(file));
	fi_freeinfo(info);
	fi_freeinfo(hints);
	printf("done\n");
	return 0;
}
