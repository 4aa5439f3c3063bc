# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What bounds every library on this machine at this moment: benches/limits.c, and bare sockets and eventfds of the bench."""
import csv
import pathlib
import statistics
import subprocess

# Names of distances between two processors, by the nanoseconds for a cache line, up to the second number.
DISTANCES = [("one core", 40), ("one cache", 120), ("far apart", float("inf"))]
COPIES = [4096, 65536, 1 << 20, 16 << 20]
# Works of the benchmark: (title, unit, work, form, x).
BARE = [("half round trip of a bare socket, 8 bytes", "us", "socket", "latency", 8),
        ("stream over a bare socket, 65536 bytes", "per second", "socket", "stream", 65536),
        ("a sleeper wakes by an eventfd", "us", "wakeup", "eventfd", 50)]


class Limits:
    """`program`: benches/limits, built. `values`: {(what, unit): [measured, ...]}."""

    def __init__(self, program):
        self.program, self.values = program, {}

    def ask(self, *arguments):
        done = subprocess.run([self.program, *map(str, arguments)], capture_output=True, text=True, check=True)
        return [(int(x), float(value)) for _, x, value in map(str.split, done.stdout.splitlines())]

    def distance(self):
        (_, nanoseconds), = self.ask("line")
        self.values.setdefault(("a line of the cache goes to the other processor", "ns"), []).append(nanoseconds)
        return next(name for name, most in DISTANCES if nanoseconds < most)

    def measure(self, pair, library):
        """Everything once; `pair` is a run.Pair."""
        self.distance()
        for size, rate in self.ask("memcpy", *COPIES):
            self.values.setdefault((f"memcpy of {size} bytes, again and again", "bytes per second"), []).append(rate)
        for what, unit, work, form, x in BARE:
            result = pair.run(library, work, form, [x], 60)
            if isinstance(result, list):
                self.values.setdefault((what, unit), []).extend(value for _, _, value in result)

    def lines(self):
        """(what, unit, least, median, most, how often) of each."""
        return [(what, unit, min(values), statistics.median(values), max(values), len(values))
                for (what, unit), values in self.values.items()]

    def write(self, folder):
        path = pathlib.Path(folder) / "limits.csv"
        with open(path, "w", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(["what", "unit", "least", "median", "most", "measured"])
            writer.writerows([what, unit, *(f"{value:.6g}" for value in values), count]
                             for what, unit, *values, count in self.lines())
