"""The network interface: byte streams between hosts.

Contains the interface and its limits.  Sockets belong in `tcp`; nothing here knows what the bytes mean.  The
simulated twin is `simulated.network`; both use the same `connection`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.runtime.disk.disk import Buffer, Slice

if TYPE_CHECKING:
    from barnabas.runtime.tls.context import Tls


class Address(NamedTuple):
    """One end of a connection."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class CloseReason(Enum):
    """Why a connection ended."""

    LOCAL = "closed by us"
    PEER = "closed by the peer"
    RESET = "broken by the network or the peer"
    HANDLER_FAILED = "what was received could not be handled"
    SEND_QUEUE_FULL = "the peer does not read what we send"
    RECEIVE_STALLED = "the rest of a large request did not come while others waited for memory"
    TLS_FAILED = "the TLS handshake failed"
    CONNECT_FAILED = "no connection could be made"
    CONNECT_TIMED_OUT = "no connection was made in time"


class TlsPeer(NamedTuple):
    """What a TLS handshake has told about the peer."""

    # In DER, and checked against the trust store; None if the peer has shown none.
    certificate: bytes | None


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """Limits of a connection, and socket options.  The defaults suit a broker."""

    # With more bytes than this queued for sending, reading stops; it resumes at half of it.
    pause_above_bytes: int = 1 << 20
    # With more bytes than this queued in memory, the connection is closed.  Slices of files do not count.
    max_queued_bytes: int = 256 << 20
    # The same for all connections together: the one that would exceed it is closed.
    max_all_queued_bytes: int = 2**63 - 1
    # Memory for large frames that are still arriving, all connections together.
    max_receiving_bytes: int = 2**63 - 1
    # How long a closing connection may continue to send its queue.
    linger_ms: int = 5_000
    connect_timeout_ms: int = 10_000
    # A connection whose descriptor is not below this number is rejected: the other descriptors are for files.
    connections_below: int = 2**31 - 1
    listen_backlog: int = 1_024
    # Of accepted sockets.  None leaves them to the system, which lets them grow: fixed ones cost up to 40 %.
    receive_buffer_bytes: int | None = None
    send_buffer_bytes: int | None = None


class StreamHandler:
    """The handler of a connection: a sans-IO protocol.  Override what you need."""

    # Whether a listener with TLS speaks it with this peer: a handshake is work for one that is turned away.
    wants_tls = True

    def connected(self, connection: Connection) -> None:
        """The connection is established; called once, first.  An exception closes it."""

    def secured(self, peer: TlsPeer) -> None:
        """The TLS handshake has succeeded; called once, after `connected` and before any data."""

    def data_received(self, view: memoryview) -> int:
        """Bytes have arrived: returns how many were consumed; the others are passed again, with more after
        them.

        The view is writable and valid only during this call, so copy what must last.  If the remaining bytes
        are the start of a frame whose size is known, announce it with `connection.expect`.  Stop consuming
        frames while not `connection.reading`.  An exception closes the connection.
        """
        raise NotImplementedError

    def drained(self) -> None:
        """The queue was above its limit and is below half of it again: sending may resume."""

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        """The connection was closed, or could not be established; called once, last."""


class Connection(Protocol):
    """One stream.  All methods must be called on the reactor's thread."""

    @property
    def peer(self) -> Address: ...

    @property
    def local(self) -> Address: ...

    @property
    def queued_bytes(self) -> int:
        """Bytes queued for sending, slices of files included."""
        ...

    @property
    def reading(self) -> bool:
        """False while paused, choked by its own send queue, or closing: no further frame should be
        consumed."""
        ...

    @property
    def is_closed(self) -> bool: ...

    def send(self, *parts: Buffer | Slice) -> None:
        """Queue parts, in order; they are sent together at the end of this read or tick.

        A buffer must not change before it is sent.  A slice goes from the file to the socket by the fastest
        means.
        """
        ...

    def expect(self, size: int) -> None:
        """Only within `data_received`.

        The remaining bytes start a frame of `size` bytes, which was checked.
        """
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self, reason: CloseReason = CloseReason.LOCAL, error: BaseException | None = None) -> None:
        """Close now; queued data is lost.  `closed` is called on the handler at the end of the tick."""
        ...

    def close_when_sent(self) -> None:
        """Stop reading, send the queue (for at most `linger_ms`), then close."""
        ...


class Listener(Protocol):
    """A listening socket.  Closing it does not affect the connections it accepted."""

    @property
    def address(self) -> Address: ...

    def pause_accepting(self) -> None:
        """Leave new connections in the backlog; they are accepted when accepting resumes."""
        ...

    def resume_accepting(self) -> None: ...

    def close(self) -> None: ...


class Network(Protocol):
    """The network interface for the rest of the code."""

    def listen(
        self,
        host: str,
        port: int,
        on_connection: Callable[[Address], StreamHandler | None],
        tls: Tls | None = None,
    ) -> Listener:
        """Accept connections; port 0 selects a free one, an empty host all addresses of this machine.

        `on_connection` is called with the peer and returns the handler, or None to reject.  OSError if it
        cannot listen.
        """
        ...

    def connect(self, host: str, port: int, handler: StreamHandler, tls: Tls | None = None) -> None:
        """Connect; calls `connected` on the handler, or `closed` with the reason."""
        ...

    def close(self) -> None:
        """Close every listener and every connection."""
        ...
