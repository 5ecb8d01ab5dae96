"""The fetcher against brokers that fail, forget and lose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.client import Consumer, Producer, TopicPartition
from barnabas.client import errors as client_errors
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
)
from tests.client.live.work import until
from tests.client.scripted import TOPIC, Hangup, ScriptedBroker, scripted

Run = Callable[[Any], Any]
WHERE = TopicPartition(TOPIC, 0)
QUICK: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "retry_backoff_ms": 5,
    "reconnect_backoff_ms": 5,
    "fetch_max_wait_ms": 10,
}


async def fill(broker: ScriptedBroker, count: int, batch_size: int = 1) -> None:
    async with Producer(bootstrap_servers=broker.bootstrap, linger_ms=0, batch_size=batch_size) as producer:
        for number in range(count):
            await producer.send(TOPIC, b"%d" % number)


async def take(consumer: Consumer, count: int) -> list[int]:
    offsets: list[int] = []
    while len(offsets) < count:
        offsets += [record.offset for record in await consumer.poll(100)]
    return offsets


def fetches(broker: ScriptedBroker) -> list[FetchRequest]:
    return [request for request, _ in broker.requests if isinstance(request, FetchRequest)]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ],
)
def test_trouble_for_the_moment_is_not_the_users(run: Run, code: ErrorCode) -> None:
    async def work() -> None:
        async with scripted() as broker:
            await fill(broker, 3)
            broker.once(FetchRequest, lambda *_: broker.fetched(0, code))
            async with Consumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
                consumer.assign([WHERE])
                before = broker.count(MetadataRequest)
                assert await take(consumer, 3) == [0, 1, 2]
                assert broker.count(MetadataRequest) > before

    run(work())


def test_a_partition_without_a_leader_or_paused_does_not_hold_up_the_others(run: Run) -> None:
    """Of five partitions the last one has records; one before it has no leader, and one is paused."""

    async def work() -> None:
        async with scripted() as broker:
            await fill(broker, 3)
            broker.partitions = 5

            def metadata(request: MetadataRequest, version: int) -> Any:
                response: Any = broker.metadata(request, version)
                response.topics[0].partitions[1].leader_id = -1
                response.topics[0].partitions[1].error_code = ErrorCode.LEADER_NOT_AVAILABLE
                return response

            broker.handlers[MetadataRequest] = metadata
            without_leader, paused = TopicPartition(TOPIC, 1), TopicPartition(TOPIC, 2)
            async with Consumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
                consumer.assign([without_leader, paused, WHERE])
                consumer.pause(paused)
                for partition in (without_leader, paused, WHERE):
                    consumer.seek(partition, 0)
                assert await take(consumer, 3) == [0, 1, 2]

    run(work())


def test_a_refusal_is_the_users(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker, Consumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
            broker.once(FetchRequest, lambda *_: broker.fetched(0, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            consumer.assign([WHERE])
            with pytest.raises(client_errors.TopicAuthorizationFailedError, match=TOPIC):
                await consumer.poll(5000)

    run(work())


def test_a_connection_that_breaks(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker:
            await fill(broker, 3)

            def break_off(request: FetchRequest, version: int) -> Any:
                raise Hangup

            broker.once(FetchRequest, break_off)
            async with Consumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
                consumer.assign([WHERE])
                assert await take(consumer, 3) == [0, 1, 2]

    run(work())


def test_a_session_sends_only_changes_and_restarts_when_lost(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker:
            await fill(broker, 5)
            sent = {"lost": False}

            def fetch(request: FetchRequest, version: int) -> Any:
                if sent["lost"] and request.session_epoch > 0:
                    sent["lost"] = False
                    return FetchResponse(
                        throttle_time_ms=0, error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[]
                    )
                offset = request.topics[0].partitions[0].fetch_offset if request.topics else 5
                return broker.fetched(offset, session_id=77)

            broker.handlers[FetchRequest] = fetch
            async with Consumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
                consumer.assign([WHERE])
                assert await take(consumer, 5) == [0, 1, 2, 3, 4]
                for _ in range(3):
                    await consumer.poll(20)
                first, second, third = fetches(broker)[:3]
                assert (first.session_id, first.session_epoch) == (0, 0)
                assert (second.session_id, second.session_epoch) == (77, 1)
                assert [topic.partitions[0].fetch_offset for topic in second.topics] == [5]
                assert (third.session_epoch, third.topics) == (2, [])
                sent["lost"] = True
                before = len(fetches(broker))
                for _ in range(3):
                    await consumer.poll(20)
                again = [request for request in fetches(broker)[before:] if request.session_epoch == 0]
                assert again
                assert [topic.partitions[0].fetch_offset for topic in again[0].topics] == [5]

    run(work())


def test_a_log_that_was_cut_is_noticed_after_an_election(run: Run) -> None:
    """KIP-320: a new leader had a shorter log; the records read beyond it are lost."""

    async def work() -> None:
        async with scripted() as broker:
            await fill(broker, 10)
            broker.handlers[OffsetForLeaderEpochRequest] = lambda *_: ended_at(4)
            async with Consumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
                consumer.assign([WHERE])
                assert await take(consumer, 10) == list(range(10))
                elect(broker, 4)
                consumer.cluster.metadata.expire()
                await fill(broker, 2)
                assert await take(consumer, 2) == [4, 5]

    run(work())


def test_a_truncated_log_stops_a_reader_without_a_policy(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker:
            await fill(broker, 10)
            broker.handlers[OffsetForLeaderEpochRequest] = lambda *_: ended_at(4)
            options = {**QUICK, "auto_offset_reset": "none"}
            async with Consumer(bootstrap_servers=broker.bootstrap, **options) as consumer:
                consumer.assign([WHERE])
                consumer.seek(WHERE, 0)
                assert await take(consumer, 10) == list(range(10))
                elect(broker, 4)
                consumer.cluster.metadata.expire()
                with pytest.raises(client_errors.OffsetOutOfRangeError, match="truncated to offset 4"):
                    for _ in range(50):
                        await consumer.poll(50)

    run(work())


def elect(broker: ScriptedBroker, end_offset: int) -> None:
    """Another leader, whose log ends earlier."""
    broker.leader_epoch += 1
    broker.log = [batch for batch in broker.log if batch.last_offset < end_offset]
    broker._next_offset = end_offset


def ended_at(offset: int) -> OffsetForLeaderEpochResponse:
    part = OffsetForLeaderEpochResponse.EpochEndOffset(
        error_code=0, partition=0, leader_epoch=0, end_offset=offset
    )
    topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult(topic=TOPIC, partitions=[part])
    return OffsetForLeaderEpochResponse(throttle_time_ms=0, topics=[topic])


@pytest.mark.trap
def test_an_offset_within_a_batch(run: Run) -> None:
    """Trap 5: a fetch offset in the middle of a batch returns the whole batch."""

    async def work() -> None:
        async with scripted() as broker:
            async with Producer(bootstrap_servers=broker.bootstrap, linger_ms=50) as producer:
                for number in range(10):
                    await producer.send(TOPIC, b"%d" % number)
            assert len(broker.log) == 1
            async with Consumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
                consumer.assign([WHERE])
                consumer.seek(WHERE, 7)
                assert await take(consumer, 3) == [7, 8, 9]
                consumer.seek(WHERE, 8)
                batch = await consumer.poll_arrow(1000)
                assert batch is not None
                assert batch.column("offset").to_pylist() == [8, 9]

    run(work())


def test_damage_is_found_and_may_be_passed_over(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker:
            await fill(broker, 3)
            damaged = bytearray(broker.log[1].copy())
            damaged[-2] ^= 0xFF
            broker.log[1] = type(broker.log[1])(bytes(damaged))
            async with Consumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
                consumer.assign([WHERE])
                assert await take(consumer, 1) == [0]
                for _ in range(2):
                    with pytest.raises(client_errors.KafkaError, match="corrupt"):
                        await consumer.poll(1000)
                consumer.seek(WHERE, 2)
                assert await take(consumer, 1) == [2]

    run(work())


def test_reading_ahead_has_its_limits(run: Run) -> None:
    async def work() -> None:
        async with scripted() as broker:
            await fill(broker, 50)

            def one_each(request: FetchRequest, version: int) -> Any:
                offset = request.topics[0].partitions[0].fetch_offset if request.topics else 50
                response = broker.fetched(offset)
                part = response.responses[0].partitions[0]
                part.records = next((one.copy() for one in broker.log if one.base_offset == offset), b"")
                return response

            broker.handlers[FetchRequest] = one_each
            async with Consumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
                consumer.assign([WHERE])
                assert len(await consumer.poll(1000, max_records=1)) == 1

                def is_at_rest() -> bool:
                    consumer._fetcher.fetch()
                    return not consumer._fetcher._in_flight

                await until(is_at_rest)
                assert broker.count(FetchRequest) <= 4
                assert await take(consumer, 49) == list(range(1, 50))

    run(work())


@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("as_arrow", [False, True])
def test_what_was_handed_out_stays_as_it_is(run: Run, codec: str, as_arrow: bool) -> None:
    """Large responses are kept in reused buffers; none of that memory is passed to the user."""

    async def work() -> None:
        wanted = [b"%05d" % number * 20_000 for number in range(12)]
        async with scripted() as broker:
            options: dict[str, Any] = {"batch_size": 1, "compression_type": codec}
            async with Producer(bootstrap_servers=broker.bootstrap, linger_ms=0, **options) as producer:
                for value in wanted:
                    await producer.send(TOPIC, value)

            def two_each(request: FetchRequest, version: int) -> Any:
                offset = request.topics[0].partitions[0].fetch_offset if request.topics else len(wanted)
                response = broker.fetched(offset)
                part = response.responses[0].partitions[0]
                part.records = b"".join(one.copy() for one in broker.log[offset : offset + 2])
                return response

            broker.handlers[FetchRequest] = two_each
            async with Consumer(bootstrap_servers=broker.bootstrap, **QUICK) as consumer:
                consumer.assign([WHERE])
                assert await handed_out(consumer, len(wanted), as_arrow) == wanted

    run(work())


async def handed_out(consumer: Consumer, count: int, as_arrow: bool) -> list[object]:
    """The values, checked only after all of them have arrived."""
    if as_arrow:
        batches: list[Any] = []
        while sum(batch.num_rows for batch in batches) < count:
            found = await consumer.poll_arrow(1000)
            batches += [] if found is None else [found]
        return [value for batch in batches for value in batch.column("value").to_pylist()]
    records: list[Any] = []
    while len(records) < count:
        records += await consumer.poll(1000)
    return [record.value for record in records]
