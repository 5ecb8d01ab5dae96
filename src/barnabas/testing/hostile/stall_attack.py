"""Requests that are small for their sender and much work for a broker: the stall attack.

For every API and version that a listener serves, each array is filled until the request has a given size:
with one name again and again, with unknown names, and with names that exist.  Sending them belongs in
tools/stall.py and in tests, as does checking the result.

One small request must not stall a broker: other clients get responses all the while (F2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.broker.network.routes import Route
from barnabas.protocol.frame import write_request
from barnabas.protocol.schema import Field, Message

# UnregisterBroker would take the broker itself out of service.
EXCLUDED = frozenset({"UnregisterBroker"})
# A deleted topic or group cannot be deleted a second time.
NOT_EXISTING = frozenset({"DeleteTopics", "DeleteGroups"})
# Structs are not nested deeper than this.
MAX_DEPTH = 5
UNKNOWN_PREFIX = "u"

# Values that make a request much work, not just long; all other fields are zero, empty or false.
_VALUES: Mapping[str, Any] = {
    "acks": 1,
    "timeout_ms": 1_000,
    "timeout": 1_000,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 2,
    "validate_only": True,
    "validate_only_": True,
    "replica_id": -1,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "max_num_offsets": 1,
    "timestamp": -1,
    "response_partition_limit": 2_000,
    "producer_id": 1,
    "assignments": [],
    "replicas": [],
    "cursor": None,
    "iterations": 4_096,
    "mechanism": 1,
    "feature_update": 1,
}
# Variants to try, by API: a configuration belongs to topics, brokers, loggers, metrics and groups.
_CONFIG_KINDS: Sequence[Mapping[str, Any]] = (
    {"resource_type": 2},
    {"resource_type": 4, "resource_name": "1"},
    {"resource_type": 8, "resource_name": "1"},
    {"resource_type": 16},
    {"resource_type": 32},
)
_VARIANTS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "DescribeConfigs": (
        *({**kind, "configuration_keys": None} for kind in _CONFIG_KINDS),
        *({**kind, "resource_name": "1"} for kind in _CONFIG_KINDS[1:3]),
    ),
    "AlterConfigs": _CONFIG_KINDS,
    "IncrementalAlterConfigs": _CONFIG_KINDS,
    "FindCoordinator": ({"key_type": 0}, {"key_type": 1}),
    "ElectLeaders": ({"election_type": 0}, {"election_type": 1}),
    "AddPartitionsToTxn": ({"verify_only": False}, {"verify_only": True}),
    "Metadata": ({"topic_id": ZERO_UUID}, {"name": None}),
    "DeleteTopics": ({"topic_id": ZERO_UUID}, {"name": None}),
}
# A topic is identified by its name or by its id, which only newer versions have.
_BY_ID: Mapping[str, int] = {"Metadata": 12, "DeleteTopics": 6}
_INDEXES = frozenset({"partition", "partition_index", "partition_id", "partitions", "partition_indexes"})


class Kind(Enum):
    """What the elements of an array name."""

    REPEATED = "repeated"
    UNKNOWN = "unknown"
    EXISTING = "existing"


@dataclass(frozen=True)
class Existing:
    """Existing resources of the attacked broker: topics, and groups and transactional ids of the same
    names."""

    names: Sequence[str] = ("alpha",)
    ids: Sequence[Uuid] = (Uuid(bytes(15) + b"\7"),)
    partitions: int = 1


@dataclass(frozen=True)
class StallAttack:
    """One request: which array of which API is filled, with what and up to which size."""

    route: Route
    version: int
    kind: Kind
    # The attributes that lead to the array.
    path: tuple[str, ...]
    size: int
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        fixed = ",".join(f"{name}={_shown(value)}" for name, value in self.fixed.items())
        return (
            f"{self.route.api.name} v{self.version} {'.'.join(self.path)}"
            f"{f'[{fixed}]' if fixed else ''} {self.kind.value} {self.size // 1000} kB"
        )

    def request(self, existing: Existing) -> Message:
        return _Filler(self, existing).request()

    def frame(self, existing: Existing, correlation_id: int = 1) -> bytes:
        """With its size, ready to be sent."""
        return write_request(self.request(existing), self.version, correlation_id, "stall")


def _shown(value: object) -> str:
    if value is None:
        return "null"
    return "zero" if value == ZERO_UUID else str(value)


def attacks(
    routes: Iterable[Route], sizes: Sequence[int], *, every_version: bool = True
) -> Iterator[StallAttack]:
    """All attacks in order of API key; by default only for the lowest and the highest version of each API."""
    for route in routes:
        name = route.api.name
        if name in EXCLUDED:
            continue
        versions = range(route.lowest, route.highest + 1)
        for version in versions if every_version else sorted({versions[0], versions[-1]}):
            for path in array_paths(route.api.request, version):
                for fixed in _VARIANTS.get(name, ({},)):
                    if path[-1] in fixed or ("name" in fixed and version < _BY_ID[name]):
                        continue
                    for kind in Kind:
                        if kind is Kind.EXISTING and name in NOT_EXISTING:
                            continue
                        yield from (StallAttack(route, version, kind, path, size, fixed) for size in sizes)


def array_paths(message: type[Message], version: int, depth: int = 0) -> Iterator[tuple[str, ...]]:
    """The paths of a message's arrays at this version, including nested ones."""
    if depth == MAX_DEPTH:
        return
    for known in message.schema.fields:
        if version not in known.versions:
            continue
        if known.is_array:
            yield (known.attribute,)
        if known.struct is not None:
            for deeper in array_paths(known.struct, version, depth + 1):
                yield (known.attribute, *deeper)


class _Filler:
    """Fills one array of a request until the request has its size."""

    def __init__(self, attack: StallAttack, existing: Existing) -> None:
        self._attack = attack
        self._existing = existing
        self._version = attack.version
        self._number = 0

    def request(self) -> Message:
        small = self._message(self._attack.route.api.request, self._attack.path, 10)
        smaller = self._message(self._attack.route.api.request, self._attack.path, 0)
        base = len(smaller.encode(self._version))
        # The numbers within names grow; that the later ones are slightly longer does not matter.
        each = max(1, (len(small.encode(self._version)) - base) // 10)
        count = max(1, (self._attack.size - base) // (each + (3 if self._attack.kind is Kind.UNKNOWN else 0)))
        self._number = 0
        return self._message(self._attack.route.api.request, self._attack.path, count)

    def _message(self, message: type[Message], path: tuple[str, ...], count: int) -> Message:
        made: Any = message.schema.new()
        for known in message.schema.fields:
            if self._version not in known.versions:
                continue
            on_path = bool(path) and path[0] == known.attribute
            setattr(made, known.attribute, self._field(known, path[1:] if on_path else None, count))
        whole: Message = made
        return whole

    def _field(self, known: Field, rest: tuple[str, ...] | None, count: int) -> Any:
        fixed = self._attack.fixed
        if known.attribute in fixed:
            return fixed[known.attribute]
        if rest is None and known.attribute in _VALUES:
            return _VALUES[known.attribute]
        if not known.is_array:
            return self._value(known, rest or (), count)
        if rest != ():
            return [self._value(known, rest or (), count)]
        made = []
        for _ in range(min(count, self._distinct())):
            self._number += 1
            made.append(self._value(known, (), count))
        # The others are the same again.
        return [made[at % len(made)] for at in range(count)]

    def _distinct(self) -> int:
        """The number of different elements."""
        if self._attack.kind is Kind.UNKNOWN:
            return self._attack.size
        if self._attack.kind is Kind.REPEATED:
            return 1
        return math.lcm(len(self._existing.names), len(self._existing.ids), self._existing.partitions)

    def _value(self, known: Field, path: tuple[str, ...], count: int) -> Any:
        if known.struct is not None:
            return self._message(known.struct, path, count)
        if known.kind == "string":
            return self._text()
        if known.kind == "uuid":
            return self._uuid()
        if known.attribute in _INDEXES:
            return self._index()
        plain = {"bool": False, "float64": 1.5, "bytes": b"abc", "record_data": None}
        return plain.get(known.kind, 0)

    def _text(self) -> str:
        names = self._existing.names
        if self._attack.kind is Kind.UNKNOWN and self._number:
            return f"{UNKNOWN_PREFIX}{self._number}"
        if self._attack.route.api.name in NOT_EXISTING:
            return UNKNOWN_PREFIX
        return names[self._number % len(names)] if self._attack.kind is Kind.EXISTING else names[0]

    def _uuid(self) -> Uuid:
        ids = self._existing.ids
        if self._attack.kind is Kind.UNKNOWN and self._number:
            return Uuid(self._number.to_bytes(16))
        return ids[self._number % len(ids)] if self._attack.kind is Kind.EXISTING else ids[0]

    def _index(self) -> int:
        if self._attack.kind is Kind.REPEATED:
            return 0
        return self._number if self._attack.kind is Kind.UNKNOWN else self._number % self._existing.partitions
