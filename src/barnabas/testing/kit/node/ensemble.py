"""ZooKeeper for the brokers of one cluster: znodes in memory, in one order, and sessions.

A session ends when nothing was heard of its node for the session's timeout, or when the kit says so.
Everything runs on the reactor's thread; what a node hears passes the gates of its link and of the node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from barnabas.base.units import NS_PER_MS
from barnabas.broker.modes.zookeeper.znodes import paths
from barnabas.broker.modes.zookeeper.znodes.cluster import decode_controller
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.simulated.ensemble.znodes import Change, DeletedZnode, Watched, ZnodeTree, events_of
from barnabas.runtime.zookeeper.client import (
    Create,
    Delete,
    Operation,
    SessionState,
    SetData,
    ZooKeeperCode,
    ZooKeeperError,
)
from barnabas.runtime.zookeeper.options import ZooKeeperOptions
from barnabas.runtime.zookeeper.requests import Multi, Request, SetAcl, Sync
from barnabas.runtime.zookeeper.session import Answered, Session, SessionListener
from barnabas.runtime.zookeeper.session_client import SessionClient
from barnabas.testing.kit.node.services import Action, Gate, NodeLoop

# Nodes know it by this address only; nothing listens there.
CONNECT = "zookeeper:2181"
_FIRST_SESSION, _FIRST_ZXID = 1 << 56, 1 << 32
# As clients of ZooKeeper do.
_PINGS_PER_TIMEOUT = 3


class Ensemble:
    """All znodes, and the sessions of the cluster's nodes."""

    def __init__(self, reactor: Reactor, clock: Clock) -> None:
        self._tree = ZnodeTree()
        self._reactor = reactor
        self._clock = clock
        self._sessions: dict[int, NodeSession] = {}
        self._last_session = _FIRST_SESSION
        self._zxid = _FIRST_ZXID

    def client(self, node_id: int, loop: NodeLoop, link: Gate, timeout_ms: int) -> SessionClient:
        """The client of one life of a node."""
        options = ZooKeeperOptions(CONNECT, timeout_ms)

        def new_session(listener: SessionListener) -> Session:
            return NodeSession(self, node_id, timeout_ms, loop, link, listener)

        return SessionClient(options, new_session, timers=loop.timers, clock=self._clock)

    def expire(self, node_id: int) -> None:
        """The sessions of a node end at once, as if nothing had been heard of it for long."""
        for session in list(self._sessions.values()):
            if session.node_id == node_id:
                self.end(session)

    def image(self) -> ZnodeTree:
        """All znodes as they are now."""
        return self._tree.copy()

    def replace(self, image: ZnodeTree) -> None:
        """The znodes become those of an image; all nodes have been killed."""
        for session_id in self._sessions:
            self._reactor.timers.cancel((self, session_id))
        self._sessions.clear()
        self._tree = image.copy()
        owned = [path for path, znode in self._tree.znodes.items() if znode.owner]
        self._commit([DeletedZnode(path) for path in owned])

    @property
    def controller_id(self) -> int | None:
        """The broker that /controller names: one that is cut off from here does not know of another."""
        znode = self._tree.get(paths.CONTROLLER)
        return None if znode is None else decode_controller(paths.CONTROLLER, znode.data).broker_id

    # What sessions ask --------------------------------------------------------------------------------------

    def open(self, session: NodeSession) -> int:
        """Returns the id of the new session."""
        self._last_session += 1
        self._sessions[self._last_session] = session
        return self._last_session

    def heard(self, session: NodeSession) -> None:
        """Something was heard of it: its time begins again."""
        if session.session_id in self._sessions:
            due_ns = self._clock.monotonic_ns() + session.granted_timeout_ms * NS_PER_MS
            self._reactor.timers.set((self, session.session_id), due_ns, partial(self.end, session))

    def next_ping_ns(self, session: NodeSession) -> int:
        """When a node whose session has nothing to ask says that it lives."""
        return self._clock.monotonic_ns() + session.granted_timeout_ms * NS_PER_MS // _PINGS_PER_TIMEOUT

    def end(self, session: NodeSession) -> None:
        """Its ephemeral znodes are gone, and it is told."""
        self._reactor.timers.cancel((self, session.session_id))
        if self._sessions.pop(session.session_id, None) is not None:
            self._commit([DeletedZnode(path) for path in self._tree.owned_by(session.session_id)])
            session.tell(session.ended)

    def carry_out(self, session: NodeSession, request: Request) -> Any:
        """Returns the answer; raises ZooKeeperError."""
        if session.session_id not in self._sessions:
            raise ZooKeeperError(ZooKeeperCode.SESSION_EXPIRED, request.path)
        if isinstance(request, Sync):
            return None
        if isinstance(request, Multi):
            return self._write(request.operations, session)
        if isinstance(request, Create | SetData | Delete | SetAcl):
            return self._write([request], session)[0]
        answer = self._tree.answer(request)
        session.watched.add(request)
        return answer

    def _write(self, operations: Sequence[Operation | SetAcl], session: NodeSession) -> list[Any]:
        zxid = self._next_zxid()
        changes, results = self._tree.carry_out(operations, session.session_id, zxid, self._clock.wall_ms())
        self._call_watches(changes)
        return results

    def _commit(self, changes: Sequence[Change]) -> None:
        zxid, time_ms = self._next_zxid(), self._clock.wall_ms()
        for change in changes:
            self._tree.apply(change, zxid, time_ms)
        self._call_watches(changes)

    def _call_watches(self, changes: Sequence[Change]) -> None:
        for change in changes:
            for event in events_of(change):
                for session in self._sessions.values():
                    if session.watched.take(event):
                        session.tell(partial(session.watch_fired, event.kind, event.path))

    def _next_zxid(self) -> int:
        self._zxid += 1
        return self._zxid


class NodeSession:
    """See `Session`.  A link that is cut delays what is said, as TCP sends it again; a session that ends
    meanwhile learns of it afterwards."""

    def __init__(
        self,
        ensemble: Ensemble,
        node_id: int,
        timeout_ms: int,
        loop: NodeLoop,
        link: Gate,
        listener: SessionListener,
    ) -> None:
        self.node_id = node_id
        self.session_id = 0
        self.granted_timeout_ms = timeout_ms
        self.is_over = False
        self.watched = Watched()
        self._ensemble = ensemble
        self._loop = loop
        self._link = link
        self._listener = listener

    def start(self) -> None:
        self._link.run(self._open)

    def call(self, request: Request, answered: Answered) -> None:
        self._link.run(partial(self._serve, request, answered))

    def close(self) -> None:
        self._loop.timers.cancel((self, "ping"))
        self._link.run(self._close)

    def tell(self, action: Action) -> None:
        """To the node, in order."""
        self._link.run(partial(self._loop.at_tick_end, action))

    def watch_fired(self, *what: Any) -> None:
        if not self.is_over:
            self._listener.watch_fired(self, *what)

    def ended(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._loop.timers.cancel((self, "ping"))
            self._listener.ended(self, SessionState.EXPIRED)

    def _open(self) -> None:
        self.session_id = self._ensemble.open(self)
        self._ensemble.heard(self)
        self.tell(self._connected)

    def _connected(self) -> None:
        if not self.is_over:
            self._ping()
            self._listener.connected(self)

    def _serve(self, request: Request, answered: Answered) -> None:
        self._ensemble.heard(self)
        try:
            answer, error = self._ensemble.carry_out(self, request), None
        except ZooKeeperError as refused:
            answer, error = None, refused
        self.tell(partial(self._answer, answered, answer, error))

    def _answer(self, answered: Answered, answer: Any, error: ZooKeeperError | None) -> None:
        if not self.is_over:
            answered(answer, error)

    def _close(self) -> None:
        self._ensemble.end(self)
        # A session that had ended already.
        self.tell(self.ended)

    def _ping(self) -> None:
        if self.is_over:
            return
        self._link.run(partial(self._ensemble.heard, self))
        self._loop.timers.set((self, "ping"), self._ensemble.next_ping_ns(self), self._ping)
