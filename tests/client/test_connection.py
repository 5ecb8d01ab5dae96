"""The conversation with a broker, without a broker: bytes out, bytes in."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.client.connection import MAX_RESPONSE_BYTES, ConnectionProtocol
from barnabas.client.errors import NetworkError, UnsupportedVersionError
from barnabas.client.login.handshake import Handshake
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


class RecordedCalls:
    """The recorded calls of a request's callback."""

    def __init__(self) -> None:
        self.responses: list[Message | None] = []
        self.errors: list[Exception | None] = []

    def __call__(self, response: Message | None, error: Exception | None) -> None:
        self.responses.append(response)
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
        self.protocol = ConnectionProtocol("tester")
        self.sent: list[bytes] = []
        self.outcome: list[Exception | None] = []
        Handshake(self.protocol, self.outcome.append).start(
            lambda *pieces: self.sent.append(frame(list(pieces)))
        )

    def respond(self, response: ApiVersionsResponse, version: int) -> None:
        header, request = read_request(self.sent[-1])
        assert isinstance(request, ApiVersionsRequest)
        data = write_response(response, version, header.correlation_id)
        assert self.protocol.receive(memoryview(data)) == len(data)

    @property
    def asked_version(self) -> int:
        return read_request(self.sent[-1])[0].version


def test_versions_are_agreed_on() -> None:
    greeting = Greeting()
    header, request = read_request(greeting.sent[0])
    assert (header.version, header.client_id) == (4, "tester")
    assert isinstance(request, ApiVersionsRequest)
    assert request.client_software_name == "barnabas"
    greeting.respond(versions(("ApiVersions", 0, 4), ("Metadata", 0, 7), ("Produce", 0, 99)), 4)
    assert greeting.outcome == [None]
    protocol = greeting.protocol
    assert protocol.version_for(api_named("Metadata")) == 7
    assert protocol.version_for(api_named("Metadata"), 5) == 5
    assert protocol.version_for(api_named("Produce")) == api_named("Produce").stable
    with pytest.raises(UnsupportedVersionError, match="Fetch"):
        protocol.version_for(api_named("Fetch"))


def test_what_is_too_old_or_too_new_is_said() -> None:
    greeting = Greeting()
    greeting.respond(versions(("CreateTopics", 0, 1), ("Metadata", 90, 99)), 4)
    for name in ("CreateTopics", "Metadata"):
        with pytest.raises(UnsupportedVersionError, match=name):
            greeting.protocol.version_for(api_named(name))


@pytest.mark.trap
def test_a_broker_that_knows_only_older_api_versions() -> None:
    """Trap 1: an unsupported version gets a response in version 0 with the list."""
    greeting = Greeting()
    refusal = versions(("ApiVersions", 0, 2), code=ErrorCode.UNSUPPORTED_VERSION)
    greeting.respond(refusal, 0)
    assert greeting.asked_version == 2
    greeting.respond(versions(("ApiVersions", 0, 2), ("Metadata", 0, 5)), 2)
    assert greeting.outcome == [None]
    assert greeting.protocol.api_versions[3] == Versions(0, 5)


def test_a_broker_that_refuses_every_version_is_not_retried_forever() -> None:
    greeting = Greeting()
    for _ in range(2):
        greeting.respond(versions(("ApiVersions", 0, 3), code=ErrorCode.UNSUPPORTED_VERSION), 0)
    assert isinstance(greeting.outcome[0], UnsupportedVersionError)
    assert len(greeting.sent) == 2


def test_responses_match_their_requests_however_the_bytes_arrive() -> None:
    protocol = ConnectionProtocol("tester")
    calls = [RecordedCalls(), RecordedCalls()]
    data = b""
    for one in calls:
        header, _ = read_request(frame(protocol.request(METADATA, 9, one)))
        data += write_response(NOTHING, 9, header.correlation_id)
    assert protocol.in_flight == 2
    held = b""
    for position in range(len(data)):
        held += data[position : position + 1]
        held = held[protocol.receive(memoryview(held)) :]
    assert held == b""
    assert [one.responses for one in calls] == [[NOTHING], [NOTHING]]
    assert protocol.in_flight == 0


def test_an_in_place_response_is_not_copied() -> None:
    """With in_place the callback copies what it keeps; otherwise the bytes are its own."""
    records = b"records of some length"
    part = FetchResponse.PartitionData(
        partition_index=0, error_code=0, high_watermark=1, aborted_transactions=None, records=records
    )
    topic = FetchResponse.FetchableTopicResponse(partitions=[part])
    response = FetchResponse(throttle_time_ms=0, responses=[topic])
    kept: list[bytes] = []
    for in_place in (True, False):
        protocol, calls = ConnectionProtocol("tester"), RecordedCalls()
        asked = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[])
        header, _ = read_request(frame(protocol.request(asked, 13, calls, in_place=in_place)))
        received = bytearray(write_response(response, 13, header.correlation_id))
        assert protocol.receive(memoryview(received)) == len(received)
        received[:] = bytes(len(received))
        (message,) = calls.responses
        assert isinstance(message, FetchResponse)
        kept.append(bytes(record_view(message.responses[0].partitions[0].records)))
    assert kept == [bytes(len(records)), records]


def test_the_size_of_a_large_response_is_known_early() -> None:
    protocol = ConnectionProtocol("tester")
    protocol.request(METADATA, 9, RecordedCalls())
    assert protocol.receive(memoryview((5_000_000).to_bytes(4, "big") + b"start")) == 0
    assert protocol.expected == 5_000_004


@pytest.mark.parametrize("size", [-1, MAX_RESPONSE_BYTES + 1, 2**31 - 1])
def test_a_size_that_makes_no_sense_is_refused(size: int) -> None:
    protocol = ConnectionProtocol("tester")
    protocol.request(METADATA, 9, RecordedCalls())
    with pytest.raises(ProtocolError):
        protocol.receive(memoryview(size.to_bytes(4, "big", signed=True)))


def test_a_response_out_of_order_is_an_error() -> None:
    protocol = ConnectionProtocol("tester")
    header, _ = read_request(frame(protocol.request(METADATA, 9, RecordedCalls())))
    wrong = write_response(NOTHING, 9, header.correlation_id + 1)
    with pytest.raises(ProtocolError, match="not to"):
        protocol.receive(memoryview(wrong))


def test_a_response_without_a_request_is_an_error() -> None:
    protocol = ConnectionProtocol("tester")
    with pytest.raises(ProtocolError, match="without a request"):
        protocol.receive(memoryview(write_response(NOTHING, 9, 1)))


def test_a_response_that_cannot_be_read_fails_its_request() -> None:
    """The request was no longer in flight then, and was never completed: a broker waited for ever."""
    protocol = ConnectionProtocol("tester")
    calls = RecordedCalls()
    protocol.request(METADATA, 9, calls)
    with pytest.raises(ProtocolError):
        protocol.receive(memoryview(bytes(4)))
    protocol.end(NetworkError("closed"))
    assert [str(error) for error in calls.errors] == ["NETWORK_EXCEPTION: closed"]


def test_closing_fails_all_requests_in_flight() -> None:
    protocol = ConnectionProtocol("tester")
    calls = [RecordedCalls() for _ in range(3)]
    for one in calls:
        protocol.request(METADATA, 9, one)
    protocol.end(NetworkError("closed"))
    assert [str(one.errors[0]) for one in calls] == ["NETWORK_EXCEPTION: closed"] * 3
    assert protocol.in_flight == 0


def test_a_request_without_a_response_is_not_in_flight() -> None:
    protocol = ConnectionProtocol("tester")
    request = ProduceRequest(acks=0, timeout_ms=1, topic_data=[])
    header, read = read_request(frame(protocol.request(request, 9, None)))
    assert (header.version, read) == (9, request)
    assert protocol.in_flight == 0
