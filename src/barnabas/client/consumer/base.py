"""The components of a consumer and what all of its calls share; the calls belong in its subclasses."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from barnabas.client.cluster import Cluster
from barnabas.client.consumer.fetch.delivery import Delivery
from barnabas.client.consumer.fetch.fetcher import Fetcher
from barnabas.client.consumer.membership.membership import Membership
from barnabas.client.consumer.offsets.commits import Commits, Committer
from barnabas.client.consumer.offsets.positions import Positions
from barnabas.client.consumer.subscription import Mode, Subscription
from barnabas.client.errors.local import ClosedError
from barnabas.client.options import consumer_options
from barnabas.client.retries import Deadline
from barnabas.runtime.loop.loop_services import loop_services


class ConsumerBase:
    """A consumer without its public calls."""

    def __init__(self, config: Mapping[str, object] | None, options: Mapping[str, object]) -> None:
        settings = consumer_options(config, options)
        self.settings = settings
        self._loop = asyncio.get_running_loop()
        self.cluster = Cluster(settings, allow_auto_topic_creation=settings["allow.auto.create.topics"])
        self._subscription = Subscription()
        self._group_id: str | None = settings["group.id"]
        self._commits: Commits | None = None
        if self._group_id is not None:
            self._commits = Commits(self.cluster, self._group_id, self._committer)
        self._positions = Positions(
            settings,
            self.cluster,
            self._subscription,
            loop_services().clock,
            None if self._commits is None else self._commits.fetch,
        )
        self._fetcher = Fetcher(settings, self.cluster, self._subscription, self._positions.out_of_range)
        self._membership: Membership | None = None
        self._out = Delivery(settings, self._subscription)
        self._max_poll_records: int = settings["max.poll.records"]
        self._auto_commit_s: float | None = None
        if settings["enable.auto.commit"] and self._commits is not None:
            self._auto_commit_s = settings["auto.commit.interval.ms"] / 1000
        self._commit_at = self._loop.time() + (self._auto_commit_s or 0.0)
        self._committing: set[asyncio.Task[None]] = set()
        self._maintenance_at = 0.0
        self._is_awake = False
        self._is_closing = False
        self._is_closed = False

    def _deadline(self, timeout_ms: int | None) -> Deadline:
        return Deadline(self.settings["default.api.timeout.ms"] if timeout_ms is None else timeout_ms)

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("the consumer is closed; open a new one")

    def _check_usable(self) -> None:
        self._check_open()
        if self._subscription.mode is Mode.NONE:
            raise RuntimeError("subscribe() or assign() first: there is nothing to read")

    def _committer(self) -> Committer:
        if self._membership is None or not self._subscription.is_group_managed:
            return Committer()
        return self._membership.committer()
