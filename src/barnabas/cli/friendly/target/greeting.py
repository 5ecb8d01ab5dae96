"""Asks what listens at an address: an ApiVersions request of the oldest version, and the first bytes back."""

from __future__ import annotations

from enum import Enum

from barnabas.base.units import NS_PER_MS
from barnabas.protocol.frame import SIZE_BYTES, write_request
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.network.network import CloseReason, Connection, StreamHandler
from barnabas.runtime.network.tcp import TcpNetwork

PATIENCE_MS = 1_000
_CORRELATION_ID = 1
_HEAD_BYTES = SIZE_BYTES + 4
# The largest response to be taken for one; that of Apache Kafka has some hundred bytes.
_LARGEST = 1 << 20
# The content type of a TLS alert, followed by the major version.
_TLS_ALERT = b"\x15\x03"


class Greeting(Enum):
    """What was found."""

    BROKER = "a Kafka broker"
    TLS = "a server that expects TLS"
    STRANGER = "something else"
    SILENT = "something that does not answer"
    REFUSED = "nothing"
    # No connection for another reason, or it was closed: the client reports what it meets.
    UNCLEAR = "unclear"


class _Caller(StreamHandler):
    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._received = b""
        self.is_connected = False
        self.found: Greeting | None = None

    def connected(self, connection: Connection) -> None:
        self.is_connected = True
        self._connection = connection
        connection.send(write_request(ApiVersionsRequest(), 0, _CORRELATION_ID, "barnabas-cli"))

    def data_received(self, view: memoryview) -> int:
        self._received += bytes(view[: _HEAD_BYTES - len(self._received)])
        if self._received[:2] == _TLS_ALERT:
            self.found = Greeting.TLS
        elif len(self._received) >= _HEAD_BYTES:
            size = int.from_bytes(self._received[:SIZE_BYTES])
            is_ours = int.from_bytes(self._received[SIZE_BYTES:_HEAD_BYTES]) == _CORRELATION_ID
            self.found = Greeting.BROKER if is_ours and size <= _LARGEST else Greeting.STRANGER
        if self.found is not None:
            self._connection.close()
        return len(view)

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        if self.found is None:
            is_refused = isinstance(error, ConnectionRefusedError)
            garbled = self.is_connected and self._received
            self.found = (
                Greeting.REFUSED if is_refused else Greeting.STRANGER if garbled else Greeting.UNCLEAR
            )
        self._reactor.interrupt()


def greet(host: str, port: int, patience_ms: int = PATIENCE_MS) -> Greeting:
    """What listens there, after at most `patience_ms`."""
    reactor = Reactor()
    network = TcpNetwork(reactor)
    caller = _Caller(reactor)
    deadline_ns = reactor.clock.monotonic_ns() + patience_ms * NS_PER_MS
    try:
        network.connect(host, port, caller)
        while caller.found is None and (left_ns := deadline_ns - reactor.clock.monotonic_ns()) > 0:
            reactor.serve(left_ns)
    finally:
        network.close()
        reactor.close()
    if caller.found is None:
        return Greeting.SILENT if caller.is_connected else Greeting.UNCLEAR
    return caller.found
