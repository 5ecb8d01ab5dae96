"""A membership by itself, beside a scripted coordinator: what its tests share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from barnabas.client.cluster import Cluster
from barnabas.client.consumer.membership.membership import AssignmentHandler
from barnabas.client.consumer.subscription import Subscription
from barnabas.client.options import consumer_options
from tests.client.scripted import TOPIC, ScriptedBroker

M = TypeVar("M")
QUICK: dict[str, Any] = {
    "group_id": "g",
    "retry_backoff_ms": 5,
    "retry_backoff_max_ms": 10,
    "reconnect_backoff_ms": 5,
}


class RecordedCalls:
    """A listener that remembers."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []

    def on_partitions_assigned(self, partitions: list[Any]) -> None:
        self.calls.append(("assigned", [partition.partition for partition in partitions]))

    def on_partitions_revoked(self, partitions: list[Any]) -> None:
        self.calls.append(("revoked", [partition.partition for partition in partitions]))

    def on_partitions_lost(self, partitions: list[Any]) -> None:
        self.calls.append(("lost", [partition.partition for partition in partitions]))


@asynccontextmanager
async def member(
    kind: Any, broker: ScriptedBroker, **options: Any
) -> AsyncIterator[tuple[Any, Subscription, RecordedCalls]]:
    """A subscribed membership of either protocol, with recorded assignment changes and listener calls."""
    settings = consumer_options(None, {"bootstrap_servers": broker.bootstrap, **QUICK, **options})
    cluster = Cluster(settings)
    subscription, calls = Subscription(), RecordedCalls()

    async def no_commit(_: Any) -> None:
        pass

    subscription.subscribe([TOPIC], listener=calls)
    cluster.wanted = {TOPIC}
    membership = kind(
        settings, cluster, subscription, AssignmentHandler(subscription, no_commit), lambda: None
    )
    try:
        yield membership, subscription, calls
    finally:
        await membership.close()
        await cluster.close()
