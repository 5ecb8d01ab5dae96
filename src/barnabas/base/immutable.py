"""A decorator for small immutable values of which every step of a protocol core creates several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

_Class = TypeVar("_Class")


@dataclass_transform(frozen_default=True)
def immutable(cls: type[_Class]) -> type[_Class]:
    """Like `dataclass(frozen=True, slots=True)`, but mypy alone refuses an assignment.

    A check at run time makes the creation of an object two to three times as slow.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)
