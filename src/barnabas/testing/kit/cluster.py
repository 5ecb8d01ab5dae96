"""A cluster in this process: brokers on one reactor thread, in memory or in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Literal, Self

from barnabas.config.option import Mode
from barnabas.metadata.topics import Partition
from barnabas.runtime.clock import ShiftedClock
from barnabas.runtime.disk.disk import Disk
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.testing.kit.clock import ClusterClock
from barnabas.testing.kit.errors import KitError
from barnabas.testing.kit.faults.faults import Faults
from barnabas.testing.kit.faults.outages import Outage
from barnabas.testing.kit.node.node import KitNode, State
from barnabas.testing.kit.node.nodes import Layout
from barnabas.testing.kit.profile import HOST, options_for
from barnabas.testing.kit.running import Running
from barnabas.testing.kit.snapshots import Snapshot
from barnabas.testing.kit.topics.topics import Topics
from barnabas.testing.kit.waiting import wait_for

START_PATIENCE_S = 60.0
STOP_PATIENCE_S = 60.0

ModeName = Literal["kraft", "zookeeper"]
_MODES = {"kraft": Mode.KRAFT, "zookeeper": Mode.ZOOKEEPER}


class Cluster(Topics):
    """Brokers for tests.  `options` are those of a broker's configuration, for all of them.

    with Cluster(3) as cluster:
        topic = cluster.topic("orders", partitions=3)
        topic.send({"id": 1}, key="a")
        run_my_application(cluster.bootstrap_servers)

    Without `folder` everything is in memory; a folder must be empty, and stays.  Brokers have the ids 1, 2, 3
    and so on, from `first_id`; the controllers are nodes of their own.  Brokers listen on free ports, or on
    `port` and those that follow.  `faults` are what can go wrong, `clock` is its time.

    With `mode="zookeeper"` one of the brokers is the controller, and the ZooKeeper that keeps the metadata is
    in this process too.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        mode: ModeName = "kraft",
        controllers: int = 1,
        first_id: int = 1,
        port: int = 0,
        folder: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster has at least one broker, not {brokers}")
        if controllers < 1:
            raise ValueError(f"a cluster has at least one controller, not {controllers}")
        if mode not in _MODES:
            raise ValueError(f'the mode of a cluster is "kraft" or "zookeeper", not {mode!r}')
        if mode == "zookeeper" and controllers != 1:
            raise ValueError(
                "in ZooKeeper mode one of the brokers is the controller: leave out controllers=…"
            )
        super().__init__()
        self._given_folder = folder
        self._layout = Layout(brokers, controllers, first_id, _MODES[mode])
        self._first_port = port
        self._given_options = dict(options or {})
        self._running: Running | None = None
        self.faults = Faults(self)
        self.clock = ClusterClock(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        """As clients want them: host:port, separated by commas."""
        return ",".join(f"{HOST}:{node.port}" for node in self.running.nodes.brokers)

    @property
    def running(self) -> Running:
        """For the other parts of the kit."""
        if self._running is None:
            raise RuntimeError("the cluster is not running: use it as a context manager, or call start()")
        return self._running

    def set_option(self, name: str, value: object) -> None:
        """An option of all brokers, before they are started."""
        if self._running is not None:
            raise KitError("the cluster is running: its options are set before it starts")
        self._given_options[name] = value

    def start(self) -> None:
        """Returns when all brokers serve clients."""
        if self._running is not None:
            raise RuntimeError("the cluster is running already")
        clock = ShiftedClock()
        disk, folder = self._place(clock)
        options = options_for(self._layout.brokers, self._given_options, self._layout.mode)
        self._running = Running(clock, disk, folder, self._layout, options)
        if self._first_port:
            for number, node in enumerate(self._running.nodes.brokers):
                node.port = self._first_port + number
        try:
            self._running.finish(self._running.nodes.start, START_PATIENCE_S)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stops the brokers; what is in memory is gone."""
        running, self._running = self._running, None
        if running is not None:
            self.close_clients()
            running.stop()

    # What is where -----------------------------------------------------------------------------------------

    @property
    def brokers(self) -> list[int]:
        """Their ids."""
        return [node.id for node in self.running.nodes.brokers]

    @property
    def controller(self) -> int:
        """The id of the active controller."""
        found = wait_for(self._active_controller, what="there is no active controller")
        assert found is not None, "it was waited for"
        return found.id

    def _active_controller(self) -> KitNode | None:
        return self.running.call(lambda: self.running.nodes.active_controller)

    def leader(self, topic: str, partition: int = 0) -> int:
        """The broker that leads a partition; raises WaitTimeoutError if none does for some time."""
        found = wait_for(
            lambda: [state for state in [self._partition(topic, partition)] if state.leader >= 0],
            what=f"{topic}-{partition} has no leader",
            why=lambda: "; ".join(self.interventions()) or "no replica of its ISR is alive",
        )
        return found[0].leader

    def isr(self, topic: str, partition: int = 0) -> list[int]:
        """The brokers whose replicas are in sync."""
        return list(self._partition(topic, partition).isr)

    def coordinator(self, *, group: str | None = None, transactional_id: str | None = None) -> int:
        """The broker that coordinates a group, or a transactional id."""
        if (group is None) == (transactional_id is None):
            raise KitError("give a group or a transactional_id")
        key = group if group is not None else transactional_id
        assert key is not None
        return self.running.call(lambda: self.faults.coordinator_of(key, is_group=group is not None).id)

    def _partition(self, topic: str, partition: int) -> Partition:
        return self.running.call(lambda: _partition_of(self.running, topic, partition))

    # What happens to nodes ---------------------------------------------------------------------------------

    def kill(self, node: int, *, fence: bool = True) -> Outage:
        """As by SIGKILL: connections break, and what was not on the disk is lost.

        The controller learns of it at once; with `fence=False` when the broker's session expires.  Ends with
        `restart`.
        """
        running, killed = self.running, self._up(node)

        def kill() -> None:
            killed.kill()
            if fence:
                running.nodes.fence(node)

        running.call(kill)
        return Outage(f"node {node} is killed", running, node, lambda: self._bring_back(node))

    def shut_down(self, node: int) -> Outage:
        """As by SIGTERM: its leaderships are moved away first.  Ends with `restart`."""
        running, stopped = self.running, self._up(node)
        running.finish(lambda: stopped.stop(hand_over=True), STOP_PATIENCE_S)
        return Outage(f"node {node} is stopped", running, node, lambda: self._bring_back(node))

    def pause(self, node: int, *, fence: bool = False) -> Outage:
        """As by SIGSTOP: its connections stay open, and nothing happens.

        The controller learns of it when the broker's session expires; with `fence` at once.
        """
        running, paused = self.running, self._up(node)

        def pause() -> None:
            paused.pause()
            if fence:
                running.nodes.fence(node)

        running.call(pause)
        return Outage(f"node {node} is paused", running, node, lambda: running.call(paused.resume))

    def restart(self, node: int) -> None:
        """Starts a node that was killed or stopped, from its files; returns when it serves."""
        running, restarted = self.running, self.running.node(node)
        if restarted.is_up:
            raise KitError(f"node {node} is {restarted.state.value}")
        for effect in list(running.effects):
            if isinstance(effect, Outage) and effect.node_id == node:
                del running.effects[effect]
        running.finish(lambda: running.nodes.start_node(restarted), START_PATIENCE_S)

    def _bring_back(self, node: int) -> None:
        """At the end of an outage; the test may have restarted it already."""
        if not self.running.node(node).is_up:
            self.restart(node)

    def elect(self, topic: str, partition: int = 0, leader: int | None = None) -> int:
        """Another replica of the ISR leads the partition from now on, this one if it is given; returns it."""
        from barnabas.client import TopicPartition
        from barnabas.client.admin.reassignments import ElectionType

        state = self._partition(topic, partition)
        others = [broker for broker in state.isr if broker != state.leader]
        if leader is None and not others:
            raise KitError(f"{topic}-{partition} has no other replica in its ISR: {list(state.isr)}")
        chosen = others[0] if leader is None else leader
        if chosen not in state.isr:
            raise KitError(f"broker {chosen} is not in the ISR of {topic}-{partition}: {list(state.isr)}")
        place = TopicPartition(topic, partition)
        order = [chosen, *(broker for broker in state.replicas if broker != chosen)]
        self.admin.alter_partition_reassignments({place: order}).raise_first()
        # Unless it leads already.
        self.admin.elect_leaders(ElectionType.PREFERRED, [place])
        wait_for(
            lambda: self.running.call(lambda: _is_led_by(self.running, topic, partition, chosen)),
            what=f"broker {chosen} does not lead {topic}-{partition}",
            why=lambda: "; ".join(self.interventions()) or f"the ISR is {self.isr(topic, partition)}",
        )
        return chosen

    def snapshot(self) -> Snapshot:
        """Everything that is in the cluster now: topics, records, offsets, transactions.  Only in memory."""
        return Snapshot.of(self.running)

    def restore(self, snapshot: Snapshot) -> None:
        """The cluster becomes as it was, on the same ports; clients have to connect again."""
        self.close_clients()
        snapshot.restore(self.running)

    def run_retention(self) -> None:
        """Every broker deletes what its topics' retention allows, now; returns when it is done."""
        running = self.running
        for node in running.nodes.brokers:
            if node.state is State.RUNNING:
                running.finish(node.broker.replicas.storage.retain_now)

    def is_known(self, name: str) -> bool:
        """Whether all brokers that run know the topic."""
        nodes = self.running.nodes
        return self.running.call(
            lambda: all(
                node.broker.image.topic_named(name) is not None
                for node in nodes.brokers
                if node.state is State.RUNNING
            )
        )

    def interventions(self) -> list[str]:
        """What the kit does to the cluster at present, in words."""
        if self._running is None:
            return ["the cluster is not running"]
        return [*map(str, self._running.effects), *(str(fault) for fault in self.faults.active)]

    def _up(self, node: int) -> KitNode:
        found = self.running.node(node)
        if not found.is_up:
            raise KitError(f"node {node} is {found.state.value} already")
        return found

    def _place(self, clock: ShiftedClock) -> tuple[Disk, str]:
        """The disk, and an empty folder on it."""
        if self._given_folder is None:
            return MemoryDisk(clock=clock), "/cluster"
        disk, folder = FolderDisk(), self._given_folder
        if disk.exists(folder) and disk.names(folder):
            raise ValueError(f"{folder} is not empty: give a new folder")
        return disk, folder


def _partition_of(running: Running, topic: str, partition: int) -> Partition:
    """As the active controller knows it, or a broker while there is none."""
    node = running.nodes.active_controller or next(each for each in running.nodes.brokers if each.is_up)
    found = node.broker.metadata.image.topic_named(topic)
    if found is None or partition not in found.partitions:
        raise KitError(f"there is no partition {topic}-{partition}")
    return found.partitions[partition]


def _is_led_by(running: Running, topic: str, partition: int, leader: int) -> bool:
    """Whether all brokers that run know it."""
    for node in running.nodes.brokers:
        if node.state is State.RUNNING:
            found = node.broker.image.topic_named(topic)
            if found is None or found.partitions[partition].leader != leader:
                return False
    return True
