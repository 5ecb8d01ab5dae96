"""Numbers as they are written on command lines."""

from __future__ import annotations


def short_number(text: str) -> int | None:
    """A 16-bit number, or None if the text is none."""
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= len(str(2**15))):
        return None
    number = int(text)
    return number if -(2**15) <= number < 2**15 else None
