"""The `quorum-state` file: the epoch a voter is in, its vote, and the leader.

The format is byte for byte that of Apache Kafka: one JSON object without a newline.  Version 0 is for static
voters, version 1 for a dynamic quorum (KIP-853).  Writing to disk belongs in the broker.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from barnabas.base.ids import ZERO_UUID, Uuid
from barnabas.raft.voters import DYNAMIC_QUORUM

QUORUM_STATE_FILE = "quorum-state"
MAX_QUORUM_STATE_BYTES = 1 << 20
NOBODY = -1
FIRST_EPOCH = 0
_VERSION_KEY = "data_version"
_HIGHEST_VERSION = 1


@dataclass(frozen=True, slots=True)
class ElectionState:
    """State that a voter must persist.  `voted_id` is its vote in this epoch while no leader is known."""

    epoch: int = FIRST_EPOCH
    leader_id: int = NOBODY
    voted_id: int = NOBODY
    voted_directory_id: Uuid = ZERO_UUID

    def voted_for(self, node_id: int, directory_id: Uuid) -> bool:
        """Static quorums store no directory id with a vote."""
        return self.voted_id == node_id and self.voted_directory_id in (ZERO_UUID, directory_id)


class DamagedQuorumState(ValueError):
    """The file is malformed; voting anyway would risk two votes in one epoch."""


def encode_quorum_state(state: ElectionState, voter_ids: tuple[int, ...], kraft_version: int) -> bytes:
    """Returns the content of the file."""
    if kraft_version >= DYNAMIC_QUORUM:
        content: dict[str, Any] = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": state.voted_id,
            "votedDirectoryId": str(state.voted_directory_id),
            _VERSION_KEY: 1,
        }
    else:
        content = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": state.voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter_id} for voter_id in voter_ids],
            _VERSION_KEY: 0,
        }
    return json.dumps(content, separators=(",", ":")).encode()


def decode_quorum_state(content: bytes) -> ElectionState:
    """Read either version; raises DamagedQuorumState with the reason."""
    try:
        state = json.loads(content.split(b"\n", 1)[0])
    except ValueError as error:
        raise DamagedQuorumState(f"it is not valid JSON ({error})") from error
    if not isinstance(state, dict):
        raise DamagedQuorumState("it is not a JSON object")
    version = _number(state, _VERSION_KEY)
    if not 0 <= version <= _HIGHEST_VERSION:
        raise DamagedQuorumState(f"{_VERSION_KEY} {version} is not from 0 to {_HIGHEST_VERSION}")
    return ElectionState(
        epoch=_number(state, "leaderEpoch"),
        leader_id=_number(state, "leaderId"),
        voted_id=_number(state, "votedId"),
        voted_directory_id=_directory(state) if version >= 1 else ZERO_UUID,
    )


def _number(state: dict[str, Any], name: str) -> int:
    value = state.get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise DamagedQuorumState(f"{name} is not a number")
    return value


def _directory(state: dict[str, Any]) -> Uuid:
    try:
        return Uuid.parse(str(state.get("votedDirectoryId")))
    except ValueError as error:
        raise DamagedQuorumState(f"votedDirectoryId: {error}") from error
