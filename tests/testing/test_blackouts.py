"""Every machine of a cluster stops at once: what is kept is what docs/explanation/durability.md says (M-D8)."""

from __future__ import annotations

import pytest

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.simulated.world import InvariantError, World
from barnabas.testing.simulation.replicated_cluster.cluster import Durability, ReplicatedCluster, Shape

BUSY_NS = 1_500 * NS_PER_MS
SEED = 7


def stop_under_load(durability: Durability, *, nodes: int = 3, power_loss: bool = True) -> int:
    """How many batches had been acknowledged; all of them are there again, or InvariantError."""
    shape = Shape(controllers=3, combined=True, brokers=3, durability=durability, release="4.1")
    world = World(SEED)
    cluster = ReplicatedCluster(world, shape)
    cluster.await_topics()
    world.run(BUSY_NS)
    acknowledged = sum(sum(producer.acknowledged.values()) for producer in cluster.producers)
    for server in cluster.servers[:nodes]:
        server.node.crash(power_loss=power_loss)
    for server in cluster.servers[:nodes]:
        server.node.start()
    cluster.end_well()
    return acknowledged


def test_with_flush_messages_all_machines_may_lose_power_at_once() -> None:
    """cluster.md 27."""
    assert stop_under_load(Durability.SYNCED) > 20


def test_without_it_acknowledged_records_go_with_the_power_of_all_machines() -> None:
    """cluster.md 27: as in Apache Kafka; the page says so."""
    with pytest.raises(InvariantError, match=r"offsets up to \d+; \d+ are committed"):
        stop_under_load(Durability.CACHED)


def test_without_it_all_processes_may_be_killed_at_once() -> None:
    """cluster.md 27: the page cache outlives them."""
    assert stop_under_load(Durability.CACHED, power_loss=False) > 20


def test_without_it_one_machine_may_lose_power() -> None:
    """cluster.md 13, 27 (KIP-966): what it has lost is on the others, and one of them leads."""
    assert stop_under_load(Durability.ELIGIBLE, nodes=1) > 20
