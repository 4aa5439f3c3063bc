// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! With CONFORMANCE_DEVICE=cuda, rocr or ze the buffers of the tests are memory of a device: that of a stand-in driver,
//! ../device/cuda.c, rocr.c or ze.c, which must be found by the name of the driver's library.
#ifndef CONFORMANCE_DEVICE_H
#define CONFORMANCE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include <rdma/fi_domain.h>

bool on_device(void);
// Zeroed memory of the device, until the process ends. The tests may access it as any other; the library, which runs in
// the same process, gets SIGSEGV.
void *device_mem(size_t len);
// Memory from the driver that the processor may access: managed, shared or host memory.
void *shared_mem(size_t len);
// The address at which a test sees the bytes without a signal for each access: for many of them.
void *host_view(const void *mem);
int objects_of_driver(void);   // streams, lists and such of the library that are open
void restart_failures(void);   // counts calls for DEVICE_FAIL from now on

// The driver that CONFORMANCE_DEVICE names.
struct device_kind {
	const char *name, *library;
	enum fi_hmem_iface iface;
	int device, absent[3];         // numbers of fi_mr(3), `device`: one that is there, and ones that are not
	const char *copy, *finish;     // functions for DEVICE_FAIL: one that starts a copy, one that ends it
	struct device_failure {
		int code;
		const char *name;
	} no_memory, fatal;
	bool keeps_objects;            // copies leave objects for the next ones
	void (*start)(void *library);
	void *(*allocate)(size_t len, bool is_shared);
};
const struct device_kind *device_kind(void);

#endif
