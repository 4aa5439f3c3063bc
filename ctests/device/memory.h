// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The common part of the stand-ins for drivers, rocr.c and ze.c: device memory, and calls that fail. cuda.c has its own.
//!
//! Device memory is a file that is mapped twice: the address that programs get cannot be accessed, and the driver's calls
//! use the other one. So a function that touches device memory without the driver gets SIGSEGV, and the kernel gets EFAULT.
//!
//! DEVICE_FAIL=function:nth:code[:sticky] makes a call fail, 0 each call, and with `sticky` all later ones.
//! DEVICE_COUNT: devices. DEVICE_LOG: a file to which each call's name is appended. DEVICE_ADJACENT: allocations are next
//! to each other, 64 MiB at most.
#ifndef STAND_IN_MEMORY_H
#define STAND_IN_MEMORY_H

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALLOCATIONS = 4096, DEVICES = 16 };

static struct allocation {
	char *base, *hidden;
	size_t len, mapped;
	void *device;
	int fd;
	bool is_shared;   // the processor may access it
} allocations[ALLOCATIONS];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pid_t process;   // the process that has initialized the driver

static struct { const char *name; unsigned calls; } counted[64];
static int sticky;

// Counts the calls of a function, and returns the code with which this call has to fail, or 0.
static int failure_of(const char *function)
{
	const char *wanted = getenv("DEVICE_FAIL"), *log = getenv("DEVICE_LOG");
	char name[64];
	unsigned nth, i;
	int code = 0, fd;

	if (log && (fd = open(log, O_WRONLY | O_APPEND | O_CREAT, 0600)) >= 0) {
		dprintf(fd, "%s\n", function);
		close(fd);
	}
	pthread_mutex_lock(&mutex);
	for (i = 0; counted[i].name && strcmp(counted[i].name, function);)
		i++;
	counted[i].name = function;
	counted[i].calls++;
	if (sticky)
		code = sticky;
	else if (wanted && sscanf(wanted, "%63[^:]:%u:%i", name, &nth, &code) == 3 && !strcmp(name, function) &&
	         (!nth || counted[i].calls == nth))
		sticky = strstr(wanted, ":sticky") ? code : 0;
	else
		code = 0;
	pthread_mutex_unlock(&mutex);
	return code;
}

// Ends a call of a function of the driver that fails. In a child of the process a real driver may hang.
#define ENTER(not_initialized) do { \
	int code_ = failure_of(__func__); \
	if (!process) \
		return not_initialized; \
	if (process != getpid()) \
		abort(); \
	if (code_) \
		return code_; \
} while (0)

static unsigned count_of_devices(void)
{
	const char *count = getenv("DEVICE_COUNT");

	return count ? (unsigned)atoi(count) : 1;
}

// Returns the allocation of an address. The mutex is locked.
static struct allocation *find(const void *at)
{
	for (unsigned i = 0; i < ALLOCATIONS; i++) {
		struct allocation *one = &allocations[i];

		if (one->base && (char *)at >= one->base && (char *)at < one->base + one->len)
			return one;
	}
	return NULL;
}

// Returns the allocation of an address, or one with `base` NULL.
static struct allocation look_up(const void *at)
{
	struct allocation none = { 0 }, *one;

	pthread_mutex_lock(&mutex);
	one = find(at);
	if (one)
		none = *one;
	pthread_mutex_unlock(&mutex);
	return none;
}

static void *map_file(char *at, int fd, size_t len, int protection)
{
	void *mapped = mmap(at, len, protection, MAP_SHARED | (at ? MAP_FIXED : 0), fd, 0);

	return mapped == MAP_FAILED ? NULL : mapped;
}

// Returns addresses for an allocation that ends where the last one begins; NULL: any will do.
static char *adjacent(size_t len)
{
	enum { ROOM = 64 << 20 };
	static char *room;

	if (!getenv("DEVICE_ADJACENT"))
		return NULL;
	if (!room)
		room = (char *)mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) + ROOM;
	return room -= len;
}

static bool map(struct allocation *one, int fd, size_t len, bool is_shared)
{
	size_t mapped = (len + 4095) & ~(size_t)4095;

	one->hidden = map_file(NULL, fd, mapped, PROT_READ | PROT_WRITE);
	one->base = one->hidden ? map_file(adjacent(mapped), fd, mapped, is_shared ? PROT_READ | PROT_WRITE : PROT_NONE) : NULL;
	if (!one->base) {
		if (one->hidden)
			munmap(one->hidden, mapped);
		return false;
	}
	one->len = len;
	one->mapped = mapped;
	one->fd = fd;
	one->is_shared = is_shared;
	return true;
}

// Returns memory of a device; NULL if there is none left.
static void *allocate(size_t len, void *device, bool is_shared)
{
	struct allocation *one = allocations;
	void *at = NULL;
	int fd;

	pthread_mutex_lock(&mutex);
	while (one < allocations + ALLOCATIONS && one->base)
		one++;
	if (one < allocations + ALLOCATIONS && (fd = memfd_create("device", 0)) >= 0) {
		one->device = device;
		if (!ftruncate(fd, (off_t)len) && map(one, fd, len, is_shared))
			at = one->base;
		else
			close(fd);
	}
	pthread_mutex_unlock(&mutex);
	return at;
}

// Frees an allocation by its first address.
static bool give_back(void *at)
{
	struct allocation *one;
	bool is_there;

	pthread_mutex_lock(&mutex);
	one = find(at);
	is_there = one && one->base == at;
	if (is_there) {
		munmap(one->base, one->mapped);
		munmap(one->hidden, one->mapped);
		close(one->fd);
		one->base = NULL;
	}
	pthread_mutex_unlock(&mutex);
	return is_there;
}

// For tests: where the bytes of device memory can be accessed; NULL for other memory.
void *StandInView(const void *at)
{
	struct allocation one = look_up(at);

	return one.base ? one.hidden + ((char *)at - one.base) : NULL;
}

// For tests: counts the calls for DEVICE_FAIL from now on.
void StandInRestart(void)
{
	pthread_mutex_lock(&mutex);
	memset(counted, 0, sizeof(counted));
	sticky = 0;
	pthread_mutex_unlock(&mutex);
}

// For tests: objects of the program and the library that are open.
int StandInLeft(void);

#endif
