#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""pingpong.py [PROVIDER [ROUNDS [BYTES]]]: two processes send a tagged message back and forth, and time it.

The processes exchange their addresses through a pipe; libfabric has no means for that. Each registers its buffers once,
because that is faster than a new buffer for each message.
"""

import subprocess
import sys
import time

from ironfabric import fabric as fi

PING, PONG = 1, 2
LIMIT = 20.0  # seconds for one message


def main() -> None:
    arguments = sys.argv[1:]
    is_peer = arguments[:1] == ["--peer"]
    if is_peer:
        arguments.pop(0)
    provider, rounds, size = (arguments + ["tcp", "10000", "8"][len(arguments) :])[:3]
    hints = fi.Hints(caps=fi.Caps.TAGGED, endpoint_type=fi.EndpointType.RDM, provider=provider)
    if provider == "shm":
        info = fi.getinfo(hints)[0]
    else:
        info = fi.getinfo(hints, node="127.0.0.1", source=True)[0]
    with fi.Fabric(info) as fabric, fi.Domain(fabric, info) as domain:
        queue = fi.CompletionQueue(domain)
        vector = fi.AddressVector(domain)
        endpoint = fi.Endpoint(domain, info, queue=queue, address_vector=vector)
        if is_peer:
            print(endpoint.address.hex(), flush=True)
            peer = vector.insert(bytes.fromhex(sys.stdin.readline()))
            run(domain, endpoint, peer, int(rounds), int(size), PONG, PING)
            return
        command = [sys.executable, __file__, "--peer", provider, rounds, size]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
        assert process.stdin is not None and process.stdout is not None
        try:
            peer = vector.insert(bytes.fromhex(process.stdout.readline()))
            print(endpoint.address.hex(), file=process.stdin, flush=True)
            seconds = run(domain, endpoint, peer, int(rounds), int(size), PING, PONG)
            if process.wait(LIMIT):
                sys.exit("the peer has failed")
        finally:
            process.kill()
            process.communicate()
        print(f"{provider}: {rounds} round trips of {size} bytes, {seconds / int(rounds) * 1e6:.2f} us each")


def run(
    domain: fi.Domain, endpoint: fi.Endpoint, peer: fi.Peer, rounds: int, size: int, mine: int, other: int
) -> float:
    """Sends and receives, the PING side first, and returns the seconds that took."""
    outgoing = fi.MemoryRegion(domain, bytearray(size))
    incoming = fi.MemoryRegion(domain, bytearray(size))
    outgoing.view[0] = mine
    begun = 0.0
    for number in range(rounds + 1):
        receive = endpoint.trecv(incoming, other)
        if mine == PONG:
            receive.wait(LIMIT)
        endpoint.tsend(outgoing, peer, tag=mine).wait(LIMIT)
        if mine == PING:
            receive.wait(LIMIT)
        assert incoming.view[0] == other
        if number == 0:
            # The first message connects.
            begun = time.perf_counter()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
