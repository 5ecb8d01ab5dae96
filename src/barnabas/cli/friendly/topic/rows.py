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
    found = admin.describe_topics(names).values_by_key if names else {}
    by_name = {one.name: one for one in found.values()}
    rows: dict[object, list[Row]] = {}
    for row in partition_rows(admin, list(by_name.values())):
        rows.setdefault(row["topic"], []).append(row)
    for name in names:
        if name not in by_name:
            continue
        mine = rows.get(name, [])
        topic = by_name[name]
        yield {
            "topic": name,
            "partitions": len(mine),
            "replicas": max((len(one.replicas) for one in topic.partitions), default=0),
            "records": _sum(mine, "records"),
            "bytes": _sum(mine, "bytes"),
            "is_internal": topic.is_internal,
            "id": str(topic.id),
        }


def _sum(rows: Iterable[Row], field: str) -> int | None:
    """None if one of them is not known."""
    total = 0
    for row in rows:
        value = row[field]
        if not isinstance(value, int):
            return None
        total += value
    return total


def partition_rows(admin: Admin, topics: Sequence[TopicDescription]) -> list[Row]:
    from barnabas.cli.friendly.records.places import log_edges, log_sizes
    from barnabas.client import TopicPartition

    led = [
        TopicPartition(topic.name, one.partition)
        for topic in topics
        for one in topic.partitions
        if one.leader is not None
    ]
    edges = log_edges(admin, led)
    sizes = log_sizes(admin, led)
    rows: list[Row] = []
    for topic in topics:
        for one in topic.partitions:
            where = TopicPartition(topic.name, one.partition)
            start, end = edges.get(where, (None, None))
            rows.append(
                {
                    "topic": topic.name,
                    "partition": one.partition,
                    "leader": one.leader,
                    "replicas": list(one.replicas),
                    "isr": list(one.isr),
                    "start": start,
                    "end": end,
                    "records": None if start is None or end is None else end - start,
                    "bytes": sizes.get(where),
                    "leader_epoch": one.leader_epoch,
                    "offline": list(one.offline_replicas),
                }
            )
    return rows
