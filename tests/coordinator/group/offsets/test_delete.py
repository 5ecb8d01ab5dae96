"""OffsetDelete: not for topics that the group is subscribed to."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.events import EventKind
from tests.coordinator.group.worlds.offsets_world import OffsetsWorld

NONE = ErrorCode.NONE


def test_deleted_offsets_are_removed() -> None:
    world = OffsetsWorld()
    world.commit("g", {"t": {0: 5, 1: 5}, "u": {0: 6}})
    assert world.delete("g", {"t": [0, 7], "v": [0]}) == {"t": {0: NONE, 7: NONE}, "v": {0: NONE}}
    assert world.fetch("g") == {"t": {1: 5}, "u": {0: 6}}
    assert len(world.store.entries) == 4, "only existing offsets have a tombstone"
    event = world.machine.events.of("g")[-1]
    assert (event.kind, event.reason, event.count) == (EventKind.OFFSETS_DELETED, "on request", 1)
    world.reload()
    assert world.fetch("g") == {"t": {1: 5}, "u": {0: 6}}


def test_pending_offsets_are_deleted_too() -> None:
    world = OffsetsWorld()
    world.commit_in_transaction("g", {"t": {0: 5}})
    assert world.delete("g", {"t": [0]}) == {"t": {0: NONE}}
    world.end(committed=True)
    assert world.fetch("g", {"t": [0]}) == {"t": {0: -1}}


def test_offsets_of_subscribed_topics_remain() -> None:
    world = OffsetsWorld()
    world.commit("g", {"t": {0: 5}, "u": {0: 6}})
    group = world.put_stub("g")
    group.subscribed = {"t"}
    assert world.delete("g", {"t": [0], "u": [0]}) == {
        "t": {0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC},
        "u": {0: NONE},
    }
    assert world.fetch("g") == {"t": {0: 5}}


def test_delete_fails_for_a_missing_group_and_one_that_rejects_it() -> None:
    world = OffsetsWorld()
    refused = world.delete("g", {"t": [0]})
    assert isinstance(refused, KafkaError) and refused.code is ErrorCode.GROUP_ID_NOT_FOUND
    world.put_stub("g").refusal = KafkaError(ErrorCode.NON_EMPTY_GROUP)
    refused = world.delete("g", {"t": [0]})
    assert isinstance(refused, KafkaError) and refused.code is ErrorCode.NON_EMPTY_GROUP
