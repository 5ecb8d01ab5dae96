"""What must hold in every quorum, whatever happens: the safety properties of the Raft paper (figure 3), and
those of Apache Kafka's own simulation.

The checker sees every step of every node.  A property of all logs is checked where a log changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.protocol.records.control import VotersRecord
from barnabas.raft.roles import Leader, Prospective
from barnabas.raft.rpc import FetchedBatch
from barnabas.raft.voters import ReplicaKey, Voters
from barnabas.runtime.simulated.world import InvariantError
from barnabas.testing.simulation.quorum.server import RaftServer


class Checker:
    """All that was ever decided, independent of any node.

    `servers` has the last server of every node, running or not: its disk still counts.
    """

    def __init__(self, servers: Mapping[int, RaftServer], cut_off_ns: int, prospective_ns: int) -> None:
        # Election safety: at most one leader an epoch.
        self.leaders: dict[int, int] = {}
        # The committed log: batches without gaps.
        self.committed: list[FetchedBatch] = []
        self.end_offset = 0
        # The epochs in which it grew, and its ends.
        self._ends: list[tuple[int, int]] = []
        self._by_end: dict[int, FetchedBatch] = {}
        # Log matching: every batch that was ever written, by offset and epoch, and what preceded it.
        self._written: dict[tuple[int, int], FetchedBatch] = {}
        self._previous: dict[tuple[int, int], tuple[int, int]] = {}
        # How far the logs reached whose disks were lost.
        self._lost: dict[ReplicaKey, int] = {}
        self._servers = servers
        self._cut_off_ns = cut_off_ns
        self._prospective_ns = prospective_ns

    # After every step

    def stepped(self, server: RaftServer, now_ns: int) -> None:
        role = server.raft.quorum.role
        if isinstance(role, Leader):
            if now_ns >= server.heard_ns + self._cut_off_ns or server.heard_voters is not server.raft.voters:
                self._check_quorum(server, now_ns)
            high_watermark = role.progress.high_watermark
            if high_watermark != server.leader_high_watermark and high_watermark is not None:
                server.leader_high_watermark = high_watermark
                self._check_majority(server, high_watermark)
        elif isinstance(role, Prospective) and now_ns > role.deadline_ns + self._prospective_ns:
            raise InvariantError(f"n{server.node.id} stays prospective in epoch {role.epoch}")

    def _check_quorum(self, server: RaftServer, now_ns: int) -> None:
        """A leader that no majority has fetched from for so long is cut off, and must have resigned."""
        voters = server.raft.voters
        if server.raft.leader_epoch != server.elected_epoch or len(voters) == 1:
            server.heard_ns = now_ns
            return
        if server.heard_voters is not voters:
            # Another majority is needed from now on.
            if server.heard_voters != voters:
                server.heard.intersection_update(voters.ids)
                server.heard_ns = now_ns
            server.heard_voters = voters
        silent_ns = now_ns - server.heard_ns
        if silent_ns > self._cut_off_ns:
            raise InvariantError(
                f"n{server.node.id} leads epoch {server.raft.epoch} without a majority for {silent_ns} ns"
            )

    def _check_majority(self, server: RaftServer, high_watermark: int) -> None:
        """What a leader commits is durable on a majority of its voters, and ends in its own epoch."""
        voters = server.raft.voters
        holders = 0
        for voter in voters:
            holder = self._servers.get(voter.id)
            if holder is not None and voter.key.matches(holder.raft.me.key):
                holders += holder.journal.durable_end >= high_watermark
            else:
                holders += self._lost.get(voter.key, 0) >= high_watermark
        for batch in reversed(server.journal.state.batches):
            if batch.base_offset < high_watermark:
                if batch.epoch != server.raft.epoch:
                    raise InvariantError(f"n{server.node.id} commits {batch} of an earlier epoch")
                break
        if holders < voters.majority:
            raise InvariantError(
                f"leader n{server.node.id} commits up to {high_watermark} with {holders} of {voters}"
            )

    def lost_disk(self, server: RaftServer) -> None:
        """What a voter had when it responded counts, although its disk is lost since."""
        self._lost[server.raft.me.key] = server.journal.durable_end

    # When a log changes

    def appended(
        self, server: RaftServer, batch: FetchedBatch, previous: FetchedBatch | None, is_own: bool
    ) -> None:
        """Log matching: batches of one offset and epoch are equal, and so is everything before them."""
        key = (batch.base_offset, batch.epoch)
        if is_own:
            # A leader that lost power before a batch was durable may write another one in its place.
            self._written[key] = batch
            self._previous.pop(key, None)
            for message in batch.control:
                if isinstance(message, VotersRecord):
                    self._check_change(server, Voters.of_record(message))
        known = self._written.setdefault(key, batch)
        if known is not batch and known != batch:
            raise InvariantError(f"n{server.node.id} has {batch}, another node {known}")
        if previous is not None:
            before = (previous.base_offset, previous.epoch)
            if self._previous.setdefault(key, before) != before:
                raise InvariantError(f"n{server.node.id} has {previous} before {batch}; another node has not")

    def _check_change(self, server: RaftServer, voters: Voters) -> None:
        """One voter at a time, after the change before, and after a commit of the leader's own epoch."""
        history = server.journal.state.load().history
        changed = set(history.voters.ids) ^ set(voters.ids)
        role = server.raft.role
        if not changed or not isinstance(role, Leader):
            return
        high_watermark = role.progress.high_watermark
        is_committed = high_watermark is not None and history.voters_offset < high_watermark
        if len(changed) > 1 or not is_committed:
            raise InvariantError(f"n{server.node.id} changes {history.voters} to {voters} too early")

    def truncated(self, server: RaftServer) -> None:
        """The voters are those of the log that is left."""
        written = server.journal.state.load().history
        if written.voters != server.raft.voters or written.kraft_version != server.raft.kraft_version:
            raise InvariantError(f"n{server.node.id} has {server.raft.voters}, its log {written.voters}")

    # When something is decided

    def elected(self, server: RaftServer, epoch: int) -> None:
        node_id = server.node.id
        if self.leaders.setdefault(epoch, node_id) != node_id:
            raise InvariantError(f"{node_id} and {self.leaders[epoch]} both lead epoch {epoch}")
        # Leader completeness: what was committed in an earlier epoch.  The report of a slow node may be late.
        committed = max((end for commit_epoch, end in self._ends if commit_epoch < epoch), default=0)
        state = server.journal.state
        if state.end_offset < committed:
            raise InvariantError(f"leader n{node_id} ends at {state.end_offset}, committed up to {committed}")
        self._compare(server, committed)

    def check_committed(self, server: RaftServer, high_watermark: int) -> None:
        """State machine safety: every node commits the same record at an offset."""
        if high_watermark < server.high_watermark:
            raise InvariantError(
                f"the high watermark of n{server.node.id} falls from {server.high_watermark} to"
                f" {high_watermark}"
            )
        state = server.journal.state
        if state.end_offset < high_watermark:
            raise InvariantError(
                f"n{server.node.id} committed up to {high_watermark}, its log ends at {state.end_offset}"
            )
        if high_watermark <= self.end_offset:
            self._compare(server, high_watermark)
            return
        self._compare(server, self.end_offset)
        for batch in state.batches:
            if batch.base_offset == self.end_offset and batch.end_offset <= high_watermark:
                self._by_end[batch.end_offset] = batch
                self.committed.append(batch)
                self.end_offset = batch.end_offset
        self._ends.append((server.raft.epoch, self.end_offset))
        if self.end_offset < high_watermark:
            raise InvariantError(f"nobody has the records from {self.end_offset} to {high_watermark}")

    def _compare(self, server: RaftServer, end_offset: int) -> None:
        """The last committed batch of a log is the one that was committed; log matching says the rest."""
        for batch in reversed(server.journal.state.batches):
            if batch.end_offset > end_offset:
                continue
            committed = self._by_end.get(batch.end_offset)
            if committed is None or committed.epoch != batch.epoch or committed.data != batch.data:
                raise InvariantError(f"n{server.node.id} has {batch}, committed was {committed}")
            return

    def voters(self, initial: Voters) -> Voters:
        """The last committed voters."""
        for batch in reversed(self.committed):
            for message in reversed(batch.control):
                if isinstance(message, VotersRecord):
                    return Voters.of_record(message)
        return initial

    def values(self) -> list[bytes]:
        """The committed values, in order."""
        return [value for batch in self.committed for value in batch.data]  # type: ignore[attr-defined]
