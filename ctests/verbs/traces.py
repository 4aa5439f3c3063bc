#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""traces.py OTHER OURS: compares what a program printed, and what it asked of the stand-in for rdma-core (FAKE_TRACE=1), on
another libfabric and on ours. OTHER and OURS are files with both. Each line that differs must be one of RULES, which give
the reason. Prints the lines that are not; then the exit code is 1.

The lines before the program's own calls are left out: there each library looks for devices, in its own order.
"""
import difflib
import itertools
import re
import sys

# (which side has the line: - the other, + ours, or . for both; the line; why)
RULES = [
    # What is asked.
    (".", r"(getaddrinfo|bind_addr|resolve_addr|event 0) .*|destroy_id", "names are resolved without rdma-core, once for each fi_getinfo"),
    (".", r"create_id ps 0x1\w\w sync [01]|migrate_id|destroy_ep", "an identifier is made for the channel of its domain"),
    (".", r"create_cq \d+ vec 0 chan [01]", "at least 1024 entries, at most what the device has; rxm: a channel, and fewer entries"),
    (".", r"create_qp mlx5_0 type 2 swr (128|384) rwr (128|384) ssge 4 rsge 3 inline->256 sig_all S srq 0",
     "made when fi_connect has found the device; rxm has more requests"),
    (".", r"connect rr 255 id 255 fc 1 retry (15|6) .*", "soft RoCE takes 7 or more for no limit"),
    (".", r"modify_qp # mask 0x8000 .*", "the time to wait for a receive is set when the connection is made"),
    (".", r"disconnect|event (9|10) .*", "a connection that the peer ended, or that ends with its endpoint, is answered"),
    (".", r"req_notify_cq|ack_cq_events \d+", "a queue is armed before a thread sleeps, and its events are taken at once"),
    (".", r"reg_mr_iova2 .*|dereg_mr", "rights of the region only; regions are cached"),
    (".", r"post_send # SEND_IMM flags 0x8 sge 1 len 16 imm 42000000 .*", "the other repeats the data of an earlier operation"),
    ("+", r"post_send # SEND flags 0x8 sge 1 len 16 imm 00000000 .*", "the same"),
    ("-", r"post_send # SEND flags 0x8 sge 1 len 200 .*", "the other copies the pieces of a short message to one"),
    ("+", r"post_send # SEND flags 0x8 sge 2 len 200 .*", "the same"),
    ("-", r"post_send # SEND flags 0x9 sge 1 len 300 .*", "an injected message longer than inject_size"),
    ("-", r"post_send # SEND flags 0x8 sge 1 len 8 .*", "a message after the end of the connection is cancelled without the adapter"),
    ("+", r"post_send # WRITE flags 0x8 sge 1 len 8 .*", "an injected atomic write"),
    (".", r"post_recv # .*", "rxm posts 64 receives for each connection, not 128"),
    ("+", r"post_send # WRITE flags 0x0 sge 0 .*", "the empty write behind requests without a report, when the endpoint ends"),
    (".", r"destroy_qp #", "the order of an end"),
    # What is answered.
    (".", r"key \w+ desc \w+; key2 \w+", "descriptors are local keys, not pointers"),
    (".", r"after reject: EAVAIL readerr 48 err 111 .* str .*", "a text for the reason"),
    (".", r"  cq b: ctx 0x\w+ flags 0x(20)?402 len 16 data 0x\w+", "the other repeats the data of an earlier operation"),
    (".", r"fi_sendmsg\(a, &ms, FI_FENCE \| FI_INJECT\) = .*", "longer than inject_size, which no later call changes"),
    (".", r"fi_(fetch_|inject_|query_)?atomic\(.*", "errors of fi_atomic(3); an injected write is possible"),
    (".", r"float: size \d count \d", "unset after an error"),
    (".", r"  cq a: ctx 0x[abcd] flags 0x\w+ len 0 data 0x0", "flags of fi_cq(3): an atomic operation is FI_ATOMIC"),
    ("+", r"  cq a: ERR ctx .* prov_errno 10 flags 0x204 .*", "a failed operation without a completion is reported"),
    (".", r"fi_(send|inject)\(a, buf, 4000.*|post_send # SEND flags 0x\w sge 1 len 4000 .*", "a buffer without descriptor is found among the regions"),
    ("+", r"  cq [ab]: ctx .* flags 0x(802|402) len \d+ data 0x0", "its completions"),
    (".", r"  cq b: ERR ctx 0x\w+ err 125 .*", "the order among flushed operations"),
    (".", r"  \d key 0x\w+", "a region without rights of peers has no remote key"),
    (".", r"getinfo 0 msg size \d+ inject \d+ rx 2048", "rxm: no limit of messages; injected messages are copied"),
    (".", r"side [01]: 0 port N", "ports"),
]


def normal(path):
    """The lines, without what differs from run to run."""
    text = open(path, errors="replace").read().splitlines()
    listens = next((n for n, line in enumerate(text) if "listen backlog" in line), len(text))
    probes = [n for n, line in enumerate(text[:listens]) if "destroy_qp" in line]
    lines = text[probes[-1] + 1:] if probes else text
    for old, new in [(r"^  \[fake\] ", ""), (r"\bqp \d+", "#"), (r"_qp \d+", "_qp #"), (r"lkey0 0x\w+", "lkey0 K"), (r"qpn \d+", "qpn N"),
                     (r"sig_all \d", "sig_all S"), (r"^(accept .*) retry \d+", r"\1 retry N"),
                     (r"port \d+", "port N")]:
        lines = [re.sub(old, new, line) for line in lines]
    lines = [re.sub(r"(post_send # \w+ flags) 0x(\w+)", unsignalled, line) for line in lines]
    return [f"{line} ({len(list(same))} times)" for line, same in itertools.groupby(lines)]


def unsignalled(found):
    """Without the bit that asks for a report of success: ours sets it where one is wanted, the other for each queue pair."""
    return f"{found[1]} {int(found[2], 16) & ~2:#x}"


def explained(side, line):
    return any(rule_side in (side, ".") and re.fullmatch(rf"(?:{rule}) \(\d+ times\)", line) for rule_side, rule, _ in RULES)


def main():
    other, ours = (normal(path) for path in sys.argv[1:])
    changes = [line for line in difflib.unified_diff(other, ours, lineterm="", n=0)
               if line[0] in "+-" and not line.startswith(("+++", "---"))]
    unexplained = [line for line in changes if not explained(line[0], line[1:])]
    print(f"{len(other)} and {len(ours)} lines, {len(changes)} differ")
    print("\n".join(unexplained))
    sys.exit(bool(unexplained))


if __name__ == "__main__":
    main()
