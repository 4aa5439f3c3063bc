#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""run.py OURS OTHER...: the same bench program on several libfabrics, in turns, and the results side by side.

OURS and each OTHER are folders with a libfabric.so.1; the program is built once, for the oldest release in
src/abi/releases.tsv, so that it runs on the others. Each round runs the client
and the server of one work, pinned to a core each, on ours, on the other and, where there is such a thing, on a bare socket;
who begins changes from round to round. A busy or virtual machine drifts; ratios of medians of rounds drift least. Nothing
here fails because of a time.
"""
import argparse
import os
import pathlib
import platform
import shlex
import subprocess
import sys
import time

import limits
import report
from tables import HEADLINES, HEADLINE_SIZES, MEMORY, PROVIDERS, TABLES

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import releases  # noqa: E402
NOT_HERE = 77
OWN_NETWORK = "IRONFABRIC_BENCH_NETWORK"
PATIENCE = float(os.environ.get("PATIENCE", "1"))
SOURCES = ["bench.c", "control.c", "fabric.c", "latency.c", "socket.c", "stream.c", "matching.c", "endpoints.c", "peers.c",
           "atomic.c", "wakeup.c", "compute.c", "datagram.c", "setup.c", "threads.c"]


def build(folder, ours, name, sources, extra=(), options=None):
    """Compiles a program of this folder. `ours`: the folder of the library that it calls. `options` say with which headers;
    by default the program also runs on other libfabrics."""
    if options is None:
        options = releases.oldest_set(ours) if ours else []
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    here = ROOT / "benches"
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu17", "-O2", "-g", "-Wall", "-Wextra",
                    "-Wno-missing-field-initializers", *extra, "-o", str(program),
                    *(str(here / source) for source in sources), *options], check=True)
    return program


def build_limits(folder):
    return limits.Limits(build(folder, None, "limits", ["limits.c"], ["-pthread"]))


class Pair:
    """Runs a client and a server of the bench program."""

    def __init__(self, program, budget_ms, shared, provider):
        self.program, self.budget = str(program), str(budget_ms)
        self.provider, self.options = provider, ["-S"] if shared else []
        # The client gets the second core, if there is one.
        self.cores = ("0", "1") if (os.cpu_count() or 1) > 1 else ("0", "0")

    def run(self, library, work, form, xs, limit, provider=None, shared=False):
        """Lines of output as (form, x, value), or the text of a failure."""
        options = ["-P", PROVIDERS[provider or self.provider], *self.options, *["-S"] * shared]
        # Some works need many unexpected messages, and some libraries keep few by default.
        env = dict(os.environ, LD_LIBRARY_PATH=str(library), FI_TCP_MAX_SAVED="1000000")
        # tcp is measured over sockets here; with 1 its peers would use shared memory.
        env.setdefault("FI_TCP_SHARED_MEMORY", "0")
        server = subprocess.Popen([self.program, "-s", "-c", self.cores[0], *options], env=env, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        try:
            port = server.stdout.readline().strip()
            client = subprocess.run([self.program, "-p", port or "0", "-c", self.cores[1], "-t", self.budget, *options,
                                     work, form, *map(str, xs)], env=env, text=True, capture_output=True, timeout=limit)
            if client.returncode:
                server.kill()
                return (client.stderr + server.communicate()[1]).strip() or f"exit code {client.returncode}"
        except subprocess.TimeoutExpired:
            return f"not finished in {limit:.0f} s"
        finally:
            server.kill()
            server.communicate()
        lines = [line.split() for line in client.stdout.splitlines()]
        return [(words[1], int(words[2]), float(words[3])) for words in lines]


class Group:
    """Runs one collective in many processes: ours, and MPI's on either library."""

    def __init__(self, program, budget_ms, python):
        self.program, self.budget, self.python = str(program), str(budget_ms), python

    def run(self, library, work, form, xs, limit):
        """As Pair.run; `work` says who: `collective`, or `mpi`."""
        env = dict(os.environ, LD_LIBRARY_PATH=str(library), FI_PROVIDER="tcp", MPIR_CVAR_CH4_NETMOD="ofi",
                   MPIR_CVAR_NOLOCAL="1")
        lines = []
        for ranks in xs:
            command = [self.program, "-t", self.budget, form, str(ranks)]
            if work == "mpi":
                command = [self.python / "mpiexec", "-launcher", "fork", "-n", str(ranks), self.python / "python",
                           ROOT / "benches/mpi_collective.py", form, self.budget]
            try:
                done = subprocess.run(command, env=env, text=True, capture_output=True, timeout=limit)
            except subprocess.TimeoutExpired:
                return f"not finished in {limit:.0f} s"
            if done.returncode:
                return done.stderr.strip() or f"exit code {done.returncode}"
            lines += [line.split() for line in done.stdout.splitlines() if line.startswith("collective ")]
        return [(words[1], int(words[2]), float(words[3])) for words in lines]


def jobs(provider, names):
    """Tables by the run that fills them: some runs fill several."""
    together = {}
    for table in TABLES:
        if table.provider == provider and (not names or table.name in names):
            together.setdefault((table.work, table.form, table.shared), []).append(table)
    return together


def measure(runner, libraries, tables, full, rounds, distance):
    """All rounds of one work: {(table, x): {distance: {series: [values]}}}, and what failed. `distance` says how far apart the
    processors are, or is None where that does not matter; a run during which it changed counts for nothing."""
    xs = sorted({x for table in tables for x in table.xs(full)})
    values = {(table.name, x): {} for table in tables for x in table.xs(full)}
    failures = {}
    work, form = tables[0].work, tables[0].form
    asked = [None, True] if tables[0].shared else []
    runs = [(series, library, work, form, *asked) for series, library in libraries.items()
            if series == "ours" or not tables[0].ours_only]
    if tables[0].group:
        runs = [("ours", libraries["ours"], work, form), ("other", libraries["other"], "mpi", form),
                ("limit", libraries["ours"], "mpi", form)]
    if tables[0].limit:
        runs.append(("limit", libraries["ours"], *tables[0].limit))
    before = distance() if distance else ""
    for round_number in range(rounds):
        for series, library, work_name, form_name, *options in runs if round_number % 2 == 0 else runs[::-1]:
            if series in failures:
                continue
            result = runner.run(library, work_name, form_name, xs, 150 * PATIENCE, *options)
            if isinstance(result, str):
                failures[series] = result
                continue
            after = distance() if distance else ""
            for line, x, value in result if after == before else []:
                for table in tables:
                    if (series == "limit" or line == table.lines) and (table.name, x) in values:
                        values[table.name, x].setdefault(after, {}).setdefault(series, []).append(value)
            before = after
    return values, failures


def output(command, default="unknown"):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else default


CACHE = "/sys/devices/system/cpu/cpu0/cache/index2/size"
CONGESTION = "/proc/sys/net/ipv4/tcp_congestion_control"


def read(path):
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError:
        return "unknown"


def version(folder):
    """What a library says of itself, asked in a process of its own."""
    ask = ("import ctypes, sys; version = ctypes.CDLL(sys.argv[1]).fi_version(); "
           "print(f'{version >> 16}.{version & 0xffff}')")
    said = output([sys.executable, "-c", ask, str(folder / "libfabric.so.1")])
    return f"libfabric {said}"


def facts(libraries):
    """Where, when and of what the results are."""
    cpu = "unknown"
    if os.path.exists("/proc/cpuinfo"):
        names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
        cpu = names[0] if names else cpu
    changed = output(["git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!benches/results", ":!docs"], "")
    return {
        "commit": output(["git", "rev-parse", "--short=12", "HEAD"]) + (", with changes" if changed else ""),
        "date": time.strftime("%Y-%m-%d %H:%M %z"),
        "machine": f"{cpu}, {os.cpu_count()} cores, {read(CACHE)} of second-level cache, {platform.system()} {platform.release()}",
        "congestion control": read(CONGESTION),
        "load before": f"{os.getloadavg()[0]:.2f}",
        "command": shlex.join([f"benches/{pathlib.Path(sys.argv[0]).name}", *(argument for argument in sys.argv[1:] if not argument.startswith("/"))]),
        **{series: version(folder) for series, folder in libraries.items()},
    }


def lose(percent):
    """Loopback of this network is up, and drops packets."""
    drop = ("table inet loss { chain input { type filter hook input priority 0; meta l4proto udp "
            f"numgen random mod 100 < {percent} drop; }}; }}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["nft", drop], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", type=pathlib.Path)
    parser.add_argument("others", type=pathlib.Path, nargs="+", metavar="OTHER",
                        help="goals are about the first one; tables show all")
    parser.add_argument("--full", action="store_true", help="all sizes, more rounds, longer runs: half an hour")
    parser.add_argument("--quick", action="store_true", help="one short table, three rounds: a minute")
    parser.add_argument("--rounds", type=int, help="runs of each work, 5, with --full 9, or with --quick 3")
    parser.add_argument("--milliseconds", type=float, help="for each measurement of a run")
    parser.add_argument("--provider", choices=PROVIDERS, help="whose tables; that of --tables, or tcp")
    parser.add_argument("--tables", nargs="+", default=[], choices=[table.name for table in TABLES], metavar="TABLE")
    parser.add_argument("--shared", action="store_true", help="FI_THREAD_SAFE and automatic progress")
    parser.add_argument("--loss", type=int, help="in a network whose loopback drops so many of a hundred UDP packets")
    parser.add_argument("--python", type=pathlib.Path, default=ROOT / "target/python/bin",
                        help="the folder of python and mpiexec with mpi4py and MPICH (scripts/python_env.sh)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "target/bench", help="where the program is built")
    parser.add_argument("--results", type=pathlib.Path, help="a folder for CSV, Markdown and SVG")
    parser.add_argument("--page", type=pathlib.Path, help="a page of documentation with a place for the tables")
    args = parser.parse_args()
    asked = {table.provider for table in TABLES if table.name in args.tables} or {"tcp"}
    provider = args.provider or min(asked)
    if args.tables and asked != {provider}:
        parser.error("tables of one provider at a time")

    if args.quick:
        args.tables = args.tables or HEADLINES.get(provider) or parser.error(f"--quick has no tables of {provider}")
        for table in TABLES:
            table.quick = HEADLINE_SIZES
    if args.loss and not os.environ.get(OWN_NETWORK):
        os.environ[OWN_NETWORK] = "1"
        os.execvp("unshare", ["unshare", "--net", sys.executable, *sys.argv])
    if args.loss:
        lose(args.loss)

    libraries = dict(zip(report.SERIES[:-1], (folder.resolve() for folder in [args.ours, *args.others])))
    if len(libraries) <= len(args.others):
        parser.error(f"at most {len(report.SERIES) - 2} other libraries")
    for name, folder in libraries.items():
        if not (folder / "libfabric.so.1").exists():
            sys.exit(f"{name}: there is no libfabric.so.1 in {folder}")
    about = facts(libraries)
    for key, value in about.items():
        print(f"{key}: {value}")
    if os.getloadavg()[0] > 0.5 * (os.cpu_count() or 1):
        print("NOTE: the machine is busy; both sides want a core of their own.")
    print(flush=True)

    pair = Pair(build(args.build, libraries["ours"], "bench", SOURCES, ["-pthread"]),
                args.milliseconds or (60 if args.full else 15), args.shared, provider)
    group = Group(build(args.build, libraries["ours"], "collective", ["collective.c", "control.c", "fabric.c"]),
                  (args.milliseconds or 60) * 3, args.python.resolve())
    rounds = args.rounds or (9 if args.full else 3 if args.quick else 5)
    bounds = build_limits(args.build)
    distance = bounds.distance if provider in MEMORY else None
    results, failed = {}, []
    start = time.monotonic()
    bounds.measure(pair, libraries["ours"])
    for tables in jobs(provider, args.tables).values():
        values, failures = measure(group if tables[0].group else pair, libraries, tables, args.full, rounds,
                                   distance)
        for table in tables:
            rows = [row for x in table.xs(args.full) for row in report.rows_of(table, x, values[table.name, x])]
            results[table.name] = rows
            if not args.quick:
                print(report.text(table, rows), flush=True)
        for series, why in failures.items():
            failed.append(f"{tables[0].name}, {series}: {why}")
            print(f"NOT MEASURED: {failed[-1]}\n", flush=True)
    if args.quick:
        print(report.headline(results))
    bounds.measure(pair, libraries["ours"])
    for what, unit, least, median, most, count in bounds.lines():
        print(f"{what}: {report.number(median)} {unit}, {report.number(least)} to {report.number(most)} in {count} runs")
    if not args.quick:
        print(report.goals_text(results))
    print(f"{time.monotonic() - start:.0f} s")
    if args.results:
        page = report.write(args.results, results, about)
        bounds.write(args.results)
        if args.page:
            report.write_page(args.page, page, os.path.relpath(args.results, args.page.parent), provider)
    # A failure of the other library is a result; ours must not fail.
    sys.exit(any(", ours: " in line for line in failed))


if __name__ == "__main__":
    main()
