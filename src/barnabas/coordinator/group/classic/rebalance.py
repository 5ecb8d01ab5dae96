"""The rebalance of a classic group: from one generation to the next.

Starts and completes rebalances, and removes members that do not join, sync or send heartbeats.  Requests
belong in `join` and `sync`.

    Empty or Stable --a member joins or leaves--> PreparingRebalance --all joined, or timeout-->
    CompletingRebalance --the leader's assignment is committed--> Stable

Nothing takes effect immediately: entries, responses and timers are collected in `ClassicChanges`, together
with a copy of the group, and take effect when the decision is accepted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from barnabas.base.errors import ErrorCode
from barnabas.base.log_text import shown
from barnabas.coordinator.decision import NOTHING, Context, Decision
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.classic.changes import ClassicChanges, refused_join
from barnabas.coordinator.group.classic.group import ClassicGroup, ClassicState
from barnabas.coordinator.group.classic.member import NO_ASSIGNMENT, ClassicMember
from barnabas.coordinator.group.classic.records import group_entry
from barnabas.coordinator.timers import Due
from barnabas.protocol.messages.join_group import JoinGroupResponse
from barnabas.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine

logger = logging.getLogger(__name__)

INITIAL_DELAY = "group.initial.rebalance.delay.ms"
_DecideOfGroup: TypeAlias = Callable[[ClassicChanges], None]


class Rebalances:
    """Rebalance decisions for all classic groups of a shard."""

    def __init__(self, machine: GroupMachine) -> None:
        self._machine = machine
        self._timers = machine.timers

    def changes(self, group: ClassicGroup, context: Context) -> ClassicChanges:
        """Changes for a decision about this group."""
        return ClassicChanges(group, self._machine.table, self._machine.events, context)

    # Start

    def rebalance_or_complete(self, changes: ClassicChanges, reason: str) -> None:
        """After a change: start a rebalance, or complete the current one if all members have joined."""
        if changes.group.can_rebalance:
            self.prepare(changes, reason)
        else:
            self.maybe_complete(changes)

    def prepare(self, changes: ClassicChanges, reason: str) -> None:
        """Start a rebalance: all members have to rejoin."""
        group, context = changes.group, changes.context
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self.reset_assignments(changes, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs = frozenset()
        changes.then(partial(self._timers.cancel, _sync_key(group.group_id)))
        is_initial = group.state is ClassicState.EMPTY
        if is_initial:
            # More members are likely to join: one rebalance for all is better than one for each (KIP-134).
            delay_ms = context.settings[INITIAL_DELAY]
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            changes.then(partial(self._schedule_initial, group.group_id, delay_ms, remaining_ms))
        group.transition_to(ClassicState.PREPARING_REBALANCE, context.now_ms)
        logger.info(
            "group %s rebalances after generation %d: %s",
            shown(group.group_id),
            group.generation,
            shown(reason),
        )
        changes.note(EventKind.REBALANCE_STARTED, reason=reason)
        if is_initial:
            return
        if group.has_all_joined:
            self.complete(changes)
        else:
            self._await_joins(changes)

    def _await_joins(self, changes: ClassicChanges) -> None:
        group = changes.group
        due = self._on_timeout(group.group_id, self.complete)
        key, within_ms = _join_key(group.group_id), group.rebalance_timeout_ms
        changes.then(partial(self._timers.schedule, key, within_ms, due))

    def _schedule_initial(self, group_id: str, delay_ms: int, remaining_ms: int) -> None:
        def due(changes: ClassicChanges) -> None:
            group = changes.group
            if group.new_member_added and remaining_ms:
                # A member joined in the meantime: wait for more, but no longer than the rebalance timeout.
                group.new_member_added = False
                next_delay_ms = min(changes.context.settings[INITIAL_DELAY], remaining_ms)
                next_remaining_ms = max(remaining_ms - delay_ms, 0)
                changes.then(partial(self._schedule_initial, group_id, next_delay_ms, next_remaining_ms))
            else:
                self.complete(changes)

        self._timers.schedule(_join_key(group_id), delay_ms, self._on_timeout(group_id, due))

    # Completion

    def maybe_complete(self, changes: ClassicChanges) -> None:
        """Complete the rebalance if all members have joined; the initial one always waits for its delay."""
        group = changes.group
        if (
            group.state is ClassicState.PREPARING_REBALANCE
            and group.previous_state is not ClassicState.EMPTY
            and group.has_all_joined
        ):
            self.complete(changes)

    def complete(self, changes: ClassicChanges) -> None:
        """Remove dynamic members that did not join; the others form the next generation."""
        group = changes.group
        changes.then(partial(self._timers.cancel, _join_key(group.group_id)))
        late = [
            member for member in group.members.values() if member.joining is None and not member.is_static
        ]
        for member in late:
            self.remove_member(changes, member.member_id)
            changes.note(EventKind.MEMBER_EXPIRED, member.member_id, "did not join in time")
        if late:
            logger.info("group %s: %d members did not join in time", shown(group.group_id), len(late))
        if group.state is ClassicState.DEAD:
            return
        if not group.elect_joined_leader() and group.members:
            # Only static members remain and none has joined: their sessions will expire or they will join.
            logger.info("group %s: no member has joined; waiting", shown(group.group_id))
            self._await_joins(changes)
            return
        group.next_generation(changes.context.now_ms)
        if group.state is ClassicState.EMPTY:
            logger.info("group %s is empty in generation %d", shown(group.group_id), group.generation)
            changes.note(EventKind.GROUP_EMPTY)
            changes.write([group_entry(group, {})])
            return
        logger.info(
            "group %s has %d members in generation %d",
            shown(group.group_id),
            len(group.members),
            group.generation,
        )
        changes.note(EventKind.GENERATION)
        self._complete_joins(changes)

    def _complete_joins(self, changes: ClassicChanges) -> None:
        """Respond to all members with the new generation; each must send SyncGroup next."""
        group = changes.group
        group.pending_syncs = frozenset(group.members)
        for member in list(group.members.values()):
            group.change(replace(member, is_new=False))
            changes.complete_join(member.member_id, join_response(group, member.member_id))
            self.expect_heartbeat(changes, member)
        due = self._on_timeout(group.group_id, self._expire_syncs)
        key, within_ms = _sync_key(group.group_id), group.rebalance_timeout_ms
        changes.then(partial(self._timers.schedule, key, within_ms, due))

    def _expire_syncs(self, changes: ClassicChanges) -> None:
        """Remove members that did not send SyncGroup in time.  A rebalance cancels this timeout."""
        group = changes.group
        if not group.pending_syncs:
            return
        late = sorted(group.pending_syncs)
        group.pending_syncs = frozenset()
        for member_id in late:
            self.remove_member(changes, member_id)
            changes.note(EventKind.MEMBER_EXPIRED, member_id, "did not sync in time")
        self.prepare(changes, f"{len(late)} members did not sync in time")

    # Assignments

    def member_synced(self, changes: ClassicChanges, member_id: str) -> None:
        """A member has sent SyncGroup."""
        group = changes.group
        group.pending_syncs -= {member_id}
        if not group.pending_syncs:
            changes.then(partial(self._timers.cancel, _sync_key(group.group_id)))

    def assign(self, changes: ClassicChanges, assignments: Mapping[str, bytes]) -> None:
        """Called when the leader's assignment is committed: respond to the waiting members."""
        group = changes.group
        for member in list(group.members.values()):
            group.change(replace(member, assignment=assignments.get(member.member_id, NO_ASSIGNMENT)))
        group.transition_to(ClassicState.STABLE, changes.context.now_ms)
        self._complete_syncs(changes, ErrorCode.NONE)
        changes.note(EventKind.ASSIGNMENT, group.leader_id or "")

    def reset_assignments(self, changes: ClassicChanges, error: ErrorCode) -> None:
        """No assignment will follow in this generation: waiting members get this error."""
        group = changes.group
        for member in list(group.members.values()):
            group.change(replace(member, assignment=NO_ASSIGNMENT))
        self._complete_syncs(changes, error)

    def _complete_syncs(self, changes: ClassicChanges, error: ErrorCode) -> None:
        group = changes.group
        for member in list(group.members.values()):
            if changes.complete_sync(member.member_id, sync_response(group, member, error)):
                # Its session may have expired while it waited.
                self.expect_heartbeat(changes, member)

    # Sessions

    def expect_heartbeat(
        self, changes: ClassicChanges, member: ClassicMember, within_ms: int | None = None
    ) -> None:
        """Expect a heartbeat from this member within its session timeout."""
        delay_ms = member.session_timeout_ms if within_ms is None else within_ms
        self.start_session(changes, member.member_id, delay_ms)

    def start_session(self, changes: ClassicChanges, member_id: str, within_ms: int) -> None:
        """Start a session for a member or a pending member id."""
        changes.then(partial(self._schedule_session, changes.group.group_id, member_id, within_ms))

    def renew_session(self, group_id: str, member: ClassicMember) -> None:
        """Restart the member's session timer; the group does not change."""
        self._schedule_session(group_id, member.member_id, member.session_timeout_ms)

    def _schedule_session(self, group_id: str, member_id: str, within_ms: int) -> None:
        due = self._on_timeout(group_id, partial(self._expire_session, member_id))
        self._timers.schedule(_session_key(group_id, member_id), within_ms, due)

    def _expire_session(self, member_id: str, changes: ClassicChanges) -> None:
        group = changes.group
        member = group.members.get(member_id)
        if member is None:
            if member_id in group.pending_joins:
                group.remove(member_id)
                self._member_removed(changes, "")
            return
        if member.has_satisfied_heartbeat:
            return
        logger.info("group %s: the session of member %s has expired", shown(group.group_id), shown(member_id))
        changes.note(EventKind.MEMBER_EXPIRED, member_id, "no heartbeat within its session")
        self.evict_member(changes, member_id)
        self._member_removed(changes, f"member {member_id} sent no heartbeat within its session")

    def _member_removed(self, changes: ClassicChanges, reason: str) -> None:
        """Called after a member, or a pending member id (then without a reason to rebalance), was removed."""
        group = changes.group
        if reason and group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            self.rebalance_or_complete(changes, reason)
        elif group.state is ClassicState.PREPARING_REBALANCE and group.has_all_joined:
            self.complete(changes)

    def evict_member(self, changes: ClassicChanges, member_id: str) -> None:
        """Remove a member; its waiting JoinGroup fails, so that a live client rejoins."""
        changes.complete_join(member_id, refused_join(ErrorCode.UNKNOWN_MEMBER_ID))
        self.remove_member(changes, member_id)

    def remove_member(self, changes: ClassicChanges, member_id: str) -> None:
        changes.group.remove(member_id)
        changes.then(partial(self._timers.cancel, _session_key(changes.group.group_id, member_id)))

    def cancel_timers(self, group: ClassicGroup) -> None:
        """Cancel all timers of a removed group."""
        for member_id in (*group.members, *group.pending_joins):
            self._timers.cancel(_session_key(group.group_id, member_id))
        self._timers.cancel(_join_key(group.group_id))
        self._timers.cancel(_sync_key(group.group_id))

    # Timers

    def _on_timeout(self, group_id: str, decide: _DecideOfGroup) -> Due:
        """A timer decision that applies only if the classic group still exists."""

        def due(context: Context) -> Decision[None]:
            group = self.classic(group_id)
            if group is None:
                return NOTHING
            changes = self.changes(group, context)
            decide(changes)
            return changes.decision(None)

        return due

    def force(self, group_id: str, reason: str) -> Due:
        """A decision that starts a rebalance without need."""

        def decide(changes: ClassicChanges) -> None:
            if changes.group.can_rebalance and not changes.group.is_empty:
                self.prepare(changes, reason)

        return self._on_timeout(group_id, decide)

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The current group with this id, if it is a classic group."""
        group = self._machine.table.get(group_id)
        return group if isinstance(group, ClassicGroup) else None


# Responses


def join_response(group: ClassicGroup, member_id: str, *, skip_assignment: bool = False) -> JoinGroupResponse:
    """The response for the current generation; the leader's includes all members."""
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=group.generation,
        protocol_type=group.type,
        protocol_name=group.protocol,
        leader=group.leader_id or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=_all_members(group) if group.is_leader(member_id) else [],
    )


def _all_members(group: ClassicGroup) -> list[JoinGroupResponse.Member]:
    return [
        JoinGroupResponse.Member(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata_for(group.protocol),
        )
        for member in group.ordered_members()
    ]


def sync_response(
    group: ClassicGroup, member: ClassicMember, error: ErrorCode = ErrorCode.NONE
) -> SyncGroupResponse:
    """A member's assignment in the current generation, or the error."""
    is_error = error is not ErrorCode.NONE
    return SyncGroupResponse(
        error_code=error,
        protocol_type=None if is_error else group.type,
        protocol_name=None if is_error else group.protocol,
        assignment=member.assignment,
    )


def _join_key(group_id: str) -> tuple[str, ...]:
    return ("classic", group_id, "join")


def _sync_key(group_id: str) -> tuple[str, ...]:
    return ("classic", group_id, "sync")


def _session_key(group_id: str, member_id: str) -> tuple[str, ...]:
    return ("classic", group_id, "session", member_id)
