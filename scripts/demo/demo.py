# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The demo's second half, after scripts/demo.sh has built the library and the Python environment.

Runs the checks on four ranks, then the ping-pong on our library and on the MPICH wheel's own, in turn, and prints both
tables side by side.
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


def compare(ours, upstream, sizes, pairs):
    print(f"\n== Ping-pong, 2 ranks: {pairs} runs on each library, in turn", flush=True)
    runs = {ours.name: [], upstream.name: []}
    with tempfile.TemporaryDirectory() as folder:
        for pair in range(pairs):
            # The first of a pair alternates, so that a drift of the machine's speed favours neither.
            for library in (ours, upstream) if pair % 2 == 0 else (upstream, ours):
                runs[library.name].append(ping_pong(library, sizes, folder))
            print(f"  pair {pair + 1} of {pairs} done", flush=True)
    print_table(ours.name, upstream.name, runs[ours.name], runs[upstream.name], sizes)


def print_table(our_name, upstream_name, our_runs, upstream_runs, sizes):
    print(f"\n{'':>9}  {our_name:^20}  {upstream_name:^20}")
    print(f"{'bytes':>9}  {'us':>9} {'MB/s':>10}  {'us':>9} {'MB/s':>10}  {'ratio':>6}")
    for size in sizes:
        us = median(run[size] for run in our_runs)
        theirs = median(run[size] for run in upstream_runs)
        # The two runs of a pair are seconds apart, so the ratio is computed within pairs.
        ratio = median(a[size] / b[size] for a, b in zip(our_runs, upstream_runs))
        print(f"{size:>9}  {us:9.2f} {size / us:10.1f}  {theirs:9.2f} {size / theirs:10.1f}  {ratio:6.2f}")
    print(f"Half round trip, median of {len(our_runs)} runs; ratio of times, below 1 means {our_name} is faster.")
    print(f"{platform.machine()}, {os.cpu_count()} processors, Linux {platform.release()}, through mpi4py.")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True, help="folder that holds our libfabric.so.1")
    parser.add_argument("--python-env", required=True)
    parser.add_argument("--short", action="store_true")
    args = parser.parse_args()
    ours = Library("ironfabric", args.library, args.python_env)
    upstream = Library("the wheel's own", None, args.python_env)
    run_checks(ours)
    if args.short:
        compare(ours, upstream, SHORT_SIZES, pairs=1)
    else:
        compare(ours, upstream, SIZES, pairs=5)
    print("\nAll values were right.", flush=True)


if __name__ == "__main__":
    main_with_message(main)
