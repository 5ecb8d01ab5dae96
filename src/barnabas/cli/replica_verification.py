"""`barnabas replica-verification`: compare the replicas of topics, as kafka-replica-verification does.

Every replica is read up to its high watermark; batches must have the same offsets and checksums.  Runs until
it is stopped, and reports how far it is behind.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import open_admin
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.cli.framework.numbers import MAX_INT, long_integer, whole_number
from barnabas.cli.framework.topic_filter import TopicFilter

if TYPE_CHECKING:
    from barnabas.client.model import TopicPartition
    from barnabas.client.sync import Admin
    from barnabas.protocol.messages.fetch import FetchResponse
    from barnabas.runtime.network.network import Address

PROGRAM = "barnabas replica-verification"
# Reads from every replica, up to the high watermark; the last version without topic ids has the field.
DEBUGGING_CONSUMER = -2
FETCH_VERSION = 12
DEPRECATED = "This tool is deprecated and may be removed in a future major release."


def make_parser() -> KafkaParser:
    parser = KafkaParser(PROGRAM, "Check that all replicas of topics have the same data, until Ctrl+C.")
    add = parser.add_argument
    add("--broker-list", dest="bootstrap_server", metavar="HOST:PORT,...", help="brokers to connect to first")
    add(
        "--fetch-size",
        type=whole_number(1, MAX_INT),
        default=1_048_576,
        metavar="BYTES",
        help="bytes of each fetch (default 1048576)",
    )
    add(
        "--max-wait-ms",
        type=whole_number(0, MAX_INT),
        default=1_000,
        metavar="MS",
        help="the pause between two rounds without new records (default 1000)",
    )
    add("--topics-include", default=".*", metavar="REGEX", help="topics to verify (default all)")
    add(
        "--time",
        type=long_integer,
        default=-1,
        metavar="TIME",
        help="where to start: -1 the end, -2 the beginning, or milliseconds since 1970 (default -1)",
    )
    add(
        "--report-interval-ms",
        type=whole_number(0),
        default=30_000,
        metavar="MS",
        help="how often to report (default 30000)",
    )
    return parser


class Batch(NamedTuple):
    last_offset: int
    checksum: int


@dataclass(slots=True)
class Fetched:
    """What one replica returned of a partition."""

    high_watermark: int
    batches: Sequence[Batch]


@dataclass(slots=True)
class Comparison:
    """The faults of one round, and the offset up to which the replicas are equal."""

    next_offset: int
    lag: int
    faults: list[str] = field(default_factory=list)
    # Batches do not begin at the same offsets: nothing more can be compared.
    is_hopeless: bool = False


def compare(name: str, offset: int, fetched: Mapping[int, Fetched]) -> Comparison:
    """Compare the batches of the replicas from this offset on, as far as all of them have it."""
    end = max(replica.high_watermark for replica in fetched.values())
    result = Comparison(offset, 0)
    committed = {
        broker_id: [batch for batch in replica.batches if batch.last_offset < replica.high_watermark]
        for broker_id, replica in fetched.items()
    }
    for rows in zip(*committed.values(), strict=False):
        (first_id, first), *others = zip(committed, rows, strict=True)
        for broker_id, batch in others:
            if batch.last_offset != first.last_offset:
                result.faults.append(
                    f"partition {name}: replica {first_id}'s offset {first.last_offset} doesn't match "
                    f"replica {broker_id}'s offset {batch.last_offset}"
                )
                result.is_hopeless = True
                return result
            if batch.checksum != first.checksum:
                result.faults.append(
                    f"partition {name} has unmatched checksum at offset {batch.last_offset}; replica "
                    f"{first_id}'s checksum {first.checksum}; replica {broker_id}'s checksum {batch.checksum}"
                )
        result.next_offset = first.last_offset + 1
    result.lag = end - result.next_offset
    return result


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    FlagRules(parser, options).require("--broker-list")
    topics = TopicFilter(options.topics_include)
    options.command_config = None
    print(f"{PROGRAM}: {DEPRECATED}", file=sys.stderr)
    with open_admin(parser, options) as admin:
        return _Verification(admin, options, topics).run()


class _Verification:
    """Rounds over all partitions, each of which reads every replica once."""

    def __init__(self, admin: Admin, options: Namespace, topics: TopicFilter) -> None:
        from barnabas.cli.perf.java_dates import date_format
        from barnabas.runtime.clock import SystemClock
        from barnabas.runtime.network.network import Address

        self._admin = admin
        self._options = options
        self._clock = SystemClock()
        self._date = date_format("yyyy-MM-dd HH:mm:ss,SSS", "")
        names = [name for name in sorted(admin.list_topics(include_internal=True)) if topics.allows(name)]
        if not names:
            raise CommandError("No topics found. --topics-include filters out all of them, or there is none.")
        self._replicas = _replicas_of(admin, names)
        nodes = admin.describe_cluster().nodes
        self._brokers: dict[int, Address] = {node.id: Address(node.host, node.port) for node in nodes}
        self._offsets = _first_offsets(admin, self._replicas, options.time)

    def run(self) -> Exit:
        from barnabas.runtime.loop.loop_thread import pause

        self._print("verification process is started")
        reported_ms = self._clock.wall_ms()
        while True:
            before = dict(self._offsets)
            worst = self._round()
            now_ms = self._clock.wall_ms()
            if worst is not None and now_ms - reported_ms > self._options.report_interval_ms:
                partition, lag = worst
                self._print(
                    f"max lag is {lag} for partition {partition} at offset {self._offsets[partition]} among "
                    f"{len(self._replicas)} partitions"
                )
                reported_ms = now_ms
            if before == self._offsets:
                self._admin.call(lambda _: pause(self._options.max_wait_ms / 1_000))

    def _print(self, text: str) -> None:
        print(f"{self._date(self._clock.wall_ms())}: {text}", flush=True)

    def _round(self) -> tuple[TopicPartition, int] | None:
        """The partition that is behind most; None if nothing could be compared."""
        fetched: dict[TopicPartition, dict[int, Fetched]] = {}
        for broker_id, address in self._brokers.items():
            own = [partition for partition, replicas in self._replicas.items() if broker_id in replicas]
            for partition, replica in self._fetch(address, own):
                fetched.setdefault(partition, {})[broker_id] = replica
        worst: tuple[TopicPartition, int] | None = None
        for partition, replicas in sorted(fetched.items()):
            if replicas.keys() != set(self._replicas[partition]):
                continue  # A broker is down: its partitions wait until it is back.
            result = compare(str(partition), self._offsets[partition], replicas)
            for fault in result.faults:
                self._print(fault)
            if result.is_hopeless:
                raise CommandError(f"{PROGRAM}: replicas of {partition} differ")
            self._offsets[partition] = result.next_offset
            if worst is None or result.lag > worst[1]:
                worst = partition, result.lag
        return worst

    def _fetch(
        self, address: Address, own: Iterable[TopicPartition]
    ) -> Iterator[tuple[TopicPartition, Fetched]]:
        from barnabas.cli.framework.single_request import send_request
        from barnabas.client.model import TopicPartition, by_topic
        from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse

        topics = [
            FetchRequest.Topic(
                topic=topic,
                partitions=[
                    FetchRequest.Partition(
                        partition=number,
                        fetch_offset=self._offsets[TopicPartition(topic, number)],
                        partition_max_bytes=self._options.fetch_size,
                    )
                    for number in numbers
                ],
            )
            for topic, numbers in by_topic(own).items()
        ]
        if not topics:
            return
        request = FetchRequest(replica_id=DEBUGGING_CONSUMER, max_wait_ms=0, min_bytes=0, topics=topics)
        try:
            response = send_request(address, request, FETCH_VERSION, FetchResponse)
        except CommandError as error:
            print(f"{PROGRAM}: {error}", file=sys.stderr)
            return
        for topic_data in response.responses:
            for data in topic_data.partitions:
                if not data.error_code:
                    yield TopicPartition(topic_data.topic, data.partition_index), _fetched(data)


def _fetched(data: FetchResponse.PartitionData) -> Fetched:
    from barnabas.batch.view import batches

    content = bytes(data.records or b"")  # type: ignore[arg-type]  # a client never sees slices
    return Fetched(
        data.high_watermark, [Batch(batch.next_offset - 1, batch.crc) for batch in batches(content)]
    )


def _replicas_of(admin: Admin, names: Sequence[str]) -> dict[TopicPartition, tuple[int, ...]]:
    from barnabas.client.model import TopicPartition

    described = admin.describe_topics(names).raise_first()
    return {
        TopicPartition(topic.name, info.partition): info.replicas
        for topic in described.values()
        for info in topic.partitions
    }


def _first_offsets(
    admin: Admin, partitions: Iterable[TopicPartition], time: int
) -> dict[TopicPartition, int]:
    listed = admin.list_offsets(dict.fromkeys(partitions, time)).raise_first()
    return {partition: max(0, found.offset) for partition, found in listed.items()}
