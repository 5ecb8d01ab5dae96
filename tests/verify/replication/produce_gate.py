"""A relay in front of a broker that loses, refuses or holds produce requests, as told.

It serves a connection's requests one after the other, as brokers do.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum, auto

from barnabas.protocol.apis import api
from barnabas.protocol.frame import read_request_header, read_response
from barnabas.protocol.messages.produce import ProduceResponse
from tests.frames import FrameReader

PRODUCE_KEY = 0
CHUNK = 1 << 16
_SIZE = struct.Struct(">i")


class Gate(Enum):
    """What happens to produce requests."""

    OPEN = auto()
    # Delivered; the connection is closed in place of an answer, and the gate is shut.
    LOSING = auto()
    # Every connection is closed.
    SHUT = auto()
    # `HELD` requests are awaited.  All but the last are delivered, and that one when the gate is opened.
    HOLDING = auto()


HELD = 3


class ProduceGate:
    """The relay of one broker."""

    def __init__(self, port: int, target: int) -> None:
        self.state = Gate.OPEN
        # The error codes of all answers to produce requests, in order.
        self.answers: list[int] = []
        self._target = target
        self._opened = threading.Event()
        self._server = socket.create_server(("localhost", port))
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self) -> None:
        self._opened.clear()
        self.state = Gate.HOLDING

    def open(self) -> None:
        self.state = Gate.OPEN
        self._opened.set()

    def close(self) -> None:
        # A socket that a thread accepts on keeps its port until that thread wakes up.
        with suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                threading.Thread(target=self._relay, args=(near,), daemon=True).start()

    def _relay(self, near: socket.socket) -> None:
        with near, suppress(OSError):
            if self.state is Gate.SHUT:
                return
            with socket.create_connection(("localhost", self._target)) as far:
                requests, responses = _frames(near), _frames(far)
                for request in requests:
                    if not self._serve(request, requests, near, far, responses):
                        return

    def _serve(
        self,
        request: bytes,
        requests: Iterator[bytes],
        near: socket.socket,
        far: socket.socket,
        responses: Iterator[bytes],
    ) -> bool:
        """False if the connection is to be closed."""
        held = [request]
        is_produce = read_request_header(request).api.key == PRODUCE_KEY
        if is_produce and self.state is Gate.HOLDING:
            held += [next(requests) for _ in range(HELD - 1)]
        for number, each in enumerate(held, 1):
            if number == HELD:
                self._opened.wait()
            far.sendall(_SIZE.pack(len(each)) + each)
            response = next(responses, b"")
            if not response:
                return False
            if is_produce:
                self._note(each, response)
                if self.state is Gate.LOSING:
                    self.state = Gate.SHUT
                    return False
            near.sendall(_SIZE.pack(len(response)) + response)
        return self.state is not Gate.SHUT

    def _note(self, request: bytes, response: bytes) -> None:
        _, answer = read_response(response, api(PRODUCE_KEY), read_request_header(request).version)
        assert isinstance(answer, ProduceResponse)
        self.answers.append(answer.responses[0].partition_responses[0].error_code)


def _frames(connection: socket.socket) -> Iterator[bytes]:
    reader = FrameReader()
    while data := connection.recv(CHUNK):
        yield from reader.feed(data)
