"""Bugs that zookeeper-controller must find: mistakes of elections, transactions, watches and requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from barnabas.broker.modes.zookeeper.controller import store as stores
from barnabas.broker.modes.zookeeper.controller.deletions import Deletions
from barnabas.broker.modes.zookeeper.controller.election import Election
from barnabas.broker.modes.zookeeper.controller.follow_ups import FollowUps
from barnabas.broker.modes.zookeeper.controller.outbound.queues import Outbound, _Queue
from barnabas.broker.modes.zookeeper.controller.store import ZooKeeperStore
from barnabas.broker.modes.zookeeper.controller.transactions import Epoch, Transaction
from barnabas.broker.modes.zookeeper.controller.watched_changes import WatchedChanges
from barnabas.broker.modes.zookeeper.controller.watching import Watching
from barnabas.metadata.delta import Delta
from barnabas.protocol.records.metadata import RegisterBrokerRecord
from barnabas.protocol.schema import Message
from barnabas.runtime.planted import patched
from barnabas.runtime.zookeeper.client import Operation, Znode, ZooKeeperError
from barnabas.testing.simulation.registry import planted

SCENARIO = "zookeeper-controller"
WITHIN_SEEDS = 150


@planted("zookeeper: the winner does not know its session", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def winner_watches_itself() -> Iterator[None]:
    """A victory whose answer was lost is taken for another's: the winner watches itself (KAFKA-13407)."""
    healthy = Election._found

    def found(self: Election, znode: Znode | None) -> None:
        if znode is not None:
            znode = Znode(znode.data, replace(znode.stat, ephemeral_owner=-1))
        healthy(self, znode)

    with patched(Election, "_found", found):
        yield


@planted("zookeeper: writes are not guarded", scenario=SCENARIO, first_seed=13, within_seeds=WITHIN_SEEDS)
def unguarded() -> Iterator[None]:
    """Transactions do not check /controller_epoch, so that a deposed controller goes on."""

    def guarded(self: Epoch, operation: Operation, *, may_exist: bool = False) -> Transaction:
        return Transaction((operation,), may_exist)

    with patched(Epoch, "guarded", guarded):
        yield


@planted("zookeeper: an epoch is used twice", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def same_epoch() -> Iterator[None]:
    """A new controller takes the epoch of the last one."""
    healthy = Election._stand

    def stand(self: Election, last: Epoch) -> None:
        healthy(self, Epoch(max(last.number - 1, 0), last.version))

    with patched(Election, "_stand", stand):
        yield


@planted("zookeeper: brokers are told what is not stored", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def told_before_stored() -> Iterator[None]:
    """Commits are reported, and told to brokers, when transactions are sent."""
    healthy = ZooKeeperStore._next_group

    def next_group(self: ZooKeeperStore, append: stores._Append) -> None:
        healthy(self, append)
        append.done = True

    with patched(ZooKeeperStore, "_next_group", next_group):
        yield


@planted("zookeeper: failures of transactions are ignored", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def ignores_failures() -> Iterator[None]:
    """A transaction that failed, or whose answer was lost, counts as done."""

    def ignored(self: ZooKeeperStore, generation: int, error: BaseException) -> None:
        if generation == self._generation and isinstance(error, ZooKeeperError):
            for append in self._queue:
                append.done = append.done or (append.started and not append.groups)
            self._advance_soon()

    with patched(ZooKeeperStore, "_group_failed", ignored):
        yield


@planted(
    "zookeeper: a broker that was away is not noticed",
    scenario=SCENARIO,
    first_seed=26,
    within_seeds=WITHIN_SEEDS,
)
def epoch_of_brokers_is_ignored() -> Iterator[None]:
    """A broker that registers again between two looks is taken for the same process."""
    healthy = WatchedChanges.brokers_found

    def brokers_found(self: WatchedChanges, brokers: list[RegisterBrokerRecord], present: set[int]) -> None:
        known = self._image.brokers
        same = [broker for broker in brokers if broker.broker_id not in known]
        healthy(self, same, present)

    with patched(WatchedChanges, "brokers_found", brokers_found):
        yield


@planted("zookeeper: a watch is set once", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def watched_once() -> Iterator[None]:
    """Changes while a znode is read are not read afterwards."""
    healthy = Watching._done

    def done(self: Watching, path: str) -> None:
        healthy(self, path)
        self._reading.add(path)

    with patched(Watching, "_done", done):
        yield


@planted("zookeeper: the dead are elected", scenario=SCENARIO, first_seed=52, within_seeds=WITHIN_SEEDS)
def dead_stay() -> Iterator[None]:
    """A new controller leaves dead brokers their leaderships."""
    healthy = FollowUps.decide

    def decide(self: FollowUps, decide: Callable[[], Sequence[Message]]) -> None:
        name = getattr(getattr(decide, "func", None), "__name__", "")
        if name not in ("leave_all_dead", "leave_partitions"):
            healthy(self, decide)

    with patched(FollowUps, "decide", decide):
        yield


@planted(
    "zookeeper: requests to brokers are not repeated",
    scenario=SCENARIO,
    first_seed=34,
    within_seeds=WITHIN_SEEDS,
)
def not_repeated() -> Iterator[None]:
    """A request that a broker has not answered is dropped."""
    healthy = _Queue._again

    def again(self: _Queue) -> None:
        if self._waiting:
            self._waiting.popleft()
        healthy(self)

    with patched(_Queue, "_again", again):
        yield


@planted("zookeeper: a new controller is silent", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def silent() -> Iterator[None]:
    """A broker that registers is told changes only, not what there is."""
    healthy = Outbound.publish

    def publish(self: Outbound, delta: Delta) -> None:
        registered = {broker_id for broker_id in delta.brokers if delta.before.brokers.get(broker_id) is None}
        if registered and delta.before.brokers:
            self._image = delta.image
            return
        healthy(self, delta)

    with patched(Outbound, "publish", publish):
        yield


@planted("zookeeper: deletions begun are not resumed", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def not_resumed() -> Iterator[None]:
    """When a broker is back, its replicas of a topic that is being deleted stay."""

    def brokers_gone(self: Deletions, broker_ids: Sequence[int]) -> None:
        for deletion in self._topics.values():
            deletion.asked.update(broker_ids)

    with patched(Deletions, "brokers_gone", brokers_gone):
        yield
