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
    friendly_tool,
    may_go_on,
    open_admin,
    tell_errors,
)
from barnabas.cli.friendly.output import Column, Printer, Row
from barnabas.cli.friendly.records.times import PLACES

if TYPE_CHECKING:
    from barnabas.base.errors import KafkaError
    from barnabas.client import TopicPartition
    from barnabas.client.admin.groups.group_model import GroupDescription
    from barnabas.client.sync import Admin

PROGRAM = "barnabas group"
# A broker that is away must not keep the rest from being shown.
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


# Looking ----------------------------------------------------------------------------------------------------


def _declare_list(parser: ArgumentParser) -> None:
    parser.add_argument("pattern", nargs="*", metavar="PATTERN", help="names, with * and ? (default all)")
    add_output(parser)
    add_cluster(parser)


def _list(parser: ArgumentParser, options: Namespace) -> int:
    with open_admin(parser, options) as admin:
        listed = admin.list_consumer_groups()
        names = sorted(
            one.group_id
            for one in listed.groups
            if not options.pattern or any(fnmatchcase(one.group_id, each) for each in options.pattern)
        )
        printer = Printer(options.output, GROUPS, name="group")
        if options.output == "name":
            printer.all({"group": name} for name in names)
        else:
            printer.all(group_rows(admin, names))
        return tell_errors(parser.prog, listed.errors)


def group_rows(admin: Admin, names: Sequence[str]) -> list[Row]:
    """Groups with how far they are behind."""
    described = admin.describe_consumer_groups(names).values_by_key if names else {}
    lags: dict[object, int] = {}
    for row in offset_rows(admin, list(described.values())):
        lag = row["lag"]
        lags[row["group"]] = lags.get(row["group"], 0) + (lag if isinstance(lag, int) else 0)
    return [
        {
            "group": name,
            "state": one.state,
            "type": one.type,
            "members": len(one.members),
            "lag": lags.get(name, 0),
            "assignor": one.assignor,
            "coordinator": str(one.coordinator),
        }
        for name, one in described.items()
    ]


def offset_rows(admin: Admin, groups: Sequence[GroupDescription]) -> list[Row]:
    """Every partition that a group has committed to or is assigned."""
    from barnabas.base.lag import lag
    from barnabas.cli.framework.log_starts import log_starts
    from barnabas.client.admin.records import OffsetSpec

    if not groups:
        return []
    asked: dict[str, Sequence[TopicPartition] | None] = {one.group_id: None for one in groups}
    found = admin.list_consumer_group_offsets(asked).values_by_key
    partitions = {
        group: _partitions(one, found.get(group)) for group, one in ((g.group_id, g) for g in groups)
    }
    everything = sorted({where for some in partitions.values() for where in some})
    latest = dict.fromkeys(everything, OffsetSpec.LATEST)
    ends = admin.list_offsets(latest, timeout_ms=END_TIMEOUT_MS).values_by_key if everything else {}
    starts = log_starts(
        admin,
        [
            (where, known.offset)
            for outcomes in found.values()
            for where, known in outcomes.values_by_key.items()
            if known is not None
        ],
        {where: one.offset for where, one in ends.items()},
        timeout_ms=END_TIMEOUT_MS,
    )
    rows: list[Row] = []
    for group in groups:
        committed = found[group.group_id].values_by_key if group.group_id in found else {}
        for where in partitions[group.group_id]:
            member = next((one for one in group.members if where in one.assignment), None)
            known = committed.get(where)
            offset = None if known is None else known.offset
            end = ends[where].offset if where in ends else None
            rows.append(
                {
                    "group": group.group_id,
                    "topic": where.topic,
                    "partition": where.partition,
                    "committed": offset,
                    "end": end,
                    "lag": None
                    if offset is None or end is None
                    else lag(offset, starts.get(where, offset), end),
                    "client": member and member.client_id,
                    "host": member and member.host.lstrip("/"),
                    "member": member and member.member_id,
                }
            )
    return rows


def _partitions(group: GroupDescription, committed: Iterable[TopicPartition] | None) -> list[TopicPartition]:
    return sorted({*(committed or ()), *(where for one in group.members for where in one.assignment)})


def _declare_show(parser: ArgumentParser) -> None:
    parser.add_argument("group", nargs="+", metavar="GROUP", help="which")
    parser.add_argument("--members", action="store_true", help="show its members instead of its offsets")
    add_output(parser)
    add_cluster(parser)


def _show(parser: ArgumentParser, options: Namespace) -> int:
    with open_admin(parser, options) as admin:
        found = admin.describe_consumer_groups(options.group)
        groups = [one for one in found.values_by_key.values() if one.state != "Dead"]
        dead = [one.group_id for one in found.values_by_key.values() if one.state == "Dead"]
        if groups and options.members:
            Printer(options.output, MEMBERS, name="member").all(_member_rows(groups))
        elif groups:
            Printer(options.output, OFFSETS, name=_where).all(offset_rows(admin, groups))
        code = tell_errors(parser.prog, found.errors, "group")
        if dead:
            raise CommandError(f"{parser.prog}: there is no group {dead[0]}", Exit.NOT_FOUND)
        return code


def _where(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"


def _member_rows(groups: Iterable[GroupDescription]) -> list[Row]:
    return [
        {
            "group": group.group_id,
            "client": one.client_id,
            "host": one.host.lstrip("/"),
            "partitions": [str(where) for where in sorted(one.assignment)],
            "member": one.member_id,
            "instance": one.group_instance_id,
            "epoch": one.member_epoch,
        }
        for group in groups
        for one in group.members
    ]


# Changing ---------------------------------------------------------------------------------------------------


def _declare_reset(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("group", metavar="GROUP", help="which; it must have no members")
    add("--to", metavar="PLACE", help=f"where it shall go on: {PLACES}")
    add("--by", type=long_integer, metavar="N", help="so many records forward, or back if negative")
    add(
        "-t",
        "--topic",
        action="append",
        metavar="TOPIC",
        help="only this one (default: all it has committed to)",
    )
    add(
        "-p",
        "--partition",
        type=whole_number(0),
        action="append",
        metavar="N",
        help="only this one; may be repeated",
    )
    add_plan(parser)
    add_output(parser)
    add_cluster(parser)


def _reset(parser: ArgumentParser, options: Namespace) -> int:
    from barnabas.client import OffsetAndMetadata

    if (options.to is None) == (options.by is None):
        parser.error("say where to: --to PLACE or --by N")
    if options.partition and not options.topic:
        parser.error("--partition goes with --topic")
    with open_admin(parser, options) as admin:
        _check_empty(parser, admin, options.group)
        rows = _reset_rows(parser, options, admin)
        if not rows:
            raise CommandError(
                f"{parser.prog}: {options.group} has committed nothing; name topics with --topic",
                Exit.NOT_FOUND,
            )
        plan = [f"{row['group']} {where}: {row['before']} -> {row['after']}" for where, row in rows.items()]
        goes_on = may_go_on(parser.prog, options, plan)
        failed: dict[TopicPartition, KafkaError] = {}
        if goes_on:
            offsets = {where: OffsetAndMetadata(int(str(row["after"]))) for where, row in rows.items()}
            failed = admin.alter_consumer_group_offsets(options.group, offsets).errors
        Printer(options.output, RESET, name=_where).all(
            row for where, row in rows.items() if where not in failed
        )
        return tell_errors(parser.prog, failed)


def _check_empty(parser: ArgumentParser, admin: Admin, group: str) -> None:
    described = admin.describe_consumer_groups([group])
    if described.error_of(group) is None and described[group].state not in NO_MEMBERS:
        one = described[group]
        clients = ", ".join(sorted({member.client_id for member in one.members}))
        raise CommandError(
            f"{parser.prog}: {group} is {one.state}: its members go on where they stand; stop them first "
            f"({clients})"
        )


def _reset_rows(parser: ArgumentParser, options: Namespace, admin: Admin) -> dict[TopicPartition, Row]:
    from barnabas.cli.friendly.records.places import log_edges, partitions_of, place_option, resolve

    place = None if options.to is None else place_option(parser, "--to", options.to)
    listed = admin.list_consumer_group_offsets(options.group)[options.group].values_by_key
    committed = {where: one.offset for where, one in listed.items() if one is not None}
    partitions = sorted(committed)
    if options.topic:
        partitions = [
            where for topic in options.topic for where in partitions_of(admin, topic, options.partition)
        ]
    edges = log_edges(admin, partitions)
    if place is not None:
        wanted = resolve(admin, place, edges)
    else:
        wanted = {where: committed.get(where, start) + options.by for where, (start, _) in edges.items()}
    return {
        where: {
            "group": options.group,
            "topic": where.topic,
            "partition": where.partition,
            "before": committed.get(where),
            "after": min(max(wanted[where], start), end),
        }
        for where, (start, end) in edges.items()
    }


def _declare_delete(parser: ArgumentParser) -> None:
    parser.add_argument("group", nargs="+", metavar="GROUP", help="which; they must have no members")
    add_plan(parser)
    add_cluster(parser)


def _delete(parser: ArgumentParser, options: Namespace) -> int:
    with open_admin(parser, options) as admin:
        rows = group_rows(admin, options.group)
        plan = [f"delete group {row['group']} ({row['state']}) with its committed offsets" for row in rows]
        if not may_go_on(parser.prog, options, plan):
            return Exit.OK
        return tell_errors(parser.prog, admin.delete_groups(options.group).errors, "group")


SUBCOMMANDS: dict[str, Subcommand] = {
    "list": Subcommand("list groups with their lag", _declare_list, _list),
    "show": Subcommand("show how far groups are, or who their members are", _declare_show, _show),
    "reset": Subcommand("set where a group goes on", _declare_reset, _reset),
    "delete": Subcommand("delete groups with their offsets", _declare_delete, _delete),
}
