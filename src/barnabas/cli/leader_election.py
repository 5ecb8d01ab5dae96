"""`barnabas leader-election`: elect leaders of partitions, as kafka-leader-election does."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import API_TIMEOUT, add_connection_flags, open_admin
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.cli.framework.numbers import MAX_INT, whole_number

if TYPE_CHECKING:
    from barnabas.client.model import TopicPartition
    from barnabas.client.outcomes import Outcomes
    from barnabas.client.sync import Admin

PROGRAM = "barnabas leader-election"
TYPES = ("PREFERRED", "UNCLEAN")
SCOPES = ("--topic", "--all-topic-partitions", "--path-to-json-file")
TIMEOUT_MS = 30_000


def make_parser() -> KafkaParser:
    parser = KafkaParser(
        PROGRAM,
        "Elect leaders: the preferred replica, or any live replica of a partition without in-sync replicas.",
        'The format of the file:\n  {"partitions": [{"topic": "orders", "partition": 0}]}',
    )
    add = parser.add_argument
    add_connection_flags(parser, config_flags=("--admin.config", "--command-config"), old_zookeeper=True)
    add(
        "--election-type",
        metavar="TYPE",
        help="preferred, or unclean: elect a replica that may lack records, which are then lost",
    )
    add("--topic", metavar="TOPIC", help="the topic of the partition")
    add("--partition", type=whole_number(0, MAX_INT), metavar="NUMBER", help="the partition")
    add("--all-topic-partitions", action="store_true", help="every partition that needs an election")
    add("--path-to-json-file", metavar="FILE", help="a file with the partitions")
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    check_flags(FlagRules(parser, options), options)
    kind = options.election_type.upper()
    partitions = requested_partitions(options)
    with open_admin(parser, options, defaults={API_TIMEOUT: TIMEOUT_MS}) as admin:
        return elect(admin, kind, partitions)


def check_flags(rules: FlagRules, options: Namespace) -> None:
    missing = [name for name in ("bootstrap-server", "election-type") if not rules.has(f"--{name}")]
    if options.old_zookeeper and "bootstrap-server" in missing:
        missing.remove("bootstrap-server")
    if missing:
        rules.refuse(f"Missing required option(s): {', '.join(missing)}")
    if options.election_type.upper() not in TYPES:
        rules.refuse(f"Cannot parse argument '{options.election_type}' of option election-type")
    rules.exactly_one(
        SCOPES,
        "One and only one of the following options is required: topic, all-topic-partitions, "
        "path-to-json-file",
    )
    if options.topic is not None and options.partition is None:
        rules.refuse("Missing required option(s): partition")
    if options.topic is None and options.partition is not None:
        rules.refuse("Option partition is only allowed if topic is used")


def requested_partitions(options: Namespace) -> list[TopicPartition] | None:
    """None means all partitions that need an election."""
    from barnabas.cli.framework.json_file import field, items, read_json_file
    from barnabas.client.model import TopicPartition

    if options.topic is not None:
        return [TopicPartition(options.topic, options.partition)]
    path = options.path_to_json_file
    if path is None:
        return None
    data = read_json_file(path, "Replica election data is empty")
    if isinstance(data, dict) and "partitions" not in data:
        raise UsageError('Replica election data is missing "partitions" field')
    partitions = [
        TopicPartition(field(entry, "topic", str, path), field(entry, "partition", int, path))
        for entry in items(data, "partitions", dict, path)
    ]
    twice = [str(partition) for partition in dict.fromkeys(partitions) if partitions.count(partition) > 1]
    if twice:
        raise UsageError(f"Replica election data contains duplicate partitions: [{', '.join(twice)}]")
    return partitions


def elect(admin: Admin, kind: str, partitions: list[TopicPartition] | None) -> Exit:
    from barnabas.client.admin.reassignments import ElectionType
    from barnabas.client.errors import AuthorizationError, KafkaTimeoutError

    try:
        outcomes = admin.elect_leaders(ElectionType[kind], partitions)
    except KafkaTimeoutError as late:
        raise CommandError(f"Timeout waiting for election results ({late.message})", Exit.TIMED_OUT) from late
    except AuthorizationError as denied:
        raise CommandError("Not authorized to perform leader election", Exit.DENIED) from denied
    return print_results(kind, outcomes)


def print_results(kind: str, outcomes: Outcomes[TopicPartition, None]) -> Exit:
    """Prints the results; returns the highest exit code."""
    from barnabas.base.errors import ErrorCode
    from barnabas.base.java_order import order_by_hash, partition_hash
    from barnabas.cli.framework.kafka_errors import as_java, exit_code

    errors = outcomes.errors
    order = order_by_hash(outcomes, partition_hash)
    elected = [str(partition) for partition in order if partition not in errors]
    needless = [
        partition
        for partition in order
        if partition in errors and errors[partition].code is ErrorCode.ELECTION_NOT_NEEDED
    ]
    failed = [partition for partition in order if partition in errors and partition not in needless]
    if elected:
        print(f"Successfully completed leader election ({kind}) for partitions {', '.join(elected)}")
    if needless:
        print(f"Valid replica already elected for partitions {', '.join(map(str, needless))}")
    sys.stdout.flush()
    for partition in failed:
        print(
            f"Error completing leader election ({kind}) for partition: {partition}: "
            f"{as_java(errors[partition])}",
            file=sys.stderr,
        )
    if failed:
        print(f"{len(failed)} replica(s) could not be elected", file=sys.stderr)
    return max((exit_code(errors[partition]) for partition in failed), default=Exit.OK)
