"""Shared by the Spark rows: one session with both connectors, the servers, filled topics.

PySpark is imported lazily, because other rows do not need it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from barnabas.base.errors import ErrorCode
from barnabas.batch.build import build
from barnabas.batch.records import Record
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from bench.produce_load import PRODUCE_VERSION
from bench.registry import RunContext
from bench.servers import Server, make_servers
from bench.warming import warm_up
from tools.raw_broker import RawConnection
from tools.spark_connector import connector_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECTOR = "spark-sql-kafka"
MASTER = "local[2]"
# The name of each format in a query.
OUR_FORMAT, THEIR_FORMAT = "barnabas", "kafka"
PARTITIONS = 4
VALUE_BYTES = 200
KEYS = 100
# As many as fit in the default batch.size of a producer (16 KiB).
BATCH_RECORDS = 75
# The distance between timestamps, which end some minutes ago: brokers refuse future timestamps.
SPREAD_MS = 600_000


def spark_session(context: RunContext) -> SparkSession:
    def make() -> SparkSession:
        from barnabas.spark import session

        jars = ",".join(map(str, connector_jars()))
        output = str(context.folder() / "spark.log")
        made = session("bench", MASTER, output=output, **{"spark.jars": jars})
        context.stack.callback(made.stop)
        return made

    return context.shared("spark session", make)


def spark_server(context: RunContext, name: str) -> Server | None:
    """Started and warmed up at its first use; None for Apache Kafka without the oracle."""
    servers = context.shared("spark servers", lambda: make_servers(context.folder(), context.stack))
    if name not in servers:
        return None
    server = servers[name]

    def start() -> Server:
        server.start()
        warm_up(server)
        return server

    return context.shared(("spark server", name), start)


def bootstrap(server: Server) -> str:
    host, port = server.address
    return f"{host}:{port}"


def options(server: Server, **extra: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": bootstrap(server), **extra}


def sample_records(count: int, now_ms: int) -> Iterator[Record]:
    """Repeated keys, distinct values, timestamps up to now."""
    filler = b"x" * VALUE_BYTES
    start_ms = now_ms - SPREAD_MS
    for number in range(count):
        value = b"%012d%b" % (number, filler)
        yield Record(
            0,
            start_ms + number * SPREAD_MS // count,
            b"key-%d" % (number * 7919 % KEYS),
            value[:VALUE_BYTES],
        )


def fill(address: tuple[str, int], topic: str, records: Iterable[Record], partitions: int) -> int:
    """Writes batches to the partitions in turn, so that they grow equally; returns the number of records."""
    total = 0
    with RawConnection(address) as connection:
        for index, batch in enumerate(_cut(records)):
            send(connection, topic, {index % partitions: batch})
            total += len(batch)
    return total


def send(connection: RawConnection, topic: str, batches: Mapping[int, list[Record]]) -> None:
    """Sends a batch to each of these partitions in one request, and waits for the acknowledgement."""
    request = ProduceRequest(
        acks=1,
        timeout_ms=30_000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic,
                partition_data=[
                    ProduceRequest.PartitionProduceData(index=index, records=bytes(_built(batch)))
                    for index, batch in batches.items()
                ],
            )
        ],
    )
    response = connection.ask(request, PRODUCE_VERSION, ProduceResponse)
    for part in response.responses[0].partition_responses:
        assert not part.error_code, ErrorCode(part.error_code).name


def _built(batch: list[Record]) -> bytearray:
    return build(
        [
            Record(n, record.timestamp, record.key, record.value, record.headers)
            for n, record in enumerate(batch)
        ]
    )


def _cut(records: Iterable[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    for record in records:
        batch.append(record)
        if len(batch) == BATCH_RECORDS:
            yield batch
            batch = []
    if batch:
        yield batch


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def ended(query: Any, patience_s: float) -> None:
    """Waits for a streaming query that ends by itself, and checks that it succeeded."""
    if not query.awaitTermination(timeout=patience_s):
        query.stop()
        raise TimeoutError(f"the query still runs after {patience_s} s")
