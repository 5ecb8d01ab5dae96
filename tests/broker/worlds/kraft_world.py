"""A simulated node whose program is the metadata side alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from barnabas.base.errors import KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.batch.view import BatchView, batches
from barnabas.broker.modes.kraft.kraft_metadata import KraftMetadata
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
from barnabas.protocol.messages.broker_registration import BrokerRegistrationResponse
from barnabas.protocol.record_frame import read_metadata_record
from barnabas.protocol.schema import Message
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.simulated.world import Node, World
from barnabas.testing.simulation.metadata_node import (
    DATA,
    METADATA,
    NODE_ID,
    configuration,
    format_folder,
    heartbeat,
    make_metadata,
    registration,
)

SECOND = 1_000 * NS_PER_MS
PRINCIPAL = "User:ANONYMOUS"
M = TypeVar("M", bound=Message)


class Listening:
    """A publisher that passes deltas on."""

    def __init__(self, name: str, listener: Callable[[Delta], None]) -> None:
        self.name = name
        self._listener = listener

    def publish(self, delta: Delta, image: Image) -> None:
        self._listener(delta)


class KraftWorld:
    """Formats, starts, asks, stops; virtual time."""

    def __init__(
        self,
        options: Mapping[str, object] | None = None,
        *,
        dynamic: bool = False,
        release: str = "4.1",
        prepare: Callable[[Disk], None] | None = None,
        start: bool = True,
    ) -> None:
        self.world = World(11)
        self.deltas: list[Delta] = []
        self.failures: list[BaseException] = []
        self.refusal: Exception | None = None
        self.settings = configuration(
            {"metadata.max.idle.interval.ms": 0, **(options or {})}, dynamic=dynamic
        )
        self._prepare = prepare
        self._dynamic = dynamic
        self._release = release
        self.node: Node = self.world.add_node(NODE_ID, self._boot)
        if start:
            self.run(50)

    @property
    def disk(self) -> Disk:
        return self.node.disk

    @property
    def image(self) -> Image:
        return self.metadata.image

    def _boot(self, node: Node) -> None:
        if not node.disk.exists(DATA):
            if self._prepare is None:
                format_folder(node.disk, release=self._release, dynamic=self._dynamic)
            else:
                self._prepare(node.disk)
        self.metadata: KraftMetadata = make_metadata(node, self.settings, self.failures.append)
        self.metadata.install(Listening("deltas", self.deltas.append))
        self.started: Promise[None] = Promise()
        try:
            self.metadata.start().then(self.started.set, self.started.fail)
        except Exception as refused:
            self.refusal = refused

    def run(self, duration_ms: float) -> None:
        self.world.run(int(duration_ms * NS_PER_MS))

    def enter(self, action: Callable[[], None]) -> None:
        self.node.enter(self.node.life, action)

    def send(self, request: Message, version: int | None = None) -> list[object]:
        """Ask; the list gets the answer or the error when it comes."""
        heard: list[object] = []
        chosen = request.schema.versions.highest if version is None else version
        self.enter(
            lambda: self.metadata.send_request(request, chosen, PRINCIPAL).then(heard.append, heard.append)
        )
        return heard

    def ask(self, request: Message, reply: type[M], version: int | None = None) -> M:
        heard = self.send(request, version)
        self.run(30)
        (answer,) = heard
        if isinstance(answer, KafkaError):
            raise answer
        assert isinstance(answer, reply)
        return answer

    def join(self, incarnation: int = 1) -> int:
        """The broker registers and is unfenced; its epoch."""
        epoch = self.ask(registration(incarnation), BrokerRegistrationResponse).broker_epoch
        self.ask(heartbeat(epoch, self.image.offset), BrokerHeartbeatResponse)
        return epoch

    def stop(self) -> None:
        """Cleanly."""
        done: list[object] = []
        self.enter(lambda: self.metadata.stop().then(done.append, done.append))
        self.run(100)
        assert done == [None]

    def restart(self) -> None:
        """Another process on the same disk."""
        self.node.crash(power_loss=False)
        self.deltas.clear()
        self.node.start()
        self.run(50)

    def log(self) -> list[BatchView]:
        """Every batch of the metadata log, from the files."""
        names = [name for name in self.disk.names(METADATA) if name.endswith(".log")]
        return [batch for name in names for batch in batches(self.disk.read_bytes(f"{METADATA}/{name}"))]

    def records(self) -> list[Message]:
        """Every record of the metadata log, from the files."""
        return [
            read_metadata_record(record.value or b"")[0]
            for batch in self.log()
            if not batch.is_control
            for record in batch.records()
        ]

    def names(self, ending: str) -> list[str]:
        return [name for name in self.disk.names(METADATA) if name.endswith(ending)]
