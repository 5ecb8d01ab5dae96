"""The voters of the metadata quorum, from the configuration (static) or from the log itself (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.protocol.records.control import VotersRecord

# The `kraft.version` range that this node supports.
LOWEST_KRAFT_VERSION = 0
HIGHEST_KRAFT_VERSION = 1
DYNAMIC_QUORUM = 1
"""From this `kraft.version` on, the voters are stored in the log."""


@dataclass(frozen=True, slots=True)
class VoterEndpoint:
    """The address where other voters reach this one."""

    name: str
    host: str
    port: int


class ReplicaKey(NamedTuple):
    """A replica of the log: a node and its log directory.  With an empty disk it is another replica."""

    id: int
    directory_id: Uuid = ZERO_UUID

    def matches(self, other: ReplicaKey) -> bool:
        """Whether both may be the same replica: a directory id that is not known matches every one."""
        return self.id == other.id and (
            self.directory_id == other.directory_id or ZERO_UUID in (self.directory_id, other.directory_id)
        )


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter.  A static voter has no directory id: any directory of the node matches."""

    id: int
    directory_id: Uuid = ZERO_UUID
    endpoints: tuple[VoterEndpoint, ...] = ()
    lowest_version: int = LOWEST_KRAFT_VERSION
    highest_version: int = HIGHEST_KRAFT_VERSION
    key: ReplicaKey = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", ReplicaKey(self.id, self.directory_id))

    def is_same(self, node_id: int, directory_id: Uuid) -> bool:
        return self.id == node_id and self.directory_id in (ZERO_UUID, directory_id)


class Voters:
    """An immutable set of voters, by id."""

    __slots__ = ("_by_id", "ids", "majority")

    def __init__(self, voters: Iterable[Voter]) -> None:
        self._by_id = {voter.id: voter for voter in sorted(voters, key=lambda voter: voter.id)}
        self.ids = tuple(self._by_id)
        self.majority = len(self._by_id) // 2 + 1

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Voters) and self._by_id == other._by_id

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Voters({', '.join(map(str, self.ids))})"

    def get(self, node_id: int) -> Voter | None:
        return self._by_id.get(node_id)

    def has(self, node_id: int, directory_id: Uuid) -> bool:
        voter = self._by_id.get(node_id)
        return voter is not None and voter.is_same(node_id, directory_id)

    def is_only(self, node_id: int, directory_id: Uuid) -> bool:
        """Whether this node is the only voter."""
        return len(self._by_id) == 1 and self.has(node_id, directory_id)

    def with_voter(self, voter: Voter) -> Voters:
        """Returns a copy with this voter's current description."""
        return Voters({**self._by_id, voter.id: voter}.values())

    def without(self, voter: ReplicaKey) -> Voters | None:
        """Returns a copy without this voter; None if it is not one, or the last one."""
        if len(self._by_id) == 1 or not self.has(voter.id, voter.directory_id):
            return None
        return Voters(each for each in self if each.id != voter.id)

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            version=0,
            voters=[
                VotersRecord.Voter(
                    voter_id=voter.id,
                    voter_directory_id=voter.directory_id,
                    endpoints=[
                        VotersRecord.Endpoint(name=endpoint.name, host=endpoint.host, port=endpoint.port)
                        for endpoint in voter.endpoints
                    ],
                    kraft_version_feature=VotersRecord.KRaftVersionFeature(
                        min_supported_version=voter.lowest_version,
                        max_supported_version=voter.highest_version,
                    ),
                )
                for voter in self
            ],
        )

    @classmethod
    def of_record(cls, record: VotersRecord) -> Voters:
        return cls(
            Voter(
                voter.voter_id,
                Uuid(voter.voter_directory_id),
                tuple(
                    VoterEndpoint(endpoint.name, endpoint.host, endpoint.port) for endpoint in voter.endpoints
                ),
                voter.kraft_version_feature.min_supported_version,
                voter.kraft_version_feature.max_supported_version,
            )
            for voter in record.voters
        )


NO_VOTERS = Voters(())
