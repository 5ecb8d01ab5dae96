"""Produce requests that name so many partitions that they are written in parts."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.handlers import produce
from barnabas.broker.network.request_context import CloseConnectionError
from barnabas.protocol.messages.produce import ProduceRequest
from tests.broker.worlds.data_world import (
    World,
    batch_of,
    fetch_request,
    partition_answers,
    produce_request,
    values_in,
)
from tests.broker.worlds.steps import begun


def patched(position: int, data: bytes) -> bytearray:
    batch = batch_of(b"a")
    batch[position : position + len(data)] = data
    return batch


MANY = 1_200
# In the last of the parts that have 100 partitions each.
BAD_INDEX = 1_150


# Apache Kafka's responses to the same batches in a request for one partition are in tests/broker/handlers/test_produce.py.
REFUSED_ALONE = {
    "bad crc": (patched(30, b"\xff"), ErrorCode.CORRUPT_MESSAGE),
    "no records": (bytearray(), ErrorCode.INVALID_RECORD),
    "control records": (batch_of(b"a", control=True), ErrorCode.INVALID_RECORD),
}
MALFORMED = {
    "a length of 0": (bytearray(20), "Record size 0 is less than the minimum record overhead (14)"),
    "magic 7": (patched(16, b"\7"), "Invalid magic found in record: 7"),
}


def world_with_many_partitions() -> World:
    world = World()
    world.topic("wide", MANY)
    return world


def ask_large(world: World, request: ProduceRequest, version: int = 12) -> Any:
    """Like `World.ask`, for a request too large to be handled at once."""
    context = world.context(produce.KEY, version)
    context.is_large = True
    return begun(produce.handle(world, request, context))  # type: ignore[arg-type]  # the test's broker


def wide_request(bad: bytearray, acks: int) -> ProduceRequest:
    batches: dict[int, bytes | bytearray | None] = {index: batch_of(b"a") for index in range(MANY)}
    batches[BAD_INDEX] = bytearray(bad)
    return produce_request("wide", batches, acks=acks)


def transactional_batch(producer_id: int) -> bytearray:
    return batch_of(b"a", producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)


def written_count(world: World) -> int:
    return sum(world.log("wide", index).end_offset for index in range(MANY))


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("name", REFUSED_ALONE)
def test_a_bad_batch_in_one_part_is_refused_alone(name: str, acks: int) -> None:
    world = world_with_many_partitions()
    batch, code = REFUSED_ALONE[name]
    response = ask_large(world, wide_request(batch, acks))
    (topic,) = response.responses
    assert {one.index: one.error_code for one in topic.partition_responses if one.error_code} == {
        BAD_INDEX: code
    }
    assert len(topic.partition_responses) == MANY
    assert written_count(world) == MANY - 1


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_batch_in_one_part_refuses_the_request_before_any_part_is_written(name: str) -> None:
    """The parts before it were written, and their partitions got the error nevertheless."""
    world = world_with_many_partitions()
    batch, message = MALFORMED[name]
    for acks in (0, 1, -1):
        with pytest.raises(KafkaError) as refused:
            ask_large(world, wide_request(batch, acks))
        assert (refused.value.code, refused.value.message) == (ErrorCode.CORRUPT_MESSAGE, message)
    assert written_count(world) == 0


def test_two_producers_in_different_parts_refuse_the_request_before_any_part_is_written() -> None:
    world = world_with_many_partitions()

    request = wide_request(transactional_batch(7), acks=1)
    request.topic_data[0].partition_data[BAD_INDEX - 200].records = transactional_batch(8)
    request.transactional_id = "t"
    with pytest.raises(KafkaError) as refused:
        ask_large(world, request)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert written_count(world) == 0


def test_an_error_in_one_part_with_acks_0_closes_the_connection_after_the_other_parts_are_written() -> None:
    world = world_with_many_partitions()
    request = wide_request(batch_of(b"a"), acks=0)
    request.topic_data[0].partition_data[3].records = patched(30, b"\xff")
    with pytest.raises(CloseConnectionError, match="CORRUPT_MESSAGE"):
        ask_large(world, request)
    assert written_count(world) == MANY - 1


def test_a_part_that_is_refused_as_a_whole_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ACL that is removed while the parts are written."""
    world = world_with_many_partitions()
    request = wide_request(transactional_batch(7), acks=1)
    request.transactional_id = "t"
    checks = iter((True, False))
    monkeypatch.setattr(produce, "_may_write_as", lambda *_: next(checks))
    (topic,) = ask_large(world, request).responses
    refused = [one.index for one in topic.partition_responses if one.error_code]
    assert refused == list(range(1_100, 1_200))
    assert {one.error_code for one in topic.partition_responses} == {
        ErrorCode.NONE,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
    assert written_count(world) == 1_100


def test_every_part_names_its_leaders() -> None:
    """KIP-951: only the endpoints of the first part were returned."""
    world = World()
    world.topic("here", MANY)
    world.topic("there", replicas=[1, 2], leader=2)
    request = produce_request("here", {index: batch_of(b"a") for index in range(MANY)})
    request.topic_data += produce_request("there", {0: batch_of(b"a")}).topic_data
    assert [one.node_id for one in ask_large(world, request).node_endpoints] == [2]


def test_a_request_that_is_refused_as_a_whole_has_no_response_with_acks_0() -> None:
    """As in Apache Kafka, the connection is closed: the client expects no response."""
    request = produce_request("orders", {0: batch_of(b"a")}, acks=0)
    assert produce.refuse(request, ErrorCode.CORRUPT_MESSAGE, "bad") is None


def test_the_last_records_of_each_partition_are_written_once() -> None:
    """F2: a Produce request of a megabyte of partitions held the loop for seconds."""
    world = world_with_many_partitions()
    request = wide_request(batch_of(b"a"), acks=1)
    request.topic_data += produce_request("wide", {index: batch_of(b"b") for index in range(MANY)}).topic_data
    (topic,) = ask_large(world, request).responses
    assert [(one.index, one.error_code) for one in topic.partition_responses] == [
        (index, 0) for index in range(MANY)
    ]
    assert written_count(world) == MANY
    fetched = partition_answers(world.fetch(fetch_request("wide", {0: 0, BAD_INDEX: 0})))
    assert {tuple(values_in(one)) for one in fetched.values()} == {((0, b"b"),)}


def test_without_acks_there_is_no_response() -> None:
    world = world_with_many_partitions()
    assert ask_large(world, wide_request(batch_of(b"a"), acks=0)) is None
    assert written_count(world) == MANY
