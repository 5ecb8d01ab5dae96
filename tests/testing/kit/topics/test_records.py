"""Codecs, and files of records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.testing import AvroCodec, BytesCodec, Cluster, KitError, copy_topic
from barnabas.testing.kit.topics.topics import Topic

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(1) as running:
        yield running


@pytest.mark.parametrize("schema_id", [None, 7])
def test_avro_values_come_back(cluster: Cluster, schema_id: int | None) -> None:
    topic = cluster.topic(f"avro-{schema_id}", codec=AvroCodec(SCHEMA, schema_id=schema_id))
    topic.send({"id": 5})
    record = topic.records(1)[0]
    assert record.decoded == {"id": 5}
    assert record.value == (b"" if schema_id is None else b"\0\0\0\0\x07") + b"\x0a"


def test_bytes_are_neither_encoded_nor_decoded(cluster: Cluster) -> None:
    topic = cluster.topic("bytes", codec=BytesCodec())
    topic.send(b"\xff")
    assert topic.records(1)[0].decoded == b"\xff"
    with pytest.raises(TypeError, match="codec for bytes"):
        topic.send({"id": 1})


def test_a_copied_topic_is_loaded_with_keys_headers_times_and_partitions(
    cluster: Cluster, tmp_path: Path
) -> None:
    topic = cluster.topic("real", partitions=2)
    topic.send({"id": 1}, key="a", headers={"h": b"\xff"}, partition=1, timestamp=1_700_000_000_000)
    topic.send(b"\xfe", partition=0)
    path = tmp_path / "orders.jsonl"
    assert copy_topic(cluster.bootstrap_servers, "real", path) == 2
    other = cluster.topic("test", partitions=2)
    assert other.load(path) == 2

    def seen(which: Topic) -> list[tuple[object, ...]]:
        return sorted(
            (each.partition, each.offset, each.timestamp, each.key, each.value, tuple(each.headers))
            for each in which.all_records()
        )

    assert seen(other) == seen(topic)


def test_only_the_last_minutes_or_so_many_records_are_copied(cluster: Cluster, tmp_path: Path) -> None:
    topic = cluster.topic("recent", configs={"retention.ms": -1})
    topic.send("old", timestamp=1_700_000_000_000)
    for number in range(3):
        topic.send(number)
    path = tmp_path / "recent.jsonl"
    assert copy_topic(cluster.bootstrap_servers, "recent", path, minutes=60) == 3
    assert copy_topic(cluster.bootstrap_servers, "recent", path, most=2) == 2
    assert b"old" in path.read_bytes()


def test_a_line_that_is_no_record_is_named(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_text('{"value": "a"}\n{"walue": "b"}\n', "utf-8")
    with pytest.raises(KitError, match="line 2: unknown field walue"):
        cluster.topic("broken").load(path)
