"""Counters, gauges, and the text for Prometheus."""

from __future__ import annotations

import pytest

from barnabas.broker.metrics.http_page import serve_metrics
from barnabas.broker.metrics.registry import LATENCY_BUCKETS, Metrics
from barnabas.protocol.apis import api_named
from barnabas.runtime.clock import SystemClock
from tests.broker.worlds.front_world import Front


def test_requests_are_counted_by_api_and_time() -> None:
    metrics = Metrics()
    produce = metrics.requests(api_named("Produce"))
    assert metrics.requests(api_named("Produce")) is produce
    for elapsed_ns in (0, 3_000, 3_000_000, 10**15):
        produce.record(elapsed_ns)
    produce.errors += 1
    lines = metrics.text().splitlines()
    assert 'barnabas_request_seconds_count{api="Produce"} 4' in lines
    assert 'barnabas_request_seconds_bucket{api="Produce",le="4.096e-06"} 2' in lines
    assert 'barnabas_request_seconds_bucket{api="Produce",le="0.004194304"} 3' in lines
    assert 'barnabas_request_seconds_bucket{api="Produce",le="+Inf"} 4' in lines
    assert 'barnabas_request_errors_total{api="Produce"} 1' in lines
    assert produce.buckets[LATENCY_BUCKETS - 1] == 1
    # An unused API is not shown.
    metrics.requests(api_named("Fetch"))
    assert "Fetch" not in metrics.text()


def test_gauges_are_read_on_request() -> None:
    metrics, values = Metrics(), [1.5]
    metrics.gauge("things", "how many things", lambda: values[0])
    assert "barnabas_things 1.5" in metrics.text()
    values[0] = 2_000_000
    assert "# TYPE barnabas_things gauge\nbarnabas_things 2000000\n" in metrics.text()


def get(front: Front, request: bytes, port: int) -> bytes:
    import socket

    sock = socket.create_connection(("127.0.0.1", port))
    sock.setblocking(False)
    front._sockets.append(sock)
    sock.sendall(request)
    received = [b""]

    def ended() -> bool:
        try:
            data = sock.recv(1 << 16)
        except BlockingIOError:
            return False
        received[0] += data
        return not data

    front.until(ended)
    return received[0]


def test_metrics_are_served_as_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    with Front(monkeypatch) as front:
        page = serve_metrics(
            front.network,
            "127.0.0.1",
            0,
            front.broker.metrics,
            clock=SystemClock(),
            timers=front.reactor.timers,
        )
        answer = get(front, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", page.address.port)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        assert b"barnabas_connections 0\n" in body
        assert get(front, b"GET / HTTP/1.1\r\n\r\n", page.address.port).startswith(b"HTTP/1.1 404")
        assert get(front, b"POST /metrics HTTP/1.1\r\n\r\n", page.address.port).startswith(b"HTTP/1.1 405")
        head_only = get(front, b"HEAD /metrics HTTP/1.1\r\n\r\n", page.address.port)
        assert head_only.endswith(b"\r\n\r\n")
        assert get(front, b"x" * 100_000, page.address.port) == b""
