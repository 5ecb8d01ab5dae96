"""What an assignor is asked, and what it answers.

What lives here: plain data.  What may not: groups, epochs and records.

Apache Kafka's assignors go through hash maps of Java, and who gets which partition depends on their order:
`GroupSpec` therefore hands out members, topics and partitions in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from barnabas.base.hashing import CACHED_KEY_LENGTH_MAX, java_string_hash
from barnabas.base.ids import Uuid
from barnabas.base.java_order import buckets_of_copy, hash_map_order, order_by_hash

# Topic id to partitions; never changed once made.  No topic has an empty set.
Assignment = Mapping[Uuid, frozenset[int]]

NO_PARTITIONS: Assignment = {}
# Hashes of member ids that are kept.
MAX_MEMBER_HASHES = 16_384


class AssignorError(Exception):
    """No assignment can be computed."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """One member: what it subscribes to and what it was to own before.

    `topics` are those of its subscription that exist, in the order of their names in a set of
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
    """A group: its members in the order of joining, and who was to own a partition before."""

    members: Mapping[str, MemberSpec]
    # Whether all members subscribe to the same topics.
    homogeneous: bool
    # Topic id to partition to member id.
    owners: Mapping[Uuid, Mapping[int, str]]
    # How many partitions a topic has, None for one that does not exist.
    partition_count: Callable[[Uuid], int | None]

    @cached_property
    def member_ids(self) -> list[str]:
        return order_by_hash(self.members, _member_hash)


# Members are put in order each time that one of them joins; their ids stay the same.
_remembered_hash = lru_cache(maxsize=MAX_MEMBER_HASHES)(java_string_hash)


def _member_hash(member_id: str) -> int:
    """What is remembered is bounded in bytes: an id begins with what the client calls itself."""
    return (java_string_hash if len(member_id) > CACHED_KEY_LENGTH_MAX else _remembered_hash)(member_id)


Assignor = Callable[[GroupSpec], dict[str, Assignment]]


def topics_of_assignment(assignment: Assignment) -> list[Uuid]:
    return order_by_hash(assignment, Uuid.java_hash) if len(assignment) > 1 else list(assignment)


def partitions_in_order(partitions: Iterable[int]) -> list[int]:
    """As a set of Java hands them out that was copied from a list."""
    ascending = sorted(partitions)
    return order_by_hash(ascending, _itself, buckets_of_copy(len(ascending)))


def names_in_order(names: Iterable[str]) -> list[str]:
    """Topic names as a set of Java hands them out that was copied from a sorted list."""
    ascending = sorted(names)
    return hash_map_order(ascending, buckets_of_copy(len(ascending)))


def _itself(number: int) -> int:
    return number
