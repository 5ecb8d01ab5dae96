"""Logs on timers and workers: flushes, log tasks, compaction."""

from __future__ import annotations

import errno
from dataclasses import replace

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.broker.handlers import produce
from barnabas.runtime.loop.workers import WorkersBusyError
from barnabas.storage.log.deferred_work import FlushPlan
from barnabas.storage.log.names import TopicPartition
from tests.broker.worlds.data_world import (
    World,
    batch_of,
    codes,
    fetch_request,
    partition_answers,
    produce_request,
    result_of,
)


def produce_all(world: World, value: bytes, *, acks: int) -> object:
    return world.ask(produce, produce_request("orders", {0: batch_of(value)}, acks=acks), 12)


@pytest.mark.parametrize("acks", [1, -1])
def test_flush_messages_answers_after_the_flush(acks: int) -> None:
    world = World()
    world.work()
    world.topic("orders", flush_messages="1")
    first = produce_all(world, b"a", acks=acks)
    second = produce_all(world, b"b", acks=acks)
    world.tick()
    found = partition_answers(world.fetch(fetch_request("orders", {0: 0})))
    assert found["orders", 0].high_watermark == 0  # records that a crash might lose are not readable
    assert len(world.workers.waiting) == 1
    world.workers.run()
    world.tick()
    answer = result_of(first, 12).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 0)
    assert not second.done  # type: ignore[attr-defined]  # a Promise
    world.workers.run()
    world.tick()
    assert result_of(second, 12).responses[0].partition_responses[0].base_offset == 1
    assert world.log("orders").recovery_point == 2


def test_flush_messages_above_one_flushes_each_so_many() -> None:
    world = World()
    world.work()
    world.topic("orders", flush_messages="3")
    assert codes(world.produce("orders", batch_of(b"a"), batch_of(b"b"))) == [0, 0]
    assert world.workers.waiting == []
    third = produce_all(world, b"c", acks=1)
    world.workers.run()
    world.tick()
    assert result_of(third, 12).responses[0].partition_responses[0].error_code == 0
    assert world.log("orders").recovery_point == 3


def test_after_a_kill_consumers_see_at_once_what_flush_messages_had_flushed() -> None:
    """F3: the high watermark was held at the recovery point of the checkpoint until the first flush task, after
    30 s: consumers saw an empty log, and coordinators could not load theirs."""
    world = World()
    world.work()
    world.topic("orders", flush_messages="1")
    for value in (b"a", b"b"):
        produce_all(world, value, acks=-1)
        world.workers.run()
        world.tick()
    world.replicas.storage.manager.dirs.close()  # the process has died, and no checkpoint was written
    again = World(disk=world.disk, start=False)
    again.clock.now_ms = world.clock.now_ms
    again.image = world.image
    again.start()
    found = partition_answers(again.fetch(fetch_request("orders", {0: 0})))["orders", 0]
    assert found.high_watermark == 2
    assert again.log("orders").recovery_point == 2


def test_a_topic_that_is_no_longer_compacted_is_no_longer_cleaned() -> None:
    world = World()
    world.topic("orders", cleanup_policy="compact", segment_bytes="1048576", max_message_bytes="2000000")
    for _ in range(3):
        world.produce("orders", batch_of(b"x" * 600_000, key=b"k"))
    storage, log, name = world.replicas.storage, world.log("orders"), TopicPartition("orders", 0)
    cleaner = storage.manager.cleaner
    assert cleaner is not None
    while not cleaner.is_cleaning(name):
        world.clock.now_ms += cleaner.step()
    storage.set_options(name, log, replace(log.options, segment_ms=1000))
    assert cleaner.is_cleaning(name)
    storage.set_options(name, log, replace(log.options, cleanup_compact=False))
    assert not cleaner.is_cleaning(name)


def test_a_flush_that_fails_takes_the_directory_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.work()
    world.topic("orders", flush_messages="1")
    waiting = produce_all(world, b"a", acks=1)

    def fail(plan: FlushPlan) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(FlushPlan, "run", fail)
    (work, done) = world.workers.waiting.pop()
    with pytest.raises(OSError, match="broken"):
        fail(None)  # type: ignore[arg-type]  # what the worker would do
    done(None, OSError(errno.EIO, "broken"))
    world.tick()
    answer = result_of(waiting, 12).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert world.failed_dirs == ["/data"]
    assert work is not None


def test_workers_that_take_no_more_are_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.work()
    world.topic("orders", flush_messages="1")
    waiting = produce_all(world, b"a", acks=1)
    (_, done) = world.workers.waiting.pop()
    closed: list[FlushPlan] = []
    with monkeypatch.context() as patch:
        patch.setattr(FlushPlan, "close", lambda plan: closed.append(plan))
        done(None, RuntimeError("busy"))
    assert len(closed) == 1, "a plan that is not run lets go of its files"
    assert world.workers.waiting == []
    world.tick(200)
    world.work()
    assert result_of(waiting, 12).responses[0].partition_responses[0].error_code == 0


def test_a_closed_segment_is_flushed_in_the_background() -> None:
    world = World()
    world.topic("orders", segment_bytes="1048576", max_message_bytes="2000000")
    value = b"x" * 600_000
    assert codes(world.produce("orders", batch_of(value), batch_of(value))) == [0, 0]
    log = world.log("orders")
    assert log.recovery_point == 0
    world.workers.run()
    assert log.recovery_point == 1


def test_a_segment_closed_after_a_flush_is_flushed_once_more() -> None:
    """Its indexes were trimmed since."""
    world = World()
    world.topic("orders", segment_bytes="1048576", max_message_bytes="2000000")
    value = b"x" * 600_000
    world.produce("orders", batch_of(value))
    log = world.log("orders")
    world.replicas.storage.flush(log)
    world.work()
    world.produce("orders", batch_of(value))
    assert (log.recovery_point, log.active.base_offset) == (1, 1)
    assert log.is_closed_part_unflushed
    world.work()
    assert not log.is_closed_part_unflushed
    assert log.recovery_point == 1, "what is not closed is left to the system"


def test_retention_and_checkpoints_run_by_their_timers() -> None:
    world = World(
        options={
            "log.retention.check.interval.ms": "1000",
            "replica.high.watermark.checkpoint.interval.ms": "500",
        }
    )
    world.topic("orders", retention_ms="5000", file_delete_delay_ms="10")
    world.produce("orders", batch_of(b"a", time=world.clock.now_ms - 1000))
    for _ in range(10):
        world.tick(500)
        world.work()
    log = world.log("orders")
    assert (log.log_start_offset, log.end_offset) == (1, 1)
    assert b"orders 0 1" in world.disk.read_bytes("/data/replication-offset-checkpoint")


def test_compaction_runs_in_slices_between_requests() -> None:
    world = World(options={"log.cleaner.backoff.ms": "100"})
    world.topic(
        "table",
        cleanup_policy="compact",
        segment_ms="1000",
        min_cleanable_dirty_ratio="0",
        file_delete_delay_ms="10",
    )
    for number in range(20):
        world.produce("table", batch_of(b"v%d" % number, key=b"k", time=world.clock.now_ms))
        world.tick(600)
        world.work()
    for _ in range(30):
        world.tick(200)
        world.work()
    log = world.log("table")
    found = partition_answers(world.fetch(fetch_request("table", {0: 0})))["table", 0]
    assert log.segments[0].base_offset == 0
    assert sum(segment.size for segment in log.segments) < 20 * len(batch_of(b"v0", key=b"k"))
    assert found.error_code == 0


def test_a_job_that_fails_stops_neither_the_others_nor_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """F5, of its kind: one fault, and no log task of this broker ran any more."""
    world = World()
    world.topic("orders")
    log_tasks = world.replicas.storage.log_tasks
    healthy = log_tasks.run_due

    def broken(pieces: int = 1) -> int:
        raise RuntimeError("planted")

    monkeypatch.setattr(log_tasks, "run_due", broken)
    with pytest.raises(RuntimeError, match="planted"):
        world.tick(60_000)
    ran: list[int] = []

    def whole(pieces: int = 1) -> int:
        ran.append(pieces)
        return healthy(pieces)

    monkeypatch.setattr(log_tasks, "run_due", whole)
    world.tick(60_000)
    assert ran


def test_a_fault_in_cleaning_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """F5, of its kind."""
    world = World()
    cleaner = world.replicas.storage.manager.cleaner
    assert cleaner is not None
    healthy = cleaner.step
    steps: list[str] = []

    def step() -> int:
        steps.append("step")
        if len(steps) == 1:
            raise RuntimeError("planted")
        return healthy()

    monkeypatch.setattr(cleaner, "step", step)
    with pytest.raises(RuntimeError, match="planted"):
        world.tick(60_000)
    world.tick(60_000)
    assert len(steps) > 1


def test_jobs_end_with_the_broker() -> None:
    world = World()
    world.topic("orders")
    world.stop()
    assert len(world.timers) == 0
    world.tick(100_000)


def test_jobs_that_find_the_workers_busy_come_back() -> None:
    """Ten thousand new partitions at once are more than the workers' queue takes."""
    world = World()
    world.work()
    topic_id = world.topic("orders")
    world.tick(5)
    work = world.workers.waiting[:]
    world.workers.waiting.clear()
    assert work
    for _, done in work:
        done(None, WorkersBusyError("too many wait already"))
    assert not world.disk.exists("/data/orders-0/partition.metadata")
    world.tick(200)
    world.work()
    assert str(topic_id).encode() in world.disk.read_bytes("/data/orders-0/partition.metadata")
