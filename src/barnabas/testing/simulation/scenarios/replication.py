"""A replicated cluster: three or four brokers, one or three controllers, producers, consumers, an operator.

What may be lost, and what may not:
- Unclean elections are off.  A record below the high watermark of a leader is on every member of the ISR, and
  only members of the ISR, or of the ELR (KIP-966), are elected.  So what a leader has exposed, and with it
  all that was acknowledged with acks=all, outlives kills, pauses, partitions and clean stops, whatever
  min.insync.replicas is: a killed process leaves its writes in the page cache.  min.insync.replicas=2 says
  how many copies there are, which matters if a disk is lost; here no disk is.
- A power loss drops what was not synced.  A replica that comes back with less than it had, and still counts
  as a member of the ISR, can be elected and lose acknowledged records, as in Apache Kafka without the ELR.
  With it (from 4.1 on) a broker that registers after an unclean stop leaves ISR and ELR, unless it is the
  last.  So there are three kinds of seeds, and in none of them anything acknowledged is lost:
  SYNCED: with flush.messages=1 a replica syncs before it counts, as a leader and as a follower: every fault
  is injected, power loss of all nodes at once included (cluster.md 27).
  CACHED: with the default flush.messages nothing is synced in time: power losses and failed syncs are not
  injected.
  ELIGIBLE: the same with the ELR; machines lose power, one at a time.  While one has not registered since, no
  other broker is killed either: a kill is an unclean stop, too, and if all members of the ISR had one, the
  last known leader is elected, whatever it has lost.  min.insync.replicas is 2, as the ELR has members only
  below it.
- A full disk refuses writes: a leader's clients try again, a follower waits, and both go on when there is
  room.  Nothing is lost by it.
- Where unclean.leader.election.enable is true (`replication-unclean`), an unclean election may lose anything
  of its partition, and nothing of another; up to then, and from then on, the same holds as elsewhere.
- Records with acks=1 may be lost, with their leader, until they are below the high watermark.  They are never
  there twice, since that producer does not retry.

Checked after every event: see `testing/simulation/replicated_cluster/checker.py`; by the clients:
acknowledged values at their offsets, sequence numbers without gap or repeat, reads in order and only of what
is committed, latest offsets that do not fall (KIP-207).  After the faults: all replicas in sync and equal
byte for byte, epochs and producers too.
"""

from __future__ import annotations

from contextlib import ExitStack

from barnabas.base.units import NS_PER_MS
from barnabas.runtime.simulated.world import Node, World
from barnabas.testing.simulation.metadata_cluster.logged_errors import logged_errors
from barnabas.testing.simulation.nemesis import ALL_STRIKES, Nemesis, Strike
from barnabas.testing.simulation.registry import scenario
from barnabas.testing.simulation.replicated_cluster.cluster import Durability, ReplicatedCluster, Shape

TROUBLED_NS = 8_000 * NS_PER_MS
MAX_CALM_NS = 500 * NS_PER_MS
MEAN_STRIKE_PAUSE_NS = 500 * NS_PER_MS
MAX_DOWN_NS = 1_500 * NS_PER_MS
# What a page cache does not survive.
UNSYNCED_LOSS = frozenset({Strike.POWER_LOSS_IN_OPERATION, Strike.FAILED_SYNC})
REPLICATED_STRIKES = ALL_STRIKES | {Strike.FULL_DIRECTORY}
STRIKES = {
    Durability.SYNCED: REPLICATED_STRIKES,
    Durability.CACHED: REPLICATED_STRIKES - UNSYNCED_LOSS - {Strike.POWER_LOSS},
    Durability.ELIGIBLE: REPLICATED_STRIKES - UNSYNCED_LOSS - {Strike.FAILED_WRITE},
}


class _ServersFirst(Nemesis):
    """Hits servers most of the time."""

    def __init__(self, world: World, cluster: ReplicatedCluster) -> None:
        self._cluster = cluster
        self._servers = [server.node for server in cluster.servers]
        super().__init__(
            world,
            strikes=STRIKES[cluster.shape.durability],
            mean_pause_ns=MEAN_STRIKE_PAUSE_NS,
            max_down_ns=MAX_DOWN_NS,
        )

    def _hit(self, strike: Strike) -> None:
        is_stop = strike in (Strike.POWER_LOSS, Strike.KILL)
        if is_stop and self._cluster.shape.durability is Durability.ELIGIBLE:
            self._cluster.stop_uncleanly(self._node(), power_loss=strike is Strike.POWER_LOSS)
        else:
            super()._hit(strike)

    def _node(self) -> Node:
        if self._random.integer(0, 9) == 0:
            return super()._node()
        return self._servers[self._random.integer(0, len(self._servers) - 1)]


@scenario("replication")
def replication(world: World) -> None:
    """Replicated partitions lose nothing that was acknowledged, whatever happens to their brokers."""
    _play(world, Shape.draw(world.random))


@scenario("replication-transactions")
def replication_transactions(world: World) -> None:
    """Transactions over replicated partitions and coordinators are there whole, or not at all."""
    _play(world, Shape.draw(world.random, transactional=True))


@scenario("replication-groups")
def replication_groups(world: World) -> None:
    """Groups keep their generations, owners and offsets while their coordinator moves between brokers."""
    _play(world, Shape.draw(world.random, grouped=True))


@scenario("replication-unclean")
def replication_unclean(world: World) -> None:
    """Unclean elections lose records of their own partition only, and all replicas agree afterwards."""
    _play(world, Shape.draw(world.random, unclean=True))


@scenario("replication-racks")
def replication_racks(world: World) -> None:
    """Consumers that read from followers in their rack see what is committed, and nothing else."""
    _play(world, Shape.draw(world.random, transactional=True, racked=True))


def _play(world: World, shape: Shape) -> None:
    with ExitStack() as stack:
        cluster = ReplicatedCluster(world, shape)
        stack.enter_context(logged_errors(cluster))
        cluster.await_topics()
        world.run(world.random.integer(1, MAX_CALM_NS))
        nemesis = _ServersFirst(world, cluster)
        cluster.disturb()
        world.run(TROUBLED_NS)
        nemesis.stop()
        cluster.end_well()
