"""Processes a member's request: subscription, group epoch, target assignment, reconciliation.

Every request of a member takes these steps, with either protocol.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import NamedTuple

from barnabas.base.log_text import shown
from barnabas.coordinator.decision import Changes, Context
from barnabas.coordinator.events import EventKind, Events
from barnabas.coordinator.group.assignors.spec import Assignment
from barnabas.coordinator.group.consumer import entries
from barnabas.coordinator.group.consumer.group import METADATA_REFRESH_MS, ConsumerGroup
from barnabas.coordinator.group.consumer.member import ConsumerMember, MemberState
from barnabas.coordinator.group.consumer.options import assignors_of
from barnabas.coordinator.group.consumer.reconcile import Owned, reconcile
from barnabas.coordinator.group.consumer.timeouts import Timeouts
from barnabas.coordinator.group.subscription.subscription import TopicHashes, is_homogeneous
from barnabas.coordinator.group.subscription.target import compute_target
from barnabas.coordinator.group.table import GroupTable

logger = logging.getLogger(__name__)


class MemberUpdate(NamedTuple):
    """A member before and after its request, and the partitions it reports as owned."""

    group: ConsumerGroup
    before: ConsumerMember
    after: ConsumerMember
    owned: Owned


class MemberUpdater:
    """Member updates for all consumer groups of a shard."""

    def __init__(self, table: GroupTable, hashes: TopicHashes, timeouts: Timeouts, events: Events) -> None:
        self._table = table
        self._hashes = hashes
        self._timeouts = timeouts
        self._events = events

    def update(
        self, update: MemberUpdate, *, bump: bool, changes: Changes, context: Context
    ) -> ConsumerMember:
        """Returns the updated member.  With `bump` the group always gets a new epoch."""
        group = update.group
        epoch, homogeneous = group.group_epoch, group.is_homogeneous
        if bump or context.now_ms >= group.metadata_fresh_until_ms:
            epoch, homogeneous = self._check_topics(update, bump, changes, context)
        if epoch > group.assignment_epoch:
            offered = assignors_of(context.settings)
            name = group.preferred_assignor(update.before, update.after) or next(iter(offered))
            target = compute_target(
                group, epoch, offered[name], update.after, context.image, homogeneous=homogeneous
            )
            changes.write(target.entries)
            self._note_epoch(group, epoch, f"assigned by {name}", changes, context)
            return self._reconcile(update, epoch, target.of_member, changes)
        target_of_member = group.target_of(update.after.member_id, update.after.instance_id)
        return self._reconcile(update, group.assignment_epoch, target_of_member, changes)

    def _check_topics(
        self, update: MemberUpdate, bump: bool, changes: Changes, context: Context
    ) -> tuple[int, bool]:
        """Returns the group epoch, and whether all members have the same subscription."""
        group, before, after, _ = update
        subscribed = group.subscribed_after(before, after)
        metadata_hash = self._hashes.of_group(subscribed, context.image)
        count = len(group.members)
        if after.member_id not in group.members and group.static_member(after.instance_id) is None:
            count += 1
        homogeneous = is_homogeneous(group.regexes_after(before, after), subscribed, count)
        epoch = group.group_epoch
        if bump or metadata_hash != group.metadata_hash:
            epoch += 1
            changes.write((entries.group_epoch(group.group_id, epoch, metadata_hash),))
            logger.info("group %s: epoch %d", shown(group.group_id), epoch)
        self.mark_topics_checked(group.group_id, changes, context)
        if group.has_partition_metadata:
            changes.write((entries.partition_metadata_tombstone(group.group_id),))
        return epoch, homogeneous

    def mark_topics_checked(self, group_id: str, changes: Changes, context: Context) -> None:
        """Mark the topics as checked once the result is written."""
        until_ms = context.now_ms + METADATA_REFRESH_MS

        def mark() -> None:
            group = self._table.get(group_id)
            if isinstance(group, ConsumerGroup):
                group.metadata_fresh_until_ms = until_ms

        changes.then(mark)

    def _reconcile(
        self, update: MemberUpdate, epoch: int, target: Assignment, changes: Changes
    ) -> ConsumerMember:
        group, _, member, owned = update
        if member.is_reconciled_to(epoch):
            return member
        updated = reconcile(member, epoch, target, group.is_owned, owned)
        if updated == member:
            return member
        changes.write((entries.current_assignment(group.group_id, updated),))
        if updated.classic is None:
            if updated.state is MemberState.UNREVOKED_PARTITIONS:
                changes.then(partial(self._timeouts.schedule_rebalance_timeout, group.group_id, updated))
            else:
                changes.then(
                    partial(self._timeouts.cancel_rebalance_timeout, group.group_id, updated.member_id)
                )
        return updated

    def _note_epoch(
        self, group: ConsumerGroup, epoch: int, reason: str, changes: Changes, context: Context
    ) -> None:
        changes.then(
            partial(
                self._events.note,
                group.group_id,
                context.now_ms,
                EventKind.GENERATION,
                reason=reason,
                generation=epoch,
            )
        )


def write_subscription(
    group_id: str, before: ConsumerMember, after: ConsumerMember, changes: Changes
) -> bool:
    """Write the member if it changed; returns whether its subscribed topic names changed."""
    if after == before:
        return False
    changes.write((entries.member_metadata(group_id, after),))
    return after.subscribed_names != before.subscribed_names
