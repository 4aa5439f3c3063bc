# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The tables as text, CSV, Markdown and pictures."""
import csv
import pathlib
import statistics

import plot
from tables import GOALS, TABLES

# Our library, the first one to compare with, further libraries, and the limit of all.
SERIES = ["ours", "other", "other 2", "other 3", "limit"]
# Minimum of runs of each library at one distance of the processors for a row to count.
ENOUGH = 3


def marks(provider):
    """Between what the tables of a provider stand on a page."""
    return f"<!-- {provider} tables: written by `make bench` -->", f"<!-- end of {provider} tables -->"


def names(table):
    return dict(zip(SERIES, SERIES), other=table.other_name, limit=table.limit_name)


def number(value):
    if value is None:
        return "-"
    if value >= 1e6:
        return f"{value / 1e6:.3g} M"
    if value >= 1e4:
        return f"{value / 1e3:.3g} k"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


class Row:
    """One x of a table: all values of each series, of which the median counts. `distance`: how far apart the processors were
    at each of them, where that was looked at."""

    def __init__(self, table, x, values, distance=""):
        self.table, self.x, self.values, self.distance = table, x, values, distance

    def runs(self):
        return min(map(len, self.values.values()), default=0)

    def median(self, series):
        return statistics.median(self.values[series]) if self.values.get(series) else None

    def best(self, series):
        if not self.values.get(series):
            return None
        return max(self.values[series]) if self.table.more_is_better else min(self.values[series])

    def ratio(self, series="other"):
        ours, other = self.median("ours"), self.median(series)
        return ours / other if ours is not None and other else None

    def over(self, base):
        """Ours, in that of another row."""
        ours, other = self.median("ours"), base.median("ours")
        return ours / other if ours is not None and other else None

    def beyond(self, series):
        ours, other = self.median("ours"), self.median(series)
        return ours - other if ours is not None and other is not None else None


def rows_of(table, x, values):
    """`values`: {distance: {series: [values]}}. The distances that were met often enough, or the one that was met most."""
    rows = [Row(table, x, series, distance) for distance, series in values.items()]
    complete = max(len(row.values) for row in rows) if rows else 0
    rows = [row for row in rows if len(row.values) == complete]
    return [row for row in rows if row.runs() >= ENOUGH] or sorted(rows, key=Row.runs)[-1:] or [Row(table, x, {})]


def of_most_runs(rows):
    """{x: row}: of several distances that of which there are most runs."""
    return {row.x: row for row in sorted(rows, key=Row.runs)}


def columns(rows):
    return [series for series in SERIES if any(row.values.get(series) for row in rows)]


def cells(rows):
    """Heading and lines of a table, as strings."""
    series = columns(rows)
    apart = any(row.distance for row in rows)
    head = [rows[0].table.x] + ["processors"] * apart
    for name in series:
        head += [names(rows[0].table)[name], "best"]
    if "other" in series:
        head.append(f"ours / {rows[0].table.other_name}")
    if "limit" in series:
        head.append(f"ours / {rows[0].table.limit_name}")
    lines = []
    for row in rows:
        line = [str(row.x)] + [row.distance] * apart
        for name in series:
            line += [number(row.median(name)), number(row.best(name))]
        if "other" in series:
            line.append(number(row.ratio()))
        if "limit" in series:
            line.append(number(row.ratio("limit")))
        lines.append(line)
    return head, lines


def aligned(lines):
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines)


def headline(results):
    """One table of all results: a line for each value."""
    rows = [row for found in results.values() for row in of_most_runs(found).values()]
    series = [name for name in columns(rows) if name != "limit"]
    lines = [["", rows[0].table.x, "unit", *series, "ours / other"]]
    for row in sorted(rows, key=lambda row: (row.table.title, row.x)):
        values = [number(row.median(name)) if row.values.get(name) else "-" for name in series]
        ratio = number(row.ratio()) if row.values.get("other") else "-"
        lines.append([row.table.title, str(row.x), row.table.unit, *values, ratio])
    return aligned(lines) + "\n"


def text(table, rows):
    head, lines = cells(rows)
    return f"{table.title} ({table.unit})\n{aligned([head] + lines)}\n"


def markdown(table, rows):
    head, lines = cells(rows)
    show = lambda line: "| " + " | ".join(line) + " |"
    rule = "|" + "---:|" * len(head)
    return "\n".join([f"**{table.title}** ({table.unit}), [plot](PLOTS/{table.name}.svg)", "", show(head), rule]
                     + [show(line) for line in lines]) + "\n"


def goals(results):
    """(what, wanted, reached?) for each goal whose table was measured."""
    titles = {table.name: table for table in TABLES}
    found = []
    for goal in GOALS:
        rows = of_most_runs(results.get(goal.table, []))
        row, base = rows.get(goal.x), rows.get(goal.base)
        if row is None:
            continue
        value, to = {
            "ratio": (row.ratio(), "of MPICH's" if titles[goal.table].group else "of the other library's"),
            "limit": (row.ratio("limit"), f"of the {titles[goal.table].limit_name}'s"),
            "plain": (row.median("ours"), titles[goal.table].unit),
            "beyond": (row.beyond("limit"), f"{titles[goal.table].unit} beyond the {titles[goal.table].limit_name}'s"),
            "own": (base and row.over(base), f"of ours at {goal.base}"),
        }[goal.value]
        if value is None:
            continue
        reached = value <= goal.bound if goal.sign == "<=" else value >= goal.bound
        found.append((f"{titles[goal.table].title}, {goal.x} {titles[goal.table].x}", f"{goal.sign} {goal.bound:g} {to}",
                      number(value), "yes" if reached else "NO"))
    return found


def goals_text(results):
    lines = goals(results)
    width = max((len(line[0]) for line in lines), default=0)
    return "".join(f"{what:<{width}}  wanted {wanted:<36} measured {value:>8}  {reached}\n"
                   for what, wanted, value, reached in lines)


def goals_markdown(results):
    lines = [f"| {what} | {wanted} | {value} | {reached} |" for what, wanted, value, reached in goals(results)]
    return "\n".join(["| what | wanted | measured | reached |", "|---|---|---:|---|"] + lines) + "\n"


def write_csv(folder, table, rows, facts):
    series = columns(rows)
    with open(folder / f"{table.name}.csv", "w", newline="") as out:
        for key, value in facts.items():
            out.write(f"# {key}: {value}\n")
        out.write(f"# what: {table.title}, {table.unit}; every run, and the median, which counts\n")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([table.x, "processors", "series", "median", "best", "runs"])
        for row in rows:
            for name in series:
                if row.values.get(name):
                    runs = " ".join(f"{value:.6g}" for value in row.values[name])
                    writer.writerow([row.x, row.distance, name, f"{row.median(name):.6g}", f"{row.best(name):.6g}", runs])


def drawn(table, rows, names_of=None):
    """The picture of a table, or None."""
    at = of_most_runs(rows)
    series = {name: [(x, at[x].median(name)) for x in sorted(at) if at[x].median(name)] for name in columns(rows)}
    return plot.svg(table.title, table.x, table.unit, series, dict(names(table), **(names_of or {})))


def write(folder, results, facts):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    parts = ["".join(f"- {key}: {value}\n" for key, value in facts.items()), goals_markdown(results)]
    for table in TABLES:
        rows = results.get(table.name)
        if not rows or not columns(rows):
            continue
        write_csv(folder, table, rows, facts)
        parts.append(markdown(table, rows))
        picture = drawn(table, rows)
        if picture:
            (folder / f"{table.name}.svg").write_text(picture)
    page = "\n".join(parts)
    (folder / "tables.md").write_text("# Results\n\n" + page.replace("PLOTS/", ""))
    return page


def write_page(path, page, plots, provider):
    """Replaces a provider's tables on a page of documentation; `plots` is the way from there to the pictures."""
    begin, end = marks(provider)
    old = pathlib.Path(path).read_text()
    before, rest = old.split(begin, 1)
    _, after = rest.split(end, 1)
    pathlib.Path(path).write_text(before + begin + "\n\n" + page.replace("PLOTS/", plots + "/") + "\n" + end + after)
