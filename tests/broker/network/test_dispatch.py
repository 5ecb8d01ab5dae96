"""The way of a request from its bytes to its answer."""

from __future__ import annotations

import logging
import struct
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.broker.metrics.registry import Metrics
from barnabas.broker.network.dispatch import Dispatch
from barnabas.broker.network.request_context import CloseConnectionError, Deferred
from barnabas.broker.network.request_steps import RequestWork
from barnabas.broker.network.routes import Route
from barnabas.broker.security.authorizer import AllowEverything
from barnabas.protocol.apis import api_named
from barnabas.protocol.frame import read_response, write_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.list_config_resources import ListConfigResourcesRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.primitives import ProtocolError
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import SystemClock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import Timers
from tests.broker.worlds.front_world import call_of
from tests.broker.worlds.no_quotas import Unlimited


class ClientConnection:
    """Notes what becomes of a request."""

    def __init__(self) -> None:
        self.context = call_of(0, 0)
        self.client_id_bytes = b""
        self.sent = b""
        self.waits = 0
        self.silent_ms = 0
        self.failed: str | None = None

    def answer(self, *parts: Any) -> None:
        self.sent += b"".join(part if isinstance(part, bytes | bytearray) else part.read() for part in parts)

    def wait(self) -> None:
        self.waits += 1

    def go_on(self) -> None:
        self.waits -= 1

    def mute(self, throttle_ms: int) -> None:
        self.silent_ms = throttle_ms

    def fail(self, reason: str) -> None:
        self.failed = reason


class Server:
    """A dispatch with one route whose handler a test gives."""

    def __init__(self, name: str, handle: Any = None, **hooks: Any) -> None:
        self.metrics = Metrics()
        self.api = api_named(name)
        self.route = Route(self.api, self.metrics.requests(self.api), unstable=False)
        self.route._handle = handle
        self.route.quick = hooks.get("quick")
        self.route.refuse = hooks.get("refuse")
        self.connection = ClientConnection()
        self.timers = Timers()
        self.dispatch = Dispatch(
            "the broker",  # type: ignore[arg-type]  # only handed on
            {self.api.key: self.route},
            hooks.get("authorizer", AllowEverything()),
            hooks.get("quotas", Unlimited()),
            SystemClock(),
            RequestWork(self.timers, SystemClock().monotonic_ns),
        )

    def serve(self, request: Message, version: int, client_id: str | None = "me") -> None:
        self.dispatch.serve(memoryview(write_request(request, version, 42, client_id))[4:], self.connection)

    def answer(self, version: int) -> Any:
        size = struct.unpack_from(">i", self.connection.sent)[0]
        assert size == len(self.connection.sent) - 4
        correlation_id, message = read_response(self.connection.sent[4:], self.api, version)
        assert correlation_id == 42
        return message


METADATA = MetadataRequest(topics=[MetadataRequest.Topic(name="t")], allow_auto_topic_creation=True)
EMPTY_METADATA = MetadataResponse(brokers=[], topics=[])
CLUSTER = DescribeClusterRequest(include_cluster_authorized_operations=False)


def cluster_answer() -> DescribeClusterResponse:
    return DescribeClusterResponse(throttle_time_ms=0, error_code=0, cluster_id="c", brokers=[])


@pytest.mark.parametrize("version", [1, 8, 9, 12])
def test_a_request_reaches_its_handler_and_its_answer_the_client(version: int) -> None:
    seen: list[Any] = []

    def handle(broker: object, request: Message, context: Any) -> Message:
        seen.append(
            (broker, request, context.api_key, context.api_version, context.correlation_id, context.client_id)
        )
        return EMPTY_METADATA

    server = Server("Metadata", handle)
    server.serve(METADATA, version)
    assert seen == [("the broker", METADATA, 3, version, 42, "me")]
    assert server.answer(version) == EMPTY_METADATA
    assert server.route.metrics.count == 1


def test_a_client_id_may_be_null_and_may_change() -> None:
    seen: list[str] = []

    def handle(broker: object, request: Message, context: Any) -> Message:
        seen.append(context.client_id)
        return EMPTY_METADATA

    server = Server("Metadata", handle)
    for client_id in ("a", "a", None, "other", "größe"):
        server.serve(METADATA, 9, client_id)
    assert seen == ["a", "a", "", "other", "größe"]


@pytest.mark.parametrize(
    "head",
    [
        struct.pack(">hhih", 999, 0, 1, 0),
        struct.pack(">hhih", -1, 0, 1, 0),
        struct.pack(">hhih", 3, 99, 1, 0),
        struct.pack(">hhih", 3, -1, 1, 0),
        struct.pack(">hhih", 3, 1, 1, 32767) + b"x",
        struct.pack(">hhih", 3, 9, 1, 0) + b"\xff\xff\xff\xff\xff\xff",
        struct.pack(">hhih", 3, 9, 1, 0),
        b"\0\x03\0",
        b"",
    ],
)
@pytest.mark.trap
def test_what_cannot_be_read_closes_the_connection(head: bytes) -> None:
    """Trap 25: an unknown api key or version is answered as Apache Kafka does (close), it never hangs."""
    server = Server("Metadata", lambda *_: EMPTY_METADATA)
    with pytest.raises(ProtocolError):
        server.dispatch.serve(memoryview(head), server.connection)
    assert server.connection.sent == b""


def test_an_unknown_version_of_api_versions_reaches_its_handler_and_is_answered_in_version_0() -> None:
    def handle(broker: object, request: Message, context: Any) -> Message:
        assert context.api_version == 99
        return ApiVersionsResponse(error_code=35, api_keys=[])

    server = Server("ApiVersions", handle)
    head = struct.pack(">hhih", 18, 99, 42, 0) + b"\0"
    server.dispatch.serve(memoryview(head + b"whatever"), server.connection)
    assert server.answer(0) == ApiVersionsResponse(error_code=35, api_keys=[])


def test_a_refusal_becomes_the_answer_of_the_api() -> None:
    def handle(*_: object) -> Message:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "not like this")

    server = Server("DescribeCluster", handle)
    server.serve(CLUSTER, 1)
    answer = server.answer(1)
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, "not like this")
    assert server.route.metrics.errors == 1


def test_an_api_may_shape_its_refusal() -> None:
    def handle(*_: object) -> Message:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "no")

    def refuse(request: Any, code: ErrorCode, message: str) -> Message:
        topic = MetadataResponse.Topic(error_code=code, name=request.topics[0].name, partitions=[])
        return MetadataResponse(brokers=[], topics=[topic])

    server = Server("Metadata", handle, refuse=refuse)
    server.serve(METADATA, 4)
    assert [(topic.name, topic.error_code) for topic in server.answer(4).topics] == [("t", 42)]


def test_a_fault_is_logged_and_told_as_unknown_server_error(caplog: pytest.LogCaptureFixture) -> None:
    def handle(*_: object) -> Message:
        raise ZeroDivisionError("oops")

    server = Server("DescribeCluster", handle)
    with caplog.at_level(logging.ERROR):
        server.serve(CLUSTER, 0)
    assert server.answer(0).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "oops" in caplog.text
    assert "oops" not in (server.answer(0).error_message or "")


def test_an_error_that_no_answer_can_tell_closes_the_connection() -> None:
    def handle(*_: object) -> Message:
        raise CloseConnectionError("acks=0 failed")

    server = Server("Metadata", handle)
    server.serve(METADATA, 4)
    assert server.connection.failed == "acks=0 failed"

    def refuses(*_: object) -> Message:
        raise KafkaError(ErrorCode.INVALID_REQUEST)

    # Produce has no place for an error of the whole request, and no handler shapes one here.
    server = Server("Produce", refuses)
    from barnabas.protocol.messages.produce import ProduceRequest

    server.serve(ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 7)
    assert "INVALID_REQUEST" in (server.connection.failed or "")


def test_an_answer_may_come_later() -> None:
    promise: Promise[Message] = Promise()
    server = Server("DescribeCluster", lambda *_: promise)
    server.serve(CLUSTER, 1)
    assert (server.connection.sent, server.connection.waits) == (b"", 1)
    promise.set(cluster_answer())
    assert server.answer(1) == cluster_answer()
    assert server.connection.waits == 0


def test_an_answer_may_fail_later() -> None:
    promise: Promise[Message] = Promise()
    server = Server("DescribeCluster", lambda *_: promise)
    server.serve(CLUSTER, 1)
    promise.fail(KafkaError(ErrorCode.NOT_CONTROLLER))
    assert server.answer(1).error_code == ErrorCode.NOT_CONTROLLER
    assert server.connection.waits == 0


def test_there_may_be_no_answer() -> None:
    server = Server("DescribeCluster", lambda *_: None)
    server.serve(CLUSTER, 1)
    assert (server.connection.sent, server.connection.failed) == (b"", None)


def test_who_may_not_call_an_api_is_told_so() -> None:
    class Nobody(AllowEverything):
        def may_call(self, context: object, api: object) -> bool:
            return False

    server = Server("ListConfigResources", lambda *_: pytest.fail("it was handled"), authorizer=Nobody())
    server.serve(ListConfigResourcesRequest(), 1)
    assert server.answer(1).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class Strict(Unlimited):
    """Every client has the same limits."""

    is_set = True

    def __init__(self, received_ms: int = 0, worked_ms: int = 0) -> None:
        self.received_ms = received_ms
        self.worked_ms = worked_ms

    def limits_of(self, context: object) -> Any:
        return self

    def received(self, api_key: int, request_bytes: int) -> int:
        return self.received_ms if request_bytes > 10 else 0

    def worked(self, elapsed_ns: int) -> int:
        return self.worked_ms


def test_who_is_over_quota_is_answered_at_once_and_then_silenced() -> None:
    """KIP-219: the answer names the time, and for so long nothing more is read."""

    server = Server(
        "DescribeCluster",
        lambda *_: cluster_answer(),
        quotas=Strict(received_ms=250),
        quick=lambda *_: pytest.fail("the short way has no throttle time"),
    )
    server.serve(CLUSTER, 1)
    assert server.answer(1).throttle_time_ms == 250
    assert server.connection.silent_ms == 250


@pytest.mark.parametrize(
    ("received_ms", "worked_ms", "told_ms", "expected_ms"),
    [(0, 0, 0, 0), (30, 20, 0, 30), (20, 30, 0, 30), (20, 30, 40, 40)],
)
def test_the_longest_time_counts(received_ms: int, worked_ms: int, told_ms: int, expected_ms: int) -> None:
    """By bytes, by the loop's time (KIP-124), and by what a handler itself has found."""
    answer = cluster_answer()
    answer.throttle_time_ms = told_ms
    promise: Promise[Message] = Promise()
    server = Server("DescribeCluster", lambda *_: promise, quotas=Strict(received_ms, worked_ms))
    server.serve(CLUSTER, 1)
    assert server.connection.silent_ms == 0, "it is silenced with its answer"
    promise.set(answer)
    assert server.answer(1).throttle_time_ms == expected_ms
    assert server.connection.silent_ms == expected_ms


def test_refusals_and_no_answers_are_throttled_too() -> None:
    def refuse(*_: object) -> Message:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    server = Server("DescribeCluster", refuse, quotas=Strict(70))
    server.serve(CLUSTER, 1)
    assert (server.answer(1).throttle_time_ms, server.connection.silent_ms) == (70, 70)
    server = Server("DescribeCluster", lambda *_: None, quotas=Strict(80))
    server.serve(CLUSTER, 1)
    assert server.connection.silent_ms == 80


def test_who_has_no_quota_takes_the_short_way() -> None:
    class OfOthers(Strict):
        def limits_of(self, context: object) -> None:
            return None

    taken: list[object] = []
    server = Server(
        "DescribeCluster", lambda *_: cluster_answer(), quotas=OfOthers(), quick=lambda *_: taken.append(1)
    )
    server.serve(CLUSTER, 1)
    assert taken == [1]
    assert server.answer(1).throttle_time_ms == 0


@pytest.mark.parametrize("version", [4, 9])
def test_the_short_way_gives_the_answer_s_bytes(version: int) -> None:
    """With a header that has tagged fields from the flexible versions on."""
    body = EMPTY_METADATA.encode(version)
    server = Server("Metadata", None, quick=lambda broker, frame, position, context: [body[:3], body[3:]])
    server.serve(METADATA, version)
    assert server.answer(version) == EMPTY_METADATA
    assert server.route.metrics.count == 1


def test_the_short_way_is_told_where_the_message_starts() -> None:
    def quick(broker: object, frame: memoryview, position: int, context: Any) -> None:
        assert MetadataRequest.decode(frame[position:], context.api_version) == METADATA

    server = Server("Metadata", lambda *_: EMPTY_METADATA, quick=quick)
    for version in (4, 9):
        server.connection.sent = b""
        server.serve(METADATA, version)
        assert server.answer(version) == EMPTY_METADATA


def test_the_short_way_may_answer_later() -> None:
    """The connection takes no further request until the promise is kept, or broken."""
    for kept in (True, False):
        promise: Promise[Message] = Promise()
        server = Server(
            "DescribeCluster", lambda *_: None, quick=lambda *_, promise=promise: Deferred(CLUSTER, promise)
        )
        server.serve(CLUSTER, 0)
        assert (server.connection.sent, server.connection.waits) == (b"", 1)
        if kept:
            promise.set(cluster_answer())
        else:
            promise.fail(KafkaError(ErrorCode.NOT_CONTROLLER))
        assert server.answer(0).error_code == (ErrorCode.NONE if kept else ErrorCode.NOT_CONTROLLER)
        assert server.connection.waits == 0


def test_an_error_on_the_short_way_is_refused_like_any_other() -> None:
    def quick(*_: object) -> None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    server = Server("DescribeCluster", lambda *_: cluster_answer(), quick=quick)
    server.serve(CLUSTER, 0)
    assert server.answer(0).error_code == ErrorCode.NOT_CONTROLLER


def test_a_message_that_cannot_be_read_closes_the_connection() -> None:
    server = Server("Metadata", lambda *_: EMPTY_METADATA)
    frame = struct.pack(">hhih", 3, 1, 1, 0) + struct.pack(">i", 2**31 - 1)
    with pytest.raises(ProtocolError):
        server.dispatch.serve(memoryview(frame), server.connection)


def test_api_versions_needs_no_client_id() -> None:
    server = Server("ApiVersions", lambda *_: ApiVersionsResponse(error_code=0, api_keys=[]))
    server.serve(ApiVersionsRequest(), 0, None)
    assert server.answer(0).error_code == 0


def test_an_answer_that_cannot_be_written_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """The caller that completed the promise is not affected."""
    promise: Promise[Message] = Promise()
    server = Server("DescribeCluster", lambda *_: promise)
    server.serve(CLUSTER, 1)
    broken = cluster_answer()
    broken.cluster_id = None  # type: ignore[assignment]
    promise.set(broken)
    assert (server.connection.sent, server.connection.waits) == (b"", 0)
    assert server.connection.failed is not None
    assert "DescribeCluster" in caplog.text
