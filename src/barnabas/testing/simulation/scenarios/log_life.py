"""A broker's logs on a disk that loses power, fails and fills up.

A seed draws what is appended, rolled, flushed, compacted, expired, truncated, deleted and checkpointed, when
a topic gets another cleanup.policy, when the disk is full and when it has room again, and when the process
ends or power fails.  After every start each log is compared with its model: flushed batches are there, all
batches that are there were appended, and indexes, producers, epochs and transactions agree with the batches.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from dataclasses import replace

from barnabas.base.errors import KafkaError
from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.batch.build import build
from barnabas.batch.compression import Codec
from barnabas.batch.control import EndTransactionMarker, build_marker
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView, patch_offsets
from barnabas.runtime.random import random_uuid
from barnabas.runtime.simulated.clock import SimulatedClock
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind, PowerLost
from barnabas.runtime.simulated.world import World
from barnabas.storage.cleaner.cleaner import CleanerOptions, log_dir_of
from barnabas.storage.directories.clean_shutdown import has_clean_shutdown
from barnabas.storage.directories.log_dirs import LogDirs
from barnabas.storage.failure import DirectoryFull, StorageFailure
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_files import LOG
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log.retention import expire
from barnabas.storage.log_manager import LogManager
from barnabas.storage.log_tasks import LogTaskOptions, LogTasks
from barnabas.storage.log_truncation import truncate_log
from barnabas.storage.producers.producer_append import AppendOrigin
from barnabas.storage.refused import StorageRefused
from barnabas.storage.space_watch import SpaceWatch
from barnabas.testing.simulation.registry import scenario
from barnabas.testing.simulation.scenarios.log_topics import OPTIONS
from barnabas.testing.torn.log_book import Book, check_log, state_of

DIRS = ("/data/one", "/data/two")
STEPS = 150
PRODUCERS = (1000, 1001, 1002)
KEYS = (b"a", b"b", b"c", b"d")

PARTITIONS = [TopicPartition(topic, number) for topic in OPTIONS for number in (0, 1)]
# cleanup.policy as (delete, compact).
POLICIES = ((True, False), (False, True), (True, True))


class LogLife:
    """One broker's storage, across many restarts."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random
        self.clock = SimulatedClock(world.agenda)
        self.disk = SimulatedDisk(world.random_for("disk"), wall_ms=self.clock.wall_ms)
        self.options = dict(OPTIONS)
        self.books = {partition: self._new_book(partition) for partition in PARTITIONS}
        self.epoch = 0
        self.lives = 0
        # Partitions whose last append found no space.
        self.refused: set[TopicPartition] = set()
        self.manager: LogManager
        self.log_tasks: LogTasks
        self.start(lost_power=False)

    def _new_book(self, partition: TopicPartition) -> Book:
        return Book(str(partition), compacted=self.options[partition.topic].cleanup_compact)

    # Lifecycle

    def start(self, *, lost_power: bool) -> None:
        """Open the logs on the disk, and compare them with the models.

        On a full disk recovery may fail; then nothing counts as closed cleanly, and the next start recovers.
        """
        self.disk.clear_faults()
        if not self._open():
            for log_dir in DIRS:
                if log_dir in self.manager.dirs.offline and has_clean_shutdown(self.disk, log_dir):
                    raise AssertionError(f"{log_dir}: marked as clean after a failed start")
            self.world.agenda.note("no start on a full disk")
            self._next_process()
            self.disk.capacity_bytes = None
            if not self._open():
                raise AssertionError(f"offline with space: {self.manager.dirs.offline}")
        self.log_tasks = LogTasks(self.manager, LogTaskOptions(log_segment_delete_delay_ms=500))
        self.log_tasks.start()
        for partition, book in self.books.items():
            self._compare(partition, book, lost_power=lost_power)
        self.world.agenda.note(f"started, life {self.lives}")

    def _open(self) -> bool:
        """Whether all directories are online."""
        dirs = LogDirs(self.disk, DIRS)
        dirs.open()
        self.manager = LogManager(
            self.disk,
            self.clock,
            self.world.random_for(f"manager, life {self.lives}"),
            dirs,
            self.options.__getitem__,
            cleaner_options=CleanerOptions(backoff_ms=0, dedupe_buffer_size=1 << 16),
        )
        with contextlib.suppress(StorageRefused):
            self.manager.open()
        return not dirs.offline

    def _compare(self, partition: TopicPartition, book: Book, *, lost_power: bool) -> None:
        log = self.manager.logs.get(partition)
        if log is None:
            # Only a log that was never flushed may be lost with its folder.
            if book.safe_end > 0 or (not lost_power and book.batches):
                raise AssertionError(f"{book.name}: flushed up to {book.safe_end}, but its folder is missing")
            self.books[partition] = book = self._new_book(partition)
            self.disk.capacity_bytes = None
            log = self.manager.get_or_create(partition, topic_id=self._topic_id(), is_new=True)
        check_log(book, log, lost_power=lost_power)
        log.set_high_watermark(log.end_offset)

    def _topic_id(self) -> Uuid:
        return random_uuid(self.world.random_for("topic ids"))

    def power_loss(self) -> None:
        self.disk.power_loss()
        self.restart(lost_power=True)

    def kill(self) -> None:
        """The process ends; the machine and its page cache stay.

        Not after a failed sync: the cache may then contain data that the disk does not have.
        """
        if self.manager.dirs.offline:
            self.power_loss()
        else:
            self.restart(lost_power=False)

    def restart(self, *, lost_power: bool) -> None:
        for partition in self.refused:
            log = self.manager.logs.get(partition)
            if log is not None and not log.local.is_tail_unsynced:
                self.books[partition].pending = None  # what was cut off must not come back
        self.refused.clear()
        self._next_process()
        self.start(lost_power=lost_power)

    def _next_process(self) -> None:
        """A new process on the same disk; nothing of the old one can access it any more."""
        self.lives += 1
        old, self.disk = self.disk, self.disk.fork(self.world.random_for(f"disk, life {self.lives}"))
        with contextlib.suppress(PowerLost):
            old.power_loss()
        with contextlib.suppress(PowerLost):
            if self.manager.cleaner is not None:
                self.manager.cleaner.stop()

    def stop_cleanly(self) -> None:
        if self.manager.dirs.offline:
            return
        # Closing flushes and trims; interrupted, or without space, it may have done so partially.
        self.manager.close()
        for partition, log in self.manager.logs.items():
            book = self.books[partition]
            book.safe_end = max(book.safe_end, log.recovery_point)
            if has_clean_shutdown(self.disk, log_dir_of(log)) and book.safe_end != log.end_offset:
                raise AssertionError(f"{book.name}: closed cleanly but not flushed: {log!r}")
        # A directory may have failed while it was being closed.
        self.kill()

    # Appending

    def pick(self) -> tuple[Book, Log] | None:
        partition = PARTITIONS[self.random.integer(0, len(PARTITIONS) - 1)]
        log = self.manager.logs.get(partition)
        return None if log is None else (self.books[partition], log)

    def append(self) -> None:
        picked = self.pick()
        if picked is not None:
            kind = self.random.integer(0, 2)
            producer_id = PRODUCERS[self.random.integer(0, len(PRODUCERS) - 1)] if kind else -1
            self._append(*picked, self._batch(picked[1], producer_id, transactional=kind == 2))

    def _batch(self, log: Log, producer_id: int, *, transactional: bool) -> bytearray:
        count = self.random.integer(1, 4)
        now_ms = self.clock.wall_ms()
        records = [
            Record(
                offset,
                now_ms - self.random.integer(0, 50),
                self._key(log),
                None if self.random.integer(0, 4) == 0 else self.random.bytes(self.random.integer(0, 80)),
                (("h", self.random.bytes(2)),) if self.random.integer(0, 3) == 0 else (),
            )
            for offset in range(count)
        ]
        sequence, is_open = self._sequence(log, producer_id)
        return build(
            records,
            codec=tuple(Codec)[self.random.integer(0, 4)],
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            # A producer in a transaction writes nothing outside of it.
            transactional=producer_id >= 0 and (transactional or is_open),
        )

    def _key(self, log: Log) -> bytes | None:
        if not log.options.cleanup_compact and self.random.integer(0, 3) == 0:
            return None
        return KEYS[self.random.integer(0, len(KEYS) - 1)]

    def _sequence(self, log: Log, producer_id: int) -> tuple[int, bool]:
        """The next sequence of a producer, and whether it has an open transaction."""
        if producer_id < 0:
            return -1, False
        entry = log.producers.entries.get(producer_id)
        if entry is None or not entry.batches:
            return 0, False
        return entry.batches[-1].last_sequence + 1, entry.current_transaction_first_offset is not None

    def _append(
        self, book: Book, log: Log, batch: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> None:
        start = log.end_offset
        before = state_of(log)
        if log.full is None:
            # Offset and epoch are patched in place before the write: this is what may be there after a crash.
            book.pending = bytes(_placed(batch, start, self.epoch))
            self.refused.discard(TopicPartition(log.topic, log.partition))
        self.world.agenda.note(f"{book.name}: append at {start}, {len(batch)} bytes, epoch {self.epoch}")
        try:
            result = log.append_as_leader(batch, self.epoch, origin=origin)
        except StorageFailure as failure:
            self.world.agenda.note(f"{book.name}: {failure}")
            if failure.action == "appending" and self.disk.size(log.active.path(LOG)) != log.active.size:
                raise AssertionError(f"{book.name}: a part of a rejected append is there") from failure
            if isinstance(failure, DirectoryFull):
                self._check_refused(book, log, before)
            self.manager.fail(log_dir_of(log), failure)
            return
        except KafkaError as error:
            if log.full is None:
                book.pending = None
            if log.end_offset != start:
                raise AssertionError(f"{book.name}: rejected with {error}, but the end moved") from error
            return
        book.pending = None
        if result.duplicate or result.first_offset != start:
            raise AssertionError(f"{book.name}: a new batch at {start} returned {result}")
        book.appended(bytes(batch))
        if self.random.integer(0, 1):
            log.set_high_watermark(log.end_offset)

    def _check_refused(self, book: Book, log: Log, before: object) -> None:
        if state_of(log) != before:
            raise AssertionError(f"{book.name}: a refused append changed {before} to {state_of(log)}")
        self.refused.add(TopicPartition(log.topic, log.partition))

    def end_transaction(self) -> None:
        """A marker for a producer that has an open transaction."""
        picked = self.pick()
        if picked is None:
            return
        book, log = picked
        for producer_id, entry in sorted(log.producers.entries.items()):
            if entry.current_transaction_first_offset is not None:
                marker = build_marker(
                    EndTransactionMarker(self.random.integer(0, 1) == 1, 0),
                    timestamp=self.clock.wall_ms(),
                    producer_id=producer_id,
                    producer_epoch=0,
                )
                self._append(book, log, marker, AppendOrigin.COORDINATOR)
                return

    def resend(self) -> None:
        """A producer that missed the response resends its last batch: it gets the same offsets."""
        picked = self.pick()
        if picked is None:
            return
        book, log = picked
        for base_offset, data in reversed(book.batches.items()):
            view = BatchView(data)
            if view.has_producer_id and not view.is_control and base_offset >= log.log_start_offset:
                if log.options.cleanup_compact and any(record.key is None for record in view.records()):
                    return  # rejected by now
                result = log.append_as_leader(_placed(data, 0, -1), self.epoch)
                if not result.duplicate or result.first_offset != base_offset:
                    raise AssertionError(
                        f"{book.name}: the batch at {base_offset}, resent, returned {result}"
                    )
                return

    # Other operations on logs

    def on_log(self, action: Callable[[Book, Log], None]) -> None:
        picked = self.pick()
        if picked is not None:
            self.world.agenda.note(f"{picked[0].name}: {action.__name__}, {picked[1]!r}")
            with self.manager.guarding(log_dir_of(picked[1])):
                action(*picked)

    def flush(self, book: Book, log: Log) -> None:
        log.flush()
        book.safe_end = log.end_offset

    def roll(self, book: Book, log: Log) -> None:
        log.roll()

    def expire(self, book: Book, log: Log) -> None:
        if not log.options.cleanup_compact:
            known, book.latest_start = book.latest_start, max(book.latest_start, log.high_watermark)
            expire(log, self.clock.wall_ms())
            book.latest_start = max(known, log.log_start_offset)
            self.manager.logs_with_deletes.add(log)

    def delete_records(self, book: Book, log: Log) -> None:
        if not log.options.cleanup_compact and log.high_watermark > log.log_start_offset:
            offset = self.random.integer(log.log_start_offset, log.high_watermark)
            book.latest_start = max(book.latest_start, offset)
            log.advance_log_start(offset)

    def truncate(self, book: Book, log: Log) -> None:
        """Like a follower whose leader never had these records: they are above the high watermark."""
        bases = [base for base in book.batches if base >= log.high_watermark]
        if bases:
            offset = bases[self.random.integer(0, len(bases) - 1)]
            book.safe_end = min(book.safe_end, offset)
            for step in truncate_log(self.manager, TopicPartition(log.topic, log.partition), offset):
                if step is not None:
                    step.run()
                    if isinstance(step.error, DirectoryFull):
                        # It waits for room, and then goes on.
                        self.manager.fail(log_dir_of(log), step.error)
                        self.make_room()
                        step.run()
            book.cut(offset)
            log.set_high_watermark(log.end_offset)
            self.epoch += 1

    def delete_partition(self, book: Book, log: Log) -> None:
        partition = TopicPartition(log.topic, log.partition)
        if self.random.integer(0, 3):
            return
        # Interrupted, it exists or not; completed, it must not reappear.
        book.safe_end = 0
        self.manager.delete(partition)
        if self.manager.dirs.offline:
            return
        # A directory that fails while it creates the folder would leave it behind, in two directories then.
        self.make_room()
        if self.manager.changes.is_deleted(partition):
            self.manager.finish_deletes()  # there was no space for its checkpoints
        self.books[partition] = self._new_book(partition)
        self.refused.discard(partition)
        self.manager.get_or_create(partition, topic_id=self._topic_id(), is_new=True)
        self.manager.write_topic_ids()

    def new_leader(self) -> None:
        self.epoch += 1

    def checkpoint(self) -> None:
        for log_dir in list(self.manager.live):
            self.manager.checkpoint_recovery_points(log_dir)
            self.manager.checkpoint_log_starts(log_dir)
            self.manager.checkpoint_high_watermarks(log_dir)

    def clean(self) -> None:
        assert self.manager.cleaner is not None
        for partition, log in self.manager.logs.items():
            log.set_high_watermark(log.end_offset)
            if log.options.cleanup_compact:
                book = self.books[partition]
                book.gaps_end = max(book.gaps_end, log.active.base_offset)
        with self._records_may_expire():
            for _ in range(self.random.integer(1, 100)):
                self.manager.cleaner.step()
        if self.manager.cleaner.uncleanable:
            raise AssertionError(f"the cleaner gave up on {sorted(self.manager.cleaner.uncleanable)}")

    def pass_time(self) -> None:
        """Run the background tasks, retention among them."""
        self.world.agenda.now_ns += self.random.integer(1, 4000) * NS_PER_MS
        with self._records_may_expire():
            for _ in range(20):
                if self.log_tasks.run_due() > 0:
                    break

    @contextlib.contextmanager
    def _records_may_expire(self) -> Iterator[None]:
        """Interrupted, each log may start anywhere up to its high watermark; else at its log start offset."""
        starts = {}
        for partition, log in self.manager.logs.items():
            book = self.books[partition]
            starts[partition] = book.latest_start
            book.latest_start = max(book.latest_start, log.high_watermark)
        yield
        for partition, log in self.manager.logs.items():
            self.books[partition].latest_start = max(starts[partition], log.log_start_offset)

    def alter_policy(self) -> None:
        """A topic gets another cleanup.policy: its logs keep the gaps that compaction has left in them."""
        topic = tuple(OPTIONS)[self.random.integer(0, len(OPTIONS) - 1)]
        delete, compact = POLICIES[self.random.integer(0, len(POLICIES) - 1)]
        self.options[topic] = replace(OPTIONS[topic], cleanup_delete=delete, cleanup_compact=compact)
        for partition, log in self.manager.logs.items():
            if partition.topic == topic:
                self.world.agenda.note(f"{log.name}: delete {delete}, compact {compact}")
                log.set_options(self.options[topic])
                if not compact and self.manager.cleaner is not None:
                    self.manager.cleaner.abort(partition)
        for partition, book in self.books.items():
            book.compacted |= compact and partition.topic == topic

    def trouble(self) -> None:
        """One of the next operations fails: by a device error, or for lack of space."""
        nth = self.random.integer(1, 12)
        if self.random.integer(0, 1):
            writes = ((Kind.WRITE,), (Kind.WRITE, Kind.CREATE))[self.random.integer(0, 1)]
            kept_bytes = self.random.integer(0, (40, 400)[self.random.integer(0, 1)])
            times = self.random.integer(1, 10)
            self.disk.fail(nth, errno.ENOSPC, kinds=writes, kept_bytes=kept_bytes, times=times)
        else:
            kinds = (Kind.WRITE, Kind.SYNC, Kind.RENAME, Kind.CREATE)
            self.disk.fail(nth, errno.EIO, kinds=(kinds[self.random.integer(0, 3)],))

    def fill_disk(self) -> None:
        """Little space is left."""
        used = self.disk.used_bytes()
        self.disk.capacity_bytes = used + self.random.integer(0, 1500)
        self.world.agenda.note(f"{used} of {self.disk.capacity_bytes} bytes are used")

    def make_room(self) -> None:
        self.disk.capacity_bytes = None
        self.disk.clear_faults()

    def look_for_space(self) -> None:
        """A full directory takes writes again if there is room."""
        SpaceWatch(self.manager, _at_once, lambda delay_ms, look: None, Log.flush).look()

    def lose_power_soon(self) -> None:
        self.disk.crash_after(self.random.integer(1, 25))


def _placed(batch: bytes | bytearray, offset: int, epoch: int) -> bytearray:
    copy = bytearray(batch)
    patch_offsets(copy, 0, offset, epoch)
    return copy


def _at_once(call: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
    try:
        call()
    except Exception as error:
        done(error)
    else:
        done(None)


WEIGHTS: list[tuple[int, Callable[[LogLife], None]]] = [
    (40, LogLife.append),
    (10, LogLife.end_transaction),
    (4, LogLife.resend),
    (8, lambda life: life.on_log(life.flush)),
    (5, lambda life: life.on_log(life.roll)),
    (3, lambda life: life.on_log(life.expire)),
    (2, lambda life: life.on_log(life.delete_records)),
    (3, lambda life: life.on_log(life.truncate)),
    (2, lambda life: life.on_log(life.delete_partition)),
    (2, LogLife.new_leader),
    (4, LogLife.checkpoint),
    (6, LogLife.clean),
    (4, LogLife.alter_policy),
    (5, LogLife.pass_time),
    (2, LogLife.trouble),
    (2, LogLife.fill_disk),
    (2, LogLife.make_room),
    (6, LogLife.look_for_space),
    (3, LogLife.lose_power_soon),
    (2, LogLife.power_loss),
    (2, LogLife.kill),
    (2, LogLife.stop_cleanly),
]
TOTAL_WEIGHT = sum(weight for weight, _ in WEIGHTS)


def draw(life: LogLife) -> Callable[[LogLife], None]:
    at = life.random.integer(0, TOTAL_WEIGHT - 1)
    for weight, action in WEIGHTS:
        at -= weight
        if at < 0:
            return action
    raise AssertionError("weights add up")


@scenario("log-life")
def log_life(world: World) -> None:
    """Logs on a disk that loses power, fails and fills up keep everything that was flushed."""
    life = LogLife(world)
    for _ in range(STEPS):
        world.agenda.events += 1
        action = draw(life)
        try:
            action(life)
        except PowerLost as lost:
            world.agenda.note(str(lost))
            life.restart(lost_power=True)
    life.power_loss()
