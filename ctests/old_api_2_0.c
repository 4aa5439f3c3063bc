// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// A program compiled against the headers of release 2.0.
#define API_MAJOR 2
#define API_MINOR 0
#include "old_api/program.h"
