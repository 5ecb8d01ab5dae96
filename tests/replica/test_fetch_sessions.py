"""Incremental fetch sessions (KIP-227)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import Uuid
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.replica import fetch_sessions as sessions_module
from barnabas.replica.fetch_sessions import (
    EVICTION_NS,
    FINAL_EPOCH,
    INITIAL_EPOCH,
    MAX_EPOCH,
    PartitionKey,
    Session,
    Sessions,
    next_epoch,
)
from barnabas.runtime.random import SeededRandom

ID = Uuid(bytes(15) + b"\x05")


class HandClock:
    now_ns = 0

    def wall_ms(self) -> int:
        return 0

    def monotonic_ns(self) -> int:
        return self.now_ns


def sessions(slots: int = 10) -> tuple[Sessions, HandClock]:
    clock = HandClock()
    return Sessions(slots, clock, SeededRandom(1)), clock


def request(
    offsets: dict[int, int] | None = None,
    *,
    session_id: int = 0,
    epoch: int = INITIAL_EPOCH,
    forget: tuple[int, ...] = (),
    topic: str = "t",
    topic_id: Uuid | None = None,
) -> FetchRequest:
    named: dict[str, Any] = {"topic": topic} if topic_id is None else {"topic_id": topic_id}
    partitions = [
        FetchRequest.Partition(partition=index, fetch_offset=offset, partition_max_bytes=100)
        for index, offset in (offsets or {}).items()
    ]
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchRequest.Topic(partitions=partitions, **named)] if partitions else [],
        forgotten_topics_data=[FetchRequest.ForgottenTopic(partitions=list(forget), **named)]
        if forget
        else [],
    )


def answer(
    index: int, *, hw: int = 0, start: int = 0, records: bytes = b"", error: int = 0, topic: str | Uuid = "t"
) -> tuple[PartitionKey, FetchResponse.PartitionData]:
    data = FetchResponse.PartitionData(
        partition_index=index,
        error_code=error,
        high_watermark=hw,
        log_start_offset=start,
        aborted_transactions=None,
        records=records,
    )
    return (topic, index), data


def begun(cache: Sessions, offsets: dict[int, int], version: int = 12, **fields: Any) -> Session:
    full = request(offsets, **fields)
    assert cache.begin(full, version) is None
    topic = fields.get("topic_id", "t")
    responses = [answer(index, topic=topic) for index in offsets]
    session = cache.get(cache.create(full, version, responses))
    assert session is not None
    return session


def named(included: Any) -> list[int]:
    return [key[1] for key, _ in included]


def test_a_session_continues_with_each_epoch() -> None:
    cache, _ = sessions()
    session = begun(cache, {0: 5, 1: 6})
    assert session.epoch == 1
    assert cache.begin(request(session_id=session.id, epoch=1), 12) is session
    assert session.epoch == 2
    assert cache.begin(request(session_id=session.id, epoch=1), 12) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert cache.begin(request(session_id=session.id, epoch=2), 12) is session


def test_an_unknown_session_is_reported() -> None:
    cache, _ = sessions()
    assert cache.begin(request(session_id=99, epoch=1), 12) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epochs_begin_again_at_one() -> None:
    assert next_epoch(INITIAL_EPOCH) == 1
    assert next_epoch(MAX_EPOCH) == 1


def test_requests_add_change_and_forget_partitions() -> None:
    cache, _ = sessions()
    session = begun(cache, {0: 5, 1: 6})
    cache.begin(request({1: 60, 2: 7}, session_id=session.id, epoch=1, forget=(0,)), 12)
    assert {key[1]: cached.wanted.fetch_offset for key, cached in session.partitions.items()} == {1: 60, 2: 7}


def test_a_session_without_partitions_ends() -> None:
    cache, _ = sessions()
    session = begun(cache, {0: 5})
    assert cache.begin(request(session_id=session.id, epoch=1, forget=(0,)), 12) is None
    assert cache.get(session.id) is None


def test_a_full_fetch_ends_the_session_it_names() -> None:
    for epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        cache, _ = sessions()
        session = begun(cache, {0: 5})
        assert cache.begin(request({0: 5}, session_id=session.id, epoch=epoch), 12) is None
        assert len(cache) == 0


# KIP-516
def test_names_and_ids_do_not_mix_in_a_session() -> None:
    cache, _ = sessions()
    by_name, by_id = begun(cache, {0: 5}), begun(cache, {0: 5}, 13, topic_id=ID)
    wrong = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    assert cache.begin(request(session_id=by_name.id, epoch=1), 13) is wrong
    assert cache.begin(request(session_id=by_id.id, epoch=1), 12) is wrong
    cache.begin(request({3: 1}, session_id=by_id.id, epoch=1, topic_id=ID), 13)
    assert list(by_id.partitions) == [(ID, 0), (ID, 3)]
    cache.begin(request(session_id=by_id.id, epoch=2, forget=(0,), topic_id=ID), 13)
    assert list(by_id.partitions) == [(ID, 3)]


def test_only_changed_partitions_are_included() -> None:
    cache, _ = sessions()
    session = begun(cache, {0: 0, 1: 0, 2: 0, 3: 0})
    cache.begin(request(session_id=session.id, epoch=1), 12)
    responses = [answer(0), answer(1, hw=5), answer(2, start=1), answer(3, records=b"x")]
    assert named(cache.filter(session, 1, responses)) == [1, 2, 3]
    cache.begin(request(session_id=session.id, epoch=2), 12)
    responses = [answer(0), answer(1, hw=5), answer(2, start=1), answer(3)]
    assert named(cache.filter(session, 2, responses)) == []


def test_an_error_is_included_each_time_and_so_is_its_end() -> None:
    cache, _ = sessions()
    session = begun(cache, {0: 0})
    for epoch in (1, 2):
        cache.begin(request(session_id=session.id, epoch=epoch), 12)
        assert named(cache.filter(session, epoch, [answer(0, error=3)])) == [0]
    cache.begin(request(session_id=session.id, epoch=3), 12)
    assert named(cache.filter(session, 3, [answer(0)])) == [0]
    cache.begin(request(session_id=session.id, epoch=4), 12)
    assert named(cache.filter(session, 4, [answer(0)])) == []


def test_a_divergence_is_always_included() -> None:
    cache, _ = sessions()
    session = begun(cache, {0: 0})
    cache.begin(request(session_id=session.id, epoch=1), 12)
    key, data = answer(0)
    data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=3, end_offset=4)
    assert named(cache.filter(session, 1, [(key, data)])) == [0]


def test_a_preferred_replica_is_always_included() -> None:
    """KIP-392: the client must read elsewhere, although the leader has nothing new for it."""
    cache, _ = sessions()
    session = begun(cache, {0: 0})
    for epoch, replica, expected in ((1, -1, []), (2, 3, [0]), (3, 0, [0]), (4, -1, [])):
        cache.begin(request(session_id=session.id, epoch=epoch), 12)
        key, data = answer(0)
        data.preferred_read_replica = replica
        assert named(cache.filter(session, epoch, [(key, data)])) == expected


def test_partitions_that_returned_records_move_to_the_end() -> None:
    cache, _ = sessions()
    session = begun(cache, {0: 0, 1: 0, 2: 0})
    cache.begin(request(session_id=session.id, epoch=1), 12)
    cache.filter(session, 1, [answer(0, records=b"x"), answer(1, hw=3), answer(2)])
    assert [key[1] for key in session.partitions] == [1, 2, 0]


def test_a_superseded_request_gets_an_error() -> None:
    cache, _ = sessions()
    session = begun(cache, {0: 0})
    cache.begin(request(session_id=session.id, epoch=1), 12)
    cache.begin(request(session_id=session.id, epoch=2), 12)
    assert cache.filter(session, 1, [answer(0)]) is ErrorCode.INVALID_FETCH_SESSION_EPOCH


# Eviction


def create(cache: Sessions, size: int, *, replica_id: int = -1) -> int:
    full = request(dict.fromkeys(range(size), 0))
    return cache.create(full, 12, [answer(index) for index in range(size)], replica_id=replica_id)


def test_no_slots_no_sessions() -> None:
    cache, _ = sessions(0)
    assert create(cache, 1) == 0


def test_a_young_session_is_not_evicted() -> None:
    cache, _ = sessions(1)
    first = create(cache, 1)
    assert create(cache, 100) == 0
    assert cache.get(first) is not None


def test_a_session_unused_for_long_is_evicted() -> None:
    cache, clock = sessions(1)
    first = create(cache, 100)
    clock.now_ns += EVICTION_NS
    assert create(cache, 1) == 0
    clock.now_ns += 1
    second = create(cache, 1)
    assert second != 0
    assert cache.get(first) is None
    assert cache.evictions == 1


def test_a_larger_session_evicts_an_old_smaller_one() -> None:
    cache, clock = sessions(2)
    small, large = create(cache, 2), create(cache, 5)
    clock.now_ns += EVICTION_NS + 1
    for session_id in (small, large):  # both in use, and no longer young
        cache.begin(request(session_id=session_id, epoch=1), 12)
    assert create(cache, 1) == 0
    assert create(cache, 3) != 0
    assert cache.get(small) is None
    assert cache.get(large) is not None


def test_a_follower_evicts_a_consumers_session_however_young() -> None:
    cache, _ = sessions(1)
    consumer = create(cache, 100)
    follower = create(cache, 1, replica_id=2)
    assert follower != 0
    assert cache.get(consumer) is None
    assert create(cache, 100) == 0
    assert create(cache, 100, replica_id=2) == 0


def test_partitions_in_sessions_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "CACHED_PARTITIONS_MAX", 10)
    cache, _ = sessions()
    session = begun(cache, dict.fromkeys(range(6), 0))
    assert create(cache, 5) == 0
    assert create(cache, 4) != 0
    assert cache.partitions == 10
    grown = request({7: 0}, session_id=session.id, epoch=1)
    assert cache.begin(grown, 12) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert cache.partitions == 4
