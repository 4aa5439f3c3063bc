# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Bring what fi_info printed into a form in which two libraries can be compared line by line.

usage: fi_info_entries.py PROVIDER... < output

Keeps the entries of the named providers in their order and drops what differs between releases by design: version
numbers of library and provider. Entries of link-local networks come last, as they do in ours. Lists of variables (-e, -g) are reduced to name and type, for the help texts are each
project's own.
"""

import re
import sys

VERSION = re.compile(r"^\s*(version|prov_version): \d+\.\d+$")
PROVIDER = re.compile(r"^(?:provider|\s*prov_name): (\S+)$", re.MULTILINE)
VARIABLE = re.compile(r"^# (FI_[A-Z0-9_]+): (.*)$", re.MULTILINE)


def entries(text):
    """Blocks of the short form start with `provider:`, those of the long form end with a line `---`."""
    if text.startswith("---\nfi_info:") or text.startswith("fi_info:"):
        return [block for block in re.split(r"^---\n", text, flags=re.MULTILINE) if block.strip()]
    return [block for block in re.split(r"^(?=provider: )", text, flags=re.MULTILINE) if block.strip()]


def main():
    wanted, text = set(sys.argv[1:]), sys.stdin.read()
    variables = VARIABLE.findall(text)
    if variables:
        prefixes = tuple(f"FI_{name.upper()}_" for name in wanted)
        for name, kind in sorted(variables):
            if name.startswith(prefixes):
                print(name, kind)
        return
    for entry in sorted(entries(text), key=lambda entry: "fe80::" in entry):
        names = PROVIDER.findall(entry)
        if names and names[0] in wanted:
            print("\n".join(line for line in entry.splitlines() if not VERSION.match(line)), end="\n\n")


if __name__ == "__main__":
    main()
