// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Buffers in memory of a device: device.h.
//!
//! An access of a test to memory that only the driver may access is let through: the handler of SIGSEGV opens the page
//! for one instruction. Accesses from anywhere else, also from functions of libc that the library calls, end the test.
#define _GNU_SOURCE
#include "device.h"
#include "fixture.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static void *(*view)(const void *);
static int (*left)(void);
static void (*restart)(void);
static int objects_of_program;
static uintptr_t opened;
static size_t opened_len;

bool on_device(void)
{
	return getenv("CONFORMANCE_DEVICE") != NULL;
}

void *host_view(const void *mem)
{
	void *seen = view ? view(mem) : NULL;

	return seen ? seen : (void *)mem;
}

#ifdef __x86_64__
static uintptr_t own_start, own_end, library_start, library_end;
enum { PAGE = 4096, SEEN = 64, TRAP_FLAG = 0x100 };

static int note_code(struct dl_phdr_info *info, size_t size, void *first)
{
	bool is_own = *(bool *)first, is_library = strstr(info->dlpi_name, "libfabric") != NULL;

	(void)size;
	*(bool *)first = false;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + part->p_vaddr;

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
			continue;
		if (is_own) {
			own_start = start;
			own_end = start + part->p_memsz;
		} else if (is_library) {
			library_start = start;
			library_end = start + part->p_memsz;
		}
	}
	return 0;
}

// Whether the code at this address, or the first known caller of it, is a test.
static bool is_test(const ucontext_t *at)
{
	const uintptr_t *stack = (const uintptr_t *)at->uc_mcontext.gregs[REG_RSP];
	uintptr_t code = (uintptr_t)at->uc_mcontext.gregs[REG_RIP];

	for (int i = -1; i < SEEN; i++) {
		if (i >= 0)
			code = stack[i];
		if (code >= own_start && code < own_end)
			return true;
		if (code >= library_start && code < library_end)
			return false;
	}
	return false;
}

static void close_again(int number, siginfo_t *info, void *context)
{
	ucontext_t *at = context;

	(void)number;
	(void)info;
	mprotect((void *)opened, opened_len, PROT_NONE);
	opened = 0;
	at->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static void let_through(int number, siginfo_t *info, void *context)
{
	ucontext_t *at = context;

	if (!host_view(info->si_addr) || host_view(info->si_addr) == info->si_addr || !is_test(at)) {
		void *callers[32];

		backtrace_symbols_fd(callers, backtrace(callers, 32), STDERR_FILENO);
		signal(number, SIG_DFL);
		return;
	}
	// An access may cross the end of its page.
	opened = (uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1);
	opened_len = host_view((char *)opened + PAGE) == (char *)opened + PAGE ? PAGE : 2 * PAGE;
	mprotect((void *)opened, opened_len, PROT_READ | PROT_WRITE);
	at->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void watch(void)
{
	struct sigaction action = { .sa_sigaction = let_through, .sa_flags = SA_SIGINFO };
	bool first = true;

	dl_iterate_phdr(note_code, &first);
	CHECK(!sigaction(SIGSEGV, &action, NULL));
	action.sa_sigaction = close_again;
	CHECK(!sigaction(SIGTRAP, &action, NULL));
}
#else
static void watch(void)
{
	SKIP("only on x86-64");
}
#endif

static void *function(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found)
		FAIL("%s", dlerror());
	return found;
}

// ---- CUDA

static struct {
	int (*allocate)(uint64_t *, size_t), (*allocate_managed)(uint64_t *, size_t, unsigned);
} cuda;

static void start_cuda(void *library)
{
	int (*init)(unsigned) = (int (*)(unsigned))function(library, "cuInit");
	int (*retain)(void **, int) = (int (*)(void **, int))function(library, "cuDevicePrimaryCtxRetain");
	int (*set)(void *) = (int (*)(void *))function(library, "cuCtxSetCurrent");
	void *context;

	cuda.allocate = (int (*)(uint64_t *, size_t))function(library, "cuMemAlloc_v2");
	cuda.allocate_managed = (int (*)(uint64_t *, size_t, unsigned))function(library, "cuMemAllocManaged");
	view = (void *(*)(const void *))function(library, "cuStandInView");
	left = (int (*)(void))function(library, "cuStandInLeft");
	restart = (void (*)(void))function(library, "cuStandInRestart");
	if (init(0))
		SKIP("a child of a process that uses the driver");
	CHECK_EQ(retain(&context, 0), 0);
	CHECK_EQ(set(context), 0);
}

static void *allocate_cuda(size_t len, bool is_shared)
{
	uint64_t at = 0;

	CHECK_EQ(is_shared ? cuda.allocate_managed(&at, len, 1) : cuda.allocate(&at, len), 0);
	return (void *)(uintptr_t)at;
}

static void start_stand_in(void *library)
{
	view = (void *(*)(const void *))function(library, "StandInView");
	left = (int (*)(void))function(library, "StandInLeft");
	restart = (void (*)(void))function(library, "StandInRestart");
}

// ---- ROCr

struct handle {
	uint64_t value;
};

static struct {
	int (*agent_info)(struct handle, int, void *), (*pools)(struct handle, int (*)(struct handle, void *), void *);
	int (*allocate)(struct handle, size_t, uint32_t, void **);
	struct handle pools_of[2];   // of the processor and of a device
} rocr;

static int note_pool(struct handle pool, void *place)
{
	*(struct handle *)place = pool;
	return 1;
}

static int note_agent(struct handle agent, void *unused)
{
	uint32_t type = 2;

	(void)unused;
	CHECK_EQ(rocr.agent_info(agent, 17, &type), 0);
	CHECK(type < 2);
	CHECK_EQ(rocr.pools(agent, note_pool, &rocr.pools_of[type]), 1);
	return 0;
}

static void start_rocr(void *library)
{
	int (*init)(void) = (int (*)(void))function(library, "hsa_init");
	int (*agents)(int (*)(struct handle, void *), void *) =
	    (int (*)(int (*)(struct handle, void *), void *))function(library, "hsa_iterate_agents");

	start_stand_in(library);
	rocr.agent_info = (int (*)(struct handle, int, void *))function(library, "hsa_agent_get_info");
	rocr.pools = (int (*)(struct handle, int (*)(struct handle, void *), void *))function(library, "hsa_amd_agent_iterate_memory_pools");
	rocr.allocate = (int (*)(struct handle, size_t, uint32_t, void **))function(library, "hsa_amd_memory_pool_allocate");
	// The memory is that of the last device.
	CHECK(!setenv("DEVICE_COUNT", "2", 1));
	if (init())
		SKIP("a child of a process that uses the driver");
	CHECK_EQ(agents(note_agent, NULL), 0);
}

static void *allocate_rocr(size_t len, bool is_shared)
{
	void *at = NULL;

	CHECK_EQ(rocr.allocate(rocr.pools_of[!is_shared], len, 0, &at), 0);
	return at;
}

// ---- Level Zero

struct desc {
	uint32_t type;
	const void *next;
	uint32_t flags, ordinal;
};

static struct {
	void *context, *device;
	int (*allocate)(void *, const struct desc *, size_t, size_t, void *, void **);
	int (*allocate_shared)(void *, const struct desc *, const struct desc *, size_t, size_t, void *, void **);
} ze;

static void start_ze(void *library)
{
	int (*init)(int) = (int (*)(int))function(library, "zeInit");
	int (*get_drivers)(uint32_t *, void **) = (int (*)(uint32_t *, void **))function(library, "zeDriverGet");
	int (*get_devices)(void *, uint32_t *, void **) = (int (*)(void *, uint32_t *, void **))function(library, "zeDeviceGet");
	int (*create)(void *, const struct desc *, void **) = (int (*)(void *, const struct desc *, void **))function(library, "zeContextCreate");
	struct desc desc = { .type = 0xd };
	uint32_t count = 2;
	void *drivers[2];

	start_stand_in(library);
	ze.allocate = (int (*)(void *, const struct desc *, size_t, size_t, void *, void **))function(library, "zeMemAllocDevice");
	ze.allocate_shared = (int (*)(void *, const struct desc *, const struct desc *, size_t, size_t, void *, void **))
	    function(library, "zeMemAllocShared");
	if (init(1))
		SKIP("a child of a process that uses the driver");
	CHECK_EQ(get_drivers(&count, drivers), 0);
	CHECK_EQ(count, 2);
	count = 1;
	CHECK_EQ(get_devices(drivers[1], &count, &ze.device), 0);
	CHECK_EQ(create(drivers[1], &desc, &ze.context), 0);
}

static void *allocate_ze(size_t len, bool is_shared)
{
	struct desc desc = { .type = 0x15 }, host = { .type = 0x16 };
	void *at = NULL;

	if (is_shared)
		CHECK_EQ(ze.allocate_shared(ze.context, &desc, &host, len, 0, ze.device, &at), 0);
	else
		CHECK_EQ(ze.allocate(ze.context, &desc, len, 0, ze.device, &at), 0);
	return at;
}

// ----

static const struct device_kind kinds[] = {
	{
		.name = "cuda", .library = "libcuda.so.1", .iface = FI_HMEM_CUDA, .device = 0, .absent = { 1, -1, 1 << 16 },
		.copy = "cuMemcpyAsync", .finish = "cuStreamSynchronize", .no_memory = { 2, "CUDA_ERROR_OUT_OF_MEMORY" },
		.fatal = { 700, "CUDA_ERROR_ILLEGAL_ADDRESS" }, .keeps_objects = true,
		.start = start_cuda, .allocate = allocate_cuda,
	},
	{
		.name = "rocr", .library = "libhsa-runtime64.so.1", .iface = FI_HMEM_ROCR, .device = 1, .absent = { 2, -1, 1 << 16 },
		.copy = "hsa_memory_copy", .finish = "hsa_memory_copy",
		.no_memory = { 0x1008, "HSA_STATUS_ERROR_OUT_OF_RESOURCES" }, .fatal = { 0x1026, "HSA_STATUS_ERROR_FATAL" },
		.start = start_rocr, .allocate = allocate_rocr,
	},
	{
		.name = "ze", .library = "libze_loader.so.1", .iface = FI_HMEM_ZE, .device = 1 << 16, .absent = { 0, -1, 1 << 16 | 1 },
		.copy = "zeCommandListAppendMemoryCopy", .finish = "zeCommandListAppendMemoryCopy",
		.no_memory = { 0x70000003, "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY" },
		.fatal = { 0x70000001, "ZE_RESULT_ERROR_DEVICE_LOST" }, .keeps_objects = true,
		.start = start_ze, .allocate = allocate_ze,
	},
};

const struct device_kind *device_kind(void)
{
	const char *name = getenv("CONFORMANCE_DEVICE");

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	FAIL("CONFORMANCE_DEVICE=%s: there are cuda, rocr and ze", name);
}

static void *mem_of_driver(size_t len, bool is_shared)
{
	void *library;

	if (!view) {
		library = dlopen(device_kind()->library, RTLD_NOW);
		if (!library)
			FAIL("%s", dlerror());
		device_kind()->start(library);
		objects_of_program = left();
		watch();
	}
	return device_kind()->allocate(len ? len : 1, is_shared);
}

void *device_mem(size_t len)
{
	return mem_of_driver(len, false);
}

void *shared_mem(size_t len)
{
	return mem_of_driver(len, true);
}

int objects_of_driver(void)
{
	return left() - objects_of_program;
}

void restart_failures(void)
{
	restart();
}
