"""Setting the offsets of groups that nobody is a member of.

What lives here: which partitions, to which offsets, and how that is printed.  What may not: which flags go
together (`consumer_groups`).
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from barnabas.base.errors import ErrorCode
from barnabas.cli.consumer_groups.errors import FAILED, say
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
        for place, offset in sorted(plan.items()):
            print(padded_row((group, place.topic, place.partition, offset), WIDTHS))


def _states(admin: Admin, groups: list[str], timeout_ms: int) -> Iterable[tuple[str, str]]:
    """A group that is not there is as good as one without members: its offsets will make it."""
    described = admin.describe_consumer_groups(groups, timeout_ms=timeout_ms)
    for group in sorted(groups):
        error = described.error_of(group)
        if error is not None and error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise error
        yield group, "Dead" if error is not None else described[group].state


class Resets:
    """One command line's: asks the cluster what it needs to know, once for each group."""

    def __init__(self, admin: Admin, options: Namespace, rules: FlagRules) -> None:
        self._admin = admin
        self._options = options
        self._rules = rules
        self.worst = Exit.OK
        self._moment_ms = self._read_moment()
        self._plans = read_plans(options.from_file, options.group or ()) if options.from_file else {}

    def of_group(self, group: str, state: str) -> Plan:
        """The new offsets, set if that is wanted."""
        if state not in INACTIVE:
            say(
                f"Assignments can only be reset if the group '{group}' is inactive,"
                f" but the current state is {state}."
            )
            self.worst = Exit.FAILED
            return {}
        plan = self._offsets(group, self._partitions(group))
        if self._options.execute and plan:
            offsets = {place: OffsetAndMetadata(offset) for place, offset in plan.items()}
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
        known = {place: committed[place] for place in partitions if place in committed}
        rest = [place for place in partitions if place not in committed]
        return {**known, **self._listed(rest, OffsetSpec.LATEST)}

    def _planned(self, group: str) -> Plan:
        if group not in self._plans:
            say(f"No reset plan for group {group} found")
            self.worst = Exit.NOT_FOUND
            return {}
        return self._within_range(self._plans[group])

    def _shifted(self, group: str, partitions: list[TopicPartition]) -> Plan:
        committed = self._committed(group)
        for place in partitions:
            if place not in committed:
                self._rules.refuse(
                    f"Cannot shift offset for partition {place} since there is no current committed offset"
                )
        return {place: committed[place] + self._options.shift_by for place in partitions}

    def _committed(self, group: str) -> Plan:
        found = self._admin.list_consumer_group_offsets(group, timeout_ms=self._options.timeout)[group]
        return {place: one.offset for place, one in found.values_by_key.items() if one is not None}

    def _listed(self, partitions: Iterable[TopicPartition], spec: OffsetSpec | int) -> Plan:
        wanted = dict.fromkeys(partitions, spec)
        if not wanted:
            return {}
        found = self._admin.list_offsets(wanted, timeout_ms=self._options.timeout).raise_first()
        return {place: one.offset for place, one in found.items()}

    def _at(self, partitions: list[TopicPartition], moment_ms: int) -> Plan:
        """The first records from a time on; the end where there is none."""
        found = self._listed(partitions, moment_ms)
        late = sorted(place for place, offset in found.items() if offset == NO_OFFSET)
        for place in late:
            print(
                f"\nWarn: Partition {place.partition} from topic {place.topic} is empty."
                " Falling back to latest known offset.",
                file=sys.stderr,
            )
        return {**found, **self._listed(late, OffsetSpec.LATEST)}

    def _within_range(self, wanted: Mapping[TopicPartition, int]) -> Plan:
        """Offsets that are not there become the nearest that are."""
        starts = self._listed(wanted, OffsetSpec.EARLIEST)
        ends = self._listed(wanted, OffsetSpec.LATEST)
        found = {}
        for place, offset in wanted.items():
            found[place] = max(min(offset, ends[place]), starts[place])
            if found[place] != offset:
                side = "higher than latest" if offset > ends[place] else "lower than earliest"
                print(
                    f"WARN: New offset ({offset}) is {side} offset for topic partition {place}."
                    f" Value will be set to {found[place]}",
                    file=sys.stderr,
                )
        return found

    def _read_moment(self) -> int | None:
        """--to-datetime and --by-duration; what is no time is refused before anything is asked."""
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
