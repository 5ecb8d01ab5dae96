"""`--describe`: offsets and lag, members, states; columns as Apache Kafka's tool prints them."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.base.lag import lag
from barnabas.cli.consumer_groups.errors import print_error
from barnabas.cli.framework.columns import padded_row
from barnabas.cli.framework.exits import Exit
from barnabas.cli.framework.log_starts import log_starts
from barnabas.client.admin.records import OffsetSpec
from barnabas.client.model import NO_EPOCH, OffsetAndMetadata, TopicPartition, by_topic

if TYPE_CHECKING:
    from barnabas.client.admin.groups.group_model import GroupDescription, GroupMember
    from barnabas.client.sync import Admin

MISSING = "-"
EMPTY, DEAD = "Empty", "Dead"
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def describe(admin: Admin, options: Namespace, groups: list[str]) -> int:
    described = admin.describe_consumer_groups(groups, timeout_ms=options.timeout).raise_first()
    worst = Exit.OK
    for _, group in sorted(described.items()):
        if options.members:
            _show_members(group, options.verbose)
        elif options.state is not None:
            _show_state(group, options.verbose)
        else:
            _show_offsets(admin, group, options)
        worst = Exit.NOT_FOUND if group.state == DEAD else worst
    return worst


def _print_heading(group: GroupDescription) -> bool:
    """Reports an unusual state; returns whether the group exists."""
    sys.stdout.flush()
    if group.state == DEAD:
        print_error(f"Consumer group '{group.group_id}' does not exist.")
    elif group.state == EMPTY:
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)
    elif group.state in REBALANCING:
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)
    return group.state != DEAD


# Offsets ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Owner:
    """The member that reads a partition; by default none."""

    member_id: str = MISSING
    host: str = MISSING
    client_id: str = MISSING


def _show_offsets(admin: Admin, group: GroupDescription, options: Namespace) -> None:
    offsets = admin.list_consumer_group_offsets(group.group_id, timeout_ms=options.timeout)[group.group_id]
    committed = offsets.values_by_key
    partitions = _partitions(group, committed)
    ends = _offsets(admin, [partition for partition, _ in partitions], OffsetSpec.LATEST, options.timeout)
    known = [(partition, offset.offset) for partition, offset in committed.items() if offset is not None]
    starts = log_starts(admin, known, ends, timeout_ms=options.timeout)
    if not _print_heading(group) or not partitions:
        return
    rows = []
    for partition, owner in partitions:
        offset = committed.get(partition)
        end = ends.get(partition)
        epoch = MISSING if offset is None or offset.leader_epoch == NO_EPOCH else offset.leader_epoch
        behind = MISSING
        if offset is not None and end is not None:
            behind = str(lag(offset.offset, starts.get(partition, offset.offset), end))
        row = [group.group_id, partition.topic, partition.partition]
        row += [epoch] if options.verbose else []
        row += [MISSING if offset is None else offset.offset, MISSING if end is None else end, behind]
        rows.append([*row, owner.member_id, owner.host, owner.client_id])
    epoch_header = ["LEADER-EPOCH"] if options.verbose else []
    headers = ["GROUP", "TOPIC", "PARTITION", *epoch_header, "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    numbers = [15] * len(headers[3:])
    _print_table(
        [*headers, "CONSUMER-ID", "HOST", "CLIENT-ID"],
        rows,
        [15, 15, 10, *numbers, 15, 15, 0],
        (0, 1, -3, -2),
    )


def _partitions(
    group: GroupDescription, committed: Mapping[TopicPartition, OffsetAndMetadata | None]
) -> list[tuple[TopicPartition, Owner]]:
    """Partitions with their owners: members with the most partitions first, unassigned partitions last."""
    members = sorted(group.members, key=lambda member: -len(member.assignment))
    owned = [
        (partition, Owner(member.member_id, member.host, member.client_id))
        for member in members
        for partition in sorted(member.assignment)
    ]
    assigned = {partition for partition, _ in owned}
    unassigned = sorted(
        partition
        for partition, offset in committed.items()
        if partition not in assigned and offset is not None
    )
    return owned + [(partition, Owner()) for partition in unassigned]


def _offsets(
    admin: Admin, partitions: Sequence[TopicPartition], spec: OffsetSpec, timeout_ms: int
) -> dict[TopicPartition, int]:
    """The start or end offsets of partitions; those of deleted topics are left out."""
    if not partitions:
        return {}
    offsets = admin.list_offsets(dict.fromkeys(partitions, spec), timeout_ms=timeout_ms)
    return {partition: result.offset for partition, result in offsets.values_by_key.items()}


# Members ----------------------------------------------------------------------------------------------------


def _show_members(group: GroupDescription, verbose: bool) -> None:
    if not _print_heading(group):
        return
    static = any(member.group_instance_id for member in group.members)
    kinds = {member.upgraded for member in group.members}
    mixed = verbose and {True, False} <= kinds
    headers = ["GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    least, flexible = [15, 15, 15, 15, 15], [0, 1, 2, 3]
    if static:
        headers.insert(2, "GROUP-INSTANCE-ID")
        least.insert(2, 17)
        flexible.append(4)
    end = len(headers)
    if verbose:
        headers += ["CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT"]
        least += [15, 20, 15, 20]
        flexible += [end + 1, end + 3]
    if mixed:
        headers.append("UPGRADED")
        least.append(0)
    rows = [_member_row(group, member, static, verbose, mixed) for member in group.members]
    # As in Apache Kafka's tool, a blank follows the last column unless --verbose adds more.
    _print_table(headers, rows, least, flexible, end="" if verbose else " ")


def _member_row(
    group: GroupDescription, member: GroupMember, static: bool, verbose: bool, mixed: bool
) -> list[object]:
    row: list[object] = [group.group_id, member.member_id]
    row += [member.group_instance_id or ""] if static else []
    row += [member.host, member.client_id, len(member.assignment)]
    if verbose:
        target_epoch = group.target_assignment_epoch
        row += [
            MISSING if member.member_epoch is None else member.member_epoch,
            _assignment(member.assignment),
            MISSING if target_epoch is None else target_epoch,
            _assignment(member.target_assignment or ()),
        ]
    if mixed:
        row.append(MISSING if member.upgraded is None else str(member.upgraded).lower())
    return row


def _assignment(partitions: Iterable[TopicPartition]) -> str:
    """`orders:0,1;returns:2`."""
    topics = sorted(
        f"{topic}:{','.join(map(str, sorted(numbers)))}" for topic, numbers in by_topic(partitions).items()
    )
    return ";".join(topics) or MISSING


# States -----------------------------------------------------------------------------------------------------


def _show_state(group: GroupDescription, verbose: bool) -> None:
    if not _print_heading(group):
        return
    node = group.coordinator
    coordinator = f"{node.host}:{node.port}  ({node.id})"
    headers = ["GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE"]
    row: list[object] = [group.group_id, coordinator, group.assignor or MISSING, group.state]
    least = [15, 25, 20, 20]
    if verbose:
        epochs = (group.group_epoch, group.target_assignment_epoch)
        headers += ["GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH"]
        row += [MISSING if epoch is None else epoch for epoch in epochs]
        least += [15, 25]
    _print_table([*headers, "#MEMBERS"], [[*row, len(group.members)]], [*least, 0], (0, 1))


def _print_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[object]],
    least: Sequence[int],
    flexible: Iterable[int],
    end: str = "",
) -> None:
    """An empty line, then headers and rows; flexible columns are as wide as their values."""
    widths = list(least)
    for column in flexible:
        widths[column] = max([widths[column], *(len(str(row[column])) for row in rows)])
    print()
    for row in (headers, *rows):
        print(padded_row(row, widths) + end)
