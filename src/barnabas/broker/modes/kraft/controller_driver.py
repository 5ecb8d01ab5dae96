"""What drives the controller over its store: requests become records, commits become replies.

What lives here: the order of things.  A request is decided; its records are taken by the store, and applied
to the controller's own image so that the next decision sees them; the reply goes when they are committed.  A
reply without records waits for all that it rests on.  While this node does not lead, its controller follows
what others commit; when it loses leadership, it goes back to what is committed.
What may not: decisions (controller/), where records are kept (a store), the clock's jobs (jobs), and how a
broker hears of what is committed (metadata.loader).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from barnabas.base.errors import ErrorCode, KafkaError
from barnabas.controller.decision import Context
from barnabas.controller.machine import Controller
from barnabas.controller.store import ControllerStore
from barnabas.metadata.delta import InconsistentRecordError
from barnabas.metadata.image import Image
from barnabas.metadata.loader import MetadataBatch, MetadataLoadError
from barnabas.metadata.replay import MetadataTransaction
from barnabas.protocol.schema import Message
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.loop.timers import TimerService

logger = logging.getLogger(__name__)

# Replies that wait for a commit.
MAX_WAITING_REPLIES = 10_000
_MS = 1_000_000


class _Waiting(NamedTuple):
    """A reply that may go once this offset is committed, until a deadline if it has one."""

    offset: int
    deadline_ns: int | None
    reply: Callable[[], None]
    refuse: Callable[[BaseException], None]


class ControllerDriver:
    """Of one node.  It listens to the store that it appends to."""

    def __init__(
        self,
        controller: Controller,
        store: ControllerStore,
        *,
        clock: Clock,
        timers: TimerService,
        request_timeout_ms: int,
        on_active: Callable[[], None],
        on_inactive: Callable[[], None],
        on_fault: Callable[[BaseException], None],
    ) -> None:
        self.controller = controller
        # The epoch in which this controller is active; None while it is not.
        self.active_epoch: int | None = None
        self._store = store
        self._clock = clock
        self._timers = timers
        self._request_timeout_ns = request_timeout_ms * _MS
        self._on_active = on_active
        self._on_inactive = on_inactive
        # Told when the controller is no longer what the log says: the node has to stop.
        self._on_fault = on_fault
        self._is_closing = False
        self._waiting: deque[_Waiting] = deque()
        # When the timer for late replies is set to.
        self._timer_ns: int | None = None
        # Images cost what they differ in: each append leaves one, until it is committed.
        self._committed: Image = controller.image
        self._uncommitted: deque[Image] = deque()
        # What is committed and not in that image yet: the first batches of an append that has several.
        self._ahead: deque[MetadataBatch] = deque()
        self._committed_offset = controller.image.offset
        self._transaction = MetadataTransaction()

    @property
    def in_transaction(self) -> bool:
        """Whether the committed log ends within a transaction (KIP-868)."""
        return self._transaction.is_open

    # Asking

    def ask(self, request: Message, version: int, principal: str) -> Promise[Message]:
        """Decide, append, and answer when it is committed; REQUEST_TIMED_OUT if that takes too long."""
        answer: Promise[Message] = Promise()
        try:
            self._check_ready()
            context = Context(
                now_ns=self._clock.monotonic_ns(),
                next_offset=self._store.end_offset,
                version=version,
                principal=principal,
            )
            decision = self.controller.decide(request, context)
            self._append(decision.records, atomic=decision.atomic)
            if decision.accepted is not None:
                decision.accepted(self._store.end_offset - 1)
        except KafkaError as error:
            answer.fail(error)
            return answer
        except Exception:
            logger.exception("the controller failed to decide on %s", request.schema.name)
            answer.fail(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR))
            return answer
        deadline_ns = context.now_ns + self._request_timeout_ns
        self.when_committed(partial(answer.set, decision.reply), answer.fail, deadline_ns)
        return answer

    def append(self, decide: Callable[[], Sequence[Message]], *, atomic: bool) -> bool:
        """Append what the controller decides by itself; whether it decided anything.

        KafkaError if it cannot be now.
        """
        self._check_ready()
        records = decide()
        self._append(records, atomic=atomic)
        return bool(records)

    def when_committed(
        self,
        reply: Callable[[], None],
        refuse: Callable[[BaseException], None],
        deadline_ns: int | None = None,
    ) -> None:
        """Reply when the last record that was applied is committed; at once if it is."""
        last_offset = self.controller.image.offset
        if not self._waiting and last_offset <= self._committed_offset:
            reply()
            return
        self._waiting.append(_Waiting(last_offset, deadline_ns, reply, refuse))
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
        """Have the store take them, and apply them.  Nothing has changed if it is refused."""
        epoch = self.active_epoch
        assert epoch is not None, "only an active controller appends"
        if not records:
            return
        controller = self.controller
        last_offset = self._store.end_offset + len(records) - 1
        # Before the log has them: records that contradict the image must not get there.
        delta = controller.prepare(records, last_offset, epoch, self._clock.wall_ms())
        level = controller.image.metadata_version
        taken = self._store.append(epoch, records, level=level, atomic=atomic)
        assert taken == last_offset, f"the store took records up to {taken}, not {last_offset}"
        try:
            controller.apply(delta)
        except Exception as error:
            logger.critical("the controller could not apply what its log has taken", exc_info=error)
            self._on_fault(error)
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node's controller has failed") from error
        self._uncommitted.append(delta.image)

    # Deadlines

    def _set_timer(self) -> None:
        """For the first who has a deadline: all wait equally long, so it is the first to be late."""
        first_ns = next((one.deadline_ns for one in self._waiting if one.deadline_ns is not None), None)
        if first_ns == self._timer_ns:
            return
        self._timer_ns = first_ns
        if first_ns is None:
            self._timers.cancel((self, "deadline"))
        else:
            self._timers.set((self, "deadline"), first_ns, self._refuse_late)

    def _refuse_late(self) -> None:
        """What they asked for may yet be committed: they find out by asking again."""
        self._timer_ns = None
        now_ns = self._clock.monotonic_ns()
        late: list[_Waiting] = []
        in_time: deque[_Waiting] = deque()
        for one in self._waiting:
            is_late = one.deadline_ns is not None and one.deadline_ns <= now_ns
            (late if is_late else in_time).append(one)
        self._waiting = in_time
        self._set_timer()
        refusal = KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"the controller's decision was not committed within {self._request_timeout_ns // _MS} ms",
        )
        for one in late:
            _answer(partial(one.refuse, refusal))

    # What the store reports

    def committed(self, batches: Sequence[MetadataBatch], *, is_end: bool) -> None:
        """Follow it, or let the replies go that waited for it."""
        for batch in batches:
            records = self._take(batch)
            self._committed_offset = batch.last_offset
            if self.active_epoch is None:
                self._follow(batch, records)
            else:
                self._ahead.append(batch)
        if self.active_epoch is not None:
            self._settle_images()
        if is_end:
            self._let_go()

    def _take(self, batch: MetadataBatch) -> Sequence[Message]:
        """The records that count with this batch."""
        try:
            return self._transaction.take(batch.records)
        except InconsistentRecordError as error:
            raise _broken(batch, error) from error

    def _follow(self, batch: MetadataBatch, records: Sequence[Message]) -> None:
        """As a controller that does not lead."""
        controller = self.controller
        try:
            delta = controller.prepare(records, batch.last_offset, batch.epoch, batch.timestamp_ms)
        except InconsistentRecordError as error:
            raise _broken(batch, error) from error
        controller.apply(delta)
        self._committed = delta.image

    def _settle_images(self) -> None:
        while self._uncommitted and self._uncommitted[0].offset <= self._committed_offset:
            self._committed = self._uncommitted.popleft()
        while self._ahead and self._ahead[0].last_offset <= self._committed.offset:
            self._ahead.popleft()

    def _let_go(self) -> None:
        """A reply may bring the next request, and that may wait, too."""
        while self._waiting and self._waiting[0].offset <= self._committed_offset:
            _answer(self._waiting.popleft().reply)
        self._set_timer()

    def won(self, epoch: int) -> None:
        """The controller has followed all that was committed before, and decides from now on."""
        self.active_epoch = epoch
        self._on_active()

    def lost(self, epoch: int) -> None:
        """Back to what is committed: the rest may never be, and whoever leads now decides on."""
        self.active_epoch = None
        self._on_inactive()
        self._uncommitted.clear()
        self.controller.deactivate(self._committed)
        while self._ahead:
            batch = self._ahead.popleft()
            self._follow(batch, batch.records)
        self._refuse_all(f"this node's controller is no longer active in epoch {epoch}")

    def failed(self, error: BaseException) -> None:
        """The store did not take what it was given: nothing that rests on it may be told."""
        self.active_epoch = None
        self._on_inactive()
        self._refuse_all(f"the metadata log failed: {error}")

    def refuse_requests(self) -> None:
        """The node stops: what was asked before is answered, nothing more is decided."""
        self._is_closing = True

    def close(self) -> None:
        """Take no more requests, and answer none."""
        self.active_epoch = None
        self._timers.cancel((self, "deadline"))

    def _refuse_all(self, why: str) -> None:
        waiting, self._waiting = self._waiting, deque()
        self._set_timer()
        refusal = KafkaError(ErrorCode.NOT_CONTROLLER, why)
        for one in waiting:
            _answer(partial(one.refuse, refusal))


def _answer(give: Callable[[], None]) -> None:
    """What an answer leads to is its asker's business: a fault there must not reach the log's."""
    try:
        give()
    except Exception:
        logger.exception("an answer of the controller could not be given")


def _broken(batch: MetadataBatch, error: InconsistentRecordError) -> MetadataLoadError:
    return MetadataLoadError(
        f"the controller cannot follow the committed records up to offset {batch.last_offset}: {error}"
    )
