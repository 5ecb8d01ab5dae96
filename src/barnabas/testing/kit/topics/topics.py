"""Topics and groups for tests, through the client, on whatever cluster there is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.base.errors import ErrorCode
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.loop.reactor_thread import wait_until
from barnabas.testing.kit.errors import WaitTimeoutError
from barnabas.testing.kit.topics.records import Codec, JsonCodec, TestRecord, as_bytes
from barnabas.testing.kit.waiting import DEFAULT_TIMEOUT_S, wait_for

if TYPE_CHECKING:
    from barnabas.client.sync import Admin, Producer
    from barnabas.testing.kit.topics.groups import Group

POLL_MS = 100
# The kit's own clients turn to another broker soon when one is paused or cut off.
OWN_OPTIONS: dict[str, Any] = {"request_timeout_ms": 2_000}


class Topics:
    """The topics and groups of a cluster, through clients of the kit that connect when they are first
    needed."""

    def __init__(self) -> None:
        self._admin: Admin | None = None
        self._producer: Producer | None = None
        # What this test has touched: for the report of a failure.
        self.touched_topics: dict[str, None] = {}
        self.touched_groups: dict[str, None] = {}

    @property
    def bootstrap_servers(self) -> str:
        raise NotImplementedError

    def interventions(self) -> list[str]:
        """What the kit does to the cluster at present, in words: a likely cause of what does not happen."""
        return []

    def topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = -1,
        configs: Mapping[str, object] | None = None,
        codec: Codec | None = None,
    ) -> Topic:
        """Creates a topic."""
        from barnabas.client import NewTopic

        texts = {key: None if value is None else str(value) for key, value in (configs or {}).items()}
        new = NewTopic(name, partitions, replication_factor, configs=texts)
        self.admin.create_topics([new]).raise_first()
        # The controller has answered; brokers learn of it a moment later.
        wait_for(lambda: self.is_known(name), what=f"brokers do not know the topic {name}")
        self.touched_topics[name] = None
        return Topic(self, name, partitions, codec)

    def is_known(self, name: str) -> bool:
        """Whether a broker that clients ask knows the topic."""
        return self.admin.describe_topics([name]).error_of(name) is None

    def existing_topic(self, name: str, *, codec: Codec | None = None) -> Topic:
        """A topic that is there already: the application has created it."""
        described = self.admin.describe_topics([name])[name]
        self.touched_topics[name] = None
        return Topic(self, name, len(described.partitions), codec)

    def group(self, group_id: str) -> Group:
        """A consumer group, whether it exists already or not."""
        from barnabas.testing.kit.topics.groups import Group

        self.touched_groups[group_id] = None
        return Group(self, group_id)

    def delete_topics(self, names: Iterable[str]) -> None:
        """Returns when they are gone; those that were deleted already are no error."""
        names = list(names)
        if not names:
            return
        # A producer asks for the metadata of topics that it has written to, which would create them again.
        if self._producer is not None:
            self._producer.close()
            self._producer = None
        for error in self.admin.delete_topics(names).errors.values():
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise error
        # A broker learns of a deletion some time after the controller has answered.
        if not wait_until(lambda: not self._left_of(names), DEFAULT_TIMEOUT_S):
            left = ", ".join(sorted(self._left_of(names)))
            raise WaitTimeoutError(f"deleted topics are still there after {DEFAULT_TIMEOUT_S:g} s: {left}")

    def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Their members are removed, as of consumers that were never closed."""
        group_ids = list(group_ids)
        if not group_ids:
            return
        for group_id, error in self.admin.delete_groups(group_ids).errors.items():
            if error.code is ErrorCode.NON_EMPTY_GROUP:
                self.admin.remove_members_from_consumer_group(group_id, reason="the test is over")
                self.admin.delete_groups([group_id]).raise_first()
            elif error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise error

    def topic_names(self) -> set[str]:
        """Those of the cluster, without internal ones."""
        return {name for name, listing in self.admin.list_topics().items() if not listing.is_internal}

    def group_ids(self) -> set[str]:
        return {listing.group_id for listing in self.admin.list_groups().groups}

    def _left_of(self, names: list[str]) -> set[str]:
        return set(names) & set(self.admin.list_topics())

    @property
    def admin(self) -> Admin:
        """The kit's own admin client."""
        from barnabas.client.sync import Admin

        if self._admin is None:
            self._admin = Admin(bootstrap_servers=self.bootstrap_servers, **OWN_OPTIONS)
        return self._admin

    @property
    def producer(self) -> Producer:
        """The kit's own producer."""
        from barnabas.client.sync import Producer

        if self._producer is None:
            self._producer = Producer(bootstrap_servers=self.bootstrap_servers, **OWN_OPTIONS)
        return self._producer

    def close_clients(self) -> None:
        with contextlib.ExitStack() as stack:
            for client in (self._admin, self._producer):
                if client is not None:
                    stack.callback(client.close)
        self._admin = self._producer = None


class ElsewhereTopics(Topics):
    """The topics of a cluster that runs already."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__()
        self._bootstrap_servers = bootstrap_servers

    @property
    def bootstrap_servers(self) -> str:
        return self._bootstrap_servers


class Topic:
    """One topic: its `name`, and how many `partitions` it has."""

    def __init__(self, topics: Topics, name: str, partitions: int, codec: Codec | None) -> None:
        self.name = name
        self.partitions = partitions
        self.codec: Codec = codec or JsonCodec()
        self._topics = topics

    def send(
        self,
        value: Any,
        key: str | bytes | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> None:
        """Returns when it is written.  Text is sent as UTF-8; what is neither text nor bytes, as JSON, unless
        the topic has another codec."""
        sent = [(name, as_bytes(each)) for name, each in (headers or {}).items()]
        self._topics.producer.send(
            self.name,
            None if value is None else self.codec.encode(value),
            key=as_bytes(key),
            headers=sent,
            partition=partition,
            timestamp_ms=timestamp,
        ).result(DEFAULT_TIMEOUT_S)

    def load(self, path: str | Path) -> int:
        """Writes the records of a file as `barnabas consume -o jsonl` prints them; returns their number.

        They keep their keys, headers and timestamps, and their partitions if the topic has as many.
        """
        from barnabas.testing.kit.topics.fixture_files import read_records

        deliveries = [
            self._topics.producer.send(
                self.name,
                record.value,
                key=record.key,
                headers=record.headers,
                timestamp_ms=record.timestamp_ms,
                partition=record.partition if (record.partition or 0) < self.partitions else None,
            )
            for record in read_records(path)
        ]
        for delivery in deliveries:
            delivery.result(DEFAULT_TIMEOUT_S)
        return len(deliveries)

    def records(
        self, n: int = 1, timeout: float = DEFAULT_TIMEOUT_S, *, committed: bool = False
    ) -> list[TestRecord]:
        """The first n records, in the order of each partition; raises WaitTimeoutError if there are fewer.

        `committed`: without those of open and aborted transactions.
        """
        found = self._read(n, timeout, committed=committed)
        if len(found) < n:
            from barnabas.testing.kit.diagnosis.causes import why_no_records

            last = f"; the last is {found[-1]}" if found else ""
            why = why_no_records(self._topics, self.name, len(found), committed=committed)
            raise WaitTimeoutError(
                f"the topic {self.name} has {len(found)} of {n} records after {timeout:g} s: {why}{last}"
            )
        return found[:n]

    def all_records(self, *, committed: bool = False) -> list[TestRecord]:
        """What is there now, without waiting for more."""
        from barnabas.client.admin.records import IsolationLevel

        isolation = IsolationLevel(committed)
        ends = self._topics.admin.list_offsets(
            dict.fromkeys(self._places(), -1), isolation_level=isolation
        ).raise_first()
        return self._read(None, DEFAULT_TIMEOUT_S, committed=committed, ends=ends)

    def _places(self) -> list[Any]:
        from barnabas.client import TopicPartition

        return [TopicPartition(self.name, index) for index in range(self.partitions)]

    def _read(
        self, n: int | None, timeout: float, *, committed: bool, ends: Mapping[Any, Any] | None = None
    ) -> list[TestRecord]:
        from barnabas.client.sync import Consumer

        clock = SystemClock()
        deadline_ns = clock.monotonic_ns() + int(timeout * 1e9)
        places = self._places()
        found: list[TestRecord] = []
        isolation = "read_committed" if committed else "read_uncommitted"
        with Consumer(
            bootstrap_servers=self._topics.bootstrap_servers,
            isolation_level=isolation,
            # To look for a topic must not create it.
            allow_auto_create_topics=False,
            **OWN_OPTIONS,
        ) as consumer:
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            while n is None or len(found) < n:
                if clock.monotonic_ns() > deadline_ns:
                    break
                if ends is not None and all(
                    consumer.position(place) >= ends[place].offset for place in places
                ):
                    break
                records = consumer.poll(timeout_ms=POLL_MS)
                found += [TestRecord(record, self.codec) for record in records]
        return found

    def __repr__(self) -> str:
        return f"<topic {self.name}, {self.partitions} partitions>"
