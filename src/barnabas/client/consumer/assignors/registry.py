"""Assignors by name: ours, Apache Kafka's short names and its class names."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from barnabas.client.consumer.assignors.simple import Assignor, RangeAssignor, RoundRobinAssignor
from barnabas.client.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from barnabas.config.errors import ConfigError

_JAVA_PACKAGE = "org.apache.kafka.clients.consumer."
_KNOWN: dict[str, type[Assignor]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
    "RangeAssignor": RangeAssignor,
    "RoundRobinAssignor": RoundRobinAssignor,
    "StickyAssignor": StickyAssignor,
    "CooperativeStickyAssignor": CooperativeStickyAssignor,
}


def assignors(given: Iterable[Any]) -> list[Assignor]:
    """Return the assignors of `partition.assignment.strategy`, in order of preference."""
    made: list[Assignor] = []
    for value in given:
        if isinstance(value, str):
            known = _KNOWN.get(value.removeprefix("class ").removeprefix(_JAVA_PACKAGE))
            if known is None:
                raise ConfigError(
                    f"Invalid value {value} for configuration partition.assignment.strategy",
                    allowed="range, roundrobin, sticky, cooperative-sticky, or an assignor of your own",
                )
            made.append(known())
        else:
            made.append(value() if isinstance(value, type) else value)
    if len({assignor.name for assignor in made}) != len(made) or not made:
        raise ConfigError("partition.assignment.strategy must name one assignor or several different ones")
    return made
