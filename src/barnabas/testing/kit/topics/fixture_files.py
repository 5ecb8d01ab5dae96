"""Records in files, one JSON object a line, as `barnabas consume -o jsonl` prints them.

They are written from the topic of a real cluster, and read into a topic of a test.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.runtime.clock import SystemClock
from barnabas.testing.kit.errors import KitError

if TYPE_CHECKING:
    from barnabas.cli.friendly.records.envelope import RecordToSend

MS_PER_MINUTE = 60_000


def read_records(path: str | Path) -> Iterator[RecordToSend]:
    """Raises KitError with the line that is no record."""
    from barnabas.cli.friendly.records.envelope import parse

    with Path(path).open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                try:
                    yield parse(line)
                except ValueError as error:
                    raise KitError(f"{path}, line {number}: {error}") from error


def copy_topic(
    bootstrap_servers: str,
    topic: str,
    path: str | Path,
    *,
    minutes: float | None = None,
    most: int | None = None,
    **options: object,
) -> int:
    """Writes the last minutes of a topic, or all of it, into a file; returns the number of records.

    `options` are those of the client that reads (security_protocol and so on); `most` bounds the records.
    """
    import json

    from barnabas.cli.friendly.records.envelope import row_of
    from barnabas.cli.friendly.records.positions import log_ranges, partitions_of, resolve
    from barnabas.cli.friendly.records.reader import read
    from barnabas.cli.friendly.records.times import AtTime
    from barnabas.client.sync import Admin, Consumer

    settings = {"bootstrap.servers": bootstrap_servers, **options}
    with Admin(settings) as admin:
        ranges = log_ranges(admin, partitions_of(admin, topic, None))
        starts = {partition: first for partition, (first, _) in ranges.items()}
        if minutes is not None:
            since_ms = SystemClock().wall_ms() - int(minutes * MS_PER_MINUTE)
            starts = resolve(admin, AtTime(since_ms), ranges)
    ends = {partition: last for partition, (_, last) in ranges.items()}
    count = 0
    with (
        Consumer({"isolation.level": "read_committed", **settings}) as consumer,
        Path(path).open("w", encoding="utf-8") as out,
    ):
        for records in read(consumer, starts, ends):
            for record in records if most is None else records[: most - count]:
                out.write(json.dumps(row_of(record), ensure_ascii=False) + "\n")
                count += 1
            if count == most:
                break
    return count
