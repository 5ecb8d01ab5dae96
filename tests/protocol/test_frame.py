"""Frames and headers, and the traps that caught other implementations."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.base.errors import ErrorCode
from barnabas.protocol.apis import api, api_named, apis
from barnabas.protocol.frame import (
    frame_size,
    read_correlation_id,
    read_request_header,
    read_response,
    write_request,
    write_response_pieces,
)
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.records.quorum_state import QuorumStateData
from tests.frames import FrameReader, read_request, write_response

API_VERSIONS = api_named("ApiVersions")


@pytest.fixture(scope="module")
def responses(data: Path) -> Any:
    """ApiVersions responses of Apache Kafka brokers and controllers."""
    return json.loads((data / "protocol" / "api-versions.json").read_text("utf-8"))


def frame(text: str) -> bytes:
    return bytes.fromhex(text)


@given(st.lists(st.binary(max_size=40), max_size=6), st.integers(1, 7))
def test_a_stream_is_split_into_its_frames(payloads: list[bytes], step: int) -> None:
    stream = b"".join(struct.pack(">i", len(payload)) + payload for payload in payloads)
    reader = FrameReader(100)
    frames = []
    for start in range(0, len(stream), step):
        frames += reader.feed(stream[start : start + step])
    assert frames == payloads
    assert reader.pending == 0


@pytest.mark.parametrize(
    ("size", "text"), [(-1, "the size -1"), (101, "larger than the 100"), (2**31 - 1, "larger")]
)
def test_a_size_is_checked_before_its_bytes_arrive(size: int, text: str) -> None:
    reader = FrameReader(100)
    with pytest.raises(ProtocolError, match=text):
        reader.feed(struct.pack(">i", size))
    with pytest.raises(ProtocolError, match=text):
        frame_size(struct.pack(">i", size), limit=100)


def test_a_frame_of_exactly_the_limit_is_allowed() -> None:
    assert frame_size(struct.pack(">i", 100), limit=100) == 100
    assert FrameReader(limit=5).feed(struct.pack(">i", 5) + b"frame") == [b"frame"]


def test_only_received_bytes_are_buffered() -> None:
    reader = FrameReader()
    assert reader.feed(struct.pack(">i", 100_000_000) + b"abc") == []
    assert reader.pending == 7


def test_requests_of_every_api_and_version_round_trip() -> None:
    for known in apis().values():
        for version in range(known.versions.lowest, known.versions.highest + 1):
            message = known.request.schema.new()
            framed = write_request(message, version, 77, "me")
            assert frame_size(framed) == len(framed) - 4
            header, decoded = read_request(framed[4:] + b"trailing bytes are ignored")
            assert (header.api, header.version, header.correlation_id) == (known, version, 77)
            assert header.client_id == ("" if known.request_header_version(version) == 0 else "me")
            assert decoded == message


def test_responses_round_trip() -> None:
    for known in apis().values():
        for version in range(known.versions.lowest, known.versions.highest + 1):
            if known.name == "ShareFetch":
                continue  # its default holds records that are null, which its only version does not allow
            framed = write_response(known.response.schema.new(), version, 78)
            assert read_correlation_id(framed[4:]) == 78
            assert read_response(framed[4:], known, version) == (78, known.response.schema.new())


@pytest.mark.parametrize("version", [0, 1, 2])
def test_headers_are_those_of_the_definitions(version: int) -> None:
    key, api_version = [(7, 0), (12, 3), (12, 4)][version]
    framed = write_request(api(key).request.schema.new(), api_version, 5, "client")
    header, end = RequestHeader.decode_from(framed, 4, version)
    assert (header.request_api_key, header.request_api_version, header.correlation_id) == (
        key,
        api_version,
        5,
    )
    assert header.client_id == ("client" if version else "")
    assert read_request_header(framed[4:]).body == end - 4
    response = write_response(HeartbeatResponse(error_code=0), 4, 9)
    assert ResponseHeader.decode_from(response, 4, 1)[0].correlation_id == 9


def test_a_null_client_id_reads_as_empty() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    assert read_request_header(write_request(request, 4, 1, None)[4:]).client_id == ""


def test_tagged_fields_of_a_header_are_skipped() -> None:
    header = frame("000c000400000001ffff010502aabb")
    assert read_request_header(header).body == len(header)


@pytest.mark.trap
def test_api_versions_has_response_header_0(responses: Any) -> None:
    """Trap 1: the ApiVersions response keeps response header v0 whatever the request version."""
    for version in range(5):
        assert API_VERSIONS.response_header_version(version) == 0
    for node in responses.values():
        for name in ("v3", "v4"):
            recorded = frame(node[name]["hex"])
            version = int(name[1:])
            correlation_id, response = read_response(recorded, API_VERSIONS, version)
            assert correlation_id == 7
            assert isinstance(response, ApiVersionsResponse)
            assert [[key.api_key, key.min_version, key.max_version] for key in response.api_keys] == node[
                name
            ]["api_keys"]
            assert write_response(response, version, 7) == struct.pack(">i", len(recorded)) + recorded


@pytest.mark.trap
def test_an_unknown_version_of_api_versions_gets_a_response_in_version_0(responses: Any) -> None:
    """Trap 1: an unsupported ApiVersions version gets a v0 response with UNSUPPORTED_VERSION and the list."""
    header = read_request_header(frame("001200630000000700026d6500ff"))
    assert (header.api, header.version, header.client_id) == (API_VERSIONS, 99, "me")
    assert not header.is_supported
    with pytest.raises(ProtocolError) as caught:
        header.check_version()
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    known = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=4)
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[known])
    for node in responses.values():
        assert write_response(response, 0, header.correlation_id)[4:] == frame(node["v99"]["hex"])


@pytest.mark.trap
def test_api_versions_3_has_compact_arrays_and_tagged_fields() -> None:
    """Trap 2: compact arrays and tagged fields in ApiVersions v3."""
    request = ApiVersionsRequest(client_software_name="lib", client_software_version="1.0")
    assert request.encode(3) == frame("046c696204312e3000")
    response = ApiVersionsResponse(
        error_code=0,
        api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=4)],
        finalized_features_epoch=5,
    )
    assert response.encode(3) == frame("00000200120000000400000000000101080000000000000005")


@pytest.mark.trap
def test_versions_need_not_be_negotiated() -> None:
    """Trap 4: clients that pin versions instead of negotiating: the first frame may use any known version."""
    pinned = {"Produce": 3, "Fetch": 4, "ListOffsets": 1, "Metadata": 1, "OffsetCommit": 2, "JoinGroup": 1}
    for name, version in pinned.items():
        message = api_named(name).request.schema.new()
        header, decoded = read_request(write_request(message, version, 1, "sarama")[4:])
        assert header.is_supported
        assert decoded == message


@pytest.mark.trap
@pytest.mark.parametrize("text", ["005d0000", "ffff0000", "7fff0000", "0012ffff"])
def test_unknown_keys_are_rejected(text: str) -> None:
    """Trap 25: unknown api key or version: rejected at once, the connection is closed, nothing hangs."""
    with pytest.raises(ProtocolError, match="does not exist") as caught:
        read_request_header(frame(text + "00000001ffff"))
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.trap
def test_unknown_versions_are_rejected() -> None:
    """Trap 25: unknown api key or version."""
    for known in apis().values():
        unknown = struct.pack(">hhihB", known.key, known.versions.highest + 1, 1, -1, 0)
        assert not read_request_header(unknown).is_supported
        with pytest.raises(ProtocolError, match="has no version"):
            read_request(unknown)


@pytest.mark.parametrize("text", ["", "0012", "00120003000000", "001200030000000100ff41", "0012000300000001"])
def test_a_truncated_header_is_rejected(text: str) -> None:
    with pytest.raises(ProtocolError):
        read_request_header(frame(text))


class FileSlice:
    length = 5

    def read(self) -> bytes:
        return b"batch"


def test_slices_of_files_are_sent_unread() -> None:  # M-E2
    part = FileSlice()
    partition = FetchResponse.PartitionData(
        partition_index=0, error_code=0, high_watermark=1, aborted_transactions=None, records=part
    )
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])
    response = FetchResponse(throttle_time_ms=0, responses=[topic])
    pieces: list[Any] = list(write_response_pieces(response, 12, 3))
    assert part in pieces
    joined = b"".join(piece.read() if isinstance(piece, FileSlice) else piece for piece in pieces)
    assert joined == write_response(response, 12, 3)
    assert frame_size(joined) == len(joined) - 4
    _, decoded = read_response(joined[4:], api_named("Fetch"), 12)
    assert isinstance(decoded, FetchResponse)
    assert decoded.responses[0].partitions[0].records == b"batch"
    assert isinstance(decoded.responses[0].partitions[0].records, memoryview)
    assert response.encode(12) == decoded.encode(12)


def test_only_requests_and_responses_can_be_framed() -> None:
    with pytest.raises(ProtocolError, match="neither a request nor a response"):
        write_request(QuorumStateData(), 0, 1, "me")
