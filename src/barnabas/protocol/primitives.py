"""The primitives of the wire format: varints, lengths, and the error of the codec.

Contains functions that know nothing of messages, and the reader for hand-written formats (headers, keys of
internal records).  Compiled encoders and decoders share only the varints and the error with the reader.

Every length is checked against the remaining bytes before anything is allocated.
"""

from __future__ import annotations

import struct
from typing import Protocol, TypeAlias

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid

Buffer: TypeAlias = bytes | bytearray | memoryview

MAX_INT32 = 2**31 - 1
MAX_STRING_BYTES = 2**15 - 1
MAX_VARINT_BYTES = 5
MAX_VARLONG_BYTES = 10
UUID_SIZE = 16


class ProtocolError(KafkaError):
    """The error of the codec.

    The code is INVALID_REQUEST when bytes cannot be decoded or a value cannot be encoded, and
    UNSUPPORTED_VERSION when the requested version has no such message or cannot carry a field.
    `field` is the path of the field in the message and `position` the byte where decoding stopped.
    """

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode = ErrorCode.INVALID_REQUEST,
        field: str | None = None,
        position: int | None = None,
    ) -> None:
        location = "" if field is None else f" (field {field}" + (f", byte {position})" if position else ")")
        super().__init__(code, message + location)
        self.field = field
        self.position = position


class RecordSlice(Protocol):
    """Record batches in a file: a message may contain them, and they are sent without a copy."""

    @property
    def length(self) -> int: ...

    def read(self) -> bytes: ...


def record_view(records: Buffer | RecordSlice | None) -> memoryview:
    """The bytes of a records field, in whatever form; null reads as empty, as in Apache Kafka."""
    if records is None:
        return memoryview(b"")
    return memoryview(records if isinstance(records, Buffer) else records.read())


def join_pieces(pieces: list[Buffer | RecordSlice]) -> bytes:
    """All pieces of an encoded message as one; slices of files are read."""
    try:
        return b"".join(pieces)  # type: ignore[arg-type]  # the slices raise
    except TypeError:
        return b"".join(piece if isinstance(piece, Buffer) else piece.read() for piece in pieces)


def join_between_slices(pieces: list[Buffer | RecordSlice]) -> list[Buffer | RecordSlice]:
    """The same bytes in as few pieces as the slices of files allow."""
    try:
        return [b"".join(pieces)]  # type: ignore[arg-type]  # the slices raise
    except TypeError:
        joined: list[Buffer | RecordSlice] = []
        run: list[Buffer] = []
        for piece in pieces:
            if isinstance(piece, Buffer):
                run.append(piece)
            else:
                joined += (b"".join(run), piece)
                run.clear()
        return [*joined, b"".join(run)]


def pieces_length(pieces: list[Buffer | RecordSlice]) -> int:
    try:
        return sum(map(len, pieces))  # type: ignore[arg-type]  # the slices raise
    except TypeError:
        return sum(len(piece) if isinstance(piece, Buffer) else piece.length for piece in pieces)


def encode_unsigned_varint(value: int) -> bytes:
    """Seven bits per byte, lowest first; a negative number is written as its 32-bit pattern, as in Java."""
    value &= 0xFFFFFFFF
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_varint(value: int) -> bytes:
    """A signed 32-bit number, zigzag, so that small negative numbers stay short."""
    return encode_unsigned_varint((value << 1) ^ (value >> 31))


def encode_varlong(value: int) -> bytes:
    """A signed 64-bit number, zigzag."""
    value = ((value << 1) ^ (value >> 63)) & 0xFFFFFFFFFFFFFFFF
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def continue_length(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """Read the remaining bytes of a length whose first byte had its high bit set; (length, next position).

    Compiled decoders read the first byte themselves and call this for the rare longer one.  Lengths above
    2^31-1 would be negative in Java; here they are an error instead of null.
    """
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > MAX_INT32:
                raise ProtocolError(f"the length {value} is not possible")
            return value, position
    raise ProtocolError(f"a varint is longer than {MAX_VARINT_BYTES} bytes")


def skip_tagged_fields(buffer: Buffer, position: int, count: int) -> int:
    """Skip unknown tagged fields (KIP-482); the first byte of their count has already been read."""
    if count > 127:
        count, position = continue_length(buffer, position, count)
    if count * 2 > len(buffer) - position:
        raise ProtocolError(f"{count} tagged fields do not fit into the {len(buffer) - position} bytes left")
    for _ in range(count):
        size = 0
        for _ in ("tag", "size"):
            size = buffer[position]
            position += 1
            if size > 127:
                size, position = continue_length(buffer, position, size)
        position += size
        if position > len(buffer):
            raise ProtocolError(f"a tagged field of {size} bytes does not fit")
    return position


# The one-byte lengths, precomputed; encoders look them up.
SHORT_LENGTHS = tuple(bytes([length]) for length in range(128))


def string_length(length_plus_one: int) -> bytes:
    """The prefix of a compact string that is longer than 126 bytes."""
    if length_plus_one > MAX_STRING_BYTES + 1:
        size = length_plus_one - 1
        raise ProtocolError(f"a string of {size} bytes is too long, {MAX_STRING_BYTES} are allowed")
    return encode_unsigned_varint(length_plus_one)


class Reader:
    """Reads one value after the other from a buffer; raises at its end."""

    __slots__ = ("_buffer", "position")

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        self._buffer = memoryview(buffer).cast("B")
        self.position = position

    @property
    def remaining(self) -> int:
        return len(self._buffer) - self.position

    def view(self, size: int) -> memoryview:
        """The next `size` bytes, not copied."""
        if not 0 <= size <= self.remaining:
            raise ProtocolError(
                f"{size} bytes are announced at byte {self.position} and {self.remaining} are left",
                position=self.position,
            )
        start = self.position
        self.position += size
        return self._buffer[start : self.position]

    def bytes(self, size: int) -> bytes:
        return bytes(self.view(size))

    def _number(self, size: int, *, signed: bool = True) -> int:
        return int.from_bytes(self.view(size), "big", signed=signed)

    def int8(self) -> int:
        return self._number(1)

    def int16(self) -> int:
        return self._number(2)

    def int32(self) -> int:
        return self._number(4)

    def int64(self) -> int:
        return self._number(8)

    def uint16(self) -> int:
        return self._number(2, signed=False)

    def uint32(self) -> int:
        return self._number(4, signed=False)

    def float64(self) -> float:
        value: float = struct.unpack(">d", self.view(8))[0]
        return value

    def uuid(self) -> Uuid:
        return Uuid(self.view(UUID_SIZE))

    def _groups(self, most_bytes: int) -> int:
        value = 0
        for index in range(most_bytes):
            byte = self._number(1, signed=False)
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return value
        raise ProtocolError(f"a varint is longer than {most_bytes} bytes", position=self.position)

    def unsigned_varint(self) -> int:
        return self._groups(MAX_VARINT_BYTES) & 0xFFFFFFFF

    def varint(self) -> int:
        value = self.unsigned_varint()
        return (value >> 1) ^ -(value & 1)

    def varlong(self) -> int:
        value = self._groups(MAX_VARLONG_BYTES) & 0xFFFFFFFFFFFFFFFF
        return (value >> 1) ^ -(value & 1)

    def string(self) -> str | None:
        """A string with a 16-bit length; a negative length is null."""
        length = self.int16()
        return None if length < 0 else str(self.view(length), "utf-8", "replace")

    def compact_string(self) -> str | None:
        length = self.unsigned_varint() - 1
        return None if length < 0 else str(self.view(length), "utf-8", "replace")

    def skip_tagged_fields(self) -> None:
        """Skip a section of unknown tagged fields."""
        count = self._number(1, signed=False)
        try:
            self.position = skip_tagged_fields(self._buffer, self.position, count)
        except IndexError:
            raise ProtocolError("the tagged fields are cut off", position=self.position) from None
