"""What a hostile client tries, and what Apache Kafka answers: here over real sockets, with our answer the same.

Each test also holds that a healthy client is served right after, and that the broker has not grown.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.batch.build import build
from barnabas.batch.compression import Codec, compress
from barnabas.batch.records import Record
from barnabas.batch.view import batch_crc
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.primitives import encode_unsigned_varint as varint
from tests.broker.worlds.live_broker import live_broker
from tools.raw_broker import BrokerProcess, RawConnection

MAX_GROWTH_BYTES = 64 << 20
TOPIC = "target"
PRODUCE, FETCH, METADATA, SASL_HANDSHAKE, API_VERSIONS, CREATE_TOPICS = 0, 1, 3, 17, 18, 19
NOW_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with live_broker() as broker:
        with broker.connect() as connection:
            assert created(connection, TOPIC) is ErrorCode.NONE
        yield broker


@pytest.fixture(autouse=True)
def unharmed(broker: BrokerProcess) -> Iterator[None]:
    before = broker.rss_bytes
    yield
    with broker.connect() as connection:
        assert connection.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == 0
    assert broker.rss_bytes - before < MAX_GROWTH_BYTES


# Bytes


def frame(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request


def head(key: int, version: int, correlation_id: int = 7, client_id: bytes = b"hostile") -> bytes:
    return struct.pack(">hhih", key, version, correlation_id, len(client_id)) + client_id


def send(broker: BrokerProcess, data: bytes) -> bytes | None:
    """The answer, or None if the connection was closed."""
    with broker.connect() as connection:
        connection.send(data)
        return connection.frame()


def created(connection: RawConnection, name: str, partitions: int = 1) -> ErrorCode:
    topic = CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    return ErrorCode(connection.ask(request, 7, CreateTopicsResponse).topics[0].error_code)


def produced(broker: BrokerProcess, records: bytes, acks: int = -1) -> ErrorCode:
    partition = ProduceRequest.PartitionProduceData(index=0, records=records)
    topics = [ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[partition])]
    request = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics)
    with broker.connect() as connection:
        answer = connection.ask(request, 9, ProduceResponse)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def batch(records: bytes = b"", **lies: int) -> bytearray:
    """A batch of one record, or of these bytes for records; its header fields may be wrong."""
    made = build([Record(0, NOW_MS, b"key", b"value")])
    if records:
        made[61:] = records
        struct.pack_into(">i", made, 8, len(made) - 12)
    places = {"length": (">i", 8), "magic": (">b", 16), "attributes": (">h", 21), "count": (">i", 57)}
    for name, value in lies.items():
        if name != "crc":
            form, position = places[name]
            struct.pack_into(form, made, position, value)
    if "count" in lies:
        struct.pack_into(">i", made, 23, lies["count"] - 1)
    if "length" not in lies:
        struct.pack_into(">I", made, 17, lies.get("crc", batch_crc(made, 0, len(made))))
    return made


# Frames


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 2**31 - 1) + b"x" * 100,
        struct.pack(">i", -1),
        struct.pack(">i", -(2**31)),
        struct.pack(">i", 0),
        struct.pack(">i", 100 * 1024 * 1024 + 1),
        frame(b"\0\x12\0\0"),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes.fromhex("16030100c8010000c40303") + bytes(180),
        bytes(range(255, -1, -1)) * 256,
    ],
    ids=["2^31-1", "-1", "-2^31", "0", "over the limit", "no header", "HTTP", "TLS hello", "64 KiB of noise"],
)
def test_what_is_no_frame_closes_the_connection(broker: BrokerProcess, data: bytes) -> None:
    assert send(broker, data) is None


def test_a_size_within_the_limit_reserves_nothing(broker: BrokerProcess) -> None:
    """Memory grows with bytes that have come, not with those that were announced."""
    before = broker.rss_bytes
    connections = [broker.connect() for _ in range(20)]
    for connection in connections:
        connection.send(struct.pack(">i", 100 * 1024 * 1024) + b"\0" * 1000)
    with broker.connect() as healthy:
        assert healthy.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == 0
    assert broker.rss_bytes - before < MAX_GROWTH_BYTES
    for connection in connections:
        connection.socket.close()


@pytest.mark.parametrize(
    "request_head",
    [
        head(999, 0),
        head(-1, 0),
        head(PRODUCE, 99),
        head(METADATA, -1),
        struct.pack(">hhih", METADATA, 1, 1, 32767) + b"x",
        head(4, 0) + bytes(20),
        head(6, 0) + bytes(20),
        head(7, 1) + bytes(20),
        head(58, 0) + b"\0\1\0\0\0",
        head(52, 0) + bytes(20),
        head(62, 0) + bytes(20),
        head(63, 0) + bytes(20),
    ],
    ids=[
        "unknown API",
        "API -1",
        "version 99",
        "version -1",
        "client id too long",
        "LeaderAndIsr",
        "UpdateMetadata",
        "ControlledShutdown",
        "Envelope",
        "Vote",
        "BrokerRegistration",
        "BrokerHeartbeat",
    ],
)
def test_what_is_not_served_here_closes_the_connection(broker: BrokerProcess, request_head: bytes) -> None:
    assert send(broker, frame(request_head)) is None


def test_api_versions_of_a_future_client_is_answered_in_version_0(broker: BrokerProcess) -> None:
    answer = send(broker, frame(head(API_VERSIONS, 99) + b"\0"))
    assert answer is not None
    assert struct.unpack_from(">ih", answer) == (7, ErrorCode.UNSUPPORTED_VERSION)


@pytest.mark.parametrize("client_id", [struct.pack(">h", -2), struct.pack(">h", 3) + b"\xff\xfe\0"])
def test_a_strange_client_id_is_no_reason_to_refuse(broker: BrokerProcess, client_id: bytes) -> None:
    answer = send(broker, frame(struct.pack(">hhi", API_VERSIONS, 0, 7) + client_id))
    assert answer is not None
    assert struct.unpack_from(">ih", answer) == (7, 0)


@pytest.mark.parametrize(
    "request_bytes",
    [
        head(METADATA, 1) + struct.pack(">i", 2**31 - 1),
        head(METADATA, 9) + varint(2**28),
        head(METADATA, 9) + b"\0" + b"\xff" * 10,
        head(METADATA, 9) + b"\0" + varint(2**31 - 1),
        head(FETCH, 4) + struct.pack(">iiiibi", -1, 100, 1, 1000, 0, 10**8),
        head(PRODUCE, 3)
        + struct.pack(">hhi", -1, -1, 5000)
        + struct.pack(">ih", 1, len(TOPIC))
        + TOPIC.encode()
        + struct.pack(">iii", 1, 0, 2**31 - 1)
        + bytes(100),
    ],
    ids=["array", "tags", "overlong varint", "compact array", "nested array", "records"],
)
def test_lying_counts_and_lengths_close_the_connection(broker: BrokerProcess, request_bytes: bytes) -> None:
    assert send(broker, frame(request_bytes)) is None


def test_a_negative_count_is_null(broker: BrokerProcess) -> None:
    """As Apache Kafka's generated readers take it: here the null array that asks for all topics."""
    answer = send(broker, frame(head(METADATA, 1) + struct.pack(">i", -2)))
    assert answer is not None
    assert TOPIC.encode() in answer


# Topics


@pytest.mark.parametrize(
    "name",
    [
        b"..",
        b".",
        b"../../etc/passwd",
        b"a/b",
        b"a\\b",
        b"a\0b",
        b"",
        b"x" * 250,
        b"a b",
        b"\xff\xfe",
        b"a\nb",
    ],
)
def test_names_that_no_topic_may_have(broker: BrokerProcess, name: bytes) -> None:
    topic = struct.pack(">ih", 1, len(name)) + name + struct.pack(">ihii", 1, 1, 0, 0)
    answer = send(broker, frame(head(CREATE_TOPICS, 2) + topic + struct.pack(">ib", 5000, 0)))
    assert answer is not None
    (size,) = struct.unpack_from(">h", answer, 12)
    assert struct.unpack_from(">h", answer, 14 + size) == (ErrorCode.INVALID_TOPIC_EXCEPTION,)


@pytest.mark.parametrize(
    ("partitions", "code"),
    [
        (10**9, ErrorCode.POLICY_VIOLATION),
        (-5, ErrorCode.INVALID_PARTITIONS),
        (0, ErrorCode.INVALID_PARTITIONS),
    ],
)
def test_counts_of_partitions(broker: BrokerProcess, partitions: int, code: ErrorCode) -> None:
    with broker.connect() as connection:
        assert created(connection, "too-many-or-too-few", partitions) is code


# Batches


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (batch(crc=1), ErrorCode.CORRUPT_MESSAGE),
        (batch(magic=7), ErrorCode.CORRUPT_MESSAGE),
        (batch(length=-5), ErrorCode.CORRUPT_MESSAGE),
        (batch(length=10**6), ErrorCode.INVALID_RECORD),
        (batch(count=2**31 - 1), ErrorCode.INVALID_RECORD),
        (batch(count=0), ErrorCode.INVALID_RECORD),
        (batch(b"\x01"), ErrorCode.INVALID_RECORD),
        (batch(b"\x80\x89\x7aabc"), ErrorCode.INVALID_RECORD),
        (batch(attributes=32), ErrorCode.INVALID_RECORD),
        (struct.pack(">qiIbbii", 0, 14, 0, 0, 0, -1, 0), ErrorCode.INVALID_RECORD),
    ],
    ids=[
        "wrong CRC",
        "magic 7",
        "negative length",
        "too long",
        "2^31-1 records",
        "no records",
        "record of length -1",
        "record past the end",
        "control batch",
        "magic 0",
    ],
)
def test_batches_that_are_not_what_they_say(broker: BrokerProcess, records: bytes, code: ErrorCode) -> None:
    assert produced(broker, bytes(records)) is code


def test_a_good_batch_is_still_taken(broker: BrokerProcess) -> None:
    assert produced(broker, bytes(batch())) is ErrorCode.NONE


def test_acks_that_do_not_exist(broker: BrokerProcess) -> None:
    assert produced(broker, bytes(batch()), acks=5) is ErrorCode.INVALID_REQUIRED_ACKS


BOMB_BYTES = 96 << 20


def bombs() -> Iterator[tuple[Codec, bytes]]:
    """One record of zeroes, which all codecs make small."""
    record = bytes(build([Record(0, NOW_MS, None, bytes(BOMB_BYTES))])[61:])
    yield Codec.GZIP, gzip.compress(record, 9)
    for codec in (Codec.LZ4, Codec.ZSTD):
        yield codec, bytes(compress(codec, record))


def test_compression_bombs_take_no_memory(broker: BrokerProcess) -> None:
    """The growth is held by `unharmed`; the answer is one or the other, but it comes."""
    for codec, packed in bombs():
        assert len(packed) < 1 << 20, codec
        produced(broker, bytes(batch(packed, attributes=codec.value)))


@pytest.mark.parametrize("attributes", [5, 6, 7])
def test_codecs_that_do_not_exist(broker: BrokerProcess, attributes: int) -> None:
    assert produced(broker, bytes(batch(attributes=attributes))) is not ErrorCode.NONE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_what_is_not_compressed_as_it_says(broker: BrokerProcess, codec: Codec) -> None:
    assert produced(broker, bytes(batch(b"not compressed" * 9, attributes=codec.value))) is not ErrorCode.NONE


# Not for this client


def test_sasl_on_a_listener_without_it(broker: BrokerProcess) -> None:
    answer = send(broker, frame(head(SASL_HANDSHAKE, 1) + struct.pack(">h", 5) + b"PLAIN"))
    assert answer is not None
    assert struct.unpack_from(">ih", answer) == (7, ErrorCode.ILLEGAL_SASL_STATE)


# Slow clients, and many


def api_versions(number: int) -> bytes:
    return frame(head(API_VERSIONS, 0, number))


def test_pipelined_requests_are_answered_in_order(broker: BrokerProcess) -> None:
    with broker.connect() as connection:
        connection.send(b"".join(map(api_versions, range(2000))))
        for number in range(2000):
            answer = connection.frame()
            assert answer is not None
            assert struct.unpack_from(">i", answer) == (number,)


def test_a_request_of_single_bytes(broker: BrokerProcess) -> None:
    with broker.connect() as connection:
        for byte in api_versions(7):
            connection.send(bytes([byte]))
        answer = connection.frame()
        assert answer is not None
        assert struct.unpack_from(">i", answer) == (7,)


def test_who_never_reads_is_not_read_from_either(broker: BrokerProcess) -> None:
    """Its answers fill the socket and our queue; then it must wait, and memory stays what it is."""
    with broker.connect() as connection:
        connection.socket.setblocking(False)
        requests, sent, refused = api_versions(7) * 1000, 0, 0
        while refused < 50:
            try:
                sent += connection.socket.send(requests)
                refused = 0
            except BlockingIOError:
                refused += 1
                with broker.connect() as healthy:
                    assert healthy.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == 0
        assert sent < 512 << 20


def test_half_requests_hold_nobody_up(broker: BrokerProcess) -> None:
    connections = [broker.connect() for _ in range(300)]
    for connection in connections:
        connection.send(struct.pack(">i", 100) + b"\0")
    with broker.connect() as healthy:
        assert healthy.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == 0
    for connection in connections:
        connection.socket.close()


def test_who_comes_and_goes(broker: BrokerProcess) -> None:
    before = broker.open_file_count
    for _ in range(1000):
        broker.connect().socket.close()
    with broker.connect() as healthy:
        for _ in range(3):
            assert healthy.ask(ApiVersionsRequest(), 0, ApiVersionsResponse).error_code == 0
    assert broker.open_file_count <= before + 1
