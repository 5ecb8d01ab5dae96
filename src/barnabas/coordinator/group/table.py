"""The groups of one shard by id, and what all kinds of groups have in common.

What lives here: finding a group or the refusal that says there is none, and the questions that commits,
deletions and lists ask of any group.  What may not: what a kind of group does (classic*.py, consumer*.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import ClassVar, TypeAlias, TypeVar

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.coordinator.entry import Entry
from barnabas.protocol.messages.list_groups import ListGroupsResponse

# From the time of a commit to the time from which its retention counts.
OffsetExpiration: TypeAlias = Callable[[int], int]


class GroupKind(StrEnum):
    """The types of groups, as ListGroups names them."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class Group(ABC):
    """Any group.  What is refused is refused with a KafkaError."""

    __slots__ = ("group_id",)

    kind: ClassVar[GroupKind]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id

    @property
    @abstractmethod
    def state_name(self) -> str:
        """As ListGroups and the describes tell it: Empty, Stable, ..."""

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """`consumer`, mostly; empty if nobody has ever joined."""

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
        """Whether this member may commit; `generation` is a member epoch in consumer groups."""

    @abstractmethod
    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether who asks may see the offsets."""

    @abstractmethod
    def validate_offset_delete(self) -> None:
        """Whether offsets may be deleted; of subscribed topics they may not, see `is_subscribed_to`."""

    @abstractmethod
    def validate_delete(self) -> None:
        """Whether the group may be deleted."""

    @abstractmethod
    def is_subscribed_to(self, topic: str) -> bool: ...

    @abstractmethod
    def tombstones(self) -> list[Entry]:
        """What takes the group out of the log; its offsets are not among it."""

    @abstractmethod
    def offset_expiration(self) -> OffsetExpiration | None:
        """From when on offsets of topics that it is not subscribed to expire; None: they do not now."""

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
        """Any kind of group, or GROUP_ID_NOT_FOUND."""
        group = self._groups.get(group_id)
        if group is None:
            raise not_found(group_id)
        return group

    def find_kind(self, group_id: str, kind: type[G]) -> G:
        """A group of this kind; one of another kind is told as GROUP_ID_NOT_FOUND too."""
        group = self.find(group_id)
        if not isinstance(group, kind):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind.kind} group.")
        return group

    def put(self, group: Group) -> None:
        """A group that is new, or takes the place of one of another kind."""
        self._groups[group.group_id] = group

    def remove(self, group_id: str) -> Group | None:
        return self._groups.pop(group_id, None)


def not_found(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
