#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""check.py: versions, programs and lists of files that several files of packaging name are the same in all of them.

The lists of files are compared with what `make install-built` installs. A folder of empty files stands in for the
build, so nothing is built, and the network is not used. A file that belongs to no package, or to two, is an error, and
so is a pattern of a list that matches no file.
"""

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MULTIARCH = "x86_64-linux-gnu"
WORKFLOW = ".github/workflows/release.yml"
faults = []


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def expect(name, *texts):
    """The file has each of the texts."""
    content = read(name)
    faults.extend(f"{name} does not have: {text}" for text in texts if text not in content)


def one(pattern, text):
    return re.search(pattern, text, re.DOTALL | re.MULTILINE).group(1)


def versions():
    cargo = read("Cargo.toml")
    abi = one(r'^version = "(.*?)"', cargo)
    own = one(r'^\[package\.metadata\.ironfabric\]\s*version = "(.*?)"', cargo)
    package = f"{abi}+ironfabric{own}"
    if f"ironfabric ({package})" not in read("packaging/debian/changelog").split("\n")[0]:
        faults.append(f"the first entry of packaging/debian/changelog is not of {package}")
    if f" - {package}-" not in one(r"^%changelog\n(.*?)$", read("packaging/ironfabric.spec")):
        faults.append(f"the first entry of the changelog in packaging/ironfabric.spec is not of {package}")
    if not re.search(rf"^## {re.escape(own)}\b", read("CHANGELOG.md"), re.MULTILINE):
        faults.append(f"CHANGELOG.md has no section {own}")
    expect("packaging/conda/recipe/recipe.yaml", f'version: "{own}"')
    spack = "packaging/spack/spack_repo/ironfabric/packages/ironfabric/package.py"
    expect(spack, f'version("{own}", tag="v{own}"', f'when="@{own}"')
    expect("packaging/homebrew/ironfabric.rb", f'tag: "v{own}"')
    # Examples in documents and comments. `uses` names the versions of others.
    examples = ("packaging/nix/flake.nix", "packaging/nix/README.md", "packaging/spack/README.md", "docs/release.md")
    for name in (WORKFLOW, *examples):
        text = re.sub(r"uses: .*", "", read(name))
        for version in sorted(set(re.findall(r"\b(?:v|ironfabric@)(\d+\.\d+\.\d+)\b", text)) - {own}):
            faults.append(f"{name} has version {version}, not {own}")

    # Rust: the oldest compiler, and that of released files.
    oldest = one(r'^rust-version = "(.*?)"', cargo)
    expect("README.md", f"Rust {oldest} or newer")
    expect(spack, f'"rust@{oldest}:"')
    expect("packaging/conda/recipe/recipe.yaml", f"${{{{ compiler('rust') }}}} >={oldest}")
    expect("packaging/debian/control", f"rustc {oldest} or newer")
    expect("packaging/nix/flake.nix", f"Rust {oldest} or newer")
    image = read("packaging/Containerfile")
    rust, debian = one(r"^ARG RUST=(.*?)$", image), one(r"^ARG DEBIAN=(.*?)$", image)
    images = set(re.findall(r"/rust:(\S+)", read(WORKFLOW)))
    if images != {f"{rust}-{debian}"}:
        faults.append(f"{WORKFLOW} builds with {images}, packaging/Containerfile with {rust}-{debian}")
    if [int(part) for part in rust.split(".")[:2]] < [int(part) for part in oldest.split(".")]:
        faults.append(f"packaging/Containerfile builds with Rust {rust}, older than {oldest}")


def programs():
    names = sorted(one(r"^TOOLS := (.*?)$", read("Makefile")).split())
    wheel = one(r"^for tool in (.*?); do", read("packaging/wheel/build.sh")).split()
    scripts = re.findall(r"^(fi_\w+) = ", read("packaging/wheel/pyproject.toml"), re.MULTILINE)
    for name, found in (("packaging/wheel/build.sh", wheel), ("packaging/wheel/pyproject.toml", scripts)):
        if sorted(found) != names:
            faults.append(f"{name} has {' '.join(sorted(found))}, not {' '.join(names)}")
    for name in os.listdir(ROOT / "packaging/completions"):
        expect(f"packaging/completions/{name}", *names)
    expect("packaging/debian/control", *names)
    expect("packaging/ironfabric.spec", *names)
    return names


def releases():
    """The rows of src/abi/releases.tsv."""
    rows = [row.split("\t") for row in read("src/abi/releases.tsv").splitlines()]
    return [row for row in rows if len(row) > 5 and row[0][:1].isdigit()]


def stage(folder, names, **layout):
    """The paths that `make install-built` and install-static install, without the manual's own."""
    built, man = folder / "built", folder / "man"
    others = [row[1] for row in releases() if row[5] in ("kept", "alpha")]
    files = [built / name for name in ("libfabric.so", "libfabric.a", "NOTICES-std.html", *names)]
    files += [built / "libexec/libironfabric-fi.so", man / "man1/a.1", man / "man3/a.3", man / "man7/a.7"]
    for other in others:
        files += [built / f"include-{other}/rdma/{name}" for name in ("fabric.h", "providers/fi_prov.h")]
        files.append(built / f"link-{other}/libfabric.so")
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    # Without pandoc the pages of the folder are installed.
    tools = folder / "tools"
    if not tools.exists():
        tools.mkdir()
        wanted = "make awk sed install ln bash sh mkdir mktemp cp rm cat basename dirname env find sort git date"
        for name in wanted.split():
            if shutil.which(name):
                (tools / name).symlink_to(shutil.which(name))
    out = Path(tempfile.mkdtemp(dir=folder))
    variables = {"BUILT": built, "PLUGIN": built, "STATIC": built, "MAN": man, "DESTDIR": out, "CARGO": "", **layout}
    arguments = [f"{key}={value}" for key, value in variables.items()]
    done = subprocess.run(
        ["make", "-C", ROOT, "install-built", "install-static", *arguments],
        env={"PATH": str(tools), "LC_ALL": "C"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{done.stdout.decode()}\nmake install-built does not install a folder of empty files")
    return {str(path.relative_to(out)) for path in out.rglob("*") if not path.is_dir()}


def matches(path, pattern):
    """A pattern names files, or folders with everything in them. `*` does not go across a slash."""
    parts, wanted = path.split("/"), pattern.strip("/").split("/")
    return len(parts) >= len(wanted) and all(fnmatch.fnmatchcase(*pair) for pair in zip(parts, wanted))


def compare(what, installed, patterns, every=True):
    """patterns: pairs of a package and a pattern."""
    for package, pattern in patterns:
        if not any(matches(path, pattern) for path in installed):
            faults.append(f"{what}: {pattern} of {package} matches no file")
    for path in sorted(installed) if every else ():
        packages = {package for package, pattern in patterns if matches(path, pattern)}
        if len(packages) != 1:
            faults.append(f"{what}: {path} is in {' and '.join(sorted(packages)) or 'no package'}")


def lists(names):
    with tempfile.TemporaryDirectory(prefix="packaging-") as name:
        folder = Path(name)
        rules = read("packaging/debian/rules")
        layout = dict(re.findall(r"(\w+)=(/\S+)", one(r"^LAYOUT = (.*?)DESTDIR", rules)))
        debian = stage(folder, names, LIBDIR=f"/usr/lib/{MULTIARCH}", **layout)
        removed = set(re.findall(r"^\trm debian/tmp/(\S+)", rules, re.MULTILINE))
        patterns = [
            (file.stem, line.split()[0])
            for file in sorted((ROOT / "packaging/debian").glob("*.install"))
            for line in file.read_text(encoding="utf-8").splitlines()
        ]
        compare("packages for Debian", debian - removed, patterns)

        # The image is a part of the same layout.
        copied = one(r"cp -a --parents -t /image (.*?)\n\n", read("packaging/Containerfile"))
        image = [("the image", word) for word in copied.replace("\\", " ").split()]
        compare("packaging/Containerfile", debian, image, every=False)

        spec = read("packaging/ironfabric.spec")
        macros = {
            "_prefix": "/usr",
            "_libdir": "/usr/lib64",
            "_bindir": "/usr/bin",
            "_includedir": "/usr/include",
            "_libexecdir": "/usr/libexec",
            "_docdir": "/usr/share/doc",
            "_mandir": "/usr/share/man",
            "_datadir": "/usr/share",
            "sover": next(row[3] for row in releases() if row[5] == "default"),
        }

        def expand(text):
            return re.sub(r"%\{(\w+)\}", lambda found: macros.get(found[1], found[0]), text)

        layout = dict(re.findall(r"(\w+)=(/\S+)", expand(one(r'^layout="(.*?)"', spec))))
        installed = stage(folder, names, **layout)
        patterns = []
        for match in re.finditer(r"^%files -n (\S+)\n((?:(?!%files|%changelog).*\n)*)", spec, re.MULTILINE):
            patterns += [(match[1], expand(line.split()[-1])) for line in match[2].splitlines() if line.strip()]
        compare("RPM packages", installed, patterns)


def syntax():
    """Parses the files for which a parser is here."""
    missing = []
    try:
        import yaml
    except ImportError:
        missing.append("YAML")
    else:
        jobs = yaml.safe_load(read(WORKFLOW))["jobs"]
        targets = set(" ".join(re.findall(r"^\.PHONY: (.*)", read("Makefile"), re.MULTILINE)).split())
        checks = re.findall(r"^(?:LONG_)?CHECKS := (.*?)(?<!\\)\n", read("Makefile"), re.DOTALL | re.MULTILINE)
        targets |= {f"check-{name}" for text in checks for name in text.replace("\\", " ").split()}
        for name, job in jobs.items():
            needs = job.get("needs", [])
            for other in [needs] if isinstance(needs, str) else needs:
                if other not in jobs:
                    faults.append(f"{WORKFLOW}: job {name} needs {other}, which is not there")
            # The values of the matrix that are targets.
            rows = job.get("strategy", {}).get("matrix", {}).get("include", [])
            words = " ".join(row.get("packages", "") for row in rows)
            for step in job["steps"]:
                script = step.get("run", "")
                done = subprocess.run(["bash", "-n"], input=script.encode(), stderr=subprocess.PIPE, check=False)
                if done.returncode:
                    faults.append(f"{WORKFLOW}: job {name}: {done.stderr.decode().strip()}")
                for line in re.findall(r"^make (.*)", script, re.MULTILINE):
                    words += " " + re.sub(r"\$\{\{.*?\}\}|[A-Z]+=.*", "", line)
                if not re.fullmatch(r"[^@]+@[0-9a-f]{40}", step.get("uses", "a@" + "0" * 40)):
                    faults.append(f"{WORKFLOW}: job {name}: {step['uses']} is not a commit")
            faults.extend(f"{WORKFLOW}: make has no target {word}" for word in words.split() if word not in targets)
    if shutil.which("ruby"):
        formula = ROOT / "packaging/homebrew/ironfabric.rb"
        done = subprocess.run(["ruby", "-c", formula], capture_output=True, check=False)
        if done.returncode:
            faults.append(done.stderr.decode())
    else:
        missing.append("Ruby")
    try:
        import tree_sitter
        import tree_sitter_nix
    except ImportError:
        missing.append("Nix")
    else:
        parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_nix.language()))
        for file in sorted((ROOT / "packaging/nix").glob("*.nix")):
            if parser.parse(file.read_bytes()).root_node.has_error:
                faults.append(f"{file.relative_to(ROOT)} is no Nix")
    if missing:
        print(f"NOT CHECKED: the syntax of packages' files in {', '.join(missing)}, because no parser is here")


def main():
    versions()
    lists(programs())
    syntax()
    if faults:
        sys.exit("\n".join(faults))
    print("versions, programs and file lists of the packages agree")


if __name__ == "__main__":
    main()
