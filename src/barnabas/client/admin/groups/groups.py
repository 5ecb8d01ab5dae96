"""Groups: list, describe, delete, and send members away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.client.admin.calls import AdminCalls, operations, outcome
from barnabas.client.admin.groups.group_model import (
    GroupDescription,
    GroupListing,
    GroupListings,
    GroupMember,
    StreamsGroupDescription,
)
from barnabas.client.admin.groups.streams import streams_group
from barnabas.client.broker_connection import BrokerConnection
from barnabas.client.cluster import CoordinatorType
from barnabas.client.errors.cluster import UnsupportedVersionError
from barnabas.client.errors.groups import GroupIdNotFoundError
from barnabas.client.errors.kinds import ClientError, check, error_for
from barnabas.client.group_protocol import read_assignment
from barnabas.client.model import Node, TopicPartition
from barnabas.client.outcomes import Outcomes
from barnabas.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from barnabas.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from barnabas.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from barnabas.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from barnabas.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from barnabas.protocol.primitives import ProtocolError
from barnabas.security.acls import Operation

CLASSIC, CONSUMER, SHARE = "Classic", "Consumer", "Share"
CONSUMER_PROTOCOL = "consumer"
DEAD = "Dead"
_GROUP = CoordinatorType.GROUP
_MEMBER_CLASSIC = 0
_MEMBER_CONSUMER = 1


class MemberToRemove(NamedTuple):
    """A member by its id, or a static one by its `group.instance.id`."""

    group_instance_id: str | None = None
    member_id: str = ""


class GroupCalls(AdminCalls):
    async def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        protocol_types: Iterable[str] | None = None,
        timeout_ms: int | None = None,
    ) -> GroupListings:
        """All groups of all brokers, of these states, types and protocols if some are named."""
        request = ListGroupsRequest(states_filter=sorted(states), types_filter=sorted(types))
        brokers = await self._brokers(timeout_ms)
        answers = await asyncio.gather(*(self._list_of(node, request, timeout_ms) for node in brokers))
        wanted = None if protocol_types is None else set(protocol_types)
        found: dict[str, GroupListing] = {}
        errors: dict[Node, KafkaError] = {}
        for node, answer in zip(brokers, answers, strict=True):
            if isinstance(answer, KafkaError):
                errors[node] = answer
                continue
            for one in answer.groups:
                if wanted is None or one.protocol_type in wanted:
                    # Brokers write types in small letters here, and with a capital when they describe.
                    kind = one.group_type.capitalize()
                    found[one.group_id] = GroupListing(one.group_id, one.protocol_type, one.group_state, kind)
        return GroupListings(tuple(found.values()), errors)

    async def list_consumer_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        timeout_ms: int | None = None,
    ) -> GroupListings:
        """The groups that consumers use: classic ones of the consumer protocol, and those of KIP-848."""
        found = await self.list_groups(
            states=states,
            types=types,
            protocol_types=(CONSUMER_PROTOCOL, ""),
            timeout_ms=timeout_ms,
        )
        kept = tuple(one for one in found.groups if one.type in ("", CLASSIC, CONSUMER))
        return GroupListings(kept, found.errors)

    async def _list_of(
        self, node: Node, request: ListGroupsRequest, timeout_ms: int | None
    ) -> ListGroupsResponse | KafkaError:
        async def attempt() -> ListGroupsResponse:
            answer = await (await self.cluster.connection_to(node.id)).ask(request, ListGroupsResponse)
            check(answer.error_code)
            return answer

        try:
            return await self.cluster.retries.until(self._deadline(timeout_ms), "ListGroups", attempt)
        except ClientError as error:
            return error

    async def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, GroupDescription]:
        """Groups of consumers, whichever of the two protocols they speak."""

        async def ask(
            connection: BrokerConnection, groups: list[str]
        ) -> Mapping[str, GroupDescription | KafkaError]:
            found = await self._describe_consumer(connection, groups, include_authorized_operations)
            classic = [key for key, value in found.items() if isinstance(value, GroupIdNotFoundError)]
            if classic:
                found.update(await self._describe_classic(connection, classic, include_authorized_operations))
            return found

        return await self._through_coordinators(group_ids, _GROUP, ask, timeout_ms, "ConsumerGroupDescribe")

    async def describe_classic_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, GroupDescription]:
        """Classic groups of whatever protocol: consumers, connectors, others."""

        async def ask(
            connection: BrokerConnection, groups: list[str]
        ) -> Mapping[str, GroupDescription | KafkaError]:
            return await self._describe_classic(connection, groups, include_authorized_operations)

        return await self._through_coordinators(group_ids, _GROUP, ask, timeout_ms, "DescribeGroups")

    async def describe_share_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, GroupDescription]:
        """Share groups (KIP-932)."""

        async def ask(
            connection: BrokerConnection, groups: list[str]
        ) -> Mapping[str, GroupDescription | KafkaError]:
            request = ShareGroupDescribeRequest(
                group_ids=groups, include_authorized_operations=include_authorized_operations
            )
            answer = await connection.ask(request, ShareGroupDescribeResponse)
            return {
                one.group_id: outcome(one.error_code, one.error_message, _share(one, connection.node))
                for one in answer.groups
            }

        return await self._through_coordinators(group_ids, _GROUP, ask, timeout_ms, "ShareGroupDescribe")

    async def describe_streams_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, StreamsGroupDescription]:
        """Streams groups (KIP-1071)."""

        async def ask(
            connection: BrokerConnection, groups: list[str]
        ) -> Mapping[str, StreamsGroupDescription | KafkaError]:
            request = StreamsGroupDescribeRequest(
                group_ids=groups, include_authorized_operations=include_authorized_operations
            )
            answer = await connection.ask(request, StreamsGroupDescribeResponse)
            return {
                one.group_id: error_for(one.error_code, one.error_message)
                if one.error_code
                else streams_group(one, connection.node)
                for one in answer.groups
            }

        return await self._through_coordinators(group_ids, _GROUP, ask, timeout_ms, "StreamsGroupDescribe")

    async def _describe_consumer(
        self, connection: BrokerConnection, groups: list[str], with_operations: bool
    ) -> dict[str, GroupDescription | KafkaError]:
        request = ConsumerGroupDescribeRequest(
            group_ids=groups, include_authorized_operations=with_operations
        )
        try:
            answer = await connection.ask(request, ConsumerGroupDescribeResponse)
        except UnsupportedVersionError:
            return dict.fromkeys(groups, GroupIdNotFoundError())
        found: dict[str, GroupDescription | KafkaError] = {}
        for one in answer.groups:
            if one.error_code == ErrorCode.UNSUPPORTED_VERSION:
                # The broker knows the request, but not with the features that are in effect.
                found[one.group_id] = GroupIdNotFoundError(one.error_message)
            else:
                found[one.group_id] = outcome(
                    one.error_code, one.error_message, _consumer(one, connection.node)
                )
        return found

    async def _describe_classic(
        self, connection: BrokerConnection, groups: list[str], with_operations: bool
    ) -> dict[str, GroupDescription | KafkaError]:
        request = DescribeGroupsRequest(groups=groups, include_authorized_operations=with_operations)
        answer = await connection.ask(request, DescribeGroupsResponse)
        return {one.group_id: _classic_outcome(one, connection.node) for one in answer.groups}

    async def delete_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Forget groups that have no members, of any kind, with their offsets."""

        async def ask(connection: BrokerConnection, groups: list[str]) -> Mapping[str, KafkaError | None]:
            answer = await connection.ask(DeleteGroupsRequest(groups_names=groups), DeleteGroupsResponse)
            return {one.group_id: outcome(one.error_code, None, None) for one in answer.results}

        return await self._through_coordinators(group_ids, _GROUP, ask, timeout_ms, "DeleteGroups")

    # Apache Kafka's names for the same request.
    delete_consumer_groups = delete_groups
    delete_share_groups = delete_groups
    delete_streams_groups = delete_groups

    async def remove_members_from_consumer_group(
        self,
        group_id: str,
        members: Sequence[MemberToRemove] | None = None,
        *,
        reason: str | None = None,
        timeout_ms: int | None = None,
    ) -> Outcomes[MemberToRemove, None]:
        """Send members away: these, or all that the group has now."""
        if members is None:
            described = (await self.describe_consumer_groups([group_id], timeout_ms=timeout_ms))[group_id]
            members = [
                MemberToRemove(one.group_instance_id, "" if one.group_instance_id else one.member_id)
                for one in described.members
            ]
        request = LeaveGroupRequest(
            group_id=group_id,
            members=[
                LeaveGroupRequest.MemberIdentity(
                    member_id=one.member_id, group_instance_id=one.group_instance_id, reason=reason
                )
                for one in members
            ],
        )

        async def ask(
            connection: BrokerConnection, _: list[str]
        ) -> Mapping[str, LeaveGroupResponse | KafkaError]:
            answer = await connection.ask(request, LeaveGroupResponse)
            return {group_id: outcome(answer.error_code, None, answer)}

        answers = await self._through_coordinators([group_id], _GROUP, ask, timeout_ms, "LeaveGroup")
        told = {(one.group_instance_id, one.member_id): one.error_code for one in answers[group_id].members}
        by_instance = {one.group_instance_id: one.error_code for one in answers[group_id].members}
        return Outcomes(
            {
                one: outcome(told.get(one, by_instance.get(one.group_instance_id, 0)), None, None)
                for one in members
            }
        )


def _consumer(one: ConsumerGroupDescribeResponse.DescribedGroup, node: Node) -> GroupDescription:
    members = tuple(
        GroupMember(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host,
            assignment=_partitions(member.assignment.topic_partitions),
            group_instance_id=member.instance_id,
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            target_assignment=_partitions(member.target_assignment.topic_partitions),
            subscribed_topics=tuple(member.subscribed_topic_names),
            subscribed_regex=member.subscribed_topic_regex,
            upgraded={_MEMBER_CLASSIC: False, _MEMBER_CONSUMER: True}.get(member.member_type),
        )
        for member in one.members
    )
    return GroupDescription(
        group_id=one.group_id,
        type=CONSUMER,
        state=one.group_state,
        protocol_type=CONSUMER_PROTOCOL,
        assignor=one.assignor_name,
        coordinator=node,
        members=members,
        authorized_operations=_operations(one.authorized_operations),
        group_epoch=one.group_epoch,
        target_assignment_epoch=one.assignment_epoch,
    )


def _share(one: ShareGroupDescribeResponse.DescribedGroup, node: Node) -> GroupDescription:
    members = tuple(
        GroupMember(
            member_id=member.member_id,
            client_id=member.client_id,
            host=member.client_host,
            assignment=_partitions(member.assignment.topic_partitions),
            rack_id=member.rack_id,
            member_epoch=member.member_epoch,
            subscribed_topics=tuple(member.subscribed_topic_names),
        )
        for member in one.members
    )
    return GroupDescription(
        group_id=one.group_id,
        type=SHARE,
        state=one.group_state,
        protocol_type=SHARE.lower(),
        assignor=one.assignor_name,
        coordinator=node,
        members=members,
        authorized_operations=_operations(one.authorized_operations),
        group_epoch=one.group_epoch,
        target_assignment_epoch=one.assignment_epoch,
    )


def _classic_outcome(one: DescribeGroupsResponse.DescribedGroup, node: Node) -> GroupDescription | KafkaError:
    if one.error_code:
        return error_for(one.error_code, one.error_message)
    return GroupDescription(
        group_id=one.group_id,
        type=CLASSIC,
        state=one.group_state,
        protocol_type=one.protocol_type,
        assignor=one.protocol_data,
        coordinator=node,
        members=tuple(_classic_member(member, one.protocol_type) for member in one.members),
        authorized_operations=_operations(one.authorized_operations),
    )


def _classic_member(member: DescribeGroupsResponse.DescribedGroupMember, protocol_type: str) -> GroupMember:
    assignment: frozenset[TopicPartition] = frozenset()
    if protocol_type == CONSUMER_PROTOCOL and member.member_assignment:
        try:
            assignment = frozenset(read_assignment(member.member_assignment).partitions)
        except ProtocolError:
            # Another library may have put there what it likes.
            assignment = frozenset()
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=assignment,
        group_instance_id=member.group_instance_id,
    )


def _partitions(
    told: Iterable[
        ConsumerGroupDescribeResponse.TopicPartitions | ShareGroupDescribeResponse.TopicPartitions
    ],
) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic_name, number) for topic in told for number in topic.partitions
    )


def _operations(bits: int) -> tuple[Operation, ...] | None:
    numbers = operations(bits)
    return None if numbers is None else tuple(Operation(number) for number in numbers)
