"""The columns of the topics that log aggregation writes: one list for queries, readers and schemas."""

from __future__ import annotations

from collections.abc import Mapping

# Lines, requests and errors of a service in a window.
COUNTS = {
    "start": "timestamp",
    "end": "timestamp",
    "service": "string",
    "owner": "string",
    "lines": "long",
    "requests": "long",
    "errors": "long",
    "duration_ms": "long",
    "error_rate": "double",
}
# Changes of a service's state.
ALERTS = {
    "service": "string",
    "owner": "string",
    "state": "string",
    "since": "timestamp",
    "error_rate": "double",
}


def schema(columns: Mapping[str, str]) -> str:
    """As Spark reads a schema: names and types."""
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())
