"""partition.metadata: 43 bytes that name the topic id."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas.base.ids import METADATA_TOPIC_ID, Uuid
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.storage.directories.partition_metadata import (
    decode_partition_metadata,
    encode_partition_metadata,
    read_partition_metadata,
    write_partition_metadata,
)
from barnabas.storage.refused import DamagedFile


def test_recorded_files_are_read_and_written_alike(golden_logs: Path) -> None:
    # M-E1
    found = sorted(golden_logs.glob("*/data/*/partition.metadata"))
    assert len(found) > 20
    for path in found:
        topic_id = read_partition_metadata(FolderDisk(), str(path.parent))
        assert topic_id is not None
        assert encode_partition_metadata(topic_id) == path.read_bytes()
        assert len(path.read_bytes()) == 43
        assert (topic_id == METADATA_TOPIC_ID) == (path.parent.name == "__cluster_metadata-0")


def test_a_folder_without_the_file_has_no_topic_id() -> None:
    disk = MemoryDisk()
    disk.make_folder("/data/a-0")
    assert read_partition_metadata(disk, "/data/a-0") is None
    topic_id = Uuid.parse("k4UaK_bzSu6FNC6colHb3w")
    write_partition_metadata(disk, "/data/a-0", topic_id)
    assert read_partition_metadata(disk, "/data/a-0") == topic_id


def test_a_later_version_is_taken_as_apache_kafka_takes_it() -> None:
    assert str(decode_partition_metadata("f", b"version: 7\ntopic_id: k4UaK_bzSu6FNC6colHb3w\n"))


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "f, line 1: expected 'version: ...'"),
        (b"version: 0", "f, line 2: expected 'topic_id: ...'"),
        (b"version 0\ntopic_id: k4UaK_bzSu6FNC6colHb3w", "line 1"),
        (b"version: x\ntopic_id: k4UaK_bzSu6FNC6colHb3w", "f, line 1: the version is not a number"),
        (b"version: -1\ntopic_id: k4UaK_bzSu6FNC6colHb3w", "f, line 1: the version is not a number"),
        (b"version: 0\ntopic_id: k4UaK", "f, line 2: the id 'k4UaK'"),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "f, line 2: the topic id is the reserved id"),
        (b"\xff\xfe", "f: is not UTF-8 text"),
    ],
)
def test_damage_is_refused(data: bytes, fault: str) -> None:
    with pytest.raises(DamagedFile, match=re.escape(fault)):
        decode_partition_metadata("f", data)


def test_every_cut_and_flip_is_read_as_an_id_or_refused() -> None:
    whole = encode_partition_metadata(Uuid.parse("k4UaK_bzSu6FNC6colHb3w"))
    torn = [whole[:size] for size in range(len(whole))]
    torn += [
        whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :] for at in range(43) for bit in range(8)
    ]
    refused = 0
    for data in torn:
        try:
            assert len(decode_partition_metadata("f", data)) == 16
        except DamagedFile:
            refused += 1
    assert refused > 150


def test_a_huge_file_is_refused_unread() -> None:
    disk = MemoryDisk()
    disk.make_folder("/data/a-0")
    disk.write_atomically("/data/a-0/partition.metadata", b"version: 0\n" * 1000)
    with pytest.raises(DamagedFile, match="more than 4096 bytes"):
        read_partition_metadata(disk, "/data/a-0")
