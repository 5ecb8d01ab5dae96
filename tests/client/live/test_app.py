"""Handlers on a broker: order by key, retries, dead letters, commits after the work, graceful ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.client import App, Consumer, ConsumerRecord, Producer, TopicPartition
from barnabas.client import errors as client_errors
from barnabas.client.errors.local import HandlerError
from barnabas.client.serialization import JSON, STRING
from barnabas.config.errors import ConfigError
from tests.client.live.work import Run, make_topic

QUICK: dict[str, Any] = {"fetch_max_wait_ms": 50, "heartbeat_interval_ms": 100, "session_timeout_ms": 6_000}


async def fill(bootstrap: str, topic: str, *records: tuple[bytes, bytes | None]) -> None:
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for value, key in records:
            await producer.send_and_wait(topic, value, key)


async def committed(bootstrap: str, group: str, topic: str) -> int | None:
    async with Consumer(bootstrap_servers=bootstrap, group_id=group) as consumer:
        found = (await consumer.committed([TopicPartition(topic, 0)]))[TopicPartition(topic, 0)]
        return None if found is None else found.offset


def test_order_by_key_beside_other_keys(bootstrap: str, topic: str, group: str, run: Run) -> None:
    """The first record of `a` waits; those of `b` pass it, the second one of `a` does not."""

    async def work() -> None:
        await make_topic(bootstrap, topic)
        records = [(b"a1", b"a"), (b"b1", b"b"), (b"a2", b"a"), (b"b2", b"b"), (b"n", None)]
        await fill(bootstrap, topic, *records)
        app = App(bootstrap_servers=bootstrap, group_id=group, **QUICK)
        began: list[str] = []
        others = asyncio.Event()

        @app.handler(topic, value=STRING, concurrency=3)
        async def handle(record: ConsumerRecord[bytes, str]) -> None:
            began.append(record.value)
            if record.value == "a1":
                await others.wait()
            if {"b2", "n"} <= set(began):
                others.set()
            if record.value == "a2":
                app.stop()

        await app.run()
        assert began.index("a2") == 4, began
        assert began.index("b1") < began.index("b2")
        assert await committed(bootstrap, group, topic) == 5

    run(work())


def test_retries_and_dead_letters(
    bootstrap: str, topic: str, group: str, fresh_name: Callable[[], str], run: Run
) -> None:
    async def work() -> None:
        dead = fresh_name()
        await make_topic(bootstrap, topic)
        await make_topic(bootstrap, dead)
        await fill(bootstrap, topic, (b'{"n": 1}', b"k"), (b"no json", b"k"), (b'{"n": 3}', None))
        app = App({"bootstrap.servers": bootstrap}, group_id=group, **QUICK)
        calls: list[int] = []

        @app.handler(topic, value=JSON, retries=2, retry_pause_ms=1, dead_letters=dead)
        def handle(record: ConsumerRecord[bytes, Any]) -> None:
            """A plain function, on a thread."""
            calls.append(record.value["n"])
            if calls.count(1) < 3:
                raise ZeroDivisionError("not yet")
            if record.value["n"] == 3:
                app.stop()

        await app.run()
        assert calls == [1, 1, 1, 3]
        async with Consumer(dead, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            record = await consumer.getone()
        assert (record.key, record.value) == (b"k", b"no json")
        headers = dict(record.headers)
        assert headers["dead-letter.topic"] == topic.encode()
        assert headers["dead-letter.offset"] == b"1"
        assert (headers["dead-letter.error"] or b"").startswith(b"JSONDecodeError")
        assert await committed(bootstrap, group, topic) == 3

    run(work())


def test_without_dead_letters_nothing_is_skipped(bootstrap: str, topic: str, group: str, run: Run) -> None:
    """The app ends with the error; a second run begins with the record that failed."""

    async def work() -> None:
        await make_topic(bootstrap, topic)
        await fill(bootstrap, topic, (b"fine", b"a"), (b"bad", b"b"), (b"behind", b"b"))
        app = App(bootstrap_servers=bootstrap, group_id=group, **QUICK)
        seen: list[bytes] = []
        is_repaired = False

        @app.handler(topic)
        async def handle(record: ConsumerRecord) -> None:
            seen.append(record.value)
            if record.value == b"bad" and not is_repaired:
                raise ValueError("no good")
            if record.value == b"behind":
                app.stop()

        with pytest.raises(
            HandlerError, match=r"handle at .* offset 1 failed: ValueError: no good"
        ) as raised:
            await app.run()
        assert isinstance(raised.value, client_errors.KafkaError)
        assert "dead_letters" in raised.value.advice
        assert seen == [b"fine", b"bad"]
        assert await committed(bootstrap, group, topic) == 1
        is_repaired = True
        await app.run()
        assert seen == [b"fine", b"bad", b"bad", b"behind"]
        assert await committed(bootstrap, group, topic) == 3

    run(work())


def test_a_stop_finishes_what_has_begun(bootstrap: str, topic: str, group: str, run: Run) -> None:
    """Also what the handler sent without waiting is written before the offset is committed."""

    async def work() -> None:
        await make_topic(bootstrap, topic)
        await make_topic(bootstrap, topic + ".out")
        await fill(bootstrap, topic, *[(b"%d" % number, None) for number in range(20)])
        app = App(bootstrap_servers=bootstrap, group_id=group, max_in_progress=4, **QUICK)
        most = 0
        now = 0
        done: list[bytes] = []

        @app.handler(topic, concurrency=100)
        async def handle(record: ConsumerRecord) -> None:
            nonlocal most, now
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            await app.producer.send(topic + ".out", record.value)
            now -= 1
            done.append(record.value)
            if len(done) == 10:
                app.stop()

        await app.run()
        assert most <= 4
        assert 10 <= len(done) <= 14
        assert await committed(bootstrap, group, topic) == len(done)
        app.stop()
        async with Consumer(topic + ".out", bootstrap_servers=bootstrap, auto_offset_reset="earliest") as out:
            assert {(await out.getone()).value for _ in done} == set(done)

    run(work())


def test_what_is_wrong_is_said_when_it_is_declared() -> None:
    with pytest.raises(ConfigError, match=r"group\.id"):
        App(bootstrap_servers="a:1")
    app = App(bootstrap_servers="a:1", group_id="g")
    with pytest.raises(TypeError, match="name the topics"):
        app.handler()
    with pytest.raises(client_errors.InvalidTopicError):
        app.handler("no spaces")
    with pytest.raises(ValueError, match="concurrency"):
        app.handler("t", concurrency=0)
    app.handler("t")(print)
    with pytest.raises(ValueError, match="t has a handler already"):
        app.handler("t")
    with pytest.raises(RuntimeError, match="no handler"):
        asyncio.run(App(bootstrap_servers="a:1", group_id="g").run())
