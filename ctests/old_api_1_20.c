// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// A program compiled against the headers of release 1.20.
#define API_MAJOR 1
#define API_MINOR 20
#include "old_api/program.h"
