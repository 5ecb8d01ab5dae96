"""`--reset-offsets`: sets the offsets of groups without members.

Contains the choice of partitions and offsets, and the output; which flags combine belongs in `command`.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.cli.consumer_groups.errors import FAILED, print_error
from barnabas.cli.consumer_groups.plans import Plan, csv_of, read_plans
from barnabas.cli.consumer_groups.times import duration_ms, moment_ms
from barnabas.cli.consumer_groups.topic_arguments import named_partitions
from barnabas.cli.framework.columns import padded_row
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.flag_rules import FlagRules
from barnabas.cli.framework.kafka_errors import exit_code
from barnabas.client.admin.records import OffsetSpec
from barnabas.client.model import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from barnabas.client.sync import Admin

WIDTHS = (30, 30, 10, 15)
INACTIVE = ("Empty", "Dead")
NO_OFFSET = -1
NO_SCENARIO = (
    "Option '[reset-offsets]' requires one of the following scenarios: [[to-offset], [to-current],"
    " [to-datetime], [from-file], [by-duration], [to-earliest], [to-latest], [shift-by]]"
)


def reset(admin: Admin, options: Namespace, rules: FlagRules, groups: list[str]) -> int:
    resets = Resets(admin, options, rules)
    plans = {group: resets.of_group(group, state) for group, state in _states(admin, groups, options.timeout)}
    if options.export:
        sys.stdout.write(csv_of(plans, with_groups=len(options.group or ()) != 1) + "\n")
    else:
        print_plans(plans)
    return resets.worst


def print_plans(plans: Mapping[str, Plan]) -> None:
    if plans:
        print("\n" + padded_row(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), WIDTHS))
    for group, plan in plans.items():
        for partition, offset in sorted(plan.items()):
            print(padded_row((group, partition.topic, partition.partition, offset), WIDTHS))


def _states(admin: Admin, groups: list[str], timeout_ms: int) -> Iterable[tuple[str, str]]:
    """A group that does not exist counts as empty: committing its offsets creates it."""
    described = admin.describe_consumer_groups(groups, timeout_ms=timeout_ms)
    for group in sorted(groups):
        error = described.error_of(group)
        if error is not None and error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise error
        yield group, "Dead" if error is not None else described[group].state


class Resets:
    """The resets of one command line; queries the cluster once per group."""

    def __init__(self, admin: Admin, options: Namespace, rules: FlagRules) -> None:
        self._admin = admin
        self._options = options
        self._rules = rules
        self.worst = Exit.OK
        self._moment_ms = self._read_moment()
        self._plans = read_plans(options.from_file, options.group or ()) if options.from_file else {}

    def of_group(self, group: str, state: str) -> Plan:
        """The new offsets; commits them with --execute."""
        if state not in INACTIVE:
            print_error(
                f"Assignments can only be reset if the group '{group}' is inactive,"
                f" but the current state is {state}."
            )
            self.worst = Exit.FAILED
            return {}
        plan = self._offsets(group, self._partitions(group))
        if self._options.execute and plan:
            offsets = {partition: OffsetAndMetadata(offset) for partition, offset in plan.items()}
            timeout_ms = self._options.timeout
            self._admin.alter_consumer_group_offsets(group, offsets, timeout_ms=timeout_ms).raise_first()
        return plan

    def _partitions(self, group: str) -> list[TopicPartition]:
        options = self._options
        if options.all_topics:
            return sorted(self._committed(group))
        if options.topic:
            partitions, unknown = named_partitions(self._admin, options.topic, options.timeout, self._rules)
            for error in unknown.values():
                print(file=sys.stderr)
                raise CommandError(f"{FAILED}{error.message}", exit_code(error)) from error
            return partitions
        if not options.from_file:
            self._rules.refuse("One of the reset scopes should be defined: --all-topics, --topic.")
        return []

    def _offsets(self, group: str, partitions: list[TopicPartition]) -> Plan:
        options = self._options
        if options.to_offset is not None:
            return self._within_range(dict.fromkeys(partitions, options.to_offset))
        if options.to_earliest:
            return self._listed(partitions, OffsetSpec.EARLIEST)
        if options.to_latest:
            return self._listed(partitions, OffsetSpec.LATEST)
        if options.shift_by is not None:
            return self._within_range(self._shifted(group, partitions))
        if self._moment_ms is not None:
            return self._at(partitions, self._moment_ms)
        if options.from_file:
            return self._planned(group)
        if not options.to_current:
            self._rules.refuse(NO_SCENARIO)
        committed = self._committed(group)
        known = {partition: committed[partition] for partition in partitions if partition in committed}
        uncommitted = [partition for partition in partitions if partition not in committed]
        return {**known, **self._listed(uncommitted, OffsetSpec.LATEST)}

    def _planned(self, group: str) -> Plan:
        if group not in self._plans:
            print_error(f"No reset plan for group {group} found")
            self.worst = Exit.NOT_FOUND
            return {}
        return self._within_range(self._plans[group])

    def _shifted(self, group: str, partitions: list[TopicPartition]) -> Plan:
        committed = self._committed(group)
        for partition in partitions:
            if partition not in committed:
                self._rules.refuse(
                    f"Cannot shift offset for partition {partition} since there is no current committed "
                    "offset"
                )
        return {partition: committed[partition] + self._options.shift_by for partition in partitions}

    def _committed(self, group: str) -> Plan:
        offsets = self._admin.list_consumer_group_offsets(group, timeout_ms=self._options.timeout)[group]
        return {
            partition: offset.offset
            for partition, offset in offsets.values_by_key.items()
            if offset is not None
        }

    def _listed(self, partitions: Iterable[TopicPartition], spec: OffsetSpec | int) -> Plan:
        wanted = dict.fromkeys(partitions, spec)
        if not wanted:
            return {}
        offsets = self._admin.list_offsets(wanted, timeout_ms=self._options.timeout).raise_first()
        return {partition: offset.offset for partition, offset in offsets.items()}

    def _at(self, partitions: list[TopicPartition], moment_ms: int) -> Plan:
        """The first offset at or after a timestamp, or the end if there is none."""
        offsets = self._listed(partitions, moment_ms)
        late = sorted(partition for partition, offset in offsets.items() if offset == NO_OFFSET)
        for partition in late:
            print(
                f"\nWarn: Partition {partition.partition} from topic {partition.topic} is empty."
                " Falling back to latest known offset.",
                file=sys.stderr,
            )
        return {**offsets, **self._listed(late, OffsetSpec.LATEST)}

    def _within_range(self, wanted: Mapping[TopicPartition, int]) -> Plan:
        """Moves offsets outside of the log to the nearest end."""
        starts = self._listed(wanted, OffsetSpec.EARLIEST)
        ends = self._listed(wanted, OffsetSpec.LATEST)
        result = {}
        for partition, offset in wanted.items():
            result[partition] = max(min(offset, ends[partition]), starts[partition])
            if result[partition] != offset:
                side = "higher than latest" if offset > ends[partition] else "lower than earliest"
                print(
                    f"WARN: New offset ({offset}) is {side} offset for topic partition {partition}."
                    f" Value will be set to {result[partition]}",
                    file=sys.stderr,
                )
        return result

    def _read_moment(self) -> int | None:
        """--to-datetime and --by-duration; a malformed time is refused before the cluster is queried."""
        options = self._options
        if options.to_datetime is not None:
            return _read("--to-datetime", options.to_datetime, moment_ms)
        if options.by_duration is not None:
            from barnabas.runtime.clock import SystemClock

            return SystemClock().wall_ms() - _read("--by-duration", options.by_duration, duration_ms)
        return None


def _read(flag: str, text: str, read: Callable[[str], int]) -> int:
    try:
        return read(text)
    except ValueError as error:
        print(file=sys.stderr)
        raise CommandError(f"{FAILED}{error} ({flag} {text})", Exit.USAGE) from error
