// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
/* More peers than descriptors. The first connection raises the soft limit, a warning names the number that an address
 * vector needs, and if the hard limit is too low, idle connections are closed and reopened without loss.
 *
 * The processes of `exchange` send to all others in rounds, in an order of their own, and each checks that the messages
 * of a sender arrive in order. They may have fewer descriptors than peers.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "check.h"

enum { MOST = 256, RECEIVES = 64, PATIENCE_S = 110 };

#define NEED(call) need((call), #call, __LINE__)

static void need(long long result, const char *what, int line)
{
	if (result < 0) {
		printf("descriptors.c:%d: %s: %s\n", line, what, fi_strerror((int) -result));
		fflush(stdout);
		_exit(1);
	}
}

// Memory of all processes of a test.
struct board {
	_Atomic int opened, done;
	struct sockaddr_in names[MOST];
	_Atomic unsigned long long most_open;
};

static struct board *board;

struct message {
	unsigned from, number;
	char filler[];
};

struct rank {
	unsigned rank, ranks, size;
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;
	char *receives;
	unsigned next[MOST];
	unsigned long long received;
	unsigned sending;
	bool injects;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

static void limit(rlim_t soft, rlim_t hard)
{
	struct rlimit limit = { soft, hard };

	NEED(setrlimit(RLIMIT_NOFILE, &limit) ? -FI_EINVAL : 0);
}

static rlim_t soft_limit(void)
{
	struct rlimit limit;

	getrlimit(RLIMIT_NOFILE, &limit);
	return limit.rlim_cur;
}

static void open_rank(struct rank *r, const char *provider)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_MSG, .size = 4096 };
	struct fi_av_attr av = { .type = FI_AV_TABLE };

	hints->caps = FI_MSG;
	hints->mode = ~0ULL;
	hints->ep_attr->type = FI_EP_RDM;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->domain_attr->progress = FI_PROGRESS_MANUAL;
	hints->fabric_attr->prov_name = strdup(provider);
	NEED(fi_getinfo(FI_VERSION(2, 0), "127.0.0.1", NULL, FI_SOURCE, hints, &r->info));
	fi_freeinfo(hints);
	NEED(fi_fabric(r->info->fabric_attr, &r->fabric, NULL));
	NEED(fi_domain(r->fabric, r->info, &r->domain, NULL));
	NEED(fi_av_open(r->domain, &av, &r->av, NULL));
	NEED(fi_cq_open(r->domain, &cq, &r->cq, NULL));
	NEED(fi_endpoint(r->domain, r->info, &r->ep, NULL));
	NEED(fi_ep_bind(r->ep, &r->av->fid, 0));
	NEED(fi_ep_bind(r->ep, &r->cq->fid, FI_SEND | FI_RECV));
	NEED(fi_enable(r->ep));
}

static void close_rank(struct rank *r)
{
	fi_close(&r->ep->fid);
	fi_close(&r->cq->fid);
	fi_close(&r->av->fid);
	fi_close(&r->domain->fid);
	fi_close(&r->fabric->fid);
	fi_freeinfo(r->info);
}

static unsigned long long open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	unsigned long long count = 0;

	if (!folder)
		return 0;
	while (readdir(folder))
		count++;
	closedir(folder);
	return count - 3;
}

// Takes what has completed. Messages of one sender have to be in order.
static void take(struct rank *r)
{
	struct fi_cq_msg_entry entries[16];
	ssize_t n = fi_cq_read(r->cq, entries, 16);

	if (n == -FI_EAVAIL) {
		struct fi_cq_err_entry error = {0};
		char text[256];

		fi_cq_readerr(r->cq, &error, 0);
		printf("rank %u: %s: %s\n", r->rank, fi_strerror(error.err),
		       fi_cq_strerror(r->cq, error.prov_errno, error.err_data, text, sizeof(text)));
		fflush(stdout);
		_exit(1);
	}
	for (ssize_t i = 0; i < n; i++) {
		if (entries[i].flags & FI_SEND) {
			r->sending--;
			continue;
		}
		struct message *message = entries[i].op_context;

		if (message->from >= r->ranks || message->number != r->next[message->from]) {
			printf("rank %u: message %u of %u, and %u was next\n", r->rank, message->number, message->from,
			       message->from < r->ranks ? r->next[message->from] : 0);
			fflush(stdout);
			_exit(1);
		}
		r->next[message->from]++;
		r->received++;
		NEED(fi_recv(r->ep, message, r->size, NULL, 0, message));
	}
	if (n <= 0)
		sched_yield();
}

static void send_to(struct rank *r, unsigned to, struct message *message)
{
	ssize_t result;

	do {
		result = r->injects ? fi_inject(r->ep, message, r->size, to)
				    : fi_send(r->ep, message, r->size, NULL, to, message);
		if (result == -FI_EAGAIN)
			take(r);
	} while (result == -FI_EAGAIN);
	NEED(result);
	r->sending += !r->injects;
}

struct plan {
	const char *provider;
	unsigned ranks, limit, rounds, each, size;
	// This many of the last ranks send one message to all, and then do nothing until the others are done.
	unsigned idle;
	const char *shared_memory, *most_connections;
	bool injects;
};

static void meet(struct rank *r)
{
	size_t len = sizeof(board->names[0]);

	NEED(fi_getname(&r->ep->fid, &board->names[r->rank], &len));
	atomic_fetch_add(&board->opened, 1);
	while (atomic_load(&board->opened) < (int) r->ranks)
		take(r);
	if (fi_av_insert(r->av, board->names, r->ranks, NULL, 0, NULL) != (int) r->ranks)
		_exit(1);
	r->receives = malloc((size_t) RECEIVES * r->size);
	for (unsigned i = 0; i < RECEIVES; i++) {
		void *buffer = r->receives + (size_t) i * r->size;

		NEED(fi_recv(r->ep, buffer, r->size, NULL, 0, buffer));
	}
}

static void run_rank(const struct plan *plan, unsigned rank)
{
	struct rank r = { .rank = rank, .ranks = plan->ranks, .size = plan->size, .injects = plan->injects };
	unsigned active = plan->ranks - plan->idle;
	unsigned long long all = (unsigned long long) plan->rounds * plan->each * (active - 1) + plan->idle, open;
	struct message *messages;
	double end = now() + PATIENCE_S;
	bool is_idle = rank >= active;
	size_t count = (size_t) plan->rounds * plan->each * plan->ranks, used = 0;

	setenv("FI_TCP_SHARED_MEMORY", plan->shared_memory, 1);
	// The processors may be busy with other tests.
	setenv("FI_TCP_CONN_TIMEOUT", "90000", 1);
	if (plan->most_connections)
		setenv("FI_TCP_MAX_CONNECTIONS", plan->most_connections, 1);
	limit(plan->limit, plan->limit);
	open_rank(&r, plan->provider);
	messages = calloc(count, plan->size);
	meet(&r);
	for (unsigned round = 0; round < (is_idle ? 1 : plan->rounds); round++) {
		for (unsigned step = 1; step < plan->ranks; step++) {
			// Each rank has an order of its own, so that all peers of a rank are wanted at once.
			unsigned to = is_idle ? step - 1 : (rank + 1 + (step + 7 * round) % (plan->ranks - 1)) % plan->ranks;

			if (to == rank || to >= active)
				continue;
			for (unsigned i = 0; i < (is_idle ? 1 : plan->each); i++) {
				struct message *message = (void *) ((char *) messages + used++ * plan->size);

				message->from = rank;
				message->number = is_idle ? 0 : round * plan->each + i;
				send_to(&r, to, message);
			}
			take(&r);
		}
	}
	while (r.sending || (!is_idle && r.received < all)) {
		take(&r);
		if (now() > end) {
			printf("rank %u: %u sends and %llu receives are missing\n", rank, r.sending,
			       is_idle ? 0 : all - r.received);
			for (unsigned i = 0; i < active && !is_idle; i++)
				if (i != rank && r.next[i] < plan->rounds * plan->each)
					printf("  rank %u: %u of %u\n", i, r.next[i], plan->rounds * plan->each);
			fflush(stdout);
			_exit(1);
		}
	}
	open = open_descriptors();
	for (unsigned long long most = atomic_load(&board->most_open);
	     open > most && !atomic_compare_exchange_weak(&board->most_open, &most, open); )
		continue;
	if (!is_idle)
		atomic_fetch_add(&board->done, 1);
	while (atomic_load(&board->done) < (int) active) {
		if (is_idle)
			usleep(2000);
		else
			take(&r);
	}
	close_rank(&r);
	free(messages);
	free(r.receives);
	_exit(0);
}

static void exchange(const struct plan *plan)
{
	pid_t children[MOST];
	bool has_failed = false;

	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	alarm(PATIENCE_S + 10);
	for (unsigned i = 0; i < plan->ranks; i++) {
		children[i] = fork();
		if (!children[i])
			run_rank(plan, i);
	}
	for (unsigned left = plan->ranks; left; left--) {
		int status;
		pid_t child = wait(&status);

		for (unsigned i = 0; i < plan->ranks; i++) {
			if (children[i] == child)
				children[i] = 0;
		}
		if (status && !has_failed) {
			has_failed = true;
			for (unsigned i = 0; i < plan->ranks; i++) {
				if (children[i])
					kill(children[i], SIGKILL);
			}
		}
	}
	printf("%u ranks with %u descriptors each: at most %llu in use at the end\n", plan->ranks, plan->limit,
	       atomic_load(&board->most_open));
	CHECK(!has_failed);
}

static void sockets_are_closed_and_reopened(void)
{
	exchange(&(struct plan) {"tcp", 24, 28, 4, 5, 64, 0, "0", NULL});
}

static void shared_memory_is_closed_and_reopened(void)
{
	exchange(&(struct plan) {"tcp", 20, 28, 3, 5, 64, 0, "1", NULL});
}

// An injected message is refused until its peer is connected, and then posted again.
static void injected_messages_do_not_keep_connections(void)
{
	exchange(&(struct plan) {"tcp", 24, 28, 4, 5, 64, 0, "0", NULL, true});
}

static void large_messages_are_not_lost(void)
{
	exchange(&(struct plan) {"tcp", 20, 28, 2, 3, 100000, 0, "0", NULL});
}

static void silent_peers_delay_nothing(void)
{
	exchange(&(struct plan) {"tcp", 20, 28, 3, 5, 64, 2, "0", NULL});
}

static void connections_above_the_setting_are_closed(void)
{
	exchange(&(struct plan) {"tcp", 24, 256, 4, 5, 64, 0, "0", "8"});
	CHECK(atomic_load(&board->most_open) < 40);
}

static void sockets_by_their_other_name(void)
{
	exchange(&(struct plan) {"sockets", 16, 24, 3, 5, 64, 0, "0", NULL});
}

// ---- The soft limit

static void connect_to_self(struct rank *r)
{
	// Posted again after each message, until the endpoint is closed.
	static _Alignas(struct message) char rooms[4][64];
	static unsigned used;
	struct message *message = calloc(1, r->size), *room = (void *) rooms[used++ % 4];
	size_t len = sizeof(board->names[0]);
	struct sockaddr_in name;
	unsigned long long all = r->received + 1;

	message->number = r->next[0];
	NEED(fi_getname(&r->ep->fid, &name, &len));
	NEED(fi_av_insert(r->av, &name, 1, NULL, 0, NULL));
	NEED(fi_recv(r->ep, room, r->size, NULL, 0, room));
	send_to(r, 0, message);
	while (r->received < all || r->sending)
		take(r);
	free(message);
}

static void the_first_connection_raises_the_limit(void)
{
	struct rank r = { .ranks = 1, .size = 64 };

	limit(256, 1000);
	open_rank(&r, "tcp");
	EQUAL(soft_limit(), 256);
	connect_to_self(&r);
	EQUAL(soft_limit(), 1000);
	// Once: a limit that the program sets later stays.
	limit(300, 1000);
	connect_to_self(&r);
	EQUAL(soft_limit(), 300);
	close_rank(&r);
}

static void the_limit_stays_if_the_setting_says_so(void)
{
	struct rank r = { .ranks = 1, .size = 64 };

	setenv("FI_RAISE_NOFILE", "0", 1);
	limit(256, 1000);
	open_rank(&r, "tcp");
	connect_to_self(&r);
	EQUAL(soft_limit(), 256);
	close_rank(&r);
}

// ---- The warning

static unsigned lines_with(const char *file, const char *words)
{
	FILE *log = fopen(file, "r");
	char line[2048];
	unsigned count = 0;

	while (log && fgets(line, sizeof(line), log))
		count += strstr(line, words) != NULL;
	if (log)
		fclose(log);
	return count;
}

static void a_warning_names_the_needed_number(void)
{
	struct rank r = { .ranks = 1, .size = 64 };
	struct sockaddr_in names[1000] = {0};
	char file[] = "/tmp/descriptors-log-XXXXXX";
	int log = mkstemp(file);

	close(log);
	unlink(file);
	setenv("FI_LOG_LEVEL", "warn", 1);
	setenv("FI_LOG_LOCATION", file, 1);
	limit(256, 512);
	open_rank(&r, "tcp");
	for (unsigned i = 0; i < 1000; i++) {
		names[i].sin_family = AF_INET;
		names[i].sin_port = htons((uint16_t) (10000 + i));
		names[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	}
	// The hard limit permits these.
	EQUAL(fi_av_insert(r.av, names, 400, NULL, 0, NULL), 400);
	EQUAL(lines_with(file, "LimitNOFILE"), 0);
	EQUAL(fi_av_insert(r.av, names + 400, 600, NULL, 0, NULL), 600);
	EQUAL(lines_with(file, "has 1000 addresses"), 1);
	EQUAL(lines_with(file, "`ulimit -n 1150`"), 1);
	close_rank(&r);
	unlink(file);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(the_first_connection_raises_the_limit),
		TEST(the_limit_stays_if_the_setting_says_so),
		TEST(a_warning_names_the_needed_number),
		TEST(sockets_are_closed_and_reopened),
		TEST(shared_memory_is_closed_and_reopened),
		TEST(injected_messages_do_not_keep_connections),
		TEST(large_messages_are_not_lost),
		TEST(silent_peers_delay_nothing),
		TEST(connections_above_the_setting_are_closed),
		TEST(sockets_by_their_other_name),
	};

	return RUN_TESTS(tests, argc, argv);
}
