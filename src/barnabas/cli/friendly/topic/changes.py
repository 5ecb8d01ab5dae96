"""The subcommands that change topics: create, alter, empty, delete."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable

from barnabas.cli.framework.arguments import ArgumentParser, did_you_mean
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.framework.text.terminal import tell
from barnabas.cli.friendly.framework import (
    add_cluster,
    add_output,
    add_plan,
    confirm_plan,
    open_admin,
    report_errors,
)
from barnabas.cli.friendly.output import Column, Printer, Row, count_of
from barnabas.cli.friendly.topic.rows import topic_rows

CREATED = (
    Column("topic"),
    Column("partitions", is_number=True),
    Column("replicas", is_number=True),
    Column("id"),
)
MAX_REPLICAS = 2**15 - 1


def declare_create(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("topic", nargs="+", metavar="TOPIC", help="names of the topics")
    add(
        "-p",
        "--partitions",
        type=whole_number(1),
        default=-1,
        metavar="N",
        help="number of partitions (default: the broker's default)",
    )
    add(
        "-r",
        "--replicas",
        type=whole_number(1, MAX_REPLICAS),
        default=-1,
        metavar="N",
        help="replicas of each partition (default: the broker's default)",
    )
    _add_config(parser)
    add("--if-not-exists", action="store_true", help="ignore topics that already exist")
    add("--dry-run", action="store_true", help="only check whether the topics could be created")
    add_output(parser)
    add_cluster(parser)


def _add_config(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-c",
        "--config",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a topic option; may be repeated",
    )


def _pairs(parser: ArgumentParser, given: Iterable[str]) -> dict[str, str]:
    pairs = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not key or not equals:
            parser.error(f"--config {text}: write KEY=VALUE")
        pairs[key] = value
        _hint(parser, key)
    return pairs


def _hint(parser: ArgumentParser, key: str) -> None:
    """A likely slip.  The broker decides: it may have options that this release does not know."""
    from barnabas.config import TOPIC

    nearest = "" if TOPIC.option(key) is not None else did_you_mean(key, TOPIC.options())
    if nearest:
        tell(f"{parser.prog}: {key} is not a known option of topics{nearest}")


def _count(row: Row, what: str) -> str:
    number = row[f"{what}s"]
    return count_of(number, what) if isinstance(number, int) else f"{number} {what}s"


def create(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.base.errors import ErrorCode
    from barnabas.client import NewTopic

    configs = _pairs(parser, options.config)
    topics = [NewTopic(name, options.partitions, options.replicas, configs=configs) for name in options.topic]
    with open_admin(parser, options) as admin:
        results = admin.create_topics(topics, validate_only=options.dry_run)
    rows = [
        {
            "topic": topic.name,
            "partitions": _known(topic.num_partitions),
            "replicas": _known(topic.replication_factor),
            "id": str(topic.id),
        }
        for topic in results.values_by_key.values()
    ]
    if rows:
        Printer(options.output, CREATED, name="topic").all(rows)
    errors = results.errors
    if options.if_not_exists:
        errors = {
            name: error for name, error in errors.items() if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        }
    return report_errors(parser.prog, errors)


def _known(number: int) -> int | None:
    return None if number < 0 else number


def declare_alter(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("topic", metavar="TOPIC", help="name of the topic")
    add("-p", "--partitions", type=whole_number(1), metavar="N", help="the new number of partitions")
    _add_config(parser)
    add(
        "--unset",
        action="append",
        default=[],
        metavar="KEY",
        help="reset an option to the broker's value; may be repeated",
    )
    add("--dry-run", action="store_true", help="only check whether the change is possible")
    add_cluster(parser)


def alter(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.client.admin.configs import AlterConfig, AlterOperation, ConfigResource, ConfigResourceType

    changes = [
        AlterConfig(key, value, AlterOperation.SET) for key, value in _pairs(parser, options.config).items()
    ]
    changes += [AlterConfig(key, None, AlterOperation.DELETE) for key in options.unset]
    if not changes and options.partitions is None:
        parser.error("nothing to change: give --partitions, --config or --unset")
    with open_admin(parser, options) as admin:
        if changes:
            resource = ConfigResource(ConfigResourceType.TOPIC, options.topic)
            altered = admin.incremental_alter_configs({resource: changes}, validate_only=options.dry_run)
            if altered.errors:
                return report_errors(parser.prog, {options.topic: altered.errors[resource]}, "topic", admin)
        if options.partitions is not None:
            counts = {options.topic: options.partitions}
            added = admin.create_partitions(counts, validate_only=options.dry_run)
            return report_errors(parser.prog, added.errors, "topic", admin)
    return Exit.OK


def declare_delete(parser: ArgumentParser) -> None:
    parser.add_argument("topic", nargs="+", metavar="TOPIC", help="name of the topic")
    parser.add_argument("--if-exists", action="store_true", help="ignore topics that do not exist")
    add_plan(parser)
    add_cluster(parser)


def delete(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.base.errors import ErrorCode

    with open_admin(parser, options) as admin:
        described = admin.describe_topics(options.topic)
        errors = described.errors
        if options.if_exists:
            errors = {
                name: error
                for name, error in errors.items()
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            }
        code = report_errors(parser.prog, errors, "topic", admin)
        names = [topic.name for topic in described.values_by_key.values()]
        if code is not Exit.OK or not names:
            return code
        plan = [
            f"delete topic {row['topic']}: {_count(row, 'partition')}, {_count(row, 'record')}"
            for row in topic_rows(admin, names)
        ]
        if not confirm_plan(parser.prog, options, plan):
            return Exit.OK
        return report_errors(parser.prog, admin.delete_topics(names).errors, "topic", admin)


def declare_empty(parser: ArgumentParser) -> None:
    from barnabas.cli.friendly.records.times import POSITIONS

    parser.add_argument("topic", metavar="TOPIC", help="name of the topic")
    parser.add_argument(
        "-p",
        "--partition",
        type=whole_number(0),
        action="append",
        metavar="N",
        help="only this partition; may be repeated",
    )
    parser.add_argument(
        "--before", default="latest", metavar="POSITION", help=f"delete the records before: {POSITIONS}"
    )
    add_plan(parser)
    add_cluster(parser)


def empty(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.cli.friendly.records.positions import log_ranges, partitions_of, position_option, resolve

    position = position_option(parser, "--before", options.before)
    with open_admin(parser, options) as admin:
        partitions = partitions_of(admin, options.topic, options.partition)
        ranges = log_ranges(admin, partitions)
        ends = resolve(admin, position, ranges)
        before = {
            partition: min(max(ends[partition], start), end) for partition, (start, end) in ranges.items()
        }
        plan = [
            f"delete {count_of(before[partition] - start, 'record')} of {partition}: "
            f"offsets {start} to {before[partition] - 1}"
            for partition, (start, _) in ranges.items()
            if before[partition] > start
        ]
        if not plan:
            raise CommandError(f"{parser.prog}: {options.topic} has no records to delete", Exit.NOT_FOUND)
        if not confirm_plan(parser.prog, options, plan):
            return Exit.OK
        return report_errors(parser.prog, admin.delete_records(before).errors)
