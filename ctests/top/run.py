#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""run.py LIBRARY [--python-env FOLDER] [NAME ...]: fi_top and dumps, as a user sees them, on processes that do something.

Without the Python environment, which has MPICH and mpi4py, the test of a job that hangs is left out.
"""
import argparse
import contextlib
import json
import os
import pathlib
import pty
import random
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE = float(os.environ.get("PATIENCE", "1"))
LIMIT = 30 * PATIENCE
SKIPPED = 77
NAME, SIZE, HEAD, RECORD = "ironfabric-stats", 32768, 1024, 768
MAGIC, VERSION = struct.unpack("=Q", b"fi_stats")[0], 1
# The tag of fi_pingpong, and the size of each message here.
TAG, BYTES = 0x4D2, 64
SETTINGS = {"FI_LOG_LEVEL": "warn"}


class Failed(Exception):
    pass


def check(truth, *what):
    if not truth:
        raise Failed(" ".join(map(str, what)))


def until(what, ask):
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if found := ask():
            return found
        time.sleep(0.05)
    raise Failed(f"not within {LIMIT:.0f} s: {what}")


class Case:
    def __init__(self, library, python_env, scratch):
        self.library, self.python_env, self.scratch = library, python_env, scratch
        self.children = []

    def env(self, **more):
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FI_")}
        return {**kept, "LD_LIBRARY_PATH": str(self.library), **SETTINGS, **more}

    def top(self, *arguments, code=0):
        done = subprocess.run([self.library / "fi_top", *map(str, arguments)], env=self.env(), capture_output=True, text=True,
                              timeout=LIMIT)
        check(done.returncode == code, "fi_top", *arguments, "exit code", done.returncode, done.stdout, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def processes(self, *arguments):
        return {one["pid"]: one for one in json.loads(self.top("--json", *arguments))["processes"]}

    def start(self, command, **more):
        log = open(self.scratch / f"log{len(self.children)}", "w+")
        child = subprocess.Popen([str(part) for part in command], env=self.env(**more), stdin=subprocess.DEVNULL,
                                 stdout=log, stderr=log, start_new_session=True)
        child.said = lambda: pathlib.Path(log.name).read_text()
        self.children.append(child)
        return child

    def game(self, provider="tcp", **more):
        """Two that send each other tagged messages of 64 bytes until they are ended."""
        options = ["-p", provider, "-d", {"tcp": "lo"}.get(provider, provider), "-e", "rdm", "-m", "tagged", "-S", BYTES,
                   "-I", 999_999_999]
        server = self.start([self.library / "fi_pingpong", "-B", 0, *options], **more)
        said = until("the server's port", lambda: re.search(r"^control port (\d+)$", server.said(), re.M))
        client = self.start([self.library / "fi_pingpong", "-P", said[1], *options, "127.0.0.1"], **more)
        return server, client

    def end(self):
        for child in self.children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def endpoint(process):
    check(len(process["endpoints"]) == 1, process)
    return process["endpoints"][0]


def threads_of(pid):
    return [path.read_text().strip() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/comm")]


def test_counters(case):
    """What is counted, in each output."""
    for provider in ("tcp", "shm"):
        pids = {child.pid for child in case.game(provider)}

        def playing():
            found = case.processes()
            busy = pids <= found.keys() and all(endpoint(found[pid])["kinds"]["recv"]["operations"] > 1000 for pid in pids)
            # Current state is gathered less often than operations are counted. Each message takes at least a line of
            # the ring.
            moved = (endpoint(found[pid])["now"]["memory_bytes_out"] for pid in pids) if busy else ()
            return found if busy and all(bytes_out >= 1000 * BYTES for bytes_out in moved) else None
        for pid, process in until("a thousand messages", playing).items():
            if pid not in pids:
                continue
            one = endpoint(process)
            check((one["provider"], one["type"]) == (provider, "rdm"), one)
            kinds, now = one["kinds"], one["now"]
            sent, received = kinds.pop("tsend"), kinds.pop("recv")
            for what in (sent, received):
                check(what["bytes"] == BYTES * what["operations"], provider, what)
            check(abs(sent["operations"] - received["operations"]) <= 2, sent, received)
            check(all(kind == {"operations": 0, "bytes": 0} for kind in kinds.values()), kinds)
            check(now["receives"] <= 2 and now["peers_opening"] == 0, now)
            check(one["counts"]["connected"] >= 1 and not one["counts"]["failed"], one["counts"])
            check(now["memory_bytes_in"] > 0, now, sent)
            check(now["memory_bytes_out"] < 10 * max(sent["bytes"], 10_000), now, sent)
        table = case.top("--once").splitlines()
        columns = table[0].split()
        for pid in pids:
            row = next(line for line in table if line.split()[0] == str(pid)).split()
            check(len(row) == len(columns) and row[columns.index("PROVIDER")] == provider, row)
        check("tsend" in case.top("--once", "--pid", min(pids)))
        samples = case.top("--prometheus")
        for pid in pids:
            found = re.search(rf'^ironfabric_operations_total{{pid="{pid}",.*kind="tsend"}} (\d+)$', samples, re.M)
            check(found and int(found[1]) > 1000, samples[:2000])
        case.end()


def test_sockets(case):
    """Without shared memory the bytes of a peer are those that TCP has counted."""
    server, _ = case.game(FI_TCP_SHARED_MEMORY="0")

    def playing():
        one = case.processes().get(server.pid)
        return one if one and endpoint(one)["kinds"]["recv"]["operations"] > 1000 and endpoint(one)["now"]["peers"] else None
    one = endpoint(until("a thousand messages", playing))
    now = one["now"]
    check(now["socket_bytes_out"] > BYTES * 900 and now["socket_bytes_in"] > BYTES * 900, now)
    check(now["peers_memory"] == 0 and now["memory_bytes_out"] == 0, now)


def test_links(case):
    """An endpoint of lnx and those of its rails are listed, each with its state."""
    pids = {child.pid for child in case.game("lnx", FI_LNX_PROV_LINKS="shm")}

    def playing():
        found = case.processes()
        ends = {pid: {one["provider"]: one for one in found[pid]["endpoints"]} for pid in pids & found.keys()}
        return ends if len(ends) == 2 and all(one["lnx"]["now"]["peers"] for one in ends.values()) else None
    for ends in until("peers of lnx", playing).values():
        check(ends.keys() == {"lnx", "shm"}, ends)
        check(ends["lnx"]["now"]["peers_memory"] == 1 and ends["lnx"]["now"]["receives"] <= 2, ends["lnx"])
        check(ends["lnx"]["kinds"]["recv"]["operations"] > 0, ends["lnx"])


def test_off(case):
    """FI_STATS=0, and a process that may have no memory: it works on."""
    server, client = case.game(FI_STATS="0")
    # The shared memory, which is made when they connect.
    until("the game", lambda: "memfd:ironfabric " in pathlib.Path(f"/proc/{client.pid}/maps").read_text())
    check(not {server.pid, client.pid} & case.processes().keys())
    check("has no counters" in case.top("--once", "--pid", server.pid, code=1))
    check("has no counters" in case.top("--dump", server.pid, code=1))
    case.end()
    # With this limit a file of any size is too large, including memory.
    command = f"ulimit -f 0; exec {case.library}/fi_pingpong -B 0 -p tcp -d lo -e rdm"
    options = {"FI_TCP_SHARED_MEMORY": "0", "FI_LOG_LEVEL": "info"}
    done = subprocess.Popen(["bash", "-c", command], env=case.env() | options, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    case.children.append(done)
    lines = []
    for line in done.stdout:
        lines.append(line)
        if found := re.match(r"control port (\d+)$", line):
            client = [case.library / "fi_pingpong", "-P", found[1], "-p", "tcp", "-d", "lo", "-e", "rdm", "127.0.0.1"]
            played = subprocess.run(client, env=case.env(FI_TCP_SHARED_MEMORY="0"), capture_output=True, text=True, timeout=LIMIT)
            check(played.returncode == 0, played)
    check(done.wait(LIMIT) == 0, *lines)
    told = [line for line in lines if "no counters for fi_top" in line]
    check(len(told) == 1, *lines)


def test_forked(case):
    """A child counts for itself, and nobody sees it until it opens a domain of its own."""
    program = [sys.executable, HERE / "forked.py", HERE.parent.parent / "examples/python/roundtrip.py", case.library / "libfabric.so.1"]
    process = subprocess.Popen(program, env=case.env(FI_TCP_SHARED_MEMORY="0"), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True, start_new_session=True)
    case.children.append(process)

    def step(wanted):
        word, pid = process.stdout.readline().split()
        check(word == wanted, word)
        return int(pid)

    def counts(pid):
        found = case.processes().get(pid)
        return found and [tuple(one["kinds"][kind]["operations"] for kind in ("send", "recv")) for one in found["endpoints"]]

    def go_on():
        process.stdin.write("x")
        process.stdin.flush()

    parent = step("parent")
    check(counts(parent) == [(5, 5), (5, 5)], counts(parent))
    go_on()
    child = step("child")
    check(counts(parent) == [(5, 5), (5, 5)], "the child counts for its parent", counts(parent))
    check(counts(child) is None, counts(child))
    go_on()
    step("own")
    check(sorted(counts(child)) == [(0, 3), (3, 0)], counts(child))
    check(counts(parent) == [(5, 5), (5, 5)], counts(parent))
    go_on()
    check(process.wait(LIMIT) == 0)


def test_gone(case):
    """Nothing is left of a process that was killed."""
    server, client = case.game()
    until("counters", lambda: {server.pid, client.pid} <= case.processes().keys())
    case.end()
    check(not {server.pid, client.pid} & case.processes().keys())
    check(not [name for name in os.listdir("/dev/shm") if "stats" in name], os.listdir("/dev/shm"))


def block(words):
    """Bytes of counters of this process, as the library writes them, but for these words."""
    stat = pathlib.Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
    all_words = [0] * (SIZE // 8)
    all_words[:4] = [MAGIC, VERSION, os.getpid(), int(stat[19])]
    for at, word in words.items():
        all_words[at] = word
    return struct.pack(f"={SIZE // 8}Q", *all_words)


@contextlib.contextmanager
def own_counters(content):
    fd = os.memfd_create(NAME)
    try:
        os.write(fd, content)
        yield fd
    finally:
        os.close(fd)


def test_hostile(case):
    """Counters that nobody of ours has written."""
    own = os.getpid()
    first = HEAD // 8
    # The tests below depend on this version of the format.
    with own_counters(block({first: 2, first + 2: 3})):
        check(own in case.processes(), "this test does not know the format")
    others = {
        "nothing": b"",
        "too short": block({})[:-8],
        "too long": block({}) + b"x",
        "another magic": block({0: 1}),
        "another version": block({1: 2}),
        "another process": block({2: 1}),
        "an older process": block({3: 1}),
        "zeros": bytes(SIZE),
    }
    for what, content in others.items():
        with own_counters(content):
            check(own not in case.processes(), what)
    numbers = random.Random(1)
    for _ in range(5):
        words = {at: numbers.choice([0, 2, numbers.getrandbits(64), 2**64 - 1]) for at in range(4, SIZE // 8)}
        # Readers may find it in use, but never during a move.
        for record in range(first, SIZE // 8 - RECORD // 8, RECORD // 8):
            words[record] = 2
            for tally in range(9):
                words[record + 16 + 4 * tally + 3] = 2
        with own_counters(block(words)):
            found = case.processes()[own]
            check(len(found["endpoints"]) == (SIZE - HEAD) // RECORD, len(found["endpoints"]))
            for arguments in (["--once"], ["--once", "--pid", own], ["--prometheus"]):
                text = case.top(*arguments)
                check(all(" " <= c <= "~" or c == "\n" for c in text), repr(text[:500]))
    # The file becomes shorter while it is read.
    with own_counters(block({first: 2})) as fd:
        command = [case.library / "fi_top", "--serve", "0"]
        server = subprocess.Popen(command, env=case.env(), stdout=subprocess.PIPE, text=True, start_new_session=True)
        case.children.append(server)
        url = server.stdout.readline().strip()
        for size in (SIZE, 100, SIZE, 0):
            os.ftruncate(fd, size)
            check(urllib.request.urlopen(url, timeout=LIMIT).status == 200)
        check(server.poll() is None)


def test_serve(case):
    server, _ = case.game()
    until("counters", lambda: server.pid in case.processes())
    process = subprocess.Popen([case.library / "fi_top", "--serve=0"], env=case.env(), stdout=subprocess.PIPE, text=True,
                               start_new_session=True)
    case.children.append(process)
    url = process.stdout.readline().strip()
    check(re.fullmatch(r"http://127\.0\.0\.1:\d+/metrics", url), url)
    text = urllib.request.urlopen(url, timeout=LIMIT).read().decode()
    check(f'pid="{server.pid}"' in text, text[:1000])
    try:
        urllib.request.urlopen(url.replace("metrics", "other"), timeout=LIMIT)
        raise Failed("a page that is not there was served")
    except urllib.error.HTTPError as error:
        check(error.code == 404, error)
    # Clients that are silent or send nonsense delay no others.
    port = int(url.split(":")[2].split("/")[0])
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
    with socket.create_connection(("127.0.0.1", port)) as other:
        other.sendall(b"\0" * 100 + b"\r\n\r\n")
    begin = time.monotonic()
    check(urllib.request.urlopen(url, timeout=LIMIT).status == 200)
    check(time.monotonic() - begin < 1.5 * PATIENCE, "silent clients delayed another one by", time.monotonic() - begin)
    for one in silent:
        one.close()


def test_screen(case):
    """On a terminal: pictures, keys, and the terminal as it was."""
    server, _ = case.game()
    until("counters", lambda: server.pid in case.processes())
    child, fd = pty.fork()
    if child == 0:
        os.execve(case.library / "fi_top", ["fi_top", "-d", "0.1"], case.env(TERM="xterm"))
    seen, keys = b"", [b"m", b"p", b" ", b"q"]
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        if not select.select([fd], [], [], 0.3)[0]:
            continue
        try:
            piece = os.read(fd, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
        if keys and seen.count(b"fi_top on ") > 2 * (4 - len(keys)):
            os.write(fd, keys.pop(0))
    if keys:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    check(os.waitstatus_to_exitcode(status) == 0, "fi_top ends with", status)
    text = seen.decode(errors="replace")
    check(text.startswith("\x1b[?1049h") and text.endswith("\x1b[?1049l"), repr(text[:100]), repr(text[-100:]))
    # A terminal without a size counts as one of 80 columns.
    for words in ("OUT/s", "WAIT", str(server.pid), "by Messages", "by Pid"):
        check(words in text, words, "is not in", repr(text[-2000:]))
    check("no terminal" in case.top(code=1))


def dumped(case, pid, peer, **_):
    """What the process says when fi_top asks for it, both forms."""
    text = case.top("--dump", pid)
    said = json.loads(case.top("--dump", pid, "--json"))
    check(said["pid"] == pid and len(said["domains"]) == 1, said)
    domain = said["domains"][0]
    check(domain["busy"] is False and f"domain {domain['number']} of {domain['provider']}" in text, domain)
    one = domain["endpoints"][0]
    check(any(other["connected"] for other in one["peers"]), one["peers"])
    check(any(peer in other["address"] for other in one["peers"]) and peer in text, peer, one["peers"])
    return text, one


def test_dump(case):
    """By a word that is looked at when somebody polls; by a signal; into the log."""
    dumps = case.scratch / "dump"
    for more in ({}, {"FI_DUMP_ON_SIGNAL": "USR2"}):
        server, client = case.game(FI_DUMP_FILE=str(dumps), **more)
        found = until("counters", lambda: (all_ := case.processes()).keys() >= {server.pid, client.pid} and all_)
        address = endpoint(found[client.pid])["address"]
        until("messages", lambda: endpoint(case.processes()[server.pid])["kinds"]["recv"]["operations"] > 100)
        # Only a process with FI_DUMP_ON_SIGNAL has the dump thread.
        check(threads_of(server.pid).count("fi-dump") == len(more), threads_of(server.pid), more)
        text, one = dumped(case, server.pid, address)
        receives = {receive["tag"] for receive in one["receives"]}
        check(receives <= {hex(TAG)}, receives)
        check(one["tsend_bytes"] == BYTES * one["tsend"], one)
        files = sorted(path.name for path in case.scratch.glob(f"dump.{server.pid}.*"))
        check(files == [f"dump.{server.pid}.{n}.{kind}" for n in (1, 2) for kind in ("json", "txt")], files)
        check(all(path.stat().st_mode & 0o777 == 0o600 for path in case.scratch.glob("dump.*")))
        # The processes continue.
        before = endpoint(case.processes()[server.pid])["kinds"]["recv"]["operations"]
        until("more messages", lambda: endpoint(case.processes()[server.pid])["kinds"]["recv"]["operations"] > before)
        case.end()
    server, _ = case.game(FI_DUMP_FILE="log", FI_DUMP_ON_SIGNAL="SIGURG")
    until("counters", lambda: server.pid in case.processes())
    os.kill(server.pid, signal.SIGURG)
    until("the log", lambda: "dump: domain 0 of tcp" in server.said())
    check("to the log" in case.top("--dump", server.pid))
    case.end()
    server, _ = case.game(FI_DUMP_FILE=str(case.scratch / "none" / "dump"))
    until("counters", lambda: server.pid in case.processes())
    said = case.top("--dump", server.pid, code=1)
    check("cannot write its dump (FI_DUMP_FILE): No such file" in said, said)
    case.end()
    for wrong in ("KILL", "no such", "SEGV"):
        server, _ = case.game(FI_DUMP_ON_SIGNAL=wrong)
        until("the log", lambda: f"FI_DUMP_ON_SIGNAL={wrong} has no effect" in server.said())
        case.end()


def test_silent(case):
    """Who makes no calls, and has no thread for it, does not answer, and fi_top says so."""
    server, _ = case.game()
    until("counters", lambda: server.pid in case.processes())
    os.kill(server.pid, signal.SIGSTOP)
    check("does not answer" in case.top("--dump", server.pid, code=1))
    time.sleep(0.5)
    now = endpoint(case.processes()[server.pid])["now"]
    case.top("--once")
    check(endpoint(case.processes()[server.pid])["now"]["peers"] is None, now)


def test_hang(case):
    """An MPI job of which one rank never sends: the dump of the one that waits names it and the tag."""
    if not case.python_env:
        return "there is no Python environment with MPICH"
    python = case.python_env / "bin"
    for provider in ("tcp", "shm"):
        more = {"MPIR_CVAR_CH4_NETMOD": "ofi", "MPIR_CVAR_NOLOCAL": "1", "FI_PROVIDER": provider, "TMPDIR": str(case.scratch),
                "FI_DUMP_FILE": str(case.scratch / provider)}
        for signal_name in ("", "USR2"):
            if signal_name:
                more["FI_DUMP_ON_SIGNAL"] = signal_name
            job = case.start([python / "mpiexec", "-launcher", "fork", "-n", 2, python / "python", HERE / "hang.py"], **more)

            def started():
                found = dict(re.findall(r"^rank (\d) (\d+)$", job.said(), re.M))
                return found if len(found) == 2 else None
            ranks = {int(rank): int(pid) for rank, pid in until("both ranks", started).items()}
            time.sleep(1)
            sleeper = endpoint(case.processes()[ranks[1]])["address"]
            text, one = dumped(case, ranks[0], sleeper)
            waiting = [receive for receive in one["receives"] if receive["tagged"]]
            check(len(waiting) == 1 and waiting[0]["bytes"] == 80, waiting)
            check(int(waiting[0]["tag"], 16) & 0xFFFF == 77, waiting)
            check(sleeper in waiting[0]["address"], waiting, sleeper)
            check(waiting[0]["age_ms"] >= 300, waiting)
            check(re.search(r"tagged receive, tag 0x\w*4d .*" + re.escape(sleeper) + r".*for more than", text), text)
            if signal_name:
                # The other one makes no calls, and still answers.
                _, other = dumped(case, ranks[1], endpoint(case.processes()[ranks[0]])["address"])
                check(not [receive for receive in other["receives"] if receive["tagged"]], other["receives"])
            case.end()
    return None


PROBES = {"post": 4, "match": 3, "complete": 3, "connect": 3, "lose": 4}


def test_probes(case):
    """Probes are in the file, with their arguments; where perf may set them, they tell of what happens."""
    library = case.library / "libfabric.so.1"
    notes = subprocess.run(["readelf", "-n", library], capture_output=True, text=True, check=True).stdout
    found = re.findall(r"Provider: ironfabric\n +Name: (\w+)\n +Location: 0x0*([1-9a-f]\w*),.*\n +Arguments: (.*)\n", notes)
    counts = {name: {len(arguments.split()) for other, _, arguments in found if other == name} for name, _, _ in found}
    check(counts == {name: {arguments} for name, arguments in PROBES.items()}, counts, notes[:2000])
    check(len({place for _, place, _ in found}) == len(found), "probes at one place")
    if os.geteuid() != 0 or not shutil.which("perf"):
        return "perf, or the right to set probes, is not here: what probes tell was not tested"
    file = library.resolve()
    run = lambda *command, **more: subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, **more)  # noqa: E731
    run("perf", "buildid-cache", "--add", file)
    try:
        if run("perf", "probe", "-q", "-x", file, "sdt_ironfabric:connect", "sdt_ironfabric:lose").returncode:
            return "perf cannot set probes here: what they tell was not tested"
        options = ["-p", "tcp", "-d", "lo", "-e", "rdm", "-S", "64", "-I", "5"]
        server = case.start([case.library / "fi_pingpong", "-B", 0, *options])
        said = until("the server's port", lambda: re.search(r"^control port (\d+)$", server.said(), re.M))
        data = case.scratch / "perf.data"
        done = run("perf", "record", "-q", "-o", data, "-e", "sdt_ironfabric:connect", "--", case.library / "fi_pingpong", "-P",
                   said[1], *options, "127.0.0.1", env=case.env())
        check(done.returncode == 0, done)
        told = run("perf", "script", "-i", data).stdout
        check(len(re.findall(r"sdt_ironfabric:connect: \(\w+\) arg1=\d+ arg2=\d+ arg3=\d+", told)) == 1, told)
    finally:
        run("perf", "probe", "-q", "-d", "sdt_ironfabric:*")
        run("perf", "buildid-cache", "--remove", file)
    return None


TESTS = {name[5:]: test for name, test in list(globals().items()) if name.startswith("test_")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--python-env", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_intermixed_args()
    env = args.python_env and args.python_env.absolute()
    skipped, failed = [], []
    for name in args.names or TESTS:
        with tempfile.TemporaryDirectory() as scratch:
            case = Case(args.library.resolve(), env if env and (env / "bin/mpiexec").exists() else None, pathlib.Path(scratch))
            start = time.monotonic()
            try:
                if why := TESTS[name](case):
                    skipped.append(f"{name}: {why}")
                    continue
                print(f"ok      {time.monotonic() - start:5.1f} s  {name}", flush=True)
            except (Failed, subprocess.TimeoutExpired, OSError, KeyError, ValueError) as failure:
                failed.append(name)
                print(f"FAILED  {name}: {type(failure).__name__}: {failure}", flush=True)
                for child in case.children:
                    if hasattr(child, "said"):
                        print("    " + child.said()[-1000:].replace("\n", "\n    "))
            finally:
                case.end()
    for why in skipped:
        print(f"NOT TESTED {why}")
    print(f"{len(args.names or TESTS) - len(failed) - len(skipped)} passed, {len(failed)} failed, {len(skipped)} skipped")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
