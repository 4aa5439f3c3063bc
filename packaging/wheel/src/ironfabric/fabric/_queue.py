# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The common part of completion and event queues: waiting by threads and by asyncio.

One thread at a time reads the C queue and delivers what it reads. A thread that waits becomes the reader if there is
none, and else sleeps until the reader has delivered something. The reader releases the lock while it sleeps. On a
descriptor it follows the rule of fi_poll(3): fi_trywait first, and poll(2) only if that allows it.
"""

import asyncio
import ctypes
import os
import select
import threading
import time
from typing import Any, Callable, Generator, Generic, List, Optional, Set, Tuple, TypeVar

from . import abi
from ._object import Object
from .errors import FabricError, check
from .flags import Wait

Result = TypeVar("Result")

#: Longest sleep of a waiting thread in seconds. Then it looks whether another thread has closed the queue.
SLICE = 0.1
#: Sleep of a waiting thread if the provider reports no progress by the descriptor.
NAP = 0.0001
#: Polls of a queue without a descriptor, some milliseconds, before a waiting thread sleeps between two of them. Other
#: threads of Python run during polls, which release the interpreter's lock.
SPINS = 5000


class Pending(Generic[Result]):
    """Something that ends later, and is then reported by a queue. `wait` blocks, `await` does not."""

    __slots__ = ("__weakref__", "_error", "_futures", "_is_done", "_queue", "_result")

    def __init__(self, queue: "Queue") -> None:
        self._queue = queue
        self._is_done = False
        self._result: Optional[Result] = None
        self._error: Optional[BaseException] = None
        self._futures: Optional[List[Any]] = None

    @property
    def done(self) -> bool:
        """Whether it has ended. This does not read the queue."""
        return self._is_done

    def wait(self, timeout: Optional[float] = None) -> Result:
        """Waits for the end, up to `timeout` seconds, and returns the result.

        A failure is raised as an exception, and so is TimeoutError: then it still goes on. Reading the queue drives
        progress of all operations that report to it; their completions stay in the queue.
        """
        if not self._is_done and not self._queue._wait_for(self._has_ended, timeout):
            raise TimeoutError(f"not in {timeout} s")
        return self.result()

    def _has_ended(self) -> bool:
        return self._is_done

    def result(self) -> Result:
        """Returns the result, or raises the failure. RuntimeError: it has not ended."""
        if not self._is_done:
            raise RuntimeError("it has not ended")
        self._queue._taken(self)
        if self._error is not None:
            raise self._error
        result: Any = self._result
        return result  # type: ignore[no-any-return]

    def __await__(self) -> Generator[Any, None, Result]:
        if not self._is_done:
            yield from self._queue._future(self).__await__()
        return self.result()

    def _is_awaited(self) -> bool:
        """Whether a task waits for it."""
        futures = self._futures
        return futures is not None and not all(future.done() for future in futures)

    def _end(self, result: Optional[Result], error: Optional[BaseException]) -> None:
        """Sets the result. The caller holds the lock of the queue."""
        self._result, self._error, self._is_done = result, error, True
        futures, self._futures = self._futures, None
        for future in futures or ():
            wake(future)


def wake(future: "asyncio.Future[None]") -> None:
    """Ends a future, from any thread."""
    loop = future.get_loop()

    def finish() -> None:
        if not future.done():
            future.set_result(None)

    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop:
        finish()
    elif not loop.is_closed():
        loop.call_soon_threadsafe(finish)


class Queue(Object):
    """A queue that threads read, or that an asyncio loop reads when its descriptor is readable."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition(self._lock)
        self._is_reading = False
        self._fd = -1
        self._fabric: Any = None
        self._poller: Optional[select.poll] = None
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._is_watching = False
        self._futures: "Set[asyncio.Future[None]]" = set()
        self._arrivals: "Set[asyncio.Future[None]]" = set()

    def _open_with(self, open_with: Callable[[Wait], int], wait: Optional[Wait]) -> Tuple[int, Wait]:
        """Opens the C queue. Without a request of the program, queues whose provider has descriptors get one."""
        if wait is not None:
            wait = Wait(wait)
            return self._open_for(open_with, wait), wait
        try:
            return self._open_for(open_with, Wait.FD), Wait.FD
        except FabricError as error:
            if error.code not in (abi.FI_ENOSYS, abi.FI_EINVAL, abi.FI_EOPNOTSUPP):
                raise
            return self._open_for(open_with, Wait.NONE), Wait.NONE

    def _open_for(self, open_with: Callable[[Wait], int], wait: Wait) -> int:
        raw = open_with(wait)
        if wait is not Wait.FD:
            return raw
        fd = ctypes.c_int(-1)
        ops = abi.fid.from_address(raw).ops.contents
        code = ops.control(raw, abi.FI_GETWAIT, ctypes.byref(fd))
        if code < 0:
            # ofi_rxd of libfabric 2.6 opens such a queue, but has no descriptor.
            ops.close(raw)
            check(code, "getting the descriptor")
        self._fd = fd.value
        self._poller = select.poll()
        self._poller.register(self._fd, select.POLLIN)
        return raw

    def fileno(self) -> int:
        """Returns the descriptor that becomes readable when there may be something to read.

        It belongs to the queue: do not read or close it. Before each sleep `try_wait` has to return True. OSError: the
        queue has none.
        """
        self.fid
        if self._fd < 0:
            raise OSError(f"the {self.kind} has no descriptor: open it with wait=Wait.FD")
        return self._fd

    def try_wait(self) -> bool:
        """Returns whether a thread may sleep on the descriptor: fi_trywait of fi_poll(3). If not, read the queue."""
        with self._lock:
            self.fid
            return not self._has_unread() and self._may_sleep()

    def _may_sleep(self) -> bool:
        fids = (ctypes.c_void_p * 1)(self._fid)
        fabric = abi.fid_fabric.from_address(self._fabric.fid)
        code: int = fabric.ops.contents.trywait(self._fabric.fid, fids, 1)
        if code == -abi.FI_EAGAIN:
            return False
        check(code, "fi_trywait")
        return True

    # Of completion and event queues. The caller holds the lock.

    def _pull(self) -> bool:
        """Reads the C queue once, and delivers what is there. Returns whether there was anything."""
        raise NotImplementedError

    def _has_unread(self) -> bool:
        """Whether there is something that the program has not read."""
        raise NotImplementedError

    def _is_stalled(self) -> bool:
        """Whether something waits for progress that the descriptor does not report."""
        return False

    def _taken(self, pending: "Pending[Any]") -> None:
        """The program has the result of something, so that a read need not return it."""
        raise NotImplementedError

    # Threads.

    def _wait_for(self, is_over: Callable[[], bool], timeout: Optional[float]) -> bool:
        """Reads the queue until `is_over`. False: not in time."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            try:
                return self._read_until(is_over, deadline)
            finally:
                if self._futures:
                    # The descriptor reports what comes from now on only after fi_trywait.
                    self._kick()

    def _read_until(self, is_over: Callable[[], bool], deadline: Optional[float]) -> bool:
        spins = 0
        while True:
            if not self._is_reading and self._pull():
                spins = 0
                self._announce()
            if is_over():
                return True
            self.fid
            left = SLICE if deadline is None else min(SLICE, deadline - time.monotonic())
            if left <= 0:
                return False
            if self._is_reading:
                self._changed.wait(left)
                continue
            spins += 1
            self._is_reading = True
            try:
                self._sleep(left, spins)
            finally:
                self._is_reading = False
                self._changed.notify_all()

    def _sleep(self, seconds: float, spins: int) -> None:
        """Sleeps until the queue may have something, without the lock."""
        poller = self._poller
        if poller is not None and not self._is_stalled():
            if self._may_sleep():
                self._lock.release()
                try:
                    poller.poll(max(seconds * 1000, 1))
                finally:
                    self._lock.acquire()
            return
        if spins < SPINS:
            if spins % 16 == 0:
                # On a busy machine the peer may need this processor.
                os.sched_yield()
            return
        self._lock.release()
        try:
            time.sleep(min(seconds, NAP))
        finally:
            self._lock.acquire()

    def _announce(self) -> None:
        """Something was delivered: wakes up threads and tasks that wait for it."""
        self._changed.notify_all()
        if self._arrivals and self._has_unread():
            arrivals, self._arrivals = self._arrivals, set()
            for future in arrivals:
                wake(future)

    def _closing(self) -> None:
        super()._closing()
        with self._lock:
            self._unwatch()

    def _closed(self) -> None:
        with self._lock:
            self._changed.notify_all()
            for future in [*self._futures, *self._arrivals]:
                wake(future)

    # asyncio.

    def _future(self, pending: "Optional[Pending[Any]]") -> "asyncio.Future[None]":
        """Returns a future that ends with `pending`, or when something can be read."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self.fileno()
            if self._loop is not loop:
                if self._loop is not None and self._is_watching and not self._loop.is_closed():
                    raise RuntimeError(f"another event loop reads the {self.kind}")
                self._loop, self._is_watching = loop, False
                # Futures of a loop that has ended.
                self._futures.clear()
                self._arrivals.clear()
            future: "asyncio.Future[None]" = loop.create_future()
            # Another thread may have read it since the caller looked.
            if self._has_unread() if pending is None else pending._is_done:
                future.set_result(None)
                return future
            if pending is None:
                self._arrivals.add(future)
            else:
                if pending._futures is None:
                    pending._futures = []
                pending._futures.append(future)
            self._futures.add(future)
            future.add_done_callback(self._forget)
            if not self._is_watching:
                self._is_watching = True
                loop.add_reader(self._fd, self._drive)
            self._drive()
        return future

    def _forget(self, future: "asyncio.Future[None]") -> None:
        with self._lock:
            self._futures.discard(future)
            self._arrivals.discard(future)
            if not self._futures:
                self._unwatch()

    def _unwatch(self) -> None:
        if self._is_watching:
            self._is_watching = False
            if self._loop is not None and not self._loop.is_closed():
                self._loop.remove_reader(self._fd)

    def _drive(self) -> None:
        """Reads the queue for the tasks that wait, until the loop may sleep on the descriptor."""
        loop = self._loop
        with self._lock:
            if not self._fid or loop is None or self._is_reading:
                return
            try:
                found = False
                # Other tasks get a turn after a number of reads.
                for _ in range(16):
                    if not self._pull():
                        break
                    found = True
                if found:
                    self._announce()
                if self._is_stalled():
                    loop.call_later(NAP, self._drive)
                elif any(not future.done() for future in self._futures) and not self._may_sleep():
                    loop.call_soon(self._drive)
            except FabricError as error:
                for future in list(self._futures):
                    if not future.done():
                        future.set_exception(error)

    def _kick(self) -> None:
        """Lets the loop read the queue, from any thread."""
        loop = self._loop
        if loop is None or loop.is_closed():
            try:
                self._loop = loop = asyncio.get_running_loop()
            except RuntimeError:
                # Threads read the queue.
                return
            self._is_watching = False
        loop.call_soon_threadsafe(self._drive)
