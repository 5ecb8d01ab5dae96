"""Messages that are decoded and encoded in steps: the same bytes, with bounds."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import pytest

from barnabas.protocol import decoder
from barnabas.protocol.element_count import has_many_elements
from barnabas.protocol.frame import write_response_pieces, write_response_steps
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.offset_fetch import OffsetFetchRequest
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.source import STEP_ELEMENTS

T = TypeVar("T")


def drained(steps: Generator[None, None, T]) -> tuple[T, int]:
    count = 0
    while True:
        try:
            next(steps)
            count += 1
        except StopIteration as done:
            return done.value, count


def offsets_of(topics: int, partitions: int) -> OffsetFetchRequest:
    made = [
        OffsetFetchRequest.Topics(name=f"t{number}", partition_indexes=list(range(partitions)))
        for number in range(topics)
    ]
    group = OffsetFetchRequest.Group(group_id="g", topics=made)
    return OffsetFetchRequest(groups=[group, group])


@pytest.mark.parametrize("topics", [0, 1, STEP_ELEMENTS, 3 * STEP_ELEMENTS])
def test_steps_decode_and_encode_the_same(topics: int) -> None:
    request = offsets_of(topics, 3)
    data = request.encode(9)
    pieces: list[Any] = []
    _, written = drained(request.encode_steps(9, pieces))
    assert b"".join(pieces) == data
    (message, end), read = drained(OffsetFetchRequest.decode_steps(data, 0, 9))
    assert (message, end) == (request, len(data))
    assert written == read == (2 * topics + 2) // STEP_ELEMENTS


def test_a_message_without_arrays_is_decoded_in_steps_too() -> None:
    request = MetadataRequest(topics=None)
    data = request.encode(9)
    assert drained(MetadataRequest.decode_steps(data, 0, 9)) == ((request, len(data)), 0)


def test_the_number_of_elements_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """F2: each element becomes an object, which takes a hundred times its bytes."""
    monkeypatch.setattr(decoder, "MAX_ELEMENTS", 100)
    data = offsets_of(10, 20).encode(8)
    with pytest.raises(ProtocolError, match="more than 100 elements in one message"):
        drained(OffsetFetchRequest.decode_steps(data, 0, 8))


def test_errors_in_steps_are_explained_alike() -> None:
    data = offsets_of(3, 1).encode(9)[:-4]
    with pytest.raises(ProtocolError, match="cannot read version 9 of OffsetFetchRequest") as stepped:
        drained(OffsetFetchRequest.decode_steps(data, 0, 9))
    with pytest.raises(ProtocolError) as at_once:
        OffsetFetchRequest.decode_from(data, 0, 9)
    assert stepped.value.message == at_once.value.message


def topics_of(count: int) -> MetadataResponse:
    topics = [
        MetadataResponse.Topic(error_code=3, name=f"t{number}", partitions=[]) for number in range(count)
    ]
    return MetadataResponse(brokers=[], topics=topics)


@pytest.mark.parametrize("version", [1, 9])
def test_a_response_in_steps_has_the_same_bytes(version: int) -> None:
    response = topics_of(2 * STEP_ELEMENTS)
    pieces, steps = drained(write_response_steps(response, version, 7, 1 << 20))
    assert steps >= 2
    assert b"".join(pieces) == b"".join(write_response_pieces(response, version, 7))  # type: ignore[arg-type]  # no slices


def test_a_response_is_bounded_in_bytes() -> None:
    """F2: a request that repeated one id eight thousand times got a response of two hundred megabytes."""
    with pytest.raises(ProtocolError, match="a response of more than the 1000 bytes"):
        drained(write_response_steps(topics_of(2 * STEP_ELEMENTS), 9, 7, 1_000))


def test_elements_are_counted_up_to_the_limit() -> None:
    assert not has_many_elements(topics_of(100), 100)
    assert has_many_elements(topics_of(101), 100)
    nested = FetchResponse(
        throttle_time_ms=0,
        responses=[
            FetchResponse.FetchableTopicResponse(
                topic="t",
                partitions=[
                    FetchResponse.PartitionData(
                        partition_index=index,
                        error_code=0,
                        high_watermark=0,
                        aborted_transactions=[],
                        records=None,
                    )
                    for index in range(10)
                ],
            )
            for _ in range(10)
        ],
    )
    assert not has_many_elements(nested, 110)
    assert has_many_elements(nested, 109)
