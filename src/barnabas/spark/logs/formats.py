"""Four common log formats.

Each format is a class with `write`; all but JSON have the regular expression `PATTERN` of their lines, whose
groups are named in `GROUPS`.
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
            "kind": event.kind, "trace": event.trace, "status": event.status,
            "duration_ms": event.duration_ms, "message": event.message,
        }  # fmt: skip
        return json.dumps(entry, separators=(",", ":")).encode()


class Logfmt:
    """key=value, as is common for Go services."""

    @staticmethod
    def write(event: Event) -> bytes:
        return (
            f"time={event.time} level={event.level.lower()} service={event.service} id={event.id} "
            f"kind={event.kind} trace={event.trace} status={event.status} duration={event.duration_ms}ms "
            f'msg="{event.message}"'
        ).encode()

    PATTERN = (
        r"^time=(\S+) level=(\w+) service=([\w.-]+) id=([\w.-]+) kind=(\w+) trace=(\w+) status=(\d+) "
        r'duration=(\d+)ms msg="([^"]*)"$'
    )
    GROUPS = ("time", "level", "service", "id", "kind", "trace", "status", "duration_ms", "message")


class Bracketed:
    """[time] LEVEL service(id) kind/trace status duration - message, as is common for Java services."""

    @staticmethod
    def write(event: Event) -> bytes:
        return (
            f"[{event.time}] {event.level:<5} {event.service}({event.id}) {event.kind}/{event.trace} "
            f"{event.status} {event.duration_ms} - {event.message}"
        ).encode()

    PATTERN = r"^\[([^\]]+)\] (\w+)\s+([\w.-]+)\(([\w.-]+)\) (\w+)/(\w+) (\d+) (\d+) - (.*)$"
    GROUPS = ("time", "level", "service", "id", "kind", "trace", "status", "duration_ms", "message")


class Syslog:
    """RFC 5424 with structured data."""

    @staticmethod
    def write(event: Event) -> bytes:
        priority = 8 + SEVERITIES[event.level]
        return (
            f"<{priority}>1 {event.time} host {event.service} 1 {event.kind} "
            f'[e id="{event.id}" level="{event.level}" trace="{event.trace}" status="{event.status}" '
            f'duration="{event.duration_ms}"] {event.message}'
        ).encode()

    PATTERN = (
        r'^<\d+>1 (\S+) \S+ ([\w.-]+) \S+ (\w+) \[e id="([\w.-]+)" level="(\w+)" trace="(\w+)" '
        r'status="(\d+)" duration="(\d+)"\] (.*)$'
    )
    GROUPS = ("time", "service", "kind", "id", "level", "trace", "status", "duration_ms", "message")


FORMATS: tuple[type[Format], ...] = (Json, Logfmt, Bracketed, Syslog)
PATTERNS = (Logfmt, Bracketed, Syslog)
