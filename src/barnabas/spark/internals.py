"""What is used of PySpark beyond its public API, and the versions that it was tried with.

Two uses have to stand elsewhere, because PySpark finds them by their place: `worker_daemon`, whose module is
a setting of the session, and `__getstate__` of the sink's writers: PySpark pickles a writer once for each
batch, when it plans the batch.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

# The first and the last version that the tests passed with; newer ones may work.
OLDEST, NEWEST = (4, 2), (4, 3)
# Local properties of a streaming query's jobs and tasks; the query's id is in its checkpoint.
QUERY_PROPERTY = "sql.streaming.queryId"
BATCH_PROPERTY = "streaming.sql.batchId"
# Spark's job group of a streaming query: the id of its run.
RUN_PROPERTY = "spark.jobGroup.id"
# Spark's name of a source in a plan.
RELATION = "StreamingRelationV2"
# Its only message when a master has not accepted an application for a minute.
STOPPED = "Cannot call methods on a stopped SparkContext"


def check_version(version: str) -> None:
    """Warn of a version that nothing here was tried with."""
    parts = tuple(int(part) for part in version.split(".")[:2])
    if not OLDEST <= parts <= NEWEST:
        first, last = (".".join(map(str, each)) for each in (OLDEST, NEWEST))
        warnings.warn(
            f"barnabas.spark was tried with PySpark {first} to {last}, and this is {version}", stacklevel=2
        )


def arrow_schema(schema: StructType) -> pa.Schema:
    """The columns of Arrow batches that Spark takes for these of its own."""
    from pyspark.sql.pandas.types import to_arrow_schema

    made: pa.Schema = to_arrow_schema(schema, timezone="UTC")
    return made


def query_of(rows: DataFrame) -> str | None:
    """The id of the query in whose batch this is called."""
    found: str | None = rows.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY)
    return found


def source_options(frame: DataFrame) -> Iterator[dict[str, str]]:
    """The options of the streams that a DataFrame reads; none with Spark Connect, which has no plan here."""
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        return
    leaves = plan.queryExecution().analyzed().collectLeaves()
    for leaf in (leaves.apply(number) for number in range(leaves.size())):
        if leaf.getClass().getSimpleName() == RELATION:
            options = leaf.extraOptions()
            yield {str(name): str(options.get(name)) for name in options.keySet().toArray()}


def let_updates_end(spark: SparkSession) -> None:
    """A query that is stopped in the middle of a batch closes Spark's connection for accumulators: PySpark
    would print a traceback, and then accepts the next connection."""
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is None:
        return
    original = server.handle_error

    def handle_error(request: object, client: object) -> None:
        if not isinstance(sys.exception(), EOFError | ConnectionError):
            original(request, client)

    server.handle_error = handle_error
