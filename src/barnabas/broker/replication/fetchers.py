"""The fetchers as the replica manager uses them: followed partitions in, nothing out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from barnabas.broker.replicas.hosted_partition import Hosted
from barnabas.runtime.loop.promise import Promise
from barnabas.storage.log.names import TopicPartition


class Fetchers(Protocol):
    """Fetches the partitions that this broker follows."""

    def follow(self, partition: Hosted, /) -> None: ...

    def unfollow(self, partition: Hosted, /) -> None: ...

    def flushed(self, partition: Hosted, /) -> None: ...

    def has_room(self, partition: Hosted, /) -> None: ...

    def configure(self, partitions: Callable[[], list[Hosted]], /) -> None: ...

    def is_truncating(self, name: TopicPartition, /) -> bool:
        """Whether a log is being truncated: its partition must not change its role meanwhile."""
        ...

    def stop(self) -> Promise[None]:
        """Completes when no log is being truncated any more."""
        ...


class NoFetchers:
    """For a broker that has no others around it."""

    def follow(self, partition: Hosted, /) -> None:
        """There is no leader to fetch from."""

    def unfollow(self, partition: Hosted, /) -> None:
        """Nothing is fetched."""

    def flushed(self, partition: Hosted, /) -> None:
        """Nothing waits for a flush."""

    def has_room(self, partition: Hosted, /) -> None:
        """Nothing waits for space."""

    def configure(self, partitions: Callable[[], list[Hosted]], /) -> None:
        """There is nothing to configure."""

    def is_truncating(self, name: TopicPartition, /) -> bool:
        return False

    def stop(self) -> Promise[None]:
        return Promise.of(None)
