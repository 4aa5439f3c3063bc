# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Which MPI a command uses, where its libraries are, and what makes it use libfabric."""

import os
import re
import subprocess
from pathlib import Path

from .elf import Elf, NotElf
from .loader import resolve

MPICH, OPEN_MPI, INTEL = "MPICH", "Open MPI", "Intel MPI"
FAMILIES = {"mpich": MPICH, "openmpi": OPEN_MPI, "intel": INTEL}
LAUNCHERS = re.compile(r"^(mpiexec|mpirun|orterun|prterun|prun|oshrun)([.-].*)?$")
# Relative to <prefix>/bin; `*` is the folder of a multiarch system.
LIBRARY_FOLDERS = (
    "lib",
    "lib64",
    "lib/*-linux-gnu",
    "lib/*-linux-gnu/openmpi/lib",
    "lib/mpich/lib",
    "lib/openmpi/lib",
    "lib/release",
)
# By file name: the names that the three have used for their library since MPI 3.
LIBRARIES = {
    MPICH: ("libmpi.so.12", "libmpich.so.12", "libmpi_abi.so.0", "libmpi_abi.so.1"),
    OPEN_MPI: ("libmpi.so.40",),
    INTEL: ("libmpi.so.12",),
}


class Mpi:
    """An MPI that was found. `users` are the objects of it that ask for libfabric.so.1."""

    def __init__(self, family, version, launcher=None, note=""):
        self.family, self.version, self.launcher, self.note = family, version, launcher, note
        self.library = None
        self.users = []

    def __str__(self):
        return f"{self.family} {self.version}".rstrip() if self.family else "MPI unknown"

    @property
    def major(self):
        number = re.match(r"\d+", self.version or "")
        return int(number.group()) if number else None


def find(command):
    """The MPI of a command: that of its launcher, else that of the libraries which its program loads."""
    word = next(iter(command), "mpiexec")
    path = resolve(word)
    if path and LAUNCHERS.match(os.path.basename(word)):
        mpi = of_launcher(path)
    elif path:
        mpi = of_program(path)
    else:
        mpi = Mpi(None, "", note=f"there is no command {word}")
    if mpi.family:
        _find_libraries(mpi)
    return mpi


def of_launcher(path):
    """Asks the launcher itself. Its name tells nothing: both call theirs mpiexec."""
    try:
        done = subprocess.run(
            [str(path), "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=20,
            check=False,
        )
        said = done.stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return Mpi(None, "", path, f"{path} --version: {error}")
    return told(said, path)


def told(said, path=None):
    """The MPI that speaks so when it is asked for its version."""
    intel = re.search(r"Intel\(R\) MPI Library.*?Version ([\d.]+)", said, re.DOTALL)
    if intel:
        return Mpi(INTEL, intel.group(1), path)
    open_mpi = re.search(r"\((?:Open MPI|OpenRTE)\) ([\d.]+\w*)", said)
    if open_mpi:
        return Mpi(OPEN_MPI, open_mpi.group(1), path)
    if "HYDRA build details" in said:
        hydra = re.search(r"^\s*Version:\s*(\S+)", said, re.MULTILINE)
        return Mpi(MPICH, hydra.group(1) if hydra else "", path)
    first = next(iter(said.strip().splitlines()), "nothing")
    return Mpi(None, "", path, f"{path} --version says {first!r}, which is no MPI that is known here")


def of_program(path):
    """From what the program, or the Python environment that it belongs to, has as its MPI library."""
    try:
        needed = Elf(os.path.realpath(path)).needed
    except NotElf:
        needed = []
    for family in (OPEN_MPI, MPICH):
        if set(needed) & set(LIBRARIES[family]):
            return Mpi(family, "", note=f"{path} needs {', '.join(sorted(set(needed) & set(LIBRARIES[family])))}")
    # A Python program: the MPI of a wheel in its environment.
    prefix = path.absolute().parent.parent
    launcher = prefix / "bin/mpiexec"
    if os.path.basename(path).startswith("python") and launcher.exists():
        return of_launcher(launcher)
    return Mpi(None, "", note=f"{path} is no launcher and names no MPI library")


def _find_libraries(mpi):
    """Where the library and, for Open MPI, its component for libfabric are."""
    folders = []
    if mpi.launcher:
        told_folders = _told_by_open_mpi(mpi) if mpi.family == OPEN_MPI else []
        for bin_folder in dict.fromkeys((mpi.launcher.absolute().parent, mpi.launcher.resolve().parent)):
            prefix = bin_folder.parent
            folders += [found for pattern in LIBRARY_FOLDERS for found in sorted(prefix.glob(pattern))]
        folders = [*told_folders, *folders]
    folders += [Path(word) for word in os.environ.get("LD_LIBRARY_PATH", "").split(":") if word]
    for folder in folders:
        for name in LIBRARIES[mpi.family]:
            if not mpi.library and (folder / name).exists():
                mpi.library = folder / name
    candidates = [mpi.library] if mpi.library else []
    if mpi.family == OPEN_MPI:
        # Built as separate components, in most builds up to 4; since 5 they are in the library.
        plugins = [
            found
            for folder in folders
            for pattern in ("mca_mtl_ofi.so", "openmpi*/mca_mtl_ofi.so")
            for found in sorted(folder.glob(pattern))
        ]
        candidates += plugins[:1]
    for path in candidates:
        try:
            if "libfabric.so.1" in Elf(path.resolve()).needed:
                mpi.users.append(path)
        except NotElf:
            pass


def _told_by_open_mpi(mpi):
    tool = mpi.launcher.absolute().parent / "ompi_info"
    if not tool.exists():
        return []
    try:
        done = subprocess.run(
            [str(tool), "--parsable", "--path", "libdir", "--path", "pkglibdir"],
            timeout=30,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    # A wheel contains the path where it was built, not where it is installed.
    said = [Path(word) for word in re.findall(r"^path:\w+:(/.*)$", done.stdout, re.MULTILINE)]
    return [path for path in said if path.is_dir()]


def variables(family, version, provider):
    """What this MPI has to be told, so that its messages go through libfabric and this provider of it."""
    settings = {"FI_PROVIDER": provider}
    if family in (MPICH, None):
        settings["MPIR_CVAR_CH4_NETMOD"] = "ofi"
    if family in (OPEN_MPI, None):
        major = re.match(r"\d+", version or "")
        five = not major or int(major.group()) >= 5
        if provider in ("shm", "sm2"):
            # mtl ofi requires FI_REMOTE_COMM, which a provider for one host lacks.
            settings.update(OMPI_MCA_pml="ob1", OMPI_MCA_btl="ofi,self")
        else:
            # By default mtl ofi excludes providers whose name begins with tcp, so it has to be named.
            settings.update(OMPI_MCA_pml="cm", OMPI_MCA_mtl="ofi", OMPI_MCA_mtl_ofi_provider_include=provider)
            if five:
                settings["OMPI_MCA_btl"] = "ofi,self"
        if "OMPI_MCA_btl" in settings:
            # For one-sided operations.
            settings.update(OMPI_MCA_btl_ofi_provider_include=provider, OMPI_MCA_btl_ofi_mode="2")
    if family in (INTEL, None):
        # Without the first one it opens the libfabric of its own package.
        settings.update(I_MPI_OFI_LIBRARY_INTERNAL="0", I_MPI_FABRICS="ofi", I_MPI_OFI_PROVIDER=provider)
    return settings
