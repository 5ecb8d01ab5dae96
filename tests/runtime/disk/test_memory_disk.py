"""Files in memory: small ones without a descriptor, large ones with one that is closed when unused."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import replace

import pytest

from barnabas.runtime.disk import descriptor_io
from barnabas.runtime.disk.descriptor_io import ALL_FEATURES
from barnabas.runtime.disk.memory_disk import SMALL_FILE_BYTES, MemoryDisk


def own_descriptors() -> int:
    return len(os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"))


class FixedClock:
    def __init__(self) -> None:
        self.now_ms = 1000

    def wall_ms(self) -> int:
        return self.now_ms

    def monotonic_ns(self) -> int:
        return self.now_ms * 1_000_000


@pytest.mark.parametrize("memory_files", [True, False])
def test_only_large_files_use_descriptors_and_release_them(memory_files: bool) -> None:
    gc.collect()  # What other tests left behind is closed before it is counted.
    before = own_descriptors()
    disk = MemoryDisk(features=replace(ALL_FEATURES, memory_files=memory_files and ALL_FEATURES.memory_files))
    for number in range(50):
        disk.open(f"/small{number}", create=True).append([bytes(SMALL_FILE_BYTES)])
    assert own_descriptors() == before
    for number in range(10):
        disk.open(f"/large{number}", create=True).append([bytes(SMALL_FILE_BYTES), b"!"])
    assert own_descriptors() == before + 10
    part = disk.open("/large0").slice(SMALL_FILE_BYTES - 1, 10)
    for number in range(10):
        disk.remove(f"/large{number}")
    assert own_descriptors() == before + 1
    sub = part.sub(1, 1)
    del part
    assert sub.read() == b"!"
    del sub
    assert own_descriptors() == before


def test_a_file_keeps_its_bytes_when_it_outgrows_memory() -> None:
    disk = MemoryDisk()
    file = disk.open("/a", create=True)
    file.append([b"start"])
    part = file.slice(0, 5)
    file.write_at(SMALL_FILE_BYTES + 10, b"end")
    assert part.read() == b"start"
    assert file.read_at(0, 7) == b"start\0\0"
    assert file.read_at(SMALL_FILE_BYTES + 8, 99) == b"\0\0end"
    file.truncate(3)
    assert file.read_at(0, 99) == b"sta"


def test_a_file_that_cannot_grow_raises_and_keeps_its_content(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_features: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(descriptor_io, "nameless_file", refuse)
    file = MemoryDisk().open("/a", create=True)
    file.append([b"start"])
    with pytest.raises(OSError, match="Too many"):
        file.append([bytes(SMALL_FILE_BYTES)])
    assert file.read_at(0, 99) == b"start"


def test_times_come_from_the_clock() -> None:
    clock = FixedClock()
    disk = MemoryDisk(clock=clock)
    file = disk.open("/a", create=True)
    assert disk.modified_ms("/a") == disk.modified_ms("/") == 1000
    clock.now_ms = 2000
    file.append([b"x"])
    assert (disk.modified_ms("/a"), disk.modified_ms("/")) == (2000, 1000)


def test_disks_are_independent() -> None:
    first, second = MemoryDisk(), MemoryDisk()
    first.open("/a", create=True)
    assert second.names("/") == []
    lock = first.lock("/.lock")
    second.lock("/.lock")
    lock.release()
