"""What a failed test tells of the cluster: its groups, the last records of its topics, what happened when."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from barnabas.base.errors import KafkaError
from barnabas.client.explain import diagnose
from barnabas.client.explain.gather import gather
from barnabas.testing.kit.cluster import Cluster

if TYPE_CHECKING:
    from barnabas.metadata.timeline import Event
    from barnabas.testing.kit.topics.topics import Topics

T = TypeVar("T")

LAST_RECORDS = 5
LAST_EVENTS = 30
MAX_TOPICS = 10
MAX_GROUPS = 10
# What is shown of a key or value.
SHOWN_BYTES = 120
MS_PER_S = 1_000


def report_of(topics: Topics) -> str:
    """Never fails: a part that cannot be found out says why."""
    lines: list[str] = [f"bootstrap servers: {_tried(lambda: topics.bootstrap_servers)}"]
    lines += [f"at the time of the failure: {text}" for text in topics.interventions()]
    group_ids = _tried(lambda: sorted({*topics.touched_groups, *_own_groups(topics)}))
    if isinstance(group_ids, str):
        return "\n".join([*lines, f"groups: {group_ids}"])
    for group_id in group_ids[:MAX_GROUPS]:
        lines += _lines(partial(_group_lines, topics, group_id), f"group {group_id}")
    for name in list(topics.touched_topics)[:MAX_TOPICS]:
        lines += _lines(partial(_topic_lines, topics, name), f"topic {name}")
    lines += _lines(lambda: _timeline_lines(topics), "timeline")
    return "\n".join(lines)


def _own_groups(topics: Topics) -> set[str]:
    """On a broker of our own every group is of interest."""
    return topics.group_ids() if isinstance(topics, Cluster) else set()


def _tried(work: Callable[[], T]) -> T | str:
    try:
        return work()
    except (KafkaError, TimeoutError, RuntimeError) as error:
        return f"not known: {error}"


def _lines(work: Callable[[], Iterable[str]], title: str) -> list[str]:
    found = _tried(lambda: list(work()))
    return [f"{title}: {found}"] if isinstance(found, str) else found


def _group_lines(topics: Topics, group_id: str) -> Iterator[str]:
    facts = topics.admin.call(lambda admin: gather(admin, group_id, watch_ms=0))
    members = ", ".join(member.client_id for member in facts.group.members) or "no members"
    yield f"group {group_id}: {facts.group.state or 'does not exist'}; {members}"
    for partition in facts.partitions:
        yield (
            f"  {partition.topic_partition}: committed {partition.committed}, end {partition.high_watermark},"
            f" lag {partition.lag}"
        )
    for diagnosis in diagnose(facts):
        if diagnosis.cause.is_stuck:
            yield f"  {diagnosis.summary}"


def _topic_lines(topics: Topics, name: str) -> Iterator[str]:
    records = topics.existing_topic(name).all_records()
    yield f"topic {name}: {len(records)} records" + (", the last are" if records else "")
    for record in sorted(records, key=lambda each: each.timestamp)[-LAST_RECORDS:]:
        value = repr(record.value)[:SHOWN_BYTES]
        yield f"  {record.partition}:{record.offset} key={record.key!r} value={value}"


def _timeline_lines(topics: Topics) -> Iterator[str]:
    if not isinstance(topics, Cluster):
        return
    running = topics.running
    events = running.call(
        lambda: [
            event
            for node in running.nodes.candidates
            if node.is_up
            for event in list(node.broker.metadata.timeline.events)
        ]
    )
    yield "timeline:"
    for event in sorted(events, key=lambda each: each.time_ms)[-LAST_EVENTS:]:
        yield f"  {_event_text(event)}"


def _event_text(event: Event) -> str:
    at = datetime.datetime.fromtimestamp(event.time_ms / MS_PER_S, datetime.UTC)
    parts = [f"{at:%H:%M:%S}.{event.time_ms % MS_PER_S:03d}", event.kind.value, event.subject, event.detail]
    text = " ".join(part for part in parts if part)
    return f"{text} ({event.cause})" if event.cause else text
