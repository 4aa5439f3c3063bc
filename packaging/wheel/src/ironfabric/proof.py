# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Which processes of a job use the library, seen from outside.

A library that is mapped need not be used: Open MPI links to libfabric and may still send over something else. Two
things count together: /proc/PID/maps names our file, and the library itself has said that the process opened a domain.
It says so into a folder of ours (FI_LOG_LOCATION), where each process has a file; without FI_LOG_LEVEL the library logs
nothing, so no line is taken from anybody. If the user has set one of the FI_LOG_ variables, they are left alone, and
what counts is that a process has mapped both our file and an MPI.
"""

import os
import re
import shutil
import tempfile
import threading
import time
from pathlib import Path

from .loader import same

# Seconds between two checks: of the folder of log files, which is cheap, and of all processes.
QUICK, FULL, CALM = 0.01, 0.05, 1.0
# A layered provider opens the domain below it first.
SETTLE = 0.2
OPENED = re.compile(
    r"^libfabric:[\d:]+:([^:]+):domain:\w+\(\):\d+<info> domain Some\(\"(.*?)\"\) opened:", re.MULTILINE
)


class Process:
    def __init__(self, pid, name=""):
        self.pid, self.name = pid, name
        self.ours, self.others, self.mpi = None, set(), None
        self.domains = []
        self.said_something = False

    @property
    def provider(self):
        """As FI_PROVIDER would name it: a layered provider after the one below."""
        names = list(dict.fromkeys(provider for provider, _ in self.domains))
        layered = names and names[-1].startswith("ofi_")
        return (";" if layered else ", ").join(names)


class Watch:
    """Looks at a command and all that it starts on this host, in a thread, until `end`."""

    def __init__(self, library, env, report):
        self.library, self.report = library, report
        self.processes = {}
        self.own_log = not any(name.startswith("FI_LOG_") for name in env)
        self.folder = None
        if self.own_log:
            try:
                self.folder = Path(tempfile.mkdtemp(prefix="ironfabric-"))
            except OSError:
                # Nothing can be written, so only the map is used.
                self.own_log = False
        if self.own_log:
            # The path ends with a slash, so that no file of this name is made on another host without the folder.
            env.update(FI_LOG_LEVEL="info", FI_LOG_SUBSYS="domain", FI_LOG_LOCATION=f"{self.folder}/")
        self.reported, self.first_seen = None, None
        self._stop = threading.Event()
        self._thread = None

    def begin(self, root):
        self._thread = threading.Thread(target=self._run, args=(root,), daemon=True)
        self._thread.start()

    def end(self):
        """A last look; afterwards `used` is final."""
        self._stop.set()
        if self._thread:
            self._thread.join()
        self._logs()
        self._tell(final=True)
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def used(self, process):
        if self.own_log:
            # A process that ended before the first check has left its log lines; they are those of this library.
            return bool(process.domains) and not process.others
        return bool(process.ours and process.mpi) and not process.others

    def _run(self, root):
        next_full = 0.0
        while not self._stop.is_set():
            now = time.monotonic()
            self._logs()
            if now >= next_full:
                self._all(root)
                next_full = time.monotonic() + (CALM if self.reported else FULL)
            self._tell()
            self._stop.wait(CALM / 4 if self.reported else QUICK)

    def _logs(self):
        """Processes that have called the library; what each has opened."""
        if not self.folder:
            return
        try:
            entries = list(os.scandir(self.folder))
        except OSError:
            return
        for entry in entries:
            number = re.match(r"ofi_(\d+)\.log$", entry.name)
            if not number:
                continue
            process = self._process(int(number.group(1)))
            process.said_something = True
            if process.ours is None and not process.others:
                self._maps(process)
            try:
                process.domains = OPENED.findall(Path(entry.path).read_text(errors="replace"))
            except OSError:
                pass

    def _all(self, root):
        for pid in descendants(root):
            process = self._process(pid)
            if process.ours is None and not process.others or self.reported is None:
                self._maps(process)

    def _process(self, pid):
        if pid not in self.processes:
            self.processes[pid] = Process(pid)
        process = self.processes[pid]
        try:
            process.name = Path(f"/proc/{pid}/comm").read_text().strip() or process.name
        except OSError:
            pass
        return process

    def _maps(self, process):
        """`ours`: the path under which our file is mapped. Files are compared, not names."""
        try:
            lines = Path(f"/proc/{process.pid}/maps").read_text(errors="replace").splitlines()
        except OSError:
            return
        for path in {line.split(None, 5)[5] for line in lines if line.count("/") and len(line.split(None, 5)) == 6}:
            name = os.path.basename(path)
            if name.startswith("libmpi"):
                process.mpi = path
            if not re.match(r"libfabric[-.\w]*\.so", name):
                continue
            if same(path, self.library):
                process.ours = path
            else:
                process.others.add(path)

    def _tell(self, final=False):
        """The line of the job, once."""
        if self.reported:
            return
        found = next((process for process in self.processes.values() if self.used(process)), None)
        if not found:
            return
        self.first_seen = self.first_seen or time.monotonic()
        if final or time.monotonic() - self.first_seen >= SETTLE:
            self.reported = found
            self.report(found)

    def why_not(self):
        """In words for the user, after the end of a job that did not use the library."""
        processes = self.processes.values()
        others = sorted({path for process in processes for path in process.others})
        if others:
            return f"a process of the job has another libfabric, {', '.join(others)}"
        libraries = sorted({process.mpi for process in processes if process.mpi})
        mapped = [process for process in processes if process.ours]
        if mapped and libraries:
            return (
                f"{len(mapped)} processes loaded it and opened no domain of it; {', '.join(libraries)} "
                "sent its messages over something else"
            )
        if libraries:
            return f"{', '.join(libraries)} was loaded, but no libfabric"
        if any(process.said_something for process in processes):
            return "a libfabric was called, and no domain of this one was opened"
        if mapped:
            return "it was loaded, but no process opened a domain of it or loaded an MPI library"
        return (
            "no process of the job loaded a libfabric or an MPI library: it is no MPI program, or is linked statically"
        )


def descendants(root):
    """`root` and all processes below it, as proc(5) tells."""
    parents = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            # The name in parentheses may contain anything, including a parenthesis.
            stat = Path("/proc", entry, "stat").read_bytes()
            parents[int(entry)] = int(stat[stat.rindex(b")") + 2 :].split()[1])
        except (OSError, ValueError):
            continue
    found = [root] if root in parents else []
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found
