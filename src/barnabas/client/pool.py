"""The connections of a client, by node: opened on demand, with backoff, and closed when idle.

The choice of a node belongs in `cluster`.
"""

from __future__ import annotations

import asyncio
from enum import Enum

from barnabas.client.broker_connection import BrokerConnection, ConnectingNetwork
from barnabas.client.errors.local import ClosedError
from barnabas.client.login.client_security import ClientSecurity
from barnabas.client.model import Node
from barnabas.config.settings import Settings
from barnabas.runtime.network.asyncio_network import ClientSocketOptions
from barnabas.runtime.random import Random

JITTER = 0.2
# More doublings change nothing: every limit is reached by then.
MAX_DOUBLINGS = 16


class Purpose(Enum):
    """Separate connections to one node by use: a request that the broker delays (a fetch, a join) must not
    block others."""

    DATA = "data"
    FETCHES = "fetches"
    COORDINATION = "coordination"


Key = tuple[int, str, int, Purpose]


def backoff_s(first_ms: int, most_ms: int, failures: int, random: Random) -> float:
    """Return an exponential backoff with jitter, as in KIP-580."""
    plain = min(first_ms << min(failures, MAX_DOUBLINGS), max(first_ms, most_ms))
    return plain * (1 - JITTER + 2 * JITTER * random.fraction()) / 1000


class Pool:
    """Connections by node and purpose."""

    def __init__(self, settings: Settings, network: ConnectingNetwork, random: Random) -> None:
        self._settings = settings
        self._network = network
        self._random = random
        self._security = ClientSecurity(settings, random)
        self._connections: dict[Key, BrokerConnection] = {}
        self._failures: dict[Key, int] = {}
        self._not_before: dict[Key, float] = {}
        self._idle_s = settings["connections.max.idle.ms"] / 1000
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed = False

    def ready(self, node: Node, purpose: Purpose = Purpose.DATA) -> BrokerConnection | None:
        """Return the open connection to a node, if there is one."""
        connection = self._connections.get((node.id, node.host, node.port, purpose))
        usable = connection is not None and connection.is_ready and not connection.is_expired
        return connection if usable else None

    def is_backing_off(self, node: Node, purpose: Purpose = Purpose.DATA) -> bool:
        until = self._not_before.get((node.id, node.host, node.port, purpose), 0.0)
        return until > asyncio.get_running_loop().time()

    async def connection(self, node: Node, purpose: Purpose = Purpose.DATA) -> BrokerConnection:
        """Return the connection to a node, opened if needed; raises NetworkError if that fails."""
        key = (node.id, node.host, node.port, purpose)
        connection = self._connections.get(key)
        if connection is not None and connection.is_ready:
            if not connection.is_expired:
                return connection
            self._retire(key, connection)
            connection = None
        if connection is None or connection.is_closed:
            wait_s = self._not_before.get(key, 0.0) - asyncio.get_running_loop().time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            connection = self._connections.get(key)
            if connection is None or connection.is_closed:
                connection = self._open(key, node)
        await connection.opened()
        self._failures.pop(key, None)
        return connection

    def _retire(self, key: Key, connection: BrokerConnection) -> None:
        """Make room for a connection with a login of its own; the former one ends its work."""
        del self._connections[key]
        connection.on_closed = None
        connection.retire()

    def disconnect(self, node: Node) -> None:
        """Close all connections to a node; their requests in flight fail."""
        for key, connection in list(self._connections.items()):
            if key[:3] == (node.id, node.host, node.port):
                connection.close()

    def _open(self, key: Key, node: Node) -> BrokerConnection:
        if self._closed:
            raise ClosedError("the client is closed; open a new one")
        settings = self._settings
        failures = self._failures.get(key, 0)
        login = self._security.login
        connection = BrokerConnection(node, settings["client.id"], settings["request.timeout.ms"], login)
        connection.on_closed = lambda closed: self._connection_closed(key, closed)
        self._connections[key] = connection
        timeout_s = backoff_s(
            settings["socket.connection.setup.timeout.ms"],
            settings["socket.connection.setup.timeout.max.ms"],
            failures,
            self._random,
        )
        options = ClientSocketOptions(
            connect_timeout_ms=max(1, int(timeout_s * 1000)),
            send_buffer_bytes=self._given_size("send.buffer.bytes"),
            receive_buffer_bytes=self._given_size("receive.buffer.bytes"),
            tls=self._security.tls,
        )
        connection.open(self._network, options)
        if self._sweeper is None and self._idle_s > 0:
            self._sweeper = asyncio.get_running_loop().call_later(self._idle_s, self._sweep)
        return connection

    def _given_size(self, name: str) -> int | None:
        """Return a size only if it was configured: the system's own buffer sizes grow with the load."""
        given = self._settings.is_given(name) and self._settings[name] > 0
        return int(self._settings[name]) if given else None

    def _connection_closed(self, key: Key, connection: BrokerConnection) -> None:
        if self._connections.get(key) is connection:
            del self._connections[key]
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        first_ms, most_ms = (
            self._settings["reconnect.backoff.ms"],
            self._settings["reconnect.backoff.max.ms"],
        )
        now = asyncio.get_running_loop().time()
        self._not_before[key] = now + backoff_s(first_ms, most_ms, failures, self._random)

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._sweeper = (
            loop.call_later(max(self._idle_s / 2, 0.1), self._sweep) if self._connections else None
        )
        for key, connection in list(self._connections.items()):
            if not connection.in_flight and loop.time() - connection.used_at > self._idle_s:
                connection.on_closed = None
                del self._connections[key]
                connection.close()

    def close(self) -> None:
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
        for connection in list(self._connections.values()):
            connection.close()
