"""The client library: `Producer`, `Consumer` and `Admin` for asyncio, and `App` for programs made of
handlers; `barnabas.client.sync` has blocking versions of the clients.

Names are imported on first use, so a program pays only for what it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.batch.engine.consume import ConsumerRecord
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.topics import NewTopic
    from barnabas.client.consumer.consumer import Consumer
    from barnabas.client.consumer.subscription import RebalanceListener
    from barnabas.client.model import (
        ConsumerGroupMetadata,
        Node,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        TopicPartition,
        TopicPartitionReplica,
    )
    from barnabas.client.outcomes import Outcomes
    from barnabas.client.processing.app import App
    from barnabas.client.producer.delivery import Delivery, ProducerRecord, RecordMetadata
    from barnabas.client.producer.producer import Producer
    from barnabas.client.types.options import AdminOptions, ConsumerOptions, ProducerOptions
    from barnabas.client.types.serializers import Deserializer, Serializer
    from barnabas.client.types.statistics import ConsumerStatistics, ProducerStatistics

__all__ = [
    "Admin",
    "AdminOptions",
    "App",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerOptions",
    "ConsumerRecord",
    "ConsumerStatistics",
    "Delivery",
    "Deserializer",
    "NewTopic",
    "Node",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Outcomes",
    "Producer",
    "ProducerOptions",
    "ProducerRecord",
    "ProducerStatistics",
    "RebalanceListener",
    "RecordMetadata",
    "Serializer",
    "TopicPartition",
    "TopicPartitionReplica",
]

_MODULES = {
    "Admin": "client.admin.admin",
    "AdminOptions": "client.types.options",
    "App": "client.processing.app",
    "ConsumerOptions": "client.types.options",
    "Deserializer": "client.types.serializers",
    "ConsumerStatistics": "client.types.statistics",
    "ProducerStatistics": "client.types.statistics",
    "ProducerOptions": "client.types.options",
    "RebalanceListener": "client.consumer.subscription",
    "Serializer": "client.types.serializers",
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
    return getattr(import_module(f"barnabas.{_MODULES.get(name, 'client.model')}"), name)
