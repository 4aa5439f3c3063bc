// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! With CONFORMANCE_DEVICE=cuda the buffers of the tests are memory of a device: that of the stand-in driver,
//! ../device/cuda.c, which must be found as libcuda.so.1.
#ifndef CONFORMANCE_DEVICE_H
#define CONFORMANCE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

bool on_device(void);
// Zeroed memory of the device, until the process ends. The tests may access it as any other; the library, which runs in
// the same process, gets SIGSEGV.
void *device_mem(size_t len);
// The address at which a test sees the bytes without a signal for each access: for many of them.
void *host_view(const void *mem);
int objects_of_driver(void);   // streams and foreign memory that are open
void restart_failures(void);   // counts calls for DEVICE_FAIL from now on

#endif
