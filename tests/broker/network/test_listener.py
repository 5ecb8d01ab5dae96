"""Connections: frames, order, limits, idle time, draining."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.broker.handlers import describe_cluster
from barnabas.broker.network import listener
from barnabas.protocol.apis import api
from barnabas.protocol.frame import read_correlation_id, read_response, write_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.reactor import MAX_TICK_END_ROUNDS
from tests.broker.worlds.front_world import CLOSED, Front

CLUSTER = DescribeClusterRequest(include_cluster_authorized_operations=False)


@pytest.fixture
def front(monkeypatch: pytest.MonkeyPatch) -> Any:
    with Front(monkeypatch) as front:
        yield front


def versions(correlation_id: int) -> bytes:
    return write_request(ApiVersionsRequest(), 0, correlation_id, "test")


def test_a_request_may_come_byte_by_byte(front: Front) -> None:
    wire = front.connect()
    for byte in versions(5):
        wire.send(bytes([byte]))
        front.serve_for_a_while(1)
    assert read_correlation_id(wire.frame()) == 5


def test_pipelined_requests_are_answered_in_order(front: Front) -> None:
    """M-H1."""
    wire = front.connect()
    wire.send(b"".join(versions(number) for number in range(500)))
    assert [read_correlation_id(frame) for frame in wire.frames(500)] == list(range(500))


def test_the_next_request_waits_for_the_answer_of_the_one_before(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: list[Promise[Message]] = []

    def handle(*_: object) -> Promise[Message]:
        waiting.append(Promise())
        return waiting[-1]

    monkeypatch.setattr(describe_cluster, "handle", handle)
    answer = DescribeClusterResponse(throttle_time_ms=0, error_code=0, cluster_id="c", brokers=[])
    wire = front.connect()
    wire.send(
        write_request(CLUSTER, 1, 1, "a") + versions(2) + write_request(CLUSTER, 1, 3, "a") + versions(4)
    )
    front.until(lambda: len(waiting) == 1)
    assert wire.is_silent()
    # Another client is served meanwhile.
    assert front.ask(ApiVersionsRequest(), 0).error_code == 0
    waiting[0].set(answer)
    assert [read_correlation_id(frame) for frame in wire.frames(2)] == [1, 2]
    front.until(lambda: len(waiting) == 2)
    assert wire.is_silent()
    waiting[1].set(answer)
    assert [read_correlation_id(frame) for frame in wire.frames(2)] == [3, 4]


def test_a_client_may_leave_before_its_answer(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    promise: Promise[Message] = Promise()
    monkeypatch.setattr(describe_cluster, "handle", lambda *_: promise)
    wire = front.connect()
    wire.send(write_request(CLUSTER, 1, 1, "a"))
    broker_listener = front.broker.listeners["PLAINTEXT"]
    front.until(
        lambda: broker_listener.connection_count == 1 and front.broker.metrics.connections_accepted == 1
    )
    front.serve_for_a_while()
    wire.sock.close()
    front.until(lambda: broker_listener.connection_count == 0)
    promise.set(DescribeClusterResponse(throttle_time_ms=0, error_code=0, cluster_id="c", brokers=[]))
    front.serve_for_a_while()


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 2**31 - 1) + b"x" * 100,
        struct.pack(">i", -1),
        struct.pack(">i", -(2**31)),
        struct.pack(">i", 0),
        struct.pack(">i", 100 * 1024 * 1024 + 1),
        struct.pack(">i", 4) + b"\0\x12\0\0",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes.fromhex("16030100c8010000c40303") + bytes(180),
    ],
)
def test_what_is_no_request_closes_the_connection(front: Front, data: bytes) -> None:
    wire = front.connect()
    wire.send(data)
    assert wire.frame() == CLOSED
    assert front.broker.metrics.connections_failed == 1
    assert front.ask(ApiVersionsRequest(), 0).error_code == 0


def test_a_large_request_is_taken_whole(front: Front) -> None:
    topics = [MetadataRequest.Topic(name=f"no-such-topic-{number:06}") for number in range(20_000)]
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    answer = front.ask(request, 4)
    assert len(answer.topics) == 20_000
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_requests_above_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with Front(monkeypatch, socket_request_max_bytes="1000") as front:
        wire = front.connect()
        wire.send(struct.pack(">i", 1001))
        assert wire.frame() == CLOSED
        wire = front.connect()
        wire.send(struct.pack(">i", 1000))
        assert wire.is_silent()


def test_newcomers_wait_while_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    with Front(
        monkeypatch,
        max_connections="2",
        listeners="PLAINTEXT://127.0.0.1:0,OTHER://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,OTHER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    ) as front:
        first, second = front.connect("OTHER"), front.connect("OTHER")
        assert first.ask(ApiVersionsRequest(), 0).error_code == 0
        assert second.ask(ApiVersionsRequest(), 0).error_code == 0
        third = front.connect("OTHER")
        third.send(versions(9))
        assert third.is_silent()
        # The listener between brokers is let through.
        assert front.ask(ApiVersionsRequest(), 0, listener="PLAINTEXT").error_code == 0
        first.sock.close()
        front.until(lambda: front.broker.listeners["PLAINTEXT"].connection_count == 1)
        assert third.is_silent()
        second.sock.close()
        assert read_correlation_id(third.frame()) == 9


def test_one_address_may_have_so_many_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    with Front(monkeypatch, max_connections_per_ip="2") as front:
        kept = [front.connect(), front.connect()]
        for wire in kept:
            assert wire.ask(ApiVersionsRequest(), 0).error_code == 0
        assert front.connect().frame() == CLOSED
        assert front.broker.metrics.connections_refused == 1
        kept[0].sock.close()
        front.until(lambda: front.broker.listeners["PLAINTEXT"].connection_count == 1)
        assert front.ask(ApiVersionsRequest(), 0).error_code == 0


def test_an_address_may_have_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with Front(
        monkeypatch, max_connections_per_ip="0", max_connections_per_ip_overrides="127.0.0.1:1"
    ) as front:
        kept = front.connect()
        assert kept.ask(ApiVersionsRequest(), 0).error_code == 0
        assert front.connect().frame() == CLOSED


def test_idle_connections_are_closed_but_not_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    with Front(monkeypatch, connections_max_idle_ms="1000") as front:
        promise: Promise[Message] = Promise()
        monkeypatch.setattr(describe_cluster, "handle", lambda *_: promise)
        waiting = front.connect()
        waiting.send(write_request(CLUSTER, 1, 1, "a"))
        idle = front.connect()
        assert idle.ask(ApiVersionsRequest(), 0).error_code == 0
        assert idle.frame() == CLOSED
        assert waiting.is_silent()
        promise.set(DescribeClusterResponse(throttle_time_ms=0, error_code=0, cluster_id="c", brokers=[]))
        assert read_correlation_id(waiting.frame()) == 1


def test_a_connection_that_does_not_log_in_ends_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of a token that never ends would keep it from being idle."""
    monkeypatch.setattr(listener, "IDLE_SWEEP_MS", 20)
    users = 'M required user_alice="a" username="alice" password="a";'
    options: dict[str, Any] = {
        "listeners": "SAFE://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "SAFE:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SAFE",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.safe.plain.sasl.jaas.config": users,
        "connections.max.idle.ms": "-1",
    }
    with Front(monkeypatch, **options) as front:
        member = front.connect("SAFE")
        assert member.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        assert member.ask(SaslAuthenticateRequest(auth_bytes=b"\0alice\0a"), 2).error_code == 0
        monkeypatch.setattr(listener, "LOGIN_TIMEOUT_MS", 100)
        stranger = front.connect("SAFE")
        token = write_request(SaslAuthenticateRequest(auth_bytes=bytes(40)), 2, 1, "a")
        with suppress(ConnectionError):
            stranger.send(write_request(SaslHandshakeRequest(mechanism="PLAIN"), 1, 1, "a"))
            for byte in token[:40]:
                stranger.send(bytes([byte]))
                front.serve_for_a_while(1)
        while stranger.frame() != CLOSED:
            pass
        assert member.ask(ApiVersionsRequest(), 0).error_code == 0


def test_a_stop_answers_what_is_in_progress_and_lets_everybody_go(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    promise: Promise[Message] = Promise()
    monkeypatch.setattr(describe_cluster, "handle", lambda *_: promise)
    busy, idle = front.connect(), front.connect()
    busy.send(write_request(CLUSTER, 1, 1, "a"))
    assert idle.ask(ApiVersionsRequest(), 0).error_code == 0
    stopped = front.broker.stop()
    assert idle.frame() == CLOSED
    assert busy.is_unanswered()
    promise.set(DescribeClusterResponse(throttle_time_ms=0, error_code=0, cluster_id="c", brokers=[]))
    assert read_correlation_id(busy.frame()) == 1
    assert busy.frame() == CLOSED
    front.finish(stopped)


def test_a_silenced_client_is_heard_again_after_its_time(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged: list[int] = [30]
    dispatch = front.broker.listeners["PLAINTEXT"].dispatch
    limits = SimpleNamespace(received=lambda *_: charged.pop() if charged else 0, worked=lambda _: 0)
    monkeypatch.setattr(dispatch, "_quotas", SimpleNamespace(is_set=True, limits_of=lambda _: limits))
    wire = front.connect()
    wire.send(write_request(ApiVersionsRequest(), 1, 1, "a") + versions(2))
    assert struct.unpack(">i", wire.frame()[-4:])[0] == 30
    assert read_correlation_id(wire.frame()) == 2


def test_a_silenced_client_stays_so_when_its_answer_comes_late(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a request that waited must not undo the throttling that its answer announced."""
    promise: Promise[Message] = Promise()
    monkeypatch.setattr(describe_cluster, "handle", lambda *_: promise)
    limits = SimpleNamespace(received=lambda *_: 3_600_000, worked=lambda _: 0)
    broker_listener = front.broker.listeners["PLAINTEXT"]
    monkeypatch.setattr(
        broker_listener.dispatch, "_quotas", SimpleNamespace(is_set=True, limits_of=lambda _: limits)
    )
    put_off: list[Callable[[], None]] = []
    monkeypatch.setattr(broker_listener, "after", lambda delay_ms, stream, action: put_off.append(action))
    wire = front.connect()
    wire.send(write_request(CLUSTER, 1, 1, "a") + versions(2))
    front.until(lambda: bool(front.network._around.connections))
    (connection,) = front.network._around.connections
    front.until(lambda: not connection.reading)
    promise.set(DescribeClusterResponse(throttle_time_ms=0, error_code=0, cluster_id="c", brokers=[]))
    assert read_correlation_id(wire.frame()) == 1
    assert not connection.reading
    (speak_again,) = put_off
    speak_again()
    assert connection.reading
    assert read_correlation_id(wire.frame()) == 2


def test_a_delayed_request_that_fails_is_answered(
    front: Front, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F5: with the error that says that the fault is the server's."""
    promise: Promise[Message] = Promise()
    monkeypatch.setattr(describe_cluster, "handle", lambda *_: promise)
    wire = front.connect()
    wire.send(write_request(CLUSTER, 1, 1, "a") + versions(2))
    front.until(lambda: front.broker.metrics.connections_accepted == 1)
    front.serve_for_a_while()
    promise.fail(RuntimeError("planted"))
    answer: Any = read_response(wire.frame(), api(60), 1)[1]
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert read_correlation_id(wire.frame()) == 2
    assert "planted" in caplog.text


def test_a_fault_while_a_late_answer_is_given_closes_its_connection(
    front: Front, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """F5: else the client would wait for ever, and who kept the promise would have the fault."""
    promise: Promise[Message] = Promise()
    monkeypatch.setattr(describe_cluster, "handle", lambda *_: promise)
    wire = front.connect()
    wire.send(write_request(CLUSTER, 1, 1, "a"))
    front.until(lambda: front.broker.metrics.connections_accepted == 1)
    front.serve_for_a_while()

    def broken(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(front.broker.listeners["PLAINTEXT"].dispatch, "_answer", broken)
    promise.set(DescribeClusterResponse(throttle_time_ms=0, error_code=0, cluster_id="c", brokers=[]))
    assert wire.frame() == CLOSED
    assert "planted" in caplog.text


def test_a_burst_of_requests_is_served_in_turns(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    """F2, of its kind: what fits one buffer, some thousand requests, was served before anybody else."""
    monkeypatch.setattr(listener, "TURN_NS", 0)
    served: list[int] = []
    dispatch = front.broker.listeners["PLAINTEXT"].dispatch
    healthy = dispatch.serve

    def serve(frame: memoryview, client_connection: Any) -> None:
        served.append(front.reactor.ticks)
        healthy(frame, client_connection)

    monkeypatch.setattr(dispatch, "serve", serve)
    wire = front.connect()
    wire.send(b"".join(versions(number) for number in range(200)))
    assert [read_correlation_id(frame) for frame in wire.frames(200)] == list(range(200))
    most = max(served.count(tick) for tick in set(served))
    # `serve` itself ends what the last tick left, and then has a tick of its own.
    assert most <= (2 * MAX_TICK_END_ROUNDS + 1) * listener.REQUESTS_BETWEEN_LOOKS


def test_a_sender_that_never_reads_is_held_back(front: Front) -> None:
    wire = front.connect()
    burst = versions(1) * 200
    for _ in range(2_000):
        try:
            wire.sock.send(burst)
        except BlockingIOError:
            if (
                front.network._around.connections
                and not next(iter(front.network._around.connections)).reading
            ):
                break
            front.serve_for_a_while(1)
    connection = next(iter(front.network._around.connections))
    assert not connection.reading
    assert connection.queued_bytes < 4 << 20
    assert front.ask(ApiVersionsRequest(), 0).error_code == 0
