"""Groups: members join, leave, crash and stall; requests are lost and duplicated; leaders change.

Invariants: no partition has two owners in one generation; generations and epochs only grow; an offset that
was reported as committed is committed, and nothing else is returned; no member commits as another.  And after
the faults end: every group becomes stable, all its partitions are owned, and a newly loaded shard has the
same state as the running one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.metadata.delta import Delta
from barnabas.metadata.features import METADATA_VERSION, metadata_version_named
from barnabas.protocol.records.metadata import (
    FeatureLevelRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.simulated.world import InvariantError, World
from barnabas.testing.simulation.coordinators.classic_consumer import ClassicConsumer
from barnabas.testing.simulation.coordinators.consumer_protocol import ConsumerProtocolConsumer
from barnabas.testing.simulation.coordinators.coordinator_log import ReplicatedLog
from barnabas.testing.simulation.coordinators.group_book import Book
from barnabas.testing.simulation.coordinators.loners import Loner, TransactionalCommitter
from barnabas.testing.simulation.coordinators.members import ShardScene
from barnabas.testing.simulation.coordinators.shard_host import (
    Cluster,
    Faults,
    Host,
    Wire,
    WireFaults,
    no_silent_errors,
)
from barnabas.testing.simulation.registry import scenario

TROUBLED_NS = 4_000 * NS_PER_MS
QUIET_NS = 20_000 * NS_PER_MS
MEAN_PAUSE_NS = 250 * NS_PER_MS
WORK_EVERY_NS = 150 * NS_PER_MS
MAX_MEMBERS = 4
ASSIGNORS = (None, "range", "uniform")
KEPT, SHORT_LIVED = "kept", "short-lived"
# Short sessions, so that missing members are noticed soon.
OPTIONS = {
    "group.initial.rebalance.delay.ms": "50",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "1500",
    "offsets.retention.check.interval.ms": "700",
}

Member: TypeAlias = ClassicConsumer | ConsumerProtocolConsumer


class GroupsLife:
    """One shard with its groups, and faults."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = world.random_for("trouble")
        self.cluster = Cluster.of(OPTIONS)
        self._make_topics()
        lag_ns = (0, 5, 30)[self.random.integer(0, 2)] * NS_PER_MS
        self.log = ReplicatedLog(world, "groups", lag_ns)
        self.book = Book()
        self.log.on_commit = Faults.watch(world, self.book.take)
        self.host = Host(world, self.cluster, self.log, lambda: GroupMachine(0))
        self.wire = Wire(world, self._draw_faults())
        self.scene = ShardScene(world, self.cluster, self.host, self.wire, self.book)
        self.members: list[Member] = []
        self.others: list[Loner | TransactionalCommitter] = []
        self.is_troubled = True
        self._number = 0
        # In some worlds members of groups of KIP-848 subscribe by patterns, or want an assignor of their own.
        choices = world.random_for("subscriptions")
        self._choices = choices if choices.integer(0, 3) == 0 else None
        self._troubles = self._draw_troubles()
        self._make_groups()
        world.agenda.after(WORK_EVERY_NS, self._work)
        world.agenda.after(self.random.integer(0, 2 * MEAN_PAUSE_NS), self._trouble)

    # The cluster

    def _make_topics(self) -> None:
        delta = Delta(self.cluster.image)
        level = metadata_version_named("4.1-IV1").level
        delta.replay(FeatureLevelRecord(name=METADATA_VERSION, feature_level=level))
        self.cluster.image = delta.image
        for number, name in enumerate((KEPT, SHORT_LIVED), 1):
            topic_id = Uuid.from_words(9, number)
            partitions = range(self.random.integer(1, 5))
            self._change([TopicRecord(name=name, topic_id=topic_id), *_partitions(topic_id, partitions)])

    def _change(self, records: list[Message]) -> None:
        """Apply records of the controller to the metadata, and to the shard if it is active."""
        delta = Delta(self.cluster.image)
        for record in records:
            delta.replay(record)
        delta.at(self.cluster.image.offset + len(records), 1, 0)
        self.cluster.image = delta.image
        if hasattr(self, "host"):
            self.host.metadata_changed(delta)

    def _draw_faults(self) -> WireFaults:
        """Swarm testing: a world in which everything fails all the time never gets far enough."""
        lost, twice, slow = (
            self.random.fraction() * limit * self.random.integer(0, 1) for limit in (0.15, 0.2, 0.1)
        )
        return WireFaults(lost, twice, slow)

    def _draw_troubles(self) -> list[Callable[[], None]]:
        known = [
            self._fail_over,
            self._crash_member,
            self._leave_member,
            self._add_member,
            self._pause_member,
            self._refuse_appends,
            self._add_partitions,
            self._delete_topic,
        ]
        return [trouble for trouble in known if self.random.fraction() < 0.7] or known

    def _make_groups(self) -> None:
        for number in range(self.random.integer(1, 2)):
            group_id = f"{('classic', 'modern', 'mixed')[self.random.integer(0, 2)]}-{number}"
            for _ in range(self.random.integer(1, MAX_MEMBERS)):
                self._add_to(group_id)
            if self.random.integer(0, 1):
                self.others.append(
                    TransactionalCommitter(self.scene, group_id, f"tx-{number}", [KEPT, SHORT_LIVED])
                )
        self.others.append(Loner(self.scene, "alone", "loner", [KEPT, SHORT_LIVED]))

    def _add_to(self, group_id: str) -> None:
        self._number += 1
        topics = [KEPT, SHORT_LIVED] if self.random.integer(0, 1) else [KEPT]
        kind = group_id.partition("-")[0]
        if kind == "mixed":
            kind = ("classic", "modern")[self.random.integer(0, 1)]
        name = f"m{self._number}"
        if kind == "modern":
            by_pattern = self._choices is not None and self._choices.integer(0, 1) == 1
            assignor = None if self._choices is None else ASSIGNORS[self._choices.integer(0, 2)]
            self.members.append(
                ConsumerProtocolConsumer(
                    self.scene, group_id, name, topics, by_pattern=by_pattern, assignor=assignor
                )
            )
            return
        is_static = self.random.integer(0, 3) == 0
        self.members.append(
            ClassicConsumer(self.scene, group_id, name, topics, f"i{self._number}" if is_static else None)
        )

    # Work and trouble

    def alive(self) -> list[Member]:
        return [member for member in self.members if member.is_alive]

    def _work(self) -> None:
        for client in [*self.alive(), *self.others]:
            if self.random.integer(0, 2) == 0:
                client.work()
            if self.random.integer(0, 3) == 0:
                topics = [[KEPT], [KEPT, SHORT_LIVED], None][self.random.integer(0, 2)]
                client.fetch(topics, stable=self.random.integer(0, 1) == 1)
        self.world.agenda.after(WORK_EVERY_NS, self._work)

    def _trouble(self) -> None:
        if self.is_troubled:
            self._troubles[self.random.integer(0, len(self._troubles) - 1)]()
            self.world.agenda.after(self.random.integer(1, 2 * MEAN_PAUSE_NS), self._trouble)

    def _fail_over(self) -> None:
        self.host.fail_over(
            orderly=self.random.integer(0, 1) == 1,
            compact=self.random.integer(0, 1) == 1,
            down_ns=self.random.integer(0, 600 * NS_PER_MS),
        )

    def _one_alive(self) -> Member | None:
        alive = self.alive()
        return alive[self.random.integer(0, len(alive) - 1)] if alive else None

    def _crash_member(self) -> None:
        member = self._one_alive()
        if member is not None:
            member.crash()

    def _leave_member(self) -> None:
        member = self._one_alive()
        if member is not None:
            member.leave()

    def _add_member(self) -> None:
        groups = sorted({member.group_id for member in self.members})
        group_id = groups[self.random.integer(0, len(groups) - 1)]
        if sum(member.group_id == group_id for member in self.alive()) < MAX_MEMBERS:
            self._add_to(group_id)

    def _pause_member(self) -> None:
        member = self._one_alive()
        if member is not None:
            member.pause(self.random.integer(0, 3_000 * NS_PER_MS))

    def _refuse_appends(self) -> None:
        self.log.refuses = 0.5
        self.world.agenda.after(self.random.integer(0, 300 * NS_PER_MS), self._take_appends)

    def _take_appends(self) -> None:
        self.log.refuses = 0.0

    def _add_partitions(self) -> None:
        topic = self.cluster.image.topic_named(KEPT)
        assert topic is not None, "it is kept"
        count = len(topic.partitions)
        if count < 6:
            self._change(_partitions(topic.id, range(count, count + 1)))

    def _delete_topic(self) -> None:
        """It is created again under the same name; its offsets must not reappear."""
        topic = self.cluster.image.topic_named(SHORT_LIVED)
        assert topic is not None, "it comes again at once"
        fresh = Uuid.from_words(9, topic.id.least_significant + 2)
        count = len(topic.partitions)
        self._change([RemoveTopicRecord(topic_id=topic.id)])
        self._change([TopicRecord(name=SHORT_LIVED, topic_id=fresh), *_partitions(fresh, range(count))])

    # The end

    def end_well(self) -> None:
        """No more faults: the groups must become stable, and their state must be in the log."""
        self.is_troubled = False
        self.wire.faults = WireFaults()
        self._take_appends()
        self._settle()
        counts = {member: member.commits_confirmed for member in self.alive()}
        self.world.run(
            QUIET_NS, until=lambda: all(m.commits_confirmed > counts[m] or not m.owned for m in counts)
        )
        idle = [member for member in counts if member.commits_confirmed == counts[member] and member.owned]
        if idle:
            raise InvariantError(f"members own partitions and cannot commit: {idle}")
        # The session of a member that was slow at first may have expired since.
        self._settle()
        self._check_reload()

    def _settle(self) -> None:
        self.world.run(QUIET_NS, until=self._is_settled)
        if not self._is_settled():
            raise InvariantError(f"not settled: {[self._state_of(group_id) for group_id in self._groups()]}")

    def _groups(self) -> list[str]:
        return sorted({member.group_id for member in self.alive()})

    def _is_settled(self) -> bool:
        machine = self.host.machine
        return machine is not None and all(self._is_group_settled(machine, name) for name in self._groups())

    def _is_group_settled(self, machine: GroupMachine, group_id: str) -> bool:
        members = [member for member in self.alive() if member.group_id == group_id]
        group = machine.table.get(group_id)
        is_stable = group is not None and (group.state_name, group.member_count) == ("Stable", len(members))
        if not is_stable or not all(member.is_stable for member in members):
            return False
        owned = [partition for member in members for partition in self._owned(member)]
        topics = {topic for member in members for topic in member.topics}
        expected = [(topic, index) for topic in topics for index in self.scene.partitions_of(topic)]
        return sorted(owned) == sorted(expected)

    def _owned(self, member: Member) -> list[tuple[str, int]]:
        if isinstance(member, ClassicConsumer):
            return list(member.owned)
        named = [(self.scene.topic_of(topic_id), index) for topic_id, index in member.owned]
        return [(topic, index) for topic, index in named if topic is not None]

    def _state_of(self, group_id: str) -> str:
        machine = self.host.machine
        group = None if machine is None else machine.table.get(group_id)
        members = [
            f"{member.name} {'stable' if member.is_stable else 'unsettled'} {sorted(self._owned(member))}"
            for member in self.alive()
            if member.group_id == group_id
        ]
        return f"{group_id} is {group and group.state_name}: {'; '.join(members)}"

    def _check_reload(self) -> None:
        """A newly loaded shard has the same offsets, and the same members of settled groups."""
        live, reloaded = self.host.machine, self.host.reloaded()
        assert live is not None, "all is well"
        for running, loaded, kind in (
            (_offsets(live), _offsets(reloaded), "offsets"),
            (
                sorted(live.offsets.store.pending()),
                sorted(reloaded.offsets.store.pending()),
                "pending offsets",
            ),
            (self._settled(live), self._settled(reloaded), "groups"),
        ):
            if running != loaded:
                raise InvariantError(f"a newly loaded shard has other {kind}: {loaded}, not {running}")

    def _settled(self, machine: GroupMachine) -> dict[str, tuple[str, int]]:
        groups = [machine.table.get(group_id) for group_id in self._groups()]
        return {group.group_id: (group.kind, group.member_count) for group in groups if group is not None}


def _offsets(machine: GroupMachine) -> dict[tuple[str, str, int], bytes]:
    store = machine.offsets.store
    return {
        (group, topic, partition): value
        for group in store.groups()
        for topic, partitions in store.of_group(group).items()
        for partition, value in partitions.items()
    }


def _partitions(topic_id: Uuid, numbers: range) -> list[Message]:
    return [
        PartitionRecord(
            topic_id=topic_id,
            partition_id=number,
            replicas=[1],
            isr=[1],
            removing_replicas=[],
            adding_replicas=[],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=[ZERO_UUID],
        )
        for number in numbers
    ]


@scenario("coordinator-groups")
def coordinator_groups(world: World) -> None:
    """Groups keep their guarantees, whatever happens to their members, the network and the coordinator."""
    with no_silent_errors():
        life = GroupsLife(world)
        world.run(TROUBLED_NS)
        life.end_well()
