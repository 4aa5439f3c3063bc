// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The conformance suite: one test per rule of a man page, run for every provider and endpoint type that offers it.
//!
//! A test is written `TEST(fi_cq, count_zero_reads_nothing, EP_RDM | EP_MSG, FI_MSG, "the rule in a sentence") { ... }`
//! and gets `struct env *t`. It runs alone in a forked child with a time limit, so that a crash or a hang is one
//! failure. A failed check ends the child at once. When a test returns, everything that it opened is closed in reverse
//! order, and each fi_close must return 0. Tests wait for a condition with `ONCE`/`wait_*`, never for a fixed time.
#ifndef CONFORMANCE_HARNESS_H
#define CONFORMANCE_HARNESS_H

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

struct env;

// Where a test runs (the third argument of TEST).
enum {
	EP_RDM = 1 << 0,
	EP_MSG = 1 << 1,
	EP_DGRAM = 1 << 2,
	EP_ANY = EP_RDM | EP_MSG | EP_DGRAM,
	EP_AV = EP_RDM | EP_DGRAM,     // endpoint types that use an address vector
	EP_RELIABLE = EP_RDM | EP_MSG, // endpoint types that never lose a message
	CORE = 1 << 3,                 // once, without a provider: t->info is NULL
	OURS_ONLY = 1 << 4,            // defined by this library beyond the man page: skipped on any other library
};

struct test {
	const char *page, *rule, *text, *file;
	int line;
	unsigned where;
	uint64_t caps;
	void (*run)(struct env *t);
	struct test *next;
};

void test_register(struct test *test);

#define TEST(PAGE, RULE, WHERE, CAPS, TEXT)                                                                            \
	static void PAGE##__##RULE(struct env *t);                                                                     \
	__attribute__((constructor)) static void PAGE##__##RULE##__register(void)                                      \
	{                                                                                                              \
		static struct test test = {                                                                            \
			.page = #PAGE, .rule = #RULE, .text = TEXT, .file = __FILE__, .line = __LINE__,                \
			.where = (WHERE), .caps = (CAPS), .run = PAGE##__##RULE,                                       \
		};                                                                                                     \
		test_register(&test);                                                                                  \
	}                                                                                                              \
	static void PAGE##__##RULE(__attribute__((unused)) struct env *t)

// Outcomes. Each ends the child; usable from any thread and from helpers.
_Noreturn void test_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
_Noreturn void test_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define FAIL(...) test_fail(__FILE__, __LINE__, __VA_ARGS__)
#define SKIP(...) test_skip(__VA_ARGS__)
#define CHECK(COND)                                                                                                    \
	do {                                                                                                           \
		if (!(COND))                                                                                           \
			FAIL("not so: %s", #COND);                                                                     \
	} while (0)
// Compares two integers and prints both.
#define CHECK_EQ(GOT, WANT)                                                                                            \
	do {                                                                                                           \
		long long got_ = (long long)(GOT), want_ = (long long)(WANT);                                          \
		if (got_ != want_)                                                                                     \
			FAIL("%s is %lld (0x%llx), not %lld (0x%llx)", #GOT, got_, got_, want_, want_);                \
	} while (0)
#define CHECK_STR(GOT, WANT)                                                                                           \
	do {                                                                                                           \
		const char *got_ = (GOT), *want_ = (WANT);                                                             \
		if (!got_ || strcmp(got_, want_))                                                                      \
			FAIL("%s is \"%s\", not \"%s\"", #GOT, got_ ? got_ : "(null)", want_);                         \
	} while (0)
// Compares a return code and prints its name.
#define CHECK_RC(CALL, WANT)                                                                                           \
	do {                                                                                                           \
		long long got_ = (long long)(CALL), want_ = (long long)(WANT);                                         \
		if (got_ != want_)                                                                                     \
			FAIL("%s gave %s, not %s", #CALL, rc_name(got_), rc_name(want_));                              \
	} while (0)
#define CHECK_RC2(CALL, WANT1, WANT2)                                                                                  \
	do {                                                                                                           \
		long long got_ = (long long)(CALL), w1_ = (long long)(WANT1), w2_ = (long long)(WANT2);                \
		if (got_ != w1_ && got_ != w2_)                                                                        \
			FAIL("%s gave %s, not %s or %s", #CALL, rc_name(got_), rc_name(w1_), rc_name(w2_));            \
	} while (0)
#define OK(CALL) CHECK_RC(CALL, 0)
// Skips the test if the call returns that an optional feature is not supported.
#define OK_OR_SKIP(CALL)                                                                                               \
	do {                                                                                                           \
		long long got_ = (long long)(CALL);                                                                    \
		if (got_ == -FI_ENOSYS || got_ == -FI_EOPNOTSUPP)                                                      \
			SKIP("%s: %s", #CALL, rc_name(got_));                                                          \
		if (got_)                                                                                              \
			FAIL("%s gave %s", #CALL, rc_name(got_));                                                      \
	} while (0)
// Waits until COND holds, while all objects of the environment make progress; fails after the time limit.
#define ONCE(T, COND)                                                                                                  \
	for (uint64_t limit_ = now_ms() + (T)->limit_ms; !(COND); progress(T))                                         \
		if (now_ms() > limit_)                                                                                 \
	FAIL("did not happen within %u ms: %s", (T)->limit_ms, #COND)

const char *rc_name(long long rc); // "-FI_EAGAIN", "3", ...; eight buffers in turn
uint64_t now_ms(void);             // monotonic
bool is_ours(void);                // the library under test is this project's
bool is_layered(const struct env *t); // the provider builds upon another one: "tcp;ofi_rxm"
bool is_checked(void);             // valgrind or a sanitizer runs it, so it is slow and uses other memory

// Bytes of the longest address.
enum { ADDR_ROOM = 1024 };

// One of two connected ends.
struct side {
	struct fi_info *info;
	struct fid_ep *ep;
	struct fid_cq *txcq, *rxcq; // the same queue if pair_opt.one_cq
	struct fid_cntr *cntr;      // if pair_opt.cntr_flags
	struct fid_av *av;          // RDM, DGRAM
	fi_addr_t peer;             // the other end; FI_ADDR_UNSPEC for MSG
	char name[ADDR_ROOM];       // own address, from fi_getname
	size_t namelen;
};

struct env {
	const char *prov; // provider of this instance, NULL for CORE
	enum fi_ep_type type;
	uint64_t caps;
	uint32_t version;      // requested API version; change it and call env_info() again
	unsigned limit_ms;     // for ONCE and wait_*
	struct fi_info *hints; // requested attributes; change them and call env_info() again
	struct fi_info *info;  // one entry: the loopback interface if the provider has one
	struct fid_fabric *fabric;
	struct fid_domain *domain;
	struct fid_eq *eq; // opened by the MSG pair
	struct fid_pep *pep;
	struct side a, b; // a connects, b accepts
	uint64_t next_key;
	struct flow *flow;
	struct held *held; // objects to close when the test returns, last first
};

// Objects that the harness closes. `keep` adds an object that the test opened; `shut` closes one now and removes it.
void keep(struct env *t, struct fid *fid);
void keep_info(struct env *t, struct fi_info *info);
void shut(struct env *t, struct fid *fid);
void shut_all(struct env *t); // all objects that are held
void forget(struct env *t, struct fid *fid);

// Opens objects, each once; failures end the test. open_domain opens the fabric if needed.
int env_try_info(struct env *t); // fi_getinfo by t->hints and t->version into t->info; returns its code
void env_info(struct env *t);    // the same; skips the test if there is no entry
void need_order(struct env *t, uint64_t any); // requests one of these message orders unless it is always present
void env_version(struct env *t, uint32_t version); // requests again like a program of that API version
void open_fabric(struct env *t);
void open_domain(struct env *t);
struct fid_eq *open_eq(struct env *t, enum fi_wait_obj wait, uint64_t flags);
struct fid_cq *open_cq(struct env *t, enum fi_cq_format format, enum fi_wait_obj wait);
struct fid_cntr *open_cntr(struct env *t, enum fi_wait_obj wait);
struct fid_av *open_av(struct env *t, enum fi_av_type type);
struct fid_av *open_av_by_name(struct env *t); // the same; skips the test if fi_av_insertsvc is not supported
struct fid_ep *open_ep(struct env *t, struct fi_info *info); // not bound to anything
struct fid_ep *open_bound_ep(struct env *t, struct side *side); // fills side with CQ, AV, EQ; not enabled

// Addresses in the format of t->info. Those of an array are consecutive, whatever their lengths.
size_t put_address(struct env *t, unsigned which, void *at); // one without an endpoint; returns its length
int which_address(struct env *t, const void *addr);          // the number that results in it; -1: none
size_t put_unused(struct env *t, void *at);                  // one that an endpoint of this process can have
size_t put_foreign(struct env *t, void *at);                 // of another format, which no provider accepts
bool same_address(struct env *t, const void *x, const void *y);
bool is_tcp(struct env *t);       // uses the protocol of tcp: tcp itself and sockets
bool has_strings(struct env *t); // the format is FI_ADDR_STR
bool is_linked(struct env *t);   // names of lnx: docs/wire/lnx.md
bool links_shm(void);            // FI_LNX_PROV_LINKS has shared memory
bool has_rail(const void *name, size_t len, const void *of); // a name of lnx has the rail of another one
void need_ipv4(struct env *t);   // skips if the format is not sockaddr_in
void set_source(struct fi_info *info, const void *addr, size_t len);

// A thread in fi_cntr_wait without a limit; `rc` is the result.
struct cntr_waiter {
	pthread_t thread;
	struct fid_cntr *cntr;
	uint64_t threshold;
	int rc;
	_Atomic bool done;
};
void start_cntr_waiter(struct cntr_waiter *waiter);
int join_cntr_waiter(struct cntr_waiter *waiter);

// Two connected ends. PAIR(t) uses the defaults; PAIR(t, .cq.wait_obj = FI_WAIT_FD, .one_cq = true) changes them.
struct pair_opt {
	struct fi_cq_attr cq;    // format 0 (UNSPEC) becomes TAGGED
	struct fi_cntr_attr cntr;
	uint64_t cntr_flags;     // bind one counter to each end with these flags (FI_SEND | FI_RECV, ...)
	uint64_t tx_flags, rx_flags; // added to FI_TRANSMIT, FI_RECV when the CQs are bound (FI_SELECTIVE_COMPLETION)
	uint64_t tx_op_flags, rx_op_flags; // default operation flags of the endpoints
	struct fi_av_attr av;    // type 0 (UNSPEC) becomes TABLE
	bool one_cq;             // one queue per end for both directions
	bool same_cq;            // one queue for everything
	bool same_cntr;          // one counter for both ends
	bool unbound_rxcq;       // the receive queues are opened, and the endpoints enabled without them
	struct fid_ep *srx;      // a shared receive context bound to both ends
	struct fid_stx *stx;     // a shared transmit context bound to both ends
	void (*tune)(struct fi_info *info); // final changes to the info of each endpoint
};
#define PAIR(T, ...) pair_open((T), &(struct pair_opt){ __VA_ARGS__ })
void pair_open(struct env *t, const struct pair_opt *opt);
void pair_close(struct env *t); // endpoints only, both ends

// Connections (MSG).
struct fid_pep *open_pep(struct env *t, struct fid_eq *eq); // bound, not listening
void pep_address(struct fid_pep *pep, void *addr, size_t *len);
void wait_connected(struct env *t, struct fid_eq *eq, struct fid_ep *x, struct fid_ep *y); // y may be NULL

// The same step by step: a listener on t->eq, a request from t->a, the endpoint t->b made for a request's info (freed).
enum { CM_ROOM = 1024 };
union cm_entry {
	struct fi_eq_cm_entry cm;
	uint8_t bytes[sizeof(struct fi_eq_cm_entry) + CM_ROOM];
};
struct cm_listener {
	struct fid_pep *pep;
	char addr[256];
	size_t addrlen;
};
struct cm_listener cm_listen(struct env *t);
size_t cm_request(struct env *t, struct cm_listener *listener, const void *data, size_t len, union cm_entry *in);
struct fid_ep *cm_accepting(struct env *t, struct fi_info *info);

// Waiting.
void progress(struct env *t); // reads nothing from every queue the environment holds
void turn(struct env *t);     // the same many times, for checks that nothing happens
void wait_comp(struct env *t, struct fid_cq *cq, struct fi_cq_tagged_entry *comp); // one entry of a TAGGED queue
void wait_read(struct env *t, struct fid_cq *cq, void *entry); // one entry of any format
void wait_err(struct env *t, struct fid_cq *cq, struct fi_cq_err_entry *err); // an error entry, nothing before it
ssize_t wait_event(struct env *t, struct fid_eq *eq, uint32_t want, void *buf, size_t len);
void wait_eq_err(struct env *t, struct fid_eq *eq, struct fi_eq_err_entry *err);
// Posts again while the call returns -FI_EAGAIN (a full queue, or a connection that is being established).
#define POST(T, CALL)                                                                                                  \
	do {                                                                                                           \
		ssize_t rc_ = -FI_EAGAIN;                                                                              \
		ONCE(T, (rc_ = (CALL)) != -FI_EAGAIN);                                                                 \
		if (rc_)                                                                                               \
			FAIL("%s gave %s", #CALL, rc_name(rc_));                                                       \
	} while (0)

// Memory. `reg` registers with a new key if the application chooses keys. `reg_desc` registers only if local buffers
// must be registered (FI_MR_LOCAL) and returns the descriptor, otherwise NULL.
struct fid_mr *reg(struct env *t, void *buf, size_t len, uint64_t access);
void *reg_desc(struct env *t, void *buf, size_t len, uint64_t access);
uint64_t rma_addr(struct env *t, const void *base, size_t offset); // address or offset for a peer's access
// Traffic from a to b, for tests that need completions of any kind: message i is FLOW_LEN bytes, posted with the context
// &flow->rx[i] at b and &flow->tx[i] at a.
enum { FLOW_MAX = 256, FLOW_LEN = 32 };
struct flow {
	struct fi_context2 rx[FLOW_MAX], tx[FLOW_MAX];
	char in[FLOW_MAX][FLOW_LEN], out[FLOW_MAX][FLOW_LEN];
	void *in_desc, *out_desc;
};
struct flow *flow_post_recv(struct env *t, unsigned first, unsigned count);
struct flow *flow_post_send(struct env *t, unsigned first, unsigned count);
struct flow *flow_run(struct env *t, unsigned first, unsigned count); // both, and reads a's completions
// A receive at b that is cancelled: the documented way to an error entry (FI_ECANCELED). Skips if there is no cancel.
void flow_error(struct env *t, unsigned index);
void fill(void *buf, size_t len, unsigned seed);
bool filled(const void *buf, size_t len, unsigned seed);
bool filled_by_now(const void *buf, size_t len, unsigned seed); // also while a library thread may write there

// Running (main.c).
struct instance {
	const struct test *test;
	const char *prov; // NULL for CORE
	enum fi_ep_type type;
};
extern bool over_ipv6; // IP providers on ::1 instead of 127.0.0.1
enum outcome { PASSED, FAILED, SKIPPED };
struct result {
	enum outcome outcome;
	char reason[512];
	char *output; // what the child wrote to stdout and stderr
};
struct test *test_list(void); // sorted by page, then by place in the file
int run_all(struct instance *list, size_t count, unsigned jobs, unsigned limit_s,
	    void (*report)(const struct instance *, struct result *));
_Noreturn void run_here(const struct instance *instance); // in this process, for a debugger
size_t offered(char (*provs)[64], enum fi_ep_type *types, size_t max); // (provider, endpoint type) pairs; uses a child
const char *ep_type_name(enum fi_ep_type type);

#endif
