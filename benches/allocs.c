// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! LD_PRELOAD library that counts the heap requests of the whole process. glibc only.
#include <errno.h>
#include <stddef.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t align, size_t size);

static unsigned long count;

static void counted(void)
{
	__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
}

unsigned long allocs_count(void)
{
	return __atomic_load_n(&count, __ATOMIC_RELAXED);
}

void *malloc(size_t size)
{
	counted();
	return __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
	counted();
	return __libc_calloc(number, size);
}

void *realloc(void *old, size_t size)
{
	counted();
	return __libc_realloc(old, size);
}

void *aligned_alloc(size_t align, size_t size)
{
	counted();
	return __libc_memalign(align, size);
}

void *memalign(size_t align, size_t size)
{
	counted();
	return __libc_memalign(align, size);
}

int posix_memalign(void **out, size_t align, size_t size)
{
	counted();
	*out = __libc_memalign(align, size);
	return *out ? 0 : ENOMEM;
}
