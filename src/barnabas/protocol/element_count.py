"""Counts the elements of a message, to decide whether it is written at once or in steps."""

from __future__ import annotations

from functools import cache
from typing import Any

from barnabas.protocol.schema import Message


@cache
def _arrays(message: type[Message]) -> tuple[tuple[str, bool], ...]:
    """The attributes that hold arrays of structs or strings, and whether their elements contain such arrays.

    Numbers do not count: a list of them is written by one call.
    """
    return tuple(
        (known.attribute, known.struct is not None and bool(_arrays(known.struct)))
        for known in message.schema.fields
        if known.is_array and known.kind in ("struct", "string")
    )


def has_many_elements(message: Message, limit: int) -> bool:
    """Whether its arrays, including nested ones, have more than `limit` elements in total."""
    return _counted(message, limit) > limit


def _counted(message: Any, limit: int) -> int:
    count = 0
    for attribute, is_deeper in _arrays(message.__class__):
        items = getattr(message, attribute)
        if not items:
            continue
        count += len(items)
        if is_deeper:
            for item in items:
                if count > limit:
                    break
                count += _counted(item, limit - count)
        if count > limit:
            break
    return count
