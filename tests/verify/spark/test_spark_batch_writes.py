"""Batch writes with a number, out of a streaming query: nothing is skipped that was not written.  # M-I1"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.client.admin.topics import NewTopic
from barnabas.client.model import TopicPartition
from barnabas.client.sync import Admin, Consumer
from tests.clients.conftest import start_dev

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPICS = ("raw", "checked")
ROWS = 5


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    process, place = start_dev(tmp_path)
    with Admin(bootstrap_servers=place) as admin:
        admin.create_topics([NewTopic(name, 1, 1) for name in TOPICS]).raise_first()
    yield place
    process.terminate()
    process.wait(60)
    assert process.stdout is not None
    process.stdout.close()


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    from barnabas.spark import session

    made = session("batch writes", "local[2]")
    yield made
    made.stop()


def counted(bootstrap: str, topic: str) -> Counter[bytes]:
    where = TopicPartition(topic, 0)
    found: Counter[bytes] = Counter()
    with Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        end = consumer.end_offsets([where])[where]
        while consumer.position(where) < end:
            found.update(bytes(record.value) for record in consumer.poll(timeout_ms=500))
    return found


class Job:
    """A query over files that writes each batch to some topics, as the how-to shows it."""

    def __init__(self, spark: SparkSession, bootstrap: str, folder: Path) -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._folder = folder
        (folder / "in").mkdir()

    def add(self, batch: int) -> None:
        lines = [f"{batch}-{number}" for number in range(ROWS)]
        (self._folder / "in" / f"{batch}.txt").write_text("\n".join(lines), "utf-8")

    def run(self, checkpoint: str, sinks: dict[str, str]) -> None:
        def write(frame: DataFrame, batch: int) -> None:
            for topic, sink in sinks.items():
                (
                    frame.write.format("barnabas")
                    .option("kafka.bootstrap.servers", self._bootstrap)
                    .option("topic", topic)
                    .option("deliveryGuarantee", "exactly-once")
                    .option("sinkId", sink)
                    .option("batchId", batch)
                    .mode("append")
                    .save()
                )

        (
            self._spark.readStream.text(str(self._folder / "in"))
            .writeStream.foreachBatch(write)
            .option("checkpointLocation", str(self._folder / checkpoint))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )


def test_a_new_checkpoint_skips_nothing_and_a_repeat_is_skipped(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    job = Job(spark, bootstrap, tmp_path)
    apart = {topic: f"both-{topic}" for topic in TOPICS}
    for batch in range(2):
        job.add(batch)
        job.run("old", apart)
    # As if the driver had died before Spark wrote down that the last batch is done.
    for name in ("1", ".1.crc"):
        (tmp_path / "old" / "commits" / name).unlink(missing_ok=True)
    job.run("old", apart)
    once = Counter(f"{batch}-{number}".encode() for batch in range(2) for number in range(ROWS))
    assert counted(bootstrap, "raw") == counted(bootstrap, "checked") == once
    # Its first batch has the number of one that the sink has written.
    job.run("new", apart)
    assert counted(bootstrap, "raw") == counted(bootstrap, "checked") == once + once


def test_two_writes_of_a_batch_with_one_sink_id_are_refused(
    spark: SparkSession, bootstrap: str, tmp_path: Path
) -> None:
    from pyspark.errors import StreamingQueryException

    job = Job(spark, bootstrap, tmp_path)
    job.add(0)
    for _ in range(2):
        with pytest.raises(StreamingQueryException, match="give each write in a batch a sinkId of its own"):
            job.run("checkpoint", dict.fromkeys(TOPICS, "same"))
    job.run("checkpoint", {"raw": "same", "checked": "another"})
    assert len(counted(bootstrap, "raw")) == len(counted(bootstrap, "checked")) == ROWS
