#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""distances.py OURS OTHER [WORK FORM X]...: shm on two libfabrics in turns, sorted by how far apart the processors are.

OURS and OTHER are folders with a libfabric.so.1. Through shared memory most of what counts is how long a line of the cache
takes from one core to the other, and a virtual machine's two cores may be two threads of one core, share a cache, or be far
apart, and change that within seconds. So benches/limits measures it before and after each run; a run during which it changed
counts for nothing, and medians are those of runs at one distance. Prints a table in Markdown.
"""
import argparse
import pathlib
import statistics
import sys
import time

import limits
import report
import run

WORKS = [("latency tagged", x) for x in (8, 256, 4096, 16384, 65536)] \
    + [("stream tagged", x) for x in (8, 256, 4096, 16384, 65536, 1 << 18, 1 << 20)] \
    + [("stream write", x) for x in (8, 4096)] + [("atomic " + form, 8) for form in ("fetch", "fetch-stream", "add")]


def measure(pair, bounds, libraries, work, form, x, seconds):
    """{distance: {series: [values]}}; both libraries have run equally often."""
    values = {name: {series: [] for series in libraries} for name, _ in limits.DISTANCES}
    end, before = time.monotonic() + seconds, bounds.distance()
    while time.monotonic() < end:
        for series, library in libraries.items():
            result = pair.run(library, work, form, [x], 60)
            after = bounds.distance()
            if isinstance(result, str):
                sys.exit(f"{work} {form} {x}, {series}: {result}")
            if after == before:
                values[after][series].append(result[0][2])
            before = after
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", type=pathlib.Path)
    parser.add_argument("other", type=pathlib.Path)
    parser.add_argument("works", nargs="*", metavar="WORK FORM X", help="what to measure; a selection without")
    parser.add_argument("--seconds", type=float, default=30, help="for each work")
    parser.add_argument("--milliseconds", type=float, default=60, help="for each measurement of a run")
    parser.add_argument("--build", type=pathlib.Path, default=run.ROOT / "target/bench", help="where the programs are built")
    args = parser.parse_args()
    triples = zip(args.works[::3], args.works[1::3], args.works[2::3])
    works = [(f"{work} {form}", int(x)) for work, form, x in triples] or WORKS
    libraries = {"ours": args.ours.resolve(), "other": args.other.resolve()}

    bounds = run.build_limits(args.build)
    pair = run.Pair(run.build(args.build, libraries["ours"], "bench", run.SOURCES, ["-pthread"]), args.milliseconds, False, "shm")
    for key, value in run.facts(libraries).items():
        print(f"- {key}: {value}")
    print("\n| work | bytes | distance | runs of each | ours | other | ours / other |\n|---|---:|---|---:|---:|---:|---:|",
          flush=True)
    for name, x in works:
        for where, series in measure(pair, bounds, libraries, *name.split(), x, args.seconds).items():
            runs = min(len(values) for values in series.values())
            if runs:
                ours, other = (statistics.median(series[which]) for which in libraries)
                print(f"| {name} | {x} | {where} | {runs} | {report.number(ours)} | {report.number(other)} "
                      f"| {report.number(ours / other)} |", flush=True)


if __name__ == "__main__":
    main()
