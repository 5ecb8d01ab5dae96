"""Initial metadata, compared with files written by Apache Kafka 4.1."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from barnabas.batch.view import batches
from barnabas.metadata import bootstrap
from barnabas.metadata.bootstrap import (
    bootstrap_checkpoint,
    choose_levels,
    first_records,
    voters_checkpoint,
)
from barnabas.metadata.features import metadata_version_named
from barnabas.metadata.initial_voters import parse_voters
from barnabas.protocol.records.metadata import NoOpRecord

FOLDER = "kraft-4.1.0-dynamic-quorum/controller-101"
VOTERS = (
    "101@localhost:24101:TRHTBjhIRnGyohlDJvDLnw,102@localhost:24102:gajUJ1ycSwC6zLCZMAkLzg,"
    "103@localhost:24103:ChDEvQFfTWOKBYVH37DLIg"
)


def golden(data: Path, name: str) -> bytes:
    with tarfile.open(data / "golden-logs.tar.gz") as archive:
        file = archive.extractfile(f"{FOLDER}/{name}")
        assert file is not None
        return file.read()


def test_bootstrap_checkpoint_matches_apache_kafka_byte_for_byte(data: Path) -> None:  # M-C3
    expected = [view.copy() for view in batches(golden(data, "bootstrap.checkpoint"))]
    version, levels = choose_levels({}, None, dynamic_quorum=True, unstable=False)
    # Each of their batches has its own timestamp: build ours with that timestamp and compare batch by batch.
    for number, batch in enumerate(expected):
        time_ms = next(batches(batch)).max_timestamp
        ours = list(batches(bootstrap_checkpoint(first_records(version, levels), time_ms)))
        assert len(ours) == len(expected) == 3
        assert ours[number].copy() == batch


def test_the_first_snapshot_of_a_dynamic_quorum_matches_apache_kafka(data: Path) -> None:  # M-C3
    expected = list(batches(golden(data, "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")))
    header, *messages = expected[0].records()
    ours = list(batches(voters_checkpoint(parse_voters(VOTERS), "controller", 1, expected[0].max_timestamp)))
    our_header, *our_messages = ours[0].records()
    # The header has an earlier timestamp than its batch; everything else must be equal.
    assert our_header.key == header.key
    assert our_header.value is not None
    assert header.value is not None
    assert len(our_header.value) == len(header.value)
    assert our_messages == messages
    assert [view.size for view in ours] == [view.size for view in expected]
    footer = list(
        batches(voters_checkpoint(parse_voters(VOTERS), "CONTROLLER", 1, expected[1].max_timestamp))
    )[1]
    assert footer.copy() == expected[1].copy()


def test_many_records_are_split_into_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "MAX_BATCH_BYTES", 20)
    views = list(batches(bootstrap_checkpoint([NoOpRecord()] * 7, 5)))
    assert [view.record_count for view in views] == [1, 2, 2, 2, 1, 1]
    assert [view.base_offset for view in views] == [0, 1, 3, 5, 7, 8]
    assert [view.is_control for view in views] == [True, False, False, False, False, True]


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("3.3", {"metadata.version": 7}),
        ("3.9", {"metadata.version": 21}),
        ("4.0", {"metadata.version": 25, "group.version": 1, "transaction.version": 2}),
    ],
)
def test_levels_of_zero_are_not_written(release: str, expected: dict[str, int]) -> None:
    version, levels = choose_levels({}, metadata_version_named(release), dynamic_quorum=False, unstable=False)
    records: list[Any] = list(first_records(version, levels))
    assert {record.name: record.feature_level for record in records} == expected
    assert levels["kraft.version"] == 0
