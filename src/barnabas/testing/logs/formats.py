"""Four common log formats.

Each format is a class with `write`.  `Bracketed` is a layout of its own: `CONFIG` names its pattern for the
pipeline.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

SEVERITIES = {"ERROR": 3, "WARN": 4, "INFO": 6}


class Event(NamedTuple):
    """An event, independent of its format."""

    time_ms: int
    service: str
    id: str
    level: str
    # A request, an error, or a note.
    kind: str
    trace: str
    status: int
    duration_ms: int
    message: str

    @property
    def time(self) -> str:
        text = datetime.fromtimestamp(self.time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{text}.{self.time_ms % 1000:03d}Z"


class Format(Protocol):
    """The interface of a format."""

    @staticmethod
    def write(event: Event) -> bytes: ...


class Json:
    """One object per line."""

    @staticmethod
    def write(event: Event) -> bytes:
        entry = {
            "time": event.time, "level": event.level, "service": event.service, "id": event.id,
            "kind": event.kind, "trace_id": event.trace, "status": event.status,
            "duration_ms": event.duration_ms, "message": event.message,
        }  # fmt: skip
        return json.dumps(entry, separators=(",", ":")).encode()


class Logfmt:
    """key=value, as is common for Go services."""

    @staticmethod
    def write(event: Event) -> bytes:
        return (
            f"time={event.time} level={event.level.lower()} service={event.service} id={event.id} "
            f"kind={event.kind} trace_id={event.trace} status={event.status} duration={event.duration_ms}ms "
            f'msg="{event.message}"'
        ).encode()


class Bracketed:
    """[time] LEVEL service(id) kind/trace status duration - message, as is common for Java services."""

    @staticmethod
    def write(event: Event) -> bytes:
        return (
            f"[{event.time}] {event.level:<5} {event.service}({event.id}) {event.kind}/{event.trace} "
            f"{event.status} {event.duration_ms} - {event.message}"
        ).encode()

    PATTERN = (
        r"\[(?P<time>ISO)\] (?P<level>LEVEL)\s+(?P<service>[\w.-]+)\((?P<id>[\w.-]+)\) "
        r"(?P<kind>\w+)/(?P<trace_id>\w+) (?P<status>\d+) (?P<duration_ms>\d+) - (?P<message>.*)"
    )


class Syslog:
    """RFC 5424 with structured data."""

    @staticmethod
    def write(event: Event) -> bytes:
        priority = 8 + SEVERITIES[event.level]
        return (
            f"<{priority}>1 {event.time} host {event.service} 1 {event.kind} "
            f'[e id="{event.id}" level="{event.level}" trace_id="{event.trace}" status="{event.status}" '
            f'duration="{event.duration_ms}"] {event.message}'
        ).encode()


FORMATS: tuple[type[Format], ...] = (Json, Logfmt, Bracketed, Syslog)

CONFIG = f"""[formats]
bracketed = '{Bracketed.PATTERN}'
"""
