"""A coordinator's log on several replicas, as its leader sees it; not a scenario itself.

Contains appending, committing, losing uncommitted records, and compaction.  The meaning of the records
belongs in `group_book`, leadership in `shard_host`.

A record is committed when all replicas have it, some time after its append.  When the leader fails, another
replica continues with everything that was committed and a random part of the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.build import build
from barnabas.batch.columnar import columns
from barnabas.batch.records import Record
from barnabas.coordinator.decision import Marker, ProducerStamp
from barnabas.coordinator.entry import Entry, encode
from barnabas.coordinator.shard import Machine
from barnabas.runtime.simulated.world import World

# Entries that fit into one batch where they may be spread over several.
ENTRIES_PER_BATCH = 3


@dataclass(slots=True)
class Row:
    """A record with its offset."""

    offset: int
    key: bytes
    value: bytes | None


@dataclass(slots=True)
class Written:
    """A batch: rows, or a transaction marker."""

    base_offset: int
    next_offset: int
    rows: list[Row]
    stamp: ProducerStamp | None
    marker: Marker | None = None


class ReplicatedLog:
    """The store of a shard (`coordinator.shard.Store`)."""

    def __init__(self, world: World, name: str, max_lag_ns: int) -> None:
        self.name = name
        self.batches: list[Written] = []
        self.end = 0
        # The probability that an append fails.
        self.refuses = 0.0
        self.on_commit: Callable[[Written], None] = lambda _: None
        self.on_progress: Callable[[], None] = lambda: None
        self._world = world
        self._random = world.random_for(f"log {name}")
        self._max_lag_ns = max_lag_ns
        self._committed = 0
        self._reported = 0
        self._leader_epoch = 0

    # The interface of a shard's store

    @property
    def high_watermark(self) -> int:
        return self._committed

    def append(
        self,
        entries: Sequence[Entry],
        producer: ProducerStamp | None,
        now_ms: int,
        verification: object | None,
        *,
        atomic: bool,
    ) -> tuple[int, int]:
        self._maybe_refuse()
        fitting = entries if atomic else entries[:ENTRIES_PER_BATCH]
        rows = [Row(self.end + index, *encode(entry)) for index, entry in enumerate(fitting)]
        self._add(Written(self.end, self.end + len(rows), rows, producer))
        return len(fitting), self.end

    def append_marker(self, marker: Marker, now_ms: int) -> int:
        self._maybe_refuse()
        stamp = ProducerStamp(marker.producer_id, marker.producer_epoch)
        self._add(Written(self.end, self.end + 1, [], stamp, marker))
        return self.end

    def _maybe_refuse(self) -> None:
        if self.refuses and self._random.fraction() < self.refuses:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def _add(self, written: Written) -> None:
        self.batches.append(written)
        self.end = written.next_offset
        self._replicate()

    # Replicas

    def _replicate(self) -> None:
        lag_ns = self._random.integer(0, self._max_lag_ns) if self._max_lag_ns else 0
        if lag_ns:
            self._world.agenda.after(lag_ns, partial(self._replicated, self._leader_epoch, self.end))
        else:
            self._commit(self.end)

    def _replicated(self, leader_epoch: int, offset: int) -> None:
        if leader_epoch == self._leader_epoch:
            self._commit(offset)
            self.on_progress()

    def _commit(self, offset: int) -> None:
        self._committed = max(self._committed, offset)
        for written in self.batches[self._reported :]:
            if written.next_offset > self._committed:
                break
            self._reported += 1
            self.on_commit(written)

    def change_leader(self, *, compact: bool) -> None:
        """The next leader has everything that was committed, and perhaps more."""
        self._leader_epoch += 1
        uncommitted = len(self.batches) - self._reported
        lost = self._random.integer(0, uncommitted) if uncommitted else 0
        if lost:
            self._world.agenda.note(f"{self.name}: {lost} batches were not committed and are lost")
            del self.batches[len(self.batches) - lost :]
            self.end = self.batches[-1].next_offset if self.batches else 0
        if compact:
            self._compact()
        self._replicate()

    # Compaction

    def _compact(self) -> None:
        """Keep the last record of each key, up to the first open transaction, like the cleaner."""
        limit = min([self._committed, *self._open_since().values()])
        aborted = set(self._aborted())
        cleaned = [batch for batch in self.batches if batch.next_offset <= limit]
        last: dict[bytes, int] = {}
        for written in cleaned:
            for row in [] if id(written) in aborted else written.rows:
                last[row.key] = row.offset
        forgets_tombstones = self._random.integer(0, 1) == 1
        for written in cleaned:
            written.rows = [
                row
                for row in written.rows
                if id(written) not in aborted
                and last[row.key] == row.offset
                and not (row.value is None and forgets_tombstones)
            ]

    def _open_since(self) -> dict[int, int]:
        starts: dict[int, int] = {}
        for written in self.batches:
            if written.stamp is not None:
                if written.marker is not None:
                    starts.pop(written.stamp.producer_id, None)
                else:
                    starts.setdefault(written.stamp.producer_id, written.base_offset)
        return starts

    def _aborted(self) -> Iterator[int]:
        """Ids of batches whose transaction was aborted."""
        of_producer: dict[int, list[int]] = {}
        for written in self.batches:
            if written.stamp is None:
                continue
            if written.marker is None:
                of_producer.setdefault(written.stamp.producer_id, []).append(id(written))
            else:
                batches = of_producer.pop(written.stamp.producer_id, [])
                if not written.marker.committed:
                    yield from batches

    # Loading

    def load_into(self, machine: Machine) -> None:
        """From the start, as a broker does it: through bytes, many batches at a time."""
        run: list[Row] = []
        stamp: ProducerStamp | None = None
        for written in self.batches:
            if written.marker is not None or written.stamp != stamp:
                _load(machine, run, stamp)
                run = []
            if written.marker is not None:
                marker = written.marker
                machine.marker(marker.producer_id, marker.producer_epoch, marker.committed)
            else:
                stamp = written.stamp
                run += written.rows
        _load(machine, run, stamp)


def _load(machine: Machine, rows: list[Row], stamp: ProducerStamp | None) -> None:
    if rows:
        records = [Record(row.offset, 0, row.key, row.value) for row in rows]
        batch = build(records, base_offset=rows[0].offset)
        machine.load(columns(bytes(batch)), stamp)
