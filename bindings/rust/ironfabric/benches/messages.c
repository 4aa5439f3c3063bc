// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// messages PROVIDER pingpong|rate SIZE ROUNDS: two endpoints of one process exchange messages. Prints nanoseconds
// of the processor for each round. messages.rs does the same in Rust, call for call.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

enum { WINDOW = 16 };

#define CHECK(call) do { \
    long code_ = (call); \
    if (code_) { fprintf(stderr, "%s: %ld\n", #call, code_); exit(1); } \
} while (0)

struct message {
    struct fi_context2 context;
    char *bytes;
};

struct side {
    struct fid_ep *ep;
    struct fid_cq *cq;
    fi_addr_t peer;
    struct message sends[WINDOW], receives[WINDOW];
};

static struct side a, b;
static size_t size;

static void open_side(struct fid_domain *domain, struct fi_info *info, struct fid_av *av, struct side *side) {
    struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
    CHECK(fi_cq_open(domain, &attr, &side->cq, NULL));
    CHECK(fi_endpoint(domain, info, &side->ep, NULL));
    CHECK(fi_ep_bind(side->ep, &side->cq->fid, FI_TRANSMIT | FI_RECV));
    CHECK(fi_ep_bind(side->ep, &av->fid, 0));
    CHECK(fi_enable(side->ep));
    for (int i = 0; i < WINDOW; i++) {
        side->sends[i].bytes = calloc(1, size);
        side->receives[i].bytes = calloc(1, size);
    }
}

static fi_addr_t name(struct side *side, struct fid_av *av) {
    char bytes[512];
    size_t len = sizeof(bytes);
    fi_addr_t addr;
    CHECK(fi_getname(&side->ep->fid, bytes, &len));
    if (fi_av_insert(av, bytes, 1, &addr, 0, NULL) != 1)
        exit(1);
    return addr;
}

// Reads completions; returns the number of receives, and gives the messages to `post`, if there is one.
static int progress(struct side *side, struct message **sent, int *sends, struct message **received) {
    struct fi_cq_tagged_entry entries[16];
    int receives = 0;
    ssize_t got = fi_cq_read(side->cq, entries, 16);
    if (got < 0) {
        if (got != -FI_EAGAIN)
            exit(1);
        return 0;
    }
    for (ssize_t i = 0; i < got; i++) {
        struct message *message = entries[i].op_context;
        if (entries[i].flags & FI_RECV)
            received[receives++] = message;
        else
            sent[(*sends)++] = message;
    }
    return receives;
}

static void post_receive(struct side *side, struct message *message) {
    ssize_t code;
    while ((code = fi_recv(side->ep, message->bytes, size, NULL, FI_ADDR_UNSPEC, &message->context)))
        if (code != -FI_EAGAIN)
            exit(1);
}

// The free messages of a side.
struct free {
    struct message *messages[WINDOW];
    int count;
};

static struct free free_a, free_b;

static void post_send(struct side *from, struct free *free, struct side *to, struct message **received, int *receives,
                      struct free *other) {
    struct message *message = free->messages[--free->count];
    ssize_t code;
    while ((code = fi_send(from->ep, message->bytes, size, NULL, from->peer, &message->context))) {
        if (code != -FI_EAGAIN)
            exit(1);
        *receives += progress(to, other->messages, &other->count, received + *receives);
        progress(from, free->messages, &free->count, NULL);
    }
}

static void pingpong(long rounds) {
    struct message *received[WINDOW];
    for (long round = 0; round < rounds; round++) {
        int receives = 0;
        while (free_a.count == 0)
            progress(&a, free_a.messages, &free_a.count, received);
        post_send(&a, &free_a, &b, received, &receives, &free_b);
        while (receives < 1)
            receives += progress(&b, free_b.messages, &free_b.count, received);
        post_receive(&b, received[0]);
        receives = 0;
        while (free_b.count == 0)
            progress(&b, free_b.messages, &free_b.count, received);
        post_send(&b, &free_b, &a, received, &receives, &free_a);
        while (receives < 1)
            receives += progress(&a, free_a.messages, &free_a.count, received);
        post_receive(&a, received[0]);
    }
}

static void rate(long rounds) {
    struct message *received[WINDOW];
    for (long round = 0; round < rounds; round++) {
        int receives = 0;
        while (free_a.count < WINDOW)
            progress(&a, free_a.messages, &free_a.count, NULL);
        for (int i = 0; i < WINDOW; i++)
            post_send(&a, &free_a, &b, received, &receives, &free_b);
        while (receives < WINDOW)
            receives += progress(&b, free_b.messages, &free_b.count, received + receives);
        for (int i = 0; i < WINDOW; i++)
            post_receive(&b, received[i]);
    }
}

static double now(void) {
    struct timespec at;
    // The time of the processor: other processes of a busy machine do not count.
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return at.tv_sec * 1e9 + at.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 5)
        return 2;
    void (*run)(long) = strcmp(argv[2], "rate") ? pingpong : rate;
    size = strtoul(argv[3], NULL, 10);
    long rounds = strtol(argv[4], NULL, 10);
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fi_av_attr attr = {.type = FI_AV_TABLE};
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = getenv("LOCAL") ? FI_THREAD_DOMAIN : FI_THREAD_SAFE;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(argv[1]);
    const char *node = strcmp(argv[1], "shm") ? "127.0.0.1" : NULL;
    CHECK(fi_getinfo(FI_VERSION(2, 0), node, NULL, node ? FI_SOURCE : 0, hints, &info));
    CHECK(fi_fabric(info->fabric_attr, &fabric, NULL));
    CHECK(fi_domain(fabric, info, &domain, NULL));
    CHECK(fi_av_open(domain, &attr, &av, NULL));
    open_side(domain, info, av, &a);
    open_side(domain, info, av, &b);
    b.peer = name(&a, av);
    a.peer = name(&b, av);
    for (int i = 0; i < WINDOW; i++) {
        free_a.messages[free_a.count++] = &a.sends[i];
        free_b.messages[free_b.count++] = &b.sends[i];
        post_receive(&a, &a.receives[i]);
        post_receive(&b, &b.receives[i]);
    }
    pingpong(10);
    run(rounds / 10);
    double begin = now();
    run(rounds);
    printf("%.1f\n", (now() - begin) / rounds);
    return 0;
}
