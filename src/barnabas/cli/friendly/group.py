"""`barnabas group`: list, show, reset and delete consumer groups."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from barnabas.cli.framework.arguments import ArgumentParser
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.numbers import long_integer, whole_number
from barnabas.cli.framework.subcommands import Subcommand
from barnabas.cli.friendly.framework import (
    add_cluster,
    add_output,
    add_plan,
    confirm_plan,
    friendly_tool,
    open_admin,
    report_errors,
)
from barnabas.cli.friendly.output import Column, Printer, Row
from barnabas.cli.friendly.records.times import POSITIONS

if TYPE_CHECKING:
    from barnabas.base.errors import KafkaError
    from barnabas.client import TopicPartition
    from barnabas.client.admin.groups.group_model import GroupDescription
    from barnabas.client.sync import Admin

PROGRAM = "barnabas group"
# An unavailable broker must not keep the other partitions from being shown.
END_TIMEOUT_MS = 5_000
GROUPS = (
    Column("group"),
    Column("state"),
    Column("type"),
    Column("members", is_number=True),
    Column("lag", is_number=True),
    Column("assignor", is_wide=True),
    Column("coordinator", is_wide=True),
)
OFFSETS = (
    Column("group"),
    Column("topic"),
    Column("partition", is_number=True),
    Column("committed", is_number=True),
    Column("end", is_number=True),
    Column("lag", is_number=True),
    Column("client"),
    Column("host"),
    Column("member", is_wide=True),
)
MEMBERS = (
    Column("group"),
    Column("client"),
    Column("host"),
    Column("partitions"),
    Column("member", is_wide=True),
    Column("instance", is_wide=True),
    Column("epoch", is_number=True, is_wide=True),
)
RESET = (
    Column("group"),
    Column("topic"),
    Column("partition", is_number=True),
    Column("before", is_number=True),
    Column("after", is_number=True),
)
NO_MEMBERS = ("Empty", "Dead")


def run(arguments: Sequence[str]) -> int:
    return friendly_tool(PROGRAM, "List, show, reset and delete consumer groups.", SUBCOMMANDS).run(arguments)


# Describing -------------------------------------------------------------------------------------------------


def _declare_list(parser: ArgumentParser) -> None:
    parser.add_argument("pattern", nargs="*", metavar="PATTERN", help="names, with * and ? (default all)")
    add_output(parser)
    add_cluster(parser)


def _list(parser: ArgumentParser, options: Namespace) -> int:
    with open_admin(parser, options) as admin:
        listed = admin.list_consumer_groups()
        names = sorted(
            group.group_id
            for group in listed.groups
            if not options.pattern or any(fnmatchcase(group.group_id, pattern) for pattern in options.pattern)
        )
        printer = Printer(options.output, GROUPS, name="group", empty="there are no groups")
        if options.output == "name":
            printer.all({"group": name} for name in names)
        else:
            printer.all(group_rows(admin, names))
        return report_errors(parser.prog, listed.errors)


def group_rows(admin: Admin, names: Sequence[str]) -> list[Row]:
    """Groups with their lag."""
    described = admin.describe_consumer_groups(names).values_by_key if names else {}
    lags: dict[object, int] = {}
    for row in offset_rows(admin, list(described.values())):
        lag = row["lag"]
        lags[row["group"]] = lags.get(row["group"], 0) + (lag if isinstance(lag, int) else 0)
    return [
        {
            "group": name,
            "state": group.state,
            "type": group.type,
            "members": len(group.members),
            "lag": lags.get(name, 0),
            "assignor": group.assignor,
            "coordinator": str(group.coordinator),
        }
        for name, group in described.items()
    ]


def offset_rows(admin: Admin, groups: Sequence[GroupDescription]) -> list[Row]:
    """Every partition that is assigned to a group or has a committed offset."""
    from barnabas.base.lag import lag
    from barnabas.cli.framework.log_starts import log_starts
    from barnabas.client.admin.records import OffsetSpec

    if not groups:
        return []
    requested: dict[str, Sequence[TopicPartition] | None] = {group.group_id: None for group in groups}
    committed_by_group = admin.list_consumer_group_offsets(requested).values_by_key
    partitions = {
        group.group_id: _partitions(group, committed_by_group.get(group.group_id)) for group in groups
    }
    everything = sorted({partition for owned in partitions.values() for partition in owned})
    latest = dict.fromkeys(everything, OffsetSpec.LATEST)
    ends = admin.list_offsets(latest, timeout_ms=END_TIMEOUT_MS).values_by_key if everything else {}
    starts = log_starts(
        admin,
        [
            (partition, known.offset)
            for outcomes in committed_by_group.values()
            for partition, known in outcomes.values_by_key.items()
            if known is not None
        ],
        {partition: end.offset for partition, end in ends.items()},
        timeout_ms=END_TIMEOUT_MS,
    )
    rows: list[Row] = []
    for group in groups:
        committed = (
            committed_by_group[group.group_id].values_by_key if group.group_id in committed_by_group else {}
        )
        for partition in partitions[group.group_id]:
            member = next((member for member in group.members if partition in member.assignment), None)
            known = committed.get(partition)
            offset = None if known is None else known.offset
            end = ends[partition].offset if partition in ends else None
            rows.append(
                {
                    "group": group.group_id,
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "committed": offset,
                    "end": end,
                    "lag": None
                    if offset is None or end is None
                    else lag(offset, starts.get(partition, offset), end),
                    "client": member and member.client_id,
                    "host": member and member.host.lstrip("/"),
                    "member": member and member.member_id,
                }
            )
    return rows


def _partitions(group: GroupDescription, committed: Iterable[TopicPartition] | None) -> list[TopicPartition]:
    return sorted(
        {*(committed or ()), *(partition for member in group.members for partition in member.assignment)}
    )


def _declare_show(parser: ArgumentParser) -> None:
    parser.add_argument("group", nargs="+", metavar="GROUP", help="group ids")
    parser.add_argument("--members", action="store_true", help="show members instead of offsets")
    add_output(parser)
    add_cluster(parser)


def _show(parser: ArgumentParser, options: Namespace) -> int:
    with open_admin(parser, options) as admin:
        described = admin.describe_consumer_groups(options.group)
        groups = [group for group in described.values_by_key.values() if group.state != "Dead"]
        dead = [group.group_id for group in described.values_by_key.values() if group.state == "Dead"]
        if groups and options.members:
            Printer(options.output, MEMBERS, name="member", empty="no member is in the group now").all(
                _member_rows(groups)
            )
        elif groups:
            Printer(options.output, OFFSETS, name=_partition_name).all(offset_rows(admin, groups))
        code = report_errors(parser.prog, described.errors, "group", admin)
        if dead:
            raise CommandError(f"{parser.prog}: there is no group {dead[0]}", Exit.NOT_FOUND)
        return code


def _partition_name(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"


def _member_rows(groups: Iterable[GroupDescription]) -> list[Row]:
    return [
        {
            "group": group.group_id,
            "client": member.client_id,
            "host": member.host.lstrip("/"),
            "partitions": [str(partition) for partition in sorted(member.assignment)],
            "member": member.member_id,
            "instance": member.group_instance_id,
            "epoch": member.member_epoch,
        }
        for group in groups
        for member in group.members
    ]


# Changing ---------------------------------------------------------------------------------------------------


def _declare_reset(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("group", metavar="GROUP", help="group id; the group must have no members")
    add("--to", metavar="POSITION", help=f"the new position: {POSITIONS}")
    add("--by", type=long_integer, metavar="N", help="move N records forward, or back if negative")
    add(
        "-t",
        "--topic",
        action="append",
        metavar="TOPIC",
        help="only this topic (default: all topics with committed offsets)",
    )
    add(
        "-p",
        "--partition",
        type=whole_number(0),
        action="append",
        metavar="N",
        help="only this partition; may be repeated",
    )
    add_plan(parser)
    add_output(parser)
    add_cluster(parser)


def _reset(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.client import OffsetAndMetadata

    if (options.to is None) == (options.by is None):
        parser.error("give the new position: --to POSITION or --by N")
    if options.partition and not options.topic:
        parser.error("--partition requires --topic")
    with open_admin(parser, options) as admin:
        _check_empty(parser, admin, options.group)
        rows = _reset_rows(parser, options, admin)
        if not rows:
            raise CommandError(
                f"{parser.prog}: {options.group} has no committed offsets; give topics with --topic",
                Exit.NOT_FOUND,
            )
        plan = [
            f"{row['group']} {partition}: {row['before'] if row['before'] is not None else 'none'}"
            f" -> {row['after']}"
            for partition, row in rows.items()
        ]
        is_confirmed = confirm_plan(parser.prog, options, plan)
        failed: dict[TopicPartition, KafkaError] = {}
        if is_confirmed:
            offsets = {
                partition: OffsetAndMetadata(int(str(row["after"]))) for partition, row in rows.items()
            }
            failed = admin.alter_consumer_group_offsets(options.group, offsets).errors
        Printer(options.output, RESET, name=_partition_name).all(
            row for partition, row in rows.items() if partition not in failed
        )
        return report_errors(parser.prog, failed)


def _check_empty(parser: ArgumentParser, admin: Admin, group: str) -> None:
    described = admin.describe_consumer_groups([group])
    if described.error_of(group) is None and described[group].state not in NO_MEMBERS:
        description = described[group]
        clients = ", ".join(sorted({member.client_id for member in description.members}))
        raise CommandError(
            f"{parser.prog}: {group} is {description.state}: its members would overwrite the offsets; "
            f"stop them first ({clients})"
        )


def _reset_rows(parser: ArgumentParser, options: Namespace, admin: Admin) -> dict[TopicPartition, Row]:
    from barnabas.cli.friendly.records.positions import log_ranges, partitions_of, position_option, resolve

    position = None if options.to is None else position_option(parser, "--to", options.to)
    listed = admin.list_consumer_group_offsets(options.group)[options.group].values_by_key
    committed = {partition: offset.offset for partition, offset in listed.items() if offset is not None}
    partitions = sorted(committed)
    if options.topic:
        partitions = [
            partition
            for topic in options.topic
            for partition in partitions_of(admin, topic, options.partition)
        ]
    ranges = log_ranges(admin, partitions)
    if position is not None:
        wanted = resolve(admin, position, ranges)
    else:
        wanted = {
            partition: committed.get(partition, start) + options.by
            for partition, (start, _) in ranges.items()
        }
    return {
        partition: {
            "group": options.group,
            "topic": partition.topic,
            "partition": partition.partition,
            "before": committed.get(partition),
            "after": min(max(wanted[partition], start), end),
        }
        for partition, (start, end) in ranges.items()
    }


def _declare_delete(parser: ArgumentParser) -> None:
    parser.add_argument(
        "group", nargs="+", metavar="GROUP", help="group ids; the groups must have no members"
    )
    add_plan(parser)
    add_cluster(parser)


def _delete(parser: ArgumentParser, options: Namespace) -> int:
    with open_admin(parser, options) as admin:
        rows = group_rows(admin, options.group)
        plan = [f"delete group {row['group']} ({row['state']}) with its committed offsets" for row in rows]
        if not confirm_plan(parser.prog, options, plan):
            return Exit.OK
        return report_errors(parser.prog, admin.delete_groups(options.group).errors, "group")


SUBCOMMANDS: dict[str, Subcommand] = {
    "list": Subcommand("list groups with their lag", _declare_list, _list),
    "show": Subcommand("show the offsets or the members of groups", _declare_show, _show),
    "reset": Subcommand("reset the offsets of a group", _declare_reset, _reset),
    "delete": Subcommand("delete groups with their offsets", _declare_delete, _delete),
}
