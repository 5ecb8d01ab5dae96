"""`barnabas transactions`: look at transactions, find those that hang, and end them.

The commands, flags and lines are those of Apache Kafka's kafka-transactions.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.columns import tabbed_table
from barnabas.cli.framework.connecting import add_connection_flags, open_admin
from barnabas.cli.framework.exits import CommandError, Exit, UsageError
from barnabas.cli.framework.numbers import integer, long_integer, whole_number
from barnabas.cli.framework.subcommands import Subcommand, Tool

if TYPE_CHECKING:
    from barnabas.client.admin.transactions import AbortTransactionSpec
    from barnabas.client.model import TopicPartition
    from barnabas.client.sync import Admin

PROGRAM = "barnabas transactions"
NONE = "None"
NOT_KNOWN = -1
# How long a transaction may last by default before it counts as hanging.
DEFAULT_MAX_MINUTES = 15
WHICH = (
    "The transaction to abort must be identified either with --start-offset (for brokers on 3.0 or above)"
    " or with --producer-id, --producer-epoch, and --coordinator-epoch (for older brokers)"
)
SCOPE = "The `find-hanging` command requires either --topic or --broker-id to limit the scope of the search"


def _declare(parser: ArgumentParser) -> None:
    add_connection_flags(parser)


def _declare_list(parser: ArgumentParser) -> None:
    add = parser.add_argument
    duration_help = "only transactions that have lasted longer than this; negative for all"
    add("--duration-filter", type=long_integer, default=-1, metavar="MS", help=duration_help)
    add("--transactional-id-pattern", metavar="REGEX", help="only those whose whole id matches")


def _declare_describe(parser: ArgumentParser) -> None:
    parser.add_argument("--transactional-id", required=True, metavar="ID", help="the transactional id")


def _declare_partition(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--topic", required=True, metavar="TOPIC", help="the topic")
    add("--partition", type=whole_number(0), required=True, metavar="NUMBER", help="the partition")


def _declare_describe_producers(parser: ArgumentParser) -> None:
    _declare_partition(parser)
    parser.add_argument("--broker-id", type=integer, metavar="ID", help="ask this replica, not the leader")


def _declare_abort(parser: ArgumentParser) -> None:
    _declare_partition(parser)
    add = parser.add_argument
    add("--start-offset", type=long_integer, metavar="OFFSET", help="where the transaction starts")
    add("--producer-id", type=long_integer, metavar="ID", help="or: whose it is")
    add("--producer-epoch", type=integer, metavar="EPOCH", help="and the epoch of that producer")
    add("--coordinator-epoch", type=integer, metavar="EPOCH", help="and that of its coordinator")


def _declare_find_hanging(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--topic", metavar="TOPIC", help="the topic to search")
    add("--partition", type=whole_number(0), metavar="NUMBER", help="only this partition of it")
    add("--broker-id", type=integer, metavar="ID", help="search what this broker has replicas of")
    add(
        "--max-transaction-timeout",
        type=whole_number(0),
        default=DEFAULT_MAX_MINUTES,
        metavar="MINUTES",
        help=f"what is younger does not hang (default {DEFAULT_MAX_MINUTES})",
    )


def _declare_force_terminate(parser: ArgumentParser) -> None:
    parser.add_argument("--transactionalId", required=True, metavar="ID", help="the transactional id")


@contextmanager
def failing(what: str) -> Iterator[None]:
    """What the cluster refuses within is told as Apache Kafka's tool tells it."""
    from barnabas.base.errors import KafkaError
    from barnabas.cli.framework.kafka_errors import exit_code

    try:
        yield
    except KafkaError as error:
        raise CommandError(f"{what}: {error.message.rstrip('.')}.", exit_code(error)) from error


# Looking ----------------------------------------------------------------------------------------------------


def list_command(parser: ArgumentParser, options: Namespace) -> int:
    with open_admin(parser, options) as admin, failing("Failed to list transactions"):
        found = admin.list_transactions(
            duration_ms=options.duration_filter,
            transactional_id_pattern=options.transactional_id_pattern,
        ).raise_first()
        rows = [
            (one.transactional_id, broker, one.producer_id, one.state)
            for broker, listings in sorted(found.items())
            for one in listings
        ]
    print(tabbed_table(("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), rows), end="")
    return Exit.OK


def describe_command(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.runtime.clock import SystemClock

    name = options.transactional_id
    with (
        open_admin(parser, options) as admin,
        failing(f"Failed to describe transaction state of transactional-id `{name}`"),
    ):
        one = admin.describe_transactions([name])[name]
    started_ms, lasted_ms = NONE, NONE
    if one.transaction_start_time_ms is not None:
        started_ms = str(one.transaction_start_time_ms)
        lasted_ms = str(SystemClock().wall_ms() - one.transaction_start_time_ms)
    headers = (
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
        "ProducerEpoch",
        "TransactionState",
        "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs",
        "TransactionDurationMs",
        "TopicPartitions",
    )
    row = (
        one.coordinator_id,
        name,
        one.producer_id,
        one.producer_epoch,
        one.state,
        one.transaction_timeout_ms,
        started_ms,
        lasted_ms,
        ",".join(map(str, sorted(one.partitions))),
    )
    print(tabbed_table(headers, [row]), end="")
    return Exit.OK


def describe_producers_command(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.client.model import TopicPartition

    place = TopicPartition(options.topic, options.partition)
    where = "leader" if options.broker_id is None else f"broker {options.broker_id}"
    with (
        open_admin(parser, options) as admin,
        failing(f"Failed to describe producers for partition {place} on {where}"),
    ):
        found = admin.describe_producers([place], broker_id=options.broker_id)[place]
    headers = (
        "ProducerId",
        "ProducerEpoch",
        "LatestCoordinatorEpoch",
        "LastSequence",
        "LastTimestamp",
        "CurrentTransactionStartOffset",
    )
    rows = [
        (
            one.producer_id,
            one.producer_epoch,
            one.coordinator_epoch,
            one.last_sequence,
            one.last_timestamp,
            NONE if one.current_txn_start_offset == NOT_KNOWN else one.current_txn_start_offset,
        )
        for one in found
    ]
    print(tabbed_table(headers, rows), end="")
    return Exit.OK


def find_hanging_command(parser: ArgumentParser, options: Namespace) -> int:
    if options.topic is None and options.broker_id is None:
        raise UsageError(SCOPE)
    if options.partition is not None and options.topic is None:
        raise UsageError("The --partition argument requires --topic to be provided")
    from barnabas.cli.transactions.find_hanging import search, table

    with open_admin(parser, options) as admin:
        print(table(search(admin, options)), end="")
    return Exit.OK


# Ending -----------------------------------------------------------------------------------------------------


def abort_command(parser: ArgumentParser, options: Namespace) -> int:
    if options.start_offset is None:
        if options.producer_id is None:
            raise UsageError(WHICH)
        for flag in ("producer_epoch", "coordinator_epoch"):
            if getattr(options, flag) is None:
                raise UsageError(f"Missing required argument --{flag.replace('_', '-')}")
    from barnabas.client.admin.transactions import AbortTransactionSpec
    from barnabas.client.model import TopicPartition

    place = TopicPartition(options.topic, options.partition)
    with open_admin(parser, options) as admin:
        if options.start_offset is None:
            # A producer that never ended a transaction has no coordinator epoch yet; 0 is below all.
            epoch = max(options.coordinator_epoch, 0)
            spec = AbortTransactionSpec(place, options.producer_id, options.producer_epoch, epoch)
        else:
            spec = _open_at(admin, place, options.start_offset)
        with failing(f"Failed to abort transaction {spec}"):
            admin.abort_transaction(spec)
    return Exit.OK


def _open_at(admin: Admin, place: TopicPartition, offset: int) -> AbortTransactionSpec:
    from barnabas.client.admin.transactions import AbortTransactionSpec

    with failing(f"Failed to validate producer state for partition {place}"):
        producers = admin.describe_producers([place])[place]
    for one in producers:
        if one.current_txn_start_offset == offset:
            epoch = max(one.coordinator_epoch, 0)
            return AbortTransactionSpec(place, one.producer_id, one.producer_epoch, epoch)
    raise CommandError(
        f"Could not find any open transactions starting at offset {offset} on partition {place}",
        Exit.NOT_FOUND,
    )


def force_terminate_command(parser: ArgumentParser, options: Namespace) -> int:
    name = options.transactionalId
    with (
        open_admin(parser, options) as admin,
        failing(f"Failed to force terminate transactionalId `{name}`"),
    ):
        admin.force_terminate_transaction(name)
    return Exit.OK


SUBCOMMANDS = {
    "list": Subcommand("list transactions", _declare_list, list_command),
    "describe": Subcommand("show the state of a transactional id", _declare_describe, describe_command),
    "describe-producers": Subcommand(
        "show the producers that a partition remembers",
        _declare_describe_producers,
        describe_producers_command,
    ),
    "abort": Subcommand("abort a transaction that hangs in a partition", _declare_abort, abort_command),
    "find-hanging": Subcommand(
        "find transactions that nobody will end", _declare_find_hanging, find_hanging_command
    ),
    "forceTerminateTransaction": Subcommand(
        "abort the transaction that an id has open", _declare_force_terminate, force_terminate_command
    ),
}


def run(arguments: Sequence[str]) -> int:
    description = "Look at transactions, find those that hang, and end them."
    return Tool(PROGRAM, description, SUBCOMMANDS, _declare).run(arguments)
