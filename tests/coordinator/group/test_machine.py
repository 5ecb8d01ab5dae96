from __future__ import annotations

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.batch.build import build
from barnabas.batch.columnar import columns
from barnabas.batch.records import Record
from barnabas.coordinator.entry import encode
from barnabas.coordinator.group import machine as machine_module
from barnabas.coordinator.group.classic.group import ClassicGroup
from barnabas.coordinator.group.classic.records import new_group_entry
from barnabas.coordinator.group.machine import MAX_WARNINGS_PER_LOAD, NEXT_CLEANUP_STEP_MS, GroupMachine
from barnabas.coordinator.shard import TIMER_RETRY_MS
from tests.coordinator.group.worlds.offsets_world import OffsetsWorld
from tests.coordinator.shard_world import ShardWorld


def test_an_unreadable_record_is_skipped_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    machine = GroupMachine(3)
    good = encode(new_group_entry(ClassicGroup("good", 0)))
    rows: list[tuple[bytes | None, bytes | None]] = [
        (None, b"no key"),
        (b"", b""),
        (b"\x7f\xff\0\1x", b"\0\0"),
        (b"\0\2\0\3bad", b"\0\x63"),
        (b"\0\2\0\3bad", b"\0\3\0"),
        (b"\0\1\0\3bad", b"\0\3"),
        good,
    ]
    records = [Record(10 + index, 0, key, value) for index, (key, value) in enumerate(rows)]
    machine.load(columns(bytes(build(records))), None)
    assert [group.group_id for group in machine.table] == ["good"]
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == len(rows) - 1
    for offset, line in enumerate(lines, 10):
        assert f"__consumer_offsets-3: the record at offset {offset} is skipped: " in line


def test_records_of_unsupported_group_types_are_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    machine = GroupMachine(0)
    share_group = b"\0\x0b\0\1g"
    machine.load(columns(bytes(build([Record(0, 0, share_group, b"\0\0\0\0\0\1\0\0")]))), None)
    assert "ShareGroup" in caplog.text
    assert len(machine.table) == 0


def test_many_unreadable_records_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    world = ShardWorld(lambda: GroupMachine(3))
    unknown: list[tuple[bytes, bytes | None]] = [(b"\x7f\xff", b"")] * 10_000
    world.store.batches.append((unknown, None))
    world.reload()
    lines = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
    assert len(lines) == MAX_WARNINGS_PER_LOAD + 1
    assert lines[-1] == "__consumer_offsets-3: 10000 records were skipped in total"


@pytest.mark.parametrize("at_once", [1, 100])
def test_a_cleanup_that_the_log_rejects_is_retried(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rejected cleanup has removed nothing: it is retried soon, not only in the next round."""
    monkeypatch.setattr(machine_module, "MAX_CHECKED_PER_CLEANUP_STEP", at_once)
    world = OffsetsWorld(offsets_retention_minutes="1", offsets_retention_check_interval_ms="600000")
    for number in range(5):
        world.commit(f"g{number}", {"t": {0: number}})
    world.store.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    world.pass_ms(600_000)
    assert len(world.machine.table) == world.machine.offsets.store.count() == 5
    world.store.refusal = None
    world.pass_ms(TIMER_RETRY_MS + 4 * NEXT_CLEANUP_STEP_MS)
    assert len(world.machine.table) == world.machine.offsets.store.count() == 0
    assert len(world.machine.timers) == 1, "the next round"


def test_a_cleanup_in_steps_reaches_every_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step continues where the previous one ended, whatever it found."""
    monkeypatch.setattr(machine_module, "MAX_CHECKED_PER_CLEANUP_STEP", 2)
    world = OffsetsWorld(offsets_retention_minutes="1", offsets_retention_check_interval_ms="600000")
    for number in range(6):
        world.commit(f"g{number}", {"t": {0: number}})
    world.pass_ms(599_000)
    for number in (1, 2, 4, 5):
        world.commit(f"g{number}", {"t": {0: number}})
    world.pass_ms(1_000 + 6 * NEXT_CLEANUP_STEP_MS)
    assert sorted(group.group_id for group in world.machine.table) == ["g1", "g2", "g4", "g5"]


def test_a_group_that_is_deleted_during_a_cleanup_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "MAX_CHECKED_PER_CLEANUP_STEP", 2)
    world = OffsetsWorld(offsets_retention_minutes="1", offsets_retention_check_interval_ms="600000")
    for number in range(4):
        world.commit(f"g{number}", {"t": {0: number}})
    world.pass_ms(600_000)
    left = sorted(group.group_id for group in world.machine.table)
    assert len(left) == 3, "one step"
    world.ask(lambda machine, context: machine.delete(left[-1:], context))
    assert len(world.machine.table) == 2
    world.pass_ms(NEXT_CLEANUP_STEP_MS)
    assert len(world.machine.table) == 1
