"""Bugs that metadata-quorum must find: mistakes between the Raft node, the files, the images and requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from barnabas.broker.modes.kraft.controller_driver import ControllerDriver
from barnabas.broker.modes.kraft.controller_registration import ControllerRegistration
from barnabas.broker.modes.kraft.metadata_folder import MetadataFolder
from barnabas.broker.modes.kraft.raft_store import RaftStore
from barnabas.controller.brokers.heartbeats import Heartbeats
from barnabas.controller.machine import Controller
from barnabas.metadata.cluster import Broker
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.metadata.loader import MetadataBatch
from barnabas.raft.messages import AppendFetched, SnapshotInstalled
from barnabas.raft.roles import Follower
from barnabas.raft.rpc import FetchRequest, FetchResponse
from barnabas.raft.rules.following import Following
from barnabas.raft.rules.serving import Serving
from barnabas.raft.snapshot import SnapshotId
from barnabas.raft.voter_history import VoterHistory
from barnabas.runtime.planted import patched
from barnabas.storage.log.log import Log
from barnabas.testing.simulation.registry import planted

SCENARIO = "metadata-quorum"
WITHIN_SEEDS = 100


@planted(
    "quorum: a deposed controller keeps uncommitted records", scenario=SCENARIO, within_seeds=WITHIN_SEEDS
)
def keeps_uncommitted() -> Iterator[None]:
    """A controller that loses leadership keeps an image with records that were never committed."""
    healthy = Controller.deactivate

    def deactivate(self: Controller, committed: Image) -> None:
        if committed is EMPTY_IMAGE:
            healthy(self, committed)

    with patched(Controller, "deactivate", deactivate):
        yield


@planted("quorum: a snapshot does not remove topics", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def snapshot_removes_nothing() -> Iterator[None]:
    """Publishers do not learn that a topic was deleted if a fetched snapshot says so."""
    healthy = Delta.between.__func__  # type: ignore[attr-defined]

    def between(cls: type[Delta], before: Image, after: Image) -> Delta:
        delta: Delta = healthy(cls, before, after)
        delta.topics = {topic_id for topic_id in delta.topics if topic_id in after.topics}
        return delta

    with patched(Delta, "between", classmethod(between)):
        yield


@planted("quorum: responds before the commit", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def responds_before_commit() -> Iterator[None]:
    """The response is sent when the leader has appended the records."""
    healthy = ControllerDriver.when_committed

    def at_once(
        self: ControllerDriver,
        reply: Callable[[], None],
        refuse: Callable[[BaseException], None],
        deadline_ns: int | None = None,
    ) -> None:
        if deadline_ns is None:
            healthy(self, reply, refuse, deadline_ns)
        else:
            reply()

    with patched(ControllerDriver, "when_committed", at_once):
        yield


@planted("quorum: a follower serves fetches", scenario=SCENARIO, first_seed=31, within_seeds=WITHIN_SEEDS)
def follower_serves() -> Iterator[None]:
    """A follower responds to observers with its own log, as if all of it were committed."""
    healthy, healthy_content = Serving._response, RaftStore._with_records

    def response(self: Serving, request: FetchRequest, now_ns: int) -> FetchResponse:
        quorum = self._quorum
        end_offset = quorum.log.end_offset
        if (
            not isinstance(quorum.role, Follower)
            or request.epoch != quorum.epoch
            or request.offset > end_offset
        ):
            return healthy(self, request, now_ns)
        return FetchResponse(quorum.leader, high_watermark=end_offset, read_from=request.offset)

    def with_records(self: RaftStore, response: FetchResponse, offset: int) -> FetchResponse:
        log = self._folder.log
        if self.quorum.is_leader or not log.log_start_offset <= offset <= log.end_offset:
            return healthy_content(self, response, offset)
        return replace(response, records=log.read(offset, 600, upper_bound=log.end_offset).slice)

    with patched(Serving, "_response", response), patched(RaftStore, "_with_records", with_records):
        yield


@planted("quorum: a new controller fences brokers at once", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def fences_at_once() -> Iterator[None]:
    """Brokers that had no time to find a new active controller are fenced by it."""
    healthy = Heartbeats.activate

    def activate(
        self: Heartbeats, brokers: Iterable[Broker], now_ns: int, *, stopped_broker: int | None = None
    ) -> None:
        healthy(self, brokers, now_ns - self.session_timeout_ns // 2, stopped_broker=stopped_broker)

    with patched(Heartbeats, "activate", activate):
        yield


@planted("quorum: a batch after a snapshot is skipped", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def batch_skipped() -> Iterator[None]:
    """Images lack the first batch after a snapshot that was loaded."""
    healthy = RaftStore._committed_batches

    def batches(self: RaftStore, high_watermark: int) -> Iterator[MetadataBatch]:
        skipped = self._next_offset is not None
        start = self._next_offset
        for batch in healthy(self, high_watermark):
            latest = self._folder.snapshots.latest
            is_first = latest is not None and batch.last_offset >= latest.offset
            if not skipped and start is None and is_first:
                skipped = True
                yield replace(batch, records=[])
            else:
                yield batch

    with patched(RaftStore, "_committed_batches", batches):
        yield


@planted("quorum: fetched batches are not synced", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def fetched_not_synced() -> Iterator[None]:
    """A follower fetches from the end of what is in its page cache only."""
    healthy = MetadataFolder.write

    def write(self: MetadataFolder, entry: object) -> object:
        known = len(self._unsynced)
        work = healthy(self, entry)
        if isinstance(entry, AppendFetched):
            while len(self._unsynced) > known:
                self._unsynced.pop()
        return work

    with patched(MetadataFolder, "write", write):
        yield


@planted(
    "quorum: a snapshot removes the voters", scenario=SCENARIO, first_seed=197, within_seeds=WITHIN_SEEDS
)
def snapshot_removes_voters() -> Iterator[None]:
    """After a snapshot of a static quorum was installed, a node knows no voters."""
    healthy = Following.installed

    def installed(self: Following, event: SnapshotInstalled, now_ns: int) -> None:
        healthy(self, event, now_ns)
        if event.voters is not None:
            self._quorum.history = VoterHistory(event.voters, event.kraft_version, event.snapshot.offset - 1)

    with patched(Following, "installed", installed):
        yield


@planted("quorum: a snapshot keeps the log", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def snapshot_keeps_log() -> Iterator[None]:
    """A fetched snapshot is installed beside the old log."""
    healthy = MetadataFolder._install

    def install(self: MetadataFolder, snapshot: SnapshotId) -> SnapshotInstalled:
        with patched(Log, "truncate_fully_to", lambda self, offset: None):
            return healthy(self, snapshot)

    with patched(MetadataFolder, "_install", install):
        yield


@planted("quorum: active before the log is committed", scenario=SCENARIO, within_seeds=WITHIN_SEEDS)
def active_too_early() -> Iterator[None]:
    """A controller decides when it is elected, before it knows what its predecessors committed."""
    healthy = RaftStore._leader_changed

    def leader_changed(self: RaftStore, epoch: int, leader_id: int) -> None:
        healthy(self, epoch, leader_id)
        if self._elected_epoch is not None:
            self._reported_epoch, self._elected_epoch = self._elected_epoch, None
            for listener in reversed(self.listeners):
                listener.won(epoch)

    with patched(RaftStore, "_leader_changed", leader_changed):
        yield


@planted(
    "quorum: a controller registers only once", scenario=SCENARIO, first_seed=26, within_seeds=WITHIN_SEEDS
)
def registers_once() -> Iterator[None]:
    """A registration that gets lost is not repeated."""
    healthy = ControllerRegistration._failed

    def failed(self: ControllerRegistration, error: BaseException) -> None:
        healthy(self, error)
        self._is_closed = True

    with patched(ControllerRegistration, "_failed", failed):
        yield
