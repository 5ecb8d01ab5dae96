"""The mark of a clean stop."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.disk.memory_disk import MemoryDisk
from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.storage.directories.clean_shutdown import (
    clean_shutdown_epoch,
    has_clean_shutdown,
    remove_clean_shutdown,
    write_clean_shutdown,
)


@pytest.mark.parametrize(("mode", "epoch"), [("kraft-4.1.0", 10), ("zk-3.9.1", -1)])
def test_the_bytes_are_apache_kafkas(golden_logs: Path, mode: str, epoch: int) -> None:
    # M-E4
    folder = golden_logs / mode / "data"
    assert clean_shutdown_epoch(FolderDisk(), str(folder)) == epoch
    disk = MemoryDisk()
    disk.make_folder("/data")
    write_clean_shutdown(disk, "/data", epoch)
    assert disk.read_bytes("/data/.kafka_cleanshutdown") == (folder / ".kafka_cleanshutdown").read_bytes()


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"7", b"{}", b'{"brokerEpoch":null}', b'{"brokerEpoch":true}', b"\xff", b" " * 5000],
)
def test_the_mark_counts_whatever_it_says(content: bytes) -> None:
    disk = MemoryDisk()
    disk.make_folder("/data")
    assert not has_clean_shutdown(disk, "/data")
    assert clean_shutdown_epoch(disk, "/data") is None
    disk.write_atomically("/data/.kafka_cleanshutdown", content)
    assert has_clean_shutdown(disk, "/data")
    assert clean_shutdown_epoch(disk, "/data") is None


def test_a_removed_mark_does_not_come_back_with_the_power() -> None:
    """Otherwise the next start would trust logs that were being written."""
    for seed in range(20):
        disk = SimulatedDisk(SeededRandom(seed))
        disk.make_folder("/data")
        write_clean_shutdown(disk, "/data", 3)
        remove_clean_shutdown(disk, "/data")
        disk.power_loss()
        disk.restart()
        assert not has_clean_shutdown(disk, "/data")
