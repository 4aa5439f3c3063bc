#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""budget.py OURS [--other OTHER] [--write]: instructions of each call of the data path, counted by callgrind, and what it
asks the heap for; compared with benches/budget.csv, or written there. All of it for each provider of PROVIDERS; and the
instructions of `verbs` over the stand-in for rdma-core that VERBS_FAKE names (ctests/verbs/stand_in.sh), without those of
the stand-in.

A poll asks epoll when some time has passed, so how often it does depends on the speed of the machine: the row of a poll that
finds nothing leaves that out. Each call is counted in several runs, of which the least counts. A count that is 5 % above the budget fails, and so does one that is 5 % below: what
was gained is to be written down, or the next change can lose it unseen. A call that allocates or formats text fails. Instructions depend on the compiler and on
the C library's memcpy; with another Rust than the budget's, the comparison of counts is left out, and says so.
"""
import argparse
import csv
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

from run import ROOT, build, releases

BUDGET = ROOT / "benches/budget.csv"
STAND_IN = ROOT / "target/bench/stand-in"
TOLERANCE = 0.05
SKIPPED = 77
# The same numbers as in benches/calls.c.
COUNT = 200
# Runs of the program for each provider; up to the second number of runs if a call is above its budget.
RUNS = (3, 10)
PROVIDERS = ["tcp", "sockets", "shm"]
VERBS = "verbs"
# The address of a device of the stand-in, and its functions that the library calls.
DEVICE = "10.91.0.1"
DEVICE_CALLS = ["f_send", "f_recv", "f_poll"]

# For each row: the counted quantity, the function of benches/calls.c, and the number of its operations in each round.
CALLS = [
    ("fi_tsend, written at once", "m_tsend", 1),
    ("fi_tsend, gathered", "m_tsend_next", 15),
    ("fi_inject", "m_inject", 1),
    ("fi_tinject", "m_tinject", 1),
    ("fi_trecv", "m_trecv", 1),
    ("fi_trecv, message waiting", "m_trecv_unexpected", 1),
    ("fi_write", "m_write", 1),
    ("fi_read", "m_read", 1),
    ("fi_wr_queue_tx, tagged, written at once", "m_wr_tsend", 1),
    ("fi_wr_queue_tx, tagged, gathered", "m_wr_tsend_next", 15),
    ("fi_wr_queue_trecv", "m_wr_trecv", 1),
    ("fi_cq_read, completion waiting", "m_cq_read_hit", 1),
    ("fi_cq_read, message waiting", "m_cq_read_message", 1),
    ("fi_cq_read, 16 messages, each", "m_cq_read_sixteen", 16),
    ("fi_cq_read, unexpected message", "m_cq_read_unexpected", 1),
    ("fi_cq_read, nothing", "m_cq_read_miss", 1),
]
# The same for benches/adapter.c.
ADAPTER_CALLS = [
    ("fi_send, carried by the request", "m_send", 1),
    ("fi_send, from memory", "m_send_long", 1),
    ("fi_inject", "m_inject", 1),
    ("fi_recv", "m_recv", 3),
    ("fi_write, carried by the request", "m_write", 1),
    ("fi_write, from memory", "m_write_long", 1),
    ("fi_read", "m_read", 1),
    ("fi_cq_read, completion waiting", "m_cq_read_hit", 5),
    ("fi_cq_read, message waiting", "m_cq_read_message", 3),
    ("fi_cq_read, nothing", "m_cq_read_miss", 1),
]
# The function that asks epoll.
ASK = "ask_epoll"
FORMATS = re.compile(r"core::fmt|alloc::fmt|\bv?s?n?printf\b")


def environment(library, provider=None):
    # Settings of the user must not change the counts.
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FI_")}
    if provider == VERBS:
        path = f"{library}:{STAND_IN}"
        return dict(kept, LD_LIBRARY_PATH=path, LD_PRELOAD=str(STAND_IN / "libibverbs.so.1"))
    # tcp is measured over sockets, because memory between its peers is counted as shm.
    return dict(kept, LD_LIBRARY_PATH=str(library), FI_TCP_SHARED_MEMORY="0")


def stand_in():
    """Builds the stand-in for rdma-core. Returns why it cannot be built here."""
    done = subprocess.run([ROOT / "ctests/verbs/stand_in.sh", STAND_IN], capture_output=True, text=True)
    if done.returncode == SKIPPED:
        return done.stdout.strip()
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return None


def profile(program, library, provider, functions="m_*"):
    """Instructions by function of the program with all that it calls, and all functions that were called from there; or the
    text of a failure."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "profile"
        toggled = [functions] + (DEVICE_CALLS if provider == VERBS else [])
        command = ["valgrind", "--tool=callgrind", *(f"--toggle-collect={each}" for each in toggled),
                   f"--callgrind-out-file={out}", str(program), *arguments(provider)]
        done = subprocess.run(command, env=environment(library, provider), capture_output=True, text=True, timeout=600)
        if done.returncode:
            return f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
        return parse(out.read_text().splitlines())


def least(program, library, provider, budget):
    """Instructions of each call, the least of several runs, and the functions that were called; or the text of a failure."""
    counts, functions = {}, set()
    for run in range(RUNS[1]):
        found = profile(program, library, provider)
        if isinstance(found, str):
            return found
        functions |= found[1]
        rows = per_call(provider, found[0])
        if provider != VERBS:
            rows |= miss(program, library, provider)
        for row, count in rows.items():
            counts[row] = min(count, counts.get(row, count))
        over = any(row in budget and change(counts[row], budget[row]) > TOLERANCE for row in counts)
        if run + 1 >= RUNS[0] and not over:
            break
    return counts, functions


def miss(program, library, provider):
    """The row of a poll that finds nothing, without what asks epoll. No row for a library that has no such function."""
    function = "m_cq_read_miss"
    costs, _ = profile(program, library, provider, function)
    asked = [cost for name, cost in costs.items() if name.endswith(ASK)]
    return {(provider, "fi_cq_read, nothing"): (costs[function] - sum(asked)) / COUNT} if asked else {}


def arguments(provider):
    match provider:
        case "verbs":
            return [DEVICE]
        # Without a provider the program chooses tcp, on loopback.
        case "tcp":
            return ["instructions"]
        case _:
            return ["instructions", provider]


def parse(lines):
    """Costs of a function stand behind its `fn=`, those of what it calls, with all below, behind `calls=`."""
    names, costs, current = {}, {}, None
    for line in lines:
        found = re.match(r"(c?)fn=\((\d+)\)(?: (.*))?$", line)
        if found:
            called, number, name = found.groups()
            if name:
                names[number] = name
            if not called:
                current = names[number]
        elif current and re.match(r"[+\-*\d]\S* \d+$", line):
            costs[current] = costs.get(current, 0) + int(line.split()[1])
    return costs, set(names.values())


def allocations(program, preload, library, provider):
    env = dict(environment(library), LD_PRELOAD=str(preload))
    command = [program, "allocations", *arguments(provider)[1:]]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
    if done.returncode:
        sys.exit(f"{program} allocations, {provider}:\n{done.stdout}{done.stderr}")
    return {line.split()[0]: float(line.split()[1]) for line in done.stdout.splitlines()}


def rust():
    done = subprocess.run(["rustc", "--version"], capture_output=True, text=True)
    return " ".join(done.stdout.split()[:2]) if done.returncode == 0 else "no Rust"


def read_budget():
    facts, rows = {}, []
    with open(BUDGET) as file:
        for line in file:
            if line.startswith("#"):
                key, _, value = line[1:].partition(":")
                facts[key.strip()] = value.strip()
            else:
                rows.append(line)
    return facts, {(row["provider"], row["call"]): row for row in csv.DictReader(rows)}


def write_budget(counts, other):
    with open(BUDGET, "w", newline="") as out:
        out.write("# instructions per call, release build, 8 bytes, one host; benches/budget.py --write\n")
        out.write(f"# rust: {rust()}\n# machine: {platform.machine()}\n")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["provider", "call", "ours", "other"])
        for row, count in counts.items():
            writer.writerow([*row, round(count), round(other[row]) if row in other else ""])
    print(f"written to {BUDGET.relative_to(ROOT)}")


def per_call(provider, costs):
    """Without the calls that the provider does not offer."""
    calls = ADAPTER_CALLS if provider == VERBS else CALLS
    return {(provider, call): costs[function] / COUNT / each for call, function, each in calls if function in costs}


def count_other(programs, library, budget):
    """Of the other library; what it is not asked, or does not serve, keeps its old number."""
    counts = {row: float(old["other"]) for row, old in budget.items() if old["other"]}
    for provider, program in programs.items() if library else []:
        found = least(program, library, provider, {})
        if isinstance(found, str):
            print(f"NOT COUNTED, {provider} of the other library: {found.strip().splitlines()[-1]}")
        else:
            counts = {row: count for row, count in counts.items() if row[0] != provider} | found[0]
    return counts


def change(count, row):
    return count / float(row["ours"]) - 1


def compare(counts, budget):
    """Prints the counts beside the budget; what is off."""
    off = []
    print(f"{'instructions':<42}{'budget':>8}{'now':>8}{'change':>9}{'other':>8}")
    for key, count in counts.items():
        call, row = ", ".join(key), budget.get(key)
        if row is None:
            off.append(f"{call} has no budget")
            continue
        more = change(count, row)
        print(f"{call:<42}{row['ours']:>8}{count:>8.0f}{more:>+9.1%}{row['other']:>8}")
        if more > TOLERANCE:
            off.append(f"{call} takes {more:.1%} more than its budget")
        elif more < -TOLERANCE:
            off.append(f"{call} takes {-more:.1%} less than its budget: write it down with `make budget`")
    return off


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", type=pathlib.Path)
    parser.add_argument("--other", type=pathlib.Path, help="count this library, too")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "target/bench", help="where the program is built")
    args = parser.parse_args()
    if not shutil.which("valgrind"):
        print("SKIPPED: there is no valgrind")
        sys.exit(SKIPPED)
    ours = args.ours.resolve()
    common = ["control.c", "fabric.c"]
    sources = ["calls.c", *common]
    program = build(args.build, ours, "calls", sources, options=releases.newest_set(ours))
    preload = build(args.build, None, "allocs.so", ["allocs.c"], ["-shared", "-fPIC"])
    programs = dict.fromkeys(PROVIDERS, program)
    if without := stand_in():
        print(f"NOT COUNTED, verbs: {without}")
    else:
        programs[VERBS] = build(args.build, ours, "adapter", ["adapter.c", *common])

    counts, off = {}, []
    facts, budget = read_budget()
    for provider, program in programs.items():
        found = least(program, ours, provider, budget)
        if isinstance(found, str):
            sys.exit(found)
        counts |= found[0]
        functions = found[1]
        off += [f"{provider}, text is formatted: {name}" for name in sorted(functions) if FORMATS.search(name)]
        # The stand-in asks the heap for each request.
        if provider == VERBS:
            continue
        heap = allocations(program, preload, ours, provider)
        print(f"allocations of an operation, {provider}: " + ", ".join(f"{what} {count:g}" for what, count in heap.items()))
        # A pool may grow once.
        off += [f"{provider}, {what}: {count:g} allocations" for what, count in heap.items() if count > 0.01]
    if args.write:
        # What is not counted here keeps its numbers.
        kept = {row: float(old["ours"]) for row, old in budget.items() if row[0] not in programs}
        anywhere = dict(programs)
        if args.other:
            anywhere |= dict.fromkeys(PROVIDERS, build(args.build, ours, "calls-anywhere", sources))
        write_budget(counts | kept, count_other(anywhere, args.other and args.other.resolve(), budget))
        facts, budget = read_budget()
    off += compare(counts, budget) if (same := facts.get("rust") == rust()) else []
    if off:
        sys.exit("\n".join(["FAILED:"] + off))
    if not same:
        print(f"NOT COMPARED with the budget: it is for {facts.get('rust')}, this is {rust()}")


if __name__ == "__main__":
    main()
