"""All logs of a broker: opened at start, made, moved and closed here.

What lives here: which partition's log is where, and what happens to it when its directory fails.  What may
not: leadership and replication; the jobs by the clock (jobs.py), which work on what is here.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import LOST_DIR, UNASSIGNED_DIR, Uuid
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import SYNCED_ONE_BY_ONE_MAX, Disk
from barnabas.runtime.random import Random
from barnabas.storage.cleaner.cleaner import CleanerOptions, LogCleaner, log_dir_of
from barnabas.storage.directories.clean_shutdown import NO_BROKER_EPOCH
from barnabas.storage.directories.log_dir import LogDir
from barnabas.storage.directories.log_dirs import LogDirs, in_two_dirs
from barnabas.storage.directories.partition_metadata import write_partition_metadata_of
from barnabas.storage.failure import StorageFailure
from barnabas.storage.folder_changes import FolderChanges
from barnabas.storage.log import log_files
from barnabas.storage.log.deferred_work import PendingCall
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log_loader import IsStray, load_dir
from barnabas.storage.progress import LoadingWatch
from barnabas.storage.refused import DamagedFile, StorageRefused

logger = logging.getLogger(__name__)

OfflineListener = Callable[[str, str, list[TopicPartition]], None]


class LogManager:
    """The logs by partition.  `futures` are copies on their way to another directory (KIP-113)."""

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        random: Random,
        dirs: LogDirs,
        options_for: Callable[[str], LogOptions],
        *,
        cleaner_options: CleanerOptions | None = None,
        directory_ids: Mapping[str, Uuid] | None = None,
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.random = random
        self.dirs = dirs
        self.options_for = options_for
        self.loading = LoadingWatch(clock)
        self.directory_ids = directory_ids or {}
        self._listeners: list[OfflineListener] = []
        self._preferred: dict[TopicPartition, str] = {}
        # Topic ids that no partition.metadata says yet.
        self._unwritten_ids: dict[TopicPartition, Uuid] = {}
        # Logs whose copy in another directory has taken over, and that directory.
        self._replaced: dict[Log, str] = {}
        # What replication-offset-checkpoint said when the logs were opened.
        self.checkpointed_high_watermarks: dict[TopicPartition, int] = {}
        self.logs: dict[TopicPartition, Log] = {}
        self.futures: dict[TopicPartition, Log] = {}
        self.topic_ids: dict[TopicPartition, Uuid] = {}
        self.live: dict[str, LogDir] = {}
        # (wall time at which it was marked, path) of folders that wait to be removed.
        self.folders_to_delete: list[tuple[int, str]] = []
        self.strays: dict[TopicPartition, str] = {}
        self.logs_with_deletes: set[Log] = set()
        options = cleaner_options or CleanerOptions()
        self.cleaner: LogCleaner | None = None
        if options.enable:
            self.cleaner = LogCleaner(
                disk,
                clock,
                options,
                self.logs,
                on_failure=self.fail,
                on_deletes=self.logs_with_deletes.add,
                plan_gaps=self.plan_gaps,
            )
        # What was renamed by deletions and moves, and does not last yet.
        self.changes = FolderChanges(disk, self.live, self.logs_in, self.cleaner)

    # Opening

    def load(self, is_stray: IsStray = lambda partition, topic_id: False) -> Iterator[PendingCall[object]]:
        """Open every log of every live directory, in calls: each is to be run, anywhere, before the next.

        One that nobody has run by then is run here: `loading` sees how far it is, and stops it.
        A directory that fails on the way is offline.  What only an administrator can put right (a folder that
        does not belong, a partition in two places) refuses the start.
        """
        for path in self.dirs.live:
            try:
                yield from load_dir(self, path, is_stray)
            except (OSError, StorageFailure, DamagedFile) as error:
                self.fail(path, error)
        if not self.dirs.live:
            raise StorageRefused(f"no log directory is left: {'; '.join(self.dirs.offline.values())}")

    def open(self) -> None:
        """All of `load` at once."""
        for _ in self.load():
            pass

    def open_log(
        self,
        folder: str,
        partition: TopicPartition,
        *,
        clean: bool,
        recovery_point: int,
        log_start_offset: int,
        high_watermark: int | None = None,
        gaps_end: int,
    ) -> Log:
        log = Log.open(
            self.disk,
            self.clock,
            folder,
            self.options_for(partition.topic),
            random=self.random,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
            gaps_end=gaps_end,
        )
        self.add_log(partition, log)
        return log

    def add_log(self, partition: TopicPartition, log: Log) -> None:
        """One that was just opened."""
        logs = self.futures if log.folder.endswith(log_files.FUTURE_FOLDER) else self.logs
        if partition in logs:
            log.abandon()
            raise in_two_dirs(partition, logs[partition].folder, log.folder)
        log.on_gap = lambda log: self.checkpoint_gaps(log_dir_of(log))
        logs[partition] = log
        self.logs_with_deletes.add(log)

    # Looking up and making

    def all_logs(self) -> list[Log]:
        return [*self.logs.values(), *self.futures.values()]

    def logs_in(self, log_dir: str) -> dict[TopicPartition, Log]:
        """Current and future logs of one directory (a partition never has both in the same one)."""
        pairs = [*self.logs.items(), *self.futures.items()]
        return {partition: log for partition, log in pairs if log_dir_of(log) == log_dir}

    def prefer(self, partition: TopicPartition, log_dir: str) -> None:
        """An administrator wants the partition's next log in this directory (AlterReplicaLogDirs)."""
        self.dirs.is_live(log_dir)
        self._preferred[partition] = log_dir

    def get_or_create(
        self,
        partition: TopicPartition,
        *,
        topic_id: Uuid | None = None,
        is_new: bool = False,
        directory_id: Uuid | None = None,
        future: bool = False,
    ) -> Log:
        """The partition's log, made if need be: in the wanted directory, else where the fewest logs are.

        Unless the partition is new, its log might be in a directory that is offline: then none is made.
        """
        self._check_topic_id(partition, topic_id)
        logs = self.futures if future else self.logs
        log = logs.get(partition)
        if log is None:
            if not is_new and self.dirs.offline:
                offline = ", ".join(self.dirs.offline)
                raise _failed(f"the log of {partition} may be in a directory that is offline: {offline}")
            log = self._create(partition, directory_id, future)
        if topic_id is not None and partition not in self.topic_ids:
            self.topic_ids[partition] = self._unwritten_ids[partition] = topic_id
        return log

    def _create(self, partition: TopicPartition, directory_id: Uuid | None, future: bool) -> Log:
        name = log_files.folder(*partition)
        if future:
            name = log_files.folder_on_the_way(*partition, log_files.FUTURE_FOLDER, self.random)
        candidates = self._candidates(partition, directory_id, future)
        for log_dir in candidates:
            if not self.dirs.is_live(log_dir):
                continue
            folder = f"{log_dir}/{name}"
            try:
                log = self.open_log(
                    folder, partition, clean=True, recovery_point=0, log_start_offset=0, gaps_end=0
                )
            except (OSError, StorageFailure) as error:
                self.fail(log_dir, error)
                continue
            self._preferred.pop(partition, None)
            return log
        raise _failed(f"no log directory can take {partition}; tried {', '.join(candidates)}")

    def _candidates(self, partition: TopicPartition, directory_id: Uuid | None, future: bool) -> list[str]:
        wanted = self._preferred.get(partition)
        if wanted is None and directory_id not in (None, UNASSIGNED_DIR, LOST_DIR):
            wanted = next((d.path for d in self.live.values() if d.directory_id == directory_id), None)
        if future:
            current = self.logs.get(partition)
            if wanted is None or current is None or log_dir_of(current) == wanted:
                raise ValueError(f"a future log of {partition} needs a current log and another directory")
        if wanted is not None:
            return [wanted]
        counts: dict[str, int] = {}
        for log in self.all_logs():
            counts[log_dir_of(log)] = counts.get(log_dir_of(log), 0) + 1
        return self.dirs.by_fewest_partitions(counts)

    def _check_topic_id(self, partition: TopicPartition, topic_id: Uuid | None) -> None:
        """Before a log is made: a refusal must leave none behind."""
        known = self.topic_ids.get(partition)
        if None not in (known, topic_id) and known != topic_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"the log of {partition} belongs to the topic id {known}, not to {topic_id}",
            )

    def take_unwritten_ids(self) -> list[tuple[str, Uuid]]:
        """Folders that lack their partition.metadata, for a job to write them.

        Apart from creation, because it waits for the device.  A crash before it leaves a partition without a
        topic id, which the cluster tells again.
        """
        pending, self._unwritten_ids = self._unwritten_ids, {}
        return [
            (log.folder, topic_id)
            for partition, topic_id in pending.items()
            for log in (self.logs.get(partition), self.futures.get(partition))
            if log is not None
        ]

    def write_topic_ids(self) -> None:
        """All of `take_unwritten_ids`, here and now."""
        unwritten = self.take_unwritten_ids()
        for log_dir in list(self.live):
            with self.guarding(log_dir):
                here = [pair for pair in unwritten if pair[0].rpartition("/")[0] == log_dir]
                write_partition_metadata_of(self.disk, log_dir, here)

    # Changing

    def truncate_to(self, partition: TopicPartition, offset: int, *, future: bool = False) -> None:
        """Cut a follower's log; the cleaner must not be at work on what goes.

        This waits for the device, as `truncate_fully_to` does: not for a loop that serves others.
        """
        self._truncate(partition, future, lambda log: log.truncate_to(offset))

    def truncate_fully_to(
        self,
        partition: TopicPartition,
        offset: int,
        *,
        future: bool = False,
        log_start_offset: int | None = None,
    ) -> None:
        """Drop all records and start anew at an offset."""
        self._truncate(
            partition, future, lambda log: log.truncate_fully_to(offset, log_start_offset=log_start_offset)
        )

    def _truncate(self, partition: TopicPartition, future: bool, cut: Callable[[Log], object]) -> None:
        log = (self.futures if future else self.logs).get(partition)
        if log is None:
            return
        log_dir = log_dir_of(log)
        if self.cleaner is not None and not future:
            self.cleaner.abort(partition)
        cut(log)
        if self.cleaner is not None and not future:
            self.cleaner.truncated(partition, log_dir, log.active.base_offset)
        self.logs_with_deletes.add(log)
        # Here and now, not by a worker: what is written there next must not pass for flushed after a crash.
        self.checkpoint_recovery_points(log_dir)
        self._checkpoint_cleaner(log_dir)

    def delete(self, partition: TopicPartition, *, future: bool = False, stray: bool = False) -> None:
        """Rename the folder `-delete`, to be removed after file.delete.delay.ms, or `-stray`, to stay."""
        self.begin_delete(partition, future=future, stray=stray)
        self.finish_deletes()

    def finish_deletes(self) -> None:
        """All that `changes` plans, here and now."""
        for log_dir, _, finish in self.changes.plan():
            with self.guarding(log_dir):
                finish()

    def begin_delete(self, partition: TopicPartition, *, future: bool = False, stray: bool = False) -> None:
        """The first half of `delete`, to be followed by `finish_deletes`."""
        log = (self.futures if future else self.logs).pop(partition, None)
        if log is None:
            if self.dirs.offline:
                offline = ", ".join(self.dirs.offline)
                raise _failed(f"the log of {partition} may be in a directory that is offline: {offline}")
            return
        log_dir = log_dir_of(log)
        if partition not in self.logs:
            self.topic_ids.pop(partition, None)
            self._unwritten_ids.pop(partition, None)
            self._preferred.pop(partition, None)
        if self.cleaner is not None and not future:
            self.cleaner.forget(partition, log_dir)
        self.logs_with_deletes.discard(log)
        ending = log_files.STRAY_FOLDER if stray else log_files.DELETE_FOLDER
        with self.guarding(log_dir):
            log.rename_folder(log_files.folder_on_the_way(*partition, ending, self.random), sync=False)
            log.abandon()
            if stray:
                self.strays[partition] = log.folder
            else:
                self.folders_to_delete.append((self.clock.wall_ms(), log.folder))
        self.changes.deleted(log_dir, partition)

    def replace_with_future(self, partition: TopicPartition) -> None:
        """All of `switch_to_future`, `delete_replaced` and `finish_deletes`, here and now."""
        current, new_dir = self.switch_to_future(partition)
        with self.guarding(new_dir):
            self.disk.sync_folder(new_dir)
            self.delete_replaced(current)
        self.finish_deletes()

    def switch_to_future(self, partition: TopicPartition) -> tuple[Log, str]:
        """The copy in another directory has caught up: it becomes the log.  The old log, and that directory.

        The directory is to be synced before `delete_replaced`: the old log must not go before the name of the
        new one lasts.
        """
        current, future = self.logs.get(partition), self.futures.get(partition)
        if current is None or future is None:
            raise _failed(f"the current or the future log of {partition} is offline")
        old_dir, new_dir = log_dir_of(current), log_dir_of(future)
        with self.guarding(new_dir):
            future.rename_folder(log_files.folder(*partition), sync=False)
        if partition not in self.futures:
            raise _failed(f"{new_dir} failed while {partition} moved there")
        future.advance_high_watermark(min(current.high_watermark, future.end_offset))
        # Whatever gaps it was copied with, what is appended from now on has none.
        future.gaps_end = min(future.gaps_end, future.end_offset)
        self.logs[partition] = self.futures.pop(partition)
        if self.cleaner is not None:
            self.cleaner.moved(partition, old_dir, new_dir)
        current.abandon()
        self._replaced[current] = new_dir
        return current, new_dir

    def delete_replaced(self, log: Log) -> None:
        """What has taken over from this log lasts, so this one may go; `changes` plans what is to follow."""
        old_dir, new_dir = log_dir_of(log), self._replaced.pop(log)
        name = log_files.folder_on_the_way(log.topic, log.partition, log_files.DELETE_FOLDER, self.random)
        with self.guarding(old_dir):
            log.rename_folder(name, sync=False)
            self.folders_to_delete.append((self.clock.wall_ms(), log.folder))
        for log_dir in (old_dir, new_dir):
            self.changes.touched(log_dir)

    # Checkpoints

    def checkpoint_recovery_points(self, log_dir: str) -> None:
        with self.guarding(log_dir):
            if log_dir in self.live:
                self.live[log_dir].write_recovery_points(self.logs_in(log_dir))

    def checkpoint_log_starts(self, log_dir: str) -> None:
        with self.guarding(log_dir):
            if log_dir in self.live:
                self.live[log_dir].write_log_starts(self.logs_in(log_dir))

    def checkpoint_gaps(self, log_dir: str) -> None:
        with self.guarding(log_dir):
            self.plan_gaps(log_dir)()

    def plan_gaps(self, log_dir: str) -> Callable[[], None]:
        """For a worker: write down where gaps of compaction may be, before they are made."""
        directory = self.live.get(log_dir)
        return _nothing if directory is None else directory.plan_gaps(self.logs_in(log_dir))

    def checkpoint_high_watermarks(self, log_dir: str) -> None:
        with self.guarding(log_dir):
            if log_dir in self.live:
                self.live[log_dir].write_high_watermarks(self.logs_in(log_dir))

    def _checkpoint_cleaner(self, log_dir: str) -> None:
        if self.cleaner is not None:
            with self.guarding(log_dir):
                self.cleaner.plan_checkpoint(log_dir)()

    # Failing and closing

    def on_offline(self, listener: OfflineListener) -> None:
        """Be told (directory, reason, its partitions) when one fails."""
        self._listeners.append(listener)

    def hold_failures(self) -> tuple[list[tuple[str, str, list[TopicPartition]]], OfflineListener]:
        """Note from now on what listeners would be told; they, as one, for whoever tells them later."""
        held: list[tuple[str, str, list[TopicPartition]]] = []
        listeners, self._listeners = self._listeners, [lambda *failure: held.append(failure)]

        def hear(log_dir: str, reason: str, partitions: list[TopicPartition]) -> None:
            for listener in listeners:
                listener(log_dir, reason, partitions)

        return held, hear

    @contextlib.contextmanager
    def guarding(self, log_dir: str) -> Iterator[None]:
        """Work on a directory; if the device lets us down it goes offline and the rest goes on."""
        try:
            yield
        except (OSError, StorageFailure) as error:
            self.fail(log_dir, error)

    def fail(self, log_dir: str, error: Exception) -> None:
        """Take a directory offline with all partitions in it; the others are not touched (M-E5)."""
        if not self.dirs.is_live(log_dir):
            return
        partitions = []
        for logs in (self.logs, self.futures):
            for partition in [tp for tp, log in logs.items() if log_dir_of(log) == log_dir]:
                log = logs.pop(partition)
                log.abandon()
                self.logs_with_deletes.discard(log)
                partitions.append(partition)
        self.live.pop(log_dir, None)
        self._forget_lost(log_dir)
        if self.cleaner is not None:
            self.cleaner.remove_dir(log_dir)
        self.dirs.fail(log_dir, error)
        reason = self.dirs.offline[log_dir]
        logger.error("%s; %d partitions are offline", reason, len(partitions))
        for listener in self._listeners:
            listener(log_dir, reason, partitions)

    def _forget_lost(self, log_dir: str) -> None:
        """A topic made anew under the name of a lost one has another id, and needs another directory."""
        for ids in (self.topic_ids, self._unwritten_ids):
            for partition in [tp for tp in ids if tp not in self.logs and tp not in self.futures]:
                del ids[partition]
        for partition in [tp for tp, wanted in self._preferred.items() if wanted == log_dir]:
            del self._preferred[partition]

    def close(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Flush and close every log, write the checkpoints, then the mark of a clean stop; drop the locks."""
        try:
            if self.cleaner is not None:
                self.cleaner.stop()
            for log, new_dir in list(self._replaced.items()):
                with self.guarding(new_dir):
                    self.disk.sync_folder(new_dir)
                    self.delete_replaced(log)
            self.finish_deletes()
            self.write_topic_ids()
            for log_dir, directory in list(self.live.items()):
                with self.guarding(log_dir):
                    self._close_dir(directory, broker_epoch)
        finally:
            self.dirs.close()

    def _close_dir(self, directory: LogDir, broker_epoch: int) -> None:
        logs = self.logs_in(directory.path)
        if not directory.is_loaded:
            # What the checkpoints say of the logs that were not opened yet must stay, and nothing was written
            # that had to be flushed: the next start begins as this one did.
            for log in logs.values():
                log.abandon()
            directory.mark_clean(broker_epoch)
            return
        if len(logs) > SYNCED_ONE_BY_ONE_MAX:
            for log in logs.values():
                log.close(sync=False)
            self.disk.sync_below(directory.path)
            for log in logs.values():
                log.all_synced()
        else:
            for log in logs.values():
                log.flush()
                log.close()
        directory.write_recovery_points(logs)
        directory.write_log_starts(logs)
        directory.write_high_watermarks(logs)
        directory.mark_clean(broker_epoch)


def _nothing() -> None:
    """There is nothing to write."""


def _failed(message: str) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
