"""One simulated server of a quorum: the Raft node on its journal, and the messages it exchanges."""

from __future__ import annotations

import errno
import pickle
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from barnabas.base.effects import Effect, Event, Fired, Received, Requested
from barnabas.base.errors import ErrorCode
from barnabas.raft.messages import HighWatermark, LeaderChanged, SnapshotTaken, Start, TruncateLog
from barnabas.raft.node import RaftNode
from barnabas.raft.options import QuorumOptions
from barnabas.raft.rpc import (
    FetchedBatch,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    InboundResponse,
    OutboundRequest,
    PeerResponse,
    SupportedVersionsRequest,
    SupportedVersionsResponse,
)
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voters import HIGHEST_KRAFT_VERSION, Voter, Voters
from barnabas.runtime.loop.executor import Executor
from barnabas.runtime.simulated.world import Node
from barnabas.testing.simulation.quorum.journal import Entries, Journal, RaftState, Snapshot

# Batches of one fetch, and bytes of a snapshot in one response: small, so that transfers take several.
MAX_BATCHES = 4
CHUNK_BYTES = 300
# More requests than a process sends.
REQUESTS_MAX = 1_000_000
# How long it takes until a connection is refused.
REFUSED_NS = 500_000


class Observer(Protocol):
    """Sees what the servers do and decide."""

    # Whether a request to a node that is down fails, or remains without a response.
    reports_failures: bool

    @property
    def stepped(self) -> Callable[[RaftServer, int], None]: ...

    @property
    def appended(self) -> Callable[[RaftServer, FetchedBatch, FetchedBatch | None, bool], None]: ...

    def truncated(self, server: RaftServer) -> None: ...

    def elected(self, server: RaftServer, epoch: int) -> None: ...

    def committed(self, server: RaftServer, high_watermark: int) -> None: ...

    def replied(self, server: RaftServer, handle: Hashable, response: object) -> None: ...


def halt(node: Node, error: BaseException) -> None:
    """End the process; after a failed sync, restart the machine.

    The page cache then shows data that the disk does not have, and a process that is started again cannot
    know.
    """
    node.halt(error)
    if isinstance(error, OSError) and error.errno == errno.EIO:
        node.disk.power_loss()


class RaftServer:
    """A program of a simulated node."""

    def __init__(
        self,
        node: Node,
        me: Voter,
        entries: Entries,
        state: RaftState,
        options: QuorumOptions,
        observer: Observer,
    ) -> None:
        self.node = node
        self.journal = Journal(node.disk, entries, state)
        state.on_append = partial(observer.appended, self)
        self.high_watermark = 0
        # The range of kraft.version that it supports.
        self.highest_version = HIGHEST_KRAFT_VERSION
        # What the checker remembers of a leader: when a majority had last fetched, who has since, and what it
        # committed.
        self.heard_ns = 0
        self.heard: set[int] = set()
        self.heard_voters: Voters | None = None
        self.elected_epoch: int | None = None
        self.leader_high_watermark: int | None = None
        self._observer = observer
        self.raft = RaftNode(me, state.load(), options, node.random)
        # A response to a process that has ended is lost with its connection: here it is not expected.
        self.raft.quorum.requests.correlation_id = node.life * REQUESTS_MAX
        self._executor = Executor(
            _Watched(self, observer),
            clock=node.clock,
            timers=node.timers,
            store=_WatchedJournal(self, observer),
            workers=node.workers,
            exits=self,
            on_failure=partial(halt, node),
        )
        self.prepare()
        self.request(None, Start())

    def prepare(self) -> None:
        """Called before the first step."""

    @property
    def failure(self) -> BaseException | None:
        return self._executor.failure

    def step(self, event: Event) -> None:
        """A message of another server."""
        assert isinstance(event, Received)
        message = event.message
        if isinstance(message, OutboundRequest):
            request = message.request
            if isinstance(request, SupportedVersionsRequest):
                response = SupportedVersionsResponse(0, self.highest_version)
                self._send_response(event.sender, message.correlation_id, response)
                return
            if isinstance(request, FetchRequest | FetchSnapshotRequest):
                self._hear(request)
            event = Requested((event.sender, message.correlation_id), request)
        self._executor.step(event)
        if self.journal.installed:
            self._report_installed()

    def _hear(self, request: FetchRequest | FetchSnapshotRequest) -> None:
        if request.epoch != self.raft.leader_epoch:
            return
        voters = self.raft.voters
        voter = voters.get(request.replica.id)
        if voter is None or not voter.key.matches(request.replica):
            return
        self.heard.add(voter.id)
        if len(self.heard) >= voters.majority - (self.node.id in voters.ids):
            self.heard.clear()
            self.heard_ns = self.node.clock.monotonic_ns()

    def request(self, handle: Hashable, message: object) -> None:
        self._executor.step(Requested(handle, message))
        if self.journal.installed:
            self._report_installed()

    def fire(self, event: Fired) -> None:
        """A timer of the node fires, earlier than it would."""
        self._executor.step(event)

    def take_snapshot(self) -> None:
        """Of everything that is committed here."""
        state = self.journal.state
        values, epoch, end_offset = self.committed_state()
        if epoch is None or (state.snapshot is not None and state.snapshot.id.offset >= end_offset):
            return
        history = self.raft.quorum.history
        snapshot = Snapshot(
            SnapshotId(end_offset, epoch),
            tuple(values),
            tuple(history.voters_at(end_offset - 1)),
            history.kraft_version_at(end_offset - 1),
        )
        try:
            self.journal.write(snapshot)
        except OSError as error:
            halt(self.node, error)
            return
        self.request(None, SnapshotTaken(snapshot.id, state.start_offset))

    def committed_state(self) -> tuple[list[bytes], int | None, int]:
        """The content of a snapshot: its values, the epoch of its last record, and its end."""
        state = self.journal.state
        values = [] if state.snapshot is None else list(state.snapshot.values)
        start = 0 if state.snapshot is None else state.snapshot.id.offset
        epoch: int | None = None
        end_offset = start
        for batch in state.batches:
            if batch.end_offset > self.high_watermark:
                break
            if batch.base_offset >= start:
                assert isinstance(batch.data, tuple)
                values += batch.data
                epoch, end_offset = batch.epoch, batch.end_offset
        return values, epoch, end_offset

    def _report_installed(self) -> None:
        while self.journal.installed:
            self._executor.step(Requested(None, self.journal.installed.pop(0)))

    # Effects

    def send(self, to: int, message: object) -> None:
        """A request to a node that is down fails at once, if that is reported (connection refused)."""
        node = self.node
        peer = node.world.nodes.get(to)
        if self._observer.reports_failures and peer is not None and not peer.is_up:
            assert isinstance(message, OutboundRequest)
            failed = Received(to, InboundResponse(message.correlation_id))
            node.after(REFUSED_NS, partial(self.step, failed))
        else:
            node.send(to, message)

    def reply(self, to: Hashable, message: object) -> None:
        if not isinstance(to, tuple):
            self._observer.replied(self, to, message)
            return
        sender, correlation_id = to
        if isinstance(message, FetchResponse):
            if message.read_from is not None:
                batches = self._batches_from(message.read_from)
                if batches:
                    message = FetchResponse(
                        message.leader,
                        high_watermark=message.high_watermark,
                        read_from=message.read_from,
                        batches=batches,
                    )
        elif isinstance(message, FetchSnapshotResponse) and message.error is ErrorCode.NONE:
            message = self._read_snapshot(message)
        self._send_response(sender, correlation_id, message)

    def _send_response(self, to: int, correlation_id: int, response: object) -> None:
        self.node.send(to, InboundResponse(correlation_id, response))  # type: ignore[arg-type]

    def _batches_from(self, offset: int) -> tuple[FetchedBatch, ...]:
        batches = self.journal.state.batches
        first = len(batches)
        while first and batches[first - 1].base_offset >= offset:
            first -= 1
        return tuple(batches[first : first + MAX_BATCHES])

    def _read_snapshot(self, response: FetchSnapshotResponse) -> PeerResponse:
        snapshot = self.journal.state.snapshot
        if snapshot is None or snapshot.id != response.snapshot:
            return replace(response, error=ErrorCode.SNAPSHOT_NOT_FOUND, snapshot=None)
        content = pickle.dumps(snapshot, protocol=5)
        if response.position >= len(content):
            return replace(response, error=ErrorCode.POSITION_OUT_OF_RANGE, snapshot=None)
        data = content[response.position : response.position + CHUNK_BYTES]
        return replace(response, size=len(content), data=data)

    def apply(self, decided: object) -> None:
        match decided:
            case LeaderChanged(epoch, leader_id) if leader_id == self.node.id:
                self.elected_epoch = epoch
                self.heard_ns = self.node.clock.monotonic_ns()
                self.heard.clear()
                self.heard_voters = None
                self._observer.elected(self, epoch)
            case HighWatermark(offset):
                self._observer.committed(self, offset)
                self.high_watermark = offset


class _Watched:
    """The Raft node, observed after every step."""

    __slots__ = ("_server", "_step", "_stepped")

    def __init__(self, server: RaftServer, observer: Observer) -> None:
        self._server = server
        self._stepped = observer.stepped
        self._step = server.raft.step

    def step(self, event: Event, now_ns: int, /) -> Sequence[Effect]:
        effects = self._step(event, now_ns)
        self._stepped(self._server, now_ns)
        return effects


class _WatchedJournal:
    """The journal, observed after every truncation."""

    __slots__ = ("_observer", "_server", "_write", "sync")

    def __init__(self, server: RaftServer, observer: Observer) -> None:
        self._server = server
        self._observer = observer
        self._write = server.journal.write
        self.sync = server.journal.sync

    def write(self, entry: object) -> None:
        self._write(entry)
        if isinstance(entry, TruncateLog):
            self._observer.truncated(self._server)
