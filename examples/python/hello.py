#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""hello.py: an endpoint sends a message to itself."""

# ANCHOR: program
from ironfabric import fabric as fi

# What the program needs. The first entry is the best offer.
hints = fi.Hints(caps=fi.Caps.MSG, endpoint_type=fi.EndpointType.RDM, provider="tcp")
info = fi.getinfo(hints, node="127.0.0.1", source=True)[0]

# A domain is a network interface. Queues report what has ended, and address vectors number the peers.
with fi.Fabric(info) as fabric, fi.Domain(fabric, info) as domain:
    queue = fi.CompletionQueue(domain)
    vector = fi.AddressVector(domain)
    endpoint = fi.Endpoint(domain, info, queue=queue, address_vector=vector)

    # Programs exchange addresses as bytes, outside of libfabric. This one sends to itself.
    peer = vector.insert(endpoint.address)

    # Buffers are objects with the buffer protocol. A number allocates a bytearray.
    receive = endpoint.recv(64)
    endpoint.send(b"hello", peer).wait(timeout=10)
    completion = receive.wait(timeout=10)
    print("received", bytes(completion.received))
# ANCHOR_END: program
