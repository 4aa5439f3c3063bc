#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""page.py RESULTS PAGE: one page in HTML of all that `make bench` measured last, from the CSV files below RESULTS.

First stands where ours is slower than the library beside it by more than a tenth, then steps in a curve that the other has
not, then what was wanted, the limits of the machine, and all curves with their tables. The page needs nothing beside it.
"""
import argparse
import csv
import html
import math
import pathlib

import report
from tables import TABLES

SLOWER = 1.1
# A cost is a step if it grows by this factor from one size to the next while the other library's grows by less.
STEP, OTHER_STEP = 1.7, 1.35
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222; }
table { border-collapse: collapse; margin: .5em 0 1.5em; font-size: 13px; }
th, td { padding: .15em .7em; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th:first-child, td:first-child, td.words { text-align: left; white-space: normal; }
td.bad { color: #b01818; font-weight: bold; } td.good { color: #1b6e35; }
figure { display: flex; flex-wrap: wrap; gap: 1em 2em; align-items: flex-start; margin: 0 0 1em; }
figure svg { width: 34em; max-width: 100%; height: auto; } h3 { margin: 1em 0 .2em; }
"""


def esc(text):
    return html.escape(str(text))


def read(path):
    """(facts, rows) of a file that report.write_csv wrote."""
    table = next((table for table in TABLES if table.name == path.stem), None)
    facts, lines = {}, []
    for line in path.read_text().splitlines():
        key, colon, value = line.removeprefix("# ").partition(": ")
        if line.startswith("#") and colon:
            facts[key] = value
        elif not line.startswith("#"):
            lines.append(line)
    rows = {}
    for line in csv.DictReader(lines) if table else []:
        # Files of earlier versions have no such column.
        key = int(line[table.x]), line.get("processors") or ""
        row = rows.setdefault(key, report.Row(table, key[0], {}, key[1]))
        row.values[line["series"]] = [float(value) for value in line["runs"].split()]
    return facts, list(rows.values())


def against(row):
    """How many times longer ours takes than the other."""
    ratio = row.ratio()
    return (1 / ratio if row.table.more_is_better else ratio) if ratio else None


def slower(results):
    """(times, row) where ours is slower by more than a tenth, the worst first."""
    found = [(against(row), row) for rows in results.values() for row in rows]
    return sorted(((times, row) for times, row in found if times and times > SLOWER), key=lambda pair: -pair[0])


def cost(row, series):
    value = row.median(series)
    return None if not value else 1 / value if row.table.more_is_better else value


def steps(results):
    """(row, ours, other): the cost grows by these factors from the x before, per doubling."""
    found = []
    for rows in results.values():
        at = report.of_most_runs(rows)
        xs = sorted(x for x in at if x > 0)
        for before, x in zip(xs, xs[1:]):
            costs = [(cost(at[before], series), cost(at[x], series)) for series in ("ours", "other")]
            grown = [(high / low) ** (1 / math.log2(x / before)) for low, high in costs if low and high]
            if len(grown) == 2 and grown[0] > STEP and grown[1] < OTHER_STEP:
                found.append((at[x], *grown))
    return found


def table_of(head, lines):
    """`lines`: lists of cells, each a text or (class, text)."""
    out = ["<table><tr>" + "".join(f"<th>{esc(cell)}</th>" for cell in head) + "</tr>"]
    for line in lines:
        cells = [cell if isinstance(cell, tuple) else ("", cell) for cell in line]
        out.append("<tr>" + "".join(f'<td class="{kind}">{text}</td>' if kind else f"<td>{text}</td>" for kind, text in cells)
                   + "</tr>")
    return "".join(out) + "</table>"


def link(table):
    return f'<a href="#{table.name}">{esc(table.provider)}: {esc(table.title)}</a>'


def place(row):
    return f"{row.x} {esc(row.table.x)}" + (f", {esc(row.distance)}" if row.distance else "")


def section_slower(results):
    lines = [[("words", link(row.table)), ("words", place(row)), report.number(row.median("ours")),
              report.number(row.median("other")), ("bad", f"{times:.2f}")] for times, row in slower(results)]
    said = "" if lines else "<p>Nowhere.</p>"
    return "<h2>Where ours is slower by more than a tenth</h2>" + said + table_of(
        ["work", "at", "ours", "other", "times as long"], lines)


def section_steps(results):
    lines = [[("words", link(row.table)), ("words", place(row)), f"{ours:.2f}", f"{other:.2f}"] for row, ours, other in steps(results)]
    said = (f"<p>Places where the cost of ours grows by more than {STEP} with a doubling, and that of the other by less than "
            f"{OTHER_STEP}.</p>" if lines else "<p>None.</p>")
    return "<h2>Steps that the other library has not</h2>" + said + table_of(["work", "at", "ours grows", "other grows"], lines)


def section_goals(results):
    lines = [[("words", esc(what)), ("words", esc(wanted)), value, ("good" if reached == "yes" else "bad", reached)]
             for what, wanted, value, reached in report.goals(results)]
    return "<h2>What was wanted</h2>" + table_of(["what", "wanted", "measured", "reached"], lines)


def section_limits(folders):
    out = ["<h2>Limits of the machine, measured beside</h2>"]
    for folder in folders:
        path = folder / "limits.csv"
        if path.exists():
            lines = [[("words", esc(line["what"])), *(report.number(float(line[key])) for key in ("least", "median", "most")),
                      ("words", esc(line["unit"])), line["measured"]] for line in csv.DictReader(path.open())]
            out.append(f"<h3>With {esc(folder.name if folder.name != 'results' else 'tcp')}</h3>")
            out.append(table_of(["what", "least", "median", "most", "unit", "runs"], lines))
    return "".join(out)


def section_curves(results, facts):
    out, provider = [], None
    for table in TABLES:
        rows = results.get(table.name)
        if not rows or not report.columns(rows):
            continue
        if table.provider != provider:
            provider = table.provider
            said = "".join(f"<li>{esc(key)}: {esc(value)}</li>" for key, value in facts[table.name].items() if key != "what")
            out.append(f'<h2 id="{provider}">{provider}</h2><ul>{said}</ul>')
        libraries = {key: facts[table.name][key] for key in report.SERIES
                     if key.startswith("other") and key in facts[table.name] and not table.group}
        head, lines = report.cells(rows)
        out.append(f'<h3 id="{table.name}">{esc(table.title)} ({esc(table.unit)})</h3><figure>'
                   + (report.drawn(table, rows, libraries) or "") + table_of(head, [list(map(esc, line)) for line in lines])
                   + "</figure>")
    return "".join(out)


def page(folder):
    results, facts, folders = {}, {}, []
    for path in sorted(folder.glob("**/*.csv")):
        facts[path.stem], rows = read(path)
        if rows:
            results[path.stem] = rows
        if path.parent not in folders:
            folders.append(path.parent)
    results = {table.name: results[table.name] for table in TABLES if table.name in results}
    parts = [section_slower(results), section_steps(results), section_goals(results), section_limits(folders),
             section_curves(results, facts)]
    return ('<!doctype html><html lang="en"><head><meta charset="utf-8"><title>ironfabric: what it costs</title>'
            f"<style>{STYLE}</style></head><body><h1>What it costs</h1><p>Medians of runs in turns; <i>ours</i> is this library, "
            "<i>other</i> the first one that it is compared with. docs/performance.md says how it is measured, what bounds it "
            "and what was tried.</p>" + "".join(parts) + "</body></html>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("page", type=pathlib.Path)
    args = parser.parse_args()
    args.page.parent.mkdir(parents=True, exist_ok=True)
    args.page.write_text(page(args.results))
    print(f"the report: {args.page}")


if __name__ == "__main__":
    main()
