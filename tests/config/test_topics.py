"""Topic options: their fallback to the broker's options, and the rules between them."""

from __future__ import annotations

import pytest

from barnabas.config import ConfigError
from barnabas.config.layers import Layers
from barnabas.config.topics import topic_settings

STATIC = {"process.roles": "broker", "node.id": "1"}


@pytest.mark.parametrize(
    ("static", "name", "value"),
    [
        ({"log.retention.hours": "1"}, "retention.ms", 3_600_000),
        ({"log.retention.minutes": "1", "log.retention.hours": "5"}, "retention.ms", 60_000),
        ({"log.retention.ms": "7", "log.retention.minutes": "1"}, "retention.ms", 7),
        ({"log.retention.hours": "-1"}, "retention.ms", -1),
        ({"log.retention.ms": "-9"}, "retention.ms", -1),
        ({"log.roll.hours": "2"}, "segment.ms", 7_200_000),
        ({"log.roll.jitter.hours": "1"}, "segment.jitter.ms", 3_600_000),
        ({"log.flush.scheduler.interval.ms": "9"}, "flush.ms", 9),
        ({"log.flush.interval.ms": "8", "log.flush.scheduler.interval.ms": "9"}, "flush.ms", 8),
        ({"log.cleanup.policy": "compact"}, "cleanup.policy", ("compact",)),
        ({"min.insync.replicas": "2"}, "min.insync.replicas", 2),
    ],
)
def test_topic_options_fall_back_to_the_brokers(static: dict[str, str], name: str, value: object) -> None:
    # M-J1: hours and minutes apply too.
    assert Layers(STATIC | static).topic({})[name] == value


def test_rules_between_a_topics_options() -> None:
    broker = Layers(STATIC).settings()
    with pytest.raises(ConfigError) as caught:
        topic_settings({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, broker)
    assert caught.value.message == (
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"
    )
    with pytest.raises(ConfigError, match="Unknown topic config name: foo"):
        topic_settings({"foo": "1"}, broker)
    with pytest.raises(ConfigError, match="Tiered Storage functionality is disabled in the broker"):
        topic_settings({"remote.storage.enable": "true"}, broker)
    tiered = Layers(STATIC | {"remote.log.storage.system.enable": "true"}).settings()
    assert topic_settings({"remote.storage.enable": "true"}, tiered)["remote.storage.enable"]
    with pytest.raises(ConfigError, match="unsupported for the compacted topics"):
        topic_settings({"remote.storage.enable": "true", "cleanup.policy": "compact"}, tiered)
