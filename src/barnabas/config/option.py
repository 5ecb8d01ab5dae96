"""An option: its name, type, default, valid values, and the feature it belongs to.

One row of a table in `tables/` is one `Option`, for both modes of a cluster.  Contains the structure of a
row. Parsing a value belongs in values/values.py, validating one in values/validators.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, StrEnum
from typing import Any, NamedTuple

from barnabas.config.features import Feature


class Type(StrEnum):
    """The type of an option's value, under Apache Kafka's own name."""

    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Importance(StrEnum):
    """How important an option is for users."""

    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class UpdateMode(StrEnum):
    """Whether the option can be updated dynamically, and whether per broker or cluster-wide (KIP-226)."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Mode(Enum):
    """Where the cluster stores its metadata; the value is the Apache Kafka release that it follows."""

    KRAFT = "4.1.0"
    ZOOKEEPER = "3.9.1"


class Option(NamedTuple):
    """One row of a table.

    `default` and `valid` are written as Apache Kafka prints them; `zookeeper` holds the fields that differ in
    ZooKeeper mode, and `only` the single mode that has the option.  `synonyms` are the broker options that a
    topic option falls back to, nearest first.
    """

    name: str
    type: Type
    default: str | None
    valid: str | None
    importance: Importance
    effect: Feature
    doc: str
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    synonyms: tuple[str, ...] = ()
    only: Mode | None = None
    required: bool = False
    internal: bool = False
    zookeeper: Mapping[str, Any] | None = None
    # The later release of Apache Kafka that introduced it, if the release that the mode follows lacks it.
    since: str | None = None

    @property
    def sensitive(self) -> bool:
        """Whether the value is never shown."""
        return self.type is Type.PASSWORD

    def exists_in(self, mode: Mode) -> bool:
        return self.only is None or self.only is mode

    def as_of(self, mode: Mode) -> Option:
        """This row as it is in `mode`."""
        if mode is Mode.ZOOKEEPER and self.zookeeper is not None:
            return self._replace(**self.zookeeper, zookeeper=None)
        return self


# Short names, so that a table reads as a table.
BOOLEAN, STRING, INT, SHORT, LONG = Type.BOOLEAN, Type.STRING, Type.INT, Type.SHORT, Type.LONG
DOUBLE, LIST, CLASS, PASSWORD = Type.DOUBLE, Type.LIST, Type.CLASS, Type.PASSWORD
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
READ_ONLY, PER_BROKER, CLUSTER_WIDE = UpdateMode.READ_ONLY, UpdateMode.PER_BROKER, UpdateMode.CLUSTER_WIDE
KRAFT, ZOOKEEPER = Mode.KRAFT, Mode.ZOOKEEPER
