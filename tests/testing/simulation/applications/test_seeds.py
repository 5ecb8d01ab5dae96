"""Applications in a virtual world: a race is found, and its seed plays the same again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from barnabas.client import Consumer, Producer
from barnabas.testing.simulation import given_seeds
from barnabas.testing.simulation.applications.seeds import play
from barnabas.testing.simulation.applications.world import ApplicationWorld

ORDERS = 10
# The race must be found within so many.
SEEDS = 200


def orders_with(*, commits_first: bool) -> Callable[[ApplicationWorld], Awaitable[None]]:
    """A worker that processes orders, and commits before it has processed them, or after."""

    async def test(world: ApplicationWorld) -> None:
        processed: list[bytes | None] = []
        await world.create_topic("orders")

        async def worker() -> None:
            async with Consumer(
                bootstrap_servers=world.bootstrap_servers,
                group_id="workers",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                session_timeout_ms=6_000,
            ) as consumer:
                consumer.subscribe(["orders"])
                while True:
                    for record in await consumer.poll(timeout_ms=500):
                        if commits_first:
                            await consumer.commit()
                        await asyncio.sleep(0.05)
                        processed.append(record.value)
                    if not commits_first:
                        await consumer.commit()

        world.start("worker", worker)
        async with Producer(bootstrap_servers=world.bootstrap_servers) as producer:
            for number in range(ORDERS):
                await (await producer.send("orders", str(number).encode()))
                await asyncio.sleep(0.3)
        world.calm()
        await world.until(lambda: len(set(processed)) == ORDERS, timeout=60)

    return test


def test_a_commit_before_processing_is_found_and_plays_again() -> None:
    with pytest.raises(AssertionError, match="does not hold after 60 s of virtual time") as found:
        given_seeds(SEEDS)(orders_with(commits_first=True))()
    note = found.value.__notes__[0]
    seed = int(note.split()[1])
    assert f"BARNABAS_SEED={seed} pytest" in note
    with pytest.raises(AssertionError) as again:
        play(orders_with(commits_first=True), seed)
    assert str(again.value) == str(found.value)
    # The same seed is no trouble for a worker that commits afterwards.
    assert play(orders_with(commits_first=False), seed).crashes > 0


def test_the_right_order_holds_in_every_world() -> None:
    given_seeds(10)(orders_with(commits_first=False))()


def test_a_seed_is_the_same_run_in_every_process() -> None:
    test = orders_with(commits_first=False)
    assert play(test, 3).digest == play(test, 3).digest != play(test, 4).digest
    program = (
        "from tests.testing.simulation.applications.test_seeds import orders_with, play\n"
        "print(play(orders_with(commits_first=False), 3).digest)"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).resolve().parents[4],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert digests == {play(test, 3).digest + "\n"}


def test_one_seed_is_played_if_the_environment_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    async def test(world: ApplicationWorld) -> None:
        seeds.append(world.seed)

    given_seeds(3, first=5)(test)()
    monkeypatch.setenv("BARNABAS_SEED", "17")
    given_seeds(3)(test)()
    assert seeds == [5, 6, 7, 17]


def test_errors_of_processes_and_brokers_that_crash_are_no_secret() -> None:
    async def faulty(world: ApplicationWorld) -> None:
        async def process() -> None:
            raise ZeroDivisionError

        world.start("faulty", process, crashes=False)
        await world.until(lambda: False, timeout=60)

    with pytest.raises(ZeroDivisionError):
        play(faulty, 1)

    async def with_a_broker_that_crashes(world: ApplicationWorld) -> None:
        await world.create_topic("orders")
        world.disturb()
        async with Producer(bootstrap_servers=world.bootstrap_servers) as producer:
            for number in range(5):
                await (await producer.send("orders", str(number).encode()))
                world.crash_broker()
        read: list[bytes | None] = []
        async with Consumer(bootstrap_servers=world.bootstrap_servers) as consumer:
            from barnabas.client import TopicPartition

            consumer.assign([TopicPartition("orders", 0)])
            consumer.seek_to_beginning(TopicPartition("orders", 0))
            while len(read) < 5:
                read += [record.value for record in await consumer.poll(timeout_ms=500)]
        assert read == [str(number).encode() for number in range(5)]

    for seed in range(3):
        play(with_a_broker_that_crashes, seed)


def test_three_brokers_take_part() -> None:
    async def test(world: ApplicationWorld) -> None:
        await world.create_topic("orders", partitions=3)
        async with Producer(bootstrap_servers=world.bootstrap_servers) as producer:
            await (await producer.send("orders", b"a"))

    given_seeds(1, brokers=3)(test)()
