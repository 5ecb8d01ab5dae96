"""The client library: `Producer`, `Consumer` and `Admin`, asyncio first; `barnabas.client.sync` has the same
for programs without a loop.

Names are imported when they are first asked for, so that a program pays only for what it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.batch.engine.consume import ConsumerRecord
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.topics import NewTopic
    from barnabas.client.consumer.consumer import Consumer
    from barnabas.client.model import (
        ConsumerGroupMetadata,
        Node,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        TopicPartition,
        TopicPartitionReplica,
    )
    from barnabas.client.outcomes import Outcomes
    from barnabas.client.producer.delivery import Delivery, ProducerRecord, RecordMetadata
    from barnabas.client.producer.producer import Producer

__all__ = [
    "Admin",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "Delivery",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Outcomes",
    "Producer",
    "ProducerRecord",
    "RecordMetadata",
    "TopicPartition",
    "TopicPartitionReplica",
]

_HOMES = {
    "Admin": "client.admin.admin",
    "Consumer": "client.consumer.consumer",
    "ConsumerRecord": "batch.engine.consume",
    "Delivery": "client.producer.delivery",
    "NewTopic": "client.admin.topics",
    "Outcomes": "client.outcomes",
    "Producer": "client.producer.producer",
    "ProducerRecord": "client.producer.delivery",
    "RecordMetadata": "client.producer.delivery",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"barnabas.client has no {name}")
    return getattr(import_module(f"barnabas.{_HOMES.get(name, 'client.model')}"), name)
