"""The executor: carries out the effects of a protocol core, in order.

Contains the queue of a core's effects, and when its entries are synced.  It has no thread, socket or clock of
its own: the interfaces are passed in, so that this code runs unchanged in production and in simulation.

The rule is that of `base.effects`: a core continues to take events while a Persist is in flight, and its
later effects wait behind it.  Entries are written (to the page cache) when the core requests it, in order;
one sync at a time, on a worker, covers everything that was written before it started (group commit).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import Protocol

from barnabas.base.effects import (
    Apply,
    CancelTimer,
    Core,
    Event,
    Fired,
    Persist,
    Persisted,
    Reply,
    Requested,
    Send,
    SetTimer,
)
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.timers import TimerService

# A core with more effects than this waiting for its disk does not keep up with its own messages; it fails
# loudly.
MAX_WAITING_EFFECTS = 100_000


Work = Callable[[], object]


class Store(Protocol):
    """Storage of a core's entries."""

    def write(self, entry: object) -> Work | None:
        """Append an entry, in order; it need not be durable yet.

        Returns work for a worker if the entry cannot be written without waiting for the disk (a truncation):
        it is done before the next entry is written.  What it returns, if anything, is a request for the core.
        """
        ...

    def sync(self) -> None:
        """Returns when all entries written before this call are on stable storage.  Runs on a worker."""
        ...


class Exits(Protocol):
    """Destinations of a core's effects."""

    def send(self, to: int, message: object) -> None: ...

    def reply(self, to: Hashable, message: object) -> None: ...

    def apply(self, decided: object) -> None: ...


class WorkerPool(Protocol):
    """Runs blocking work elsewhere, and reports the result on the loop."""

    def submit(
        self, work: Callable[[], object], done: Callable[[object, BaseException | None], None], /
    ) -> None: ...


class Executor:
    """Runs one core: feeds it events, and carries out its effects in the order in which it requested them."""

    def __init__(
        self,
        core: Core,
        *,
        clock: Clock,
        timers: TimerService,
        store: Store,
        workers: WorkerPool,
        exits: Exits,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.core = core
        self.failure: BaseException | None = None
        self._clock = clock
        self._timers = timers
        self._store = store
        self._workers = workers
        self._exits = exits
        self._on_failure = on_failure
        self._timer_keys: set[Hashable] = set()
        # Each pending effect has the number of entries that must be durable before it is carried out.
        self._waiting: deque[tuple[int, Send | Reply | Apply | Persisted]] = deque()
        # Entries that wait for the work of an earlier one.
        self._unwritten: deque[object] = deque()
        self._requested = 0
        self._written = 0
        self._durable = 0
        self._is_syncing = False
        # A worker changes the store, which nothing else may use meanwhile.
        self._is_working = False
        self._work: Work | None = None
        self._letting_out = False
        self._closed = False
        # Called when no worker uses the store any more.
        self._on_idle: list[Callable[[], None]] = []

    @property
    def waiting(self) -> int:
        """Number of effects that wait for the disk."""
        return len(self._waiting)

    def step(self, event: Event) -> None:
        """Feed one event to the core; a closed executor ignores it.

        Timers are set and entries written at once; the other effects wait for them.
        """
        if self._closed:
            return
        try:
            effects = self.core.step(event, self._clock.monotonic_ns())
        except Exception as error:
            # It has changed a part of its state only, and cannot continue.
            self._fail(error)
            return
        for effect in effects:
            if isinstance(effect, SetTimer):
                key = effect.key
                self._timer_keys.add(key)
                self._timers.set((self, key), effect.deadline_ns, partial(self._fired, key))
            elif isinstance(effect, Persist):
                self._requested += 1
                self._unwritten.append(effect.entry)
                if not self._write_entries():
                    return
                if effect.token is not None:
                    self._waiting.append((self._requested, Persisted(effect.token)))
            elif isinstance(effect, CancelTimer):
                self._timer_keys.discard(effect.key)
                self._timers.cancel((self, effect.key))
            else:
                self._waiting.append((self._requested, effect))
        if self._written > self._durable or self._work is not None:
            self._sync()
        if len(self._waiting) > MAX_WAITING_EFFECTS:
            self._fail(RuntimeError(f"more than {MAX_WAITING_EFFECTS} effects wait for the disk"))
        if self._waiting:
            self._let_out()

    def when_idle(self, action: Callable[[], None]) -> None:
        """Call this when no worker uses the store, at once if none does; meant for a closed executor."""
        if self._is_syncing or self._is_working:
            self._on_idle.append(action)
        else:
            action()

    def _report_idle(self) -> None:
        actions, self._on_idle = self._on_idle, []
        for action in actions:
            action()

    def close(self) -> None:
        """Stop: no more events are processed and no more effects are carried out."""
        self._closed = True
        self._waiting.clear()
        self._unwritten.clear()
        for key in self._timer_keys:
            self._timers.cancel((self, key))
        self._timer_keys.clear()

    def _write_entries(self) -> bool:
        """Write the entries up to one that needs a worker; returns whether the store works."""
        while self._unwritten and self._work is None:
            try:
                self._work = self._store.write(self._unwritten.popleft())
            except Exception as error:
                # A failed disk, or an entry that contradicts the store: both end here.
                self._fail(error)
                return False
            self._written += 1
        return True

    def _start_work(self) -> None:
        if self._work is not None and not self._is_syncing and not self._is_working:
            self._is_working = True
            self._workers.submit(self._work, self._work_done)

    def _work_done(self, request: object, error: BaseException | None) -> None:
        self._is_working = False
        self._work = None
        if self._closed:
            self._report_idle()
            return
        if error is not None:
            self._fail(error)
            return
        if request is not None:
            self.step(Requested(None, request))
        if not self._closed and self._write_entries():
            self._sync()
            self._let_out()

    def _sync(self) -> None:
        """Have a worker sync what was written; entries written while it runs share the next sync."""
        self._start_work()
        if self._written > self._durable and not self._is_syncing and self._work is None:
            self._is_syncing = True
            self._workers.submit(self._store.sync, partial(self._synced, self._written))

    def _synced(self, written: int, _: object, error: BaseException | None) -> None:
        self._is_syncing = False
        if self._closed:
            self._report_idle()
            return
        if error is not None:
            # A failed sync is never retried: the system may have dropped the pages and would report success
            # next time.
            self._fail(error)
            return
        self._durable = written
        # The next sync starts before the effects are carried out, so that the disk does not idle.
        self._sync()
        self._let_out()

    def _fired(self, key: Hashable) -> None:
        self._timer_keys.discard(key)
        self.step(Fired(key))

    def _let_out(self) -> None:
        """Carry out the effects that no longer wait for the disk.

        Also their consequences, each after the effects before it.
        """
        if self._letting_out or not self._waiting:
            return
        self._letting_out = True
        try:
            while self._waiting and self._waiting[0][0] <= self._durable and not self._is_working:
                _, effect = self._waiting.popleft()
                if isinstance(effect, Send):
                    self._exits.send(effect.to, effect.message)
                elif isinstance(effect, Reply):
                    self._exits.reply(effect.to, effect.message)
                elif isinstance(effect, Apply):
                    self._exits.apply(effect.decided)
                else:
                    self.step(effect)
        finally:
            self._letting_out = False

    def _fail(self, error: BaseException) -> None:
        """No effect that follows a lost entry may be carried out: stop, and report it once."""
        self.failure = error
        self.close()
        self._on_failure(error)
