# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Connections: event queues, passive endpoints, requests, shared receive contexts; and datagrams."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
import unittest
from typing import TYPE_CHECKING, Any, List, Tuple

from ironfabric import fabric as fi
from ironfabric.fabric import abi
from world import IS_OURS, LIMIT, MSG, Pair, drive, offer, open_objects, per_provider, until

if TYPE_CHECKING:
    Case = unittest.TestCase
else:
    Case = object

#: A server in a process of its own: accepts one connection, echoes one message, and then waits for its end.
PEER = """
import os, sys
from ironfabric import fabric as fi
hints = fi.Hints(caps=fi.Caps.MSG, endpoint_type=fi.EndpointType.MSG, provider=sys.argv[1])
info = fi.getinfo(hints, node="127.0.0.1", source=True)[0]
fabric = fi.Fabric(info)
events = fi.EventQueue(fabric)
listener = fi.PassiveEndpoint(events, info)
print(listener.address.hex(), flush=True)
request = events.wait(20)
domain = fi.Domain(fabric, request.info)
queue = fi.CompletionQueue(domain)
endpoint = fi.Endpoint(domain, request, queue=queue)
endpoint.accept().wait(20)
got = endpoint.recv(64).wait(20)
endpoint.send(bytes(got.received)).wait(20)
events.wait(60)
"""


class Base(Case):
    provider: str

    def setUp(self) -> None:
        self.before = open_objects()
        self.info = offer(self.provider, fi.EndpointType.MSG, fi.Caps.MSG)
        self.fabric = fi.Fabric(self.info)
        self.addCleanup(self.end)
        self.domain = fi.Domain(self.fabric, self.info)
        self.events = fi.EventQueue(self.fabric)
        self.listener = fi.PassiveEndpoint(self.events, self.info)
        self.client_events = fi.EventQueue(self.fabric)
        self.queue = fi.CompletionQueue(self.domain)

    def end(self) -> None:
        self.fabric.close()
        for name in list(vars(self)):
            if isinstance(getattr(self, name), (fi.Fabric, fi.Domain, fi.EventQueue, fi.PassiveEndpoint)):
                delattr(self, name)
        until(lambda: open_objects() == self.before, "all objects are closed")

    def client(self, **more: Any) -> fi.Endpoint:
        return fi.Endpoint(self.domain, self.info, queue=self.queue, event_queue=self.client_events, **more)

    def needs_failing_receives(self) -> None:
        if not IS_OURS and self.provider == "sockets":
            raise unittest.SkipTest("the library does not fail receives of an ended connection")

    def drive(self) -> bool:
        """Drives progress of both sides, as two processes would."""
        return drive(self.events, self.client_events, self.queue)

    def event(self, events: fi.EventQueue) -> fi.Event:
        found: List[Any] = []

        def arrived() -> bool:
            self.drive()
            event = events.read()
            if event is not None:
                found.append(event)
            return bool(found)

        until(arrived, "an event")
        event: fi.Event = found[0]
        return event

    def request(self) -> fi.ConnectionRequest:
        event = self.event(self.events)
        assert isinstance(event, fi.ConnectionRequest), event
        return event

    def finish(self, *pending: Any) -> Any:
        """Waits until all have ended, and returns the result of the last one."""
        until(lambda: self.drive() and all(one.done for one in pending), "the end")
        return [one.result() for one in pending][-1]

    def connected(self) -> Tuple[fi.Endpoint, fi.Endpoint]:
        """Returns both ends of a connection."""
        client = self.client()
        connecting = client.connect(self.listener.address)
        server = fi.Endpoint(self.domain, self.request(), queue=self.queue)
        accepting = server.accept()
        self.finish(accepting, connecting)
        return client, server


@per_provider(MSG)
class Connections(Base):
    def test_data(self) -> None:
        """Both sides get data of the other one with the connection."""
        client = self.client()
        connecting = client.connect(self.listener.address, b"question")
        request = self.request()
        self.assertEqual(request.data.rstrip(b"\0"), b"question")
        server = fi.Endpoint(self.domain, request, queue=self.queue)
        self.assertFalse(server.is_connected)
        accepting = server.accept(b"answer")
        self.assertEqual(self.finish(accepting, connecting).rstrip(b"\0"), b"answer")
        self.assertTrue(server.is_connected and client.is_connected)
        self.assertEqual(bytes(client.peer_address), bytes(self.listener.address))
        # The events were taken by the waits.
        self.assertIsNone(self.events.read())
        self.assertIsNone(self.client_events.read())
        with self.assertRaises(ValueError):
            fi.Endpoint(self.domain, request, queue=self.queue)
        with self.assertRaises(ValueError):
            request.reject()

    def test_messages(self) -> None:
        client, server = self.connected()
        for size in (0, 1, 5000, 200000):
            text = os.urandom(size)
            receive = server.recv(size)
            self.assertEqual(self.finish(client.send(text), receive).received, text)
        with self.assertRaises(ValueError):
            client.send(b"x", fi.Peer(0))

    def test_events(self) -> None:
        """A program that does not wait for the handshake reads events, and the end of the connection."""
        client = self.client()
        client.connect(self.listener.address)
        server = fi.Endpoint(self.domain, self.request(), queue=self.queue)
        server.accept()
        event = self.event(self.events)
        assert isinstance(event, fi.Connected)
        self.assertIs(event.endpoint, server)
        event = self.event(self.client_events)
        assert isinstance(event, fi.Connected)
        self.assertIs(event.endpoint, client)
        client.shutdown()
        self.assertEqual(self.event(self.events), fi.Shutdown(server))
        self.assertFalse(server.is_connected)

    def test_reject(self) -> None:
        client = self.client()
        connecting = client.connect(self.listener.address)
        self.request().reject(b"no")
        with self.assertRaises(ConnectionRefusedError) as caught:
            self.finish(connecting)
        error: Any = caught.exception
        self.assertIsInstance(error, fi.EventError)
        self.assertEqual((error.data.rstrip(b"\0"), error.endpoint), (b"no", client))

    def test_dropped_request(self) -> None:
        """A request that the program drops is rejected."""
        client = self.client()
        connecting = client.connect(self.listener.address)
        self.request()
        gc.collect()
        with self.assertRaises(ConnectionRefusedError):
            self.finish(connecting)

    def test_refused(self) -> None:
        """No process listens there."""
        address = self.listener.address
        self.listener.close()
        client = self.client()
        with self.assertRaises(fi.FabricError) as caught:
            client.connect(address).wait(LIMIT)
        self.assertEqual(caught.exception.code, abi.FI_ECONNREFUSED)

    def test_failed_event_is_raised(self) -> None:
        """A failure that no wait has taken is raised by a read."""
        client = self.client()
        client.connect(self.listener.address)
        self.request().reject()
        with self.assertRaises(fi.RequestRefused):
            self.event(self.client_events)
        self.assertIsNone(self.client_events.read())

    def test_closed_while_connecting(self) -> None:
        client = self.client()
        connecting = client.connect(self.listener.address)
        client.close()
        with self.assertRaises(fi.FabricError):
            connecting.wait(LIMIT)

    def test_peer_shuts_down(self) -> None:
        """Receives of a connection that ends fail."""
        self.needs_failing_receives()
        client, server = self.connected()
        receive = client.recv(8)
        server.close()
        until(lambda: self.drive() and self.client_events.read() == fi.Shutdown(client), "the end of the connection")
        with self.assertRaises(fi.OperationError):
            receive.wait(LIMIT)

    def test_peer_is_killed(self) -> None:
        """The process of the peer is killed: an event, and failed receives."""
        self.needs_failing_receives()
        process = subprocess.Popen(
            [sys.executable, "-c", PEER, self.provider], stdout=subprocess.PIPE, universal_newlines=True
        )
        try:
            assert process.stdout is not None
            client = self.client()
            client.connect(bytes.fromhex(process.stdout.readline())).wait(LIMIT)
            receive = client.recv(64)
            client.send(b"echo").wait(LIMIT)
            self.assertEqual(bytes(receive.wait(LIMIT).received), b"echo")
            receive = client.recv(64)
            process.send_signal(signal.SIGKILL)
            until(
                lambda: self.drive() and self.client_events.read() == fi.Shutdown(client), "the end of the connection"
            )
            with self.assertRaises(fi.OperationError):
                receive.wait(LIMIT)
        finally:
            process.kill()
            process.communicate()

    def test_input(self) -> None:
        client = self.client()
        wrong: List[Any] = [
            (TypeError, lambda: client.connect("127.0.0.1")),  # type: ignore[arg-type]
            (fi.FabricError, lambda: client.connect(b"nonsense")),
            (ValueError, lambda: client.connect(self.listener.address, bytes(100000))),
            (ValueError, lambda: fi.Endpoint(self.domain, self.info, queue=self.queue)),
            (TypeError, lambda: fi.PassiveEndpoint(self.fabric, self.info)),  # type: ignore[arg-type]
            (TypeError, lambda: fi.EventQueue(self.domain)),  # type: ignore[arg-type]
            (ValueError, lambda: fi.Endpoint(self.domain, self.info, event_queue=fi.EventQueue(fi.Fabric(self.info)))),
            (TypeError, lambda: fi.Endpoint(self.domain, self.info, address_vector=5)),  # type: ignore[arg-type]
        ]
        for number, (kind, call) in enumerate(wrong):
            with self.assertRaises(kind, msg=f"call {number}"):
                call()

    def test_use_after_close(self) -> None:
        client, server = self.connected()
        events, listener = self.client_events, self.listener
        client.close()
        listener.close()
        events.close()
        for call in (
            lambda: client.send(b"x"),
            lambda: client.connect(b"x"),
            lambda: client.shutdown(),
            lambda: client.peer_address,
            lambda: listener.address,
            lambda: events.read(),
            lambda: events.wait(0),
        ):
            with self.assertRaises(fi.ClosedError):
                call()
        self.assertFalse(client.is_connected)

    def test_asyncio_server(self) -> None:
        """A server that accepts several clients, in one event loop."""
        self.needs_failing_receives()
        sizes = [1, 500, 70000]

        async def serve(request: fi.ConnectionRequest) -> None:
            queue = fi.CompletionQueue(self.domain)
            with fi.Endpoint(self.domain, request, queue=queue) as endpoint:
                receive = endpoint.recv(100000)
                await endpoint.accept(b"welcome")
                got = await receive
                await endpoint.send(bytes(got.received))
                # The client has the answer when it ends the connection.
                try:
                    await endpoint.recv(1)
                except fi.OperationError:
                    pass

        async def client(size: int) -> bool:
            text = os.urandom(size)
            queue = fi.CompletionQueue(self.domain)
            events = fi.EventQueue(self.fabric)
            with fi.Endpoint(self.domain, self.info, queue=queue, event_queue=events) as endpoint:
                receive = endpoint.recv(100000)
                welcome = await endpoint.connect(self.listener.address)
                await endpoint.send(text)
                return welcome.rstrip(b"\0") == b"welcome" and (await receive).received == text

        async def everything() -> List[bool]:
            async def accept() -> None:
                tasks = []
                async for event in self.events:
                    if isinstance(event, fi.ConnectionRequest):
                        tasks.append(asyncio.ensure_future(serve(event)))
                    if len(tasks) == len(sizes):
                        break
                await asyncio.gather(*tasks)

            server = asyncio.ensure_future(accept())
            answers = await asyncio.gather(*(client(size) for size in sizes))
            await server
            return list(answers)

        found = asyncio.run(asyncio.wait_for(everything(), LIMIT))
        self.assertEqual(found, [True] * len(sizes))


@per_provider(MSG)
class Shared(Case):
    provider: str

    def test_shared_receives(self) -> None:
        """Endpoints take messages with the receives of a shared context."""
        info = offer(self.provider, fi.EndpointType.MSG, fi.Caps.MSG, shared_rx=True)
        with fi.Fabric(info) as fabric, fi.Domain(fabric, info) as domain:
            events, client_events = fi.EventQueue(fabric), fi.EventQueue(fabric)
            listener = fi.PassiveEndpoint(events, info)
            queue = fi.CompletionQueue(domain)
            try:
                shared = fi.SharedReceiveContext(domain, info, queue)
            except fi.FabricError as error:
                raise unittest.SkipTest(f"no shared receive contexts: {error}") from None
            receives = [shared.recv(16) for _ in range(4)]
            clients = []
            for _ in range(2):
                client = fi.Endpoint(
                    domain, info, queue=fi.CompletionQueue(domain), event_queue=client_events, shared_rx=shared
                )
                connecting = client.connect(listener.address)
                until(lambda: drive(client_events, events) and events._has_unread(), "a request")
                request = events.read()
                assert isinstance(request, fi.ConnectionRequest)
                server = fi.Endpoint(domain, request, queue=queue, shared_rx=shared)
                accepting = server.accept()
                until(lambda: drive(client_events, events) and accepting.done and connecting.done)
                accepting.result()
                connecting.result()
                clients.append((client, server))
            for number, (client, _) in enumerate(clients):
                client.send(b"%d" % number).wait(LIMIT)
                self.assertEqual(bytes(receives[number].wait(LIMIT).received), b"%d" % number)
            if IS_OURS:
                # Libfabric 2.6 crashes.
                self.assertTrue(receives[2].cancel())
            target = receives[3].buffer
            with self.assertRaises(BufferError):
                target.append(0)
            shared.close()
            self.assertTrue(clients[0][0].closed)
            target.append(0)
            with self.assertRaises(fi.ClosedError):
                shared.recv(8)
            with self.assertRaises(fi.OperationError):
                receives[3].wait(LIMIT)


class Datagrams(unittest.TestCase):
    def setUp(self) -> None:
        info = offer("udp", fi.EndpointType.DGRAM, fi.Caps.MSG)
        self.pair = Pair(info)
        self.addCleanup(self.pair.close)

    def test_messages(self) -> None:
        pair = self.pair
        for size in (1, 100, 1400):
            text = os.urandom(size)
            receive = pair.b.recv(2000)
            _, got = pair.finish(pair.a.send(text, pair.to_b), receive)
            self.assertEqual(got.received, text)

    def test_too_long(self) -> None:
        pair = self.pair
        if not IS_OURS:
            raise unittest.SkipTest("other libraries send nothing, and report success")
        with self.assertRaises((fi.FabricError, ValueError)) as caught:
            pair.finish(pair.a.send(bytes(pair.info.max_message_size + 1), pair.to_b))
        error: Any = caught.exception
        self.assertEqual(error.code, abi.FI_EMSGSIZE)
        self.assertEqual(len(pair.domain._operations), 0)

    def test_asyncio(self) -> None:
        pair = self.pair

        async def talk() -> bytes:
            receive = pair.b.recv(2000)
            await pair.a.send(b"hello", pair.to_b)
            return bytes((await receive).received)

        self.assertEqual(asyncio.run(asyncio.wait_for(talk(), LIMIT)), b"hello")

    def test_service(self) -> None:
        peer = self.pair.vector.insert_service("127.0.0.1", "12345")
        self.assertIn("12345", self.pair.vector.text(self.pair.vector.lookup(peer)))
        for node in (5, "a\0b"):
            with self.assertRaises((TypeError, ValueError)):
                self.pair.vector.insert_service(node, "1")  # type: ignore[arg-type]


if __name__ == "__main__":
    unittest.main()
