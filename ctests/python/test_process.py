# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The package and the process: import, choice of the library, hints, exit, fork, signals."""

import doctest
import os
import re
import signal
import tempfile
import threading
import time
import unittest
from importlib import import_module
from pathlib import Path
from typing import Any, List

from ironfabric import fabric as fi
from ironfabric.fabric import abi
from world import LIMIT, Pair, offer, run_program, until

#: Opens a pair of endpoints with receives in flight, for programs that end or fork.
OPENED = """
import gc, os, sys, threading
sys.path.insert(0, {folder!r})
from world import *
pair = Pair(offer({provider!r}, fi.EndpointType.RDM, fi.Caps.MSG))
receives = [pair.b.recv(bytearray(64)) for _ in range(8)]
region = fi.MemoryRegion(pair.domain, 4096)
sends = [pair.a.send(os.urandom(100000), pair.to_b) for _ in range(3)]
"""


def program(provider: str, text: str) -> str:
    return OPENED.format(folder=os.path.dirname(os.path.abspath(__file__)), provider=provider) + text


class Package(unittest.TestCase):
    def test_import_is_cheap(self) -> None:
        """The command's package imports no ctypes, and importing the API loads no library."""
        run_program(
            "import sys, ironfabric\n"
            "assert not {'ctypes', 'ironfabric.fabric', 'asyncio'} & set(sys.modules), sorted(sys.modules)\n"
            "from ironfabric import fabric\n"
            "assert 'libfabric' not in open('/proc/self/maps').read()\n"
            "fabric.version()\n"
            "assert 'libfabric' in open('/proc/self/maps').read()\n"
        )

    def test_documentation(self) -> None:
        """The examples in the documentation of the modules run."""
        for name in ("", ".errors", ".info", ".memory"):
            module = import_module("ironfabric.fabric" + name)
            result = doctest.testmod(module, extraglobs=vars(fi))
            self.assertEqual(result.failed, 0, name)
            self.assertGreater(result.attempted, 0, name)

    def test_readme(self) -> None:
        """The program in the README of the wheel runs."""
        readme = Path(__file__).resolve().parent.parent.parent / "packaging/wheel/README.md"
        programs = re.findall(r"^```python\n(.*?)^```", readme.read_text(), re.MULTILINE | re.DOTALL)
        self.assertEqual([run_program(text).stdout for text in programs], ["b'hello'\n"])

    def test_names(self) -> None:
        self.assertEqual([name for name in fi.__all__ if not hasattr(fi, name)], [])
        self.assertEqual(sorted(fi.__all__, key=str), fi.__all__)

    def test_library(self) -> None:
        """A library is loaded once; a folder without one is an error."""
        library = fi.load()
        self.assertIs(fi.load(library.path), library)
        with self.assertRaises(ValueError):
            fi.load("/nowhere/libfabric.so.1")
        self.assertGreaterEqual(fi.version(), (1, 14))
        with tempfile.TemporaryDirectory() as folder:
            env = {**os.environ, "IRONFABRIC_LIBRARY": folder}
            run_program(
                "from ironfabric import fabric\n"
                "try:\n    fabric.version()\nexcept OSError as error:\n    assert 'libfabric.so.1' in str(error)\n"
                "else:\n    raise SystemExit('it was loaded')\n",
                env=env,
            )

    def test_errors(self) -> None:
        error = fi.FabricError(abi.FI_EINVAL)
        self.assertEqual((error.code, error.errno), (22, 22))
        self.assertIn("FI_EINVAL", str(error))
        self.assertTrue(fi.strerror(abi.FI_ETRUNC))
        self.assertTrue(issubclass(fi.TimedOut, TimeoutError))


class Hints(unittest.TestCase):
    def test_nothing_matches(self) -> None:
        with self.assertRaises(fi.NoData) as caught:
            fi.getinfo(fi.Hints(provider="no such provider"))
        self.assertIsInstance(caught.exception, LookupError)

    def test_members(self) -> None:
        info = offer("tcp", fi.EndpointType.RDM, fi.Caps.MSG, cq_data_size=4, order=fi.Order.SAS, tx_size=16)
        self.assertEqual((info.provider, info.endpoint_type), ("tcp", fi.EndpointType.RDM))
        self.assertIn(fi.Caps.MSG, info.caps)
        self.assertGreaterEqual(info.cq_data_size, 4)
        self.assertGreaterEqual(info.tx_size, 16)
        self.assertGreater(info.max_message_size, 0)
        self.assertGreater(info.rx_size, 0)
        self.assertIsNotNone(info.source)
        self.assertIsNone(info.destination)
        self.assertIn("prov_name: tcp", str(info))
        self.assertIn("tcp", repr(info))
        self.assertEqual(info.copy().domain, info.domain)

    def test_destination(self) -> None:
        hints = fi.Hints(caps=fi.Caps.MSG, provider="tcp", endpoint_type=fi.EndpointType.RDM)
        info = fi.getinfo(hints, node="127.0.0.1", service="4711")[0]
        assert info.destination is not None
        again = fi.getinfo(hints, destination=info.destination)[0]
        self.assertEqual(again.destination, info.destination)

    def test_input(self) -> None:
        wrong: List[Any] = [
            (TypeError, lambda: fi.getinfo("tcp")),  # type: ignore[arg-type]
            (TypeError, lambda: fi.getinfo(node=5)),  # type: ignore[arg-type]
            (ValueError, lambda: fi.getinfo(node="a\0b")),
            (TypeError, lambda: fi.getinfo(destination=5)),  # type: ignore[arg-type]
            (TypeError, lambda: fi.Hints(inject_size="5")),  # type: ignore[arg-type]
            (ValueError, lambda: fi.Hints(inject_size=-1)),
            (ValueError, lambda: fi.Hints(tx_size=2**64)),
            (ValueError, lambda: fi.Hints(endpoint_type=99)),  # type: ignore[arg-type]
            (TypeError, lambda: fi.getinfo(fi.Hints(provider=b"tcp"))),  # type: ignore[arg-type]
            (ValueError, lambda: fi.getinfo(fi.Hints(domain="a\0"))),
            (TypeError, lambda: fi.Hints(nonsense=5)),  # type: ignore[call-arg]
        ]
        for number, (kind, call) in enumerate(wrong):
            with self.assertRaises(kind, msg=f"call {number}"):
                call()

    def test_other_fabric(self) -> None:
        """A domain of another fabric's offer is refused."""
        one, two = (offer(name, fi.EndpointType.RDM, fi.Caps.MSG) for name in ("tcp", "shm"))
        with fi.Fabric(one) as fabric, self.assertRaises(ValueError):
            fi.Domain(fabric, two)


class Processes(unittest.TestCase):
    def test_exit(self) -> None:
        """A program may end with operations in flight, objects open, and a thread that waits."""
        for provider in ("tcp", "shm"):
            with self.subTest(provider):
                run_program(program(provider, ""))
                run_program(program(provider, "import atexit\nsys.exit(0)"))
                run_program(
                    program(
                        provider,
                        "thread = threading.Thread(target=pair.queue_b.wait, daemon=True)\nthread.start()\n"
                        "until(lambda: pair.queue_b._is_reading or not thread.is_alive())\n",
                    )
                )
                # Everything is in a cycle.
                run_program(program(provider, "pair.me = pair, receives, region\ndel pair, receives, region, sends\n"))

    def test_exit_closes(self) -> None:
        """At the end of a program everything is closed, with operations in flight."""
        done = run_program(
            "import atexit\natexit.register(lambda: print(len(_object._graph.open), flush=True))\n"
            + program("tcp", "from ironfabric.fabric import _object\nprint(len(_object._graph.open) > 5)\n")
        )
        self.assertEqual(done.stdout.split(), ["True", "0"])

    def test_failing_program(self) -> None:
        """An exception passes `with` blocks that have operations in flight."""
        done = run_program(program("tcp", "with pair.domain:\n    raise KeyError('mine')\n"), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("KeyError: 'mine'", done.stderr)

    def test_fork(self) -> None:
        """In a child all objects are closed; the parent goes on."""
        for provider in ("tcp", "shm"):
            with self.subTest(provider):
                run_program(
                    program(
                        provider,
                        """
for send in sends:
    send.detach()
child = os.fork()
if child == 0:
    code = 1
    try:
        assert all(one.closed for one in (pair.a, pair.b, pair.queue_a, pair.domain, pair.fabric, region))
        for call in (lambda: pair.a.send(b"x", pair.to_b), lambda: pair.b.recv(8), pair.queue_b.read,
                     lambda: receives[7].wait(1), lambda: pair.vector.insert(b"x")):
            try:
                call()
            except (fi.ClosedError, fi.FabricError, ValueError):
                continue
            raise AssertionError("not refused")
        pair.close()
        del pair, receives, region, sends
        gc.collect()
        code = 0
    finally:
        os._exit(code)
assert os.waitpid(child, 0)[1] == 0
other = fi.Endpoint(pair.domain, pair.info, queue=pair.queue_a, address_vector=pair.vector)
got = other.recv(8)
pair.finish(pair.b.send(b"still", pair.vector.insert(other.address)), got)
assert bytes(got.result().received) == b"still"
pair.close()
""",
                    )
                )

    def test_child_exits(self) -> None:
        """A child that ends by sys.exit does not disturb its parent."""
        run_program(
            program(
                "tcp",
                "child = os.fork()\nif child == 0:\n    sys.exit(3)\nassert os.waitpid(child, 0)[1] >> 8 == 3\n"
                "pair.finish(pair.b.send(b'x', pair.to_a), pair.a.recv(8))\npair.close()\n",
            )
        )

    def test_signal(self) -> None:
        """A signal handler runs during a wait, and its exception ends the wait."""
        pair = Pair(offer("tcp", fi.EndpointType.RDM, fi.Caps.MSG))
        self.addCleanup(pair.close)

        class Interrupted(Exception):
            pass

        def handler(*_: object) -> None:
            raise Interrupted

        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        begun = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with self.assertRaises(Interrupted):
            pair.queue_b.wait(LIMIT)
        self.assertLess(time.monotonic() - begun, LIMIT / 2)
        pair.finish(pair.a.send(b"x", pair.to_b), pair.b.recv(8))

    def test_other_threads_run(self) -> None:
        """A thread that waits does not keep others from running."""
        pair = Pair(offer("tcp", fi.EndpointType.RDM, fi.Caps.MSG))
        self.addCleanup(pair.close)
        ended = threading.Event()

        def wait() -> None:
            pair.queue_b.wait(0.5)
            ended.set()

        thread = threading.Thread(target=wait)
        thread.start()
        count = 0
        while not ended.is_set():
            count += 1
        thread.join()
        self.assertGreater(count, 1000)


class Collected(unittest.TestCase):
    def test_random_order(self) -> None:
        """Objects may be dropped in any order, by several threads."""
        import random

        info = offer("tcp", fi.EndpointType.RDM, fi.Caps.MSG)
        random.seed(5)

        def work(seed: int) -> None:
            chance = random.Random(seed)
            for _ in range(20):
                pair: Any = Pair(info)
                parts = [pair.fabric, pair.domain, pair.queue_a, pair.queue_b, pair.vector, pair.a, pair.b]
                parts.append(fi.MemoryRegion(pair.domain, 64))
                del pair
                chance.shuffle(parts)
                while parts:
                    part = parts.pop()
                    if chance.random() < 0.3:
                        part.close()
                    del part

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT)
        self.assertFalse(any(thread.is_alive() for thread in threads))
        from world import open_objects

        until(lambda: open_objects() == 0, "all objects are closed")


if __name__ == "__main__":
    unittest.main()
