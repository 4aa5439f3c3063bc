#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""plot.py FOLDER: draws the tables of `sim table FOLDER`, one SVG for each scenario and number, and prints tables in
Markdown."""
import csv
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "benches"))
import plot

COLORS = {"rxd": "ours", "tcp": "other", "rxm": "other 2"}
NUMBERS = {
    "done_ms": "milliseconds until all messages were delivered",
    "heap_max": "bytes of the heap, the rank with most",
    "loads_per_rank": "packets or segments sent by a rank",
    "longest_poll_us": "longest poll, microseconds",
}
COLUMNS = ["ranks", "done_ms", "close_ms", "loads_per_rank", "connections_max", "heap_max", "retries", "dropped",
           "longest_poll_us"]


def main(folder):
    rows = {}
    for path in sorted(folder.glob("*.csv")):
        for row in csv.DictReader(path.read_text().splitlines(), skipinitialspace=True):
            rows.setdefault(row["scenario"], {}).setdefault(row["transport"], []).append(row)
    for scenario, transports in rows.items():
        for number, unit in NUMBERS.items():
            series, names = {}, {}
            for transport, points in transports.items():
                names[COLORS[transport]] = transport
                series[COLORS[transport]] = [(int(row["ranks"]), float(row[number] or 0)) for row in points]
            text = plot.svg(scenario, "ranks", unit, series, names)
            if text:
                (folder / f"{scenario}-{number.removesuffix('_ms')}.svg").write_text(text)
        print(f"### {scenario}\n")
        print("| transport | " + " | ".join(COLUMNS) + " |")
        print("|---" * (len(COLUMNS) + 1) + "|")
        for transport, points in transports.items():
            for row in points:
                sample = f" (sample of {row['sample']})" if row["sample"] else ""
                cells = [row[column] or "did not end" for column in COLUMNS]
                print(f"| {transport} | {cells[0]}{sample} | " + " | ".join(cells[1:]) + " |")
        print()


main(pathlib.Path(sys.argv[1]))
