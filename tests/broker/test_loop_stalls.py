"""Nothing holds the loop: whatever waits for the device does so on a worker (F9, F14).

A `World` raises on any sync by its loop; a `Loop` has real threads and notes them.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.batch.view import batches
from barnabas.broker.server import Broker
from barnabas.metadata.bootstrap import METADATA_FOLDER
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.delete_topics import DeleteTopicsRequest
from barnabas.protocol.records import metadata as records
from barnabas.runtime.disk.folder_disk import FolderDisk
from barnabas.runtime.disk.watched_disk import WatchedDisk
from barnabas.runtime.simulated.disk_faults import SYNCS, Kind
from barnabas.storage.cleaner.cleaner import LogCleaner
from barnabas.storage.directories.clean_shutdown import has_clean_shutdown
from barnabas.storage.log.log import Log
from barnabas.storage.log.names import TopicPartition
from barnabas.storage.progress import LoadingWatch
from tests.broker.replicas.test_log_dir_moves import finish, move
from tests.broker.test_server import Loop, create, fetch, produce
from tests.broker.worlds.data_world import World, batch_of

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


# With workers that the test runs by hand


def write(world: World, topic: str, *values: bytes, **more: Any) -> None:
    """Records that are flushed, each on its own."""
    for value in values:
        world.produce(topic, batch_of(value, **more))
        world.replicas.storage.flush(world.log(topic))
        world.work()


def first_flush(world: World) -> None:
    world.topic("orders")
    write(world, "orders", b"a")
    assert world.log("orders").recovery_point == 1


def roll(world: World) -> None:
    """Also of a preallocated segment, all of which is flushed."""
    world.topic("orders", preallocate="true", segment_bytes="1048576")
    write(world, "orders", *[b"x" * 400_000] * 3)
    log = world.log("orders")
    assert log.active.base_offset > 0
    assert not log.is_closed_part_unflushed


def delete(world: World) -> None:
    first_flush(world)
    world.change(records.RemoveTopicRecord(topic_id=world.image.topic_ids["orders"]))
    world.settle()
    assert not world.disk.exists("/data/orders-0")
    assert b"orders" not in world.disk.read_bytes("/data/recovery-point-offset-checkpoint")


def delete_compacted(world: World) -> None:
    """It has an entry in the cleaner's checkpoint."""
    clean(world)
    world.change(records.RemoveTopicRecord(topic_id=world.image.topic_ids["orders"]))
    world.settle()
    assert world.disk.read_bytes("/data/cleaner-offset-checkpoint") == b"0\n0\n"


def fill_table(world: World) -> LogCleaner:
    """So that it is to be cleaned."""
    world.topic("orders", cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0")
    for number in range(10):
        world.tick(600)
        write(world, "orders", b"v%d" % number, key=b"k", time=world.clock.now_ms)
    cleaner = world.replicas.storage.manager.cleaner
    assert cleaner is not None
    return cleaner


def clean(world: World) -> None:
    cleaner = fill_table(world)
    for _ in range(2_000):
        world.tick(20)
        world.workers.run()
        if cleaner.clean_up_to(ORDERS):
            return
    raise AssertionError("it is never cleaned")


def checkpoints(world: World) -> None:
    first_flush(world)
    for _ in range(100):
        world.tick(1_000)
        world.work()
    assert b"orders 0 1" in world.disk.read_bytes("/data/replication-offset-checkpoint")


@pytest.mark.parametrize("work", [first_flush, roll, delete, delete_compacted, clean, checkpoints])
def test_the_loop_never_waits_for_the_device(work: Callable[[World], None]) -> None:
    """F9."""
    world = World(options={"log.cleaner.backoff.ms": "100"})
    work(world)
    assert world.guard.syncs_elsewhere > 0
    world.stop()
    assert has_clean_shutdown(world.disk, "/data")
    world.guard.check()


def test_a_move_to_another_directory_never_waits_for_the_device_on_the_loop() -> None:
    """F9: with a copy that has to start again because the records before it were deleted."""
    world = World(dirs=("/data", "/other"))
    world.topic("t")
    write(world, "t", b"a", b"b", b"c")
    assert move(world, "/other") == 0
    world.tick(1)
    future = world.replicas.storage.manager.futures[TopicPartition("t", 0)]
    future.truncate_fully_to(0, sync=False)
    world.replicas.find("t", 0).log.advance_log_start(2)  # type: ignore[union-attr]
    finish(world)
    world.settle()
    assert world.log("t").folder == "/other/t-0"
    assert (world.log("t").log_start_offset, world.log("t").end_offset) == (2, 3)
    assert not world.disk.exists("/data/t-0")
    world.guard.check()


def test_a_copy_takes_gaps_over_only_when_they_are_noted() -> None:
    """F1, F9: a compacted log moves; a crash must not take its gaps for lost batches, the loop must not sync."""
    world = World(dirs=("/data", "/other"), options={"log.cleaner.backoff.ms": "100"})
    clean(world)
    gaps_end = world.log("orders").gaps_end
    assert gaps_of(world.log("orders"))
    assert move(world, "/other", "orders") == 0
    for _ in range(20):
        world.tick(25)
    future = world.replicas.storage.manager.futures[ORDERS]
    assert future.end_offset == 0, "no worker has noted the gaps yet"
    world.workers.run()
    assert world.disk.read_bytes("/other/gap-offset-checkpoint") == b"0\n1\norders 0 %d\n" % gaps_end
    finish(world)
    world.settle()
    assert world.log("orders").folder == "/other/orders-0"
    gaps = gaps_of(world.log("orders"))
    assert gaps
    assert world.disk.read_bytes("/data/gap-offset-checkpoint") == b"0\n0\n"
    world.guard.check()
    end = world.log("orders").end_offset
    world.replicas.storage.manager.dirs.close()  # killed
    again = World(dirs=("/data", "/other"), disk=world.disk, start=False)
    again.image = world.image
    again.start()
    assert (gaps_of(again.log("orders")), again.log("orders").end_offset) == (gaps, end)


def gaps_of(log: Log) -> list[tuple[int, int]]:
    """Where offsets are missing."""
    found, offset = [], log.log_start_offset
    while offset < log.end_offset:
        piece = log.read(offset, 1 << 20, upper_bound=log.end_offset).slice
        assert piece is not None
        for one in batches(piece.read()):
            if one.base_offset > offset:
                found.append((offset, one.base_offset))
            offset = one.next_offset
    return found


def test_a_topic_made_again_waits_for_the_cleaner_to_let_go_of_its_predecessor() -> None:
    """The cleaner flushes before it cleans: its worker would write the old leader epochs to the new log."""
    world = World(options={"log.cleaner.backoff.ms": "100"})
    cleaner = fill_table(world)
    world.produce("orders", batch_of(b"last", key=b"k", time=world.clock.now_ms))
    for _ in range(2_000):
        world.tick(20)
        if cleaner.log_at_work is not None and cleaner.pending_sync is not None:
            break
        world.workers.run()
    assert cleaner.log_at_work is not None
    flush = world.workers.waiting.pop()
    assert getattr(flush[0], "__self__", None) is cleaner.pending_sync
    world.change(records.RemoveTopicRecord(topic_id=world.image.topic_ids["orders"]))
    for _ in range(5):
        world.tick(20)
        world.workers.run()
    new = world.topic("orders")
    assert ORDERS not in world.replicas.partitions
    world.workers.waiting.append(flush)
    world.settle()
    assert world.replicas.partitions[ORDERS].topic_id == new


def test_the_old_log_of_a_move_goes_only_when_the_new_ones_name_lasts() -> None:
    """A power loss must not leave a partition without a log."""
    world = World(dirs=("/data", "/other"))
    world.topic("t")
    world.produce("t", batch_of(b"a"))
    assert move(world, "/other") == 0
    while TopicPartition("t", 0) in world.replicas.storage.manager.futures:
        world.tick(25)
        if TopicPartition("t", 0) in world.replicas.storage.manager.futures:
            world.workers.run()
    assert world.log("t").folder == "/other/t-0"
    assert world.disk.exists("/data/t-0"), "the new name is not synced"
    world.settle()
    assert not world.disk.exists("/data/t-0")


def test_a_stop_in_the_midst_of_a_move_ends_it() -> None:
    """Else the partition would be in both directories at the next start, which is refused."""
    world = World(dirs=("/data", "/other"))
    world.topic("t")
    world.produce("t", batch_of(b"a"))
    assert move(world, "/other") == 0
    while TopicPartition("t", 0) in world.replicas.storage.manager.futures:
        world.tick(25)
        if TopicPartition("t", 0) in world.replicas.storage.manager.futures:
            world.workers.run()
    world.workers.waiting.clear()  # the workers had no time
    world.stop()
    assert not world.disk.exists("/data/t-0")
    again = World(disk=world.disk, dirs=("/data", "/other"), start=False)
    again.image = world.image
    again.start()
    assert again.log("t").end_offset == 1


def test_a_topic_made_again_waits_until_its_predecessor_is_forgotten() -> None:
    """F9: a crash before that would give the new log the old one's recovery point and log start."""
    world = World()
    world.topic("orders")
    write(world, "orders", *[b"a"] * 5)
    world.replicas.find("orders", 0).log.advance_log_start(4)  # type: ignore[union-attr]
    manager = world.replicas.storage.manager
    world.workers.submit(lambda: manager.checkpoint_log_starts("/data"), lambda *_: None)
    world.work()
    world.change(records.RemoveTopicRecord(topic_id=world.image.topic_ids["orders"]))
    world.topic("orders")
    world.tick(1)
    assert ORDERS not in manager.logs
    assert b"orders 0 4" in world.disk.read_bytes("/data/log-start-offset-checkpoint")
    world.settle()
    assert b"orders" not in world.disk.read_bytes("/data/log-start-offset-checkpoint")
    assert world.log("orders").end_offset == 0
    world.produce("orders", batch_of(b"b"))
    assert world.log("orders").end_offset == 1


def test_a_compaction_that_is_called_off_while_names_change_leaves_the_folder_in_shape() -> None:
    """F9: setting cleanup.policy=delete just then synced the folder on the loop."""
    world = World(options={"log.cleaner.backoff.ms": "100"})
    cleaner = fill_table(world)
    for _ in range(2_000):
        world.tick(20)
        if cleaner._round is not None and cleaner._round.is_swapping:
            break
        world.workers.run()
    assert cleaner._round is not None and cleaner._round.is_swapping
    world.change(
        records.ConfigRecord(resource_type=2, resource_name="orders", name="cleanup.policy", value="delete")
    )
    for _ in range(20):
        world.tick(20)
        world.workers.run()
    assert not cleaner.is_cleaning(ORDERS)
    world.stop()
    names = world.disk.names("/data/orders-0")
    assert not [name for name in names if name.endswith((".swap", ".cleaned"))]


# With threads


class SlowDevice:
    """Syncs, but those of the metadata log, that last until they are let go."""

    def __init__(self) -> None:
        self.disk = WatchedDisk(FolderDisk(), self._watch)
        self.is_slow = False
        self.waiting = 0
        self._go = threading.Event()

    def _watch(self, kind: Kind, path: str) -> None:
        on_loop = threading.current_thread() is threading.main_thread()  # the guard has noted that
        if kind in SYNCS and self.is_slow and not on_loop and METADATA_FOLDER not in path:
            self.waiting += 1
            assert self._go.wait(60)

    def go_on(self) -> None:
        self.is_slow = False
        self._go.set()


def test_clients_are_served_while_the_device_deletes_a_topic(loop: Loop, tmp_path: Path) -> None:
    """F9: with syncs of 700 ms everybody waited for 3.7 s."""
    device = SlowDevice()
    broker = loop.broker(tmp_path, device.disk)
    loop.finish(broker.start())
    wire = loop.connect(broker)
    assert create(wire, "t").error_code == 0
    loop.until(lambda: ("t", 0) in broker.replicas.partitions)
    assert produce(wire, "t", b"v").error_code == 0
    device.is_slow = True
    request = DeleteTopicsRequest(topic_names=["t"], topics=[], timeout_ms=10_000)
    assert wire.ask(request, 5).responses[0].error_code == 0
    loop.until(lambda: device.waiting > 0)
    for _ in range(3):
        assert wire.ask(ApiVersionsRequest(), 0).error_code == 0
    device.go_on()
    loop.finish(broker.stop())
    assert loop.guard.syncs_elsewhere > 0


class HeldRecovery:
    """Recovery that stands still in the midst of a log until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_held = threading.Event()
        self._go = threading.Event()
        healthy = LoadingWatch.reading

        def reading(watch: LoadingWatch, path: str, position: int, size: int) -> None:
            assert threading.current_thread() is not threading.main_thread(), "F14: on the loop"
            self.is_held.set()
            assert self._go.wait(60)
            healthy(watch, path, position, size)

        monkeypatch.setattr(LoadingWatch, "reading", reading)

    def go_on(self) -> None:
        self._go.set()


def crashed(loop: Loop, tmp_path: Path) -> Path:
    """What a broker with a record in `t` leaves when it is killed."""
    running, left = tmp_path / "running", tmp_path / "left"
    running.mkdir()
    broker = loop.broker(running)
    loop.finish(broker.start())
    wire = loop.connect(broker)
    assert create(wire, "t").error_code == 0
    loop.until(lambda: ("t", 0) in broker.replicas.partitions)
    assert produce(wire, "t", b"survives").error_code == 0
    # A worker may be replacing a checkpoint: its temporary file goes away.
    shutil.copytree(running, left, ignore=shutil.ignore_patterns("*.tmp"))
    loop.finish(broker.stop())
    return left


def started(loop: Loop, folder: Path) -> tuple[Broker, Any]:
    broker = loop.broker(folder)
    return broker, broker.start()


def test_recovery_leaves_the_loop_alone(loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F14: no metrics page, no signal and no controller while a log was recovered."""
    folder = crashed(loop, tmp_path)
    held = HeldRecovery(monkeypatch)
    broker, start = started(loop, folder)
    loop.until(held.is_held.is_set)
    ticks = loop.reactor.ticks
    loop.serve_for_a_while()
    assert loop.reactor.ticks > ticks
    assert broker.metadata.leader_id == broker.node.node_id
    assert not start.done
    held.go_on()
    loop.finish(start)
    assert b"survives" in fetch(loop.connect(broker), "t")
    loop.finish(broker.stop())


def test_a_stop_during_recovery_is_quick_and_loses_nothing(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F14: SIGTERM had no effect before the last log was open."""
    # cluster.md 15
    folder = crashed(loop, tmp_path)
    with monkeypatch.context() as patch:
        held = HeldRecovery(patch)
        broker, start = started(loop, folder)
        loop.until(held.is_held.is_set)
        stopped = broker.stop()
        loop.serve_for_a_while()
        held.go_on()
        loop.finish(stopped)
        assert not start.done
        assert not has_clean_shutdown(FolderDisk(), str(folder))
    broker, start = started(loop, folder)
    loop.finish(start)
    assert b"survives" in fetch(loop.connect(broker), "t")
    loop.finish(broker.stop())
