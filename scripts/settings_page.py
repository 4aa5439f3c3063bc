#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""docs/guide/settings.md and docs/guide/settings-words.md, from what `fi_info -e` of a library says.

    settings_page.py FOLDER --write     FOLDER has fi_info and libfabric.so.1
    settings_page.py FOLDER --check     fails if a page is another than it would write

The second page has a heading for each word in names of variables. The search of the book takes the name of a variable
as one word, so `timeout` finds FI_TCP_CONN_TIMEOUT only by such a heading.
"""

import difflib
import os
import re
import subprocess
import sys
from pathlib import Path

GUIDE = Path(__file__).resolve().parent.parent / "docs/guide"
ENTRY = re.compile(r"^# (FI_\w+): (.*)\n# (.*)\n", re.MULTILINE)
DEFAULT = re.compile(r" \(default: (.*)\)$")
IGNORED = "accepted and ignored: "
GROUPS = (("FI_TCP_", "tcp"), ("FI_SHM_", "shm and sm2"), ("FI_UDP_", "udp"), ("FI_VERBS_", "verbs"), ("FI_SOCKETS_", "sockets"),
          ("FI_OFI_RXM_", "ofi_rxm"), ("FI_OFI_RXD_", "ofi_rxd"), ("FI_OFI_HOOK_", "Hooks"), ("FI_", "All providers"))
INTRODUCTION = """\
# Settings

<!-- Written by scripts/settings_page.py from what `fi_info -e` says; `make check-book` compares. -->

Settings are environment variables, read once, when a process first calls the library. `fi_info -e` lists them, with the
values that are set; `fi_info -g WORD` those whose name has that word. An unknown variable, or a value that is
not valid, is a line of the log at level warn. They can also stand in a file of the system, `libfabric.conf`;
`FI_PREFER_SYSCONFIG` says which wins.

A switch is `1`, `on`, `true`, `yes`, or `0`, `off`, `false`, `no`.
"""
WORDS_INTRODUCTION = """\
# Settings by word

<!-- Written by scripts/settings_page.py from what `fi_info -e` says; `make check-book` compares. -->

The words in names of variables, and the variables that contain them. [Settings](settings.md) describes each variable.
`fi_info -g WORD` prints those with a word and their current values.
"""
# Parts of names that many variables share and that say nothing about the subject.
NO_SUBJECT = {"FI", "OFI", "USE", "TO", "ON", "MAX", "MIN"}


def unit_of(kind, text):
    """From the words of the help, which name the unit of every number."""
    if kind.startswith("Boolean"):
        return "switch"
    if kind == "String":
        return "text"
    words = text.lower()
    units = (("millisecond", "ms"), ("microsecond", "us"), ("second", "s"), ("byte", "bytes"),
             ("largest message", "bytes"), ("longest message", "bytes"),
             ("largest unexpected tagged message", "bytes"), ("permission", "mode"), ("port", "port"))
    for word, unit in units:
        if re.search(rf"\b{word}s?\b", words):
            return unit
    return "number"


def entries_of(folder):
    env = {name: value for name, value in os.environ.items() if not name.startswith("FI_")}
    said = subprocess.run([folder / "fi_info", "-e"], env={**env, "LD_LIBRARY_PATH": str(folder)}, capture_output=True,
                          text=True, check=True).stdout
    entries = ENTRY.findall(said)
    if len(entries) < 50:
        sys.exit(f"settings_page.py: fi_info -e has {len(entries)} entries")
    return entries


def words_page(entries):
    variables = {}
    for name, _, text in entries:
        for word in set(name.split("_")) - NO_SUBJECT:
            variables.setdefault(word.lower(), []).append((name, IGNORED in text))
    text = WORDS_INTRODUCTION
    for word in sorted(variables):
        text += f"\n## `{word}`\n\n"
        text += "".join(f"- `{name}`{' (without effect)' if ignored else ''}\n" for name, ignored in variables[word])
    return text


def settings_page(entries):
    groups = {title: [] for _, title in GROUPS}
    ignored = []
    for name, kind, text in entries:
        title = next(title for prefix, title in GROUPS if name.startswith(prefix))
        default = DEFAULT.search(text)
        text = DEFAULT.sub("", text)
        text = re.sub(r"^(tcp|shm|udp|sockets|ofi_rxm|ofi_rxd|ofi_hook_\w+): ", "", text)
        cells = [f"`{name}`", unit_of(kind, text), default[1] if default else "", text.removeprefix(IGNORED)]
        row = "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
        (ignored if text.startswith(IGNORED) else groups[title]).append(row)
    head = "\n| Variable | Unit | Default | What it does |\n|---|---|---|---|\n"
    order = ["All providers", *(title for _, title in GROUPS[:-1])]
    text = INTRODUCTION + "".join(f"\n## {title}\n{head}{''.join(groups[title])}" for title in order if groups[title])
    return text + "\n## Known, without effect\n\nSet for libfabric, they do no harm here.\n" + head + "".join(ignored)


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in ("--write", "--check"):
        sys.exit(__doc__)
    entries = entries_of(Path(sys.argv[1]).resolve())
    for path, text in ((GUIDE / "settings.md", settings_page(entries)),
                       (GUIDE / "settings-words.md", words_page(entries))):
        if sys.argv[2] == "--write":
            path.write_text(text)
            continue
        before = path.read_text() if path.exists() else ""
        if before != text:
            lines = difflib.unified_diff(before.splitlines(True), text.splitlines(True), str(path), "fi_info -e")
            sys.stdout.writelines(lines)
            sys.exit("a page of settings is not what fi_info -e says: scripts/settings_page.py FOLDER --write")
    print(f"settings: {len(entries)} variables")


main()
