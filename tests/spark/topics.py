"""Topics for the tests of the Spark side, and what a reader gives without a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.streaming.query import StreamingQuery

from barnabas.client import NewTopic, TopicPartition
from barnabas.client.sync import Admin, Producer
from barnabas.spark.source import batch_reader, source_schema

# Spark gives a Python process ten seconds to start, however busy the machine is.
BUSY = "Python worker failed to connect back"
MAX_STARTS = 20


def create(bootstrap: str, topic: str, partitions: int = 1, **configs: str) -> None:
    named = {name.replace("_", "."): value for name, value in configs.items()}
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, partitions, configs=named)]).raise_first()


def produce(
    bootstrap: str, topic: str, values: Iterable[bytes | None], partition: int | None = 0, **options: Any
) -> None:
    """One record a value, in order."""
    record = {name: options.pop(name) for name in ("key", "headers", "timestamp_ms") if name in options}
    with Producer(bootstrap_servers=bootstrap, **options) as producer:
        sent = [producer.send(topic, value, partition=partition, **record) for value in values]
        for delivery in sent:
            delivery.result(300)


def delete_records(bootstrap: str, topic: str, partition: int, before: int) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, partition): before}).raise_first()


def options_of(bootstrap: str, topic: str, **more: str) -> dict[str, str]:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    given.update({name.replace("__", "."): value for name, value in more.items()})
    return given


def read_rows(reader: Any, partitions: Iterable[InputPartition]) -> list[dict[str, Any]]:
    """What the tasks of these partitions give, in their order."""
    return [row for partition in partitions for batch in reader.read(partition) for row in batch.to_pylist()]


def batch_rows(options: Mapping[str, str]) -> list[dict[str, Any]]:
    """What a batch query gives, by topic, partition and offset."""
    reader: DataSourceReader = batch_reader(source_schema(options), options)
    rows = read_rows(reader, reader.partitions())
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def values(rows: Iterable[Mapping[str, Any]]) -> list[bytes | None]:
    return [row["value"] for row in rows]


def finished(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that ends by itself, at its end; one that could not begin is started again."""
    for _ in range(MAX_STARTS):
        query = start()
        try:
            assert query.awaitTermination(600)
        except StreamingQueryException as error:
            if BUSY not in str(error):
                raise
            continue
        return query
    raise AssertionError(f"the machine is too busy: {MAX_STARTS} starts failed")
