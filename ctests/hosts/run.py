#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""run.py --python-env FOLDER --library FOLDER [CASE ...]: MPI over several hosts, which are network namespaces of one machine.

Cases: plain, loss (1 % of the segments), delay (5 ms each way), clutter (twenty more interfaces on each host, and no
FI_TCP_IFACE), cut (a host loses its cable in the middle), linked (two hosts with two ranks each over lnx: shared memory
within a host, the network between), striped (two hosts with two interfaces over lnx: both carry large messages).
--provider: over another one than tcp. Without --library: the MPICH wheel's own libfabric.
Exit code 77 where namespaces are not permitted.
"""
import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hosts import Hosts, NotPermitted, enter_own_world, prepare

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "scripts" / "demo"))
from launch import SETTINGS, Failed, Library, PATIENCE, main_with_message, mpiexec, run  # noqa: E402  (found by the line above)

COUNT = 4
SKIPPED = 77
MPI = ROOT / "ctests" / "mpi"
PROGRAMS = ("collectives", "one_sided", "point_to_point")
# Milliseconds: the peer timeout of fi_tcp(7), shortened.
PEER_TIMEOUT = 4000


def programs(library, hosts, limit, modules="test_p2p_obj"):
    """What passed; `modules` of mpi4py's own tests are run, too, where there are any."""
    passed = 0
    for name in PROGRAMS:
        lines = run(library, COUNT, MPI / f"{name}.py", limit=limit, hosts=hosts)
        passed += sum(line.startswith("  ok ") for line in lines)
    text = f"{passed} checks in {', '.join(PROGRAMS)}"
    return text + (f", {suite(library, hosts, limit, modules)}" if SUITE.folder else "")


class SUITE:
    """The folder of mpi4py's source distribution, if its point-to-point tests are to be run, too."""
    folder = None


def suite(library, hosts, limit, modules):
    command = [*mpiexec(library, COUNT, hosts), "test/main.py", "-q", "-i", modules]
    try:
        done = subprocess.run([str(word) for word in command], cwd=SUITE.folder, env=library.environment(),
                              capture_output=True, text=True, errors="replace", timeout=2 * limit * PATIENCE)
    except subprocess.TimeoutExpired as slow:
        raise Failed(f"mpi4py's tests: not finished after {slow.timeout:.0f} s") from slow
    said = done.stdout + done.stderr
    ran = re.findall(r"Ran (\d+) tests", said)
    if done.returncode or len(ran) != COUNT or "0" in ran:
        raise Failed(f"mpi4py's tests: exit code {done.returncode}\n{said[-3000:]}")
    return f"{ran[0]} of mpi4py's point-to-point tests"


def plain(library):
    return programs(library, Hosts(COUNT), 120, "test_p2p")


def loss(library):
    hosts = Hosts(COUNT)
    hosts.lose(1)
    return programs(library, hosts, 300)


def delay(library):
    return programs(library, Hosts(COUNT, delay=0.005), 300)


def clutter(library):
    """Every rank has talked to every other one within a second of MPI_Init's begin."""
    hosts = Hosts(COUNT)
    for n in range(COUNT):
        hosts.clutter(n)
    lines = run(library, COUNT, HERE / "first_contact.py", limit=30, hosts=hosts)
    seconds = max(float(match[1]) for line in lines if (match := re.search(r"all peers after ([\d.]+) s", line)))
    if seconds > 1 * PATIENCE:
        raise Failed(f"the last rank had heard of all peers after {seconds:.2f} s")
    return f"all peers after {seconds:.2f} s"


def cut(library):
    """Every other rank gets an error, and the log names the peer, within the time that a peer has."""
    hosts = Hosts(COUNT)
    peer = re.escape(hosts.addresses[-1])
    others = range(COUNT - 1)
    with tempfile.TemporaryDirectory(prefix="hosts-") as scratch:
        env = dict(library.environment(), FI_TCP_PEER_TIMEOUT=str(PEER_TIMEOUT), FI_LOG_LEVEL="warn", TMPDIR=scratch)
        # An error ends the rank, which would otherwise end the others, too.
        command = mpiexec(library, COUNT, hosts)
        command[-1:-1] = ["-disable-auto-cleanup"]
        log = Path(scratch, "log")
        with log.open("w") as out:
            process = subprocess.Popen([*map(str, command), "-u", str(HERE / "exchange.py"), "600"], env=env, stdout=out,
                                       stderr=subprocess.STDOUT, start_new_session=True)
        try:
            await_lines(process, log, [rf"rank {n} goes on" for n in range(COUNT)], 60)
            hosts.cut_off(COUNT - 1)
            start = time.monotonic()
            # The library checks acknowledgements six times within the peer timeout; then MPI still has to end.
            await_lines(process, log, [rf"^\[{n}\] libfabric.*{peer}" for n in others], PEER_TIMEOUT / 1000 * 1.5 + 5)
            named = time.monotonic() - start
            await_lines(process, log, [rf"^\[{n}\] .*(Abort|OFI poll failed)" for n in others], 10)
        finally:
            process.kill()
            process.wait()
    return (f"{len(others)} ranks named {hosts.addresses[-1]} within {named:.1f} s of the cut, and ended "
            f"(FI_TCP_PEER_TIMEOUT {PEER_TIMEOUT} ms)")


def await_lines(process, log, patterns, limit):
    end = time.monotonic() + limit * PATIENCE
    while True:
        text = log.read_text(errors="replace")
        missing = [pattern for pattern in patterns if not re.search(pattern, text, re.MULTILINE)]
        if not missing:
            return
        if process.poll() is not None or time.monotonic() > end:
            raise Failed(f"not said within {limit:.0f} s: {missing}\n{text[-3000:]}")
        time.sleep(0.02)


def linked(library):
    hosts = Hosts(2)
    lines = run(library, COUNT, HERE / "linked.py", limit=120, hosts=hosts)
    told = "\n".join(lines).count("bytes on eth0")
    if told != COUNT:
        raise Failed("\n".join(lines[-20:]))
    return f"{told} ranks used the right way, {programs(library, hosts, 120)}"


def striped(library):
    """The interfaces carry 1 Gbit/s each. How much faster two of them are is told, and not judged."""
    hosts = Hosts(2)
    hosts.add_network()
    seconds = {}
    for interfaces in ("eth0", "eth0,eth1"):
        SETTINGS["FI_LNX_PROV_LINKS"] = f"tcp;ofi_rxm:{interfaces}"
        lines = run(library, 2, HERE / "striped.py", limit=120, hosts=hosts)
        # Lines of several ranks may have become one.
        each = "\n".join(lines).split("payload=")[1:]
        told = [dict(re.findall(r"(\w+)=([\d.]+)", f"payload={line}")) for line in each]
        if len(told) != 2:
            raise Failed("\n".join(lines[-20:]))
        for line in told:
            shares = [int(line[name]) / int(line["payload"]) for name in interfaces.split(",")]
            if min(shares) < 0.3 or sum(shares) < 1:
                raise Failed(f"{interfaces} carried {shares} of the payload")
        seconds[interfaces] = max(float(line["seconds"]) for line in told)
    one, two = seconds.values()
    return f"both interfaces carried large messages, {one / two:.2f} times as fast as one"


CASES = {case.__name__: case for case in (plain, loss, delay, clutter, cut, linked, striped)}
LINKS = "shm+tcp;ofi_rxm:eth0"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python-env", required=True)
    parser.add_argument("--library")
    parser.add_argument("--provider", default="tcp")
    parser.add_argument("--suite", help="the folder of mpi4py's source distribution")
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE")
    args = parser.parse_args()
    library = Library("ironfabric" if args.library else "the wheel's own", args.library, args.python_env)
    if len(args.cases) != 1:
        # Each case runs in a separate world.
        failed = skipped = 0
        for case in args.cases or CASES:
            code = subprocess.run([sys.executable, __file__, "--python-env", args.python_env,
                                   *(["--library", args.library] if args.library else []),
                                   *(["--suite", args.suite] if args.suite else []),
                                   "--provider", args.provider, case]).returncode
            failed += code not in (0, SKIPPED)
            skipped += code == SKIPPED
        print(f"{len(args.cases or CASES) - failed - skipped} cases passed, {failed} failed, {skipped} skipped")
        sys.exit(1 if failed else SKIPPED if skipped else 0)
    case, SUITE.folder = args.cases[0], args.suite
    if case in ("linked", "striped"):
        args.provider = "lnx"
    if args.provider == "lnx":
        SETTINGS["FI_LNX_PROV_LINKS"] = LINKS
    SETTINGS["FI_PROVIDER"] = args.provider
    try:
        enter_own_world()
        prepare()
        start = time.monotonic()
        result = CASES[case](library)
        print(f"ok {case}, {args.provider}: {result}, {time.monotonic() - start:.0f} s", flush=True)
    except NotPermitted as why:
        print(f"SKIPPED: {case}: {why}", flush=True)
        sys.exit(SKIPPED)
    except Failed as failure:
        raise Failed(f"{case}: {failure}") from failure


if __name__ == "__main__":
    main_with_message(main)
