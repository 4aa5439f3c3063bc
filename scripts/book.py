#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What mdBook does not do by itself for the book of docs/book, as a preprocessor of it (a book goes in and comes out as
JSON):

* the manual pages of docs/man become chapters, by section; where there are none, the book is built without;
* {{#include FILE}} of a page outside docs/guide is resolved here, so that the links in it can be set right: those to
  pages that are in the book lead there, others become plain text;
* {{#performance tcp: TITLE}} is a table of docs/performance.md, {{#performance section: TITLE}} a section of it.

    book.py supports html     for mdBook
    book.py --chapters        prints which file is which chapter
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GUIDE, MAN = ROOT / "docs/guide", ROOT / "docs/man"
SECTIONS = {"1": "Manual pages: programs", "3": "Manual pages: calls", "7": "Manual pages: providers and concepts"}
WHOLE = re.compile(r"^\{\{#include (\S+\.md)\}\}\s*$", re.MULTILINE)
NUMBERS = re.compile(r"^\{\{#performance (\w+): (.*?)\}\}\s*$", re.MULTILINE)
# A link to another page, which is neither an image nor an external link; or code, which stays unchanged.
LINK = re.compile(r"(?<!!)\[((?:[^\[\]\n`]|\n(?!\n)|`[^`\n]+`)+)\]\((?!\w+://|mailto:)([^)\s]+)\)"
                  r"|^```.*?^```[^\n]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


class Wrong(Exception):
    """What is wrong with a page."""


def chapters():
    """The chapter that each file is, as a path in the book."""
    found = {path.resolve(): path.name for path in GUIDE.glob("*.md")}
    for chapter in GUIDE.glob("*.md"):
        text = chapter.read_text()
        whole = WHOLE.fullmatch(text)
        if whole:
            found[(chapter.parent / whole[1]).resolve()] = chapter.name
    found |= {path.resolve(): f"man/{path.name}" for path in MAN.glob("*.md")}
    return found


def relink(text, home, at, places):
    """The links of a file in the folder `home`, for the chapter `at`."""
    up = "../" * at.count("/")

    def link(match):
        words, target = match.groups()
        if target is None:
            return match[0]
        file, hash_, anchor = target.partition("#")
        if not file:
            return match[0]
        place = places.get((home / file).resolve())
        if place:
            return f"[{words}]({up}{place}{hash_}{anchor})"
        if not (home / file).exists():
            raise Wrong(f"{at}: a link to {target}, which is nowhere")
        return words

    return LINK.sub(link, text)


def performance(kind, title):
    """A piece of docs/performance.md, without links to plots."""
    text = (ROOT / "docs/performance.md").read_text()
    if kind == "section":
        found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        if not found:
            raise Wrong(f"docs/performance.md has no section {title!r}")
        return f"## {title}\n{found[1].rstrip()}"
    part = re.search(rf"<!-- {kind} tables:.*?-->(.*?)<!-- end of {kind} tables -->", text, re.DOTALL)
    table = part and re.search(rf"^\*\*{re.escape(title)}\*\* (\([^)]*\)).*\n\n((?:\|.*\n)+)", part[1], re.MULTILINE)
    if not table:
        raise Wrong(f"docs/performance.md has no table {title!r} of {kind}")
    facts = dict(re.findall(r"^- (commit|date|machine|other): (.*)$", part[1], re.MULTILINE))
    source = "; ".join(f"{name}: {facts[name]}" for name in ("commit", "date", "machine", "other") if name in facts)
    return f"**{title}** {table[1]}\n\n{table[2]}\n*{source}*\n"


def prepared(text, home, at, places):
    def whole(match):
        file = (home / match[1]).resolve()
        return relink(file.read_text(), file.parent, at, places)

    text = NUMBERS.sub(lambda match: performance(*match.groups()), text)
    return WHOLE.sub(whole, relink(text, home, at, places))


def manual(places):
    """The parts of the book that are manual pages."""
    items = []
    for section, title in SECTIONS.items():
        pages = sorted(MAN.glob(f"*.{section}.md"))
        if pages:
            items.append({"PartTitle": title})
        for page in pages:
            at = places[page.resolve()]
            items.append({"Chapter": {
                "name": page.name.removesuffix(f".{section}.md") + f"({section})",
                "content": prepared(page.read_text(), page.parent, at, places),
                "number": None, "sub_items": [], "path": at, "source_path": None, "parent_names": []}})
    return items


def every(items):
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            yield chapter
            yield from every(chapter["sub_items"])


def main():
    if sys.argv[1:2] == ["supports"]:
        return 0
    if sys.argv[1:] == ["--chapters"]:
        for file, place in sorted(chapters().items()):
            print(f"{file.relative_to(ROOT)} {place}")
        return 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    _, book = json.load(sys.stdin)
    items = book["items" if "items" in book else "sections"]
    places = chapters()
    for chapter in every(items):
        if chapter.get("path"):
            chapter["content"] = prepared(chapter["content"], GUIDE, chapter["path"], places)
    items += manual(places)
    json.dump(book, sys.stdout)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Wrong as wrong:
        sys.exit(f"book.py: {wrong}")
