"""Writes, with our storage, data folders in which happens all that can happen to a log, and remembers what was
written, for Apache Kafka to be compared with."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from barnabas.base.ids import Uuid
from barnabas.batch.compression import Codec
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.random import SeededRandom
from barnabas.storage.cleaner.cleaner import CleanerOptions
from barnabas.storage.directories.clean_shutdown import NO_BROKER_EPOCH, clean_shutdown_epoch
from barnabas.storage.directories.log_dirs import LogDirs
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log.retention import expire
from barnabas.storage.log_manager import LogManager
from barnabas.storage.log_truncation import truncate_log
from tests.verify.killed.log_life import MAX_SEQUENCE, Life, Producer, Row

DAY_MS = 24 * 3600 * 1000
# Beyond what four bytes hold: indexes count from their segment's base offset.
FAR_OFFSET = 5_000_000_000
CODECS = {f"codec-{codec.name.lower()}": codec for codec in Codec}
EVERY_BATCH = LogOptions(index_interval_bytes=0, retention_ms=-1)
COMPACTED = LogOptions(
    cleanup_compact=True,
    cleanup_delete=False,
    segment_bytes=900,
    index_interval_bytes=0,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=DAY_MS,
)

OPTIONS: dict[str, LogOptions] = {
    **dict.fromkeys(CODECS, EVERY_BATCH),
    "recompress": replace(EVERY_BATCH, compression_type="lz4"),
    "logappend": replace(EVERY_BATCH, message_timestamp_type="LogAppendTime"),
    "by-size": LogOptions(segment_bytes=2000, index_interval_bytes=300),
    "by-time": replace(EVERY_BATCH, segment_ms=1000),
    "by-index": replace(EVERY_BATCH, segment_index_bytes=96),
    "defaults": LogOptions(),
    "preallocated": replace(EVERY_BATCH, preallocate=True, segment_bytes=4000),
    "idempotent": replace(EVERY_BATCH, segment_bytes=1500),
    "txn": replace(EVERY_BATCH, segment_bytes=700),
    "copied": replace(EVERY_BATCH, segment_bytes=700),
    "epochs": replace(EVERY_BATCH, segment_bytes=800),
    "cut-end": replace(EVERY_BATCH, segment_bytes=800),
    "cut-start": replace(EVERY_BATCH, segment_bytes=800),
    "cut-all": replace(EVERY_BATCH, segment_bytes=800),
    "far": replace(EVERY_BATCH, segment_bytes=800),
    "compacted": COMPACTED,
    "purged": replace(COMPACTED, delete_retention_ms=1),
    "continued": EVERY_BATCH,
    "hanging": replace(EVERY_BATCH, segment_bytes=700),
    "empty": EVERY_BATCH,
}
# Keys and values present, missing, empty, long and not ASCII; headers likewise.
MIXED = (
    Row(b"k1", b"v1"),
    Row(None, b"no key"),
    Row(b"tombstone", None),
    Row(None, None),
    Row(b"", b""),
    Row(b"k2", b"with headers, " * 9, (("h1", b"x"), ("h2", None), ("", b""), ("größe", "λ🎈".encode()))),
    Row("ключ".encode(), "değer".encode() * 40),
)


@dataclass
class LifeWriter:
    """Opens a data folder with our manager and lives in it; `epochs` are the leader epochs to write with."""

    folder: Path
    epochs: Sequence[int]
    manager: LogManager = field(init=False)
    epoch: int | None = field(init=False)
    lives: dict[str, Life] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start_ms = SystemClock().wall_ms() - 3_600_000
        self.epoch = clean_shutdown_epoch(FolderDisk(), str(self.folder))
        self.manager = open_manager(self.folder, lambda topic: OPTIONS.get(topic, LogOptions()))

    def write(self) -> dict[str, Life]:
        """Everything; the folder is open afterwards."""
        for number, topic in enumerate(OPTIONS):
            partition = TopicPartition(topic, 0)
            topic_id = self.manager.topic_ids.get(partition, Uuid(bytes((1, number)) * 8))
            log = self.manager.get_or_create(partition, topic_id=topic_id, is_new=True)
            self.lives[topic] = Life(log, self.start_ms, self.epochs[0])
            log.assign_epoch(self.epochs[0], log.end_offset)
        for topic, codec in CODECS.items():
            for rows in (MIXED, MIXED[:1], MIXED * 3):
                self.lives[topic].send(rows, codec=codec)
        self._plain()
        self._idempotent(self.lives["idempotent"])
        self._transactions(self.lives["txn"])
        self._copy(self.lives["txn"], self.lives["copied"])
        self._epochs(self.lives["epochs"])
        self._cuts()
        self._compaction()
        self._to_be_continued()
        return self.lives

    def close(self) -> None:
        """A clean stop, as a broker does it; its epoch is passed on to the next start (KIP-966)."""
        epoch = self.epoch
        for log_dir in list(self.manager.live):
            self.manager.checkpoint_high_watermarks(log_dir)
        self._run_deletes()
        self.manager.close(NO_BROKER_EPOCH if epoch is None else epoch)

    def _run_deletes(self) -> None:
        for log in self.manager.all_logs():
            for job in log.take_file_deletions():
                job.run()

    def _plain(self) -> None:
        self.lives["recompress"].send(MIXED, codec=Codec.GZIP)
        self.lives["recompress"].send(MIXED)
        for _ in range(3):
            self.lives["logappend"].send(MIXED, codec=Codec.ZSTD)
            self.lives["logappend"].send(MIXED)
        for number in range(60):
            self.lives["by-size"].send([Row(b"%d" % number, b"x" * 40 * (number % 5))] * (1 + number % 3))
            self.lives["by-time"].send([Row(None, b"%d" % number)], step_ms=700)
            self.lives["by-index"].send([Row(None, b"%d" % number)])
        for number in range(100):
            self.lives["defaults"].send([Row(b"%d" % number, b"x" * 300)] * 4)
        for _ in range(20):
            self.lives["preallocated"].send(MIXED[:4])

    def _idempotent(self, life: Life) -> None:
        first, second, wrapping = Producer(1001), Producer(1002), Producer(2**40 + 3, 7, MAX_SEQUENCE - 2)
        for number in range(7):  # more batches than a broker remembers
            life.send(MIXED[: 1 + number % 3], producer=first)
            life.send([Row(b"second", b"%d" % number)], producer=second)
        for _ in range(3):
            life.send(MIXED[:4], producer=wrapping, codec=Codec.LZ4)
        second.epoch, second.sequence = 1, 0
        life.send([Row(b"second", b"with a new epoch")], producer=second)
        life.send([Row(b"anonymous", b"x")])

    def _transactions(self, life: Life) -> None:
        one, two, late, left_open = Producer(2001), Producer(2002), Producer(2003), Producer(2004)
        for number in range(6):
            commit = number % 2 == 0
            life.send([Row(b"one", b"%d" % number)] * 3, producer=one, transactional=True)
            life.send([Row(b"two", b"%d" % number)], producer=two, transactional=True, codec=Codec.SNAPPY)
            life.send([Row(b"none", b"outside of any transaction")])
            life.end(one, commit=commit, bump=number > 2)
            life.send([Row(b"two", b"again %d" % number)] * 2, producer=two, transactional=True)
            if number == 2:  # begins here, ends some segments later
                life.send([Row(b"late", b"begun early")], producer=late, transactional=True)
            life.end(two, commit=not commit, coordinator_epoch=number)
        life.end(late, commit=False)
        life.end(Producer(2005), commit=True)  # of a producer that wrote nothing here
        life.send([Row(b"open", b"left open")] * 2, producer=left_open, transactional=True)
        life.send([Row(b"one", b"after the open one began")], producer=one, transactional=True)
        life.end(one, commit=True)
        life.send([Row(b"two", b"aborted after the open one began")], producer=two, transactional=True)
        life.end(two, commit=False, coordinator_epoch=9)
        life.send([Row(b"none", b"the last")])

    def _copy(self, source: Life, target: Life) -> None:
        """As a follower: what the leader has, several batches at once."""
        leader, follower = source.log, target.log
        while follower.end_offset < leader.end_offset:
            got = leader.read(follower.end_offset, 400, upper_bound=leader.end_offset).slice
            assert got is not None
            follower.append_as_follower(got.read(), self.epochs[-1])
        follower.set_high_watermark(follower.end_offset)
        for fact in ("written", "aborted", "markers", "aborted_spans", "producers", "_ongoing"):
            setattr(target, fact, getattr(source, fact))

    def _epochs(self, life: Life) -> None:
        for epoch in self.epochs:
            life.leader_epoch = epoch
            life.log.assign_epoch(epoch, life.log.end_offset)
            for _ in range(5):
                life.send(MIXED)

    def _cuts(self) -> None:
        """Ends cut off, starts moved, a log that begins far out."""
        cut_end = self.lives["cut-end"]
        for _ in range(8):
            cut_end.send(MIXED)
        cut = cut_end.log.end_offset - len(MIXED) * 3
        for _ in truncate_log(self.manager, TopicPartition("cut-end", 0), cut):
            pass
        cut_end.written = [record for record in cut_end.written if record.offset < cut]
        cut_end.leader_epoch = self.epochs[-1]
        cut_end.send(MIXED[:2])
        for topic, left in (("cut-start", 20), ("cut-all", 0)):
            life = self.lives[topic]
            for _ in range(8):
                life.send(MIXED)
            life.log.advance_log_start(life.log.end_offset - left)
            expire(life.log, SystemClock().wall_ms())
        far = self.lives["far"]
        far_out = truncate_log(
            self.manager, TopicPartition("far", 0), FAR_OFFSET, log_start_offset=FAR_OFFSET
        )
        for _ in far_out:
            pass
        for _ in range(4):
            far.send(MIXED)

    def _compaction(self) -> None:
        """Three times.  In `purged` tombstones of the first go in the second; markers, which get their horizon
        when the records of their transaction are removed, in the third."""
        lives = [self.lives["compacted"], self.lives["purged"]]
        producers = {life.topic: (Producer(3001), Producer(3002)) for life in lives}
        horizons: dict[str, int] = {}
        for number in range(3):
            for life in lives:
                self._keyed(life, *producers[life.topic], tombstones=number == 0)
            self.clean()
            for life in lives:
                horizons.setdefault(life.topic, life.log.active.base_offset)
            time.sleep(0.01)
        compacted, purged = lives
        compacted.clean_away(compacted.log.active.base_offset)
        purged.clean_away(purged.log.active.base_offset, tombstones_before=horizons["purged"])
        for life in lives:
            life.send([Row(b"key-1", b"not cleaned yet"), Row(b"key-2", None)])

    def _keyed(self, life: Life, plain: Producer, transactional: Producer, *, tombstones: bool) -> None:
        for number in range(24):
            key = b"key-%d" % (number % 7)
            value = None if tombstones and number % 5 == 4 else b"value %d of " % number + life.topic.encode()
            life.send([Row(key, value), Row(b"same", b"%d" % number, (("h", b"x"),))], producer=plain)
            life.send(
                [Row(b"tx-" + key, value)], producer=transactional, transactional=True, codec=Codec.GZIP
            )
            life.end(transactional, commit=number % 3 != 0, bump=number % 4 == 0)
        if tombstones:
            life.send([Row(b"gone-%d" % number, b"x") for number in range(4)], producer=plain)
            life.send([Row(b"gone-%d" % number, None) for number in range(4)], producer=plain)
        life.log.roll()

    def clean(self) -> None:
        """Until there is nothing left to clean."""
        cleaner = self.manager.cleaner
        assert cleaner is not None
        time.sleep(0.002)  # the cleaner's own pause after it found nothing to do
        while cleaner.step() == 0:
            pass
        assert not cleaner.uncleanable
        self._run_deletes()

    def _to_be_continued(self) -> None:
        """For Apache Kafka to go on with."""
        continued = self.lives["continued"]
        producer = Producer(4001, 2)
        for _ in range(7):
            continued.send(MIXED[:3], producer=producer)
        hanging = self.lives["hanging"]
        ended, left_open = Producer(4002), Producer(4003, 5)
        hanging.send(MIXED[:2], producer=ended, transactional=True)
        hanging.send(MIXED[:3], producer=left_open, transactional=True)
        hanging.end(ended, commit=False)
        hanging.send(MIXED[:3] * 10)


def open_manager(folder: Path, options_for: Callable[[str], LogOptions]) -> LogManager:
    """Our manager on a data folder, all its logs open and, as with one replica, replicated."""
    disk = FolderDisk()
    dirs = LogDirs(disk, [str(folder)])
    dirs.open()
    manager = LogManager(
        disk,
        SystemClock(),
        SeededRandom(1),
        dirs,
        options_for,
        cleaner_options=CleanerOptions(backoff_ms=1),
    )
    manager.open()
    for log in manager.all_logs():
        log.set_high_watermark(log.end_offset)
    return manager
