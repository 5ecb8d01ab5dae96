"""The metrics over HTTP: just enough of it for Prometheus and for a browser.

What lives here: one connection, one answer, and bounds on both: the port is open to whoever reaches it.  What
may not: what is counted (metrics).
"""

from __future__ import annotations

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

# Longer heads than any scraper sends.
MAX_HEAD_BYTES = 16 << 10
# Who has not asked by then, or has not taken the answer, is closed.
DEADLINE_MS = 10_000
# Scrapers and browsers at a time; whoever comes above that is sent away.  Each takes a descriptor that a
# client or a log could need.
MAX_CONNECTIONS = 20
_END_OF_HEAD = b"\r\n\r\n"
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_MS = 1_000_000


class MetricsPage:
    """The connections of the page, and their bounds."""

    def __init__(self, metrics: Metrics, clock: Clock, timers: TimerService) -> None:
        self.metrics = metrics
        self._clock = clock
        self._timers = timers
        self._open: set[_Exchange] = set()

    def accept(self, peer: Address) -> StreamHandler | None:
        return None if len(self._open) >= MAX_CONNECTIONS else _Exchange(self)

    def joined(self, exchange: _Exchange, connection: Connection) -> None:
        self._open.add(exchange)
        deadline_ns = self._clock.monotonic_ns() + DEADLINE_MS * _MS
        self._timers.set((self, exchange), deadline_ns, connection.close)

    def left(self, exchange: _Exchange) -> None:
        self._open.discard(exchange)
        self._timers.cancel((self, exchange))


class _Exchange(StreamHandler):
    """One request, one answer, closed."""

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
        head = bytes(view[: MAX_HEAD_BYTES + 1])
        if _END_OF_HEAD not in head:
            if len(head) > MAX_HEAD_BYTES:
                raise ValueError("the head of this HTTP request does not end")
            return 0
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            self._answer(self._connection, "405 Method Not Allowed", "only GET is understood here\n")
        elif path != b"/metrics":
            self._answer(self._connection, "404 Not Found", "there is only /metrics here\n")
        else:
            text = self._page.metrics.text()
            self._answer(self._connection, "200 OK", text, head_only=method == b"HEAD")
        return len(view)

    def _answer(self, connection: Connection, status: str, text: str, *, head_only: bool = False) -> None:
        body = text.encode()
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: {_CONTENT_TYPE}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        connection.send(head.encode(), b"" if head_only else body)
        connection.close_when_sent()


def serve_metrics(
    network: Network, host: str, port: int, metrics: Metrics, *, clock: Clock, timers: TimerService
) -> Listener:
    """Open the page; OSError if the port is not to be had."""
    return network.listen(host, port, MetricsPage(metrics, clock, timers).accept)
