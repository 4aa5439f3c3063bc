// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What the three parts of the fixture share and tests do not see.
#ifndef CONFORMANCE_FIXTURE_H
#define CONFORMANCE_FIXTURE_H

#include "harness.h"

struct held {
	struct fid *fid;
	struct fi_info *info;
	struct held *next;
};

// Deprecated names whose use warns: what programs of API 1.4 and before ask for.
#define LOCAL_MR_MODE (1ULL << 55) // FI_LOCAL_MR
#define MR_UNSPEC 0                // FI_MR_UNSPEC
#define MR_BASIC 1                 // FI_MR_BASIC

void close_all(struct env *t); // and frees the infos: the environment is not used any more
void env_run(struct env *t, const struct test *test);

#endif
