"""Membership in a group, independent of the group protocol: the interface, and the reaction to changes of
the assignment.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from barnabas.client.consumer.offsets.commits import Committer
from barnabas.client.consumer.subscription import Subscription
from barnabas.client.model import TopicPartition
from barnabas.client.retries import Deadline

logger = logging.getLogger(__name__)


class Membership(Protocol):
    """A consumer's membership in a group."""

    @property
    def needs_attention(self) -> bool:
        """Whether `update` has work to do; checked in every poll."""
        ...

    async def update(self, deadline: Deadline) -> None:
        """Called within a poll: join, assign and revoke partitions."""
        ...

    def polled(self) -> None:
        """Called when the user polls."""
        ...

    def committer(self) -> Committer: ...

    async def leave(self, deadline: Deadline) -> None:
        """Leave for good, or until the next subscription."""
        ...

    async def close(self) -> None: ...


class AssignmentHandler:
    """Applies assignment changes: commits, calls the rebalance listener, updates the subscription."""

    def __init__(
        self, subscription: Subscription, commit: Callable[[Iterable[TopicPartition]], Awaitable[None]]
    ) -> None:
        self._subscription = subscription
        # Auto-commits the positions of partitions before they are revoked, if enabled.
        self._commit = commit

    async def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Revoke partitions that others will read."""
        removed = sorted(partitions)
        if not removed:
            return
        for partition in removed:
            self._subscription.partitions[partition].is_revoked_soon = True
        try:
            await self._commit(removed)
            await self._tell("on_partitions_revoked", removed)
        finally:
            # The partitions are revoked whatever the listener raises.
            self._drop(removed)

    async def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions that others may be reading already."""
        removed = sorted(partitions)
        if not removed:
            return
        listener = self._subscription.listener
        name = "on_partitions_lost" if hasattr(listener, "on_partitions_lost") else "on_partitions_revoked"
        self._drop(removed)
        await self._tell(name, removed)

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the assignment; the listener is called even if there are none."""
        added = sorted(partitions)
        self._subscription.set_partitions([*self._subscription.partitions, *added])
        await self._tell("on_partitions_assigned", added)

    def _drop(self, removed: list[TopicPartition]) -> None:
        left = set(self._subscription.partitions) - set(removed)
        self._subscription.set_partitions(sorted(left))

    async def _tell(self, name: str, partitions: list[TopicPartition]) -> None:
        method = getattr(self._subscription.listener, name, None)
        if method is None:
            return
        result = method(partitions)
        if inspect.isawaitable(result):
            await result
