"""The door to the network: byte streams between hosts.

What lives here: the interface, its limits and its words.  What may not: sockets (see `tcp`) and anything that
knows what the bytes mean.  The simulated twin is `simulated_network`; both run the same `connection`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from barnabas.runtime.disk.disk import Buffer, Slice


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
    CONNECT_FAILED = "no connection could be made"
    CONNECT_TIMED_OUT = "no connection was made in time"


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """How much a connection may hold, and what is asked of the system.  The defaults suit a broker."""

    # Above so much waiting to be sent, nothing more is read; at half of it reading goes on.
    pause_above_bytes: int = 1 << 20
    # Above so much in memory waiting to be sent, the connection is closed.  Slices of files do not count.
    max_queued_bytes: int = 256 << 20
    # The same for all connections together: the one that would add to it is closed.
    max_all_queued_bytes: int = 2**63 - 1
    # What large frames that are still arriving may hold, all together.
    max_receiving_bytes: int = 2**63 - 1
    # What a connection that was told to close still has for sending what is queued.
    linger_ms: int = 5_000
    connect_timeout_ms: int = 10_000
    # Who comes in on a descriptor that is not below this number is sent away: the others are for files.
    connections_below: int = 2**31 - 1
    listen_backlog: int = 1_024
    # Of accepted sockets.  None leaves them to the system, which lets them grow: fixed ones cost up to 40 %.
    receive_buffer_bytes: int | None = None
    send_buffer_bytes: int | None = None


class StreamHandler:
    """What a connection talks to: a sans-IO protocol.  Override what you need."""

    def connected(self, connection: Connection) -> None:
        """The connection stands; called once, first.  An exception closes it."""

    def data_received(self, view: memoryview) -> int:
        """Bytes have arrived: return how many you took; the rest is offered again, with more behind it.

        The view may be written to; it is gone when this returns, so copy what must last.  If the rest is
        the start of a frame whose size is known, say so by `connection.expect`.  Stop taking frames while
        not `connection.reading`.  An exception closes the connection.
        """
        raise NotImplementedError

    def drained(self) -> None:
        """The queue was above its limit and is below half of it again: you may go on sending."""

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        """The connection is gone, or was never made; called once, last."""


class Connection(Protocol):
    """One stream.  All methods are for the reactor's thread."""

    @property
    def peer(self) -> Address: ...

    @property
    def local(self) -> Address: ...

    @property
    def queued_bytes(self) -> int:
        """What waits to be sent, slices of files included."""
        ...

    @property
    def reading(self) -> bool:
        """False while paused, choked by its own send queue, or closing: no further frame should be taken."""
        ...

    @property
    def is_closed(self) -> bool: ...

    def send(self, *parts: Buffer | Slice) -> None:
        """Queue parts, in order; they leave together at the end of this read or tick.

        A buffer must not change before it has left.  A slice goes from the file to the socket by the
        shortest way.
        """
        ...

    def expect(self, size: int) -> None:
        """Only within `data_received`.

        The bytes left over start a frame of `size` bytes, which was checked.
        """
        ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self, reason: CloseReason = CloseReason.LOCAL, error: BaseException | None = None) -> None:
        """Close now; what is queued is lost.  The handler hears `closed` at the end of the tick."""
        ...

    def close_when_sent(self) -> None:
        """Take nothing more, send what is queued (for at most `linger_ms`), then close."""
        ...


class Listener(Protocol):
    """An open door.  Closing it leaves the connections it accepted alone."""

    @property
    def address(self) -> Address: ...

    def pause_accepting(self) -> None:
        """Let newcomers wait at the door: they are connected when accepting goes on."""
        ...

    def resume_accepting(self) -> None: ...

    def close(self) -> None: ...


class Network(Protocol):
    """What the rest of the code may do with a network."""

    def listen(
        self, host: str, port: int, on_connection: Callable[[Address], StreamHandler | None]
    ) -> Listener:
        """Accept connections; port 0 takes a free one, an empty host every address of this machine.

        `on_connection` is told the peer and gives the handler, or None to refuse.  OSError if it cannot
        listen.
        """
        ...

    def connect(self, host: str, port: int, handler: StreamHandler) -> None:
        """Reach out; the handler hears `connected`, or `closed` with the reason."""
        ...

    def close(self) -> None:
        """Close every listener and every connection."""
        ...
