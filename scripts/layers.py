#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""layers.py [--write]: signs of a line in the wrong place, in every .rs file of src.

    columns   lines over 120 columns, comments too
    libc      `libc::` outside sys, and outside abi, whose structs have its types
    unsafe    `unsafe` outside the layers and files that are trusted with it
    extern-c  `extern "C"` outside ffi, exports and abi
    negative  a negative error number outside ffi and exports
    provider  a provider's folder named in engine, or in another provider
    layer     a layer that stands to the left of the file's own: CONTRIBUTING.md, "Where a line goes"
    name      a file called util, misc or common

scripts/allow/layers.txt has what is still there: sign, file, count. More than that fails; less is said, and `--write`
takes it over. The list is to become shorter: a new row needs a reason in its commit.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALLOWED = ROOT / "scripts/allow/layers.txt"
COLUMNS = 120
# All layers may use these; they use none.
BESIDE = ("sys", "sync", "hmem")
# The layers and files that may hold unsafe code; CONTRIBUTING.md, "Unsafe".
UNSAFE = ("abi/", "ffi/", "exports/", "sys/", "sync/", "hmem/", "base/iovec.rs", "base/iovec/", "prov/shm/region.rs", "bin/calls/")
LAYERS = ["abi", "base", "ffi", "engine", "prov", "registry", "exports"]
PROVIDERS = [folder.name for folder in sorted((ROOT / "src/prov").iterdir()) if folder.is_dir()]

SIGNS = {
    "libc": (re.compile(r"\blibc::"), lambda path: not path.startswith(("sys/", "abi/"))),
    "unsafe": (re.compile(r"\bunsafe\b"), lambda path: not path.startswith(UNSAFE)),
    "extern-c": (re.compile(r'\bextern "C"'), lambda path: not path.startswith(("ffi/", "exports/", "abi/"))),
    "negative": (re.compile(r"\.negative\(\)|-\s*(?:abi::|libc::)?(?:FI_)?E[A-Z]{2,}\b"), lambda path: not path.startswith(("ffi/", "exports/"))),
}


def upward(path: str, code: str) -> str | None:
    """The sign, if this line of that file names what its layer must not know."""
    layer, *rest = path.split("/")
    for named, provider in re.findall(r"\bcrate::(\w+)(?:::(\w+))?", code):
        if named == layer == "prov" and provider in PROVIDERS and rest[0] in PROVIDERS and provider != rest[0]:
            return "provider"
        if layer == "engine" and named == "prov":
            return "provider"
        if named in LAYERS and (layer in BESIDE or layer in LAYERS and LAYERS.index(named) > LAYERS.index(layer)):
            return "layer"
    return None


def found() -> dict[tuple[str, str], list[int]]:
    """The lines of each sign in each file."""
    signs: dict[tuple[str, str], list[int]] = {}
    for file in sorted((ROOT / "src").rglob("*.rs")):
        path = file.relative_to(ROOT / "src").as_posix()
        if file.stem in ("util", "utils", "misc", "common"):
            signs.setdefault(("name", path), []).append(1)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if len(line) > COLUMNS:
                signs.setdefault(("columns", path), []).append(number)
            code = line.split("//")[0]
            for sign, (pattern, applies) in SIGNS.items():
                if applies(path) and pattern.search(code):
                    signs.setdefault((sign, path), []).append(number)
            if sign := upward(path, code):
                signs.setdefault((sign, path), []).append(number)
    return signs


def allowed() -> dict[tuple[str, str], int]:
    rows = (line.split() for line in ALLOWED.read_text().splitlines() if line and not line.startswith("#"))
    return {(sign, path): int(count) for sign, path, count in rows}


signs = found()
if "--write" in sys.argv[1:]:
    ALLOWED.parent.mkdir(exist_ok=True)
    rows = [f"{sign} {path} {len(lines)}\n" for (sign, path), lines in sorted(signs.items())]
    ALLOWED.write_text("# Written by scripts/layers.py --write: sign, file, how many lines. To become shorter.\n" + "".join(rows))
budget, faults = allowed(), 0
for key, lines in sorted(signs.items()):
    if len(lines) > budget.get(key, 0):
        sign, path = key
        print(f"src/{path}: {sign}: {len(lines)} lines, allowed {budget.get(key, 0)}: {', '.join(map(str, lines))}")
        faults += 1
for key, count in sorted(budget.items()):
    if len(signs.get(key, [])) < count:
        print(f"better than scripts/allow/layers.txt says: {' '.join(key)}: {len(signs.get(key, []))}, not {count}")
print(f"{sum(map(len, signs.values()))} lines in {len(signs)} rows of the list, {faults} faults")
sys.exit(1 if faults else 0)
