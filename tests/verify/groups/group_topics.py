"""The topics of group scenarios, and responses as plain values.

One connection, topics that are created and awaited, and names instead of generated ids.
"""

from __future__ import annotations

import time
from typing import Any, Self

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tools.raw_broker import RawConnection

Plain = dict[str, Any]

PATIENCE_S = 30
LOOK_EACH_S = 0.1
# Characters of an id that a broker made up.
LEAST_MADE_UP = 20


class TopicTalk:
    """One connection; what was said stays in `heard`, in order."""

    def __init__(self, address: tuple[str, int], prefix: str, settles_s: float = LOOK_EACH_S) -> None:
        self._connection = RawConnection(address)
        # Of topics and groups: two talks with the same broker do not meet.
        self.prefix = prefix
        # Other coordinators may hear of topics a moment after the one that was asked.
        self._settles_s = settles_s
        self.heard: list[tuple[str, Plain]] = []
        self._topic_ids: dict[str, Uuid] = {}
        self._topic_names: dict[Uuid, str] = {}
        self._made_up: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.__exit__()

    def _ask(self, request: Any, version: int, answer: type[Any]) -> Any:
        return self._connection.ask(request, version, answer)

    def _say(self, what: str, answer: Plain) -> Plain:
        self.heard.append((what, answer))
        return answer

    # Topics

    def topic(self, name: str, partitions: int) -> None:
        """Create a topic and wait until the broker lists it."""
        whole = self.prefix + name
        creatable = CreateTopicsRequest.CreatableTopic(
            name=whole, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        request = CreateTopicsRequest(topics=[creatable], timeout_ms=10_000, validate_only=False)
        answer = self._ask(request, 7, CreateTopicsResponse)
        assert answer.topics[0].error_code == ErrorCode.NONE, answer
        self._settled(whole, partitions)

    def more_partitions(self, name: str, partitions: int) -> None:
        whole = self.prefix + name
        topic = CreatePartitionsRequest.Topic(name=whole, count=partitions, assignments=None)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=10_000, validate_only=False)
        answer = self._ask(request, 3, CreatePartitionsResponse)
        assert answer.results[0].error_code == ErrorCode.NONE, answer
        self._settled(whole, partitions)

    def delete_topic(self, name: str) -> None:
        whole = self.prefix + name
        request = DeleteTopicsRequest(topics=[], topic_names=[whole], timeout_ms=10_000)
        answer = self._ask(request, 5, DeleteTopicsResponse)
        assert answer.responses[0].error_code == ErrorCode.NONE, answer
        self._settled(whole, 0)

    def _settled(self, whole: str, partitions: int) -> None:
        limit = time.monotonic() + PATIENCE_S
        while True:
            topics = [MetadataRequest.Topic(name=whole)]
            request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
            topic = self._ask(request, 12, MetadataResponse).topics[0]
            if len(topic.partitions) == partitions and all(one.leader_id >= 0 for one in topic.partitions):
                break
            assert time.monotonic() < limit, f"{whole} does not get its {partitions} partitions"
            time.sleep(LOOK_EACH_S)
        if partitions:
            self._topic_ids[whole] = topic.topic_id
            self._topic_names[topic.topic_id] = whole
            while self._assigned_to_a_probe(whole) != partitions:
                assert time.monotonic() < limit, f"coordinators do not hear of {whole}"
                time.sleep(LOOK_EACH_S)
        time.sleep(self._settles_s)

    def _assigned_to_a_probe(self, whole: str) -> int:
        """How many partitions of a topic a coordinator knows: it may hear of them after the broker itself."""
        probe = ConsumerGroupHeartbeatRequest(
            group_id=f"probe-{whole}",
            member_id="probe",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=[whole],
            topic_partitions=[],
        )
        assignment = self._ask(probe, 1, ConsumerGroupHeartbeatResponse).assignment
        probe.member_epoch = -1
        self._ask(probe, 1, ConsumerGroupHeartbeatResponse)
        return sum(len(one.partitions) for one in assignment.topic_partitions) if assignment else 0

    def know(self, name: str) -> None:
        """A topic that was there before."""
        whole = self.prefix + name
        request = MetadataRequest(topics=[MetadataRequest.Topic(name=whole)], allow_auto_topic_creation=False)
        topic = self._ask(request, 12, MetadataResponse).topics[0]
        assert topic.error_code == ErrorCode.NONE, topic
        self._topic_ids[whole] = topic.topic_id
        self._topic_names[topic.topic_id] = whole

    def coordinator(self, group: str) -> None:
        """Wait until the group has a coordinator that serves it."""
        limit = time.monotonic() + PATIENCE_S
        while True:
            find = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.prefix + group])
            found = self._ask(find, 4, FindCoordinatorResponse).coordinators[0].error_code
            beat = HeartbeatRequest(group_id=self.prefix + group, generation_id=0, member_id="nobody")
            code = self._ask(beat, 4, HeartbeatResponse).error_code
            if found == ErrorCode.NONE and code == ErrorCode.UNKNOWN_MEMBER_ID:
                return
            assert time.monotonic() < limit, (found, code)
            time.sleep(LOOK_EACH_S)

    # Plain values

    def topic_id(self, name: str) -> Uuid:
        """A name that no topic has stands for an id that no topic has."""
        return self._topic_ids.get(self.prefix + name, Uuid.from_words(7, 7))

    def _partitions(self, topics: Any) -> dict[str, list[int]]:
        named = sorted((self.plain(self._topic_names.get(one.topic_id, "?")), one) for one in topics)
        return {str(name): sorted(one.partitions) for name, one in named}

    def _id(self, member: str | None) -> str | None:
        """Ids of the scenario are short and stay; those that the broker made up are numbered."""
        if not member or len(member) < LEAST_MADE_UP:
            return member
        return self._made_up.setdefault(member, f"made up {len(self._made_up)}")

    def plain(self, text: str | None) -> str | None:
        """Without what is the talk's own: prefixes, ids that a broker made up, ids of topics."""
        if text is None:
            return None
        for made_up, name in self._made_up.items():
            text = text.replace(made_up, name)
        for topic_id, name in self._topic_names.items():
            text = text.replace(str(topic_id), name)
        return text.replace(self.prefix, "")
