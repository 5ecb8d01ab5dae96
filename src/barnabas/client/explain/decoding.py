"""Whether a record can be decoded: as the format says that was named, or as the records before it were.

What lives here: the guess.  What may not: reading records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import StrEnum

SHOWN_BYTES = 24


class Format(StrEnum):
    """What values are meant to be."""

    # As those before: if they all are JSON, or all text, the next one should be, too.
    GUESS = "guess"
    JSON = "json"
    TEXT = "text"
    # Whatever it is, nobody has to decode it.
    BYTES = "bytes"


def _is_json(value: bytes) -> None:
    json.loads(value.decode("utf-8"))


def _is_text(value: bytes) -> None:
    value.decode("utf-8")


_CHECKS: dict[Format, Callable[[bytes], None]] = {Format.JSON: _is_json, Format.TEXT: _is_text}


def fault_of(value: bytes | None, before: Sequence[bytes | None], expected: Format) -> str | None:
    """Why the value cannot be decoded; None if it can, or if nobody knows what it should be."""
    if value is None or expected is Format.BYTES:
        return None
    if expected is not Format.GUESS:
        return _fault(value, expected, "as asked for")
    known = [one for one in before if one is not None]
    for guess in (Format.JSON, Format.TEXT):
        if known and all(_fault(one, guess, "") is None for one in known):
            return _fault(value, guess, f"as the {len(known)} before it are")
    return None


def _fault(value: bytes, expected: Format, why: str) -> str | None:
    try:
        _CHECKS[expected](value)
    except ValueError as error:
        begins = value[:SHOWN_BYTES]
        more = "…" if len(value) > SHOWN_BYTES else ""
        return f"its value is not {expected}, {why}: {error}; it begins with {begins!r}{more}"
    return None
