"""The replica manager of production on logs in memory: transitions, appends, fetchers, the ISR, delayed
operations.

Replaces what `ReplicaManager` has of storage: opening, flushing, truncating and deleting logs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.broker.quotas.rates import Window
from barnabas.broker.quotas.replication_quota import ReplicationQuota
from barnabas.broker.replicas.alter_partition_manager import AlterPartitionManager
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replicas.partition_lookup import PartitionTable
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.broker.replicas.transitions import DerivedTransitions, ReplicaTransitions
from barnabas.broker.replication.fetcher_manager import FetcherManager
from barnabas.broker.replication.follower_effects import FollowerEffects
from barnabas.broker.replication.replica_fetcher import LeaderConnection
from barnabas.metadata.image import ConfigResource
from barnabas.replica.fetch_sessions import Sessions
from barnabas.replica.partition import Rules
from barnabas.replica.purgatory import DelayedOperation, Purgatory
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.failure import DirectoryFull
from barnabas.storage.log.log import Log
from barnabas.storage.log.log_options import LogOptions
from barnabas.storage.log.names import TopicPartition
from barnabas.testing.simulation.replicas.memory_log import MemoryLog
from barnabas.testing.simulation.replicas.messages import Write, Written
from barnabas.testing.simulation.replicas.stored_log import BATCH, StoredLog

if TYPE_CHECKING:
    from barnabas.testing.simulation.replicas.replica_server import ReplicaServer

# Below the session time-out: leaders find out before the controller does.
LAG_MS = 350
SESSION_SLOTS = 10
QUOTA_WINDOW = Window(samples=4, sample_ms=100)
WRITE_TIMEOUT_NS = 1_500 * NS_PER_MS
MIN_ISR = "min.insync.replicas"
# One in as many rounds of housekeeping flushes a log, or writes its checkpoints.
FLUSH_ONE_IN = 6
CHECKPOINT_ONE_IN = 3


@cache
def log_options(flush_messages: int) -> LogOptions:
    return LogOptions(flush_messages=flush_messages)


class LogStore:
    """The logs of a broker: `ReplicaStorage` and its `LogManager`, as far as replication uses them."""

    def __init__(self, server: ReplicaServer, flush_messages: int) -> None:
        self._server = server
        self._options = log_options(flush_messages)
        self.manager = self
        self.logs: dict[TopicPartition, MemoryLog] = {}
        self.futures: dict[TopicPartition, Log] = {}
        self.on_flushed: Callable[[Log], None] = lambda log: None
        self._flushing: set[TopicPartition] = set()
        self._default_min_isr: int | None = None

    # Logs

    @property
    def topic_ids(self) -> dict[TopicPartition, Uuid]:
        return {name: topic_id for name, (topic_id, _) in self._server.machine.logs.items()}

    @property
    def checkpointed_high_watermarks(self) -> dict[TopicPartition, int]:
        """Read when a log is opened."""
        return {
            name: stored.high_watermark_checkpoint for name, (_, stored) in self._server.machine.logs.items()
        }

    def get_or_create(
        self, name: TopicPartition, *, topic_id: Uuid, is_new: bool, directory_id: Uuid
    ) -> MemoryLog:
        stored = self._server.machine.logs.get(name)
        if stored is None:
            stored = self._server.machine.logs[name] = (topic_id, StoredLog())
        log = self.logs.get(name)
        if log is None:
            checker = self._server.checker
            append = partial(checker.appended, self._server.process.id)
            log = self.logs[name] = MemoryLog(name, stored[1], self._options, append)
            log.full = self._server.machine.full
        return log

    def logs_in(self, log_dir: str) -> list[TopicPartition]:
        """There is one directory."""
        return list(self.logs)

    def begin_delete(self, name: TopicPartition) -> None:
        log = self.logs.pop(name, None)
        if log is not None:
            log.was_closed = True
        self._server.machine.logs.pop(name, None)

    def is_deleting(self, name: TopicPartition) -> bool:
        return False

    def may_hold(self, directory_id: Uuid) -> bool:
        return True

    def directory_id_of(self, log: Log) -> None:
        return None

    def finish_deletes(self) -> None: ...

    def run_log_tasks_soon(self) -> None: ...

    def topic_options(self, topic: str) -> Any:
        if self._default_min_isr is None:
            default = self._server.image.configs_of(ConfigResource.BROKER, "").get(MIN_ISR)
            self._default_min_isr = int(default or "1")
        configured = self._server.image.configs_of(ConfigResource.TOPIC, topic).get(MIN_ISR)
        least = self._default_min_isr if configured is None else int(configured)
        return SimpleNamespace(log=self._options, min_insync_replicas=least)

    def forget_defaults(self) -> None:
        self._default_min_isr = None

    def fail(self, log: Log, failure: BaseException) -> None:
        if not isinstance(failure, DirectoryFull):
            raise failure

    # The device

    def flush_if_due(self, partition: Hosted) -> None:
        if partition.awaits_flush and partition.log is not None:
            self._flush(cast(MemoryLog, partition.log))

    def _flush(self, log: MemoryLog) -> None:
        """On a worker; records that come meanwhile wait for the next one."""
        if log.key in self._flushing or log.is_truncating:
            return
        self._flushing.add(log.key)
        flush = log.begin_flush()

        def done(counts: object, error: BaseException | None) -> None:
            self._flushing.discard(log.key)
            if error is not None:
                raise error
            self._server.in_tick(partial(self._flushed, log, is_done=bool(counts)))

        self._server.process.workers.submit(lambda: log.end_flush(flush), done)

    def _flushed(self, log: MemoryLog, *, is_done: bool) -> None:
        if self.logs.get(log.key) is not log:
            return
        if is_done:
            self.on_flushed(log)
        partition = self._server.replicas.partitions.get(log.key)
        if partition is not None:
            self.flush_if_due(partition)

    def housekeeping(self) -> None:
        """The periodic tasks, for each log now and then."""
        random = self._server.random
        for log in self.logs.values():
            if log.is_truncating:
                continue
            if random.integer(1, CHECKPOINT_ONE_IN) == 1:
                log.checkpoint()
            kind = random.integer(1, FLUSH_ONE_IN)
            if kind == 1:
                self._flush(log)
            elif kind == 2:
                log.remove_files()
            elif kind == 3:
                write = log.epochs.plan_write()
                if write is not None:
                    write.run()
                    log.epochs.written(write)

    def close(self) -> None:
        """A clean stop: all is flushed."""
        for log in self.logs.values():
            log.end_flush(log.begin_flush())
            log.checkpoint()
            log.was_closed = True


class Truncating:
    """`Truncations`, for logs in memory: what must wait for the device is done on a worker."""

    def __init__(self, server: ReplicaServer) -> None:
        self._server = server
        self._running: set[TopicPartition] = set()

    def is_truncating(self, name: TopicPartition) -> bool:
        return name in self._running

    def start(
        self,
        name: TopicPartition,
        log: Log,
        offset: int,
        log_start_offset: int | None,
        done: Callable[[], None],
    ) -> None:
        assert isinstance(log, MemoryLog)
        self._running.add(name)
        self._server.checker.truncated(self._server.process.id, log, offset)
        epochs = log.begin_truncation(offset, log_start_offset)

        def work() -> None:
            if epochs is not None:
                epochs.run()
            log.truncation_synced(epochs)

        def ended(_: object, error: BaseException | None) -> None:
            if error is not None:
                raise error
            log.is_truncating = False
            self._running.discard(name)
            self._server.in_tick(done)

        self._server.process.workers.submit(work, ended)

    def stop(self) -> Promise[None]:
        return Promise.of(None)


class _DelayedWrite(DelayedOperation):
    """A write that waits for its followers, or for a flush."""

    __slots__ = ("_acks", "_base_offset", "_host", "_hosted", "_required", "promise")

    def __init__(self, host: ReplicaHost, hosted: Hosted, acks: int, base_offset: int, required: int) -> None:
        super().__init__()
        self._acks = acks
        self._host = host
        self._hosted = hosted
        self._base_offset = base_offset
        self._required = required
        self.promise: Promise[Written] = Promise()

    def try_complete(self) -> bool:
        code = self._host.answer_to(self._hosted, self._acks, self._required)
        if code is None:
            return False
        self.promise.set(Written(self._base_offset, code))
        return True

    def expire(self) -> None:
        self.promise.set(Written(self._base_offset, ErrorCode.REQUEST_TIMED_OUT))

    def fail(self, error: BaseException) -> None:
        raise error


class ReplicaHost(ReplicaManager):
    """The replica manager, without its files and its moves between directories."""

    def __init__(
        self, server: ReplicaServer, flush_messages: int, connect: Callable[[], LeaderConnection]
    ) -> None:
        PartitionTable.__init__(self, server)
        self._server = server
        self._policy = DerivedTransitions(self.broker_id)
        self.now_ns = server.clock.monotonic_ns
        self._timers = server.timers
        self.store = LogStore(server, flush_messages)
        self.store.on_flushed = self._flushed
        self.storage = cast(Any, self.store)
        self.purgatory = Purgatory(server.timers, server.at_tick_end)
        self.sessions = Sessions(SESSION_SLOTS, server.clock, server.random)
        self.isr_changes = AlterPartitionManager(
            server, self.broker_id, server.timers, server.at_tick_end, self.advanced
        )
        self.leader_quota = ReplicationQuota("leader", self.broker_id, QUOTA_WINDOW, server.clock)
        self.follower_quota = ReplicationQuota("follower", self.broker_id, QUOTA_WINDOW, server.clock)
        self.moves = cast(Any, SimpleNamespace(forget=lambda name: None))
        self.on_dir_failed = []
        self.on_changed = []
        self.selects_by_rack = False
        self.traffic = {}
        self._lag_max_ms = LAG_MS
        self._rules = Rules(self.broker_id, LAG_MS * NS_PER_MS, self.is_eligible, self.is_alive)
        self.transitions = ReplicaTransitions(
            self.broker_id,
            lambda: server.image,
            self._must_wait,
            self._transit,
            self._transition_failed,
            timers=server.timers,
            now_ns=self.now_ns,
            after_slice=self._after_transitions,
        )
        self._failed = set()
        self._is_started = False
        self.fetchers = FetcherManager(
            server,
            FollowerEffects(self, cast(Any, Truncating(server))),
            connect=lambda name: connect(),
            timers=server.timers,
            at_tick_end=server.at_tick_end,
        )

    @property
    def is_started(self) -> bool:
        return self._is_started

    def begin(self) -> None:
        """Carry out what the image demands."""
        self._is_started = True
        self._configure_quotas()
        self.transitions.carry_out(self._policy.at_start(self._broker.image, self.store.topic_ids))
        self._check_isrs()

    def fill(self, reason: str | None) -> None:
        """The disk is full, or has room again."""
        for log in self.store.logs.values():
            log.full = reason
        self._space_changed("", reason)

    def stop(self) -> Promise[None]:
        self._is_started = False
        self.transitions.stop()
        self.fetchers.stop()
        self.isr_changes.stop()
        self.purgatory.close()
        self.store.close()
        return Promise.of(None)

    def write(self, request: Write) -> Written | Promise[Written]:
        hosted = self.find(request.topic, request.index)
        data = BATCH.pack(0, request.count, 0, request.value)
        result = self.append(hosted, data, request.acks)
        required = result.last_offset + 1
        code = self.answer_to(hosted, request.acks, required)
        if code is not None:
            return Written(result.first_offset, code)
        operation = _DelayedWrite(self, hosted, request.acks, result.first_offset, required)
        self.purgatory.wait(operation, [hosted], self.now_ns() + WRITE_TIMEOUT_NS)
        return operation.promise
