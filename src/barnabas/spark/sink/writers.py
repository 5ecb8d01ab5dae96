"""The writers as Spark calls them: on the driver to plan and to commit, in tasks to write.

What lives here: Spark's hooks.  What may not: what is done in them (tasks, driver).
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from barnabas.runtime.chance import SystemRandom
from barnabas.spark.sink.decision import Plan, Report
from barnabas.spark.sink.desk import desk_for, discard
from barnabas.spark.sink.driver import Driver
from barnabas.spark.sink.options import SinkOptions
from barnabas.spark.sink.tasks import (
    BATCH_PROPERTY,
    QUERY_PROPERTY,
    Work,
    write_at_least_once,
    write_exactly_once,
)

if TYPE_CHECKING:
    import pyarrow as pa

# Batch writes with a batchId count for this one query.
BATCH_WRITES = "batch-writes"
Messages = Sequence[WriterCommitMessage | None]


@dataclass
class Message(WriterCommitMessage):
    """What Spark carries from a task to the driver."""

    report: Report | None = None


class AtLeastOnceWriter(DataSourceArrowWriter):
    """Batch: rows are visible as they are written, and once more if a task is run again."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        write_at_least_once(self._work, iterator)
        return Message()


class AtLeastOnceStreamWriter(DataSourceStreamArrowWriter):
    """Streaming: the same."""

    def __init__(self, work: Work) -> None:
        self._work = work

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        write_at_least_once(self._work, iterator)
        return Message()


class _Planned:
    """The plan of a batch, made when Spark sends a writer to its tasks.

    Spark has no hook for the beginning of a batch.  But only the process that plans a batch pickles its
    writer, and it makes a new one for each batch.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self.plan: Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self.plan is None:
            self.plan = self.drive(self.driver().plan())
        return self.__dict__

    def driver(self) -> Driver:
        """The driver's part, for this sink."""
        desk = desk_for(self.work.options)
        return desk.run(_driver(self.work.options))

    def drive(self, step: Coroutine[Any, Any, Any]) -> Any:
        """Run a step of the driver's."""
        try:
            return desk_for(self.work.options).run(step)
        except BaseException:
            discard(self.work.options)
            raise


async def _driver(options: SinkOptions) -> Driver:
    return Driver(options, await desk_for(options).calls())


class ExactlyOnceStreamWriter(_Planned, DataSourceStreamArrowWriter):
    """Streaming: each batch once, whatever is killed."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        assert self.plan is not None
        query, batch = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(BATCH_PROPERTY)
        if query is None or batch is None:
            raise ValueError("exactly-once needs the batch's number from Spark, and this task has none")
        return Message(write_exactly_once(self.work, self.plan, query, int(batch), iterator))

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        self.drive(self.driver().commit(reports_of(messages)))

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        self.drive(self.driver().abort(reports_of(messages)))


class ExactlyOnceWriter(_Planned, DataSourceArrowWriter):
    """Batch: all rows become visible, or none; with `batchId` also only once for each number."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        batch_id = work.options.batch_id
        self.query = SystemRandom().bytes(16).hex() if batch_id is None else BATCH_WRITES
        self.batch = 0 if batch_id is None else batch_id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        assert self.plan is not None
        return Message(write_exactly_once(self.work, self.plan, self.query, self.batch, iterator))

    def commit(self, messages: Messages) -> None:
        self.drive(self.driver().commit(reports_of(messages)))

    def abort(self, messages: Messages) -> None:
        self.drive(self.driver().abort(reports_of(messages)))


def reports_of(messages: Messages) -> list[Report | None]:
    return [None if one is None else cast("Message", one).report for one in messages]
