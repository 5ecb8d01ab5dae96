"""The input and output of an assignor (plain data).

The results of Apache Kafka's assignors depend on the iteration order of Java hash maps; `GroupSpec` returns
members, topics and partitions in that order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from barnabas.base.hashing import CACHED_KEY_LENGTH_MAX, java_string_hash
from barnabas.base.ids import Uuid
from barnabas.base.java_order import buckets_of_copy, hash_map_order, order_by_hash

# Topic id to partitions; immutable.  No topic has an empty set.
Assignment = Mapping[Uuid, frozenset[int]]

NO_PARTITIONS: Assignment = {}
# The maximum number of cached hashes of member ids.
MAX_MEMBER_HASHES = 16_384


class AssignorError(Exception):
    """The assignment cannot be computed."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member: its subscription and its previous target assignment.

    `topics` are the existing topics of its subscription, in the order of their names in a set of
    `subscription_size` names.
    """

    topics: tuple[Uuid, ...]
    subscription_size: int
    instance_id: str | None = None
    rack_id: str | None = None
    before: Assignment = field(default_factory=dict)

    def topics_as_set(self) -> list[Uuid]:
        """The topics in the order of a set of ids that was copied from the subscription."""
        return order_by_hash(self.topics, Uuid.java_hash, buckets_of_copy(self.subscription_size))


@dataclass(frozen=True)
class GroupSpec:
    """A group: its members in join order, and the previous owners of partitions."""

    members: Mapping[str, MemberSpec]
    # Whether all members subscribe to the same topics.
    homogeneous: bool
    # Topic id to partition to member id.
    owners: Mapping[Uuid, Mapping[int, str]]
    # The number of partitions of a topic; None if it does not exist.
    partition_count: Callable[[Uuid], int | None]

    @cached_property
    def member_ids(self) -> list[str]:
        return order_by_hash(self.members, _member_hash)


# Members are sorted on every join, while their ids stay the same.
_cached_hash = lru_cache(maxsize=MAX_MEMBER_HASHES)(java_string_hash)


def _member_hash(member_id: str) -> int:
    """Long ids are not cached, which bounds the cache in bytes: an id starts with the client id."""
    return (java_string_hash if len(member_id) > CACHED_KEY_LENGTH_MAX else _cached_hash)(member_id)


Assignor = Callable[[GroupSpec], dict[str, Assignment]]


def topics_of_assignment(assignment: Assignment) -> list[Uuid]:
    return order_by_hash(assignment, Uuid.java_hash) if len(assignment) > 1 else list(assignment)


def partitions_in_order(partitions: Iterable[int]) -> list[int]:
    """In the order of a Java set copied from a list."""
    ascending = sorted(partitions)
    return order_by_hash(ascending, _identity, buckets_of_copy(len(ascending)))


def names_in_order(names: Iterable[str]) -> list[str]:
    """Topic names in the order of a Java set copied from a sorted list."""
    ascending = sorted(names)
    return hash_map_order(ascending, buckets_of_copy(len(ascending)))


def _identity(number: int) -> int:
    return number
