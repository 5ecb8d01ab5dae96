"""What a consumer asks of its membership in a group, whichever protocol the group speaks.

What lives here: the interface, and what is done when partitions come and go.  What may not: requests.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Protocol

from barnabas.client.consumer.offsets.commits import Committer
from barnabas.client.consumer.subscription import Subscription
from barnabas.client.model import TopicPartition
from barnabas.client.waiting import Deadline

logger = logging.getLogger(__name__)


class Membership(Protocol):
    """A place in a group."""

    @property
    def needs_attention(self) -> bool:
        """Whether `update` has something to do: looked at in every poll."""
        ...

    async def update(self, deadline: Deadline) -> None:
        """Within a poll: join, take what was assigned, give back what was taken away."""
        ...

    def polled(self) -> None:
        """The user is alive."""
        ...

    def committer(self) -> Committer: ...

    async def leave(self, deadline: Deadline) -> None:
        """For good, or until the next subscription."""
        ...

    async def close(self) -> None: ...


class Handover:
    """What is done when partitions come and go: commit, tell the user's listener, change the assignment."""

    def __init__(
        self, subscription: Subscription, commit: Callable[[Iterable[TopicPartition]], Awaitable[None]]
    ) -> None:
        self._subscription = subscription
        # Commits what was read of partitions that are about to go, if that is to be done at all.
        self._commit = commit

    async def revoke(self, partitions: Iterable[TopicPartition]) -> None:
        """Give partitions back: others will read them."""
        removed = sorted(partitions)
        if not removed:
            return
        for where in removed:
            self._subscription.partitions[where].is_revoked_soon = True
        try:
            await self._commit(removed)
            await self._tell("on_partitions_revoked", removed)
        finally:
            # Whatever a listener raises: they are not ours any more.
            self._drop(removed)

    async def lose(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions are gone already: others may be reading them."""
        removed = sorted(partitions)
        if not removed:
            return
        listener = self._subscription.listener
        name = "on_partitions_lost" if hasattr(listener, "on_partitions_lost") else "on_partitions_revoked"
        self._drop(removed)
        await self._tell(name, removed)

    async def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Take partitions besides those that are there; the listener hears of it even if there are none."""
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
