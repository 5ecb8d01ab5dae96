"""OffsetFetch: existing and missing groups, all topics and some."""

from __future__ import annotations

from barnabas.base.errors import ErrorCode, KafkaError
from tests.coordinator.group.worlds.offsets_world import OffsetsWorld


def test_fetching_uncommitted_offsets_is_not_an_error() -> None:
    world = OffsetsWorld()
    world.commit("g", {"t": {0: 5}})
    assert world.fetch("g", {"t": [0, 1, -1], "u": [0]}) == {"t": {0: 5, 1: -1, -1: -1}, "u": {0: -1}}
    assert world.fetch("nobody", {"t": [0]}) == {"t": {0: -1}}
    assert world.fetch("nobody") == {}
    assert world.fetch("g", {}) == {}


def test_the_group_validates_offset_fetch() -> None:
    world = OffsetsWorld()
    world.commit("g", {"t": {0: 5}})
    group = world.put_stub("g")
    assert world.fetch("g", {"t": [0]}, member_id="m", member_epoch=3) == {"t": {0: 5}}
    assert world.fetch("g") == {"t": {0: 5}}
    assert group.validated == [("m", 3), (None, -1)]
    group.refusal = KafkaError(ErrorCode.STALE_MEMBER_EPOCH)
    refused = world.fetch("g", {"t": [0]}, member_id="m", member_epoch=3)
    assert isinstance(refused, KafkaError) and refused.code is ErrorCode.STALE_MEMBER_EPOCH


def test_a_dead_group_has_no_offsets() -> None:
    world = OffsetsWorld()
    world.commit("g", {"t": {0: 5}})
    world.put_stub("g").refusal = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    assert world.fetch("g", {"t": [0]}) == {"t": {0: -1}}
    assert world.fetch("g") == {}
