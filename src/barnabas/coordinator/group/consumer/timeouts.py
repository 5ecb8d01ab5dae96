"""What is expected of members of consumer groups, and until when.

What lives here: the timers.  What may not: what happens to a member that did not keep its time, which is
always the same: it is fenced (`consumer_leave`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from barnabas.coordinator.decision import NOTHING, Context, Decision
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import ConsumerMember
from barnabas.coordinator.group.table import GroupTable
from barnabas.coordinator.timers import Timers

# Fences a member of a group for a reason.
Fence: TypeAlias = Callable[[ConsumerGroup, ConsumerMember, str, Context], Decision[None]]

_SESSION, _REBALANCE, _JOIN, _SYNC = "session", "rebalance", "join", "sync"


class Timeouts:
    """Of all consumer groups of a shard."""

    def __init__(self, timers: Timers, table: GroupTable, fence: Fence) -> None:
        self._timers = timers
        self._table = table
        self._fence = fence

    def expect_heartbeat(self, group_id: str, member_id: str, within_ms: int) -> None:
        self._expect(_SESSION, group_id, member_id, within_ms, "the member session expired")

    def expect_revocation(self, group_id: str, member: ConsumerMember) -> None:
        """It has to give up partitions, or at least to leave its epoch."""
        member_id, epoch, within_ms = member.member_id, member.member_epoch, member.rebalance_timeout_ms
        reason = f"it failed to transition from epoch {epoch} within {within_ms}ms"
        decide = partial(self._due, group_id, member_id, reason, epoch)
        self._timers.schedule(_key(_REBALANCE, group_id, member_id), within_ms, decide)

    def revocation_done(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(_key(_REBALANCE, group_id, member_id))

    def expect_join(self, group_id: str, member_id: str, within_ms: int) -> None:
        """A member of the classic kind was told to join again; that time does not begin anew."""
        if not self._timers.has(_key(_JOIN, group_id, member_id)):
            reason = "the classic member failed to join within the rebalance timeout"
            self._expect(_JOIN, group_id, member_id, within_ms, reason)

    def joined(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(_key(_JOIN, group_id, member_id))

    def expect_sync(self, group_id: str, member_id: str, within_ms: int) -> None:
        self._expect(_SYNC, group_id, member_id, within_ms, "the member failed to sync within timeout")

    def synced(self, group_id: str, member_id: str) -> None:
        self._timers.cancel(_key(_SYNC, group_id, member_id))

    def forget(self, group_id: str, member_id: str) -> None:
        """Nothing is expected of it any more."""
        for what in (_SESSION, _REBALANCE, _JOIN, _SYNC):
            self._timers.cancel(_key(what, group_id, member_id))

    def _expect(self, what: str, group_id: str, member_id: str, within_ms: int, reason: str) -> None:
        decide = partial(self._due, group_id, member_id, reason, None)
        self._timers.schedule(_key(what, group_id, member_id), within_ms, decide)

    def _due(
        self, group_id: str, member_id: str, reason: str, epoch: int | None, context: Context
    ) -> Decision[None]:
        """Unless the group or the member is gone, or has left the epoch that counts."""
        group = self._table.get(group_id)
        member = group.members.get(member_id) if isinstance(group, ConsumerGroup) else None
        if member is None or (epoch is not None and epoch != member.member_epoch):
            return NOTHING
        assert isinstance(group, ConsumerGroup), "it has this member"
        return self._fence(group, member, reason, context)


def _key(what: str, group_id: str, member_id: str) -> tuple[str, str, str, str]:
    return ("consumer", group_id, what, member_id)
