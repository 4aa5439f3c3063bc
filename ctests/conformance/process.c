// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! See process.h.
#include "process.h"

#include "fixture.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

struct process start_process(struct env *t, void (*body)(struct env *t, struct process *parent))
{
	struct process child, parent;
	int down[2], up[2];

	CHECK(!pipe(down) && !pipe(up));
	child.pid = fork();
	CHECK(child.pid >= 0);
	if (!child.pid) {
		close(down[1]);
		close(up[0]);
		parent = (struct process){ .pid = getppid(), .to = up[1], .from = down[0] };
		env_info(t); // addresses of its own
		body(t, &parent);
		close_all(t);
		_exit(0);
	}
	close(down[0]);
	close(up[1]);
	child.to = down[1];
	child.from = up[0];
	return child;
}

void join_process(struct env *t, struct process *child)
{
	int status;

	pid_t ended = 0;

	ONCE(t, (ended = waitpid(child->pid, &status, WNOHANG)) != 0); // the child may need our progress to end
	CHECK_EQ(ended, child->pid);
	CHECK_EQ(status, 0);
}

void kill_process(struct process *child)
{
	CHECK(!kill(child->pid, SIGKILL));
	CHECK_EQ(waitpid(child->pid, NULL, 0), child->pid);
}

void tell(struct process *whom, const void *what, size_t len)
{
	CHECK_EQ(write(whom->to, what, len), len);
}

void hear(struct env *t, struct process *whom, void *what, size_t len)
{
	struct pollfd news = { whom->from, POLLIN, 0 };

	ONCE(t, poll(&news, 1, 0) == 1);
	CHECK_EQ(read(whom->from, what, len), len);
}

void open_end(struct env *t, struct side *side, enum fi_wait_obj wait)
{
	struct fi_av_attr av = { .type = FI_AV_TABLE };

	side->info = t->info;
	side->txcq = side->rxcq = open_cq(t, FI_CQ_FORMAT_TAGGED, wait);
	OK(fi_av_open(t->domain, &av, &side->av, NULL));
	keep(t, &side->av->fid);
	side->ep = open_ep(t, t->info);
	OK(fi_ep_bind(side->ep, &side->av->fid, 0));
	OK(fi_ep_bind(side->ep, &side->txcq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(side->ep));
	side->namelen = sizeof(side->name);
	OK(fi_getname(&side->ep->fid, side->name, &side->namelen));
}

void meet(struct env *t, struct side *side, struct process *other)
{
	char name[sizeof(side->name)];

	tell(other, side->name, sizeof(side->name));
	hear(t, other, name, sizeof(name));
	CHECK_RC(fi_av_insert(side->av, name, 1, &side->peer, 0, NULL), 1);
}
