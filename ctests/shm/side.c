// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! See side.h. The process that starts a case never calls the library, so it may fork, and each child starts with a
//! fresh library.
#define _GNU_SOURCE
#include "side.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

uint64_t seed;
unsigned seconds = 10;
const char *who = "parent";
static int log_fd = -1;
static pid_t first;

void fail(const char *file, int line, const char *format, ...)
{
	va_list args;

	printf("FAILED: %s: %s:%d: ", who, file, line);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(" (seed %llu)\n", (unsigned long long) seed);
	fflush(stdout);
	_exit(1);
}

void skip(const char *format, ...)
{
	va_list args;

	printf("SKIPPED: ");
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	_exit(77);
}

uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000 + (uint64_t) now.tv_nsec / 1000;
}

static uint64_t state;

void mix_chance(uint64_t with)
{
	state = seed * 0x9e3779b97f4a7c15u + with;
}

uint64_t chance(uint64_t below)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (state >> 24) % below;
}

// ---- Processes

void *shared_page(size_t len)
{
	void *page = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(page != MAP_FAILED);
	return page;
}

static _Noreturn void child(const char *name, void (*run)(void *), void *with)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	who = name;
	if (log_fd >= 0)
		CHECK(dup2(log_fd, 2) == 2);
	run(with);
	fflush(stdout);
	_exit(0);
}

pid_t start(const char *name, void (*run)(void *), void *with)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		child(name, run, with);
	return pid;
}

pid_t start_in(const char *name, void (*run)(void *), void *with, int namespaces)
{
	pid_t pid, inner;
	int status;

	pid = fork();
	CHECK(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (unshare(namespaces)) {
		printf("SKIPPED: unshare(%#x): %s\n", namespaces, strerror(errno));
		fflush(stdout);
		_exit(77);
	}
	if (!(namespaces & CLONE_NEWPID))
		child(name, run, with);
	// The process itself is in the old PID namespace; its child is number 1 of the new one.
	inner = fork();
	CHECK(inner >= 0);
	if (!inner)
		child(name, run, with);
	CHECK(waitpid(inner, &status, 0) == inner);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status));
}

void ended_well(pid_t pid, unsigned limit_ms)
{
	uint64_t end = now_us() + limit_ms * 1000ull;
	int status = 0;

	while (!waitpid(pid, &status, WNOHANG)) {
		if (now_us() > end) {
			kill(pid, SIGABRT);
			FAIL("process %d does not end", pid);
		}
		usleep(1000);
	}
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		_exit(77);
	if (WIFSIGNALED(status))
		FAIL("process %d ended by signal %d, %s", pid, WTERMSIG(status), strsignal(WTERMSIG(status)));
	if (WEXITSTATUS(status))
		FAIL("process %d ended with %d", pid, WEXITSTATUS(status));
}

void wait_for(const atomic_uint *flag, unsigned at_least, unsigned limit_ms, const char *what)
{
	uint64_t end = now_us() + limit_ms * 1000ull;

	while (atomic_load(flag) < at_least) {
		int status;
		pid_t gone = getpid() == first ? waitpid(-1, &status, WNOHANG) : 0;

		if (gone > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 77)
			_exit(77);
		if (gone > 0)
			FAIL("process %d is gone, status %#x, before: %s", gone, status, what);
		if (now_us() > end)
			FAIL("not within %u ms: %s", limit_ms, what);
		usleep(500);
	}
}

int log_to_file(void)
{
	log_fd = memfd_create("log", 0);
	CHECK(log_fd >= 0);
	return log_fd;
}

bool log_has(int fd, const char *text)
{
	static char all[1 << 20];
	ssize_t n = pread(fd, all, sizeof(all) - 1, 0);

	CHECK(n >= 0);
	all[n] = 0;
	return strstr(all, text);
}

unsigned count_fds(pid_t pid)
{
	char path[64];
	unsigned count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid ? pid : getpid());
	dir = opendir(path);
	if (!dir)
		return 0;
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

size_t resident_kib(pid_t pid)
{
	char path[64], row[256];
	size_t kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid ? pid : getpid());
	file = fopen(path, "r");
	if (!file)
		return 0;
	while (fgets(row, sizeof(row), file))
		if (sscanf(row, "VmRSS: %zu", &kib) == 1)
			break;
	fclose(file);
	return kib;
}

// ---- Bytes

static uint64_t word_at(size_t i, uint64_t from)
{
	uint64_t word = (i + 1) * 0x9e3779b97f4a7c15u ^ (from + 1) * 0xd6e8feb86659fd93u;

	return word ^ word >> 29;
}

void fill(void *mem, size_t len, uint64_t from)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = word_at(i, from);

		memcpy((char *) mem + i, &word, len - i < 8 ? len - i : 8);
	}
}

void verify(const void *mem, size_t len, uint64_t from, const char *what)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = word_at(i, from);

		if (memcmp((const char *) mem + i, &word, len - i < 8 ? len - i : 8))
			FAIL("%s: bytes from %zu on of %zu are not those that were sent", what, i, len);
	}
}

// ---- Endpoints

uint64_t side_caps;

void open_side(struct side *side)
{
	struct fi_info *hints = fi_allocinfo();
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC, .size = 1024 };
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	size_t len = sizeof(side->name);
	const char *prov = getenv("SHM_PROVIDER");
	bool tcp = prov && !strcmp(prov, "tcp");

	CHECK(hints);
	*side = (struct side){ 0 };
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | side_caps;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	if (side_caps & FI_HMEM && !tcp)
		hints->domain_attr->mr_mode |= FI_MR_HMEM;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	if (getenv("SHM_AUTO"))
		hints->domain_attr->progress = FI_PROGRESS_AUTO;
	hints->fabric_attr->prov_name = strdup(prov ? prov : "shm");
	OK(fi_getinfo(FI_VERSION(1, 20), tcp ? "127.0.0.1" : NULL, NULL, tcp ? FI_SOURCE : 0, hints, &side->info));
	fi_freeinfo(hints);
	OK(fi_fabric(side->info->fabric_attr, &side->fabric, NULL));
	OK(fi_domain(side->fabric, side->info, &side->domain, NULL));
	OK(fi_av_open(side->domain, &av, &side->av, NULL));
	OK(fi_cq_open(side->domain, &cq, &side->cq, NULL));
	OK(fi_endpoint(side->domain, side->info, &side->ep, NULL));
	OK(fi_ep_bind(side->ep, &side->av->fid, 0));
	OK(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(side->ep));
	OK(fi_getname(&side->ep->fid, side->name, &len));
}

void close_side(struct side *side)
{
	OK(fi_close(&side->ep->fid));
	OK(fi_close(&side->cq->fid));
	OK(fi_close(&side->av->fid));
	OK(fi_close(&side->domain->fid));
	OK(fi_close(&side->fabric->fid));
	fi_freeinfo(side->info);
}

fi_addr_t insert(struct side *side, const char *name)
{
	fi_addr_t addr;
	int rc = fi_av_insert(side->av, name, 1, &addr, 0, NULL);

	if (rc != 1)
		FAIL("fi_av_insert(\"%s\") = %d", name, rc);
	return addr;
}

void look(struct side *side)
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry error = { 0 };
	struct op *op;
	ssize_t rc;

	while ((rc = fi_cq_read(side->cq, &entry, 1)) != -FI_EAGAIN) {
		if (rc == 1) {
			op = entry.op_context;
			op->len = entry.len;
		} else {
			if (rc != -FI_EAVAIL)
				FAIL("fi_cq_read: %s", fi_strerror((int) -rc));
			rc = fi_cq_readerr(side->cq, &error, 0);
			if (rc != 1)
				FAIL("fi_cq_readerr = %zd", rc);
			op = error.op_context;
			op->error = error.err ? error.err : FI_EOTHER;
		}
		if (op->done)
			FAIL("an operation completes twice");
		op->done = true;
	}
}

bool finish(struct side *side, struct op *op, unsigned limit_ms)
{
	uint64_t end = now_us() + limit_ms * 1000ull;

	for (unsigned turn = 0; !op->done; turn++) {
		look(side);
		if (turn > 200)
			sched_yield();
		if (!op->done && now_us() > end)
			FAIL("an operation has not completed within %u ms", limit_ms);
	}
	return !op->error;
}

void post_send(struct side *side, struct op *op, const void *mem, size_t len, fi_addr_t to, uint64_t tag, unsigned limit_ms)
{
	uint64_t end = now_us() + limit_ms * 1000ull;
	ssize_t rc;

	*op = (struct op){ 0 };
	while ((rc = fi_tsend(side->ep, mem, len, NULL, to, tag, &op->context)) == -FI_EAGAIN) {
		look(side);
		if (now_us() > end)
			FAIL("fi_tsend says -FI_EAGAIN for %u ms", limit_ms);
	}
	if (rc)
		op->done = true, op->error = (int) -rc;
}

void post_recv(struct side *side, struct op *op, void *mem, size_t len, uint64_t tag)
{
	*op = (struct op){ 0 };
	OK(fi_trecv(side->ep, mem, len, NULL, FI_ADDR_UNSPEC, tag, 0, &op->context));
}

void publish(struct side *side, struct meeting *at, unsigned which)
{
	memcpy(at->of[which].name, side->name, sizeof(side->name));
	atomic_store(&at->of[which].there, 1);
}

fi_addr_t other(struct side *side, struct meeting *at, unsigned which)
{
	wait_for(&at->of[!which].there, 1, 10000, "the other side has a name");
	return insert(side, at->of[!which].name);
}

static const size_t sizes[] = { 1, 8, 56, 57, 500, 4096, 16384, 16385, 65536, 200000, 1 << 20 };
enum { SIZES = sizeof(sizes) / sizeof(*sizes), LIMIT = 10000 };

void exchange(struct side *side, fi_addr_t to, unsigned which, unsigned rounds)
{
	uint8_t *in = malloc(1 << 20), *out = malloc(1 << 20);
	struct op send, recv;

	CHECK(in && out);
	for (unsigned i = 0; i < rounds * SIZES; i++) {
		size_t len = sizes[i % SIZES];

		memset(in, 0xe5, len);
		fill(out, len, 2 * i + which);
		post_recv(side, &recv, in, len, i);
		post_send(side, &send, out, len, to, i, LIMIT);
		if (!finish(side, &recv, LIMIT) || !finish(side, &send, LIMIT))
			FAIL("message %u of %zu bytes: %s", i, len, fi_strerror(recv.error ? recv.error : send.error));
		CHECK(recv.len == len);
		verify(in, len, 2 * i + !which, "exchange");
	}
	free(in);
	free(out);
}

void part(struct side *side, struct meeting *at, unsigned which)
{
	uint64_t end = now_us() + LIMIT * 1000ull;

	atomic_store(&at->of[which].done, 1);
	while (!atomic_load(&at->of[!which].done)) {
		look(side);
		if (now_us() > end)
			FAIL("the other side does not finish");
		usleep(100);
	}
}

// ---- A peer without the library

socklen_t listener_address(struct sockaddr_un *at, unsigned uid, const char *name)
{
	const char *bare = strstr(name, "://");
	int len;

	memset(at, 0, sizeof(*at));
	at->sun_family = AF_UNIX;
	len = snprintf(at->sun_path + 1, sizeof(at->sun_path) - 1, "ironfabric/shm/%u/%s", uid, bare ? bare + 3 : name);
	CHECK(len > 0 && (size_t) len < sizeof(at->sun_path) - 1);
	return (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) len);
}

int connect_listener(unsigned uid, const char *name)
{
	struct sockaddr_un at;
	socklen_t len = listener_address(&at, uid, name);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0);
	// The endpoint empties a full backlog while it polls.
	for (unsigned i = 0; connect(fd, (struct sockaddr *) &at, len); i++) {
		if ((errno != EAGAIN && errno != EINTR) || i > 5000) {
			int error = errno;

			close(fd);
			errno = error;
			return -1;
		}
		usleep(1000);
	}
	return fd;
}

void hello(uint8_t out[HELLO], const char *name, uint64_t ring)
{
	uint16_t version = 4, len = (uint16_t) strlen(name);

	memset(out, 0, HELLO);
	memcpy(out, "IFsm", 4);
	memcpy(out + 4, &version, 2);
	memcpy(out + 6, &len, 2);
	memcpy(out + RING_AT, &ring, 8);
	memcpy(out + NAME_AT, name, len);
}

int memory_of(size_t len, bool sealed)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && !ftruncate(fd, (off_t) len) && !fallocate(fd, 0, 0, (off_t) len));
	if (sealed)
		CHECK(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
	return fd;
}

ssize_t give(int to, const void *bytes, size_t len, const int *fds, unsigned count)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(64 * sizeof(int))];
	} control = { 0 };
	struct iovec piece = { (void *) bytes, len };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };

	if (count) {
		struct cmsghdr *header;

		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(header), fds, count * sizeof(int));
	}
	return sendmsg(to, &message, MSG_NOSIGNAL);
}

int answer_of(int from, unsigned limit_ms)
{
	uint8_t got[ANSWER];
	size_t have = 0;
	uint64_t end = now_us() + limit_ms * 1000ull;

	while (have < ANSWER) {
		struct pollfd in = { .fd = from, .events = POLLIN };
		int64_t left = (int64_t) (end - now_us()) / 1000;
		ssize_t n;

		if (left <= 0 || poll(&in, 1, (int) left) == 0)
			return -2;
		n = recv(from, got + have, ANSWER - have, 0);
		if (n <= 0)
			return -1;
		have += (size_t) n;
	}
	CHECK(!memcmp(got, "IFsm", 4));
	// A refused peer must not get any data of the process: no address, no bytes.
	for (unsigned i = PROBE_AT; got[6] != WELCOME && i < ANSWER; i++)
		CHECK(!got[i]);
	return got[6];
}

bool hears_end(int from, unsigned limit_ms)
{
	uint64_t end = now_us() + limit_ms * 1000ull;
	uint8_t some[256];

	for (;;) {
		struct pollfd in = { .fd = from, .events = POLLIN };
		int64_t left = (int64_t) (end - now_us()) / 1000;

		if (left <= 0)
			return false;
		if (poll(&in, 1, (int) left) == 1 && recv(from, some, sizeof(some), 0) <= 0)
			return true;
	}
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	setvbuf(stdout, NULL, _IOLBF, 4096);
	signal(SIGPIPE, SIG_IGN);
	seed = now_us();
	first = getpid();
	for (int i = 2; i < argc; i++)
		if (sscanf(argv[i], "seed=%lu", &seed) != 1 && sscanf(argv[i], "seconds=%u", &seconds) != 1)
			FAIL("unknown option %s", argv[i]);
	// Time after which an operation ends whose peer does not exist.
	setenv("FI_SHM_CONN_TIMEOUT", "1000", 0);
	setenv("FI_TCP_CONN_TIMEOUT", "1000", 0);
	mix_chance(0);
	if (!strcmp(name, "kill"))
		case_kill();
	else if (!strcmp(name, "hostile"))
		case_hostile();
	else if (!strcmp(name, "user"))
		case_user();
	else if (!strcmp(name, "unknown-user"))
		case_unknown_user();
	else if (!strcmp(name, "fork"))
		case_fork();
	else if (!strcmp(name, "stays"))
		case_stays();
	else if (!strcmp(name, "fork-busy"))
		case_fork_busy();
	else if (!strcmp(name, "folder"))
		case_folder();
	else if (!strcmp(name, "together"))
		case_together();
	else if (!strcmp(name, "device"))
		case_device();
	else
		case_surroundings(name);
	return 0;
}
