"""The upgrade of `kraft.version` from 0 to 1: the voters move from the configuration to the log (KIP-853).

The configuration has no directory ids, so every voter reports itself to each new leader (UpdateRaftVoter);
the leader keeps the reports in memory until an administrator requests the upgrade.
"""

from __future__ import annotations

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import ZERO_UUID
from barnabas.protocol.records.control import KRaftVersionRecord
from barnabas.raft.quorum import Quorum
from barnabas.raft.roles import Leader
from barnabas.raft.rules.leading import Leading
from barnabas.raft.voters import DYNAMIC_QUORUM, HIGHEST_KRAFT_VERSION, Voter, Voters

_FEATURE = "kraft.version"


def report_voter(quorum: Quorum, leader: Leader, voter: Voter) -> tuple[ErrorCode, str | None]:
    """A static voter reports its directory, endpoints and versions."""
    if leader.progress.high_watermark is None:
        return ErrorCode.REQUEST_TIMED_OUT, None
    if not voter.endpoints:
        return ErrorCode.INVALID_REQUEST, None
    if voter.id not in quorum.voters.ids:
        return ErrorCode.VOTER_NOT_FOUND, None
    if not voter.lowest_version <= quorum.history.kraft_version <= voter.highest_version:
        return ErrorCode.INVALID_REQUEST, None
    if voter.directory_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, None
    leader.reported[voter.id] = voter
    return ErrorCode.NONE, None


def upgrade_error(quorum: Quorum, version: int) -> str | None:
    """Why the leader cannot upgrade to this version; None if it can.  The messages are Apache Kafka's."""
    role, current = quorum.role, quorum.history.kraft_version
    if not isinstance(role, Leader):
        return "Upgrade kraft version failed because the replica is not the current leader"
    if version == current:
        return None
    if version < current:
        return (
            f"Invalid upgrade of {_FEATURE} from version {_name(current)} to {_name(version)} because the"
            " new version is a downgrade"
        )
    if version > HIGHEST_KRAFT_VERSION:
        return f"Invalid upgrade of {_FEATURE} from version {_name(current)} to {_name(version)}"
    voters = _reported_voters(quorum, role)
    if not all(_supports(voter, version) for voter in voters):
        return f"Invalid upgrade of {_FEATURE} to {_name(version)} because not all of the voters support it"
    return None


def upgrade(quorum: Quorum, leading: Leading, epoch: int, version: int) -> None:
    """Append the version and the voters in one batch; both are effective at once."""
    role = quorum.role
    if not isinstance(role, Leader) or role.epoch != epoch or version == quorum.history.kraft_version:
        return
    assert upgrade_error(quorum, version) is None, "it was checked in the same step"
    voters = _reported_voters(quorum, role)
    record = KRaftVersionRecord(version=0, kraft_version=version)
    leading.append_control(role, (record, voters.to_record()))


def _reported_voters(quorum: Quorum, leader: Leader) -> Voters:
    known = {**leader.reported, quorum.me.id: quorum.me}
    return Voters(known.get(voter.id, voter) for voter in quorum.voters)


def _supports(voter: Voter, version: int) -> bool:
    """A voter that has not reported itself may be of an older release."""
    is_reported = voter.directory_id != ZERO_UUID
    return is_reported and voter.lowest_version <= version <= voter.highest_version


def _name(version: int) -> str:
    """As Apache Kafka prints it."""
    return f"KRAFT_VERSION_{version}"


assert DYNAMIC_QUORUM == HIGHEST_KRAFT_VERSION, "a further version needs rules of its own"
