"""A streaming query with the exactly-once sink that kills somebody at a chosen moment; run as a program.

Spark's own processes import this module by its name, so that its folder must be on PYTHONPATH.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.spark.data_source import BarnabasDataSource
from barnabas.spark.sink.decision import Decision, OpenTransaction
from barnabas.spark.sink.driver import Driver
from barnabas.spark.sink.producer import TableProducer
from barnabas.spark.sink.writers import ExactlyOnceStreamWriter, Messages

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage
    from pyspark.sql.types import StructType

# Moments of the driver's processes, then of a task's.
DRIVER_MOMENTS = (
    "before-fence",
    "fenced",
    "settled",
    "planned",
    "before-verify",
    "before-decide",
    "decided",
    "half-ended",
    "ended",
    "committed",
)
TASK_MOMENTS = ("rows-read", "rows-written")
# Not the first batch: something is to be there already.
HIT = 2
# Options of the killer.
KILLERS = ("kill.moment", "kill.victims", "kill.folder")


class Killer:
    """Kills at the second time that its moment comes in a query's life."""

    def __init__(self, moment: str, victims: str, folder: str) -> None:
        self._moment = moment
        self._victims = victims
        self._folder = folder

    def at(self, moment: str) -> None:
        if moment != self._moment:
            return
        hits = Path(self._folder, "hits")
        with hits.open("a") as out:
            out.write(".")
        if hits.stat().st_size == HIT:
            Path(self._folder, "killed").write_text(moment, "utf-8")
            for victim in self._victims.split(","):
                os.kill(os.getpid() if victim == "self" else int(victim), signal.SIGKILL)


class KillingDriver(Driver):
    """The driver's steps, with moments between them."""

    killer: Killer

    async def fence(self, producer: TableProducer) -> None:
        self.killer.at("before-fence")
        await super().fence(producer)
        self.killer.at("fenced")

    async def sweep(self) -> None:
        self.killer.at("settled")
        await super().sweep()

    async def verify(self, decision: Decision) -> None:
        self.killer.at("before-verify")
        await super().verify(decision)

    async def decide(self, decision: Decision, producer: TableProducer) -> None:
        self.killer.at("before-decide")
        await super().decide(decision, producer)
        self.killer.at("decided")

    async def end(self, decision: Decision) -> list[OpenTransaction]:
        half = decision.transactions[: (len(decision.transactions) + 1) // 2]
        await self._calls.end_all(half, committed=True, implicit=decision.implicit)
        self.killer.at("half-ended")
        closed = await super().end(decision)
        self.killer.at("ended")
        return closed


class KillingWriter(ExactlyOnceStreamWriter):
    """The sink, with a killer in its ranks."""

    killer: Killer

    def __getstate__(self) -> dict[str, Any]:
        is_new = self.plan is None
        state = super().__getstate__()
        if is_new:
            self.killer.at("planned")
        return state

    def driver(self) -> Driver:
        made = super().driver()
        made.__class__ = KillingDriver
        assert isinstance(made, KillingDriver)
        made.killer = self.killer
        return made

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        def watched() -> Iterator[pa.RecordBatch]:
            for batch in iterator:
                yield batch
                self.killer.at("rows-read")

        message = super().write(watched())
        self.killer.at("rows-written")
        return message

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        super().commit(messages, batchId)
        self.killer.at("committed")


class KillingDataSource(BarnabasDataSource):
    @classmethod
    def name(cls) -> str:
        return "killing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> KillingWriter:  # noqa: N802 - Spark's name
        # The sink itself refuses options that it does not know.
        known = {name: value for name, value in self.options.items() if name not in KILLERS}
        plain = BarnabasDataSource(known).streamWriter(schema, overwrite)
        assert isinstance(plain, ExactlyOnceStreamWriter)
        made = KillingWriter(plain.work)
        made.killer = Killer(*(self.options[name] for name in KILLERS))
        return made


def main(bootstrap: str, folder: str, tasks: str, moment: str, victims: str) -> None:
    """Write all lines under `folder`/in to the topic `out`, one file a batch, by a number of tasks."""
    from barnabas.spark import session

    spark = session("kills", "local[2,4]")
    # Not as a class of __main__, which Spark's processes could not import.
    spark.dataSource.register(import_module("spark_kills").KillingDataSource)
    if victims == "driver":
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        victims = f"{gateway.proc.pid},{os.getpid()}"
    query = (
        spark.readStream.option("maxFilesPerTrigger", 1)
        .text(f"{folder}/in")
        .repartition(int(tasks))
        .writeStream.format("killing")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", "out")
        .option("deliveryGuarantee", "exactly-once")
        .option("sinkId", "kills")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .option("kill.moment", moment)
        .option("kill.victims", victims)
        .option("kill.folder", folder)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
