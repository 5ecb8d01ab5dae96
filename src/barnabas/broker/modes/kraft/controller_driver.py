"""Drives the controller over its store: requests become records, and commits complete responses.

A request is decided; its records are appended to the store, and applied to the controller's own image so that
the next decision sees them; the response is sent when they are committed.  A response without records waits
for all records that it depends on.  While this node does not lead, its controller replays committed records;
when it loses leadership, it reverts to the committed image.

Decisions belong in controller/, periodic tasks in periodic_tasks.py, and publishing to the broker in
metadata.loader.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.base.units import NS_PER_MS
from barnabas.controller.decision import Context
from barnabas.controller.machine import Controller
from barnabas.controller.store import ControllerStore
from barnabas.metadata.delta import InconsistentRecordError
from barnabas.metadata.image import EMPTY_IMAGE, Image
from barnabas.metadata.loader import MetadataBatch, MetadataLoadError
from barnabas.metadata.metadata_transaction import MetadataTransaction
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService

logger = logging.getLogger(__name__)

# Responses that wait for a commit.
MAX_WAITING_REPLIES = 10_000


class _PendingResponse(NamedTuple):
    """A response that is sent once this offset is committed, or fails at the deadline if it has one."""

    offset: int
    deadline_ns: int | None
    reply: Callable[[], None]
    refuse: Callable[[BaseException], None]


class ControllerDriver:
    """The driver of one node's controller.  It is a listener of the store that it appends to."""

    def __init__(
        self,
        controller: Controller,
        store: ControllerStore,
        *,
        clock: Clock,
        timers: TimerService,
        request_timeout_ms: int,
        on_fault: Callable[[BaseException], None],
    ) -> None:
        self.controller = controller
        # The epoch in which this controller is active; None while it is not.
        self.active_epoch: int | None = None
        self._store = store
        self._clock = clock
        self._timers = timers
        self._request_timeout_ns = request_timeout_ms * NS_PER_MS
        # Called when the controller's state differs from the log: the node must stop.
        self._on_fault = on_fault
        self._is_closing = False
        self._waiting: deque[_PendingResponse] = deque()
        # The deadline of the timer for late responses.
        self._timer_ns: int | None = None
        # One image per uncommitted append; images share their common structure.
        self._committed: Image = controller.image
        self._uncommitted: deque[Image] = deque()
        # Committed batches that are not in `_committed` yet: the first ones of an append with several
        # batches.
        self._ahead: deque[MetadataBatch] = deque()
        self._committed_offset = controller.image.offset
        self._transaction = MetadataTransaction()

    @property
    def in_transaction(self) -> bool:
        """Whether the committed log ends within a transaction (KIP-868)."""
        return self._transaction.is_open

    # Requests

    def ask(self, request: Message, version: int, principal: str, client_id: str = "") -> Promise[Message]:
        """Decides, appends, and responds when it is committed; REQUEST_TIMED_OUT if that takes too long."""
        response: Promise[Message] = Promise()
        try:
            self._check_ready()
            context = Context(
                now_ns=self._clock.monotonic_ns(),
                next_offset=self._store.end_offset,
                version=version,
                principal=principal,
                client_id=client_id,
                wall_ms=self._clock.wall_ms(),
            )
            decision = self.controller.decide(request, context)
            if decision.kraft_version is not None and self.active_epoch is not None:
                self._store.upgrade_kraft_version(self.active_epoch, decision.kraft_version)
            self._append(decision.records, atomic=decision.atomic)
            if decision.accepted is not None:
                decision.accepted(self._store.end_offset - 1)
        except KafkaError as error:
            # Its traceback would hold this frame, and that the response: garbage that only a search frees.
            response.fail(error.with_traceback(None))
            return response
        except Exception:
            logger.exception("the controller failed to decide on %s", request.schema.name)
            response.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
            return response
        deadline_ns = context.now_ns + self._request_timeout_ns
        self.when_committed(partial(response.set, decision.reply), response.fail, deadline_ns)
        return response

    def append(self, decide: Callable[[], Sequence[Message]], *, atomic: bool) -> int:
        """Appends records that the controller decides on its own; returns how many there were.

        Raises KafkaError if it cannot append now.
        """
        self._check_ready()
        records = decide()
        self._append(records, atomic=atomic)
        return len(records)

    def when_committed(
        self,
        reply: Callable[[], None],
        refuse: Callable[[BaseException], None],
        deadline_ns: int | None = None,
    ) -> None:
        """Calls `reply` when the last applied record is committed; immediately if it is."""
        last_offset = self.controller.image.offset
        if not self._waiting and last_offset <= self._committed_offset:
            reply()
            return
        self._waiting.append(_PendingResponse(last_offset, deadline_ns, reply, refuse))
        if self._timer_ns is None and deadline_ns is not None:
            self._set_timer()

    def _check_ready(self) -> None:
        if self.active_epoch is None or self._is_closing:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "No controller appears to be active.")
        if len(self._waiting) >= MAX_WAITING_REPLIES:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{len(self._waiting)} requests wait for the metadata log; try again later",
            )

    def _append(self, records: Sequence[Message], *, atomic: bool) -> None:
        """Appends records to the store and applies them.  A refused append changes nothing."""
        epoch = self.active_epoch
        assert epoch is not None, "only an active controller appends"
        if not records:
            return
        controller = self.controller
        last_offset = self._store.end_offset + len(records) - 1
        # Before the append: records that contradict the image must not reach the log.
        delta = controller.prepare(records, last_offset, epoch, self._clock.wall_ms())
        level = controller.image.metadata_version
        appended = self._store.append(epoch, records, level=level, atomic=atomic)
        assert appended == last_offset, f"the store appended up to offset {appended}, not {last_offset}"
        try:
            controller.apply(delta)
        except Exception as error:
            logger.critical("the controller could not apply records that its log has", exc_info=error)
            self._on_fault(error)
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node's controller has failed") from error
        self._uncommitted.append(delta.image)

    # Deadlines

    def _set_timer(self) -> None:
        """Sets the timer to the first deadline: all have the same timeout, so it expires first."""
        first_ns = next(
            (waiting.deadline_ns for waiting in self._waiting if waiting.deadline_ns is not None), None
        )
        if first_ns == self._timer_ns:
            return
        self._timer_ns = first_ns
        if first_ns is None:
            self._timers.cancel((self, "deadline"))
        else:
            self._timers.set((self, "deadline"), first_ns, self._refuse_late)

    def _refuse_late(self) -> None:
        """Fails late responses; their records may still be committed, so clients retry."""
        self._timer_ns = None
        now_ns = self._clock.monotonic_ns()
        late: list[_PendingResponse] = []
        in_time: deque[_PendingResponse] = deque()
        for waiting in self._waiting:
            is_late = waiting.deadline_ns is not None and waiting.deadline_ns <= now_ns
            (late if is_late else in_time).append(waiting)
        self._waiting = in_time
        self._set_timer()
        refusal = KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"the controller's decision was not committed within {self._request_timeout_ns // NS_PER_MS} ms",
        )
        for waiting in late:
            _respond(partial(waiting.refuse, refusal))

    # Notifications of the store

    def committed(self, batches: Sequence[MetadataBatch], *, is_end: bool) -> None:
        """Replays committed batches, or completes the responses that waited for them.

        A response may trigger a request that waits in turn.
        """
        for batch in batches:
            records = self._records_of(batch)
            self._committed_offset = batch.last_offset
            if self.active_epoch is None:
                self._replay(batch, records)
            else:
                self._ahead.append(batch)
        if self.active_epoch is not None:
            self._advance_committed_image()
        if is_end:
            while self._waiting and self._waiting[0].offset <= self._committed_offset:
                _respond(self._waiting.popleft().reply)
            self._set_timer()

    def _records_of(self, batch: MetadataBatch) -> Sequence[Message]:
        """Returns the records that become effective with this batch (KIP-868)."""
        try:
            return self._transaction.take(batch.records)
        except InconsistentRecordError as error:
            raise _broken(batch, error) from error

    def _replay(self, batch: MetadataBatch, records: Sequence[Message]) -> None:
        """Replays a batch as an inactive controller."""
        controller = self.controller
        try:
            delta = controller.prepare(records, batch.last_offset, batch.epoch, batch.timestamp_ms)
        except InconsistentRecordError as error:
            raise _broken(batch, error) from error
        controller.apply(delta)
        self._committed = delta.image

    def _advance_committed_image(self) -> None:
        while self._uncommitted and self._uncommitted[0].offset <= self._committed_offset:
            self._committed = self._uncommitted.popleft()
        while self._ahead and self._ahead[0].last_offset <= self._committed.offset:
            self._ahead.popleft()

    def loading_snapshot(self) -> None:
        """Called on a standby that fetched a snapshot: it replays that from the beginning."""
        self.controller.deactivate(EMPTY_IMAGE)
        self._committed = EMPTY_IMAGE
        self._transaction = MetadataTransaction()

    def won(self, epoch: int) -> None:
        """Called when this node leads: the controller has replayed all committed records and is active."""
        self.active_epoch = epoch

    def lost(self, epoch: int) -> None:
        """Called when this node no longer leads: reverts to the committed image."""
        self.active_epoch = None
        self._uncommitted.clear()
        self.controller.deactivate(self._committed)
        while self._ahead:
            batch = self._ahead.popleft()
            self._replay(batch, batch.records)
        self._refuse_all(f"this node's controller is no longer active in epoch {epoch}")

    def failed(self, error: BaseException) -> None:
        """Called when the store failed: no response that depends on it may be sent."""
        self.active_epoch = None
        self._refuse_all(f"the metadata log failed: {error}")

    def refuse_requests(self) -> None:
        """Called when the node stops: pending responses complete, new requests are refused."""
        self._is_closing = True

    def close(self) -> None:
        """Refuses requests and sends no more responses."""
        self.active_epoch = None
        self._timers.cancel((self, "deadline"))

    def _refuse_all(self, reason: str) -> None:
        waiting, self._waiting = self._waiting, deque()
        self._set_timer()
        refusal = KafkaError(ErrorCode.NOT_CONTROLLER, reason)
        for response in waiting:
            _respond(partial(response.refuse, refusal))


def _respond(send: Callable[[], None]) -> None:
    """Sends a response; an exception of its receiver must not affect the log."""
    try:
        send()
    except Exception:
        logger.exception("a response of the controller could not be sent")


def _broken(batch: MetadataBatch, error: InconsistentRecordError) -> MetadataLoadError:
    return MetadataLoadError(
        f"the controller cannot follow the committed records up to offset {batch.last_offset}: {error}"
    )
