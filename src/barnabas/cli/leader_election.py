"""`barnabas leader-election`: elect leaders of partitions anew, as kafka-leader-election does."""

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
WHICH = ("--topic", "--all-topic-partitions", "--path-to-json-file")
TIMEOUT_MS = 30_000


def make_parser() -> KafkaParser:
    parser = KafkaParser(
        PROGRAM,
        "Elect leaders: the preferred replica, or any that is alive where no replica in sync is left.",
        'The file looks like this:\n  {"partitions": [{"topic": "orders", "partition": 0}]}',
    )
    add = parser.add_argument
    add_connection_flags(parser, config_flags=("--admin.config", "--command-config"), old_zookeeper=True)
    add(
        "--election-type",
        metavar="TYPE",
        help="preferred, or unclean: elect a replica that may lack records; they are lost then",
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
    partitions = wanted_partitions(options)
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
        WHICH,
        "One and only one of the following options is required: topic, all-topic-partitions, "
        "path-to-json-file",
    )
    if options.topic is not None and options.partition is None:
        rules.refuse("Missing required option(s): partition")
    if options.topic is None and options.partition is not None:
        rules.refuse("Option partition is only allowed if topic is used")


def wanted_partitions(options: Namespace) -> list[TopicPartition] | None:
    """None stands for all that need it."""
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
    found = [
        TopicPartition(field(one, "topic", str, path), field(one, "partition", int, path))
        for one in items(data, "partitions", dict, path)
    ]
    twice = [str(one) for one in dict.fromkeys(found) if found.count(one) > 1]
    if twice:
        raise UsageError(f"Replica election data contains duplicate partitions: [{', '.join(twice)}]")
    return found


def elect(admin: Admin, kind: str, partitions: list[TopicPartition] | None) -> Exit:
    from barnabas.client.admin.placement import ElectionType
    from barnabas.client.errors import AuthorizationError, KafkaTimeoutError

    try:
        outcomes = admin.elect_leaders(ElectionType[kind], partitions)
    except KafkaTimeoutError as late:
        raise CommandError(f"Timeout waiting for election results ({late.message})", Exit.TIMED_OUT) from late
    except AuthorizationError as denied:
        raise CommandError("Not authorized to perform leader election", Exit.DENIED) from denied
    return tell(kind, outcomes)


def tell(kind: str, outcomes: Outcomes[TopicPartition, None]) -> Exit:
    """Print what came of it; the worst decides how the tool ends."""
    from barnabas.base.errors import ErrorCode
    from barnabas.base.java_order import order_by_hash, partition_hash
    from barnabas.cli.framework.kafka_errors import as_java, exit_code

    errors = outcomes.errors
    order = order_by_hash(outcomes, partition_hash)
    elected = [str(one) for one in order if one not in errors]
    needless = [one for one in order if one in errors and errors[one].code is ErrorCode.ELECTION_NOT_NEEDED]
    failed = [one for one in order if one in errors and one not in needless]
    if elected:
        print(f"Successfully completed leader election ({kind}) for partitions {', '.join(elected)}")
    if needless:
        print(f"Valid replica already elected for partitions {', '.join(map(str, needless))}")
    sys.stdout.flush()
    for one in failed:
        print(
            f"Error completing leader election ({kind}) for partition: {one}: {as_java(errors[one])}",
            file=sys.stderr,
        )
    if failed:
        print(f"{len(failed)} replica(s) could not be elected", file=sys.stderr)
    return max((exit_code(errors[one]) for one in failed), default=Exit.OK)
