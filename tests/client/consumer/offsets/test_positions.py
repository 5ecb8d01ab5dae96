"""Positions of a consumer while the user seeks: the last call wins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.client import Consumer, TopicPartition
from barnabas.client import errors as client_errors
from barnabas.client.retries import Deadline
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from tests.client.live.work import until
from tests.client.scripted import TOPIC, scripted

Run = Callable[[Any], Any]
WHERE = TopicPartition(TOPIC, 0)
QUICK: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "retry_backoff_ms": 5,
    "reconnect_backoff_ms": 5,
    "fetch_max_wait_ms": 10,
    "enable_auto_commit": False,
}


def fetched(offset: int, code: int = 0) -> OffsetFetchResponse:
    part = OffsetFetchResponse.Partitions(
        partition_index=0, committed_offset=offset, metadata="", error_code=0
    )
    topic = OffsetFetchResponse.Topics(name=TOPIC, partitions=[part])
    return OffsetFetchResponse(
        groups=[OffsetFetchResponse.Group(group_id="g", topics=[topic], error_code=code)]
    )


def listed(offset: int) -> ListOffsetsResponse:
    part = ListOffsetsResponse.PartitionResponse(
        partition_index=0, error_code=0, offset=offset, leader_epoch=0
    )
    return ListOffsetsResponse(topics=[ListOffsetsResponse.TopicResponse(name=TOPIC, partitions=[part])])


async def settled(consumer: Consumer) -> int:
    """Poll until the position is found."""

    async def has_position() -> bool:
        await consumer.poll(1)
        return consumer._subscription.state(WHERE).has_position

    await until(has_position)
    return await consumer.position(WHERE)


def test_a_seek_is_not_overwritten_by_a_lookup_in_progress(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, Consumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
            consumer.assign([WHERE])

            def look_up(*_: Any) -> ListOffsetsResponse:
                consumer.seek(WHERE, 42)
                return listed(7)

            broker.handlers[ListOffsetsRequest] = look_up
            assert await settled(consumer) == 42
            assert broker.count(ListOffsetsRequest) == 1

    run(work())


def test_another_reset_is_not_overwritten_either(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, Consumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
            consumer.assign([WHERE])

            def look_up(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
                if request.topics[0].partitions[0].timestamp == -2:
                    consumer.seek_to_end(WHERE)
                    return listed(7)
                return listed(70)

            broker.handlers[ListOffsetsRequest] = look_up
            assert await settled(consumer) == 70

    run(work())


@pytest.mark.parametrize("to_end", [False, True])
def test_a_seek_is_not_overwritten_by_a_committed_offset(run: Run, to_end: bool) -> None:
    """A seek during an OffsetFetch was lost."""

    async def work() -> None:
        options = {**QUICK, "group_id": "g"}
        async with scripted() as broker, Consumer(bootstrap_servers=broker.bootstrap, **options) as consumer:
            consumer.assign([WHERE])

            def look_up(*_: Any) -> OffsetFetchResponse:
                if to_end:
                    consumer.seek_to_end(WHERE)
                else:
                    consumer.seek(WHERE, 42)
                return fetched(7)

            broker.handlers[OffsetFetchRequest] = look_up
            broker.handlers[ListOffsetsRequest] = lambda *_: listed(42)
            assert await settled(consumer) == 42

    run(work())


def test_a_seek_is_not_overwritten_by_the_check_after_an_election(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, Consumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
            consumer.assign([WHERE])
            await settled(consumer)
            state = consumer._subscription.state(WHERE)
            state.seek(50, 0)
            state.checked_epoch = 0
            broker.leader_epoch = 3

            def cut(*_: Any) -> OffsetForLeaderEpochResponse:
                consumer.seek(WHERE, 42)
                part = OffsetForLeaderEpochResponse.EpochEndOffset(
                    error_code=0, partition=0, leader_epoch=0, end_offset=9
                )
                topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(
                    topic=TOPIC, partitions=[part]
                )
                return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=[topic])

            broker.handlers[OffsetForLeaderEpochRequest] = cut
            broker.handlers[FetchRequest] = lambda *_: broker.fetched(1 << 40)
            await consumer.cluster.update()

            async def was_asked() -> bool:
                await consumer.poll(1)
                return broker.count(OffsetForLeaderEpochRequest) > 0 and not consumer._positions.is_unsettled

            await until(was_asked)
            assert await consumer.position(WHERE) == 42

    run(work())


def test_without_a_policy_nothing_committed_is_an_error(run: Run) -> None:
    async def work() -> None:
        options = {**QUICK, "group_id": "g", "auto_offset_reset": "none"}
        async with scripted() as broker, Consumer(bootstrap_servers=broker.bootstrap, **options) as consumer:
            consumer.assign([WHERE])
            broker.handlers[OffsetFetchRequest] = lambda *_: fetched(-1)
            with pytest.raises(client_errors.NoOffsetForPartitionError):
                await settled(consumer)
            broker.handlers[OffsetFetchRequest] = lambda *_: fetched(9)
            assert await settled(consumer) == 9

    run(work())


def test_by_duration_without_records_since_then_begins_at_the_end(run: Run) -> None:
    async def work() -> None:
        options = {**QUICK, "auto_offset_reset": "by_duration:PT1H"}
        async with scripted() as broker, Consumer(bootstrap_servers=broker.bootstrap, **options) as consumer:
            consumer.assign([WHERE])
            asked: list[int] = []

            def look_up(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
                asked.append(request.topics[0].partitions[0].timestamp)
                return listed(70 if asked[-1] == -1 else -1)

            broker.handlers[ListOffsetsRequest] = look_up
            assert await settled(consumer) == 70
            assert asked[0] > 0
            assert asked[1:] == [-1]

    run(work())


def test_an_offset_outside_the_log_is_an_error_without_a_policy(run: Run) -> None:
    async def work() -> None:
        options = {**QUICK, "auto_offset_reset": "none"}
        async with scripted() as broker, Consumer(bootstrap_servers=broker.bootstrap, **options) as consumer:
            consumer.assign([WHERE])
            consumer.seek(WHERE, 42)
            broker.handlers[FetchRequest] = lambda *_: broker.fetched(42, ErrorCode.OFFSET_OUT_OF_RANGE)
            with pytest.raises(client_errors.OffsetOutOfRangeError, match="no offset 42"):
                while True:
                    await consumer.poll(10)

    run(work())


@pytest.mark.parametrize(("end_offset", "is_cut"), [(50, False), (49, True), (-1, False)])
def test_a_log_is_cut_only_below_the_position(run: Run, end_offset: int, is_cut: bool) -> None:
    async def work() -> None:
        async with scripted() as broker, Consumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
            consumer.assign([WHERE])
            await settled(consumer)
            state = consumer._subscription.state(WHERE)
            state.seek(50, 0)
            state.checked_epoch = 0
            broker.leader_epoch = 3
            part = OffsetForLeaderEpochResponse.EpochEndOffset(
                error_code=0, partition=0, leader_epoch=0, end_offset=end_offset
            )
            topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=TOPIC, partitions=[part])
            response = OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=[topic])
            broker.handlers[OffsetForLeaderEpochRequest] = lambda *_: response
            broker.handlers[FetchRequest] = lambda *_: broker.fetched(1 << 40)
            await consumer.cluster.update()
            state.reset_to = None
            seeks: list[int] = []
            seek = type(state).seek

            def watched(self: Any, offset: int, epoch: int = -1) -> None:
                seeks.append(offset)
                seek(self, offset, epoch)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(type(state), "seek", watched)
                await consumer._positions.check([state], Deadline(60_000))
            assert seeks == ([end_offset] if is_cut else [])
            assert state.checked_epoch == 3
            assert consumer._positions.unchecked() == [], "once for each election"

    run(work())


def test_a_seek_during_the_check_leaves_the_other_partitions_checked(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, Consumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
            broker.partitions = 2
            broker.leader_epoch = 3
            wheres = [TopicPartition(TOPIC, number) for number in range(2)]
            consumer.assign(wheres)
            await consumer.cluster.update()
            states = [consumer._subscription.state(where) for where in wheres]
            for state in states:
                state.seek(50, 0)
                state.checked_epoch = 0

            def cut(*_: Any) -> OffsetForLeaderEpochResponse:
                consumer.seek(wheres[0], 42)
                parts = [
                    OffsetForLeaderEpochResponse.EpochEndOffset(
                        error_code=0, partition=number, leader_epoch=0, end_offset=9
                    )
                    for number in range(2)
                ]
                topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=TOPIC, partitions=parts)
                return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=[topic])

            broker.handlers[OffsetForLeaderEpochRequest] = cut
            await consumer._positions.check(states, Deadline(60_000))
            assert [state.position for state in states] == [42, 9]

    run(work())
