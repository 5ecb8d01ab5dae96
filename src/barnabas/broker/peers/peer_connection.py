"""One connection from this node to another, on the broker's reactor.

Contains connecting, the handshake, deadlines, and responses as callbacks.  Framing and the choice of versions
are those of the client (`client.connection`); when to connect again belongs in peers.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.base.units import NS_PER_MS
from barnabas.client.connection import ConnectionProtocol
from barnabas.client.login.handshake import Handshake, Login
from barnabas.protocol.apis import api
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.network.network import Address, CloseReason, Connection, StreamHandler

if TYPE_CHECKING:
    from barnabas.runtime.tls.context import Tls


class PeerError(Exception):
    """The peer could not be reached, did not respond in time, or does not support the request."""


# The part of a session's lifetime after which a node logs in again.
SESSION_USED_PERCENT = 85
Done = Callable[[Message | None, Exception | None], None]
MakeRequest = Callable[[int], Message]


class ConnectingNetwork(Protocol):
    """The part of runtime.network.Network that is needed here."""

    def connect(self, host: str, port: int, handler: StreamHandler, tls: Tls | None = None) -> None: ...


class PeerSecurity(NamedTuple):
    """How connections to other nodes are protected, and how this node logs in there."""

    tls: Tls | None = None
    login: Login | None = None


NO_SECURITY = PeerSecurity()


class _Waiting:
    """A request that waits for the handshake, or for its response."""

    __slots__ = ("deadline_ns", "done", "highest", "in_place", "key", "make")

    def __init__(
        self,
        key: int,
        make: MakeRequest,
        done: Done,
        deadline_ns: int,
        highest: int | None,
        *,
        in_place: bool,
    ) -> None:
        self.key = key
        self.in_place = in_place
        self.highest = highest
        self.make = make
        self.done = done
        self.deadline_ns = deadline_ns


class PeerConnection(StreamHandler):
    """A connection from its beginning to its end; it is never reused after that."""

    def __init__(
        self,
        address: Address,
        client_id: str,
        *,
        network: ConnectingNetwork,
        clock: Clock,
        timers: TimerService,
        on_closed: Callable[[PeerConnection], None],
        security: PeerSecurity = NO_SECURITY,
    ) -> None:
        self._security = security
        self.address = address
        self.is_closed = False
        self._protocol = ConnectionProtocol(client_id)
        self._network = network
        self._clock = clock
        self._timers = timers
        self._on_closed = on_closed
        self._connection: Connection | None = None
        self._is_ready = False
        self._session_ends_ns: int | None = None
        self._is_retiring = False
        self._before_handshake: list[_Waiting] = []
        # Responses come in the order of the requests, so the first deadline is the next one to pass.
        self._in_flight: list[_Waiting] = []

    @property
    def pending(self) -> int:
        """Requests without a response."""
        return len(self._before_handshake) + len(self._in_flight)

    @property
    def is_expired(self) -> bool:
        """Whether a new connection, with a new login, should replace this one (KIP-368)."""
        return self._session_ends_ns is not None and self._clock.monotonic_ns() >= self._session_ends_ns

    def retire(self) -> None:
        """Close when the requests in flight have their responses; nobody sends others."""
        self._is_retiring = True
        if not self.pending:
            self.close()

    def open(self) -> None:
        tls = self._security.tls
        if tls is None:
            self._network.connect(self.address.host, self.address.port, self)
        else:
            self._network.connect(self.address.host, self.address.port, self, tls)

    def send(
        self,
        key: int,
        make: MakeRequest,
        done: Done,
        timeout_ms: int,
        highest: int | None = None,
        *,
        in_place: bool = False,
    ) -> None:
        """Send the request that `make` builds for the negotiated version; `done` is called exactly once.

        With `in_place` the bytes of the response lie in a receive buffer that is used again afterwards.
        """
        deadline_ns = self._clock.monotonic_ns() + timeout_ms * NS_PER_MS
        waiting = _Waiting(key, make, done, deadline_ns, highest, in_place=in_place)
        if self.is_closed:
            done(None, PeerError(f"the connection to {self.address} is closed"))
        elif self._is_ready:
            self._send_now(waiting)
        else:
            self._before_handshake.append(waiting)
            self._set_timer()

    def _send_now(self, waiting: _Waiting) -> None:
        assert self._connection is not None, "the handshake needs a connection"
        try:
            version = self._protocol.version_for(api(waiting.key), waiting.highest)
            request = waiting.make(version)
            responded = partial(self._responded, waiting)
            pieces = self._protocol.request(request, version, responded, in_place=waiting.in_place)
        except Exception as error:
            # The peer's release lacks this API: the connection stays usable for others.
            waiting.done(None, error)
            return
        self._in_flight.append(waiting)
        self._set_timer()
        self._connection.send(*pieces)

    def _responded(self, waiting: _Waiting, message: Message | None, error: Exception | None) -> None:
        if waiting in self._in_flight:
            self._in_flight.remove(waiting)
            self._set_timer()
        waiting.done(message, error)
        if self._is_retiring and not self.pending:
            self.close()

    # Deadlines

    def _set_timer(self) -> None:
        deadlines = [waiting.deadline_ns for waiting in (*self._in_flight, *self._before_handshake)]
        if deadlines:
            self._timers.set((self, "deadline"), min(deadlines), self._timed_out)
        else:
            self._timers.cancel((self, "deadline"))

    def _timed_out(self) -> None:
        """A peer that misses a deadline is not heard any more: later responses would be taken for others."""
        self.close(PeerError(f"{self.address} did not respond in time"))

    def close(self, error: Exception | None = None) -> None:
        """End the connection; its requests fail."""
        if self.is_closed:
            return
        if self._connection is not None:
            self._connection.close(CloseReason.LOCAL, error)
        self._end(error if error is not None else PeerError(f"the connection to {self.address} is closed"))

    # Callbacks of the network

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        if self.is_closed:
            connection.close()
            return
        self._handshake = Handshake(self._protocol, self._handshake_completed, self._security.login)
        self._handshake.start(connection.send)

    def data_received(self, view: memoryview) -> int:
        taken = self._protocol.receive(view)
        if self._protocol.expected and self._connection is not None:
            self._connection.expect(self._protocol.expected)
        return taken

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        detail = f" ({error})" if error is not None and str(error) else ""
        self._end(PeerError(f"{self.address}: {reason.value}{detail}"))

    def _handshake_completed(self, error: Exception | None) -> None:
        if error is not None:
            self.close(error)
            return
        lifetime_ms = self._handshake.session_lifetime_ms
        if lifetime_ms > 0:
            used_ns = lifetime_ms * NS_PER_MS * SESSION_USED_PERCENT // 100
            self._session_ends_ns = self._clock.monotonic_ns() + used_ns
        self._is_ready = True
        waiting, self._before_handshake = self._before_handshake, []
        for each in waiting:
            self._send_now(each)

    def _end(self, error: Exception) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._timers.cancel((self, "deadline"))
        if self._connection is not None:
            self._handshake.abandon()
        unsent, self._before_handshake = self._before_handshake, []
        self._on_closed(self)
        self._protocol.end(error)
        for waiting in unsent:
            waiting.done(None, error)
