"""The driver's part of exactly-once: fence, settle and sweep before a batch; decide and end after it.

The choices belong in `decision`, the requests in `calls`.  Each step is a method, so that tests can end the
process between any two of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.records import Record
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.client.model import TopicPartition
from barnabas.client.options import producer_options
from barnabas.runtime.clock import SystemClock
from barnabas.spark.sink.calls import SinkCalls
from barnabas.spark.sink.decision import (
    BrokenPromiseError,
    Decision,
    Ending,
    OpenTransaction,
    Plan,
    Report,
    decide,
    decode,
    driver_id,
    encode,
    ending,
    to_abort,
    to_sweep,
    unfit,
)
from barnabas.spark.sink.log_reading import Fate, fate_of, newest_committed, rows_of
from barnabas.spark.sink.options import SinkOptions
from barnabas.spark.sink.producer import TableProducer

# The pause before the log is read again for the outcome of a transaction.
LOOK_AGAIN_S = 0.1
_FENCED = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


class Driver:
    """The driver of one sink."""

    def __init__(self, options: SinkOptions, calls: SinkCalls) -> None:
        assert options.sink_id is not None
        self._sink = options.sink_id
        self._calls = calls
        self._control = TopicPartition(options.control_topic, 0)
        self._settings = producer_options(options.driver_settings(driver_id(self._sink)), {})

    # ----------------------------------------------------------------------------------------- before a batch

    async def plan(self) -> Plan:
        """Take over the sink, complete the last decision, and abort orphaned transactions."""
        await self._calls.ensure_control_topic(self._control.topic)
        producer = TableProducer(self._settings, self._calls.cluster)
        try:
            await self.fence(producer)
            decision = await self.last_decision()
            if decision is not None:
                decision = await self.settle(decision, producer)
            await self.sweep()
            assert producer.transactions is not None
            implicit = producer.transactions.is_implicit
            decided = None if decision is None else decision.without(decision.transactions)
            return Plan(self._sink, *producer.identity, implicit, decided)
        finally:
            await producer.close()

    async def fence(self, producer: TableProducer) -> None:
        """From here on no older driver of this sink can decide anything, and it has no open transaction."""
        assert producer.transactions is not None
        await producer.transactions.init(self._calls.deadline())

    async def last_decision(self) -> Decision | None:
        record = await newest_committed(self._calls, self._control, self._sink.encode())
        return None if record is None else decode(record.value, self._sink)

    async def settle(self, decision: Decision, producer: TableProducer) -> Decision:
        """Complete a decision: commit open transactions, and write the rows of aborted ones again."""
        seen = await self._calls.seen([transaction.transactional_id for transaction in decision.transactions])
        endings = {
            transaction: ending(
                transaction, seen.get(transaction.transactional_id), implicit=decision.implicit
            )
            for transaction in decision.transactions
        }
        to_commit = [transaction for transaction, end in endings.items() if end is Ending.COMMIT]
        to_look = [transaction for transaction, end in endings.items() if end is Ending.LOOK]
        to_look += await self._calls.end_all(to_commit, committed=True, implicit=decision.implicit)
        aborted = [transaction for transaction in to_look if await self.fate(transaction) is Fate.ABORTED]
        return await self.repair(decision, aborted, producer) if aborted else decision

    async def fate(self, open_transaction: OpenTransaction) -> Fate:
        """Return the outcome of a decided transaction; waits for markers that are being written."""
        deadline = self._calls.deadline()
        while True:
            fate = await fate_of(self._calls, open_transaction)
            if fate is not Fate.OPEN:
                return fate
            if deadline.passed:
                raise KafkaTimeoutError(
                    f"the outcome of the transaction {open_transaction.transactional_id} is not known yet: "
                    "another open "
                    "transaction precedes it in its partition; try again when that one has ended"
                )
            await asyncio.sleep(LOOK_AGAIN_S)

    async def repair(
        self, decision: Decision, aborted: list[OpenTransaction], producer: TableProducer
    ) -> Decision:
        """Write the rows of aborted transactions again, in one transaction with an amended decision without
        them: so this happens once, whichever process is killed."""
        amended = decision.without(aborted)
        rows = [row for open_transaction in aborted for row in await rows_of(self._calls, open_transaction)]
        await self._committed(producer, [*rows, self._control_row(amended)])
        return amended

    async def sweep(self) -> None:
        await self._calls.fence(to_sweep(self._sink, await self._calls.ongoing(self._sink)))

    # ------------------------------------------------------------------------------------------ after a batch

    async def commit(self, reports: Sequence[Report | None]) -> None:
        """Decide on a batch and make it visible."""
        decided = decide(reports)
        if decided is None:
            return
        plan, decision = decided
        try:
            await self.verify(decision)
        except BrokenPromiseError:
            # Nothing was or will be decided: readers need not wait for the open transactions.
            await self._calls.end_all(decision.transactions, committed=False, implicit=decision.implicit)
            raise
        producer = TableProducer(self._settings, self._calls.cluster)
        try:
            assert producer.transactions is not None
            producer.transactions.adopt((plan.producer_id, plan.producer_epoch), implicit=plan.implicit)
            await self.decide(decision, producer)
            if await self.end(decision):
                await self.settle(decision, producer)
            await self.sweep()
        finally:
            await producer.close()

    async def verify(self, decision: Decision) -> None:
        """Check that the decision can be kept: every transaction is open, as its task left it."""
        seen = await self._calls.seen([transaction.transactional_id for transaction in decision.transactions])
        lost = unfit(decision, seen)
        if lost:
            raise BrokenPromiseError(
                f"batch {decision.batch} cannot be committed and must be run again: "
                f"{len(lost)} of its {len(decision.transactions)} transactions are no longer open "
                f"({lost[0]} is one). Either it took longer than kafka.transaction.timeout.ms, or another "
                f"query has the sinkId {self._sink}"
            )

    async def decide(self, decision: Decision, producer: TableProducer) -> None:
        """From here on the batch is in the output, whatever happens."""
        try:
            await self._committed(producer, [self._control_row(decision)])
        except KafkaError as error:
            if error.code not in _FENCED:
                raise
            raise BrokenPromiseError(
                f"batch {decision.batch} is not committed: another driver has taken the sink {self._sink} "
                "over since the batch began. If that is another query, give it another sinkId"
            ) from error

    async def end(self, decision: Decision) -> list[OpenTransaction]:
        """Commit the tasks' transactions; returns those that are no longer open."""
        return await self._calls.end_all(decision.transactions, committed=True, implicit=decision.implicit)

    async def abort(self, reports: Sequence[Report | None]) -> None:
        """Called when Spark abandons the batch."""
        for report in reports:
            if report is not None:
                await self._calls.end_all(to_abort(reports), committed=False, implicit=report.plan.implicit)
                return

    # ------------------------------------------------------------------------------------------------ helpers

    def _control_row(self, decision: Decision) -> tuple[TopicPartition, Record]:
        value = encode(decision)
        return self._control, Record(0, SystemClock().wall_ms(), self._sink.encode(), value)

    async def _committed(
        self, producer: TableProducer, rows: Sequence[tuple[TopicPartition, Record]]
    ) -> None:
        """Write rows in one transaction of the driver."""
        transactions = producer.transactions
        assert transactions is not None
        transactions.begin()
        for partition, record in rows:
            await producer.put(partition, record)
        await producer.flush()
        await transactions.commit(self._calls.deadline())
