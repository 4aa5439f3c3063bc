# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Endpoints without connection, over each provider."""

import array
import asyncio
import gc
import mmap
import struct
import threading
import unittest
import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from ironfabric import fabric as fi
from ironfabric.fabric import abi
from world import IS_OURS, LIMIT, RDM, Pair, drive, offer, open_objects, per_provider, until

CAPS = fi.Caps.MSG | fi.Caps.TAGGED
if TYPE_CHECKING:
    Case = unittest.TestCase
else:
    # The classes of `per_provider` are test cases; those here have no provider.
    Case = object


class Base(Case):
    """Opens a pair of endpoints for each test, and closes everything after it."""

    provider: str
    caps = CAPS
    wait: Optional[fi.Wait] = None
    options: Dict[str, Any] = {}

    def setUp(self) -> None:
        self.before = open_objects()
        info = offer(self.provider, fi.EndpointType.RDM, self.caps)
        self.pair = Pair(info, self.wait, **self.options)
        self.addCleanup(self.end)

    def completions(self) -> List[fi.Completion]:
        """Waits for completions of the second queue, and drops those of the first."""
        found: List[fi.Completion] = []

        def arrived() -> bool:
            self.pair.queue_a.read()
            found.extend(self.pair.queue_b.read())
            return bool(found)

        until(arrived, "a completion")
        return found

    def end(self) -> None:
        self.pair.close()
        del self.pair
        until(lambda: open_objects() == self.before, "all objects are closed")


@per_provider(RDM)
class Messages(Base):
    def test_sizes(self) -> None:
        """Messages of all sizes arrive, in both directions."""
        pair = self.pair
        for size in (0, 1, 100, 5000, 70000, 1 << 20):
            if size > pair.info.max_message_size:
                continue
            if size > 4096 and self.provider == "shm" and not IS_OURS:
                # libfabric 2.5 and 2.6 crash now and then if both endpoints are in one process.
                continue
            text = bytes((7 * i + size) % 251 for i in range(size))
            for sender, to, receiver in ((pair.a, pair.to_b, pair.b), (pair.b, pair.to_a, pair.a)):
                receive = receiver.recv(size, context="receive")
                send = sender.send(text, to)
                _, got = pair.finish(send, receive)
                self.assertEqual(got.received, text)
                self.assertEqual((got.length, got.context, got.is_recv), (size, "receive", True))

    def test_buffers(self) -> None:
        """Every type with the buffer protocol is sent and received."""
        pair = self.pair
        words = array.array("Q", range(8))
        mapped = mmap.mmap(-1, 64)
        self.addCleanup(mapped.close)
        sources: List[Any] = [bytes(words), bytearray(words), memoryview(words)[::1], words, mapped]
        targets: List[Any] = [bytearray(64), array.array("Q", [0] * 8), memoryview(bytearray(64)), mapped]
        try:
            import numpy

            sources.append(numpy.arange(8, dtype="u8").reshape(2, 4))
            targets.append(numpy.zeros((4, 2), dtype="u8"))
        except ImportError:
            pass
        mapped[:] = bytes(words)
        for source in sources:
            for target in targets:
                receive = pair.b.recv(target)
                _, got = pair.finish(pair.a.send(source, pair.to_b), receive)
                self.assertEqual(got.received, bytes(words))
                self.assertEqual(bytes(memoryview(target).cast("B")), bytes(words))

    def test_tags(self) -> None:
        """Tagged receives match by tag and mask, and messages carry a number."""
        pair = self.pair
        second = pair.b.trecv(64, 0x20, ignore=0xF)
        first = pair.b.trecv(64, 0x11)
        sends = [
            pair.a.tsend(b"one", pair.to_b, tag=0x11),
            pair.a.tsend(b"two", pair.to_b, tag=0x2A, data=77),
        ]
        got_first, got_second, *_ = pair.finish(first, second, *sends)
        self.assertEqual((bytes(got_first.received), got_first.tag, got_first.data), (b"one", 0x11, None))
        self.assertEqual((bytes(got_second.received), got_second.tag, got_second.data), (b"two", 0x2A, 77))

    def test_data(self) -> None:
        pair = self.pair
        receive = pair.b.recv(64)
        _, got = pair.finish(pair.a.send(b"x", pair.to_b, data=2**40 + 1), receive)
        self.assertEqual(got.data, 2**40 + 1)
        self.assertIn(fi.CompletionFlags.REMOTE_CQ_DATA, got.flags)

    def test_inject(self) -> None:
        """Injected messages have no completion, and their buffer may be changed at once."""
        pair = self.pair
        receives = [pair.b.recv(16), pair.b.trecv(16, 5), pair.b.recv(16), pair.b.trecv(16, 6)]
        buffer = bytearray(b"first")
        pair.a.inject(buffer, pair.to_b)
        buffer[:] = b"secon"
        pair.a.tinject(buffer, pair.to_b, tag=5)
        pair.a.inject(b"third", pair.to_b, data=3)
        pair.a.tinject(memoryview(b"4th"), pair.to_b, tag=6, data=4)
        got = pair.finish(*receives)
        self.assertEqual([bytes(one.received) for one in got], [b"first", b"secon", b"third", b"4th"])
        self.assertEqual([one.data for one in got], [None, None, 3, 4])
        self.assertEqual(pair.queue_a.read(), [])

    def test_vectors(self) -> None:
        """A list of buffers is one message."""
        pair = self.pair
        if pair.info.iov_limit < 2:
            raise unittest.SkipTest("one buffer for each operation")
        parts = [bytearray(2), bytearray(10)]
        for tag in (None, 9):
            if tag is None:
                receive, send = pair.b.recv(parts), pair.a.send([b"abc", memoryview(b"defg")], pair.to_b)
            else:
                receive = pair.b.trecv(parts, tag)
                send = pair.a.tsend((b"abc", b"", b"defg")[:2], pair.to_b, tag=tag)
            _, got = pair.finish(send, receive)
            self.assertEqual(bytes(got.received), b"abcdefg"[: got.length])
            self.assertEqual(got.length, 7 if tag is None else 3)

    def test_flags(self) -> None:
        """Flags of one operation select its general form."""
        pair = self.pair
        receive = pair.b.trecv(8, 1)
        send = pair.a.tsend(b"x", pair.to_b, tag=1, data=5, flags=fi.Flags.TRANSMIT_COMPLETE)
        _, got = pair.finish(send, receive)
        self.assertEqual((bytes(got.received), got.data), (b"x", 5))

    def test_regions(self) -> None:
        """Regions and their parts are buffers."""
        pair = self.pair
        region = fi.MemoryRegion(pair.domain, bytearray(b"0123456789"))
        target = fi.MemoryRegion(pair.domain, 10)
        receive = pair.b.recv(target[2:8])
        _, got = pair.finish(pair.a.send(region[4:], pair.to_b), receive)
        self.assertEqual(bytes(target.view), b"\0\x00456789\0\0")
        self.assertEqual(bytes(got.received), b"456789")
        with self.assertRaises(ValueError):
            pair.b.recv(fi.MemoryRegion(pair.domain, b"constant", fi.Access.SOURCE))
        _, got = pair.finish(
            pair.a.send(fi.MemoryRegion(pair.domain, b"constant", fi.Access.SOURCE), pair.to_b),
            pair.b.recv(target),
        )
        self.assertEqual(bytes(got.received), b"constant")

    def test_registration(self) -> None:
        """Where the provider requires it, buffers are registered while their operation is in flight."""
        pair = self.pair
        made: List[int] = []
        register = pair.domain._register

        def count(*arguments: Any) -> int:
            made.append(register(*arguments))
            return made[-1]

        vars(pair.domain)["_register"] = count
        pair.domain._needs_registration = True
        receive = pair.b.recv([bytearray(3), bytearray(61)] if pair.info.iov_limit > 1 else 64)
        send = pair.a.send(b"hello", pair.to_b)
        self.assertEqual(receive._raw + send._raw, made)
        self.assertEqual(len(made), 3 if pair.info.iov_limit > 1 else 2)
        got = pair.finish(send, receive)[1]
        self.assertEqual(bytes(got.received), b"hello")
        self.assertEqual(receive._raw + send._raw, [])
        # Empty buffers and regions are not registered.
        made.clear()
        pair.finish(pair.a.send(b"", pair.to_b), pair.b.recv(fi.MemoryRegion(pair.domain, 8)))
        self.assertEqual(len(made), 1)

    def test_counter(self) -> None:
        """A counter counts, and its wait ends in time."""
        pair = self.pair
        try:
            counter = fi.Counter(pair.domain)
            counted = fi.Endpoint(
                pair.domain,
                pair.info,
                queue=fi.CompletionQueue(pair.domain),
                address_vector=pair.vector,
                counters=[(counter, fi.Caps.RECV)],
            )
        except fi.FabricError as error:
            raise unittest.SkipTest(f"no counters: {error}") from None
        with self.assertRaises(TimeoutError):
            counter.wait(1, 0.01)
        receive = counted.recv(8)
        pair.a.send(b"x", pair.vector.insert(counted.address)).detach()
        until(lambda: (pair.queue_a.read(), counter.value == 1)[1], "the counter")
        counter.wait(1, LIMIT)
        self.assertEqual(receive.wait(LIMIT).length, 1)
        self.assertEqual(counter.errors, 0)


@per_provider(RDM)
class Peeks(Base):
    def test_peek(self) -> None:
        """A peek reports a message and leaves it, or throws it away; without a message it fails."""
        pair = self.pair
        if not IS_OURS:
            raise unittest.SkipTest("not every library has peeks")
        with self.assertRaises(fi.OperationError) as caught:
            pair.finish(pair.b.trecv(0, 7, flags=fi.Flags.PEEK))
        self.assertEqual(caught.exception.code, abi.FI_ENOMSG)

        def look(flags: fi.Flags) -> Optional[fi.Completion]:
            try:
                return pair.finish(pair.b.trecv(0, 7, flags=flags))[0]
            except fi.OperationError:
                return None

        sends = [pair.a.tsend(text, pair.to_b, tag=7) for text in (b"first", b"second")]
        until(lambda: drive(pair.queue_a) and look(fi.Flags.PEEK), "the message")
        found = look(fi.Flags.PEEK | fi.Flags.DISCARD)
        assert found is not None
        self.assertEqual((found.length, found.tag), (5, 7))
        receive = pair.b.trecv(8, 7)
        self.assertEqual(bytes(pair.finish(receive, *sends)[0].received), b"second")


@per_provider(RDM)
class Failures(Base):
    def needs_good_sends(self) -> None:
        if not IS_OURS and fi.version() < (2, 0):
            raise unittest.SkipTest("the library also fails the send of a message that is too long")

    def test_truncated(self) -> None:
        """A message that is too long fails its receive, by an exception of read, wait and result."""
        self.needs_good_sends()
        if not IS_OURS and self.provider == "udp;ofi_rxd":
            raise unittest.SkipTest("the library reports no truncation")
        pair = self.pair
        buffer = bytearray(4)
        for how in ("read", "wait"):
            receive = pair.b.recv(buffer, context=how)
            send = pair.a.send(b"12345678", pair.to_b)
            until(lambda: (pair.queue_a.read(), pair.queue_b._wait_for(receive._has_ended, 0.001))[1], "its end")
            with self.assertRaises(fi.OperationError) as caught:
                if how == "read":
                    pair.queue_b.read()
                else:
                    receive.wait(LIMIT)
            error = caught.exception
            self.assertEqual(error.code, abi.FI_ETRUNC)
            self.assertIs(error.operation, receive)
            self.assertIn("FI_ETRUNC", str(error))
            if IS_OURS:
                self.assertEqual((error.length, error.excess), (4, 4))
            with self.assertRaises(fi.OperationError):
                receive.result()
            # The failure is reported once, and the endpoint goes on.
            self.assertEqual(pair.queue_b.read(), [])
            buffer.append(0)
            buffer.pop()
            until(lambda: send.done or pair.queue_a.read(), "the send")

    def test_order_of_failures(self) -> None:
        """A read returns what comes before a failure, raises it, and then returns what comes after it."""
        pair = self.pair
        if not IS_OURS and self.provider in ("sockets", "udp;ofi_rxd"):
            raise unittest.SkipTest("the library reports failures first, or none")
        self.needs_good_sends()
        receives = [pair.b.recv(size, context=size) for size in (8, 4, 8)]
        for _ in receives:
            pair.a.send(b"12345678", pair.to_b).detach()
        ended = [receive._has_ended for receive in receives]
        until(lambda: (pair.queue_a.read(), pair.queue_b._wait_for(lambda: all(f() for f in ended), 0.001))[1])
        self.assertEqual([one.context for one in pair.queue_b.read()], [8])
        with self.assertRaises(fi.OperationError):
            pair.queue_b.read()
        self.assertEqual([one.context for one in pair.queue_b], [8])

    def test_cancel(self) -> None:
        pair = self.pair
        buffer = bytearray(8)
        receive = pair.b.recv(buffer)
        self.assertTrue(receive.cancel())
        with self.assertRaises(fi.OperationError) as caught:
            receive.wait(LIMIT)
        self.assertEqual(caught.exception.code, abi.FI_ECANCELED)
        self.assertFalse(receive.cancel())
        buffer.append(0)
        # It does not take a message.
        _, got = pair.finish(pair.a.send(b"next", pair.to_b), pair.b.recv(8))
        self.assertEqual(bytes(got.received), b"next")

    def test_timeout(self) -> None:
        pair = self.pair
        receive = pair.b.recv(8)
        with self.assertRaises(TimeoutError):
            receive.wait(0.02)
        with self.assertRaises(RuntimeError):
            receive.result()
        self.assertEqual(pair.queue_b.wait(0.02), [])
        self.assertFalse(receive.done)
        _, got = pair.finish(pair.a.send(b"late", pair.to_b), receive)
        self.assertEqual(bytes(got.received), b"late")

    def test_input(self) -> None:
        """Wrong arguments are exceptions, and leave nothing behind."""
        pair = self.pair
        a, to = pair.a, pair.to_b
        other = fi.AddressVector(pair.domain)
        stranger = other.insert(pair.b.address)
        read_only: Any = b"constant"
        wrong: List[Any] = [
            (TypeError, lambda: a.send("text", to)),  # type: ignore[arg-type]
            (TypeError, lambda: a.send(5, to)),  # type: ignore[arg-type]
            (TypeError, lambda: a.send(b"x")),
            (TypeError, lambda: a.send(b"x", 1)),  # type: ignore[arg-type]
            (ValueError, lambda: a.send(b"x", stranger)),
            (ValueError, lambda: a.send([], to)),
            (TypeError, lambda: a.send([b"x", 5], to)),  # type: ignore[list-item]
            (BufferError, lambda: a.send(memoryview(b"12345678")[::2], to)),
            (BufferError, lambda: pair.b.recv(read_only)),
            (BufferError, lambda: pair.b.recv(memoryview(bytearray(8))[::2])),
            (ValueError, lambda: pair.b.recv(-1)),
            (ValueError, lambda: pair.b.recv(8, pair.to_a)),
            (TypeError, lambda: a.tsend(b"x", to)),  # type: ignore[call-arg]
            (ValueError, lambda: a.tsend(b"x", to, tag=-1)),
            (ValueError, lambda: a.tsend(b"x", to, tag=2**64)),
            (TypeError, lambda: a.tsend(b"x", to, tag="5")),  # type: ignore[arg-type]
            (ValueError, lambda: a.send(b"x", to, data=-1)),
            (ValueError, lambda: pair.b.trecv(8, 1, ignore=2**64)),
            (ValueError, lambda: a.inject(bytes(pair.info.inject_size + 1), to)),
            (TypeError, lambda: a.write(b"x", (0, 0, 0), to)),  # type: ignore[arg-type]
            (ValueError, lambda: a.write(b"xx", fi.RemoteMemory(0, 0, 1), to)),
            (TypeError, lambda: pair.vector.insert(5)),  # type: ignore[arg-type]
            (ValueError, lambda: pair.vector.insert(b"")),
            (ValueError, lambda: fi.MemoryRegion(pair.domain, b"", fi.Access.SOURCE)),
            (TypeError, lambda: fi.MemoryRegion(pair.domain, 8)[5]),  # type: ignore[index]
            (ValueError, lambda: fi.MemoryRegion(pair.domain, 8)[::2]),
            (ValueError, lambda: fi.RemoteMemory(0, 0, 8).slice(4, 5)),
            (ValueError, lambda: a.send(b"x", to, flags=1 << 59)),  # type: ignore[arg-type]
            (BufferError, lambda: fi.MemoryRegion(pair.domain, b"x")),
            (TypeError, lambda: fi.MemoryRegion(pair.domain, "x")),  # type: ignore[arg-type]
            (ValueError, lambda: fi.Endpoint(pair.domain, pair.info, queue=pair.queue_a)),
            (TypeError, lambda: fi.Endpoint(pair.domain, pair.info, queue=5)),  # type: ignore[arg-type]
            (TypeError, lambda: fi.Domain(pair.domain, pair.info)),  # type: ignore[arg-type]
            (TypeError, lambda: fi.Fabric("tcp")),  # type: ignore[arg-type]
            (ValueError, lambda: pair.vector.lookup(stranger)),
            (ValueError, lambda: fi.CompletionQueue(pair.domain, wait=17)),  # type: ignore[arg-type]
        ]
        before = open_objects(), len(pair.domain._operations)
        for number, (kind, call) in enumerate(wrong):
            with self.assertRaises(kind, msg=f"call {number}"):
                call()
        self.assertEqual((open_objects(), len(pair.domain._operations)), before)
        source = bytearray(8)
        with self.assertRaises(ValueError):
            a.send(source, stranger)
        source.append(0)

    def test_other_domain(self) -> None:
        """Objects of different domains do not meet."""
        pair, other = self.pair, Pair(self.pair.info)
        with self.assertRaises(ValueError):
            pair.a.send(fi.MemoryRegion(other.domain, 8), pair.to_b)
        with self.assertRaises(ValueError):
            fi.Endpoint(pair.domain, pair.info, queue=other.queue_a, address_vector=pair.vector)
        with self.assertRaises(ValueError):
            pair.a.send(b"x", other.to_b)
        other.close()

    def test_removed_peer(self) -> None:
        pair = self.pair
        peer = pair.to_b
        self.assertEqual(len(pair.vector), 2)
        if IS_OURS:
            self.assertIs(pair.vector.insert(pair.b.address), peer)
            self.assertIs(pair.vector.insert(pair.vector.lookup(peer)), peer)
        self.assertTrue(pair.vector.text(pair.b.address))
        if not IS_OURS and self.provider == "sockets":
            raise unittest.SkipTest("the library does not remove the last address")
        pair.vector.remove(peer)
        with self.assertRaises(ValueError):
            pair.a.send(b"x", peer)
        with self.assertRaises(ValueError):
            pair.vector.remove(peer)
        self.assertEqual(list(pair.vector), [pair.to_a])


@per_provider(RDM)
class Lifetimes(Base):
    def test_pinned(self) -> None:
        """A buffer cannot be resized before its completion was read."""
        pair = self.pair
        target = bytearray(8)
        receive = pair.b.recv(target)
        with self.assertRaises(BufferError):
            target.append(0)
        pair.finish(pair.a.send(b"x", pair.to_b), receive)
        target.append(0)

    def test_memory_is_kept(self) -> None:
        """The only reference to a buffer in flight may be dropped."""
        pair = self.pair

        class Owner(bytearray):
            pass

        target = Owner(64)
        gone = weakref.ref(target)
        receive = pair.b.recv(target, context=5)
        del target, receive
        gc.collect()
        self.assertIsNotNone(gone())
        pair.a.send(b"here", pair.to_b).detach()
        found = self.completions()
        self.assertEqual((bytes(found[0].received), found[0].context), (b"here", 5))
        del found
        until(lambda: (gc.collect(), gone() is None)[1], "the buffer is freed")

    def test_garbage_with_operations(self) -> None:
        """An endpoint with an operation in flight stays open, and its buffer stays allocated."""
        pair = self.pair
        target = bytearray(16)
        endpoint = fi.Endpoint(
            pair.domain, pair.info, queue=fi.CompletionQueue(pair.domain), address_vector=pair.vector
        )
        to = pair.vector.insert(endpoint.address)
        queue = endpoint.rx_queue
        assert queue is not None
        receive = endpoint.recv(target)
        gone = weakref.ref(endpoint)
        del endpoint, receive
        gc.collect()
        self.assertIsNotNone(gone())
        pair.a.send(b"there", to).detach()
        until(lambda: (pair.queue_a.read(), queue.read())[1], "the completion")
        self.assertEqual(target[:5], b"there")
        until(lambda: (gc.collect(), gone() is None)[1], "the endpoint is closed")

    def test_garbage(self) -> None:
        """Objects without references are closed, in cycles too, and in the right order."""
        before = open_objects()
        other: Any = Pair(self.pair.info)
        region = fi.MemoryRegion(other.domain, 64)
        other.cycle = other, region
        self.assertGreater(open_objects(), before)
        del other, region
        until(lambda: open_objects() == before, "they are closed")

    def test_closing(self) -> None:
        """Closing an endpoint releases buffers; its operations fail with FI_ECANCELED."""
        pair = self.pair
        target = bytearray(8)
        receive = pair.b.recv(target)
        pair.b.close()
        target.append(0)
        self.assertTrue(receive.done)
        with self.assertRaises(fi.OperationError) as caught:
            receive.wait(LIMIT)
        self.assertEqual(caught.exception.code, abi.FI_ECANCELED)
        self.assertEqual(len(pair.domain._operations), 0)

    def test_dropped_queue(self) -> None:
        """A queue of a closed endpoint can be dropped without a read: a server with a queue for each client."""
        pair = self.pair
        before = open_objects()
        queue = fi.CompletionQueue(pair.domain)
        endpoint = fi.Endpoint(pair.domain, pair.info, queue=queue, address_vector=pair.vector)
        endpoint.recv(64)
        endpoint.close()
        del queue, endpoint
        until(lambda: open_objects() == before, "the queue is closed")
        self.assertEqual(len(pair.domain._operations), 0)

    def test_closing_all(self) -> None:
        """Closing a domain closes what uses it, with operations in flight."""
        other = Pair(self.pair.info)
        target = bytearray(8)
        region = fi.MemoryRegion(other.domain, 16)
        receives = [other.b.recv(target), other.a.recv(region)]
        with self.assertRaises(fi.Busy):
            region.close()
        other.domain.close()
        target.append(0)
        for used in (other.a, other.b, other.queue_a, other.queue_b, other.vector, other.domain, region):
            self.assertTrue(used.closed)
        self.assertFalse(other.fabric.closed)
        for receive in receives:
            with self.assertRaises(fi.OperationError):
                receive.wait(LIMIT)
        other.fabric.close()
        other.fabric.close()

    def test_use_after_close(self) -> None:
        other = Pair(self.pair.info)
        region = fi.MemoryRegion(other.domain, 16)
        address = other.b.address
        other.close()
        memory = fi.RemoteMemory(0, 0, 8)
        calls: List[Any] = [
            lambda: other.a.send(b"x", other.to_b),
            lambda: other.a.recv(8),
            lambda: other.a.tsend(b"x", other.to_b, tag=1),
            lambda: other.a.trecv(8, 1),
            lambda: other.a.inject(b"x", other.to_b),
            lambda: other.a.write(b"x", memory, other.to_b),
            lambda: other.a.read(bytearray(1), memory, other.to_b),
            lambda: other.a.inject_write(b"x", memory, other.to_b),
            lambda: other.a.address,
            lambda: other.a.get_option(0),
            lambda: other.a.set_option(0, 1),
            lambda: other.queue_a.read(),
            lambda: other.queue_a.wait(0),
            lambda: other.queue_a.fileno(),
            lambda: other.queue_a.try_wait(),
            lambda: other.vector.insert(address),
            lambda: other.vector.lookup(other.to_b),
            lambda: other.vector.text(address),
            lambda: region.remote,
            lambda: fi.CompletionQueue(other.domain),
            lambda: fi.Domain(other.fabric, other.info),
            lambda: other.domain.query_atomic(fi.Datatype.UINT64, fi.AtomicOp.SUM),
            lambda: self.pair.a.send(region, self.pair.to_b),
            lambda: fi.EventQueue(other.fabric),
        ]
        for number, call in enumerate(calls):
            with self.assertRaises((fi.ClosedError, ValueError), msg=f"call {number}") as caught:
                call()
            if number != 22:
                self.assertIn("closed", str(caught.exception), f"call {number}")
        self.assertIn("closed", repr(other.a))

    def test_unread(self) -> None:
        """Completions that were waited for are not read again, and detached ones never."""
        pair = self.pair
        receives = [pair.b.recv(8) for _ in range(3)]
        for number in range(3):
            pair.a.send(bytes([number]), pair.to_b).detach()
        ended = [receive._has_ended for receive in receives]
        until(lambda: (pair.queue_a.read(), pair.queue_b._wait_for(lambda: all(f() for f in ended), 0.001))[1])
        receives[1].wait()
        self.assertEqual([bytes(one.received) for one in pair.queue_b.read()], [b"\0", b"\2"])
        self.assertEqual(receives[0].wait().length, 1)
        self.assertEqual(pair.queue_a.read(), [])
        self.assertEqual(pair.queue_b.read(), [])

    def test_count(self) -> None:
        pair = self.pair
        receives = [pair.b.recv(8) for _ in range(5)]
        for _ in range(5):
            pair.a.send(b"x", pair.to_b).detach()
        ended = [receive._has_ended for receive in receives]
        until(lambda: (pair.queue_a.read(), pair.queue_b._wait_for(lambda: all(f() for f in ended), 0.001))[1])
        self.assertEqual(len(pair.queue_b.read(2)), 2)
        self.assertEqual(len(pair.queue_b.wait(0, 1)), 1)
        self.assertEqual(len(list(pair.queue_b)), 2)


@per_provider(RDM)
class Room(Base):
    def test_deferred(self) -> None:
        """Operations that find no room are posted later, in their order."""
        pair = self.pair
        count = 3000
        receives = [pair.b.recv(4, context=number) for number in range(count)]
        sends = [pair.a.send(struct.pack("I", number), pair.to_b) for number in range(count)]
        got = pair.finish(*receives)
        pair.finish(*sends)
        self.assertEqual([struct.unpack("I", one.received)[0] for one in got], list(range(count)))
        self.assertEqual((len(pair.domain._operations), pair.queue_a._deferred), (0, {}))

    def test_cancel_deferred(self) -> None:
        """An operation that was not posted yet is cancelled at once, and one of a closed endpoint ends."""
        pair = self.pair
        sends: List[fi.Operation] = []
        while not pair.a._tx.waiting:
            sends.append(pair.a.send(bytes(100), pair.to_b))
            if len(sends) == 50_000:
                raise unittest.SkipTest("the provider has room for everything")
        last = pair.a.send(b"x", pair.to_b)
        self.assertTrue(last.cancel())
        with self.assertRaises(fi.OperationError):
            last.result()
        self.assertFalse(last.cancel())
        pair.a.close()
        self.assertEqual(pair.queue_a._deferred, {})
        self.assertTrue(pair.queue_a._wait_for(lambda: all(send.done for send in sends), LIMIT))
        with self.assertRaises(fi.OperationError):
            sends[-1].result()


@per_provider(RDM)
class NoRoom(Base):
    options = {"defer": False}

    def test_again(self) -> None:
        """With defer=False a lack of room is an exception."""
        pair = self.pair
        with self.assertRaises(fi.Again) as caught:
            for _ in range(50_000):
                pair.a.send(bytes(100), pair.to_b).detach()
            self.assertFalse(pair.a._tx.waiting)
            raise unittest.SkipTest("the provider has room for everything")
        self.assertIsInstance(caught.exception, BlockingIOError)
        self.assertEqual(caught.exception.errno, abi.FI_EAGAIN)


@per_provider(RDM)
class Remote(Base):
    caps = CAPS | fi.Caps.RMA

    def drive(self, operation: fi.Operation) -> fi.Completion:
        return self.pair.finish(operation)[0]

    def test_write_and_read(self) -> None:
        pair = self.pair
        memory = bytearray(64)
        window = fi.MemoryRegion(pair.domain, memory, fi.Access.REMOTE)
        remote = fi.RemoteMemory.from_bytes(bytes(window.remote))
        self.drive(pair.a.write(b"hello", remote.slice(8), pair.to_b, flags=fi.Flags.DELIVERY_COMPLETE))
        self.assertEqual(memory[8:13], b"hello")
        target = bytearray(5)
        self.drive(pair.a.read(target, remote.slice(8, 5), pair.to_b))
        self.assertEqual(target, b"hello")
        # Without a completion: a read after it shows that it has arrived.
        pair.a.inject_write(b"HE", remote.slice(8), pair.to_b)
        self.drive(pair.a.read(target, remote.slice(8, 5), pair.to_b))
        until(lambda: (self.drive(pair.a.read(target, remote.slice(8, 5), pair.to_b)), target == b"HEllo")[1])
        # A part of a region.
        self.drive(pair.a.write(b"!", window[63:].remote, pair.to_b, flags=fi.Flags.DELIVERY_COMPLETE))
        self.assertEqual(memory[63:], b"!")
        with self.assertRaises(BufferError):
            memory.append(0)
        window.close()
        memory.append(0)

    def test_lists(self) -> None:
        pair = self.pair
        if pair.info.iov_limit < 2:
            raise unittest.SkipTest("one buffer for each operation")
        window = fi.MemoryRegion(pair.domain, 64, fi.Access.REMOTE)
        write = pair.a.write([b"ab", b"cde"], window.remote, pair.to_b, flags=fi.Flags.DELIVERY_COMPLETE)
        self.drive(write)
        self.assertEqual(bytes(window.view[:5]), b"abcde")
        parts = [bytearray(1), bytearray(4)]
        self.drive(pair.a.read(parts, window.remote, pair.to_b))
        self.assertEqual(parts, [b"a", b"bcde"])

    def test_data(self) -> None:
        """A write with data has a completion at the peer, which belongs to no operation there."""
        pair = self.pair
        window = fi.MemoryRegion(pair.domain, 64, fi.Access.REMOTE)
        write = pair.a.write(b"x", window.remote, pair.to_b, data=99)
        found = self.completions()
        self.drive(write)
        self.assertEqual((found[0].data, found[0].operation, found[0].context), (99, None, None))
        self.assertIn(fi.CompletionFlags.REMOTE_WRITE, found[0].flags)
        with self.assertRaises(TypeError):
            found[0].received

    def test_wrong_key(self) -> None:
        """A key that does not exist fails the operation."""
        pair = self.pair
        window = fi.MemoryRegion(pair.domain, 64, fi.Access.REMOTE)
        if not IS_OURS:
            raise unittest.SkipTest("other libraries may end the connection")
        memory = window.remote._replace(key=window.key + 1000)
        write = pair.a.write(b"x", memory, pair.to_b, flags=fi.Flags.DELIVERY_COMPLETE)
        with self.assertRaises(fi.OperationError) as caught:
            self.drive(write)
        self.assertIs(caught.exception.operation, write)


@per_provider(RDM)
class Atomics(Base):
    caps = CAPS | fi.Caps.RMA | fi.Caps.ATOMIC

    def test_all(self) -> None:
        pair = self.pair
        if not pair.domain.query_atomic(fi.Datatype.UINT64, fi.AtomicOp.SUM):
            raise unittest.SkipTest("no atomic operations")
        values = array.array("Q", [5, 6])
        window = fi.MemoryRegion(pair.domain, values, fi.Access.REMOTE)
        remote, to = window.remote, pair.to_b
        one = struct.pack("QQ", 1, 2)
        fetched = bytearray(16)
        pair.finish(pair.a.atomic(fi.AtomicOp.SUM, one, remote, to, result=fetched))
        self.assertEqual(struct.unpack("QQ", fetched), (5, 6))
        self.assertEqual(list(values), [6, 8])
        pair.finish(
            pair.a.atomic(
                fi.AtomicOp.CSWAP,
                struct.pack("Q", 70),
                remote.slice(0, 8),
                to,
                compare=struct.pack("Q", 6),
                result=memoryview(fetched)[:8],
            )
        )
        self.assertEqual((values[0], struct.unpack_from("Q", fetched)), (70, (6,)))
        pair.finish(pair.a.atomic(fi.AtomicOp.WRITE, struct.pack("I", 3), remote, to, datatype=fi.Datatype.UINT32))
        until(lambda: (pair.queue_a.read(), pair.queue_b.read(), values[0] == 3)[2], "the value")
        wrongs: List[Any] = [
            lambda: pair.a.atomic(fi.AtomicOp.SUM, b"12345", remote, to),
            lambda: pair.a.atomic(fi.AtomicOp.SUM, one, remote, to, result=bytearray(8)),
            lambda: pair.a.atomic(fi.AtomicOp.CSWAP, one, remote, to, compare=one),
            lambda: pair.a.atomic(fi.AtomicOp.SUM, bytes(24), remote, to),
            lambda: pair.a.atomic(77, one, remote, to),  # type: ignore[arg-type]
        ]
        for wrong in wrongs:
            with self.assertRaises(ValueError):
                wrong()
        self.assertEqual(len(pair.domain._operations), 0)


@per_provider(RDM)
class Directed(Base):
    caps = CAPS | fi.Caps.SOURCE | fi.Caps.DIRECTED_RECV

    def test_source(self) -> None:
        """Completions name the sender, and receives choose one."""
        pair = self.pair
        if not IS_OURS and self.provider in ("tcp", "udp;ofi_rxd"):
            raise unittest.SkipTest("the library reports another sender")
        c = fi.Endpoint(pair.domain, pair.info, queue=pair.queue_a, address_vector=pair.vector)
        to_c = pair.vector.insert(c.address)
        from_a = pair.b.recv(8, pair.to_a)
        from_c = pair.b.recv(8, to_c)
        with self.assertRaises(fi.Busy):
            pair.vector.remove(pair.to_a)
        pair.finish(c.send(b"c", pair.to_b), from_c)
        pair.finish(pair.a.send(b"a", pair.to_b), from_a)
        self.assertEqual((bytes(from_a.result().received), from_a.result().source), (b"a", pair.to_a))
        self.assertEqual((bytes(from_c.result().received), from_c.result().source), (b"c", to_c))


@per_provider(RDM)
class SharedTransmit(Case):
    provider: str

    def test_shared(self) -> None:
        """Two endpoints send with the resources of one context."""
        info = offer(self.provider, fi.EndpointType.RDM, CAPS, shared_tx=True)
        with fi.Fabric(info) as fabric, fi.Domain(fabric, info) as domain:
            try:
                shared = fi.SharedTransmitContext(domain, info)
            except fi.FabricError as error:
                raise unittest.SkipTest(f"no shared transmit contexts: {error}") from None
            queue, vector = fi.CompletionQueue(domain), fi.AddressVector(domain)
            ends = [fi.Endpoint(domain, info, queue=queue, address_vector=vector, shared_tx=shared) for _ in range(2)]
            peers = [vector.insert(end.address) for end in ends]
            receives = [end.recv(8) for end in ends]
            for number, end in enumerate(ends):
                end.send(b"%d" % number, peers[1 - number]).wait(LIMIT)
            self.assertEqual([bytes(one.wait(LIMIT).received) for one in receives], [b"1", b"0"])
            shared.close()
            self.assertTrue(all(end.closed for end in ends))


@per_provider(RDM)
class Multi(Base):
    caps = CAPS | fi.Caps.MULTI_RECV

    def test_multi_recv(self) -> None:
        """One receive takes messages until less room is left than the option requires."""
        pair = self.pair
        pair.b.set_option(abi.FI_OPT_MIN_MULTI_RECV, 32)
        if pair.b.get_option(abi.FI_OPT_MIN_MULTI_RECV) != 32 and not IS_OURS:
            raise unittest.SkipTest("the library ignores the option")
        receive = pair.b.recv(64, flags=fi.Flags.MULTI_RECV)
        found: List[bytes] = []
        for text in (b"first message 16", b"second message17", b"third"):
            send = pair.a.send(text, pair.to_b)
            want = len(found) + 1

            def arrived() -> bool:
                pair.queue_a.read()
                for one in pair.queue_b.read():
                    if one.is_recv and one.length:
                        found.append(bytes(one.received))
                return len(found) == want or (receive.done and not pair.queue_b._unread)

            until(arrived, "the message")
            until(lambda: (pair.queue_a.read(), send.done)[1], "the send")
            if receive.done:
                break
        self.assertTrue(receive.done)
        self.assertEqual(found[:2], [b"first message 16", b"second message17"])


@per_provider(RDM)
class Threads(Base):
    def test_two_waiters(self) -> None:
        """Two threads wait for operations of one queue. The one that reads delivers to both."""
        pair = self.pair
        receives = [pair.b.trecv(8, tag) for tag in range(2)]
        got: List[Any] = [None, None]

        def wait(number: int) -> None:
            got[number] = bytes(receives[number].wait(LIMIT).received)

        threads = [threading.Thread(target=wait, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for tag in (1, 0):
            pair.a.tsend(bytes([tag]), pair.to_b, tag=tag).wait(LIMIT)
        for thread in threads:
            thread.join(LIMIT)
        self.assertEqual(got, [b"\0", b"\1"])

    def test_closed_by_another_thread(self) -> None:
        """Closing a queue ends a wait of another thread."""
        pair = self.pair
        caught: List[BaseException] = []
        begun = threading.Event()

        def wait() -> None:
            begun.set()
            try:
                pair.queue_b.wait(LIMIT)
            except BaseException as error:
                caught.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        begun.wait(LIMIT)
        until(lambda: pair.queue_b._is_reading, "the wait")
        pair.queue_b.close()
        thread.join(LIMIT)
        self.assertIsInstance(caught[0], fi.ClosedError)
        self.assertTrue(pair.b.closed)

    def test_posts_of_threads(self) -> None:
        """Threads post on one endpoint while another one reads."""
        pair = self.pair
        each, count = 200, 4
        receives = [pair.b.recv(8) for _ in range(each * count)]
        sends: List[fi.Operation] = []

        def post() -> None:
            for _ in range(each):
                sends.append(pair.a.send(b"x", pair.to_b))

        threads = [threading.Thread(target=post) for _ in range(count)]
        for thread in threads:
            thread.start()
        pair.finish(*receives)
        for thread in threads:
            thread.join(LIMIT)
        pair.finish(*sends)
        self.assertEqual(len(pair.domain._operations), 0)


@per_provider(RDM)
class Async(Base):
    def run_async(self, coroutine: Any) -> Any:
        if self.pair.queue_a.wait_object is not fi.Wait.FD:
            coroutine.close()
            raise unittest.SkipTest("the provider has no descriptors")

        async def limited() -> Any:
            return await asyncio.wait_for(coroutine, LIMIT)

        return asyncio.run(limited())

    def test_await(self) -> None:
        pair = self.pair

        async def echo() -> None:
            for _ in range(10):
                got = await pair.b.recv(64)
                await pair.b.send(bytes(got.received), pair.to_a)

        async def talk() -> List[bytes]:
            task = asyncio.ensure_future(echo())
            answers = []
            for number in range(10):
                receive = pair.a.recv(64)
                await pair.a.send(b"%d" % number, pair.to_b)
                answers.append(bytes((await receive).received))
            await task
            return answers

        self.assertEqual(self.run_async(talk()), [b"%d" % number for number in range(10)])
        self.assertEqual((pair.queue_a.read(), pair.queue_b.read()), ([], []))

    def test_iterate(self) -> None:
        pair = self.pair

        async def consume() -> List[bytes]:
            found = []
            async for completion in pair.queue_b:
                found.append(bytes(completion.received))
                if len(found) == 3:
                    break
            return found

        async def talk() -> List[bytes]:
            for _ in range(3):
                pair.b.recv(8)
            task = asyncio.ensure_future(consume())
            for number in range(3):
                await pair.a.send(bytes([number]), pair.to_b)
            return await task

        self.assertEqual(self.run_async(talk()), [b"\0", b"\1", b"\2"])

    def test_deferred(self) -> None:
        """Operations without room are posted while a task waits for one of them."""
        pair = self.pair

        async def talk() -> int:
            receives = [pair.b.recv(4) for _ in range(1500)]
            sends = [pair.a.send(b"1234", pair.to_b) for _ in range(1500)]
            for operation in [*receives, *sends]:
                await operation
            return len(receives)

        self.assertEqual(self.run_async(talk()), 1500)

    def test_late_waiter(self) -> None:
        """An operation that another thread has ended before the task begins to wait."""
        pair = self.pair
        receives = [pair.b.recv(8), pair.b.recv(8)]
        pair.finish(*receives, *(pair.a.send(b"x", pair.to_b) for _ in receives))
        pair.a.send(b"y", pair.to_b).detach()
        unread = pair.b.recv(8)
        until(lambda: drive(pair.queue_a, pair.queue_b) and unread.done)

        async def talk() -> bool:
            await pair.queue_b._future(receives[0])
            await pair.queue_b._future(None)
            return True

        self.assertTrue(self.run_async(talk()))

    def test_silent_room(self) -> None:
        """Operations are posted in time also if the descriptor does not report room."""
        pair = self.pair
        pair.finish(pair.a.send(b"x", pair.to_b), pair.b.recv(8))
        call, refusals = pair.a._calls["msg.send"], [0]

        def refuse(*arguments: Any) -> int:
            refusals[0] += 1
            return -abi.FI_EAGAIN if refusals[0] < 5 else int(call(*arguments))

        pair.a._calls["msg.send"] = refuse

        async def talk() -> bytes:
            receive = pair.b.recv(8)
            await pair.a.send(b"y", pair.to_b)
            return bytes((await receive).received)

        self.assertEqual(self.run_async(talk()), b"y")
        self.assertEqual(refusals, [5])

    def test_loops(self) -> None:
        """One loop after another reads the queue; a second one at the same time is refused."""
        pair = self.pair
        # To connect, both sides have to make progress.
        pair.finish(pair.a.send(b"x", pair.to_b), pair.b.recv(8))

        async def talk() -> bytes:
            receive = pair.b.recv(8)
            await pair.a.send(b"x", pair.to_b)
            return bytes((await receive).received)

        async def leave() -> None:
            asyncio.ensure_future(pair.queue_b.next())
            await asyncio.sleep(0)

        for _ in range(3):
            self.assertEqual(self.run_async(talk()), b"x")
            self.run_async(leave())

        async def another() -> None:
            waiting = asyncio.ensure_future(pair.queue_b.next())
            await asyncio.sleep(0)

            def run() -> None:
                with self.assertRaises(RuntimeError):
                    asyncio.run(asyncio.wait_for(pair.queue_b.next(), 1))

            await asyncio.get_running_loop().run_in_executor(None, run)
            waiting.cancel()

        self.run_async(another())

    def test_failure(self) -> None:
        """A failure goes to the task that waits, and only there."""
        pair = self.pair
        if not IS_OURS and self.provider == "tcp;ofi_rxm":
            raise unittest.SkipTest("the library does not signal the descriptor for a failure")

        async def talk() -> int:
            receive = pair.b.recv(2)
            await pair.a.send(b"1234", pair.to_b)
            try:
                await receive
            except fi.OperationError as error:
                return error.code
            return 0

        self.assertEqual(self.run_async(talk()), abi.FI_ETRUNC)
        self.assertEqual(pair.queue_b.read(), [])

    def test_cancelled_task(self) -> None:
        """A task that is cancelled leaves its operation in flight."""
        pair = self.pair

        async def talk() -> bytes:
            receive = pair.b.recv(8)
            try:
                await asyncio.wait_for(asyncio.shield(wait_for(receive)), 0.01)
            except asyncio.TimeoutError:
                pass
            task = asyncio.ensure_future(wait_for(receive))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            self.assertFalse(receive.done)
            await pair.a.send(b"x", pair.to_b)
            return bytes((await receive).received)

        async def wait_for(operation: fi.Operation) -> fi.Completion:
            return await operation

        self.assertEqual(self.run_async(talk()), b"x")

    def test_closing(self) -> None:
        """Closing the endpoint ends a task that waits for a receive."""
        pair = self.pair

        async def talk() -> int:
            receive = pair.b.recv(8)
            asyncio.get_running_loop().call_later(0.01, pair.b.close)
            try:
                await receive
            except fi.OperationError as error:
                return error.code
            return 0

        self.assertEqual(self.run_async(talk()), abi.FI_ECANCELED)

    def test_thread_and_loop(self) -> None:
        """A thread that reads the queue delivers to tasks."""
        pair = self.pair
        other = pair.b.trecv(8, 2)
        thread = threading.Thread(target=lambda: other.wait(LIMIT))

        async def drive() -> None:
            # Manual progress: messages may need it after their completion.
            async for _ in pair.queue_a:
                pass

        async def talk() -> bytes:
            receive = pair.b.trecv(8, 1)
            thread.start()
            task = asyncio.ensure_future(drive())
            await pair.a.tsend(b"x", pair.to_b, tag=1)
            got = bytes((await receive).received)
            await pair.a.tsend(b"y", pair.to_b, tag=2)
            while not other.done:
                await asyncio.sleep(0.001)
            task.cancel()
            return got

        self.assertEqual(self.run_async(talk()), b"x")
        thread.join(LIMIT)
        self.assertTrue(other.done)


@per_provider(RDM)
class Polled(Messages):
    """The same messages over queues without a descriptor."""

    wait = fi.Wait.NONE

    def test_no_descriptor(self) -> None:
        with self.assertRaises(OSError):
            self.pair.queue_a.fileno()

    def test_wait(self) -> None:
        """A thread that waits polls."""
        pair = self.pair
        pair.finish(pair.b.recv(8), pair.a.send(b"x", pair.to_b))
        receive = pair.b.recv(8)
        send = pair.a.send(b"y", pair.to_b)
        thread = threading.Thread(target=lambda: send.wait(LIMIT))
        thread.start()
        self.assertEqual(bytes(receive.wait(LIMIT).received), b"y")
        thread.join(LIMIT)
        self.assertTrue(send.done)


if __name__ == "__main__":
    unittest.main()
