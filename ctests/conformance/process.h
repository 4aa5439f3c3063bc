// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests with several processes: a child that is forked before anything is open, with pipes to it.
#ifndef CONFORMANCE_PROCESS_H
#define CONFORMANCE_PROCESS_H

#include "transfer.h"

struct process {
	pid_t pid;
	int to, from;
};

// Starts a process that runs `body`, closes everything, and ends. Call it before anything is open.
struct process start_process(struct env *t, void (*body)(struct env *t, struct process *parent));
void join_process(struct env *t, struct process *child); // waits for its end and checks its status
void kill_process(struct process *child); // returns when the process is gone
void tell(struct process *whom, const void *what, size_t len);
void hear(struct env *t, struct process *whom, void *what, size_t len); // makes progress meanwhile

// Opens an enabled endpoint at `side` whose queues have a wait object; both processes call it. `meet` sets side->peer.
void open_end(struct env *t, struct side *side, enum fi_wait_obj wait);
void meet(struct env *t, struct side *side, struct process *other);

#endif
