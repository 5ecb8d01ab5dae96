"""Broker options under other names: other time units, the two names of a node's id, and listener prefixes.

`log.retention.hours` is a synonym of `log.retention.ms`, and `listener.name.internal.max.connections` is
`max.connections` for one listener only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# The nearest comes first; setting any of a family at run time overrides the whole family.
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
    """The option behind a name with a listener prefix; any other name unchanged."""
    match = _LISTENER_PREFIX.fullmatch(name)
    if match is None:
        return name
    suffix = match[1]
    return next((option for option in _MECHANISM_OPTIONS if suffix.endswith(option)), suffix)


def synonyms_of(name: str, *, with_base: bool) -> tuple[str, ...]:
    """All names that may provide the value of the broker option `name`, nearest first."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    base = base_name(name)
    return (name, base) if with_base and base != name else (name,)


def with_both_ids(given: Mapping[str, object]) -> dict[str, object]:
    """node.id and broker.id are the same option: setting one sets the other."""
    both = dict(given)
    for name, other in (("broker.id", "node.id"), ("node.id", "broker.id")):
        if name in given and other not in given:
            both[other] = given[name]
    return both
