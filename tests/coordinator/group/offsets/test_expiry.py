"""Expiration of committed offsets."""

from __future__ import annotations

import pytest

from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group import machine as machine_module
from barnabas.coordinator.group.machine import NEXT_CLEANUP_STEP_MS
from barnabas.protocol.records.group import OffsetCommitKey
from tests.coordinator.group.worlds.offsets_world import OffsetsWorld
from tests.coordinator.shard_world import NOW_MS

MINUTE_MS = 60_000


def expired(world: OffsetsWorld, group: str = "g") -> tuple[set[tuple[str, int]], bool]:
    entries, all_expired = world.machine.offsets.expired(group, world.context)
    partitions = set()
    for entry in entries:
        assert isinstance(entry.key, OffsetCommitKey) and entry.value is None and entry.key.group == group
        partitions.add((entry.key.topic, entry.key.partition))
    return partitions, all_expired


def test_an_offset_expires_after_its_retention() -> None:
    world = OffsetsWorld(offsets_retention_minutes="2")
    world.commit("g", {"t": {0: 5}})
    world.pass_ms(MINUTE_MS)
    world.commit("g", {"t": {1: 5}})
    world.pass_ms(MINUTE_MS - 1)
    assert expired(world) == (set(), False)
    world.pass_ms(1)
    assert expired(world) == ({("t", 0)}, False)
    world.pass_ms(MINUTE_MS)
    assert expired(world) == ({("t", 0), ("t", 1)}, True)


def test_a_commit_may_have_its_own_expiration_time() -> None:
    world = OffsetsWorld(offsets_retention_minutes="1")
    world.commit("g", {"t": {0: 5}}, 2, retention_time_ms=10)
    world.commit("g", {"t": {1: 5}}, 4, retention_time_ms=4 * MINUTE_MS)
    world.reload()
    world.pass_ms(9)
    assert expired(world) == (set(), False)
    world.pass_ms(1)
    assert expired(world) == ({("t", 0)}, False)
    world.pass_ms(2 * MINUTE_MS)
    assert expired(world) == ({("t", 0)}, False)
    world.pass_ms(2 * MINUTE_MS)
    assert expired(world) == ({("t", 0), ("t", 1)}, True)


def test_the_group_determines_the_start_of_retention() -> None:
    world = OffsetsWorld(offsets_retention_minutes="1")
    world.commit("g", {"t": {0: 5}, "u": {0: 5}})
    group = world.put_stub("g")
    world.pass_ms(MINUTE_MS)
    group.counts_from = lambda _: NOW_MS + 1
    assert expired(world) == (set(), False)
    group.counts_from = None
    assert expired(world) == (set(), False)
    group.counts_from = lambda committed_ms: committed_ms
    group.subscribed = {"t"}
    assert expired(world) == ({("u", 0)}, False)


def test_offsets_pending_in_a_transaction_do_not_expire() -> None:
    world = OffsetsWorld(offsets_retention_minutes="1")
    world.commit("g", {"t": {0: 5, 1: 5}})
    world.commit_in_transaction("g", {"t": {0: 6}})
    world.pass_ms(MINUTE_MS)
    assert expired(world) == ({("t", 1)}, False)
    world.end(committed=False)
    assert expired(world) == ({("t", 0), ("t", 1)}, True)


def test_a_group_with_only_an_open_transaction_remains() -> None:
    world = OffsetsWorld()
    world.commit_in_transaction("g", {"t": {0: 6}})
    assert expired(world) == (set(), False)
    world.end(committed=False)
    assert expired(world) == (set(), True)


def test_an_empty_group_is_removed_with_its_last_offset() -> None:
    world = OffsetsWorld(offsets_retention_minutes="1", offsets_retention_check_interval_ms="1000")
    world.commit("g", {"t": {0: 5}})
    world.pass_ms(MINUTE_MS - 1)
    assert world.fetch("g") == {"t": {0: 5}}
    world.pass_ms(1_001)
    assert world.fetch("g") == {}
    assert "g" not in world.machine.table
    world.reload()
    assert "g" not in world.machine.table
    assert world.fetch("g") == {}


def test_many_groups_are_checked_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_module, "MAX_CHECKED_PER_CLEANUP_STEP", 4)
    world = OffsetsWorld(offsets_retention_minutes="1", offsets_retention_check_interval_ms="60000")
    for number in range(6):
        world.commit(f"g{number}", {"t": {0: 5}})
    world.now_ms = 60_000
    left = []
    while len(world.machine.table):
        world.shard.run_due(world.context, world.now_ms)
        left.append(len(world.machine.table))
        world.now_ms += NEXT_CLEANUP_STEP_MS
    assert left == [4, 2, 0]
    assert [event.kind for event in world.machine.events.of("g0")][-1] is EventKind.OFFSETS_EXPIRED
