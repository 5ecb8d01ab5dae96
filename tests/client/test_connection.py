"""The conversation with a broker, without a broker: bytes out, bytes in."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.client.connection import MAX_RESPONSE_BYTES, ConnectionProtocol
from barnabas.client.errors import NetworkError, UnsupportedVersionError
from barnabas.protocol.apis import api_named
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.primitives import ProtocolError, record_view
from barnabas.protocol.schema import Message, Versions
from tests.frames import read_request, write_response

METADATA = MetadataRequest(topics=[])
NOTHING = MetadataResponse(brokers=[], topics=[])


class Heard:
    """What was said to the callback of a request."""

    def __init__(self) -> None:
        self.answers: list[Message | None] = []
        self.errors: list[Exception | None] = []

    def __call__(self, answer: Message | None, error: Exception | None) -> None:
        self.answers.append(answer)
        self.errors.append(error)


def frame(pieces: list[Any]) -> bytes:
    """A request as the peer sees it, without its size."""
    whole = b"".join(pieces)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    return whole[4:]


def versions(*rows: tuple[str, int, int], code: int = 0) -> ApiVersionsResponse:
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=api_named(name).key, min_version=low, max_version=high)
        for name, low, high in rows
    ]
    return ApiVersionsResponse(error_code=code, api_keys=keys)


class Greeting:
    """The first exchange, step by step."""

    def __init__(self) -> None:
        self.talk = ConnectionProtocol("tester")
        self.sent: list[bytes] = []
        self.outcome: list[Exception | None] = []
        self.talk.handshake(self.outcome.append).start(lambda *pieces: self.sent.append(frame(list(pieces))))

    def answer(self, response: ApiVersionsResponse, version: int) -> None:
        head, request = read_request(self.sent[-1])
        assert isinstance(request, ApiVersionsRequest)
        data = write_response(response, version, head.correlation_id)
        assert self.talk.receive(memoryview(data)) == len(data)

    @property
    def asked_version(self) -> int:
        return read_request(self.sent[-1])[0].version


def test_versions_are_agreed_on() -> None:
    greeting = Greeting()
    head, request = read_request(greeting.sent[0])
    assert (head.version, head.client_id) == (4, "tester")
    assert isinstance(request, ApiVersionsRequest)
    assert request.client_software_name == "barnabas"
    greeting.answer(versions(("ApiVersions", 0, 4), ("Metadata", 0, 7), ("Produce", 0, 99)), 4)
    assert greeting.outcome == [None]
    talk = greeting.talk
    assert talk.version_for(api_named("Metadata")) == 7
    assert talk.version_for(api_named("Metadata"), 5) == 5
    assert talk.version_for(api_named("Produce")) == api_named("Produce").stable
    with pytest.raises(UnsupportedVersionError, match="Fetch"):
        talk.version_for(api_named("Fetch"))


def test_what_is_too_old_or_too_new_is_said() -> None:
    greeting = Greeting()
    greeting.answer(versions(("CreateTopics", 0, 1), ("Metadata", 90, 99)), 4)
    for name in ("CreateTopics", "Metadata"):
        with pytest.raises(UnsupportedVersionError, match=name):
            greeting.talk.version_for(api_named(name))


@pytest.mark.trap
def test_a_broker_that_knows_only_older_api_versions() -> None:
    """Trap 1: an unsupported version is answered in version 0 with the list."""
    greeting = Greeting()
    refusal = versions(("ApiVersions", 0, 2), code=ErrorCode.UNSUPPORTED_VERSION)
    greeting.answer(refusal, 0)
    assert greeting.asked_version == 2
    greeting.answer(versions(("ApiVersions", 0, 2), ("Metadata", 0, 5)), 2)
    assert greeting.outcome == [None]
    assert greeting.talk.api_versions[3] == Versions(0, 5)


def test_a_broker_that_refuses_every_version_is_not_asked_for_ever() -> None:
    greeting = Greeting()
    for _ in range(2):
        greeting.answer(versions(("ApiVersions", 0, 3), code=ErrorCode.UNSUPPORTED_VERSION), 0)
    assert isinstance(greeting.outcome[0], UnsupportedVersionError)
    assert len(greeting.sent) == 2


def test_answers_find_their_requests_however_the_bytes_come() -> None:
    talk = ConnectionProtocol("tester")
    heard = [Heard(), Heard()]
    data = b""
    for one in heard:
        head, _ = read_request(frame(talk.request(METADATA, 9, one)))
        data += write_response(NOTHING, 9, head.correlation_id)
    assert talk.in_flight == 2
    held = b""
    for position in range(len(data)):
        held += data[position : position + 1]
        held = held[talk.receive(memoryview(held)) :]
    assert held == b""
    assert [one.answers for one in heard] == [[NOTHING], [NOTHING]]
    assert talk.in_flight == 0


def test_an_answer_in_place_is_read_where_it_lies() -> None:
    """Who asks for it copies what it keeps; everybody else has bytes that stay."""
    records = b"records of some length"
    part = FetchResponse.PartitionData(
        partition_index=0, error_code=0, high_watermark=1, aborted_transactions=None, records=records
    )
    topic = FetchResponse.FetchableTopicResponse(partitions=[part])
    answer = FetchResponse(throttle_time_ms=0, responses=[topic])
    kept: list[bytes] = []
    for in_place in (True, False):
        talk, heard = ConnectionProtocol("tester"), Heard()
        asked = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[])
        head, _ = read_request(frame(talk.request(asked, 13, heard, in_place=in_place)))
        received = bytearray(write_response(answer, 13, head.correlation_id))
        assert talk.receive(memoryview(received)) == len(received)
        received[:] = bytes(len(received))
        (message,) = heard.answers
        assert isinstance(message, FetchResponse)
        kept.append(bytes(record_view(message.responses[0].partitions[0].records)))
    assert kept == [bytes(len(records)), records]


def test_a_large_answer_is_announced() -> None:
    talk = ConnectionProtocol("tester")
    talk.request(METADATA, 9, Heard())
    assert talk.receive(memoryview((5_000_000).to_bytes(4, "big") + b"start")) == 0
    assert talk.expected == 5_000_004


@pytest.mark.parametrize("size", [-1, MAX_RESPONSE_BYTES + 1, 2**31 - 1])
def test_a_size_that_makes_no_sense_is_refused(size: int) -> None:
    talk = ConnectionProtocol("tester")
    talk.request(METADATA, 9, Heard())
    with pytest.raises(ProtocolError):
        talk.receive(memoryview(size.to_bytes(4, "big", signed=True)))


def test_an_answer_out_of_order_ends_it() -> None:
    talk = ConnectionProtocol("tester")
    head, _ = read_request(frame(talk.request(METADATA, 9, Heard())))
    wrong = write_response(NOTHING, 9, head.correlation_id + 1)
    with pytest.raises(ProtocolError, match="not to"):
        talk.receive(memoryview(wrong))
    with pytest.raises(ProtocolError, match="without a request"):
        talk.receive(memoryview(wrong))


def test_the_end_is_told_to_all_who_wait() -> None:
    talk = ConnectionProtocol("tester")
    heard = [Heard() for _ in range(3)]
    for one in heard:
        talk.request(METADATA, 9, one)
    talk.end(NetworkError("gone"))
    assert [str(one.errors[0]) for one in heard] == ["NETWORK_EXCEPTION: gone"] * 3
    assert talk.in_flight == 0


def test_a_request_without_an_answer_leaves_nobody_waiting() -> None:
    talk = ConnectionProtocol("tester")
    request = ProduceRequest(acks=0, timeout_ms=1, topic_data=[])
    head, read = read_request(frame(talk.request(request, 9, None)))
    assert (head.version, read) == (9, request)
    assert talk.in_flight == 0
