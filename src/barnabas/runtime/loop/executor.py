"""The executor: carries out what a protocol machine asks for, in order.

What lives here: the queue of a core's effects, and group commit.  What may not: a thread, a socket or a
clock of its own.  The doors are handed in, so this code runs unchanged in production and in the simulated
world.

The rule is that of `base.effects`: a core steps on while a Persist is in flight, and what it asks for later
waits behind it.  Entries are written (to the page cache) when the core says so, in order; one sync, on a
worker, then covers all that was written before it started.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Protocol

from barnabas.base.effects import (
    Apply,
    CancelTimer,
    Core,
    Effect,
    Event,
    Fired,
    Persist,
    Persisted,
    Reply,
    Send,
    SetTimer,
)
from barnabas.runtime.callbacks import call_each
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.timers import TimerService

# A core that has so many effects waiting for its disk is not keeping up with its own messages; it is
# stopped loudly.
MAX_WAITING_EFFECTS = 100_000


class Store(Protocol):
    """Where a core's entries are kept."""

    def write(self, entry: object) -> None:
        """Add an entry, in order; it need not last yet."""
        ...

    def sync(self) -> None:
        """Return when all entries written before this call are on stable storage.  Runs on a worker."""
        ...


class Exits(Protocol):
    """Where a core's effects leave to."""

    def send(self, to: int, message: object) -> None: ...

    def reply(self, to: Hashable, message: object) -> None: ...

    def apply(self, decided: object) -> None: ...


class WorkerPool(Protocol):
    """Runs slow work elsewhere, and tells the result on the loop."""

    def submit(
        self, work: Callable[[], object], done: Callable[[object, BaseException | None], None], /
    ) -> None: ...


Synced = Callable[[BaseException | None], None]


class GroupCommit:
    """One round of syncs at a time; all who ask while it runs share the next round.

    Cores that keep their entries in different stores may share one group commit: a round syncs every store
    that was asked for once, and a store that fails fails its own askers only.
    """

    def __init__(self, workers: WorkerPool) -> None:
        self._workers = workers
        self._asked: dict[Store, list[Synced]] = {}
        self._running = False
        self.rounds = 0

    def sync(self, store: Store, done: Synced) -> None:
        """Call `done` when all that `store` has written so far is durable, or with the error."""
        self._asked.setdefault(store, []).append(done)
        if not self._running:
            self._start_round()

    def _start_round(self) -> None:
        asked, self._asked = self._asked, {}
        self._running = True
        self.rounds += 1
        self._workers.submit(partial(_sync_each, list(asked)), partial(self._round_done, asked))

    def _round_done(
        self, asked: dict[Store, list[Synced]], errors: object, error: BaseException | None
    ) -> None:
        self._running = False
        # The next round starts before anyone hears of this one, so that the disk does not idle.
        if self._asked:
            self._start_round()
        call_each(
            partial(done, error if error is not None or not isinstance(errors, dict) else errors.get(store))
            for store, callers in asked.items()
            for done in callers
        )


def _sync_each(stores: list[Store]) -> dict[Store, BaseException]:
    """Sync each store; those that failed, with their error."""
    errors: dict[Store, BaseException] = {}
    for store in stores:
        try:
            store.sync()
        except OSError as error:
            errors[store] = error
    return errors


class Executor:
    """Runs one core: feeds it events, and lets its effects out in the order in which it asked for them."""

    def __init__(
        self,
        core: Core,
        *,
        clock: Clock,
        timers: TimerService,
        store: Store,
        commit: GroupCommit,
        exits: Exits,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.core = core
        self.failure: BaseException | None = None
        self._clock = clock
        self._timers = timers
        self._store = store
        self._commit = commit
        self._exits = exits
        self._on_failure = on_failure
        self._timer_keys: set[Hashable] = set()
        # Each waiting effect carries the number of entries that must be durable before it may leave.
        self._waiting: deque[tuple[int, Send | Reply | Apply | Persisted]] = deque()
        self._written = 0
        self._sync_asked = 0
        self._durable = 0
        self._letting_out = False
        self._closed = False

    @property
    def waiting(self) -> int:
        """Effects that wait for the disk."""
        return len(self._waiting)

    def step(self, event: Event) -> None:
        """Feed one event to the core; a closed executor takes none."""
        if self._closed:
            return
        self._take(self.core.step(event, self._clock.monotonic_ns()))
        self._let_out()

    def close(self) -> None:
        """Stop: no event goes in and no effect comes out any more."""
        self._closed = True
        self._waiting.clear()
        for key in self._timer_keys:
            self._timers.cancel((self, key))
        self._timer_keys.clear()

    def _take(self, effects: Sequence[Effect]) -> None:
        """Set timers and write entries at once; queue the rest."""
        for effect in effects:
            match effect:
                case Send() | Reply() | Apply():
                    self._waiting.append((self._written, effect))
                case Persist(entry, token):
                    if not self._write(entry):
                        return
                    if token is not None:
                        self._waiting.append((self._written, Persisted(token)))
                case SetTimer(key, deadline_ns):
                    self._timer_keys.add(key)
                    self._timers.set((self, key), deadline_ns, partial(self._fired, key))
                case CancelTimer(key):
                    self._timer_keys.discard(key)
                    self._timers.cancel((self, key))
        if self._written > self._sync_asked:
            self._sync_asked = self._written
            self._commit.sync(self._store, partial(self._synced, self._written))
        if len(self._waiting) > MAX_WAITING_EFFECTS:
            self._fail(RuntimeError(f"more than {MAX_WAITING_EFFECTS} effects wait for the disk"))

    def _write(self, entry: object) -> bool:
        try:
            self._store.write(entry)
        except OSError as error:
            self._fail(error)
            return False
        self._written += 1
        return True

    def _synced(self, written: int, error: BaseException | None) -> None:
        if self._closed:
            return
        if error is not None:
            # A failed sync is never tried again: the system may have dropped the pages and report success
            # next time.
            self._fail(error)
            return
        self._durable = max(self._durable, written)
        self._let_out()

    def _fired(self, key: Hashable) -> None:
        self._timer_keys.discard(key)
        self.step(Fired(key))

    def _let_out(self) -> None:
        """Let out what no longer waits for the disk.

        Also what that brings about, each after what was before it.
        """
        if self._letting_out:
            return
        self._letting_out = True
        try:
            while self._waiting and self._waiting[0][0] <= self._durable:
                self._carry_out(self._waiting.popleft()[1])
        finally:
            self._letting_out = False

    def _carry_out(self, effect: Send | Reply | Apply | Persisted) -> None:
        match effect:
            case Send(to, message):
                self._exits.send(to, message)
            case Reply(to, message):
                self._exits.reply(to, message)
            case Apply(decided):
                self._exits.apply(decided)
            case Persisted():
                self._take(self.core.step(effect, self._clock.monotonic_ns()))

    def _fail(self, error: BaseException) -> None:
        """Nothing that follows a lost entry may leave: stop here, and say so once."""
        self.failure = error
        self.close()
        self._on_failure(error)
