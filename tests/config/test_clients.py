"""Rules between the options of producers and consumers."""

from __future__ import annotations

import pytest

from barnabas.config import ConfigError
from barnabas.config.clients import consumer_settings, producer_settings

from .recorded import recorded

PRODUCER = {"key.serializer": bytes, "value.serializer": bytes}
CONSUMER = {"key.deserializer": bytes, "value.deserializer": bytes}


def test_clients_are_accepted_and_rejected_as_by_apache_kafka() -> None:
    read = {"producer": producer_settings, "consumer": consumer_settings}
    for case in recorded("rules")["clients"]:
        got = None
        try:
            read[case["scope"]](case["given"])
        except ConfigError as error:
            got = error.message
        assert got == case.get("ours", case["kafka"]), case["given"]


@pytest.mark.parametrize(
    ("given", "idempotent"),
    [
        ({}, True),
        ({"acks": "1"}, False),
        ({"acks": "-1"}, True),
        ({"retries": 0}, False),
        ({"acks": "0"}, False),
    ],
)
def test_idempotence_is_disabled_by_conflicting_options_unless_set(
    given: dict[str, object], idempotent: bool
) -> None:
    # M-F2: acks=-1 is all.
    settings = producer_settings(PRODUCER | given)
    assert settings["enable.idempotence"] is idempotent
    assert settings["acks"] == ("all" if given.get("acks") == "-1" else given.get("acks", "all"))


def test_the_delivery_timeout_is_raised_unless_set() -> None:
    assert producer_settings(PRODUCER | {"linger.ms": 200_000})["delivery.timeout.ms"] == 230_000
    assert producer_settings(PRODUCER)["delivery.timeout.ms"] == 120_000
    with pytest.raises(ConfigError, match=r"allowed: at least 30005"):
        producer_settings(PRODUCER | {"delivery.timeout.ms": 30_004})


def test_without_a_group_nothing_is_committed() -> None:
    assert consumer_settings(CONSUMER)["enable.auto.commit"] is False
    assert consumer_settings(CONSUMER | {"group.id": "g"})["enable.auto.commit"] is True
