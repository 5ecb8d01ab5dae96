"""The shards of a coordinator on a broker without a network: their topic is led, lost and deleted by hand."""

from __future__ import annotations

from typing import Any

from barnabas.base.errors import KafkaError
from barnabas.base.topic_names import CONSUMER_OFFSETS
from barnabas.batch.columnar import Columns
from barnabas.batch.compression import Codec
from barnabas.broker.coordinators.shards import Shards
from barnabas.coordinator.decision import Context, Decision, ProducerStamp
from barnabas.coordinator.entry import GROUP, Entry, Unknown, decode
from barnabas.coordinator.timers import Timers
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import Image
from barnabas.protocol.records.group import OffsetCommitKey
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise
from tests.broker.worlds.data_world import World

COMMIT_TIMEOUT_MS = 5_000


class Book:
    """A machine that keeps the numbers it was given, as a coordinator keeps its groups."""

    def __init__(self, world: ShardsWorld, partition: int) -> None:
        self.world = world
        self.partition = partition
        self.timers = Timers()
        self.kept: list[Any] = []
        self.deltas = 0
        self.held: list[Promise[str]] = []

    def apply(self, entry: Entry, stamp: ProducerStamp | None) -> None:
        number = entry.key.partition  # type: ignore[attr-defined]  # every key here has one
        self.kept.append(number if stamp is None else (number, *stamp))

    def marker(self, producer_id: int, producer_epoch: int, committed: bool) -> None:
        self.kept.append((producer_id, producer_epoch, committed))

    def load(self, columns: Columns, stamp: ProducerStamp | None) -> None:
        self.world.clock.now_ms += self.world.load_costs_ms
        if self.world.load_error is not None:
            raise self.world.load_error
        for row in range(len(columns)):
            entry = decode(columns.key(row), columns.value(row), GROUP)
            if not isinstance(entry, Unknown):
                self.apply(entry, stamp)

    def loaded(self, context: Context) -> None:
        self.kept.append("loaded")

    def metadata_changed(self, delta: Delta, context: Context) -> Decision[None]:
        self.deltas += 1
        return Decision((), None)

    def dropped(self, error: KafkaError) -> None:
        for promise in self.held:
            promise.fail(error)


class ShardsWorld(World):
    """With `image`, a broker that was there before."""

    def __init__(self, *, codec: Codec = Codec.NONE, image: Image | None = None, **more: Any) -> None:
        self.load_costs_ms = 0
        self.load_error: Exception | None = None
        super().__init__(**more, start=False)
        if image is not None:
            self.image = image
        self.shards: Shards[Book] = Shards(
            self,
            self.replicas,
            self.timers,
            topic=CONSUMER_OFFSETS,
            partitions=50,
            make_machine=lambda partition: Book(self, partition),
            codec=lambda: codec,
            commit_timeout_ms=COMMIT_TIMEOUT_MS,
            load_bytes=1 << 20,
        )
        self.start()

    def change(self, *changes: Message) -> None:
        before = self.image
        super().change(*changes)
        if hasattr(self, "shards"):
            delta = Delta(before)
            for change in changes:
                delta.replay(change)
            self.shards.apply(delta)

    def offsets_topic(self, partitions: int = 1, **more: Any) -> None:
        self.topic(CONSUMER_OFFSETS, partitions, **more)

    def keep(self, *numbers: int, index: int = 0, **more: Any) -> Promise[Any]:
        """Have it write these numbers down."""
        entries = [Entry(OffsetCommitKey(group="g", topic="t", partition=one), None) for one in numbers]
        return self.shards.submit_to_partition(index, lambda book, context: Decision(entries, "kept", **more))

    def book(self, index: int = 0) -> Book:
        found: list[Book] = []

        def look(book: Book, context: Context) -> Decision[None]:
            found.append(book)
            return Decision((), None)

        self.shards.submit_to_partition(index, look)
        return found[0]

    def ticks_until_loaded(self) -> int:
        for ticks in range(1_000):
            if not self.shards.is_loading:
                return ticks
            self.tick(1)
        raise AssertionError("it is never loaded")
