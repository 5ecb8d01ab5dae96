"""A shard without a broker: its log is a list, commits and time are controlled by the test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from barnabas.base.errors import KafkaError
from barnabas.batch.build import build
from barnabas.batch.columnar import columns
from barnabas.batch.records import Record
from barnabas.config import BROKER
from barnabas.coordinator.decision import Context, Decision, Marker, ProducerStamp
from barnabas.coordinator.entry import Entry, encode
from barnabas.coordinator.shard import Machine, Shard
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.random import SeededRandom

M = TypeVar("M", bound=Machine)
R = TypeVar("R")
NOW_MS = 1_700_000_000_000
COMMIT_TIMEOUT_MS = 5_000
_REQUIRED = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@localhost:9093",
}
# Represents a value that is not available yet.
PENDING = object()


class ListStore:
    """Batches of encoded entries."""

    def __init__(self) -> None:
        self.batches: list[tuple[list[tuple[bytes, bytes | None]], ProducerStamp | None] | Marker] = []
        self.entries: list[Entry] = []
        self.end = 0
        # None: everything appended is committed.
        self.held_at: int | None = None
        self.refusal: KafkaError | None = None
        # The maximum number of entries per batch.
        self.room = 1_000_000

    @property
    def high_watermark(self) -> int:
        return self.end if self.held_at is None else self.held_at

    def append(
        self,
        entries: Sequence[Entry],
        producer: ProducerStamp | None,
        now_ms: int,
        verification: object | None,
        *,
        atomic: bool,
    ) -> tuple[int, int]:
        if self.refusal is not None:
            raise self.refusal
        taken = entries if atomic else entries[: self.room]
        self.batches.append(([encode(entry) for entry in taken], producer))
        self.entries += taken
        self.end += len(taken)
        return len(taken), self.end

    def append_marker(self, marker: Marker, now_ms: int) -> int:
        if self.refusal is not None:
            raise self.refusal
        self.batches.append(marker)
        self.end += 1
        return self.end

    def load_into(self, machine: Machine) -> None:
        """Load the shard like a broker, through real batches."""
        for batch in self.batches:
            if isinstance(batch, Marker):
                machine.marker(batch.producer_id, batch.producer_epoch, batch.committed)
                continue
            rows, stamp = batch
            records = [Record(index, NOW_MS, key, value) for index, (key, value) in enumerate(rows)]
            machine.load(columns(bytes(build(records))), stamp)


class ShardWorld(Generic[M]):
    """One shard, called directly."""

    def __init__(self, make: Callable[[], M], settings: Mapping[str, str] | None = None) -> None:
        self.make = make
        self.settings = BROKER.parse({**_REQUIRED, **(settings or {})})
        self.image: Image = EMPTY_IMAGE
        self.random = SeededRandom(7)
        self.store = ListStore()
        self.now_ms = 0
        self.machine = make()
        self.shard = self._start()

    def _start(self) -> Shard[M]:
        shard = Shard(
            self.machine, self.store, end_offset=self.store.end, commit_timeout_ms=COMMIT_TIMEOUT_MS
        )
        shard.start(self.context, self.now_ms)
        return shard

    @property
    def context(self) -> Context:
        return Context(NOW_MS + self.now_ms, self.image, self.settings, self.random)

    def reload(self) -> None:
        """The broker crashes, and another one loads the log."""
        self.machine = self.make()
        self.store.load_into(self.machine)
        self.shard = self._start()

    def ask(self, decide: Callable[[M, Context], Decision[R]]) -> Promise[R]:
        return self.shard.ask(decide, self.context, self.now_ms)

    def pass_ms(self, duration_ms: int) -> None:
        """Advance the clock, from timer to timer."""
        until_ms = self.now_ms + duration_ms
        while True:
            next_ms = self.machine.timers.next_deadline()
            if next_ms is None or next_ms > until_ms:
                break
            self.now_ms = max(next_ms, self.now_ms)
            self.shard.run_due(self.context, self.now_ms)
        self.now_ms = until_ms

    def with_settings(self, **configs: str) -> None:
        """Change configs at runtime."""
        changed = {name.replace("_", "."): value for name, value in configs.items()}
        self.settings = BROKER.parse({**self.settings.given, **changed})

    def with_image(self, **fields: Any) -> None:
        self.image = replace(self.image, **fields)


def value_of(promise: Promise[Any]) -> Any:
    """The value, PENDING, or the error."""
    results: list[Any] = []
    promise.then(results.append, results.append)
    return results[0] if results else PENDING
