"""`barnabas console-consumer`: prints the records of topics, as Apache Kafka's kafka-console-consumer does.

Unlike Apache Kafka's tool, the exit code is not 0 if the topic does not exist, the brokers do not respond, or
fewer than --max-messages records arrive within --timeout-ms.
"""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, BinaryIO

from barnabas.base.units import NS_PER_MS
from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import add_connection_flags, client_properties
from barnabas.cli.framework.exits import CommandError, Exit, one_line
from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.cli.framework.interrupts import Shutdown, shutting_down_on_signal
from barnabas.cli.framework.key_values import add_key_value_flags, key_values
from barnabas.cli.framework.numbers import long_integer, whole_number

if TYPE_CHECKING:
    from barnabas.batch.engine.consume import ConsumerRecord
    from barnabas.cli.console.formatters import Formatter
    from barnabas.client.sync import Consumer

PROGRAM = "barnabas console-consumer"
MISSING_SERVER = f'Missing required argument "[bootstrap-server]" (see {PROGRAM} --help)'
POLL_MS = 1_000
# After this long without records, the tool checks whether the cluster and the topic exist.
CHECK_AFTER_MS = 10_000
NO_LIMIT = -1
LARGEST_GROUP_NUMBER = 99_999
ISOLATION_LEVELS = ("read_committed", "read_uncommitted")
PARTS = "timestamp, partition, offset, delivery, epoch, headers, key, value"
_EARLIEST, _LATEST = -2, -1


def make_parser() -> KafkaParser:
    parser = KafkaParser(
        PROGRAM,
        "Print the records of topics.",
        f"properties: print.X=true|false for X = {PARTS};\n"
        "  key.separator, line.separator, headers.separator, null.literal;\n"
        "  key.deserializer, value.deserializer, headers.deserializer (String, Long, UUID, ...)",
    )
    add_connection_flags(parser, config_flags=("--consumer.config", "--command-config"), old_zookeeper=True)
    add = parser.add_argument
    add("--topic", metavar="TOPIC", help="the topic to read")
    add("--include", metavar="REGEX", help="read all topics whose name matches")
    add("--whitelist", dest="include", metavar="REGEX", help="the old name of --include")
    add("--partition", type=whole_number(0), metavar="N", help="read only this partition, from its end")
    add("--offset", metavar="OFFSET", help="where to start in --partition: a number, earliest or latest")
    add(
        "--from-beginning",
        action="store_true",
        help="start at the first record unless the group has an offset",
    )
    add("--group", metavar="GROUP", help="the consumer group to join (default: a new one each time)")
    add("--max-messages", type=whole_number(-1), metavar="N", help="exit after this many records")
    add("--timeout-ms", type=long_integer, metavar="MS", help="exit if no record arrives for this long")
    add("--isolation-level", choices=ISOLATION_LEVELS, help="which transactional records to read")
    add_key_value_flags(
        parser, ("--consumer-property", "--command-property"), "properties", "property of the client"
    )
    add(
        "--formatter",
        default="DefaultMessageFormatter",
        metavar="CLASS",
        help="Default-, Logging-, NoOp-, Offsets-, GroupMetadata-, TransactionLog- or "
        "ShareGroupStateMessageFormatter, with or without package",
    )
    add_key_value_flags(
        parser, ("--formatter-property", "--property"), "formatting", "property of the formatter"
    )
    add("--formatter-config", metavar="FILE", help="properties file of the formatter")
    for kind in ("key", "value"):
        add(f"--{kind}-deserializer", metavar="CLASS", help=f"the same as {kind}.deserializer=CLASS")
    add("--skip-message-on-error", action="store_true", help="skip records that cannot be printed")
    add("--enable-systest-events", action="store_true", help="print shutdown_complete at the end")
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    rules = FlagRules(parser, options)
    check(rules, options)
    properties = consumer_properties(parser, rules, options)
    offset = start_offset(rules, options)
    formatter = chosen_formatter(options)
    from barnabas.client.sync import Consumer

    consumer = Consumer(properties)
    loop = ConsumeLoop(consumer, formatter, options, properties)
    try:
        with shutting_down_on_signal(consumer.wakeup) as shutdown:
            try:
                start(consumer, options, offset)
                loop.run(shutdown)
            finally:
                loop.close()
    finally:
        sys.stdout.flush()
        print(f"Processed a total of {loop.count} messages", file=sys.stderr)
        if options.enable_systest_events:
            print("shutdown_complete")
    return Exit.OK if shutdown.code is None else shutdown.code


# Flags ------------------------------------------------------------------------------------------------------


def check(rules: FlagRules, options: Namespace) -> None:
    if (options.topic is None) == (options.include is None):
        rules.refuse("Exactly one of --include/--topic is required.")
    if options.include is not None:
        try:
            re.compile(options.include)
        except re.error as error:
            rules.refuse(f"--include {options.include} is not a regular expression: {error}")
    if options.partition is None:
        if options.offset is not None:
            rules.refuse("The partition is required when offset is specified.")
        return
    if options.topic is None:
        rules.refuse("The topic is required when partition is specified.")
    if options.from_beginning and options.offset is not None:
        rules.refuse("Options from-beginning and offset cannot be specified together.")


def start_offset(rules: FlagRules, options: Namespace) -> int:
    if options.offset is None:
        return _EARLIEST if options.from_beginning else _LATEST
    named = {"earliest": _EARLIEST, "latest": _LATEST}.get(options.offset.lower())
    if named is not None:
        return named
    if not (options.offset.isascii() and options.offset.isdecimal()) or int(options.offset) >= 2**63:
        rules.refuse(
            f"The provided offset value '{options.offset}' is incorrect. Valid values are "
            "'earliest', 'latest', or a non-negative long."
        )
    return int(options.offset)


def consumer_properties(parser: KafkaParser, rules: FlagRules, options: Namespace) -> dict[str, object]:
    in_file = client_properties(parser, options, MISSING_SERVER)
    given = key_values(options.properties)
    groups = {group_id(rules, options, in_file, given)} - {None}
    properties = {**in_file, **given, "bootstrap.servers": in_file["bootstrap.servers"]}
    reset = properties.setdefault("auto.offset.reset", "earliest" if options.from_beginning else "latest")
    if options.from_beginning and reset != "earliest":
        rules.refuse(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', "
            "please remove one option"
        )
    properties.setdefault("client.id", "console-consumer")
    if options.isolation_level is not None:
        properties["isolation.level"] = options.isolation_level
    if groups:
        properties["group.id"] = groups.pop()
    else:
        from barnabas.runtime.random import SystemRandom

        properties["group.id"] = f"console-consumer-{SystemRandom().integer(0, LARGEST_GROUP_NUMBER)}"
        # This group is never used again.
        properties.setdefault("enable.auto.commit", "false")
    return properties


def group_id(
    rules: FlagRules, options: Namespace, in_file: dict[str, object], given: dict[str, str]
) -> str | None:
    sources = (options.group, in_file.get("group.id"), given.get("group.id"))
    groups = dict.fromkeys(str(group) for group in sources if group is not None)
    if len(groups) > 1:
        rules.refuse(
            "The group ids provided in different places (directly using '--group', "
            "via '--consumer-property', or via '--consumer.config') do not match. Detected group ids: "
            + ", ".join(f"'{group}'" for group in groups)
        )
    if groups and options.partition is not None:
        rules.refuse("Options group and partition cannot be specified together.")
    return next(iter(groups), None)


def chosen_formatter(options: Namespace) -> Formatter:
    from barnabas.cli.console.formatters import formatter
    from barnabas.cli.framework.connecting import command_properties

    properties = command_properties(options.formatter_config)
    for kind in ("key", "value"):
        named = getattr(options, f"{kind}_deserializer")
        if named:
            properties[f"{kind}.deserializer"] = named
    return formatter(options.formatter, {**properties, **key_values(options.formatting)}, PROGRAM)


# Consuming --------------------------------------------------------------------------------------------------


def start(consumer: Consumer, options: Namespace, offset: int) -> None:
    from barnabas.client.model import TopicPartition

    if options.topic is None:
        consumer.subscribe(pattern=options.include)
    elif options.partition is None:
        consumer.subscribe([options.topic])
    else:
        partition = TopicPartition(options.topic, options.partition)
        consumer.assign([partition])
        if offset == _EARLIEST:
            consumer.seek_to_beginning(partition)
        elif offset == _LATEST:
            consumer.seek_to_end(partition)
        else:
            consumer.seek(partition, offset)


class ConsumeLoop:
    """Polls and prints until a limit is reached or the process is signalled."""

    def __init__(
        self, consumer: Consumer, formatter: Formatter, options: Namespace, properties: dict[str, object]
    ) -> None:
        from barnabas.runtime.clock import SystemClock

        self.count = 0
        self._consumer = consumer
        self._formatter = formatter
        self._options = options
        self._properties = properties
        self._out: BinaryIO = sys.stdout.buffer
        self._monotonic_ns = SystemClock.monotonic_ns
        # Records that were polled but not printed yet.
        self._left: list[ConsumerRecord] = []

    def run(self, shutdown: Shutdown) -> None:
        max_messages: int | None = self._options.max_messages
        max_messages = None if max_messages == NO_LIMIT else max_messages
        timeout_ms = self._options.timeout_ms
        patience_ms = None if timeout_ms is None or timeout_ms < 0 else timeout_ms
        last_ns, is_known = self._monotonic_ns(), False
        while not shutdown.is_requested and (max_messages is None or self.count < max_messages):
            idle_ms = (self._monotonic_ns() - last_ns) // NS_PER_MS
            if patience_ms is not None and idle_ms >= patience_ms and self.count + idle_ms > 0:
                return self._timed_out(patience_ms)
            if not is_known and idle_ms > CHECK_AFTER_MS:
                self._check_topic()
                is_known = True
            wait_ms = POLL_MS if patience_ms is None else max(0, min(POLL_MS, patience_ms - idle_ms))
            self._left = self._consumer.poll(
                wait_ms, max_records=None if max_messages is None else max_messages - self.count
            )
            if self._left:
                is_known = True
                self._print_all(shutdown)
                last_ns = self._monotonic_ns()
        return None

    def _print_all(self, shutdown: Shutdown) -> None:
        self._left.reverse()
        while self._left and not shutdown.is_requested:
            record = self._left.pop()
            self.count += 1
            try:
                self._formatter.write(record, self._out)
            except ValueError as error:
                self._cannot_print(record, error)
        self._out.flush()

    def _cannot_print(self, record: ConsumerRecord, error: ValueError) -> None:
        name = f"the record at offset {record.offset} of {record.topic}-{record.partition}"
        line = f"{PROGRAM}: {name} cannot be printed: {error}"
        if not self._options.skip_message_on_error:
            raise CommandError(f"{line} (--skip-message-on-error skips such records)") from error
        self._out.flush()
        print(one_line(line), file=sys.stderr)

    def _timed_out(self, patience_ms: int) -> None:
        """Returns normally if the topic exists and no number of records was requested."""
        if self.count == 0:
            self._check_topic(must_exist=True)
        if self._options.max_messages not in (None, NO_LIMIT):
            raise CommandError(
                f"{PROGRAM}: {self.count} of {self._options.max_messages} messages arrived, and none for "
                f"{patience_ms} ms (raise --timeout-ms to wait longer)",
                Exit.TIMED_OUT,
            )

    def _check_topic(self, *, must_exist: bool = False) -> None:
        """Called when no record has arrived: reports a missing cluster, topic or partition."""
        from barnabas.cli.console.silence import explain_silence

        line = explain_silence(self._properties, PROGRAM, self._options.topic, self._options.partition)
        if line is not None:
            if must_exist:
                raise CommandError(line, Exit.NOT_FOUND)
            print(line, file=sys.stderr)

    def close(self) -> None:
        """Leaves records that were not printed to the next member of the group."""
        from barnabas.client.model import TopicPartition

        first: dict[TopicPartition, int] = {}
        for record in self._left:
            partition = TopicPartition(record.topic, record.partition)
            first[partition] = min(record.offset, first.get(partition, record.offset))
        for partition in first.keys() & self._consumer.assignment():
            self._consumer.seek(partition, first[partition])
        self._consumer.close()
