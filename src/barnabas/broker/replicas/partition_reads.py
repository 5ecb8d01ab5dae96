"""Reads a partition for a fetch: records and watermarks, or the error.

Sessions, limits over several partitions and waiting belong in fetch.py.
"""

from __future__ import annotations

import logging
from enum import Enum

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import CONSUMER_REPLICA, ZERO_UUID, Uuid
from barnabas.batch.view import CorruptBatch
from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.replica.replica_selector import ReplicaView, replica_in_rack
from barnabas.runtime.disk.disk import Slice
from barnabas.storage.failure import StorageFailure
from barnabas.storage.log.log import Log

logger = logging.getLogger(__name__)

PartitionData = FetchResponse.PartitionData

NO_EPOCH = -1
# The replica id of debugging consumers, which see what followers see.
FUTURE_REPLICA = -3
NO_RECORDS = b""
# Fields that nearly always have their defaults, which encoders leave out.
_SAME_EPOCH = FetchResponse.EpochEndOffset()
_NO_LEADER = FetchResponse.LeaderIdAndEpoch()
_NO_SNAPSHOT = FetchResponse.SnapshotId()


class Isolation(Enum):
    """The upper bound of a read."""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    COMMITTED = "last stable offset"


class Reader:
    """The reader and its options, the same for all partitions of a fetch."""

    __slots__ = (
        "broker_epoch",
        "cold",
        "isolation",
        "leader_only",
        "listener",
        "may_wait",
        "rack",
        "replica_id",
    )

    def __init__(self, replica_id: int, broker_epoch: int, isolation_level: int, version: int) -> None:
        self.replica_id = replica_id
        self.broker_epoch = broker_epoch
        if replica_id >= 0 or replica_id == FUTURE_REPLICA:
            self.isolation = Isolation.LOG_END
        else:
            self.isolation = Isolation.COMMITTED if isolation_level == 1 else Isolation.HIGH_WATERMARK
        # Consumers may read from followers since KIP-392.
        self.leader_only = replica_id >= 0 or (replica_id == CONSUMER_REPLICA and version < 11)
        # The consumer's rack and listener, if it may be sent to another replica; see `_preferred_replica`.
        self.rack = ""
        self.listener = ""
        # Whether to wait for the device; otherwise ranges that are not in the page cache are collected in
        # `cold`.
        self.may_wait = False
        self.cold: list[Slice] = []

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0


def error_data(index: int, code: ErrorCode, *, unread: bool = False) -> PartitionData:
    """Returns the result of a partition with an error; `unread`: no read was attempted."""
    return PartitionData(
        partition_index=index,
        error_code=code,
        high_watermark=-1,
        diverging_epoch=_SAME_EPOCH,
        current_leader=_NO_LEADER,
        snapshot_id=_NO_SNAPSHOT,
        aborted_transactions=[] if unread else None,
        records=NO_RECORDS,
    )


def read(
    replicas: ReplicaManager,
    reader: Reader,
    hosted: Hosted,
    topic_id: Uuid,
    wanted: FetchRequest.Partition,
    max_bytes: int,
    *,
    min_one_batch: bool,
    is_first_look: bool,
) -> PartitionData:
    """Reads up to this many bytes, or the first batch whole, however large (KIP-74)."""
    try:
        if topic_id != ZERO_UUID and topic_id != hosted.topic_id:
            raise KafkaError(ErrorCode.INCONSISTENT_TOPIC_ID)
        log = replicas.log_of(hosted, wanted.current_leader_epoch, leader_only=reader.leader_only)
        if reader.replica_id >= 0:
            return _read_as_follower(
                replicas, reader, hosted, log, wanted, max_bytes, min_one_batch, is_first_look
            )
        if reader.rack and hosted.is_leader:
            preferred = _preferred_replica(replicas, reader, hosted, log, wanted.fetch_offset)
            if preferred is not None:
                return _elsewhere(log, wanted.partition, preferred)
        return _read_log(replicas, reader, log, wanted, max_bytes, min_one_batch)
    except StorageFailure as failure:
        if hosted.log is not None:
            replicas.storage.fail(hosted.log, failure)
        return error_data(wanted.partition, failure.code)
    except CorruptBatch as error:
        _tell(hosted, error)
        return error_data(wanted.partition, error.code)
    except KafkaError as error:
        return error_data(wanted.partition, error.code)


def _tell(hosted: Hosted, error: CorruptBatch) -> None:
    """The client gets the error each time; it is logged once."""
    if hosted.damage != error.message:
        hosted.damage = error.message
        advice = "it is not served; restore the file, or let consumers go on behind it"
        logger.error("%s: %s: %s", hosted.name, error.message, advice)


def _preferred_replica(
    replicas: ReplicaManager, reader: Reader, hosted: Hosted, log: Log, offset: int
) -> int | None:
    """The in-sync replica in the consumer's rack that has its offset; None for the leader (KIP-392)."""
    now_ns = replicas.now_ns()
    candidates = []
    for follower in hosted.followers.values():
        if follower.broker_id in hosted.isr and follower.log_start_offset <= offset <= follower.end_offset:
            rack = replicas.rack_of(follower.broker_id, reader.listener)
            since_ns = now_ns - follower.caught_up_ns
            candidates.append(ReplicaView(follower.broker_id, rack, follower.end_offset, since_ns))
    own_rack = replicas.rack_of(replicas.broker_id, reader.listener)
    leader = ReplicaView(replicas.broker_id, own_rack, log.end_offset, 0)
    return replica_in_rack(reader.rack, leader, candidates)


def _elsewhere(log: Log, index: int, broker_id: int) -> PartitionData:
    return PartitionData(
        partition_index=index,
        error_code=0,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=_SAME_EPOCH,
        current_leader=_NO_LEADER,
        snapshot_id=_NO_SNAPSHOT,
        aborted_transactions=None,
        preferred_read_replica=broker_id,
        records=NO_RECORDS,
    )


def _read_as_follower(
    replicas: ReplicaManager,
    reader: Reader,
    hosted: Hosted,
    log: Log,
    wanted: FetchRequest.Partition,
    max_bytes: int,
    min_one_batch: bool,
    is_first_look: bool,
) -> PartitionData:
    """Reads as the leader; the fetch offset is the follower's log end offset."""
    follower = hosted.follower(reader.replica_id, knows_epoch=wanted.current_leader_epoch != NO_EPOCH)
    quota = replicas.leader_quota
    if quota.is_set and reader.replica_id not in hosted.isr and _is_throttled(replicas, hosted):
        max_bytes, min_one_batch = 0, False
    data = _read_log(replicas, reader, log, wanted, max_bytes, min_one_batch)
    if is_first_look and data.diverging_epoch is _SAME_EPOCH:
        replicas.check_broker_epoch(reader.replica_id, reader.broker_epoch)
        log_start_moved = wanted.log_start_offset != follower.log_start_offset
        if hosted.follower_fetched(
            follower,
            wanted.fetch_offset,
            log_start_offset=wanted.log_start_offset,
            broker_epoch=reader.broker_epoch,
            now_ns=replicas.now_ns(),
        ):
            replicas.advanced(hosted)
        elif log_start_moved:
            # DeleteRecords waits for the log start of all replicas.
            replicas.purgatory.changed(hosted)
        replicas.isr_changes.submit(hosted)
    return data


def _is_throttled(replicas: ReplicaManager, hosted: Hosted) -> bool:
    quota = replicas.leader_quota
    return quota.is_throttled(hosted.topic, hosted.index) and quota.throttle_ms() > 0


def _read_log(
    replicas: ReplicaManager,
    reader: Reader,
    log: Log,
    wanted: FetchRequest.Partition,
    max_bytes: int,
    min_one_batch: bool,
) -> PartitionData:
    high_watermark = log.high_watermark
    last_stable_offset = log.last_stable_offset
    isolation = reader.isolation
    if isolation is Isolation.HIGH_WATERMARK:
        bound = high_watermark
    else:
        bound = last_stable_offset if isolation is Isolation.COMMITTED else log.end_offset
    diverging = _SAME_EPOCH
    records: bytes | Slice = NO_RECORDS
    aborted = None
    if wanted.last_fetched_epoch != NO_EPOCH:
        diverging = _divergence(log, wanted)
    if diverging is _SAME_EPOCH:
        result = log.read(
            wanted.fetch_offset,
            max_bytes,
            upper_bound=bound,
            min_one_batch=min_one_batch,
            read_committed=isolation is Isolation.COMMITTED,
            may_wait=reader.may_wait,
        )
        if result.cold is not None:
            reader.cold.append(result.cold)
        # A batch that does not fit is left out: the client retries with this partition first (KIP-74).
        if result.slice is not None and not result.first_batch_incomplete:
            records = result.slice
        if result.aborted is not None:
            aborted = [
                FetchResponse.AbortedTransaction(producer_id=one.producer_id, first_offset=one.first_offset)
                for one in result.aborted
            ]
    return PartitionData(
        partition_index=wanted.partition,
        error_code=0,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=diverging,
        current_leader=_NO_LEADER,
        snapshot_id=_NO_SNAPSHOT,
        aborted_transactions=aborted,
        records=records,
    )


def _divergence(log: Log, wanted: FetchRequest.Partition) -> FetchResponse.EpochEndOffset:
    """Returns where the reader's log diverges, by its last epoch (KIP-595); the default if it does not."""
    epoch = wanted.last_fetched_epoch
    end = log.end_offset_for_epoch(epoch)
    if end.epoch == NO_EPOCH or end.end_offset == -1:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Could not determine the end offset of the last fetched epoch {epoch} from the request",
        )
    if wanted.fetch_offset < log.log_start_offset:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
    if end.epoch < epoch or end.end_offset < wanted.fetch_offset:
        return FetchResponse.EpochEndOffset(epoch=end.epoch, end_offset=end.end_offset)
    return _SAME_EPOCH
