"""SQL over topics of a broker and of its data folder.  # M-I4"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.main import main
from barnabas.client.sync import Producer
from barnabas.tables.reading import BrokerTopics, FolderTopics
from barnabas.tables.sql import QueryError, query
from tests.clients.conftest import start_dev
from tests.spark.topics import create, produce

START_MS = 1_767_225_600_000
ROWS = 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sql")


@pytest.fixture(scope="module")
def bootstrap(folder: Path) -> Iterator[str]:
    """A broker with two topics: orders a second apart, in two partitions; a transaction that was aborted."""
    process, place = start_dev(folder, "--override", "log.retention.ms=-1")
    create(place, "orders", 2)
    for number in range(ROWS):
        value = json.dumps({"id": number, "amount": number % 3}).encode()
        produce(place, "orders", [value], number % 2, timestamp_ms=START_MS + 1000 * number, key=b"k")
    create(place, "with.dots")
    with Producer(bootstrap_servers=place, transactional_id="t") as producer:
        producer.init_transactions()
        for value, is_committed in ((b"kept", True), (b"aborted", False), (b"\xff", True)):
            producer.begin_transaction()
            producer.send("with.dots", value, partition=0).result(300)
            producer.commit_transaction() if is_committed else producer.abort_transaction()
    yield place
    process.terminate()
    assert process.wait(300) == 0
    assert process.stdout is not None
    process.stdout.close()


@pytest.fixture(params=["broker", "folder"])
def topics(
    request: pytest.FixtureRequest, bootstrap: str, folder: Path
) -> Iterator[BrokerTopics | FolderTopics]:
    if request.param == "folder":
        yield FolderTopics([str(folder / "data" / "data")])
        return
    with BrokerTopics({"bootstrap.servers": bootstrap}) as made:
        yield made


Made = BrokerTopics | FolderTopics


def test_a_topic_is_a_table(topics: Made) -> None:
    sql = "SELECT partition, count(*), sum((text->>'amount')::INT), min(timestamp) FROM orders GROUP BY 1 ORDER BY 1"
    rows = [(*row[:3], row[3].timestamp() * 1000) for row in query(sql, topics).rows]
    amounts = [sum(number % 3 for number in range(part, ROWS, 2)) for part in (0, 1)]
    assert rows == [(part, ROWS // 2, amounts[part], START_MS + 1000 * part) for part in (0, 1)]


def test_committed_records_only_and_values_that_are_no_text(topics: Made) -> None:
    result = query('SELECT value, text FROM "with.dots" ORDER BY "offset"', topics)
    assert (result.columns, list(result.rows)) == (("value", "text"), [(b"kept", "kept"), (b"\xff", None)])


def test_what_the_conditions_exclude_is_not_read(topics: Made) -> None:
    assert list(query('SELECT count(*) FROM orders WHERE "offset" >= 5 AND "offset" < 7', topics).rows) == [
        (4,)
    ]
    assert topics.records_read == 4
    assert list(query("SELECT count(*) FROM orders WHERE partition = 1", topics).rows) == [(ROWS // 2,)]
    assert topics.records_read == 4 + ROWS // 2


def test_a_time_spares_reading_from_a_broker(bootstrap: str) -> None:
    with BrokerTopics({"bootstrap.servers": bootstrap}) as topics:
        sql = "SELECT count(*) FROM orders WHERE timestamp >= TIMESTAMPTZ '2026-01-01 00:00:20+00'"
        assert list(query(sql, topics).rows) == [(10,)]
        assert topics.records_read == 10


def test_a_topic_that_is_read_twice(topics: Made) -> None:
    sql = (
        'SELECT count(*) FROM orders a JOIN orders b ON a."offset" = b."offset" AND a.partition = b.partition'
    )
    assert list(query(sql, topics).rows) == [(ROWS,)]


def test_a_query_without_a_topic(topics: Made) -> None:
    assert list(query("SELECT 1 AS one", topics).rows) == [(1,)]


@pytest.mark.parametrize(
    "sql", ["SELECT * FROM order", "SELECT * FROM nowhere", "SELECT nothing FROM orders"]
)
def test_a_wrong_query_says_why(topics: Made, sql: str) -> None:
    with pytest.raises(QueryError):
        list(query(sql, topics).rows)


def test_a_missing_topic_names_those_that_are_there(topics: Made) -> None:
    with pytest.raises(QueryError, match=r"nowhere does not exist.*orders, with\.dots"):
        query("SELECT * FROM nowhere", topics)


def test_the_command(bootstrap: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sql = 'SELECT timestamp AS at, text FROM orders WHERE partition = 0 AND "offset" = 1'
    expected = {"at": "2026-01-01T00:00:02+00:00", "text": '{"id": 2, "amount": 2}'}
    for where in (["--bootstrap-server", bootstrap], ["--data", str(folder / "data" / "data")]):
        assert main(["sql", sql, "-o", "jsonl", "--stats", *where]) == 0
        captured = capsys.readouterr()
        assert json.loads(captured.out) == expected
        assert captured.err == "1 records read\n"
    assert main(["sql", "SELECT", "--bootstrap-server", bootstrap]) == 1
    assert "barnabas sql: " in capsys.readouterr().err
