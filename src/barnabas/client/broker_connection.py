"""A connection to one broker on the client's loop.

What lives here: connecting, time-outs, throttling, and answers as awaitables.  What may not: which broker to
ask (pool, cluster), and framing (connection).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from barnabas.client.connection import Conversation, Done
from barnabas.client.errors.cluster import NetworkError
from barnabas.client.errors.kinds import ClientError
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.client.model import Node
from barnabas.protocol.apis import api
from barnabas.protocol.schema import Message
from barnabas.runtime.network.asyncio_network import ClientSocketOptions
from barnabas.runtime.network.network import CloseReason, Connection, StreamHandler

R = TypeVar("R", bound=Message)


class ConnectingNetwork(Protocol):
    """The door a client needs."""

    def connect(
        self, host: str, port: int, handler: StreamHandler, options: ClientSocketOptions | None = None
    ) -> Callable[[], object]: ...


class BrokerConnection(StreamHandler):
    """One connection, from the attempt to its end."""

    def __init__(self, node: Node, client_id: str, request_timeout_ms: int) -> None:
        self.node = node
        self.conversation = Conversation(client_id)
        self._loop = asyncio.get_running_loop()
        self._request_timeout_ms = request_timeout_ms
        self._connection: Connection | None = None
        self._give_up: Callable[[], object] | None = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        # Nobody may be left who waits for it.
        self._ready.add_done_callback(_look)
        self._throttled_until = 0.0
        self.used_at = self._loop.time()
        self.is_closed = False
        self.on_closed: Callable[[BrokerConnection], None] | None = None

    # ----------------------------------------------------------------------------------------- its own life

    def open(self, network: ConnectingNetwork, options: ClientSocketOptions) -> None:
        self._give_up = network.connect(self.node.host, self.node.port, self, options)

    async def opened(self) -> None:
        """Wait until requests can be sent; NetworkError if they never can."""
        await asyncio.shield(self._ready)

    @property
    def is_ready(self) -> bool:
        return self._ready.done() and not self.is_closed

    @property
    def in_flight(self) -> int:
        return self.conversation.in_flight

    @property
    def throttled_s(self) -> float:
        """How long the broker asks us to wait before the next request (KIP-219)."""
        return max(0.0, self._throttled_until - self._loop.time())

    def close(self, error: Exception | None = None) -> None:
        if self._connection is not None:
            self._connection.close(CloseReason.LOCAL, error)
        elif self._give_up is not None:
            self._give_up()

    # ------------------------------------------------------------------------------------------ to the peer

    def version_for(self, key: int, highest: int | None = None) -> int:
        return self.conversation.version_for(api(key), highest)

    async def ask(
        self,
        request: Message,
        answer: type[R],
        *,
        highest: int | None = None,
        timeout_ms: int | None = None,
    ) -> R:
        """One request and its answer.  NetworkError when the connection breaks or the time is over."""
        if self.throttled_s:
            await asyncio.sleep(self.throttled_s)
        key = request.schema.key
        assert key is not None
        future: asyncio.Future[Message] = self._loop.create_future()
        self.tell(request, self.version_for(key, highest), partial(_settle, future), timeout_ms)
        message = await future
        assert isinstance(message, answer)
        return message

    def tell(
        self,
        request: Message,
        version: int,
        done: Done | None,
        timeout_ms: int | None = None,
        *,
        in_place: bool = False,
    ) -> None:
        """Send now; `done` hears the answer.  For those who count their requests themselves.

        With `in_place` the bytes of the answer may be looked at only until `done` returns.
        """
        if self.is_closed or self._connection is None:
            raise NetworkError(f"the connection to {self.node} is closed")
        self.used_at = self._loop.time()
        if done is None:
            self._connection.send(*self.conversation.request(request, version, None))
            return
        limit_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        timer = self._loop.call_later(limit_ms / 1000, self._timed_out, request.schema.name, limit_ms)
        heard = partial(self._answered, done, timer)
        self._connection.send(*self.conversation.request(request, version, heard, in_place=in_place))

    def _answered(
        self, done: Done, timer: asyncio.TimerHandle, message: Message | None, error: Exception | None
    ) -> None:
        timer.cancel()
        throttle_ms = getattr(message, "throttle_time_ms", 0)
        if throttle_ms > 0:
            self._throttled_until = max(self._throttled_until, self._loop.time() + throttle_ms / 1000)
        done(message, error)

    def _timed_out(self, name: str, limit_ms: int) -> None:
        # Answers come in order, so nothing behind this one can come either.
        self.close(KafkaTimeoutError(f"{self.node} did not answer {name} within {limit_ms} ms"))

    # --------------------------------------------------------------------------------------- from the network

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        hello = self.conversation.hello(self._greeted)
        timer = self._loop.call_later(
            self._request_timeout_ms / 1000, self._timed_out, "ApiVersions", self._request_timeout_ms
        )
        self._ready.add_done_callback(lambda _: timer.cancel())
        hello.start(connection.send)

    def data_received(self, view: memoryview) -> int:
        taken = self.conversation.receive(view)
        if self.conversation.expected and self._connection is not None:
            self._connection.expect(self.conversation.expected)
        return taken

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        self.is_closed = True
        failure = error if isinstance(error, ClientError) else NetworkError(_why(self.node, reason, error))
        self.conversation.end(failure)
        if not self._ready.done():
            self._ready.set_exception(failure)
        if self.on_closed is not None:
            self.on_closed(self)

    def _greeted(self, error: Exception | None) -> None:
        if error is None:
            if not self._ready.done():
                self._ready.set_result(None)
        elif not self._ready.done():
            self._ready.set_exception(error)
            self.close()


def _settle(future: asyncio.Future[Message], message: Message | None, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    elif message is not None:
        future.set_result(message)


def _look(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()


def _why(node: Node, reason: CloseReason, error: BaseException | None) -> str:
    detail = f" ({error})" if error is not None and str(error) else ""
    return f"{node}: {reason.value}{detail}"
