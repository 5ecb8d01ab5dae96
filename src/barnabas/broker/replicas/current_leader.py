"""The current leader of a partition and its endpoint, for clients of the wrong broker (KIP-951)."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.broker.metadata.cluster_view import leader_endpoint
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.metadata.image import Image


class CurrentLeader(NamedTuple):
    """Leader id and epoch; -1 if unknown."""

    leader_id: int
    leader_epoch: int


class LeaderEndpoint(NamedTuple):
    """The endpoint of a leader."""

    node_id: int
    host: str
    port: int
    rack: str | None


def current_leader(replicas: ReplicaManager, image: Image, topic: str, index: int) -> CurrentLeader:
    """Returns the leader; the local replica takes precedence, as it may be newer than the image."""
    hosted = replicas.partitions.get((topic, index))
    if hosted is not None and not hosted.is_offline:
        return CurrentLeader(hosted.leader, hosted.leader_epoch)
    known = image.topic_named(topic)
    state = None if known is None else known.partitions.get(index)
    return CurrentLeader(-1, -1) if state is None else CurrentLeader(state.leader, state.leader_epoch)


def live_leader(image: Image, leader_id: int, listener: str) -> LeaderEndpoint | None:
    """Returns the endpoint of an unfenced leader on this listener; None otherwise (KIP-951)."""
    broker = image.brokers.get(leader_id)
    endpoint = leader_endpoint(image, leader_id, listener)
    if broker is None or broker.fenced or endpoint is None:
        return None
    return LeaderEndpoint(leader_id, endpoint.host, endpoint.port, broker.rack)
