"""The reactor: one thread that serves the data path's sockets, timers, and actions posted by other threads.

Contains the loop's order of work and its fairness.  The bytes on the sockets belong in `network`;
`event_loop` puts an asyncio loop on top of this one.  Several brokers may share one reactor.

A tick: wait for readiness; serve the sockets; fire timers; run the actions that other threads posted; run the
end-of-tick actions (coalesced writes, completed long polls).  Descriptors that are not watched here belong to
asyncio and are returned to it.
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from collections.abc import Callable

from barnabas.runtime.clock import Clock, SystemClock, thread_cpu_ns
from barnabas.runtime.loop.poller import READ, WRITE, Poller, make_poller
from barnabas.runtime.loop.timers import MAX_FIRED_PER_CALL, Timers

Action = Callable[[], None]

# A tick that has lasted this long ends as soon as each of its parts has had a turn; the remaining work comes
# first in the same part of the next tick.
TICK_BUDGET_NS = 10_000_000
# How many timers run between two readings of the clock.
TIMERS_PER_TURN = 16
# End-of-tick actions may add more end-of-tick actions; at most this many rounds run before the others get
# their turn.
MAX_TICK_END_ROUNDS = 8
# Falling asleep and waking up takes some forty microseconds, longer than most requests.  A client that sends
# its next request at once, with one in flight, is served twice as fast if the loop stays awake for this long:
# only after a short wait, so that an idle loop sleeps as usual.  To stay awake in vain costs as much as a
# small request: after each time this is left out twice as often, up to MAX_SLEEPS short waits.
SHORT_WAIT_NS = 100_000
LOOKS_BEFORE_SLEEP = 40
MAX_SLEEPS = 64
_WAKE_BYTES = 4096


class Watch:
    """One descriptor of the data path.  Created by `Reactor.watch`."""

    __slots__ = ("fd", "mask", "on_readable", "on_writable")

    def __init__(self, fd: int, on_readable: Action, on_writable: Action) -> None:
        self.fd = fd
        self.mask = 0
        self.on_readable = on_readable
        self.on_writable = on_writable


class Reactor:
    """Owns the poller and the timers of one thread."""

    def __init__(self, *, poller: Poller | None = None, clock: Clock | None = None) -> None:
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.poller: Poller = poller if poller is not None else make_poller()
        self.timers = Timers()
        self.on_error: Callable[[Exception], None] = _raise
        self.longest_stall_ns = 0
        self.ticks = 0
        # Told how much processor time each tick took.  For tests: to ask the system twice a tick costs as
        # much as a small request.
        self.on_tick: Callable[[int], None] | None = None
        self._watches: dict[int, Watch] = {}
        self._ready: deque[tuple[int, int]] = deque()
        self._tick_end: list[Action] = []
        self._posted: deque[Action] = deque()
        self._interrupted = False
        self._busy_since_ns: int | None = None
        self._wake_pending = False
        self._last_wait_ns = SHORT_WAIT_NS
        # Short waits in which to sleep at once: how many are left, and how many they were.
        self._sleeps_left = 0
        self._sleeps = 0
        self._wake_receiver, self._wake_sender = socket.socketpair()
        self._wake_receiver.setblocking(False)
        self._wake_sender.setblocking(False)
        wake = self.watch(self._wake_receiver.fileno(), self._on_wake, _nothing)
        self.want(wake, READ)

    # ------------------------------------------------------------------------------------ for the data path

    def watch(self, fd: int, on_readable: Action, on_writable: Action) -> Watch:
        """Register a descriptor; nothing is reported before `want`."""
        if fd in self._watches:
            raise ValueError(
                f"descriptor {fd} is watched already; forget the earlier watch before closing it"
            )
        watch = self._watches[fd] = Watch(fd, on_readable, on_writable)
        return watch

    def want(self, watch: Watch, mask: int) -> None:
        """Change what is reported: READ, WRITE, both, or 0.

        With 0 the descriptor is removed from the poller: some pollers report a broken connection again and
        again even if no event is requested.
        """
        previous = watch.mask
        if mask == previous:
            return
        watch.mask = mask
        if not previous:
            self.poller.register(watch.fd, mask)
        elif mask:
            self.poller.modify(watch.fd, mask)
        else:
            self.poller.unregister(watch.fd)

    def forget(self, watch: Watch) -> None:
        """Must be called before the descriptor is closed."""
        if self._watches.get(watch.fd) is watch:
            self.want(watch, 0)
            del self._watches[watch.fd]

    def at_tick_end(self, action: Action) -> None:
        """Run after this tick's sockets and timers."""
        self._tick_end.append(action)

    def post(self, action: Action) -> None:
        """Run on the reactor's thread, soon.  The only method that any thread may call."""
        self._posted.append(action)
        if not self._wake_pending:
            self._wake_pending = True
            try:
                self._wake_sender.send(b"\0")
            except OSError:
                # Full: the loop wakes up anyway.  Closed: posted actions are no longer run.
                return

    def take_longest_stall_ns(self) -> int:
        """The longest time since the last call during which the loop did not serve its sockets."""
        stall_ns, self.longest_stall_ns = self.longest_stall_ns, 0
        return stall_ns

    # --------------------------------------------------------------------------------------- for the owner

    def interrupt(self) -> None:
        """Make `serve` return after this tick: asyncio has work."""
        self._interrupted = True

    def serve(self, timeout_ns: int | None) -> list[tuple[int, int]]:
        """Serve the data path until asyncio has work, or the timeout expires.

        Returns the ready descriptors that belong to asyncio.
        """
        self._interrupted = False
        self._run_tick_end(self.clock.monotonic_ns() + TICK_BUDGET_NS)
        until_ns = None if timeout_ns is None else self.clock.monotonic_ns() + timeout_ns
        while True:
            foreign = self._tick(until_ns)
            if foreign or self._interrupted:
                return foreign
            if until_ns is not None and self.clock.monotonic_ns() >= until_ns:
                return foreign

    def close(self) -> None:
        """Close the poller and the wake-up pair; watched descriptors stay open and belong to their owners."""
        self._watches.clear()
        self.poller.close()
        self._wake_receiver.close()
        self._wake_sender.close()

    # -------------------------------------------------------------------------------------------- the tick

    def _tick(self, until_ns: int | None) -> list[tuple[int, int]]:
        entered_ns = self.clock.monotonic_ns()
        if self._busy_since_ns is not None:
            self.longest_stall_ns = max(self.longest_stall_ns, entered_ns - self._busy_since_ns)
        found = self._poll(self._wait_ns(entered_ns, until_ns))
        self.ticks += 1
        self._busy_since_ns = woken_ns = self.clock.monotonic_ns()
        self._last_wait_ns = woken_ns - entered_ns
        if self.on_tick is not None:
            return self._measured(self.on_tick, found, woken_ns)
        return self._work(found, woken_ns)

    def _work(self, found: list[tuple[int, int]], woken_ns: int) -> list[tuple[int, int]]:
        until_ns = woken_ns + TICK_BUDGET_NS
        foreign = self._serve_sockets(found, until_ns)
        self._fire_timers(until_ns)
        if self._posted:
            self._run_posted(until_ns)
        if self._tick_end:
            self._run_tick_end(until_ns)
        return foreign

    def _measured(
        self, on_tick: Callable[[int], None], found: list[tuple[int, int]], woken_ns: int
    ) -> list[tuple[int, int]]:
        began_ns = thread_cpu_ns()
        foreign = self._work(found, woken_ns)
        on_tick(thread_cpu_ns() - began_ns)
        return foreign

    def _poll(self, wait_ns: int | None) -> list[tuple[int, int]]:
        """Wait for readiness.  If the last wait was short, poll a few times before going to sleep."""
        if wait_ns == 0 or self._last_wait_ns >= SHORT_WAIT_NS:
            return self.poller.poll(wait_ns)
        if self._sleeps_left:
            self._sleeps_left -= 1
            return self.poller.poll(wait_ns)
        poll = self.poller.poll
        for _ in range(LOOKS_BEFORE_SLEEP):
            found = poll(0)
            if found:
                self._sleeps = 0
                return found
        self._sleeps_left = self._sleeps = min(2 * self._sleeps + 1, MAX_SLEEPS)
        return poll(wait_ns)

    def _wait_ns(self, now_ns: int, until_ns: int | None) -> int | None:
        if self._ready or self._tick_end or self._posted or self._interrupted:
            return 0
        due_ns = self.timers.next_deadline_ns()
        if due_ns is None:
            due_ns = until_ns
        elif until_ns is not None:
            due_ns = min(due_ns, until_ns)
        return None if due_ns is None else max(0, due_ns - now_ns)

    def _serve_sockets(self, found: list[tuple[int, int]], until_ns: int) -> list[tuple[int, int]]:
        foreign: list[tuple[int, int]] = []
        watches = self._watches
        ready = self._ready
        if ready:
            # Sockets left over from the last tick come first; readiness in both lists is harmless, since
            # reads never block.
            left = {fd for fd, _ in ready}
            ready.extend(pair for pair in found if pair[0] not in left)
        else:
            ready.extend(found)
        served = 0
        while ready:
            fd, mask = ready.popleft()
            watch = watches.get(fd)
            if watch is None:
                foreign.append((fd, mask))
                continue
            self._serve_socket(watch, mask)
            served += 1
            if not served & 3 and self.clock.monotonic_ns() > until_ns:
                break
        return foreign

    def _serve_socket(self, watch: Watch, mask: int) -> None:
        try:
            if mask & watch.mask & READ:
                watch.on_readable()
            # The first callback may have closed or paused it.
            if mask & watch.mask & WRITE:
                watch.on_writable()
        except Exception as error:
            self.on_error(error)

    def _fire_timers(self, until_ns: int) -> None:
        now_ns = self.clock.monotonic_ns()
        try:
            for _ in range(MAX_FIRED_PER_CALL // TIMERS_PER_TURN):
                fired = self.timers.fire_due(now_ns, TIMERS_PER_TURN)
                if fired < TIMERS_PER_TURN or self.clock.monotonic_ns() > until_ns:
                    return
        except Exception as error:
            self.on_error(error)

    def _run_posted(self, until_ns: int) -> None:
        # Only the current actions: actions that post more actions must not keep the sockets waiting.
        for _ in range(len(self._posted)):
            self._run(self._posted.popleft())
            if self.clock.monotonic_ns() > until_ns:
                return

    def _run_tick_end(self, until_ns: int) -> None:
        for _ in range(MAX_TICK_END_ROUNDS):
            if not self._tick_end:
                return
            actions, self._tick_end = self._tick_end, []
            for done, action in enumerate(actions, 1):
                self._run(action)
                is_last = done == len(actions) and not self._tick_end
                if not is_last and self.clock.monotonic_ns() > until_ns:
                    self._tick_end[:0] = actions[done:]
                    return

    def _run(self, action: Action) -> None:
        try:
            action()
        except Exception as error:
            self.on_error(error)

    def _on_wake(self) -> None:
        # In this order: a byte sent after clearing the flag would be swallowed here and leave the flag set,
        # and the reactor would never be woken again.
        with contextlib.suppress(BlockingIOError):
            self._wake_receiver.recv(_WAKE_BYTES)
        self._wake_pending = False


def _nothing() -> None:
    """The wake-up pair is never written to from here."""


def _raise(error: Exception) -> None:
    raise error
