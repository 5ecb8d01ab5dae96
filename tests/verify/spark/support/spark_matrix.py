"""Reads topics by Spark's own Kafka connector and by ours, and reports where the rows differ.

A program of its own, so that the connector's jars are in its JVM and in no other:

    python -m tests.verify.spark.support.spark_matrix BOOTSTRAP JARS FOLDER OUT.json
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from barnabas.client import NewTopic, TopicPartition
from barnabas.client.sync import Admin, Consumer, Producer
from barnabas.spark import session
from tests.spark.topics import finished

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
# Some minutes ago: brokers refuse times of the future.
BASE_MS = int(time.time()) * 1000 - 600_000
COMPACTION_PATIENCE_S = 240
ROWS = 60
Options = dict[str, str]


class Filler:
    """Topics with everything that records can have."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def fill(self) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            compaction = {
                "cleanup.policy": "compact",
                "segment.ms": "100",
                "min.cleanable.dirty.ratio": "0.01",
                "min.compaction.lag.ms": "0",
            }
            topics = [NewTopic(f"codec-{codec}", 3) for codec in CODECS]
            topics += [NewTopic("txn", 2), NewTopic("deleted", 1), NewTopic("empty", 2)]
            topics += [NewTopic("compacted", 1, configs=compaction)]
            topics += [NewTopic("appended", 1, configs={"message.timestamp.type": "LogAppendTime"})]
            admin.create_topics(topics).raise_first()
        for codec in CODECS:
            self.various(f"codec-{codec}", codec, partitions=3)
        self.various("appended", "none", partitions=1)
        self.transactions()
        self.compacted()
        self.deleted()

    def various(self, topic: str, codec: str, partitions: int) -> None:
        """Nulls, empty ones, headers of all kinds, times that do not grow."""
        with Producer(bootstrap_servers=self.bootstrap, compression_type=codec, linger_ms=20) as producer:
            for number in range(ROWS):
                headers: tuple[tuple[str, bytes | None], ...] = ()
                if number % 3 == 0:
                    headers = (("h", b"%d" % number), ("h", None), ("", b""), ("größe", bytes(range(256))))
                producer.send(
                    topic,
                    None if number % 5 == 0 else b"" if number % 7 == 0 else b"value-%d-" % number * 9,
                    key=None if number % 4 == 0 else b"" if number % 6 == 0 else b"k%d" % number,
                    partition=number % partitions,
                    headers=headers,
                    timestamp_ms=BASE_MS + (number * 37 % ROWS) * 1000,
                )
            producer.flush()

    def transactions(self) -> None:
        """Committed, aborted, interleaved, and one that stays open."""
        producers = [
            Producer(bootstrap_servers=self.bootstrap, transactional_id=f"matrix-{number}")
            for number in (1, 2)
        ]
        for producer in producers:
            producer.init_transactions()
        for number in range(6):
            for who, producer in enumerate(producers):
                producer.begin_transaction()
                for partition in (0, 1):
                    producer.send("txn", b"%d-%d" % (who, number), partition=partition).result(60)
            for who, producer in enumerate(producers):
                if (number + who) % 3 == 0:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
        producers[0].begin_transaction()
        producers[0].send("txn", b"open", partition=0).result(60)
        # Its connection ends, and the transaction stays open.
        self._kept_open = producers

    def compacted(self) -> None:
        for part in range(15):
            with Producer(bootstrap_servers=self.bootstrap) as producer:
                for number in range(part * 20, part * 20 + 20):
                    value = None if number % 50 == 49 else b"v%d" % number * 5
                    key = b"k%d" % (number % 10) if number % 7 else b"once-%d" % number
                    producer.send("compacted", value, key=key, partition=0)
                producer.flush()
            # Long enough for a new segment; the active one is never compacted.
            time.sleep(0.3)
        until = time.monotonic() + COMPACTION_PATIENCE_S
        while self._count("compacted") > 200:
            assert time.monotonic() < until, "the topic was not compacted"
            time.sleep(1)

    def _count(self, topic: str) -> int:
        where = TopicPartition(topic, 0)
        with Consumer(bootstrap_servers=self.bootstrap) as consumer:
            consumer.assign([where])
            consumer.seek_to_beginning(where)
            end, seen = consumer.end_offsets([where])[where], 0
            while consumer.position(where) < end:
                seen += len(consumer.poll(timeout_ms=1000))
        return seen

    def deleted(self) -> None:
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for number in range(50):
                producer.send("deleted", b"%d" % number, partition=0)
            producer.flush()
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.delete_records({TopicPartition("deleted", 0): 17}).raise_first()

    def close(self) -> None:
        self._kept_open[0].abort_transaction()
        for producer in self._kept_open:
            producer.close()


def offsets(topic: str, *each: int) -> str:
    return json.dumps({topic: {str(partition): offset for partition, offset in enumerate(each)}})


def times_of(topic: str, *seconds: int) -> str:
    """For each partition a time, as the delay after the first."""
    return offsets(topic, *(BASE_MS + one * 1000 for one in seconds))


def batch_cases() -> Iterator[tuple[str, Options]]:
    """Names and options of reads."""
    for codec in CODECS:
        yield f"codec {codec}", {"subscribe": f"codec-{codec}", "includeHeaders": "true"}
    for level in ("read_uncommitted", "read_committed"):
        yield f"transactions {level}", {"subscribe": "txn", "kafka.isolation.level": level}
        yield f"compacted {level}", {"subscribe": "compacted", "kafka.isolation.level": level}
    yield "append time", {"subscribe": "appended"}
    yield "empty", {"subscribe": "empty"}
    yield "several", {"subscribe": "codec-none, codec-zstd,txn"}
    yield "pattern", {"subscribePattern": "codec-(lz4|gz).*"}
    # Whether it must match the whole name or is only to be found in it: of these names it matches a part.
    yield "pattern in the middle of names", {"subscribePattern": "dec-(lz|gz)"}
    yield "pattern at the beginning of names", {"subscribePattern": "^codec-z"}
    yield "pattern that begins no name", {"subscribePattern": "^odec"}
    yield "assign", {"assign": '{"codec-none": [0, 2], "txn": [1]}'}
    three = "codec-none"
    yield (
        "offsets",
        {
            "subscribe": three,
            "startingOffsets": offsets(three, 3, -2, 20),
            "endingOffsets": offsets(three, -1, 7, 20),
        },
    )
    yield (
        "offsets within transactions",
        {
            "subscribe": "txn",
            "kafka.isolation.level": "read_committed",
            "startingOffsets": offsets("txn", 5, 4),
            "endingOffsets": offsets("txn", 13, 11),
        },
    )
    yield (
        "offsets in a gap of compaction",
        {
            "subscribe": "compacted",
            "startingOffsets": offsets("compacted", 3),
            "endingOffsets": offsets("compacted", 250),
        },
    )
    yield (
        "times by partition",
        {"subscribe": three, "startingOffsetsByTimestamp": times_of(three, 0, 9, 18)},
    )
    yield (
        "one time",
        {
            "subscribe": three,
            "startingTimestamp": str(BASE_MS + 20_000),
            "endingTimestamp": str(BASE_MS + 50_000),
        },
    )
    yield "an end by time", {"subscribe": three, "endingTimestamp": str(BASE_MS + 30_000)}
    yield "an end after all", {"subscribe": three, "endingTimestamp": str(BASE_MS + 10**7)}
    yield "an end before all", {"subscribe": three, "endingTimestamp": str(BASE_MS - 1000)}
    # Records after the time, none after it, none before it.
    ends = times_of(three, 20, 10**4, -1)
    yield "ends by partition", {"subscribe": three, "endingOffsetsByTimestamp": ends}
    yield (
        "starts and ends by partition",
        {
            "subscribe": three,
            "startingOffsetsByTimestamp": times_of(three, 5, 10, 0),
            "endingOffsetsByTimestamp": times_of(three, 20, 10**4, 40),
        },
    )
    yield (
        "ends by partition within transactions",
        {
            "subscribe": "txn",
            "kafka.isolation.level": "read_committed",
            "endingOffsetsByTimestamp": times_of("txn", 10**4, 10**4),
        },
    )
    yield (
        "a time after all",
        {
            "subscribe": three,
            "startingTimestamp": str(BASE_MS + 10**7),
            "startingOffsetsByTimestampStrategy": "latest",
        },
    )
    yield "more tasks", {"subscribe": f"{three},codec-gzip", "minPartitions": "11"}
    yield "few records a task", {"subscribe": "txn", "maxRecordsPerPartition": "7"}
    removed = {"subscribe": "deleted", "startingOffsets": offsets("deleted", 2)}
    yield "deleted records passed over", {**removed, "failOnDataLoss": "false"}
    yield "deleted records", removed
    yield "from the beginning that moved", {"subscribe": "deleted"}
    yield "unknown topic", {"subscribe": "nobody-made-this"}
    yield "a partition not named", {"subscribe": three, "startingOffsets": offsets(three, 1)}
    yield "a time after all is an error", {"subscribe": three, "startingTimestamp": str(BASE_MS + 10**7)}
    yield "an end not named", {"subscribe": three, "endingOffsetsByTimestamp": times_of(three, 20)}
    yield (
        "an end before its start",
        {
            "subscribe": three,
            "startingOffsetsByTimestamp": times_of(three, 30, 0, 0),
            "endingOffsetsByTimestamp": times_of(three, 20, 20, 20),
        },
    )
    missing = {"assign": '{"codec-none": [0, 7]}'}
    yield "a partition that is not there", missing
    yield "a partition that is not there passed over", {**missing, "failOnDataLoss": "false"}
    yield "a topic of the brokers' own", {"subscribe": "codec-none,__transaction_state"}


def read_all(spark: SparkSession, kind: str, bootstrap: str, options: Options) -> list[Any] | str:
    """Rows by place; or that it failed."""
    given = {"kafka.bootstrap.servers": bootstrap, **options}
    try:
        rows = spark.read.format(kind).options(**given).load().collect()
    except Exception as error:
        return f"failed: {str(error)[-3000:]}"
    return sorted(
        (plain(row) for row in rows), key=lambda row: (row["topic"], row["partition"], row["offset"])
    )


def plain(row: Any) -> dict[str, Any]:
    found = row.asDict(recursive=True)
    found["timestamp"] = str(found["timestamp"])
    return {name: comparable(value) for name, value in found.items()}


def comparable(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, list):
        return [{name: comparable(content) for name, content in one.items()} for one in value]
    return value


def stream_batches(
    spark: SparkSession, kind: str, bootstrap: str, options: Options, checkpoint: Path
) -> list[Any]:
    """The rows of each micro-batch, and the offsets that its checkpoint has."""
    given = {"kafka.bootstrap.servers": bootstrap, **options}
    seen: list[Any] = []

    def write(frame: DataFrame, number: int) -> None:
        rows = sorted((row.topic, row.partition, row.offset) for row in frame.collect())
        seen.append(rows)

    frame = spark.readStream.format(kind).options(**given).load()
    finished(
        frame.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start
    )
    logged = [
        json.loads((checkpoint / "offsets" / str(number)).read_text("utf-8").splitlines()[-1])
        for number in range(len(seen))
    ]
    return [seen, logged]


def stream_cases() -> Iterator[tuple[str, Options]]:
    everything = {"startingOffsets": "earliest"}
    yield "stream of batches", {**everything, "subscribe": "codec-none", "maxOffsetsPerTrigger": "25"}
    yield "stream of a pattern", {**everything, "subscribePattern": "codec-.*", "maxOffsetsPerTrigger": "100"}
    yield (
        "stream of transactions",
        {
            **everything,
            "subscribe": "txn",
            "kafka.isolation.level": "read_committed",
            "maxOffsetsPerTrigger": "10",
        },
    )
    yield (
        "stream of a compacted topic",
        {**everything, "subscribe": "compacted", "maxOffsetsPerTrigger": "90"},
    )
    yield (
        "stream past deleted records",
        {
            "subscribe": "deleted",
            "startingOffsets": offsets("deleted", 2),
            "failOnDataLoss": "false",
        },
    )


def counted(found: Any) -> int:
    return -1 if isinstance(found, str) else len(found)


def difference(theirs: Any, ours: Any) -> str:
    if isinstance(theirs, str) or isinstance(ours, str):
        both_failed = isinstance(theirs, str) and isinstance(ours, str)
        return "" if both_failed else f"theirs: {str(theirs)[:300]}; ours: {str(ours)[:300]}"
    if theirs == ours:
        return ""
    for number, (one, other) in enumerate(zip(theirs, ours, strict=False)):
        if one != other:
            return f"{len(theirs)} and {len(ours)} rows; row {number}: theirs {one}; ours {other}"[:2000]
    return f"theirs has {len(theirs)} rows, ours {len(ours)}"


def main(bootstrap: str, jars: str, folder: str, out: str) -> None:
    filler = Filler(bootstrap)
    filler.fill()
    settings: dict[str, Any] = {"spark.jars": jars, "spark.sql.shuffle.partitions": 2}
    spark = session("matrix", "local[2]", **settings)
    found: dict[str, dict[str, Any]] = {}

    def compare(name: str, read: Callable[[str], Any]) -> None:
        theirs, ours = read("kafka"), read("barnabas")
        said = ours if isinstance(ours, str) else ""
        found[name] = {
            "rows": counted(ours),
            "theirs": counted(theirs),
            "difference": difference(theirs, ours),
            "said": said,
        }

    def read_batch(options: Any, kind: str) -> Any:
        return read_all(spark, kind, bootstrap, options)

    def read_stream(options: Any, number: int, kind: str) -> Any:
        return stream_batches(spark, kind, bootstrap, options, Path(folder) / f"{kind}-{number}")

    for name, options in batch_cases():
        compare(name, partial(read_batch, options))
    for number, (name, options) in enumerate(stream_cases()):
        compare(name, partial(read_stream, options, number))
    spark.stop()
    filler.close()
    Path(out).write_text(json.dumps(found, indent=1), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
