#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""mpi_latency.py OURS: messages of MPICH between two ranks of one host, in turns: over our shm, over our tcp, which goes over
shared memory, and over MPICH's own shared memory, its default.

Wants the MPICH of scripts/python_env.sh. Prints medians of the rounds' best half round trips, in microseconds, for each distance
of the processors (see distances.py); a run during which it changed counts for nothing.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys

import distances
import run

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = [8, 64, 256, 1024, 4096, 16384, 65536, 262144, 1 << 20]
NETWORK = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi"}
WAYS = {"our shm": dict(NETWORK, FI_PROVIDER="shm"), "our tcp": dict(NETWORK, FI_PROVIDER="tcp"), "MPICH's own": {}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", type=pathlib.Path, help="a folder with our libfabric.so.1")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / "target/python/bin", help="the folder of mpicc and mpiexec")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "target/bench")
    args = parser.parse_args()
    program = args.build / "mpi_latency"
    args.build.mkdir(parents=True, exist_ok=True)
    subprocess.run([args.python / "mpicc", "-O2", "-o", program, ROOT / "benches/mpi_latency.c"], check=True)
    line = run.build(args.build, None, "line", ["line.c"], ["-pthread"])
    values = {name: {way: {} for way in WAYS} for name, _ in distances.DISTANCES}
    before = distances.distance(line)
    for _ in range(args.rounds):
        for way, variables in WAYS.items():
            env = dict(os.environ, **variables)
            if variables:
                env["LD_LIBRARY_PATH"] = str(args.ours.resolve())
            done = subprocess.run([args.python / "mpiexec", "-launcher", "fork", "-n", "2", program, *map(str, SIZES)], env=env,
                                  capture_output=True, text=True, timeout=120)
            if done.returncode:
                sys.exit(f"{way}: {done.stderr.strip() or done.returncode}")
            after = distances.distance(line)
            if after == before:
                for size, took in map(str.split, done.stdout.splitlines()):
                    values[after][way].setdefault(int(size), []).append(float(took))
            before = after
    print("| distance | bytes | runs of each | " + " | ".join(WAYS) + " | our shm / MPICH's own |\n|---|" + "---:|" * (len(WAYS) + 3))
    for name, ways in values.items():
        for size in SIZES if all(ways.values()) else []:
            runs = [ways[way][size] for way in WAYS]
            medians = [statistics.median(took) for took in runs]
            print(f"| {name} | {size} | {min(map(len, runs))} | " + " | ".join(f"{median:.3g}" for median in medians)
                  + f" | {medians[0] / medians[-1]:.3g} |")


if __name__ == "__main__":
    main()
