"""Variable-length numbers, as the Java client reads and writes them.

A number is read together with the position after it.  A position of -1 says that the number is cut short or
longer than its type allows.  Bits that do not fit the type are dropped, as Java drops them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from librt.strings import BytesWriter

if TYPE_CHECKING:
    from mypy_extensions import i64

MAX_I64: Final = 0x7FFF_FFFF_FFFF_FFFF


def read_varint(data: bytes, position: i64, end: i64) -> tuple[i64, i64]:
    """A zigzag number of 32 bits, in at most five bytes."""
    raw: i64 = 0
    shift: i64 = 0
    while position < end:
        byte: i64 = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= 0xFFFF_FFFF
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
        if shift > 28:
            break
    return 0, -1


def read_varlong(data: bytes, position: i64, end: i64) -> tuple[i64, i64]:
    """A zigzag number of 64 bits, in at most ten bytes."""
    half: i64 = 0  # the number without its lowest bit, which is the sign: so it fits 63 bits at every step
    sign: i64 = 0
    shift: i64 = 0
    while position < end:
        byte: i64 = data[position]
        position += 1
        if shift == 0:
            sign = byte & 1
            half = (byte & 0x7E) >> 1
        elif shift == 63:
            half |= (byte & 1) << 62
        else:
            half |= (byte & 0x7F) << (shift - 1)
        if byte < 0x80:
            return half ^ -sign, position
        shift += 7
        if shift > 63:
            break
    return 0, -1


def write_varint(out: BytesWriter, value: i64) -> None:
    """A zigzag number of at most 63 bits."""
    raw: i64 = (value << 1) if value >= 0 else ((-(value + 1)) << 1) | 1
    while raw > 0x7F:
        out.append((raw & 0x7F) | 0x80)
        raw >>= 7
    out.append(raw)


def size_of_varint(value: i64) -> i64:
    """How many bytes write_varint needs."""
    raw: i64 = (value << 1) if value >= 0 else ((-(value + 1)) << 1) | 1
    size: i64 = 1
    while raw > 0x7F:
        raw >>= 7
        size += 1
    return size


def add_wrapping(left: i64, right: i64) -> i64:
    """The sum as Java's long gives it.  Python's int would grow and a native integer's overflow is no promise."""
    if right > 0 and left > MAX_I64 - right:
        return (left - MAX_I64) + (right - MAX_I64) - 2
    if right < 0 and left < -MAX_I64 - 1 - right:
        return (left + MAX_I64) + (right + MAX_I64) + 2
    return left + right
