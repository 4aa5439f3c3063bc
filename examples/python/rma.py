#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""rma.py [PROVIDER]: one endpoint writes and reads memory of another one, and counts in it.

Both are in this process. The peer only allows the access; it takes no part in it, apart from reading its queue where a
provider needs that for progress.
"""

import array
import struct
import sys
import time

from ironfabric import fabric as fi

LIMIT = 20.0  # seconds for one operation


def main() -> None:
    provider = sys.argv[1] if len(sys.argv) > 1 else "tcp"
    caps = fi.Caps.MSG | fi.Caps.RMA | fi.Caps.ATOMIC
    hints = fi.Hints(caps=caps, endpoint_type=fi.EndpointType.RDM, provider=provider)
    if provider == "shm":
        info = fi.getinfo(hints)[0]
    else:
        info = fi.getinfo(hints, node="127.0.0.1", source=True)[0]
    with fi.Fabric(info) as fabric, fi.Domain(fabric, info) as domain:
        queue, peer_queue = fi.CompletionQueue(domain), fi.CompletionQueue(domain)
        vector = fi.AddressVector(domain)
        endpoint = fi.Endpoint(domain, info, queue=queue, address_vector=vector)
        peer_endpoint = fi.Endpoint(domain, info, queue=peer_queue, address_vector=vector)
        peer = vector.insert(peer_endpoint.address)

        def finish(operation: fi.Operation) -> fi.Completion:
            """Waits for an operation while the peer makes progress, too."""
            deadline = time.monotonic() + LIMIT
            while True:
                peer_queue.read()
                try:
                    return operation.wait(0.001)
                except TimeoutError:
                    if time.monotonic() > deadline:
                        raise

        # ANCHOR: access
        # The peer's side: memory that others may access. 24 bytes are all that they need to know.
        words = array.array("Q", [0] * 8)
        window = fi.MemoryRegion(domain, words, fi.Access.REMOTE)
        advertised = bytes(window.remote)

        # This side. With DELIVERY_COMPLETE a completion means that the bytes are in the peer's memory.
        remote = fi.RemoteMemory.from_bytes(advertised)
        finish(endpoint.write(struct.pack("QQ", 40, 41), remote, peer, flags=fi.Flags.DELIVERY_COMPLETE))
        assert list(words[:2]) == [40, 41]

        target = bytearray(16)
        finish(endpoint.read(target, remote.slice(0, 16), peer))
        assert struct.unpack("QQ", target) == (40, 41)
        # ANCHOR_END: access

        # Adds, and returns the old value.
        if domain.query_atomic(fi.Datatype.UINT64, fi.AtomicOp.SUM, fetch=True):
            old = bytearray(8)
            finish(endpoint.atomic(fi.AtomicOp.SUM, struct.pack("Q", 2), remote.slice(0, 8), peer, result=old))
            assert (struct.unpack("Q", old)[0], words[0]) == (40, 42)
        print(f"{provider}: the words of the peer are {list(words[:2])}")


if __name__ == "__main__":
    main()
