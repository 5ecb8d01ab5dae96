"""A tunnel for programs without TLS: they talk to it in plain text, it to a listener by TLS.

Each connection of a program is one to the listener, logged in if asked to, which ends when the other does;
the same bytes pass in both directions, so that a raw probe of a plain listener becomes one of a secured one.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.protocol.frame import write_request
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest

CHUNK_BYTES = 1 << 16
PATIENCE_S = 120
_SIZE = struct.Struct(">i")
_RESET = struct.pack("ii", 1, 0)


class Tunnel:
    """Serves until it is closed."""

    def __init__(
        self, target: tuple[str, int], context: ssl.SSLContext, login: tuple[str, str] | None = None
    ) -> None:
        self._target = target
        self._context = context
        self._login = login
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # A blocked accept is not woken by close alone.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                program, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(program,), daemon=True).start()

    def _serve(self, program: socket.socket) -> None:
        with program, contextlib.suppress(OSError):
            plain = socket.create_connection(self._target, PATIENCE_S)
            if _is_gone(program):
                # It only connected: so does the tunnel, and a flood of such programs is none of handshakes.
                plain.close()
                return
            with self._context.wrap_socket(plain, server_hostname=self._target[0]) as secured:
                if self._login is not None:
                    log_in(secured, *self._login)
                secured.settimeout(None)
                self._pump(program, secured)

    def _pump(self, program: socket.socket, secured: ssl.SSLSocket) -> None:
        upwards = threading.Thread(target=_copy, args=(program, secured), daemon=True)
        upwards.start()
        _copy(secured, program)
        # The listener has closed: the program sees that at once.
        with contextlib.suppress(OSError):
            program.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            program.shutdown(socket.SHUT_RDWR)
        upwards.join(PATIENCE_S)


def _is_gone(program: socket.socket) -> bool:
    """Whether the program has closed its connection without a word."""
    try:
        return not program.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            target.sendall(data)
    with contextlib.suppress(OSError):
        # The lower socket too, so that the other direction ends.
        target.shutdown(socket.SHUT_WR)


def log_in(connection: socket.socket, user: str, password: str) -> None:
    """By PLAIN; raises OSError if that is refused."""
    token = f"\0{user}\0{password}".encode()
    for request, version in (
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=token), 1),
    ):
        connection.sendall(write_request(request, version, 0, "tunnel"))
        (size,) = _SIZE.unpack(_receive(connection, _SIZE.size))
        body = _receive(connection, size)
        if body[4:6] != b"\0\0":
            raise OSError("the login was refused")


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise OSError("the listener has closed the connection")
        data += chunk
    return data


@contextmanager
def tunnel(
    target: tuple[str, int], context: ssl.SSLContext, login: tuple[str, str] | None = None
) -> Iterator[Tunnel]:
    """A tunnel while the block runs."""
    one = Tunnel(target, context, login)
    try:
        yield one
    finally:
        one.close()
