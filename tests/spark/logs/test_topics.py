"""What the flagship reads and in which order it writes, without a session."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from barnabas.client.sync import Producer
from barnabas.spark.logs.pipeline import count_records, lines, pipeline
from barnabas.spark.logs.queries import _sorted
from barnabas.spark.pipeline.toml_file import pipeline_of
from barnabas.spark.source import source_schema, stream_reader
from barnabas.spark.source.stream import StreamReader
from tests.spark.topics import create, read_rows, values


class Reader:
    """Replaces a session: returns the options that a source sets."""

    def __init__(self) -> None:
        self.given: dict[str, str] = {}

    @property
    def readStream(self) -> Reader:  # noqa: N802 - Spark's name
        return self

    read = readStream

    def format(self, name: str) -> Reader:
        assert name == "barnabas"
        return self

    def option(self, name: str, value: str) -> Reader:
        self.given[name] = value
        return self

    def load(self) -> dict[str, str]:
        return self.given


def everything(options: dict[str, str]) -> list[bytes | None]:
    """What a stream with these options gives."""
    reader = stream_reader(source_schema(options), options)
    assert isinstance(reader, StreamReader)
    start = reader.initialOffset()
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    return values(read_rows(reader, reader.partitions(start, reader.latestOffset(start, ReadAllAvailable()))))


def write(bootstrap: str, topic: str) -> None:
    """A batch of counts, and an aborted one."""
    with Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        for value, is_committed in ((b"kept", True), (b"aborted", False)):
            producer.begin_transaction()
            producer.send(topic, value, partition=0).result(300)
            producer.commit_transaction() if is_committed else producer.abort_transaction()


@pytest.mark.parametrize("source", [lines, count_records])
def test_rows_of_an_aborted_batch_are_not_read(bootstrap: str, topic: str, source: Any) -> None:
    create(bootstrap, topic)
    write(bootstrap, topic)
    settings = pipeline.settings_with({"bootstrap": bootstrap, "lines_per_batch": "100"})
    given = source(Reader(), settings, "table")
    assert everything({**given, "subscribe": topic}) == [b"kept"]


@pytest.mark.parametrize("section", ["sources", "tables"])
def test_topics_of_a_toml_file_are_read_committed_by_default(tmp_path: Any, section: str) -> None:
    text = f'name = "p"\n[{section}.a]\ntopic = "a"\n[{section}.b]\ntopic = "b"\n'
    path = tmp_path / "p.toml"
    path.write_text(f'{text}options = {{ "kafka.isolation.level" = "read_uncommitted" }}\n', "utf-8")
    parts = pipeline_of(path).parts
    read: dict[str, Any] = {
        name: part.function(Reader(), {"bootstrap": "x:1"}) for name, part in parts.items()
    }
    levels = {name: given["kafka.isolation.level"] for name, given in read.items()}
    assert levels == {"a": "read_committed", "b": "read_uncommitted"}


def test_windows_are_written_in_the_order_of_time() -> None:
    batches = [pa.RecordBatch.from_pydict({"start": part, "n": part}) for part in ([3, 1], [], [2])]
    batches[1] = batches[0].slice(0, 0)
    ordered = pa.Table.from_batches(list(_sorted("start", iter(batches))))
    assert ordered.to_pydict() == {"start": [1, 2, 3], "n": [1, 2, 3]}
    assert list(_sorted("start", iter(()))) == []
