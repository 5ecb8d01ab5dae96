"""What changes topics: create, alter, empty, delete."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.friendly.framework import (
    add_cluster,
    add_output,
    add_plan,
    may_go_on,
    open_admin,
    tell_errors,
)
from barnabas.cli.friendly.output import Column, Printer
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
    add("topic", nargs="+", metavar="TOPIC", help="names")
    add(
        "-p",
        "--partitions",
        type=whole_number(1),
        default=-1,
        metavar="N",
        help="how many (default: the brokers')",
    )
    add(
        "-r",
        "--replicas",
        type=whole_number(1, MAX_REPLICAS),
        default=-1,
        metavar="N",
        help="of each partition (default: the brokers')",
    )
    _add_config(parser)
    add("--if-not-exists", action="store_true", help="a topic that is there already is no error")
    add("--dry-run", action="store_true", help="only check whether they could be created")
    add_output(parser)
    add_cluster(parser)


def _add_config(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-c", "--config", action="append", default=[], metavar="KEY=VALUE", help="an option; may be repeated"
    )


def _pairs(parser: ArgumentParser, given: Iterable[str]) -> dict[str, str]:
    pairs = {}
    for one in given:
        key, equals, value = one.partition("=")
        if not key or not equals:
            parser.error(f"--config {one}: write KEY=VALUE")
        pairs[key] = value
    return pairs


def create(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.base.errors import ErrorCode
    from barnabas.client import NewTopic

    configs = _pairs(parser, options.config)
    wanted = [NewTopic(name, options.partitions, options.replicas, configs=configs) for name in options.topic]
    with open_admin(parser, options) as admin:
        found = admin.create_topics(wanted, validate_only=options.dry_run)
    rows = [
        {
            "topic": one.name,
            "partitions": _known(one.num_partitions),
            "replicas": _known(one.replication_factor),
            "id": str(one.id),
        }
        for one in found.values_by_key.values()
    ]
    if rows:
        Printer(options.output, CREATED, name="topic").all(rows)
    errors = found.errors
    if options.if_not_exists:
        errors = {name: one for name, one in errors.items() if one.code is not ErrorCode.TOPIC_ALREADY_EXISTS}
    return tell_errors(parser.prog, errors)


def _known(number: int) -> int | None:
    return None if number < 0 else number


def declare_alter(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("topic", metavar="TOPIC", help="which")
    add("-p", "--partitions", type=whole_number(1), metavar="N", help="how many it shall have, more than now")
    _add_config(parser)
    add(
        "--unset",
        action="append",
        default=[],
        metavar="KEY",
        help="back to the brokers' value; may be repeated",
    )
    add("--dry-run", action="store_true", help="only check whether it could be done")
    add_cluster(parser)


def alter(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.client.admin.configs import AlterConfig, AlterOperation, ConfigResource, ConfigResourceType

    changes = [
        AlterConfig(key, value, AlterOperation.SET) for key, value in _pairs(parser, options.config).items()
    ]
    changes += [AlterConfig(key, None, AlterOperation.DELETE) for key in options.unset]
    if not changes and options.partitions is None:
        parser.error("say what to change: --partitions, --config or --unset")
    with open_admin(parser, options) as admin:
        if changes:
            resource = ConfigResource(ConfigResourceType.TOPIC, options.topic)
            altered = admin.incremental_alter_configs({resource: changes}, validate_only=options.dry_run)
            if altered.errors:
                return tell_errors(parser.prog, {options.topic: altered.errors[resource]}, "topic")
        if options.partitions is not None:
            counts = {options.topic: options.partitions}
            added = admin.create_partitions(counts, validate_only=options.dry_run)
            return tell_errors(parser.prog, added.errors, "topic")
    return Exit.OK


def declare_delete(parser: ArgumentParser) -> None:
    parser.add_argument("topic", nargs="+", metavar="TOPIC", help="which")
    parser.add_argument("--if-exists", action="store_true", help="a topic that is not there is no error")
    add_plan(parser)
    add_cluster(parser)


def delete(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.base.errors import ErrorCode

    with open_admin(parser, options) as admin:
        found = admin.describe_topics(options.topic)
        errors = found.errors
        if options.if_exists:
            errors = {
                name: one
                for name, one in errors.items()
                if one.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            }
        code = tell_errors(parser.prog, errors, "topic")
        names = [one.name for one in found.values_by_key.values()]
        if code is not Exit.OK or not names:
            return code
        plan = [
            f"delete topic {row['topic']}: {row['partitions']} partitions, {row['records']} records"
            for row in topic_rows(admin, names)
        ]
        if not may_go_on(parser.prog, options, plan):
            return Exit.OK
        return tell_errors(parser.prog, admin.delete_topics(names).errors, "topic")


def declare_empty(parser: ArgumentParser) -> None:
    from barnabas.cli.friendly.records.times import PLACES

    parser.add_argument("topic", metavar="TOPIC", help="which")
    parser.add_argument(
        "-p",
        "--partition",
        type=whole_number(0),
        action="append",
        metavar="N",
        help="only this; may be repeated",
    )
    parser.add_argument(
        "--before", default="latest", metavar="PLACE", help=f"delete what lies before: {PLACES}"
    )
    add_plan(parser)
    add_cluster(parser)


def empty(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.cli.friendly.records.places import log_edges, partitions_of, place_option, resolve

    place = place_option(parser, "--before", options.before)
    with open_admin(parser, options) as admin:
        partitions = partitions_of(admin, options.topic, options.partition)
        edges = log_edges(admin, partitions)
        ends = resolve(admin, place, edges)
        before = {where: min(max(ends[where], start), end) for where, (start, end) in edges.items()}
        plan = [
            f"delete {before[where] - start} records of {where}: offsets {start} to {before[where] - 1}"
            for where, (start, _) in edges.items()
            if before[where] > start
        ]
        if not plan:
            raise CommandError(f"{parser.prog}: {options.topic} has no records there", Exit.NOT_FOUND)
        if not may_go_on(parser.prog, options, plan):
            return Exit.OK
        return tell_errors(parser.prog, admin.delete_records(before).errors)
