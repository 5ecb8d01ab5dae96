"""A relay in front of a broker that does to chosen requests what the kit's faults do: it drops connections before or
after the work, delays requests, or lets nothing pass.

It serves a connection's requests one after the other, as brokers do.
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.protocol.apis import api, api_named
from barnabas.protocol.frame import read_response
from barnabas.protocol.schema import Message
from tests.frames import read_request, write_response

CHUNK = 1 << 16
_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")


@dataclass(eq=False)
class Rule:
    """Which requests it is for, and what happens to them."""

    # Client ids begin with this.
    client_id: str
    api: str | None = None
    drop: str | None = None
    delay_s: float = 0.0
    hold: bool = False
    # The response says that each partition has this error.
    error: str | None = None
    times: int | None = None
    hits: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def takes(self, key: int, client_id: str) -> bool:
        if self.times is not None and self.hits >= self.times:
            return False
        return client_id.startswith(self.client_id) and (self.api is None or key == api_named(self.api).key)


class Relay:
    """Forwards connections to one port."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._rules: list[Rule] = []
        self._listener = socket.create_server(("localhost", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # A socket that a thread accepts on keeps its port until that thread wakes up.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @contextmanager
    def apply(self, rule: Rule) -> Iterator[Rule]:
        """Until the end of the block."""
        self._rules.append(rule)
        try:
            yield rule
        finally:
            self._rules.remove(rule)
            rule.over.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._relay, args=(near,), daemon=True).start()

    def _relay(self, near: socket.socket) -> None:
        with near, suppress(OSError), socket.create_connection(("localhost", self._target)) as far:
            responses = _frames(far)
            for request in _frames(near):
                if not self._serve(request, near, far, responses):
                    return

    def _serve(
        self, request: bytes, near: socket.socket, far: socket.socket, responses: Iterator[bytes]
    ) -> bool:
        """Whether the connection goes on."""
        key, version, _, length = _HEADER.unpack_from(request, 4)
        start = 4 + _HEADER.size
        client_id = request[start : start + max(length, 0)].decode()
        rule = next((rule for rule in self._rules if rule.takes(key, client_id)), None)
        if rule is not None:
            rule.hits += 1
            if rule.delay_s or rule.hold:
                rule.over.wait(None if rule.hold else rule.delay_s)
            if rule.drop == "before":
                return False
        far.sendall(request)
        if _is_unanswered(key, version, request):
            return True
        response = next(responses, None)
        if response is None or (rule is not None and rule.drop == "after"):
            return False
        if rule is not None and rule.error is not None:
            response = _with_error(response, key, version, ErrorCode[rule.error])
        near.sendall(response)
        return True


def _with_error(frame: bytes, key: int, version: int, error: ErrorCode) -> bytes:
    correlation_id, response = read_response(frame[4:], api(key), version)
    _set_error(response, error)
    return write_response(response, version, correlation_id)


def _set_error(message: Any, error: ErrorCode) -> None:
    for known in message.schema.fields:
        value = getattr(message, known.attribute, None)
        if known.attribute == "error_code" and not message.schema.key:
            message.error_code = int(error)
        elif known.is_array and value and isinstance(value[0], Message):
            for entry in value:
                _set_error(entry, error)


def _is_unanswered(key: int, version: int, request: bytes) -> bool:
    """Whether it is a Produce request with acks=0."""
    if key != api_named("Produce").key:
        return False
    message: Any = read_request(request[4:])[1]
    return bool(message.acks == 0)


def _frames(connection: socket.socket) -> Iterator[bytes]:
    """Whole frames with their sizes, until the connection ends."""
    pending = b""
    with suppress(OSError):
        while data := connection.recv(CHUNK):
            pending += data
            while len(pending) >= 4 and len(pending) >= 4 + (size := _SIZE.unpack_from(pending)[0]):
                yield pending[: 4 + size]
                pending = pending[4 + size :]
