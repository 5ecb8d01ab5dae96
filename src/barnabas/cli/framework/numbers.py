"""Numbers on command lines."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1


def short_number(text: str) -> int | None:
    """A 16-bit number, or None if the text is not one."""
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= len(str(2**15))):
        return None
    number = int(text)
    return number if -(2**15) <= number < 2**15 else None


def whole_number(least: int = -MAX_INT - 1, most: int = MAX_INT) -> Callable[[str], int]:
    """For `add_argument(type=…)`: an integer within these bounds."""

    def read(text: str) -> int:
        digits = text.removeprefix("-").removeprefix("+")
        if digits.isascii() and digits.isdecimal() and len(digits) <= len(str(MAX_LONG)):
            number = int(text)
            if least <= number <= most:
                return number
        raise ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")

    return read


integer = whole_number()
long_integer = whole_number(-MAX_LONG - 1, MAX_LONG)
