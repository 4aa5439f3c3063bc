#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""rows.py FILE...: no row of these Markdown tables is longer than 200 characters, and none lost or gained a column.

A row that does not fit holds two ideas, or an explanation that belongs into the text around the table.
"""
import re
import sys

LIMIT = 200


def columns(row: str) -> int:
    """Cells of a row; a `|` within backquotes or after a backslash belongs to its cell."""
    return len(re.sub(r"`[^`]*`|\\\|", "", row).strip().strip("|").split("|"))


faults = rows = 0
for path in sys.argv[1:]:
    wanted = 0
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        if not line.startswith("|"):
            wanted = 0
            continue
        rows += 1
        wanted = wanted or columns(line)
        if len(line) > LIMIT:
            print(f"{path}:{number}: {len(line)} characters in one row: {line[:60]}...")
            faults += 1
        if columns(line) != wanted:
            print(f"{path}:{number}: {columns(line)} columns, not {wanted}: {line[:60]}...")
            faults += 1
print(f"{rows} rows, {faults} faults")
sys.exit(1 if faults or not rows else 0)
