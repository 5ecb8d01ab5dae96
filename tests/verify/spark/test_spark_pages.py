"""What the pages about writing from Spark and about log aggregation show, runs, and gives what they say."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow.parquet
import pytest

from barnabas.logging import JsonFormatter
from tests.clients.conftest import start_dev
from tests.docs.reader import Reader, reader_in
from tests.spark.topics import BUSY, MAX_STARTS, batch_rows, create
from tests.verify.conftest import PROJECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOW_TO = PROJECT / "docs" / "how-to"
PROGRAM = re.compile(r"(?<!-->\n)```python\n(.*?)```", re.S)
# Of each minute, the requests and how many of them fail.
MINUTES = ((25, 5), (25, 5), (25, 0), (20, 2), (20, 3), (30, 30), (19, 19))
START = datetime(2026, 1, 2, 12, tzinfo=UTC)
NAMES = ("service", "owner", "lines", "requests", "errors")

pytestmark = [
    # PySpark leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


# ------------------------------------------------------------------------------------------ log aggregation


def line(time: datetime, service: str, **more: Any) -> str:
    entry = {"time": f"{time:%Y-%m-%dT%H:%M:%S}.000Z", "service": service, "id": uuid4().hex, **more}
    return json.dumps(entry)


def lines_of(service: str) -> Iterator[str]:
    """Minutes of requests, some with an error; and lines that come twice."""
    for minute, (requests, errors) in enumerate(MINUTES):
        for number in range(requests):
            time, trace = START + timedelta(minutes=minute, seconds=number), f"{service}{minute}x{number}"
            one = {"trace_id": trace, "duration_ms": 10}
            yield line(time, service, level="Notice", status=200, message="GET /", **one)
            if number < errors:
                yield from [line(time, service, level="FATAL", message="no", **one)] * 2


def consumed(reader: Reader, topic: str) -> list[Any]:
    output = reader.run_briefly(f"barnabas consume {topic} -o jsonl")
    return [json.loads(one)["value"] for one in output.splitlines()]


def values(reader: Reader, topic: str) -> list[dict[str, Any]]:
    return [one if isinstance(one, dict) else json.loads(one) for one in consumed(reader, topic)]


def minutes_of(service: str, owner: str | None) -> list[tuple[object, ...]]:
    return [
        (START + timedelta(minutes=minute), service, owner, requests + errors, requests, errors)
        for minute, (requests, errors) in enumerate(MINUTES)
    ]


def test_the_page_about_log_aggregation_works(tmp_path: Path) -> None:
    page = (HOW_TO / "aggregate-logs.md").read_text("utf-8")
    for service in ("cart", "mail"):
        (tmp_path / f"{service}.log").write_text("\n".join(lines_of(service)) + "\n", "utf-8")
    (tmp_path / "bad.log").write_text("nonsense\n", "utf-8")
    # Of today, so that it ends all windows before.
    handler = logging.FileHandler(tmp_path / "python.log")
    handler.setFormatter(JsonFormatter("shop"))
    logger = logging.Logger("shop")
    logger.addHandler(handler)
    logger.info("today")
    handler.close()
    run = "barnabas pipeline run barnabas.spark.logs.pipeline --set bootstrap=localhost:9092"
    assert run in page
    with reader_in(tmp_path) as reader:
        reader.follow(page, also_shown=True)
        given = f"{run} --once --set config=logs.toml --set id=id --set watermark='1 minute'"
        for only in ("parsed", "counts", "table"):
            reader.run_briefly(reader.here(f"{given} --only {only}"))
        assert consumed(reader, "logs.bad") == ["nonsense"]
        check_the_table(tmp_path)


def check_the_table(folder: Path) -> None:
    rows = pyarrow.parquet.read_table(folder / "tables" / "logs-counts").to_pylist()
    found = {
        service: tuple(sum(row[name] for row in rows if row["service"] == service) for name in NAMES[2:])
        for service in ("cart", "mail", "access")
    }
    requests, errors = (sum(each) for each in zip(*MINUTES, strict=True))
    everything = (requests + errors, requests, errors)
    assert found == {"access": (1, 1, 1), "cart": everything, "mail": everything}
    assert {row["owner"] for row in rows if row["service"] == "cart"} == {"bob"}


# --------------------------------------------------------------------------------------- writing from Spark


@pytest.fixture
def bootstrap(tmp_path: Path) -> Iterator[str]:
    process, place = start_dev(tmp_path)
    yield place
    process.terminate()
    process.wait(60)
    assert process.stdout is not None
    process.stdout.close()


@pytest.fixture
def spark() -> Iterator[SparkSession]:
    from barnabas.spark import session

    made = session("pages", "local[2]")
    yield made
    made.stop()


def follow(spark: SparkSession, program: str, names: dict[str, object]) -> None:
    """Until all queries that it starts have read what there is; again where a busy machine is too slow."""
    from pyspark.errors import StreamingQueryException

    for _ in range(MAX_STARTS):
        exec(program, names)
        try:
            for query in spark.streams.active:
                query.processAllAvailable()
        except StreamingQueryException as error:
            if BUSY not in str(error):
                raise
            continue
        finally:
            for query in spark.streams.active:
                query.stop()
        return
    raise AssertionError(f"the machine is too busy: {MAX_STARTS} starts failed")


def records(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes]]:
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "kafka.isolation.level": "read_committed",
    }
    return sorted((row["key"], row["value"]) for row in batch_rows(options))


def test_the_page_about_writing_works(spark: SparkSession, bootstrap: str, tmp_path: Path) -> None:
    page = (HOW_TO / "write-topics-from-spark.md").read_text("utf-8")
    programs = PROGRAM.findall(page)
    assert len(programs) == 4
    for topic in ("orders", "counts", "alerts", "raw", "checked"):
        create(bootstrap, topic)
    rows = tmp_path / "rows"
    rows.mkdir()
    (rows / "1.json").write_text(
        '{"service": "shop", "value": "7"}\n{"service": "cart", "value": "8"}\n', "utf-8"
    )
    stream = spark.readStream.schema("service string, value string").json(str(rows))
    names: dict[str, object] = {
        "spark": spark,
        "counts": stream,
        "alerts": stream.selectExpr("service AS key", "value"),
        "lines": stream.select("value"),
    }
    for turn in range(2):
        for program in programs:
            text = program.replace("localhost:9092", bootstrap)
            follow(spark, text.replace("/var/lib/pipeline", str(tmp_path / "checkpoints")), names)
        more = [(b"shop", b"9")] if turn else []
        assert records(bootstrap, "orders") == sorted(
            [(b"alice", b"3 apples"), (b"bob", b"1 pear")] * (turn + 1)
        )
        expected = [(b"cart", b"8"), (b"shop", b"7"), *more]
        assert records(bootstrap, "alerts") == expected
        assert records(bootstrap, "counts") == [
            (key, b'{"service":"%s","value":"%s"}' % (key, value)) for key, value in expected
        ]
        for topic in ("raw", "checked"):
            assert [value for _, value in records(bootstrap, topic)] == sorted(value for _, value in expected)
        # The second time every stream goes on from its checkpoint.
        (rows / "2.json").write_text('{"service": "shop", "value": "9"}\n', "utf-8")
