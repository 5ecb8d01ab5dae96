"""Errors about groups, offsets and transactions.

One class per error code; its docstring is the advice shown to users.
"""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.client.errors.base import ClientError, RetriableError


class OffsetMetadataTooLargeError(ClientError, code=ErrorCode.OFFSET_METADATA_TOO_LARGE):
    """Commit shorter metadata, or raise the broker's `offset.metadata.max.bytes`."""


class CoordinatorLoadInProgressError(RetriableError, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
    """The coordinator is still loading its state: try again."""


class CoordinatorNotAvailableError(RetriableError, code=ErrorCode.COORDINATOR_NOT_AVAILABLE):
    """The coordinator's partition has no leader (yet): try again."""


class NotCoordinatorError(RetriableError, code=ErrorCode.NOT_COORDINATOR):
    """The coordinator has moved: look it up again."""


class IllegalGenerationError(ClientError, code=ErrorCode.ILLEGAL_GENERATION):
    """The group has rebalanced without this member: join again; others will read what it had not
    committed."""


class InconsistentGroupProtocolError(ClientError, code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL):
    """The members have no assignor or protocol in common: give them one (`partition.assignment.strategy`,
    `group.protocol`)."""


class InvalidGroupIdError(ClientError, code=ErrorCode.INVALID_GROUP_ID):
    """Give the consumer a `group.id` that is not empty."""


class UnknownMemberIdError(ClientError, code=ErrorCode.UNKNOWN_MEMBER_ID):
    """The coordinator has removed this member, usually because it polled too rarely: join again."""


class InvalidSessionTimeoutError(ClientError, code=ErrorCode.INVALID_SESSION_TIMEOUT):
    """Choose a `session.timeout.ms` between the broker's `group.min.session.timeout.ms` and
    `group.max.session.timeout.ms`."""


class RebalanceInProgressError(ClientError, code=ErrorCode.REBALANCE_IN_PROGRESS):
    """The group is rebalancing: poll, then try again."""


class InvalidCommitOffsetSizeError(ClientError, code=ErrorCode.INVALID_COMMIT_OFFSET_SIZE):
    """Commit fewer partitions at a time."""


class NonEmptyGroupError(ClientError, code=ErrorCode.NON_EMPTY_GROUP):
    """Stop the group's members first."""


class GroupIdNotFoundError(ClientError, code=ErrorCode.GROUP_ID_NOT_FOUND):
    """Check the group's name: the coordinator does not know it."""


class MemberIdRequiredError(ClientError, code=ErrorCode.MEMBER_ID_REQUIRED):
    """Join again with the member id of this response."""


class GroupMaxSizeReachedError(ClientError, code=ErrorCode.GROUP_MAX_SIZE_REACHED):
    """The group is full: stop a member, or raise the broker's `group.max.size`."""


class FencedInstanceIdError(ClientError, code=ErrorCode.FENCED_INSTANCE_ID):
    """Another consumer runs with the same `group.instance.id`: give each its own."""


class GroupSubscribedToTopicError(ClientError, code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC):
    """Stop the members that are subscribed to the topic first."""


class UnstableOffsetCommitError(RetriableError, code=ErrorCode.UNSTABLE_OFFSET_COMMIT):
    """Offsets of an open transaction are still undecided: try again."""


class FencedMemberEpochError(ClientError, code=ErrorCode.FENCED_MEMBER_EPOCH):
    """The member was removed from the group: give up its partitions and join again."""


class UnreleasedInstanceIdError(ClientError, code=ErrorCode.UNRELEASED_INSTANCE_ID):
    """The previous member with this `group.instance.id` has not left yet: close it, or wait for its session
    to expire."""


class UnsupportedAssignorError(ClientError, code=ErrorCode.UNSUPPORTED_ASSIGNOR):
    """Choose an assignor that the brokers have (`group.remote.assignor`, `group.consumer.assignors`)."""


class StaleMemberEpochError(ClientError, code=ErrorCode.STALE_MEMBER_EPOCH):
    """The member's epoch is stale: send a heartbeat first, then try again."""


class InvalidRegularExpressionError(ClientError, code=ErrorCode.INVALID_REGULAR_EXPRESSION):
    """Correct the pattern: the broker reads it as RE2."""


class InvalidProducerEpochError(ClientError, code=ErrorCode.INVALID_PRODUCER_EPOCH):
    """Another producer has taken over this producer's id: abort, then create a new producer."""


class InvalidTxnStateError(ClientError, code=ErrorCode.INVALID_TXN_STATE):
    """The transaction is not in a state that allows this: begin one first, or end the open one."""


class InvalidProducerIdMappingError(ClientError, code=ErrorCode.INVALID_PRODUCER_ID_MAPPING):
    """The transactional id has a new producer id: create a new producer."""


class InvalidTransactionTimeoutError(ClientError, code=ErrorCode.INVALID_TRANSACTION_TIMEOUT):
    """Choose a `transaction.timeout.ms` up to the broker's `transaction.max.timeout.ms`."""


class ConcurrentTransactionsError(RetriableError, code=ErrorCode.CONCURRENT_TRANSACTIONS):
    """The previous transaction is still being completed: try again."""


class TransactionCoordinatorFencedError(ClientError, code=ErrorCode.TRANSACTION_COORDINATOR_FENCED):
    """Another coordinator has taken over: look it up again."""


class TransactionalIdNotFoundError(ClientError, code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND):
    """Check the transactional id: the coordinator does not know it."""


class ProducerFencedError(ClientError, code=ErrorCode.PRODUCER_FENCED):
    """A newer producer with the same `transactional.id` has taken over: close this one."""


class TransactionAbortableError(ClientError, code=ErrorCode.TRANSACTION_ABORTABLE):
    """Abort the transaction; after that this producer can continue."""


class InvalidRecordStateError(ClientError, code=ErrorCode.INVALID_RECORD_STATE):
    """The record is no longer acquired by this member: acknowledge sooner."""


class ShareSessionNotFoundError(RetriableError, code=ErrorCode.SHARE_SESSION_NOT_FOUND):
    """The broker dropped the share session: the next fetch starts a new one."""


class InvalidShareSessionEpochError(RetriableError, code=ErrorCode.INVALID_SHARE_SESSION_EPOCH):
    """The share session is out of step: the next fetch starts a new one."""


class ShareSessionLimitReachedError(RetriableError, code=ErrorCode.SHARE_SESSION_LIMIT_REACHED):
    """Too many share sessions are open: close some, or raise `group.share.max.share.sessions`."""


class FencedStateEpochError(ClientError, code=ErrorCode.FENCED_STATE_EPOCH):
    """The share group's state has changed: initialize it again."""


class StreamsInvalidTopologyError(ClientError, code=ErrorCode.STREAMS_INVALID_TOPOLOGY):
    """Correct the topology: the broker cannot use it."""


class StreamsInvalidTopologyEpochError(ClientError, code=ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH):
    """Join with the group's current topology epoch."""


class StreamsTopologyFencedError(ClientError, code=ErrorCode.STREAMS_TOPOLOGY_FENCED):
    """The group runs a newer topology: update this member."""
