"""Members that use the classic protocol in a consumer group (KIP-848).

Handles their JoinGroup, SyncGroup, Heartbeat and LeaveGroup.  Classic groups belong in `classic`.

For these members the member epoch is the generation.  JoinGroup responds immediately, and SyncGroup returns
the assignment; a heartbeat asks them to rejoin when there are partitions to revoke or to receive.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.decision import Changes, Context, Decision
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.caller import Caller
from barnabas.coordinator.group.classic.changes import refused_join
from barnabas.coordinator.group.classic.join import FIRST_VERSION_REQUIRING_MEMBER_ID, UNKNOWN_MEMBER
from barnabas.coordinator.group.classic.leave import leave_response
from barnabas.coordinator.group.consumer.group import PROTOCOL_TYPE, ConsumerGroup
from barnabas.coordinator.group.consumer.joining import (
    check_group_size,
    check_instance,
    dynamic_member,
    known_static,
    static_member,
)
from barnabas.coordinator.group.consumer.leave import LeaveDecisions
from barnabas.coordinator.group.consumer.member import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerMember,
    MemberState,
)
from barnabas.coordinator.group.consumer.member_updater import MemberUpdate, MemberUpdater, write_subscription
from barnabas.coordinator.group.conversion.conversion import can_downgrade_replacing
from barnabas.coordinator.group.conversion.embedded_protocol import (
    owned_partitions,
    read_subscription,
    read_version,
    write_assignment,
)
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.records.consumer_protocol import ConsumerProtocolSubscription
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.random import random_uuid

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine


class ClassicMembers:
    """Decisions for the classic members of all consumer groups of a shard."""

    def __init__(self, machine: GroupMachine, leaves: LeaveDecisions, updater: MemberUpdater) -> None:
        self._machine = machine
        self._leaves = leaves
        self._timeouts = leaves.timeouts
        self._updater = updater

    # JoinGroup

    def join(
        self, group: ConsumerGroup, request: JoinGroupRequest, caller: Caller, context: Context
    ) -> Decision[JoinGroupResponse]:
        """Join a consumer group that is not empty."""
        is_unknown = request.member_id == UNKNOWN_MEMBER
        member_id = str(random_uuid(context.random)) if is_unknown else request.member_id
        check_group_size(group, member_id, context.settings["group.consumer.max.size"])
        if not group.supports_classic_protocols(
            request.protocol_type, {protocol.name for protocol in request.protocols}
        ):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported."
            )
        instance_id = request.group_instance_id
        if instance_id is None and is_unknown and caller.api_version >= FIRST_VERSION_REQUIRING_MEMBER_ID:
            return Decision((), refused_join(ErrorCode.MEMBER_ID_REQUIRED, member_id))
        changes = Changes()
        if instance_id is None:
            before = dynamic_member(group, member_id, create=True)
        else:
            before = static_member(
                group, member_id, instance_id, create=is_unknown, classic=True, changes=changes
            )
        subscription = _subscription(request)
        after = _changed_by(before, request, subscription, caller)
        bump = write_subscription(group.group_id, before, after, changes)
        update = MemberUpdate(group, before, after, owned_partitions(subscription, context.image))
        updated = self._updater.update(update, bump=bump, changes=changes, context=context)
        replaced = group.static_member(instance_id)
        is_downgrade = replaced is not None and can_downgrade_replacing(group, replaced, context.settings)
        if is_downgrade:
            self._leaves.downgrade(group, [], updated, changes, context)
        self._after_join(group.group_id, updated, request, is_downgrade, changes, context)
        return changes.decision(_join_response(updated))

    def _after_join(
        self,
        group_id: str,
        member: ConsumerMember,
        request: JoinGroupRequest,
        is_downgrade: bool,
        changes: Changes,
        context: Context,
    ) -> None:
        member_id = member.member_id
        changes.then(partial(self._timeouts.cancel_join_timeout, group_id, member_id))
        if not is_downgrade:
            schedule, session_ms = self._timeouts.schedule_session_timeout, request.session_timeout_ms
            changes.then(partial(schedule, group_id, member_id, session_ms))
            changes.then(
                partial(
                    self._timeouts.schedule_sync_timeout, group_id, member_id, request.rebalance_timeout_ms
                )
            )
        changes.then(
            partial(
                self._machine.events.note,
                group_id,
                context.now_ms,
                EventKind.MEMBER_JOINED,
                who=member_id,
                reason=request.reason or "",
                generation=member.member_epoch,
            )
        )

    # SyncGroup

    def sync(
        self, group: ConsumerGroup, request: SyncGroupRequest, context: Context
    ) -> Decision[SyncGroupResponse]:
        member, metadata = _classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        _check_protocol(member, metadata, request)
        changes = Changes()
        if group.group_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            changes.then(self._schedule_join_timeout(group, member))
            refused: Promise[SyncGroupResponse] = Promise()
            refused.fail(
                KafkaError(
                    ErrorCode.REBALANCE_IN_PROGRESS,
                    f"A new rebalance is triggered in group {group.group_id} and member {member.member_id} "
                    "should rejoin to catch up.",
                )
            )
            return changes.decision(refused)
        version = read_version(metadata.protocols[0].metadata)
        response = SyncGroupResponse(
            error_code=ErrorCode.NONE,
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=write_assignment(member.assigned, context.image, version),
        )
        changes.then(partial(self._timeouts.cancel_sync_timeout, group.group_id, member.member_id))
        schedule, session_ms = self._timeouts.schedule_session_timeout, metadata.session_timeout_ms
        changes.then(partial(schedule, group.group_id, member.member_id, session_ms))
        return changes.decision(response)

    # Heartbeat

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest) -> Decision[HeartbeatResponse]:
        member, metadata = _classic_member(group, request.member_id, request.group_instance_id)
        _check_generation(member, request.generation_id)
        changes = Changes()
        schedule, session_ms = self._timeouts.schedule_session_timeout, metadata.session_timeout_ms
        changes.then(partial(schedule, group.group_id, member.member_id, session_ms))
        error = ErrorCode.NONE
        if _has_to_rejoin(group, member):
            error = ErrorCode.REBALANCE_IN_PROGRESS
            changes.then(self._schedule_join_timeout(group, member))
        return changes.decision(HeartbeatResponse(error_code=error))

    def _schedule_join_timeout(self, group: ConsumerGroup, member: ConsumerMember) -> partial[None]:
        """The member was asked to rejoin: its join timeout starts."""
        within_ms = member.rebalance_timeout_ms
        return partial(self._timeouts.schedule_join_timeout, group.group_id, member.member_id, within_ms)

    # LeaveGroup

    def leave(
        self, group: ConsumerGroup, request: LeaveGroupRequest, context: Context
    ) -> Decision[LeaveGroupResponse]:
        """An admin client can remove members of both protocols."""
        responses = []
        leaving: dict[str, ConsumerMember] = {}
        for identity in request.members:
            try:
                member = _leaving_member(group, identity)
            except KafkaError as error:
                responses.append(leave_response(identity, error.code))
            else:
                responses.append(leave_response(identity, ErrorCode.NONE))
                leaving[member.member_id] = member
        reasons = sorted({identity.reason for identity in request.members if identity.reason})
        response = LeaveGroupResponse(error_code=ErrorCode.NONE, members=responses)
        return self._leaves.fence(
            group,
            list(leaving.values()),
            response,
            "; ".join(reasons) or "left",
            EventKind.MEMBER_LEFT,
            context,
        )


def _leaving_member(group: ConsumerGroup, identity: LeaveGroupRequest.MemberIdentity) -> ConsumerMember:
    if identity.group_instance_id is None:
        return group.member(identity.member_id)
    member = known_static(group.static_member(identity.group_instance_id), identity.group_instance_id)
    if identity.member_id != UNKNOWN_MEMBER:
        check_instance(member, identity.member_id, identity.group_instance_id)
    return member


def _classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    if instance_id is None:
        member = group.member(member_id)
    else:
        static = group.static_member(instance_id)
        if static is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID,
                f"Member with instance id {instance_id} is not a member of group {group.group_id}.",
            )
        check_instance(static, member_id, instance_id)
        member = static
    if member.classic is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member.member_id} does not use the classic protocol."
        )
    return member, member.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.member_epoch:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch {member.member_epoch} "
            f"of member {member.member_id}.",
        )


def _check_protocol(
    member: ConsumerMember, metadata: ClassicMemberMetadata, request: SyncGroupRequest
) -> None:
    requested_type, requested_name = request.protocol_type, request.protocol_name
    if requested_type is not None and requested_type != PROTOCOL_TYPE:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol type {requested_type} from member {member.member_id} request is not equal to the "
            f"group protocol type {PROTOCOL_TYPE}.",
        )
    name = metadata.protocols[0].name
    if requested_name is not None and requested_name != name:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            f"The protocol name {requested_name} from member {member.member_id} request is not equal to the "
            f"protocol name {name} returned in the join response.",
        )


def _has_to_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    return (
        member.member_epoch < group.group_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (
            member.state is MemberState.UNRELEASED_PARTITIONS
            and not group.waits_for_unreleased_partitions(member)
        )
    )


def _subscription(request: JoinGroupRequest) -> ConsumerProtocolSubscription:
    try:
        return read_subscription(bytes(request.protocols[0].metadata))
    except ProtocolError as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "Malformed embedded consumer protocol in subscription deserialization.",
        ) from error


def _changed_by(
    member: ConsumerMember,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
    caller: Caller,
) -> ConsumerMember:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        subscribed_names=frozenset(subscription.topics),
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicMemberMetadata(
            request.session_timeout_ms,
            tuple(ClassicProtocol(protocol.name, bytes(protocol.metadata)) for protocol in request.protocols),
        ),
    )


def _join_response(member: ConsumerMember) -> JoinGroupResponse:
    assert member.classic is not None, "it joined with the classic protocol"
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=member.member_epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=member.classic.protocols[0].name,
        leader="",
        member_id=member.member_id,
        members=[],
    )
