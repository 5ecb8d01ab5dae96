"""The rebalance of a classic group: from one generation to the next.

What lives here: when a rebalance begins, when enough members have joined, and what happens to those who do
not join, do not sync or do not send heartbeats.  What may not: what requests ask (classic_join.py,
classic_sync.py).

    Empty or Stable --somebody joins or leaves--> PreparingRebalance --all have joined, or time is up-->
    CompletingRebalance --the leader's assignment is committed--> Stable

Nothing happens here at once: entries, answers to members that wait and timers are gathered in
`ClassicChanges` with a copy of the group, and take effect when the decision is accepted.
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
    """Of all classic groups of a shard."""

    def __init__(self, machine: GroupMachine) -> None:
        self._machine = machine
        self._timers = machine.timers

    def changes(self, group: ClassicGroup, context: Context) -> ClassicChanges:
        """For a decision about this group."""
        return ClassicChanges(group, self._machine.table, self._machine.events, context)

    # Beginning

    def rebalance_or_complete(self, changes: ClassicChanges, reason: str) -> None:
        """Something has changed: begin a rebalance, or look whether the one under way has all it needs."""
        if changes.group.can_rebalance:
            self.prepare(changes, reason)
        else:
            self.maybe_complete(changes)

    def prepare(self, changes: ClassicChanges, reason: str) -> None:
        """Begin: everybody has to join again."""
        group, context = changes.group, changes.context
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self.reset_assignments(changes, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs = frozenset()
        changes.then(partial(self._timers.cancel, _sync_key(group.group_id)))
        is_initial = group.state is ClassicState.EMPTY
        if is_initial:
            # Others are likely to come: one rebalance for all is better than one for each (KIP-134).
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
        due = self._of_group(group.group_id, self.complete)
        key, within_ms = _join_key(group.group_id), group.rebalance_timeout_ms
        changes.then(partial(self._timers.schedule, key, within_ms, due))

    def _schedule_initial(self, group_id: str, delay_ms: int, remaining_ms: int) -> None:
        def due(changes: ClassicChanges) -> None:
            group = changes.group
            if group.has_newcomer and remaining_ms:
                # Somebody came meanwhile: wait for more, but not for longer than a rebalance may take.
                group.has_newcomer = False
                next_delay_ms = min(changes.context.settings[INITIAL_DELAY], remaining_ms)
                next_remaining_ms = max(remaining_ms - delay_ms, 0)
                changes.then(partial(self._schedule_initial, group_id, next_delay_ms, next_remaining_ms))
            else:
                self.complete(changes)

        self._timers.schedule(_join_key(group_id), delay_ms, self._of_group(group_id, due))

    # Joining is over

    def maybe_complete(self, changes: ClassicChanges) -> None:
        """Go on if all members have joined; the first rebalance waits for its delay in any case."""
        group = changes.group
        if (
            group.state is ClassicState.PREPARING_REBALANCE
            and group.previous_state is not ClassicState.EMPTY
            and group.has_all_joined
        ):
            self.complete(changes)

    def complete(self, changes: ClassicChanges) -> None:
        """Members that did not join are out, static ones excepted; the others make the next generation."""
        group = changes.group
        changes.then(partial(self._timers.cancel, _join_key(group.group_id)))
        late = [one for one in group.members.values() if one.joining is None and not one.is_static]
        for member in late:
            self.forget(changes, member.member_id)
            changes.note(EventKind.MEMBER_EXPIRED, member.member_id, "did not join in time")
        if late:
            logger.info("group %s: %d members did not join in time", shown(group.group_id), len(late))
        if group.state is ClassicState.DEAD:
            return
        if not group.elect_joined_leader() and group.members:
            # Static members are left, and none of them came: their sessions will end or they will join.
            logger.info("group %s: nobody has joined, it goes on waiting", shown(group.group_id))
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
        self._answer_joins(changes)

    def _answer_joins(self, changes: ClassicChanges) -> None:
        """Everybody hears of the new generation, and is expected to ask for its assignment."""
        group = changes.group
        group.pending_syncs = frozenset(group.members)
        for member in list(group.members.values()):
            group.change(replace(member, is_new=False))
            changes.answer_join(member.member_id, joined(group, member.member_id))
            self.expect_heartbeat(changes, member)
        due = self._of_group(group.group_id, self._expire_syncs)
        key, within_ms = _sync_key(group.group_id), group.rebalance_timeout_ms
        changes.then(partial(self._timers.schedule, key, within_ms, due))

    def _expire_syncs(self, changes: ClassicChanges) -> None:
        """Members that did not ask for their assignment in time are out; a rebalance ends that time."""
        group = changes.group
        if not group.pending_syncs:
            return
        late = sorted(group.pending_syncs)
        group.pending_syncs = frozenset()
        for member_id in late:
            self.forget(changes, member_id)
            changes.note(EventKind.MEMBER_EXPIRED, member_id, "did not sync in time")
        self.prepare(changes, f"{len(late)} members did not ask for their assignment in time")

    # Assignments

    def synced(self, changes: ClassicChanges, member_id: str) -> None:
        """A member has asked for its assignment."""
        group = changes.group
        group.pending_syncs -= {member_id}
        if not group.pending_syncs:
            changes.then(partial(self._timers.cancel, _sync_key(group.group_id)))

    def assign(self, changes: ClassicChanges, assignments: Mapping[str, bytes]) -> None:
        """The leader's assignment is committed: everybody who waits gets its part."""
        group = changes.group
        for member in list(group.members.values()):
            group.change(replace(member, assignment=assignments.get(member.member_id, NO_ASSIGNMENT)))
        group.transition_to(ClassicState.STABLE, changes.context.now_ms)
        self._answer_syncs(changes, ErrorCode.NONE)
        changes.note(EventKind.ASSIGNMENT, group.leader_id or "")

    def reset_assignments(self, changes: ClassicChanges, error: ErrorCode) -> None:
        """There will be no assignment in this generation: everybody who waits is told why."""
        group = changes.group
        for member in list(group.members.values()):
            group.change(replace(member, assignment=NO_ASSIGNMENT))
        self._answer_syncs(changes, error)

    def _answer_syncs(self, changes: ClassicChanges, error: ErrorCode) -> None:
        group = changes.group
        for member in list(group.members.values()):
            if changes.answer_sync(member.member_id, synced(group, member, error)):
                # Its session may have ended unnoticed while it waited.
                self.expect_heartbeat(changes, member)

    # Sessions

    def expect_heartbeat(
        self, changes: ClassicChanges, member: ClassicMember, within_ms: int | None = None
    ) -> None:
        """Of this member, within its session."""
        delay_ms = member.session_timeout_ms if within_ms is None else within_ms
        self.expect_sign(changes, member.member_id, delay_ms)

    def expect_sign(self, changes: ClassicChanges, member_id: str, within_ms: int) -> None:
        """Of this member, or of the one whom this id was given."""
        changes.then(partial(self._schedule_session, changes.group.group_id, member_id, within_ms))

    def heard_of(self, group_id: str, member: ClassicMember) -> None:
        """Its session begins anew: a timer alone, and nothing of the group changes."""
        self._schedule_session(group_id, member.member_id, member.session_timeout_ms)

    def _schedule_session(self, group_id: str, member_id: str, within_ms: int) -> None:
        due = self._of_group(group_id, partial(self._expire_session, member_id))
        self._timers.schedule(_session_key(group_id, member_id), within_ms, due)

    def _expire_session(self, member_id: str, changes: ClassicChanges) -> None:
        group = changes.group
        member = group.members.get(member_id)
        if member is None:
            if member_id in group.pending_joins:
                group.remove(member_id)
                self._without(changes, "")
            return
        if member.is_excused:
            return
        logger.info(
            "group %s: member %s is gone, its session is over", shown(group.group_id), shown(member_id)
        )
        changes.note(EventKind.MEMBER_EXPIRED, member_id, "no heartbeat within its session")
        self.dismiss(changes, member_id)
        self._without(changes, f"member {member_id} sent no heartbeat within its session")

    def _without(self, changes: ClassicChanges, reason: str) -> None:
        """A member, or an id that was given out (no reason to rebalance), is gone."""
        group = changes.group
        if reason and group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            self.rebalance_or_complete(changes, reason)
        elif group.state is ClassicState.PREPARING_REBALANCE and group.has_all_joined:
            self.complete(changes)

    def dismiss(self, changes: ClassicChanges, member_id: str) -> None:
        """Remove a member; if it waits it is told, so that it joins anew if it lives."""
        changes.answer_join(member_id, refused_join(ErrorCode.UNKNOWN_MEMBER_ID))
        self.forget(changes, member_id)

    def forget(self, changes: ClassicChanges, member_id: str) -> None:
        changes.group.remove(member_id)
        changes.then(partial(self._timers.cancel, _session_key(changes.group.group_id, member_id)))

    def forget_group(self, group: ClassicGroup) -> None:
        """The group goes: nothing is expected any more."""
        for member_id in (*group.members, *group.pending_joins):
            self._timers.cancel(_session_key(group.group_id, member_id))
        self._timers.cancel(_join_key(group.group_id))
        self._timers.cancel(_sync_key(group.group_id))

    # Timers

    def _of_group(self, group_id: str, decide: _DecideOfGroup) -> Due:
        """Only if there still is such a classic group."""

        def due(context: Context) -> Decision[None]:
            group = self.classic(group_id)
            if group is None:
                return NOTHING
            changes = self.changes(group, context)
            decide(changes)
            return changes.decision(None)

        return due

    def classic(self, group_id: str) -> ClassicGroup | None:
        """The group as it is now, if there is such a classic group."""
        group = self._machine.table.get(group_id)
        return group if isinstance(group, ClassicGroup) else None


# Answers


def joined(group: ClassicGroup, member_id: str, *, skip_assignment: bool = False) -> JoinGroupResponse:
    """The current generation; its leader hears of all members."""
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


def synced(
    group: ClassicGroup, member: ClassicMember, error: ErrorCode = ErrorCode.NONE
) -> SyncGroupResponse:
    """A member's assignment in the current generation, or why there is none."""
    is_refused = error is not ErrorCode.NONE
    return SyncGroupResponse(
        error_code=error,
        protocol_type=None if is_refused else group.type,
        protocol_name=None if is_refused else group.protocol,
        assignment=member.assignment,
    )


def _join_key(group_id: str) -> tuple[str, ...]:
    return ("classic", group_id, "join")


def _sync_key(group_id: str) -> tuple[str, ...]:
    return ("classic", group_id, "sync")


def _session_key(group_id: str, member_id: str) -> tuple[str, ...]:
    return ("classic", group_id, "session", member_id)
