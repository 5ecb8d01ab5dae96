"""`barnabas topics`: create, list, describe, alter and delete topics, as kafka-topics does."""

from __future__ import annotations

import sys
from argparse import SUPPRESS, ArgumentTypeError, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import add_connection_flags, open_admin, open_topic_admin
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.cli.framework.numbers import integer

if TYPE_CHECKING:
    from barnabas.client.sync import Admin
    from barnabas.client.sync.topics import TopicAdmin

    AnyAdmin = Admin | TopicAdmin

PROGRAM = "barnabas topics"
FAILED = "Error while executing topic command : "
ACTIONS = ("--create", "--alter", "--list", "--describe", "--delete")
REPORTS = (
    "--under-replicated-partitions",
    "--unavailable-partitions",
    "--under-min-isr-partitions",
    "--at-min-isr-partitions",
)
MAX_REPLICATION_FACTOR = 2**15 - 1
COLLISION_WARNING = (
    "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could "
    "collide. To avoid issues it is best to use either, but not both."
)


def make_parser() -> KafkaParser:
    parser = KafkaParser(
        PROGRAM,
        "Create, list, describe, alter or delete topics.",
        "Give exactly one of --create, --list, --describe, --alter and --delete.",
    )
    add = parser.add_argument
    add_connection_flags(parser, old_zookeeper=True)
    add("--create", action="store_true", help="create a topic")
    add("--list", action="store_true", help="print the names of topics")
    add("--describe", action="store_true", help="print topics and their partitions")
    add("--alter", action="store_true", help="increase the number of partitions")
    add("--delete", action="store_true", help="delete topics")
    add("--topic", metavar="TOPIC", help="the topic; except for --create, a regular expression")
    add("--topic-id", metavar="ID", help="the topic to describe, by its id")
    add("--partitions", type=integer, metavar="COUNT", help="number of partitions")
    add("--replication-factor", type=integer, metavar="COUNT", help="number of replicas of each partition")
    add(
        "--replica-assignment",
        metavar="B1:B2,B1:B2,...",
        help="the replicas of each partition; the first is the preferred leader",
    )
    add(
        "--config",
        action="append",
        metavar="NAME=VALUE",
        help="an option of the new topic; may be repeated",
    )
    add("--delete-config", action="append", metavar="NAME", help=SUPPRESS)
    add("--if-exists", action="store_true", help="ignore a topic that does not exist")
    add("--if-not-exists", action="store_true", help="ignore a topic that already exists")
    add("--exclude-internal", action="store_true", help="omit internal topics")
    add("--topics-with-overrides", action="store_true", help="only topics with overridden options")
    add("--under-replicated-partitions", action="store_true", help="only under-replicated partitions")
    add("--unavailable-partitions", action="store_true", help="only partitions without a leader")
    add(
        "--under-min-isr-partitions",
        action="store_true",
        help="only partitions with fewer in-sync replicas than min.insync.replicas",
    )
    add(
        "--at-min-isr-partitions",
        action="store_true",
        help="only partitions with exactly min.insync.replicas in-sync replicas",
    )
    add(
        "--partition-size-limit-per-response",
        type=integer,
        metavar="COUNT",
        help="maximum number of partitions per response (default 2000)",
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    with_zookeeper = _is_of_zookeeper(options)
    action = check_flags(FlagRules(parser, options), options, with_zookeeper=with_zookeeper)
    if with_zookeeper:
        from barnabas.cli.topics import zookeeper_topics

        return zookeeper_topics.run(options)
    from barnabas.cli.framework.kafka_errors import error_prefix

    with error_prefix(FAILED):
        new_topic = checked_topic(options) if action in ("--create", "--alter") else None
        if action == "--describe":
            from barnabas.cli.topics.describe import describe

            with open_admin(parser, options) as full_admin:
                describe(full_admin, options)
            return Exit.OK
        with open_topic_admin(parser, options) as admin:
            if new_topic is not None:
                new_topic.apply(admin)
            elif action == "--list":
                print("\n".join(selected_topics(admin, options)))
            else:
                delete(admin, options)
    return Exit.OK


def _is_of_zookeeper(options: Namespace) -> bool:
    """Whether --zookeeper names a ZooKeeper; where there is none, brokers are asked instead."""
    if not options.old_zookeeper or options.bootstrap_server:
        return False
    from barnabas.cli.topics.zookeeper_topics import is_zookeeper_there

    return is_zookeeper_there(options.old_zookeeper)


def check_flags(rules: FlagRules, options: Namespace, *, with_zookeeper: bool) -> str:
    """The action; conflicting flags are refused with Apache Kafka's messages."""
    action = rules.exactly_one(
        ACTIONS,
        "Command must include exactly one action: --list, --describe, --create, --alter or --delete",
    )
    if options.delete_config and not with_zookeeper:
        print(
            "delete-config option is no longer supported and deprecated since version 4.0. "
            "The config will be fully removed in future releases.",
            file=sys.stderr,
        )
    if not (options.bootstrap_server or options.old_zookeeper):
        raise UsageError("--bootstrap-server must be specified")
    if options.describe and options.if_exists and not options.topic and not options.topic_id:
        rules.refuse("--topic or --topic-id is required to describe a topic")
    if options.describe and options.if_exists and options.topic and options.topic_id:
        print(
            "Only topic id will be used when both --topic and --topic-id are specified and topicId is not "
            "Uuid.ZERO_UUID",
            file=sys.stderr,
        )
    if action not in ("--list", "--describe"):
        rules.require("--topic")
    if action == "--alter" and not with_zookeeper:
        if options.config:
            rules.refuse(
                'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]"'
                " (To alter topic configurations, the kafka-configs tool can be used.)"
            )
        rules.require("--partitions")
    for flag, allowed in FLAGS_OF_ACTIONS.items():
        rules.forbid(flag, [other for other in ACTIONS if other not in allowed])
    if options.create:
        rules.forbid("--replica-assignment", ["--partitions", "--replication-factor"])
    for report in REPORTS:
        rules.forbid(report, ["--topics-with-overrides"])
    if with_zookeeper:
        from barnabas.cli.topics.zookeeper_topics import check_flags_of_zookeeper

        check_flags_of_zookeeper(rules, options)
    return action


FLAGS_OF_ACTIONS = {
    "--config": ("--alter", "--create"),
    "--partitions": ("--alter", "--create"),
    "--replication-factor": ("--create",),
    "--replica-assignment": ("--alter", "--create"),
    **dict.fromkeys(REPORTS, ("--describe",)),
    "--topics-with-overrides": ("--describe",),
    "--if-exists": ("--alter", "--delete", "--describe"),
    "--if-not-exists": ("--create",),
    "--exclude-internal": ("--list", "--describe"),
}


def selected_topics(admin: AnyAdmin, options: Namespace) -> list[str]:
    """The topics that --topic matches, sorted; all topics without it."""
    from barnabas.cli.framework.topic_filter import matching_topics

    names = admin.list_topics(include_internal=not options.exclude_internal)
    return matching_topics(names, options.topic, exclude_internal=options.exclude_internal)


def existing_topics(admin: AnyAdmin, options: Namespace) -> list[str]:
    """The same; raises if there are none, unless --if-exists is given."""
    names = selected_topics(admin, options)
    if not names and options.topic and not options.if_exists:
        raise CommandError(f"{FAILED}Topic '{options.topic}' does not exist as expected", Exit.NOT_FOUND)
    return names


def delete(admin: AnyAdmin, options: Namespace) -> None:
    names = existing_topics(admin, options)
    if names:
        admin.delete_topics(names).raise_first()


def checked_topic(options: Namespace) -> NewTopic:
    """The topic of --create or --alter, checked before the cluster is contacted."""
    return NewTopic(options, *checked_topic_options(options))


def checked_topic_options(options: Namespace) -> tuple[dict[str, str], list[list[int]]]:
    """The options of the topic, and the replicas of its partitions if they are given."""
    from barnabas.config import TOPIC

    configs = dict(_config(text) for text in options.config or ())
    TOPIC.refuse_unknown(configs)
    TOPIC.parse(configs)
    if options.create:
        if options.replication_factor is not None and not (
            1 <= options.replication_factor <= MAX_REPLICATION_FACTOR
        ):
            bounds = f"between 1 and {MAX_REPLICATION_FACTOR} inclusive"
            raise UsageError(f"{FAILED}The replication factor must be {bounds}")
        if options.partitions is not None and options.partitions < 1:
            raise UsageError(f"{FAILED}The partitions must be greater than 0")
    return configs, replica_assignment(options.replica_assignment)


def _config(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not value or "=" in value:
        raise UsageError(
            f"{FAILED}requirement failed: Invalid topic config: all configs to be added must be in the "
            'format "key=val".'
        )
    return name.strip(), value.strip()


def replica_assignment(text: str | None) -> list[list[int]]:
    """`1:2,2:3` as the replicas of each partition."""
    assignment: list[list[int]] = []
    for number, part in enumerate(text.split(",") if text else ()):
        try:
            brokers = [integer(broker.strip()) for broker in part.split(":")]
        except ArgumentTypeError as error:
            raise UsageError(f'{FAILED}For input string: "{part}"') from error
        twice = list(dict.fromkeys(broker for broker in brokers if brokers.count(broker) > 1))
        if twice:
            duplicates = ",".join(map(str, twice))
            raise UsageError(
                f"{FAILED}Partition replica lists may not contain duplicate entries: {duplicates}"
            )
        assignment.append(brokers)
        if len(brokers) != len(assignment[0]):
            raise UsageError(f"{FAILED}Partition {number} has different replication factor: {brokers}")
    return assignment


class NewTopic:
    """A topic to create, or to add partitions to."""

    def __init__(self, options: Namespace, configs: dict[str, str], assignment: list[list[int]]) -> None:
        self._options = options
        self._configs = configs
        self._assignment = assignment

    def apply(self, admin: AnyAdmin) -> None:
        if self._options.create:
            self._create(admin)
        else:
            self._alter(admin)

    def _create(self, admin: AnyAdmin) -> None:
        from barnabas.client.admin import topics as calls
        from barnabas.client.errors import TopicAlreadyExistsError

        options, name = self._options, self._options.topic
        if "." in name or "_" in name:
            print(COLLISION_WARNING, file=sys.stderr)
        new_topic = calls.NewTopic(
            name,
            calls.BROKER_DEFAULT if options.partitions is None else options.partitions,
            calls.BROKER_DEFAULT if options.replication_factor is None else options.replication_factor,
            dict(enumerate(self._assignment)) or None,
            self._configs,
        )
        try:
            admin.create_topics([new_topic]).raise_first()
        except TopicAlreadyExistsError:
            if not options.if_not_exists:
                raise
            return
        print(f"Created topic {name}.")

    def _alter(self, admin: AnyAdmin) -> None:
        names = existing_topics(admin, self._options)
        if not names:
            return
        assignments = None
        if self._assignment:
            present = admin.describe_topics(names).raise_first()
            assignments = {name: self._assignment[len(present[name].partitions) :] for name in names}
        counts = dict.fromkeys(names, self._options.partitions)
        admin.create_partitions(counts, assignments=assignments).raise_first()
