"""Committers that are not members of a group: standalone consumers, and transactional producers; not a
scenario."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from barnabas.base.errors import KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.coordinator.decision import Decision, Marker
from barnabas.coordinator.group.offsets.commit import commit_in_transaction
from barnabas.coordinator.group.offsets.delete import delete
from barnabas.protocol.messages.offset_delete import OffsetDeleteRequest
from barnabas.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from barnabas.testing.simulation.coordinators.members import Client, Scene, ShardScene

TXN_VERSION = 5
MARKER_RETRY_NS = 50 * NS_PER_MS
MAX_OPEN_NS = 1_000 * NS_PER_MS


class Loner(Client):
    """Assigns partitions to itself, and sometimes deletes its offsets."""

    def __init__(self, scene: Scene, group_id: str, name: str, topics: Sequence[str]) -> None:
        super().__init__(scene, group_id, name)
        self.topics = list(topics)

    def work(self) -> None:
        random = self.scene.random
        known = [(topic, index) for topic in self.topics for index in self.scene.partitions_of(topic)]
        chosen = [partition for partition in known if random.integer(0, 1)]
        if chosen and random.integer(0, 5):
            self.commit(chosen, "", -1)
        elif chosen:
            self._delete(chosen)

    def _delete(self, chosen: list[tuple[str, int]]) -> None:
        request = OffsetDeleteRequest(
            group_id=self.group_id,
            topics=[
                OffsetDeleteRequest.Topic(
                    name=topic, partitions=[OffsetDeleteRequest.Partition(partition_index=index)]
                )
                for topic, index in chosen
            ],
        )
        self.call(request, lambda machine, context: delete(machine.offsets, request, context), lambda _: None)


class TransactionalCommitter(Client):
    """Commits offsets of a group in transactions, which it commits or aborts a while later."""

    def __init__(self, scene: ShardScene, group_id: str, name: str, topics: Sequence[str]) -> None:
        super().__init__(scene, group_id, name)
        self._host = scene.host
        self.topics = list(topics)
        self._producer_id = 1_000 + len(name) + sum(map(ord, group_id))
        self._is_open = False

    def work(self) -> None:
        random = self.scene.random
        known = [(topic, index) for topic in self.topics for index in self.scene.partitions_of(topic)]
        chosen = [partition for partition in known if random.integer(0, 1)]
        if not chosen:
            return
        offsets = {partition: self.scene.new_offset() for partition in chosen}
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.group_id,
            producer_id=self._producer_id,
            producer_epoch=0,
            topics=[
                TxnOffsetCommitRequest.Topic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequest.Partition(
                            partition_index=index, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
                for (topic, index), offset in offsets.items()
            ],
        )
        self.call(
            request,
            lambda machine, context: commit_in_transaction(machine.offsets, request, TXN_VERSION, context),
            self._taken,
        )

    def _taken(self, answer: TxnOffsetCommitResponse | KafkaError | None) -> None:
        if not self._is_open:
            self._is_open = True
            committed = self.scene.random.integer(0, 2) > 0
            self.after(self.scene.random.integer(0, MAX_OPEN_NS), partial(self._end, committed))

    def _end(self, committed: bool) -> None:
        """The transaction coordinator sends the marker to the partition until it is accepted."""
        marker = Marker(self._producer_id, 0, 0, committed)

        def ended(_: None) -> None:
            self._is_open = False

        def refused(error: BaseException) -> None:
            assert isinstance(error, KafkaError), error
            self.after(MARKER_RETRY_NS, partial(self._end, committed))

        self._host.ask(lambda _, __: Decision((), None, marker=marker)).then(ended, refused)
