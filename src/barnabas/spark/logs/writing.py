"""The first query of the log pipeline, batch by batch: lines are parsed once, their templates learned, and
what was parsed, what was not and what came too late is written together, exactly once.

Learning needs all shapes of a batch before any of its lines can be written, so a batch is parsed into Spark's
cache, and only its distinct shapes come to the driver.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.spark.internals import query_of
from barnabas.spark.logs import queries
from barnabas.spark.logs.learning import FOLDER, Store, Tally
from barnabas.spark.logs.spans import seconds
from barnabas.spark.pipeline.checkpoints import local_folder
from barnabas.spark.pipeline.definition import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

logger = logging.getLogger(__name__)

# Shapes of one batch that are learned; lines of further ones are their own templates.
MOST_SHAPES = 200_000


def writer(
    stream: DataStreamWriter, settings: Mapping[str, str], tally: Tally, name: str
) -> DataStreamWriter:
    """Write the rows of `queries.parsed` to the topics of the settings."""
    folder = local_folder(settings["checkpoint"])
    if folder is None:
        raise PipelineError(
            "the templates are kept beside the checkpoint, which must be a folder of this machine: "
            "--set checkpoint=FOLDER"
        )
    return stream.foreachBatch(_batch_writer(settings, Store(folder / FOLDER), tally, name))


def _batch_writer(
    settings: Mapping[str, str], store: Store, tally: Tally, name: str
) -> Callable[[DataFrame, int], None]:
    allowed_ms = round(1000 * seconds(settings["watermark"], "watermark"))

    def write(rows: DataFrame, batch: int) -> None:
        cached = rows.persist()
        try:
            learned = store.before(batch)
            shapes = cached.where("problem IS NULL").select("source", "shape").distinct()
            # In a fixed order: a repeated batch learns the same.
            found = sorted((row.source, row.shape) for row in shapes.limit(MOST_SHAPES).collect())
            named = learned.learn(found)
            newest_before = learned.newest_ms
            learned.see(_count(cached, tally))
            store.keep(batch, learned)
            late = queries.late(cached, newest_before, allowed_ms)
            good = queries.with_templates(cached, named)
            query = query_of(rows)
            options = {
                "kafka.bootstrap.servers": settings["bootstrap"],
                "deliveryGuarantee": "exactly-once",
                "sinkId": f"{name}-{query}",
                "batchId": str(batch),
            }
            records = (
                _in_topic(good, settings["parsed"])
                .unionByName(_in_topic(queries.with_templates(late, named), settings["late"]))
                .unionByName(_in_topic(queries.bad(cached), settings["bad"]), allowMissingColumns=True)
            )
            records.write.format("barnabas").options(**options).mode("append").save()
        finally:
            cached.unpersist()

    return write


def _in_topic(records: DataFrame, topic: str) -> DataFrame:
    from pyspark.sql import functions as f

    return records.withColumn("topic", f.lit(topic))


def _count(rows: DataFrame, tally: Tally) -> int | None:
    """Count the lines; the newest time of them."""
    from pyspark.sql import functions as f

    row = rows.agg(
        f.count("*").alias("lines"),
        f.count("problem").alias("unreadable"),
        f.expr("min_by(value, position) FILTER (WHERE problem IS NOT NULL)").alias("first"),
        f.max("at_ms").alias("newest"),
    ).head()
    if row is None:
        return None
    batch = Tally()
    batch.add(row.lines, row.unreadable, row.first)
    if batch.complaint is not None:
        logger.warning("%s", batch.complaint)
    tally.add(row.lines, row.unreadable, row.first)
    newest: int | None = row.newest
    return newest
