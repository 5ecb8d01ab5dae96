"""Groups: list, describe, delete, and remove members."""

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
from barnabas.client.errors.base import ClientError, check, error_for
from barnabas.client.errors.cluster import UnsupportedVersionError
from barnabas.client.errors.groups import GroupIdNotFoundError
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
        """List the groups of all brokers, optionally by state, type and protocol type."""
        request = ListGroupsRequest(states_filter=sorted(states), types_filter=sorted(types))
        brokers = await self._brokers(timeout_ms)
        responses = await asyncio.gather(*(self._list_of(node, request, timeout_ms) for node in brokers))
        wanted = None if protocol_types is None else set(protocol_types)
        results: dict[str, GroupListing] = {}
        errors: dict[Node, KafkaError] = {}
        for node, response in zip(brokers, responses, strict=True):
            if isinstance(response, KafkaError):
                errors[node] = response
                continue
            for group in response.groups:
                if wanted is None or group.protocol_type in wanted:
                    # ListGroups responses have types in lower case, describe responses capitalized.
                    kind = group.group_type.capitalize()
                    results[group.group_id] = GroupListing(
                        group.group_id, group.protocol_type, group.group_state, kind
                    )
        return GroupListings(tuple(results.values()), errors)

    async def list_consumer_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        timeout_ms: int | None = None,
    ) -> GroupListings:
        """List the groups of consumers: classic groups with protocol type "consumer", and those of
        KIP-848."""
        listings = await self.list_groups(
            states=states,
            types=types,
            protocol_types=(CONSUMER_PROTOCOL, ""),
            timeout_ms=timeout_ms,
        )
        kept = tuple(group for group in listings.groups if group.type in ("", CLASSIC, CONSUMER))
        return GroupListings(kept, listings.errors)

    async def _list_of(
        self, node: Node, request: ListGroupsRequest, timeout_ms: int | None
    ) -> ListGroupsResponse | KafkaError:
        async def attempt() -> ListGroupsResponse:
            response = await (await self.cluster.connection_to(node.id)).send(request, ListGroupsResponse)
            check(response.error_code)
            return response

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
        """Describe groups of consumers, of the classic and of the consumer protocol."""

        async def send(
            connection: BrokerConnection, groups: list[str]
        ) -> Mapping[str, GroupDescription | KafkaError]:
            descriptions = await self._describe_consumer(connection, groups, include_authorized_operations)
            classic = [key for key, value in descriptions.items() if isinstance(value, GroupIdNotFoundError)]
            if classic:
                descriptions.update(
                    await self._describe_classic(connection, classic, include_authorized_operations)
                )
            return descriptions

        return await self._through_coordinators(group_ids, _GROUP, send, timeout_ms, "ConsumerGroupDescribe")

    async def describe_classic_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, GroupDescription]:
        """Describe classic groups of any protocol type: consumers, connectors, others."""

        async def send(
            connection: BrokerConnection, groups: list[str]
        ) -> Mapping[str, GroupDescription | KafkaError]:
            return await self._describe_classic(connection, groups, include_authorized_operations)

        return await self._through_coordinators(group_ids, _GROUP, send, timeout_ms, "DescribeGroups")

    async def describe_share_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, GroupDescription]:
        """Share groups (KIP-932)."""

        async def send(
            connection: BrokerConnection, groups: list[str]
        ) -> Mapping[str, GroupDescription | KafkaError]:
            request = ShareGroupDescribeRequest(
                group_ids=groups, include_authorized_operations=include_authorized_operations
            )
            response = await connection.send(request, ShareGroupDescribeResponse)
            return {
                group.group_id: outcome(group.error_code, group.error_message, _share(group, connection.node))
                for group in response.groups
            }

        return await self._through_coordinators(group_ids, _GROUP, send, timeout_ms, "ShareGroupDescribe")

    async def describe_streams_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: int | None = None,
    ) -> Outcomes[str, StreamsGroupDescription]:
        """Streams groups (KIP-1071)."""

        async def send(
            connection: BrokerConnection, groups: list[str]
        ) -> Mapping[str, StreamsGroupDescription | KafkaError]:
            request = StreamsGroupDescribeRequest(
                group_ids=groups, include_authorized_operations=include_authorized_operations
            )
            response = await connection.send(request, StreamsGroupDescribeResponse)
            return {
                group.group_id: error_for(group.error_code, group.error_message)
                if group.error_code
                else streams_group(group, connection.node)
                for group in response.groups
            }

        return await self._through_coordinators(group_ids, _GROUP, send, timeout_ms, "StreamsGroupDescribe")

    async def _describe_consumer(
        self, connection: BrokerConnection, groups: list[str], with_operations: bool
    ) -> dict[str, GroupDescription | KafkaError]:
        request = ConsumerGroupDescribeRequest(
            group_ids=groups, include_authorized_operations=with_operations
        )
        try:
            response = await connection.send(request, ConsumerGroupDescribeResponse)
        except UnsupportedVersionError:
            return dict.fromkeys(groups, GroupIdNotFoundError())
        results: dict[str, GroupDescription | KafkaError] = {}
        for group in response.groups:
            if group.error_code == ErrorCode.UNSUPPORTED_VERSION:
                # The broker knows the request, but the finalized features do not allow it.
                results[group.group_id] = GroupIdNotFoundError(group.error_message)
            else:
                results[group.group_id] = outcome(
                    group.error_code, group.error_message, _consumer(group, connection.node)
                )
        return results

    async def _describe_classic(
        self, connection: BrokerConnection, groups: list[str], with_operations: bool
    ) -> dict[str, GroupDescription | KafkaError]:
        request = DescribeGroupsRequest(groups=groups, include_authorized_operations=with_operations)
        response = await connection.send(request, DescribeGroupsResponse)
        return {group.group_id: _classic_outcome(group, connection.node) for group in response.groups}

    async def delete_groups(
        self, group_ids: Iterable[str], *, timeout_ms: int | None = None
    ) -> Outcomes[str, None]:
        """Delete groups of any type that have no members, and their offsets."""

        async def send(connection: BrokerConnection, groups: list[str]) -> Mapping[str, KafkaError | None]:
            response = await connection.send(DeleteGroupsRequest(groups_names=groups), DeleteGroupsResponse)
            return {result.group_id: outcome(result.error_code, None, None) for result in response.results}

        return await self._through_coordinators(group_ids, _GROUP, send, timeout_ms, "DeleteGroups")

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
        """Remove members: the given ones, or all current members."""
        if members is None:
            described = (await self.describe_consumer_groups([group_id], timeout_ms=timeout_ms))[group_id]
            members = [
                MemberToRemove(member.group_instance_id, "" if member.group_instance_id else member.member_id)
                for member in described.members
            ]
        request = LeaveGroupRequest(
            group_id=group_id,
            members=[
                LeaveGroupRequest.MemberIdentity(
                    member_id=member.member_id, group_instance_id=member.group_instance_id, reason=reason
                )
                for member in members
            ],
        )

        async def send(
            connection: BrokerConnection, _: list[str]
        ) -> Mapping[str, LeaveGroupResponse | KafkaError]:
            response = await connection.send(request, LeaveGroupResponse)
            return {group_id: outcome(response.error_code, None, response)}

        responses = await self._through_coordinators([group_id], _GROUP, send, timeout_ms, "LeaveGroup")
        outcomes = {
            (member.group_instance_id, member.member_id): member.error_code
            for member in responses[group_id].members
        }
        by_instance = {member.group_instance_id: member.error_code for member in responses[group_id].members}
        return Outcomes(
            {
                member: outcome(
                    outcomes.get(member, by_instance.get(member.group_instance_id, 0)), None, None
                )
                for member in members
            }
        )


def _consumer(group: ConsumerGroupDescribeResponse.DescribedGroup, node: Node) -> GroupDescription:
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
        for member in group.members
    )
    return GroupDescription(
        group_id=group.group_id,
        type=CONSUMER,
        state=group.group_state,
        protocol_type=CONSUMER_PROTOCOL,
        assignor=group.assignor_name,
        coordinator=node,
        members=members,
        authorized_operations=_operations(group.authorized_operations),
        group_epoch=group.group_epoch,
        target_assignment_epoch=group.assignment_epoch,
    )


def _share(group: ShareGroupDescribeResponse.DescribedGroup, node: Node) -> GroupDescription:
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
        for member in group.members
    )
    return GroupDescription(
        group_id=group.group_id,
        type=SHARE,
        state=group.group_state,
        protocol_type=SHARE.lower(),
        assignor=group.assignor_name,
        coordinator=node,
        members=members,
        authorized_operations=_operations(group.authorized_operations),
        group_epoch=group.group_epoch,
        target_assignment_epoch=group.assignment_epoch,
    )


def _classic_outcome(
    group: DescribeGroupsResponse.DescribedGroup, node: Node
) -> GroupDescription | KafkaError:
    if group.error_code:
        return error_for(group.error_code, group.error_message)
    return GroupDescription(
        group_id=group.group_id,
        type=CLASSIC,
        state=group.group_state,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=node,
        members=tuple(_classic_member(member, group.protocol_type) for member in group.members),
        authorized_operations=_operations(group.authorized_operations),
    )


def _classic_member(member: DescribeGroupsResponse.DescribedGroupMember, protocol_type: str) -> GroupMember:
    assignment: frozenset[TopicPartition] = frozenset()
    if protocol_type == CONSUMER_PROTOCOL and member.member_assignment:
        try:
            assignment = frozenset(read_assignment(member.member_assignment).partitions)
        except ProtocolError:
            # Other libraries may store anything in it.
            assignment = frozenset()
    return GroupMember(
        member_id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=assignment,
        group_instance_id=member.group_instance_id,
    )


def _partitions(
    topics: Iterable[
        ConsumerGroupDescribeResponse.TopicPartitions | ShareGroupDescribeResponse.TopicPartitions
    ],
) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.topic_name, number) for topic in topics for number in topic.partitions
    )


def _operations(bits: int) -> tuple[Operation, ...] | None:
    numbers = operations(bits)
    return None if numbers is None else tuple(Operation(number) for number in numbers)
