"""The executor: carries out the effects of a protocol core, in order.

Contains the queue of a core's effects, and group commit.  It has no thread, socket or clock of its own: the
interfaces are passed in, so that this code runs unchanged in production and in simulation.

The rule is that of `base.effects`: a core continues to take events while a Persist is in flight, and its
later effects wait behind it.  Entries are written (to the page cache) when the core requests it, in order;
one sync, on a worker, then covers everything that was written before it started.
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
from barnabas.runtime.clock import Clock
from barnabas.runtime.loop.callbacks import call_each
from barnabas.runtime.loop.timers import TimerService

# A core with more effects than this waiting for its disk does not keep up with its own messages; it fails
# loudly.
MAX_WAITING_EFFECTS = 100_000


class Store(Protocol):
    """Storage of a core's entries."""

    def write(self, entry: object) -> None:
        """Append an entry, in order; it need not be durable yet."""
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


Synced = Callable[[BaseException | None], None]


class GroupCommit:
    """One round of syncs at a time; all requests made while it runs share the next round.

    Cores with different stores may share one group commit: a round syncs each requested store once, and an
    error of a store is reported only to its own callers.
    """

    def __init__(self, workers: WorkerPool) -> None:
        self._workers = workers
        self._asked: dict[Store, list[Synced]] = {}
        self._running = False
        self.rounds = 0

    def sync(self, store: Store, done: Synced) -> None:
        """Call `done` when everything that `store` has written so far is durable, or with the error."""
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
        # The next round starts before the callbacks of this one run, so that the disk does not idle.
        if self._asked:
            self._start_round()
        call_each(
            partial(done, error if error is not None or not isinstance(errors, dict) else errors.get(store))
            for store, callers in asked.items()
            for done in callers
        )


def _sync_each(stores: list[Store]) -> dict[Store, BaseException]:
    """Sync each store; returns those that failed, with their error."""
    errors: dict[Store, BaseException] = {}
    for store in stores:
        try:
            store.sync()
        except OSError as error:
            errors[store] = error
    return errors


class Executor:
    """Runs one core: feeds it events, and carries out its effects in the order in which it requested them."""

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
        # Each pending effect has the number of entries that must be durable before it is carried out.
        self._waiting: deque[tuple[int, Send | Reply | Apply | Persisted]] = deque()
        self._written = 0
        self._sync_asked = 0
        self._durable = 0
        self._letting_out = False
        self._closed = False

    @property
    def waiting(self) -> int:
        """Number of effects that wait for the disk."""
        return len(self._waiting)

    def step(self, event: Event) -> None:
        """Feed one event to the core; a closed executor ignores it."""
        if self._closed:
            return
        self._take(self.core.step(event, self._clock.monotonic_ns()))
        self._let_out()

    def close(self) -> None:
        """Stop: no more events are processed and no more effects are carried out."""
        self._closed = True
        self._waiting.clear()
        for key in self._timer_keys:
            self._timers.cancel((self, key))
        self._timer_keys.clear()

    def _take(self, effects: Sequence[Effect]) -> None:
        """Set timers and write entries at once; queue the other effects."""
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
            # A failed sync is never retried: the system may have dropped the pages and would report success
            # next time.
            self._fail(error)
            return
        self._durable = max(self._durable, written)
        self._let_out()

    def _fired(self, key: Hashable) -> None:
        self._timer_keys.discard(key)
        self.step(Fired(key))

    def _let_out(self) -> None:
        """Carry out the effects that no longer wait for the disk.

        Also their consequences, each after the effects before it.
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
        """No effect that follows a lost entry may be carried out: stop, and report it once."""
        self.failure = error
        self.close()
        self._on_failure(error)
