// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Shared code of the programs that test the safety of shm: processes, a page that all of them share, endpoints, bytes
//! that show where they come from, and a peer that implements docs/wire/shm.md without the library.
#ifndef SHM_SIDE_H
#define SHM_SIDE_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define FAIL(...) fail(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(WHAT)                                                                                                    \
	do {                                                                                                           \
		if (!(WHAT))                                                                                           \
			FAIL("%s (errno %d)", #WHAT, errno);                                                           \
	} while (0)
#define OK(CALL)                                                                                                       \
	do {                                                                                                           \
		ssize_t rc_ = (CALL);                                                                                  \
		if (rc_)                                                                                               \
			FAIL("%s: %s", #CALL, fi_strerror((int) -rc_));                                                \
	} while (0)
#define SKIP(...) skip(__VA_ARGS__)

extern uint64_t seed;
extern unsigned seconds;	     // that the cases with chance in them take
extern const char *who;		     // name of this process in messages

_Noreturn void fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
_Noreturn void skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t now_us(void);
uint64_t chance(uint64_t below); // of this process; `seed` and the values that were mixed in determine the result
void mix_chance(uint64_t with);

// ---- Processes. They end with their parent.
void *shared_page(size_t len); // zeroed, shared with all children
pid_t start(const char *name, void (*run)(void *), void *with);
pid_t start_in(const char *name, void (*run)(void *), void *with, int namespaces); // CLONE_NEW...; or skips
void ended_well(pid_t pid, unsigned limit_ms);
void wait_for(const atomic_uint *flag, unsigned at_least, unsigned limit_ms, const char *what);
int log_to_file(void); // of children that are started from now on: their standard error; for `log_has`
bool log_has(int fd, const char *text);
unsigned count_fds(pid_t pid); // 0: of this process
size_t resident_kib(pid_t pid);

// ---- Bytes
void fill(void *mem, size_t len, uint64_t from);
void verify(const void *mem, size_t len, uint64_t from, const char *what);

// ---- Endpoints
struct side {
	struct fi_info *info;
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_ep *ep;
	struct fid_av *av;
	struct fid_cq *cq;
	char name[256];
};
extern uint64_t side_caps; // more capabilities of the next endpoints
void open_side(struct side *side);
void close_side(struct side *side);
fi_addr_t insert(struct side *side, const char *name);

struct op {
	struct fi_context2 context;
	bool done;
	int error;
	size_t len;
};
void look(struct side *side);		      // takes completions; each marks its `struct op` as done
bool finish(struct side *side, struct op *op, unsigned limit_ms); // fails after the limit; true without an error
void post_send(struct side *side, struct op *op, const void *mem, size_t len, fi_addr_t to, uint64_t tag, unsigned limit_ms);
void post_recv(struct side *side, struct op *op, void *mem, size_t len, uint64_t tag);

// Two processes exchange messages of all sizes in both directions at once.
struct meeting {
	struct {
		char name[256];
		atomic_uint there, done;
	} of[2];
	atomic_uint go;
};
void publish(struct side *side, struct meeting *at, unsigned which);
fi_addr_t other(struct side *side, struct meeting *at, unsigned which);
void exchange(struct side *side, fi_addr_t to, unsigned which, unsigned rounds);
void part(struct side *side, struct meeting *at, unsigned which); // both are done: neither closes before

// ---- A peer without the library
enum { HELLO = 320, ANSWER = 40, PAGE = 4096, RING = 65536, LINE = 64 };
enum { RING_AT = 8, PROBE_AT = 16, NAME_AT = 40 };
enum { WELCOME, WRONG_USER, WRONG_VERSION, WRONG_MEMORY };
// In the first page: the lines of the side that made the memory. Those of the other side follow at offset `OTHER`.
enum { WAITING_AT = 0, HEAD_AT = 64, DOORBELL_AT = 128, OTHER = 320 };

socklen_t listener_address(struct sockaddr_un *at, unsigned uid, const char *name);
int connect_listener(unsigned uid, const char *name); // a socket, or -1 and errno
void hello(uint8_t out[HELLO], const char *name, uint64_t ring);
int memory_of(size_t len, bool sealed);
ssize_t give(int socket, const void *bytes, size_t len, const int *fds, unsigned count);
int answer_of(int socket, unsigned limit_ms); // the verdict, -1: closed without one, -2: nothing in time
bool hears_end(int socket, unsigned limit_ms);

// ---- Cases
void case_kill(void);
void case_hostile(void);
void case_user(void);
void case_unknown_user(void);
void case_surroundings(const char *which);
void case_fork(void);
void case_stays(void);
void case_fork_busy(void);
void case_folder(void);
void case_together(void);
void case_device(void);

#endif
