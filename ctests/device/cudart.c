// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A stand-in for the CUDA runtime library over the stand-in for its driver, cuda.c. It has the functions that fabtests and
//! programs like it load from `libcudart.so`, and shows nothing about the real library.
//!
//! As the runtime's manual says: the first call of a thread that has no current context makes the primary context of the
//! thread's device and sets it. The device is 0 until cudaSetDevice. Result codes are those of the driver. A direction of a
//! copy that does not fit its addresses is an error.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef int cudaError_t, CUdevice;
typedef uint64_t CUdeviceptr;
typedef struct context *CUcontext;
typedef struct { char bytes[64]; } cudaIpcMemHandle_t;

cudaError_t cuInit(unsigned);
cudaError_t cuGetErrorName(cudaError_t, const char **);
cudaError_t cuGetErrorString(cudaError_t, const char **);
cudaError_t cuDeviceGet(CUdevice *, int);
cudaError_t cuDeviceGetCount(int *);
cudaError_t cuDevicePrimaryCtxRetain(CUcontext *, CUdevice);
cudaError_t cuCtxGetCurrent(CUcontext *);
cudaError_t cuCtxSetCurrent(CUcontext);
cudaError_t cuMemAlloc_v2(CUdeviceptr *, size_t);
cudaError_t cuMemAllocManaged(CUdeviceptr *, size_t, unsigned);
cudaError_t cuMemFree_v2(CUdeviceptr);
cudaError_t cuMemHostAlloc(void **, size_t, unsigned);
cudaError_t cuMemFreeHost(void *);
cudaError_t cuMemHostRegister_v2(void *, size_t, unsigned);
cudaError_t cuMemHostUnregister(void *);
cudaError_t cuMemsetD8_v2(CUdeviceptr, unsigned char, size_t);
cudaError_t cuMemcpy(CUdeviceptr, CUdeviceptr, size_t);
cudaError_t cuPointerGetAttribute(void *, int, CUdeviceptr);
cudaError_t cuIpcGetMemHandle(cudaIpcMemHandle_t *, CUdeviceptr);
cudaError_t cuIpcOpenMemHandle_v2(CUdeviceptr *, cudaIpcMemHandle_t, unsigned);
cudaError_t cuIpcCloseMemHandle(CUdeviceptr);

enum { SUCCESS, INVALID_VALUE, INVALID_DIRECTION = 21, INVALID_HANDLE = 400, DEVICES = 16 };
enum cudaMemcpyKind { HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
// The primary contexts that this library retains, until the process ends.
static CUcontext primary[DEVICES];
static __thread int device;
static __thread cudaError_t last;

// Keeps a failure for cudaGetLastError.
static cudaError_t report(cudaError_t code)
{
	if (code)
		last = code;
	return code;
}

static cudaError_t set_primary(int ordinal)
{
	CUdevice of_driver;
	cudaError_t code = cuDeviceGet(&of_driver, ordinal);

	if (code)
		return code;
	pthread_mutex_lock(&mutex);
	if (!primary[ordinal])
		code = cuDevicePrimaryCtxRetain(&primary[ordinal], of_driver);
	pthread_mutex_unlock(&mutex);
	return code ? code : cuCtxSetCurrent(primary[ordinal]);
}

// Gives the thread a context if it has none.
static cudaError_t start(void)
{
	CUcontext now = NULL;
	cudaError_t code = cuInit(0);

	if (!code)
		code = cuCtxGetCurrent(&now);
	return code || now ? code : set_primary(device);
}

#define START() do { cudaError_t code_ = start(); if (code_) return report(code_); } while (0)

const char *cudaGetErrorName(cudaError_t code)
{
	const char *name;

	return cuGetErrorName(code, &name) ? "unrecognized error code" : name;
}

const char *cudaGetErrorString(cudaError_t code)
{
	const char *text;

	return cuGetErrorString(code, &text) ? "unrecognized error code" : text;
}

cudaError_t cudaGetLastError(void)
{
	cudaError_t code = last;

	last = SUCCESS;
	return code;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = 12080;
	return SUCCESS;
}

// Finds a function of the driver by its name without a version, and takes its second version if there is one. A function
// that does not exist is no error; `status` is 1 then.
cudaError_t cudaGetDriverEntryPoint(const char *name, void **at, unsigned long long flags, int *status)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	char second[96];

	(void)flags;
	snprintf(second, sizeof(second), "%s_v2", name);
	*at = driver ? dlsym(driver, second) : NULL;
	if (driver && !*at)
		*at = dlsym(driver, name);
	if (driver)
		dlclose(driver);
	if (status)
		*status = !*at;
	return SUCCESS;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	cudaError_t code = cuInit(0);

	return report(code ? code : cuDeviceGetCount(count));
}

cudaError_t cudaGetDevice(int *ordinal)
{
	*ordinal = device;
	return SUCCESS;
}

cudaError_t cudaSetDevice(int ordinal)
{
	cudaError_t code = cuInit(0);

	if (!code)
		code = set_primary(ordinal);
	if (!code)
		device = ordinal;
	return report(code);
}

// The driver's copies without a stream are complete when they return, so nothing is left to wait for.
cudaError_t cudaDeviceSynchronize(void)
{
	START();
	return SUCCESS;
}

// No stream but the default one exists in this library.
cudaError_t cudaStreamSynchronize(void *stream)
{
	START();
	return stream ? report(INVALID_HANDLE) : SUCCESS;
}

cudaError_t cudaMalloc(void **at, size_t len)
{
	CUdeviceptr has = 0;
	cudaError_t code;

	START();
	*at = NULL;
	if (!len)
		return SUCCESS;
	code = cuMemAlloc_v2(&has, len);
	*at = (void *)(uintptr_t)has;
	return report(code);
}

cudaError_t cudaMallocManaged(void **at, size_t len, unsigned flags)
{
	CUdeviceptr has = 0;
	cudaError_t code;

	START();
	code = cuMemAllocManaged(&has, len, flags);
	*at = (void *)(uintptr_t)has;
	return report(code);
}

// A null pointer only gives the thread its context.
cudaError_t cudaFree(void *at)
{
	START();
	return at ? report(cuMemFree_v2((uintptr_t)at)) : SUCCESS;
}

cudaError_t cudaHostAlloc(void **at, size_t len, unsigned flags)
{
	START();
	return report(cuMemHostAlloc(at, len, flags));
}

cudaError_t cudaMallocHost(void **at, size_t len)
{
	return cudaHostAlloc(at, len, 0);
}

cudaError_t cudaFreeHost(void *at)
{
	START();
	return at ? report(cuMemFreeHost(at)) : SUCCESS;
}

// The driver's stand-in takes portable memory only.
cudaError_t cudaHostRegister(void *at, size_t len, unsigned flags)
{
	START();
	return report(cuMemHostRegister_v2(at, len, flags | 1));
}

cudaError_t cudaHostUnregister(void *at)
{
	START();
	return report(cuMemHostUnregister(at));
}

cudaError_t cudaMemset(void *at, int value, size_t len)
{
	START();
	return len ? report(cuMemsetD8_v2((uintptr_t)at, (unsigned char)value, len)) : SUCCESS;
}

// Whether a device, or the processor, may access an address. Both may access managed memory.
static int is_accessed_by(int by_device, const void *at)
{
	unsigned type = 0, is_managed = 0;

	if (cuPointerGetAttribute(&type, 2, (uintptr_t)at) || type != 2)
		return !by_device || type == 1;
	return by_device || (!cuPointerGetAttribute(&is_managed, 8, (uintptr_t)at) && is_managed);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t len, enum cudaMemcpyKind kind)
{
	START();
	if ((unsigned)kind > DEFAULT)
		return report(INVALID_DIRECTION);
	if (!len)
		return SUCCESS;
	if (kind != DEFAULT) {
		int to_device = kind == HOST_TO_DEVICE || kind == DEVICE_TO_DEVICE;
		int from_device = kind == DEVICE_TO_HOST || kind == DEVICE_TO_DEVICE;

		if (!is_accessed_by(to_device, to) || !is_accessed_by(from_device, from))
			return report(INVALID_VALUE);
	}
	return report(cuMemcpy((uintptr_t)to, (uintptr_t)from, len));
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *at)
{
	START();
	return report(cuIpcGetMemHandle(handle, (uintptr_t)at));
}

cudaError_t cudaIpcOpenMemHandle(void **at, cudaIpcMemHandle_t handle, unsigned flags)
{
	CUdeviceptr has = 0;
	cudaError_t code;

	START();
	code = cuIpcOpenMemHandle_v2(&has, handle, flags);
	*at = (void *)(uintptr_t)has;
	return report(code);
}

cudaError_t cudaIpcCloseMemHandle(void *at)
{
	START();
	return report(cuIpcCloseMemHandle((uintptr_t)at));
}
