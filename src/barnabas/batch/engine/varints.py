"""Varints, as the Java client reads and writes them.

A number is returned together with the position after it.  A position of -1 means that the number is truncated
or longer than its type allows.  Bits that do not fit the type are dropped, as in Java.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

MAX_I64: Final = 0x7FFF_FFFF_FFFF_FFFF
# Two numbers up to this one add up within 64 bits; unlike the constant above, mypyc keeps it in a register.
HALF_I64: Final = 0x3FFF_FFFF_FFFF_FFFF


def read_varint(data: bytes, position: i64, end: i64) -> tuple[i64, i64]:
    """A zigzag number of 32 bits, in at most five bytes.  Most have one or two, so those come first."""
    if position + 1 < end:
        byte: i64 = data[position]
        if byte < 0x80:
            return (byte >> 1) ^ -(byte & 1), position + 1
        second: i64 = data[position + 1]
        if second < 0x80:
            return (((byte & 0x7E) >> 1) | (second << 6)) ^ -(byte & 1), position + 2
    raw: i64 = 0
    shift: i64 = 0
    while position < end and shift <= 28:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw &= 0xFFFF_FFFF
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7
    return 0, -1


def read_varlong(data: bytes, position: i64, end: i64) -> tuple[i64, i64]:
    """A zigzag number of 64 bits, in at most ten bytes."""
    if position >= end:
        return 0, -1
    byte: i64 = data[position]
    position += 1
    # The lowest bit is the sign.  Without it the number fits 63 bits, and no native integer wraps.
    sign: i64 = -(byte & 1)
    half: i64 = (byte & 0x7E) >> 1
    if byte < 0x80:
        return half ^ sign, position
    shift: i64 = 6
    while position < end and shift <= 62:
        byte = data[position]
        position += 1
        if shift == 62:
            half |= (byte & 1) << 62
        else:
            half |= (byte & 0x7F) << shift
        if byte < 0x80:
            return half ^ sign, position
        shift += 7
    return 0, -1


def write_varint(out: BytesWriter, value: i64) -> None:
    """A zigzag number of 32 or 64 bits: both have the same encoding."""
    sign: i64 = 0
    if value < 0:
        sign = 1
        value = -1 - value
    # As in read_varlong, the sign is handled separately so that nothing needs the 64th bit.
    byte: i64 = ((value & 0x3F) << 1) | sign
    value >>= 6
    while value > 0:
        out.append(u8(byte | 0x80))
        byte = value & 0x7F
        value >>= 7
    out.append(u8(byte))


def size_of_varint(value: i64) -> i64:
    """How many bytes write_varint needs."""
    if value < 0:
        value = -1 - value
    value >>= 6
    size: i64 = 1
    while value > 0:
        value >>= 7
        size += 1
    return size


def add_wrapping(left: i64, right: i64) -> i64:
    """The sum as Java's long computes it: Python's int would grow, and overflow is undefined in C."""
    if -HALF_I64 <= left <= HALF_I64 and -HALF_I64 <= right <= HALF_I64:
        return left + right
    if right > 0 and left > MAX_I64 - right:
        return (left - MAX_I64) + (right - MAX_I64) - 2
    if right < 0 and left < -MAX_I64 - 1 - right:
        return (left + MAX_I64) + (right + MAX_I64) + 2
    return left + right


def subtract_wrapping(left: i64, right: i64) -> i64:
    """The difference as Java's long computes it."""
    if -HALF_I64 <= left <= HALF_I64 and -HALF_I64 <= right <= HALF_I64:
        return left - right
    # -1 - right always fits, which -right does not for the lowest number.
    return add_wrapping(add_wrapping(left, -1 - right), 1)
