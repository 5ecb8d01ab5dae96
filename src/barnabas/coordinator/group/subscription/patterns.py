"""Resolves the subscription patterns of groups, on a timer of its own instead of in the heartbeat.

Pattern syntax and the refresh policy belong in `regexes`.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from barnabas.coordinator.decision import NOTHING, Changes, Context, Decision
from barnabas.coordinator.group.consumer import entries
from barnabas.coordinator.group.consumer.entries import ResolvedRegex
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import ConsumerMember
from barnabas.coordinator.group.consumer.member_updater import MemberUpdater
from barnabas.coordinator.group.subscription.regexes import Sees, check, patterns_to_refresh, resolve
from barnabas.coordinator.group.subscription.subscription import TopicHashes, count_regex

if TYPE_CHECKING:
    from barnabas.coordinator.group.machine import GroupMachine

from barnabas.base.log_text import shown

logger = logging.getLogger(__name__)


class Patterns:
    """Pattern subscriptions of all consumer groups of a shard."""

    def __init__(self, machine: GroupMachine, hashes: TopicHashes, updater: MemberUpdater) -> None:
        self._machine = machine
        self._hashes = hashes
        self._updater = updater
        # The metadata log offset at which topics were last created.
        self.last_new_topics = -1

    def update_patterns(
        self,
        group: ConsumerGroup,
        before: ConsumerMember,
        after: ConsumerMember,
        sees: Sees,
        changes: Changes,
        context: Context,
    ) -> bool:
        """Schedule the resolution of patterns if due; returns whether the group needs a new epoch now."""
        bump = is_new = False
        if before.regex != after.regex:
            if before.regex is not None and group.regexes.get(before.regex) == 1:
                changes.write((entries.regex_tombstone(group.group_id, before.regex),))
            if after.regex is not None:
                is_new = after.regex not in group.regexes
                if is_new:
                    check(after.regex)
                else:
                    bump = after.regex in group.resolved
        if self._machine.timers.has(_key(group.group_id)):
            return bump
        patterns = patterns_to_refresh(
            group,
            before,
            after,
            now_ms=context.now_ms,
            last_new_topics=self.last_new_topics,
            refresh_interval_ms=context.settings["group.consumer.regex.refresh.interval.ms"],
            is_new=is_new,
        )
        if patterns:
            decide = partial(self._resolve, group.group_id, tuple(patterns), sees)
            changes.then(partial(self._machine.timers.schedule, _key(group.group_id), 0, decide))
        return bump

    def _resolve(
        self, group_id: str, patterns: tuple[str, ...], sees: Sees, context: Context
    ) -> Decision[None]:
        group = self._machine.table.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return NOTHING
        changes = Changes()
        subscribed = dict(group.subscribed)
        bump = False
        for pattern, resolved in resolve(patterns, context.image, sees, context.now_ms).items():
            if pattern not in group.regexes:
                continue  # no longer used
            known = group.resolved.get(pattern, ResolvedRegex())
            if known.topics != resolved.topics:
                bump = True
                count_regex(subscribed, known.topics, -1)
                count_regex(subscribed, resolved.topics, 1)
            changes.write((entries.regex(group_id, pattern, resolved),))
        metadata_hash = self._hashes.of_group(subscribed, context.image)
        if bump or metadata_hash != group.metadata_hash:
            epoch = group.group_epoch + 1
            changes.write((entries.group_epoch(group_id, epoch, metadata_hash),))
            logger.info("group %s: epoch %d, its patterns match other topics", shown(group_id), epoch)
            self._updater.mark_topics_checked(group_id, changes, context)
        return changes.decision(None)


def _key(group_id: str) -> tuple[str, ...]:
    return ("consumer", group_id, "regex")
