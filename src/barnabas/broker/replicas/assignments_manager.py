"""Sends directory assignments (AssignReplicasToDirs, KIP-858) to the controller.

Contains batching and retries.  One request is in flight at a time; later assignments go with the next one.
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
from barnabas.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.timers import TimerService

logger = logging.getLogger(__name__)

ASSIGN_VERSION = 0
ASSIGN_RETRY_MS = 1_000
# Larger requests would hold the controller too long (Apache Kafka has the same limit).
ASSIGNMENTS_PER_REQUEST = 2_250


class AssignmentsManager:
    """Reports the directories of logs that the controller expects elsewhere (KIP-858)."""

    def __init__(
        self,
        broker: ReplicaContext,
        broker_id: int,
        timers: TimerService,
        at_tick_end: Callable[[Callable[[], None]], None],
    ) -> None:
        self._broker = broker
        self._broker_id = broker_id
        self._timers = timers
        self._at_tick_end = at_tick_end
        self._waiting: dict[tuple[Uuid, int], Uuid] = {}
        self._is_due = False
        self._is_sent = False

    def submit(self, topic_id: Uuid, index: int, directory_id: Uuid) -> None:
        self._waiting[topic_id, index] = directory_id
        self._send_at_tick_end()

    def _send_at_tick_end(self) -> None:
        if not self._is_due and not self._is_sent:
            self._is_due = True
            self._at_tick_end(self._send)

    def _send(self) -> None:
        self._is_due = False
        keys = list(self._waiting)[:ASSIGNMENTS_PER_REQUEST]
        asked = {key: self._waiting.pop(key) for key in keys}
        if not asked:
            return
        self._is_sent = True
        answer = self._broker.metadata.send_request(self._request(asked), ASSIGN_VERSION, OWN_PRINCIPAL)
        answer.then(
            lambda response: self._answered(asked, response), lambda error: self._failed(asked, error)
        )

    def _request(self, asked: dict[tuple[Uuid, int], Uuid]) -> AssignReplicasToDirsRequest:
        directories: dict[Uuid, dict[Uuid, list[int]]] = defaultdict(lambda: defaultdict(list))
        for (topic_id, index), directory_id in asked.items():
            directories[directory_id][topic_id].append(index)
        return AssignReplicasToDirsRequest(
            broker_id=self._broker_id,
            broker_epoch=self._broker.broker_epoch,
            directories=[
                AssignReplicasToDirsRequest.DirectoryData(
                    id=directory_id,
                    topics=[
                        AssignReplicasToDirsRequest.TopicData(
                            topic_id=topic_id,
                            partitions=[
                                AssignReplicasToDirsRequest.PartitionData(partition_index=index)
                                for index in indexes
                            ],
                        )
                        for topic_id, indexes in topics.items()
                    ],
                )
                for directory_id, topics in directories.items()
            ],
        )

    def _answered(self, asked: dict[tuple[Uuid, int], Uuid], response: Message) -> None:
        assert isinstance(response, AssignReplicasToDirsResponse), "it is answered by its response"
        self._is_sent = False
        if response.error_code:
            self._failed(asked, KafkaError(ErrorCode(response.error_code)))
            return
        refused = {
            (topic.topic_id, one.partition_index): ErrorCode(one.error_code)
            for directory in response.directories
            for topic in directory.topics
            for one in topic.partitions
            if one.error_code
        }
        if refused:
            # The partition was deleted or moved: the next delta has the change.
            logger.info("the controller refused the directories of %s", refused)
        if self._waiting:
            self._send_at_tick_end()

    def _failed(self, asked: dict[tuple[Uuid, int], Uuid], error: BaseException) -> None:
        self._is_sent = False
        logger.warning("AssignReplicasToDirs failed (%s); retrying", error)
        self._waiting = {**asked, **self._waiting}
        deadline_ns = self._broker.clock.monotonic_ns() + ASSIGN_RETRY_MS * NS_PER_MS
        self._timers.set((self, "again"), deadline_ns, self._send_at_tick_end)

    def stop(self) -> None:
        self._waiting.clear()
        self._timers.cancel((self, "again"))
