"""Whose handshake is computed next, and which are not computed at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.runtime.tls.handshakes import CONCURRENT_HANDSHAKES, Handshakes, HandshakeTask


class Workers:
    """Workers whose work is done when a test says so."""

    def __init__(self) -> None:
        self.busy: list[tuple[Callable[[], object], Callable[[object, BaseException | None], None]]] = []

    def submit(
        self, work: Callable[[], object], done: Callable[[object, BaseException | None], None], /
    ) -> None:
        self.busy.append((work, done))

    def finish_one(self) -> None:
        work, done = self.busy.pop(0)
        done(work(), None)


class Shaking:
    """The handshakes of named connections, in the order in which they were computed."""

    def __init__(self, workers: Any) -> None:
        self.handshakes = Handshakes(workers)
        self.computed: list[str] = []
        self.reported: list[str] = []
        self.closed: set[str] = set()

    def submit(self, name: str, *, is_urgent: bool = False) -> None:
        task = HandshakeTask(
            lambda: self.computed.append(name),
            lambda _result, _error: self.reported.append(name),
            lambda: name not in self.closed,
        )
        self.handshakes.submit(task, is_urgent=is_urgent)


def test_only_a_few_are_computed_at_once() -> None:
    workers = Workers()
    shaking = Shaking(workers)
    for number in range(10):
        shaking.submit(f"{number}")
    assert len(workers.busy) == CONCURRENT_HANDSHAKES
    while workers.busy:
        workers.finish_one()
        assert len(workers.busy) <= CONCURRENT_HANDSHAKES
    assert shaking.computed == shaking.reported == [f"{number}" for number in range(10)]


def test_this_nodes_own_connections_do_not_wait_behind_strangers() -> None:
    workers = Workers()
    shaking = Shaking(workers)
    for number in range(100):
        shaking.submit(f"stranger {number}")
    shaking.submit("to the controller", is_urgent=True)
    for _ in range(CONCURRENT_HANDSHAKES + 1):
        workers.finish_one()
    assert shaking.computed[-1] == "to the controller"


def test_what_is_closed_meanwhile_costs_nothing() -> None:
    workers = Workers()
    shaking = Shaking(workers)
    for name in ("a", "b", "c", "d", "e"):
        shaking.submit(name)
    shaking.closed = {"c", "d"}
    while workers.busy:
        workers.finish_one()
    assert shaking.computed == ["a", "b", "e"]


def test_without_workers_they_are_computed_at_once() -> None:
    shaking = Shaking(None)
    shaking.submit("a")
    assert shaking.reported == ["a"]


def test_a_step_that_fails_is_reported() -> None:
    failures: list[BaseException | None] = []
    handshakes = Handshakes(None)
    task = HandshakeTask(lambda: int("x"), lambda _result, error: failures.append(error), lambda: True)
    handshakes.submit(task)
    assert isinstance(failures[0], ValueError)
