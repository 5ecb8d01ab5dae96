"""The replica manager: executes transitions of partitions, appends to them, and handles directory failures.

The order and retries of transitions belong in transitions.py, look-ups in partition_lookup.py, replication in
replica/, logs in replica_logs.py, reads for a fetch in partition_reads.py, responses in handlers/.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, partial

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import MIGRATING_DIR, Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.broker.context import ReplicaContext
from barnabas.broker.coordinators.producer_ids import ProducerIds
from barnabas.broker.modes.metadata import TransitionPolicy
from barnabas.broker.quotas.replication_quota import replication_quotas
from barnabas.broker.replicas.alter_partition_manager import AlterPartitionManager
from barnabas.broker.replicas.assignments_manager import AssignmentsManager
from barnabas.broker.replicas.hosted_partition import Become, Hosted, Traffic, Transition
from barnabas.broker.replicas.log_dir_moves import LogDirMoves
from barnabas.broker.replicas.partition_lookup import PartitionTable
from barnabas.broker.replicas.replica_logs import ReplicaStorage
from barnabas.broker.replicas.transaction_checks import NoCoordinator, TransactionVerifier
from barnabas.broker.replicas.transitions import DerivedTransitions, ReplicaTransitions
from barnabas.broker.replication.fetchers import Fetchers, NoFetchers
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import ConfigResource, Image
from barnabas.metadata.topics import Partition as PartitionState
from barnabas.replica.fetch_sessions import Sessions
from barnabas.replica.partition import NEVER_FLUSH, Partition, Rules
from barnabas.replica.purgatory import Purgatory
from barnabas.replica.replica_selector import selects_by_rack
from barnabas.runtime.disk.disk import Buffer, Disk
from barnabas.runtime.loop.callbacks import call_each
from barnabas.runtime.loop.executor import WorkerPool
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService
from barnabas.storage.directories.log_dirs import LogDirs
from barnabas.storage.failure import DirectoryFull, StorageFailure
from barnabas.storage.log.appends import AppendResult
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.producers.producer_append import AppendOrigin, Verification

logger = logging.getLogger(__name__)

_NO_ERROR = ErrorCode.NONE
_TOPIC = ConfigResource.TOPIC

# A failed directory: its path, and its id if it has one (KIP-858).
DirFailed = Callable[[str, Uuid | None], None]


class ReplicaManager(PartitionTable):
    """All partitions with a replica on this broker.  Runs on the event loop's thread."""

    def __init__(
        self,
        broker: ReplicaContext,
        disk: Disk,
        dirs: LogDirs,
        directory_ids: Mapping[str, Uuid],
        *,
        timers: TimerService,
        workers: WorkerPool,
        at_tick_end: Callable[[Callable[[], None]], None],
        policy: TransitionPolicy | None = None,
    ) -> None:
        super().__init__(broker)
        self._policy: TransitionPolicy = policy or DerivedTransitions(self.broker_id)
        settings = broker.settings
        self.now_ns = broker.clock.monotonic_ns
        self._timers = timers
        self.storage = ReplicaStorage(broker, disk, dirs, directory_ids, timers=timers, workers=workers)
        self.storage.on_flushed = self._flushed
        self.storage.manager.on_offline(self._dir_failed)
        self.storage.manager.full.listeners.append(self._space_changed)
        self.purgatory = Purgatory(timers, at_tick_end)
        slots = settings["max.incremental.fetch.session.cache.slots"]
        self.sessions = Sessions(slots, broker.clock, broker.random)
        self.isr_changes = AlterPartitionManager(broker, self.broker_id, timers, at_tick_end, self.advanced)
        self.assignments = AssignmentsManager(broker, self.broker_id, timers, at_tick_end)
        self.producer_ids = ProducerIds(broker, self.broker_id)
        self.moves = LogDirMoves(self, timers)
        self.fetchers: Fetchers = NoFetchers()
        self.verifier: TransactionVerifier = NoCoordinator()
        # Called when a directory fails, after its partitions are offline.
        self.on_dir_failed: list[DirFailed] = []
        # Called when a partition becomes a leader or follower, is removed or goes offline.
        self.on_changed: list[Callable[[Hosted], None]] = []
        # Whether consumers are sent to replicas in their own rack (KIP-392).
        self.selects_by_rack = selects_by_rack(settings["replica.selector.class"])
        quotas = replication_quotas(self.broker_id, settings, broker.clock)
        self.leader_quota, self.follower_quota = quotas
        self.traffic: dict[str, Traffic] = {}
        self._lag_max_ms: int = settings["replica.lag.time.max.ms"]
        lag_max_ns = self._lag_max_ms * NS_PER_MS
        self._rules = Rules(
            self.broker_id, lag_max_ns, self.is_eligible, self.is_alive, self._policy.isr_is_in_image
        )
        self.transitions = ReplicaTransitions(
            self.broker_id,
            lambda: broker.image,
            self._must_wait,
            self._transit,
            self._transition_failed,
            timers=timers,
            now_ns=self.now_ns,
            after_slice=self._after_transitions,
        )
        # Not served because their transition failed half-way.
        self._failed: set[TopicPartition] = set()
        self._is_started = False

    # Starting and stopping

    def start(self) -> Promise[None]:
        """Opens all logs and applies the image; deltas are applied from then on."""
        done: Promise[None] = Promise()
        image = self._broker.image  # the metadata goes on while logs are opened
        loaded = self.storage.load(partial(self._policy.is_stray, image))
        loaded.then(lambda _: self._loaded(done, image), done.fail)
        return done

    def _loaded(self, done: Promise[None], before: Image) -> None:
        self._is_started = True
        self.storage.forget_defaults()  # of the image with which the logs were opened
        self._configure_quotas()
        logs = self.storage.manager.identify_logs(before.topic_ids)
        taken = self.transitions.carry_out(self._policy.at_start(self._broker.image, logs))
        taken.then(lambda _: self._begin(done), done.fail)

    def _begin(self, done: Promise[None]) -> None:
        self.storage.start_log_tasks()
        self.moves.start()
        self._check_isrs()
        done.set(None)

    def stop(self) -> Promise[None]:
        """Stops serving, flushes and closes every log, and marks the directories as clean."""
        self._is_started = False
        self.transitions.stop()
        self._timers.cancel((self, "isr"))
        truncated = self.fetchers.stop()
        self.isr_changes.stop()
        self.assignments.stop()
        self.moves.stop()
        self.purgatory.close()
        for partition in self.partitions.values():
            partition.lose_log()
        self.partitions.clear()
        closed, epoch = Promise[None](), self._policy.kept_epoch(self._broker.broker_epoch)
        truncated.then(lambda _: self.storage.stop(epoch).then(closed.set, closed.fail), closed.fail)
        return closed

    # Transitions

    def apply(self, delta: Delta) -> None:
        """Applies a committed delta, in slices.  Settings and image are up to date already."""
        if self._is_started:  # otherwise the whole image is applied when the logs are open
            self._apply_min_isrs(delta)
            self._policy.carry_out(self.transitions, delta, self._apply_configs(delta))

    @property
    def failed_count(self) -> int:
        """The partitions that are not served because of an error."""
        return self.transitions.failed_count

    def _must_wait(self, transition: Transition) -> bool:
        """Whether a partition's log is being truncated, or cannot be made yet: the one of an earlier topic of
        its name is going."""
        name = TopicPartition(transition.topic, transition.index)
        if self.fetchers.is_truncating(name):
            return True
        if transition.become is Become.REMOVED:
            return False
        known = self.partitions.get(name)
        if known is not None and known.topic_id != transition.topic_id and not known.is_offline:
            self._remove(name, known)
            self._after_transitions()
            return True
        return known is None and self.storage.is_deleting(name)

    def _after_transitions(self) -> None:
        self.storage.finish_deletes()
        self.storage.run_log_tasks_soon()

    def _transit(self, transition: Transition) -> None:
        """Executes a transition, or raises."""
        name = TopicPartition(transition.topic, transition.index)
        known = self.partitions.get(name)
        if name in self._failed and known is not None and known.topic_id == transition.topic_id:
            # Half of the last transition may have been executed: start from the log alone.
            del self.partitions[name]
            self.fetchers.unfollow(known)
            self._count_out(known)
            known = None
        self._failed.discard(name)
        if transition.become is Become.REMOVED:
            self._let_go(name, known, transition.topic_id)
            return
        is_new = known is None or known.topic_id != transition.topic_id
        if known is None or is_new:
            if known is not None and not known.is_offline:
                self._remove(name, known)
            known = self._host(name, transition.topic_id)
        self._become(name, known, transition, is_new=is_new)

    def _become(self, name: TopicPartition, known: Hosted, transition: Transition, *, is_new: bool) -> None:
        state = transition.state
        assert state is not None, "who stays has a state"
        log = self._open_log(name, known, state, is_new=is_new)
        if transition.become is Become.LEADER:
            self.fetchers.unfollow(known)
            now_ns = self.now_ns()
            self._guard(known, lambda: known.lead(state, log, now_ns))
        else:
            known.follow(state, log)
            self.fetchers.follow(known)
        # Delayed operations may now fail or complete.
        self._changed(known)

    def _let_go(self, name: TopicPartition, known: Hosted | None, topic_id: Uuid) -> None:
        manager = self.storage.manager
        if known is not None and known.topic_id == topic_id:
            self._remove(name, known)
        elif manager.topic_ids.get(name) == topic_id:
            # A log without a partition: its last transition failed, or it has just been opened.
            self.moves.forget(name)
            manager.begin_delete(name)

    def _transition_failed(self, transition: Transition) -> None:
        """Called on an internal error: the partition is not served until the transition succeeds."""
        self._failed.add(name := TopicPartition(transition.topic, transition.index))
        known = self.partitions.get(name)
        if known is not None:
            self._withdraw(known)

    def _withdraw(self, partition: Hosted) -> None:
        """Takes the partition offline; a listener that fails does not keep other partitions online."""
        try:
            self._take_offline(partition)
        except Exception:
            logger.exception("%s: a listener failed when it went offline", partition.name)

    def _changed(self, partition: Hosted) -> None:
        self.purgatory.changed(partition)
        self._wake_followers(partition)
        call_each(partial(listener, partition) for listener in self.on_changed)

    def _host(self, name: TopicPartition, topic_id: Uuid) -> Hosted:
        traffic = self.traffic.get(name.topic)
        if traffic is None:
            traffic = self.traffic[name.topic] = Traffic()
        traffic.partitions += 1
        hosted = Hosted(name.topic, name.partition, topic_id, self._rules, traffic)
        self.partitions[name] = hosted
        self._configure(hosted)
        return hosted

    def _open_log(
        self, name: TopicPartition, partition: Hosted, state: PartitionState, *, is_new: bool
    ) -> Log:
        if partition.log is not None:
            self._note_directory(partition, partition.log, state)
            return partition.log
        manager = self.storage.manager
        directory_id = state.directory_of(self.broker_id)
        if partition.is_offline or (name not in manager.logs and not self.storage.may_hold(directory_id)):
            self._take_offline(partition)
            raise self.missing(*name)
        try:
            log = manager.get_or_create(
                name, topic_id=partition.topic_id, is_new=is_new, directory_id=directory_id
            )
        except KafkaError as error:
            if error.code is ErrorCode.KAFKA_STORAGE_ERROR and not isinstance(error, DirectoryFull):
                self._take_offline(partition)
            raise
        # A log that was in use before its partition failed is more recent than the file.
        log.set_high_watermark(manager.checkpointed_high_watermarks.pop(name, log.high_watermark))
        self._note_directory(partition, log, state)
        return log

    def _note_directory(self, partition: Hosted, log: Log, state: PartitionState) -> None:
        """Reports the log's directory to the controller, if it does not know it (KIP-858)."""
        expected = state.directory_of(self.broker_id)
        actual = self.storage.directory_id_of(log)
        if actual is not None and expected not in (actual, MIGRATING_DIR):
            self.assignments.submit(partition.topic_id, partition.index, actual)

    def _remove(self, name: TopicPartition, partition: Hosted) -> None:
        del self.partitions[name]
        self.fetchers.unfollow(partition)
        was_offline = partition.is_offline
        partition.lose_log()
        self._changed(partition)
        self._count_out(partition)
        if was_offline:
            logger.warning("%s is deleted, but its log is in an offline directory", name)
            return
        self.moves.forget(name)
        self.storage.manager.begin_delete(name)

    def _count_out(self, partition: Hosted) -> None:
        partition.traffic.partitions -= 1
        if not partition.traffic.partitions:
            self.traffic.pop(partition.topic, None)

    # Options

    def _configure_quotas(self) -> None:
        self.leader_quota.configure(self._broker.image)
        self.follower_quota.configure(self._broker.image)

    def _apply_configs(self, delta: Delta) -> Iterator[None]:
        changed = {name for kind, name in delta.configs if kind == _TOPIC}
        if delta.configs:
            self._configure_quotas()
        if delta.changes_options_of(self.broker_id):
            changed.update(topic for topic, _ in self.partitions)
            self.fetchers.configure(lambda: list(self.partitions.values()))
        if changed:
            for partition in list(self.partitions.values()):
                if partition.topic in changed:
                    self._configure_alone(partition, self._configure)
                    yield

    def _configure_alone(self, partition: Hosted, configure: Callable[[Hosted], None]) -> None:
        """Applies the options of one partition; an error must not affect the others."""
        try:
            configure(partition)
        except Exception:
            logger.exception("%s keeps its old options, as the new ones could not be set", partition.name)

    def _apply_min_isrs(self, delta: Delta) -> None:
        """Before an ISR of the same delta, as the controller's ELR counts on them already (KIP-966): a leader
        that took a smaller ISR first would commit what members of the ELR do not have."""
        hosted: Iterable[Hosted] = self.of_topics(name for kind, name in delta.configs if kind == _TOPIC)
        if delta.changes_options_of(self.broker_id):
            self.storage.forget_defaults()
            hosted = self.partitions.values()
        options_of = cache(self.storage.topic_options)
        for partition in hosted:
            self._configure_alone(
                partition, lambda each: each.set_min_isr(options_of(each.topic).min_insync_replicas)
            )

    def _configure(self, partition: Hosted) -> None:
        options = self.storage.topic_options(partition.topic)
        log = partition.log
        if log is not None and log.options is not options.log:
            self.storage.set_options(partition.name, log, options.log)
        partition.flush_messages = options.log.flush_messages
        partition.set_min_isr(options.min_insync_replicas)
        if partition.is_leader and partition.advance(self.now_ns()):
            self.advanced(partition)

    # Appending

    def append(
        self,
        partition: Hosted,
        records: Buffer,
        acks: int,
        verification: Verification | None = None,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> AppendResult:
        """Appends batches to a partition that this broker leads.  See `answer_to` for the response."""
        log = partition.log
        if log is None or not partition.is_leader:
            raise self.not_leader(partition)
        if partition.is_under_min_isr:
            partition.check_acks(acks)
        try:
            result = log.append_as_leader(
                records, partition.leader_epoch, origin=origin, verification=verification
            )
        except StorageFailure as failure:
            self.storage.fail(log, failure)
            if isinstance(failure, DirectoryFull) and partition.propose_resigning():
                self.isr_changes.submit(partition)
            raise
        size = result.bytes_appended
        if size:
            traffic = partition.traffic
            traffic.produces += 1
            traffic.bytes_in += size
            traffic.records_in += result.last_offset - result.first_offset + 1
            self._appended(partition, log, size)
        return result

    def _appended(self, partition: Hosted, log: Log, size: int) -> None:
        if partition.flush_messages != NEVER_FLUSH or log.local.is_closed_part_unflushed:
            self.storage.flush_if_due(partition)
        if partition.followers:
            # Followers see the records now, consumers when the high watermark has passed them.
            self._wake_followers(partition)
            self.purgatory.arrived(partition, size)
            if partition.advance(self.now_ns()):
                self.advanced(partition)
        elif partition.advance(0):
            self.purgatory.arrived(partition, size)

    def _wake_followers(self, partition: Hosted) -> None:
        """Fetches of followers that wait look at this partition now."""
        partition.note_news()
        for cached in partition.watchers:
            self.purgatory.changed(cached.session)

    def advanced(self, partition: Partition[Log]) -> None:
        """The high watermark has advanced.

        Followers learn it with their next response, as in Apache Kafka: they do not wait for it.
        """
        partition.note_news()
        self.purgatory.changed(partition)

    def answer_to(self, partition: Hosted, acks: int, required_offset: int) -> ErrorCode | None:
        """Returns the result of a produce whose records end before this offset; None if it must wait."""
        if acks == -1:
            code = partition.acknowledged(required_offset)
            if code is None or code is _NO_ERROR:
                return code
            return ErrorCode.KAFKA_STORAGE_ERROR if partition.is_offline else code
        log = partition.log
        if log is None:
            return self.not_leader(partition).code
        if partition.flush_messages == NEVER_FLUSH or partition.flushed_end(log) >= required_offset:
            return _NO_ERROR
        return None

    def _flushed(self, log: Log) -> None:
        partition = self.partitions.get((log.topic, log.partition))
        if partition is not None and partition.log is log and partition.flush_messages != NEVER_FLUSH:
            if partition.is_leader:
                partition.advance(self.now_ns())
                self.advanced(partition)
            else:
                self.fetchers.flushed(partition)

    def sent_to_follower(self, partition: Hosted, size: int) -> None:
        """Called for what a follower is sent, which counts for the leader's quota if it is throttled."""
        quota = self.leader_quota
        if quota.is_set and quota.is_throttled(partition.topic, partition.index):
            quota.record(size)

    # Deleting records

    def delete_records(self, partition: Hosted, offset: int) -> int:
        """Deletes records before an offset (-1: the high watermark); returns the new log start offset."""
        log = partition.log
        if log is None or not partition.is_leader:
            raise self.not_leader(partition)
        if not log.options.cleanup_delete:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"Records of partition {partition.topic}-{partition.index}"
                " can not be deleted due to the configured policy",
            )
        wanted = log.high_watermark if offset == -1 else offset
        if wanted < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{wanted} is no offset")
        self._guard(partition, lambda: log.advance_log_start(wanted))
        partition.note_news()
        return wanted

    # The ISR

    def _check_isrs(self) -> None:
        """Called every half of replica.lag.time.max.ms: proposes to remove lagging followers from the ISR."""
        now_ns = self.now_ns()
        self._timers.set((self, "isr"), now_ns + max(self._lag_max_ms // 2, 1) * NS_PER_MS, self._check_isrs)
        for partition in self.partitions.values():
            if len(partition.isr) > 1 and partition.propose_leaving(now_ns):
                self.isr_changes.submit(partition)

    # Failing

    def _guard(self, partition: Hosted, action: Callable[[], object]) -> None:
        """Takes a directory offline that fails meanwhile, or has no space; the exception is passed on."""
        log = partition.log
        try:
            action()
        except StorageFailure as failure:
            failed = partition.log or log
            if failed is not None:
                self.storage.fail(failed, failure)
            raise

    def _take_offline(self, partition: Hosted) -> None:
        partition.is_offline = True
        self.fetchers.unfollow(partition)
        partition.lose_log()
        self._changed(partition)

    def _dir_failed(self, log_dir: str, reason: str, names: list[TopicPartition]) -> None:
        directory_id = self.storage.manager.directory_ids.get(log_dir)
        calls: list[Callable[[], None]] = []
        for name in names:
            self._failed.discard(name)  # a retry cannot restore its log
            partition = self.partitions.get(name)
            # The lost log may be a future log.
            if partition is not None and name not in self.storage.manager.logs:
                calls.append(partial(self._withdraw, partition))
        call_each([*calls, *(partial(listener, log_dir, directory_id) for listener in self.on_dir_failed)])

    def _space_changed(self, log_dir: str, reason: str | None) -> None:
        """A directory is full, or has room again: then what waited for space goes on."""
        if reason is not None or not self._is_started:
            return
        logs = self.storage.manager.logs_in(log_dir)
        for name in logs:
            partition = self.partitions.get(name)
            if partition is not None:
                self.fetchers.has_room(partition)
        self.transitions.retry_now()
