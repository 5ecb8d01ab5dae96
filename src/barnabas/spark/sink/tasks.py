"""A task's part: the rows of one DataFrame partition, written to topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext

from barnabas.base.errors import KafkaError
from barnabas.client.admin.transactions import TransactionCalls
from barnabas.client.options import admin_options
from barnabas.spark.sink.client_cache import ClientCache, client_cache_for, discard
from barnabas.spark.sink.columns import SinkColumns, rows_by_topic
from barnabas.spark.sink.decision import (
    MAX_SPARE_IDS,
    BrokenPromiseError,
    OpenTransaction,
    Plan,
    Report,
    task_id,
)
from barnabas.spark.sink.options import SinkOptions
from barnabas.spark.sink.producer import TableProducer
from barnabas.spark.worker_process import settle

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Number:
    """The batch and query of a write, and for batch writes with a `batchId` also the topic and the run of the
    query."""

    query: str
    batch: int
    topic: str = ""
    run: str = ""

    def report(self, plan: Plan, transaction: OpenTransaction | None) -> Report:
        return Report(plan, self.query, self.batch, transaction, self.topic, self.run)


@dataclass(frozen=True, slots=True)
class Work:
    """What every task of a write needs."""

    options: SinkOptions
    columns: SinkColumns


def write_at_least_once(work: Work, batches: Iterator[pa.RecordBatch]) -> None:
    """Write all rows; an earlier attempt may have written them already."""
    settle()
    client_cache = client_cache_for(work.options)
    try:
        producer = client_cache.run(client_cache.producer())
        _take_all(client_cache, producer, work, batches)
        client_cache.run(producer.flush())
    except BaseException:
        discard(work.options)
        raise


def write_exactly_once(work: Work, plan: Plan, number: Number, batches: Iterator[pa.RecordBatch]) -> Report:
    """Write all rows in a transaction that stays open, unless the batch is in the output already."""
    settle()
    context = TaskContext.get()
    assert context is not None
    nothing = number.report(plan, None)
    if plan.covers(number.query, number.batch):
        assert plan.decided is not None
        if number.batch == plan.decided.batch:
            plan.decided.check_repeat(plan.sink, number.topic, number.run)
        # Spark requires that all rows are consumed.
        for _ in batches:
            pass
        return nothing
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return nothing
    client_cache = client_cache_for(work.options)
    try:
        transactional_id = client_cache.run(_free_id(client_cache, work, plan.sink, context))
        producer = client_cache.run(client_cache.transactional(transactional_id))
        try:
            return number.report(
                plan, _written(client_cache, producer, work, transactional_id, first, batches)
            )
        finally:
            client_cache.run(producer.close())
    except BaseException:
        discard(work.options)
        raise


def _written(
    client_cache: ClientCache,
    producer: TableProducer,
    work: Work,
    transactional_id: str,
    first: pa.RecordBatch,
    rest: Iterator[pa.RecordBatch],
) -> OpenTransaction:
    transactions = producer.transactions
    assert transactions is not None

    async def begin() -> None:
        await transactions.init(producer.deadline())
        transactions.begin()

    client_cache.run(begin())
    try:
        _take_all(client_cache, producer, work, iter((first,)))
        _take_all(client_cache, producer, work, rest)
        client_cache.run(producer.flush())
        if any(written.first < 0 for written in producer.written):
            raise BrokenPromiseError(
                "a broker did not return the offsets of rows: the task must be run again"
            )
    except Exception:
        # These rows are not needed.  If this fails too, the next sweep aborts them.
        with suppress(KafkaError):
            client_cache.run(producer.give_up())
        raise
    return OpenTransaction(transactional_id, *producer.identity, producer.written)


def _take_all(
    client_cache: ClientCache, producer: TableProducer, work: Work, batches: Iterator[pa.RecordBatch]
) -> None:
    for batch in batches:
        for topic, rows in rows_by_topic(batch, work.columns, work.options.topic):
            client_cache.run(producer.take(topic, rows))


async def _free_id(client_cache: ClientCache, work: Work, sink: str, context: TaskContext) -> str:
    """Return a transactional id that no other attempt uses: taking one over would abort its rows."""
    cluster = await client_cache.cluster()
    calls = TransactionCalls(admin_options(work.options.kafka, {}), cluster)
    names = [
        task_id(sink, context.partitionId(), context.attemptNumber(), spare) for spare in range(MAX_SPARE_IDS)
    ]
    described = await calls.describe_transactions(names[:1])
    if _is_free(described.values_by_key.get(names[0])):
        return names[0]
    described = await calls.describe_transactions(names)
    for name in names:
        if _is_free(described.values_by_key.get(name)):
            return name
    raise BrokenPromiseError(
        f"all transactional ids from {names[0]} to {names[-1]} have transactions open: is another query "
        f"running with the sinkId {sink}?"
    )


def _is_free(described: object) -> bool:
    return getattr(described, "state", None) not in ("Ongoing", "PrepareCommit", "PrepareAbort")
