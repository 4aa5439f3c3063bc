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
typedef struct event *CUevent;
typedef struct { char bytes[64]; } CUipcMemHandle;

enum {
	SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, INVALID_DEVICE = 101, INVALID_CONTEXT = 201, INVALID_HANDLE = 400,
	NOT_READY = 600, ILLEGAL_ADDRESS = 700, ALREADY_REGISTERED = 712, NOT_REGISTERED, NOT_SUPPORTED = 801,
};
enum { ALLOCATIONS = 4096, DEVICES = 16, DEPTH = 64, PENDING = 1024, LOCKED = 1024 };

// The processor cannot access memory of the kinds DEVICE and PIECE. cuMemMap makes pieces; they have no context and no IPC
// handle.
enum kind { DEVICE, MANAGED, HOST, PIECE };

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
	int fd, is_import;
	enum kind kind;
	unsigned sync_memops;
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
static struct { const char *name; unsigned calls; } counted[128];
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

static const struct { CUresult code; const char *name, *text; } errors[] = {
	{ SUCCESS, "CUDA_SUCCESS", "no error" },
	{ INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument" },
	{ OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory" },
	{ NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error" },
	{ INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal" },
	{ INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context" },
	{ INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle" },
	{ NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready" },
	{ ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered" },
	{ ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED", "part or all of the requested memory range is already mapped" },
	{ NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED", "pointer does not correspond to a registered memory region" },
	{ NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported" },
};

CUresult cuGetErrorName(CUresult code, const char **name)
{
	*name = NULL;
	for (unsigned i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].code == code)
			*name = errors[i].name;
	return *name ? SUCCESS : INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **text)
{
	*text = NULL;
	for (unsigned i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].code == code)
			*text = errors[i].text;
	return *text ? SUCCESS : INVALID_VALUE;
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

CUresult cuDeviceGetName(char *name, int len, CUdevice device)
{
	ENTER();
	snprintf(name, (size_t)len, "stand-in %d", device);
	return SUCCESS;
}

// Attributes of a device of compute capability 9.0 that exports its memory as DMA buffers.
CUresult cuDeviceGetAttribute(int *value, int which, CUdevice device)
{
	ENTER();
	if (device < 0 || (unsigned)device >= count())
		return INVALID_DEVICE;
	switch (which) {
	case 33: // PCI bus
		*value = 1 + device;
		return SUCCESS;
	case 75: // Compute capability, major
		*value = 9;
		return SUCCESS;
	case 41: // Unified addressing
	case 83: // Managed memory
	case 89: // Concurrent managed access
	case 116: // GPU direct RDMA
	case 124: // DMA buffers
		*value = 1;
		return SUCCESS;
	default:
		*value = 0;
		return SUCCESS;
	}
}

CUresult cuDeviceGetPCIBusId(char *text, int len, CUdevice device)
{
	ENTER();
	if (device < 0 || (unsigned)device >= count())
		return INVALID_DEVICE;
	snprintf(text, (size_t)len, "0000:%02x:00.0", 1 + device);
	return SUCCESS;
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

CUresult cuCtxGetDevice(CUdevice *device)
{
	ENTER();
	if (!depth || !stack[depth - 1])
		return INVALID_CONTEXT;
	*device = stack[depth - 1]->device;
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

// Maps a file of `len` bytes twice; the first mapping of a device's memory cannot be accessed.
static CUresult map(struct allocation *one, int fd, size_t len, enum kind kind)
{
	size_t mapped = (len + 4095) & ~(size_t)4095;

	one->hidden = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (one->hidden == MAP_FAILED)
		return OUT_OF_MEMORY;
	one->base = mmap(NULL, mapped, kind == MANAGED || kind == HOST || getenv("DEVICE_OPEN") ? PROT_READ | PROT_WRITE : PROT_NONE, MAP_SHARED, fd, 0);
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
	one->kind = kind;
	one->sync_memops = 0;
	one->context = current();
	return SUCCESS;
}

static CUresult allocate(CUdeviceptr *at, size_t len, enum kind kind)
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
		code = ftruncate(fd, (off_t)len) ? OUT_OF_MEMORY : map(one, fd, len, kind);
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
	return allocate(at, len, DEVICE);
}

CUresult cuMemAllocManaged(CUdeviceptr *at, size_t len, unsigned flags)
{
	(void)flags;
	ENTER();
	return allocate(at, len, MANAGED);
}

static void unmap(struct allocation *one)
{
	munmap(one->base, one->mapped);
	munmap(one->hidden, one->mapped);
	close(one->fd);
	one->base = NULL;
}

static CUresult release(CUdeviceptr at, int is_host)
{
	struct allocation *one;
	CUresult code = INVALID_VALUE;

	pthread_mutex_lock(&mutex);
	one = find(at);
	if (one && (uintptr_t)one->base == at && !one->is_import && one->kind != PIECE && (one->kind == HOST) == is_host) {
		unmap(one);
		code = SUCCESS;
	}
	pthread_mutex_unlock(&mutex);
	return code;
}

CUresult cuMemFree_v2(CUdeviceptr at)
{
	ENTER();
	return release(at, 0);
}

CUresult cuMemHostAlloc(void **at, size_t len, unsigned flags)
{
	CUdeviceptr has = 0;
	CUresult code;

	(void)flags;
	ENTER();
	code = allocate(&has, len, HOST);
	*at = (void *)(uintptr_t)has;
	return code;
}

CUresult cuMemFreeHost(void *at)
{
	ENTER();
	return release((uintptr_t)at, 1);
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
		*(unsigned *)data = one->kind == HOST ? 1 : 2;
		return SUCCESS;
	case 6:
		*(unsigned *)data = one->sync_memops;
		return SUCCESS;
	case 7:
		*(uint64_t *)data = one->id;
		return SUCCESS;
	case 8:
		*(unsigned *)data = one->kind == MANAGED;
		return SUCCESS;
	case 9:
		*(int *)data = (one->context ? one->context->device : 0);
		return SUCCESS;
	case 10:
		*(unsigned char *)data = one->kind == DEVICE;
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

// An address that the driver does not know is no error here: its attributes are 0.
CUresult cuPointerGetAttributes(unsigned count, const int *which, void **data, CUdeviceptr at)
{
	static const size_t lens[] = { [1] = 8, [2] = 4, [6] = 4, [7] = 8, [8] = 4, [9] = 4, [10] = 1 };
	struct allocation *one;
	CUresult code = SUCCESS;

	ENTER();
	pthread_mutex_lock(&mutex);
	one = find(at);
	for (unsigned i = 0; i < count && !code; i++) {
		if (which[i] < 0 || (size_t)which[i] >= sizeof(lens) / sizeof(*lens) || !lens[which[i]])
			code = INVALID_VALUE;
		else if (one)
			code = attribute(data[i], which[i], one);
		else
			memset(data[i], 0, lens[which[i]]);
	}
	pthread_mutex_unlock(&mutex);
	return code;
}

// Only the attribute by which copies of an allocation are complete when their functions return can be set.
CUresult cuPointerSetAttribute(const void *value, int which, CUdeviceptr at)
{
	struct allocation *one;

	ENTER();
	pthread_mutex_lock(&mutex);
	one = which == 6 ? find(at) : NULL;
	if (one && one->kind == DEVICE)
		one->sync_memops = *(const unsigned *)value;
	else
		one = NULL;
	pthread_mutex_unlock(&mutex);
	return one ? SUCCESS : INVALID_VALUE;
}

CUresult cuThreadExchangeStreamCaptureMode(int *mode)
{
	static __thread int now;
	int old = now;

	ENTER();
	now = *mode;
	*mode = old;
	return SUCCESS;
}

// Copies into device memory are complete when the driver's calls return.
CUresult cuFlushGPUDirectRDMAWrites(int target, int scope)
{
	(void)target, (void)scope;
	ENTER();
	return current() ? SUCCESS : INVALID_CONTEXT;
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

// The address at which the driver accesses memory. `len` becomes the number of bytes there, which is less if the memory
// goes on in another piece. NULL: the device's memory is too short.
static char *reach(CUdeviceptr at, size_t *len, int is_device)
{
	struct allocation *one = find(at);
	size_t rest;

	if (!one)
		return is_device ? NULL : (char *)(uintptr_t)at;
	rest = one->len - (at - (uintptr_t)one->base);
	if (*len > rest && one->kind != PIECE)
		return NULL;
	*len = *len < rest ? *len : rest;
	return one->hidden + (at - (uintptr_t)one->base);
}

// Copies memory, or only looks whether it can be copied.
static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t len, int only_looks)
{
	int to_device, from_device;

	pthread_mutex_lock(&mutex);
	to_device = !!find(to);
	from_device = !!find(from);
	pthread_mutex_unlock(&mutex);
	while (len) {
		size_t part = len;
		char *has_to, *has_from;

		pthread_mutex_lock(&mutex);
		has_to = reach(to, &part, to_device);
		has_from = has_to ? reach(from, &part, from_device) : NULL;
		pthread_mutex_unlock(&mutex);
		if (!has_from)
			return INVALID_VALUE;
		if (!only_looks)
			memcpy(has_to, has_from, part);
		to += part;
		from += part;
		len -= part;
	}
	return SUCCESS;
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
	if (copy(to, from, len, 1))
		return INVALID_VALUE;
	stream->pending[stream->count++] = (struct copy){ to, from, len, end_of_copy(find(to) != NULL, len) };
	return SUCCESS;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t len, CUstream stream)
{
	return cuMemcpyAsync(to, (uintptr_t)from, len, stream);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t len, CUstream stream)
{
	return cuMemcpyAsync(to, from, len, stream);
}

// Makes the copies of a stream.
static void flush(CUstream stream)
{
	for (unsigned i = 0; i < stream->count; i++) {
		struct copy *one = &stream->pending[i];

		while (now_ns() < one->end)
			sched_yield();
		copy(one->to, one->from, one->len, 0);
	}
	stream->count = 0;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	flush(stream);
	ENTER();
	return SUCCESS;
}

struct event {
	CUcontext context;
	CUstream stream;
	int is_asked;
};

CUresult cuEventCreate(CUevent *event, unsigned flags)
{
	(void)flags;
	ENTER();
	if (!current())
		return INVALID_CONTEXT;
	*event = calloc(1, sizeof(**event));
	(*event)->context = current();
	return SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event)
{
	ENTER();
	free(event);
	return SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream)
{
	ENTER();
	if (!stream || stream->context != event->context)
		return INVALID_HANDLE;
	event->stream = stream;
	event->is_asked = 0;
	return SUCCESS;
}

CUresult cuEventSynchronize(CUevent event)
{
	ENTER();
	if (event->stream)
		flush(event->stream);
	event->stream = NULL;
	return SUCCESS;
}

// The copies are complete when the program asks for the second time.
CUresult cuEventQuery(CUevent event)
{
	ENTER();
	if (event->stream && !event->is_asked++)
		return NOT_READY;
	if (event->stream)
		flush(event->stream);
	event->stream = NULL;
	return SUCCESS;
}

CUresult cuMemsetD8_v2(CUdeviceptr at, unsigned char value, size_t len)
{
	ENTER();
	if (!current())
		return INVALID_CONTEXT;
	while (len) {
		size_t part = len;
		char *has_at;

		pthread_mutex_lock(&mutex);
		has_at = reach(at, &part, 1);
		pthread_mutex_unlock(&mutex);
		if (!has_at)
			return INVALID_VALUE;
		memset(has_at, value, part);
		at += part;
		len -= part;
	}
	return SUCCESS;
}

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t len)
{
	ENTER();
	if (!current())
		return INVALID_CONTEXT;
	return copy(to, from, len, 0);
}

CUresult cuMemHostRegister_v2(void *at, size_t len, unsigned flags)
{
	unsigned i = 0, free = LOCKED;

	ENTER();
	if (!current())
		return INVALID_CONTEXT;
	if (!at || !len || flags != 1)
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

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *at, void *host, unsigned flags)
{
	(void)flags;
	ENTER();
	*at = (uintptr_t)host;
	return SUCCESS;
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
	if (one && (one->kind == DEVICE || one->kind == PIECE) && type == 1 && !flags && at % 4096 == 0 && at + len <= (uintptr_t)one->base + one->mapped) {
		*(int *)handle = dup(one->fd);
		code = SUCCESS;
	}
	pthread_mutex_unlock(&mutex);
	return code;
}

// Virtual memory management: reserved addresses, physical memory and its mappings, each in objects of its own.
typedef struct physical { int fd, users; size_t len; } *CUmemGenericAllocationHandle;
struct location { int type, id; };
struct properties { int type, handle_types; struct location location; void *win32; unsigned char flags[8]; };
enum { GRANULARITY = 2 << 20 };

CUresult cuMemGetAllocationGranularity(size_t *granularity, const struct properties *properties, int option)
{
	(void)properties, (void)option;
	ENTER();
	*granularity = GRANULARITY;
	return SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t len, const struct properties *properties, unsigned long long flags)
{
	struct physical *physical;

	(void)properties, (void)flags;
	ENTER();
	if (!len || len % GRANULARITY)
		return INVALID_VALUE;
	physical = calloc(1, sizeof(*physical));
	physical->fd = memfd_create("device", 0);
	physical->len = len;
	physical->users = 1;
	if (physical->fd < 0 || ftruncate(physical->fd, (off_t)len)) {
		free(physical);
		return OUT_OF_MEMORY;
	}
	*handle = physical;
	return SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	ENTER();
	if (!__atomic_sub_fetch(&handle->users, 1, __ATOMIC_ACQ_REL)) {
		close(handle->fd);
		free(handle);
	}
	return SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *at, size_t len, size_t alignment, CUdeviceptr hint, unsigned long long flags)
{
	void *reserved;

	(void)alignment, (void)hint, (void)flags;
	ENTER();
	reserved = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	*at = (uintptr_t)reserved;
	return reserved == MAP_FAILED ? OUT_OF_MEMORY : SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr at, size_t len)
{
	ENTER();
	return munmap((void *)(uintptr_t)at, len) ? INVALID_VALUE : SUCCESS;
}

CUresult cuMemMap(CUdeviceptr at, size_t len, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct allocation *one = allocations;
	CUresult code = OUT_OF_MEMORY;

	ENTER();
	if (flags || offset || len != handle->len)
		return INVALID_VALUE;
	pthread_mutex_lock(&mutex);
	while (one < allocations + ALLOCATIONS && one->base)
		one++;
	if (one < allocations + ALLOCATIONS)
		code = map(one, fcntl(handle->fd, F_DUPFD_CLOEXEC, 0), len, PIECE);
	if (!code) {
		mremap(one->base, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)at);
		one->base = (char *)(uintptr_t)at;
		one->id = next_id++;
		one->is_import = 0;
		one->context = NULL;
	}
	pthread_mutex_unlock(&mutex);
	return code;
}

CUresult cuMemSetAccess(CUdeviceptr at, size_t len, const void *access, size_t count)
{
	(void)len, (void)access, (void)count;
	ENTER();
	return find(at) ? SUCCESS : INVALID_VALUE;
}

// The addresses stay reserved.
CUresult cuMemUnmap(CUdeviceptr at, size_t len)
{
	ENTER();
	pthread_mutex_lock(&mutex);
	for (unsigned i = 0; i < ALLOCATIONS; i++) {
		struct allocation *one = &allocations[i];

		if (one->kind == PIECE && (uintptr_t)one->base >= at && (uintptr_t)one->base < at + len) {
			unmap(one);
			mmap((void *)(uintptr_t)at, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
		}
	}
	pthread_mutex_unlock(&mutex);
	return SUCCESS;
}

// No memory remembers the handle from which it was mapped.
CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *at)
{
	(void)handle, (void)at;
	ENTER();
	return INVALID_VALUE;
}

CUresult cuMemGetAllocationPropertiesFromHandle(struct properties *properties, CUmemGenericAllocationHandle handle)
{
	(void)properties, (void)handle;
	ENTER();
	return INVALID_VALUE;
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
	if (one && one->kind == DEVICE && !one->is_import) {
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
		code = map(one, fd, exported.len, DEVICE);
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
