"""The metrics over HTTP, for Prometheus and browsers.

Each connection serves one request.  Sizes, times and connections are bounded, as the port may be reachable by
anybody.
"""

from __future__ import annotations

from barnabas.base.units import NS_PER_MS
from barnabas.broker.metrics.registry import Metrics
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.timers import TimerService
from barnabas.runtime.network.network import (
    Address,
    CloseReason,
    Connection,
    Listener,
    Network,
    StreamHandler,
)

# Larger than the request header of any scraper.
MAX_HEADER_BYTES = 16 << 10
# Connections are closed after this time, whether or not they are served.
DEADLINE_MS = 10_000
# Concurrent connections; more are refused.  Each takes a file descriptor that a
# client or a log could need.
MAX_CONNECTIONS = 20
_END_OF_HEADER = b"\r\n\r\n"
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricsPage:
    """The connections to the endpoint."""

    def __init__(self, metrics: Metrics, clock: Clock, timers: TimerService) -> None:
        self.metrics = metrics
        self._clock = clock
        self._timers = timers
        self._open: set[_Exchange] = set()

    def accept(self, peer: Address) -> StreamHandler | None:
        return None if len(self._open) >= MAX_CONNECTIONS else _Exchange(self)

    def joined(self, exchange: _Exchange, connection: Connection) -> None:
        self._open.add(exchange)
        deadline_ns = self._clock.monotonic_ns() + DEADLINE_MS * NS_PER_MS
        self._timers.set((self, exchange), deadline_ns, connection.close)

    def left(self, exchange: _Exchange) -> None:
        self._open.discard(exchange)
        self._timers.cancel((self, exchange))


class _Exchange(StreamHandler):
    """Serves one request and closes the connection."""

    def __init__(self, page: MetricsPage) -> None:
        self._page = page
        self._connection: Connection | None = None

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        self._page.joined(self, connection)

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        self._page.left(self)

    def data_received(self, view: memoryview) -> int:
        assert self._connection is not None
        header = bytes(view[: MAX_HEADER_BYTES + 1])
        if _END_OF_HEADER not in header:
            if len(header) > MAX_HEADER_BYTES:
                raise ValueError("the header of the HTTP request is too long")
            return 0
        method, _, target = header.partition(b" ")
        path = target.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            self._respond(self._connection, "405 Method Not Allowed", "only GET is supported\n")
        elif path != b"/metrics":
            self._respond(self._connection, "404 Not Found", "only /metrics exists\n")
        else:
            text = self._page.metrics.text()
            self._respond(self._connection, "200 OK", text, header_only=method == b"HEAD")
        return len(view)

    def _respond(self, connection: Connection, status: str, text: str, *, header_only: bool = False) -> None:
        body = text.encode()
        header = (
            f"HTTP/1.1 {status}\r\nContent-Type: {_CONTENT_TYPE}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        connection.send(header.encode(), b"" if header_only else body)
        connection.close_when_sent()


def serve_metrics(
    network: Network, host: str, port: int, metrics: Metrics, *, clock: Clock, timers: TimerService
) -> Listener:
    """Opens the endpoint; raises OSError if the port is not available."""
    return network.listen(host, port, MetricsPage(metrics, clock, timers).accept)
