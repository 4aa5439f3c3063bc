// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// A libcuda.so.1 without devices: the program declares which memory counts as device memory. CUDA Driver API, "Unified
// Addressing".

#include <stddef.h>
#include <stdint.h>

enum { PLACES = 256, SUCCESS = 0, INVALID_VALUE = 1 };
enum { MEMORY_TYPE = 2, BUFFER_ID = 7, IS_MANAGED = 8, DEVICE_ORDINAL = 9, TYPE_DEVICE = 2 };

static struct allocation {
	uint64_t base, id;
	size_t len;
	int managed;
} allocations[PLACES];
static unsigned long asked;

// Sets one place of the list; an `id` of 0 makes it empty.
void fake_cuda_set(int place, void *base, size_t len, uint64_t id, int managed)
{
	allocations[place] = (struct allocation) {(uintptr_t) base, id, len, managed};
}

// Returns the number of queries so far.
unsigned long fake_cuda_asked(void)
{
	return asked;
}

static struct allocation *find(uint64_t address)
{
	for (struct allocation *one = allocations; one < allocations + PLACES; one++) {
		if (one->id && address >= one->base && address - one->base < one->len)
			return one;
	}
	return NULL;
}

int cuPointerGetAttribute(void *data, int attribute, uint64_t address)
{
	struct allocation *one = find(address);

	asked++;
	if (!one)
		return INVALID_VALUE;
	switch (attribute) {
	case MEMORY_TYPE:
		*(unsigned *) data = TYPE_DEVICE;
		return SUCCESS;
	case BUFFER_ID:
		*(uint64_t *) data = one->id;
		return SUCCESS;
	case IS_MANAGED:
		*(_Bool *) data = one->managed;
		return SUCCESS;
	case DEVICE_ORDINAL:
		*(int *) data = 3;
		return SUCCESS;
	}
	return INVALID_VALUE;
}

int cuMemGetAddressRange_v2(uint64_t *base, size_t *len, uint64_t address)
{
	struct allocation *one = find(address);

	if (!one)
		return INVALID_VALUE;
	*base = one->base;
	*len = one->len;
	return SUCCESS;
}
