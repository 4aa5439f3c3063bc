#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""run.py C_PROGRAM RUST_PROGRAM [TURNS]: runs messages.c and messages.rs in turns. Prints for each case the medians of
the nanoseconds of the processor, the fastest, and the instructions of a round: valgrind --tool=callgrind, the
difference of two runs.
"""
import os
import re
import statistics
import subprocess
import sys

PROGRAMS = sys.argv[1:3]
TURNS = int(sys.argv[3]) if len(sys.argv) > 3 else 15
CASES = [(p, m, s) for p in ("shm", "tcp") for m in ("pingpong", "rate") for s in (8, 4096)]
ROUNDS = {"pingpong": 100_000, "rate": 15_000}


def nanoseconds(program, case, rounds):
    words = [program, *map(str, case), str(rounds)]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def instructions(program, case):
    def total(rounds):
        words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, *map(str, case), str(rounds)]
        text = subprocess.run(words, check=True, capture_output=True, text=True).stderr
        return int(re.search(r"Collected : (\d+)", text)[1])

    # `rounds` rounds, and a tenth of them to warm up.
    few, many = 500, 2500
    return (total(many) - total(few)) / ((many - few) * 1.1)


def main():
    print("provider,mode,bytes,C ns,Rust ns,ratio,C least,Rust least,C instructions,Rust instructions,ratio")
    for case in CASES:
        times = [[], []]
        for turn in range(TURNS):
            # Alternates which program is first.
            for which in (0, 1) if turn % 2 else (1, 0):
                times[which].append(nanoseconds(PROGRAMS[which], case, ROUNDS[case[1]]))
        c, rust = map(statistics.median, times)
        counts = [instructions(program, case) for program in PROGRAMS]
        print(*case, f"{c:.0f},{rust:.0f},{rust / c:.3f},{min(times[0]):.0f},{min(times[1]):.0f}",
              f"{counts[0]:.0f},{counts[1]:.0f},{counts[1] / counts[0]:.3f}", sep=",", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("FI_LOG_LEVEL", "none")
    main()
