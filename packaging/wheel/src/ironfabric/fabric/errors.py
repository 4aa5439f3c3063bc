# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Exceptions: numbers of fi_errno(3)."""

from typing import TYPE_CHECKING, Dict, Optional, Type

from . import abi
from ._library import strerror

if TYPE_CHECKING:
    from ._cq import Operation
    from ._endpoint import Endpoint


class FabricError(OSError):
    """A call that failed. `code` is a positive number of fi_errno(3), such as `abi.FI_EINVAL`.

    Some numbers have a class of their own, which is also the built-in exception for this number:

    >>> issubclass(ConnectionRefused, ConnectionRefusedError)
    True
    """

    code: int

    def __init__(self, code: int, what: str = "") -> None:
        text = strerror(code)
        super().__init__(code, f"{what}: {text}" if what else text)
        self.code = code

    def __str__(self) -> str:
        text = str(self.strerror)
        # Some libraries have the name in the text.
        return text if name(self.code) in text else f"{text} ({name(self.code)})"


class Again(FabricError, BlockingIOError):
    """There is no room now: read the completion queue, then call again (FI_EAGAIN)."""


class NoData(FabricError, LookupError):
    """Nothing matches the hints (FI_ENODATA)."""


class NotSupported(FabricError):
    """The provider does not have this call (FI_ENOSYS, FI_EOPNOTSUPP)."""


class Busy(FabricError):
    """The object is in use (FI_EBUSY)."""


class TimedOut(FabricError, TimeoutError):
    """The provider has given up (FI_ETIMEDOUT)."""


class ConnectionRefused(FabricError, ConnectionRefusedError):
    """The peer refused the connection (FI_ECONNREFUSED)."""


class ConnectionReset(FabricError, ConnectionResetError):
    """The connection ended (FI_ECONNRESET)."""


class ConnectionAborted(FabricError, ConnectionAbortedError):
    """The connection ended (FI_ECONNABORTED)."""


class OperationError(FabricError):
    """An operation that was posted and has failed: `fi_cq_err_entry` of fi_cq(3).

    `operation` is None if the provider does not know the operation.
    """

    def __init__(
        self,
        code: int,
        operation: "Optional[Operation]" = None,
        *,
        provider_errno: int = 0,
        provider_text: str = "",
        flags: int = 0,
        length: int = 0,
        excess: int = 0,
        tag: int = 0,
        data: int = 0,
        detail: bytes = b"",
        what: str = "",
    ) -> None:
        super().__init__(code, what)
        if provider_errno and provider_text:
            self.strerror = f"{self.strerror} (provider: {provider_errno}, {provider_text})"
        #: The operation, with its buffer.
        self.operation = operation
        #: The provider's own number and text.
        self.provider_errno = provider_errno
        self.provider_text = provider_text
        #: Kind of the operation.
        self.flags = flags
        #: Bytes that were received; with FI_ETRUNC also the bytes that had no room.
        self.length = length
        self.excess = excess
        self.tag = tag
        self.data = data
        #: Details in the provider's format.
        self.detail = detail


class EventError(FabricError):
    """A failure in an event queue: `fi_eq_err_entry` of fi_eq(3).

    If a peer refused the connection, `data` is what it passed to `reject`.
    """

    def __init__(
        self,
        code: int,
        endpoint: "Optional[Endpoint]",
        *,
        provider_errno: int = 0,
        provider_text: str = "",
        data: bytes = b"",
    ) -> None:
        super().__init__(code)
        self.endpoint = endpoint
        self.provider_errno = provider_errno
        self.provider_text = provider_text
        self.data = data


class RequestRefused(EventError, ConnectionRefused):
    """The peer refused the connection (FI_ECONNREFUSED)."""


class ClosedError(ValueError):
    """The object was closed, or belongs to the parent process."""


def name(code: int) -> str:
    """Returns the name of a number: "FI_EAGAIN"."""
    return _NAMES.get(code, f"error {code}")


def error(code: int, what: str = "") -> FabricError:
    """Returns the exception for a number of either sign."""
    code = abs(code)
    return _CLASSES.get(code, FabricError)(code, what)


def check(code: int, what: str = "") -> int:
    """Returns the result of a C call, and raises an exception if it is negative."""
    if code < 0:
        raise error(code, what)
    return code


_NAMES: Dict[int, str] = {
    value: key
    for key, value in sorted(vars(abi).items(), reverse=True)
    if key.startswith("FI_E") and isinstance(value, int) and 0 < value < abi.FI_ERRNO_MAX and key[4:5].isalnum()
    if not key.startswith(("FI_EP_", "FI_ERRNO", "FI_EVENT"))
}

_CLASSES: Dict[int, Type[FabricError]] = {
    abi.FI_EAGAIN: Again,
    abi.FI_ENODATA: NoData,
    abi.FI_ENOSYS: NotSupported,
    abi.FI_EOPNOTSUPP: NotSupported,
    abi.FI_EBUSY: Busy,
    abi.FI_ETIMEDOUT: TimedOut,
    abi.FI_ECONNREFUSED: ConnectionRefused,
    abi.FI_ECONNRESET: ConnectionReset,
    abi.FI_ECONNABORTED: ConnectionAborted,
}
