"""The interfaces of policies: restrictions set by the operator (KIP-108, KIP-133).

A policy is a callable that raises KafkaError(POLICY_VIOLATION, message) or returns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created, given either by counts or by an assignment; the other is None."""

    name: str
    partitions: int | None
    replication_factor: int | None
    assignments: Mapping[int, Sequence[int]] | None
    configs: Mapping[str, str | None]


class CreateTopicPolicy(Protocol):
    def __call__(self, topic: NewTopic, /) -> None: ...


class AlterConfigPolicy(Protocol):
    def __call__(self, resource_type: int, name: str, altered: Mapping[str, str | None], /) -> None: ...
