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
# The one line that the page itself writes.
OF_THE_PAGE = datetime(2026, 1, 1, 10, tzinfo=UTC)
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
            one = {"trace": trace, "status": 200, "duration_ms": 10}
            yield line(time, service, level="Notice", kind="request", message="GET /", **one)
            if number < errors:
                yield from [line(time, service, level="FATAL", kind="error", message="no", **one)] * 2


def log_by_the_page(page: str, folder: Path) -> None:
    """What the page shows for Python programs, into a file; all of today, so it ends all windows before."""
    (program,) = [text for text in PROGRAM.findall(page) if "logger.info" in text]
    logger = logging.Logger("shop")
    handler = logging.FileHandler(folder / "python.log")
    handler.setFormatter(JsonFormatter("shop"))
    logger.addHandler(handler)
    names = {"logger": logger, "uuid4": uuid4, "trace": "today"}
    exec(program, names)
    # Python's own names of levels.
    exec(program.replace("logger.info", "logger.warning"), names)
    exec(program.replace("logger.info", "logger.critical"), names)
    handler.close()


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
    (tmp_path / "bad.log").write_text(f"nonsense\n{line(START, 'cart', level='LOUD')}\n", "utf-8")
    log_by_the_page(page, tmp_path)
    run_ours = "barnabas pipeline run our_logs.py --set bootstrap=localhost:9092"
    run = "barnabas pipeline run barnabas.spark.logs.pipeline --set bootstrap=localhost:9092"
    assert run_ours in page
    assert run in page
    with reader_in(tmp_path) as reader:
        reader.follow(page, also_shown=True)
        check_ours(reader, run_ours)
        check_the_table(reader, run + ' --set watermark="1 minute"', tmp_path)


def check_ours(reader: Reader, run: str) -> None:
    found = [
        (datetime.fromisoformat(row["start"]), *(row.get(name) for name in NAMES))
        for row in values(reader, "our.counts")
    ]
    expected = [
        (OF_THE_PAGE, "shop", "ann", 1, 1, 0),
        *minutes_of("cart", "bob"),
        # Nobody's, for the page's owners.csv does not have it.
        *minutes_of("mail", None),
    ]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    assert sorted(map(str, consumed(reader, "our.bad")))[0] == "nonsense"
    assert len(consumed(reader, "our.bad")) == 2
    # Counts are there, and what reads them has its turn.
    reader.run_briefly(reader.here(run))
    alerts = {
        (row["service"], row.get("owner"), row["state"], row["since"]) for row in values(reader, "our.alerts")
    }
    raised = {(service, owner, "raised") for service, owner in (("cart", "bob"), ("mail", None))}
    assert {one[:3] for one in alerts} == raised
    # After three windows in a row with a tenth or more; the third minute had none, the seventh too few requests.
    assert {datetime.fromisoformat(one[3]) for one in alerts} == {START + timedelta(minutes=6)}


def check_the_table(reader: Reader, run: str, folder: Path) -> None:
    """The files of the pipeline that comes with barnabas: a row for each ten seconds."""
    reader.run_briefly(reader.here(run))
    rows = pyarrow.parquet.read_table(folder / "tables" / "logs-counts").to_pylist()
    found = {
        service: tuple(sum(row[name] for row in rows if row["service"] == service) for name in NAMES[2:])
        for service in {row["service"] for row in rows}
    }
    requests, errors = (sum(each) for each in zip(*MINUTES, strict=True))
    everything = (requests + errors, requests, errors)
    assert found == {"shop": (1, 1, 0), "cart": everything, "mail": everything}


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
