#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""notices.py: whether NOTICES has the crates that Cargo.lock has us link, and a text of a licence for each.

`make notices` writes the file with cargo-about, which takes minutes to install; this needs cargo alone.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
RULE = "-" * 120


def targets():
    """Those of about.toml, so that both look at the same crates."""
    line = re.search(r"^targets = \[(.*)\]", (ROOT / "about.toml").read_text(), re.M)
    return re.findall(r'"([^"]+)"', line[1])


def linked(target):
    """`name version` of each crate that is linked on that target: neither the build's nor the tests'."""
    command = [CARGO, "metadata", "--locked", "--format-version", "1", "--filter-platform", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"SKIPPED: {' '.join(command)}: {done.stderr.strip()}" if "offline" in done.stderr else done.stderr)
    data = json.loads(done.stdout)
    nodes = {node["id"]: node for node in data["resolve"]["nodes"]}
    own = set(data["workspace_members"])
    seen, left = set(), list(own)
    while left:
        this = left.pop()
        if this in seen:
            continue
        seen.add(this)
        left += [dep["pkg"] for dep in nodes[this]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
    return {f"{package['name']} {package['version']}" for package in data["packages"] if package["id"] in seen - own}


def main():
    wanted = set().union(*map(linked, targets()))
    head, *texts = (ROOT / "NOTICES").read_text().split(RULE + "\n")
    listed = {line[2:].split(":")[0] for line in head.splitlines() if line.startswith("* ")}
    covered = set()
    for text in texts:
        crates, body = text.split("\n", 1)
        if re.search(r"copyright|permission", body, re.I) and len(body.split()) > 50:
            covered |= set(crates.split(", for ", 1)[1].split(", "))
    faults = [f"{crate} is linked and not in NOTICES" for crate in sorted(wanted - listed)]
    faults += [f"{crate} is in NOTICES and not linked" for crate in sorted(listed - wanted)]
    faults += [f"NOTICES has no text of a licence for {crate}" for crate in sorted(listed - covered)]
    if faults:
        sys.exit("\n".join(faults) + "\nrun `make notices`")
    print(f"NOTICES has the {len(wanted)} crates that are linked")


main()
