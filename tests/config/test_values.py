"""Text to value and back, against Apache Kafka's own results."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.config import ADMIN, BROKER, CONSUMER, PRODUCER, TOPIC, ConfigError, Mode
from barnabas.config.scopes import TABLES
from barnabas.config.values.values import HIDDEN, Password, format_double, format_value, parse_value

from .recorded import recorded

BY_SCOPE = {table.scope: table for table in TABLES}


@pytest.mark.parametrize("mode", Mode)
def test_values_are_parsed_and_rejected_as_by_apache_kafka(mode: Mode) -> None:
    # M-J1: thousands of texts for one option of each kind; the error is Kafka's own sentence.
    compared = 0
    for version, scope, name, text, ok, error in recorded("values"):
        if version != mode.value:
            continue
        table = BY_SCOPE[scope]
        option = table.option(name, mode)
        assert option is not None
        got: tuple[str | None, str | None]
        try:
            got = format_value(option, table.parse_one(name, text, mode)), None
        except ConfigError as refusal:
            got = None, refusal.message
        assert got == (ok, error), (name, text)
        compared += 1
    assert compared > 5_000


@pytest.mark.parametrize(
    ("name", "value", "line"),
    [
        (
            "segment.bytes",
            "1g",
            "Invalid value 1g for configuration segment.bytes: Not a number of type INT (allowed: INT, [1048576,...])",
        ),
        (
            "preallocate",
            "yes",
            (
                "Invalid value yes for configuration preallocate: Expected value to be either true or false "
                "(allowed: true, false)"
            ),
        ),
        (
            "cleanup.policy",
            "compact,drop",
            "Invalid value drop for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        (
            "min.cleanable.dirty.ratio",
            "1.5",
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
    ],
)
def test_an_error_names_key_value_and_allowed_values(name: str, value: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        TOPIC.parse({name: value})
    assert str(caught.value) == line
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("table", "name", "value", "why"),
    [
        (TOPIC, "segment.bytes", 1.5, "Expected value to be a 32-bit integer, but it was a float"),
        (TOPIC, "segment.bytes", True, "Expected value to be a 32-bit integer, but it was a bool"),
        (TOPIC, "segment.bytes", 2**31, "Not a number of type INT"),
        (TOPIC, "retention.ms", "1" * 5000, "Not a number of type LONG"),
        (TOPIC, "retention.ms", [], "Expected value to be a 64-bit integer (long), but it was a list"),
        (TOPIC, "preallocate", 1, "Expected value to be either true or false"),
        (TOPIC, "compression.type", 1, "Expected value to be a string, but it was a int"),
        (TOPIC, "cleanup.policy", 1, "Expected a comma separated list."),
        (TOPIC, "min.cleanable.dirty.ratio", "x", "Not a number of type DOUBLE"),
        (TOPIC, "min.cleanable.dirty.ratio", [], "Expected value to be a double, but it was a list"),
        (BROKER, "offsets.topic.replication.factor", "32768", "Not a number of type SHORT"),
        (BROKER, "offsets.topic.replication.factor", 1.0, "Expected value to be a 16-bit integer (short)"),
        (ADMIN, "sasl.jaas.config", 5, "Expected value to be a string, but it was a int"),
    ],
)
def test_values_of_the_wrong_type(table: Any, name: str, value: object, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        table.parse_one(name, value)
    assert f"for configuration {name}: {why}" in caught.value.message


def test_none_stays_none_and_a_range_refuses_it() -> None:
    option = TOPIC.option("compression.type")
    assert option is not None
    assert parse_value(option, None) is None
    with pytest.raises(ConfigError, match="Value must be non-null"):
        TOPIC.parse_one("segment.bytes", None)
    with pytest.raises(ConfigError, match="entry must be non null"):
        PRODUCER.parse_one("bootstrap.servers", None)
    with pytest.raises(ConfigError, match="String must be one of"):
        TOPIC.parse_one("compression.type", None)
    with pytest.raises(ConfigError, match=r"Invalid value null for configuration auto\.offset\.reset"):
        CONSUMER.parse_one("auto.offset.reset", None)
    with pytest.raises(ConfigError, match="case insensitive"):
        CONSUMER.parse_one("group.protocol", None)


def test_secrets_are_never_shown() -> None:
    settings = ADMIN.parse({"ssl.key.password": " geheim "})
    secret = settings["ssl.key.password"]
    assert secret == Password("geheim")
    assert len({secret, Password("geheim")}) == 1
    assert "geheim" not in repr(secret) + repr(settings) + str(secret)
    option = ADMIN.option("ssl.key.password")
    assert option is not None
    assert format_value(option, secret) == HIDDEN
    with pytest.raises(ConfigError) as caught:
        ADMIN.parse_one("ssl.key.password", 12345)
    assert "12345" not in str(caught.value)


def test_doubles_print_as_java_prints_them() -> None:
    for number, text in recorded("properties")["doubles"]:
        assert format_double(number) == text
    assert format_double(float("nan")) == "NaN"
    assert format_double(float("-inf")) == "-Infinity"


def test_classes_may_be_python_classes_or_names() -> None:
    option = PRODUCER.option("partitioner.class")
    assert option is not None
    assert (
        format_value(option, PRODUCER.parse_one("partitioner.class", Password))
        == "barnabas.config.values.values.Password"
    )
    assert format_value(option, PRODUCER.parse_one("partitioner.class", "a.B")) == "a.B"
    assert format_value(option, len) == repr(len)
