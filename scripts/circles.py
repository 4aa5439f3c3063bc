#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""circles.py [--write]: files of src that name each other, directly or through others.

A path that begins with crate, super or self, or with a module that the file declares, is followed to the file of its
longest part that is a module, through `pub use`. A module and the files of its own folder are one noun in several files: between a file
and those below it nothing counts.

scripts/allow/circles.txt has the circles that are still there, one a line. A circle within one of those passes, so
taking a file out of one needs no change of the list; `--write` takes it over. The list is to become shorter.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
ALLOWED = ROOT / "scripts/allow/circles.txt"
Module = tuple[str, ...]


def module_of(file: pathlib.Path) -> Module:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return () if parts == ("lib",) else parts[:-1] if parts[-1] == "mod" else parts


def leaves(tree: str) -> list[list[str]]:
    """The paths of a use tree: `a::{b, c::d}` has a::b and a::c::d."""
    depth = start = 0
    parts = []
    for at, char in enumerate(tree + ","):
        depth += (char == "{") - (char == "}")
        if char == "," and depth == 0:
            parts.append(tree[start:at].strip())
            start = at + 1
    paths = []
    for part in filter(None, parts):
        head, brace, rest = part.partition("{")
        names = [name.strip() for name in head.split(" as ")[0].split("::") if name.strip()]
        paths += [names + leaf for leaf in leaves(rest.rsplit("}", 1)[0])] if brace else [names]
    return paths


FILES = {module_of(file): file for file in sorted(SOURCE.rglob("*.rs")) if "bin" not in file.relative_to(SOURCE).parts}


def parsed(text: str) -> tuple[list[list[str]], list[list[str]], list[list[str]]]:
    """The paths that a file imports, those that it hands on (`pub use`), and those that it names elsewhere."""
    text = re.sub(r"//[^\n]*|\"(?:\\.|[^\"\\])*\"", "", text)
    uses = re.findall(r"(\bpub(?:\([^)]*\))?\s+)?\buse\s+([^;]+);", text)
    imported = [leaf for _, tree in uses for leaf in leaves(tree)]
    handed_on = [leaf for public, tree in uses if public for leaf in leaves(tree)]
    rest = re.sub(r"\buse\s+[^;]+;", "", text)
    return imported, handed_on, [path.split("::") for path in re.findall(r"\b(?:crate|super|self)(?:::\w+)+", rest)]


PARSED = {module: parsed(file.read_text(encoding="utf-8")) for module, file in FILES.items()}


def absolute(module: Module, path: list[str]) -> Module | None:
    """The path from the root, if it leads into this package."""
    base = list(module)
    if path[0] == "crate":
        return tuple(path[1:])
    if path[0] not in ("super", "self"):
        return tuple(base + path) if tuple(base + path[:1]) in FILES else None
    while path and path[0] in ("super", "self"):
        base, path = (base[:-1] if path[0] == "super" else base), path[1:]
    return tuple(base + path)


def home(full: Module, depth: int = 4) -> Module:
    """The module whose file has what this path names: through what modules hand on, such as base::Error."""
    module = full
    while module not in FILES:
        module = module[:-1]
    for path in PARSED[module][1] if depth and module != full else []:
        target = absolute(module, path)
        if path[-1] == full[len(module)] and target and target != full:
            return home(target, depth - 1)
    return module


def named(module: Module) -> set[Module]:
    """The modules that the file of this one names."""
    imported, _, elsewhere = PARSED[module]
    paths = (absolute(module, path) for path in imported + elsewhere)
    return {home(path) for path in paths if path is not None}


def related(one: Module, other: Module) -> bool:
    """One is the other, or lies below it; the root names all layers and is named for its macros."""
    short = min(len(one), len(other))
    return one[:short] == other[:short]


def components(graph: dict[Module, set[Module]]) -> list[list[Module]]:
    """Strongly connected components of more than one module (Tarjan, without recursion)."""
    index, low, stack, on, out = {}, {}, [], set(), []
    for root in graph:
        work = [(root, iter(sorted(graph[root])))] if root not in index else []
        while work:
            node, edges = work[-1]
            if node not in index:
                index[node] = low[node] = len(index)
                stack.append(node)
                on.add(node)
            for to in edges:
                if to not in index:
                    work.append((to, iter(sorted(graph[to]))))
                    break
                if to in on:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == index[node]:
                    part = []
                    while not part or part[-1] != node:
                        part.append(stack.pop())
                        on.discard(part[-1])
                    if len(part) > 1:
                        out.append(sorted(part))
    return sorted(out)


def name(module: Module) -> str:
    return FILES[module].relative_to(SOURCE).as_posix()


graph = {module: {to for to in named(module) if not related(module, to)} for module in FILES}
circles = [[name(module) for module in circle] for circle in components(graph)]
if "--write" in sys.argv[1:]:
    head = "# Written by scripts/circles.py --write: files that name each other, one circle a line. To become shorter.\n"
    ALLOWED.write_text(head + "".join(" ".join(circle) + "\n" for circle in circles))
known = [set(line.split()) for line in ALLOWED.read_text().splitlines() if line and not line.startswith("#")]
faults = 0
for circle in circles:
    folders = {file.rsplit("/", 1)[0] for file in circle}
    new = not any(set(circle) <= allowed for allowed in known)
    faults += new
    print(f"{'NEW' if new else 'known'}: {len(circle)} files in {len(folders)} folders: {' '.join(circle)}")
    for module in [module for module in graph if new and name(module) in circle]:
        print(f"    {name(module)} names {', '.join(name(to) for to in sorted(graph[module]) if name(to) in circle)}")
print(f"{len(circles)} circles, {faults} of them new")
sys.exit(1 if faults else 0)
