"""Offsets as a component of the group machine: loading and applying give the same state."""

from __future__ import annotations

import logging
import random

import pytest

from barnabas.base.ids import Uuid
from barnabas.batch.build import build
from barnabas.batch.columnar import columns
from barnabas.batch.records import Record
from barnabas.coordinator.decision import ProducerStamp
from barnabas.coordinator.entry import Entry, encode
from barnabas.coordinator.group.machine import GroupMachine
from barnabas.coordinator.group.offsets import offsets as offsets_module
from barnabas.coordinator.group.offsets.offsets import read_key
from barnabas.coordinator.group.offsets.values import Committed, unpack
from barnabas.metadata.delta import Delta
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.record_frame import write_coordinator_key
from barnabas.protocol.records.group import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.protocol.records.metadata import RemoveTopicRecord, TopicRecord
from tests.coordinator.group.worlds.offsets_world import OffsetsWorld


def committed(machine: GroupMachine) -> dict[str, dict[str, dict[int, bytes]]]:
    store = machine.offsets.store
    return {
        group: {topic: dict(partitions) for topic, partitions in store.of_group(group).items()}
        for group in store.groups()
    }


def key(group: str, topic: str, partition: int) -> OffsetCommitKey:
    return OffsetCommitKey(group=group, topic=topic, partition=partition)


def value(offset: int, text: str = "") -> OffsetCommitValue:
    return OffsetCommitValue(offset=offset, metadata=text, commit_timestamp=1)


def load(
    machine: GroupMachine, *rows: tuple[bytes, bytes | None], stamp: ProducerStamp | None = None
) -> None:
    records = [Record(index, 0, *row) for index, row in enumerate(rows)]
    machine.load(columns(bytes(build(records))), stamp)


@pytest.mark.trap
def test_offsets_survive_a_restart() -> None:
    """Trap 21: Stored group offset really stored: resume after restart."""
    world = OffsetsWorld()
    world.commit("g", {"t": {0: 5, 1: 6}})
    world.commit("g", {"t": {0: 7}})
    world.reload()
    assert world.fetch("g") == {"t": {0: 7, 1: 6}}
    assert world.machine.table.find("g").state_name == "Empty"


def test_pending_offsets_survive_a_restart() -> None:
    world = OffsetsWorld()
    world.commit("g", {"t": {0: 5}})
    world.commit_in_transaction("g", {"t": {0: 6}})
    world.reload()
    assert world.fetch("g") == {"t": {0: 5}}
    world.end(committed=True)
    assert world.fetch("g") == {"t": {0: 6}}
    world.reload()
    assert world.fetch("g") == {"t": {0: 6}}


def test_loading_is_the_same_as_applying() -> None:
    """Random histories with few names, so that they collide."""
    for seed in range(40):
        rng = random.Random(seed)
        applied, loaded = GroupMachine(0), GroupMachine(0)
        for _ in range(60):
            producer = rng.choice([1, 2])
            draw = rng.random()
            if draw < 0.1:
                marker = (producer, 0, rng.random() < 0.5)
                applied.marker(*marker)
                loaded.marker(*marker)
                continue
            stamp = ProducerStamp(producer, 0) if draw < 0.3 else None
            entries = [
                Entry(
                    key(rng.choice("gh"), rng.choice(["t", "topic"]), rng.randint(0, 2)),
                    None if draw > 0.85 else value(rng.randint(0, 99), rng.choice(["", "text"])),
                    rng.choice([1, 3, 4]),
                )
                for _ in range(rng.randint(1, 4))
            ]
            for entry in entries:
                applied.apply(entry, stamp)
            load(loaded, *map(encode, entries), stamp=stamp)
        assert committed(applied) == committed(loaded), seed
        assert list(applied.offsets.store.pending()) == list(loaded.offsets.store.pending()), seed


def test_offsets_of_an_emptied_topic_are_loaded_again() -> None:
    machine = GroupMachine(0)
    row = write_coordinator_key(key("g", "t", 0))
    load(
        machine,
        encode(Entry(key("g", "t", 0), value(1), 4)),
        (row, None),
        encode(Entry(key("g", "t", 0), value(2), 4)),
    )
    assert list(committed(machine)["g"]["t"]) == [0]
    older = LegacyOffsetCommitKey(group="g", topic="t", partition=0)
    load(machine, (write_coordinator_key(older), None), encode(Entry(key("g", "t", 5), value(3), 4)))
    assert list(committed(machine)["g"]["t"]) == [5]


def test_offsets_of_the_oldest_brokers_are_read() -> None:
    machine = GroupMachine(0)
    older = LegacyOffsetCommitKey(group="g", topic="t", partition=3)
    old_value = LegacyOffsetCommitValue(offset=8, metadata="m", commit_timestamp=9)
    load(machine, encode(Entry(older, old_value, 0)), encode(Entry(key("g", "t", 3), value(9), 4)))
    assert [unpack(raw).offset for raw in committed(machine)["g"]["t"].values()] == [9]
    load(machine, encode(Entry(older, old_value, 0)))
    assert unpack(committed(machine)["g"]["t"][3]) == Committed(8, -1, "m", 9)


def test_a_corrupt_record_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    machine = GroupMachine(0)
    good = encode(Entry(key("g", "t", 0), value(1), 4))
    assert good[1] is not None
    damaged = [
        (b"\0\1", good[1]),
        (b"\0\1\0\1g", good[1]),
        (b"\0\1\xff\xff\0\1t\0\0\0\0", good[1]),
        (b"\0\1\0\1\xff\0\1t\0\0\0\0", good[1]),
        (good[0], b""),
        (good[0], b"\0\x09" + good[1][2:]),
        (good[0], good[1][:-3]),
        (b"\0\x63whatever", b"x"),
    ]
    with caplog.at_level(logging.WARNING):
        load(machine, good, *damaged, encode(Entry(key("g", "t", 1), value(2), 4)))
    assert list(committed(machine)["g"]["t"]) == [0, 1]
    assert len(caplog.records) == len(damaged)
    assert "offset 1 is skipped" in caplog.records[0].getMessage()


def test_a_key_may_have_unknown_trailing_bytes() -> None:
    row = write_coordinator_key(key("group", "topic", 7))
    assert read_key(row) == ("group", "topic", 7, len(row))
    assert read_key(row + b"more") == ("group", "topic", 7, len(row))
    machine = GroupMachine(0)
    raw = encode(Entry(key("group", "topic", 7), value(1), 4))[1]
    load(machine, (row + b"more", raw), (row[:-1] + b"\x08", raw))
    assert set(committed(machine)["group"]["topic"]) == {7, 8}
    for size in range(len(row)):
        with pytest.raises(ProtocolError):
            read_key(row[:size])


@pytest.mark.trap
def test_offsets_are_removed_with_their_topic() -> None:
    """Trap 17: Deleting a topic drops the groups' commits for it."""
    world = OffsetsWorld()
    old, other = Uuid.from_words(1, 1), Uuid.from_words(1, 2)
    first = Delta(world.image)
    first.replay(TopicRecord(name="t", topic_id=old))
    first.replay(TopicRecord(name="u", topic_id=other))
    world.image = first.image
    world.commit("g", {"t": {0: 5, 1: 5}, "u": {0: 6}})
    world.commit("h", {"t": {0: 5}})
    world.commit_in_transaction("i", {"t": {4: 5}})
    # Deleted and recreated in one delta: a new topic, which starts without offsets.
    second = Delta(world.image)
    second.replay(RemoveTopicRecord(topic_id=old))
    second.replay(TopicRecord(name="t", topic_id=Uuid.from_words(1, 3)))
    world.image = second.image
    world.shard.metadata_changed(second, world.context, world.now_ms)
    for _ in range(2):
        assert world.fetch("g") == {"u": {0: 6}}
        assert world.fetch("h", {"t": [0]}, stable=True) == {"t": {0: -1}}
        assert world.fetch("i", {"t": [4]}, stable=True) == {"t": {4: -1}}
        world.reload()
    world.end(committed=True)
    assert world.fetch("i", {"t": [4]}) == {"t": {4: -1}}


def test_a_delta_without_deletions_writes_nothing() -> None:
    world = OffsetsWorld()
    world.commit("g", {"t": {0: 5}})
    delta = Delta(world.image)
    delta.replay(TopicRecord(name="new", topic_id=Uuid.from_words(1, 9)))
    world.shard.metadata_changed(delta, world.context, world.now_ms)
    assert len(world.store.batches) == 1


def test_all_offsets_of_a_deleted_group_are_removed() -> None:
    world = OffsetsWorld()
    world.commit("g", {"t": {0: 5, 1: 5}})
    world.commit_in_transaction("g", {"t": {1: 6, 2: 6}})
    assert world.machine.offsets.has_offsets("g")
    keys = [entry.key for entry in world.machine.offsets.tombstones("g")]
    assert keys == [key("g", "t", 0), key("g", "t", 1), key("g", "t", 2)]
    assert not world.machine.offsets.has_offsets("h")
    assert world.machine.offsets.tombstones("h") == []


def test_the_prefix_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets_module, "MAX_KNOWN_PREFIXES", 2)
    machine = GroupMachine(0)
    for number in range(10):
        group = f"g{number % 5}"
        load(machine, encode(Entry(key(group, "t", number), value(number), 3)))
        assert len(machine.offsets._prefixes) <= 2
    assert {group: sorted(topics["t"]) for group, topics in committed(machine).items()} == {
        f"g{number}": [number, number + 5] for number in range(5)
    }


def test_unknown_trailing_bytes_are_no_partition() -> None:
    """Keys that differ only in bytes of a later release are of the same partition."""
    machine = GroupMachine(0)
    row, raw = encode(Entry(key("group", "topic", 3), value(1), 4))
    load(machine, *((row + bytes([0, 0, 0, number]), raw) for number in range(3)))
    assert set(committed(machine)["group"]["topic"]) == {3}
