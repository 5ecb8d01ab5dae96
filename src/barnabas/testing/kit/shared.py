"""The cluster that the tests of a session share: one broker in this process, or a cluster elsewhere."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping

from barnabas.runtime.random import SystemRandom, random_uuid
from barnabas.testing.kit.cluster import Cluster
from barnabas.testing.kit.errors import KitError
from barnabas.testing.kit.topics.groups import Group
from barnabas.testing.kit.topics.records import Codec
from barnabas.testing.kit.topics.topics import ElsewhereTopics, Topic, Topics

_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")


class Kafka:
    """The shared cluster as one test sees it.  At its end everything that it made is gone."""

    def __init__(self, topics: Topics, *, is_kept: bool = False) -> None:
        self._topics = topics
        self._is_kept = is_kept
        self._made: set[str] = set()
        topics.touched_topics.clear()
        topics.touched_groups.clear()
        # On a broker of our own, whatever is new at the end comes of this test.
        self._is_own = isinstance(topics, Cluster)
        self._topics_before = topics.topic_names() if self._is_own else set()
        self._groups_before = topics.group_ids() if self._is_own else set()

    @property
    def bootstrap_servers(self) -> str:
        """As clients want them: host:port, separated by commas."""
        return self._topics.bootstrap_servers

    @property
    def topics(self) -> Topics:
        """All that can be done with the topics and groups of a cluster."""
        return self._topics

    def topic(
        self,
        name: str,
        *,
        exact: bool = False,
        partitions: int = 1,
        configs: Mapping[str, object] | None = None,
        codec: Codec | None = None,
    ) -> Topic:
        """A new topic whose name begins with this one, see its `name`; with `exact` it is the same."""
        full = name if exact else f"{name}-{random_uuid(SystemRandom())}"
        topic = self._topics.topic(full, partitions=partitions, configs=configs, codec=codec)
        self._made.add(full)
        return topic

    def group(self, group_id: str) -> Group:
        """The consumer group of this name."""
        return self._topics.group(group_id)

    @property
    def clock(self) -> object:
        raise KitError(
            "the broker of the fixture kafka is shared by all tests, and so is its time: "
            "use the fixtures cluster and clock to move time on"
        )

    @property
    def faults(self) -> object:
        raise KitError(
            "the broker of the fixture kafka is shared by all tests: use the fixture cluster for faults"
        )

    def clean(self) -> None:
        """Called at the end of the test."""
        if self._is_kept:
            return
        groups = set(self._topics.touched_groups)
        if self._is_own:
            groups = self._topics.group_ids() - self._groups_before
            self._made |= self._topics.topic_names() - self._topics_before
        self._topics.delete_groups(groups)
        self._topics.delete_topics(self._made)
        self._made = set()


@contextlib.contextmanager
def shared_topics(bootstrap_servers: str | None, kept: str | None) -> Iterator[Topics]:
    """For one process of pytest: its workers have a broker each."""
    if bootstrap_servers is None:
        with Cluster(1, folder=folder_for(kept, "session") if kept else None) as cluster:
            yield cluster
        return
    elsewhere = ElsewhereTopics(bootstrap_servers)
    try:
        yield elsewhere
    finally:
        elsewhere.close_clients()


def folder_for(kept: str, name: str) -> str:
    """A folder for the brokers of this name, of this worker."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    return f"{os.path.abspath(kept)}/{worker}/{_UNFIT.sub('-', name)}"
