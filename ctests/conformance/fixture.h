// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Declarations shared by the three parts of the fixture and hidden from tests.
#ifndef CONFORMANCE_FIXTURE_H
#define CONFORMANCE_FIXTURE_H

#include "harness.h"

struct held {
	struct fid *fid;
	struct fi_info *info;
	struct held *next;
};

// Deprecated names, whose use causes warnings, for programs of API 1.4 and before.
#define LOCAL_MR_MODE (1ULL << 55) // FI_LOCAL_MR
#define MR_UNSPEC 0                // FI_MR_UNSPEC
#define MR_BASIC 1                 // FI_MR_BASIC

void close_all(struct env *t); // also frees the infos: the environment is unusable afterwards
void env_run(struct env *t, const struct test *test);

#endif
