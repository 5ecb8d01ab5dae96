"""Changes of the voters, one at a time (KIP-853; Raft dissertation, chapter 4).

The leader appends a voters record, which is effective when it is written; the next change may begin when it
is committed.
"""

from __future__ import annotations

from collections.abc import Hashable

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import ZERO_UUID
from barnabas.raft.quorum import Quorum
from barnabas.raft.roles import Leader, VoterChange
from barnabas.raft.rpc import (
    AddVoterRequest,
    RemoveVoterRequest,
    SupportedVersionsRequest,
    SupportedVersionsResponse,
    UpdateVoterRequest,
    VoterChangeResponse,
)
from barnabas.raft.rules.leading import Leading
from barnabas.raft.rules.serving import Serving
from barnabas.raft.rules.version_upgrade import report_voter
from barnabas.raft.voters import DYNAMIC_QUORUM, ReplicaKey, Voter, Voters

# A new voter must have caught up within this time.
CAUGHT_UP_WITHIN_NS = 3600 * 1_000_000_000


class Refused(Exception):
    """The change cannot be made now, or not at all."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class Reconfiguration:
    """AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter at the leader."""

    def __init__(self, quorum: Quorum, leading: Leading, serving: Serving) -> None:
        self._quorum = quorum
        self._leading = leading
        self._serving = serving

    def request(
        self,
        reply_to: Hashable,
        request: AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest,
        now_ns: int,
    ) -> None:
        quorum = self._quorum
        epoch = request.epoch if isinstance(request, UpdateVoterRequest) else quorum.epoch
        error = self._serving.check_leader(epoch)
        role = quorum.role
        if error is not ErrorCode.NONE or not isinstance(role, Leader):
            quorum.reply(reply_to, VoterChangeResponse(quorum.leader, error))
            return
        if isinstance(request, UpdateVoterRequest) and quorum.history.kraft_version < DYNAMIC_QUORUM:
            outcome = report_voter(quorum, role, request.voter)
            quorum.reply(reply_to, VoterChangeResponse(quorum.leader, *outcome))
            return
        try:
            _validate(request)
            voters = self._committed_voters(role, request)
            match request:
                case AddVoterRequest():
                    self._add(role, voters, reply_to, request, now_ns)
                case RemoveVoterRequest(voter):
                    self._remove(role, voters, reply_to, voter, now_ns)
                case UpdateVoterRequest(_, voter):
                    self._update(role, voters, voter)
                    quorum.reply(reply_to, VoterChangeResponse(quorum.leader))
        except Refused as refusal:
            quorum.reply(reply_to, VoterChangeResponse(quorum.leader, refusal.error, refusal.message))

    def _committed_voters(self, leader: Leader, request: object) -> Voters:
        """The voters, once no earlier change can be undone any more."""
        if leader.change is not None:
            raise Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                "Request timed out waiting for leader to handle previous voter change request",
            )
        high_watermark = leader.progress.high_watermark
        if high_watermark is None:
            # Otherwise two leaders could each change the voters of an earlier epoch (the bug of the first
            # published single-server change).
            raise Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                "Request timed out waiting for leader to establish HWM and fence previous voter changes",
            )
        history = self._quorum.history
        if history.kraft_version < DYNAMIC_QUORUM:
            verb = "adding" if isinstance(request, AddVoterRequest) else "removing"
            raise Refused(
                ErrorCode.UNSUPPORTED_VERSION,
                f"Cluster doesn't support {verb} voter because the kraft.version feature is"
                f" {history.kraft_version}",
            )
        if history.voters_offset >= high_watermark:
            raise Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                "Request timed out waiting for voters to commit the latest voter change at"
                f" Optional[{history.voters_offset}] with HWM {high_watermark}",
            )
        return history.voters

    # Adding

    def _add(
        self, leader: Leader, voters: Voters, reply_to: Hashable, request: AddVoterRequest, now_ns: int
    ) -> None:
        """First ask the new voter which versions it supports."""
        quorum = self._quorum
        voter = request.voter
        if voter.id in voters.ids:
            raise Refused(
                ErrorCode.DUPLICATE_VOTER,
                f"The voter id for {_key(voter.key)} is already part of the set of voters {_keys(voters)}.",
            )
        if quorum.requests.ready_ns(voter.id, now_ns) > now_ns:
            raise Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                f"New voter {_key(voter.key)} is not ready to receive requests",
            )
        quorum.send(voter.id, SupportedVersionsRequest(voter), now_ns)
        # The time that the request itself allows does not count in Apache Kafka either.
        leader.change = VoterChange(reply_to, now_ns + quorum.options.request_timeout_ns, adding=request)

    def versions_received(
        self, peer_id: int, response: SupportedVersionsResponse | None, now_ns: int
    ) -> None:
        """The new voter has responded, or could not be reached."""
        leader = self._quorum.role
        if not isinstance(leader, Leader) or leader.change is None or leader.change.adding is None:
            return
        voter = leader.change.adding.voter
        if voter.id != peer_id:
            return
        error = ErrorCode.BROKER_NOT_AVAILABLE if response is None else response.error
        if response is None or error is not ErrorCode.NONE:
            message = f"Aborted add voter operation for since API_VERSIONS returned an error {error.name}"
            self._finish(leader, ErrorCode.REQUEST_TIMED_OUT, message)
            return
        kraft_version = self._quorum.history.kraft_version
        if not response.lowest <= kraft_version <= response.highest:
            message = (
                f"Aborted add voter operation for {_key(voter.key)} since the kraft.version range (min:"
                f" {response.lowest}, max: {response.highest}) doesn't support the finalized version"
                f" {kraft_version}"
            )
            self._finish(leader, ErrorCode.INVALID_REQUEST, message)
        elif not self._is_caught_up(leader, voter.key, now_ns):
            message = f"Aborted add voter operation for {_key(voter.key)} since it is lagging behind"
            self._finish(leader, ErrorCode.REQUEST_TIMED_OUT, message)
        else:
            described = Voter(
                voter.id, voter.directory_id, voter.endpoints, response.lowest, response.highest
            )
            self._append(leader, self._quorum.voters.with_voter(described), leader.change)

    def _is_caught_up(self, leader: Leader, replica: ReplicaKey, now_ns: int) -> bool:
        """A voter without the log would leave the quorum without a majority until it has caught up."""
        state = leader.progress.state_of(replica)
        if state is None or state.last_caught_up_ns is None or state.last_fetch_ns is None:
            return False
        return state.last_fetch_ns > now_ns - CAUGHT_UP_WITHIN_NS

    # Removing and updating

    def _remove(
        self, leader: Leader, voters: Voters, reply_to: Hashable, voter: ReplicaKey, now_ns: int
    ) -> None:
        remaining = voters.without(voter)
        if remaining is None:
            raise Refused(
                ErrorCode.VOTER_NOT_FOUND,
                f"Cannot remove voter {_key(voter)} from the set of voters {_keys(voters)}",
            )
        change = VoterChange(reply_to, now_ns + self._quorum.options.request_timeout_ns)
        leader.change = change
        self._append(leader, remaining, change)

    def _update(self, leader: Leader, voters: Voters, voter: Voter) -> None:
        kraft_version = self._quorum.history.kraft_version
        if not voter.lowest_version <= kraft_version <= voter.highest_version:
            raise Refused(ErrorCode.INVALID_REQUEST, "the voter does not support the kraft.version")
        if not voters.has(voter.id, voter.directory_id):
            raise Refused(ErrorCode.VOTER_NOT_FOUND, f"{_key(voter.key)} is not a voter")
        if voters.get(voter.id) != voter:
            self._leading.append_control(leader, (voters.with_voter(voter).to_record(),))

    def _append(self, leader: Leader, voters: Voters, change: VoterChange) -> None:
        adding, change.adding = change.adding, None
        change.offset = self._leading.append_control(leader, (voters.to_record(),))
        if adding is not None and not adding.ack_when_committed:
            self._finish(leader, ErrorCode.NONE, None)

    # Completion

    def poll(self, leader: Leader, now_ns: int) -> int | None:
        """Complete a committed or late change; returns when the present one expires."""
        change = leader.change
        high_watermark = leader.progress.high_watermark
        if change is not None and _is_committed(change, high_watermark):
            self._finish(leader, ErrorCode.NONE, None)
            change = None
        if high_watermark is not None and self._quorum.history.voters_offset < high_watermark:
            # It leads until its own removal is committed by the others (KAFKA-16530, section 4.2.2).
            leader.resigns |= not self._quorum.is_voter
        if change is None:
            return None
        if now_ns >= change.deadline_ns:
            self._finish(leader, ErrorCode.REQUEST_TIMED_OUT, None)
            return None
        return change.deadline_ns

    def _finish(self, leader: Leader, error: ErrorCode, message: str | None) -> None:
        change, leader.change = leader.change, None
        assert change is not None, "a change is under way"
        self._quorum.reply(change.reply_to, VoterChangeResponse(self._quorum.leader, error, message))


def _validate(request: AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest) -> None:
    """What a request must say, whatever the state of the quorum."""
    kind = "Remove" if isinstance(request, RemoveVoterRequest) else "Add"
    key = request.voter if isinstance(request, RemoveVoterRequest) else request.voter.key
    if key.id < 0 or key.directory_id == ZERO_UUID:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{kind} voter request didn't include a valid voter")
    if isinstance(request, RemoveVoterRequest):
        return
    voter = request.voter
    if not voter.endpoints:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            "Add voter request didn't include the endpoint for the default listener",
        )
    if not 0 <= voter.lowest_version <= voter.highest_version:
        raise Refused(ErrorCode.INVALID_REQUEST, "the range of kraft.version is not valid")


def _is_committed(change: VoterChange, high_watermark: int | None) -> bool:
    return change.offset is not None and high_watermark is not None and change.offset < high_watermark


def _key(key: ReplicaKey) -> str:
    """As Apache Kafka prints it."""
    return f"ReplicaKey(id={key.id}, directoryId={key.directory_id})"


def _keys(voters: Voters) -> str:
    return f"[{', '.join(_key(voter.key) for voter in voters)}]"
