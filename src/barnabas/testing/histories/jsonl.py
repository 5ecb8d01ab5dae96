"""Events as lines of JSON, to keep a history and to record one in another language.

A line is an object with the name of the event and its fields:

    {"event": "Acknowledged", "value": "a", "offset": 7}

Partitions are written as `["topic", 0]`; positions and records are lists of pairs and triples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Any

from barnabas.testing.histories.events import (
    Acknowledged,
    Assigned,
    CommitRequested,
    Event,
    FinalPosition,
    FinalRead,
    Isolation,
    Partition,
    Polled,
    SendFailed,
    Sent,
    SentAgain,
    TransactionBegun,
    TransactionEnded,
    TransactionOutcome,
)
from barnabas.testing.histories.facts import HistoryError

_EVENTS: dict[str, type[Event]] = {
    kind.__name__: kind
    for kind in (
        Sent,
        Acknowledged,
        SendFailed,
        SentAgain,
        TransactionBegun,
        CommitRequested,
        TransactionEnded,
        Assigned,
        Polled,
        FinalRead,
        FinalPosition,
    )
}


def write_event(event: Event) -> str:
    """One line, without its end."""
    values = {each.name: getattr(event, each.name) for each in fields(event)}
    if isinstance(event, Assigned):
        values["positions"] = list(event.positions.items())
    return json.dumps({"event": type(event).__name__, **values}, separators=(",", ":"))


def read_events(lines: Iterable[str]) -> Iterator[Event]:
    """Raises HistoryError for a line that is no event."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield read_event(line)
            except (ValueError, KeyError, TypeError) as error:
                raise HistoryError(f"line {number} is no event: {error}") from error


def read_event(line: str) -> Event:
    values = json.loads(line)
    kind = _EVENTS[values.pop("event")]
    for name, convert in _CONVERSIONS.items():
        if name in values:
            values[name] = convert(values[name])
    if kind is FinalRead:
        values["records"] = tuple((offset, value) for offset, value in values["records"])
    elif kind is Polled:
        values["records"] = tuple(
            (_partition(where), offset, value) for where, offset, value in values["records"]
        )
    return kind(**values)


def _partition(pair: list[Any]) -> Partition:
    topic, number = pair
    return str(topic), int(number)


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "partition": _partition,
    "isolation": Isolation,
    "outcome": TransactionOutcome,
    "positions": lambda pairs: {_partition(where): position for where, position in pairs},
}
