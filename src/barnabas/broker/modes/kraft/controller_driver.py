"""What drives the controller: decisions become records, committed records become deltas and replies.

What lives here: the order of things.  A request is decided; its records are appended, and applied to the
controller's image so that the next decision sees them; when they are committed the delta goes to the
listeners, and then the reply to the one who asked.  A reply without records waits for all that it rests on.
What may not: decisions (controller/), elections (raft/), files (metadata_folder), the clock's jobs (jobs).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import NamedTuple

from barnabas.base.effects import Requested
from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.decision import MAX_RECORDS_PER_BATCH, Context, too_large
from barnabas.controller.machine import Controller
from barnabas.metadata.delta import Delta
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.metadata.snapshot import record_version
from barnabas.protocol.record_frame import write_metadata_record
from barnabas.protocol.schema import Message
from barnabas.raft.messages import Append, Committed, DataRecords, LeaderChanged, Start
from barnabas.raft.node import RaftNode
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.executor import Executor, GroupCommit, Store, WorkerPool
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService

logger = logging.getLogger(__name__)

# Records that wait for the disk, in bytes; with more the controller takes no requests until some are safe.
MAX_UNCOMMITTED_BYTES = 64 * 1024 * 1024
# Replies that wait for the disk.
MAX_WAITING_REPLIES = 10_000
# What a batch and each of its records need at most beside the values.
BATCH_OVERHEAD_BYTES = 61
RECORD_OVERHEAD_BYTES = 20


class _Uncommitted(NamedTuple):
    """What becomes known with the record at `delta.image.offset`."""

    delta: Delta
    size: int


class _Waiting(NamedTuple):
    """A reply that may go once this offset is committed."""

    offset: int
    reply: Callable[[], None]
    refuse: Callable[[BaseException], None]


class ControllerDriver:
    """Of one node, from the end of loading on.  It is where the effects of the Raft node leave to."""

    def __init__(
        self,
        controller: Controller,
        quorum: RaftNode,
        store: Store,
        *,
        max_batch_bytes: int,
        loaded: Delta,
        clock: Clock,
        timers: TimerService,
        workers: WorkerPool,
        on_lead: Callable[[], None],
        on_committed: Callable[[Delta, int], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.image: Image = EMPTY_IMAGE
        self.controller = controller
        self.quorum = quorum
        # The epoch in which this controller is active; None while it is not.
        self.active_epoch: int | None = None
        self._max_batch_bytes = max_batch_bytes
        self._clock = clock
        self._on_lead = on_lead
        self._on_committed = on_committed
        self._on_failure = on_failure
        self._uncommitted: deque[_Uncommitted] = deque()
        self._uncommitted_bytes = 0
        self._waiting: deque[_Waiting] = deque()
        self._executor = Executor(
            quorum,
            clock=clock,
            timers=timers,
            store=store,
            commit=GroupCommit(workers),
            exits=self,
            on_failure=self._failed,
        )
        controller.load(loaded.image)
        if loaded.image.offset >= 0:
            # What is in the log is not committed before a leader of today says so.
            self._uncommitted.append(_Uncommitted(loaded, 0))

    def start(self) -> None:
        """Stand for election; `on_lead` is called when this node leads."""
        self._executor.step(Requested(None, Start()))

    @property
    def has_failed(self) -> bool:
        return self._executor.failure is not None

    def close(self) -> None:
        """Nothing goes in or out any more."""
        self.active_epoch = None
        self._executor.close()

    # Asking

    def ask(self, request: Message, version: int, principal: str) -> Promise[Message]:
        """Decide, append, and answer when it is committed."""
        answer: Promise[Message] = Promise()
        try:
            self._check_ready()
            context = Context(
                now_ns=self._clock.monotonic_ns(),
                next_offset=self.quorum.end_offset,
                version=version,
                principal=principal,
            )
            decision = self.controller.decide(request, context)
            self._append(decision.records, atomic=decision.atomic)
        except KafkaError as error:
            answer.fail(error)
            return answer
        if decision.accepted is not None:
            decision.accepted(self.quorum.end_offset - 1)
        self.when_committed(partial(answer.set, decision.reply), answer.fail)
        return answer

    def append(self, decide: Callable[[], Sequence[Message]], *, atomic: bool) -> None:
        """Append what the controller decides by itself; KafkaError if it cannot be now."""
        self._check_ready()
        self._append(decide(), atomic=atomic)

    def when_committed(self, reply: Callable[[], None], refuse: Callable[[BaseException], None]) -> None:
        """Reply when the last record that was applied is committed; at once if it is."""
        last_offset = self.controller.image.offset
        if not self._waiting and last_offset <= self.image.offset:
            reply()
        else:
            self._waiting.append(_Waiting(last_offset, reply, refuse))

    def _check_ready(self) -> None:
        if self.active_epoch is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "No controller appears to be active.")
        if len(self._waiting) >= MAX_WAITING_REPLIES or self._uncommitted_bytes >= MAX_UNCOMMITTED_BYTES:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{len(self._waiting)} requests with {self._uncommitted_bytes} bytes of records wait for the"
                " disk of the metadata log; try again later",
            )

    def _append(self, records: Sequence[Message], *, atomic: bool) -> None:
        """Append and apply.  Nothing has changed if it is refused."""
        level = self.controller.image.metadata_version
        values = [write_metadata_record(record, record_version(record, level)) for record in records]
        runs = _runs(values, self._max_batch_bytes)
        if atomic and len(runs) > 1:
            raise too_large()
        for run in runs:
            self._append_batch(records[run.start : run.stop], tuple(values[run.start : run.stop]))

    def _append_batch(self, records: Sequence[Message], values: tuple[bytes, ...]) -> None:
        epoch = self.active_epoch
        assert epoch is not None, "only an active controller appends"
        base_offset, now_ms = self.quorum.end_offset, self._clock.wall_ms()
        self._executor.step(Requested(None, Append(epoch, DataRecords(values, now_ms))))
        if self._executor.failure is not None:
            why = f"the metadata log failed: {self._executor.failure}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, why)
        delta = self.controller.apply(records, base_offset, epoch, now_ms)
        size = sum(map(len, values))
        self._uncommitted.append(_Uncommitted(delta, size))
        self._uncommitted_bytes += size

    # Exits of the Raft node

    def send(self, to: int, message: object) -> None:
        """A quorum of one has nobody to talk to."""

    def reply(self, to: Hashable, message: object) -> None:
        """Appends are made by the leader alone and without a handle, so none is answered."""

    def apply(self, decided: object) -> None:
        """What the quorum has decided."""
        match decided:
            case LeaderChanged(epoch, leader_id):
                if leader_id == self.quorum.me.id:
                    self._lead(epoch)
            case Committed(high_watermark):
                self._commit(high_watermark)

    def _lead(self, epoch: int) -> None:
        """This node leads; the record that says so is the last one in the log."""
        logger.info("node %d leads the metadata quorum in epoch %d", self.quorum.me.id, epoch)
        self.active_epoch = epoch
        leading = self.controller.apply([], self.quorum.end_offset, epoch, self._clock.wall_ms())
        self._uncommitted.append(_Uncommitted(leading, 0))
        self._on_lead()

    def _commit(self, high_watermark: int) -> None:
        while self._uncommitted and self._uncommitted[0].delta.image.offset < high_watermark:
            delta, size = self._uncommitted.popleft()
            self._uncommitted_bytes -= size
            self.image = delta.image
            self._on_committed(delta, size)
        while self._waiting and self._waiting[0].offset < high_watermark:
            self._waiting.popleft().reply()

    def _failed(self, error: BaseException) -> None:
        """The disk did not take what it was given: nothing that rests on it may be told."""
        self.active_epoch = None
        waiting, self._waiting = self._waiting, deque()
        refusal = KafkaError(ErrorCode.NOT_CONTROLLER, f"the metadata log failed: {error}")
        for one in waiting:
            one.refuse(refusal)
        self._on_failure(error)


def _runs(values: Sequence[bytes], max_bytes: int) -> list[range]:
    """Which values go into one batch together: as many as its limits allow."""
    runs = []
    start, size = 0, BATCH_OVERHEAD_BYTES
    for index, value in enumerate(values):
        needed = len(value) + RECORD_OVERHEAD_BYTES
        if index > start and (index - start >= MAX_RECORDS_PER_BATCH or size + needed > max_bytes):
            runs.append(range(start, index))
            start, size = index, BATCH_OVERHEAD_BYTES
        size += needed
    return [*runs, range(start, len(values))] if values else []
