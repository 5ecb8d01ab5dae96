"""Errors about topics, partitions and records.

One class per error code; its docstring is the advice shown to users.
"""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.client.errors.base import ClientError, InvalidMetadataError, RetriableError


class OffsetOutOfRangeError(ClientError, code=ErrorCode.OFFSET_OUT_OF_RANGE):
    """The offset is older than the log's start or newer than its end: seek, or let `auto.offset.reset`
    choose."""


class CorruptMessageError(RetriableError, code=ErrorCode.CORRUPT_MESSAGE):
    """The records were damaged on the way, or the topic is compacted and a record has no key: give it one,
    or send again."""


class UnknownTopicOrPartitionError(InvalidMetadataError, code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
    """Create the topic, or check its name; a topic that was just created is available in a moment."""


class InvalidFetchSizeError(ClientError, code=ErrorCode.INVALID_FETCH_SIZE):
    """Request at least one byte (`fetch.max.bytes`, `max.partition.fetch.bytes`)."""


class LeaderNotAvailableError(InvalidMetadataError, code=ErrorCode.LEADER_NOT_AVAILABLE):
    """An election is in progress: try again; if it persists, no replica that may lead is alive."""


class NotLeaderOrFollowerError(InvalidMetadataError, code=ErrorCode.NOT_LEADER_OR_FOLLOWER):
    """The partition has moved: fresh metadata names its leader."""


class ReplicaNotAvailableError(InvalidMetadataError, code=ErrorCode.REPLICA_NOT_AVAILABLE):
    """The replica is not available (yet): fresh metadata names another."""


class MessageTooLargeError(ClientError, code=ErrorCode.MESSAGE_TOO_LARGE):
    """Send smaller records, or raise the topic's `max.message.bytes`."""


class InvalidTopicError(ClientError, code=ErrorCode.INVALID_TOPIC_EXCEPTION):
    """Use a topic name of letters, digits, dots, dashes and underscores; internal topics are not for
    writing."""


class RecordListTooLargeError(ClientError, code=ErrorCode.RECORD_LIST_TOO_LARGE):
    """Send smaller batches (`batch.size`): the broker's segments are smaller than this one."""


class NotEnoughReplicasError(RetriableError, code=ErrorCode.NOT_ENOUGH_REPLICAS):
    """Fewer replicas are in sync than `min.insync.replicas` requires: start brokers, or wait."""


class NotEnoughReplicasAfterAppendError(RetriableError, code=ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND):
    """The record was written, but to fewer replicas than `min.insync.replicas`: sending it again may
    duplicate it."""


class InvalidRequiredAcksError(ClientError, code=ErrorCode.INVALID_REQUIRED_ACKS):
    """Set `acks` to 0, 1 or all."""


class InvalidTimestampError(ClientError, code=ErrorCode.INVALID_TIMESTAMP):
    """The record's timestamp is too far from the broker's time (`message.timestamp.before.max.ms`,
    `message.timestamp.after.max.ms`)."""


class UnsupportedForMessageFormatError(ClientError, code=ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT):
    """The topic's log has an old format that does not support this."""


class OutOfOrderSequenceNumberError(ClientError, code=ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
    """Earlier records were lost: acknowledged records may be missing; check the broker's log."""


class DuplicateSequenceNumberError(ClientError, code=ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
    """These records were written before: there is nothing to do."""


class UnknownProducerIdError(ClientError, code=ErrorCode.UNKNOWN_PRODUCER_ID):
    """The partition no longer knows this producer (retention): create a new producer and continue."""


class KafkaStorageError(InvalidMetadataError, code=ErrorCode.KAFKA_STORAGE_ERROR):
    """The broker's disk failed: another replica takes over; check the broker's log directories."""


class FetchSessionIdNotFoundError(RetriableError, code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND):
    """The broker dropped the fetch session: the next fetch starts a new one."""


class InvalidFetchSessionEpochError(RetriableError, code=ErrorCode.INVALID_FETCH_SESSION_EPOCH):
    """The fetch session is out of step: the next fetch starts a new one."""


class FencedLeaderEpochError(InvalidMetadataError, code=ErrorCode.FENCED_LEADER_EPOCH):
    """A newer leader was elected: fresh metadata names it."""


class UnknownLeaderEpochError(RetriableError, code=ErrorCode.UNKNOWN_LEADER_EPOCH):
    """The broker does not know the newest leader yet: try again."""


class UnsupportedCompressionTypeError(ClientError, code=ErrorCode.UNSUPPORTED_COMPRESSION_TYPE):
    """Use another `compression.type`: this peer cannot read it."""


class OffsetNotAvailableError(RetriableError, code=ErrorCode.OFFSET_NOT_AVAILABLE):
    """A new leader is still determining the high watermark: try again."""


class InvalidRecordError(ClientError, code=ErrorCode.INVALID_RECORD):
    """The broker rejects the records; a compacted topic needs a key in each."""


class UnknownTopicIdError(InvalidMetadataError, code=ErrorCode.UNKNOWN_TOPIC_ID):
    """The topic was deleted, or the broker does not know it yet: refresh the metadata."""


class InconsistentTopicIdError(InvalidMetadataError, code=ErrorCode.INCONSISTENT_TOPIC_ID):
    """The topic was deleted and re-created: fresh metadata has its id."""


class FetchSessionTopicIdError(RetriableError, code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR):
    """The fetch session mixes names and ids: the next fetch starts a new one."""


class OffsetMovedToTieredStorageError(ClientError, code=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE):
    """The offset is in tiered storage only: read from an offset that the broker holds."""


class TopicAlreadyExistsError(ClientError, code=ErrorCode.TOPIC_ALREADY_EXISTS):
    """Use the topic that exists, or choose another name."""


class InvalidPartitionsError(ClientError, code=ErrorCode.INVALID_PARTITIONS):
    """Request at least one partition; a topic's number of partitions can only grow."""


class InvalidReplicationFactorError(ClientError, code=ErrorCode.INVALID_REPLICATION_FACTOR):
    """Request at least one replica, and no more than there are brokers."""


class InvalidReplicaAssignmentError(ClientError, code=ErrorCode.INVALID_REPLICA_ASSIGNMENT):
    """Name existing brokers, each once, and the same number for each partition."""


class TopicDeletionDisabledError(ClientError, code=ErrorCode.TOPIC_DELETION_DISABLED):
    """Set `delete.topic.enable=true` on the brokers to delete topics."""


class ReassignmentInProgressError(ClientError, code=ErrorCode.REASSIGNMENT_IN_PROGRESS):
    """Replicas of the topic are being reassigned: wait until that is done, or cancel it."""


class NoReassignmentInProgressError(ClientError, code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS):
    """There is no reassignment to cancel."""


class ElectionNotNeededError(InvalidMetadataError, code=ErrorCode.ELECTION_NOT_NEEDED):
    """The preferred replica is the leader already: there is nothing to do."""


class PreferredLeaderNotAvailableError(InvalidMetadataError, code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE):
    """The preferred replica is not in sync or not alive: start its broker, then try again."""


class EligibleLeadersNotAvailableError(InvalidMetadataError, code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE):
    """No replica that may lead is alive: start a broker that has one, or elect uncleanly and lose records."""


class LogDirNotFoundError(ClientError, code=ErrorCode.LOG_DIR_NOT_FOUND):
    """Name a directory that is in the broker's `log.dirs`."""


class ThrottlingQuotaExceededError(RetriableError, code=ErrorCode.THROTTLING_QUOTA_EXCEEDED):
    """Too many topics or partitions are being changed: wait for the time the broker names, then try
    again."""
