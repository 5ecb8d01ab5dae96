"""The controller's view of the running quorum."""

from __future__ import annotations

from barnabas.raft.node import RaftNode
from barnabas.raft.progress import OBSERVER_SESSION_NS
from barnabas.raft.roles import Leader
from barnabas.runtime.clock import Clock


class LiveQuorum:
    """See `controller.quorum_view.QuorumView`."""

    def __init__(self, node: RaftNode, clock: Clock) -> None:
        self._node = node
        self._clock = clock

    @property
    def kraft_version(self) -> int:
        return self._node.kraft_version

    def upgrade_error(self, kraft_version: int) -> str | None:
        return self._node.upgrade_error(kraft_version)

    def has_left(self, controller_id: int) -> bool:
        leader = self._node.role
        if not isinstance(leader, Leader) or controller_id in self._node.voters.ids:
            return False
        observers = leader.progress.observers(self._clock.monotonic_ns())
        return all(key.id != controller_id for key, _ in observers)

    def is_silent(self, controller_id: int) -> bool:
        leader, voter = self._node.role, self._node.voters.get(controller_id)
        if not isinstance(leader, Leader) or voter is None or controller_id == self._node.me.id:
            return False
        state = leader.progress.state_of(voter.key)
        fetch_ns = None if state is None else state.last_fetch_ns
        return fetch_ns is None or self._clock.monotonic_ns() - fetch_ns >= OBSERVER_SESSION_NS
