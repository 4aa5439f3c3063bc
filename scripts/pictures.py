#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The pictures in docs/man, drawn as text so that man(1) shows them.

    pictures.py --write    draws them
    pictures.py --check    fails if one is not what it would draw

A page describes a picture in a marker; the text up to `<!-- end -->` is drawn. Kinds:

    <!-- picture: tree          <!-- picture: sequence                     <!-- picture: stack
    fabric: a network           program A | library A | library B          program
      domain: an interface      program A > library A: fi_send             tcp | shm
        endpoint: data          library A >> library B: message            kernel
    -->                         library B: the receive matches             -->
                                -->

In a sequence `>` is a call within a process and `>>` a message between processes; a line without either is a note at a
column. Each line of a stack is a row of boxes.
"""
import re
import sys
from pathlib import Path

PAGES = Path(__file__).resolve().parent.parent / "docs/man"
MARKED = re.compile(r"(<!-- picture: (\w+)\n(.*?)-->\n).*?(<!-- end -->)", re.S)
LIMIT = 78


def tree(lines):
    """Objects below those that they were opened on, two spaces deeper; a text behind the colon explains one."""
    nodes = [((len(line) - len(line.lstrip())) // 2, *(part.strip() for part in line.partition(":")[::2]))
             for line in lines]
    drawn = []
    for at, (depth, name, _) in enumerate(nodes):
        def goes_on(level):
            """Whether a later node of this level has the same parent."""
            for deeper, *_ in nodes[at + 1:]:
                if deeper <= level:
                    return deeper == level
            return False
        stem = "".join("|   " if goes_on(level) else "    " for level in range(1, depth))
        drawn.append(stem + ("+-- " if depth else "") + name)
    width = max(map(len, drawn)) + 3
    return [f"{line:{width}}{text}".rstrip() for line, (_, _, text) in zip(drawn, nodes)]


def sequence(lines):
    """Columns, and arrows between them from top to bottom."""
    names = [name.strip() for name in lines[0].split("|")]
    steps = []
    for line in lines[1:]:
        found = re.fullmatch(r"(.*?) (>>?) (.*?): (.*)", line) or re.fullmatch(r"(.*?)()(): (.*)", line)
        steps.append((names.index(found[1]), names.index(found[3]) if found[2] else None, found[2], found[4]))
    gaps = [max(len(names[i]) // 2 + len(names[i + 1]) // 2 + 3, 8) for i in range(len(names) - 1)]
    for start, end, kind, text in steps:
        if kind and abs(start - end) == 1:
            gaps[min(start, end)] = max(gaps[min(start, end)], len(text) + 8)
        if not kind and start == len(names) - 1:
            gaps[-1] = max(gaps[-1], len(text) + 5)
    at = [len(names[0]) // 2]
    for gap in gaps:
        at.append(at[-1] + gap)
    drawn = ["".join(pad(names, at)).rstrip()]
    for start, end, kind, text in steps:
        row = [" "] * (at[-1] + len(names[-1]) + 60)
        for column in at:
            row[column] = "|"
        if not kind:
            # A note is right of its column, and left of the last one.
            begin = at[start] - len(text) - 3 if start == len(names) - 1 else at[start] + 2
            row[begin:begin + len(text) + 2] = f"({text})"
        else:
            left, right = sorted((at[start], at[end]))
            line = "=" if kind == ">>" else "-"
            body = f" {text} ".center(right - left - 1, line)
            body = body[:-1] + ">" if end > start else "<" + body[1:]
            row[left + 1:right] = body
        drawn.append("".join(row).rstrip())
    return drawn


def pad(names, at):
    """The names, each centred at its column."""
    end = 0
    for name, column in zip(names, at):
        begin = max(column - len(name) // 2, end + (1 if end else 0))
        yield " " * (begin - end) + name
        end = begin + len(name)


def stack(lines):
    """Rows of boxes, all rows of one width. Boxes of consecutive rows with as many boxes stand under each other."""
    rows = [[cell.strip() for cell in line.split("|")] for line in lines]
    needs = [[len(cell) for cell in row] for row in rows]
    for above, row in zip(needs, needs[1:]):
        if len(above) == len(row):
            row[:] = map(max, above, row)
    for row, below in reversed(list(zip(needs, needs[1:]))):
        if len(below) == len(row):
            row[:] = below
    width = max(sum(row) + 3 * len(row) + 1 for row in needs)
    drawn, edges = [], set()
    for row, need in [*zip(rows, needs), (None, None)]:
        before, edges, text = edges, set(), ""
        if row:
            spare = width - sum(need) - 3 * len(row) - 1
            for index, cell in enumerate(row):
                more = spare // len(row) + (index < spare % len(row))
                edges.add(len(text))
                text += f"| {cell:{need[index] + more}} "
            edges.add(len(text))
            text += "|"
        drawn.append("".join("+" if at in before | edges else "-" for at in range(width)))
        drawn += [text] if row else []
    return drawn


def picture(kind, text):
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    drawn = {"tree": tree, "sequence": sequence, "stack": stack}[kind](lines)
    if max(map(len, drawn)) > LIMIT:
        raise ValueError(f"a picture is {max(map(len, drawn))} columns wide: {max(drawn, key=len)}")
    return "```text\n" + "\n".join(drawn) + "\n```\n"


def main():
    if sys.argv[1:] not in (["--write"], ["--check"]):
        sys.exit(__doc__)
    wrong = count = 0
    for path in sorted(PAGES.glob("*.[137].md")):
        text = path.read_text()
        made = MARKED.sub(lambda found: found[1] + picture(found[2], found[3]) + found[4], text)
        count += len(MARKED.findall(text))
        if made != text and sys.argv[1] == "--write":
            path.write_text(made)
        elif made != text:
            print(f"{path.name}: a picture is out of date: scripts/pictures.py --write")
            wrong += 1
    print(f"{count} pictures, {wrong} pages out of date")
    sys.exit(1 if wrong else 0)


main()
