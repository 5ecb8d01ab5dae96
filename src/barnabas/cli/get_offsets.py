"""`barnabas get-offsets`: offsets of partitions: newest, oldest or at a time, as kafka-get-offsets does."""

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

# Whether a topic, and one of its partitions, is wanted.
Wanted = Callable[[str, int | None], bool]


def make_parser() -> KafkaParser:
    parser = KafkaParser(PROGRAM, "Print offsets of partitions, one line TOPIC:PARTITION:OFFSET each.")
    add = parser.add_argument
    add_connection_flags(parser, old_broker_list=True)
    add("--topic", metavar="TOPIC", help="which topics, a regular expression; all without it")
    add("--partitions", metavar="P1,P2,...", help="which partitions of them; all without it")
    add(
        "--topic-partitions",
        metavar="T1:1,T2:0-3,T3,T4:5-,:-3",
        help="topics (regular expressions) each with a partition or a range without its end; either may miss",
    )
    add(
        "--time",
        default="latest",
        metavar="TIME",
        help="-1 or latest, -2 or earliest, -3 or max-timestamp, -4 or earliest-local, -5 or latest-tiered, "
        "or milliseconds since 1970: the first offset not before (default latest)",
    )
    add("--exclude-internal-topics", action="store_true", help="leave out the topics of the system itself")
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    if not options.old_broker_list:
        FlagRules(parser, options).require("--bootstrap-server")
    if options.topic_partitions and (options.topic or options.partitions):
        raise UsageError(f"{FAILED}--topic-partitions cannot be used with --topic or --partitions")
    when = time_of(options.time)
    wanted = wanted_of(options)
    from barnabas.cli.framework.kafka_errors import told_as

    with told_as(FAILED), open_admin(parser, options) as admin:
        partitions = found_partitions(admin, wanted, include_internal=not options.exclude_internal_topics)
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


def wanted_of(options: Namespace) -> Wanted:
    """What the flags let through."""
    from barnabas.cli.framework.topic_filter import TopicFilter

    if options.topic_partitions:
        rules = [_rule(text) for text in options.topic_partitions.split(",")]
        return lambda topic, number: any(rule(topic, number) for rule in rules)
    topics = TopicFilter(options.topic if options.topic is not None else ".*")
    numbers = _numbers(options.partitions)
    return lambda topic, number: topics.allows(topic) and (number is None or not numbers or number in numbers)


def _numbers(text: str | None) -> set[int]:
    try:
        return {integer(one) for one in text.split(",")} if text else set()
    except ArgumentTypeError as error:
        raise UsageError(
            f"{FAILED}--partitions expects a comma separated list of numeric partition ids, "
            f"but received: {text}"
        ) from error


def _rule(text: str) -> Wanted:
    from barnabas.cli.framework.topic_filter import TopicFilter

    found = _RULE.fullmatch(text)
    if found is None:
        raise UsageError(f"{FAILED}Invalid rule specification: {text}")
    topics = TopicFilter(found[1] or ".*")
    least = int(found[2] or found[3] or 0)
    most = least if found[2] else int(found[4] or MAX_INT) - 1
    return lambda topic, number: topics.allows(topic) and (number is None or least <= number <= most)


def found_partitions(admin: Admin, wanted: Wanted, *, include_internal: bool) -> list[TopicPartition]:
    from barnabas.client.model import TopicPartition

    names = [name for name in admin.list_topics(include_internal=include_internal) if wanted(name, None)]
    described = admin.describe_topics(names).raise_first() if names else {}
    partitions = [
        TopicPartition(topic.name, one.partition)
        for topic in described.values()
        for one in topic.partitions
        if wanted(topic.name, one.partition)
    ]
    if not partitions:
        raise CommandError(
            f"{FAILED}Could not match any topic-partitions with the specified filters", Exit.NOT_FOUND
        )
    return sorted(partitions, key=str)


def print_offsets(admin: Admin, partitions: list[TopicPartition], when: OffsetSpec | int) -> Exit:
    from barnabas.cli.framework.kafka_errors import as_java, exit_code

    found = admin.list_offsets(dict.fromkeys(partitions, when))
    worst = Exit.OK
    for one in partitions:
        error = found.error_of(one)
        if error is not None:
            print(
                f"Skip getting offsets for topic-partition {one} due to error: {as_java(error)}",
                file=sys.stderr,
            )
            worst = exit_code(error)
        elif found[one].offset != UNKNOWN_OFFSET:
            print(f"{one.topic}:{one.partition}:{found[one].offset}")
    return worst
