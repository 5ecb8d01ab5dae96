"""A consumer that uses the consumer protocol (KIP-848) in the simulated world; not a scenario itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.base.units import NS_PER_MS
from barnabas.coordinator.group.caller import Caller
from barnabas.coordinator.group.consumer.heartbeat import HeartbeatContext
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.testing.simulation.coordinators.members import (
    HEARTBEAT_NS,
    REBALANCE_MS,
    Client,
    Scene,
)

HEARTBEAT_VERSION = 1
MAX_GIVING_BACK_NS = 400 * NS_PER_MS
# After these errors it rejoins.  The last one: without it the group has become a classic one.
_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)

Owned = frozenset[tuple[Uuid, int]]


class ConsumerProtocolConsumer(Client):
    """One member.  It owns what it was assigned, and what it has yet to revoke."""

    def __init__(
        self,
        scene: Scene,
        group_id: str,
        name: str,
        topics: Sequence[str],
        *,
        by_pattern: bool = False,
        assignor: str | None = None,
    ) -> None:
        super().__init__(scene, group_id, name)
        self.topics = list(topics)
        self._by_pattern = by_pattern
        self._assignor = assignor
        self.epoch = 0
        self.owned: Owned = frozenset()
        self.is_stable = False
        self._is_leaving = False
        # Its full description counts as sent once a response has arrived.
        self._is_introduced = False
        self.after(scene.random.integer(0, 500 * NS_PER_MS), self._beat)

    @property
    def member_id(self) -> str:
        return self.name

    def _beat(self) -> None:
        joins = self.epoch == 0
        sends_all = joins or not self._is_introduced
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=REBALANCE_MS if sends_all else -1,
            subscribed_topic_names=self.topics if sends_all and not self._by_pattern else None,
            subscribed_topic_regex="|".join(self.topics) if sends_all and self._by_pattern else None,
            server_assignor=self._assignor if sends_all else None,
            topic_partitions=[] if joins else _rows(self.owned),
        )
        self._ask(request, partial(self._beaten, self.epoch))

    def _ask(self, request: ConsumerGroupHeartbeatRequest, then: partial[None]) -> None:
        """In order: KIP-848 does not handle a heartbeat that arrives after a later one.

        It may change what the member owns, without the member noticing.
        """
        requester = HeartbeatContext(Caller(self.name, "/127.0.0.1", HEARTBEAT_VERSION), lambda _: True)
        self.call(
            request,
            lambda machine, context: machine.consumer.heartbeat(request, requester, context),
            then,
            in_order=True,
        )

    def _beaten(self, epoch: int, answer: ConsumerGroupHeartbeatResponse | KafkaError | None) -> None:
        if isinstance(answer, ConsumerGroupHeartbeatResponse) and not answer.error_code:
            self._is_introduced = True
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self._reconcile(answer.assignment)
                return
        else:
            self._is_introduced = False
            if isinstance(answer, KafkaError) and answer.code in _LOST:
                self.epoch, self.owned, self.is_stable = 0, frozenset(), False
        self.after(HEARTBEAT_NS, self._beat)

    def _reconcile(self, assignment: ConsumerGroupHeartbeatResponse.Assignment) -> None:
        """Revoke partitions that are no longer assigned, which takes a while; then take the new ones."""
        target = frozenset(
            (topic.topic_id, index) for topic in assignment.topic_partitions for index in topic.partitions
        )
        delay_ns = self.scene.random.integer(0, MAX_GIVING_BACK_NS) if self.owned - target else 0
        self.after(delay_ns, partial(self._reconciled, target, self.epoch))

    def _reconciled(self, target: Owned, epoch: int) -> None:
        if epoch == self.epoch:
            self.owned = target
            self.is_stable = True
        self._beat()

    def work(self) -> None:
        """Commit offsets of the partitions it owns."""
        named = [(self.scene.topic_of(topic_id), index) for topic_id, index in self.owned]
        partitions = sorted((topic, index) for topic, index in named if topic is not None)
        if partitions and self.epoch > 0:
            self.commit(partitions, self.member_id, self.epoch)

    def leave(self) -> None:
        self.scene.world.agenda.note(f"{self!r} leaves")
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=-1
        )
        self._ask(request, partial(_ignore))
        self.is_alive = False


def _ignore(_: object) -> None:
    """A member that has left ignores the response."""


def _rows(owned: Owned) -> list[ConsumerGroupHeartbeatRequest.TopicPartitions]:
    by_topic: dict[Uuid, list[int]] = {}
    for topic_id, index in sorted(owned):
        by_topic.setdefault(topic_id, []).append(index)
    return [
        ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in by_topic.items()
    ]
