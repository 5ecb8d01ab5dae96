"""Reading data folders without a broker: Apache Kafka's, our own, one that is being written, damaged ones."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.batch.build import build
from barnabas.batch.compression import Codec
from barnabas.batch.control import EndTransactionMarker, batch_marker, build_marker
from barnabas.batch.faults import CorruptBatch
from barnabas.batch.records import Record
from barnabas.batch.view import BatchView, batches
from barnabas.client.sync import Producer
from barnabas.spark import log_folders
from barnabas.spark.given_options import OptionError
from barnabas.spark.log_source import batch_reader, source_schema
from barnabas.spark.source.loss import DataLossError
from tests.spark.topics import create, delete_records, produce, read_rows, values

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODES = ("kraft-4.1.0", "kraft-3.9.1", "zk-3.9.1")
COMMITTED = {"kafka.isolation.level": "read_committed"}


def log_rows(folder: Path, **options: str) -> list[dict[str, Any]]:
    given = {"path": str(folder), "includeHeaders": "true"}
    given.update({name.replace("__", "."): value for name, value in options.items()})
    reader = batch_reader(source_schema(given), given)
    rows = read_rows(reader, reader.partitions())
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def stored(folder: Path) -> Iterator[BatchView]:
    for segment in sorted(folder.glob("*.log")):
        yield from batches(segment.read_bytes())


def records_of(folder: Path, *, committed_only: bool = False) -> list[tuple[Any, ...]]:
    """The same by another way: record by record, and transactions by their markers."""
    kept: list[tuple[BatchView, list[Record]]] = []
    open_by: dict[int, list[int]] = {}
    dropped: set[int] = set()
    for batch in stored(folder):
        marker = batch_marker(batch) if batch.is_control else None
        if marker is not None:
            ended = open_by.pop(batch.producer_id, [])
            dropped.update([] if marker.commit else ended)
        elif not batch.is_control:
            if batch.is_transactional:
                open_by.setdefault(batch.producer_id, []).append(len(kept))
            kept.append((batch, list(batch.records())))
    # Nothing is committed beyond the first transaction that is open.
    stable = min([2**63, *(kept[numbers[0]][0].base_offset for numbers in open_by.values())])
    return [
        (record.offset, record.timestamp, record.key, record.value, record.headers, int(batch.timestamp_type))
        for number, (batch, records) in enumerate(kept)
        if not (committed_only and number in dropped)
        for record in records
        if not (committed_only and record.offset >= stable)
    ]


def as_records(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [
        (
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((one["key"], one["value"]) for one in row["headers"] or ()),
            row["timestampType"],
        )
        for row in rows
    ]


@pytest.mark.parametrize("mode", MODES)
def test_apache_kafkas_folders_are_read_record_for_record(golden_logs: Path, mode: str) -> None:
    # M-I4
    """Every codec, compacted logs, headers, append times, rolled segments, transactions."""
    data = golden_logs / mode / "data"
    topics = sorted(
        {one.name[:-2] for one in data.iterdir() if one.name.endswith("-0") and one.name[0] != "_"}
    )
    assert {"codec-zstd", "compacted", "logappend", "rolled", "txn"} <= set(topics)
    for topic in topics:
        rows = log_rows(data, subscribe=topic)
        first = min((row["offset"] for row in rows), default=0)
        expected = [one for one in records_of(data / f"{topic}-0") if one[0] >= first]
        assert as_records(rows) == expected
        committed = log_rows(data, subscribe=topic, kafka__isolation__level="read_committed")
        kept = [one for one in records_of(data / f"{topic}-0", committed_only=True) if one[0] >= first]
        assert as_records(committed) == kept
    assert len(log_rows(data, subscribe="txn", **{"kafka.isolation.level": "read_committed"})) < len(
        log_rows(data, subscribe="txn")
    )


def test_a_folder_through_a_session(spark: SparkSession, golden_logs: Path) -> None:
    data = golden_logs / "kraft-4.1.0" / "data"
    frame = spark.read.format("barnabas-log").option("subscribePattern", "codec-.*").load(str(data))
    by_topic = {row.topic: row["count"] for row in frame.groupBy("topic").count().collect()}
    assert sorted(by_topic) == ["codec-gzip", "codec-lz4", "codec-none", "codec-snappy", "codec-zstd"]
    assert len(set(by_topic.values())) == 1


def test_a_running_brokers_folder_is_readable(bootstrap: str, broker_folder: Path, topic: str) -> None:
    create(bootstrap, topic)
    produce(bootstrap, topic, [b"a", b"b", b"c"])
    data = broker_folder / "data" / "data"
    assert values(log_rows(data, subscribe=topic)) == [b"a", b"b", b"c"]
    with Producer(bootstrap_servers=bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(topic, b"open", partition=0).result(300)
        produce(bootstrap, topic, [b"behind it"])
        committed = {"kafka.isolation.level": "read_committed"}
        # As a consumer sees it: nothing beyond a transaction that is still open.
        assert values(log_rows(data, subscribe=topic, **committed)) == [b"a", b"b", b"c"]
        assert values(log_rows(data, subscribe=topic)) == [b"a", b"b", b"c", b"open", b"behind it"]
        producer.abort_transaction()
    assert values(log_rows(data, subscribe=topic, **committed)) == [b"a", b"b", b"c", b"behind it"]


# ----------------------------------------------------------------------------------- folders written by tests


def a_batch(*payload: bytes, at: int, producer: int = -1, codec: Codec = Codec.NONE) -> bytes:
    records = [Record(at + number, 1000, None, value, ()) for number, value in enumerate(payload)]
    is_open = producer >= 0
    return bytes(
        build(
            records,
            base_offset=at,
            codec=codec,
            producer_id=producer,
            producer_epoch=0 if is_open else -1,
            base_sequence=0 if is_open else -1,
            transactional=is_open,
        )
    )


def a_folder(folder: Path, *segments: tuple[int, bytes]) -> Path:
    partition = folder / "t-0"
    partition.mkdir(parents=True)
    for base, content in segments:
        (partition / f"{base:020}.log").write_bytes(content)
    return folder


def test_offsets_select_records(tmp_path: Path) -> None:
    """Across segments; what the folder does not have is an error or passed over."""
    parts = [a_batch(b"%d" % number, at=number) for number in range(6)]
    data = a_folder(tmp_path, (0, parts[0] + parts[1]), (2, parts[2] + parts[3]), (4, parts[4] + parts[5]))
    given = {"startingOffsets": '{"t": {"0": 1}}', "endingOffsets": '{"t": {"0": 5}}'}
    assert values(log_rows(data, subscribe="t", **given)) == [b"1", b"2", b"3", b"4"]
    beyond = {**given, "endingOffsets": '{"t": {"0": 9}}'}
    with pytest.raises(DataLossError, match=r"has offsets 0 to 5, not all of 1 to 8"):
        log_rows(data, subscribe="t", **beyond)
    passed_over = log_rows(data, subscribe="t", failOnDataLoss="false", **beyond)
    assert values(passed_over) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_tail_that_is_not_whole_ends_the_active_segment(tmp_path: Path) -> None:
    whole, half = a_batch(b"a", b"b", at=0), a_batch(b"c", at=2)
    wrong = half[:-1] + bytes([half[-1] ^ 1])
    for number, tail in enumerate((b"", half[:30], half[:-1], wrong, bytes(5000))):
        data = a_folder(tmp_path / str(number), (0, whole + tail))
        assert values(log_rows(data, subscribe="t")) == [b"a", b"b"]


def test_damage_in_a_closed_segment_is_an_error(tmp_path: Path) -> None:
    whole, last = a_batch(b"a", b"b", at=0), a_batch(b"c", at=2)
    damaged = whole[:-1] + bytes([whole[-1] ^ 1])
    for number, content in enumerate((whole + last[:40], whole + bytes(100), damaged)):
        data = a_folder(tmp_path / str(number), (0, content), (2, last))
        with pytest.raises(CorruptBatch, match=r"damaged|corrupt"):
            log_rows(data, subscribe="t")


def test_damage_before_whole_batches_is_an_error_in_the_active_segment_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not a write in progress; rows would be missing silently."""
    parts = [a_batch(b"%d" % number * 50, at=number) for number in range(4)]
    damaged = parts[1][:-1] + bytes([parts[1][-1] ^ 1])
    too_long = parts[1][:8] + (1 << 20).to_bytes(4, "big") + parts[1][12:]
    for block_bytes in (log_folders.BLOCK_BYTES, 100):
        monkeypatch.setattr(log_folders, "BLOCK_BYTES", block_bytes)
        for number, wrong in enumerate((damaged, too_long, bytes(len(parts[1])), damaged[:40])):
            data = a_folder(tmp_path / f"{block_bytes}-{number}", (0, parts[0] + wrong + parts[2] + parts[3]))
            with pytest.raises(CorruptBatch, match=rf"damaged at byte {len(parts[0])}: .*failOnDataLoss"):
                log_rows(data, subscribe="t")
            assert len(log_rows(data, subscribe="t", failOnDataLoss="false")) == 1


def test_a_batch_that_becomes_whole_meanwhile_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [a_batch(b"%d" % number, at=number) for number in range(3)]
    data = a_folder(tmp_path, (0, parts[0] + parts[1][:30]))
    look = log_folders._next_valid

    def written_first(file: int, position: int) -> int | None:
        (data / "t-0" / f"{0:020}.log").write_bytes(b"".join(parts))
        return look(file, position)

    monkeypatch.setattr(log_folders, "_next_valid", written_first)
    assert values(log_rows(data, subscribe="t")) == [b"0"]


def test_batches_larger_than_a_block_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_folders, "BLOCK_BYTES", 100)
    content = a_batch(b"x" * 500, at=0) + a_batch(b"y", at=1) + a_batch(b"z" * 300, at=2)
    data = a_folder(tmp_path, (0, content))
    assert [len(row["value"]) for row in log_rows(data, subscribe="t")] == [500, 1, 300]


def test_open_transactions_of_older_segments_hold_back_what_follows(tmp_path: Path) -> None:
    """Without a snapshot, as after a crash, they are found in the segments themselves."""
    marker = build_marker(
        EndTransactionMarker(commit=True, coordinator_epoch=0),
        timestamp=1000,
        producer_id=7,
        producer_epoch=0,
        base_offset=3,
    )
    ended = a_folder(
        tmp_path / "a",
        (0, a_batch(b"a", at=0) + a_batch(b"b", at=1, producer=7)),
        (2, a_batch(b"c", at=2) + bytes(marker)),
    )
    assert values(log_rows(ended, subscribe="t", **COMMITTED)) == [b"a", b"b", b"c"]
    still = a_folder(
        tmp_path / "b", (0, a_batch(b"a", at=0) + a_batch(b"b", at=1, producer=7)), (2, a_batch(b"c", at=2))
    )
    assert values(log_rows(still, subscribe="t", **COMMITTED)) == [b"a"]
    assert values(log_rows(still, subscribe="t")) == [b"a", b"b", b"c"]


def test_records_below_the_log_start_are_hidden(
    tmp_path: Path, bootstrap: str, broker_folder: Path, topic: str
) -> None:
    data = a_folder(tmp_path, (0, a_batch(b"a", b"b", b"c", at=0, codec=Codec.ZSTD)))
    (data / "log-start-offset-checkpoint").write_text("0\n1\nt 0 2\n", "utf-8")
    assert values(log_rows(data, subscribe="t")) == [b"c"]
    create(bootstrap, topic)
    produce(bootstrap, topic, [b"a", b"b"])
    delete_records(bootstrap, topic, 0, 1)
    assert b"b" in values(log_rows(broker_folder / "data" / "data", subscribe=topic))


def test_a_segment_deleted_meanwhile_is_reported(tmp_path: Path) -> None:
    data = a_folder(tmp_path, (0, a_batch(b"a", at=0)))
    given = {"path": str(data), "subscribe": "t"}
    reader = batch_reader(source_schema(given), given)
    planned = reader.partitions()
    shutil.rmtree(data / "t-0")
    with pytest.raises(DataLossError, match="was removed while the query ran"):
        read_rows(reader, planned)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"subscribe": "t"}, "which data folder"),
        ({"path": "x", "subscribe": "t", "kafka.bootstrap.servers": "x:1"}, "not an option of this source"),
        ({"path": "x", "subscrib": "t"}, "did you mean subscribe"),
        ({"path": "x"}, "exactly one of the options"),
        ({"path": "x", "subscribePattern": "("}, "not a regular expression"),
        (
            {"path": "x", "subscribe": "t", "kafka.isolation.level": "none"},
            "read_uncommitted or read_committed",
        ),
        ({"path": "x", "subscribe": "t", "startingOffsets": "latest"}, "earliest or JSON of offsets"),
        ({"path": "x", "subscribe": "t", "includeHeaders": "1"}, "true or false"),
    ],
)
def test_wrong_options_are_named(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        batch_reader(source_schema(given), given)


def test_folders_that_do_not_fit_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"is not a folder: give the broker's log\.dirs"):
        log_rows(tmp_path / "nowhere", subscribe="t")
    data = a_folder(tmp_path / "a", (0, a_batch(b"a", at=0)))
    with pytest.raises(OptionError, match="has no partition of other; it has t-0"):
        log_rows(data, subscribe="other")
    with pytest.raises(OptionError, match="has no partition of other; it has t-0"):
        log_rows(data, subscribe="t, other")
    with pytest.raises(OptionError, match="has no partition of t-1; it has t-0"):
        log_rows(data, assign='{"t": [0, 1]}')
    again = a_folder(tmp_path / "b", (0, a_batch(b"a", at=0)))
    with pytest.raises(ValueError, match="give one of the folders"):
        log_rows(Path(f"{data},{again}"), subscribe="t")
