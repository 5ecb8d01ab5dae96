"""The history of one partition: what was appended to it, as it must be read again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.batch.build import build
from barnabas.batch.compression import Codec
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.batch.records import Header, Record
from barnabas.storage.log.log import Log
from barnabas.storage.producers.producer_append import AppendOrigin

MAX_SEQUENCE = 2**31 - 1


class Row(NamedTuple):
    """What a client gives."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class Written(NamedTuple):
    """A record as it must be read."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    leader_epoch: int
    sequence: int = -1


@dataclass
class Producer:
    """A client with a producer id and its next sequence number."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0


class AbortedSpan(NamedTuple):
    """An entry of the transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass
class ProducerState:
    """What a partition must know of a producer."""

    epoch: int
    coordinator_epoch: int = -1
    first_offset: int | None = None
    last_timestamp: int = -1
    # First and last sequence, last offset: of the last batch of this epoch.
    batch: tuple[int, int, int] | None = None

    def take_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.epoch, self.batch = epoch, None


@dataclass
class Life:
    """The history of one partition."""

    log: Log
    start_ms: int
    leader_epoch: int = 0
    written: list[Written] = field(default_factory=list)
    aborted: set[int] = field(default_factory=set)
    markers: dict[int, bool] = field(default_factory=dict)
    aborted_spans: list[AbortedSpan] = field(default_factory=list)
    producers: dict[int, ProducerState] = field(default_factory=dict)
    _ongoing: dict[int, list[int]] = field(default_factory=dict)
    _ticks: int = 0

    @property
    def topic(self) -> str:
        return self.log.topic

    def send(
        self,
        rows: Iterable[Row],
        *,
        codec: Codec = Codec.NONE,
        producer: Producer | None = None,
        transactional: bool = False,
        step_ms: int = 1,
    ) -> None:
        """One batch, as a client of ours would have it appended."""
        records = []
        for offset, row in enumerate(rows):
            self._ticks += step_ms
            records.append(Record(offset, self.start_ms + self._ticks, *row))
        verification = None
        fields: dict[str, int | bool] = {}
        if producer is not None:
            if transactional:
                verification = self.log.start_verification(
                    producer.producer_id, producer.sequence, producer.epoch
                )
            fields = {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "base_sequence": producer.sequence,
                "transactional": transactional,
            }
        result = self.log.append_as_leader(
            build(records, codec=codec, **fields),  # type: ignore[arg-type]
            self.leader_epoch,
            verification=verification,
        )
        sequences = [-1] * len(records)
        if producer is not None:
            sequences = [(producer.sequence + index) & MAX_SEQUENCE for index in range(len(records))]
        for index, record in enumerate(records):
            stamped = result.log_append_time_ms
            timestamp = stamped if stamped >= 0 else record.timestamp
            offset = result.first_offset + index
            self.written.append(Written(offset, timestamp, *record[2:], self.leader_epoch, sequences[index]))
        if producer is not None:
            self._remember(producer, sequences, transactional=transactional)
        self.log.set_high_watermark(self.log.end_offset)

    def _remember(self, producer: Producer, sequences: Sequence[int], *, transactional: bool) -> None:
        """What the batch that was just written means to its producer."""
        batch = self.written[-len(sequences) :]
        state = self.producers.setdefault(producer.producer_id, ProducerState(producer.epoch))
        state.take_epoch(producer.epoch)
        state.batch = (sequences[0], sequences[-1], batch[-1].offset)
        state.last_timestamp = max(record.timestamp for record in batch)
        producer.sequence = (sequences[-1] + 1) & MAX_SEQUENCE
        if transactional:
            if state.first_offset is None:
                state.first_offset = batch[0].offset
            self._ongoing.setdefault(producer.producer_id, []).extend(record.offset for record in batch)

    def end(
        self, producer: Producer, *, commit: bool, bump: bool = False, coordinator_epoch: int = 0
    ) -> None:
        """The coordinator's marker; with transaction.version 2 it bumps the epoch (KIP-890)."""
        if bump:
            producer.epoch += 1
            producer.sequence = 0
        self._ticks += 1
        marker = build_marker(
            EndTransactionMarker(commit, coordinator_epoch),
            timestamp=self.start_ms + self._ticks,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
        )
        result = self.log.append_as_leader(marker, self.leader_epoch, origin=AppendOrigin.COORDINATOR)
        self.markers[result.first_offset] = commit
        ended = self._ongoing.pop(producer.producer_id, [])
        if ended and not commit:
            self.aborted.update(ended)
            self.aborted_spans.append(
                AbortedSpan(producer.producer_id, ended[0], result.last_offset, self.stable_end)
            )
        state = self.producers.setdefault(producer.producer_id, ProducerState(producer.epoch))
        state.take_epoch(producer.epoch)
        state.coordinator_epoch = coordinator_epoch
        state.first_offset = None
        state.last_timestamp = self.start_ms + self._ticks
        self.log.set_high_watermark(self.log.end_offset)

    @property
    def stable_end(self) -> int:
        """Where the first open transaction begins, else the end."""
        firsts = [offsets[0] for offsets in self._ongoing.values()]
        return min(firsts, default=self.log.end_offset)

    def uncommitted(self) -> list[Written]:
        """What a read_uncommitted consumer gets."""
        return [record for record in self.written if record.offset >= self.log.log_start_offset]

    def committed(self) -> list[Written]:
        """What a read_committed consumer gets."""
        stable = self.stable_end
        return [r for r in self.uncommitted() if r.offset < stable and r.offset not in self.aborted]

    def clean_away(self, end: int, *, tombstones_before: int = 0) -> None:
        """What compaction takes of the records below `end`: all but each key's last that counts."""
        counting = [r for r in self.written if r.offset < end and r.offset not in self.aborted]
        last = {record.key: record.offset for record in counting}
        self.written = [
            record
            for record in self.written
            if record.offset >= end
            or (
                record.offset not in self.aborted
                and last[record.key] == record.offset
                and (record.value is not None or record.offset >= tombstones_before)
            )
        ]
