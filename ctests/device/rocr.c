// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A stand-in for the HSA runtime of AMD's ROCm, for tests on machines without a device: memory.h. It shows nothing about
//! a real one.
//!
//! As AMD's headers say: nothing works before hsa_init. As AMD's implementation does: hsa_memory_copy takes an address for
//! the host's if the bytes reach beyond an allocation.
#define _GNU_SOURCE
#include "memory.h"

#ifndef HSA_RUNTIME_INC_HSA_H_
typedef int hsa_status_t, hsa_agent_info_t, hsa_amd_pointer_type_t;
typedef struct { uint64_t handle; } hsa_agent_t;
typedef struct { uint64_t handle; } hsa_amd_memory_pool_t;
typedef struct {
	uint32_t size;
	hsa_amd_pointer_type_t type;
	void *agentBaseAddress, *hostBaseAddress;
	size_t sizeInBytes;
	void *userData;
	hsa_agent_t agentOwner;
	uint32_t global_flags;
} hsa_amd_pointer_info_t;
#endif

enum { SUCCESS, BREAK, INVALID_ARGUMENT = 0x1001, INVALID_AGENT = 0x1004, OUT_OF_RESOURCES = 0x1008, NOT_INITIALIZED = 0x100b,
       FATAL = 0x1026 };
enum { UNKNOWN, HSA, DEVICE_TYPE = 17 };

// The first agent is the processor. The pool of an agent has its handle.
static struct agent { bool is_device; } agents[1 + DEVICES];
static int users;

static struct agent *agent_of(uint64_t handle)
{
	struct agent *agent = (struct agent *)(uintptr_t)handle;

	return agent >= agents && agent <= agents + count_of_devices() ? agent : NULL;
}

hsa_status_t hsa_init(void)
{
	if (process && process != getpid())
		return OUT_OF_RESOURCES;
	process = getpid();
	users++;
	for (unsigned i = 1; i <= DEVICES; i++)
		agents[i].is_device = true;
	return SUCCESS;
}

hsa_status_t hsa_shut_down(void)
{
	ENTER(NOT_INITIALIZED);
	if (!--users)
		process = 0;
	return SUCCESS;
}

hsa_status_t hsa_status_string(hsa_status_t status, const char **text)
{
	switch ((int)status) {
	case OUT_OF_RESOURCES: *text = "HSA_STATUS_ERROR_OUT_OF_RESOURCES: There are not enough resources."; return SUCCESS;
	case FATAL: *text = "HSA_STATUS_ERROR_FATAL: A fatal error."; return SUCCESS;
	default: *text = NULL; return INVALID_ARGUMENT;
	}
}

hsa_status_t hsa_iterate_agents(hsa_status_t (*call)(hsa_agent_t, void *), void *data)
{
	hsa_status_t status = SUCCESS;

	ENTER(NOT_INITIALIZED);
	for (unsigned i = 0; i <= count_of_devices() && !status; i++)
		status = call((hsa_agent_t){ (uintptr_t)&agents[i] }, data);
	return status;
}

hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t attribute, void *value)
{
	struct agent *one = agent_of(agent.handle);

	ENTER(NOT_INITIALIZED);
	if (!one)
		return INVALID_AGENT;
	if ((int)attribute != DEVICE_TYPE)
		return INVALID_ARGUMENT;
	*(uint32_t *)value = one->is_device;
	return SUCCESS;
}

hsa_status_t hsa_amd_agent_iterate_memory_pools(hsa_agent_t agent, hsa_status_t (*call)(hsa_amd_memory_pool_t, void *), void *data)
{
	ENTER(NOT_INITIALIZED);
	return agent_of(agent.handle) ? call((hsa_amd_memory_pool_t){ agent.handle }, data) : INVALID_AGENT;
}

hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t pool, size_t len, uint32_t flags, void **at)
{
	struct agent *agent = agent_of(pool.handle);

	ENTER(NOT_INITIALIZED);
	if (!agent || !len || flags)
		return INVALID_ARGUMENT;
	*at = allocate(len, agent, !agent->is_device);
	return *at ? SUCCESS : OUT_OF_RESOURCES;
}

hsa_status_t hsa_amd_memory_pool_free(void *at)
{
	ENTER(NOT_INITIALIZED);
	return give_back(at) ? SUCCESS : INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_pointer_info(const void *at, hsa_amd_pointer_info_t *info, void *(*alloc)(size_t), uint32_t *agents_there,
                                  hsa_agent_t **accessible)
{
	struct allocation one = look_up(at);
	hsa_amd_pointer_info_t found = { .size = sizeof(found), .type = one.base ? HSA : UNKNOWN };

	(void)alloc;
	(void)agents_there;
	(void)accessible;
	ENTER(NOT_INITIALIZED);
	if (!at || !info || !info->size)
		return INVALID_ARGUMENT;
	if (one.base) {
		found.agentBaseAddress = found.hostBaseAddress = one.base;
		found.sizeInBytes = one.len;
		found.agentOwner.handle = (uintptr_t)one.device;
	}
	if (info->size < found.size)
		found.size = info->size;
	memcpy(info, &found, found.size);
	return SUCCESS;
}

// The address at which the runtime accesses memory.
static void *reach(const void *at, size_t len)
{
	struct allocation one = look_up(at);

	return one.base && (char *)at + len <= one.base + one.len ? one.hidden + ((char *)at - one.base) : (void *)at;
}

hsa_status_t hsa_memory_copy(void *to, const void *from, size_t len)
{
	ENTER(NOT_INITIALIZED);
	if (!to || !from)
		return INVALID_ARGUMENT;
	memcpy(reach(to, len), reach(from, len), len);
	return SUCCESS;
}

int StandInLeft(void)
{
	return users;
}
