// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Groups of endpoints in one process, shared by the tests of collectives.
#ifndef CONFORMANCE_COLLECTIVE_H
#define CONFORMANCE_COLLECTIVE_H

#include <netinet/in.h>
#include <rdma/fi_collective.h>

#include "transfer.h"

enum { MOST = 9 };

struct group {
	unsigned count;
	struct side sides[MOST];
	fi_addr_t at[MOST * MOST]; // at[i * count + k]: address of member k at member i
	struct fid_mc *mc[MOST];
	fi_addr_t addr[MOST];
};

#endif
