"""Faults of the records of a batch, as numbers: the engine returns them and never raises."""

from __future__ import annotations

from typing import Final

NO_FAULT: Final = 0
BAD_VARINT: Final = 1
BAD_LENGTH: Final = 2
BAD_KEY: Final = 3
BAD_VALUE: Final = 4
BAD_HEADERS: Final = 5
WRONG_LENGTH: Final = 6
TRAILING_BYTES: Final = 7

_TEXTS: Final = (
    "sound",
    "a variable-length number is cut short or too long",
    "its length reaches past the end of the batch",
    "its key reaches past its end",
    "its value reaches past its end",
    "its headers reach past its end",
    "it has fewer or more bytes than its length says",
    "bytes remain after the last record that the batch counts",
)


def fault_text(fault: int) -> str:
    return _TEXTS[fault]
