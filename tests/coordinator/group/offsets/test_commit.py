"""OffsetCommit: validation, entries and versions."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.coordinator.decision import ProducerStamp
from barnabas.coordinator.events import EventKind
from barnabas.coordinator.group.offsets.values import unpack
from barnabas.metadata.features import METADATA_VERSION, metadata_version_named
from barnabas.protocol.records.group import OffsetCommitKey, OffsetCommitValue
from tests.coordinator.group.worlds.offsets_world import OffsetsWorld
from tests.coordinator.shard_world import NOW_MS, PENDING

NONE = ErrorCode.NONE


def test_a_commit_without_a_group_creates_a_simple_group() -> None:
    world = OffsetsWorld()
    assert world.commit("g", {"t": {0: 5, 1: 6}, "u": {0: 7}}) == {"t": {0: NONE, 1: NONE}, "u": {0: NONE}}
    assert world.fetch("g") == {"t": {0: 5, 1: 6}, "u": {0: 7}}
    group = world.machine.table.find("g")
    assert (group.state_name, group.protocol_type, group.is_empty) == ("Empty", "", True)


@pytest.mark.parametrize(
    ("release", "retention_ms", "version", "expires_ms"),
    [
        ("4.1-IV1", -1, 4, -1),
        ("3.9-IV0", -1, 3, -1),
        ("4.1-IV1", 1_000, 1, NOW_MS + 1_000),
        ("3.9-IV0", 0, 1, NOW_MS),
    ],
)
def test_entries_have_the_version_that_the_features_prescribe(
    release: str, retention_ms: int, version: int, expires_ms: int
) -> None:
    world = OffsetsWorld()
    level = metadata_version_named(release).level
    world.with_image(features=world.image.features.set(METADATA_VERSION, level))
    world.commit("g", {"t": {3: 5}}, 4, "text", epoch=9, retention_time_ms=retention_ms)
    (entry,) = world.store.entries
    assert entry.key == OffsetCommitKey(group="g", topic="t", partition=3)
    assert entry.value_version == version
    assert entry.value == OffsetCommitValue(
        offset=5,
        leader_epoch=9,
        metadata="text",
        commit_timestamp=NOW_MS,
        expire_timestamp=expires_ms,
    )


def test_one_request_is_one_batch() -> None:
    world = OffsetsWorld()
    world.commit("g", {"t": {0: 1, 1: 2}, "u": {0: 3}})
    assert len(world.store.batches) == 1


def test_a_topic_id_is_stored_with_the_offset() -> None:
    world = OffsetsWorld()
    old, new = Uuid.from_words(1, 1), Uuid.from_words(2, 2)
    world.commit("g", {"t": {0: 5}}, 10, topic_ids={"t": old})
    assert world.fetch("g", {"t": [0]}, topic_ids={"t": old}) == {"t": {0: 5}}
    assert world.fetch("g", {"t": [0]}, topic_ids={"t": new}) == {"t": {0: -1}}
    assert world.fetch("g", {"t": [0]}) == {"t": {0: 5}}
    world.commit("g", {"t": {0: 6}}, 9)
    assert world.fetch("g", {"t": [0]}, topic_ids={"t": new}) == {"t": {0: 6}}


@pytest.mark.trap
def test_commit_metadata_is_returned() -> None:
    """Trap 19: OffsetCommit metadata string comes back; CreatePartitions result not empty."""
    world = OffsetsWorld()
    world.commit("g", {"t": {0: 5}}, text="wörds ☃")
    world.reload()
    kept = world.machine.offsets.store.get("g", "t", 0)
    assert kept is not None and unpack(kept).metadata == "wörds ☃"


def test_metadata_that_is_too_long_fails_only_its_partition() -> None:
    world = OffsetsWorld(offset_metadata_max_bytes="10")
    assert world.commit("g", {"t": {0: 5}}, text="x" * 10) == {"t": {0: NONE}}
    assert world.commit("g", {"t": {0: 6}}, text="x" * 11) == {"t": {0: ErrorCode.OFFSET_METADATA_TOO_LARGE}}
    assert world.commit("g", {"t": {0: 7}}, text="é" * 10) == {"t": {0: NONE}}
    # Java counts this character twice.
    assert world.commit("g", {"t": {0: 8}}, text="😀" * 5) == {"t": {0: NONE}}
    assert world.commit("g", {"t": {0: 9}}, text="😀" * 6) == {"t": {0: ErrorCode.OFFSET_METADATA_TOO_LARGE}}
    assert world.commit("g", {"t": {0: 10}}, text=None) == {"t": {0: NONE}}
    assert world.fetch("g") == {"t": {0: 10}}


@pytest.mark.parametrize(
    ("version", "code"),
    [(2, ErrorCode.ILLEGAL_GENERATION), (8, ErrorCode.ILLEGAL_GENERATION), (9, ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_a_generation_of_a_missing_group_is_rejected(version: int, code: ErrorCode) -> None:
    world = OffsetsWorld()
    refused = world.commit("g", {"t": {0: 5}}, version, generation_id_or_member_epoch=0, member_id="m")
    assert isinstance(refused, KafkaError) and refused.code is code
    assert world.store.entries == [] and "g" not in world.machine.table


def test_the_group_validates_commits() -> None:
    world = OffsetsWorld()
    group = world.put_stub("g")
    who: dict[str, Any] = {"generation_id_or_member_epoch": 4, "member_id": "m", "group_instance_id": "i"}
    assert world.commit("g", {"t": {0: 5}}, 9, **who) == {"t": {0: NONE}}
    assert group.validated == [("m", "i", 4, False, 9)]
    group.refusal = KafkaError(ErrorCode.STALE_MEMBER_EPOCH)
    refused = world.commit("g", {"t": {0: 6}}, 9, **who)
    assert isinstance(refused, KafkaError) and refused.code is ErrorCode.STALE_MEMBER_EPOCH
    assert len(world.store.entries) == 1


@pytest.mark.trap
def test_an_offset_is_invisible_until_it_is_committed() -> None:
    """Trap 26: JoinGroup and member state that was never logged is lost on failover: members must rejoin, and no uncommitted offset may be shown before it is committed."""
    world = OffsetsWorld()
    world.commit("g", {"t": {0: 5}})
    world.store.held_at = world.store.end
    assert world.commit("g", {"t": {0: 6}}) is PENDING
    assert world.fetch("g") is PENDING, "a read waits until everything it returns is committed"
    world.store.held_at = None
    world.shard.look_at_commits()
    assert world.fetch("g") == {"t": {0: 6}}


def test_a_commit_that_the_log_rejects_changes_nothing() -> None:
    world = OffsetsWorld()
    world.store.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    refused = world.commit("g", {"t": {0: 5}})
    assert isinstance(refused, KafkaError) and refused.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.machine.events.of("g") == ()
    assert "g" not in world.machine.table
    assert world.fetch("g") == {}


def test_commits_are_events() -> None:
    world = OffsetsWorld()
    world.commit("g", {"t": {0: 5, 1: 5}})
    world.commit("g", {"t": {0: 6}})
    (event,) = world.machine.events.of("g")
    assert (event.kind, event.count, event.at_ms) == (EventKind.OFFSETS_COMMITTED, 3, NOW_MS)


# Transactions


def test_a_transactional_offset_takes_effect_on_commit() -> None:
    world = OffsetsWorld()
    world.commit("g", {"t": {0: 5}})
    assert world.commit_in_transaction("g", {"t": {0: 6}, "u": {1: 7}}) == {"t": {0: NONE}, "u": {1: NONE}}
    assert world.store.batches[-1][1] == ProducerStamp(1, 0)
    assert world.fetch("g") == {"t": {0: 5}}
    world.end(committed=True)
    assert world.fetch("g") == {"t": {0: 6}, "u": {1: 7}}


def test_an_aborted_transaction_commits_nothing() -> None:
    world = OffsetsWorld()
    world.commit_in_transaction("g", {"t": {0: 6}})
    world.end(committed=False)
    assert world.fetch("g", {"t": [0]}) == {"t": {0: -1}}


@pytest.mark.trap
def test_unstable_offsets_are_not_returned_with_require_stable() -> None:
    """Trap 18: OffsetFetch requireStable; by topic id (v10) coded, announced only with unstable.api.versions.enable."""
    world = OffsetsWorld()
    world.commit("g", {"t": {0: 5, 1: 5}})
    world.commit_in_transaction("g", {"t": {0: 6}, "u": {0: 1}})
    unstable = ErrorCode.UNSTABLE_OFFSET_COMMIT
    expected = {"t": [0, 1], "u": [0]}
    assert world.fetch("g", expected, stable=True) == {"t": {0: unstable, 1: 5}, "u": {0: unstable}}
    assert world.fetch("g", stable=True) == {"t": {0: unstable, 1: 5}}
    assert world.fetch("g", expected) == {"t": {0: 5, 1: 5}, "u": {0: -1}}
    world.end(committed=True)
    assert world.fetch("g", expected, stable=True) == {"t": {0: 6, 1: 5}, "u": {0: 1}}


def test_a_transactional_commit_has_no_member_epoch_errors() -> None:
    world = OffsetsWorld()
    group = world.put_stub("g")
    group.refusal = KafkaError(ErrorCode.STALE_MEMBER_EPOCH)
    refused = world.commit_in_transaction("g", {"t": {0: 5}}, generation_id=3, member_id="m")
    assert isinstance(refused, KafkaError) and refused.code is ErrorCode.ILLEGAL_GENERATION
    assert group.validated == [("m", None, 3, True, 5)]
    group.refusal = KafkaError(ErrorCode.FENCED_INSTANCE_ID)
    refused = world.commit_in_transaction("g", {"t": {0: 5}}, generation_id=3, member_id="m")
    assert isinstance(refused, KafkaError) and refused.code is ErrorCode.FENCED_INSTANCE_ID


def test_a_transactional_commit_with_a_generation_of_a_missing_group_is_rejected() -> None:
    world = OffsetsWorld()
    refused = world.commit_in_transaction("g", {"t": {0: 5}}, generation_id=0)
    assert isinstance(refused, KafkaError) and refused.code is ErrorCode.ILLEGAL_GENERATION
    assert world.commit_in_transaction("g", {"t": {0: 5}}, generation_id=-1) == {"t": {0: NONE}}


def test_long_metadata_in_a_transaction_is_rejected() -> None:
    world = OffsetsWorld(offset_metadata_max_bytes="3")
    response = world.commit_in_transaction("g", {"t": {0: 5}}, text="four")
    assert response == {"t": {0: ErrorCode.OFFSET_METADATA_TOO_LARGE}}
    assert world.store.entries == []
