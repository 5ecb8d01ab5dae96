"""The logs of a broker's replicas: opening, configuration, flushes, background tasks, failures.

Contains the broker's LogManager with the loop's timers and workers, and the options of topics; leadership
belongs in replica_manager.py.

Background tasks and compaction run in slices of a few milliseconds between requests; work that waits for the
device (flushes, checkpoints) runs on workers.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from barnabas.base.ids import LOST_DIR, MIGRATING_DIR, UNASSIGNED_DIR, Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.broker.context import BrokerContext
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.config.errors import ConfigError
from barnabas.config.settings import Settings
from barnabas.config.topics import topic_settings
from barnabas.metadata.image import ConfigResource
from barnabas.replica.partition import NEVER_FLUSH
from barnabas.runtime.disk.disk import Disk, Slice
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.loop.workers import WorkersBusyError
from barnabas.storage.cleaner.cleaner import CleanerOptions, log_dir_of
from barnabas.storage.directories.clean_shutdown import NO_BROKER_EPOCH
from barnabas.storage.directories.log_dirs import LogDirs
from barnabas.storage.failure import DirectoryFull, StorageFailure
from barnabas.storage.log.deferred_work import FlushPlan, PendingCall
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LONG_MAX, LogOptions
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.log_manager import LogManager
from barnabas.storage.log_tasks import LogTaskOptions, LogTasks
from barnabas.storage.progress import LoadingStopped
from barnabas.storage.space_watch import SpaceWatch

logger = logging.getLogger(__name__)

# How long storage work may hold the loop.
SLICE_NS = 5_000_000
# How long compaction may hold it: it runs for minutes, and every request meanwhile waits for a slice.
CLEANER_SLICE_NS = 1_000_000
# Pause before the next slice: long enough for sockets and timers to be served.
BETWEEN_SLICES_MS = 1
# Retry interval when the workers' queue is full.
RETRY_MS = 100
# Backoff after an error in a periodic task, which must neither stop for good nor flood the log.
AFTER_FAULT_MS = 1_000


@dataclass(frozen=True, slots=True)
class TopicOptions:
    """The effective options of a topic's partitions."""

    log: LogOptions
    min_insync_replicas: int


class ReplicaStorage:
    """All logs of one broker."""

    def __init__(
        self,
        broker: BrokerContext,
        disk: Disk,
        dirs: LogDirs,
        directory_ids: Mapping[str, Uuid],
        *,
        timers: TimerService,
        workers: WorkerPool,
    ) -> None:
        self._broker = broker
        self._clock = broker.clock
        self._timers = timers
        self._workers = workers
        self._defaults: TopicOptions | None = None
        self.manager = LogManager(
            disk,
            broker.clock,
            broker.random,
            dirs,
            lambda topic: self.topic_options(topic).log,
            cleaner_options=CleanerOptions.of(broker.settings),
            directory_ids=directory_ids,
        )
        self.manager.defers_gaps = True
        self.log_tasks = LogTasks(
            self.manager, LogTaskOptions.of(broker.settings), flush=self.flush, offload=self._offload
        )
        # Called when a flush has advanced a log's recovery point.
        self.on_flushed: Callable[[Log], None] = _nothing
        self._flushing: set[Log] = set()
        # Logs that need another flush after the one in progress, and its offset.
        self._flush_again: dict[Log, int] = {}
        # The log whose cleaner sync is in progress.
        self._syncing_for_cleaner: Log | None = None
        # Logs that are about to get gaps which the checkpoint does not contain yet.
        self._noting_gaps: set[Log] = set()
        self._is_running = False
        # Whether a worker is opening logs.
        self._is_opening = False
        # Set when it must stop.
        self._stopped: Promise[None] | None = None
        self._broker_epoch = NO_BROKER_EPOCH
        # Partitions whose deletion is not durable yet, and in how many directories.
        self._deleting: dict[TopicPartition, int] = {}
        # Flushes that need some space themselves, and their offsets.
        self._flush_with_room: dict[Log, int | None] = {}
        self.manager.full.listeners.append(self._space_changed)
        self._space = SpaceWatch(self.manager, self._offload, self._look_after, self.flush)

    # The options of topics

    def topic_options(self, topic: str) -> TopicOptions:
        """Returns the options of the current image.  Topics without own options share one object."""
        overrides = self._broker.image.configs_of(ConfigResource.TOPIC, topic)
        if overrides:
            return self._read_options(topic, dict(overrides))
        if self._defaults is None:
            self._defaults = self._read_options(topic, {})
        return self._defaults

    def forget_defaults(self) -> None:
        """Called when the broker's settings have changed."""
        self._defaults = None

    def _read_options(self, topic: str, overrides: dict[str, str]) -> TopicOptions:
        broker = self._broker.settings
        try:
            settings = topic_settings(overrides, broker)
        except ConfigError as error:
            # The controller accepted it, so it must not stop the broker: invalid options are ignored.
            logger.warning("topic %s: %s; options that cannot be read are ignored", topic, error)
            settings = topic_settings(dict(_readable(overrides, broker)), broker)
        return TopicOptions(LogOptions.of(settings, broker), settings["min.insync.replicas"])

    def set_options(self, partition: TopicPartition, log: Log, options: LogOptions) -> None:
        """Called when a topic's options have changed; stops cleaning at once if it is disabled."""
        was_compacted = log.options.cleanup_compact
        log.set_options(options)
        if was_compacted and not options.cleanup_compact and self.manager.cleaner is not None:
            self.manager.cleaner.cancel(partition)

    # Starting and stopping

    def load(self, is_stray: Callable[[TopicPartition, Uuid | None], bool]) -> Promise[None]:
        """Open every log that the directories hold, on workers: after a crash that may take minutes.

        After a `stop` it is not done any more.
        """
        done: Promise[None] = Promise()
        self._load_next(self.manager.load(is_stray), done)
        return done

    def _load_next(self, loading: Iterator[PendingCall[object]], done: Promise[None]) -> None:
        """Take in what the last call has found, and have the next one run."""
        try:
            context = next(loading, None)
        except LoadingStopped:
            self._close()
        except Exception as error:
            done.fail(error)
        else:
            if context is None:
                done.set(None)
            else:
                self._run_loading(loading, context, done)

    def _run_loading(
        self, loading: Iterator[PendingCall[object]], context: PendingCall[object], done: Promise[None]
    ) -> None:
        def ran(_: object, error: BaseException | None) -> None:
            self._is_opening = False
            if self._stopped is not None:
                with contextlib.suppress(Exception):
                    next(loading, None)  # what was opened is to be closed
                self._close()
            elif isinstance(error, WorkersBusyError):
                self._after((self, "load"), RETRY_MS, partial(self._run_loading, loading, context, done))
            else:
                self._load_next(loading, done)

        self._is_opening = True
        self._workers.submit(context.run, ran)

    def start_log_tasks(self) -> None:
        """Starts the timers of the background tasks."""
        self._is_running = True
        self.log_tasks.start()
        self._run_log_tasks()
        self._space.look()
        if self.manager.cleaner is not None:
            self._run_cleaner()

    def stop(self, broker_epoch: int) -> Promise[None]:
        """Flush and close everything, and mark the directories as closed cleanly: on a worker, it takes long.

        Logs that are just being opened are left as a crash would leave them.
        """
        self._is_running = False
        for task in ("load", "log tasks", "cleaner", "deletes", "space"):
            self._timers.cancel((self, task))
        self.manager.loading.stop()
        self._stopped = Promise()
        self._broker_epoch = broker_epoch
        if not self._is_opening:
            self._close()
        return self._stopped

    def _close(self) -> None:
        # Listeners of directory failures run on the loop, not on the worker.
        failures, hear = self.manager.hold_failures()

        def closed(_: object, error: BaseException | None) -> None:
            assert self._stopped is not None
            for failure in failures:
                hear(*failure)
            if error is None:
                self._stopped.set(None)
            else:
                self._stopped.fail(error)

        self._workers.submit(partial(self.manager.close, self._broker_epoch), closed)

    def _after(self, key: tuple[Hashable, str], delay_ms: int, action: Callable[[], None]) -> None:
        self._timers.set(key, self._clock.monotonic_ns() + delay_ms * NS_PER_MS, action)

    def _look_after(self, delay_ms: int, look: Callable[[], None]) -> None:
        if self._is_running:
            self._after((self, "space"), delay_ms, look)

    # Background tasks

    def run_log_tasks_soon(self) -> None:
        """Called when a deletion or a new partition needs the background tasks."""
        if self._is_running:
            self._after((self, "log tasks"), BETWEEN_SLICES_MS, self._run_log_tasks)

    def retain_now(self) -> Promise[None]:
        """Run retention without waiting for its interval."""
        done: Promise[None] = Promise()
        self.log_tasks.retain_now(lambda: done.set(None))
        self.run_log_tasks_soon()
        return done

    def _run_log_tasks(self) -> None:
        until_ns = self._clock.monotonic_ns() + SLICE_NS
        # If a task fails, the loop gets the exception, and the others continue.
        wait_ms = AFTER_FAULT_MS
        try:
            wait_ms = self.log_tasks.run_due(1)
            while not wait_ms and self._clock.monotonic_ns() < until_ns:
                wait_ms = self.log_tasks.run_due(1)
        finally:
            if self._is_running:
                self._after((self, "log tasks"), max(wait_ms, BETWEEN_SLICES_MS), self._run_log_tasks)

    def _run_cleaner(self) -> None:
        cleaner = self.manager.cleaner
        assert cleaner is not None, "only a cleaner that is there is run"
        until_ns = self._clock.monotonic_ns() + CLEANER_SLICE_NS
        wait_ms = 0
        while not wait_ms and self._is_running and self._clock.monotonic_ns() < until_ns:
            sync = cleaner.pending_sync
            if sync is not None and not sync.is_done:
                self._syncing_for_cleaner = cleaner.log_at_work
                self._workers.submit(sync.run, self._cleaner_synced)
                return
            try:
                wait_ms = cleaner.step()
            except Exception:
                # Other logs are cleaned nevertheless.
                self._after((self, "cleaner"), AFTER_FAULT_MS, self._run_cleaner)
                raise
        if self._is_running:
            self._after((self, "cleaner"), max(wait_ms, BETWEEN_SLICES_MS), self._run_cleaner)

    def _cleaner_synced(self, _: object, error: BaseException | None) -> None:
        """The cleaner's next step sees the result; only a rejected submission is handled here."""
        self._syncing_for_cleaner = None
        if self._is_running:
            delay_ms = BETWEEN_SLICES_MS if error is None else RETRY_MS
            self._after((self, "cleaner"), delay_ms, self._run_cleaner)

    def _offload(self, context: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Submits work for background tasks; retries if the workers' queue is full."""

        def came_home(_: object, error: BaseException | None) -> None:
            if not isinstance(error, WorkersBusyError):
                done(error)
            elif self._is_running:
                self._after((context, "offload"), RETRY_MS, partial(self._offload, context, done))

        self._workers.submit(context, came_home)

    def warm(self, slices: Sequence[Slice], done: Callable[[], None]) -> None:
        """Has a worker read these into the page cache; `done` is called even if that fails."""

        def bring_in() -> None:
            for each in slices:
                each.bring_in()

        self._workers.submit(bring_in, lambda _, error: done())

    # Deleting and moving

    def finish_deletes(self) -> None:
        """Called after `begin_delete`: makes the deletion durable, on a worker."""
        for log_dir, names, finish in self.manager.changes.plan():
            for name in names:
                self._deleting[name] = self._deleting.get(name, 0) + 1
            self._offload(finish, partial(self._deletes_finished, log_dir, names))

    def _deletes_finished(
        self, log_dir: str, names: Iterable[TopicPartition], error: BaseException | None
    ) -> None:
        for name in names:
            self._deleting[name] -= 1
            if not self._deleting[name]:
                del self._deleting[name]
        if isinstance(error, DirectoryFull):
            self.manager.changes.again(log_dir, names)
            if self._stopped is None:
                self._after((self, "deletes"), AFTER_FAULT_MS, self.finish_deletes)
        self._fail_if(log_dir, error)

    def is_deleting(self, name: TopicPartition) -> bool:
        """Whether a log of this name is going: what a crash left of it now would pass for the next one's.

        That ends when its checkpoints have forgotten it, and when neither a flush (the cleaner flushes, too)
        nor leader epochs are written to its folder any more.
        """
        if name in self._deleting or self.manager.changes.is_deleted(name):
            return True
        return any(
            log.is_closed and log.topic == name.topic and log.partition == name.partition
            for log in (*self._flushing, *self.log_tasks.writing_epochs, self._syncing_for_cleaner)
            if log is not None
        )

    def switch_to_future(self, name: TopicPartition) -> None:
        """Switches to a copy in another directory; the old log is deleted when the new name is durable."""
        current, new_dir = self.manager.switch_to_future(name)
        context = partial(self.manager.disk.sync_folder, new_dir)
        self._offload(context, partial(self._switched, current, new_dir))

    def _switched(self, current: Log, new_dir: str, error: BaseException | None) -> None:
        if not self._fail_if(new_dir, error) and self._stopped is None:
            self.manager.delete_replaced(current)
            self.finish_deletes()
            self.run_log_tasks_soon()

    def may_take_gaps(self, log: Log, up_to: int) -> bool:
        """Whether offsets may be missing in this log up to there; if not, a worker sees to it.

        A copy of a compacted log has its gaps, and a crash must find them noted (`Log.gaps_end`).
        """
        if log in self._noting_gaps:
            return False
        if log.gaps_end >= up_to:
            return True
        before, log.gaps_end = log.gaps_end, up_to
        self._noting_gaps.add(log)
        plan = self.manager.plan_gaps(log_dir_of(log))
        self._offload(plan, partial(self._gaps_noted, log, before))
        return False

    def note_gaps(self, log: Log, done: Callable[[], None], refused: Callable[[], None]) -> None:
        """Have a worker note that any offset may be missing in this log; `refused` for lack of space."""
        before, log.gaps_end = log.gaps_end, LONG_MAX

        def noted(error: BaseException | None) -> None:
            self._gaps_noted(log, before, error)
            if error is None and not log.is_closed:
                done()
            elif isinstance(error, DirectoryFull):
                refused()

        self._offload(self.manager.plan_gaps(log_dir_of(log)), noted)

    def _gaps_noted(self, log: Log, before: int, error: BaseException | None) -> None:
        self._noting_gaps.discard(log)
        if error is not None:
            log.gaps_end = before
            self._fail_if(log_dir_of(log), error)

    def _fail_if(self, log_dir: str, error: BaseException | None) -> bool:
        if isinstance(error, OSError | StorageFailure):
            self.manager.fail(log_dir, error)
        elif error is not None:
            raise error
        return error is not None

    # Flushing

    def flush(self, log: Log, up_to: int | None = None) -> None:
        """Flushes a log on a worker; a request during a flush is served after it."""
        if log in self._flushing:
            wanted = log.end_offset if up_to is None else up_to
            self._flush_again[log] = max(wanted, self._flush_again.get(log, 0))
            return
        try:
            plan = log.plan_flush(up_to)
        except StorageFailure as failure:
            self._not_flushed(log, up_to, failure)
            return
        if plan is not None:
            self._flushing.add(log)
            self._workers.submit(plan.run, partial(self._flushed, log, plan))

    def flush_if_due(self, partition: Hosted) -> None:
        """Called after an append: flush.messages, or a segment that was rolled, may require a flush."""
        log = partition.log
        if log is None:
            return
        if partition.flush_messages != NEVER_FLUSH and partition.flushed_end(log) < log.end_offset:
            self.flush(log)
        elif log.local.is_closed_part_unflushed:
            # A segment was rolled: it is flushed in the background.
            self.flush(log, log.active.base_offset)

    def _flushed(self, log: Log, plan: FlushPlan, _: object, error: BaseException | None) -> None:
        self._flushing.discard(log)
        again = self._flush_again.pop(log, None)
        if error is None and not log.is_closed:
            log.flushed(plan)
        plan.close()  # it was not run if the workers' queue was full
        if log.is_closed:
            return
        if isinstance(error, OSError | StorageFailure):
            self._not_flushed(log, max(plan.up_to, again or 0), error)
        elif error is not None:
            logger.warning("%r could not be flushed (%s); retrying", log, error)
            self._after((log, "flush"), RETRY_MS, partial(self.flush, log, again))
        else:
            self.on_flushed(log)
            if again is not None and (again > log.recovery_point or log.local.is_tail_unsynced):
                self.flush(log, again)

    def _not_flushed(self, log: Log, up_to: int | None, error: OSError | StorageFailure) -> None:
        if isinstance(error, DirectoryFull):
            self._flush_with_room[log] = up_to
        self.fail(log, error)

    def _space_changed(self, log_dir: str, reason: str | None) -> None:
        if reason is not None:
            return
        waiting = [log for log in self._flush_with_room if log.is_closed or log_dir_of(log) == log_dir]
        for log, up_to in [(log, self._flush_with_room.pop(log)) for log in waiting]:
            if not log.is_closed:
                self.flush(log, up_to)

    # Directories

    def may_hold(self, directory_id: Uuid) -> bool:
        """Whether a partition's log is in an online directory, as far as known (KIP-858)."""
        if not self.manager.dirs.offline or directory_id in (UNASSIGNED_DIR, MIGRATING_DIR):
            return True
        return directory_id != LOST_DIR and any(
            directory.directory_id == directory_id for directory in self.manager.live.values()
        )

    def directory_id_of(self, log: Log) -> Uuid | None:
        directory = self.manager.live.get(log_dir_of(log))
        return None if directory is None else directory.directory_id

    def fail(self, log: Log, error: Exception) -> None:
        """Called when the log's directory has failed: takes it offline with all its logs, or has no space."""
        self.manager.fail(log_dir_of(log), error)


def _nothing(log: Log) -> None:
    """The default listener does nothing."""


def _readable(overrides: Mapping[str, str], broker: Settings) -> Iterator[tuple[str, str]]:
    for name, value in overrides.items():
        try:
            topic_settings({name: value}, broker)
        except ConfigError:
            continue
        yield name, value
