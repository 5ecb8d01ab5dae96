"""Topics and partitions as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from barnabas.cli.friendly.output import Column, Row

if TYPE_CHECKING:
    from barnabas.client.admin.topics import TopicDescription
    from barnabas.client.sync import Admin

TOPICS = (
    Column("topic"),
    Column("partitions", is_number=True),
    Column("replicas", is_number=True),
    Column("records", is_number=True),
    Column("bytes", is_number=True),
    Column("is_internal", is_wide=True, title="INTERNAL"),
    Column("id", is_wide=True),
)
PARTITIONS = (
    Column("topic"),
    Column("partition", is_number=True),
    Column("leader"),
    Column("replicas"),
    Column("isr"),
    Column("start", is_number=True),
    Column("end", is_number=True),
    Column("bytes", is_number=True),
    Column("leader_epoch", is_number=True, is_wide=True),
    Column("offline", is_wide=True),
)


def topic_rows(admin: Admin, names: list[str]) -> Iterable[Row]:
    described = admin.describe_topics(names).values_by_key if names else {}
    by_name = {topic.name: topic for topic in described.values()}
    rows: dict[object, list[Row]] = {}
    for row in partition_rows(admin, list(by_name.values())):
        rows.setdefault(row["topic"], []).append(row)
    for name in names:
        if name not in by_name:
            continue
        partitions = rows.get(name, [])
        topic = by_name[name]
        yield {
            "topic": name,
            "partitions": len(partitions),
            "replicas": max((len(info.replicas) for info in topic.partitions), default=0),
            "records": _sum(partitions, "records"),
            "bytes": _sum(partitions, "bytes"),
            "is_internal": topic.is_internal,
            "id": str(topic.id),
        }


def _sum(rows: Iterable[Row], field: str) -> int | None:
    """The sum of a field, or None if a value is unknown."""
    total = 0
    for row in rows:
        value = row[field]
        if not isinstance(value, int):
            return None
        total += value
    return total


def partition_rows(admin: Admin, topics: Sequence[TopicDescription]) -> list[Row]:
    from barnabas.cli.friendly.records.positions import log_ranges, log_sizes
    from barnabas.client import TopicPartition

    partitions = [
        TopicPartition(topic.name, info.partition)
        for topic in topics
        for info in topic.partitions
        if info.leader is not None
    ]
    ranges = log_ranges(admin, partitions)
    sizes = log_sizes(admin, partitions)
    rows: list[Row] = []
    for topic in topics:
        for info in topic.partitions:
            partition = TopicPartition(topic.name, info.partition)
            start, end = ranges.get(partition, (None, None))
            rows.append(
                {
                    "topic": topic.name,
                    "partition": info.partition,
                    "leader": info.leader,
                    "replicas": list(info.replicas),
                    "isr": list(info.isr),
                    "start": start,
                    "end": end,
                    "records": None if start is None or end is None else end - start,
                    "bytes": sizes.get(partition),
                    "leader_epoch": info.leader_epoch,
                    "offline": list(info.offline_replicas),
                }
            )
    return rows
