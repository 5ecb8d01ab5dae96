"""The sink as users call it: `df.write` and `df.writeStream`.  # M-I1"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.base.hashing import partition_for_key
from barnabas.client import ConsumerRecord
from barnabas.client.admin.records import IsolationLevel, OffsetSpec
from barnabas.client.admin.topics import NewTopic
from barnabas.client.model import TopicPartition
from barnabas.client.sync import Admin, Consumer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 3
HEADERS = "array(named_struct('key', 'h', 'value', cast('x' as binary)))"


@pytest.fixture
def topic(bootstrap: str, fresh_name: Callable[[], str]) -> str:
    name = fresh_name()
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, num_partitions=PARTITIONS)]).raise_first()
    return name


def read(bootstrap: str, topic: str) -> list[ConsumerRecord]:
    """All that is committed."""
    parts = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    with Admin(bootstrap_servers=bootstrap) as admin:
        wanted: dict[TopicPartition, OffsetSpec | int] = dict.fromkeys(parts, OffsetSpec.LATEST)
        ends = admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
    found = []
    settings = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with Consumer(settings, bootstrap_servers=bootstrap) as consumer:
        consumer.assign(parts)
        while any(consumer.position(part) < ends[part].offset for part in parts):
            found += consumer.poll(timeout_ms=100)
    return found


def numbers(bootstrap: str, topic: str) -> Counter[int]:
    """The values of a topic, counted."""
    results: Counter[int] = Counter()
    for one in read(bootstrap, topic):
        assert isinstance(one.value, bytes)
        results[int(one.value)] += 1
    return results


def write(frame: DataFrame, bootstrap: str, **options: Any) -> None:
    frame.write.format("barnabas").mode("append").options(
        **{"kafka.bootstrap.servers": bootstrap, **options}
    ).save()


def test_columns_become_records(spark: SparkSession, bootstrap: str, topic: str) -> None:
    # M-I1
    frame = spark.range(0, 100, 1, 2).selectExpr(
        "if(id % 5 = 0, null, cast(id as string)) as key",
        "if(id % 7 = 0, null, concat('value ', id)) as value",
        f"if(id % 2 = 0, {HEADERS}, null) as headers",
        "if(id % 3 = 0, cast(id % 2 as int), null) as partition",
        f"'{topic}' as topic",
        "id as ignored",
    )
    write(frame, bootstrap)
    found = read(bootstrap, topic)
    assert len(found) == 100
    for row in frame.collect():
        key = None if row.key is None else row.key.encode()
        value = None if row.value is None else row.value.encode()
        headers = (("h", b"x"),) if row.headers else ()
        same = [one for one in found if (one.key, one.value, one.headers) == (key, value, headers)]
        assert same, row
        if row.partition is not None:
            assert row.partition in {one.partition for one in same}
        elif key is not None:
            assert {one.partition for one in same} == {partition_for_key(key, PARTITIONS)}


def test_rows_go_to_the_topics_they_name(
    spark: SparkSession, bootstrap: str, fresh_name: Callable[[], str]
) -> None:
    names = [fresh_name() for _ in range(2)]
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, num_partitions=PARTITIONS) for name in names]).raise_first()
    frame = spark.range(20).selectExpr(
        "cast(id as string) as value", f"if(id % 2 = 0, '{names[0]}', '{names[1]}') as topic"
    )
    write(frame, bootstrap)
    for half, name in enumerate(names):
        assert numbers(bootstrap, name) == Counter(range(half, 20, 2))


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (["cast(id as string) as key"], {"topic": "t"}, "Required attribute 'value' not found"),
        (["id as value"], {"topic": "t"}, "value attribute unsupported type bigint"),
        (["'x' as value", "cast(null as string) as topic"], {}, "null topic present in the data"),
        (["'x' as value", "99 as partition"], {"topic": "TOPIC"}, "there is no partition 99"),
        (["'x' as value"], {"topic": "t", "deliveryGuarantee": "exactly-once"}, "'sinkId' must be specified"),
    ],
)
def test_errors_are_explained(
    spark: SparkSession, bootstrap: str, topic: str, columns: list[str], options: dict[str, str], words: str
) -> None:
    options = {name: topic if value == "TOPIC" else value for name, value in options.items()}
    with pytest.raises(Exception, match=words):
        write(spark.range(1).selectExpr(*columns), bootstrap, **options)


def test_a_batch_write_is_repeated_without_effect_if_it_has_a_number(
    spark: SparkSession, bootstrap: str, topic: str
) -> None:
    frame = spark.range(0, 30, 1, 3).selectExpr("cast(id as string) as value")
    exactly = {"topic": topic, "deliveryGuarantee": "exactly-once", "sinkId": topic}
    write(frame, bootstrap, **exactly, batchId="4")
    write(frame.repartition(2), bootstrap, **exactly, batchId="4")
    assert numbers(bootstrap, topic) == Counter(range(30))
    write(frame, bootstrap, **exactly, batchId="5")
    assert numbers(bootstrap, topic) == Counter([*range(30), *range(30)])


def test_a_stream_is_written_exactly_once_over_a_restart(
    spark: SparkSession, bootstrap: str, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "in").mkdir()

    def run(batch: int) -> None:
        lines = "\n".join(str(number) for number in range(batch * 10, batch * 10 + 10))
        (tmp_path / "in" / f"{batch}.txt").write_text(lines, "utf-8")
        query = (
            spark.readStream.text(str(tmp_path / "in"))
            .repartition(batch + 1)
            .writeStream.format("barnabas")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("topic", topic)
            .option("deliveryGuarantee", "exactly-once")
            .option("sinkId", topic)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run(0)
    run(1)
    # As if the driver had died before Spark wrote down that the last batch is done.
    for name in ("1", ".1.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    run(2)
    assert numbers(bootstrap, topic) == Counter(range(30))
