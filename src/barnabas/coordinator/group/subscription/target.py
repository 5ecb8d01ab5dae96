"""Computes the target assignment of a group for a new group epoch (KIP-848).

Runs an assignor on the group with one member changed, and builds the entries of the differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.ids import Uuid
from barnabas.coordinator.entry import Entry
from barnabas.coordinator.group.assignors import range as range_assignor
from barnabas.coordinator.group.assignors import uniform
from barnabas.coordinator.group.assignors.spec import (
    NO_PARTITIONS,
    Assignment,
    Assignor,
    AssignorError,
    GroupSpec,
    MemberSpec,
    names_in_order,
)
from barnabas.coordinator.group.consumer import entries
from barnabas.coordinator.group.consumer.entries import ResolvedRegex
from barnabas.coordinator.group.consumer.group import ConsumerGroup
from barnabas.coordinator.group.consumer.member import ConsumerMember
from barnabas.metadata.image import Image

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {uniform.NAME: uniform.assign, range_assignor.NAME: range_assignor.assign}
)


class Target(NamedTuple):
    """The entries to write, and the new target of the requesting member."""

    entries: list[Entry]
    of_member: Assignment


def compute_target(
    group: ConsumerGroup,
    epoch: int,
    assignor: Assignor,
    changed: ConsumerMember,
    image: Image,
    *,
    homogeneous: bool,
) -> Target:
    """`changed` replaces its previous version, or the static member with its instance id."""
    spec = GroupSpec(
        members=_members(group, changed, image),
        homogeneous=homogeneous,
        owners=group.target_owners,
        partition_count=lambda topic: _partition_count(image, topic),
    )
    try:
        assigned = assignor(spec)
    except AssignorError as error:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Failed to compute a new target assignment for epoch {epoch}: {error}",
        ) from error
    written = []
    for member_id in spec.member_ids:
        new = assigned.get(member_id, NO_PARTITIONS)
        if new != group.target.get(member_id):
            written.append(entries.target_assignment(group.group_id, member_id, new))
    written.append(entries.target_epoch(group.group_id, epoch))
    return Target(written, assigned.get(changed.member_id, NO_PARTITIONS))


def _members(group: ConsumerGroup, changed: ConsumerMember, image: Image) -> dict[str, MemberSpec]:
    subscriptions = _Subscriptions(group.resolved, image)
    specs = {
        member_id: subscriptions.spec(member, group.target.get(member_id, NO_PARTITIONS))
        for member_id, member in group.members.items()
    }
    before = group.target.get(changed.member_id, NO_PARTITIONS)
    previous = group.static_members.get(changed.instance_id) if changed.instance_id is not None else None
    if previous is not None and previous != changed.member_id:
        before = group.target.get(previous, NO_PARTITIONS)
        specs.pop(previous, None)
    specs[changed.member_id] = subscriptions.spec(changed, before)
    return specs


class _Subscriptions:
    """The topics of members; equal subscriptions are resolved once."""

    def __init__(self, resolved: Mapping[str, ResolvedRegex], image: Image) -> None:
        self._resolved = resolved
        self._image = image
        self._cache: dict[frozenset[str], tuple[Uuid, ...]] = {}

    def spec(self, member: ConsumerMember, before: Assignment) -> MemberSpec:
        names = member.subscribed_names
        resolved = self._resolved.get(member.regex) if member.regex is not None else None
        if resolved is not None:
            names = names | resolved.topics
        return MemberSpec(
            topics=self._topics(names),
            subscription_size=len(names),
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            before=before,
        )

    def _topics(self, names: frozenset[str]) -> tuple[Uuid, ...]:
        topics = self._cache.get(names)
        if topics is None:
            ids = self._image.topic_ids
            topics = tuple(ids[name] for name in names_in_order(names) if name in ids)
            self._cache[names] = topics
        return topics


def _partition_count(image: Image, topic_id: Uuid) -> int | None:
    topic = image.topics.get(topic_id)
    return None if topic is None else len(topic.partitions)
