"""The configs in responses to CreateTopics: put together once, and again when the layers below change."""

from __future__ import annotations

from barnabas.config.layers import Layers
from barnabas.controller.topics.described_configs import MAX_DESCRIBED, DescribedConfigs, TopicConfigs

STATIC = {"process.roles": "broker", "node.id": "1"}


def value_of(configs: list[TopicConfigs], name: str) -> str | None:
    return next(config.value for config in configs if config.name == name)


def test_topics_with_the_same_configs_share_them_until_the_layers_change() -> None:
    # M-A2
    described, layers = DescribedConfigs(), Layers(STATIC)
    plain = described.of(layers, [])
    assert described.of(layers, []) is plain
    assert value_of(plain, "retention.ms") == "604800000"
    assert value_of(described.of(layers, [("retention.ms", "5")]), "retention.ms") == "5"
    wide = layers.with_cluster({"log.retention.ms": "7"})
    assert value_of(described.of(wide, []), "retention.ms") == "7"
    assert value_of(described.of(layers, []), "retention.ms") == "604800000"


def test_they_do_not_pile_up() -> None:
    described, layers = DescribedConfigs(), Layers(STATIC)
    for number in range(2 * MAX_DESCRIBED + 1):
        assert value_of(described.of(layers, [("retention.ms", str(number))]), "retention.ms") == str(number)
    assert len(described._described) <= MAX_DESCRIBED
