"""A broker's front for tests: a fake broker for handlers, and a real one on real sockets, both in this thread."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable
from typing import Any

from barnabas.base.ids import Uuid
from barnabas.broker.metadata.auto_topic_creation import AutoTopics
from barnabas.broker.metadata.supported_features import supported_features
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.network.request_context import RequestContext
from barnabas.broker.network.routes import Role, routes_for
from barnabas.broker.security.authorizer import AllowEverything, Operation, Resource
from barnabas.broker.server import Broker
from barnabas.config.layers import Layers
from barnabas.config.node.node import Node, read_node
from barnabas.config.option import Mode
from barnabas.protocol.apis import api
from barnabas.protocol.frame import read_response, write_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.disk.watched_disk import WatchedDisk
from barnabas.runtime.loop.loop_guard import LoopGuard
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.loop.workers import LoopWorkers, ThreadWorkers
from barnabas.runtime.network.network import Address
from barnabas.runtime.network.tcp import TcpNetwork
from barnabas.runtime.random import SeededRandom
from barnabas.storage.directories.meta_properties import V1, MetaProperties, write_meta_properties
from tests.broker.worlds.fake_metadata import FakeMetadata
from tests.broker.worlds.steps import begun

CLUSTER_ID = "IbvkabpoSYqtPFrap8D0hg"
PEER = Address("127.0.0.1", 50_000)
CLOSED = b""
_TICK_NS = 2_000_000
# Nobody waits so long unless it never comes to be: workers are threads, and the machine may be busy.
_PATIENCE_S = 120


def node_of(folder: str = "/data", **overrides: Any) -> Node:
    given = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:9093",
        "log.dirs": folder,
    }
    return read_node({**given, **{name.replace("_", "."): value for name, value in overrides.items()}})


def call_of(
    key: int, version: int, *, listener: str = "PLAINTEXT", client_id: str = "test"
) -> RequestContext:
    return RequestContext(
        key, version, 7, client_id, principal="User:ANONYMOUS", listener=listener, peer=PEER, received_ns=0
    )


class Denying(AllowEverything):
    """Allows all but what a test names: (operation, resource, name); a name of None stands for any."""

    def __init__(self, *denied: tuple[Operation, Resource, str | None]) -> None:
        self.denied = denied

    def allows(
        self,
        context: RequestContext,
        operation: Operation,
        resource: Resource,
        name: str,
        *,
        quiet: bool = False,
    ) -> bool:
        return (operation, resource, name) not in self.denied and self.allows_any(
            context, operation, resource
        )

    def allows_any(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return (operation, resource, None) not in self.denied


class ShownAtOnce:
    """In place of `ImageWaits`: the metadata shows everything that the stand-in for the controller reports."""

    def until(self, is_shown: object, image: object) -> Promise[None]:
        return Promise.of(None)


class FakeBroker:
    """What handlers see of a broker, without sockets and logs."""

    def __init__(self, **overrides: Any) -> None:
        self.node = node_of(**overrides)
        self.settings = self.node.settings
        self.layers = Layers(self.node.settings.given, Mode.KRAFT)
        self.clock = SystemClock()
        self.random = SeededRandom(1)
        self.metadata = FakeMetadata(self.node)
        self.authorizer: Any = AllowEverything()
        self.metrics = Metrics()
        self.cluster_id = CLUSTER_ID
        self.controller_id = 1
        self.supported_features = supported_features(self.settings)
        self.image_waits: Any = ShownAtOnce()
        self.auto_topics = AutoTopics(self)  # type: ignore[arg-type]  # it asks for no more than this

    @property
    def image(self) -> Any:
        return self.metadata.image

    @property
    def quorum(self) -> FakeMetadata:
        return self.metadata

    def role_of(self, listener: str) -> Role:
        return Role.CONTROLLER if listener == "CONTROLLER" else Role.INTER_BROKER

    def routes_of(self, listener: str) -> Any:
        return routes_for(Mode.KRAFT, self.role_of(listener), self.settings, self.metrics)


def settled(answer: Any) -> Any:
    """The value of an answer that is there, or comes at once."""
    answer = begun(answer)
    if not isinstance(answer, Promise):
        return answer
    values: list[Any] = []
    answer.then(values.append, _raise)
    assert values, "the answer is still to come"
    return values[0]


def _raise(error: BaseException) -> None:
    raise error


def serve_until(reactor: Reactor, condition: Callable[[], bool]) -> None:
    """Serve until it holds."""
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it never came to be"
        reactor.serve(_TICK_NS)


class Front:
    """A real broker with a stand-in for the controller, on a disk in memory, served by this thread."""

    def __init__(self, monkeypatch: Any, disk: Disk | None = None, **overrides: Any) -> None:
        monkeypatch.setattr("barnabas.broker.server.KraftMetadata", FakeMetadata)
        self.reactor = Reactor()
        self.threads = ThreadWorkers()
        workers = LoopWorkers(self.threads, self.reactor.post)
        self.network = TcpNetwork(self.reactor, workers=workers)
        self.disk: Disk = MemoryDisk() if disk is None else disk
        self.node = node_of(**overrides)
        for number, folder in enumerate(self.node.log_dirs, 200):
            self.disk.make_folder(folder)
            properties = MetaProperties(V1, CLUSTER_ID, 1, Uuid(bytes(15) + bytes([number])))
            write_meta_properties(self.disk, folder, properties, 0)
        # No sync on the loop and no long tick, from the end of the start to the end of the stop (F9).
        self.guard = LoopGuard()
        self.reactor.on_tick = self.guard.ticked
        self.broker = Broker(
            self.node,
            disk=WatchedDisk(self.disk, self.guard.watch),
            clock=SystemClock(),
            random=SeededRandom(1),
            loop=self.reactor,
            network=self.network,
            workers=workers,
            host_name=lambda: "broker.example",
        )
        self._sockets: list[socket.socket] = []

    @property
    def metadata(self) -> FakeMetadata:
        """The stand-in that the broker has in the place of its controller."""
        metadata: object = self.broker.metadata
        assert isinstance(metadata, FakeMetadata)
        return metadata

    def __enter__(self) -> Front:
        self.finish(self.broker.start())
        self.guard.is_armed = True
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for one in self._sockets:
            one.close()
        self.finish(self.broker.stop())
        self.network.close()
        self.threads.close()
        self.reactor.close()
        self.guard.check()

    def finish(self, promise: Promise[Any]) -> Any:
        values: list[Any] = []
        errors: list[BaseException] = []
        promise.then(values.append, errors.append)
        self.until(lambda: bool(values or errors))
        if errors:
            raise errors[0]
        return values[0]

    def until(self, condition: Callable[[], bool]) -> None:
        """Serve until it holds."""
        serve_until(self.reactor, condition)

    def serve_for_a_while(self, ticks: int = 5) -> None:
        for _ in range(ticks):
            self.reactor.serve(_TICK_NS)

    def connect(self, listener: str = "PLAINTEXT") -> Wire:
        host, port = self.broker.listeners[listener].address
        sock = socket.create_connection((host, port), timeout=120)
        sock.setblocking(False)
        self._sockets.append(sock)
        return Wire(self, sock)

    def ask(self, request: Message, version: int, *, listener: str = "PLAINTEXT") -> Any:
        return self.connect(listener).ask(request, version)


class Wire:
    """A client's end of a connection, by bytes."""

    def __init__(self, front: Front, sock: socket.socket) -> None:
        self._front = front
        self.sock = sock
        self._received = b""
        self._ended = False

    def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                sent = self.sock.send(view)
                view = view[sent:]
            except BlockingIOError:
                self._front.serve_for_a_while(1)

    def frame(self) -> bytes:
        """The next answer without its size; CLOSED if the server has closed."""
        self._front.until(lambda: self._has_frame() or self._ended)
        if not self._has_frame():
            return CLOSED
        size = struct.unpack_from(">i", self._received)[0]
        frame, self._received = self._received[4 : 4 + size], self._received[4 + size :]
        return frame

    def frames(self, count: int) -> list[bytes]:
        return [self.frame() for _ in range(count)]

    def ask(self, request: Message, version: int, correlation_id: int = 7) -> Any:
        self.send(write_request(request, version, correlation_id, "test"))
        frame = self.frame()
        assert frame != CLOSED, "the server closed the connection"
        assert request.schema.key is not None
        answered, message = read_response(frame, api(request.schema.key), version)
        assert answered == correlation_id
        return message

    def is_silent(self) -> bool:
        """Whether nothing comes and the connection stays, though what is asked after it elsewhere is answered."""
        witness = self._front.connect()
        witness.ask(ApiVersionsRequest(client_software_name="witness", client_software_version="1"), 3)
        witness.sock.close()
        return self.is_unanswered()

    def is_unanswered(self) -> bool:
        """Whether nothing has come and the connection is open, as far as the broker was served until now."""
        return not self._has_frame() and not self._ended

    def _has_frame(self) -> bool:
        while not self._ended:
            try:
                data = self.sock.recv(1 << 20)
            except BlockingIOError:
                break
            except ConnectionError:
                data = b""
            self._ended = not data
            self._received += data
        if len(self._received) < 4:
            return False
        size: int = struct.unpack_from(">i", self._received)[0]
        return len(self._received) >= 4 + size


def names(rows: Iterable[Any]) -> list[Any]:
    return [row.name for row in rows]
