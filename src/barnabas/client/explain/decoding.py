"""Whether a record can be decoded: in the given format, or in the one that the previous records have."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from enum import StrEnum

SHOWN_BYTES = 24


class Format(StrEnum):
    """The expected format of values."""

    # Like the previous records: if they are all JSON, or all text, the next one should be, too.
    GUESS = "guess"
    JSON = "json"
    TEXT = "text"
    # Never decoded.
    BYTES = "bytes"


def _is_json(value: bytes) -> None:
    json.loads(value.decode("utf-8"))


def _is_text(value: bytes) -> None:
    value.decode("utf-8")


_CHECKS: dict[Format, Callable[[bytes], None]] = {Format.JSON: _is_json, Format.TEXT: _is_text}


def fault_of(value: bytes | None, before: Sequence[bytes | None], expected: Format) -> str | None:
    """Return why the value cannot be decoded; None if it can, or if the expected format is unknown."""
    if value is None or expected is Format.BYTES:
        return None
    if expected is not Format.GUESS:
        return _fault(value, expected, "as requested")
    known = [value_before for value_before in before if value_before is not None]
    for guess in (Format.JSON, Format.TEXT):
        if known and all(_fault(value_before, guess, "") is None for value_before in known):
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
