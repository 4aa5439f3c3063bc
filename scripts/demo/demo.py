# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The demo's second half, after scripts/demo.sh has built the library and the Python environment.

Runs the checks on four ranks, then the ping-pong on our library, as it is shipped and over sockets, and on the MPICH
wheel's own, in turn, and prints the tables side by side.
"""

import argparse
import json
import os
import platform
import re
import tempfile
from pathlib import Path
from statistics import median

from launch import Failed, Library, main_with_message, run

HERE = Path(__file__).resolve().parent
SIZES = (0, 8, 64, 256, 1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20)
SHORT_SIZES = (8, 4096, 65536, 1 << 20)
PROVIDER_LINE = re.compile(r"^libfabric provider: (\S+) - (\S+)")


def is_ours(line):
    """MPICH's debug summary is long; of it only the line with the provider is worth a place on the screen."""
    return line.startswith(("rank ", "  ok ")) or PROVIDER_LINE.match(line) is not None


def run_checks(library):
    print(f"\n== 4 ranks on {library.name}: MPICH netmod ofi, provider tcp, no shared memory of MPICH's own", flush=True)
    lines = run(library, 4, HERE / "checks.py", extra_env={"MPIR_CVAR_DEBUG_SUMMARY": "1"}, show=is_ours)
    providers = {match[1] for match in map(PROVIDER_LINE.match, lines) if match}
    if providers != {"tcp"}:
        raise Failed(f"MPICH runs on {sorted(providers) or 'no libfabric provider'}, not on tcp")
    passed = [line for line in lines if line.startswith("  ok ")]
    if len(passed) != 5:
        raise Failed(f"only {len(passed)} of 5 checks reported success")


def ping_pong(library, sizes, folder):
    result = Path(folder) / "result.json"
    run(library, 2, HERE / "pingpong.py", [result, *map(str, sizes)], show=lambda line: False)
    table = {int(size): value for size, value in json.loads(result.read_text()).items()}
    result.unlink()
    if sorted(table) != sorted(sizes):
        raise Failed(f"ping-pong on {library.name} measured {sorted(table)} instead of {sorted(sizes)}")
    return table


def compare(libraries, sizes, rounds):
    """Runs each library once in each round. The first is ours as it is shipped, the second ours over sockets."""
    print(f"\n== Ping-pong, 2 ranks: {rounds} {'rounds' if rounds > 1 else 'round'} of {len(libraries)} runs", flush=True)
    runs = {library.name: [] for library in libraries}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(rounds):
            # The order alternates, so that a drift of the machine's speed favours none.
            for library in libraries if turn % 2 == 0 else reversed(libraries):
                runs[library.name].append(ping_pong(library, sizes, folder))
            print(f"  round {turn + 1} of {rounds} done", flush=True)
    print_table(libraries, [runs[library.name] for library in libraries], sizes)


def print_table(libraries, runs, sizes):
    ours, sockets, upstream = runs
    names = [library.name for library in libraries]
    print(f"\n{'':>9}  {names[0]:^20}  {names[1]:^20}  {names[2]:^20}  {'ratio of times':^18}")
    print(f"{'bytes':>9}" + f"  {'us':>9} {'MB/s':>10}" * 3 + f"  {'shipped':>9}{'sockets':>9}")
    for size in sizes:
        row = f"{size:>9}"
        for each in runs:
            us = median(run[size] for run in each)
            row += f"  {us:9.2f} {size / us:10.1f}"
        # The runs of a round are seconds apart, so the ratio is computed within rounds.
        for each in (ours, sockets):
            row += f"{'  ' if each is ours else ''}{median(a[size] / b[size] for a, b in zip(each, upstream)):9.2f}"
        print(row)
    print(f"Half round trip, median of {len(ours)} runs; ratio to {names[2]}, below 1 means faster. {names[0]}: as it is")
    print(f"shipped, two ranks of one host exchange data through memory. {names[1]} and {names[2]}: over sockets, as")
    print("between hosts.")
    print(f"{platform.machine()}, {os.cpu_count()} processors, Linux {platform.release()}, through mpi4py.")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True, help="folder that holds our libfabric.so.1")
    parser.add_argument("--python-env", required=True)
    parser.add_argument("--short", action="store_true")
    args = parser.parse_args()
    ours = Library("ironfabric", args.library, args.python_env)
    sockets = Library("ironfabric, sockets", args.library, args.python_env, {"FI_TCP_SHARED_MEMORY": "0"})
    upstream = Library("the wheel's own", None, args.python_env)
    run_checks(ours)
    libraries = [ours, sockets, upstream]
    if args.short:
        compare(libraries, SHORT_SIZES, rounds=1)
    else:
        compare(libraries, SIZES, rounds=5)
    print("\nAll values were right.", flush=True)


if __name__ == "__main__":
    main_with_message(main)
