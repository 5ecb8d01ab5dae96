"""Brokers and partitions of the image as clients see them: shared by Metadata, DescribeCluster and
DescribeTopicPartitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import LOST_DIR, MIGRATING_DIR, UNASSIGNED_DIR, Uuid
from barnabas.metadata.cluster import Broker, Endpoint
from barnabas.metadata.image import Image
from barnabas.metadata.topics import Partition
from barnabas.runtime.random import Random

NO_CONTROLLER = -1


def live_brokers(image: Image, listener: str) -> Iterator[tuple[Broker, Endpoint]]:
    """Returns the unfenced brokers with this listener, by id."""
    for broker_id in sorted(image.brokers):
        broker = image.brokers[broker_id]
        endpoint = broker.endpoint(listener)
        if endpoint is not None and not broker.fenced:
            yield broker, endpoint


def shown_controller(image: Image, random: Random) -> int:
    """Returns any live broker: clients cannot reach the controller, and every broker forwards to it."""
    alive = [broker_id for broker_id in sorted(image.brokers) if not image.brokers[broker_id].fenced]
    return alive[random.integer(0, len(alive) - 1)] if alive else NO_CONTROLLER


def leader_endpoint(image: Image, leader_id: int, listener: str) -> Endpoint | None:
    """Returns the leader's endpoint on this listener; None if there is no leader or no such listener.

    A fenced broker has one, as in Apache Kafka's Metadata; it is about to lose its partitions.
    """
    broker = image.brokers.get(leader_id)
    return None if broker is None else broker.endpoint(listener)


def no_leader_error(image: Image, partition: Partition) -> ErrorCode:
    """Returns the error if `leader_endpoint` is None."""
    known = partition.leader in image.brokers
    return ErrorCode.LISTENER_NOT_FOUND if known else ErrorCode.LEADER_NOT_AVAILABLE


def reachable(image: Image, replicas: Sequence[int], listener: str) -> list[int]:
    """Returns the replicas whose brokers are unfenced and have this listener."""
    live = []
    for replica in replicas:
        broker = image.brokers.get(replica)
        if broker is not None and not broker.fenced and broker.endpoint(listener) is not None:
            live.append(replica)
    return live


def offline_replicas(image: Image, partition: Partition, listener: str) -> list[int]:
    """Returns replicas whose broker is not live, has no such listener, or has lost the directory."""
    offline = []
    for replica, directory in zip(partition.replicas, partition.directories, strict=True):
        broker = image.brokers.get(replica)
        is_unreachable = broker is None or broker.fenced or broker.endpoint(listener) is None
        if is_unreachable or not _is_online(directory, broker.directories if broker is not None else ()):
            offline.append(replica)
    return offline


def _is_online(directory: Uuid, online: Sequence[Uuid]) -> bool:
    """A broker that registered no directories (before KIP-858) is assumed to have them all."""
    if directory in (UNASSIGNED_DIR, MIGRATING_DIR):
        return True
    return directory != LOST_DIR and (not online or directory in online)
