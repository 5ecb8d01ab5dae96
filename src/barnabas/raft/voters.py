"""Voters: who decides about the metadata log, and what a majority of them is.

What lives here: the set of voters, as a configuration names it (static) or as the log itself holds it
(KIP-853), and its form as a record.  What may not: votes, and what a voter has fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.protocol.records.control import VotersRecord

# What this node can do of `kraft.version`.
LOWEST_KRAFT_VERSION = 0
HIGHEST_KRAFT_VERSION = 1
DYNAMIC_QUORUM = 1
"""The `kraft.version` from which the voters stand in the log."""


@dataclass(frozen=True, slots=True)
class VoterEndpoint:
    """Where a voter listens for the others."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Voter:
    """One voter.  A static one has no directory id: any folder of that node may speak for it."""

    id: int
    directory_id: Uuid = ZERO_UUID
    endpoints: tuple[VoterEndpoint, ...] = ()
    lowest_version: int = LOWEST_KRAFT_VERSION
    highest_version: int = HIGHEST_KRAFT_VERSION

    def is_same(self, node_id: int, directory_id: Uuid) -> bool:
        return self.id == node_id and self.directory_id in (ZERO_UUID, directory_id)


class Voters:
    """The voters by id; never changed, only replaced."""

    __slots__ = ("_by_id",)

    def __init__(self, voters: Iterable[Voter]) -> None:
        self._by_id: Mapping[int, Voter] = MappingProxyType(
            {voter.id: voter for voter in sorted(voters, key=lambda voter: voter.id)}
        )

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

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self._by_id)

    @property
    def majority(self) -> int:
        return len(self._by_id) // 2 + 1

    def get(self, node_id: int) -> Voter | None:
        return self._by_id.get(node_id)

    def has(self, node_id: int, directory_id: Uuid) -> bool:
        voter = self._by_id.get(node_id)
        return voter is not None and voter.is_same(node_id, directory_id)

    def is_only(self, node_id: int, directory_id: Uuid) -> bool:
        """Whether this node decides alone."""
        return len(self._by_id) == 1 and self.has(node_id, directory_id)

    def with_voter(self, voter: Voter) -> Voters:
        """With the same voter as it describes itself now."""
        return Voters({**self._by_id, voter.id: voter}.values())

    def to_record(self) -> VotersRecord:
        return VotersRecord(
            version=0,
            voters=[
                VotersRecord.Voter(
                    voter_id=voter.id,
                    voter_directory_id=voter.directory_id,
                    endpoints=[
                        VotersRecord.Endpoint(name=end.name, host=end.host, port=end.port)
                        for end in voter.endpoints
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
                tuple(VoterEndpoint(end.name, end.host, end.port) for end in voter.endpoints),
                voter.kraft_version_feature.min_supported_version,
                voter.kraft_version_feature.max_supported_version,
            )
            for voter in record.voters
        )


NO_VOTERS = Voters(())
