#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""run.py LIBRARY [CASE ...]: what processes that share memory may suffer from each other, and from where they run.

LIBRARY is a folder with a libfabric.so.1. A CASE is a part of a case's name. --long gives chance more time. Cases that are
not permitted here are named at the end, and the exit code is 77.
"""
import argparse
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE = float(os.environ.get("PATIENCE", "1"))
SKIPPED = 77
AUTO = {"SHM_AUTO": "1"}
# Peers of this provider use shared memory, too.
TCP = {"SHM_PROVIDER": "tcp"}

# The messages of these cases do not fit into the ring, so they depend on a peer that reads.
FULL = {"FI_SHM_RING_SIZE": "65536"}

# Name; seconds of random tests (short, long); additional time limit; environment.
CASES = [
    ("kill", 10, 60, 40, {}),
    ("kill", 0, 30, 40, AUTO),
    ("kill", 0, 30, 40, {"FI_SHM_RING_SIZE": "4096"}),
    ("hostile", 8, 60, 40, FULL),
    ("hostile", 0, 30, 40, AUTO | FULL),
    ("together", 4, 60, 80, {}),
    ("together", 0, 30, 80, AUTO),
    ("stalled", 0, 0, 20, FULL),
    ("user", 0, 0, 40, {}),
    ("unknown-user", 0, 0, 40, {}),
    ("fork", 0, 0, 40, {}),
    ("fork-busy", 0, 0, 120, {}),
    ("folder", 0, 0, 40, {}),
    ("small-shm", 0, 0, 30, {}),
    ("read-only-shm", 0, 0, 30, {}),
    ("no-dev", 0, 0, 30, {}),
    ("no-copy", 0, 0, 40, {}),
    ("no-memory", 0, 0, 30, {}),
    ("descriptors", 0, 0, 40, {}),
    ("pid-namespaces", 0, 0, 30, {}),
    ("net-namespaces", 0, 0, 60, {}),
    ("kill", 8, 60, 40, TCP),
    ("kill", 0, 30, 40, TCP | AUTO),
    ("kill", 0, 30, 40, TCP | {"FI_TCP_SHARED_MEMORY": "0"}),
    ("stays", 0, 0, 60, TCP),
    ("fork", 0, 0, 40, TCP),
    ("no-copy", 0, 0, 40, TCP),
    ("pid-namespaces", 0, 0, 30, TCP),
]


def build(folder, library):
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "shm"
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu17", "-O2", "-g", "-Wall", "-Wextra",
                    "-Wno-missing-field-initializers", f"-I{HERE.parent.parent / 'include'}", "-o", str(program),
                    *map(str, sorted(HERE.glob("*.c"))), f"-L{library}", "-lfabric"], check=True)
    return program


def run(program, library, case, seconds, limit, environment, seed, log):
    """The exit code, None after the limit, and what it wrote."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("FI_", "SHM_"))}
    env.update(LD_LIBRARY_PATH=str(library), **environment)
    command = [str(program), case, f"seed={seed}", f"seconds={seconds}"]
    # Its children end with this process.
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=log, text=True) as process:
        try:
            output, _ = process.communicate(timeout=(seconds + limit) * PATIENCE)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            process.kill()
            return None, process.communicate()[0]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder for the compiled program and its log")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    return parser.parse_intermixed_args()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args = arguments()
    library = args.library.resolve()
    program = build(args.build, library)
    print(f"seed {args.seed}", flush=True)
    passed, skipped, failed, begin = 0, [], [], time.monotonic()
    for case, short, long, limit, environment in CASES:
        seconds = long if args.long else short
        if long and not seconds or args.cases and not any(part in case for part in args.cases):
            continue
        start = time.monotonic()
        name = " ".join([case, *(f"{key}={value}" for key, value in environment.items())])
        log_path = args.build / "log"
        with open(log_path, "w") as log:
            code, output = run(program, library, case, seconds, limit, environment, args.seed, log)
        last = output.strip().splitlines()[-1:] or [""]
        if code == 0:
            passed += 1
            print(f"ok {name}, {time.monotonic() - start:.1f} s: {last[0]}", flush=True)
        elif code == SKIPPED:
            skipped.append(name)
            print(f"skipped {name}: {last[0]}", flush=True)
        else:
            failed.append(name)
            print(f"FAILED: {name}: {'not finished in time' if code is None else f'exit code {code}'}", flush=True)
            print(*(f"    {line}" for line in output.splitlines()[-20:]), sep="\n", flush=True)
            print(*(f"    {line[:200]}" for line in log_path.read_text(errors="replace").splitlines()[-20:]), sep="\n", flush=True)
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped, {time.monotonic() - begin:.0f} s")
    if failed:
        sys.exit(f"FAILED: {'; '.join(failed)}")
    if skipped:
        print(f"SKIPPED: not permitted here: {', '.join(skipped)}", file=sys.stderr)
        sys.exit(SKIPPED)


main()
