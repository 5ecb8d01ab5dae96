"""A client's session with the simulated ensemble: see `runtime.zookeeper.session.Session`."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.simulated.ensemble.channel import Action, Channel
from barnabas.runtime.simulated.ensemble.server import Connection
from barnabas.runtime.zookeeper.client import (
    SessionState,
    WatchEvent,
    WatchKind,
    ZooKeeperCode,
    ZooKeeperError,
)
from barnabas.runtime.zookeeper.requests import Exists, GetChildren, Request
from barnabas.runtime.zookeeper.session import Answered, SessionListener

if TYPE_CHECKING:
    from barnabas.runtime.simulated.ensemble.ensemble import SimulatedEnsemble
    from barnabas.runtime.simulated.world import Node

# Between two attempts to connect.
PAUSE_NS = 100 * NS_PER_MS


class SimulatedSession:
    """Lives on one node, until that crashes."""

    def __init__(
        self, ensemble: SimulatedEnsemble, node: Node, timeout_ms: int, listener: SessionListener
    ) -> None:
        self.session_id = 0
        self.granted_timeout_ms = 0
        self.is_over = False
        self._ensemble = ensemble
        self._node = node
        self._timeout_ms = timeout_ms
        self._listener = listener
        self._connection: Connection | None = None
        self._is_connected = False
        self._is_closing = False
        self._attempt = 0
        self._servers = ensemble.shuffled_servers()
        self._in_flight: deque[tuple[Request, Answered]] = deque()
        # What is watched: paths with a znode, without one, and children.
        self._data: set[str] = set()
        self._absent: set[str] = set()
        self._children: set[str] = set()
        self._zxid = 0
        self._heard_ns = 0

    # ------------------------------------------------------------------------------------ what a client asks

    def start(self) -> None:
        self._connect()
        self._ping_later()

    def call(self, request: Request, answered: Answered) -> None:
        if self._connection is None or not self._is_connected:
            answered(None, ZooKeeperError(ZooKeeperCode.CONNECTION_LOSS, request.path))
            return
        self._in_flight.append((request, answered))
        self._connection.request(request, partial(self._answered, self._connection))

    def close(self) -> None:
        self._is_closing = True
        if self._connection is not None and self._is_connected:
            self._connection.end_session()
        else:
            self._node.after(0, self._end)

    # ------------------------------------------------------------------------------------------- connecting

    def _connect(self) -> None:
        if self.is_over or self._is_closing:
            return
        self._attempt += 1
        server = self._servers[self._attempt % len(self._servers)]
        host, node, world = self._ensemble.host_of(server), self._node, self._ensemble.world
        life = node.life

        def enter(action: Action) -> None:
            node.enter(life, action)

        up = Channel(world.agenda, world.links, node.id, host, _at_once)
        down = Channel(world.agenda, world.links, host, node.id, enter)
        connection = self._connection = Connection(server, node.id, self, up, down)
        connection.connect(self.session_id, self._timeout_ms, self._zxid)
        timeout_ms = self._timeout_ms // len(self._servers)
        node.after(timeout_ms * NS_PER_MS, partial(self._time_out, connection))

    def _time_out(self, connection: Connection) -> None:
        if connection is self._connection and not self._is_connected:
            self.lost(connection)

    def _ping_later(self) -> None:
        self._node.after(self._timeout_ms * NS_PER_MS // 3, self._ping)

    def _ping(self) -> None:
        if self.is_over:
            return
        self._ping_later()
        if self._connection is not None and self._is_connected:
            self._connection.ping()
            sent_ns = self._ensemble.agenda.now_ns
            check = partial(self._check_answer, self._connection, sent_ns)
            self._node.after(self._timeout_ms * NS_PER_MS // 3, check)

    def _check_answer(self, connection: Connection, sent_ns: int) -> None:
        """So the loss is noticed while there is time to connect again before the session ends."""
        if self._heard_ns < sent_ns:
            self.lost(connection)

    # ------------------------------------------------------------------------------- what a connection tells

    def accepted(self, connection: Connection, session_id: int, timeout_ms: int) -> None:
        if connection is not self._connection or self.is_over:
            return
        self.session_id, self.granted_timeout_ms = session_id, timeout_ms
        self._is_connected = True
        self.heard(connection, 0)
        if self._is_closing:
            connection.end_session()
            return
        if self._data or self._absent or self._children:
            data, absent, children = map(sorted, (self._data, self._absent, self._children))
            connection.set_watches(self._zxid, data, absent, children)
        self._listener.connected(self)

    def refused(self, connection: Connection, *, is_expired: bool) -> None:
        if connection is not self._connection:
            return
        if is_expired:
            self._end()
        else:
            self.lost(connection)

    def heard(self, connection: Connection, zxid: int) -> None:
        if connection is self._connection:
            self._heard_ns = self._ensemble.agenda.now_ns
            self._zxid = max(self._zxid, zxid)

    def event(self, connection: Connection, event: WatchEvent) -> None:
        if connection is not self._connection:
            return
        if event.kind is not WatchKind.CHILDREN_CHANGED:
            self._data.discard(event.path)
            self._absent.discard(event.path)
        if event.kind in (WatchKind.CHILDREN_CHANGED, WatchKind.DELETED):
            self._children.discard(event.path)
        self._listener.watch_fired(self, event.kind, event.path)

    def lost(self, connection: Connection) -> None:
        """The connection has ended, for whatever reason."""
        if connection is not self._connection or self.is_over:
            return
        connection.leave()
        self._connection = None
        was_connected, self._is_connected = self._is_connected, False
        if self._is_closing:
            self._end()
            return
        self._fail_all(ZooKeeperCode.CONNECTION_LOSS)
        if was_connected:
            self._listener.disconnected(self)
        self._node.after(int(self._ensemble.random.fraction() * PAUSE_NS), self._connect)

    def closed(self, connection: Connection) -> None:
        if connection is self._connection:
            self._end()

    def _answered(self, connection: Connection, value: Any, error: ZooKeeperError | None) -> None:
        if connection is not self._connection:
            return
        request, answered = self._in_flight.popleft()
        if error is None:
            self._watch(request, value)
        answered(value, error)

    def _watch(self, request: Request, value: Any) -> None:
        if isinstance(request, Exists) and request.watch:
            (self._absent if value is None else self._data).add(request.path)
        elif isinstance(request, GetChildren) and request.watch:
            self._children.add(request.path)

    def _end(self) -> None:
        if self.is_over:
            return
        self.is_over = True
        if self._connection is not None:
            self._connection.leave()
            self._connection = None
        self._fail_all(ZooKeeperCode.SESSION_EXPIRED)
        self._listener.ended(self, SessionState.EXPIRED)

    def _fail_all(self, code: ZooKeeperCode) -> None:
        in_flight, self._in_flight = self._in_flight, deque()
        for request, answered in in_flight:
            answered(None, ZooKeeperError(code, request.path))


def _at_once(action: Action) -> None:
    action()
