#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""server.py [PROVIDER [CLIENTS]]: a server with connections in an asyncio event loop, and clients in the same loop.

The server returns each message in capitals. The loop sleeps on the descriptors of the queues.
"""

import asyncio
import sys

from ironfabric import fabric as fi

LIMIT = 30.0  # seconds for everything


async def serve(events: fi.EventQueue, domain: fi.Domain, clients: int) -> None:
    """Accepts connections, each with a task."""
    tasks = []
    async for event in events:
        if isinstance(event, fi.ConnectionRequest):
            tasks.append(asyncio.ensure_future(answer(event, domain)))
        if len(tasks) == clients:
            break
    await asyncio.gather(*tasks)


# ANCHOR: answer
async def answer(request: fi.ConnectionRequest, domain: fi.Domain) -> None:
    with fi.Endpoint(domain, request, queue=fi.CompletionQueue(domain)) as endpoint:
        # The first message may arrive as soon as the connection is accepted.
        receive = endpoint.recv(1000)
        await endpoint.accept()
        while True:
            try:
                completion = await receive
            except fi.OperationError:
                # The client has ended the connection.
                return
            receive = endpoint.recv(1000)
            await endpoint.send(bytes(completion.received).upper())
            # ANCHOR_END: answer


async def ask(fabric: fi.Fabric, domain: fi.Domain, info: fi.Info, address: fi.Address, text: str) -> str:
    """Connects, and returns the server's answers to some messages."""
    events, queue = fi.EventQueue(fabric), fi.CompletionQueue(domain)
    with fi.Endpoint(domain, info, queue=queue, event_queue=events) as endpoint:
        await endpoint.connect(address)
        answers = []
        for word in text.split():
            receive = endpoint.recv(1000)
            await endpoint.send(word.encode())
            answers.append(bytes((await receive).received).decode())
        return " ".join(answers)


async def everything(provider: str, clients: int) -> None:
    hints = fi.Hints(caps=fi.Caps.MSG, endpoint_type=fi.EndpointType.MSG, provider=provider)
    info = fi.getinfo(hints, node="127.0.0.1", source=True)[0]
    with fi.Fabric(info) as fabric, fi.Domain(fabric, info) as domain:
        events = fi.EventQueue(fabric)
        listener = fi.PassiveEndpoint(events, info)
        server = asyncio.ensure_future(serve(events, domain, clients))
        texts = [f"hello from client {number}" for number in range(clients)]
        answers = await asyncio.gather(*(ask(fabric, domain, info, listener.address, text) for text in texts))
        await server
    assert answers == [text.upper() for text in texts], answers
    print(f"{provider}: {clients} clients, the last answer: {answers[-1]}")


def main() -> None:
    provider = sys.argv[1] if len(sys.argv) > 1 else "tcp"
    clients = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    asyncio.run(asyncio.wait_for(everything(provider, clients), LIMIT))


if __name__ == "__main__":
    main()
