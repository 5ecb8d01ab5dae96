"""The findings of the doctor."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """The outcome of a check."""

    OK = "ok"
    HINT = "hint"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check, with advice if there is something to do."""

    check: str
    state: State
    found: str
    advice: str = ""
