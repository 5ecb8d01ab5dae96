"""`barnabas consumer-perf-test`: measure consumer throughput; reports as Apache Kafka's tool does.

Unlike that tool, a run that ends before it has read all requested records has a non-zero exit code.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import add_connection_flags, client_properties
from barnabas.cli.framework.exits import Exit
from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.cli.framework.interrupts import Shutdown, shutting_down_on_signal
from barnabas.cli.framework.numbers import MAX_LONG, whole_number
from barnabas.cli.perf.java_dates import date_format
from barnabas.cli.perf.reports import MEGABYTE, java_number, metrics_table, rate

if TYPE_CHECKING:
    from barnabas.client.model import TopicPartition
    from barnabas.client.sync import Consumer

PROGRAM = "barnabas consumer-perf-test"
MISSING_SERVER = f'Missing required argument "[bootstrap-server]" (see {PROGRAM} --help)'
POLL_MS = 100
LARGEST_GROUP_NUMBER = 99_999
DEFAULT_TIMEOUT_MS = 10_000
DEFAULT_DATE_FORMAT = "yyyy-MM-dd HH:mm:ss:SSS"
_COLUMNS = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


def make_parser() -> KafkaParser:
    parser = KafkaParser(PROGRAM, "Measure consumer throughput.")
    add_connection_flags(parser, config_flags=("--consumer.config", "--command-config"), old_broker_list=True)
    add = parser.add_argument
    add("--topic", metavar="TOPIC", help="the topic to read")
    add("--messages", type=whole_number(0, MAX_LONG), metavar="N", help="number of records")
    add("--group", metavar="GROUP", help="the consumer group to join (default: a new one)")
    add("--from-latest", action="store_true", help="start at the end if the group has no offset")
    add(
        "--fetch-size",
        type=whole_number(0),
        default=1 << 20,
        metavar="BYTES",
        help="fetch size per partition",
    )
    add(
        "--socket-buffer-size",
        type=whole_number(-1),
        default=2 << 20,
        metavar="BYTES",
        help="size of the receive buffer of a connection",
    )
    add(
        "--timeout",
        nargs="?",
        type=whole_number(0, MAX_LONG),
        const=DEFAULT_TIMEOUT_MS,
        default=DEFAULT_TIMEOUT_MS,
        metavar="MS",
        help=f"exit if no record arrives for this long (default {DEFAULT_TIMEOUT_MS})",
    )
    add("--show-detailed-stats", action="store_true", help="print a line per --reporting-interval")
    add(
        "--reporting-interval",
        type=whole_number(1, MAX_LONG),
        default=5_000,
        metavar="MS",
        help="interval of reports (default 5000)",
    )
    add(
        "--date-format",
        default=DEFAULT_DATE_FORMAT,
        metavar="FORMAT",
        help="format of times, as in SimpleDateFormat",
    )
    add("--hide-header", action="store_true", help="omit the header line")
    add("--print-metrics", action="store_true", help="also print metrics")
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    FlagRules(parser, options).require("--topic", "--messages")
    format_time = date_format(options.date_format, f"{PROGRAM}: --date-format")
    properties = consumer_properties(parser, options)
    if not options.hide_header:
        print(f"{'time, threadId' if options.show_detailed_stats else 'start.time, end.time'}, {_COLUMNS}")
    from barnabas.client.sync import Consumer

    consumer = Consumer(properties)
    load = ConsumeLoad(consumer, options, format_time)
    with shutting_down_on_signal(consumer.wakeup) as shutdown:
        try:
            load.read_all(shutdown)
        finally:
            consumer.close()
    if not options.show_detailed_stats:
        print(load.total())
    if options.print_metrics:
        sys.stdout.write(load.metrics(str(properties["client.id"])))
    if shutdown.code is not None:
        return shutdown.code
    return Exit.OK if load.is_complete else load.explain(properties)


def consumer_properties(parser: KafkaParser, options: Namespace) -> dict[str, object]:
    given = client_properties(parser, options, MISSING_SERVER)
    group = options.group
    if group is None:
        from barnabas.runtime.random import SystemRandom

        group = f"perf-consumer-{SystemRandom().integer(0, LARGEST_GROUP_NUMBER)}"
    return {
        "client.id": "perf-consumer-client",
        **given,
        "group.id": group,
        "receive.buffer.bytes": options.socket_buffer_size,
        "max.partition.fetch.bytes": options.fetch_size,
        "auto.offset.reset": "latest" if options.from_latest else "earliest",
        "check.crcs": "false",
    }


class ConsumeLoad:
    """Reads and counts records; the time of rebalances is counted separately."""

    def __init__(self, consumer: Consumer, options: Namespace, format_time: Callable[[int], str]) -> None:
        from barnabas.runtime.clock import SystemClock

        self._consumer = consumer
        self._options = options
        self._format_time = format_time
        self._now_ms = SystemClock().wall_ms
        self._messages = self._bytes = 0
        self._start_ms = self._end_ms = self._join_start_ms = self._now_ms()
        self._join_ms = self._join_round_ms = 0
        # Time, messages and bytes at the last report.
        self._reported = (self._start_ms, 0, 0)

    @property
    def is_complete(self) -> bool:
        return self._messages >= int(self._options.messages)

    def on_partitions_revoked(self, partitions: list[TopicPartition]) -> None:
        self._join_start_ms = self._now_ms()

    def on_partitions_assigned(self, partitions: list[TopicPartition]) -> None:
        elapsed_ms = self._now_ms() - self._join_start_ms
        self._join_ms += elapsed_ms
        self._join_round_ms += elapsed_ms

    on_partitions_lost = on_partitions_revoked

    def read_all(self, shutdown: Shutdown) -> None:
        self._consumer.subscribe([self._options.topic], listener=self)
        last_ms = now_ms = self._now_ms()
        while (
            not self.is_complete and now_ms - last_ms <= self._options.timeout and not shutdown.is_requested
        ):
            records = self._consumer.poll(POLL_MS)
            now_ms = self._now_ms()
            if records:
                last_ms = now_ms
            self._messages += len(records)
            self._bytes += sum(
                len(part)
                for record in records
                for part in (record.key, record.value)
                if isinstance(part, bytes)
            )
            if records and now_ms - self._reported[0] >= self._options.reporting_interval:
                self._report(now_ms)
        self._end_ms = self._now_ms()
        if not self.is_complete and not shutdown.is_requested:
            print(
                "WARNING: Exiting before consuming the expected number of messages: timeout "
                f"({self._options.timeout} ms) exceeded. "
                "You can use the --timeout option to increase the timeout.",
                file=sys.stderr,
            )

    def _report(self, now_ms: int) -> None:
        since_ms, messages, size = self._reported
        elapsed_ms = now_ms - since_ms
        if self._options.show_detailed_stats:
            read, read_mb = self._messages - messages, (self._bytes - size) / MEGABYTE
            fetch_ms = elapsed_ms - self._join_round_ms
            fetched = (1000.0 * rate(amount, fetch_ms) if fetch_ms > 0 else 0.0 for amount in (read_mb, read))
            print(
                f"{self._format_time(now_ms)}, 0, {self._bytes / MEGABYTE:.4f}, "
                f"{java_number(1000.0 * rate(read_mb, elapsed_ms), 4)}, {self._messages}, "
                f"{java_number(1000.0 * rate(read, elapsed_ms), 4)}, {self._join_round_ms}, {fetch_ms}, "
                + ", ".join(java_number(value, 4) for value in fetched),
                flush=True,
            )
        self._join_round_ms = 0
        self._reported = (now_ms, self._messages, self._bytes)

    def total(self) -> str:
        elapsed_s = (self._end_ms - self._start_ms) / 1000
        fetch_ms = self._end_ms - self._start_ms - self._join_ms
        read_mb = self._bytes / MEGABYTE
        return (
            f"{self._format_time(self._start_ms)}, {self._format_time(self._end_ms)}, {read_mb:.4f}, "
            f"{java_number(rate(read_mb, elapsed_s), 4)}, {self._messages}, "
            f"{java_number(rate(self._messages, elapsed_s), 4)}, {self._join_ms}, {fetch_ms}, "
            f"{java_number(rate(read_mb, fetch_ms / 1000), 4)}, "
            f"{java_number(rate(self._messages, fetch_ms / 1000), 4)}"
        )

    def metrics(self, client_id: str) -> str:
        """The counts of this tool, under the metric names of Apache Kafka's client."""
        seconds = (self._end_ms - self._start_ms) / 1000
        values = {
            "records-consumed-total": float(self._messages),
            "records-consumed-rate": rate(self._messages, seconds),
            "bytes-consumed-total": float(self._bytes),
            "bytes-consumed-rate": rate(self._bytes, seconds),
        }
        group = "consumer-fetch-manager-metrics"
        return metrics_table(
            {f"{group}:{name}:{{client-id={client_id}}}": value for name, value in values.items()}
        )

    def explain(self, properties: dict[str, object]) -> Exit:
        """Reports a missing cluster or topic; returns the exit code."""
        if self._messages == 0:
            from barnabas.cli.console.silence import explain_silence

            line = explain_silence(properties, PROGRAM, self._options.topic, None)
            if line is not None:
                print(line, file=sys.stderr)
                return Exit.NOT_FOUND
        return Exit.TIMED_OUT
