"""How a leader serves its followers: Fetch and FetchSnapshot (KIP-595, KIP-630).

A fetch says how far a follower's log reaches; it is compared with the leader's own log before it counts.
"""

from __future__ import annotations

from collections.abc import Hashable

from barnabas.base.errors import ErrorCode
from barnabas.raft.log import Diverging, NeedsSnapshot
from barnabas.raft.quorum import Quorum
from barnabas.raft.roles import DelayedFetch, Leader
from barnabas.raft.rpc import (
    UNKNOWN_HIGH_WATERMARK,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from barnabas.raft.rules.leading import Leading
from barnabas.raft.snapshot import FIRST_SNAPSHOT

# Fetches that wait for records; a replica has one at a time, so more than this are refused.
MAX_DELAYED_FETCHES = 10_000


class Serving:
    """The leader's side of replication."""

    def __init__(self, quorum: Quorum, leading: Leading) -> None:
        self._quorum = quorum
        self._leading = leading

    def check_leader(self, epoch: int) -> ErrorCode:
        """Requests for the leader name its epoch (KIP-320)."""
        quorum = self._quorum
        if epoch < quorum.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > quorum.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        if not isinstance(quorum.role, Leader):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if quorum.is_shutting_down:
            return ErrorCode.BROKER_NOT_AVAILABLE
        return ErrorCode.NONE

    # Fetch

    def fetch(self, reply_to: Hashable, request: FetchRequest, now_ns: int) -> None:
        """Respond at once, or when there are records or a newer high watermark."""
        quorum = self._quorum
        if request.max_wait_ns < 0 or request.offset < 0 or not 0 <= request.last_epoch <= request.epoch:
            quorum.reply(reply_to, FetchResponse(quorum.leader, ErrorCode.INVALID_REQUEST))
            return
        response = self._response(request, now_ns)
        role = quorum.role
        if self._is_complete(request, response) or not isinstance(role, Leader):
            quorum.reply(reply_to, response)
            return
        if len(role.delayed_fetches) >= MAX_DELAYED_FETCHES:
            quorum.reply(reply_to, FetchResponse(quorum.leader, ErrorCode.BROKER_NOT_AVAILABLE))
            return
        role.delayed_fetches.append(DelayedFetch(reply_to, request, now_ns + request.max_wait_ns))

    def _response(self, request: FetchRequest, arrived_ns: int | None) -> FetchResponse:
        """A fetch counts when it arrives, not when it is completed: its sender may have failed since."""
        quorum = self._quorum
        error = self.check_leader(request.epoch)
        role = quorum.role
        if error is not ErrorCode.NONE or not isinstance(role, Leader):
            return FetchResponse(quorum.leader, error)
        validation = quorum.log.validate(request.offset, request.last_epoch)
        match validation:
            case Diverging(end):
                # Its offset does not count: the records there are not the leader's (KAFKA-13141).
                return FetchResponse(quorum.leader, high_watermark=_known(role), diverging=end)
            case NeedsSnapshot(snapshot):
                return FetchResponse(quorum.leader, high_watermark=_known(role), snapshot=snapshot)
        if request.replica.id == quorum.me.id:
            # Another node has this node's id: counting its log as this voter's could lose records.
            return FetchResponse(quorum.leader, ErrorCode.UNKNOWN_SERVER_ERROR)
        if request.replica.id >= 0 and arrived_ns is not None:
            self._leading.fetched(role, request.replica, request.offset, arrived_ns)
        return FetchResponse(quorum.leader, high_watermark=_known(role), read_from=request.offset)

    def _is_complete(self, request: FetchRequest, response: FetchResponse) -> bool:
        if request.max_wait_ns == 0 or response.read_from is None:
            return True
        has_records = response.read_from < self._quorum.log.end_offset
        # KIP-1166: a follower that does not know the present high watermark gets it at once.
        return has_records or response.high_watermark > request.high_watermark

    def poll(self, leader: Leader, now_ns: int) -> int | None:
        """Complete the fetches that waited; returns when the next one expires."""
        if not leader.delayed_fetches:
            return None
        delayed, leader.delayed_fetches = leader.delayed_fetches, []
        end_offset, high_watermark = self._quorum.log.end_offset, _known(leader)
        next_ns: int | None = None
        for fetch in delayed:
            request = fetch.request
            is_due = request.offset < end_offset or high_watermark > request.high_watermark
            if is_due or now_ns >= fetch.deadline_ns:
                self._quorum.reply(fetch.reply_to, self._response(request, None))
            else:
                leader.delayed_fetches.append(fetch)
                next_ns = fetch.deadline_ns if next_ns is None else min(next_ns, fetch.deadline_ns)
        return next_ns

    # FetchSnapshot

    def fetch_snapshot(self, reply_to: Hashable, request: FetchSnapshotRequest, now_ns: int) -> None:
        """The files add the bytes to the response, or say that there is no such snapshot."""
        quorum = self._quorum
        error = self.check_leader(request.epoch)
        role = quorum.role
        if error is ErrorCode.NONE and isinstance(role, Leader):
            if request.snapshot == FIRST_SNAPSHOT:
                error = ErrorCode.SNAPSHOT_NOT_FOUND
            elif request.position < 0:
                error = ErrorCode.POSITION_OUT_OF_RANGE
            else:
                self._leading.heard_from(role, request.replica, now_ns)
        response = FetchSnapshotResponse(quorum.leader, error, request.snapshot, request.position)
        quorum.reply(reply_to, response)


def _known(leader: Leader) -> int:
    high_watermark = leader.progress.high_watermark
    return UNKNOWN_HIGH_WATERMARK if high_watermark is None else high_watermark
