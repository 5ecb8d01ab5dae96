"""The exactly-once protocol against a broker, without Spark: every crash point, and what readers see.  #
M-I1"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from barnabas.batch.records import Record
from barnabas.client.admin.topics import NewTopic
from barnabas.client.consumer.consumer import Consumer
from barnabas.client.model import TopicPartition
from barnabas.client.options import producer_options
from barnabas.spark.sink.calls import SinkCalls
from barnabas.spark.sink.columns import SinkColumns, arrow_rows
from barnabas.spark.sink.decision import (
    BrokenPromiseError,
    Decision,
    OpenTransaction,
    Plan,
    Report,
    task_id,
)
from barnabas.spark.sink.driver import Driver
from barnabas.spark.sink.options import DRIVER_DEFAULTS, SinkOptions, sink_options
from barnabas.spark.sink.producer import TableProducer

PARTITIONS = 3
VALUE_ONLY = SinkColumns(0, None, None, None, None)
READ_PATIENCE_S = 120


class DiedError(Exception):
    """The driver was killed here."""


class MortalDriver(Driver):
    """Dies at a step."""

    dies_before = ""
    dies_after = ""

    def _die(self, here: bool) -> None:
        if here:
            raise DiedError

    async def decide(self, decision: Decision, producer: TableProducer) -> None:
        self._die(self.dies_before == "decide")
        await super().decide(decision, producer)
        self._die(self.dies_after == "decide")

    async def repair(
        self, decision: Decision, aborted: list[OpenTransaction], producer: TableProducer
    ) -> Decision:
        amended = await super().repair(decision, aborted, producer)
        self._die(self.dies_after == "repair")
        return amended

    async def _committed(
        self, producer: TableProducer, rows: Sequence[tuple[TopicPartition, Record]]
    ) -> None:
        if self.dies_before == "repair is committed":
            assert producer.transactions is not None
            producer.transactions.begin()
            for partition, record in rows:
                await producer.put(partition, record)
            await producer.flush()
            raise DiedError
        await super()._committed(producer, rows)

    async def end(self, decision: Decision) -> list[OpenTransaction]:
        if self.dies_before == "second end":
            await self._calls.end_all(decision.transactions[:1], committed=True, implicit=decision.implicit)
            raise DiedError
        closed = await super().end(decision)
        self._die(self.dies_after == "end")
        return closed


class Bench:
    """One sink, its output topic, and hands to play driver and tasks with."""

    def __init__(self, options: SinkOptions, calls: SinkCalls) -> None:
        assert options.topic is not None
        assert options.sink_id is not None
        self.options = options
        self.calls = calls
        self.topic = options.topic
        self.sink = options.sink_id

    def driver(self, *, dies_before: str = "", dies_after: str = "") -> MortalDriver:
        made = MortalDriver(self.options, self.calls)
        made.dies_before, made.dies_after = dies_before, dies_after
        return made

    async def task(self, plan: Plan, batch: int, number: int, values: list[str], attempt: int = 0) -> Report:
        """What a task does: rows into a transaction that stays open."""
        if plan.covers("q", batch):
            return Report(plan, "q", batch, None)
        name = task_id(self.sink, number, attempt)
        producer = TableProducer(producer_options(self.options.table_settings(name), {}), self.calls.cluster)
        assert producer.transactions is not None
        await producer.transactions.init(producer.deadline())
        producer.transactions.begin()
        table = pa.record_batch([pa.array([value.encode() for value in values], pa.binary())], ["value"])
        await producer.take(self.topic, arrow_rows(table, VALUE_ONLY))
        await producer.flush()
        await producer.close()
        return Report(plan, "q", batch, OpenTransaction(name, *producer.identity, producer.written))

    async def tasks(self, plan: Plan, batch: int, count: int) -> list[Report]:
        """A batch of twelve rows, cut in any number of tasks."""
        rows = [f"{batch}-{number}" for number in range(12)]
        return [await self.task(plan, batch, number, rows[number::count]) for number in range(count)]

    async def run(self, batch: int, count: int, driver: MortalDriver | None = None) -> None:
        driver = driver or self.driver()
        plan = await driver.plan()
        await driver.commit(await self.tasks(plan, batch, count))

    async def seen(self) -> Counter[str]:
        """What a reader of committed records sees, up to the very end."""
        results: Counter[str] = Counter()
        settings = {
            **self.options.kafka,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        parts = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        consumer = Consumer(settings)
        try:
            consumer.assign(parts)
            ends = await self._stable_ends(parts)
            async with asyncio.timeout(READ_PATIENCE_S):
                while any([await consumer.position(part) < ends[part] for part in parts]):
                    for one in await consumer.poll(timeout_ms=100):
                        assert isinstance(one.value, bytes)
                        results[one.value.decode()] += 1
        finally:
            await consumer.close()
        return results

    async def _stable_ends(self, parts: list[TopicPartition]) -> dict[TopicPartition, int]:
        """The ends of the partitions, once no transaction is open in them."""
        from barnabas.client.admin.records import IsolationLevel, OffsetSpec

        wanted: dict[TopicPartition, OffsetSpec | int] = dict.fromkeys(parts, OffsetSpec.LATEST)
        while True:
            ends = await self.calls.list_offsets(wanted)
            stable = await self.calls.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
            if all(ends[part].offset == stable[part].offset for part in parts):
                return {part: ends[part].offset for part in parts}
            await asyncio.sleep(0.05)

    def all_of(self, *batches: int) -> Counter[str]:
        return Counter(f"{batch}-{number}" for batch in batches for number in range(12))


Scene = Callable[[Bench], Coroutine[Any, Any, None]]


@asynccontextmanager
async def opened(bootstrap: str, name: str, more: Mapping[str, str]) -> AsyncIterator[Bench]:
    options = sink_options(
        {
            **more,
            "kafka.bootstrap.servers": bootstrap,
            "topic": name,
            "deliveryGuarantee": "exactly-once",
            "sinkId": name,
        }
    )
    calls = SinkCalls({**DRIVER_DEFAULTS, **options.kafka})
    try:
        (await calls.create_topics([NewTopic(name, num_partitions=PARTITIONS)])).raise_first()
        yield Bench(options, calls)
    finally:
        await calls.close()


def player(bootstrap: str, name: str, more: Mapping[str, str] | None = None) -> Callable[[Scene], None]:
    """Plays a scene at a broker, with a topic and a sink of that name, and perhaps more options."""

    def run(scene: Scene) -> None:
        async def played() -> None:
            async with opened(bootstrap, name, more or {}) as bench:
                await scene(bench)

        asyncio.run(played())

    return run


@pytest.fixture
def play(bootstrap: str, topic: str) -> Callable[[Scene], None]:
    return player(bootstrap, topic)


DEATHS = [("decide", ""), ("", "decide"), ("second end", ""), ("", "end")]


def test_batches_come_through(play: Callable[[Scene], None]) -> None:
    async def scene(bench: Bench) -> None:
        await bench.run(0, 2)
        await bench.run(1, 3)
        await bench.driver().commit(await bench.tasks(await bench.driver().plan(), 1, 2))
        assert await bench.seen() == bench.all_of(0, 1)

    play(scene)


@pytest.mark.parametrize(("before", "after"), DEATHS)
def test_a_batch_is_there_once_wherever_its_driver_dies(
    play: Callable[[Scene], None], before: str, after: str
) -> None:
    """The batch is run again with another number of tasks."""

    async def scene(bench: Bench) -> None:
        await bench.run(0, 4)
        with pytest.raises(DiedError):
            await bench.run(1, 4, bench.driver(dies_before=before, dies_after=after))
        await bench.run(1, 3)
        await bench.run(2, 2)
        assert await bench.seen() == bench.all_of(0, 1, 2)

    play(scene)


def test_rows_of_a_decided_transaction_that_was_aborted_are_written_again(
    play: Callable[[Scene], None],
) -> None:
    """As after transaction.timeout.ms: the coordinator aborts, though the batch is decided."""

    async def scene(bench: Bench) -> None:
        driver = bench.driver(dies_after="decide")
        reports = await bench.tasks(await driver.plan(), 0, 3)
        with pytest.raises(DiedError):
            await driver.commit(reports)
        aborted = reports[1].transaction
        assert aborted is not None
        await bench.calls.fence([aborted.transactional_id])
        for dying in (bench.driver(dies_before="repair is committed"), bench.driver(dies_after="repair")):
            with pytest.raises(DiedError):
                await dying.plan()
        plan = await bench.driver().plan()
        assert plan.covers("q", 0)
        assert await bench.seen() == bench.all_of(0)
        await bench.run(1, 2)
        assert await bench.seen() == bench.all_of(0, 1)

    play(scene)


def test_a_driver_that_was_replaced_can_decide_nothing(play: Callable[[Scene], None]) -> None:
    async def scene(bench: Bench) -> None:
        zombie = bench.driver()
        late = await bench.tasks(await zombie.plan(), 0, 2)
        plan = await bench.driver().plan()
        with pytest.raises(BrokenPromiseError, match="no longer open"):
            await zombie.commit(late)
        # Its tasks wrote after the sweep: now only the fence holds it.
        late = [
            await bench.task(late[0].plan, 0, number, [f"zombie-{number}"], attempt=1) for number in range(2)
        ]
        with pytest.raises(BrokenPromiseError, match="another driver has taken the sink"):
            await zombie.commit(late)
        await bench.driver().commit(await bench.tasks(plan, 0, 3))
        assert await bench.seen() == bench.all_of(0)

    play(scene)


def test_transactions_of_speculation_and_lost_tasks_are_swept(play: Callable[[Scene], None]) -> None:
    async def scene(bench: Bench) -> None:
        driver = bench.driver()
        plan = await driver.plan()
        await bench.task(plan, 0, 0, ["loser"], attempt=1)
        await driver.commit(await bench.tasks(plan, 0, 2))
        assert await bench.calls.ongoing(bench.sink) == []
        assert await bench.seen() == bench.all_of(0)

    play(scene)


def test_an_abandoned_batch_leaves_nothing(play: Callable[[Scene], None]) -> None:
    async def scene(bench: Bench) -> None:
        driver = bench.driver()
        reports = await bench.tasks(await driver.plan(), 0, 2)
        await driver.abort(reports)
        assert len(await bench.calls.ongoing(bench.sink)) == 2, "commit() may have decided"
        await driver.abort([*reports, None])
        assert await bench.calls.ongoing(bench.sink) == []
        await bench.run(0, 3)
        assert await bench.seen() == bench.all_of(0)

    play(scene)


def test_the_last_decision_is_found_behind_those_of_many_others(play: Callable[[Scene], None]) -> None:
    async def scene(bench: Bench) -> None:
        await bench.run(0, 1)
        other = SinkOptions(bench.options.kafka, bench.topic, f"{bench.sink}-other")
        driver = Driver(other, bench.calls)
        for batch in range(40):
            plan = await driver.plan()
            report = await bench.task(plan, batch, 0, ["other"], attempt=9)
            await driver.commit([report])
        plan = await bench.driver().plan()
        assert plan.covers("q", 0)
        assert not plan.covers("q", 1)

    play(scene)


@pytest.mark.parametrize(
    ("partitions", "policy", "wrong"),
    [
        (2, "compact", "it has 2 partitions and must have one"),
        (1, "delete", "its cleanup.policy is delete and must be compact"),
        (1, "compact,delete", "its cleanup.policy is compact,delete and must be compact"),
    ],
)
def test_a_topic_that_would_lose_decisions_is_refused(
    bootstrap: str, topic: str, partitions: int, policy: str, wrong: str
) -> None:
    control = f"{topic}-control"

    async def scene(bench: Bench) -> None:
        new = NewTopic(control, num_partitions=partitions, configs={"cleanup.policy": policy})
        (await bench.calls.create_topics([new])).raise_first()
        with pytest.raises(BrokenPromiseError, match=wrong):
            await bench.driver().plan()

    player(bootstrap, topic, {"controlTopic": control})(scene)
