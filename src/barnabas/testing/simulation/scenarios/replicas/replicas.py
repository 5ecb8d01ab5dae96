"""A few partitions on three or four brokers: replication under every fault, at many lives a second.

The replica manager, the fetchers, fetch sessions, the purgatory and the controller's decisions are those of
production; logs are in memory, and requests are single messages, which are lost, late and duplicated.
Brokers stop cleanly and uncleanly, are paused, have full disks, and are behind with the metadata.  What
may be lost is what may be lost in `replication`, which runs whole brokers on simulated disks: SYNCED, CACHED
and ELIGIBLE are the same, and so are unclean elections.  Two controllers take turns, and the old one goes on
for a while.  Checked after every event: see `testing/simulation/replicas/partition_checker.py`; after the
faults: all is acknowledged that is written, replicas are in sync, their logs and leader epochs the same.
"""

from __future__ import annotations

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.simulated.world import World
from barnabas.testing.simulation.registry import scenario
from barnabas.testing.simulation.replicas.partition_cluster import (
    BrokersFirst,
    PartitionCluster,
    errors_count,
)

TROUBLED_NS = 4_000 * NS_PER_MS


@scenario("replicas")
def replicas(world: World) -> None:
    """Replicas lose nothing that was exposed or acknowledged, whatever messages and brokers are lost."""
    with errors_count(world):
        cluster = PartitionCluster(world)
        cluster.start()
        nemesis = BrokersFirst(cluster)
        cluster.disturb()
        world.run(TROUBLED_NS)
        nemesis.stop()
        cluster.end_well()
