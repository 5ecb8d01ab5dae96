"""All configs of a topic that is created, as the response to CreateTopics shows them (KIP-525).

Topics that are created one after another mostly have the same, and to put them together takes longer than
the rest of a decision.
"""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.config.layers import Layers
from barnabas.protocol.messages.create_topics import CreateTopicsResponse

# Topics with more different configs than this are looked up again.
MAX_DESCRIBED = 100

TopicConfigs = CreateTopicsResponse.CreatableTopicConfigs


class DescribedConfigs:
    """What was put together last, until the layers below a topic's own configs change."""

    def __init__(self) -> None:
        self._layers: Layers | None = None
        self._described: dict[tuple[tuple[str, str], ...], list[TopicConfigs]] = {}

    def of(self, layers: Layers, overrides: Sequence[tuple[str, str]]) -> list[TopicConfigs]:
        """The configs of a topic with these of its own."""
        if layers is not self._layers or len(self._described) >= MAX_DESCRIBED:
            self._layers = layers
            self._described.clear()
        key = tuple(overrides)
        if key not in self._described:
            self._described[key] = _effective_configs(layers, dict(key))
        return self._described[key]


def _effective_configs(layers: Layers, overrides: dict[str, str]) -> list[TopicConfigs]:
    return [
        TopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.sensitive,
        )
        for entry in layers.describe_topic(overrides)
    ]
