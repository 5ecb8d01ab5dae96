"""Frames: a size, a header, a message.  Sans-IO: bytes in, frames out, and vice versa.

Contains framing and headers.  Sockets belong in `runtime`, and the meaning of an API in its handler.

A size is checked against the limit as soon as its four bytes have arrived, and memory grows only with bytes
that were actually received, so a client cannot reserve memory by announcing a large frame.
"""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.protocol.apis import Api, api, apis
from barnabas.protocol.primitives import (
    Buffer,
    ProtocolError,
    Reader,
    RecordSlice,
    join_between_slices,
    pieces_length,
    skip_tagged_fields,
)
from barnabas.protocol.schema import Message

SIZE_BYTES = 4
# The default of Apache Kafka's socket.request.max.bytes.
DEFAULT_MAX_FRAME_BYTES = 100 * 1024 * 1024
_REQUEST_START = struct.Struct(">hhi")
_SIZE = struct.Struct(">i")
_STRING_SIZE = struct.Struct(">h")
_NO_TAGGED_FIELDS = b"\x00"


def frame_size(buffer: Buffer, position: int = 0, *, limit: int = DEFAULT_MAX_FRAME_BYTES) -> int:
    """The size of the frame whose four size bytes are at `position`, without those four."""
    size: int = _SIZE.unpack_from(buffer, position)[0]
    if size < 0:
        raise ProtocolError(f"a frame cannot have the size {size}")
    if size > limit:
        raise ProtocolError(f"a frame of {size} bytes is larger than the {limit} that are allowed")
    return size


class ParsedRequestHeader(NamedTuple):
    """The header of a request; its message starts at `body`."""

    api: Api
    version: int
    correlation_id: int
    client_id: str
    body: int

    @property
    def is_supported(self) -> bool:
        return self.version in self.api.versions

    def check_version(self) -> None:
        """Raises UNSUPPORTED_VERSION for a version that does not exist.

        A server responds to this only for ApiVersions (in version 0, with the error); for any other API it
        closes the connection, since the client could not parse a response.
        """
        if not self.is_supported:
            raise ProtocolError(
                f"{self.api.name} has no version {self.version}: {self.api.versions} are known",
                code=ErrorCode.UNSUPPORTED_VERSION,
            )


def read_request_header(frame: Buffer) -> ParsedRequestHeader:
    """Parse a request's header; raises for an unknown API key, while an unknown version is left to the
    caller.

    A null client id reads as empty, as in Apache Kafka.
    """
    try:
        key, version, correlation_id = _REQUEST_START.unpack_from(frame)
        known = apis().get(key)
        if known is None or version < 0:
            raise ProtocolError(f"the request names API {key} version {version}, which does not exist")
        header_version = known.request_header_version(version)
        body, client_id = _REQUEST_START.size, ""
        if header_version >= 1:
            start = body + _STRING_SIZE.size
            body = start + max(0, _STRING_SIZE.unpack_from(frame, body)[0])
            if body > len(frame):
                raise ProtocolError(f"a client id of {body - start} bytes does not fit", position=start)
            client_id = str(frame[start:body], "utf-8", "replace")
        if header_version >= 2:
            body = skip_tagged_fields(frame, body + 1, frame[body]) if frame[body] else body + 1
    except (struct.error, IndexError):
        raise ProtocolError(f"a request of {len(frame)} bytes is cut off within its header") from None
    return ParsedRequestHeader(known, version, correlation_id, client_id, body)


def read_correlation_id(frame: Buffer) -> int:
    """The correlation id of a response, from which the client finds the request and thus the response
    schema."""
    return Reader(frame).int32()


def read_response(frame: Buffer, request_api: Api, version: int) -> tuple[int, Message]:
    """A complete response and its correlation id."""
    reader = Reader(frame)
    correlation_id = reader.int32()
    if request_api.response_header_version(version) >= 1:
        reader.skip_tagged_fields()
    message, _ = request_api.response.decode_from(frame, reader.position, version)
    return correlation_id, message


def _api_of(message: Message) -> Api:
    key = message.schema.key
    if key is None:
        raise ProtocolError(f"{message.schema.name} is neither a request nor a response")
    return api(key)


def write_request(message: Message, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request with its size and header."""
    request_api = _api_of(message)
    header_version = request_api.request_header_version(version)
    header = _REQUEST_START.pack(request_api.key, version, correlation_id)
    if header_version >= 1:
        text = (client_id or "").encode()
        header += _STRING_SIZE.pack(-1 if client_id is None else len(text)) + text
    if header_version >= 2:
        header += _NO_TAGGED_FIELDS
    body = message.encode(version)
    return b"".join((_SIZE.pack(len(header) + len(body)), header, body))


def write_response_pieces(message: Message, version: int, correlation_id: int) -> list[Buffer | RecordSlice]:
    """A response with its size and header, as pieces to send; record slices stay unread.

    Everything between two slices is joined into one piece: a response with a thousand topics has a hundred
    thousand fields, and each would cost the connection as much as a piece of a megabyte.
    """
    header = _SIZE.pack(correlation_id)
    if _api_of(message).response_header_version(version) >= 1:
        header += _NO_TAGGED_FIELDS
    pieces = message.encode_pieces(version)
    start = _SIZE.pack(len(header) + pieces_length(pieces)) + header
    return join_between_slices([start, *pieces])


def write_response_steps(
    message: Message, version: int, correlation_id: int, limit: int
) -> Generator[None, None, list[Buffer | RecordSlice]]:
    """Like `write_response_pieces`, but in steps and using at most `limit` bytes of memory.

    Pieces are joined at each step, so that the memory used is about the size of the response.
    """
    header = _SIZE.pack(correlation_id)
    if _api_of(message).response_header_version(version) >= 1:
        header += _NO_TAGGED_FIELDS
    whole: list[Buffer | RecordSlice] = []
    pieces: list[Buffer | RecordSlice] = []
    size, in_memory = len(header), 0
    steps = message.encode_steps(version, pieces)
    is_done = False
    while not is_done:
        try:
            next(steps)
        except StopIteration:
            is_done = True
        size += pieces_length(pieces)
        joined = join_between_slices(pieces)
        in_memory += sum(len(piece) for piece in joined if isinstance(piece, Buffer))
        if in_memory > limit:
            raise ProtocolError(f"a response of more than the {limit} bytes that are allowed")
        whole += joined
        pieces.clear()
        yield
    return [_SIZE.pack(size) + header, *whole]
