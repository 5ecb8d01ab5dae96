"""Talking about groups with a broker, request by request, so that two brokers' answers can be compared.

What lives here: requests in few words and answers as plain values, in which nothing is left that may differ
between two runs: topics have names instead of ids, lists whose order means nothing are sorted, and ids that a
broker made up are numbered.  What may not: scenarios (`group_scenarios.py`).
"""

from __future__ import annotations

import time
from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from tools.raw_broker import RawConnection

Plain = dict[str, Any]

PATIENCE_S = 30
LOOK_EACH_S = 0.1
# Characters of an id that a broker made up.
LEAST_MADE_UP = 20


class Talk:
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

    def __enter__(self) -> Talk:
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
        """Create a topic and wait until the broker tells of it."""
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

    # Consumer groups

    def beat(
        self,
        group: str,
        member: str,
        epoch: int,
        *,
        names: list[str] | None = None,
        regex: str | None = None,
        owned: dict[str, list[int]] | None = None,
        version: int = 1,
        **more: Any,
    ) -> Plain:
        """ConsumerGroupHeartbeat; a member that joins says what it must unless told otherwise."""
        if epoch == 0:
            more = {"rebalance_timeout_ms": 60_000, **more}
            owned = {} if owned is None else owned
        partitions = None
        if owned is not None:
            partitions = [
                ConsumerGroupHeartbeatRequest.TopicPartitions(
                    topic_id=self.topic_id(topic), partitions=numbers
                )
                for topic, numbers in owned.items()
            ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.prefix + group if group else group,
            member_id=member,
            member_epoch=epoch,
            subscribed_topic_names=None if names is None else [self.prefix + name for name in names],
            subscribed_topic_regex=regex,
            topic_partitions=partitions,
            **more,
        )
        answer = self._ask(request, version, ConsumerGroupHeartbeatResponse)
        told: Plain = {
            "error": ErrorCode(answer.error_code).name,
            "message": self.plain(answer.error_message),
            "member": self._id(answer.member_id),
            "epoch": answer.member_epoch,
            "interval": answer.heartbeat_interval_ms,
            "assignment": None,
        }
        if answer.assignment is not None:
            told["assignment"] = self._partitions(answer.assignment.topic_partitions)
        return self._say(f"beat {group} {self._id(member)} {epoch}", told)

    def describe(self, group: str, version: int = 1) -> Plain:
        request = ConsumerGroupDescribeRequest(
            group_ids=[self.prefix + group if group else group], include_authorized_operations=True
        )
        one = self._ask(request, version, ConsumerGroupDescribeResponse).groups[0]
        members = [
            {
                "member": self._id(member.member_id),
                "instance": member.instance_id,
                "rack": member.rack_id,
                "epoch": member.member_epoch,
                "client": member.client_id,
                "host": member.client_host,
                "names": sorted(self.plain(name) or "" for name in member.subscribed_topic_names),
                "regex": self.plain(member.subscribed_topic_regex),
                "assignment": self._partitions(member.assignment.topic_partitions),
                "target": self._partitions(member.target_assignment.topic_partitions),
                "type": member.member_type,
            }
            for member in one.members
        ]
        told = {
            "error": ErrorCode(one.error_code).name,
            "message": self.plain(one.error_message),
            "state": one.group_state,
            "epoch": one.group_epoch,
            "assignment epoch": one.assignment_epoch,
            "assignor": one.assignor_name,
            "members": sorted(members, key=lambda member: str(member["member"])),
            "operations": one.authorized_operations,
        }
        return self._say(f"describe {group}", told)

    # Classic members

    def join(
        self,
        group: str,
        member: str,
        names: list[str],
        *,
        protocols: tuple[str, ...] = ("range",),
        owned: dict[str, list[int]] | None = None,
        instance: str | None = None,
        version: int = 9,
        **more: Any,
    ) -> Plain:
        subscription = ConsumerProtocolSubscription(
            topics=[self.prefix + name for name in names],
            owned_partitions=[
                ConsumerProtocolSubscription.TopicPartition(topic=self.prefix + topic, partitions=numbers)
                for topic, numbers in (owned or {}).items()
            ],
        )
        metadata = (1).to_bytes(2, "big") + subscription.encode(1)
        request = JoinGroupRequest(
            group_id=self.prefix + group,
            session_timeout_ms=more.pop("session_timeout_ms", 45_000),
            rebalance_timeout_ms=more.pop("rebalance_timeout_ms", 60_000),
            member_id=member,
            group_instance_id=instance,
            protocol_type=more.pop("protocol_type", "consumer"),
            protocols=[
                JoinGroupRequest.Protocol(name=name, metadata=more.get("metadata", metadata))
                for name in protocols
            ],
        )
        answer = self._ask(request, version, JoinGroupResponse)
        told = {
            "error": ErrorCode(answer.error_code).name,
            "member": self._id(answer.member_id),
            "generation": answer.generation_id,
            "type": answer.protocol_type,
            "protocol": answer.protocol_name,
            "leader": self._id(answer.leader),
            "members": len(answer.members),
            "skip": answer.skip_assignment,
        }
        told["raw"] = answer.member_id
        self._say(f"join {group} {self._id(member)}", {key: told[key] for key in told if key != "raw"})
        return told

    def sync(
        self,
        group: str,
        member: str,
        generation: int,
        *,
        instance: str | None = None,
        protocol: str | None = "range",
        protocol_type: str | None = "consumer",
        assignments: dict[str, dict[str, list[int]]] | None = None,
    ) -> Plain:
        request = SyncGroupRequest(
            group_id=self.prefix + group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequest.Assignment(member_id=one, assignment=self._assignment_bytes(partitions))
                for one, partitions in (assignments or {}).items()
            ],
        )
        answer = self._ask(request, 5, SyncGroupResponse)
        told: Plain = {"error": ErrorCode(answer.error_code).name, "assignment": None}
        told["type"], told["protocol"] = answer.protocol_type, answer.protocol_name
        if answer.assignment:
            version = int.from_bytes(answer.assignment[:2], "big")
            read, end = ConsumerProtocolAssignment.decode_from(bytes(answer.assignment), 2, version)
            assert end == len(answer.assignment)
            told["version"] = version
            told["assignment"] = {
                self.plain(one.topic): sorted(one.partitions)
                for one in sorted(read.assigned_partitions, key=lambda one: str(one.topic))
            }
        return self._say(f"sync {group} {self._id(member)} {generation}", told)

    def _assignment_bytes(self, partitions: dict[str, list[int]]) -> bytes:
        message = ConsumerProtocolAssignment(
            assigned_partitions=[
                ConsumerProtocolAssignment.TopicPartition(topic=self.prefix + topic, partitions=numbers)
                for topic, numbers in partitions.items()
            ]
        )
        return (1).to_bytes(2, "big") + message.encode(1)

    def classic_beat(self, group: str, member: str, generation: int, instance: str | None = None) -> Plain:
        request = HeartbeatRequest(
            group_id=self.prefix + group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
        )
        answer = self._ask(request, 4, HeartbeatResponse)
        return self._say(
            f"classic beat {group} {self._id(member)} {generation}",
            {"error": ErrorCode(answer.error_code).name},
        )

    def leave(self, group: str, *members: tuple[str, str | None]) -> Plain:
        identities = [
            LeaveGroupRequest.MemberIdentity(member_id=member, group_instance_id=instance)
            for member, instance in members
        ]
        request = LeaveGroupRequest(group_id=self.prefix + group, members=identities)
        answer = self._ask(request, 5, LeaveGroupResponse)
        told = {
            "error": ErrorCode(answer.error_code).name,
            "members": [
                (self._id(one.member_id), one.group_instance_id, ErrorCode(one.error_code).name)
                for one in answer.members
            ],
        }
        return self._say(f"leave {group}", told)

    # Offsets and groups of any kind

    def commit(
        self,
        group: str,
        member: str,
        epoch: int,
        topic: str,
        offset: int,
        version: int = 9,
        instance: str | None = None,
    ) -> Plain:
        partition = OffsetCommitRequest.Partition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=self.prefix + group,
            generation_id_or_member_epoch=epoch,
            member_id=member,
            group_instance_id=instance,
            topics=[OffsetCommitRequest.Topic(name=self.prefix + topic, partitions=[partition])],
        )
        answer = self._ask(request, version, OffsetCommitResponse)
        code = answer.topics[0].partitions[0].error_code
        return self._say(f"commit {group} {self._id(member)} {epoch}", {"error": ErrorCode(code).name})

    def fetch(self, group: str, member: str | None, epoch: int, topic: str) -> Plain:
        request = OffsetFetchRequest(
            groups=[
                OffsetFetchRequest.Group(
                    group_id=self.prefix + group,
                    member_id=member,
                    member_epoch=epoch,
                    topics=[OffsetFetchRequest.Topics(name=self.prefix + topic, partition_indexes=[0])],
                )
            ],
            require_stable=False,
        )
        answer = self._ask(request, 9, OffsetFetchResponse).groups[0]
        told: Plain = {"error": ErrorCode(answer.error_code).name, "offsets": []}
        for one in answer.topics:
            told["offsets"] += [(part.partition_index, part.committed_offset) for part in one.partitions]
        return self._say(f"fetch {group} {self._id(member)} {epoch}", told)

    def listed(self, group: str) -> Plain:
        answer = self._ask(ListGroupsRequest(states_filter=[], types_filter=[]), 5, ListGroupsResponse)
        found = [one for one in answer.groups if one.group_id == self.prefix + group]
        told = {"groups": [(one.group_type, one.group_state, one.protocol_type) for one in found]}
        return self._say(f"list {group}", told)

    def describe_classic(self, group: str) -> Plain:
        request = DescribeGroupsRequest(groups=[self.prefix + group], include_authorized_operations=False)
        one = self._ask(request, 6, DescribeGroupsResponse).groups[0]
        told = {
            "error": ErrorCode(one.error_code).name,
            "message": self.plain(one.error_message),
            "state": one.group_state,
            "type": one.protocol_type,
            "protocol": one.protocol_data,
            "members": sorted(
                (str(self._id(member.member_id)), member.group_instance_id, len(member.member_assignment))
                for member in one.members
            ),
        }
        return self._say(f"describe classic {group}", told)

    def delete(self, group: str) -> Plain:
        answer = self._ask(DeleteGroupsRequest(groups_names=[self.prefix + group]), 2, DeleteGroupsResponse)
        return self._say(f"delete {group}", {"error": ErrorCode(answer.results[0].error_code).name})

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
