"""`barnabas transactions`: describe transactions, find hanging ones, and abort them.

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
# The default duration after which a transaction may count as hanging.
DEFAULT_MAX_MINUTES = 15
IDENTIFICATION = (
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
    add("--transactional-id-pattern", metavar="REGEX", help="only transactional ids that match")


def _declare_describe(parser: ArgumentParser) -> None:
    parser.add_argument("--transactional-id", required=True, metavar="ID", help="the transactional id")


def _declare_partition(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--topic", required=True, metavar="TOPIC", help="the topic")
    add("--partition", type=whole_number(0), required=True, metavar="NUMBER", help="the partition")


def _declare_describe_producers(parser: ArgumentParser) -> None:
    _declare_partition(parser)
    parser.add_argument(
        "--broker-id", type=integer, metavar="ID", help="query this replica instead of the leader"
    )


def _declare_abort(parser: ArgumentParser) -> None:
    _declare_partition(parser)
    add = parser.add_argument
    add("--start-offset", type=long_integer, metavar="OFFSET", help="the start offset of the transaction")
    add("--producer-id", type=long_integer, metavar="ID", help="or: the producer id")
    add("--producer-epoch", type=integer, metavar="EPOCH", help="and its epoch")
    add("--coordinator-epoch", type=integer, metavar="EPOCH", help="and the epoch of its coordinator")


def _declare_find_hanging(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--topic", metavar="TOPIC", help="the topic to search")
    add("--partition", type=whole_number(0), metavar="NUMBER", help="only this partition")
    add("--broker-id", type=integer, metavar="ID", help="search the partitions with a replica on this broker")
    add(
        "--max-transaction-timeout",
        type=whole_number(0),
        default=DEFAULT_MAX_MINUTES,
        metavar="MINUTES",
        help=f"ignore transactions that are younger (default {DEFAULT_MAX_MINUTES})",
    )


def _declare_force_terminate(parser: ArgumentParser) -> None:
    parser.add_argument("--transactionalId", required=True, metavar="ID", help="the transactional id")


@contextmanager
def error_prefix(prefix: str) -> Iterator[None]:
    """Reports errors of the cluster in this context as Apache Kafka's tool does."""
    from barnabas.base.errors import KafkaError
    from barnabas.cli.framework.kafka_errors import exit_code

    try:
        yield
    except KafkaError as error:
        raise CommandError(f"{prefix}: {error.message.rstrip('.')}.", exit_code(error)) from error


# Describing -------------------------------------------------------------------------------------------------


def list_command(parser: ArgumentParser, options: Namespace) -> int:
    with open_admin(parser, options) as admin, error_prefix("Failed to list transactions"):
        results = admin.list_transactions(
            duration_ms=options.duration_filter,
            transactional_id_pattern=options.transactional_id_pattern,
        ).raise_first()
        rows = [
            (listing.transactional_id, broker, listing.producer_id, listing.state)
            for broker, listings in sorted(results.items())
            for listing in listings
        ]
    print(tabbed_table(("TransactionalId", "Coordinator", "ProducerId", "TransactionState"), rows), end="")
    return Exit.OK


def describe_command(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.runtime.clock import SystemClock

    name = options.transactional_id
    with (
        open_admin(parser, options) as admin,
        error_prefix(f"Failed to describe transaction state of transactional-id `{name}`"),
    ):
        transaction = admin.describe_transactions([name])[name]
    started_ms, lasted_ms = NONE, NONE
    if transaction.transaction_start_time_ms is not None:
        started_ms = str(transaction.transaction_start_time_ms)
        lasted_ms = str(SystemClock().wall_ms() - transaction.transaction_start_time_ms)
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
        transaction.coordinator_id,
        name,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state,
        transaction.transaction_timeout_ms,
        started_ms,
        lasted_ms,
        ",".join(map(str, sorted(transaction.partitions))),
    )
    print(tabbed_table(headers, [row]), end="")
    return Exit.OK


def describe_producers_command(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.client.model import TopicPartition

    partition = TopicPartition(options.topic, options.partition)
    target = "leader" if options.broker_id is None else f"broker {options.broker_id}"
    with (
        open_admin(parser, options) as admin,
        error_prefix(f"Failed to describe producers for partition {partition} on {target}"),
    ):
        producers = admin.describe_producers([partition], broker_id=options.broker_id)[partition]
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
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.last_sequence,
            producer.last_timestamp,
            NONE if producer.current_txn_start_offset == NOT_KNOWN else producer.current_txn_start_offset,
        )
        for producer in producers
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


# Aborting ---------------------------------------------------------------------------------------------------


def abort_command(parser: ArgumentParser, options: Namespace) -> int:
    if options.start_offset is None:
        if options.producer_id is None:
            raise UsageError(IDENTIFICATION)
        for flag in ("producer_epoch", "coordinator_epoch"):
            if getattr(options, flag) is None:
                raise UsageError(f"Missing required argument --{flag.replace('_', '-')}")
    from barnabas.client.admin.transactions import AbortTransactionSpec
    from barnabas.client.model import TopicPartition

    partition = TopicPartition(options.topic, options.partition)
    with open_admin(parser, options) as admin:
        if options.start_offset is None:
            # A producer that has never completed a transaction has no coordinator epoch yet; 0 is the lowest.
            epoch = max(options.coordinator_epoch, 0)
            spec = AbortTransactionSpec(partition, options.producer_id, options.producer_epoch, epoch)
        else:
            spec = _open_at(admin, partition, options.start_offset)
        with error_prefix(f"Failed to abort transaction {spec}"):
            admin.abort_transaction(spec)
    return Exit.OK


def _open_at(admin: Admin, partition: TopicPartition, offset: int) -> AbortTransactionSpec:
    from barnabas.client.admin.transactions import AbortTransactionSpec

    with error_prefix(f"Failed to validate producer state for partition {partition}"):
        producers = admin.describe_producers([partition])[partition]
    for producer in producers:
        if producer.current_txn_start_offset == offset:
            epoch = max(producer.coordinator_epoch, 0)
            return AbortTransactionSpec(partition, producer.producer_id, producer.producer_epoch, epoch)
    raise CommandError(
        f"Could not find any open transactions starting at offset {offset} on partition {partition}",
        Exit.NOT_FOUND,
    )


def force_terminate_command(parser: ArgumentParser, options: Namespace) -> int:
    name = options.transactionalId
    with (
        open_admin(parser, options) as admin,
        error_prefix(f"Failed to force terminate transactionalId `{name}`"),
    ):
        admin.force_terminate_transaction(name)
    return Exit.OK


SUBCOMMANDS = {
    "list": Subcommand("list transactions", _declare_list, list_command),
    "describe": Subcommand("show the state of a transactional id", _declare_describe, describe_command),
    "describe-producers": Subcommand(
        "show the active producers of a partition",
        _declare_describe_producers,
        describe_producers_command,
    ),
    "abort": Subcommand("abort a hanging transaction of a partition", _declare_abort, abort_command),
    "find-hanging": Subcommand("find hanging transactions", _declare_find_hanging, find_hanging_command),
    "forceTerminateTransaction": Subcommand(
        "abort the open transaction of a transactional id", _declare_force_terminate, force_terminate_command
    ),
}


def run(arguments: Sequence[str]) -> int:
    description = "Describe transactions, find hanging ones, and abort them."
    return Tool(PROGRAM, description, SUBCOMMANDS, _declare).run(arguments)
