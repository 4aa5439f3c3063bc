# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the tests share: endpoints of a provider, waiting for conditions, programs in processes of their own."""

import gc
import os
import subprocess
import sys
import time
import unittest
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

from ironfabric import fabric as fi
from ironfabric.fabric import _object

#: Seconds until a test gives up.
LIMIT = 20 * float(os.environ.get("PATIENCE", "1"))
#: Whether the library is this project's own, and not another libfabric.
IS_OURS = os.environ.get("IRONFABRIC_OTHER") != "1"
RDM = ("tcp", "shm", "sockets", "tcp;ofi_rxm", "udp;ofi_rxd")
MSG = ("tcp", "sockets")


def offer(provider: str, kind: fi.EndpointType, caps: fi.Caps, **more: Any) -> fi.Info:
    """Returns an offer on the loopback interface; skips the test if there is none."""
    hints = fi.Hints(caps=caps, endpoint_type=kind, provider=provider, **more)
    where: Dict[str, Any] = {} if provider.startswith("shm") else {"node": "127.0.0.1", "source": True}
    try:
        found = fi.getinfo(hints, **where)
    except fi.NoData:
        raise unittest.SkipTest(f"{provider} does not offer this") from None
    for info in found:
        # Upstream's ofi_rxm has entries on top of other providers, too.
        if info.provider == provider:
            return info
    raise unittest.SkipTest(f"{provider} does not offer this")


def until(condition: Callable[[], object], what: str = "the condition") -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not in {LIMIT} s")
        time.sleep(0.001)


class Pair:
    """Two endpoints of one domain that have each other in their vector."""

    def __init__(
        self,
        info: fi.Info,
        wait: Optional[fi.Wait] = None,
        **more: Any,
    ) -> None:
        self.info = info
        self.fabric = fi.Fabric(info)
        self.domain = fi.Domain(self.fabric, info)
        self.queue_a = fi.CompletionQueue(self.domain, wait=wait)
        self.queue_b = fi.CompletionQueue(self.domain, wait=wait)
        self.vector = fi.AddressVector(self.domain)
        self.a = fi.Endpoint(self.domain, info, queue=self.queue_a, address_vector=self.vector, **more)
        self.b = fi.Endpoint(self.domain, info, queue=self.queue_b, address_vector=self.vector, **more)
        self.to_a = self.vector.insert(self.a.address)
        self.to_b = self.vector.insert(self.b.address)

    def finish(self, *operations: fi.Operation) -> List[fi.Completion]:
        """Reads both queues until these operations have ended, and returns their completions."""
        deadline = time.monotonic() + LIMIT
        while not all(operation.done for operation in operations):
            if time.monotonic() > deadline:
                raise AssertionError(f"not in {LIMIT} s: {operations}")
            drive(self.queue_a, self.queue_b)
        return [operation.result() for operation in operations]

    def close(self) -> None:
        self.fabric.close()


def drive(*queues: Any) -> bool:
    """Reads queues, and leaves to the program what they report. Returns True."""
    for queue in queues:
        with queue._lock:
            while queue._pull():
                queue._announce()
    return True


def open_objects() -> int:
    """Returns how many C objects are open, after garbage was collected."""
    gc.collect()
    return len(_object._graph.open)


def per_provider(providers: Tuple[str, ...]) -> "Callable[[Type[Any]], Type[Any]]":
    """Makes a test case for each provider of a class that has the tests."""

    def made(base: Type[Any]) -> Type[Any]:
        module = sys.modules[base.__module__]
        for provider in providers:
            name = f"{base.__name__}_{provider.replace(';', '_')}"
            case = type(name, (base, unittest.TestCase), {"provider": provider, "__module__": base.__module__})
            setattr(module, name, case)
        return base

    return made


def run_program(text: str, *, check: bool = True, **more: Any) -> "subprocess.CompletedProcess[str]":
    """Runs a Python program with this library and package."""
    done = subprocess.run(
        [sys.executable, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        universal_newlines=True,
        timeout=LIMIT * 3,
        **more,
    )
    if check and done.returncode:
        raise AssertionError(f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done
