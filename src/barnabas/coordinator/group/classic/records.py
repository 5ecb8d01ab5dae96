"""Classic groups in the log: one record a group, with its last generation and everybody's assignment.

What lives here: from a group to its record and back.  What may not: when it is written.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.coordinator.entry import Entry
from barnabas.coordinator.group.classic.group import ClassicGroup, ClassicState
from barnabas.coordinator.group.classic.member import NO_ASSIGNMENT, ClassicMember
from barnabas.protocol.records.group import GroupMetadataKey, GroupMetadataValue

# What every metadata.version from 3.3 on prescribes.
VALUE_VERSION = 3
_NOT_TOLD = -1


def group_entry(group: ClassicGroup, assignments: Mapping[str, bytes]) -> Entry:
    """The group as it is now; who has no assignment has an empty one.

    Members without a leader are yet to rebalance: without that, whoever loads a group that has just become a
    classic one (KIP-848) could not know that nobody owns the partitions of those who left.  Apache Kafka
    takes the first member for the leader.
    """
    return _entry(
        group,
        GroupMetadataValue(
            protocol_type=group.protocol_type,
            generation=group.generation,
            protocol=group.protocol,
            leader=None if group.needs_rebalance else group.leader_id,
            current_state_timestamp=_timestamp(group),
            members=[
                GroupMetadataValue.MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.metadata_for(group.protocol),
                    assignment=assignments.get(member.member_id, NO_ASSIGNMENT),
                )
                for member in group.ordered_members()
            ],
        ),
    )


def new_group_entry(group: ClassicGroup) -> Entry:
    """A group that has just come into being: nobody has joined yet, and so it has no protocol."""
    return _entry(
        group,
        GroupMetadataValue(
            protocol_type="",
            generation=0,
            protocol=None,
            leader=None,
            current_state_timestamp=_timestamp(group),
            members=[],
        ),
    )


def _entry(group: ClassicGroup, value: GroupMetadataValue) -> Entry:
    return Entry(GroupMetadataKey(group=group.group_id), value, VALUE_VERSION)


def _timestamp(group: ClassicGroup) -> int:
    return _NOT_TOLD if group.state_since_ms is None else group.state_since_ms


def group_of(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """The group that a record tells of.  ValueError: it contradicts itself."""
    since_ms = value.current_state_timestamp
    group = ClassicGroup(group_id, None if since_ms == _NOT_TOLD else since_ms)
    group.type = value.protocol_type or None
    group.protocol = value.protocol
    group.generation = value.generation
    group.leader_id = value.leader
    if value.members and value.protocol is None:
        raise ValueError(f"group {group_id} has members and no protocol")
    for told in value.members:
        group.add(_member_of(told, value.protocol or ""), value.protocol_type)
    if group.members:
        group.state = ClassicState.STABLE
        group.needs_rebalance = value.leader is None
        if group.leader_id not in group.members:
            group.leader_id = group.ordered_members()[0].member_id
    group.subscribed_topics = group.compute_subscribed_topics()
    return group


def _member_of(told: GroupMetadataValue.MemberMetadata, protocol: str) -> ClassicMember:
    rebalance_ms = told.rebalance_timeout
    return ClassicMember(
        told.member_id,
        told.group_instance_id,
        told.client_id,
        told.client_host,
        rebalance_timeout_ms=told.session_timeout if rebalance_ms == _NOT_TOLD else rebalance_ms,
        session_timeout_ms=told.session_timeout,
        protocols=((protocol, bytes(told.subscription)),),
        assignment=bytes(told.assignment),
    )
