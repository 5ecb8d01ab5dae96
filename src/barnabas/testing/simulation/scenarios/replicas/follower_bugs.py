"""Bugs of followers and of their logs that `replicas` must find; numbers are those of cluster.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from barnabas.base.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.replica.fetching.fetch_state import FetchState, FollowerLog, Phase, Truncation
from barnabas.replica.fetching.fetcher import Fetcher
from barnabas.replica.fetching.outcomes import NOTHING, Fetched, Outcome
from barnabas.replica.partition import NO_EPOCH
from barnabas.runtime.disk.disk import Buffer
from barnabas.runtime.planted import patched
from barnabas.storage.log.leader_epochs import LeaderEpochs
from barnabas.testing.simulation.registry import planted

SCENARIO = "replicas"
WITHIN_SEEDS = 100

Plant = Callable[[], Iterator[None]]


def _planted(name: str, first_seed: int = 0) -> Callable[[Plant], Plant]:
    """`first_seed`: one that shows it."""
    return planted(f"replicas: {name}", scenario=SCENARIO, within_seeds=WITHIN_SEEDS, first_seed=first_seed)


@_planted("a new follower truncates to its high watermark")
def truncates_to_high_watermark() -> Iterator[None]:
    """1: it drops what it does not know to be committed, as before KIP-101."""
    healthy = Fetcher.add

    def add(self: Fetcher, partition: Any) -> Truncation | None:
        known = self.states.get((partition.topic_id, partition.index))
        truncation = healthy(self, partition)
        state = self.states[partition.topic_id, partition.index]
        log = state.partition.log
        if truncation is None and state is not known and log is not None:
            return self._truncate(state, log.high_watermark)
        return truncation

    with patched(Fetcher, "add", add):
        yield


@_planted("a follower does not truncate")
def no_truncation() -> Iterator[None]:
    """2: where logs diverge the follower goes on at its own end, and says nothing of its epoch."""
    healthy = FetchState.position

    def diverged(
        self: Fetcher, state: FetchState, log: FollowerLog, end: FetchResponse.EpochEndOffset
    ) -> Outcome:
        state.undone = b""
        self._changed[state.key] = None
        return NOTHING

    def position(self: FetchState) -> Any:
        found = healthy(self)
        return found if self.undone is None else found._replace(last_epoch=NO_EPOCH)

    with patched(Fetcher, "_diverged", diverged), patched(FetchState, "position", position):
        yield


@_planted("a high watermark counts before a divergence")
def high_watermark_first() -> Iterator[None]:
    """6: one response carries both, and the high watermark is taken over at once."""
    healthy = Fetcher.process

    def process(self: Fetcher, fetched: Fetched, now_ns: int) -> Outcome:
        state, data = fetched
        log = state.partition.log
        if log is not None and self._is_awaited(state) and not data.error_code:
            state.follow_watermarks(log, data.high_watermark, -1)
        return healthy(self, fetched, now_ns)

    with patched(Fetcher, "process", process):
        yield


@_planted("an empty response forgets the last epoch")
def empty_response_forgets() -> Iterator[None]:
    """8: the next fetch says nothing of its epoch, and a divergence is not seen."""
    healthy = Fetcher._take_over

    def take_over(
        self: Fetcher,
        state: FetchState,
        log: FollowerLog,
        records: Buffer,
        high_watermark: int,
        log_start_offset: int,
        now_ns: int,
    ) -> Outcome:
        if not len(records):
            state.last_epoch = NO_EPOCH
        return healthy(self, state, log, records, high_watermark, log_start_offset, now_ns)

    def restart(self: FetchState) -> None:
        """After the response that had nothing, a new leader is not told an epoch either."""
        begin(self)
        log = self.partition.log
        if log is not None and log.high_watermark == log.end_offset:
            self.last_epoch = NO_EPOCH

    begin = FetchState.restart
    with patched(Fetcher, "_take_over", take_over), patched(FetchState, "restart", restart):
        yield


@_planted("an offset out of range is fatal")
def out_of_range_is_fatal() -> Iterator[None]:
    """9: the follower gives the partition up."""
    healthy = Fetcher._refused

    def refused(self: Fetcher, state: FetchState, error: ErrorCode, now_ns: int) -> None:
        if error is ErrorCode.OFFSET_OUT_OF_RANGE:
            self._wait_for(state, Phase.FENCED)
        else:
            healthy(self, state, error, now_ns)

    with patched(Fetcher, "_refused", refused):
        yield


@_planted("responses to an earlier epoch are taken")
def earlier_responses_count() -> Iterator[None]:
    """3: the follower has another leader by now, or is one itself (KAFKA-7395)."""

    def is_awaited(self: Fetcher, state: FetchState) -> bool:
        return self.states.get(state.key) is state and state.phase is Phase.FETCHING

    def is_current(self: FetchState) -> bool:
        return self.partition.log is not None

    with patched(Fetcher, "_is_awaited", is_awaited), patched(FetchState, "is_current", property(is_current)):
        yield


@_planted("recovery does not restore epochs")
def epochs_not_restored() -> Iterator[None]:
    """What the file did not have yet is not taken from the batches."""
    with patched(LeaderEpochs, "restore", lambda self, epoch, base_offset: None):
        yield


@_planted("truncation leaves the epochs of what is gone")
def epochs_stay() -> Iterator[None]:
    """The follower goes on with an epoch that it has no records of."""
    with patched(LeaderEpochs, "truncate_from_end", lambda self, end_offset: None):
        yield
