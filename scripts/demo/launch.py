# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Start an MPI program on a given libfabric.so.1, with a time limit, and say clearly what went wrong.

Used by the demo and by ctests/mpi; needs only the standard library. The program runs on MPICH's netmod ofi with the
provider tcp; MPIR_CVAR_NOLOCAL keeps MPICH from using its own shared memory between the ranks of this host.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

PATIENCE = float(os.environ.get("PATIENCE", "1"))
SETTINGS = {"MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_NOLOCAL": "1", "FI_PROVIDER": "tcp"}
KEPT_LINES = 60
# Lines of MPICH's debug summary: dozens, and none shows why a program failed.
SUMMARY_LINE = re.compile(r"(provider: |Required minimum|=+|[\w() ]+: -?\w+$)")
RANK_PREFIX = re.compile(r"^\[\d+\] ?")


class Failed(Exception):
    """What failed and how, in words for the user."""


class Library:
    """One libfabric.so.1 to run on: a folder for LD_LIBRARY_PATH, or None for the one inside the MPICH wheel."""

    def __init__(self, name, folder, python_env, settings=None):
        self.name = name
        self.settings = settings or {}
        self.is_upstream = folder is None
        self.folder = Path(folder).resolve() if folder else None
        self.python_env = Path(python_env).absolute()
        inside_wheel = self.python_env / "lib" / "mpich" / "libfabric.so.1"
        self.file = ((self.folder / "libfabric.so.1") if self.folder else inside_wheel).resolve()
        if not self.file.is_file():
            raise Failed(f"{name}: there is no {self.file}")

    def environment(self):
        env = dict(os.environ, **SETTINGS, **self.settings, DEMO_EXPECTED_LIBRARY=str(self.file),
                   DEMO_LIBRARY_IS_UPSTREAM=str(int(self.is_upstream)),
                   PYTHONPATH=str(Path(__file__).resolve().parent))
        # Variables of another MPI or job manager would make the ranks look for its daemons.
        for name in [name for name in env if name.startswith(("PMI_", "PMIX_", "OMPI_", "SLURM_"))]:
            del env[name]
        env.pop("LD_LIBRARY_PATH", None)
        if self.folder:
            env["LD_LIBRARY_PATH"] = str(self.folder)
        return env


def run(library, ranks, program, arguments=(), limit=120, extra_env=None, show=lambda line: False, hosts=None):
    """Run PROGRAM LIMIT ARGUMENTS... on so many ranks and return its lines.

    After 9/10 of the limit each rank prints its stack (see rank.py), so that a hang tells where it hangs. A line
    that `show` likes is printed without the number of its rank; the others appear, with it, when the program fails.
    `hosts` gives one rank to each of several hosts (ctests/hosts).
    """
    limit *= PATIENCE
    command = mpiexec(library, ranks, hosts) + ["-u", program, str(limit * 0.9), *arguments]
    name = f"{Path(program).name} on {library.name}, {ranks} ranks"
    env = dict(library.environment(), **(extra_env or {}))
    # MPICH and Python put sockets and caches below TMPDIR; a separate folder leaves nothing behind.
    scratch = tempfile.mkdtemp(prefix="mpi-")
    env["TMPDIR"] = scratch
    try:
        return _watch([str(part) for part in command], env, limit, name, show)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def mpiexec(library, ranks, hosts=None):
    """The command that starts Python on so many ranks."""
    bin_folder = library.python_env / "bin"
    command = [bin_folder / "mpiexec", "-prepend-rank", "-n", str(ranks)]
    if hosts:
        command = [*hosts.inside(0), *command, "-launcher", "ssh", "-launcher-exec", hosts.launcher, "-ppn", "1",
                   "-localhost", hosts.addresses[0], "-hosts", ",".join(hosts.addresses)]
    else:
        command += ["-launcher", "fork"]
    return [*command, bin_folder / "python"]


def _watch(command, env, limit, name, show):
    process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    timed_out = []

    def stop(*_):
        timed_out.append(True)
        _kill(process)

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    lines, unseen = [], []
    try:
        for raw in process.stdout:
            prefix, line = _split_prefix(raw.rstrip("\n"))
            lines.append(line)
            if show(line):
                print(line, flush=True)
            elif not SUMMARY_LINE.match(line):
                unseen.append(prefix + line)
        code = process.wait()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if process.poll() is None:
            _kill(process)
    if timed_out:
        raise Failed(f"{name}: not finished after {limit:.0f} s{_tail(unseen)}")
    if code != 0:
        raise Failed(f"{name}: exit code {code}{_tail(unseen)}")
    return lines


def _split_prefix(line):
    """mpiexec writes `[rank] ` before each piece that a rank writes, also within a line."""
    match = RANK_PREFIX.match(line)
    prefix = match[0] if match else ""
    return prefix, line[len(prefix):].replace(prefix, "") if prefix else line


def _kill(process):
    """mpiexec takes its ranks with it on SIGTERM; the whole group goes if it does not."""
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _tail(unseen):
    return "".join(f"\n    {line}" for line in unseen[-KEPT_LINES:])


def main_with_message(main):
    """Run `main`; a Failed becomes its message and exit code 1. Killed from outside, it still stops the ranks."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except Failed as failure:
        print(f"\nFAILED: {failure}", file=sys.stderr, flush=True)
        sys.exit(1)
