"""A connection to one broker on the client's loop.

Contains connecting, time-outs, throttling, and responses as awaitables.  The choice of a broker belongs in
`pool` and `cluster`, framing in `connection`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from barnabas.client.connection import ConnectionProtocol, Done
from barnabas.client.errors.base import AuthenticationError, ClientError
from barnabas.client.errors.cluster import NetworkError
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.client.login.handshake import Handshake, Login
from barnabas.client.model import Node
from barnabas.protocol.apis import api
from barnabas.protocol.schema import Message
from barnabas.runtime.network.asyncio_network import ClientSocketOptions
from barnabas.runtime.network.network import CloseReason, Connection, StreamHandler

R = TypeVar("R", bound=Message)

# The part of a session's lifetime after which a client logs in again.
SESSION_USED = 0.85


class ConnectingNetwork(Protocol):
    """The network interface of a client."""

    def connect(
        self, host: str, port: int, handler: StreamHandler, options: ClientSocketOptions | None = None
    ) -> Callable[[], object]: ...


class BrokerConnection(StreamHandler):
    """One connection, from the attempt to connect until it is closed."""

    def __init__(
        self, node: Node, client_id: str, request_timeout_ms: int, login: Login | None = None
    ) -> None:
        self.node = node
        self._login = login
        self.protocol = ConnectionProtocol(client_id)
        self._loop = asyncio.get_running_loop()
        self._request_timeout_ms = request_timeout_ms
        self._connection: Connection | None = None
        self._cancel_connect: Callable[[], object] | None = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        # Avoids asyncio's warning if the connection fails while no task awaits it.
        self._ready.add_done_callback(_retrieve_exception)
        self._throttled_until = 0.0
        # When the session should be followed by another (KIP-368).
        self._session_ends_at: float | None = None
        self._is_retiring = False
        self.used_at = self._loop.time()
        self.is_closed = False
        self.on_closed: Callable[[BrokerConnection], None] | None = None

    # ---------------------------------------------------------------------------------------------- lifecycle

    def open(self, network: ConnectingNetwork, options: ClientSocketOptions) -> None:
        self._cancel_connect = network.connect(self.node.host, self.node.port, self, options)

    async def opened(self) -> None:
        """Wait until requests can be sent; raises NetworkError if the connection fails."""
        await asyncio.shield(self._ready)

    @property
    def is_ready(self) -> bool:
        return self._ready.done() and not self.is_closed

    @property
    def is_expired(self) -> bool:
        """Whether a new connection, with a new login, should replace this one (KIP-368)."""
        return self._session_ends_at is not None and self._loop.time() >= self._session_ends_at

    def retire(self) -> None:
        """Close when the requests in flight have their responses; nobody sends others."""
        self._is_retiring = True
        if not self.in_flight:
            self.close()

    @property
    def in_flight(self) -> int:
        return self.protocol.in_flight

    @property
    def throttled_s(self) -> float:
        """Return how long the broker requires us to wait before the next request (KIP-219)."""
        return max(0.0, self._throttled_until - self._loop.time())

    def close(self, error: Exception | None = None) -> None:
        if self._connection is not None:
            self._connection.close(CloseReason.LOCAL, error)
        elif self._cancel_connect is not None:
            self._cancel_connect()

    # ----------------------------------------------------------------------------------------------- requests

    def version_for(self, key: int, highest: int | None = None) -> int:
        return self.protocol.version_for(api(key), highest)

    async def send(
        self,
        request: Message,
        response_type: type[R],
        *,
        highest: int | None = None,
        timeout_ms: int | None = None,
    ) -> R:
        """Send a request and return its response; raises NetworkError if the connection breaks or times
        out."""
        if self.throttled_s:
            await asyncio.sleep(self.throttled_s)
        key = request.schema.key
        assert key is not None
        future: asyncio.Future[Message] = self._loop.create_future()
        self.send_with_callback(
            request, self.version_for(key, highest), partial(_complete_future, future), timeout_ms
        )
        message = await future
        assert isinstance(message, response_type)
        return message

    def send_with_callback(
        self,
        request: Message,
        version: int,
        done: Done | None,
        timeout_ms: int | None = None,
        *,
        in_place: bool = False,
    ) -> None:
        """Send now and call `done` with the response, for callers that limit their requests in flight.

        With `in_place` the response's bytes are valid only until `done` returns.
        """
        if self.is_closed or self._connection is None:
            raise NetworkError(f"the connection to {self.node} is closed")
        self.used_at = self._loop.time()
        if done is None:
            self._connection.send(*self.protocol.request(request, version, None))
            return
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        timer = self._loop.call_later(limit_ms / 1000, self._timed_out, request.schema.name, limit_ms)
        received = partial(self._on_response, done, timer)
        self._connection.send(*self.protocol.request(request, version, received, in_place=in_place))

    def _on_response(
        self, done: Done, timer: asyncio.TimerHandle, message: Message | None, error: Exception | None
    ) -> None:
        timer.cancel()
        throttle_ms = getattr(message, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._throttled_until = max(self._throttled_until, self._loop.time() + throttle_ms / 1000)
        done(message, error)
        if self._is_retiring and not self.in_flight:
            self.close()

    def _timed_out(self, name: str, limit_ms: int) -> None:
        # Responses arrive in order, so no later one can arrive either.
        self.close(KafkaTimeoutError(f"{self.node} did not respond to {name} within {limit_ms} ms"))

    # -------------------------------------------------------------------------------------- network callbacks

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        handshake = self._handshake = Handshake(self.protocol, self._handshake_completed, self._login)
        timer = self._loop.call_later(
            self._request_timeout_ms / 1000, self._timed_out, "ApiVersions", self._request_timeout_ms
        )
        self._ready.add_done_callback(lambda _: timer.cancel())
        handshake.start(connection.send)

    def data_received(self, view: memoryview) -> int:
        taken = self.protocol.receive(view)
        if self.protocol.expected and self._connection is not None:
            self._connection.expect(self.protocol.expected)
        return taken

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        self.is_closed = True
        if self._connection is not None:
            self._handshake.abandon()
        failure: ClientError
        if isinstance(error, ClientError):
            failure = error
        elif reason is CloseReason.TLS_FAILED:
            # No retry changes it.
            failure = AuthenticationError(_close_reason(self.node, reason, error))
        else:
            failure = NetworkError(_close_reason(self.node, reason, error))
        self.protocol.end(failure)
        if not self._ready.done():
            self._ready.set_exception(failure)
        if self.on_closed is not None:
            self.on_closed(self)

    def _handshake_completed(self, error: Exception | None) -> None:
        if error is None:
            lifetime_ms = self._handshake.session_lifetime_ms
            if lifetime_ms > 0:
                self._session_ends_at = self._loop.time() + lifetime_ms / 1000 * SESSION_USED
            if not self._ready.done():
                self._ready.set_result(None)
        elif not self._ready.done():
            self._ready.set_exception(error)
            self.close()


def _complete_future(
    future: asyncio.Future[Message], message: Message | None, error: Exception | None
) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    elif message is not None:
        future.set_result(message)


def _retrieve_exception(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()


def _close_reason(node: Node, reason: CloseReason, error: BaseException | None) -> str:
    # Without the number of an error of the operating system.
    said = getattr(error, "strerror", None) or error
    detail = f" ({said})" if error is not None and str(said) else ""
    return f"{node}: {reason.value}{detail}"
