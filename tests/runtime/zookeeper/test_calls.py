"""The order in which calls are sent and their promises settled."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.runtime.loop.promise import Promise
from barnabas.runtime.zookeeper import calls as module
from barnabas.runtime.zookeeper.calls import Call, Calls
from barnabas.runtime.zookeeper.client import ZooKeeperCode, ZooKeeperError
from barnabas.runtime.zookeeper.requests import GetData


class World:
    """Calls whose answers the test gives."""

    def __init__(self, max_in_flight: int = 2) -> None:
        self.sent: list[Call[Any]] = []
        self.settled: list[object] = []
        self.calls = Calls(max_in_flight, self.sent.append, lambda error: error)
        self.calls.open()

    def call(self, path: str) -> Promise[object]:
        promise = self.calls.add(Call(GetData(path), lambda value: value))
        promise.then(
            self.settled.append, lambda error: self.settled.append((path, getattr(error, "code", None)))
        )
        return promise

    @property
    def paths(self) -> list[str]:
        return [call.request.path for call in self.sent]


def test_a_bounded_number_is_sent_and_more_follow() -> None:
    world = World()
    for path in "abcd":
        world.call(path)
    assert world.paths == ["a", "b"]
    world.calls.answered(world.sent[0], 1, None)
    assert world.paths == ["a", "b", "c"]
    assert world.settled == [1]


def test_promises_wait_for_earlier_ones() -> None:
    world = World()
    for path in "abc":
        world.call(path)
    world.calls.answered(world.sent[1], "b", None)
    assert world.settled == []
    world.calls.answered(world.sent[0], "a", None)
    assert world.settled == ["a", "b"]
    # A second answer changes nothing.
    world.calls.answered(world.sent[0], "other", None)
    assert world.settled == ["a", "b"]


def test_a_lost_connection_stops_the_sending_before_the_owner_hears_of_it() -> None:
    world = World()
    for path in "abcd":
        world.call(path)
    loss = ZooKeeperError(ZooKeeperCode.CONNECTION_LOSS, "a")
    world.calls.answered(world.sent[0], None, loss)
    assert world.paths == ["a", "b"]
    world.calls.answered(world.sent[1], None, loss)
    world.calls.fail_waiting(ZooKeeperCode.CONNECTION_LOSS)
    assert world.settled == [(path, ZooKeeperCode.CONNECTION_LOSS) for path in "abcd"]
    # What is called from now on waits for the next connection.
    world.call("e")
    assert world.paths == ["a", "b"]
    world.calls.open()
    assert world.paths == ["a", "b", "e"]


def test_calls_made_by_callbacks_come_after_all_others() -> None:
    world = World()
    expired = ZooKeeperCode.SESSION_EXPIRED
    world.call("a").then(world.settled.append, lambda _: world.settled.append(world.call("x").done))
    world.call("b")
    world.calls.fail_all(expired)
    # The call of the callback was not failed with the others: it is a new one.
    assert world.settled == [("a", expired), False, ("b", expired)]
    assert world.paths == ["a", "b", "x"]
    world.calls.answered(world.sent[2], "later", None)
    assert world.settled[-1] == "later"


def test_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CALLS_MAX", 3)
    world = World()
    for path in "abcd":
        world.call(path)
    assert world.settled == [("d", ZooKeeperCode.THROTTLED)]
    assert len(world.calls) == 3
