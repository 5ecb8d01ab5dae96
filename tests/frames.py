"""The server's side of a connection for tests that speak the protocol themselves: frames, requests, responses."""

from __future__ import annotations

from barnabas.protocol.frame import (
    DEFAULT_MAX_FRAME_BYTES,
    SIZE_BYTES,
    ParsedRequestHeader,
    frame_size,
    read_request_header,
    write_response_pieces,
)
from barnabas.protocol.primitives import Buffer, join_pieces
from barnabas.protocol.schema import Message


class FrameReader:
    """Cuts a stream of bytes into frames."""

    __slots__ = ("_limit", "_pending")

    def __init__(self, limit: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._limit = limit
        self._pending = bytearray()

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished frame are held."""
        return len(self._pending)

    def feed(self, data: Buffer) -> list[bytes]:
        """Take what came and give the frames that are complete now, without their sizes."""
        self._pending += data
        frames = []
        position = 0
        with memoryview(self._pending) as pending:
            while len(pending) - position >= SIZE_BYTES:
                start = position + SIZE_BYTES
                size = frame_size(pending, position, limit=self._limit)
                if len(pending) - start < size:
                    break
                position = start + size
                frames.append(bytes(pending[start:position]))
        del self._pending[:position]
        return frames


def read_request(frame: Buffer) -> tuple[ParsedRequestHeader, Message]:
    """A whole request.  Bytes behind the message are ignored, as Apache Kafka does."""
    head = read_request_header(frame)
    head.check_version()
    message, _ = head.api.request.decode_from(frame, head.body, head.version)
    return head, message


def write_response(message: Message, version: int, correlation_id: int) -> bytes:
    """A response with its size and header."""
    return join_pieces(write_response_pieces(message, version, correlation_id))
