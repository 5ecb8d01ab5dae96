"""The writers that Spark calls: on the driver to plan and to commit, in tasks to write."""

from __future__ import annotations

import re
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from barnabas.runtime.random import SystemRandom
from barnabas.spark.internals import BATCH_PROPERTY, QUERY_PROPERTY, RUN_PROPERTY
from barnabas.spark.sink.client_cache import client_cache_for, discard
from barnabas.spark.sink.decision import Plan, Report
from barnabas.spark.sink.driver import Driver
from barnabas.spark.sink.options import SinkOptions
from barnabas.spark.sink.tasks import Number, Work, write_at_least_once, write_exactly_once

if TYPE_CHECKING:
    import pyarrow as pa

# The query name of batch writes with a batchId outside of a streaming query.
BATCH_WRITES = "batch-writes"
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Messages = Sequence[WriterCommitMessage | None]


@dataclass
class Message(WriterCommitMessage):
    """The message that Spark carries from a task to the driver."""

    report: Report | None = None


class AtLeastOnceWriter(DataSourceArrowWriter):
    """Batch: rows are visible when they are written, and duplicated if a task is repeated."""

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

    Spark has no hook for the start of a batch.  But only the process that plans a batch pickles its writer,
    and it creates a new one for each batch.
    """

    def __init__(self, work: Work) -> None:
        self.work = work
        self.plan: Plan | None = None

    def __getstate__(self) -> dict[str, Any]:
        if self.plan is None:
            self.plan = self.drive(self.driver().plan())
        return self.__dict__

    def driver(self) -> Driver:
        """Return the driver of this sink."""
        client_cache = client_cache_for(self.work.options)
        return client_cache.run(_driver(self.work.options))

    def drive(self, step: Coroutine[Any, Any, Any]) -> Any:
        """Run a step of the driver."""
        try:
            return client_cache_for(self.work.options).run(step)
        except BaseException:
            discard(self.work.options)
            raise


async def _driver(options: SinkOptions) -> Driver:
    return Driver(options, await client_cache_for(options).calls())


class ExactlyOnceStreamWriter(_Planned, DataSourceStreamArrowWriter):
    """Streaming: each batch once, whichever process is killed."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        assert self.plan is not None
        query, batch = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(BATCH_PROPERTY)
        if query is None or batch is None:
            raise ValueError("exactly-once needs the batch number from Spark, and this task has none")
        return Message(write_exactly_once(self.work, self.plan, Number(query, int(batch)), iterator))

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        self.drive(self.driver().commit(reports_of(messages)))

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        self.drive(self.driver().abort(reports_of(messages)))


class ExactlyOnceWriter(_Planned, DataSourceArrowWriter):
    """Batch: all rows become visible, or none; with `batchId` also only once for each number."""

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        # For a write without a batch number.
        self.once = Number(SystemRandom().bytes(16).hex(), 0)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        assert self.plan is not None
        return Message(write_exactly_once(self.work, self.plan, self._number(), iterator))

    def _number(self) -> Number:
        batch_id = self.work.options.batch_id
        if batch_id is None:
            return self.once
        return number_of(batch_id, self.work.options.topic, TaskContext.get())

    def commit(self, messages: Messages) -> None:
        self.drive(self.driver().commit(reports_of(messages)))

    def abort(self, messages: Messages) -> None:
        self.drive(self.driver().abort(reports_of(messages)))


def number_of(batch_id: int, topic: str | None, context: TaskContext | None) -> Number:
    """Batch numbers restart with each checkpoint.  The query's id is in the checkpoint too, so it
    distinguishes the batches of a new checkpoint from those of the old one."""
    query = None if context is None else context.getLocalProperty(QUERY_PROPERTY)
    if context is None or query is None:
        return Number(BATCH_WRITES, batch_id, topic or "")
    run = context.getLocalProperty(RUN_PROPERTY) or ""
    # A job group that the user has set may have the same name in every run.
    return Number(query, batch_id, topic or "", run if _UUID.fullmatch(run) else "")


def reports_of(messages: Messages) -> list[Report | None]:
    return [None if message is None else cast("Message", message).report for message in messages]
