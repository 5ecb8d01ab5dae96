"""Brokers of ZooKeeper mode in this process, on a real ensemble: on one reactor thread, each with its memory."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from barnabas.broker.modes.zookeeper.zookeeper_metadata import ZooKeeperMetadata
from barnabas.broker.server import Broker
from barnabas.config.node.node import read_node
from barnabas.protocol.apis import api
from barnabas.protocol.frame import read_response, write_request
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.reactor_thread import ReactorThread, wait_until
from barnabas.runtime.loop.workers import LoopWorkers, ThreadWorkers
from barnabas.runtime.network.tcp import TcpNetwork
from barnabas.runtime.random import SystemRandom
from barnabas.runtime.zookeeper.client import ZooKeeperClient
from barnabas.runtime.zookeeper.kazoo_client import KazooZooKeeperClient
from barnabas.runtime.zookeeper.options import ZooKeeperOptions
from barnabas.testing.kit.topics.topics import Topics

T = TypeVar("T")

PATIENCE_S = 90.0
HOST = "127.0.0.1"
# Long enough that no session ends on a busy machine.
SESSION_MS = 30_000
OPTIONS = {
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "zookeeper.connection.timeout.ms": "90000",
    "controlled.shutdown.retry.backoff.ms": "200",
}


class ZooKeeperBrokers(Topics):
    """Brokers 1, 2, … of one cluster.  `options` are those of all of them."""

    def __init__(self, connect: str, brokers: int = 1, options: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self.connect = connect
        self.brokers: dict[int, Broker] = {}
        self.disks: dict[int, Disk] = {}
        self._ids = range(1, brokers + 1)
        copies = {
            name: str(max(1, min(brokers, 3)))
            for name in ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")
        }
        self._options = {
            **OPTIONS,
            **copies,
            "transaction.state.log.min.isr": "1",
            **{name: str(value) for name, value in (options or {}).items()},
        }
        self._closing = contextlib.ExitStack()
        self._clients: list[ZooKeeperClient] = []

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._thread = ReactorThread("zookeeper-brokers")
            stack.callback(self._thread.end)
            threads = ThreadWorkers()
            stack.callback(threads.close)
            self._workers = LoopWorkers(threads, self._thread.reactor.post)
            self._network = TcpNetwork(self._thread.reactor, workers=self._workers)
            stack.callback(self.run, lambda: _closed(self._network))
            stack.callback(self._close_sessions)
            stack.callback(self._stop_all)
            for broker_id in self._ids:
                self.start_broker(broker_id)
            stack.callback(self.close_clients)
            self._closing = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    # Brokers

    def make(self, broker_id: int, **options: object) -> Broker:
        """A broker that is not started; -1 lets the cluster choose the id."""
        disk = self.disks.setdefault(broker_id, MemoryDisk())
        given = {
            **({"broker.id": str(broker_id)} if broker_id >= 0 else {}),
            "listeners": f"PLAINTEXT://{HOST}:0",
            "zookeeper.connect": self.connect,
            "log.dirs": "/data",
            **self._options,
            **{name.replace("_", "."): str(value) for name, value in options.items()},
        }
        return Broker(
            read_node(given),
            disk=disk,
            clock=SystemClock(),
            random=SystemRandom(),
            loop=self._thread.reactor,
            network=self._network,
            workers=self._workers,
            host_name=lambda: HOST,
        )

    def start_broker(self, broker_id: int, **options: object) -> Broker:
        broker = self.call(lambda: self.make(broker_id, **options))
        self.brokers[broker_id] = broker
        try:
            self.run(broker.start)
        except BaseException:
            self.stop_broker(broker_id)
            raise
        return broker

    def stop_broker(self, broker_id: int) -> None:
        self.run(self.brokers.pop(broker_id).stop)

    def _stop_all(self) -> None:
        for broker_id in list(self.brokers):
            self.stop_broker(broker_id)

    def metadata(self, broker_id: int) -> ZooKeeperMetadata:
        return self.brokers[broker_id].zookeeper

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{self.port(broker_id)}" for broker_id in self.brokers)

    def port(self, broker_id: int) -> int:
        return self.brokers[broker_id].listeners["PLAINTEXT"].address.port

    def ask(self, broker_id: int, request: Message, version: int) -> Any:
        """One request on a connection of its own."""
        key = request.schema.key
        assert key is not None, "a request has a key"
        with socket.create_connection((HOST, self.port(broker_id)), timeout=PATIENCE_S) as sock:
            sock.sendall(write_request(request, version, 7, "test"))
            size = struct.unpack(">i", _exactly(sock, 4))[0]
            return read_response(_exactly(sock, size), api(key), version)[1]

    # The loop

    def run(self, begin: Callable[[], Promise[T]]) -> T:
        return self._thread.finish(begin, PATIENCE_S)

    def call(self, action: Callable[[], T]) -> T:
        return self.run(lambda: Promise.of(action()))

    def until(self, condition: Callable[[], bool]) -> None:
        assert wait_until(partial(self.call, condition), PATIENCE_S), "it never came to be"

    # What is in ZooKeeper

    def client(self, path: str | None = None) -> ZooKeeperClient:
        """A session of the test's own."""
        reactor = self._thread.reactor
        client = KazooZooKeeperClient(
            ZooKeeperOptions(self.connect if path is None else path, SESSION_MS, int(PATIENCE_S * 1000)),
            post=reactor.post,
            timers=reactor.timers,
            clock=SystemClock(),
        )
        self.run(client.start)
        self._clients.append(client)
        return client

    def _close_sessions(self) -> None:
        for client in self._clients:
            self.run(client.close)


def _exactly(sock: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        data = sock.recv(size - len(received))
        assert data, "the broker closed the connection"
        received += data
    return received


def _closed(network: TcpNetwork) -> Promise[None]:
    network.close()
    return Promise.of(None)
