"""Group requests to a broker, one by one, so that two brokers' responses can be compared.

Responses become plain values without anything that may differ between two runs: topics have names instead of
ids, lists without a defined order are sorted, and generated ids are numbered.
"""

from __future__ import annotations

from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from tests.verify.groups.group_topics import Plain, TopicTalk


class Talk(TopicTalk):
    """Requests of groups in few words."""

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
        """ConsumerGroupHeartbeat; a member that joins says what it must by default."""
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
        result: Plain = {
            "error": ErrorCode(answer.error_code).name,
            "message": self.plain(answer.error_message),
            "member": self._id(answer.member_id),
            "epoch": answer.member_epoch,
            "interval": answer.heartbeat_interval_ms,
            "assignment": None,
        }
        if answer.assignment is not None:
            result["assignment"] = self._partitions(answer.assignment.topic_partitions)
        return self._say(f"beat {group} {self._id(member)} {epoch}", result)

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
        result = {
            "error": ErrorCode(one.error_code).name,
            "message": self.plain(one.error_message),
            "state": one.group_state,
            "epoch": one.group_epoch,
            "assignment epoch": one.assignment_epoch,
            "assignor": one.assignor_name,
            "members": sorted(members, key=lambda member: str(member["member"])),
            "operations": one.authorized_operations,
        }
        return self._say(f"describe {group}", result)

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
        result = {
            "error": ErrorCode(answer.error_code).name,
            "member": self._id(answer.member_id),
            "generation": answer.generation_id,
            "type": answer.protocol_type,
            "protocol": answer.protocol_name,
            "leader": self._id(answer.leader),
            "members": len(answer.members),
            "skip": answer.skip_assignment,
        }
        result["raw"] = answer.member_id
        self._say(f"join {group} {self._id(member)}", {key: result[key] for key in result if key != "raw"})
        return result

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
        result: Plain = {"error": ErrorCode(answer.error_code).name, "assignment": None}
        result["type"], result["protocol"] = answer.protocol_type, answer.protocol_name
        if answer.assignment:
            version = int.from_bytes(answer.assignment[:2], "big")
            read, end = ConsumerProtocolAssignment.decode_from(bytes(answer.assignment), 2, version)
            assert end == len(answer.assignment)
            result["version"] = version
            result["assignment"] = {
                self.plain(one.topic): sorted(one.partitions)
                for one in sorted(read.assigned_partitions, key=lambda one: str(one.topic))
            }
        return self._say(f"sync {group} {self._id(member)} {generation}", result)

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
        result = {
            "error": ErrorCode(answer.error_code).name,
            "members": [
                (self._id(one.member_id), one.group_instance_id, ErrorCode(one.error_code).name)
                for one in answer.members
            ],
        }
        return self._say(f"leave {group}", result)

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
        result: Plain = {"error": ErrorCode(answer.error_code).name, "offsets": []}
        for one in answer.topics:
            result["offsets"] += [(part.partition_index, part.committed_offset) for part in one.partitions]
        return self._say(f"fetch {group} {self._id(member)} {epoch}", result)

    def listed(self, group: str) -> Plain:
        answer = self._ask(ListGroupsRequest(states_filter=[], types_filter=[]), 5, ListGroupsResponse)
        found = [one for one in answer.groups if one.group_id == self.prefix + group]
        result = {"groups": [(one.group_type, one.group_state, one.protocol_type) for one in found]}
        return self._say(f"list {group}", result)

    def describe_classic(self, group: str) -> Plain:
        request = DescribeGroupsRequest(groups=[self.prefix + group], include_authorized_operations=False)
        one = self._ask(request, 6, DescribeGroupsResponse).groups[0]
        result = {
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
        return self._say(f"describe classic {group}", result)

    def delete(self, group: str) -> Plain:
        answer = self._ask(DeleteGroupsRequest(groups_names=[self.prefix + group]), 2, DeleteGroupsResponse)
        return self._say(f"delete {group}", {"error": ErrorCode(answer.results[0].error_code).name})
