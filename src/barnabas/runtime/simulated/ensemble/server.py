"""A server of the simulated ensemble, and its side of a connection.

A server answers reads from its own tree, which lags behind the leader's; a write is carried out by the leader
and answered once this server has applied it, after the watches that it calls here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.runtime.simulated.ensemble.channel import Action, Channel
from barnabas.runtime.simulated.ensemble.znodes import Change, Watched, ZnodeTree, events_of
from barnabas.runtime.zookeeper.client import (
    Create,
    Delete,
    SetData,
    WatchEvent,
    WatchKind,
    ZooKeeperError,
)
from barnabas.runtime.zookeeper.requests import (
    Multi,
    Read,
    Request,
    SetAcl,
    Sync,
)
from barnabas.runtime.zookeeper.session import Answered

if TYPE_CHECKING:
    from barnabas.runtime.simulated.ensemble.ensemble import SimulatedEnsemble


@dataclass(frozen=True, slots=True)
class Transaction:
    """What the leader has decided; one that changes nothing has an order all the same."""

    zxid: int
    time_ms: int
    changes: tuple[Change, ...]


class ClientEnd(Protocol):
    """A client's side of a connection: called on its node."""

    def accepted(self, connection: Connection, session_id: int, timeout_ms: int) -> None: ...

    def refused(self, connection: Connection, *, is_expired: bool) -> None: ...

    def heard(self, connection: Connection, zxid: int) -> None: ...

    def event(self, connection: Connection, event: WatchEvent) -> None: ...

    def lost(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...


class Connection:
    """A connection of a client to one server."""

    def __init__(
        self, server: SimulatedServer, node_id: int, client: ClientEnd, up: Channel, down: Channel
    ) -> None:
        self.server = server
        self.node_id = node_id
        # Whether the client has closed its session: it waits for the confirmation.
        self.is_ending = False
        self.session_id = 0
        self._ensemble = server.ensemble
        self._client = client
        self._up = up
        self._down = down
        self._requests: deque[tuple[Request, Answered]] = deque()
        self._is_busy = False
        self.watched = Watched()
        # A fault: the next answer is not sent, and the connection ends.
        self.loses_next_answer = False

    # --------------------------------------------------------------------------------- called by the client

    def connect(self, session_id: int, timeout_ms: int, zxid: int) -> None:
        self._up.put(partial(self.server.accept, self, session_id, timeout_ms, zxid))

    def set_watches(self, zxid: int, data: list[str], absent: list[str], children: list[str]) -> None:
        self._up.put(partial(self._set_watches, zxid, data, absent, children))

    def request(self, request: Request, answered: Answered) -> None:
        self._up.put(partial(self._received, request, answered))

    def ping(self) -> None:
        self._up.put(self._pinged)

    def end_session(self) -> None:
        """The last thing that a client says."""
        self._up.put(self._end_session)

    def leave(self) -> None:
        """The client hears nothing any more; what it has sent still arrives."""
        self._down.close()

    # --------------------------------------------------------------------------------------- on the server

    def tell(self, action: Action) -> None:
        self._down.put(action)

    def accepted(self, session_id: int, timeout_ms: int) -> None:
        self.session_id = session_id
        self.tell(partial(self._client.accepted, self, session_id, timeout_ms))

    def refuse(self, *, is_expired: bool) -> None:
        self.tell(partial(self._client.refused, self, is_expired=is_expired))

    def drop(self) -> None:
        """The server ends the connection; what is under way in both directions is lost."""
        self._up.close()
        self._down.close()
        self._down.is_open = True
        self.tell(partial(self._client.lost, self))
        self.watched.clear()
        if self in self.server.connections:
            self.server.connections.remove(self)

    def fire(self, event: WatchEvent) -> None:
        """Tell the client, if it watches that."""
        if self.watched.take(event):
            self.tell(partial(self._client.event, self, event))

    def _pinged(self) -> None:
        self._ensemble.touch(self.session_id)
        self.tell(partial(self._client.heard, self, 0))

    def _end_session(self) -> None:
        self.is_ending = True
        self._work()

    def _set_watches(self, zxid: int, data: list[str], absent: list[str], children: list[str]) -> None:
        """Set again what an earlier connection had; what has changed since is told at once."""
        tree = self.server.tree
        for path in data:
            znode = tree.get(path)
            if znode is None:
                self._missed(WatchKind.DELETED, path)
            elif znode.mzxid > zxid:
                self._missed(WatchKind.DATA_CHANGED, path)
            else:
                self.watched.data.add(path)
        for path in absent:
            if tree.get(path) is not None:
                self._missed(WatchKind.CREATED, path)
            else:
                self.watched.data.add(path)
        for path in children:
            znode = tree.get(path)
            if znode is None:
                self._missed(WatchKind.DELETED, path)
            elif znode.pzxid > zxid:
                self._missed(WatchKind.CHILDREN_CHANGED, path)
            else:
                self.watched.children.add(path)

    def _missed(self, kind: WatchKind, path: str) -> None:
        self.tell(partial(self._client.event, self, WatchEvent(kind, path)))

    def _received(self, request: Request, answered: Answered) -> None:
        self._ensemble.touch(self.session_id)
        self._requests.append((request, answered))
        self._work()

    def _work(self) -> None:
        """One after the other: what follows a write sees it."""
        while self._requests and not self._is_busy:
            request, answered = self._requests.popleft()
            if isinstance(request, Create | SetData | Delete | SetAcl | Multi | Sync):
                self._is_busy = True
                self._ensemble.forward(self, request, partial(self._written, answered))
            else:
                self._read(request, answered)
        if self.is_ending and not self._is_busy:
            # Behind all that was called before.
            self._ensemble.close_session(self)
            self.tell(partial(self._client.closed, self))

    def _written(self, answered: Answered, value: Any, error: ZooKeeperError | None) -> None:
        self._is_busy = False
        self._answer(answered, value, error)
        self._work()

    def _read(self, request: Read, answered: Answered) -> None:
        try:
            value = self.server.tree.answer(request)
        except ZooKeeperError as error:
            self._answer(answered, None, error)
        else:
            self.watched.add(request)
            self._answer(answered, value, None)

    def _answer(self, answered: Answered, value: Any, error: ZooKeeperError | None) -> None:
        if self.loses_next_answer:
            self.loses_next_answer = False
            self.drop()
            return
        self.tell(partial(self._client.heard, self, self.server.zxid))
        self.tell(partial(answered, value, error))


class SimulatedServer:
    """One server: a tree, and the connections that it serves."""

    def __init__(self, ensemble: SimulatedEnsemble, number: int) -> None:
        self.ensemble = ensemble
        self.number = number
        self.is_up = True
        self.tree = ZnodeTree()
        # How many transactions it has applied, and the zxid of the last one.
        self.applied = 0
        self.zxid = 0
        self.connections: list[Connection] = []
        self._waiting: list[tuple[int, Action]] = []

    def accept(self, connection: Connection, session_id: int, timeout_ms: int, zxid: int) -> None:
        if not self.is_up or not self.ensemble.is_serving or zxid > self.zxid:
            # Also a client that has seen more than this server has.
            connection.refuse(is_expired=False)
            return
        self.connections.append(connection)
        self.ensemble.attach(connection, session_id, timeout_ms)

    def catch_up(self, until: int) -> None:
        """Apply what the leader has decided, up to the transaction of this number."""
        if not self.is_up:
            return
        log = self.ensemble.log
        while self.applied < until:
            transaction = log[self.applied]
            self.applied += 1
            self.zxid = transaction.zxid
            for change in transaction.changes:
                self.tree.apply(change, transaction.zxid, transaction.time_ms)
                for event in events_of(change):
                    for connection in list(self.connections):
                        connection.fire(event)
            self._let_go()

    def when_applied(self, number: int, action: Action) -> None:
        """Run it once this server has applied that transaction; never, if it goes down before."""
        self._waiting.append((number, action))
        self._let_go()

    def go_down(self) -> None:
        self.is_up = False
        self.drop_all()

    def drop_all(self) -> None:
        self._waiting.clear()
        for connection in list(self.connections):
            connection.drop()

    def _let_go(self) -> None:
        ready = [action for number, action in self._waiting if number <= self.applied]
        self._waiting = [each for each in self._waiting if each[0] > self.applied]
        for action in ready:
            action()


Forwarded = Callable[[Any, ZooKeeperError | None], None]
