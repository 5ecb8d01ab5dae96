"""The test kit: clusters for tests of other people's code, simulation, checkers, planted bugs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.testing.kit.asynchronous import AsyncCluster, AsyncKafka
    from barnabas.testing.kit.clock import ClusterClock
    from barnabas.testing.kit.cluster import Cluster
    from barnabas.testing.kit.container import KafkaContainer
    from barnabas.testing.kit.errors import KitError, WaitTimeoutError
    from barnabas.testing.kit.pipelines import PipelineTest
    from barnabas.testing.kit.shared import Kafka
    from barnabas.testing.kit.topics.fixture_files import copy_topic
    from barnabas.testing.kit.topics.records import AvroCodec, BytesCodec, JsonCodec
    from barnabas.testing.kit.waiting import wait_for

__all__ = [
    "AsyncCluster",
    "AsyncKafka",
    "AvroCodec",
    "BytesCodec",
    "Cluster",
    "ClusterClock",
    "JsonCodec",
    "Kafka",
    "KafkaContainer",
    "KitError",
    "PipelineTest",
    "WaitTimeoutError",
    "copy_topic",
    "wait_for",
]
_MODULES = {
    "AsyncCluster": "asynchronous",
    "AsyncKafka": "asynchronous",
    "AvroCodec": "topics.records",
    "BytesCodec": "topics.records",
    "Cluster": "cluster",
    "ClusterClock": "clock",
    "JsonCodec": "topics.records",
    "Kafka": "shared",
    "KafkaContainer": "container",
    "KitError": "errors",
    "PipelineTest": "pipelines",
    "WaitTimeoutError": "errors",
    "copy_topic": "topics.fixture_files",
    "wait_for": "waiting",
}


def __getattr__(name: str) -> Any:
    """Imported on first use: the simulator needs none of it."""
    if name not in _MODULES:
        raise AttributeError(f"barnabas.testing has no {name}")
    return getattr(importlib.import_module(f"barnabas.testing.kit.{_MODULES[name]}"), name)
