// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages in device memory between two processes, over the stand-in driver ../device/cuda.c. The receiver maps the
//! sender's allocation; without that the message goes through the ring or a socket. SHM_DEVICE chooses what the driver or
//! the receiver cannot do.
#define _GNU_SOURCE
#include "side.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <unistd.h>

enum { DEVICE, HOST, PLACES, LIMIT = 20000, LARGE = 4 << 20 };

static struct {
	int (*init)(unsigned), (*retain)(void **, int), (*set)(void *), (*allocate)(uint64_t *, size_t), (*release)(uint64_t);
	void *(*view)(const void *);
	int (*left)(void), (*imports)(void);
	unsigned (*calls)(const char *);
} driver;
static struct meeting *at;
static atomic_uint *step;
static struct { uint64_t at, key; } *target; // the receiver's region
static const char *what;

static void *function(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found)
		FAIL("the driver has no %s", name);
	return found;
}

static void use_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;

	CHECK(library);
	driver.init = (int (*)(unsigned)) function(library, "cuInit");
	driver.retain = (int (*)(void **, int)) function(library, "cuDevicePrimaryCtxRetain");
	driver.set = (int (*)(void *)) function(library, "cuCtxSetCurrent");
	driver.allocate = (int (*)(uint64_t *, size_t)) function(library, "cuMemAlloc_v2");
	driver.release = (int (*)(uint64_t)) function(library, "cuMemFree_v2");
	driver.view = (void *(*)(const void *)) function(library, "cuStandInView");
	driver.left = (int (*)(void)) function(library, "cuStandInLeft");
	driver.imports = (int (*)(void)) function(library, "cuStandInImports");
	driver.calls = (unsigned (*)(const char *)) function(library, "cuStandInCalls");
	CHECK(!driver.init(0) && !driver.retain(&context, 0) && !driver.set(context));
}

static unsigned opened(void)
{
	return driver.calls("cuIpcOpenMemHandle_v2");
}

// Memory, and what the tests and the library need to access it.
struct buffer {
	struct fid_mr *mr;
	void *mem, *view;
	uint64_t device;
};

static struct buffer buffer(struct side *side, int place, size_t len)
{
	struct buffer it = { 0 };
	struct iovec piece;
	struct fi_mr_attr attr = { .mr_iov = &piece, .iov_count = 1, .access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE };
	static uint64_t key = 100;

	if (place == DEVICE) {
		CHECK(!driver.allocate(&it.device, len));
		it.mem = (void *) (uintptr_t) it.device;
		it.view = driver.view(it.mem);
		attr.iface = FI_HMEM_CUDA;
	} else {
		it.view = it.mem = malloc(len);
	}
	CHECK(it.view);
	piece = (struct iovec) { it.mem, len };
	attr.requested_key = key++;
	OK(fi_mr_regattr(side->domain, &attr, 0, &it.mr));
	return it;
}

static void give_back(struct buffer *it)
{
	OK(fi_close(&it->mr->fid));
	if (it->device)
		CHECK(!driver.release(it->device));
	else
		free(it->mem);
}

static bool send_from(struct side *side, struct buffer *from, size_t skip, size_t len, fi_addr_t to, uint64_t tag)
{
	uint64_t end = now_us() + LIMIT * 1000ull;
	struct op op = { 0 };
	ssize_t rc;

	while ((rc = fi_tsend(side->ep, (char *) from->mem + skip, len, fi_mr_desc(from->mr), to, tag, &op.context)) ==
	       -FI_EAGAIN) {
		look(side);
		CHECK(now_us() < end);
	}
	OK(rc);
	return finish(side, &op, LIMIT);
}

static void post_into(struct side *side, struct buffer *to, size_t len, uint64_t tag, struct op *op)
{
	*op = (struct op){ 0 };
	OK(fi_trecv(side->ep, to->mem, len, fi_mr_desc(to->mr), FI_ADDR_UNSPEC, tag, 0, &op->context));
}

static void reach(unsigned which)
{
	atomic_store(step, which);
}

static void await(struct side *side, unsigned which, const char *that)
{
	uint64_t end = now_us() + LIMIT * 1000ull;

	while (atomic_load(step) < which) {
		look(side);
		sched_yield();
		if (now_us() > end)
			FAIL("not in time: %s", that);
	}
}

static const size_t sizes[] = { 1, 4097, 16383, 16384, 65537, (1 << 20) + 3 };
enum { SIZES = sizeof(sizes) / sizeof(*sizes) };

static bool is(const char *name)
{
	return !strcmp(what, name);
}

// Writes to the receiver's region, and reads it.
static void access_region(struct side *side, struct buffer from[PLACES], fi_addr_t to)
{
	for (unsigned turn = 0; turn < PLACES * PLACES * SIZES; turn++) {
		size_t len = sizes[turn % SIZES], skip = 8 * turn;
		struct buffer *out = &from[turn / SIZES % PLACES], *in = &from[turn / SIZES / PLACES];
		struct iovec piece = { out->mem, len };
		struct fi_rma_iov there = { target->at + skip, len, target->key };
		void *desc = fi_mr_desc(out->mr);
		struct op op = { 0 };
		struct fi_msg_rma msg = { .msg_iov = &piece, .desc = &desc, .iov_count = 1, .addr = to, .rma_iov = &there,
			.rma_iov_count = 1, .context = &op.context };
		ssize_t rc;

		fill(out->view, len, 1000 + turn);
		while ((rc = fi_writemsg(side->ep, &msg, FI_DELIVERY_COMPLETE)) == -FI_EAGAIN)
			look(side);
		OK(rc);
		CHECK(finish(side, &op, LIMIT));
		op = (struct op) { 0 };
		memset(in->view, 0xe5, len + 1);
		piece.iov_base = in->mem;
		desc = fi_mr_desc(in->mr);
		while ((rc = fi_readmsg(side->ep, &msg, 0)) == -FI_EAGAIN)
			look(side);
		OK(rc);
		CHECK(finish(side, &op, LIMIT));
		verify(in->view, len, 1000 + turn, "what was written and read");
		CHECK(((uint8_t *) in->view)[len] == 0xe5);
	}
	// Once for all accesses. tcp orders them, so they are messages there.
	CHECK(opened() == (is("excluded") || strcmp(side->info->fabric_attr->prov_name, "shm") ? 0 : 1));
}

static void sender(void *with)
{
	struct side side;
	struct buffer from[PLACES];
	fi_addr_t to;
	uint64_t tag = 0, was;

	(void) with;
	use_driver();
	open_side(&side);
	publish(&side, at, 0);
	to = other(&side, at, 0);
	for (int place = 0; place < PLACES; place++)
		from[place] = buffer(&side, place, LARGE);
	for (int turn = 0; turn < 2 * PLACES * PLACES; turn++)
		for (unsigned i = 0; i < SIZES; i++, tag++) {
			struct buffer *one = &from[turn / PLACES % PLACES];

			fill((char *) one->view + 8 * i, sizes[i], tag);
			CHECK(send_from(&side, one, 8 * i, sizes[i], to, tag));
		}
	await(&side, 1, "the receiver has counted");
	// A receive that is too short.
	fill(from[DEVICE].view, LARGE, tag);
	CHECK(send_from(&side, &from[DEVICE], 0, LARGE, to, tag));
	// Another allocation at the same address.
	was = from[DEVICE].device;
	give_back(&from[DEVICE]);
	from[DEVICE] = buffer(&side, DEVICE, LARGE);
	if (from[DEVICE].device != was)
		printf("note: another address\n");
	fill(from[DEVICE].view, LARGE, ++tag);
	CHECK(send_from(&side, &from[DEVICE], 0, LARGE, to, tag));
	await(&side, 2, "the receiver has a region");
	access_region(&side, from, to);
	reach(3);
	// The receiver looks at what is left while this process lives, and after its end.
	await(&side, 4, "the receiver is ready for the end");
	for (int place = 0; place < PLACES; place++)
		give_back(&from[place]);
	if (is("killed"))
		_exit(0);
	close_side(&side);
	CHECK(!driver.left());
}

static void receiver(void *with)
{
	struct side side;
	struct buffer to[PLACES], small;
	struct op op;
	uint64_t tag = 0, end;
	unsigned copies;
	bool maps = !is("cannot") && !is("excluded") && !is("sockets");

	(void) with;
	if (is("cannot"))
		setenv("DEVICE_FAIL", "cuIpcOpenMemHandle_v2:0:217", 1);
	if (is("stale"))
		setenv("DEVICE_FAIL", "cuIpcOpenMemHandle_v2:1:208", 1);
	if (is("uncached"))
		setenv("FI_MR_CACHE_MAX_COUNT", "0", 1);
	if (is("excluded")) {
		setenv("FI_HMEM", "system", 1);
		side_caps = 0;
	}
	use_driver();
	open_side(&side);
	publish(&side, at, 1);
	other(&side, at, 1);
	for (int place = 0; place < PLACES; place++)
		to[place] = buffer(&side, is("excluded") ? HOST : place, LARGE);
	for (int turn = 0; turn < 2 * PLACES * PLACES; turn++)
		for (unsigned i = 0; i < SIZES; i++, tag++) {
			struct buffer *one = &to[turn % PLACES];

			memset(one->view, 0xe5, sizes[i] + 1);
			// Half of the messages are there before their receive.
			if (turn >= PLACES * PLACES)
				for (int look_times = 0; look_times < 50; look_times++)
					look(&side);
			post_into(&side, one, LARGE, tag, &op);
			if (!finish(&side, &op, LIMIT))
				FAIL("message %lu: %s", tag, fi_strerror(op.error));
			CHECK(op.len == sizes[i]);
			verify(one->view, sizes[i], tag, "a message");
			CHECK(((uint8_t *) one->view)[sizes[i]] == 0xe5);
			if (is("uncached"))
				CHECK(!driver.imports());
		}
	// Three sizes in four turns are long enough. A receiver that cannot map them tries once or twice.
	CHECK(maps ? opened() == (is("uncached") ? 12 : is("stale") ? 2 : 1) : opened() <= 4);
	reach(1);
	small = buffer(&side, is("excluded") ? HOST : DEVICE, 100000);
	memset(small.view, 0xe5, 100000);
	post_into(&side, &small, 70000, tag, &op);
	CHECK(!finish(&side, &op, LIMIT));
	CHECK(op.error == FI_ETRUNC);
	verify(small.view, 70000, tag, "a message that is too long");
	CHECK(((uint8_t *) small.view)[70000] == 0xe5);
	post_into(&side, &to[DEVICE], LARGE, ++tag, &op);
	CHECK(finish(&side, &op, LIMIT));
	verify(to[DEVICE].view, LARGE, tag, "memory at the same address");
	if (maps && !is("uncached"))
		CHECK(opened() == (is("stale") ? 3 : 2));
	target->key = fi_mr_key(to[DEVICE].mr);
	target->at = side.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t) to[DEVICE].mem : 0;
	copies = driver.calls("cuMemcpyAsync");
	reach(2);
	await(&side, 3, "the sender has written and read");
	// The sender has copied, whatever memory its own side is.
	if (!is("excluded") && !strcmp(side.info->fabric_attr->prov_name, "shm"))
		CHECK(driver.calls("cuMemcpyAsync") == copies);
	// The last one of the writes.
	verify((char *) to[DEVICE].view + 8 * (PLACES * PLACES * SIZES - 1), sizes[SIZES - 1], 1000 + PLACES * PLACES * SIZES - 1,
	       "a region");
	// The mapping of memory that was freed is closed, the other one stays.
	CHECK(driver.imports() == (maps && !is("uncached")));
	reach(4);
	for (end = now_us() + LIMIT * 1000ull; driver.imports();) {
		look(&side);
		usleep(1000);
		CHECK(now_us() < end);
	}
	give_back(&small);
	for (int place = 0; place < PLACES; place++)
		give_back(&to[place]);
	close_side(&side);
	CHECK(!driver.left());
}

void case_device(void)
{
	pid_t one, two;

	if (!dlopen("libcuda.so.1", RTLD_NOW))
		SKIP("there is no driver: %s", dlerror());
	what = getenv("SHM_DEVICE") ? getenv("SHM_DEVICE") : "";
	side_caps = FI_HMEM;
	at = shared_page(sizeof(*at));
	target = shared_page(sizeof(*target));
	step = &at->go;
	one = start("sender", sender, NULL);
	two = start("receiver", receiver, NULL);
	ended_well(one, 60000);
	ended_well(two, 60000);
}
