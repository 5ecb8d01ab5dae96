"""The limits of the metrics endpoint: its connections must not take descriptors from clients."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.units import NS_PER_MS
from barnabas.broker.metrics.http_page import DEADLINE_MS, MAX_CONNECTIONS, MAX_HEADER_BYTES, MetricsPage
from barnabas.broker.metrics.registry import Metrics
from barnabas.runtime.loop.timers import Timers
from barnabas.runtime.network.network import Address, CloseReason
from tests.broker.worlds.data_world import HandClock

PEER = Address("127.0.0.1", 5)


class Line:
    """A connection that records its calls."""

    def __init__(self) -> None:
        self.sent = b""
        self.is_closed = False
        self.closes_when_sent = False

    def send(self, *parts: bytes) -> None:
        self.sent += b"".join(parts)

    def close_when_sent(self) -> None:
        self.closes_when_sent = True

    def close(self) -> None:
        self.is_closed = True


class Visits:
    def __init__(self) -> None:
        self.clock = HandClock()
        self.timers = Timers()
        self.page = MetricsPage(Metrics(), self.clock, self.timers)

    def visit(self) -> tuple[Any, Line] | None:
        handler = self.page.accept(PEER)
        if handler is None:
            return None
        line = Line()
        handler.connected(line)  # type: ignore[arg-type]  # as much of a connection as it needs
        return handler, line


def test_a_silent_visitor_is_closed_at_its_deadline() -> None:
    """F8: silent connections to the metrics port were never closed."""
    visits = Visits()
    visited = visits.visit()
    assert visited is not None
    _, line = visited
    start_ns = visits.clock.monotonic_ns()
    visits.timers.fire_due(start_ns + DEADLINE_MS * NS_PER_MS - 1)
    assert not line.is_closed
    visits.timers.fire_due(start_ns + DEADLINE_MS * NS_PER_MS)
    assert line.is_closed


def test_connections_to_the_metrics_endpoint_are_bounded() -> None:
    """F8: they took descriptors from clients."""
    visits = Visits()
    known = [visits.visit() for _ in range(MAX_CONNECTIONS)]
    assert visits.visit() is None
    assert known[0] is not None
    handler, _ = known[0]
    handler.closed(CloseReason.PEER, None)
    assert visits.visit() is not None
    assert len(visits.timers) == MAX_CONNECTIONS, "a closed connection has no deadline"


def test_a_header_without_an_end_is_refused() -> None:
    visits = Visits()
    visited = visits.visit()
    assert visited is not None
    handler, line = visited
    assert handler.data_received(memoryview(b"GET /metrics HTTP/1.1\r\n")) == 0
    with pytest.raises(ValueError, match="too long"):
        handler.data_received(memoryview(b"x" * (MAX_HEADER_BYTES + 1)))
    assert line.sent == b""


def test_a_request_gets_a_response() -> None:
    visits = Visits()
    visited = visits.visit()
    assert visited is not None
    handler, line = visited
    handler.data_received(memoryview(b"GET /metrics HTTP/1.1\r\n\r\n"))
    assert line.sent.startswith(b"HTTP/1.1 200 OK")
    assert line.closes_when_sent
