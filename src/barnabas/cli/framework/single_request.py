"""Sends one request to a server and returns the response, without a client."""

from __future__ import annotations

from typing import TypeVar

from barnabas.base.units import NS_PER_MS
from barnabas.cli.framework.exits import CommandError, Exit
from barnabas.protocol.apis import api
from barnabas.protocol.frame import SIZE_BYTES, frame_size, read_response, write_request
from barnabas.protocol.schema import Message
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.network.network import Address, CloseReason, Connection, StreamHandler
from barnabas.runtime.network.tcp import TcpNetwork

CLIENT_ID = "barnabas-cli"
R = TypeVar("R", bound=Message)


class _Exchange(StreamHandler):
    def __init__(self, reactor: Reactor, request: bytes) -> None:
        self._reactor = reactor
        self._request = request
        self.frame: bytes | None = None
        self.close_reason: str | None = None

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        connection.send(self._request)

    def data_received(self, view: memoryview) -> int:
        if len(view) < SIZE_BYTES:
            return 0
        end = SIZE_BYTES + frame_size(view)
        if len(view) < end:
            self._connection.expect(end)
            return 0
        self.frame = bytes(view[SIZE_BYTES:end])
        self._connection.close()
        return len(view)

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        self.close_reason = str(error or reason.value)
        self._reactor.interrupt()


def send_request(
    server: Address, request: Message, version: int, response_type: type[R], timeout_ms: int = 5_000
) -> R:
    """The response; raises CommandError (unreachable) if none arrives in time."""
    reactor = Reactor()
    network = TcpNetwork(reactor)
    exchange = _Exchange(reactor, write_request(request, version, 1, CLIENT_ID))
    deadline_ns = reactor.clock.monotonic_ns() + timeout_ms * NS_PER_MS
    try:
        network.connect(server.host, server.port, exchange)
        while exchange.close_reason is None and reactor.clock.monotonic_ns() < deadline_ns:
            reactor.serve(deadline_ns - reactor.clock.monotonic_ns())
    finally:
        network.close()
        reactor.close()
    if exchange.frame is None:
        reason = exchange.close_reason or "no response in time"
        raise CommandError(f"barnabas: {server}: {reason}", Exit.UNREACHABLE)
    assert request.schema.key is not None
    _, message = read_response(exchange.frame, api(request.schema.key), version)
    assert isinstance(message, response_type)
    return message
