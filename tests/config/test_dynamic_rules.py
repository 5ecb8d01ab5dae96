"""How far a running broker's settings may change in one step; the messages are Apache Kafka's."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.config.errors import ConfigError
from barnabas.config.node.dynamic_rules import check_step
from barnabas.config.option import Mode
from barnabas.config.scopes import BROKER

STATIC = {"node.id": "1", "process.roles": "broker", "controller.quorum.voters": "9@localhost:9"}
POOL = "Dynamic thread count update validation failed for"
LOCAL_MS = "for configuration log.local.retention.ms"
LOCAL_BYTES = "for configuration log.local.retention.bytes"


def step(**changes: Any) -> None:
    """From the defaults to these; `_` stands for `.`."""
    wanted = {name.replace("_", "."): value for name, value in changes.items()}
    check_step(BROKER.parse(STATIC, Mode.KRAFT), BROKER.parse({**STATIC, **wanted}, Mode.KRAFT))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"num_io_threads": "17"},
            f"{POOL} num.io.threads=17, value should not be greater than double the current value 8",
        ),
        (
            {"num_io_threads": "3"},
            f"{POOL} num.io.threads=3, value should be at least half the current value 8",
        ),
        (
            {"listener_name_a_num_network_threads": "7"},
            f"{POOL} num.network.threads=7, value should not be greater than double the current value 3",
        ),
        (
            {"log_cleaner_threads": "3"},
            "Log cleaner threads cannot be increased to more than double the current value 1",
        ),
        (
            {"log_local_retention_ms": "20", "log_retention_ms": "10"},
            f"Invalid value 20 {LOCAL_MS}: Value must not be more than log.retention.ms property value: 10",
        ),
        (
            {"log_local_retention_bytes": "-1", "log_retention_bytes": "10"},
            f"Invalid value -1 {LOCAL_BYTES}: Value must not be -1 as log.retention.bytes value is set as 10.",
        ),
    ],
)
def test_steps_that_are_too_large(changes: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        step(**changes)
    assert caught.value.message == (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {message}"
        " for configuration Invalid dynamic configuration"
    )


def test_steps_that_are_accepted() -> None:
    step()
    step(num_io_threads="4", num_network_threads="6", log_cleaner_threads="2")
    step(log_local_retention_ms="20", log_retention_ms="-1")
    step(log_local_retention_ms="-2", log_retention_ms="10")
