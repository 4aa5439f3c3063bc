# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The command `ironfabric`."""

import argparse
import os
import shlex
import signal
import subprocess
from pathlib import Path

from . import SONAME, check, include_folder, library_folder, mpi, other_include_folders, version
from .elf import Elf, NotElf
from .loader import resolve
from .proof import Watch
from .settings import Settings

# Exit code of `run --require` if the command succeeded without the library.
NOT_USED = 3
# Exit codes of a shell if there is no such command, or if it cannot be run.
NO_COMMAND, NO_START = 127, 126
PLUGIN = "libironfabric-fi.so"
PLUGIN_NAMES = (PLUGIN, *(f"libironfabric-{n}-fi.so" for n in range(2, 6)))


def say(text):
    """One line, by one system call, so that ranks which write meanwhile do not cut it."""
    try:
        os.write(2, f"ironfabric: {text}\n".encode())
    except OSError:
        pass


def run(args):
    """Starts the command on this library, and says whether it was used."""
    settings, found = prepare(args)
    if not settings.library.exists():
        say(f"there is no {settings.library}")
        return NO_START
    if args.no_local:
        settings.env["MPIR_CVAR_NOLOCAL"] = "1"
    if found.family is None:
        say(f"{found.note}; the variables of all known MPIs are set")
    for name, (value, wanted) in settings.kept.items():
        say(f"{name}={value} is set already and left so; {wanted} is what would be set")

    def report(process):
        where = process.ours or f"{settings.library} (the process ended before its map could be read)"
        said = (
            f"provider {process.provider}, domain {process.domains[-1][1]}"
            if process.domains
            else f"provider as FI_PROVIDER={settings.provider} says; FI_LOG_ is yours, so no process was asked"
        )
        say(f"used: {where}, {said}, {identity(settings.library)}, in process {process.pid} ({process.name}), {found}")

    watch = Watch(settings.library, settings.env, report)
    code = execute(args.command, settings.env, watch)
    if not watch.reported and code not in (NO_COMMAND, NO_START):
        say(f"NOT USED: {static(args.command) or watch.why_not()}; `ironfabric check -- COMMAND` tells more")
        return code or (NOT_USED if args.require else 0)
    return code


def execute(command, env, watch):
    """The exit code of the command, 128 and the signal's number where one ended it."""
    try:
        process = subprocess.Popen(command, env=env)
    except OSError as error:
        watch.end()
        say(f"{command[0]}: {error.strerror}")
        return NO_COMMAND if isinstance(error, FileNotFoundError) else NO_START
    # The terminal sends its signals to the command itself; signals that only this process gets are forwarded.
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, _frame: process.send_signal(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    watch.begin(process.pid)
    code = process.wait()
    watch.end()
    return 128 - code if code < 0 else code


def identity(path):
    try:
        return check.identity(path, version())
    except (OSError, AttributeError):
        return "which does not say what it is"


def static(command):
    """A statically linked program takes no library, and that can be said for certain."""
    path = resolve(command[0])
    try:
        return f"{path} is linked statically" if path and Elf(path).static else None
    except NotElf:
        return None


def prepare(args):
    found = mpi.find(args.command)
    if getattr(args, "mpi", None):
        found = mpi.Mpi(mpi.FAMILIES[args.mpi], "")
    return Settings(found, args.command, args.provider, args.preload), found


def check_host(args):
    """Says what `run` would do and what would come of it; the exit code is 1 where something is in the way."""
    settings, found = prepare(args)
    report = check.Report()
    check.library(report, settings, version())
    check.mpi(report, found, settings)
    check.would_load(report, found, settings)
    if static(args.command or ["mpiexec"]):
        report.trouble("command", static(args.command))
    check.provider(report, settings)
    check.host(report, settings)
    print(f"{report.troubles} troubles" if report.troubles else "nothing stands in the way")
    return 1 if report.troubles else 0


def environment(args):
    """Lines for `eval "$(ironfabric env)"`."""
    settings, found = prepare(args)
    if found.family is None:
        print(f"# {found.note}; these are the variables of all known MPIs")
    for name, value in settings.changed.items():
        print(f"export {name}={shlex.quote(value)}")
    return 0


def path(args):
    """Where something is; an error where this package does not have it."""
    folder = library_folder()
    places = {
        "lib": folder,
        "library": folder / SONAME,
        "include": include_folder(),
        **other_include_folders(),
        "pkgconfig": folder / "pkgconfig",
        "bin": include_folder().parent / "bin",
    }
    if args.what is None:
        print(f"lib={folder}\ninclude={include_folder()}")
        return 0
    try:
        place = plugin_folder() if args.what == "plugin" else places[args.what]
    except OSError as error:
        say(str(error))
        return 1
    if not place.exists():
        say(f"there is no {place}")
        return 1
    print(place)
    return 0


def plugin_folder():
    """For FI_PROVIDER_PATH of another libfabric, which takes one provider from each name of the file.

    A wheel has no links, so they are made here; in the user's cache where the package may not be written.
    """
    ours = library_folder().parent / "plugin"
    file = ours / PLUGIN
    if not file.exists():
        raise OSError(f"there is no {file}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "ironfabric", version(), "plugin")
    for folder in (ours, cache):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name in PLUGIN_NAMES:
                link = folder / name
                if link == file or link.is_symlink() and link.resolve() == file.resolve():
                    continue
                if link.is_symlink():
                    link.unlink()
                link.symlink_to(PLUGIN if folder == ours else file)
            return folder
        except OSError as error:
            why = error
    raise why


def parser():
    said = argparse.ArgumentParser(prog="ironfabric", description="Runs programs on ironfabric, a libfabric.so.1.")
    said.add_argument("--version", action="version", version=f"ironfabric {version()}")
    commands = said.add_subparsers(dest="name", metavar="run|check|env|path")
    commands.required = True

    def add(name, function, text, **more):
        one = commands.add_parser(name, help=text, description=text, **more)
        one.set_defaults(function=function)
        return one

    def settings(one):
        one.add_argument("--provider", help="what FI_PROVIDER and the MPI are told (default: FI_PROVIDER, else tcp)")
        one.add_argument(
            "--preload",
            choices=("auto", "always", "never"),
            default="auto",
            help="LD_PRELOAD beside LD_LIBRARY_PATH; auto: where an RPATH makes it necessary",
        )

    one = add(
        "run",
        run,
        "run a command on this library, and say on stderr whether it was used",
        usage="ironfabric run [--provider P] [--require] [--no-local] [--preload HOW] [--] COMMAND ...",
    )
    settings(one)
    one.add_argument(
        "--require",
        action="store_true",
        help=f"exit code {NOT_USED} if the command succeeded and no process on this host used the library",
    )
    one.add_argument(
        "--no-local",
        action="store_true",
        help="MPICH: also ranks of one host talk over this library, not over MPICH's own shared memory",
    )
    one.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND ...")
    one = add(
        "check",
        check_host,
        "say which MPI a command uses, what run would set, what would be loaded and chosen, and why",
        usage="ironfabric check [--provider P] [--preload HOW] [-- COMMAND ...]",
    )
    settings(one)
    one.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND ...")
    one = add(
        "env",
        environment,
        'print the variables for a shell: eval "$(ironfabric env)"',
        usage="ironfabric env [--provider P] [--preload HOW] [--mpi NAME] [-- COMMAND ...]",
    )
    settings(one)
    one.add_argument(
        "--mpi", choices=sorted(mpi.FAMILIES), help="for this one, not that of the command (default: mpiexec)"
    )
    one.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND ...")
    one = add("path", path, "print where the library and the headers are")
    one.add_argument(
        "what",
        nargs="?",
        metavar="WHAT",
        choices=("lib", "library", "include", *other_include_folders(), "pkgconfig", "plugin", "bin"),
        help="lib, library, include, include-<release>, pkgconfig, plugin or bin: that place alone",
    )
    return said


def main(words=None):
    said = parser()
    args = said.parse_args(words)
    command = getattr(args, "command", [])
    if command[:1] == ["--"]:
        args.command = command[1:]
    if args.name == "run" and not args.command:
        said.error("run: say which command")
    return args.function(args)
