// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests of several processes: one that is forked before anything is open, with pipes to it.
#ifndef CONFORMANCE_PROCESS_H
#define CONFORMANCE_PROCESS_H

#include "transfer.h"

struct process {
	pid_t pid;
	int to, from;
};

// A process that runs `body`, closes all, and ends. Call it before anything is open: it opens what it needs.
struct process start_process(struct env *t, void (*body)(struct env *t, struct process *parent));
void join_process(struct env *t, struct process *child); // it ended well
void kill_process(struct process *child); // it is gone when this returns
void tell(struct process *whom, const void *what, size_t len);
void hear(struct env *t, struct process *whom, void *what, size_t len); // progress goes on meanwhile

// An enabled endpoint of this process at `side`, whose queues have a wait object; both ends call it. side->peer is the other's.
void open_end(struct env *t, struct side *side, enum fi_wait_obj wait);
void meet(struct env *t, struct side *side, struct process *other);

#endif
