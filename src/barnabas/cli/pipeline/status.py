"""The progress of a pipeline: its checkpoints, compared with the current ends of the topics."""

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

# Start and end offset of each partition.
Bounds: TypeAlias = "dict[TopicPartition, tuple[int, int]]"

# An unavailable broker must not keep the other rows from being shown.
REQUEST_TIMEOUT_MS = 5_000


def status_rows(pipeline: Pipeline, settings: dict[str, str], folder: Path) -> tuple[list[Row], str]:
    """One row per sink; and the reason if the lag is unknown."""
    from barnabas.spark.pipeline.checkpoints import is_running, read_done, read_identity
    from barnabas.spark.pipeline.definition import PipelineError
    from barnabas.spark.pipeline.graph import place

    identity = read_identity(folder)
    if identity is not None and identity.pipeline != pipeline.name:
        raise PipelineError(
            f"{folder} is the checkpoint of the pipeline {identity.pipeline}, not of {pipeline.name}"
        )
    done = {name: read_done(folder / name) for name in pipeline.sinks}
    bounds, problem = _bounds([checkpoint.offsets for checkpoint in done.values()], settings["bootstrap"])
    rows: list[Row] = []
    for name, sink in pipeline.sinks.items():
        checkpoint = done[name]
        reads = [] if identity is None else sorted(identity.sinks.get(name, ()))
        rows.append(
            {
                "sink": name,
                "state": _state(checkpoint, is_now=is_running(folder, name)),
                "batch": checkpoint.batch,
                "done": _time(checkpoint.done_ms),
                "lag": _lag(checkpoint.offsets, bounds),
                "watermark": _time(checkpoint.watermark_ms),
                "reads": reads,
                "to": place(pipeline, sink, settings),
                "begun": checkpoint.begun,
                "offsets": checkpoint.offsets,
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
    """Records that were not read yet, including those of partitions added since then."""
    if not offsets or not bounds:
        return None
    return sum(
        lag(_read_to(offsets, partition), start, end)
        for partition, (start, end) in bounds.items()
        if partition.topic in offsets
    )


def _read_to(offsets: Offsets, partition: TopicPartition) -> int:
    return offsets.get(partition.topic, {}).get(str(partition.partition), 0)


def _bounds(read: Sequence[Offsets], bootstrap: str) -> tuple[Bounds, str]:
    """The start and end offsets of all partitions of these topics."""
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
            described = admin.describe_topics(topics, timeout_ms=REQUEST_TIMEOUT_MS)
            partitions = [
                TopicPartition(topic.name, info.partition)
                for topic in described.values_by_key.values()
                for info in topic.partitions
            ]
            listed = admin.list_offsets(
                dict.fromkeys(partitions, OffsetSpec.LATEST), timeout_ms=REQUEST_TIMEOUT_MS
            )
            errors = [*described.errors.values(), *listed.errors.values()]
            ends = {partition: result.offset for partition, result in listed.values_by_key.items()}
            read_to = [(partition, _read_to(offsets, partition)) for offsets in read for partition in ends]
            starts = log_starts(admin, read_to, ends, timeout_ms=REQUEST_TIMEOUT_MS)
    except KafkaError as error:
        return {}, sentence(error)
    bounds = {partition: (starts.get(partition, 0), end) for partition, end in ends.items()}
    return bounds, sentence(errors[0]) if errors else ""
