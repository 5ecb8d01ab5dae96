"""Fetches in a follower's session: they look at the partitions with news, and learn all of it."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.base.errors import ErrorCode
from barnabas.broker.replicas import fetch as fetch_module
from barnabas.broker.replicas import partition_reads
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.replica.fetch_sessions import SWEEP_NS
from barnabas.runtime.loop.promise import Promise
from tests.broker.worlds.data_world import World, batch_of, partition_answers, result_of

TOPIC = "orders"
VERSION = 12
WAIT_MS = 500


class Follower:
    """Broker 2 or 3, which has what it says."""

    def __init__(self, world: World, broker_id: int, partitions: int) -> None:
        self.world = world
        self.broker_id = broker_id
        self.session_id = 0
        self.epoch = 0
        self.offsets = dict.fromkeys(range(partitions), 0)
        self.ask(self.offsets, max_wait_ms=0)
        # The first fetch in a session looks at everything once more.
        self.ask({}, max_wait_ms=0)

    def ask(
        self, offsets: dict[int, int], *, max_wait_ms: int = WAIT_MS, forget: tuple[int, ...] = ()
    ) -> Any:
        """Fetch; names these partitions."""
        self.offsets |= offsets
        request = FetchRequest(
            replica_id=self.broker_id,
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            session_id=self.session_id,
            session_epoch=self.epoch,
            topics=[FetchRequest.Topic(topic=TOPIC, partitions=[self._wanted(index) for index in offsets])],
            forgotten_topics_data=[FetchRequest.ForgottenTopic(topic=TOPIC, partitions=list(forget))],
        )
        answer = self.world.fetch(request, VERSION)
        self.epoch += 1
        if not isinstance(answer, Promise):
            self.session_id = answer.session_id
        return answer

    def _wanted(self, index: int) -> FetchRequest.Partition:
        hosted = self.world.replicas.partitions[TOPIC, index]
        return FetchRequest.Partition(
            partition=index,
            current_leader_epoch=hosted.leader_epoch,
            fetch_offset=self.offsets[index],
            log_start_offset=0,
            partition_max_bytes=1 << 20,
        )

    @property
    def news(self) -> list[int]:
        session = self.world.replicas.sessions.get(self.session_id)
        assert session is not None
        return [index for _, index in session.news]


def replicated(partitions: int = 5, **options: str) -> tuple[World, Follower, Follower]:
    world = World(options=options)
    world.topic(TOPIC, partitions, replicas=(1, 2, 3))
    world.settle()
    return world, Follower(world, 2, partitions), Follower(world, 3, partitions)


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The partitions that are read from now on."""
    found: list[int] = []
    read = partition_reads.read

    def noting(replicas: Any, reader: Any, hosted: Any, *arguments: Any, **options: Any) -> Any:
        found.append(hosted.index)
        return read(replicas, reader, hosted, *arguments, **options)

    monkeypatch.setattr(fetch_module, "read", noting)
    return found


def indexes(response: Any) -> list[int]:
    return [index for _, index in partition_answers(response)]


def test_a_fetch_looks_at_partitions_with_news(monkeypatch: pytest.MonkeyPatch) -> None:
    world, second, _ = replicated()
    found = looked_at(monkeypatch)
    waiting = second.ask({})
    assert found == []
    world.produce(TOPIC, batch_of(b"x"), index=3)
    world.tick()
    assert indexes(result_of(waiting, VERSION)) == [3]
    assert found == [3]


def test_an_append_wakes_the_fetch_and_a_high_watermark_does_not() -> None:
    world, second, third = replicated()
    waiting = second.ask({})
    world.produce(TOPIC, batch_of(b"x"), index=1)
    world.tick()
    assert result_of(waiting, VERSION).responses
    waiting = second.ask({1: 1})
    third.ask({1: 1})
    assert world.log(TOPIC, 1).high_watermark == 1
    world.tick()
    assert not waiting.done
    world.tick(WAIT_MS)
    answers = partition_answers(result_of(waiting, VERSION))
    assert [(key[1], data.high_watermark) for key, data in answers.items()] == [(1, 1)]
    assert second.news == []


def test_records_behind_a_high_watermark_wake_the_fetch() -> None:
    """The partition has news already when they come."""
    world, second, third = replicated()
    world.produce(TOPIC, batch_of(b"x"), index=1)
    second.ask({1: 1}, max_wait_ms=0)
    waiting = second.ask({})
    third.ask({1: 1}, max_wait_ms=0)
    assert second.news == [1]
    world.produce(TOPIC, batch_of(b"y"), index=1)
    world.tick()
    assert indexes(result_of(waiting, VERSION)) == [1]


def test_another_leader_epoch_wakes_the_fetch() -> None:
    world, second, _ = replicated()
    waiting = second.ask({})
    world.partition_change(TOPIC, 4, leader=1, isr=[1, 2])
    world.settle()
    answers = partition_answers(result_of(waiting, VERSION))
    assert [(key[1], data.error_code) for key, data in answers.items()] == [
        (4, ErrorCode.FENCED_LEADER_EPOCH)
    ]
    assert second.news == [4], "until it names the partition in the new epoch"
    waiting = second.ask({4: 0})
    world.tick(WAIT_MS)
    answers = partition_answers(result_of(waiting, VERSION))
    assert [(key[1], data.error_code) for key, data in answers.items()] == [(4, 0)], "the error is over"
    assert second.news == []


def test_a_follower_outside_the_isr_is_looked_at_each_time() -> None:
    """It may join at any fetch: when it is unfenced, say, of which the partition learns nothing."""
    world, second, _ = replicated()
    world.partition_change(TOPIC, 0, isr=[1, 3])
    world.settle()
    second.ask({0: 0}, max_wait_ms=0)
    assert second.news == [0]


def test_a_moved_log_start_is_found() -> None:
    world, second, _ = replicated()
    for index in range(5):
        world.produce(TOPIC, batch_of(b"x"), index=index)
    second.ask(dict.fromkeys(range(5), 1), max_wait_ms=0)
    third = Follower(world, 3, 5)
    third.ask(dict.fromkeys(range(5), 1), max_wait_ms=0)
    second.ask({}, max_wait_ms=0)
    assert second.news == []
    world.log(TOPIC, 2).advance_log_start(1)  # as retention does
    assert second.ask({}, max_wait_ms=0).responses == []
    world.tick(SWEEP_NS // 1_000_000)
    answers = partition_answers(second.ask({}, max_wait_ms=0))
    assert [(key[1], data.log_start_offset) for key, data in answers.items()] == [(2, 1)]


def test_an_idle_follower_that_fetches_is_not_behind() -> None:
    """Its fetches look at nothing; the first append after a long time finds it in sync."""
    world, second, third = replicated(1, **{"replica.lag.time.max.ms": "10000"})
    for _ in range(60):
        second.ask({}, max_wait_ms=0)
        third.ask({}, max_wait_ms=0)
        world.tick(WAIT_MS)
    world.produce(TOPIC, batch_of(b"x"))
    hosted = world.replicas.partitions[TOPIC, 0]
    assert not hosted.propose_leaving(world.replicas.now_ns())
    world.clock.now_ms += 10_000
    assert hosted.propose_leaving(world.replicas.now_ns()), "it has not fetched since"


def test_forgotten_partitions_and_closed_sessions_are_not_told() -> None:
    world, second, third = replicated()
    hosted = world.replicas.partitions[TOPIC, 2]
    assert len(hosted.watchers) == 2
    second.ask({}, max_wait_ms=0, forget=(2,))
    assert [cached.session.replica_id for cached in hosted.watchers] == [3]
    world.produce(TOPIC, batch_of(b"x"), index=2)
    assert second.news == []
    third.epoch = -1  # closes it
    third.ask({}, max_wait_ms=0)
    assert hosted.watchers == ()
