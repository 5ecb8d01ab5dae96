"""From sources to a topic, and through the absence of its broker."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from barnabas.base.errors import KafkaError
from barnabas.client import Consumer, Producer
from barnabas.client.errors.local import KafkaTimeoutError
from barnabas.client.model import TopicPartition
from barnabas.collect import Collector, FileSource
from barnabas.collect import collector as collector_module
from barnabas.collect.positions import PositionsFile
from tools.raw_broker import BrokerProcess

PATIENCE_S = 120


async def values(
    bootstrap: str, topic: str
) -> list[tuple[bytes | None, bytes, tuple[tuple[str, bytes | None], ...]]]:
    """Everything that is in the topic now."""
    async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        results: list[Any] = []
        async with asyncio.timeout(PATIENCE_S):
            while len(results) < end:
                results += [(one.key, one.value, one.headers) for one in await consumer.poll(timeout_ms=200)]
        return results


def test_every_line_becomes_a_record_that_says_where_it_is_from(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    """M-I3."""
    (tmp_path / "a.log").write_text("one\ntwo\n", "utf-8")

    async def run() -> None:
        source = FileSource([f"{tmp_path}/*.log"], until_end=True)
        collector = Collector(topic, [source], {"bootstrap.servers": bootstrap}, key_by_origin=True)
        await collector.run()
        assert collector.lines_written == 2
        origin = str(tmp_path / "a.log").encode()
        found = await values(bootstrap, topic)
        assert found == [(origin, line, (("origin", origin),)) for line in (b"one", b"two")]

    asyncio.run(run())


def test_a_line_may_come_in_many_parts(
    bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part without the end of a line is read, and nothing is sent for it."""
    monkeypatch.setattr("barnabas.collect.follower.CHUNK_BYTES", 10)
    (tmp_path / "a.log").write_text(f"{'x' * 100}\ntwo\n{'y' * 50}\n", "utf-8")

    async def run() -> None:
        source = FileSource([f"{tmp_path}/*.log"], until_end=True)
        await Collector(topic, [source], {"bootstrap.servers": bootstrap}).run()
        assert [found[1] for found in await values(bootstrap, topic)] == [b"x" * 100, b"two", b"y" * 50]

    asyncio.run(run())


def test_nothing_is_lost_while_the_broker_is_away(broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    bootstrap = f"{broker.address[0]}:{broker.address[1]}"
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("".join(f"before {number}\n" for number in range(100)), "utf-8")

    async def run() -> None:
        collector = Collector(
            topic, [FileSource([str(path)], PositionsFile(str(state)))], {"bootstrap.servers": bootstrap}
        )
        running = asyncio.ensure_future(collector.run())
        async with asyncio.timeout(PATIENCE_S):
            while collector.lines_written < 100:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(broker.kill)
            with path.open("a") as file:
                file.writelines(f"meanwhile {number}\n" for number in range(1000))
            while collector.lines_sent < 1100:
                await asyncio.sleep(0.01)
            assert collector.lines_written == 100
            await asyncio.to_thread(broker.start)
            while collector.lines_written < 1100:
                await asyncio.sleep(0.01)
            collector.stop()
            await running
        lines = [value for _, value, _ in await values(bootstrap, topic)]
        assert lines == path.read_bytes().splitlines()
        assert [one.offset for one in PositionsFile(str(state)).load()] == [path.stat().st_size]

    asyncio.run(run())


def lines_of(path: Path, count: int) -> None:
    path.write_text("".join(f"{number:04} {'x' * 1000}\n" for number in range(count)), "utf-8")


# A buffer for a few lines only.
LITTLE = {"buffer.memory": 40_000, "batch.size": 8_000, "compression.type": "none"}


def test_while_the_broker_is_away_no_more_is_read_than_there_is_room_for(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    bootstrap = f"{broker.address[0]}:{broker.address[1]}"
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("", "utf-8")

    async def run() -> None:
        source = FileSource([str(path)], PositionsFile(str(state)))
        collector = Collector(topic, [source], {"bootstrap.servers": bootstrap, **LITTLE})
        running = asyncio.ensure_future(collector.run())
        async with asyncio.timeout(PATIENCE_S):
            while not source.followed:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(broker.kill)
            lines_of(path, 2000)
            before = -1
            while before < source.followed[0].offset or not source.followed[0].offset:
                before = source.followed[0].offset
                await asyncio.sleep(0.5)
            # One chunk waits for the buffer; the others are still in the file.
            assert 0 < before < path.stat().st_size / 2
            assert not running.done()
            await asyncio.to_thread(broker.start)
            while collector.lines_written < 2000:
                await asyncio.sleep(0.01)
            collector.stop()
            await running
        assert [value for _, value, _ in await values(bootstrap, topic)] == path.read_bytes().splitlines()

    asyncio.run(run())


def test_a_stop_without_a_broker_ends_and_the_next_start_continues(
    broker: BrokerProcess, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector_module, "DRAIN_S", 0.2)
    bootstrap = f"{broker.address[0]}:{broker.address[1]}"
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("first\n", "utf-8")

    async def run() -> None:
        source = FileSource([str(path)], PositionsFile(str(state)))
        collector = Collector(topic, [source], {"bootstrap.servers": bootstrap, **LITTLE})
        running = asyncio.ensure_future(collector.run())
        async with asyncio.timeout(PATIENCE_S):
            while collector.lines_written < 1:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(broker.kill)
            with path.open("a") as file:
                file.writelines(f"{number:04} {'x' * 1000}\n" for number in range(500))
            while source.followed[0].offset == len("first\n"):
                await asyncio.sleep(0.01)
            collector.stop()
            with pytest.raises(KafkaTimeoutError, match=r"[1-9]\d* lines are not written after") as caught:
                await running
            assert "at the next start" in caught.value.message
        await asyncio.to_thread(broker.start)
        assert [one.offset for one in PositionsFile(str(state)).load()] == [len("first\n")]
        again = FileSource([str(path)], PositionsFile(str(state)), until_end=True)
        await Collector(topic, [again], {"bootstrap.servers": bootstrap}).run()
        assert [value for _, value, _ in await values(bootstrap, topic)] == path.read_bytes().splitlines()

    asyncio.run(run())


def test_it_says_that_nothing_is_written_and_when_it_is_again(
    broker: BrokerProcess,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(collector_module, "STANDSTILL_S", 0.1)
    bootstrap = f"{broker.address[0]}:{broker.address[1]}"
    path = tmp_path / "a.log"
    path.write_text("first\n", "utf-8")

    async def logged(text: str) -> None:
        while text not in caplog.text:
            await asyncio.sleep(0.01)

    async def run() -> None:
        collector = Collector(topic, [FileSource([str(path)])], {"bootstrap.servers": bootstrap})
        running = asyncio.ensure_future(collector.run())
        async with asyncio.timeout(PATIENCE_S):
            while collector.lines_written < 1:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(broker.kill)
            caplog.clear()
            with path.open("a") as file:
                file.write("second\n")
            await logged(f"nothing was written to {topic}")
            await asyncio.to_thread(broker.start)
            await logged(f"lines are written to {topic} again")
            collector.stop()
            await running

    asyncio.run(run())


def test_a_stop_before_a_broker_was_found_is_immediate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector_module, "FIRST_CONTACT_MS", 600_000)
    (tmp_path / "a.log").write_text("one\n", "utf-8")

    async def run() -> None:
        asked = asyncio.Event()
        find = Producer.partitions_for

        async def watched(self: Producer, *given: Any, **options: Any) -> Any:
            asked.set()
            return await find(self, *given, **options)

        monkeypatch.setattr(Producer, "partitions_for", watched)
        source = FileSource([f"{tmp_path}/a.log"])
        collector = Collector("t", [source], {"bootstrap.servers": "127.0.0.1:1"})
        running = asyncio.ensure_future(collector.run())
        async with asyncio.timeout(PATIENCE_S):
            await asked.wait()
        assert not running.done()
        collector.stop()
        async with asyncio.timeout(PATIENCE_S):
            await running
        assert (collector.lines_sent, source.followed) == (0, [])

    asyncio.run(run())


def test_a_record_that_is_refused_ends_it_and_is_not_passed_over(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    path, state = tmp_path / "a.log", tmp_path / "state.json"
    path.write_text("x" * 3000 + "\n", "utf-8")

    async def run() -> None:
        source = FileSource([str(path)], PositionsFile(str(state)), until_end=True)
        properties = {"bootstrap.servers": bootstrap, "max.request.size": 2000}
        with pytest.raises(KafkaError, match="larger than"):
            await Collector(topic, [source], properties).run()
        assert [one.offset for one in PositionsFile(str(state)).load()] == [0]

    asyncio.run(run())


def test_unsaved_positions_are_reported_when_all_is_written(
    bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.log").write_text("one\ntwo\n", "utf-8")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(PositionsFile, "save", full)

    async def run() -> None:
        source = FileSource([f"{tmp_path}/*.log"], PositionsFile(str(tmp_path / "state")), until_end=True)
        collector = Collector(topic, [source], {"bootstrap.servers": bootstrap})
        with pytest.raises(OSError, match="positions are not saved"):
            await collector.run()
        assert collector.lines_written == 2

    asyncio.run(run())


def test_a_standstill_is_reported_once_and_so_is_its_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Pause:
        def __await__(self) -> Generator[None, None, None]:
            yield

    monkeypatch.setattr(asyncio, "sleep", lambda _: Pause())
    collector = Collector("lines", [], {})
    watching = collector._warn_of_standstill()
    watching.send(None)

    def logged(sent: int, written: int) -> list[str]:
        """The first word of what is logged when the next check finds these numbers."""
        caplog.clear()
        collector.lines_sent, collector.lines_written = sent, written
        watching.send(None)
        return [record.getMessage().split()[0] for record in caplog.records]

    assert logged(0, 0) == []
    assert logged(9, 0) == [], "the lines may be new"
    assert logged(9, 3) == [], "some were written"
    assert logged(9, 3) == ["nothing"]
    assert logged(9, 3) == []
    assert logged(12, 3) == []
    assert logged(12, 4) == ["lines"], "are written again"
    assert logged(12, 5) == []
    assert logged(12, 5) == ["nothing"]
    watching.close()


def test_a_topic_that_is_not_found_is_an_error_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.log").write_text("one\n", "utf-8")

    async def nothing(*_: object, **__: object) -> None:
        raise KafkaTimeoutError("topic t is not found")

    async def run() -> None:
        monkeypatch.setattr(Producer, "partitions_for", nothing)
        source = FileSource([f"{tmp_path}/a.log"], until_end=True)
        collector = Collector("t", [source], {"bootstrap.servers": "127.0.0.1:1"})
        with pytest.raises(KafkaTimeoutError, match="topic t is not found"):
            async with asyncio.timeout(PATIENCE_S):
                await collector.run()
        assert (collector.lines_sent, source.followed) == (0, [])

    asyncio.run(run())
