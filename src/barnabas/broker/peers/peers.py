"""The connections of this node to others, by address: opened on demand, with back-off after a failure."""

from __future__ import annotations

from collections.abc import Container

from barnabas.base.units import NS_PER_MS
from barnabas.broker.peers.peer_connection import (
    NO_SECURITY,
    ConnectingNetwork,
    Done,
    MakeRequest,
    PeerConnection,
    PeerError,
    PeerSecurity,
)
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.network.network import Address
from barnabas.runtime.random import Random

# Requests that may wait for one peer; beyond that they fail at once.
MAX_PENDING = 1_000
FIRST_BACKOFF_MS = 20
MAX_BACKOFF_MS = 1_000
MAX_DOUBLINGS = 10


class Peers:
    """The connections of one purpose: a fetch that waits must not delay the requests of another."""

    def __init__(
        self,
        client_id: str,
        *,
        network: ConnectingNetwork,
        clock: Clock,
        timers: TimerService,
        random: Random,
        security: PeerSecurity = NO_SECURITY,
    ) -> None:
        self._security = security
        self._client_id = client_id
        self._network = network
        self._clock = clock
        self._timers = timers
        self._random = random
        self._connections: dict[Address, PeerConnection] = {}
        self._failures: dict[Address, int] = {}
        self._not_before_ns: dict[Address, int] = {}
        self._is_closed = False

    def send(
        self,
        address: Address,
        key: int,
        make: MakeRequest,
        done: Done,
        timeout_ms: int,
        highest: int | None = None,
        *,
        in_place: bool = False,
    ) -> None:
        """Send a request; `done` is called with the response, or with the error that prevented it.

        With `in_place` the bytes of the response are valid only during that call.
        """
        connection = self._connections.get(address)
        if connection is not None and connection.is_expired:
            # The former connection ends its work; it is not a failure.
            del self._connections[address]
            connection.retire()
            self._failures.pop(address, None)
            self._not_before_ns.pop(address, None)
            connection = None
        if connection is None:
            if self._is_closed or self._clock.monotonic_ns() < self._not_before_ns.get(address, 0):
                done(None, PeerError(f"{address} is not connected; it will be tried again"))
                return
            connection = self._open(address)
        if connection.pending >= MAX_PENDING:
            done(None, PeerError(f"{connection.pending} requests wait for {address}"))
            return
        succeeding = self._succeeding(address, done)
        connection.send(key, make, succeeding, timeout_ms, highest, in_place=in_place)

    def _succeeding(self, address: Address, done: Done) -> Done:
        def received(message: object, error: Exception | None) -> None:
            if error is None:
                self._failures.pop(address, None)
            done(message, error)  # type: ignore[arg-type]

        return received

    def _open(self, address: Address) -> PeerConnection:
        connection = PeerConnection(
            address,
            self._client_id,
            network=self._network,
            clock=self._clock,
            timers=self._timers,
            on_closed=self._connection_closed,
            security=self._security,
        )
        self._connections[address] = connection
        connection.open()
        return connection

    def _connection_closed(self, connection: PeerConnection) -> None:
        address = connection.address
        if connection.is_expired:
            # Its session was over, which is no failure of the peer.
            if self._connections.get(address) is connection:
                del self._connections[address]
            return
        if self._connections.get(address) is connection:
            del self._connections[address]
        failures = self._failures.get(address, 0)
        self._failures[address] = failures + 1
        backoff_ms = min(FIRST_BACKOFF_MS << min(failures, MAX_DOUBLINGS), MAX_BACKOFF_MS)
        jitter_ms = self._random.integer(0, backoff_ms // 2)
        self._not_before_ns[address] = self._clock.monotonic_ns() + (backoff_ms + jitter_ms) * NS_PER_MS

    def keep_only(self, addresses: Container[Address | None]) -> None:
        """Close the connections to all other addresses; their requests fail."""
        for connection in list(self._connections.values()):
            if connection.address not in addresses:
                connection.close()

    def close(self) -> None:
        """Close every connection; requests under way fail."""
        self._is_closed = True
        for connection in list(self._connections.values()):
            connection.close()
