"""The smallest parts of the wire format: varints, lengths, and the one error of the codec.

What lives here: functions that know nothing of messages, and the reader and writer for hand-made formats
(headers, keys of internal records).  What may not: anything that knows a message; compiled encoders and
decoders do not call the reader, they only share the varints and the error with it.

Every length is held against what is left before anything is allocated.
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
    """The one refusal of the codec.

    The code is INVALID_REQUEST when bytes cannot be read or a value cannot be written, and
    UNSUPPORTED_VERSION when the version asked for has no such message or cannot carry a field.
    `field` is the path of the field in the message and `position` the byte where reading stopped.
    """

    def __init__(
        self,
        message: str,
        *,
        code: ErrorCode = ErrorCode.INVALID_REQUEST,
        field: str | None = None,
        position: int | None = None,
    ) -> None:
        where = "" if field is None else f" (field {field}" + (f", byte {position})" if position else ")")
        super().__init__(code, message + where)
        self.field = field
        self.position = position


class RecordSlice(Protocol):
    """Record batches that stay in a file: a message may carry them, and they are sent without a copy."""

    @property
    def length(self) -> int: ...

    def read(self) -> bytes: ...


def record_view(records: Buffer | RecordSlice | None) -> memoryview:
    """The bytes of a records field, whichever form it has; null reads as empty, as in Apache Kafka."""
    if records is None:
        return memoryview(b"")
    return memoryview(records if isinstance(records, Buffer) else records.read())


def join_pieces(pieces: list[Buffer | RecordSlice]) -> bytes:
    """All pieces of an encoded message as one; slices of files, which are rare here, are read."""
    try:
        return b"".join(pieces)  # type: ignore[arg-type]  # the slices raise
    except TypeError:
        return b"".join(piece if isinstance(piece, Buffer) else piece.read() for piece in pieces)


def join_between_slices(pieces: list[Buffer | RecordSlice]) -> list[Buffer | RecordSlice]:
    """The same bytes in as few pieces as slices of files allow."""
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
    """Seven bits a byte, lowest first; a negative number counts as its 32-bit pattern, as in Java."""
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
    """Read the rest of a length whose first byte had its high bit set; (length, next position).

    Compiled decoders read the first byte themselves and come here for the rare long one.  Lengths above
    2^31-1 would be negative in Java; they are refused here instead of being taken for null.
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
    """Pass over tagged fields (KIP-482) none of which is known; their count's first byte was read already."""
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


# The lengths that fit one byte, ready made; encoders look them up.
SHORT_LENGTHS = tuple(bytes([length]) for length in range(128))


def string_length(length_plus_one: int) -> bytes:
    """The prefix of a compact string that is longer than 126 bytes."""
    if length_plus_one > MAX_STRING_BYTES + 1:
        size = length_plus_one - 1
        raise ProtocolError(f"a string of {size} bytes is too long, {MAX_STRING_BYTES} are allowed")
    return encode_unsigned_varint(length_plus_one)


class Reader:
    """Reads one value after the other from a buffer and refuses to pass its end."""

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
        """Pass over a section of tagged fields none of which is known."""
        count = self._number(1, signed=False)
        try:
            self.position = skip_tagged_fields(self._buffer, self.position, count)
        except IndexError:
            raise ProtocolError("the tagged fields are cut off", position=self.position) from None
