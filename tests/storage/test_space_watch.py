"""Free space: when a directory counts as full, when it has room, and how often that is looked at."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from barnabas.runtime.random import SeededRandom
from barnabas.runtime.simulated.disk import SimulatedDisk
from barnabas.runtime.simulated.disk_faults import Kind
from barnabas.storage.failure import DirectoryFull
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.space_watch import (
    FLUSH_MS,
    INTERVAL_MS,
    MAX_RESERVE_BYTES,
    SHORTEST_MS,
    TRIED_FILE,
    Space,
    SpaceWatch,
)
from tests.storage.logs import batch, offsets
from tests.storage.worlds import manager_of

A0 = TopicPartition("a", 0)


class World:
    def __init__(self) -> None:
        self.disk = SimulatedDisk(SeededRandom(1))
        self.manager = manager_of(self.disk)
        self.log = self.manager.get_or_create(A0, is_new=True)
        self.log.append_as_leader(batch(2), 0)
        self.flushes = True
        self.wait_ms = 0
        self.watch = SpaceWatch(self.manager, self.offload, self.after, self.flush)

    def offload(self, call: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        call()
        done(None)

    def after(self, delay_ms: int, look: Callable[[], None]) -> None:
        self.wait_ms = delay_ms

    def flush(self, log: Log, up_to: int) -> None:
        if self.flushes:
            log.flush(up_to)

    def look(self) -> bool:
        """Whether the directory is full."""
        self.watch.look()
        return "/data" in self.manager.full

    def free(self, size: int, total: int = 1_000_000) -> None:
        """A file leaves so many bytes of so large a file system."""
        self.disk.remove("/filler")
        self.disk.capacity_bytes = total
        self.disk.open("/filler", create=True).append([bytes(total - self.disk.used_bytes() - size)])


def test_a_reserve_is_kept_and_twice_as_much_is_room() -> None:
    world = World()
    world.free(50_000)
    assert not world.look()
    world.free(49_999)
    assert world.look()
    with pytest.raises(DirectoryFull, match="49999 bytes are free on the device, and 50000 are kept"):
        world.log.append_as_leader(batch(1), 0)
    world.free(99_999)
    assert world.look()
    world.free(100_000)
    assert not world.look()
    world.log.append_as_leader(batch(1), 0)
    assert offsets(world.log) == [0, 1, 2]
    assert Space(0, 10**15).reserve_bytes == MAX_RESERVE_BYTES


def test_a_quota_is_found_by_trying() -> None:
    world = World()
    world.disk.fail(1, errno.EDQUOT, kinds={Kind.WRITE}, times=10**6)
    with pytest.raises(DirectoryFull, match="the disk quota is used up") as full:
        world.log.append_as_leader(batch(1), 0)
    world.manager.fail("/data", full.value)
    assert world.look(), "the device has space"
    world.disk.clear_faults()
    assert not world.look()
    assert not [name for name in world.disk.names("/data") if TRIED_FILE in name]


def test_writes_wait_for_the_flush_of_what_was_cut_off() -> None:
    world = World()
    world.disk.fail(1, errno.ENOSPC, kinds={Kind.WRITE}, path="*.log", kept_bytes=20)
    with pytest.raises(DirectoryFull) as full:
        world.log.append_as_leader(batch(1), 0)
    world.manager.fail("/data", full.value)
    world.flushes = False
    assert world.look()
    assert world.wait_ms == FLUSH_MS
    world.flushes = True
    assert not world.look()
    assert world.wait_ms == INTERVAL_MS


def test_the_less_space_is_left_the_sooner_it_is_looked_at_again() -> None:
    world = World()
    world.look()
    assert world.wait_ms == INTERVAL_MS
    world.free(51_000)
    world.look()
    assert world.wait_ms == SHORTEST_MS
    assert SHORTEST_MS < Space(300 << 20, 1 << 40).next_look_ms < INTERVAL_MS


def test_a_directory_that_cannot_be_measured_is_left_as_it_is() -> None:
    world = World()
    world.disk.fail(1, errno.EIO, kinds={Kind.STAT}, times=10**6)
    assert not world.look()
    assert world.manager.dirs.live == ["/data"]
    assert world.wait_ms == INTERVAL_MS
