"""Reset plans, as --export prints and --from-file reads them: `[group,]topic,partition,offset`."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.cli.framework.numbers import MAX_INT, MAX_LONG
from barnabas.client.model import TopicPartition
from barnabas.runtime.disk.folder_disk import FolderDisk

Plan = dict[TopicPartition, int]
MAX_FILE_BYTES = 64 * 1024 * 1024


def csv_of(plans: Mapping[str, Plan], *, with_groups: bool) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group, plan in plans.items():
        for partition, offset in sorted(plan.items()):
            row = (partition.topic, partition.partition, offset)
            writer.writerow((group, *row) if with_groups else row)
    return text.getvalue()


def read_plans(path: str, groups: Sequence[str]) -> dict[str, Plan]:
    """Plans by group; lines without a group belong to the only group in `groups`."""
    disk = FolderDisk()
    if disk.size(path) > MAX_FILE_BYTES:
        raise CommandError(f"{path}: the plan is larger than {MAX_FILE_BYTES} bytes")
    plans: dict[str, Plan] = {}
    try:
        rows = list(csv.reader(disk.read_bytes(path).decode().splitlines(), strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: not a CSV file ({error})", Exit.USAGE) from error
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        if len(row) == 3 and len(groups) == 1:
            row = [groups[0], *row]
        if len(row) != 4 or not _is_number(row[2], MAX_INT) or not _is_number(row[3], MAX_LONG):
            wanted = "[GROUP,]TOPIC,PARTITION,OFFSET" if len(groups) == 1 else "GROUP,TOPIC,PARTITION,OFFSET"
            raise CommandError(f"{path}: line {number} is not {wanted}: {','.join(row)}", Exit.USAGE)
        plans.setdefault(row[0], {})[TopicPartition(row[1], int(row[2]))] = int(row[3])
    return plans


def _is_number(text: str, most: int) -> bool:
    return text.isascii() and text.isdecimal() and int(text) <= most
