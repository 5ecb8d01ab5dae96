"""`barnabas top`: current throughput by topic, and throughput and lag by group."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.framework.exits import Exit
from barnabas.cli.framework.numbers import whole_number
from barnabas.cli.friendly.framework import FriendlyParser, add_cluster, add_output, open_admin
from barnabas.cli.friendly.output import Column, Printer, Row
from barnabas.cli.friendly.records.times import parse_duration_ms

if TYPE_CHECKING:
    from barnabas.client.sync import Admin

PROGRAM = "barnabas top"
DEFAULT_EVERY = "2s"
DEFAULT_ROWS = 20
_CLEAR = "\x1b[H\x1b[J"
COLUMNS = (
    Column("kind"),
    Column("name"),
    Column("per_second", is_number=True, title="RECORDS/S", show=lambda rate: f"{rate:,.1f}"),
    Column("records", is_number=True),
    Column("lag", is_number=True),
    Column("state"),
    Column("members", is_number=True),
)


def make_parser() -> FriendlyParser:
    parser = FriendlyParser(
        PROGRAM, "Show records written per second by topic, and records read per second and lag by group."
    )
    add = parser.add_argument
    add(
        "--every",
        default=DEFAULT_EVERY,
        metavar="DURATION",
        help=f"the interval of measurement (default {DEFAULT_EVERY})",
    )
    add(
        "-n",
        "--rounds",
        type=whole_number(1),
        metavar="N",
        help="exit after N rounds (default: never on a terminal, else 1)",
    )
    add(
        "--rows",
        type=whole_number(1),
        default=DEFAULT_ROWS,
        metavar="N",
        help=f"at most N topics and N groups (default {DEFAULT_ROWS})",
    )
    add("--internal", action="store_true", help="include internal topics")
    add_output(parser)
    add_cluster(parser)
    return parser


def run(arguments: Sequence[str]) -> int:
    parser = make_parser()
    options = parser.parse(arguments)
    try:
        every_ms = parse_duration_ms(options.every)
    except ValueError as error:
        parser.error(f"--every: {error}")
    if every_ms <= 0:
        parser.error("--every must be positive")
    is_live = sys.stdout.isatty() and options.output in ("table", "wide")
    rounds = options.rounds if options.rounds is not None else (None if is_live else 1)
    with open_admin(parser, options) as admin:
        _watch(admin, options, every_ms, rounds, is_live=is_live)
    return Exit.OK


def _watch(admin: Admin, options: Namespace, every_ms: int, rounds: int | None, *, is_live: bool) -> None:
    before = Sample(admin, include_internal=options.internal)
    shown = 0
    while rounds is None or shown < rounds:
        _pause(admin, every_ms)
        now = Sample(admin, include_internal=options.internal)
        rows = [*now.topic_rows(before)[: options.rows], *now.group_rows(before)[: options.rows]]
        if is_live:
            sys.stdout.write(_CLEAR)
        Printer(options.output, COLUMNS, name="name").all(rows)
        sys.stdout.flush()
        before = now
        shown += 1


def _pause(admin: Admin, pause_ms: int) -> None:
    """Sleeps on the client's event loop, where Ctrl+C interrupts it."""
    import asyncio  # noqa: TID251

    admin.call(lambda _: asyncio.sleep(pause_ms / 1_000))


class Sample:
    """The end offsets of topics and the committed offsets of groups at one time."""

    def __init__(self, admin: Admin, *, include_internal: bool) -> None:
        from barnabas.cli.friendly.group import offset_rows
        from barnabas.cli.friendly.records.positions import log_ranges
        from barnabas.client.model import TopicPartition
        from barnabas.runtime.clock import SystemClock

        topics = admin.describe_topics(sorted(admin.list_topics(include_internal=include_internal)))
        partitions = [
            TopicPartition(topic.name, info.partition)
            for topic in topics.values_by_key.values()
            for info in topic.partitions
            if info.leader is not None
        ]
        self.records: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        for partition, (start, end) in log_ranges(admin, partitions).items():
            self.records[partition.topic] = self.records.get(partition.topic, 0) + end - start
            self.ends[partition.topic] = self.ends.get(partition.topic, 0) + end
        names = [group.group_id for group in admin.list_consumer_groups().groups]
        self._groups = admin.describe_consumer_groups(names).values_by_key if names else {}
        self.lags: dict[str, int] = {}
        self.positions: dict[str, int] = {}
        for row in offset_rows(admin, list(self._groups.values())):
            group = str(row["group"])
            self.lags[group] = self.lags.get(group, 0) + _number(row["lag"])
            self.positions[group] = self.positions.get(group, 0) + _number(row["committed"])
        self._at_ns = SystemClock().monotonic_ns()

    def topic_rows(self, before: Sample) -> list[Row]:
        rows: list[Row] = [
            {
                "kind": "topic",
                "name": name,
                "per_second": self._rate(before, end - before.ends.get(name, end)),
                "records": self.records[name],
                "lag": None,
                "state": None,
                "members": None,
            }
            for name, end in self.ends.items()
        ]
        return sorted(rows, key=lambda row: (-_number(row["per_second"]), str(row["name"])))

    def group_rows(self, before: Sample) -> list[Row]:
        rows: list[Row] = []
        for name, group in self._groups.items():
            position = self.positions.get(name, 0)
            rows.append(
                {
                    "kind": "group",
                    "name": name,
                    "per_second": self._rate(before, position - before.positions.get(name, position)),
                    "records": None,
                    "lag": self.lags.get(name, 0),
                    "state": group.state,
                    "members": len(group.members),
                }
            )
        return sorted(rows, key=lambda row: (-_number(row["lag"]), str(row["name"])))

    def _rate(self, before: Sample, moved: int) -> float:
        passed_s = (self._at_ns - before._at_ns) / 1e9
        return round(moved / passed_s, 1) if passed_s > 0 else 0.0


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) else 0
