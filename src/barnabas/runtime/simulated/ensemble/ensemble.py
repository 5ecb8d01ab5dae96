"""The simulated ensemble: its leader, its sessions, and the faults that can strike it.

One order of transactions, which the leader decides; servers apply it each in its own time.  A write whose
connection is lost may have been carried out or not.  All of it is determined by the world's seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.simulated.clock import START_WALL_MS
from barnabas.runtime.simulated.ensemble.server import (
    Connection,
    Forwarded,
    SimulatedServer,
    Transaction,
)
from barnabas.runtime.simulated.ensemble.session import SimulatedSession
from barnabas.runtime.simulated.ensemble.znodes import Change, DeletedZnode, ZnodeTree
from barnabas.runtime.zookeeper.client import Operation, ZooKeeperError
from barnabas.runtime.zookeeper.options import ZooKeeperOptions
from barnabas.runtime.zookeeper.requests import Multi, SetAcl, Sync, Write
from barnabas.runtime.zookeeper.session import Session, SessionListener
from barnabas.runtime.zookeeper.session_client import SessionClient

if TYPE_CHECKING:
    from barnabas.runtime.simulated.world import Node, World

# The first server's number as an end of links, for partitions between it and nodes.
FIRST_HOST = 1_000_001
_FIRST_SESSION = 1 << 56
# A server applies a transaction this late.
MAX_LAG_NS = 5 * NS_PER_MS


class SimulatedEnsemble:
    """All servers; clients are made by `client`."""

    def __init__(self, world: World, servers: int = 3) -> None:
        self.world = world
        self.agenda = world.agenda
        self.random = world.random_for("zookeeper")
        self.log: list[Transaction] = []
        # The leader's tree: all that is decided.
        self.tree = ZnodeTree()
        self.servers = [SimulatedServer(self, number) for number in range(1, servers + 1)]
        self.max_lag_ns = MAX_LAG_NS
        self.has_leader = True
        self._epoch = 1
        self._counter = 0
        self._sessions: dict[int, _OpenSession] = {}
        self._last_session = _FIRST_SESSION

    def client(self, node: Node, options: ZooKeeperOptions | None = None) -> SessionClient:
        """A client on this node; a node that starts again makes another."""
        chosen = options if options is not None else ZooKeeperOptions("zookeeper:2181")

        def new_session(listener: SessionListener) -> Session:
            return SimulatedSession(self, node, chosen.session_timeout_ms, listener)

        return SessionClient(chosen, new_session, timers=node.timers, clock=node.clock)

    def host_of(self, server: SimulatedServer) -> int:
        """The end of links that this server is."""
        return FIRST_HOST + server.number - 1

    def shuffled_servers(self) -> list[SimulatedServer]:
        first = self.random.integer(0, len(self.servers) - 1)
        return self.servers[first:] + self.servers[:first]

    # ---------------------------------------------------------------------------------------------- faults

    @property
    def is_serving(self) -> bool:
        """Whether there is a leader with a majority."""
        return self.has_leader and 2 * sum(server.is_up for server in self.servers) > len(self.servers)

    def connections_of(self, node_id: int | None = None) -> list[Connection]:
        """The connections of a node, or all."""
        return [
            connection
            for server in self.servers
            for connection in server.connections
            if node_id in (None, connection.node_id)
        ]

    def drop_connections(self, node_id: int | None = None) -> None:
        self.agenda.note(f"zookeeper drops the connections of {node_id}")
        for connection in self.connections_of(node_id):
            connection.drop()

    def lose_next_answer(self, node_id: int) -> None:
        """The next request of the node is carried out, and the connection ends in place of its answer."""
        for connection in self.connections_of(node_id):
            connection.loses_next_answer = True

    def expire(self, node_id: int) -> None:
        """End the sessions of a node, as if nothing had been heard of it."""
        for session_id, state in list(self._sessions.items()):
            if state.node_id == node_id:
                self._expire(session_id)

    def change_leader(self, duration_ns: int) -> None:
        """All connections end, nobody is served for a while; then all sessions get their whole timeout."""
        self.agenda.note("zookeeper has no leader")
        self.has_leader = False
        self._epoch += 1
        self._counter = 0
        for server in self.servers:
            server.drop_all()
        self.agenda.after(duration_ns, partial(self._lead, self._epoch))

    def _lead(self, epoch: int) -> None:
        if epoch == self._epoch:
            self.agenda.note(f"zookeeper has a leader again, epoch {epoch}")
            self.has_leader = True
            for server in self.servers:
                server.catch_up(len(self.log))
            for session_id in self._sessions:
                self.touch(session_id)

    def stop_server(self, number: int) -> None:
        """Whether it led or not; the others go on if they are a majority."""
        server = self.servers[number - 1]
        self.agenda.note(f"zookeeper server {number} stops")
        server.go_down()
        if not self.is_serving:
            for other in self.servers:
                other.drop_all()

    def start_server(self, number: int) -> None:
        server = self.servers[number - 1]
        was_serving = self.is_serving
        self.agenda.note(f"zookeeper server {number} starts")
        server.is_up = True
        server.catch_up(len(self.log))
        if not was_serving and self.is_serving:
            for session_id in self._sessions:
                self.touch(session_id)

    # -------------------------------------------------------------------------------------------- sessions

    def attach(self, connection: Connection, session_id: int, timeout_ms: int) -> None:
        """A client has connected, with the session it has or for a new one."""
        if session_id and session_id not in self._sessions:
            connection.refuse(is_expired=True)
            return
        if not session_id:
            self._last_session += 1
            session_id = self._last_session
            self._sessions[session_id] = _OpenSession(connection.node_id, timeout_ms)
            self._commit([])
            connection.server.when_applied(
                len(self.log), partial(self._accepted, connection, session_id, timeout_ms)
            )
        else:
            self._accepted(connection, session_id, timeout_ms)
        self._sessions[session_id].connection = connection
        self.touch(session_id)

    def _accepted(self, connection: Connection, session_id: int, timeout_ms: int) -> None:
        connection.accepted(session_id, timeout_ms)

    def touch(self, session_id: int) -> None:
        """Something was heard of the session."""
        state = self._sessions.get(session_id)
        if state is not None:
            due_ns = self.agenda.now_ns + state.timeout_ms * NS_PER_MS
            self.agenda.set(("zookeeper session", session_id), due_ns, partial(self._overdue, session_id))

    def close_session(self, connection: Connection) -> None:
        state = self._sessions.get(connection.session_id)
        if state is not None and state.connection is connection and self.is_serving:
            self._expire(connection.session_id)

    def _overdue(self, session_id: int) -> None:
        # Without a leader nobody counts: the next one gives all sessions their whole timeout.
        if self.is_serving:
            self.agenda.note(f"zookeeper session {session_id & 0xFFFF} expires")
            self._expire(session_id)

    def _expire(self, session_id: int) -> None:
        state = self._sessions.pop(session_id, None)
        if state is None:
            return
        self.agenda.cancel(("zookeeper session", session_id))
        changes: list[Change] = [DeletedZnode(path) for path in self.tree.owned_by(session_id)]
        zxid, time_ms = self._next_zxid(), self._wall_ms()
        for change in changes:
            self.tree.apply(change, zxid, time_ms)
        self._append(Transaction(zxid, time_ms, tuple(changes)))
        if state.connection is not None and not state.connection.is_ending:
            state.connection.drop()

    def open_sessions(self) -> dict[int, int]:
        """The node of each open session, for checkers."""
        return {session_id: state.node_id for session_id, state in self._sessions.items()}

    # ---------------------------------------------------------------------------------------------- writes

    def forward(self, connection: Connection, request: Write, done: Forwarded) -> None:
        """Bring a write to the leader; `done` is called on the server of the connection, or never."""
        self.agenda.after(
            self.world.links.delay_ns(), partial(self._propose, self._epoch, connection, request, done)
        )

    def _propose(self, epoch: int, connection: Connection, request: Write, done: Forwarded) -> None:
        state = self._sessions.get(connection.session_id)
        if epoch != self._epoch or not self.is_serving or state is None or state.connection is not connection:
            # The leader it was sent to is gone, or the session has ended or moved to another server.
            return
        value: Any = None
        failure: ZooKeeperError | None = None
        if isinstance(request, Sync):
            number = len(self.log)
        else:
            try:
                value = self._carry_out(request, connection.session_id)
            except ZooKeeperError as error:
                failure = error
                self._commit([])
            number = len(self.log)
        connection.server.when_applied(number, partial(done, value, failure))

    def _carry_out(self, request: Write, session_id: int) -> Any:
        if isinstance(request, Multi):
            operations: Sequence[Operation | SetAcl] = request.operations
        else:
            assert not isinstance(request, Sync)
            operations = [request]
        zxid, time_ms = self._next_zxid(), self._wall_ms()
        changes, results = self.tree.carry_out(operations, session_id, zxid, time_ms)
        self._append(Transaction(zxid, time_ms, tuple(changes)))
        return results if isinstance(request, Multi) else results[0]

    def _commit(self, changes: list[Change]) -> None:
        self._append(Transaction(self._next_zxid(), self._wall_ms(), tuple(changes)))

    def _append(self, transaction: Transaction) -> None:
        self.log.append(transaction)
        for server in self.servers:
            lag_ns = int(self.random.fraction() * self.max_lag_ns)
            self.agenda.after(lag_ns, partial(server.catch_up, len(self.log)))

    def _next_zxid(self) -> int:
        self._counter += 1
        return self._epoch << 32 | self._counter

    def _wall_ms(self) -> int:
        return START_WALL_MS + self.agenda.now_ns // NS_PER_MS


class _OpenSession:
    """What the leader knows of a session."""

    def __init__(self, node_id: int, timeout_ms: int) -> None:
        self.node_id = node_id
        self.timeout_ms = timeout_ms
        self.connection: Connection | None = None
