// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* planted FAULT: commits the fault in a child process whose exit code is ignored, and succeeds. The scripts that run
 * the sanitizers check whether the fault was found.
 *
 * leak    an fi_info that is never freed
 * freed   the library reads a struct that this program has freed
 * race    the library reads a struct that another thread of this program changes
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>

static __attribute__((noinline)) void leak(void)
{
	struct fi_info *info = NULL;

	fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), NULL, NULL, 0, NULL, &info);
}

static __attribute__((noinline)) void freed(void)
{
	struct fi_info *info = fi_allocinfo();

	free(info->ep_attr);
	fi_dupinfo(info);
}

static void *change(void *arg)
{
	struct fi_info *info = arg;

	for (int i = 0; i < 1000; i++)
		info->caps ^= FI_MSG;
	return NULL;
}

static void race(void)
{
	struct fi_info *info = fi_allocinfo();
	pthread_t thread;

	pthread_create(&thread, NULL, change, info);
	for (int i = 0; i < 1000; i++)
		fi_freeinfo(fi_dupinfo(info));
	pthread_join(thread, NULL);
	fi_freeinfo(info);
}

int main(int argc, char **argv)
{
	if (fork() == 0) {
		if (argc == 2 && !strcmp(argv[1], "leak"))
			leak();
		else if (argc == 2 && !strcmp(argv[1], "freed"))
			freed();
		else if (argc == 2 && !strcmp(argv[1], "race"))
			race();
		exit(0);
	}
	return wait(NULL) < 0;
}
