"""Data folders to be damaged: small, and with every kind of file that storage writes.

Contains writing such a folder with storage itself, and its content before the damage.  Damaging belongs in
damage.py, checking the result in checker.py.

There are two folders, each once after a clean shutdown and once killed.  The first contains a log with every
codec, many leaders and a moved start, and one with idempotent and transactional producers; the second a
compacted log and one with records out of order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.batch.build import build
from barnabas.batch.compression import Codec
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView, batches
from barnabas.runtime.random import SeededRandom, random_uuid
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.names import SimulatedNames
from barnabas.storage.cleaner.cleaner import CleanerOptions
from barnabas.storage.directories.log_dirs import LogDirs
from barnabas.storage.directories.meta_properties import (
    V1,
    MetaProperties,
    MetaPropertiesEnsemble,
    write_meta_properties,
)
from barnabas.storage.log import log_files
from barnabas.storage.log.leader_epochs import EpochEntry
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log_manager import LogManager
from barnabas.storage.producers.producer_append import AppendOrigin

DATA = "/data"
NODE_ID = 1
CLUSTER_ID = "torn-torn-torn-torn-to"
START_MS = 1_700_000_000_000
TIME_STEP_MS = 1000
CLEANER_STEPS = 100

_SMALL = LogOptions(
    segment_bytes=1100,
    segment_index_bytes=600,
    index_interval_bytes=250,
    message_timestamp_after_max_ms=2**62,
    file_delete_delay_ms=0,
    transaction_partition_verification_enable=False,
)
OPTIONS: Mapping[str, LogOptions] = {
    "orders": _SMALL,
    "payments": replace(_SMALL, index_interval_bytes=0),
    "table": replace(
        _SMALL,
        cleanup_compact=True,
        cleanup_delete=False,
        min_cleanable_dirty_ratio=0.0,
        delete_retention_ms=10_000_000,
    ),
    "late": replace(_SMALL, index_interval_bytes=120),
}
ORDERS, PAYMENTS, TABLE, LATE = (TopicPartition(topic, 0) for topic in OPTIONS)


class StillClock:
    """A clock that stands still: everything in a round happens at the same time."""

    def wall_ms(self) -> int:
        return START_MS

    def monotonic_ns(self) -> int:
        return START_MS * NS_PER_MS


def open_manager(disk: SimulatedDisk) -> LogManager:
    """As a broker opens its only log directory; raises StorageRefused with the line it would print."""
    dirs = LogDirs(disk, (DATA,))
    dirs.open()
    ensemble = MetaPropertiesEnsemble.load(disk, dirs.live)
    ensemble.verify(cluster_id=CLUSTER_ID, node_id=NODE_ID)
    ensemble.require_formatted()
    for log_dir, reason in ensemble.failed.items():
        dirs.mark_offline(log_dir, reason)
    manager = LogManager(
        disk,
        StillClock(),
        SeededRandom(0),
        dirs,
        OPTIONS.__getitem__,
        cleaner_options=CleanerOptions(backoff_ms=0, dedupe_buffer_size=1 << 16),
        directory_ids=ensemble.directory_ids,
    )
    manager.open()
    return manager


@dataclass(slots=True)
class Content:
    """A log before the damage."""

    partition: TopicPartition
    log_start_offset: int = 0
    end_offset: int = 0
    recovery_point: int = 0
    # Segment's base offset -> its batches in order, at (position, bytes).
    segments: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)
    # The batches that a reader from the log's start gets.
    visible: list[bytes] = field(default_factory=list)
    # Aborted transactions (producer id, first offset, last offset): those with remaining records, and all.
    aborted: set[tuple[int, int, int]] = field(default_factory=set)
    all_aborted: set[tuple[int, int, int]] = field(default_factory=set)
    # Producer id -> its state in a snapshot.
    producers: dict[int, tuple[int, ...]] = field(default_factory=dict)
    epochs: list[EpochEntry] = field(default_factory=list)

    @property
    def folder(self) -> str:
        return f"{DATA}/{self.partition}"

    def batches(self) -> Iterator[tuple[int, int, bytes]]:
        """(segment's base offset, position, bytes) of every batch on disk."""
        for base_offset, rows in self.segments.items():
            for position, data in rows:
                yield base_offset, position, data


@dataclass(frozen=True, slots=True)
class DataFolder:
    """One folder, which can be damaged any number of times."""

    name: str
    clean: bool
    snapshot: SimulatedNames
    files: Mapping[str, bytes]
    contents: Mapping[TopicPartition, Content]


def build_folders() -> list[DataFolder]:
    """All folders; the same in every process."""
    return [
        _build(name, partitions, clean=clean)
        for name, partitions in (("streams", (ORDERS, PAYMENTS)), ("tables", (TABLE, LATE)))
        for clean in (True, False)
    ]


def _build(name: str, partitions: tuple[TopicPartition, ...], *, clean: bool) -> DataFolder:
    random = SeededRandom(len(name))
    disk = SimulatedDisk(SeededRandom(1), wall_ms=lambda: START_MS)
    disk.make_folder(DATA)
    identity = MetaProperties(V1, CLUSTER_ID, NODE_ID, random_uuid(random))
    write_meta_properties(disk, DATA, identity, START_MS)
    manager = open_manager(disk)
    for partition in partitions:
        writer = _Writer(manager, partition, random_uuid(random), random)
        _WRITERS[partition.topic](writer)
    manager.write_topic_ids()
    manager.checkpoint_high_watermarks(DATA)
    if clean:
        manager.close(broker_epoch=77)
    else:
        manager.checkpoint_recovery_points(DATA)
        manager.checkpoint_log_starts(DATA)
        for log in manager.logs.values():
            for segment in log.segments:
                segment.write_out()
    disk.restart()
    snapshot = disk.snapshot()
    files = {path: disk.read_bytes(path) for path in _paths(disk, DATA)}
    recovery_points = {partition: log.restart_point for partition, log in manager.logs.items()}
    whole = open_manager(disk)
    contents = {partition: _content(whole.logs[partition], files) for partition in partitions}
    for partition, content in contents.items():
        content.recovery_point = content.end_offset if clean else recovery_points[partition]
    return DataFolder(f"{name}, {'stopped' if clean else 'killed'}", clean, snapshot, files, contents)


def _paths(disk: SimulatedDisk, folder: str) -> Iterator[str]:
    for name in disk.names(folder):
        path = f"{folder}/{name}"
        if disk.is_folder(path):
            yield from _paths(disk, path)
        elif name != ".lock":
            yield path


def _content(log: Log, files: Mapping[str, bytes]) -> Content:
    content = Content(
        TopicPartition(log.topic, log.partition),
        log.log_start_offset,
        log.end_offset,
        all_aborted={entry[:3] for entry in log.aborted_transactions(log.log_start_offset, log.end_offset)},
        producers=producers_of(log),
        epochs=list(log.epochs.entries),
    )
    for segment in log.segments:
        data = files[segment.path(log_files.LOG)]
        content.segments[segment.base_offset] = [(view.start, view.copy()) for view in batches(data)]
    content.visible = [
        data for _, _, data in content.batches() if BatchView(data).last_offset >= log.log_start_offset
    ]
    data_of = [(view.producer_id, view.base_offset) for view in map(BatchView, content.visible)]
    content.aborted = {
        (producer_id, first, last)
        for producer_id, first, last in content.all_aborted
        if any(producer_id == writer and first <= offset < last for writer, offset in data_of)
    }
    return content


def producers_of(log: Log) -> dict[int, tuple[int, ...]]:
    """The state of each producer that a restart must restore: as much as a snapshot contains."""
    return {number: tuple(entry.to_snapshot()) for number, entry in log.producers.entries.items()}


class _Writer:
    """Appends to one log."""

    def __init__(
        self, manager: LogManager, partition: TopicPartition, topic_id: Uuid, random: SeededRandom
    ) -> None:
        self.manager = manager
        self.log = manager.get_or_create(partition, topic_id=topic_id, is_new=True)
        self.random = random
        self.time_ms = START_MS - 10_000_000
        self._sequences: dict[int, int] = {}

    def put(
        self,
        count: int = 1,
        *,
        epoch: int = 0,
        codec: Codec = Codec.NONE,
        producer_id: int = -1,
        transactional: bool = False,
        key: bytes | None = None,
        value: bytes | None = b"",
        back_ms: int = 0,
    ) -> None:
        self.time_ms += TIME_STEP_MS
        records = [
            Record(
                offset,
                self.time_ms - back_ms + offset,
                key,
                self.random.bytes(self.random.integer(20, 70)) if value == b"" else value,
                (("h", b"1"),) if offset % 2 else (),
            )
            for offset in range(count)
        ]
        sequence = self._sequences.get(producer_id, 0) if producer_id >= 0 else -1
        self._sequences[producer_id] = sequence + count
        batch = build(
            records,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            transactional=transactional,
        )
        self.log.append_as_leader(batch, epoch)
        self.log.set_high_watermark(self.log.end_offset)

    def end(self, producer_id: int, *, commit: bool, epoch: int = 0) -> None:
        self.time_ms += TIME_STEP_MS
        marker = build_marker(
            EndTransactionMarker(commit, 0),
            timestamp=self.time_ms,
            producer_id=producer_id,
            producer_epoch=0,
        )
        self.log.append_as_leader(marker, epoch, origin=AppendOrigin.COORDINATOR)
        self.log.set_high_watermark(self.log.end_offset)


def _write_orders(writer: _Writer) -> None:
    """Every codec, five leaders, a start within the first segment; a quarter of it is flushed."""
    codecs = tuple(Codec)
    for number in range(40):
        writer.put(1 + number % 3, epoch=number // 9, codec=codecs[number % len(codecs)], key=b"k")
        if number == 10:
            writer.log.flush()
    writer.log.advance_log_start(3)


def _write_payments(writer: _Writer) -> None:
    """Two idempotent producers, two in transactions that are committed or aborted; one stays open."""
    for number in range(10):
        writer.put(2, producer_id=1000 + number % 2)
        for producer_id in (2000, 2001):
            writer.put(producer_id=producer_id, transactional=True)
        writer.end(2000, commit=number % 3 == 0)
        if number % 2:
            writer.end(2001, commit=False)
        if number == 2:
            writer.log.flush()
    writer.put(producer_id=2000, transactional=True)


def _write_table(writer: _Writer) -> None:
    """Few keys many times, tombstones and transactions; compacted once, then appended to."""
    for number in range(36):
        key = b"key-%d" % (number % 5)
        writer.put(producer_id=3000, key=key, value=None if number % 7 == 6 else b"value-%d" % number * 4)
        if number % 6 == 5:
            writer.put(producer_id=3001, transactional=True, key=key, value=b"in-%d" % number)
            writer.end(3001, commit=number % 12 == 5)
        if number == 24:
            writer.log.flush()
            cleaner = writer.manager.cleaner
            assert cleaner is not None
            for _ in range(CLEANER_STEPS):
                cleaner.step()
    assert writer.manager.cleaner is not None
    assert writer.manager.cleaner.clean_up_to(TABLE), "it was compacted"


def _write_late(writer: _Writer) -> None:
    """Records with earlier timestamps among later ones."""
    for number in range(30):
        writer.put(1 + number % 2, back_ms=(number * 7 % 5) * 2500, epoch=number // 20)
        if number == 8:
            writer.log.flush()


_WRITERS = {
    "orders": _write_orders,
    "payments": _write_payments,
    "table": _write_table,
    "late": _write_late,
}
