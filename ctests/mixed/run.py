#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""run.py OURS OTHER [CASE ...]: two processes, each on its own libfabric, talk over tcp, udp or what is layered over
them; every byte is checked.

OURS and OTHER are folders with a libfabric.so.1. The program is compiled once, for the oldest release in src/abi/releases.tsv,
and runs on either by LD_LIBRARY_PATH. Each
case runs with ours as server and the other as client, the other way round, and with ours on both sides. A CASE is a part
of a case's name. --long runs everything: 1 GiB messages, 1000 crossings, more restarts, the other library with itself.
If there is no libfabric.so.1 in OTHER, ours talks to itself and the exit code is 77. Cases with loss run in a network of
their own, whose loopback drops packets: that needs root, iproute2 and nftables; else they are left out, with the same code.
"""
import argparse
import ctypes
import os
import pathlib
import selectors
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "scripts"))
import releases  # noqa: E402
PATIENCE = float(os.environ.get("PATIENCE", "1"))
SKIPPED = 77

SIZES = [0, 1, 64, 65, 128, 129, 16383, 16384, 16385, 131072, 131073, 1 << 20]
GIB = [1 << 30]
INJECTED = [0, 1, 64, 65, 128, 8000]
PRIVATE = [0, 1, 255, 256]
MIXED = ("ours-other", "other-ours")
SIDES = (*MIXED, "ours-ours")
OURS_SERVES = ("ours-other", "ours-ours")
CONTROL = "other-other"

# The lowest possible limit: a sender on that side announces messages above it first.
LOW = {"FI_TCP_MAX_SAVED_SIZE": "16384"}
# Two processes of ours would share memory, but the wire is the subject of these tests. Both sides inject the same sizes.
WIRE = {"FI_TCP_SHARED_MEMORY": "0", "FI_TCP_MAX_INJECT": "8192"}
MEMORY = {"FI_TCP_SHARED_MEMORY": "1"}


class Case:
    """One run of the program: its name, its arguments, and what either side finds in its environment."""

    def __init__(self, name, program, *options, provider="tcp", sizes=(), sides=SIDES, server=None, client=None, limit=20,
                 long=False, loss=0, since=None):
        self.name, self.sides, self.limit, self.long, self.loss = name, sides, limit, long, loss
        self.since = since  # the release from which on the other library has what the case needs
        self.command = [program, f"provider={provider}", *options]
        self.command += [f"sizes={','.join(map(str, sizes))}"] if sizes else []
        self.environment = {"server": server or {}, "client": client or {}}


def messages(kind, *options):
    """The cases of one kind of message: untagged and tagged without a connection, or connected."""
    def case(name, program, *further, **more):
        return Case(f"{kind} {name}", program, *options, *further, **more)

    return [
        case("ping-pong", "pingpong", "rounds=3", sizes=SIZES),
        case("ping-pong, sleeping", "pingpong", "rounds=3", "waits", sizes=SIZES),
        case("ping-pong, delivery complete", "pingpong", "rounds=3", "delivery", sizes=SIZES),
        case("ping-pong, 1 GiB", "pingpong", "rounds=1", sizes=GIB, limit=120, long=True),
        case("late", "late", sizes=SIZES),
        case("late, delivery complete", "late", "delivery", sizes=SIZES),
        case("window", "window", "rounds=3", sizes=SIZES),
        case("window, delivery complete", "window", "rounds=2", "delivery", sizes=SIZES),
        case("data", "data", sizes=SIZES),
        case("inject", "inject", "rounds=20", sizes=INJECTED),
    ]


def rma(kind, *options):
    return [
        Case(f"{kind} rma", "rma", *options, sizes=SIZES),
        Case(f"{kind} rma, virtual addresses", "rma", "basic", *options, sizes=SIZES),
        Case(f"{kind} rma, delivery complete", "rma", "delivery", *options, sizes=SIZES),
        Case(f"{kind} rma, 1 GiB", "rma", *options, sizes=GIB, limit=120, long=True),
    ]


def rendezvous(where, **low):
    """The sender alone decides to offer a message first; the receiver's limit decides what it keeps without a receive."""
    return [
        Case(f"rendezvous, {where}: ping-pong", "pingpong", "tagged", "rounds=3", sizes=SIZES, **low),
        Case(f"rendezvous, {where}: delivery complete", "pingpong", "tagged", "delivery", "rounds=3", sizes=SIZES, **low),
        Case(f"rendezvous, {where}: late", "late", "tagged", sizes=SIZES, **low),
        Case(f"rendezvous, {where}: window", "window", "tagged", "rounds=2", sizes=SIZES, **low),
        Case(f"rendezvous, {where}: data", "data", "tagged", sizes=SIZES, **low),
    ]


def layered(name, provider, sizes, atomics=("atomics",), **more):
    """RDM endpoints over another provider's, in all they have."""
    def case(what, program, *options, **further):
        return Case(f"{name} {what}", program, *options, provider=provider, **(more | further))

    largest = max(sizes)
    # Upstream's rxd does not finish large messages that are received in another order than they were sent.
    kept = sizes if name == "rxm" else [size for size in sizes if size < 16384]
    for kind, options in (("tagged", ["tagged"]), ("untagged", [])):
        yield case(f"{kind} ping-pong", "pingpong", "rounds=3", *options, sizes=sizes)
        yield case(f"{kind} ping-pong, sleeping", "pingpong", "rounds=3", "waits", *options, sizes=sizes)
        yield case(f"{kind} ping-pong, delivery complete", "pingpong", "rounds=3", "delivery", *options, sizes=sizes)
        yield case(f"{kind} late", "late", *options, sizes=kept)
        yield case(f"{kind} window", "window", "rounds=3", *options, sizes=sizes, limit=60)
        yield case(f"{kind} data", "data", *options, sizes=sizes)
        yield case(f"{kind} inject", "inject", "rounds=20", *options, sizes=[0, 1, 63, 64])
    # Upstream's rxd does not finish an access of zero bytes.
    some = sizes if name == "rxm" else [size for size in sizes if size]
    yield case("rma", "rma", sizes=some)
    yield case("rma, delivery complete", "rma", "delivery", sizes=some)
    yield case("atomic", "atomic", *atomics, "rounds=10")
    if largest >= 1 << 20:
        yield case("multi-receive", "multi", "rounds=8", sizes=sizes)


def rxm():
    yield from layered("rxm", "tcp;ofi_rxm", SIZES)
    # Both ends have to agree on each of these.
    for name, settings in (("rendezvous by write", {"FI_OFI_RXM_USE_RNDV_WRITE": "1"}),
                           ("small buffers", {"FI_OFI_RXM_BUFFER_SIZE": "256", "FI_OFI_RXM_SAR_LIMIT": "2048", "FI_TCP_MAX_INJECT": "128"}),
                           ("no segments", {"FI_OFI_RXM_SAR_LIMIT": "1"})):
        for program in ("pingpong", "late", "window"):
            yield Case(f"rxm {name}: {program}", program, "tagged", "rounds=2", provider="tcp;ofi_rxm", sizes=SIZES,
                       server=settings, client=settings, limit=60)
    yield Case("rxm crossing", "crossing", "tagged", "rounds=300", provider="tcp;ofi_rxm", limit=60)
    yield Case("rxm crossing, often", "crossing", "tagged", "rounds=1000", provider="tcp;ofi_rxm", limit=300, long=True)


PLAIN = ("atomics", "plain")
RXD_SIZES = [0, 1, 1256, 1257, 1424, 1440, 1441, 1456, 1457, 16384, 131072]


def rxd():
    yield from layered("rxd", "udp;ofi_rxd", RXD_SIZES, PLAIN)
    for loss, count in ((1, 20), (10, 3)):
        for program in ("pingpong", "window"):
            yield Case(f"rxd {program}, {loss} % lost", program, "tagged", f"rounds={count}", provider="udp;ofi_rxd", loss=loss,
                       sizes=[8, 1024, 16384], limit=60)
        yield Case(f"rxd rma, {loss} % lost", "rma", "delivery", provider="udp;ofi_rxd", loss=loss, sizes=[8, 16384], limit=60)
        yield Case(f"rxd atomic, {loss} % lost", "atomic", *PLAIN, f"rounds={count}", provider="udp;ofi_rxd", loss=loss,
                   limit=60)


# The kernel's buffer for a socket has room for a hundred small ones.
DATAGRAMS = [0, 1, 8, 1000, 1472]


def udp():
    for waits in ([], ["waits"]):
        name = ", sleeping" if waits else ""
        yield Case(f"udp ping-pong{name}", "pingpong", "dgram", "rounds=50", *waits, provider="udp", sizes=DATAGRAMS)
        yield Case(f"udp window{name}", "window", "dgram", "rounds=20", *waits, provider="udp", sizes=DATAGRAMS)
    yield Case("udp inject", "inject", "dgram", "rounds=50", provider="udp", sizes=DATAGRAMS)


# lnx of the other library has tagged messages only, and its receive queue must fit the one of rxm. Over "shm" ours have
# the shared memory of this library, which the other one's processes do not share: the network carries those messages.
LINKED = {"FI_OFI_RXM_RX_SIZE": "1024"}


def linked():
    for links in ("tcp;ofi_rxm:lo", "shm+tcp;ofi_rxm:lo"):
        settings = {**LINKED, "FI_LNX_PROV_LINKS": links}

        def case(name, program, *options, **more):
            return Case(f"lnx, {links}: {name}", program, "tagged", "linked", *options, provider="lnx", server=settings,
                        client=settings, since=(2, 3), **more)

        yield case("ping-pong", "pingpong", "rounds=3", sizes=SIZES)
        yield case("late", "late", sizes=SIZES)
        yield case("window", "window", "rounds=3", sizes=SIZES, limit=60)
        yield case("data", "data", sizes=SIZES)
        yield case("inject", "inject", "rounds=20", sizes=[0, 1, 40])


# Left out on purpose, because upstream cannot do it: more than 64 unexpected tagged messages of a peer (it stops
# reading for good); an untagged message that only ends after another that has no receive yet (its receiver keeps none
# and stops reading, acknowledgements and read responses included); wrong keys (the writer gets a success, then loses
# the connection); wildcard listeners (a peer is identified by the address from which it connects); operations to a peer
# that is gone (it tries for ever). Every process here has a process id of its own, which upstream needs to distinguish
# a restart from a repetition.
CASES = [
    *messages("tagged", "tagged"),
    *messages("untagged"),
    Case("untagged multi-receive", "multi", "rounds=8", sizes=SIZES),
    Case("untagged multi-receive, over memory", "multi", "rounds=8", sizes=SIZES, sides=("ours-ours",), server=MEMORY, client=MEMORY),
    *rma("rdm"),
    *rendezvous("server", server=LOW),
    *rendezvous("client", client=LOW),
    *rendezvous("both", server=LOW, client=LOW),
    *messages("msg", "msg"),
    *rma("msg", "msg"),
    Case("connect", "connect", "msg", "rounds=3", sizes=PRIVATE),
    Case("crossing, tagged", "crossing", "tagged", "rounds=300", sides=MIXED),
    Case("crossing, untagged", "crossing", "rounds=200"),
    Case("crossing, sleeping", "crossing", "tagged", "waits", "rounds=100"),
    Case("crossing, tagged, among ours", "crossing", "tagged", "rounds=1000", sides=("ours-ours",), limit=60),
    Case("crossing, tagged, often", "crossing", "tagged", "rounds=5000", limit=300, long=True),
    Case("crossing, untagged, often", "crossing", "rounds=1000", limit=120, long=True),
    # Our process is the survivor. An upstream survivor tries to connect for ever, without an error.
    *(Case(f"restart, {kind}, the {first} first{often}", "restart", *options, *connects, "delivery", f"rounds={rounds}",
           server={"FI_TCP_CONN_TIMEOUT": "500"}, sides=OURS_SERVES, limit=60, long=bool(often))
      for kind, options in (("tagged", ["tagged"]), ("untagged", []), ("msg", ["msg"]))
      for first, connects in (("server", []), ("client", ["client_first"]))
      for rounds, often in ((7, ""), (70, ", often"))),
    # The same with an upstream survivor, as far as possible: the client dies while nothing is in flight.
    *(Case(f"restart, {kind}, idle, the other survives", "restart", *options, "delivery", "rounds=3",
           sides=("other-ours", CONTROL), long=True)
      for kind, options in (("tagged", ["tagged"]), ("untagged", []), ("msg", ["msg"]))),
    *rxm(),
    *rxd(),
    *udp(),
    *linked(),
]


class Failed(Exception):
    """Why a case failed."""


class Network:
    """A network of its own for two processes of one host, whose loopback drops `loss` of a hundred packets."""

    def __init__(self, loss):
        self.name = f"mixed{os.getpid()}"
        self.command = ["ip", "netns", "exec", self.name]
        drop = (f"table inet loss {{ chain input {{ type filter hook input priority 0; meta l4proto udp "
                f"numgen random mod 100 < {loss} drop; }}; }}")
        subprocess.run(["ip", "netns", "add", self.name], check=True, capture_output=True)
        try:
            subprocess.run(["ip", "-n", self.name, "link", "set", "lo", "up"], check=True, capture_output=True)
            subprocess.run([*self.command, "nft", drop], check=True, capture_output=True)
        except subprocess.CalledProcessError:
            self.end()
            raise

    def end(self):
        subprocess.run(["ip", "netns", "del", self.name], check=True)


def why_no_loss():
    """Why no case can run with loss; None if it can."""
    missing = [tool for tool in ("ip", "nft") if not shutil.which(tool)]
    if missing:
        return f"{' and '.join(missing)} not here (Debian: iproute2, nftables)"
    try:
        Network(1).end()
    except subprocess.CalledProcessError as error:
        return f"no network of its own: {error.stderr.decode().strip()}"
    return None


class Side:
    """One process and the lines it wrote."""

    def __init__(self, role, library, program, case, arguments, within):
        self.role, self.library = role, library
        self.passed = self.seen = False
        self.rest, self.log = b"", []
        env = {name: value for name, value in os.environ.items() if not name.startswith("FI_")}
        env.update(LD_LIBRARY_PATH=str(library), FI_TCP_IFACE="lo", FI_UDP_IFACE="lo", **(WIRE | case.environment[role]))
        command = [*within, str(program), *case.command, *arguments] + (["server"] if role == "server" else [])
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, bufsize=0)

    def lines(self):
        """What it wrote since, or None at its end."""
        data = os.read(self.process.stdout.fileno(), 65536)
        *whole, self.rest = (self.rest + data).split(b"\n")
        lines = [line.decode(errors="replace") for line in whole]
        self.log += lines
        return lines if data else None

    def hear(self, text):
        try:
            self.process.stdin.write(text.encode() + b"\n")
        except BrokenPipeError:
            pass  # its own end shows the reason

    def check_library(self, version, path):
        wanted = (self.library / "libfabric.so.1").resolve()
        if pathlib.Path(path).resolve() != wanted:
            raise Failed(f"the {self.role} runs on {path}, not on {wanted}")
        self.seen = version

    def end(self):
        """Ends it, stopped or not, after it has said what it was at."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(1)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()
        while self.lines() is not None:
            pass
        self.process.stdin.close()
        self.process.stdout.close()


class Run:
    """Both sides of one case. Relays their lines, and kills and starts the client when the server asks for it."""

    def __init__(self, program, case, libraries, seed):
        self.program, self.case, self.libraries, self.seed = program, case, libraries, seed
        self.network = Network(case.loss) if case.loss else None
        self.selector = selectors.DefaultSelector()
        self.sides, self.all, self.lives = {}, [], 0
        self.end_of_time = time.monotonic() + case.limit * PATIENCE

    def start(self, role, *arguments):
        side = Side(role, self.libraries[role], self.program, self.case, [f"seed={self.seed}", *arguments],
                    self.network.command if self.network else [])
        self.sides[role] = side
        self.all.append(side)
        self.selector.register(side.process.stdout, selectors.EVENT_READ, side)

    def run(self):
        try:
            self.start("server")
            self.start("client")
            while self.selector.get_map() or not all(side.passed for side in self.sides.values()):
                for key, _ in self.selector.select(max(0, self.end_of_time - time.monotonic())):
                    if not key.fileobj.closed:  # the server's line may have ended the client
                        self.serve(key.data)
                if time.monotonic() >= self.end_of_time:
                    raise Failed(f"not finished after {self.case.limit * PATIENCE:.0f} s")
            if not all(side.seen for side in self.all):
                raise Failed("a side did not say which library it runs on")
        finally:
            for side in self.sides.values():
                if not side.process.stdout.closed:
                    side.end()
            if self.network:
                self.network.end()

    def serve(self, side):
        lines = side.lines()
        if lines is None:
            self.selector.unregister(side.process.stdout)
            code = side.process.wait()
            if code or not side.passed:
                raise Failed(f"the {side.role} ended with exit code {code}")
            return
        for line in lines:
            kind, _, text = line.partition(" ")
            if kind == ">":
                self.sides["client" if side.role == "server" else "server"].hear(text)
            elif kind == "!":
                self.obey(side, *text.split(" ", 2))

    def obey(self, side, what, *more):
        client = self.sides["client"]
        if what == "library":
            side.check_library(*more)
        elif what == "passed":
            side.passed = True
        elif what == "kill":
            if client.process.stdout in self.selector.get_map():
                self.selector.unregister(client.process.stdout)
            client.kill()
            side.hear("killed")
        elif what == "start":
            self.lives += 1
            port = [] if more[0] == "0" else [f"port={more[0]}"]
            self.start("client", f"life={self.lives}", *port)

    def output(self):
        """What both wrote, the lines that were relayed included."""
        for side in self.all[:1] + self.all[1:][-2:]:
            yield f"    the {side.role}, on {side.library} ({side.seen or 'not known'}):"
            yield from (f"        {line[:200]}" for line in side.log[-25:])


def build(folder, options):
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "mixed"
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu17", "-O2", "-g", "-Wall", "-Wextra",
                    "-Wno-missing-field-initializers", "-o", str(program), *map(str, sorted(HERE.glob("*.c"))), *options],
                   check=True)
    return program


def release_of(folder):
    """Major and minor version of a library."""
    version = ctypes.CDLL(str(folder / "libfabric.so.1")).fi_version() & 0xffffffff
    return version >> 16, version & 0xffff


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours", type=pathlib.Path)
    parser.add_argument("other", type=pathlib.Path)
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--old-headers", type=pathlib.Path, help="where the other library is older than that release: "
                        "a folder with its headers, for which the program is built; its libfabric.so is in OTHER")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="folder for the compiled program")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--sides", nargs="+", choices=[*SIDES, CONTROL], help="default: ours with the other and with itself")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100000, help="of the moments of crossing sends")
    parser.add_argument("--keep-going", action="store_true", help="run the other cases after a failure")
    return parser.parse_intermixed_args()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args = arguments()
    libraries = {"ours": args.ours.resolve(), "other": args.other.resolve()}
    old = args.old_headers
    options = [f"-I{old}", f"-L{libraries['other']}", "-lfabric"] if old else releases.oldest_set(libraries["ours"])
    program = build(args.build, options)
    wanted = args.sides or [*SIDES, *([CONTROL] if args.long else [])]
    there = (args.other / "libfabric.so.1").is_file()
    if there and os.path.samefile(args.ours / "libfabric.so.1", args.other / "libfabric.so.1"):
        sys.exit("FAILED: both folders have the same library")
    if not there:
        wanted = [sides for sides in wanted if "other" not in sides]
    print(f"seed {args.seed}", flush=True)
    release = release_of(libraries["other"]) if there else None
    too_old = 0
    passed, failures, begin = 0, [], time.monotonic()
    no_loss = why_no_loss()
    for case in CASES:
        if case.loss and no_loss:
            continue
        if case.long and not args.long or args.cases and not any(part in case.name for part in args.cases):
            continue
        times = []
        for sides in wanted:
            if sides not in case.sides and not (sides == CONTROL and case.sides == SIDES):
                continue
            if case.since and "other" in sides and release < case.since:
                too_old += 1
                continue
            server, client = sides.split("-")
            run = Run(program, case, {"server": libraries[server], "client": libraries[client]}, args.seed)
            start = time.monotonic()
            try:
                run.run()
                passed += 1
                times.append(f"{sides} {time.monotonic() - start:.1f} s")
            except Failed as failure:
                failures.append(f"{case.name}, {sides}")
                print(f"FAILED: {case.name}, {sides} (server-client): {failure}", *run.output(), sep="\n", flush=True)
                if not args.keep_going:
                    break
        if failures and not args.keep_going:
            break
        if times:
            print(f"ok {case.name}: {', '.join(times)}", flush=True)
    print(f"{passed} passed, {len(failures)} failed, {time.monotonic() - begin:.0f} s")
    if failures:
        sys.exit(f"FAILED: {'; '.join(failures)}")
    if not there:
        print(f"SKIPPED: there is no {args.other / 'libfabric.so.1'}: no mixed case ran", file=sys.stderr)
    if too_old:
        print(f"left out: {too_old} runs of cases with lnx: {args.other} is libfabric {'.'.join(map(str, release))}, which has none")
    if no_loss:
        print(f"SKIPPED: no case ran with loss: {no_loss}", file=sys.stderr)
    if not there or no_loss:
        sys.exit(SKIPPED)


main()
