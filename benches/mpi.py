#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""mpi.py OURS OTHER [WORK]...: what MPI programs see (benches/mpi.c) on two libfabrics and on what else their MPI has, in turns,
nothing exchanged but the library.

Wants the MPICH of scripts/python_env.sh, and shows Open MPI where --open-mpi names an environment with its wheel. Prints medians
of the runs for each distance of the processors (benches/limits); a run during which it changed counts for nothing.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys

import limits
import report
import run

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = [8, 256, 1024, 4096, 65536, 1 << 20]
# Work: (unit, xs, ranks).
WORKS = {"latency": ("us", SIZES, 2), "bandwidth": ("bytes per second", SIZES, 2), "rate": ("per second", [8, 256, 4096], 2),
         "threads": ("us", [1, 2, 4], 2), "allreduce": ("us", [8, 4096, 1 << 20], 4), "alltoall": ("us", [8, 4096, 1 << 18], 4),
         "bcast": ("us", [8, 4096, 1 << 18, 4 << 20], 4)}
NETWORK = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ofi"}
UCX = {"MPIR_CVAR_NOLOCAL": "1", "MPIR_CVAR_CH4_NETMOD": "ucx"}
SOCKETS = {"FI_PROVIDER": "tcp", "FI_TCP_SHARED_MEMORY": "0"}
OPEN_MPI = {"OMPI_MCA_pml": "cm", "OMPI_MCA_mtl": "ofi", "OMPI_MCA_mtl_ofi_provider_include": "tcp"}
# A group of comparable variants: (name, MPI, library or none, variables).
GROUPS = {
    "MPICH on one host": {
        "ours, shm": ("mpich", "ours", {**NETWORK, "FI_PROVIDER": "shm"}),
        "other, shm": ("mpich", "other", {**NETWORK, "FI_PROVIDER": "shm"}),
        "ours, tcp": ("mpich", "ours", {**NETWORK, "FI_PROVIDER": "tcp"}),
        "UCX": ("mpich", None, UCX),
        "MPICH's own": ("mpich", None, {}),
    },
    "MPICH over sockets": {
        "ours, tcp": ("mpich", "ours", {**NETWORK, **SOCKETS}),
        "other, tcp": ("mpich", "other", {**NETWORK, **SOCKETS}),
        "UCX, tcp": ("mpich", None, {**UCX, "UCX_TLS": "tcp,self"}),
    },
    "Open MPI over sockets": {
        "ours, tcp": ("openmpi", "ours", {**OPEN_MPI, **SOCKETS}),
        "other, tcp": ("openmpi", "other", {**OPEN_MPI, **SOCKETS}),
    },
}


class Runner:
    """`programs`: of each MPI the folder with mpiexec, and benches/mpi.c built with its mpicc."""

    def __init__(self, programs, libraries, rounds, bounds):
        self.programs, self.libraries, self.rounds, self.bounds = programs, libraries, rounds, bounds

    def once(self, way, work, xs, ranks):
        """{x: value}, or the text of a failure."""
        mpi, library, variables = way
        folder, program = self.programs[mpi]
        env = dict(os.environ, **variables)
        env.pop("LD_LIBRARY_PATH", None)
        if library:
            env["LD_LIBRARY_PATH"] = str(self.libraries[library])
        options = ["-launcher", "fork"] if mpi == "mpich" else ["--oversubscribe", "--allow-run-as-root", "--bind-to", "none"]
        command = [folder / "mpiexec", *options, "-n", str(ranks), program, work, *map(str, xs)]
        try:
            done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return "not finished in 120 s"
        if done.returncode:
            return (done.stderr.strip() or f"exit code {done.returncode}")[-300:]
        return {int(x): float(value) for name, x, value in map(str.split, done.stdout.splitlines()) if name == work}

    def measure(self, ways, work):
        """{x: {distance: {way: [values]}}}; prints what failed."""
        _, xs, ranks = WORKS[work]
        values, failed = {x: {} for x in xs}, set()
        before = self.bounds.distance()
        for _ in range(self.rounds):
            for name, way in ways.items():
                if name in failed:
                    continue
                found = self.once(way, work, xs, ranks)
                if isinstance(found, str):
                    print(f"NOT MEASURED: {work}, {name}: {found}\n", flush=True)
                    failed.add(name)
                    continue
                after = self.bounds.distance()
                for x, value in found.items() if after == before else []:
                    values[x].setdefault(after, {}).setdefault(name, []).append(value)
                before = after
        return values


def lines_of(ways, values):
    """A row for each x and distance at which the first way was met as often as any."""
    for x, apart in values.items():
        for distance, found in sorted(apart.items(), key=lambda pair: -min(map(len, pair[1].values()))):
            medians = {name: statistics.median(found[name]) for name in ways if found.get(name)}
            ours = medians.get(next(iter(ways)))
            cells = [f"{report.number(medians[name])} ({ours / medians[name]:.2f})" if ours and name in medians else "-"
                     for name in list(ways)[1:]]
            if ours:
                yield f"| {x} | {distance} | {min(map(len, found.values()))} | {report.number(ours)} | " + " | ".join(cells) + " |"
                break


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", type=pathlib.Path, help="a folder with our libfabric.so.1")
    parser.add_argument("other", type=pathlib.Path, help="one with another's")
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"of {', '.join(WORKS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / "target/python/bin", help="the folder of MPICH's mpicc and mpiexec")
    parser.add_argument("--open-mpi", type=pathlib.Path, default=ROOT / "target/programs/openmpi/bin", help="that of Open MPI's")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "target/bench")
    args = parser.parse_args()
    if set(args.works) - set(WORKS):
        parser.error(f"works are {', '.join(WORKS)}")
    args.build.mkdir(parents=True, exist_ok=True)
    programs = {}
    for mpi, folder in ("mpich", args.python), ("openmpi", args.open_mpi):
        program = args.build / f"mpi_{mpi}"
        if not (folder / "mpicc").exists():
            print(f"{mpi} is not in {folder}\n")
            continue
        subprocess.run([folder / "mpicc", "-O2", "-pthread", "-o", program, ROOT / "benches/mpi.c"], check=True)
        programs[mpi] = folder.absolute(), program
    libraries = {"ours": args.ours.resolve(), "other": args.other.resolve()}
    for key, value in run.facts(libraries).items():
        print(f"- {key}: {value}")
    print(flush=True)
    if not programs:
        sys.exit(run.NOT_HERE)
    runner = Runner(programs, libraries, args.rounds, run.build_limits(args.build))
    for group, ways in GROUPS.items():
        for work in args.works or WORKS:
            if next(iter(ways.values()))[0] not in programs:
                continue
            unit, _, ranks = WORKS[work]
            lines = list(lines_of(ways, runner.measure(ways, work)))
            print(f"**{group}: {work}, {ranks} ranks** ({unit}; ours in that of the others)\n\n| x | processors | runs | "
                  + " | ".join(ways) + " |\n|---:|---|" + "---:|" * (len(ways) + 1))
            print("\n".join(lines) + "\n", flush=True)


if __name__ == "__main__":
    main()
