"""What the doctor finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a check went."""

    OK = "ok"
    HINT = "hint"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check, and what to do about it if anything."""

    check: str
    state: State
    found: str
    advice: str = ""
