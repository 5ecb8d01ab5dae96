"""Broker options under other names: older units, the two names of a node's number, and listener prefixes.

`log.retention.hours` is another way to say `log.retention.ms`, and `listener.name.internal.max.connections`
is `max.connections` for one listener only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# The nearest comes first; any of a family that is set at run time pushes the whole family aside.
_FAMILIES = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_FLUSH = ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
_BY_NAME = {name: family for family in _FAMILIES for name in family} | {_FLUSH[0]: _FLUSH}

_LISTENER_PREFIX = re.compile(r"listener\.name\.[^.]*\.(.*)")
# These may be set for one mechanism of one listener: listener.name.NAME.MECHANISM.OPTION.
_MECHANISM_OPTIONS = (
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
    "connections.max.reauth.ms",
)


def base_name(name: str) -> str:
    """The option that a name with a listener prefix stands for; any other name as it is."""
    match = _LISTENER_PREFIX.fullmatch(name)
    if match is None:
        return name
    rest = match[1]
    return next((option for option in _MECHANISM_OPTIONS if rest.endswith(option)), rest)


def synonyms_of(name: str, *, with_base: bool) -> tuple[str, ...]:
    """All names that may give the value of the broker option `name`, nearest first."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    base = base_name(name)
    return (name, base) if with_base and base != name else (name,)


def with_both_ids(given: Mapping[str, object]) -> dict[str, object]:
    """node.id and broker.id are one thing: whichever is set sets the other."""
    both = dict(given)
    for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
        if name in given and other not in given:
            both[other] = given[name]
    return both
