"""The network of one node of the kit: it can be paused with the node, and its links to others can be cut."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.disk.disk import Buffer, Slice
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.network.network import (
    Address,
    CloseReason,
    Connection,
    Listener,
    NetworkLimits,
    StreamHandler,
    TlsPeer,
)
from barnabas.runtime.network.tcp import TcpNetwork
from barnabas.testing.kit.node.services import Action, Gate, NodeWorkers

if TYPE_CHECKING:
    from barnabas.runtime.tls.context import Tls

CONNECT_TIMEOUT_MS = 10_000


class NodeNetwork:
    """The network of one node.  Links to other nodes, known by their ports, can be cut: what is sent
    waits, as TCP would send it again, and new connections time out."""

    def __init__(
        self, reactor: Reactor, gate: Gate, workers: NodeWorkers, cut: Callable[[int], Gate]
    ) -> None:
        self._reactor = reactor
        self._gate = gate
        # The gate of the link to the node that listens on a port.
        self._link = cut
        self._tcp = TcpNetwork(reactor, limits=NetworkLimits(), workers=workers)
        self._listeners: list[Listener] = []
        self._connections: dict[_Handler, None] = {}

    def listen(
        self,
        host: str,
        port: int,
        on_connection: Callable[[Address], StreamHandler | None],
        tls: Tls | None = None,
    ) -> Listener:
        def accept(peer: Address) -> StreamHandler | None:
            handler = on_connection(peer)
            return None if handler is None else _Handler(handler, self, None)

        listener = self._tcp.listen(host, port, accept, tls)
        self._listeners.append(listener)
        return listener

    def connect(self, host: str, port: int, handler: StreamHandler, tls: Tls | None = None) -> None:
        link = self._link(port)
        attempt = _Handler(handler, self, link)
        if not link.is_shut:
            self._tcp.connect(host, port, attempt, tls)
            return
        key = (attempt, "cut off")
        deadline_ns = self._reactor.clock.monotonic_ns() + CONNECT_TIMEOUT_MS * NS_PER_MS
        self._reactor.timers.set(
            key, deadline_ns, partial(attempt.closed, CloseReason.CONNECT_TIMED_OUT, None)
        )

        def try_now() -> None:
            if not attempt.is_closed:
                self._reactor.timers.cancel(key)
                self._tcp.connect(host, port, attempt, tls)

        link.run(try_now)

    def close(self) -> None:
        self._tcp.close()

    def pause(self) -> None:
        """Connections stay, and nothing is read from them; new ones wait in the backlog."""
        for handler in self._connections:
            handler.hold()
        for listener in self._listeners:
            listener.pause_accepting()

    def resume(self) -> None:
        for handler in list(self._connections):
            handler.release()
        for listener in self._listeners:
            listener.resume_accepting()

    def hold_link(self, link: Gate) -> None:
        for handler in self._connections:
            if handler.link is link:
                handler.hold()

    def release_link(self, link: Gate) -> None:
        for handler in list(self._connections):
            if handler.link is link and not self._gate.is_shut:
                handler.release()

    def joined(self, handler: _Handler) -> None:
        self._connections[handler] = None

    def left(self, handler: _Handler) -> None:
        self._connections.pop(handler, None)

    def run(self, action: Action) -> None:
        self._gate.run(action)


class _Handler(StreamHandler):
    """Between a connection and its handler: holds what arrives, and what is sent over a link that is cut."""

    def __init__(self, handler: StreamHandler, network: NodeNetwork, link: Gate | None) -> None:
        self.link = link
        self.is_closed = False
        self._handler = handler
        self._network = network
        self._connection: Connection | None = None
        self._is_held = False
        self._was_reading = False

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        self._network.joined(self)
        seen = connection if self.link is None else _LinkedConnection(connection, self.link)
        self._network.run(partial(self._handler.connected, seen))

    def secured(self, peer: TlsPeer) -> None:
        self._network.run(partial(self._handler.secured, peer))

    def data_received(self, view: memoryview) -> int:
        return 0 if self._is_held else self._handler.data_received(view)

    def drained(self) -> None:
        self._network.run(self._handler.drained)

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        self.is_closed = True
        self._network.left(self)
        self._network.run(partial(self._handler.closed, reason, error))

    def hold(self) -> None:
        if self._connection is not None and not self._is_held:
            self._is_held = True
            self._was_reading = self._connection.reading
            self._connection.pause_reading()

    def release(self) -> None:
        if self._connection is not None and self._is_held:
            self._is_held = False
            if self._was_reading or self.link is not None:
                # Paused first: what has arrived meanwhile is offered when reading resumes.
                self._connection.pause_reading()
                self._connection.resume_reading()


class _LinkedConnection:
    """A connection over a link; what is sent while the link is cut goes out when it is whole again."""

    def __init__(self, connection: Connection, link: Gate) -> None:
        self._connection = connection
        self._link = link

    @property
    def peer(self) -> Address:
        return self._connection.peer

    @property
    def local(self) -> Address:
        return self._connection.local

    @property
    def queued_bytes(self) -> int:
        return self._connection.queued_bytes

    @property
    def reading(self) -> bool:
        return self._connection.reading

    @property
    def is_closed(self) -> bool:
        return self._connection.is_closed

    def send(self, *parts: Buffer | Slice) -> None:
        if self._link.is_shut:
            self._link.run(partial(self._send_late, *parts))
        else:
            self._connection.send(*parts)

    def _send_late(self, *parts: Buffer | Slice) -> None:
        if not self._connection.is_closed:
            self._connection.send(*parts)

    def expect(self, size: int) -> None:
        self._connection.expect(size)

    def pause_reading(self) -> None:
        self._connection.pause_reading()

    def resume_reading(self) -> None:
        self._connection.resume_reading()

    def close(self, reason: CloseReason = CloseReason.LOCAL, error: BaseException | None = None) -> None:
        self._connection.close(reason, error)

    def close_when_sent(self) -> None:
        self._connection.close_when_sent()
