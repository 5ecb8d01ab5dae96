"""Records of classic groups: one per group, with its last generation and all assignments."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.coordinator.entry import Entry
from barnabas.coordinator.group.classic.group import ClassicGroup, ClassicState
from barnabas.coordinator.group.classic.member import NO_ASSIGNMENT, ClassicMember
from barnabas.protocol.records.group import GroupMetadataKey, GroupMetadataValue

# The version for every metadata.version since 3.3.
VALUE_VERSION = 3
_UNSET = -1


def group_entry(group: ClassicGroup, assignments: Mapping[str, bytes]) -> Entry:
    """The current group; members without an assignment get an empty one.

    A record with members but no leader means that a rebalance is due.  Otherwise, after a failover, a group
    that was just converted to a classic group (KIP-848) would not reassign the partitions of removed members.
    Apache Kafka picks the first member as the leader.
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
    """A group that was just created: it has no members yet and so no protocol."""
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
    return _UNSET if group.state_since_ms is None else group.state_since_ms


def group_from_record(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """Rebuild the group of a record; raises ValueError if the record is inconsistent."""
    since_ms = value.current_state_timestamp
    group = ClassicGroup(group_id, None if since_ms == _UNSET else since_ms)
    group.type = value.protocol_type or None
    group.protocol = value.protocol
    group.generation = value.generation
    group.leader_id = value.leader
    if value.members and value.protocol is None:
        raise ValueError(f"group {group_id} has members and no protocol")
    for member in value.members:
        group.add(_member_from_record(member, value.protocol or ""), value.protocol_type)
    if group.members:
        group.state = ClassicState.STABLE
        group.needs_rebalance = value.leader is None
        if group.leader_id not in group.members:
            group.leader_id = group.ordered_members()[0].member_id
    group.subscribed_topics = group.compute_subscribed_topics()
    return group


def _member_from_record(member: GroupMetadataValue.MemberMetadata, protocol: str) -> ClassicMember:
    rebalance_ms = member.rebalance_timeout
    return ClassicMember(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        rebalance_timeout_ms=member.session_timeout if rebalance_ms == _UNSET else rebalance_ms,
        session_timeout_ms=member.session_timeout,
        protocols=((protocol, bytes(member.subscription)),),
        assignment=bytes(member.assignment),
    )
