"""Bugs planted in the coordinators, each of which `coordinator-groups` must find.

Each is a common mistake in such code: responding before it is safe, keeping state after a failed
append, not fencing, not undoing, or not restoring when the log is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from barnabas.base.errors import KafkaError
from barnabas.base.ids import Uuid
from barnabas.coordinator.decision import Context, Decision, ProducerStamp
from barnabas.coordinator.group.assignors.spec import Assignment
from barnabas.coordinator.group.classic.classic import ClassicGroups
from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.classic.rebalance import Rebalances
from barnabas.coordinator.group.consumer import member_updater
from barnabas.coordinator.group.consumer.consumer import ConsumerGroups
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import ConsumerMember
from barnabas.coordinator.group.consumer.reconcile import IsOwned, Owned, reconcile
from barnabas.coordinator.group.consumer.timeouts import Timeouts
from barnabas.coordinator.group.offsets.offsets import Offsets
from barnabas.coordinator.group.offsets.store import OffsetStore
from barnabas.coordinator.shard import Shard, Store
from barnabas.runtime.planted import patched
from barnabas.testing.simulation.registry import planted

GROUPS = "coordinator-groups"


class Hasty:
    """A log whose leader treats its own records as committed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.append = store.append
        self.append_marker = store.append_marker

    @property
    def high_watermark(self) -> int:
        return 2**63 - 1


@planted("groups: responds before the commit", scenario=GROUPS)
def answers_before_commit() -> Iterator[None]:
    """Responses are sent when the leader's log has the entries, not when all replicas do."""
    healthy = Shard.__init__

    def init(self: Shard[Any], machine: Any, store: Store, **options: Any) -> None:
        healthy(self, machine, Hasty(store), **options)

    with patched(Shard, "__init__", init):
        yield


@planted("groups: a failed append is applied", scenario=GROUPS)
def refused_append_is_applied() -> Iterator[None]:
    """State changes although the log rejected the entries."""
    healthy = Shard._append

    def append(self: Shard[Any], decision: Decision[Any], now_ms: int, verification: object | None) -> None:
        try:
            healthy(self, decision, now_ms, verification)
        except KafkaError:
            for entry in decision.entries:
                self.machine.apply(entry, decision.producer)
            raise

    with patched(Shard, "_append", append):
        yield


@planted("groups: an aborted transaction commits", scenario=GROUPS)
def abort_commits() -> Iterator[None]:
    """Pending offsets become effective whatever the marker says."""
    healthy = OffsetStore.complete_transaction

    def end(self: OffsetStore, producer_id: int, *, committed: bool) -> dict[str, int]:
        return healthy(self, producer_id, committed=True)

    with patched(OffsetStore, "complete_transaction", end):
        yield


@planted("groups: pending offsets are shown", scenario=GROUPS)
def pending_offsets_are_shown() -> Iterator[None]:
    """An offset of an open transaction is effective at once."""
    healthy = OffsetStore.put_pending

    def put(
        self: OffsetStore, producer_id: int, group: str, topic: str, partition: int, value: bytes
    ) -> None:
        healthy(self, producer_id, group, topic, partition, value)
        self.partitions(group, topic)[partition] = value

    with patched(OffsetStore, "put_pending", put):
        yield


@planted("groups: the earlier commit wins", scenario=GROUPS)
def earlier_commit_wins() -> Iterator[None]:
    """The end of a transaction restores an offset that a later commit had replaced."""
    with patched(OffsetStore, "_supersede_pending", lambda self, group, topic, partition: None):
        yield


@planted("groups: unstable offsets are reported as stable", scenario=GROUPS)
def unstable_reported_as_stable() -> Iterator[None]:
    """A fetch of stable offsets returns those that an open transaction is about to change."""
    with patched(OffsetStore, "is_pending", lambda self, group, topic, partition: False):
        yield


@planted("groups: transactions are forgotten on loading", scenario=GROUPS)
def loading_forgets_transactions() -> Iterator[None]:
    """A loaded shard treats pending offsets as committed ones."""
    healthy = Offsets.load_row

    def load_row(self: Offsets, key: bytes, value: bytes | None, stamp: ProducerStamp | None) -> None:
        healthy(self, key, value, None)

    with patched(Offsets, "load_row", load_row):
        yield


@planted("groups: loading writes to removed topics", scenario=GROUPS)
def loading_writes_to_removed_topics() -> Iterator[None]:
    """What loading caches of a topic is not removed with the topic's last offset."""
    healthy = OffsetStore.remove

    def remove(self: OffsetStore, group: str, topic: str, partition: int) -> bool:
        healthy(self, group, topic, partition)
        return False

    with patched(OffsetStore, "remove", remove):
        yield


@planted("groups: a tombstone leaves pending offsets", scenario=GROUPS)
def tombstone_leaves_pending() -> Iterator[None]:
    """A deleted offset reappears when the transaction ends that had it pending."""
    healthy = OffsetStore.remove

    def remove(self: OffsetStore, group: str, topic: str, partition: int) -> bool:
        with patched(OffsetStore, "_pending_at", lambda *_: {}):
            return healthy(self, group, topic, partition)

    with patched(OffsetStore, "remove", remove):
        yield


@planted("groups: any generation may commit", scenario=GROUPS)
def any_generation_may_commit() -> Iterator[None]:
    """A member of an earlier generation can still commit."""

    def validate(self: ClassicGroup, *who: object, **options: object) -> None:
        """Nothing is rejected."""

    with patched(ClassicGroup, "validate_offset_commit", validate):
        yield


@planted("groups: any epoch may commit", scenario=GROUPS)
def any_epoch_may_commit() -> Iterator[None]:
    """A member of a consumer group commits with an epoch that it no longer has."""

    def validate(self: ConsumerGroup, *who: object, **options: object) -> None:
        """Nothing is rejected."""

    with patched(ConsumerGroup, "validate_offset_commit", validate):
        yield


@planted("groups: the same generation again", scenario=GROUPS)
def same_generation_again() -> Iterator[None]:
    """A rebalance reassigns the partitions without a new generation."""
    healthy = ClassicGroup.next_generation

    def next_generation(self: ClassicGroup, now_ms: int) -> None:
        if self.generation > 1:
            self.generation -= 1
        healthy(self, now_ms)

    with patched(ClassicGroup, "next_generation", next_generation):
        yield


@planted("groups: classic sessions never expire", scenario=GROUPS)
def classic_sessions_never_expire() -> Iterator[None]:
    """The session of a crashed member does not expire."""
    with patched(Rebalances, "expect_heartbeat", lambda self, *_, **__: None):
        yield


@planted("groups: sessions of consumer groups never expire", scenario=GROUPS)
def consumer_sessions_never_expire() -> Iterator[None]:
    """The session of a crashed member does not expire."""
    with patched(Timeouts, "schedule_session_timeout", lambda self, *_: None):
        yield


@planted("groups: partitions are assigned before they are revoked", scenario=GROUPS)
def given_away_before_free() -> Iterator[None]:
    """A member gets a partition that another has not revoked yet."""

    def hasty(
        member: ConsumerMember, epoch: int, target: Assignment, is_owned: IsOwned, owned: Owned
    ) -> ConsumerMember:
        return reconcile(member, epoch, target, _nobody, owned)

    with patched(member_updater, "reconcile", hasty):
        yield


def _nobody(topic_id: Uuid, partition: int) -> bool:
    return False


@planted("groups: sessions do not expire after a restart", scenario=GROUPS)
def no_sessions_after_restart() -> Iterator[None]:
    """A loaded shard sets no session timers for its members."""

    def loaded(self: object, context: Context) -> None:
        """No timers are set."""

    with patched(ClassicGroups, "loaded", loaded), patched(ConsumerGroups, "loaded", loaded):
        yield
