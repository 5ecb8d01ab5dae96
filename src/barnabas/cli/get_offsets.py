"""`barnabas get-offsets`: the latest, earliest or timestamped offsets of partitions, as kafka-get-offsets."""

from __future__ import annotations

import re
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import add_connection_flags, open_admin
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.cli.framework.numbers import MAX_INT, integer, long_integer

if TYPE_CHECKING:
    from barnabas.client.admin.records import OffsetSpec
    from barnabas.client.model import TopicPartition
    from barnabas.client.sync import Admin

PROGRAM = "barnabas get-offsets"
FAILED = "Error occurred: "
NAMED_TIMES = {"latest": -1, "earliest": -2, "max-timestamp": -3, "earliest-local": -4, "latest-tiered": -5}
UNKNOWN_OFFSET = -1
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")

# Whether a topic, or one of its partitions, is selected.
Filter = Callable[[str, int | None], bool]


def make_parser() -> KafkaParser:
    parser = KafkaParser(PROGRAM, "Print the offsets of partitions, one line TOPIC:PARTITION:OFFSET each.")
    add = parser.add_argument
    add_connection_flags(parser, old_broker_list=True)
    add("--topic", metavar="TOPIC", help="regular expression of topics (default all)")
    add("--partitions", metavar="P1,P2,...", help="partitions of these topics (default all)")
    add(
        "--topic-partitions",
        metavar="T1:1,T2:0-3,T3,T4:5-,:-3",
        help="regular expressions of topics, each with a partition or a range (exclusive end); both optional",
    )
    add(
        "--time",
        default="latest",
        metavar="TIME",
        help="-1 or latest, -2 or earliest, -3 or max-timestamp, -4 or earliest-local, -5 or latest-tiered, "
        "or milliseconds since 1970 for the first offset at or after that time (default latest)",
    )
    add("--exclude-internal-topics", action="store_true", help="omit internal topics")
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    if not options.old_broker_list:
        FlagRules(parser, options).require("--bootstrap-server")
    if options.topic_partitions and (options.topic or options.partitions):
        raise UsageError(f"{FAILED}--topic-partitions cannot be used with --topic or --partitions")
    when = time_of(options.time)
    matches = filter_of(options)
    from barnabas.cli.framework.kafka_errors import error_prefix

    with error_prefix(FAILED), open_admin(parser, options) as admin:
        partitions = matching_partitions(admin, matches, include_internal=not options.exclude_internal_topics)
        return print_offsets(admin, partitions, when)


def time_of(text: str) -> int:
    if text in NAMED_TIMES:
        return NAMED_TIMES[text]
    try:
        return long_integer(text)
    except ArgumentTypeError as error:
        raise UsageError(
            f"{FAILED}Malformed time argument {text}. Please use -1 or latest / -2 or earliest / -3 or "
            "max-timestamp / -4 or earliest-local / -5 or latest-tiered, or a specified long format timestamp"
        ) from error


def filter_of(options: Namespace) -> Filter:
    """The filter that the flags describe."""
    from barnabas.cli.framework.topic_filter import TopicFilter

    if options.topic_partitions:
        rules = [_rule(text) for text in options.topic_partitions.split(",")]
        return lambda topic, number: any(rule(topic, number) for rule in rules)
    topics = TopicFilter(options.topic if options.topic is not None else ".*")
    numbers = _numbers(options.partitions)
    return lambda topic, number: topics.allows(topic) and (number is None or not numbers or number in numbers)


def _numbers(text: str | None) -> set[int]:
    try:
        return {integer(number) for number in text.split(",")} if text else set()
    except ArgumentTypeError as error:
        raise UsageError(
            f"{FAILED}--partitions expects a comma separated list of numeric partition ids, "
            f"but received: {text}"
        ) from error


def _rule(text: str) -> Filter:
    from barnabas.cli.framework.topic_filter import TopicFilter

    match = _RULE.fullmatch(text)
    if match is None:
        raise UsageError(f"{FAILED}Invalid rule specification: {text}")
    topics = TopicFilter(match[1] or ".*")
    least = int(match[2] or match[3] or 0)
    most = least if match[2] else int(match[4] or MAX_INT) - 1
    return lambda topic, number: topics.allows(topic) and (number is None or least <= number <= most)


def matching_partitions(admin: Admin, matches: Filter, *, include_internal: bool) -> list[TopicPartition]:
    from barnabas.client.model import TopicPartition

    names = [name for name in admin.list_topics(include_internal=include_internal) if matches(name, None)]
    described = admin.describe_topics(names).raise_first() if names else {}
    partitions = [
        TopicPartition(topic.name, info.partition)
        for topic in described.values()
        for info in topic.partitions
        if matches(topic.name, info.partition)
    ]
    if not partitions:
        raise CommandError(
            f"{FAILED}Could not match any topic-partitions with the specified filters", Exit.NOT_FOUND
        )
    return sorted(partitions, key=str)


def print_offsets(admin: Admin, partitions: list[TopicPartition], when: OffsetSpec | int) -> Exit:
    from barnabas.cli.framework.kafka_errors import as_java, exit_code

    results = admin.list_offsets(dict.fromkeys(partitions, when))
    worst = Exit.OK
    for partition in partitions:
        error = results.error_of(partition)
        if error is not None:
            print(
                f"Skip getting offsets for topic-partition {partition} due to error: {as_java(error)}",
                file=sys.stderr,
            )
            worst = exit_code(error)
        elif results[partition].offset != UNKNOWN_OFFSET:
            print(f"{partition.topic}:{partition.partition}:{results[partition].offset}")
    return worst
