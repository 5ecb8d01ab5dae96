"""Timeouts of consumer group members.

A member that times out is fenced (`leave`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from barnabas.coordinator.decision import NOTHING, Context, Decision
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import ConsumerMember
from barnabas.coordinator.group.table import GroupTable
from barnabas.coordinator.timers import Due, Timers

# Fences a member of a group for a reason.
Fence: TypeAlias = Callable[[ConsumerGroup, ConsumerMember, str, Context], Decision[None]]

_SESSION, _REBALANCE, _JOIN, _SYNC = "session", "rebalance", "join", "sync"


class Timeouts:
    """The timers of all consumer groups of a shard."""

    def __init__(self, timers: Timers, table: GroupTable, fence: Fence) -> None:
        self._timers = timers
        self._table = table
        self._fence = fence

    def schedule_session_timeout(self, group_id: str, member_id: str, within_ms: int) -> None:
        self._schedule(_SESSION, group_id, member_id, within_ms, "the member session expired")

    def schedule_rebalance_timeout(self, group_id: str, member: ConsumerMember) -> None:
        """The member has to revoke partitions, or at least to leave its epoch."""
        member_id, epoch, within_ms = member.member_id, member.member_epoch, member.rebalance_timeout_ms
        reason = f"it failed to transition from epoch {epoch} within {within_ms}ms"
        decide = partial(self._on_timeout, group_id, member_id, reason, epoch)
        self._timers.schedule(_key(_REBALANCE, group_id, member_id), within_ms, decide)

    def cancel_rebalance_timeout(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(_key(_REBALANCE, group_id, member_id))

    def schedule_join_timeout(self, group_id: str, member_id: str, within_ms: int) -> None:
        """A classic member was asked to rejoin; a running timer is not restarted."""
        if not self._timers.has(_key(_JOIN, group_id, member_id)):
            reason = "the classic member failed to join within the rebalance timeout"
            self._schedule(_JOIN, group_id, member_id, within_ms, reason)

    def cancel_join_timeout(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(_key(_JOIN, group_id, member_id))

    def schedule_sync_timeout(self, group_id: str, member_id: str, within_ms: int) -> None:
        self._schedule(_SYNC, group_id, member_id, within_ms, "the member failed to sync within timeout")

    def cancel_sync_timeout(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(_key(_SYNC, group_id, member_id))

    def cancel_timeouts(self, group_id: str, member_id: str) -> None:
        """Cancel all timeouts of a member."""
        for kind in (_SESSION, _REBALANCE, _JOIN, _SYNC):
            self._timers.cancel(_key(kind, group_id, member_id))

    def expire(self, group_id: str, member_id: str, reason: str) -> Due:
        """A decision that fences a member although it is in time."""
        return partial(self._on_timeout, group_id, member_id, reason, None)

    def _schedule(self, kind: str, group_id: str, member_id: str, within_ms: int, reason: str) -> None:
        decide = partial(self._on_timeout, group_id, member_id, reason, None)
        self._timers.schedule(_key(kind, group_id, member_id), within_ms, decide)

    def _on_timeout(
        self, group_id: str, member_id: str, reason: str, epoch: int | None, context: Context
    ) -> Decision[None]:
        """Ignored if the group or the member was removed, or the member has left that epoch."""
        group = self._table.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or (epoch is not None and epoch != member.member_epoch):
            return NOTHING
        assert isinstance(group, ConsumerGroup), "it has this member"
        return self._fence(group, member, reason, context)


def _key(kind: str, group_id: str, member_id: str) -> tuple[str, str, str, str]:
    return ("consumer", group_id, kind, member_id)
