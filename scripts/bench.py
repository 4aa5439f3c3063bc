#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""bench.py OURS OTHER: the same fi_pingpong on two libfabrics, in turns, and the times side by side.

OURS and OTHER are folders with a libfabric.so.1. Times are microseconds of one transfer (half a round trip): the least
and the median of all runs. A busy or virtual machine drifts from minute to minute; the ratio of the medians drifts less,
because the two take turns.
"""
import argparse
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

PATIENCE = float(os.environ.get("PATIENCE", "1"))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run(program, folder, kind, mode, size, count):
    """Microseconds per transfer of one run, or the text of its failure."""
    env = dict(os.environ, LD_LIBRARY_PATH=folder, FI_TCP_IFACE="lo")
    port = str(free_port())
    options = ["-p", "tcp", "-e", kind, "-m", mode, "-I", str(count), "-S", str(size)]
    pin = lambda cpu: [shutil.which("taskset"), "-c", str(cpu)] if shutil.which("taskset") and (os.cpu_count() or 1) > 1 else []
    server = subprocess.Popen(pin(0) + [program, *options, "-B", port], env=env, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
    try:
        deadline = time.monotonic() + 10 * PATIENCE
        while not listening(int(port)):
            if server.poll() is not None or time.monotonic() > deadline:
                return "the server does not listen: " + (server.stdout.read() if server.poll() is not None else "")
            time.sleep(0.01)
        client = subprocess.run(pin(1) + [program, *options, "-P", port, "127.0.0.1"], env=env, text=True,
                                capture_output=True, timeout=120 * PATIENCE)
        if client.returncode:
            return f"exit code {client.returncode}: {client.stdout}{client.stderr}"
        server.wait(timeout=20 * PATIENCE)
    except subprocess.TimeoutExpired:
        return "not finished in time"
    finally:
        server.kill()
        server.wait()
    line = client.stdout.strip().splitlines()[-1].split()
    return float(line[-2])


def listening(port):
    """Looks at the kernel's table: a connection would be taken for the client."""
    wanted = re.compile(rf"^\s*\d+: \S+:{port:04X} \S+ 0A ", re.M)
    return any(wanted.search(open(table).read()) for table in ("/proc/net/tcp", "/proc/net/tcp6") if os.path.exists(table))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours")
    parser.add_argument("other")
    parser.add_argument("--program", default=shutil.which("fi_pingpong"), help="a fi_pingpong that runs on both")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[8, 256, 4096, 65536, 1 << 20])
    args = parser.parse_args()
    if not args.program:
        sys.exit("there is no fi_pingpong: apt-get install libfabric-bin, or --program")
    libraries = {"ours": args.ours, "other": args.other}
    for name, folder in libraries.items():
        if not os.path.exists(os.path.join(folder, "libfabric.so.1")):
            sys.exit(f"{name}: there is no libfabric.so.1 in {folder}")
        print(f"{name}: {os.path.realpath(os.path.join(folder, 'libfabric.so.1'))}")
    print(f"{args.program}, provider tcp on loopback, {args.runs} runs each, us per transfer\n")
    print(f"{'':<10}{'bytes':>9} {'ours min':>10} {'median':>8} {'other min':>10} {'median':>8} {'ratio':>7}", flush=True)
    failed = 0
    for kind, mode in (("rdm", "tagged"), ("rdm", "msg"), ("msg", "msg")):
        for size in args.sizes:
            count = max(200, min(20000, (64 << 20) // max(size, 1)))
            times = {name: [] for name in libraries}
            for _ in range(args.runs):
                for name, folder in libraries.items():
                    result = run(args.program, folder, kind, mode, size, count)
                    if isinstance(result, str):
                        print(f"{kind} {mode}, {size} bytes, {name}: {result}", file=sys.stderr)
                        failed += 1
                    else:
                        times[name].append(result)
            if all(times.values()):
                ours, other = times["ours"], times["other"]
                medians = statistics.median(ours), statistics.median(other)
                print(f"{kind + ' ' + mode:<10}{size:>9} {min(ours):>10.2f} {medians[0]:>8.2f} {min(other):>10.2f} "
                      f"{medians[1]:>8.2f} {medians[0] / medians[1]:>7.2f}", flush=True)
    sys.exit(failed != 0)


main()
