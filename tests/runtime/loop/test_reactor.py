"""The reactor: order of work in a tick, fairness, wake-ups, faults, the stall metric."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from functools import partial

import pytest

from barnabas.runtime.loop import reactor as reactor_module
from barnabas.runtime.loop.poller import READ, WRITE, make_poller
from barnabas.runtime.loop.reactor import TICK_BUDGET_NS, TIMERS_PER_TURN, Reactor


class StepClock:
    """A clock that moves only when the test moves it."""

    def __init__(self) -> None:
        self.now_ns = 0

    def wall_ms(self) -> int:
        return self.now_ns // 1_000_000

    def monotonic_ns(self) -> int:
        return self.now_ns


@pytest.fixture(params=[None, "select"])
def reactor(request: pytest.FixtureRequest) -> Iterator[Reactor]:
    reactor = Reactor(poller=make_poller(request.param))
    yield reactor
    reactor.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        one.setblocking(False)
        other.setblocking(False)
        yield one, other


def test_a_watched_socket_is_served_inside_serve(
    reactor: Reactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    one, other = pair
    seen: list[bytes] = []
    watch = reactor.watch(one.fileno(), lambda: seen.append(one.recv(10)), lambda: None)
    reactor.want(watch, READ)
    other.send(b"hello")
    assert reactor.serve(0) == []
    assert seen == [b"hello"]


def test_descriptors_of_asyncio_are_returned(
    reactor: Reactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    one, other = pair
    reactor.poller.register(one.fileno(), READ)
    other.send(b"x")
    assert reactor.serve(None) == [(one.fileno(), READ)]


def test_a_socket_can_be_closed_by_its_own_handler(
    reactor: Reactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    one, other = pair
    written: list[str] = []

    def on_readable() -> None:
        reactor.forget(watch)
        one.close()

    watch = reactor.watch(one.fileno(), on_readable, lambda: written.append("must not happen"))
    reactor.want(watch, READ | WRITE)
    other.send(b"x")
    reactor.serve(0)
    assert written == []
    reactor.forget(watch)  # No error when called twice.


def test_wanting_nothing_silences_even_a_broken_connection(
    reactor: Reactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    one, other = pair
    calls: list[int] = []
    watch = reactor.watch(one.fileno(), lambda: calls.append(1), lambda: calls.append(2))
    reactor.want(watch, READ)
    reactor.want(watch, 0)
    other.close()
    assert reactor.serve(0) == []
    assert calls == []


def test_a_descriptor_is_watched_once(reactor: Reactor, pair: tuple[socket.socket, socket.socket]) -> None:
    reactor.watch(pair[0].fileno(), lambda: None, lambda: None)
    with pytest.raises(ValueError, match="watched already"):
        reactor.watch(pair[0].fileno(), lambda: None, lambda: None)


def test_tick_end_comes_after_sockets_and_timers(
    reactor: Reactor, pair: tuple[socket.socket, socket.socket]
) -> None:
    one, other = pair
    order: list[str] = []

    def on_readable() -> None:
        one.recv(1)
        order.append("socket")
        reactor.at_tick_end(partial(order.append, "tick end"))

    reactor.want(reactor.watch(one.fileno(), on_readable, lambda: None), READ)
    reactor.timers.set("timer", 0, partial(order.append, "timer"))
    other.send(b"x")
    reactor.serve(0)
    assert order == ["socket", "timer", "tick end"]


def test_an_end_of_tick_action_from_outside_a_tick_runs_before_waiting(reactor: Reactor) -> None:
    done: list[int] = []
    reactor.at_tick_end(partial(done.append, 1))
    reactor.at_tick_end(reactor.interrupt)
    reactor.serve(None)
    assert done == [1]


def test_timers_end_the_wait(reactor: Reactor) -> None:
    fired: list[int] = []

    def fire() -> None:
        fired.append(1)
        reactor.interrupt()

    reactor.timers.set("soon", reactor.clock.monotonic_ns() + 2_000_000, fire)
    reactor.serve(None)
    assert fired == [1]


def test_other_threads_wake_the_loop_and_their_actions_run_here(reactor: Reactor) -> None:
    ran_on: list[threading.Thread] = []
    last = threading.Event()

    def action() -> None:
        ran_on.append(threading.current_thread())
        if len(ran_on) == 200:
            reactor.interrupt()

    def post_many() -> None:
        for _ in range(100):
            reactor.post(action)
        last.set()

    threads = [threading.Thread(target=post_many) for _ in range(2)]
    for thread in threads:
        thread.start()
    reactor.serve(None)
    for thread in threads:
        thread.join()
    assert len(ran_on) == 200
    assert set(ran_on) == {threading.current_thread()}


def test_posting_to_a_closed_reactor_does_no_harm() -> None:
    reactor = Reactor()
    reactor.close()
    reactor.post(lambda: None)


def test_an_error_in_one_action_does_not_stop_the_others(reactor: Reactor) -> None:
    faults: list[Exception] = []
    done: list[int] = []
    reactor.on_error = faults.append

    def fail() -> None:
        raise RuntimeError("planted")

    reactor.at_tick_end(fail)
    reactor.at_tick_end(partial(done.append, 1))
    reactor.post(fail)
    reactor.post(partial(done.append, 2))
    reactor.timers.set("bad", 0, fail)
    reactor.serve(0)
    assert done == [1, 2]
    assert [str(fault) for fault in faults] == ["planted"] * 3


def test_without_an_owner_an_error_is_raised(reactor: Reactor) -> None:
    def fail() -> None:
        raise RuntimeError("planted")

    reactor.at_tick_end(fail)
    with pytest.raises(RuntimeError, match="planted"):
        reactor.serve(0)


def test_busy_sockets_do_not_starve_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick that exceeds its budget ends; sockets it did not serve come first in the next."""
    clock = StepClock()
    reactor = Reactor(clock=clock)
    monkeypatch.setattr(reactor_module, "TICK_BUDGET_NS", 10)
    pairs = [socket.socketpair() for _ in range(40)]
    served: list[int] = []

    def on_readable(number: int) -> None:
        served.append(number)
        clock.now_ns += 1

    for number, (one, other) in enumerate(pairs):
        other.send(b"x")
        watch = reactor.watch(one.fileno(), partial(on_readable, number), lambda: None)
        reactor.want(watch, READ)
    timer: list[int] = []
    reactor.timers.set("timer", 0, lambda: timer.append(len(served)))
    reactor.serve(0)
    assert timer == [12]
    for _ in range(3):
        reactor.serve(0)
    assert set(served[:40]) == set(range(40))
    reactor.close()
    for one, other in pairs:
        one.close()
        other.close()


def test_the_longest_stall_is_measured() -> None:
    clock = StepClock()
    reactor = Reactor(clock=clock)

    def slow() -> None:
        clock.now_ns += 70_000_000

    reactor.at_tick_end(slow)
    reactor.serve(0)
    assert reactor.take_longest_stall_ns() == 0  # Not yet in a tick: no socket waited.
    reactor.post(slow)
    reactor.serve(0)
    reactor.serve(0)
    assert reactor.take_longest_stall_ns() == 70_000_000
    assert reactor.take_longest_stall_ns() == 0
    reactor.close()


class Slow:
    """Actions that take a while each, and note that they ran."""

    def __init__(self, clock: StepClock, reactor: Reactor) -> None:
        self.ran = 0
        self._clock = clock
        self._reactor = reactor

    def act(self) -> None:
        self.ran += 1
        self._clock.now_ns += TICK_BUDGET_NS * 3 // 4

    def add(self, kind: str, number: int) -> None:
        if kind == "timer":
            self._reactor.timers.set(number, 0, self.act)
        elif kind == "posted":
            self._reactor.post(self.act)
        else:
            self._reactor.at_tick_end(self.act)


@pytest.mark.parametrize("kind", ["posted", "tick end"])
def test_a_tick_ends_when_its_time_is_over(kind: str) -> None:
    """F9, of its kind: a hundred slow actions that come together must not hold the sockets for all of them."""
    clock = StepClock()
    reactor = Reactor(clock=clock)
    slow = Slow(clock, reactor)

    def add_all() -> None:
        for number in range(6):
            slow.add(kind, number)

    reactor.post(add_all)
    reactor.serve(0)
    before = slow.ran
    reactor.take_longest_stall_ns()
    while slow.ran < 6:
        reactor.serve(0)
    reactor.serve(0)
    assert before <= 2
    # `serve` itself ends what asyncio has left, and then a tick of its own.
    assert reactor.take_longest_stall_ns() <= 3 * TICK_BUDGET_NS
    reactor.close()


def test_many_timers_are_fired_in_turns() -> None:
    clock = StepClock()
    reactor = Reactor(clock=clock)
    slow = Slow(clock, reactor)
    for number in range(3 * TIMERS_PER_TURN):
        slow.add("timer", number)
    reactor.serve(0)
    assert slow.ran == TIMERS_PER_TURN
    reactor.serve(0)
    reactor.serve(0)
    assert slow.ran == 3 * TIMERS_PER_TURN
    reactor.close()


def test_a_tick_is_measured_by_its_own_processor_time() -> None:
    reactor = Reactor()
    ticks: list[int] = []
    reactor.on_tick = ticks.append

    def work() -> None:
        sum(range(100_000))

    reactor.post(work)
    reactor.serve(0)
    assert len(ticks) == 1 and ticks[0] > 0
    reactor.close()


def test_a_post_while_a_wake_up_is_read_loses_no_later_one() -> None:
    """A byte that is read together with an earlier one must not leave the reactor deaf."""
    reactor = Reactor()
    ran: list[str] = []
    receiver = reactor._wake_receiver

    class Meddling:
        """Posts, as another thread could, at the moment when the bytes are read."""

        def recv(self, size: int) -> bytes:
            reactor._wake_receiver = receiver
            reactor.post(lambda: ran.append("meanwhile"))
            return receiver.recv(size)

    reactor._wake_receiver = Meddling()  # type: ignore[assignment]
    reactor.post(lambda: ran.append("first"))
    reactor.serve(0)
    assert ran == ["first", "meanwhile"]
    reactor.post(reactor.interrupt)
    assert receiver.recv(1, socket.MSG_PEEK), "nothing would wake the reactor"
    reactor.serve(None)
    reactor.close()


class Waits:
    """A poller that finds what the test says, records its timeouts, and takes as long as the test says."""

    kind = "noting"

    def __init__(self, clock: StepClock) -> None:
        self.clock = clock
        self.asked: list[int | None] = []
        self.takes_ns = 0
        self.found: list[tuple[int, int]] = []

    def register(self, fd: int, mask: int) -> None: ...

    def modify(self, fd: int, mask: int) -> None: ...

    def unregister(self, fd: int) -> None: ...

    def poll(self, timeout_ns: int | None) -> list[tuple[int, int]]:
        self.asked.append(timeout_ns)
        if timeout_ns != 0:
            self.clock.now_ns += self.takes_ns
        return self.found

    def close(self) -> None: ...


def test_after_a_short_wait_it_polls_a_few_times_before_it_sleeps() -> None:
    clock = StepClock()
    poller = Waits(clock)
    reactor = Reactor(poller=poller, clock=clock)

    def asked_within(takes_ns: int) -> list[int | None]:
        poller.asked.clear()
        poller.takes_ns = takes_ns
        reactor.interrupt()
        reactor.serve(takes_ns)
        return list(poller.asked)

    long_ns = 5 * reactor_module.SHORT_WAIT_NS
    short_ns = reactor_module.SHORT_WAIT_NS // 2
    looks = [0] * reactor_module.LOOKS_BEFORE_SLEEP
    assert asked_within(long_ns) == [long_ns]
    assert asked_within(short_ns) == [short_ns]
    assert asked_within(long_ns) == [*looks, long_ns]
    assert asked_within(long_ns) == [long_ns]
    reactor.close()


def test_polling_in_vain_is_left_out_more_and_more_often() -> None:
    """A broker that waits for others 50 µs at a time would spend more on looking than on its work."""
    clock = StepClock()
    poller = Waits(clock)
    reactor = Reactor(poller=poller, clock=clock)
    short_ns = poller.takes_ns = reactor_module.SHORT_WAIT_NS // 2

    def polls() -> bool:
        poller.asked.clear()
        reactor.interrupt()
        reactor.serve(short_ns)
        return 0 in poller.asked

    polls()
    assert [polls() for _ in range(12)] == [number in (0, 2, 6) for number in range(12)]
    while not polls():
        continue
    poller.found = [(99, READ)]
    while not polls():
        continue
    poller.found = []
    assert polls(), "it was worth it the last time"
    reactor.close()


def test_what_is_found_by_polling_before_a_sleep_is_served() -> None:
    clock = StepClock()
    poller = Waits(clock)
    reactor = Reactor(poller=poller, clock=clock)
    poller.takes_ns = reactor_module.SHORT_WAIT_NS // 2
    reactor.serve(poller.takes_ns)
    poller.asked.clear()
    poller.found = [(99, READ)]
    assert reactor.serve(poller.takes_ns) == [(99, READ)], "a descriptor of asyncio"
    assert poller.asked == [0]
    reactor.close()
