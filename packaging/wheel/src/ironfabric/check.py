# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What stands between a program and this library on this host."""

import ctypes
import os
import resource
import subprocess

from . import SONAME, program
from .loader import loaded, opened, reason, same
from .mpi import INTEL

SHM = "/dev/shm"
# Each shared-memory connection needs some of it; a few dozen ranks use up a container's default of 64 MiB.
SHM_WANTED = 64 << 20
FILES_WANTED = 1024


class Report:
    """Lines for the user, and how many of them are troubles."""

    def __init__(self):
        self.troubles = 0

    def say(self, what, text):
        print(f"{what + ':':<10} {text}")

    def trouble(self, what, text):
        self.troubles += 1
        self.say(what, f"TROUBLE: {text}")


def identity(path, version):
    """Which library it is, in its own words if it has them; OSError where it cannot be loaded."""
    library = ctypes.CDLL(str(path))
    try:
        return ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, "ironfabric_version"))).decode()
    except ValueError:
        pass
    library.fi_version.restype = ctypes.c_uint32
    number = library.fi_version()
    return f"ironfabric {version}, libfabric {number >> 16}.{number & 0xFFFF} API"


def library(report, settings, version):
    path = settings.library
    try:
        report.say("library", f"{path}, {identity(path, version)}")
    except (OSError, AttributeError) as error:
        report.trouble("library", f"{path} cannot be loaded: {error}")


def mpi(report, found, settings):
    if not found.family:
        report.trouble("MPI", found.note)
    else:
        report.say(
            "MPI",
            f"{found}, launcher {found.launcher or 'none'}, library {found.library or 'not found'}"
            + (f"; {found.note}" if found.note else ""),
        )
    for name, value in settings.changed.items():
        report.say("set", f"{name}={value}")
    if settings.preload_because:
        report.say("because", f"LD_PRELOAD: {settings.preload_because}")
    for name, (value, wanted) in settings.kept.items():
        report.trouble("kept", f"{name}={value} is set already and left so; {wanted} is what would be set")


def would_load(report, found, settings):
    """Each object of the MPI that asks for libfabric, before and after."""
    if found.family == INTEL:
        # Its library is not linked: it opens one by name, by default its own.
        after = opened(settings.env)
        text = f"{found} opens {SONAME} while it runs, which with these variables is {after or 'none'}"
        if same(after, settings.library):
            report.say("loads", text)
        else:
            report.trouble("loads", text)
        return
    if found.family and not found.users:
        report.trouble("loads", f"no object of {found} that needs {SONAME} was found: is it built without libfabric?")
    for user in found.users:
        before, after = (loaded(user, env) for env in (settings.base, settings.env))
        report.say(
            "loads",
            f"by itself {user} takes {before or 'none'}"
            + (f" ({reason(user, before, settings.base)})" if before else ""),
        )
        if same(after, settings.library):
            report.say("loads", f"with these variables {after} ({reason(user, after, settings.env)})")
        else:
            report.trouble(
                "loads",
                f"with these variables {user} takes {after or 'none'}"
                + (f" ({reason(user, after, settings.env)})" if after else ""),
            )


def provider(report, settings):
    """What fi_getinfo offers, and what it refuses and why."""
    tool = program("fi_info")
    if tool is None:
        report.say("provider", "fi_info is not here, so nothing is known of providers")
        return
    # FI_PROVIDER excludes the others; that of the settings is passed as a hint, which gives more details.
    env = {name: value for name, value in settings.env.items() if name != "FI_PROVIDER"}
    command = [str(tool), "-p", settings.provider, "-t", "FI_EP_RDM"]
    try:
        done = subprocess.run(
            [*command, "--why"],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        report.trouble("provider", str(error))
        return
    lines = done.stdout.splitlines()
    refused = next((i for i, line in enumerate(lines) if line.startswith("refused:")), len(lines))
    offered = [line.strip() for line in lines[1:refused] if line.startswith("    ")]
    if done.returncode == 0 and offered:
        report.say("provider", f"{settings.provider}: {'; '.join(offered)} ({' '.join(['fi_info', *command[1:]])})")
        return
    report.trouble("provider", f"{settings.provider} is not offered; fi_info --why says:")
    for line in lines:
        print(f"           {line}")


def host(report, settings):
    """Limits and permissions of this process, which its children get too."""
    files, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    text = f"open files at most {_limit(files)} (hard limit {_limit(hard)})"
    if files != resource.RLIM_INFINITY and files < FILES_WANTED:
        report.trouble("limits", f"{text}: a connection takes one or two; ulimit -n raises it")
    else:
        report.say("limits", text)
    memlock, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    report.say("limits", f"locked memory at most {_limit(memlock)} bytes; tcp, shm, sockets and udp lock none")
    why = no_process_memory()
    if why:
        report.trouble(
            "memory",
            f"processes may not read each other's memory ({why}): large messages on this host are "
            "copied twice, which is slower and works",
        )
    else:
        report.say("memory", "processes of this user may read each other's memory (process_vm_readv)")
    try:
        stat = os.statvfs(SHM)
        free = stat.f_bavail * stat.f_frsize
        text = f"{SHM} has {free >> 20} MiB free"
        if not os.access(SHM, os.W_OK) or free < SHM_WANTED:
            readable = "" if os.access(SHM, os.W_OK) else " and may not be written"
            report.trouble(
                "memory", f"{text}{readable}: an MPI that shares memory by itself may fail (containers: --shm-size)"
            )
        else:
            report.say("memory", text)
    except OSError as error:
        report.trouble("memory", f"{SHM}: {error}")
    for name in sorted(settings.base):
        if name.startswith("FI_") and name != "FI_PROVIDER":
            report.say("variable", f"{name}={settings.base[name]} is set, and a job gets it")


def no_process_memory():
    """None, or why a process may not read the memory of one that is not its child, tried on two processes."""

    class IoVec(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "process_vm_readv"):
        return "this libc has no process_vm_readv"
    source, target = ctypes.create_string_buffer(b"ironfabric"), ctypes.create_string_buffer(10)
    here, there = (IoVec(ctypes.addressof(buffer), 10) for buffer in (target, source))
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        # The test uses the parent process, because ranks are not descendants of each other either.
        count = libc.process_vm_readv(
            ctypes.c_int(parent),
            ctypes.byref(here),
            ctypes.c_ulong(1),
            ctypes.byref(there),
            ctypes.c_ulong(1),
            ctypes.c_ulong(0),
        )
        os._exit(0 if count == 10 and target.raw == b"ironfabric" else ctypes.get_errno() or 255)
    _, status = os.waitpid(child, 0)
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 255
    if code == 0:
        return None
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            scope = f"; kernel.yama.ptrace_scope is {file.read().strip()}"
    except OSError:
        scope = ""
    return f"process_vm_readv: {os.strerror(code)}{scope}"


def _limit(number):
    return "unlimited" if number == resource.RLIM_INFINITY else str(number)
