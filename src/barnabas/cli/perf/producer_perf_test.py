"""`barnabas producer-perf-test`: measure producer throughput; reports as Apache Kafka's tool does.

Unlike that tool, the exit code is not 0 if a record was not written.
"""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import command_properties
from barnabas.cli.framework.exits import CommandError, Exit, UsageError, one_line
from barnabas.cli.framework.interrupts import stopping_at_once
from barnabas.cli.framework.numbers import MAX_LONG, whole_number
from barnabas.cli.perf.reports import ProduceStatistics, metrics_table, rate

if TYPE_CHECKING:
    from barnabas.base.errors import KafkaError
    from barnabas.client.producer.delivery import RecordMetadata
    from barnabas.client.producer.producer import Producer

PROGRAM = "barnabas producer-perf-test"
REPORT_EVERY_MS = 5_000
DEFAULT_TRANSACTION_MS = 3_000
TRANSACTIONAL_ID_PREFIX = "performance-producer-"
MAX_PAYLOAD_FILE = 1 << 30
MAX_FAILURES_SHOWN = 10
_LETTERS = bytes(65 + number % 26 for number in range(256))


def make_parser() -> KafkaParser:
    parser = KafkaParser(PROGRAM, "Measure producer throughput.")
    add = parser.add_argument
    add("--topic", required=True, metavar="TOPIC", help="the topic to send to")
    add("--num-records", required=True, type=whole_number(1, MAX_LONG), metavar="N", help="number of records")
    payload = parser.add_mutually_exclusive_group(required=True)
    payload.add_argument(
        "--record-size", type=whole_number(1), metavar="BYTES", help="random records of this size"
    )
    payload.add_argument("--payload-file", metavar="FILE", help="records from this file, chosen at random")
    payload.add_argument("--payload-monotonic", action="store_true", help="records 0, 1, 2, ...")
    add(
        "--payload-delimiter",
        default="\\n",
        metavar="REGEX",
        help="separator of records in the file (default: a line end)",
    )
    add(
        "--throughput",
        required=True,
        type=float,
        metavar="N",
        help="maximum number of records per second; -1: no limit",
    )
    add(
        "--producer-props",
        nargs="+",
        metavar="KEY=VALUE",
        help="properties of the producer, such as bootstrap.servers=HOST:PORT",
    )
    add(
        "--producer.config",
        "--command-config",
        dest="producer_config",
        metavar="FILE",
        help="properties file of the producer",
    )
    add("--print-metrics", action="store_true", help="also print metrics")
    add("--transactional-id", metavar="ID", help="send in transactions with this transactional id")
    add(
        "--transaction-duration-ms",
        type=whole_number(1, MAX_LONG),
        metavar="MS",
        help=f"send in transactions of this duration (default {DEFAULT_TRANSACTION_MS})",
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    options = make_parser().parse(arguments)
    if not (options.throughput > 0 or options.throughput == -1):
        raise UsageError(f"{PROGRAM}: --throughput must be positive, or -1 for no limit")
    payloads = payloads_of(options)
    properties = producer_properties(options)
    from barnabas.cli.console.finding import find_topic
    from barnabas.client.sync import Producer

    with stopping_at_once(), Producer(properties) as producer:
        load = ProduceLoad(options, payloads, options.transaction_duration_ms or DEFAULT_TRANSACTION_MS)
        find_topic(producer, options.topic, PROGRAM)
        producer.call(load.send_all)
        print(load.statistics.total(load.now_ms()))
        if options.print_metrics:
            sys.stdout.write(load.metrics(str(properties["client.id"])))
        return load.finish()


def producer_properties(options: Namespace) -> dict[str, object]:
    if options.producer_props is None and options.producer_config is None:
        raise UsageError(f"{PROGRAM}: Either --producer-props or --producer.config must be specified.")
    properties: dict[str, object] = dict(command_properties(options.producer_config))
    for given in options.producer_props or ():
        name, separator, value = given.partition("=")
        if not separator or not name:
            raise UsageError(f"{PROGRAM}: Invalid property: {given}")
        properties[name] = value
    properties.setdefault("client.id", "perf-producer-client")
    if options.transactional_id is not None:
        properties["transactional.id"] = options.transactional_id
    elif options.transaction_duration_ms is not None and "transactional.id" not in properties:
        from barnabas.runtime.random import SystemRandom, random_uuid

        properties["transactional.id"] = f"{TRANSACTIONAL_ID_PREFIX}{random_uuid(SystemRandom())}"
    return properties


def payloads_of(options: Namespace) -> Iterator[bytes]:
    from barnabas.runtime.random import SeededRandom

    random = SeededRandom(0)
    if options.payload_monotonic:
        return (b"%d" % number for number in count())
    if options.record_size is not None:
        size = options.record_size
        return (random.bytes(size).translate(_LETTERS) for _ in count())
    texts = payload_texts(options)
    return (texts[random.integer(0, len(texts) - 1)] for _ in count())


def payload_texts(options: Namespace) -> list[bytes]:
    path = os.path.abspath(options.payload_file)
    print(f"Reading payloads from: {path}")
    from barnabas.runtime.disk.folder_disk import FolderDisk

    disk = FolderDisk()
    size = disk.size(path) if disk.exists(path) else 0
    if not 0 < size <= MAX_PAYLOAD_FILE:
        raise CommandError(
            f"{PROGRAM}: {path}: File does not exist or empty file provided."
            if not size
            else f"{PROGRAM}: {path}: the file has {size} bytes, at most {MAX_PAYLOAD_FILE} are allowed",
            Exit.FAILED if size else Exit.NOT_FOUND,
        )
    delimiter = "\n" if options.payload_delimiter == "\\n" else options.payload_delimiter
    try:
        texts = re.split(delimiter, disk.read_bytes(path).decode("utf-8", "replace"))
    except re.error as error:
        raise UsageError(f"{PROGRAM}: --payload-delimiter {delimiter}: {error}") from error
    while len(texts) > 1 and not texts[-1]:
        # Java's split drops trailing empty strings.
        texts.pop()
    print(f"Number of messages read: {len(texts)}")
    return [text.encode() for text in texts]


class ProduceLoad:
    """Sends all records at the requested throughput."""

    def __init__(self, options: Namespace, payloads: Iterator[bytes], transaction_ms: int) -> None:
        from barnabas.runtime.clock import SystemClock

        self._topic: str = options.topic
        self._records: int = options.num_records
        self._per_second: float = options.throughput
        self._payloads = payloads
        self._transaction_ms = transaction_ms
        self.now_ms: Callable[[], int] = SystemClock().wall_ms
        self.statistics = ProduceStatistics(self._records, self.now_ms(), REPORT_EVERY_MS)
        self._start_ms = self.now_ms()
        self._failed = 0
        self._worst = Exit.OK

    async def send_all(self, producer: Producer) -> None:
        is_transactional = producer.settings["transactional.id"] is not None
        if is_transactional:
            await producer.init_transactions()
        self._start_ms = self.now_ms()
        self.statistics = ProduceStatistics(self._records, self._start_ms, REPORT_EVERY_MS)
        transaction_start_ms: int | None = None
        for number in range(self._records):
            payload = next(self._payloads)
            sent_ms = self.now_ms()
            if is_transactional and transaction_start_ms is None:
                producer.begin_transaction()
                transaction_start_ms = sent_ms
            await producer.send(
                self._topic, payload, on_delivery=partial(self._on_delivery, sent_ms, len(payload))
            )
            if transaction_start_ms is not None and sent_ms - transaction_start_ms >= self._transaction_ms:
                await producer.commit_transaction()
                transaction_start_ms = None
            if self._per_second > 0:
                await self._keep_pace(number + 1)
        if transaction_start_ms is not None:
            await producer.commit_transaction()
        await producer.flush()

    async def _keep_pace(self, sent: int) -> None:
        from barnabas.runtime.loop.loop_thread import pause

        early_s = sent / self._per_second - (self.now_ms() - self._start_ms) / 1000
        if early_s > 0:
            await pause(early_s)

    def _on_delivery(
        self, sent_ms: int, size: int, metadata: RecordMetadata | None, error: KafkaError | None
    ) -> None:
        now_ms = self.now_ms()
        if error is None:
            line = self.statistics.record(now_ms - sent_ms, size, now_ms)
            if line is not None:
                print(line, flush=True)
            return
        from barnabas.cli.framework.kafka_errors import exit_code, sentence

        self._failed += 1
        self._worst = max(self._worst, exit_code(error))
        if self._failed <= MAX_FAILURES_SHOWN:
            print(one_line(f"{PROGRAM}: a record was not written: {sentence(error)}"), file=sys.stderr)

    def metrics(self, client_id: str) -> str:
        """The counts of this tool, under the metric names of Apache Kafka's client."""
        seconds = (self.now_ms() - self._start_ms) / 1000
        sent, size = self.statistics.count, self.statistics.bytes
        values = {
            "record-send-total": float(sent),
            "record-send-rate": rate(sent, seconds),
            "record-error-total": float(self._failed),
            "record-size-avg": rate(size, sent),
            "outgoing-byte-total": float(size),
            "outgoing-byte-rate": rate(size, seconds),
        }
        return metrics_table(
            {f"producer-metrics:{name}:{{client-id={client_id}}}": value for name, value in values.items()}
        )

    def finish(self) -> int:
        if self._failed > MAX_FAILURES_SHOWN:
            print(f"{PROGRAM}: {self._failed} records were not written", file=sys.stderr)
        return self._worst
