"""`cluster.faults`: everything that can go wrong, on demand.  Each is a context manager and ends with its
block."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from barnabas.base.errors import ErrorCode
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.timers import Due
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.names import TopicPartition
from barnabas.testing.kit.errors import KitError
from barnabas.testing.kit.faults.outages import Effect
from barnabas.testing.kit.faults.rules import ANY_API, Drop, Fault, api_name, error_code
from barnabas.testing.kit.node.nodes import ZOOKEEPER_ID
from barnabas.testing.kit.waiting import DEFAULT_TIMEOUT_S, wait_for

if TYPE_CHECKING:
    from barnabas.testing.kit.cluster import Cluster
    from barnabas.testing.kit.node.node import KitNode
    from barnabas.testing.kit.running import Running

ZOOKEEPER: Literal["zookeeper"] = "zookeeper"
REASON = "the test asks for it"


class Faults:
    """The faults of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @property
    def _running(self) -> Running:
        return self._cluster.running

    @property
    def active(self) -> list[Fault]:
        """Those that still strike."""
        return [fault for fault in self._running.faults.faults if not fault.is_spent]

    def clear(self) -> None:
        """Ends every fault of requests; outages of nodes go on."""
        self._running.call(self._running.faults.clear)

    def add(
        self,
        api: str,
        *,
        error: str | int | ErrorCode | None = None,
        delay: float = 0.0,
        drop: Drop | None = None,
        throttle: float = 0.0,
        hold: bool = False,
        after: bool = False,
        topic: str | None = None,
        partition: int | None = None,
        node: int | None = None,
        client_id: str | None = None,
        group: str | None = None,
        transactional_id: str | None = None,
        times: int | None = None,
        where: Callable[[Any], bool] | None = None,
    ) -> Fault:
        """Requests of an API (its name as in Produce; * for all) meet a fault.

        What happens: `error` answers with this error, instead of the request's work or, with `after`,
        although it was done; `delay` waits so many seconds first; `drop` closes the connection "before" or
        "after" the work; `hold` answers nothing until the fault ends; `throttle` tells the client to wait so
        many seconds.

        To whom: `topic` and `partition` (the other partitions of the request are served as usual), `node`,
        `client_id`, `group`, `transactional_id`, or `where`, which is given the request.  `times`: how often.
        """
        if error is None and drop is None and not (delay or throttle or hold):
            raise KitError("a fault does something: give error, delay, drop, hold or throttle")
        if drop not in (None, "before", "after"):
            raise KitError(f'drop is "before" or "after" the work, not {drop!r}')
        fault = Fault(
            api_name(api),
            error=None if error is None else error_code(error),
            delay_s=delay,
            drop=drop,
            throttle_ms=int(throttle * 1_000),
            hold=hold,
            after=after,
            topic=topic,
            partition=partition,
            node=None if node is None else self._running.node(node).id,
            client_id=client_id,
            group=group,
            transactional_id=transactional_id,
            times=times,
            where=where,
        )
        return self._install(fault)

    def error(self, api: str, error: str | int | ErrorCode, **what: Any) -> Fault:
        """The same as `add(api, error=error, …)`."""
        return self.add(api, error=error, **what)

    def _install(self, fault: Fault) -> Fault:
        running = self._running

        def remove(fault: Fault) -> None:
            if not running.is_over:
                running.call(partial(running.faults.remove, fault))

        fault.on_remove = remove
        running.call(partial(running.faults.add, fault))
        return fault

    # Networks -----------------------------------------------------------------------------------------------

    def partition(self, one: int | str, *others: int | Literal["zookeeper"]) -> Effect:
        """Nothing passes between a node and the others, or between a client (by its client id) and nodes.

        What is sent waits, and arrives at the end, as TCP sends it again.  Without `others`: all other nodes,
        and ZooKeeper; among others it is "zookeeper".
        """
        running = self._running
        if isinstance(one, str):
            return self._client_partition(one, [running.node(int(other)).id for other in others])
        first = running.node(one)
        chosen = others or self._all_but(first.id)
        ids = [running.node(other).id if isinstance(other, int) else ZOOKEEPER_ID for other in chosen]
        if ZOOKEEPER_ID in ids and running.ensemble is None:
            raise KitError('there is no ZooKeeper in this cluster: it has mode="kraft"')

        def change(action: Callable[[int, int], None]) -> None:
            for other in ids:
                action(first.id, other)

        running.call(lambda: change(running.nodes.cut))
        return Effect(
            f"node {one} is cut off from {', '.join(map(str, chosen))}",
            running,
            lambda: running.call(lambda: change(running.nodes.heal)),
        )

    def _all_but(self, node: int) -> list[int | Literal["zookeeper"]]:
        running = self._running
        others: list[int | Literal["zookeeper"]] = [other for other in running.nodes.by_id if other != node]
        return others if running.ensemble is None else [*others, ZOOKEEPER]

    def _client_partition(self, client_id: str, others: list[int]) -> Effect:
        stack = ExitStack()
        for node in others or [node.id for node in self._running.nodes.brokers]:
            stack.enter_context(self.add(ANY_API, hold=True, client_id=client_id, node=node))
        return Effect(f"the client {client_id} is cut off from brokers", self._running, stack.close)

    # Disks --------------------------------------------------------------------------------------------------

    def full_disk(self, node: int) -> Effect:
        """No write finds space in the node's log directory; its metadata are elsewhere.

        Returns when the node knows it.
        """
        running, disk = self._running, self._running.node(node).disk

        def fill() -> None:
            disk.is_full = True
            replicas = running.node(node).broker.replicas
            for path in list(replicas.storage.manager.live):
                replicas.storage.manager.full.add(path, f"{path}: no space is left on the device")

        def empty() -> None:
            disk.is_full = False

        running.call(fill)
        return Effect(f"the disk of node {node} is full", running, empty)

    def slow_disk(self, node: int, seconds: float) -> Effect:
        """Each sync takes so long, and so does each write and read of records."""
        running, disk = self._running, self._running.node(node).disk
        disk.sync_delay_s = seconds
        stack = ExitStack()
        for api in ("Produce", "Fetch"):
            stack.enter_context(self.add(api, delay=seconds, node=node))

        def undo() -> None:
            disk.sync_delay_s = 0.0
            stack.close()

        return Effect(f"the disk of node {node} takes {seconds:g} s", running, undo)

    # Replicas -----------------------------------------------------------------------------------------------

    def shrink_isr(self, topic: str, partition: int, node: int, timeout: float = DEFAULT_TIMEOUT_S) -> Effect:
        """The follower on this node leaves the ISR, and comes back when the fault ends.  Returns when it has
        left."""
        leader = self._cluster.leader(topic, partition)
        if leader == node:
            raise KitError(f"node {node} leads {topic}-{partition}: choose one of its followers")
        held = Fault("Fetch", hold=True, node=leader, replica=self._running.node(node).id)
        self._install(held)
        name = TopicPartition(topic, partition)

        def has_left() -> bool:
            if node not in self._cluster.isr(topic, partition):
                return True
            self._running.call(lambda: _propose_removing(self._running.node(leader), name, node))
            return False

        wait_for(has_left, timeout, what=f"broker {node} is still in the ISR of {topic}-{partition}")
        return Effect(f"broker {node} is out of the ISR of {topic}-{partition}", self._running, held.remove)

    # Coordinators -------------------------------------------------------------------------------------------

    def rebalance(self, group: str) -> None:
        """The group rebalances without need; in a group of the consumer protocol each member is fenced and
        joins again."""
        self._running.finish(lambda: self._rebalance(group))

    def _rebalance(self, group_id: str) -> Promise[None]:
        from barnabas.coordinator.group.consumer.group import ConsumerGroup

        broker = self.coordinator_of(group_id, is_group=True).broker
        partition = broker.groups.partition_for(group_id)
        machine = next(each for each in broker.groups.machines() if each.partition == partition)
        group = machine.table.get(group_id)
        if group is None or group.is_empty:
            raise KitError(f"the group {group_id} has no members that could rebalance")
        if not isinstance(group, ConsumerGroup):
            decide = machine.classic.rebalances.force(group_id, REASON)
            return broker.groups.submit(group_id, partial(_decide, decide))
        done: Promise[None] = Promise.of(None)
        for member_id in list(group.members):
            expire = machine.consumer.expire_member(group_id, member_id, REASON)
            done = broker.groups.submit(group_id, partial(_decide, expire))
        return done

    def expire_transaction(self, transactional_id: str) -> None:
        """The coordinator aborts the open transaction as timed out; its producer is fenced."""
        broker = self._running.call(lambda: self.coordinator_of(transactional_id, is_group=False).broker)
        if not self._running.finish(lambda: broker.transactions.time_out(transactional_id)):
            raise KitError(f"the transactional id {transactional_id} has no open transaction")

    def coordinator_of(self, key: str, *, is_group: bool) -> KitNode:
        """Called on the reactor."""
        for node in self._running.nodes.brokers:
            if not node.is_up:
                continue
            shards = node.broker.groups if is_group else node.broker.transactions.shards
            if shards.partition_for(key) in shards.active():
                return node
        raise KitError(f"no broker coordinates {key} at present")


def _propose_removing(leader: KitNode, name: TopicPartition, follower: int) -> None:
    replicas = leader.broker.replicas
    partition = replicas.partitions.get(name)
    if partition is not None and partition.propose_removing(follower):
        replicas.isr_changes.submit(partition)


def _decide(due: Due, _: object, context: Context) -> Decision[None]:
    return due(context)
