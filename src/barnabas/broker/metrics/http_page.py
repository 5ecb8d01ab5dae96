"""The metrics over HTTP: just enough of it for Prometheus and for a browser.

What lives here: one connection, one answer.  What may not: what is counted (metrics).
"""

from __future__ import annotations

from barnabas.broker.metrics.registry import Metrics
from barnabas.runtime.network.network import Address, Connection, Listener, Network, StreamHandler

# Longer heads than any scraper sends.
MAX_HEAD_BYTES = 16 << 10
_END_OF_HEAD = b"\r\n\r\n"
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Exchange(StreamHandler):
    """One request, one answer, closed."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._connection: Connection | None = None

    def connected(self, connection: Connection) -> None:
        self._connection = connection

    def data_received(self, view: memoryview) -> int:
        assert self._connection is not None
        head = bytes(view)
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
            self._answer(self._connection, "200 OK", self._metrics.text(), head_only=method == b"HEAD")
        return len(view)

    def _answer(self, connection: Connection, status: str, text: str, *, head_only: bool = False) -> None:
        body = text.encode()
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: {_CONTENT_TYPE}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        connection.send(head.encode(), b"" if head_only else body)
        connection.close_when_sent()


def serve_metrics(network: Network, host: str, port: int, metrics: Metrics) -> Listener:
    """Open the page; OSError if the port is not to be had."""

    def accept(peer: Address) -> StreamHandler:
        return _Exchange(metrics)

    return network.listen(host, port, accept)
