"""The logs of a broker: opens, creates, moves, deletes and closes them.

Contains where each partition's log is, and what happens when its directory fails.  Leadership and replication
belong in replica/, scheduled work in log_tasks.py.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import LOST_DIR, UNASSIGNED_DIR, Uuid
from barnabas.runtime.clock import Clock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.random import Random
from barnabas.storage.cleaner.cleaner import CleanerOptions, LogCleaner, log_dir_of
from barnabas.storage.directories.clean_shutdown import NO_BROKER_EPOCH
from barnabas.storage.directories.log_dir import LogDir
from barnabas.storage.directories.log_dirs import LogDirs, in_two_dirs
from barnabas.storage.directories.partition_metadata import write_partition_metadata_of
from barnabas.storage.failure import DirectoryFull, StorageFailure, refusal
from barnabas.storage.folder_changes import FolderChanges
from barnabas.storage.full_directories import FullDirectories
from barnabas.storage.log import log_files
from barnabas.storage.log.appends import GapNotNoted
from barnabas.storage.log.deferred_work import PendingCall
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LONG_MAX, LogOptions
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log_closing import close_dir
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
        # Whether the first gap of a follower's log is noted by a worker before it is appended.
        self.defers_gaps = False
        self.directory_ids = directory_ids or {}
        self._listeners: list[OfflineListener] = []
        # Directories that take no writes, for lack of space.
        self.full = FullDirectories(self.logs_in)
        self._preferred: dict[TopicPartition, str] = {}
        # Topic ids that are not yet written to partition.metadata.
        self._unwritten_ids: dict[TopicPartition, Uuid] = {}
        # Logs replaced by their future log in another directory, and that directory.
        self._replaced: dict[Log, str] = {}
        # The content of replication-offset-checkpoint when the logs were opened.
        self.checkpointed_high_watermarks: dict[TopicPartition, int] = {}
        self.logs: dict[TopicPartition, Log] = {}
        self.futures: dict[TopicPartition, Log] = {}
        self.topic_ids: dict[TopicPartition, Uuid] = {}
        self.live: dict[str, LogDir] = {}
        # (wall time at which it was marked, path) of folders that wait to be removed.
        self.folders_to_delete: list[tuple[int, str]] = []
        self.strays: dict[TopicPartition, str] = {}
        self.logs_with_deletes: set[Log] = set()
        # Logs with leader epochs that are not in their files.  A dict, for its order.
        self.logs_with_epochs: dict[Log, None] = {}
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
                is_full=self.full.__contains__,
            )
        # Renames by deletions and moves that are not synced yet.
        self.changes = FolderChanges(disk, self.live, self.logs_in, self.cleaner)

    # Opening

    def load(self, is_stray: IsStray = lambda partition, topic_id: False) -> Iterator[PendingCall[object]]:
        """Open every log of every live directory, in calls: each must run, on any thread, before the next.

        A call that has not run by then runs here; `loading` reports the progress and can stop it.  A
        directory that fails is taken offline.  A fault that only an administrator can repair (an unknown
        folder, a partition in two directories) fails the start.
        """
        for path in self.dirs.live:
            try:
                yield from load_dir(self, path, is_stray)
            except (OSError, StorageFailure, DamagedFile) as error:
                # Also a full one: not all of its logs are open.
                self._take_offline(path, error)
        if not self.dirs.live:
            raise StorageRefused(f"no log directory is left: {'; '.join(self.dirs.offline.values())}")

    def open(self) -> None:
        """Run all of `load`."""
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
        """Add a log that was opened."""
        logs = self.futures if log.folder.endswith(log_files.FUTURE_FOLDER) else self.logs
        if partition in logs:
            log.abandon()
            raise in_two_dirs(partition, logs[partition].folder, log.folder)
        log.on_gap = self._gap_found
        log.full = self.full.reason(log_dir_of(log))
        log.epochs.on_unwritten = partial(self.logs_with_epochs.setdefault, log)
        logs[partition] = log
        self.logs_with_deletes.add(log)

    # Looking up and creating

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
        """The partition's log, created if needed in the preferred directory or the one with the fewest logs.

        Unless the partition is new, its log may be in an offline directory: then none is created.
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

    def identify_logs(self, topic_ids: Mapping[str, Uuid]) -> dict[TopicPartition, Uuid]:
        """The topic id of each log; what a crash has left without one belongs to the topic of that name."""
        for partition in self.logs:
            if partition not in self.topic_ids and partition.topic in topic_ids:
                self.topic_ids[partition] = self._unwritten_ids[partition] = topic_ids[partition.topic]
        return {name: self.topic_ids[name] for name in self.logs if name in self.topic_ids}

    def _create(self, partition: TopicPartition, directory_id: Uuid | None, future: bool) -> Log:
        name = log_files.folder(*partition)
        if future:
            name = log_files.folder_on_the_way(*partition, log_files.FUTURE_FOLDER, self.random)
        candidates = self._candidates(partition, directory_id, future)
        for log_dir in candidates:
            if not self.dirs.is_live(log_dir):
                continue
            folder = f"{log_dir}/{name}"
            is_there = self.disk.exists(folder)
            try:
                log = self.open_log(
                    folder, partition, clean=True, recovery_point=0, log_start_offset=0, gaps_end=0
                )
            except (OSError, StorageFailure) as error:
                self._not_created(log_dir, None if is_there else folder, error)
                continue
            self._preferred.pop(partition, None)
            return log
        tried = f"no log directory can take {partition}; tried {', '.join(candidates)}"
        full = next((log_dir for log_dir in candidates if log_dir in self.full), None)
        if full is not None:
            raise DirectoryFull(full, "creating a log", tried)
        raise _failed(tried)

    def _not_created(self, log_dir: str, new_folder: str | None, error: OSError | StorageFailure) -> None:
        """Lack of space is no failure of the directory if the new folder is removed again."""
        cause = error.__cause__ if isinstance(error, StorageFailure) else error
        with self.guarding(log_dir):
            if new_folder is None or not isinstance(cause, OSError):
                raise error
            self.disk.remove_tree(new_folder)
            raise refusal(new_folder, "creating the log", cause)

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
        # Directories without space come last: the files of an empty log may fit.
        return sorted(self.dirs.by_fewest_partitions(counts), key=self.full.__contains__)

    def _check_topic_id(self, partition: TopicPartition, topic_id: Uuid | None) -> None:
        """Called before a log is created, so that an error leaves none behind."""
        known = self.topic_ids.get(partition)
        if None not in (known, topic_id) and known != topic_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                f"the log of {partition} belongs to the topic id {known}, not to {topic_id}",
            )

    def take_unwritten_ids(self) -> list[tuple[str, Uuid]]:
        """Folders without partition.metadata, for a background task to write.

        Separate from creation because it waits for the device.  A crash before it leaves a partition without
        a topic id, which the metadata log provides again.
        """
        taken = []
        for partition, topic_id in list(self._unwritten_ids.items()):
            logs = [log for log in (self.logs.get(partition), self.futures.get(partition)) if log is not None]
            if all(log.full is None for log in logs):  # otherwise when there is room
                del self._unwritten_ids[partition]
                taken += [(log.folder, topic_id) for log in logs]
        return taken

    def write_topic_ids(self) -> None:
        """Write all of `take_unwritten_ids` on this thread."""
        unwritten = self.take_unwritten_ids()
        for log_dir in list(self.live):
            with self.guarding(log_dir):
                here = [pair for pair in unwritten if pair[0].rpartition("/")[0] == log_dir]
                try:
                    write_partition_metadata_of(self.disk, log_dir, here)
                except DirectoryFull:
                    self.ids_not_written(here)
                    raise

    def ids_not_written(self, pairs: Iterable[tuple[str, Uuid]]) -> None:
        """There was no space for the files of `take_unwritten_ids`: they are written when there is room."""
        names = {log.folder: name for logs in (self.logs, self.futures) for name, log in logs.items()}
        for folder, topic_id in pairs:
            name = names.get(folder)
            if name is not None and self.topic_ids.get(name) == topic_id:
                self._unwritten_ids[name] = topic_id

    # Changing

    def delete(self, partition: TopicPartition, *, future: bool = False, stray: bool = False) -> None:
        """Rename the folder `-delete`, to be removed after file.delete.delay.ms, or `-stray`, to stay."""
        self.begin_delete(partition, future=future, stray=stray)
        self.finish_deletes()

    def finish_deletes(self) -> None:
        """Run everything that `changes` plans on this thread."""
        for log_dir, names, finish in self.changes.plan():
            with self.guarding(log_dir):
                try:
                    finish()
                except DirectoryFull:
                    self.changes.again(log_dir, names)
                    raise

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
        """Run `switch_to_future`, `delete_replaced` and `finish_deletes` on this thread."""
        current, new_dir = self.switch_to_future(partition)
        with self.guarding(new_dir):
            self.disk.sync_folder(new_dir)
            self.delete_replaced(current)
        self.finish_deletes()

    def switch_to_future(self, partition: TopicPartition) -> tuple[Log, str]:
        """Make the caught-up future log the current log; returns the old log and the new directory.

        Sync the directory before `delete_replaced`: the old log must not be deleted before the new name is
        durable.
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
        # Batches appended from now on have no gaps, whatever gaps were copied.
        future.gaps_end = min(future.gaps_end, future.end_offset)
        self.logs[partition] = self.futures.pop(partition)
        if self.cleaner is not None:
            self.cleaner.moved(partition, old_dir, new_dir)
        current.abandon()
        self._replaced[current] = new_dir
        return current, new_dir

    def delete_replaced(self, log: Log) -> None:
        """Delete a log whose replacement is durable; `changes` plans the rest."""
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

    def _gap_found(self, log: Log) -> None:
        if self.defers_gaps:
            raise GapNotNoted(log.name)
        log.gaps_end = LONG_MAX
        self.checkpoint_gaps(log_dir_of(log))

    def checkpoint_gaps(self, log_dir: str) -> None:
        with self.guarding(log_dir):
            self.plan_gaps(log_dir)()

    def plan_gaps(self, log_dir: str) -> Callable[[], None]:
        """The call, for a worker, that checkpoints where compaction may leave gaps, before it does."""
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
        """Add a listener for (directory, reason, its partitions) of failed directories."""
        self._listeners.append(listener)

    def hold_failures(self) -> tuple[list[tuple[str, str, list[TopicPartition]]], OfflineListener]:
        """Collect failures instead of notifying listeners; returns the list and the combined listener."""
        held: list[tuple[str, str, list[TopicPartition]]] = []
        self.full.listeners.clear()
        listeners, self._listeners = self._listeners, [lambda *failure: held.append(failure)]

        def hear(log_dir: str, reason: str, partitions: list[TopicPartition]) -> None:
            for listener in listeners:
                listener(log_dir, reason, partitions)

        return held, hear

    @contextlib.contextmanager
    def guarding(self, log_dir: str) -> Iterator[None]:
        """Take the directory offline if the enclosed work fails, or mark it as full; the others continue."""
        try:
            yield
        except (OSError, StorageFailure) as error:
            self.fail(log_dir, error)

    def fail(self, log_dir: str, error: Exception) -> None:
        """Take a directory offline with all its partitions; the others are not affected (M-E5).

        One without space only takes no more writes.
        """
        if not isinstance(error, DirectoryFull):
            self._take_offline(log_dir, error)
        elif self.dirs.is_live(log_dir):
            self.full.add(log_dir, error.message)

    def _take_offline(self, log_dir: str, error: Exception) -> None:
        if not self.dirs.is_live(log_dir):
            return
        self.full.forget(log_dir)
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
        """A topic created again under the name of a lost one has another id and needs another directory."""
        for ids in (self.topic_ids, self._unwritten_ids):
            for partition in [tp for tp in ids if tp not in self.logs and tp not in self.futures]:
                del ids[partition]
        for partition in [tp for tp, wanted in self._preferred.items() if wanted == log_dir]:
            del self._preferred[partition]

    def close(self, broker_epoch: int = NO_BROKER_EPOCH) -> None:
        """Flush and close every log, write the checkpoints and the clean shutdown file, release the locks."""
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
                    close_dir(self.disk, directory, self.logs_in(log_dir), broker_epoch)
        finally:
            self.dirs.close()


def _nothing() -> None:
    """Does nothing: there is nothing to write."""


def _failed(message: str) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message)
