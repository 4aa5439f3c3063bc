/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Helpers of all examples: a macro that ends the program with a reason if a call fails, options, and two processes on
 * this host that can exchange their addresses. A real program has a launcher, or a TCP socket, instead. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

/* ANCHOR: must */
/* Checks a call that returns a negative fi_errno(3) on failure. */
#define must(call) must_be_fine((call), #call, __FILE__, __LINE__)
static inline long must_be_fine(long result, const char *call, const char *file, int line)
{
    if (result < 0) {
        fprintf(stderr, "%s:%d: %s: %s\n", file, line, call, fi_strerror((int)-result));
        exit(1);
    }
    return result;
}

/* Checks a condition that the received data must meet. */
#define expect(truth) \
    do { \
        if (!(truth)) { \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #truth); \
            exit(1); \
        } \
    } while (0)
/* ANCHOR_END: must */

/* Checks a call that returns -1 and sets errno. */
#define system_must(call) must((call) < 0 ? -errno : 0)

struct options {
    const char *provider;
    long count;
};

/* -p PROVIDER, -n COUNT, --help. */
static inline struct options options(int argc, char **argv, const char *what, const char *provider, long count)
{
    struct options found = { provider, count };
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-p") && i + 1 < argc) {
            found.provider = argv[++i];
        } else if (!strcmp(argv[i], "-n") && i + 1 < argc && (found.count = strtol(argv[i + 1], NULL, 10)) > 0) {
            i++;
        } else {
            bool asked = !strcmp(argv[i], "--help") || !strcmp(argv[i], "-h");
            fprintf(asked ? stdout : stderr,
                    "%s\n\nusage: %s [-p PROVIDER] [-n COUNT]\n"
                    "  -p  the provider, by default %s\n"
                    "  -n  how many (messages, peers, ...), by default %ld\n"
                    "  -h, --help\n",
                    what, argv[0], provider, count);
            exit(asked ? 0 : 2);
        }
    }
    alarm(60); /* an example needs less than a minute: one that hangs ends by SIGALRM */
    return found;
}

/* ANCHOR: processes */
/* Two processes and a socket between them. The child starts before libfabric is called, because objects cannot be used
 * on both sides of a fork. */
struct pair {
    bool first; /* the parent */
    int socket;
    pid_t child;
};

static inline struct pair two_processes(void)
{
    int sockets[2];
    system_must(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
    fflush(NULL);
    pid_t child = fork();
    system_must(child);
    close(sockets[child ? 1 : 0]);
    return (struct pair){ child != 0, sockets[child ? 0 : 1], child };
}

/* Sends our bytes to the other process and receives as many of its bytes. */
static inline void exchange(struct pair *pair, const void *ours, void *theirs, size_t len)
{
    expect(send(pair->socket, ours, len, MSG_NOSIGNAL) == (ssize_t)len);
    expect(recv(pair->socket, theirs, len, MSG_WAITALL) == (ssize_t)len);
}

/* Returns the exit code of both: in the parent that of the child. */
static inline int finish(struct pair *pair, const char *summary)
{
    int status = 0;
    if (!pair->first)
        return 0;
    system_must(waitpid(pair->child, &status, 0));
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    printf("%s\n", summary);
    return 0;
}
/* ANCHOR_END: processes */

#endif
