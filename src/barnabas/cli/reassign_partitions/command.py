"""`barnabas reassign-partitions`: move replicas between brokers or folders, as kafka-reassign-partitions.

Contains the flags, --generate and --list; plans belong in `plan`, --execute and --cancel in `execute`,
--verify in `verify`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import KafkaParser
from barnabas.cli.framework.connecting import add_connection_flags, open_admin
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.cli.framework.numbers import long_integer

if TYPE_CHECKING:
    from barnabas.client.sync import Admin

PROGRAM = "barnabas reassign-partitions"
ACTIONS = ("--generate", "--execute", "--verify", "--cancel", "--list")
REQUIRED = {
    "--generate": ("--topics-to-move-json-file", "--broker-list"),
    "--execute": ("--reassignment-json-file",),
    "--verify": ("--reassignment-json-file",),
    "--cancel": ("--reassignment-json-file",),
    "--list": (),
}
# Flags, and the actions that allow them.
ALLOWED = {
    "--topics-to-move-json-file": ("--generate",),
    "--broker-list": ("--generate",),
    "--disable-rack-aware": ("--generate",),
    "--reassignment-json-file": ("--execute", "--verify", "--cancel"),
    "--additional": ("--execute",),
    "--throttle": ("--execute",),
    "--replica-alter-log-dirs-throttle": ("--execute",),
    "--disallow-replication-factor-change": ("--execute",),
    "--timeout": ("--execute", "--cancel"),
    "--preserve-throttles": ("--verify", "--cancel"),
    "--bootstrap-controller": ("--cancel", "--list"),
}
EPILOG = """\
Give exactly one of --generate, --execute, --verify, --cancel and --list.  The formats of the files:
  {"topics": [{"topic": "orders"}], "version": 1}
  {"partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}],
   "version": 1}
log_dirs is optional; a path moves the replica to that log directory of its broker."""


def make_parser() -> KafkaParser:
    parser = KafkaParser(PROGRAM, "Move replicas of partitions to other brokers or log directories.", EPILOG)
    add = parser.add_argument
    add_connection_flags(parser, controllers=True, old_zookeeper=True)
    add("--generate", action="store_true", help="propose an assignment for the partitions of topics")
    add("--execute", action="store_true", help="start the reassignment in a file")
    add("--verify", action="store_true", help="show the progress; when complete, remove throttles")
    add("--cancel", action="store_true", help="cancel the reassignment in a file")
    add("--list", action="store_true", help="show all active reassignments")
    add("--topics-to-move-json-file", metavar="FILE", help="the topics for --generate")
    add("--broker-list", metavar="0,1,...", help="the brokers for --generate")
    add("--disable-rack-aware", action="store_true", help="ignore racks in --generate")
    add("--reassignment-json-file", metavar="FILE", help="the new assignment of each partition")
    add("--additional", action="store_true", help="allow other active reassignments, and change throttles")
    add("--throttle", type=long_integer, metavar="RATE", help="bytes per second between brokers")
    add(
        "--replica-alter-log-dirs-throttle",
        type=long_integer,
        metavar="RATE",
        help="bytes per second between log directories of a broker",
    )
    add(
        "--timeout", type=long_integer, metavar="MS", help="how long a move may take to start (default 10000)"
    )
    add("--preserve-throttles", action="store_true", help="do not change throttles")
    add(
        "--disallow-replication-factor-change",
        action="store_true",
        help="refuse changes of the replication factor",
    )
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    action = check_flags(FlagRules(parser, options), options)
    from barnabas.cli.framework.kafka_errors import java_error_prefix

    with java_error_prefix("Error: "), open_admin(parser, options) as admin:
        if action == "--list":
            print(active_reassignments(admin))
        elif action == "--generate":
            generate(admin, options)
        elif action == "--verify":
            from barnabas.cli.reassign_partitions.verify import verify

            return verify(admin, options)
        else:
            from barnabas.cli.reassign_partitions.execute import cancel, execute

            action_function = execute if action == "--execute" else cancel
            action_function(admin, options)
    return Exit.OK


def check_flags(rules: FlagRules, options: Namespace) -> str:
    action = rules.exactly_one(ACTIONS, f"Command must include exactly one action: {', '.join(ACTIONS)}")
    if options.bootstrap_server and options.bootstrap_controller:
        rules.refuse("Please don't specify both --bootstrap-server and --bootstrap-controller")
    if not (options.bootstrap_server or options.bootstrap_controller or options.old_zookeeper):
        rules.refuse("Please specify either --bootstrap-server or --bootstrap-controller")
    rules.require(*REQUIRED[action])
    for flag, actions in ALLOWED.items():
        if action not in actions and rules.has(flag):
            rules.refuse(f'Option "[{flag[2:]}]" can\'t be used with action "[{action[2:]}]"')
    return action


def active_reassignments(admin: Admin) -> str:
    lines = []
    for partition, move in sorted(admin.list_partition_reassignments().items()):
        line = f"{partition}: replicas: {_ids(move.replicas)}."
        if move.adding_replicas:
            line += f" adding: {_ids(move.adding_replicas)}."
        if move.removing_replicas:
            line += f" removing: {_ids(move.removing_replicas)}."
        lines.append(line)
    if not lines:
        return "No partition reassignments found."
    return "\n".join(["Current partition reassignments:", *lines])


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers))


def generate(admin: Admin, options: Namespace) -> None:
    """Proposes an assignment with the algorithm for new topics."""
    from barnabas.base.errors import KafkaError
    from barnabas.cli.reassign_partitions.plan import (
        as_plan,
        assignments_of_topics,
        read_brokers,
        read_topics,
    )
    from barnabas.client.model import TopicPartition
    from barnabas.controller.topics.placement import UsableBroker, place
    from barnabas.runtime.random import SystemRandom

    wanted = read_brokers(options.broker_list)
    topics = read_topics(options.topics_to_move_json_file)
    present = assignments_of_topics(admin, topics)
    nodes = [node for node in admin.describe_cluster().nodes if node.id in wanted]
    racks = [None if options.disable_rack_aware else node.rack for node in nodes]
    if None in racks and any(racks):
        raise CommandError(
            "Error: Not all brokers have rack information. Add --disable-rack-aware in command line to make "
            "replica assignment without rack information."
        )
    brokers = [UsableBroker(node.id, rack, False) for node, rack in zip(nodes, racks, strict=True)]
    proposed = {}
    for topic in topics:
        partitions = {
            partition: replicas for partition, replicas in present.items() if partition.topic == topic
        }
        factor = len(next(iter(partitions.values())))
        try:
            assignment = place(brokers, len(partitions), factor, SystemRandom())
        except KafkaError as error:
            raise CommandError(f"Error: {error.message}") from error
        proposed.update(
            {TopicPartition(topic, number): replicas for number, replicas in enumerate(assignment)}
        )
    print(f"Current partition replica assignment\n{as_plan(present)}\n")
    print(f"Proposed partition reassignment configuration\n{as_plan(proposed)}")
