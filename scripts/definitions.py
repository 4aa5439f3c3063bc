#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The C definitions in docs/man, which come from the headers that build.rs writes from src/abi.

    definitions.py BUILT --write    BUILT has the headers of the newest release
    definitions.py BUILT --check    fails if a page differs, or if an identifier of the headers is on no page

A page names definitions in a marker, `<!-- definitions: fi_cq_attr FI_PROTO_* -->`; the text up to `<!-- end -->` is
generated. A name is a struct, an enumeration, a type or a macro. `*` stands for any text in names of macros, and
`@fi_errno.h` for all macros of that header. A member or macro that the default release lacks is marked with the newest
release.
"""
import fnmatch
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs/man"
RELEASES = [line.split("\t") for line in (ROOT / "src/abi/releases.tsv").read_text().splitlines()
            if line and line[0].isdigit()]
NEWEST = RELEASES[-1][1]
MARKED = re.compile(r"(<!-- definitions: (.*?)\s-->\n).*?(<!-- end -->)", re.S)
COMMENT = re.compile(r"/\*.*?\*/", re.S)
WIDTH = 78

# Public identifiers that need no page: a pattern, and the reason.
INTERNAL = {
    r"(FI|FABRIC)(_\w+)?_H": "guards of the headers",
    r"FI_DEPRECATED_(FUNC|FIELD)|FI_FORMAT_PRINTF|EXTERNALLY_VISIBLE|FI_XPU_FUNC": "attributes for the compiler",
    r"FI_CHECK_OP|FI_MR_MODE_COMPAT_": "used by the headers only",
    r"fi_ops(_(?!\w*_(owner|peer)$|mem_)\w+)?": "tables of functions, which inline functions of the headers call",
    r"container_of|count_of|FI_PATH_MAX|FI_VERSION_MAX|fi_mr_mode": "removed in release 2.0, FI_REMOVED_NAMES restores them",
}


def headers(folder):
    return {path.name: path.read_text() for path in sorted(Path(folder).rglob("*.h"))}


def identifiers(text):
    """The names that a header defines."""
    text = COMMENT.sub(" ", text)
    names = set(re.findall(r"^\s*#\s*define (\w+)", text, re.M))
    names |= set(re.findall(r"\b(?:struct|enum|union) (\w+)\s*\{", text))
    names |= set(re.findall(r"^typedef[^;{]*?\(?\*?(\w+)(?:\)\([^;]*\))?;", text, re.M))
    for members in re.findall(r"\benum \w+\s*\{(.*?)\}", text, re.S):
        names |= set(re.findall(r"^\s*(\w+)", members, re.M))
    return names | set(re.findall(r"\b(fi_\w+)\s*\(", text))


def internal(name):
    return any(re.fullmatch(pattern, name) for pattern in INTERNAL)


def body(text, start):
    """The text from `start` to the semicolon that ends the definition."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if text[at] == ";" and depth == 0:
            return text[start:at + 1]
    raise ValueError(text[start:start + 80])


def comment_before(text, start):
    """The comment that ends directly before `start`, or nothing."""
    found = re.search(r"/\*\*?(?:(?!\*/).)*\*/\n\Z", text[:start], re.S)
    return found[0] if found else ""


class Definitions:
    """All definitions of a set of headers: the name, and its comment and text."""

    def __init__(self, folder):
        self.types, self.macros, self.names = {}, {}, {}
        for file, text in headers(folder).items():
            for name in identifiers(text):
                self.names.setdefault(name, file)
            for found in re.finditer(r"^(?:struct|enum|union) (\w+)\s*\{", text, re.M):
                self.types[found[1]] = comment_before(text, found.start()), body(text, found.start())
            for found in re.finditer(r"^typedef [^;{]*?(\w+)(?:\)\([^;]*\))?;", text, re.M):
                self.types[found[1]] = comment_before(text, found.start()), found[0]
            for found in re.finditer(r"^#define (\w+)(?:\([^)\n]*\))?(?:[^\n]*\\\n)*[^\n]*$", text, re.M):
                self.macros[found[1]] = comment_before(text, found.start()), found[0]

    def find(self, pattern):
        """Pairs of name and definition for one word of a marker."""
        if pattern in self.types:
            return [(pattern, self.types[pattern])]
        found = [(name, value) for name, value in self.macros.items()
                 if (fnmatch.fnmatchcase(name, pattern) or pattern == "@" + self.names[name])
                 and (name == pattern or not internal(name))]
        if not found:
            raise ValueError(f"the headers do not define {pattern}")
        return found


def rewrapped(comment, indent):
    """A comment of at most WIDTH columns."""
    text = " ".join(re.sub(r"^\s*/\*\*?|\*/\s*$|^\s*\*(?!/)", " ", comment, flags=re.M).split())
    # The end of the comment stays with its last word.
    return textwrap.fill(f"/* {text}\0*/", WIDTH, initial_indent=indent, subsequent_indent=indent + " * ",
                         break_on_hyphens=False, break_long_words=False).replace("\0", " ") + "\n"


def without_reference(comment, page):
    """A comment without references at its end to the page itself."""
    return re.sub(rf"\s*\b{re.escape(page)}(?=\s*\*/)", "", comment)


def lines_of(text):
    """The lines of a definition without its comments."""
    return {line.strip() for line in COMMENT.sub("", text).splitlines() if line.strip()}


def laid_out(name, definition, default, page):
    """C text of one definition."""
    comment, text = definition
    text = re.sub(r"^([ \t]*)/\*.*?\*/\n", lambda found: rewrapped(found[0], found[1]), text, flags=re.M | re.S)
    known = default.types.get(name) or default.macros.get(name)
    since = f" /* since {NEWEST} */"
    if known is None:
        text = text.replace("{\n", "{" + since + "\n", 1) if "{\n" in text else text + since
    elif text.count("\n"):
        old, depth, result = lines_of(known[1]), 0, []
        for line in text.split("\n"):
            new = depth == 1 and line.rstrip().endswith((";", ",")) and "/*" not in line and line.strip() not in old
            result.append(line + since if new and not line.strip().startswith("*") else line)
            depth += line.count("{") - line.count("}") if "*" not in line[:len(line) - len(line.lstrip()) + 2] else 0
        text = "\n".join(result)
    head = rewrapped(without_reference(comment, page), "") if comment else ""
    return head, text


def with_definitions(text, page, newest, default):
    """The text of a page with its definitions as the headers have them."""
    def block(marker):
        result, before = "", None
        for pattern in marker[2].split():
            for name, definition in newest.find(pattern):
                head, code = laid_out(name, definition, default, page)
                macro = code.startswith("#define")
                # Related macros stand together; a comment or a type begins a new group.
                gap = before is not None and (head or not macro or not before)
                result += ("\n" if gap else "") + head + code + "\n"
                before = macro
        return f"{marker[1]}```c\n{result}```\n{marker[3]}"

    return MARKED.sub(block, text)


def on_no_page(newest, texts):
    """Public identifiers without a page, and entries of INTERNAL without an identifier."""
    words = set().union(*(re.findall(r"\w+", text) for text in texts))
    for name, file in sorted(newest.names.items()):
        if name not in words and not internal(name):
            yield f"{name} of {file} is on no page"
    for pattern in INTERNAL:
        if not any(re.fullmatch(pattern, name) for name in newest.names):
            yield f"INTERNAL of scripts/definitions.py: no header defines {pattern}"


def main():
    if len(sys.argv) != 3 or sys.argv[2] not in ("--write", "--check"):
        sys.exit(__doc__)
    newest = Definitions(Path(sys.argv[1]) / f"include-{NEWEST}")
    default = Definitions(ROOT / "include")
    wrong, texts = [], []
    for path in sorted(PAGES.glob("*.[137].md")):
        text = path.read_text()
        page = "{0}({1})".format(*path.name.split(".")[:2])
        try:
            made = with_definitions(text, page, newest, default)
        except ValueError as why:
            sys.exit(f"{path.name}: {why}")
        texts.append(made)
        if made != text and sys.argv[2] == "--write":
            path.write_text(made)
        elif made != text:
            wrong.append(f"{path.name}: definitions are out of date: make man-definitions")
    if sys.argv[2] == "--check":
        wrong += on_no_page(newest, texts)
        print("\n".join([*wrong, f"definitions: {len(newest.names)} identifiers, {len(wrong)} problems"]))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
