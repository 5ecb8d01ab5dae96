"""`barnabas log-dirs`: the log directories of brokers and their replicas, as kafka-log-dirs does."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import add_connection_flags, open_admin
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.cli.framework.numbers import integer

if TYPE_CHECKING:
    from barnabas.client.admin.log_dirs import LogDirDescription
    from barnabas.client.sync import Admin

PROGRAM = "barnabas log-dirs"


def make_parser() -> KafkaParser:
    parser = KafkaParser(PROGRAM, "Print the log directories of brokers and their replicas, as JSON.")
    add = parser.add_argument
    add_connection_flags(parser)
    add("--describe", action="store_true", help="describe the log directories (the only action)")
    add("--broker-list", default="", metavar="0,1,...", help="ids of brokers (default all)")
    add("--topic-list", default="", metavar="T1,T2,...", help="only the replicas of these topics")
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    FlagRules(parser, options).require("--bootstrap-server", "--describe")
    topics = {name for name in options.topic_list.split(",") if name}
    brokers = [_broker(text) for text in options.broker_list.split(",") if text]
    from barnabas.cli.framework.kafka_errors import error_prefix

    with error_prefix(""), open_admin(parser, options) as admin:
        describe(admin, brokers, topics)
    return Exit.OK


def _broker(text: str) -> int:
    try:
        return integer(text)
    except ArgumentTypeError as error:
        raise UsageError(f'For input string: "{text}" (--broker-list takes ids of brokers)') from error


def describe(admin: Admin, brokers: list[int], topics: set[str]) -> None:
    alive = [node.id for node in admin.describe_cluster().nodes]
    missing = [str(broker) for broker in dict.fromkeys(brokers) if broker not in alive]
    if missing:
        raise CommandError(
            f"ERROR: The given brokers do not exist from --broker-list: {','.join(missing)}. "
            f"Current existent brokers: {','.join(map(str, alive))}",
            Exit.NOT_FOUND,
        )
    queried = sorted(set(brokers) or set(alive))
    print("Querying brokers for log directories information")
    log_dirs = admin.describe_log_dirs(queried).raise_first()
    print(f"Received log directory information from brokers {','.join(map(str, queried))}")
    print(as_json({broker: log_dirs[broker] for broker in queried}, topics))
    for broker in queried:
        for directory in log_dirs[broker].values():
            if directory.is_full:
                print(f"{directory.path} of broker {broker} is full: it refuses writes", file=sys.stderr)


def as_json(log_dirs: Mapping[int, Mapping[str, LogDirDescription]], topics: set[str]) -> str:
    """One line; keys and replicas in the order in which Apache Kafka's tool iterates over its hash maps."""
    import json

    page = {
        "brokers": [
            {
                "broker": broker,
                "logDirs": [_directory(directory, topics) for directory in directories.values()],
            }
            for broker, directories in log_dirs.items()
        ],
        "version": 1,
    }
    return json.dumps(page, separators=(",", ":"), ensure_ascii=False)


def _directory(directory: LogDirDescription, topics: set[str]) -> dict[str, Any]:
    from barnabas.base.java_order import order_by_hash, partition_hash
    from barnabas.cli.framework.kafka_errors import java_name

    replicas = [replica for replica in directory.replicas if not topics or replica.topic in topics]
    return {
        "partitions": [
            {
                "partition": str(replica),
                "size": directory.replicas[replica].size_bytes,
                "offsetLag": directory.replicas[replica].offset_lag,
                "isFuture": directory.replicas[replica].is_future,
            }
            for replica in order_by_hash(replicas, partition_hash)
        ],
        "error": None if directory.error is None else java_name(directory.error.code),
        "logDir": directory.path,
    }
