// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* Accepted messages that cannot be delivered because the peer is stopped. Closing takes no longer than the setting
 * allows, and the log names the lost messages and their peer, in one line for the connection.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "log_file.h"

enum { SMALL = 64, LARGE = 1 << 20, LIMIT_MS = 300, TAG = 1 };

#define NEED(call) need((call), #call, __LINE__)

static void need(long long result, const char *what, int line)
{
	if (result < 0) {
		printf("closing.c:%d: %s: %s\n", line, what, fi_strerror((int) -result));
		fflush(stdout);
		_exit(1);
	}
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t) t.tv_sec * 1000 + (uint64_t) t.tv_nsec / 1000000;
}

struct side {
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_ep *ep;
	fi_addr_t peer;
	int pipe;
	char theirs[256];
};

static void open_side(struct side *s, const char *name)
{
	struct fi_info *hints = fi_allocinfo(), *info;
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED};
	struct fi_av_attr av = {};
	char mine[256] = "";
	size_t len = sizeof(mine);

	hints->caps = FI_TAGGED;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->progress = FI_PROGRESS_MANUAL;
	hints->fabric_attr->prov_name = strdup(name);
	if (!strcmp(name, "tcp"))
		NEED(fi_getinfo(FI_VERSION(2, 0), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
	else
		NEED(fi_getinfo(FI_VERSION(2, 0), NULL, NULL, 0, hints, &info));
	NEED(fi_fabric(info->fabric_attr, &s->fabric, NULL));
	NEED(fi_domain(s->fabric, info, &s->domain, NULL));
	NEED(fi_cq_open(s->domain, &cq, &s->cq, NULL));
	NEED(fi_av_open(s->domain, &av, &s->av, NULL));
	NEED(fi_endpoint(s->domain, info, &s->ep, NULL));
	NEED(fi_ep_bind(s->ep, &s->av->fid, 0));
	NEED(fi_ep_bind(s->ep, &s->cq->fid, FI_TRANSMIT | FI_SELECTIVE_COMPLETION));
	NEED(fi_ep_bind(s->ep, &s->cq->fid, FI_RECV));
	NEED(fi_enable(s->ep));
	NEED(fi_getname(&s->ep->fid, mine, &len));
	if (write(s->pipe, mine, sizeof(mine)) != sizeof(mine) || recv(s->pipe, s->theirs, sizeof(mine), MSG_WAITALL) != sizeof(mine))
		_exit(1);
	CHECK(fi_av_insert(s->av, s->theirs, 1, &s->peer, 0, NULL) == 1);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

// Starts a process that receives one message, reports that, and then only pauses.
static pid_t start_peer(int pipe, const char *name)
{
	pid_t pid = fork();
	struct side s = {.pipe = pipe};
	struct fi_cq_tagged_entry entry;
	char in[SMALL];

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_side(&s, name);
	NEED(fi_trecv(s.ep, in, SMALL, NULL, FI_ADDR_UNSPEC, TAG, 0, NULL));
	while (fi_cq_read(s.cq, &entry, 1) == -FI_EAGAIN)
		;
	if (write(pipe, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

// Posts one large message, or small ones until the library has accepted nothing for 100 ms.
static void fill(struct side *s, size_t len)
{
	static char out[LARGE];

	for (uint64_t end = now_ms() + 100; now_ms() < end;) {
		ssize_t ret = len == SMALL ? fi_tinject(s->ep, out, SMALL, s->peer, TAG)
					   : fi_tsend(s->ep, out, len, NULL, s->peer, TAG, NULL);

		if (!ret)
			end = now_ms() + 100;
		else if (ret != -FI_EAGAIN)
			NEED(ret);
		fi_cq_read(s->cq, NULL, 0);
		if (len != SMALL && !ret)
			break;
	}
}

static void close_and_lose(const char *name, size_t len, const char *who)
{
	int pipes[2];
	struct side s = {};
	uint64_t start, took;
	const char *lines;
	char out[SMALL] = "", go;
	pid_t peer;
	ssize_t ret;

	setenv("FI_TCP_CLOSE_TIMEOUT", "300", 1);
	setenv("FI_SHM_CLOSE_TIMEOUT", "300", 1);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pipes))
		_exit(1);
	peer = start_peer(pipes[1], name);
	log_to_file("warn");
	s.pipe = pipes[0];
	open_side(&s, name);
	while ((ret = fi_tinject(s.ep, out, SMALL, s.peer, TAG)) == -FI_EAGAIN)
		;
	NEED(ret);
	if (recv(s.pipe, &go, 1, MSG_WAITALL) != 1)
		_exit(1);
	CHECK(!kill(peer, SIGSTOP));
	fill(&s, len);
	start = now_ms();
	NEED(fi_close(&s.ep->fid));
	took = now_ms() - start;
	CHECK(took >= LIMIT_MS && took < 20 * LIMIT_MS);
	lines = logged();
	CHECK(strstr(lines, "they are lost"));
	CHECK(strstr(lines, who ? who : s.theirs));
	CHECK(!strstr(strstr(lines, "they are lost") ? strstr(lines, "they are lost") + 1 : "", "they are lost"));
	NEED(fi_close(&s.av->fid));
	NEED(fi_close(&s.cq->fid));
	NEED(fi_close(&s.domain->fid));
	NEED(fi_close(&s.fabric->fid));
	kill(peer, SIGKILL);
	waitpid(peer, NULL, 0);
}

static void over_sockets(void)
{
	setenv("FI_TCP_SHARED_MEMORY", "0", 1);
	close_and_lose("tcp", SMALL, "127.0.0.1:");
}

// A message that waits at its sender for the receive.
static void over_shared_memory(void)
{
	setenv("FI_SHM_MAX_SAVED_SIZE", "65536", 1);
	close_and_lose("shm", LARGE, NULL);
}

static const struct test tests[] = {TEST(over_sockets), TEST(over_shared_memory)};

int main(int argc, char **argv)
{
	(void) provider;
	return RUN_TESTS(tests, argc, argv);
}
