#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""man.py BUILT PAGES [--write | PAGE...]: docs/man agrees with the headers, the library in BUILT and itself.

PAGES is where scripts/man.sh put what it rendered. Of each page: mandoc warns of nothing; links lead to pages that are
there; prototypes of a SYNOPSIS are those of the headers; the program of an EXAMPLE compiles without a warning, runs,
and prints what the page says. Of all together: every function that the library exports and a header declares is in NAME
and SYNOPSIS of exactly one page of section 3; every option of a program is in its page; every variable is one that
`fi_info -e` knows, and tables of settings are what that prints; --write puts them into the pages. Names of pages narrow
it to those. Exit code 77: a tool is missing.
"""
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOURCES = os.path.join(ROOT, "docs", "man")
with open(os.path.join(ROOT, "src", "abi", "releases.tsv"), encoding="utf-8") as table:
    NEWEST = table.read().splitlines()[-1].split("\t")[1]
# The headers of the newest release contain everything that pages describe.
INCLUDE = os.path.abspath(os.path.join(*sys.argv[1:2], f"include-{NEWEST}"))
KINDS = {"Boolean": "yes or no", "Integer": "number", "String": "text", "size_t": "size"}
OWNED = ("FI_TCP_", "FI_SHM_", "FI_UDP_", "FI_VERBS_", "FI_SOCKETS_", "FI_OFI_", "FI_HOOK", "FI_PERF_", "FI_HMEM")
SECONDS = 60 * int(os.environ.get("PATIENCE", "1"))
CC = os.environ.get("CC", "cc")
HEADINGS = {"1": ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLE", "SEE ALSO"],
            "3": ["NAME", "SYNOPSIS", "DESCRIPTION", "RETURN VALUE", "ERRORS", "NOTES", "EXAMPLE", "SEE ALSO"],
            "7": ["NAME", "DESCRIPTION", "SEE ALSO"]}
LOG_CONSTANTS = set()
for name in ["providers/fi_log.h", "fi_ext.h"]:
    with open(os.path.join(INCLUDE, "rdma", name), encoding="utf-8") as header:
        LOG_CONSTANTS |= set(re.findall(r"\bFI_LOG_\w+", header.read()))
SETTING = re.compile(r"\bFI_(?:TCP|SHM|UDP|SOCKETS|OFI_RXM|OFI_RXD|LOG|PROVIDER)_[A-Z0-9_]+\b")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.M | re.S)
PROTOTYPE = re.compile(r"\b(fi_\w+)\(")


class Page:
    def __init__(self, name):
        self.name = name
        self.section = name.rsplit(".", 1)[1]
        self.tool = name.rsplit(".", 1)[0]
        with open(os.path.join(SOURCES, name + ".md"), encoding="utf-8") as file:
            self.text = file.read()
        self.parts = {}
        prose = FENCE.sub(lambda fence: "\0" * len(fence[0]), self.text)
        starts = [(found.start(), found.end(), found[1]) for found in re.finditer(r"^## (.*)$", prose, flags=re.M)]
        for index, (_, end, title) in enumerate(starts):
            stop = starts[index + 1][0] if index + 1 < len(starts) else len(prose)
            self.parts[title] = self.text[end:stop]
        self.prose = prose

    def fences(self, part, language):
        return [text for kind, text in FENCE.findall(self.parts.get(part, "")) if kind == language]

    def names(self):
        return [name.strip() for name in re.split(r"\s-\s", self.parts.get("NAME", ""))[0].split(",")]


def run(command, **more):
    """With nothing of the caller's that changes what the library does."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith("FI_")}
    more["env"] = {**bare, **more.get("env", {})}
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, **more)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 124, "", f"did not end within {SECONDS} s")


def exported(built):
    """Functions that the library exports and a header of the newest release declares."""
    symbols = run(["nm", "-D", "--defined-only", os.path.join(built, "libfabric.so.1")], check=True).stdout
    names = {line.split()[-1].split("@")[0] for line in symbols.splitlines()}
    headers = ""
    for folder, _, files in os.walk(INCLUDE):
        for file in files:
            with open(os.path.join(folder, file), encoding="utf-8") as header:
                headers += header.read()
    return {name for name in names if name.startswith("fi_") and re.search(rf"\b{name}\(", headers)}


def check_form(page):
    if not page.text.startswith(f"# {page.tool}({page.section})\n"):
        yield f"the first line is not `# {page.tool}({page.section})`"
    wanted = HEADINGS[page.section]
    there = [title for title in page.parts if title in wanted]
    if there != wanted:
        yield f"headings are {', '.join(page.parts)}; wanted, in this order: {', '.join(wanted)}"
    if page.tool not in page.names():
        yield "NAME does not have the page's own name"
    for number, line in enumerate(page.text.splitlines(), 1):
        if len(line) > 120 and not line.startswith("|"):
            yield f"line {number} is longer than 120"


def check_links(page):
    for label, target in re.findall(r"\[([^\]]*)\]\(([^)\s]+)\)", page.prose):
        if target.startswith("http"):
            yield f"a link leaves the manual: {target}"
            continue
        path = os.path.join(SOURCES, target.split("#")[0])
        if not os.path.exists(path):
            yield f"a link leads nowhere: {target}"
        reference = re.fullmatch(r"(\w[\w-]*)\(([137])\)", label)
        if reference and target != f"{reference[1]}.{reference[2]}.md":
            yield f"the link {label} leads to {target}"
    if not re.search(r"\]\(\w+\.[137]\.md\)", page.parts.get("SEE ALSO", "")):
        yield "SEE ALSO names no page"


def check_lint(page, pages):
    done = run(["mandoc", "-Tlint", "-Wwarning", os.path.join(pages, "man" + page.section, page.name)])
    if done.returncode or done.stdout:
        yield f"mandoc: {done.stdout.strip()} {done.stderr.strip()}"


def check_synopsis(page, public, folder):
    if page.section != "3":
        return
    code = "\n".join(page.fences("SYNOPSIS", "c"))
    bare = re.sub(r"/\*.*?\*/", "", code, flags=re.S)
    declared = set(PROTOTYPE.findall(bare))
    unknown = (declared | set(page.names())) - public - {page.tool}
    if unknown:
        yield f"NAME or SYNOPSIS has what is no public function: {', '.join(sorted(unknown))}"
    missing = (declared ^ set(page.names())) - {page.tool}
    if missing:
        yield f"in one of NAME and SYNOPSIS only: {', '.join(sorted(missing))}"
    path = os.path.join(folder, page.name + ".synopsis.c")
    with open(path, "w", encoding="utf-8") as file:
        file.write(code)
    done = run([CC, "-std=gnu11", "-fsyntax-only", "-Wall", "-Wno-unused-function", "-Werror", "-I" + INCLUDE, path])
    if done.returncode:
        yield f"SYNOPSIS does not agree with the headers:\n{done.stderr}"


def check_example(page, built, folder):
    programs = page.fences("EXAMPLE", "c")
    if page.section == "3" and len(programs) != 1:
        yield f"EXAMPLE has {len(programs)} programs"
    for index, program in enumerate(programs):
        base = os.path.join(folder, f"{page.name}.{index}")
        with open(base + ".c", "w", encoding="utf-8") as file:
            file.write(program)
        done = run([CC, "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-I" + INCLUDE, "-o", base, base + ".c",
                    "-L" + built, "-lfabric", "-pthread"])
        if done.returncode:
            yield f"EXAMPLE does not compile:\n{done.stderr}"
            continue
        done = run([base], env={"LD_LIBRARY_PATH": built}, cwd=folder)
        if done.returncode:
            yield f"EXAMPLE ends with {done.returncode}:\n{done.stdout}{done.stderr}"
        outputs = page.fences("EXAMPLE", "text")
        if page.section == "3" and not outputs:
            yield "EXAMPLE does not say what its program prints"
        elif outputs and outputs[index] != done.stdout:
            yield f"EXAMPLE prints\n{done.stdout}and not\n{outputs[index]}"


def check_commands(page, built):
    """Of a page's examples in the shell, those that say what they print."""
    if page.section != "1":
        return
    for text in page.fences("EXAMPLE", "text"):
        for command, output in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, flags=re.M):
            if not output:
                continue
            name, *arguments = shlex.split(command)
            done = run([os.path.join(built, name), *arguments], env={"LD_LIBRARY_PATH": built})
            if done.stdout + done.stderr != output:
                yield f"`{command}` prints\n{done.stdout}{done.stderr}and not\n{output}"


def check_options(page, built):
    if page.section != "1":
        return
    done = run([os.path.join(built, page.tool), "-h"], env={"LD_LIBRARY_PATH": built})
    options = set(re.findall(r"(?:^|[\s,\[])(--?[A-Za-z0-9][\w-]*)", done.stdout + done.stderr))
    if not options and page.tool != "fi_strerror":
        yield f"{page.tool} -h names no option"
    for option in sorted(options):
        if not re.search(re.escape(option) + r"(?![\w-])", page.parts.get("OPTIONS", "")):
            yield f"OPTIONS does not have {option}"


def check_settings(page, settings):
    """What is written like a setting is one, or a constant of the log."""
    for name in sorted(set(SETTING.findall(page.text))):
        if name not in settings and not name.endswith("_") and name not in LOG_CONSTANTS:
            yield f"{name} is no variable that fi_info -e shows"
    if with_tables(page.text, settings) != page.text:
        yield "a table of settings is out of date: make man-settings"


def settings_of(built):
    """Name of each variable: its kind and what it is."""
    done = run([os.path.join(built, "fi_info"), "-e"], env={"LD_LIBRARY_PATH": built})
    lines = re.findall(r"^# (FI_\w+): (\w+).*\n# (.*)$", done.stdout, flags=re.M)
    return {name: (KINDS[kind], re.sub(r"^\w+: ", "", text)) for name, kind, text in lines}


def table(prefixes, settings):
    """The settings whose names begin with one of these; "-": those of no provider and no hook."""
    rows, ignored = [], []
    for name, (kind, text) in settings.items():
        wanted = name.startswith(tuple(prefixes)) if prefixes != ["-"] else not name.startswith(OWNED)
        if wanted and text.startswith("accepted and ignored"):
            ignored.append(f"`{name}`")
        elif wanted:
            what, default = re.fullmatch(r"(.*?)(?: \(default: (.*)\))?", text).groups()
            default = f", default: {default}" if default else ""
            rows.append(f"| `{name}` | {what.replace('|', '/')} ({kind}{default}) |")
    text = "\n".join(["", "| Variable | What it is |", "|---|---|", *rows, ""])
    if ignored:
        wrapped = textwrap.wrap("Accepted, without effect: " + ", ".join(ignored) + ".", 118, break_on_hyphens=False)
        text += "\n" + "\n".join(wrapped) + "\n"
    return text + "\n"


def with_tables(text, settings):
    return re.sub(r"(<!-- settings: (.*?) -->\n).*?(<!-- end -->)",
                  lambda found: found[1] + table(found[2].split(), settings) + found[3], text, flags=re.S)


def main():
    built, pages = (os.path.abspath(folder) for folder in sys.argv[1:3])
    for tool in ["mandoc", CC, "nm"]:
        if not shutil.which(tool):
            print(f"SKIPPED: there is no {tool}")
            return 77
    names = sorted(name[:-3] for name in os.listdir(SOURCES) if re.fullmatch(r"\w+\.[137]\.md", name))
    manual = [Page(name) for name in names]
    chosen = [page for page in manual if not sys.argv[3:] or page.name in sys.argv[3:] or page.tool in sys.argv[3:]]
    public = exported(built)
    settings = settings_of(built)
    if "--write" in sys.argv:
        for page in manual:
            with open(os.path.join(SOURCES, page.name + ".md"), "w", encoding="utf-8") as file:
                file.write(with_tables(page.text, settings))
        return 0
    problems = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        def check(page):
            for problem in [*check_form(page), *check_links(page), *check_lint(page, pages),
                            *check_synopsis(page, public, folder), *check_example(page, built, folder),
                            *check_options(page, built), *check_commands(page, built),
                            *check_settings(page, settings)]:
                problems.append(f"{page.name}: {problem}")
        list(pool.map(check, chosen))
    if len(chosen) == len(manual):
        for name in sorted(public):
            homes = [page.name for page in manual if page.section == "3" and name in page.names()]
            if len(homes) != 1:
                problems.append(f"{name} is in NAME of {len(homes)} pages: {', '.join(homes)}")
    print("\n".join(sorted(problems)))
    examples = sum(len(page.fences("EXAMPLE", "c")) for page in chosen)
    print(f"{len(chosen)} pages, {len(public)} functions, {examples} programs run, {len(problems)} problems")
    return 1 if problems else 0


sys.exit(main())
