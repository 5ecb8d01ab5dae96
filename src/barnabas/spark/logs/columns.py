"""The columns of the topics that log aggregation writes: one list for queries, readers and schemas."""

from __future__ import annotations

from collections.abc import Mapping

# A line that was understood, as `logs.parsed` has it.
PARSED = {
    "at_ms": "long",
    "time": "string",
    "level": "string",
    "service": "string",
    "component": "string",
    "message": "string",
    "template": "string",
    "is_new": "boolean",
    "fields": "map<string,string>",
    "format": "string",
    "lines": "int",
    "status": "int",
    "duration_ms": "double",
    "trace_id": "string",
    "source": "string",
    "position": "string",
}
# Lines, requests and errors of a service in a window.
COUNTS = {
    "start": "timestamp",
    "end": "timestamp",
    "service": "string",
    "owner": "string",
    "lines": "long",
    "requests": "long",
    "errors": "long",
    "warnings": "long",
    "new_templates": "long",
    "duration_ms": "double",
    "error_rate": "double",
}
# Lines of a kind in a window.
TEMPLATES = {
    "start": "timestamp",
    "end": "timestamp",
    "service": "string",
    "template": "string",
    "level": "string",
    "lines": "long",
    "is_new": "boolean",
    "sample": "string",
}
# Changes of a service's state.
ALERTS = {
    "service": "string",
    "owner": "string",
    "rule": "string",
    "state": "string",
    "since": "timestamp",
    "value": "double",
    "error_rate": "double",
}


def schema(columns: Mapping[str, str]) -> str:
    """As Spark reads a schema: names and types."""
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
