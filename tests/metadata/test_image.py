"""Images: replaying Apache Kafka's metadata logs gives the content of its own snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.batch.view import batches
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.metadata.snapshot import record_version, records_of
from barnabas.protocol.record_frame import read_metadata_record, write_metadata_record
from barnabas.protocol.records import metadata as records
from barnabas.protocol.schema import Message

SNAPSHOTS = [
    ("kraft-4.1.0", 128),
    ("kraft-4.1.0", 172),
    ("kraft-4.1.0", 212),
]


def read(path: Path) -> Iterator[tuple[int, Message, int]]:
    """(offset, record, version) of the data batches of a metadata log or snapshot."""
    for batch in batches(path.read_bytes()):
        if not batch.is_control:
            for record in batch.records():
                assert record.value is not None
                yield record.offset, *read_metadata_record(record.value)


def image_of(path: Path, end: int = 2**62) -> Image:
    delta = Delta(EMPTY_IMAGE)
    for offset, record, _ in read(path):
        if offset < end and not is_transaction_mark(record):
            delta.replay(record)
    return delta.image


def is_transaction_mark(record: Message) -> bool:
    marks = (records.BeginTransactionRecord, records.EndTransactionRecord, records.AbortTransactionRecord)
    return isinstance(record, marks)


@pytest.mark.parametrize(("mode", "end"), SNAPSHOTS)
def test_replaying_the_log_gives_the_image_of_the_snapshot(golden_logs: Path, mode: str, end: int) -> None:
    # M-C11
    folder = golden_logs / mode / "data" / "__cluster_metadata-0"
    from_log = image_of(folder / f"{0:020d}.log", end)
    from_snapshot = image_of(folder / f"{end:020d}-{1:010d}.checkpoint")
    assert from_log == from_snapshot
    assert from_log.topics


@pytest.mark.parametrize("mode", ["kraft-3.9.1", "kraft-4.1.0"])
def test_an_image_round_trips_through_records(golden_logs: Path, mode: str) -> None:
    image = image_of(golden_logs / mode / "data" / "__cluster_metadata-0" / f"{0:020d}.log")
    rebuilt = Delta(EMPTY_IMAGE)
    for record in records_of(image):
        version = record_version(record, image.metadata_version)
        rebuilt.replay(read_metadata_record(write_metadata_record(record, version))[0])
    assert rebuilt.image == image


@pytest.mark.parametrize("mode", ["kraft-3.9.1", "kraft-4.1.0"])
def test_record_versions_match_apache_kafka(golden_logs: Path, mode: str) -> None:
    path = golden_logs / mode / "data" / "__cluster_metadata-0" / f"{0:020d}.log"
    level = image_of(path).metadata_version
    for _, record, version in read(path):
        assert version == record_version(record, level), record
