"""The groups of one shard by id, and the interface that all kinds of groups share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import ClassVar, TypeAlias, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.entry import Entry
from barnabas.protocol.messages.list_groups import ListGroupsResponse

# From the time of a commit to the start of its retention.
OffsetExpiration: TypeAlias = Callable[[int], int]


class GroupKind(StrEnum):
    """The types of groups, as ListGroups names them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(ABC):
    """Any group.  The validate methods raise KafkaError."""

    __slots__ = ("group_id",)

    kind: ClassVar[GroupKind]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    @property
    @abstractmethod
    def state_name(self) -> str:
        """As in ListGroups and the describe APIs: Empty, Stable, ..."""

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """Usually `consumer`; empty if no member has ever joined."""

    @property
    @abstractmethod
    def is_empty(self) -> bool:
        """Whether it has no members."""

    @property
    @abstractmethod
    def member_count(self) -> int: ...

    @abstractmethod
    def has_member(self, member_id: str) -> bool: ...

    @abstractmethod
    def validate_offset_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        transactional: bool,
        api_version: int,
    ) -> None:
        """Check that this member may commit; in consumer groups `generation` is a member epoch."""

    @abstractmethod
    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check that this member may fetch the offsets."""

    @abstractmethod
    def validate_offset_delete(self) -> None:
        """Check that offsets may be deleted; those of subscribed topics may not, see `is_subscribed_to`."""

    @abstractmethod
    def validate_delete(self) -> None:
        """Check that the group may be deleted."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool: ...

    @abstractmethod
    def tombstones(self) -> list[Entry]:
        """The tombstones of the group, without those of its offsets."""

    @abstractmethod
    def offset_expiration(self) -> OffsetExpiration | None:
        """Where the retention of offsets of unsubscribed topics starts; None if they do not expire now."""

    def listed(self) -> ListGroupsResponse.ListedGroup:
        return ListGroupsResponse.ListedGroup(
            group_id=self.group_id,
            protocol_type=self.protocol_type,
            group_state=self.state_name,
            group_type=self.kind,
        )


G = TypeVar("G", bound=Group)


class GroupTable:
    """All groups of one shard."""

    def __init__(self) -> None:
        self._groups: dict[str, Group] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._groups.values()))

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def get(self, group_id: str) -> Group | None:
        return self._groups.get(group_id)

    def find(self, group_id: str) -> Group:
        """Returns a group of any kind; raises GROUP_ID_NOT_FOUND if there is none."""
        group = self._groups.get(group_id)
        if group is None:
            raise not_found(group_id)
        return group

    def find_kind(self, group_id: str, kind: type[G]) -> G:
        """Returns a group of this kind; raises GROUP_ID_NOT_FOUND if there is none."""
        group = self.find(group_id)
        if not isinstance(group, kind):
            raise wrong_kind(group_id, kind)
        return group

    def put(self, group: Group) -> None:
        """Add a group, or replace it with one of another kind."""
        self._groups[group.group_id] = group

    def remove(self, group_id: str) -> Group | None:
        return self._groups.pop(group_id, None)


def not_found(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def wrong_kind(group_id: str, kind: type[Group]) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind.kind} group.")
