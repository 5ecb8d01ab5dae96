"""A stream whose broker is killed while it runs goes on when the broker is back, and sees each record once."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.client import NewTopic
from barnabas.client.sync import Admin, Producer
from barnabas.spark import session
from tests.clients.conftest import start_dev
from tests.spark.topics import BUSY, MAX_STARTS
from tools.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

PATIENCE_S = 240
ROUNDS = 3
EACH = 500


def test_a_killed_broker_costs_no_record_and_doubles_none(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    process, bootstrap = start_dev(tmp_path, "--port", str(port))
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("kept", 3)]).raise_first()
    spark = session("killed", "local[2]")
    seen: list[tuple[int, int, bytes]] = []

    def write(frame: DataFrame, number: int) -> None:
        seen.extend((row.partition, row.offset, bytes(row.value)) for row in frame.collect())

    stream = (
        spark.readStream.format("barnabas")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "kept")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "200")
        .load()
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    query = _begun(stream.start)
    try:
        for number in range(ROUNDS):
            with Producer(bootstrap_servers=bootstrap, acks="all") as producer:
                sent = [producer.send("kept", b"%d" % (number * EACH + one)) for one in range(EACH)]
                for delivery in sent:
                    delivery.result(120)
            _until(seen, number * EACH + 1, query)
            process.kill()
            process.wait(60)
            assert process.stdout is not None
            process.stdout.close()
            process, _ = start_dev(tmp_path, "--port", str(port))
        _until(seen, ROUNDS * EACH, query)
    finally:
        query.stop()
        process.terminate()
        process.wait(60)
        assert process.stdout is not None
        process.stdout.close()
    assert sorted(int(value) for _, _, value in seen) == list(range(ROUNDS * EACH))
    assert len({(partition, offset) for partition, offset, _ in seen}) == len(seen)


def _begun(start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """A query that runs; one that could not begin on a busy machine is started again."""
    for _ in range(MAX_STARTS):
        query = start()
        while query.isActive:
            if query.lastProgress is not None:
                return query
            time.sleep(0.1)
        failure = str(query.exception())
        assert BUSY in failure, failure
    raise AssertionError(f"the machine is too busy: {MAX_STARTS} starts failed")


def _until(seen: list[tuple[int, int, bytes]], count: int, query: StreamingQuery) -> None:
    until = time.monotonic() + PATIENCE_S
    while len(seen) < count:
        failure = query.exception()
        assert failure is None, failure
        assert time.monotonic() < until, "the stream stands still"
        time.sleep(0.1)
