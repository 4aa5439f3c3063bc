#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""agents.py: two NIXL agents, each a process of its own, move memory over NIXL's libfabric plug-in.

The initiator writes into the target's memory and reads from it, in several sizes, and both sides check every byte. The last
line of the output names the provider's library and the rates: `LIBRARY write X GB/s, read Y GB/s`.
"""
import os
import pickle
import socket
import struct
import sys
import time

SIZES = [1, 8, 4095, 65536, 1048577]
BULK, ROUNDS = 16 << 20, 20
PATIENCE = float(os.environ.get("PATIENCE", "1"))
LIMIT = 60 * PATIENCE


class Pipe:
    """Out-of-band messages between the two agents: pickled objects with their length."""

    def __init__(self, connection):
        self.connection = connection
        connection.settimeout(LIMIT)

    def send(self, thing):
        data = pickle.dumps(thing)
        self.connection.sendall(struct.pack("<I", len(data)) + data)

    def receive(self):
        return pickle.loads(self.exactly(struct.unpack("<I", self.exactly(4))[0]))

    def exactly(self, count):
        data = b""
        while len(data) < count:
            part = self.connection.recv(count - len(data))
            if not part:
                sys.exit("FAILED: the other agent has ended")
            data += part
        return data


class Agent:
    """One NIXL agent with one registered buffer."""

    def __init__(self, name, pipe):
        import numpy
        import nixl_cu12 as nixl
        self.numpy, self.pipe = numpy, pipe
        self.agent = nixl.nixl_agent(name, nixl.nixl_agent_config(backends=["LIBFABRIC"]))
        if "LIBFABRIC" not in self.agent.backends:
            sys.exit("FAILED: the libfabric plug-in did not load")
        self.memory = numpy.zeros(BULK, dtype=numpy.uint8)
        self.region = self.agent.register_memory([(self.address, BULK, 0, "")], "DRAM")
        pipe.send((self.agent.get_agent_metadata(), self.address))
        metadata, self.remote_address = pipe.receive()
        self.peer = self.agent.add_remote_agent(metadata)
        if isinstance(self.peer, bytes):
            self.peer = self.peer.decode()

    @property
    def address(self):
        return self.memory.ctypes.data

    def pattern(self, seed, size):
        return ((self.numpy.arange(size, dtype=self.numpy.uint32) * 2654435761 + seed * 40503) >> 13).astype(self.numpy.uint8)

    def check(self, seed, size, what):
        different = (self.memory[:size] != self.pattern(seed, size)).nonzero()[0]
        if len(different):
            sys.exit(f"FAILED: {what} of {size} bytes: {len(different)} differ, the first at {different[0]}")
        if size < BULK and self.memory[size:].any():
            sys.exit(f"FAILED: {what} of {size} bytes: bytes behind them changed")

    def transfer(self, operation, size, tag=b""):
        handle = self.agent.initialize_xfer(operation, self.agent.get_xfer_descs([(self.address, size, 0)], "DRAM"),
                                            self.agent.get_xfer_descs([(self.remote_address, size, 0)], "DRAM"), self.peer, tag)
        state, end = self.agent.transfer(handle), time.monotonic() + LIMIT
        while state == "PROC" and time.monotonic() < end:
            state = self.agent.check_xfer_state(handle)
        if state != "DONE":
            sys.exit(f"FAILED: {operation} of {size} bytes: {state}")
        self.agent.release_xfer_handle(handle)

    def wait_for(self, tag):
        end = time.monotonic() + LIMIT
        while not self.agent.check_remote_xfer_done(self.peer, tag):
            if time.monotonic() > end:
                sys.exit(f"FAILED: the notification {tag} did not come")

    def close(self):
        self.agent.deregister_memory(self.region)
        self.agent.remove_remote_agent(self.peer)


def target(pipe):
    agent = Agent("target", pipe)
    for seed, size in enumerate([*SIZES, BULK]):
        agent.memory[:] = 0
        pipe.send("ready")
        agent.wait_for(b"wrote %d" % size)
        agent.check(seed, size, "WRITE")
        agent.memory[:size] = agent.pattern(seed + 100, size)
        pipe.send("filled")
        pipe.receive()
    pipe.send("ready")
    pipe.receive()
    agent.close()


def initiator(pipe):
    agent = Agent("initiator", pipe)
    for seed, size in enumerate([*SIZES, BULK]):
        pipe.receive()
        agent.memory[:] = 0
        agent.memory[:size] = agent.pattern(seed, size)
        agent.transfer("WRITE", size, b"wrote %d" % size)
        pipe.receive()
        agent.memory[:] = 0
        agent.transfer("READ", size)
        agent.check(seed + 100, size, "READ")
        pipe.send("read")
    pipe.receive()
    rates = []
    for operation in ("WRITE", "READ"):
        start = time.monotonic()
        for _ in range(ROUNDS):
            agent.transfer(operation, BULK)
        rates.append(f"{operation.lower()} {BULK * ROUNDS / (time.monotonic() - start) / 1e9:.1f} GB/s")
    pipe.send("end")
    agent.close()
    print(library(), ", ".join(rates))


def library():
    """The libfabric that this process has loaded."""
    with open("/proc/self/maps") as maps:
        found = sorted({line.split()[-1] for line in maps if "libfabric.so" in line})
    return found[0] if len(found) == 1 else sys.exit(f"FAILED: not one libfabric in this process: {found}")


def main():
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        target(Pipe(theirs))
        sys.exit(0)
    theirs.close()
    initiator(Pipe(ours))
    _, status = os.waitpid(child, 0)
    sys.exit("FAILED: the target ended with an error" if status else 0)


main()
