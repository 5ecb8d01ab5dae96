"""From a definition to Spark's queries: DataFrames from parts, writers from sinks, and early validation."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.spark.internals import query_of, source_options
from barnabas.spark.pipeline.batches import let_batches_tell
from barnabas.spark.pipeline.checkpoints import Lock, claim, local_folder, mend
from barnabas.spark.pipeline.definition import (
    SETTINGS,
    SINK,
    SPARK,
    Kind,
    Part,
    Pipeline,
    PipelineError,
    Settings,
    Sink,
    filled,
)
from barnabas.spark.pipeline.expectations import ALL
from barnabas.spark.pipeline.faults import fault_of, java_reason, reason
from barnabas.spark.pipeline.patience import TOO_SLOW
from barnabas.spark.pipeline.running import MAX_RESTARTS, Running

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

logger = logging.getLogger(__name__)

AVAILABLE_NOW = "available-now"
# Spark's file sink keeps its own list of written batches.
FILE_LIST = "_spark_metadata"
# The options that name the topics of our source.
TOPIC_OPTIONS = ("subscribe", "subscribePattern", "assign")


# The DataFrames of each sink, by part.
Frames = dict[str, dict[str, "DataFrame"]]


def start(
    pipeline: Pipeline, spark: SparkSession, settings: Settings, trigger: str | None, sinks: Sequence[str]
) -> Running:
    frames = _frames(pipeline, spark, settings, sinks)
    running = Running(pipeline, spark, settings)
    try:
        _take_checkpoint(running, frames, sinks)
        for name in sinks:
            sink = pipeline.sinks[name]
            running.start(name, partial(_query, pipeline, sink, frames[name][sink.of], settings, trigger))
    except BaseException:
        running.stop(0)
        raise
    return running


# Parts ------------------------------------------------------------------------------------------------------


def _frames(pipeline: Pipeline, spark: SparkSession, settings: Settings, sinks: Sequence[str]) -> Frames:
    """Create each part once, or once per sink if it takes `sink`."""
    by_sink = pipeline.by_sink()
    shared: dict[str, DataFrame] = {}
    frames: Frames = {}
    for sink in sinks:
        own = frames[sink] = {}
        for part in pipeline.needed_by([sink]):
            given = {**own, SPARK: spark, SETTINGS: settings, SINK: sink}
            frame = shared.get(part.name)
            if frame is None:
                frame = _frame(pipeline, part, [given[name] for name in part.takes])
                if part.name not in by_sink:
                    shared[part.name] = frame
            own[part.name] = frame
    return frames


def _frame(pipeline: Pipeline, part: Part, given: Sequence[Any]) -> DataFrame:
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    label = f"{pipeline.name}: the {part.kind.value} {part.name}"
    for start in range(MAX_RESTARTS):
        try:
            made = part.function(*given)
            break
        except PySparkException as error:
            if TOO_SLOW not in str(error) or start == MAX_RESTARTS - 1:
                raise PipelineError(f"{label}: {reason(error)}") from error
        except Exception as error:
            raise PipelineError(f"{label}: {fault_of(part.function, error)}") from error
    if not isinstance(made, DataFrame):
        raise PipelineError(f"{label} returns {type(made).__name__}; it must return a DataFrame")
    if part.kind is Kind.SOURCE and not made.isStreaming:
        raise PipelineError(f"{label} is not a stream; read it with spark.readStream, or make it a table")
    if part.kind is Kind.TABLE and made.isStreaming:
        raise PipelineError(f"{label} is a stream; read it with spark.read, or make it a source")
    return made


# The checkpoint ---------------------------------------------------------------------------------------------


def _take_checkpoint(running: Running, frames: Frames, sinks: Sequence[str]) -> None:
    """Lock the checkpoint and check that it belongs to the same pipeline and sources.  Remote folders are not
    checked, as only Spark can access them."""
    pipeline = running.pipeline
    folder = local_folder(running.settings["checkpoint"])
    if folder is None:
        return
    for name in sinks:
        lock = Lock(folder, name)
        if not lock.take():
            raise PipelineError(
                f"{pipeline.name}: {name} is run by another process with the checkpoint {folder}: stop that "
                "one, or give this one another checkpoint (--set checkpoint=FOLDER)"
            )
        running.locks.append(lock)
    claim(folder, pipeline.name, {name: _reads(pipeline, name, frames[name]) for name in sinks})
    for name in sinks:
        for removed in mend(folder, name):
            logger.warning("%s: %s was half written when its driver was killed; removed", name, removed)
        _refuse_files_of_another_run(pipeline, pipeline.sinks[name], running.settings, folder)


def _reads(pipeline: Pipeline, sink: str, frames: dict[str, DataFrame]) -> list[str]:
    """Return the sources of a sink's query, with their topics."""
    sources = []
    for part in pipeline.needed_by([sink]):
        if part.kind is Kind.SOURCE:
            topics = _topics(frames[part.name])
            name = part.name.removesuffix(ALL)
            sources.append(f"{name} ({topics})" if topics else name)
    return sources


def _topics(frame: DataFrame) -> str:
    """Return what our source subscribes to; empty if Spark does not report it, as with Spark Connect."""
    topics = [options[name] for options in source_options(frame) for name in TOPIC_OPTIONS if name in options]
    return ", ".join(sorted(topics))


def listed_files(pipeline: Pipeline, sink: Sink, settings: Settings) -> Path | None:
    """Return the local folder that a sink writes files to, if Spark keeps a list of batches there."""
    path = sink.options.get("path")
    place = local_folder(filled(path, settings, f"{pipeline.name}: {sink.name}")) if path else None
    return place if place is not None and (place / FILE_LIST).is_dir() else None


def _refuse_files_of_another_run(pipeline: Pipeline, sink: Sink, settings: Settings, folder: Path) -> None:
    """Spark would take the new batches for those in the list, and skip them silently."""
    place = listed_files(pipeline, sink, settings)
    if place is not None and not (folder / sink.name / "offsets").is_dir():
        raise PipelineError(
            f"{pipeline.name}: {sink.name}: the files in {place} are of a run whose checkpoint was deleted, "
            "and "
            f"Spark would skip as many batches as {place / FILE_LIST} lists: write to another path, or move "
            "that folder away"
        )


# Queries ----------------------------------------------------------------------------------------------------


def _query(
    pipeline: Pipeline, sink: Sink, rows: DataFrame, settings: Settings, trigger: str | None
) -> StreamingQuery:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    label = f"{pipeline.name}: {sink.name}"
    if not rows.isStreaming:
        raise PipelineError(f"{label}: {sink.of} is a table; a sink needs rows of a source")
    writer = rows.writeStream.queryName(f"{pipeline.name}-{sink.name}").outputMode(sink.mode)
    let_batches_tell(writer)
    writer = writer.option("checkpointLocation", os.path.join(settings["checkpoint"], sink.name))
    if sink.write is not None:
        writer = _by_user(sink.write, writer, settings, label)
    else:
        options = {name: filled(value, settings, label) for name, value in sink.options.items()}
        if sink.form == "barnabas" and sink.mode != "append":
            writer = writer.foreachBatch(_batch_writer(options))
        else:
            writer = writer.format(sink.form).options(**options)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    try:
        if sink.every and trigger != AVAILABLE_NOW:
            trigger = filled(sink.every, settings, label)
        return _triggered(writer, trigger, pipeline.name).start()
    except PySparkException as error:
        raise PipelineError(f"{label}: {reason(error)}") from error
    except Py4JError as error:
        raise PipelineError(
            f"{label}: Spark cannot start its query: {java_reason(error)}; check its path and options, and "
            f"the checkpoint {settings['checkpoint']}"
        ) from error


def _by_user(write: Callable[..., Any], writer: Any, settings: Settings, label: str) -> Any:
    from pyspark.errors import PySparkException

    try:
        made = write(writer, settings)
    except PySparkException as error:
        raise PipelineError(f"{label}: {reason(error)}") from error
    except Exception as error:
        raise PipelineError(f"{label}: {fault_of(write, error)}") from error
    if not hasattr(made, "trigger"):
        raise PipelineError(
            f"{label}: its writer returns {type(made).__name__}; it must return the stream writer that it got"
        )
    return made


def _triggered(writer: DataStreamWriter, trigger: str | None, name: str) -> DataStreamWriter:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if trigger is None:
        return writer
    if trigger == AVAILABLE_NOW:
        return writer.trigger(availableNow=True)
    try:
        return writer.trigger(processingTime=trigger)
    except (PySparkException, Py4JJavaError, ValueError) as error:
        raise PipelineError(
            f"{name}: a batch cannot begin every {trigger!r}: give a time such as '5 seconds' or '1 minute'"
        ) from error


def _batch_writer(options: dict[str, str]) -> Callable[[DataFrame, int], None]:
    """Spark lets Python formats only append; updated rows are appended batch by batch."""

    def write(rows: DataFrame, batch: int) -> None:
        chosen = dict(options)
        if "sinkId" in chosen:
            # Batch numbers restart with each checkpoint, so the sink id must differ as well.
            query = query_of(rows)
            chosen.update(sinkId=f"{chosen['sinkId']}-{query}", batchId=str(batch))
        rows.write.format("barnabas").options(**chosen).mode("append").save()

    return write
