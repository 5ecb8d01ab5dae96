"""The client library: `Producer`, `Consumer` and `Admin`, asyncio first; `barnabas.client.sync` has the same
for programs without a loop.

Names are imported when they are first asked for, so that a program pays only for what it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.topics import NewTopic
    from barnabas.client.model import (
        Node,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        TopicPartition,
        TopicPartitionReplica,
    )
    from barnabas.client.outcomes import Outcomes

__all__ = [
    "Admin",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Outcomes",
    "TopicPartition",
    "TopicPartitionReplica",
]

_HOMES = {
    "Admin": "admin.admin",
    "NewTopic": "admin.topics",
    "Outcomes": "outcomes",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"barnabas.client has no {name}")
    return getattr(import_module(f"barnabas.client.{_HOMES.get(name, 'model')}"), name)
