"""Checkpoint files: byte for byte, and damaged ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import PowerLost
from barnabas.storage.directories.checkpoints import (
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    MAX_CHECKPOINT_BYTES,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
    CheckpointFile,
    OffsetCheckpoint,
)
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.refused import DamagedFile


def offsets_in(data: bytes) -> dict[TopicPartition, int]:
    disk = MemoryDisk()
    disk.make_folder("/data")
    disk.write_atomically("/data/some", data)
    return OffsetCheckpoint(disk, "/data", "some").read()


def test_the_bytes_are_apache_kafkas() -> None:
    # M-E1
    disk = MemoryDisk()
    disk.make_folder("/data")
    checkpoint = OffsetCheckpoint(disk, "/data", RECOVERY_POINT_CHECKPOINT)
    checkpoint.write(
        {TopicPartition("b", 0): 4, TopicPartition("a", 11): 2**63 - 1, TopicPartition("a", 2): 0}
    )
    assert disk.read_bytes(checkpoint.path) == b"0\n3\na 2 0\na 11 9223372036854775807\nb 0 4\n"
    assert list(checkpoint.read()) == [("a", 2), ("a", 11), ("b", 0)]


@pytest.mark.parametrize("mode", ["kraft-3.9.1", "kraft-4.1.0", "zk-3.9.1"])
def test_recorded_checkpoints_are_read_and_written_alike(golden_logs: Path, mode: str) -> None:
    # M-E1
    folder = golden_logs / mode / "data"
    for name in (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, REPLICATION_CHECKPOINT, CLEANER_CHECKPOINT):
        recorded = (folder / name).read_bytes()
        found = OffsetCheckpoint(FolderDisk(), str(folder), name).read()
        disk = MemoryDisk()
        disk.make_folder("/data")
        OffsetCheckpoint(disk, "/data", name).write(found)
        written = disk.read_bytes(f"/data/{name}")
        assert sorted(written.splitlines()[2:]) == sorted(recorded.splitlines()[2:])
        assert written.splitlines()[:2] == recorded.splitlines()[:2]


def test_a_new_checkpoint_is_an_empty_file_and_holds_nothing() -> None:
    disk = MemoryDisk()
    disk.make_folder("/data")
    checkpoint = OffsetCheckpoint(disk, "/data", "some")
    assert checkpoint.read() == {}
    checkpoint.create()
    assert disk.read_bytes("/data/some") == b""
    assert checkpoint.read() == {}
    checkpoint.write({TopicPartition("a", 0): 1})
    checkpoint.create()
    assert checkpoint.read() == {TopicPartition("a", 0): 1}


@pytest.mark.parametrize(
    "data", [b"", b"0\n", b"0", b"0\n0\n", b"0\r\n1\r\na 0 7\r\n", b"+0\n1\na\t0  +7", b"0\n1\na 0 7"]
)
def test_what_java_reads_is_read(data: bytes) -> None:
    assert offsets_in(data) in ({}, {TopicPartition("a", 0): 7})


@pytest.mark.parametrize(
    ("data", "line", "fault"),
    [
        (b"x\n1\na 0 1\n", 1, "expected the version number, found 'x'"),
        (b"1\n1\na 0 1\n", 1, "has version 1, only version 0 is known"),
        (b"0\nmany\na 0 1\n", 2, "expected the number of entries, found 'many'"),
        (b"0\n-1\n", 2, "expected the number of entries"),
        (b"0\n2\na 0 1\n", 2, "announces 2 entries, 1 follow"),
        (b"0\n1\na 0 1\nb 0 1\n", 2, "announces 1 entries, 2 follow"),
        (b"0\n2147483647\na 0 1\n", 2, "announces 2147483647 entries, 1 follow"),
        (b"0\n2\na 0 1\nb 0\n", 4, "malformed entry 'b 0'"),
        (b"0\n1\na zero 1\n", 3, "malformed entry"),
        (b"0\n1\na 0 9223372036854775808\n", 3, "malformed entry"),
        (b"0\n1\na 2147483648 1\n", 3, "malformed entry"),
        (b"0\n1\na 1_0 1\n", 3, "malformed entry"),
        ("0\n1\na ٣ 1\n".encode(), 3, "malformed entry"),
        (b"0\n1\n\xff 0 1\n", 3, "is not UTF-8 text"),
        (b"0\n1\n" + b"x" * 5000 + b"\n", 3, "malformed entry 'xxx"),
    ],
)
def test_damage_is_refused_with_file_and_line(data: bytes, line: int, fault: str) -> None:
    with pytest.raises(DamagedFile, match=re.escape(f"/data/some, line {line}: {fault}")) as refusal:
        offsets_in(data)
    assert len(str(refusal.value)) < 200


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        found = offsets_in(data)
    except DamagedFile:
        return
    assert all(isinstance(offset, int) for offset in found.values())


def test_a_huge_file_is_refused_unread() -> None:
    disk = MemoryDisk()
    disk.make_folder("/data")
    file = disk.open("/data/some", create=True)
    file.truncate(MAX_CHECKPOINT_BYTES + 1)
    with pytest.raises(DamagedFile, match="has 268435457 bytes"):
        OffsetCheckpoint(disk, "/data", "some").read()


def test_power_loss_leaves_the_old_or_the_new() -> None:
    # M-E4
    old, new = {TopicPartition("a", 0): 1}, {TopicPartition("a", 0): 2, TopicPartition("b", 0): 3}
    seen = set()
    for operation in range(1, 12):
        for seed in range(4):
            disk = SimulatedDisk(SeededRandom(seed))
            disk.make_folder("/data")
            disk.sync_folder("/")
            checkpoint = OffsetCheckpoint(disk, "/data", "some")
            checkpoint.write(old)
            disk.crash_after(operation)
            try:
                checkpoint.write(new)
                disk.power_loss()
                expected = [new]
            except PowerLost:
                expected = [old, new]
            disk.clear_faults()
            disk.restart()
            found = checkpoint.read()
            assert found in expected
            seen.add(len(found))
    assert seen == {1, 2}


def test_entries_of_another_format_share_the_file_format() -> None:
    disk = MemoryDisk()
    disk.make_folder("/data")
    numbers: CheckpointFile[int] = CheckpointFile(
        disk, "/data/numbers", 3, str, lambda line: int(line) if line.isdigit() else None
    )
    numbers.write([1, 2])
    assert disk.read_bytes("/data/numbers") == b"3\n2\n1\n2\n"
    assert numbers.read() == [1, 2]
