"""An executor on a reactor: a core whose entries are synced on a thread, and a store that fails."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence

import pytest

from barnabas.base.effects import Effect, Event, Persist, Reply, Requested
from barnabas.base.units import NS_PER_S
from barnabas.runtime.loop.reactor import Reactor
from barnabas.runtime.loop.reactor_executor import executor_on


class _Core:
    def step(self, event: Event, now_ns: int) -> Sequence[Effect]:
        assert isinstance(event, Requested)
        return [Persist(event.message), Reply(event.reply_to, "stored")]


class _Store:
    def __init__(self) -> None:
        self.synced_by: threading.Thread | None = None
        self.failure: OSError | None = None

    def write(self, entry: object) -> None:
        if self.failure is not None:
            raise self.failure

    def sync(self) -> None:
        self.synced_by = threading.current_thread()


class _Exits:
    def __init__(self) -> None:
        self.replies: list[tuple[Hashable, object]] = []

    def send(self, to: int, message: object) -> None:
        raise AssertionError("the core sends nothing")

    def apply(self, decided: object) -> None:
        raise AssertionError("the core decides nothing")

    def reply(self, to: Hashable, message: object) -> None:
        self.replies.append((to, message))


@pytest.fixture
def reactor() -> Iterator[Reactor]:
    reactor = Reactor()
    yield reactor
    reactor.close()


def test_an_entry_is_synced_on_another_thread_before_the_reply(reactor: Reactor) -> None:
    store, exits = _Store(), _Exits()
    executor = executor_on(reactor, _Core(), store, exits)
    executor.step(Requested("client", "entry"))
    assert exits.replies == []
    while not exits.replies:
        reactor.serve(NS_PER_S)
    assert exits.replies == [("client", "stored")]
    assert store.synced_by not in (None, threading.current_thread())


def test_a_store_that_fails_ends_the_process(reactor: Reactor) -> None:
    store = _Store()
    store.failure = OSError("the disk is full")
    executor = executor_on(reactor, _Core(), store, _Exits())
    with pytest.raises(SystemExit) as ended:
        executor.step(Requested("client", "entry"))
    assert ended.value.code == "the disk is full"
