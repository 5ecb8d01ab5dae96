"""Log directories: checked, locked, chosen, failed."""

from __future__ import annotations

import errno
import os
import re
import signal
from pathlib import Path

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.storage.directories.log_dirs import LogDirs, in_two_dirs, partition_folders
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.refused import FolderRefused, StorageRefused


def test_missing_folders_are_made_and_locked() -> None:
    disk = MemoryDisk()
    dirs = LogDirs(disk, ["/deep/a", "/b/"])
    dirs.open()
    assert dirs.live == ["/deep/a", "/b"]
    assert disk.exists("/deep/a/.lock")
    assert disk.exists("/b/.lock")


def test_a_folder_in_use_refuses_the_start() -> None:
    disk = MemoryDisk()
    first = LogDirs(disk, ["/a"])
    first.open()
    second = LogDirs(disk, ["/b", "/a"])
    with pytest.raises(StorageRefused, match=r"^/a: another broker.*is using this folder \(\.lock is held\)"):
        second.open()
    # What the second had locked so far is free again, and the first still holds its own.
    LogDirs(disk, ["/b"]).open()
    first.close()
    LogDirs(disk, ["/a"]).open()


def test_a_folder_in_use_by_another_process_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.mkdir()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            held = LogDirs(FolderDisk(), [str(path)])
            held.open()
            os.write(write, b"y")
            signal.pause()
        finally:
            os._exit(0)
    try:
        assert os.read(read, 1) == b"y"
        with pytest.raises(StorageRefused, match=r"is using this folder"):
            LogDirs(FolderDisk(), [str(path)]).open()
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)
    LogDirs(FolderDisk(), [str(path)]).open()


def test_no_folder_and_the_same_folder_twice_are_refused() -> None:
    with pytest.raises(StorageRefused, match=r"log.dirs names no folder"):
        LogDirs(MemoryDisk(), [])
    with pytest.raises(FolderRefused, match=r"^/a: is named twice in log.dirs"):
        LogDirs(MemoryDisk(), ["/a", "/b/../a/"])


@pytest.mark.parametrize(
    ("code", "kinds", "line"),
    [
        (errno.EACCES, {Kind.LIST}, "permission denied; let this user read and write it"),
        (errno.EROFS, {Kind.LOCK}, "the file system is read-only; mount it writable"),
        (errno.ENOSPC, {Kind.LOCK}, "no space is left on the device; free space there"),
        (errno.EIO, {Kind.STAT}, "the device reports an input/output error; check it"),
        (errno.ESTALE, {Kind.LIST}, os.strerror(errno.ESTALE)),
    ],
)
def test_a_folder_that_cannot_serve_is_offline_and_the_others_serve(
    code: int, kinds: set[Kind], line: str
) -> None:
    # M-E5
    disk = SimulatedDisk(SeededRandom(1))
    disk.make_folder("/bad")
    disk.make_folder("/good")
    disk.fail(1, code, kinds=kinds, path="/bad*", times=99)
    dirs = LogDirs(disk, ["/bad", "/good"])
    dirs.open()
    assert dirs.live == ["/good"]
    assert dirs.offline["/bad"].startswith(f"/bad: {line}")


def test_a_file_in_place_of_a_folder_is_offline() -> None:
    disk = MemoryDisk()
    disk.make_folder("/d")
    disk.open("/d/file", create=True).close()
    dirs = LogDirs(disk, ["/d/file", "/d/good", "/d/file/below"])
    dirs.open()
    assert dirs.live == ["/d/good"]
    assert dirs.offline["/d/file"].startswith("/d/file: is not a folder")
    assert dirs.offline["/d/file/below"].startswith("/d/file/below: a part of its path is not a folder")


def test_when_no_folder_can_serve_the_start_is_refused() -> None:
    # M-E5
    disk = MemoryDisk()
    disk.make_folder("/d")
    for name in ("x", "y"):
        disk.open(f"/d/{name}", create=True).close()
    with pytest.raises(StorageRefused) as refusal:
        LogDirs(disk, ["/d/x", "/d/y"]).open()
    assert re.fullmatch(
        r"none of log\.dirs can be used: /d/x: is not a folder; .*; /d/y: is not a folder; .*",
        str(refusal.value),
    )


def test_a_failure_at_run_time_is_reported_once_and_frees_the_lock() -> None:
    # M-E5
    disk = MemoryDisk()
    dirs = LogDirs(disk, ["/a", "/b"])
    dirs.open()
    reported: list[tuple[str, str]] = []
    dirs.on_offline(lambda path, reason: reported.append((path, reason)))
    dirs.fail("/a", OSError(errno.EIO, "I/O error"))
    dirs.fail("/a", OSError(errno.EIO, "I/O error"))
    assert reported == [("/a", "/a: the device reports an input/output error; check it and restart")]
    assert dirs.live == ["/b"]
    assert not dirs.is_live("/a")
    LogDirs(disk, ["/a"]).open()
    with pytest.raises(KafkaError) as refusal:
        dirs.is_live("/c")
    assert refusal.value.code is ErrorCode.LOG_DIR_NOT_FOUND


def test_marking_the_last_folder_offline_refuses_the_start() -> None:
    dirs = LogDirs(MemoryDisk(), ["/a"])
    dirs.open()
    with pytest.raises(StorageRefused, match=r"none of log.dirs can be used: its meta.properties is damaged"):
        dirs.mark_offline("/a", "its meta.properties is damaged")


def test_a_new_partition_goes_where_the_fewest_are() -> None:
    # M-E1
    dirs = LogDirs(MemoryDisk(), ["/a", "/b", "/c"])
    dirs.open()
    assert dirs.by_fewest_partitions({"/a": 2, "/b": 1}) == ["/c", "/b", "/a"]
    assert dirs.by_fewest_partitions({}) == ["/a", "/b", "/c"]
    dirs.fail("/c", OSError(errno.EIO, ""))
    assert dirs.by_fewest_partitions({"/a": 2, "/b": 1}) == ["/b", "/a"]


def test_partition_folders_are_distinguished_from_other_entries(golden_logs: Path) -> None:
    found = partition_folders(FolderDisk(), str(golden_logs / "kraft-4.1.0" / "data"))
    names = [name for name, _ in found]
    assert "__cluster_metadata-0" not in names  # Raft opens it itself
    assert ("compacted-0", TopicPartition("compacted", 0)) in found
    assert sum(name.endswith("-delete") for name in names) == 3
    assert {partition for name, partition in found if name.startswith("gone-")} == {
        ("gone", 0),
        ("gone", 1),
        ("gone", 2),
    }


def test_a_folder_of_another_kind_is_refused() -> None:
    disk = MemoryDisk()
    for name in ("a-0", "remote-log-index-cache", "lost+found"):
        disk.make_folder(f"/data/{name}")
    with pytest.raises(StorageRefused, match=r"^/data: .*'lost\+found' is not of the form topic-partition"):
        partition_folders(disk, "/data")
    disk.remove_tree("/data/lost+found")
    assert partition_folders(disk, "/data") == [("a-0", ("a", 0))]


def test_a_partition_in_two_directories_is_refused_with_advice() -> None:
    line = str(in_two_dirs(TopicPartition("a", 0), "/x/a-0", "/y/a-0"))
    assert "a-0 is in both /x/a-0 and /y/a-0" in line
    assert "delete one of the two" in line
