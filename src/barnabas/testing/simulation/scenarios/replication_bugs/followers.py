"""Bugs of followers, of their logs and of reassignments that `replication` must find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from barnabas.controller.replication import partition_change
from barnabas.metadata.topics import LEADER_UNCHANGED
from barnabas.metadata.topics import Partition as PartitionState
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.records.metadata import PartitionChangeRecord
from barnabas.replica.fetching.fetch_session import FetchPosition
from barnabas.replica.fetching.fetch_state import FetchState, FollowerLog
from barnabas.replica.fetching.fetcher import Fetcher
from barnabas.replica.fetching.outcomes import NOTHING, Outcome
from barnabas.replica.partition import NO_EPOCH
from barnabas.runtime.disk.disk import Buffer
from barnabas.runtime.planted import patched
from barnabas.storage.log.appends import AppendResult
from barnabas.storage.log.log import Log
from barnabas.testing.simulation.registry import planted

SCENARIO = "replication"
WITHIN_SEEDS = 40

Plant = Callable[[], Iterator[None]]


def _planted(name: str, first_seed: int = 0) -> Callable[[Plant], Plant]:
    """`first_seed`: one that shows it."""
    return planted(
        f"replication: {name}", scenario=SCENARIO, within_seeds=WITHIN_SEEDS, first_seed=first_seed
    )


@_planted("a new follower truncates to its high watermark")
def truncates_at_first() -> Iterator[None]:
    """The follower of a new leader drops what it does not know to be committed, as before KIP-101."""
    healthy = Fetcher.add

    def add(self: Fetcher, partition: object) -> object:
        known = self.states.get((partition.topic_id, partition.index))  # type: ignore[attr-defined]
        truncation = healthy(self, partition)  # type: ignore[arg-type]
        state = self.states[partition.topic_id, partition.index]  # type: ignore[attr-defined]
        log = state.partition.log
        if truncation is None and state is not known and log is not None:
            return self._truncate(state, log.high_watermark)
        return truncation

    with patched(Fetcher, "add", add):
        yield


@_planted("a follower does not truncate")
def no_truncation() -> Iterator[None]:
    """Where logs diverge the follower continues at its own end, and says nothing of its epoch."""
    healthy = FetchState.position

    def diverged(
        self: Fetcher, state: FetchState, log: FollowerLog, end: FetchResponse.EpochEndOffset
    ) -> Outcome:
        state.undone = b""
        self._changed[state.key] = None
        return NOTHING

    def position(self: FetchState) -> FetchPosition:
        found = healthy(self)
        return found if self.undone is None else found._replace(last_epoch=NO_EPOCH)

    with patched(Fetcher, "_diverged", diverged), patched(FetchState, "position", position):
        yield


@_planted("the last fetched epoch is lost")
def last_epoch_lost() -> Iterator[None]:
    """After a response without records a follower does not say in which epoch its log ends (15510)."""
    healthy = FetchState.follow_watermarks

    def follow(self: FetchState, log: FollowerLog, high_watermark: int, log_start_offset: int) -> bool:
        if self.requested_offset == self.offset:
            self.last_epoch = NO_EPOCH
        return healthy(self, log, high_watermark, log_start_offset)

    healthy_restart = FetchState.restart

    def restart(self: FetchState) -> None:
        healthy_restart(self)
        self.last_epoch = NO_EPOCH

    with patched(FetchState, "follow_watermarks", follow), patched(FetchState, "restart", restart):
        yield


@_planted("a follower's high watermark is beyond its log")
def high_watermark_beyond_log() -> Iterator[None]:
    """The follower takes the leader's high watermark for its own."""

    def follow(self: FetchState, log: FollowerLog, high_watermark: int, log_start_offset: int) -> bool:
        log.high_watermark = max(log.high_watermark, high_watermark)
        return True

    with patched(FetchState, "follow_watermarks", follow):
        yield


@_planted("followers do not know producers")
def producers_unknown() -> Iterator[None]:
    """The producer state of a follower stays empty: it accepts anything when it leads."""
    healthy = Log.append_as_follower

    def append(self: Log, buffer: Buffer, leader_epoch: int) -> AppendResult:
        result = healthy(self, buffer, leader_epoch)
        self.producers.entries.clear()
        return result

    with patched(Log, "append_as_follower", append):
        yield


@_planted("a new leader keeps the leader epoch")
def same_epoch() -> Iterator[None]:
    """Leaders change without a new leader epoch."""
    healthy = PartitionState.changed_by

    def changed_by(self: PartitionState, record: PartitionChangeRecord) -> PartitionState:
        changed = healthy(self, record)
        if record.leader == LEADER_UNCHANGED:
            return changed
        object.__setattr__(changed, "leader_epoch", self.leader_epoch)
        return changed

    with patched(PartitionState, "changed_by", changed_by):
        yield


@_planted("a reassignment ends before its replicas are in sync", 1)
def reassigned_too_early() -> Iterator[None]:
    """The first of the target replicas in the ISR is enough, and the others are taken for members."""

    def completed(
        replicas: Sequence[int], isr: Sequence[int], removing: Sequence[int], adding: Sequence[int]
    ) -> tuple[list[int], list[int]] | None:
        final = [replica for replica in replicas if replica not in removing]
        if not (removing or adding) or not set(final) & set(isr):
            return None
        return final, final

    with patched(partition_change, "completed", completed):
        yield
