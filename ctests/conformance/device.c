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
static int (*allocate)(uint64_t *, size_t), (*left)(void);
static void (*restart)(void);
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

static void start(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned), (*retain)(void **, int), (*set)(void *);
	void *context;

	if (!driver)
		FAIL("%s", dlerror());
	init = (int (*)(unsigned))dlsym(driver, "cuInit");
	retain = (int (*)(void **, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
	set = (int (*)(void *))dlsym(driver, "cuCtxSetCurrent");
	allocate = (int (*)(uint64_t *, size_t))dlsym(driver, "cuMemAlloc_v2");
	view = (void *(*)(const void *))dlsym(driver, "cuStandInView");
	left = (int (*)(void))dlsym(driver, "cuStandInLeft");
	restart = (void (*)(void))dlsym(driver, "cuStandInRestart");
	CHECK(init && retain && set && allocate && view && left && restart);
	if (init(0))
		SKIP("a child of a process that uses the driver");
	CHECK_EQ(retain(&context, 0), 0);
	CHECK_EQ(set(context), 0);
	watch();
}

void *device_mem(size_t len)
{
	uint64_t at = 0;

	if (!allocate)
		start();
	CHECK_EQ(allocate(&at, len ? len : 1), 0);
	return (void *)(uintptr_t)at;
}

int objects_of_driver(void)
{
	return left();
}

void restart_failures(void)
{
	restart();
}
