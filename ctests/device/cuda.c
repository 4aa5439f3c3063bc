// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A stand-in for the CUDA driver, for tests on machines without a device; it shows nothing about a real one. Its device
//! memory is a file that is mapped twice: the address that programs get cannot be accessed, and the driver's calls use
//! the other one. So whoever touches device memory without the driver gets SIGSEGV, and the kernel gets EFAULT.
//!
//! As the driver's manual says: nothing works before cuInit, or in a child of the process; copies need a current
//! context and are done when the stream is waited for, not before.
//!
//! DEVICE_FAIL=function:nth:code[:sticky] makes a call fail, 0 each call, and with `sticky` all later ones. DEVICE_COUNT: devices.
//! DEVICE_RATE: bytes that the device copies in a microsecond, for each direction; copies of other streams wait for it.
//! DEVICE_OPEN: the memory can be accessed, for tests of stand-ins for adapters, which access it.
//! DEVICE_LOG: a file to which each call's name is appended. cuStandInLeft returns the objects that are open.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

typedef int CUresult, CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct context *CUcontext;
typedef struct stream *CUstream;
typedef struct { char bytes[64]; } CUipcMemHandle;

enum { SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_HANDLE = 400 };
enum { ALREADY_REGISTERED = 712, NOT_REGISTERED };
enum { ALLOCATIONS = 4096, DEVICES = 16, DEPTH = 64, PENDING = 1024, LOCKED = 1024 };

struct context {
	CUdevice device;
	int is_primary, users;
};

struct stream {
	CUcontext context;
	struct copy { CUdeviceptr to, from; size_t len; uint64_t end; } pending[PENDING];
	unsigned count;
};

static struct allocation {
	char *base, *hidden;
	size_t len, mapped;
	uint64_t id;
	CUcontext context;
	int fd, is_managed, is_import;
} allocations[ALLOCATIONS];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct context primary[DEVICES];
static pid_t owner;
static int streams;
static unsigned used; // allocations up to the last one that was ever there
static uint64_t next_id = 1;
static void *locked[LOCKED];
static __thread CUcontext stack[DEPTH];
static __thread unsigned depth;

// Counts the calls of a function, and returns what it has to fail with.
static struct { const char *name; unsigned calls; } counted[64];
static int sticky;

static CUresult enter(const char *function)
{
	const char *wanted = getenv("DEVICE_FAIL"), *log = getenv("DEVICE_LOG");
	char name[64];
	unsigned nth, i;
	int code, fd;

	if (log && (fd = open(log, O_WRONLY | O_APPEND | O_CREAT, 0600)) >= 0) {
		dprintf(fd, "%s\n", function);
		close(fd);
	}
	if (owner != getpid())
		return NOT_INITIALIZED;
	pthread_mutex_lock(&mutex);
	for (i = 0; counted[i].name && strcmp(counted[i].name, function);)
		i++;
	counted[i].name = function;
	counted[i].calls++;
	if (sticky)
		code = sticky;
	else if (wanted && sscanf(wanted, "%63[^:]:%u:%d", name, &nth, &code) == 3 && !strcmp(name, function) && (!nth || counted[i].calls == nth))
		sticky = strstr(wanted, ":sticky") ? code : 0;
	else
		code = SUCCESS;
	pthread_mutex_unlock(&mutex);
	return code;
}

#define ENTER() do { CUresult code_ = enter(__func__); if (code_) return code_; } while (0)

static unsigned count(void)
{
	const char *count = getenv("DEVICE_COUNT");

	return count ? (unsigned)atoi(count) : 1;
}

static struct allocation *find(CUdeviceptr at)
{
	for (unsigned i = 0; i < used; i++) {
		struct allocation *one = &allocations[i];

		if (one->base && at >= (uintptr_t)one->base && at < (uintptr_t)one->base + one->len)
			return one;
	}
	return NULL;
}

CUresult cuInit(unsigned flags)
{
	(void)flags;
	if (owner && owner != getpid())
		return NOT_INITIALIZED;
	owner = getpid();
	return SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
	*version = 12080;
	return SUCCESS;
}

CUresult cuGetErrorName(CUresult code, const char **name)
{
	switch (code) {
	case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; return SUCCESS;
	case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return SUCCESS;
	case 700: *name = "CUDA_ERROR_ILLEGAL_ADDRESS"; return SUCCESS;
	default: *name = NULL; return INVALID_VALUE;
	}
}

CUresult cuDeviceGetCount(int *devices)
{
	ENTER();
	*devices = (int)count();
	return SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	ENTER();
	*device = ordinal;
	return ordinal >= 0 && (unsigned)ordinal < count() ? SUCCESS : INVALID_DEVICE;
}

CUresult cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device)
{
	ENTER();
	memset(uuid, 0x40 + device, 16);
	return SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
	ENTER();
	*can = device != peer;
	return SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active)
{
	ENTER();
	*flags = 0;
	*active = primary[device].users > 0;
	return SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
	ENTER();
	primary[device].device = device;
	primary[device].is_primary = 1;
	__atomic_add_fetch(&primary[device].users, 1, __ATOMIC_RELAXED);
	*context = &primary[device];
	return SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
	ENTER();
	__atomic_sub_fetch(&primary[device].users, 1, __ATOMIC_RELAXED);
	return SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
	ENTER();
	*context = depth ? stack[depth - 1] : NULL;
	return SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
	ENTER();
	if (!depth)
		depth++;
	stack[depth - 1] = context;
	return SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
	ENTER();
	if (!context || depth == DEPTH)
		return INVALID_CONTEXT;
	stack[depth++] = context;
	return SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
	if (!depth)
		return INVALID_CONTEXT;
	*context = stack[--depth];
	return enter(__func__);
}

static CUcontext current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

// Maps a file of `len` bytes twice; the first mapping cannot be accessed.
static CUresult map(struct allocation *one, int fd, size_t len, int is_managed)
{
	size_t mapped = (len + 4095) & ~(size_t)4095;

	one->hidden = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (one->hidden == MAP_FAILED)
		return OUT_OF_MEMORY;
	one->base = mmap(NULL, mapped, is_managed || getenv("DEVICE_OPEN") ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, fd, 0);
	if (one->base == MAP_FAILED) {
		one->base = NULL;
		munmap(one->hidden, mapped);
		return OUT_OF_MEMORY;
	}
	if (one >= allocations + used)
		used = (unsigned)(one - allocations) + 1;
	one->len = len;
	one->mapped = mapped;
	one->fd = fd;
	one->is_managed = is_managed;
	one->context = current();
	return SUCCESS;
}

static CUresult allocate(CUdeviceptr *at, size_t len, int is_managed)
{
	struct allocation *one = allocations;
	CUresult code = OUT_OF_MEMORY;
	int fd;

	if (!current())
		return INVALID_CONTEXT;
	if (!len)
		return INVALID_VALUE;
	pthread_mutex_lock(&mutex);
	while (one < allocations + ALLOCATIONS && one->base)
		one++;
	if (one < allocations + ALLOCATIONS && (fd = memfd_create("device", 0)) >= 0) {
		code = ftruncate(fd, (off_t)len) ? OUT_OF_MEMORY : map(one, fd, len, is_managed);
		one->id = next_id++;
		one->is_import = 0;
		*at = (uintptr_t)one->base;
		if (code)
			close(fd);
	}
	pthread_mutex_unlock(&mutex);
	return code;
}

CUresult cuMemAlloc_v2(CUdeviceptr *at, size_t len)
{
	ENTER();
	return allocate(at, len, 0);
}

CUresult cuMemAllocManaged(CUdeviceptr *at, size_t len, unsigned flags)
{
	(void)flags;
	ENTER();
	return allocate(at, len, 1);
}

static void unmap(struct allocation *one)
{
	munmap(one->base, one->mapped);
	munmap(one->hidden, one->mapped);
	close(one->fd);
	one->base = NULL;
}

CUresult cuMemFree_v2(CUdeviceptr at)
{
	struct allocation *one;
	CUresult code = INVALID_VALUE;

	ENTER();
	pthread_mutex_lock(&mutex);
	one = find(at);
	if (one && (uintptr_t)one->base == at && !one->is_import) {
		unmap(one);
		code = SUCCESS;
	}
	pthread_mutex_unlock(&mutex);
	return code;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *len, CUdeviceptr at)
{
	struct allocation *one;

	ENTER();
	pthread_mutex_lock(&mutex);
	one = find(at);
	if (one) {
		*base = (uintptr_t)one->base;
		*len = one->len;
	}
	pthread_mutex_unlock(&mutex);
	return one ? SUCCESS : INVALID_VALUE;
}

static CUresult attribute(void *data, int which, const struct allocation *one)
{
	switch (which) {
	case 1:
		*(CUcontext *)data = one->context;
		return SUCCESS;
	case 2:
		*(unsigned *)data = 2;
		return SUCCESS;
	case 7:
		*(uint64_t *)data = one->id;
		return SUCCESS;
	case 8:
		*(unsigned *)data = (unsigned)one->is_managed;
		return SUCCESS;
	case 9:
		*(int *)data = one->context->device;
		return SUCCESS;
	case 10:
		*(unsigned char *)data = !one->is_managed;
		return SUCCESS;
	default:
		return INVALID_VALUE;
	}
}

CUresult cuPointerGetAttribute(void *data, int which, CUdeviceptr at)
{
	struct allocation *one;
	CUresult code;

	ENTER();
	pthread_mutex_lock(&mutex);
	one = find(at);
	code = one ? attribute(data, which, one) : INVALID_VALUE;
	pthread_mutex_unlock(&mutex);
	return code;
}

CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
	ENTER();
	if (!current())
		return INVALID_CONTEXT;
	// Copies must not wait for the kernels of the program.
	if (flags != 1)
		return INVALID_VALUE;
	*stream = calloc(1, sizeof(**stream));
	(*stream)->context = current();
	__atomic_add_fetch(&streams, 1, __ATOMIC_RELAXED);
	return SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	ENTER();
	free(stream);
	__atomic_sub_fetch(&streams, 1, __ATOMIC_RELAXED);
	return SUCCESS;
}

// The address at which the driver accesses memory; NULL if it is the device's and too short.
static char *reach(CUdeviceptr at, size_t len)
{
	struct allocation *one = find(at);

	if (!one)
		return (char *)(uintptr_t)at;
	return len <= one->len - (at - (uintptr_t)one->base) ? one->hidden + (at - (uintptr_t)one->base) : NULL;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// When a copy that begins now has ended.
static uint64_t end_of_copy(int to_device, size_t len)
{
	static uint64_t busy_until[2];
	const char *rate = getenv("DEVICE_RATE");
	uint64_t begin = now_ns(), end = 0;

	if (!rate || atoi(rate) <= 0)
		return 0;
	pthread_mutex_lock(&mutex);
	if (begin < busy_until[to_device])
		begin = busy_until[to_device];
	busy_until[to_device] = end = begin + len * 1000 / (uint64_t)atoi(rate);
	pthread_mutex_unlock(&mutex);
	return end;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t len, CUstream stream)
{
	ENTER();
	if (!stream || !current())
		return INVALID_CONTEXT;
	if (stream->context != current() || stream->count == PENDING)
		return INVALID_HANDLE;
	pthread_mutex_lock(&mutex);
	char *has_to = reach(to, len), *has_from = reach(from, len);
	pthread_mutex_unlock(&mutex);
	if (!has_to || !has_from)
		return INVALID_VALUE;
	stream->pending[stream->count++] = (struct copy){ to, from, len, end_of_copy(find(to) != NULL, len) };
	return SUCCESS;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	for (unsigned i = 0; i < stream->count; i++) {
		struct copy *copy = &stream->pending[i];

		while (now_ns() < copy->end)
			sched_yield();
		pthread_mutex_lock(&mutex);
		char *to = reach(copy->to, copy->len), *from = reach(copy->from, copy->len);
		pthread_mutex_unlock(&mutex);
		if (to && from)
			memcpy(to, from, copy->len);
	}
	stream->count = 0;
	ENTER();
	return SUCCESS;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t len)
{
	char *has_to, *has_from;

	ENTER();
	if (!current())
		return INVALID_CONTEXT;
	pthread_mutex_lock(&mutex);
	has_to = reach(to, len);
	has_from = reach(from, len);
	pthread_mutex_unlock(&mutex);
	if (!has_to || !has_from)
		return INVALID_VALUE;
	memcpy(has_to, has_from, len);
	return SUCCESS;
}

CUresult cuMemHostRegister_v2(void *at, size_t len, unsigned flags)
{
	unsigned i = 0, free = LOCKED;

	ENTER();
	if (!current())
		return INVALID_CONTEXT;
	if ((uintptr_t)at % 4096 || !len || flags != 1)
		return INVALID_VALUE;
	pthread_mutex_lock(&mutex);
	for (; i < LOCKED && locked[i] != at; i++)
		if (!locked[i])
			free = i;
	if (i == LOCKED && free < LOCKED)
		locked[free] = at;
	pthread_mutex_unlock(&mutex);
	return i < LOCKED ? ALREADY_REGISTERED : free == LOCKED ? OUT_OF_MEMORY : SUCCESS;
}

CUresult cuMemHostUnregister(void *at)
{
	unsigned i = 0;

	ENTER();
	if (!current())
		return INVALID_CONTEXT;
	pthread_mutex_lock(&mutex);
	while (i < LOCKED && locked[i] != at)
		i++;
	if (i < LOCKED)
		locked[i] = NULL;
	pthread_mutex_unlock(&mutex);
	return i < LOCKED ? SUCCESS : NOT_REGISTERED;
}

// A descriptor of the file that has the memory.
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr at, size_t len, int type, unsigned long long flags)
{
	struct allocation *one;
	CUresult code = INVALID_VALUE;

	ENTER();
	pthread_mutex_lock(&mutex);
	one = find(at);
	// As drivers that do not know the flag.
	if (one && !one->is_managed && type == 1 && !flags && at % 4096 == 0 && at + len <= (uintptr_t)one->base + one->mapped) {
		*(int *)handle = dup(one->fd);
		code = SUCCESS;
	}
	pthread_mutex_unlock(&mutex);
	return code;
}

struct exported {
	char magic[8];
	pid_t pid;
	int fd;
	uint64_t id;
	size_t len;
};

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr at)
{
	struct allocation *one;

	ENTER();
	pthread_mutex_lock(&mutex);
	one = find(at);
	memset(handle, 0, sizeof(*handle));
	if (one && !one->is_managed && !one->is_import) {
		struct exported exported = { "handle", getpid(), one->fd, one->id, one->len };

		memcpy(handle, &exported, sizeof(exported));
	} else {
		one = NULL;
	}
	pthread_mutex_unlock(&mutex);
	return one ? SUCCESS : INVALID_VALUE;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *at, CUipcMemHandle handle, unsigned flags)
{
	struct allocation *one = allocations;
	struct exported exported;
	char path[64];
	CUresult code = INVALID_VALUE;
	int fd;

	ENTER();
	memcpy(&exported, &handle, sizeof(exported));
	if (!current())
		return INVALID_CONTEXT;
	if (flags != 1 || strcmp(exported.magic, "handle") || exported.pid == getpid())
		return INVALID_VALUE;
	snprintf(path, sizeof(path), "/proc/%d/fd/%d", exported.pid, exported.fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return INVALID_VALUE;
	pthread_mutex_lock(&mutex);
	while (one < allocations + ALLOCATIONS && one->base)
		one++;
	if (one < allocations + ALLOCATIONS)
		code = map(one, fd, exported.len, 0);
	if (!code) {
		one->id = next_id++;
		one->is_import = 1;
		*at = (uintptr_t)one->base;
	} else {
		close(fd);
	}
	pthread_mutex_unlock(&mutex);
	return code;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr at)
{
	struct allocation *one;
	CUresult code = INVALID_VALUE;

	ENTER();
	pthread_mutex_lock(&mutex);
	one = find(at);
	if (one && one->is_import && (uintptr_t)one->base == at) {
		unmap(one);
		code = SUCCESS;
	}
	pthread_mutex_unlock(&mutex);
	return code;
}

// For tests: where the bytes of device memory can be accessed; NULL for other memory.
void *cuStandInView(void *at)
{
	struct allocation *one;
	char *view = NULL;

	pthread_mutex_lock(&mutex);
	one = find((uintptr_t)at);
	if (one)
		view = one->hidden + ((char *)at - one->base);
	pthread_mutex_unlock(&mutex);
	return view;
}

// For tests: counts the calls for DEVICE_FAIL from now on.
void cuStandInRestart(void)
{
	pthread_mutex_lock(&mutex);
	memset(counted, 0, sizeof(counted));
	sticky = 0;
	pthread_mutex_unlock(&mutex);
}

// For tests: how often a function was called.
unsigned cuStandInCalls(const char *function)
{
	unsigned calls = 0;

	pthread_mutex_lock(&mutex);
	for (unsigned i = 0; counted[i].name; i++)
		if (!strcmp(counted[i].name, function))
			calls = counted[i].calls;
	pthread_mutex_unlock(&mutex);
	return calls;
}

// For tests: allocations of other processes that are mapped.
int cuStandInImports(void)
{
	int imports = 0;

	for (unsigned i = 0; i < ALLOCATIONS; i++)
		imports += allocations[i].base && allocations[i].is_import;
	return imports;
}

// For tests: objects of the library that are open.
int cuStandInLeft(void)
{
	int left = streams + cuStandInImports();

	for (unsigned i = 0; i < LOCKED; i++)
		left += locked[i] != NULL;
	return left;
}
