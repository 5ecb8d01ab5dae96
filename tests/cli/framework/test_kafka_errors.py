"""Errors of the cluster or the client: exit code, message, name in Java."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.kafka_errors import (
    as_java,
    error_prefix,
    exit_code,
    java_name,
    message_of,
    sentence,
)
from barnabas.client.errors import KafkaTimeoutError, NoBrokersError, error_for
from barnabas.config.errors import ConfigError


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Exit.DENIED),
        (ErrorCode.SASL_AUTHENTICATION_FAILED, Exit.DENIED),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Exit.NOT_FOUND),
        (ErrorCode.GROUP_ID_NOT_FOUND, Exit.NOT_FOUND),
        (ErrorCode.REQUEST_TIMED_OUT, Exit.TIMED_OUT),
        (ErrorCode.NETWORK_EXCEPTION, Exit.UNREACHABLE),
        (ErrorCode.INVALID_PARTITIONS, Exit.FAILED),
        (ErrorCode.INVALID_CONFIG, Exit.FAILED),
    ],
)
def test_error_codes_determine_the_exit_code(code: Any, ends: Any) -> None:
    assert exit_code(error_for(code)) is ends


def test_an_invalid_option_is_a_usage_error() -> None:
    assert exit_code(ConfigError("Invalid value x for configuration y")) is Exit.USAGE


def test_a_timeout_because_no_server_responded_means_unreachable() -> None:
    late = KafkaTimeoutError("Metadata did not complete within 5 ms")
    assert exit_code(late) is Exit.TIMED_OUT
    late.__cause__ = NoBrokersError("no broker responds")
    assert exit_code(late) is Exit.UNREACHABLE


def test_errors_of_commands_keep_their_code_and_others_fail() -> None:
    assert exit_code(CommandError("x", Exit.NOT_FOUND)) is Exit.NOT_FOUND
    assert exit_code(ValueError("x")) is Exit.FAILED


def test_a_sentence_includes_the_advice() -> None:
    error = error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no topic x")
    assert sentence(error) == f"no topic x ({error.advice})"
    assert sentence(KafkaError(ErrorCode.INVALID_REQUEST, "odd")) == "INVALID_REQUEST: odd"


def test_an_empty_message_is_filled_in() -> None:
    assert message_of(KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")) == (
        "This server does not host this topic-partition."
    )


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "UnknownTopicOrPartitionException"),
        (ErrorCode.TOPIC_ALREADY_EXISTS, "TopicExistsException"),
        (ErrorCode.INVALID_TOPIC_EXCEPTION, "InvalidTopicException"),
        (ErrorCode.NON_EMPTY_GROUP, "GroupNotEmptyException"),
        (9999, "UnknownServerException"),
    ],
)
def test_names_are_those_of_apache_kafkas_exceptions(code: Any, name: str) -> None:
    assert java_name(code) == f"org.apache.kafka.common.errors.{name}"


def test_an_exception_as_java_prints_it() -> None:
    assert as_java(KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "no")) == (
        "org.apache.kafka.common.errors.OffsetOutOfRangeException: no"
    )


def test_errors_are_reported_with_a_prefix() -> None:
    with pytest.raises(CommandError, match=r"^Error: no$") as caught, error_prefix("Error: "):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
    assert caught.value.code is Exit.DENIED
