"""Errors of the cluster or the client, as tools report them: exit code, message, name in Java.

Apache Kafka's tools print the class of an exception before its message in some places; scripts match these
names, so barnabas prints them too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.base.errors import ERRORS, ErrorCode, KafkaError
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.config.errors import ConfigError

_PACKAGE = "org.apache.kafka.common.errors."
# Classes whose name is not derived from the code.
_JAVA_NAMES = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "UnknownServerException",
    ErrorCode.CORRUPT_MESSAGE: "CorruptRecordException",
    ErrorCode.REQUEST_TIMED_OUT: "TimeoutException",
    ErrorCode.MESSAGE_TOO_LARGE: "RecordTooLargeException",
    ErrorCode.STALE_CONTROLLER_EPOCH: "ControllerMovedException",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "OffsetMetadataTooLarge",
    ErrorCode.RECORD_LIST_TOO_LARGE: "RecordBatchTooLargeException",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationException",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationException",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationException",
    ErrorCode.TOPIC_ALREADY_EXISTS: "TopicExistsException",
    ErrorCode.INVALID_CONFIG: "InvalidConfigurationException",
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: "OutOfOrderSequenceException",
    ErrorCode.DUPLICATE_SEQUENCE_NUMBER: "DuplicateSequenceException",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "InvalidPidMappingException",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "InvalidTxnTimeoutException",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalIdAuthorizationException",
    ErrorCode.KAFKA_STORAGE_ERROR: "KafkaStorageException",
    ErrorCode.SASL_AUTHENTICATION_FAILED: "SaslAuthenticationException",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "DelegationTokenDisabledException",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "UnsupportedByAuthenticationException",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "DelegationTokenAuthorizationException",
    ErrorCode.NON_EMPTY_GROUP: "GroupNotEmptyException",
    ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE: "PrincipalDeserializationException",
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: "FetchSessionTopicIdException",
    ErrorCode.INVALID_REGULAR_EXPRESSION: "InvalidRegularExpression",
}
_DENIED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
    }
)
_NOT_FOUND = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
        ErrorCode.LOG_DIR_NOT_FOUND,
        ErrorCode.BROKER_ID_NOT_REGISTERED,
        ErrorCode.VOTER_NOT_FOUND,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
    }
)
_UNREACHABLE = frozenset({ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION})


def exit_code(error: BaseException) -> Exit:
    """The exit code of a tool that failed with an error."""
    if isinstance(error, CommandError):
        return error.code
    if not isinstance(error, KafkaError):
        return Exit.FAILED
    if isinstance(error, ConfigError):
        return Exit.USAGE
    if error.code in _DENIED:
        return Exit.DENIED
    if error.code in _NOT_FOUND:
        return Exit.NOT_FOUND
    if error.code in _UNREACHABLE or _no_server_responded(error):
        return Exit.UNREACHABLE
    return Exit.TIMED_OUT if error.code is ErrorCode.REQUEST_TIMED_OUT else Exit.FAILED


def _no_server_responded(error: KafkaError) -> bool:
    """Whether the cause is an unreachable server: a broker, or a schema registry."""
    cause = error.__cause__
    if isinstance(cause, KafkaError):
        return cause.code in _UNREACHABLE
    return isinstance(cause, ConnectionError)


def message_of(error: KafkaError) -> str:
    """The message, never empty: some brokers send none with some codes."""
    return error.message or ERRORS[error.code].text


def sentence(error: KafkaError) -> str:
    """The message and, if the client has any, its advice."""
    if isinstance(error, ConfigError):
        return str(error)
    advice = getattr(error, "advice", "")
    return f"{message_of(error)} ({advice})" if advice else str(error)


def java_name(code: int) -> str:
    """The class of Apache Kafka's exception for a code, with its package."""
    try:
        known = ErrorCode(code)
    except ValueError:
        known = ErrorCode.UNKNOWN_SERVER_ERROR
    plain = "".join(word.capitalize() for word in known.name.split("_"))
    plain = plain if plain.endswith("Exception") else f"{plain}Exception"
    return _PACKAGE + _JAVA_NAMES.get(known, plain)


def as_java(error: KafkaError) -> str:
    """As Java prints an exception: its class and its message."""
    return f"{java_name(error.code)}: {message_of(error)}"


@contextmanager
def error_prefix(prefix: str) -> Iterator[None]:
    """Reports errors of the cluster in this context with a prefix."""
    try:
        yield
    except KafkaError as error:
        raise CommandError(f"{prefix}{message_of(error)}", exit_code(error)) from error


@contextmanager
def java_error_prefix(prefix: str) -> Iterator[None]:
    """Like `error_prefix`, with the errors as Java prints them."""
    try:
        yield
    except KafkaError as error:
        raise CommandError(f"{prefix}{as_java(error)}", exit_code(error)) from error
