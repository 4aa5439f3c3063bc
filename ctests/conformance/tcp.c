// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_tcp(7): rules of this provider only.
#include "harness.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

TEST(fi_tcp, get_fd, EP_MSG, FI_MSG, "FI_GET_FD gives the socket of an active endpoint, on which options can be set")
{
	int fd = -1, type = 0, value = 1 << 17;
	socklen_t len = sizeof(type);

	if (!is_tcp(t))
		SKIP("tcp's own");
	PAIR(t);
	OK(fi_control(&t->a.ep->fid, FI_GET_FD, &fd));
	CHECK_EQ(getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len), 0);
	CHECK_EQ(type, SOCK_STREAM);
	CHECK_EQ(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &value, sizeof(value)), 0);
	flow_run(t, 0, 1);
	wait_comp(t, t->b.rxcq, NULL);
}

TEST(fi_tcp, get_fd_of_connectionless, EP_RDM, FI_MSG, "An RDM endpoint has no single socket to give")
{
	int fd = -1;

	if (!is_tcp(t))
		SKIP("tcp's own");
	PAIR(t);
	CHECK(fi_control(&t->a.ep->fid, FI_GET_FD, &fd) < 0);
	CHECK_EQ(fd, -1);
}
