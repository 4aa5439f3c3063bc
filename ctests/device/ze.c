// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A stand-in for oneAPI Level Zero, for tests on machines without a device: memory.h. It shows nothing about a real one.
//!
//! As its manual says: nothing works before zeInit; a list is used by one thread at a time;
//! the copies of a list are done when its queue is synchronous, or when it is waited for. As Intel's driver does: the
//! memory of all contexts is found by each. There are two drivers; the devices belong to the second.
#define _GNU_SOURCE
#include "memory.h"

#ifndef _ZE_API_H
typedef int ze_result_t, ze_structure_type_t, ze_init_flags_t;
typedef struct _ze_driver_handle_t *ze_driver_handle_t;
typedef struct _ze_device_handle_t *ze_device_handle_t;
typedef struct _ze_context_handle_t *ze_context_handle_t;
typedef struct _ze_command_list_handle_t *ze_command_list_handle_t;
typedef struct _ze_event_handle_t *ze_event_handle_t;
typedef struct { ze_structure_type_t stype; const void *pNext; uint32_t flags; } ze_context_desc_t;
typedef struct { ze_structure_type_t stype; const void *pNext; uint32_t flags, ordinal; } ze_device_mem_alloc_desc_t;
typedef struct { ze_structure_type_t stype; const void *pNext; uint32_t flags; } ze_host_mem_alloc_desc_t;
typedef struct { ze_structure_type_t stype; void *pNext; int type; uint64_t id, pageSize; } ze_memory_allocation_properties_t;
typedef struct {
	ze_structure_type_t stype;
	void *pNext;
	uint32_t flags;
	size_t maxMemoryFillPatternSize;
	uint32_t numQueues;
} ze_command_queue_group_properties_t;
typedef struct {
	ze_structure_type_t stype;
	const void *pNext;
	uint32_t ordinal, index, flags;
	int mode, priority;
} ze_command_queue_desc_t;
#endif

enum { SUCCESS, OUT_OF_HOST_MEMORY = 0x70000002, UNINITIALIZED = 0x78000001, INVALID_ARGUMENT = 0x78000004,
       NULL_HANDLE = 0x78000005, INVALID_SIZE = 0x78000008 };
enum { GROUP_PROPERTIES = 6, CONTEXT_DESC = 0xd, QUEUE_DESC, MEM_DESC = 0x15, HOST_DESC, MEM_PROPERTIES };
enum { TYPE_UNKNOWN, TYPE_DEVICE = 2, TYPE_SHARED, SYNCHRONOUS = 1, DRIVERS = 2, GROUPS = 2, PENDING = 1024 };

struct _ze_driver_handle_t { char unused; };
struct _ze_device_handle_t { char unused; };
struct _ze_context_handle_t { ze_driver_handle_t driver; };
struct _ze_command_list_handle_t {
	ze_context_handle_t context;
	bool is_synchronous;
	pthread_mutex_t busy;
	struct { void *to; const void *from; size_t len; } pending[PENDING];
	unsigned count;
};

static struct _ze_driver_handle_t drivers[DRIVERS];
static struct _ze_device_handle_t devices[DEVICES];
static int contexts, lists;

ze_result_t zeInit(ze_init_flags_t flags)
{
	(void)flags;
	if (process && process != getpid())
		return UNINITIALIZED;
	process = getpid();
	return SUCCESS;
}

// Answers a call that first counts and then fills. Returns how many handles there is room for.
static uint32_t room_for(uint32_t *count, uint32_t there)
{
	if (!*count || *count > there)
		*count = there;
	return *count;
}

ze_result_t zeDriverGet(uint32_t *count, ze_driver_handle_t *all)
{
	ENTER(UNINITIALIZED);
	room_for(count, DRIVERS);
	for (uint32_t i = 0; all && i < *count; i++)
		all[i] = &drivers[i];
	return SUCCESS;
}

ze_result_t zeDeviceGet(ze_driver_handle_t driver, uint32_t *count, ze_device_handle_t *all)
{
	ENTER(UNINITIALIZED);
	room_for(count, driver == &drivers[1] ? count_of_devices() : 0);
	for (uint32_t i = 0; all && i < *count; i++)
		all[i] = &devices[i];
	return SUCCESS;
}

ze_result_t zeContextCreate(ze_driver_handle_t driver, const ze_context_desc_t *desc, ze_context_handle_t *context)
{
	ENTER(UNINITIALIZED);
	if (driver < drivers || driver >= drivers + DRIVERS || desc->stype != CONTEXT_DESC || desc->pNext || desc->flags)
		return INVALID_ARGUMENT;
	*context = calloc(1, sizeof(**context));
	(*context)->driver = driver;
	__atomic_add_fetch(&contexts, 1, __ATOMIC_RELAXED);
	return SUCCESS;
}

ze_result_t zeContextDestroy(ze_context_handle_t context)
{
	ENTER(UNINITIALIZED);
	if (!context)
		return NULL_HANDLE;
	context->driver = NULL;
	free(context);
	__atomic_sub_fetch(&contexts, 1, __ATOMIC_RELAXED);
	return SUCCESS;
}

static ze_result_t allocate_in(ze_context_handle_t context, const ze_device_mem_alloc_desc_t *desc, size_t len, ze_device_handle_t device,
                               bool is_shared, void **at)
{
	if (!context || context->driver != &drivers[1] || desc->stype != MEM_DESC)
		return INVALID_ARGUMENT;
	if (!len)
		return INVALID_SIZE;
	*at = allocate(len, device, is_shared);
	return *at ? SUCCESS : OUT_OF_HOST_MEMORY;
}

ze_result_t zeMemAllocDevice(ze_context_handle_t context, const ze_device_mem_alloc_desc_t *desc, size_t len, size_t alignment,
                             ze_device_handle_t device, void **at)
{
	(void)alignment;
	ENTER(UNINITIALIZED);
	return allocate_in(context, desc, len, device, false, at);
}

ze_result_t zeMemAllocShared(ze_context_handle_t context, const ze_device_mem_alloc_desc_t *desc, const ze_host_mem_alloc_desc_t *host,
                             size_t len, size_t alignment, ze_device_handle_t device, void **at)
{
	(void)alignment;
	ENTER(UNINITIALIZED);
	return host->stype == HOST_DESC ? allocate_in(context, desc, len, device, true, at) : INVALID_ARGUMENT;
}

ze_result_t zeMemFree(ze_context_handle_t context, void *at)
{
	ENTER(UNINITIALIZED);
	return context && give_back(at) ? SUCCESS : INVALID_ARGUMENT;
}

ze_result_t zeMemGetAllocProperties(ze_context_handle_t context, const void *at, ze_memory_allocation_properties_t *properties,
                                    ze_device_handle_t *device)
{
	struct allocation one = look_up(at);

	ENTER(UNINITIALIZED);
	if (!context || properties->stype != MEM_PROPERTIES || properties->pNext)
		return INVALID_ARGUMENT;
	properties->type = TYPE_UNKNOWN;
	if (one.base && context->driver == &drivers[1]) {
		properties->type = one.is_shared ? TYPE_SHARED : TYPE_DEVICE;
		*device = one.device;
	}
	return SUCCESS;
}

// The first group computes and copies, the second only copies; it has two engines.
ze_result_t zeDeviceGetCommandQueueGroupProperties(ze_device_handle_t device, uint32_t *count,
                                                   ze_command_queue_group_properties_t *all)
{
	ENTER(UNINITIALIZED);
	if (device < devices || device >= devices + count_of_devices())
		return INVALID_ARGUMENT;
	room_for(count, GROUPS);
	for (uint32_t i = 0; all && i < *count; i++) {
		if (all[i].stype != GROUP_PROPERTIES || all[i].pNext)
			return INVALID_ARGUMENT;
		all[i].flags = i ? 2 : 3;
		all[i].numQueues = 1 + i;
	}
	return SUCCESS;
}

ze_result_t zeCommandListCreateImmediate(ze_context_handle_t context, ze_device_handle_t device, const ze_command_queue_desc_t *queue,
                                         ze_command_list_handle_t *list)
{
	const char *wanted = getenv("DEVICE_ENGINE");
	char engine[32];

	ENTER(UNINITIALIZED);
	if (device < devices || device >= devices + count_of_devices() || !context || context->driver != &drivers[1])
		return INVALID_ARGUMENT;
	if (queue->stype != QUEUE_DESC || queue->pNext || queue->ordinal >= GROUPS || queue->index > queue->ordinal)
		return INVALID_ARGUMENT;
	snprintf(engine, sizeof(engine), "%u.%u", queue->ordinal, queue->index);
	if (strcmp(engine, wanted ? wanted : "1.0"))
		return INVALID_ARGUMENT;
	*list = calloc(1, sizeof(**list));
	(*list)->context = context;
	(*list)->is_synchronous = queue->mode == SYNCHRONOUS;
	pthread_mutex_init(&(*list)->busy, NULL);
	__atomic_add_fetch(&lists, 1, __ATOMIC_RELAXED);
	return SUCCESS;
}

ze_result_t zeCommandListDestroy(ze_command_list_handle_t list)
{
	ENTER(UNINITIALIZED);
	// The context is destroyed after its objects.
	if (!list || !list->context->driver)
		abort();
	free(list);
	__atomic_sub_fetch(&lists, 1, __ATOMIC_RELAXED);
	return SUCCESS;
}

// The address at which the driver accesses memory; NULL if it is the device's and too short.
static void *reach(const void *at, size_t len)
{
	struct allocation one = look_up(at);

	if (!one.base)
		return (void *)at;
	return (char *)at + len <= one.base + one.len ? one.hidden + ((char *)at - one.base) : NULL;
}

static void finish(ze_command_list_handle_t list)
{
	for (unsigned i = 0; i < list->count; i++) {
		void *to = reach(list->pending[i].to, list->pending[i].len), *from = reach(list->pending[i].from, list->pending[i].len);

		if (to && from)
			memcpy(to, from, list->pending[i].len);
	}
	list->count = 0;
}

ze_result_t zeCommandListAppendMemoryCopy(ze_command_list_handle_t list, void *to, const void *from, size_t len, ze_event_handle_t event,
                                          uint32_t count, ze_event_handle_t *events)
{
	ENTER(UNINITIALIZED);
	if (!list || event || count || events)
		return INVALID_ARGUMENT;
	if (!reach(to, len) || !reach(from, len) || list->count == PENDING)
		return INVALID_ARGUMENT;
	if (pthread_mutex_trylock(&list->busy))
		abort();
	list->pending[list->count].to = to;
	list->pending[list->count].from = from;
	list->pending[list->count++].len = len;
	if (list->is_synchronous)
		finish(list);
	pthread_mutex_unlock(&list->busy);
	return SUCCESS;
}

ze_result_t zeCommandListHostSynchronize(ze_command_list_handle_t list, uint64_t timeout)
{
	(void)timeout;
	ENTER(UNINITIALIZED);
	finish(list);
	return SUCCESS;
}

int StandInLeft(void)
{
	return contexts + lists;
}
