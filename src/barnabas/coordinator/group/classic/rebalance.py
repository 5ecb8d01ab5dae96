"""The rebalance of a classic group: from one generation to the next.

What lives here: when a rebalance begins, when enough members have joined, and what happens to those who do
not join, do not sync or do not send heartbeats.  What may not: what requests ask (classic_join.py,
classic_sync.py).

    Empty or Stable --somebody joins or leaves--> PreparingRebalance --all have joined, or time is up-->
    CompletingRebalance --the leader's assignment is committed--> Stable

Members that wait are answered from here.  What is returned are entries that have to be written.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from barnabas.base.errors import ErrorCode
from barnabas.base.log_text import shown
from barnabas.coordinator.decision import Context, Decision
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.events import EventKind
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
_DecideOfGroup: TypeAlias = Callable[[ClassicGroup, Context], list[Entry]]


class Rebalances:
    """Of all classic groups of a shard."""

    def __init__(self, machine: GroupMachine) -> None:
        self._machine = machine
        self._timers = machine.timers

    def _note(
        self, group: ClassicGroup, context: Context, kind: EventKind, who: str = "", reason: str = ""
    ) -> None:
        self._machine.events.note(
            group.group_id, context.now_ms, kind, who=who, reason=reason, generation=group.generation
        )

    # Beginning

    def rebalance_or_complete(self, group: ClassicGroup, reason: str, context: Context) -> list[Entry]:
        """Something has changed: begin a rebalance, or look whether the one under way has all it needs."""
        if group.can_rebalance:
            return self.prepare(group, reason, context)
        return self.maybe_complete(group, context)

    def prepare(self, group: ClassicGroup, reason: str, context: Context) -> list[Entry]:
        """Begin: everybody has to join again."""
        if group.state is ClassicState.COMPLETING_REBALANCE:
            self.reset_assignments(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        self._timers.cancel(_sync_key(group.group_id))
        is_initial = group.state is ClassicState.EMPTY
        if is_initial:
            # Others are likely to come: one rebalance for all is better than one for each (KIP-134).
            delay_ms = context.settings[INITIAL_DELAY]
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._schedule_initial(group.group_id, delay_ms, remaining_ms)
        group.transition_to(ClassicState.PREPARING_REBALANCE, context.now_ms)
        logger.info(
            "group %s rebalances after generation %d: %s",
            shown(group.group_id),
            group.generation,
            shown(reason),
        )
        self._note(group, context, EventKind.REBALANCE_STARTED, reason=reason)
        if is_initial:
            return []
        if group.has_all_joined:
            return self.complete(group, context)
        self._schedule_join(group)
        return []

    def _schedule_join(self, group: ClassicGroup) -> None:
        due = self._of_group(group.group_id, self.complete)
        self._timers.schedule(_join_key(group.group_id), group.rebalance_timeout_ms, due)

    def _schedule_initial(self, group_id: str, delay_ms: int, remaining_ms: int) -> None:
        def due(context: Context) -> Decision[None]:
            group = self._classic(group_id)
            if group is None:
                return Decision((), None)
            if group.has_newcomer and remaining_ms:
                # Somebody came meanwhile: wait for more, but not for longer than a rebalance may take.
                group.has_newcomer = False
                next_delay_ms = min(context.settings[INITIAL_DELAY], remaining_ms)
                self._schedule_initial(group_id, next_delay_ms, max(remaining_ms - delay_ms, 0))
                return Decision((), None)
            return Decision(self.complete(group, context), None)

        self._timers.schedule(_join_key(group_id), delay_ms, due)

    # Joining is over

    def maybe_complete(self, group: ClassicGroup, context: Context) -> list[Entry]:
        """Go on if all members have joined; the first rebalance waits for its delay in any case."""
        if (
            group.state is ClassicState.PREPARING_REBALANCE
            and group.previous_state is not ClassicState.EMPTY
            and group.has_all_joined
        ):
            return self.complete(group, context)
        return []

    def complete(self, group: ClassicGroup, context: Context) -> list[Entry]:
        """Members that did not join are out, static ones excepted; the others make the next generation."""
        self._timers.cancel(_join_key(group.group_id))
        late = [one for one in group.members.values() if one.joining is None and not one.is_static]
        for member in late:
            self.forget(group, member.member_id)
            self._note(group, context, EventKind.MEMBER_EXPIRED, member.member_id, "did not join in time")
        if late:
            logger.info("group %s: %d members did not join in time", shown(group.group_id), len(late))
        if group.state is ClassicState.DEAD:
            return []
        if not group.elect_joined_leader() and group.members:
            # Static members are left, and none of them came: their sessions will end or they will join.
            logger.info("group %s: nobody has joined, it goes on waiting", shown(group.group_id))
            self._schedule_join(group)
            return []
        group.next_generation(context.now_ms)
        if group.state is ClassicState.EMPTY:
            logger.info("group %s is empty in generation %d", shown(group.group_id), group.generation)
            self._note(group, context, EventKind.GROUP_EMPTY)
            return [group_entry(group, {})]
        logger.info(
            "group %s has %d members in generation %d",
            shown(group.group_id),
            len(group.members),
            group.generation,
        )
        self._note(group, context, EventKind.GENERATION)
        self._answer_joins(group)
        return []

    def _answer_joins(self, group: ClassicGroup) -> None:
        """Everybody hears of the new generation, and is expected to ask for its assignment."""
        for member in list(group.members.values()):
            member.is_new = False
            group.pending_syncs.add(member.member_id)
            group.answer_join(member, joined(group, member.member_id))
            self.expect_heartbeat(group, member)
        group_id, generation = group.group_id, group.generation
        self._timers.schedule(
            _sync_key(group_id),
            group.rebalance_timeout_ms,
            self._of_group(group_id, partial(self._expire_syncs, generation)),
        )

    def _expire_syncs(self, generation: int, group: ClassicGroup, context: Context) -> list[Entry]:
        """Members that did not ask for their assignment in time are out."""
        if generation != group.generation or not group.pending_syncs:
            return []
        if group.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE):
            return []
        late = sorted(group.pending_syncs)
        for member_id in late:
            self.forget(group, member_id)
            self._note(group, context, EventKind.MEMBER_EXPIRED, member_id, "did not sync in time")
        return self.prepare(group, f"{len(late)} members did not ask for their assignment in time", context)

    # Assignments

    def synced(self, group: ClassicGroup, member_id: str) -> None:
        """A member has asked for its assignment."""
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            self._timers.cancel(_sync_key(group.group_id))

    def assign(self, group: ClassicGroup, assignments: Mapping[str, bytes], context: Context) -> None:
        """The leader's assignment is committed: everybody who waits gets its part."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, NO_ASSIGNMENT)
        group.transition_to(ClassicState.STABLE, context.now_ms)
        self._answer_syncs(group, ErrorCode.NONE)
        self._note(group, context, EventKind.ASSIGNMENT, group.leader_id or "")

    def reset_assignments(self, group: ClassicGroup, error: ErrorCode) -> None:
        """There will be no assignment in this generation: everybody who waits is told why."""
        for member in group.members.values():
            member.assignment = NO_ASSIGNMENT
        self._answer_syncs(group, error)

    def _answer_syncs(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in list(group.members.values()):
            if group.answer_sync(member, synced(group, member, error)):
                # Its session may have ended unnoticed while it waited.
                self.expect_heartbeat(group, member)

    # Sessions

    def expect_heartbeat(
        self, group: ClassicGroup, member: ClassicMember, within_ms: int | None = None
    ) -> None:
        """Of this member, within its session."""
        group.sessions = self
        self.expect_sign(
            group, member.member_id, member.session_timeout_ms if within_ms is None else within_ms
        )

    def expect_sign(self, group: ClassicGroup, member_id: str, within_ms: int) -> None:
        """Of this member, or of the one whom this id was given."""
        key = _session_key(group.group_id, member_id)
        self._timers.schedule(
            key, within_ms, self._of_group(group.group_id, partial(self._expire_session, member_id))
        )

    def _expire_session(self, member_id: str, group: ClassicGroup, context: Context) -> list[Entry]:
        member = group.members.get(member_id)
        if member is None:
            if member_id not in group.pending_joins:
                return []
            group.remove(member_id)
            return self._without(group, "", context)
        if member.is_excused:
            return []
        logger.info(
            "group %s: member %s is gone, its session is over", shown(group.group_id), shown(member_id)
        )
        self._note(group, context, EventKind.MEMBER_EXPIRED, member_id, "no heartbeat within its session")
        self.dismiss(group, member)
        return self._without(group, f"member {member_id} sent no heartbeat within its session", context)

    def _without(self, group: ClassicGroup, reason: str, context: Context) -> list[Entry]:
        """A member, or an id that was given out (no reason to rebalance), is gone."""
        if reason and group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
            return self.rebalance_or_complete(group, reason, context)
        if group.state is ClassicState.PREPARING_REBALANCE and group.has_all_joined:
            return self.complete(group, context)
        return []

    def dismiss(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Remove a member; if it waits it is told, so that it joins anew if it lives."""
        group.answer_join(member, refused_join(ErrorCode.UNKNOWN_MEMBER_ID))
        self.forget(group, member.member_id)

    def forget(self, group: ClassicGroup, member_id: str) -> None:
        group.remove(member_id)
        self._timers.cancel(_session_key(group.group_id, member_id))

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
            group = self._classic(group_id)
            return Decision((), None) if group is None else Decision(decide(group, context), None)

        return due

    def _classic(self, group_id: str) -> ClassicGroup | None:
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


def refused_join(error: ErrorCode, member_id: str = "") -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error, protocol_name=None, leader="", member_id=member_id, members=[])


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
