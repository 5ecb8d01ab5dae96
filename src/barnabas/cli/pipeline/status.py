"""How far a pipeline is: its checkpoints, and what the topics have now."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from barnabas.base.lag import lag
from barnabas.cli.friendly.output import Row

if TYPE_CHECKING:
    from barnabas.client.model import TopicPartition
    from barnabas.spark.pipeline import Pipeline
    from barnabas.spark.pipeline.checkpoints import Done, Offsets

# Where the log of each partition starts and ends.
Bounds: TypeAlias = "dict[TopicPartition, tuple[int, int]]"

# A broker that is away must not keep the rest from being told.
ASK_TIMEOUT_MS = 5_000


def status_rows(pipeline: Pipeline, settings: dict[str, str], folder: Path) -> tuple[list[Row], str]:
    """A row a sink; and why the lag is not known, if it is not."""
    from barnabas.spark.pipeline.checkpoints import is_running, read_done, read_identity
    from barnabas.spark.pipeline.definition import PipelineError
    from barnabas.spark.pipeline.graph import place

    known = read_identity(folder)
    if known is not None and known.pipeline != pipeline.name:
        raise PipelineError(
            f"{folder} is the checkpoint of the pipeline {known.pipeline}, not of {pipeline.name}"
        )
    done = {name: read_done(folder / name) for name in pipeline.sinks}
    bounds, problem = _bounds([one.offsets for one in done.values()], settings["bootstrap"])
    rows: list[Row] = []
    for name, sink in pipeline.sinks.items():
        one = done[name]
        reads = [] if known is None else sorted(known.sinks.get(name, ()))
        rows.append(
            {
                "sink": name,
                "state": _state(one, is_now=is_running(folder, name)),
                "batch": one.batch,
                "done": _time(one.done_ms),
                "lag": _lag(one.offsets, bounds),
                "watermark": _time(one.watermark_ms),
                "reads": reads,
                "to": place(pipeline, sink, settings),
                "begun": one.begun,
                "offsets": one.offsets,
            }
        )
    return rows, problem


def _state(done: Done, *, is_now: bool) -> str:
    if is_now:
        return "running"
    return "stopped" if done.begun is not None else "new"


def _time(ms: int | None) -> str | None:
    return None if ms is None else f"{datetime.fromtimestamp(ms // 1_000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _lag(offsets: Offsets, bounds: Bounds) -> int | None:
    """Records that were not read yet, of partitions that may have come since then too."""
    if not offsets or not bounds:
        return None
    return sum(
        lag(_read_to(offsets, where), start, end)
        for where, (start, end) in bounds.items()
        if where.topic in offsets
    )


def _read_to(offsets: Offsets, where: TopicPartition) -> int:
    return offsets.get(where.topic, {}).get(str(where.partition), 0)


def _bounds(read: Sequence[Offsets], bootstrap: str) -> tuple[Bounds, str]:
    """Where the logs of all partitions of these topics start and end."""
    from barnabas.base.errors import KafkaError
    from barnabas.cli.framework.kafka_errors import sentence
    from barnabas.cli.framework.log_starts import log_starts
    from barnabas.client.admin.records import OffsetSpec
    from barnabas.client.model import TopicPartition
    from barnabas.client.sync import Admin

    topics = sorted({topic for offsets in read for topic in offsets})
    if not topics:
        return {}, ""
    try:
        with Admin(bootstrap_servers=bootstrap) as admin:
            described = admin.describe_topics(topics, timeout_ms=ASK_TIMEOUT_MS)
            partitions = [
                TopicPartition(topic.name, one.partition)
                for topic in described.values_by_key.values()
                for one in topic.partitions
            ]
            listed = admin.list_offsets(
                dict.fromkeys(partitions, OffsetSpec.LATEST), timeout_ms=ASK_TIMEOUT_MS
            )
            errors = [*described.errors.values(), *listed.errors.values()]
            ends = {where: one.offset for where, one in listed.values_by_key.items()}
            read_to = [(where, _read_to(offsets, where)) for offsets in read for where in ends]
            starts = log_starts(admin, read_to, ends, timeout_ms=ASK_TIMEOUT_MS)
    except KafkaError as error:
        return {}, sentence(error)
    found = {where: (starts.get(where, 0), end) for where, end in ends.items()}
    return found, sentence(errors[0]) if errors else ""
