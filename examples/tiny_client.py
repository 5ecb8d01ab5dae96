"""The smallest client that is still one: requests out, answers in, in order, on the reactor.

It knows one server, asks for no versions and tries nothing again; it shows what the codec and the runtime
give.  Programs that need a client should use a real one.
"""

from __future__ import annotations

from collections import deque

from barnabas.protocol.apis import Api, api
from barnabas.protocol.frame import SIZE_BYTES, frame_size, read_response, write_request
from barnabas.protocol.schema import Message
from barnabas.runtime.later import Later
from barnabas.runtime.network import Address, CloseReason, Connection, Network, StreamHandler

# Requests that may wait for an answer at once.
MAX_IN_FLIGHT = 100


class TinyClient(StreamHandler):
    """One connection to one server."""

    def __init__(self, network: Network, server: Address, client_id: str) -> None:
        self._client_id = client_id
        self._connection: Connection | None = None
        self._early: list[bytes] = []
        self._waiting: deque[tuple[Api, int, Later[Message]]] = deque()
        self._next_id = 0
        network.connect(server.host, server.port, self)

    def ask(self, request: Message, version: int) -> Later[Message]:
        """Send a request; its answer comes later."""
        if len(self._waiting) >= MAX_IN_FLIGHT:
            raise RuntimeError(f"{MAX_IN_FLIGHT} requests wait for an answer already")
        assert request.schema.key is not None
        answer: Later[Message] = Later()
        self._next_id += 1
        frame = write_request(request, version, self._next_id, self._client_id)
        self._waiting.append((api(request.schema.key), version, answer))
        if self._connection is None:
            self._early.append(frame)
        else:
            self._connection.send(frame)
        return answer

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        connection.send(*self._early)
        self._early.clear()

    def data_received(self, view: memoryview) -> int:
        taken = 0
        while len(view) - taken >= SIZE_BYTES:
            start = taken + SIZE_BYTES
            end = start + frame_size(view, taken)
            if end > len(view):
                assert self._connection is not None
                self._connection.expect(end - taken)
                break
            answered, version, answer = self._waiting.popleft()
            # A copy, because the records of an answer are views of its bytes, and this buffer is used again.
            _, message = read_response(bytes(view[start:end]), answered, version)
            taken = end
            answer.set(message)
        return taken

    def closed(self, reason: CloseReason, error: BaseException | None) -> None:
        waiting, self._waiting = self._waiting, deque()
        for _, _, answer in waiting:
            answer.fail(error or ConnectionError(reason.value))

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
