"""A line that was understood."""

from __future__ import annotations

from dataclasses import dataclass, field

UNKNOWN = "unknown"


@dataclass(slots=True)
class Record:
    """What a line says.  `time` is ISO 8601; a stack trace is the field `trace`."""

    time: str | None
    level: str | None
    service: str | None
    message: str
    format: str
    fields: dict[str, object] = field(default_factory=dict)
    lines: int = 1  # With its stack trace, and the parts that a wrapper cut it into.
