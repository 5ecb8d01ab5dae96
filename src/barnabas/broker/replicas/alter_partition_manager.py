"""Sends ISR changes (AlterPartition) to the controller.

Contains batching and retries; when an ISR should change belongs in replica/partition.py.  One request is in
flight at a time; later changes go with the next one.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.base.principals import OWN_PRINCIPAL
from barnabas.base.units import NS_PER_MS
from barnabas.broker.context import ReplicaContext
from barnabas.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.schema import Message
from barnabas.replica.partition import Partition, Proposal
from barnabas.runtime.loop.timers import TimerService
from barnabas.storage.log.log import Log

logger = logging.getLogger(__name__)

ALTER_PARTITION_VERSION = 3
RETRY_MS = 50


Pending = dict[tuple[Uuid, int], tuple[Partition[Log], Proposal]]


class AlterPartitionManager:
    """Sends the ISR proposals of partitions."""

    def __init__(
        self,
        broker: ReplicaContext,
        broker_id: int,
        timers: TimerService,
        at_tick_end: Callable[[Callable[[], None]], None],
        on_advance: Callable[[Partition[Log]], None],
    ) -> None:
        self._broker = broker
        self._broker_id = broker_id
        self._timers = timers
        self._at_tick_end = at_tick_end
        self._on_advance = on_advance
        self._waiting: Pending = {}
        self._is_due = False
        self._is_sent = False
        # Counters for metrics: only grow.
        self.shrinks = 0
        self.expands = 0

    def submit(self, partition: Partition[Log]) -> None:
        """Adds the partition's proposal; it is sent with others of this tick."""
        proposal = partition.proposal
        if proposal is None:
            return
        self._waiting[partition.topic_id, partition.index] = (partition, proposal)
        self._send_at_tick_end()

    def _send_at_tick_end(self) -> None:
        if not self._is_due and not self._is_sent:
            self._is_due = True
            self._at_tick_end(self._send)

    def _send(self) -> None:
        self._is_due = False
        # A delta may have made the proposal obsolete.
        asked = {key: pair for key, pair in self._waiting.items() if pair[0].proposal is pair[1]}
        self._waiting = {}
        if not asked:
            return
        self._is_sent = True
        request = self._request(asked)
        answer = self._broker.metadata.send_request(request, ALTER_PARTITION_VERSION, OWN_PRINCIPAL)
        answer.then(
            lambda response: self._answered(asked, response), lambda error: self._failed(asked, error)
        )

    def _request(self, asked: Pending) -> AlterPartitionRequest:
        topics: dict[Uuid, list[AlterPartitionRequest.PartitionData]] = defaultdict(list)
        own_epoch = self._broker.broker_epoch
        for (topic_id, index), (_, proposal) in asked.items():
            isr = [
                AlterPartitionRequest.BrokerState(
                    broker_id=one, broker_epoch=own_epoch if one == self._broker_id else epoch
                )
                for one, epoch in proposal.isr
            ]
            topics[topic_id].append(
                AlterPartitionRequest.PartitionData(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=isr,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        return AlterPartitionRequest(
            broker_id=self._broker_id,
            broker_epoch=own_epoch,
            topics=[
                AlterPartitionRequest.TopicData(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in topics.items()
            ],
        )

    def _answered(self, asked: Pending, response: Message) -> None:
        assert isinstance(response, AlterPartitionResponse), "AlterPartition is answered by its response"
        self._is_sent = False
        if response.error_code:
            code = ErrorCode(response.error_code)
            self._failed(asked, KafkaError(code))
            return
        now_ns = self._broker.clock.monotonic_ns()
        answers = {
            (topic.topic_id, one.partition_index): one
            for topic in response.topics
            for one in topic.partitions
        }
        again: Pending = {}
        for key, (partition, proposal) in asked.items():
            answer = answers.get(key)
            if answer is None or answer.error_code:
                code = ErrorCode.UNKNOWN_SERVER_ERROR if answer is None else ErrorCode(answer.error_code)
                if partition.refused(proposal, code):
                    again[key] = (partition, proposal)
            else:
                before = partition.isr
                if partition.agreed(
                    proposal, answer.isr, answer.leader_epoch, answer.partition_epoch, now_ns
                ):
                    self._on_advance(partition)
                self._note_change(partition, before)
        self._try_again(again)

    def _note_change(self, partition: Partition[Log], before: frozenset[int]) -> None:
        after = partition.isr
        if after != before:
            self.shrinks += not before <= after
            self.expands += not after <= before
            logger.info("%r: the ISR changes from %s to %s", partition, sorted(before), sorted(after))

    def _failed(self, asked: Pending, error: BaseException) -> None:
        self._is_sent = False
        logger.warning("AlterPartition failed (%s); retrying", error)
        self._try_again(asked)

    def _try_again(self, again: Pending) -> None:
        self._waiting = {**again, **self._waiting}
        if again:
            deadline_ns = self._broker.clock.monotonic_ns() + RETRY_MS * NS_PER_MS
            self._timers.set((self, "again"), deadline_ns, self._send_at_tick_end)
        elif self._waiting:
            self._send_at_tick_end()

    def stop(self) -> None:
        self._waiting.clear()
        self._timers.cancel((self, "again"))
