"""Who leads a partition now, as told to a client that asked the wrong broker (KIP-951).

What lives here: finding the leader and how to reach it on the listener that the client uses.  What may not:
the answers that carry it; Produce and Fetch have their own words for it.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.broker.metadata.cluster_view import leader_endpoint
from barnabas.broker.replicas.replica_manager import ReplicaManager
from barnabas.metadata.image import Image


class CurrentLeader(NamedTuple):
    """-1 where nothing is known."""

    leader_id: int
    leader_epoch: int


class LeaderEndpoint(NamedTuple):
    """Where a leader can be reached."""

    node_id: int
    host: str
    port: int
    rack: str | None


def current_leader(replicas: ReplicaManager, image: Image, topic: str, index: int) -> CurrentLeader:
    """What our own replica knows comes first: it may be newer than the image."""
    hosted = replicas.partitions.get((topic, index))
    if hosted is not None and not hosted.is_offline:
        return CurrentLeader(hosted.leader, hosted.leader_epoch)
    known = image.topic_named(topic)
    state = None if known is None else known.partitions.get(index)
    return CurrentLeader(-1, -1) if state is None else CurrentLeader(state.leader, state.leader_epoch)


def live_leader(image: Image, leader_id: int, listener: str) -> LeaderEndpoint | None:
    """Where a leader that is not fenced can be reached; others are not worth a client's way (KIP-951)."""
    broker = image.brokers.get(leader_id)
    endpoint = leader_endpoint(image, leader_id, listener)
    if broker is None or broker.fenced or endpoint is None:
        return None
    return LeaderEndpoint(leader_id, endpoint.host, endpoint.port, broker.rack)
